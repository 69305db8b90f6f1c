//! The workload: the exports of a pool for the clients, the clients, and the watch over its disks.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use cluster::host::{Local, must};
use cluster::process::Invocation;
use drill_verdict::Clients;
use lab::{ClusterState, Lab, Node};
use units::{HeadName, PoolName};

use crate::client::{Client, Pace, Targets};
use crate::error::DrillError;
use crate::extra_volumes;
use crate::kinds::{self, Exported, Kind};
use crate::watch::Watch;

/// How long clients may take to begin.
pub const START_LIMIT: Duration = Duration::from_secs(120);
const VOLUME_SIZE: &str = "32M";

/// The head that serves `pool`.
pub fn serving_head(state: &ClusterState, pool: &PoolName) -> Option<HeadName> {
    let found = state.pools.get(pool)?;
    if !found.is_served() {
        return None;
    }
    found.head.as_ref()?.parse().ok()
}

pub fn not_served(pool: &PoolName) -> DrillError {
    DrillError::File(format!("no head serves {pool}"))
}

/// The number of paths to the exports of a pool: clients of each kind use every address.
pub fn path_count(lab: &Lab, pool: &PoolName) -> usize {
    kinds::ALL.len() * lab.appliance().pools[pool].addresses.len()
}

pub fn client_log(lab: &Lab, pool: &PoolName) -> PathBuf {
    lab.path().join(format!("drill-client-{pool}.log"))
}

/// Creates volumes and a file system in the pool, which `head` serves, exports them, starts clients, and watches the
/// disks.
///
/// # Errors
///
/// A command or a client fails.
pub fn start_workload(
    lab: &Lab,
    pool: &PoolName,
    head: &HeadName,
    more_volumes: u32,
    clients: Clients,
    pace: Pace,
    seed: u64,
) -> Result<(Client, Watch), DrillError> {
    let targets = export(lab, pool, head, more_volumes)?;
    let watch =
        Watch::start(&files(lab, pool)).map_err(DrillError::io("watch the pool's disks"))?;
    let enter = lab.enter(&Node::Client)?;
    let log = client_log(lab, pool);
    let client = Client::start(&enter, &targets, (clients, pace), seed, &log)?;
    Ok((client, watch))
}

/// The pool's disks among those of the head.
pub fn disks(lab: &Lab, head: &HeadName, pool: &PoolName) -> Vec<(PathBuf, PathBuf)> {
    let appliance = lab.appliance();
    let own = appliance.disks_on(head, &appliance.pools[pool]);
    let all = lab.disks(head).into_iter();
    all.filter(|(name, _)| own.contains(name)).collect()
}

/// The files behind all disks of the pool: those that all heads share once, and legs of every head.
pub fn files(lab: &Lab, pool: &PoolName) -> Vec<PathBuf> {
    let heads = lab.heads().into_iter();
    let all = heads.flat_map(|head| disks(lab, &head, pool));
    let files: BTreeSet<PathBuf> = all.map(|(_, file)| file).collect();
    files.into_iter().collect()
}

pub fn bulkhead(lab: &Lab, head: &HeadName, words: &[&str]) -> Result<String, DrillError> {
    run_on_head(&lab.enter(&Node::Head(head.clone()))?, head, words)
}

/// Runs `bulkhead` on `head`, into which the command `enter` leads.
fn run_on_head(enter: &[String], head: &HeadName, words: &[&str]) -> Result<String, DrillError> {
    let machine = Local {
        prefix: enter.to_vec(),
    };
    let output = must(&machine, &Invocation::new("bulkhead", words));
    let step = || format!("run bulkhead {} on {head}", words.join(" "));
    output
        .map(|output| output.text())
        .map_err(DrillError::step(step()))
}

/// Creates the drills' own volumes, file system and exports, and `more` volumes, unless they exist. Returns their URIs.
fn export(lab: &Lab, pool: &PoolName, head: &HeadName, more: u32) -> Result<Targets, DrillError> {
    let names: Vec<String> = kinds::ALL.iter().map(Kind::dataset).collect();
    let exported = |name| Exported {
        pool,
        name,
        number: 0,
    };
    let run = |words: &[String]| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        bulkhead(lab, head, &words)
    };
    let listed = bulkhead(lab, head, &["volume", "list", pool.as_str(), "--json"])?;
    if !listed.contains(&format!("{:?}", exported(&names[0]).dataset())) {
        for (kind, name) in kinds::ALL.iter().zip(&names) {
            let prepare = (kind.prepare)(pool).into_iter();
            for words in prepare.chain(kind.make(&exported(name), VOLUME_SIZE)) {
                run(&words)?;
            }
        }
        // One lookup of the head for all of them.
        let enter = lab.enter(&Node::Head(head.clone()))?;
        extra_volumes::create(pool, more, |words| {
            run_on_head(&enter, head, words).map(drop)
        })?;
    }
    let addresses = &lab.appliance().pools[pool].addresses;
    let hosts: Vec<String> = addresses
        .iter()
        .map(|one| match one.address {
            std::net::IpAddr::V4(address) => address.to_string(),
            std::net::IpAddr::V6(address) => format!("[{address}]"),
        })
        .collect();
    let ways = kinds::ALL.iter().zip(&names);
    Ok(ways
        .map(|(kind, name)| (kind.name, (kind.client_address)(&exported(name), &hosts)))
        .collect())
}
