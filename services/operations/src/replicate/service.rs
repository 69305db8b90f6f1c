//! Replication in a pool server: accepts connections, if an address is configured, and runs the
//! rules that are due.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use control::replication::{ReplicateDocument, ReplicateState};

use super::{connection_slots, documents, now_unix_s, receiver, sender};
use crate::Context;

/// Connections in the kernel's accept queue.
const BACKLOG: i32 = 64;
/// Maximum number of connection threads. A connection that was replaced is closed at its next check, but while the pool
/// hangs it does not reach one.
const THREADS_MAX: usize = 256;
/// Interval between two checks for due rules.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Longest pause after a failure, in seconds; shorter if runs are more frequent.
const RETRY_SECONDS_MAX: u64 = 60;

/// Access to the pool for callers; none once it is released.
pub trait Access: Send + Sync {
    /// Calls `work` with the pool, which stays open until `work` returns.
    fn with(&self, work: &mut dyn FnMut(&Context<'_>));
}

/// The threads of replication. They end after [`Service::stop`].
pub struct Service {
    state: Arc<State>,
    /// Where it listens.
    pub address: Option<SocketAddr>,
}

struct State {
    stopped: AtomicBool,
    wake: Condvar,
    lock: Mutex<()>,
    listener: Option<TcpListener>,
    /// Connections with a thread.
    threads: AtomicUsize,
}

impl Service {
    /// Starts to run due rules, and to listen if there is an address.
    pub fn start(access: Arc<dyn Access>, listen: Option<SocketAddr>) -> std::io::Result<Self> {
        let listener = listen.map(listener).transpose()?;
        let address = listener.as_ref().map(TcpListener::local_addr).transpose()?;
        let state = Arc::new(State {
            stopped: AtomicBool::new(false),
            wake: Condvar::new(),
            lock: Mutex::new(()),
            listener,
            threads: AtomicUsize::new(0),
        });
        if state.listener.is_some() {
            let (state, access) = (Arc::clone(&state), Arc::clone(&access));
            spawn("replication", move || listen_until_stopped(&state, &access))?;
        }
        let planned = Arc::clone(&state);
        spawn("replicate", move || run_until_stopped(&planned, &*access))?;
        Ok(Self { state, address })
    }

    /// Closes all connections. Interrupted streams are resumed when both sides run again.
    pub fn stop(&self) {
        self.state.stopped.store(true, Ordering::Release);
        self.state.wake.notify_all();
        if let Some(listener) = &self.state.listener {
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
        for stream in connection_slots::connections().all() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn listener(address: SocketAddr) -> std::io::Result<TcpListener> {
    let (socket, _) = serving::bind_tcp(address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    let listener = TcpListener::from(socket);
    listener.set_nonblocking(false)?;
    Ok(listener)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map(drop)
}

impl State {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Acquires a connection slot. An older unauthenticated connection might be closed for it.
    fn admit(&self, stream: &TcpStream, from: SocketAddr) -> std::io::Result<Option<u64>> {
        let own = stream.try_clone()?;
        let mut connections = connection_slots::connections();
        // `stop` closes all connections that exist then.
        if self.is_stopped() {
            return Ok(None);
        }
        let (number, ended) = connections.admit(own, from.ip());
        if let Some(ended) = ended {
            tracing::debug!(%from, "replication: an older connection is closed for a new one");
            let _ = ended.shutdown(Shutdown::Both);
        }
        Ok(Some(number))
    }
}

/// A connection's slot and thread, released on drop.
struct ConnectionSlot {
    state: Arc<State>,
    number: u64,
}

impl ConnectionSlot {
    fn taken(state: &Arc<State>, number: u64) -> Self {
        state.threads.fetch_add(1, Ordering::AcqRel);
        let state = Arc::clone(state);
        Self { state, number }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        connection_slots::connections().forget(self.number);
        self.state.threads.fetch_sub(1, Ordering::AcqRel);
    }
}

fn listen_until_stopped(state: &Arc<State>, access: &Arc<dyn Access>) {
    let Some(listener) = &state.listener else {
        return;
    };
    while !state.is_stopped() {
        let (stream, from) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                if !state.is_stopped() {
                    tracing::warn!(%error, "replication: accept a connection");
                    std::thread::sleep(Duration::from_millis(100));
                }
                continue;
            }
        };
        if state.threads.load(Ordering::Acquire) >= THREADS_MAX {
            tracing::warn!(%from, "replication: too many connections wait for the pool");
            continue;
        }
        let number = match state.admit(&stream, from) {
            Ok(Some(number)) => number,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%from, %error, "replication: take a connection");
                continue;
            }
        };
        let access = Arc::clone(access);
        let place = ConnectionSlot::taken(state, number);
        let spawned = spawn("replica", move || {
            let _place = place;
            let mut stream = Some(stream);
            access.with(&mut |context| {
                let Some(stream) = stream.take() else {
                    return;
                };
                match receiver::serve(context, stream, number) {
                    Ok(()) => tracing::debug!(%from, "replication ended"),
                    Err(failure) => tracing::warn!(%from, %failure, "replication ended"),
                }
            });
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "replication: no thread for a connection");
        }
    }
}

fn run_until_stopped(state: &State, access: &dyn Access) {
    while !state.is_stopped() {
        access.with(&mut |context| run_due(state, context));
        let guard = state.lock.lock().expect("no holder panics");
        if state.is_stopped() {
            return;
        }
        drop(state.wake.wait_timeout(guard, POLL_INTERVAL));
    }
}

fn run_due(state: &State, context: &Context<'_>) {
    let Ok(replicated) = documents::replicated(context) else {
        return;
    };
    for (dataset, document) in replicated {
        let before = documents::state_of(context, &dataset);
        if state.is_stopped() || !is_due(&document, &before, now_unix_s()) {
            continue;
        }
        match sender::run(context, &dataset, &document, &mut |_| ()) {
            Ok(bytes) => tracing::info!(%dataset, to = document.to, bytes, "replicated"),
            Err(failure) => tracing::warn!(%dataset, to = document.to, %failure, "not replicated"),
        }
    }
}

/// Returns whether the rule is due. After the clock was set back it is due at once.
fn is_due(document: &ReplicateDocument, state: &ReplicateState, now: u64) -> bool {
    let Some(every) = document.every_s else {
        return false;
    };
    let since = |then: u64| now.checked_sub(then).unwrap_or(u64::MAX);
    match &state.failure {
        Some(_) => since(state.attempted_unix_s) >= every.min(RETRY_SECONDS_MAX),
        None => since(state.succeeded_unix_s) >= every,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const WAIT_MAX: Duration = Duration::from_secs(60);

    /// A pool of which every access blocks.
    #[derive(Default)]
    struct HungPool {
        waiting: AtomicUsize,
        is_over: Mutex<bool>,
        over: Condvar,
    }

    impl Access for HungPool {
        fn with(&self, _: &mut dyn FnMut(&Context<'_>)) {
            self.waiting.fetch_add(1, Ordering::AcqRel);
            let is_over = self.is_over.lock().expect("no panic");
            drop(self.over.wait_while(is_over, |is_over| !*is_over));
        }
    }

    #[test]
    fn unauthenticated_threads_are_bounded_while_the_pool_hangs() {
        let pool = Arc::new(HungPool::default());
        let local = "127.0.0.1:0".parse().expect("an address");
        let access: Arc<dyn Access> = pool.clone();
        let service = Service::start(access, Some(local)).expect("started");
        let address = service.address.expect("it listens");
        let connect = |_| TcpStream::connect(address).expect("connected");
        let all: Vec<TcpStream> = (0..=THREADS_MAX).map(connect).collect();
        let mut last = all.last().expect("one");
        last.set_read_timeout(Some(WAIT_MAX)).expect("set");
        assert_eq!(last.read(&mut [0]).expect("ended at once"), 0);
        // In addition there is the thread for due rules.
        assert!(pool.waiting.load(Ordering::Acquire) <= THREADS_MAX + 1);
        *pool.is_over.lock().expect("no panic") = true;
        pool.over.notify_all();
        service.stop();
    }

    #[test]
    fn replication_is_due_after_its_interval_or_soon_after_failure() {
        let document = |every_s| ReplicateDocument {
            version: 1,
            to: "localhost:1".to_owned(),
            peer: "0".repeat(64).parse().expect("a fingerprint"),
            into: "vault/v".parse().expect("a name"),
            every_s,
            keep: 1,
            raw: false,
            decrypt: false,
        };
        let state = |attempted, succeeded, failed: bool| ReplicateState {
            version: 1,
            attempted_unix_s: attempted,
            succeeded_unix_s: succeeded,
            failure: failed.then(|| "no".to_owned()),
            ..ReplicateState::default()
        };
        for (every, state, now, due) in [
            (None, state(0, 0, false), 1_000_000, false),
            (Some(900), ReplicateState::default(), 1_000_000, true),
            (Some(900), state(1000, 1000, false), 1899, false),
            (Some(900), state(1000, 1000, false), 1900, true),
            (Some(900), state(5000, 1000, true), 5059, false),
            (Some(900), state(5000, 1000, true), 5060, true),
            (Some(10), state(5000, 1000, true), 5010, true),
            (Some(900), state(9000, 9000, false), 100, true),
        ] {
            assert_eq!(
                is_due(&document(every), &state, now),
                due,
                "{every:?} {now}"
            );
        }
    }
}
