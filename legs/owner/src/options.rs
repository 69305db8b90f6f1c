//! The options of an owner of a pool with legs, and why it does not open or create the pool.

use leg_memory::StoreError;
use leg_record::{Action, Config};

use crate::requester::Members;

/// Why a pool with legs is not opened or created.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The state of this head's member cannot be read or written.
    #[error("the record of the pool's legs cannot be used")]
    Store(#[from] StoreError),
    /// By the record.
    #[error("the pool is not opened: {0}")]
    Refused(String),
    /// The pool could not be opened, or a disk could not be stamped.
    #[error("{0}")]
    Side(String),
    /// A pool is not created, because data on its disks would be lost.
    #[error("{0}")]
    Overwrites(String),
    /// A pool is not created, because it exists.
    #[error("{0}")]
    Exists(String),
}

/// Called with each action before it is performed.
pub type BeforeAction = Box<dyn Fn(&Action) + Send>;

/// Options of the owner of a pool with legs.
pub struct Options {
    /// The static configuration.
    pub config: Config,
    /// The members.
    pub members: Members,
    /// Used by tests to exit at a chosen action.
    pub before_action: Option<BeforeAction>,
}
