//! Monitors the pool in a thread of its own. A status request may block on the pool, and the rest of the server must
//! not. Logs each condition that needs an administrator once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use control::answer::{PoolSpace, PoolStatus, WritesWait};
use control::legs::LegsView;
use control::{Answer, Failure, FailureKind};
use engine::Pool;
use engine::pool::Suspension;
use leg_door::{LegControl, LegRequest, LegStatus, MemberRequest};
use operations::events::{self, NewEvent};
use operations::{self, Context, DocumentCache, NoServer};
use units::VolumeName;

use super::device_return::DeviceReturn;
use super::diagnosis::Diagnosis;
use super::journal::{Journal, now_ms};
use super::last_words::ServerEnd;
use super::leg_watch::{LegWatch, is_of_leg};
use super::noticed::Noticed;
use super::room::{Refusals, Room};
use super::shared_pool::SharedPool;
use super::spares::Spares;

/// Polling interval of the pool.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Longest time that a status request is delayed for a fresh result.
const FRESH_WAIT: Duration = Duration::from_millis(300);
/// A status older than this is reported with its age.
const AGE_MAX: Duration = Duration::from_secs(2);

/// The monitor and its last status.
pub struct Watch {
    pool: Arc<SharedPool>,
    journal: Arc<Journal>,
    /// Whether the suspension was logged.
    suspended: AtomicBool,
    /// Start of the write block, in milliseconds since 1970; 0 if writes are not blocked.
    waits_since_ms: AtomicU64,
    refusals: Mutex<Refusals>,
    device_returns: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
    /// Legs on several heads.
    legs: Option<Arc<dyn LegControl>>,
    /// The end of the previous server, if it did not close the pool.
    previous_end: Option<ServerEnd>,
    leg_watch: Mutex<LegWatch>,
    noticed: Mutex<Noticed>,
}

/// The refusal of a change that would block.
pub struct Refusal {
    /// Returned to the caller.
    pub failure: Failure,
    /// Whether only an administrator can unblock the pool.
    pub is_lasting: bool,
}

#[derive(Default)]
struct State {
    seen: Option<(Instant, PoolStatus)>,
    looks: u64,
    wanted: bool,
    ended: bool,
    /// Whether datasets may be read, which competes for the disks with reconnecting clients.
    may_look_at_datasets: bool,
    /// Whether a dataset may have changed since the last read.
    is_space_stale: bool,
}

