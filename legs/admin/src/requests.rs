//! Requests about legs, and advice on their state.

use std::path::{Path, PathBuf};

use control::{Advice, Failure, FailureKind, Severity};
use leg_door::LegRequest;
use leg_record::{Config, DiskId, MemberId, Membership, Record};
use legs::{PublishedState, Stage, Unresponsive};
use legs_config::{Group, Kind, LegsFile, Pool};
use members::Silence;
use units::PoolName;

use crate::absent::{lost_heads, of_stale};
use crate::view;

/// The decision about a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Judged {
    /// It must be performed.
    ToDo,
    /// It is not needed, with the reason.
    Done(String),
}

/// Finds the leg with the name `called`: its name in `pool status`, or its path in the pool (`place`).
///
/// # Errors
///
/// The pool has no such leg.
pub fn find(
    file: &LegsFile,
    pool: &Pool,
    place: impl Fn(DiskId) -> PathBuf,
    called: &str,
) -> Result<DiskId, Failure> {
    let legs = pool.groups.iter().flat_map(|group| &group.legs);
    let legs: Vec<DiskId> = legs.map(|leg| DiskId(leg.disk)).collect();
    let is_it =
        |disk: &&DiskId| file.disk_name(**disk) == called || place(**disk).as_os_str() == called;
    legs.iter().find(is_it).copied().ok_or_else(|| {
        let known: Vec<String> = legs.iter().map(|disk| file.disk_name(*disk)).collect();
        let failure = Failure::not_found(format!("the pool has no leg {called}"));
        failure.advise(format!("its legs are {}", known.join(" ")))
    })
}

/// Whether the record has the leg as divergent.
pub fn diverges(shown: &PublishedState, disk: DiskId) -> bool {
    let record = shown.record.as_ref();
    record.is_some_and(|record| record.divergent.contains(&disk))
}

/// Decides whether a request applies to this leg. `leg`: its name.
///
/// # Errors
///
/// Another request applies, or none.
pub fn judge(
    request: &LegRequest,
    shown: &PublishedState,
    disk: DiskId,
    pool: &PoolName,
    leg: &str,
) -> Result<Judged, Failure> {
    let is_stale = shown
        .record
        .as_ref()
        .is_some_and(|record| record.stale.contains_key(&disk));
    match (request, diverges(shown, disk)) {
        (LegRequest::Readmit, true) => Err(Failure::new(
            FailureKind::NeedsConfirmation,
            format!("leg {leg} has a history that is not this pool's: it may hold writes that exist nowhere else"),
        )
        .advise(format!(
            "look at it first; to give it up, `bulkhead pool discard-leg {pool} {leg} --overwrite-with {pool}`"
        ))),
        (LegRequest::Readmit, false) if shown.copying.contains(&disk) => {
            Ok(Judged::Done(format!("leg {leg} is being resilvered")))
        }
        (LegRequest::Readmit, false) if !is_stale => {
            Ok(Judged::Done(format!("leg {leg} is in use")))
        }
        (LegRequest::Readmit, false)
        | (LegRequest::Discard, true)
        | (LegRequest::Replace { .. } | LegRequest::Attach { .. } | LegRequest::Add { .. }, _) => {
            Ok(Judged::ToDo)
        }
        (LegRequest::Discard, false) => Err(Failure::new(
            FailureKind::Exists,
            format!("leg {leg} has the pool's own history: no data on it must be given up"),
        )
        .advise("if it is missing data, it is resilvered when its head responds")),
    }
}

/// Checks that a new configuration only changes the path of a replaced disk.
///
/// # Errors
///
/// It does not name that disk, or has other differences.
pub fn moved(
    known: &LegsFile,
    (read, path): (&LegsFile, &Path),
    pool: &PoolName,
    disk: DiskId,
    new: Option<&str>,
) -> Result<(), Failure> {
    let (before, after) = (known.disk_name(disk), read.disk_name(disk));
    let meant = new.unwrap_or(&before);
    if meant != after {
        let failure = Failure::usage(format!(
            "{} names {after} for that disk, and not {meant}",
            path.display()
        ));
        return Err(failure.advise(
            "write the path of the new disk there, with the number of the old one, on each head (of an appliance into its file, then `bulkhead appliance apply`), restart the leg-servers, and repeat the command",
        ));
    }
    let mut expected = known.clone();
    let legs = expected.pools.get_mut(pool).into_iter();
    let legs = legs
        .flat_map(|pool| &mut pool.groups)
        .flat_map(|group| &mut group.legs);
    for leg in legs.filter(|leg| leg.disk == disk.0) {
        if let Some((_, found)) = read.leg(disk) {
            leg.path.clone_from(&found.path);
        }
    }
    match (expected.pools.get(pool), &expected.members, &expected.me)
        == (read.pools.get(pool), &read.members, &read.me)
    {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{} changes more of this pool or of its members than the path of that disk",
            path.display()
        ))
        .advise(
            "change one thing at a time: the pool's server reads other changes when it starts",
        )),
    }
}

