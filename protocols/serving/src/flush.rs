//! Shares one flush of a device among all concurrent requests for one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use block_device::{DeviceError, SharedDevice};

use crate::workers::STACK_BYTES;

/// The result of a flush. Waiters of the same flush share the error.
pub type FlushOutcome = Result<(), Arc<DeviceError>>;

type Waiter = Box<dyn FnOnce(FlushOutcome) + Send>;

/// Idle time after which the leader's thread exits. A device with frequent flushes retains it.
const LEADER_IDLE: Duration = Duration::from_secs(10);

/// The flushes of one device. While one is running, further waiters share the next one: it starts
/// after they arrived, so that it covers all writes that they have seen completed.
pub struct FlushGroup {
    shared: Arc<Shared>,
}

struct Shared {
    device: SharedDevice,
    state: Mutex<State>,
    work_available: Condvar,
}

#[derive(Default)]
struct State {
    waiters: Vec<Waiter>,
    /// A thread is in the device's flush and will check `waiters` afterwards.
    leading: bool,
    thread_running: bool,
    thread_idle: bool,
    closed: bool,
    flushes: u64,
}

impl FlushGroup {
    /// Creates a group for `device`. Its thread starts with the first waiter and exits when idle.
    pub fn new(device: SharedDevice) -> Self {
        let shared = Shared {
            device,
            state: Mutex::default(),
            work_available: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Calls `waiter` when all writes completed before this call are durable: possibly before this
    /// call returns, usually on the group's thread. `waiter` must not block on a socket.
    pub fn wait(&self, waiter: impl FnOnce(FlushOutcome) + Send + 'static) {
        if self.shared.device.is_clean() {
            return waiter(Ok(()));
        }
        let mut state = self.shared.lock();
        state.waiters.push(Box::new(waiter));
        if !state.leading {
            self.shared.summon(state);
        }
    }

    /// Flushes on the calling thread if no flush is in progress. This saves the hand-over to a
    /// thread for a caller without other work. Returns `None` if a flush is in progress: use
    /// [`wait`](Self::wait).
    pub fn flush_here(&self) -> Option<FlushOutcome> {
        if self.shared.device.is_clean() {
            return Some(Ok(()));
        }
        {
            let mut state = self.shared.lock();
            if state.leading || !state.waiters.is_empty() {
                return None;
            }
            state.leading = true;
            state.flushes += 1;
        }
        let outcome = self.shared.device.flush().map_err(Arc::new);
        let mut state = self.shared.lock();
        state.leading = false;
        if !state.waiters.is_empty() {
            self.shared.summon(state);
        }
        Some(outcome)
    }

    /// Number of flushes of the device.
    pub fn flushes(&self) -> u64 {
        self.shared.lock().flushes
    }
}

impl Drop for FlushGroup {
    /// Remaining waiters are served before the thread exits.
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work_available.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Ensures that a thread will serve the waiters; without a thread, the caller does.
    fn summon(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.thread_running {
            let idle = state.thread_idle;
            drop(state);
            if idle {
                self.work_available.notify_one();
            }
            return;
        }
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name("flush".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || shared.run());
        match thread {
            Ok(_) => state.thread_running = true,
            Err(error) => {
                tracing::warn!(%error, "cannot start a flush thread");
                drop(self.lead(state));
            }
        }
    }

    /// Serves the current waiters with one flush.
    fn lead<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waiters = std::mem::take(&mut state.waiters);
        state.leading = true;
        state.flushes += 1;
        drop(state);
        let outcome = self.device.flush().map_err(Arc::new);
        for waiter in waiters {
            waiter(outcome.clone());
        }
        let mut state = self.lock();
        state.leading = false;
        state
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            if state.leading {
                // A caller flushes on its own thread, and will summon this thread afterwards.
                state.thread_idle = true;
                state = self.work_available.wait(state).expect("no holder panics");
                state.thread_idle = false;
            } else if !state.waiters.is_empty() {
                state = self.lead(state);
            } else if state.closed {
                state.thread_running = false;
                return;
            } else {
                state.thread_idle = true;
                let (woken, timeout) = self
                    .work_available
                    .wait_timeout(state, LEADER_IDLE)
                    .expect("no holder panics");
                state = woken;
                state.thread_idle = false;
                if timeout.timed_out() && state.waiters.is_empty() && !state.leading {
                    state.thread_running = false;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block_device::*;
    use std::sync::mpsc;

    /// A device with flushes that block until permitted, to observe shared ones.
    struct SlowFlush {
        inner: MemoryDevice,
        entered: Mutex<mpsc::Sender<()>>,
        permits: Mutex<mpsc::Receiver<()>>,
    }

    impl BlockDevice for SlowFlush {
        fn geometry(&self) -> Geometry {
            self.inner.geometry()
        }
        fn read(
            &self,
            extent: Extent,
            wait_mode: WaitMode<'_>,
        ) -> Result<Box<dyn ReadLoan>, DeviceError> {
            self.inner.read(extent, wait_mode)
        }
        fn lend(&self, extent: Extent) -> Result<Box<dyn WriteLoan>, DeviceError> {
            self.inner.lend(extent)
        }
        fn write(
            &self,
            offset: u64,
            data: &[u8],
            wait_mode: WaitMode<'_>,
        ) -> Result<(), DeviceError> {
            self.inner.write(offset, data, wait_mode)
        }
        fn write_zeroes(
            &self,
            extent: Extent,
            zero: Zero,
            e: WaitMode<'_>,
        ) -> Result<(), DeviceError> {
            self.inner.write_zeroes(extent, zero, e)
        }
        fn unmap(&self, extent: Extent, wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
            self.inner.unmap(extent, wait_mode)
        }
        fn update(
            &self,
            extent: Extent,
            change: &mut dyn FnMut(&mut [u8]) -> Update,
        ) -> Result<Update, DeviceError> {
            self.inner.update(extent, change)
        }
        fn flush(&self) -> Result<(), DeviceError> {
            self.entered.lock().unwrap().send(()).unwrap();
            self.permits.lock().unwrap().recv().unwrap();
            Ok(())
        }
        fn is_clean(&self) -> bool {
            false
        }
        fn status(&self, extent: Extent, runs_max: usize) -> Result<Vec<StatusRun>, DeviceError> {
            self.inner.status(extent, runs_max)
        }
    }

    #[test]
    fn waiters_during_a_flush_share_the_next_flush() {
        let (entered_in, entered) = mpsc::channel();
        let (permit, permits) = mpsc::channel();
        let group = FlushGroup::new(Arc::new(SlowFlush {
            inner: MemoryDevice::new(4096, 512),
            entered: Mutex::new(entered_in),
            permits: Mutex::new(permits),
        }));
        let (done, results) = mpsc::channel();
        let waiter = |index: usize| {
            let done = done.clone();
            move |outcome: FlushOutcome| done.send((index, outcome.is_ok())).unwrap()
        };
        group.wait(waiter(0));
        entered.recv().unwrap();
        for index in 1..=20 {
            group.wait(waiter(index));
        }
        assert!(group.flush_here().is_none(), "a flush is under way");
        permit.send(()).unwrap();
        assert_eq!(results.recv().unwrap(), (0, true));
        entered.recv().unwrap();
        permit.send(()).unwrap();
        let late: Vec<_> = results.iter().take(20).collect();
        assert_eq!(
            late,
            (1..=20).map(|index| (index, true)).collect::<Vec<_>>()
        );
        assert_eq!(group.flushes(), 2);
    }

    #[test]
    fn a_clean_device_is_not_flushed() {
        let device: SharedDevice = Arc::new(MemoryDevice::new(4096, 512));
        let group = FlushGroup::new(Arc::clone(&device));
        let (done, results) = mpsc::channel();
        group.wait(move |outcome| done.send(outcome.is_ok()).unwrap());
        assert!(results.try_recv().unwrap(), "answered before wait returned");
        assert_eq!(group.flushes(), 0);
        device.write(0, &[1; 512], WaitMode::NoWait).unwrap();
        assert!(group.flush_here().unwrap().is_ok());
        assert_eq!(group.flushes(), 1);
    }
}
