//! The files of a node: the binaries of the host, and its own copy of the rest.
//!
//! `/etc` is a copy, `/var` is new, `/run` and `/tmp` are temporary; `/dev` has the harmless devices and the node's
//! disks. All of it is assembled in the node's directory, and then mounted over the real paths through open
//! directories, so that it does not matter which of them hides the directory.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, mount, mount_bind, mount_bind_recursive};

use appliance::render::FENCE_AGENT;

use super::{COMMAND, must, ssh, step, systemctl};
use crate::clock;
use crate::directory::{
    AGENT_PROGRAM_IN_NODE, LabDirectory, PROGRAM_IN_NODE, SHARED_IN_NODE, SYSTEMCTL_IN_NODE, Setup,
    WITNESS_PROGRAM_IN_NODE,
};

/// Directories of the root that a node always has for itself.
const OWN: &[&str] = &["dev", "etc", "run", "var"];
/// Folders of the root that nothing can be mounted over: programs live there.
const NEEDED: &[&str] = &[
    "bin", "boot", "lib", "lib32", "lib64", "libx32", "proc", "root", "sbin", "sys", "tmp", "usr",
];
/// Devices that are the same for everyone.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
/// Where fence agents are. Pacemaker searches only this directory.
const FENCE_AGENTS: &str = "/usr/sbin";
/// Where the directory of the host is in a node.
const FENCE_AGENTS_OF_HOST: &str = "/run/lab/sbin";
/// Where agents of resources are.
const AGENTS: &str = "/usr/lib/ocf/resource.d";
/// Folders of a new `/var`, each with its permissions.
const VAR: &[(&str, u32)] = &[
    ("cache", 0o755),
    ("lib/bulkhead", 0o700),
    ("lib/corosync", 0o755),
    ("lib/dpkg", 0o755),
    ("lib/pacemaker/blackbox", 0o750),
    ("lib/pacemaker/cib", 0o750),
    ("lib/pacemaker/cores", 0o750),
    ("lib/pacemaker/pengine", 0o750),
    ("log/corosync", 0o755),
    ("log/pacemaker", 0o770),
    ("spool", 0o755),
    ("tmp", 0o1777),
];
/// Files that Pacemaker's daemons write as their own user.
const PACEMAKERS: &[&str] = &["lib/pacemaker", "log/pacemaker"];
/// The user and group of Pacemaker's daemons.
const PACEMAKER_OWNER: &str = "hacluster:haclient";

/// Whether a file can be created at `path` on a node without touching the host.
pub fn is_possible(path: &Path) -> bool {
    let Some(top) = top(path) else {
        return false;
    };
    let plain = path
        .components()
        .skip(1)
        .all(|part| matches!(part, Component::Normal(_)));
    let mountable = || !NEEDED.contains(&top.as_str()) && Path::new("/").join(&top).is_dir();
    plain && (OWN.contains(&top.as_str()) || mountable())
}

/// The first directory of an absolute path with more than one component.
fn top(path: &Path) -> Option<String> {
    let mut parts = path.strip_prefix("/").ok()?.components();
    let first = parts.next()?.as_os_str().to_str()?.to_owned();
    parts.next().map(|_| first)
}

