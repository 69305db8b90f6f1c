//! The lenders of this head's own disks. A local owner has a session like a remote one. I/O in flight on a local disk
//! is gone with its process, so a lender in a new process has nothing to drain.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leg_record::{
    DiskId, Event, Lender, LenderRequest, LenderResponse, LenderState, Roots, Session,
};

use crate::{Input, Reporter, Side};

/// The lender of each disk that was used since this process started.
#[derive(Default)]
pub(crate) struct Lenders {
    lenders: BTreeMap<DiskId, Arc<Mutex<Option<Lender>>>>,
}

impl Lenders {
    /// Sends a request to the lender of a disk, on a separate thread that reports the response. A disk that cannot be
    /// reached refuses.
    pub(crate) fn send_request(
        &mut self,
        side: &Arc<impl Side>,
        disk: DiskId,
        request: LenderRequest,
        incarnation: u64,
        reporter: &Reporter,
    ) {
        let lender = Arc::clone(self.lenders.entry(disk).or_default());
        let (side, reporter) = (Arc::clone(side), reporter.clone());
        let session = match request {
            LenderRequest::Claim(session) | LenderRequest::Begin(session, _) => session,
        };
        crate::in_background("leg-lender", move || {
            let mut lender = lock(&lender);
            let response = response(&*side, disk, &mut lender, request, incarnation);
            let response = response.unwrap_or_else(|why| {
                let name = side.name(disk);
                tracing::warn!(name, why, "a leg of the pool cannot be reached");
                // Its state is read from the disk again next time.
                *lender = None;
                LenderResponse::Refused(session)
            });
            reporter.send(Input::Event(Event::Lent(disk, response)));
        });
    }
}

fn lock(lender: &Mutex<Option<Lender>>) -> MutexGuard<'_, Option<Lender>> {
    lender.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handles a request. Its write is durable on return.
fn response(
    side: &impl Side,
    disk: DiskId,
    slot: &mut Option<Lender>,
    request: LenderRequest,
    incarnation: u64,
) -> Result<LenderResponse, String> {
    // A claim reads the disk: it may have been used on another head.
    let roots = match request {
        LenderRequest::Begin(..) if slot.is_some() => Roots::default(),
        _ => {
            let seen = side.inspect(disk)?;
            if slot.as_ref().map(Lender::lender_state) != Some(seen.kept) {
                *slot = Some(Lender::start(seen.kept, incarnation));
            }
            seen.roots
        }
    };
    let lender = slot.as_mut().ok_or("it was not claimed")?;
    let reply = lender.handle(request, roots);
    if let Some(kept) = &reply.write {
        side.keep(disk, kept)?;
    }
    // No I/O is in flight here, so there is nothing to drain.
    reply.response.ok_or_else(|| "it is in use".into())
}

/// The stamp on a disk of a new pool: the session that the first record names.
pub(crate) fn first_stamp(session: Session) -> LenderState {
    LenderState {
        enforced: session.ballot,
        mark: session,
    }
}
