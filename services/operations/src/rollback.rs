//! Rolls a volume back to a snapshot, also while clients use it. All checks precede the first
//! change. The swap itself is one transaction group, so that after a crash the volume has the old
//! or the new contents.

use std::time::{Duration, Instant};

use control::answer::{Done, RolledBack};
use control::operations::Preview;
use control::{Answer, Failure, FailureKind};
use engine::dataset::{DatasetErrorKind, DatasetInfo, DatasetKind, Snapshots};
use engine::transfer::Bookmark;
use units::{SnapshotName, VolumeName};

use super::documents::no_volume;
use super::loss::{self, some_of};
use super::{Context, directory_names, failures, filesystem, holds, replicate, transfer, volume};
use crate::needs;

/// The effects of a swap of the contents of a served volume.
#[derive(Clone, Copy, Debug)]
pub struct ContentsSwapped {
    /// How long clients waited.
    pub pause: Duration,
    /// iSCSI sessions that were notified.
    pub sessions_told: u64,
    /// NBD connections that were closed.
    pub connections_closed: u64,
}

/// Performs the request.
pub fn perform(
    context: &Context<'_>,
    to: &SnapshotName,
    destroy_newer: bool,
    preview: Preview,
) -> Result<Answer, Failure> {
    let begun = Instant::now();
    let name = to.volume();
    let (before, snapshots) = look(context, &name)?;
    let newer = newer(context, to, &snapshots)?;
    if preview.is_wanted() {
        let refusal = refuse_dependents(context, &newer).and_then(|()| match before.volume {
            Some(_) => Ok(()),
            None => directory_names::refuse_hidden(context, to),
        });
        return Ok(newer.preview(context, to, refusal.err()));
    }
    if !newer.is_empty() {
        refuse_clones(context, &newer.snapshots)?;
        if !destroy_newer {
            return Err(newer_are_lost(context, &name, &newer));
        }
        holds::refuse_held(context, &newer.snapshots)?;
    }
    if before.volume.is_none() {
        directory_names::refuse_hidden(context, to)?;
    }
    // So that little is left to be written while clients wait.
    context.pool.sync().map_err(failures::pool)?;
    if before.volume.is_none() {
        return files(context, to, &newer, begun);
    }
    let size = size_of(&snapshots, to);
    let grows = before.volume.is_some_and(|now| size > Some(now.size));
    if let Some(size) = size.filter(|_| grows) {
        let adjusted = context.pool.adjust_reservation(&before, size);
        adjusted.map_err(failures::dataset)?;
    }
    let exchanged = exchange(context, to, &newer).inspect_err(|_| {
        if grows {
            volume::reserve_as(context, &name, &before);
        }
    })?;
    // The swap is done: later failures must not be reported as a refusal.
    if let Some(size) = size.filter(|_| !grows) {
        volume::restore_reservation(&name, context.pool.adjust_reservation(&before, size));
    }
    let size = size.or(before.volume.map(|now| now.size));
    Ok(Answer::RolledBack(RolledBack {
        to: to.clone(),
        size: size.map_or(0, units::ByteCount::get),
        destroyed_bookmarks: newer.bookmark_names(),
        destroyed: newer.snapshots,
        took_ms: begun.elapsed().as_millis() as u64,
        pause_ms: exchanged.map(|done| done.pause.as_millis() as u64),
        sessions_told: exchanged.map_or(0, |done| done.sessions_told),
        connections_closed: exchanged.map_or(0, |done| done.connections_closed),
    }))
}

/// The size of the volume in the snapshot.
fn size_of(snapshots: &[DatasetInfo], to: &SnapshotName) -> Option<units::ByteCount> {
    let found = snapshots.iter().find(|info| info.name == to.as_str())?;
    Some(found.volume?.size)
}

/// Exchanges the contents of a volume, under its clients if it is served.
fn exchange(
    context: &Context<'_>,
    to: &SnapshotName,
    newer: &Newer,
) -> Result<Option<ContentsSwapped>, Failure> {
    let name = to.volume();
    let exchanged = context.hooks.swap_contents(&name, &mut |paused| {
        newer.destroy(context)?;
        let done = paused.rollback(to);
        done.map_err(failures::dataset)
    })?;
    if exchanged.is_none() {
        take_back(context, to, newer)?;
    }
    Ok(exchanged)
}

