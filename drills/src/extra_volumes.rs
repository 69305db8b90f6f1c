//! Volumes beside those of the clients, each offered to clients of every kind that uses volumes: what a takeover of many volumes
//! takes longer than one of a few.

use std::sync::atomic::{AtomicU32, Ordering};

use lab::{Lab, Who};
use units::{HeadName, PoolName};

use crate::environment;
use crate::error::DrillError;
use crate::kinds::{self, Exported, Store};

/// Most of them: an iSCSI target has room for some more.
pub const MORE_VOLUMES_MAX: u32 = 10_000;
/// Made at a time: each waits for a transaction group, which so many share.
const AT_A_TIME: usize = 8;
/// How large each is, at most; none has contents.
const SIZE: &str = "32M";

/// Makes `count` volumes in `pool`, and offers them to clients of every kind that uses volumes.
///
/// # Errors
///
/// One of them cannot be made.
pub fn make(lab: &Lab, pool: &PoolName, head: &HeadName, count: u32) -> Result<(), DrillError> {
    // One look at the head for all of them.
    let enter = lab.enter(&Who::Head(head.clone()))?;
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
            environment::run_there(&enter, head, &words)?;
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
