//! What was asked and is not answered yet. Any message may be lost, so it is asked again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leg_record::{
    Answer, Ballot, DiskId, LenderAnswer, LenderRequest, MemberId, Record, Request, Session,
    Version,
};
use takeover::budget::REQUEST_AGAIN;

/// A claim without a response is sent again after so long. It may wait for a disk: a lender gives it up before that.
const CLAIM_AGAIN: Duration = Duration::from_secs(15);

/// Kinds of requests: a later one of a kind takes the place of an earlier one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Read,
    Claim,
    Propose,
}

fn kind(request: &Request) -> Option<Kind> {
    match request {
        Request::Read(_) => Some(Kind::Read),
        Request::Claim { .. } => Some(Kind::Claim),
        Request::Propose(_) => Some(Kind::Propose),
        // Needs no answer; who was not told says again that it forgot.
        Request::Withdraw(_)
        | Request::Committed(..)
        | Request::Welcome(_)
        | Request::Join { .. } => None,
    }
}

struct Question<T> {
    what: T,
    /// When it went out on the connection that is up.
    said: Option<Instant>,
}

impl<T> Question<T> {
    fn is_due(&self, after: Duration, now: Instant) -> bool {
        self.said.is_none_or(|at| now.duration_since(at) >= after)
    }
}

/// A session that a request is about.
fn session_of(request: LenderRequest) -> Session {
    match request {
        LenderRequest::Claim(session) | LenderRequest::Begin(session, _) => session,
    }
}

/// Questions to members, and claims at lenders.
#[derive(Default)]
pub(super) struct Questions {
    questions: BTreeMap<(MemberId, Kind), Question<Request>>,
    claims: BTreeMap<DiskId, Question<LenderRequest>>,
    /// Whose head owned the pool by the newest record that was read.
    newest: Option<(Version, Option<MemberId>)>,
    /// Claims that go out when the member of this head has promised.
    held: Vec<(MemberId, Request)>,
    /// To which term that was last.
    promised: Option<Ballot>,
}

/// What an answer is to a question.
pub(super) enum Answered {
    /// Not to the one that is asked now.
    No,
    /// It is done. Of a proposal that was accepted: what was proposed.
    Done(Option<Record>),
}

impl Questions {
    /// Who owned the pool by the newest record that was read.
    pub(super) fn last_owner(&self) -> Option<MemberId> {
        self.newest.as_ref().and_then(|(_, owner)| *owner)
    }

    /// The term to which the member of this head promised last.
    pub(super) fn promised(&self) -> Option<Ballot> {
        self.promised
    }

    pub(super) fn note_promise(&mut self, ballot: Ballot) {
        self.promised = Some(ballot);
    }

    /// A record was read.
    pub(super) fn note_read(&mut self, record: Option<&Record>) {
        let read = record.map(|record| (record.version(), record.owner));
        self.newest = self.newest.max(read);
    }

    /// A claim goes out later.
    pub(super) fn hold(&mut self, member: MemberId, claim: Request) {
        self.held.push((member, claim));
    }

    /// Claims of that term do not go out.
    pub(super) fn withdraw(&mut self, ballot: Ballot) {
        let is_other = |claim: &Request| !matches!(claim, Request::Claim { ballot: one, .. } if *one == ballot);
        self.held.retain(|(_, claim)| is_other(claim));
    }

    /// Claims that may go out now.
    pub(super) fn release(
        &mut self,
        may_claim: impl Fn(&Self, MemberId, Ballot) -> bool,
    ) -> Vec<(MemberId, Request)> {
        let held = std::mem::take(&mut self.held).into_iter();
        let (may_go, held) = held.partition(|(member, request)| match request {
            Request::Claim { ballot, .. } => may_claim(self, *member, *ballot),
            _ => true,
        });
        self.held = held;
        may_go
    }

    /// A member was asked, at that time if there was a connection.
    pub(super) fn asked(&mut self, member: MemberId, request: Request, said: Option<Instant>) {
        if let Some(kind) = kind(&request) {
            let question = Question {
                what: request,
                said,
            };
            self.questions.insert((member, kind), question);
        }
    }

