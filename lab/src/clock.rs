//! The wall clock of a head: how far it is from this machine's. The programs of the head learn it
//! from a library that is loaded into each of them (`native/lab-clock`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use units::HeadName;

use crate::directory::LabDirectory;

/// The library, compiled with this crate.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));
/// Where it is on a head.
pub const LIBRARY_IN_NODE: &str = "/run/lab/clock.so";
/// The file with the clock offset of a head; its path is known to the library.
pub const CLOCK_IN_NODE: &str = "/run/lab/clock";
/// Configures the dynamic linker to load the library into every process (ld.so(8)).
pub const PRELOAD: &str = "ld.so.preload";

/// Writes the library, before the heads are prepared.
pub fn write_library(folder: &LabDirectory) -> io::Result<()> {
    std::fs::write(folder.clock_library(), LIBRARY)
}

/// Sets the clock of a head without power to the time of this host.
pub fn prepare(folder: &LabDirectory, name: &str, etc: &Path) -> io::Result<()> {
    std::fs::write(folder.clock(name), 0_i64.to_ne_bytes())?;
    std::fs::write(etc.join(PRELOAD), format!("{LIBRARY_IN_NODE}\n"))
}

/// Sets the clock, for all programs at once. It stays so without power.
pub fn set(folder: &LabDirectory, head: &HeadName, ahead_s: i32) -> io::Result<()> {
    const NANOSECONDS: i64 = 1_000_000_000;
    // In place: the programs have this very file mapped.
    let file = File::options()
        .write(true)
        .open(folder.clock(head.as_str()))?;
    file.write_all_at(&(i64::from(ahead_s) * NANOSECONDS).to_ne_bytes(), 0)
}
