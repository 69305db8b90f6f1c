//! Checks whether the kernel of this head still processes requests to the disks of a pool after its server is gone.
//! Each disk is checked on its own thread: one that hangs must not hold up the agent.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use labels::{Device, Label, LabelState, LockProbe};
use units::{HostId, PoolName};

/// Time-out for opening a disk for a check. A healthy one needs microseconds.
const OPEN_LIMIT: Duration = Duration::from_millis(500);
/// Pause between the first two checks of a lock; each following one is twice as long.
const PAUSE_MIN: Duration = Duration::from_micros(250);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// A disk that still belongs to the pool. The text is for Pacemaker's log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StillHeld {
    /// It is locked.
    #[error(
        "the pool has no server here, but {0} is still locked: the kernel works on requests of one that has ended, or another process has the disk (lslocks names it); until then this head may write, and has to be powered off before the pool starts elsewhere"
    )]
    Locked(PathBuf),
    /// It cannot be checked, or not in time.
    #[error(
        "the pool has no server here, but {0} does not tell whether the kernel still works on requests of one that has ended; until then this head may write, and has to be powered off before the pool starts elsewhere"
    )]
    Silent(PathBuf),
}

/// The locks that count.
#[derive(Clone, Copy, Debug)]
pub struct LockOwner<'a> {
    /// The pool that this head has released.
    pub pool: &'a PoolName,
    /// This head, if other heads share its kernel and their locks are visible here: a lock of a disk that is theirs by
    /// its label does not count.
    pub among_heads: Option<HostId>,
}

impl LockOwner<'_> {
    /// Whether a lock of a disk with that label, none if it has none, can be of a process of this head that had
    /// the pool.
    fn may_be_own(&self, label: Option<&Label>) -> bool {
        let Some(label) = label else {
            return true;
        };
        // For example a disk that another pool of this head has by now.
        if label.pool_name != self.pool.as_str() {
            return false;
        }
        let is_anothers =
            |own: HostId| label.state == LabelState::Exported || label.host_id != Some(own.0.get());
        !self.among_heads.is_some_and(is_anothers)
    }
}

/// Blocks until no process has any of `disks` locked. Checks each at least once.
///
/// A missing disk counts as released: the kernel has removed it, and fails its pending requests.
/// Otherwise the stop would never complete.
pub fn await_release(
    whose: LockOwner<'_>,
    disks: &[PathBuf],
    until: Instant,
) -> Result<(), StillHeld> {
    let until = until.max(Instant::now());
    let (sender, receiver) = channel();
    let mut waiting: Vec<Option<&PathBuf>> = disks.iter().map(Some).collect();
    for (index, disk) in disks.iter().enumerate() {
        let (sender, disk) = (sender.clone(), disk.clone());
        let (pool, among_heads) = (whose.pool.clone(), whose.among_heads);
        let looks = move || {
            let pool = &pool;
            // A failed send means that the time-out has passed.
            let _ = sender.send((
                index,
                is_free(LockOwner { pool, among_heads }, &disk, until),
            ));
        };
        let spawned = std::thread::Builder::new().name("lock".into()).spawn(looks);
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread to look at a disk");
        }
    }
    drop(sender);
    // A polling thread terminates by itself; a remaining one hangs.
    let last = until + OPEN_LIMIT;
    let silent = |waiting: &[Option<&PathBuf>]| {
        let first = waiting.iter().flatten().next();
        first.map_or(Ok(()), |disk| Err(StillHeld::Silent((*disk).clone())))
    };
    loop {
        match receiver.recv_timeout(last.saturating_duration_since(Instant::now())) {
            Ok((index, Ok(true))) => waiting[index] = None,
            Ok((index, Ok(false))) => return Err(StillHeld::Locked(disks[index].clone())),
            Ok((index, Err(error))) => {
                let disk = &disks[index];
                tracing::warn!(disk = %disk.display(), %error, "a disk cannot be looked at");
                return Err(StillHeld::Silent(disk.clone()));
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return silent(&waiting);
            }
        }
    }
}

/// Whether no process of this head has `disk` locked before the deadline.
fn is_free(whose: LockOwner<'_>, disk: &Path, until: Instant) -> rustix::io::Result<bool> {
    let Some(look) = LockProbe::open(disk)? else {
        tracing::warn!(disk = %disk.display(), "a disk is not there; nothing can be written to it");
        return Ok(true);
    };
    let mut pause = PAUSE_MIN;
    let mut is_first = true;
    while look.is_held()? {
        if Instant::now() >= until && !is_first {
            return Ok(false);
        }
        // The label is needed only for a lock that is held.
        if is_first && !whose.may_be_own(newest_label(disk).as_ref()) {
            return Ok(true);
        }
        is_first = false;
        std::thread::sleep(pause.min(until.saturating_duration_since(Instant::now())));
        pause = (pause * 2).min(PAUSE_MAX);
    }
    Ok(true)
}

