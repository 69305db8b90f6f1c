//! Pools and volumes of real OpenZFS, in this process: a safe layer over the packaged library.
//!
//! * [`Engine`] is the library itself, started once.
//! * [`Pool`] is an open pool; [`PoolSpec`] describes one to be made.
//! * Datasets, volumes and their I/O are in [`dataset`] and [`volume`].
//! * Its file systems are in [`files`]; the crate `zpl` implements files on their objects.
//! * [`keys`] are those of encrypted datasets, [`crypto`] is their cipher.
//! * [`device`] is the driver through which the library reaches disks.
//!
//! All functions that block are documented as such; none may be called from an asynchronous
//! executor's thread.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod core_dump;
pub mod crypto;
pub mod dataset;
pub mod device;
mod error;
pub mod files;
pub mod keys;
mod library;
mod nameless;
mod nvlist;
mod parts;
pub mod pool;
mod runtime;
mod seam;
mod snapshots;
pub mod transfer;
pub mod volume;

pub use ::engine::error::SystemError;
pub use error::EngineError;
pub use library::described as library;
pub use nvlist::{NvList, NvRef, NvValue};
pub use pool::{Pool, discover};
pub use runtime::{Engine, EngineOptions};

/// The name of the engine in messages.
pub const NAME: &str = "OpenZFS";
pub use units::{HostId, host_name};
pub use volume::Volume;
