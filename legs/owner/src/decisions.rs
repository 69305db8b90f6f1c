//! Logs the inputs and the decisions of the state machine of the record, which does no I/O itself. A decision is logged
//! at debug level; a message, or a check that recurs, at trace level.

use leg_record::{Action, DiskId, Event, LenderRequest, LenderResponse, Notice, Request, Response};

/// Names of the steps, in the order of [`Owner::opening_step`](leg_record::Owner::opening_step).
const STEPS: [&str; 6] = [
    "idle",
    "reading",
    "fencing",
    "claiming",
    "admitting",
    "term",
];

fn step_name(step: u32) -> &'static str {
    STEPS.get(step as usize).copied().unwrap_or("unknown")
}

/// Logs a step of the opening, or the start or end of a term.
pub(crate) fn note_step(pool: u64, before: u32, now: u32) {
    if before != now {
        let (before, now) = (step_name(before), step_name(now));
        tracing::debug!(pool, before, now, "the owner changes its step");
    }
}

/// Logs that the pool is not opened.
pub(crate) fn note_refusal(pool: u64, why: &str) {
    tracing::debug!(pool, why, "the pool is not opened");
}

/// Logs a check whether an excluded disk is available.
pub(crate) fn note_check(pool: u64, disk: DiskId) {
    tracing::debug!(pool, leg = disk.0, "checking whether a leg can return");
}

/// Logs an input of the state machine.
pub(crate) fn note_event(pool: u64, event: &Event) {
    match event {
        Event::Responded(from, response) => note_response(pool, from.0, response),
        Event::Lent(disk, response) => note_lent(pool, disk.0, *response),
        Event::Thawed => {
            tracing::debug!(pool, "this head was frozen: earlier state does not count")
        }
        Event::Fenced(number) => tracing::debug!(pool, number, "a head is confirmed to be off"),
        Event::FenceFailed(number) => tracing::debug!(pool, number, "a head may be alive"),
        Event::LegFailed { disk, flushed } => {
            tracing::debug!(pool, leg = disk.0, ?flushed, "a leg failed");
        }
        Event::LinkLost { disk, flushed } => {
            tracing::debug!(
                pool,
                leg = disk.0,
                ?flushed,
                "the connection to a leg is lost"
            );
        }
        Event::LegUsable(disk) => tracing::debug!(pool, leg = disk.0, "the last leg is usable"),
        Event::LegReturned { disk, newest_group } => {
            tracing::debug!(pool, leg = disk.0, newest_group, "a leg is available again");
        }
        Event::Returned {
            disk, completeness, ..
        } => tracing::debug!(pool, leg = disk.0, ?completeness, "a resilver has ended"),
        Event::ReturnFailed(disk, session) => {
            tracing::debug!(pool, leg = disk.0, ?session, "the return of a leg failed");
        }
        Event::Received(_)
        | Event::Listen
        | Event::Look
        | Event::Deadline
        | Event::ReadFailed(_) => {
            tracing::trace!(pool, ?event, "an event");
        }
        Event::Open { .. }
        | Event::Imported
        | Event::Discard(_)
        | Event::Members { .. }
        | Event::MembersStay
        | Event::Abandoned
        | Event::Exported => tracing::debug!(pool, ?event, "an event"),
    }
}

fn note_response(pool: u64, member: u64, response: &Response) {
    match response {
        Response::Promised { ballot, life, .. } => {
            let term = ballot.epoch;
            tracing::debug!(pool, member, term, life, "a member promises a term");
        }
        Response::Serves(ballot) => {
            let term = ballot.epoch;
            tracing::debug!(
                pool,
                member,
                term,
                "a claim is refused: that head serves the pool"
            );
        }
        Response::Accepted(ballot, version) => {
            let (term, record) = (ballot.epoch, version.sequence);
            tracing::debug!(pool, member, term, record, "a member accepts a record");
        }
        Response::Refused {
            requested,
            promised,
        } => {
            let (term, promised) = (requested.epoch, promised.epoch);
            tracing::debug!(
                pool,
                member,
                term,
                promised,
                "refused: another term is promised"
            );
        }
        Response::StateLost(_, life) => {
            tracing::debug!(pool, member, life, "a member has lost its state");
        }
        Response::Known(_, memory) => {
            let (promised, committed) = (memory.promised.epoch, memory.committed);
            tracing::trace!(pool, member, promised, ?committed, "the state of a member");
        }
    }
}

