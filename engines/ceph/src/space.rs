//! Free space. A cluster that is full, or a pool at its quota, blocks its clients and reports no error, so writes are
//! refused before that. The statistics of the cluster are some seconds old: bytes that were written since are subtracted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::records::Number;

/// Statistics contain a write after this time at the latest: OSDs report every 5 s, the manager every 5 s.
const STATISTICS_LAG: Duration = Duration::from_secs(15);
/// The part of the capacity that is never used: metadata, and the writes of other clients since the statistics.
const MARGIN_DIVISOR: u64 = 50;
const MARGIN_BYTES_MIN: u64 = 16 << 20;
const MARGIN_BYTES_MAX: u64 = 64 << 30;

/// The space of a pool, by the cluster's statistics. Bytes of data, not of copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    pub(crate) stored: u64,
    /// Bytes that can be written until the first OSD, or the quota, is full.
    pub(crate) free: u64,
}

impl Statistics {
    /// Those of `pool` in the output of `df detail`.
    pub(crate) fn of_pool(document: &serde_json::Value, pool: &str) -> Option<Self> {
        let mut pools = document["pools"].as_array()?.iter();
        let stats = &pools.find(|one| one["name"] == pool)?["stats"];
        let stored = stats["stored"].as_u64()?;
        let free = stats["max_avail"].as_u64()?;
        let quota = stats["quota_bytes"].as_u64().filter(|quota| *quota > 0);
        let free = quota.map_or(free, |quota| free.min(quota.saturating_sub(stored)));
        Some(Self { stored, free })
    }

    /// Bytes that remain free.
    fn margin(self) -> u64 {
        let part = (self.stored + self.free) / MARGIN_DIVISOR;
        part.clamp(MARGIN_BYTES_MIN, MARGIN_BYTES_MAX)
    }
}

#[derive(Debug, Default)]
struct State {
    statistics: Statistics,
    /// Bytes that were written recently, by second.
    recent: VecDeque<(Instant, u64)>,
    recent_bytes: u64,
    /// The parts of reservations that are not used yet, by volume.
    unused: BTreeMap<Number, u64>,
}

impl State {
    fn forget_old(&mut self, now: Instant) {
        while let Some((at, bytes)) = self.recent.front().copied() {
            if now.duration_since(at) < STATISTICS_LAG {
                return;
            }
            self.recent_bytes -= bytes;
            self.recent.pop_front();
        }
    }

    /// New statistics: the growth since the last ones is that of the oldest writes.
    fn update(&mut self, statistics: Statistics) {
        let before = std::mem::replace(&mut self.statistics, statistics);
        let mut grown = statistics.stored.saturating_sub(before.stored);
        while let Some((_, bytes)) = self.recent.front_mut() {
            let contained = grown.min(*bytes);
            *bytes -= contained;
            self.recent_bytes -= contained;
            grown -= contained;
            if *bytes > 0 {
                return;
            }
            self.recent.pop_front();
        }
    }

    fn free(&self) -> u64 {
        let used = self.statistics.margin() + self.recent_bytes;
        self.statistics.free.saturating_sub(used)
    }

    fn unused_of_others(&self, volume: Number) -> u64 {
        let others = self.unused.iter().filter(|(of, _)| **of != volume);
        others.map(|(_, bytes)| bytes).sum()
    }

    /// Whether `bytes` of `volume` may be written.
    fn admits(&self, volume: Number, bytes: u64) -> bool {
        let free = self.free();
        let is_reserved = self
            .unused
            .get(&volume)
            .is_some_and(|unused| *unused >= bytes);
        let needed = match is_reserved {
            true => bytes,
            false => bytes.saturating_add(self.unused_of_others(volume)),
        };
        needed <= free
    }

    fn wrote(&mut self, now: Instant, volume: Number, bytes: u64) {
        if let Some(unused) = self.unused.get_mut(&volume) {
            *unused = unused.saturating_sub(bytes);
        }
        self.recent_bytes += bytes;
        match self.recent.back_mut() {
            Some((at, sum)) if now.duration_since(*at) < Duration::from_secs(1) => *sum += bytes,
            _ => self.recent.push_back((now, bytes)),
        }
    }
}

/// The space of a shelf.
#[derive(Debug, Default)]
pub(crate) struct Space(Mutex<State>);

