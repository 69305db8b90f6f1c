//! Takes a volume back to a snapshot, also while clients use it. Everything that can be refused is
//! refused before anything is changed; the exchange itself is one transaction group, so that a
//! crash leaves the old or the new contents.

use std::time::{Duration, Instant};

use control::answer::RolledBack;
use control::{Answer, Failure, FailureKind};
use engine::dataset::{DatasetErrorKind, DatasetInfo, DatasetKind, Snapshots};
use engine::transfer::Bookmark;
use units::{SnapshotName, VolumeName};

use super::documents::no_volume;
use super::{Context, failures, filesystem, transfer, volume};

/// Snapshots that a refusal names; the others are counted.
const NAMED_MAX: usize = 8;

/// What a server did to exchange the contents of a volume that it serves.
#[derive(Clone, Copy, Debug)]
pub struct ContentsSwapped {
    /// How long clients waited.
    pub pause: Duration,
    /// iSCSI sessions that were told.
    pub sessions_told: u64,
    /// NBD connections that were closed.
    pub connections_closed: u64,
}

/// Performs the request.
pub fn perform(
    context: &Context<'_>,
    to: &SnapshotName,
    destroy_newer: bool,
) -> Result<Answer, Failure> {
    let begun = Instant::now();
    let name = to.volume();
    let (before, snapshots) = look(context, &name)?;
    let newer = newer(context, to, &snapshots)?;
    if !newer.is_empty() {
        refuse_clones(context, &newer.snapshots)?;
        if !destroy_newer {
            return Err(newer_are_lost(&name, &newer));
        }
    }
    // So that little is left to be written while clients wait.
    context.pool.sync().map_err(failures::pool)?;
    if before.volume.is_none() {
        return files(context, to, &newer, begun);
    }
    let destroy = || newer.destroy(context);
    let exchanged = context.hooks.swap_contents(&name, &mut |paused| {
        destroy()?;
        let done = paused.rollback(to);
        done.map_err(failures::dataset)
    })?;
    if exchanged.is_none() {
        // A log that waits would otherwise be replayed over the old contents.
        context.pool.replay(&name).map_err(failures::dataset)?;
        destroy()?;
        context.pool.rollback(to).map_err(failures::dataset)?;
    }
    let adjusted = context.pool.adjust_reservation(&before);
    adjusted.map_err(failures::dataset)?;
    let now = context
        .pool
        .dataset((&name).into())
        .map_err(failures::dataset)?;
    Ok(Answer::RolledBack(RolledBack {
        to: to.clone(),
        size: now.volume.map_or(0, |shape| shape.size.get()),
        destroyed: newer.snapshots,
        took_ms: begun.elapsed().as_millis() as u64,
        pause_ms: exchanged.map(|done| done.pause.as_millis() as u64),
        sessions_told: exchanged.map_or(0, |done| done.sessions_told),
        connections_closed: exchanged.map_or(0, |done| done.connections_closed),
    }))
}

/// Takes a file system back. It is closed meanwhile, and its clients wait: what they have open and the snapshot has not is
/// stale for them afterwards.
fn files(
    context: &Context<'_>,
    to: &SnapshotName,
    newer: &Newer,
    begun: Instant,
) -> Result<Answer, Failure> {
    let name = to.volume();
    let is_in_use = !filesystem::clients(context, &name).is_empty();
    let closed = Instant::now();
    let done = {
        let _closed = context.close(&name);
        take_back(context, to, newer)
    };
    // Whatever came of it is served again.
    let served = context.hooks.exports_changed();
    let pause = closed.elapsed();
    done.and(served)?;
    Ok(Answer::RolledBack(RolledBack {
        to: to.clone(),
        size: 0,
        destroyed: newer.snapshots.clone(),
        took_ms: begun.elapsed().as_millis() as u64,
        pause_ms: is_in_use.then_some(pause.as_millis() as u64),
        sessions_told: 0,
        connections_closed: 0,
    }))
}

fn take_back(context: &Context<'_>, to: &SnapshotName, newer: &Newer) -> Result<(), Failure> {
    // A log that waits would otherwise be replayed over the old files.
    let replayed = context.pool.replay(&to.volume());
    replayed.map_err(failures::dataset)?;
    newer.destroy(context)?;
    context.pool.rollback(to).map_err(failures::dataset)
}

