//! The mount itself.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

const DEVICE: &str = "/dev/fuse";
/// Contains a directory for each FUSE mount, named by the minor number of its device. Empty if
/// `fusectl` is not mounted.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Why the mount failed.
#[derive(Debug, thiserror::Error)]
#[error("mount at {}: {kind}", at.display())]
pub struct MountError {
    /// The mount point.
    pub at: PathBuf,
    /// The kind of the error.
    pub kind: MountErrorKind,
}

/// The kind of a mount error.
#[derive(Debug, thiserror::Error)]
pub enum MountErrorKind {
    /// The kernel has no FUSE, or its device is not visible to this process.
    #[error("there is no {DEVICE}")]
    NoDevice,
    /// It does not exist.
    #[error("there is no such directory")]
    NotFound,
    /// It is not a directory.
    #[error("it is no directory")]
    NotDirectory,
    /// Its files would be hidden.
    #[error("the directory is not empty")]
    NotEmpty,
    /// Another file system is mounted there.
    #[error("a file system is mounted there already")]
    InUse,
    /// The process that served the mounted file system has terminated.
    #[error("the process that served the file system mounted there is gone")]
    Abandoned,
    /// Only root may mount.
    #[error("it is not permitted")]
    Denied,
    /// Any other error.
    #[error("{0}")]
    System(#[source] io::Error),
}

impl From<Errno> for MountErrorKind {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT => Self::NotFound,
            Errno::NOTDIR => Self::NotDirectory,
            Errno::NOTCONN => Self::Abandoned,
            Errno::PERM | Errno::ACCESS => Self::Denied,
            Errno::BUSY => Self::InUse,
            other => Self::System(other.into()),
        }
    }
}

/// Mount options.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The mount is read-only.
    pub read_only: bool,
    /// The mode alone determines the permissions of a file.
    pub has_only_modes: bool,
}

/// A mount. It persists when this is dropped: see [`Mount::unmount`].
#[derive(Debug)]
pub struct Mount {
    at: PathBuf,
    /// `None` if the system does not provide it: the mount is then identified by its path alone.
    mark: Option<MountId>,
}

/// Identifies a mount among earlier and later mounts at the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MountId {
    /// The mount ID, which the kernel reuses after an unmount.
    mount: u64,
    /// Not reused while the file system is in use, mounted or not.
    device_minor: u32,
}

impl MountId {
    /// Returns the mark of the mount that contains a path, without a request to a file system
    /// server.
    fn of(at: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(at, flags, Mode::empty()).ok()?;
        let stored = format!("/proc/self/fdinfo/{}", opened.as_raw_fd());
        let mount = mount_of(&std::fs::read_to_string(stored).ok()?)?;
        // Paths need not be UTF-8.
        let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
        let device_minor = device_minor_of(&String::from_utf8_lossy(&mounts), mount)?;
        Some(Self {
            mount,
            device_minor,
        })
    }
}

/// Returns the mount ID in the text of `/proc/PID/fdinfo`.
fn mount_of(stored: &str) -> Option<u64> {
    let mut lines = stored.lines();
    let number = lines.find_map(|line| line.strip_prefix("mnt_id:"))?;
    number.trim().parse().ok()
}

/// Returns the device of a mount in the text of `/proc/PID/mountinfo`: mount ID, parent ID,
/// `major:minor`, and more.
fn device_minor_of(mounts: &str, mount: u64) -> Option<u32> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let is_it = words.next()?.parse() == Ok(mount);
        let (_, minor) = words.nth(1)?.split_once(':')?;
        is_it.then(|| minor.parse().ok())?
    })
}

/// Checks that this process can mount at `at`.
pub fn check_mount_point(at: &Path) -> Result<(), MountError> {
    let checked = check_directory(at).and_then(|()| open_device().map(drop));
    checked.map_err(|kind| MountError {
        at: at.to_owned(),
        kind,
    })
}

fn check_directory(at: &Path) -> Result<(), MountErrorKind> {
    let flags = rustix::fs::AtFlags::empty();
    let found = rustix::fs::statx(rustix::fs::CWD, at, flags, StatxFlags::TYPE)?;
    if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(MountErrorKind::InUse);
    }
    let mut entries =
        std::fs::read_dir(at).map_err(|error| match Errno::from_io_error(&error) {
            Some(error) => error.into(),
            None => MountErrorKind::System(error),
        })?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(MountErrorKind::NotEmpty),
    }
}

