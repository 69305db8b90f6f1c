//! The paths of a lab: one directory, and the settings in it that its processes share.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use appliance::Appliance;
use serde::{Deserialize, Serialize};
use units::{HeadName, PoolName};

use crate::keys::Keys;

/// The directory of labs, with a subdirectory of its name for each.
pub const DEFAULT_BASE: &str = "/var/lib/bulkhead/lab";

/// Paths in the directory of one lab.
#[derive(Clone, Debug)]
pub struct LabDirectory(PathBuf);

impl LabDirectory {
    /// The lab `name` under `base`.
    pub fn new(base: &Path, name: &str) -> Self {
        Self(base.join(name))
    }

    /// The directory at `path`.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Locked as long as a process of the lab exists.
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// The request: a [`Setup`].
    pub fn setup(&self) -> PathBuf {
        self.0.join("setup.json")
    }

    /// The lab's first process: a [`FirstProcess`].
    pub fn first_process(&self) -> PathBuf {
        self.0.join("first-process.json")
    }

    /// The socket of the supervisor.
    pub fn control(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    /// The password of the user that heads know, if they have consoles.
    pub fn console_password(&self) -> PathBuf {
        self.0.join("console-password")
    }

    /// The key with which heads reach each other; the public one has the ending `pub`.
    pub fn ssh_key(&self) -> PathBuf {
        self.0.join("ssh-key")
    }

    /// The log of the supervisor.
    pub fn log(&self) -> PathBuf {
        self.0.join("supervisor.log")
    }

    /// The binary as it was at the start of the lab, in the lab's mount namespace only.
    pub fn program(&self) -> PathBuf {
        self.0.join("program")
    }

    /// The binary that Pacemaker runs, as it was at the start of the lab; missing if it was not in the directory of the
    /// main binary.
    pub fn agent_binary(&self) -> PathBuf {
        self.0.join("program-agent")
    }

    /// The binary of the witness, as it was at the start of the lab; missing if it was not in the directory of the main
    /// binary.
    pub fn witness_binary(&self) -> PathBuf {
        self.0.join("program-witness")
    }

    /// The directory that all nodes see at [`SHARED_IN_NODE`].
    pub fn shared(&self) -> PathBuf {
        self.0.join("shared")
    }

    /// Faults of a pool's devices, as `pool-server --leg-faults` reads them.
    pub fn leg_faults(&self, pool: &PoolName) -> PathBuf {
        self.shared().join(format!("{pool}.faults"))
    }

    /// The file behind a pool's disk.
    pub fn disk(&self, pool: &PoolName, index: usize) -> PathBuf {
        self.0.join("disks").join(format!("{pool}-{index}.img"))
    }

    /// The file behind a disk that only one head has.
    pub fn own_disk(&self, number: u32) -> PathBuf {
        self.0.join("disks").join(format!("own-{number}.img"))
    }

    /// The library that provides clocks for heads.
    pub fn clock_library(&self) -> PathBuf {
        self.0.join("clock.so")
    }

    /// How far the clock of a head is from this machine's; there only where heads have clocks.
    pub fn clock(&self, name: &str) -> PathBuf {
        self.machine(name).join("clock")
    }

    /// The path of the memory group of a head.
    pub fn memory_group(&self, name: &str) -> PathBuf {
        self.machine(name).join("memory-group")
    }

    /// The private state of nodes, in a directory for each.
    pub fn machines(&self) -> PathBuf {
        self.0.join("machines")
    }

    /// The private state of one node: `etc`, `var`, its console, and mount points.
    pub fn machine(&self, name: &str) -> PathBuf {
        self.machines().join(name)
    }

    /// Configuration and state of a device outside of the nodes, such as a BMC.
    pub fn device(&self, name: &str) -> PathBuf {
        self.0.join("devices").join(name)
    }
}

/// The path of the shared directory on every node.
pub const SHARED_IN_NODE: &str = "/run/lab/shared";
/// The path of the binary on every node.
pub const PROGRAM_IN_NODE: &str = "/run/lab/bin/bulkhead";
/// The path, if any, of the binary that has the agents only.
pub const AGENT_PROGRAM_IN_NODE: &str = "/run/lab/bin/bulkhead-agent";
/// The path, if any, of the binary of the witness.
pub const WITNESS_PROGRAM_IN_NODE: &str = "/run/lab/bin/bulkhead-witness";
/// The path of a head's `systemctl`: before that of the host.
pub const SYSTEMCTL_IN_NODE: &str = "/run/lab/bin/systemctl";
/// The search path for commands on every node.
pub const PATH_IN_NODE: &str =
    "/run/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The kind of power distribution unit that is imitated, by its agent.
pub const PDU_AGENT: &str = "fence_apc_snmp";

/// The appliance without the fence devices that a lab does not imitate, and a sentence for each removed one. The
/// remaining devices power a head off as reliably.
pub fn imitated(mut appliance: Appliance) -> (Appliance, Vec<String>) {
    let mut left_out = Vec::new();
    let is_imitated = |pdu: &appliance::Pdu| pdu.agent == PDU_AGENT;
    for (name, head) in &mut appliance.heads {
        let Some(fencing) = &mut head.fencing else {
            continue;
        };
        if fencing.virtual_machine.take().is_some() {
            left_out.push(format!("{name}: the lab imitates no hypervisor"));
        }
        let pdus = &appliance.pdus;
        fencing.outlets.retain(|outlet| {
            let keeps = pdus.get(&outlet.pdu).is_some_and(is_imitated);
            if !keeps {
                left_out.push(format!(
                    "{name}: the lab imitates no unit like {}",
                    outlet.pdu
                ));
            }
            keeps
        });
    }
    appliance.hypervisors.clear();
    appliance.pdus.retain(|_, pdu| is_imitated(pdu));
    (appliance, left_out)
}

/// The settings that the processes of a lab share from its start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// The lab's name.
    pub name: String,
    /// The appliance file that names all machines, byte by byte.
    pub file_text: String,
    /// The file for setting up the heads, if that is not the whole file: further heads are in the state after their
    /// installation.
    #[serde(default)]
    pub applied_text: Option<String>,
    /// Passwords made for this lab, by the file that holds them on the heads.
    pub secrets: BTreeMap<PathBuf, String>,
    /// Keys made for this lab, where disks belong to heads.
    #[serde(default)]
    pub keys: Keys,
    /// The maximum cache of a pool, in bytes: the heads share one host.
    pub arc_bytes_max: u64,
    /// Whether each head has a wall clock of its own.
    pub has_clocks: bool,
    /// Whether each head serves its console.
    #[serde(default)]
    pub has_console: bool,
    /// Whether heads reach each other by ssh.
    #[serde(default)]
    pub has_ssh: bool,
}

