//! Paces scans, which are scrubs and resilvers: they yield to clients, and have the bound of an administrator.
//!
//! The library calls [`step`] before each step of a scan, on a thread of the scan (`native/zfs-shim/scan_pace.c`).
//!
//! **Transaction groups.** A scan runs inside a group. It leaves the group after [`SLICE`] if a client waits for the
//! next one, so that clients' changes never pile up behind it.
//!
//! **Latency.** While clients are active, few bytes are in flight for a scan, at a rate of its own. In each
//! [`PERIOD`] the scan rests for [`REST`], so that the latencies of client requests at the devices are known with and
//! without it. The rate is lowered while clients are much slower during the scan, and raised otherwise. So it adapts to
//! disks, networks and processors alike. It never falls below [`RATE_MIN`]: a scan completes however busy clients are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zpool_sys as sys;

use super::pace;

/// What a scan has of a group that is awaited.
const SLICE: Duration = Duration::from_millis(50);
/// The same while writers are delayed, because the memory for changes is nearly full.
const SLICE_SHORT: Duration = Duration::from_millis(10);
/// Bytes in flight while clients are active; one read may exceed it.
const WINDOW_BYTES: u64 = 256 << 10;
/// Longest block of a thread of the scan, which then looks for an export of the pool.
const BLOCK_MAX: Duration = Duration::from_millis(20);
/// A scan that overslept makes up for so much.
const LATE_MAX: Duration = Duration::from_millis(20);
/// A scan reads ahead of its rate for so long, and then waits: a wait for each block would cost more than its read.
const AHEAD: Duration = Duration::from_millis(4);

/// One measurement of the latency of clients with and without the scan.
const PERIOD: Duration = Duration::from_millis(200);
/// The end of it, without the scan.
const REST: Duration = Duration::from_millis(50);
/// Bytes a second while clients are active: the first rate, and the limits.
const RATE_FIRST: u64 = 24 << 20;
const RATE_MIN: u64 = 4 << 20;
const RATE_MAX: u64 = 4 << 30;
/// Fewer requests of clients say nothing about their latency.
const SAMPLES_MIN: u32 = 20;
/// Requests are sampled for so long after the last step of a scan.
const SAMPLED_AFTER: Duration = Duration::from_secs(1);
/// Classes of latency in a doubling.
const CLASSES_PER_DOUBLING: usize = 4;
/// From a microsecond to more than a minute.
const CLASSES: usize = CLASSES_PER_DOUBLING * 27;
/// During the scan the slowest requests may be slower by so many classes: 1.4 times. Beyond the second, 1.7 times, the
/// rate falls.
const SLOWER_GOOD: usize = 1;
const SLOWER_BAD: usize = 3;

/// What a scan does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    GoOn,
    /// In the next transaction group.
    Leave,
    /// Not before that.
    Wait(Duration),
}

/// The time of a step.
#[derive(Clone, Copy, Debug)]
struct Step {
    now: Instant,
    /// GUID of the pool, and the transaction group.
    group: (u64, u64),
    is_group_awaited: bool,
    are_writers_delayed: bool,
    are_clients_active: bool,
}

/// Latencies by class; older ones count less and less.
#[derive(Clone, Debug)]
struct Latencies {
    classes: [u32; CLASSES],
    count: u32,
}

impl Latencies {
    const fn new() -> Self {
        Self {
            classes: [0; CLASSES],
            count: 0,
        }
    }

    fn add(&mut self, took: Duration) {
        let us = (took.as_micros() as u64).max(1);
        let doublings = us.ilog2() as usize;
        // The two bits after the first one.
        let part = (us << 2 >> doublings) as usize & (CLASSES_PER_DOUBLING - 1);
        let class = (doublings * CLASSES_PER_DOUBLING + part).min(CLASSES - 1);
        self.classes[class] += 1;
        self.count += 1;
    }

    /// The class that one in twenty requests exceeds.
    fn slow_class(&self) -> usize {
        let mut beyond = self.count / 20;
        for (class, count) in self.classes.iter().enumerate().rev() {
            match beyond.checked_sub(*count) {
                Some(rest) => beyond = rest,
                None => return class,
            }
        }
        0
    }

    fn age(&mut self) {
        self.classes.iter_mut().for_each(|count| *count /= 2);
        self.count = self.classes.iter().sum();
    }
}

