//! The datasets of a pool as the operations see them: facts about volumes, and the export
//! documents in their properties.

use std::sync::Arc;

use control::Failure;
use units::{PoolName, VolumeName};
use zpool::Pool;
use zpool::dataset::{DatasetErrorKind, DatasetInfo, DatasetRef, Snapshots, Value};

use super::Context;
use super::documents::{All, Documents, Edits};
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
}

/// Whether the volume has less than its size reserved.
pub fn is_sparse(info: &DatasetInfo) -> bool {
    info.volume
        .is_some_and(|shape| info.refreservation.get() < shape.size.get())
}

impl Documents for Context<'_> {
    fn root(&self) -> String {
        self.pool.name().to_string()
    }

    fn all(&self) -> Result<Arc<All>, Failure> {
        self.known.all(self.pool)
    }

    fn is_volume(&self, name: &VolumeName) -> Result<bool, Failure> {
        match self.pool.dataset(name) {
            Ok(info) => Ok(info.volume.is_some()),
            Err(error) if error.kind == DatasetErrorKind::NotFound => Ok(false),
            Err(error) => Err(failures::dataset(error)),
        }
    }

    fn edit(&self, dataset: &str, edits: Edits) -> Result<(), Failure> {
        let edited = edit(self.pool, &Dataset::parse(dataset)?, edits);
        self.known.changed(dataset);
        edited
    }
}

fn edit(pool: &Pool, dataset: &Dataset, edits: Edits) -> Result<(), Failure> {
    let (set, removed): (Vec<_>, Vec<_>) = edits.into_iter().partition(|(_, v)| v.is_some());
    if !set.is_empty() {
        let values = set.into_iter();
        let values: Vec<(String, Value)> = values
            .filter_map(|(name, value)| Some((name, Value::Text(value?))))
            .collect();
        let done = pool.set_dataset_properties(dataset, &values);
        done.map_err(failures::dataset)?;
    }
    for (name, _) in removed {
        let done = pool.inherit_property(dataset, &name);
        done.map_err(failures::dataset)?;
    }
    Ok(())
}
