//! The control socket while the pool is being opened. The state of the pool is reported at once, with the devices that
//! are missing; all other requests are held until the pool is open.

use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use control::answer::{PoolStatus, ServerStatus, Status};
use control::request::PoolRequest;
use control::{
    Advice, Answer, Attached, Failure, FailureKind, Handler, OPENING, Peer, Request, Severity,
    Witness,
};
use pool_access::engines;
use pool_access::legs::AwaitedDevices;
use units::PoolName;

use super::core::Core;
use super::journal::now_ms;
use super::watch::Watch;

/// How long a request for the state is held: most pools are open by then, and their complete state is the response.
const STATE_WAIT: Duration = Duration::from_millis(1_500);
/// How long any other request is held. The time-out of its client is longer.
const REQUEST_WAIT: Duration = Duration::from_secs(60);
/// How long a check whether the server responds is held. It is repeated, and each occupies a connection.
const PING_WAIT: Duration = Duration::from_secs(15);
/// Polling interval for missing devices, while a request for the state is held.
const DEVICES_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A server that is opening its pool, and later the open one.
pub struct Opening {
    name: PoolName,
    started: Instant,
    since_ms: u64,
    awaited: AwaitedDevices,
    watch: OnceLock<Arc<Watch>>,
    core: OnceLock<Arc<Core>>,
    open: Mutex<()>,
    opened: Condvar,
}

impl Opening {
    /// A server that started at `started`. `awaited`: the devices that delay it.
    pub fn new(name: PoolName, started: Instant, awaited: AwaitedDevices) -> Self {
        Self {
            name,
            started,
            since_ms: now_ms(),
            awaited,
            watch: OnceLock::new(),
            core: OnceLock::new(),
            open: Mutex::new(()),
            opened: Condvar::new(),
        }
    }

    /// The pool is imported, and not served yet.
    pub fn imported(&self, watch: &Arc<Watch>) {
        // A pool is imported once.
        let _ = self.watch.set(Arc::clone(watch));
    }

    /// All requests are for `core` from now on.
    pub fn ready(&self, core: &Arc<Core>) {
        let open = self.open.lock().expect("no holder panics");
        // A pool is opened once.
        let _ = self.core.set(Arc::clone(core));
        drop(open);
        self.opened.notify_all();
    }

    /// The open server, once it is ready; `None` at the time-out, or when `is_enough`.
    fn await_core(&self, limit: Duration, is_enough: impl Fn() -> bool) -> Option<&Arc<Core>> {
        let deadline = Instant::now() + limit;
        let mut open = self.open.lock().expect("no holder panics");
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.core.get().is_some() || left.is_zero() || is_enough() {
                return self.core.get();
            }
            let pause = left.min(DEVICES_POLL_INTERVAL);
            let waited = self.opened.wait_timeout(open, pause);
            open = waited.expect("no holder panics").0;
        }
    }

    fn core_for(&self, request: &Request) -> Option<&Arc<Core>> {
        let has_reason = || self.awaited.get().is_some();
        match state_of(request) {
            Some(_) => self.await_core(STATE_WAIT, has_reason),
            None if is_ping(request) => self.await_core(PING_WAIT, || false),
            None => self.await_core(REQUEST_WAIT, has_reason),
        }
    }

    /// The action for the administrator.
    fn advice(&self) -> Advice {
        let name = &self.name;
        let advice = match self.awaited.get() {
            Some(awaited) => {
                let missing: Vec<String> = awaited
                    .missing
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                let why = match missing.is_empty() {
                    true => format!(
                        "pool {name} is not open: devices are missing of which the present ones do not store the names"
                    ),
                    false => format!("pool {name} is not open: {} is missing", missing.join(", ")),
                };
                let left_s = awaited
                    .until
                    .saturating_duration_since(Instant::now())
                    .as_secs();
                let what = format!(
                    "connect the missing devices (power, cables, shelf): the pool is opened as soon as they can be read. In {left_s} s the \
                     server stops with the reason and the command for a start without them"
                );
                Advice::new(Severity::Error, what, why)
            }
            None => {
                let what = format!(
                    "wait; if this lasts for minutes, a disk or another head may not respond: the log of the server of {name} shows which"
                );
                let why = format!("pool {name} is being opened");
                Advice::new(Severity::Warning, what, why)
            }
        };
        Advice {
            since_ms: Some(self.since_ms),
            ..advice
        }
    }

    fn pool_status(&self) -> PoolStatus {
        let advice = self.advice();
        let imported = self.watch.get().and_then(|watch| watch.status());
        match imported {
            // An imported pool that cannot be served yet, such as a suspended one.
            Some((status, _)) if !status.advice.is_empty() => status,
            _ => PoolStatus {
                name: self.name.to_string(),
                health: OPENING.to_owned(),
                advice: vec![advice],
                ..PoolStatus::default()
            },
        }
    }

    fn state(&self, is_whole: bool) -> Answer {
        let pool = self.pool_status();
        match is_whole {
            false => Answer::Pool(Box::new(pool)),
            true => Answer::Status(Box::new(Status {
                pool,
                server: Some(ServerStatus {
                    pid: std::process::id(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    library: engines::libraries(),
                    uptime_s: self.started.elapsed().as_secs(),
                    ..ServerStatus::default()
                }),
                ..Status::default()
            })),
        }
    }

    fn refusal(&self, request: &Request) -> Failure {
        // The agent of the cluster takes any other response for that of a server that was open before.
        let kind = match is_ping(request) {
            true => FailureKind::Unreachable,
            false => FailureKind::Unavailable,
        };
        let advice = self.advice();
        Failure::new(kind, advice.why).advise(advice.what)
    }
}

