//! The view of legs: the configuration, with the state in the record and of the members.

use std::time::SystemTime;

use control::legs::{LegMemberView, LegState, LegView, LegsView};
use leg_record::{DiskId, MemberId, Membership};
use legs::PublishedState;
use legs_config::{LegsFile, Pool};

/// The legs of `pool`. `device` returns the engine's name of a leg.
pub fn view(
    file: &LegsFile,
    pool: &Pool,
    shown: &PublishedState,
    device: impl Fn(DiskId) -> String,
) -> LegsView {
    let record = shown.record.as_ref();
    let groups = pool.groups.iter().enumerate();
    let legs = groups.flat_map(|(index, group)| group.legs.iter().map(move |leg| (index, leg)));
    let leg = |(group, leg): (usize, &legs_config::Leg)| {
        let disk = DiskId(leg.disk);
        let stale = record.and_then(|record| record.stale.get(&disk));
        LegView {
            name: file.disk_name(disk),
            head: leg.head.clone(),
            path: leg.path.to_string_lossy().into_owned(),
            disk: leg.disk,
            group,
            device: device(disk),
            state: state(shown, disk),
            lacks_since_group: stale.map(|stale| stale.since),
            tried_again_ms: shown.held.get(&disk).map(|until| ms(*until)),
            ..LegView::default()
        }
    };
    let current_members = current_members(file, shown);
    let members = current_members.members().into_iter().map(|number| {
        let why = shown.unresponsive.get(&number).map(ToString::to_string);
        LegMemberView {
            name: file.name(number),
            is_witness: current_members.witness() == Some(number),
            is_leaving: current_members.leaving() == Some(number),
            answers: why.is_none(),
            why,
        }
    });
    let mut members: Vec<LegMemberView> = members.collect();
    members.sort_by(|one, other| one.name.cmp(&other.name));
    LegsView {
        epoch: record.map_or(0, |record| record.ballot.epoch),
        writes_wait: do_writes_wait(shown),
        legs: legs.map(leg).collect(),
        members,
        not_on_record: not_on_record(file, shown),
    }
}

/// The members by the record, or by the configuration if the record names none.
pub fn current_members(file: &LegsFile, shown: &PublishedState) -> Membership {
    let record = shown.record.as_ref();
    let named = record.and_then(|record| record.members.clone());
    named.unwrap_or_else(|| file.membership())
}

/// Members in the configuration that are not in the record.
pub fn not_on_record(file: &LegsFile, shown: &PublishedState) -> Vec<String> {
    let current_members = current_members(file, shown).members();
    let members = file.members.iter();
    let others = members.filter(|(_, one)| !current_members.contains(&MemberId(one.number)));
    others.map(|(name, _)| name.clone()).collect()
}

fn ms(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Whether a leg failed and is not excluded on record yet, or no leg is current any more.
pub fn do_writes_wait(shown: &PublishedState) -> bool {
    shown.last.is_some() || !shown.awaited.is_empty()
}

/// Whether a leg of the record is not current.
pub fn is_leg_excluded(shown: &PublishedState) -> bool {
    let record = shown.record.as_ref();
    record.is_some_and(|record| !record.stale.is_empty() || !record.divergent.is_empty())
}

fn state(shown: &PublishedState, disk: DiskId) -> LegState {
    let record = shown.record.as_ref();
    let is = |holds: &dyn Fn(&leg_record::Record) -> bool| record.is_some_and(holds);
    if shown.awaited.contains(&disk) || shown.last == Some(disk) {
        LegState::Failing
    } else if is(&|record| record.divergent.contains(&disk)) {
        LegState::Divergent
    } else if is(&|record| record.current.contains_key(&disk)) {
        LegState::Current
    } else if shown.copying.contains(&disk) {
        LegState::Copying
    } else if shown.held.contains_key(&disk) {
        LegState::Faulted
    } else {
        LegState::Stale
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use leg_record::{Ballot, Record};
    use legs::{Stage, Unresponsive};

    use super::*;
    use crate::multi_head::tests::two_heads;

    #[test]
    fn view_has_state_of_each_leg_and_member() {
        let file = two_heads();
        let pool = file.pools.values().next().expect("a pool");
        let mut shown = PublishedState {
            stage: Stage::Open,
            record: Some(Record::new(
                123,
                Ballot { epoch: 4, nonce: 1 },
                [DiskId(11), DiskId(22)],
            )),
            awaited: BTreeSet::new(),
            copying: BTreeSet::new(),
            held: BTreeMap::new(),
            troubles: BTreeMap::new(),
            last: None,
            unresponsive: BTreeMap::from([(
                MemberId(2),
                Unresponsive::Lost("connection refused".to_owned()),
            )]),
            differing: BTreeSet::new(),
            changes_taken_back: 0,
        };
        let look =
            |shown: &PublishedState| view(&file, pool, shown, |disk| format!("/run/{}", disk.0));
        let heads = [MemberId(1), MemberId(2)];
        let witness = MemberId(3);
        let mut others = shown.clone();
        let record = others.record.as_mut().expect("a record");
        record.members = Some(Membership::TwoHeadsAndWitness { heads, witness });
        let members = look(&others).members;
        let names = members.iter().map(|one| (&*one.name, one.is_witness));
        let names: Vec<_> = names.collect();
        assert_eq!(names, [("a", false), ("b", false), ("member 3", true)]);
        assert!(!members[2].is_leaving);
        let record = others.record.as_mut().expect("a record");
        record.members = Some(Membership::WitnessLeaves { heads, witness });
        let leaving: Vec<bool> = look(&others)
            .members
            .iter()
            .map(|one| one.is_leaving)
            .collect();
        assert_eq!(leaving, [false, false, true]);
        let states = |shown: &PublishedState| -> Vec<&str> {
            look(shown)
                .legs
                .iter()
                .map(|leg| leg.state.word())
                .collect()
        };
        let seen = look(&shown);
        assert_eq!(seen.epoch, 4);
        let of = |leg: &LegView| (leg.name.clone(), leg.group, leg.device.clone());
        assert_eq!(of(&seen.legs[1]), ("b:/y".into(), 0, "/run/22".into()));
        let members: Vec<_> = seen
            .members
            .iter()
            .map(|one| (&*one.name, one.answers))
            .collect();
        assert_eq!(members, [("a", true), ("b", false)]);
        assert_eq!(states(&shown), ["current", "current"]);
        shown.awaited.insert(DiskId(22));
        assert_eq!(states(&shown), ["current", "failing"]);
        assert!(look(&shown).writes_wait);
        shown.awaited.clear();
        let record = shown.record.as_mut().expect("a record");
        let missing_data = leg_record::MissingData {
            since: 30,
            newest: 30,
        };
        record.drop_disk(DiskId(22), missing_data);
        assert_eq!(states(&shown), ["current", "stale"]);
        assert_eq!(look(&shown).legs[1].lacks_since_group, Some(30));
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(3600);
        shown.held.insert(DiskId(22), until);
        assert_eq!(states(&shown), ["current", "faulted"]);
        assert_eq!(look(&shown).legs[1].tried_again_ms, Some(3_600_000));
        shown.held.clear();
        shown.copying.insert(DiskId(22));
        assert_eq!(states(&shown), ["current", "copying"]);
        let record = shown.record.as_mut().expect("a record");
        record.diverge(DiskId(22));
        assert_eq!(states(&shown), ["current", "divergent"]);
    }
}
