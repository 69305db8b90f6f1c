//! The BEGIN record of a stream: its contents, and the features that it requires of the pool.

use std::io::Read;

use crate::error::{StreamError, StreamErrorKind as Kind};
use crate::record::{RECORD_BYTES, Record, fill, kind};

const MAGIC: u64 = 0x2_f5ba_cbac;
/// `drr_type` of a stream of a file system, and of a volume.
const FILE_SYSTEM: u32 = 2;
const VOLUME: u32 = 3;
/// Longest name in the record, including its NUL.
const NAME_BYTES: usize = 256;
/// Longest payload of the first record: a list of snapshots and their properties.
pub const PAYLOAD_BYTES_MAX: u32 = 8 << 20;
/// The stream is relative to a snapshot of another dataset.
const FLAG_CLONE: u32 = 1;

/// The kind of stream that the first record announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderKind {
    /// The changes of one snapshot.
    Snapshot,
    /// A list of snapshots with their properties; their streams follow.
    Package,
}

/// The type of the dataset that a stream was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A volume.
    Volume,
    /// A file system.
    FileSystem,
}

/// The features that a receiver must support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(pub u64);

impl Features {
    const DEDUP: u64 = 1 | 1 << 1;
    const EMBEDDED: u64 = 1 << 16;
    const LARGE_BLOCKS: u64 = 1 << 19;
    const RESUMING: u64 = 1 << 20;
    const REDACTED: u64 = 1 << 21;
    const COMPRESSED: u64 = 1 << 22;
    const RAW: u64 = 1 << 24;
    /// All features that this process accepts.
    const KNOWN: u64 = 1 << 2
        | Self::EMBEDDED
        | 1 << 17
        | Self::LARGE_BLOCKS
        | Self::RESUMING
        | Self::COMPRESSED
        | 1 << 23
        | Self::RAW
        | 1 << 25
        | 1 << 26
        | 1 << 27
        | 1 << 28
        | 1 << 29;

    fn has(self, feature: u64) -> bool {
        self.0 & feature != 0
    }

    /// Blocks are as stored by the sender, still encrypted.
    pub fn raw(self) -> bool {
        self.has(Self::RAW)
    }

    /// It continues an interrupted receive.
    pub fn resuming(self) -> bool {
        self.has(Self::RESUMING)
    }

    /// Tiny blocks are embedded in their record.
    pub fn embedded(self) -> bool {
        self.has(Self::EMBEDDED)
    }

    /// Blocks of more than 128K are not split.
    pub fn large_blocks(self) -> bool {
        self.has(Self::LARGE_BLOCKS)
    }

    /// Blocks are compressed as they are stored.
    pub fn compressed(self) -> bool {
        self.has(Self::COMPRESSED)
    }
}

/// The first record of a stream.
#[derive(Clone, Debug)]
pub struct Begin {
    /// The kind of the data after this record.
    pub header: HeaderKind,
    /// The type of the source dataset; unset in a package.
    pub contents: Contents,
    /// The features that the receiver must support.
    pub features: Features,
    /// GUID of the snapshot that the stream creates.
    pub to_guid: u64,
    /// GUID of the snapshot that it builds on; zero for a full stream.
    pub from_guid: u64,
    /// The snapshot's full name at the sender.
    pub to_name: String,
    /// The base is a snapshot of another dataset.
    pub is_clone: bool,
    /// The record as received.
    pub bytes: Box<[u8; RECORD_BYTES]>,
    /// The payload of the record: keys of a raw stream, the resume position, or the list of a
    /// package.
    pub payload: Vec<u8>,
}

impl Begin {
    /// Reads and checks the first record and its payload.
    pub fn read(source: &mut dyn Read) -> Result<Self, StreamError> {
        let mut bytes = [0; RECORD_BYTES];
        fill(source, &mut bytes, 0)?;
        Self::of(bytes, source)
    }

