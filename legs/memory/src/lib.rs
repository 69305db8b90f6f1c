//! Keeps what a member, a head or the witness, remembers of a pool's legs: one file for each pool, durable before an
//! answer goes. `docs/formats/leg-record.md` has the bytes.
//!
//! A member answers from its file or not at all. One whose file is missing or refused may have promised anything, so it is
//! a member again only when a person says so.

#![forbid(unsafe_code)]

mod configuration;
mod fence;
mod local_ipc;
mod pulse;

pub use configuration::{configuration, note_configuration};
pub use fence::{
    FenceRequest, confirm_fence, forget_fence, is_fence_confirmed, request_fence, requested_fence,
};
pub use local_ipc::{
    Processes, Signs, folder, forget_heard, heard, is_locked, is_of_new_process, is_owned,
    note_heard, own,
};
pub use pulse::{Awake, Heart, Pulse};
pub use takeover::budget::FREEZE;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leg_record::{
    Answer, DecodeError, MemberId, Memory, RECORD_BYTES_MAX, Record, Request, decode_memory,
    encode_memory,
};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A process that was killed has ended by then.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// Pause between two attempts to lock a file.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Why a member cannot answer for a pool.
#[derive(Debug, thiserror::Error)]
#[error("{}", path.display())]
pub struct StoreError {
    /// The file of the pool.
    pub path: PathBuf,
    /// What a caller matches on.
    pub kind: StoreErrorKind,
    #[source]
    cause: Cause,
}

/// The kinds of [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// There is no file: this member was never one of the pool, or has lost what it remembered.
    Missing,
    /// There is one already.
    Exists,
    /// Another process answers for this pool.
    InUse,
    /// The file is no record, a damaged one, or one of another pool. Nothing of it is used.
    Refused,
    /// The system failed.
    System,
    /// A write failed before. What the file says now is unknown until it is opened again.
    Doubtful,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(
        "this member has no record of the pool's legs; if it ever had one, it may have promised anything: \
         see that the other members have one, then make it a member again"
    )]
    Missing,
    #[error("this member has a record of the pool's legs already")]
    Exists,
    #[error("another process of this machine keeps this record")]
    InUse,
    #[error("it is not used; the member may have promised anything before it was damaged")]
    Refused(#[from] DecodeError),
    #[error("it is a record of the pool {0}")]
    OtherPool(u64),
    #[error(transparent)]
    System(#[from] io::Error),
    #[error("a write of it failed before, so what it says is unknown until it is opened again")]
    Doubtful,
}

impl Cause {
    fn kind(&self) -> StoreErrorKind {
        match self {
            Self::Missing => StoreErrorKind::Missing,
            Self::Exists => StoreErrorKind::Exists,
            Self::InUse => StoreErrorKind::InUse,
            Self::Refused(_) | Self::OtherPool(_) => StoreErrorKind::Refused,
            Self::System(_) => StoreErrorKind::System,
            Self::Doubtful => StoreErrorKind::Doubtful,
        }
    }

    fn at(self, path: &Path) -> StoreError {
        StoreError {
            path: path.to_owned(),
            kind: self.kind(),
            cause: self,
        }
    }
}

/// What one member remembers of one pool, on stable storage. One at a time has it open.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    folder: File,
    memory: Memory,
    is_doubtful: bool,
    /// Kept for its lock.
    _lock: File,
}

/// The file of a pool in a member's folder.
pub fn path_of(folder: &Path, pool: u64) -> PathBuf {
    folder.join(format!("{pool}.legs"))
}

impl Store {
    /// Makes a member that was there when the pool was made, or that a person has made one. The folder is made if
    /// it is not there.
    ///
    /// # Errors
    ///
    /// There is a file already, or the system fails.
    pub fn create(folder: &Path, pool: u64, memory: Memory) -> Result<Self, StoreError> {
        let path = path_of(folder, pool);
        Self::make(folder, &path, memory).map_err(|cause| cause.at(&path))
    }

    fn make(folder: &Path, path: &Path, memory: Memory) -> Result<Self, Cause> {
        make_folder(folder)?;
        let lock = lock(path)?;
        if path.try_exists()? {
            return Err(Cause::Exists);
        }
        let store = Self {
            path: path.to_owned(),
            folder: File::open(folder)?,
            memory,
            is_doubtful: false,
            _lock: lock,
        };
        store.write(&store.memory.clone())?;
        Ok(store)
    }

