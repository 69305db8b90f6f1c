//! Connects the library's device operations with a [`Driver`], and enforces the deadlines.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use zpool_sys as sys;

use super::file::{AccessOptions, FileDriver, open_locked};
use super::io::{Flushes, InFlight, LibraryIo};
use super::lock::{Identity, LockedFile, identity_of};
use super::pace::{self, Later};
use super::{
    Access, CompletionThread, Device, DeviceIo, DeviceOptions, Driver, IoKind, OpenFailure, Shape,
    awaited, balance, legs, ownership, scan,
};

/// An open device in the library's view.
struct OpenDevice {
    path: PathBuf,
    device: Arc<dyn Device>,
    in_flight: Arc<InFlight>,
}

/// The state of a device for as long as one of its I/Os is pending.
#[derive(Clone)]
struct TrackedDevice {
    path: PathBuf,
    identity: Option<Identity>,
    device: Weak<dyn Device>,
    in_flight: Weak<InFlight>,
}

struct Bridge {
    driver: Arc<dyn Driver>,
    access: AccessOptions,
    timeout: Duration,
    /// Reads of copies that are delayed until their devices have rested.
    copies: Later<Request>,
    /// Open devices, and closed ones that still have pending I/O.
    open: Mutex<Vec<TrackedDevice>>,
    /// Why the last attempt to open a path failed: the library stores only the errno.
    failures: Mutex<HashMap<PathBuf, OpenFailure>>,
}

static BRIDGE: OnceLock<Bridge> = OnceLock::new();

static FUNCTIONS: sys::bh_device_driver = sys::bh_device_driver {
    open,
    reshape,
    close,
    submit,
    unusable,
    is_far,
    read_load,
    scan_step: scan::step,
    scan_read_begins: scan::read_begins,
    scan_read_ended: scan::read_ended,
    receive: awaited::receive,
    release: awaited::release,
};

/// Deadlines are checked at this interval, which bounds their error.
const WATCH_INTERVAL_MAX: Duration = Duration::from_millis(250);

/// If a check runs this late, the whole process or host was stopped, and the check's findings do not concern the
/// devices.
const STANDSTILL_MIN: Duration = Duration::from_secs(1);

/// Interval between retries of a flush that must succeed and failed.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between log lines while that lasts.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Installs the driver, once, before the library starts.
pub(crate) fn install(options: &DeviceOptions) -> std::io::Result<()> {
    let files: Arc<dyn Driver> = Arc::new(FileDriver::new(options.access)?);
    let driver = match &options.wrap {
        Some(wrap) => wrap(files),
        None => files,
    };
    let copies = Later::new(submit_now)?;
    let bridge = BRIDGE.get_or_init(|| Bridge {
        driver,
        access: options.access,
        timeout: options.timeout,
        copies,
        open: Mutex::default(),
        failures: Mutex::default(),
    });
    std::thread::Builder::new()
        .name("device-deadline".into())
        .spawn(|| bridge.watch())?;
    std::thread::Builder::new()
        .name("device-record".into())
        .spawn(|| {
            loop {
                // SAFETY: blocks until the library has a device, which is after its start.
                unsafe { sys::bh_given_up_record() };
            }
        })?;
    // SAFETY: the static has the lifetime `'static`.
    unsafe { sys::bh_driver_install(&FUNCTIONS) };
    Ok(())
}

/// Why `path` could not be opened, if the last attempt failed.
pub fn open_failure(path: &Path) -> Option<OpenFailure> {
    lock(&BRIDGE.get()?.failures).get(path).cloned()
}

/// The devices with a failed last request, and those that could not be opened. Does not block on a device.
pub fn failing() -> BTreeSet<PathBuf> {
    let Some(bridge) = BRIDGE.get() else {
        return BTreeSet::new();
    };
    let open = lock(&bridge.open).clone();
    let is_failing = |known: &&TrackedDevice| {
        let in_flight = known.in_flight.upgrade();
        in_flight.is_some_and(|in_flight| in_flight.is_failing())
    };
    let failing = open.iter().filter(is_failing);
    let mut found: BTreeSet<PathBuf> = failing.map(|known| known.path.clone()).collect();
    found.extend(lock(&bridge.failures).keys().cloned());
    found
}

/// A device that the library has open.
#[derive(Clone)]
pub(crate) struct OpenDisk {
    pub(crate) path: PathBuf,
    leg: Option<Arc<legs::Leg>>,
    is_far: bool,
}

impl OpenDisk {
    /// Whether it is on another host.
    pub(super) fn is_far(&self) -> bool {
        self.is_far
    }

    /// Whether it is a leg that its pool's record has excluded.
    pub(super) fn is_left_out(&self) -> bool {
        self.leg.as_ref().is_some_and(|leg| leg.is_excluded())
    }

