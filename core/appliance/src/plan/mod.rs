//! Compares the desired state with the actual state and plans the changes, in an order that is safe on a running
//! cluster. Files come first, then leg-servers head by head, then the records of pools, then cluster membership and
//! votes. The configuration of Pacemaker follows in one step. Pure; the crate `cluster` observes and applies.

mod cib;
mod disks;
mod display;
mod later;
mod legs;
mod portals;
mod removed;
mod running;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use legs_config::Group;
use schemars::JsonSchema;
use serde::Serialize;
use similar::{ChangeTag, TextDiff};
use units::{HeadName, PoolName};

pub use cib::{CibChange, ValueChange, cib_changes, empty_cib, merged, stopped};
pub use disks::ObservedDisk;
pub use legs::PoolToMake;
pub use running::RunningNode;

use crate::file::{Appliance, QuorumRule};
use crate::ports::Portals;
use crate::render::{self, Cib};
use crate::secret;
use crate::xml::Element;

/// Paths and options of a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The `bulkhead` binary that agents run.
    pub program: PathBuf,
    /// Whether systemd starts Corosync and Pacemaker. Otherwise no unit changes are planned.
    pub has_systemd: bool,
    /// Clients at an address that a pool loses need not disconnect first.
    pub in_use: bool,
    /// Leg-servers are restarted even while a leg that was current has not become current again.
    pub stale_legs: bool,
    /// Time limit of the wait for it otherwise.
    pub legs_wait: Duration,
}

/// Time within which a leg resynchronizes after a restart of its leg-server, unless it has a fault.
const LEGS_WAIT: Duration = Duration::from_secs(300);

impl Default for Layout {
    fn default() -> Self {
        Self {
            program: PathBuf::from("/usr/bin/bulkhead"),
            has_systemd: true,
            in_use: false,
            stale_legs: false,
            legs_wait: LEGS_WAIT,
        }
    }
}

/// The appliance file, as the agents read it.
pub const APPLIANCE_PATH: &str = "/etc/bulkhead/appliance.toml";
/// Corosync's configuration.
pub const COROSYNC_CONF_PATH: &str = "/etc/corosync/corosync.conf";
/// Exists while a file of Corosync is written but not yet reloaded.
pub const COROSYNC_UNREAD_PATH: &str = "/var/lib/bulkhead/corosync-unread";
/// The secret by which heads prove their membership in the cluster.
pub const AUTHKEY_PATH: &str = "/etc/corosync/authkey";
/// The key by which heads authenticate to each other.
pub const PEER_KEY_PATH: &str = "/etc/bulkhead/head/peer-key";
/// Length of a new key of the heads, in bytes.
pub const PEER_KEY_BYTES: usize = 32;
/// Longest key of the heads, in bytes.
pub const PEER_KEY_BYTES_MAX: usize = 4096;
/// The unit of Pacemaker.
const PACEMAKER_UNIT: &str = "pacemaker.service";
/// The unit of the API and the console, where the packages are installed.
pub const HEAD_UNIT: &str = "bulkhead-head.service";
/// The unit that lends a head's disks to other heads and stores the records of legs.
pub const LEG_UNIT: &str = "bulkhead-leg-server.service";
/// The certificate of the API and the console, unless `BULKHEAD_HEAD_DIR` names another directory.
pub const CERTIFICATE_PATH: &str = "/etc/bulkhead/head/certificate.pem";
/// The unit that votes for the witness.
pub const QDEVICE_UNIT: &str = "corosync-qdevice.service";
/// Options of the witness's client.
pub const QDEVICE_DEFAULTS_PATH: &str = "/etc/default/corosync-qdevice";
/// Length of a new secret, in bytes; the same as that of corosync-keygen.
pub const AUTHKEY_BYTES: usize = 256;
/// Shortest secret that Corosync accepts, in bytes.
pub const AUTHKEY_BYTES_MIN: usize = 128;
/// Longest secret that Corosync accepts, in bytes.
pub const AUTHKEY_BYTES_MAX: usize = 4096;

/// Returns whether a secret of Corosync can have this length. A truncated copy cannot.
pub const fn is_authkey(bytes: usize) -> bool {
    AUTHKEY_BYTES_MIN <= bytes && bytes <= AUTHKEY_BYTES_MAX
}

/// Returns whether a key of the heads can have this length. A truncated copy cannot.
pub const fn is_peer_key(bytes: usize) -> bool {
    PEER_KEY_BYTES <= bytes && bytes <= PEER_KEY_BYTES_MAX
}

