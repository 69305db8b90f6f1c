//! Prevents the import of a pool with a newest state that might be on missing devices: allows time for late devices,
//! and stores an administrator's confirmation until the import that it applies to.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control::{Failure, FailureKind};
use engine::pool::Candidate;
use engine::pool::legs::{Basis, Confirmation, Evidence, Verdict};
use units::PoolName;

use crate::common::Common;
use crate::engines::{self, Search};
use crate::places;

/// Polling interval for late devices.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of late devices that are watched concurrently, each on a thread; more are included at a later start.
const WATCHED_MAX: usize = 64;

/// Devices that might appear late.
#[derive(Clone, Debug, Default)]
pub struct Late {
    /// Time-out for late devices. Zero for an interactive command, which can be repeated.
    pub wait: Duration,
    /// Paths that cannot be read yet, or hang: each is read on a thread of its own.
    pub devices: Vec<PathBuf>,
    /// The devices that delay the import now.
    pub awaited: AwaitedDevices,
}

/// Missing devices that may hold newer data.
#[derive(Clone, Debug)]
pub struct Awaited {
    /// Their paths, where the present devices store them.
    pub missing: Vec<PathBuf>,
    /// The end of the wait.
    pub until: Instant,
}

/// The devices that delay an import, shared with the thread that reports the state of the pool.
#[derive(Clone, Debug, Default)]
pub struct AwaitedDevices(Arc<Mutex<Option<Awaited>>>);

impl AwaitedDevices {
    /// The import is delayed until these devices can be read, or until the time-out.
    pub fn set(&self, missing: Vec<PathBuf>, until: Instant) {
        let mut awaited = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *awaited = Some(Awaited { missing, until });
    }

    fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The devices; `None` if the import is not delayed.
    pub fn get(&self) -> Option<Awaited> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// The pool, with those devices that were `chosen`, once its newest state is surely present, and why that is so.
pub fn find(
    common: &Common,
    pool: &PoolName,
    late: &Late,
    word: Option<&Confirmation>,
    chosen: &[PathBuf],
) -> Result<(Candidate, Basis), Failure> {
    let begun = Instant::now();
    let mut arrivals: Option<Arrivals> = None;
    loop {
        let arrived = arrivals
            .as_ref()
            .map_or_else(Vec::new, Arrivals::arrived_paths);
        let candidate = places::candidate_among(common, pool, &arrived, chosen)?;
        let evidence = Evidence {
            // A record that is stored elsewhere would be queried here.
            record: None,
            word,
            has_waited: begun.elapsed() >= late.wait,
        };
        match candidate.devices.legs.judge(&evidence) {
            Verdict::Import(basis) => {
                late.awaited.clear();
                return Ok((candidate, basis));
            }
            Verdict::Refuse(doubt) => return Err(operations::refusal(pool.as_str(), &doubt)),
            Verdict::NeedsRecord(number) => {
                let file = Path::new(leg_door::DEFAULT_PATH);
                return Err(operations::has_record(pool.as_str(), number, file));
            }
            Verdict::Wait => {
                let missing = candidate.devices.legs.missing_paths();
                late.awaited.set(missing, begun + late.wait);
                arrivals.get_or_insert_with(|| {
                    let wait_s = late.wait.as_secs();
                    tracing::warn!(%pool, wait_s, "waiting for devices that might hold newer data");
                    Arrivals::watch(late, begun + late.wait)
                });
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }
}

/// Devices that are readable by now. A thread that is blocked by a disk exits with the process.
struct Arrivals(Arc<Mutex<Vec<PathBuf>>>);

impl Arrivals {
    fn watch(late: &Late, until: Instant) -> Self {
        let arrived = Arc::new(Mutex::new(Vec::new()));
        for device in late.devices.iter().take(WATCHED_MAX) {
            let (arrived, device) = (Arc::clone(&arrived), device.clone());
            let watch = move || {
                while Instant::now() < until {
                    let found = engines::discover(Search::Places(std::slice::from_ref(&device)));
                    if found.is_ok_and(|found| !found.is_empty()) {
                        arrived
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(device);
                        return;
                    }
                    std::thread::sleep(POLL_INTERVAL);
                }
            };
            let thread = std::thread::Builder::new().name("late-device".into());
            if let Err(error) = thread.spawn(watch) {
                tracing::warn!(%error, "no thread to wait for a device");
            }
        }
        Self(arrived)
    }

    fn arrived_paths(&self) -> Vec<PathBuf> {
        let arrived = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.clone()
    }
}

fn file_of(common: &Common, pool: &PoolName) -> PathBuf {
    common.settings.state_dir.join(format!("{pool}.word"))
}

/// Returns the confirmation for `pool` on this host, if there is one.
pub fn word(common: &Common, pool: &PoolName) -> Option<Confirmation> {
    let bytes = std::fs::read(file_of(common, pool)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Removes the confirmation durably, before it is used.
pub fn consume(common: &Common, pool: &PoolName) -> Result<(), Failure> {
    let path = file_of(common, pool);
    let removed = std::fs::remove_file(&path).and_then(|()| sync_directory(&path));
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let message = format!("remove the used confirmation, {}: {error}", path.display());
            Err(Failure::new(FailureKind::Failed, message))
        }
        _ => Ok(()),
    }
}

fn sync_directory(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::File::open(folder)?.sync_all()
}

/// Stores the confirmation for the next start on this host.
pub fn keep(common: &Common, pool: &PoolName, word: &Confirmation) -> Result<(), Failure> {
    let path = file_of(common, pool);
    let write = || {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, serde_json::to_vec(word)?)
    };
    write().map_err(Failure::of(format!("write {}", path.display())))
}
