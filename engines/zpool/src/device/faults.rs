//! A driver that fails on command, for tests and drills.
//!
//! It wraps another driver. A [`Fault`] set for a path lets the I/O of that device fail, hang or return damaged data,
//! or kills the process just before it changes the device.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SendError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};

use super::io::{CompletionThread, DeviceIo, IoKind};
use super::{Access, Device, Driver, OpenFailure, Shape};

/// Most unreadable ranges of a device.
pub const UNREADABLE_MAX: usize = 16;

/// The faults of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Fault {
    /// Reads fail with `EIO`.
    pub reads_fail: bool,
    /// Reads of data fail with `EIO`, those of labels do not.
    pub data_reads_fail: bool,
    /// Reads that overlap one of these ranges fail with `EIO`: offsets and lengths in bytes.
    pub unreadable: [(u64, u64); UNREADABLE_MAX],
    /// Writes and discards fail with `EIO`.
    pub writes_fail: bool,
    /// Writes and discards of data fail with `ENOSPC`, those of labels do not: a file in a file system that is full.
    pub data_has_no_space: bool,
    /// Flushes fail with `EIO`.
    pub flushes_fail: bool,
    /// Flushes do not complete until the fault is cleared; other I/O does.
    pub flushes_hang: bool,
    /// Writes, discards and flushes fail as on a disk that another head has reserved.
    pub reserved_elsewhere: bool,
    /// No I/O completes until the fault is cleared.
    pub hangs: bool,
    /// All I/O fails with `ENXIO`, and opening reports that there is no device.
    pub gone: bool,
    /// Every read has a flipped bit.
    pub reads_corrupt: bool,
    /// All I/O is delayed by this time.
    pub delay: Duration,
    /// After this many [`steps`](Faults::steps), the process is killed by SIGKILL instead of the next one.
    pub kill_after: Option<u64>,
}

/// Two labels and space for a boot loader are at the start of a device, and two labels at its end.
const FRONT_BYTES: u64 = 4 << 20;
const BACK_BYTES: u64 = 512 << 10;

impl Fault {
    fn holds(&self, kind: IoKind) -> bool {
        self.hangs || (self.flushes_hang && kind == IoKind::Flush)
    }

    fn is_unreadable(&self, offset: u64, length: u64) -> bool {
        let mut places = self.unreadable.iter();
        places.any(|&(begin, bytes)| offset < begin + bytes && begin < offset + length)
    }
}

/// A pending I/O, and its device.
type Hanging = (Arc<dyn Device>, DeviceIo);

#[derive(Default)]
struct State {
    faults: HashMap<PathBuf, Fault>,
    hanging: HashMap<PathBuf, Vec<Hanging>>,
    io_counts: HashMap<PathBuf, u64>,
    steps: HashMap<PathBuf, u64>,
}

impl State {
    /// Counts an I/O of the device; returns its fault, and whether the process must die before this step.
    fn count(&mut self, path: &Path, kind: IoKind) -> (Fault, bool) {
        *self.io_counts.entry(path.to_owned()).or_default() += 1;
        let fault = self.faults.get(path).copied().unwrap_or_default();
        if kind == IoKind::Read {
            return (fault, false);
        }
        let steps = self.steps.entry(path.to_owned()).or_default();
        *steps += 1;
        (fault, fault.kill_after.is_some_and(|most| *steps > most))
    }
}

/// The fault settings, shared by the driver and the test.
#[derive(Clone, Default)]
pub struct Faults {
    state: Arc<Mutex<State>>,
}

impl Faults {
    /// All off.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A driver that applies these faults and delegates to `inner`: an argument for
    /// [`DeviceOptions::wrap`](super::DeviceOptions::wrap).
    pub fn wrap(&self) -> super::Wrap {
        let faults = self.clone();
        Arc::new(move |inner| {
            Arc::new(FaultDriver {
                faults: faults.clone(),
                inner,
            })
        })
    }

    /// Sets the faults of `path`; pending I/O that is no longer to hang is carried out.
    pub fn set(&self, path: &Path, fault: Fault) {
        self.set_together([(path.to_owned(), fault)]);
    }

    /// Sets the faults of several devices atomically: no I/O sees one of them without the rest.
    pub fn set_together(&self, faults: impl IntoIterator<Item = (PathBuf, Fault)>) {
        let mut freed: Vec<Hanging> = Vec::new();
        {
            let mut state = self.state();
            for (path, fault) in faults {
                state.steps.remove(&path);
                let hanging = state.hanging.remove(&path).unwrap_or_default();
                let (stays, goes): (Vec<_>, Vec<_>) = hanging
                    .into_iter()
                    .partition(|(_, io)| fault.holds(io.kind()));
                state.hanging.insert(path.clone(), stays);
                state.faults.insert(path, fault);
                freed.extend(goes);
            }
        }
        for (device, io) in freed {
            device.submit(io);
        }
    }

    /// Clears the faults of `path`.
    pub fn lift(&self, path: &Path) {
        self.set(path, Fault::default());
    }

    /// Number of I/Os that the device of `path` has received.
    pub fn io_count(&self, path: &Path) -> u64 {
        self.state().io_counts.get(path).copied().unwrap_or(0)
    }

