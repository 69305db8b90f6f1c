//! Snapshots on their way to another pool.

mod error;

use units::{NameError, SnapshotName, VolumeName};

pub use error::{StreamError, StreamFault, TransferError, TransferErrorKind};

use crate::Opaque;
use crate::dataset::{DatasetKind, Value};

/// How blocks travel. Every OpenZFS since 0.8 takes all of it, if its pool has the features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendForm {
    /// Tiny blocks travel inside their records.
    pub embedded: bool,
    /// Blocks of more than 128K are not split.
    pub large_blocks: bool,
    /// Blocks stay compressed as they are stored.
    pub compressed: bool,
    /// Blocks of an encrypted volume stay encrypted: the receiver needs no key.
    pub raw: bool,
}

impl Default for SendForm {
    /// As stored, but readable: compressed blocks stay so.
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

/// What a send is relative to: an earlier snapshot, or the bookmark that one left.
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

/// What to send.
#[derive(Clone, Debug)]
pub struct SendSpec {
    /// The snapshot.
    pub snapshot: SnapshotName,
    /// What the receiver has already.
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

/// A bookmark: what is left of a snapshot to send from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// Full name, `POOL/NAME#MARK`.
    pub name: String,
    /// GUID of the snapshot it was made of.
    pub guid: u64,
    /// The transaction group that snapshot was made in.
    pub creation_txg: u64,
}

impl Bookmark {
    /// What follows the `#`.
    pub fn tag(&self) -> &str {
        self.name.split_once('#').map_or("", |(_, tag)| tag)
    }
}

/// Where a stream goes.
#[derive(Clone, Debug)]
pub struct ReceiveSpec {
    /// The volume or file system, which a whole stream makes, and an incremental one changes.
    pub volume: VolumeName,
    /// The snapshot's last part; none takes the stream's.
    pub tag: Option<String>,
    /// Throw away what was written, and snapshots that were made, since the stream's base.
    pub force: bool,
    /// Keep what arrived of a stream that is cut off.
    pub resumable: bool,
    /// Refuse the stream of a file system. What is in a volume is bytes to the engine, what is in a file system it interprets, and
    /// checks little.
    pub only_volumes: bool,
}

/// What a new volume or file system has from the beginning, made of its user properties at the sender, which only some
/// streams have.
pub type Initial<'a> = &'a dyn Fn(DatasetKind, &[(String, String)]) -> Vec<(String, Value)>;

/// What a receive made.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The new snapshots, oldest first.
    pub snapshots: Vec<SnapshotName>,
    /// Bytes of the stream.
    pub bytes: u64,
    /// User properties of the volume at the sender, if the stream had them.
    pub properties: Vec<(String, String)>,
}

/// An interrupted receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// What the sender needs to go on.
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
