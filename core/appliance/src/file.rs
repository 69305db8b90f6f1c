//! The types of the appliance file. Their comments are the user reference: the JSON schema and
//! `docs/formats/appliance.md` are generated from them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use protocol_list::Description;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{ByteCount, HeadName, NetworkName, PoolName};

use crate::alerts::Alerts;
use crate::subnet::Subnet;
use crate::timeouts::{TimeoutWishes, Timeouts};
use crate::ups::{Feed, Ups};

/// One appliance: its heads, networks and pools.
///
/// The same file is stored on every head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Appliance {
    /// Version of this format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub format: u32,
    /// Name of the appliance; Corosync's `cluster_name`. Letters, digits, `-` and `_`.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-]{1,64}$"))]
    pub name: String,
    /// Which heads may act when they do not all see each other. Required for more than one head.
    pub quorum: Option<Quorum>,
    /// The time-outs of the cluster.
    #[serde(default)]
    pub timeouts: TimeoutWishes,
    /// Properties of the clients, to compare their patience with a takeover.
    #[serde(default)]
    pub clients: Clients,
    /// Networks by name.
    #[schemars(with = "BTreeMap<String, Network>")]
    pub networks: BTreeMap<NetworkName, Network>,
    /// Heads by name, as `uname -n` prints it.
    #[schemars(with = "BTreeMap<String, Head>")]
    pub heads: BTreeMap<HeadName, Head>,
    /// Power distribution units by name; heads refer to their outlets.
    #[serde(default)]
    pub pdus: BTreeMap<String, Pdu>,
    /// Hypervisors, or their cluster managers, by name; heads that are virtual machines refer to
    /// them.
    #[serde(default)]
    pub hypervisors: BTreeMap<String, Hypervisor>,
    /// Pools by name.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Pool>")]
    pub pools: BTreeMap<PoolName, Pool>,
    /// How heads reach each other's disks. Required where a pool has `groups`.
    pub legs: Option<Legs>,
    /// The third member (`bulkhead-witness`) of the record of legs with two heads. With `rule = "two-node"` it also decides
    /// which head survives when they do not see each other. Differs from the one in `quorum`, which has a vote and stores
    /// nothing.
    pub witness: Option<LegWitness>,
    /// Uninterruptible power supplies. With them the heads shut down in order before the batteries are empty.
    pub ups: Option<Ups>,
    /// Messages about alerts. Absent: none.
    pub alerts: Option<Alerts>,
}

/// How heads reach each other's disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Legs {
    /// Networks between the heads that carry the writes to other heads' disks, best first. Every head has a link in
    /// each. Name two: the second is used while the first fails.
    #[schemars(with = "Vec<String>")]
    pub networks: Vec<NetworkName>,
    /// TCP port on which the members exchange the records of legs.
    #[serde(default = "default_member_port")]
    pub member_port: u16,
    /// TCP port on which a head lends its disks.
    #[serde(default = "default_lender_port")]
    pub lender_port: u16,
}

/// The third member of the record of legs with two heads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LegWitness {
    /// Its number, which no head has. Never changes, and is never reused for another host.
    #[schemars(range(min = 1))]
    pub number: u32,
    /// Where `bulkhead-witness` listens; more than one where it has links in several networks.
    pub addresses: Vec<IpAddr>,
    /// Its TCP port.
    #[serde(default = "default_member_port")]
    pub port: u16,
    /// The fingerprint that `bulkhead-witness identity` prints there: SHA-256 of its certificate,
    /// 64 hex digits.
    pub fingerprint: String,
}

/// Which heads may act when they do not all see each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quorum {
    /// The rule.
    pub rule: QuorumRule,
    /// The witness that `rule = "witness"` needs.
    pub witness: Option<Witness>,
}

/// A rule of quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QuorumRule {
    /// Two heads: the one that powers the other off survives (`two_node: 1`). With legs and a `[witness]` that is the one
    /// that serves pools.
    TwoNode,
    /// An even number of heads, and a witness as a tie-breaker (a Corosync quorum device).
    Witness,
    /// Three or more heads: more than half of them.
    Majority,
}

