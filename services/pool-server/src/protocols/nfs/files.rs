//! The file systems that are open.

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

/// File systems that are opened at a time: each may have a log to replay.
const OPENERS_MAX: usize = 4;

/// File systems that are opened before their clients come. Where there are more, each is opened by its first use, or when clients have come back.
const OPENED_FIRST_MAX: usize = 16;

/// Clients that come back first want the processors, and the disks.
const OTHERS_WAIT: Duration = Duration::from_secs(2);

/// By the names of their datasets.
#[derive(Default)]
pub struct OpenFiles {
    all: BTreeMap<String, Arc<LazyFiles>>,
    /// Some were looked at before: clients of these are there.
    has_begun: bool,
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

impl OpenFiles {
    /// Those that are shared.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// The files of one of them.
    pub fn get(&self, name: &str) -> Option<Arc<dyn FileSystem>> {
        self.all.get(name).map(|open| Arc::clone(open) as Arc<_>)
    }

    /// Those of which changes were refused for lack of space, and how many. The pool's own file system has no name of that kind.
    pub fn refused_for_space(&self) -> Vec<(VolumeName, u64)> {
        let all = self.all.iter();
        let refused = all.filter_map(|(name, open)| {
            let count = open.refused_for_space();
            Some((name.parse().ok().filter(|_| count > 0)?, count))
        });
        refused.collect()
    }

    /// Whether one that was to be opened later could not be.
    pub fn has_failed(&self) -> bool {
        self.all.values().any(|one| one.has_failed())
    }

    /// Adds those of `wanted` that are not there, and opens them, which replays their logs; many at once are opened later. May block.
    pub fn open_all<'a>(&mut self, pool: &Arc<SharedPool>, wanted: impl Iterator<Item = (&'a String, FileSystemId)>) -> Opened {
        // What went wrong with those of before may be well now: they are tried with the others.
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

    /// `from`, and all below it, has another name.
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
        // Each waits for the pool's commit, and one commit serves all who wait for it.
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
            // It was destroyed since it was listed.
            DatasetErrorKind::NotFound => return,
            DatasetErrorKind::KeyMissing | DatasetErrorKind::KeyOutdated => {
                self.has_waiting = true;
                format!("it waits for its key, and clients of NFS wait for it: {}", error.kind)
            }
            DatasetErrorKind::FileSystemRefused { .. } => {
                format!("it is not shared over NFS: {}", error.kind)
            }
            _ => {
                (self.has_waiting, self.has_failed) = (true, true);
                let error = chain(error);
                format!("clients of NFS wait for it, and it is tried again every few seconds: {error}")
            }
        };
        self.problems.push(Problem {
            subject: name.to_owned(),
            sentence,
        });
    }
}

/// Opens these, several at a time.
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

/// Opens these behind the back of clients, who come first where they want one of them.
fn open_later(these: Vec<Arc<LazyFiles>>) {
    let work = move || {
        std::thread::sleep(OTHERS_WAIT);
        let started = Instant::now();
        open_now(&these);
        let took_ms = started.elapsed().as_millis() as u64;
        tracing::info!(count = these.len(), took_ms, "shared file systems opened");
    };
    let thread = std::thread::Builder::new().name("nfs-opens".into());
    // Without it, each is opened by its first use.
    if let Err(error) = thread.spawn(work) {
        tracing::warn!(%error, "open shared file systems before they are used");
    }
}
