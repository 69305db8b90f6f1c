//! Operations that only block devices have.

use std::os::fd::AsFd;

use rustix::fs::{SeekFrom, ioctl_blkpbszget, ioctl_blksszget, major, minor, seek};
use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};

use super::Shape;
use super::lock::LockedFile;

/// `BLKDISCARD` of `<linux/fs.h>`: its argument is an offset and a length.
const BLKDISCARD: rustix::ioctl::Opcode = opcode::none(0x12, 119);

pub(super) fn discard(fd: impl AsFd, offset: u64, length: u64) -> Result<(), Errno> {
    // SAFETY: this request reads two 64-bit integers, the range, and writes no memory.
    unsafe { ioctl(fd, Setter::<BLKDISCARD, [u64; 2]>::new([offset, length])) }
}

pub(super) fn shape(file: &LockedFile) -> Result<Shape, Errno> {
    let queue = format!(
        "/sys/dev/block/{}:{}",
        major(file.disk_number),
        minor(file.disk_number)
    );
    // A partition's queue is its disk's.
    let setting = |name: &str| -> Option<u64> {
        [
            format!("{queue}/queue/{name}"),
            format!("{queue}/../queue/{name}"),
        ]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok())
        .and_then(|text| text.trim().parse().ok())
    };
    Ok(Shape {
        bytes: seek(&file.fd, SeekFrom::End(0))?,
        logical_block: ioctl_blksszget(&file.fd)?,
        physical_block: ioctl_blkpbszget(&file.fd)?,
        merges: setting("rotational") == Some(1),
        far: false,
        trim: setting("discard_max_bytes").is_some_and(|max| max > 0),
    })
}
