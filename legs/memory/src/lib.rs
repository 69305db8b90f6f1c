//! Stores the state of a member, a head or the witness, for pools with legs: one file for each pool, durable before a
//! response is sent. `docs/formats/leg-record.md` describes the bytes.
//!
//! A member responds from its file or not at all. A member with a missing or refused file may have made any promise, so
//! it has no vote until an administrator readmits it.

#![forbid(unsafe_code)]

mod configuration;
mod fence;
mod local_ipc;
mod pulse;

pub use configuration::{configuration, note_configuration};
pub use fence::{
    FenceRequest, confirm_fence, discard_fence_request, is_fence_confirmed, request_fence,
    requested_fence,
};
pub use local_ipc::{
    ContactCounter, Processes, discard_received, folder, is_locked, is_of_new_process, is_owned,
    note_received, own, received,
};
pub use pulse::{Awake, Heart, Pulse};
pub use takeover::budget::FREEZE;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leg_record::{
    DecodeError, MemberId, MemberState, RECORD_BYTES_MAX, Record, Request, Response, decode_state,
    encode_state,
};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A killed process has terminated by then.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// Pause between two attempts to lock a file.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Why a member cannot respond for a pool.
#[derive(Debug, thiserror::Error)]
#[error("{}", path.display())]
pub struct StoreError {
    /// The file of the pool.
    pub path: PathBuf,
    /// For callers to match on.
    pub kind: StoreErrorKind,
    #[source]
    cause: Cause,
}

/// The kinds of [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// There is no file: this member never stored the pool, or has lost its state.
    Missing,
    /// The file exists.
    Exists,
    /// Another process serves this file.
    InUse,
    /// The file is no record, a damaged one, or one of another pool. No part of it is used.
    Refused,
    /// An I/O error.
    System,
    /// A write failed before. The content of the file is unknown until it is opened again.
    Doubtful,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(
        "this member has no record of the pool's legs; if it ever had one, it may have promised anything: \
         check that the other members have one, then readmit it"
    )]
    Missing,
    #[error("this member has a record of the pool's legs already")]
    Exists,
    #[error("another process of this host uses this record")]
    InUse,
    #[error("it is not used; the member may have promised anything before it was damaged")]
    Refused(#[from] DecodeError),
    #[error("it is a record of the pool {0}")]
    OtherPool(u64),
    #[error(transparent)]
    System(#[from] io::Error),
    #[error("an earlier write of it failed, so its content is unknown until it is opened again")]
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

/// The durable state of one member for one pool. Only one process at a time has it open.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    folder: File,
    memory: MemberState,
    is_doubtful: bool,
    /// Holds the lock.
    _lock: File,
}

/// The file of a pool in a member's directory.
pub fn path_of(folder: &Path, pool: u64) -> PathBuf {
    folder.join(format!("{pool}.legs"))
}

impl Store {
    /// Creates the file of a member at the creation of the pool, or of one that an administrator readmits. The
    /// directory is created if missing.
    ///
    /// # Errors
    ///
    /// The file exists, or an I/O error.
    pub fn create(folder: &Path, pool: u64, memory: MemberState) -> Result<Self, StoreError> {
        let path = path_of(folder, pool);
        Self::make(folder, &path, memory).map_err(|cause| cause.at(&path))
    }

    fn make(folder: &Path, path: &Path, memory: MemberState) -> Result<Self, Cause> {
        create_directory(folder)?;
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
        let (path, life) = (path.display(), store.memory.life);
        tracing::debug!(%path, life, "the file of a member is created");
        Ok(store)
    }

    /// Opens the file of `pool`.
    ///
    /// # Errors
    ///
    /// There is no file, it is refused, or another process has it open.
    pub fn open(folder: &Path, pool: u64) -> Result<Self, StoreError> {
        let path = path_of(folder, pool);
        Self::read(folder, &path, pool).map_err(|cause| cause.at(&path))
    }

    /// Opens the file after a failed write, and writes its content again. The content is durable then, whatever became
    /// of the failed write.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), or it cannot be written yet.
    pub fn reopen(folder: &Path, pool: u64) -> Result<Self, StoreError> {
        let store = Self::open(folder, pool)?;
        let written = store.write(&store.memory);
        written.map_err(|error| Cause::from(error).at(&store.path))?;
        tracing::debug!(path = %store.path.display(), "the file of a member is writable again");
        Ok(store)
    }

    fn read(folder: &Path, path: &Path, pool: u64) -> Result<Self, Cause> {
        if !path.try_exists()? {
            return Err(Cause::Missing);
        }
        let lock = lock(path)?;
        let memory = read_state(path, pool)?;
        let folder = File::open(folder)?;
        // A writer that was killed may have renamed the file and not flushed the directory: later responses need that.
        folder.sync_all()?;
        Ok(Self {
            path: path.to_owned(),
            folder,
            memory,
            is_doubtful: false,
            _lock: lock,
        })
    }

    /// The stored state.
    pub fn memory(&self) -> &MemberState {
        &self.memory
    }

    /// Handles a request to member `me`. The new state is durable before the response is returned. `serves`: the owner
    /// of the pool is on this host.
    ///
    /// # Errors
    ///
    /// The file could not be written. The member sends no more responses until it is opened again.
    pub fn handle(
        &mut self,
        me: MemberId,
        request: Request,
        serves: bool,
    ) -> Result<Option<Response>, StoreError> {
        if self.is_doubtful {
            return Err(Cause::Doubtful.at(&self.path));
        }
        let reply = self.memory.handle(me, request, serves);
        if let Some(memory) = reply.write {
            if let Err(cause) = self.write(&memory) {
                self.is_doubtful = true;
                let path = self.path.display();
                tracing::debug!(%path, error = %cause, "a write failed: no more responses");
                return Err(Cause::from(cause).at(&self.path));
            }
            let record = memory.accepted.as_ref().map(Record::version);
            let (path, term) = (self.path.display(), memory.promised.epoch);
            tracing::debug!(%path, term, ?record, "a new state is durable");
            self.memory = memory;
        }
        Ok(reply.response)
    }

    /// Writes a new file, flushes it, renames it, and flushes the directory.
    fn write(&self, memory: &MemberState) -> io::Result<()> {
        let new = beside(&self.path, "new");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(&encode_state(memory))?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        self.folder.sync_all()
    }
}

fn read_state(path: &Path, pool: u64) -> Result<MemberState, Cause> {
    let mut bytes = Vec::new();
    let most = RECORD_BYTES_MAX as u64 + 1;
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    let memory = decode_state(&bytes)?;
    match &memory.accepted {
        Some(record) if record.pool != pool => Err(Cause::OtherPool(record.pool)),
        _ => Ok(memory),
    }
}

/// The newest record of `pool` that the member on this host has stored. Works while the member runs. The pool may have
/// a newer record, so this only determines the first request.
pub fn last_record(folder: &Path, pool: u64) -> Option<Record> {
    read_state(&path_of(folder, pool), pool).ok()?.accepted
}

fn beside(path: &Path, what: &str) -> PathBuf {
    path.with_extension(format!("legs.{what}"))
}

/// Creates the directory durably: the parent directory holds its name.
fn create_directory(folder: &Path) -> io::Result<()> {
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

/// Locks a separate file, because the state file is replaced with every write.
fn lock(path: &Path) -> Result<File, Cause> {
    lock_file(&beside(path, "lock")).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => Cause::InUse,
        _ => Cause::System(error),
    })
}

