//! The lender of a disk: the term that it enforces, and one session at a time.
//!
//! The lender stores two values next to the disk: the greatest term that claimed it, and the stamp
//! of the session that last began to write. A session belongs to one start of the lender, its incarnation: a
//! restarted lender may have lost writes that it acknowledged and that were not flushed.
//!
//! A local owner has a session like any other; the end of its process is the drain.

use super::record::{Ballot, MemberId, Roots, Session};
use super::rules::{Rule, holds};

/// A lender's durable state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LenderState {
    /// Older terms are refused.
    pub enforced: Ballot,
    /// The stamp: the session that last began to write.
    pub mark: Session,
}

/// A request to a lender, apart from I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LenderRequest {
    /// Admit this session and no older one.
    Claim(Session),
    /// The record that lists the disk for this session is committed: stamp the disk.
    Begin(Session, u64),
}

/// A lender's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LenderResponse {
    /// The session is admitted, and no I/O of an earlier one can land any more.
    Admitted(Session, Observed),
    /// The disk is stamped.
    Begun(Session),
    /// A newer session was admitted, or the lender restarted.
    Refused(Session),
}

impl LenderResponse {
    /// The session that the response is about.
    pub fn session(self) -> Session {
        match self {
            Self::Admitted(session, _) | Self::Begun(session) | Self::Refused(session) => session,
        }
    }
}

/// Observed state of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Observed {
    /// The start of the lender ([`process_of`]), with the count of openings of the disk.
    pub incarnation: u64,
    /// The stamp.
    pub mark: Session,
    /// The newest roots on it.
    pub roots: Roots,
}

/// Bits of an incarnation that count the openings of a disk, starting at a random number.
const OPENING_BITS: u32 = 16;

/// The common part of all incarnations of one start of a lender.
pub fn process_of(incarnation: u64) -> u64 {
    incarnation >> OPENING_BITS
}

/// Why a lender admits no session. Only for messages: no decision depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// This term has claimed the disk, that of this member if the lender still has its number.
    Term(Ballot, Option<MemberId>),
    /// A process of the lender's host uses the disk.
    InUse,
    /// The disk cannot be opened.
    Unopened,
    /// The stored state of the disk cannot be read.
    Unknown,
    /// The lender restarted since the session was admitted.
    Reopened,
}

/// The user of a disk, by its lender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The disk is unused.
    Unused,
    /// A session, of this member.
    Session(Option<MemberId>),
    /// A process of the lender's host.
    Process,
    /// It cannot be opened.
    Unopened,
    /// The stored state of the disk cannot be read.
    Unknown,
    /// The host does not lend such a disk.
    NotLent,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LenderReply {
    /// Must be durable before the response is sent.
    pub write: Option<LenderState>,
    /// The response, if there is one yet.
    pub response: Option<LenderResponse>,
}

/// The lender of one disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lender {
    lender_state: LenderState,
    incarnation: u64,
    admitted: Option<Session>,
    /// The pending session. It is admitted when the I/O of the earlier one has ended.
    next: Option<Session>,
    in_flight: u32,
}

impl Lender {
    /// A lender that starts. `incarnation` must never have been used.
    pub fn start(lender_state: LenderState, incarnation: u64) -> Self {
        Self {
            lender_state,
            incarnation,
            admitted: None,
            next: None,
            in_flight: 0,
        }
    }

    /// Its start.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The disk was closed and reopened, and unflushed writes may be lost: as if the lender had restarted and received
    /// the pending session's claim again.
    pub fn reopened(&mut self) {
        self.incarnation = self.incarnation.wrapping_add(1);
        self.admitted = None;
    }

    /// The durable state.
    pub fn lender_state(&self) -> LenderState {
        self.lender_state
    }

    /// Why a session is refused.
    pub fn denial(&self, session: Session) -> Denial {
        match session.ballot == self.lender_state.enforced && self.admitted != Some(session) {
            true => Denial::Reopened,
            false => Denial::Term(self.lender_state.enforced, None),
        }
    }

    /// Handles a request. `roots`: of the disk, read now.
    pub fn handle(&mut self, request: LenderRequest, roots: Roots) -> LenderReply {
        match request {
            LenderRequest::Claim(session) => self.claim(session, roots),
            LenderRequest::Begin(session, incarnation) => self.begin(session, incarnation),
        }
    }