/// The state that the appliance file describes.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredState {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Heads in the order of their numbers.
    pub heads: Vec<(HeadName, u32)>,
    /// The same heads as nodes of Corosync.
    pub nodes: Vec<render::Node>,
    /// Files that are the same on every head.
    pub files: Vec<File>,
    /// Files that each head has for itself.
    pub own_files: BTreeMap<HeadName, Vec<File>>,
    /// Units that run and are started at boot, in the order of their start.
    pub units: Vec<&'static str>,
    /// Units that must not run.
    pub units_unwanted: Vec<&'static str>,
    /// Units that are started last, on heads where they are installed.
    pub units_optional: Vec<&'static str>,
    /// Start options of corosync-qdevice; none without a witness.
    pub witness_settings: Option<String>,
    /// Where the witness listens; none without one that votes.
    pub witness_place: Option<(IpAddr, u16)>,
    /// The `bulkhead` binary of the heads.
    pub program: PathBuf,
    /// Names for the certificate of each head's API, where the head has no certificate.
    pub certificate_names: BTreeMap<HeadName, Vec<String>>,
    /// Where the server of each pool listens.
    pub portals: BTreeMap<PoolName, Portals>,
    /// Clients at an address that a pool loses need not disconnect first.
    pub in_use: bool,
    /// Leg-servers are restarted even while a leg that was current has not become current again.
    pub stale_legs: bool,
    /// Time limit of the wait for it otherwise.
    pub legs_wait: Duration,
    /// The configuration of Pacemaker.
    pub cib: Cib,
    /// Pools of legs. An administrator creates each one; Pacemaker is configured for it once a head
    /// has its record.
    pub pools_of_legs: Vec<PoolToMake>,
}

impl DesiredState {
    /// All files of `head`.
    pub fn files_of(&self, head: &HeadName) -> impl Iterator<Item = &File> {
        let own = self.own_files.get(head).into_iter().flatten();
        self.files.iter().chain(own)
    }
}

/// A file with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it is.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// Its permissions.
    pub mode: u32,
}

/// The observed state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Actual {
    /// By head.
    pub heads: BTreeMap<HeadName, HeadActual>,
    /// The CIB of the running cluster; none where none runs.
    pub cib: Option<Element>,
}

/// The actual state of one head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadActual {
    /// Texts and permissions of the files of the desired state, where they exist.
    pub files: BTreeMap<PathBuf, (String, u32)>,
    /// A digest of the secret; none where there is no secret.
    pub authkey: Option<Fingerprint>,
    /// A digest of the key of the heads; none where there is none.
    pub peer_key: Option<Fingerprint>,
    /// Whether the binary there reads that key. Older releases authenticate with Corosync's secret.
    pub reads_peer_key: bool,
    /// Where the servers that run there listen.
    pub portals: BTreeMap<PoolName, Portals>,
    /// Units that serve pools of the file there outside of Pacemaker, or will do so at the next
    /// boot.
    pub units_beside: BTreeSet<String>,
    /// Number of clients of the servers that run there.
    pub clients: BTreeMap<PoolName, u64>,
    /// Units of the desired state that are installed, as far as the plan needs to know.
    pub units_installed: BTreeSet<String>,
    /// Whether it has a certificate for its API and console, where their unit is installed.
    pub has_certificate: bool,
    /// Units that are started at boot.
    pub units_enabled: BTreeSet<String>,
    /// Units that run.
    pub units_active: BTreeSet<String>,
    /// Whether the binary of the desired state can be run there.
    pub has_program: bool,
    /// Name of the cluster that its running Corosync belongs to; none where it does not run.
    pub running_cluster: Option<String>,
    /// The heads in the configuration of its running Corosync, by name.
    pub running_nodes: BTreeMap<String, RunningNode>,
    /// Numbers of the pools of legs in its stored records.
    pub stored_pools: BTreeSet<u64>,
    /// The members of each such pool, by the record that the head accepted. None from a head with an earlier release.
    pub on_record: BTreeMap<u64, RecordedMembers>,
    /// The configuration that its running leg-server has read; none if it does not run, or is of an
    /// earlier release.
    pub legs_read: Option<String>,
    /// Its disks, by their paths in its current and its desired file of legs.
    pub disks: BTreeMap<PathBuf, ObservedDisk>,
    /// The start options of its running corosync-qdevice; none if it does not run, or an earlier release started it.
    pub witness_settings: Option<String>,
    /// Whether its corosync-qdevice has the witness.
    pub has_witness: bool,
    /// Whether a process listens at the address of the desired witness, as seen from this head. None where its
    /// corosync-qdevice already runs with the desired settings.
    pub reaches_witness: Option<bool>,
    /// A file of Corosync was written on this head and Corosync has not reloaded it.
    pub is_reload_due: bool,
}