/// Opens or creates `path`, and locks it against other processes. A killed process holds its locks until the
/// kernel has terminated it, so the lock is retried for a second.
///
/// # Errors
///
/// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if another process holds the lock; another kind if the file cannot be
/// opened.
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

    fn memory() -> MemberState {
        let ballot = Ballot { epoch: 1, nonce: 5 };
        MemberState::new(Record::new(POOL, ballot, [DiskId(1), DiskId(2)]))
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
    fn acknowledged_state_survives_restart() {
        let root = tempfile::tempdir().expect("folder");
        let folder = root.path().join("legs");
        let mut store = Store::create(&folder, POOL, memory()).expect("create");
        let response = store.handle(ME, claim(4), false).expect("written");
        assert!(matches!(response, Some(Response::Promised { .. })));
        let before = store.memory().clone();
        drop(store);
        let mut store = Store::open(&folder, POOL).expect("open");
        let before = MemberState {
            before: Ballot::default(),
            ..before
        };
        assert_eq!(store.memory(), &before, "a promise cannot be withdrawn now");
        let response = store.handle(ME, claim(3), false).expect("nothing to write");
        assert!(matches!(response, Some(Response::Refused { .. })));
    }

    #[test]
    fn member_needs_file_and_existing_file_is_not_recreated() {
        let root = tempfile::tempdir().expect("folder");
        let open = |pool| kind(Store::open(root.path(), pool));
        assert_eq!(open(POOL), StoreErrorKind::Missing);
        drop(Store::create(root.path(), POOL, memory()).expect("create"));
        let again = Store::create(root.path(), POOL, memory());
        assert_eq!(kind(again), StoreErrorKind::Exists);
        assert_eq!(open(POOL + 1), StoreErrorKind::Missing);
    }

    #[test]
    fn second_process_for_one_pool_is_refused() {
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
    fn new_file_without_rename_is_ignored() {
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
    fn no_reply_after_failed_write() {
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
