//! Promotes copies after the loss of the original site: they get the identities and exports of the
//! originals, all in one transaction group, and refuse further streams from there.

use std::collections::{BTreeMap, BTreeSet};

use control::answer::Done;
use control::exports::{
    EXPORT_PROPERTY, IDENTITY_PROPERTY, Identity, PROPERTY_PREFIX, TargetDocument, VolumeDocument,
    VolumeFacts, target_property,
};
use control::replication::{
    ORPHANED_PROPERTY, OrphanedDocument, PROMOTED_PROPERTY, PromotedDocument, RESERVED_PROPERTY,
    ReservedDocument,
};
use control::{Answer, Failure, FailureKind};
use engine::dataset::Value;
use nfs::sharenfs::Share;
use serde::de::DeserializeOwned;
use units::{IscsiName, VolumeName};

use super::{SHARE_PROPERTY, choice, copies, now_unix_s, receiver};
use crate::documents::{self, All, Documents, Edits, Own};
use crate::needs;
use crate::transfer::SOURCE_PREFIX;
use crate::{Context, filesystem};

/// A replicated copy, and the properties of its original.
pub(super) struct Replica {
    pub(super) name: VolumeName,
    /// The original's own properties, with the names that they had there.
    original: Own,
}

impl Replica {
    /// Creates a replica from properties with the names that they have at the original.
    pub(super) fn new(name: VolumeName, original: Own) -> Self {
        Self { name, original }
    }

    /// A document about the copy, if it exists and is readable.
    pub(super) fn said<T: DeserializeOwned>(&self, property: &str) -> Option<T> {
        let text = self.original.get(property)?;
        serde_json::from_str(text).ok()
    }

    /// Returns the identity of the original towards its initiators.
    pub(super) fn identity(&self) -> Option<Identity> {
        let text = self.original.get(IDENTITY_PROPERTY)?;
        Identity::decode(IDENTITY_PROPERTY, text).ok()
    }

    /// The time since when the original is not replicated.
    pub(super) fn orphaned_unix_s(&self) -> Option<u64> {
        let document = self.said::<OrphanedDocument>(ORPHANED_PROPERTY);
        document.map(|document| document.orphaned_unix_s)
    }

    fn is_of_files(&self) -> bool {
        self.original.contains_key(SHARE_PROPERTY)
    }

    /// Returns how the original file system was shared. An invalid value from the sender has no
    /// effect.
    fn share(&self) -> Option<&String> {
        let share = self.original.get(SHARE_PROPERTY);
        share.filter(|text| matches!(Share::parse(text), Ok(Some(_))))
    }
}

/// The edits of a promotion, and the facts to report about it.
struct Plan {
    edits: Vec<(String, Edits)>,
    /// Where the copies will be found.
    exports: Vec<String>,
    /// Targets to create, with their access rules.
    targets: Vec<String>,
}

/// Promotes the copy, or all copies below the dataset.
pub fn perform(
    context: &Context<'_>,
    dataset: &VolumeName,
    original_is_lost: bool,
) -> Result<Answer, Failure> {
    let all = context.all()?;
    let choice = choice::of(context, replicas(context, &context.root())?, &all, dataset)?;
    let (left_out, replicas) = (choice.left_out(), choice.chosen);
    if replicas.is_empty() {
        return match all
            .with_property(PROMOTED_PROPERTY)
            .any(|name| is_below(name, dataset.as_str()))
        {
            true => Ok(Done::already(format!(
                "{dataset} was promoted already{left_out}"
            ))),
            false if !left_out.is_empty() => {
                let message = format!("nothing is promoted{left_out}");
                Err(Failure::new(FailureKind::NeedsConfirmation, message)
                    .advise("name one of them to promote it: its original was renamed or destroyed before the rest was lost"))
            }
            false => Err(Failure::not_found(format!(
                "neither {dataset} nor anything below it is a copy that replication made"
            ))),
        };
    }
    let plan = plan(&context.root(), &all, &replicas, now_unix_s())?;
    let age = age(context, &replicas)?;
    if !original_is_lost {
        return Err(unconfirmed(&replicas, &plan, &age, &left_out));
    }
    for replica in &replicas {
        discard_partial_receive(context, &replica.name)?;
    }
    let unreserved: Vec<String> = replicas
        .iter()
        .filter_map(|replica| reserve(context, replica).err())
        .collect();
    for replica in &replicas {
        share(context, replica)?;
    }
    context.edit_all(plan.edits)?;
    context.hooks.exports_changed()?;
    let mut text = told(dataset, replicas.len(), &plan.exports, &plan.targets, &age);
    text.push_str(&left_out);
    if !unreserved.is_empty() {
        let commands = unreserved.join("; ");
        text.push_str(&format!(
            "; without the reservations of the originals, for lack of space, so that a full pool causes an error of their \
             clients: {commands}"
        ));
    }
    Ok(Done::changed(text))
}

