//! The desired exports of a pool, computed from its documents, and the difference between two of them. A bad document
//! becomes a problem of its own export and never affects other exports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use units::{IscsiName, VolumeName};

use super::{
    ChapUsers, DISCOVERY_PROPERTY, EXPORT_PROPERTY, IDENTITY_PROPERTY, Identity, NbdExport,
    TARGET_PROPERTY_PREFIX, TargetDocument, VolumeDocument,
};
use crate::failure::chain;

/// The parsed documents of a volume. Cached, since a change of one export must not cost the parsing
/// of a thousand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFacts {
    /// Its name.
    pub name: VolumeName,
    /// Its export, if it has a document; a sentence if that cannot be read.
    pub export: Option<Result<VolumeDocument, String>>,
    /// Its identity, if it has a document; a sentence if that cannot be read.
    pub identity: Option<Result<Identity, String>>,
}

impl VolumeFacts {
    /// Reads the locally set values of `bulkhead:export` and `bulkhead:identity`.
    pub fn read(name: VolumeName, export: Option<&str>, identity: Option<&str>) -> Self {
        let sentence = |error| chain(&error);
        let export = export.map(|value| VolumeDocument::decode(EXPORT_PROPERTY, value));
        let identity = identity.map(|value| Identity::decode(IDENTITY_PROPERTY, value));
        Self {
            name,
            export: export.map(|decoded| decoded.map_err(sentence)),
            identity: identity.map(|decoded| decoded.map_err(sentence)),
        }
    }
}

/// The desired state of a logical unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredUnit {
    /// The volume.
    pub volume: VolumeName,
    /// Its identity.
    pub identity: Identity,
    /// Writes are refused.
    pub read_only: bool,
    /// Whether its write cache is enabled at the start.
    pub write_cache: bool,
}

/// The desired state of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredTarget {
    /// Portal groups, access, CHAP.
    pub document: TargetDocument,
    /// Its logical units by number.
    pub units: BTreeMap<u16, DesiredUnit>,
}

/// The desired state of an NBD export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredExport {
    /// The volume.
    pub volume: VolumeName,
    /// Name, mode, access.
    pub export: NbdExport,
}

/// All desired exports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredState {
    /// Targets by name.
    pub targets: BTreeMap<IscsiName, DesiredTarget>,
    /// NBD exports by export name.
    pub nbd: BTreeMap<String, DesiredExport>,
    /// The users that may perform discovery; `None` lets every initiator do so. With an empty list no initiator may.
    pub discovery: Option<ChapUsers>,
}

/// The name of a [`Problem`] of [`DesiredState::discovery`].
pub const DISCOVERY: &str = "discovery";

/// A document, or a part of one, that cannot be served. The sentence contains the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The volume or target concerned, or the discovery of targets.
    pub subject: String,
    /// The problem and its remedy.
    pub sentence: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.sentence)
    }
}

