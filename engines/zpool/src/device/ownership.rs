//! Verifies that this process still owns the disks that it writes to.
//!
//! A process that was stopped (a signal, a paused virtual machine, a stalled kernel) does not notice it, and another
//! head may have imported the pool in that time. Three mechanisms prevent it from writing:
//!
//! * **Locks.** On one kernel, a stopped process retains its locks: no other process opens the pool.
//! * **Reservations.** A disk that another head preempted refuses our writes. The first such refusal terminates this
//!   process.
//! * **Attention.** The clock is checked before each request to a device, and before each reply of a volume, because
//!   cached data reaches no device: after a long gap without such a check, every disk's label is read first, and if
//!   another host has written there, this process terminates. Until enough labels have been read, requests and replies
//!   are held. A check cannot be exact: a stop between it and the write is not covered. So it is a safety net under the
//!   other two. Labels are also read periodically, for a host with a clock that stopped with it.
//!
//! A pool with `multihost=on` has a fourth: an owner that could not write an MMP uberblock for so long that another
//! head may soon consider the pool abandoned terminates, and must prove again that it may own the pool.
//!
//! The process terminates at once and without a reply: clients lose their sessions and retry. No client receives an
//! error, and no further write is issued.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::OwnerOnDisk;
use super::bridge::OpenDisk;

/// Exit code of a process that lost its pool, the same as for a pool that cannot serve.
pub const EXIT_OWNERSHIP_LOST: i32 = 8;
/// Longest gap between clock checks in a running process. A host that stops for so long may have been declared dead.
pub(crate) const CHECK_GAP_MAX: Duration = Duration::from_millis(1_000);
/// A check is recorded at this interval, rather than by each of many writes.
const NOTE_INTERVAL: Duration = Duration::from_millis(50);
/// Pause between two checks while no write is issued.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Pause between two label reads, one disk after another.
const READING_INTERVAL: Duration = Duration::from_secs(2);
/// How long disks may take to return their labels before those that failed are read again.
const READING_LIMIT: Duration = Duration::from_secs(3);
/// Pause before that.
const READING_PAUSE: Duration = Duration::from_millis(50);

/// The pool's owner, as far as this check needs it.
pub(crate) trait Owner: std::fmt::Debug + Send + Sync {
    /// The open disks.
    fn disks(&self) -> Vec<OpenDisk>;
    /// The reason if a disk's contents prove that another owner has the pool.
    fn contradiction(&self, found: &OwnerOnDisk) -> Option<String>;
    /// Reads a disk's current contents with every cache bypassed; a remote disk's through its head.
    fn read(&self, disk: &Path) -> Option<OwnerOnDisk>;
    /// The reason if other heads may consider this owner dead, because it could write no MMP uberblock for long. Never
    /// blocks.
    fn silence(&self) -> Option<String>;
}

struct State {
    owners: Vec<Watched>,
}

/// An owner, with the disks that it last had open: another head may have written to those that the library closed
/// since, because they fail.
struct Watched {
    owner: Arc<dyn Owner>,
    disks: Vec<OpenDisk>,
}

static STATE: Mutex<State> = Mutex::new(State { owners: Vec::new() });
/// Whether an owner is registered.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// The last check of the clock, in nanoseconds since boot, including suspend.
static LAST_CHECK_NS: AtomicU64 = AtomicU64::new(0);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Watches `owner` until the process terminates or calls [`retire`].
pub(crate) fn watch(owner: Arc<dyn Owner>) -> std::io::Result<()> {
    let mut state = state();
    let disks = owner.disks();
    state.owners.push(Watched { owner, disks });
    LAST_CHECK_NS.store(now_ns(), Ordering::Release);
    if !WATCHED.swap(true, Ordering::AcqRel) {
        std::thread::Builder::new()
            .name("ownership".into())
            .spawn(run)?;
    }
    Ok(())
}

