//! The originals that still exist at the sender. Each run lists its volumes, so that the receiver can tell a copy of a
//! renamed or destroyed original from one that is just older than the rest.

use control::Failure;
use control::calendar::utc;
use control::exports::PROPERTY_PREFIX;
use control::replication::{
    Fingerprint, ORPHANED_PROPERTY, OrphanedDocument, Peer, RULE_PROPERTY, ReplicationGlance,
    ReplicationTrouble, RuleDocument,
};
use units::VolumeName;

use super::promote::{self, Replica};
use super::receiver;
use super::wire::{FromReceiver, List, Listed, Offer};
use super::{health, now_unix_s};
use crate::Context;
use crate::documents::{Documents, Edits};
use crate::transfer::SOURCE_PREFIX;

/// Adds the rule that sends the volume to the properties from the sender. A sender cannot set the receiver's own
/// properties.
pub fn with_rule(
    said: &[(String, String)],
    peer: &Fingerprint,
    offer: &Offer,
    now: u64,
) -> Vec<(String, String)> {
    let is_ours = |name: &str| [RULE_PROPERTY, ORPHANED_PROPERTY].contains(&name);
    let mut kept: Vec<_> = said
        .iter()
        .filter(|(name, _)| !is_ours(name))
        .cloned()
        .collect();
    kept.extend(offer.from.as_ref().map(|from| {
        let rule = RuleDocument {
            version: 1,
            peer: peer.clone(),
            from: from.clone(),
            every_s: offer.every_s,
            arrived_unix_s: now,
        };
        let rule = serde_json::to_string(&rule).expect("a document is JSON");
        (RULE_PROPERTY.to_owned(), rule)
    }));
    kept
}

/// Returns the copies that should have had a newer snapshot by `now`. The sender or the network might be down, which
/// the sender cannot report.
pub fn late(context: &Context<'_>, now: u64) -> Result<Vec<ReplicationGlance>, Failure> {
    let replicas = promote::replicas(context, &context.root())?;
    let is_fed = |replica: &&Replica| replica.orphaned_unix_s().is_none();
    let fed = replicas.iter().filter(is_fed);
    Ok(fed.filter_map(|replica| late_one(replica, now)).collect())
}

fn late_one(replica: &Replica, now: u64) -> Option<ReplicationGlance> {
    let rule = replica.said::<RuleDocument>(RULE_PROPERTY)?;
    let every_s = rule.every_s?;
    let lag_s = now.checked_sub(rule.arrived_unix_s)?;
    if !health::is_late(every_s, lag_s) {
        return None;
    }
    let (name, from) = (&replica.name, &rule.from);
    Some(ReplicationGlance {
        dataset: name.clone(),
        to: format!("copy of {from}"),
        every_s: Some(every_s),
        lag_s: Some(lag_s),
        trouble: Some(ReplicationTrouble::Late),
        why: Some(format!(
            "nothing has arrived for {name} since {}: the sender replicates {from} every {every_s} s",
            utc(rule.arrived_unix_s)
        )),
    })
}

/// Marks the copies of a rule without a replicated original, and only those.
pub fn listed(
    context: &Context<'_>,
    peer: &Fingerprint,
    may: &[Peer],
    list: &List,
) -> Result<FromReceiver, Failure> {
    let _alone = context.hooks.alone();
    let replicas = promote::replicas(context, &context.root())?;
    let now = now_unix_s();
    let mut edits: Vec<(String, Edits)> = Vec::new();
    for replica in replicas.iter().filter(|replica| {
        is_of(replica, peer, &list.from) && receiver::allowed(may, &replica.name).is_ok()
    }) {
        let is_orphaned = is_orphaned(replica, &replicas, list);
        if is_orphaned != replica.orphaned_unix_s().is_some() {
            edits.push((replica.name.to_string(), vec![mark(is_orphaned, now)]));
        }
    }
    if !edits.is_empty() {
        context.edit_all(edits)?;
    }
    Ok(FromReceiver::Done { bytes: 0 })
}

fn is_of(replica: &Replica, peer: &Fingerprint, from: &VolumeName) -> bool {
    let rule = replica.said::<RuleDocument>(RULE_PROPERTY);
    rule.is_some_and(|rule| rule.peer == *peer && rule.from == *from)
}

