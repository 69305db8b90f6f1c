//! Additional volumes, each exported for every kind of client that uses volumes: to measure by how much many volumes
//! delay a takeover.

use std::sync::atomic::{AtomicU32, Ordering};

use units::PoolName;

use crate::error::DrillError;
use crate::kinds::{self, Exported, Store};

/// Most of them: an iSCSI target has room for some more.
pub const MORE_VOLUMES_MAX: u32 = 10_000;
/// Created concurrently: each creation needs a transaction group, which several can share.
const AT_A_TIME: usize = 8;
/// How large each is, at most; none has contents.
const SIZE: &str = "32M";

/// Creates `count` volumes in `pool` and exports them to clients of every kind that uses volumes. `run` runs `bulkhead` with
/// these arguments on the head that serves the pool.
///
/// # Errors
///
/// A volume cannot be created or exported.
pub fn create(
    pool: &PoolName,
    count: u32,
    run: impl Fn(&[&str]) -> Result<(), DrillError> + Sync,
) -> Result<(), DrillError> {
    let next = AtomicU32::new(1);
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number > count {
            return Ok(());
        }
        let exported = Exported {
            pool,
            name: &format!("drill-more-{number}"),
            number,
        };
        let exports = kinds::ALL.iter().filter_map(|kind| match kind.store {
            Store::Volume { export } => Some(export(&exported)),
            Store::FileSystem { .. } => None,
        });
        for words in [kinds::create_volume(&exported, SIZE)]
            .into_iter()
            .chain(exports)
        {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            run(&words)?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect();
        let ends = workers
            .into_iter()
            .map(|worker| worker.join().expect("no worker panics"));
        ends.collect()
    })
}
