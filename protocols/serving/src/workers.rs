//! A bounded pool of threads for operations that block on a disk or a lock.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// An operation for a thread that may block.
pub type Job = Box<dyn FnOnce() + Send>;

/// Maximum queued jobs per thread of the pool.
const JOBS_PER_THREAD_MAX: usize = 128;
/// A storage engine's call chains are deep; the pages are only allocated if used.
pub(crate) const STACK_BYTES: usize = 1 << 20;

/// Threads that are started on demand, up to a bound, and joined on drop.
pub struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    threads_max: usize,
    state: Mutex<State>,
    work: Condvar,
}

/// Jobs in order of submission.
type Queue = VecDeque<(u64, Job)>;

#[derive(Default)]
struct State {
    jobs: Queue,
    /// Jobs that are mostly blocked.
    waiting: Queue,
    /// Number of these in progress.
    waiting_now: usize,
    /// Counts jobs.
    number: u64,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    closed: bool,
}

impl Workers {
    /// Creates a pool of at most `threads_max` threads named after `name`.
    pub fn new(name: &str, threads_max: usize) -> Self {
        let shared = Shared {
            name: name.to_owned(),
            threads_max: threads_max.max(1),
            state: Mutex::default(),
            work: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Queues `job`. Returns it if the queue is full, no thread can be created, or the pool is
    /// closed: the caller then executes it itself, which is the back-pressure.
    pub fn submit(&self, job: Job) -> Result<(), Job> {
        self.submit_as(job, false)
    }

    /// Queues a job that is mostly blocked. A quarter of the threads is reserved for other jobs.
    pub fn submit_waiting(&self, job: Job) -> Result<(), Job> {
        self.submit_as(job, true)
    }

    fn submit_as(&self, job: Job, waits: bool) -> Result<(), Job> {
        let state = self.shared.lock();
        let jobs_max = self.shared.threads_max * JOBS_PER_THREAD_MAX;
        if state.closed || state.jobs.len() + state.waiting.len() >= jobs_max {
            return Err(job);
        }
        self.push(state, job, waits)
    }

    /// Queues `job` regardless of the queue's length: for a caller that must not block and has a
    /// bound of its own. Returns false and drops it if the pool is closed or has no thread.
    pub fn submit_always(&self, job: Job) -> bool {
        let state = self.shared.lock();
        !state.closed && self.push(state, job, false).is_ok()
    }

    fn push(&self, mut state: MutexGuard<'_, State>, job: Job, waits: bool) -> Result<(), Job> {
        let shared = &self.shared;
        let number = state.number;
        state.number += 1;
        state.queue(waits).push_back((number, job));
        if waits && state.waiting_now >= shared.waiting_max() {
            // The thread that completes such a job executes the next.
            return Ok(());
        }
        if state.idle >= state.ready(shared.waiting_max()) {
            drop(state);
            shared.work.notify_one();
            return Ok(());
        }
        if state.threads.len() < shared.threads_max {
            let pool = Arc::clone(shared);
            let thread = std::thread::Builder::new()
                .name(shared.name.clone())
                .stack_size(STACK_BYTES)
                .spawn(move || pool.run());
            match thread {
                Ok(thread) => state.threads.push(thread),
                Err(error) => {
                    tracing::warn!(pool = %shared.name, %error, "cannot start a worker thread");
                    if state.threads.is_empty() {
                        return match state.queue(waits).pop_back() {
                            Some((_, job)) => Err(job),
                            None => Ok(()),
                        };
                    }
                }
            }
        }
        Ok(())
    }

    /// Number of started threads.
    pub fn threads(&self) -> usize {
        self.shared.lock().threads.len()
    }

    /// Accepts no more jobs, completes the queued ones and joins the threads.
    pub fn shutdown(&self) {
        let threads = {
            let mut state = self.shared.lock();
            state.closed = true;
            std::mem::take(&mut state.threads)
        };
        self.shared.work.notify_all();
        let own = std::thread::current().id();
        for thread in threads {
            // A job may hold the last reference to the pool.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Maximum threads for jobs that are mostly blocked.
    fn waiting_max(&self) -> usize {
        (self.threads_max * 3 / 4).max(1)
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            if let Some((job, waits)) = state.next(self.waiting_max()) {
                state.waiting_now += usize::from(waits);
                drop(state);
                job();
                state = self.lock();
                state.waiting_now -= usize::from(waits);
                if waits && !state.waiting.is_empty() {
                    // This thread may acquire another job.
                    self.work.notify_one();
                }
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                state = self.work.wait(state).expect("no holder panics");
                state.idle -= 1;
            }
        }
    }
}

impl State {
    fn queue(&mut self, waits: bool) -> &mut Queue {
        match waits {
            true => &mut self.waiting,
            false => &mut self.jobs,
        }
    }

    /// Number of jobs that could start if threads were available.
    fn ready(&self, waiting_max: usize) -> usize {
        let room = waiting_max.saturating_sub(self.waiting_now);
        self.jobs.len() + self.waiting.len().min(room)
    }

    /// Removes the oldest job that may start. Returns it, and whether it is mostly blocked.
    fn next(&mut self, waiting_max: usize) -> Option<(Job, bool)> {
        let first = |queue: &Queue| queue.front().map(|(number, _)| *number);
        let waiting = first(&self.waiting).filter(|_| self.waiting_now < waiting_max);
        let waits = match (first(&self.jobs), waiting) {
            (Some(job), Some(waiting)) => waiting < job,
            (job, _) => job.is_none(),
        };
        if waits && waiting.is_none() {
            return None;
        }
        let (_, job) = self.queue(waits).pop_front()?;
        Some((job, waits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn full_queue_returns_the_job_and_shutdown_runs_the_rest() {
        let workers = Workers::new("test", 1);
        let (release, gate) = mpsc::channel::<()>();
        let (done, results) = mpsc::channel();
        let (started, running) = mpsc::channel();
        let submitted = workers.submit(Box::new(move || {
            started.send(()).unwrap();
            gate.recv().unwrap();
        }));
        assert!(submitted.is_ok());
        running.recv().unwrap();
        for index in 0..JOBS_PER_THREAD_MAX {
            let done = done.clone();
            assert!(
                workers
                    .submit(Box::new(move || done.send(index).unwrap()))
                    .is_ok()
            );
        }
        assert!(workers.submit(Box::new(|| ())).is_err());
        assert_eq!(workers.threads(), 1);
        release.send(()).unwrap();
        workers.shutdown();
        assert_eq!(results.try_iter().count(), JOBS_PER_THREAD_MAX);
        assert!(workers.submit(Box::new(|| ())).is_err());
    }

    /// Jobs that wait leave threads to other jobs, and each of them is completed in the end.
    #[test]
    fn blocked_jobs_leave_a_thread_for_ready_jobs() {
        let workers = Workers::new("test", 4);
        let gate = Arc::new(Mutex::new(()));
        let (done, results) = mpsc::channel();
        let closed = gate.lock().unwrap();
        for index in 0..8 {
            let (gate, done) = (Arc::clone(&gate), done.clone());
            let job: Job = Box::new(move || {
                drop(gate.lock());
                done.send(index).unwrap();
            });
            assert!(workers.submit_waiting(job).is_ok());
        }
        for index in [10, 11] {
            let done = done.clone();
            let job: Job = Box::new(move || done.send(index).unwrap());
            assert!(workers.submit(job).is_ok());
            assert_eq!(results.recv(), Ok(index));
        }
        drop(closed);
        workers.shutdown();
        let mut rest: Vec<_> = results.try_iter().collect();
        rest.sort_unstable();
        assert_eq!(rest, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn blocked_jobs_below_the_bound_do_not_delay_ready_jobs() {
        let workers = Workers::new("test", 3);
        let barrier = Arc::new(std::sync::Barrier::new(3));
        let (done, results) = mpsc::channel();
        for _ in 0..3 {
            let (barrier, done) = (Arc::clone(&barrier), done.clone());
            let job: Job = Box::new(move || {
                barrier.wait();
                done.send(()).unwrap();
            });
            assert!(workers.submit(job).is_ok());
        }
        workers.shutdown();
        assert_eq!(results.try_iter().count(), 3);
    }
}
