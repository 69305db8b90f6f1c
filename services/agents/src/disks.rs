//! What the labels of a pool's disks say. A disk that fails or hangs is left out: the others say
//! the same, and the pool's redundancy is there for such a disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use labels::{Device, Label, LabelState, Uberblock, newest_settled};
use units::PoolName;

/// How long disks may take to give their labels. A healthy one takes milliseconds.
const LABEL_TIME_LIMIT: Duration = Duration::from_secs(3);

/// What is on one disk.
#[derive(Clone, Debug)]
pub struct Content {
    /// Its labels; none where it belongs to nothing.
    labels: Vec<Label>,
    /// Its newest uberblock.
    newest: Option<Uberblock>,
}

/// A pool as its disks tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The newest label.
    pub label: Label,
    /// Whether its last owner left signs of life on the devices while it lived.
    pub is_watched: bool,
}

fn content(disk: &Path) -> rustix::io::Result<Content> {
    let device = Device::open(disk)?;
    let labels = device.as_ref().map_or_else(Vec::new, Device::labels);
    let has_label = device.as_ref().filter(|_| !labels.is_empty());
    let newest = has_label.and_then(Device::newest_uberblock);
    Ok(Content { labels, newest })
}

/// Those of `disks` that can be read now, with what is on them, in the order of `disks`.
pub fn readable(disks: &[PathBuf]) -> Vec<(PathBuf, Content)> {
    let (sender, receiver) = channel();
    for (index, disk) in disks.iter().enumerate() {
        let (sender, disk) = (sender.clone(), disk.clone());
        let reads = move || {
            // Nobody waits any more if it fails: the limit has passed.
            let _ = sender.send((index, content(&disk)));
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
    let mut answers = BTreeMap::new();
    while let Ok((index, answer)) =
        receiver.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        answers.insert(index, answer);
    }
    let mut good = Vec::new();
    for (index, disk) in disks.iter().enumerate() {
        match answers.remove(&index) {
            Some(Ok(content)) => good.push((disk.clone(), content)),
            Some(Err(error)) => {
                tracing::warn!(disk = %disk.display(), %error, "a disk is left out");
            }
            None => {
                tracing::warn!(disk = %disk.display(), "a disk that does not answer is left out");
            }
        }
    }
    good
}

/// The one pool of that name on `disks`, all of which can be read.
pub fn find(pool: &PoolName, disks: &[(PathBuf, Content)]) -> Result<Found, String> {
    if disks.is_empty() {
        return Err(format!(
            "none of the disks of {pool} in the appliance file can be read"
        ));
    }
    let members = disks.iter().filter_map(|(_, content)| {
        let is_member =
            |label: &&Label| !matches!(label.state, LabelState::Spare | LabelState::Cache);
        let pool = content.labels.iter().max_by_key(|label| label.txg)?;
        is_member(&pool).then_some((pool.pool_guid, content))
    });
    let mut newest: BTreeMap<u64, Option<Uberblock>> = BTreeMap::new();
    for (pool, content) in members.clone() {
        let best = newest.entry(pool).or_default();
        let both = (*best).into_iter().chain(content.newest);
        *best = both.max_by_key(|one| one.txg);
    }
    let mut pools: BTreeMap<u64, Found> = BTreeMap::new();
    for (pool, content) in members {
        let newest = newest.get(&pool).copied().flatten();
        let labels = content.labels.clone();
        let Some(label) = newest_settled(labels, |label| label.txg, newest) else {
            continue;
        };
        let is_watched = newest.is_some_and(|newest| newest.is_watched);
        match pools.get_mut(&pool) {
            Some(found) if label.txg <= found.label.txg => {}
            _ => {
                pools.insert(pool, Found { label, is_watched });
            }
        }
    }
    let is_wanted = |found: &Found| {
        let is_pool = matches!(found.label.state, LabelState::Active | LabelState::Exported);
        is_pool && found.label.pool_name == pool.as_str()
    };
    let mut found: Vec<Found> = pools.into_values().filter(is_wanted).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(
        pool_guid: u64,
        txg: u64,
        state: LabelState,
        newest: (u64, bool),
    ) -> (PathBuf, Content) {
        let label = Label {
            state,
            guid: txg,
            pool_guid,
            pool_name: "tank".to_owned(),
            top_guid: 1,
            txg,
            host_id: Some(7),
            host_name: Some("left".to_owned()),
            record: None,
        };
        let newest = Uberblock {
            txg: newest.0,
            root_txg: newest.0,
            time_s: 0,
            sum: 0,
            is_watched: newest.1,
        };
        let content = Content {
            labels: vec![label],
            newest: Some(newest),
        };
        (PathBuf::from("disk"), content)
    }

    fn find_tank(disks: &[(PathBuf, Content)]) -> Result<(u64, LabelState, bool), String> {
        let pool = "tank".parse().expect("a name");
        let found = find(&pool, disks)?;
        Ok((found.label.txg, found.label.state, found.is_watched))
    }

    #[test]
    fn the_newest_label_and_the_newest_uberblock_of_all_disks_count() {
        use LabelState::{Active, Exported, Spare};
        let stale = disk(1, 5, Exported, (5, false));
        let newer = disk(1, 9, Active, (8, false));
        let newest = disk(1, 7, Exported, (11, true));
        let spare = disk(0, 99, Spare, (99, false));
        let disks = [stale, newer, newest, spare];
        assert_eq!(find_tank(&disks), Ok((9, Active, true)));
    }

    /// Its owner died before the uberblock that makes the export count.
    #[test]
    fn a_label_that_is_newer_than_every_uberblock_tells_nothing() {
        use LabelState::{Active, Exported};
        let mut torn = disk(1, 9, Exported, (8, false));
        let older = disk(1, 6, Active, (8, false));
        torn.1.labels.push(older.1.labels[0].clone());
        assert_eq!(find_tank(&[torn]), Ok((6, Active, false)));
    }

    #[test]
    fn no_pool_and_two_pools_are_told_apart_from_one() {
        use LabelState::{Destroyed, Exported};
        let (one, other) = (
            disk(1, 5, Exported, (5, false)),
            disk(2, 6, Exported, (6, false)),
        );
        let gone = disk(3, 7, Destroyed, (7, false));
        let why = |disks: &[(PathBuf, Content)]| find_tank(disks).expect_err("none, or two");
        assert!(why(&[]).contains("can be read"));
        assert!(why(std::slice::from_ref(&gone)).contains("there is no pool"));
        assert!(why(&[one.clone(), other]).contains("two pools"));
        assert!(find_tank(&[one, gone]).is_ok());
    }

    #[test]
    fn a_disk_that_is_not_there_is_left_out_and_an_empty_one_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let (empty, none) = (folder.path().join("empty"), folder.path().join("none"));
        let file = std::fs::File::create(&empty).expect("made");
        file.set_len(labels::DEVICE_BYTES_MIN).expect("long enough");
        let good = readable(&[none, empty.clone()]);
        let paths: Vec<&PathBuf> = good.iter().map(|(path, _)| path).collect();
        assert_eq!(paths, [&empty]);
        assert!(find_tank(&good).is_err());
    }
}