/// The leg with the name `new`, which joins the group of `existing`. `path`: of the configuration.
///
/// # Errors
///
/// There is no such leg in that group, or the group cannot have another leg.
pub fn joining(
    (file, path): (&LegsFile, &Path),
    pool: &Pool,
    existing: DiskId,
    new: &str,
) -> Result<DiskId, Failure> {
    let has = |group: &&Group, disk: DiskId| group.legs.iter().any(|leg| leg.disk == disk.0);
    let mut groups = pool.groups.iter();
    let group = groups.find(|group| has(group, existing));
    let legs = group.into_iter().flat_map(|group| &group.legs);
    let mut disks = legs.map(|leg| DiskId(leg.disk));
    let known = file.disk_name(existing);
    let Some(disk) = disks.find(|disk| file.disk_name(*disk) == new) else {
        let message = format!(
            "the configuration that the pool's server has read names no leg {new} in the group of {known}"
        );
        return Err(Failure::not_found(message).advise(format!(
            "write it into {} of each head, restart the leg-servers, restart the pool's server (or move the pool), and repeat the command",
            path.display()
        )));
    };
    match group.is_some_and(|group| group.needed == 1) {
        true => Ok(disk),
        false => Err(Failure::usage(format!(
            "{known} is a leg of a raidz, which cannot be extended"
        ))),
    }
}

/// Checks that `existing` is a leg of the pool.
///
/// # Errors
///
/// They are in the wrong order, the same, or neither is one.
pub fn are_in_order(
    file: &LegsFile,
    pool: &PoolName,
    shown: &PublishedState,
    existing: DiskId,
    new: DiskId,
) -> Result<(), Failure> {
    let (known, joining) = (file.disk_name(existing), file.disk_name(new));
    if existing == new {
        return Err(Failure::usage(format!("{known} is named twice"))
            .advise("name a leg that the pool has, and then the one that joins it"));
    }
    match (is_named(shown, existing), is_named(shown, new)) {
        (true, _) => Ok(()),
        (false, true) => Err(Failure::usage(format!(
            "nothing was changed: {known} is no part of the pool yet, and {joining} is"
        ))
        .advise(format!(
            "name the leg first that the pool has: `bulkhead pool attach {pool} {joining} {known}`"
        ))),
        (false, false) => Err(Failure::usage(format!(
            "nothing was changed: neither {known} nor {joining} is a part of the pool"
        ))
        .advise("name a leg of that group first that the pool has: `bulkhead pool status` shows which are current")),
    }
}

/// Whether the record names the leg.
pub fn is_named(shown: &PublishedState, disk: DiskId) -> bool {
    let record = shown.record.as_ref();
    record.is_some_and(|record| record.names(disk))
}

/// Whether the pool can be read without that leg.
pub fn is_spare(config: &Config, shown: &PublishedState, disk: DiskId) -> bool {
    let record = shown.record.as_ref();
    record.is_some_and(|record| {
        let mut left = record.current_disks();
        left.remove(&disk);
        config.is_readable_by(record, &left)
    })
}

/// Whether the record has the data on the leg as given up.
pub fn is_given_up(shown: &PublishedState, disk: DiskId) -> bool {
    let stale = shown.record.as_ref().and_then(|one| one.stale.get(&disk));
    stale.is_some_and(|stale| stale.since == 0)
}

/// Whether the leg is not written to, by the record and by the present state.
pub fn is_idle(shown: &PublishedState, disk: DiskId) -> bool {
    let record = shown.record.as_ref();
    let is_current = record.is_none_or(|record| record.current.contains_key(&disk));
    !is_current && !shown.copying.contains(&disk) && !shown.awaited.contains(&disk)
}

/// The members did not agree in time that the data on a leg is given up.
pub fn unrecorded(leg: &str) -> Failure {
    Failure::new(
        FailureKind::Unavailable,
        format!(
            "it is not on record yet that the data on leg {leg} is given up: too few members respond"
        ),
    )
    .advise(
        "start the members that `bulkhead pool status` names as silent: it is put on record then",
    )
}