/// Rolls a file system back. It is closed during the rollback and its clients are blocked. Their open files that do not
/// exist in the snapshot become stale.
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
    // In any outcome it is served again.
    let served = context.hooks.exports_changed();
    let pause = closed.elapsed();
    done.and(served)?;
    Ok(Answer::RolledBack(RolledBack {
        to: to.clone(),
        size: 0,
        destroyed: newer.snapshots.clone(),
        destroyed_bookmarks: newer.bookmark_names(),
        took_ms: begun.elapsed().as_millis() as u64,
        pause_ms: is_in_use.then_some(pause.as_millis() as u64),
        sessions_told: 0,
        connections_closed: 0,
    }))
}

fn take_back(context: &Context<'_>, to: &SnapshotName, newer: &Newer) -> Result<(), Failure> {
    // A pending intent log would otherwise be replayed over the old contents.
    if let Ok(logs) = context.pool.logs() {
        logs.replay(&to.volume()).map_err(failures::dataset)?;
    }
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

/// Newer snapshots and clones that prevent a rollback.
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

    fn names(&self) -> Vec<String> {
        let snapshots = self.snapshots.iter().map(ToString::to_string);
        snapshots.chain(self.bookmark_names()).collect()
    }

    fn bookmark_names(&self) -> Vec<String> {
        let marks = self.bookmarks.iter();
        marks.map(|mark| mark.name.clone()).collect()
    }

    /// Returns the response to a dry run. `refusal`: why the rollback would be refused even with a confirmation.
    fn preview(self, context: &Context<'_>, to: &SnapshotName, refusal: Option<Failure>) -> Answer {
        let destroyed = self.names();
        let names: Vec<&str> = destroyed.iter().map(String::as_str).collect();
        let loses = replicate::loses(context, &to.volume(), &destroyed);
        let newer = match names.is_empty() {
            true => String::new(),
            false => format!(
                ", and {} newer snapshot(s) and bookmark(s): {}",
                names.len(),
                some_of(&names)
            ),
        };
        let message = format!(
            "nothing was changed; all writes to {} since {to} would be lost{newer}{loses}{}",
            to.volume(),
            loss::in_current_state(refusal.as_ref())
        );
        Answer::Done(Done {
            changed: false,
            message,
            made: Vec::new(),
            destroyed,
        })
    }

    fn destroy(&self, context: &Context<'_>) -> Result<(), Failure> {
        if !self.snapshots.is_empty() {
            let destroyed = context.pool.destroy_snapshots(&self.snapshots);
            destroyed.map_err(failures::dataset)?;
        }
        for mark in &self.bookmarks {
            let destroyed = needs(context.pool.sending())?.destroy_bookmark(mark);
            destroyed.map_err(transfer::failure)?;
        }
        Ok(())
    }
}

/// Returns the snapshots and bookmarks newer than `to`.
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
        .advise("destroy it with the software that created it")
    };
    let parsed = newer
        .into_iter()
        .map(|info| info.name.parse().map_err(|_| unnameable(&info.name)));
    let mut bookmarks = crate::bookmarks(context.pool, &to.volume())?;
    bookmarks.retain(|mark| mark.creation_txg > target.creation_txg);
    Ok(Newer {
        snapshots: parsed.collect::<Result<_, _>>()?,
        bookmarks,
    })
}

/// Refuses to destroy newer snapshots with clones or holds.
fn refuse_dependents(context: &Context<'_>, newer: &Newer) -> Result<(), Failure> {
    refuse_clones(context, &newer.snapshots)?;
    holds::refuse_held(context, &newer.snapshots)
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

fn newer_are_lost(context: &Context<'_>, name: &VolumeName, newer: &Newer) -> Failure {
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
        "{name} has {} {what}, which would be lost: {}{}",
        lost.len(),
        some_of(&lost),
        replicate::loses(context, name, &newer.names())
    );
    Failure::new(FailureKind::NeedsConfirmation, message)
        .advise("if you intend that, add --destroy-newer; a clone of the older one loses nothing")
}
