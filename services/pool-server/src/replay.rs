//! Replays the intent logs of an earlier owner in the background. The first client of a volume is not delayed by the
//! logs of other volumes. If clients are about to reconnect, new logs are begun first: the first durable write would be
//! delayed by that.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::Pool;
use engine::dataset::DatasetError;
use operations::events::NewEvent;
use units::VolumeName;

use super::core::Core;
use super::volumes::CLOSERS_MAX;

/// Delay between two attempts to replay unreadable logs.
const RETRY_PAUSE: Duration = Duration::from_secs(3);
/// Checks for shutdown during the delay.
const RETRY_POLLS: u32 = 15;
/// Concurrent replays. The first requests of clients need the processors, too.
const AT_A_TIME: usize = 4;
/// Volumes that get a new log before the first write. Each delays a stop by a commit, which this many share.
const BEGUN_MAX: usize = CLOSERS_MAX;

/// Starts the replay in threads of its own. `is_awaited`: clients are about to reconnect.
pub fn start(core: &Arc<Core>, is_awaited: bool) -> std::io::Result<()> {
    let core = Arc::clone(core);
    let thread = std::thread::Builder::new().name("log-replay".into());
    let work = move || {
        let failed = run(&core);
        if is_awaited {
            begin_logs(&core);
        }
        core.clean_up_rescues();
        replay_the_rest(&core, failed);
    };
    thread.spawn(work).map(drop)
}

/// Replays all logs. Returns the volumes that failed.
fn run(core: &Core) -> BTreeSet<VolumeName> {
    let found = match core.pool.get() {
        Some(pool) => unreplayed(&*pool),
        None => return BTreeSet::new(),
    };
    let waiting = found.unwrap_or_else(|error| {
        tracing::error!(%error, "intent logs are replayed only when their volumes are opened");
        Vec::new()
    });
    tracing::debug!(pool = %core.name, count = waiting.len(), "intent logs to replay");
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME.min(waiting.len()) {
            scope.spawn(|| {
                while let Some(name) = waiting.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !replay(core, name) {
                        failed
                            .lock()
                            .expect("no holder panics")
                            .insert(name.clone());
                    }
                }
            });
        }
    });
    let after_ms = core.has_replayed();
    tracing::info!(count = waiting.len(), after_ms, "intent logs replayed");
    failed.into_inner().expect("no holder panics")
}

/// Reports each failed volume and retries until its log is replayed, which is reported, too: devices may return.
fn replay_the_rest(core: &Core, mut failed: BTreeSet<VolumeName>) {
    let journal = core.watch.journal();
    for name in &failed {
        let message = format!(
            "the intent log of {name} cannot be replayed, so the volume is not served: see to the devices that \
             `bulkhead pool status` names; the log is kept, and replayed when it can be read"
        );
        journal.add(NewEvent::of_pool("log", message, true));
    }
    while !failed.is_empty() {
        for _ in 0..RETRY_POLLS {
            std::thread::sleep(RETRY_PAUSE / RETRY_POLLS);
            if core.is_shutting_down() {
                return;
            }
        }
        tracing::debug!(pool = %core.name, count = failed.len(), "retrying failed intent logs");
        failed.retain(|name| {
            let is_replayed = replay(core, name);
            if is_replayed {
                let message = format!("the intent log of {name} is replayed");
                journal.add(NewEvent::of_pool("log", message, false));
            }
            !is_replayed
        });
    }
}

/// Begins the logs of the first volumes concurrently, so that they share the commit.
fn begin_logs(core: &Core) {
    let names = core.serving.volumes.first_shown(BEGUN_MAX);
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| begin_log(core, name));
        }
    });
    tracing::debug!(count = names.len(), "intent logs begin");
}

/// A volume that cannot be opened now is left to its first use.
fn begin_log(core: &Core, name: &VolumeName) {
    if core.is_shutting_down() || core.pool.get().is_some_and(|pool| is_locked(&*pool, name)) {
        return;
    }
    let volumes = &core.serving.volumes;
    let opened = volumes.open(name).map_err(|failure| failure.message);
    // After the open call.
    let begun = opened.and_then(|_| match volumes.open_volume(name) {
        Some(volume) => volume.begin_log().map_err(|error| error.to_string()),
        None => Ok(()),
    });
    if let Err(why) = begun {
        tracing::debug!(volume = %name, why, "a log does not begin yet");
    }
}

/// The volumes whose logs wait.
fn unreplayed(pool: &dyn Pool) -> Result<Vec<VolumeName>, DatasetError> {
    let logs = pool.logs();
    logs.map_or(Ok(Vec::new()), |logs| logs.unreplayed_volumes())
}

/// Whether its key is missing.
fn is_locked(pool: &dyn Pool, name: &VolumeName) -> bool {
    let keys = pool.keys();
    keys.is_ok_and(|keys| keys.key_info(name.into()).is_ok_and(|key| key.is_locked()))
}

/// Replays one log. Returns false only if the log is still pending because the volume cannot be opened.
fn replay(core: &Core, name: &VolumeName) -> bool {
    // A locked volume is replayed after its key is loaded.
    if core.is_shutting_down() || core.pool.get().is_some_and(|pool| is_locked(&*pool, name)) {
        tracing::debug!(pool = %core.name, volume = %name, "replay skipped: shutdown, or no key");
        return true;
    }
    tracing::trace!(pool = %core.name, volume = %name, "replaying an intent log");
    let replayed = core.replay(name);
    match &replayed {
        Ok(()) => tracing::debug!(pool = %core.name, volume = %name, "intent log replayed"),
        Err(failure) => tracing::error!(volume = %name, %failure, "replay an intent log"),
    }
    // A volume that was destroyed concurrently has no log.
    let waits = |pool: &dyn Pool| {
        let logs = pool.logs();
        logs.is_ok_and(|logs| logs.is_unreplayed(name).unwrap_or(false))
    };
    replayed.is_ok() || !core.pool.get().is_some_and(|pool| waits(&*pool))
}

impl Core {
    /// Replays the logs of volumes with newly loaded keys, and serves the volumes. The caller holds the lock of
    /// changes.
    pub(super) fn serve_unlocked(&self) -> Result<(), control::Failure> {
        let waiting = unreplayed(&*self.pool.require()?);
        for name in waiting.map_err(operations::dataset_failure)? {
            let pool = self.pool.require()?;
            if is_locked(&*pool, &name) {
                continue;
            }
            tracing::debug!(pool = %self.name, volume = %name, "key loaded: replaying its intent log");
            if !self.serving.volumes.open(&name)? {
                let logs = operations::needs(pool.logs())?;
                logs.replay(&name).map_err(operations::dataset_failure)?;
            }
        }
        self.serving.reconcile()
    }

    /// Replays the log of `name` if it is pending, as a client's first request would.
    fn replay(&self, name: &VolumeName) -> Result<(), control::Failure> {
        if self.serving.volumes.open(name)? {
            return Ok(());
        }
        // Must not run concurrently with the start of its service.
        let _changing = self.changing()?;
        if self.serving.volumes.open(name)? {
            return Ok(());
        }
        let pool = self.pool.require()?;
        let logs = operations::needs(pool.logs())?;
        logs.replay(name).map_err(operations::dataset_failure)
    }
}
