//! Snapshots on their way to another pool.

mod error;

use units::{NameError, SnapshotName, VolumeName};

pub use error::{StreamError, StreamFault, TransferError, TransferErrorKind};

use crate::Opaque;
use crate::dataset::{DatasetKind, Value};

/// The format of blocks in the stream. Every OpenZFS since 0.8 accepts all of it, if its pool has
/// the features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendForm {
    /// Tiny blocks travel inside their records.
    pub embedded: bool,
    /// Blocks of more than 128K are not split.
    pub large_blocks: bool,
    /// Blocks are sent compressed, as they are stored.
    pub compressed: bool,
    /// Blocks of an encrypted volume are sent encrypted: the receiver needs no key.
    pub raw: bool,
}

impl Default for SendForm {
    /// As stored, but decrypted: compressed blocks are sent compressed.
    fn default() -> Self {
        Self {
            embedded: false,
            large_blocks: true,
            compressed: true,
            raw: false,
        }
    }
}

impl SendForm {
    /// Blocks exactly as stored.
    pub const RAW: Self = Self {
        embedded: true,
        large_blocks: true,
        compressed: true,
        raw: true,
    };
}

/// The base of an incremental send: an earlier snapshot, or its bookmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base(String);

impl Base {
    /// Understands `@TAG`, `#MARK`, or a full name of either.
    pub fn parse(volume: &VolumeName, text: &str) -> Result<Self, NameError> {
        let full = match text.starts_with(['@', '#']) {
            true => format!("{volume}{text}"),
            false => text.to_owned(),
        };
        // A bookmark's name follows the same rules.
        full.replacen('#', "@", 1).parse::<SnapshotName>()?;
        Ok(Self(full))
    }

    /// The full name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&SnapshotName> for Base {
    fn from(name: &SnapshotName) -> Self {
        Self(name.as_str().to_owned())
    }
}

impl From<&Bookmark> for Base {
    fn from(mark: &Bookmark) -> Self {
        Self(mark.name.clone())
    }
}

/// The stream to send.
#[derive(Clone, Debug)]
pub struct SendSpec {
    /// The snapshot.
    pub snapshot: SnapshotName,
    /// The base that the receiver already has.
    pub base: Option<Base>,
    /// How blocks travel.
    pub form: SendForm,
    /// Where to resume, which the engine read from a token.
    pub resume: Option<Opaque>,
}

impl SendSpec {
    /// All of `snapshot`.
    pub fn full(snapshot: SnapshotName) -> Self {
        Self {
            snapshot,
            base: None,
            form: SendForm::default(),
            resume: None,
        }
    }

    /// The full name of the base; empty without one.
    pub fn base_name(&self) -> &str {
        self.base.as_ref().map_or("", Base::as_str)
    }
}

/// A bookmark: a base for sends that remains of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// Full name, `POOL/NAME#MARK`.
    pub name: String,
    /// GUID of the snapshot it was made of.
    pub guid: u64,
    /// The transaction group that snapshot was made in.
    pub creation_txg: u64,
    /// When that snapshot was made, in seconds since 1970.
    pub creation_time_s: u64,
}

impl Bookmark {
    /// Returns the part after the `#`.
    pub fn tag(&self) -> &str {
        self.name.split_once('#').map_or("", |(_, tag)| tag)
    }
}

/// The destination of a stream.
#[derive(Clone, Debug)]
pub struct ReceiveSpec {
    /// The volume or file system, which a full stream creates and an incremental one changes.
    pub volume: VolumeName,
    /// The snapshot's last component; none selects the stream's.
    pub tag: Option<String>,
    /// Discard writes and snapshots since the stream's base.
    pub force: bool,
    /// Retain the received part of an interrupted stream.
    pub resumable: bool,
    /// Refuse the stream of a file system. The contents of a volume are bytes to the engine. Those of a file system it
    /// interprets, with few checks.
    pub only_volumes: bool,
}

/// Returns the initial properties of a new volume or file system, from its user properties at the sender, which only
/// some streams contain.
pub type Initial<'a> = &'a dyn Fn(DatasetKind, &[(String, String)]) -> Vec<(String, Value)>;

/// The results of a receive.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The new snapshots, oldest first.
    pub snapshots: Vec<SnapshotName>,
    /// Bytes of the stream.
    pub bytes: u64,
    /// User properties of the volume at the sender, if the stream contained them.
    pub properties: Vec<(String, String)>,
}

/// An interrupted receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The token with which the sender resumes.
    pub token: Option<String>,
    /// The volume itself is incomplete, and not only its next snapshot.
    pub is_partial: bool,
}

/// Where a receive was interrupted: an engine's token, as far as its callers read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeToken {
    /// GUID of the snapshot that was being received.
    pub to_guid: u64,
    /// The snapshot's name at the sender then.
    pub to_name: String,
    /// Bytes of the stream that need not be sent again, about.
    pub bytes: u64,
    /// The engine's own part.
    pub detail: Opaque,
}
