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
    Confirmation,
    /// The cluster has verified that no process of that head has the pool. Its leg-server may run, so this is no vote.
    Stopped(MemberId),
    /// That head was off at a time after the cluster's last contact and before this process started.
    Fenced(MemberId),
}

/// Observations about a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation {
    /// Its member responds for the pool.
    pub(crate) responses: bool,
    /// There is a connection to its leg-server.
    pub(crate) is_connected: bool,
    /// When this process began to receive messages.
    pub(crate) began: Instant,
    /// Time of its last message since then.
    pub(crate) received: Option<Instant>,
}

impl Proof {
    /// Whether a head counts as off. `is_vote`: the proof replaces its vote.
    pub(crate) fn counts(
        self,
        head: MemberId,
        is_vote: bool,
        observation: Observation,
        now: Instant,
    ) -> bool {
        match self {
            Self::None => false,
            Self::Confirmation if is_vote => {
                !observation.is_connected && silence(observation, now) >= CONFIRMED_SILENCE
            }
            Self::Confirmation => !observation.responses,
            Self::Stopped(stopped) => stopped == head && !is_vote,
            // A head that has sent a message has been started since, and may have owned the pool again.
            Self::Fenced(fenced) => fenced == head && observation.received.is_none(),
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
            Self::Confirmation if is_vote => Some(CONFIRMED_SILENCE),
            Self::Confirmation => Some(short),
            Self::Stopped(stopped) if stopped == head && !is_vote => Some(short),
            Self::Fenced(fenced) if fenced == head => Some(short),
            _ => None,
        }
    }

    /// Why the proof does not count, as a message.
    pub(crate) fn objection(
        self,
        head: &str,
        is_vote: bool,
        observation: Observation,
    ) -> Option<String> {
        let why = match self {
            Self::None => return None,
            Self::Confirmation | Self::Fenced(_) if observation.is_connected => format!(
                "its leg-server responds: power {head} off, or stop its pool servers and its leg-server, and see that they have ended"
            ),
            Self::Fenced(_) if observation.received.is_some() => {
                format!("it has sent a message since: power {head} off, and try again")
            }
            Self::Confirmation => {
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

fn silence(observation: Observation, now: Instant) -> Duration {
    now.saturating_duration_since(observation.received.unwrap_or(observation.began))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: MemberId = MemberId(1);
    const B: MemberId = MemberId(2);

    #[test]
    fn confirmation_counts_as_vote_only_after_silence() {
        let began = Instant::now();
        let silent = Observation {
            responses: false,
            is_connected: false,
            began,
            received: None,
        };
        let received = Observation {
            received: Some(began + CONFIRMED_SILENCE / 2),
            ..silent
        };
        let responses = Observation {
            responses: true,
            is_connected: true,
            ..received
        };
        let late = began + CONFIRMED_SILENCE;
        for (proof, is_vote, observation, now, counts) in [
            (Proof::None, false, silent, late, false),
            (Proof::Confirmation, true, silent, began, false),
            (Proof::Confirmation, true, silent, late, true),
            (Proof::Confirmation, true, received, late, false),
            (Proof::Confirmation, true, responses, late, false),
            (Proof::Confirmation, false, silent, began, true),
            (Proof::Confirmation, false, responses, late, false),
            (Proof::Stopped(A), true, silent, late, false),
            (Proof::Stopped(A), false, responses, began, true),
            (Proof::Stopped(B), false, silent, late, false),
            (Proof::Fenced(A), true, silent, began, true),
            (Proof::Fenced(A), true, received, late, false),
            (Proof::Fenced(A), false, received, late, false),
            (Proof::Fenced(B), true, silent, late, false),
        ] {
            let found = proof.counts(A, is_vote, observation, now);
            assert_eq!(found, counts, "{proof:?}, {is_vote}, {observation:?}");
        }
    }
}