    /// Opens what this member remembers of `pool`.
    ///
    /// # Errors
    ///
    /// There is none, it is refused, or another process has it open.
    pub fn open(folder: &Path, pool: u64) -> Result<Self, StoreError> {
        let path = path_of(folder, pool);
        Self::read(folder, &path, pool).map_err(|cause| cause.at(&path))
    }

    /// Opens it after a write that failed, and writes anew what it says: that is durable then, whatever became of the write.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), or it cannot be written yet.
    pub fn reopen(folder: &Path, pool: u64) -> Result<Self, StoreError> {
        let store = Self::open(folder, pool)?;
        let written = store.write(&store.memory);
        written.map_err(|error| Cause::from(error).at(&store.path))?;
        Ok(store)
    }

    fn read(folder: &Path, path: &Path, pool: u64) -> Result<Self, Cause> {
        if !path.try_exists()? {
            return Err(Cause::Missing);
        }
        let lock = lock(path)?;
        let memory = read_memory(path, pool)?;
        let folder = File::open(folder)?;
        // A writer that was killed may have renamed it and not made that durable: what is answered from now on must be.
        folder.sync_all()?;
        Ok(Self {
            path: path.to_owned(),
            folder,
            memory,
            is_doubtful: false,
            _lock: lock,
        })
    }

    /// What the member remembers.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Takes a request to member `me`: what follows is durable before the answer is returned. `serves`: the owner of the pool is on
    /// this very head.
    ///
    /// # Errors
    ///
    /// The file could not be written. The member answers nothing more until it is opened again.
    pub fn handle(
        &mut self,
        me: MemberId,
        request: Request,
        serves: bool,
    ) -> Result<Option<Answer>, StoreError> {
        if self.is_doubtful {
            return Err(Cause::Doubtful.at(&self.path));
        }
        let reply = self.memory.handle(me, request, serves);
        if let Some(memory) = reply.write {
            if let Err(cause) = self.write(&memory) {
                self.is_doubtful = true;
                return Err(Cause::from(cause).at(&self.path));
            }
            self.memory = memory;
        }
        Ok(reply.answer)
    }

    /// A new file, flushed, renamed into place, and the folder flushed.
    fn write(&self, memory: &Memory) -> io::Result<()> {
        let new = beside(&self.path, "new");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(&encode_memory(memory))?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        self.folder.sync_all()
    }
}

fn read_memory(path: &Path, pool: u64) -> Result<Memory, Cause> {
    let mut bytes = Vec::new();
    let most = RECORD_BYTES_MAX as u64 + 1;
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    let memory = decode_memory(&bytes)?;
    match &memory.accepted {
        Some(record) if record.pool != pool => Err(Cause::OtherPool(record.pool)),
        _ => Ok(memory),
    }
}

/// The newest record that the member on this machine remembers of `pool`, also while that runs. The pool may have a newer one, so this
/// tells only whom to ask first.
pub fn last_record(folder: &Path, pool: u64) -> Option<Record> {
    read_memory(&path_of(folder, pool), pool).ok()?.accepted
}

fn beside(path: &Path, what: &str) -> PathBuf {
    path.with_extension(format!("legs.{what}"))
}

/// Makes the folder, durably: the one above has its name.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let above = folder
        .parent()
        .filter(|above| !above.as_os_str().is_empty());
    File::open(above.unwrap_or(Path::new(".")))?.sync_all()
}

/// Locks a file of its own, as the other one is replaced with every write.
fn lock(path: &Path) -> Result<File, Cause> {
    lock_file(&beside(path, "lock")).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => Cause::InUse,
        _ => Cause::System(error),
    })
}

