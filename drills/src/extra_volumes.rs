//! Volumes beside those of the clients, each offered over iSCSI and NBD: what a takeover of many volumes
//! takes longer than one of a few.

use std::sync::atomic::{AtomicU32, Ordering};

use lab::{Lab, Who};
use units::{HeadName, PoolName};

use crate::environment;
use crate::error::DrillError;

/// Most of them: an iSCSI target has room for some more.
pub const MORE_VOLUMES_MAX: u32 = 10_000;
/// Made at a time: each waits for a transaction group, which so many share.
const AT_A_TIME: usize = 8;
/// How large each is, at most; none has contents.
const SIZE: &str = "32M";

/// Makes `count` volumes in `pool`, and offers them at the target of the drills.
///
/// # Errors
///
/// One of them cannot be made.
pub fn make(
    lab: &Lab,
    pool: &PoolName,
    head: &HeadName,
    target: &str,
    count: u32,
) -> Result<(), DrillError> {
    // One look at the head for all of them.
    let enter = lab.enter(&Who::Head(head.clone()))?;
    let next = AtomicU32::new(1);
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number > count {
            return Ok(());
        }
        let export = format!("drill-more-{number}");
        let (volume, lun) = (format!("{pool}/{export}"), number.to_string());
        for words in [
            &["volume", "create", &volume, "--size", SIZE, "--sparse"][..],
            &["target", "map", target, &volume, "--lun", &lun],
            &[
                "nbd",
                "export",
                &volume,
                "--name",
                &export,
                "--allow-everyone",
            ],
        ] {
            environment::run_there(&enter, head, words)?;
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
