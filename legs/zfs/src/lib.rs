//! Legs of pools of OpenZFS, for the coordinator (`legs`): stamps on disks, the barrier in the device driver, what the library has to
//! copy, and the driver for disks of other heads. Of the wing for legs only this crate names the library.

#![forbid(unsafe_code)]

pub mod multi_head;
mod remote;
pub mod side;
