//! `corosync.conf` (corosync.conf(5), votequorum(5), corosync-qdevice(8)).

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::net::IpAddr;

use units::{HeadName, NetworkName};

use crate::file::{Appliance, QuorumRule, Witness};
use crate::timeouts::{TOKEN_COEFFICIENT_MS, Timeouts};

/// Time-out of the witness while a membership forms, in milliseconds. Corosync's default is 30 s,
/// which would block takeovers for as long.
const WITNESS_SYNC_MS: u32 = 5_000;
/// The heuristics of the witness: bounds of one run at start and while a membership forms, and the time
/// between runs, in milliseconds.
const HEURISTICS_MS: [(&str, u32); 3] =
    [("timeout", 500), ("sync_timeout", 300), ("interval", 1_000)];
/// Shortest interval of messages of corosync-qdevice to the witness, in milliseconds. Its default,
/// a second, is longer than a short token.
const WITNESS_HEARTBEAT_MS_MIN: u32 = 100;
/// The environment variable with the start options of corosync-qdevice.
pub const QDEVICE_SETTINGS: &str = "BULKHEAD_WITNESS_SETTINGS";

/// The shortest heuristics that corosync-qdevice accepts with our options, in milliseconds.
const HEURISTICS_MS_MIN: u32 = 250;

/// Rotations of the token without a message until it rests. Between the messages of a takeover, which come one by one,
/// it rotates as fast as the heads can, and competes with the import for CPU; Corosync's default is 30. A new message
/// wakes it, within a fraction of a millisecond on a local network. Four rounds of `bulkhead drill move --profile fast`
/// took 10.1 s of Corosync's CPU with 30, and 5.2 and 6.5 s with 5 (`utime` and `stime` of `/proc/PID/stat`, both
/// heads). Heads so far apart that the wake-up lasts milliseconds would need a larger value.
const IDLE_ROTATIONS: u32 = 5;

/// A section of the file.
struct Section {
    name: &'static str,
    entries: Vec<(String, String)>,
    sections: Vec<Section>,
}

impl Section {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            entries: Vec::new(),
            sections: Vec::new(),
        }
    }

    fn set(mut self, key: impl Display, value: impl Display) -> Self {
        self.entries.push((key.to_string(), value.to_string()));
        self
    }

    fn section(mut self, section: Self) -> Self {
        self.sections.push(section);
        self
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let indent = depth * 4;
        writeln!(f, "{:indent$}{} {{", "", self.name)?;
        for (key, value) in &self.entries {
            writeln!(f, "{:indent$}    {key}: {value}", "")?;
        }
        for section in &self.sections {
            section.write(f, depth + 1)?;
        }
        writeln!(f, "{:indent$}}}", "")
    }
}

impl Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

/// The text of `/etc/corosync/corosync.conf`, the same on every head.
pub fn corosync_conf(appliance: &Appliance) -> String {
    let times = appliance.timeouts();
    let sections = [
        totem(appliance, &times),
        nodelist(appliance),
        quorum(appliance, &times),
        // Without real-time scheduling a busy node would be treated as a failed one.
        Section::new("system").set("sched_rr", "yes"),
        Section::new("logging")
            .set("to_stderr", "no")
            .set("to_syslog", "yes")
            .set("to_logfile", "yes")
            .set("logfile", "/var/log/corosync/corosync.log")
            .set("timestamp", "hires"),
    ];
    let mut text = format!("{}\n", super::GENERATED);
    for section in sections {
        text.push('\n');
        text.push_str(&section.to_string());
    }
    text
}

fn totem(appliance: &Appliance, times: &Timeouts) -> Section {
    let mut totem = Section::new("totem")
        .set("version", 2)
        .set("cluster_name", &appliance.name)
        .set("transport", "knet")
        .set("crypto_model", "nss")
        .set("crypto_cipher", "aes256")
        .set("crypto_hash", "sha256")
        .set("token", times.token_ms)
        .set("consensus", times.consensus_ms)
        .set("seqno_unchanged_const", IDLE_ROTATIONS);
    if appliance.heads.len() > 2 {
        totem = totem.set("token_coefficient", TOKEN_COEFFICIENT_MS);
    }
    let networks = appliance.heartbeat_networks();
    // With one link there is nothing to distribute. With several, "passive" would detect the loss
    // of the active one later than the token expires.
    if networks.len() > 1 {
        totem = totem.set("link_mode", "active");
    }
    for number in networks.keys() {
        totem = totem.section(
            Section::new("interface")
                .set("linknumber", number)
                .set("knet_ping_interval", times.link_probe_interval_ms)
                .set("knet_ping_timeout", times.link_probe_timeout_ms)
                .set("knet_pong_count", times.link_probes_up),
        );
    }
    totem
}