/// `owner` is about to export its pool.
pub(crate) fn retire(owner: &Arc<dyn Owner>) {
    state().owners.retain(|one| !Arc::ptr_eq(&one.owner, owner));
}

/// Checks the clock: whether the last check was recent. If not, no write or reply may be issued before [`attend`].
/// Never blocks.
pub(crate) fn is_check_recent() -> bool {
    !WATCHED.load(Ordering::Relaxed) || check_gap(LAST_CHECK_NS.load(Ordering::Acquire)).is_none()
}

/// The time since the last check in nanoseconds, if it was long; `last` is the last check.
fn check_gap(last: u64) -> Option<u64> {
    let now = now_ns();
    let since_ns = now.saturating_sub(last);
    if since_ns > CHECK_GAP_MAX.as_nanos() as u64 {
        return Some(since_ns);
    }
    if since_ns > NOTE_INTERVAL.as_nanos() as u64 {
        LAST_CHECK_NS.fetch_max(now, Ordering::AcqRel);
    }
    None
}

/// Checks the clock and, after a long gap, the disks. Called before each request to a device and each reply of a
/// volume.
pub(crate) fn attend() {
    if !WATCHED.load(Ordering::Relaxed) {
        return;
    }
    let last = LAST_CHECK_NS.load(Ordering::Acquire);
    let Some(since_ns) = check_gap(last) else {
        return;
    };
    let mut state = state();
    // Another thread held the lock and has done the check.
    if LAST_CHECK_NS.load(Ordering::Acquire) != last {
        return;
    }
    let stopped_ms = since_ns / 1_000_000;
    for watched in &mut state.owners {
        watched.note_disks();
        examine(&watched.owner, &watched.disks, stopped_ms, READING_LIMIT);
    }
    LAST_CHECK_NS.fetch_max(now_ns(), Ordering::AcqRel);
}

impl Watched {
    /// Updates the list of open disks; if none is open, the list is unchanged.
    fn note_disks(&mut self) {
        let now = self.owner.disks();
        if !now.is_empty() {
            self.disks = now;
        }
    }
}

/// Whether so many labels, of so many disks, are sufficient. Another head that imports a pool writes on every disk that
/// it sees. A disk that failed here must not prevent the use of the remaining ones.
const fn is_enough(read: usize, disks: usize) -> bool {
    read * 2 >= disks && (read > 0 || disks == 0)
}

/// Reads all disks concurrently, and terminates the process if one belongs to another owner. Returns when enough of
/// them prove the opposite, however long that lasts: without a label, ownership is unknown. Disks have until `limit`
/// before those that failed are read again.
fn examine(owner: &Arc<dyn Owner>, disks: &[OpenDisk], stopped_ms: u64, limit: Duration) {
    let (sender, receiver) = channel();
    let mut round = Round::new(owner, disks);
    let mut is_told = false;
    loop {
        // From disks that were late in earlier rounds.
        while let Ok(told) = receiver.try_recv() {
            round.take(told);
        }
        let late = round.asked.clone();
        round.start_reads(&sender);
        let deadline = Instant::now() + limit;
        while round.asked.difference(&late).next().is_some() {
            let left = deadline.saturating_duration_since(Instant::now());
            round.check_clock();
            match receiver.recv_timeout(left.min(CHECK_INTERVAL)) {
                Ok(told) => round.take(told),
                Err(_) if Instant::now() >= deadline => break,
                Err(_) => {}
            }
        }
        round.check_clock();
        let (read, disks) = round.counts();
        if round.is_conclusive(read, disks) {
            tracing::warn!(
                stopped_ms,
                disks,
                read,
                "this process stood still; the pool is still its own"
            );
            return;
        }
        if !std::mem::replace(&mut is_told, true) {
            tracing::error!(
                stopped_ms,
                disks,
                read,
                "this process stood still, and cannot read on its disks whether the pool is still its own: \
                 nothing is written or answered until it can"
            );
        }
        std::thread::sleep(READING_PAUSE);
    }
}

