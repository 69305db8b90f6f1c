//! The memory of all processes of a head: a memory cgroup, version 1 or 2, in which the kernel accounts and bounds it.
//! If none can be created, a head has no such bound.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::directory::LabDirectory;

/// Time limit for the kernel to remove a group after its processes have exited.
const REMOVE_TIME_LIMIT: Duration = Duration::from_secs(5);
/// Pause between two tries.
const REMOVE_POLL: Duration = Duration::from_millis(20);
/// Bytes of the random end of a group's name: labs of one name may be in several places.
const NAME_BYTES: usize = 4;

/// Which interface of the kernel (cgroups(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The memory of a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryGroup {
    path: PathBuf,
    version: Version,
}

impl MemoryGroup {
    fn at(path: PathBuf) -> Self {
        let version = match path.join("memory.limit_in_bytes").exists() {
            true => Version::One,
            false => Version::Two,
        };
        Self { path, version }
    }

    /// The group that was created for the node `name`; `None` if none could be created.
    pub(crate) fn of(folder: &LabDirectory, name: &str) -> Option<Self> {
        let path = std::fs::read_to_string(folder.memory_group(name)).ok()?;
        Some(Self::at(PathBuf::from(path))).filter(|group| group.path.is_dir())
    }

    /// Creates a group for the node `name`, or finds the one of its earlier boots. It is recorded before it exists, so
    /// that [`MemoryGroup::remove`] finds it in any case.
    pub(crate) fn make(folder: &LabDirectory, name: &str) -> io::Result<Self> {
        if let Some(found) = Self::of(folder, name) {
            return Ok(found);
        }
        let mounts = std::fs::read_to_string("/proc/self/mounts")?;
        let own = std::fs::read_to_string("/proc/self/cgroup")?;
        let parent = parent(&mounts, &own).ok_or(io::ErrorKind::Unsupported)?;
        if parent.1 == Version::Two {
            let control = parent.0.join("cgroup.subtree_control");
            if !has_word(&std::fs::read_to_string(&control)?, "memory") {
                std::fs::write(&control, "+memory")?;
            }
        }
        let mut random = [0; NAME_BYTES];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let random = u32::from_ne_bytes(random);
        let path = parent.0.join(format!("bulkhead-lab-{name}-{random:08x}"));
        std::fs::write(folder.memory_group(name), path.to_string_lossy().as_bytes())?;
        std::fs::create_dir(&path)?;
        Ok(Self {
            path,
            version: parent.1,
        })
    }

    /// Moves a process into the group; its children are in it from then on.
    pub(crate) fn add(&self, pid: i32) -> io::Result<()> {
        std::fs::write(self.procs(), pid.to_string())
    }

    /// Where a process writes its own number to join.
    pub fn procs(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Memory that can be freed only by killing processes, in bytes.
    ///
    /// # Errors
    ///
    /// The kernel does not tell.
    pub fn held_bytes(&self) -> io::Result<u64> {
        let stat = std::fs::read_to_string(self.path.join("memory.stat"))?;
        let fields = match self.version {
            Version::One => ["total_rss", "total_shmem"],
            Version::Two => ["anon", "shmem"],
        };
        Ok(fields.iter().filter_map(|name| field(&stat, name)).sum())
    }

    /// Bounds the memory, or removes the bound.
    ///
    /// # Errors
    ///
    /// The kernel does not take it.
    pub fn limit(&self, bytes: Option<u64>) -> io::Result<()> {
        let (name, none) = match self.version {
            Version::One => ("memory.limit_in_bytes", "-1"),
            Version::Two => ("memory.max", "max"),
        };
        let value = bytes.map_or(none.to_owned(), |bytes| bytes.to_string());
        std::fs::write(self.path.join(name), value)
    }

    /// How many processes the kernel has killed for want of memory.
    ///
    /// # Errors
    ///
    /// The kernel does not tell.
    pub fn kills(&self) -> io::Result<u64> {
        let name = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = std::fs::read_to_string(self.path.join(name))?;
        Ok(field(&text, "oom_kill").unwrap_or(0))
    }

    /// Removes the group of the node in the directory `own`, after its processes have exited, if it has one.
    pub(crate) fn remove(folder: &LabDirectory, name: &str) -> io::Result<()> {
        let Some(group) = Self::of(folder, name) else {
            return Ok(());
        };
        let deadline = Instant::now() + REMOVE_TIME_LIMIT;
        loop {
            match std::fs::remove_dir(&group.path) {
                Err(error)
                    if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline =>
                {
                    std::thread::sleep(REMOVE_POLL);
                }
                done => return done,
            }
        }
    }
}

/// Where groups can be made: this process's own group of the memory controller, or the root of the one
/// hierarchy of version 2, in which a group that has processes can have no other below it.
fn parent(mounts: &str, own: &str) -> Option<(PathBuf, Version)> {
    for line in mounts.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, place, kind, options, ..] = words.as_slice() else {
            continue;
        };
        let place = Path::new(place);
        if *kind == "cgroup" && options.split(',').any(|option| option == "memory") {
            let below = place.join(own_group(own)?.trim_start_matches('/'));
            let is_seen = below.is_dir();
            return Some((if is_seen { below } else { place.into() }, Version::One));
        }
        let controllers = || std::fs::read_to_string(place.join("cgroup.controllers"));
        if *kind == "cgroup2" && controllers().is_ok_and(|all| has_word(&all, "memory")) {
            return Some((place.into(), Version::Two));
        }
    }
    None
}

/// The group in the hierarchy of the memory controller, of `/proc/self/cgroup`.
fn own_group(own: &str) -> Option<&str> {
    own.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let is_memory = controllers.split(',').any(|one| one == "memory");
        is_memory.then_some(group)
    })
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|one| one == word)
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_cgroup_hierarchy_is_found_in_mounts() {
        let own = "9:name=systemd:/\n4:cpu,memory:/some/group\n0::/\n";
        assert_eq!(own_group(own), Some("/some/group"));
        let mounts = "cgroup /nowhere/cpu cgroup rw,cpu 0 0\n\
                      cgroup /nowhere/memory cgroup rw,nosuid,memory 0 0\n";
        let found = parent(mounts, own);
        assert_eq!(found, Some(("/nowhere/memory".into(), Version::One)));
        assert_eq!(parent("proc /proc proc rw 0 0\n", own), None);
    }

    #[test]
    fn numbers_are_found_by_their_whole_name() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(field(text, "oom_kill"), Some(3));
        assert_eq!(field(text, "oom"), None);
    }
}
