//! Limits of the operator role: it must not change, as a side effect, the properties that a dataset inherits from its
//! parent, or Bulkhead's own properties, which only their commands set.

use std::collections::{BTreeMap, BTreeSet};

use control::effect::GOVERNED_BY_PARENT;
use control::exports::PROPERTY_PREFIX;
use control::replication::REPLICATE_PROPERTY;
use control::request::{FilesystemRequest, Properties, VolumeRequest};
use control::schedule::SCHEDULE_PROPERTY;
use control::{Failure, FailureKind, Request};
use engine::dataset::{DatasetKind, DatasetRef, Property, PropertySource};
use units::{SnapshotName, VolumeName};

use super::documents::{All, Documents as _};
use super::{Context, failures, filesystem, replicate};

/// Refuses a request with a Bulkhead property: those are set by their own commands, which keep them consistent.
pub fn refuse_own(request: &Request) -> Result<(), Failure> {
    let Some(changed) = request.operation().properties() else {
        return Ok(());
    };
    refuse_own_names(changed.names.into_iter())
}

/// As [`refuse_own`], for the names of properties.
pub fn refuse_own_names<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    match names.find(|name| name.starts_with(PROPERTY_PREFIX)) {
        None => Ok(()),
        Some(name) => Err(Failure::usage(format!("property {name} is Bulkhead's own"))
            .advise("the commands for exports, schedules and replication set it")),
    }
}

/// Refuses to serve a replicated copy before it is promoted: its contents change under its clients, and no trusted user
/// of this side has verified them.
pub fn refuse_to_serve_copies(context: &Context<'_>, request: &Request) -> Result<(), Failure> {
    let shares = |properties: &Properties| {
        let share = properties.get(filesystem::SHARE);
        share.is_some_and(|share| share != filesystem::OFF)
    };
    let share = match request {
        Request::Volume(VolumeRequest::Set(set)) if shares(&set.properties) => Some(&set.name),
        Request::Filesystem(FilesystemRequest::Set(set)) if shares(&set.properties) => {
            Some(&set.name)
        }
        Request::Volume(VolumeRequest::Inherit(inherit)) if is_share(&inherit.names) => {
            Some(&inherit.name)
        }
        Request::Filesystem(FilesystemRequest::Inherit(inherit)) if is_share(&inherit.names) => {
            Some(&inherit.name)
        }
        _ => None,
    };
    let exported = request.operation().exporting().map(VolumeName::as_str);
    let Some(name) = exported.or(share.map(String::as_str)) else {
        return Ok(());
    };
    let copies = replicate::copies(context)?;
    if !copies.iter().any(|copy| copy.as_str() == name) {
        return Ok(());
    }
    let message = format!("{name} is a copy that replication made");
    Err(Failure::new(FailureKind::Busy, message).advise(format!(
        "promote it (`bulkhead replicate promote {name}`), or clone one of its snapshots and serve that"
    )))
}

fn is_share(names: &[String]) -> bool {
    names.iter().any(|name| name == filesystem::SHARE)
}

/// Governed properties that mean nothing to a volume.
const OF_FILES: [&str; 5] = ["aclinherit", "aclmode", "acltype", "sharenfs", "snapdir"];

/// The properties that a dataset inherits by its name.
struct InheritedRules {
    name: String,
    kind: DatasetKind,
    /// The governed properties that are set on it or above it, or have a default.
    governed: BTreeMap<String, Property>,
    /// The schedule that covers it.
    schedule: Option<String>,
    /// Where it is replicated to, by each document at or above it.
    replicated: BTreeSet<String>,
}

impl InheritedRules {
    fn of(context: &Context<'_>, name: &str) -> Result<Self, Failure> {
        let dataset = DatasetRef::from_checked(name);
        let kind = context
            .pool
            .dataset(dataset)
            .map_err(failures::dataset)?
            .kind;
        let found = context.pool.dataset_properties(dataset);
        let found = found.map_err(failures::dataset)?.into_iter();
        let governed = found.filter(|(name, _)| GOVERNED_BY_PARENT.contains(&name.as_str()));
        let all = context.all()?;
        Ok(Self {
            name: name.to_owned(),
            kind,
            governed: governed.collect(),
            schedule: at_or_above(&all, name, SCHEDULE_PROPERTY).next(),
            replicated: at_or_above(&all, name, REPLICATE_PROPERTY).collect(),
        })
    }