/// The members of a pool of legs, by numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedMembers {
    /// None where the record does not name its members.
    pub heads: BTreeSet<u64>,
    /// If there is one.
    pub witness: Option<u64>,
    /// The disks by their numbers. None of a head with an earlier release.
    pub disks: Option<BTreeSet<u64>>,
    /// Those of them that hold all data. None of a head with an earlier release.
    pub current: Option<BTreeSet<u64>>,
}

/// A digest that distinguishes secrets without revealing them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Fingerprint(pub String);

/// The source of the secret of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthkeySource {
    /// None has one: make it.
    New,
    /// Copy that of this head.
    Head(HeadName),
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Change {
    /// Write a file.
    WriteFile {
        /// Where.
        head: HeadName,
        /// Which.
        path: PathBuf,
        /// Its new text.
        #[serde(skip)]
        text: String,
        /// Its permissions.
        mode: u32,
        /// Whether there is no such file yet.
        is_new: bool,
        /// In an existing file: removed lines, marked `-`, and added ones, marked `+`.
        lines: Vec<String>,
    },
    /// Write the secret. It is never printed.
    WriteAuthkey {
        /// Where.
        head: HeadName,
        /// Which secret.
        source: AuthkeySource,
    },
    /// Write the key by which heads authenticate to each other. It is never printed.
    WritePeerKey {
        /// Where.
        head: HeadName,
        /// Which key.
        source: AuthkeySource,
    },
    /// Change the portals of a pool's running server. Clients at unchanged addresses notice nothing.
    SetPortals {
        /// The head on which it runs.
        head: HeadName,
        /// The binary that reconfigures it.
        #[serde(skip)]
        program: PathBuf,
        /// Its pool.
        pool: PoolName,
        /// The desired portals.
        portals: Portals,
        /// The portals that are new.
        new: Portals,
        /// The portals that are removed.
        gone: Portals,
        /// Even though clients are connected through a removed portal.
        in_use: bool,
    },
    /// Have the running server of a pool of legs add a witness to its record, or remove it. Clients notice nothing.
    SetWitness {
        /// The head on which it runs.
        head: HeadName,
        /// The binary that reconfigures it.
        #[serde(skip)]
        program: PathBuf,
        /// Its pool.
        pool: PoolName,
        /// The witness, by its name in `legs.toml`; none for both heads alone.
        witness: Option<String>,
    },
    /// Have the running server of a pool of legs add a third head to its record. Clients notice nothing.
    AddHead {
        /// The head on which it runs.
        head: HeadName,
        /// The binary that reconfigures it.
        #[serde(skip)]
        program: PathBuf,
        /// Its pool.
        pool: PoolName,
        /// The head, as `legs.toml` names it.
        coming: String,
    },
    /// Have the running server of a pool attach a leg of that head. It is resynchronized while the pool is served.
    AttachLeg {
        /// The head on which it runs.
        head: HeadName,
        /// The binary that reconfigures it.
        #[serde(skip)]
        program: PathBuf,
        /// Its pool.
        pool: PoolName,
        /// A leg of its group, by its name in `pool status`.
        beside: String,
        /// The new one.
        leg: String,
    },
    /// Have the running server of a pool of legs add a group. The pool is served during that.
    AddGroup {
        /// The head on which it runs.
        head: HeadName,
        /// The binary that reconfigures it.
        #[serde(skip)]
        program: PathBuf,
        /// Its pool.
        pool: PoolName,
        /// The group, as arguments of `pool add`.
        group: Vec<String>,
    },
    /// Have Pacemaker stop pools and addresses that leave the file, before any change that their stop could depend on.
    StopResources {
        /// Their names in Pacemaker.
        resources: BTreeSet<String>,
    },
    /// Have every running Corosync reload its file; nothing is interrupted.
    ReloadCorosync {
        /// The head that runs the reload for all heads.
        head: HeadName,
    },
    /// Stop a unit, now and at boot.
    StopUnit {
        /// Where.
        head: HeadName,
        /// Which.
        unit: String,
    },
    /// Start a unit, now and at boot.
    StartUnit {
        /// Where.
        head: HeadName,
        /// Which.
        unit: String,
    },
    /// Wait until all legs that were current, or being resynchronized, are current, and until pools can do without the
    /// disks of the next head, before its leg-server restarts.
    AwaitLegs {
        /// The head that becomes unavailable next.
        head: HeadName,
        /// The binary that reports the states of legs.
        #[serde(skip)]
        program: PathBuf,
        /// The pools.
        pools: Vec<PoolName>,
        /// Their groups.
        #[serde(skip)]
        groups: BTreeMap<PoolName, Vec<Group>>,
        /// Its time limit.
        #[serde(skip)]
        time_limit: Duration,
        /// Only wait until the pools can do without the disks.
        #[serde(skip)]
        stale_legs: bool,
    },
    /// Restart a running unit, so that it reads its new file.
    RestartUnit {
        /// Where.
        head: HeadName,
        /// Which.
        unit: String,
    },
    /// Wait until the witness responds to a head.
    AwaitWitness {
        /// Which.
        head: HeadName,
    },
    /// Have a head create a certificate for its API and console. The key never leaves it.
    MakeCertificate {
        /// Where.
        head: HeadName,
        /// The binary that creates it.
        #[serde(skip)]
        program: PathBuf,
        /// Names and addresses that it is for.
        names: Vec<String>,
    },
    /// Change the configuration of Pacemaker in one step.
    ConfigurePacemaker {
        /// The desired configuration.
        #[serde(skip)]
        cib: Box<Cib>,
        /// Its differences from the running configuration.
        changes: Vec<CibChange>,
    },
}

