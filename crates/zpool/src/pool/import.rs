//! Opens a pool that was found, given proof that nobody else has it.

use units::PoolName;
use zpool_sys as sys;

use super::discover::Candidate;
use super::label::LabelState;
use super::{Pool, c_text};
use crate::device::{self, OpenFailure};
use crate::engine::Engine;
use crate::error::{PoolError, PoolErrorKind, ZfsError, errno};
use crate::nvlist::NvList;

/// Proof that the previous owner of one pool has stopped. Without it a pool cannot be opened: two
/// owners destroy it.
#[derive(Debug)]
pub struct SafeToOwn {
    pool_guid: u64,
    /// Locks taken as part of the proof, kept until the library holds its own.
    claims: Vec<device::Claim>,
}

impl SafeToOwn {
    /// The pool was exported: its owner let go of it in good order.
    pub fn exported(candidate: &Candidate) -> Option<Self> {
        (candidate.state == LabelState::Exported).then(|| Self::of(candidate))
    }

    /// The pool was last used by this host, and every device's lock could be taken, so that the
    /// process that used it is gone.
    pub fn same_host_and_locked(engine: &Engine, candidate: &Candidate) -> Result<Self, PoolError> {
        const DOING: &str = "claim";
        if candidate.host_id != Some(engine.host_id().0.get()) {
            let kind = PoolErrorKind::ActiveElsewhere;
            return Err(PoolError::new(DOING, &candidate.name, kind));
        }
        let mut proof = Self::of(candidate);
        for device in candidate.devices.iter().filter(|device| device.present) {
            let claim = device::claim(&device.path).map_err(|failure| {
                let kind = unusable(&device.path, failure);
                PoolError::new(DOING, &candidate.name, kind)
            })?;
            proof.claims.push(claim);
        }
        Ok(proof)
    }

    /// A person (or a confirmed fence) vouches for it. A pool with `multihost=on` is still
    /// watched for another host's writes before it is opened.
    pub fn operator_confirms(candidate: &Candidate) -> Self {
        Self::of(candidate)
    }

    fn of(candidate: &Candidate) -> Self {
        Self {
            pool_guid: candidate.guid,
            claims: Vec::new(),
        }
    }
}

/// How to open a pool.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Write nothing, not even that it is open.
    pub read_only: bool,
    /// Open it although a log device is missing, and lose what only that held.
    pub without_log: bool,
    /// Under another name, from now on.
    pub rename: Option<PoolName>,
}

/// What a device that cannot be opened means for the user.
pub(super) fn unusable(path: &std::path::Path, failure: OpenFailure) -> PoolErrorKind {
    let path = path.to_owned();
    match failure {
        OpenFailure::Missing => PoolErrorKind::DeviceMissing { path },
        OpenFailure::InUse { by } => PoolErrorKind::DeviceInUse { path, by },
        other => PoolErrorKind::DeviceUnusable {
            path,
            why: other.to_string(),
        },
    }
}

const DOING: &str = "import";

impl Pool {
    /// Opens the pool of `candidate`. Takes from 50 ms to some seconds, the longer the more its
    /// intent logs hold.
    ///
    /// # Panics
    /// If the proof is about another pool.
    pub fn import(
        engine: &'static Engine,
        candidate: &Candidate,
        proof: SafeToOwn,
        options: &ImportOptions,
    ) -> Result<Self, PoolError> {
        assert_eq!(proof.pool_guid, candidate.guid, "proof about another pool");
        let name = match &options.rename {
            Some(name) => name.clone(),
            None => name_of(candidate)?,
        };
        refuse_foreign_locks(candidate)?;

        let config = candidate.config.clone();
        let aux_paths = candidate.aux_paths();
        let mut properties = NvList::new();
        if options.read_only {
            properties.set_u64("readonly", 1);
        }
        let flags = if options.without_log {
            sys::BH_IMPORT_MISSING_LOG
        } else {
            0
        };
        let c_name = c_text(name.as_str());
        // SAFETY: the library runs; name and lists live for the call. It adds what it learns to
        // `config`, which is ours alone.
        let code = unsafe {
            sys::bh_pool_import(
                c_name.as_ptr(),
                config.as_raw(),
                properties.as_raw(),
                aux_paths.as_raw(),
                flags,
            )
        };
        ZfsError::check(code).map_err(|cause| explain(candidate, &config, cause))?;
        drop(proof);
        Self::opened(engine, &name, DOING)
    }
}

fn name_of(candidate: &Candidate) -> Result<PoolName, PoolError> {
    candidate.name.parse().map_err(|_| {
        let why = "its name is none that this program accepts: import it under another".into();
        PoolError::new(DOING, &candidate.name, PoolErrorKind::Shape { why })
    })
}

/// A device locked by another process would merely count as missing, and a mirror be opened
/// without it while that process writes to it.
fn refuse_foreign_locks(candidate: &Candidate) -> Result<(), PoolError> {
    for device in candidate.devices.iter().filter(|device| device.present) {
        if let Err(failure @ OpenFailure::InUse { .. }) = device::claim(&device.path) {
            let kind = unusable(&device.path, failure);
            return Err(PoolError::new(DOING, &candidate.name, kind));
        }
    }
    Ok(())
}

/// What the library has learnt while it failed is in the configuration.
fn explain(candidate: &Candidate, config: &NvList, cause: ZfsError) -> PoolError {
    use rustix::io::Errno;
    let info = config.view().list("load_info");
    let missing: Vec<String> = candidate
        .devices
        .iter()
        .filter(|device| !device.present)
        .map(|device| device.path.display().to_string())
        .collect();
    let unknown: Vec<String> = info
        .and_then(|info| info.list("unsup_feat"))
        .map(|list| list.entries().into_iter().map(|(name, _)| name).collect())
        .unwrap_or_default();
    let log_missing = info
        .and_then(|info| info.list("missing_vdevs"))
        .is_some_and(|tree| tree.lists("children").iter().any(is_log));
    let kind = match errno(cause.0) {
        Errno::NOTSUP if !unknown.is_empty() => PoolErrorKind::FeatureUnknown {
            features: unknown.join(", "),
        },
        Errno::REMOTEIO => PoolErrorKind::ActiveElsewhere,
        Errno::NXIO | Errno::NOENT if log_missing => PoolErrorKind::LogMissing,
        Errno::NXIO | Errno::NOENT | Errno::OVERFLOW => PoolErrorKind::DevicesMissing {
            missing: if missing.is_empty() {
                "the labels do not tell which".to_owned()
            } else {
                missing.join(", ")
            },
        },
        Errno::IO => PoolErrorKind::Damaged,
        _ => return PoolError::common(DOING, &candidate.name, cause),
    };
    PoolError::because(DOING, &candidate.name, kind, cause)
}

fn is_log(vdev: &crate::nvlist::NvRef<'_>) -> bool {
    vdev.u64("is_log") == Some(1)
}
