//! Records of a file system's intent log, as kernel ZFS writes and replays them (`sys/zil.h`), after their common
//! header. Numbers have the byte order of this host: a foreign log is refused earlier.

use file_system::Receipt;

use crate::acl::{LOGGED_BYTES, decode_logged};
use crate::options::Options;
use crate::reader::Reader;

/// Types of records (`TX_*`).
pub mod kind {
    #![allow(missing_docs)]
    pub const CREATE: u64 = 1;
    pub const MKDIR: u64 = 2;
    pub const MKXATTR: u64 = 3;
    pub const SYMLINK: u64 = 4;
    pub const REMOVE: u64 = 5;
    pub const RMDIR: u64 = 6;
    pub const LINK: u64 = 7;
    pub const RENAME: u64 = 8;
    pub const WRITE: u64 = 9;
    pub const TRUNCATE: u64 = 10;
    pub const SETATTR: u64 = 11;
    pub const ACL: u64 = 13;
    pub const CREATE_ACL: u64 = 14;
    pub const CREATE_ATTR: u64 = 15;
    pub const CREATE_ACL_ATTR: u64 = 16;
    pub const MKDIR_ACL: u64 = 17;
    pub const MKDIR_ATTR: u64 = 18;
    pub const MKDIR_ACL_ATTR: u64 = 19;
    pub const WRITE2: u64 = 20;
    pub const SETSAXATTR: u64 = 21;
    pub const RENAME_EXCHANGE: u64 = 22;
    pub const RENAME_WHITEOUT: u64 = 23;
    pub const CLONE_RANGE: u64 = 24;
}

/// The attributes that a record sets: bits of its mask, as in Linux.
pub mod set {
    #![allow(missing_docs)]
    pub const MODE: u64 = 0x1;
    pub const UID: u64 = 0x2;
    pub const GID: u64 = 0x4;
    pub const SIZE: u64 = 0x8;
    pub const ATIME: u64 = 0x10;
    pub const MTIME: u64 = 0x20;
    pub const CTIME: u64 = 0x40;
    /// The bits that this crate can replay. The kernel also logs other bits of its system calls, which do not concern
    /// the file.
    pub const KNOWN: u64 = MODE | UID | GID | SIZE | ATIME | MTIME | CTIME;
    /// [`Options`](crate::options::Options) follow.
    pub const OPTIONS: u64 = 1 << 31;
}

/// Bytes of a block pointer.
pub(crate) const POINTER_BYTES: usize = 128;
/// The lower bits of an object's number in a record; above are its dnode slots, less one.
const OBJECT_BITS: u32 = 48;
const SLOTS_SHIFT: u32 = 56;
/// The bits above an owner or a group: the domain of ids that only an identity mapper can resolve.
const DOMAIN_SHIFT: u32 = 32;

/// A creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Creation<'a> {
    pub directory: u64,
    /// 0 in a record to be logged: the transaction inserts it.
    pub object: u64,
    /// Dnode slots.
    pub slots: u64,
    pub mode: u64,
    pub uid: u64,
    pub gid: u64,
    /// 0 in a record to be logged, as the number.
    pub generation: u64,
    pub crtime: [u64; 2],
    pub device: u64,
    pub name: &'a [u8],
    /// The target of a symbolic link.
    pub link: Option<&'a [u8]>,
    /// The optional attributes set with it.
    pub options: Option<Options>,
    /// An access control list passed at the creation, of entries of 12 bytes.
    pub list: Option<&'a [u8]>,
    /// The attributes of [`append_setting`]: size and times.
    pub then: Option<Setting>,
}

/// A change of attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Setting {
    pub object: u64,
    pub mask: u64,
    pub mode: u64,
    pub uid: u64,
    pub gid: u64,
    pub size: u64,
    pub atime: [u64; 2],
    pub mtime: [u64; 2],
    pub options: Options,
}