/// Configured legs that groups of the pool do not have yet.
fn unattached(file: &LegsFile, pool: &PoolName, shown: &PublishedState) -> Vec<Advice> {
    let groups = file.pools.get(pool).into_iter();
    let groups = groups.flat_map(|pool| &pool.groups);
    let groups = groups.filter(|group| has_joined(group, shown));
    let of_group = |group: &Group| {
        let disks = group.legs.iter().map(|leg| DiskId(leg.disk));
        let (had, new): (Vec<_>, Vec<_>) = disks.partition(|disk| is_named(shown, *disk));
        let had = had.first().copied();
        let pairs = new.into_iter().filter_map(|new| Some((had?, new)));
        pairs.collect::<Vec<_>>()
    };
    let reported = |(had, new): (DiskId, DiskId)| {
        let (had, new) = (file.disk_name(had), file.disk_name(new));
        let why = format!("{new} is configured as a leg, and is no part of the pool yet");
        let what = "attach it: all data is copied to it then, and it counts when that is complete";
        Advice::new(Severity::Warning, what, why)
            .by(format!("bulkhead pool attach {pool} {had} {new}"))
    };
    groups.flat_map(of_group).map(reported).collect()
}

/// Whether a leg of the group is current on record: then the group is part of the pool.
fn has_joined(group: &Group, shown: &PublishedState) -> bool {
    let record = shown.record.as_ref();
    let mut legs = group.legs.iter();
    legs.any(|leg| record.is_some_and(|record| record.current.contains_key(&DiskId(leg.disk))))
}

/// Configured groups that are no part of the pool yet.
fn unjoined(file: &LegsFile, pool: &PoolName, shown: &PublishedState) -> Vec<Advice> {
    let groups = file
        .pools
        .get(pool)
        .into_iter()
        .flat_map(|pool| &pool.groups);
    let unjoined = groups.filter(|group| shown.record.is_some() && !has_joined(group, shown));
    let reported = |group: &Group| {
        let legs = names_of(file, group);
        let why = format!("the group of {legs} is configured, and is no part of the pool yet");
        let what = "add it: the pool uses it as soon as all of its legs are current";
        Advice::new(Severity::Warning, what, why).by(command_to_add(file, pool, group))
    };
    unjoined.map(reported).collect()
}

/// The command that adds a group.
fn command_to_add(file: &LegsFile, pool: &PoolName, group: &Group) -> String {
    format!(
        "bulkhead pool add {pool} {}",
        file.words_to_add(group).join(" ")
    )
}

/// The names of the legs of a group.
fn names_of(file: &LegsFile, group: &Group) -> String {
    let legs = group.legs.iter();
    let legs: Vec<String> = legs.map(|leg| file.disk_name(DiskId(leg.disk))).collect();
    legs.join(" ")
}

/// Groups that are current on record, and that the library does not have: their addition was interrupted. `is_part`:
/// whether the library has a disk.
pub fn unfinished_additions(
    file: &LegsFile,
    pool: &PoolName,
    shown: &PublishedState,
    is_part: impl Fn(DiskId) -> bool,
) -> Vec<Advice> {
    let groups = file.pools.get(pool).into_iter();
    let groups = groups.flat_map(|pool| &pool.groups);
    let is_unfinished = |group: &&Group| {
        let mut legs = group.legs.iter();
        has_joined(group, shown) && !legs.any(|leg| is_part(DiskId(leg.disk)))
    };
    let reported = |group: &Group| {
        let legs = names_of(file, group);
        let why = format!(
            "the group of {legs} is current on record, and is no part of the pool yet: its addition was interrupted"
        );
        let what = "check its disks and their heads: the server adds the group when all of its legs are current. The command retries it now";
        Advice::new(Severity::Warning, what, why).by(command_to_add(file, pool, group))
    };
    groups.filter(is_unfinished).map(reported).collect()
}