/// Whether the request is for the state of the pool, and if so, whether with that of its exports.
fn state_of(request: &Request) -> Option<bool> {
    match request {
        Request::Status => Some(true),
        Request::Pool(PoolRequest::Status) => Some(false),
        _ => None,
    }
}

fn is_ping(request: &Request) -> bool {
    use control::request::ServerRequest;
    matches!(request, Request::Server(ServerRequest::Ping))
}

impl Handler for Opening {
    fn witness(&self, peer: Peer, request: &Request) -> Option<Witness<'_>> {
        self.core_for(request)?.witness(peer, request)
    }

    fn handle(&self, request: Request, progress: &mut dyn FnMut(&str)) -> Result<Answer, Failure> {
        match (self.core_for(&request), state_of(&request)) {
            (Some(core), _) => core.handle(request, progress),
            (None, Some(is_whole)) => Ok(self.state(is_whole)),
            (None, None) => Err(self.refusal(&request)),
        }
    }

    fn handle_with(
        &self,
        request: Request,
        attached: Attached<'_>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Answer, Failure> {
        match self.core_for(&request) {
            Some(core) => core.handle_with(request, attached, progress),
            None => Err(self.refusal(&request)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use control::request::ServerRequest;

    use super::*;

    fn opening(awaited: &AwaitedDevices) -> Opening {
        let name = "tank".parse().expect("a name");
        Opening::new(name, Instant::now(), awaited.clone())
    }

    fn status(opening: &Opening) -> Status {
        match opening.handle(Request::Status, &mut |_| ()) {
            Ok(Answer::Status(status)) => *status,
            other => panic!("no status: {other:?}"),
        }
    }

    #[test]
    fn pool_that_waits_for_a_device_reports_it_at_once_with_time_and_action() {
        let awaited = AwaitedDevices::default();
        let until = Instant::now() + Duration::from_secs(600);
        awaited.set(vec![PathBuf::from("/dev/disk/by-id/scsi-b")], until);
        let opening = opening(&awaited);
        let begun = Instant::now();
        let status = status(&opening);
        assert!(begun.elapsed() < STATE_WAIT, "{:?}", begun.elapsed());
        assert_eq!(
            (&*status.pool.name, &*status.pool.health),
            ("tank", OPENING)
        );
        assert!(status.server.is_some());
        let advice = &status.pool.advice[0];
        assert_eq!(
            advice.why,
            "pool tank is not open: /dev/disk/by-id/scsi-b is missing"
        );
        assert_eq!(advice.since_ms, Some(opening.since_ms));
        assert!(
            advice.what.contains("connect the missing devices"),
            "{advice}"
        );
        // A change is refused with the same reason.
        let sync = Request::Server(ServerRequest::Settle);
        let failure = opening.handle(sync, &mut |_| ()).expect_err("not open");
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert_eq!(failure.message, advice.why);
    }

    #[test]
    fn slow_opening_is_reported_without_devices() {
        let opening = opening(&AwaitedDevices::default());
        let advice = &status(&opening).pool.advice[0];
        assert_eq!(advice.why, "pool tank is being opened");
        assert!(!advice.to_string().contains("kill"), "{advice}");
    }
}