    /// Inside a package: the next stream's first record, or nothing at its end.
    pub fn next(source: &mut dyn Read) -> Result<Option<Self>, StreamError> {
        let mut bytes = [0; RECORD_BYTES];
        fill(source, &mut bytes, 0)?;
        if Record(bytes).kind() == kind::END {
            return Ok(None);
        }
        let begin = Self::of(bytes, source)?;
        match begin.header {
            HeaderKind::Snapshot => Ok(Some(begin)),
            HeaderKind::Package => {
                let what = Kind::Malformed("a package inside a package");
                Err(StreamError::new(what, 0))
            }
        }
    }

    /// Like [`Self::read`], for a record that was read already.
    fn of(bytes: [u8; RECORD_BYTES], source: &mut dyn Read) -> Result<Self, StreamError> {
        let refuse = |kind| StreamError::new(kind, 0);
        let record = Record(bytes);
        let magic = record.u64(8);
        if magic.swap_bytes() == MAGIC {
            return Err(refuse(Kind::ByteOrder));
        }
        if magic != MAGIC || record.kind() != kind::BEGIN {
            return Err(refuse(Kind::NotAStream));
        }
        let version = record.u64(16);
        let header = match version & 3 {
            1 => HeaderKind::Snapshot,
            2 => HeaderKind::Package,
            _ => return Err(refuse(Kind::Malformed("its first record has no kind"))),
        };
        let features = Features(version >> 2 & ((1 << 56) - 1));
        check_features(features).map_err(refuse)?;
        let contents = match record.u32(32) {
            FILE_SYSTEM => Contents::FileSystem,
            VOLUME => Contents::Volume,
            _ if header == HeaderKind::Package => Contents::Volume,
            _ => {
                let what = "is neither of a volume nor of a file system";
                return Err(refuse(Kind::Unsupported(what)));
            }
        };
        let to_name = text(&record.0[56..56 + NAME_BYTES]).map_err(refuse)?;
        let length = record.payload_length();
        let aligned = length % 8 == 0 || features.raw() || header == HeaderKind::Package;
        if length > PAYLOAD_BYTES_MAX || !aligned {
            return Err(refuse(Kind::Malformed("its first record has a bad length")));
        }
        let needs_payload = features.raw() || features.resuming() || header == HeaderKind::Package;
        if needs_payload != (length != 0) {
            let what = "its first record has data that it must not have, or misses it";
            return Err(refuse(Kind::Malformed(what)));
        }
        let mut payload = Vec::new();
        let got = source
            .take(u64::from(length))
            .read_to_end(&mut payload)
            .map_err(|cause| StreamError::io(Kind::Read, RECORD_BYTES as u64, cause))?;
        if got < length as usize {
            return Err(StreamError::new(Kind::Cut, (RECORD_BYTES + got) as u64));
        }
        Ok(Self {
            header,
            contents,
            features,
            to_guid: record.u64(40),
            from_guid: record.u64(48),
            to_name,
            is_clone: record.u32(36) & FLAG_CLONE != 0,
            bytes: Box::new(record.0),
            payload,
        })
    }

    /// The last part of the snapshot's name.
    pub fn tag(&self) -> Option<&str> {
        let (_, tag) = self.to_name.split_once('@')?;
        Some(tag)
    }
}

fn check_features(features: Features) -> Result<(), Kind> {
    if features.has(Features::DEDUP) {
        return Err(Kind::Unsupported("leaves out duplicate data"));
    }
    if features.has(Features::REDACTED) {
        return Err(Kind::Unsupported("is redacted"));
    }
    if features.0 & !Features::KNOWN != 0 {
        let what = "needs features that this version does not know";
        return Err(Kind::Unsupported(what));
    }
    if features.raw() && features.embedded() {
        return Err(Kind::Malformed("raw streams have no embedded blocks"));
    }
    Ok(())
}

fn text(bytes: &[u8]) -> Result<String, Kind> {
    let bad = Kind::Malformed("the snapshot's name is not text");
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(bad)?;
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| bad)?;
    Ok(text.to_owned())
}
