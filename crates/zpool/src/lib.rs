//! Pools and volumes of real OpenZFS, in this process: a safe layer over the packaged library.
//!
//! * [`Engine`] is the library itself, started once.
//! * [`Pool`] is an open pool; [`PoolSpec`] describes one to be made.
//! * Datasets, volumes and their I/O are in [`dataset`] and [`volume`].
//! * [`keys`] are those of encrypted datasets, [`crypto`] is what encrypts them.
//! * [`device`] is the driver through which the library reaches disks.
//!
//! All functions that take time say so in their names or documentation; none may be called from
//! an asynchronous executor's thread.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod crypto;
pub mod dataset;
pub mod device;
mod engine;
mod error;
pub mod keys;
mod library;
mod nvlist;
pub mod pool;
pub mod transfer;
pub mod volume;

pub use dataset::{DatasetError, DatasetErrorKind, DatasetInfo, DatasetKind, VolumeSpec};
pub use engine::{Engine, EngineOptions};
pub use error::{EngineError, PoolError, PoolErrorKind, ZfsError};
pub use labels::{HostId, host_name};
pub use nvlist::{NvList, NvRef, NvValue};
pub use pool::{
    Candidate, GroupKind, GroupRole, GroupSpec, ImportOptions, Pool, PoolSpec, PoolStatus,
    SafeToOwn, discover,
};
pub use volume::{OpenOptions, Volume};
