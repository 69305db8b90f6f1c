//! A bounded pool of threads for operations that have to wait for a disk or a lock.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// Something to do on a thread that may wait.
pub type Job = Box<dyn FnOnce() + Send>;

/// Jobs that may wait for a thread, for each thread that the pool may have.
const JOBS_PER_THREAD_MAX: usize = 128;
/// A storage engine's call chains are deep; the pages are only touched if used.
pub(crate) const STACK_BYTES: usize = 1 << 20;

/// Threads that are started when there is work for them, up to a bound, and joined on drop.
pub struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    threads_max: usize,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    closed: bool,
}

impl Workers {
    /// A pool of at most `threads_max` threads named after `name`.
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

    /// Runs `job` soon. Gives it back when the queue is full, no thread can be had, or the pool
    /// is closed: the caller then does it itself, which is the back-pressure.
    pub fn submit(&self, job: Job) -> Result<(), Job> {
        let state = self.shared.lock();
        if state.closed || state.jobs.len() >= self.shared.threads_max * JOBS_PER_THREAD_MAX {
            return Err(job);
        }
        self.push(state, job)
    }

    /// Runs `job` soon, however many wait: for a caller that must not wait, and has a bound of its own. A pool that is
    /// closed, or has no thread and gets none, drops it: false.
    pub fn submit_always(&self, job: Job) -> bool {
        let state = self.shared.lock();
        !state.closed && self.push(state, job).is_ok()
    }

    fn push(&self, mut state: MutexGuard<'_, State>, job: Job) -> Result<(), Job> {
        let shared = &self.shared;
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() {
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
                        return match state.jobs.pop_back() {
                            Some(job) => Err(job),
                            None => Ok(()),
                        };
                    }
                }
            }
        }
        Ok(())
    }

    /// Threads started so far.
    pub fn threads(&self) -> usize {
        self.shared.lock().threads.len()
    }

    /// Takes no more jobs, finishes the queued ones and joins the threads.
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

    fn run(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.lock();
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_full_queue_gives_the_job_back_and_shutdown_finishes_the_rest() {
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

    #[test]
    fn blocked_jobs_do_not_hold_up_others_below_the_bound() {
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
