//! Distinguishes a slow server from a hung one. A server that has not responded to a short request gets one with more
//! time, on a thread of its own; until that is decided, and while it responds, the server is slow.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use units::PoolName;

/// A server without any response for this time hangs.
const HUNG_AFTER: Duration = Duration::from_secs(30);
/// A later failure belongs to another period of slowness.
const PERIOD_GAP: Duration = Duration::from_secs(60);

/// The observations of one server.
#[derive(Debug)]
struct Probe {
    /// The first short request without a response, or the last response.
    alive_at: Instant,
    /// The last short request without a response.
    missed_at: Instant,
    is_running: bool,
}

/// The servers of this head that have not responded in time.
#[derive(Clone, Debug, Default)]
pub struct SlowServers(Arc<Mutex<BTreeMap<PoolName, Probe>>>);

impl SlowServers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PoolName, Probe>> {
        self.0.lock().expect("no holder panics")
    }

    /// Notes that the server of `pool` has not responded, and returns whether it counts as slow. `responds` is the
    /// longer request; it may block.
    pub fn missed(
        &self,
        pool: &PoolName,
        responds: impl FnOnce() -> bool + Send + 'static,
    ) -> bool {
        let now = Instant::now();
        let (begins, is_slow) = self.note(pool, now);
        if begins {
            let (own, probed) = (self.clone(), pool.clone());
            let probe = move || {
                let responded = responds();
                own.ended(&probed, responded.then(Instant::now));
            };
            let thread = std::thread::Builder::new().name("probe".into());
            if thread.spawn(probe).is_err() {
                self.ended(pool, None);
            }
        }
        is_slow
    }

    /// Whether a longer request begins, and whether the server is slow.
    fn note(&self, pool: &PoolName, now: Instant) -> (bool, bool) {
        let mut probes = self.lock();
        let probe = probes.entry(pool.clone()).or_insert(Probe {
            alive_at: now,
            missed_at: now,
            is_running: false,
        });
        if now.saturating_duration_since(probe.missed_at) >= PERIOD_GAP {
            probe.alive_at = now;
        }
        probe.missed_at = now;
        let begins = !std::mem::replace(&mut probe.is_running, true);
        let is_slow = now.saturating_duration_since(probe.alive_at) < HUNG_AFTER;
        (begins, is_slow)
    }

    fn ended(&self, pool: &PoolName, responded_at: Option<Instant>) {
        if let Some(probe) = self.lock().get_mut(pool) {
            probe.is_running = false;
            probe.alive_at = responded_at.unwrap_or(probe.alive_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_that_responds_late_is_slow_and_one_that_never_does_hangs() {
        let servers = SlowServers::default();
        let pool: PoolName = "tank".parse().expect("a name");
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(servers.note(&pool, at(0)), (true, true));
        // One longer request at a time.
        assert_eq!(servers.note(&pool, at(5)), (false, true));
        servers.ended(&pool, Some(at(10)));
        assert_eq!(servers.note(&pool, at(39)), (true, true));
        servers.ended(&pool, None);
        assert_eq!(servers.note(&pool, at(41)), (true, false));
        // It was healthy in between.
        servers.ended(&pool, None);
        assert_eq!(servers.note(&pool, at(200)), (true, true));
    }

    #[test]
    fn longer_request_runs_on_its_own_thread() {
        let servers = SlowServers::default();
        let pool: PoolName = "tank".parse().expect("a name");
        let (sender, receiver) = std::sync::mpsc::channel();
        let responds = move || {
            let _ = sender.send(());
            true
        };
        assert!(servers.missed(&pool, responds));
        receiver
            .recv_timeout(Duration::from_secs(30))
            .expect("it runs");
    }
}
