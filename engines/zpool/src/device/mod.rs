//! Connects the library with its devices.
//!
//! A [`Driver`] opens a path and returns a [`Device`], which receives each I/O ([`DeviceIo`]) and completes it later,
//! on any thread. [`file::FileDriver`] serves files and block devices of this host; a device on another head is one
//! more implementation.
//!
//! **Reads stay local.** The library distributes the reads of a mirror by the queue length of each device. A device on
//! another host ([`Shape::far`]) is read only for data that no nearer device of the mirror can return: because it
//! misses the data, has failed, or returned wrong data. [`balance_reads`] lets the library use it also while the queue
//! of the nearer one is longer. Scrubs, resilvers and raidz are not affected; raidz has its data on all devices.
//!
//! **A device that hangs** must not stop a mirror. Each I/O has a deadline, enforced here rather than by the drivers:
//! when it passes, the library gets all I/O of the device back with an error, faults the device and continues with the
//! remaining ones. The driver still holds its half of the I/O, without access to the memory: drivers pass only memory
//! of their own to a kernel or a network, so that a late response does no harm. Until that response, new I/O fails at
//! once, and the device is not opened again. Files of a local file system are the exception: no deadline applies to a
//! write to one.
//!
//! **A flush that fails**, by its deadline or with an error, leaves the contents of the device unknown. The library
//! would continue as if it had succeeded. So the device is given up, and commits block until the remaining devices have
//! recorded that. A flush of a device that the pool cannot do without completes only with success, and the pool is
//! suspended until then. If the device had returned an error, this process terminates when it flushes again, and the
//! next one starts from the contents of the device.

mod awaited;
mod backing;
mod balance;
mod bridge;
mod disk;
pub mod faults;
pub mod file;
mod io;
pub mod legs;
mod lock;
mod ownership;
mod pace;
mod page_cache;
mod past_cache;
mod probe;
mod reservation;
mod ring;
mod scan;
mod stamp;
mod turns;
mod workers;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use awaited::{Reception, await_here};
pub(crate) use balance::balance_reads;
pub use bridge::{Claim, claim, failing, open_failure};
pub(crate) use bridge::{
    OpenDisk, devices_with_failed_flush, install, is_there, open_disks, timeout,
};
pub use io::{CompletionThread, DeviceIo, IoKind};
pub(crate) use lock::{Guarded, guard, unguard};
pub use ownership::EXIT_OWNERSHIP_LOST;
pub(crate) use ownership::{CHECK_GAP_MAX, Owner, attend, is_check_recent, retire, watch};
pub(crate) use pace::note_client_request;
pub(crate) use probe::far_labels;
pub use probe::{Labelled, ProbeFailure, labelled, probe};
pub use reservation::supports_reservations;
pub(crate) use scan::bound_copies;
pub use stamp::{STAMP_BYTES, device_bytes, read_stamps, write_labels, write_stamps};

/// The properties of a device. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Capacity.
    pub bytes: u64,
    /// Smallest I/O, a power of two.
    pub logical_block: u32,
    /// Smallest I/O without a read-modify-write in the device, a power of two.
    pub physical_block: u32,
    /// Whether adjacent I/O is merged up to 1 MiB, instead of 128 KiB: a call, or a seek, costs more than such a
    /// merger.
    pub merges: bool,
    /// Whether it is on another host: by default a mirror reads from it only data that no nearer device of the mirror
    /// can return.
    pub far: bool,
    /// Whether it supports discards.
    pub trim: bool,
}

/// The owner of a pool as a disk records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerOnDisk {
    /// The pool.
    pub(crate) pool_guid: u64,
    /// Host id of the writer of the label.
    pub(crate) host_id: Option<u32>,
    /// When that was.
    pub(crate) label_txg: u64,
    /// The newest transaction group on the disk.
    pub(crate) newest_txg: u64,
}

/// Whether writes will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only.
    Read,
    /// Reads and writes.
    ReadWrite,
}

/// Why a device could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenFailure {
    /// Nothing is there.
    #[error("it does not exist")]
    Missing,
    /// Another process has it.
    #[error("it is in use by {by}")]
    InUse {
        /// Such as "process 123 (dd)", or "the server of pool tank (process 123)".
        by: String,
    },
    /// A request from before it was closed is still pending.
    #[error("it has not answered earlier requests yet")]
    Hangs,
    /// The record of its pool's legs does not name it as current.
    #[error("it is missing data that other legs of the pool hold")]
    Excluded,
    /// It is neither a file nor a block device.
    #[error("it is neither a file nor a block device")]
    NotADevice,
    /// The system refused.
    #[error("{0}")]
    System(rustix::io::Errno),
}

impl OpenFailure {
    /// The errno for the library.
    fn errno(&self) -> i32 {
        use rustix::io::Errno;
        match self {
            Self::Missing => Errno::NOENT,
            Self::Hangs | Self::Excluded => Errno::NXIO,
            Self::InUse { .. } => Errno::BUSY,
            Self::NotADevice => Errno::NOTBLK,
            Self::System(errno) => *errno,
        }
        .raw_os_error()
    }
}

/// An open device. Dropping it closes it.
pub trait Device: Send + Sync {
    /// Its current properties: it may have grown.
    fn shape(&self) -> Result<Shape, OpenFailure>;

    /// Accepts `io`. Must neither block on the device nor hold a lock while it completes an I/O: the completion may
    /// submit the next one.
    fn submit(&self, io: DeviceIo);
}

/// Opens devices.
pub trait Driver: Send + Sync {
    /// Opens `path` for the device `guid` of the pool.
    fn open(&self, path: &Path, guid: u64, access: Access) -> Result<Arc<dyn Device>, OpenFailure>;

    /// Whether there is a device at `path`, for scans for pools: a test may hide one.
    fn is_there(&self, _: &Path) -> bool {
        true
    }
}

/// Smallest direct I/O on a file, where its file system does not report it.
const DIRECT_FILE_BLOCK: u32 = 4096;

/// Settings of the devices.
#[derive(Clone)]
pub struct DeviceOptions {
    /// An I/O that is slower is completed with an error, and the device counts as failed.
    pub timeout: Duration,
    /// How block devices and files are accessed.
    pub access: file::AccessOptions,
    /// Replaces the built-in driver and can delegate to it: tests inject faults, and other kinds of devices plug in
    /// here.
    pub wrap: Option<Wrap>,
}

/// Wraps the built-in driver.
pub type Wrap = Arc<dyn Fn(Arc<dyn Driver>) -> Arc<dyn Driver> + Send + Sync>;

/// Longer than any healthy disk's own error recovery (typically 7 s on RAID disks), shorter than an initiator's
/// time-out.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(20);

impl Default for DeviceOptions {
    fn default() -> Self {
        Self {
            timeout: TIMEOUT_DEFAULT,
            access: file::AccessOptions::default(),
            wrap: None,
        }
    }
}

impl fmt::Debug for DeviceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceOptions")
            .field("timeout", &self.timeout)
            .field("access", &self.access)
            .field("wrapped", &self.wrap.is_some())
            .finish()
    }
}