fn open_device() -> Result<OwnedFd, MountErrorKind> {
    let opened = rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    opened.map_err(|error| match error {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => MountErrorKind::NoDevice,
        error => error.into(),
    })
}

/// Mounts at `at`; the returned descriptor must then be served. `source` is shown in lists of
/// mounts. Set-user-id binaries and device nodes are disabled, because clients may have created
/// them.
pub fn mount(source: &str, at: &Path, how: Options) -> Result<(Mount, OwnedFd), MountError> {
    let failed = |kind| MountError {
        at: at.to_owned(),
        kind,
    };
    let at = at.canonicalize().map_err(|error| {
        let errno = Errno::from_io_error(&error);
        failed(errno.map_or(MountErrorKind::System(error), MountErrorKind::from))
    })?;
    let device = open_device().map_err(failed)?;
    let checks = match how.has_only_modes {
        true => ",default_permissions",
        false => "",
    };
    let options = format!(
        "fd={},rootmode=40000,user_id={},group_id={},allow_other{checks}",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let options = CString::new(options).expect("digits and letters");
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, how.read_only);
    rustix::mount::mount(source, &at, "fuse.bulkhead", flags, &*options)
        .map_err(|error| failed(error.into()))?;
    let mark = MountId::of(&at);
    Ok((Mount { at, mark }, device))
}

impl Mount {
    /// The mount point.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Whether it is still mounted at its path. It may have been moved, or covered by another
    /// mount.
    fn is_mounted(&self) -> bool {
        self.mark.is_none() || MountId::of(&self.at) == self.mark
    }

    /// Unmounts it unless it is busy. Returns whether it is unmounted. Other mounts at the path
    /// remain.
    pub fn unmount(&self) -> io::Result<bool> {
        if !self.is_mounted() {
            return Ok(false);
        }
        match rustix::mount::unmount(&self.at, UnmountFlags::NOFOLLOW) {
            Ok(()) => Ok(true),
            // It was unmounted concurrently.
            Err(Errno::INVAL) => Ok(true),
            Err(Errno::BUSY) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Unmounts it although it may be busy or moved: processes that use it get errors.
    pub fn force_unmount(&self) -> io::Result<()> {
        let unmounted = match self.is_mounted() {
            true => self.detach(),
            false => Ok(()),
        };
        if let Some(mark) = self.mark {
            let abort = Path::new(CONNECTIONS).join(format!("{}/abort", mark.device_minor));
            // The file is missing after the unmount. Otherwise the connection is closed when this
            // process exits.
            let _ = std::fs::write(abort, "1");
        }
        unmounted
    }

    fn detach(&self) -> io::Result<()> {
        let flags = UnmountFlags::NOFOLLOW | UnmountFlags::FORCE | UnmountFlags::DETACH;
        match rustix::mount::unmount(&self.at, flags) {
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_is_identified_by_mount_id_and_device() {
        let stored = "pos:\t0\nflags:\t012100000\nmnt_id:\t412\nino:\t1\n";
        assert_eq!(mount_of(stored), Some(412));
        assert_eq!(mount_of("pos:\t0\n"), None);
        let mounts = "\
            41 28 0:38 / /mnt rw - tmpfs tmpfs rw\n\
            412 41 0:57 / /mnt/a\\040b rw,nosuid,nodev - fuse.bulkhead tank/a rw,user_id=0\n\
            413 412 0:58 / /mnt/a\\040b rw - tmpfs tmpfs rw\n";
        assert_eq!(device_minor_of(mounts, 412), Some(57));
        assert_eq!(device_minor_of(mounts, 413), Some(58));
        assert_eq!(device_minor_of(mounts, 12), None);
    }

    /// Mounts before and after it at the same path have other marks.
    #[test]
    fn other_mount_has_a_different_mark() {
        let (root, processes) = (MountId::of(Path::new("/")), MountId::of(Path::new("/proc")));
        assert!(root.is_some() && processes.is_some());
        assert_ne!(root, processes);
        assert_eq!(MountId::of(Path::new("/proc/self/no such place")), None);
        let foreign = Mount {
            at: "/proc".into(),
            mark: root,
        };
        assert!(!foreign.is_mounted());
        assert_eq!(foreign.unmount().ok(), Some(false), "it is not ours to end");
        assert!(Path::new("/proc/self").exists());
    }
}