/// The location of the bytes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes<'a> {
    /// In the record. Empty until the bytes are read.
    Here(&'a [u8]),
    /// They are those of a whole block, which the library appends to the record for a replay.
    Block(&'a [u8]),
}

/// A record that can be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Record<'a> {
    Create(Creation<'a>),
    /// The directory of extended attributes of `directory`, which may be a file. It has no name.
    MakeExtended(Creation<'a>),
    Remove {
        directory: u64,
        name: &'a [u8],
        is_directory: bool,
    },
    Link {
        directory: u64,
        object: u64,
        name: &'a [u8],
    },
    Rename {
        from: (u64, &'a [u8]),
        to: (u64, &'a [u8]),
    },
    /// Two names are exchanged.
    Exchange {
        from: (u64, &'a [u8]),
        to: (u64, &'a [u8]),
    },
    /// A device with the numbers 0 replaces the renamed object: overlay file systems hide lower files this way.
    Whiteout {
        from: (u64, &'a [u8]),
        to: (u64, &'a [u8]),
        /// Without directory and name, which are those of `from`.
        whiteout: Creation<'a>,
    },
    Write {
        object: u64,
        offset: u64,
        length: u64,
        /// The end of the write. The library splits the records of long ones.
        end: u64,
        bytes: Bytes<'a>,
    },
    /// A write that has its bytes in an earlier record for the same block. Only the end of the file can be new.
    WriteAgain {
        object: u64,
        offset: u64,
        length: u64,
    },
    /// A range becomes a hole; a length of 0 truncates the file there.
    Truncate {
        object: u64,
        offset: u64,
        length: u64,
    },
    Set(Setting),
    /// An access control list, of entries of 12 bytes.
    Acl {
        object: u64,
        list: &'a [u8],
    },
    /// An extended attribute in the list of attributes; an empty value removes it.
    Extended {
        object: u64,
        name: &'a [u8],
        value: &'a [u8],
    },
    /// A range gets shared blocks of another file.
    Clone {
        object: u64,
        offset: u64,
        length: u64,
        block_size: u64,
        /// Block pointers, of 128 bytes each.
        pointers: &'a [u8],
    },
}

/// Why a record cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// This crate cannot replay it.
    #[error("a record of type {kind} cannot be replayed here")]
    Unsupported {
        /// Its type.
        kind: u64,
    },
    /// It has the wrong length, or contains an invalid value.
    #[error("a record of type {kind} with {length} bytes is damaged")]
    Damaged {
        /// Its type.
        kind: u64,
        /// Its length.
        length: usize,
    },
}

const fn object_of(word: u64) -> u64 {
    word & ((1 << OBJECT_BITS) - 1)
}

/// The marker before a [`Receipt`] after the rest of a record. The kernel reads names up to their NUL, and lists and
/// values by their length, and ignores bytes after them.
const RECEIPT_MARK: &[u8; 8] = b"bhreceip";

/// Appends the receipt of a change to its record.
pub fn append_receipt(body: &mut Vec<u8>, receipt: &Receipt) {
    body.extend(RECEIPT_MARK);
    body.extend(receipt.to_bytes());
}

/// The marker before attributes of a new object, after the rest of the record of its creation and after its receipt. A
/// kernel sets these attributes by the next record. If only the first one is in the log, they are not lost here.
const SETTING_MARK: &[u8; 8] = b"bhattrib";

/// Appends the attributes that the record of a creation omits, and that a second record sets. It follows a receipt.
pub fn append_setting(body: &mut Vec<u8>, setting: &Setting) {
    body.extend(SETTING_MARK);
    let times = [setting.atime, setting.mtime].concat();
    let numbers = [setting.mask, setting.size].into_iter().chain(times);
    numbers.for_each(|number| body.extend(number.to_ne_bytes()));
}

/// The attributes after a creation and its receipt, if there are any.
fn setting_of(mut rest: &[u8]) -> Option<Setting> {
    if let Some(receipt) = rest.strip_prefix(RECEIPT_MARK) {
        rest = receipt.get(Receipt::BYTES..)?;
    }
    let rest = rest.strip_prefix(SETTING_MARK)?;
    let mut reader = Reader { rest };
    Some(Setting {
        mask: reader.number()? & (set::SIZE | set::ATIME | set::MTIME),
        size: reader.number()?,
        atime: reader.pair()?,
        mtime: reader.pair()?,
        ..Setting::default()
    })
}

/// The receipt after a record, if there is one. The record is complete.
pub fn receipt_of(kind: u64, body: &[u8]) -> Option<Receipt> {
    let (words, names) = match kind {
        kind::CREATE | kind::MKDIR => (9, 1),
        kind::SYMLINK => (9, 2),
        kind::CREATE_ACL | kind::MKDIR_ACL => (14, 1),
        kind::REMOVE | kind::RMDIR => (1, 1),
        kind::LINK | kind::SETSAXATTR => (2, 1),
        kind::RENAME => (2, 2),
        kind::SETATTR => (10, 0),
        kind::ACL => (6, 0),
        _ => return None,
    };
    let (numbers, rest) = body.split_at_checked(words * 8)?;
    let mut reader = Reader { rest };
    let length = |word: usize| {
        let length = numbers[word * 8..].first_chunk().copied()?;
        usize::try_from(u64::from_ne_bytes(length)).ok()
    };
    // The size field of a list, which precedes names.
    let list = match kind {
        kind::CREATE_ACL | kind::MKDIR_ACL => Some(12),
        kind::ACL => Some(4),
        _ => None,
    };
    if let Some(word) = list {
        let length = length(word)?.checked_next_multiple_of(8)?;
        reader.rest = reader.rest.get(length..)?;
    }
    for _ in 0..names {
        reader.text()?;
    }
    if kind == kind::SETSAXATTR {
        reader.rest = reader.rest.get(length(1)?..)?;
    }
    let found = reader.rest.strip_prefix(RECEIPT_MARK)?;
    // Those of an earlier release are shorter. Zeros may follow, to a multiple of eight bytes.
    let mut bytes = [0; Receipt::BYTES];
    let length = found.len().min(Receipt::BYTES);
    bytes[..length].copy_from_slice(&found[..length]);
    (length >= Receipt::BYTES_WITHOUT_CALL).then(|| Receipt::from_bytes(&bytes))
}

/// Understands a record.
pub fn decode(kind: u64, body: &[u8]) -> Result<Record<'_>, BadRecord> {
    let mut reader = Reader { rest: body };
    let reader = &mut reader;
    let decoded = match kind {
        kind::CREATE | kind::MKDIR | kind::SYMLINK | kind::CREATE_ACL..=kind::MKDIR_ACL_ATTR => {
            creation(reader, kind)
        }
        kind::REMOVE | kind::RMDIR => removal(reader, kind).map(Some),
        kind::LINK => link(reader).map(Some),
        kind::RENAME => rename(reader).map(|(from, to)| Some(Record::Rename { from, to })),
        kind::RENAME_EXCHANGE => {
            rename(reader).map(|(from, to)| Some(Record::Exchange { from, to }))
        }
        kind::RENAME_WHITEOUT => whiteout(reader).map(Some),
        kind::MKXATTR => extended_directory(reader).map(Some),
        kind::SETSAXATTR => extended(reader).map(Some),
        kind::CLONE_RANGE => clone(reader).map(Some),
        kind::ACL => acl(reader),
        kind::WRITE => write(reader).map(Some),
        kind::WRITE2 => write_again(reader).map(Some),
        kind::TRUNCATE => truncation(reader).map(Some),
        kind::SETATTR => setting(reader),
        _ => Some(None),
    };
    let decoded = decoded.ok_or(BadRecord::Damaged {
        kind,
        length: body.len(),
    })?;
    decoded
        .filter(|record| !record.names_foreigners())
        .ok_or(BadRecord::Unsupported { kind })
}

/// A record, or an inner `None` for a valid one that cannot be replayed here. The outer `None`: it is damaged.
type Decoded<'a> = Option<Option<Record<'a>>>;

/// The new object in the record of a creation, after its directory.
fn new_object<'a>(reader: &mut Reader<'a>, directory: u64) -> Option<Creation<'a>> {
    let object = reader.number()?;
    let created = Creation {
        directory,
        object: object_of(object),
        slots: (object >> SLOTS_SHIFT) + 1,
        mode: reader.number()?,
        uid: reader.number()?,
        gid: reader.number()?,
        generation: reader.number()?,
        crtime: reader.pair()?,
        device: reader.number()?,
        ..Creation::default()
    };
    (created.object != 0 && created.generation != 0).then_some(created)
}

fn creation<'a>(reader: &mut Reader<'a>, kind: u64) -> Decoded<'a> {
    let directory = reader.number()?;
    let mut created = new_object(reader, directory)?;
    let has_list = matches!(
        kind,
        kind::CREATE_ACL | kind::CREATE_ACL_ATTR | kind::MKDIR_ACL | kind::MKDIR_ACL_ATTR
    );
    let has_options = matches!(
        kind,
        kind::CREATE_ATTR | kind::CREATE_ACL_ATTR | kind::MKDIR_ATTR | kind::MKDIR_ACL_ATTR
    );
    let head = match has_list {
        true => Some(ListHead::read(reader)?),
        false => None,
    };
    if has_options {
        let Some(options) = Options::decode(reader)? else {
            return Some(None);
        };
        created.options = Some(options);
    }
    if let Some(head) = head {
        let Some(list) = head.list(reader)? else {
            return Some(None);
        };
        created.list = Some(list);
    }
    created.name = reader.name()?;
    if kind == kind::SYMLINK {
        created.link = Some(reader.text()?);
    }
    created.then = setting_of(reader.rest);
    (created.kind() == kind).then_some(Some(Record::Create(created)))
}

fn extended_directory<'a>(reader: &mut Reader<'a>) -> Option<Record<'a>> {
    let directory = reader.number()?;
    let created = new_object(reader, directory)?;
    // Its name is empty.
    reader.text()?;
    (created.kind() == kind::MKDIR).then_some(Record::MakeExtended(created))
}

