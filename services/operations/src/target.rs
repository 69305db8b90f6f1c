//! Requests about iSCSI targets: changes of export documents.

use control::answer::{Done, TargetView, UnitView};
use control::exports::{
    AccessRule, DesiredTarget, IscsiMap, TargetDocument, VolumeFacts, mode_property, part_names,
    target_property,
};
use control::operations::target::allow::Allow;
use control::operations::target::chap_clear::ChapClear;
use control::operations::target::chap_set::ChapSet;
use control::operations::target::chap_show::ChapShow;
use control::operations::target::create::Create;
use control::operations::target::deny::Deny;
use control::operations::target::destroy::Destroy;
use control::operations::target::list::List;
use control::operations::target::map::Map;
use control::operations::target::mutual_set::MutualSet;
use control::operations::target::show::Show;
use control::operations::target::unmap::Unmap;
use control::operations::target::{TargetRequest, Who};
use control::{Answer, Failure, FailureKind};
use units::{IscsiName, VolumeName};

use super::documents::{
    All, Documents, Edits, desired_state, export_document, export_edits, new_identity,
    set_target_document, target_document, volume,
};
use super::secrets::Secrets;
use super::{chap, discovery, loss};

/// Performs one request.
pub fn perform(documents: &dyn Documents, request: TargetRequest) -> Result<Answer, Failure> {
    match request {
        TargetRequest::Create(Create {
            name,
            portal_groups,
        }) => create(documents, &name, portal_groups),
        TargetRequest::List(List { only }) => {
            let (desired, _) = desired_state(&documents.root(), &*documents.all()?);
            let targets = desired.targets.iter();
            let views = targets.map(|(name, target)| view(name, target));
            let is_selected = |target: &TargetView| {
                let volumes = target.units.iter().map(|unit| unit.volume.as_str());
                let only = only.as_ref();
                only.is_none_or(|only| only.has_export(target.name.as_str(), volumes))
            };
            Ok(Answer::Targets(views.filter(is_selected).collect()))
        }
        TargetRequest::Show(Show { name }) => {
            let (desired, _) = desired_state(&documents.root(), &*documents.all()?);
            let target = desired
                .targets
                .get(&name)
                .ok_or_else(|| no_target(&documents.root(), &name))?;
            Ok(Answer::Target(Box::new(view(&name, target))))
        }
        TargetRequest::Destroy(Destroy {
            name,
            in_use,
            mapped,
            preview,
        }) => match preview.is_wanted() {
            true => preview_destroy(documents, &name),
            false => destroy(documents, &name, mapped || in_use),
        },
        TargetRequest::Map(Map {
            name,
            volume,
            lun,
            read_only,
            write_cache,
        }) => {
            let place = UnitPlacement {
                target: name,
                lun,
                read_only,
                write_cache: write_cache.unwrap_or(false),
            };
            map(documents, &volume, place)
        }
        TargetRequest::Unmap(Unmap { name, volume, .. }) => unmap(documents, &name, &volume),
        TargetRequest::Allow(Allow { name, who }) => change(documents, &name, |document| {
            allow(&name, &mut document.access, &who)?;
            Ok(format!(
                "{name} may be used by: {}",
                document.access.summary()
            ))
        }),
        TargetRequest::Deny(Deny { name, who }) => change(documents, &name, |document| {
            let before = document.access.clone();
            deny(&name, &mut document.access, &who)?;
            let access = &document.access;
            let left = access.still_allows(&who.initiators, &who.networks);
            match left {
                Some(why) if *access == before => Err(no_effect(&name, &why)),
                Some(why) => Ok(format!(
                    "{name} may be used by: {}; {why}",
                    access.summary()
                )),
                None => Ok(format!("{name} may be used by: {}", access.summary())),
            }
        }),
        TargetRequest::ChapSet(set) => {
            let ChapSet {
                name,
                user,
                secret,
                initiators,
            } = set;
            let known = Secrets::of(documents, &target_property(&name))?;
            change(documents, &name, |document| {
                chap::set(&mut document.users, &known, &user, &secret, &initiators)?;
                Ok(format!("{name} requires the secret of user {user}"))
            })
        }
        TargetRequest::MutualSet(MutualSet { name, user, secret }) => {
            let known = Secrets::of(documents, &target_property(&name))?;
            change(documents, &name, |document| {
                chap::set_mutual(&mut document.users, &known, &user, &secret)?;
                Ok(format!("{name} proves itself as user {user}"))
            })
        }
        TargetRequest::ChapShow(ChapShow { name }) => {
            let document = existing(documents, &*documents.all()?, &name)?;
            Ok(Answer::Chap(chap::view(name, &document.users)))
        }
        TargetRequest::ChapClear(ChapClear {
            name,
            user,
            no_secret,
        }) => change(documents, &name, |document| {
            let before = document.users.clone();
            let message = chap::clear(&mut document.users, user.as_deref());
            if !no_secret {
                let who = document.access.summary();
                chap::refuse_opening(&before, &document.users, || {
                    format!("{name} would require no secret, with access for: {who}")
                })?;
            }
            Ok(message)
        }),
        TargetRequest::Discovery(request) => discovery::perform(documents, request),
    }
}

