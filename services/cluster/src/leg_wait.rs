//! Delays the restart of a head's leg-server: during the restart, pools of other heads run without its disks, until
//! they are copied up to date again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use control::calendar::utc;
use control::legs::{LegState, LegView, LegsView};
use legs_config::Group;
use serde::Deserialize;
use units::{HeadName, PoolName};

use crate::host::Hosts;
use crate::process::Invocation;

/// Time limit for the pool's server to report the state of its legs.
const STATUS_TIME_LIMIT: Duration = Duration::from_secs(10);
/// Polling interval. A remote host sends no event to wait for.
const POLL: Duration = Duration::from_millis(500);

/// Why a leg-server was not restarted.
#[derive(Debug, thiserror::Error)]
#[error("{why}; {mend}")]
pub struct LegsMissing {
    /// The condition that is not met.
    why: String,
    /// How to resolve it.
    mend: String,
}

/// The condition for a restart.
pub(crate) struct Wanted<'a> {
    /// The head of the restarted leg-server.
    pub(crate) head: &'a HeadName,
    /// The binary that reports the states of legs.
    pub(crate) program: &'a Path,
    /// The pools with their groups.
    pub(crate) pools: &'a BTreeMap<PoolName, Vec<Group>>,
    /// How long it may take.
    pub(crate) time_limit: Duration,
    /// A leg that was current need not become current again.
    pub(crate) stale_legs: bool,
}

/// The observations of one run.
#[derive(Default)]
pub(crate) struct LegWait {
    /// Disks of each pool that must be current again before the next restart.
    expected: BTreeMap<PoolName, BTreeSet<u64>>,
}

/// A part of the response of `bulkhead status POOL --json`.
#[derive(Deserialize)]
struct Response {
    pool: Status,
    /// The server is on that other head.
    #[serde(default)]
    served_by: Option<String>,
}

#[derive(Deserialize)]
struct Status {
    legs: Option<LegsView>,
}

impl LegWait {
    /// Blocks until the head's leg-server can be restarted.
    ///
    /// # Errors
    ///
    /// The condition is not met within the limit.
    pub(crate) fn before(
        &mut self,
        machines: &Hosts,
        wanted: &Wanted<'_>,
    ) -> Result<(), LegsMissing> {
        let deadline = Instant::now() + wanted.time_limit;
        loop {
            // Queries all pools each time: a leg can fail while another is awaited.
            let pools = wanted.pools.iter();
            let missing = pools.filter_map(|pool| self.missing(machines, pool, wanted));
            let missing: Vec<LegsMissing> = missing.collect();
            match missing.into_iter().next() {
                None => return Ok(()),
                Some(why) if Instant::now() >= deadline => return Err(why),
                Some(_) => std::thread::sleep(POLL),
            }
        }
    }

    fn missing(
        &mut self,
        machines: &Hosts,
        (pool, groups): (&PoolName, &Vec<Group>),
        wanted: &Wanted<'_>,
    ) -> Option<LegsMissing> {
        let Some((server, view)) = query_legs(machines, wanted.program, pool) else {
            return Some(unserved(pool));
        };
        let expected = self.expected.entry(pool.clone());
        let expected = expected.or_insert_with(|| to_be_awaited(&view, groups));
        missing((pool, groups), (&server, &view), expected, wanted)
    }
}

/// The head that serves the pool, and its server's view of the legs.
fn query_legs(machines: &Hosts, program: &Path, pool: &PoolName) -> Option<(HeadName, LegsView)> {
    let program = program.to_string_lossy();
    let invocation = Invocation::new(&program, &["status", pool.as_str(), "--json"]);
    let invocation = invocation.within(STATUS_TIME_LIMIT);
    machines.iter().find_map(|(head, machine)| {
        let output = machine.run(&invocation).ok()?;
        let response: Response = match output.code {
            0 => serde_json::from_slice(&output.stdout).ok()?,
            _ => return None,
        };
        // Every head of an appliance returns the status of a pool that another head serves.
        match response.served_by {
            Some(_) => None,
            None => Some((head.clone(), response.pool.legs?)),
        }
    })
}

fn unserved(pool: &PoolName) -> LegsMissing {
    LegsMissing {
        why: format!("no head serves pool {pool} any more, so the state of its legs is unknown"),
        mend: "see to the pool (`crm_mon -1`), and apply again".to_owned(),
    }
}

/// Legs that are current or being copied. The remaining ones need an administrator, and a leg with a changed path is to
/// be replaced.
fn to_be_awaited(view: &LegsView, groups: &[Group]) -> BTreeSet<u64> {
    let legs = || groups.iter().flat_map(|group| &group.legs);
    let is_kept = |leg: &&LegView| {
        let mut legs = legs();
        legs.any(|one| one.disk == leg.disk && one.path.as_os_str() == leg.path.as_str())
    };
    let is_awaited = |leg: &&LegView| match leg.state {
        LegState::Current | LegState::Failing | LegState::Copying => true,
        LegState::Stale | LegState::Faulted | LegState::Divergent => false,
    };
    let legs = view.legs.iter().filter(is_awaited).filter(is_kept);
    legs.map(|leg| leg.disk).collect()
}

/// The unmet condition for the absence of the head's disks.
fn missing(
    (pool, groups): (&PoolName, &[Group]),
    (server, view): (&HeadName, &LegsView),
    expected: &BTreeSet<u64>,
    wanted: &Wanted<'_>,
) -> Option<LegsMissing> {
    let (head, current) = (wanted.head, LegState::Current);
    let is_out = |leg: &&LegView| expected.contains(&leg.disk) && leg.state != current;
    let mut awaited = view.legs.iter().filter(|_| !wanted.stale_legs);
    if let Some(leg) = awaited.find(is_out) {
        return Some(LegsMissing {
            why: format!("leg {} of pool {pool} is {}", leg.name, since(leg)),
            mend: format!(
                "see `bulkhead pool status {pool}` on {server}, and apply again when it is current; --stale-legs restarts the leg-server of {head} \
                 nevertheless"
            ),
        });
    }
    let is_of = |group: &Group, disk: u64| group.legs.iter().any(|leg| leg.disk == disk);
    groups.iter().find_map(|group| {
        let legs: Vec<&LegView> = view
            .legs
            .iter()
            .filter(|leg| is_of(group, leg.disk))
            .collect();
        // The server retains access to the disks of its own head.
        let stays = |leg: &&&LegView| {
            leg.state == current && (server == head || leg.head != head.as_str())
        };
        if legs.iter().filter(stays).count() >= group.needed || legs.is_empty() {
            return None;
        }
        let others = legs.iter().filter(|leg| leg.state != current);
        let others: Vec<String> = others
            .map(|leg| format!("{} is {}", leg.name, since(leg)))
            .collect();
        let away = legs.iter().find(|leg| leg.head == head.as_str());
        let leg = away.map_or("a leg", |leg| leg.name.as_str());
        let because = match others.is_empty() {
            true => "the group has no other leg".to_owned(),
            false => others.join(", "),
        };
        Some(LegsMissing {
            why: format!("pool {pool}, which {server} serves, cannot do without {leg}: {because}"),
            mend: format!(
                "apply again when the remaining legs are current, or move the pool to {head} first (`bulkhead pool move {pool} {head}`): it retains the disks of its \
                 own head"
            ),
        })
    })
}

/// The state of a leg, and its start.
fn since(leg: &LegView) -> String {
    match leg.since_ms {
        Some(ms) => format!("{} since {}", leg.state, utc(ms / 1000)),
        None => leg.state.to_string(),
    }
}
