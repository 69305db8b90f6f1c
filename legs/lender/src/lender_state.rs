//! The durable state of a lender for one disk, in the format of `docs/formats/leg-record.md`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use leg_record::codec::{LENT_BYTES, decode_lent, encode_lent};
use leg_record::{DiskId, LenderState};

/// Why it cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The system failed.
    #[error("{}", .0.display())]
    System(PathBuf, #[source] io::Error),
    /// Unknown contents, damaged, or of another disk or version.
    #[error(
        "{} is damaged or of another disk, so the last writer of the disk is unknown: when its pool is not in use, remove this \
         file; the disk then counts as one with a foreign history",
        .0.display()
    )]
    Refused(PathBuf),
}

/// The file of one disk.
#[derive(Debug)]
pub(crate) struct StateFile {
    folder: PathBuf,
    disk: DiskId,
    /// A write failed: the contents of the file are unknown until a write succeeds.
    is_doubtful: bool,
}

impl StateFile {
    pub(crate) fn new(folder: &Path, disk: DiskId) -> Self {
        Self {
            folder: folder.to_owned(),
            disk,
            is_doubtful: false,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.lent", self.disk.0))
    }

    /// The stored state; `None` for a disk that was never lent.
    pub(crate) fn read(&self) -> Result<LenderState, StateFileError> {
        let path = self.path();
        let mut bytes = Vec::new();
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(LenderState::default());
            }
            Err(error) => return Err(StateFileError::System(path, error)),
            Ok(file) => {
                let read = file.take(LENT_BYTES as u64 + 1).read_to_end(&mut bytes);
                read.map_err(|error| StateFileError::System(path.clone(), error))?;
            }
        }
        decode_lent(&bytes, self.disk).ok_or(StateFileError::Refused(path))
    }

    /// Stores `write`, or all of `now` if a write failed before. No reply may be sent unless it succeeds.
    pub(crate) fn keep(
        &mut self,
        write: Option<LenderState>,
        now: impl FnOnce() -> LenderState,
    ) -> Result<(), StateFileError> {
        let due = write.or_else(|| self.is_doubtful.then(now));
        if let Some(kept) = due {
            self.is_doubtful = true;
            self.write(kept)?;
            self.is_doubtful = false;
        }
        Ok(())
    }

    /// A new file, flushed, renamed over the old one, and the directory flushed.
    fn write(&self, kept: LenderState) -> Result<(), StateFileError> {
        let path = self.path();
        let new = path.with_extension("lent.new");
        let write = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(&encode_lent(self.disk, &kept))?;
            file.sync_all()?;
            std::fs::rename(&new, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|error| StateFileError::System(path.clone(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leg_record::{Ballot, Session};

    const DISK: DiskId = DiskId(5);

    fn kept() -> LenderState {
        let ballot = |epoch| Ballot { epoch, nonce: 9 };
        LenderState {
            enforced: ballot(4),
            mark: Session {
                ballot: ballot(3),
                number: 2,
            },
        }
    }

    #[test]
    fn failed_write_is_repeated_before_next_reply() {
        let folder = tempfile::tempdir().expect("folder");
        let mut file = StateFile::new(folder.path(), DISK);
        let new = file.path().with_extension("lent.new");
        std::fs::create_dir(&new).expect("in the way");
        let nothing = || panic!("not asked for");
        file.keep(Some(kept()), nothing).expect_err("cannot write");
        file.keep(None, kept).expect_err("still not");
        std::fs::remove_dir(&new).expect("out of the way");
        file.keep(None, kept).expect("written");
        assert_eq!(file.read().expect("kept"), kept());
        file.keep(None, nothing).expect("nothing to do");
    }

    #[test]
    fn damaged_file_is_refused_missing_file_means_new_disk() {
        let folder = tempfile::tempdir().expect("folder");
        let file = StateFile::new(folder.path(), DISK);
        assert_eq!(file.read().expect("new"), LenderState::default());
        file.write(kept()).expect("kept");
        assert_eq!(file.read().expect("kept"), kept());
        std::fs::write(file.path(), b"BULKLENT").expect("damaged");
        assert!(matches!(file.read(), Err(StateFileError::Refused(_))));
    }
}