    #[cfg(test)]
    pub(super) fn near(path: PathBuf) -> Self {
        Self {
            path,
            leg: None,
            is_far: false,
        }
    }

    #[cfg(test)]
    pub(super) fn far(path: PathBuf, leg: Option<Arc<legs::Leg>>) -> Self {
        Self {
            path,
            leg,
            is_far: true,
        }
    }
}

/// The devices that the library has open now, of all pools.
pub(crate) fn open_disks() -> Vec<OpenDisk> {
    let open = lock(&bridge().open);
    let disk = |known: &TrackedDevice| {
        let in_flight = known.in_flight.upgrade()?;
        Some(OpenDisk {
            path: known.path.clone(),
            leg: in_flight.leg.clone(),
            is_far: in_flight.is_far.load(Ordering::Acquire),
        })
    };
    open.iter().filter_map(disk).collect()
}

/// The device at `path` that the library has open, if it is on another host: only its driver can read from it.
pub(super) fn open_far(path: &Path) -> Option<(Arc<dyn Device>, Arc<InFlight>)> {
    let open = lock(&bridge().open);
    // The newest first: closed ones may still have pending I/O.
    let mut found = open.iter().rev().filter(|known| known.path == path);
    found.find_map(|known| {
        let in_flight = known.in_flight.upgrade()?;
        if !in_flight.is_far.load(Ordering::Acquire) {
            return None;
        }
        Some((known.device.upgrade()?, in_flight))
    })
}

/// How long a device may take for an I/O.
pub(crate) fn timeout() -> Duration {
    bridge().timeout
}

/// Devices with a flush that must succeed and that failed or is overdue.
pub(crate) fn devices_with_failed_flush() -> Vec<PathBuf> {
    let open = lock(&bridge().open);
    let owes = |known: &&TrackedDevice| {
        known
            .in_flight
            .upgrade()
            .is_some_and(|one| one.has_failed_flush())
    };
    open.iter()
        .filter(owes)
        .map(|known| known.path.clone())
        .collect()
}

/// Whether a scan for pools may open `path`.
pub(crate) fn is_there(path: &Path) -> bool {
    BRIDGE
        .get()
        .is_none_or(|bridge| bridge.driver.is_there(path))
}

/// Opens a device for writing, separately from the library and through its driver; refused while that device has
/// pending I/O.
pub(super) fn open_apart(path: &Path, guid: u64) -> Result<Arc<dyn Device>, OpenFailure> {
    bridge().refuse_hanging(identity_of(path))?;
    bridge().driver.open(path, guid, Access::ReadWrite)
}

/// A device of this host, locked against other processes, which the library can open.
#[derive(Debug)]
pub struct Claim {
    pub(super) file: Arc<LockedFile>,
}

/// Locks the file or block device at `path`.
pub fn claim(path: &Path) -> Result<Claim, OpenFailure> {
    open_locked(path, Access::ReadWrite, bridge().access).map(|file| Claim { file })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bridge() -> &'static Bridge {
    BRIDGE.get().expect("installed before the library started")
}

impl Bridge {
    /// Opens a device for the library, with its shape.
    fn open(
        &self,
        path: &Path,
        guid: u64,
        access: Access,
    ) -> Result<(OpenDevice, Shape), OpenFailure> {
        let open = |leg| {
            let open = self.open_device(path, guid, access, leg)?;
            let shape = open.device.shape()?;
            open.in_flight.is_far.store(shape.far, Ordering::Release);
            Ok((open, shape))
        };
        match legs::find_at(guid, path) {
            None => open(None),
            Some(leg) => leg.open(|| open(Some(Arc::clone(&leg)))),
        }
    }

    fn open_device(
        &self,
        path: &Path,
        guid: u64,
        access: Access,
        leg: Option<Arc<legs::Leg>>,
    ) -> Result<OpenDevice, OpenFailure> {
        let identity = identity_of(path);
        self.refuse_hanging(identity)?;
        let device = self.driver.open(path, guid, access)?;
        let in_flight = Arc::new(InFlight::of_leg(leg));
        if let Some(leg) = &in_flight.leg {
            leg.opened(&in_flight);
        }
        let mut open = lock(&self.open);
        open.retain(|known| known.in_flight.strong_count() != 0);
        open.push(TrackedDevice {
            path: path.to_owned(),
            identity,
            device: Arc::downgrade(&device),
            in_flight: Arc::downgrade(&in_flight),
        });
        Ok(OpenDevice {
            path: path.to_owned(),
            device,
            in_flight,
        })
    }