fn note_lent(pool: u64, leg: u64, response: LenderResponse) {
    let session = response.session();
    let (term, session) = (session.ballot.epoch, session.number);
    match response {
        LenderResponse::Admitted(_, seen) => {
            let (incarnation, newest) = (seen.incarnation, seen.roots.newest);
            tracing::debug!(
                pool,
                leg,
                term,
                session,
                incarnation,
                newest,
                "a leg is lent"
            );
        }
        LenderResponse::Begun(_) => tracing::debug!(pool, leg, term, session, "a leg is stamped"),
        LenderResponse::Refused(_) => {
            tracing::debug!(pool, leg, term, session, "a leg is not lent")
        }
    }
}

/// Logs an output of the state machine.
pub(crate) fn note_action(pool: u64, action: &Action) {
    match action {
        Action::Request(member, request) => note_request(pool, member.0, request),
        Action::LenderRequest(disk, request) => {
            let (LenderRequest::Claim(session) | LenderRequest::Begin(session, _)) = request;
            let (term, session) = (session.ballot.epoch, session.number);
            tracing::debug!(pool, leg = disk.0, term, session, "a request to a lender");
        }
        Action::Fence(head, number) => {
            tracing::debug!(pool, member = head.0, number, "a head must be off");
        }
        Action::Import { legs, lacking } => {
            tracing::debug!(pool, ?legs, ?lacking, "the record allows the import");
        }
        Action::ReleaseErrors(disk) => {
            tracing::debug!(
                pool,
                leg = disk.0,
                "a leg is excluded: its errors are released"
            );
        }
        Action::UseAgain(disk) => tracing::debug!(pool, leg = disk.0, "the last leg is used again"),
        Action::Recall(disk) => tracing::debug!(pool, leg = disk.0, "an excluded leg is needed"),
        Action::Resume(disk, session) => {
            tracing::debug!(
                pool,
                leg = disk.0,
                ?session,
                "the connection to a leg is to be resumed"
            );
        }
        Action::Resilver {
            disk,
            since,
            beyond,
            ..
        } => tracing::debug!(
            pool,
            leg = disk.0,
            since,
            beyond,
            "the return of a leg begins"
        ),
        Action::Committed(record) => {
            let (term, owner) = (record.ballot.epoch, record.owner);
            tracing::debug!(
                pool,
                term,
                record = record.sequence,
                ?owner,
                "a record is committed"
            );
        }
        Action::Stop => tracing::debug!(pool, "the owner stops: another term has the pool"),
        Action::Closed => tracing::debug!(pool, "the pool is released"),
        Action::Notify(Notice::Refused(why)) => {
            tracing::debug!(pool, ?why, "the record refuses the takeover");
        }
        Action::Notify(notice) => tracing::debug!(pool, ?notice, "a notice to the operator"),
    }
}

fn note_request(pool: u64, member: u64, request: &Request) {
    match request {
        Request::Claim { ballot, .. } => {
            tracing::debug!(pool, member, term = ballot.epoch, "a term is claimed");
        }
        Request::Withdraw(ballot) => {
            tracing::debug!(pool, member, term = ballot.epoch, "a claim is withdrawn");
        }
        Request::Propose(record) => {
            let (term, record) = (record.ballot.epoch, record.sequence);
            tracing::debug!(pool, member, term, record, "a record is proposed");
        }
        Request::Welcome(record) => {
            let (term, record) = (record.ballot.epoch, record.sequence);
            tracing::debug!(
                pool,
                member,
                term,
                record,
                "a member receives its first record"
            );
        }
        Request::Join { life, .. } => tracing::debug!(pool, member, life, "a member is to join"),
        Request::Read(_) | Request::Committed(..) => {
            tracing::trace!(pool, member, ?request, "a request to a member");
        }
    }
}
