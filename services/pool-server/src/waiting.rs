//! Bounds the requests that may block on the pool, and the streams that may block on a peer. A blocked request occupies
//! its thread even after the client has disconnected. Status requests and requests that resume the pool need free
//! connections of the control socket.

use std::sync::atomic::{AtomicUsize, Ordering};

use control::slots::CONNECTIONS_MAX;
use control::{Failure, FailureKind};
use units::PoolName;

/// Concurrent streams.
const STREAMS_MAX: usize = 8;
/// Connections of the control socket that may block on the pool; the rest is for streams and for requests that never
/// block.
const WAITING_MAX: usize = CONNECTIONS_MAX - STREAMS_MAX - 8;

/// Counts the requests of one kind.
pub struct RequestSlots {
    taken: AtomicUsize,
    max: usize,
    refusal: fn(&PoolName) -> Failure,
}

/// A slot, held until it is dropped.
#[derive(Debug)]
pub struct RequestSlot<'a>(&'a AtomicUsize);

impl Drop for RequestSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl RequestSlots {
    /// Slots of requests that may block on the pool.
    pub fn of_requests() -> Self {
        Self::new(WAITING_MAX, |pool| {
            let message = format!("{WAITING_MAX} requests are blocked on pool {pool} already");
            Failure::new(FailureKind::Busy, message).advise(format!(
                "`bulkhead status {pool}` shows why, and how to resume the pool"
            ))
        })
    }

    /// Slots of streams, which last as long as the peer likes.
    pub fn of_streams() -> Self {
        Self::new(STREAMS_MAX, |pool| {
            let message =
                format!("{STREAMS_MAX} streams of pool {pool} are sent or received already");
            Failure::new(FailureKind::Busy, message)
                .advise("try again when one has ended, or end the command that no longer moves")
        })
    }

    fn new(max: usize, refusal: fn(&PoolName) -> Failure) -> Self {
        Self {
            taken: AtomicUsize::new(0),
            max,
            refusal,
        }
    }

    /// Acquires a slot for a request to `pool`.
    pub fn take(&self, pool: &PoolName) -> Result<RequestSlot<'_>, Failure> {
        let before = self.taken.fetch_add(1, Ordering::AcqRel);
        let place = RequestSlot(&self.taken);
        match before < self.max {
            true => Ok(place),
            false => Err((self.refusal)(pool)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_requests_leave_slots_for_others() {
        let (slots, pool) = (RequestSlots::of_requests(), "tank".parse().expect("a name"));
        let mut held: Vec<RequestSlot<'_>> = (0..WAITING_MAX)
            .map(|_| slots.take(&pool).expect("free"))
            .collect();
        let failure = slots.take(&pool).expect_err("none is left");
        assert_eq!(failure.kind, FailureKind::Busy);
        held.pop();
        assert!(slots.take(&pool).is_ok());
    }
}
