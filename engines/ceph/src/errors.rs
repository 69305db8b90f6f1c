//! The errors of Ceph as those of datasets, pools and devices.

use block_device::{DeviceError, ErrorKind, Extent};
use ceph_sys::CephError;
use engine::dataset::{DatasetError, DatasetErrorKind};
use engine::error::SystemError;
use engine::pool::{PoolError, PoolErrorKind};

/// A dataset operation that failed in the cluster.
pub(crate) fn of_dataset(doing: &'static str, dataset: &str, error: CephError) -> DatasetError {
    let kind = match error {
        CephError::BLOCKLISTED | CephError::CANCELED => DatasetErrorKind::Closed,
        _ => return DatasetError::common(doing, dataset, SystemError(error.0)),
    };
    DatasetError::because(doing, dataset, kind, SystemError(error.0))
}

/// A pool operation that failed in the cluster.
pub(crate) fn of_pool(doing: &'static str, pool: &str, error: CephError) -> PoolError {
    let kind = match error {
        CephError::BLOCKLISTED => PoolErrorKind::ActiveElsewhere,
        CephError::CANCELED => PoolErrorKind::Changed,
        _ => return PoolError::common(doing, pool, SystemError(error.0)),
    };
    PoolError::because(doing, pool, kind, SystemError(error.0))
}

/// A refusal with a reason.
pub(crate) fn shape(doing: &'static str, pool: &str, why: impl Into<String>) -> PoolError {
    PoolError::new(doing, pool, PoolErrorKind::Shape { why: why.into() })
}

/// Whether an error of a request for data means that the shelf has another owner: this client is on the blocklist, or
/// the lock of the image was broken.
pub(crate) fn is_loss(error: CephError) -> bool {
    matches!(error, CephError::BLOCKLISTED | CephError::READ_ONLY)
}

/// A request for data that failed in the cluster.
pub(crate) fn of_device(doing: &'static str, extent: Extent, error: CephError) -> DeviceError {
    const NO_SPACE: i32 = 28;
    const QUOTA: i32 = 122;
    const IO: i32 = 5;
    let kind = match error.0 {
        _ if is_loss(error) => ErrorKind::Gone,
        NO_SPACE | QUOTA => ErrorKind::NoSpace,
        IO => ErrorKind::Unreadable,
        _ => ErrorKind::Failed,
    };
    DeviceError {
        cause: Some(Box::new(error)),
        ..DeviceError::new(kind, doing, extent)
    }
}

/// Why a reservation is refused.
pub(crate) const NO_ROOM: &str = "there is not enough space for it";
/// ENOSPC.
const NO_SPACE: SystemError = SystemError(28);

/// Why there is no information.
pub(crate) enum Missing {
    Kind(DatasetErrorKind),
    Cluster(CephError),
}

impl From<CephError> for Missing {
    fn from(error: CephError) -> Self {
        Self::Cluster(error)
    }
}

/// Adds the cause to the refusal of a reservation.
pub(crate) fn with_cause(
    doing: &'static str,
    dataset: &str,
    kind: DatasetErrorKind,
) -> DatasetError {
    let is_full = matches!(&kind, DatasetErrorKind::Property { why, .. } if *why == NO_ROOM);
    DatasetError {
        cause: is_full.then_some(NO_SPACE),
        ..DatasetError::new(doing, dataset, kind)
    }
}

/// The error of an operation about one dataset.
pub(crate) fn refused(doing: &'static str, dataset: &str) -> impl Fn(Missing) -> DatasetError {
    move |missing| match missing {
        Missing::Kind(kind) => with_cause(doing, dataset, kind),
        Missing::Cluster(error) => of_dataset(doing, dataset, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_108_and_a_broken_lock_are_gone_and_never_an_error_for_a_client() {
        for (code, kind) in [
            (108, ErrorKind::Gone),
            (30, ErrorKind::Gone),
            (28, ErrorKind::NoSpace),
            (122, ErrorKind::NoSpace),
            (5, ErrorKind::Unreadable),
            (110, ErrorKind::Failed),
        ] {
            let error = of_device("write", Extent::new(0, 512), CephError(code));
            assert_eq!(error.kind, kind, "{code}");
        }
    }
}
