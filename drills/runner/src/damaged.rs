//! Blocks of a volume that a round damages.

/// How blocks are damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Reads fail with `EIO`.
    ReadErrors,
    /// The contents do not have their checksum.
    WrongChecksums,
    /// The same, and a scrub finds them first.
    Scrub,
}

/// The blocks of a round.
pub struct Damage {
    pub how: How,
    /// Of all blocks.
    pub contents: Vec<u8>,
    /// The numbers of the damaged ones, in ascending order.
    pub damaged: Vec<usize>,
    /// The process that serves the pool.
    pub server: Option<i32>,
}
