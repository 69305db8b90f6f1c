//! Records of a file system's intent log, as kernel ZFS writes and replays them (`sys/zil.h`), behind their common
//! header. Numbers have the byte order of this machine: a foreign log is refused before it comes to this.

use file_system::Receipt;

use crate::acl::{LOGGED_BYTES, decode_logged};

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
    pub const SETSAXATTR: u64 = 21;
    pub const RENAME_EXCHANGE: u64 = 22;
    pub const RENAME_WHITEOUT: u64 = 23;
    pub const CLONE_RANGE: u64 = 24;
}

/// What a record of attributes sets: bits of its mask, as Linux has them.
pub mod set {
    #![allow(missing_docs)]
    pub const MODE: u64 = 0x1;
    pub const UID: u64 = 0x2;
    pub const GID: u64 = 0x4;
    pub const SIZE: u64 = 0x8;
    pub const ATIME: u64 = 0x10;
    pub const MTIME: u64 = 0x20;
    pub const CTIME: u64 = 0x40;
    /// What this crate can replay. A kernel logs other bits of its system calls, too, which say nothing about the file.
    pub const KNOWN: u64 = MODE | UID | GID | SIZE | ATIME | MTIME | CTIME;
    /// Flags of the file follow (`chattr`).
    pub const FLAGS: u64 = 1 << 31;
}

/// Bytes of a block pointer.
const POINTER_BYTES: usize = 128;
/// The lower bits of an object's number in a record; above are its places in the table of objects, less one.
const OBJECT_BITS: u32 = 48;
const SLOTS_SHIFT: u32 = 56;

/// A creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Creation<'a> {
    pub directory: u64,
    /// 0 in what is to be logged: the transaction tells it.
    pub object: u64,
    /// Places in the table of objects.
    pub slots: u64,
    pub mode: u64,
    pub uid: u64,
    pub gid: u64,
    /// 0 in what is to be logged, as the number.
    pub generation: u64,
    pub crtime: [u64; 2],
    pub device: u64,
    pub name: &'a [u8],
    /// Of a symbolic link where it leads.
    pub link: Option<&'a [u8]>,
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
    /// Flags of the object that are set or cleared, as they are stored: which, and those of them that are set.
    pub flags: [u64; 2],
}

/// A flag in a record (`XAT0_*`), and as it is stored.
const FLAGS: [(u64, u64); 12] = [
    (0x2, 0x8_0000_0000),
    (0x4, 0x4_0000_0000),
    (0x8, 0x1_0000_0000),
    (0x10, 0x2_0000_0000),
    (0x20, 0x20_0000_0000),
    (0x40, 0x10_0000_0000),
    (0x80, 0x40_0000_0000),
    (0x100, 0x80_0000_0000),
    (0x200, 0x100_0000_0000),
    (0x400, 0x200_0000_0000),
    (0x800, 0x400_0000_0000),
    (0x2_0000, 0x4000_0000_0000),
];
/// Words of the map of what is set (`XVA_MAPSIZE`).
const MAP_WORDS: u32 = 3;
/// Bytes behind the flags: a time and a stamp, which are not set here.
const BEHIND_FLAGS: usize = 48;

/// Where the bytes of a write are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes<'a> {
    /// In the record. Empty while nobody has fetched them.
    Here(&'a [u8]),
    /// They are those of a whole block, which the library puts behind the record for a replay.
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
    /// Two names change places.
    Exchange {
        from: (u64, &'a [u8]),
        to: (u64, &'a [u8]),
    },
    /// A device with the numbers 0 takes the place of what is renamed: overlay file systems hide lower files so.
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
        bytes: Bytes<'a>,
    },
    /// A range becomes a hole; a length of 0 cuts the file there.
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
    /// An extended attribute in the list of those; an empty value takes it away.
    Extended {
        object: u64,
        name: &'a [u8],
        value: &'a [u8],
    },
    /// A range gets blocks that another file has, too.
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
    /// This crate has no replay for it.
    #[error("a record of type {kind} cannot be replayed here")]
    Unsupported {
        /// Its type.
        kind: u64,
    },
    /// It is not as long as it has to be, or says what cannot be.
    #[error("a record of type {kind} with {length} bytes is damaged")]
    Damaged {
        /// Its type.
        kind: u64,
        /// Its length.
        length: usize,
    },
}

/// Reads numbers and names, one after the other.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (word, rest) = self.rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(u64::from_ne_bytes(*word))
    }

    fn pair(&mut self) -> Option<[u64; 2]> {
        Some([self.number()?, self.number()?])
    }

    /// A name that ends with a NUL.
    fn name(&mut self) -> Option<&'a [u8]> {
        let length = self.rest.iter().position(|byte| *byte == 0)?;
        let (name, rest) = self.rest.split_at(length);
        self.rest = rest.get(1..)?;
        (!name.is_empty() && !name.contains(&b'/')).then_some(name)
    }

    /// Text that ends with a NUL and may have anything else.
    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.rest.iter().position(|byte| *byte == 0)?;
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest.get(1..)?;
        Some(text)
    }
}

