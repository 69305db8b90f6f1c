//! Why a call was refused or failed.

/// The reason why an operation failed. Each has a counterpart in NFS and in `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FileError {
    /// The node does not exist any more (`ESTALE`).
    #[error("no such object any more")]
    Stale,
    /// The name does not exist (`ENOENT`).
    #[error("no such name")]
    NotFound,
    /// The name exists (`EEXIST`).
    #[error("the name is taken")]
    Exists,
    /// It is not a directory (`ENOTDIR`).
    #[error("no directory")]
    NotDirectory,
    /// It is a directory (`EISDIR`).
    #[error("a directory")]
    IsDirectory,
    /// The operation is not possible for an object of this type, such as a read of a socket (`EINVAL`).
    #[error("the wrong kind of object")]
    WrongType,
    /// The directory is not empty (`ENOTEMPTY`).
    #[error("the directory is not empty")]
    NotEmpty,
    /// The permissions do not allow it (`EACCES`).
    #[error("access denied")]
    Access,
    /// Only the owner or root may do it (`EPERM`).
    #[error("not permitted")]
    NotPermitted,
    /// The arguments are inconsistent, such as a directory to be moved into itself (`EINVAL`).
    #[error("invalid")]
    Invalid,
    /// The name is invalid: it is empty, `.` or `..`, or contains a `/`, a NUL, or characters that the file system
    /// refuses (`EINVAL`).
    #[error("no possible name")]
    BadName,
    /// The name is too long (`ENAMETOOLONG`).
    #[error("the name is too long")]
    NameTooLong,
    /// The directory has no such position (`EINVAL`).
    #[error("no such position in the directory")]
    BadCookie,
    /// The guard of a change failed: the object was changed concurrently.
    #[error("the object has changed")]
    NotSame,
    /// The file would be too large (`EFBIG`).
    #[error("the file is too large")]
    TooLarge,
    /// There is no space (`ENOSPC`).
    #[error("no space")]
    NoSpace,
    /// A quota is exceeded (`EDQUOT`).
    #[error("the quota is used up")]
    Quota,
    /// The file system is read-only (`EROFS`).
    #[error("read-only")]
    ReadOnly,
    /// The object has too many names (`EMLINK`).
    #[error("too many links")]
    TooManyLinks,
    /// The directory assigns its project to its entries, and the object has another project (`EXDEV`).
    #[error("of another project than the directory")]
    OtherProject,
    /// The offset is beyond the end (`ENXIO`).
    #[error("nothing there")]
    BeyondEnd,
    /// The file system does not support it (`EOPNOTSUPP`).
    #[error("not supported")]
    Unsupported,
    /// There is no such extended attribute (`ENODATA`).
    #[error("no such extended attribute")]
    NoExtended,
    /// The disks failed, or the stored data is inconsistent (`EIO`).
    #[error("I/O error")]
    Io,
    /// Temporarily impossible: a key is not loaded. The client should retry.
    #[error("not ready yet")]
    NotReady,
    /// The pool is lost or closed. This must not be sent to a client: the connection is dropped.
    #[error("the file system is gone")]
    Gone,
}
