//! What the agent of the cluster reads and writes of a pool with legs on this head. Its disks do not tell who owned it.

/// Who owned a pool last, as far as this head remembers. The pool may have a newer record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastOwner {
    /// This head remembers nothing of the pool.
    Unknown,
    /// The pool was exported.
    Exported,
    /// The head of that number.
    Head(u64),
}

/// A fence of the other head would be a vote for the record. Pool servers of two heads without a witness ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceRequest {
    /// Of this request.
    pub number: u64,
    /// The head to be fenced.
    pub head: String,
    /// The head does not answer.
    pub is_missed: bool,
}

/// Files that processes of one host exchange. `record`: the number of the pool's record.
pub trait LegFiles {
    /// Who owned the pool last.
    fn last_owner(&self, record: u64) -> LastOwner;

    /// The fence that the pool's server waits for.
    fn requested_fence(&self, record: u64) -> Option<FenceRequest>;

    /// The head of the request of that number was fenced after it was made.
    ///
    /// # Errors
    ///
    /// The system failed, with the reason.
    fn confirm_fence(&self, record: u64, number: u64) -> Result<(), String>;
}
