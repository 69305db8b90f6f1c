//! The interface between the storage appliance and its storage engines: the types of pools, datasets, volumes, keys and
//! streams, and the [capabilities](crate::capabilities) of an engine. No engine is named here.

#![forbid(unsafe_code)]

pub mod capabilities;
pub mod dataset;
pub mod error;
pub mod files;
pub mod gate;
pub mod keys;
mod opaque;
pub mod pool;
pub mod transfer;
mod unsupported;
pub mod volume;

pub use capabilities::{Claimed, Engine, HistoryRecord, Optional, Pool};
pub use files::OpenFileSystem;
pub use opaque::Opaque;
pub use units::{HostId, host_name};
pub use unsupported::{Capability, Unsupported};
pub use volume::{Paused, Volume};
