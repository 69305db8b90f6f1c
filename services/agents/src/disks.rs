//! Reads the labels of a pool's disks. A disk that fails or hangs is left out: the labels of the other disks are
//! the same, and the pool's redundancy covers such a disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use labels::{
    Choice, Device, Label, LabelState, PathMatch, Twin, Uberblock, choose, newest_settled,
};
use units::PoolName;

/// Time-out for reading labels. A healthy disk needs milliseconds.
const LABEL_TIME_LIMIT: Duration = Duration::from_secs(3);

/// Metadata of one disk.
#[derive(Clone, Debug)]
pub struct Content {
    /// Its labels; empty if it belongs to no pool.
    labels: Vec<Label>,
    /// Its uberblocks, in ascending order.
    roots: Vec<Uberblock>,
}

/// A pool, by its disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The newest label.
    pub label: Label,
    /// Whether its last owner wrote multihost heartbeats to the devices.
    pub is_watched: bool,
}

fn content(disk: &Path) -> rustix::io::Result<Content> {
    let device = Device::open(disk)?;
    let labels = device.as_ref().map_or_else(Vec::new, Device::labels);
    let has_label = device.as_ref().filter(|_| !labels.is_empty());
    let roots = has_label.map_or_else(Vec::new, Device::uberblocks);
    Ok(Content { labels, roots })
}

/// The readable ones of `disks` with their metadata, in the order of `disks`.
pub fn readable(disks: &[PathBuf]) -> Vec<(PathBuf, Content)> {
    let (sender, receiver) = channel();
    for (index, disk) in disks.iter().enumerate() {
        let (sender, disk) = (sender.clone(), disk.clone());
        let reads = move || {
            // A failed send means that the time-out has passed.
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
                tracing::warn!(disk = %disk.display(), "a disk that does not respond is left out");
            }
        }
    }
    good
}

/// A disk with a label of a pool.
#[derive(Clone, Copy)]
struct Member<'a> {
    path: &'a Path,
    content: &'a Content,
    /// Its newest label, whether the transaction group of it was finished or not.
    label: &'a Label,
}

impl<'a> Member<'a> {
    /// None if the disk belongs to no pool, or is a spare or a cache.
    fn of(path: &'a Path, content: &'a Content) -> Option<Self> {
        let label = content.labels.iter().max_by_key(|label| label.txg)?;
        let is_member = !matches!(label.state, LabelState::Spare | LabelState::Cache);
        is_member.then_some(Self {
            path,
            content,
            label,
        })
    }

    fn newest(&self) -> Option<Uberblock> {
        self.content.roots.last().copied()
    }

    /// The newest label that is valid if `newest` is the newest uberblock.
    fn validated(&self, newest: Option<Uberblock>) -> Option<&'a Label> {
        newest_settled(
            self.content.labels.iter().collect(),
            |label: &&Label| label.txg,
            newest,
        )
    }

    /// `number` identifies the import of a label that does not name it.
    fn as_twin(&self, number: usize) -> Twin {
        let label = self.validated(self.newest()).unwrap_or(self.label);
        Twin {
            import: label.start.unwrap_or(number as u64),
            state: label.state,
            roots: self.content.roots.clone(),
            // The pool's server reads this from the whole label.
            path_match: PathMatch::Unknown,
            rejected: Vec::new(),
        }
    }
}