/// A host that is no head and decides which half of a split appliance survives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Witness {
    /// Address of the host that runs `corosync-qnetd`.
    pub address: IpAddr,
    /// Its port.
    #[serde(default = "default_witness_port")]
    pub port: u16,
    /// Heads and witness authenticate each other by certificates.
    #[serde(default = "yes")]
    pub tls: bool,
    /// Addresses on the storage networks that a healthy head can reach, such as routers or
    /// clients. A head that does not reach all of them loses against one that does.
    #[serde(default)]
    pub reach: Vec<IpAddr>,
}

/// Properties of the clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Clients {
    /// How long initiators queue I/O of a lost session before they report an error, in seconds:
    /// `node.session.timeo.replacement_timeout` of open-iscsi, or the queueing time of multipath
    /// above it.
    pub replacement_timeout_s: u32,
}

/// One network, one broadcast domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Its address ranges, of either family, such as `10.77.1.0/24`.
    #[schemars(with = "Vec<String>")]
    pub subnets: Vec<Subnet>,
    /// Number of the heartbeat link that runs here, 0 to 7; absent: none. Do not change the numbers
    /// of existing links: a change takes the link down.
    #[schemars(range(min = 0, max = 7))]
    pub heartbeat: Option<u8>,
    /// Largest packet that every interface and switch of the network supports, in bytes.
    #[serde(default = "default_mtu")]
    pub mtu: u32,
}

/// One head: a host that can serve pools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Corosync's `nodeid`, 1 or more. Never changes, and is never reused for another host.
    #[schemars(range(min = 1))]
    pub number: u32,
    /// Its memory, such as `64G`; compared with the needs of the pools after a takeover. Absent: as
    /// reported by the head.
    #[serde(default, with = "size_text")]
    #[schemars(with = "Option<String>")]
    pub memory: Option<ByteCount>,
    /// Its interfaces, by network.
    #[schemars(with = "BTreeMap<String, Link>")]
    pub links: BTreeMap<NetworkName, Link>,
    /// How the other heads power it off.
    pub fencing: Option<Fencing>,
    /// The fingerprint by which the other heads identify its leg-server: the output of `bulkhead leg-server
    /// fingerprint` there, 64 hex digits. Required where a pool has `groups`.
    pub fingerprint: Option<String>,
    /// Disks that only this head has, by names for `groups`, such as `bay1`.
    #[serde(default)]
    pub disks: BTreeMap<String, OwnDisk>,
}

/// A disk that only one head has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnDisk {
    /// The number by which heads and witness identify it. Each disk of the appliance has its own; it belongs to the
    /// disk, never changes, and is never reused.
    #[schemars(range(min = 1))]
    pub number: u32,
    /// Its path on the head, such as `/dev/disk/by-id/...`.
    pub path: PathBuf,
}

/// A head's interface in one network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name of the interface, such as `ens1f0`.
    #[schemars(regex(pattern = r"^[^\s/]{1,15}$"))]
    pub interface: String,
    /// The head's own, fixed addresses here.
    pub addresses: Vec<IpAddr>,
}

/// How a head is powered off. Tried in this order: the hypervisor, the BMC, all outlets together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Fencing {
    /// Wait before this head is powered off, in seconds (Pacemaker's smallest unit). With two heads and no witness
    /// exactly one has a longer delay: when both are healthy and do not see each other, that one survives. Prefer the
    /// head that serves fewer pools, because a crash of the other is then taken over without the wait. With a witness
    /// leave it out: the head that survives is decided with the witness.
    pub delay_s: u32,
    /// The head's identity at its hypervisor, where it is a virtual machine.
    pub virtual_machine: Option<VirtualMachine>,
    /// The head's baseboard management controller. For a virtual machine: that of its host, and all
    /// guests there are powered off with it.
    pub bmc: Option<Bmc>,
    /// The outlets of its power supplies, or of the host that runs it: all of them must be off.
    pub outlets: Vec<Outlet>,
}

