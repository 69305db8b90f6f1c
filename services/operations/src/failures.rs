//! Errors of the engine as failures: a kind for scripts, the chain for people.

use control::failure::chain;
use control::{Failure, FailureKind};
use engine::Pool;
use engine::dataset::{DatasetError, DatasetErrorKind};
use engine::pool::{PoolError, PoolErrorKind};

use super::space;

/// The same as [`dataset`], with the limit that is reached if there is no space.
pub fn dataset_of(pool: &dyn Pool, error: DatasetError) -> Failure {
    let name = error.dataset.clone();
    with_limit(pool, &name, dataset(error))
}

/// Adds the limit that is reached by `name`, or by the dataset above that it is to be in, to a failure for lack of space.
pub fn with_limit(pool: &dyn Pool, name: &str, mut failure: Failure) -> Failure {
    if failure.kind == FailureKind::NoSpace {
        if let Some(limit) = space::reached_limit(pool, name) {
            failure.message = format!("{}: {limit}", failure.message);
        }
    }
    failure
}

/// A dataset operation that failed.
pub fn dataset(error: DatasetError) -> Failure {
    use DatasetErrorKind as Kind;
    if let Kind::Unsupported(missing) = error.kind {
        return crate::capabilities::failure(missing);
    }
    let full = error
        .cause
        .is_some_and(|cause| cause.is(rustix::io::Errno::NOSPC));
    let kind = match &error.kind {
        // A reservation is a property, and does not fit a full pool.
        Kind::Property { .. } if full => FailureKind::NoSpace,
        Kind::Exists | Kind::Conflict { .. } => FailureKind::Exists,
        Kind::NotFound | Kind::ParentMissing | Kind::ParentOfMissing => FailureKind::NotFound,
        Kind::Busy | Kind::HasDependents { .. } | Kind::HasClones | Kind::NotNewest => {
            FailureKind::Busy
        }
        Kind::NotAVolume
        | Kind::NotAFileSystem
        | Kind::NotAClone
        | Kind::ParentUnsuitable
        | Kind::SizeNotMultiple { .. }
        | Kind::BlockSize
        | Kind::LogicalBlock { .. }
        | Kind::Property { .. }
        | Kind::KeyMaterial(_)
        | Kind::NotKeyRoot { .. }
        | Kind::NotEncrypted
        | Kind::KeyUnchangeable
        | Kind::OtherPool
        | Kind::SnapshotTwice
        | Kind::LocationUnsuitable
        | Kind::KeyHoldsIt
        | Kind::KeyOfOrigin
        | Kind::CloneBelowOrigin
        | Kind::BookmarkName
        | Kind::NameTooLong => FailureKind::Usage,
        Kind::NoSpace => FailureKind::NoSpace,
        Kind::KeyWrong => FailureKind::Denied,
        Kind::ReadOnly
        | Kind::KeyMissing
        | Kind::KeyOutdated
        | Kind::LogUnreadable
        | Kind::FileSystemRefused { .. }
        | Kind::Closed => FailureKind::Unavailable,
        Kind::Unsupported(_) => FailureKind::Unsupported,
        Kind::Library => FailureKind::Failed,
    };
    let advice = match &error.kind {
        Kind::ParentMissing => Some("--parents makes them"),
        Kind::HasDependents { .. } => Some("--recursive destroys them too"),
        _ => None,
    };
    let failure = Failure::new(kind, with_library_message(&error, &error.kind, error.cause));
    match advice {
        Some(advice) => failure.advise(advice),
        None => failure,
    }
}

/// A pool operation that failed.
pub fn pool(error: PoolError) -> Failure {
    use PoolErrorKind as Kind;
    if let Kind::Unsupported(missing) = error.kind {
        return crate::capabilities::failure(missing);
    }
    if let Some(failure) = crate::stale_legs::explain(&error) {
        return failure;
    }
    let kind = match &error.kind {
        Kind::Exists => FailureKind::Exists,
        Kind::NotFound | Kind::DeviceMissing { .. } | Kind::NoSuchDevice { .. } => {
            FailureKind::NotFound
        }
        Kind::DeviceInUse { .. }
        | Kind::DeviceInPool { .. }
        | Kind::DeviceActive { .. }
        | Kind::DeviceKept { .. }
        | Kind::DeviceHolds { .. }
        | Kind::Busy
        | Kind::Changed
        | Kind::ActiveElsewhere => FailureKind::Busy,
        Kind::DeviceTooSmall { .. }
        | Kind::DeviceUnusable { .. }
        | Kind::Shape { .. }
        | Kind::Property { .. } => FailureKind::Usage,
        Kind::NoReplicas
        | Kind::LogMissing
        | Kind::MayBeStale(_)
        | Kind::HasRecord(_)
        | Kind::Copies(_)
        | Kind::UnopenedMayBeNewer { .. }
        | Kind::MayMissData(_)
        | Kind::NewestUnreadable { .. } => FailureKind::NeedsConfirmation,
        Kind::Suspended
        | Kind::SuspendedAgain { .. }
        | Kind::FlushOwed { .. }
        | Kind::Waits
        | Kind::Slow
        | Kind::DevicesMissing { .. }
        | Kind::FeatureUnknown { .. }
        | Kind::Damaged
        | Kind::ReadOnly => FailureKind::Unavailable,
        Kind::NoSpace => FailureKind::NoSpace,
        _ => FailureKind::Failed,
    };
    let failure = Failure::new(kind, with_library_message(&error, &error.kind, error.cause));
    match &error.kind {
        Kind::DeviceActive { host, .. } => failure.advise(format!(
            "export or destroy that pool on {host}, or run this command there; erase the device first if that \
             host is gone for good"
        )),
        _ => failure,
    }
}

/// Returns the full error if the library's own message adds information to the error's kind.
fn with_library_message(
    error: &(dyn std::error::Error + 'static),
    kind: &dyn std::fmt::Display,
    cause: Option<engine::error::SystemError>,
) -> String {
    // A specific kind does not need "Invalid argument" after it.
    let says_nothing = kind.to_string().ends_with("library failed");
    match cause {
        Some(_) if says_nothing => chain(error),
        _ => error.to_string(),
    }
}