    /// The nearest dataset above `name` that exists.
    fn above(context: &Context<'_>, name: &VolumeName) -> Result<Self, Failure> {
        let mut at = name.as_str();
        while let Some((parent, _)) = at.rsplit_once('/') {
            at = parent;
            if context.pool.dataset(DatasetRef::from_checked(at)).is_ok() {
                break;
            }
        }
        Self::of(context, at)
    }

    /// The value of a property. A property without a default that is set nowhere is `off`.
    fn value(&self, name: &str) -> String {
        let property = self.governed.get(name);
        property.map_or_else(|| "off".to_owned(), |property| property.value.to_string())
    }

    /// Returns whether the dataset has a local value, independent of its name.
    fn is_its_own(&self, name: &str) -> bool {
        let source = self.governed.get(name).map(|property| &property.source);
        matches!(
            source,
            Some(PropertySource::Local | PropertySource::Received)
        )
    }

    /// Refuses if an inherited property that `is_meant` has another value at `place`.
    fn refuse_other(
        &self,
        place: &Self,
        to: &str,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        let is_volume = self.kind == DatasetKind::Volume;
        for name in GOVERNED_BY_PARENT {
            let has_meaning = !is_volume || !OF_FILES.contains(name);
            let (here, there) = (self.value(name), place.value(name));
            if has_meaning && here != there && is_meant(name) {
                let of = &self.name;
                return Err(denied(format!(
                    "{of} has {name}={here}, and {to} would have {name}={there}"
                )));
            }
        }
        Ok(())
    }
}

/// The values of a property of ours on a dataset and those above it, the nearest first.
fn at_or_above<'a>(
    all: &'a All,
    name: &'a str,
    property: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let datasets = std::iter::successors(Some(name), |name| Some(name.rsplit_once('/')?.0));
    datasets.filter_map(move |name| all.own(name)?.get(property).cloned())
}

fn denied(message: String) -> Failure {
    Failure::new(FailureKind::Denied, message)
        .advise("this needs the role admin, or a parent with the same value")
}

/// Refuses a clone that would have other governed properties than the dataset of its snapshot, or be replicated where that is not.
pub fn refuse_other_clone(
    context: &Context<'_>,
    from: &SnapshotName,
    to: &VolumeName,
) -> Result<(), Failure> {
    let origin = InheritedRules::of(context, from.volume().as_str())?;
    let place = InheritedRules::above(context, to)?;
    origin.refuse_other(&place, to.as_str(), |_| true)?;
    match place.replicated.is_subset(&origin.replicated) {
        true => Ok(()),
        false => Err(denied(format!(
            "{to} would be replicated, and {} is not",
            origin.name
        ))),
    }
}

/// Refuses a new name by which a dataset, or one below it, would have other governed properties, another schedule, or be replicated
/// elsewhere. Those below inherit from it, or from above it just as it does.
pub fn refuse_other_location(
    context: &Context<'_>,
    from: &VolumeName,
    to: &VolumeName,
) -> Result<(), Failure> {
    let moved = InheritedRules::of(context, from.as_str())?;
    let (before, after) = (
        InheritedRules::above(context, from)?,
        InheritedRules::above(context, to)?,
    );
    moved.refuse_other(&after, to.as_str(), |name| !moved.is_its_own(name))?;
    let all = context.all()?;
    let own = all.own(from.as_str());
    let has_own_schedule = own.is_some_and(|own| own.contains_key(SCHEDULE_PROPERTY));
    refuse_other_rules(&before, &after, has_own_schedule)
}

/// Refuses a promotion that would give snapshots to a clone with other governed properties, another schedule or other replication than
/// the dataset has that owns them.
pub fn refuse_other_owner(
    context: &Context<'_>,
    clone: &VolumeName,
    origin: &str,
) -> Result<(), Failure> {
    let owner = origin.split('@').next().unwrap_or(origin);
    let owner = InheritedRules::of(context, owner)?;
    let heir = InheritedRules::of(context, clone.as_str())?;
    owner.refuse_other(&heir, clone.as_str(), |_| true)?;
    refuse_other_rules(&owner, &heir, false)
}

fn refuse_other_rules(
    before: &InheritedRules,
    after: &InheritedRules,
    has_own_schedule: bool,
) -> Result<(), Failure> {
    let (here, there) = (&before.name, &after.name);
    if !has_own_schedule && before.schedule != after.schedule {
        return Err(denied(format!(
            "{here} and {there} have different schedules of snapshots"
        )));
    }
    match before.replicated == after.replicated {
        true => Ok(()),
        false => Err(denied(format!(
            "{here} and {there} are not replicated to the same places"
        ))),
    }
}