impl Change {
    /// Returns whether it changes cluster membership, votes or the behaviour of Pacemaker.
    pub fn is_of_cluster(&self) -> bool {
        match self {
            Self::WriteFile { path, .. } => {
                [Reader::Corosync, Reader::WitnessDevice].contains(&Reader::of(path))
            }
            Self::StopUnit { unit, .. }
            | Self::StartUnit { unit, .. }
            | Self::RestartUnit { unit, .. } => ![LEG_UNIT, HEAD_UNIT].contains(&unit.as_str()),
            Self::ReloadCorosync { .. }
            | Self::AwaitWitness { .. }
            | Self::StopResources { .. }
            | Self::ConfigurePacemaker { .. } => true,
            _ => false,
        }
    }
}

/// Why nothing can be changed while the cluster runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Obstacle {
    /// The condition that prevents the change.
    pub what: String,
    /// The remedy.
    pub mend: String,
}

/// All changes, in order. With obstacles there are no changes: the obstacles must be removed first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Plan {
    /// Conditions that prevent the changes.
    pub obstacles: Vec<Obstacle>,
    /// The changes.
    pub changes: Vec<Change>,
    /// Pools of legs that do not exist yet. An administrator creates them after the changes; a later run configures
    /// Pacemaker for them.
    pub pools_to_make: Vec<PoolToMake>,
    /// Configuration that is retained although the file does not contain it, and settings that a
    /// running server adopts later.
    pub notes: Vec<String>,
}

impl Plan {
    /// Returns whether the actual state is the desired state.
    pub fn is_empty(&self) -> bool {
        self.obstacles.is_empty() && self.changes.is_empty() && self.pools_to_make.is_empty()
    }
}

/// Renders the desired state. `text` is the appliance file, byte by byte.
pub fn desired_state(appliance: &Appliance, text: &str, layout: &Layout) -> DesiredState {
    let file = |path: &str, text: String, mode| File {
        path: PathBuf::from(path),
        text,
        mode,
    };
    let appliance_mode = match secret::has_secrets(appliance) {
        true => 0o600,
        false => 0o644,
    };
    let mut files = vec![
        file(APPLIANCE_PATH, text.to_owned(), appliance_mode),
        file(COROSYNC_CONF_PATH, render::corosync_conf(appliance), 0o644),
        file(
            render::AGENT_PATH,
            render::agent_script(&layout.program),
            0o755,
        ),
        file(
            render::ADDRESS_AGENT_PATH,
            render::address_agent_script(&layout.program),
            0o755,
        ),
        file(
            render::AWAIT_HEADS_PATH,
            render::await_heads_script(appliance),
            0o755,
        ),
        file(render::PACEMAKER_UNIT_PATH, render::pacemaker_unit(), 0o644),
    ];
    if appliance.has_consent() {
        files.push(file(
            render::FENCE_AGENT_PATH,
            render::fence_agent_script(&layout.program),
            0o755,
        ));
    }
    files.extend(
        render::qdevice_defaults(appliance).map(|text| file(QDEVICE_DEFAULTS_PATH, text, 0o644)),
    );
    let has_witness =
        matches!(&appliance.quorum, Some(quorum) if quorum.rule == QuorumRule::Witness);
    let mut units = vec!["corosync.service", PACEMAKER_UNIT];
    let mut units_unwanted = Vec::new();
    let mut units_optional = vec![HEAD_UNIT];
    if has_witness {
        units.insert(1, QDEVICE_UNIT);
    } else {
        units_unwanted.push(QDEVICE_UNIT);
    }
    // Started before Pacemaker starts pools that need it.
    match appliance.has_legs() {
        true => units.insert(0, LEG_UNIT),
        false => units_unwanted.push(LEG_UNIT),
    }
    if !layout.has_systemd {
        units.clear();
        units_unwanted.clear();
        units_optional.clear();
    }
    let mut heads: Vec<(HeadName, u32)> = appliance
        .heads
        .iter()
        .map(|(name, head)| (name.clone(), head.number))
        .collect();
    heads.sort_by_key(|(_, number)| *number);
    DesiredState {
        cluster_name: appliance.name.clone(),
        heads,
        nodes: render::nodes(appliance),
        files,
        own_files: own_files(appliance),
        units,
        units_unwanted,
        units_optional,
        witness_settings: render::qdevice_settings(appliance),
        witness_place: appliance
            .quorum
            .as_ref()
            .and_then(|quorum| quorum.witness.as_ref())
            .map(|witness| (witness.address, witness.port)),
        program: layout.program.clone(),
        certificate_names: certificate_names(appliance),
        portals: portals(appliance),
        in_use: layout.in_use,
        stale_legs: layout.stale_legs,
        legs_wait: layout.legs_wait,
        cib: render::cib(appliance),
        pools_of_legs: legs::pools(appliance),
    }
}