/// A disk, its contents, and when the read was issued; no contents if it cannot be read.
struct LabelRead {
    disk: PathBuf,
    found: Option<OwnerOnDisk>,
    asked: u64,
}

/// Label reads that are repeated until enough of them succeed.
struct Round<'a> {
    owner: &'a Arc<dyn Owner>,
    all: &'a [OpenDisk],
    /// Disks that were not read yet.
    waiting: Vec<OpenDisk>,
    /// Disks with a pending read: a disk that hangs holds one thread, and no more.
    asked: BTreeSet<PathBuf>,
    /// The last check of the clock. After another stop all disks are read again.
    looked: u64,
    /// Results of reads issued earlier prove nothing.
    since: u64,
}

impl<'a> Round<'a> {
    fn new(owner: &'a Arc<dyn Owner>, all: &'a [OpenDisk]) -> Self {
        let now = now_ns();
        Self {
            owner,
            all,
            waiting: all.to_vec(),
            asked: BTreeSet::new(),
            looked: now,
            since: now,
        }
    }

    /// This process may be stopped again.
    fn check_clock(&mut self) {
        let now = now_ns();
        let before = std::mem::replace(&mut self.looked, now);
        if now.saturating_sub(before) > CHECK_GAP_MAX.as_nanos() as u64 {
            self.since = now;
            self.waiting = self.all.to_vec();
        }
    }

    fn start_reads(&mut self, sender: &Sender<LabelRead>) {
        for disk in &self.waiting {
            if disk.is_left_out() || !self.asked.insert(disk.path.clone()) {
                continue;
            }
            let (owner, disk, sender) = (Arc::clone(self.owner), disk.path.clone(), sender.clone());
            let place = disk.clone();
            let reads = move || {
                let asked = now_ns();
                let found = owner.read(&disk);
                let _ = sender.send(LabelRead { disk, found, asked });
            };
            if let Err(error) = std::thread::Builder::new().spawn(reads) {
                tracing::warn!(%error, "no thread to read a label");
                self.asked.remove(&place);
            }
        }
    }

    fn take(&mut self, told: LabelRead) {
        self.check_clock();
        self.asked.remove(&told.disk);
        if let Some(found) = told.found {
            end_if_contradicted(self.owner, &told.disk, &found);
            if told.asked >= self.since {
                self.waiting.retain(|one| one.path != told.disk);
            }
        }
    }

    /// The number of disks that were read, and of disks that the pool has not been opened without.
    fn counts(&self) -> (usize, usize) {
        let count = |disks: &[OpenDisk]| disks.iter().filter(|disk| !disk.is_left_out()).count();
        let all = count(self.all);
        (all.saturating_sub(count(&self.waiting)), all)
    }

    /// Another owner cannot write to a local disk while this process has it locked. So each disk of another head must
    /// be read, or be excluded by the record, which only the owner changes.
    fn is_conclusive(&self, read: usize, disks: usize) -> bool {
        let mut waiting = self.waiting.iter();
        let is_missing = waiting.any(|disk| disk.is_far() && !disk.is_left_out());
        !is_missing && is_enough(read, disks)
    }
}

fn end_if_contradicted(owner: &Arc<dyn Owner>, disk: &Path, found: &OwnerOnDisk) {
    if let Some(why) = owner.contradiction(found) {
        lost(&format!("{}: {why}", disk.display()));
    }
}

/// Terminates the process at once: another head has the pool.
pub(crate) fn lost(why: &str) -> ! {
    tracing::error!(why, "the pool has another owner: this server ends at once");
    end()
}

/// Terminates the process at once: data that it assumes durable may be lost, and only a restart reads the true state.
pub(super) fn exit_for_restart(why: &str) -> ! {
    tracing::error!(
        why,
        "this server ends at once, so that the next one begins with the state on the devices; start it again \
         if the cluster does not: all acknowledged data is there"
    );
    end()
}