impl DesiredState {
    /// Combines the root dataset's properties and the volumes' documents. Volumes are processed in
    /// the order of their names, so that a conflict between two of them is always resolved alike:
    /// the first one wins.
    pub fn add_up<'a>(
        root_properties: impl IntoIterator<Item = (&'a str, &'a str)>,
        volumes: impl IntoIterator<Item = &'a VolumeFacts>,
    ) -> (Self, Vec<Problem>) {
        let mut desired = Self::default();
        let mut problems = Vec::new();
        for (property, value) in root_properties {
            let added = match property {
                DISCOVERY_PROPERTY => desired.add_discovery(value),
                _ => desired.add_target(property, value),
            };
            problems.extend(added.err());
        }
        let mut in_order: Vec<&VolumeFacts> = volumes.into_iter().collect();
        in_order.sort_by(|a, b| a.name.cmp(&b.name));
        let twins = twins(&in_order);
        for facts in in_order {
            desired.add_volume(facts, &twins, &mut problems);
        }
        (desired, problems)
    }

    /// No initiator can authenticate by a document that cannot be read: the server never requires less than a document
    /// demands.
    fn add_discovery(&mut self, value: &str) -> Result<(), Problem> {
        self.discovery = Some(ChapUsers::default());
        let users = ChapUsers::decode(DISCOVERY_PROPERTY, value).map_err(|error| Problem {
            subject: DISCOVERY.to_owned(),
            sentence: format!(
                "{}. Discovery is refused to all initiators: `bulkhead target discovery clear --all`, then `set` again",
                chain(&error)
            ),
        })?;
        self.discovery = Some(users);
        Ok(())
    }

    fn add_target(&mut self, property: &str, value: &str) -> Result<(), Problem> {
        let Some(name) = property.strip_prefix(TARGET_PROPERTY_PREFIX) else {
            return Ok(());
        };
        let problem = |sentence| Problem {
            subject: name.to_owned(),
            sentence,
        };
        let target: IscsiName = name
            .parse()
            .map_err(|error: units::NameError| problem(error.to_string()))?;
        let document =
            TargetDocument::decode(property, value).map_err(|error| problem(chain(&error)))?;
        self.targets.entry(target).or_default().document = document;
        Ok(())
    }

    fn add_volume(&mut self, facts: &VolumeFacts, twins: &Twins<'_>, problems: &mut Vec<Problem>) {
        let Some(document) = &facts.export else {
            return;
        };
        let mut report = |sentence: String| {
            problems.push(Problem {
                subject: facts.name.to_string(),
                sentence,
            });
        };
        let document = match document {
            Ok(document) => document,
            Err(sentence) => return report(sentence.clone()),
        };
        for export in &document.nbd {
            if let Some(other) = self.nbd.get(&export.name) {
                let (name, volume) = (&export.name, &other.volume);
                report(format!(
                    "the NBD export name {name:?} is already {volume}'s: choose another name"
                ));
                continue;
            }
            let (volume, export) = (facts.name.clone(), export.clone());
            self.nbd
                .insert(export.name.clone(), DesiredExport { volume, export });
        }
        if document.iscsi.is_empty() {
            return;
        }
        let identity = match identity_of(facts) {
            Ok(identity) => identity,
            Err(sentence) => return report(sentence),
        };
        if let Some(others) = twins.get(&facts.name) {
            let others: Vec<&str> = others.iter().map(|other| other.as_str()).collect();
            return report(format!(
                "it has the same serial number as {}, and initiators would take them for one disk, so none of them is shown: \
                 unmap those that are not the disk; one that is mapped again is a disk of its own",
                others.join(" ")
            ));
        }
        for map in &document.iscsi {
            let Some(target) = self.targets.get_mut(&map.target) else {
                report(format!(
                    "it is mapped into target {}, which does not exist: create the target or \
                     unmap the volume",
                    map.target
                ));
                continue;
            };
            if let Some(other) = target.units.get(&map.lun) {
                report(format!(
                    "unit {} of target {} is already {}: choose another number",
                    map.lun, map.target, other.volume
                ));
                continue;
            }
            let unit = DesiredUnit {
                volume: facts.name.clone(),
                identity: identity.clone(),
                read_only: map.read_only,
                write_cache: map.write_cache,
            };
            target.units.insert(map.lun, unit);
        }
    }
}

/// Volumes that are exported with the designators of a different volume, with those other volumes.
type Twins<'a> = BTreeMap<&'a VolumeName, Vec<&'a VolumeName>>;

/// Finds volumes that initiators see with the same identity.
fn twins<'a>(volumes: &[&'a VolumeFacts]) -> Twins<'a> {
    let mut by_designator: BTreeMap<&str, BTreeSet<&VolumeName>> = BTreeMap::new();
    for facts in volumes {
        let (Some(Ok(document)), Some(Ok(identity))) = (&facts.export, &facts.identity) else {
            continue;
        };
        if document.iscsi.is_empty() {
            continue;
        }
        for designator in [&identity.naa, &identity.serial] {
            by_designator
                .entry(designator)
                .or_default()
                .insert(&facts.name);
        }
    }
    let mut twins = Twins::new();
    for names in by_designator.values().filter(|names| names.len() > 1) {
        for name in names {
            let others = names.iter().copied().filter(|other| other != name);
            twins.insert(name, others.collect());
        }
    }
    twins
}

