//! Legs of OpenZFS pools, for the coordinator (`legs`): stamps on disks, the barrier in the device driver, resilvers,
//! and the driver for disks of other heads. Among the crates for legs only this one uses the library.

#![forbid(unsafe_code)]

pub mod multi_head;
mod remote;
pub mod side;
