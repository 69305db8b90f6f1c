//! Whether this process still owns the disks that it writes to.
//!
//! A process that was stopped (a signal, a paused virtual machine, a kernel that stood still) does
//! not know that time has passed, and in that time another head may have taken the pool. Three
//! things keep it from writing:
//!
//! * **Locks.** On one kernel, a stopped process keeps its locks: nobody else opens the pool.
//! * **Reservations.** A disk that was taken by another head refuses our writes. The first such
//!   refusal ends this process.
//! * **Attention.** Before each write, one look at the clock: if nobody in this process looked
//!   for long, every disk's label is read first, and if another host has written there, this
//!   process ends. A look that nobody disturbs is always late: what happens between it and the
//!   write is not covered. So this is a net under the other two. Labels are also read now and
//!   then, for a machine whose clock stood still with it.
//!
//! A pool with `multihost=on` has a fourth: an owner that could leave no sign of life for so long that
//! another head may soon take the pool for abandoned ends, and proves anew that it may own the pool.
//!
//! The end is at once and without a word: clients lose their sessions and try again. None is told
//! an error, and nothing is written any more.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::{IoKind, OwnerOnDisk};

/// Exit code of a process that lost its pool: as for one whose pool cannot serve.
pub const EXIT_OWNERSHIP_LOST: i32 = 8;
/// Longest time for which nobody looks at the clock in a process that runs. A machine that
/// stands still for so long may have been given up by the others.
pub(crate) const INATTENTION_MAX: Duration = Duration::from_millis(1_000);
/// A look is noted this often: not by each of many writes.
const NOTE_INTERVAL: Duration = Duration::from_millis(50);
/// Pause between two looks where nothing is written.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Pause between two readings of a label, one disk after the other.
const READING_INTERVAL: Duration = Duration::from_secs(2);
/// How long disks may take to give their labels when a write waits for it.
const READING_LIMIT: Duration = Duration::from_secs(3);

/// What a pool's owner knows of itself.
pub(crate) trait Owner: std::fmt::Debug + Send + Sync {
    /// The disks that are open, with their places.
    fn disks(&self) -> Vec<PathBuf>;
    /// Whether what is written on a disk says that somebody else has the pool; why.
    fn contradiction(&self, found: &OwnerOnDisk) -> Option<String>;
    /// Reads what is on a disk now, past every cache.
    fn read(&self, disk: &Path) -> Option<OwnerOnDisk>;
    /// Whether others may take this owner for dead, since no sign of life could be written for
    /// long; why. Never waits.
    fn silence(&self) -> Option<String>;
}

struct State {
    owners: Vec<Arc<dyn Owner>>,
}

static STATE: Mutex<State> = Mutex::new(State { owners: Vec::new() });
/// Whether there is an owner.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// The last look at the clock, in nanoseconds since boot, sleep included.
static LOOKED: AtomicU64 = AtomicU64::new(0);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Watches over `owner` as long as the process lives, or until [`retire`].
pub(crate) fn watch(owner: Arc<dyn Owner>) -> std::io::Result<()> {
    let mut state = state();
    state.owners.push(owner);
    LOOKED.store(now_ns(), Ordering::Release);
    if !WATCHED.swap(true, Ordering::AcqRel) {
        std::thread::Builder::new()
            .name("ownership".into())
            .spawn(run)?;
    }
    Ok(())
}

/// `owner` lets go of its pool in good order.
pub(crate) fn retire(owner: &Arc<dyn Owner>) {
    state().owners.retain(|one| !Arc::ptr_eq(one, owner));
}

/// Called before each write to a device.
pub(super) fn before(kind: IoKind) {
    if matches!(kind, IoKind::Write | IoKind::Trim) && WATCHED.load(Ordering::Relaxed) {
        look();
    }
}

