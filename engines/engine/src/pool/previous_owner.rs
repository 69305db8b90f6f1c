//! What is known of the process that owned a pool before.

/// Whether the administrator vouches for the previous owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreviousOwner {
    /// Nothing was said: a proof is needed.
    Unknown,
    /// It is stopped, says the administrator.
    IsStopped,
    /// The host of this name is stopped, and only if it was the owner is the pool free. Proof that
    /// was found for one owner does not serve for another that came in between.
    HostIsStopped(String),
    /// The host of this name was powered off, with the same restriction.
    HostIsOff(String),
    /// Nothing is certain: the import waits for signs of life, which a pool with `multihost=on`
    /// makes possible.
    IsWatched,
}
