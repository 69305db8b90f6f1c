//! Resolves whether two names refer to one device and whether a device is at the path that its label records.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::device::beginning;
use crate::lock::LockProbe;
use crate::open::open_disk;
use crate::twins::PathMatch;

/// The kernel's attributes of block devices.
const SYSFS: &str = "/sys/dev/block";
/// Maximum depth of stacked block devices: multipath, its partition, encryption.
const DEPTH_MAX: usize = 4;
/// Names that are stable for a device, and those that are stable for its slot.
const BY_ID: &str = "/dev/disk/by-id";
const BY_PATH: &str = "/dev/disk/by-path";

/// A device behind a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceIdentity {
    /// Number of the block device, or of the file system and of the file in it.
    number: (u64, u64),
    /// The disk, as identified by its firmware or dm-multipath, and the partition; `None` for a file, or if it is
    /// unknown.
    unit: Option<String>,
    /// A loop device: the file behind it.
    behind: Option<(u64, u64)>,
    /// Another device of this host is built on it, such as one of dm-multipath, and is used instead of it.
    is_part: bool,
    /// A partition: the number of its disk.
    disk: Option<(u64, u64)>,
}

impl DeviceIdentity {
    /// The device behind `path`; `None` if there is none.
    pub fn of(path: &Path) -> Option<Self> {
        Self::in_sysfs(path, Path::new(SYSFS))
    }

    fn in_sysfs(path: &Path, sysfs: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        if !found.file_type().is_block_device() {
            return Some(Self {
                number: (found.dev(), found.ino()),
                unit: None,
                behind: None,
                is_part: false,
                disk: None,
            });
        }
        let block = block_in(sysfs, found.rdev());
        Some(Self {
            number: (u64::MAX, found.rdev()),
            unit: block.as_deref().and_then(unit),
            behind: block.as_deref().and_then(behind),
            is_part: block.as_deref().is_some_and(is_part),
            disk: block.as_deref().and_then(disk_number),
        })
    }

    /// Whether both are provably the same device.
    pub fn is(&self, other: &Self) -> bool {
        let of_both =
            |one: &Option<(u64, u64)>, other: &Option<(u64, u64)>| one.is_some() && (one == other);
        self.number == other.number
            || of_both(&self.behind, &other.behind)
            || self.behind == Some(other.number)
            || other.behind == Some(self.number)
    }

    /// Whether both claim to be paths to one disk. Some disks have non-unique names.
    pub fn may_be_same_disk(&self, other: &Self) -> bool {
        self.unit.is_some() && self.unit == other.unit
    }

    /// Whether one of them is a partition of the other.
    fn overlaps(&self, other: &Self) -> bool {
        self.disk == Some(other.number) || other.disk == Some(self.number)
    }

    /// Whether another device is built on it.
    pub fn is_part(&self) -> bool {
        self.is_part
    }
}

/// Whether two names refer to one device: provably, or because both disks have the same `wwid` and the same first
/// bytes. Some distinct disks report the same `wwid`.
pub fn are_same_device(one: &Path, other: &Path) -> bool {
    match (DeviceIdentity::of(one), DeviceIdentity::of(other)) {
        (Some(place), Some(of_other)) => {
            place.is(&of_other)
                || (place.may_be_same_disk(&of_other) && have_equal_start(one, other))
        }
        _ => false,
    }
}

fn have_equal_start(one: &Path, other: &Path) -> bool {
    let (one, other) = (beginning(one), beginning(other));
    one.is_ok_and(|one| other == Ok(one))
}

/// The name under which the device at `path` is in use, if it is not `path`: another path to the disk, a loop device of
/// the file, or the file behind it. A lock is associated with only one of these.
pub fn in_use_as(path: &Path) -> Option<PathBuf> {
    let own = DeviceIdentity::of(path)?;
    let own_block = block_of(path);
    let nodes = std::fs::read_dir(SYSFS).into_iter().flatten().flatten();
    let nodes = nodes.filter_map(|entry| std::fs::canonicalize(entry.path()).ok());
    let others = nodes.filter_map(|block| {
        let node = node(&block)?;
        // A path of a dm-multipath device is in use by that device.
        if own_block
            .as_deref()
            .is_some_and(|own| is_below(&block, own, 0))
        {
            return None;
        }
        let place = DeviceIdentity::of(&node).filter(|place| place.number != own.number)?;
        (place.is(&own) || (place.may_be_same_disk(&own) && have_equal_start(path, &node)))
            .then_some(node)
    });
    let behind = own.behind.and_then(|_| backing_file(path));
    behind
        .into_iter()
        .chain(others)
        .find(|other| is_in_use(other))
}

