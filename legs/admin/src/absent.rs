//! Advice on legs that are missing data: one for each cause.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::SystemTime;

use control::calendar::utc;
use control::{Advice, Severity};
use leg_record::{DiskId, MemberId};
use leg_zfs::side::DIFFERENT_LEG;
use legs::{PublishedState, Unresponsive};
use legs_config::LegsFile;
use units::PoolName;

/// Part of the reason of a member on a host that is on, where no process listens.
const REFUSED: &str = "refused";
/// Parts of the reasons of a leg that cannot be resilvered because its lender is not reached (`remote_leg::LegError`).
const NOT_REACHED: [&str; 2] = ["is not reached", "does not respond at all"];

/// The networks between the leg-servers of this head and of `head`, with the addresses of both.
fn network_to(file: &LegsFile, head: &str) -> String {
    let of = |name: &str| {
        let member = file.members.get(name);
        let addresses = member.map(|member| member.members.iter().chain(&member.lends));
        let hosts: BTreeSet<String> = addresses
            .into_iter()
            .flatten()
            .map(|address| address.ip().to_string())
            .collect();
        hosts.into_iter().collect::<Vec<_>>().join(", ")
    };
    let ports = file.members.get(head).map(|member| {
        let all = member.members.iter().chain(&member.lends);
        let ports: BTreeSet<String> = all.map(|address| address.port().to_string()).collect();
        ports.into_iter().collect::<Vec<_>>().join(", ")
    });
    let own = &file.me;
    format!(
        "the networks between the leg-servers: cables, switch, interfaces and firewall between {own} ({}) and {head} ({}, TCP ports {})",
        of(own),
        of(head),
        ports.unwrap_or_default()
    )
}

/// A head that is unreachable, with the legs that are missing because of that.
pub(crate) struct LostHead<'a> {
    pub member: MemberId,
    why: &'a str,
    legs: Vec<DiskId>,
}

/// The unreachable heads with missing legs of `pool`. A leg that is faulted, or of which the path has a different disk,
/// has another cause.
pub(crate) fn lost_heads<'a>(
    file: &LegsFile,
    pool: &PoolName,
    shown: &'a PublishedState,
) -> Vec<LostHead<'a>> {
    let lost = shown.unresponsive.iter();
    let lost = lost.filter_map(|(member, why)| match why {
        Unresponsive::Lost(why) => Some((*member, why.as_str())),
        _ => None,
    });
    let record = shown.record.as_ref();
    let is_missing = |disk: DiskId| {
        let is_stale = record.is_some_and(|record| record.stale.contains_key(&disk));
        let trouble = shown.troubles.get(&disk);
        let is_different = trouble.is_some_and(|why| why.contains(DIFFERENT_LEG));
        let is_stale = is_stale && !shown.held.contains_key(&disk) && !is_different;
        is_stale || shown.awaited.contains(&disk)
    };
    let with_legs = lost.map(|(member, why)| {
        let head = file.name(member);
        let groups = file.pools.get(pool).into_iter();
        let legs = groups
            .flat_map(|pool| &pool.groups)
            .flat_map(|group| &group.legs);
        let own = legs
            .filter(|leg| leg.head == head)
            .map(|leg| DiskId(leg.disk));
        LostHead {
            member,
            why,
            legs: own.filter(|disk| is_missing(*disk)).collect(),
        }
    });
    with_legs.filter(|head| !head.legs.is_empty()).collect()
}

impl LostHead<'_> {
    pub fn advice(&self, file: &LegsFile, pool: &PoolName, shown: &PublishedState) -> Advice {
        let head = file.name(self.member);
        let legs = match self.legs.len() {
            1 => format!("its leg of pool {pool} is missing"),
            count => format!("its {count} legs of pool {pool} are missing"),
        };
        let why = format!("member {head} does not answer, and {legs}");
        let what = match self.why.contains(REFUSED) {
            // A host that refuses a connection is on and can be reached.
            true => format!(
                "run `systemctl start bulkhead-leg-server` on {head}, which is on and refuses connections. Its legs return automatically"
            ),
            false => format!(
                "if {head} is on, check {}, and run `systemctl start bulkhead-leg-server` there; else power it on. Its legs return \
                 automatically",
                network_to(file, &head)
            ),
        };
        let record = shown.record.as_ref();
        let stale = |disk| record.and_then(|record| record.stale.get(disk));
        let details = self.legs.iter().map(|disk| match stale(disk) {
            Some(stale) => missing_since(&file.disk_name(*disk), stale.since),
            None => format!("leg {} has failed", file.disk_name(*disk)),
        });
        let reason = format!("{head}: {}", self.why);
        Advice::new(Severity::Warning, what, why)
            .caused_by(head)
            .with_details(std::iter::once(reason).chain(details).collect())
    }
}

fn missing_since(leg: &str, group: u64) -> String {
    format!("leg {leg} is missing all writes since transaction group {group}")
}

