//! Classifies the kernel's block devices of this host: whole disks, and partitions of a disk.

use std::path::Path;

/// Where the kernel describes them.
pub const BLOCK_CLASS: &str = "/sys/block";
/// Bytes of the unit that it counts their sizes in.
pub const SECTOR_BYTES: u64 = 512;
/// Name prefixes of block devices that are not disks. Loop devices are files, not disks of the host.
const NO_DISKS: [&str; 9] = ["loop", "ram", "zram", "sr", "fd", "dm-", "md", "nbd", "zd"];

/// Whether a block device of this name is a disk.
pub fn is_disk(name: &str) -> bool {
    !NO_DISKS.iter().any(|start| name.starts_with(start))
}

/// Whether `found` is `disk`, or a partition of it: `sda1` of `sda`, and `nvme0n1p2` of `nvme0n1`, but not `sdaa`.
pub fn is_of(disk: &Path, found: &Path) -> bool {
    let (disk, found) = (disk.to_string_lossy(), found.to_string_lossy());
    let Some(rest) = found.strip_prefix(&*disk) else {
        return false;
    };
    // The kernel separates the partition number with a `p` if the disk's name has a digit at its
    // end.
    let number = match disk.ends_with(|c: char| c.is_ascii_digit()) {
        true if !rest.is_empty() => match rest.strip_prefix('p') {
            Some(number) => number,
            None => return false,
        },
        _ => rest,
    };
    rest.is_empty() || (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_name_that_prefixes_another_is_not_confused() {
        for (disk, found, expected) in [
            ("/dev/sda", "/dev/sda", true),
            ("/dev/sda", "/dev/sda1", true),
            ("/dev/sda", "/dev/sda12", true),
            ("/dev/sda", "/dev/sdaa", false),
            ("/dev/sda", "/dev/sdaa1", false),
            ("/dev/sda", "/dev/sd", false),
            ("/dev/nvme0n1", "/dev/nvme0n1", true),
            ("/dev/nvme0n1", "/dev/nvme0n1p2", true),
            ("/dev/nvme0n1", "/dev/nvme0n12", false),
            ("/dev/nvme0n1", "/dev/nvme0n12p1", false),
            ("/dev/nvme0n1", "/dev/nvme0n1p", false),
        ] {
            assert_eq!(
                is_of(Path::new(disk), Path::new(found)),
                expected,
                "{found} of {disk}"
            );
        }
    }

    #[test]
    fn non_disks_are_recognised_by_name() {
        for name in [
            "loop0", "ram1", "zram0", "sr0", "fd0", "dm-3", "md127", "nbd4", "zd16",
        ] {
            assert!(!is_disk(name), "{name}");
        }
        for name in ["sda", "sdaa", "vda", "nvme0n1", "mmcblk0", "pmem0"] {
            assert!(is_disk(name), "{name}");
        }
    }
}