const fn object_of(word: u64) -> u64 {
    word & ((1 << OBJECT_BITS) - 1)
}

/// What stands before a [`Receipt`] behind the rest of a record. A kernel reads names up to their NUL, and as many bytes of a list or a value
/// as their length says, and nothing behind them.
const RECEIPT_MARK: &[u8; 8] = b"bhreceip";

/// Puts the receipt of a change behind its record.
pub fn append_receipt(body: &mut Vec<u8>, receipt: &Receipt) {
    body.extend(RECEIPT_MARK);
    body.extend(receipt.to_bytes());
}

/// The receipt behind a record, if there is one. The record is whole.
pub fn receipt_of(kind: u64, body: &[u8]) -> Option<Receipt> {
    let (words, names) = match kind {
        kind::CREATE | kind::MKDIR => (9, 1),
        kind::SYMLINK => (9, 2),
        kind::REMOVE | kind::RMDIR => (1, 1),
        kind::LINK | kind::SETSAXATTR => (2, 1),
        kind::RENAME => (2, 2),
        kind::SETATTR => (10, 0),
        kind::ACL => (6, 0),
        _ => return None,
    };
    let (numbers, rest) = body.split_at_checked(words * 8)?;
    let mut reader = Reader { rest };
    for _ in 0..names {
        reader.text()?;
    }
    // The word with the length of what follows.
    let length = match kind {
        kind::SETSAXATTR => Some(1),
        kind::ACL => Some(4),
        _ => None,
    };
    if let Some(word) = length {
        let length = numbers[word * 8..].first_chunk().copied()?;
        let mut length = usize::try_from(u64::from_ne_bytes(length)).ok()?;
        if kind == kind::ACL {
            length = length.checked_next_multiple_of(8)?;
        }
        reader.rest = reader.rest.get(length..)?;
    }
    let receipt = reader.rest.strip_prefix(RECEIPT_MARK)?;
    receipt.first_chunk().map(Receipt::from_bytes)
}

/// Understands a record.
pub fn decode(kind: u64, body: &[u8]) -> Result<Record<'_>, BadRecord> {
    let mut reader = Reader { rest: body };
    let decoded = match kind {
        kind::CREATE | kind::MKDIR | kind::SYMLINK => creation(&mut reader, kind),
        kind::REMOVE | kind::RMDIR => removal(&mut reader, kind),
        kind::LINK => link(&mut reader),
        kind::RENAME => rename(&mut reader).map(|(from, to)| Record::Rename { from, to }),
        kind::RENAME_EXCHANGE => {
            rename(&mut reader).map(|(from, to)| Record::Exchange { from, to })
        }
        kind::RENAME_WHITEOUT => whiteout(&mut reader),
        kind::MKXATTR => extended_directory(&mut reader),
        kind::SETSAXATTR => extended(&mut reader),
        kind::CLONE_RANGE => clone(&mut reader),
        kind::ACL => {
            let (list, names_foreigners) = list(&mut reader).unzip();
            if names_foreigners == Some(true) {
                return Err(BadRecord::Unsupported { kind });
            }
            list
        }
        kind::WRITE => write(&mut reader),
        kind::TRUNCATE => truncation(&mut reader),
        kind::SETATTR => {
            let mut set = setting(&mut reader);
            if set.is_some_and(|set| set.mask & set::FLAGS != 0) {
                let flags = flags(&mut reader);
                if flags.is_some_and(|flags| flags.is_none()) {
                    return Err(BadRecord::Unsupported { kind });
                }
                let with = |flags| set.map(|set| Setting { flags, ..set });
                set = flags.flatten().and_then(with);
            }
            set.map(|set| {
                let mask = set.mask & (set::KNOWN | set::FLAGS);
                Record::Set(Setting { mask, ..set })
            })
        }
        _ => return Err(BadRecord::Unsupported { kind }),
    };
    decoded.ok_or(BadRecord::Damaged {
        kind,
        length: body.len(),
    })
}

