//! Reads the current files, services and configuration of the heads.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use appliance::plan::{
    AUTHKEY_PATH, Actual, CERTIFICATE_PATH, COROSYNC_UNREAD_PATH, DesiredState, Fingerprint,
    HEAD_UNIT, HeadActual, ObservedDisk, PEER_KEY_PATH, RecordedMembers, RunningNode, is_authkey,
    is_peer_key,
};
use appliance::ports::Portals;
use appliance::render::{LEGS_PATH, QDEVICE_SETTINGS, pool_of};
use control::failure::FailureKind;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use units::{HeadName, PoolName};

use crate::cib::{CibError, read_cib};
use crate::host::{Host, HostError, Hosts, read_file};
use crate::process::Invocation;

/// Why the state of the heads could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// A head responds, but this query fails.
    #[error("read the state of {head}")]
    Head {
        /// The head.
        head: HeadName,
        /// The cause.
        #[source]
        source: HostError,
    },
    /// The cluster runs but does not return its configuration.
    #[error("read the cluster's configuration on {head}")]
    Cib {
        /// The head.
        head: HeadName,
        /// The cause.
        #[source]
        source: CibError,
    },
}

/// Reads the actual state, as far as a desired state describes it. An unreachable head is left out; the plan then names
/// it as an obstacle.
///
/// # Errors
///
/// A head is reachable, but a part of its state cannot be read.
pub fn observe(machines: &Hosts, desired: &DesiredState) -> Result<Actual, ObserveError> {
    let mut actual = Actual::default();
    for (name, machine) in machines {
        if let Err(error) = machine.run(&Invocation::new("true", &[])) {
            tracing::warn!(head = %name, %error, "cannot be reached");
            continue;
        }
        let head =
            observe_head(name, machine.as_ref(), desired).map_err(|source| ObserveError::Head {
                head: name.clone(),
                source,
            })?;
        let asks = actual.cib.is_none() && head.running_cluster.is_some();
        if asks && pacemaker_runs(machine.as_ref()) {
            let cib = read_cib(machine.as_ref()).map_err(|source| ObserveError::Cib {
                head: name.clone(),
                source,
            })?;
            actual.cib = Some(cib);
        }
        actual.heads.insert(name.clone(), head);
    }
    Ok(actual)
}

/// Whether Pacemaker responds on this head.
pub(crate) fn pacemaker_runs(machine: &dyn Host) -> bool {
    let invocation = Invocation::new("cibadmin", &["--query", "--scope", "crm_config", "--local"]);
    machine
        .run(&invocation)
        .is_ok_and(|output| output.code == 0)
}

fn observe_head(
    name: &HeadName,
    machine: &dyn Host,
    desired: &DesiredState,
) -> Result<HeadActual, HostError> {
    let (portals, clients) = portals(machine, &desired.program)?;
    let mut head = HeadActual {
        portals,
        clients,
        has_program: has_program(machine, desired)?,
        running_cluster: running_cluster(machine)?,
        running_nodes: running_nodes(machine)?,
        authkey: fingerprint(machine, AUTHKEY_PATH, is_authkey)?,
        peer_key: fingerprint(machine, PEER_KEY_PATH, is_peer_key)?,
        reads_peer_key: reads_peer_key(machine, desired)?,
        stored_pools: stored_pools(machine, desired)?,
        on_record: on_record(machine, desired)?,
        legs_read: legs_read(machine, desired)?,
        is_reload_due: is_reload_due(machine)?,
        ..HeadActual::default()
    };
    head.units_beside = units_beside(machine, desired)?;
    if desired.witness_settings.is_some() {
        (head.witness_settings, head.has_witness) = witness(machine)?;
        // A witness that is in use already and does not respond now is no obstacle.
        if head.witness_settings != desired.witness_settings {
            let place = desired.witness_place;
            head.reaches_witness = place.map(|place| reaches_witness(machine, place));
        }
    }
    for file in desired.files_of(name) {
        if let Some((bytes, mode)) = read_file(machine, &file.path)? {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            head.files.insert(file.path.clone(), (text, mode));
        }
    }
    head.disks = disks(name, machine, desired, &head)?;
    let units: BTreeSet<&str> = desired
        .units
        .iter()
        .chain(&desired.units_unwanted)
        .chain(&desired.units_optional)
        .copied()
        .collect();
    for unit in &desired.units_optional {
        if machine
            .run(&Invocation::new("systemctl", &["cat", unit]))?
            .code
            == 0
        {
            head.units_installed.insert((*unit).to_owned());
        }
    }
    if head.units_installed.contains(HEAD_UNIT) {
        head.has_certificate = has_certificate(machine)?;
    }
    for unit in units {
        if systemctl_reports(machine, "is-enabled", unit)? {
            head.units_enabled.insert(unit.to_owned());
        }
        if systemctl_reports(machine, "is-active", unit)? {
            head.units_active.insert(unit.to_owned());
        }
    }
    Ok(head)
}