/// A baseboard management controller that speaks IPMI 2.0 over the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bmc {
    /// Its address.
    pub address: IpAddr,
    /// Its UDP port.
    #[serde(default = "default_ipmi_port")]
    pub port: u16,
    /// Name of an account that may switch the power.
    pub user: String,
    /// File on each head that holds the password, readable by root only.
    pub password_file: PathBuf,
    /// IPMI cipher suite; 3 and 17 are common.
    #[serde(default = "default_cipher")]
    pub cipher: u8,
    /// Privilege level to ask for.
    #[serde(default)]
    pub privilege: Privilege,
}

/// Privilege levels of IPMI that may switch the power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Privilege {
    /// Enough to switch the power on most controllers.
    Operator,
    /// Accepted by every controller.
    #[default]
    Administrator,
}

/// A power distribution unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pdu {
    /// The fence agent for the model, such as `fence_apc_snmp`.
    #[schemars(regex(pattern = r"^fence_[a-z0-9_]+$"))]
    pub agent: String,
    /// Its address.
    pub address: IpAddr,
    /// Its port, where it is not the agent's default.
    pub port: Option<u16>,
    /// Name of an account that may switch outlets.
    pub user: Option<String>,
    /// File on each head that holds the password, readable by root only.
    pub password_file: Option<PathBuf>,
    /// Further parameters of the agent, by the names in its manual.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// One outlet of a power distribution unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outlet {
    /// Name of the unit in `pdus`.
    pub pdu: String,
    /// Number or name of the outlet.
    pub outlet: String,
}

/// A controller of virtual machines: a hypervisor, or the manager of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hypervisor {
    /// The fence agent for it, such as `fence_virsh`, `fence_pve` or `fence_vmware_rest`.
    #[schemars(regex(pattern = r"^fence_[a-z0-9_]+$"))]
    pub agent: String,
    /// Its address. Agents that discover it, such as `fence_xvm`, need none.
    pub address: Option<IpAddr>,
    /// Its port, where it is not the agent's default.
    pub port: Option<u16>,
    /// Name of an account that may power the virtual machines off.
    pub user: Option<String>,
    /// File on each head that holds the password, readable by root only.
    pub password_file: Option<PathBuf>,
    /// File on each head that holds a private key for SSH, for agents that log in by it.
    pub key_file: Option<PathBuf>,
    /// Further parameters of the agent, by the names in its manual.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// A head that is a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VirtualMachine {
    /// Name of its hypervisor in `hypervisors`.
    pub hypervisor: String,
    /// Its name or number there, in the form that the agent expects.
    pub machine: String,
}

/// One pool, served by one head at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The head that it prefers at a start. It does not move back there automatically.
    #[schemars(with = "Option<String>")]
    pub home: Option<HeadName>,
    /// The heads that may serve it, best first after its home. Absent: all.
    #[schemars(with = "Option<Vec<String>>")]
    pub heads: Option<Vec<HeadName>>,
    /// Its devices, by names that are the same on every head, such as `/dev/disk/by-id/...`. Only these are searched.
    /// For disks that all heads reach; a pool has either these or `groups`.
    #[serde(default)]
    pub disks: Vec<PathBuf>,
    /// The number by which heads and witness identify it, where it has `groups`. Never changes, and is never reused for
    /// another pool.
    #[schemars(range(min = 1))]
    pub number: Option<u32>,
    /// Its devices, where each head has disks of its own: groups of disks on different heads that are mirrored, or hold
    /// parity.
    #[serde(default)]
    pub groups: Vec<LegGroup>,
    /// Devices for its intent log, in addition to `groups`. Mirrors over heads: acknowledged writes are stored there
    /// for seconds.
    #[serde(default)]
    pub log: Vec<LegGroup>,
    /// Disks of heads that cache reads, in addition to `groups`, as `HEAD:DISK`. No data is lost with one. Not possible
    /// yet: only its own head reads one.
    #[serde(default)]
    pub cache: Vec<Leg>,
    /// Smallest unit of its writes, in bytes: 2 to the power of ZFS's `ashift`.
    #[serde(default = "default_sector_bytes")]
    pub sector_bytes: u32,
    /// Memory for its cache, such as `16G`.
    #[serde(default, with = "size_text")]
    #[schemars(with = "Option<String>")]
    pub arc: Option<ByteCount>,
    /// How its disks are protected from a head that lost the pool: `auto`, `reservations` or
    /// `locks`.
    #[serde(default)]
    pub claims: Claims,
    /// Addresses that move with it. Clients connect to these only.
    pub addresses: Vec<PoolAddress>,
    /// TLS for its clients, by the name of their protocol, such as `nbd`. It is then required; for `nfs` where a share
    /// requires it. A protocol that is not named is in the clear.
    #[serde(default)]
    pub tls: BTreeMap<TlsProtocol, Tls>,
    /// The same as `tls.nbd`.
    pub nbd_tls: Option<Tls>,
    /// Kerberos for its clients, which use it where a share requires it. Absent: none.
    pub kerberos: Option<Kerberos>,
    /// Where other appliances replicate into it. Absent: nowhere.
    pub replication: Option<Replication>,
}