/// A target as it is shown: without secrets.
pub fn view(name: &IscsiName, target: &DesiredTarget) -> TargetView {
    let document = &target.document;
    let users = &document.users;
    let unit = |(lun, unit): (&u16, &control::exports::DesiredUnit)| UnitView {
        lun: *lun,
        volume: unit.volume.clone(),
        read_only: unit.read_only,
        write_cache: unit.write_cache,
        naa: unit.identity.naa.clone(),
        serial: unit.identity.serial.clone(),
    };
    TargetView {
        name: name.clone(),
        portal_groups: document.portal_groups.clone(),
        access: document.access.clone(),
        chap_users: users.chap.iter().map(|c| c.user.clone()).collect(),
        mutual_user: users.mutual.as_ref().map(|c| c.user.clone()),
        units: target.units.iter().map(unit).collect(),
        sessions: Vec::new(),
    }
}

fn no_target(pool: &str, name: &IscsiName) -> Failure {
    Failure::not_found(format!("pool {pool} has no target {name}")).advise(format!(
        "a target shows volumes of its own pool only: `bulkhead target list` lists the targets of all pools, and `bulkhead target create NAME --pool {pool}` \
         creates one there, with a name that no other pool has"
    ))
}

fn existing(
    documents: &dyn Documents,
    all: &All,
    name: &IscsiName,
) -> Result<TargetDocument, Failure> {
    let root = documents.root();
    target_document(&root, all, name)?.ok_or_else(|| no_target(&root, name))
}

fn create(
    documents: &dyn Documents,
    name: &IscsiName,
    portal_groups: Vec<u16>,
) -> Result<Answer, Failure> {
    match target_document(&documents.root(), &*documents.all()?, name)? {
        Some(document) if document.portal_groups == portal_groups => {
            Ok(Done::already(format!("target {name} exists already")))
        }
        Some(_) => {
            let message = format!("target {name} exists already, with other portal groups");
            Err(Failure::new(FailureKind::Exists, message))
        }
        None if name.has_impossible_month() => {
            let message = format!("{name} is dated with a month that does not exist");
            Err(Failure::usage(message).advise(
                "write the year and month in which its domain was yours: iqn.2026-01.org.example:tank",
            ))
        }
        None => {
            let document = TargetDocument {
                portal_groups,
                ..TargetDocument::default()
            };
            set_target_document(documents, name, &document)?;
            Ok(Done::changed(format!(
                "created target {name}: until `bulkhead target allow`, only this host has access"
            )))
        }
    }
}

fn destroy(documents: &dyn Documents, name: &IscsiName, mapped: bool) -> Result<Answer, Failure> {
    let (maps, edits) = target_removal(documents, name)?;
    if !maps.is_empty() && !mapped {
        let message = format!("{} shown in target {name}", are(&maps));
        return Err(Failure::new(FailureKind::NeedsConfirmation, message)
            .advise("unmap them first, or add --mapped: initiators lose them all"));
    }
    documents.edit_all(edits)?;
    Ok(Done::changed(format!(
        "destroyed target {name}; {} no longer shown in it",
        are(&maps)
    )))
}

