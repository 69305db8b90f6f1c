//! Each format by literal bytes at the offsets of its specification, and hostile bytes in all of them.

use super::*;
use crate::contents::State;

const SIZE: usize = 2 << 20;

/// An empty disk with these bytes.
fn disk(pieces: &[(usize, &[u8])]) -> Vec<u8> {
    let mut disk = vec![0; SIZE];
    for (at, bytes) in pieces {
        disk[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    disk
}

fn look(disk: &[u8]) -> Option<Contents> {
    let read = |at: u64, length: usize| {
        let at = usize::try_from(at).ok()?;
        Some(disk.get(at..at.checked_add(length)?)?.to_vec())
    };
    contents(&Part::new(&read, 0, disk.len() as u64))
}

fn found(pieces: &[(usize, &[u8])]) -> Contents {
    look(&disk(pieces)).expect("recognised")
}

const ID: [u8; 16] = [
    0x3a, 0x99, 0x73, 0x67, 0x54, 0x84, 0x46, 0x97, 0xaa, 0x63, 0x50, 0x79, 0x65, 0xe9, 0x0a, 0xac,
];
const ID_TEXT: &str = "3a997367-5484-4697-aa63-507965e90aac";

const EXT: [(usize, &[u8]); 4] = [
    (1024, &[0x00, 0x10]),
    (1024 + 56, &[0x53, 0xef, 1, 0]),
    (1024 + 104, &ID),
    (1024 + 120, b"root\x1b[2J\0rest"),
];

#[test]
fn ext_version_label_and_journal_are_read() {
    let with = |compatible: &[u8], incompatible: &[u8], read_only: &[u8]| {
        let mut pieces = EXT.to_vec();
        pieces.extend([
            (1024 + 92, compatible),
            (1024 + 96, incompatible),
            (1024 + 100, read_only),
        ]);
        found(&pieces)
    };
    let ext2 = with(&[0x38], &[0x02], &[0x03]);
    assert_eq!((ext2.format, ext2.uuid.as_str()), (Format::Ext2, ID_TEXT));
    assert_eq!(ext2.label, "root[2J", "without control characters");
    assert_eq!(with(&[0x3c], &[0x02], &[0x03]).format, Format::Ext3);
    let ext4 = with(&[0x3c], &[0xc2, 0x02], &[0x6b, 0x04]);
    assert_eq!((ext4.format, ext4.states), (Format::Ext4, vec![]));
    let crashed = with(&[0x3c], &[0xc6, 0x02], &[0x6b, 0x04]);
    assert!(crashed.is(State::NotUnmounted), "{crashed:?}");
    // The signature alone, and an impossible block size.
    assert_eq!(look(&disk(&EXT[1..])), None);
    let mut large = EXT.to_vec();
    large.push((1024 + 24, &[7]));
    assert_eq!(look(&disk(&large)), None);
}

#[test]
fn xfs_label_and_uuid_are_read() {
    let one = found(&[
        (0, b"XFSB\0\0\x10\0"),
        (32, &ID),
        (48, &[0, 0, 0, 0, 0, 0, 1, 0]),
        (100, &[0xb4, 0xa5]),
        (108, b"data\0"),
        (216, &[0, 0, 0, 0x10]),
    ]);
    assert_eq!(
        (one.format, one.label.as_str(), one.uuid.as_str()),
        (Format::Xfs, "data", ID_TEXT)
    );
    assert_eq!(one.notes, ["it needs `xfs_repair`"]);
    assert_eq!(look(&disk(&[(0, b"XFSB")])), None, "no block size");
}

#[test]
fn btrfs_devices_and_log_are_read() {
    const BLOCK: usize = 0x1_0000;
    let one = found(&[
        (BLOCK + 0x20, &ID),
        (BLOCK + 0x30, &[0, 0, 1]),
        (BLOCK + 0x40, b"_BHRfS_M"),
        (BLOCK + 0x60, &[1]),
        (BLOCK + 0x88, &[2]),
        (BLOCK + 0xc9, &[1]),
        (BLOCK + 0x12b, b"both\0"),
    ]);
    assert_eq!(
        (one.format, one.label.as_str(), one.devices),
        (Format::Btrfs, "both", Some(2))
    );
    assert!(one.is(State::NotUnmounted));
    assert_eq!(one.notes[0], "device 1 of 2");
    let elsewhere = [(BLOCK + 0x40, &b"_BHRfS_M"[..])];
    assert_eq!(look(&disk(&elsewhere)), None, "of another offset");
}

#[test]
fn luks_versions_and_dangerous_states_are_read() {
    const UUID: &[u8] = b"3a997367-5484-4697-aa63-507965e90aac\0";
    let first = found(&[(0, b"LUKS\xba\xbe\0\x01"), (168, UUID)]);
    assert_eq!((first.format, first.uuid.as_str()), (Format::Luks, ID_TEXT));
    assert_eq!(first.notes, ["version 1"]);
    let second = [
        (0, &b"LUKS\xba\xbe\0\x02\0\0\0\0\0\0\x40\0"[..]),
        (24, b"secret\0"),
        (168, UUID),
    ];
    let whole = found(&second);
    assert_eq!((whole.label.as_str(), whole.states.len()), ("secret", 0));
    let mut busy = second.to_vec();
    let json = br#"{"config":{"requirements":{"mandatory":["online-reencrypt"]}}}"#;
    busy.push((4096, json));
    assert!(found(&busy).is(State::OpenWrites));
    // The first header is gone.
    let copy = found(&[(16_384, b"SKUL\xba\xbe\0\x02\0\0\0\0\0\0\x40\0")]);
    assert!(copy.is(State::OpenWrites));
    // The header claims to be as large as possible.
    let endless = found(&[(0, b"LUKS\xba\xbe\0\x02\xff\xff\xff\xff\xff\xff\xff\xff")]);
    assert_eq!(endless.states, []);
    assert_eq!(look(&disk(&[(0, b"LUKS\xba\xbe\0\x09")])), None);
    let bitlocker = found(&[(3, b"-FVE-FS-"), (510, &[0x55, 0xaa])]);
    assert_eq!(bitlocker.format, Format::BitLocker);
}

/// A superblock of version 1 of device 1 of a mirror, with its checksum.
fn array_block(sector: u64) -> Vec<u8> {
    let mut block = vec![0; 4096];
    block[0..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
    block[16..32].copy_from_slice(&ID);
    block[32..38].copy_from_slice(b"host:0");
    block[72] = 1;
    block[92] = 2;
    block[144..152].copy_from_slice(&sector.to_le_bytes());
    block[160] = 1;
    block[208..216].fill(0xff);
    block[220] = 128;
    block[256..260].copy_from_slice(&[0, 0, 1, 0]);
    seal(&mut block);
    block
}

fn seal(block: &mut [u8]) {
    block[216..220].fill(0);
    let slots = usize::from(block[220]);
    let words = block[..256 + 2 * slots].chunks_exact(4);
    let sum: u64 = words
        .map(|word| u64::from(u32::from_le_bytes(word.try_into().expect("four bytes"))))
        .sum();
    let sum = ((sum & 0xffff_ffff) + (sum >> 32)) as u32;
    block[216..220].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn md_versions_are_found_at_their_offsets() {
    let end = ((SIZE / 512 - 16) & !7) * 512;
    for (at, version) in [(0, "1.1"), (4096, "1.2"), (end, "1.0")] {
        let block = array_block(at as u64 / 512);
        let one = found(&[(at, &block)]);
        assert_eq!(
            (one.format, one.label.as_str(), one.uuid.as_str()),
            (Format::Md, "host:0", ID_TEXT)
        );
        assert_eq!(one.devices, Some(2));
        let expected = [
            format!("raid1, version {version}"),
            "device 1 of 2".to_owned(),
        ];
        assert_eq!(one.notes, expected);
        // Copied from another offset, or damaged.
        let elsewhere = array_block(8 * 1024);
        assert_eq!(look(&disk(&[(at, &elsewhere)])), None);
        let mut damaged = block.clone();
        damaged[92] = 3;
        assert_eq!(look(&disk(&[(at, &damaged)])), None);
        let mut endless = block;
        endless[220..224].fill(0xff);
        assert_eq!(look(&disk(&[(at, &endless)])), None);
    }
}

#[test]
fn md_of_the_first_version_is_found_near_the_end() {
    let at = SIZE - 65_536;
    let one = found(&[
        (at, &[0xfc, 0x4e, 0x2b, 0xa9, 0, 0, 0, 0, 90, 0, 0, 0]),
        (at + 20, &[0x67, 0x73, 0x99, 0x3a]),
        (at + 28, &[5]),
        (at + 40, &[3]),
        (at + 52, &[0x97, 0x46, 0x84, 0x54]),
        (at + 56, &[0x79, 0x50, 0x63, 0xaa]),
        (at + 60, &[0xac, 0x0a, 0xe9, 0x65]),
        (at + 3980, &[2]),
    ]);
    assert_eq!((one.uuid.as_str(), one.devices), (ID_TEXT, Some(3)));
    assert_eq!(one.notes, ["raid5, version 0.90", "device 2 of 3"]);
}

const GROUP: &[u8] = br#"vg0 {
id = "x"
physical_volumes {
pv0 {
}
}
logical_volumes {
root {
status = ["READ", "WRITE", "VISIBLE"]
}
}
}
"#;

/// A physical volume with a metadata area at 4 KiB, and its text at `offset` in a ring of `ring` bytes.
fn physical_volume(offset: u64, ring: u64, length: u64) -> Vec<u8> {
    const AREA: usize = 4096;
    let number = |value: u64| value.to_le_bytes();
    let mut disk = disk(&[
        (512, b"LABELONE\x01\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0LVM2 001"),
        (544, b"ykkUv8T8lIukfcFU5FhijKbL2DLuzu5I"),
        // The data area, its terminator, the metadata area, its terminator.
        (584, &number(1 << 20)),
        (616, &number(AREA as u64)),
        (624, &number(ring)),
        (AREA + 4, b" LVM2 x[5A%r0N*>\x01"),
        (AREA + 24, &number(AREA as u64)),
        (AREA + 32, &number(ring)),
        (AREA + 40, &number(offset)),
        (AREA + 48, &number(length)),
    ]);
    for (index, byte) in GROUP.iter().enumerate() {
        let at = offset as usize + index;
        let at = match at < ring as usize {
            true => at,
            false => at - ring as usize + 512,
        };
        if let Some(cell) = disk.get_mut(AREA + at) {
            *cell = *byte;
        }
    }
    disk
}

#[test]
fn lvm_group_is_read_from_text_that_wraps() {
    let length = GROUP.len() as u64;
    for offset in [512, 2048, 8192 - 20] {
        let one = look(&physical_volume(offset, 8192, length)).expect("recognised");
        assert_eq!(one.uuid, "ykkUv8-T8lI-ukfc-FU5F-hijK-bL2D-Luzu5I");
        assert_eq!((one.format, one.label.as_str()), (Format::Lvm, "vg0"));
        assert_eq!(
            (one.devices, one.volumes),
            (Some(1), vec!["root".to_owned()])
        );
    }
}

#[test]
fn lvm_with_extreme_numbers_has_no_group() {
    let extremes = [0, 1, 511, 1 << 40, u64::MAX];
    for extreme in extremes {
        for disk in [
            physical_volume(512, 8192, extreme),
            physical_volume(512, extreme, 200),
        ] {
            let one = look(&disk).expect("recognised");
            assert_eq!(one.format, Format::Lvm);
        }
        let mut disk = physical_volume(512, 8192, 200);
        disk[4096 + 40..4096 + 48].copy_from_slice(&extreme.to_le_bytes());
        assert_eq!(look(&disk).expect("recognised").label, "");
        disk[616..624].copy_from_slice(&extreme.to_le_bytes());
        assert_eq!(look(&disk).expect("recognised").label, "");
    }
    // The header of the volume is beyond the first bytes.
    let mut disk = physical_volume(512, 8192, 200);
    disk[532..536].fill(0xff);
    assert_eq!(look(&disk), None);
}

/// A record of `$Volume` with a name and dirty flags.
fn volume_record() -> Vec<u8> {
    let mut record = vec![0; 1024];
    record[0..8].copy_from_slice(b"FILE\x30\0\x03\0");
    record[20] = 56;
    // The check value, and the bytes that it replaced.
    record[48..54].copy_from_slice(&[7, 0, 0x41, 0, 0, 0]);
    record[510] = 7;
    record[1022] = 7;
    // $VOLUME_NAME, with a letter at the end of the first stride.
    record[56..60].copy_from_slice(&[0x60, 0, 0, 0]);
    let name_bytes = 456_u32 - 24;
    record[60..64].copy_from_slice(&456_u32.to_le_bytes());
    record[72..76].copy_from_slice(&name_bytes.to_le_bytes());
    record[76] = 24;
    for at in (80..510).step_by(2) {
        record[at] = b'a';
    }
    // $VOLUME_INFORMATION.
    record[512..520].copy_from_slice(&[0x70, 0, 0, 0, 40, 0, 0, 0]);
    record[528] = 12;
    record[532] = 24;
    record[512 + 24 + 10] = 1;
    record[552..556].fill(0xff);
    record
}

fn ntfs(record: &[u8]) -> Vec<u8> {
    disk(&[
        (3, b"NTFS    \0\x02\x08"),
        (48, &[4]),
        (64, &[0xf6]),
        (72, &[0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01]),
        (510, &[0x55, 0xaa]),
        (4 * 4096 + 3 * 1024, record),
    ])
}

#[test]
fn ntfs_label_and_dirty_flag_are_read() {
    let one = look(&ntfs(&volume_record())).expect("recognised");
    assert_eq!(
        (one.format, one.uuid.as_str()),
        (Format::Ntfs, "0123456789ABCDEF")
    );
    assert!(one.label.ends_with("aaA"), "{}", one.label);
    assert!(one.is(State::NotUnmounted));
    // Lengths and offsets of an attribute, the record's and the table's.
    for (at, length) in [(4, 2), (20, 2), (60, 4), (72, 4), (76, 2)] {
        let mut record = volume_record();
        record[at..at + length].fill(0xff);
        assert_eq!(look(&ntfs(&record)).expect("recognised").label, "", "{at}");
        record[at..at + length].fill(0);
        look(&ntfs(&record));
    }
    for (at, length) in [(11, 2), (13, 1), (48, 8), (64, 1)] {
        for value in [0, 0x7f, 0x80, 0xff] {
            let mut disk = ntfs(&volume_record());
            disk[at..at + length].fill(value);
            look(&disk).expect("recognised");
        }
    }
}

#[test]
fn fat_and_exfat_are_read() {
    let fat32 = found(&[
        (11, &[0, 2, 8]),
        (65, &[1]),
        (67, &[0x78, 0x56, 0x34, 0x12]),
        (71, b"EFI        "),
        (82, b"FAT32   "),
    ]);
    assert_eq!(
        (fat32.format, fat32.uuid.as_str(), fat32.label.as_str()),
        (Format::Vfat, "1234-5678", "EFI")
    );
    assert!(fat32.is(State::NotUnmounted));
    let fat16 = found(&[(11, &[0, 2, 4]), (43, b"NO NAME    "), (54, b"FAT16   ")]);
    assert_eq!((fat16.label.as_str(), fat16.states.len()), ("", 0));
    assert_eq!(look(&disk(&[(82, b"FAT32   ")])), None, "no sectors");
    let exfat = [
        (3, &b"EXFAT   "[..]),
        (88, &[64, 0, 0, 0]),
        (96, &[4, 0, 0, 0]),
        (100, &[0x78, 0x56, 0x34, 0x12]),
        (106, &[2, 0]),
        (108, &[9, 3]),
        ((64 + 2 * 8) * 512 + 32, &[0x83, 2, b'H', 0, b'i', 0]),
    ];
    let one = found(&exfat);
    assert_eq!(
        (one.format, one.uuid.as_str(), one.label.as_str()),
        (Format::Exfat, "1234-5678", "Hi")
    );
    assert!(one.is(State::NotUnmounted));
    for at in [88, 96, 108] {
        let mut disk = disk(&exfat);
        disk[at..at + 4].fill(0xff);
        assert_eq!(look(&disk).expect("recognised").label, "");
    }
}

#[test]
fn swap_and_hibernated_systems_are_distinguished() {
    let swap = [(1036, &ID[..]), (1052, b"pages\0"), (4086, b"SWAPSPACE2")];
    let one = found(&swap);
    assert_eq!(
        (one.format, one.label.as_str(), one.uuid.as_str()),
        (Format::Swap, "pages", ID_TEXT)
    );
    assert_eq!(one.states, []);
    let one = found(&[(16_374, b"SWAPSPACE2")]);
    assert_eq!(one.format, Format::Swap);
    for mark in [&b"S1SUSPEND\0"[..], b"LINHIB0001"] {
        assert!(found(&[(4086, mark)]).is(State::Hibernated));
    }
}

/// An entry of a packed list: its name, type, count and value, as XDR (RFC 4506).
fn entry(name: &str, kind: u32, count: u32, value: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend((name.len() as u32).to_be_bytes());
    body.extend(name.bytes());
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend(kind.to_be_bytes());
    body.extend(count.to_be_bytes());
    body.extend(value);
    let length = (body.len() as u32 + 8).to_be_bytes();
    [&length[..], &[0, 0, 0, 64], &body].concat()
}

fn number(name: &str, value: u64) -> Vec<u8> {
    entry(name, 8, 1, &value.to_be_bytes())
}

fn word(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = (value.len() as u32).to_be_bytes().to_vec();
    bytes.extend(value.bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    entry(name, 9, 1, &bytes)
}

fn nested(name: &str, entries: &[Vec<u8>]) -> Vec<u8> {
    let list = [&[0, 0, 0, 0, 0, 0, 0, 1], &entries.concat()[..], &[0; 8]].concat();
    entry(name, 19, 1, &list)
}

/// A label of a pool.
fn label(pool: &str) -> Vec<u8> {
    let entries = [
        number("version", 5000),
        word("name", pool),
        number("state", 0),
        number("txg", 77),
        number("pool_guid", 11),
        number("guid", 12),
        number("top_guid", 13),
        number("hostid", 0xbeef),
        word("hostname", "guest\x07"),
        number("vdev_children", 1),
        nested("vdev_tree", &[word("type", "disk")]),
        nested(
            "features_for_read",
            &[entry("com.delphix:hole_birth", 1, 0, &[])],
        ),
    ];
    [
        &[1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        &entries.concat()[..],
        &[0; 8],
    ]
    .concat()
}

#[test]
fn zfs_pool_and_its_last_host_are_read() {
    let mut disk = vec![0; 64 << 20];
    let list = label("rpool");
    disk[16_384..16_384 + list.len()].copy_from_slice(&list);
    let one = look(&disk).expect("recognised");
    assert_eq!(
        (one.format, one.label.as_str(), one.uuid.as_str()),
        (Format::Zfs, "rpool", "11")
    );
    assert_eq!(one.devices, Some(1));
    let expected = [
        "not exported",
        "last used by guest (host id 0000beef)",
        "version 5000",
        "features to read it: hole_birth",
    ];
    assert_eq!(one.notes, expected);
    // A file system that was created later: labels at the end of the disk are left.
    let end = disk.len() - (256 << 10) + 16_384;
    disk.copy_within(16_384..16_384 + list.len(), end);
    disk[16_384..16_384 + list.len()].fill(0);
    disk[0..8].copy_from_slice(b"XFSB\0\0\x10\0");
    assert_eq!(look(&disk).map(|one| one.format), Some(Format::Xfs));
}

#[test]
fn device_of_an_array_is_not_its_file_system() {
    let end = ((SIZE / 512 - 16) & !7) * 512;
    let block = array_block(end as u64 / 512);
    let mut pieces = EXT.to_vec();
    pieces.push((end, &block));
    assert_eq!(found(&pieces).format, Format::Md);
}

#[test]
fn every_truncated_and_random_disk_is_tolerated() {
    let images = [
        ntfs(&volume_record()),
        physical_volume(8192 - 20, 8192, GROUP.len() as u64),
        disk(&[(4096, &array_block(8))]),
        disk(&EXT),
    ];
    for image in images {
        for length in (0..image.len()).step_by(509) {
            look(&image[..length]);
        }
        let mut state = 0x2545_f491_u32;
        for _ in 0..400 {
            let mut image = image[..128 << 10].to_vec();
            for _ in 0..40 {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                let at = (state >> 8) as usize % (32 << 10);
                image[at] = state as u8;
            }
            look(&image);
        }
    }
}
