//! Limits log lines about clients that are refused repeatedly.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Interval of the log lines about one client.
const INTERVAL: Duration = Duration::from_secs(60);
/// Clients with log lines within that interval.
const LOGGED_MAX: usize = 256;

/// Refused clients, each with the time of its last log line and the number of suppressed ones.
#[derive(Debug)]
pub struct Refusals<Who>(Mutex<HashMap<Who, (Instant, u32)>>);

impl<Who> Default for Refusals<Who> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Who: Clone + Eq + Hash> Refusals<Who> {
    /// Whether a refusal of `who` should be logged, with the number of suppressed lines.
    pub fn take(&self, who: &Who, now: Instant) -> Option<u32> {
        let mut recent = self.0.lock().expect("no holder panics");
        let is_recent = |at: Instant| now.saturating_duration_since(at) < INTERVAL;
        if let Some((at, swallowed)) = recent.get_mut(who) {
            if is_recent(*at) {
                *swallowed = swallowed.saturating_add(1);
                return None;
            }
            let swallowed = std::mem::take(swallowed);
            *at = now;
            return Some(swallowed);
        }
        recent.retain(|_, (at, _)| is_recent(*at));
        if recent.len() >= LOGGED_MAX {
            return None;
        }
        recent.insert(who.clone(), (now, 0));
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_refusals_are_logged_once_a_minute() {
        let refusals = Refusals::default();
        let begun = Instant::now();
        let recent: Vec<(u64, u32)> = (0..130)
            .filter_map(|second| {
                let now = begun + Duration::from_secs(second);
                refusals.take(&1, now).map(|swallowed| (second, swallowed))
            })
            .collect();
        assert_eq!(recent, [(0, 0), (60, 59), (120, 59)]);
        assert_eq!(refusals.take(&2, begun), Some(0), "each for itself");
        let many =
            (0..2 * LOGGED_MAX).filter(|number| refusals.take(&(number + 3), begun).is_some());
        assert!(many.count() < LOGGED_MAX, "their number is bounded");
    }
}
