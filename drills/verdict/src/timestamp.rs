//! Timestamps on the clock that all processes of this host share, and the mapping of log lines to
//! it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use takeover::timeline::minutes_and_seconds;

/// A timestamp of CLOCK_MONOTONIC, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub f64);

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    // Nanoseconds are below 2^30, and an f64 holds a microsecond of a century.
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl Timestamp {
    /// Now.
    pub fn now() -> Self {
        Self(seconds(ClockId::Monotonic))
    }

    /// Seconds from `earlier` to this timestamp.
    pub fn since(self, earlier: Self) -> f64 {
        self.0 - earlier.0
    }

    /// That much later.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0 + time.as_secs_f64())
    }
}

/// How far a log's clock can be wrong for reasons of time zone: a multiple of this, in seconds.
const ZONE_STEP_S: f64 = 900.0;

/// Maps log lines to the monotonic clock. Logs differ in date and time zone; minutes and seconds
/// are equal in all, so a line gets the timestamp that is closest to a known one.
#[derive(Clone, Copy, Debug)]
pub struct LogClock {
    near: Timestamp,
    near_wall: f64,
}

impl LogClock {
    /// For lines written within seven minutes of `near`.
    pub fn near(near: Timestamp) -> Self {
        let ahead = seconds(ClockId::Realtime) - seconds(ClockId::Monotonic);
        Self::at(near, near.0 + ahead)
    }

    /// With the wall clock's seconds at `near`.
    pub const fn at(near: Timestamp, near_wall: f64) -> Self {
        Self { near, near_wall }
    }

    /// The timestamp of a line, by the first time of day in it.
    pub fn place(&self, line: &str) -> Option<Timestamp> {
        minutes_and_seconds(line).map(|shown| self.closest(shown))
    }

    /// The timestamp for a wall clock in milliseconds since 1970. Clocks of heads may differ by whole hours.
    pub fn timestamp_of_ms(&self, at_ms: u64) -> Timestamp {
        self.closest(at_ms as f64 / 1000.0)
    }

    /// The timestamp with these minutes and seconds.
    fn closest(&self, shown: f64) -> Timestamp {
        let mut distance = (shown - self.near_wall).rem_euclid(ZONE_STEP_S);
        if distance > ZONE_STEP_S / 2.0 {
            distance -= ZONE_STEP_S;
        }
        Timestamp(self.near.0 + distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_of_any_time_zone_are_ordered() {
        // 2026-11-21 05:49:30 UTC.
        let clock = LogClock::at(Timestamp(100.0), 1_795_240_170.0);
        for (line, timestamp) in [
            (
                "Nov 21 05:49:31.250 [77] left corosync notice  [TOTEM ] A processor",
                101.25,
            ),
            (
                "Nov 21 11:19:29 left pacemaker-controld  [5] (x) info: y",
                99.0,
            ),
            (
                "2026-11-21T05:50:00.500000Z  INFO pool imported pool=tank",
                130.5,
            ),
            ("Nov 21 05:45:30.000 [77] left", -140.0),
        ] {
            let found = clock.place(line).expect(line);
            assert!((found.0 - timestamp).abs() < 1e-6, "{line}: {found:?}");
        }
        for line in ["", "no time", "12:34", "é12:3"] {
            assert_eq!(clock.place(line), None, "{line}");
        }
    }

    #[test]
    fn hour_may_change_between_fault_and_log_line() {
        // 05:59:59.5
        let clock = LogClock::at(Timestamp(100.0), 1_795_240_799.5);
        let found = clock.place("Nov 21 06:00:00.250 left x").expect("a time");
        assert!((found.0 - 100.75).abs() < 1e-6, "{found:?}");
    }
}
