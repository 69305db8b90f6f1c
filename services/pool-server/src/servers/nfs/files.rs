//! The open file systems.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use control::exports::Problem;
use control::failure::chain;
use engine::dataset::{DatasetError, DatasetErrorKind};
use file_system::{FileSystem, FileSystemId};
use units::VolumeName;

use super::super::super::shared_pool::SharedPool;
use super::lazy_files::LazyFiles;
use crate::volumes::CLOSERS_MAX;

/// File systems that are opened concurrently: each may have a log to replay.
const OPENERS_MAX: usize = 4;

/// File systems that are opened before their clients connect. With more of them, each is opened by its first use, or
/// after the clients have reconnected.
const OPENED_FIRST_MAX: usize = 16;

/// Reconnecting clients need the processors and the disks first.
const OTHERS_WAIT: Duration = Duration::from_secs(2);

/// The open file systems by the names of their datasets.
#[derive(Default)]
pub struct OpenFiles {
    all: BTreeMap<String, Arc<LazyFiles>>,
    /// A set was opened before, so that clients may be active.
    has_begun: bool,
}

/// The result of opening.
#[derive(Debug, Default)]
pub struct Opened {
    /// File systems that are not served, with the causes.
    pub problems: Vec<Problem>,
    /// Some open later: clients must retry.
    pub has_waiting: bool,
    /// A retry may succeed without any change.
    pub has_failed: bool,
}

impl OpenFiles {
    /// The names of the shared file systems.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// The files of one file system.
    pub fn get(&self, name: &str) -> Option<Arc<dyn FileSystem>> {
        self.all.get(name).map(|open| Arc::clone(open) as Arc<_>)
    }

    /// Changes refused for lack of space, by name. The pool's root file system has no such name and is omitted.
    pub fn refused_for_space(&self) -> Vec<(VolumeName, u64)> {
        let all = self.all.iter();
        let refused = all.filter_map(|(name, open)| {
            let count = open.refused_for_space();
            Some((name.parse().ok().filter(|_| count > 0)?, count))
        });
        refused.collect()
    }

    /// Whether a deferred open has failed.
    pub fn has_failed(&self) -> bool {
        self.all.values().any(|one| one.has_failed())
    }

    /// Adds the missing members of `wanted` and opens them, which replays their logs; a large number is opened later.
    /// May block.
    pub fn open_all<'a>(
        &mut self,
        pool: &Arc<SharedPool>,
        wanted: impl Iterator<Item = (&'a String, FileSystemId)>,
    ) -> Opened {
        // Earlier failures may be resolved: these are retried with the rest.
        self.all.retain(|_, one| one.take_failure().is_none());
        let mut absent = Vec::new();
        for (name, id) in wanted {
            if !self.all.contains_key(name) {
                let one = Arc::new(LazyFiles::new(Arc::clone(pool), name.clone(), id));
                self.all.insert(name.clone(), Arc::clone(&one));
                absent.push(one);
            }
        }
        if !std::mem::replace(&mut self.has_begun, true) && absent.len() > OPENED_FIRST_MAX {
            open_later(absent);
        } else {
            open_now(&absent);
        }
        let mut opened = Opened::default();
        self.all.retain(|name, one| match one.take_failure() {
            Some(error) => {
                opened.note(name, &error);
                false
            }
            None => true,
        });
        opened
    }

    /// Renames `from` and all below it.
    pub fn renamed(&mut self, from: &VolumeName, to: &VolumeName) {
        let moved = |name: &String| {
            let known: VolumeName = name.parse().ok()?;
            Some((name.clone(), known.moved(from, to)?))
        };
        let all: Vec<_> = self.all.keys().filter_map(moved).collect();
        for (old, new) in all {
            if let Some(open) = self.all.remove(&old) {
                open.renamed(new.to_string());
                self.all.insert(new.to_string(), open);
            }
        }
    }

    /// Closes all that are not wanted. May block.
    pub fn keep_only(&mut self, is_wanted: impl Fn(&str) -> bool) {
        let all = std::mem::take(&mut self.all).into_iter();
        let (kept, unwanted): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.partition(|(name, _)| is_wanted(name));
        self.all = kept;
        // Each close blocks for a commit of the pool, and concurrent ones share it.
        let unwanted: Vec<_> = unwanted.into_values().collect();
        let share = unwanted.len().div_ceil(CLOSERS_MAX).max(1);
        std::thread::scope(|scope| {
            for some in unwanted.chunks(share) {
                scope.spawn(move || some.iter().for_each(|one| one.close()));
            }
        });
    }
}

impl Opened {
    fn note(&mut self, name: &str, error: &DatasetError) {
        let sentence = match &error.kind {
            // It was destroyed after the listing.
            DatasetErrorKind::NotFound => return,
            DatasetErrorKind::KeyMissing => {
                self.has_waiting = true;
                let load = control::key::how_to_load("filesystem", name);
                format!("its key is missing, and clients of NFS are paused: {load}")
            }
            DatasetErrorKind::KeyOutdated => {
                self.has_waiting = true;
                format!(
                    "its key is missing, and clients of NFS are paused: {}",
                    error.kind
                )
            }
            DatasetErrorKind::FileSystemRefused { .. } => {
                format!("it is not shared over NFS: {}", error.kind)
            }
            _ => {
                (self.has_waiting, self.has_failed) = (true, true);
                let error = chain(error);
                format!("clients of NFS are paused, and this is retried every few seconds: {error}")
            }
        };
        self.problems.push(Problem {
            subject: name.to_owned(),
            sentence,
        });
    }
}

/// Opens these concurrently.
fn open_now(these: &[Arc<LazyFiles>]) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..OPENERS_MAX.min(these.len()) {
            scope.spawn(|| {
                while let Some(one) = these.get(next.fetch_add(1, Ordering::Relaxed)) {
                    one.open_now();
                }
            });
        }
    });
}

/// Opens these in the background. A client that uses one of them opens it first.
fn open_later(these: Vec<Arc<LazyFiles>>) {
    let work = move || {
        std::thread::sleep(OTHERS_WAIT);
        let started = Instant::now();
        open_now(&these);
        let took_ms = started.elapsed().as_millis() as u64;
        tracing::info!(count = these.len(), took_ms, "shared file systems opened");
    };
    let thread = std::thread::Builder::new().name("nfs-opens".into());
    // Without the thread, each is opened by its first use.
    if let Err(error) = thread.spawn(work) {
        tracing::warn!(%error, "cannot open shared file systems in the background");
    }
}
