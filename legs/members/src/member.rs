//! Handles the requests to one member from its files, which are in one directory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use leg_memory::{Store, StoreError, StoreErrorKind};
use leg_record::{DiskId, MemberId, MemberState, Membership, Request, Response, Version};

use crate::limits::{POOLS_MAX, STORE_RETRY_AFTER};
use crate::silence::Silence;
use crate::wire::{Envelope, Message};

/// File name extension of the marker that this member has stored the pool at some time.
const STORED: &str = "known";
/// File name extension of the files of [`leg_memory`].
const LEGS: &str = "legs";

/// Whether a pool server of this host owns the pool.
pub type Serves = Box<dyn Fn(u64) -> bool + Send + Sync>;

/// State of this member for one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// It responds for the pool. The version of the newest record that it accepted.
    HasRecord(Option<Version>),
    /// Its state was lost. An administrator readmitted it, and the head that serves the pool will send the record.
    Lost,
    /// It does not respond for the pool.
    Silent(Silence),
}

/// Why a member is not readmitted.
#[derive(Debug, thiserror::Error)]
pub enum ReadmitError {
    /// It has not lost its state.
    #[error(
        "this member has the record of pool {0} and responds: that record would be lost, and the other members rely on it"
    )]
    HasRecord(u64),
    /// It was already readmitted, and has not received the record yet.
    #[error(
        "this member is already readmitted to pool {0}: the head that serves it sends the record"
    )]
    Waits(u64),
    /// It never stored the pool.
    #[error(
        "this member never stored a pool {0}: see the numbers of pools in legs.toml; if this host replaces one that \
         stored the pool, or its whole directory was lost, add `--replaced`"
    )]
    Unknown(u64),
    /// An I/O error.
    #[error("make this member one of the pool {0} again")]
    System(u64, #[source] io::Error),
    /// The file could not be created.
    #[error("make this member one of the pool {0} again")]
    Store(u64, #[source] StoreError),
}

/// An administrator's order to readmit a member that has lost its state.
#[derive(Clone, Copy, Debug)]
pub struct Readmission {
    /// Random, not 0: the new life of the member.
    pub life: u64,
    /// Also readmit it if no file shows that it stored the pool before, because this host is a replacement.
    pub is_replaced: bool,
}

enum Slot {
    Open(Box<Store>),
    Silent(Silence),
    /// A change could not be written, at this time.
    NotStored(Instant),
}

type Pools = BTreeMap<u64, Arc<Mutex<Slot>>>;

/// The state of one member. It responds from its files or not at all.
pub struct Member {
    me: MemberId,
    boot: u64,
    folder: PathBuf,
    serves: Serves,
    keep_again: Duration,
    /// Whether the state of a pool with a record that no longer names this member may be discarded when the owner
    /// readds it.
    may_discard: bool,
    pools: Mutex<Pools>,
}

impl Member {
    /// Opens the files in `folder`, which is created if missing. `boot`: random. Unusable files are logged, and the
    /// member does not respond for their pools.
    ///
    /// # Errors
    ///
    /// The directory cannot be read or created.
    pub fn open(folder: &Path, me: MemberId, boot: u64, serves: Serves) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let member = Self {
            me,
            boot,
            folder: folder.to_owned(),
            serves,
            keep_again: STORE_RETRY_AFTER,
            may_discard: false,
            pools: Mutex::default(),
        };
        for pool in pools_in(folder)? {
            let slot = member.load(pool);
            let mut pools = member.pools();
            pools.insert(pool, Arc::new(Mutex::new(slot)));
        }
        Ok(member)
    }

    /// The same as a witness: the owner of a pool may make it a member again. A head discards no state at another
    /// member's request, because its state shows which of its disks are current. It may be made a member of a pool that
    /// it never stored.
    #[must_use]
    pub fn as_witness(self) -> Self {
        Self {
            may_discard: true,
            ..self
        }
    }

    /// Its member number.
    pub fn me(&self) -> MemberId {
        self.me
    }

    /// Its boot number.
    pub fn boot(&self) -> u64 {
        self.boot
    }

    fn pools(&self) -> MutexGuard<'_, Pools> {
        self.pools.lock().expect("no holder panics")
    }

    fn load(&self, pool: u64) -> Slot {
        // A crash before the marker was written: write it now.
        if let Err(error) = note(&self.folder, pool) {
            tracing::error!(pool, %error, "this member does not respond for the pool: its directory cannot be written");
            return Slot::NotStored(Instant::now());
        }
        match Store::open(&self.folder, pool) {
            Ok(store) => Slot::Open(Box::new(store)),
            Err(error) => Slot::after(pool, &error),
        }
    }

    /// A change could not be written: retries, at most once per `keep_again`.
    fn try_again(&self, pool: u64, slot: &mut Slot) {
        let Slot::NotStored(tried) = slot else { return };
        if tried.elapsed() < self.keep_again {
            return;
        }
        let path = leg_memory::path_of(&self.folder, pool);
        if !path.exists() && !known(&self.folder, pool).exists() {
            *slot = Slot::Silent(Silence::Unknown);
            return;
        }
        let noted = note(&self.folder, pool).map_err(|_| StoreErrorKind::System);
        let opened = noted.and_then(|()| {
            Store::reopen(&self.folder, pool).map_err(|error| match error.kind {
                StoreErrorKind::Missing | StoreErrorKind::Refused => {
                    silence(pool, &error);
                    error.kind
                }
                kind => kind,
            })
        });
        *slot = match opened {
            Ok(store) => {
                tracing::info!(
                    pool,
                    "changes can be written again: this member responds for the pool"
                );
                Slot::Open(Box::new(store))
            }
            Err(StoreErrorKind::Missing) => Slot::Silent(Silence::Missing),
            Err(StoreErrorKind::Refused) => Slot::Silent(Silence::Damaged),
            Err(_) => Slot::NotStored(Instant::now()),
        };
    }

    /// The members of the pool by the record that this member accepted, else as `configured`. `None` while a disk write
    /// is in progress. Never blocks.
    pub fn membership(&self, pool: u64, configured: &Membership) -> Option<Membership> {
        let slot = self.pools.try_lock().ok()?.get(&pool).cloned();
        let Some(slot) = slot else {
            return Some(configured.clone());
        };
        let slot = slot.try_lock().ok()?;
        let named = match &*slot {
            Slot::Open(store) => store.memory().accepted.as_ref()?.members.clone(),
            Slot::Silent(_) | Slot::NotStored(_) => None,
        };
        Some(named.unwrap_or_else(|| configured.clone()))
    }

    /// Returns the state of each pool.
    pub fn states(&self) -> BTreeMap<u64, PoolState> {
        let pools = self.pools().clone();
        let state = |slot: &Mutex<Slot>| match &*slot.lock().expect("no holder panics") {
            Slot::Open(store) if store.memory().is_lost() => PoolState::Lost,
            Slot::Open(store) => {
                let record = store.memory().accepted.as_ref();
                PoolState::HasRecord(record.map(|record| record.version()))
            }
            Slot::Silent(why) => PoolState::Silent(*why),
            Slot::NotStored(_) => PoolState::Silent(Silence::NotStored),
        };
        let each = pools.into_iter().map(|(pool, slot)| (pool, state(&slot)));
        each.collect()
    }

    /// A pool with a newest record, as stored here, that names the disk.
    pub fn pool_of(&self, disk: DiskId) -> Option<u64> {
        let pools = self.pools().clone();
        let mut pools = pools.into_iter();
        let found = pools.find(|(_, slot)| match &*slot.lock().expect("no holder panics") {
            Slot::Open(store) => {
                let record = store.memory().accepted.as_ref();
                record.is_some_and(|record| record.names(disk))
            }
            Slot::Silent(_) | Slot::NotStored(_) => false,
        });
        found.map(|(pool, _)| pool)
    }

    /// Handles a message of member `from`. The state that the response promises is already durable. May block on a
    /// disk.
    pub fn receive(&self, from: MemberId, envelope: Envelope) -> Option<Envelope> {
        let pool = envelope.pool;
        let message = match envelope.message {
            Message::Alive => Some(Message::Alive),
            Message::Request(Request::Claim { by, .. }) if by != from => {
                tracing::warn!(
                    pool,
                    member = from.0,
                    by = by.0,
                    "a member claims a pool for another member: ignored"
                );
                None
            }
            Message::Request(Request::Join { .. }) if !self.may_discard && self.remembers(pool) => {
                tracing::warn!(
                    pool,
                    member = from.0,
                    "a member requests that this head discard a pool and join it again: ignored"
                );
                None
            }
            Message::Request(request) => self.handle_request(pool, request),
            Message::Found(memory) => self.found(pool, memory),
            Message::Response(_)
            | Message::Created(_)
            | Message::Silent(_)
            | Message::LenderRequest(..)
            | Message::Inspect(_)
            | Message::Inspection(_)
            | Message::RequestConfiguration
            | Message::Configuration(_)
            | Message::RequestLiveness
            | Message::RequestSteadiness
            | Message::Liveness(_)
            | Message::Lent(_) => None,
        };
        let boot = self.boot;
        message.map(|message| Envelope {
            pool,
            boot,
            message,
        })
    }

    fn handle_request(&self, pool: u64, request: Request) -> Option<Message> {
        if let Request::Join { life, .. } = &request {
            self.begin_life(pool, *life);
        }
        let Some(slot) = self.slot(pool) else {
            return Some(Message::Silent(Silence::Unknown));
        };
        let mut slot = slot.lock().expect("no holder panics");
        self.try_again(pool, &mut slot);
        if slot.silence().is_some_and(Silence::is_of_the_file) {
            self.check_readmission(pool, &mut slot);
        }
        let Slot::Open(store) = &mut *slot else {
            return slot.silence().map(Message::Silent);
        };
        match store.handle(self.me, request, (self.serves)(pool)) {
            Ok(None) if store.memory().is_lost() => Some(Message::Silent(Silence::Lost)),
            Ok(response) => {
                note_decision(pool, response.as_ref());
                response.map(Message::Response)
            }
            Err(error) => {
                *slot = Slot::after(pool, &error);
                slot.silence().map(Message::Silent)
            }
        }
    }

    /// Whether it has state of the pool that a join would discard.
    fn remembers(&self, pool: u64) -> bool {
        let Some(slot) = self.slot(pool) else {
            return false;
        };
        match &*slot.lock().expect("no holder panics") {
            Slot::Open(store) => !store.memory().is_lost(),
            Slot::Silent(why) => *why != Silence::Unknown,
            Slot::NotStored(_) => true,
        }
    }

    /// Joins a pool that this member never stored.
    fn begin_life(&self, pool: u64, life: u64) {
        let mut pools = self.pools();
        let is_full = pools.len() >= POOLS_MAX;
        let slot = match pools.get(&pool) {
            Some(slot) => Arc::clone(slot),
            None if is_full || leg_memory::path_of(&self.folder, pool).exists() => return,
            None => Arc::clone(
                pools
                    .entry(pool)
                    .or_insert_with(|| Arc::new(Mutex::new(Slot::Silent(Silence::Unknown)))),
            ),
        };
        drop(pools);
        let mut slot = slot.lock().expect("no holder panics");
        if let Slot::Silent(Silence::Unknown) = &*slot {
            tracing::info!(pool, "this member is to be one of a pool");
            *slot = self.create(pool, MemberState::again(life));
        }
    }

    /// The slot of a loaded pool, or of one that another process has readmitted this member to.
    fn slot(&self, pool: u64) -> Option<Arc<Mutex<Slot>>> {
        let mut pools = self.pools();
        let known = pools.get(&pool).cloned();
        let has_room = pools.len() < POOLS_MAX;
        if known.is_some() || !has_room || !leg_memory::path_of(&self.folder, pool).exists() {
            return known;
        }
        let found = pools
            .entry(pool)
            .or_insert_with(|| Arc::new(Mutex::new(Slot::Silent(Silence::Missing))));
        Some(Arc::clone(found))
    }

    /// Opens the file if an administrator has readmitted this member since. Any other file that has appeared is
    /// ignored.
    fn check_readmission(&self, pool: u64, slot: &mut Slot) {
        let opened = Store::open(&self.folder, pool);
        if let Some(store) = opened.ok().filter(|store| store.memory().is_lost()) {
            tracing::warn!(
                pool,
                "this member is readmitted to the pool and will receive its record"
            );
            *slot = Slot::Open(Box::new(store));
        }
    }

    /// Stores the record of a new pool. Idempotent.
    fn found(&self, pool: u64, memory: MemberState) -> Option<Message> {
        let slot = {
            let mut pools = self.pools();
            if pools.len() >= POOLS_MAX && !pools.contains_key(&pool) {
                tracing::warn!(pool, pools = pools.len(), "no further pool is remembered");
                return None;
            }
            let unknown = || Arc::new(Mutex::new(Slot::Silent(Silence::Unknown)));
            Arc::clone(pools.entry(pool).or_insert_with(unknown))
        };
        let mut slot = slot.lock().expect("no holder panics");
        self.try_again(pool, &mut slot);
        match &*slot {
            Slot::Silent(Silence::Unknown) => *slot = self.create(pool, memory),
            // A repeat: the response was lost.
            Slot::Open(store) if *store.memory() == memory => {}
            Slot::Open(_) => {
                tracing::warn!(
                    pool,
                    "a member founds a pool that is remembered already: refused"
                );
                return None;
            }
            Slot::Silent(_) | Slot::NotStored(_) => {}
        }
        Some(match &*slot {
            Slot::Open(store) => {
                let record = store.memory().accepted.as_ref();
                Message::Created(record.map(|record| record.version()).unwrap_or_default())
            }
            Slot::Silent(why) => Message::Silent(*why),
            Slot::NotStored(_) => Message::Silent(Silence::NotStored),
        })
    }

    fn create(&self, pool: u64, memory: MemberState) -> Slot {
        let created = Store::create(&self.folder, pool, memory);
        let Ok(store) = created.map_err(|error| silence(pool, &error)) else {
            return Slot::NotStored(Instant::now());
        };
        // Written after the file: without the marker, the file itself shows that the pool was stored.
        match note(&self.folder, pool) {
            Ok(()) => {
                tracing::info!(pool, "a new pool is remembered");
                Slot::Open(Box::new(store))
            }
            Err(error) => {
                tracing::error!(pool, %error, "this member does not respond for a new pool: the directory cannot be written");
                Slot::NotStored(Instant::now())
            }
        }
    }

    /// As [`readmit`], in the process that serves the member.
    ///
    /// # Errors
    ///
    /// As [`readmit`].
    pub fn readmit(&self, pool: u64, word: Readmission) -> Result<(), ReadmitError> {
        let slot = self.slot(pool);
        let mut slot = slot
            .as_ref()
            .map(|slot| slot.lock().expect("no holder panics"));
        match slot.as_deref() {
            Some(Slot::Open(store)) if store.memory().is_lost() => {
                return Err(ReadmitError::Waits(pool));
            }
            Some(Slot::Open(_)) => return Err(ReadmitError::HasRecord(pool)),
            _ => {}
        }
        readmit(&self.folder, pool, word)?;
        if let Some(slot) = &mut slot {
            self.check_readmission(pool, slot);
        }
        Ok(())
    }

    /// As [`forget`], in the process that serves the member.
    ///
    /// # Errors
    ///
    /// As [`forget`].
    pub fn forget(&self, pool: u64) -> io::Result<bool> {
        let mut pools = self.pools();
        let slot = pools.remove(&pool);
        // A write that is in progress completes first.
        drop(
            slot.as_ref()
                .map(|slot| slot.lock().expect("no holder panics")),
        );
        forget(&self.folder, pool)
    }
}

