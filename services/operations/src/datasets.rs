//! The datasets of a pool as the operations see them: facts about volumes, and the export
//! documents in their properties.

use std::collections::BTreeSet;
use std::sync::Arc;

use control::Failure;
use control::selection::Selection;
use engine::dataset::{
    DatasetErrorKind, DatasetInfo, DatasetKind, DatasetRef, Depth, FileSystemSpec, Snapshots,
};
use units::{PoolName, VolumeName};

use super::documents::{All, Documents, Edits};
use super::{Context, directory_names, failures};
use crate::needs;
use crate::seals::Ring;

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
    /// The datasets of a selection; all without one.
    pub fn selected(&self, only: Option<&Selection>) -> Result<Vec<DatasetInfo>, Failure> {
        let dataset = only.and_then(Selection::dataset);
        let below: DatasetRef<'_> = match dataset {
            Some(dataset) => dataset.into(),
            None => self.pool.name().into(),
        };
        let all = self.pool.datasets(below, Snapshots::Skip);
        let mut all = all.map_err(|error| match dataset {
            Some(dataset) if error.kind == DatasetErrorKind::NotFound => no_dataset(dataset),
            _ => failures::dataset(error),
        })?;
        all.retain(|info| only.is_none_or(|only| only.has_dataset(&info.name)));
        Ok(all)
    }

    /// Refuses a selection by a dataset that does not exist.
    pub fn refuse_missing(&self, only: Option<&Selection>) -> Result<(), Failure> {
        let Some(dataset) = only.and_then(Selection::dataset) else {
            return Ok(());
        };
        let found = self.pool.dataset(dataset.into());
        match found.map(drop) {
            Err(error) if error.kind == DatasetErrorKind::NotFound => Err(no_dataset(dataset)),
            found => found.map_err(failures::dataset),
        }
    }

    /// Every volume of the pool.
    pub fn volume_infos(&self) -> Result<Vec<DatasetInfo>, Failure> {
        let all = self.pool.datasets(self.pool.name().into(), Snapshots::Skip);
        let mut all = all.map_err(failures::dataset)?;
        all.retain(|info| info.volume.is_some());
        Ok(all)
    }
}

/// Parent file systems that were created for a dataset. They are destroyed on drop unless [`Parents::keep`] is called.
pub struct Parents<'a> {
    context: &'a Context<'a>,
    /// The highest first.
    made: Vec<VolumeName>,
}

impl Parents<'_> {
    /// Retains the created parents: the operation that needed them succeeded.
    pub fn keep(mut self) {
        self.made.clear();
    }
}

impl Drop for Parents<'_> {
    fn drop(&mut self) {
        for name in self.made.iter().rev() {
            let destroyed = self.context.pool.destroy_dataset(name, Depth::One);
            self.context.documents.changed(name.as_str());
            if let Err(error) = destroyed {
                tracing::debug!(%name, %error, "a parent that was made stays");
            }
        }
    }
}

impl<'c> Context<'c> {
    /// Creates the missing parent file systems of `name`, if `wanted`.
    pub fn make_parents(&'c self, name: &VolumeName, wanted: bool) -> Result<Parents<'c>, Failure> {
        let mut parents = Parents {
            context: self,
            made: Vec::new(),
        };
        if !wanted {
            return Ok(parents);
        }
        let path = name.as_str();
        let directly_above = path
            .rsplit_once('/')
            .and_then(|(above, _)| above.parse().ok());
        if let Some(above) = directly_above {
            directory_names::refuse_taken(self, &above)?;
        }
        let above = path.match_indices('/').skip(1).map(|(at, _)| &path[..at]);
        for parent in above.filter_map(|parent| parent.parse::<VolumeName>().ok()) {
            let found = self.pool.dataset((&parent).into());
            if found.is_err_and(|error| error.kind == DatasetErrorKind::NotFound) {
                parents.made.push(parent);
            }
        }
        if !parents.made.is_empty() {
            let made = needs(self.pool.files())?.create_parents(name);
            made.map_err(failures::dataset)?;
        }
        Ok(parents)
    }
}

/// Selects the datasets with contents among all that are at and below one.
pub struct Contents<'a> {
    above_volumes: BTreeSet<&'a str>,
}

impl<'a> Contents<'a> {
    /// Of these datasets.
    pub fn of(all: &'a [DatasetInfo]) -> Self {
        let mut above_volumes = BTreeSet::new();
        for info in all.iter().filter(|info| info.volume.is_some()) {
            let mut name = info.name.as_str();
            while let Some((parent, _)) = name.rsplit_once('/') {
                above_volumes.insert(parent);
                name = parent;
            }
        }
        Self { above_volumes }
    }

    /// Volumes have such properties, and so have file systems. The pool's root and empty file systems that only group
    /// volumes do not.
    pub fn has(&self, info: &DatasetInfo) -> bool {
        if info.snapshot {
            return false;
        }
        let is_empty = info.objects <= FileSystemSpec::OBJECTS_EMPTY;
        let is_group = is_empty && self.above_volumes.contains(info.name.as_str());
        match info.kind {
            DatasetKind::Volume => info.volume.is_some(),
            DatasetKind::Filesystem => info.name.contains('/') && !is_group,
            DatasetKind::Other => false,
        }
    }
}

fn no_dataset(name: &VolumeName) -> Failure {
    let pool = name.pool();
    Failure::not_found(format!("{name} does not exist")).advise(format!(
        "`bulkhead volume space {pool}` shows all volumes and file systems"
    ))
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
        self.documents.all(self.pool)
    }

    fn ring(&self) -> Result<Ring, Failure> {
        self.documents.ring(self.pool)
    }

    fn ring_to_seal(&self) -> Result<Ring, Failure> {
        self.documents.ring_to_seal(self.pool)
    }

    fn is_volume(&self, name: &VolumeName) -> Result<bool, Failure> {
        match self.pool.dataset(name.into()) {
            Ok(info) => Ok(info.volume.is_some()),
            Err(error) if error.kind == DatasetErrorKind::NotFound => Ok(false),
            Err(error) => Err(failures::dataset(error)),
        }
    }

    fn edit_all(&self, edits: Vec<(String, Edits)>) -> Result<(), Failure> {
        let names = edits.iter().map(|(name, _)| Dataset::parse(name));
        let names: Vec<Dataset> = names.collect::<Result<_, _>>()?;
        let touched: Vec<String> = edits.iter().map(|(name, _)| name.clone()).collect();
        let changes = names.iter().zip(edits);
        let changes = changes
            .map(|(name, (_, edits))| (name.into(), edits))
            .collect();
        let done = self.pool.edit_user_properties(changes);
        touched.iter().for_each(|name| self.documents.changed(name));
        done.map_err(failures::dataset)
    }
}
