//! The parts of a volume that were written or freed from one snapshot to a later one.

use std::ops::ControlFlow;

use control::answer::{ChangedExtent, ChangesView};
use control::operations::snapshot::diff::Diff;
use control::{Answer, Failure, FailureKind};
use engine::dataset::{Change, DatasetErrorKind, DatasetInfo};
use units::SnapshotName;

use super::{Context, failures, holds, snapshot};

/// The name of the snapshot of the present contents.
const NOW_TAG: &str = "bulkhead-diff";
/// Longest list of extents.
const EXTENTS_MAX: usize = 100_000;

/// Performs the request.
pub fn perform(context: &Context<'_>, request: &Diff) -> Result<Answer, Failure> {
    let Diff { from, to } = request;
    let volume = from.volume();
    let older = look(context, from)?;
    let Some(to) = to else {
        let now = now(context, from)?;
        let found = compare(context, from, &now);
        let names = [now];
        // The next comparison destroys one that is left.
        if let Err(error) = context.pool.destroy_snapshots(&names) {
            tracing::warn!(snapshot = %names[0], %error, "is not destroyed");
        }
        let view = found?;
        return Ok(Answer::Changes(Box::new(view)));
    };
    if to.volume() != volume {
        let message = format!("{to} is no snapshot of {volume}");
        return Err(Failure::usage(message).advise("compare two snapshots of one volume"));
    }
    let newer = look(context, to)?;
    if newer.creation_txg < older.creation_txg {
        let message = format!("{to} is older than {from}");
        return Err(Failure::usage(message).advise("name the older snapshot first"));
    }
    let view = ChangesView {
        to: Some(to.clone()),
        ..compare(context, from, to)?
    };
    Ok(Answer::Changes(Box::new(view)))
}

fn look(context: &Context<'_>, name: &SnapshotName) -> Result<DatasetInfo, Failure> {
    let found = context.pool.dataset(name.into());
    let info = found.map_err(|error| match error.kind {
        DatasetErrorKind::NotFound => snapshot::no_snapshot(name),
        _ => failures::dataset(error),
    })?;
    match info.volume {
        Some(_) => Ok(info),
        None => {
            let message = format!("{} is a file system", name.volume());
            Err(Failure::usage(message).advise(
                "only volumes can be compared; clients find the files of a snapshot in .zfs/snapshot",
            ))
        }
    }
}

/// Whether this is the temporary snapshot of a comparison.
pub fn is_temporary(name: &SnapshotName) -> bool {
    name.tag() == NOW_TAG
}

/// Creates a snapshot of the present contents. One that a killed request left is destroyed first.
fn now(context: &Context<'_>, of: &SnapshotName) -> Result<SnapshotName, Failure> {
    let name = format!("{}@{NOW_TAG}", of.volume()).parse();
    let name: SnapshotName =
        name.map_err(|error: units::NameError| Failure::usage(error.to_string()))?;
    let names = [name];
    let _alone = context.hooks.alone();
    if context.pool.dataset((&names[0]).into()).is_ok() {
        let destroyed = context.pool.destroy_snapshots(&names);
        destroyed.map_err(|error| match error.kind {
            DatasetErrorKind::Busy => match holds::tag_of(context, &names[0]) {
                Some(tag) => {
                    let message = format!("{} is held by {tag}", names[0]);
                    Failure::new(FailureKind::Busy, message).advise(format!(
                        "`bulkhead snapshot release {tag} {}` removes the hold",
                        names[0]
                    ))
                }
                None => {
                    let message = format!("{} is being compared already", of.volume());
                    Failure::new(FailureKind::Busy, message).advise("repeat the command later")
                }
            },
            _ => failures::dataset(error),
        })?;
    }
    snapshot::replay(context, &names)?;
    context.pool.snapshot(&names).map_err(failures::dataset)?;
    let [name] = names;
    Ok(name)
}

fn compare(
    context: &Context<'_>,
    from: &SnapshotName,
    to: &SnapshotName,
) -> Result<ChangesView, Failure> {
    let size = look(context, to)?.volume.map(|shape| shape.size.get());
    let mut sum = Sum::new(from, size.unwrap_or_default());
    let compared = context.pool.changes(from, to, &mut |change| {
        if let Some(change) = change {
            sum.add(change);
        }
        // A stop of the server must not be delayed by a large comparison.
        match context.hooks.is_ending() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    match compared {
        Err(_) if context.hooks.is_ending() => Err(Failure::new(
            FailureKind::Unavailable,
            "the server of the pool stops: the comparison was cancelled",
        )
        .advise("repeat the command when the pool is served again")),
        compared => {
            compared.map_err(failures::dataset)?;
            Ok(sum.finish())
        }
    }
}

/// Adds changes up, and joins adjacent ones.
struct Sum {
    view: ChangesView,
    /// The size of the volume: its last block can end behind it. A locked volume has an unknown size.
    size: u64,
    last: Option<ChangedExtent>,
}

impl Sum {
    fn new(from: &SnapshotName, size: u64) -> Self {
        Self {
            view: ChangesView {
                from: from.clone(),
                to: None,
                written: 0,
                freed: 0,
                extent_count: 0,
                extents: Vec::new(),
            },
            size,
            last: None,
        }
    }

    fn add(&mut self, change: Change) {
        let Change { extent, freed } = change;
        let end = extent.offset.saturating_add(extent.length);
        let end = match self.size {
            0 => end,
            size => end.min(size),
        };
        let length = end.saturating_sub(extent.offset);
        if length == 0 {
            return;
        }
        match freed {
            true => self.view.freed += length,
            false => self.view.written += length,
        }
        match &mut self.last {
            Some(last) if last.freed == freed && last.offset + last.length == extent.offset => {
                last.length += length;
            }
            _ => {
                self.push();
                self.last = Some(ChangedExtent {
                    offset: extent.offset,
                    length,
                    freed,
                });
            }
        }
    }

    fn push(&mut self) {
        let Some(last) = self.last.take() else {
            return;
        };
        self.view.extent_count += 1;
        if self.view.extents.len() < EXTENTS_MAX {
            self.view.extents.push(last);
        }
    }

    fn finish(mut self) -> ChangesView {
        self.push();
        self.view
    }
}

#[cfg(test)]
mod tests {
    use units::Extent;

    use super::*;

    #[test]
    fn adjacent_changes_are_one_extent_within_the_size() {
        let from: SnapshotName = "tank/v@1".parse().expect("a name");
        let mut sum = Sum::new(&from, 100);
        for (offset, length, freed) in [
            (0, 16, false),
            (16, 16, false),
            (32, 16, true),
            (64, 16, false),
            (96, 16, false),
            (112, 16, true),
        ] {
            let extent = Extent::new(offset, length);
            sum.add(Change { extent, freed });
        }
        let view = sum.finish();
        assert_eq!((view.written, view.freed), (52, 16));
        let extents = view.extents.iter();
        let extents: Vec<_> = extents
            .map(|one| (one.offset, one.length, one.freed))
            .collect();
        let expected = [
            (0, 32, false),
            (32, 16, true),
            (64, 16, false),
            (96, 4, false),
        ];
        assert_eq!(extents, expected);
        assert_eq!(view.extent_count, 4);
    }
}