fn removal<'a>(reader: &mut Reader<'a>, kind: u64) -> Option<Record<'a>> {
    Some(Record::Remove {
        directory: reader.number()?,
        name: reader.name()?,
        is_directory: kind == kind::RMDIR,
    })
}

fn link<'a>(reader: &mut Reader<'a>) -> Option<Record<'a>> {
    Some(Record::Link {
        directory: reader.number()?,
        object: object_of(reader.number()?),
        name: reader.name()?,
    })
}

/// Two names, each with its directory.
type Names<'a> = ((u64, &'a [u8]), (u64, &'a [u8]));

fn rename<'a>(reader: &mut Reader<'a>) -> Option<Names<'a>> {
    let (from, to) = (reader.number()?, reader.number()?);
    Some(((from, reader.name()?), (to, reader.name()?)))
}

fn whiteout<'a>(reader: &mut Reader<'a>) -> Option<Record<'a>> {
    let (from, to) = (reader.number()?, reader.number()?);
    let whiteout = new_object(reader, from)?;
    let is_device = whiteout.mode & 0o170_000 == 0o020_000;
    let (from, to) = ((from, reader.name()?), (to, reader.name()?));
    is_device.then_some(Record::Whiteout { from, to, whiteout })
}

fn extended<'a>(reader: &mut Reader<'a>) -> Option<Record<'a>> {
    let (object, length) = (object_of(reader.number()?), reader.number()?);
    let name = reader.text().filter(|name| !name.is_empty())?;
    let value = reader.rest.get(..usize::try_from(length).ok()?)?;
    Some(Record::Extended {
        object,
        name,
        value,
    })
}

