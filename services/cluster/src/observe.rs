//! Looks at the heads: which files, services and configuration there are now.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use appliance::plan::{
    AUTHKEY_PATH, Actual, CERTIFICATE_PATH, COROSYNC_UNREAD_PATH, DesiredState, DiskSeen,
    Fingerprint, HEAD_UNIT, HeadActual, OnRecord, PEER_KEY_PATH, RunningNode, is_authkey,
    is_peer_key,
};
use appliance::ports::Portals;
use appliance::render::{LEGS_PATH, QDEVICE_SETTINGS, pool_of};
use control::failure::FailureKind;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use units::{HeadName, PoolName};

use crate::cib::{CibError, read_cib};
use crate::machine::{Machine, MachineError, Machines, read_file};
use crate::process::Invocation;

/// Why the heads could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// A head answers, but not this question.
    #[error("look at {head}")]
    Head {
        /// Which.
        head: HeadName,
        /// Why.
        #[source]
        source: MachineError,
    },
    /// The cluster runs and does not tell its configuration.
    #[error("ask {head} for the cluster's configuration")]
    Cib {
        /// Which.
        head: HeadName,
        /// Why.
        #[source]
        source: CibError,
    },
}

/// What is, as far as a desired state speaks of it. A head that cannot be reached is left out; the plan
/// then names it as an obstacle.
///
/// # Errors
///
/// A head can be reached and something on it cannot be read.
pub fn observe(machines: &Machines, desired: &DesiredState) -> Result<Actual, ObserveError> {
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

/// Whether Pacemaker answers on this head.
pub(crate) fn pacemaker_runs(machine: &dyn Machine) -> bool {
    let invocation = Invocation::new("cibadmin", &["--query", "--scope", "crm_config", "--local"]);
    machine
        .run(&invocation)
        .is_ok_and(|output| output.code == 0)
}

fn observe_head(
    name: &HeadName,
    machine: &dyn Machine,
    desired: &DesiredState,
) -> Result<HeadActual, MachineError> {
    let (portals, clients) = portals(machine, desired)?;
    let mut head = HeadActual {
        portals,
        clients,
        has_program: has_program(machine, desired)?,
        running_cluster: running_cluster(machine)?,
        running_nodes: running_nodes(machine)?,
        authkey: fingerprint(machine, AUTHKEY_PATH, is_authkey)?,
        peer_key: fingerprint(machine, PEER_KEY_PATH, is_peer_key)?,
        reads_peer_key: reads_peer_key(machine, desired)?,
        remembered: remembered(machine, desired)?,
        on_record: on_record(machine, desired)?,
        legs_read: legs_read(machine, desired)?,
        is_reload_due: is_reload_due(machine)?,
        ..HeadActual::default()
    };
    head.units_beside = units_beside(machine, desired)?;
    if desired.witness_settings.is_some() {
        (head.witness_settings, head.has_witness) = witness(machine)?;
        // One that is used already, and is silent now, is in the way of no change.
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
        if systemctl_says(machine, "is-enabled", unit)? {
            head.units_enabled.insert(unit.to_owned());
        }
        if systemctl_says(machine, "is-active", unit)? {
            head.units_active.insert(unit.to_owned());
        }
    }
    Ok(head)
}

fn systemctl_says(machine: &dyn Machine, verb: &str, unit: &str) -> Result<bool, MachineError> {
    let output = machine.run(&Invocation::new("systemctl", &[verb, "--quiet", unit]))?;
    Ok(output.code == 0)
}

/// Whether its API has a certificate, made here or given by its administrator.
fn has_certificate(machine: &dyn Machine) -> Result<bool, MachineError> {
    let command = "[ -e \"${BULKHEAD_HEAD_DIR:+$BULKHEAD_HEAD_DIR/certificate.pem}\" ] || \
                   [ -z \"$BULKHEAD_HEAD_DIR\" -a -e \"$1\" ]";
    let arguments = ["-c", command, "certificate", CERTIFICATE_PATH];
    let output = machine.run(&Invocation::new("sh", &arguments))?;
    Ok(output.code == 0)
}

/// An address in the answer to `bulkhead portal list --json`.
#[derive(Deserialize)]
struct PortalLine {
    pool: PoolName,
    protocol: String,
    address: String,
    /// Where clients are told of addresses by groups.
    group: Option<u16>,
    /// How many came in by it.
    #[serde(default)]
    clients: u64,
}

/// Where servers listen, and how many clients they have, by pool.
type Served = (BTreeMap<PoolName, Portals>, BTreeMap<PoolName, u64>);

/// Where the servers that run there listen, and how many clients they have. A head without any says so by its exit code, and one with an older
/// program, too.
fn portals(machine: &dyn Machine, desired: &DesiredState) -> Result<Served, MachineError> {
    let program = desired.program.to_string_lossy();
    let output = machine.run(&Invocation::new(&program, &["portal", "list", "--json"]))?;
    // Those that answered are told also where another one did not.
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

/// Numbers of the pools of legs that it remembers. A bare machine remembers none.
fn remembered(
    machine: &dyn Machine,
    desired: &DesiredState,
) -> Result<BTreeSet<u64>, MachineError> {
    if desired.pools_of_legs.is_empty() {
        return Ok(BTreeSet::new());
    }
    let program = desired.program.to_string_lossy();
    let words = ["leg-server", "pools", "--json"];
    remembering(machine, &Invocation::new(&program, &words))
}

/// What it prints of pools that it remembers. An earlier release, or none, does not know the command and tells nothing; what is there and
/// cannot be read is not nothing.
fn remembering<T: DeserializeOwned + Default>(
    machine: &dyn Machine,
    invocation: &Invocation,
) -> Result<T, MachineError> {
    let output = machine.run(invocation)?;
    let failed = |complaint| MachineError::Failed {
        program: format!("{} {}", invocation.program, invocation.arguments.join(" ")),
        code: output.code,
        complaint,
    };
    match output.code {
        0 => serde_json::from_slice(&output.stdout)
            .map_err(|error| failed(format!("its answer is not understood: {error}"))),
        code if code == i32::from(FailureKind::Failed.exit_code()) => {
            Err(failed(output.complaint()))
        }
        _ => Ok(T::default()),
    }
}

/// A pool in the answer to `bulkhead leg-server members --json`.
#[derive(Deserialize)]
struct MembersLine {
    pool: u64,
    heads: BTreeSet<u64>,
    witness: Option<u64>,
    disks: Option<BTreeSet<u64>>,
}

/// Who remembers pools of legs, by the records that it accepted. A head with an older program does not say.
fn on_record(
    machine: &dyn Machine,
    desired: &DesiredState,
) -> Result<BTreeMap<u64, OnRecord>, MachineError> {
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
        } = line;
        let known = OnRecord {
            heads,
            witness,
            disks,
        };
        (pool, known)
    });
    Ok(lines.collect())
}