fn own_files(appliance: &Appliance) -> BTreeMap<HeadName, Vec<File>> {
    let legs = |head: &HeadName| {
        let text = render::legs_toml(appliance, head)?;
        let file = File {
            path: PathBuf::from(render::LEGS_PATH),
            text,
            mode: 0o644,
        };
        Some((head.clone(), vec![file]))
    };
    appliance.heads.keys().filter_map(legs).collect()
}

fn portals(appliance: &Appliance) -> BTreeMap<PoolName, Portals> {
    let pools = appliance.pools.iter();
    let served = pools.filter(|(_, pool)| !pool.addresses.is_empty());
    served
        .map(|(name, pool)| (name.clone(), Portals::of(pool)))
        .collect()
}

/// A head's own name, the loopback, and its addresses.
fn certificate_names(appliance: &Appliance) -> BTreeMap<HeadName, Vec<String>> {
    let names = |head: &HeadName| {
        let local = ["localhost", "127.0.0.1"].map(str::to_owned);
        let addresses = appliance.addresses_of(head).into_iter();
        std::iter::once(head.to_string())
            .chain(local)
            .chain(addresses.map(|address| address.to_string()))
            .collect()
    };
    let heads = appliance.heads.keys();
    heads.map(|head| (head.clone(), names(head))).collect()
}

/// Plans the changes from `actual` to `desired`. Empty if there are none.
pub fn plan(desired: &DesiredState, actual: &Actual) -> Plan {
    let mut obstacles = obstacles(desired, actual);
    let witnesses = legs::witnesses(desired, actual);
    obstacles.extend(witnesses.obstacles);
    if !obstacles.is_empty() {
        return Plan {
            obstacles,
            ..Plan::default()
        };
    }
    let before = actual.cib.clone().unwrap_or_else(empty_cib);
    let pools_to_make = legs::uncreated_pools(desired, actual, &before);
    let cib = legs::without(&desired.cib, &pools_to_make);
    // First, since it may be refused: then nothing else has been changed.
    let portals = portals::changes(desired, actual);
    let mut changes = portals.first;
    changes.extend(removed::stop(&before, &cib));
    changes.extend(portals.then);
    changes.extend(witnesses.go);
    changes.extend(authkey_changes(desired, actual));
    changes.extend(peer_key_changes(desired, actual));
    changes.extend(file_changes(desired, actual, Reader::Agents));
    changes.extend(leg_changes(desired, actual));
    // The cluster is unchanged until the pools have it on record: no head becomes a member without being able to serve
    // the pools, and no witness votes without their records.
    changes.extend(witnesses.come);
    changes.extend(member_changes(desired, actual));
    let cib_changes = cib_changes(&before, &merged(&before, &cib));
    let mut last = vec![start_everywhere(desired, actual, PACEMAKER_UNIT)];
    if !cib_changes.is_empty() {
        let configured = Change::ConfigurePacemaker {
            cib: Box::new(cib),
            changes: cib_changes,
        };
        // A head that joins a running cluster must be fenceable, and no pool may start where it must not, before it
        // becomes a member.
        let place = usize::from(actual.cib.is_none());
        last.insert(place, vec![configured]);
    }
    changes.extend(last.into_iter().flatten());
    changes.extend(no_leg_changes(desired, actual));
    changes.extend(optional_unit_changes(desired, actual));
    // Last, since a disk may be refused, and a witness may be unreachable.
    changes.extend(witnesses.attach);
    changes.extend(witnesses.add);
    changes.extend(running::witness_to_await(desired, actual));
    Plan {
        obstacles,
        changes,
        pools_to_make,
        notes: [
            cib::of_operators(&before),
            later::notes(desired, actual),
            witnesses.notes,
        ]
        .concat(),
    }
}

