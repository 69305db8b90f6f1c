//! The labels that ZFS writes on each device of a pool: its pool, and the last owner.
//! They are read without the ZFS library, so that a process that only needs a pool's owner starts
//! quickly.
//!
//! There are four copies, two at the start and two at the end of the device, so that one survives
//! when the rest are overwritten or a crash interrupts the write of one. In each, a ring of
//! uberblocks follows the description: the roots of the last transaction groups.

#![forbid(unsafe_code)]

mod contents;
mod device;
mod device_identity;
mod label;
mod list;
mod lock;
mod open;
mod shape;
mod twins;
mod uberblock;

pub use contents::{erase_other_contents, other_contents};
pub use device::{
    DEVICE_BYTES_MIN, Device, Source, forget_wiped, may_write_root, newest_settled, root_written,
};
pub use device_identity::{DeviceIdentity, Recorded, are_same_device, in_use_as, views};
pub use label::{Detached, Label, LabelState, RECORD, START, replacement_bytes_min};
pub use lock::LockProbe;
pub use open::open_disk;
pub use shape::Shape;
pub use twins::{Choice, PathMatch, RootId, Twin, choose, has_root};
pub use uberblock::Uberblock;