/// The header of a list.
struct ListHead {
    count: u64,
    /// Number of domains of its identity-mapper ids.
    foreigners: u64,
    bytes: usize,
}

impl ListHead {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let head = Self {
            count: reader.number()?,
            foreigners: reader.number()? | reader.number()?,
            bytes: usize::try_from(reader.number()?).ok()?,
        };
        let _flags = reader.number()?;
        Some(head)
    }

    /// The list. The inner `None`: it names an id of another domain, or has audit entries.
    fn list<'a>(&self, reader: &mut Reader<'a>) -> Option<Option<&'a [u8]>> {
        let list = reader.rest.get(..self.bytes)?;
        // Padding to 8 bytes.
        reader.rest = reader.rest.get(self.bytes.next_multiple_of(8)..)?;
        let bytes = self.count.checked_mul(LOGGED_BYTES as u64)?;
        if bytes != self.bytes as u64 {
            return None;
        }
        let is_known = self.foreigners == 0 && decode_logged(list).is_some();
        Some(is_known.then_some(list))
    }
}

fn acl<'a>(reader: &mut Reader<'a>) -> Decoded<'a> {
    let object = object_of(reader.number()?);
    let list = ListHead::read(reader)?.list(reader)?;
    Some(list.map(|list| Record::Acl { object, list }))
}

fn clone<'a>(reader: &mut Reader<'a>) -> Option<Record<'a>> {
    let object = object_of(reader.number()?);
    let (offset, length) = (reader.number()?, reader.number()?);
    let (block_size, count) = (reader.number()?, reader.number()?);
    let bytes = usize::try_from(count).ok()?.checked_mul(POINTER_BYTES)?;
    let end = offset
        .checked_add(length)
        .filter(|end| *end <= i64::MAX as u64)?;
    // The last block may extend past the end of the file; all earlier blocks are full.
    let blocks = end.div_ceil(block_size.max(1)) - offset / block_size.max(1);
    let fits = block_size != 0 && offset % block_size == 0 && blocks == count && length != 0;
    let pointers = reader.rest.get(..bytes).filter(|_| fits)?;
    Some(Record::Clone {
        object,
        offset,
        length,
        block_size,
        pointers,
    })
}

