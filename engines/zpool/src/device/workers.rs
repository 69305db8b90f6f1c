//! Threads for calls that block: flushes, trims, and reads and writes through the page cache.
//!
//! Each device has a [`Lane`] that bounds its number of threads, so that a hanging device leaves
//! threads to the rest. A thread that completes an I/O runs the library's continuation; if that
//! submits a blocking call in turn, the thread retains it and carries it out next. So a synchronous
//! write and the flush after it need one thread hand-over, not two.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::io::DeviceIo;

/// Maximum number of threads per device.
const LANE_THREADS_MAX: usize = 8;
/// Threads in all.
const THREADS_MAX: usize = 128;

/// Carries out blocking I/O of one device.
pub(super) trait Blocking: Send + Sync {
    /// Carries `io` out on a worker and completes it; `buffer` is scratch space.
    fn run(&self, io: DeviceIo, buffer: &mut super::ring::Buffer);
}

struct Job {
    lane: Arc<Lane>,
    io: DeviceIo,
}

/// The blocking I/O of one device.
pub(super) struct Lane {
    device: Box<dyn Blocking>,
    /// Bounded by the library's I/O in flight for a device.
    state: Mutex<LaneState>,
}

#[derive(Default)]
struct LaneState {
    running: usize,
    waiting: VecDeque<DeviceIo>,
}

impl Lane {
    pub(super) fn new(device: Box<dyn Blocking>) -> Arc<Self> {
        Arc::new(Self {
            device,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `io` itself if it may run now, counted as running.
    fn admit(&self, io: DeviceIo) -> Option<DeviceIo> {
        let mut state = self.state();
        if state.running < LANE_THREADS_MAX {
            state.running += 1;
            Some(io)
        } else {
            state.waiting.push_back(io);
            None
        }
    }

    /// One I/O is done; returns the next queued one.
    fn next(&self) -> Option<DeviceIo> {
        let mut state = self.state();
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.running -= 1;
        }
        next
    }
}

/// The threads, shared by all devices.
pub(super) struct Workers {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

thread_local! {
    /// On a worker that is completing an I/O: the job to carry out next.
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept::NotNow) };
}

enum Kept {
    /// Not a worker, or one that runs a blocking call.
    NotNow,
    Nothing,
    Job(Job),
}

/// Retains `job` for this thread if it is a worker without a retained one.
fn keep(job: Job) -> Option<Job> {
    KEPT.with_borrow_mut(|kept| match kept {
        Kept::Nothing => {
            *kept = Kept::Job(job);
            None
        }
        Kept::NotNow | Kept::Job(_) => Some(job),
    })
}

impl Workers {
    /// Starts with one thread; more come when they are needed.
    pub(super) fn start() -> std::io::Result<Arc<Self>> {
        let workers = Arc::new(Self {
            state: Mutex::default(),
            wake: Condvar::new(),
        });
        workers.state().threads = 1;
        workers.spawn()?;
        Ok(workers)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(self: &Arc<Self>) -> std::io::Result<()> {
        let workers = Arc::clone(self);
        std::thread::Builder::new()
            .name("device-io".into())
            .spawn(move || workers.work())?;
        Ok(())
    }

    /// Has `io` carried out by `lane`'s device on a worker.
    pub(super) fn submit(self: &Arc<Self>, lane: &Arc<Lane>, io: DeviceIo) {
        let Some(io) = lane.admit(io) else { return };
        let lane = Arc::clone(lane);
        if let Some(job) = keep(Job { lane, io }) {
            self.hand_over(job);
        }
    }

    fn hand_over(self: &Arc<Self>, job: Job) {
        let mut state = self.state();
        state.ready.push_back(job);
        let short = state.ready.len() > state.idle && state.threads < THREADS_MAX;
        if short {
            state.threads += 1;
        }
        drop(state);
        self.wake.notify_one();
        if short {
            if let Err(error) = self.spawn() {
                // The job stays queued for one of the existing threads; there is at least one.
                self.state().threads -= 1;
                tracing::warn!(%error, "no thread for device I/O");
            }
        }
    }

    fn take(&self) -> Job {
        let mut state = self.state();
        loop {
            if let Some(job) = state.ready.pop_front() {
                return job;
            }
            state.idle += 1;
            state = self
                .wake
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn work(self: Arc<Self>) {
        let mut buffer = super::ring::Buffer::default();
        let mut kept = None;
        loop {
            let Job { lane, io } = kept.take().unwrap_or_else(|| self.take());
            lane.device.run(io, &mut buffer);
            kept = KEPT.with_borrow_mut(|kept| match std::mem::replace(kept, Kept::NotNow) {
                Kept::Job(job) => Some(job),
                Kept::NotNow | Kept::Nothing => None,
            });
            if let Some(io) = lane.next() {
                let job = Job { lane, io };
                if kept.is_none() {
                    kept = Some(job);
                } else {
                    self.hand_over(job);
                }
            }
        }
    }
}

/// Completes `io` on a worker, which then retains the first blocking call that follows.
pub(super) fn complete_on_worker(io: DeviceIo, result: Result<(), rustix::io::Errno>) {
    KEPT.with_borrow_mut(|kept| *kept = Kept::Nothing);
    io.complete(result, super::CompletionThread::Here);
}
