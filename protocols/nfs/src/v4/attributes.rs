//! File attributes on the wire (RFC 8881, 5): a bitmap, followed by the values in its order.

use std::sync::LazyLock;

use file_system::acl::{ENTRIES_MAX, Entry, Who, flag, right};
use file_system::{
    Attributes, Done, FileSystem, Handle, Identity, Limits, Made, Make, Node, Receipt,
    SetAttributes, SetTime, Statistics, Time,
};

use super::numbers::Status;
use super::owners::{self, Owners};
use super::state::MESSAGE_BYTES_MAX;
use crate::handles::HandleKey;
use crate::objects::kind_number;
use crate::xdr::{Malformed, Reader, Writer};

/// Stored words of a bitmap. Later words have no known attribute.
const WORDS: usize = 3;
/// Maximum words of a peer's bitmap.
const WORDS_MAX: usize = 64;
/// Maximum bytes of a peer's attributes.
const VALUES_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of an owner name.
const OWNER_BYTES_MAX: usize = 1024;
/// Bytes of data that one `READ` or `WRITE` carries.
pub const PAYLOAD_BYTES_MAX: u32 = 1 << 20;

const SIZE: u32 = 4;
const RDATTR_ERROR: u32 = 11;
/// Attributes that identify a mount point: type, fsid, rdattr_error and mounted_on_fileid.
const OF_MOUNT_POINTS: &[u32] = &[1, 8, RDATTR_ERROR, 55];
const ACL: u32 = 12;
const ACL_SUPPORT: u32 = 13;
const MODE: u32 = 33;
const OWNER: u32 = 36;
const OWNER_GROUP: u32 = 37;
const TIME_ACCESS: u32 = 47;
const TIME_ACCESS_SET: u32 = 48;
const TIME_MODIFY: u32 = 53;
const TIME_MODIFY_SET: u32 = 54;
/// `suppattr_exclcreat`, since NFS 4.1.
const SUPPORTED_BY_EXCLUSIVE: u32 = 75;

/// Readable attributes.
const READABLE: &[u32] = &[
    0,
    1,
    2,
    3,
    SIZE,
    5,
    6,
    7,
    8,
    9,
    10,
    RDATTR_ERROR,
    ACL,
    ACL_SUPPORT,
    15,
    16,
    17,
    18,
    19,
    20,
    21,
    22,
    23,
    26,
    27,
    28,
    29,
    30,
    31,
    MODE,
    34,
    35,
    OWNER,
    OWNER_GROUP,
    41,
    42,
    43,
    44,
    45,
    47,
    50,
    51,
    52,
    53,
    55,
    SUPPORTED_BY_EXCLUSIVE,
    77,
    79,
    82,
];
/// Writable attributes.
const WRITABLE: &[u32] = &[
    SIZE,
    ACL,
    MODE,
    OWNER,
    OWNER_GROUP,
    TIME_ACCESS_SET,
    TIME_MODIFY_SET,
];
/// Attributes of an exclusive create, without the times, which hold the verifier.
const EXCLUSIVE: &[u32] = &[SIZE, MODE, OWNER, OWNER_GROUP];
/// `aclsupport`: entries that allow and entries that deny.
const ALLOWS_AND_DENIES: u32 = 3;
/// The bit of an entry that names a group (`ACE4_IDENTIFIER_GROUP`).
const NAMES_GROUP: u32 = 0x40;
/// Attributes since NFS 4.2.
const MINOR_2: &[u32] = &[77, 79, 82];

/// `bitmap4`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: [u32; WORDS],
    /// The bitmap had bits beyond the stored words.
    has_more: bool,
}

impl Bitmap {
    fn of(bits: &[u32]) -> Self {
        let mut bitmap = Self::default();
        for bit in bits {
            bitmap.insert(*bit);
        }
        bitmap
    }

