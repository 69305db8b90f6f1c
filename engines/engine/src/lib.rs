//! The seam between the storage appliance and what keeps its data: what pools, datasets, volumes, keys and streams are,
//! and the [capabilities](crate::capabilities) that an engine has. No engine is named here.

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

pub use capabilities::{Claimed, Engine, Optional, Pool};
pub use files::OpenFileSystem;
pub use opaque::Opaque;
pub use units::{HostId, host_name};
pub use unsupported::{Capability, Unsupported};
pub use volume::{Paused, Volume};