/// Advice on the legs and the members. `path`: of the configuration.
pub fn advice(
    (file, path): (&LegsFile, &Path),
    pool: &PoolName,
    shown: &PublishedState,
) -> Vec<Advice> {
    let mut advice = Vec::new();
    let name = |disk: &DiskId| file.disk_name(*disk);
    if let Stage::Failed(why) = &shown.stage {
        let why =
            format!("nothing is put on record any more, so writes wait once a leg fails: {why}");
        advice.push(Advice::new(
            Severity::Error,
            "start the pool's server again",
            why,
        ));
    }
    if let Some(disk) = &shown.last {
        let why = format!(
            "writes wait: {} failed, and no other leg is current",
            name(disk)
        );
        advice.push(Advice::new(
            Severity::Error,
            "repair that leg or its head",
            why,
        ));
    }
    let lost = lost_heads(file, pool, shown);
    let awaited = shown.awaited.iter();
    let awaited: Vec<String> = awaited
        .filter(|disk| shown.last != Some(**disk))
        .map(name)
        .collect();
    if !awaited.is_empty() {
        let why = format!(
            "writes wait until it is on record that {} failed",
            awaited.join(", ")
        );
        let what = "start the leg-servers of the members that do not respond, or the witness";
        advice.push(Advice::new(Severity::Error, what, why));
    }
    let record = shown.record.as_ref();
    advice.extend(lost.iter().map(|head| head.advice(file, pool, shown)));
    advice.extend(of_stale((file, path), pool, shown, &lost));
    for disk in record.iter().flat_map(|record| &record.divergent) {
        let why = format!(
            "leg {} has a history that is not this pool's, and is left alone",
            name(disk)
        );
        let leg = name(disk);
        let head = leg.split(':').next().unwrap_or_default();
        let what = format!(
            "find out where it was written, and look at it (`bulkhead pool inspect-legs {pool} {head}`): it may hold writes that \
             exist nowhere else. Only when none of them is needed, give it up: the pool is copied to it in full"
        );
        let give_up = format!("bulkhead pool discard-leg {pool} {leg} --overwrite-with {pool}");
        advice.push(Advice::new(Severity::Error, what, why).by(give_up));
    }
    for head in &shown.differing {
        let why = format!(
            "the leg-server of {} has read a legs.toml that differs for this pool",
            file.name(*head)
        );
        let what = format!(
            "write the same {} on each head, but for `me` and the key, and restart the leg-servers. A witness that is new there is added by \
             `bulkhead pool set-witness {pool} WITNESS`, and one that is missing there is removed by `bulkhead pool set-witness {pool} --none`. A third \
             head is added by `bulkhead pool add-head {pool} HEAD`",
            path.display()
        );
        advice.push(Advice::new(Severity::Error, what, why));
    }
    let is_told = |member: &MemberId| lost.iter().any(|head| head.member == *member);
    for (member, why) in shown
        .unresponsive
        .iter()
        .filter(|(member, _)| !is_told(member))
    {
        let what = of_unresponsive((file, path), pool, *member, why);
        let why = format!("member {} does not answer: {why}", file.name(*member));
        let unresponsive = Advice::new(Severity::Warning, what, why);
        let is_head = file.member(*member).map(|one| one.kind) == Some(Kind::Head);
        advice.push(match is_head {
            true => unresponsive.caused_by(file.name(*member)),
            false => unresponsive.about(file.name(*member)),
        });
    }
    let survives = file.pools.get(pool);
    let survives = survives.and_then(|configured| view::survives(file, configured, shown));
    let risk = survives.and_then(|survives| survives.risk(pool.as_str()));
    for advice in &mut advice {
        advice.risk.clone_from(&risk);
    }
    advice.extend(of_members((file, path), pool, shown));
    advice.extend(unattached(file, pool, shown));
    advice.extend(unjoined(file, pool, shown));
    advice
}

/// Whether a member has another configuration, or another certificate than in that of this server.
pub fn has_other_configuration(shown: &PublishedState) -> bool {
    let mut reasons = shown.unresponsive.values();
    !shown.differing.is_empty() || reasons.any(|why| matches!(why, Unresponsive::Stranger(_)))
}

/// Whether the file that was `read` now has other addresses or fingerprints of the same members, and the same legs.
pub fn is_outdated(file: &LegsFile, read: &LegsFile, pool: &PoolName) -> bool {
    let is_same_set =
        read.membership() == file.membership() && read.pools.get(pool) == file.pools.get(pool);
    is_same_set && read.members != file.members
}

/// The same as [`advice`], if [`is_outdated`]: the consequences of the old configuration are left out.
pub fn advice_if_outdated(
    (file, path): (&LegsFile, &Path),
    pool: &PoolName,
    shown: &PublishedState,
) -> Vec<Advice> {
    let mut rest = shown.clone();
    rest.differing.clear();
    rest.unresponsive
        .retain(|_, why| !matches!(why, Unresponsive::Stranger(_)));
    let why = format!(
        "the pool's server has read an older {}: since then the address or fingerprint of a member has changed there",
        path.display()
    );
    let what = format!(
        "restart the pool's server at a quiet time: in a cluster `crm_resource --restart --resource pool-{pool}`"
    );
    let mut all = vec![Advice::new(Severity::Error, what, why)];
    all.extend(advice((file, path), pool, &rest));
    all
}

