//! The contents of a volume at one time. Images share common blocks, like a snapshot and its volume.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use block_device::{Extent, StatusRun};

/// Contents of a volume or snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    /// Bytes.
    pub(crate) size: u64,
    /// Bytes of a block.
    pub(crate) block_size: u64,
    /// The written blocks, by their numbers.
    pub(crate) blocks: BTreeMap<u64, Arc<[u8]>>,
}

impl Image {
    /// Zeroes.
    pub(crate) fn new(size: u64, block_size: u64) -> Self {
        Self {
            size,
            block_size,
            blocks: BTreeMap::new(),
        }
    }

    /// The parts of `extent` by block: number, range in the block, range in the extent.
    fn parts(
        &self,
        extent: Extent,
    ) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> + use<> {
        let block_size = self.block_size;
        let mut done = 0;
        std::iter::from_fn(move || {
            if done == extent.length {
                return None;
            }
            let at = extent.offset + done;
            let within = at % block_size;
            let count = (block_size - within).min(extent.length - done);
            let inside = within as usize..(within + count) as usize;
            let outside = done as usize..(done + count) as usize;
            done += count;
            Some((at / block_size, inside, outside))
        })
    }

    /// Copies `extent`.
    pub(crate) fn read(&self, extent: Extent) -> Vec<u8> {
        let mut bytes = vec![0; extent.length as usize];
        for (number, inside, outside) in self.parts(extent) {
            if let Some(block) = self.blocks.get(&number) {
                bytes[outside].copy_from_slice(&block[inside]);
            }
        }
        bytes
    }

    /// Writes `data` at `offset`.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let extent = Extent::new(offset, data.len() as u64);
        for (number, inside, outside) in self.parts(extent) {
            self.block(number)[inside].copy_from_slice(&data[outside]);
        }
    }

    /// Returns a block for modification, which is then no longer shared.
    fn block(&mut self, number: u64) -> &mut [u8] {
        let fresh = || vec![0; self.block_size as usize].into();
        let block = self.blocks.entry(number).or_insert_with(fresh);
        if Arc::get_mut(block).is_none() {
            *block = Arc::from(&block[..]);
        }
        Arc::get_mut(block).expect("just made")
    }

    /// Bytes of blocks that writing `extent` would add.
    pub(crate) fn growth(&self, extent: Extent) -> u64 {
        let is_new = |number: &u64| match self.blocks.get(number) {
            Some(block) => Arc::strong_count(block) > 1,
            None => true,
        };
        let numbers = self.parts(extent).map(|(number, ..)| number);
        numbers.filter(is_new).count() as u64 * self.block_size
    }

    /// Frees whole blocks of `extent` and zeroes its edges.
    pub(crate) fn free(&mut self, extent: Extent) {
        for (number, inside, _) in self.parts(extent) {
            if inside.len() as u64 == self.block_size {
                self.blocks.remove(&number);
            } else if self.blocks.contains_key(&number) {
                self.block(number)[inside].fill(0);
            }
        }
    }

    /// Changes the size. Data beyond a smaller size is lost.
    pub(crate) fn resize(&mut self, size: u64) {
        if let Some(lost) = self.size.checked_sub(size) {
            self.free(Extent::new(size, lost));
        }
        self.size = size;
    }

    /// The states of `extent`, at most `runs_max` runs.
    pub(crate) fn status(&self, extent: Extent, runs_max: usize) -> Vec<StatusRun> {
        let mut runs: Vec<StatusRun> = Vec::new();
        for (number, inside, _) in self.parts(extent) {
            let (allocated, length) = (self.blocks.contains_key(&number), inside.len() as u64);
            match runs.last_mut() {
                Some(last) if last.allocated == allocated => last.length += length,
                _ => runs.push(StatusRun { length, allocated }),
            }
        }
        runs.truncate(runs_max);
        runs
    }

    /// Bytes of its blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.len() as u64 * self.block_size
    }

    /// Whether it has this block.
    pub(crate) fn has(&self, number: u64, block: &Arc<[u8]>) -> bool {
        let own = self.blocks.get(&number);
        own.is_some_and(|own| Arc::ptr_eq(own, block))
    }

    /// Bytes of its blocks that none of `others` has.
    pub(crate) fn exclusive_bytes<'a>(
        &self,
        others: impl Iterator<Item = &'a Image> + Clone,
    ) -> u64 {
        let is_own = |(number, block): &(&u64, &Arc<[u8]>)| {
            !others.clone().any(|other| other.has(**number, block))
        };
        self.blocks.iter().filter(is_own).count() as u64 * self.block_size
    }

    /// Whether it holds the same blocks as `other`.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.size == other.size
            && self.blocks.len() == other.blocks.len()
            && self
                .blocks
                .iter()
                .all(|(number, block)| other.has(*number, block))
    }
}
