//! Digests of states and messages: fast, and the same in every run.

use std::hash::{BuildHasher, Hash};

/// A hasher that is fast and the same in every run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mix(u64);

impl std::hash::Hasher for Mix {
    fn finish(&self) -> u64 {
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mixing;

impl BuildHasher for Mixing {
    type Hasher = Mix;

    fn build_hasher(&self) -> Mix {
        Mix(0x1234_5678)
    }
}

pub(super) fn digest(value: &impl Hash) -> u64 {
    Mixing.hash_one(value)
}
