//! Partition tables: GPT (UEFI 2.10, section 5.3) and MBR with logical partitions.

use crate::bytes::{array, guid, u32_le, u64_le, utf16};
use crate::contents::{Contents, Format};
use crate::formats;
use crate::part::{Part, ReadAt};

/// The unit of an MBR, in bytes; the sector size of volumes.
const SECTOR: u64 = 512;
/// Sector sizes of disks that a GPT can come from.
const SECTOR_SIZES: [u64; 2] = [SECTOR, 4096];
/// GPT entries that are read; every tool allocates 128.
const GPT_ENTRIES_MAX: u32 = 128;
/// The largest entry, in bytes.
const GPT_ENTRY_BYTES_MAX: u32 = 4096;
/// Bytes of the smallest entry.
const GPT_ENTRY_BYTES_MIN: u32 = 128;
/// Logical partitions that are read.
const LOGICAL_MAX: u32 = 60;
/// The partitions of one disk at most.
pub const PARTITIONS_MAX: usize = GPT_ENTRIES_MAX as usize;
/// The type of the one partition in the MBR of a disk with a GPT.
const PROTECTIVE: u8 = 0xee;

/// The table of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// GPT.
    Gpt,
    /// GPT, read from the copy at the end of the disk, because the first one is damaged.
    GptCopy,
    /// MBR.
    Mbr,
    /// No table.
    None,
}

impl Table {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpt | Self::GptCopy => "gpt",
            Self::Mbr => "mbr",
            Self::None => "none",
        }
    }
}

/// A scanned disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its table.
    pub table: Table,
    /// In the order of their numbers; contents without a table are the partition 0.
    pub partitions: Vec<Partition>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, as Linux counts.
    pub number: u32,
    /// Offset, in bytes.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// Its type: a GUID of a GPT, two hex digits of an MBR, or empty.
    pub kind: String,
    /// Its name in a GPT.
    pub name: String,
    /// Its contents, if they are recognised.
    pub contents: Option<Contents>,
}

/// Scans a disk of `size` bytes.
pub fn scan(read: ReadAt<'_>, size: u64) -> Disk {
    if let Some((table, partitions)) = gpt(read, size) {
        return Disk { table, partitions };
    }
    let contents = formats::contents(&Part::new(read, 0, size));
    // Boot sectors of file systems have the same signature as an MBR. Superblocks at the end of the last partition can
    // look like those of the whole disk.
    let may_be_of_partition = |found: &Contents| matches!(found.format, Format::Md | Format::Zfs);
    if contents.as_ref().is_none_or(may_be_of_partition) {
        let first = read(0, SECTOR as usize).unwrap_or_default();
        if first.get(510..512) == Some(&[0x55, 0xaa]) {
            let partitions = mbr(read, &first, size);
            if contents.is_none() || !partitions.is_empty() {
                let table = Table::Mbr;
                return Disk { table, partitions };
            }
        }
    }
    let whole = contents.map(|contents| Partition {
        number: 0,
        start: 0,
        size,
        kind: String::new(),
        name: String::new(),
        contents: Some(contents),
    });
    Disk {
        table: Table::None,
        partitions: whole.into_iter().collect(),
    }
}

/// The partition at `start`, if it is on the disk.
fn partition(
    read: ReadAt<'_>,
    number: u32,
    (start, size): (u64, u64),
    disk: u64,
    kind: String,
) -> Option<Partition> {
    if start == 0 || size == 0 || start.checked_add(size)? > disk {
        return None;
    }
    Some(Partition {
        number,
        start,
        size,
        kind,
        name: String::new(),
        contents: formats::contents(&Part::new(read, start, size)),
    })
}

