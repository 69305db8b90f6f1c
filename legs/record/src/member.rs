//! The state of one member, a head or the witness, for a pool, and its responses.
//!
//! The durable state consists of the greatest term that it promised to and that was not withdrawn, the newest record
//! that it accepted, and the version of the committed record. [`MemberState::handle`] returns the state to write. The
//! response may be sent only after that is durable.
//!
//! **A member that lost this state** may have made any promise. An administrator readmits it with a new *life*, a
//! random number. In that life it is no member ([`MemberState::again`]) until a committed record names the life, and its
//! owner has sent that record. Votes of the previous life do not count together with such a record.

use super::record::{Ballot, MemberId, Record, Version};
use super::rules::{Rule, holds};

/// A claim or a record this far after the promised epoch comes from no valid candidate.
const EPOCHS_AT_ONCE_MAX: u64 = 1 << 32;

/// Identifies the response to one request of one boot of one head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// Boot number of the sender: random, or a counter that never repeats.
    pub boot: u64,
    /// Counted in that boot.
    pub number: u32,
}

/// A member's durable state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemberState {
    /// It accepts nothing of an older term.
    pub promised: Ballot,
    /// The promise before it; restored if the term is withdrawn. Not stored.
    pub before: Ballot,
    /// The newest record.
    pub accepted: Option<Record>,
    /// The version of the newest record that is known to be committed.
    pub committed: Version,
    /// Random, if the member lost its state before; otherwise 0.
    pub life: u64,
}

/// A request to a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Return the state.
    Read(Tag),
    /// Promise to accept nothing of older terms.
    Claim {
        /// The new term.
        ballot: Ballot,
        /// The candidate.
        by: MemberId,
    },
    /// This term is abandoned: its claim was refused, and it proposes no record. Needs no response.
    Withdraw(Ballot),
    /// Accept this record.
    Propose(Record),
    /// This record is committed. Needs no response.
    Committed(Ballot, Version),
    /// This record is committed, and names the life of a member without state: store it, and become a member.
    Welcome(Record),
    /// This record is committed, and does not name you: begin that life, to be a member later.
    Join {
        /// Tag of the response.
        tag: Tag,
        /// The newest record of the pool's owner.
        record: Record,
        /// Random, not 0.
        life: u64,
    },
}

/// A member's response.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Response {
    /// To a read.
    Known(Tag, MemberState),
    /// The term is promised, and the own head does not serve the pool.
    Promised {
        /// The promised term.
        ballot: Ballot,
        /// The newest record that it accepted.
        record: Option<Record>,
        /// The life in which it promised.
        life: u64,
    },
    /// The own head serves the pool.
    Serves(Ballot),
    /// It accepted.
    Accepted(Ballot, Version),
    /// Another term was promised before.
    Refused {
        /// The requested term.
        requested: Ballot,
        /// The promised term.
        promised: Ballot,
    },
    /// To a read: its state is lost, and it is no member until a record names this life.
    StateLost(Tag, u64),
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Must be written, flushed and renamed before the response is sent; `None` if unchanged.
    pub write: Option<MemberState>,
    /// The response.
    pub response: Option<Response>,
}

impl Reply {
    fn none() -> Self {
        Self {
            write: None,
            response: None,
        }
    }
}

impl MemberState {
    /// The state of a member at the creation of the pool.
    pub fn new(record: Record) -> Self {
        Self {
            promised: record.ballot,
            before: Ballot::default(),
            committed: record.version(),
            accepted: Some(record),
            life: 0,
        }
    }

    /// The state of a member that lost its state and is readmitted. `life`: random, not 0.
    pub fn again(life: u64) -> Self {
        Self {
            life,
            ..Self::default()
        }
    }

    /// Whether it lost its state, and has received no record since.
    pub fn is_lost(&self) -> bool {
        self.life != 0 && self.accepted.is_none()
    }

    /// The newest record, if it is known to be committed.
    pub fn committed_record(&self) -> Option<&Record> {
        let record = self.accepted.as_ref()?;
        let is_known = record.version() == self.committed || !holds(Rule::SoleIsCommitted);
        is_known.then_some(record)
    }

