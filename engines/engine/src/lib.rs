//! The seam between the storage appliance and what keeps its data: what pools, datasets, volumes, keys and streams are,
//! and the [capabilities](crate::capabilities) that an engine has. No engine is named here.

#![forbid(unsafe_code)]

pub mod capabilities;
pub mod dataset;
pub mod error;
pub mod files;
pub mod gate;
pub mod keys;
pub mod pool;
pub mod transfer;
pub mod volume;

pub use capabilities::{Capability, Claimed, Engine, Optional, Pool, Unsupported};
pub use files::OpenFileSystem;
pub use labels::{HostId, host_name};
pub use volume::{Paused, Volume};
