//! Finds the partitions of a disk and their contents by a few bytes: enough to choose mount options. The contents are
//! written by guests and not trusted.

use control::rescue::Partition;

/// The unit of partition tables, in bytes; the sector size of volumes.
const SECTOR: u64 = 512;
/// GPT entries that are read; every tool allocates 128.
const GPT_ENTRIES_MAX: u32 = 128;
/// Logical partitions that are read.
const LOGICAL_MAX: u32 = 60;
/// Bytes at the start of a partition that are read: all signatures are in this range.
const MARKS_BYTES: usize = 65_536 + 72;

/// Reads a number of bytes from an offset; `None` if that is not possible.
pub type ReadAt<'a> = &'a dyn Fn(u64, usize) -> Option<Vec<u8>>;

/// The result of a scan.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// `gpt`, `mbr` or `none`.
    pub table: &'static str,
    /// In the order of their numbers.
    pub partitions: Vec<Partition>,
}

/// Scans a disk of `size` bytes.
pub fn find(read: ReadAt<'_>, size: u64) -> Found {
    let first = read(0, SECTOR as usize).unwrap_or_default();
    if let Some(partitions) = gpt(read, size) {
        let table = "gpt";
        return Found { table, partitions };
    }
    // A file system may end its first sector in the same two bytes.
    let contents = contents(read, 0, size);
    if contents.is_none() && first.get(510..512) == Some(&[0x55, 0xaa]) {
        let partitions = mbr(read, &first, size);
        let table = "mbr";
        return Found { table, partitions };
    }
    let whole = contents.map(|contents| Partition {
        number: 0,
        start: 0,
        size,
        kind: String::new(),
        name: String::new(),
        contents: Some(contents),
    });
    Found {
        table: "none",
        partitions: whole.into_iter().collect(),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(eight.try_into().ok()?))
}

/// A partition that starts at sector `start`, if it is on the disk.
fn partition(
    read: ReadAt<'_>,
    number: u32,
    (start, sectors): (u64, u64),
    disk: u64,
    kind: String,
) -> Option<Partition> {
    let (start, size) = (start.checked_mul(SECTOR)?, sectors.checked_mul(SECTOR)?);
    if start == 0 || size == 0 || start.checked_add(size)? > disk {
        return None;
    }
    Some(Partition {
        number,
        start,
        size,
        kind,
        name: String::new(),
        contents: contents(read, start, size),
    })
}

/// The partitions of a GPT (UEFI 2.10, section 5.3), if there is one.
fn gpt(read: ReadAt<'_>, disk: u64) -> Option<Vec<Partition>> {
    const ENTRY_BYTES_MAX: u32 = 4096;
    let header = read(SECTOR, SECTOR as usize)?;
    if !header.starts_with(b"EFI PART") {
        return None;
    }
    let (table, count, bytes) = (
        u64_at(&header, 72)?,
        u32_at(&header, 80)?.min(GPT_ENTRIES_MAX),
        u32_at(&header, 84)?,
    );
    if !(128..=ENTRY_BYTES_MAX).contains(&bytes) {
        return Some(Vec::new());
    }
    let at = table.checked_mul(SECTOR)?;
    let entries = read(at, (count * bytes) as usize).unwrap_or_default();
    let entries = entries.chunks_exact(bytes as usize).zip(1..);
    let found = entries.filter_map(|(entry, number)| {
        let kind = entry.get(..16)?;
        if kind.iter().all(|byte| *byte == 0) {
            return None;
        }
        let (first, last) = (u64_at(entry, 32)?, u64_at(entry, 40)?);
        let sectors = last.checked_sub(first)?.checked_add(1)?;
        let found = partition(read, number, (first, sectors), disk, guid(kind))?;
        let name = name(entry.get(56..128)?);
        Some(Partition { name, ..found })
    });
    Some(found.collect())
}

/// A GUID as text: the first three groups are little-endian.
fn guid(bytes: &[u8]) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut text = String::new();
    for (place, at) in ORDER.into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{:02x}", bytes[at]));
    }
    text
}

/// UTF-16 up to a NUL, without characters that would disturb a terminal.
fn name(bytes: &[u8]) -> String {
    let units = bytes
        .chunks_exact(2)
        .map(|two| u16::from_le_bytes([two[0], two[1]]));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    let text = String::from_utf16_lossy(&units);
    text.chars().filter(|c| !c.is_control()).collect()
}

