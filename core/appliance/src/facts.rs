//! Facts of the heads. The crate `cluster` gathers them and passes them to the check, so that every
//! check can be tested with a table. Unknown facts are absent, and checks that depend on them are
//! skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use units::{ByteCount, HeadName, PoolName};

use crate::alerts::Alerts;
use crate::file::{Appliance, QuorumRule, Tls};
use crate::placement::{DiskPlacement, InterfaceLinks};
use crate::tuning::HostTuning;

/// All facts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// By head. A head that did not respond is absent.
    pub heads: BTreeMap<HeadName, HeadFacts>,
    /// By pool, where a head could read its labels.
    pub pools: BTreeMap<PoolName, PoolFacts>,
}

/// The facts of one head.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeadFacts {
    /// Addresses over which the head was not reached, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<String>,
    /// The output of `uname -n`.
    pub node_name: Option<String>,
    /// A digest of `/etc/machine-id`; empty where there is none. OpenZFS writes the host id that is
    /// derived from it into labels.
    pub identity: Option<String>,
    /// Physical memory.
    pub memory: Option<ByteCount>,
    /// How far its clock is ahead of the clock of the checking head, in milliseconds.
    pub clock_ahead_ms: Option<i64>,
    /// The longest time that no process was scheduled in a test, in milliseconds.
    pub stall_ms_max: Option<u32>,
    /// Each binary that was looked for, and whether it exists.
    pub programs: BTreeMap<String, bool>,
    /// Versions of the packages that must be equal on all heads, by package.
    pub versions: BTreeMap<String, String>,
    /// Network interfaces by name.
    pub interfaces: Option<BTreeMap<String, InterfaceFacts>>,
    /// Each disk of the file; `None` where the head does not see it.
    pub disks: BTreeMap<PathBuf, Option<DiskFacts>>,
    /// Whether a disk supports persistent reservations, for each block device that could be
    /// queried.
    pub reservations: BTreeMap<PathBuf, bool>,
    /// Feature flags that its OpenZFS supports.
    pub zfs_features: Option<BTreeSet<String>>,
    /// Why its binary refuses to open pools, if it does.
    pub engine_refused: Option<String>,
    /// Feature flags that are needed to read the pools on its disks.
    pub features_in_use: BTreeMap<PoolName, BTreeSet<String>>,
    /// Pools that a cache file names, which a booting kernel ZFS would import.
    pub cached_pools: BTreeSet<String>,
    /// Units that systemd starts at boot.
    pub enabled_units: BTreeSet<String>,
    /// Each secret file of the appliance; `None` where it is missing.
    pub secrets: BTreeMap<PathBuf, Option<SecretFacts>>,
    /// The result of reading the files of [`Tls`], by the path of the certificate.
    pub tls: BTreeMap<PathBuf, TlsFacts>,
    /// Files with keys of encrypted volumes, as reported by the pools that it serves now.
    pub key_files: BTreeMap<PoolName, BTreeSet<PathBuf>>,
    /// Key files of all pools that are missing on this head; `None` if unknown.
    pub key_files_missing: Option<BTreeSet<PathBuf>>,
    /// Fingerprint of the certificate by which other heads know its lender; empty where it has none.
    pub leg_fingerprint: Option<String>,
    /// Addresses of its interfaces, by interface.
    pub addresses: Option<BTreeMap<String, BTreeSet<IpAddr>>>,
    /// Whether it has a configuration of legs, so that its leg-server should run.
    pub has_leg_config: bool,
    /// Permission bits of the key by which other heads know its lender; none without such a key.
    pub leg_key_mode: Option<u32>,
    /// The result of a handshake with each member of the record of legs, also with its own leg-server.
    pub members: BTreeMap<SocketAddr, MemberProbe>,
    /// Whether a process listens at the addresses of the members of the record of legs.
    pub ways_to_witness: BTreeMap<SocketAddr, bool>,
    /// Whether it has a certificate for the witness.
    pub witness_certificate: Option<bool>,
    /// The result of querying the voting witness from this head; absent if it was not queried.
    pub voting_witness: Option<ProbeResult>,
    /// Whether a process listens at the servers of the receivers of alerts, by `HOST PORT`.
    pub receivers: BTreeMap<String, bool>,
    /// The status of the fence devices of other heads, by their names in Pacemaker.
    pub fence_devices: BTreeMap<String, ProbeResult>,
    /// Settings of the host; absent if it runs a version that does not report them.
    pub tuning: Option<HostTuning>,
    /// Where its disks are, by the path in the file.
    pub placements: BTreeMap<PathBuf, DiskPlacement>,
    /// The physical links of interfaces that are in the file, by interface.
    pub links: BTreeMap<String, InterfaceLinks>,
    /// The replies of the uninterruptible power supplies to this head, by their names in the file.
    pub feeds: BTreeMap<String, ProbeResult>,
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeResult {
    /// It was answered.
    Given,
    /// It was not, with the reason.
    Missing(String),
}

/// The result of a handshake with a member of the record of legs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberProbe {
    /// Each side accepts the certificate of the other one.
    Accepted,
    /// No process accepts a connection, with the reason.
    Closed(String),
    /// Its certificate has this fingerprint, which is not that in the file.
    Fingerprint(String),
    /// It refuses the certificate of the head.
    Rejected,
}

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceFacts {
    /// Largest packet, in bytes.
    pub mtu: u32,
}

/// One disk as a head sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskFacts {
    /// The physical block size in bytes.
    pub physical_block_bytes: u32,
    /// Offset of the first boundary of a physical block, in bytes.
    pub alignment_offset_bytes: u32,
    /// Its size; 0: unknown.
    #[serde(default)]
    pub size_bytes: u64,
}