fn end() -> ! {
    // SAFETY: terminates the process without running any more of its code, which is the purpose: no thread may write or
    // reply any more.
    unsafe { nix::libc::_exit(EXIT_OWNERSHIP_LOST) }
}

/// Checks the clock while no write is issued, and reads a label periodically.
fn run() {
    let mut next_reading = Instant::now() + READING_INTERVAL;
    let mut turn = 0_usize;
    let reading = Arc::new(AtomicBool::new(false));
    loop {
        std::thread::sleep(CHECK_INTERVAL);
        attend();
        end_if_silent();
        if Instant::now() < next_reading {
            continue;
        }
        next_reading = Instant::now() + READING_INTERVAL;
        // A disk that hangs holds one thread, and no more.
        if !reading.swap(true, Ordering::AcqRel) {
            turn = turn.wrapping_add(1);
            read_one(turn, &reading);
        }
    }
}

/// All owners now.
fn owners() -> Vec<Arc<dyn Owner>> {
    let state = state();
    let owners = state.owners.iter().map(|one| Arc::clone(&one.owner));
    owners.collect()
}

fn end_if_silent() {
    let owners = owners();
    if let Some(why) = owners.iter().find_map(|owner| owner.silence()) {
        tracing::error!(why, "the pool is given up: this server ends at once");
        end();
    }
}

