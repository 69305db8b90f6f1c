//! Places of requests that are performed, each on a thread. A pool that waits for its devices may keep whoever
//! asks it for as long as that lasts: it gets some places only, so that others are served and logins go on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use control::{Failure, FailureKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests that are performed at the same time.
pub(crate) const PERFORMED_MAX: usize = 32;
/// Of these, requests to all pools.
const OF_POOLS_MAX: usize = 24;
/// Of these, requests to one pool.
const OF_POOL_MAX: usize = 8;
/// Longest wait for a place among those of pools.
const WAIT: Duration = match cfg!(test) {
    true => Duration::from_millis(50),
    false => Duration::from_secs(10),
};
/// What a server answers from its memory, and what has a suspended pool go on.
const NEVER_KEPT: &[&str] = &["pool.status", "pool.events", "pool.clear", "pool.online"];

/// All places.
pub(crate) struct Places {
    all: Arc<Semaphore>,
    of_pools: Arc<Semaphore>,
    of_pool: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// A place, until it is dropped.
pub(crate) struct Place(#[expect(dead_code, reason = "held")] Vec<OwnedSemaphorePermit>);

impl Default for Places {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(PERFORMED_MAX)),
            of_pools: Arc::new(Semaphore::new(OF_POOLS_MAX)),
            of_pool: Mutex::default(),
        }
    }
}

impl Places {
    /// A place for a request that asks `verb`, if that is known, of `pool`, if it is about one.
    pub(crate) async fn take(
        &self,
        pool: Option<&str>,
        verb: Option<&str>,
    ) -> Result<Place, Failure> {
        let may_be_kept = !verb.is_some_and(|verb| NEVER_KEPT.contains(&verb));
        let mut held = Vec::new();
        if let Some(pool) = pool.filter(|_| may_be_kept) {
            for places in [self.of(pool), Arc::clone(&self.of_pools)] {
                let taken = tokio::time::timeout(WAIT, permit(places)).await;
                held.push(taken.unwrap_or_else(|_| Err(hangs(pool)))?);
            }
        }
        held.push(permit(Arc::clone(&self.all)).await?);
        Ok(Place(held))
    }

    fn of(&self, pool: &str) -> Arc<Semaphore> {
        let mut known = self.of_pool.lock().expect("no holder panics");
        // Whoever has a place there, or waits for one, has it as well.
        known.retain(|_, places| Arc::strong_count(places) > 1);
        let new = || Arc::new(Semaphore::new(OF_POOL_MAX));
        Arc::clone(known.entry(pool.to_owned()).or_insert_with(new))
    }
}

async fn permit(places: Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Failure> {
    let permit = places.acquire_owned().await;
    permit.map_err(|_| Failure::new(FailureKind::Unavailable, "the head ends"))
}

fn hangs(pool: &str) -> Failure {
    let message = format!("too many requests wait for pool {pool}, or for others on this head");
    Failure::new(FailureKind::Unavailable, message).advise(
        "see by `bulkhead status` whether it waits for its devices: when they are back, `bulkhead pool \
         clear` has it go on",
    )
}
