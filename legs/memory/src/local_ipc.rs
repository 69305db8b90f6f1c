//! What the process that remembers and the one that owns a pool on the same machine tell each other by files.
//!
//! * `POOL.owner` is locked by who owns the pool here, or is about to: as long as that is so, this head promises nothing to others.
//! * `POOL.heard`: two heads: what the other head answered to this start of the process that remembers.
//! * `pulse`: whether the process that remembers runs all the time ([`Pulse`](crate::Pulse)).
//! * `POOL.fence-wanted`, `POOL.fence-confirmed`: two heads: see [`FenceRequest`](crate::FenceRequest).
//! * `heard`: counts what came from the other head, and its processes ([`Signs`](crate::Signs)). It is written before anything is answered, so who reads it after it was told of a
//!   vote of its own member knows of everything that was heard before the vote.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use leg_record::codec::Reader;
use leg_record::{MemberId, Memory, RECORD_BYTES_MAX, decode_memory, encode_memory};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The folder in which a head remembers the records of its pools, below its state directory.
pub fn folder(state: &Path) -> PathBuf {
    state.join("legs")
}

fn owner_path(folder: &Path, pool: u64) -> PathBuf {
    folder.join(format!("{pool}.owner"))
}

/// Says that the pool is owned on this machine, until the file is closed.
///
/// # Errors
///
/// Another process says so, or the system fails.
pub fn own(folder: &Path, pool: u64) -> io::Result<File> {
    crate::lock_file(&owner_path(folder, pool))
}