/// Advice on a member that does not respond.
fn of_unresponsive(
    (file, path): (&LegsFile, &Path),
    pool: &PoolName,
    member: MemberId,
    why: &Unresponsive,
) -> String {
    let path = path.display();
    let is_witness = file.member(member).map(|member| member.kind) == Some(Kind::Witness);
    let (unit, readmit) = match is_witness {
        true => ("bulkhead-witness", "bulkhead-witness readmit"),
        false => ("bulkhead-leg-server", "bulkhead leg-server readmit"),
    };
    let number = file.pools.get(pool).map_or(0, |pool| pool.guid);
    match why {
        Unresponsive::Lost(_) => format!("start {unit} there, and see to the network"),
        Unresponsive::Stranger(_) if is_witness => format!(
            "compare addresses, numbers and fingerprints: that of the witness (`bulkhead-witness identity` there) must be in {path} of each head, and that of each \
             head (`bulkhead leg-server fingerprint`) in the options of the witness"
        ),
        Unresponsive::Stranger(_) => format!(
            "compare addresses, numbers and fingerprints: that of each head (`bulkhead leg-server fingerprint` there) must be in {path} of each other head"
        ),
        Unresponsive::Unnamed => format!("write it into {path} of each head again"),
        Unresponsive::Silent(Silence::NotStored) => {
            "free space on its disk, or repair it: it recovers automatically".to_owned()
        }
        Unresponsive::Silent(Silence::Missing | Silence::Damaged) => {
            format!("check its disk, then run there: `{readmit} {number} --forget`")
        }
        Unresponsive::Silent(Silence::Unknown) => format!(
            "wait, if it was added just now. If it stored the pool before, check that its directory is mounted, and is the right one. Only when that \
             one is gone for good, run there: `{readmit} {number} --forget --replaced`"
        ),
        Unresponsive::Silent(Silence::Lost) => "check that all other members respond".to_owned(),
        Unresponsive::Silent(Silence::Members) => {
            "install the same release of bulkhead on all members".to_owned()
        }
    }
}

