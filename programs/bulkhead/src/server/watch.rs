//! Looks after the pool in a thread of its own, because a question about a pool may have to wait:
//! the rest of the server never does. Logs what a person must know, once.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use control::answer::PoolStatus;

use super::shared_pool::SharedPool;
use crate::operations::{self, Context, NothingLive};

/// Pause between two looks at the pool.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Longest time that a question waits for a fresh look.
const FRESH_WAIT: Duration = Duration::from_millis(300);
/// A state older than this is said to be old.
const AGE_MAX: Duration = Duration::from_secs(2);

/// What was seen last.
#[derive(Default)]
pub struct Watch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    seen: Option<(Instant, PoolStatus)>,
    looks: u64,
    wanted: bool,
    ended: bool,
}

impl Watch {
    /// Starts to look.
    pub fn start(pool: Arc<SharedPool>) -> std::io::Result<Arc<Self>> {
        let watch = Arc::new(Self::default());
        let own = Arc::clone(&watch);
        std::thread::Builder::new()
            .name("pool-watch".into())
            .spawn(move || own.run(&pool))?;
        Ok(watch)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Stops looking.
    pub fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// The pool's state, fresh if the pool answers soon; with its age if it does not.
    pub fn status(&self) -> Option<(PoolStatus, Option<Duration>)> {
        let mut state = self.lock();
        let looks = state.looks;
        state.wanted = true;
        self.changed.notify_all();
        let is_old = |state: &mut State| state.looks <= looks && !state.ended;
        let (state, _) = self
            .changed
            .wait_timeout_while(state, FRESH_WAIT, is_old)
            .expect("no holder panics");
        let (at, status) = state.seen.as_ref()?;
        let age = at.elapsed();
        Some((status.clone(), (age > AGE_MAX).then_some(age)))
    }

    /// Health in a word, for the service manager. Never waits for the pool.
    pub fn health(&self) -> String {
        let state = self.lock();
        match &state.seen {
            Some((at, _)) if at.elapsed() > AGE_MAX + LOOK_INTERVAL => "does not answer".into(),
            Some((_, status)) => status.health.clone(),
            None => "not looked at yet".into(),
        }
    }

    fn run(&self, pool: &SharedPool) {
        let mut last = PoolStatus::default();
        loop {
            let status = {
                let Some(pool) = pool.get() else { return };
                operations::pool_status(&Context {
                    pool: &pool,
                    live: &NothingLive,
                })
            };
            match status {
                Ok(status) => {
                    report(&last, &status);
                    last = status.clone();
                    let mut state = self.lock();
                    state.seen = Some((Instant::now(), status));
                }
                Err(failure) => tracing::warn!(%failure, "the pool was not looked at"),
            }
            let mut state = self.lock();
            state.looks += 1;
            state.wanted = false;
            self.changed.notify_all();
            let rest = |state: &mut State| !state.wanted && !state.ended;
            let (state, _) = self
                .changed
                .wait_timeout_while(state, LOOK_INTERVAL, rest)
                .expect("no holder panics");
            if state.ended {
                return;
            }
        }
    }
}

/// Logs what became worse or better.
fn report(old: &PoolStatus, new: &PoolStatus) {
    if old.suspended != new.suspended {
        match new.suspended {
            true => tracing::error!(
                pool = new.name,
                "the pool is suspended: all I/O waits until its devices are back; then run \
                 `bulkhead pool clear {}`",
                new.name
            ),
            false => tracing::info!(pool = new.name, "the pool goes on"),
        }
        return;
    }
    if old.health == new.health || new.suspended {
        return;
    }
    match new.health.as_str() {
        "ONLINE" if old.health.is_empty() => {}
        "ONLINE" => tracing::info!(pool = new.name, "the pool is whole again"),
        health => tracing::error!(
            pool = new.name,
            health,
            advice = new.advice.join(" "),
            "the pool is not whole"
        ),
    }
}
