//! Restricts a pool server's view of the file systems to a mount namespace. Foreign secrets, the host's own disks and
//! its control devices are hidden, and only the server's directories are writable.
//!
//! It works without Landlock, and covers changes that Landlock does not, such as of modes and owners. A hidden file
//! that is replaced by `rename` becomes visible again, because the kernel drops mounts on the former inode; directories
//! stay hidden.

use std::collections::BTreeSet;
use std::fs::FileType;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_remount,
};

/// Where devices are.
const DEVICES: &str = "/dev";
/// Mounted over a hidden file, socket or device.
const NOTHING: &str = "/dev/null";
/// Character devices that every process needs. The remaining ones control disks directly, memory or the host.
const HARMLESS: [&str; 7] = ["null", "zero", "full", "random", "urandom", "tty", "ptmx"];
/// Directories of `/dev` without hardware devices.
const WITHOUT_DEVICES: [&str; 4] = ["pts", "shm", "mqueue", "hugepages"];
/// Secrets of the host, and control sockets of its services.
const HOST_PATHS: [&str; 22] = [
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/root/.ssh",
    "/run/containerd",
    "/run/crm",
    "/run/dbus",
    "/run/docker.sock",
    "/run/initctl",
    "/run/libvirt",
    "/run/lvm",
    "/run/multipathd.socket",
    "/run/pcsd.socket",
    "/run/podman",
    "/run/sudo",
    "/run/systemd/private",
    "/run/udev/control",
    "/var/spool/cron",
];
/// File systems with lookups that can block on another host or process: they are left unchanged.
const SLOW: [&str; 9] = [
    "9p",
    "afs",
    "autofs",
    "ceph",
    "cifs",
    "glusterfs",
    "nfs",
    "nfs4",
    "smb3",
];
/// How many layers of devices are followed, such as a volume on an encrypted partition of a disk.
const LAYERS_MAX: usize = 16;

/// The parts that the view leaves out.
pub struct View<'a> {
    /// Paths that stay writable; all if none.
    pub written: Option<&'a [PathBuf]>,
    /// Hidden files and folders.
    pub secrets: &'a [PathBuf],
    /// Hide the machine's secrets, disks and devices as well.
    pub of_the_machine: bool,
}

/// Applies the view to this thread, and to threads it starts. Before the first mount, propagation to other processes is
/// turned off.
///
/// # Errors
///
/// The kernel refuses. Paths that were already hidden stay hidden.
pub fn narrow(view: &View<'_>) -> Result<(), String> {
    let failed = |error: rustix::io::Errno| error.to_string();
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| error.to_string())?;
    // Later mounts of the host propagate here; mounts made here do not propagate.
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", slave).map_err(failed)?;
    let mounts = mounts().map_err(|error| error.to_string())?;
    // Read first: the devices of mounted file systems are found by their paths.
    let devices = match view.of_the_machine {
        true => devices_to_hide(&mounts),
        false => Vec::new(),
    };
    if let Some(written) = view.written {
        only_read_elsewhere(written).map_err(|error| error.to_string())?;
    }
    let machine = HOST_PATHS.iter().map(PathBuf::from);
    let machine = machine.filter(|_| view.of_the_machine);
    let hidden = view.secrets.iter().cloned().chain(machine).chain(devices);
    // All of them, even after a failure.
    let outcomes: Vec<_> = hidden
        .map(|path| hide(&path).map_err(|error| format!("hide {}: {error}", path.display())))
        .collect();
    outcomes.into_iter().collect()
}

/// A mount (proc_pid_mountinfo(5)).
struct Mount {
    /// `MAJOR:MINOR` of its device.
    number: String,
    place: PathBuf,
    options: String,
    kind: String,
    source: String,
}

