//! Memory as disks want it.

use std::ops::Range;

/// Alignment that suits every disk.
const ALIGNMENT: usize = 4096;

/// Bytes that begin at a multiple of [`ALIGNMENT`].
pub(crate) struct Aligned {
    memory: Vec<u8>,
    range: Range<usize>,
}

impl Aligned {
    /// Zeroes.
    pub(crate) fn new(length: usize) -> Self {
        let memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self {
            memory,
            range: start..start + length,
        }
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut aligned = Self::new(bytes.len());
        aligned.bytes_mut().copy_from_slice(bytes);
        aligned
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.range.clone()]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.range.clone()]
    }
}