    /// A closed device may still carry out its earlier requests, on top of new ones.
    fn refuse_hanging(&self, identity: Option<Identity>) -> Result<(), OpenFailure> {
        let hangs = |known: &TrackedDevice| {
            known.identity == identity && known.in_flight.upgrade().is_some_and(|one| one.hangs())
        };
        match identity.is_some() && lock(&self.open).iter().any(hangs) {
            true => Err(OpenFailure::Hangs),
            false => Ok(()),
        }
    }

    fn note<T>(&self, path: &Path, result: &Result<T, OpenFailure>) {
        let mut failures = lock(&self.failures);
        match result {
            Ok(_) => {
                failures.remove(path);
            }
            Err(failure) => {
                // Bounded by the number of devices named in requests.
                failures.insert(path.to_owned(), failure.clone());
            }
        }
    }

    /// Runs until the process exits.
    fn watch(&self) {
        let interval = (self.timeout / 4).min(WATCH_INTERVAL_MAX);
        let mut patient_until = Instant::now();
        loop {
            let due = Instant::now() + interval;
            std::thread::sleep(interval);
            if due.elapsed() > STANDSTILL_MIN {
                // Every pending I/O seems overdue. It gets its full time-out again.
                patient_until = Instant::now() + self.timeout;
            }
            if Instant::now() < patient_until {
                continue;
            }
            let open = lock(&self.open).clone();
            for known in open {
                if let Some(in_flight) = known.in_flight.upgrade() {
                    self.check_device(&known, &in_flight);
                }
            }
        }
    }

    fn check_device(&self, known: &TrackedDevice, in_flight: &Arc<InFlight>) {
        let device = known.path.display();
        let expired = in_flight.expire(self.timeout);
        if expired != 0 {
            tracing::error!(
                %device,
                expired,
                timeout_s = self.timeout.as_secs_f64(),
                "device hangs: its I/O was given up"
            );
        }
        in_flight.stay_suspended();
        if in_flight.has_refused() && in_flight.may_flush_again(FLUSH_INTERVAL) {
            if in_flight.may_log(LOG_INTERVAL, Instant::now()) {
                tracing::error!(
                    %device,
                    "device cannot make writes durable, and the pool has no other that holds them: \
                     writes wait until it can; see to the device, its cable and its controller"
                );
            }
            if let Some(device) = known.device.upgrade() {
                flush_again(known.path.clone(), device.as_ref(), Arc::clone(in_flight));
            }
        }
    }
}

/// Checks whether the device flushes again.
fn flush_again(path: PathBuf, device: &dyn Device, in_flight: Arc<InFlight>) {
    let flush = DeviceIo::on_memory(IoKind::Flush, 0, Vec::new(), move |result, _| {
        if result.is_ok() && in_flight.flushed() == Flushes::Doubtful {
            ownership::exit_for_restart(&format!(
                "{} had failed to make writes durable, and they may be gone",
                path.display()
            ));
        }
        in_flight.has_flushed_again();
    });
    device.submit(flush);
}

fn store(shape: Shape, out: &mut sys::bh_device_shape) {
    *out = sys::bh_device_shape {
        bytes: shape.bytes,
        logical_block: shape.logical_block,
        physical_block: shape.physical_block,
        merges: shape.merges.into(),
        far: shape.far.into(),
        trim: shape.trim.into(),
    };
}

// A panic in one of these aborts the process, as an `extern "C"` function does: nothing unwinds
// into the library.

unsafe extern "C" fn open(
    path: *const c_char,
    vdev_guid: u64,
    writable: u32,
    shape: *mut sys::bh_device_shape,
    device: *mut *mut c_void,
) -> i32 {
    // SAFETY: the library passes a NUL-terminated string and valid pointers for the results.
    let (path, shape, device) = unsafe { (CStr::from_ptr(path), &mut *shape, &mut *device) };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let access = if writable != 0 {
        Access::ReadWrite
    } else {
        Access::Read
    };
    let opened = bridge().open(path, vdev_guid, access);
    bridge().note(path, &opened);
    match opened {
        Ok((open, found)) => {
            store(found, shape);
            *device = Box::into_raw(Box::new(open)).cast();
            0
        }
        Err(failure) => {
            tracing::debug!(device = %path.display(), %failure, "open device");
            failure.errno()
        }
    }
}

unsafe extern "C" fn reshape(device: *mut c_void, shape: *mut sys::bh_device_shape) -> i32 {
    // SAFETY: `device` came from `open` and was not closed; `shape` points to valid memory.
    let (open, shape) = unsafe { (&*device.cast::<OpenDevice>(), &mut *shape) };
    let look = || match open.in_flight.hangs() {
        true => Err(OpenFailure::Hangs),
        false => open.device.shape(),
    };
    let found = match &open.in_flight.leg {
        None => look(),
        Some(leg) => leg.open(look),
    };
    match found {
        Ok(found) => {
            store(found, shape);
            0
        }
        Err(failure) => failure.errno(),
    }
}

