//! The configuration that the leg-server or witness has read: another process can compare it with the present file.
//!
//! The file `configuration` has the number of the process, then the text.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Locked by the leg-server or witness while it runs.
const LOCK: &str = "lock";

fn path(folder: &Path) -> PathBuf {
    folder.join("configuration")
}

/// Publishes the configuration `text` that this process, which has locked the directory, has read.
///
/// # Errors
///
/// An I/O error. Then other processes cannot see the configuration.
pub fn note_configuration(folder: &Path, text: &str) -> io::Result<()> {
    let path = path(folder);
    let new = path.with_extension("new");
    // Not durable: it only has to be valid while the process runs.
    std::fs::write(&new, format!("{}\n{text}", std::process::id()))?;
    std::fs::rename(&new, &path)
}

/// Returns the configuration that the running process has read. `None` if no process runs, or it does not publish one.
pub fn configuration(folder: &Path) -> Option<String> {
    let noted = std::fs::read_to_string(path(folder)).ok()?;
    let (process, text) = noted.split_once('\n')?;
    let process: u32 = process.parse().ok()?;
    let lock = File::open(folder.join(LOCK)).ok()?;
    let is_free = flock(&lock, FlockOperation::NonBlockingLockShared).is_ok();
    let is_there = Path::new("/proc").join(process.to_string()).exists();
    (!is_free && is_there).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_once_read_is_cached_for_process_lifetime() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        assert_eq!(configuration(folder), None);
        let lock = crate::lock_file(&folder.join(LOCK)).expect("free");
        assert_eq!(configuration(folder), None, "an earlier release");
        note_configuration(folder, "me = 1\n").expect("noted");
        assert_eq!(configuration(folder).as_deref(), Some("me = 1\n"));
        note_configuration(folder, "me = 2\n").expect("noted");
        assert_eq!(configuration(folder).as_deref(), Some("me = 2\n"));
        drop(lock);
        assert_eq!(configuration(folder), None, "it ended");
        let lock = crate::lock_file(&folder.join(LOCK)).expect("free");
        // No process has such a number: that was one of an earlier boot.
        std::fs::write(path(folder), "4194305\nme = 2\n").expect("written");
        assert_eq!(configuration(folder), None, "another process has the lock");
        drop(lock);
    }
}