/// The pace of the scans of this process, which has one pool.
#[derive(Debug)]
struct Pacer {
    /// The administrator's bound, in bytes a second.
    bound: Option<u64>,
    /// The rate while clients are active, in bytes a second.
    rate: u64,
    /// When the reads so far are paid for.
    due: Option<Instant>,
    /// It read ahead and waits until then.
    is_paying: bool,
    in_flight: u64,
    /// A thread waits for fewer bytes in flight.
    awaits_window: bool,
    group: (u64, u64),
    /// The first step in this group.
    entered: Option<Instant>,
    last_step: Option<Instant>,
    period: Option<Instant>,
    with: Latencies,
    without: Latencies,
    are_clients_active: bool,
}

impl Pacer {
    const fn new() -> Self {
        Self {
            bound: None,
            rate: RATE_FIRST,
            due: None,
            is_paying: false,
            in_flight: 0,
            awaits_window: false,
            group: (0, 0),
            entered: None,
            last_step: None,
            period: None,
            with: Latencies::new(),
            without: Latencies::new(),
            are_clients_active: false,
        }
    }

    fn step(&mut self, step: Step) -> Next {
        let now = step.now;
        if self.group != step.group {
            self.group = step.group;
            self.entered = Some(now);
        }
        self.last_step = Some(now);
        self.are_clients_active = step.are_clients_active;
        let had = self.entered.map_or(Duration::ZERO, |entered| now - entered);
        let slice = match step.are_writers_delayed {
            true => SLICE_SHORT,
            false => SLICE,
        };
        if step.is_group_awaited && had >= slice {
            return Next::Leave;
        }
        if let Some(rest) = step.are_clients_active.then(|| self.rest(now)).flatten() {
            return Next::Wait(rest);
        }
        if step.are_clients_active && self.in_flight >= WINDOW_BYTES {
            self.awaits_window = true;
            return Next::Wait(BLOCK_MAX);
        }
        let owed = self
            .due
            .map_or(Duration::ZERO, |due| due.saturating_duration_since(now));
        let may_owe = match self.is_paying {
            true => Duration::ZERO,
            false => AHEAD,
        };
        self.is_paying = owed > may_owe;
        match self.is_paying {
            true => Next::Wait(owed),
            false => Next::GoOn,
        }
    }

    /// How long the scan rests now, if it does.
    fn rest(&mut self, now: Instant) -> Option<Duration> {
        let begun = *self.period.get_or_insert(now);
        let had = now.saturating_duration_since(begun);
        if had >= PERIOD {
            self.period = Some(now);
            self.adjust();
            return None;
        }
        (had >= PERIOD - REST).then(|| PERIOD - had)
    }

    fn adjust(&mut self) {
        if self.with.count < SAMPLES_MIN || self.without.count < SAMPLES_MIN {
            return;
        }
        let slower = self
            .with
            .slow_class()
            .saturating_sub(self.without.slow_class());
        if slower <= SLOWER_GOOD {
            self.rate = (self.rate + self.rate / 8).min(RATE_MAX);
        } else if slower >= SLOWER_BAD {
            self.rate = (self.rate - self.rate / 4).max(RATE_MIN);
        }
        self.with.age();
        self.without.age();
    }

    /// The bytes a second that the scan may read now.
    fn limit(&self) -> Option<u64> {
        let beside = self.are_clients_active.then_some(self.rate);
        self.bound.into_iter().chain(beside).min()
    }

    fn begins(&mut self, now: Instant, bytes: u64) {
        self.in_flight += bytes;
        self.due = self.limit().map(|rate| {
            let least = now.checked_sub(LATE_MAX).unwrap_or(now);
            let from = self.due.unwrap_or(now).max(least);
            from + Duration::from_secs_f64(bytes as f64 / rate as f64)
        });
    }

    /// Returns whether a thread of the scan is to be woken: for half a window, because each wake-up has its cost.
    fn ended(&mut self, bytes: u64) -> bool {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        let has_room = self.in_flight <= WINDOW_BYTES / 2;
        has_room && std::mem::take(&mut self.awaits_window)
    }

