//! The reply cache: a client without a reply retries over the same or another connection, and the
//! call must not be executed twice.

use std::collections::{HashMap, VecDeque};

use crate::repeats::REPEATED_WITHIN_MS;

/// Cached replies.
const ANSWERS_MAX: usize = 4096;

/// The state of a call.
pub(super) enum Seen {
    /// It is new.
    Never,
    /// It is in progress.
    UnderWay,
    /// It was executed, with this reply.
    Answered(Vec<u8>),
}

/// Calls by fingerprint: arrival in milliseconds, and the reply; `None` while the call is in
/// progress.
#[derive(Default)]
pub(super) struct Answers {
    all: HashMap<u64, (u64, Option<Vec<u8>>)>,
    order: VecDeque<u64>,
}

impl Answers {
    /// Returns the state of a call. A new one must be completed with `end`.
    pub(super) fn begin(&mut self, key: u64, now_ms: u64) -> Seen {
        match self.all.get(&key) {
            Some((at_ms, Some(bytes))) if now_ms.saturating_sub(*at_ms) <= REPEATED_WITHIN_MS => {
                return Seen::Answered(bytes.clone());
            }
            // The transaction ID was reused: it is a different call.
            Some((_, Some(_))) => self.end(key, None),
            Some((_, None)) => return Seen::UnderWay,
            None => {}
        }
        while self.order.len() >= ANSWERS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.all.remove(&oldest);
            }
        }
        self.all.insert(key, (now_ms, None));
        self.order.push_back(key);
        Seen::Never
    }

    /// Completes a call with its reply. Without a reply the call is forgotten.
    pub(super) fn end(&mut self, key: u64, answer: Option<Vec<u8>>) {
        match (answer, self.all.get_mut(&key)) {
            (Some(bytes), Some((_, answer))) => *answer = Some(bytes),
            (None, Some(_)) => {
                self.all.remove(&key);
                self.order.retain(|other| *other != key);
            }
            // The call was evicted.
            (_, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_repeated_is_answered_as_the_first_time() {
        let mut answers = Answers::default();
        assert!(matches!(answers.begin(7, 0), Seen::Never));
        assert!(matches!(answers.begin(7, 0), Seen::UnderWay));
        answers.end(7, Some(b"yes".to_vec()));
        assert!(matches!(answers.begin(7, 0), Seen::Answered(bytes) if bytes == b"yes"));
        assert!(matches!(answers.begin(8, 0), Seen::Never));
        answers.end(8, None);
        assert!(matches!(answers.begin(8, 0), Seen::Never));
    }

    #[test]
    fn a_call_that_comes_much_later_is_another_one() {
        let mut answers = Answers::default();
        assert!(matches!(answers.begin(7, 0), Seen::Never));
        answers.end(7, Some(b"yes".to_vec()));
        let within = answers.begin(7, REPEATED_WITHIN_MS);
        assert!(matches!(within, Seen::Answered(_)));
        let later = answers.begin(7, REPEATED_WITHIN_MS + 1);
        assert!(matches!(later, Seen::Never));
        assert_eq!(answers.order.len(), 1);
    }

    #[test]
    fn the_oldest_answers_make_room() {
        let mut answers = Answers::default();
        for key in 0..=ANSWERS_MAX as u64 {
            assert!(matches!(answers.begin(key, 0), Seen::Never));
            answers.end(key, Some(Vec::new()));
        }
        assert_eq!(answers.all.len(), ANSWERS_MAX);
        assert!(matches!(answers.begin(0, 0), Seen::Never));
        assert!(matches!(answers.begin(2, 0), Seen::Answered(_)));
    }
}
