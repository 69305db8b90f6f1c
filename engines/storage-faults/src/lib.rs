//! Devices that fail on purpose: decorators that make any [`block_device::BlockDevice`] return
//! errors, hang, or refuse to complete without blocking, under control of a test or a drill. It is
//! part of the product, because users rehearse failures with it too.

#![forbid(unsafe_code)]

mod faulty;

pub use faulty::{Fault, FaultyDevice, Operation};
