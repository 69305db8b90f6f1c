//! Reads and writes a leg of a pool that lies on another head.
//!
//! [`Transport`] is the interface of the driver to such a leg. [`NbdLeg`] implements it: pipelined requests on one TCP
//! connection, without a thread per request, and a durable write in one round trip.
//!
//! **A closed connection** does not fail any operation yet. Operations without a reply stay pending. The owner claims
//! the disk for a new session, so that the lender has ended all I/O of the old one, and resumes by [`NbdLeg::resume`]:
//! all pending requests are sent again, in their order.
//!
//! **A silent lender** with pending requests is probed by a separate connection. If it is alive, its disk may be slow,
//! and has until the deadline. If it is not, the leg fails at once.
//!
//! **A failed leg** stays failed: a request exceeded its deadline, the lender is dead, the lender was restarted (it may
//! have lost acknowledged, unflushed writes), or it violated the protocol. All its I/O then fails. The caller may have
//! to withhold the error from ZFS.

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

/// The leg, and the session that permits writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The disk.
    pub disk: DiskId,
    /// The session that the lender admitted.
    pub session: Session,
    /// The start of the lender.
    pub incarnation: u64,
}

/// The operation.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Read an extent.
    Read(Extent),
    /// Write at a byte.
    Write {
        /// Where.
        offset: u64,
        /// The data.
        data: Arc<Vec<u8>>,
        /// It is durable when it is done (FUA).
        durable: bool,
    },
    /// Makes completed writes durable.
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
    /// The leg exceeded its deadline.
    #[error("the leg did not respond within its deadline")]
    Deadline,
    /// The lender is silent, and does not accept connections.
    #[error("the lender of the leg does not respond at all")]
    Silent,
    /// The lender was restarted, and may have lost acknowledged writes.
    #[error("the lender of the leg was restarted")]
    OtherIncarnation,
    /// The lender violates the protocol.
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

/// Called once at the end of an operation, on a thread of the leg; with the bytes of a read. It holds no lock, and may
/// submit more.
pub type Done = Box<dyn FnOnce(Result<Vec<u8>, LegError>) + Send>;

/// A way to a leg.
pub trait Transport: Send + Sync {
    /// Which leg it is.
    fn identity(&self) -> Identity;

    /// Its size in bytes.
    fn bytes(&self) -> u64;

    /// Submits an operation. Never blocks. `done` may be called before this returns if the leg has failed.
    fn submit(&self, operation: Operation, done: Done);
}
