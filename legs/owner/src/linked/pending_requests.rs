//! Requests without a response. Any message may be lost, so they are retried.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leg_record::{
    Ballot, DiskId, LenderRequest, LenderResponse, MemberId, Record, Request, Response, Session,
    Version,
};
use takeover::budget::REQUEST_AGAIN;

/// A claim without a response is sent again after this time. It may block on a disk: a lender abandons it before that.
const CLAIM_AGAIN: Duration = Duration::from_secs(15);

/// Kinds of requests: a later one of a kind replaces an earlier one.
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
        // Needs no response. A member that missed it reports again that its state is lost.
        Request::Withdraw(_)
        | Request::Committed(..)
        | Request::Welcome(_)
        | Request::Join { .. } => None,
    }
}

struct PendingRequest<T> {
    what: T,
    /// When it was sent on the current connection.
    said: Option<Instant>,
}

impl<T> PendingRequest<T> {
    fn is_due(&self, after: Duration, now: Instant) -> bool {
        self.said.is_none_or(|at| now.duration_since(at) >= after)
    }
}

/// The session that a request is about.
fn session_of(request: LenderRequest) -> Session {
    match request {
        LenderRequest::Claim(session) | LenderRequest::Begin(session, _) => session,
    }
}

/// Requests to members, and claims at lenders.
#[derive(Default)]
pub(super) struct PendingRequests {
    pending_requests: BTreeMap<(MemberId, Kind), PendingRequest<Request>>,
    claims: BTreeMap<DiskId, PendingRequest<LenderRequest>>,
    /// The newest record that was read, by version, with its owner.
    newest: Option<(Version, Option<MemberId>)>,
    /// Claims that are sent once the member of this head has promised.
    held: Vec<(MemberId, Request)>,
    /// The term of its last promise.
    promised: Option<Ballot>,
}

/// How a response relates to the pending request.
pub(super) enum Responded {
    /// It does not complete the pending request.
    No,
    /// The request is complete. For an accepted proposal: the record.
    Done(Option<Record>),
}

impl PendingRequests {
    /// The owner of the pool by the newest record that was read.
    pub(super) fn last_owner(&self) -> Option<MemberId> {
        self.newest.as_ref().and_then(|(_, owner)| *owner)
    }

    /// The last term that the member of this head promised.
    pub(super) fn promised(&self) -> Option<Ballot> {
        self.promised
    }

    pub(super) fn note_promise(&mut self, ballot: Ballot) {
        self.promised = Some(ballot);
    }

    /// Notes a record that was read.
    pub(super) fn note_read(&mut self, record: Option<&Record>) {
        let read = record.map(|record| (record.version(), record.owner));
        self.newest = self.newest.max(read);
    }

    /// Postpones a claim.
    pub(super) fn hold(&mut self, member: MemberId, claim: Request) {
        self.held.push((member, claim));
    }

    /// Drops the postponed claims of a term.
    pub(super) fn withdraw(&mut self, ballot: Ballot) {
        let is_other = |claim: &Request| !matches!(claim, Request::Claim { ballot: one, .. } if *one == ballot);
        self.held.retain(|(_, claim)| is_other(claim));
    }

    /// Removes and returns the claims that may be sent now.
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

    /// Notes a request to a member. `said`: when it was sent, if there was a connection.
    pub(super) fn requested(&mut self, member: MemberId, request: Request, said: Option<Instant>) {
        if let Some(kind) = kind(&request) {
            let question = PendingRequest {
                what: request,
                said,
            };
            self.pending_requests.insert((member, kind), question);
        }
    }

    /// Notes a request to a lender.
    pub(super) fn claimed(&mut self, disk: DiskId, request: LenderRequest, said: Option<Instant>) {
        let question = PendingRequest {
            what: request,
            said,
        };
        self.claims.insert(disk, question);
    }

    /// Drops all pending requests.
    pub(super) fn clear(&mut self) {
        self.pending_requests.clear();
        self.claims.clear();
        self.held.clear();
    }

    /// Handles a response of a member.
    pub(super) fn responded(&mut self, from: MemberId, response: &Response) -> Responded {
        let kind = match response {
            Response::Known(..) => Kind::Read,
            Response::Promised { .. } | Response::Serves(_) => Kind::Claim,
            Response::Accepted(..) => Kind::Propose,
            Response::StateLost(..) => {
                self.pending_requests.remove(&(from, Kind::Read));
                return Responded::No;
            }
            // The host of that member has an owner of an earlier term, which is about to stop: retry.
            Response::Refused {
                requested,
                promised,
            } if promised.epoch < requested.epoch => {
                return Responded::No;
            }
            // A claim or a proposal was refused.
            Response::Refused { .. } => {
                self.pending_requests.remove(&(from, Kind::Claim));
                self.pending_requests.remove(&(from, Kind::Propose));
                return Responded::No;
            }
        };
        let proposed = match (
            self.pending_requests
                .get(&(from, kind))
                .map(|one| &one.what),
            response,
        ) {
            (Some(Request::Propose(record)), Response::Accepted(ballot, version)) => {
                if record.ballot != *ballot || record.version() != *version {
                    // An older proposal: the response to the newer one is pending.
                    return Responded::No;
                }
                Some(record.clone())
            }
            _ => None,
        };
        self.pending_requests.remove(&(from, kind));
        Responded::Done(proposed)
    }

    /// The lender of a disk responded. Returns whether the response matches the last request.
    pub(super) fn lent(&mut self, disk: DiskId, response: LenderResponse) -> bool {
        let requested = self.claims.get(&disk).map(|one| session_of(one.what));
        let is_it = requested == Some(response.session());
        if is_it {
            self.claims.remove(&disk);
        }
        is_it
    }

    /// Refuses claims of these disks.
    pub(super) fn refuse(
        &mut self,
        is_hopeless: impl Fn(DiskId) -> bool,
    ) -> Vec<(DiskId, LenderResponse)> {
        let disks: Vec<DiskId> = self.claims.keys().copied().collect();
        let refused = disks.into_iter().filter(|disk| is_hopeless(*disk));
        let refused = refused.filter_map(|disk| {
            let claim = self.claims.remove(&disk)?;
            Some((disk, LenderResponse::Refused(session_of(claim.what))))
        });
        refused.collect()
    }

    /// Retries the requests that are due. `is_lost`: no connection.
    pub(super) fn retry_requests(
        &mut self,
        now: Instant,
        is_lost: impl Fn(MemberId) -> bool,
        send_request: impl Fn(MemberId, &Request) -> Option<Instant>,
    ) {
        for ((member, _), question) in &mut self.pending_requests {
            if is_lost(*member) {
                question.said = None;
            } else if question.is_due(REQUEST_AGAIN, now) {
                question.said = send_request(*member, &question.what);
            }
        }
    }

    /// The same at lenders.
    pub(super) fn claim_again(
        &mut self,
        now: Instant,
        is_lost: impl Fn(DiskId) -> bool,
        send_request: impl Fn(DiskId, LenderRequest) -> Option<Instant>,
    ) {
        for (disk, claim) in &mut self.claims {
            if is_lost(*disk) {
                claim.said = None;
            } else if claim.is_due(CLAIM_AGAIN, now) {
                claim.said = send_request(*disk, claim.what);
            }
        }
    }

    /// Whether no claim at a lender is pending.
    pub(super) fn has_no_claims(&self) -> bool {
        self.claims.is_empty()
    }

    /// Members with a pending request.
    pub(super) fn owing(&self) -> impl Iterator<Item = MemberId> {
        self.pending_requests.keys().map(|(member, _)| *member)
    }
}
