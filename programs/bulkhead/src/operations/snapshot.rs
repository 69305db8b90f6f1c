//! Requests about snapshots.

use std::collections::BTreeSet;

use control::answer::{Done, SnapshotView};
use control::operations::snapshot::SnapshotRequest;
use control::operations::snapshot::destroy::Destroy;
use control::operations::snapshot::list::List;
use control::operations::snapshot::rename::Rename;
use control::request::Properties;
use control::{Answer, Failure, FailureKind};
use units::{SnapshotName, VolumeName};
use zpool::dataset::{DatasetErrorKind, DatasetInfo, DatasetRef, Snapshots, Value};

use super::documents::new_identity;
use super::{Context, failures, schedule, volume};
use crate::replicate;

/// Performs one request.
pub fn perform(context: &Context<'_>, request: SnapshotRequest) -> Result<Answer, Failure> {
    match request {
        SnapshotRequest::Create(request) => create(context, request.names),
        SnapshotRequest::List(List { volume }) => list(context, volume.as_ref()),
        SnapshotRequest::Destroy(Destroy { names }) => {
            let destroyed = context.pool.destroy_snapshots(&names);
            destroyed.map_err(failures::dataset)?;
            Ok(Done::changed(format!("destroyed {}", list_of(&names))))
        }
        SnapshotRequest::Rename(Rename { from, to }) => {
            super::refuse_space(to.as_str())?;
            rename(context, &from, &to)
        }
        SnapshotRequest::Clone(request) => {
            super::refuse_space(request.to.as_str())?;
            clone(context, &request.from, &request.to, &request.properties)
        }
        SnapshotRequest::Schedule(request) => schedule::perform(context, request),
    }
}

fn create(context: &Context<'_>, mut names: Vec<SnapshotName>) -> Result<Answer, Failure> {
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
        .iter()
        .try_for_each(|name| super::refuse_space(name.as_str()))?;
    replay(context, &names)?;
    context.pool.snapshot(&names).map_err(failures::dataset)?;
    Ok(Done::changed(format!("created {}", list_of(&names))))
}

/// After a crash a volume lacks what only its intent log holds until it is opened, and a
/// snapshot would lack it for ever.
pub fn replay(context: &Context<'_>, names: &[SnapshotName]) -> Result<(), Failure> {
    let volumes: BTreeSet<VolumeName> = names.iter().map(SnapshotName::volume).collect();
    for name in &volumes {
        match context.pool.is_unreplayed(name) {
            // Making the snapshot tells what is wrong.
            Err(_) | Ok(false) => {}
            Ok(true) if context.hooks.open(name)? => {}
            Ok(true) => context.pool.replay(name).map_err(failures::dataset)?,
        }
    }
    Ok(())
}

fn list_of(names: &[SnapshotName]) -> String {
    let names: Vec<&str> = names.iter().map(SnapshotName::as_str).collect();
    names.join(", ")
}

fn list(context: &Context<'_>, of: Option<&VolumeName>) -> Result<Answer, Failure> {
    let below: DatasetRef<'_> = match of {
        Some(name) => name.into(),
        None => context.pool.name().into(),
    };
    let all = context.pool.datasets(below, Snapshots::Include);
    let all = all.map_err(failures::dataset)?;
    let own = of.map(|name| format!("{name}@"));
    let is_wanted = |info: &&DatasetInfo| {
        info.snapshot && own.as_ref().is_none_or(|own| info.name.starts_with(own))
    };
    let view = |info: &DatasetInfo| {
        Some(SnapshotView {
            name: info.name.parse().ok()?,
            used: info.used.get(),
            referenced: info.referenced.get(),
            created_unix_s: Some(info.creation_time_s),
        })
    };
    let views = all.iter().filter(is_wanted).filter_map(view);
    Ok(Answer::Snapshots(views.collect()))
}

/// Clones, sends under way and bookmarks know a snapshot by its number, and notice nothing. A schedule knows
/// its own by their names, and leaves one alone that is called otherwise.
fn rename(
    context: &Context<'_>,
    from: &SnapshotName,
    to: &SnapshotName,
) -> Result<Answer, Failure> {
    if from.volume() != to.volume() {
        let message = format!("{from} cannot become {to}: a snapshot stays with its volume");
        return Err(Failure::usage(message)
            .advise("`bulkhead snapshot clone` makes a volume of it, with another name"));
    }
    let found = context.pool.dataset(from);
    found.map_err(|error| match error.kind {
        DatasetErrorKind::NotFound => no_snapshot(from),
        _ => failures::dataset(error),
    })?;
    if from == to {
        return Ok(Done::already(format!("{from} has that name")));
    }
    if let Some(own) = [from, to].into_iter().find(|name| replicate::is_own(name)) {
        let message = format!("replication finds its snapshots by names such as {own}");
        return Err(
            Failure::new(FailureKind::Busy, message).advise(match own == from {
                true => "to keep what it holds, clone it: `bulkhead snapshot clone`",
                false => "choose another name",
            }),
        );
    }
    let renamed = context.pool.rename_snapshot(from, to.tag());
    renamed.map_err(|error| match error.kind {
        DatasetErrorKind::Exists => Failure::new(
            FailureKind::Exists,
            format!("there is a snapshot {to} already"),
        ),
        _ => failures::dataset(error),
    })?;
    Ok(Done::changed(format!("renamed {from} to {to}")))
}

/// There is none of that name.
pub fn no_snapshot(name: &SnapshotName) -> Failure {
    let volume = name.volume();
    Failure::not_found(format!("there is no snapshot {name}"))
        .advise(format!("`bulkhead snapshot list {volume}` shows them"))
}

/// A clone has a new identity: to initiators it is another disk, even while its contents are
/// the same.
fn clone(
    context: &Context<'_>,
    from: &SnapshotName,
    to: &VolumeName,
    properties: &Properties,
) -> Result<Answer, Failure> {
    let (name, identity) = new_identity()?;
    let mut values = volume::values(properties);
    values.extend(identity.map(|identity| (name, Value::Text(identity))));
    let cloned = context.pool.clone_snapshot(from, to, &values);
    context.documents.changed(to.as_str());
    cloned.map_err(failures::dataset)?;
    Ok(Done::changed(format!("cloned {from} to {to}")))
}