/// Creates the state of a node that survives a power-off: `/etc` and `/var`.
pub fn prepare(folder: &LabDirectory, setup: &Setup, name: &str) -> io::Result<()> {
    let own = folder.machine(name);
    let (etc, var) = (own.join("etc"), own.join("var"));
    fs::create_dir_all(&own)?;
    copy_etc(&etc)?;
    systemctl::disable_all(&own)?;
    fs::write(etc.join("hostname"), format!("{name}\n"))?;
    fs::write(etc.join("machine-id"), machine_id()?)?;
    if setup.has_clocks {
        clock::prepare(folder, name, &etc)?;
    }
    for (path, password) in &setup.secrets {
        let place = own.join(path.strip_prefix("/").unwrap_or(path));
        fs::create_dir_all(place.parent().unwrap_or(&own))?;
        fs::write(&place, format!("{password}\n"))?;
        fs::set_permissions(&place, Permissions::from_mode(0o600))?;
    }
    for (path, mode) in VAR {
        fs::create_dir_all(var.join(path))?;
        fs::set_permissions(var.join(path), Permissions::from_mode(*mode))?;
    }
    symlink("/run", var.join("run"))?;
    symlink("/run/lock", var.join("lock"))?;
    for path in PACEMAKERS {
        let path = var.join(path);
        must(
            "chown",
            &["-R", PACEMAKER_OWNER, &path.to_string_lossy()],
            "",
        )?;
    }
    setup.keys.put(name, &own)?;
    match setup.has_ssh {
        true => ssh::prepare(folder, &own),
        false => Ok(()),
    }
}

/// A copy of the host's `/etc` without files that would make the node a member of another cluster, have the kernel open
/// its pools, or reveal the host's secrets.
fn copy_etc(etc: &Path) -> io::Result<()> {
    must(
        "cp",
        &["-a", "--one-file-system", "/etc", &etc.to_string_lossy()],
        "",
    )?;
    let own = ["corosync", "pacemaker", "bulkhead"];
    for gone in own
        .iter()
        .copied()
        .chain(["hostid", "zfs/zpool.cache", "mtab", clock::PRELOAD])
    {
        let path = etc.join(gone);
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    for name in own {
        fs::create_dir(etc.join(name))?;
    }
    fs::create_dir(etc.join("corosync/uidgid.d"))?;
    must(
        "chown",
        &["root:haclient", &etc.join("pacemaker").to_string_lossy()],
        "",
    )?;
    for entry in fs::read_dir(etc.join("systemd/system"))
        .into_iter()
        .flatten()
    {
        let wants = entry?.path();
        for unit in ["zfs-import-cache.service", "zfs-import-scan.service"] {
            // Most folders have no such link.
            let _ = fs::remove_file(wants.join(unit));
        }
    }
    Ok(())
}

/// A new machine-id(5).
fn machine_id() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(hex + "\n")
}

/// A directory that is assembled out of sight, and mounted at its path in the end.
struct Staged {
    target: PathBuf,
    handle: OwnedFd,
}

/// The machine's folders under construction.
struct Stage {
    own: PathBuf,
    staged: Vec<Staged>,
    /// The directories of the root under construction.
    tops: BTreeMap<String, PathBuf>,
}

impl Stage {
    /// Registers that `source` will be at `target`, even when its path leads elsewhere by then.
    fn put(&mut self, source: &Path, target: &str) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(source, flags, Mode::empty())?;
        self.staged.push(Staged {
            target: PathBuf::from(target),
            handle,
        });
        Ok(())
    }

    /// A new file system in memory, to be filled.
    fn memory(&mut self, top: &str, mode: &str) -> io::Result<PathBuf> {
        let place = self.own.join("stage").join(top);
        fs::create_dir_all(&place)?;
        let mode = std::ffi::CString::new(format!("mode={mode}")).map_err(io::Error::other)?;
        mount(
            "tmpfs",
            &place,
            "tmpfs",
            MountFlags::empty(),
            mode.as_c_str(),
        )?;
        self.put(&place, &format!("/{top}"))?;
        self.tops.insert(top.to_owned(), place.clone());
        Ok(place)
    }

    /// The path under construction for `path` of the node.
    fn place(&mut self, path: &Path) -> io::Result<PathBuf> {
        let unable =
            || io::Error::other(format!("no directory of the node for {}", path.display()));
        let top = top(path).ok_or_else(unable)?;
        if !self.tops.contains_key(&top) {
            if !is_possible(path) {
                return Err(unable());
            }
            self.memory(&top, "755")?;
        }
        let rest = path.strip_prefix("/").map_err(io::Error::other)?;
        let rest = rest.strip_prefix(&top).map_err(io::Error::other)?;
        let place = self.tops[&top].join(rest);
        fs::create_dir_all(place.parent().ok_or_else(unable)?)?;
        Ok(place)
    }

    /// Shows the file `source` at `path`.
    fn bind_file(&mut self, source: &Path, path: &Path) -> io::Result<()> {
        let place = self.place(path)?;
        File::create(&place)?;
        Ok(mount_bind(source, &place)?)
    }

    /// Shows the directory `source` at `path`.
    fn bind_directory(&mut self, source: &Path, path: &Path) -> io::Result<()> {
        let place = self.place(path)?;
        fs::create_dir_all(&place)?;
        Ok(mount_bind_recursive(source, &place)?)
    }

    /// Mounts all directories at their paths.
    fn finish(self) -> io::Result<()> {
        for Staged { target, handle } in &self.staged {
            let source = format!("/proc/self/fd/{}", handle.as_raw_fd());
            mount_bind_recursive(source, target)
                .map_err(io::Error::from)
                .map_err(step(format!("mount {}", target.display())))?;
        }
        Ok(())
    }
}

