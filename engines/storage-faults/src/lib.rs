//! Devices that fail on purpose: decorators that make any [`block_device::BlockDevice`] return
//! errors, hang, or refuse to answer without waiting, as a test or
//! a drill commands. Shipped, because users rehearse failures with it too.

#![forbid(unsafe_code)]

mod faulty;

pub use faulty::{Fault, FaultyDevice, Operation};
