//! The view of legs: the configuration, with the state in the record and of the members.

use std::time::SystemTime;

use control::legs::{LegMemberView, LegState, LegView, LegsView, Survives};
use leg_record::{DiskId, MemberId, Membership};
use legs::PublishedState;
use legs_config::{Group, LegsFile, Pool};

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
        survives: survives(file, pool, shown),
    }
}

/// Members that must respond if there are three.
const QUORUM: usize = 2;

/// The failures that the pool survives with its current legs, and with the members that respond. A leg that has failed is
/// no copy, also before the record excludes it. Of two heads without a third member, one continues by the fence of the
/// other.
pub fn survives(file: &LegsFile, pool: &Pool, shown: &PublishedState) -> Option<Survives> {
    let record = shown.record.as_ref()?;
    // A group without a current leg has not joined the pool, also if its legs are on record.
    let has_joined = |group: &&Group| {
        let mut legs = group.legs.iter();
        legs.any(|leg| record.current.contains_key(&DiskId(leg.disk)))
    };
    let groups: Vec<&Group> = pool.groups.iter().filter(has_joined).collect();
    // The least number of current legs beyond the needed ones in a group, without those of a head.
    let spare = |head: Option<&str>| {
        let of_group = |group: &&Group| {
            let legs = group.legs.iter().filter(|leg| Some(&*leg.head) != head);
            let current = legs.filter(|leg| {
                let disk = DiskId(leg.disk);
                record.current.contains_key(&disk) && !has_failed(shown, disk)
            });
            current.count().checked_sub(group.needed)
        };
        let groups: Option<Vec<usize>> = groups.iter().map(of_group).collect();
        groups.and_then(|spare| spare.into_iter().min())
    };
    let current_members = current_members(file, shown);
    let members = current_members.members();
    let is_quorum_without = |head: MemberId| {
        let mut left = members.iter().filter(|one| **one != head).copied();
        match members.len() {
            0 | 1 => false,
            2 => true,
            _ => {
                left.by_ref()
                    .filter(|one| !shown.unresponsive.contains_key(one))
                    .count()
                    >= QUORUM
            }
        }
    };
    let mut found = Survives {
        disks: spare(None).unwrap_or_default(),
        ..Survives::default()
    };
    let mut least = None;
    for head in current_members.heads() {
        let name = file.name(*head);
        match spare(Some(&name)).filter(|_| is_quorum_without(*head)) {
            Some(left) => {
                least = Some(least.map_or(left, |least: usize| least.min(left)));
                found.heads.push(name);
            }
            None => found.not_heads.push(name),
        }
    }
    found.disks_without_head = least.unwrap_or_default();
    Some(found)
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

/// Whether the leg has failed, and the record still calls it current.
fn has_failed(shown: &PublishedState, disk: DiskId) -> bool {
    shown.awaited.contains(&disk) || shown.last == Some(disk)
}

fn state(shown: &PublishedState, disk: DiskId) -> LegState {
    let record = shown.record.as_ref();
    let is = |holds: &dyn Fn(&leg_record::Record) -> bool| record.is_some_and(holds);
    if has_failed(shown, disk) {
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
    use legs_config::Role;

    use super::*;
    use crate::multi_head::tests::two_heads;

    /// Legs of two heads as letters, numbered from 1, and the failures that are survived while those disks are missing.
    fn survived(heads: &str, needed: usize, missing: &[u64], silent: &[u64]) -> String {
        let mut file = two_heads();
        let leg = |(index, head): (usize, char)| legs_config::Leg {
            disk: index as u64 + 1,
            head: head.to_string(),
            path: format!("/dev/{index}").into(),
        };
        let legs: Vec<_> = heads.chars().enumerate().map(leg).collect();
        // `pool add` was interrupted: the record has the legs of a group without data, and the pool is without it.
        let joining = vec![leg((90, 'a')), leg((91, 'b'))];
        let all = legs.iter().chain(&joining);
        let all = all.map(|leg| DiskId(leg.disk));
        let mut record = Record::new(123, Ballot::default(), all);
        let missing_data = leg_record::MissingData {
            since: 30,
            newest: 30,
        };
        let joining_disks = joining.iter().map(|leg| &leg.disk);
        for disk in missing.iter().chain(joining_disks) {
            record.drop_disk(DiskId(*disk), missing_data);
        }
        let (heads, witness) = ([MemberId(1), MemberId(2)], MemberId(3));
        record.members = Some(Membership::TwoHeadsAndWitness { heads, witness });
        let pool = file.pools.values_mut().next().expect("a pool");
        let named = Group {
            needed: 1,
            role: Role::Data,
            legs: vec![leg((95, 'a')), leg((96, 'b'))],
        };
        let joining = Group {
            legs: joining,
            ..named.clone()
        };
        let group = Group {
            needed,
            role: Role::Data,
            legs,
        };
        pool.groups = vec![group, joining, named];
        let pool = pool.clone();
        let gone = || Unresponsive::Lost("connection refused".to_owned());
        let shown = PublishedState {
            unresponsive: silent.iter().map(|one| (MemberId(*one), gone())).collect(),
            ..shown_of(record)
        };
        let found = survives(&file, &pool, &shown).expect("a record");
        format!(
            "{} {:?} {:?} {}",
            found.disks, found.heads, found.not_heads, found.disks_without_head
        )
    }

    #[test]
    fn the_failures_that_are_survived_follow_the_current_legs_and_the_members() {
        let all = r#"["a", "b"] []"#;
        assert_eq!(survived("ab", 1, &[], &[]), format!("1 {all} 0"));
        assert_eq!(survived("aabb", 1, &[], &[]), format!("3 {all} 1"));
        assert_eq!(survived("aabb", 2, &[], &[]), format!("2 {all} 0"));
        // Head b is down.
        assert_eq!(survived("aabb", 1, &[3, 4], &[2]), r#"1 ["b"] ["a"] 1"#);
        assert_eq!(survived("aabb", 1, &[1], &[]), format!("2 {all} 0"));
        // The witness is down: a head alone has no quorum.
        assert_eq!(survived("aabb", 1, &[], &[3]), r#"3 [] ["a", "b"] 0"#);
    }

    /// A leg of `aabb` fails, and the members have not excluded it yet.
    #[test]
    fn failing_leg_is_no_copy() {
        let file = two_heads();
        let pool = file.pools.values().next().expect("a pool");
        let mut record = Record::new(123, Ballot::default(), [DiskId(11), DiskId(22)]);
        let heads = [MemberId(1), MemberId(2)];
        record.members = Some(Membership::TwoHeads(heads));
        let mut shown = shown_of(record);
        let survived = |shown: &PublishedState| survives(&file, pool, shown).expect("a record");
        let whole = survived(&shown);
        assert_eq!((whole.disks, whole.not_heads.len()), (1, 0));
        assert_eq!(whole.risk("tank"), None);
        for is_last in [false, true] {
            shown.awaited = BTreeSet::from_iter((!is_last).then_some(DiskId(22)));
            shown.last = is_last.then_some(DiskId(22));
            let left = survived(&shown);
            assert_eq!(left.disks, 0, "{is_last}");
            assert_eq!(
                (&*left.heads, &*left.not_heads),
                (&["b".to_owned()][..], &["a".to_owned()][..])
            );
            let risk = left.risk("tank");
            let wanted = "one copy only: if one more disk or a fails, tank is down";
            assert_eq!(risk.as_deref(), Some(wanted));
        }
    }

    fn shown_of(record: Record) -> PublishedState {
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
    fn view_has_state_of_each_leg_and_member() {
        let file = two_heads();
        let pool = file.pools.values().next().expect("a pool");
        let record = Record::new(123, Ballot { epoch: 4, nonce: 1 }, [DiskId(11), DiskId(22)]);
        let mut shown = PublishedState {
            unresponsive: BTreeMap::from([(
                MemberId(2),
                Unresponsive::Lost("connection refused".to_owned()),
            )]),
            ..shown_of(record)
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
