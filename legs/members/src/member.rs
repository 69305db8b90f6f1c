//! Handles the requests to one member from its files, which are in one directory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use leg_memory::{Store, StoreError, StoreErrorKind};
use leg_record::{Answer, DiskId, MemberId, Membership, Memory, Request, Version};

use crate::limits::{KEEP_AGAIN, POOLS_MAX};
use crate::silence::Silence;
use crate::wire::{Envelope, Message};

/// File name extension of the marker that this member has stored the pool at some time.
const KNOWN: &str = "known";
/// File name extension of the files of [`leg_memory`].
const LEGS: &str = "legs";

/// Whether a pool server of this host owns the pool.
pub type Serves = Box<dyn Fn(u64) -> bool + Send + Sync>;

/// State of this member for one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// It responds for the pool. The version of the newest record that it accepted.
    Remembers(Option<Version>),
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
    Remembers(u64),
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
pub struct Word {
    /// Random, not 0: the new life of the member.
    pub life: u64,
    /// Also readmit it if no file shows that it stored the pool before, because this host is a replacement.
    pub is_replaced: bool,
}

enum Slot {
    Open(Box<Store>),
    Silent(Silence),
    /// A change could not be written, at this time.
    Unkept(Instant),
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
    may_forget: bool,
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
            keep_again: KEEP_AGAIN,
            may_forget: false,
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
            may_forget: true,
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
            return Slot::Unkept(Instant::now());
        }
        match Store::open(&self.folder, pool) {
            Ok(store) => Slot::Open(Box::new(store)),
            Err(error) => Slot::after(pool, &error),
        }
    }

    /// A change could not be written: retries, at most once per `keep_again`.
    fn try_again(&self, pool: u64, slot: &mut Slot) {
        let Slot::Unkept(tried) = slot else { return };
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
            Err(_) => Slot::Unkept(Instant::now()),
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
            Slot::Silent(_) | Slot::Unkept(_) => None,
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
                PoolState::Remembers(record.map(|record| record.version()))
            }
            Slot::Silent(why) => PoolState::Silent(*why),
            Slot::Unkept(_) => PoolState::Silent(Silence::Unkept),
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
            Slot::Silent(_) | Slot::Unkept(_) => false,
        });
        found.map(|(pool, _)| pool)
    }

    /// Handles a message of member `from`. The state that the response promises is already durable. May block on a
    /// disk.
    pub fn hear(&self, from: MemberId, envelope: Envelope) -> Option<Envelope> {
        let pool = envelope.pool;
        let message = match envelope.message {
            Message::Alive => Some(Message::Alive),
            Message::Ask(Request::Claim { by, .. }) if by != from => {
                tracing::warn!(
                    pool,
                    member = from.0,
                    by = by.0,
                    "a member claims a pool for another member: ignored"
                );
                None
            }
            Message::Ask(Request::Join { .. }) if !self.may_forget && self.remembers(pool) => {
                tracing::warn!(
                    pool,
                    member = from.0,
                    "a member requests that this head discard a pool and join it again: ignored"
                );
                None
            }
            Message::Ask(request) => self.ask(pool, request),
            Message::Found(memory) => self.found(pool, memory),
            Message::Tell(_)
            | Message::Founded(_)
            | Message::Silent(_)
            | Message::AskLender(..)
            | Message::LookAt(_)
            | Message::Looked(_)
            | Message::AskConfiguration
            | Message::Configuration(_)
            | Message::AskLiveness
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

    fn ask(&self, pool: u64, request: Request) -> Option<Message> {
        if let Request::Join { life, .. } = &request {
            self.begin_life(pool, *life);
        }
        let Some(slot) = self.slot(pool) else {
            return Some(Message::Silent(Silence::Unknown));
        };
        let mut slot = slot.lock().expect("no holder panics");
        self.try_again(pool, &mut slot);
        if slot.silence().is_some_and(Silence::is_of_the_file) {
            self.look_for_word(pool, &mut slot);
        }
        let Slot::Open(store) = &mut *slot else {
            return slot.silence().map(Message::Silent);
        };
        match store.handle(self.me, request, (self.serves)(pool)) {
            Ok(None) if store.memory().is_lost() => Some(Message::Silent(Silence::Lost)),
            Ok(answer) => {
                note_decision(pool, answer.as_ref());
                answer.map(Message::Tell)
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
            Slot::Unkept(_) => true,
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
            *slot = self.create(pool, Memory::again(life));
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
    fn look_for_word(&self, pool: u64, slot: &mut Slot) {
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
    fn found(&self, pool: u64, memory: Memory) -> Option<Message> {
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
            Slot::Silent(_) | Slot::Unkept(_) => {}
        }
        Some(match &*slot {
            Slot::Open(store) => {
                let record = store.memory().accepted.as_ref();
                Message::Founded(record.map(|record| record.version()).unwrap_or_default())
            }
            Slot::Silent(why) => Message::Silent(*why),
            Slot::Unkept(_) => Message::Silent(Silence::Unkept),
        })
    }

    fn create(&self, pool: u64, memory: Memory) -> Slot {
        let created = Store::create(&self.folder, pool, memory);
        let Ok(store) = created.map_err(|error| silence(pool, &error)) else {
            return Slot::Unkept(Instant::now());
        };
        // Written after the file: without the marker, the file itself shows that the pool was stored.
        match note(&self.folder, pool) {
            Ok(()) => {
                tracing::info!(pool, "a new pool is remembered");
                Slot::Open(Box::new(store))
            }
            Err(error) => {
                tracing::error!(pool, %error, "this member does not respond for a new pool: the directory cannot be written");
                Slot::Unkept(Instant::now())
            }
        }
    }

    /// As [`readmit`], in the process that serves the member.
    ///
    /// # Errors
    ///
    /// As [`readmit`].
    pub fn readmit(&self, pool: u64, word: Word) -> Result<(), ReadmitError> {
        let slot = self.slot(pool);
        let mut slot = slot
            .as_ref()
            .map(|slot| slot.lock().expect("no holder panics"));
        match slot.as_deref() {
            Some(Slot::Open(store)) if store.memory().is_lost() => {
                return Err(ReadmitError::Waits(pool));
            }
            Some(Slot::Open(_)) => return Err(ReadmitError::Remembers(pool)),
            _ => {}
        }
        readmit(&self.folder, pool, word)?;
        if let Some(slot) = &mut slot {
            self.look_for_word(pool, slot);
        }
        Ok(())
    }
}

/// Readmits the member with this directory after it has lost its state of the pool. The process that serves the member
/// need not run. A refused file is renamed, not deleted.
///
/// # Errors
///
/// The member has the pool's record, or never stored it.
pub fn readmit(folder: &Path, pool: u64, word: Word) -> Result<(), ReadmitError> {
    let system = |error| ReadmitError::System(pool, error);
    match Store::open(folder, pool) {
        Ok(store) if store.memory().is_lost() => return Err(ReadmitError::Waits(pool)),
        Ok(_) => return Err(ReadmitError::Remembers(pool)),
        Err(error) => match error.kind {
            StoreErrorKind::InUse => return Err(ReadmitError::Remembers(pool)),
            StoreErrorKind::Missing | StoreErrorKind::Refused => {}
            _ => return Err(ReadmitError::Store(pool, error)),
        },
    }
    let was_known = pools_in(folder).map_err(system)?.contains(&pool);
    if !was_known && !word.is_replaced {
        return Err(ReadmitError::Unknown(pool));
    }
    put_aside(folder, pool).map_err(system)?;
    let store = Store::create(folder, pool, Memory::again(word.life));
    store.map_err(|error| ReadmitError::Store(pool, error))?;
    note(folder, pool).map_err(system)
}

/// Logs the decision on a request. Reads change nothing, and are logged with the messages.
fn note_decision(pool: u64, answer: Option<&Answer>) {
    match answer {
        Some(Answer::Promised { ballot, life, .. }) => {
            tracing::debug!(pool, term = ballot.epoch, life, "a term is promised");
        }
        Some(Answer::Serves(ballot)) => {
            let term = ballot.epoch;
            tracing::debug!(pool, term, "a claim is refused: this head serves the pool");
        }
        Some(Answer::Accepted(ballot, version)) => {
            let (term, record) = (ballot.epoch, version.sequence);
            tracing::debug!(pool, term, record, "a record is accepted");
        }
        Some(Answer::Refused { asked, promised }) => {
            let (term, promised) = (asked.epoch, promised.epoch);
            tracing::debug!(pool, term, promised, "refused: another term is promised");
        }
        Some(Answer::Forgot(_, life)) => {
            tracing::debug!(pool, life, "this member has no record and no vote");
        }
        Some(Answer::Known(..)) => {}
        None => tracing::debug!(pool, "a request needs no response, or is ignored"),
    }
}

impl Slot {
    fn silence(&self) -> Option<Silence> {
        match self {
            Self::Open(_) => None,
            Self::Silent(why) => Some(*why),
            Self::Unkept(_) => Some(Silence::Unkept),
        }
    }

    /// The state after an error.
    fn after(pool: u64, error: &StoreError) -> Self {
        match silence(pool, error) {
            Silence::Unkept => Self::Unkept(Instant::now()),
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
        | StoreErrorKind::Doubtful => Silence::Unkept,
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
        let Some((number, KNOWN | LEGS)) = name.split_once('.') else {
            continue;
        };
        pools.extend(number.parse::<u64>().ok());
    }
    pools.sort_unstable();
    pools.dedup();
    Ok(pools)
}

fn known(folder: &Path, pool: u64) -> PathBuf {
    folder.join(format!("{pool}.{KNOWN}"))
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
fn put_aside(folder: &Path, pool: u64) -> io::Result<()> {
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
    use leg_record::{Answer, Ballot, Membership, Record, Tag};

    const POOL: u64 = 77;
    const HEAD: MemberId = MemberId(1);

    fn memory() -> Memory {
        let ballot = Ballot { epoch: 1, nonce: 5 };
        Memory::new(Record::new(POOL, ballot, [DiskId(1), DiskId(2)]))
    }

    fn member(folder: &Path) -> Member {
        Member::open(folder, MemberId(3), 9, Box::new(|_| false)).expect("opened")
    }

    fn witness(folder: &Path) -> Member {
        member(folder).as_witness()
    }

    fn hear(member: &Member, message: Message) -> Option<Message> {
        let envelope = Envelope {
            pool: POOL,
            boot: 4,
            message,
        };
        let answer = member.hear(HEAD, envelope);
        answer.map(|answer| {
            assert_eq!((answer.pool, answer.boot), (POOL, 9));
            answer.message
        })
    }

    /// A head that serves the pool sends the join request. Existing state is discarded only if a record left this
    /// member out.
    #[test]
    fn a_member_that_was_never_told_of_a_pool_begins_a_life_when_it_is_to_join() {
        let folder = tempfile::tempdir().expect("a folder");
        let tag = Tag { boot: 4, number: 1 };
        let join = |members: Option<Membership>, epoch: u64| {
            let mut record = memory().accepted.expect("a record");
            record.ballot.epoch = epoch;
            record.members = members;
            let life = 6 + epoch;
            Message::Ask(Request::Join { tag, record, life })
        };
        let forgot = |life| Some(Message::Tell(Answer::Forgot(tag, life)));
        let heads = Membership::TwoHeads([HEAD, MemberId(2)]);
        let (joining, known) = (folder.path().join("new"), folder.path().join("known"));
        assert_eq!(hear(&witness(&joining), join(None, 1)), forgot(7));
        // The file stores the life, also across a restart.
        let again = witness(&joining);
        assert_eq!(again.states()[&POOL], PoolState::Lost);
        assert_eq!(hear(&again, join(Some(heads.clone()), 3)), forgot(7));
        let again = witness(&known);
        assert_eq!(hear(&again, Message::Found(memory())), founded());
        assert_eq!(hear(&again, join(None, 3)), None);
        assert_eq!(hear(&again, join(Some(heads), 3)), forgot(9));
        assert_eq!(member_file(&known), Memory::again(9));
    }

    /// Whichever record it receives. It has no state of that pool to discard.
    #[test]
    fn a_head_joins_a_pool_that_is_new_to_it_and_forgets_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let head = member(folder.path());
        let mut record = memory().accepted.expect("a record");
        record.ballot.epoch = 3;
        record.members = Some(Membership::TwoHeads([HEAD, MemberId(2)]));
        let tag = Tag { boot: 4, number: 1 };
        let join = Message::Ask(Request::Join {
            tag,
            record,
            life: 9,
        });
        assert_eq!(hear(&head, Message::Found(memory())), founded());
        assert_eq!(hear(&head, join.clone()), None);
        assert_eq!(member_file(folder.path()), memory());
        let folder = folder.path().join("new");
        let third = member(&folder);
        let forgot = Some(Message::Tell(Answer::Forgot(tag, 9)));
        assert_eq!(hear(&third, join.clone()), forgot);
        assert_eq!(hear(&third, join), forgot, "the response was lost");
        assert_eq!(member_file(&folder), Memory::again(9));
    }

    /// The record names the members. The configuration counts only if the record names none.
    #[test]
    fn the_members_are_those_of_the_record() {
        let folder = tempfile::tempdir().expect("a folder");
        let heads = [HEAD, MemberId(2)];
        let witness = MemberId(3);
        let two = Membership::TwoHeads(heads);
        let three = Membership::TwoHeadsAndWitness { heads, witness };
        let one = member(folder.path());
        assert_eq!(one.membership(POOL, &two), Some(two.clone()), "unknown");
        hear(&one, Message::Found(memory()));
        assert_eq!(one.membership(POOL, &two), Some(two.clone()), "unnamed");
        let mut record = memory().accepted.expect("a record");
        record.sequence += 1;
        record.members = Some(three.clone());
        assert!(matches!(
            hear(&one, Message::Ask(Request::Propose(record))),
            Some(Message::Tell(Answer::Accepted(..)))
        ));
        assert_eq!(one.membership(POOL, &two), Some(three));
    }

    fn member_file(folder: &Path) -> Memory {
        let bytes = std::fs::read(leg_memory::path_of(folder, POOL)).expect("a file");
        leg_record::decode_memory(&bytes).expect("a memory")
    }

    fn read() -> Message {
        Message::Ask(Request::Read(Tag { boot: 4, number: 1 }))
    }

    fn claim(by: MemberId) -> Message {
        let ballot = Ballot { epoch: 6, nonce: 2 };
        Message::Ask(Request::Claim { ballot, by })
    }

    fn founded() -> Option<Message> {
        Some(Message::Founded(
            memory().accepted.expect("a record").version(),
        ))
    }

    fn silent(why: Silence) -> Option<Message> {
        Some(Message::Silent(why))
    }

    fn word(life: u64) -> Word {
        Word {
            life,
            is_replaced: false,
        }
    }

    fn forgot(life: u64) -> Option<Message> {
        let tag = Tag { boot: 4, number: 1 };
        Some(Message::Tell(Answer::Forgot(tag, life)))
    }

    /// A record that names the life of this member.
    fn named(life: u64) -> Record {
        let mut record = memory().accepted.expect("a record");
        record.sequence += 1;
        record.lives.insert(MemberId(3), life);
        record
    }

    #[test]
    fn a_pool_is_founded_once_and_remembered_after_a_restart() {
        let folder = tempfile::tempdir().expect("folder");
        let one = member(folder.path());
        assert_eq!(hear(&one, read()), silent(Silence::Unknown));
        assert_eq!(hear(&one, Message::Found(memory())), founded());
        assert_eq!(hear(&one, Message::Found(memory())), founded(), "again");
        let promised = hear(&one, claim(HEAD));
        assert!(matches!(
            promised,
            Some(Message::Tell(Answer::Promised { .. }))
        ));
        assert_eq!(hear(&one, Message::Found(memory())), None, "too late");
        drop(one);
        let again = member(folder.path());
        let Some(Message::Tell(Answer::Known(_, known))) = hear(&again, read()) else {
            panic!("no answer");
        };
        assert_eq!(known.promised.epoch, 6);
    }

    #[test]
    fn nobody_claims_for_another() {
        let folder = tempfile::tempdir().expect("folder");
        let one = member(folder.path());
        hear(&one, Message::Found(memory()));
        assert_eq!(hear(&one, claim(MemberId(2))), None);
    }

    #[test]
    fn a_member_that_lost_its_file_is_silent_until_a_person_says_so() {
        let folder = tempfile::tempdir().expect("folder");
        let one = member(folder.path());
        hear(&one, Message::Found(memory()));
        assert!(matches!(
            one.readmit(POOL, word(7)),
            Err(ReadmitError::Remembers(POOL))
        ));
        drop(one);
        std::fs::remove_file(leg_memory::path_of(folder.path(), POOL)).expect("lost");
        let again = member(folder.path());
        assert_eq!(hear(&again, read()), silent(Silence::Missing));
        let refound = hear(&again, Message::Found(memory()));
        assert_eq!(refound, silent(Silence::Missing), "by no head alone");
        let unsaid = again.readmit(POOL + 1, word(7));
        assert!(matches!(unsaid, Err(ReadmitError::Unknown(_))));
        again.readmit(POOL, word(7)).expect("a person's word");
        assert!(matches!(
            again.readmit(POOL, word(8)),
            Err(ReadmitError::Waits(POOL))
        ));
        assert_eq!(hear(&again, read()), forgot(7));
        assert_eq!(hear(&again, claim(HEAD)), silent(Silence::Lost));
        assert_eq!(hear(&again, Message::Found(memory())), None);
        drop(again);
        let again = member(folder.path());
        assert_eq!(again.states()[&POOL], PoolState::Lost);
        assert_eq!(hear(&again, read()), forgot(7), "after a restart");
        assert!(matches!(
            hear(&again, Message::Ask(Request::Welcome(named(7)))),
            Some(Message::Tell(Answer::Accepted(..)))
        ));
        let version = Some(named(7).version());
        assert_eq!(again.states()[&POOL], PoolState::Remembers(version));
    }

    /// Another process readmits the member while this one runs.
    #[test]
    fn a_word_that_another_process_said_is_followed_at_the_next_question() {
        let folder = tempfile::tempdir().expect("folder");
        let one = member(folder.path());
        hear(&one, Message::Found(memory()));
        let said = readmit(folder.path(), POOL, word(7));
        assert!(matches!(said, Err(ReadmitError::Remembers(POOL))));
        drop(one);
        let path = leg_memory::path_of(folder.path(), POOL);
        let whole = std::fs::read(&path).expect("read");
        std::fs::remove_file(&path).expect("lost");
        let one = member(folder.path());
        assert_eq!(hear(&one, read()), silent(Silence::Missing));
        std::fs::write(&path, whole).expect("an old copy");
        assert_eq!(hear(&one, read()), silent(Silence::Missing), "no word");
        std::fs::remove_file(&path).expect("gone again");
        readmit(folder.path(), POOL, word(7)).expect("a person's word");
        assert_eq!(hear(&one, read()), forgot(7));
    }

    /// A replacement host, or one that lost its whole directory.
    #[test]
    fn a_machine_that_takes_the_place_of_a_member_says_so() {
        let folder = tempfile::tempdir().expect("folder");
        let one = member(folder.path());
        assert_eq!(hear(&one, read()), silent(Silence::Unknown));
        let unsaid = readmit(folder.path(), POOL, word(7));
        assert!(matches!(unsaid, Err(ReadmitError::Unknown(POOL))));
        let replaced = Word {
            is_replaced: true,
            ..word(7)
        };
        readmit(folder.path(), POOL, replaced).expect("a person's word");
        assert_eq!(hear(&one, read()), forgot(7));
    }

    #[test]
    fn a_damaged_file_is_kept_aside_by_a_persons_word() {
        let folder = tempfile::tempdir().expect("folder");
        let path = leg_memory::path_of(folder.path(), POOL);
        for round in 1..=2 {
            let one = member(folder.path());
            hear(&one, Message::Found(memory()));
            drop(one);
            std::fs::write(&path, format!("damage {round}")).expect("damaged");
            let again = member(folder.path());
            assert_eq!(hear(&again, read()), silent(Silence::Damaged));
            again.readmit(POOL, word(round)).expect("a person's word");
            assert_eq!(hear(&again, read()), forgot(round));
            let kept = path.with_extension(format!("legs.refused-{round}"));
            let kept = std::fs::read_to_string(kept).expect("kept");
            assert_eq!(kept, format!("damage {round}"));
        }
    }

    /// The file exists and the marker is missing: killed between the two.
    #[test]
    fn a_kill_between_the_file_and_its_note_forgets_nothing() {
        let folder = tempfile::tempdir().expect("folder");
        let one = member(folder.path());
        hear(&one, Message::Found(memory()));
        drop(one);
        std::fs::remove_file(known(folder.path(), POOL)).expect("as if killed");
        drop(member(folder.path()));
        std::fs::remove_file(leg_memory::path_of(folder.path(), POOL)).expect("lost");
        let again = member(folder.path());
        assert_eq!(hear(&again, read()), silent(Silence::Missing));
    }

    /// The disk is full, until space is freed.
    #[test]
    fn a_write_that_fails_silences_the_pool_until_one_succeeds() {
        let folder = tempfile::tempdir().expect("folder");
        let mut one = member(folder.path());
        hear(&one, Message::Found(memory()));
        let new = leg_memory::path_of(folder.path(), POOL).with_extension("legs.new");
        std::fs::create_dir(&new).expect("in the way");
        assert_eq!(hear(&one, claim(HEAD)), silent(Silence::Unkept));
        let state = one.states()[&POOL];
        assert_eq!(state, PoolState::Silent(Silence::Unkept));
        std::fs::remove_dir(&new).expect("out of the way");
        assert_eq!(hear(&one, read()), silent(Silence::Unkept), "too early");
        std::fs::create_dir(&new).expect("in the way");
        one.keep_again = Duration::ZERO;
        assert_eq!(hear(&one, read()), silent(Silence::Unkept), "still full");
        std::fs::remove_dir(&new).expect("out of the way");
        let promised = hear(&one, claim(HEAD));
        assert!(
            matches!(promised, Some(Message::Tell(Answer::Promised { .. }))),
            "{promised:?}"
        );
    }

    #[test]
    fn a_pool_that_could_not_be_kept_when_it_was_made_is_made_later() {
        let folder = tempfile::tempdir().expect("folder");
        let mut one = member(folder.path());
        one.keep_again = Duration::ZERO;
        let new = leg_memory::path_of(folder.path(), POOL).with_extension("legs.new");
        std::fs::create_dir(&new).expect("in the way");
        assert_eq!(
            hear(&one, Message::Found(memory())),
            silent(Silence::Unkept)
        );
        std::fs::remove_dir(&new).expect("out of the way");
        assert_eq!(hear(&one, read()), silent(Silence::Unknown));
        assert_eq!(hear(&one, Message::Found(memory())), founded());
    }
}
