//! The number of ways to a disk and to a network, from sysfs: paths of a multipath device or of an NVMe namespace, and
//! the cables of a bond.

use std::fs;
use std::path::Path;

use crate::printable;

/// The uuid of a multipath device begins with this.
pub const MULTIPATH: &str = "mpath-";
/// Most devices below a device, or entries of a directory, that are read.
const ENTRIES_MAX: usize = 4096;
/// Most levels of devices between a partition, or a VLAN, and the hardware.
const LEVELS_MAX: usize = 8;
/// Drivers of interfaces of virtual machines: redundancy is configured in the hypervisor.
const VIRTUAL_DRIVERS: [&str; 5] = ["virtio_net", "vmxnet3", "hv_netvsc", "vif", "e1000"];

/// The hardware below a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// The kernel's name of the disk, or of the first path of a multipath device.
    pub disk: String,
    /// The working paths.
    pub paths: u32,
}

/// The physical links of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// All of them: 1, or those of a bond.
    pub all: u32,
    /// Those that are up.
    pub working: u32,
}

/// The hardware below the block device of this name. `blocks` is `/sys/class/block`. `None` for a device without
/// hardware of its own, such as a loop device or a logical volume.
pub fn to_disk(blocks: &Path, name: &str) -> Option<Hardware> {
    let mut name = name.to_owned();
    for _ in 0..LEVELS_MAX {
        let node = fs::canonicalize(blocks.join(&name)).ok()?;
        if node.join("partition").exists() {
            name = node.parent()?.file_name()?.to_str()?.to_owned();
            continue;
        }
        let Some(uuid) = text(&node.join("dm/uuid")) else {
            return node.join("device").exists().then(|| Hardware {
                paths: nvme_paths(blocks, &name).unwrap_or(1),
                disk: name,
            });
        };
        let below = entries(&node.join("slaves"));
        if uuid.starts_with(MULTIPATH) {
            let is_working = |path: &&String| is_running(&blocks.join(path));
            return Some(Hardware {
                paths: below.iter().filter(is_working).count() as u32,
                disk: below.first()?.clone(),
            });
        }
        // kpartx(8) prefixes the uuid of a partition with its number.
        let is_partition = uuid.starts_with("part") && uuid.contains(MULTIPATH);
        name = below.first().filter(|_| is_partition)?.clone();
    }
    None
}

/// The states of SCSI disks and NVMe controllers. A device without one works.
fn is_running(disk: &Path) -> bool {
    let state = text(&disk.join("device/state"));
    state.is_none_or(|state| matches!(state.as_str(), "running" | "live"))
}

/// The working paths of a namespace of several controllers: hidden disks with the name of the namespace and the number
/// of a controller. `None` if it has none.
fn nvme_paths(blocks: &Path, name: &str) -> Option<u32> {
    let (subsystem, namespace) = name.strip_prefix("nvme")?.split_once('n')?;
    let is_path = |one: &&String| {
        let rest = one
            .strip_prefix("nvme")
            .and_then(|rest| rest.strip_prefix(subsystem)?.strip_prefix('c'));
        rest.and_then(|rest| rest.split_once('n'))
            .is_some_and(|(_, number)| number == namespace)
    };
    let names = entries(blocks);
    let all: Vec<&String> = names.iter().filter(is_path).collect();
    let working = all.iter().filter(|path| is_running(&blocks.join(path)));
    (!all.is_empty()).then(|| working.count() as u32)
}

/// The physical links of the interface of this name. `interfaces` is `/sys/class/net`. `None` for an interface without
/// hardware that this host knows, such as that of a virtual machine.
pub fn to_network(interfaces: &Path, name: &str) -> Option<Links> {
    let mut name = name.to_owned();
    for _ in 0..LEVELS_MAX {
        let interface = interfaces.join(&name);
        let below: Vec<String> = entries(&interface)
            .iter()
            .filter_map(|entry| entry.strip_prefix("lower_").map(str::to_owned))
            .collect();
        // A team has no directory of its own; its interfaces are below it, as those of a bond.
        let is_bond = interface.join("bonding").is_dir() || below.len() > 1;
        if is_bond && !interface.join("bridge").is_dir() {
            let working = below.iter().filter(|one| is_up(&interfaces.join(one)));
            return Some(Links {
                all: below.len() as u32,
                working: working.count() as u32,
            });
        }
        // Of the interfaces of a bridge one leads out; the rest are those of guests.
        let next = below
            .iter()
            .find(|one| to_hardware(&interfaces.join(one)) || has_lower(&interfaces.join(one)));
        match next {
            Some(next) => name.clone_from(next),
            None => {
                let driver = fs::canonicalize(interface.join("device/driver")).ok()?;
                let driver = driver.file_name()?.to_string_lossy().into_owned();
                return (!VIRTUAL_DRIVERS.contains(&driver.as_str())).then(|| Links {
                    all: 1,
                    working: u32::from(is_up(&interface)),
                });
            }
        }
    }
    None
}

fn to_hardware(interface: &Path) -> bool {
    interface.join("device").exists()
}

fn has_lower(interface: &Path) -> bool {
    let entries = entries(interface);
    entries.iter().any(|entry| entry.starts_with("lower_"))
}

fn is_up(interface: &Path) -> bool {
    text(&interface.join("operstate")).as_deref() == Some("up")
}

/// The names in a directory, in order.
fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.take(ENTRIES_MAX).collect();
    names.sort();
    names
}