/// Whether a process of this machine owns the pool. If that cannot be found out, one does.
pub fn is_owned(folder: &Path, pool: u64) -> bool {
    let file = match File::open(owner_path(folder, pool)) {
        Ok(file) => file,
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

fn heard_path(folder: &Path, pool: u64) -> PathBuf {
    folder.join(format!("{pool}.heard"))
}

/// Keeps what the other head answered to the start `boot` of this process.
///
/// # Errors
///
/// The system fails.
pub fn note_heard(folder: &Path, pool: u64, boot: u64, memory: &Memory) -> io::Result<()> {
    let path = heard_path(folder, pool);
    let new = path.with_extension("heard.new");
    let mut bytes = boot.to_le_bytes().to_vec();
    bytes.extend(encode_memory(memory));
    // It need not outlive the machine, nor even this process.
    std::fs::write(&new, bytes)?;
    std::fs::rename(&new, &path)
}

/// Forgets what the other head answered.
///
/// # Errors
///
/// The system fails.
pub fn forget_heard(folder: &Path, pool: u64) -> io::Result<()> {
    match std::fs::remove_file(heard_path(folder, pool)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What the other head answered to the start `boot` of the process that remembers.
pub fn heard(folder: &Path, pool: u64, boot: u64) -> Option<Memory> {
    let path = heard_path(folder, pool);
    let length = std::fs::metadata(&path).ok()?.len();
    if length > RECORD_BYTES_MAX as u64 + 8 {
        return None;
    }
    let bytes = std::fs::read(&path).ok()?;
    let mut reader = Reader::new(&bytes);
    let is_of_boot = reader.number().ok()? == boot;
    let memory = decode_memory(reader.rest()).ok()?;
    is_of_boot.then_some(memory)
}

/// Processes of other heads that are remembered.
const PROCESSES_MAX: usize = 32;

/// Processes of other heads that were heard. One that is off, and is started again, speaks by new ones.
#[derive(Debug, Default)]
pub struct Processes(VecDeque<(MemberId, u64)>);

impl Processes {
    /// Something came from a process of a head, which has the random number `boot`. Whether that is a new one.
    pub fn hear(&mut self, head: MemberId, boot: u64) -> bool {
        let is_new = !self.0.contains(&(head, boot));
        if is_new {
            self.0.push_back((head, boot));
        }
        if self.0.len() > PROCESSES_MAX {
            self.0.pop_front();
        }
        is_new
    }
}

/// What one sign adds to the count, and what one of a new process adds.
const SIGN: u64 = 1;
const NEW_PROCESS: u64 = 1 << 40;

/// Whether a new process may have been heard between two counts of [`Signs`]. An earlier release does not count processes.
pub fn is_of_new_process(before: u64, now: u64) -> bool {
    now < NEW_PROCESS || before / NEW_PROCESS != now / NEW_PROCESS
}

/// Counts signs of the other head. One file is for all pools of the folder: it says of the head, and not of a pool, that it was heard.
#[derive(Debug)]
pub struct Signs {
    path: PathBuf,
    /// Another one when somebody removed the file: who counts and who reads must not have two.
    file: Mutex<File>,
    count: AtomicU64,
}

impl Signs {
    /// Of the folder, for who counts and for who reads.
    ///
    /// # Errors
    ///
    /// The system fails.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join("heard");
        let file = open_signs(&path)?;
        let count = counted(&file);
        if file.metadata()?.len() == 0 {
            // It has its place from now on, also when the disk is full later.
            file.write_all_at(&count.to_le_bytes(), 0)?;
        }
        Ok(Self {
            path,
            file: Mutex::new(file),
            count: AtomicU64::new(count),
        })
    }

    /// The file that is there, which is made again if it was removed.
    fn file(&self) -> io::Result<MutexGuard<'_, File>> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.metadata()?.nlink() == 0 {
            *file = open_signs(&self.path)?;
            self.count.fetch_max(counted(&file), Ordering::AcqRel);
        }
        Ok(file)
    }

    /// The other head was heard, by a new process or by one that was heard before.
    pub fn note(&self, is_new_process: bool) {
        let more = match is_new_process {
            true => NEW_PROCESS,
            false => SIGN,
        };
        // Written to memory. If it fails nothing is known of the other head, and what it is told must not be wrong.
        let written = self.file().and_then(|file| {
            let count = self.count.fetch_add(more, Ordering::AcqRel) + more;
            file.write_all_at(&count.to_le_bytes(), 0)
        });
        written.expect("a file of eight bytes is written");
    }

    /// A number that is another one whenever it was heard. What cannot be read counts as a new process.
    pub fn read(&self) -> u64 {
        match self.file() {
            Ok(file) => counted(&file),
            Err(_) => self.count.fetch_add(NEW_PROCESS, Ordering::AcqRel) + NEW_PROCESS,
        }
    }
}

fn open_signs(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn counted(file: &File) -> u64 {
    let mut bytes = [0; 8];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => 0,
    }
}

/// Whether the error says that another process has the lock.
pub fn is_locked(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::WOULDBLOCK.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_owned_as_long_as_the_file_is_open() {
        let folder = tempfile::tempdir().expect("folder");
        assert!(!is_owned(folder.path(), 5));
        let owner = own(folder.path(), 5).expect("free");
        assert!(is_owned(folder.path(), 5) && !is_owned(folder.path(), 6));
        drop(owner);
        assert!(!is_owned(folder.path(), 5));
    }

    #[test]
    fn what_was_heard_by_an_earlier_start_says_nothing() {
        let folder = tempfile::tempdir().expect("folder");
        let memory = Memory::default();
        note_heard(folder.path(), 5, 77, &memory).expect("noted");
        assert_eq!(heard(folder.path(), 5, 77), Some(memory));
        assert_eq!(heard(folder.path(), 5, 78), None);
        assert_eq!(heard(folder.path(), 6, 77), None);
    }

    #[test]
    fn signs_are_seen_by_another_process_and_after_a_restart() {
        let folder = tempfile::tempdir().expect("folder");
        let signs = Signs::open(folder.path()).expect("opened");
        let reader = Signs::open(folder.path()).expect("opened");
        let before = reader.read();
        signs.note(false);
        assert_ne!(reader.read(), before);
        let before = reader.read();
        Signs::open(folder.path()).expect("opened").note(false);
        assert_ne!(reader.read(), before);
    }

    #[test]
    fn a_sign_of_a_new_process_is_told_from_others() {
        let folder = tempfile::tempdir().expect("folder");
        let signs = Signs::open(folder.path()).expect("opened");
        let mut processes = Processes::default();
        let mut seen = signs.read();
        let mut hear = |boot| {
            signs.note(processes.hear(MemberId(2), boot));
            let before = std::mem::replace(&mut seen, signs.read());
            assert_ne!(seen, before);
            is_of_new_process(before, seen)
        };
        assert_eq!(
            [5, 5, 6, 5, 6, 7].map(&mut hear),
            [true, false, true, false, false, true]
        );
        assert!(is_of_new_process(5, 6), "by an earlier release");
        // Those that are not remembered any more count as new ones.
        assert!((8..8 + PROCESSES_MAX as u64).all(&mut hear) && hear(5));
    }

    /// A person cleans up, or takes an older copy of the folder: what is heard from then on is seen nevertheless.
    #[test]
    fn signs_are_seen_after_their_file_was_removed() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("heard");
        let signs = Signs::open(folder.path()).expect("opened");
        signs.note(false);
        let old = Signs::open(folder.path()).expect("opened");
        let before = old.read();
        std::fs::remove_file(&path).expect("removed");
        // One that starts now makes the file anew.
        let new = Signs::open(folder.path()).expect("opened");
        let (seen, known) = (new.read(), old.read());
        assert_ne!(known, before, "it counts as heard");
        signs.note(false);
        assert_ne!(new.read(), seen);
        assert_ne!(old.read(), known);
        // Replaced, and not only removed.
        let other = folder.path().join("copy");
        std::fs::write(&other, 7_u64.to_le_bytes()).expect("written");
        std::fs::rename(&other, &path).expect("replaced");
        let seen = (new.read(), old.read());
        signs.note(false);
        assert_ne!(new.read(), seen.0);
        assert_ne!(old.read(), seen.1);
    }
}
