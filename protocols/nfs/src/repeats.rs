//! How long a call without a session counts as a retransmission of an earlier one. A client reuses
//! a transaction ID after a wrap or a restart, and then it is a different call.

use std::collections::{HashMap, VecDeque};

use file_system::Place;

/// A client without a reply retries within a minute, and once more over a new connection.
pub(crate) const REPEATED_WITHIN_MS: u64 = 120_000;
/// Calls with a known time. An evicted one is executed again.
const CALLS_MAX: usize = 65_536;

/// The times when this server executed calls with a receipt.
#[derive(Default)]
pub(crate) struct Repeats {
    at_ms: HashMap<Place, u64>,
    order: VecDeque<(Place, u64)>,
}

impl Repeats {
    /// Records that a call was executed now.
    pub(crate) fn executed(&mut self, place: Place, now_ms: u64) {
        while let Some((oldest, at_ms)) = self.order.front().copied() {
            let is_over = now_ms.saturating_sub(at_ms) > REPEATED_WITHIN_MS;
            if !is_over && self.order.len() < CALLS_MAX {
                break;
            }
            self.order.pop_front();
            if self.at_ms.get(&oldest) == Some(&at_ms) {
                self.at_ms.remove(&oldest);
            }
        }
        self.at_ms.insert(place, now_ms);
        self.order.push_back((place, now_ms));
    }

    /// Whether a call with such a receipt is a retransmission: of a recent call of this server, or
    /// of a call of an earlier server while its clients reconnect.
    pub(crate) fn is_repeated(&self, place: &Place, now_ms: u64) -> bool {
        match self.at_ms.get(place) {
            Some(at_ms) => now_ms.saturating_sub(*at_ms) <= REPEATED_WITHIN_MS,
            None => now_ms <= REPEATED_WITHIN_MS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_calls_are_recognized_for_a_bounded_time() {
        let mut repeats = Repeats::default();
        let place = |number: u32| {
            let mut place = Place::default();
            place[..4].copy_from_slice(&number.to_be_bytes());
            place
        };
        assert!(
            repeats.is_repeated(&place(1), REPEATED_WITHIN_MS),
            "of an earlier server"
        );
        assert!(!repeats.is_repeated(&place(1), REPEATED_WITHIN_MS + 1));
        repeats.executed(place(1), 1_000_000);
        assert!(repeats.is_repeated(&place(1), 1_000_000 + REPEATED_WITHIN_MS));
        assert!(!repeats.is_repeated(&place(1), 1_000_001 + REPEATED_WITHIN_MS));
        for number in 0..2 * CALLS_MAX as u32 {
            repeats.executed(place(number), 1_000_000);
        }
        assert_eq!(
            (repeats.at_ms.len(), repeats.order.len()),
            (CALLS_MAX, CALLS_MAX)
        );
    }
}