    /// Reads a bitmap.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut bitmap = Self::default();
        for index in 0..reader.count(WORDS_MAX)? {
            let word = reader.u32()?;
            match bitmap.words.get_mut(index) {
                Some(kept) => *kept = word,
                None => bitmap.has_more |= word != 0,
            }
        }
        Ok(bitmap)
    }

    /// Writes the bitmap without trailing zero words.
    pub fn write(&self, writer: &mut Writer) {
        let count = self
            .words
            .iter()
            .rposition(|word| *word != 0)
            .map_or(0, |last| last + 1);
        writer.u32(count as u32);
        for word in &self.words[..count] {
            writer.u32(*word);
        }
    }

    fn has(&self, bit: u32) -> bool {
        self.words
            .get(bit as usize / 32)
            .is_some_and(|word| word & (1 << (bit % 32)) != 0)
    }

    fn insert(&mut self, bit: u32) {
        self.words[bit as usize / 32] |= 1 << (bit % 32);
    }

    fn remove(&mut self, bit: u32) {
        self.words[bit as usize / 32] &= !(1 << (bit % 32));
    }

    fn bits(&self) -> impl Iterator<Item = u32> + '_ {
        (0..WORDS as u32 * 32).filter(|bit| self.has(*bit))
    }

    /// Refuses a request for write-only attributes.
    pub fn check_readable(&self) -> Result<(), Status> {
        if self.has(TIME_ACCESS_SET) || self.has(TIME_MODIFY_SET) {
            return Err(Status::INVAL);
        }
        Ok(())
    }

    /// Whether it contains attributes about space or files of the whole file system.
    pub fn needs_statistics(&self) -> bool {
        [21, 22, 23, 42, 43, 44].iter().any(|bit| self.has(*bit))
    }

    /// Whether it contains the access control list.
    pub fn needs_list(&self) -> bool {
        self.has(ACL)
    }

    /// Returns the subset that a client may read of a mount point without further permission.
    #[must_use]
    pub fn of_mount_points(&self) -> Self {
        let mut all = Self::default();
        let known = OF_MOUNT_POINTS.iter().filter(|bit| self.has(**bit));
        known.for_each(|bit| all.insert(*bit));
        all
    }

    /// Whether an error of one entry can be returned as `rdattr_error`.
    pub fn tells_errors(&self) -> bool {
        self.has(RDATTR_ERROR)
    }
}

fn supported(minor: u32, has_acls: bool) -> Bitmap {
    let mut bitmap = Bitmap::of(READABLE);
    for bit in WRITABLE {
        bitmap.insert(*bit);
    }
    if minor < 2 {
        for bit in MINOR_2 {
            bitmap.remove(*bit);
        }
    }
    if minor < 1 {
        bitmap.remove(SUPPORTED_BY_EXCLUSIVE);
    }
    if !has_acls {
        bitmap.remove(ACL);
    }
    bitmap
}

/// The values of attributes.
pub struct Source<'a> {
    /// The object's handle.
    pub handle: Handle,
    /// The key that signs the filehandle.
    pub key: &'a HandleKey,
    /// The number of the directory that it covers, if it is the root of a file system.
    pub covered: Option<u64>,
    /// Limits of its file system.
    pub limits: Limits,
    /// Its attributes.
    pub attributes: &'a Attributes,
    /// Its access control list, if requested.
    pub list: &'a [Entry],
    /// Statistics of its file system.
    pub statistics: &'a Statistics,
    /// Seconds of a lease.
    pub lease_seconds: u32,
    /// Minor version of the protocol.
    pub minor: u32,
}

/// Writes the supported attributes of `wanted` as `fattr4`.
pub fn write(writer: &mut Writer, wanted: &Bitmap, source: &Source<'_>) {
    let supported = supported(source.minor, source.limits.has_acls);
    let mut written = Bitmap::default();
    let mut values = Writer::new();
    for bit in wanted.bits().filter(|bit| supported.has(*bit)) {
        written.insert(bit);
        write_value(&mut values, bit, source, &supported);
    }
    written.write(writer);
    writer.opaque(values.bytes());
}

/// Writes the `fattr4` of an unreadable entry.
pub fn write_error(writer: &mut Writer, status: Status) {
    Bitmap::of(&[RDATTR_ERROR]).write(writer);
    writer.u32(4);
    writer.u32(status.0);
}

