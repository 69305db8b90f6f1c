//! Slots of active requests, each on a thread. A pool that is blocked on its devices may block its requests for as
//! long: the slots per pool are limited, so that other pools and logins are served.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use control::{Failure, FailureKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Concurrent requests.
pub(crate) const PERFORMED_MAX: usize = 32;
/// Concurrent requests to all pools.
const OF_POOLS_MAX: usize = 24;
/// Concurrent requests to one pool.
const OF_POOL_MAX: usize = 8;
/// Longest wait for a slot of pools.
const WAIT: Duration = match cfg!(test) {
    true => Duration::from_millis(50),
    false => Duration::from_secs(10),
};
/// Requests that a server handles from memory, and requests that resume a suspended pool.
const NEVER_BLOCKING: &[&str] = &["pool.status", "pool.events", "pool.clear", "pool.online"];

/// All slots.
pub(crate) struct PoolPermits {
    all: Arc<Semaphore>,
    of_pools: Arc<Semaphore>,
    of_pool: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// A slot, held until it is dropped.
pub(crate) struct PoolPermit(#[expect(dead_code, reason = "held")] Vec<OwnedSemaphorePermit>);

impl Default for PoolPermits {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(PERFORMED_MAX)),
            of_pools: Arc::new(Semaphore::new(OF_POOLS_MAX)),
            of_pool: Mutex::default(),
        }
    }
}

impl PoolPermits {
    /// Acquires a slot for a request with `verb`, if known, to `pool`, if it is about one.
    pub(crate) async fn take(
        &self,
        pool: Option<&str>,
        verb: Option<&str>,
    ) -> Result<PoolPermit, Failure> {
        let may_be_kept = !verb.is_some_and(|verb| NEVER_BLOCKING.contains(&verb));
        let mut held = Vec::new();
        if let Some(pool) = pool.filter(|_| may_be_kept) {
            for places in [self.of(pool), Arc::clone(&self.of_pools)] {
                let taken = tokio::time::timeout(WAIT, permit(places)).await;
                held.push(taken.unwrap_or_else(|_| Err(hangs(pool)))?);
            }
        }
        held.push(permit(Arc::clone(&self.all)).await?);
        Ok(PoolPermit(held))
    }

    fn of(&self, pool: &str) -> Arc<Semaphore> {
        let mut known = self.of_pool.lock().expect("no holder panics");
        // A holder of a slot, or a waiter, holds a reference.
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
    let message =
        format!("too many requests are blocked on pool {pool}, or on other pools of this head");
    Failure::new(FailureKind::Unavailable, message).advise(
        "`bulkhead status` shows whether its devices are missing: when they are back, `bulkhead pool \
         clear` resumes it",
    )
}