    fn claim(&mut self, session: Session, roots: Roots) -> LenderReply {
        let is_old = session.ballot.epoch < self.lender_state.enforced.epoch
            || (session.ballot.epoch == self.lender_state.enforced.epoch
                && session.ballot != self.lender_state.enforced);
        let latest = self.next.or(self.admitted);
        let is_replaced = latest
            .is_some_and(|known| known.ballot == session.ballot && known.number > session.number);
        if (is_old && holds(Rule::LendersRefuseOlderEpochs)) || is_replaced {
            return LenderReply {
                write: None,
                response: Some(LenderResponse::Refused(session)),
            };
        }
        let is_new = session.ballot != self.lender_state.enforced;
        self.lender_state.enforced = session.ballot;
        self.next = Some(session);
        LenderReply {
            write: is_new.then_some(self.lender_state),
            response: self.admit(roots),
        }
    }

    /// Admits the pending session, if no I/O is in flight. `roots`: of the disk, read now.
    pub fn admit(&mut self, roots: Roots) -> Option<LenderResponse> {
        if self.in_flight > 0 && holds(Rule::LendersDrain) {
            return None;
        }
        let session = self.next.take()?;
        self.admitted = Some(session);
        let observed = Observed {
            incarnation: self.incarnation,
            mark: self.lender_state.mark,
            roots,
        };
        Some(LenderResponse::Admitted(session, observed))
    }

    fn begin(&mut self, session: Session, incarnation: u64) -> LenderReply {
        if !self.takes(session, incarnation) {
            return LenderReply {
                write: None,
                response: Some(LenderResponse::Refused(session)),
            };
        }
        let is_new = self.lender_state.mark != session;
        self.lender_state.mark = session;
        LenderReply {
            write: is_new.then_some(self.lender_state),
            response: Some(LenderResponse::Begun(session)),
        }
    }

    /// Whether I/O of that session may begin. Nothing begins while the lender drains.
    pub fn takes(&self, session: Session, incarnation: u64) -> bool {
        if !holds(Rule::SameIncarnation) && session.ballot == self.lender_state.enforced {
            return true;
        }
        if !holds(Rule::LendersAdmitOneSession) && incarnation == self.incarnation {
            return true;
        }
        let is_admitted = self.admitted == Some(session) && self.next.is_none();
        is_admitted && self.incarnation == incarnation
    }

    /// I/O begins on the disk.
    pub fn io_begins(&mut self) {
        self.in_flight += 1;
    }

    /// I/O has ended, well or not.
    pub fn io_ended(&mut self) {
        self.in_flight -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(epoch: u64, number: u32) -> Session {
        let ballot = Ballot {
            epoch,
            nonce: epoch,
        };
        Session { ballot, number }
    }

    fn is_admitted(reply: &LenderReply) -> bool {
        matches!(reply.response, Some(LenderResponse::Admitted(..)))
    }

    #[test]
    fn new_session_waits_for_io_of_old_session() {
        let mut lender = Lender::start(LenderState::default(), 1);
        assert!(is_admitted(
            &lender.handle(LenderRequest::Claim(session(1, 1)), Roots::default())
        ));
        assert!(lender.takes(session(1, 1), 1));
        lender.io_begins();
        let reply = lender.handle(LenderRequest::Claim(session(2, 1)), Roots::default());
        assert_eq!(reply.response, None);
        assert_eq!(
            reply.write.map(|lender_state| lender_state.enforced.epoch),
            Some(2)
        );
        assert!(
            !lender.takes(session(1, 1), 1),
            "nothing more of the old one"
        );
        lender.io_ended();
        assert!(lender.admit(Roots::default()).is_some());
        assert!(lender.takes(session(2, 1), 1));
    }

    /// The disk failed, and the same session claims it again.
    #[test]
    fn reopened_disk_admits_pending_claim_with_new_incarnation() {
        let mut lender = Lender::start(LenderState::default(), 1);
        lender.handle(LenderRequest::Claim(session(1, 1)), Roots::default());
        lender.io_begins();
        lender.handle(LenderRequest::Claim(session(1, 1)), Roots::default());
        lender.reopened();
        lender.io_ended();
        let Some(LenderResponse::Admitted(_, observed)) = lender.admit(Roots::default()) else {
            panic!("it waited");
        };
        assert_eq!(observed.incarnation, 2);
        assert!(!lender.takes(session(1, 1), 1) && lender.takes(session(1, 1), 2));
    }

    #[test]
    fn older_terms_are_refused_after_restart() {
        let mut lender = Lender::start(LenderState::default(), 1);
        lender.handle(LenderRequest::Claim(session(2, 1)), Roots::default());
        let mut again = Lender::start(lender.lender_state(), 2);
        let reply = again.handle(LenderRequest::Claim(session(1, 7)), Roots::default());
        assert_eq!(reply.response, Some(LenderResponse::Refused(session(1, 7))));
        assert!(!again.takes(session(2, 1), 1), "the incarnation before");
    }
}