unsafe extern "C" fn close(device: *mut c_void) {
    // SAFETY: `device` came from `open`, and the library closes it once.
    let open = unsafe { Box::from_raw(device.cast::<OpenDevice>()) };
    tracing::debug!(device = %open.path.display(), "close device");
}

unsafe extern "C" fn unusable(vdev_guid: u64) {
    legs::fail_and_wait(vdev_guid, legs::LegFailure::Unusable);
}

unsafe extern "C" fn is_far(device: *const c_void) -> u32 {
    // SAFETY: `device` came from `open` and was not closed.
    let open = unsafe { &*device.cast::<OpenDevice>() };
    open.in_flight.is_far.load(Ordering::Acquire).into()
}

unsafe extern "C" fn read_load(device: *const c_void) -> u32 {
    // SAFETY: as in `is_far`.
    let open = unsafe { &*device.cast::<OpenDevice>() };
    balance::load_of(open.in_flight.is_far.load(Ordering::Relaxed))
}

unsafe extern "C" fn submit(
    device: *mut c_void,
    io: *mut sys::bh_io,
    kind: u32,
    offset: u64,
    length: u64,
) {
    let request = Request {
        device: device.cast::<OpenDevice>(),
        io: NonNull::new(io).expect("the library hands out I/O, not NULL"),
        kind,
        offset,
        length,
    };
    match kind {
        sys::BH_IO_READ
        | sys::BH_IO_WRITE_OF_LOG
        | sys::BH_IO_WRITE_HERE
        | sys::BH_IO_WRITE_AWAITED => pace::note_client_request(),
        sys::BH_IO_READ_OF_COPY => {
            // SAFETY: as in `submit_now`.
            let open = unsafe { &*request.device };
            if let Some(at) = open.in_flight.copies.begin() {
                let later = bridge().copies.at(at, request);
                return later.unwrap_or_else(submit_now);
            }
        }
        _ => {}
    }
    submit_now(request);
}

/// A request of the library to an open device.
#[derive(Clone, Copy)]
pub(super) struct Request {
    device: *const OpenDevice,
    io: NonNull<sys::bh_io>,
    kind: u32,
    offset: u64,
    length: u64,
}

// SAFETY: the library allows any thread to execute an I/O, and closes no device before.
unsafe impl Send for Request {}

pub(super) fn submit_now(request: Request) {
    let Request {
        device,
        io,
        kind,
        offset,
        length,
    } = request;
    // SAFETY: `device` came from `open` and is not closed while I/O is outstanding.
    let open = unsafe { &*device };
    let is_awaited = kind == sys::BH_IO_WRITE_AWAITED;
    let of_log = is_awaited || matches!(kind, sys::BH_IO_WRITE_OF_LOG | sys::BH_IO_WRITE_HERE);
    let here = matches!(kind, sys::BH_IO_FLUSH_HERE | sys::BH_IO_WRITE_HERE);
    let of_copy = kind == sys::BH_IO_READ_OF_COPY;
    let of_client = of_log || kind == sys::BH_IO_READ;
    let kind = match kind {
        sys::BH_IO_READ | sys::BH_IO_READ_OF_COPY | sys::BH_IO_READ_OF_SCAN => IoKind::Read,
        sys::BH_IO_WRITE
        | sys::BH_IO_WRITE_HERE
        | sys::BH_IO_WRITE_OF_LOG
        | sys::BH_IO_WRITE_AWAITED => IoKind::Write,
        sys::BH_IO_FLUSH | sys::BH_IO_FLUSH_HERE => IoKind::Flush,
        _ => IoKind::Trim,
    };
    let length = if kind == IoKind::Flush { 0 } else { length };
    if let Some(leg) = &open.in_flight.leg {
        if !leg.is_in_use() {
            // SAFETY: as below; the device does not receive it.
            return leg.hold(unsafe { LibraryIo::new(io) }, Some(request));
        }
    }
    // Before its deadline starts: a request that is held back is not overdue.
    ownership::attend();
    // SAFETY: the library has just handed it out.
    let mut io = unsafe { DeviceIo::from_library(io, kind, offset, length, &open.in_flight) };
    io.submitter_may_wait = here;
    io.is_flushed_next = of_log;
    if is_awaited {
        io.awaited_by = Some(std::thread::current().id());
    }
    io.is_of_copy = of_copy;
    io.is_of_client = of_client;
    if let Some(leg) = &open.in_flight.leg {
        io.note_root(leg);
    }
    if open.in_flight.hangs() && !io.outlasts_deadlines() {
        io.complete(Err(Errno::NXIO), CompletionThread::Elsewhere);
    } else {
        // The library may close the device as soon as its last I/O is complete, which can be
        // before `submit` returns.
        let device = Arc::clone(&open.device);
        device.submit(io);
    }
}
