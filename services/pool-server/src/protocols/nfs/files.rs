//! The file systems that are open.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ::nfs::snapshots::WithSnapshots;
use control::exports::Problem;
use control::failure::chain;
use engine::dataset::{DatasetError, DatasetErrorKind, DatasetRef};
use engine::{OpenFileSystem, Pool};
use file_system::FileSystem;
use units::VolumeName;

use crate::volumes::CLOSERS_MAX;

/// File systems that are opened at a time: each may have a log to replay.
const OPENERS_MAX: usize = 4;

/// By the names of their datasets.
#[derive(Default)]
pub struct OpenFiles(BTreeMap<String, Open>);

struct Open {
    dataset: Box<dyn OpenFileSystem>,
    /// With its snapshots.
    files: Arc<dyn FileSystem>,
}

impl Open {
    fn new(dataset: Box<dyn OpenFileSystem>) -> Self {
        let files = dataset.files();
        let files = match dataset.snapshots() {
            Some(snapshots) => Arc::new(WithSnapshots::new(files, snapshots)),
            None => files,
        };
        Self { dataset, files }
    }
}

/// How opening went.
#[derive(Debug, Default)]
pub struct Opened {
    /// What is not served, and why.
    pub problems: Vec<Problem>,
    /// Some will be there later: clients shall wait for them.
    pub has_waiting: bool,
    /// Another attempt may succeed without a word from anybody.
    pub has_failed: bool,
}

type Outcome = Result<Box<dyn OpenFileSystem>, DatasetError>;

impl OpenFiles {
    /// Those that are open.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The files of one of them.
    pub fn get(&self, name: &str) -> Option<Arc<dyn FileSystem>> {
        self.0.get(name).map(|open| Arc::clone(&open.files))
    }

    /// Those of which changes were refused for lack of space, and how many. The pool's own file system has no name of that kind.
    pub fn refused_for_space(&self) -> Vec<(VolumeName, u64)> {
        let all = self.0.iter();
        let refused = all.filter_map(|(name, open)| {
            let count = open.dataset.refused_for_space();
            Some((name.parse().ok().filter(|_| count > 0)?, count))
        });
        refused.collect()
    }

    /// Opens those of `names` that are not open, which replays their logs. May block.
    pub fn open_all<'a>(
        &mut self,
        pool: &dyn Pool,
        names: impl Iterator<Item = &'a String>,
    ) -> Opened {
        let absent: Vec<&String> = names.filter(|name| !self.0.contains_key(*name)).collect();
        let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..OPENERS_MAX.min(absent.len()) {
                scope.spawn(|| {
                    while let Some(name) = absent.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let opened = pool.open_file_system(DatasetRef::from_checked(name), false);
                        let mut outcomes = outcomes.lock().expect("no holder panics");
                        outcomes.push(((*name).clone(), opened));
                    }
                });
            }
        });
        let mut outcomes = outcomes.into_inner().expect("no holder panics");
        outcomes.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut opened = Opened::default();
        for (name, outcome) in outcomes {
            if let Some(open) = opened.note(&name, outcome) {
                self.0.insert(name, Open::new(open));
            }
        }
        opened
    }

    /// `from`, and all below it, has another name.
    pub fn renamed(&mut self, from: &VolumeName, to: &VolumeName) {
        let moved = |name: &String| {
            let known: VolumeName = name.parse().ok()?;
            Some((name.clone(), known.moved(from, to)?))
        };
        let all: Vec<_> = self.0.keys().filter_map(moved).collect();
        for (old, new) in all {
            if let Some(open) = self.0.remove(&old) {
                self.0.insert(new.to_string(), open);
            }
        }
    }

    /// Closes all that are not wanted. May block.
    pub fn keep_only(&mut self, is_wanted: impl Fn(&str) -> bool) {
        let all = std::mem::take(&mut self.0).into_iter();
        let (kept, unwanted): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.partition(|(name, _)| is_wanted(name));
        self.0 = kept;
        // Each waits for the pool's commit, and one commit serves all who wait for it.
        let unwanted: Vec<_> = unwanted.into_values().collect();
        let share = unwanted.len().div_ceil(CLOSERS_MAX).max(1);
        std::thread::scope(|scope| {
            for some in unwanted.chunks(share) {
                scope.spawn(move || some.iter().for_each(|one| one.dataset.close()));
            }
        });
    }
}

impl Opened {
    fn note(&mut self, name: &str, outcome: Outcome) -> Option<Box<dyn OpenFileSystem>> {
        let error = match outcome {
            Ok(open) => return Some(open),
            Err(error) => error,
        };
        let sentence = match &error.kind {
            // It was destroyed since it was listed.
            DatasetErrorKind::NotFound => return None,
            DatasetErrorKind::KeyMissing | DatasetErrorKind::KeyOutdated => {
                self.has_waiting = true;
                format!("it waits for its key, and clients of NFS wait for it: {}", error.kind)
            }
            DatasetErrorKind::FileSystemRefused { .. } => {
                format!("it is not shared over NFS: {}", error.kind)
            }
            _ => {
                (self.has_waiting, self.has_failed) = (true, true);
                let error = chain(&error);
                format!("clients of NFS wait for it, and it is tried again every few seconds: {error}")
            }
        };
        self.problems.push(Problem {
            subject: name.to_owned(),
            sentence,
        });
        None
    }
}
