//! The reply cache: a client without a reply retries over the same or another connection, and the
//! call must not be executed twice.

use std::collections::{HashMap, VecDeque};

use crate::repeats::REPEATED_WITHIN_MS;

/// Cached replies.
const ANSWERS_MAX: usize = 4096;

/// The state of a call.
pub(super) enum CallState {
    /// It is new.
    New,
    /// It is in progress.
    InProgress,
    /// It was executed, with this reply.
    Replied(Vec<u8>),
}

/// Calls by fingerprint: arrival in milliseconds, and the reply; `None` while the call is in
/// progress.
#[derive(Default)]
pub(super) struct ReplyCache {
    all: HashMap<u64, (u64, Option<Vec<u8>>)>,
    order: VecDeque<u64>,
}

impl ReplyCache {
    /// Returns the state of a call. A new one must be completed with `end`.
    pub(super) fn begin(&mut self, key: u64, now_ms: u64) -> CallState {
        match self.all.get(&key) {
            Some((at_ms, Some(bytes))) if now_ms.saturating_sub(*at_ms) <= REPEATED_WITHIN_MS => {
                return CallState::Replied(bytes.clone());
            }
            // The transaction ID was reused: it is a different call.
            Some((_, Some(_))) => self.end(key, None),
            Some((_, None)) => return CallState::InProgress,
            None => {}
        }
        while self.order.len() >= ANSWERS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.all.remove(&oldest);
            }
        }
        self.all.insert(key, (now_ms, None));
        self.order.push_back(key);
        CallState::New
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
    fn repeated_call_gets_the_cached_reply() {
        let mut answers = ReplyCache::default();
        assert!(matches!(answers.begin(7, 0), CallState::New));
        assert!(matches!(answers.begin(7, 0), CallState::InProgress));
        answers.end(7, Some(b"yes".to_vec()));
        assert!(matches!(answers.begin(7, 0), CallState::Replied(bytes) if bytes == b"yes"));
        assert!(matches!(answers.begin(8, 0), CallState::New));
        answers.end(8, None);
        assert!(matches!(answers.begin(8, 0), CallState::New));
    }

    #[test]
    fn late_call_with_a_reused_xid_is_new() {
        let mut answers = ReplyCache::default();
        assert!(matches!(answers.begin(7, 0), CallState::New));
        answers.end(7, Some(b"yes".to_vec()));
        let within = answers.begin(7, REPEATED_WITHIN_MS);
        assert!(matches!(within, CallState::Replied(_)));
        let later = answers.begin(7, REPEATED_WITHIN_MS + 1);
        assert!(matches!(later, CallState::New));
        assert_eq!(answers.order.len(), 1);
    }

    #[test]
    fn oldest_replies_are_evicted() {
        let mut answers = ReplyCache::default();
        for key in 0..=ANSWERS_MAX as u64 {
            assert!(matches!(answers.begin(key, 0), CallState::New));
            answers.end(key, Some(Vec::new()));
        }
        assert_eq!(answers.all.len(), ANSWERS_MAX);
        assert!(matches!(answers.begin(0, 0), CallState::New));
        assert!(matches!(answers.begin(2, 0), CallState::Replied(_)));
    }
}
