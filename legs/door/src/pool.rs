//! Pools whose legs lie on several heads.

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
    /// Where it is.
    pub path: &'a Path,
    /// Whether a person named it, so that it has to be there.
    pub is_named: bool,
}

/// Keeps other processes of this host from the record of a pool until it is dropped.
pub type Held = Box<dyn Any + Send>;

/// Called with what the owner before left in the labels, before the import, which takes long.
pub type Claim = dyn Fn(&str) -> Result<(), Failure> + Send + Sync;

/// A pool that was opened, and its legs.
pub type Opened = (Box<dyn Pool>, Box<dyn OwnedLegs>);

/// Entry of the door.
pub trait Legs: Sync {
    /// The legs of `pool` by the configuration at `path`. Touches no disk.
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

    /// The failure of a command for which `pool` has to be open here, if the configuration at `path` names the pool.
    fn not_served(&self, pool: &PoolName, path: &Path) -> Option<Failure>;

    /// What the engine calls the leg of `pool` that people call `leg`.
    ///
    /// # Errors
    ///
    /// The configuration at `path` names no such leg.
    fn place_of(
        &self,
        directories: &Directories,
        pool: &PoolName,
        leg: &str,
        path: &Path,
    ) -> Result<PathBuf, Failure>;

    /// Whether `pool` may go on without its record, which has that number. `may_be_stale`: a person says that what is lost is lost. While the
    /// result is held, no leg-server of this host uses the record.
    ///
    /// # Errors
    ///
    /// Writes would be lost, or two pools come of one.
    fn may_forget(
        &self,
        directories: &Directories,
        pool: &PoolName,
        number: u64,
        configuration: Configuration<'_>,
        may_be_stale: bool,
    ) -> Result<Option<Held>, Failure>;

    /// Connects to the legs of `pool` on `heads` for reading. Disturbs no owner.
    ///
    /// # Errors
    ///
    /// A lender does not answer.
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

    /// Opens what they hold as a pool of that name.
    ///
    /// # Errors
    ///
    /// They do not suffice.
    fn open(
        &self,
        engine: &dyn Engine,
        name: &PoolName,
    ) -> Result<(Candidate, Box<dyn Pool>), Failure>;
}

/// A pool whose legs lie on several heads, and who remembers which of them hold everything.
pub trait LegPool: Send + Sync {
    /// The number of its record.
    fn record(&self) -> u64;

    /// The path of the configuration.
    fn path(&self) -> &Path;

    /// Paths of this head's legs.
    fn own_paths(&self) -> Vec<PathBuf>;

    /// What the groups of a new pool are made of.
    fn groups(&self) -> Vec<DeviceGroup>;

    /// The failure with the names that people know, where it names legs as the engine does.
    fn with_names(&self, failure: Failure) -> Failure;

    /// Has the engine that is started with `options` reach the legs.
    ///
    /// # Panics
    ///
    /// They are options of another engine than that of the legs.
    fn install(&self, options: &mut dyn Any);

    /// Claims all legs for a pool that is to be made on them. They can be opened afterwards.
    ///
    /// # Errors
    ///
    /// A member does not answer, knows the pool, or does not lend a leg; a leg is in use, or carries something and `may_overwrite` is
    /// not set.
    fn begin_pool(&self, may_overwrite: bool) -> Result<Box<dyn NewRecord>, Failure>;

    /// Whether this head has the disks that the configuration says it has.
    ///
    /// # Errors
    ///
    /// It does not.
    fn are_there(&self) -> Result<(), Failure>;

    /// Claims the disks of this head, which are all that the pool has, to put them on record.
    ///
    /// # Errors
    ///
    /// The pool has other disks, more than one copy of anything, or another record; a member does not answer, or remembers another pool; a
    /// disk is in use.
    fn begin_record(&self, candidate: &Candidate) -> Result<Box<dyn NewRecord>, Failure>;

    /// Opens the pool of disks that are about to be on record. Its labels name the record from then on.
    ///
    /// # Errors
    ///
    /// Another process has opened it, or it cannot be opened.
    fn open_unrecorded(&self, engine: &dyn Engine) -> Result<Box<dyn Pool>, Failure>;

    /// Opens the pool by its record. `disk_wait`: a leg of this head that takes longer for an I/O has failed.
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
    /// Whether members remember the record already: a command that was killed before has done the rest.
    fn is_taken_up(&self) -> bool;

    /// The pool is closed: all members get its record.
    ///
    /// # Errors
    ///
    /// A member does not answer.
    fn finish(self: Box<Self>) -> Result<(), Failure>;
}

/// The legs of a pool that this process owns. Dropped, it stays the owner by the record.
pub trait OwnedLegs: Send {
    /// For threads that show and change them.
    fn control(&self) -> Arc<dyn LegControl>;

    /// The pool was exported: the record names no owner any more, so that the next one needs no proof.
    fn close(self: Box<Self>);
}

/// Shows and changes the legs of an open pool.
pub trait LegControl: Send + Sync {
    /// Their state now. Never waits.
    fn show(&self) -> LegStatus;

    /// Performs a request about the leg of that name. Waits for the record, for a bounded time.
    ///
    /// # Errors
    ///
    /// There is no such leg, the request is not one for it, or too few members respond.
    fn request(&self, leg: &str, request: LegRequest) -> Result<Answer, Failure>;

    /// Changes who remembers. Waits for the record, for a bounded time.
    ///
    /// # Errors
    ///
    /// The change is refused, or too few members respond.
    fn change_members(&self, request: MemberRequest<'_>) -> Result<Answer, Failure>;
}