    /// Handles a request to member `me`. `serves`: the owner of the pool is on this head.
    pub fn handle(&self, me: MemberId, request: Request, serves: bool) -> Reply {
        if self.is_lost() {
            return self.handle_lost(me, request);
        }
        match request {
            Request::Read(tag) => Reply {
                write: None,
                response: Some(Response::Known(tag, self.clone())),
            },
            Request::Claim { ballot, .. } if serves && holds(Rule::OwnersPromiseNothing) => Reply {
                write: None,
                response: Some(Response::Serves(ballot)),
            },
            Request::Claim { ballot, .. } => self.claim(ballot),
            Request::Withdraw(ballot) => self.withdraw(ballot),
            // This head's owner has the promise of this member, and no other term may act on its response.
            Request::Propose(record)
                if serves && record.ballot != self.promised && holds(Rule::OwnersAcceptNothing) =>
            {
                self.refuse(record.ballot)
            }
            // This is a replaced host, or an old copy of its file: another life counts.
            Request::Propose(record) if record.life(me) != self.life => Reply::none(),
            Request::Propose(record) => self.propose(record),
            Request::Committed(ballot, version) => self.accept_committed(ballot, version),
            // A repeat: the response was lost.
            Request::Welcome(record) if self.accepted.as_ref() == Some(&record) => Reply {
                write: None,
                response: Some(Response::Accepted(record.ballot, record.version())),
            },
            Request::Welcome(record) => self.welcome(me, record),
            Request::Join { tag, record, life } => self.join(me, tag, &record, life),
        }
    }

    /// It was a member before and is none now, so its state is obsolete.
    fn join(&self, me: MemberId, tag: Tag, record: &Record, life: u64) -> Reply {
        let known = self.accepted.as_ref();
        let is_newer = known.is_some_and(|known| known.version() <= record.version());
        if life == 0 || known.is_some() && !(record.leaves_out(me) && is_newer) {
            return Reply::none();
        }
        Reply {
            write: Some(Self::again(life)),
            response: Some(Response::StateLost(tag, life)),
        }
    }

    /// It already has a life. If it was a member in that life before, messages about it may be in flight, so a new life
    /// begins.
    fn join_lost(&self, me: MemberId, tag: Tag, record: &Record, life: u64) -> Reply {
        let is_used = record.leaves_out(me) && record.life(me) == self.life;
        match is_used && life != 0 && holds(Rule::LivesAreUsedOnce) {
            true => Reply {
                write: Some(Self::again(life)),
                response: Some(Response::StateLost(tag, life)),
            },
            false => Reply {
                write: None,
                response: Some(Response::StateLost(tag, self.life)),
            },
        }
    }

    fn handle_lost(&self, me: MemberId, request: Request) -> Reply {
        match request {
            Request::Read(tag) => Reply {
                write: None,
                response: Some(Response::StateLost(tag, self.life)),
            },
            Request::Welcome(record) => self.welcome(me, record),
            Request::Join { tag, record, life } => self.join_lost(me, tag, &record, life),
            Request::Claim { .. }
            | Request::Withdraw(_)
            | Request::Propose(_)
            | Request::Committed(..) => Reply::none(),
        }
    }

    fn welcome(&self, me: MemberId, record: Record) -> Reply {
        if !self.is_lost() || record.life(me) != self.life {
            return Reply::none();
        }
        Reply {
            response: Some(Response::Accepted(record.ballot, record.version())),
            write: Some(Self {
                life: self.life,
                ..Self::new(record)
            }),
        }
    }

    fn claim(&self, ballot: Ballot) -> Reply {
        let is_newer = ballot.epoch > self.promised.epoch;
        let is_shared =
            ballot.epoch == self.promised.epoch && !holds(Rule::OneCandidateForEachEpoch);
        let is_refused = !is_newer && !is_shared && ballot != self.promised;
        if is_refused || self.is_far_ahead(ballot) {
            return self.refuse(ballot);
        }
        let promised = Self {
            promised: ballot,
            before: self.promised,
            ..self.clone()
        };
        Reply {
            write: is_newer.then_some(promised),
            response: Some(Response::Promised {
                ballot,
                record: self.accepted.clone(),
                life: self.life,
            }),
        }
    }

    /// No valid candidate reaches such an epoch. After a promise of the last epoch no head could open the pool any
    /// more.
    fn is_far_ahead(&self, ballot: Ballot) -> bool {
        ballot.epoch.saturating_sub(self.promised.epoch) > EPOCHS_AT_ONCE_MAX
    }

    /// The owner with the promises of the other members may continue. No decision relies on a promise to an abandoned
    /// term.
    fn withdraw(&self, ballot: Ballot) -> Reply {
        let is_it = self.promised == ballot && self.before != Ballot::default();
        let before = Self {
            promised: self.before,
            before: Ballot::default(),
            ..self.clone()
        };
        Reply {
            write: is_it.then_some(before),
            response: None,
        }
    }

