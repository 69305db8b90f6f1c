//! Errors of pools: a kind to match on, and a message with the recommended action.

use std::path::PathBuf;

use super::ImportOptions;
use super::copies::Conflict;
use super::legs::{Doubt, Legs, Verdict};
use crate::error::{SystemError, errno};
use crate::unsupported::Unsupported;

/// The kind of a failed pool operation, for callers to match on. The message contains the
/// recommended action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolErrorKind {
    /// The name exists in this process.
    #[error("a pool of this name is open already: choose another name")]
    Exists,
    /// No such pool in this process.
    #[error("no such pool is open here")]
    NotFound,
    /// A device does not exist.
    #[error("device {} does not exist", path.display())]
    DeviceMissing {
        /// Which.
        path: PathBuf,
    },
    /// A device is used by another process, or twice in one command.
    #[error("device {} is in use by {by}: take it out of use there first, or choose another", path.display())]
    DeviceInUse {
        /// Which.
        path: PathBuf,
        /// The holder: an open pool, or a process.
        by: String,
    },
    /// A device belongs to a pool.
    #[error(
        "device {} belongs to pool {pool} ({state}): destroy or detach it there, or say that it \
         may be overwritten", path.display()
    )]
    DeviceInPool {
        /// Which.
        path: PathBuf,
        /// The pool's name.
        pool: String,
        /// "active", "exported", ...
        state: String,
    },
    /// A device belongs to a pool that another host has not released: no confirmation overrides
    /// that.
    #[error(
        "device {} belongs to pool {pool}, which {host} has not exported and may still use",
        path.display()
    )]
    DeviceActive {
        /// Which.
        path: PathBuf,
        /// The pool's name.
        pool: Box<str>,
        /// The last user.
        host: Box<str>,
    },
    /// A label of a spare or cache does not name the pool.
    #[error(
        "device {} is, or was, the {word} of a pool: remove it there, or specify that it may be \
         overwritten", path.display()
    )]
    DeviceKept {
        /// Which.
        path: PathBuf,
        /// "spare" or "cache".
        word: &'static str,
    },
    /// A device has contents that are not of ZFS.
    #[error(
        "device {} holds {what}, which would be lost: specify that it may be overwritten", path.display()
    )]
    DeviceHolds {
        /// Which.
        path: PathBuf,
        /// The contents.
        what: &'static str,
    },
    /// A device is smaller than ZFS allows, or smaller than the one to replace.
    #[error("device {} is too small: it needs {needed}", path.display())]
    DeviceTooSmall {
        /// Which.
        path: PathBuf,
        /// The required size.
        needed: String,
    },
    /// A device cannot be opened or used.
    #[error("device {} cannot be used: {why}", path.display())]
    DeviceUnusable {
        /// Which.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The pool has no such device.
    #[error("the pool has no device {device}: `status` lists them")]
    NoSuchDevice {
        /// As given.
        device: String,
    },
    /// The last copy of some data would be lost.
    #[error("the pool would lose data: no other device holds a valid copy")]
    NoReplicas,
    /// The pool's shape does not allow it.
    #[error("not possible with this pool: {why}")]
    Shape {
        /// The reason.
        why: String,
    },
    /// No such property, or it cannot be set, or not to this.
    #[error("property {property}: {why}")]
    Property {
        /// Name.
        property: String,
        /// The reason.
        why: String,
    },
    /// Volumes are open, or an operation is active.
    #[error("the pool is busy: close its volumes and let running operations finish first")]
    Busy,
    /// All devices failed; I/O is blocked.
    #[error("the pool is suspended: bring its devices back, then clear it")]
    Suspended,
    /// It was resumed, and suspended again.
    #[error(
        "the pool was resumed and suspended again, because its devices still fail{}: find the cause, then clear it once \
         more", causes(.failed)
    )]
    SuspendedAgain {
        /// The devices that fail, each with its latest error.
        failed: Vec<(PathBuf, i32)>,
    },
    /// Devices that the pool needs have not confirmed whether acknowledged writes are durable.
    #[error(
        "the pool is suspended: {} has not confirmed whether its writes are durable, and no other device is known to \
         hold them. When it responds again the pool resumes by itself: check it, its cable and its controller",
        .paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    FlushOwed {
        /// Which.
        paths: Vec<PathBuf>,
    },
    /// Missing devices might hold writes that the available ones do not, and there is no proof that they do not.
    #[error(
        "acknowledged writes may be missing from the available devices of the pool: only {} may hold them",
        .0.missing_paths()
    )]
    MayMissData(Box<Doubt>),
    /// Earlier requests to its devices are still pending.
    #[error(
        "earlier requests to its devices are still pending: the pool resumes by itself when they \
         are done, and `bulkhead pool status` shows the devices that do not respond; try again shortly"
    )]
    Waits,
    /// Its devices respond, but too slowly to determine the state in time.
    #[error("the devices of the pool respond very slowly: try again shortly")]
    Slow,
    /// Another host uses the pool.
    #[error("the pool is in use by another host: stop it there first")]
    ActiveElsewhere,
    /// Devices are missing so that the pool cannot work.
    #[error("too many devices of the pool are missing: {missing}")]
    DevicesMissing {
        /// Their former paths.
        missing: String,
    },
    /// The present devices might be older than the missing ones.
    #[error(
        "{} missing and not marked as failed, so that the present devices may be older: its newest \
         transaction group is {}", match .0.missing.len() {
            1 => format!("device {} is", .0.missing_paths()),
            _ => format!("devices {} are", .0.missing_paths()),
        }, .0.newest_txg
    )]
    MayBeStale(Box<Doubt>),
    /// Copies of its devices are attached too.
    #[error(
        "several devices identify themselves as the same one of the pool, with different contents"
    )]
    Copies(Box<[Conflict]>),
    /// Only the leg record determines which legs hold all data.
    #[error(
        "the pool has legs, and only their record, of number {0}, determines which of them hold all data: open it with the record"
    )]
    HasRecord(u64),
    /// A device with a valid label cannot be opened, and might be newer than the present ones.
    #[error("{} cannot be opened: {why}; the data on the other devices may be older", .path.display())]
    UnopenedMayBeNewer {
        /// The devices that may be newer.
        doubt: Box<Doubt>,
        /// The device.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Its disks have lost writes that they had acknowledged. An older state can be read.
    #[error(
        "the newest transaction groups cannot be read: the disks lost them after they had \
         acknowledged the writes"
    )]
    NewestUnreadable {
        /// The newest transaction group.
        newest_txg: u64,
        /// When that was written, in seconds since 1970.
        newest_time_s: u64,
        /// When the state that can be read was written.
        readable_time_s: u64,
    },
    /// Another process has written to it since its labels were read.
    #[error("another process or head has just written to the pool")]
    Changed,
    /// A log device is missing.
    #[error(
        "log devices are missing: bring them back. If they are lost for good, `bulkhead pool confirm POOL \
         --missing-logs-are-lost` permits to open the pool without them; unless it was exported, the last seconds of \
         synchronous writes are lost"
    )]
    LogMissing,
    /// The pool uses features that this library does not support.
    #[error("the pool uses features that this version does not know: {features}")]
    FeatureUnknown {
        /// Their names.
        features: String,
    },
    /// The data that describes the pool is damaged.
    #[error("the pool's own records are damaged")]
    Damaged,
    /// The pool is full.
    #[error("the pool is full")]
    NoSpace,
    /// The pool is open for reading only.
    #[error("the pool is open for reading only")]
    ReadOnly,
    /// The operation was active or complete already, or there is nothing to do.
    #[error("nothing to do: {why}")]
    NothingToDo {
        /// The reason.
        why: String,
    },
    /// The engine has no such capability.
    #[error("{0}")]
    Unsupported(Unsupported),
    /// Any other error.
    #[error("the storage library failed")]
    Library,
}

