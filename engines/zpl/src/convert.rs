//! Converts between stored attributes and those of the interface.

use file_system::{Attributes, Done, FileError, Kind, Time};

use crate::objects::{Has, ObjectError, Stored, StoredTime};

/// The type in a mode (`S_IFMT`).
pub const TYPE_MASK: u64 = 0o170_000;
/// Permissions, set-user-id, set-group-id and sticky.
pub const MODE_MASK: u64 = 0o7777;
/// The number in a directory's entry; the type is in the upper four bits.
const ENTRY_OBJECT: u64 = (1 << 48) - 1;
const ENTRY_TYPE_SHIFT: u32 = 60;
/// The owner of objects that belong to a user of an identity mapper.
const NOBODY: u32 = 65_534;
const DEVICE_MINOR_BITS: u32 = 20;

/// Flags of an object (`sys/zfs_znode.h`).
pub mod flag {
    #![allow(missing_docs)]
    pub const EXTENDED: u64 = 0x1;
    pub const INHERIT: u64 = 0x2;
    pub const ACL_TRIVIAL: u64 = 0x4;
    pub const NO_EXECUTE_DENIED: u64 = 0x100;
    pub const READ_ONLY: u64 = 0x1_0000_0000;
    pub const IMMUTABLE: u64 = 0x10_0000_0000;
    pub const NO_UNLINK: u64 = 0x20_0000_0000;
    pub const APPEND_ONLY: u64 = 0x40_0000_0000;
    pub const ARCHIVE: u64 = 0x8_0000_0000;
    pub const MODIFIED: u64 = 0x400_0000_0000;
    pub const PROJECT_INHERITS: u64 = 0x4000_0000_0000;
    pub const PROJECT: u64 = 0x8000_0000_0000;
}

/// The type of an object.
pub fn kind_of(mode: u64) -> Option<Kind> {
    match mode & TYPE_MASK {
        0o100_000 => Some(Kind::File),
        0o040_000 => Some(Kind::Directory),
        0o120_000 => Some(Kind::Link),
        0o060_000 => Some(Kind::BlockDevice),
        0o020_000 => Some(Kind::CharacterDevice),
        0o140_000 => Some(Kind::Socket),
        0o010_000 => Some(Kind::Pipe),
        _ => None,
    }
}

/// The file type as a part of a mode.
pub const fn type_of(kind: Kind) -> u64 {
    match kind {
        Kind::File => 0o100_000,
        Kind::Directory => 0o040_000,
        Kind::Link => 0o120_000,
        Kind::BlockDevice => 0o060_000,
        Kind::CharacterDevice => 0o020_000,
        Kind::Socket => 0o140_000,
        Kind::Pipe => 0o010_000,
    }
}

/// The entry for an object, without its number.
pub const fn entry_type(mode: u64) -> u64 {
    ((mode & TYPE_MASK) >> 12) << ENTRY_TYPE_SHIFT
}

/// The object number of an entry.
pub const fn entry_object(value: u64) -> u64 {
    value & ENTRY_OBJECT
}

/// Major and minor number as Linux stores them.
pub const fn device_of(major: u32, minor: u32) -> u64 {
    (major as u64) << DEVICE_MINOR_BITS | minor as u64 & ((1 << DEVICE_MINOR_BITS) - 1)
}

/// An owner or group.
fn id_of(stored: u64) -> u32 {
    u32::try_from(stored).unwrap_or(NOBODY)
}

/// Converts a stored time.
pub fn time_of(stored: StoredTime) -> Time {
    Time {
        // Years before 1970 are negative.
        seconds: stored[0] as i64,
        nanoseconds: u32::try_from(stored[1]).unwrap_or(0).min(999_999_999),
    }
}

/// A time as it is stored.
pub fn stored_time(time: Time) -> StoredTime {
    [time.seconds as u64, u64::from(time.nanoseconds)]
}