/// What a record of a creation says of the new object, behind its directory.
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
        name: b"",
        link: None,
    };
    (created.object != 0 && created.generation != 0).then_some(created)
}

fn creation<'a>(reader: &mut Reader<'a>, kind: u64) -> Option<Record<'a>> {
    let directory = reader.number()?;
    let mut created = new_object(reader, directory)?;
    created.name = reader.name()?;
    if kind == kind::SYMLINK {
        created.link = Some(reader.text()?);
    }
    (created.kind() == kind).then_some(Record::Create(created))
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

/// A list, and whether it names somebody whom only an identity mapper knows, or audits.
fn list<'a>(reader: &mut Reader<'a>) -> Option<(Record<'a>, bool)> {
    let (object, count) = (object_of(reader.number()?), reader.number()?);
    let foreigners = reader.number()? | reader.number()?;
    let (length, _flags) = (usize::try_from(reader.number()?).ok()?, reader.number()?);
    let list = reader.rest.get(..length)?;
    let entries = count.checked_mul(LOGGED_BYTES as u64);
    let is_whole = entries == Some(length as u64);
    let is_other = foreigners != 0 || decode_logged(list).is_none();
    is_whole.then_some((Record::Acl { object, list }, is_other))
}

fn clone<'a>(reader: &mut Reader<'a>) -> Option<Record<'a>> {
    let object = object_of(reader.number()?);
    let (offset, length) = (reader.number()?, reader.number()?);
    let (block_size, count) = (reader.number()?, reader.number()?);
    let bytes = usize::try_from(count).ok()?.checked_mul(POINTER_BYTES)?;
    let end = offset
        .checked_add(length)
        .filter(|end| *end <= i64::MAX as u64)?;
    // The last block may be behind the end of the file; all others are whole.
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
    let object = object_of(reader.number()?);
    let (offset, length, _unused) = (reader.number()?, reader.number()?, reader.number()?);
    let (pointer, bytes) = reader.rest.split_at_checked(POINTER_BYTES)?;
    let bytes = match pointer.iter().all(|byte| *byte == 0) {
        true if bytes.is_empty() => Bytes::Here(bytes),
        true => Bytes::Here(bytes.get(..usize::try_from(length).ok()?)?),
        false => Bytes::Block(bytes),
    };
    offset
        .checked_add(length)
        .filter(|end| *end <= i64::MAX as u64)?;
    Some(Record::Write {
        object,
        offset,
        length,
        bytes,
    })
}

fn truncation<'a>(reader: &mut Reader<'a>) -> Option<Record<'a>> {
    let object = object_of(reader.number()?);
    let (offset, length) = (reader.number()?, reader.number()?);
    offset
        .checked_add(length)
        .filter(|end| *end <= i64::MAX as u64)?;
    Some(Record::Truncate {
        object,
        offset,
        length,
    })
}

fn setting(reader: &mut Reader<'_>) -> Option<Setting> {
    Some(Setting {
        object: object_of(reader.number()?),
        mask: reader.number()?,
        mode: reader.number()?,
        uid: reader.number()?,
        gid: reader.number()?,
        size: reader.number()?,
        atime: reader.pair()?,
        mtime: reader.pair()?,
        flags: [0; 2],
    })
}

/// The flags of a record; nothing in it: it sets what is no flag, such as a project.
fn flags(reader: &mut Reader<'_>) -> Option<Option<[u64; 2]>> {
    let words = reader.number()?;
    // Two words of 32 bits: the length of the map, and its first.
    let (count, which) = match cfg!(target_endian = "little") {
        true => (words as u32, words >> 32),
        false => ((words >> 32) as u32, words & 0xffff_ffff),
    };
    let others = reader.number()?;
    let values = reader.number()?;
    reader.rest.get(..BEHIND_FLAGS)?;
    let known = FLAGS.iter().fold(0, |known, (bit, _)| known | bit);
    if count != MAP_WORDS || others != 0 || which & !known != 0 {
        return Some(None);
    }
    let stored = |bits: u64| {
        let set = FLAGS.iter().filter(|(bit, _)| bits & bit != 0);
        set.fold(0, |stored, (_, flag)| stored | flag)
    };
    Some(Some([stored(which), stored(which & values)]))
}

