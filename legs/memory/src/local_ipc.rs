//! Files by which the leg-server and the owners of pools on the same host communicate.
//!
//! * `POOL.owner` is locked by the process that owns the pool or is about to. While it is locked, this head promises no
//!   other candidate.
//! * `POOL.heard`: two heads: the state that the other head sent to the running leg-server.
//! * `pulse`: whether the leg-server runs without a freeze ([`Pulse`](crate::Pulse)).
//! * `POOL.fence-wanted`, `POOL.fence-confirmed`: two heads: see [`FenceRequest`](crate::FenceRequest).
//! * `heard`: counts messages from the other head, and its processes ([`ContactCounter`](crate::ContactCounter)). It is written before
//!   each response, so a process that reads it after a vote of its own member sees all messages that preceded the vote.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use leg_record::codec::Reader;
use leg_record::{MemberId, MemberState, RECORD_BYTES_MAX, decode_state, encode_state};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The directory of a head's records, in its state directory.
pub fn folder(state: &Path) -> PathBuf {
    state.join("legs")
}

fn owner_path(folder: &Path, pool: u64) -> PathBuf {
    folder.join(format!("{pool}.owner"))
}

/// Marks the pool as owned on this host, until the file is closed.
///
/// # Errors
///
/// Another process owns the pool, or an I/O error.
pub fn own(folder: &Path, pool: u64) -> io::Result<File> {
    let locked = crate::lock_file(&owner_path(folder, pool));
    tracing::debug!(
        pool,
        is_owned = locked.is_ok(),
        "this process claims the pool here"
    );
    locked
}

