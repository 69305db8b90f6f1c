//! Caches the export documents of an open pool. The server is the only writer of an open pool, so
//! each document is read once and, after a change, only those of the changed dataset are read
//! again. The cost of a change must not grow with the number of volumes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use control::Failure;
use control::exports::PROPERTY_PREFIX;
use engine::Pool;
use engine::dataset::DatasetErrorKind;

use super::datasets::Dataset;
use super::documents::{All, Own};
use super::failures;
use crate::seals::{Ring, Seals};

/// Where documents are read.
pub trait Source {
    /// Those of all datasets that have some.
    fn read_all(&self) -> Result<All, Failure>;
    /// Those of one dataset; none if there is no such dataset.
    fn read_own(&self, dataset: &str) -> Result<Own, Failure>;
}

impl Source for dyn Pool + '_ {
    fn read_all(&self) -> Result<All, Failure> {
        let found = self.user_properties(PROPERTY_PREFIX);
        Ok(found.map_err(failures::dataset)?.into_iter().collect())
    }

    fn read_own(&self, dataset: &str) -> Result<Own, Failure> {
        match self.own_user_properties((&Dataset::parse(dataset)?).into(), PROPERTY_PREFIX) {
            Err(error) if cannot_exist(&error.kind) => Ok(Own::new()),
            other => other.map_err(failures::dataset),
        }
    }
}

/// Returns whether the error means that the pool cannot have such a dataset. A request can name any
/// dataset, even one that no pool could have. One invalid name must not fail every later query.
fn cannot_exist(kind: &DatasetErrorKind) -> bool {
    use DatasetErrorKind::{NameTooLong, NotFound, OtherPool, ParentMissing, ParentUnsuitable};
    matches!(
        kind,
        NotFound | OtherPool | NameTooLong | ParentMissing | ParentUnsuitable
    )
}

fn guid(pool: &dyn Pool) -> Result<u64, Failure> {
    Ok(pool.status().map_err(failures::pool)?.guid)
}

/// The cached documents of a pool. A writer invalidates the cache *after* its change and before it
/// reports the change.
#[derive(Default)]
pub struct DocumentCache {
    state: Mutex<State>,
    /// The keys of the secrets in them; none if no document with secrets is read.
    seals: Option<Seals>,
}

#[derive(Default)]
struct State {
    /// The cached documents; `None` if all of them must be read.
    all: Option<Arc<All>>,
    /// Datasets that were changed since.
    stale: BTreeSet<String>,
}

impl DocumentCache {
    /// Creates an empty cache. Secrets are sealed with these keys.
    pub fn with_seals(seals: Seals) -> Self {
        Self {
            state: Mutex::default(),
            seals: Some(seals),
        }
    }

    /// The keys that open the secrets of `pool`.
    pub fn ring(&self, pool: &dyn Pool) -> Result<Ring, Failure> {
        let seals = self.seals.as_ref();
        seals.map_or(Ok(Ring::none()), |seals| seals.ring(|| guid(pool)))
    }

