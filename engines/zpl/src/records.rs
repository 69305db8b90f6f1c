//! Records of a file system's intent log, as kernel ZFS writes and replays them (`sys/zil.h`), behind their common
//! header. Numbers have the byte order of this machine: a foreign log is refused before it comes to this.

/// Types of records (`TX_*`).
pub mod kind {
    #![allow(missing_docs)]
    pub const CREATE: u64 = 1;
    pub const MKDIR: u64 = 2;
    pub const SYMLINK: u64 = 4;
    pub const REMOVE: u64 = 5;
    pub const RMDIR: u64 = 6;
    pub const LINK: u64 = 7;
    pub const RENAME: u64 = 8;
    pub const WRITE: u64 = 9;
    pub const TRUNCATE: u64 = 10;
    pub const SETATTR: u64 = 11;
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
    /// What this crate can replay.
    pub const KNOWN: u64 = MODE | UID | GID | SIZE | ATIME | MTIME | CTIME;
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
}

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

/// Understands a record.
pub fn decode(kind: u64, body: &[u8]) -> Result<Record<'_>, BadRecord> {
    let mut reader = Reader { rest: body };
    let decoded = match kind {
        kind::CREATE | kind::MKDIR | kind::SYMLINK => creation(&mut reader, kind),
        kind::REMOVE | kind::RMDIR => removal(&mut reader, kind),
        kind::LINK => link(&mut reader),
        kind::RENAME => rename(&mut reader),
        kind::WRITE => write(&mut reader),
        kind::TRUNCATE => truncation(&mut reader),
        kind::SETATTR => {
            let set = setting(&mut reader);
            if set.is_some_and(|set| set.mask & !set::KNOWN != 0) {
                return Err(BadRecord::Unsupported { kind });
            }
            set.map(Record::Set)
        }
        _ => return Err(BadRecord::Unsupported { kind }),
    };
    decoded.ok_or(BadRecord::Damaged {
        kind,
        length: body.len(),
    })
}

fn creation<'a>(reader: &mut Reader<'a>, kind: u64) -> Option<Record<'a>> {
    let directory = reader.number()?;
    let object = reader.number()?;
    let (mode, uid, gid, generation) = (
        reader.number()?,
        reader.number()?,
        reader.number()?,
        reader.number()?,
    );
    let (crtime, device) = (reader.pair()?, reader.number()?);
    let name = reader.name()?;
    let link = match kind {
        kind::SYMLINK => Some(reader.text()?),
        _ => None,
    };
    let is_directory = mode & 0o170_000 == 0o040_000;
    let is_link = mode & 0o170_000 == 0o120_000;
    let fits = is_directory == (kind == kind::MKDIR) && is_link == link.is_some();
    let created = Creation {
        directory,
        object: object_of(object),
        slots: (object >> SLOTS_SHIFT) + 1,
        mode,
        uid,
        gid,
        generation,
        crtime,
        device,
        name,
        link,
    };
    (fits && created.object != 0 && generation != 0).then_some(Record::Create(created))
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

fn rename<'a>(reader: &mut Reader<'a>) -> Option<Record<'a>> {
    let (from, to) = (reader.number()?, reader.number()?);
    Some(Record::Rename {
        from: (from, reader.name()?),
        to: (to, reader.name()?),
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
    })
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

    fn name(mut self, name: &[u8]) -> Self {
        self.0.extend(name);
        self.0.push(0);
        self
    }
}

impl Creation<'_> {
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
                let object = new.object | new.slots.saturating_sub(1) << SLOTS_SHIFT;
                let numbers = [
                    new.directory,
                    object,
                    new.mode,
                    new.uid,
                    new.gid,
                    new.generation,
                    new.crtime[0],
                    new.crtime[1],
                    new.device,
                ];
                let writer = empty.numbers(&numbers).name(new.name);
                let writer = match new.link {
                    Some(link) => writer.name(link),
                    None => writer,
                };
                (new.kind(), writer)
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
                (kind::SETATTR, empty.numbers(&numbers))
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
        for kind in [0, 3, 12, 13, 14, 20, 21, 24, 1 << 63 | 5] {
            assert_eq!(decode(kind, &[0; 64]), Err(BadRecord::Unsupported { kind }));
        }
        let set = Setting {
            object: 1,
            mask: 1 << 31,
            ..Setting::default()
        };
        let (kind, body) = Record::Set(set).encode();
        assert_eq!(decode(kind, &body), Err(BadRecord::Unsupported { kind }));
    }
}