/// Mounts all private directories of a head or a witness. `disks` are paths on the node with the
/// files behind them.
pub fn build(folder: &LabDirectory, name: &str, disks: &[(PathBuf, PathBuf)]) -> io::Result<()> {
    let own = folder.machine(name);
    let mut stage = Stage {
        own: own.clone(),
        staged: Vec::new(),
        tops: BTreeMap::new(),
    };
    for top in ["etc", "var"] {
        stage.put(&own.join(top), &format!("/{top}"))?;
        stage.tops.insert(top.to_owned(), own.join(top));
    }
    let packages = Path::new("/var/lib/dpkg");
    if packages.is_dir() {
        stage.bind_directory(packages, packages)?;
        // The handle on /var was taken before that.
        stage.put(&own.join("var"), "/var")?;
    }
    run(&mut stage, folder)?;
    if folder.clock(name).exists() {
        let library = Path::new(clock::LIBRARY_IN_NODE);
        stage.bind_file(&folder.clock_library(), library)?;
        stage.bind_file(&folder.clock(name), Path::new(clock::CLOCK_IN_NODE))?;
    }
    devices(&mut stage)?;
    for (path, file) in disks {
        stage
            .bind_file(file, path)
            .map_err(step(format!("show {}", path.display())))?;
    }
    agents(&mut stage)?;
    fence_agents(&mut stage)?;
    kernel(true)?;
    stage.finish()
}

/// Mounts the private directories of the client.
pub fn build_for_client() -> io::Result<()> {
    kernel(true)?;
    let mode = c"mode=755";
    Ok(mount("tmpfs", "/run", "tmpfs", MountFlags::empty(), mode)?)
}

/// Mounts the directories that every network namespace needs.
pub fn build_for_device() -> io::Result<()> {
    kernel(false)
}

/// Kernel state, restricted to the node's namespaces.
fn kernel(has_own_processes: bool) -> io::Result<()> {
    if has_own_processes {
        mount("proc", "/proc", "proc", MountFlags::empty(), None)?;
        if Path::new("/proc/sysrq-trigger").exists() {
            mount_bind("/dev/null", "/proc/sysrq-trigger")?;
        }
    }
    Ok(mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None)?)
}

