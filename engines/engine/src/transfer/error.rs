//! Errors of sends and receives: a kind to match on, and a message with the recommended action.

use crate::dataset::{DatasetError, DatasetErrorKind};
use crate::error::SystemError;

/// The fault of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// It ended before its last record.
    Cut,
    /// It is of none of the formats that the engine receives.
    NotAStream,
    /// It is a valid stream of a form or of contents that cannot be received here.
    Unsupported,
    /// It breaks the rules of its format.
    Malformed,
    /// It could not be read.
    Read,
    /// The engine does not accept more of it.
    Write,
}

impl StreamFault {
    /// Converts it to an error with a message.
    pub fn because(self, why: impl Into<String>) -> StreamError {
        StreamError {
            fault: self,
            why: why.into(),
        }
    }
}

/// A stream that cannot be received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct StreamError {
    /// Its fault.
    pub fault: StreamFault,
    /// The reason.
    pub why: String,
}

/// The kind to match on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferErrorKind {
    /// As with any dataset.
    #[error("{0}")]
    Dataset(DatasetErrorKind),
    /// The stream is truncated, damaged, or not a stream of a volume or file system.
    #[error("{0}")]
    Stream(StreamError),
    /// The snapshot that the stream builds on is not here.
    #[error(
        "the volume does not have the snapshot that the stream is based on: send from one that both have, \
         or all of it"
    )]
    NoBase,
    /// The base of a send is no ancestor of the snapshot.
    #[error("the base is not an earlier snapshot of the same volume")]
    NotAncestor,
    /// The stream is of a file system, and only volumes are accepted.
    #[error("the stream is of a file system, and only volumes are taken")]
    OfFiles,
    /// The volume was written since the base.
    #[error(
        "the volume was changed since the snapshot that the stream is based on: receive into a new \
         one, or request that the changes are discarded"
    )]
    Diverged,
    /// The name exists.
    #[error("the volume or the snapshot exists already")]
    Exists,
    /// An earlier receive was interrupted.
    #[error("an interrupted receive is left: resume it with its token, or abort it")]
    Partial,
    /// No receive was interrupted.
    #[error("there is no interrupted receive of it")]
    NothingPartial,
    /// Encrypted blocks based on unencrypted ones, or the reverse.
    #[error(
        "encrypted and plain contents cannot follow each other: send the volume in the same form \
         as before, or all of it to a new name"
    )]
    EncryptionDiffers,
    /// The pool cannot store the contents of the stream.
    #[error(
        "a feature that the stream needs is not enabled in the pool: enable it, or send without it"
    )]
    FeatureMissing,
    /// The volume was received with large blocks, and the stream has none.
    #[error(
        "the volume was received with large blocks, and the stream has them split: send it as before, with large blocks \
         (without --plain; with stock ZFS `zfs send -L`)"
    )]
    LargeBlocksSplit,
    /// The name of the snapshot in the stream cannot be used here.
    #[error(
        "the stream's snapshot is called {0:?}, which cannot be used here: it has to have letters, digits and - _ . : only, spaces \
         within, and 255 characters with the volume's name; name it here, as POOL/NAME@SNAPSHOT"
    )]
    SnapshotName(String),
    /// The stream does not contain a volume.
    #[error("the stream does not contain a usable volume")]
    NotAVolume,
    /// A text that is no resume token.
    #[error("this is no resume token: {0}")]
    Token(&'static str),
    /// The snapshot of a token is gone.
    #[error("the snapshot that the token is for is not here any more")]
    TokenSnapshotGone,
    /// The reader of the stream has failed or disconnected.
    #[error("the stream is not taken any more")]
    Sink,
    /// Any other error.
    #[error("the storage library failed")]
    Library,
}

/// A snapshot that was not sent or received.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {dataset}: {kind}")]
pub struct TransferError {
    /// The step: "send", "receive", ...
    pub doing: &'static str,
    /// The volume or snapshot.
    pub dataset: String,
    /// The kind to match on.
    pub kind: TransferErrorKind,
    /// The library's or the system's error.
    #[source]
    pub cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl TransferError {
    /// Of the step `doing`.
    pub fn new(doing: &'static str, dataset: &str, kind: TransferErrorKind) -> Self {
        Self {
            doing,
            dataset: dataset.to_owned(),
            kind,
            cause: None,
        }
    }

    /// Creates the error with the engine's error as its cause.
    pub fn because(
        doing: &'static str,
        dataset: &str,
        kind: TransferErrorKind,
        cause: SystemError,
    ) -> Self {
        Self {
            cause: Some(Box::new(cause)),
            ..Self::new(doing, dataset, kind)
        }
    }

    /// Wraps the error of the dataset.
    pub fn dataset(error: DatasetError) -> Self {
        Self {
            doing: error.doing,
            dataset: error.dataset,
            kind: TransferErrorKind::Dataset(error.kind),
            cause: error.cause.map(|cause| Box::new(cause) as Box<_>),
        }
    }
}
