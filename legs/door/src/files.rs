//! The files of a pool with legs that the agent of the cluster reads and writes on this head. The pool's disks do not
//! show the owner.

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
}