/// Looks at the clock; where nobody did for long, at the disks.
fn look() {
    let last = LOOKED.load(Ordering::Acquire);
    let now = now_ns();
    let since_ns = now.saturating_sub(last);
    if since_ns <= INATTENTION_MAX.as_nanos() as u64 {
        if since_ns > NOTE_INTERVAL.as_nanos() as u64 {
            LOOKED.fetch_max(now, Ordering::AcqRel);
        }
        return;
    }
    let state = state();
    // Others wait at the lock meanwhile, and find that it was done.
    if LOOKED.load(Ordering::Acquire) != last {
        return;
    }
    let stopped_ms = since_ns / 1_000_000;
    for owner in &state.owners {
        examine(owner, stopped_ms);
    }
    LOOKED.fetch_max(now_ns(), Ordering::AcqRel);
}

/// Reads all disks at the same time, and ends the process if one belongs to somebody else. A disk
/// that does not answer in time tells nothing; it takes no writes either.
fn examine(owner: &Arc<dyn Owner>, stopped_ms: u64) {
    let (sender, receiver) = channel();
    let disks = owner.disks();
    let count = disks.len();
    for disk in disks {
        let (sender, owner) = (sender.clone(), Arc::clone(owner));
        let reads = move || {
            let found = owner.read(&disk);
            let _ = sender.send((disk, found));
        };
        if let Err(error) = std::thread::Builder::new().spawn(reads) {
            tracing::warn!(%error, "no thread to read a label");
        }
    }
    drop(sender);
    let deadline = Instant::now() + READING_LIMIT;
    let mut read = 0_usize;
    while let Ok((disk, found)) =
        receiver.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        if let Some(found) = found {
            end_if_contradicted(owner, &disk, &found);
            read += 1;
        }
    }
    tracing::warn!(
        stopped_ms,
        disks = count,
        read,
        "this process stood still; the pool is still its own"
    );
}

fn end_if_contradicted(owner: &Arc<dyn Owner>, disk: &Path, found: &OwnerOnDisk) {
    if let Some(why) = owner.contradiction(found) {
        lost(&format!("{}: {why}", disk.display()));
    }
}

/// Ends the process at once: another head has the pool.
pub(crate) fn lost(why: &str) -> ! {
    tracing::error!(
        why,
        "the pool belongs to somebody else now: this server ends at once"
    );
    end()
}

/// Ends the process at once: what it takes for written may not be, and only a new one knows no better.
pub(super) fn begin_anew(why: &str) -> ! {
    tracing::error!(
        why,
        "this server ends at once, so that the next one begins with what is on the devices; start it again \
         if nobody does: what clients were told to be durable is there"
    );
    end()
}

fn end() -> ! {
    // SAFETY: ends the process without running anything of it, which is the point: no thread may
    // come to write or to answer any more.
    unsafe { nix::libc::_exit(EXIT_OWNERSHIP_LOST) }
}

/// Keeps looking while nothing is written, and reads a label now and then.
fn run() {
    let mut next_reading = Instant::now() + READING_INTERVAL;
    let mut turn = 0_usize;
    let reading = Arc::new(AtomicBool::new(false));
    loop {
        std::thread::sleep(LOOK_INTERVAL);
        look();
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

fn end_if_silent() {
    let owners = state().owners.clone();
    if let Some(why) = owners.iter().find_map(|owner| owner.silence()) {
        tracing::error!(why, "the pool is given up: this server ends at once");
        end();
    }
}

fn read_one(turn: usize, reading: &Arc<AtomicBool>) {
    let owners = state().owners.clone();
    let mut disks: Vec<(Arc<dyn Owner>, PathBuf)> = Vec::new();
    for owner in owners {
        let of_owner = owner.disks().into_iter();
        disks.extend(of_owner.map(|disk| (Arc::clone(&owner), disk)));
    }
    let index = turn.checked_rem(disks.len());
    let done = Arc::clone(reading);
    let reads = move || {
        if let Some((owner, disk)) = index.and_then(|index| disks.get(index)) {
            if let Some(found) = owner.read(disk) {
                // It may have been let go of meanwhile, and be another head's by right.
                if state().owners.iter().any(|one| Arc::ptr_eq(one, owner)) {
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
