//! When each member was heard last. A head that boots alone requests it from the witness: another head that is alive sends a heartbeat
//! ten times a second, so its pools may be in use.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leg_memory::Awake;
use leg_record::MemberId;

use crate::limits::{SILENT_BEFORE_FENCE, STEADY_BEFORE_FENCE};

/// Members that one response lists.
pub const MEMBERS_MAX: usize = 16;

/// When each member was heard last, by a member that listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Liveness {
    /// For how long it has listened without a break. Silence for longer than that is not known to be one.
    pub observed_ms: u64,
    /// For how long it received heartbeats of the member that requested this, without a gap of [`SILENT_BEFORE_FENCE`].
    /// None if that was not requested.
    pub steady_ms: Option<u64>,
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

    /// Whether the member that requested this may fence a second member: an outage of both, or a pause of the listener,
    /// was so long ago that this one has reconnected. If a member is permitted a fence because of the silence of the
    /// second, that one is permitted none for [`STEADY_BEFORE_FENCE`] less [`SILENT_BEFORE_FENCE`], because its silence is a gap.
    pub fn is_steady(&self) -> bool {
        let steady_ms = STEADY_BEFORE_FENCE.as_millis() as u64;
        self.steady_ms.is_some_and(|ms| ms >= steady_ms)
    }
}

/// The kind of process that sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// A pool server or a leg-server, which stays connected.
    Process,
    /// A command that requests the liveness. It may be connected while the leg-server of its host is not, and exits after
    /// the response, so its messages do not fill a gap.
    Command,
}

/// The messages of one member.
#[derive(Debug)]
struct Contact {
    last: Instant,
    /// The begin and the end of the heartbeats without a gap.
    steady: Option<(Instant, Instant)>,
}

/// Records when each member was heard.
#[derive(Debug)]
pub(crate) struct Watch {
    awake: Awake,
    since: Instant,
    received: BTreeMap<MemberId, Contact>,
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
    pub(crate) fn note(&mut self, from: MemberId, sender: Sender) {
        let was_frozen = self.awake.was_frozen();
        self.note_at(from, sender, Instant::now(), was_frozen);
    }

    /// `was_frozen`: this process did not run, or received no message of any member, for so long that heartbeats may be unread.
    /// A head that requests the liveness sends heartbeats, too.
    fn note_at(&mut self, from: MemberId, sender: Sender, now: Instant, was_frozen: bool) {
        if was_frozen {
            self.since = now;
            // The clock of `now` stops while the host is suspended.
            self.received
                .values_mut()
                .for_each(|contact| contact.steady = None);
        }
        if self.received.len() >= MEMBERS_MAX && !self.received.contains_key(&from) {
            return;
        }
        let contact = self.received.entry(from).or_insert(Contact {
            last: now,
            steady: None,
        });
        contact.last = now;
        if sender == Sender::Process {
            let begun = contact.steady_since(now);
            if begun.is_none() {
                tracing::debug!(member = from.0, "the first heartbeat, or one after a gap");
            }
            contact.steady = Some((begun.unwrap_or(now), now));
        }
    }

    /// With the steadiness of `requester`.
    pub(crate) fn liveness(&self, requester: Option<MemberId>) -> Liveness {
        self.liveness_at(requester, Instant::now())
    }

    fn liveness_at(&self, requester: Option<MemberId>, now: Instant) -> Liveness {
        let ms = |at: Instant| now.saturating_duration_since(at).as_millis() as u64;
        let steady_ms = |requester| {
            let contact = self.received.get(&requester);
            contact
                .and_then(|contact| contact.steady_since(now))
                .map_or(0, ms)
        };
        Liveness {
            observed_ms: ms(self.since),
            steady_ms: requester.map(steady_ms),
            silent_ms: self
                .received
                .iter()
                .map(|(member, contact)| (*member, ms(contact.last)))
                .collect(),
        }
    }
}

