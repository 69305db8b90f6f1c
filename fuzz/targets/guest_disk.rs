//! Disks as guests write them: each is scanned, within the bounds of reads and results.

#![no_main]

use guest_disk::{PARTITIONS_MAX, READ_BYTES_MAX, scan};
use libfuzzer_sys::fuzz_target;

/// Bytes of the disk. The input is repeated with zeros between: superblocks are found at its start and at its end.
const DISK_BYTES: u64 = 96 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((shift, data)) = data.split_first() else {
        return;
    };
    // The end of the disk holds superblocks, too; so do aligned offsets after its start.
    let starts = [0, DISK_BYTES - ((u64::from(*shift) + 1) << 10)];
    let read = |at: u64, length: usize| {
        assert!(length <= READ_BYTES_MAX);
        let end = at.checked_add(length as u64)?;
        if end > DISK_BYTES {
            return None;
        }
        let mut bytes = vec![0; length];
        for start in starts {
            let stop = (start + data.len() as u64).min(end);
            let first = start.max(at);
            if first < stop {
                let source = (first - start) as usize..(stop - start) as usize;
                let to = (first - at) as usize..(stop - at) as usize;
                bytes[to].copy_from_slice(&data[source]);
            }
        }
        Some(bytes)
    };
    let disk = scan(&read, DISK_BYTES);
    assert!(disk.partitions.len() <= PARTITIONS_MAX);
    for partition in &disk.partitions {
        assert!(partition.start + partition.size <= DISK_BYTES);
        let Some(contents) = &partition.contents else {
            continue;
        };
        let texts = contents.volumes.iter().chain(&contents.notes);
        let mut texts = texts.chain([&contents.label, &contents.uuid]);
        assert!(texts.all(|text| !text.contains(char::is_control)));
    }
});