/// Refuses a stream into a volume that is the original now.
pub fn refuse_promoted(context: &Context<'_>, volume: &VolumeName) -> Result<(), Failure> {
    let all = context.all()?;
    let own = all.own(volume.as_str());
    if own.is_some_and(|own| own.contains_key(PROMOTED_PROPERTY)) {
        let message = format!("{volume} was promoted: it is no copy any more");
        return Err(Failure::new(FailureKind::Exists, message).advise(format!(
            "replicate into another name with `bulkhead replicate set … --into NAME`; or in the other direction, with `bulkhead \
             replicate set {volume} …` where it was promoted; or destroy {volume} there with `bulkhead volume destroy`, and its \
             writes since the promotion with it: the next run sends a new copy"
        )));
    }
    Ok(())
}

pub(super) fn is_below(name: &str, dataset: &str) -> bool {
    let rest = name.strip_prefix(dataset);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The copies below a dataset, in order of their names.
pub(super) fn replicas(context: &Context<'_>, dataset: &str) -> Result<Vec<Replica>, Failure> {
    let found = context.pool.user_properties(SOURCE_PREFIX);
    let found = found.map_err(crate::dataset_failure)?;
    let mut replicas = Vec::new();
    for (name, own) in found {
        let Ok(name) = name.parse::<VolumeName>() else {
            continue;
        };
        let original: BTreeMap<_, _> = own
            .into_iter()
            .map(|(name, value)| (name.replacen(SOURCE_PREFIX, PROPERTY_PREFIX, 1), value))
            .collect();
        let is_replica = [IDENTITY_PROPERTY, SHARE_PROPERTY]
            .iter()
            .any(|property| original.contains_key(*property));
        if is_below(name.as_str(), dataset) && is_replica {
            replicas.push(Replica::new(name, original));
        }
    }
    replicas.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(replicas)
}

/// Shares a file system as its original was shared. This is done before the promotion: after a crash in between, the
/// next attempt does both.
fn share(context: &Context<'_>, replica: &Replica) -> Result<(), Failure> {
    let Some(share) = replica.share() else {
        return Ok(());
    };
    let values = [(filesystem::SHARE.to_owned(), Value::Text(share.clone()))];
    let set = context
        .pool
        .set_dataset_properties((&replica.name).into(), &values);
    set.map_err(crate::dataset_failure)
}

/// Reserves the space for the copy that was reserved for its original. Returns the command to do so
/// if that fails. This is done before the promotion: after a crash in between, the next attempt
/// does both.
fn reserve(context: &Context<'_>, replica: &Replica) -> Result<(), String> {
    let said = replica.original.get(RESERVED_PROPERTY);
    let said = said.and_then(|text| serde_json::from_str::<ReservedDocument>(text).ok());
    let wanted: Vec<(String, u64)> = said
        .iter()
        .flat_map(|said| {
            [
                ("refreservation", said.refreservation),
                ("reservation", said.reservation),
            ]
        })
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(name, bytes)| (name.to_owned(), bytes))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let values = wanted.iter().cloned();
    let values: Vec<_> = values
        .map(|(name, bytes)| (name, Value::Number(bytes)))
        .collect();
    let set = context
        .pool
        .set_dataset_properties((&replica.name).into(), &values);
    set.map_err(|error| {
        tracing::warn!(volume = %replica.name, %error, "space is not set aside");
        let words = wanted
            .iter()
            .map(|(name, bytes)| format!(" {name}={bytes}"));
        format!(
            "`bulkhead volume set {}{}`",
            replica.name,
            words.collect::<String>()
        )
    })
}