/// One file that holds a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretFacts {
    /// Permission bits.
    pub mode: u32,
}

/// A certificate with its key, and the authorities of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFacts {
    /// Why it cannot be used, if it cannot.
    pub refused: Option<String>,
    /// Remaining validity, in seconds; negative: expired.
    pub valid_for_s: Option<i64>,
}

/// One pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolFacts {
    /// Feature flags that are active on it. A head must support all of them to import it.
    pub active_features: BTreeSet<String>,
    /// Files that hold keys of its encrypted volumes.
    pub key_files: BTreeSet<PathBuf>,
    /// Its property `cachefile`; must be absent or `none`.
    pub cachefile: Option<String>,
}

/// Returns the binaries that every head of this appliance needs.
pub fn programs_required(appliance: &Appliance) -> BTreeSet<String> {
    let mut programs: BTreeSet<String> = [
        "bulkhead",
        "corosync",
        "corosync-cfgtool",
        "pacemakerd",
        "cibadmin",
        "crm_diff",
        "ip",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect();
    let fencing = appliance.heads.values().filter_map(|h| h.fencing.as_ref());
    if fencing.clone().any(|fencing| fencing.bmc.is_some()) {
        programs.insert("fence_ipmilan".to_owned());
        programs.insert("ipmitool".to_owned());
    }
    for outlet in fencing.clone().flat_map(|fencing| &fencing.outlets) {
        if let Some(pdu) = appliance.pdus.get(&outlet.pdu) {
            programs.insert(pdu.agent.clone());
        }
    }
    for machine in fencing.filter_map(|fencing| fencing.virtual_machine.as_ref()) {
        if let Some(hypervisor) = appliance.hypervisors.get(&machine.hypervisor) {
            programs.insert(hypervisor.agent.clone());
            if hypervisor.key_file.is_some() {
                programs.insert("ssh".to_owned());
            }
        }
    }
    let quorum = appliance.quorum.as_ref();
    if quorum.is_some_and(|quorum| quorum.rule == QuorumRule::Witness) {
        programs.insert("corosync-qdevice".to_owned());
        if quorum
            .and_then(|q| q.witness.as_ref())
            .is_some_and(|w| !w.reach.is_empty())
        {
            programs.insert("ping".to_owned());
        }
    }
    programs
}

/// Returns the files with secrets that every head of this appliance needs.
pub fn secrets_required(appliance: &Appliance) -> BTreeSet<PathBuf> {
    let mut secrets = passwords_required(appliance);
    secrets.extend(tls_required(appliance).map(|tls| tls.key_file.clone()));
    let pools = appliance.pools.values();
    let kerberos = pools.filter_map(|pool| pool.kerberos.as_ref());
    secrets.extend(kerberos.map(|kerberos| kerberos.keytab_file.clone()));
    let alerts = appliance.alerts.iter();
    secrets.extend(alerts.flat_map(Alerts::secret_files));
    secrets
}

/// The TLS of all pools.
pub fn tls_required(appliance: &Appliance) -> impl Iterator<Item = &Tls> {
    let pools = appliance.pools.values();
    pools.flat_map(|pool| pool.all_tls().map(|(_, _, tls)| tls))
}

/// The addresses at which the leg-server of a head receives other members.
pub fn leg_server_addresses(appliance: &Appliance, head: &HeadName) -> Vec<SocketAddr> {
    let Some(legs) = appliance.legs.as_ref().filter(|_| appliance.has_legs()) else {
        return Vec::new();
    };
    let links = appliance.heads.get(head).map(|head| &head.links);
    let links = legs.networks.iter().filter_map(|name| links?.get(name));
    let addresses = links.flat_map(|link| &link.addresses);
    let address = |address: &IpAddr| SocketAddr::new(*address, legs.member_port);
    addresses.map(address).collect()
}

/// The addresses of the third member of the record of legs.
pub fn leg_witness_addresses(appliance: &Appliance) -> Vec<SocketAddr> {
    let witness = appliance.witness.iter().filter(|_| appliance.has_legs());
    let addresses = witness.flat_map(|witness| {
        let address = |address: &IpAddr| SocketAddr::new(*address, witness.port);
        witness.addresses.iter().map(address)
    });
    addresses.collect()
}

/// The members of the record of legs: addresses, and fingerprints in the file.
pub fn members_required(appliance: &Appliance) -> Vec<(SocketAddr, &str)> {
    let heads = appliance.heads.iter().flat_map(|(name, head)| {
        let fingerprint = head.fingerprint.as_deref().unwrap_or_default();
        let addresses = leg_server_addresses(appliance, name).into_iter();
        addresses.map(move |address| (address, fingerprint))
    });
    let witness = appliance.witness.iter().flat_map(|witness| {
        let addresses = leg_witness_addresses(appliance).into_iter();
        addresses.map(|address| (address, witness.fingerprint.as_str()))
    });
    heads.chain(witness).collect()
}

/// Returns the files with passwords and keys of fence devices and power supplies that every head of this appliance
/// needs.
pub fn passwords_required(appliance: &Appliance) -> BTreeSet<PathBuf> {
    let bmcs = appliance
        .heads
        .values()
        .filter_map(|head| head.fencing.as_ref()?.bmc.as_ref())
        .map(|bmc| bmc.password_file.clone());
    let pdus = appliance
        .pdus
        .values()
        .filter_map(|pdu| pdu.password_file.clone());
    let hypervisors = appliance.hypervisors.values();
    let hypervisors = hypervisors.flat_map(|one| [&one.password_file, &one.key_file]);
    let feeds = appliance
        .feeds()
        .filter_map(|(_, feed)| feed.password_file.clone());
    bmcs.chain(pdus)
        .chain(feeds)
        .chain(hypervisors.flatten().cloned())
        .collect()
}