fn newest_label(disk: &Path) -> Option<Label> {
    Device::open(disk).ok().flatten()?.newest_label()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Command;

    use rustix::fs::{FlockOperation, flock};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn pool() -> PoolName {
        "tank".parse().expect("a name")
    }

    fn released(disks: &[PathBuf], patience: Duration) -> Result<(), StillHeld> {
        let pool = pool();
        let whose = LockOwner {
            pool: &pool,
            among_heads: None,
        };
        await_release(whose, disks, Instant::now() + patience)
    }

    /// A disk that a terminated process had locked, and the open file that is left of it.
    fn remains(folder: &Path) -> (PathBuf, File) {
        let disk = folder.join("disk");
        let left = File::create(&disk).expect("made");
        let given = left.try_clone().expect("the same open file");
        let ended = Command::new("flock")
            .args(["--exclusive", "--nonblock", "0"])
            .stdin(given)
            .status();
        assert!(ended.expect("flock of util-linux").success());
        (disk, left)
    }

    #[test]
    fn outstanding_requests_of_dead_process_are_awaited() {
        let folder = tempfile::tempdir().expect("a folder");
        let (disk, left) = remains(folder.path());
        let disks = [disk.clone()];
        assert_eq!(
            released(&disks, Duration::ZERO),
            Err(StillHeld::Locked(disk))
        );
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| released(&disks, LONG));
            drop(left);
            assert_eq!(waits.join().expect("no panic"), Ok(()));
        });
        assert_eq!(released(&disks, Duration::ZERO), Ok(()));
    }

    #[test]
    fn wait_for_requests_times_out_at_deadline() {
        let folder = tempfile::tempdir().expect("a folder");
        let (disk, _left) = remains(folder.path());
        let started = Instant::now();
        let patience = Duration::from_millis(50);
        let disks = [disk.clone()];
        assert_eq!(released(&disks, patience), Err(StillHeld::Locked(disk)));
        assert!(started.elapsed() >= patience);
        assert!(started.elapsed() < LONG);
    }

    #[test]
    fn pulled_disk_and_inspecting_process_hold_no_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let (disk, left) = remains(folder.path());
        let pulled = folder.path().join("pulled");
        flock(&left, FlockOperation::NonBlockingLockShared).expect("looks");
        assert_eq!(released(&[pulled, disk], Duration::ZERO), Ok(()));
    }

    #[test]
    fn uninspectable_disk_is_distinguished() {
        let folder = tempfile::tempdir().expect("a folder");
        let round = folder.path().join("round");
        std::os::unix::fs::symlink(&round, &round).expect("made");
        let disks = [round.clone()];
        assert_eq!(
            released(&disks, Duration::ZERO),
            Err(StillHeld::Silent(round))
        );
    }

    #[test]
    fn lock_of_other_pool_or_head_is_not_attributed_to_pool() {
        let pool = pool();
        let label = |name: &str, host: u32, state: LabelState| Label {
            state,
            guid: 1,
            pool_guid: 1,
            pool_name: name.to_owned(),
            top_guid: 1,
            txg: 1,
            host_id: Some(host),
            host_name: None,
            record: None,
            start: None,
        };
        let ours = label("tank", 7, LabelState::Active);
        let theirs = label("tank", 8, LabelState::Active);
        let let_go = label("tank", 7, LabelState::Exported);
        let other_pool = label("other", 7, LabelState::Active);
        let own: HostId = "00000007".parse().expect("a number");
        // Two hosts: the process with the lock runs here, whatever the label contains by now.
        for (among_heads, label, expected) in [
            (None, Some(&ours), true),
            (None, Some(&theirs), true),
            (None, Some(&let_go), true),
            (None, Some(&other_pool), false),
            (None, None, true),
            (Some(own), Some(&ours), true),
            (Some(own), Some(&theirs), false),
            (Some(own), Some(&let_go), false),
            (Some(own), Some(&other_pool), false),
            (Some(own), None, true),
        ] {
            let whose = LockOwner {
                pool: &pool,
                among_heads,
            };
            assert_eq!(
                whose.may_be_own(label),
                expected,
                "{among_heads:?} {label:?}"
            );
        }
    }
}
