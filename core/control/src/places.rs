//! How many connections of the control socket are served at a time, and what happens to the others: each is heard for a
//! moment, is told that there is no place, and may ask what must get through all the same.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::failure::{Failure, FailureKind};
use crate::operations::Urgency;
use crate::request::Request;

/// Connections served at the same time; one more is told to come again.
pub const CONNECTIONS_MAX: usize = 40;
/// Connections beyond them that are heard at the same time; the next one waits to be accepted.
const HEARD_MAX: usize = 8;
/// Urgent requests on connections beyond them that may take long.
pub const URGENT_MAX: usize = 8;

/// What a connection has a place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Any number of requests.
    Served,
    /// To say what it wants.
    Heard,
    /// An urgent request.
    Urgent,
}

impl Kind {
    fn max(self) -> usize {
        match self {
            Self::Served => CONNECTIONS_MAX,
            Self::Heard => HEARD_MAX,
            Self::Urgent => URGENT_MAX,
        }
    }
}

/// How many places of each kind are taken.
type Taken = [usize; 3];

fn has_room(taken: &Taken, kind: Kind) -> bool {
    taken[kind as usize] < kind.max()
}

/// The places of a socket.
#[derive(Default)]
pub(crate) struct Places {
    taken: Mutex<Taken>,
    freed: Condvar,
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().expect("no holder panics")
    }

    /// A place for a connection. Waits for one, which takes a moment only: connections are not heard for longer.
    pub(crate) fn arrive(self: &Arc<Self>) -> Place {
        let has_none =
            |taken: &mut Taken| !has_room(taken, Kind::Served) && !has_room(taken, Kind::Heard);
        let taken = self.freed.wait_while(self.taken(), has_none);
        let mut taken = taken.expect("no holder panics");
        let kind = match has_room(&taken, Kind::Served) {
            true => Kind::Served,
            false => Kind::Heard,
        };
        taken[kind as usize] += 1;
        Place {
            places: Arc::clone(self),
            kind,
        }
    }
}

/// The place of one connection, until it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    kind: Kind,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken()[self.kind as usize] -= 1;
        self.places.freed.notify_all();
    }
}

impl Place {
    /// Whether it is one of [`CONNECTIONS_MAX`].
    pub(crate) fn is_served(&self) -> bool {
        self.kind == Kind::Served
    }

    /// Lets `request` be performed, if it may be.
    pub(crate) fn admit(&mut self, request: &Request) -> Result<(), Failure> {
        let is_admitted = self.becomes(Kind::Served)
            || match urgency(request) {
                None => false,
                Some(Urgency::Brief) => true,
                Some(Urgency::Long) => self.becomes(Kind::Urgent),
            };
        is_admitted.then_some(()).ok_or_else(busy)
    }

    /// Whether the place is one of that kind from now on.
    fn becomes(&mut self, kind: Kind) -> bool {
        if self.kind == kind {
            return true;
        }
        let mut taken = self.places.taken();
        let has_room = has_room(&taken, kind);
        if has_room {
            taken[self.kind as usize] -= 1;
            taken[kind as usize] += 1;
            self.kind = kind;
            self.places.freed.notify_all();
        }
        has_room
    }
}

/// What whoever has no place is told.
pub(crate) fn busy() -> Failure {
    let message = format!("{CONNECTIONS_MAX} connections to the server are in use already");
    Failure::new(FailureKind::Busy, message).advise("try again in a moment")
}

/// Whether a request is performed even where there is no place: an agent learns that the server is well and has it stop, and
/// a person sees what the pool waits for and has it go on.
fn urgency(request: &Request) -> Option<Urgency> {
    request.operation().urgency()
}