/// The partitions of a GPT, if there is one.
fn gpt(read: ReadAt<'_>, disk: u64) -> Option<(Table, Vec<Partition>)> {
    let table_at = |at: u64, sector: u64| {
        let header = read(at, SECTOR as usize)?;
        header.starts_with(b"EFI PART").then_some(())?;
        gpt_entries(read, &header, sector, disk)
    };
    let mut sizes = SECTOR_SIZES.into_iter();
    if let Some(found) = sizes.find_map(|sector| table_at(sector, sector)) {
        return Some((Table::Gpt, found));
    }
    // The copy is used only if the MBR belongs to a GPT: another table can be newer.
    let first = read(0, SECTOR as usize)?;
    let mut entries = (0..4).filter_map(|index| mbr_entry(&first, index));
    if !entries.any(|(kind, ..)| kind == PROTECTIVE) {
        return None;
    }
    let mut sizes = SECTOR_SIZES.into_iter();
    let found = sizes.find_map(|sector| table_at(disk.checked_sub(sector)?, sector));
    found.map(|found| (Table::GptCopy, found))
}

/// The entries that a header describes; none if it is malformed.
fn gpt_entries(read: ReadAt<'_>, header: &[u8], sector: u64, disk: u64) -> Option<Vec<Partition>> {
    let (table, count, bytes) = (
        u64_le(header, 72)?,
        u32_le(header, 80)?.min(GPT_ENTRIES_MAX),
        u32_le(header, 84)?,
    );
    if !(GPT_ENTRY_BYTES_MIN..=GPT_ENTRY_BYTES_MAX).contains(&bytes) {
        return Some(Vec::new());
    }
    let Some(at) = table.checked_mul(sector) else {
        return Some(Vec::new());
    };
    let entries = read(at, (count * bytes) as usize).unwrap_or_default();
    let entries = entries.chunks_exact(bytes as usize).zip(1..);
    let found = entries.filter_map(|(entry, number)| {
        let kind: [u8; 16] = array(entry, 0)?;
        if kind == [0; 16] {
            return None;
        }
        let (first, last) = (u64_le(entry, 32)?, u64_le(entry, 40)?);
        let sectors = last.checked_sub(first)?.checked_add(1)?;
        let extent = (first.checked_mul(sector)?, sectors.checked_mul(sector)?);
        let found = partition(read, number, extent, disk, guid(kind))?;
        let name = utf16(entry.get(56..128)?);
        Some(Partition { name, ..found })
    });
    Some(found.collect())
}

/// One entry of an MBR: its type, and its first sector and number of sectors.
fn mbr_entry(sector: &[u8], index: usize) -> Option<(u8, u64, u64)> {
    let entry = sector.get(446 + 16 * index..446 + 16 * (index + 1))?;
    let (start, sectors) = (u32_le(entry, 8)?, u32_le(entry, 12)?);
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
                let extent = (start * SECTOR, sectors * SECTOR);
                found.extend(partition(read, number, extent, disk, format!("{kind:02x}")));
            }
            None => {}
        }
    }
    if let Some(extended) = extended {
        logical(read, extended, disk, &mut found);
    }
    found
}

