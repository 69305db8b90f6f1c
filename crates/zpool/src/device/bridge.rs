//! Connects the library's device operations with a [`Driver`], and keeps the deadlines.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use zpool_sys as sys;

use super::file::{AccessOptions, FileDriver, open_locked};
use super::io::InFlight;
use super::lock::LockedFile;
use super::{
    Access, Device, DeviceIo, DeviceOptions, Driver, IoKind, OpenFailure, Place, Shape, ownership,
};

/// A device as the library holds it.
struct OpenDevice {
    path: PathBuf,
    device: Arc<dyn Device>,
    in_flight: Arc<InFlight>,
}

struct Bridge {
    driver: Arc<dyn Driver>,
    access: AccessOptions,
    timeout: Duration,
    /// Open devices, for the deadlines.
    open: Mutex<Vec<(PathBuf, Weak<InFlight>)>>,
    /// Why a path could not be opened when it was last tried: the library keeps a number only.
    failures: Mutex<HashMap<PathBuf, OpenFailure>>,
}

static BRIDGE: OnceLock<Bridge> = OnceLock::new();

static FUNCTIONS: sys::bh_device_driver = sys::bh_device_driver {
    open,
    reshape,
    close,
    submit,
};

/// Deadlines are looked at this often, so they are this much too late at most.
const WATCH_INTERVAL_MAX: Duration = Duration::from_millis(250);

/// A watch that comes so much too late was stopped, with the whole process or machine: what it finds
/// then says nothing about devices.
const STANDSTILL_MIN: Duration = Duration::from_secs(1);

/// Puts the driver in place. Before the library starts, once.
pub(crate) fn install(options: &DeviceOptions) -> std::io::Result<()> {
    let files: Arc<dyn Driver> = Arc::new(FileDriver::new(options.access)?);
    let driver = match &options.wrap {
        Some(wrap) => wrap(files),
        None => files,
    };
    let bridge = BRIDGE.get_or_init(|| Bridge {
        driver,
        access: options.access,
        timeout: options.timeout,
        open: Mutex::default(),
        failures: Mutex::default(),
    });
    std::thread::Builder::new()
        .name("device-deadline".into())
        .spawn(|| bridge.watch())?;
    // SAFETY: a static lives for ever.
    unsafe { sys::bh_driver_install(&FUNCTIONS) };
    Ok(())
}

/// Why `path` could not be opened, if the last attempt failed.
pub fn open_failure(path: &Path) -> Option<OpenFailure> {
    lock(&BRIDGE.get()?.failures).get(path).cloned()
}

/// The devices that the library has open now, of all pools.
pub(crate) fn open_paths() -> Vec<PathBuf> {
    let open = lock(&bridge().open);
    open.iter()
        .filter(|(_, device)| device.strong_count() != 0)
        .map(|(path, _)| path.clone())
        .collect()
}

/// A device of this machine, locked against other processes, which the library can open.
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
    fn open(&self, path: &Path, guid: u64, access: Access) -> Result<OpenDevice, OpenFailure> {
        let device = self.driver.open(path, guid, access)?;
        let in_flight = Arc::new(InFlight::default());
        let mut open = lock(&self.open);
        open.retain(|(_, device)| device.strong_count() != 0);
        open.push((path.to_owned(), Arc::downgrade(&in_flight)));
        Ok(OpenDevice {
            path: path.to_owned(),
            device,
            in_flight,
        })
    }

    fn note<T>(&self, path: &Path, result: &Result<T, OpenFailure>) {
        let mut failures = lock(&self.failures);
        match result {
            Ok(_) => {
                failures.remove(path);
            }
            Err(failure) => {
                // Bounded by the number of devices that anybody names.
                failures.insert(path.to_owned(), failure.clone());
            }
        }
    }

    /// Runs as long as the process.
    fn watch(&self) {
        let interval = (self.timeout / 4).min(WATCH_INTERVAL_MAX);
        let mut patient_until = Instant::now();
        loop {
            let due = Instant::now() + interval;
            std::thread::sleep(interval);
            if due.elapsed() > STANDSTILL_MIN {
                // Everything under way looks late. It gets its whole time again.
                patient_until = Instant::now() + self.timeout;
            }
            if Instant::now() < patient_until {
                continue;
            }
            let open: Vec<_> = lock(&self.open)
                .iter()
                .filter_map(|(path, device)| Some((path.clone(), device.upgrade()?)))
                .collect();
            for (path, in_flight) in open {
                let expired = in_flight.expire(self.timeout);
                if expired != 0 {
                    tracing::error!(
                        device = %path.display(),
                        expired,
                        timeout_s = self.timeout.as_secs_f64(),
                        "device hangs: its I/O was given up"
                    );
                }
            }
        }
    }
}

fn store(shape: Shape, out: &mut sys::bh_device_shape) {
    *out = sys::bh_device_shape {
        bytes: shape.bytes,
        logical_block: shape.logical_block,
        physical_block: shape.physical_block,
        merges: shape.merges.into(),
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
    // SAFETY: the library passes a terminated string and valid places for the results.
    let (path, shape, device) = unsafe { (CStr::from_ptr(path), &mut *shape, &mut *device) };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let access = if writable != 0 {
        Access::ReadWrite
    } else {
        Access::Read
    };
    let opened = bridge().open(path, vdev_guid, access).and_then(|open| {
        let shape = open.device.shape()?;
        Ok((open, shape))
    });
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
    // SAFETY: `device` came from `open` and was not closed; `shape` is a valid place.
    let (open, shape) = unsafe { (&*device.cast::<OpenDevice>(), &mut *shape) };
    if open.in_flight.hangs() {
        return Errno::NXIO.raw_os_error();
    }
    match open.device.shape() {
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

unsafe extern "C" fn submit(
    device: *mut c_void,
    io: *mut sys::bh_io,
    kind: u32,
    offset: u64,
    length: u64,
) {
    // SAFETY: `device` came from `open` and is not closed while I/O is outstanding.
    let open = unsafe { &*device.cast::<OpenDevice>() };
    let here = matches!(kind, sys::BH_IO_FLUSH_HERE | sys::BH_IO_WRITE_HERE);
    let kind = match kind {
        sys::BH_IO_READ => IoKind::Read,
        sys::BH_IO_WRITE | sys::BH_IO_WRITE_HERE => IoKind::Write,
        sys::BH_IO_FLUSH | sys::BH_IO_FLUSH_HERE => IoKind::Flush,
        _ => IoKind::Trim,
    };
    let length = if kind == IoKind::Flush { 0 } else { length };
    let io = NonNull::new(io).expect("the library hands out I/O, not NULL");
    // SAFETY: the library has just handed it out.
    let mut io = unsafe { DeviceIo::from_library(io, kind, offset, length, &open.in_flight) };
    io.submitter_may_wait = here;
    ownership::before(kind);
    if open.in_flight.hangs() {
        io.complete(Err(Errno::NXIO), Place::Elsewhere);
    } else {
        // The library may close the device as soon as its last I/O is complete, which can be
        // before `submit` returns.
        let device = Arc::clone(&open.device);
        device.submit(io);
    }
}