impl Watch {
    /// Starts the monitor. With `legs`, the pool status includes them; with `previous_end`, advice about a crash.
    pub fn start(
        pool: Arc<SharedPool>,
        journal: Arc<Journal>,
        legs: Option<Arc<dyn LegControl>>,
        previous_end: Option<ServerEnd>,
    ) -> std::io::Result<Arc<Self>> {
        let watch = Arc::new(Self {
            pool,
            journal,
            suspended: AtomicBool::new(false),
            waits_since_ms: AtomicU64::new(0),
            refusals: Mutex::default(),
            device_returns: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
            legs,
            previous_end,
            leg_watch: Mutex::default(),
            noticed: Mutex::default(),
        });
        // After the first request the engine has cached the pool's handle, so that later ones never block.
        watch.tick();
        let own = Arc::clone(&watch);
        std::thread::Builder::new()
            .name("pool-watch".into())
            .spawn(move || own.run())?;
        Ok(watch)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn reported_legs(&self) -> Option<LegStatus> {
        self.legs.as_ref().map(|legs| legs.show())
    }

    /// Why writes are blocked, and since when. `None` if they are not. Never blocks.
    pub fn writes_wait(&self) -> Option<WritesWait> {
        let (why, since_s) = self.writes_blocked_reason()?;
        let noted_s = self.waits_since_ms.load(Ordering::Relaxed) / 1000;
        let since = since_s.unwrap_or(match noted_s {
            0 => now_ms() / 1000,
            noted_s => noted_s,
        });
        Some(WritesWait { since, why })
    }

    /// The reason, and the start if the engine has recorded it.
    fn writes_blocked_reason(&self) -> Option<(String, Option<u64>)> {
        let health = self.pool.get().and_then(|pool| pool.health());
        let why = match health.and_then(|health| health.suspended) {
            Some(Suspension::DevicesFailed) => {
                "all I/O is blocked, because too many devices failed"
            }
            Some(Suspension::OtherHost) => "all I/O is stopped: another host may have the pool",
            None => {
                if let Some(of_legs) = self.reported_legs().filter(|told| told.do_writes_wait) {
                    let first = of_legs.advice.into_iter().next();
                    let why = first.map(|advice| advice.why).unwrap_or_default();
                    return Some((why, None));
                }
                let unrecorded = health?.unrecorded?;
                let why = "writes are blocked until a record excludes the device that failed to make them durable";
                return Some((why.to_owned(), Some(unrecorded.since_s)));
            }
        };
        Some((why.to_owned(), None))
    }

    /// Why a change of the pool would block: because devices are missing, or because a record is pending.
    pub fn refusal(&self) -> Option<Refusal> {
        let wait = self.writes_wait()?;
        let is_lasting = self.is_suspended();
        let what = match is_lasting {
            true => {
                "`bulkhead pool status` lists the devices to bring back; then `bulkhead pool clear`"
            }
            false => {
                "try again when writes are no longer blocked; `bulkhead pool status` shows why they are"
            }
        };
        let advice = self
            .reported_legs()
            .and_then(|told| told.advice.into_iter().next());
        let advice = advice.map_or_else(|| what.to_owned(), |advice| advice.what);
        let message = format!("nothing was changed: {wait}");
        Some(Refusal {
            failure: Failure::new(FailureKind::Unavailable, message).advise(advice),
            is_lasting,
        })
    }

    /// The legs with their names, if the pool has legs on several heads.
    pub fn leg_names(&self) -> Option<LegsView> {
        self.reported_legs().map(|told| told.view)
    }

    /// Whether the pool has legs on several heads.
    pub fn reports_legs(&self) -> bool {
        self.legs.is_some()
    }

    /// Handles an administrator's request for a leg. `None` if the pool has no legs on several heads.
    pub fn leg(&self, leg: &str, request: LegRequest) -> Option<Result<Answer, Failure>> {
        self.legs.as_ref().map(|legs| legs.request(leg, request))
    }

    /// Legs that failed too often and are not retried for now.
    pub fn held_legs(&self) -> Vec<String> {
        let Some(legs) = self.legs.as_ref() else {
            return Vec::new();
        };
        let legs = legs.show().view.legs.into_iter();
        legs.filter(|leg| leg.tried_again_ms.is_some())
            .map(|leg| leg.name)
            .collect()
    }

    /// Changes the members that store the record. `None` as above.
    pub fn change_members(&self, request: MemberRequest<'_>) -> Option<Result<Answer, Failure>> {
        self.legs.as_ref().map(|legs| legs.change_members(request))
    }

    /// The pool's event journal.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// Number of automatic returns of failed devices.
    pub fn device_returns(&self) -> u64 {
        self.device_returns.load(Ordering::Relaxed)
    }

    /// Stops the monitor.
    pub fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// The pool's status: fresh if the pool responds soon, otherwise with its age.
    pub fn status(&self) -> Option<(PoolStatus, Option<Duration>)> {
        self.tick();
        let mut state = self.lock();
        let looks = state.looks;
        state.wanted = true;
        self.changed.notify_all();
        let is_old = |state: &mut State| state.looks <= looks && !state.ended;
        let (state, _) = self
            .changed
            .wait_timeout_while(state, FRESH_WAIT, is_old)
            .expect("no holder panics");
        let (at, mut status) = state.seen.clone()?;
        drop(state);
        // A status request of a suspended pool may itself be stuck; this check never is.
        if self.is_suspended() && !status.suspended {
            status.suspended = true;
            status.health = "SUSPENDED".to_owned();
            status.advice = vec![operations::suspended_step(&status)];
        }
        if let (true, Some(pool)) = (status.suspended, self.pool.get()) {
            operations::note_failing(&mut status, &pool.failing_devices());
        }
        status.writes_wait = self.writes_wait();
        operations::add_write_wait(&mut status);
        if let Some(told) = self.reported_legs() {
            told.add_to(&mut status);
            self.complete_legs(&mut status);
        }
        let previous_end = self.previous_end.as_ref();
        let advice = previous_end.and_then(|end| end.advice(&status.name, now_ms()));
        status.advice.extend(advice);
        self.date(&mut status);
        let age = at.elapsed();
        Some((status, (age > AGE_MAX).then_some(age)))
    }

    /// Whether all I/O is blocked now. Never blocks.
    pub fn is_suspended(&self) -> bool {
        let health = self.pool.get().and_then(|pool| pool.health());
        health.is_some_and(|health| health.suspended.is_some())
    }

    /// Whether the pool has another owner for good. Never blocks.
    pub fn is_lost(&self) -> bool {
        self.pool.get().is_some_and(|pool| pool.is_lost())
    }

    /// Enables reads of datasets. The free space for clients depends on all of them.
    pub fn enable_dataset_reads(&self) {
        self.lock().may_look_at_datasets = true;
        self.space_changed();
    }

    /// Marks the dataset cache as stale after a change.
    pub fn space_changed(&self) {
        self.lock().is_space_stale = true;
    }

    /// Records the counts of writes to volumes and file systems that were refused for lack of space. Never blocks.
    pub fn refused(&self, refused: BTreeMap<VolumeName, u64>) {
        let space = {
            let state = self.lock();
            state.seen.as_ref().and_then(|(_, seen)| seen.space.clone())
        };
        let news = self
            .refusals()
            .look(refused, space.as_ref(), Instant::now());
        if let Some(news) = news {
            self.journal.add(news);
        }
    }

    fn leg_watch(&self) -> MutexGuard<'_, LegWatch> {
        self.leg_watch.lock().expect("no holder panics")
    }