/// Settings that Corosync cannot change while it runs, and changes that would be unsafe.
fn obstacles(desired: &DesiredState, actual: &Actual) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    for (head, _) in &desired.heads {
        let Some(known) = actual.heads.get(head) else {
            obstacles.push(Obstacle {
                what: format!("{head} does not answer"),
                mend: "start it: a head that missed a change would contradict the other heads"
                    .to_owned(),
            });
            continue;
        };
        let other = known.running_cluster.as_ref();
        if let Some(other) = other.filter(|name| **name != desired.cluster_name) {
            obstacles.push(Obstacle {
                what: format!(
                    "{head} runs in the cluster {other}, not in {}",
                    desired.cluster_name
                ),
                mend: format!(
                    "run `systemctl stop pacemaker corosync` on {head} first, if nothing of {other} is in use (Debian's packages start an empty cluster called debian)"
                ),
            });
        }
    }
    obstacles.extend(running::missing_program(desired, actual));
    obstacles.extend(running::renumbered(desired, actual));
    obstacles.extend(running::beside(desired, actual));
    obstacles.extend(running::unresponsive_witness(desired, actual));
    obstacles.extend(removed::obstacles(desired, actual));
    obstacles.extend(portals::changes(desired, actual).obstacles);
    for name in members(actual) {
        if !desired.heads.iter().any(|(head, _)| head.as_str() == name) {
            obstacles.push(Obstacle {
                what: format!("{name} is not in the file and is a member of the running cluster"),
                mend: format!(
                    "run `systemctl disable --now pacemaker corosync` on {name}, which hands its pools over, or put it back into the file"
                ),
            });
        }
    }
    let running: BTreeSet<&Fingerprint> = actual
        .heads
        .values()
        .filter(|known| known.running_cluster.is_some())
        .filter_map(|known| known.authkey.as_ref())
        .collect();
    if running.len() > 1 {
        obstacles.push(Obstacle {
            what: "running heads have different secrets, so they cannot be one cluster".to_owned(),
            mend: "if a change of the secret was cut off, run `bulkhead appliance rotate-key` again; else \
                   stop pacemaker and corosync on the head whose pools are not in use"
                .to_owned(),
        });
    }
    obstacles
}

/// The heads that Pacemaker sees: those with a controller that responds. Older versions report
/// `online`, newer ones the timestamp since when.
fn members(actual: &Actual) -> Vec<&str> {
    let is_online = |state: &&Element| match state.attribute("crmd") {
        Some("online") => true,
        Some(time) => time.parse::<u64>().is_ok_and(|time| time > 0),
        None => false,
    };
    let status = actual.cib.as_ref().and_then(|cib| cib.child("status"));
    status
        .iter()
        .flat_map(|status| &status.children)
        .filter(|state| state.name == "node_state")
        .filter(is_online)
        .filter_map(|state| state.attribute("uname"))
        .collect()
}

/// Writes the secret of a running head, else of the first that has one, else a new one, to all
/// heads.
fn authkey_changes(desired: &DesiredState, actual: &Actual) -> Vec<Change> {
    let holders = || known(desired, actual).filter(|(_, one)| one.authkey.is_some());
    let running = holders().find(|(_, one)| one.running_cluster.is_some());
    let holder = running.or_else(|| holders().next());
    let of = |one: &HeadActual| one.authkey.clone();
    key_changes(desired, actual, holder, of, |head, source| {
        Change::WriteAuthkey { head, source }
    })
}

/// Writes the key of the first head that has one, else a new one, to all heads. Applied once the binary of each head
/// reads the key: an older head could neither authenticate to the newer ones nor accept them.
fn peer_key_changes(desired: &DesiredState, actual: &Actual) -> Vec<Change> {
    if !known(desired, actual).all(|(_, one)| one.reads_peer_key) {
        return Vec::new();
    }
    let holder = known(desired, actual).find(|(_, one)| one.peer_key.is_some());
    let of = |one: &HeadActual| one.peer_key.clone();
    key_changes(desired, actual, holder, of, |head, source| {
        Change::WritePeerKey { head, source }
    })
}

