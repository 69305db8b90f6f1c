//! What kinds of operations there are.

use super::numbers::{Status, op};

/// Bytes of the answer to an operation that changes something.
pub(super) const CHANGE_BYTES_MAX: usize = 80;

/// Operations that make or end a session, and so stand alone where no session is used.
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

/// Operations of a call that is repeated to another server: they need no client, and change only what was changed already.
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

/// Operations at whose current handle nothing is done: they name another one, keep it, or ask how calls may say who makes them. Those that go
/// on from it check where they come to (RFC 8881, 2.6.3.1).
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

/// Operations that change something. Their answers have less than [`CHANGE_BYTES_MAX`] bytes.
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

/// Operations that only change a file system, and so are refused by one that is shared read-only.
pub(super) const fn changes_files(operation: u32) -> bool {
    changes(operation)
        && !matches!(
            operation,
            op::OPEN | op::OPEN_CONFIRM | op::OPEN_DOWNGRADE | op::CLOSE | op::LOCK | op::LOCKU
        )
}

/// The error of NFS 4.0 in the place of one that it does not know, for objects that are no files.
pub(super) const fn error_without_sessions(operation: u32, status: Status) -> Status {
    match (operation, status) {
        (op::OPEN, Status::WRONG_TYPE) => Status::SYMLINK,
        (_, Status::WRONG_TYPE) => Status::INVAL,
        _ => status,
    }
}

/// Whether something follows the status of an operation.
pub(super) fn has_body(operation: u32, status: Status) -> bool {
    let tells_who = operation == op::SETCLIENTID && status == Status::CLID_INUSE;
    tells_who || status == Status::OK || status == Status::DENIED
}

/// Operations that tell somebody that something is his, or take it from a client whose lease is over.
pub(super) const fn gives_or_takes(operation: u32) -> bool {
    matches!(
        operation,
        op::OPEN | op::LOCK | op::LOCKT | op::RECLAIM_COMPLETE
    )
}
