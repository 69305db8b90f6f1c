//! Converts attributes, times and errors to those of FUSE.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use file_system::{Attributes, FileError, Kind, SetTime, Time};
use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};

/// Preferred I/O size (`st_blksize`): a ZFS record.
pub(crate) const BLOCK_BYTES: u32 = 128 << 10;
/// The unit of `st_blocks`.
const SECTOR_BYTES: u64 = 512;

pub(crate) fn errno(error: FileError) -> Errno {
    match error {
        FileError::Stale => Errno::ESTALE,
        FileError::NotFound => Errno::ENOENT,
        FileError::Exists => Errno::EEXIST,
        FileError::NotDirectory => Errno::ENOTDIR,
        FileError::IsDirectory => Errno::EISDIR,
        FileError::NotEmpty => Errno::ENOTEMPTY,
        FileError::Access => Errno::EACCES,
        FileError::NotPermitted => Errno::EPERM,
        FileError::WrongType
        | FileError::Invalid
        | FileError::BadName
        | FileError::BadCookie
        | FileError::NotSame => Errno::EINVAL,
        FileError::NameTooLong => Errno::ENAMETOOLONG,
        FileError::TooLarge => Errno::EFBIG,
        FileError::NoSpace => Errno::ENOSPC,
        FileError::Quota => Errno::EDQUOT,
        FileError::ReadOnly => Errno::EROFS,
        FileError::TooManyLinks => Errno::EMLINK,
        FileError::OtherProject => Errno::EXDEV,
        FileError::BeyondEnd => Errno::ENXIO,
        FileError::Unsupported => Errno::EOPNOTSUPP,
        FileError::NoExtended => Errno::ENODATA,
        FileError::NotReady => Errno::EAGAIN,
        FileError::Io | FileError::Gone => Errno::EIO,
    }
}

pub(crate) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Link => FileType::Symlink,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::Socket => FileType::Socket,
        Kind::Pipe => FileType::NamedPipe,
    }
}

pub(crate) fn attributes(object: u64, known: &Attributes) -> FileAttr {
    let (major, minor) = known.device;
    FileAttr {
        ino: INodeNo(object),
        size: known.size,
        blocks: known.space.div_ceil(SECTOR_BYTES),
        atime: system_time(known.accessed),
        mtime: system_time(known.modified),
        ctime: system_time(known.changed),
        crtime: system_time(known.created),
        kind: file_type(known.kind),
        perm: (known.mode & 0o7777) as u16,
        nlink: known.links,
        uid: known.uid,
        gid: known.gid,
        rdev: rustix::fs::makedev(major, minor) as u32,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

fn system_time(time: Time) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let second = match time.seconds {
        0.. => UNIX_EPOCH.checked_add(seconds),
        _ => UNIX_EPOCH.checked_sub(seconds),
    };
    let nanoseconds = Duration::from_nanos(time.nanoseconds.into());
    let time = second.and_then(|second| second.checked_add(nanoseconds));
    time.unwrap_or(UNIX_EPOCH)
}

fn time_of(time: SystemTime) -> Time {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Time {
            seconds: since.as_secs().try_into().unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        },
        Err(error) => {
            let before = error.duration();
            // Nanoseconds are positive, relative to the earlier second.
            let begun = before.subsec_nanos() != 0;
            let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX - 1);
            Time {
                seconds: -seconds - i64::from(begun),
                nanoseconds: match begun {
                    true => 1_000_000_000 - before.subsec_nanos(),
                    false => 0,
                },
            }
        }
    }
}

pub(crate) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::To(time_of(time)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_round_trip() {
        for (seconds, nanoseconds) in [
            (0, 0),
            (0, 1),
            (-1, 0),
            (-1, 999_999_999),
            (-2, 1),
            (1_700_000_000, 5),
            (i64::MAX, 0),
        ] {
            let time = Time {
                seconds,
                nanoseconds,
            };
            assert_eq!(time_of(system_time(time)), time);
        }
    }

    #[test]
    fn device_numbers_round_trip() {
        for (major, minor) in [(8, 1), (259, 70_000)] {
            let known = Attributes {
                device: (major, minor),
                ..Attributes::of_new(Kind::BlockDevice, 0o600, (0, 0), Time::default())
            };
            let stored = u64::from(attributes(7, &known).rdev);
            let back = (rustix::fs::major(stored), rustix::fs::minor(stored));
            assert_eq!(back, (major, minor));
        }
    }
}