/// Opens `path`, makes it if it is not there, and locks it against other processes. A process that was killed keeps its locks until the
/// kernel has ended it, so one that holds the lock gets a second to end.
///
/// # Errors
///
/// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if another process holds the lock; others if the file cannot be opened.
pub fn lock_file(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    let begun = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LOCK_WAIT => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leg_record::{Ballot, DiskId};

    const POOL: u64 = 77;
    const ME: MemberId = MemberId(3);

    fn memory() -> Memory {
        let ballot = Ballot { epoch: 1, nonce: 5 };
        Memory::new(Record::new(POOL, ballot, [DiskId(1), DiskId(2)]))
    }

    fn claim(epoch: u64) -> Request {
        let ballot = Ballot { epoch, nonce: 9 };
        let by = MemberId(1);
        Request::Claim { ballot, by }
    }

    fn kind(result: Result<Store, StoreError>) -> StoreErrorKind {
        result.expect_err("refused").kind
    }

    #[test]
    fn what_was_answered_is_there_after_a_restart() {
        let root = tempfile::tempdir().expect("folder");
        let folder = root.path().join("legs");
        let mut store = Store::create(&folder, POOL, memory()).expect("create");
        let answer = store.handle(ME, claim(4), false).expect("written");
        assert!(matches!(answer, Some(Answer::Promised { .. })));
        let before = store.memory().clone();
        drop(store);
        let mut store = Store::open(&folder, POOL).expect("open");
        let before = Memory {
            before: Ballot::default(),
            ..before
        };
        assert_eq!(store.memory(), &before, "a promise cannot be withdrawn now");
        let answer = store.handle(ME, claim(3), false).expect("nothing to write");
        assert!(matches!(answer, Some(Answer::Refused { .. })));
    }

    #[test]
    fn a_member_without_a_file_is_none_and_one_with_a_file_is_not_made_again() {
        let root = tempfile::tempdir().expect("folder");
        let open = |pool| kind(Store::open(root.path(), pool));
        assert_eq!(open(POOL), StoreErrorKind::Missing);
        drop(Store::create(root.path(), POOL, memory()).expect("create"));
        let again = Store::create(root.path(), POOL, memory());
        assert_eq!(kind(again), StoreErrorKind::Exists);
        assert_eq!(open(POOL + 1), StoreErrorKind::Missing);
    }

    #[test]
    fn two_processes_do_not_answer_for_one_pool() {
        let root = tempfile::tempdir().expect("folder");
        let store = Store::create(root.path(), POOL, memory()).expect("create");
        let second = kind(Store::open(root.path(), POOL));
        assert_eq!(second, StoreErrorKind::InUse);
        drop(store);
        Store::open(root.path(), POOL).expect("free again");
    }

    #[test]
    fn a_damaged_file_and_one_of_another_pool_are_refused() {
        let root = tempfile::tempdir().expect("folder");
        drop(Store::create(root.path(), POOL, memory()).expect("create"));
        let path = path_of(root.path(), POOL);
        let whole = std::fs::read(&path).expect("read");
        std::fs::write(path_of(root.path(), POOL + 1), &whole).expect("copy");
        let other = kind(Store::open(root.path(), POOL + 1));
        assert_eq!(other, StoreErrorKind::Refused);
        for length in [0, 7, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).expect("cut");
            let cut = kind(Store::open(root.path(), POOL));
            assert_eq!(cut, StoreErrorKind::Refused, "{length} bytes");
        }
        std::fs::write(&path, vec![7; RECORD_BYTES_MAX * 2]).expect("fill");
        let long = kind(Store::open(root.path(), POOL));
        assert_eq!(long, StoreErrorKind::Refused);
    }

    /// The process is killed while it writes the new file: the old one counts.
    #[test]
    fn a_new_file_that_was_not_renamed_does_not_count() {
        let root = tempfile::tempdir().expect("folder");
        drop(Store::create(root.path(), POOL, memory()).expect("create"));
        let new = beside(&path_of(root.path(), POOL), "new");
        std::fs::write(&new, b"BULKLEGS and no more").expect("write");
        let mut store = Store::open(root.path(), POOL).expect("open");
        assert_eq!(store.memory(), &memory());
        store.handle(ME, claim(2), false).expect("written over");
        assert!(!new.exists());
    }

    #[test]
    fn after_a_failed_write_nothing_is_answered() {
        let root = tempfile::tempdir().expect("folder");
        let mut store = Store::create(root.path(), POOL, memory()).expect("create");
        let new = beside(&path_of(root.path(), POOL), "new");
        std::fs::create_dir(&new).expect("in the way");
        let failed = store.handle(ME, claim(2), false).expect_err("cannot write");
        assert_eq!(failed.kind, StoreErrorKind::System);
        std::fs::remove_dir(&new).expect("out of the way");
        let later = store.handle(ME, claim(3), false).expect_err("unknown");
        assert_eq!(later.kind, StoreErrorKind::Doubtful);
    }
}