fn run(stage: &mut Stage, folder: &LabDirectory) -> io::Result<()> {
    let run = stage.memory("run", "755")?;
    for (name, mode) in [
        ("lock", 0o1777),
        ("resource-agents", 0o1755),
        ("lab", 0o755),
    ] {
        fs::create_dir(run.join(name))?;
        fs::set_permissions(run.join(name), Permissions::from_mode(mode))?;
    }
    stage.bind_file(&folder.program(), Path::new(PROGRAM_IN_NODE))?;
    for (program, place) in [
        (folder.agent_binary(), AGENT_PROGRAM_IN_NODE),
        (folder.witness_binary(), WITNESS_PROGRAM_IN_NODE),
    ] {
        if program.exists() {
            stage.bind_file(&program, Path::new(place))?;
        }
    }
    let systemctl = stage.place(Path::new(SYSTEMCTL_IN_NODE))?;
    fs::write(
        &systemctl,
        format!("#!/bin/sh\nexec {PROGRAM_IN_NODE} {COMMAND} systemctl \"$@\"\n"),
    )?;
    fs::set_permissions(&systemctl, Permissions::from_mode(0o755))?;
    stage.bind_directory(&folder.shared(), Path::new(SHARED_IN_NODE))
}

fn devices(stage: &mut Stage) -> io::Result<()> {
    let dev = stage.memory("dev", "755")?;
    for name in DEVICES {
        let device = Path::new("/dev").join(name);
        if device.exists() {
            stage.bind_file(&device, &device)?;
        }
    }
    for name in ["pts", "shm"] {
        fs::create_dir(dev.join(name))?;
    }
    let none = MountFlags::empty();
    mount(
        "devpts",
        dev.join("pts"),
        "devpts",
        none,
        c"ptmxmode=666,mode=620",
    )?;
    mount("tmpfs", dev.join("shm"), "tmpfs", none, c"mode=1777")?;
    symlink("pts/ptmx", dev.join("ptmx"))?;
    symlink("/proc/self/fd", dev.join("fd"))?;
    for (number, name) in ["stdin", "stdout", "stderr"].iter().enumerate() {
        symlink(format!("/proc/self/fd/{number}"), dev.join(name))?;
    }
    Ok(())
}

/// The agents of other vendors, and a directory for ours, which is written when the head is set up.
fn agents(stage: &mut Stage) -> io::Result<()> {
    let own = stage.own.join("agents");
    fs::create_dir_all(own.join("bulkhead"))?;
    for entry in fs::read_dir(AGENTS)? {
        let entry = entry?;
        if entry.file_name() == "bulkhead" || !entry.path().is_dir() {
            continue;
        }
        let place = own.join(entry.file_name());
        fs::create_dir_all(&place)?;
        mount_bind(entry.path(), &place)?;
    }
    stage.put(&own, AGENTS)
}

/// The directory of the fence agents, with a link for each file of the host. Ours is written there when the head is set up.
fn fence_agents(stage: &mut Stage) -> io::Result<()> {
    let own = stage.own.join("sbin");
    fs::create_dir_all(&own)?;
    for entry in fs::read_dir(FENCE_AGENTS)? {
        let entry = entry?;
        // The one of the host may be of another release.
        if entry.file_name() == FENCE_AGENT {
            continue;
        }
        let link = match entry.file_type()?.is_symlink() {
            true => fs::read_link(entry.path())?,
            false => Path::new(FENCE_AGENTS_OF_HOST).join(entry.file_name()),
        };
        match symlink(link, own.join(entry.file_name())) {
            // It is there since the last start.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    stage.bind_directory(Path::new(FENCE_AGENTS), Path::new(FENCE_AGENTS_OF_HOST))?;
    stage.put(&own, FENCE_AGENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_created_only_outside_host_paths() {
        for good in [
            "/dev/disk/by-id/scsi-1",
            "/etc/bulkhead/secrets/bmc",
            "/var/lib/x",
            "/mnt/a",
        ] {
            assert!(is_possible(Path::new(good)), "{good}");
        }
        for bad in [
            "disk",
            "/disk",
            "/usr/share/disk",
            "/tmp/disk",
            "/no-such-folder/disk",
            "/dev/../usr/disk",
        ] {
            assert!(!is_possible(Path::new(bad)), "{bad}");
        }
    }
}