/// Disks on different heads that are mirrored, or hold parity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LegGroup {
    /// Their redundancy.
    pub kind: LegGroupKind,
    /// The disks, as `HEAD:DISK`, such as `left:bay1`.
    pub legs: Vec<Leg>,
}

/// The redundancy of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LegGroupKind {
    /// Each disk holds all data. Two to six disks, such as two on each head: then a disk may fail while a head is down.
    Mirror,
    /// Three disks or more, on three heads; all data is available without any one of them.
    Raidz1,
    /// Four disks or more; all data is available without any two of them. Two on each of three heads survive the loss
    /// of a head.
    Raidz2,
    /// Five disks or more; all data is available without any three of them.
    Raidz3,
}

/// A disk of a head, as `HEAD:DISK`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Leg {
    /// The head.
    pub head: HeadName,
    /// The disk's name in `heads.HEAD.disks`.
    pub disk: String,
}

impl TryFrom<String> for Leg {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (head, disk) = text.split_once(':').ok_or_else(|| {
            format!("{text:?} is no disk of a head: write HEAD:DISK, such as left:bay1")
        })?;
        let head = head.parse().map_err(|error| format!("{text:?}: {error}"))?;
        Ok(Self {
            head,
            disk: disk.to_owned(),
        })
    }
}

impl From<Leg> for String {
    fn from(leg: Leg) -> Self {
        leg.to_string()
    }
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.head, self.disk)
    }
}

/// The name of a protocol that has TLS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct TlsProtocol(String);

impl TryFrom<String> for TlsProtocol {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let has_tls = |one: &&&Description| one.tls.is_some();
        let known: Vec<_> = protocol_list::ALL.iter().filter(has_tls).collect();
        match known.iter().any(|one| one.name == name) {
            true => Ok(Self(name)),
            false => {
                let known: Vec<_> = known.iter().map(|one| one.name).collect();
                Err(format!(
                    "{name} is no protocol with TLS: write {}",
                    known.join(" or ")
                ))
            }
        }
    }
}

/// TLS of a protocol that a pool is served by. The files are stored on every head that can serve the pool. They are
/// read when the server starts and when it reloads its exports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// File on each head with the certificate and those between it and a root, PEM. It is for the
    /// pool's addresses, or for names that resolve to them.
    pub certificate_file: PathBuf,
    /// File on each head that holds its private key, PEM, readable by root only.
    pub key_file: PathBuf,
    /// File on each head with the authorities that sign the clients' certificates, PEM. Absent: clients
    /// need no certificate.
    pub client_authority_file: Option<PathBuf>,
}

/// Kerberos of the clients of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kerberos {
    /// File on each head with the keys of the pool's services, such as `nfs/NAME@REALM` for a name of its addresses,
    /// readable by root only. It is read for each client.
    pub keytab_file: PathBuf,
}

/// The listener of a pool for replication from other pools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replication {
    /// One of the pool's addresses.
    pub address: IpAddr,
    /// The TCP port.
    #[serde(default = "default_replication_port")]
    pub port: u16,
}

