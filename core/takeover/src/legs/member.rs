//! One member, a head or the witness: what it remembers of a pool, and how it answers.
//!
//! It keeps three things on stable storage: the greatest tenure that it promised to, the newest record that it
//! accepted, and which record it knows to be committed. [`Memory::handle`] says what to write. The answer may go
//! only after that is durable.

use super::record::{Ballot, MemberId, Record, Version};
use super::rules::{Rule, holds};

/// Marks the answer to one question of one boot of one head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// Of the head that asks: random, or a counter that never repeats.
    pub boot: u64,
    /// Counted in that boot.
    pub number: u32,
}

/// What a member has on stable storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// It accepts nothing of an older tenure.
    pub promised: Ballot,
    /// The newest record.
    pub accepted: Option<Record>,
    /// It is known that a quorum had this record.
    pub committed: Version,
}

/// What a member is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// What do you remember?
    Read(Tag),
    /// Promise to accept nothing of older tenures.
    Claim {
        /// The new tenure.
        ballot: Ballot,
        /// Whose.
        by: MemberId,
    },
    /// Accept this record.
    Propose(Record),
    /// This record is committed. Needs no answer.
    Committed(Ballot, Version),
}

/// What a member answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To a read.
    Known(Tag, Memory),
    /// It promised, and its own head does not serve the pool. Holds the newest record that it accepted.
    Promised(Ballot, Option<Record>),
    /// Its own head serves the pool.
    Serves(Ballot),
    /// It accepted.
    Accepted(Ballot, Version),
    /// It promised to another tenure before.
    Refused {
        /// What it was asked for.
        asked: Ballot,
        /// To whom it promised.
        promised: Ballot,
    },
}

/// What follows from a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// To be written, flushed and renamed into place before the answer goes; nothing if it is the same.
    pub write: Option<Memory>,
    /// The answer.
    pub answer: Option<Answer>,
}

impl Memory {
    /// Of a member that was there when the pool was made.
    pub fn new(record: Record) -> Self {
        Self {
            promised: record.ballot,
            committed: record.version(),
            accepted: Some(record),
        }
    }

    /// The newest record, if it is known to be committed.
    pub fn committed_record(&self) -> Option<&Record> {
        let record = self.accepted.as_ref()?;
        let is_known = record.version() == self.committed || !holds(Rule::SoleIsCommitted);
        is_known.then_some(record)
    }

    /// Answers a request. `serves`: the owner of the pool is on this very head.
    pub fn handle(&self, request: Request, serves: bool) -> Reply {
        match request {
            Request::Read(tag) => Reply {
                write: None,
                answer: Some(Answer::Known(tag, self.clone())),
            },
            Request::Claim { ballot, .. } if serves && holds(Rule::OwnersPromiseNothing) => Reply {
                write: None,
                answer: Some(Answer::Serves(ballot)),
            },
            Request::Claim { ballot, .. } => self.claim(ballot),
            // Its owner has the promise of this member, and no tenure that has not may act on its answer.
            Request::Propose(record)
                if serves && record.ballot != self.promised && holds(Rule::OwnersAcceptNothing) =>
            {
                self.refuse(record.ballot)
            }
            Request::Propose(record) => self.propose(record),
            Request::Committed(ballot, version) => self.learn(ballot, version),
        }
    }

    fn claim(&self, ballot: Ballot) -> Reply {
        let is_newer = ballot.epoch > self.promised.epoch;
        let is_shared =
            ballot.epoch == self.promised.epoch && !holds(Rule::OneCandidateForEachEpoch);
        if !is_newer && !is_shared && ballot != self.promised {
            return self.refuse(ballot);
        }
        let promised = Self {
            promised: ballot,
            ..self.clone()
        };
        Reply {
            write: is_newer.then_some(promised),
            answer: Some(Answer::Promised(ballot, self.accepted.clone())),
        }
    }

