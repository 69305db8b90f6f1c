//! Retires a pool: has Pacemaker stop it, erases its disks, and removes its records of legs and the notes of its disks
//! on each head. A run that was killed is repeated: each step is skipped where it is done.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use appliance::Appliance;
use appliance::plan::{Actual, HeadActual};
use appliance::render::resource_ids;
use control::failure::FailureKind;
use serde::Deserialize;
use serde_json::Value;
use units::{HeadName, PoolName};

use crate::apply::{ApplyError, responding};
use crate::cib::stop;
use crate::host::{Host, HostError, Hosts, must};
use crate::process::Invocation;

/// Erases the labels at both sides of a disk: the four of ZFS, and those of other software.
const ERASE: &str = "set -e; disk=$(readlink -f \"$1\"); \
    size=$(blockdev --getsize64 \"$disk\" 2>/dev/null || stat -c %s \"$disk\"); \
    dd if=/dev/zero of=\"$disk\" bs=256K count=2 conv=notrunc,fsync status=none; \
    dd if=/dev/zero of=\"$disk\" bs=256K count=2 conv=notrunc,fsync oflag=seek_bytes seek=$((size / 262144 * 262144 - 524288)) status=none";

/// Why a pool is not retired, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum RetireError {
    /// Pacemaker did not stop it.
    #[error(transparent)]
    Stop(#[from] ApplyError),
    /// A server runs outside of Pacemaker.
    #[error("{head} serves pool {pool} outside of Pacemaker")]
    Served {
        /// The head.
        head: HeadName,
        /// The pool.
        pool: PoolName,
    },
    /// A step failed on a head.
    #[error("{head}: {step}")]
    Step {
        /// The head.
        head: HeadName,
        /// The step.
        step: String,
        /// The cause.
        #[source]
        source: HostError,
    },
}

/// The pool with all that belongs to it.
#[derive(Clone, Debug)]
pub struct Retired {
    /// Its name.
    pub pool: PoolName,
    /// The number of its record of legs.
    pub number: Option<u32>,
    /// Its names in Pacemaker: the pool and its addresses.
    pub resources: BTreeSet<String>,
    /// The disks of each head in the appliance file.
    pub disks: Vec<(HeadName, Vec<PathBuf>)>,
}

impl Retired {
    /// The pool of the file; none if the file has no such pool.
    pub fn of(appliance: &Appliance, pool: &PoolName) -> Option<Self> {
        let described = appliance.pools.get(pool)?;
        let heads = appliance.heads.keys();
        Some(Self {
            pool: pool.clone(),
            number: described.number.filter(|_| described.has_legs()),
            resources: resource_ids(pool, described).into_iter().collect(),
            disks: heads
                .map(|head| (head.clone(), appliance.disks_on(head, described)))
                .collect(),
        })
    }
}

/// The contents of a disk, in the response of `bulkhead leg-server look --json`.
#[derive(Clone, Debug, Deserialize)]
struct Look {
    path: PathBuf,
    carries: String,
    pool: Option<String>,
}

/// A disk of the pool on a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFound {
    /// The head that reads it.
    pub head: HeadName,
    /// Its path there.
    pub path: PathBuf,
    /// Its contents, where it does not belong to the pool: it is left as it is.
    pub other: Option<String>,
}

/// Finds the disks with contents. A missing or blank one is left out, and one that several heads reach is in the list of
/// each.
///
/// # Errors
///
/// A head cannot be queried.
pub fn disks(
    machines: &Hosts,
    program: &str,
    retired: &Retired,
) -> Result<Vec<DiskFound>, RetireError> {
    let mut found = Vec::new();
    for (head, disks) in &retired.disks {
        if disks.is_empty() {
            continue;
        }
        let Some(machine) = machines.get(head) else {
            continue;
        };
        let seen = look(machine.as_ref(), program, disks).map_err(|source| RetireError::Step {
            head: head.clone(),
            step: "read its disks".to_owned(),
            source,
        })?;
        found.extend(seen.into_iter().filter_map(|disk| {
            let is_own = disk.pool.as_deref() == Some(retired.pool.as_str());
            // Spares and caches have no name of a pool; the file lists them for this one.
            let is_nameless = ["a spare of a pool", "a cache of a pool"].contains(&&*disk.carries);
            let is_blank = disk.carries.is_empty() && disk.pool.is_none();
            (!is_blank).then(|| DiskFound {
                head: head.clone(),
                path: disk.path,
                other: (!is_own && !is_nameless).then(|| match disk.carries.as_str() {
                    "" => "a destroyed pool".to_owned(),
                    carries => carries.to_owned(),
                }),
            })
        }));
    }
    Ok(found)
}

