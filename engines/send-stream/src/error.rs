//! Why a stream is not received.

use std::io;

/// What a caller matches on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamErrorKind {
    /// The stream ended before its last record.
    #[error("the stream was cut off: receive the rest with its resume token, or send it again")]
    Cut,
    /// It is something else.
    #[error("this is no ZFS send stream")]
    NotAStream,
    /// A machine of the other byte order made it.
    #[error("the stream comes from a machine with the other byte order, which is not supported")]
    ByteOrder,
    /// A valid stream of something that cannot be received here.
    #[error("the stream {0}, which cannot be received here")]
    Unsupported(&'static str),
    /// A record breaks the rules of the format.
    #[error("the stream is damaged or made up: {0}")]
    Malformed(&'static str),
    /// The stream could not be read.
    #[error("read the stream")]
    Read,
    /// Whoever takes the records stopped.
    #[error("hand a record on")]
    Write,
}

/// A stream that is not received, and where in it.
#[derive(Debug, thiserror::Error)]
#[error("{kind} (at byte {offset})")]
pub struct StreamError {
    /// What a caller matches on.
    pub kind: StreamErrorKind,
    /// Bytes of the stream before the record that is wrong.
    pub offset: u64,
    /// What the system said.
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
