//! Leaves time of a device to clients during reads of a copy, such as resilvers and scrubs.
//!
//! The library issues these reads to a device one after another, so a device that serves one request at a time always
//! has one of them ahead of a client's request. While clients have pending reads or log writes, a device rests after
//! each read of a copy for as long as that read lasted: it serves clients at least half of the time, and the copy needs
//! at most twice the time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long clients count as active after their last request.
const CLIENTS_STAY: Duration = Duration::from_millis(100);
/// Longest rest after a read: a slower read was delayed by other causes.
const REST_MAX: Duration = Duration::from_millis(250);

/// A client request reached a device since the last read of a copy began.
static CLIENT_ACTIVE: AtomicBool = AtomicBool::new(false);
/// The time of the last detection.
static WAITING_SINCE: Mutex<Option<Instant>> = Mutex::new(None);

/// Notes a client request, to a volume or a device. On the path of each request, so it reads no clock.
pub(crate) fn note_client_request() {
    if !CLIENT_ACTIVE.load(Ordering::Relaxed) {
        CLIENT_ACTIVE.store(true, Ordering::Relaxed);
    }
}

/// Whether clients had requests lately.
pub(super) fn clients_wait(now: Instant) -> bool {
    let mut since = WAITING_SINCE.lock().unwrap_or_else(PoisonError::into_inner);
    if CLIENT_ACTIVE.swap(false, Ordering::Relaxed) {
        *since = Some(now);
    }
    since.is_some_and(|since| now.saturating_duration_since(since) < CLIENTS_STAY)
}

/// The reads of copies of one device.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<Rest>);

#[derive(Debug, Default)]
struct Rest {
    /// The device rests until then.
    until: Option<Instant>,
    /// The duration of the last read.
    took: Duration,
}

impl Pace {
    /// The earliest time of the device's next read; `None` for at once.
    pub(super) fn begin(&self) -> Option<Instant> {
        let now = Instant::now();
        self.begin_at(now, clients_wait(now))
    }

    fn begin_at(&self, now: Instant, clients_wait: bool) -> Option<Instant> {
        if !clients_wait {
            return None;
        }
        let mut rest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let until = rest.until.filter(|until| *until > now);
        // Queued reads start one after another, each followed by its rest.
        rest.until = Some(until.unwrap_or(now) + 2 * rest.took);
        until
    }

    /// A read has completed, with this duration.
    pub(super) fn ended(&self, took: Duration) {
        self.ended_at(Instant::now(), took);
    }

    fn ended_at(&self, now: Instant, took: Duration) {
        let took = took.min(REST_MAX);
        let mut rest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rest.took = took;
        rest.until = rest.until.max(Some(now + took));
    }
}

/// Executes delayed actions on its own thread.
pub(super) struct Later<T>(Sender<(Instant, T)>);

impl<T: Send + 'static> Later<T> {
    /// `act` must not block for long, because it delays the entries after it.
    ///
    /// # Errors
    ///
    /// No thread can be started.
    pub(super) fn new(act: fn(T)) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        std::thread::Builder::new()
            .name("device-copies".into())
            .spawn(move || run(&receiver, act))?;
        Ok(Self(sender))
    }

    /// Runs `what` at `at`; returns it if it is due now.
    pub(super) fn at(&self, at: Instant, what: T) -> Result<(), T> {
        self.0.send((at, what)).map_err(|unsent| unsent.0.1)
    }
}

fn run<T>(receiver: &Receiver<(Instant, T)>, act: fn(T)) {
    // By due time, with a number to order equal times. Bounded by the library's I/O in flight.
    let mut waiting: BTreeMap<(Instant, u64), T> = BTreeMap::new();
    for number in 0.. {
        let told = match waiting.first_key_value() {
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(((at, _), _)) => {
                receiver.recv_timeout(at.saturating_duration_since(Instant::now()))
            }
        };
        match told {
            Ok((at, what)) => {
                waiting.insert((at, number), what);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while let Some(next) = waiting
            .first_entry()
            .filter(|next| next.key().0 <= Instant::now())
        {
            act(next.remove());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Duration = Duration::from_millis(10);

    #[test]
    fn resync_reads_pause_only_while_clients_wait() {
        let pace = Pace::default();
        let now = Instant::now();
        assert_eq!(pace.begin_at(now, true), None, "the first one");
        pace.ended_at(now + READ, READ);
        assert_eq!(pace.begin_at(now + READ, false), None, "nobody waits");
        let second = pace.begin_at(now + READ, true);
        assert_eq!(second, Some(now + 2 * READ));
        let third = pace.begin_at(now + READ, true);
        assert_eq!(third, Some(now + 4 * READ), "one after the other");
        assert_eq!(pace.begin_at(now + 10 * READ, true), None, "it has rested");
    }

    #[test]
    fn pause_after_a_slow_read_is_bounded() {
        let pace = Pace::default();
        let now = Instant::now();
        pace.ended_at(now, Duration::from_secs(20));
        assert_eq!(pace.begin_at(now, true), Some(now + REST_MAX));
    }

    #[test]
    fn delayed_tasks_run_in_order_of_deadline() {
        static DONE: Mutex<Vec<u32>> = Mutex::new(Vec::new());
        let later = Later::new(|number| DONE.lock().expect("no panic").push(number));
        let later = later.expect("a thread");
        let now = Instant::now();
        // The first task blocks the thread until all tasks are queued, however slow this thread is.
        let done = DONE.lock().expect("no panic");
        for (number, reads) in [(9, 0), (2, 3), (1, 2), (0, 1)] {
            assert_eq!(later.at(now + reads * READ, number), Ok(()));
        }
        drop(done);
        while DONE.lock().expect("no panic").len() < 4 {
            std::thread::sleep(READ);
        }
        assert_eq!(*DONE.lock().expect("no panic"), [9, 0, 1, 2]);
    }
}
