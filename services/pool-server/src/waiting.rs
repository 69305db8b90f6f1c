//! How many requests may wait for the pool, and how many for whoever is at the other end of a stream. One that waits
//! keeps whoever asks it, whether or not the asker is still there; questions after the server and what has the pool go on
//! need places on the control socket.

use std::sync::atomic::{AtomicUsize, Ordering};

use control::places::CONNECTIONS_MAX;
use control::{Failure, FailureKind};
use units::PoolName;

/// Streams that are sent or received at the same time.
const STREAMS_MAX: usize = 8;
/// Connections of the control socket that wait for the pool; the others are for streams, and for what never waits.
const WAITING_MAX: usize = CONNECTIONS_MAX - STREAMS_MAX - 8;

/// Counts requests of one kind.
pub struct Places {
    taken: AtomicUsize,
    max: usize,
    refusal: fn(&PoolName) -> Failure,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Places {
    /// Of requests that may wait for the pool.
    pub fn of_requests() -> Self {
        Self::new(WAITING_MAX, |pool| {
            let message = format!("{WAITING_MAX} requests wait for pool {pool} already");
            Failure::new(FailureKind::Busy, message).advise(format!(
                "see by `bulkhead status {pool}` what it waits for, and what has it go on"
            ))
        })
    }

    /// Of streams, which last as long as the other side likes.
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

    /// A place for a request to `pool`.
    pub fn take(&self, pool: &PoolName) -> Result<Place<'_>, Failure> {
        let before = self.taken.fetch_add(1, Ordering::AcqRel);
        let place = Place(&self.taken);
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
    fn requests_that_wait_leave_places_for_those_that_do_not() {
        let (places, pool) = (Places::of_requests(), "tank".parse().expect("a name"));
        let mut held: Vec<Place<'_>> = (0..WAITING_MAX)
            .map(|_| places.take(&pool).expect("free"))
            .collect();
        let failure = places.take(&pool).expect_err("none is left");
        assert_eq!(failure.kind, FailureKind::Busy);
        held.pop();
        assert!(places.take(&pool).is_ok());
    }
}
