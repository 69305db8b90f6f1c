//! The state of the previous owner of a pool.

/// Whether the administrator vouches for the previous owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreviousOwner {
    /// Not specified: a proof is needed.
    Unknown,
    /// It is stopped, as the administrator confirms.
    IsStopped,
    /// The host of this name is stopped; the pool is free only if it was the owner. The proof for
    /// one owner is not valid for a later owner.
    HostIsStopped(String),
    /// The host of this name was powered off, with the same restriction.
    HostIsOff(String),
    /// There is no proof: the import checks for heartbeats, which requires a pool with
    /// `multihost=on`.
    IsWatched,
}