    fn complete_legs(&self, status: &mut PoolStatus) {
        if let Some(mut legs) = status.legs.take() {
            self.leg_watch().complete(&mut legs, status, now_ms());
            status.legs = Some(legs);
        }
    }

    /// Adds to each advice the start of its cause: of a leg or a device by the events, which earlier servers wrote, too;
    /// else the time at which this server noticed it.
    fn date(&self, status: &mut PoolStatus) {
        let newest = |device: &str| {
            let newest = self.journal.newest(device, |kind| kind == "state");
            let of_device = newest.map(|(_, at_ms)| at_ms);
            of_device.or_else(|| self.journal.lost_since(device))
        };
        let mut noticed = self.noticed.lock().expect("no holder panics");
        noticed.date(status, &newest, now_ms());
    }

    /// Reports events of legs. Requires the events of earlier servers.
    fn check_legs(&self, status: &PoolStatus) {
        let known = |_: &&LegsView| self.journal.is_history_loaded();
        let Some(legs) = status.legs.as_ref().filter(known) else {
            return;
        };
        let before = |leg: &str| self.journal.newest(leg, is_of_leg);
        // The next server reads this time from the events.
        let at_ms = now_ms();
        let news = self.leg_watch().look(legs, status, &before, at_ms);
        news.into_iter()
            .for_each(|one| self.journal.add_at(one, at_ms));
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().expect("no holder panics")
    }

    /// Logs that the pool was suspended or resumed. Never blocks.
    pub fn tick(&self) {
        let noted_ms = match self.writes_blocked_reason() {
            None => 0,
            Some(_) => now_ms(),
        };
        let since = &self.waits_since_ms;
        if noted_ms == 0 || since.load(Ordering::Relaxed) == 0 {
            since.store(noted_ms, Ordering::Relaxed);
        }
        let now = self.is_suspended();
        if self.suspended.swap(now, Ordering::Relaxed) == now {
            return;
        }
        let (kind, message) = match (now, self.reports_legs()) {
            (true, true) => (
                "suspended",
                "the pool is suspended: all I/O is blocked until a complete leg is back; then its server exits, and continues \
                 on when it is started again, as by systemd and Pacemaker",
            ),
            (true, false) => (
                "suspended",
                "the pool is suspended: all I/O is blocked until its devices are back; then run \
                 `bulkhead pool clear`",
            ),
            (false, _) => ("resumed", "the pool is resumed"),
        };
        self.journal.add(NewEvent::of_pool(kind, message, now));
    }

    /// The pool's health for the service manager. Never blocks.
    pub fn health(&self) -> String {
        if self.is_suspended() {
            return "SUSPENDED".into();
        }
        if let Some(wait) = self.writes_wait() {
            return format!("WAITING: {wait}");
        }
        let state = self.lock();
        match &state.seen {
            Some((at, _)) if at.elapsed() > AGE_MAX + POLL_INTERVAL => "does not answer".into(),
            Some((_, status)) => status.health.clone(),
            None => "not checked yet".into(),
        }
    }

