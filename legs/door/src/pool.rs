//! Pools with legs on several heads.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use control::operations::pool::DeviceGroup;
use control::{Answer, Failure};
use engine::pool::{Candidate, PreviousOwner};
use engine::{Engine, Pool};
use units::PoolName;

use crate::{Directories, LegRequest, LegStatus, MemberRequest};

/// A file that names heads, witness and legs.
#[derive(Clone, Copy, Debug)]
pub struct Configuration<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Whether it was given explicitly, so that it must exist.
    pub is_named: bool,
}

/// Excludes other processes of this host from the record of a pool until it is dropped.
pub type Held = Box<dyn Any + Send>;

/// Called with the previous owner's note in the labels, before the import, which is slow.
pub type Claim = dyn Fn(&str) -> Result<(), Failure> + Send + Sync;

/// A pool that was opened, and its legs.
pub type Opened = (Box<dyn Pool>, Box<dyn OwnedLegs>);

/// Entry point of the interface.
pub trait Legs: Sync {
    /// The legs of `pool` by the configuration at `path`. Accesses no disk.
    ///
    /// # Errors
    ///
    /// The configuration cannot be used, or does not name the pool.
    fn pool(
        &self,
        directories: &Directories,
        pool: &PoolName,
        path: &Path,
    ) -> Result<Arc<dyn LegPool>, Failure>;

    /// The failure of a command that needs `pool` to be open here, if the configuration at `path` names the pool.
    fn not_served(&self, pool: &PoolName, path: &Path) -> Option<Failure>;

    /// The engine's name of the leg of `pool` with the name `leg`.
    ///
    /// # Errors
    ///
    /// The configuration at `path` names no such leg.
    fn path_of(
        &self,
        directories: &Directories,
        pool: &PoolName,
        leg: &str,
        path: &Path,
    ) -> Result<PathBuf, Failure>;

    /// Decides whether `pool` may be used without its record, which has that number. `may_be_stale`: the administrator
    /// accepts the loss of writes. While the result is held, no leg-server of this host uses the record.
    ///
    /// # Errors
    ///
    /// Writes would be lost, or two pools could result.
    fn may_discard(
        &self,
        directories: &Directories,
        pool: &PoolName,
        number: u64,
        configuration: Configuration<'_>,
        may_be_stale: bool,
    ) -> Result<Option<Held>, Failure>;

    /// Connects read-only to the legs of `pool` on `heads`. Does not affect an owner.
    ///
    /// # Errors
    ///
    /// A lender does not respond.
    fn inspect(
        &self,
        directories: &Directories,
        pool: &PoolName,
        path: &Path,
        heads: &[String],
    ) -> Result<Box<dyn Inspection>, Failure>;
}

/// Legs that are connected for reading.
pub trait Inspection {
    /// As [`LegPool::install`].
    fn install(&self, options: &mut dyn Any);

    /// Opens the legs as a pool of that name.
    ///
    /// # Errors
    ///
    /// They are not enough.
    fn open(
        &self,
        engine: &dyn Engine,
        name: &PoolName,
    ) -> Result<(Candidate, Box<dyn Pool>), Failure>;
}

/// A pool with legs on several heads, and its record.
pub trait LegPool: Send + Sync {
    /// The number of its record.
    fn record(&self) -> u64;

    /// The path of the configuration.
    fn path(&self) -> &Path;

    /// Paths of this head's legs.
    fn own_paths(&self) -> Vec<PathBuf>;

    /// The layout of a new pool.
    fn groups(&self) -> Vec<DeviceGroup>;

    /// Replaces the engine's names of legs in a failure by those in the configuration.
    fn with_names(&self, failure: Failure) -> Failure;

    /// Wraps the driver in the `options` of the engine, so that the engine reaches the legs.
    ///
    /// # Panics
    ///
    /// The options are of another engine than that of the legs.
    fn install(&self, options: &mut dyn Any);

    /// Claims all legs for a pool that is to be created on them. They can be opened afterwards.
    ///
    /// # Errors
    ///
    /// A member does not respond, has the pool, or does not lend a leg; a leg is in use, or contains data and
    /// `may_overwrite` is not set.
    fn begin_pool(&self, may_overwrite: bool) -> Result<Box<dyn NewRecord>, Failure>;

    /// Checks that this head has the disks that the configuration names.
    ///
    /// # Errors
    ///
    /// A disk is missing.
    fn are_present(&self) -> Result<(), Failure>;

    /// Claims the disks of this head, which are all of the pool's, to put them on record.
    ///
    /// # Errors
    ///
    /// The pool has other disks, redundant groups, or another record; a member does not respond, or has another pool; a
    /// disk is in use.
    fn begin_record(&self, candidate: &Candidate) -> Result<Box<dyn NewRecord>, Failure>;

    /// Opens the pool of disks that are about to be on record. Its labels name the record from then on.
    ///
    /// # Errors
    ///
    /// Another process has opened it, or it cannot be opened.
    fn open_unrecorded(&self, engine: &dyn Engine) -> Result<Box<dyn Pool>, Failure>;

    /// Opens the pool by its record. `disk_wait`: time-out of an I/O of a leg on this head.
    ///
    /// # Errors
    ///
    /// The record does not allow it, or the pool cannot be opened.
    fn open(
        self: Arc<Self>,
        engine: Arc<dyn Engine>,
        owner_before: &PreviousOwner,
        disk_wait: Duration,
        claim: Box<Claim>,
    ) -> Result<Opened, Failure>;
}

/// Legs that are claimed for a pool without a record.
pub trait NewRecord {
    /// Whether members have the record already: an interrupted command has done the rest.
    fn is_taken_up(&self) -> bool;

    /// The pool is closed: all members get its record.
    ///
    /// # Errors
    ///
    /// A member does not respond.
    fn finish(self: Box<Self>) -> Result<(), Failure>;
}

/// The legs of a pool that this process owns. If dropped, the process remains the owner on record.
pub trait OwnedLegs: Send {
    /// A handle for threads that display and change them.
    fn control(&self) -> Arc<dyn LegControl>;

    /// The pool was exported: the record names no owner any more, so that the next one needs no proof.
    fn close(self: Box<Self>);
}

/// Displays and changes the legs of an open pool.
pub trait LegControl: Send + Sync {
    /// Their state now. Never blocks.
    fn show(&self) -> LegStatus;

    /// Performs a request about the leg of that name. Blocks until the change is on record, for a bounded time.
    ///
    /// # Errors
    ///
    /// There is no such leg, the request does not apply to it, or too few members respond.
    fn request(&self, leg: &str, request: LegRequest) -> Result<Answer, Failure>;

    /// Changes the members. Blocks until the change is on record, for a bounded time.
    ///
    /// # Errors
    ///
    /// The change is refused, or too few members respond.
    fn change_members(&self, request: MemberRequest<'_>) -> Result<Answer, Failure>;
}
