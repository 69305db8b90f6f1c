//! How a suspended pool goes on. With all devices that matter it resumes. Where some are still gone that may hold what
//! those that are back lack, it cannot: what the library has written, and holds for written, is not on these. A new start
//! from what is on them has all that anybody was told to be durable, if it can be shown that they hold that, or if an
//! administrator says that the others hold no more.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use engine::capabilities::{Health, Upkeep};
use engine::pool::legs::{Doubt, Evidence, Legs, Record, Verdict};
use engine::pool::{Anew, Attempt, GoesOn};
use rustix::io::Errno;
use zpool_sys as sys;

use super::Pool;
use super::discover::{at_once, discover};
use crate::device;
use crate::error::{PoolError, PoolErrorKind, SystemError, errno};
use crate::nvlist::NvList;

const DOING: &str = "clear";
/// Beyond the time that a device may take: then whoever asked is told that it takes longer.
const ANSWER_SLACK: Duration = Duration::from_secs(5);
/// How long a device that answers again may take to do the flush that it owes.
const RELEASE_WAIT: Duration = Duration::from_secs(3);
/// How long the other devices are waited for when one answers again: what failed together often comes back together.
const RETURN_WAIT: Duration = Duration::from_secs(1);
/// Pause between two looks at such devices.
const RELEASE_LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// One attempt at a time: what one finds out must not change by what another one does. One that ends with a start from
/// the devices that are back keeps others out until that start is given up: a pool that resumed meanwhile would write to
/// devices that the next start is told to do without.
static UNDER_WAY: AtomicBool = AtomicBool::new(false);

/// Places and numbers of devices that answer.
type Answering = BTreeMap<PathBuf, u64>;

/// The devices of a pool that hold data.
struct Standings {
    pool_guid: u64,
    /// Places and numbers of all.
    places: Answering,
    /// Those that hold all that anybody was told to be durable.
    told: Record,
    /// Those that failed since they were whole, each with its latest error.
    failed: Vec<(PathBuf, i32)>,
}

impl Pool {
    fn waits(&self) -> PoolError {
        PoolError::new(DOING, self.name().as_str(), PoolErrorKind::Waits)
    }

    fn try_to_go_on(
        &self,
        device: Option<&str>,
        missing_are_not_newer: bool,
    ) -> Result<GoesOn, PoolError> {
        let attempt = UnderWay::begin().ok_or_else(|| self.waits())?;
        let is_suspended = |pool: &Self| pool.health().is_some_and(|one| one.suspended.is_some());
        let begun = Instant::now();
        let deadline = begun + device::timeout();
        let mut has_waited = false;
        loop {
            let owing = device::owing_flushes();
            let synced_txg = self.health().map_or(0, |health| health.synced_txg);
            if owing.is_empty() && !is_suspended(self) {
                let cleared = self.clear(device);
                // One group may be under way.
                let synced_txg = self.health().map_or(0, |health| health.synced_txg + 1);
                // The flush that it waited for has let it go on, perhaps before its devices were open: then it is suspended again.
                let goes_on = cleared.is_ok()
                    && (!has_waited || self.wait_until_it_writes(synced_txg, deadline).is_ok());
                if goes_on || !is_suspended(self) {
                    return cleared.map(|()| GoesOn::AsItIs);
                }
            }
            has_waited = true;
            // Asked beside the library, which cannot look at any device while one owes a flush, and which would read from
            // one that lacks something as soon as it had opened it.
            let answering = self.answering()?;
            let may = owing.iter().all(|path| answering.contains_key(path))
                && (!owing.is_empty() || self.may_go_on(&answering)?);
            match may {
                true if owing.is_empty() => {
                    self.clear_and(device, true)?;
                    drop(attempt);
                    self.wait_until_it_writes(synced_txg, deadline)?;
                    return Ok(GoesOn::AsItIs);
                }
                // It does in a moment what it owes, or the process ends.
                true if begun.elapsed() > RELEASE_WAIT => return Err(self.waits()),
                false if begun.elapsed() > RETURN_WAIT => {
                    return self.anew(attempt, &owing, &answering, missing_are_not_newer);
                }
                _ => std::thread::sleep(RELEASE_LOOK_INTERVAL),
            }
        }
    }

    /// A pool that was resumed is suspended again as soon as a write fails that it cannot do without. It goes on when
    /// a transaction group is on its devices that was not before.
    fn wait_until_it_writes(&self, synced_txg: u64, deadline: Instant) -> Result<(), PoolError> {
        loop {
            match self.health() {
                Some(now) if now.suspended.is_some() => return Err(self.suspended_again()),
                Some(now) if now.synced_txg > synced_txg => return Ok(()),
                _ if Instant::now() > deadline => return Err(self.waits()),
                _ => std::thread::sleep(RELEASE_LOOK_INTERVAL),
            }
        }
    }