    fn propose(&self, record: Record) -> Reply {
        let ballot = record.ballot;
        let is_older = ballot.epoch < self.promised.epoch && holds(Rule::MembersRefuseOlderEpochs);
        let is_other = ballot.epoch == self.promised.epoch
            && ballot != self.promised
            && holds(Rule::OneCandidateForEachEpoch);
        if is_older || is_other || self.is_far_ahead(ballot) {
            return self.refuse(ballot);
        }
        let version = record.version();
        let has_newer = self
            .accepted
            .as_ref()
            .is_some_and(|known| known.version() > version && ballot == known.ballot);
        // A late record: its own proposer has replaced it.
        if has_newer {
            return Reply::none();
        }
        let accepted = Self {
            promised: ballot,
            before: Ballot::default(),
            accepted: Some(record),
            committed: self.committed,
            life: self.life,
        };
        Reply {
            write: (accepted != *self).then_some(accepted),
            response: Some(Response::Accepted(ballot, version)),
        }
    }

    fn accept_committed(&self, ballot: Ballot, version: Version) -> Reply {
        let is_it = |record: &&Record| record.ballot == ballot && record.version() == version;
        let is_known = self.accepted.as_ref().filter(is_it).is_some();
        let learnt = Self {
            committed: version,
            ..self.clone()
        };
        Reply {
            write: (is_known && self.committed != version).then_some(learnt),
            response: None,
        }
    }