/// A node of Corosync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: HeadName,
    /// Its number, by which it votes and is fenced.
    pub number: u32,
    /// Its address on each link, by the number of the link.
    pub links: BTreeMap<u8, IpAddr>,
}

/// The heads in the order of their numbers.
pub fn nodes(appliance: &Appliance) -> Vec<Node> {
    let networks = appliance.heartbeat_networks();
    let nodes = appliance.heads.iter().map(|(name, head)| {
        let links = networks.iter().filter_map(|(number, network)| {
            let family = link_family(appliance, network);
            let link = head.links.get(*network)?;
            let address = link.addresses.iter().find(|address| family(address))?;
            Some((*number, *address))
        });
        Node {
            name: name.clone(),
            number: head.number,
            links: links.collect(),
        }
    });
    let mut nodes: Vec<Node> = nodes.collect();
    nodes.sort_by_key(|node| node.number);
    nodes
}

fn nodelist(appliance: &Appliance) -> Section {
    let mut list = Section::new("nodelist");
    for node in nodes(appliance) {
        let mut section = Section::new("node")
            .set("name", &node.name)
            .set("nodeid", node.number);
        for (number, address) in &node.links {
            section = section.set(format!("ring{number}_addr"), address);
        }
        list = list.section(section);
    }
    list
}

/// IPv4 where every head has an IPv4 address in the network, else IPv6.
fn link_family(appliance: &Appliance, network: &NetworkName) -> fn(&IpAddr) -> bool {
    let mut links = appliance
        .heads
        .values()
        .filter_map(|head| head.links.get(network));
    if links.all(|link| link.addresses.iter().any(IpAddr::is_ipv4)) {
        IpAddr::is_ipv4
    } else {
        IpAddr::is_ipv6
    }
}

fn quorum(appliance: &Appliance, times: &Timeouts) -> Section {
    let section = Section::new("quorum").set("provider", "corosync_votequorum");
    let Some(quorum) = &appliance.quorum else {
        return section;
    };
    match (quorum.rule, &quorum.witness) {
        // Implies wait_for_all: a head that boots alone does not power the other off.
        (QuorumRule::TwoNode, _) => section.set("two_node", 1),
        (QuorumRule::Witness, Some(witness)) => section.section(device(witness, times)),
        (QuorumRule::Witness | QuorumRule::Majority, _) => section,
    }
}

fn device(witness: &Witness, times: &Timeouts) -> Section {
    let net = Section::new("net")
        .set("host", witness.address)
        .set("port", witness.port)
        .set("algorithm", "ffsplit")
        .set("tls", if witness.tls { "required" } else { "off" })
        .set("tie_breaker", "lowest");
    let mut device = Section::new("device")
        .set("model", "net")
        .set("votes", 1)
        .set("timeout", times.token_ms.saturating_add(times.consensus_ms))
        .set("sync_timeout", WITNESS_SYNC_MS)
        .section(net);
    if !witness.reach.is_empty() {
        let mut heuristics = Section::new("heuristics").set("mode", "on");
        for (name, value_ms) in HEURISTICS_MS {
            heuristics = heuristics.set(name, value_ms);
        }
        for (index, address) in witness.reach.iter().enumerate() {
            let command = format!("/usr/bin/ping -n -q -c 1 -w 1 {address}");
            heuristics = heuristics.set(format!("exec_reach{index}"), command);
        }
        device = device.section(heuristics);
    }
    device
}

/// Options of corosync-qdevice.
fn qdevice_options() -> String {
    format!(
        "-S net_heartbeat_interval_min={WITNESS_HEARTBEAT_MS_MIN} -S net_min_connect_timeout={WITNESS_HEARTBEAT_MS_MIN} \
         -S heuristics_min_timeout={HEURISTICS_MS_MIN}"
    )
}

/// Returns all settings that corosync-qdevice reads when it starts, in one line; none without a witness. It does not
/// reload them.
pub fn qdevice_settings(appliance: &Appliance) -> Option<String> {
    let witness = appliance.quorum.as_ref()?.witness.as_ref();
    let witness = witness.filter(|_| appliance.has_voting_witness())?;
    let device = device(witness, &appliance.timeouts()).to_string();
    let words: Vec<&str> = device.split_whitespace().collect();
    Some(format!("{} {}", words.join(" "), qdevice_options()))
}

/// Returns the text of `/etc/default/corosync-qdevice`; none without a witness. The settings are in the environment of
/// the process, so that a plan can read the settings of a running one.
pub fn qdevice_defaults(appliance: &Appliance) -> Option<String> {
    let settings = qdevice_settings(appliance)?;
    Some(format!(
        "{}\nCOROSYNC_QDEVICE_OPTIONS=\"{}\"\n{QDEVICE_SETTINGS}=\"{settings}\"\n",
        super::GENERATED,
        qdevice_options(),
    ))
}