/// Writes the key of `holder`, else a new one, to the heads with a different key or none.
fn key_changes(
    desired: &DesiredState,
    actual: &Actual,
    holder: Option<(&HeadName, &HeadActual)>,
    of: impl Fn(&HeadActual) -> Option<Fingerprint>,
    change: impl Fn(HeadName, AuthkeySource) -> Change,
) -> Vec<Change> {
    let source = match holder {
        Some((head, _)) => AuthkeySource::Head(head.clone()),
        None => AuthkeySource::New,
    };
    let right = holder.and_then(|(_, one)| of(one));
    known(desired, actual)
        .filter(|(_, one)| right.is_none() || of(one) != right)
        .map(|(head, _)| change(head.clone(), source.clone()))
        .collect()
}

fn file_change(head: &HeadName, file: &File, known: Option<&HeadActual>) -> Option<Change> {
    let old = known.and_then(|known| known.files.get(&file.path));
    let (old_text, old_mode) = match old {
        Some((text, mode)) => (text.as_str(), Some(*mode)),
        None => ("", None),
    };
    if old_text == file.text && old_mode == Some(file.mode) {
        return None;
    }
    Some(Change::WriteFile {
        head: head.clone(),
        path: file.path.clone(),
        text: file.text.clone(),
        mode: file.mode,
        is_new: old.is_none(),
        lines: match old {
            Some(_) => changed_lines(old_text, &file.text),
            None => Vec::new(),
        },
    })
}

/// Returns the removed and added lines.
fn changed_lines(old: &str, new: &str) -> Vec<String> {
    let diff = TextDiff::from_lines(old, new);
    let changed = diff.iter_all_changes().filter_map(|change| {
        let line = secret::hide_line(change.as_str()?.trim_end_matches('\n'));
        match change.tag() {
            ChangeTag::Delete => Some(format!("-{line}")),
            ChangeTag::Insert => Some(format!("+{line}")),
            ChangeTag::Equal => None,
        }
    });
    changed.collect()
}

/// The process that reads a file of a head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// Agents and commands, each time they run.
    Agents,
    /// The leg-server, when it starts.
    LegServer,
    /// Corosync, and through it the process that votes for the witness.
    Corosync,
    /// The process that votes for the witness, at its start.
    WitnessDevice,
}

impl Reader {
    fn of(path: &Path) -> Self {
        let is = |other: &str| path == Path::new(other);
        match () {
            () if is(render::LEGS_PATH) => Self::LegServer,
            () if is(COROSYNC_CONF_PATH) => Self::Corosync,
            () if is(QDEVICE_DEFAULTS_PATH) => Self::WitnessDevice,
            () => Self::Agents,
        }
    }
}

/// Heads that respond, in the order of their numbers.
fn known<'a>(
    desired: &'a DesiredState,
    actual: &'a Actual,
) -> impl Iterator<Item = (&'a HeadName, &'a HeadActual)> {
    let heads = desired.heads.iter();
    heads.filter_map(|(head, _)| Some((head, actual.heads.get(head)?)))
}

fn file_changes(desired: &DesiredState, actual: &Actual, reader: Reader) -> Vec<Change> {
    let heads = known(desired, actual);
    heads
        .flat_map(|head| file_changes_of(desired, head, reader))
        .collect()
}

fn file_changes_of<'a>(
    desired: &'a DesiredState,
    (head, known): (&'a HeadName, &'a HeadActual),
    reader: Reader,
) -> impl Iterator<Item = Change> + 'a {
    let files = desired.files_of(head);
    let files = files.filter(move |file| Reader::of(&file.path) == reader);
    files.filter_map(move |file| file_change(head, file, Some(known)))
}

/// Head by head: a leg-server reads its new file as soon as it is written. Until then the loss of another head can be
/// handled with the old one.
fn leg_changes(desired: &DesiredState, actual: &Actual) -> Vec<Change> {
    let mut changes = Vec::new();
    for (head, known) in known(desired, actual) {
        let files = file_changes_of(desired, (head, known), Reader::LegServer);
        let restart = restart(desired, head, known);
        if restart.is_some() {
            changes.extend(legs::awaited(desired, actual, head));
        }
        changes.extend(files);
        changes.extend(restart);
        if desired.units.contains(&LEG_UNIT) {
            changes.extend(start(head, known, LEG_UNIT));
        }
    }
    changes
}