/// Locked by a process, or used by the operating system.
fn is_in_use(path: &Path) -> bool {
    let look = LockProbe::open(path).ok().flatten();
    let is_locked = look.is_some_and(|look| look.is_held() == Ok(true));
    let is_disk = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    is_locked
        || (is_disk && open_disk(path, OFlags::RDONLY | OFlags::EXCL).err() == Some(Errno::BUSY))
}

/// The device node of a block device.
fn node(block: &Path) -> Option<PathBuf> {
    let event = text(block.join("uevent"))?;
    let name = event
        .lines()
        .find_map(|line| line.strip_prefix("DEVNAME="))?;
    Some(Path::new("/dev").join(name))
}

/// The sysfs directory of the block device at `path`.
fn block_of(path: &Path) -> Option<PathBuf> {
    let found = std::fs::metadata(path).ok()?;
    let is_block = found.file_type().is_block_device();
    block_in(Path::new(SYSFS), found.rdev()).filter(|_| is_block)
}

fn block_in(sysfs: &Path, number: u64) -> Option<PathBuf> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    std::fs::canonicalize(sysfs.join(format!("{major}:{minor}"))).ok()
}

/// Whether `other` is built on `block`, directly or through further devices.
fn is_below(block: &Path, other: &Path, depth: usize) -> bool {
    let holders = [block, disk(block)].map(|one| std::fs::read_dir(one.join("holders")));
    let mut holders = holders.into_iter().flatten().flatten().flatten();
    holders.any(|holder| {
        let holder = std::fs::canonicalize(holder.path());
        let is_it = |holder: PathBuf| {
            holder == other || (depth < DEPTH_MAX && is_below(&holder, other, depth + 1))
        };
        holder.is_ok_and(is_it)
    })
}

fn backing_file(path: &Path) -> Option<PathBuf> {
    text(block_of(path)?.join("loop/backing_file")).map(PathBuf::from)
}

/// For devices with labels of one device, with their positions and numbers of labels: the index of the device that each
/// one is another view of.
///
/// The last labels of a partition that reaches to the end of its disk are also found as those of the disk. The disk has
/// no further ones.
pub fn views(devices: &[(Option<DeviceIdentity>, usize)]) -> Vec<Option<usize>> {
    let view_of = |(place, labels): &(Option<DeviceIdentity>, usize)| {
        let place = place.as_ref()?;
        devices.iter().position(|(other, of_other)| {
            let overlaps = other.as_ref().is_some_and(|other| place.overlaps(other));
            overlaps && labels < of_other
        })
    };
    devices.iter().map(view_of).collect()
}

fn text(path: PathBuf) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The directory of the disk that `block` is, or is a partition of.
fn disk(block: &Path) -> &Path {
    let is_partition = block.join("partition").exists();
    block.parent().filter(|_| is_partition).unwrap_or(block)
}

/// The number of the disk that the partition `block` is on.
fn disk_number(block: &Path) -> Option<(u64, u64)> {
    let disk = disk(block);
    let number = text(disk.join("dev")).filter(|_| disk != block)?;
    let (major, minor) = number.split_once(':')?;
    let number = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
    Some((u64::MAX, number))
}

fn unit(block: &Path) -> Option<String> {
    let disk = disk(block);
    let partition = text(block.join("partition"));
    let (name, partition) = match text(disk.join("dm/uuid")) {
        // `mpath-3600...`, and `part1-mpath-3600...` for a partition of such a device.
        Some(uuid) => {
            let (before, name) = uuid.split_once("mpath-")?;
            let number = before
                .strip_prefix("part")
                .and_then(|one| one.strip_suffix('-'));
            // The digit before it is the type of the designator; the kernel has a name for it there, such as `naa`.
            let name = name.get(1..)?.to_owned();
            (name, number.map(str::to_owned))
        }
        None => {
            let name = text(disk.join("device/wwid")).or_else(|| text(disk.join("wwid")))?;
            let name = name.split_once('.').map_or(name.as_str(), |(_, name)| name);
            (name.to_owned(), partition)
        }
    };
    Some(format!("{name} {}", partition.unwrap_or_default()))
}