    /// A lender was asked.
    pub(super) fn claimed(&mut self, disk: DiskId, request: LenderRequest, said: Option<Instant>) {
        let question = Question {
            what: request,
            said,
        };
        self.claims.insert(disk, question);
    }

    /// Nothing waits for an answer any more.
    pub(super) fn clear(&mut self) {
        self.questions.clear();
        self.claims.clear();
        self.held.clear();
    }

    /// A member answered.
    pub(super) fn answered(&mut self, from: MemberId, answer: &Answer) -> Answered {
        let kind = match answer {
            Answer::Known(..) => Kind::Read,
            Answer::Promised { .. } | Answer::Serves(_) => Kind::Claim,
            Answer::Accepted(..) => Kind::Propose,
            Answer::Forgot(..) => {
                self.questions.remove(&(from, Kind::Read));
                return Answered::No;
            }
            // Its own head had an earlier term, which ends: asked again.
            Answer::Refused { asked, promised } if promised.epoch < asked.epoch => {
                return Answered::No;
            }
            // Of a claim or of a proposal.
            Answer::Refused { .. } => {
                self.questions.remove(&(from, Kind::Claim));
                self.questions.remove(&(from, Kind::Propose));
                return Answered::No;
            }
        };
        let proposed = match (
            self.questions.get(&(from, kind)).map(|one| &one.what),
            answer,
        ) {
            (Some(Request::Propose(record)), Answer::Accepted(ballot, version)) => {
                if record.ballot != *ballot || record.version() != *version {
                    // An older one: the newer is still to be answered.
                    return Answered::No;
                }
                Some(record.clone())
            }
            _ => None,
        };
        self.questions.remove(&(from, kind));
        Answered::Done(proposed)
    }

    /// The lender of a disk answered; whether that is what it was asked last.
    pub(super) fn lent(&mut self, disk: DiskId, answer: LenderAnswer) -> bool {
        let asked = self.claims.get(&disk).map(|one| session_of(one.what));
        let is_it = asked == Some(answer.session());
        if is_it {
            self.claims.remove(&disk);
        }
        is_it
    }

    /// Refuses claims of these disks.
    pub(super) fn refuse(
        &mut self,
        is_hopeless: impl Fn(DiskId) -> bool,
    ) -> Vec<(DiskId, LenderAnswer)> {
        let disks: Vec<DiskId> = self.claims.keys().copied().collect();
        let refused = disks.into_iter().filter(|disk| is_hopeless(*disk));
        let refused = refused.filter_map(|disk| {
            let claim = self.claims.remove(&disk)?;
            Some((disk, LenderAnswer::Refused(session_of(claim.what))))
        });
        refused.collect()
    }

    /// Asks again what is due. `is_lost`: without a connection.
    pub(super) fn ask_again(
        &mut self,
        now: Instant,
        is_lost: impl Fn(MemberId) -> bool,
        ask: impl Fn(MemberId, &Request) -> Option<Instant>,
    ) {
        for ((member, _), question) in &mut self.questions {
            if is_lost(*member) {
                question.said = None;
            } else if question.is_due(REQUEST_AGAIN, now) {
                question.said = ask(*member, &question.what);
            }
        }
    }

    /// The same at lenders.
    pub(super) fn claim_again(
        &mut self,
        now: Instant,
        is_lost: impl Fn(DiskId) -> bool,
        ask: impl Fn(DiskId, LenderRequest) -> Option<Instant>,
    ) {
        for (disk, claim) in &mut self.claims {
            if is_lost(*disk) {
                claim.said = None;
            } else if claim.is_due(CLAIM_AGAIN, now) {
                claim.said = ask(*disk, claim.what);
            }
        }
    }

    /// Whether no lender owes an answer.
    pub(super) fn has_no_claims(&self) -> bool {
        self.claims.is_empty()
    }

    /// Members that owe an answer.
    pub(super) fn owing(&self) -> impl Iterator<Item = MemberId> {
        self.questions.keys().map(|(member, _)| *member)
    }
}
