//! Replays the intent logs that an earlier owner of the pool left, behind the back of the first
//! clients. A client that comes first to a volume does not wait for the others'. Where clients are about to
//! come back, logs begin anew before: the first durable write would wait for that.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use operations::events::News;
use units::VolumeName;

use super::core::Core;
use super::volumes::CLOSERS_MAX;

/// Pause between two attempts to replay logs that could not be read.
const RETRY_PAUSE: Duration = Duration::from_secs(3);
/// Looks meanwhile whether the server goes.
const RETRY_LOOKS: u32 = 15;
/// Logs that are replayed at a time. Clients' first requests want the processors, too.
const AT_A_TIME: usize = 4;
/// Volumes whose logs begin before a client writes. Each makes a stop wait for a commit, which so many share.
const BEGUN_MAX: usize = CLOSERS_MAX;

/// Starts to replay, in threads of its own. `is_awaited` tells whether clients are about to come back.
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

/// Replays all logs; those of which volumes could not be.
fn run(core: &Core) -> BTreeSet<VolumeName> {
    let found = match core.pool.get() {
        Some(pool) => pool.unreplayed_volumes(),
        None => return BTreeSet::new(),
    };
    let waiting = found.unwrap_or_else(|error| {
        tracing::error!(%error, "intent logs are replayed only when their volumes are opened");
        Vec::new()
    });
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

/// Says of each volume that its log could not be replayed, tries again until it is, and says so, too: devices come back.
fn replay_the_rest(core: &Core, mut failed: BTreeSet<VolumeName>) {
    let journal = core.watch.journal();
    for name in &failed {
        let message = format!(
            "the intent log of {name} cannot be replayed, so the volume is not served: see to the devices that \
             `bulkhead pool status` names; the log is kept, and replayed when it can be read"
        );
        journal.add(News::of_pool("log", message, true));
    }
    while !failed.is_empty() {
        for _ in 0..RETRY_LOOKS {
            std::thread::sleep(RETRY_PAUSE / RETRY_LOOKS);
            if core.is_going() {
                return;
            }
        }
        failed.retain(|name| {
            let is_replayed = replay(core, name);
            if is_replayed {
                let message = format!("the intent log of {name} does not wait any more");
                journal.add(News::of_pool("log", message, false));
            }
            !is_replayed
        });
    }
}

/// Has the logs of the first volumes begin, all at once: they share the wait.
fn begin_logs(core: &Core) {
    let names = core.serving.volumes.first_shown(BEGUN_MAX);
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| begin_log(core, name));
        }
    });
    tracing::debug!(count = names.len(), "intent logs begin");
}

/// What cannot be opened now is for whoever uses it.
fn begin_log(core: &Core, name: &VolumeName) {
    if core.is_going() || is_locked(core, name) {
        return;
    }
    let volumes = &core.serving.volumes;
    let opened = volumes.open(name).map_err(|failure| failure.message);
    // After that: it is open now.
    let begun = opened.and_then(|_| match volumes.open_volume(name) {
        Some(volume) => volume.begin_log().map_err(|error| error.to_string()),
        None => Ok(()),
    });
    if let Err(why) = begun {
        tracing::debug!(volume = %name, why, "a log does not begin yet");
    }
}

/// Whether its key is missing.
fn is_locked(core: &Core, name: &VolumeName) -> bool {
    let locked =
        |pool: &dyn engine::Pool| pool.key_info(name.into()).is_ok_and(|key| key.is_locked());
    core.pool.get().is_some_and(|pool| locked(&*pool))
}

/// Replays one log. That of a volume that cannot be opened stays for whoever can: then the answer is no.
fn replay(core: &Core, name: &VolumeName) -> bool {
    // The log of one whose key is missing waits until it is loaded.
    if core.is_going() || is_locked(core, name) {
        return true;
    }
    let replayed = core.replay(name);
    if let Err(failure) = &replayed {
        tracing::error!(volume = %name, %failure, "replay an intent log");
    }
    // One that was destroyed meanwhile has none.
    let waits = |pool: &dyn engine::Pool| pool.is_unreplayed(name).unwrap_or(false);
    replayed.is_ok() || !core.pool.get().is_some_and(|pool| waits(&*pool))
}

impl Core {
    /// Replays the logs whose keys were loaded meanwhile, and serves their volumes. The caller is
    /// one that changes something.
    pub(super) fn serve_unlocked(&self) -> Result<(), control::Failure> {
        let waiting = self.pool.require()?.unreplayed_volumes();
        for name in waiting.map_err(operations::dataset_failure)? {
            let pool = self.pool.require()?;
            if pool
                .key_info((&name).into())
                .is_ok_and(|key| key.is_locked())
            {
                continue;
            }
            if !self.serving.volumes.open(&name)? {
                pool.replay(&name).map_err(operations::dataset_failure)?;
            }
        }
        self.serving.reconcile()
    }

    /// Replays the log of `name` if it waits, as a client's first request would.
    fn replay(&self, name: &VolumeName) -> Result<(), control::Failure> {
        if self.serving.volumes.open(name)? {
            return Ok(());
        }
        // Nobody may begin to serve it meanwhile.
        let _changing = self.changing()?;
        if self.serving.volumes.open(name)? {
            return Ok(());
        }
        let pool = self.pool.require()?;
        pool.replay(name).map_err(operations::dataset_failure)
    }
}