impl Space {
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.lock().expect("no holder panics");
        state.forget_old(Instant::now());
        state
    }

    pub(crate) fn update(&self, statistics: Statistics) {
        self.state().update(statistics);
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.state().statistics
    }

    /// Counts a write of `bytes`, or refuses it.
    pub(crate) fn admit(&self, volume: Number, bytes: u64) -> bool {
        let mut state = self.state();
        let is_admitted = state.admits(volume, bytes);
        if is_admitted {
            state.wrote(Instant::now(), volume, bytes);
        }
        is_admitted
    }

    /// Bytes available to a volume, or to a new one.
    pub(crate) fn available(&self, volume: Option<Number>) -> u64 {
        let state = self.state();
        let all: u64 = state.unused.values().sum();
        let own = volume.and_then(|volume| state.unused.get(&volume).copied());
        state.free().saturating_sub(all) + own.unwrap_or(0)
    }

    /// The part of a volume's reservation that is not used yet; none without a reservation.
    pub(crate) fn set_unused(&self, volume: Number, unused: Option<u64>) {
        let mut state = self.state();
        match unused {
            Some(bytes) => state.unused.insert(volume, bytes),
            None => state.unused.remove(&volume),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Number = Number(1);
    const B: Number = Number(2);
    const MIB: u64 = 1 << 20;

    fn with(free: u64) -> State {
        State {
            statistics: Statistics { stored: 0, free },
            ..State::default()
        }
    }

    #[test]
    fn writes_since_the_statistics_are_subtracted_until_the_statistics_contain_them() {
        let (mut state, start) = (with(100 * MIB), Instant::now());
        assert_eq!(state.free(), 84 * MIB, "the margin");
        state.wrote(start, A, 80 * MIB);
        assert!(state.admits(A, 4 * MIB) && !state.admits(A, 5 * MIB));
        state.forget_old(start + STATISTICS_LAG - Duration::from_millis(1));
        assert!(!state.admits(A, 5 * MIB));
        state.forget_old(start + STATISTICS_LAG);
        assert!(state.admits(A, 84 * MIB));
    }

    #[test]
    fn write_that_the_statistics_contain_is_not_subtracted_again() {
        let (mut state, now) = (with(100 * MIB), Instant::now());
        state.wrote(now, A, 30 * MIB);
        state.wrote(now + Duration::from_secs(2), A, 10 * MIB);
        assert_eq!(state.free(), 44 * MIB);
        state.update(Statistics {
            stored: 35 * MIB,
            free: 65 * MIB,
        });
        assert_eq!((state.recent_bytes, state.free()), (5 * MIB, 44 * MIB));
        state.update(Statistics {
            stored: 40 * MIB,
            free: 60 * MIB,
        });
        assert_eq!((state.recent_bytes, state.free()), (0, 44 * MIB));
    }

    #[test]
    fn reserved_space_is_refused_to_other_volumes_only() {
        let (mut state, now) = (with(100 * MIB), Instant::now());
        state.unused.insert(A, 60 * MIB);
        assert!(state.admits(B, 24 * MIB) && !state.admits(B, 25 * MIB));
        state.wrote(now, B, 24 * MIB);
        assert!(!state.admits(B, 1));
        assert!(state.admits(A, 60 * MIB));
        state.wrote(now, A, 60 * MIB);
        assert!(!state.admits(A, 1));
    }

    #[test]
    fn quota_limits_the_free_space() {
        let document = |quota: u64| {
            serde_json::json!({"pools": [
                {"name": "other", "stats": {"stored": 1, "max_avail": 1}},
                {"name": "rbd", "stats": {"stored": 30, "max_avail": 1000, "quota_bytes": quota}},
            ]})
        };
        let of = |quota| Statistics::of_pool(&document(quota), "rbd");
        assert_eq!(
            of(0),
            Some(Statistics {
                stored: 30,
                free: 1000
            })
        );
        assert_eq!(
            of(100),
            Some(Statistics {
                stored: 30,
                free: 70
            })
        );
        assert_eq!(
            of(20),
            Some(Statistics {
                stored: 30,
                free: 0
            })
        );
        assert_eq!(Statistics::of_pool(&document(0), "none"), None);
    }
}
