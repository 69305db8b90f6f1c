//! The interface to the crates for legs: pools with legs on several heads.
//!
//! * [`Legs`]: entry point. Reads the configuration, and serves requests about pools that are not open here.
//! * [`LegPool`]: one pool of it. Creates the pool, puts it on record, opens it.
//! * [`OwnedLegs`], [`LegControl`]: its legs while this process owns it: their state, and changes on request. The
//!   exclusion of a failed leg happens behind this interface, before the engine receives an error of it.
//! * [`LegFiles`]: the files that the agent on the same head reads and writes.
//!
//! The crate that starts the engine registers `leg-admin`, which implements it (`services/zfs-start`); the binary passes
//! [`LegFiles`] to the agent. The interface uses requests, responses and failures of `control`. Crate `engine` does not
//! depend on `control`, so this crate is above both.

#![forbid(unsafe_code)]

mod files;
mod pool;
mod request;
mod status;

pub use files::{FenceRequest, LastOwner, LegFiles, PowerOff};
pub use pool::{
    Claim, Configuration, Held, Inspection, LegControl, LegPool, Legs, NewRecord, Opened, OwnedLegs,
};
pub use request::{LegRequest, MemberRequest};
pub use status::LegStatus;

use std::path::PathBuf;

/// Default path of the configuration of legs.
pub const DEFAULT_PATH: &str = "/etc/bulkhead/legs.toml";

/// Directories of this host.
#[derive(Clone, Debug)]
pub struct Directories {
    /// Files that are valid while the processes run: names of legs as devices.
    pub run: PathBuf,
    /// Files that are valid across restarts: the records.
    pub state: PathBuf,
}