/// Returns the response to a dry run.
fn preview_destroy(documents: &dyn Documents, name: &IscsiName) -> Result<Answer, Failure> {
    let (maps, _) = target_removal(documents, name)?;
    Ok(loss::dry_run(format_args!(
        "it would destroy target {name} with its access rules and secrets; {} shown in it",
        are(&maps)
    )))
}

fn are(maps: &[String]) -> String {
    let names: Vec<&str> = maps.iter().map(String::as_str).collect();
    match names.is_empty() {
        true => "0 volume(s) are".to_owned(),
        false => format!("{} volume(s) are ({})", maps.len(), loss::some_of(&names)),
    }
}

/// Returns the edits that remove the target and its maps, and the mapped volumes.
fn target_removal(documents: &dyn Documents, name: &IscsiName) -> Result<Removal, Failure> {
    let all = documents.all()?;
    // An unreadable target can still be destroyed.
    if target_document(&documents.root(), &all, name).is_ok_and(|found| found.is_none()) {
        return Err(no_target(&documents.root(), name));
    }
    let mut edits = Vec::new();
    for facts in all.volumes() {
        let document = facts.export.as_ref().and_then(|read| read.as_ref().ok());
        if document.is_some_and(|d| d.iscsi.iter().any(|m| m.target == *name)) {
            edits.push((facts.name.to_string(), map_removal(&all, facts, name)?));
        }
    }
    let maps = edits.iter().map(|(volume, _)| volume.clone()).collect();
    // All at once: a map without its target would be a problem.
    edits.push((documents.root(), vec![(target_property(name), None)]));
    Ok((maps, edits))
}

/// Volumes, and the edits that remove their maps and the target.
type Removal = (Vec<String>, Vec<(String, Edits)>);

/// Where a volume shall be shown.
struct UnitPlacement {
    target: IscsiName,
    lun: Option<u16>,
    read_only: bool,
    write_cache: bool,
}

fn map(
    documents: &dyn Documents,
    name: &VolumeName,
    place: UnitPlacement,
) -> Result<Answer, Failure> {
    let all = documents.all()?;
    existing(documents, &all, &place.target)?;
    let facts = volume(documents, &all, name)?;
    let mut document = export_document(&facts)?;
    let target = &place.target;
    let before = document.iscsi.iter().position(|m| m.target == *target);
    let lun = match (place.lun, before) {
        (Some(lun), _) => lun,
        (None, Some(at)) => document.iscsi[at].lun,
        (None, None) => free_lun(&all, target)?,
    };
    if let Some(other) = taken_by(&all, target, lun).filter(|other| other != name) {
        let message = format!("unit {lun} of target {target} is already {other}");
        return Err(Failure::new(FailureKind::Exists, message)
            .advise("choose another --lun, or leave it out to get a free one"));
    }
    let map = IscsiMap {
        target: target.clone(),
        lun,
        read_only: place.read_only,
        write_cache: place.write_cache,
    };
    let mut edits = Edits::new();
    if document.iscsi.is_empty() && has_twin(&all, &facts) {
        // No initiator has seen the volume under its present identity.
        edits.push(new_identity()?);
    }
    match before {
        Some(at) if document.iscsi[at] == map => {
            return Ok(Done::already(format!(
                "{name} is already unit {lun} of target {target}"
            )));
        }
        Some(at) => {
            if document.iscsi[at].lun != lun {
                edits = reservation_removals(&all, name, target, document.iscsi[at].lun);
            } else if document.iscsi[at].write_cache != map.write_cache {
                // A mode that an initiator has saved would override it.
                edits.extend(removal(&all, name, mode_property(target, lun)));
            }
            document.iscsi[at] = map;
        }
        None => document.iscsi.push(map),
    }
    edits.extend(export_edits(&facts, &document)?);
    documents.edit(name.as_str(), edits)?;
    Ok(Done::changed(format!(
        "{name} is unit {lun} of target {target}"
    )))
}