fn look(machine: &dyn Host, program: &str, disks: &[PathBuf]) -> Result<Vec<Look>, HostError> {
    let mut words = vec!["leg-server".into(), "look".into(), "--json".into()];
    words.extend(disks.iter().map(|disk| disk.to_string_lossy()));
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let invocation = Invocation::new(program, &words);
    let output = must(machine, &invocation)?;
    serde_json::from_slice(&output.stdout).map_err(|error| HostError::Failed {
        program: format!("{program} leg-server look"),
        code: output.code,
        complaint: format!("its response cannot be parsed: {error}"),
    })
}

/// Everything that the retirement removes, in sentences: clients, data, resources of Pacemaker, disks and records.
pub fn losses(
    machines: &Hosts,
    program: &str,
    retired: &Retired,
    disks: &[DiskFound],
    actual: &Actual,
) -> Vec<String> {
    let mut lines = Vec::new();
    let serves = |known: &HeadActual| known.portals.contains_key(&retired.pool);
    let serving = actual.heads.iter().find(|(_, known)| serves(known));
    if let Some((head, machine)) = serving.and_then(|(head, _)| machines.get_key_value(head)) {
        let clients = clients(machine.as_ref(), program, &retired.pool);
        lines.push(match clients.is_empty() {
            true => format!("{head} serves it, without a client"),
            false => format!(
                "{head} serves it to {}: their sessions end",
                Vec::from_iter(clients).join(", ")
            ),
        });
        lines.extend(data(machine.as_ref(), program, &retired.pool));
    }
    let resources: Vec<&str> = retired.resources.iter().map(String::as_str).collect();
    lines.push(format!("Pacemaker loses {}", resources.join(", ")));
    let mut shared = BTreeSet::new();
    for disk in disks {
        let path = disk.path.display();
        let name = match retired.number {
            Some(_) => format!("{}:{path}", disk.head),
            // Each head reaches the same disk.
            None if !shared.insert(&disk.path) => continue,
            None => path.to_string(),
        };
        lines.push(match &disk.other {
            None => format!("{name} is erased"),
            Some(other) => format!("{name} is left as it is: it carries {other}"),
        });
    }
    lines.extend(retired.number.map(|number| {
        format!("the record of legs with the number {number} is removed from each head")
    }));
    lines
}

/// The clients of the pool, as the status of its server names them.
fn clients(machine: &dyn Host, program: &str, pool: &PoolName) -> BTreeSet<String> {
    let status = Invocation::new(program, &["status", pool.as_str(), "--json"]);
    let output = must(machine, &status).ok();
    let status = output.and_then(|output| serde_json::from_slice(&output.stdout).ok());
    let mut found = BTreeSet::new();
    add_clients(&status.unwrap_or_default(), &mut found);
    found
}

/// Finds all sessions in a status: `{"sessions": [{"name", "peers"}]}`.
fn add_clients(status: &Value, found: &mut BTreeSet<String>) {
    match status {
        Value::Array(all) => all.iter().for_each(|one| add_clients(one, found)),
        Value::Object(all) => {
            let sessions = all.get("sessions").and_then(Value::as_array);
            for session in sessions.into_iter().flatten() {
                let peers = session["peers"].as_array().into_iter().flatten();
                let peers: Vec<&str> = peers.filter_map(Value::as_str).collect();
                let name = session["name"].as_str().unwrap_or_default();
                found.insert(format!("{name} ({})", peers.join(", ")));
            }
            all.values().for_each(|one| add_clients(one, found));
        }
        _ => {}
    }
}

/// The volumes, file systems and snapshots of the pool, as its server counts and names them.
fn data(machine: &dyn Host, program: &str, pool: &PoolName) -> Option<String> {
    let preview = ["pool", "destroy", pool.as_str(), "--dry-run", "--json"];
    let output = must(machine, &Invocation::new(program, &preview)).ok()?;
    let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
    let (_, lost) = answer["message"].as_str()?.split_once("would destroy ")?;
    Some(format!("{lost}: all of it is lost"))
}

