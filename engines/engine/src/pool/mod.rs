//! Pools: their devices, their state, and their ownership.

mod copies;
mod error;
pub mod legs;
mod ownership;
mod previous_owner;
mod resume_pool;
mod spec;
mod status;

pub use copies::{Conflict, FoundDevice, LeftOut};
pub use error::{PoolError, PoolErrorKind};
pub use ownership::{
    Candidate, CandidateDevice, CandidateDevices, CandidateState, Claims, DiscoverError,
    ImportOptions, Previous, SafeToOwn,
};
pub use previous_owner::PreviousOwner;
pub use resume_pool::{Restart, Resumption};
pub use spec::{
    GroupKind, GroupRole, GroupSpec, PoolProperty, PoolSpec, ReadBalancing, ScrubCommand,
    TrimCommand,
};
pub use status::{
    DedupStatus, DeviceState, DeviceStatus, FeatureStatus, Load, MoveState, MoveStatus, PoolHealth,
    PoolStatus, Role, ScanKind, ScanState, ScanStatus, Suspension, Unrecorded,
};