/// Returns whether another volume of the pool has the same identity.
fn has_twin(all: &All, facts: &VolumeFacts) -> bool {
    let Some(Ok(identity)) = &facts.identity else {
        return false;
    };
    all.volumes().any(|other| {
        other.name != facts.name
            && matches!(&other.identity, Some(Ok(same)) if same.is_of_same_disk(identity))
    })
}

/// Unit numbers of `target` that the documents claim, with their volumes.
fn claims<'a>(all: &'a All, target: &'a IscsiName) -> impl Iterator<Item = (u16, &'a VolumeName)> {
    let read = all
        .volumes()
        .filter_map(|facts| Some((&facts.name, facts.export.as_ref()?.as_ref().ok()?)));
    read.flat_map(move |(name, document)| {
        let maps = document.iscsi.iter().filter(|m| m.target == *target);
        maps.map(move |map| (map.lun, name))
    })
}

fn free_lun(all: &All, target: &IscsiName) -> Result<u16, Failure> {
    /// Flat space addressing has 14 bits (SAM-5, 4.7.7.3).
    const LUN_MAX: u16 = 16_383;
    let mut taken = vec![false; usize::from(LUN_MAX) + 1];
    for (lun, _) in claims(all, target) {
        if let Some(place) = taken.get_mut(usize::from(lun)) {
            *place = true;
        }
    }
    let free = taken.iter().position(|taken| !taken);
    let full = || Failure::new(FailureKind::Exists, format!("target {target} is full"));
    free.map(|lun| lun as u16).ok_or_else(full)
}

fn taken_by(all: &All, target: &IscsiName, lun: u16) -> Option<VolumeName> {
    let claim = claims(all, target).find(|(number, _)| *number == lun);
    claim.map(|(_, name)| name.clone())
}

fn unmap(
    documents: &dyn Documents,
    target: &IscsiName,
    name: &VolumeName,
) -> Result<Answer, Failure> {
    let all = documents.all()?;
    let facts = volume(documents, &all, name)?;
    let document = export_document(&facts)?;
    if !document.iscsi.iter().any(|map| map.target == *target) {
        existing(documents, &all, target)?;
        return Ok(Done::already(format!(
            "{name} is not shown in target {target}"
        )));
    }
    documents.edit(name.as_str(), map_removal(&all, &facts, target)?)?;
    Ok(Done::changed(format!(
        "{name} is no longer shown in target {target}"
    )))
}

/// Removes the volume from `target`, with the reservations that initiators held on it there.
fn map_removal(all: &All, facts: &VolumeFacts, target: &IscsiName) -> Result<Edits, Failure> {
    let mut document = export_document(facts)?;
    let mut edits = Edits::new();
    for map in document.iscsi.iter().filter(|m| m.target == *target) {
        edits.extend(reservation_removals(all, &facts.name, target, map.lun));
    }
    document.iscsi.retain(|map| map.target != *target);
    edits.extend(export_edits(facts, &document)?);
    Ok(edits)
}

fn reservation_removals(all: &All, volume: &VolumeName, target: &IscsiName, lun: u16) -> Edits {
    let names = part_names(target, lun).chain([mode_property(target, lun)]);
    names
        .filter_map(|name| removal(all, volume, name))
        .collect()
}

/// Removes a property, if it is there.
fn removal(all: &All, volume: &VolumeName, name: String) -> Option<(String, Option<String>)> {
    let own = all.own(volume.as_str())?;
    own.contains_key(&name).then_some((name, None))
}

/// Reads a target's document, changes it, and stores it if it differs.
fn change(
    documents: &dyn Documents,
    name: &IscsiName,
    change: impl FnOnce(&mut TargetDocument) -> Result<String, Failure>,
) -> Result<Answer, Failure> {
    let before = existing(documents, &*documents.all()?, name)?;
    let mut after = before.clone();
    let message = change(&mut after)?;
    if before == after {
        return Ok(Done::already(message));
    }
    set_target_document(documents, name, &after)?;
    Ok(Done::changed(message))
}

