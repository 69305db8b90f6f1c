//! Detects foreign contents on a device: a file system, a partition table, a member of another kind of volume. Creating
//! a pool on the device would destroy them.

use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::{Errno, pread, pwrite};

use crate::open::open_disk;

/// The signatures are searched in this many bytes at the start of a device.
const SCANNED_BYTES: usize = 68 << 10;

/// The start of a device, which ZFS leaves to boot loaders: signatures there survive the creation of a pool on the
/// device. Later ones do not.
const BOOT_AREA_BYTES: usize = 8 << 10;

/// Signatures that are sufficient on their own: offset, bytes, description.
const SIGNATURES: [(usize, &[u8], &str); 12] = [
    (0, b"XFSB", "an XFS file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (82, b"FAT32   ", "a FAT file system"),
    (54, b"FAT16   ", "a FAT file system"),
    (65_600, b"_BHRfS_M", "a Btrfs file system"),
    (1024, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    (0, b"LUKS\xba\xbe", "an encrypted LUKS volume"),
    (512, b"LABELONE", "a volume of LVM"),
    (4086, b"SWAPSPACE2", "swap space"),
    (512, b"EFI PART", "a table of partitions"),
    (4096, b"EFI PART", "a table of partitions"),
];

/// Describes the foreign contents of `path`; `None` if none is recognised.
pub fn other_contents(path: &Path) -> Result<Option<&'static str>, Errno> {
    let file = open_disk(path, OFlags::RDONLY)?;
    let mut start = vec![0; SCANNED_BYTES];
    let mut length = 0;
    while length < start.len() {
        match pread(&file, &mut start[length..], length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(recognise(&start[..length]))
}

/// Erases the signatures of a file system or partition table from `path`, which now belongs to a pool.
pub fn erase_other_contents(path: &Path) -> Result<(), Errno> {
    let file = open_disk(path, OFlags::WRONLY | OFlags::DSYNC)?;
    let zeros = [0; BOOT_AREA_BYTES];
    let mut done = 0;
    while done < zeros.len() {
        match pwrite(&file, &zeros[done..], done as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn recognise(start: &[u8]) -> Option<&'static str> {
    let has = |at: usize, mark: &[u8]| start.get(at..at + mark.len()) == Some(mark);
    let marked = SIGNATURES.iter().find(|(at, mark, _)| has(*at, mark));
    if let Some((_, _, what)) = marked {
        return Some(what);
    }
    if has(1080, &[0x53, 0xef]) && is_ext(start) {
        return Some("an ext4 file system");
    }
    // Version 1.1 and 1.2; older ones have it at the end.
    let array = 0xa92b_4efc_u32.to_le_bytes();
    if has(0, &array) || has(4096, &array) {
        return Some("a member of a Linux RAID");
    }
    (has(510, &[0x55, 0xaa]) && has_partitions(start)).then_some("a table of partitions")
}

/// Two bytes often match by chance: a superblock also has inodes, and blocks of 1 to 64 KiB.
fn is_ext(start: &[u8]) -> bool {
    let number = |at: usize| {
        let bytes = start.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    number(1024).is_some_and(|inodes| inodes != 0) && number(1048).is_some_and(|shift| shift <= 6)
}

/// Whether a boot sector's four entries are valid partition entries and one is in use.
fn has_partitions(start: &[u8]) -> bool {
    let entries = start.get(446..510).unwrap_or(&[]).chunks_exact(16);
    let (mut known, mut used) = (true, false);
    for entry in entries {
        known &= matches!(entry[0], 0 | 0x80);
        used |= entry[4] != 0 && entry[12..16] != [0; 4];
    }
    known && used
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn found(pieces: &[(u64, &[u8])]) -> Option<&'static str> {
        let file = tempfile::NamedTempFile::new().expect("file");
        file.as_file().set_len(1 << 20).expect("size");
        for (at, bytes) in pieces {
            file.as_file().write_all_at(bytes, *at).expect("write");
        }
        other_contents(file.path()).expect("look")
    }

    #[test]
    fn file_systems_and_partition_tables_are_detected_by_magic() {
        let ext = [(1024, &[1, 0, 0, 0][..]), (1080, &[0x53, 0xef])];
        assert_eq!(found(&ext), Some("an ext4 file system"));
        assert_eq!(found(&[(0, b"XFSB")]), Some("an XFS file system"));
        let btrfs = found(&[(65_600, b"_BHRfS_M")]);
        assert_eq!(btrfs, Some("a Btrfs file system"));
        assert_eq!(found(&[(512, b"EFI PART")]), Some("a table of partitions"));
        let entry = [0x80, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0];
        let boot = [(446, &entry[..]), (510, &[0x55, 0xaa])];
        assert_eq!(found(&boot), Some("a table of partitions"));
    }

    #[test]
    fn empty_and_random_devices_have_no_known_contents() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[(0, &[0xa5; 68 << 10])]), None);
        // The signature of ext4 alone, and a boot sector without partitions.
        assert_eq!(found(&[(1080, &[0x53, 0xef]), (510, &[0x55, 0xaa])]), None);
        let short = tempfile::NamedTempFile::new().expect("file");
        assert_eq!(other_contents(short.path()), Ok(None));
    }
}
