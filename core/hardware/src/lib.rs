//! The hardware below the pools: the health of disks by smartctl(8), the slots of enclosures by the kernel's SES driver,
//! paths to disks and links to networks by sysfs, the sensors of a BMC by ipmitool(1), and power supplies
//! by NUT. Parsers only: the caller runs the commands.

#![forbid(unsafe_code)]

pub mod nut;
pub mod sensors;
pub mod slots;
pub mod smart;
pub mod ways;

/// Longest text of a disk, an enclosure or a sensor that is kept, in characters.
const TEXT_CHARS_MAX: usize = 64;

/// The text of a device as short plain text.
fn printable(text: &str) -> String {
    units::printable(text, TEXT_CHARS_MAX)
}