/// The file behind a loop device, if it starts at offset 0.
fn behind(block: &Path) -> Option<(u64, u64)> {
    let file = text(block.join("loop/backing_file"))?;
    text(block.join("loop/offset")).filter(|offset| offset == "0")?;
    let found = std::fs::metadata(file).ok()?;
    Some((found.dev(), found.ino()))
}

fn is_part(block: &Path) -> bool {
    let holds = |block: &Path| {
        let holders = std::fs::read_dir(block.join("holders"));
        holders.is_ok_and(|mut holders| holders.next().is_some())
    };
    holds(block) || holds(disk(block))
}

/// The names that a label records for the path of its device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The path.
    pub path: Option<String>,
    /// Its name below `/dev/disk/by-id`.
    pub device: Option<String>,
    /// Its name below `/dev/disk/by-path`.
    pub slot: Option<String>,
}

impl Recorded {
    /// Compares the path of the device at `found` with the recorded one. `is_of_this_host`: the names were written on
    /// this host, so that a recorded name that does not resolve means that its device is absent.
    pub fn path_match(&self, found: &Path, is_of_this_host: bool) -> PathMatch {
        let path = self.path.as_deref().map(Path::new);
        let path = path.filter(|path| !is_reassigned_at_boot(path));
        if path == Some(found) {
            return PathMatch::Home;
        }
        let below = |dir: &str, name: &Option<String>| {
            let name = name.as_deref().filter(|name| !name.contains('/'));
            name.map(|name| Path::new(dir).join(name))
        };
        let names = [
            below(BY_ID, &self.device),
            path.map(Path::to_owned),
            below(BY_PATH, &self.slot),
        ];
        let mut named = names
            .iter()
            .flatten()
            .filter_map(|name| DeviceIdentity::of(name));
        match (named.next(), DeviceIdentity::of(found)) {
            (Some(named), Some(found)) if named.is(&found) => PathMatch::Home,
            (Some(_), _) => PathMatch::Elsewhere,
            (None, _) if is_of_this_host && path.is_some() => PathMatch::Elsewhere,
            (None, _) => PathMatch::Unknown,
        }
    }
}