/// Stops the leg-servers of heads that no longer lend disks. Only after the removed pools have stopped, so in the next
/// run.
fn no_leg_changes(desired: &DesiredState, actual: &Actual) -> Vec<Change> {
    let is_unwanted = desired.units_unwanted.contains(&LEG_UNIT);
    let mut served = actual.heads.values().flat_map(|known| known.portals.keys());
    let is_served = served.any(|pool| !desired.portals.contains_key(pool));
    let heads = known(desired, actual).filter(|_| is_unwanted && !is_served);
    heads
        .filter_map(|(head, known)| stop(head, known, LEG_UNIT))
        .collect()
}

/// Cluster membership and votes: files, then one reload, then at once the units that the votes of the new file need.
fn member_changes(desired: &DesiredState, actual: &Actual) -> Vec<Change> {
    let mut changes = file_changes(desired, actual, Reader::Corosync);
    let is_conf = |change: &Change| matches!(change, Change::WriteFile { path, .. } if path == Path::new(COROSYNC_CONF_PATH));
    let mut heads = actual.heads.values();
    let is_due = changes.iter().any(is_conf) || heads.any(|known| known.is_reload_due);
    let running = known(desired, actual).find(|(_, known)| known.running_cluster.is_some());
    if let Some((head, _)) = running.filter(|_| is_due) {
        changes.push(Change::ReloadCorosync { head: head.clone() });
    }
    for (head, known) in known(desired, actual) {
        let unwanted = desired.units_unwanted.iter();
        let unwanted = unwanted.filter(|unit| **unit != LEG_UNIT);
        changes.extend(unwanted.filter_map(|unit| stop(head, known, unit)));
        let units = desired.units.iter();
        let units = units.filter(|unit| ![LEG_UNIT, QDEVICE_UNIT, PACEMAKER_UNIT].contains(unit));
        changes.extend(units.filter_map(|unit| start(head, known, unit)));
    }
    changes.extend(running::witness_changes(desired, actual));
    changes
}

fn start_everywhere(desired: &DesiredState, actual: &Actual, unit: &str) -> Vec<Change> {
    let is_wanted = desired.units.contains(&unit);
    let heads = known(desired, actual).filter(|_| is_wanted);
    heads
        .filter_map(|(head, known)| start(head, known, unit))
        .collect()
}

fn stop(head: &HeadName, known: &HeadActual, unit: &str) -> Option<Change> {
    let is_there = known.units_active.contains(unit) || known.units_enabled.contains(unit);
    is_there.then(|| Change::StopUnit {
        head: head.clone(),
        unit: unit.to_owned(),
    })
}

/// Restarts the unit that reads `legs.toml`, where it runs with another version: the file is new, or an interrupted run
/// wrote it.
fn restart(desired: &DesiredState, head: &HeadName, known: &HeadActual) -> Option<Change> {
    let reads = |file: &&File| file.path == Path::new(render::LEGS_PATH);
    let file = desired.files_of(head).find(reads)?;
    let runs = desired.units.contains(&LEG_UNIT) && known.units_active.contains(LEG_UNIT);
    let read = known.legs_read.as_ref();
    let is_new = file_change(head, file, Some(known)).is_some();
    let is_other = is_new || read.is_some_and(|read| *read != file.text);
    (runs && is_other).then(|| Change::RestartUnit {
        head: head.clone(),
        unit: LEG_UNIT.to_owned(),
    })
}

/// Starts a unit that does not run, or not at every boot.
fn start(head: &HeadName, known: &HeadActual, unit: &str) -> Option<Change> {
    let is_started = known.units_active.contains(unit) && known.units_enabled.contains(unit);
    (!is_started).then(|| Change::StartUnit {
        head: head.clone(),
        unit: unit.to_owned(),
    })
}

/// Starts the consoles last, when the components that they show exist, each with a certificate. Without a certificate a
/// console listens on loopback only, and the other heads cannot query it.
fn optional_unit_changes(desired: &DesiredState, actual: &Actual) -> Vec<Change> {
    let installed = known(desired, actual).flat_map(|(head, known)| {
        let units = desired.units_optional.iter();
        let units = units.filter(|unit| known.units_installed.contains(**unit));
        units.flat_map(move |unit| {
            let lacks = *unit == HEAD_UNIT && !known.has_certificate;
            let certificate = lacks.then(|| Change::MakeCertificate {
                head: head.clone(),
                program: desired.program.clone(),
                names: desired
                    .certificate_names
                    .get(head)
                    .cloned()
                    .unwrap_or_default(),
            });
            certificate.into_iter().chain(start(head, known, unit))
        })
    });
    installed.collect()
}
