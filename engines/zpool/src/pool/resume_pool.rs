//! Resumes a suspended pool. It resumes with all devices that matter. If missing devices may have data that the
//! returned ones miss, it cannot: the writes that the library assumes complete are not on these. A restart from the
//! returned devices has all acknowledged data if their labels prove that, or if an administrator confirms that the
//! missing ones have no newer data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use engine::Opaque;
use engine::capabilities::{Health, Upkeep};
use engine::pool::legs::{Doubt, Evidence, Legs, Record, Verdict};
use engine::pool::{Restart, Resumption};
use rustix::io::Errno;
use zpool_sys as sys;

use super::Pool;
use super::discover::{at_once, discover};
use crate::device;
use crate::error::{PoolError, PoolErrorKind, SystemError, errno};
use crate::nvlist::NvList;

const DOING: &str = "clear";
/// Slack beyond a device's time-out; then the caller gets the reply that it is still in progress.
const RESPONSE_SLACK: Duration = Duration::from_secs(5);
/// How long a returned device may need for its pending flush.
const RELEASE_WAIT: Duration = Duration::from_secs(3);
/// How long to wait for the remaining devices when one returns: devices that failed together often return together.
const RETURN_WAIT: Duration = Duration::from_secs(1);
/// Pause between two checks of such devices.
const RELEASE_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// One attempt at a time: the state that one has determined must not be changed by a second one. An attempt that leads
/// to a restart from the returned devices excludes further ones until that restart is abandoned: a pool that resumed
/// before would write to devices that the restart is to exclude.
static UNDER_WAY: AtomicBool = AtomicBool::new(false);

/// Paths and numbers of devices that respond.
type Responding = BTreeMap<PathBuf, u64>;

/// The devices of a pool that hold data.
struct LeafStates {
    pool_guid: u64,
    /// Indices and numbers of all.
    places: Responding,
    /// The devices that have all acknowledged data.
    told: Record,
    /// Those that failed since they were whole, each with its latest error.
    failed: Vec<(PathBuf, i32)>,
}

impl Pool {
    fn waits(&self) -> PoolError {
        PoolError::new(DOING, self.name().as_str(), PoolErrorKind::Waits)
    }

    fn try_resume(
        &self,
        device: Option<&str>,
        missing_are_not_newer: bool,
    ) -> Result<Resumption, PoolError> {
        let attempt = UnderWay::begin().ok_or_else(|| self.waits())?;
        let is_suspended = |pool: &Self| pool.health().is_some_and(|one| one.suspended.is_some());
        let begun = Instant::now();
        let deadline = begun + device::timeout();
        let mut has_waited = false;
        loop {
            let owing = device::devices_with_failed_flush();
            let synced_txg = self.health().map_or(0, |health| health.synced_txg);
            if owing.is_empty() && !is_suspended(self) {
                let cleared = self.clear(device);
                // One group may be in progress.
                let synced_txg = self.health().map_or(0, |health| health.synced_txg + 1);
                // The pending flush has resumed it, perhaps before its devices were open: then it is suspended again.
                let goes_on = cleared.is_ok()
                    && (!has_waited || self.wait_until_it_writes(synced_txg, deadline).is_ok());
                if goes_on || !is_suspended(self) {
                    return cleared.map(|()| Resumption::InPlace);
                }
            }
            has_waited = true;
            // Probed separately from the library, which cannot check any device while one has a pending flush, and
            // which would read from an outdated device as soon as it had opened it.
            let answering = self.answering()?;
            let may = owing.iter().all(|path| answering.contains_key(path))
                && (!owing.is_empty() || self.may_resume(&answering)?);
            match may {
                true if owing.is_empty() => {
                    self.clear_and(device, true)?;
                    drop(attempt);
                    self.wait_until_it_writes(synced_txg, deadline)?;
                    return Ok(Resumption::InPlace);
                }
                // Its pending flush completes shortly, or the process terminates.
                true if begun.elapsed() > RELEASE_WAIT => return Err(self.waits()),
                false if begun.elapsed() > RETURN_WAIT => {
                    return self.possible_restart(
                        attempt,
                        &owing,
                        &answering,
                        missing_are_not_newer,
                    );
                }
                _ => std::thread::sleep(RELEASE_CHECK_INTERVAL),
            }
        }
    }

    /// A resumed pool is suspended again as soon as a write fails that it cannot do without. It has resumed when a new
    /// transaction group is on its devices.
    fn wait_until_it_writes(&self, synced_txg: u64, deadline: Instant) -> Result<(), PoolError> {
        loop {
            match self.health() {
                Some(now) if now.suspended.is_some() => return Err(self.suspended_again()),
                Some(now) if now.synced_txg > synced_txg => return Ok(()),
                _ if Instant::now() > deadline => return Err(self.waits()),
                _ => std::thread::sleep(RELEASE_CHECK_INTERVAL),
            }
        }
    }

    fn suspended_again(&self) -> PoolError {
        let failed = self.leaf_states().map(|leaf_states| leaf_states.failed);
        let kind = PoolErrorKind::SuspendedAgain {
            failed: failed.unwrap_or_default(),
        };
        PoolError::new(DOING, self.name().as_str(), kind)
    }

