//! Reads and writes a leg of a pool that lies on another head.
//!
//! [`Transport`] is what the driver of a pool needs of any way to such a leg. [`NbdLeg`] is the first: requests in a row on one
//! TCP connection, without a thread per request, and a durable write in one round trip.
//!
//! **A connection that ends** fails nothing yet. What was not answered waits. The owner claims the disk for a next session, so the lender
//! has ended all I/O of the old one, and has it go on by [`NbdLeg::resume`]: everything unanswered is sent again, in its
//! order.
//!
//! **A lender that says nothing** while something is under way is asked whether it lives, by a connection of its own. If it is, its disk
//! may be slow, and has until the deadline. If it is not, nobody waits for that.
//!
//! **A leg that failed** stays failed: a request took longer than its deadline, the lender does not live, the lender started anew (it may have lost what it answered and
//! nobody flushed), or it broke the protocol. All its I/O ends with an error then. What a caller
//! does with an error is its own affair: it may have to withhold it from ZFS.

#![forbid(unsafe_code)]

mod handshake;
mod life;
mod nbd_leg;
mod request;
mod wire;

use std::sync::Arc;

pub use handshake::agree;
use leg_record::{DiskId, Session};
pub use nbd_leg::{Access, Awaited, Event, NbdLeg, Settings};
use units::Extent;

/// Which leg it is, and by what right it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The disk.
    pub disk: DiskId,
    /// The session that the lender admitted.
    pub session: Session,
    /// The start of the lender.
    pub incarnation: u64,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Read an extent.
    Read(Extent),
    /// Write at a byte.
    Write {
        /// Where.
        offset: u64,
        /// What.
        data: Arc<Vec<u8>>,
        /// It is durable when it is done (FUA).
        durable: bool,
    },
    /// Make what was done durable.
    Flush,
    /// The contents are not needed any more.
    Discard(Extent),
}

impl Operation {
    /// Bytes that a read returns.
    fn read_bytes(&self) -> usize {
        match self {
            Self::Read(extent) => extent.length as usize,
            _ => 0,
        }
    }

    fn extent(&self) -> Extent {
        match self {
            Self::Read(extent) | Self::Discard(extent) => *extent,
            Self::Write { offset, data, .. } => Extent::new(*offset, data.len() as u64),
            Self::Flush => Extent::new(0, 0),
        }
    }
}

/// Why an operation, or the whole leg, failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LegError {
    /// The lender's disk did, with this number of the protocol.
    #[error("the disk at its lender failed: error {0}")]
    Disk(u32),
    /// It lies beyond the end of the leg, or is longer than the protocol carries.
    #[error("beyond the end of the leg, or too long")]
    Range,
    /// More requests or bytes are under way than a leg carries.
    #[error("too much is under way on the leg")]
    TooMuch,
    /// The leg did not answer in time.
    #[error("the leg did not answer within its deadline")]
    Deadline,
    /// Nothing was heard of the lender, and it does not take connections.
    #[error("the lender of the leg does not answer at all")]
    Silent,
    /// The lender started anew, and may have lost what it answered.
    #[error("the lender of the leg started anew")]
    OtherIncarnation,
    /// The lender says what it must not.
    #[error("the lender broke the protocol: {0}")]
    Protocol(&'static str),
    /// The lender refuses the session.
    #[error("the lender refuses: {0}")]
    Refused(String),
    /// The lender cannot be reached.
    #[error("the lender is not reached: {0}")]
    Unreachable(String),
    /// The leg was closed here.
    #[error("the leg was closed")]
    Closed,
}

/// Told once of the end of an operation, on a thread of the leg; with the bytes of a read. It holds no lock, and may submit more.
pub type Done = Box<dyn FnOnce(Result<Vec<u8>, LegError>) + Send>;

/// A way to a leg.
pub trait Transport: Send + Sync {
    /// Which leg it is.
    fn identity(&self) -> Identity;

    /// Its size in bytes.
    fn bytes(&self) -> u64;

    /// Takes over an operation. Never waits. `done` may be called before this returns if the leg has failed.
    fn submit(&self, operation: Operation, done: Done);
}