/// A pool operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing} pool {pool}: {kind}")]
pub struct PoolError {
    /// The step: "create", "import", "attach a device to", ...
    pub doing: &'static str,
    /// The pool's name.
    pub pool: String,
    /// The kind to match on.
    pub kind: PoolErrorKind,
    /// The library's error.
    #[source]
    pub cause: Option<SystemError>,
}

impl PoolErrorKind {
    /// Returns the error that prevents an import of a pool with such legs.
    pub fn against(legs: &Legs, options: &ImportOptions) -> Option<Self> {
        match legs.judge(&options.evidence()) {
            Verdict::Refuse(doubt) => Some(Self::MayBeStale(Box::new(doubt))),
            Verdict::NeedsRecord(number) => Some(Self::HasRecord(number)),
            Verdict::Import(_) | Verdict::Wait => None,
        }
    }
}

impl PoolError {
    /// Of the step `doing`.
    pub fn new(doing: &'static str, pool: &str, kind: PoolErrorKind) -> Self {
        Self {
            doing,
            pool: pool.to_owned(),
            kind,
            cause: None,
        }
    }

    /// Creates the error with the engine's error as its cause.
    pub fn because(
        doing: &'static str,
        pool: &str,
        kind: PoolErrorKind,
        cause: SystemError,
    ) -> Self {
        Self {
            cause: Some(cause),
            ..Self::new(doing, pool, kind)
        }
    }

    /// With the meaning an errno has in most pool operations.
    pub fn common(doing: &'static str, pool: &str, cause: SystemError) -> Self {
        use rustix::io::Errno;
        let kind = match errno(cause.0) {
            Errno::NOENT => PoolErrorKind::NotFound,
            Errno::EXIST => PoolErrorKind::Exists,
            Errno::BUSY => PoolErrorKind::Busy,
            Errno::NOSPC | Errno::DQUOT => PoolErrorKind::NoSpace,
            Errno::ROFS => PoolErrorKind::ReadOnly,
            Errno::AGAIN => PoolErrorKind::Suspended,
            Errno::REMOTEIO => PoolErrorKind::ActiveElsewhere,
            _ => PoolErrorKind::Library,
        };
        Self::because(doing, pool, kind, cause)
    }
}

/// Devices with their errors, in parentheses.
fn causes(failed: &[(PathBuf, i32)]) -> String {
    let cause = |(path, error): &(PathBuf, i32)| {
        let error = std::io::Error::from_raw_os_error(*error);
        format!("{}: {error}", path.display())
    };
    match failed {
        [] => String::new(),
        failed => format!(
            " ({})",
            failed.iter().map(cause).collect::<Vec<_>>().join(", ")
        ),
    }
}