fn text(path: &Path) -> Option<String> {
    let text = printable(&fs::read_to_string(path).ok()?);
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates files and symbolic links, which are written as `path -> target`.
    fn sys(contents: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in contents {
            let at = root.path().join(path);
            fs::create_dir_all(at.parent().expect("a parent")).expect("a directory");
            match text.strip_prefix("-> ") {
                Some(target) => symlink(root.path().join(target), at).expect("a link"),
                None => fs::write(at, text).expect("a file"),
            }
        }
        root
    }

    #[test]
    fn working_paths_of_disks_are_counted() {
        let root = sys(&[
            ("devices/sda/device/state", "running\n"),
            ("devices/sda/sda1/partition", "1\n"),
            ("devices/sdb/device/state", "offline\n"),
            ("devices/dm-0/dm/uuid", "mpath-35000c500a1b20000\n"),
            ("devices/dm-0/slaves/sda", "-> devices/sda"),
            ("devices/dm-0/slaves/sdb", "-> devices/sdb"),
            ("devices/dm-1/dm/uuid", "part1-mpath-35000c500a1b20000\n"),
            ("devices/dm-1/slaves/dm-0", "-> devices/dm-0"),
            ("devices/dm-2/dm/uuid", "LVM-x\n"),
            ("devices/dm-2/slaves/sda", "-> devices/sda"),
            ("devices/loop0/size", "8\n"),
            ("devices/nvme0n1/device/x", ""),
            ("devices/nvme0c0n1/device/state", "live\n"),
            ("devices/nvme0c1n1/device/state", "live\n"),
            ("devices/nvme0c2n1/device/state", "connecting\n"),
            ("devices/nvme0c1n11/device/state", "live\n"),
            ("devices/nvme1n1/device/x", ""),
            ("block/sda", "-> devices/sda"),
            ("block/sda1", "-> devices/sda/sda1"),
            ("block/sdb", "-> devices/sdb"),
            ("block/dm-0", "-> devices/dm-0"),
            ("block/dm-1", "-> devices/dm-1"),
            ("block/dm-2", "-> devices/dm-2"),
            ("block/loop0", "-> devices/loop0"),
            ("block/nvme0n1", "-> devices/nvme0n1"),
            ("block/nvme0c0n1", "-> devices/nvme0c0n1"),
            ("block/nvme0c1n1", "-> devices/nvme0c1n1"),
            ("block/nvme0c2n1", "-> devices/nvme0c2n1"),
            ("block/nvme0c1n11", "-> devices/nvme0c1n11"),
            ("block/nvme1n1", "-> devices/nvme1n1"),
        ]);
        let blocks = root.path().join("block");
        let found = |name: &str| to_disk(&blocks, name).map(|found| (found.disk, found.paths));
        let disk = |disk: &str, paths| Some((disk.to_owned(), paths));
        assert_eq!(found("sda"), disk("sda", 1));
        assert_eq!(found("sda1"), disk("sda", 1));
        assert_eq!(found("dm-0"), disk("sda", 1), "an offline path");
        assert_eq!(found("dm-1"), disk("sda", 1));
        assert_eq!(found("nvme0n1"), disk("nvme0n1", 2));
        assert_eq!(found("nvme1n1"), disk("nvme1n1", 1));
        for none in ["dm-2", "loop0", "none"] {
            assert_eq!(found(none), None, "{none}");
        }
        fs::write(root.path().join("devices/sdb/device/state"), "running\n").expect("a file");
        assert_eq!(found("dm-1"), disk("sda", 2));
    }

    #[test]
    fn links_of_bonds_are_counted_through_vlans_and_bridges() {
        let root = sys(&[
            ("drivers/ixgbe/x", ""),
            ("drivers/virtio_net/x", ""),
            ("net/eno1/operstate", "up\n"),
            ("net/eno1/device/driver", "-> drivers/ixgbe"),
            ("net/eno2/operstate", "down\n"),
            ("net/eno2/device/driver", "-> drivers/ixgbe"),
            ("net/bond0/bonding/mode", "802.3ad 4\n"),
            ("net/bond0/lower_eno1", "-> net/eno1"),
            ("net/bond0/lower_eno2", "-> net/eno2"),
            ("net/bond0.7/lower_bond0", "-> net/bond0"),
            ("net/br0/bridge/x", ""),
            ("net/br0/lower_bond0.7", "-> net/bond0.7"),
            ("net/br0/lower_tap0", "-> net/tap0"),
            ("net/tap0/operstate", "up\n"),
            ("net/bond1/bonding/mode", "active-backup 1\n"),
            ("net/bond1/lower_eno2", "-> net/eno2"),
            ("net/eth0/operstate", "up\n"),
            ("net/eth0/device/driver", "-> drivers/virtio_net"),
            ("net/lo/operstate", "unknown\n"),
        ]);
        let net = root.path().join("net");
        let found = |name: &str| to_network(&net, name).map(|links| (links.all, links.working));
        assert_eq!(found("eno1"), Some((1, 1)));
        assert_eq!(found("eno2"), Some((1, 0)));
        for name in ["bond0", "bond0.7", "br0"] {
            assert_eq!(found(name), Some((2, 1)), "{name}");
        }
        assert_eq!(found("bond1"), Some((1, 0)));
        for none in ["eth0", "lo", "tap0", "none"] {
            assert_eq!(found(none), None, "{none}");
        }
    }
}