/// How the disks of a pool are protected from a head that lost the pool without noticing, such as one that was frozen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Claims {
    /// Reservations if every disk of the pool supports them, else locks.
    #[default]
    Auto,
    /// Persistent reservations (SCSI-3, NVMe): the disks themselves refuse the writes of a head that lost the pool. A
    /// pool with a disk without support for them is not started.
    Reservations,
    /// Locks, which only processes of one host respect. Against other hosts fencing alone protects.
    Locks,
}

impl Claims {
    /// Returns the value in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Reservations => "reservations",
            Self::Locks => "locks",
        }
    }
}

/// An address that moves with a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolAddress {
    /// The network it belongs to.
    #[schemars(with = "String")]
    pub network: NetworkName,
    /// The address, IPv4 or IPv6.
    pub address: IpAddr,
}

const fn yes() -> bool {
    true
}

/// Ports that no other service of a head uses.
const fn default_member_port() -> u16 {
    7071
}

const fn default_lender_port() -> u16 {
    7072
}

/// The port that corosync-qnetd(8) listens on.
const fn default_witness_port() -> u16 {
    5403
}

/// The port of RMCP (IPMI 2.0, section 13.1.2).
const fn default_ipmi_port() -> u16 {
    623
}

/// The port that the examples of the guide use.
const fn default_replication_port() -> u16 {
    8873
}

const fn default_cipher() -> u8 {
    3
}

const fn default_mtu() -> u32 {
    1_500
}

const fn default_sector_bytes() -> u32 {
    4_096
}

impl Default for Clients {
    /// open-iscsi's own default.
    fn default() -> Self {
        Self {
            replacement_timeout_s: 120,
        }
    }
}

impl Fencing {
    /// Whether it names any device.
    pub fn has_device(&self) -> bool {
        self.virtual_machine.is_some() || self.bmc.is_some() || !self.outlets.is_empty()
    }
}

impl Tls {
    /// All of its files.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let own = [&self.certificate_file, &self.key_file];
        own.into_iter().chain(&self.client_authority_file)
    }
}

impl LegGroup {
    /// Returns how many of its disks must be current.
    pub fn needed(&self) -> usize {
        match self.kind {
            LegGroupKind::Mirror => 1,
            LegGroupKind::Raidz1 => self.legs.len().saturating_sub(1),
            LegGroupKind::Raidz2 => self.legs.len().saturating_sub(2),
            LegGroupKind::Raidz3 => self.legs.len().saturating_sub(3),
        }
    }
}

impl Pool {
    /// Whether its disks belong to heads.
    pub fn has_legs(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Returns its groups with those of its log, each with its key.
    pub fn all_groups(&self) -> impl Iterator<Item = (&'static str, usize, &LegGroup)> {
        let groups = self.groups.iter().enumerate();
        let log = self.log.iter().enumerate();
        let groups = groups.map(|(index, group)| ("groups", index, group));
        groups.chain(log.map(|(index, group)| ("log", index, group)))
    }

    /// Returns all of its disks on heads.
    pub fn all_legs(&self) -> impl Iterator<Item = &Leg> {
        let groups = self.all_groups();
        groups
            .flat_map(|(_, _, group)| &group.legs)
            .chain(&self.cache)
    }

    /// Returns the options of its server that name its keytab.
    pub fn keytab_options(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let options = protocol_list::ALL
            .iter()
            .filter_map(|protocol| protocol.keytab);
        let kerberos = self.kerberos.iter();
        kerberos.flat_map(move |kerberos| {
            let options = options.clone();
            options.map(|option| (option, &kerberos.keytab_file))
        })
    }

    /// Returns the TLS of its protocols, each with its key in the file.
    pub fn all_tls(&self) -> impl Iterator<Item = (String, &'static Description, &Tls)> {
        let listed = self.tls.iter();
        let listed =
            listed.map(|(TlsProtocol(name), tls)| (format!("tls.{name}"), name.as_str(), tls));
        let nbd = protocol_list::nbd::PROTOCOL.name;
        let older = self.nbd_tls.iter();
        let older = older.map(move |tls| ("nbd_tls".to_owned(), nbd, tls));
        let all = listed.chain(older);
        all.filter_map(|(key, name, tls)| Some((key, protocol_list::named(name)?, tls)))
    }
}

impl Appliance {
    /// All time-outs, resolved.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts.resolve()
    }