fn systemctl_reports(machine: &dyn Host, verb: &str, unit: &str) -> Result<bool, HostError> {
    let output = machine.run(&Invocation::new("systemctl", &[verb, "--quiet", unit]))?;
    Ok(output.code == 0)
}

/// Whether its API has a certificate, generated here or provided by its administrator.
fn has_certificate(machine: &dyn Host) -> Result<bool, HostError> {
    let command = "[ -e \"${BULKHEAD_HEAD_DIR:+$BULKHEAD_HEAD_DIR/certificate.pem}\" ] || \
                   [ -z \"$BULKHEAD_HEAD_DIR\" -a -e \"$1\" ]";
    let arguments = ["-c", command, "certificate", CERTIFICATE_PATH];
    let output = machine.run(&Invocation::new("sh", &arguments))?;
    Ok(output.code == 0)
}

/// An address in the response of `bulkhead portal list --json`.
#[derive(Deserialize)]
struct PortalLine {
    pool: PoolName,
    protocol: String,
    address: String,
    /// The portal group, for protocols that report addresses by groups.
    group: Option<u16>,
    /// Number of connections that it accepted.
    #[serde(default)]
    clients: u64,
}

/// The listening addresses and the number of clients, by pool.
pub(crate) type Served = (BTreeMap<PoolName, Portals>, BTreeMap<PoolName, u64>);

/// The listening addresses and numbers of clients of the servers that run there. A head without servers, or with an
/// older version, only returns an exit code.
pub(crate) fn portals(machine: &dyn Host, program: &Path) -> Result<Served, HostError> {
    let program = program.to_string_lossy();
    let output = machine.run(&Invocation::new(&program, &["portal", "list", "--json"]))?;
    // Includes the servers that responded when a response is missing.
    let lines: Vec<PortalLine> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let mut found: BTreeMap<PoolName, Portals> = BTreeMap::new();
    let mut clients: BTreeMap<PoolName, u64> = BTreeMap::new();
    for line in lines {
        *clients.entry(line.pool.clone()).or_default() += line.clients;
        let portals = found.entry(line.pool).or_default();
        portals.insert(&line.protocol, &line.address, line.group);
    }
    Ok((found, clients))
}

/// The numbers of the pools of legs in its store. A new host has none.
fn stored_pools(machine: &dyn Host, desired: &DesiredState) -> Result<BTreeSet<u64>, HostError> {
    if desired.pools_of_legs.is_empty() {
        return Ok(BTreeSet::new());
    }
    let program = desired.program.to_string_lossy();
    let words = ["leg-server", "pools", "--json"];
    remembering(machine, &Invocation::new(&program, &words))
}

/// Parses a response about stored pools. An earlier version, or a missing binary, does not support the command and
/// counts as empty; a store that exists and is unreadable is an error.
fn remembering<T: DeserializeOwned + Default>(
    machine: &dyn Host,
    invocation: &Invocation,
) -> Result<T, HostError> {
    let output = machine.run(invocation)?;
    let failed = |complaint| HostError::Failed {
        program: format!("{} {}", invocation.program, invocation.arguments.join(" ")),
        code: output.code,
        complaint,
    };
    match output.code {
        0 => serde_json::from_slice(&output.stdout)
            .map_err(|error| failed(format!("its response cannot be parsed: {error}"))),
        code if code == i32::from(FailureKind::Failed.exit_code()) => {
            Err(failed(output.complaint()))
        }
        _ => Ok(T::default()),
    }
}

/// A pool in the response of `bulkhead leg-server members --json`.
#[derive(Deserialize)]
struct MembersLine {
    pool: u64,
    heads: BTreeSet<u64>,
    witness: Option<u64>,
    disks: Option<BTreeSet<u64>>,
    current: Option<BTreeSet<u64>>,
}

/// The members of pools of legs, from the records that it accepted. An older version does not report them.
fn on_record(
    machine: &dyn Host,
    desired: &DesiredState,
) -> Result<BTreeMap<u64, RecordedMembers>, HostError> {
    if desired.pools_of_legs.is_empty() {
        return Ok(BTreeMap::new());
    }
    let program = desired.program.to_string_lossy();
    let words = ["leg-server", "members", "--json"];
    let lines: Vec<MembersLine> = remembering(machine, &Invocation::new(&program, &words))?;
    let lines = lines.into_iter().map(|line| {
        let MembersLine {
            pool,
            heads,
            witness,
            disks,
            current,
        } = line;
        let known = RecordedMembers {
            heads,
            witness,
            disks,
            current,
        };
        (pool, known)
    });
    Ok(lines.collect())
}