/// Returns whether the sender has no volume of that name. After a rename there, the volume is the original until its
/// copy has arrived under the new name.
fn is_orphaned(replica: &Replica, replicas: &[Replica], list: &List) -> bool {
    if list.volumes.iter().any(|one| one.volume == replica.name) {
        return false;
    }
    let Some(identity) = replica.identity() else {
        return true;
    };
    let has_it = |one: &&Listed| one.identity.as_ref() == Some(&identity);
    let Some(renamed) = list.volumes.iter().find(has_it) else {
        return true;
    };
    replicas
        .iter()
        .any(|other| other.name == renamed.volume && other.identity().as_ref() == Some(&identity))
}

fn mark(is_orphaned: bool, now: u64) -> (String, Option<String>) {
    let document = OrphanedDocument {
        version: 1,
        orphaned_unix_s: now,
    };
    let name = ORPHANED_PROPERTY.replacen(PROPERTY_PREFIX, SOURCE_PREFIX, 1);
    let value = || serde_json::to_string(&document).expect("a document is JSON");
    (name, is_orphaned.then(value))
}

#[cfg(test)]
mod tests {
    use control::exports::Identity;

    use super::super::promote::fake::{name, replica};
    use super::*;

    #[test]
    fn old_copy_is_orphaned_once_the_renamed_one_arrived() {
        let list = List {
            from: name("tank/z"),
            volumes: vec![Listed {
                volume: name("vault/z/new"),
                identity: Some(Identity::from_entropy([1; 16])),
            }],
        };
        let old = replica("vault/z/old", 1);
        let gone = replica("vault/z/gone", 2);
        let new = replica("vault/z/new", 1);
        let other = replica("vault/z/new", 3);
        for (of, replicas, orphaned) in [
            (&old, vec![], false),
            (&old, vec![replica("vault/z/new", 3)], false),
            (&old, vec![replica("vault/z/new", 1)], true),
            (&gone, vec![], true),
            (&new, vec![replica("vault/z/old", 1)], false),
            (&other, vec![], false),
        ] {
            assert_eq!(is_orphaned(of, &replicas, &list), orphaned, "{}", of.name);
        }
    }

    /// The sender is gone, and cannot report that.
    #[test]
    fn copy_is_late_after_two_intervals_and_five_minutes() {
        let with = |every_s: Option<u64>| {
            let rule = RuleDocument {
                version: 1,
                peer: "a".repeat(64).try_into().expect("digits"),
                from: name("tank/z"),
                every_s,
                arrived_unix_s: 10_000,
            };
            let rule = serde_json::to_string(&rule).expect("a document");
            Replica::new(name("vault/z/a"), [(RULE_PROPERTY.to_owned(), rule)].into())
        };
        for (every_s, now, late) in [
            (Some(900), 10_000 + 2100, false),
            (Some(900), 10_000 + 2101, true),
            (Some(900), 9_000, false),
            (None, 1_000_000, false),
        ] {
            let glance = late_one(&with(every_s), now);
            assert_eq!(glance.is_some(), late, "{every_s:?} {now}");
        }
    }

    #[test]
    fn sender_cannot_set_its_rule_or_orphan_mark() {
        let peer: Fingerprint = "a".repeat(64).try_into().expect("digits");
        let said = [RULE_PROPERTY, ORPHANED_PROPERTY, "bulkhead:export"];
        let said = said.map(|name| (name.to_owned(), "x".to_owned()));
        let mut offer = Offer {
            volume: name("vault/z/a"),
            tag: "repl-1".to_owned(),
            properties: Vec::new(),
            keep: 1,
            resumes: false,
            from: None,
            every_s: Some(900),
        };
        let kept = with_rule(&said, &peer, &offer, 1000);
        assert_eq!(kept, [("bulkhead:export".to_owned(), "x".to_owned())]);
        offer.from = Some(name("tank/z"));
        let kept = with_rule(&said, &peer, &offer, 1000);
        assert!(
            kept.len() == 2 && kept[1].1.contains("\"from\":\"tank/z\""),
            "{kept:?}"
        );
    }
}
