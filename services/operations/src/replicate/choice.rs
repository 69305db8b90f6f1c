//! Selects the copies of a promotion. Two copies of one disk must never both become that disk: the older one is left
//! out. So is a copy of an original that no longer existed at the sender, unless it is named.

use std::collections::{BTreeMap, BTreeSet};

use control::calendar::utc;
use control::replication::PROMOTED_PROPERTY;
use control::{Failure, FailureKind};
use units::VolumeName;

use super::copies::{self, State};
use super::promote::{Replica, is_below};
use crate::Context;
use crate::documents::All;

/// Maximum number of copies in a message.
const NAMED_MAX: usize = 8;

/// The candidate copies, and the selected ones.
pub(super) struct Choice {
    /// These are.
    pub(super) chosen: Vec<Replica>,
    /// These are not, for a reason each.
    left_out: Vec<(VolumeName, String)>,
}

impl Choice {
    /// Describes the copies that are left out. Empty if there are none.
    pub(super) fn left_out(&self) -> String {
        if self.left_out.is_empty() {
            return String::new();
        }
        let named = self.left_out.iter().take(NAMED_MAX);
        let named: Vec<String> = named.map(|(name, why)| format!("{name} ({why})")).collect();
        let more = match self.left_out.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(
            "; left out, unless you promote them by name: {}{more}",
            named.join(", ")
        )
    }
}

/// Selects the copies in the pool that a promotion of `dataset` applies to.
pub(super) fn of(
    context: &Context<'_>,
    all: Vec<Replica>,
    documents: &All,
    dataset: &VolumeName,
) -> Result<Choice, Failure> {
    // An earlier promotion of the same dataset left their older copies out.
    let promoted: BTreeSet<&str> = documents.with_property(PROMOTED_PROPERTY).collect();
    let served = documents.volumes().filter(|facts| {
        facts.name.is_at_or_below(dataset) && promoted.contains(facts.name.as_str())
    });
    let served: BTreeMap<&str, &VolumeName> = served
        .filter_map(|facts| {
            Some((
                facts.identity.as_ref()?.as_ref().ok()?.naa.as_str(),
                &facts.name,
            ))
        })
        .collect();
    let mut states = BTreeMap::new();
    for replica in all.iter().filter(|replica| replica.identity().is_some()) {
        states.insert(
            replica.name.clone(),
            copies::newest(context, &replica.name)?,
        );
    }
    choose(all, &served, dataset, &|name| {
        states.get(name).copied().flatten()
    })
}

fn choose(
    all: Vec<Replica>,
    served: &BTreeMap<&str, &VolumeName>,
    dataset: &VolumeName,
    state: &dyn Fn(&VolumeName) -> Option<State>,
) -> Result<Choice, Failure> {
    let (meant, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|replica| is_below(replica.name.as_str(), dataset.as_str()));
    let mut chosen: Vec<Replica> = Vec::new();
    let mut left_out = Vec::new();
    for replica in meant {
        let identity = replica.identity();
        let served = identity.and_then(|identity| served.get(identity.naa.as_str()));
        match (replica.orphaned_unix_s(), served) {
            _ if replica.name == *dataset => chosen.push(replica),
            (_, Some(original)) => {
                let why = format!("an older copy of the same disk as {original}");
                left_out.push((replica.name, why));
            }
            (Some(since), None) => {
                let why = format!("not replicated since {}", utc(since));
                left_out.push((replica.name, why));
            }
            (None, None) => chosen.push(replica),
        }
    }
    let mut newest: BTreeMap<String, usize> = BTreeMap::new();
    let mut older = Vec::new();
    for (at, replica) in chosen.iter().enumerate() {
        let Some(identity) = replica.identity() else {
            continue;
        };
        let Some(before) = newest.insert(identity.naa, at) else {
            continue;
        };
        let twin = &chosen[before];
        match (state(&twin.name), state(&replica.name)) {
            (Some(a), Some(b)) if a < b => older.push((before, at)),
            (Some(a), Some(b)) if a > b => {
                older.push((at, before));
                newest.insert(replica.identity().expect("it has one").naa, before);
            }
            _ => return Err(same(&twin.name, &replica.name)),
        }
    }
    for (old, new) in &older {
        let why = format!("an older copy of the same disk as {}", chosen[*new].name);
        left_out.push((chosen[*old].name.clone(), why));
    }
    let is_older = |name: &VolumeName| left_out.iter().any(|(other, _)| other == name);
    chosen.retain(|replica| !is_older(&replica.name));
    refuse_outdated(&chosen, &others, state)?;
    Ok(Choice { chosen, left_out })
}

