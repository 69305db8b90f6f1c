//! The mount itself.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

const DEVICE: &str = "/dev/fuse";

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
    Ok((Mount { at }, device))
}

impl Mount {
    /// Where.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Ends it, if nobody uses it; whether it has ended.
    pub fn unmount(&self) -> io::Result<bool> {
        match rustix::mount::unmount(&self.at, UnmountFlags::NOFOLLOW) {
            Ok(()) => Ok(true),
            // Somebody else has unmounted it.
            Err(Errno::INVAL) => Ok(true),
            Err(Errno::BUSY) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends it whoever uses it: they get errors.
    pub fn unmount_by_force(&self) -> io::Result<()> {
        let flags = UnmountFlags::NOFOLLOW | UnmountFlags::FORCE | UnmountFlags::DETACH;
        match rustix::mount::unmount(&self.at, flags) {
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
