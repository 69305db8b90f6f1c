//! The files of a pool with legs that the agent of the cluster reads and writes on this head. The pool's disks do not
//! show the owner.

use std::path::Path;

/// The last owner of a pool, by the record that this head has. The pool may have a newer record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastOwner {
    /// This head has no record of the pool.
    Unknown,
    /// The pool was exported.
    Exported,
    /// The head of that number.
    Head(u64),
}

/// A request to fence the other head, which would be a vote for the record. Pool servers of two heads without a witness
/// request it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceRequest {
    /// Number of this request.
    pub number: u64,
    /// The head to be fenced.
    pub head: String,
    /// The head does not respond.
    pub is_missed: bool,
}

/// A request of this head to power a second head off.
pub struct PowerOff<'a> {
    /// The configuration of legs.
    pub config: &'a Path,
    /// Name of the head to be powered off.
    pub head: &'a str,
    /// All heads reach the disks of some pools, so this head can open those without the witness.
    pub has_shared_pools: bool,
    /// Whether the cluster sees that head.
    pub is_member: &'a dyn Fn() -> bool,
}

/// Files that processes of one host exchange. `record`: the number of the pool's record.
pub trait LegFiles {
    /// The last owner of the pool.
    fn last_owner(&self, record: u64) -> LastOwner;

    /// The pending fence request of the pool's server.
    fn requested_fence(&self, record: u64) -> Option<FenceRequest>;

    /// Reports that the head of the request of that number was fenced after the request.
    ///
    /// # Errors
    ///
    /// An I/O error, as text.
    fn confirm_fence(&self, record: u64, number: u64) -> Result<(), String>;

    /// Whether this head should power a second head off, with the reason. Blocks for at most 35 s.
    ///
    /// # Errors
    ///
    /// It should not, with the reason: that head is alive at the witness, and this one cannot open its pools.
    fn may_power_off(&self, request: &PowerOff<'_>) -> Result<String, String>;
}