    /// A request of a client was completed. Returns whether further ones are of interest.
    fn client_took(&mut self, now: Instant, took: Duration) -> bool {
        if self
            .last_step
            .is_none_or(|at| now.saturating_duration_since(at) > SAMPLED_AFTER)
        {
            self.period = None;
            return false;
        }
        let had = self
            .period
            .map(|begun| now.saturating_duration_since(begun));
        match had {
            // The reads of the scan are over, and the request began after them.
            Some(had) if self.in_flight == 0 && had >= PERIOD - REST + took => {
                self.without.add(took)
            }
            Some(had) if had < PERIOD - REST => self.with.add(took),
            _ => {}
        }
        true
    }
}

static PACER: Mutex<Pacer> = Mutex::new(Pacer::new());
/// A read of a scan has completed, or the bound has changed.
static CHANGED: Condvar = Condvar::new();
/// Whether latencies of client requests are of interest.
static IS_SAMPLED: AtomicBool = AtomicBool::new(false);

fn pacer() -> MutexGuard<'static, Pacer> {
    PACER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bounds the bytes a second that scans of this process read; `None`: without a bound.
pub(crate) fn bound_copies(bytes_per_s: Option<u64>) {
    let mut pacer = pacer();
    pacer.bound = bytes_per_s;
    pacer.due = None;
    drop(pacer);
    CHANGED.notify_all();
}

/// Notes the latency of a client request at a device. Reads no clock while there is no scan.
pub(super) fn client_took(submitted: Instant) {
    if !IS_SAMPLED.load(Ordering::Relaxed) {
        return;
    }
    let now = Instant::now();
    // A sample may be missing: clients do not wait for the scan.
    if let Ok(mut pacer) = PACER.try_lock() {
        if !pacer.client_took(now, now.saturating_duration_since(submitted)) {
            IS_SAMPLED.store(false, Ordering::Relaxed);
        }
    }
}

/// The library's question before a step of a scan; see the header.
pub(super) unsafe extern "C" fn step(step: *const sys::bh_scan_step) -> u32 {
    // SAFETY: the shim passes a structure that is valid during the call.
    let step = unsafe { *step };
    let now = Instant::now();
    let step = Step {
        now,
        group: (step.pool, step.group),
        is_group_awaited: step.is_group_awaited != 0,
        are_writers_delayed: step.are_writers_delayed != 0,
        are_clients_active: pace::clients_wait(now),
    };
    if !IS_SAMPLED.load(Ordering::Relaxed) {
        IS_SAMPLED.store(true, Ordering::Relaxed);
    }
    let mut pacer = pacer();
    match pacer.step(step) {
        Next::GoOn => sys::BH_SCAN_GO_ON,
        Next::Leave => sys::BH_SCAN_LEAVE,
        Next::Wait(time) => {
            drop(CHANGED.wait_timeout(pacer, time.min(BLOCK_MAX)));
            sys::BH_SCAN_AGAIN
        }
    }
}

pub(super) unsafe extern "C" fn read_begins(bytes: u64) {
    pacer().begins(Instant::now(), bytes);
}