/// Lists have no effect on a target that is open to everyone: adding a name would change nothing, but appear to.
fn allow(target: &IscsiName, rule: &mut AccessRule, who: &Who) -> Result<(), Failure> {
    if who.everyone && who.instead_of_everyone {
        return Err(Failure::usage(
            "everyone cannot be let in instead of everyone",
        ));
    }
    if rule.everyone && !who.everyone && !who.instead_of_everyone {
        let message = format!("everyone has access to {target}: adding names does not limit that");
        return Err(Failure::new(FailureKind::NeedsConfirmation, message)
            .advise("to let in only those that the lists name, add --instead-of-everyone"));
    }
    if rule.everyone && who.instead_of_everyone {
        // Entries from before everyone had access are not named now.
        *rule = AccessRule::default();
    }
    rule.everyone |= who.everyone;
    for initiator in &who.initiators {
        if !rule.initiators.contains(initiator) {
            rule.initiators.push(initiator.clone());
        }
    }
    for network in &who.networks {
        if !rule.networks.contains(network) {
            rule.networks.push(*network);
        }
    }
    Ok(())
}

/// The failure for a denial of clients that another entry of the rule allows.
fn no_effect(target: &IscsiName, why: &str) -> Failure {
    Failure::usage(format!("nothing was changed: {why}")).advise(format!(
        "deny an entry as `bulkhead target show {target}` lists it, and allow narrower networks or single initiators instead"
    ))
}