    /// The same, with sealing keys.
    pub fn ring_to_seal(&self, pool: &dyn Pool) -> Result<Ring, Failure> {
        let seals = self.seals.as_ref();
        seals.map_or(Ok(Ring::none()), |seals| seals.ring_to_seal(|| guid(pool)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// All documents of `pool` as they are now. May block.
    pub fn all(&self, pool: &(impl Source + ?Sized)) -> Result<Arc<All>, Failure> {
        let mut state = self.lock();
        let State { all, stale } = &mut *state;
        if let Some(all) = all {
            while let Some(dataset) = stale.first() {
                let own = pool.read_own(dataset)?;
                Arc::make_mut(all).set(dataset, own);
                stale.pop_first();
            }
            return Ok(Arc::clone(all));
        }
        let found = Arc::new(pool.read_all()?);
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

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;

    use control::FailureKind;

    use super::*;

    /// Datasets with their documents, and the requests made for them.
    #[derive(Default)]
    struct Disk {
        datasets: RefCell<BTreeMap<String, Own>>,
        read_requests: RefCell<Vec<String>>,
        fails: Cell<bool>,
    }

    impl Disk {
        fn set(&self, dataset: &str, value: &str) {
            let own = Own::from([("bulkhead:note".to_owned(), value.to_owned())]);
            self.datasets.borrow_mut().insert(dataset.to_owned(), own);
        }

        fn ask(&self, what: &str) -> Result<(), Failure> {
            self.read_requests.borrow_mut().push(what.to_owned());
            match self.fails.get() {
                true => Err(Failure::new(FailureKind::Failed, "no disk")),
                false => Ok(()),
            }
        }

        fn read_requests(&self) -> Vec<String> {
            self.read_requests.take()
        }
    }

    impl Source for Disk {
        fn read_all(&self) -> Result<All, Failure> {
            self.ask("all")?;
            Ok(self.datasets.borrow().clone().into_iter().collect())
        }

        fn read_own(&self, dataset: &str) -> Result<Own, Failure> {
            self.ask(dataset)?;
            Ok(self
                .datasets
                .borrow()
                .get(dataset)
                .cloned()
                .unwrap_or_default())
        }
    }

    fn note(known: &DocumentCache, disk: &Disk, dataset: &str) -> Option<String> {
        let all = known.all(disk).expect("read");
        all.own(dataset).map(|own| own["bulkhead:note"].clone())
    }

    fn two_volumes() -> (DocumentCache, Disk) {
        let disk = Disk::default();
        disk.set("tank/a", "old");
        disk.set("tank/b", "old");
        let known = DocumentCache::default();
        assert_eq!(note(&known, &disk, "tank/a").as_deref(), Some("old"));
        assert_eq!(disk.read_requests(), ["all"]);
        (known, disk)
    }

    #[test]
    fn change_of_one_dataset_rereads_only_that_one() {
        let (known, disk) = two_volumes();
        disk.set("tank/a", "new");
        disk.set("tank/c", "new");
        known.changed("tank/a");
        known.changed("tank/c");
        assert_eq!(note(&known, &disk, "tank/a").as_deref(), Some("new"));
        assert_eq!(disk.read_requests(), ["tank/a", "tank/c"]);
        assert_eq!(note(&known, &disk, "tank/b").as_deref(), Some("old"));
        assert_eq!(note(&known, &disk, "tank/c").as_deref(), Some("new"));
        assert!(disk.read_requests().is_empty());
    }

    #[test]
    fn destroyed_dataset_leaves_the_cache() {
        let (known, disk) = two_volumes();
        disk.datasets.borrow_mut().remove("tank/a");
        known.changed("tank/a");
        assert_eq!(note(&known, &disk, "tank/a"), None);
        assert_eq!(note(&known, &disk, "tank/b").as_deref(), Some("old"));
    }

    #[test]
    fn failed_refresh_is_not_served_from_the_cache() {
        let (known, disk) = two_volumes();
        disk.set("tank/a", "new");
        known.changed("tank/a");
        disk.fails.set(true);
        assert!(known.all(&disk).is_err());
        disk.fails.set(false);
        assert_eq!(note(&known, &disk, "tank/a").as_deref(), Some("new"));
    }

    #[test]
    fn invalidated_cache_is_read_again_completely() {
        let (known, disk) = two_volumes();
        disk.set("tank/b", "new");
        known.changed("tank/a");
        known.forget();
        assert_eq!(note(&known, &disk, "tank/b").as_deref(), Some("new"));
        assert_eq!(disk.read_requests(), ["all"]);
    }

    #[test]
    fn held_cache_snapshot_stays_unchanged() {
        let (known, disk) = two_volumes();
        let before = known.all(&disk).expect("read");
        disk.set("tank/a", "new");
        known.changed("tank/a");
        assert_eq!(note(&known, &disk, "tank/a").as_deref(), Some("new"));
        let kept = before.own("tank/a").expect("known");
        assert_eq!(kept["bulkhead:note"], "old");
    }
}