/// Describes the timestamps of the states that the copies hold.
fn age(context: &Context<'_>, replicas: &[Replica]) -> Result<String, Failure> {
    let mut moments: BTreeSet<u64> = BTreeSet::new();
    for replica in replicas {
        moments.extend(copies::newest_snapshot_time(context, &replica.name)?);
    }
    let text = |moment: Option<&u64>| moment.map(|seconds| control::calendar::utc(*seconds));
    Ok(match (text(moments.first()), text(moments.last())) {
        (Some(first), Some(last)) if first != last => format!("contents of {first} to {last}"),
        (Some(one), Some(_)) => format!("contents of {one}"),
        _ => "contents of unknown age".to_owned(),
    })
}

/// Parses the exports and the identity of the original that the copy has stored.
fn facts_of(replica: &Replica) -> VolumeFacts {
    let value = |property: &str| replica.original.get(property).map(String::as_str);
    VolumeFacts::read(
        replica.name.clone(),
        value(EXPORT_PROPERTY),
        value(IDENTITY_PROPERTY),
    )
}

/// Returns the exports that would serve the copy. Empty if its stored document cannot be read.
pub(super) fn exports_of(replica: &Replica) -> Vec<String> {
    let document = facts_of(replica).export.and_then(Result::ok);
    let places = document.as_ref().map(VolumeDocument::places);
    let share = replica.share().map(|share| format!("nfs:{share}"));
    places
        .unwrap_or_default()
        .into_iter()
        .chain(share)
        .collect()
}

/// Plans all edits before any change.
fn plan(root: &str, all: &All, replicas: &[Replica], now: u64) -> Result<Plan, Failure> {
    let mut plan = Plan {
        edits: Vec::new(),
        exports: Vec::new(),
        targets: Vec::new(),
    };
    let mut new_targets: BTreeMap<IscsiName, TargetDocument> = BTreeMap::new();
    for replica in replicas {
        let name = &replica.name;
        if replica.is_of_files() {
            plan.exports.extend(exports_of(replica));
            plan.edits.push((name.to_string(), edits(replica, now)));
            continue;
        }
        let facts = facts_of(replica);
        let read =
            |sentence: String| Failure::new(FailureKind::Failed, format!("{name}: {sentence}"));
        let identity = facts
            .identity
            .unwrap_or_else(|| Err("it has no identity".to_owned()));
        refuse_twin(all, replicas, &identity.map_err(read)?)?;
        let document = facts.export.transpose().map_err(read)?.unwrap_or_default();
        plan.exports.extend(document.places());
        for map in &document.iscsi {
            let is_there = documents::target_document(root, all, &map.target)?.is_some();
            if !is_there && !new_targets.contains_key(&map.target) {
                new_targets.insert(map.target.clone(), target_of(replica, &map.target));
            }
        }
        plan.edits.push((name.to_string(), edits(replica, now)));
    }
    let mut of_root = Edits::new();
    for (name, document) in &new_targets {
        let property = target_property(name);
        let value = document.encode(&property);
        let value = value.map_err(|error| documents::document_failure(&error))?;
        of_root.push((property, Some(value)));
        plan.targets
            .push(format!("{name} ({})", document.access.summary()));
    }
    if !of_root.is_empty() {
        plan.edits.push((root.to_owned(), of_root));
    }
    refuse_collisions(root, all, &plan.edits)?;
    Ok(plan)
}

/// Returns the target of the original. Without a replicated one, only this host has access.
fn target_of(replica: &Replica, name: &IscsiName) -> TargetDocument {
    let property = target_property(name);
    let sent = replica.original.get(&property);
    let sent = sent.and_then(|value| TargetDocument::decode(&property, value).ok());
    sent.unwrap_or_default()
}

/// Applies the stored properties of the original to the volume itself.
fn edits(replica: &Replica, now: u64) -> Edits {
    let promoted = PromotedDocument {
        version: 1,
        promoted_unix_s: now,
    };
    let promoted = serde_json::to_string(&promoted).expect("a document is JSON");
    let mut edits = vec![(PROMOTED_PROPERTY.to_owned(), Some(promoted))];
    for (name, value) in &replica.original {
        if [EXPORT_PROPERTY, IDENTITY_PROPERTY].contains(&name.as_str()) {
            edits.push((name.clone(), Some(value.clone())));
        }
        edits.push((name.replacen(PROPERTY_PREFIX, SOURCE_PREFIX, 1), None));
    }
    edits
}