/// The file that its running leg-server has read. `None` for an earlier version, or if none runs.
fn legs_read(machine: &dyn Host, desired: &DesiredState) -> Result<Option<String>, HostError> {
    if desired.pools_of_legs.is_empty() {
        return Ok(None);
    }
    let program = desired.program.to_string_lossy();
    let invocation = Invocation::new(&program, &["leg-server", "configuration"]);
    let output = machine.run(&invocation)?;
    Ok((output.code == 0).then(|| output.text()))
}

/// Whether a killed run wrote a file of Corosync there without the reload.
fn is_reload_due(machine: &dyn Host) -> Result<bool, HostError> {
    let arguments = ["-c", "[ -e \"$1\" ]", "mark", COROSYNC_UNREAD_PATH];
    let output = machine.run(&Invocation::new("sh", &arguments))?;
    Ok(output.code == 0)
}

/// A disk in the response of `bulkhead leg-server look --json`.
#[derive(Deserialize)]
struct DiskLine {
    path: PathBuf,
    #[serde(flatten)]
    seen: ObservedDisk,
}

/// Its disks in the current or the desired file of legs. `None` on a head with an earlier version.
fn disks(
    name: &HeadName,
    machine: &dyn Host,
    desired: &DesiredState,
    head: &HeadActual,
) -> Result<BTreeMap<PathBuf, ObservedDisk>, HostError> {
    let is_it = |path: &Path| path == Path::new(LEGS_PATH);
    let wanted = desired.files_of(name).find(|file| is_it(&file.path));
    let Some(wanted) = wanted else {
        return Ok(BTreeMap::new());
    };
    let known = head.files.iter().find(|(path, _)| is_it(path));
    let known = known.map(|(_, (text, _))| text.as_str());
    let files = [Some(wanted.text.as_str()), known].into_iter().flatten();
    let files = files.filter_map(|text| legs_config::parse(text).ok());
    let paths: BTreeSet<String> = files
        .flat_map(|file| {
            let own = file.own_legs();
            own.map(|leg| leg.path.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    let program = desired.program.to_string_lossy();
    let mut words = vec!["leg-server", "look", "--json"];
    words.extend(paths.iter().map(String::as_str));
    let output = machine.run(&Invocation::new(&program, &words))?;
    let lines: Vec<DiskLine> = match output.code {
        0 => serde_json::from_slice(&output.stdout).unwrap_or_default(),
        _ => Vec::new(),
    };
    Ok(lines
        .into_iter()
        .map(|line| (line.path, line.seen))
        .collect())
}

/// The name of the cluster of the running Corosync.
pub(crate) fn running_cluster(machine: &dyn Host) -> Result<Option<String>, HostError> {
    // Run by a shell, so that a host without Corosync is not an error.
    let command = "corosync-cmapctl totem.cluster_name";
    let output = machine.run(&Invocation::new("sh", &["-c", command]))?;
    if output.code != 0 {
        return Ok(None);
    }
    // "totem.cluster_name (str) = attic"
    let text = output.text();
    let name = text
        .split_once(" = ")
        .map(|(_, name)| name.trim().to_owned());
    Ok(name)
}

/// The nodes of the running Corosync; empty if it does not run.
fn running_nodes(machine: &dyn Host) -> Result<BTreeMap<String, RunningNode>, HostError> {
    let output = machine.run(&Invocation::new(
        "sh",
        &["-c", "corosync-cmapctl nodelist."],
    ))?;
    let mut nodes: BTreeMap<&str, (Option<&str>, RunningNode)> = BTreeMap::new();
    let text = match output.code {
        0 => output.text(),
        _ => String::new(),
    };
    // "nodelist.node.0.ring0_addr (str) = 10.77.9.11"
    for line in text.lines() {
        let Some((key, value)) = line.split_once(" = ") else {
            continue;
        };
        let key = key.split(' ').next().unwrap_or_default();
        let Some((index, key)) = key
            .strip_prefix("nodelist.node.")
            .and_then(|key| key.split_once('.'))
        else {
            continue;
        };
        let (name, node) = nodes.entry(index).or_default();
        let link = |key: &str| {
            key.strip_prefix("ring")?
                .strip_suffix("_addr")?
                .parse()
                .ok()
        };
        match key {
            "name" => *name = Some(value),
            "nodeid" => node.number = value.parse().unwrap_or_default(),
            key => {
                node.links
                    .extend(link(key).map(|link| (link, value.to_owned())));
            }
        }
    }
    let named = nodes.into_values();
    Ok(named
        .filter_map(|(name, node)| Some((name?.to_owned(), node)))
        .collect())
}

/// Units of single pools that run there or are enabled, for pools that Pacemaker starts.
fn units_beside(machine: &dyn Host, desired: &DesiredState) -> Result<BTreeSet<String>, HostError> {
    const COMMAND: &str = "for unit in \"$@\"; do systemctl is-active --quiet \"$unit\" 2>/dev/null || \
        systemctl is-enabled --quiet \"$unit\" 2>/dev/null || continue; echo \"$unit\"; done";
    let pools = desired
        .cib
        .primitives
        .iter()
        .filter_map(|one| pool_of(&one.id));
    // systemd escapes other characters, and the guide has no such unit.
    let plain = |pool: &PoolName| {
        pool.as_str()
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let units = pools
        .filter(plain)
        .map(|pool| format!("bulkhead-pool@{pool}.service"));
    let units: Vec<String> = units.collect();
    let mut arguments = vec!["-c", COMMAND, "beside"];
    arguments.extend(units.iter().map(String::as_str));
    let text = machine.run(&Invocation::new("sh", &arguments))?.text();
    Ok(text
        .lines()
        .map(str::to_owned)
        .filter(|line| units.contains(line))
        .collect())
}

/// The settings at the start of its corosync-qdevice, and whether it is connected to the witness.
pub(crate) fn witness(machine: &dyn Host) -> Result<(Option<String>, bool), HostError> {
    const COMMAND: &str = "pid=$(cat /run/corosync-qdevice/corosync-qdevice.pid) || exit 0; \
        tr '\\0' '\\n' </proc/$pid/environ | sed -n \"s/^$1=/settings /p\"; corosync-qdevice-tool -s";
    let arguments = ["-c", COMMAND, "device", QDEVICE_SETTINGS];
    let text = machine.run(&Invocation::new("sh", &arguments))?.text();
    let mut settings = text
        .lines()
        .filter_map(|line| line.strip_prefix("settings "));
    let is_connected = |line: &str| {
        line.strip_prefix("State:")
            .is_some_and(|state| state.trim() == "Connected")
    };
    Ok((
        settings.next().map(str::to_owned),
        text.lines().any(is_connected),
    ))
}

/// Whether a connection from there to the witness succeeds within three seconds.
pub(crate) fn reaches_witness(machine: &dyn Host, (address, port): (IpAddr, u16)) -> bool {
    const PROBE: &str = "timeout 3 bash -c ': </dev/tcp/\"$0\"/\"$1\"' \"$1\" \"$2\"";
    let (address, port) = (address.to_string(), port.to_string());
    let invocation = Invocation::new("sh", &["-c", PROBE, "knock", &address, &port]);
    machine
        .run(&invocation)
        .is_ok_and(|output| output.code == 0)
}

/// Whether the agents there can run the binary.
fn has_program(machine: &dyn Host, desired: &DesiredState) -> Result<bool, HostError> {
    let program = desired.program.to_string_lossy();
    let arguments = ["-c", "[ -x \"$1\" ]", "program", &program];
    Ok(machine.run(&Invocation::new("sh", &arguments))?.code == 0)
}

/// Whether the help of the binary there lists the heads' key among its files.
fn reads_peer_key(machine: &dyn Host, desired: &DesiredState) -> Result<bool, HostError> {
    let program = desired.program.to_string_lossy();
    let command = "\"$1\" head --help 2>/dev/null | grep -qF \"$2\"";
    let arguments = ["-c", command, "names", &program, PEER_KEY_PATH];
    Ok(machine.run(&Invocation::new("sh", &arguments))?.code == 0)
}

fn fingerprint(
    machine: &dyn Host,
    path: &str,
    is_key: fn(usize) -> bool,
) -> Result<Option<Fingerprint>, HostError> {
    let command = "[ ! -e \"$1\" ] || { wc -c <\"$1\"; sha256sum <\"$1\"; }";
    let invocation = Invocation::new("sh", &["-c", command, "digest", path]);
    let output = crate::host::must(machine, &invocation)?;
    let text = output.text();
    let mut words = text.split_whitespace();
    let length = words.next().and_then(|length| length.parse().ok());
    // A truncated copy is no secret, and is replaced as if it were missing.
    let digest = words.next().filter(|_| length.is_some_and(is_key));
    Ok(digest.map(|digest| Fingerprint(digest.to_owned())))
}