/// The same as words of a record.
fn flag_words([which, values]: [u64; 2]) -> [u64; 9] {
    let bits = |stored: u64| {
        let set = FLAGS.iter().filter(|(_, flag)| stored & flag != 0);
        set.fold(0, |bits, (bit, _)| bits | bit)
    };
    let map = match cfg!(target_endian = "little") {
        true => u64::from(MAP_WORDS) | bits(which) << 32,
        false => u64::from(MAP_WORDS) << 32 | bits(which),
    };
    [map, 0, bits(values), 0, 0, 0, 0, 0, 0]
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
}

impl Creation<'_> {
    /// What stands in a record behind the directory.
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
        match self.mode & 0o170_000 {
            0o040_000 => kind::MKDIR,
            0o120_000 => kind::SYMLINK,
            _ => kind::CREATE,
        }
    }
}

impl Record<'_> {
    /// Type and body of a record for the log. Of a write the bytes are fetched later.
    pub fn encode(&self) -> (u64, Vec<u8>) {
        let empty = Writer::default();
        let (kind, writer) = match self {
            Self::Create(new) => {
                let writer = empty.numbers(&[new.directory]);
                let writer = writer.numbers(&new.numbers()).name(new.name);
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
                let length = list.len() as u64;
                let count = length / LOGGED_BYTES as u64;
                let writer = empty.numbers(&[*object, count, 0, 0, length, 0]);
                let padding = list.len().next_multiple_of(8) - list.len();
                (kind::ACL, writer.bytes(list).bytes(&[0; 8][..padding]))
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
                ..
            } => {
                let writer = empty.numbers(&[*object, *offset, *length, 0]);
                (kind::WRITE, writer.numbers(&[0; POINTER_BYTES / 8]))
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
                let writer = match set.mask & set::FLAGS {
                    0 => writer,
                    _ => writer.numbers(&flag_words(set.flags)),
                };
                (kind::SETATTR, writer)
            }
        };
        (kind, writer.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(record: &Record<'_>) {
        let (kind, body) = record.encode();
        assert_eq!(decode(kind, &body), Ok(*record));
        for length in 0..body.len() {
            let cut = decode(kind, &body[..length]);
            assert!(cut.is_err(), "{kind} cut at {length}: {cut:?}");
        }
    }

    #[test]
    fn what_is_logged_is_understood_and_what_is_cut_is_not() {
        let file = Creation {
            directory: 34,
            object: 128,
            slots: 2,
            mode: 0o100_644,
            uid: 1,
            gid: 2,
            generation: 77,
            crtime: [5, 6],
            device: 0,
            name: b"name",
            link: None,
        };
        back(&Record::Create(file));
        back(&Record::Create(Creation {
            mode: 0o040_755,
            ..file
        }));
        back(&Record::Create(Creation {
            mode: 0o120_777,
            link: Some(b"a/b"),
            ..file
        }));
        for is_directory in [false, true] {
            back(&Record::Remove {
                directory: 34,
                name: b"name",
                is_directory,
            });
        }
        back(&Record::Link {
            directory: 34,
            object: 128,
            name: b"name",
        });
        back(&Record::Rename {
            from: (34, b"from"),
            to: (35, b"to"),
        });
        back(&Record::MakeExtended(Creation {
            mode: 0o040_777,
            name: b"",
            ..file
        }));
        back(&Record::Exchange {
            from: (34, b"from"),
            to: (35, b"to"),
        });
        back(&Record::Whiteout {
            from: (34, b"from"),
            to: (35, b"to"),
            whiteout: Creation {
                mode: 0o020_000,
                name: b"",
                ..file
            },
        });
        back(&Record::Extended {
            object: 128,
            name: b"user.a/b",
            value: b"value",
        });
        back(&Record::Clone {
            object: 128,
            offset: 8192,
            length: 5000,
            block_size: 4096,
            pointers: &[7; 256],
        });
        back(&Record::Acl {
            object: 128,
            list: &[0; 24],
        });
        back(&Record::Truncate {
            object: 128,
            offset: 4096,
            length: 0,
        });
        back(&Record::Set(Setting {
            object: 128,
            mask: set::KNOWN,
            mode: 0o600,
            uid: 1,
            gid: 2,
            size: 3,
            atime: [4, 5],
            mtime: [6, 7],
            flags: [0; 2],
        }));
        back(&Record::Set(Setting {
            object: 128,
            mask: set::MODE | set::FLAGS,
            mode: 0o600,
            flags: [0x30_0000_0000, 0x10_0000_0000],
            ..Setting::default()
        }));
    }

    #[test]
    fn a_write_has_its_bytes_in_the_record_or_in_a_block() {
        let record = Record::Write {
            object: 128,
            offset: 10,
            length: 3,
            bytes: Bytes::Here(b""),
        };
        let (kind, mut body) = record.encode();
        assert_eq!(body.len(), 160);
        assert_eq!(decode(kind, &body), Ok(record));
        body.extend(b"ab");
        assert!(decode(kind, &body).is_err(), "bytes are missing");
        body.extend(b"c\0\0\0\0\0");
        let here = decode(kind, &body);
        assert!(matches!(
            here,
            Ok(Record::Write {
                bytes: Bytes::Here(b"abc"),
                ..
            })
        ));
        body[40] = 1;
        let block = decode(kind, &body);
        let whole = b"abc\0\0\0\0\0";
        assert!(
            matches!(block, Ok(Record::Write { bytes: Bytes::Block(bytes), .. }) if bytes == whole)
        );
    }

    #[test]
    fn a_receipt_stands_behind_the_rest() {
        let receipt = Receipt {
            place: [7; 20],
            number: 8,
            step: 9,
        };
        let (directory, name) = (34, b"name".as_slice());
        let link = Creation {
            directory,
            object: 128,
            slots: 1,
            mode: 0o120_777,
            generation: 77,
            name,
            link: Some(b"a/b"),
            ..Creation::default()
        };
        let records = [
            Record::Create(link),
            Record::Create(Creation {
                mode: 0o040_755,
                link: None,
                ..link
            }),
            Record::Remove {
                directory,
                name,
                is_directory: true,
            },
            Record::Link {
                directory,
                object: 128,
                name,
            },
            Record::Rename {
                from: (directory, name),
                to: (directory, name),
            },
            Record::Set(Setting {
                object: 128,
                mask: set::MODE,
                mode: 0o600,
                ..Setting::default()
            }),
            Record::Acl {
                object: 128,
                list: &[0; 36],
            },
            Record::Extended {
                object: 128,
                name,
                value: b"value",
            },
            Record::Extended {
                object: 128,
                name,
                value: b"",
            },
        ];
        for record in records {
            let (kind, mut body) = record.encode();
            assert_eq!(receipt_of(kind, &body), None);
            append_receipt(&mut body, &receipt);
            assert_eq!(decode(kind, &body), Ok(record));
            assert_eq!(receipt_of(kind, &body), Some(receipt));
            body.pop();
            assert_eq!(receipt_of(kind, &body), None);
        }
    }

    /// The bytes of `lr_create_t`, one number after the other.
    #[test]
    fn a_creation_has_the_layout_of_zil_h() {
        let record = Record::Create(Creation {
            directory: 1,
            object: 2,
            slots: 3,
            mode: 0o100_644,
            uid: 5,
            gid: 6,
            generation: 7,
            crtime: [8, 9],
            device: 10,
            name: b"n",
            link: None,
        });
        let (kind, body) = record.encode();
        let numbers = [1, 2 | 2 << 56, 0o100_644, 5, 6, 7, 8, 9, 10_u64];
        let expected: Vec<u8> = numbers.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(kind, kind::CREATE);
        assert_eq!(body, [expected, b"n\0".to_vec()].concat());
    }

    #[test]
    fn what_cannot_be_replayed_is_told_by_its_type() {
        for kind in [0, 12, 14, 20, 25, 1 << 63 | 5] {
            assert_eq!(decode(kind, &[0; 64]), Err(BadRecord::Unsupported { kind }));
        }
        let set = Setting {
            object: 1,
            mask: set::FLAGS,
            ..Setting::default()
        };
        let (kind, mut body) = Record::Set(set).encode();
        // Somebody of another domain.
        let list = Record::Acl {
            object: 1,
            list: &[0; 12],
        };
        let (acl, mut bytes) = list.encode();
        bytes[16] = 1;
        let refused = Err(BadRecord::Unsupported { kind: acl });
        assert_eq!(decode(acl, &bytes), refused);
        // A project.
        body[80 + 6] = 4;
        assert_eq!(decode(kind, &body), Err(BadRecord::Unsupported { kind }));
    }
}
