//! What the labels of a pool's disks say. A disk that fails or hangs is left out: the others say
//! the same, and the pool's redundancy is there for such a disk.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use units::PoolName;
use zpool::pool::{Candidate, LabelState, discover};

/// How long disks may take to give their labels. A healthy one takes milliseconds.
const LABEL_TIME_LIMIT: Duration = Duration::from_secs(3);

/// Those of `disks` whose labels can be read now.
pub fn readable(disks: &[PathBuf]) -> Vec<PathBuf> {
    let (sender, receiver) = channel();
    for disk in disks {
        let (sender, disk) = (sender.clone(), disk.clone());
        let reads = move || {
            let found = discover(std::slice::from_ref(&disk));
            if let Err(error) = &found {
                let error = control::failure::chain(error);
                tracing::warn!(disk = %disk.display(), error, "a disk is left out");
            }
            // Nobody waits any more: the limit has passed.
            let _ = sender.send((disk, found.is_ok()));
        };
        let spawned = std::thread::Builder::new()
            .name("label".into())
            .spawn(reads);
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread to read a label");
        }
    }
    drop(sender);
    let deadline = Instant::now() + LABEL_TIME_LIMIT;
    let mut answered = BTreeSet::new();
    let mut good = BTreeSet::new();
    while let Ok((disk, is_good)) =
        receiver.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        answered.insert(disk.clone());
        if is_good {
            good.insert(disk);
        }
    }
    for disk in disks.iter().filter(|disk| !answered.contains(*disk)) {
        tracing::warn!(disk = %disk.display(), "a disk that does not answer is left out");
    }
    // In the order of the file.
    let is_good = |disk: &&PathBuf| good.contains(*disk);
    disks.iter().filter(is_good).cloned().collect()
}

/// The one pool of that name on `disks`, all of which can be read.
pub fn candidate(pool: &PoolName, disks: &[PathBuf]) -> Result<Candidate, String> {
    if disks.is_empty() {
        return Err(format!(
            "none of the disks of {pool} in the appliance file can be read"
        ));
    }
    let found = discover(disks).map_err(|error| control::failure::chain(&error))?;
    let mut found: Vec<Candidate> = found
        .into_iter()
        .filter(|one| one.name == pool.as_str())
        .filter(|one| matches!(one.state, LabelState::Active | LabelState::Exported))
        .collect();
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(format!(
            "there is no pool {pool} on its disks in the appliance file: create it with `bulkhead pool create`"
        )),
        _ => Err(format!(
            "two pools called {pool} are on the disks in the appliance file: take the wrong ones off the list"
        )),
    }
}