fn write<'a>(reader: &mut Reader<'a>) -> Option<Record<'a>> {
    let (object, offset, length) = range(reader)?;
    // Unused by kernels, which log 0.
    let end = reader.number()?.max(offset + length);
    let (pointer, bytes) = reader.rest.split_at_checked(POINTER_BYTES)?;
    let bytes = match pointer.iter().all(|byte| *byte == 0) {
        true if bytes.is_empty() => Bytes::Here(bytes),
        true => Bytes::Here(bytes.get(..usize::try_from(length).ok()?)?),
        false => Bytes::Block(bytes),
    };
    Some(Record::Write {
        object,
        offset,
        length,
        end,
        bytes,
    })
}

/// An object, and a range of it with a valid end.
fn range(reader: &mut Reader<'_>) -> Option<(u64, u64, u64)> {
    let object = object_of(reader.number()?);
    let (offset, length) = (reader.number()?, reader.number()?);
    offset
        .checked_add(length)
        .filter(|end| *end <= i64::MAX as u64)?;
    Some((object, offset, length))
}

fn write_again<'a>(reader: &mut Reader<'a>) -> Option<Record<'a>> {
    let (object, offset, length) = range(reader)?;
    let _unused = reader.number()?;
    // A pointer to nothing.
    reader.rest.get(..POINTER_BYTES)?;
    Some(Record::WriteAgain {
        object,
        offset,
        length,
    })
}

fn truncation<'a>(reader: &mut Reader<'a>) -> Option<Record<'a>> {
    let (object, offset, length) = range(reader)?;
    Some(Record::Truncate {
        object,
        offset,
        length,
    })
}

fn setting<'a>(reader: &mut Reader<'a>) -> Decoded<'a> {
    let mut set = Setting {
        object: object_of(reader.number()?),
        mask: reader.number()? & (set::KNOWN | set::OPTIONS),
        mode: reader.number()?,
        uid: reader.number()?,
        gid: reader.number()?,
        size: reader.number()?,
        atime: reader.pair()?,
        mtime: reader.pair()?,
        options: Options::default(),
    };
    if set.mask & set::OPTIONS != 0 {
        let Some(options) = Options::decode(reader)? else {
            return Some(None);
        };
        set.options = options;
    }
    Some(Some(Record::Set(set)))
}

/// Writes numbers and names, one after the other.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn numbers(mut self, numbers: &[u64]) -> Self {
        for number in numbers {
            self.0.extend(number.to_ne_bytes());
        }
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn name(self, name: &[u8]) -> Self {
        self.bytes(name).bytes(&[0])
    }

    /// A list, padded to 8 bytes.
    fn list(self, list: &[u8]) -> Self {
        let padding = list.len().next_multiple_of(8) - list.len();
        self.bytes(list).bytes(&[0; 8][..padding])
    }
}

/// The header of a list: entries, domains, foreign ids, bytes, flags.
fn list_head(list: &[u8]) -> [u64; 5] {
    let bytes = list.len() as u64;
    [bytes / LOGGED_BYTES as u64, 0, 0, bytes, 0]
}

impl Creation<'_> {
    /// The fields of a record after the directory.
    fn numbers(&self) -> [u64; 8] {
        [
            self.object | self.slots.saturating_sub(1) << SLOTS_SHIFT,
            self.mode,
            self.uid,
            self.gid,
            self.generation,
            self.crtime[0],
            self.crtime[1],
            self.device,
        ]
    }

    /// Its type.
    pub fn kind(&self) -> u64 {
        let more = (self.list.is_some(), self.options.is_some());
        match (self.mode & 0o170_000, more) {
            (0o040_000, (false, false)) => kind::MKDIR,
            (0o040_000, (true, false)) => kind::MKDIR_ACL,
            (0o040_000, (false, true)) => kind::MKDIR_ATTR,
            (0o040_000, (true, true)) => kind::MKDIR_ACL_ATTR,
            (0o120_000, _) => kind::SYMLINK,
            (_, (false, false)) => kind::CREATE,
            (_, (true, false)) => kind::CREATE_ACL,
            (_, (false, true)) => kind::CREATE_ATTR,
            (_, (true, true)) => kind::CREATE_ACL_ATTR,
        }
    }
}