impl Setup {
    /// Reads the output of [`Setup::save`].
    ///
    /// # Errors
    ///
    /// It cannot be read or understood.
    pub fn load(folder: &LabDirectory) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(folder.setup())?)?)
    }

    /// Writes it as a whole.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn save(&self, folder: &LabDirectory) -> io::Result<()> {
        replace(&folder.setup(), &serde_json::to_vec_pretty(self)?)
    }

    /// All machines there are, as far as they are imitated.
    ///
    /// # Errors
    ///
    /// The text differs from the one that was checked at the start.
    pub fn appliance(&self) -> io::Result<Appliance> {
        understood(&self.file_text)
    }

    /// The text that the heads are set up by.
    pub fn applied_text(&self) -> &str {
        self.applied_text.as_ref().unwrap_or(&self.file_text)
    }

    /// The appliance that the heads are set up as.
    ///
    /// # Errors
    ///
    /// As [`Setup::appliance`].
    pub fn applied(&self) -> io::Result<Appliance> {
        understood(self.applied_text())
    }
}

fn understood(text: &str) -> io::Result<Appliance> {
    match appliance::parse(text) {
        Ok(parsed) => Ok(imitated(parsed.appliance).0),
        Err(finding) => Err(io::Error::other(finding.what)),
    }
}

/// The first process of the lab, by its pid on the host; the lab stops with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstProcess {
    /// Its number.
    pub pid: i32,
    /// When it began, in clock ticks since boot: numbers are used again.
    pub started_ticks: u64,
}

impl FirstProcess {
    /// Reads the note; none before the process wrote it.
    ///
    /// # Errors
    ///
    /// It cannot be read or understood.
    pub fn load(folder: &LabDirectory) -> io::Result<Option<Self>> {
        match std::fs::read(folder.first_process()) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the note as a whole.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn save(&self, folder: &LabDirectory) -> io::Result<()> {
        replace(&folder.first_process(), &serde_json::to_vec(self)?)
    }
}

/// Readers see the old text or the new one.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, bytes)?;
    std::fs::rename(&new, path)
}

/// The files behind all disks.
pub fn disk_files(folder: &LabDirectory, appliance: &Appliance) -> Vec<PathBuf> {
    let shared = shared_disks(folder, appliance);
    let shared = shared.into_iter().map(|(_, file)| file);
    let own = appliance
        .heads
        .values()
        .flat_map(|head| head.disks.values());
    shared
        .chain(own.map(|disk| folder.own_disk(disk.number)))
        .collect()
}

/// The disks of pools that more than one head sees, each with the file behind it.
fn shared_disks(folder: &LabDirectory, appliance: &Appliance) -> Vec<(PathBuf, PathBuf)> {
    let pools = appliance.pools.iter();
    pools
        .flat_map(|(name, pool)| {
            let disks = pool.disks.iter().enumerate();
            disks.map(|(index, disk)| (disk.clone(), folder.disk(name, index)))
        })
        .collect()
}

/// The disks that `head` sees.
pub fn disks_of(
    folder: &LabDirectory,
    appliance: &Appliance,
    head: &HeadName,
) -> Vec<(PathBuf, PathBuf)> {
    let seen = |pool: &appliance::Pool| appliance.heads_of(pool).contains(head);
    let mut appliance = appliance.clone();
    let all = appliance.clone();
    appliance.pools.retain(|name, _| seen(&all.pools[name]));
    let own = all.heads.get(head).into_iter();
    let own = own.flat_map(|head| head.disks.values());
    let own = own.map(|disk| (disk.path.clone(), folder.own_disk(disk.number)));
    shared_disks(folder, &appliance)
        .into_iter()
        .chain(own)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_sees_only_its_own_disks() {
        let text = include_str!("../../examples/legs-two-heads-witness.toml");
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let folder = LabDirectory::at("/lab".into());
        let files = |head: &str| -> Vec<PathBuf> {
            let disks = disks_of(&folder, &appliance, &head.parse().expect("a name"));
            disks.into_iter().map(|(_, file)| file).collect()
        };
        let (left, right) = (files("left"), files("right"));
        assert_eq!((left.len(), right.len()), (3, 3));
        assert!(left.iter().all(|file| !right.contains(file)));
        assert_eq!(disk_files(&folder, &appliance).len(), 6);
    }
}
