//! Limits the number of connections of the control socket that are served at a time. Each further connection is read
//! for a short time, receives a busy error, and may still send urgent requests.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::failure::{Failure, FailureKind};
use crate::operations::Urgency;
use crate::request::Request;

/// Connections served at the same time; one more receives a busy error.
pub const CONNECTIONS_MAX: usize = 40;
/// Connections beyond them that are read at the same time; the next one is queued before it is
/// accepted.
const REQUEST_ONLY_MAX: usize = 8;
/// Urgent requests of long duration on connections beyond them.
pub const URGENT_MAX: usize = 8;

/// The kind of a connection's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Any number of requests.
    Served,
    /// Only to read its request.
    RequestOnly,
    /// An urgent request.
    Urgent,
}

impl Kind {
    fn max(self) -> usize {
        match self {
            Self::Served => CONNECTIONS_MAX,
            Self::RequestOnly => REQUEST_ONLY_MAX,
            Self::Urgent => URGENT_MAX,
        }
    }
}

/// Number of slots of each kind in use.
type InUse = [usize; 3];

fn has_room(in_use: &InUse, kind: Kind) -> bool {
    in_use[kind as usize] < kind.max()
}

/// The places of a socket.
#[derive(Default)]
pub(crate) struct Slots {
    in_use: Mutex<InUse>,
    freed: Condvar,
}

impl Slots {
    fn in_use(&self) -> MutexGuard<'_, InUse> {
        self.in_use.lock().expect("no holder panics")
    }

    /// Acquires a slot for a connection. Blocks briefly until one is free: connections are not read for longer.
    pub(crate) fn acquire(self: &Arc<Self>) -> Slot {
        let has_none = |in_use: &mut InUse| {
            !has_room(in_use, Kind::Served) && !has_room(in_use, Kind::RequestOnly)
        };
        let in_use = self.freed.wait_while(self.in_use(), has_none);
        let mut in_use = in_use.expect("no holder panics");
        let kind = match has_room(&in_use, Kind::Served) {
            true => Kind::Served,
            false => Kind::RequestOnly,
        };
        in_use[kind as usize] += 1;
        Slot {
            slots: Arc::clone(self),
            kind,
        }
    }
}

/// The slot of one connection, until it is dropped.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    kind: Kind,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.in_use()[self.kind as usize] -= 1;
        self.slots.freed.notify_all();
    }
}

impl Slot {
    /// Whether it is one of [`CONNECTIONS_MAX`].
    pub(crate) fn is_served(&self) -> bool {
        self.kind == Kind::Served
    }

    /// Checks that `request` may be performed; otherwise returns a busy error.
    pub(crate) fn admit(&mut self, request: &Request) -> Result<(), Failure> {
        let is_admitted = self.change_to(Kind::Served)
            || match urgency(request) {
                None => false,
                Some(Urgency::Brief) => true,
                Some(Urgency::Long) => self.change_to(Kind::Urgent),
            };
        is_admitted.then_some(()).ok_or_else(busy)
    }

    /// Changes the slot to that kind, if one is free; returns whether the slot has it.
    fn change_to(&mut self, kind: Kind) -> bool {
        if self.kind == kind {
            return true;
        }
        let mut in_use = self.slots.in_use();
        let has_room = has_room(&in_use, kind);
        if has_room {
            in_use[self.kind as usize] -= 1;
            in_use[kind as usize] += 1;
            self.kind = kind;
            self.slots.freed.notify_all();
        }
        has_room
    }
}

/// Returns the error for a connection without a slot.
pub(crate) fn busy() -> Failure {
    let message = format!("{CONNECTIONS_MAX} connections to the server are in use already");
    Failure::new(FailureKind::Busy, message).advise("try again later")
}

/// Returns how a request is performed without a slot: an agent must be able to monitor and stop the server, and an
/// administrator to see why the pool is blocked and to resume it.
fn urgency(request: &Request) -> Option<Urgency> {
    request.operation().urgency()
}