/// One entry of an MBR: its type, and its first sector and number of sectors.
fn mbr_entry(sector: &[u8], index: usize) -> Option<(u8, u64, u64)> {
    let entry = sector.get(446 + 16 * index..446 + 16 * (index + 1))?;
    let (start, sectors) = (u32_at(entry, 8)?, u32_at(entry, 12)?);
    (entry[4] != 0).then_some((entry[4], u64::from(start), u64::from(sectors)))
}

/// Whether it is an extended partition, which contains logical ones.
fn is_extended(kind: u8) -> bool {
    matches!(kind, 0x05 | 0x0f | 0x85)
}

fn mbr(read: ReadAt<'_>, first: &[u8], disk: u64) -> Vec<Partition> {
    let mut found = Vec::new();
    let mut extended = None;
    for (index, number) in (0..4).zip(1..) {
        match mbr_entry(first, index) {
            Some((kind, start, _)) if is_extended(kind) => extended = Some(start),
            Some((kind, start, sectors)) => {
                let kind = format!("{kind:02x}");
                found.extend(partition(read, number, (start, sectors), disk, kind));
            }
            None => {}
        }
    }
    if let Some(extended) = extended {
        logical(read, extended, disk, &mut found);
    }
    found
}

/// Logical partitions: a chain of sectors that each look like an MBR.
fn logical(read: ReadAt<'_>, extended: u64, disk: u64, found: &mut Vec<Partition>) {
    let mut at = extended;
    for number in 5..5 + LOGICAL_MAX {
        let sector = at
            .checked_mul(SECTOR)
            .and_then(|offset| read(offset, SECTOR as usize));
        let Some(sector) = sector.filter(|sector| sector[510..] == [0x55, 0xaa]) else {
            return;
        };
        if let Some((kind, start, sectors)) = mbr_entry(&sector, 0) {
            let kind = format!("{kind:02x}");
            found.extend(partition(read, number, (at + start, sectors), disk, kind));
        }
        match mbr_entry(&sector, 1) {
            Some((kind, next, _)) if is_extended(kind) => at = extended + next,
            _ => return,
        }
    }
}

/// The type of the contents at `start`, by their signatures.
fn contents(read: ReadAt<'_>, start: u64, size: u64) -> Option<String> {
    const MARKS: [(&str, usize, &[u8]); 10] = [
        ("LUKS", 0, b"LUKS\xba\xbe"),
        ("xfs", 0, b"XFSB"),
        ("ntfs", 3, b"NTFS    "),
        ("exfat", 3, b"EXFAT   "),
        ("vfat", 82, b"FAT32   "),
        ("vfat", 54, b"FAT1"),
        ("LVM", 536, b"LVM2 001"),
        ("swap", 4086, b"SWAPSPACE2"),
        ("iso9660", 32_769, b"CD001"),
        ("btrfs", 65_600, b"_BHRfS_M"),
    ];
    let wanted = MARKS_BYTES.min(usize::try_from(size).unwrap_or(MARKS_BYTES));
    let bytes = read(start, wanted)?;
    let has = |at: usize, mark: &[u8]| bytes.get(at..at + mark.len()) == Some(mark);
    let found = MARKS.iter().find(|(_, at, mark)| has(*at, mark));
    if let Some((name, _, _)) = found {
        return Some((*name).to_owned());
    }
    ext(&bytes).map(str::to_owned)
}

