//! Which dataset has which key.

use engine::dataset::DatasetErrorKind;
use engine::keys::KeyInfo;

use crate::encryption::OwnKey;
use crate::tree::{Tree, is_at_or_below, parent_of};

impl Tree {
    /// The key that opens `name`, with the name of the dataset that has it.
    pub(crate) fn key_of(&self, name: &str) -> Option<(&String, &OwnKey)> {
        let root = self.datasets.get(name)?.encryption.as_ref()?.root;
        let (name, dataset) = self.by_guid(root)?;
        Some((name, dataset.encryption.as_ref()?.own.as_ref()?))
    }

    /// Whether a dataset cannot be opened for lack of its key.
    pub(crate) fn is_locked(&self, name: &str) -> bool {
        let is_encrypted = self
            .datasets
            .get(name)
            .is_some_and(|one| one.encryption.is_some());
        is_encrypted && !self.key_of(name).is_some_and(|(_, key)| key.is_loaded)
    }

    /// Returns the state of the key of `name`.
    pub(crate) fn key_info(&self, name: &str) -> Result<KeyInfo, DatasetErrorKind> {
        let encryption = self.get(name)?.encryption.as_ref();
        let key = self.key_of(name);
        let own = key.map(|(_, key)| key);
        Ok(KeyInfo {
            dataset: name.to_owned(),
            root: key.map(|(root, _)| root.clone()),
            suite: encryption.map_or("off".to_owned(), |one| one.suite.clone()),
            format: own.map(|key| key.format),
            location: own.map(|key| key.location.clone()).unwrap_or_default(),
            loaded: own.is_some_and(|key| key.is_loaded),
            salt: own.map_or(0, |key| key.salt),
            iterations: own.map_or(0, |key| key.iterations),
        })
    }

    /// Checks that the key of `name` can be changed, in general and in the current state.
    pub(crate) fn check_change(&self, name: &str) -> Result<(), DatasetErrorKind> {
        let dataset = self.get(name)?;
        if dataset.encryption.is_none() || dataset.origin.is_some() {
            return Err(DatasetErrorKind::KeyUnchangeable);
        }
        match self.is_locked(name) {
            true => Err(DatasetErrorKind::KeyMissing),
            false => Ok(()),
        }
    }

    /// Whether `name` can have the key of its parent.
    pub(crate) fn check_inherit_key(&self, name: &str) -> Result<(), DatasetErrorKind> {
        self.check_change(name).or_else(|kind| match kind {
            DatasetErrorKind::KeyMissing => Ok(()),
            kind => Err(kind),
        })?;
        let (dataset, parent) = (self.get(name)?, parent_of(name));
        let is_root = dataset
            .encryption
            .as_ref()
            .is_some_and(|key| key.root == dataset.guid);
        let above = self
            .datasets
            .get(parent)
            .and_then(|one| one.encryption.as_ref());
        if !is_root || above.is_none() {
            return Err(DatasetErrorKind::KeyUnchangeable);
        }
        match self.is_locked(name) || self.is_locked(parent) {
            true => Err(DatasetErrorKind::KeyMissing),
            false => Ok(()),
        }
    }

    /// Changes the encryption root to `to` for `name`, for its descendants with the same key, and for their clones.
    pub(crate) fn share_key(&mut self, name: &str, to: u64, own: Option<OwnKey>) {
        let Some(from) = self
            .datasets
            .get(name)
            .and_then(|one| one.encryption.as_ref())
        else {
            return;
        };
        let from = from.root;
        let guids: Vec<u64> = self
            .names(name)
            .iter()
            .map(|name| self.datasets[name].guid)
            .collect();
        let snapshots = self.names(name).into_iter();
        let snapshots: Vec<u64> = snapshots
            .flat_map(|name| {
                self.datasets[&name]
                    .snapshots
                    .iter()
                    .map(|one| one.guid)
                    .collect::<Vec<_>>()
            })
            .collect();
        for (at, dataset) in &mut self.datasets {
            let is_clone = dataset
                .origin
                .is_some_and(|origin| snapshots.contains(&origin));
            let is_meant = guids.contains(&dataset.guid) && is_at_or_below(at, name);
            let Some(key) = dataset.encryption.as_mut().filter(|key| key.root == from) else {
                continue;
            };
            if is_meant || is_clone {
                key.root = to;
                key.own = own.clone().filter(|_| dataset.guid == to);
            }
        }
    }

    /// Checks whether a promotion is possible with the key of the clone's origin.
    pub(crate) fn check_key_of_origin(
        &self,
        clone: &str,
        owner: &str,
    ) -> Result<(), DatasetErrorKind> {
        let root = |name: &str| {
            let dataset = self.datasets.get(name)?;
            dataset.encryption.as_ref().map(|key| key.root)
        };
        let theirs = self.get(owner)?;
        let is_free = match root(owner) {
            None => true,
            Some(_) if theirs.origin.is_some() => true,
            Some(own) => own == theirs.guid || root(parent_of(clone)) == Some(own),
        };
        match is_free {
            true => Ok(()),
            false => Err(DatasetErrorKind::KeyOfOrigin),
        }
    }

    /// A promotion moves the key of an origin that is an encryption root to the clone.
    pub(crate) fn pass_key(&mut self, owner: &str, clone: &str) {
        let Some(to) = self.datasets.get(clone).map(|one| one.guid) else {
            return;
        };
        let Some(from) = self.datasets.get_mut(owner) else {
            return;
        };
        let guid = from.guid;
        let Some(own) = from.encryption.as_mut().and_then(|key| key.own.take()) else {
            return;
        };
        for dataset in self.datasets.values_mut() {
            if let Some(key) = dataset.encryption.as_mut().filter(|key| key.root == guid) {
                key.root = to;
                key.own = Some(own.clone()).filter(|_| dataset.guid == to);
            }
        }
    }
}