    /// The devices that respond, with their numbers.
    fn answering(&self) -> Result<Responding, PoolError> {
        let leaf_states = self.leaf_states()?;
        let used: Vec<(PathBuf, u64)> = leaf_states.places.into_iter().collect();
        let answers = at_once(&used, |(path, guid)| {
            device::probe(path, leaf_states.pool_guid, *guid).is_ok()
        });
        let all = used.into_iter().zip(answers);
        Ok(all
            .filter_map(|(leaf, is_ok)| is_ok.then_some(leaf))
            .collect())
    }

    /// While a device has a pending flush, the status of a pool blocks on it.
    fn leaf_states(&self) -> Result<LeafStates, PoolError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the library runs; the name is copied; `raw` is valid for the result.
        self.understood(unsafe { sys::bh_pool_sync_states(self.c_name().as_ptr(), &mut raw) })?;
        // SAFETY: the library returns the list.
        let list = unsafe { NvList::from_raw(raw) }.unwrap_or_default();
        let list = list.view();
        let (places, told) = (list.numbers("places"), list.numbers("told"));
        let failed = list.numbers("errors").into_iter();
        Ok(LeafStates {
            pool_guid: list.u64("pool_guid").unwrap_or(0),
            places: places
                .into_iter()
                .map(|(path, guid)| (PathBuf::from(path), guid))
                .collect(),
            told: Record {
                number: 0,
                current: told.into_iter().map(|(_, guid)| guid).collect(),
            },
            failed: failed
                .filter_map(|(path, error)| Some((PathBuf::from(path), i32::try_from(error).ok()?)))
                .collect(),
        })
    }

    /// Whether none of the missing devices can have data that these miss.
    fn may_resume(&self, answering: &Responding) -> Result<bool, PoolError> {
        let guids: Vec<u64> = answering.values().copied().collect();
        // SAFETY: the library runs; the name is copied, the numbers are read during the call.
        let code = unsafe {
            sys::bh_pool_may_resume(self.c_name().as_ptr(), guids.as_ptr(), guids.len() as u32)
        };
        match errno(code) {
            Errno::STALE => Ok(false),
            _ => self.understood(code).map(|()| true),
        }
    }

    fn understood(&self, code: i32) -> Result<(), PoolError> {
        SystemError::check(code)
            .map_err(|cause| PoolError::common(DOING, self.name().as_str(), cause))
    }

    /// The restart that is possible with the devices that respond.
    fn possible_restart(
        &self,
        attempt: UnderWay,
        owing: &[PathBuf],
        answering: &Responding,
        missing_are_not_newer: bool,
    ) -> Result<Resumption, PoolError> {
        let refuse = |kind| Err(PoolError::new(DOING, self.name().as_str(), kind));
        let leaf_states = self.leaf_states()?;
        let places: Vec<PathBuf> = answering.keys().cloned().collect();
        let found = discover(&places).unwrap_or_default();
        let here = found
            .into_iter()
            .find(|one| one.guid == leaf_states.pool_guid);
        let Some(here) = here.filter(|here| here.devices.legs.is_enough()) else {
            return match owing {
                [] => refuse(PoolErrorKind::Suspended),
                owing => refuse(PoolErrorKind::FlushOwed {
                    paths: owing.to_vec(),
                }),
            };
        };
        let is_proven = here.devices.legs.are_held_by(&leaf_states.told);
        match (
            doubt_of(&here.devices.legs),
            is_proven || missing_are_not_newer,
        ) {
            (Some(doubt), false) => refuse(PoolErrorKind::MayMissData(Box::new(doubt))),
            (doubt, _) => Ok(Resumption::Restart(Restart::new(
                doubt.map(|doubt| doubt.word()),
                here.devices.legs.missing_paths(),
                Opaque::new(attempt),
            ))),
        }
    }
}

impl Pool {
    pub(super) fn resume_if_proven(
        &self,
        device: Option<&str>,
        missing_are_not_newer: bool,
    ) -> Result<Resumption, PoolError> {
        let (sender, outcome) = channel();
        let (pool, device) = (self.alias(), device.map(str::to_owned));
        let attempt = move || {
            // The receiver of a late result may be gone.
            let _ = sender.send(pool.try_resume(device.as_deref(), missing_are_not_newer));
        };
        let thread = std::thread::Builder::new().name("pool-clear".into());
        if let Err(error) = thread.spawn(attempt) {
            tracing::warn!(%error, "no thread to clear the pool");
            return Err(self.waits());
        }
        let limit = device::timeout() + RESPONSE_SLACK;
        let outcome = outcome.recv_timeout(limit);
        outcome.unwrap_or_else(|_| Err(self.waits()))
    }
}

/// The result of the next start's check.
fn doubt_of(legs: &Legs) -> Option<Doubt> {
    let evidence = Evidence {
        has_waited: true,
        ..Evidence::default()
    };
    match legs.judge(&evidence) {
        Verdict::Refuse(doubt) => Some(doubt),
        // A pool with a record of its legs is decided by that.
        Verdict::Import(_) | Verdict::Wait | Verdict::NeedsRecord(_) => None,
    }
}

/// The active attempt, until it is dropped.
#[derive(Debug, PartialEq, Eq)]
struct UnderWay;

impl UnderWay {
    /// `None` while another attempt is active.
    fn begin() -> Option<Self> {
        match UNDER_WAY.swap(true, Ordering::AcqRel) {
            true => None,
            false => Some(Self),
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.store(false, Ordering::Release);
    }
}
