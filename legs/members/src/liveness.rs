//! When each member was heard last. A head that boots alone requests it from the witness: another head that is alive sends a heartbeat
//! twice a second, so its pools may be in use.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leg_memory::Awake;
use leg_record::MemberId;

/// Members that one response lists.
pub const MEMBERS_MAX: usize = 16;

/// When each member was heard last, by a member that listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Liveness {
    /// For how long it has listened without a break. Silence for longer than that is not known to be one.
    pub observed_ms: u64,
    /// Time since the last message of each member that was heard since the process started, at most [`MEMBERS_MAX`].
    pub silent_ms: BTreeMap<MemberId, u64>,
}

impl Liveness {
    /// Whether `member` sent nothing for `silence`, in which this was noticed.
    pub fn is_silent(&self, member: MemberId, silence: Duration) -> bool {
        let silence_ms = silence.as_millis() as u64;
        let silent_ms = self.silent_ms.get(&member);
        self.observed_ms >= silence_ms && silent_ms.is_none_or(|ms| *ms >= silence_ms)
    }
}

/// Records when each member was heard.
#[derive(Debug)]
pub(crate) struct Watch {
    awake: Awake,
    since: Instant,
    received: BTreeMap<MemberId, Instant>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self {
            awake: Awake::new(),
            since: Instant::now(),
            received: BTreeMap::new(),
        }
    }

    /// A message of a member arrived.
    pub(crate) fn note(&mut self, from: MemberId) {
        let was_frozen = self.awake.was_frozen();
        self.note_at(from, Instant::now(), was_frozen);
    }

    /// `was_frozen`: this process did not run, or received no message of any member, for so long that heartbeats may be unread.
    /// A head that requests the liveness sends heartbeats, too.
    fn note_at(&mut self, from: MemberId, now: Instant, was_frozen: bool) {
        if was_frozen {
            self.since = now;
        }
        if self.received.len() < MEMBERS_MAX || self.received.contains_key(&from) {
            self.received.insert(from, now);
        }
    }

    pub(crate) fn liveness(&self) -> Liveness {
        self.liveness_at(Instant::now())
    }

    fn liveness_at(&self, now: Instant) -> Liveness {
        let ms = |at: Instant| now.saturating_duration_since(at).as_millis() as u64;
        Liveness {
            observed_ms: ms(self.since),
            silent_ms: self
                .received
                .iter()
                .map(|(member, at)| (*member, ms(*at)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: MemberId = MemberId(1);
    const OTHER: MemberId = MemberId(2);
    const SILENCE: Duration = Duration::from_secs(10);

    fn at(watch: &Watch, second: u64) -> Instant {
        watch.since + Duration::from_secs(second)
    }

    #[test]
    fn silence_requires_listener_uptime_of_same_length() {
        let mut watch = Watch::new();
        let begun = watch.since;
        assert!(!watch.liveness_at(at(&watch, 9)).is_silent(OTHER, SILENCE));
        assert!(watch.liveness_at(at(&watch, 10)).is_silent(OTHER, SILENCE));
        watch.note_at(OTHER, at(&watch, 12), false);
        assert!(!watch.liveness_at(at(&watch, 21)).is_silent(OTHER, SILENCE));
        assert!(watch.liveness_at(at(&watch, 22)).is_silent(OTHER, SILENCE));
        // It was stopped: heartbeats of the other head may be unread.
        watch.note_at(ME, begun + Duration::from_secs(40), true);
        let second = |second| begun + Duration::from_secs(second);
        assert!(!watch.liveness_at(second(49)).is_silent(OTHER, SILENCE));
        assert!(watch.liveness_at(second(50)).is_silent(OTHER, SILENCE));
    }

    #[test]
    fn more_members_than_a_response_lists_are_not_recorded() {
        let mut watch = Watch::new();
        for member in 0..2 * MEMBERS_MAX as u64 {
            watch.note(MemberId(member));
        }
        assert_eq!(watch.liveness().silent_ms.len(), MEMBERS_MAX);
    }
}
