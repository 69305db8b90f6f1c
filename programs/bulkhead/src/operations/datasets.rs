//! The datasets of a pool as the operations see them: facts about volumes, and the export
//! documents in their properties.

use control::Failure;
use control::exports::{EXPORT_PROPERTY, IDENTITY_PROPERTY, PROPERTY_PREFIX, VolumeFacts};
use units::{PoolName, VolumeName};
use zpool::dataset::{DatasetInfo, DatasetRef, Snapshots, UserProperties, Value};

use super::Context;
use super::documents::{Documents, Edits};
use super::failures;

/// A checked name of a volume or of the pool itself.
pub enum Dataset {
    /// The root dataset.
    Root(PoolName),
    /// A volume, or a dataset that holds some.
    Volume(VolumeName),
}

impl Dataset {
    /// Reads the name.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let usage = |error: units::NameError| Failure::usage(error.to_string());
        match text.contains('/') {
            true => text.parse().map(Self::Volume).map_err(usage),
            false => text.parse().map(Self::Root).map_err(usage),
        }
    }
}

impl<'a> From<&'a Dataset> for DatasetRef<'a> {
    fn from(dataset: &'a Dataset) -> Self {
        match dataset {
            Dataset::Root(name) => name.into(),
            Dataset::Volume(name) => name.into(),
        }
    }
}

impl Context<'_> {
    /// Every volume of the pool.
    pub fn volume_infos(&self) -> Result<Vec<DatasetInfo>, Failure> {
        let all = self.pool.datasets(self.pool.name(), Snapshots::Skip);
        let mut all = all.map_err(failures::dataset)?;
        all.retain(|info| info.volume.is_some());
        Ok(all)
    }

    /// Our own properties of every dataset.
    pub fn documents(&self) -> Result<UserProperties, Failure> {
        let found = self.pool.user_properties(PROPERTY_PREFIX);
        found.map_err(failures::dataset)
    }
}

/// Whether the volume has less than its size reserved.
pub fn is_sparse(info: &DatasetInfo) -> bool {
    info.volume
        .is_some_and(|shape| info.refreservation.get() < shape.size.get())
}

/// The facts of a volume; `None` for anything else.
pub fn facts(info: &DatasetInfo, documents: &UserProperties) -> Option<VolumeFacts> {
    let shape = info.volume?;
    let own = documents.get(&info.name);
    let value = |name: &str| own.and_then(|own| own.get(name)).cloned();
    Some(VolumeFacts {
        name: info.name.parse().ok()?,
        size: shape.size.get(),
        block_size: u32::try_from(shape.block_size.get()).ok()?,
        sparse: is_sparse(info),
        export: value(EXPORT_PROPERTY),
        identity: value(IDENTITY_PROPERTY),
    })
}

impl Documents for Context<'_> {
    fn root(&self) -> String {
        self.pool.name().to_string()
    }

    fn volumes(&self) -> Result<Vec<VolumeFacts>, Failure> {
        let documents = self.documents()?;
        let infos = self.volume_infos()?;
        Ok(infos.iter().filter_map(|i| facts(i, &documents)).collect())
    }

    fn properties(&self, dataset: &str, prefix: &str) -> Result<Vec<(String, String)>, Failure> {
        let found = self.pool.user_properties(prefix);
        let mut found = found.map_err(failures::dataset)?;
        Ok(found
            .remove(dataset)
            .unwrap_or_default()
            .into_iter()
            .collect())
    }

    fn edit(&self, dataset: &str, edits: Edits) -> Result<(), Failure> {
        let dataset = Dataset::parse(dataset)?;
        let (set, removed): (Vec<_>, Vec<_>) = edits.into_iter().partition(|(_, v)| v.is_some());
        if !set.is_empty() {
            let values = set.into_iter();
            let values: Vec<(String, Value)> = values
                .filter_map(|(name, value)| Some((name, Value::Text(value?))))
                .collect();
            let done = self.pool.set_dataset_properties(&dataset, &values);
            done.map_err(failures::dataset)?;
        }
        for (name, _) in removed {
            let done = self.pool.inherit_property(&dataset, &name);
            done.map_err(failures::dataset)?;
        }
        Ok(())
    }
}