/// Readmits the member with this directory after it has lost its state of the pool. The process that serves the member
/// need not run. A refused file is renamed, not deleted.
///
/// # Errors
///
/// The member has the pool's record, or never stored it.
pub fn readmit(folder: &Path, pool: u64, word: Readmission) -> Result<(), ReadmitError> {
    let system = |error| ReadmitError::System(pool, error);
    match Store::open(folder, pool) {
        Ok(store) if store.memory().is_lost() => return Err(ReadmitError::Waits(pool)),
        Ok(_) => return Err(ReadmitError::HasRecord(pool)),
        Err(error) => match error.kind {
            StoreErrorKind::InUse => return Err(ReadmitError::HasRecord(pool)),
            StoreErrorKind::Missing | StoreErrorKind::Refused => {}
            _ => return Err(ReadmitError::Store(pool, error)),
        },
    }
    let was_known = pools_in(folder).map_err(system)?.contains(&pool);
    if !was_known && !word.is_replaced {
        return Err(ReadmitError::Unknown(pool));
    }
    move_aside(folder, pool).map_err(system)?;
    let store = Store::create(folder, pool, MemberState::again(word.life));
    store.map_err(|error| ReadmitError::Store(pool, error))?;
    note(folder, pool).map_err(system)
}

/// Removes all files of a pool that is gone for good from this directory; returns whether there were any. The marker goes
/// first: without the marker, and with a record, the next start writes it again.
///
/// # Errors
///
/// A file cannot be removed.
pub fn forget(folder: &Path, pool: u64) -> io::Result<bool> {
    let record = leg_memory::path_of(folder, pool);
    let mut is_removed = false;
    let others = [
        "legs.new",
        "legs.lock",
        "owner",
        "heard",
        "fence-wanted",
        "fence-confirmed",
    ];
    let others = others.map(|extension| record.with_extension(extension));
    for path in [known(folder, pool), record].iter().chain(&others) {
        match std::fs::remove_file(path) {
            Ok(()) => is_removed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    if is_removed {
        File::open(folder)?.sync_all()?;
    }
    Ok(is_removed)
}

/// Logs the decision on a request. Reads change nothing, and are logged with the messages.
fn note_decision(pool: u64, response: Option<&Response>) {
    match response {
        Some(Response::Promised { ballot, life, .. }) => {
            tracing::debug!(pool, term = ballot.epoch, life, "a term is promised");
        }
        Some(Response::Serves(ballot)) => {
            let term = ballot.epoch;
            tracing::debug!(pool, term, "a claim is refused: this head serves the pool");
        }
        Some(Response::Accepted(ballot, version)) => {
            let (term, record) = (ballot.epoch, version.sequence);
            tracing::debug!(pool, term, record, "a record is accepted");
        }
        Some(Response::Refused {
            requested,
            promised,
        }) => {
            let (term, promised) = (requested.epoch, promised.epoch);
            tracing::debug!(pool, term, promised, "refused: another term is promised");
        }
        Some(Response::StateLost(_, life)) => {
            tracing::debug!(pool, life, "this member has no record and no vote");
        }
        Some(Response::Known(..)) => {}
        None => tracing::debug!(pool, "a request needs no response, or is ignored"),
    }
}

impl Slot {
    fn silence(&self) -> Option<Silence> {
        match self {
            Self::Open(_) => None,
            Self::Silent(why) => Some(*why),
            Self::NotStored(_) => Some(Silence::NotStored),
        }
    }

    /// The state after an error.
    fn after(pool: u64, error: &StoreError) -> Self {
        match silence(pool, error) {
            Silence::NotStored => Self::NotStored(Instant::now()),
            why => Self::Silent(why),
        }
    }
}

/// Maps an error to the reported reason, and logs it once, where it occurs.
fn silence(pool: u64, error: &StoreError) -> Silence {
    let why = match error.kind {
        StoreErrorKind::Missing => Silence::Missing,
        StoreErrorKind::Refused => Silence::Damaged,
        StoreErrorKind::Exists
        | StoreErrorKind::InUse
        | StoreErrorKind::System
        | StoreErrorKind::Doubtful => Silence::NotStored,
    };
    let cause = std::error::Error::source(error).map(tracing::field::display);
    tracing::error!(pool, %error, cause, "this member does not respond for the pool");
    why
}

/// Numbers of the pools that a member with this directory stores, or stored once. Empty if the directory is missing.
///
/// # Errors
///
/// The directory cannot be read.
pub fn pools_in(folder: &Path) -> io::Result<Vec<u64>> {
    let mut pools = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(pools),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        let Some((number, STORED | LEGS)) = name.split_once('.') else {
            continue;
        };
        pools.extend(number.parse::<u64>().ok());
    }
    pools.sort_unstable();
    pools.dedup();
    Ok(pools)
}

fn known(folder: &Path, pool: u64) -> PathBuf {
    folder.join(format!("{pool}.{STORED}"))
}

/// Creates the marker that this member has stored the pool. Durable on return.
fn note(folder: &Path, pool: u64) -> io::Result<()> {
    let path = known(folder, pool);
    if path.try_exists()? {
        return Ok(());
    }
    File::create(path)?;
    File::open(folder)?.sync_all()
}

/// Renames a refused file. The marker remains.
fn move_aside(folder: &Path, pool: u64) -> io::Result<()> {
    let refused = leg_memory::path_of(folder, pool);
    if !refused.try_exists()? {
        return Ok(());
    }
    note(folder, pool)?;
    let free = (1_u32..).map(|number| refused.with_extension(format!("legs.refused-{number}")));
    let mut free = free.take(POOLS_MAX);
    let kept = free.find(|path| !path.exists()).ok_or_else(|| {
        io::Error::other("too many refused files: remove the ones that are not needed")
    })?;
    std::fs::rename(&refused, kept)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use leg_record::{Ballot, Membership, Record, Response, Tag};

    const POOL: u64 = 77;
    const HEAD: MemberId = MemberId(1);

    fn memory() -> MemberState {
        let ballot = Ballot { epoch: 1, nonce: 5 };
        MemberState::new(Record::new(POOL, ballot, [DiskId(1), DiskId(2)]))
    }

    fn member(folder: &Path) -> Member {
        Member::open(folder, MemberId(3), 9, Box::new(|_| false)).expect("opened")
    }

    fn witness(folder: &Path) -> Member {
        member(folder).as_witness()
    }

    /// A pool of the same number is new to the member then.
    #[test]
    fn a_forgotten_pool_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let member = member(folder.path());
        let found = || receive(&member, Message::Found(memory()));
        assert!(matches!(found(), Some(Message::Created(_))));
        assert_eq!(pools_in(folder.path()).expect("read"), [POOL]);
        assert!(member.forget(POOL).expect("removed"));
        let left = std::fs::read_dir(folder.path()).expect("read");
        assert_eq!(left.count(), 0);
        assert!(member.states().is_empty());
        assert!(!member.forget(POOL).expect("nothing to remove"));
        assert!(matches!(found(), Some(Message::Created(_))));
    }

    fn receive(member: &Member, message: Message) -> Option<Message> {
        let envelope = Envelope {
            pool: POOL,
            boot: 4,
            message,
        };
        let response = member.receive(HEAD, envelope);
        response.map(|response| {
            assert_eq!((response.pool, response.boot), (POOL, 9));
            response.message
        })
    }

    /// A head that serves the pool sends the join request. Existing state is discarded only if a record left this
    /// member out.
    #[test]
    fn member_without_state_starts_new_life_on_join() {
        let folder = tempfile::tempdir().expect("a folder");
        let tag = Tag { boot: 4, number: 1 };
        let join = |members: Option<Membership>, epoch: u64| {
            let mut record = memory().accepted.expect("a record");
            record.ballot.epoch = epoch;
            record.members = members;
            let life = 6 + epoch;
            Message::Request(Request::Join { tag, record, life })
        };
        let state_lost = |life| Some(Message::Response(Response::StateLost(tag, life)));
        let heads = Membership::TwoHeads([HEAD, MemberId(2)]);
        let (joining, known) = (folder.path().join("new"), folder.path().join("known"));
        assert_eq!(receive(&witness(&joining), join(None, 1)), state_lost(7));
        // The file stores the life, also across a restart.
        let again = witness(&joining);
        assert_eq!(again.states()[&POOL], PoolState::Lost);
        assert_eq!(receive(&again, join(Some(heads.clone()), 3)), state_lost(7));
        let again = witness(&known);
        assert_eq!(receive(&again, Message::Found(memory())), created());
        assert_eq!(receive(&again, join(None, 3)), None);
        assert_eq!(receive(&again, join(Some(heads), 3)), state_lost(9));
        assert_eq!(member_file(&known), MemberState::again(9));
    }

    /// Whichever record it receives. It has no state of that pool to discard.
    #[test]
    fn head_joins_unknown_pool_and_keeps_existing_ones() {
        let folder = tempfile::tempdir().expect("a folder");
        let head = member(folder.path());
        let mut record = memory().accepted.expect("a record");
        record.ballot.epoch = 3;
        record.members = Some(Membership::TwoHeads([HEAD, MemberId(2)]));
        let tag = Tag { boot: 4, number: 1 };
        let join = Message::Request(Request::Join {
            tag,
            record,
            life: 9,
        });
        assert_eq!(receive(&head, Message::Found(memory())), created());
        assert_eq!(receive(&head, join.clone()), None);
        assert_eq!(member_file(folder.path()), memory());
        let folder = folder.path().join("new");
        let third = member(&folder);
        let state_lost = Some(Message::Response(Response::StateLost(tag, 9)));
        assert_eq!(receive(&third, join.clone()), state_lost);
        assert_eq!(receive(&third, join), state_lost, "the response was lost");
        assert_eq!(member_file(&folder), MemberState::again(9));
    }

    /// The record names the members. The configuration counts only if the record names none.
    #[test]
    fn members_of_record_override_configuration() {
        let folder = tempfile::tempdir().expect("a folder");
        let heads = [HEAD, MemberId(2)];
        let witness = MemberId(3);
        let two = Membership::TwoHeads(heads);
        let three = Membership::TwoHeadsAndWitness { heads, witness };
        let one = member(folder.path());
        assert_eq!(one.membership(POOL, &two), Some(two.clone()), "unknown");
        receive(&one, Message::Found(memory()));
        assert_eq!(one.membership(POOL, &two), Some(two.clone()), "unnamed");
        let mut record = memory().accepted.expect("a record");
        record.sequence += 1;
        record.members = Some(three.clone());
        assert!(matches!(
            receive(&one, Message::Request(Request::Propose(record))),
            Some(Message::Response(Response::Accepted(..)))
        ));
        assert_eq!(one.membership(POOL, &two), Some(three));
    }

    fn member_file(folder: &Path) -> MemberState {
        let bytes = std::fs::read(leg_memory::path_of(folder, POOL)).expect("a file");
        leg_record::decode_state(&bytes).expect("a memory")
    }

    fn read() -> Message {
        Message::Request(Request::Read(Tag { boot: 4, number: 1 }))
    }

    fn claim(by: MemberId) -> Message {
        let ballot = Ballot { epoch: 6, nonce: 2 };
        Message::Request(Request::Claim { ballot, by })
    }

    fn created() -> Option<Message> {
        Some(Message::Created(
            memory().accepted.expect("a record").version(),
        ))
    }

    fn silent(why: Silence) -> Option<Message> {
        Some(Message::Silent(why))
    }

    fn word(life: u64) -> Readmission {
        Readmission {
            life,
            is_replaced: false,
        }
    }

    fn state_lost(life: u64) -> Option<Message> {
        let tag = Tag { boot: 4, number: 1 };
        Some(Message::Response(Response::StateLost(tag, life)))
    }

    /// A record that names the life of this member.
    fn named(life: u64) -> Record {
        let mut record = memory().accepted.expect("a record");
        record.sequence += 1;
        record.lives.insert(MemberId(3), life);
        record
    }

    #[test]
    fn pool_is_created_once_and_persists_across_restart() {
        let folder = tempfile::tempdir().expect("folder");
        let one = member(folder.path());
        assert_eq!(receive(&one, read()), silent(Silence::Unknown));
        assert_eq!(receive(&one, Message::Found(memory())), created());
        assert_eq!(receive(&one, Message::Found(memory())), created(), "again");
        let promised = receive(&one, claim(HEAD));
        assert!(matches!(
            promised,
            Some(Message::Response(Response::Promised { .. }))
        ));
        assert_eq!(receive(&one, Message::Found(memory())), None, "too late");
        drop(one);
        let again = member(folder.path());
        let Some(Message::Response(Response::Known(_, known))) = receive(&again, read()) else {
            panic!("no response");
        };
        assert_eq!(known.promised.epoch, 6);
    }

    #[test]
    fn claim_for_another_head_is_refused() {
        let folder = tempfile::tempdir().expect("folder");
        let one = member(folder.path());
        receive(&one, Message::Found(memory()));
        assert_eq!(receive(&one, claim(MemberId(2))), None);
    }

    #[test]
    fn member_without_file_is_mute_until_confirmed() {
        let folder = tempfile::tempdir().expect("folder");
        let one = member(folder.path());
        receive(&one, Message::Found(memory()));
        assert!(matches!(
            one.readmit(POOL, word(7)),
            Err(ReadmitError::HasRecord(POOL))
        ));
        drop(one);
        std::fs::remove_file(leg_memory::path_of(folder.path(), POOL)).expect("lost");
        let again = member(folder.path());
        assert_eq!(receive(&again, read()), silent(Silence::Missing));
        let refound = receive(&again, Message::Found(memory()));
        assert_eq!(refound, silent(Silence::Missing), "by no head alone");
        let unsaid = again.readmit(POOL + 1, word(7));
        assert!(matches!(unsaid, Err(ReadmitError::Unknown(_))));
        again.readmit(POOL, word(7)).expect("a person's word");
        assert!(matches!(
            again.readmit(POOL, word(8)),
            Err(ReadmitError::Waits(POOL))
        ));
        assert_eq!(receive(&again, read()), state_lost(7));
        assert_eq!(receive(&again, claim(HEAD)), silent(Silence::Lost));
        assert_eq!(receive(&again, Message::Found(memory())), None);
        drop(again);
        let again = member(folder.path());
        assert_eq!(again.states()[&POOL], PoolState::Lost);
        assert_eq!(receive(&again, read()), state_lost(7), "after a restart");
        assert!(matches!(
            receive(&again, Message::Request(Request::Welcome(named(7)))),
            Some(Message::Response(Response::Accepted(..)))
        ));
        let version = Some(named(7).version());
        assert_eq!(again.states()[&POOL], PoolState::HasRecord(version));
    }

    /// Another process readmits the member while this one runs.
    #[test]
    fn confirmation_by_other_process_applies_to_next_request() {
        let folder = tempfile::tempdir().expect("folder");
        let one = member(folder.path());
        receive(&one, Message::Found(memory()));
        let said = readmit(folder.path(), POOL, word(7));
        assert!(matches!(said, Err(ReadmitError::HasRecord(POOL))));
        drop(one);
        let path = leg_memory::path_of(folder.path(), POOL);
        let whole = std::fs::read(&path).expect("read");
        std::fs::remove_file(&path).expect("lost");
        let one = member(folder.path());
        assert_eq!(receive(&one, read()), silent(Silence::Missing));
        std::fs::write(&path, whole).expect("an old copy");
        assert_eq!(receive(&one, read()), silent(Silence::Missing), "no word");
        std::fs::remove_file(&path).expect("gone again");
        readmit(folder.path(), POOL, word(7)).expect("a person's word");
        assert_eq!(receive(&one, read()), state_lost(7));
    }

    /// A replacement host, or one that lost its whole directory.
    #[test]
    fn replacement_host_of_member_reports_itself() {
        let folder = tempfile::tempdir().expect("folder");
        let one = member(folder.path());
        assert_eq!(receive(&one, read()), silent(Silence::Unknown));
        let unsaid = readmit(folder.path(), POOL, word(7));
        assert!(matches!(unsaid, Err(ReadmitError::Unknown(POOL))));
        let replaced = Readmission {
            is_replaced: true,
            ..word(7)
        };
        readmit(folder.path(), POOL, replaced).expect("a person's word");
        assert_eq!(receive(&one, read()), state_lost(7));
    }

    #[test]
    fn confirmation_moves_damaged_file_aside() {
        let folder = tempfile::tempdir().expect("folder");
        let path = leg_memory::path_of(folder.path(), POOL);
        for round in 1..=2 {
            let one = member(folder.path());
            receive(&one, Message::Found(memory()));
            drop(one);
            std::fs::write(&path, format!("damage {round}")).expect("damaged");
            let again = member(folder.path());
            assert_eq!(receive(&again, read()), silent(Silence::Damaged));
            again.readmit(POOL, word(round)).expect("a person's word");
            assert_eq!(receive(&again, read()), state_lost(round));
            let kept = path.with_extension(format!("legs.refused-{round}"));
            let kept = std::fs::read_to_string(kept).expect("kept");
            assert_eq!(kept, format!("damage {round}"));
        }
    }

    /// The file exists and the marker is missing: killed between the two.
    #[test]
    fn kill_between_file_and_marker_loses_no_state() {
        let folder = tempfile::tempdir().expect("folder");
        let one = member(folder.path());
        receive(&one, Message::Found(memory()));
        drop(one);
        std::fs::remove_file(known(folder.path(), POOL)).expect("as if killed");
        drop(member(folder.path()));
        std::fs::remove_file(leg_memory::path_of(folder.path(), POOL)).expect("lost");
        let again = member(folder.path());
        assert_eq!(receive(&again, read()), silent(Silence::Missing));
    }

    /// The disk is full, until space is freed.
    #[test]
    fn failed_write_mutes_pool_until_a_write_succeeds() {
        let folder = tempfile::tempdir().expect("folder");
        let mut one = member(folder.path());
        receive(&one, Message::Found(memory()));
        let new = leg_memory::path_of(folder.path(), POOL).with_extension("legs.new");
        std::fs::create_dir(&new).expect("in the way");
        assert_eq!(receive(&one, claim(HEAD)), silent(Silence::NotStored));
        let state = one.states()[&POOL];
        assert_eq!(state, PoolState::Silent(Silence::NotStored));
        std::fs::remove_dir(&new).expect("out of the way");
        assert_eq!(
            receive(&one, read()),
            silent(Silence::NotStored),
            "too early"
        );
        std::fs::create_dir(&new).expect("in the way");
        one.keep_again = Duration::ZERO;
        assert_eq!(
            receive(&one, read()),
            silent(Silence::NotStored),
            "still full"
        );
        std::fs::remove_dir(&new).expect("out of the way");
        let promised = receive(&one, claim(HEAD));
        assert!(
            matches!(promised, Some(Message::Response(Response::Promised { .. }))),
            "{promised:?}"
        );
    }

    #[test]
    fn pool_not_stored_at_creation_is_created_later() {
        let folder = tempfile::tempdir().expect("folder");
        let mut one = member(folder.path());
        one.keep_again = Duration::ZERO;
        let new = leg_memory::path_of(folder.path(), POOL).with_extension("legs.new");
        std::fs::create_dir(&new).expect("in the way");
        assert_eq!(
            receive(&one, Message::Found(memory())),
            silent(Silence::NotStored)
        );
        std::fs::remove_dir(&new).expect("out of the way");
        assert_eq!(receive(&one, read()), silent(Silence::Unknown));
        assert_eq!(receive(&one, Message::Found(memory())), created());
    }
}
