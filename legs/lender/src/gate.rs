//! Decides which session's I/O may begin on a disk, and which session must first drain the I/O of
//! its predecessors.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use leg_record::{
    Denial, Lender as Model, LenderReply, LenderRequest, LenderResponse, LenderState, Roots,
    Session,
};

/// The state machine of one disk.
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    model: Model,
    /// I/O that has begun and not ended.
    in_flight: u32,
    /// Pending claims. Each counts as I/O for the model, so that no session is admitted before the contents of the disk
    /// were read.
    claims: u32,
    /// The newest session that was not refused.
    latest: Option<Session>,
}

/// A claim that was not refused. Dropped, it is given up.
pub(crate) struct Claim {
    gate: Arc<Gate>,
    session: Session,
    /// Another term had the disk before.
    is_new_term: bool,
}

/// A disk is being reopened without a claim. Dropped when it is done.
pub(crate) struct Reopening(Arc<Gate>);

/// I/O that has begun. Dropped, it has ended.
pub(crate) struct Passage<'a>(&'a Gate);

impl Gate {
    pub(crate) fn new(kept: LenderState, incarnation: u64) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                model: Model::start(kept, incarnation),
                in_flight: 0,
                claims: 0,
                latest: None,
            }),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Begins I/O of `session`; none if it may not.
    pub(crate) fn enter(&self, session: Session) -> Option<Passage<'_>> {
        let mut state = self.lock();
        if !state.model.takes(session, state.model.incarnation()) {
            return None;
        }
        state.model.io_begins();
        state.in_flight += 1;
        Some(Passage(self))
    }

    /// Whether that session is the admitted one. It is not as soon as a newer session claims.
    pub(crate) fn takes(&self, session: Session) -> bool {
        let state = self.lock();
        state.model.takes(session, state.model.incarnation())
    }

    /// Whether a claim of that session would be refused now. Changes nothing.
    pub(crate) fn refuses(&self, session: Session) -> bool {
        let mut model = self.lock().model.clone();
        let reply = model.handle(LenderRequest::Claim(session), Roots::default());
        matches!(reply.response, Some(LenderResponse::Refused(_)))
    }

    /// No I/O of another session begins from now on. Second: the state that must be durable before any reply. `None` if
    /// the claim is refused.
    pub(crate) fn claim(
        self: &Arc<Self>,
        session: Session,
    ) -> (Option<Claim>, Option<LenderState>) {
        let mut state = self.lock();
        state.model.io_begins();
        let LenderReply { write, response } = state
            .model
            .handle(LenderRequest::Claim(session), Roots::default());
        if let Some(LenderResponse::Refused(_)) = response {
            state.model.io_ended();
            return (None, write);
        }
        state.claims += 1;
        state.latest = Some(session);
        drop(state);
        // An older claim is no longer pending.
        self.changed.notify_all();
        let gate = Arc::clone(self);
        let claim = Claim {
            gate,
            session,
            is_new_term: write.is_some(),
        };
        (Some(claim), write)
    }

    /// The session begins to write, so its stamp is to be kept.
    pub(crate) fn begin(&self, session: Session, incarnation: u64) -> LenderReply {
        let request = LenderRequest::Begin(session, incarnation);
        self.lock().model.handle(request, Roots::default())
    }

    /// Why that session is refused.
    pub(crate) fn denial(&self, session: Session) -> Denial {
        self.lock().model.denial(session)
    }

    /// The disk is closed, to be reopened, if it has no I/O and no claim is pending. Claims block until that is done.
    pub(crate) fn reopens(self: &Arc<Self>) -> Option<Reopening> {
        let mut state = self.lock();
        if state.in_flight > 0 || state.claims > 0 {
            return None;
        }
        state.model.reopened();
        state.model.io_begins();
        state.claims += 1;
        Some(Reopening(Arc::clone(self)))
    }

    /// The state to be stored durably.
    pub(crate) fn lender_state(&self) -> LenderState {
        self.lock().model.lender_state()
    }

    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> u32 {
        self.lock().in_flight
    }
}