impl Contact {
    /// The begin of the heartbeats without a gap, also until `now`.
    fn steady_since(&self, now: Instant) -> Option<Instant> {
        let (begun, last) = self.steady?;
        (now.saturating_duration_since(last) < SILENT_BEFORE_FENCE).then_some(begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{ALIVE_INTERVAL, RECONNECT_MAX, WITNESS_HEARTBEAT};

    const ME: MemberId = MemberId(1);
    const OTHER: MemberId = MemberId(2);
    const SILENCE: Duration = Duration::from_secs(10);

    fn at(watch: &Watch, second: u64) -> Instant {
        watch.since + Duration::from_secs(second)
    }

    fn liveness(watch: &Watch, second: u64) -> Liveness {
        watch.liveness_at(Some(ME), at(watch, second))
    }

    #[test]
    fn silence_requires_listener_uptime_of_same_length() {
        let mut watch = Watch::new();
        let begun = watch.since;
        assert!(!liveness(&watch, 9).is_silent(OTHER, SILENCE));
        assert!(liveness(&watch, 10).is_silent(OTHER, SILENCE));
        watch.note_at(OTHER, Sender::Process, at(&watch, 12), false);
        assert!(!liveness(&watch, 21).is_silent(OTHER, SILENCE));
        assert!(liveness(&watch, 22).is_silent(OTHER, SILENCE));
        // It was stopped: heartbeats of the other head may be unread.
        watch.note_at(ME, Sender::Process, begun + Duration::from_secs(40), true);
        let second = |second| begun + Duration::from_secs(second);
        assert!(
            !watch
                .liveness_at(Some(ME), second(49))
                .is_silent(OTHER, SILENCE)
        );
        assert!(
            watch
                .liveness_at(Some(ME), second(50))
                .is_silent(OTHER, SILENCE)
        );
    }

    #[test]
    fn more_members_than_a_response_lists_are_not_recorded() {
        let mut watch = Watch::new();
        for member in 0..2 * MEMBERS_MAX as u64 {
            watch.note(MemberId(member), Sender::Process);
        }
        assert_eq!(watch.liveness(None).silent_ms.len(), MEMBERS_MAX);
    }

    /// Whether `requester` may fence the other one at that time, in milliseconds.
    fn may_fence(watch: &Watch, requester: MemberId, ms: u64) -> bool {
        let other = if requester == ME { OTHER } else { ME };
        let now = watch.since + Duration::from_millis(ms);
        let liveness = watch.liveness_at(Some(requester), now);
        liveness.is_steady() && liveness.is_silent(other, SILENT_BEFORE_FENCE)
    }

    fn hear(watch: &mut Watch, from: MemberId, sender: Sender, ms: u64) {
        let now = watch.since + Duration::from_millis(ms);
        watch.note_at(from, sender, now, false);
    }

    /// Heartbeats of both heads until 10 s.
    fn steady() -> Watch {
        let mut watch = Watch::new();
        for ms in (0..10_000).step_by(100) {
            hear(&mut watch, ME, Sender::Process, ms);
            hear(&mut watch, OTHER, Sender::Process, ms + 50);
        }
        watch
    }

    #[test]
    fn silence_that_is_common_to_both_heads_is_no_loss() {
        let mut watch = steady();
        assert!(!may_fence(&watch, ME, 10_100));
        // Nothing is received for 1.4 s. The request arrives on a connection of its own, before the heartbeats.
        for ms in [11_400, 11_600] {
            hear(&mut watch, ME, Sender::Command, ms);
            assert!(!may_fence(&watch, ME, ms));
        }
        for ms in (11_700..14_000).step_by(100) {
            hear(&mut watch, ME, Sender::Process, ms);
            assert!(!may_fence(&watch, ME, ms), "{ms}");
        }
        // The other head has not returned by now: it is lost.
        for ms in (14_000..14_800).step_by(100) {
            hear(&mut watch, ME, Sender::Process, ms);
        }
        assert!(may_fence(&watch, ME, 14_700));
    }

    #[test]
    fn lost_head_is_fenced_at_once_by_a_head_without_a_gap() {
        let mut watch = steady();
        for ms in (10_000..10_300).step_by(100) {
            hear(&mut watch, ME, Sender::Process, ms);
        }
        let last = 9_950;
        assert!(!may_fence(&watch, ME, last + 299));
        assert!(may_fence(&watch, ME, last + 300));
        // The other head returns before it is powered off, and the first one is lost.
        for ms in (10_400..13_400).step_by(100) {
            hear(&mut watch, OTHER, Sender::Process, ms);
            assert!(!may_fence(&watch, OTHER, ms), "{ms}");
        }
        hear(&mut watch, OTHER, Sender::Process, 13_400);
        assert!(may_fence(&watch, OTHER, 13_400));
    }

    /// The listener continues after a pause in which both heads sent: it reads the request before the heartbeats.
    #[test]
    fn pause_or_restart_of_the_listener_is_no_loss() {
        let mut watch = steady();
        hear(&mut watch, ME, Sender::Command, 10_400);
        assert!(!may_fence(&watch, ME, 10_400));
        let mut watch = Watch::new();
        for ms in (1_000..4_000).step_by(100) {
            hear(&mut watch, ME, Sender::Process, ms);
            assert!(!may_fence(&watch, ME, ms), "{ms}");
        }
        // A suspended host: the clock of the heartbeats stopped, too.
        let mut watch = steady();
        let now = watch.since + Duration::from_millis(10_000);
        watch.note_at(ME, Sender::Process, now, true);
        assert!(!may_fence(&watch, ME, 10_300));
    }

    /// One head, as the listener hears it: the times of its messages, and of its requests, in milliseconds.
    struct Head {
        heartbeats: Vec<u64>,
        requests: Vec<u64>,
    }

    /// End of a simulation.
    const END_MS: u64 = 25_000;

    impl Head {
        /// A head whose messages are lost in `outage`. Its leg-server, its pool server and its command reconnect at times
        /// of their own. A connection may deliver a message after the outage, and then break.
        fn new(rng: &mut fastrand::Rng, outage: std::ops::Range<u64>, has_pool: bool) -> Self {
            let reconnect_ms = RECONNECT_MAX.as_millis() as u64;
            let mut heartbeats = Vec::new();
            let interval_ms =
                [WITNESS_HEARTBEAT, ALIVE_INTERVAL].map(|wait| wait.as_millis() as u64);
            for interval_ms in &interval_ms[..1 + usize::from(has_pool)] {
                let returns = outage.end + rng.u64(..=reconnect_ms);
                let mut at = rng.u64(..*interval_ms);
                while at < END_MS {
                    if !(outage.start..returns).contains(&at) {
                        heartbeats.push(at);
                    }
                    at += interval_ms + rng.u64(..10);
                }
                let late = (0..rng.usize(..3)).map(|_| rng.u64(outage.end..=returns));
                heartbeats.extend(late);
            }
            let returns = outage.end + rng.u64(..=reconnect_ms);
            let mut requests = Vec::new();
            let mut at = rng.u64(..200);
            while at < END_MS {
                if !(outage.start..returns).contains(&at) {
                    requests.push(at);
                }
                at += 200 + rng.u64(..50);
            }
            Self {
                heartbeats,
                requests,
            }
        }

        /// The times at which each of two heads may fence the other one.
        fn permissions(heads: &[Self; 2]) -> [Vec<u64>; 2] {
            let mut events = Vec::new();
            for (from, head) in [ME, OTHER].into_iter().zip(heads) {
                events.extend(
                    head.heartbeats
                        .iter()
                        .map(|at| (*at, Sender::Process, from)),
                );
                events.extend(head.requests.iter().map(|at| (*at, Sender::Command, from)));
            }
            events.sort_by_key(|(at, ..)| *at);
            let mut watch = Watch::new();
            let mut permitted = [Vec::new(), Vec::new()];
            for (at, sender, from) in events {
                hear(&mut watch, from, sender, at);
                if sender == Sender::Command && may_fence(&watch, from, at) {
                    permitted[usize::from(from == OTHER)].push(at);
                }
            }
            permitted
        }
    }

    /// Number of simulated outages, each with a seed of its own.
    const SEEDS: u64 = 2_000;

    #[test]
    fn no_head_is_fenced_after_an_outage_of_everything() {
        for seed in 0..SEEDS {
            let mut rng = fastrand::Rng::with_seed(seed);
            let begin = rng.u64(5_000..6_000);
            let outage = begin..begin + rng.u64(300..=6_000);
            let heads = [(); 2].map(|()| {
                let has_pool = rng.bool();
                Head::new(&mut rng, outage.clone(), has_pool)
            });
            let permitted = Head::permissions(&heads);
            let none = permitted.iter().all(Vec::is_empty);
            assert!(none, "seed {seed}, {outage:?}: {permitted:?}");
        }
    }

    /// Outages of each head at times of their own, and one head may not return.
    #[test]
    fn two_heads_are_never_permitted_to_fence_each_other_within_three_seconds() {
        let apart_ms = (STEADY_BEFORE_FENCE - SILENT_BEFORE_FENCE).as_millis() as u64;
        let mut fences = 0;
        for seed in 0..SEEDS {
            let mut rng = fastrand::Rng::with_seed(seed);
            let heads = [(); 2].map(|()| {
                let begin = rng.u64(4_000..9_000);
                let length = if rng.u8(..4) == 0 {
                    END_MS
                } else {
                    rng.u64(300..=6_000)
                };
                let has_pool = rng.bool();
                Head::new(&mut rng, begin..begin + length, has_pool)
            });
            let [first, second] = Head::permissions(&heads);
            fences += usize::from(!first.is_empty() || !second.is_empty());
            for (a, b) in first
                .iter()
                .flat_map(|a| second.iter().map(move |b| (a, b)))
            {
                assert!(a.abs_diff(*b) >= apart_ms, "seed {seed}: {a} and {b}");
            }
        }
        assert!(fences > 100, "{fences}");
    }

    #[test]
    fn lost_head_is_fenced_at_the_first_request_whatever_the_phases() {
        for seed in 0..SEEDS {
            let mut rng = fastrand::Rng::with_seed(seed);
            let begin = rng.u64(5_000..6_000);
            let (lives, dies) = (END_MS..END_MS, begin..END_MS);
            let mut heads = [lives, dies].map(|outage| Head::new(&mut rng, outage, true));
            let expected = begin + SILENT_BEFORE_FENCE.as_millis() as u64;
            heads[0].requests = (expected..expected + 2_000).step_by(200).collect();
            let [first, second] = Head::permissions(&heads);
            assert_eq!(first, heads[0].requests, "seed {seed}");
            assert_eq!(second, Vec::<u64>::new(), "seed {seed}");
        }
    }
}