/// Logical partitions: a chain of sectors that each look like an MBR. A chain with a loop repeats partitions, up to the
/// bound: it is left at the first sector that is not after the previous one.
fn logical(read: ReadAt<'_>, extended: u64, disk: u64, found: &mut Vec<Partition>) {
    let mut at = extended;
    for number in 5..5 + LOGICAL_MAX {
        let sector = at
            .checked_mul(SECTOR)
            .and_then(|offset| read(offset, SECTOR as usize));
        let Some(sector) = sector.filter(|sector| sector.get(510..) == Some(&[0x55, 0xaa])) else {
            return;
        };
        if let Some((kind, start, sectors)) = mbr_entry(&sector, 0) {
            let extent = ((at + start) * SECTOR, sectors * SECTOR);
            found.extend(partition(read, number, extent, disk, format!("{kind:02x}")));
        }
        match mbr_entry(&sector, 1) {
            Some((kind, next, _)) if is_extended(kind) && extended + next > at => {
                at = extended + next;
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: usize = 1 << 20;

    fn look(disk: &[u8]) -> Disk {
        let read = |at: u64, length: usize| {
            let at = usize::try_from(at).ok()?;
            Some(disk.get(at..at.checked_add(length)?)?.to_vec())
        };
        scan(&read, disk.len() as u64)
    }

    fn entry(disk: &mut [u8], sector: usize, index: usize, kind: u8, start: u32, sectors: u32) {
        let at = sector * 512 + 446 + 16 * index;
        disk[at + 4] = kind;
        disk[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
        disk[at + 12..at + 16].copy_from_slice(&sectors.to_le_bytes());
        disk[sector * 512 + 510..sector * 512 + 512].copy_from_slice(&[0x55, 0xaa]);
    }

    fn extents(found: &Disk) -> Vec<(u32, u64, u64, &str)> {
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
        assert_eq!(found.table, Table::Mbr);
        let expected = [(1, 8, 100, "83"), (5, 208, 50, "82"), (6, 308, 60, "83")];
        assert_eq!(extents(&found), expected);
        for (next, back) in [(100, 300), (0, 200)] {
            entry(&mut disk, 300, 1, 0x05, next, back);
            assert_eq!(extents(&look(&disk)), expected);
        }
        for start in [0, u32::MAX] {
            entry(&mut disk, 0, 1, 0x0f, start, u32::MAX);
            entry(&mut disk, 300, 1, 0x05, u32::MAX, u32::MAX);
            look(&disk);
        }
    }

    /// The GPT of one partition, with its entries after it.
    fn write_gpt(disk: &mut [u8], at: usize, sector: usize) {
        const LINUX: [u8; 16] = [
            0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47,
            0x7d, 0xe4,
        ];
        let entries = 2 * sector;
        disk[at..at + 8].copy_from_slice(b"EFI PART");
        disk[at + 72] = 2;
        disk[at + 80] = 4;
        disk[at + 84] = 128;
        let second = entries + 128;
        disk[second..second + 16].copy_from_slice(&LINUX);
        disk[second + 32] = 64;
        disk[second + 40] = 163;
        for (index, unit) in "ro\x1bot".bytes().enumerate() {
            disk[second + 56 + 2 * index] = unit;
        }
        let block = 64 * sector + 1024;
        disk[block] = 1;
        disk[block + 56..block + 58].copy_from_slice(&[0x53, 0xef]);
        disk[block + 96] = 0x40;
    }

    #[test]
    fn gpt_names_types_and_contents_are_parsed() {
        let kind = "0fc63daf-8483-4772-8e79-3d69d8477de4";
        for sector in [512, 4096] {
            let mut disk = vec![0; DISK];
            write_gpt(&mut disk, sector, sector);
            let found = look(&disk);
            assert_eq!(found.table, Table::Gpt);
            let unit = sector as u64 / 512;
            assert_eq!(extents(&found), [(2, 64 * unit, 100 * unit, kind)]);
            assert_eq!(found.partitions[0].name, "root");
            let contents = found.partitions[0].contents.as_ref();
            assert_eq!(contents.map(|one| one.format), Some(Format::Ext4));
        }
    }

    #[test]
    fn gpt_copy_is_used_only_for_a_disk_with_a_gpt() {
        let mut disk = vec![0; DISK];
        write_gpt(&mut disk, DISK - 512, 512);
        assert_eq!(look(&disk).table, Table::None);
        entry(&mut disk, 0, 0, 0xee, 1, 2047);
        let found = look(&disk);
        assert_eq!((found.table, found.partitions.len()), (Table::GptCopy, 1));
    }

    #[test]
    fn gpt_with_extreme_numbers_is_tolerated() {
        for at in (72..88).step_by(4) {
            let mut disk = vec![0; DISK];
            write_gpt(&mut disk, 512, 512);
            disk[512 + at..512 + at + 4].fill(0xff);
            assert_eq!(look(&disk).table, Table::Gpt, "{at}");
        }
        for at in [32, 40] {
            let mut disk = vec![0; DISK];
            write_gpt(&mut disk, 512, 512);
            disk[1024 + 128 + at..1024 + 128 + at + 8].fill(0xff);
            assert_eq!(look(&disk).partitions, [], "{at}");
        }
    }

    #[test]
    fn unpartitioned_file_system_is_the_whole_disk() {
        let mut disk = vec![0; DISK];
        assert_eq!(look(&disk).partitions, []);
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        disk[3..11].copy_from_slice(b"NTFS    ");
        let found = look(&disk);
        assert_eq!((found.table, found.partitions.len()), (Table::None, 1));
        let contents = found.partitions[0].contents.as_ref();
        assert_eq!(contents.map(|one| one.format), Some(Format::Ntfs));
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