/// Advice if the record and the configuration name different members, or a witness is being removed.
fn of_members(
    (file, path): (&LegsFile, &Path),
    pool: &PoolName,
    shown: &PublishedState,
) -> Option<Advice> {
    let path = path.display();
    let current_members = view::current_members(file, shown);
    let reported = |what: &str, why| Advice::new(Severity::Warning, what, why);
    let is_named = |record: &Record| record.members.is_some();
    // Three heads cannot change.
    let has_two_heads = current_members.heads().len() == 2;
    if has_two_heads && !shown.record.as_ref().is_none_or(is_named) {
        let why = format!(
            "the record does not name its members, so those in {path} count: a change there now could let both heads open the pool"
        );
        return Some(reported(
            "change no members there. Check that all members respond and have this release of bulkhead: the record names them then, at the next \
             start of the pool's server at the latest",
            why,
        ));
    }
    if let Some(name) = view::not_on_record(file, shown).first() {
        let why = format!("{path} names {name}, and the record does not: it has no vote");
        let is_head = file.members.get(name).map(|one| one.kind) == Some(Kind::Head);
        let verb = if is_head { "add-head" } else { "set-witness" };
        let word = format!("bulkhead pool {verb} {pool} {name}");
        return Some(reported("add it, or remove it from the file of each head", why).by(word));
    }
    let witness = current_members.witness()?;
    let word = format!("bulkhead pool set-witness {pool} --none");
    if let Membership::WitnessLeaves { .. } = current_members {
        let name = file.name(witness);
        let why = format!(
            "{name} is to be no witness any more, and the other head has not agreed yet: writes wait for both heads if a leg fails now"
        );
        return Some(reported(
            "check that both heads respond: it continues automatically",
            why,
        ));
    }
    let is_named = file.member(witness).is_some();
    (!is_named).then(|| {
        let why = format!(
            "the record names the witness {}, and {path} does not, so it gets no requests",
            witness.0
        );
        reported(
            "write it into the file of each head again, or remove it",
            why,
        )
        .by(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multi_head::tests::two_heads;
    use leg_record::{Ballot, MissingData};
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::{Duration, SystemTime};

    const MISSING_DATA: MissingData = MissingData {
        since: 30,
        newest: 30,
    };

    fn tank() -> PoolName {
        "tank".parse().expect("a name")
    }

    /// A head has a new key, and the file on disk its fingerprint: the restart is the only advice about it.
    #[test]
    fn changed_fingerprint_in_the_file_advises_a_restart_of_the_server() {
        let file = two_heads();
        let record = Record::new(123, Ballot::default(), [DiskId(11), DiskId(22)]);
        let mut shown = shown(record);
        assert!(!has_other_configuration(&shown));
        let stranger = Unresponsive::Stranger("another certificate".to_owned());
        shown.unresponsive.insert(MemberId(2), stranger);
        shown.differing.insert(MemberId(2));
        assert!(has_other_configuration(&shown));

        let mut read = file.clone();
        assert!(!is_outdated(&file, &read, &tank()), "nothing has changed");
        let own = read.members[&file.me].fingerprint;
        for member in read.members.values_mut() {
            member.fingerprint = own;
        }
        assert!(is_outdated(&file, &read, &tank()));
        let mut fewer = read.clone();
        fewer.members.retain(|name, _| *name == file.me);
        assert!(
            !is_outdated(&file, &fewer, &tank()),
            "another set of members"
        );

        let all = advice_if_outdated((&file, Path::new("/legs")), &tank(), &shown);
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert!(all[0].contains("crm_resource --restart --resource pool-tank"));
        let rest = all[1..].join(" ");
        assert!(
            !rest.contains("differs") && !rest.contains("certificate"),
            "{rest}"
        );
    }

    #[test]
    fn stale_leg_and_silent_member_are_reported_by_name() {
        let file = two_heads();
        let mut record = Record::new(123, Ballot::default(), [DiskId(11), DiskId(22)]);
        record.drop_disk(DiskId(22), MISSING_DATA);
        let mut shown = shown(record);
        shown.unresponsive.insert(
            MemberId(2),
            Unresponsive::Lost("connection refused".to_owned()),
        );
        let reported: Vec<String> = advice((&file, Path::new("/legs")), &tank(), &shown)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(reported.len(), 1, "{reported:?}");
        for part in [
            "member b does not answer, and its leg of pool tank is missing",
            "run `systemctl start bulkhead-leg-server` on b",
            "at risk: one copy only: if one more disk or a fails, tank is down",
        ] {
            assert!(reported[0].contains(part), "{part}: {reported:?}");
        }
        let details = &advice((&file, Path::new("/legs")), &tank(), &shown)[0].details;
        assert_eq!(details[0], "b: connection refused");
        for (why, what) in [
            (
                Unresponsive::Stranger("who".to_owned()),
                "compare addresses",
            ),
            (Unresponsive::Unnamed, "write it into /legs"),
            (Unresponsive::Silent(Silence::NotStored), "free space"),
            (
                Unresponsive::Silent(Silence::Missing),
                "leg-server readmit 123 --forget`",
            ),
            (
                Unresponsive::Silent(Silence::Unknown),
                "readmit 123 --forget --replaced`",
            ),
            (Unresponsive::Silent(Silence::Lost), "all other members"),
        ] {
            shown.unresponsive.insert(MemberId(2), why);
            let reported = advice((&file, Path::new("/legs")), &tank(), &shown);
            assert!(
                reported[1].to_string().contains(what),
                "{what}: {}",
                reported[1]
            );
        }
    }

    /// All consequences of a lost head are details of one cause.
    #[test]
    fn lost_head_is_one_advice_with_its_legs_as_details() {
        let mut file = two_heads();
        let pool = file.pools.get_mut(&tank()).expect("a pool");
        let legs = &mut pool.groups[0].legs;
        let more = (33..36).map(|disk| legs_config::Leg {
            disk,
            head: "b".to_owned(),
            path: format!("/y{disk}").into(),
        });
        legs.extend(more);
        let disks = [11, 22, 33, 34, 35].map(DiskId);
        let mut record = Record::new(123, Ballot::default(), disks);
        for disk in [22, 33, 34] {
            record.drop_disk(DiskId(disk), MISSING_DATA);
        }
        let mut shown = shown(record);
        shown.awaited.insert(DiskId(35));
        let refused = Unresponsive::Lost("connection refused".to_owned());
        shown.unresponsive.insert(MemberId(2), refused);
        // It failed to be resilvered because the head is gone.
        let trouble = "it does not respond".to_owned();
        shown.troubles.insert(DiskId(33), trouble);
        let reported = || advice((&file, Path::new("/legs")), &tank(), &shown);
        let found = reported();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].why.contains("writes wait"), "{found:?}");
        assert_eq!(found[1].head.as_deref(), Some("b"));
        assert!(found[1].why.contains("its 4 legs of pool tank are missing"));
        assert_eq!(found[1].details.len(), 5, "{found:?}");
        // The head is back: its legs are one advice until they are resilvered, but for the one with a trouble.
        shown.unresponsive.clear();
        shown.awaited.clear();
        let found = advice((&file, Path::new("/legs")), &tank(), &shown);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0]
                .why
                .contains("b:/y33 is missing all writes, and cannot")
        );
        assert!(
            found[1]
                .why
                .contains("legs b:/y, b:/y34 are missing all writes")
        );
    }

    /// The heads see each other in the cluster, and both cables between their leg-servers are cut.
    #[test]
    fn cut_cables_between_leg_servers_are_advice_about_the_network_with_addresses() {
        let file = two_heads();
        let mut record = Record::new(123, Ballot::default(), [DiskId(11), DiskId(22)]);
        record.drop_disk(DiskId(22), MISSING_DATA);
        let mut shown = shown(record);
        let addresses = |name: &str| file.members[name].members[0].ip().to_string();
        let first = |shown: &PublishedState| {
            let found = advice((&file, Path::new("/legs")), &tank(), shown);
            assert_eq!(found.len(), 1, "{found:?}");
            found.into_iter().next().expect("advice")
        };
        let about_network = |found: &Advice| {
            for part in [
                "the networks between the leg-servers".to_owned(),
                addresses("a"),
                addresses("b"),
            ] {
                assert!(found.what.contains(&part), "{part}: {found}");
            }
        };
        // Neither its member nor its lender is reached.
        let timed_out = Unresponsive::Lost("connection timed out".to_owned());
        shown.unresponsive.insert(MemberId(2), timed_out);
        about_network(&first(&shown));
        // The host is on, and no leg-server runs there.
        let refused = Unresponsive::Lost("connection refused".to_owned());
        shown.unresponsive.insert(MemberId(2), refused);
        let found = first(&shown);
        assert!(found.what.contains("start bulkhead-leg-server"), "{found}");
        assert!(!found.what.contains("cables"), "{found}");
        // Only the network of the lender is cut.
        shown.unresponsive.clear();
        about_network(&first(&shown));
        let trouble = "the lender is not reached: connection timed out".to_owned();
        shown.troubles.insert(DiskId(22), trouble);
        let found = first(&shown);
        about_network(&found);
        assert!(found.what.contains("Replace no disk"), "{found}");
        assert_eq!(found.head.as_deref(), Some("b"));
    }

    /// An open pool with that record, with its members named.
    fn shown(mut record: Record) -> PublishedState {
        let heads = [MemberId(1), MemberId(2)];
        record.members.get_or_insert(Membership::TwoHeads(heads));
        PublishedState {
            stage: Stage::Open,
            record: Some(record),
            awaited: BTreeSet::new(),
            copying: BTreeSet::new(),
            held: BTreeMap::new(),
            troubles: BTreeMap::new(),
            last: None,
            unresponsive: BTreeMap::new(),
            differing: BTreeSet::new(),
            changes_taken_back: 0,
        }
    }

    #[test]
    fn record_without_members_is_reported() {
        let file = two_heads();
        let mut shown = shown(Record::new(
            123,
            Ballot::default(),
            [DiskId(11), DiskId(22)],
        ));
        let reported = |shown: &PublishedState| advice((&file, Path::new("/legs")), &tank(), shown);
        assert_eq!(reported(&shown), []);
        let record = shown.record.as_mut().expect("a record");
        record.members = None;
        let said = reported(&shown);
        assert_eq!(said.len(), 1, "{said:?}");
        let said = said[0].to_string();
        assert!(
            said.contains("does not name its members, so those in /legs count"),
            "{said}"
        );
    }

    /// A blank disk, or one that is too small.
    #[test]
    fn unusable_resilver_target_is_reported_with_reason() {
        let file = two_heads();
        let mut record = Record::new(123, Ballot::default(), [DiskId(11), DiskId(22)]);
        record.drop_disk(DiskId(22), MISSING_DATA);
        let mut shown = shown(record);
        shown.troubles.insert(DiskId(22), "it is blank".to_owned());
        let reported = |shown: &PublishedState| {
            advice((&file, Path::new("/legs")), &tank(), shown)[0].to_string()
        };
        let said = reported(&shown);
        for part in ["it is blank", "`bulkhead pool replace tank b:/y b:PATH`"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        shown.copying.insert(DiskId(22));
        assert!(!reported(&shown).contains("it is blank"), "it is copied to");
    }

    #[test]
    fn backed_off_leg_reports_deadline_and_recovery_command() {
        let file = two_heads();
        let mut record = Record::new(123, Ballot::default(), [DiskId(11), DiskId(22)]);
        record.drop_disk(DiskId(22), MISSING_DATA);
        let mut shown = shown(record);
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(3600);
        shown.held.insert(DiskId(22), until);
        let reported = advice((&file, Path::new("/legs")), &tank(), &shown);
        assert_eq!(reported.len(), 1, "{reported:?}");
        let reported = reported[0].to_string();
        for part in [
            "before 1970-01-01T01:00:00Z",
            "bulkhead pool online tank b:/y",
        ] {
            assert!(reported.contains(part), "{part}: {reported}");
        }
        let judged = |disk, leg| judge(&LegRequest::Readmit, &shown, DiskId(disk), &tank(), leg);
        assert_eq!(judged(22, "b:/y"), Ok(Judged::ToDo));
        assert!(matches!(judged(11, "a:/x"), Ok(Judged::Done(_))));
    }

    #[test]
    fn unattached_leg_is_reported_with_attach_command() {
        let file = two_heads();
        let pool = file.pools.values().next().expect("a pool");
        let shown = shown(Record::new(123, Ballot::default(), [DiskId(11)]));
        let reported = advice((&file, Path::new("/legs")), &tank(), &shown);
        assert_eq!(reported.len(), 1, "{reported:?}");
        let reported = reported[0].to_string();
        assert!(
            reported.contains("b:/y is configured as a leg"),
            "{reported}"
        );
        let command = "bulkhead pool attach tank a:/x b:/y";
        assert!(reported.contains(command), "{reported}");
        let judged =
            |existing, new| are_in_order(&file, &tank(), &shown, DiskId(existing), DiskId(new));
        assert_eq!(judged(11, 22), Ok(()));
        let advised = judged(22, 11).expect_err("refused").advice;
        assert!(advised.is_some_and(|advice| advice.contains(command)));
        assert!(judged(11, 11).is_err() && judged(22, 22).is_err());
        let joins = |new| joining((&file, Path::new("/legs")), pool, DiskId(11), new);
        assert_eq!(joins("b:/y"), Ok(DiskId(22)));
        let advised = joins("b:/z").expect_err("there is none").advice;
        assert!(advised.is_some_and(|advice| advice.contains("into /legs of each head")));
    }

    /// The head that added the group was lost between the record of it and the change of the pool.
    #[test]
    fn group_on_record_that_is_no_part_of_the_pool_is_reported_with_command() {
        let mut file = two_heads();
        let pool = file.pools.get_mut(&tank()).expect("a pool");
        let mut group = pool.groups[0].clone();
        for (leg, disk) in group.legs.iter_mut().zip([33, 44]) {
            (leg.disk, leg.path) = (disk, format!("/new{disk}").into());
        }
        pool.groups.push(group);
        let shown_with = |disks: &[u64]| {
            let disks = disks.iter().map(|disk| DiskId(*disk));
            shown(Record::new(123, Ballot::default(), disks))
        };
        let reported = |disks: &[u64], part: &[u64]| {
            let is_part = |disk: DiskId| part.contains(&disk.0);
            let advice = unfinished_additions(&file, &tank(), &shown_with(disks), is_part);
            advice.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for current in [&[11, 22, 33, 44][..], &[11, 22, 44]] {
            let said = reported(current, &[11, 22]);
            assert_eq!(said.len(), 1, "{said:?}");
            let command = "bulkhead pool add tank mirror a:/new33 b:/new44";
            assert!(said[0].contains(command), "{said:?}");
        }
        assert!(reported(&[11, 22, 33, 44], &[11, 22, 33, 44]).is_empty());
        // The library has a leg that is away.
        assert!(reported(&[11, 22, 44], &[11, 22, 33, 44]).is_empty());
        assert!(
            reported(&[11, 22], &[11, 22]).is_empty(),
            "it has not joined"
        );
    }

    #[test]
    fn only_diverged_leg_is_discarded_and_only_by_name() {
        let file = two_heads();
        let pool = file.pools.values().next().expect("a pool");
        let mut record = Record::new(123, Ballot::default(), [DiskId(11), DiskId(22)]);
        record.diverge(DiskId(22));
        let shown = shown(record);
        let asked = |name: &str| {
            let place = |disk: DiskId| PathBuf::from(format!("/run/{}", disk.0));
            let disk = find(&file, pool, place, name).map_err(|one| one.kind)?;
            let judged = judge(&LegRequest::Discard, &shown, disk, &tank(), name);
            judged.map(|_| disk).map_err(|one| one.kind)
        };
        assert_eq!(asked("b:/y"), Ok(DiskId(22)));
        assert_eq!(asked("/run/22"), Ok(DiskId(22)));
        assert_eq!(asked("a:/x"), Err(FailureKind::Exists));
        assert_eq!(asked("/y"), Err(FailureKind::NotFound));
        let refused = judge(&LegRequest::Readmit, &shown, DiskId(22), &tank(), "b:/y");
        let refused = refused.expect_err("its writes would be lost");
        assert_eq!(refused.kind, FailureKind::NeedsConfirmation);
        let reported = advice((&file, Path::new("/legs")), &tank(), &shown)[0].to_string();
        assert!(
            reported.contains("pool discard-leg tank b:/y --overwrite-with tank"),
            "{reported}"
        );
    }
}