/// The state of a stale leg, which determines the advice.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Absence {
    /// The disk at its path is a different one.
    Different(String),
    /// Its lender is not reached, although its head responds as a member of the record.
    Unreached,
    /// It is being resilvered, or will be when it is reachable.
    Returning,
    /// It is away.
    Away,
}

/// Advice on stale legs, without those of the heads in `lost`: one for the legs of a head in the same state.
pub(crate) fn of_stale(
    (file, path): (&LegsFile, &Path),
    pool: &PoolName,
    shown: &PublishedState,
    lost: &[LostHead<'_>],
) -> Vec<Advice> {
    let mut advice = Vec::new();
    let mut alike: BTreeMap<(String, Absence), Vec<String>> = BTreeMap::new();
    let mut details: BTreeMap<String, String> = BTreeMap::new();
    let record = shown.record.as_ref();
    for (disk, stale) in record.iter().flat_map(|record| &record.stale) {
        let leg = file.disk_name(*disk);
        if let Some(until) = shown.held.get(disk) {
            advice.push(faulted(pool, &leg, *until).about(&leg));
            continue;
        }
        if lost.iter().any(|head| head.legs.contains(disk)) {
            continue;
        }
        let detail = missing_since(&leg, stale.since);
        let trouble = shown.troubles.get(disk);
        let trouble = trouble.filter(|_| !shown.copying.contains(disk));
        let absence = match trouble {
            Some(why) if why.contains(DIFFERENT_LEG) => Absence::Different(why.clone()),
            Some(why) if NOT_REACHED.iter().any(|part| why.contains(part)) => Absence::Unreached,
            Some(why) => {
                let what = of_trouble(pool, &leg, path);
                let why =
                    format!("leg {leg} is missing all writes, and cannot be resilvered: {why}");
                let trouble = Advice::new(Severity::Error, what, why).about(&leg);
                advice.push(trouble.with_details(vec![detail]));
                continue;
            }
            None if stale.is_written => Absence::Returning,
            None => Absence::Away,
        };
        let head = leg.split(':').next().unwrap_or_default().to_owned();
        details.insert(leg.clone(), detail);
        alike.entry((head, absence)).or_default().push(leg);
    }
    let of_legs = |((head, absence), legs): ((String, Absence), Vec<String>)| {
        let missing = match &*legs {
            [leg] => format!("leg {leg} is missing all writes"),
            legs => format!("legs {} are missing all writes", legs.join(", ")),
        };
        let advice = match absence {
            Absence::Different(why) => Advice::new(
                Severity::Error,
                format!(
                    "write each disk at its own number again in {} of each head, and restart the leg-servers; replace none",
                    path.display()
                ),
                format!("{missing}, and cannot be resilvered: {why}"),
            ),
            Absence::Unreached => Advice::new(
                Severity::Error,
                format!(
                    "check {}. Replace no disk: the legs return automatically",
                    network_to(file, &head)
                ),
                format!(
                    "{missing}, and cannot be resilvered: {} does not reach the leg-server of {head}, which lends them",
                    file.me
                ),
            )
            .caused_by(head.clone()),
            Absence::Returning => Advice::new(
                Severity::Warning,
                "wait",
                format!("{missing}; the data is copied, or will be when the head can be reached"),
            ),
            Absence::Away => Advice::new(
                Severity::Warning,
                match head == file.me {
                    true => "check its disk: the leg returns automatically".to_owned(),
                    false => format!(
                        "check {head}, then {}, and then the disk: the leg returns automatically",
                        network_to(file, &head)
                    ),
                },
                missing,
            ),
        };
        let details = legs.iter().filter_map(|leg| details.get(leg).cloned());
        let advice = advice.with_details(details.collect());
        match legs.first() {
            Some(leg) => advice.about(leg),
            None => advice,
        }
    };
    advice.extend(alike.into_iter().map(of_legs));
    advice
}

/// A leg has failed too often and is not retried now.
fn faulted(pool: &PoolName, leg: &str, until: SystemTime) -> Advice {
    let since = until.duration_since(SystemTime::UNIX_EPOCH);
    let until = utc(since.map_or(0, |since| since.as_secs()));
    let why = format!(
        "leg {leg} returned and failed several times within an hour: it is missing data, and is not tried again before {until}"
    );
    let what =
        "check its disk, its head and the network between the heads, then have it tried at once";
    Advice::new(Severity::Error, what, why).by(format!("bulkhead pool online {pool} {leg}"))
}

/// Advice on a leg that cannot be resilvered.
fn of_trouble(pool: &PoolName, leg: &str, path: &Path) -> String {
    let head = leg.split(':').next().unwrap_or_default();
    format!(
        "check its disk: it is retried automatically. If a new disk is at its path, run `bulkhead pool replace {pool} {leg}`: all data is copied to \
         it. A disk at another path replaces it when {} of each head names that path: `bulkhead pool replace {pool} {leg} {head}:PATH`",
        path.display()
    )
}