    fn suspended_again(&self) -> PoolError {
        let failed = self.standings().map(|standings| standings.failed);
        let kind = PoolErrorKind::SuspendedAgain {
            failed: failed.unwrap_or_default(),
        };
        PoolError::new(DOING, self.name().as_str(), kind)
    }

    /// The devices that answer, with their numbers.
    fn answering(&self) -> Result<Answering, PoolError> {
        let standings = self.standings()?;
        let used: Vec<(PathBuf, u64)> = standings.places.into_iter().collect();
        let answers = at_once(&used, |(path, guid)| {
            device::probe(path, standings.pool_guid, *guid).is_ok()
        });
        let all = used.into_iter().zip(answers);
        Ok(all
            .filter_map(|(leaf, is_ok)| is_ok.then_some(leaf))
            .collect())
    }

    /// The status of a pool waits, while a device owes a flush, for who waits for that.
    fn standings(&self) -> Result<Standings, PoolError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the library runs; the name is copied; `raw` is a valid place.
        self.understood(unsafe { sys::bh_pool_standings(self.c_name().as_ptr(), &mut raw) })?;
        // SAFETY: the library hands the list over.
        let list = unsafe { NvList::from_raw(raw) }.unwrap_or_default();
        let list = list.view();
        let (places, told) = (list.numbers("places"), list.numbers("told"));
        let failed = list.numbers("errors").into_iter();
        Ok(Standings {
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

    /// Whether none of the other devices may hold what these lack.
    fn may_go_on(&self, answering: &Answering) -> Result<bool, PoolError> {
        let guids: Vec<u64> = answering.values().copied().collect();
        // SAFETY: the library runs; the name is copied, the numbers are read during the call.
        let code = unsafe {
            sys::bh_pool_may_go_on(self.c_name().as_ptr(), guids.as_ptr(), guids.len() as u32)
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

    /// The start that is possible with the devices that answer.
    fn anew(
        &self,
        attempt: UnderWay,
        owing: &[PathBuf],
        answering: &Answering,
        missing_are_not_newer: bool,
    ) -> Result<GoesOn, PoolError> {
        let refuse = |kind| Err(PoolError::new(DOING, self.name().as_str(), kind));
        let standings = self.standings()?;
        let places: Vec<PathBuf> = answering.keys().cloned().collect();
        let found = discover(&places).unwrap_or_default();
        let here = found
            .into_iter()
            .find(|one| one.guid == standings.pool_guid);
        let Some(here) = here.filter(|here| here.legs.is_enough()) else {
            return match owing {
                [] => refuse(PoolErrorKind::Suspended),
                owing => refuse(PoolErrorKind::FlushOwed {
                    paths: owing.to_vec(),
                }),
            };
        };
        let is_proven = here.legs.are_held_by(&standings.told);
        match (doubt_of(&here.legs), is_proven || missing_are_not_newer) {
            (Some(doubt), false) => refuse(PoolErrorKind::MayLack(Box::new(doubt))),
            (doubt, _) => Ok(GoesOn::Anew(Anew::new(
                doubt.map(|doubt| doubt.word()),
                here.legs.missing_paths(),
                Attempt::holding(attempt),
            ))),
        }
    }
}

impl Pool {
    pub(super) fn go_on_if_proven(
        &self,
        device: Option<&str>,
        missing_are_not_newer: bool,
    ) -> Result<GoesOn, PoolError> {
        let (sender, outcome) = channel();
        let (pool, device) = (self.alias(), device.map(str::to_owned));
        let attempt = move || {
            // Nobody listens any more to one that comes too late.
            let _ = sender.send(pool.try_to_go_on(device.as_deref(), missing_are_not_newer));
        };
        let thread = std::thread::Builder::new().name("pool-clear".into());
        if let Err(error) = thread.spawn(attempt) {
            tracing::warn!(%error, "no thread to clear the pool");
            return Err(self.waits());
        }
        let limit = device::timeout() + ANSWER_SLACK;
        let outcome = outcome.recv_timeout(limit);
        outcome.unwrap_or_else(|_| Err(self.waits()))
    }
}

/// What the next start will find.
fn doubt_of(legs: &Legs) -> Option<Doubt> {
    let evidence = Evidence {
        has_waited: true,
        ..Evidence::default()
    };
    match legs.judge(&evidence) {
        Verdict::Refuse(doubt) => Some(doubt),
        // One of a pool with a record of its legs is asked for that.
        Verdict::Import(_) | Verdict::Wait | Verdict::AskRecord(_) => None,
    }
}

/// The attempt that is under way, until it is dropped.
#[derive(Debug, PartialEq, Eq)]
struct UnderWay;

impl UnderWay {
    /// None while there is another one.
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