fn identity_of(facts: &VolumeFacts) -> Result<Identity, String> {
    match &facts.identity {
        Some(identity) => identity.clone(),
        None => Err("it has no identity yet: map it into its target again".to_owned()),
    }
}

/// One step from one desired state to another. All other exports are unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A target is added.
    AddTarget(IscsiName),
    /// A target is removed; its sessions are closed.
    RemoveTarget(IscsiName),
    /// A target's portal groups, access rule or CHAP users change.
    ChangeTarget(IscsiName),
    /// The required authentication of discovery changes.
    ChangeDiscovery,
    /// A unit is added to a retained target.
    AddUnit(IscsiName, u16),
    /// A unit is removed from a retained target.
    RemoveUnit(IscsiName, u16),
    /// A unit has another volume, or other settings.
    ChangeUnit(IscsiName, u16),
    /// An NBD export is added.
    AddNbd(String),
    /// An NBD export is removed; its connections are closed.
    RemoveNbd(String),
    /// An NBD export has another volume, or other settings.
    ChangeNbd(String),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddTarget(name) => write!(f, "add target {name}"),
            Self::RemoveTarget(name) => write!(f, "remove target {name}"),
            Self::ChangeTarget(name) => write!(f, "change target {name}"),
            Self::ChangeDiscovery => write!(f, "change the authentication of discovery"),
            Self::AddUnit(name, lun) => write!(f, "add unit {lun} of {name}"),
            Self::RemoveUnit(name, lun) => write!(f, "remove unit {lun} of {name}"),
            Self::ChangeUnit(name, lun) => write!(f, "change unit {lun} of {name}"),
            Self::AddNbd(name) => write!(f, "add NBD export {name:?}"),
            Self::RemoveNbd(name) => write!(f, "remove NBD export {name:?}"),
            Self::ChangeNbd(name) => write!(f, "change NBD export {name:?}"),
        }
    }
}

/// Returns the steps from `old` to `new`, empty if they are equal.
pub fn difference(old: &DesiredState, new: &DesiredState) -> Vec<Change> {
    let mut changes = Vec::new();
    if old.discovery != new.discovery {
        changes.push(Change::ChangeDiscovery);
    }
    for (name, step) in steps(&old.targets, &new.targets) {
        match step {
            Step::Removed => changes.push(Change::RemoveTarget(name.clone())),
            Step::Added => changes.push(Change::AddTarget(name.clone())),
            Step::Changed(before, after) => target_steps(name, before, after, &mut changes),
        }
    }
    for (name, step) in steps(&old.nbd, &new.nbd) {
        let name = name.clone();
        changes.push(match step {
            Step::Removed => Change::RemoveNbd(name),
            Step::Added => Change::AddNbd(name),
            Step::Changed(..) => Change::ChangeNbd(name),
        });
    }
    changes
}

fn target_steps(
    name: &IscsiName,
    before: &DesiredTarget,
    after: &DesiredTarget,
    changes: &mut Vec<Change>,
) {
    if before.document != after.document {
        changes.push(Change::ChangeTarget(name.clone()));
    }
    for (lun, step) in steps(&before.units, &after.units) {
        changes.push(match step {
            Step::Removed => Change::RemoveUnit(name.clone(), *lun),
            Step::Added => Change::AddUnit(name.clone(), *lun),
            Step::Changed(..) => Change::ChangeUnit(name.clone(), *lun),
        });
    }
}

enum Step<'a, V> {
    Added,
    Removed,
    Changed(&'a V, &'a V),
}