/// Whether a process of this host owns the pool. True if that cannot be determined.
pub fn is_owned(folder: &Path, pool: u64) -> bool {
    let file = match File::open(owner_path(folder, pool)) {
        Ok(file) => file,
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

fn received_path(folder: &Path, pool: u64) -> PathBuf {
    folder.join(format!("{pool}.heard"))
}

/// Stores the state that the other head sent to this process. `boot`: the number of this process.
///
/// # Errors
///
/// An I/O error.
pub fn note_received(folder: &Path, pool: u64, boot: u64, memory: &MemberState) -> io::Result<()> {
    let path = received_path(folder, pool);
    let new = path.with_extension("heard.new");
    let mut bytes = boot.to_le_bytes().to_vec();
    bytes.extend(encode_state(memory));
    let record = memory.accepted.as_ref().map(|record| record.version());
    tracing::debug!(
        pool,
        term = memory.promised.epoch,
        ?record,
        "the other head's state"
    );
    // Not durable: it is only valid for this process.
    std::fs::write(&new, bytes)?;
    std::fs::rename(&new, &path)
}

/// Removes the state of the other head.
///
/// # Errors
///
/// An I/O error.
pub fn discard_received(folder: &Path, pool: u64) -> io::Result<()> {
    match std::fs::remove_file(received_path(folder, pool)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the state that the other head sent to the leg-server with the number `boot`.
pub fn received(folder: &Path, pool: u64, boot: u64) -> Option<MemberState> {
    let path = received_path(folder, pool);
    let length = std::fs::metadata(&path).ok()?.len();
    if length > RECORD_BYTES_MAX as u64 + 8 {
        return None;
    }
    let bytes = std::fs::read(&path).ok()?;
    let mut reader = Reader::new(&bytes);
    let is_of_boot = reader.number().ok()? == boot;
    let memory = decode_state(reader.rest()).ok()?;
    is_of_boot.then_some(memory)
}

/// Processes of other heads that are stored.
const PROCESSES_MAX: usize = 32;

/// Processes of other heads that have sent a message. A head that was off has new processes.
#[derive(Debug, Default)]
pub struct Processes(VecDeque<(MemberId, u64)>);

impl Processes {
    /// Notes a message of the process `boot` of a head. Returns whether the process is new.
    pub fn receive(&mut self, head: MemberId, boot: u64) -> bool {
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

/// Increments of the count: for a message, and for a message of a new process.
const SIGN: u64 = 1;
const NEW_PROCESS: u64 = 1 << 40;

/// Whether a new process may have sent a message between two counts of [`ContactCounter`]. An earlier release does not count
/// processes.
pub fn is_of_new_process(before: u64, now: u64) -> bool {
    now < NEW_PROCESS || before / NEW_PROCESS != now / NEW_PROCESS
}

/// Counts messages of the other head. One file serves all pools of the directory, because it is about the head, not
/// about a pool.
#[derive(Debug)]
pub struct ContactCounter {
    path: PathBuf,
    /// Replaced if the file was removed: writer and reader must have the same one.
    file: Mutex<File>,
    count: AtomicU64,
}

impl ContactCounter {
    /// Opens the file of the directory, for the writer and for the reader.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join("heard");
        let file = open_counter(&path)?;
        let count = counted(&file);
        if file.metadata()?.len() == 0 {
            // Allocates the blocks now, in case the disk is full later.
            file.write_all_at(&count.to_le_bytes(), 0)?;
        }
        Ok(Self {
            path,
            file: Mutex::new(file),
            count: AtomicU64::new(count),
        })
    }

    /// The open file. It is recreated if it was removed.
    fn file(&self) -> io::Result<MutexGuard<'_, File>> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.metadata()?.nlink() == 0 {
            *file = open_counter(&self.path)?;
            self.count.fetch_max(counted(&file), Ordering::AcqRel);
        }
        Ok(file)
    }

    /// Counts a message of the other head, from a new process or from a known one.
    pub fn note(&self, is_new_process: bool) {
        let more = match is_new_process {
            true => NEW_PROCESS,
            false => SIGN,
        };
        // Written to the page cache. If it fails, readers would miss a message, which is unsafe.
        let written = self.file().and_then(|file| {
            let count = self.count.fetch_add(more, Ordering::AcqRel) + more;
            file.write_all_at(&count.to_le_bytes(), 0)
        });
        written.expect("a file of eight bytes is written");
    }

    /// Returns a number that changes with every message. A read error counts as a message of a new process.
    pub fn read(&self) -> u64 {
        match self.file() {
            Ok(file) => counted(&file),
            Err(_) => self.count.fetch_add(NEW_PROCESS, Ordering::AcqRel) + NEW_PROCESS,
        }
    }
}

fn open_counter(path: &Path) -> io::Result<File> {
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

/// Whether the error means that another process has the lock.
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
    fn messages_received_before_restart_are_ignored() {
        let folder = tempfile::tempdir().expect("folder");
        let memory = MemberState::default();
        note_received(folder.path(), 5, 77, &memory).expect("noted");
        assert_eq!(received(folder.path(), 5, 77), Some(memory));
        assert_eq!(received(folder.path(), 5, 78), None);
        assert_eq!(received(folder.path(), 6, 77), None);
    }

    #[test]
    fn signals_are_visible_to_other_process_and_after_restart() {
        let folder = tempfile::tempdir().expect("folder");
        let signs = ContactCounter::open(folder.path()).expect("opened");
        let reader = ContactCounter::open(folder.path()).expect("opened");
        let before = reader.read();
        signs.note(false);
        assert_ne!(reader.read(), before);
        let before = reader.read();
        ContactCounter::open(folder.path())
            .expect("opened")
            .note(false);
        assert_ne!(reader.read(), before);
    }

    #[test]
    fn signal_of_new_process_is_distinguished() {
        let folder = tempfile::tempdir().expect("folder");
        let signs = ContactCounter::open(folder.path()).expect("opened");
        let mut processes = Processes::default();
        let mut seen = signs.read();
        let mut receive = |boot| {
            signs.note(processes.receive(MemberId(2), boot));
            let before = std::mem::replace(&mut seen, signs.read());
            assert_ne!(seen, before);
            is_of_new_process(before, seen)
        };
        assert_eq!(
            [5, 5, 6, 5, 6, 7].map(&mut receive),
            [true, false, true, false, false, true]
        );
        assert!(is_of_new_process(5, 6), "by an earlier release");
        // Processes that are no longer stored count as new.
        assert!((8..8 + PROCESSES_MAX as u64).all(&mut receive) && receive(5));
    }

    /// An administrator removes the directory, or restores an older copy: later messages are still seen.
    #[test]
    fn signals_are_visible_after_their_file_was_removed() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("heard");
        let signs = ContactCounter::open(folder.path()).expect("opened");
        signs.note(false);
        let old = ContactCounter::open(folder.path()).expect("opened");
        let before = old.read();
        std::fs::remove_file(&path).expect("removed");
        // A new process recreates the file.
        let new = ContactCounter::open(folder.path()).expect("opened");
        let (seen, known) = (new.read(), old.read());
        assert_ne!(known, before, "it counts as a message");
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
