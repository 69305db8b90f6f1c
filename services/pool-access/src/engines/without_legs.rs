//! The interface to legs for a process with engines that have none: each request is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use control::{Failure, FailureKind};
use leg_door::{Configuration, Directories, Held, Inspection, LegPool, Legs};
use units::PoolName;

/// No pool has legs.
#[derive(Clone, Copy, Debug)]
pub struct WithoutLegs;

fn refused(pool: &PoolName) -> Failure {
    let message = format!("pool {pool} has no legs: only pools of OpenZFS can have them");
    Failure::new(FailureKind::Unsupported, message)
}

impl Legs for WithoutLegs {
    fn pool(
        &self,
        _: &Directories,
        pool: &PoolName,
        _: &Path,
    ) -> Result<Arc<dyn LegPool>, Failure> {
        Err(refused(pool))
    }

    fn not_served(&self, _: &PoolName, _: &Path) -> Option<Failure> {
        None
    }

    fn path_of(
        &self,
        _: &Directories,
        pool: &PoolName,
        _: &str,
        _: &Path,
    ) -> Result<PathBuf, Failure> {
        Err(refused(pool))
    }

    fn may_discard(
        &self,
        _: &Directories,
        pool: &PoolName,
        _: u64,
        _: Configuration<'_>,
        _: bool,
    ) -> Result<Option<Held>, Failure> {
        Err(refused(pool))
    }

    fn inspect(
        &self,
        _: &Directories,
        pool: &PoolName,
        _: &Path,
        _: &[String],
    ) -> Result<Box<dyn Inspection>, Failure> {
        Err(refused(pool))
    }
}