impl Record<'_> {
    /// Whether an owner or a group is an id that only an identity mapper can resolve. Its domain would precede the
    /// name.
    fn names_foreigners(&self) -> bool {
        let (uid, gid) = match self {
            Self::Create(new) | Self::MakeExtended(new) | Self::Whiteout { whiteout: new, .. } => {
                (new.uid, new.gid)
            }
            Self::Set(set) => {
                let of = |mask: u64, id: u64| if set.mask & mask != 0 { id } else { 0 };
                (of(set::UID, set.uid), of(set::GID, set.gid))
            }
            _ => return false,
        };
        (uid | gid) >> DOMAIN_SHIFT != 0
    }

    /// Type and body of a record for the log. The bytes of a write are fetched later.
    pub fn encode(&self) -> (u64, Vec<u8>) {
        let empty = Writer::default();
        let (kind, writer) = match self {
            Self::Create(new) => {
                let writer = empty.numbers(&[new.directory]).numbers(&new.numbers());
                let writer = match new.list {
                    Some(list) => writer.numbers(&list_head(list)),
                    None => writer,
                };
                let writer = match new.options {
                    Some(options) => writer.numbers(&options.words()),
                    None => writer,
                };
                let writer = writer.list(new.list.unwrap_or_default()).name(new.name);
                let writer = match new.link {
                    Some(link) => writer.name(link),
                    None => writer,
                };
                (new.kind(), writer)
            }
            Self::MakeExtended(new) => {
                let writer = empty.numbers(&[new.directory]);
                (kind::MKXATTR, writer.numbers(&new.numbers()).name(b""))
            }
            Self::Remove {
                directory,
                name,
                is_directory,
            } => {
                let kind = match is_directory {
                    true => kind::RMDIR,
                    false => kind::REMOVE,
                };
                (kind, empty.numbers(&[*directory]).name(name))
            }
            Self::Link {
                directory,
                object,
                name,
            } => (kind::LINK, empty.numbers(&[*directory, *object]).name(name)),
            Self::Rename { from, to } => {
                let writer = empty.numbers(&[from.0, to.0]).name(from.1).name(to.1);
                (kind::RENAME, writer)
            }
            Self::Exchange { from, to } => {
                let writer = empty.numbers(&[from.0, to.0]).name(from.1).name(to.1);
                (kind::RENAME_EXCHANGE, writer)
            }
            Self::Whiteout { from, to, whiteout } => {
                let writer = empty.numbers(&[from.0, to.0]).numbers(&whiteout.numbers());
                (kind::RENAME_WHITEOUT, writer.name(from.1).name(to.1))
            }
            Self::Extended {
                object,
                name,
                value,
            } => {
                let writer = empty.numbers(&[*object, value.len() as u64]).name(name);
                (kind::SETSAXATTR, writer.bytes(value))
            }
            Self::Acl { object, list } => {
                let writer = empty.numbers(&[*object]).numbers(&list_head(list));
                (kind::ACL, writer.list(list))
            }
            Self::Clone {
                object,
                offset,
                length,
                block_size,
                pointers,
            } => {
                let count = (pointers.len() / POINTER_BYTES) as u64;
                let writer = empty.numbers(&[*object, *offset, *length, *block_size, count]);
                (kind::CLONE_RANGE, writer.bytes(pointers))
            }
            Self::Write {
                object,
                offset,
                length,
                end,
                ..
            } => {
                let writer = empty.numbers(&[*object, *offset, *length, *end]);
                (kind::WRITE, writer.numbers(&[0; POINTER_BYTES / 8]))
            }
            Self::WriteAgain {
                object,
                offset,
                length,
            } => {
                let writer = empty.numbers(&[*object, *offset, *length, 0]);
                (kind::WRITE2, writer.numbers(&[0; POINTER_BYTES / 8]))
            }
            Self::Truncate {
                object,
                offset,
                length,
            } => (kind::TRUNCATE, empty.numbers(&[*object, *offset, *length])),
            Self::Set(set) => {
                let numbers = [
                    set.object,
                    set.mask,
                    set.mode,
                    set.uid,
                    set.gid,
                    set.size,
                    set.atime[0],
                    set.atime[1],
                    set.mtime[0],
                    set.mtime[1],
                ];
                let writer = empty.numbers(&numbers);
                let writer = match set.mask & set::OPTIONS {
                    0 => writer,
                    _ => writer.numbers(&set.options.words()),
                };
                (kind::SETATTR, writer)
            }
        };
        (kind, writer.0)
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