/// Stops the pool, erases its disks, and removes its records and notes. `progress` is called with each step before it
/// is made. `actual`: the heads before. Returns the steps that are left to a person.
///
/// # Errors
///
/// A step failed. The steps before it stay.
pub fn retire(
    machines: &Hosts,
    program: &str,
    retired: &Retired,
    actual: &Actual,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<String>, RetireError> {
    let pool = &retired.pool;
    let mut notes = Vec::new();
    let has_cluster = actual
        .heads
        .values()
        .any(|head| head.running_cluster.is_some());
    if has_cluster {
        let resources: Vec<&str> = retired.resources.iter().map(String::as_str).collect();
        progress(&format!("have Pacemaker stop {}", resources.join(", ")));
        let stopped = stop(responding(machines)?, &retired.resources);
        stopped.map_err(ApplyError::Stop)?;
    }
    // Pacemaker does not stop a server outside of the cluster.
    for (head, machine) in machines {
        let found = crate::observe::portals(machine.as_ref(), Path::new(program));
        let (portals, _) = found.map_err(|source| RetireError::Step {
            head: head.clone(),
            step: format!("query the server of pool {pool}"),
            source,
        })?;
        if portals.contains_key(pool) {
            return Err(RetireError::Served {
                head: head.clone(),
                pool: pool.clone(),
            });
        }
    }
    for (head, _) in &retired.disks {
        // A disk that an earlier head erased is blank now.
        for disk in disks(machines, program, retired)?
            .iter()
            .filter(|disk| disk.head == *head && disk.other.is_none())
        {
            let path = disk.path.to_string_lossy();
            let erase = Invocation::new("sh", &["-c", ERASE, "erase", &path]);
            step(machines, head, format!("erase {path}"), &erase, progress)?;
        }
    }
    for head in machines.keys() {
        if let Some(number) = retired.number {
            let number = number.to_string();
            let forget = ["leg-server", "forget", &number, "--pool-is-gone"];
            let what = format!("remove the record of pool {number}");
            step(
                machines,
                head,
                what,
                &Invocation::new(program, &forget),
                progress,
            )?;
        }
        notes.extend(forget(machines, head, program, pool, progress)?);
    }
    Ok(notes)
}

/// Removes the pool from the known pools of a head. A disk that an earlier replacement took out of the pool may carry its
/// label still: then the pool stays known, which is noted.
fn forget(
    machines: &Hosts,
    head: &HeadName,
    program: &str,
    pool: &PoolName,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<String>, RetireError> {
    let what = format!("forget pool {pool}");
    let invocation = Invocation::new(program, &["pool", "forget", pool.as_str()]);
    match step(machines, head, what, &invocation, progress) {
        Err(RetireError::Step {
            source: HostError::Failed { code, .. },
            ..
        }) if code == i32::from(FailureKind::Busy.exit_code()) => Ok(Some(format!(
            "{head}: a disk that is not in the file carries an old label of pool {pool}; erase it with `wipefs --all DISK`, and run `bulkhead pool \
             forget {pool}`"
        ))),
        done => done.map(|()| None),
    }
}

fn step(
    machines: &Hosts,
    head: &HeadName,
    what: String,
    invocation: &Invocation,
    progress: &mut dyn FnMut(&str),
) -> Result<(), RetireError> {
    progress(&format!("{head}: {what}"));
    let machine = machines
        .get(head)
        .ok_or_else(|| ApplyError::NoConnection(head.clone()))?;
    let done = must(machine.as_ref(), invocation);
    done.map(drop).map_err(|source| RetireError::Step {
        head: head.clone(),
        step: what,
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clients_in_a_status_are_named() {
        let status = serde_json::json!({
            "targets": [{"name": "t", "sessions": [{"name": "iqn.a", "peers": ["10.0.0.9:7", "10.1.0.9:8"]}]}],
            "nbd": [{"volume": "v"}, {"sessions": [{"name": "v", "peers": ["10.0.0.8:1"]}]}],
            "other_protocols": [{"exports": [{"sessions": []}]}]
        });
        let mut found = BTreeSet::new();
        add_clients(&status, &mut found);
        let expected = ["iqn.a (10.0.0.9:7, 10.1.0.9:8)", "v (10.0.0.8:1)"];
        assert_eq!(Vec::from_iter(found), expected);
    }
}