fn mounts() -> std::io::Result<Vec<Mount>> {
    // The file of the thread, because other threads are in the former namespace.
    let text = std::fs::read_to_string("/proc/thread-self/mountinfo")?;
    Ok(text.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Mount> {
    let (first, last) = line.split_once(" - ")?;
    let mut first = first.split(' ').skip(2);
    let mut last = last.split(' ');
    Some(Mount {
        number: first.next()?.to_owned(),
        place: unescaped(first.nth(1)?),
        options: first.next()?.to_owned(),
        kind: last.next()?.to_owned(),
        source: last.next().unwrap_or_default().to_owned(),
    })
}

/// Blanks and the like are written as octal numbers.
fn unescaped(text: &str) -> PathBuf {
    let mut path = text.to_owned();
    for (code, letter) in [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ] {
        path = path.replace(code, letter);
    }
    path.into()
}

fn only_read_elsewhere(written: &[PathBuf]) -> std::io::Result<()> {
    let written: BTreeSet<PathBuf> = written
        .iter()
        .filter_map(|folder| folder.canonicalize().ok())
        .collect();
    for folder in &written {
        mount_bind_recursive(folder, folder)?;
    }
    for one in mounts()? {
        let is_written = written.iter().any(|folder| one.place.starts_with(folder));
        let is_slow = SLOW.contains(&one.kind.as_str()) || one.kind.starts_with("fuse");
        // Disks of a lab are files that are mounted there.
        let is_disks = one.place.starts_with(DEVICES) && one.kind != "devtmpfs";
        if is_written || is_slow || is_disks {
            continue;
        }
        match mount_remount(&one.place, read_only(&one.options), "") {
            Ok(()) => {}
            // It is covered by another mount, or was unmounted concurrently.
            Err(error) if one.place != Path::new("/") => {
                tracing::debug!(%error, place = %one.place.display(), "not made read-only");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Read-only, and otherwise as it is mounted.
fn read_only(options: &str) -> MountFlags {
    let flags = options.split(',').map(|option| match option {
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    });
    flags.fold(MountFlags::BIND | MountFlags::RDONLY, MountFlags::union)
}

fn hide(path: &Path) -> std::io::Result<()> {
    let facts = match std::fs::metadata(path) {
        Ok(facts) => facts,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !facts.is_dir() {
        return Ok(mount_bind(NOTHING, path)?);
    }
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("none", path, "tmpfs", flags, c"mode=000,size=4k")?)
}

/// Returns block devices that the host itself uses, and character devices that control it.
fn devices_to_hide(mounts: &[Mount]) -> Vec<PathBuf> {
    let used = used_by_the_host(mounts);
    let mut found = Vec::new();
    collect(Path::new(DEVICES), &mut |path, kind| {
        let is_hidden = match kind {
            kind if kind.is_char_device() => {
                let name = path.strip_prefix(DEVICES).ok().and_then(Path::to_str);
                !name.is_some_and(|name| HARMLESS.contains(&name))
            }
            kind if kind.is_block_device() => {
                std::fs::symlink_metadata(path).is_ok_and(|facts| used.contains(&facts.rdev()))
            }
            _ => false,
        };
        if is_hidden {
            found.push(path.to_owned());
        }
    });
    found
}

fn collect(folder: &Path, each: &mut dyn FnMut(&Path, FileType)) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let is_entered = kind.is_dir()
            && !(folder == Path::new(DEVICES)
                && WITHOUT_DEVICES
                    .iter()
                    .any(|name| entry.file_name() == *name));
        match is_entered {
            true => collect(&entry.path(), each),
            false => each(&entry.path(), kind),
        }
    }
}

/// Returns the device numbers of mounted file systems and swap space, and of the devices below
/// them.
fn used_by_the_host(mounts: &[Mount]) -> BTreeSet<u64> {
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let swaps = swaps.lines().skip(1);
    let swaps = swaps.filter_map(|line| line.split_whitespace().next().map(unescaped));
    let sources = mounts.iter().map(|one| unescaped(&one.source));
    let named = sources.chain(swaps).filter_map(|path| {
        let facts = path.starts_with(DEVICES).then(|| std::fs::metadata(&path));
        let facts = facts?
            .ok()
            .filter(|facts| facts.file_type().is_block_device())?;
        let number = facts.rdev();
        Some(format!(
            "{}:{}",
            rustix::fs::major(number),
            rustix::fs::minor(number)
        ))
    });
    let mut used = BTreeSet::new();
    for number in mounts.iter().map(|one| one.number.clone()).chain(named) {
        let place = PathBuf::from(format!("/sys/dev/block/{number}"));
        if let Ok(place) = place.canonicalize() {
            add_with_those_below(&place, LAYERS_MAX, &mut used);
        }
    }
    used
}

fn add_with_those_below(place: &Path, layers: usize, used: &mut BTreeSet<u64>) {
    let number = std::fs::read_to_string(place.join("dev")).unwrap_or_default();
    let Some((major, minor)) = number.trim().split_once(':') else {
        return;
    };
    let (Ok(major), Ok(minor)) = (major.parse(), minor.parse()) else {
        return;
    };
    used.insert(rustix::fs::makedev(major, minor));
    if layers == 0 {
        return;
    }
    if place.join("partition").exists() {
        // The whole disk.
        if let Some(disk) = place.parent() {
            add_with_those_below(disk, layers - 1, used);
        }
    }
    let below = std::fs::read_dir(place.join("slaves"))
        .into_iter()
        .flatten();
    for one in below.flatten() {
        if let Ok(below) = one.path().canonicalize() {
            add_with_those_below(&below, layers - 1, used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_their_flags() {
        let line = "36 35 98:0 /mnt1 /mnt/a\\040b rw,nosuid,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let one = parse(line).expect("a mount");
        assert_eq!(
            (one.number.as_str(), one.place.as_path()),
            ("98:0", Path::new("/mnt/a b"))
        );
        assert_eq!(
            (one.kind.as_str(), one.source.as_str()),
            ("ext3", "/dev/root")
        );
        let flags =
            MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOATIME;
        assert_eq!(read_only(&one.options), flags);
        assert!(parse("").is_none());
    }

    /// The pool's disks must stay: only devices that the host itself has mounted are hidden.
    #[test]
    fn mounted_host_disk_includes_partitions_and_lower_devices() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str| folder.path().join(name);
        let make = |name: &str, number: &str| {
            std::fs::create_dir_all(place(name)).expect("made");
            std::fs::write(place(name).join("dev"), format!("{number}\n")).expect("written");
        };
        make("sda", "8:0");
        make("sda/sda3", "8:3");
        make("sda/sda4", "8:4");
        std::fs::write(place("sda/sda3/partition"), "3\n").expect("written");
        std::fs::write(place("sda/sda4/partition"), "4\n").expect("written");
        make("dm-0", "253:0");
        std::fs::create_dir(place("dm-0/slaves")).expect("made");
        std::os::unix::fs::symlink(place("sda/sda3"), place("dm-0/slaves/sda3")).expect("linked");
        let mut used = BTreeSet::new();
        add_with_those_below(&place("dm-0"), LAYERS_MAX, &mut used);
        let numbers =
            [(8, 0), (8, 3), (253, 0)].map(|(major, minor)| rustix::fs::makedev(major, minor));
        assert_eq!(used, numbers.into());
    }
}