    /// Returns the heads that may serve `pool`, its home first, without repetition.
    pub fn heads_of(&self, pool: &Pool) -> Vec<HeadName> {
        let listed = match &pool.heads {
            Some(listed) => listed.clone(),
            None => self.heads.keys().cloned().collect(),
        };
        let mut heads: Vec<HeadName> = Vec::with_capacity(listed.len() + 1);
        for head in pool.home.iter().chain(&listed) {
            if !heads.contains(head) {
                heads.push(head.clone());
            }
        }
        heads
    }

    /// Returns whether the votes of heads are counted with those of a witness (`quorum.witness`).
    pub fn has_voting_witness(&self) -> bool {
        let quorum = self.quorum.as_ref();
        quorum.is_some_and(|quorum| quorum.witness.is_some())
    }

    /// Returns whether a head requests the consent of the witness before it powers the other one off: two heads with
    /// legs, whose witness does not vote.
    pub fn has_consent(&self) -> bool {
        let quorum = self.quorum.as_ref();
        let is_two_node = quorum.is_some_and(|quorum| quorum.rule == QuorumRule::TwoNode);
        is_two_node && self.heads.len() == 2 && self.witness.is_some() && self.has_legs()
    }

    /// Returns whether any pool has disks that belong to heads.
    pub fn has_legs(&self) -> bool {
        self.pools.values().any(Pool::has_legs)
    }

    /// Returns the disk of a head that a leg names.
    pub fn own_disk(&self, leg: &Leg) -> Option<&OwnDisk> {
        self.heads.get(&leg.head)?.disks.get(&leg.disk)
    }

    /// Where it is on its head.
    pub fn leg_path(&self, leg: &Leg) -> Option<&PathBuf> {
        self.own_disk(leg).map(|disk| &disk.path)
    }

    /// Returns the disks of `pool` that are local to `head`.
    pub fn disks_on(&self, head: &HeadName, pool: &Pool) -> Vec<PathBuf> {
        let own = pool.all_legs().filter(|leg| leg.head == *head);
        let own = own.filter_map(|leg| self.leg_path(leg));
        pool.disks.iter().chain(own).cloned().collect()
    }

    /// Returns whether clients reach a pool in that network.
    pub fn has_clients(&self, network: &NetworkName) -> bool {
        let mut addresses = self.pools.values().flat_map(|pool| &pool.addresses);
        addresses.any(|address| address.network == *network)
    }

    /// Returns a head's own addresses, those in networks without clients first.
    pub fn addresses_of(&self, head: &HeadName) -> Vec<IpAddr> {
        let links = self.heads.get(head).map(|head| &head.links);
        let mut links: Vec<_> = links.into_iter().flatten().collect();
        links.sort_by_key(|(network, _)| self.has_clients(network));
        let addresses = links.into_iter().flat_map(|(_, link)| &link.addresses);
        addresses.copied().collect()
    }

    /// Returns the power supplies of all heads.
    pub fn feeds(&self) -> impl Iterator<Item = (&String, &Feed)> {
        self.ups.iter().flat_map(|ups| &ups.feeds)
    }

    /// Returns the networks that carry heartbeats, by link number.
    pub fn heartbeat_networks(&self) -> BTreeMap<u8, &NetworkName> {
        self.networks
            .iter()
            .filter_map(|(name, network)| network.heartbeat.map(|link| (link, name)))
            .collect()
    }

    /// The network that `address` belongs to.
    pub fn network_of(&self, address: IpAddr) -> Option<&NetworkName> {
        self.networks
            .iter()
            .find(|(_, network)| network.subnets.iter().any(|s| s.contains(address)))
            .map(|(name, _)| name)
    }
}

/// Sizes in text form, optional.
mod size_text {
    use serde::{Deserialize, Deserializer, Serializer};
    use units::ByteCount;

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(super) fn serialize<S: Serializer>(
        size: &Option<ByteCount>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match size {
            Some(size) => serializer.collect_str(size),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<ByteCount>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom))
            .transpose()
    }
}
