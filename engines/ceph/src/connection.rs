//! The settings of clients of a cluster, and the errors of a connection in words.

use std::io::{Error, ErrorKind};

use ceph_sys::CephError;
use engine::pool::PoolError;

use crate::errors::{of_pool, shape};

/// Settings of a client that serves a shelf. A cache would acknowledge writes before they are durable. One entry on the
/// blocklist serves the whole shelf, so that breaking a lock adds none. A monitor that does not respond fails a command
/// instead of blocking its thread forever; requests for data have no such limit, because a write that timed out could
/// still be applied. The library writes nothing to the standard error: errors are returned.
pub(crate) const CLIENT_OPTIONS: &[(&str, &str)] = &[
    ("rbd_cache", "false"),
    ("rbd_persistent_cache_mode", "disabled"),
    ("rbd_blocklist_on_break_lock", "false"),
    ("rados_mon_op_timeout", "15"),
    ("client_mount_timeout", CONNECT_SECONDS),
    ("log_to_stderr", "false"),
    ("err_to_stderr", "false"),
];
/// Of a client that only reads entries.
pub(crate) const READER_OPTIONS: &[(&str, &str)] = &[("rados_osd_op_timeout", READ_SECONDS)];
/// How long a connection is attempted.
const CONNECT_SECONDS: &str = "10";
/// The time-out of a read.
const READ_SECONDS: &str = "15";

/// The key is refused.
const DENIED: i32 = 13;

/// Why no connection was made as `user`, for a person.
fn explained(user: &str, error: CephError) -> Option<(ErrorKind, String)> {
    Some(match error {
        CephError::NOT_PERMITTED | CephError(DENIED) => (
            ErrorKind::PermissionDenied,
            format!(
                "the cluster refuses the key of client.{user}, or the keyring has none: check the user and its keyring"
            ),
        ),
        CephError::NOT_FOUND => (
            ErrorKind::NotFound,
            format!(
                "it names no monitor, or no keyring with a key of client.{user}: complete it, or name the keyring"
            ),
        ),
        CephError::TIMED_OUT => (
            ErrorKind::TimedOut,
            format!(
                "no monitor of the cluster responded within {CONNECT_SECONDS} s: check the monitors and the network"
            ),
        ),
        CephError::INVALID => (
            ErrorKind::InvalidData,
            "it is no valid configuration of Ceph: check each line".to_owned(),
        ),
        _ => return None,
    })
}

/// Why no connection was made, as the cause of an error that names the configuration file.
pub(crate) fn cause(user: &str, error: CephError) -> Error {
    match explained(user, error) {
        Some((kind, message)) => Error::new(kind, message),
        None => Error::from_raw_os_error(error.0),
    }
}

/// Why a request that only reads failed.
pub(crate) fn of_read(error: CephError) -> Error {
    match error {
        CephError::TIMED_OUT => Error::new(
            ErrorKind::TimedOut,
            format!(
                "a disk of the cluster did not respond within {READ_SECONDS} s: `ceph health detail` shows why"
            ),
        ),
        error => Error::from_raw_os_error(error.0),
    }
}

/// Why no connection was made for the shelf `name`.
pub(crate) fn of_shelf(doing: &'static str, name: &str, user: &str, error: CephError) -> PoolError {
    match explained(user, error) {
        Some((_, message)) => shape(doing, name, format!("the file of the cluster: {message}")),
        None => of_pool(doing, name, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_of_a_connection_names_the_part_to_check() {
        for (code, kind, part) in [
            (
                13,
                ErrorKind::PermissionDenied,
                "refuses the key of client.bulkhead",
            ),
            (1, ErrorKind::PermissionDenied, "keyring"),
            (
                2,
                ErrorKind::NotFound,
                "no keyring with a key of client.bulkhead",
            ),
            (110, ErrorKind::TimedOut, "within 10 s"),
            (22, ErrorKind::InvalidData, "configuration"),
        ] {
            let error = cause("bulkhead", CephError(code));
            assert_eq!(error.kind(), kind, "{code}");
            assert!(error.to_string().contains(part), "{error}");
        }
        assert_eq!(cause("a", CephError(5)).raw_os_error(), Some(5));
    }
}
