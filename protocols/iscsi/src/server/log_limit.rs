//! A bound on how much a misbehaving client can make us log. Not by the crate `governor`, which does not count what it refuses.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use units::IscsiName;

/// Lines in one period.
const LINES_MAX: u32 = 20;
const PERIOD: Duration = Duration::from_secs(10);
/// An initiator that is refused again and again is told of this often.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(60);
/// Initiators that are told of within that time.
const REFUSED_MAX: usize = 256;

/// Counts lines in a period and swallows those over the limit.
#[derive(Debug)]
pub(crate) struct LogLimit(Mutex<State>);

#[derive(Debug)]
struct State {
    since: Instant,
    lines: u32,
}

impl LogLimit {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State {
            since: Instant::now(),
            lines: 0,
        }))
    }

    /// Whether one more line may be logged.
    pub(crate) fn allow(&self) -> bool {
        let mut state = self.0.lock().expect("no holder panics");
        if state.since.elapsed() > PERIOD {
            let swallowed = state.lines.saturating_sub(LINES_MAX);
            if swallowed > 0 {
                tracing::warn!(swallowed, "messages about clients were not logged");
            }
            *state = State {
                since: Instant::now(),
                lines: 0,
            };
        }
        state.lines = state.lines.saturating_add(1);
        state.lines <= LINES_MAX
    }
}

/// Initiators that were refused a login, each with when that was told last, and how often it was not since.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<IscsiName, (Instant, u32)>>);

impl Refusals {
    /// Whether one more refusal of `initiator` is told, with the number of those that were not.
    pub(crate) fn take(&self, initiator: &IscsiName, now: Instant) -> Option<u32> {
        let mut told = self.0.lock().expect("no holder panics");
        let is_recent = |at: Instant| now.saturating_duration_since(at) < REFUSAL_INTERVAL;
        if let Some((at, swallowed)) = told.get_mut(initiator) {
            if is_recent(*at) {
                *swallowed = swallowed.saturating_add(1);
                return None;
            }
            let swallowed = std::mem::take(swallowed);
            *at = now;
            return Some(swallowed);
        }
        told.retain(|_, (at, _)| is_recent(*at));
        if told.len() >= REFUSED_MAX {
            return None;
        }
        told.insert(initiator.clone(), (now, 0));
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_initiator_that_is_refused_each_second_is_told_of_once_a_minute() {
        let refusals = Refusals::default();
        let begun = Instant::now();
        let name = |name: &str| -> IscsiName { name.parse().expect("a name") };
        let (one, other) = (
            name("iqn.2000-01.org.example:one"),
            name("iqn.2000-01.org.example:two"),
        );
        let told: Vec<(u64, u32)> = (0..130)
            .filter_map(|second| {
                let now = begun + Duration::from_secs(second);
                refusals
                    .take(&one, now)
                    .map(|swallowed| (second, swallowed))
            })
            .collect();
        assert_eq!(told, [(0, 0), (60, 59), (120, 59)]);
        assert_eq!(refusals.take(&other, begun), Some(0), "each for itself");
        let many = (0..2 * REFUSED_MAX).filter(|number| {
            let name = name(&format!("iqn.2000-01.org.example:{number}"));
            refusals.take(&name, begun).is_some()
        });
        assert!(many.count() < REFUSED_MAX, "their number is bounded");
    }

    #[test]
    fn a_flood_is_cut() {
        let limit = LogLimit::new();
        let logged = (0..1000).filter(|_| limit.allow()).count();
        assert_eq!(logged, LINES_MAX as usize);
    }
}
