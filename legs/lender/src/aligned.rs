//! Memory as disks want it.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Alignment that suits every disk.
const ALIGNMENT: usize = 4096;
/// Smallest memory that is kept for its next use, and how many sizes are, each twice the one before.
const KEPT_BYTES_MIN: usize = 16 << 10;
const KEPT_SIZES: usize = 8;
/// Kept of each size, for all disks together.
const KEPT_MAX: usize = 16;

/// Memory that is not in use, by size. New memory of the system costs a page fault every 4 KiB.
static KEPT: Mutex<[Vec<Vec<u8>>; KEPT_SIZES]> = Mutex::new([const { Vec::new() }; KEPT_SIZES]);

/// Bytes that begin at a multiple of [`ALIGNMENT`].
pub(crate) struct Aligned {
    memory: Vec<u8>,
    range: Range<usize>,
}

fn kept() -> MutexGuard<'static, [Vec<Vec<u8>>; KEPT_SIZES]> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The size with at least `length` bytes; none if it is not kept.
fn size_of(length: usize) -> Option<(usize, usize)> {
    let bytes = length.next_power_of_two().max(KEPT_BYTES_MIN);
    let size = (bytes / KEPT_BYTES_MIN).trailing_zeros() as usize;
    (size < KEPT_SIZES).then_some((size, bytes))
}

impl Aligned {
    /// Zeroes.
    pub(crate) fn new(length: usize) -> Self {
        Self::within(vec![0; length + ALIGNMENT], length)
    }

    /// Any contents, perhaps those of an earlier use: the caller overwrites all of it.
    pub(crate) fn with_any_contents(length: usize) -> Self {
        let Some((size, bytes)) = size_of(length) else {
            return Self::new(length);
        };
        let memory = kept()[size].pop();
        Self::within(memory.unwrap_or_else(|| vec![0; bytes + ALIGNMENT]), length)
    }

    fn within(memory: Vec<u8>, length: usize) -> Self {
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self {
            memory,
            range: start..start + length,
        }
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut aligned = Self::with_any_contents(bytes.len());
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

impl Drop for Aligned {
    fn drop(&mut self) {
        let bytes = self.memory.len().saturating_sub(ALIGNMENT);
        match size_of(bytes) {
            Some((size, whole)) if whole == bytes => {
                let memory = std::mem::take(&mut self.memory);
                let mut kept = kept();
                if kept[size].len() < KEPT_MAX {
                    kept[size].push(memory);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_any_length_is_aligned_and_new_memory_is_zero_after_reuse() {
        for length in [1, 512, 4096, 12 << 10, 16 << 10, 1 << 20, 3 << 20, 5 << 20] {
            drop(Aligned::of(&vec![7; length]));
            let again = Aligned::with_any_contents(length);
            assert_eq!(again.bytes().len(), length);
            assert_eq!(again.bytes().as_ptr().addr() % ALIGNMENT, 0);
            drop(again);
            assert!(Aligned::new(length).bytes().iter().all(|byte| *byte == 0));
        }
    }
}