impl Claim {
    /// Blocks until all earlier I/O has ended; `false` if that is not so at `deadline`, or if a newer session claims.
    pub(crate) fn wait(&self, deadline: Instant) -> bool {
        let mut state = self.gate.lock();
        loop {
            if state.latest != Some(self.session) {
                return false;
            }
            if state.in_flight == 0 && state.claims == 1 {
                return true;
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            let waited = self.gate.changed.wait_timeout(state, left);
            state = waited.expect("no holder panics").0;
        }
    }

    /// Whether it is of another term than the claim before.
    pub(crate) fn is_of_new_term(&self) -> bool {
        self.is_new_term
    }

    /// After [`wait`](Self::wait): the disk is closed, to be reopened.
    pub(crate) fn reopens(&self) {
        self.gate.lock().model.reopened();
    }

    /// Admits the session, if none is newer. `roots`: read after [`wait`](Self::wait).
    pub(crate) fn admit(self, roots: Roots) -> LenderResponse {
        let mut state = self.gate.lock();
        let refused = LenderResponse::Refused(self.session);
        if state.latest != Some(self.session) || state.claims != 1 {
            return refused;
        }
        // The model counts this claim until it is dropped.
        state.model.io_ended();
        let response = state.model.admit(roots);
        state.model.io_begins();
        response.unwrap_or(refused)
    }
}

impl Gate {
    /// A claim, or an operation that counts as one, is over.
    fn claim_ends(&self) {
        let mut state = self.lock();
        state.claims -= 1;
        state.model.io_ended();
        drop(state);
        self.changed.notify_all();
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.gate.claim_ends();
    }
}

impl Drop for Reopening {
    fn drop(&mut self) {
        self.0.claim_ends();
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.in_flight -= 1;
        state.model.io_ended();
        let is_last = state.in_flight == 0;
        drop(state);
        if is_last {
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leg_record::Ballot;
    use std::time::Duration;

    fn session(epoch: u64, number: u32) -> Session {
        let ballot = Ballot { epoch, nonce: 1 };
        Session { ballot, number }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    fn admitted(gate: &Arc<Gate>, session: Session) {
        let claim = gate.claim(session).0.expect("not refused");
        assert!(claim.wait(soon()));
        assert!(matches!(
            claim.admit(Roots::default()),
            LenderResponse::Admitted(..)
        ));
    }

    #[test]
    fn claim_waits_for_started_io_and_blocks_new_io() {
        let gate = Gate::new(LenderState::default(), 1);
        let (old, new) = (session(1, 1), session(2, 1));
        admitted(&gate, old);
        let passage = gate.enter(old).expect("admitted");
        let (claim, write) = gate.claim(new);
        assert_eq!(write.map(|kept| kept.enforced.epoch), Some(2));
        let claim = claim.expect("newer");
        assert!(!claim.wait(soon()), "one is under way");
        assert!(gate.enter(old).is_none() && gate.enter(new).is_none());
        drop(passage);
        assert!(claim.wait(soon()));
        assert!(matches!(
            claim.admit(Roots::default()),
            LenderResponse::Admitted(..)
        ));
        assert!(gate.enter(old).is_none() && gate.enter(new).is_some());
    }

    #[test]
    fn newer_of_two_pending_claims_is_admitted() {
        let gate = Gate::new(LenderState::default(), 1);
        admitted(&gate, session(1, 1));
        let passage = gate.enter(session(1, 1)).expect("admitted");
        let older = gate.claim(session(2, 1)).0.expect("newer");
        let newer = gate.claim(session(3, 1)).0.expect("newer still");
        assert!(!older.wait(soon()));
        assert_eq!(
            older.admit(Roots::default()),
            LenderResponse::Refused(session(2, 1))
        );
        drop(passage);
        assert!(newer.wait(soon()));
        assert!(matches!(
            newer.admit(Roots::default()),
            LenderResponse::Admitted(..)
        ));
        assert!(gate.claim(session(2, 2)).0.is_none(), "too old");
    }

    #[test]
    fn abandoned_claim_can_be_repeated() {
        let gate = Gate::new(LenderState::default(), 1);
        admitted(&gate, session(1, 1));
        let passage = gate.enter(session(1, 1)).expect("admitted");
        let claim = gate.claim(session(2, 1)).0.expect("newer");
        assert!(!claim.wait(soon()));
        drop(claim);
        assert!(gate.enter(session(1, 1)).is_none(), "it was cut off");
        drop(passage);
        assert_eq!(gate.in_flight(), 0);
        admitted(&gate, session(2, 1));
    }
}