    fn refuse(&self, requested: Ballot) -> Reply {
        Reply {
            write: None,
            response: Some(Response::Refused {
                requested,
                promised: self.promised,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::Membership;
    use crate::record::DiskId;

    const ME: MemberId = MemberId(2);

    fn ballot(epoch: u64, nonce: u64) -> Ballot {
        Ballot { epoch, nonce }
    }

    fn memory() -> MemberState {
        MemberState::new(Record::new(1, ballot(3, 1), [DiskId(1)]))
    }

    fn handle(memory: &MemberState, request: Request, serves: bool) -> Reply {
        memory.handle(ME, request, serves)
    }

    fn claim(ballot: Ballot) -> Request {
        let by = MemberId(1);
        Request::Claim { ballot, by }
    }

    #[test]
    fn abandoned_claim_restores_previous_promise() {
        let before = memory();
        let (other, later) = (ballot(4, 2), ballot(5, 3));
        let write = |memory: &MemberState, request| handle(memory, request, false).write;
        let promised = write(&before, claim(other)).expect("it promises");
        assert_eq!(
            write(&promised, Request::Withdraw(later)),
            None,
            "no promise to that one"
        );
        assert_eq!(
            write(&promised, Request::Withdraw(other)),
            Some(before.clone())
        );
        // A later promise stays.
        let next = write(&promised, claim(later)).expect("it promises");
        assert_eq!(write(&next, Request::Withdraw(other)), None);
        assert_eq!(
            write(&next, Request::Withdraw(later)).map(|memory| memory.promised),
            Some(other)
        );
        // An accepted record stays.
        let record = Record::new(1, later, [DiskId(1)]);
        let accepted = write(&next, Request::Propose(record)).expect("it accepts");
        assert_eq!(write(&accepted, Request::Withdraw(later)), None);
        assert_eq!(write(&before, Request::Withdraw(before.promised)), None);
    }

    #[test]
    fn unreachable_epoch_is_not_promised_or_accepted() {
        let far = ballot(3 + EPOCHS_AT_ONCE_MAX + 1, 8);
        let record = Record::new(1, far, [DiskId(1)]);
        for request in [claim(far), Request::Propose(record)] {
            let reply = handle(&memory(), request, false);
            assert!(matches!(reply.response, Some(Response::Refused { .. })));
            assert_eq!(reply.write, None);
        }
        let near = ballot(3 + EPOCHS_AT_ONCE_MAX, 8);
        assert!(handle(&memory(), claim(near), false).write.is_some());
    }

    #[test]
    fn an_epoch_is_promised_once() {
        let reply = handle(&memory(), claim(ballot(4, 8)), false);
        let promised = reply.write.expect("to be written");
        assert!(matches!(
            reply.response,
            Some(Response::Promised {
                record: Some(_),
                ..
            })
        ));
        let again = handle(&promised, claim(ballot(4, 8)), false);
        assert_eq!(again.write, None);
        assert!(matches!(again.response, Some(Response::Promised { .. })));
        for late in [ballot(4, 9), ballot(3, 1)] {
            let refused = handle(&promised, claim(late), false);
            assert!(matches!(refused.response, Some(Response::Refused { .. })));
        }
    }

    #[test]
    fn a_record_of_an_older_term_is_refused() {
        let promised = handle(&memory(), claim(ballot(4, 8)), false);
        let promised = promised.write.expect("new");
        let old = Record::new(1, ballot(3, 1), []);
        let reply = handle(&promised, Request::Propose(old), false);
        assert!(matches!(reply.response, Some(Response::Refused { .. })));
        assert_eq!(reply.write, None);
    }

    #[test]
    fn record_superseded_by_proposer_is_not_accepted() {
        let mut newer = Record::new(1, ballot(3, 1), []);
        newer.sequence = 5;
        let late = Record {
            sequence: 4,
            ..newer.clone()
        };
        let accepted = handle(&memory(), Request::Propose(newer), false);
        let accepted = accepted.write.expect("new");
        let reply = handle(&accepted, Request::Propose(late), false);
        assert_eq!((reply.write, reply.response), (None, None));
    }

    #[test]
    fn serving_head_refuses_promises_and_foreign_records() {
        let reply = handle(&memory(), claim(ballot(9, 9)), true);
        assert_eq!(reply.response, Some(Response::Serves(ballot(9, 9))));
        assert_eq!(reply.write, None);
        let other = Record::new(1, ballot(9, 9), [DiskId(1)]);
        let reply = handle(&memory(), Request::Propose(other), true);
        let (requested, promised) = (ballot(9, 9), ballot(3, 1));
        let refused = Response::Refused {
            requested,
            promised,
        };
        assert_eq!((reply.response, reply.write), (Some(refused), None));
        let mut own = Record::new(1, ballot(3, 1), [DiskId(1)]);
        own.sequence = 2;
        let reply = handle(&memory(), Request::Propose(own), true);
        assert!(matches!(reply.response, Some(Response::Accepted(..))));
    }

    fn named(life: u64) -> Record {
        let mut record = Record::new(1, ballot(5, 6), [DiskId(1)]);
        record.lives.insert(ME, life);
        record
    }

    #[test]
    fn member_without_state_votes_after_record_names_its_life() {
        let lost = MemberState::again(70);
        let tag = Tag { boot: 3, number: 1 };
        let reply = handle(&lost, Request::Read(tag), false);
        assert_eq!(reply.response, Some(Response::StateLost(tag, 70)));
        for request in [
            claim(ballot(9, 9)),
            Request::Propose(named(70)),
            Request::Welcome(named(71)),
            Request::Welcome(Record::new(1, ballot(5, 6), [DiskId(1)])),
        ] {
            let reply = handle(&lost, request.clone(), false);
            assert_eq!(reply, Reply::none(), "{request:?}");
        }
        let welcomed = handle(&lost, Request::Welcome(named(70)), false);
        let reported = welcomed.write.expect("to be written");
        assert_eq!(reported.promised, ballot(5, 6));
        let again = handle(&reported, Request::Welcome(named(70)), false);
        assert_eq!((again.write, again.response), (None, welcomed.response));
        let reply = handle(&reported, claim(ballot(6, 1)), false);
        let promised = matches!(reply.response, Some(Response::Promised { life: 70, .. }));
        assert!(promised, "{:?}", reply.response);
        let older = Record {
            sequence: 4,
            ..named(70)
        };
        assert_eq!(
            handle(&reported, Request::Welcome(older), false),
            Reply::none()
        );
    }

    #[test]
    fn member_starts_new_life_without_state_or_after_removal() {
        let tag = Tag { boot: 3, number: 1 };
        let join = |record: &Record, life| Request::Join {
            tag,
            record: record.clone(),
            life,
        };
        let mut record = named(0);
        record.lives.clear();
        let begun = Reply {
            write: Some(MemberState::again(9)),
            response: Some(Response::StateLost(tag, 9)),
        };
        assert_eq!(
            handle(&MemberState::default(), join(&record, 9), false),
            begun
        );
        assert_eq!(handle(&memory(), join(&record, 9), false), Reply::none());
        record.members = Some(Membership::TwoHeads([MemberId(1), ME]));
        assert_eq!(handle(&memory(), join(&record, 9), false), Reply::none());
        record.members = Some(Membership::TwoHeads([MemberId(1), MemberId(3)]));
        assert_eq!(handle(&memory(), join(&record, 9), false), begun);
        assert_eq!(handle(&memory(), join(&record, 0), false), Reply::none());
        record.ballot = ballot(2, 1);
        assert_eq!(handle(&memory(), join(&record, 9), false), Reply::none());
        let again = handle(&MemberState::again(9), join(&record, 8), false);
        assert_eq!(
            (again.write, again.response),
            (None, begun.response.clone())
        );
        // In life 7 it was a member before.
        record.lives.insert(ME, 7);
        let again = handle(&MemberState::again(7), join(&record, 9), false);
        assert_eq!(again, begun);
        record.members = Some(Membership::TwoHeads([MemberId(1), ME]));
        let again = handle(&MemberState::again(7), join(&record, 9), false);
        assert_eq!(
            (again.write, again.response),
            (None, Some(Response::StateLost(tag, 7)))
        );
    }

    /// Its host was replaced, or an old copy of its file was restored.
    #[test]
    fn a_member_of_another_life_does_not_vote_for_a_record() {
        let reply = handle(&memory(), Request::Propose(named(70)), false);
        assert_eq!(reply, Reply::none());
    }
}