/// Removes entries. Removing the last name of a rule that also lists networks (or the reverse)
/// would extend it to any name, which a denial must never do.
fn deny(target: &IscsiName, rule: &mut AccessRule, who: &Who) -> Result<(), Failure> {
    if rule.everyone && !who.everyone {
        let message = format!("everyone has access to {target}: denying names does not limit that");
        return Err(
            Failure::new(FailureKind::NeedsConfirmation, message).advise(
                "deny --everyone as well, or name the permitted initiators: \
             `bulkhead target allow … --instead-of-everyone`",
            ),
        );
    }
    let before = rule.clone();
    rule.everyone &= !who.everyone;
    rule.initiators
        .retain(|known| !who.initiators.contains(known));
    rule.networks.retain(|known| !who.networks.contains(known));
    let widened = (!before.initiators.is_empty() && rule.initiators.is_empty())
        != (!before.networks.is_empty() && rule.networks.is_empty());
    let both = !before.initiators.is_empty() && !before.networks.is_empty();
    if both && widened && !rule.everyone {
        return Err(Failure::usage(
            "without that entry the rule's other list alone would decide, which lets more \
             clients in",
        )
        .advise("deny the entries of both lists, or allow another entry first"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use control::Secret;

    use super::super::documents::fake::FakeDocuments;
    use super::*;

    const TARGET: &str = "iqn.2026-01.org.example:tank";

    fn target() -> IscsiName {
        TARGET.parse().expect("name")
    }

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned()).expect("long enough")
    }

    /// A pool with two volumes and a target.
    fn pool() -> FakeDocuments {
        let documents = FakeDocuments::with_volumes(&["tank/a", "tank/b"]);
        let made = create(&documents, &target(), Vec::new()).expect("created");
        assert!(matches!(made, Answer::Done(Done { changed: true, .. })));
        documents
    }

    fn map_at(documents: &FakeDocuments, name: &str, lun: Option<u16>) -> Result<Answer, Failure> {
        let request = TargetRequest::Map(Map {
            name: target(),
            volume: name.parse().expect("name"),
            lun,
            read_only: false,
            write_cache: None,
        });
        perform(documents, request)
    }

    fn changed(answer: Result<Answer, Failure>) -> bool {
        match answer.expect("done") {
            Answer::Done(done) => done.changed,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn target_operations_are_idempotent() {
        let documents = pool();
        assert!(!changed(create(&documents, &target(), Vec::new())));
        assert!(changed(map_at(&documents, "tank/a", None)));
        assert!(!changed(map_at(&documents, "tank/a", None)));
        assert!(!changed(map_at(&documents, "tank/a", Some(0))));
        let unmap = || {
            TargetRequest::Unmap(Unmap {
                name: target(),
                volume: "tank/a".parse().expect("name"),
                in_use: false,
            })
        };
        assert!(changed(perform(&documents, unmap())));
        assert!(!changed(perform(&documents, unmap())));
    }

    /// The request goes to the pool of the volume, which may not be that of the target.
    #[test]
    fn a_target_of_another_pool_is_refused_with_the_rule() {
        let documents = pool();
        let other: IscsiName = "iqn.2026-01.org.example:other".parse().expect("a name");
        let map = TargetRequest::Map(Map {
            name: other.clone(),
            volume: "tank/a".parse().expect("name"),
            lun: None,
            read_only: false,
            write_cache: None,
        });
        let failure = perform(&documents, map).expect_err("it is not here");
        assert_eq!(failure.kind, FailureKind::NotFound);
        assert_eq!(failure.message, format!("pool tank has no target {other}"));
        let advice = failure.advice.unwrap_or_default();
        for part in ["volumes of its own pool only", "--pool tank"] {
            assert!(advice.contains(part), "{advice}");
        }
    }

    #[test]
    fn unit_gets_the_lowest_free_lun() {
        let documents = pool();
        assert!(changed(map_at(&documents, "tank/a", None)));
        let failure = map_at(&documents, "tank/b", Some(0)).expect_err("taken");
        assert_eq!(failure.kind, FailureKind::Exists);
        assert!(failure.message.contains("tank/a"));
        assert!(changed(map_at(&documents, "tank/b", None)));
        let (desired, problems) = desired_state("tank", &documents.all().expect("read"));
        assert!(problems.is_empty());
        assert_eq!(
            desired.targets[&target()].units[&1].volume.as_str(),
            "tank/b"
        );
    }

    /// Other software, or an older version of ours, gave two volumes one identity.
    #[test]
    fn duplicate_identity_is_replaced_at_map() {
        let documents = pool();
        map_at(&documents, "tank/a", Some(0)).expect("mapped");
        let identity = |name: &str| {
            let all = documents.all().expect("read");
            all.own(name).expect("it has some")["bulkhead:identity"].clone()
        };
        let first = identity("tank/a");
        let twin = ("bulkhead:identity".to_owned(), Some(first.clone()));
        documents.edit("tank/b", vec![twin]).expect("edited");
        map_at(&documents, "tank/b", Some(1)).expect("mapped");
        assert_eq!(identity("tank/a"), first);
        assert_ne!(identity("tank/b"), first);
    }

    #[test]
    fn identity_is_created_once_and_survives_unexport() {
        let documents = pool();
        let identity = || {
            let all = documents.all().expect("read");
            let own = all.own("tank/a");
            own.and_then(|own| own.get("bulkhead:identity")).cloned()
        };
        map_at(&documents, "tank/a", None).expect("mapped");
        let first = identity();
        assert!(first.is_some());
        map_at(&documents, "tank/a", Some(5)).expect("moved");
        destroy(&documents, &target(), true).expect("destroyed");
        assert_eq!(identity(), first);
    }

    #[test]
    fn destroyed_target_leaves_no_map_or_reservation() {
        let documents = pool();
        map_at(&documents, "tank/a", Some(3)).expect("mapped");
        let part = part_names(&target(), 3).next().expect("a name");
        let kept = vec![(part, Some("1 1 00".to_owned()))];
        documents.edit("tank/a", kept).expect("kept");
        assert!(changed(destroy(&documents, &target(), true)));
        let left = documents.all().expect("read");
        let names: Vec<_> = left.own("tank/a").expect("has some").keys().collect();
        assert_eq!(names, ["bulkhead:identity"]);
        assert_eq!(
            destroy(&documents, &target(), true).expect_err("gone").kind,
            FailureKind::NotFound
        );
    }

    #[test]
    fn target_with_units_is_destroyed_with_flag_only() {
        let documents = pool();
        assert!(changed(map_at(&documents, "tank/a", Some(3))));
        let destroy = |mapped: bool| {
            let destroy = Destroy {
                name: target(),
                in_use: false,
                mapped,
                preview: Default::default(),
            };
            perform(&documents, TargetRequest::Destroy(destroy))
        };
        let failure = destroy(false).expect_err("it asks");
        assert_eq!(failure.kind, FailureKind::NeedsConfirmation);
        assert!(failure.message.contains("tank/a"), "{failure:?}");
        assert!(
            failure
                .advice
                .is_some_and(|advice| advice.contains("--mapped"))
        );
        let all = documents.all().expect("read");
        assert!(
            all.own("tank/a")
                .is_some_and(|own| own.contains_key("bulkhead:export"))
        );
        assert!(changed(destroy(true)));
    }

    #[test]
    fn last_target_secret_is_cleared_with_flag_only() {
        let documents = pool();
        let secret = |text: &str| Secret::new(text.to_owned()).expect("long enough");
        for (user, text) in [("ann", "the first secret"), ("bob", "another secret")] {
            let set = ChapSet {
                name: target(),
                user: user.to_owned(),
                secret: secret(text),
                initiators: Vec::new(),
            };
            assert!(changed(perform(&documents, TargetRequest::ChapSet(set))));
        }
        let clear = |user: Option<&str>, no_secret: bool| {
            let clear = ChapClear {
                name: target(),
                user: user.map(str::to_owned),
                no_secret,
            };
            perform(&documents, TargetRequest::ChapClear(clear))
        };
        let asks = |outcome: Result<Answer, Failure>| {
            let failure = outcome.expect_err("it asks");
            assert_eq!(failure.kind, FailureKind::NeedsConfirmation, "{failure:?}");
            assert!(failure.message.contains("with access for: "), "{failure:?}");
        };
        asks(clear(None, false));
        assert!(changed(clear(Some("ann"), false)), "one is left");
        asks(clear(Some("bob"), false));
        let users = || {
            let show = TargetRequest::ChapShow(ChapShow { name: target() });
            match perform(&documents, show) {
                Ok(Answer::Chap(view)) => view.chap_users,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(users(), ["bob"]);
        assert!(!changed(clear(Some("nobody"), false)));
        assert!(changed(clear(Some("bob"), true)));
        assert!(!changed(clear(None, false)), "nothing is left to ask about");
    }

    #[test]
    fn missing_target_and_missing_volume_have_distinct_errors() {
        let documents = FakeDocuments::with_volumes(&["tank/a"]);
        let failure = map_at(&documents, "tank/a", None).expect_err("no target");
        assert!(failure.message.contains("no target"));
        create(&documents, &target(), Vec::new()).expect("created");
        let failure = map_at(&documents, "tank/x", None).expect_err("no volume");
        assert!(failure.message.contains("no volume"));
    }

    #[test]
    fn deny_never_admits_more_clients() {
        let name: IscsiName = "iqn.1993-08.org.debian:01:a".parse().expect("name");
        let network = "10.0.0.0/8".parse().expect("network");
        let mut rule = AccessRule {
            everyone: false,
            initiators: vec![name.clone()],
            networks: vec![network],
            identities: Vec::new(),
        };
        let one = Who {
            initiators: vec![name.clone()],
            ..Who::default()
        };
        assert!(deny(&target(), &mut rule.clone(), &one).is_err());
        let both = Who {
            initiators: vec![name],
            networks: vec![network],
            ..Who::default()
        };
        deny(&target(), &mut rule, &both).expect("both lists");
        assert!(rule.is_empty());
    }

    /// Lists have no effect if everyone is admitted.
    #[test]
    fn allow_on_an_open_target_is_refused_or_restricts_it() {
        let some = Who {
            networks: vec!["10.0.0.0/8".parse().expect("network")],
            ..Who::default()
        };
        let everyone = AccessRule {
            everyone: true,
            ..AccessRule::default()
        };
        for change in [allow, deny] {
            let mut rule = everyone.clone();
            let failure = change(&target(), &mut rule, &some).expect_err("refused");
            assert_eq!(failure.kind, FailureKind::NeedsConfirmation);
            assert_eq!(rule, everyone);
        }
        let mut rule = everyone;
        let only = Who {
            instead_of_everyone: true,
            ..some.clone()
        };
        allow(&target(), &mut rule, &only).expect("allowed");
        assert!(!rule.everyone && rule.networks == some.networks);
        let all = Who {
            everyone: true,
            ..only
        };
        assert!(allow(&target(), &mut rule, &all).is_err());
    }

    /// The lists of a rule are ignored while everyone has access.
    #[test]
    fn entries_from_before_everyone_had_access_do_not_return() {
        let old: Vec<units::Network> = vec!["192.0.2.0/24".parse().expect("network")];
        let new: Vec<units::Network> = vec!["10.0.0.0/8".parse().expect("network")];
        let mut rule = AccessRule {
            everyone: true,
            networks: old.clone(),
            initiators: vec!["iqn.2026-01.org.example:old".parse().expect("name")],
            ..AccessRule::default()
        };
        let only = Who {
            networks: new.clone(),
            instead_of_everyone: true,
            ..Who::default()
        };
        allow(&target(), &mut rule, &only).expect("allowed");
        assert_eq!(rule.summary(), "10.0.0.0/8");
        // Without everyone the flag has no effect.
        let more = Who {
            networks: old.clone(),
            ..only
        };
        allow(&target(), &mut rule, &more).expect("allowed");
        assert_eq!(rule.networks, [new, old].concat());
    }

    #[test]
    fn denial_of_an_address_in_an_allowed_network_is_refused() {
        let documents = pool();
        let who = |network: &str| Who {
            networks: vec![network.parse().expect("network")],
            ..Who::default()
        };
        let allow = |network: &str| {
            let (name, who) = (target(), who(network));
            perform(&documents, TargetRequest::Allow(Allow { name, who }))
        };
        let deny = |network: &str| {
            let (name, who) = (target(), who(network));
            perform(&documents, TargetRequest::Deny(Deny { name, who }))
        };
        assert!(changed(allow("10.0.0.0/24")));
        let refused = deny("10.0.0.5/32").expect_err("no effect");
        assert_eq!(refused.kind, FailureKind::Usage);
        let part = "10.0.0.5/32 is a part of 10.0.0.0/24, which has access";
        assert!(refused.message.contains(part), "{}", refused.message);
        assert!(!changed(deny("192.0.2.1/32")), "it has no access");
        assert!(changed(allow("10.0.0.5/32")));
        match deny("10.0.0.5/32").expect("an entry less") {
            Answer::Done(done) => assert!(done.message.ends_with(part), "{}", done.message),
            other => panic!("{other:?}"),
        }
        assert!(changed(deny("10.0.0.0/24")));
        assert!(!changed(deny("10.0.0.5/32")));
    }

    #[test]
    fn target_secret_is_sealed_and_setting_it_again_is_no_change() {
        let documents = pool();
        let set = |user: &str, text: &str| {
            TargetRequest::ChapSet(ChapSet {
                name: target(),
                user: user.to_owned(),
                secret: secret(text),
                initiators: Vec::new(),
            })
        };
        let mutual = |text: &str| {
            TargetRequest::MutualSet(MutualSet {
                name: target(),
                user: "tank".to_owned(),
                secret: secret(text),
            })
        };
        assert!(changed(perform(&documents, set("ann", "the first secret"))));
        assert!(!changed(perform(
            &documents,
            set("ann", "the first secret")
        )));
        assert!(perform(&documents, mutual("the first secret")).is_err());
        assert!(changed(perform(&documents, mutual("the other secret"))));
        assert!(!changed(perform(&documents, mutual("the other secret"))));
        assert!(perform(&documents, set("bob", "the other secret")).is_err());
        assert!(changed(perform(&documents, set("ann", "a newer secret"))));
        let kept = format!("{:?}", documents.datasets.borrow());
        assert!(kept.contains("ann") && kept.contains("sealed"));
        assert!(!kept.contains("secret"), "{kept}");
    }

    #[test]
    fn target_view_contains_no_secret() {
        let documents = pool();
        let set = TargetRequest::ChapSet(ChapSet {
            name: target(),
            user: "ann".to_owned(),
            secret: secret("twelve chars"),
            initiators: Vec::new(),
        });
        assert!(changed(perform(&documents, set)));
        let name = target();
        let shown = perform(&documents, TargetRequest::Show(Show { name })).expect("shown");
        let shown = serde_json::to_string(&shown).expect("JSON");
        assert!(shown.contains("ann") && !shown.contains("secret\""));
        assert!(!shown.contains("twelve") && !shown.contains("sealed"));
    }
}
