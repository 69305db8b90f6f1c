//! What follows from Pacemaker's records of a head: whether a fence proves that it is off *now*.
//!
//! A fence that succeeded once proves nothing by itself: the head may have come back since, taken the pool, and
//! left the cluster in an order in which its server lives on. Times of day do not tell the two apart; clocks are
//! set. Pacemaker's records do: a confirmed fence *erases* what it ran on the head, a join writes it
//! anew, and an orderly end leaves it. So where the head is down and that record is gone, it was fenced after it was
//! last a member.

use crate::proof::Peer;

/// What Pacemaker has on record of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    /// There is a sign of life: it is seen, or its controller is.
    pub is_seen: bool,
    /// It has left, or was made to, and is not expected.
    pub is_down: bool,
    /// What was run there in its last membership.
    pub has_operations: bool,
    /// A power-off of it succeeded, at whatever time.
    pub has_been_fenced: bool,
    /// The last of these operations on the pool found or left no process that has it.
    pub has_stopped: bool,
}

impl Records {
    /// What is known of the head by them.
    pub const fn peer(self) -> Peer {
        if self.is_seen {
            return match self.has_stopped {
                true => Peer::Stopped,
                false => Peer::Member,
            };
        }
        match self.is_down && self.has_been_fenced && !self.has_operations {
            true => Peer::Fenced,
            false => Peer::Lost,
        }
    }

    /// Whether the record may be about to be erased: a fence counts before that is done.
    pub const fn may_be_settling(self) -> bool {
        !self.is_seen && self.is_down && self.has_been_fenced && self.has_operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every state, by what it is in life.
    #[test]
    fn a_fence_proves_only_the_absence_that_it_began() {
        const ABSENT: Records = Records {
            is_seen: false,
            is_down: true,
            has_operations: false,
            has_been_fenced: true,
            has_stopped: false,
        };
        let cases = [
            ("fenced, and not back since", ABSENT, Peer::Fenced),
            (
                "fenced once, back, and ended in order today",
                Records {
                    has_operations: true,
                    ..ABSENT
                },
                Peer::Lost,
            ),
            (
                "the same, after its pool was stopped: its word was that of a member",
                Records {
                    has_operations: true,
                    has_stopped: true,
                    ..ABSENT
                },
                Peer::Lost,
            ),
            (
                "fenced once, back, and lost today: the new fence has not ended, or failed",
                Records {
                    is_down: false,
                    has_operations: true,
                    ..ABSENT
                },
                Peer::Lost,
            ),
            (
                "lost before it ran anything",
                Records {
                    is_down: false,
                    ..ABSENT
                },
                Peer::Lost,
            ),
            (
                "down, and no fence on record: the survivor's Pacemaker began anew",
                Records {
                    has_been_fenced: false,
                    ..ABSENT
                },
                Peer::Lost,
            ),
            (
                "fenced, and booting again",
                Records {
                    is_seen: true,
                    ..ABSENT
                },
                Peer::Member,
            ),
            (
                "a member that was fenced once",
                Records {
                    is_seen: true,
                    is_down: false,
                    has_operations: true,
                    ..ABSENT
                },
                Peer::Member,
            ),
            (
                "a member that has let go",
                Records {
                    is_seen: true,
                    is_down: false,
                    has_operations: true,
                    has_stopped: true,
                    ..ABSENT
                },
                Peer::Stopped,
            ),
        ];
        for (when, records, expected) in cases {
            assert_eq!(records.peer(), expected, "{when}");
        }
    }

    /// Of all 32 states, one kind proves that the head is off.
    #[test]
    fn nothing_else_proves_that_a_head_is_off() {
        for bits in 0_u8..32 {
            let bit = |number: u8| bits >> number & 1 == 1;
            let records = Records {
                is_seen: bit(0),
                is_down: bit(1),
                has_operations: bit(2),
                has_been_fenced: bit(3),
                has_stopped: bit(4),
            };
            let is_proof = !bit(0) && bit(1) && !bit(2) && bit(3);
            assert_eq!(records.peer() == Peer::Fenced, is_proof, "{records:?}");
            let is_wait_of_use = records.may_be_settling();
            assert!(!(is_wait_of_use && is_proof), "{records:?}");
        }
    }
}