/// The ext version, by its features.
fn ext(bytes: &[u8]) -> Option<&'static str> {
    const SUPERBLOCK: usize = 1024;
    const HAS_JOURNAL: u32 = 0x4;
    const EXTENTS: u32 = 0x40;
    if bytes.get(SUPERBLOCK + 56..SUPERBLOCK + 58)? != [0x53, 0xef] {
        return None;
    }
    let compatible = u32_at(bytes, SUPERBLOCK + 92)?;
    let incompatible = u32_at(bytes, SUPERBLOCK + 96)?;
    Some(match (incompatible & EXTENTS, compatible & HAS_JOURNAL) {
        (0, 0) => "ext2",
        (0, _) => "ext3",
        _ => "ext4",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: usize = 1 << 20;

    fn look(disk: &[u8]) -> Found {
        let read = |at: u64, length: usize| {
            let at = usize::try_from(at).ok()?;
            Some(disk.get(at..at.checked_add(length)?)?.to_vec())
        };
        find(&read, disk.len() as u64)
    }

    fn entry(disk: &mut [u8], sector: usize, index: usize, kind: u8, start: u32, sectors: u32) {
        let at = sector * 512 + 446 + 16 * index;
        disk[at + 4] = kind;
        disk[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
        disk[at + 12..at + 16].copy_from_slice(&sectors.to_le_bytes());
        disk[sector * 512 + 510..sector * 512 + 512].copy_from_slice(&[0x55, 0xaa]);
    }

    fn places(found: &Found) -> Vec<(u32, u64, u64, &str)> {
        let all = found.partitions.iter();
        all.map(|one| {
            (
                one.number,
                one.start / 512,
                one.size / 512,
                one.kind.as_str(),
            )
        })
        .collect()
    }

    #[test]
    fn mbr_logical_partitions_are_read_and_loops_end() {
        let mut disk = vec![0; DISK];
        entry(&mut disk, 0, 0, 0x83, 8, 100);
        entry(&mut disk, 0, 1, 0x0f, 200, 1000);
        entry(&mut disk, 200, 0, 0x82, 8, 50);
        entry(&mut disk, 200, 1, 0x05, 100, 100);
        entry(&mut disk, 300, 0, 0x83, 8, 60);
        // Beyond the end of the disk: left out.
        entry(&mut disk, 0, 2, 0x83, 2000, 100_000);
        let found = look(&disk);
        assert_eq!(found.table, "mbr");
        let expected = [(1, 8, 100, "83"), (5, 208, 50, "82"), (6, 308, 60, "83")];
        assert_eq!(places(&found), expected);
        entry(&mut disk, 300, 1, 0x05, 100, 100);
        assert!(look(&disk).partitions.len() <= 1 + LOGICAL_MAX as usize);
    }

    #[test]
    fn gpt_names_types_and_contents_are_parsed() {
        let mut disk = vec![0; DISK];
        disk[512..520].copy_from_slice(b"EFI PART");
        disk[512 + 72] = 2;
        disk[512 + 80] = 4;
        disk[512 + 84] = 128;
        let second = 1024 + 128;
        disk[second..second + 16].copy_from_slice(&[
            0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47,
            0x7d, 0xe4,
        ]);
        disk[second + 32] = 64;
        disk[second + 40] = 163;
        for (at, unit) in "root".bytes().enumerate() {
            disk[second + 56 + 2 * at] = unit;
        }
        disk[64 * 512 + 1024 + 56..64 * 512 + 1024 + 58].copy_from_slice(&[0x53, 0xef]);
        disk[64 * 512 + 1024 + 96] = 0x40;
        let found = look(&disk);
        assert_eq!(found.table, "gpt");
        let kind = "0fc63daf-8483-4772-8e79-3d69d8477de4";
        assert_eq!(places(&found), [(2, 64, 100, kind)]);
        assert_eq!(found.partitions[0].name, "root");
        assert_eq!(found.partitions[0].contents.as_deref(), Some("ext4"));
    }

    #[test]
    fn unpartitioned_file_system_is_the_whole_disk() {
        let mut disk = vec![0; DISK];
        assert_eq!(look(&disk).partitions, []);
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        disk[3..11].copy_from_slice(b"NTFS    ");
        let found = look(&disk);
        assert_eq!((found.table, found.partitions.len()), ("none", 1));
        assert_eq!(found.partitions[0].contents.as_deref(), Some("ntfs"));
    }

    #[test]
    fn malformed_partition_tables_are_tolerated() {
        for seed in 0..200_u32 {
            let mut state = seed.wrapping_mul(2_654_435_761) | 1;
            let mut disk: Vec<u8> = Vec::with_capacity(8192);
            for _ in 0..8192 {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                disk.push(state as u8);
            }
            disk[510..512].copy_from_slice(&[0x55, 0xaa]);
            if seed % 2 == 0 {
                disk[512..520].copy_from_slice(b"EFI PART");
                disk[512 + 84..512 + 88].copy_from_slice(&128_u32.to_le_bytes());
                disk[512 + 72..512 + 80].copy_from_slice(&2_u64.to_le_bytes());
            }
            look(&disk);
        }
        look(&[]);
    }
}