/// Two copies of one disk of which neither is known to be newer.
fn same(one: &VolumeName, other: &VolumeName) -> Failure {
    let message = format!(
        "{one} and {other} are copies of the same disk, and it is unclear which of them is newer"
    );
    Failure::new(FailureKind::Exists, message).advise(
        "promote the intended copy by its name, then destroy the other one and promote the rest",
    )
}

/// Refuses to promote a copy if there is a newer copy from another source.
fn refuse_outdated(
    chosen: &[Replica],
    others: &[Replica],
    state: &dyn Fn(&VolumeName) -> Option<State>,
) -> Result<(), Failure> {
    for replica in chosen {
        let Some(identity) = replica.identity() else {
            continue;
        };
        let own = state(&replica.name);
        // A copy that was received by hand has no timestamp; an administrator chooses it.
        let is_newer = |other: &VolumeName| state(other).zip(own).is_some_and(|(a, b)| a > b);
        let newer = others
            .iter()
            .find(|other| other.identity().as_ref() == Some(&identity) && is_newer(&other.name));
        if let Some(newer) = newer {
            let message = format!(
                "{} is an older copy of the same disk as {}",
                replica.name, newer.name
            );
            return Err(Failure::new(FailureKind::Exists, message).advise(format!(
                "promote {}; a clone of a snapshot of {} is a disk of its own",
                newer.name, replica.name
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::promote::fake::{name, replica};
    use super::*;

    /// Copies with the disks that they are of, in order of their names, and their moments.
    fn chosen(
        copies: &[(&str, u8, Option<u64>)],
        dataset: &str,
    ) -> Result<Vec<String>, FailureKind> {
        let all = copies
            .iter()
            .map(|(name, of, _)| replica(name, *of))
            .collect();
        let state = |name: &VolumeName| {
            let found = copies.iter().find(|(other, ..)| *other == name.as_str());
            found
                .and_then(|(_, _, number)| *number)
                .map(|number| State {
                    moment_unix_s: 7,
                    number,
                })
        };
        let choice = choose(all, &BTreeMap::new(), &name(dataset), &state)
            .map_err(|failure| failure.kind)?;
        let names = choice.chosen.iter().map(|one| one.name.to_string());
        Ok(names.collect())
    }

    #[test]
    fn newest_copy_is_promoted_in_any_order() {
        for moments in [
            [1, 2, 3],
            [3, 2, 1],
            [2, 3, 1],
            [1, 3, 2],
            [3, 1, 2],
            [2, 1, 3],
        ] {
            let names = ["v/z/a", "v/z/b", "v/z/c"];
            let copies: Vec<_> = names
                .iter()
                .zip(moments)
                .map(|(n, m)| (*n, 1, Some(m)))
                .collect();
            let newest = moments.iter().position(|moment| *moment == 3).expect("one");
            assert_eq!(chosen(&copies, "v/z").expect("chosen"), [names[newest]]);
            let other = names[(newest + 1) % 3];
            assert_eq!(chosen(&copies, other), Err(FailureKind::Exists));
        }
    }

    #[test]
    fn indistinguishable_copies_are_refused() {
        for moments in [(Some(1), Some(1)), (None, Some(1)), (None, None)] {
            let copies = [
                ("v/z/a", 1, moments.0),
                ("v/z/b", 1, moments.1),
                ("v/z/c", 2, None),
            ];
            assert_eq!(chosen(&copies, "v/z"), Err(FailureKind::Exists));
        }
        let copies = [("v/z/a", 1, None), ("v/z/b", 1, Some(5))];
        assert_eq!(chosen(&copies, "v/z/a").expect("chosen"), ["v/z/a"]);
        let copies = [("v/z/a", 1, None), ("v/z/b", 2, None)];
        assert_eq!(chosen(&copies, "v/z").expect("chosen").len(), 2);
    }
}