/// What its running leg-server has read. One of an earlier release does not say, and where none runs nobody does.
fn legs_read(
    machine: &dyn Machine,
    desired: &DesiredState,
) -> Result<Option<String>, MachineError> {
    if desired.pools_of_legs.is_empty() {
        return Ok(None);
    }
    let program = desired.program.to_string_lossy();
    let invocation = Invocation::new(&program, &["leg-server", "configuration"]);
    let output = machine.run(&invocation)?;
    Ok((output.code == 0).then(|| output.text()))
}

/// Whether a run that was cut off wrote a file of Corosync there, and did not have it read.
fn is_reload_due(machine: &dyn Machine) -> Result<bool, MachineError> {
    let arguments = ["-c", "[ -e \"$1\" ]", "mark", COROSYNC_UNREAD_PATH];
    let output = machine.run(&Invocation::new("sh", &arguments))?;
    Ok(output.code == 0)
}

/// A disk in the answer to `bulkhead leg-server look --json`.
#[derive(Deserialize)]
struct DiskLine {
    path: PathBuf,
    #[serde(flatten)]
    seen: DiskSeen,
}

/// Its disks that the file of legs names which it has, or the one that it shall have. Those of a head with an earlier release cannot be seen.
fn disks(
    name: &HeadName,
    machine: &dyn Machine,
    desired: &DesiredState,
    head: &HeadActual,
) -> Result<BTreeMap<PathBuf, DiskSeen>, MachineError> {
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

/// The name of the cluster whose Corosync runs there.
pub(crate) fn running_cluster(machine: &dyn Machine) -> Result<Option<String>, MachineError> {
    // A shell, so that a machine without Corosync is one where it does not run.
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

/// The heads that the Corosync which runs there knows; none where it does not run.
fn running_nodes(machine: &dyn Machine) -> Result<BTreeMap<String, RunningNode>, MachineError> {
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

/// Units of single pools that run there or are started at boot, of pools that Pacemaker starts.
fn units_beside(
    machine: &dyn Machine,
    desired: &DesiredState,
) -> Result<BTreeSet<String>, MachineError> {
    const COMMAND: &str = "for unit in \"$@\"; do systemctl is-active --quiet \"$unit\" 2>/dev/null || \
        systemctl is-enabled --quiet \"$unit\" 2>/dev/null || continue; echo \"$unit\"; done";
    let pools = desired
        .cib
        .primitives
        .iter()
        .filter_map(|one| pool_of(&one.id));
    // systemd escapes other names, and no file of the guide starts a pool so.
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

/// What its corosync-qdevice was started with, and whether that has the witness.
pub(crate) fn witness(machine: &dyn Machine) -> Result<(Option<String>, bool), MachineError> {
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

/// Whether a connection to the witness can be made from there, within three seconds.
pub(crate) fn reaches_witness(machine: &dyn Machine, (address, port): (IpAddr, u16)) -> bool {
    const KNOCK: &str = "timeout 3 bash -c ': </dev/tcp/\"$0\"/\"$1\"' \"$1\" \"$2\"";
    let (address, port) = (address.to_string(), port.to_string());
    let invocation = Invocation::new("sh", &["-c", KNOCK, "knock", &address, &port]);
    machine
        .run(&invocation)
        .is_ok_and(|output| output.code == 0)
}

/// Whether the agents there can run the program.
fn has_program(machine: &dyn Machine, desired: &DesiredState) -> Result<bool, MachineError> {
    let program = desired.program.to_string_lossy();
    let arguments = ["-c", "[ -x \"$1\" ]", "program", &program];
    Ok(machine.run(&Invocation::new("sh", &arguments))?.code == 0)
}

/// Whether the heads' key is among the files that the program there names in its help.
fn reads_peer_key(machine: &dyn Machine, desired: &DesiredState) -> Result<bool, MachineError> {
    let program = desired.program.to_string_lossy();
    let command = "\"$1\" head --help 2>/dev/null | grep -qF \"$2\"";
    let arguments = ["-c", command, "names", &program, PEER_KEY_PATH];
    Ok(machine.run(&Invocation::new("sh", &arguments))?.code == 0)
}

fn fingerprint(
    machine: &dyn Machine,
    path: &str,
    is_key: fn(usize) -> bool,
) -> Result<Option<Fingerprint>, MachineError> {
    let command = "[ ! -e \"$1\" ] || { wc -c <\"$1\"; sha256sum <\"$1\"; }";
    let invocation = Invocation::new("sh", &["-c", command, "digest", path]);
    let output = crate::machine::must(machine, &invocation)?;
    let text = output.text();
    let mut words = text.split_whitespace();
    let length = words.next().and_then(|length| length.parse().ok());
    // A copy that was cut off is no secret, and gets another one as if there was none.
    let digest = words.next().filter(|_| length.is_some_and(is_key));
    Ok(digest.map(|digest| Fingerprint(digest.to_owned())))
}