/// Two volumes that say they are the same disk must not be served side by side.
fn refuse_twin(all: &All, replicas: &[Replica], identity: &Identity) -> Result<(), Failure> {
    let is_replica = |name: &VolumeName| replicas.iter().any(|replica| replica.name == *name);
    let is_twin = |facts: &&VolumeFacts| {
        !is_replica(&facts.name)
            && matches!(&facts.identity, Some(Ok(other)) if other.is_of_same_disk(identity))
    };
    match all.volumes().find(is_twin) {
        None => Ok(()),
        Some(twin) => {
            let message = format!("{} in this pool has that identity already", twin.name);
            Err(Failure::new(FailureKind::Exists, message)
                .advise("it is the original, or another copy that was promoted"))
        }
    }
}

/// Whatever could not be served afterwards, and can be now, is a reason to change nothing.
fn refuse_collisions(root: &str, all: &All, edits: &[(String, Edits)]) -> Result<(), Failure> {
    let mut after = all.clone();
    for (dataset, edits) in edits {
        let mut own = after.own(dataset).cloned().unwrap_or_default();
        for (name, value) in edits
            .iter()
            .filter(|(name, _)| name.starts_with(PROPERTY_PREFIX))
        {
            match value {
                Some(value) => own.insert(name.clone(), value.clone()),
                None => own.remove(name),
            };
        }
        after.set(dataset, own);
    }
    let (_, before) = documents::desired_state(root, all);
    let (_, problems) = documents::desired_state(root, &after);
    match problems.iter().find(|problem| !before.contains(problem)) {
        None => Ok(()),
        Some(problem) => Err(Failure::new(FailureKind::Exists, problem.to_string())
            .advise("end the other export first; nothing was changed")),
    }
}

/// Aborts an active receive, and discards the partial state of an interrupted one.
fn discard_partial_receive(context: &Context<'_>, name: &VolumeName) -> Result<(), Failure> {
    if receiver::interrupt(name) {
        let message = format!("a stream into {name} was just coming, and is ended");
        return Err(Failure::new(FailureKind::Busy, message).advise("try again shortly"));
    }
    let left = needs(context.pool.receiving())?.interrupted(name);
    if left.map_err(crate::transfer::failure)?.is_some() {
        let forgotten = needs(context.pool.receiving())?.abort_receive(name);
        forgotten.map_err(crate::transfer::failure)?;
    }
    Ok(())
}

fn unconfirmed(replicas: &[Replica], plan: &Plan, age: &str, left_out: &str) -> Failure {
    let count = replicas.len();
    let places = match plan.exports.is_empty() {
        true => "no exports".to_owned(),
        false => plan.exports.join(" "),
    };
    let message = format!(
        "{count} volume(s) and file system(s) with {age} would replace their originals: {places}{left_out}"
    );
    Failure::new(FailureKind::NeedsConfirmation, message).advise(
        "two machines that serve the same disk destroy its data: if the originals are served \
         nowhere and never will be again, add --original-is-lost",
    )
}

fn told(
    dataset: &VolumeName,
    count: usize,
    exports: &[String],
    targets: &[String],
    age: &str,
) -> String {
    let mut text = format!("promoted {count} volume(s) and file system(s) of {dataset}, {age}");
    if !exports.is_empty() {
        text.push_str(&format!("; exported as {}", exports.join(" ")));
    }
    if !targets.is_empty() {
        text.push_str(&format!(
            "; made {}: `bulkhead target allow` gives initiators access to them, `bulkhead target chap` requires secrets, \
             which never leave their pool",
            targets.join(", ")
        ));
    }
    text
}

#[cfg(test)]
pub(super) mod fake {
    //! Copies for tests.

    use control::exports::{IDENTITY_PROPERTY, Identity};
    use units::VolumeName;

    use super::Replica;

    pub fn name(text: &str) -> VolumeName {
        text.parse().expect("a name")
    }

