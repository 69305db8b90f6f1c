//! The export documents of an open pool, in memory. Nobody else changes an open pool, so they are
//! read once, and after a change only those of the dataset that was changed: the cost of a change
//! must not grow with the number of volumes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use control::Failure;
use control::exports::PROPERTY_PREFIX;
use zpool::Pool;
use zpool::dataset::DatasetErrorKind;

use super::datasets::Dataset;
use super::documents::{All, Own};
use super::failures;

/// What is known of a pool's documents. Whoever changes one says so *after* the change and before
/// telling anybody of it.
#[derive(Default)]
pub struct Known(Mutex<State>);

#[derive(Default)]
struct State {
    /// As they were read; `None` if all of them have to be read.
    all: Option<Arc<All>>,
    /// Datasets that were changed since.
    stale: BTreeSet<String>,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder panics")
    }

    /// All documents of `pool` as they are now. May block.
    pub fn all(&self, pool: &Pool) -> Result<Arc<All>, Failure> {
        let mut state = self.lock();
        let State { all, stale } = &mut *state;
        if let Some(all) = all {
            while let Some(dataset) = stale.first() {
                let own = read(pool, dataset)?;
                Arc::make_mut(all).set(dataset, own);
                stale.pop_first();
            }
            return Ok(Arc::clone(all));
        }
        let found = pool.user_properties(PROPERTY_PREFIX);
        let found = found.map_err(failures::dataset)?;
        let found = Arc::new(found.into_iter().collect());
        stale.clear();
        Ok(Arc::clone(all.insert(found)))
    }

    /// `dataset` was made, changed or destroyed, perhaps.
    pub fn changed(&self, dataset: &str) {
        self.lock().stale.insert(dataset.to_owned());
    }

    /// Any dataset may have changed.
    pub fn forget(&self) {
        self.lock().all = None;
    }
}

/// The documents of one dataset; none if there is no such dataset.
fn read(pool: &Pool, dataset: &str) -> Result<Own, Failure> {
    match pool.own_user_properties(&Dataset::parse(dataset)?, PROPERTY_PREFIX) {
        Err(error) if error.kind == DatasetErrorKind::NotFound => Ok(Own::new()),
        other => other.map_err(failures::dataset),
    }
}
