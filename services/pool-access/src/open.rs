//! Opens a pool in this process: starts the engine, reads the labels, and proves that no other
//! process has the pool.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use control::failure::chain;
use control::{Failure, FailureKind};
pub use engine::pool::PreviousOwner;
use engine::pool::legs::Basis;
use engine::pool::{Candidate, Claims, ImportOptions, PoolErrorKind, SafeToOwn};
use engine::{Engine, HostId, Pool};
use units::PoolName;

use crate::common::Common;
use crate::engines::{self, Faults, Options};
use crate::legs::{self, Late};
use crate::places;

/// Maximum number of retries for a pool that was written while it was claimed.
const CHANGES_MAX: usize = 3;

/// Time-out for an export of a pool that is briefly in use.
const BUSY_WAIT: Duration = Duration::from_secs(2);
/// Pause between two attempts.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Returns the host ID that this host writes to the labels of `pool`.
pub fn host_id(common: &Common, pool: &PoolName) -> HostId {
    let given = common.settings.host_id;
    given.unwrap_or_else(|| HostId::of_this_host(pool.as_str()))
}

/// Settings of a short-lived process: it needs little memory.
pub fn small_engine(common: &Common, pool: &PoolName) -> Options<'static> {
    Options {
        is_brief: true,
        faults: common.command_faults.clone().map(Faults::Once),
        ..Options::new(host_id(common, pool))
    }
}

/// Finds and imports `pool`.
pub fn import(
    engine: &dyn Engine,
    common: &Common,
    pool: &PoolName,
    owner: &PreviousOwner,
    access: Access,
) -> Result<Box<dyn Pool>, Failure> {
    let options = OpenOptions::new(owner.clone(), access);
    import_with_callback(engine, common, pool, &options, |_| Ok(()))
}

/// The purpose of opening a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read-only: nothing is written, not even that it is open.
    ReadOnly,
    /// To change it.
    Change,
}

/// How a pool shall be opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The state of its previous owner.
    pub owner: PreviousOwner,
    /// The protection of its disks against other processes.
    pub claims: Claims,
    /// The purpose.
    pub access: Access,
    /// The handling of late devices.
    pub late: Late,
    /// Devices that an administrator selected, of several with the same identity.
    pub chosen: Vec<PathBuf>,
}

impl OpenOptions {
    /// For a command, which the user can repeat.
    pub fn new(owner: PreviousOwner, access: Access) -> Self {
        Self {
            owner,
            claims: Claims::Auto,
            access,
            late: Late::default(),
            chosen: Vec::new(),
        }
    }
}

/// Like `import`. Calls `ours` with the previous owner's data from the labels between the proof that no other process
/// has the pool and the import, which is the long part. `ours` is not called if only the import itself determines the
/// previous owner.
pub fn import_with_callback(
    engine: &dyn Engine,
    common: &Common,
    pool: &PoolName,
    options: &OpenOptions,
    ours: impl FnOnce(&str) -> Result<(), Failure>,
) -> Result<Box<dyn Pool>, Failure> {
    let word = legs::word(common, pool);
    let import = ImportOptions {
        read_only: options.access == Access::ReadOnly,
        claims: options.claims,
        word: word.clone(),
        ..ImportOptions::default()
    };
    let mut changes = 0;
    loop {
        let (candidate, basis) =
            legs::find(common, pool, &options.late, word.as_ref(), &options.chosen)?;
        let proof = prove(engine, &candidate, &options.owner)?;
        let claimed = match engine.claim(&candidate, proof, &import) {
            Err(error) if error.kind == PoolErrorKind::Changed && changes < CHANGES_MAX => {
                changes += 1;
                tracing::warn!(%pool, "the pool was written by another process: its labels are read again");
                continue;
            }
            claimed => claimed.map_err(operations::pool_failure)?,
        };
        // A read-only import leaves the state of the pool, and so the confirmation for it,
        // unchanged.
        if word.is_some() && !import.read_only {
            legs::consume(common, pool)?;
        }
        if basis != Basis::Labels {
            tracing::warn!(%pool, ?basis, "opened without devices that may be newer");
        }
        if claimed.is_certain() {
            ours(claimed.note().unwrap_or_default())?;
        }
        let opened = claimed.open().map_err(operations::pool_failure)?;
        // A look does not change where the pool is searched.
        if options.access == Access::Change {
            places::note_opened(common, pool, &candidate);
        }
        return Ok(opened);
    }
}

/// Proves that no other process has the pool, by the strongest available method.
pub(crate) fn prove(
    engine: &dyn Engine,
    candidate: &Candidate,
    owner: &PreviousOwner,
) -> Result<SafeToOwn, Failure> {
    if let Some(proof) = SafeToOwn::exported(candidate) {
        return Ok(proof);
    }
    let error = match engine.same_host_and_locked(candidate) {
        Ok(proof) => return Ok(proof),
        Err(error) => error,
    };
    if error.kind != PoolErrorKind::ActiveElsewhere {
        // A living process holds a device: no confirmation overrides that.
        return Err(operations::pool_failure(error)
            .advise("if it is a pool-server of this host, send it the request: check --run-dir"));
    }
    let was_owned_by = |name| candidate.host_name.as_ref() == Some(name);
    let is_requested = match owner {
        PreviousOwner::IsStopped => true,
        PreviousOwner::HostIsStopped(name) | PreviousOwner::HostIsOff(name) => was_owned_by(name),
        PreviousOwner::IsWatched | PreviousOwner::Unknown => false,
    };
    // Storage that refuses the last owner needs no confirmation that it is stopped.
    if let Some(refused) = is_requested
        .then(|| engine.refuse_last_owner(candidate))
        .flatten()
    {
        return refused.map_err(operations::pool_failure);
    }
    let proof = match owner {
        PreviousOwner::IsStopped => Some(SafeToOwn::operator_confirms(candidate)),
        PreviousOwner::HostIsStopped(name) if was_owned_by(name) => {
            Some(SafeToOwn::host_is_stopped(candidate))
        }
        PreviousOwner::HostIsOff(name) if was_owned_by(name) => {
            Some(SafeToOwn::host_is_off(candidate))
        }
        PreviousOwner::IsWatched => SafeToOwn::watched(candidate),
        PreviousOwner::Unknown | PreviousOwner::HostIsStopped(_) | PreviousOwner::HostIsOff(_) => {
            None
        }
    };
    if let Some(proof) = proof {
        return Ok(proof);
    }
    let host = candidate.host_name.as_deref().unwrap_or("an unnamed host");
    let number = candidate.host_id.unwrap_or_default();
    let message = format!(
        "pool {} was not exported by {host} (host id {number:08x}), which may still use it",
        candidate.name
    );
    Err(Failure::new(FailureKind::NeedsConfirmation, message)
        .advise(engines::advice_to_take_over()))
}

/// Exports the pool that this process opened for a command.
pub fn export(mut pool: Box<dyn Pool>) -> Result<(), Failure> {
    let until = Instant::now() + BUSY_WAIT;
    loop {
        let (kept, error) = match pool.export() {
            Ok(()) => return Ok(()),
            Err(failed) => failed,
        };
        // A leg that is being reopened uses the pool for a short time.
        if error.kind != PoolErrorKind::Busy || Instant::now() >= until {
            return Err(Failure::new(FailureKind::Failed, chain(&error))
                .advise("the pool is as safe as after a crash: the next command recovers it"));
        }
        pool = kept;
        std::thread::sleep(BUSY_PAUSE);
    }
}