/// The current one of several disks with the same identity; all of them if it cannot be determined.
fn newest_of_each(same: Vec<Member<'_>>) -> Vec<Member<'_>> {
    let twins = same.iter().enumerate();
    let twins: Vec<Twin> = twins.map(|(number, one)| one.as_twin(number)).collect();
    match choose(&twins) {
        Choice::One(one) => vec![same[one]],
        Choice::Unclear(_) => same,
    }
}

/// The content of a pool's newest labels; `None` if no label is valid. Among labels of one transaction group, the label
/// of a pool in use precedes one of an exported pool: it requires a proof that the owner has stopped. Two owners are an
/// error.
fn owner(pool: &PoolName, members: &[Member<'_>]) -> Result<Option<Found>, String> {
    let newest = members.iter().filter_map(Member::newest);
    let newest = newest.max_by_key(|one| one.txg);
    let labels = members.iter();
    let labels = labels.filter_map(|one| Some((one.path, one.validated(newest)?)));
    let labels: Vec<(&Path, &Label)> = labels.collect();
    let Some(txg) = labels.iter().map(|(_, label)| label.txg).max() else {
        return Ok(None);
    };
    let mut counting: Vec<(&Path, &Label)> = labels
        .into_iter()
        .filter(|(_, label)| label.txg == txg)
        .collect();
    counting.sort_by_key(|(_, label)| match label.state {
        LabelState::Active => 0,
        LabelState::Exported => 1,
        LabelState::Destroyed | LabelState::Spare | LabelState::Cache => 2,
    });
    let Some(((path, label), others)) = counting.split_first() else {
        return Ok(None);
    };
    let is_of_another = |(_, other): &&(&Path, &Label)| {
        let are_in_use = [label.state, other.state] == [LabelState::Active; 2];
        are_in_use && other.host_id != label.host_id
    };
    if let Some((other, _)) = others.iter().find(is_of_another) {
        return Err(format!(
            "{} and {} name two hosts as the last user of pool {pool}: one of them is a copy; remove it from the list of disks, and from this host",
            path.display(),
            other.display()
        ));
    }
    Ok(Some(Found {
        label: (*label).clone(),
        is_watched: newest.is_some_and(|newest| newest.is_watched),
    }))
}

/// The only pool of that name on `disks`, all of which are readable. Disks with the same identity are judged by
/// `docs/formats/labels.md`.
pub fn find(pool: &PoolName, disks: &[(PathBuf, Content)]) -> Result<Found, String> {
    if disks.is_empty() {
        return Err(format!(
            "none of the disks of {pool} in the appliance file can be read"
        ));
    }
    let mut pools: BTreeMap<u64, BTreeMap<u64, Vec<Member<'_>>>> = BTreeMap::new();
    for (path, content) in disks {
        let Some(member) = Member::of(path, content) else {
            continue;
        };
        let devices = pools.entry(member.label.pool_guid).or_default();
        devices.entry(member.label.guid).or_default().push(member);
    }
    let pools = pools.into_values().map(|devices| {
        let used = devices.into_values().flat_map(newest_of_each);
        owner(pool, &used.collect::<Vec<_>>())
    });
    let pools = pools.collect::<Result<Vec<_>, String>>()?;
    let in_use = |one: &Found| matches!(one.label.state, LabelState::Active | LabelState::Exported);
    let (mut found, others): (Vec<Found>, Vec<Found>) = pools
        .into_iter()
        .flatten()
        .filter(in_use)
        .partition(|one| one.label.pool_name == pool.as_str());
    let names: Vec<&str> = others
        .iter()
        .map(|one| one.label.pool_name.as_str())
        .collect();
    match found.len() {
        1 => Ok(found.remove(0)),
        0 if !names.is_empty() => Err(format!(
            "the disks of {pool} in the appliance file hold pool {}: correct the name of the pool, or its disks, in the file",
            names.join(", ")
        )),
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
            start: None,
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
            roots: vec![newest],
        };
        (PathBuf::from("disk"), content)
    }

    fn find_tank(disks: &[(PathBuf, Content)]) -> Result<(u64, LabelState, bool), String> {
        let pool = "tank".parse().expect("a name");
        let found = find(&pool, disks)?;
        Ok((found.label.txg, found.label.state, found.is_watched))
    }

    #[test]
    fn newest_label_and_uberblock_of_all_disks_are_used() {
        use LabelState::{Active, Exported, Spare};
        let stale = disk(1, 5, Exported, (5, false));
        let newer = disk(1, 9, Active, (8, false));
        let newest = disk(1, 7, Exported, (11, true));
        let spare = disk(0, 99, Spare, (99, false));
        let disks = [stale, newer, newest, spare];
        assert_eq!(find_tank(&disks), Ok((9, Active, true)));
    }

    /// One device of one pool by two disks, in both orders.
    fn find_twins(
        one: (PathBuf, Content),
        other: (PathBuf, Content),
    ) -> Result<(u64, LabelState, bool), String> {
        let both = [one, other].map(|(path, mut content)| {
            content.labels.iter_mut().for_each(|label| label.guid = 1);
            (path, content)
        });
        let [one, other] = both;
        let found = find_tank(&[one.clone(), other.clone()]);
        let in_other_order = find_tank(&[other, one]);
        assert_eq!(
            found.as_ref().ok(),
            in_other_order.as_ref().ok(),
            "by order"
        );
        found
    }

    #[test]
    fn order_of_disk_and_its_copy_is_irrelevant() {
        use LabelState::{Active, Exported};
        let copy = |import, txg, state, roots: &[u64]| {
            let (_, mut content) = disk(1, txg, state, (1, false));
            content.labels[0].start = Some(import);
            content.roots = roots
                .iter()
                .map(|txg| Uberblock {
                    txg: *txg,
                    ..Uberblock::default()
                })
                .collect();
            (PathBuf::from(format!("{import}-{txg}")), content)
        };
        // The disk has overtaken a copy of an exported pool, although the copy's label is as new.
        let old = copy(1, 5, Exported, &[4, 5]);
        let used = copy(2, 6, Active, &[4, 5, 6, 7]);
        assert_eq!(find_twins(old, used), Ok((6, Active, false)));
        // Both were used again, and one of them was exported: the other one may be in use.
        let exported = copy(1, 9, Exported, &[5, 7, 9]);
        let used = copy(2, 9, Active, &[5, 8, 9]);
        assert_eq!(find_twins(exported, used.clone()), Ok((9, Active, false)));
        let mut elsewhere = copy(3, 9, Active, &[5, 7, 9]);
        elsewhere.1.labels[0].host_id = Some(8);
        let why = find_twins(used, elsewhere).expect_err("two hosts");
        assert!(why.contains("2-9") && why.contains("3-9"), "{why}");
    }

    /// Its owner died before the uberblock that validates the export.
    #[test]
    fn label_newer_than_all_uberblocks_is_ignored() {
        use LabelState::{Active, Exported};
        let mut torn = disk(1, 9, Exported, (8, false));
        let older = disk(1, 6, Active, (8, false));
        torn.1.labels.push(older.1.labels[0].clone());
        assert_eq!(find_tank(&[torn]), Ok((6, Active, false)));
    }

    #[test]
    fn zero_and_two_pools_are_distinguished_from_one() {
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
    fn missing_disk_is_skipped_and_empty_disk_is_not() {
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
