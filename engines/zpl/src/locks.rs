//! Locks of objects: a change of one waits for those who read its contents, and no object waits for another.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Objects share so many locks.
const SHARDS: usize = 256;

/// See the module.
pub struct ObjectLocks {
    shards: Box<[RwLock<()>]>,
}

/// Keeps several objects from others.
pub struct Changing<'a> {
    _held: Vec<RwLockWriteGuard<'a, ()>>,
}

impl ObjectLocks {
    pub fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::new(())).collect(),
        }
    }

    fn shard(object: u64) -> usize {
        // Numbers follow each other: neighbours get different locks.
        usize::try_from(object % SHARDS as u64).unwrap_or(0)
    }

    /// For reading contents.
    pub fn read(&self, object: u64) -> RwLockReadGuard<'_, ()> {
        let lock = &self.shards[Self::shard(object)];
        lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For changing all of `objects`.
    pub fn change(&self, objects: &[u64]) -> Changing<'_> {
        let mut shards: Vec<usize> = objects.iter().copied().map(Self::shard).collect();
        // In one order, or two changes could wait for each other.
        shards.sort_unstable();
        shards.dedup();
        let lock = |shard: usize| {
            let lock = &self.shards[shard];
            lock.write().unwrap_or_else(PoisonError::into_inner)
        };
        Changing {
            _held: shards.into_iter().map(lock).collect(),
        }
    }
}
