//! Why a stream is refused.

use std::io;

/// The kind of an error, for callers to match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamErrorKind {
    /// The stream ended before its last record.
    #[error("the stream was cut off before its end")]
    Cut,
    /// Not a send stream.
    #[error("this is no ZFS send stream")]
    NotAStream,
    /// The stream has the byte order opposite to this host's.
    #[error("the stream comes from a host with the other byte order, which is not supported")]
    ByteOrder,
    /// A valid stream of a kind that is not supported here.
    #[error("the stream {0}, which cannot be received here")]
    Unsupported(&'static str),
    /// A record violates the format.
    #[error("the stream is damaged or made up: {0}")]
    Malformed(&'static str),
    /// The stream could not be read.
    #[error("read the stream")]
    Read,
    /// The consumer of the records failed.
    #[error("hand a record on")]
    Write,
}

/// A refused stream, and the position in it.
#[derive(Debug, thiserror::Error)]
#[error("{kind} (at byte {offset})")]
pub struct StreamError {
    /// The kind, for callers to match on.
    pub kind: StreamErrorKind,
    /// Bytes of the stream before the invalid record.
    pub offset: u64,
    /// The error of the system call.
    #[source]
    pub cause: Option<io::Error>,
}

impl StreamError {
    pub(crate) fn new(kind: StreamErrorKind, offset: u64) -> Self {
        Self {
            kind,
            offset,
            cause: None,
        }
    }

    pub(crate) fn io(kind: StreamErrorKind, offset: u64, cause: io::Error) -> Self {
        Self {
            cause: Some(cause),
            ..Self::new(kind, offset)
        }
    }
}
