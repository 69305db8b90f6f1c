//! The hardware below the pools: the health of disks by smartctl(8), the slots of enclosures by the kernel's SES driver,
//! and the sensors of a BMC by ipmitool(1). Parsers only: the caller runs the commands.

#![forbid(unsafe_code)]

pub mod sensors;
pub mod slots;
pub mod smart;
