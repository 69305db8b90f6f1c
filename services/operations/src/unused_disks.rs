//! The unused disks of this host, as reported by the kernel (`/sys/block`), and whether they are
//! blank.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use control::answer::UnusedDiskView;
use rustix::fs::OFlags;

use crate::block_class::{BLOCK_CLASS, SECTOR_BYTES, is_disk};

/// Bytes at the start of a disk that are checked for the signatures of partition tables, file
/// systems and labels.
const SCANNED_BYTES: usize = 256 << 10;
/// Maximum number of disks that are examined.
const DISKS_MAX: usize = 1024;

/// A disk that nothing uses.
pub struct UnusedDisk {
    /// Its most lasting path.
    path: PathBuf,
    size: u64,
    model: Option<String>,
    serial: Option<String>,
    /// The disk is not blank.
    is_blank: bool,
}

impl UnusedDisk {
    /// One with these facts.
    #[cfg(test)]
    pub fn of(path: &str, size: u64, is_blank: bool) -> Self {
        Self {
            path: path.into(),
            size,
            model: None,
            serial: None,
            is_blank,
        }
    }

    /// How it is shown, and whether it can hold `needed` bytes.
    pub fn view(self, needed: u64) -> UnusedDiskView {
        let refused = match (self.size >= needed, self.is_blank) {
            (false, _) => Some("it is too small".to_owned()),
            (_, false) => Some("it carries data: name it with --with if that may go".to_owned()),
            _ => None,
        };
        UnusedDiskView {
            path: self.path.to_string_lossy().into_owned(),
            size: self.size,
            model: self.model,
            serial: self.serial,
            refused,
        }
    }
}

/// Every such disk, besides `members`, by name.
pub fn find(members: &[PathBuf]) -> Vec<UnusedDisk> {
    let members: Vec<PathBuf> = members.iter().map(|path| real(path)).collect();
    let entries = std::fs::read_dir(BLOCK_CLASS)
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_disk(name))
        .take(DISKS_MAX)
        .collect();
    names.sort();
    let names = names.iter();
    names.filter_map(|name| look(name, &members)).collect()
}

fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn look(name: &str, members: &[PathBuf]) -> Option<UnusedDisk> {
    let described = Path::new(BLOCK_CLASS).join(name);
    let word = |file: &str| {
        let text = std::fs::read_to_string(described.join(file)).ok()?;
        let text = text.trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    let node = Path::new("/dev").join(name);
    let size = word("size")?.parse::<u64>().ok()? * SECTOR_BYTES;
    let is_usable = size > 0 && word("ro").as_deref() == Some("0");
    let is_member = members.iter().any(|member| is_part_of(member, &node));
    if !is_usable || is_member || has_holders(&described) {
        return None;
    }
    Some(UnusedDisk {
        is_blank: is_blank(&node)?,
        path: lasting_path(&node).unwrap_or(node),
        size,
        model: word("device/model"),
        serial: word("device/serial").or_else(|| word("serial")),
    })
}

/// Whether `member` is the disk, or a partition of it.
fn is_part_of(member: &Path, disk: &Path) -> bool {
    let (member, disk) = (member.to_string_lossy(), disk.to_string_lossy());
    let rest = member.strip_prefix(disk.as_ref());
    rest.is_some_and(|rest| {
        rest.trim_start_matches('p')
            .bytes()
            .all(|b| b.is_ascii_digit())
    })
}

/// Whether another block device (a volume group, an array) is built on it.
fn has_holders(described: &Path) -> bool {
    let holders = std::fs::read_dir(described.join("holders"));
    holders.is_ok_and(|mut holders| holders.next().is_some())
}

/// Whether nothing is on the disk; `None` if it is in use or cannot be read.
fn is_blank(node: &Path) -> Option<bool> {
    // With O_EXCL the kernel refuses a block device that is mounted or in use.
    let flags = (OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
    let mut options = File::options();
    options.read(true).custom_flags(flags as i32);
    let file = options.open(node).ok()?;
    if !file.metadata().ok()?.file_type().is_block_device() {
        return None;
    }
    let mut begin = Vec::with_capacity(SCANNED_BYTES);
    file.take(SCANNED_BYTES as u64)
        .read_to_end(&mut begin)
        .ok()?;
    Some(begin.iter().all(|byte| *byte == 0))
}

/// The path under `/dev/disk/by-id`, which does not change when disks are moved to other slots.
fn lasting_path(node: &Path) -> Option<PathBuf> {
    let links = std::fs::read_dir("/dev/disk/by-id").ok()?.flatten();
    let mut links: Vec<PathBuf> = links
        .map(|link| link.path())
        .filter(|link| std::fs::canonicalize(link).is_ok_and(|target| target == node))
        .collect();
    links.sort();
    links.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_belongs_to_its_disk_and_to_no_other() {
        for (member, disk, expected) in [
            ("/dev/sda", "/dev/sda", true),
            ("/dev/sda1", "/dev/sda", true),
            ("/dev/nvme0n1p2", "/dev/nvme0n1", true),
            ("/dev/sdaa", "/dev/sda", false),
            ("/srv/disk", "/dev/sda", false),
        ] {
            let is_part = is_part_of(Path::new(member), Path::new(disk));
            assert_eq!(is_part, expected, "{member} {disk}");
        }
    }

    #[test]
    fn only_a_large_enough_blank_disk_is_chosen() {
        let disk = |size, is_blank| UnusedDisk::of("/dev/x", size, is_blank);
        assert_eq!(disk(10, true).view(10).refused, None);
        assert!(
            disk(9, true)
                .view(10)
                .refused
                .is_some_and(|why| why.contains("small"))
        );
        assert!(
            disk(10, false)
                .view(10)
                .refused
                .is_some_and(|why| why.contains("data"))
        );
    }
}