fn read_one(turn: usize, reading: &Arc<AtomicBool>) {
    let mut disks: Vec<(Arc<dyn Owner>, PathBuf)> = Vec::new();
    for watched in &mut state().owners {
        watched.note_disks();
        // The head that lends a disk is responsible for it, and reads stay local.
        let here = watched.disks.iter().filter(|disk| !disk.is_far());
        disks.extend(here.map(|disk| (Arc::clone(&watched.owner), disk.path.clone())));
    }
    let index = turn.checked_rem(disks.len());
    let done = Arc::clone(reading);
    let reads = move || {
        if let Some((owner, disk)) = index.and_then(|index| disks.get(index)) {
            if let Some(found) = owner.read(disk) {
                // It may have been exported since, and rightly be owned by another head.
                if owners().iter().any(|one| Arc::ptr_eq(one, owner)) {
                    end_if_contradicted(owner, disk, &found);
                }
            }
        }
        done.store(false, Ordering::Release);
    };
    if std::thread::Builder::new()
        .name("ownership-label".into())
        .spawn(reads)
        .is_err()
    {
        reading.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::legs::{self, LegFailure, Watcher};

    /// A pool on disks with labels that do not contradict its ownership once they are readable.
    #[derive(Debug, Default)]
    struct Pool {
        /// Disks with labels that cannot be read yet, each with the number of attempts that fail.
        fails: Mutex<Vec<(PathBuf, u32)>>,
        /// Held while a disk hangs.
        hang: Mutex<()>,
        hanging: Option<PathBuf>,
        asked: Mutex<Vec<PathBuf>>,
    }

    impl Owner for Pool {
        fn disks(&self) -> Vec<OpenDisk> {
            Vec::new()
        }
        fn contradiction(&self, _: &OwnerOnDisk) -> Option<String> {
            None
        }
        fn read(&self, disk: &Path) -> Option<OwnerOnDisk> {
            self.asked.lock().expect("no panic").push(disk.to_owned());
            if self.hanging.as_deref() == Some(disk) {
                drop(self.hang.lock());
            }
            let mut fails = self.fails.lock().expect("no panic");
            let left = fails
                .iter_mut()
                .find(|(one, left)| one == disk && *left > 0);
            match left {
                Some((_, left)) => {
                    *left -= 1;
                    None
                }
                None => Some(OwnerOnDisk {
                    pool_guid: 1,
                    host_id: None,
                    label_txg: 1,
                    newest_txg: 1,
                }),
            }
        }
        fn silence(&self) -> Option<String> {
            None
        }
    }

    fn disks(names: &[&str]) -> Vec<OpenDisk> {
        names
            .iter()
            .map(|name| OpenDisk::near(name.into()))
            .collect()
    }

    #[test]
    fn half_of_the_labels_suffice_and_none_does_not() {
        for (read, disks, enough) in [
            (0, 0, true),
            (0, 1, false),
            (1, 1, true),
            (0, 2, false),
            (1, 2, true),
            (1, 3, false),
            (2, 3, true),
            (2, 5, false),
            (3, 5, true),
        ] {
            assert_eq!(is_enough(read, disks), enough, "{read} of {disks}");
        }
    }

    #[test]
    fn owner_check_retries_until_enough_labels_are_readable() {
        const ATTEMPTS: u32 = 3;
        let names = disks(&["a", "b", "c"]);
        let fails = names.iter().map(|disk| (disk.path.clone(), ATTEMPTS));
        let fails = fails.collect();
        let pool = Arc::new(Pool {
            fails: Mutex::new(fails),
            ..Pool::default()
        });
        let owner: Arc<dyn Owner> = pool.clone();
        examine(&owner, &names, 5_000, Duration::from_millis(10));
        let failing = pool.fails.lock().expect("no panic").clone();
        let read = failing.iter().filter(|(_, left)| *left == 0).count();
        assert!(is_enough(read, names.len()), "{failing:?}");
    }

    struct NoWatcher;

    impl Watcher for NoWatcher {
        fn leg_failed(&self, _: u64, _: LegFailure, _: Option<u64>) {}
    }

    #[test]
    fn legs_of_other_heads_are_read_unless_excluded_by_record() {
        const POOL: u64 = 4711;
        const LEGS: [u64; 2] = [4712, 4713];
        let watcher: Arc<dyn Watcher> = Arc::new(NoWatcher);
        legs::register_legs(POOL, LEGS, Duration::from_secs(1), &watcher);
        LEGS.into_iter().for_each(legs::admit);
        let far = LEGS.iter().zip(["b", "c"]);
        let far = far.map(|(leg, name)| OpenDisk::far(name.into(), legs::find(*leg)));
        let all: Vec<OpenDisk> = disks(&["a"]).into_iter().chain(far).collect();
        let owner: Arc<dyn Owner> = Arc::new(Pool::default());
        let mut round = Round::new(&owner, &all);
        let knows = |round: &Round<'_>| {
            let (read, disks) = round.counts();
            round.is_conclusive(read, disks)
        };
        let read = |round: &mut Round<'_>, name: &str| {
            let found = owner.read(Path::new(name));
            round.take(LabelRead {
                disk: name.into(),
                found,
                asked: now_ns(),
            });
        };
        assert!(!knows(&round));
        read(&mut round, "a");
        read(&mut round, "b");
        assert!(!knows(&round), "two of three, and c is another head's");
        legs::fail(LEGS[1], LegFailure::TimedOut);
        assert!(!knows(&round), "the record may be another owner's by now");
        legs::exclude(LEGS[1], 1);
        assert!(knows(&round));
        round.looked = 0;
        round.check_clock();
        assert!(!knows(&round), "it stood still again");
        read(&mut round, "b");
        read(&mut round, "a");
        assert!(knows(&round));
        legs::forget(POOL);
    }

    #[test]
    fn hung_disk_is_read_once_while_others_are_retried() {
        let names = disks(&["a", "b", "c"]);
        let pool = Arc::new(Pool {
            fails: Mutex::new(vec![("b".into(), 3), ("c".into(), 3)]),
            hanging: Some("a".into()),
            ..Pool::default()
        });
        let owner: Arc<dyn Owner> = pool.clone();
        let hangs = pool.hang.lock().expect("no panic");
        examine(&owner, &names, 5_000, Duration::from_millis(10));
        let asked = pool.asked.lock().expect("no panic").clone();
        let times = |name: &str| {
            asked
                .iter()
                .filter(|disk| **disk == *Path::new(name))
                .count()
        };
        assert_eq!((times("a"), times("b"), times("c")), (1, 4, 4));
        drop(hangs);
    }
}