    /// A copy of the disk with this identity.
    pub fn replica(text: &str, identity: u8) -> Replica {
        let identity = Identity::from_entropy([identity; 16]);
        let identity = identity.encode(IDENTITY_PROPERTY).expect("encoded");
        Replica::new(
            name(text),
            [(IDENTITY_PROPERTY.to_owned(), identity)].into(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IQN: &str = "iqn.2026-01.org.example:tank";

    fn replica(name: &str, lun: u16) -> Replica {
        let mut entropy = [0; 16];
        entropy[0] = 1 + lun as u8;
        let identity = Identity::from_entropy(entropy);
        let target = format!("bulkhead:target:{IQN}");
        let of = [
            (
                EXPORT_PROPERTY,
                format!(r#"{{"version":1,"iscsi":[{{"target":"{IQN}","lun":{lun}}}]}}"#),
            ),
            (
                IDENTITY_PROPERTY,
                identity.encode(IDENTITY_PROPERTY).expect("encoded"),
            ),
            (
                &target,
                r#"{"version":1,"access":{"networks":["10.0.0.0/24"]}}"#.to_owned(),
            ),
        ];
        Replica {
            name: name.parse().expect("a name"),
            original: of.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }

    fn pool(datasets: &[(&str, &[(&str, &str)])]) -> All {
        let own = |pairs: &[(&str, &str)]| -> Own {
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        datasets
            .iter()
            .map(|(name, pairs)| ((*name).to_owned(), own(pairs)))
            .collect()
    }

    #[test]
    fn promotion_restores_identities_exports_and_targets() {
        let replicas = [replica("vault/a", 0), replica("vault/b", 1)];
        let plan = plan("vault", &All::default(), &replicas, 5).expect("a plan");
        assert_eq!(
            plan.exports,
            [format!("iscsi:{IQN}/0"), format!("iscsi:{IQN}/1")]
        );
        assert_eq!(plan.targets, [format!("{IQN} (10.0.0.0/24)")]);
        let (last, of_root) = plan.edits.last().expect("edits");
        assert_eq!((last.as_str(), of_root.len()), ("vault", 1));
        let (first, of_first) = &plan.edits[0];
        assert_eq!(first, "vault/a");
        let value = |property: &str| {
            let found = of_first.iter().find(|(name, _)| name == property);
            found.and_then(|(_, value)| value.clone())
        };
        assert_eq!(
            value(EXPORT_PROPERTY),
            replicas[0].original.get(EXPORT_PROPERTY).cloned()
        );
        assert_eq!(
            value(IDENTITY_PROPERTY),
            replicas[0].original.get(IDENTITY_PROPERTY).cloned()
        );
        let gone = of_first
            .iter()
            .filter(|(name, value)| name.starts_with(SOURCE_PREFIX) && value.is_none());
        assert_eq!(gone.count(), 3);
        assert!(
            value(PROMOTED_PROPERTY).is_some_and(|value| value.contains("\"promoted_unix_s\":5"))
        );
    }

    #[test]
    fn promotion_with_any_conflict_is_refused_completely() {
        let one = replica("vault/a", 0);
        let identity = one.original[IDENTITY_PROPERTY].clone();
        let other = r#"{"version":1,"iscsi":[{"target":"iqn.2026-01.org.example:tank","lun":0}]}"#;
        let own_identity = Identity::from_entropy([9; 16])
            .encode(IDENTITY_PROPERTY)
            .expect("encoded");
        let target = format!("bulkhead:target:{IQN}");
        let twin = pool(&[("vault/x", &[(IDENTITY_PROPERTY, &identity)])]);
        let taken = pool(&[
            ("vault", &[(&target, r#"{"version":1}"#)]),
            (
                "vault/x",
                &[(EXPORT_PROPERTY, other), (IDENTITY_PROPERTY, &own_identity)],
            ),
        ]);
        for (all, says) in [(twin, "has that identity"), (taken, "unit 0 of target")] {
            let refused = plan("vault", &all, std::slice::from_ref(&one), 5);
            let failure = refused.err().expect("refused");
            assert_eq!(failure.kind, FailureKind::Exists);
            assert!(failure.message.contains(says), "{}", failure.message);
        }
    }
}
