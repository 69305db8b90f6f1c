//! How many requests may wait for the pool. One that waits for its devices keeps whoever asks it, whether or not
//! the asker is still there; questions after the server and what has the pool go on need places on the control socket.

use std::sync::atomic::{AtomicUsize, Ordering};

use control::server::CONNECTIONS_MAX;
use control::{Failure, FailureKind};
use units::PoolName;

/// Connections of the control socket that wait for the pool; the others are for what never does.
const WAITING_MAX: usize = CONNECTIONS_MAX - 8;

/// Counts them.
#[derive(Default)]
pub struct Places(AtomicUsize);

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Places {
    /// A place for a request to `pool`.
    pub fn take(&self, pool: &PoolName) -> Result<Place<'_>, Failure> {
        let before = self.0.fetch_add(1, Ordering::AcqRel);
        let place = Place(&self.0);
        if before < WAITING_MAX {
            return Ok(place);
        }
        let message = format!("{WAITING_MAX} requests wait for pool {pool} already");
        Err(Failure::new(FailureKind::Busy, message).advise(format!(
            "see by `bulkhead status {pool}` whether it waits for its devices: when they are back, \
             `bulkhead pool clear {pool}` has it go on"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_wait_leave_places_for_those_that_do_not() {
        let (places, pool) = (Places::default(), "tank".parse().expect("a name"));
        let mut held: Vec<Place<'_>> = (0..WAITING_MAX)
            .map(|_| places.take(&pool).expect("free"))
            .collect();
        let failure = places.take(&pool).expect_err("none is left");
        assert_eq!(failure.kind, FailureKind::Busy);
        held.pop();
        assert!(places.take(&pool).is_ok());
    }
}
