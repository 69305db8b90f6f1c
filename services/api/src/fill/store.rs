//! The files with the histories of fill: one for each pool, named by its GUID. `docs/formats/fill.md` specifies them.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use control::answer::Status;
use serde::{Deserialize, Serialize};

use crate::accounts::{WriteStep, replace_private_by_steps};

use super::{ForecastView, GrowthView, History, Sample, forecast};

/// The directory of the files, in the state directory.
const DIRECTORY: &str = "fill";
/// The version of the format.
const VERSION: u32 = 1;
/// Longest file, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Most pools with a history. A further pool replaces the one with the oldest newest sample.
const POOLS_MAX: usize = 64;
/// Most entries of the directory that are read.
const ENTRIES_MAX: usize = 1024;

/// A file.
#[derive(Deserialize)]
struct Stored {
    version: u32,
    history: History,
}

/// The same, not copied.
#[derive(Serialize)]
struct ToStore<'a> {
    version: u32,
    history: &'a History,
}

/// The histories of all pools that this head has seen.
pub struct FillStore {
    directory: PathBuf,
    /// Whether this process records samples; the rest only reads them.
    is_writer: bool,
    /// By GUID.
    pools: Mutex<BTreeMap<u64, History>>,
}

impl FillStore {
    /// The histories in the state directory.
    pub fn open(state_dir: &Path, is_writer: bool) -> Self {
        let directory = state_dir.join(DIRECTORY);
        let pools = load_all(&directory);
        Self {
            directory,
            is_writer,
            pools: Mutex::new(pools),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, History>> {
        self.pools.lock().expect("no holder panics")
    }

    /// Adds the state of pools, by their names, at `now_s`. Stores the first sample of each hour of a pool; blocks until
    /// it is durable.
    pub fn note(&self, statuses: &BTreeMap<String, Arc<Status>>, now_s: u64) {
        if !self.is_writer {
            return;
        }
        let mut pools = self.lock();
        for (name, status) in statuses {
            let guid = status.pool.guid.parse::<u64>().ok();
            let Some((guid, sample)) = guid.zip(Sample::of(&status.pool, now_s)) else {
                continue;
            };
            let history = pools.entry(guid).or_default();
            if !history.note(name, &sample) {
                continue;
            }
            if let Err(error) = write_history(&self.file(guid), history, &mut |_| Ok(())) {
                // The sample is in memory, and is written with the one of the next hour.
                tracing::warn!(%error, pool = name, "store the history of fill");
            }
            self.drop_oldest(&mut pools, guid);
        }
    }

    fn file(&self, guid: u64) -> PathBuf {
        self.directory.join(format!("{guid}.json"))
    }

    /// Removes the history beyond the bound, other than that of `present`.
    fn drop_oldest(&self, pools: &mut BTreeMap<u64, History>, present: u64) {
        if pools.len() <= POOLS_MAX {
            return;
        }
        let others = pools.iter().filter(|(guid, _)| **guid != present);
        let oldest = others.min_by_key(|(_, history)| history.hours.keys().next_back().copied());
        let Some(guid) = oldest.map(|(guid, _)| *guid) else {
            return;
        };
        pools.remove(&guid);
        if let Err(error) = std::fs::remove_file(self.file(guid)) {
            tracing::debug!(%error, guid, "remove the history of fill of a pool");
        }
    }

    /// When the pool with this GUID will be full.
    pub fn forecast(&self, guid: &str, now_s: u64) -> Option<ForecastView> {
        let guid = guid.parse::<u64>().ok()?;
        let pools = self.lock();
        Some(forecast::of(pools.get(&guid)?, now_s))
    }

    /// The history of the last `days` days of the pool with this name; of several, of the one that was seen last.
    pub fn view(&self, pool: &str, now_s: u64, days: usize) -> Option<GrowthView> {
        let pools = self.lock();
        let same = pools.values().filter(|history| history.pool == pool);
        let newest = same.max_by_key(|history| history.newest(now_s).map(|sample| sample.at))?;
        Some(newest.view(now_s, days))
    }
}

fn load_all(directory: &Path) -> BTreeMap<u64, History> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        // There is none before the first sample.
        return BTreeMap::new();
    };
    let files = entries.take(ENTRIES_MAX).filter_map(|entry| {
        let path = entry.ok()?.path();
        let name = path.file_name()?.to_str()?;
        let guid = name.strip_suffix(".json")?.parse::<u64>().ok()?;
        Some((guid, path))
    });
    let histories = files.filter_map(|(guid, path)| match load(&path) {
        Ok(history) => Some((guid, history)),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "the history of fill begins again: the file is not readable");
            None
        }
    });
    histories.take(POOLS_MAX).collect()
}

/// Reads a file. Its contents are untrusted: the length is bounded, and so is each list.
pub(super) fn load(path: &Path) -> io::Result<History> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("it is too long"));
    }
    let stored: Stored = serde_json::from_slice(&text)?;
    if stored.version != VERSION {
        return Err(io::Error::other("it is of another version"));
    }
    let mut history = stored.history;
    history.bound();
    Ok(history)
}

/// Replaces the file, so that it has the old contents or the new ones after a power loss. `before` can stop it before
/// each step.
pub(super) fn write_history(
    path: &Path,
    history: &History,
    before: &mut dyn FnMut(WriteStep) -> io::Result<()>,
) -> io::Result<()> {
    let text = serde_json::to_vec(&ToStore {
        version: VERSION,
        history,
    })?;
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    replace_private_by_steps(path, &text, before)
}