    fn propose(&self, record: Record) -> Reply {
        let ballot = record.ballot;
        let is_older = ballot.epoch < self.promised.epoch && holds(Rule::MembersRefuseOlderEpochs);
        let is_other = ballot.epoch == self.promised.epoch
            && ballot != self.promised
            && holds(Rule::OneCandidateForEachEpoch);
        if is_older || is_other {
            return self.refuse(ballot);
        }
        let version = record.version();
        let has_newer = self
            .accepted
            .as_ref()
            .is_some_and(|known| known.version() > version && ballot == known.ballot);
        // A record that came late: what it said was replaced by its own proposer.
        if has_newer {
            return Reply {
                write: None,
                answer: None,
            };
        }
        let accepted = Self {
            promised: ballot,
            accepted: Some(record),
            committed: self.committed,
        };
        Reply {
            write: (accepted != *self).then_some(accepted),
            answer: Some(Answer::Accepted(ballot, version)),
        }
    }

    fn learn(&self, ballot: Ballot, version: Version) -> Reply {
        let is_it = |record: &&Record| record.ballot == ballot && record.version() == version;
        let is_known = self.accepted.as_ref().filter(is_it).is_some();
        let learnt = Self {
            committed: version,
            ..self.clone()
        };
        Reply {
            write: (is_known && self.committed != version).then_some(learnt),
            answer: None,
        }
    }

    fn refuse(&self, asked: Ballot) -> Reply {
        Reply {
            write: None,
            answer: Some(Answer::Refused {
                asked,
                promised: self.promised,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::legs::record::DiskId;

    fn ballot(epoch: u64, nonce: u64) -> Ballot {
        Ballot { epoch, nonce }
    }

    fn memory() -> Memory {
        Memory::new(Record::new(1, ballot(3, 1), [DiskId(1)]))
    }

    fn claim(ballot: Ballot) -> Request {
        let by = MemberId(1);
        Request::Claim { ballot, by }
    }

    #[test]
    fn an_epoch_is_promised_once() {
        let reply = memory().handle(claim(ballot(4, 8)), false);
        let promised = reply.write.expect("to be written");
        assert!(matches!(reply.answer, Some(Answer::Promised(_, Some(_)))));
        let again = promised.handle(claim(ballot(4, 8)), false);
        assert_eq!(again.write, None);
        assert!(matches!(again.answer, Some(Answer::Promised(..))));
        for late in [ballot(4, 9), ballot(3, 1)] {
            let refused = promised.handle(claim(late), false);
            assert!(matches!(refused.answer, Some(Answer::Refused { .. })));
        }
    }

    #[test]
    fn a_record_of_an_older_tenure_is_refused() {
        let promised = memory()
            .handle(claim(ballot(4, 8)), false)
            .write
            .expect("new");
        let old = Record::new(1, ballot(3, 1), []);
        let reply = promised.handle(Request::Propose(old), false);
        assert!(matches!(reply.answer, Some(Answer::Refused { .. })));
        assert_eq!(reply.write, None);
    }

    #[test]
    fn a_record_that_its_proposer_replaced_is_not_taken() {
        let mut newer = Record::new(1, ballot(3, 1), []);
        newer.sequence = 5;
        let late = Record {
            sequence: 4,
            ..newer.clone()
        };
        let accepted = memory()
            .handle(Request::Propose(newer), false)
            .write
            .expect("new");
        let reply = accepted.handle(Request::Propose(late), false);
        assert_eq!((reply.write, reply.answer), (None, None));
    }

    #[test]
    fn a_head_that_serves_promises_nothing_and_accepts_nothing_of_others() {
        let reply = memory().handle(claim(ballot(9, 9)), true);
        assert_eq!(reply.answer, Some(Answer::Serves(ballot(9, 9))));
        assert_eq!(reply.write, None);
        let other = Record::new(1, ballot(9, 9), [DiskId(1)]);
        let reply = memory().handle(Request::Propose(other), true);
        let (asked, promised) = (ballot(9, 9), ballot(3, 1));
        let refused = Answer::Refused { asked, promised };
        assert_eq!((reply.answer, reply.write), (Some(refused), None));
        let mut own = Record::new(1, ballot(3, 1), [DiskId(1)]);
        own.sequence = 2;
        let reply = memory().handle(Request::Propose(own), true);
        assert!(matches!(reply.answer, Some(Answer::Accepted(..))));
    }
}
