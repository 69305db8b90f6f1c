//! The door of the wing for legs: all that the rest of the program knows of pools whose legs lie on several heads.
//!
//! * [`Legs`]: entry. Reads the configuration, and answers questions about pools that are not open here.
//! * [`LegPool`]: one pool of it. Creates the pool, puts it on record, opens it.
//! * [`OwnedLegs`], [`LegControl`]: its legs while this process owns it: shown, and changed on request. That a leg which failed is excluded
//!   happens behind the door, before the engine sees an error of it.
//! * [`LegFiles`]: what the agent on the same head reads and writes.
//!
//! The crate that starts engines implements it by `leg-admin` (`services/pool-access/src/engines/`); the program passes [`LegFiles`] to the
//! agent. What goes through are requests, answers and failures of `control`, which crate `engine` does not know: so this crate is above both.

#![forbid(unsafe_code)]

mod files;
mod pool;
mod request;
mod status;

pub use files::{FenceRequest, LastOwner, LegFiles};
pub use pool::{
    Claim, Configuration, Held, Inspection, LegControl, LegPool, Legs, NewRecord, Opened, OwnedLegs,
};
pub use request::{LegRequest, MemberRequest};
pub use status::LegStatus;

use std::path::PathBuf;

/// The configuration of legs, where no other one is named.
pub const DEFAULT_PATH: &str = "/etc/bulkhead/legs.toml";

/// Directories of this host.
#[derive(Clone, Debug)]
pub struct Directories {
    /// What ends with the processes: names of legs as devices.
    pub run: PathBuf,
    /// What outlives them: the records.
    pub state: PathBuf,
}
