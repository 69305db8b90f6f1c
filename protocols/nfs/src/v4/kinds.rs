//! Classes of operations.

use super::numbers::{Status, op};

/// Maximum bytes of the result of an operation that changes state.
pub(super) const CHANGE_BYTES_MAX: usize = 80;

/// Operations that create or destroy a session, and so are alone in a compound without a session.
pub(super) const fn needs_no_session(operation: u32) -> bool {
    matches!(
        operation,
        op::EXCHANGE_ID
            | op::CREATE_SESSION
            | op::DESTROY_SESSION
            | op::BIND_CONN_TO_SESSION
            | op::DESTROY_CLIENTID
    )
}

/// Operations of a call that is retransmitted to another server: they need no client and only
/// repeat a change.
pub(super) const fn may_be_repeated(operation: u32) -> bool {
    matches!(
        operation,
        op::PUTFH
            | op::PUTROOTFH
            | op::SAVEFH
            | op::RESTOREFH
            | op::GETFH
            | op::LOOKUP
            | op::LOOKUPP
            | op::GETATTR
            | op::ACCESS
            | op::CREATE
            | op::REMOVE
            | op::RENAME
            | op::LINK
            | op::OPEN
            | op::SETATTR
            | op::SETXATTR
            | op::REMOVEXATTR
    )
}

/// Operations that do not use the current filehandle: they replace it, preserve it, or query
/// security flavors. A following operation checks its own target (RFC 8881, 2.6.3.1).
pub(super) const fn leads_elsewhere(operation: u32) -> bool {
    matches!(
        operation,
        op::PUTFH
            | op::PUTROOTFH
            | op::PUTPUBFH
            | op::SAVEFH
            | op::RESTOREFH
            | op::LOOKUP
            | op::LOOKUPP
            | op::SECINFO
            | op::SECINFO_NO_NAME
    )
}

/// Operations that change state. Their results have less than [`CHANGE_BYTES_MAX`] bytes.
pub(super) const fn changes(operation: u32) -> bool {
    matches!(
        operation,
        op::CREATE
            | op::REMOVE
            | op::RENAME
            | op::LINK
            | op::SETATTR
            | op::OPEN
            | op::OPEN_CONFIRM
            | op::OPEN_DOWNGRADE
            | op::CLOSE
            | op::LOCK
            | op::LOCKU
            | op::WRITE
            | op::COPY
            | op::CLONE
            | op::ALLOCATE
            | op::DEALLOCATE
            | op::SETXATTR
            | op::REMOVEXATTR
    )
}

/// Operations that only change a file system, and so are refused on a read-only share.
pub(super) const fn changes_files(operation: u32) -> bool {
    changes(operation)
        && !matches!(
            operation,
            op::OPEN | op::OPEN_CONFIRM | op::OPEN_DOWNGRADE | op::CLOSE | op::LOCK | op::LOCKU
        )
}

/// Maps an error to one of NFS 4.0, for objects that are not regular files.
pub(super) const fn error_without_sessions(operation: u32, status: Status) -> Status {
    match (operation, status) {
        (op::OPEN, Status::WRONG_TYPE) => Status::SYMLINK,
        (_, Status::WRONG_TYPE) => Status::INVAL,
        _ => status,
    }
}

/// Whether results follow the status of an operation.
pub(super) fn has_body(operation: u32, status: Status) -> bool {
    let tells_who = operation == op::SETCLIENTID && status == Status::CLID_INUSE;
    tells_who || status == Status::OK || status == Status::DENIED
}

/// Operations that grant state, or remove state of a client with an expired lease.
pub(super) const fn gives_or_takes(operation: u32) -> bool {
    matches!(
        operation,
        op::OPEN | op::LOCK | op::LOCKT | op::RECLAIM_COMPLETE
    )
}