/// The volume or file system, and its snapshots.
fn look(
    context: &Context<'_>,
    name: &VolumeName,
) -> Result<(DatasetInfo, Vec<DatasetInfo>), Failure> {
    let all = context.pool.datasets(name.into(), Snapshots::Include);
    let mut all = all.map_err(|error| match error.kind {
        DatasetErrorKind::NotFound => no_volume(name),
        _ => failures::dataset(error),
    })?;
    let at = all.iter().position(|info| info.name == name.as_str());
    let Some(before) = at.map(|at| all.swap_remove(at)) else {
        return Err(no_volume(name));
    };
    match (before.volume, before.kind) {
        (Some(shape), _) => volume::refuse_locked(name, shape)?,
        (None, DatasetKind::Filesystem) => {}
        (None, _) => {
            return Err(Failure::usage(format!(
                "{name} is not complete: it is being received"
            )));
        }
    }
    let prefix = format!("{name}@");
    all.retain(|info| info.snapshot && info.name.starts_with(&prefix));
    Ok((before, all))
}

/// What is newer than the snapshot that a volume is taken back to, and is in the way.
#[derive(Default)]
struct Newer {
    /// Oldest first.
    snapshots: Vec<SnapshotName>,
    bookmarks: Vec<Bookmark>,
}

impl Newer {
    fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && self.bookmarks.is_empty()
    }

    fn destroy(&self, context: &Context<'_>) -> Result<(), Failure> {
        if !self.snapshots.is_empty() {
            let destroyed = context.pool.destroy_snapshots(&self.snapshots);
            destroyed.map_err(failures::dataset)?;
        }
        for mark in &self.bookmarks {
            let destroyed = context.pool.destroy_bookmark(mark);
            destroyed.map_err(transfer::failure)?;
        }
        Ok(())
    }
}

/// What is newer than `to`.
fn newer(
    context: &Context<'_>,
    to: &SnapshotName,
    snapshots: &[DatasetInfo],
) -> Result<Newer, Failure> {
    let Some(target) = snapshots.iter().find(|info| info.name == to.as_str()) else {
        return Err(super::snapshot::no_snapshot(to));
    };
    let mut newer: Vec<&DatasetInfo> = snapshots
        .iter()
        .filter(|info| info.creation_txg > target.creation_txg)
        .collect();
    newer.sort_by_key(|info| info.creation_txg);
    let unnameable = |name: &str| {
        Failure::new(
            FailureKind::Failed,
            format!("the newer snapshot {name} has a name that is not understood"),
        )
        .advise("destroy it with the program that made it")
    };
    let parsed = newer
        .into_iter()
        .map(|info| info.name.parse().map_err(|_| unnameable(&info.name)));
    let bookmarks = context.pool.bookmarks(&to.volume());
    let mut bookmarks = bookmarks.map_err(transfer::failure)?;
    bookmarks.retain(|mark| mark.creation_txg > target.creation_txg);
    Ok(Newer {
        snapshots: parsed.collect::<Result<_, _>>()?,
        bookmarks,
    })
}

/// A clone of a newer snapshot would lose its ground.
fn refuse_clones(context: &Context<'_>, newer: &[SnapshotName]) -> Result<(), Failure> {
    let all = context
        .pool
        .datasets(context.pool.name().into(), Snapshots::Skip);
    let all = all.map_err(failures::dataset)?;
    let is_of_newer = |origin: &str| newer.iter().any(|one| one.as_str() == origin);
    let clones: Vec<&str> = all
        .iter()
        .filter(|info| info.origin.as_deref().is_some_and(is_of_newer))
        .map(|info| info.name.as_str())
        .collect();
    let Some(first) = clones.first() else {
        return Ok(());
    };
    let message = format!(
        "newer snapshots have {} clone(s): {}",
        clones.len(),
        some_of(&clones)
    );
    Err(Failure::new(FailureKind::Busy, message).advise(format!(
        "destroy the clones first, or make each independent: `bulkhead volume promote {first}`"
    )))
}

fn newer_are_lost(name: &VolumeName, newer: &Newer) -> Failure {
    let tags = newer.snapshots.iter().map(SnapshotName::tag);
    let marks = newer
        .bookmarks
        .iter()
        .map(|mark| &mark.name[name.as_str().len()..]);
    let lost: Vec<&str> = tags.chain(marks).collect();
    let what = match newer.bookmarks.is_empty() {
        true => "newer snapshot(s)",
        false => "newer snapshot(s) and bookmark(s)",
    };
    let message = format!(
        "{name} has {} {what}, which would be lost: {}",
        lost.len(),
        some_of(&lost)
    );
    Failure::new(FailureKind::NeedsConfirmation, message).advise(
        "if that is what you want, add --destroy-newer; a clone of the older one loses nothing",
    )
}

fn some_of(names: &[&str]) -> String {
    let shown = names[..names.len().min(NAMED_MAX)].join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
