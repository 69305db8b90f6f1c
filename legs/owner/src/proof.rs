//! The proof that a previous owner has stopped, and when it counts.

use std::time::{Duration, Instant};

use leg_record::MemberId;
use takeover::budget::CONFIRMED_SILENCE;

/// The proof about the previous owner that this process was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Nothing.
    None,
    /// An administrator's confirmation: no Bulkhead process runs on the other head.
    Word,
    /// The cluster has verified that no process of that head has the pool. Its leg-server may run, so this is no vote.
    Stopped(MemberId),
    /// That head was off at a time after the cluster's last contact and before this process started.
    Fenced(MemberId),
}

/// Observations about a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// Its member responds for the pool.
    pub(crate) answers: bool,
    /// There is a connection to its leg-server.
    pub(crate) is_connected: bool,
    /// When this process began to receive messages.
    pub(crate) began: Instant,
    /// Time of its last message since then.
    pub(crate) heard: Option<Instant>,
}

impl Proof {
    /// Whether a head counts as off. `is_vote`: the proof replaces its vote.
    pub(crate) fn counts(self, head: MemberId, is_vote: bool, sight: Sight, now: Instant) -> bool {
        match self {
            Self::None => false,
            Self::Word if is_vote => {
                !sight.is_connected && silence(sight, now) >= CONFIRMED_SILENCE
            }
            Self::Word => !sight.answers,
            Self::Stopped(stopped) => stopped == head && !is_vote,
            // A head that has sent a message has been started since, and may have owned the pool again.
            Self::Fenced(fenced) => fenced == head && sight.heard.is_none(),
        }
    }

    /// How long to wait for a head without a connection, if the proof counts afterwards.
    pub(crate) fn unreachable_wait(
        self,
        head: MemberId,
        is_vote: bool,
        short: Duration,
    ) -> Option<Duration> {
        match self {
            Self::Word if is_vote => Some(CONFIRMED_SILENCE),
            Self::Word => Some(short),
            Self::Stopped(stopped) if stopped == head && !is_vote => Some(short),
            Self::Fenced(fenced) if fenced == head => Some(short),
            _ => None,
        }
    }

    /// Why the proof does not count, as a message.
    pub(crate) fn objection(self, head: &str, is_vote: bool, sight: Sight) -> Option<String> {
        let why = match self {
            Self::None => return None,
            Self::Word | Self::Fenced(_) if sight.is_connected => format!(
                "its leg-server responds: power {head} off, or stop its pool servers and its leg-server, and see that they have ended"
            ),
            Self::Fenced(_) if sight.heard.is_some() => {
                format!("it has sent a message since: power {head} off, and try again")
            }
            Self::Word => {
                format!("it has sent a message just now: power {head} off, and try again")
            }
            Self::Stopped(_) if is_vote => format!(
                "that its server has stopped does not replace its vote, and its leg-server cannot be reached: see to the network \
                 between the heads, or power {head} off"
            ),
            Self::Stopped(_) | Self::Fenced(_) => "the confirmation names another head".to_owned(),
        };
        Some(format!(
            "the confirmation that {head} is off or has stopped does not count: {why}"
        ))
    }
}

fn silence(sight: Sight, now: Instant) -> Duration {
    now.saturating_duration_since(sight.heard.unwrap_or(sight.began))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: MemberId = MemberId(1);
    const B: MemberId = MemberId(2);

    #[test]
    fn a_word_is_a_vote_only_after_a_silence_and_a_stopped_process_never_is() {
        let began = Instant::now();
        let silent = Sight {
            answers: false,
            is_connected: false,
            began,
            heard: None,
        };
        let heard = Sight {
            heard: Some(began + CONFIRMED_SILENCE / 2),
            ..silent
        };
        let answers = Sight {
            answers: true,
            is_connected: true,
            ..heard
        };
        let late = began + CONFIRMED_SILENCE;
        for (proof, is_vote, sight, now, counts) in [
            (Proof::None, false, silent, late, false),
            (Proof::Word, true, silent, began, false),
            (Proof::Word, true, silent, late, true),
            (Proof::Word, true, heard, late, false),
            (Proof::Word, true, answers, late, false),
            (Proof::Word, false, silent, began, true),
            (Proof::Word, false, answers, late, false),
            (Proof::Stopped(A), true, silent, late, false),
            (Proof::Stopped(A), false, answers, began, true),
            (Proof::Stopped(B), false, silent, late, false),
            (Proof::Fenced(A), true, silent, began, true),
            (Proof::Fenced(A), true, heard, late, false),
            (Proof::Fenced(A), false, heard, late, false),
            (Proof::Fenced(B), true, silent, late, false),
        ] {
            let found = proof.counts(A, is_vote, sight, now);
            assert_eq!(found, counts, "{proof:?}, {is_vote}, {sight:?}");
        }
    }
}