    fn run(&self) {
        let mut last = None;
        let mut spares = Spares::default();
        let mut room = Room::default();
        let mut device_return = DeviceReturn::default();
        let mut diagnosis = Diagnosis::default();
        loop {
            match self.look(&mut room) {
                Some(Ok(status)) => {
                    self.lock().seen = Some((Instant::now(), status.clone()));
                    let mut told = status.clone();
                    if let Some(of_legs) = self.reported_legs() {
                        of_legs.add_to(&mut told);
                    }
                    if let Some(legs) = &told.legs {
                        self.journal.set_legs(legs);
                    }
                    self.date(&mut told);
                    self.report(last.as_ref(), &status, &told);
                    self.check_legs(&told);
                    let space = status.space.as_ref();
                    let news = space.and_then(|space| room.news(&status.name, space));
                    if let Some(news) = news {
                        self.journal.add(news);
                    }
                    self.send_spares(&mut spares, &status);
                    diagnosis.look(&self.pool, &status, &self.journal, Instant::now());
                    if device_return.look(&self.pool, &told, &self.journal, Instant::now()) {
                        self.device_returns.fetch_add(1, Ordering::Relaxed);
                    }
                    last = Some(status);
                }
                // Usual while devices fail. The reported status then carries its age.
                Some(Err(failure)) => tracing::debug!(%failure, "the pool status cannot be read"),
                None => return,
            }
            let mut state = self.lock();
            state.looks += 1;
            state.wanted = false;
            self.changed.notify_all();
            let rest = |state: &mut State| !state.wanted && !state.ended;
            let (state, _) = self
                .changed
                .wait_timeout_while(state, POLL_INTERVAL, rest)
                .expect("no holder panics");
            if state.ended {
                return;
            }
        }
    }

    /// Reads the pool's status; `None` when it is closed.
    fn look(&self, room: &mut Room) -> Option<Result<PoolStatus, Failure>> {
        let pool = self.pool.get()?;
        let context = Context {
            pool: &*pool,
            hooks: &NoServer,
            documents: &DocumentCache::default(),
        };
        let mut space = self.space(&*pool, room);
        if let Some(space) = &mut space {
            self.check_for_space(&*pool);
            self.refusals().add_to(space, Instant::now());
        }
        Some(operations::pool_status(&context, space))
    }

    /// The pool's space. While devices are missing, the last value, because a read would block on them.
    fn space(&self, pool: &dyn Pool, room: &mut Room) -> Option<PoolSpace> {
        let is_stale = {
            let mut state = self.lock();
            if !state.may_look_at_datasets {
                return None;
            }
            std::mem::take(&mut state.is_space_stale)
        };
        match self.is_suspended() {
            true => room.last(),
            false => room.look(pool, is_stale),
        }
    }

    /// Checks whether volumes with refused writes have room again.
    fn check_for_space(&self, pool: &dyn Pool) {
        let full = self.refusals().full_volumes();
        if self.is_suspended() {
            return;
        }
        for volume in full {
            // A destroyed volume needs no room.
            let available = pool
                .dataset((&volume).into())
                .ok()
                .map(|info| info.available.get());
            self.refusals().has_room(&volume, available);
        }
    }

    fn send_spares(&self, spares: &mut Spares, status: &PoolStatus) {
        if let Some(pool) = self.pool.get() {
            if !status.suspended {
                spares.look(&*pool, status, &self.journal, Instant::now());
            }
        }
    }

    /// Reports changes of health, except suspensions, which [`Watch::tick`] detects at once. `told` is the new status
    /// with the details of legs.
    fn report(&self, old: Option<&PoolStatus>, new: &PoolStatus, told: &PoolStatus) {
        // Legs have events of their own, under the names that administrators use.
        let is_of_leg = |news: &NewEvent| {
            let device = news.device.as_deref();
            let mut legs = told.legs.iter().flat_map(|legs| &legs.legs);
            news.kind == "state" && legs.any(|leg| Some(leg.name.as_str()) == device)
        };
        let named = |status: &PoolStatus| {
            let mut status = PoolStatus {
                legs: told.legs.clone(),
                ..status.clone()
            };
            status.name_legs();
            status
        };
        let news = events::between(old.map(named).as_ref(), &named(new));
        for news in news.into_iter().filter(|news| !is_of_leg(news)) {
            self.journal.add(news);
        }
        let was = old.map_or("ONLINE", |old| old.health.as_str());
        if was == new.health || new.suspended {
            return;
        }
        match new.health.as_str() {
            "ONLINE" => tracing::info!(pool = new.name, "the pool is whole again"),
            health => tracing::error!(
                pool = new.name,
                health,
                advice = told.advice.first().map(ToString::to_string),
                "the pool is not whole"
            ),
        }
    }
}
