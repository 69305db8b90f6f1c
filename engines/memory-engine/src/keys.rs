//! Keys: loading, forgetting and changing them.

use engine::capabilities::Keys;
use engine::dataset::{DatasetError, DatasetErrorKind, DatasetRef, Value};
use engine::keys::{KeyInfo, KeyMaterial, NewKey};
use units::VolumeName;

use crate::encryption::{Encryption, OwnKey, own_key};
use crate::state::{MemoryPool, State};
use crate::tree::{Dataset, parent_of};

impl State {
    /// The key that `name` has for itself.
    fn own_key_mut(&mut self, name: &str) -> Result<&mut OwnKey, DatasetErrorKind> {
        let info = self.tree.key_info(name)?;
        if !info.is_root() {
            return Err(match info.root {
                Some(root) => DatasetErrorKind::NotKeyRoot { root },
                None => DatasetErrorKind::NotEncrypted,
            });
        }
        let key = self.tree.get_mut(name)?.encryption.as_mut();
        key.and_then(|key| key.own.as_mut())
            .ok_or(DatasetErrorKind::Library)
    }

    fn unload(&mut self, name: &str) -> Result<(), DatasetErrorKind> {
        self.tree.get(name)?;
        // The library searches for a loaded key, and finds none for a dataset without its own.
        let root = match self.own_key_mut(name) {
            Ok(key) if key.is_loaded => name,
            _ => return Err(DatasetErrorKind::KeyMissing),
        };
        let is_used = |one: &Dataset| one.is_open;
        let theirs = self.tree.datasets.iter();
        let mut theirs = theirs.filter(|(at, _)| {
            let key = self.tree.key_of(at);
            key.is_some_and(|(of, _)| of == root)
        });
        if theirs.any(|(_, one)| is_used(one)) {
            return Err(DatasetErrorKind::Busy);
        }
        self.own_key_mut(name)?.is_loaded = false;
        Ok(())
    }

    fn create_key_parent(
        &mut self,
        name: &str,
        key: &NewKey,
        properties: &[(String, String)],
    ) -> Result<(), DatasetErrorKind> {
        let encryption = Encryption::of_new_key(key)?;
        self.tree.place(name)?;
        let mut dataset = Dataset::new(self.tree.next_txg(), None);
        dataset.encryption = Some(encryption.owned_by(dataset.guid));
        let text = |(name, value): &(String, String)| (name.clone(), Value::Text(value.clone()));
        dataset.properties = properties.iter().map(text).collect();
        self.tree.datasets.insert(name.to_owned(), dataset);
        Ok(())
    }
}

impl Keys for MemoryPool {
    fn key_info(&self, dataset: DatasetRef<'_>) -> Result<KeyInfo, DatasetError> {
        const DOING: &str = "look at the key of";
        let state = self.begin("key_info", DOING, dataset)?;
        let info = state.tree.key_info(dataset.as_str());
        info.map_err(|kind| DatasetError::new(DOING, dataset.as_str(), kind))
    }

    fn encrypted_datasets(&self) -> Result<Vec<KeyInfo>, DatasetError> {
        let root = DatasetRef::from(&self.name);
        let state = self.begin("encrypted_datasets", "look for keys in", root)?;
        let names = state.tree.names(self.name.as_str());
        let infos = names
            .iter()
            .filter_map(|name| state.tree.key_info(name).ok());
        Ok(infos.filter(|info| info.root.is_some()).collect())
    }

    fn load_key(&self, root: DatasetRef<'_>, material: &KeyMaterial) -> Result<(), DatasetError> {
        const DOING: &str = "load the key of";
        let mut state = self.begin("load_key", DOING, root)?;
        let fail = |kind| DatasetError::new(DOING, root.as_str(), kind);
        let key = state.own_key_mut(root.as_str()).map_err(fail)?;
        key.check(material).map_err(fail)?;
        match std::mem::replace(&mut key.is_loaded, true) {
            true => Err(fail(DatasetErrorKind::Exists)),
            false => Ok(()),
        }
    }

    fn check_key(&self, root: DatasetRef<'_>, material: &KeyMaterial) -> Result<(), DatasetError> {
        const DOING: &str = "check the key of";
        let mut state = self.begin("check_key", DOING, root)?;
        let fail = |kind| DatasetError::new(DOING, root.as_str(), kind);
        let key = state.own_key_mut(root.as_str()).map_err(fail)?;
        key.check(material).map_err(fail)
    }

    fn unload_key(&self, root: DatasetRef<'_>) -> Result<(), DatasetError> {
        const DOING: &str = "unload the key of";
        let mut state = self.begin("unload_key", DOING, root)?;
        let unloaded = state.unload(root.as_str());
        unloaded.map_err(|kind| DatasetError::new(DOING, root.as_str(), kind))
    }

    fn change_key(&self, dataset: DatasetRef<'_>, key: &NewKey) -> Result<(), DatasetError> {
        const DOING: &str = "change the key of";
        let mut state = self.begin_change("change_key", DOING, dataset)?;
        let fail = |kind| DatasetError::new(DOING, dataset.as_str(), kind);
        let own = own_key(key).map_err(fail)?;
        state.tree.check_change(dataset.as_str()).map_err(fail)?;
        let guid = state.tree.get(dataset.as_str()).map_err(fail)?.guid;
        state.tree.share_key(dataset.as_str(), guid, Some(own));
        state.tree.next_txg();
        Ok(())
    }

    fn inherit_key(&self, dataset: DatasetRef<'_>) -> Result<(), DatasetError> {
        const DOING: &str = "inherit the key of";
        let mut state = self.begin_change("inherit_key", DOING, dataset)?;
        let fail = |kind| DatasetError::new(DOING, dataset.as_str(), kind);
        state
            .tree
            .check_inherit_key(dataset.as_str())
            .map_err(fail)?;
        let parent = state.tree.get(parent_of(dataset.as_str())).map_err(fail)?;
        let root = parent.encryption.as_ref().map_or(0, |key| key.root);
        state.tree.share_key(dataset.as_str(), root, None);
        state.tree.next_txg();
        Ok(())
    }

    fn create_key_parent(
        &self,
        name: &VolumeName,
        key: &NewKey,
        properties: &[(String, String)],
    ) -> Result<(), DatasetError> {
        const DOING: &str = "create";
        let mut state = self.begin_change("create_key_parent", DOING, name.into())?;
        let created = state.create_key_parent(name.as_str(), key, properties);
        created.map_err(|kind| DatasetError::new(DOING, name.as_str(), kind))
    }
}