/// The time of a change: clients distinguish changes by it, so it is later than the previous one.
pub fn now_after(before: StoredTime) -> StoredTime {
    let before = time_of(before);
    let next = match before.nanoseconds {
        999_999_999 => Time {
            seconds: before.seconds.saturating_add(1),
            nanoseconds: 0,
        },
        nanoseconds => Time {
            nanoseconds: nanoseconds + 1,
            ..before
        },
    };
    stored_time(Time::now().max(next))
}

/// Converts the attributes of an object.
pub fn attributes_of(stored: &Stored) -> Done<Attributes> {
    let kind = kind_of(stored.mode).filter(|_| stored.has.has(Has::ESSENTIAL));
    let changed = time_of(stored.ctime);
    let change = (changed.seconds as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(u64::from(changed.nanoseconds));
    Ok(Attributes {
        kind: kind.ok_or(FileError::Io)?,
        mode: (stored.mode & MODE_MASK) as u32,
        links: u32::try_from(stored.links).unwrap_or(u32::MAX),
        uid: id_of(stored.uid),
        gid: id_of(stored.gid),
        size: stored.size,
        space: stored.space,
        device: (
            (stored.device >> DEVICE_MINOR_BITS) as u32,
            (stored.device & ((1 << DEVICE_MINOR_BITS) - 1)) as u32,
        ),
        change,
        accessed: time_of(stored.atime),
        modified: time_of(stored.mtime),
        changed,
        created: time_of(stored.crtime),
    })
}

/// `stored` with the attributes of `set` applied.
pub fn merged(stored: &Stored, set: &Stored) -> Stored {
    let mut after = *stored;
    let has = |which| set.has.has(which);
    let numbers = [
        (Has::MODE, &mut after.mode, set.mode),
        (Has::SIZE, &mut after.size, set.size),
        (Has::UID, &mut after.uid, set.uid),
        (Has::GID, &mut after.gid, set.gid),
        (Has::PARENT, &mut after.parent, set.parent),
        (Has::FLAGS, &mut after.flags, set.flags),
        (Has::LINKS, &mut after.links, set.links),
        (Has::PROJECT, &mut after.project, set.project),
    ];
    for (which, to, value) in numbers {
        if has(which) {
            *to = value;
        }
    }
    let times = [
        (Has::ATIME, &mut after.atime, set.atime),
        (Has::MTIME, &mut after.mtime, set.mtime),
        (Has::CTIME, &mut after.ctime, set.ctime),
        (Has::CRTIME, &mut after.crtime, set.crtime),
    ];
    for (which, to, value) in times {
        if has(which) {
            *to = value;
        }
    }
    after
}

/// Translates a failure of the pool for the requester of a file operation. A missing object counts
/// as stale.
pub fn failure(error: ObjectError) -> FileError {
    match error {
        ObjectError::Missing => FileError::Stale,
        ObjectError::Exists => FileError::Exists,
        ObjectError::NoSpace => FileError::NoSpace,
        ObjectError::Quota => FileError::Quota,
        ObjectError::ReadOnly => FileError::ReadOnly,
        ObjectError::KeyMissing => FileError::NotReady,
        ObjectError::Closed => FileError::Gone,
        ObjectError::TooLong | ObjectError::Io(_) => FileError::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_attribute_grows_even_if_the_clock_goes_backwards() {
        let far = [4_000_000_000, 999_999_999];
        assert_eq!(now_after(far), [4_000_000_001, 0]);
        assert_eq!(now_after([4_000_000_001, 0]), [4_000_000_001, 1]);
        assert!(time_of(now_after([0, 0])) > time_of([1_700_000_000, 0]));
    }

    #[test]
    fn times_before_1970_and_device_numbers_survive_conversion() {
        let time = Time {
            seconds: -5,
            nanoseconds: 7,
        };
        assert_eq!(time_of(stored_time(time)), time);
        assert_eq!(device_of(8, 1), 0x80_0001);
        assert_eq!(entry_object(entry_type(0o040_755) | 34), 34);
        assert_eq!(entry_type(0o040_755) >> 60, 4);
    }
}