/// Whether the kernel assigns this name at each boot in order of discovery.
fn is_reassigned_at_boot(path: &Path) -> bool {
    path.parent() == Some(Path::new("/dev"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    fn block(dir: &Path, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let block = dir.join(name);
        create_dir_all(block.join("holders")).expect("made");
        for (name, text) in files {
            let path = block.join(name);
            create_dir_all(path.parent().expect("below")).expect("made");
            write(path, text).expect("written");
        }
        block
    }

    /// Two paths to a disk, the dm-multipath device on top of them, and partitions of all of them, as Linux shows them.
    #[test]
    fn paths_and_their_multipath_device_have_one_name() {
        let dir = tempfile::tempdir().expect("a dir");
        let dir = dir.path();
        let wwid = ("device/wwid", "naa.600a0b80\n");
        let (a, b) = (block(dir, "sda", &[wwid]), block(dir, "sdb", &[wwid]));
        let uuid = ("dm/uuid", "mpath-3600a0b80\n");
        let whole = block(dir, "dm-0", &[uuid]);
        assert_eq!(unit(&a), Some("600a0b80 ".to_owned()));
        assert_eq!((unit(&b), unit(&whole)), (unit(&a), unit(&a)));
        let partition = block(dir, "sda/sda1", &[("partition", "1\n")]);
        let mapped = block(dir, "dm-1", &[("dm/uuid", "part1-mpath-3600a0b80\n")]);
        assert_eq!(unit(&partition), Some("600a0b80 1".to_owned()));
        assert_eq!(unit(&mapped), unit(&partition));
        assert!(!is_part(&partition));
        create_dir_all(dir.join("sda/holders/dm-0")).expect("made");
        assert!(is_part(&a) && is_part(&partition) && !is_part(&whole));
        let below = |block: &Path, other: &Path| is_below(block, other, 0);
        assert!(!below(&a, &mapped));
        for (one, of) in [("sdb/holders/dm-0", &whole), ("dm-0/holders/dm-1", &mapped)] {
            std::os::unix::fs::symlink(of, dir.join(one)).expect("made");
        }
        assert!(below(&b, &whole) && below(&b, &mapped) && below(&whole, &mapped));
        assert!(!below(&whole, &whole) && !below(&mapped, &whole) && !below(&b, &a));
        let nvme = block(dir, "nvme0n1", &[("wwid", "eui.0025385\n")]);
        assert_eq!(unit(&nvme), Some("0025385 ".to_owned()));
        // A logical volume and its snapshot are two devices on one disk.
        let volume = block(dir, "dm-2", &[("dm/uuid", "LVM-abc\n")]);
        assert_eq!(unit(&volume), None);
    }

    #[test]
    fn disk_and_its_last_partition_are_not_taken_for_copies() {
        let dir = tempfile::tempdir().expect("a dir");
        let dir = dir.path();
        let whole = block(dir, "sda", &[("dev", "8:0\n")]);
        let partition = block(dir, "sda/sda1", &[("partition", "1\n"), ("dev", "8:1\n")]);
        let other = block(dir, "sdb", &[("dev", "8:16\n")]);
        let place = |block: &Path, minor| {
            Some(DeviceIdentity {
                number: (u64::MAX, rustix::fs::makedev(8, minor)),
                unit: None,
                behind: None,
                is_part: false,
                disk: disk_number(block),
            })
        };
        let (whole, partition) = (place(&whole, 0), place(&partition, 1));
        let other = place(&other, 16);
        let found = |devices: &[(&Option<DeviceIdentity>, usize)]| {
            let devices = devices.iter().map(|(one, count)| ((*one).clone(), *count));
            views(&devices.collect::<Vec<_>>())
        };
        assert_eq!(found(&[(&whole, 2), (&partition, 4)]), [Some(1), None]);
        // The disk is the device, and a partition that starts in its middle has its last labels.
        assert_eq!(found(&[(&partition, 2), (&whole, 4)]), [Some(1), None]);
        // The owner of the labels is ambiguous.
        assert_eq!(found(&[(&whole, 2), (&partition, 2)]), [None, None]);
        assert_eq!(
            found(&[(&other, 2), (&partition, 4), (&None, 2)]),
            [None; 3]
        );
    }

    #[test]
    fn links_to_one_file_are_one_device_and_a_copy_is_another() {
        let dir = tempfile::tempdir().expect("a dir");
        let path = |name: &str| dir.path().join(name);
        for name in ["disk", "copy"] {
            write(path(name), name).expect("written");
        }
        std::os::unix::fs::symlink(path("disk"), path("link")).expect("made");
        std::fs::hard_link(path("disk"), path("hard")).expect("made");
        let place = |name: &str| DeviceIdentity::of(&path(name)).expect("it is there");
        for name in ["link", "hard"] {
            assert!(place("disk").is(&place(name)), "{name}");
        }
        assert!(
            !place("disk").is(&place("copy")) && !place("disk").may_be_same_disk(&place("copy"))
        );
        assert_eq!(DeviceIdentity::of(&path("none")), None);
    }

    #[test]
    fn device_is_at_its_recorded_path_via_a_persistent_name() {
        let dir = tempfile::tempdir().expect("a dir");
        let path = |name: &str| dir.path().join(name);
        let recorded = |name: &Path| Recorded {
            path: Some(name.to_string_lossy().into_owned()),
            ..Recorded::default()
        };
        for name in ["disk", "copy"] {
            write(path(name), name).expect("written");
        }
        std::os::unix::fs::symlink(path("disk"), path("link")).expect("made");
        for (label, found, is_ours, expected) in [
            ("disk", "disk", true, PathMatch::Home),
            ("link", "disk", true, PathMatch::Home),
            ("disk", "link", true, PathMatch::Home),
            ("disk", "copy", true, PathMatch::Elsewhere),
            ("gone", "copy", true, PathMatch::Elsewhere),
            // Another host may have other names for the same devices.
            ("gone", "copy", false, PathMatch::Unknown),
            ("disk", "copy", false, PathMatch::Elsewhere),
        ] {
            let found = recorded(&path(label)).path_match(&path(found), is_ours);
            assert_eq!(found, expected, "{label}");
        }
        let volatile = recorded(Path::new("/dev/sdb"));
        let path_match = volatile.path_match(Path::new("/dev/sdb"), true);
        assert_eq!(path_match, PathMatch::Unknown);
        assert_eq!(
            Recorded::default().path_match(&path("disk"), true),
            PathMatch::Unknown
        );
    }
}
