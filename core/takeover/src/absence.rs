//! Derives from Pacemaker's records of a head whether a fence proves that it is off *now*.
//!
//! An earlier successful fence alone proves nothing: the head may have rejoined since, imported the pool, and left the
//! cluster in an order in which its server still runs. Timestamps do not distinguish the two, because clocks can be
//! set. Pacemaker's records do. A confirmed fence *erases* the operations of the head, a join writes them again, and an
//! orderly shutdown leaves them. So a head that is down without that record was fenced after it was last a member.

use crate::proof::Peer;

/// Pacemaker's records of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    /// It shows activity: it is a member, or its controller is.
    pub is_seen: bool,
    /// It has left, or was removed, and is not expected.
    pub is_down: bool,
    /// Operations of its last membership are on record.
    pub has_operations: bool,
    /// A fence of it succeeded, at any time.
    pub has_been_fenced: bool,
    /// The last of these operations on the pool proved that no process has it.
    pub has_stopped: bool,
}

impl Records {
    /// Returns the state of the head that they prove.
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

    /// Returns whether the record may be about to be erased: a fence is reported before that is
    /// done.
    pub const fn may_be_settling(self) -> bool {
        !self.is_seen && self.is_down && self.has_been_fenced && self.has_operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every state, by its cause.
    #[test]
    fn fence_proves_only_its_own_absence() {
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
                "the same, after its pool was stopped: it reported that as a member",
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
                "down, and no fence on record: the survivor's Pacemaker was restarted",
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
    fn only_a_fence_proves_power_off() {
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
