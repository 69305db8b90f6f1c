//! Lends disks of this machine to the heads that own pools on them, over NBD, to one session of one term at a time.
//!
//! A head claims a disk ([`Lender::claim`]). The lender notes its term durably, cuts off whoever had the disk before, and waits until
//! nothing of that can land any more. Then it names an export that only this session knows. Nothing is
//! written to a disk in another way. [`leg_record::Lender`] decides; this crate performs.
//!
//! * `disk`: one raw disk as a device. `gate`: which session's I/O may begin. `kept`: what outlives a restart.

#![forbid(unsafe_code)]

mod aligned;
mod device;
mod disk;
mod gate;
mod kept;
mod lender;

pub use disk::{Disk, OpenError};
pub use kept::KeptError;
pub use lender::{ClaimError, Grant, LendError, Lender, Look, Settings, contents};
