//! Locks of objects: a change of an object blocks on readers of its contents, independently of other objects.
//!
//! Contents can also be lent: a change blocks until the loan is dropped, by any thread. The holder of a loan must not
//! change or read an object before that.

use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

/// Number of locks that objects share.
const SHARDS: usize = 256;

/// See the module.
pub struct ObjectLocks {
    shards: Box<[Shard]>,
}

#[derive(Default)]
struct Shard {
    lock: RwLock<()>,
    /// Loans of contents. None is added while `lock` is held for a change.
    lent: Mutex<u32>,
    given_back: Condvar,
}

/// Protects an object from changes while its contents are lent.
pub struct Lending {
    locks: Arc<ObjectLocks>,
    shard: usize,
}

/// Locks several objects exclusively.
pub struct Changing<'a> {
    _held: Vec<RwLockWriteGuard<'a, ()>>,
}

impl ObjectLocks {
    pub fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    fn shard(object: u64) -> usize {
        // Numbers follow each other: adjacent ones get different locks.
        usize::try_from(object % SHARDS as u64).unwrap_or(0)
    }

    /// For reading contents.
    pub fn read(&self, object: u64) -> RwLockReadGuard<'_, ()> {
        let shard = &self.shards[Self::shard(object)];
        shard.lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For lending contents, by a holder of the read lock.
    pub fn lend(self: &Arc<Self>, object: u64, _reading: &RwLockReadGuard<'_, ()>) -> Lending {
        let shard = Self::shard(object);
        *self.shards[shard].lent() += 1;
        Lending {
            locks: Arc::clone(self),
            shard,
        }
    }

    /// For changing all of `objects`.
    pub fn change(&self, objects: &[u64]) -> Changing<'_> {
        let mut shards: Vec<usize> = objects.iter().copied().map(Self::shard).collect();
        // In one order, to prevent a deadlock of two changes.
        shards.sort_unstable();
        shards.dedup();
        let lock = |shard: usize| {
            let shard = &self.shards[shard];
            let held = shard.lock.write().unwrap_or_else(PoisonError::into_inner);
            shard.wait_for_loans();
            held
        };
        Changing {
            _held: shards.into_iter().map(lock).collect(),
        }
    }
}

impl Shard {
    fn lent(&self) -> MutexGuard<'_, u32> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_loans(&self) {
        let waited = self.given_back.wait_while(self.lent(), |lent| *lent > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Lending {
    fn drop(&mut self) {
        let shard = &self.locks.shards[self.shard];
        let mut lent = shard.lent();
        *lent -= 1;
        if *lent == 0 {
            shard.given_back.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn change_blocks_until_all_loans_are_returned() {
        let locks = Arc::new(ObjectLocks::new());
        let lending = [7, 7].map(|object| locks.lend(object, &locks.read(object)));
        drop(locks.change(&[8]));
        let is_changed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _changing = locks.change(&[7, 8]);
                is_changed.store(true, Ordering::SeqCst);
            });
            for one in lending {
                assert!(!is_changed.load(Ordering::SeqCst));
                drop(one);
            }
        });
        assert!(is_changed.load(Ordering::SeqCst));
        drop(locks.change(&[7]));
    }
}
