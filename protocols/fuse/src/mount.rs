//! The mount itself.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

const DEVICE: &str = "/dev/fuse";
/// A folder for each mount of FUSE, by the minor number of its device. It is empty where nobody has mounted `fusectl`.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Why it is not mounted.
#[derive(Debug, thiserror::Error)]
#[error("mount at {}: {kind}", at.display())]
pub struct MountError {
    /// Where.
    pub at: PathBuf,
    /// What a caller matches on.
    pub kind: MountErrorKind,
}

/// What a caller matches on.
#[derive(Debug, thiserror::Error)]
pub enum MountErrorKind {
    /// The kernel has no FUSE, or this process does not see its device.
    #[error("there is no {DEVICE}")]
    NoDevice,
    /// It is not there.
    #[error("there is no such directory")]
    NotFound,
    /// It is something else.
    #[error("it is no directory")]
    NotDirectory,
    /// Files would be hidden.
    #[error("the directory is not empty")]
    NotEmpty,
    /// Something is mounted there.
    #[error("something is mounted there already")]
    InUse,
    /// What was mounted there has nobody who serves it.
    #[error("the process that served what is mounted there is gone")]
    Abandoned,
    /// Only root may mount.
    #[error("it is not permitted")]
    Denied,
    /// Anything else.
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

/// How it is mounted.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Nothing can be changed.
    pub read_only: bool,
    /// The permissions of files are their modes, and nothing else.
    pub has_only_modes: bool,
}

/// A mount. It stays when this is dropped: see [`Mount::unmount`].
#[derive(Debug)]
pub struct Mount {
    at: PathBuf,
    /// None if the system does not tell: then its place is all that is known of it.
    mark: Option<Mark>,
}

/// What tells one mount from others that were made, or will be, at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// The kernel gives a number again when its mount is gone.
    mount: u64,
    /// It is not given again as long as the file system is in use, mounted or not.
    device_minor: u32,
}

impl Mark {
    /// Of the mount that a path leads to. Asks nobody who serves a file system.
    fn of(at: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(at, flags, Mode::empty()).ok()?;
        let told = format!("/proc/self/fdinfo/{}", opened.as_raw_fd());
        let mount = mount_of(&std::fs::read_to_string(told).ok()?)?;
        // Paths need not be UTF-8.
        let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
        let device_minor = device_minor_of(&String::from_utf8_lossy(&mounts), mount)?;
        Some(Self {
            mount,
            device_minor,
        })
    }
}

/// The mount of a descriptor, in what `/proc/PID/fdinfo` tells of it.
fn mount_of(told: &str) -> Option<u64> {
    let mut lines = told.lines();
    let number = lines.find_map(|line| line.strip_prefix("mnt_id:"))?;
    number.trim().parse().ok()
}

/// The device of a mount, in what `/proc/PID/mountinfo` tells: number, parent's number, `major:minor`, and more.
fn device_minor_of(mounts: &str, mount: u64) -> Option<u32> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let is_it = words.next()?.parse() == Ok(mount);
        let (_, minor) = words.nth(1)?.split_once(':')?;
        is_it.then(|| minor.parse().ok())?
    })
}

/// Looks whether something can be mounted at `at`, and by this process.
pub fn check_place(at: &Path) -> Result<(), MountError> {
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

/// Mounts at `at` what will be served by the descriptor that is returned. `source` is what lists of mounts tell of it. Programs with set-user-id and
/// devices that are in it are not obeyed: others may have written them.
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
    let mark = Mark::of(&at);
    Ok((Mount { at, mark }, device))
}

impl Mount {
    /// Where.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Whether its place leads to it. Others may have taken it away from there, or mounted something over it.
    fn is_there(&self) -> bool {
        self.mark.is_none() || Mark::of(&self.at) == self.mark
    }

    /// Ends it, if nobody uses it; whether it is at its place no more, and nobody uses it. Whatever else is mounted there stays.
    pub fn unmount(&self) -> io::Result<bool> {
        if !self.is_there() {
            return Ok(false);
        }
        match rustix::mount::unmount(&self.at, UnmountFlags::NOFOLLOW) {
            Ok(()) => Ok(true),
            // Somebody else has unmounted it.
            Err(Errno::INVAL) => Ok(true),
            Err(Errno::BUSY) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends it whoever uses it, and wherever it is now: they get errors.
    pub fn unmount_by_force(&self) -> io::Result<()> {
        let unmounted = match self.is_there() {
            true => self.detach(),
            false => Ok(()),
        };
        if let Some(mark) = self.mark {
            let abort = Path::new(CONNECTIONS).join(format!("{}/abort", mark.device_minor));
            // It is not there if the mount has ended. Else the connection ends with this process.
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
    fn a_mount_is_known_by_its_number_and_its_device() {
        let told = "pos:\t0\nflags:\t012100000\nmnt_id:\t412\nino:\t1\n";
        assert_eq!(mount_of(told), Some(412));
        assert_eq!(mount_of("pos:\t0\n"), None);
        let mounts = "\
            41 28 0:38 / /mnt rw - tmpfs tmpfs rw\n\
            412 41 0:57 / /mnt/a\\040b rw,nosuid,nodev - fuse.bulkhead tank/a rw,user_id=0\n\
            413 412 0:58 / /mnt/a\\040b rw - tmpfs tmpfs rw\n";
        assert_eq!(device_minor_of(mounts, 412), Some(57));
        assert_eq!(device_minor_of(mounts, 413), Some(58));
        assert_eq!(device_minor_of(mounts, 12), None);
    }

    /// Whatever was mounted there before or since is another one.
    #[test]
    fn what_is_mounted_elsewhere_has_another_mark() {
        let (root, processes) = (Mark::of(Path::new("/")), Mark::of(Path::new("/proc")));
        assert!(root.is_some() && processes.is_some());
        assert_ne!(root, processes);
        assert_eq!(Mark::of(Path::new("/proc/self/no such place")), None);
        let foreign = Mount {
            at: "/proc".into(),
            mark: root,
        };
        assert!(!foreign.is_there());
        assert_eq!(foreign.unmount().ok(), Some(false), "it is not ours to end");
        assert!(Path::new("/proc/self").exists());
    }
}
