//! Temporary clones for the rescue of a snapshot. Each clone is recorded in the pool before it is
//! created, so that the next process that opens the pool removes the clones of a killed one.

use std::collections::BTreeSet;

use control::Failure;
use engine::dataset::{DatasetErrorKind, Depth};
use serde::{Deserialize, Serialize};
use units::{SnapshotName, VolumeName};

use super::documents::Documents;
use super::{Context, failures};

/// Prefix of the root dataset's properties that record temporary clones.
const MARK_PREFIX: &str = "bulkhead:rescue:";

/// The record of a temporary clone.
#[derive(Serialize, Deserialize)]
struct Mark {
    version: u32,
    /// The clone; no other dataset of that name is ever removed.
    clone: VolumeName,
    /// The snapshot it was created from.
    snapshot: SnapshotName,
}

/// Creates a clone of `snapshot` with a name that ends with `hex`.
pub fn make(
    context: &Context<'_>,
    snapshot: &SnapshotName,
    hex: &str,
) -> Result<VolumeName, Failure> {
    let clone: VolumeName = format!("{}.rescue-{hex}", snapshot.volume())
        .parse()
        .map_err(|error: units::NameError| Failure::usage(error.to_string()))?;
    let mark = Mark {
        version: 1,
        clone: clone.clone(),
        snapshot: snapshot.clone(),
    };
    let mark = serde_json::to_string(&mark).expect("a mark is JSON");
    set_mark(context, &clone, Some(mark))?;
    if let Err(error) = context.pool.clone_snapshot(snapshot, &clone, &[]) {
        set_mark(context, &clone, None)?;
        return Err(failures::dataset(error));
    }
    Ok(clone)
}

/// Writes the mark of a clone, or removes it.
fn set_mark(
    context: &Context<'_>,
    clone: &VolumeName,
    mark: Option<String>,
) -> Result<(), Failure> {
    let hex = clone.as_str().rsplit('-').next().unwrap_or_default();
    context.edit(&context.root(), vec![(format!("{MARK_PREFIX}{hex}"), mark)])
}

/// Destroys a temporary clone. If that fails, the next process that opens the pool destroys it.
pub fn remove(context: &Context<'_>, clone: &VolumeName) {
    let removed = match context.pool.destroy_dataset(clone, Depth::Recursive) {
        Err(error) if error.kind != DatasetErrorKind::NotFound => Err(failures::dataset(error)),
        _ => Ok(()),
    };
    context.documents.changed(clone.as_str());
    if let Err(failure) = removed.and_then(|()| set_mark(context, clone, None)) {
        tracing::warn!(%clone, %failure, "the clone of a rescue is left until the pool is opened again");
    }
}

/// Removes the clones of killed processes, except those that are `in_use`.
pub fn clean_up(context: &Context<'_>, in_use: &BTreeSet<VolumeName>) {
    let marks = match marks(context) {
        Ok(marks) => marks,
        Err(failure) => return tracing::warn!(%failure, "look for left-overs of rescues"),
    };
    for mark in marks.iter().filter(|mark| !in_use.contains(&mark.clone)) {
        let clone = &mark.clone;
        let origin = context
            .pool
            .dataset(clone.into())
            .ok()
            .map(|info| info.origin);
        // It might have been promoted or replaced with another dataset.
        let is_ours = origin.is_none_or(|origin| origin.as_deref() == Some(mark.snapshot.as_str()));
        if is_ours {
            tracing::info!(%clone, "removing a clone of an earlier rescue");
            remove(context, clone);
        } else if let Err(failure) = set_mark(context, clone, None) {
            tracing::warn!(%clone, %failure, "forget the clone of a rescue");
        }
    }
}

/// The clones that there are for rescues only.
pub fn names(context: &Context<'_>) -> Result<BTreeSet<VolumeName>, Failure> {
    let marks = marks(context)?.into_iter();
    Ok(marks.map(|mark| mark.clone).collect())
}

/// Only the root dataset is read: this must not grow with the number of volumes.
fn marks(context: &Context<'_>) -> Result<Vec<Mark>, Failure> {
    let pool = context.pool;
    let own = pool.own_user_properties(pool.name().into(), MARK_PREFIX);
    let own = own.map_err(failures::dataset)?;
    let mark = |value: &String| serde_json::from_str::<Mark>(value).ok();
    Ok(own.values().filter_map(mark).collect())
}