fn write_value(values: &mut Writer, bit: u32, source: &Source<'_>, supported: &Bitmap) {
    let Source {
        attributes,
        statistics,
        ..
    } = source;
    match bit {
        0 => supported.write(values),
        1 => values.u32(kind_number(attributes.kind)),
        // Filehandles never expire; the change attribute is monotonic.
        2 | RDATTR_ERROR | 79 => values.u32(0),
        ACL => write_list(values, source.list, source.minor),
        ACL_SUPPORT if source.limits.has_acls => values.u32(ALLOWS_AND_DENIES),
        ACL_SUPPORT => values.u32(0),
        3 => values.u64(attributes.change),
        SIZE => values.u64(attributes.size),
        7 => values.boolean(false),
        5 | 6 | 9 | 15 | 17 | 18 | 26 | 34 | 82 => values.boolean(true),
        8 => {
            values.u64(source.handle.file_system.guid);
            values.u64(source.handle.file_system.snapshot);
        }
        10 => values.u32(source.lease_seconds),
        16 => values.boolean(source.limits.ignores_case),
        19 => values.opaque(&source.key.sign(source.handle)),
        20 => values.u64(source.handle.node.object),
        55 => values.u64(source.covered.unwrap_or(source.handle.node.object)),
        21 | 22 => values.u64(statistics.files_free),
        23 => values.u64(statistics.files_total),
        27 => values.u64(source.limits.file_bytes_max),
        28 => values.u32(source.limits.links_max),
        29 => values.u32(source.limits.name_bytes_max),
        30 | 31 => values.u64(PAYLOAD_BYTES_MAX.into()),
        MODE => values.u32(attributes.mode),
        35 => values.u32(attributes.links),
        OWNER => values.opaque(attributes.uid.to_string().as_bytes()),
        OWNER_GROUP => values.opaque(attributes.gid.to_string().as_bytes()),
        41 => {
            values.u32(attributes.device.0);
            values.u32(attributes.device.1);
        }
        42 | 43 => values.u64(statistics.bytes_free),
        44 => values.u64(statistics.bytes_total),
        45 => values.u64(attributes.space),
        47 => write_time(values, attributes.accessed),
        50 => write_time(values, attributes.created),
        51 => write_time(
            values,
            Time {
                seconds: 0,
                nanoseconds: 1,
            },
        ),
        52 => write_time(values, attributes.changed),
        53 => write_time(values, attributes.modified),
        SUPPORTED_BY_EXCLUSIVE => Bitmap::of(EXCLUSIVE).write(values),
        77 => values.u32(4096),
        _ => {}
    }
}

/// Writes a list of `nfsace4`.
fn write_list(values: &mut Writer, list: &[Entry], minor: u32) {
    values.u32(list.len() as u32);
    for entry in list {
        let names_group = match entry.who {
            Who::Group | Who::Members(_) => NAMES_GROUP,
            _ => 0,
        };
        // NFS 4.0 does not have this flag.
        let inherited = if minor == 0 { flag::INHERITED } else { 0 };
        values.u32(u32::from(!entry.allows));
        values.u32(entry.flags & !inherited | names_group);
        values.u32(entry.mask);
        match entry.who {
            Who::Owner => values.opaque(b"OWNER@"),
            Who::Group => values.opaque(b"GROUP@"),
            Who::Everyone => values.opaque(b"EVERYONE@"),
            Who::User(id) | Who::Members(id) => values.opaque(id.to_string().as_bytes()),
        }
    }
}

/// Reads a list of `nfsace4`. Unknown rights and audit entries are refused.
fn read_list(reader: &mut Reader<'_>) -> Result<Vec<Entry>, Status> {
    let mut list = Vec::new();
    for _ in 0..reader.count(ENTRIES_MAX)? {
        let (kind, flags, mask) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let text = reader.opaque(OWNER_BYTES_MAX)?;
        if kind > 1 || flags & !(flag::ALL | NAMES_GROUP) != 0 || mask & !right::ALL != 0 {
            return Err(Status::ATTRNOTSUPP);
        }
        let who = match text {
            b"OWNER@" => Who::Owner,
            b"GROUP@" => Who::Group,
            b"EVERYONE@" => Who::Everyone,
            _ if flags & NAMES_GROUP != 0 => {
                Who::Members(OWNERS.number(text, owners::Kind::Group)?)
            }
            _ => Who::User(OWNERS.number(text, owners::Kind::User)?),
        };
        list.push(Entry {
            allows: kind == 0,
            flags: flags & flag::ALL,
            mask,
            who,
        });
    }
    Ok(list)
}

fn write_time(values: &mut Writer, time: Time) {
    values.i64(time.seconds);
    values.u32(time.nanoseconds);
}

/// The attributes that a client sets.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The attributes.
    pub bitmap: Bitmap,
    /// The values.
    pub changes: SetAttributes,
    /// The access control list.
    pub list: Option<Vec<Entry>>,
}

impl Wanted {
    /// Creates an object with all of these attributes atomically, because the name may refer to
    /// another object later.
    pub fn make(
        &self,
        files: &dyn FileSystem,
        who: &Identity,
        (directory, name): (Node, &[u8]),
        what: Make<'_>,
        receipt: Option<&Receipt>,
    ) -> Done<Made> {
        let changes = &self.changes;
        match &self.list {
            Some(list) => files.make_with_acl(who, directory, (name, what), changes, list, receipt),
            None => files.make(who, directory, name, what, changes, receipt),
        }
    }

