//! The administrator's interface to legs: commands, views and advice. [`EntryPoint`] implements the interface `leg-door` with
//! the coordinator (`legs`) and the legs of OpenZFS (`leg-zfs`).

#![forbid(unsafe_code)]

mod absent;
mod discard_record;
mod door;
mod inspect;
mod multi_head;
mod named;
mod on_record;
mod requests;
mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use control::Failure;
use leg_door::{Configuration, Directories, Held, Inspection, LegPool, Legs};
use units::PoolName;

use self::multi_head::LegsOfPool;

/// The entry point.
#[derive(Clone, Copy, Debug)]
pub struct EntryPoint;

impl Legs for EntryPoint {
    fn pool(
        &self,
        directories: &Directories,
        pool: &PoolName,
        path: &Path,
    ) -> Result<Arc<dyn LegPool>, Failure> {
        Ok(Arc::new(LegsOfPool::read(directories, pool, path)?))
    }

    fn not_served(&self, pool: &PoolName, path: &Path) -> Option<Failure> {
        named::of_legs(pool, path)
    }

    fn path_of(
        &self,
        directories: &Directories,
        pool: &PoolName,
        leg: &str,
        path: &Path,
    ) -> Result<PathBuf, Failure> {
        named::of_leg(directories, pool, leg, path)
    }

    fn may_discard(
        &self,
        directories: &Directories,
        pool: &PoolName,
        number: u64,
        configuration: Configuration<'_>,
        may_be_stale: bool,
    ) -> Result<Option<Held>, Failure> {
        let held =
            discard_record::may_discard(directories, pool, number, configuration, may_be_stale)?;
        Ok(held.map(|store| Box::new(store) as Held))
    }

    fn inspect(
        &self,
        directories: &Directories,
        pool: &PoolName,
        path: &Path,
        heads: &[String],
    ) -> Result<Box<dyn Inspection>, Failure> {
        inspect::connect(directories, pool, path, heads)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn control_interface_names_default_configuration() {
        assert_eq!(leg_door::DEFAULT_PATH, legs_config::DEFAULT_PATH);
    }
}
