//! Lends disks of this host to the heads that own pools on them, over NBD, to one session of one term at a time.
//!
//! A head claims a disk ([`Lender::claim`]). The lender stores its term durably, disconnects the former session, and
//! blocks until no I/O of that session can complete any more. Then it names an export that only the new session has.
//! All writes to a disk use that path. [`leg_record::Lender`] decides; this crate performs.
//!
//! * `disk`: one raw disk as a device. `gate`: which session's I/O may begin. `lender_state`: the state that survives a
//!   restart.

#![forbid(unsafe_code)]

mod aligned;
mod device;
mod disk;
mod gate;
mod lender;
mod lender_state;

pub use disk::{Disk, OpenError};
pub use lender::{ClaimError, Grant, Inspection, LendError, Lender, Settings, contents};
pub use lender_state::StateFileError;