    /// Number of writes, discards and flushes that the device has received since its fault was set.
    pub fn steps(&self, path: &Path) -> u64 {
        self.state().steps.get(path).copied().unwrap_or(0)
    }

    fn of(&self, path: &Path) -> Fault {
        self.state().faults.get(path).copied().unwrap_or_default()
    }
}

struct FaultDriver {
    faults: Faults,
    inner: Arc<dyn Driver>,
}

impl Driver for FaultDriver {
    fn is_there(&self, path: &Path) -> bool {
        !self.faults.of(path).gone
    }

    fn open(&self, path: &Path, guid: u64, access: Access) -> Result<Arc<dyn Device>, OpenFailure> {
        if self.faults.of(path).gone {
            return Err(OpenFailure::Missing);
        }
        Ok(Arc::new(FaultDevice {
            path: path.to_owned(),
            faults: self.faults.clone(),
            inner: self.inner.open(path, guid, access)?,
            late: OnceLock::new(),
        }))
    }
}

struct FaultDevice {
    path: PathBuf,
    faults: Faults,
    inner: Arc<dyn Device>,
    /// Carries out delayed I/O; its thread starts with the first such I/O and exits with the device.
    late: OnceLock<Sender<(Instant, DeviceIo)>>,
}

impl Device for FaultDevice {
    fn shape(&self) -> Result<Shape, OpenFailure> {
        if self.faults.of(&self.path).gone {
            return Err(OpenFailure::Missing);
        }
        self.inner.shape()
    }

    fn submit(&self, io: DeviceIo) {
        let fault = {
            let mut state = self.faults.state();
            let (fault, is_the_end) = state.count(&self.path, io.kind());
            if is_the_end {
                die();
            }
            if fault.holds(io.kind()) {
                let entry = state.hanging.entry(self.path.clone()).or_default();
                entry.push((Arc::clone(&self.inner), io));
                return;
            }
            fault
        };
        let fails = match io.kind() {
            IoKind::Read => {
                fault.reads_fail
                    || fault.data_reads_fail && self.is_of_data(&io)
                    || fault.is_unreadable(io.offset(), io.length() as u64)
            }
            IoKind::Write | IoKind::Trim => fault.writes_fail,
            IoKind::Flush => fault.flushes_fail,
        };
        if fault.gone {
            io.complete(Err(Errno::NXIO), CompletionThread::Elsewhere);
        } else if fault.reserved_elsewhere && io.kind() != IoKind::Read {
            io.complete(Err(Errno::BADE), CompletionThread::Elsewhere);
        } else if fails {
            io.complete(Err(Errno::IO), CompletionThread::Elsewhere);
        } else if fault.data_has_no_space && self.changes_data(&io) {
            io.complete(Err(Errno::NOSPC), CompletionThread::Elsewhere);
        } else if fault.reads_corrupt && io.kind() == IoKind::Read {
            self.read_corrupted(io);
        } else if fault.delay.is_zero() {
            self.inner.submit(io);
        } else {
            self.submit_late(io, fault.delay);
        }
    }
}

/// SIGKILL to this process, as in a crash at this point.
fn die() -> ! {
    let _ = kill_process(getpid(), Signal::KILL);
    // Not reached: the signal cannot be blocked.
    std::process::abort()
}

impl FaultDevice {
    fn is_of_data(&self, io: &DeviceIo) -> bool {
        let end = self.inner.shape().map_or(u64::MAX, |shape| shape.bytes);
        (FRONT_BYTES..end.saturating_sub(BACK_BYTES)).contains(&io.offset())
    }

    fn changes_data(&self, io: &DeviceIo) -> bool {
        matches!(io.kind(), IoKind::Write | IoKind::Trim) && self.is_of_data(io)
    }

    /// In order: the delay of a device rarely changes, and order is harmless.
    fn submit_late(&self, io: DeviceIo, delay: Duration) {
        let late = self.late.get_or_init(|| {
            let (sender, receiver) = channel::<(Instant, DeviceIo)>();
            let inner = Arc::clone(&self.inner);
            let carry_out = move || {
                for (due, io) in receiver {
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    inner.submit(io);
                }
            };
            let thread = std::thread::Builder::new().name("late-device".into());
            thread
                .spawn(carry_out)
                .expect("a thread for a fault on purpose");
            sender
        });
        if let Err(SendError((_, io))) = late.send((Instant::now() + delay, io)) {
            // The thread exits only with this device.
            io.complete(Err(Errno::IO), CompletionThread::Elsewhere);
        }
    }

    /// Reads into its own memory and flips a bit of the result.
    fn read_corrupted(&self, io: DeviceIo) {
        let (kind, offset, memory) = (io.kind(), io.offset(), vec![0; io.length()]);
        let relay = DeviceIo::on_memory(kind, offset, memory, move |result, mut data| {
            if let Some(byte) = data.first_mut() {
                *byte ^= 0x10;
            }
            if result.is_ok() {
                io.copy_from(&data);
            }
            io.complete(result, CompletionThread::Elsewhere);
        });
        self.inner.submit(relay);
    }
}
