//! Whom the deciding thread asks: the store in this process, or members by messages.

use std::path::PathBuf;
use std::sync::Arc;

use certificates::Identity;
use leg_memory::{Store, StoreError};
use members::Peer;
use takeover::legs::{Config, Memory};

use crate::linked::Linked;
use crate::{Failure, Reporter};

/// Who remembers, and how it is reached.
pub enum Members {
    /// This process alone, in this folder.
    Own(PathBuf),
    /// Members by messages.
    Links(Network),
}

/// The members, as they are reached.
pub struct Network {
    /// The key of this head.
    pub identity: Arc<Identity>,
    /// All members, this head's among them.
    pub peers: Vec<Peer>,
    /// Where the member of this head remembers.
    pub folder: PathBuf,
    /// The other head is confirmed to be off, by a fence or a person: until it is heard.
    pub other_is_stopped: bool,
}

pub(crate) enum Asking {
    Own(Box<Store>),
    Links(Box<Linked>),
}

impl Asking {
    pub(crate) fn start(
        members: Members,
        config: &Config,
        boot: u64,
        reporter: &Reporter,
    ) -> Result<Self, Failure> {
        Ok(match members {
            Members::Own(folder) => Self::Own(Box::new(Store::open(&folder, config.pool)?)),
            Members::Links(network) => {
                Self::Links(Box::new(Linked::start(network, config, boot, reporter)?))
            }
        })
    }

    /// What this head's own member has on stable storage.
    pub(crate) fn memory(&self) -> &Memory {
        match self {
            Self::Own(store) => store.memory(),
            Self::Links(linked) => linked.own(),
        }
    }

    pub(crate) fn linked(&mut self) -> Option<&mut Linked> {
        match self {
            Self::Own(_) => None,
            Self::Links(linked) => Some(linked),
        }
    }
}

/// Why nothing can be decided any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Halt {
    /// What this head remembers cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Said as it is.
    #[error("{0}")]
    Because(String),
}