/// Returns the change of each key, removals first so that a name is free before it is reused.
fn steps<'a, K: Ord, V: PartialEq>(
    old: &'a BTreeMap<K, V>,
    new: &'a BTreeMap<K, V>,
) -> Vec<(&'a K, Step<'a, V>)> {
    let removed = old.keys().filter(|key| !new.contains_key(key));
    let mut found: Vec<_> = removed.map(|key| (key, Step::Removed)).collect();
    for (key, after) in new {
        match old.get(key) {
            None => found.push((key, Step::Added)),
            Some(before) if before != after => found.push((key, Step::Changed(before, after))),
            Some(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volumes(desired: &DesiredState) -> std::collections::BTreeSet<&VolumeName> {
        let units = desired.targets.values().flat_map(|t| t.units.values());
        units
            .map(|unit| &unit.volume)
            .chain(desired.nbd.values().map(|export| &export.volume))
            .collect()
    }

    const TARGET: &str = "iqn.2026-01.org.example:a";

    fn facts(name: &str, export: &str) -> VolumeFacts {
        let last = *name.as_bytes().last().expect("a name");
        facts_of(name, export, last)
    }

    fn facts_of(name: &str, export: &str, identity: u8) -> VolumeFacts {
        let mut entropy = [0; 16];
        entropy[0] = identity;
        let identity = Identity::from_entropy(entropy);
        let identity = identity.encode("p").expect("fits");
        VolumeFacts::read(name.parse().expect("name"), Some(export), Some(&identity))
    }

    fn mapped(name: &str, lun: u16) -> VolumeFacts {
        let export = format!(r#"{{"version":1,"iscsi":[{{"target":"{TARGET}","lun":{lun}}}]}}"#);
        facts(name, &export)
    }

    fn nbd(name: &str, export: &str) -> VolumeFacts {
        facts(
            name,
            &format!(r#"{{"version":1,"nbd":[{{"name":"{export}"}}]}}"#),
        )
    }

    fn desired_state(
        target: Option<&str>,
        volumes: &[VolumeFacts],
    ) -> (DesiredState, Vec<Problem>) {
        let property = format!("{TARGET_PROPERTY_PREFIX}{TARGET}");
        DesiredState::add_up(target.map(|value| (property.as_str(), value)), volumes)
    }

    const PLAIN: Option<&str> = Some(r#"{"version":1}"#);

    #[test]
    fn first_volume_keeps_a_contested_lun_or_name() {
        let (desired, problems) = desired_state(PLAIN, &[mapped("tank/b", 0), mapped("tank/a", 0)]);
        let target: IscsiName = TARGET.parse().expect("name");
        assert_eq!(desired.targets[&target].units[&0].volume.as_str(), "tank/a");
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].subject, "tank/b");
    }

    /// Multipath would write to one and read from the other.
    #[test]
    fn volumes_with_duplicate_identity_are_hidden() {
        let twin = |name: &str, lun: u16| {
            let export =
                format!(r#"{{"version":1,"iscsi":[{{"target":"{TARGET}","lun":{lun}}}]}}"#);
            facts_of(name, &export, 9)
        };
        let all = [twin("tank/a", 0), mapped("tank/b", 1), twin("tank/c", 2)];
        let (desired, problems) = desired_state(PLAIN, &all);
        let shown: Vec<&str> = volumes(&desired)
            .into_iter()
            .map(VolumeName::as_str)
            .collect();
        assert_eq!(shown, ["tank/b"]);
        let subjects: Vec<_> = problems.iter().map(|p| p.subject.as_str()).collect();
        assert_eq!(subjects, ["tank/a", "tank/c"]);
        assert!(problems[0].sentence.contains("tank/c"), "{problems:?}");
        // A volume that is not mapped conflicts with none.
        let all = [twin("tank/a", 0), facts_of("tank/c", r#"{"version":1}"#, 9)];
        let (desired, problems) = desired_state(PLAIN, &all);
        assert!(problems.is_empty() && volumes(&desired).len() == 1);
    }

    #[test]
    fn bad_document_disables_only_its_own_export() {
        let (desired, problems) = desired_state(
            PLAIN,
            &[
                facts("tank/a", r#"{"version":9}"#),
                mapped("tank/b", 1),
                nbd("tank/c", "x"),
                nbd("tank/d", "x"),
            ],
        );
        assert_eq!(volumes(&desired).len(), 2);
        let subjects: Vec<_> = problems.iter().map(|p| p.subject.as_str()).collect();
        assert_eq!(subjects, ["tank/a", "tank/d"]);
    }

    /// The server never requires less than a document demands, even if a newer release wrote it or
    /// it cannot be read.
    #[test]
    fn unreadable_discovery_document_denies_discovery() {
        let of = |value| DesiredState::add_up([(DISCOVERY_PROPERTY, value)], []);
        let (desired, problems) = of(r#"{"version":2,"chap":[{"user":"ann","sealed":"1:a:b"}]}"#);
        assert!(problems.is_empty());
        let users = desired.discovery.clone().expect("asked for");
        assert_eq!(users.chap[0].user, "ann");
        let open = DesiredState::default();
        assert_eq!(difference(&open, &desired), [Change::ChangeDiscovery]);
        for bad in [r#"{"version":9}"#, "garbage"] {
            let (desired, problems) = of(bad);
            assert_eq!(desired.discovery, Some(ChapUsers::default()), "{bad}");
            assert_eq!(problems.len(), 1, "{bad}");
            assert!(problems[0].sentence.contains("target discovery clear"));
        }
    }

    #[test]
    fn map_to_a_missing_target_is_reported_with_advice() {
        let (desired, problems) = desired_state(None, &[mapped("tank/a", 0)]);
        assert!(desired.targets.is_empty());
        assert!(problems[0].sentence.contains("create the target"));
    }

    #[test]
    fn volume_without_identity_is_no_unit() {
        let mut volume = mapped("tank/a", 0);
        volume.identity = None;
        let (_, problems) = desired_state(PLAIN, &[volume]);
        assert!(problems[0].sentence.contains("identity"));
    }

    #[test]
    fn difference_lists_exactly_the_changes() {
        let target: IscsiName = TARGET.parse().expect("name");
        let closed = PLAIN;
        let open = Some(r#"{"version":1,"access":{"everyone":true}}"#);
        let volumes = |list: &[VolumeFacts], rule| desired_state(rule, list).0;
        type Case = (DesiredState, DesiredState, Vec<Change>);
        let cases: Vec<Case> = vec![
            (
                DesiredState::default(),
                volumes(&[mapped("tank/a", 0)], closed),
                vec![Change::AddTarget(target.clone())],
            ),
            (
                volumes(&[mapped("tank/a", 0)], closed),
                volumes(&[mapped("tank/a", 0)], closed),
                vec![],
            ),
            (
                volumes(&[mapped("tank/a", 0)], closed),
                volumes(&[mapped("tank/a", 0)], open),
                vec![Change::ChangeTarget(target.clone())],
            ),
            (
                volumes(&[mapped("tank/a", 0), mapped("tank/b", 1)], closed),
                volumes(&[mapped("tank/c", 0), mapped("tank/d", 2)], closed),
                vec![
                    Change::RemoveUnit(target.clone(), 1),
                    Change::ChangeUnit(target.clone(), 0),
                    Change::AddUnit(target.clone(), 2),
                ],
            ),
            (
                volumes(&[nbd("tank/a", "x"), nbd("tank/b", "y")], closed),
                volumes(&[nbd("tank/b", "z"), nbd("tank/c", "x")], None),
                vec![
                    Change::RemoveTarget(target.clone()),
                    Change::RemoveNbd("y".into()),
                    Change::ChangeNbd("x".into()),
                    Change::AddNbd("z".into()),
                ],
            ),
        ];
        for (old, new, expected) in cases {
            assert_eq!(difference(&old, &new), expected);
        }
    }
}
