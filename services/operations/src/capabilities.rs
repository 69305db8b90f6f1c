//! The optional engine capabilities that each operation requires. A request for a missing capability is refused before
//! it starts, with the same error kind and message for all operations.

use control::request::{
    FilesystemRequest, KeyRequest, PoolRequest, ReplicateRequest, SnapshotRequest, TransferRequest,
    VolumeRequest,
};
use control::{Failure, FailureKind, Request};
use engine::keys::KeyInfo;
use engine::transfer::Bookmark;
use engine::{Capability, Pool, Unsupported};
use units::VolumeName;

use crate::{dataset_failure, transfer};

/// The capability, or the failure of an engine that does not have it.
pub fn needs<T>(capability: Result<T, Unsupported>) -> Result<T, Failure> {
    capability.map_err(failure)
}

/// The failure of every operation that the engine has no capability for.
pub(crate) fn failure(missing: Unsupported) -> Failure {
    let Unsupported {
        pool,
        engine,
        capability,
    } = missing;
    let message = format!(
        "pool {pool} is kept by {engine}, which has no {}",
        capability.noun()
    );
    Failure::new(FailureKind::Unsupported, message).advise(capability.instead())
}

/// Refuses `request` if the pool's engine does not have the capability that it requires.
pub(crate) fn refuse(pool: &dyn Pool, request: &Request) -> Result<(), Failure> {
    match demanded(request) {
        Some(capability) if !pool.has(capability) => {
            Err(failure(pool.unsupported_error(capability)))
        }
        _ => Ok(()),
    }
}

/// Returns the capability that `request` requires. Each operation has a line here.
pub fn demanded(request: &Request) -> Option<Capability> {
    use {
        FilesystemRequest as Files, KeyRequest as Key, PoolRequest as OfPool,
        ReplicateRequest as Replicate, SnapshotRequest as Snapshot, TransferRequest as Transfer,
        VolumeRequest as Volume,
    };
    match request {
        Request::Pool(request) => match request {
            OfPool::Status | OfPool::Iostat | OfPool::Export => None,
            OfPool::Close(_) | OfPool::Destroy(_) | OfPool::LogLevel(_) => None,
            OfPool::Events(_) | OfPool::History(_) => Some(Capability::History),
            OfPool::Clear(_) | OfPool::CopyRate(_) => Some(Capability::Upkeep),
            OfPool::Scrub(_) | OfPool::ScrubSchedule(_) => Some(Capability::Upkeep),
            OfPool::ReadBalancing(_) => Some(Capability::Upkeep),
            OfPool::Add(_) | OfPool::Remove(_) | OfPool::Attach(_) | OfPool::Detach(_) => {
                Some(Capability::Devices)
            }
            OfPool::Replace(_) | OfPool::ReplaceDisk(_) | OfPool::Plan(_) => {
                Some(Capability::Devices)
            }
            OfPool::Online(_) | OfPool::Offline(_) => Some(Capability::Devices),
            OfPool::DiscardLeg(_) | OfPool::SetWitness(_) | OfPool::AddHead(_) => {
                Some(Capability::Devices)
            }
            OfPool::Get(_) | OfPool::Set(_) => Some(Capability::PoolProperties),
        },
        Request::Volume(request) => match request {
            Volume::Create(_) | Volume::Show(_) | Volume::List(_) | Volume::Space(_) => None,
            Volume::Resize(_) | Volume::Rename(_) | Volume::Destroy(_) => None,
            Volume::Rollback(_) | Volume::Freeze(_) | Volume::Thaw(_) => None,
            Volume::Get(_) | Volume::Set(_) | Volume::Inherit(_) | Volume::Rescue(_) => None,
            Volume::Promote(_) => Some(Capability::Promotion),
            Volume::DiscardLog(_) => Some(Capability::IntentLogs),
        },
        Request::Filesystem(request) => match request {
            Files::Promote(_) => Some(Capability::Promotion),
            Files::Create(_) | Files::Show(_) | Files::List(_) | Files::Destroy(_) => {
                Some(Capability::FileSystems)
            }
            Files::Rename(_) | Files::Rollback(_) | Files::Check(_) => {
                Some(Capability::FileSystems)
            }
            Files::Get(_) | Files::Set(_) | Files::Inherit(_) => Some(Capability::FileSystems),
            Files::Userspace(_) | Files::OpenFiles(_) | Files::ExpireClient(_) => {
                Some(Capability::FileSystems)
            }
        },
        Request::Key(request) => match request {
            Key::Create(_) | Key::Load(_) | Key::LoadAll | Key::Unload(_) => Some(Capability::Keys),
            Key::Change(_) | Key::Inherit(_) | Key::Status(_) => Some(Capability::Keys),
        },
        Request::Snapshot(request) => match request {
            Snapshot::Create(_) | Snapshot::List(_) | Snapshot::Rename(_) => None,
            Snapshot::Destroy(_) | Snapshot::Clone(_) | Snapshot::Schedule(_) => None,
            Snapshot::Hold(_) | Snapshot::Release(_) | Snapshot::Holds(_) => None,
            Snapshot::Diff(_) => None,
            Snapshot::Bookmarks(_) | Snapshot::DestroyBookmark(_) => Some(Capability::Sending),
        },
        Request::Transfer(request) => match request {
            Transfer::Send(_) | Transfer::Bookmark(_) => Some(Capability::Sending),
            Transfer::Receive(_) | Transfer::Interrupted(_) | Transfer::Abort(_) => {
                Some(Capability::Receiving)
            }
        },
        Request::Replicate(request) => match request {
            Replicate::Set(_) | Replicate::Remove(_) | Replicate::Run(_) => {
                Some(Capability::Sending)
            }
            Replicate::Accept(_) | Replicate::Revoke(_) | Replicate::Promote(_) => {
                Some(Capability::Receiving)
            }
            Replicate::Identity | Replicate::RotateKey | Replicate::List => None,
        },
        Request::Status | Request::Target(_) | Request::Nbd(_) => None,
        Request::Portal(_) | Request::Server(_) => None,
    }
}

/// The bookmarks of `volume`, in order of their names; none where the engine has none.
pub(crate) fn bookmarks(pool: &dyn Pool, volume: &VolumeName) -> Result<Vec<Bookmark>, Failure> {
    let sending = pool.sending();
    let found = sending.map_or(Ok(Vec::new()), |sending| sending.bookmarks(volume));
    found.map_err(transfer::failure)
}

/// All encrypted datasets, parents first; none where the engine encrypts nothing.
pub fn encrypted_datasets(pool: &dyn Pool) -> Result<Vec<KeyInfo>, Failure> {
    let keys = pool.keys();
    let found = keys.map_or(Ok(Vec::new()), |keys| keys.encrypted_datasets());
    found.map_err(dataset_failure)
}
