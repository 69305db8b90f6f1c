//! Why a snapshot was not sent or received: what a caller matches on, and a sentence that says
//! what to do.

use rustix::io::Errno;
use send_stream::{StreamError, StreamErrorKind};

use crate::dataset::{DatasetError, DatasetErrorKind};
use crate::error::{ZfsError, errno};

/// The library's own numbers, from `ZFS_ERR_WRONG_PARENT` on.
mod own {
    pub const WRONG_PARENT: i32 = 1033;
    pub const KEY_SET_MISSING: i32 = 1034;
    pub const KEY_SET_MISMATCH: i32 = 1035;
    pub const UNKNOWN_FEATURE: i32 = 1037;
    pub const NOT_ANCESTOR: i32 = 1039;
    pub const TRUNCATED: i32 = 1040;
    pub const LARGE_BLOCKS: i32 = 1041;
    pub const RESUME_EXISTS: i32 = 1047;
}

/// What a caller matches on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferErrorKind {
    /// As with any dataset.
    #[error("{0}")]
    Dataset(DatasetErrorKind),
    /// The stream is cut off, damaged, or of something else.
    #[error("{0}")]
    Stream(StreamErrorKind),
    /// The snapshot that the stream builds on is not here.
    #[error(
        "the volume lacks the snapshot that the stream builds on: send from one that both have, \
         or all of it"
    )]
    NoBase,
    /// The base of a send is no ancestor of the snapshot.
    #[error("the base is not an earlier snapshot of the same volume")]
    NotAncestor,
    /// The volume was written since the base.
    #[error(
        "the volume was changed since the snapshot that the stream builds on: receive into another \
         one, or ask for the changes to be thrown away"
    )]
    Diverged,
    /// There is something of the name.
    #[error("the volume or the snapshot exists already")]
    Exists,
    /// An earlier receive was interrupted.
    #[error("an interrupted receive is left: resume it with its token, or abort it")]
    Partial,
    /// No receive was interrupted.
    #[error("there is no interrupted receive of it")]
    NothingPartial,
    /// Encrypted blocks on top of others, or the other way round.
    #[error(
        "encrypted and plain contents cannot follow each other: send the volume in the same form \
         as before, or all of it to a new name"
    )]
    EncryptionDiffers,
    /// The pool cannot keep what the stream holds.
    #[error("the pool lacks a feature that the stream needs: enable it, or send without it")]
    FeatureMissing,
    /// The stream does not make a volume.
    #[error("what the stream makes is no usable volume")]
    NotAVolume,
    /// A text that is no resume token.
    #[error("this is no resume token: {0}")]
    Token(&'static str),
    /// The snapshot of a token is gone.
    #[error("the snapshot that the token is for is not here any more")]
    TokenSnapshotGone,
    /// Whoever takes the stream does not take it any more.
    #[error("the stream is not taken any more")]
    Sink,
    /// Anything else.
    #[error("the ZFS library failed")]
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
    /// What a caller matches on.
    pub kind: TransferErrorKind,
    /// What the library or the system said.
    #[source]
    pub cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl TransferError {
    pub(super) fn new(doing: &'static str, dataset: &str, kind: TransferErrorKind) -> Self {
        Self {
            doing,
            dataset: dataset.to_owned(),
            kind,
            cause: None,
        }
    }

    fn because(
        doing: &'static str,
        dataset: &str,
        kind: TransferErrorKind,
        cause: ZfsError,
    ) -> Self {
        Self {
            cause: Some(Box::new(cause)),
            ..Self::new(doing, dataset, kind)
        }
    }

    pub(super) fn stream(dataset: &str, error: StreamError) -> Self {
        Self {
            kind: TransferErrorKind::Stream(error.kind),
            cause: error.cause.map(|cause| Box::new(cause) as Box<_>),
            ..Self::new("receive", dataset, TransferErrorKind::Library)
        }
    }

    pub(super) fn dataset(error: DatasetError) -> Self {
        Self {
            doing: error.doing,
            dataset: error.dataset,
            kind: TransferErrorKind::Dataset(error.kind),
            cause: error.cause.map(|cause| Box::new(cause) as Box<_>),
        }
    }

    pub(super) fn sending(dataset: &str, cause: ZfsError) -> Self {
        let kind = match errno(cause.0) {
            _ if cause.0 == own::NOT_ANCESTOR => TransferErrorKind::NotAncestor,
            Errno::XDEV => TransferErrorKind::NotAncestor,
            Errno::ACCESS => TransferErrorKind::Dataset(DatasetErrorKind::KeyMissing),
            Errno::NOENT | Errno::SRCH => TransferErrorKind::Dataset(DatasetErrorKind::NotFound),
            Errno::NOTSUP => TransferErrorKind::FeatureMissing,
            _ => TransferErrorKind::Library,
        };
        Self::because("send", dataset, kind, cause)
    }

    pub(super) fn receiving(dataset: &str, is_incremental: bool, cause: ZfsError) -> Self {
        use DatasetErrorKind as Common;
        let kind = match cause.0 {
            own::WRONG_PARENT => TransferErrorKind::Dataset(Common::ParentUnsuitable),
            own::KEY_SET_MISSING | own::KEY_SET_MISMATCH => TransferErrorKind::EncryptionDiffers,
            own::UNKNOWN_FEATURE | own::LARGE_BLOCKS => TransferErrorKind::FeatureMissing,
            own::TRUNCATED => TransferErrorKind::Stream(StreamErrorKind::Cut),
            own::RESUME_EXISTS => TransferErrorKind::Partial,
            _ => Self::receive_errno(is_incremental, errno(cause.0)),
        };
        Self::because("receive", dataset, kind, cause)
    }

    fn receive_errno(is_incremental: bool, errno: Errno) -> TransferErrorKind {
        use DatasetErrorKind as Common;
        match errno {
            Errno::NODEV => TransferErrorKind::NoBase,
            Errno::NOENT if is_incremental => TransferErrorKind::NoBase,
            Errno::NOENT => TransferErrorKind::Dataset(Common::ParentMissing),
            Errno::TXTBSY => TransferErrorKind::Diverged,
            Errno::EXIST => TransferErrorKind::Exists,
            Errno::BUSY => TransferErrorKind::Partial,
            Errno::NOTSUP => TransferErrorKind::FeatureMissing,
            Errno::NOSPC | Errno::DQUOT => TransferErrorKind::Dataset(Common::NoSpace),
            Errno::ROFS => TransferErrorKind::Dataset(Common::ReadOnly),
            Errno::ACCESS => TransferErrorKind::Dataset(Common::KeyMissing),
            Errno::NAMETOOLONG => TransferErrorKind::Dataset(Common::NameTooLong),
            Errno::BADMSG => TransferErrorKind::NotAVolume,
            // The library's name for a checksum that does not match.
            Errno::BADE => {
                let what = "a checksum does not match";
                TransferErrorKind::Stream(StreamErrorKind::Malformed(what))
            }
            Errno::INVAL => {
                let what = "it does not fit the volume, or contradicts itself";
                TransferErrorKind::Stream(StreamErrorKind::Malformed(what))
            }
            _ => TransferErrorKind::Library,
        }
    }
}
