//! Opens paths that can be disks and refuses all other file types. Paths come from requests, files and labels of other
//! pools, and opening some devices has side effects: a watchdog is armed, a tape rewinds, a pipe blocks until its peer
//! opens it.

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, fstat, open, stat};
use rustix::io::Errno;

/// Opens the block device or ordinary file at `path`.
///
/// # Errors
///
/// [`Errno::NOTBLK`] if it is of another type, which is not opened then; otherwise it cannot be opened.
pub fn open_disk(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    refuse_others(stat(path)?.st_mode)?;
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = open(path, flags, Mode::empty())?;
    refuse_others(fstat(&fd)?.st_mode)?;
    Ok(fd)
}

fn refuse_others(mode: u32) -> rustix::io::Result<()> {
    match FileType::from_raw_mode(mode) {
        FileType::BlockDevice | FileType::RegularFile => Ok(()),
        _ => Err(Errno::NOTBLK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The peer would see an open of the pipe: a writer's open succeeds only while a reader exists.
    #[test]
    fn non_disk_is_refused_without_being_opened() {
        let dir = tempfile::tempdir().expect("a dir");
        let pipe = dir.path().join("pipe");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode, 0).expect("a pipe");
        for path in [
            Path::new("/dev/null"),
            Path::new("/dev/tty"),
            dir.path(),
            &pipe,
        ] {
            for flags in [OFlags::RDONLY, OFlags::RDWR] {
                let refused = open_disk(path, flags).expect_err("no disk");
                assert!(
                    matches!(refused, Errno::NOTBLK | Errno::NOENT),
                    "{}: {refused}",
                    path.display()
                );
            }
            crate::Device::open(path).expect_err("no disk");
            crate::other_contents(path).expect_err("no disk");
            crate::erase_other_contents(path).expect_err("no disk");
            crate::LockProbe::open(path)
                .map(|look| look.is_none())
                .unwrap_or(true)
                .then_some(())
                .expect("no disk");
        }
        let file = dir.path().join("disk");
        std::fs::write(&file, b"bytes").expect("written");
        open_disk(&file, OFlags::RDWR).expect("a file may be a disk");
    }
}
