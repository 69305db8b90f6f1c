//! The objects that a request destroys. They are determined before any change, and are listed in the refusal that
//! requires confirmation, in a dry run and in the response.

use std::collections::BTreeSet;

use control::answer::Done;
use control::operations::{Confirmable, Preview};
use control::{Answer, Failure, FailureKind};
use engine::dataset::{DatasetInfo, DatasetKind, Snapshots};
use units::{SnapshotName, VolumeName};

use super::{Context, failures, holds};

/// The words for no objects.
const NOTHING: &str = "nothing";

/// Maximum number of names in a sentence; the rest is counted.
const NAMED_MAX: usize = 8;
/// Maximum number of names in a response; the rest is counted.
const LISTED_MAX: usize = 10_000;

/// The end of the response to a dry run of a request that would be refused even with a confirmation.
pub fn in_current_state(refusal: Option<&Failure>) -> String {
    let sentence = refusal.map(|failure| {
        let advice = failure.advice.as_ref().map(|advice| format!(" ({advice})"));
        format!(
            "; in the current state it is refused: {}{}",
            failure.message,
            advice.unwrap_or_default()
        )
    });
    sentence.unwrap_or_default()
}

/// Datasets, snapshots and bookmarks that a request destroys.
#[derive(Debug, Default)]
pub struct Loss {
    names: Vec<String>,
    volumes: usize,
    file_systems: usize,
    incomplete: usize,
    snapshots: usize,
    bookmarks: usize,
    /// Held snapshots, which only the destruction of the pool destroys, each with a hold.
    held: Vec<String>,
    /// Sentences about the exports and shares that end with it.
    pub ended: Vec<String>,
}

impl Loss {
    /// The dataset `name`; with `recursive` all below it, and all snapshots and bookmarks.
    pub fn of_dataset(
        context: &Context<'_>,
        name: &VolumeName,
        recursive: bool,
    ) -> Result<Self, Failure> {
        let all = context.pool.datasets(name.into(), Snapshots::Include);
        let mut all = all.map_err(failures::dataset)?;
        all.retain(|info| recursive || info.name == name.as_str());
        Self::of_these(context, &all)
    }

    /// All datasets of the pool except its root.
    pub fn of_pool(context: &Context<'_>) -> Result<Self, Failure> {
        let root = context.pool.name();
        let all = context.pool.datasets(root.into(), Snapshots::Include);
        let mut all = all.map_err(failures::dataset)?;
        all.retain(|info| info.name != root.as_str());
        let mut loss = Self::of_these(context, &all)?;
        let snapshots = all.iter().filter_map(|info| info.name.parse().ok());
        loss.held = snapshots
            .filter_map(|name: SnapshotName| {
                let tag = holds::tag_of(context, &name)?;
                Some(format!("{name} (by {tag})"))
            })
            .collect();
        Ok(loss)
    }

    /// Snapshots.
    pub fn of_snapshots(names: &[SnapshotName]) -> Self {
        Self {
            names: names.iter().map(ToString::to_string).collect(),
            snapshots: names.len(),
            ..Self::default()
        }
    }

    fn of_these(context: &Context<'_>, all: &[DatasetInfo]) -> Result<Self, Failure> {
        let mut loss = Self::default();
        for info in all {
            loss.names.push(info.name.clone());
            match (info.snapshot, info.kind) {
                (true, _) => loss.snapshots += 1,
                (false, DatasetKind::Volume) => loss.volumes += 1,
                (false, DatasetKind::Filesystem) => loss.file_systems += 1,
                (false, DatasetKind::Other) => loss.incomplete += 1,
            }
            if info.snapshot {
                continue;
            }
            let Ok(name) = info.name.parse() else {
                continue;
            };
            let marks = crate::bookmarks(context.pool, &name)?;
            loss.bookmarks += marks.len();
            loss.names.extend(marks.into_iter().map(|mark| mark.name));
        }
        Ok(loss)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// The destroyed ones.
    pub fn gone(&self, context: &Context<'_>) -> Vec<String> {
        let root = context.pool.name();
        let Ok(all) = context.pool.datasets(root.into(), Snapshots::Include) else {
            return Vec::new();
        };
        let left: BTreeSet<&str> = all.iter().map(|info| info.name.as_str()).collect();
        let is_gone = |name: &&String| !name.contains('#') && !left.contains(name.as_str());
        self.names.iter().filter(is_gone).cloned().collect()
    }

    /// How many of each kind, and the names of some.
    pub fn words(&self) -> String {
        let counts = [
            (self.volumes, "volume"),
            (self.file_systems, "file system"),
            (self.incomplete, "incomplete copy"),
            (self.snapshots, "snapshot"),
            (self.bookmarks, "bookmark"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let mut counts: Vec<String> = counts
            .map(|(count, kind)| match (count, *kind) {
                (1, kind) => format!("1 {kind}"),
                (count, "incomplete copy") => format!("{count} incomplete copies"),
                (count, kind) => format!("{count} {kind}s"),
            })
            .collect();
        let last = counts.pop().unwrap_or_else(|| NOTHING.to_owned());
        let counts = match counts.is_empty() {
            true => last,
            false => format!("{} and {last}", counts.join(", ")),
        };
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let held: Vec<&str> = self.held.iter().map(String::as_str).collect();
        let held = match held.is_empty() {
            true => String::new(),
            false => format!("; held snapshots are among them: {}", some_of(&held)),
        };
        match names.is_empty() {
            true => counts,
            false => format!("{counts}: {}{held}", some_of(&names)),
        }
    }

    /// Returns the response after the destroy.
    pub fn destroyed(self, message: impl std::fmt::Display) -> Answer {
        let message = match self.names.len() {
            0 | 1 => message.to_string(),
            _ => format!("{message}: {}", self.words()),
        };
        self.answer(true, message)
    }

    fn answer(mut self, changed: bool, message: String) -> Answer {
        self.names.truncate(LISTED_MAX);
        Answer::Done(Done {
            changed,
            message,
            made: Vec::new(),
            destroyed: self.names,
        })
    }

    /// Returns the response to a dry run, or none if the request is no dry run.
    ///
    /// # Errors
    ///
    /// The request was not confirmed. `refusal`: why it would be refused even then.
    pub fn preview<T: Confirmable>(
        self,
        preview: Preview,
        refusal: Option<&Failure>,
    ) -> Result<Option<Answer>, Failure> {
        let refusal = in_current_state(refusal);
        let mut words = match self.words() {
            words if words == NOTHING => "the pool, which is empty".to_owned(),
            words => words,
        };
        if !self.ended.is_empty() {
            let ended: Vec<&str> = self.ended.iter().map(String::as_str).collect();
            words.push_str(&format!(
                "; its exports and connections would end: {}",
                some_of(&ended)
            ));
        }
        if preview.dry_run {
            let message = format!("nothing was changed; it would destroy {words}{refusal}");
            return Ok(Some(self.answer(false, message)));
        }
        if preview.ask {
            let message = format!("it would destroy {words}{refusal}");
            return Err(
                Failure::new(FailureKind::NeedsConfirmation, message).advise(format!(
                    "if you intend that, add --{}; --dry-run lists all of it",
                    T::OPTION
                )),
            );
        }
        Ok(None)
    }
}

/// The first names, and how many more there are.
pub fn some_of(names: &[&str]) -> String {
    let shown = names[..names.len().min(NAMED_MAX)].join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Returns the response to a dry run of an operation without a list.
pub fn dry_run(loss: impl std::fmt::Display) -> Answer {
    Done::already(format!("nothing was changed; {loss}"))
}
