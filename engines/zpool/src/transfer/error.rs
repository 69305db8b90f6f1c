//! Why a snapshot was not sent or received: a kind for callers to match on, and a sentence with the
//! remedy.

use engine::dataset::DatasetErrorKind;
use engine::transfer::{StreamFault, TransferError, TransferErrorKind};
use rustix::io::Errno;
use send_stream::StreamErrorKind;

use crate::error::{SystemError, errno};

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

pub(super) fn sending(dataset: &str, cause: SystemError) -> TransferError {
    let kind = match errno(cause.0) {
        _ if cause.0 == own::NOT_ANCESTOR => TransferErrorKind::NotAncestor,
        Errno::XDEV => TransferErrorKind::NotAncestor,
        Errno::ACCESS => TransferErrorKind::Dataset(DatasetErrorKind::KeyMissing),
        Errno::NOENT | Errno::SRCH => TransferErrorKind::Dataset(DatasetErrorKind::NotFound),
        Errno::NOTSUP => TransferErrorKind::FeatureMissing,
        _ => TransferErrorKind::Library,
    };
    TransferError::because("send", dataset, kind, cause)
}

pub(super) fn receiving(dataset: &str, is_incremental: bool, cause: SystemError) -> TransferError {
    use DatasetErrorKind as Common;
    let kind = match cause.0 {
        own::WRONG_PARENT => TransferErrorKind::Dataset(Common::ParentUnsuitable),
        own::KEY_SET_MISSING | own::KEY_SET_MISMATCH => TransferErrorKind::EncryptionDiffers,
        own::UNKNOWN_FEATURE => TransferErrorKind::FeatureMissing,
        own::LARGE_BLOCKS => TransferErrorKind::LargeBlocksSplit,
        own::TRUNCATED => of_stream(StreamErrorKind::Cut),
        own::RESUME_EXISTS => TransferErrorKind::Partial,
        _ => receive_errno(is_incremental, errno(cause.0)),
    };
    TransferError::because("receive", dataset, kind, cause)
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
            of_stream(StreamErrorKind::Malformed(what))
        }
        Errno::INVAL => {
            let what = "it does not fit the volume, or contradicts itself";
            of_stream(StreamErrorKind::Malformed(what))
        }
        _ => TransferErrorKind::Library,
    }
}

/// A stream that the guard refuses.
pub fn of_stream(kind: StreamErrorKind) -> TransferErrorKind {
    let fault = match kind {
        StreamErrorKind::Cut => StreamFault::Cut,
        StreamErrorKind::NotAStream => StreamFault::NotAStream,
        StreamErrorKind::ByteOrder | StreamErrorKind::Unsupported(_) => StreamFault::Unsupported,
        StreamErrorKind::Malformed(_) => StreamFault::Malformed,
        StreamErrorKind::Read => StreamFault::Read,
        StreamErrorKind::Write => StreamFault::Write,
    };
    TransferErrorKind::Stream(fault.because(kind.to_string()))
}
