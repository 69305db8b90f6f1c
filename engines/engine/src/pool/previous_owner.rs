//! The state of the previous owner of a pool.

/// Whether the administrator vouches for the previous owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreviousOwner {
    /// Not specified: a proof is needed.
    Unknown,
    /// It is stopped, as the administrator confirms.
    IsStopped,
    /// The host of this name is stopped, and only if it was the owner is the pool free. Proof that
    /// was found for one owner does not serve for another that came in between.
    HostIsStopped(String),
    /// The host of this name was powered off, with the same restriction.
    HostIsOff(String),
    /// There is no proof: the import checks for heartbeats, which requires a pool with
    /// `multihost=on`.
    IsWatched,
}