pub(super) unsafe extern "C" fn read_ended(bytes: u64) {
    if pacer().ended(bytes) {
        CHANGED.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const BLOCK: u64 = 16 << 10;
    const MIB: u64 = 1 << 20;
    const TICK: Duration = Duration::from_micros(100);

    fn step(now: Instant) -> Step {
        Step {
            now,
            group: (1, 7),
            is_group_awaited: false,
            are_writers_delayed: false,
            are_clients_active: false,
        }
    }

    /// Scans for `time`, with reads that take `read` one after the other. Clients have a request in each tick, which
    /// takes what `latency` says of the rate, or none while the scan has nothing in flight. Returns the bytes read.
    fn run(
        pacer: &mut Pacer,
        (begun, time): (Instant, Duration),
        read: Duration,
        latency: Option<&dyn Fn(Option<u64>) -> Duration>,
    ) -> u64 {
        let (mut now, mut bytes) = (begun, 0);
        let mut reads = VecDeque::new();
        while now < begun + time {
            while reads.front().is_some_and(|at| *at <= now) {
                reads.pop_front();
                pacer.ended(BLOCK);
            }
            let step = Step {
                are_clients_active: latency.is_some(),
                ..step(now)
            };
            match pacer.step(step) {
                Next::GoOn => {
                    pacer.begins(now, BLOCK);
                    reads.push_back(reads.back().copied().unwrap_or(now).max(now) + read);
                    bytes += BLOCK;
                }
                Next::Wait(_) => {
                    now += TICK;
                    if let Some(latency) = latency {
                        let is_resting = pacer.rest(now).is_some() && reads.is_empty();
                        let rate = (!is_resting).then_some(pacer.rate);
                        pacer.client_took(now, latency(rate));
                    }
                }
                Next::Leave => unreachable!("nobody waits for the group"),
            }
        }
        bytes
    }

    #[test]
    fn a_scan_has_its_bound_and_no_more() {
        for bound in [MIB, 10 * MIB, 50 * MIB] {
            let mut pacer = Pacer::new();
            pacer.bound = Some(bound);
            let time = (Instant::now(), Duration::from_secs(4));
            let bytes = run(&mut pacer, time, Duration::ZERO, None);
            let slack = bound / 20 + BLOCK;
            assert!(bytes.abs_diff(4 * bound) <= slack, "{bytes} at {bound}");
        }
    }

    #[test]
    fn without_clients_and_bound_a_scan_never_waits() {
        let mut pacer = Pacer::new();
        let now = Instant::now();
        for _ in 0..10_000 {
            assert_eq!(pacer.step(step(now)), Next::GoOn);
            pacer.begins(now, MIB);
        }
    }

    #[test]
    fn a_group_that_is_awaited_is_left_after_its_slice() {
        let mut pacer = Pacer::new();
        let begun = Instant::now();
        let awaited = |now| Step {
            is_group_awaited: true,
            ..step(now)
        };
        assert_eq!(pacer.step(awaited(begun)), Next::GoOn, "in each group");
        assert_eq!(pacer.step(step(begun + 2 * SLICE)), Next::GoOn);
        assert_eq!(pacer.step(awaited(begun + SLICE)), Next::Leave);
        let next = Step {
            group: (1, 8),
            are_writers_delayed: true,
            ..awaited(begun + SLICE)
        };
        assert_eq!(pacer.step(next), Next::GoOn);
        let now = begun + SLICE + SLICE_SHORT;
        assert_eq!(pacer.step(Step { now, ..next }), Next::Leave);
    }

    #[test]
    fn beside_clients_few_bytes_are_in_flight_and_the_scan_rests() {
        let mut pacer = Pacer::new();
        let begun = Instant::now();
        let with_clients = |now| Step {
            are_clients_active: true,
            ..step(now)
        };
        assert_eq!(pacer.step(with_clients(begun)), Next::GoOn);
        pacer.in_flight = WINDOW_BYTES;
        assert_eq!(
            pacer.step(with_clients(begun)),
            Next::Wait(BLOCK_MAX),
            "the window is full"
        );
        assert!(pacer.ended(WINDOW_BYTES), "the scan is woken");
        assert_eq!(pacer.step(with_clients(begun)), Next::GoOn);
        let resting = begun + PERIOD - REST;
        assert_eq!(pacer.step(with_clients(resting)), Next::Wait(REST));
        assert_eq!(pacer.step(with_clients(begun + PERIOD)), Next::GoOn);
    }

    /// The scan finds the rate that clients bear, from below and from above.
    #[test]
    fn the_rate_follows_the_latency_of_clients() {
        let read = Duration::from_micros(20);
        for bearable in [10 * MIB, 100 * MIB] {
            let latency = |rate: Option<u64>| {
                let more = rate.unwrap_or_default() * 400 / bearable;
                Duration::from_micros(400 + more)
            };
            let mut pacer = Pacer::new();
            let time = (Instant::now(), Duration::from_secs(20));
            run(&mut pacer, time, read, Some(&latency));
            let rates = bearable / 4..=bearable * 2;
            assert!(rates.contains(&pacer.rate), "{} of {bearable}", pacer.rate);
        }
    }

    #[test]
    fn a_scan_keeps_its_least_rate_however_slow_clients_are() {
        let read = Duration::from_micros(20);
        let latency = |rate: Option<u64>| match rate {
            Some(_) => Duration::from_millis(20),
            None => Duration::from_micros(100),
        };
        let mut pacer = Pacer::new();
        let begun = Instant::now();
        run(
            &mut pacer,
            (begun, Duration::from_secs(10)),
            read,
            Some(&latency),
        );
        assert_eq!(pacer.rate, RATE_MIN);
        let time = (begun + Duration::from_secs(10), Duration::from_secs(2));
        let bytes = run(&mut pacer, time, read, Some(&latency));
        assert!(bytes >= RATE_MIN, "{bytes} in two seconds");
    }
}
