//! The lenders of this head's own disks. A local owner has a session like any other; what is in flight on a local disk
//! ends with the process that had it, so a lender of a process that starts has nothing to wait for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leg_record::{DiskId, Event, Kept, Lender, LenderAnswer, LenderRequest, Roots, Session};

use crate::{Input, Reporter, Side};

/// The lender of each disk that was asked for since this process began.
#[derive(Default)]
pub(crate) struct Lenders {
    lenders: BTreeMap<DiskId, Arc<Mutex<Option<Lender>>>>,
}

impl Lenders {
    /// Asks the lender of a disk, on a thread of its own, which reports the answer. A disk that cannot be reached refuses.
    pub(crate) fn ask(
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
            let answer = answer(&*side, disk, &mut lender, request, incarnation);
            let answer = answer.unwrap_or_else(|why| {
                let disk = side.name(disk);
                tracing::warn!(disk, why, "a leg of the pool cannot be reached");
                // What it keeps is read anew.
                *lender = None;
                LenderAnswer::Refused(session)
            });
            reporter.send(Input::Event(Event::Lent(disk, answer)));
        });
    }
}

fn lock(lender: &Mutex<Option<Lender>>) -> MutexGuard<'_, Option<Lender>> {
    lender.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer, after what has to be durable before it is.
fn answer(
    side: &impl Side,
    disk: DiskId,
    slot: &mut Option<Lender>,
    request: LenderRequest,
    incarnation: u64,
) -> Result<LenderAnswer, String> {
    // A claim reads the disk: it may have been somewhere else.
    let roots = match request {
        LenderRequest::Begin(..) if slot.is_some() => Roots::default(),
        _ => {
            let seen = side.look(disk)?;
            if slot.as_ref().map(Lender::kept) != Some(seen.kept) {
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
    // Nothing is in flight here, so nothing is waited for.
    reply.answer.ok_or_else(|| "it is in use".into())
}

/// What a disk of a new pool carries: the session that the first record names.
pub(crate) fn first_stamp(session: Session) -> Kept {
    Kept {
        enforced: session.ballot,
        mark: session,
    }
}