    /// Checks that an exclusive create can set these attributes.
    pub fn check_exclusive(&self) -> Result<(), Status> {
        let allowed = Bitmap::of(EXCLUSIVE);
        match self.bitmap.bits().all(|bit| allowed.has(bit)) {
            true => Ok(()),
            false => Err(Status::INVAL),
        }
    }

    /// Returns the attributes that an exclusive create has set, including the times that hold its
    /// verifier: the client sets these again (RFC 8881, 18.16.4).
    pub fn bitmap_of_exclusive(&self) -> Bitmap {
        let mut bitmap = self.bitmap;
        bitmap.insert(TIME_ACCESS);
        bitmap.insert(TIME_MODIFY);
        bitmap
    }

    /// Whether they set the size to 0.
    pub fn truncates(&self) -> bool {
        self.changes.size == Some(0)
    }

    /// Returns a bitmap with only the size.
    pub fn only_size() -> Bitmap {
        Bitmap::of(&[SIZE])
    }
}

/// An undecoded `fattr4`.
pub struct Unread<'a> {
    bitmap: Bitmap,
    values: &'a [u8],
}

/// Reads a `fattr4` from the arguments. [`Unread::understand`] checks its content.
pub fn read<'a>(reader: &mut Reader<'a>) -> Result<Unread<'a>, Malformed> {
    Ok(Unread {
        bitmap: Bitmap::read(reader)?,
        values: reader.opaque(VALUES_BYTES_MAX.min(MESSAGE_BYTES_MAX as usize))?,
    })
}

impl Unread<'_> {
    /// Decodes the attributes to set.
    pub fn understand(&self, minor: u32, has_acls: bool) -> Result<Wanted, Status> {
        let supported = supported(minor, has_acls);
        if self.bitmap.has_more || self.bitmap.bits().any(|bit| !supported.has(bit)) {
            return Err(Status::ATTRNOTSUPP);
        }
        if self.bitmap.bits().any(|bit| !WRITABLE.contains(&bit)) {
            return Err(Status::INVAL);
        }
        let mut reader = Reader::new(self.values);
        let mut changes = SetAttributes::default();
        let mut list = None;
        for bit in self.bitmap.bits() {
            match bit {
                SIZE => changes.size = Some(reader.u64()?),
                MODE => {
                    let mode = reader.u32()?;
                    if mode & !0o7777 != 0 {
                        return Err(Status::INVAL);
                    }
                    changes.mode = Some(mode);
                }
                ACL => list = Some(read_list(&mut reader)?),
                OWNER => changes.uid = Some(read_owner(&mut reader, owners::Kind::User)?),
                OWNER_GROUP => changes.gid = Some(read_owner(&mut reader, owners::Kind::Group)?),
                TIME_ACCESS_SET => changes.accessed = Some(read_time(&mut reader)?),
                TIME_MODIFY_SET => changes.modified = Some(read_time(&mut reader)?),
                _ => return Err(Status::INVAL),
            }
        }
        if !reader.rest().is_empty() {
            return Err(Status::BADXDR);
        }
        Ok(Wanted {
            bitmap: self.bitmap,
            changes,
            list,
        })
    }

    /// The bitmap.
    pub fn bitmap(&self) -> &Bitmap {
        &self.bitmap
    }

    /// Whether a node has these attributes, for `VERIFY`.
    pub fn is_same(&self, source: &Source<'_>) -> Result<bool, Status> {
        let supported = supported(source.minor, source.limits.has_acls);
        if self.bitmap.has_more || self.bitmap.bits().any(|bit| !supported.has(bit)) {
            return Err(Status::ATTRNOTSUPP);
        }
        self.bitmap.check_readable()?;
        if self.bitmap.has(RDATTR_ERROR) {
            return Err(Status::INVAL);
        }
        let mut values = Writer::new();
        for bit in self.bitmap.bits() {
            write_value(&mut values, bit, source, &supported);
        }
        Ok(values.bytes() == self.values)
    }
}

/// Cached IDs of owner names.
static OWNERS: LazyLock<Owners> = LazyLock::new(Owners::default);

fn read_owner(reader: &mut Reader<'_>, kind: owners::Kind) -> Result<u32, Status> {
    OWNERS.number(reader.opaque(OWNER_BYTES_MAX)?, kind)
}

fn read_time(reader: &mut Reader<'_>) -> Result<SetTime, Status> {
    match reader.u32()? {
        0 => Ok(SetTime::Now),
        1 => {
            let time = Time {
                seconds: reader.i64()?,
                nanoseconds: reader.u32()?,
            };
            if time.nanoseconds >= 1_000_000_000 {
                return Err(Status::INVAL);
            }
            Ok(SetTime::To(time))
        }
        _ => Err(Status::BADXDR),
    }
}
