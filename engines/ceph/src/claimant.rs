//! The right of this process to claim a shelf, against other processes of this host and other shelves of its name.

use std::sync::{Arc, Mutex, PoisonError};

use engine::pool::{PoolError, PoolErrorKind};
use units::PoolName;

use crate::errors::shape;
use crate::records::Number;
use crate::start::{CephEngine, HostLock};

/// The claim of this process on a shelf: the lock of this host, and the name, which no other open shelf has.
pub(crate) struct Claimant {
    pub(crate) engine: CephEngine,
    pub(crate) guid: Number,
    pub(crate) name: PoolName,
    /// `None` once the shelf is released.
    lock: Mutex<Option<Arc<HostLock>>>,
}

impl Claimant {
    /// Fails if another process of this host, or another open shelf of this process, is in the way.
    pub(crate) fn new(
        engine: &CephEngine,
        guid: Number,
        name: &str,
        doing: &'static str,
    ) -> Result<Self, PoolError> {
        let checked = name.parse().map_err(|_| {
            shape(
                doing,
                name,
                "its name is not valid here: import it under a different name",
            )
        })?;
        let lock = engine.0.host_lock(guid).map_err(|error| {
            let dir = engine.0.options.lock_dir.display();
            shape(
                doing,
                name,
                format!("its lock in {dir} cannot be acquired: {error}"),
            )
        })?;
        let Some(lock) = lock else {
            return Err(PoolError::new(doing, name, PoolErrorKind::Busy));
        };
        let mut open = engine.0.open_shelves();
        if open.contains_key(&guid) || open.values().any(|open| open == name) {
            return Err(PoolError::new(doing, name, PoolErrorKind::Exists));
        }
        open.insert(guid, name.to_owned());
        drop(open);
        Ok(Self {
            engine: engine.clone(),
            guid,
            name: checked,
            lock: Mutex::new(Some(lock)),
        })
    }
}

impl Claimant {
    /// Permits other claims. A closed volume may still hold the shelf.
    pub(crate) fn release(&self) {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.take().is_some() {
            self.engine.0.open_shelves().remove(&self.guid);
        }
    }
}

impl Drop for Claimant {
    fn drop(&mut self) {
        self.release();
    }
}
