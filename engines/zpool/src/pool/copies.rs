//! Selects a pool's own devices among those with its labels: one of several names of a device, one of several devices
//! with the same identity, and none that is outdated without the pool's knowledge. `docs/formats/labels.md` defines the
//! rule.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use engine::pool::legs::{GroupContent, Leg, LegGroup, Legs};
use engine::pool::{Conflict, FoundDevice, LeftOut};
use labels::{
    Choice, DeviceIdentity, LabelState, PathMatch, Recorded, RootId, Twin, Uberblock, choose,
    has_root, newest_settled, views,
};
use units::host_name;

use super::label::{Label, Written};
use crate::nvlist::{NvList, NvRef};

/// Deepest nesting of devices in ZFS: a root, a group, an active replacement, an active spare.
pub(super) const DEPTH_MAX: usize = 8;
/// The name of our own list of rejected copies (`BH_LABEL_REJECTED`).
const LABEL_REJECTED: &str = "bulkhead:rejected";
/// The name of the GUID of the pool that a device is leaving (`BH_LABEL_LEAVES`).
const LABEL_LEAVES: &str = "bulkhead:leaves";
/// Maximum number of them (`BH_LABEL_REJECTED_MAX`).
const REJECTED_MAX: usize = 32;
/// The name of our own list of devices with data that was given up (`BH_LABEL_ABANDONED`).
const LABEL_ABANDONED: &str = "bulkhead:abandoned";
/// Maximum number of them (`BH_LABEL_ABANDONED_MAX`).
pub(super) const ABANDONED_MAX: usize = 32;
/// The library writes each uberblock to all data groups, if there are no more.
const GROUPS_OF_ROOTS: usize = 3;

/// A device with an older state than the rest of its mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    pub(super) guid: u64,
    /// Its newest root.
    pub(super) newest_txg: u64,
    /// Whether another device has that uberblock.
    pub(super) is_of_history: bool,
}

impl Behind {
    /// In the shim's form.
    pub(super) fn words(&self) -> [u64; 3] {
        [self.guid, self.newest_txg, self.is_of_history.into()]
    }
}

/// A device with data that an administrator gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Abandoned {
    pub(super) guid: u64,
    /// The newest transaction group of the pool at that time.
    pub(super) txg: u64,
}

/// One device for each number.
#[derive(Default)]
pub(super) struct Settled {
    pub(super) written: Vec<Written>,
    pub(super) conflicts: Vec<Conflict>,
    pub(super) left_out: Vec<LeftOut>,
    /// Uberblocks of copies that an administrator rejected.
    pub(super) rejected: Vec<RootId>,
    /// Devices with data that was given up.
    pub(super) abandoned: BTreeSet<Abandoned>,
    /// Numbers of the devices that an administrator chose.
    chosen: BTreeSet<u64>,
}

/// Chooses among `written`, the devices of one pool. The administrator chose those at `chosen`; `are_all`: and the pool
/// has no further ones.
pub(super) fn settle(written: Vec<Written>, chosen: &[PathBuf], are_all: bool) -> Settled {
    let chosen: Vec<DeviceIdentity> = chosen
        .iter()
        .filter_map(|path| DeviceIdentity::of(path))
        .collect();
    let mut settled = Settled::default();
    let written = match are_all {
        true => written,
        false => settled.without_leaving(written),
    };
    let mut by_guid: BTreeMap<u64, Vec<Written>> = BTreeMap::new();
    for device in written {
        by_guid.entry(device.last().guid).or_default().push(device);
    }
    for (guid, devices) in by_guid {
        let devices = settled.names_of_one(devices);
        let is_chosen = |device: &Written| {
            let place = DeviceIdentity::of(device.path());
            place.is_some_and(|place| chosen.iter().any(|one| one.is(&place)))
        };
        // Two choices for one device are ambiguous.
        let named = devices.iter().enumerate().filter(|_| !chosen.is_empty());
        let named: Vec<usize> = named
            .filter(|(_, one)| is_chosen(one))
            .map(|(index, _)| index)
            .collect();
        let by_person = named.first().copied().filter(|_| named.len() == 1);
        if by_person.is_some() {
            settled.chosen.insert(guid);
        }
        settled.one_of(devices, by_person);
    }
    settled.rejected.truncate(REJECTED_MAX);
    settled.without_abandoned();
    settled
}

impl Settled {
    /// The devices, except copies that are being split into a new pool and do not have its number yet; all of them, if
    /// every device is such a copy.
    fn without_leaving(&mut self, written: Vec<Written>) -> Vec<Written> {
        let (leaving, staying): (Vec<_>, Vec<_>) = written.into_iter().partition(Written::leaves);
        let Some(first) = staying.first() else {
            return leaving;
        };
        for copy in leaving {
            let guid = copy.last().guid;
            let original = staying.iter().find(|device| device.last().guid == guid);
            self.left_out.push(LeftOut::Copy {
                path: copy.path().to_owned(),
                used: original.unwrap_or(first).path().to_owned(),
            });
        }
        staying
    }

    /// Leaves out devices that were written to after their data was given up. If each of two devices was given up for
    /// the other one, only an administrator's choice decides.
    fn without_abandoned(&mut self) {
        let all = &self.written;
        let guid = |device: &Written| device.last().guid;
        let is_chosen = |device: &Written| self.chosen.contains(&guid(device));
        let has_given_up = |by: &Written, device: &Written| {
            let own = device.abandoned();
            let mut listed = by.abandoned().into_iter();
            listed.find(|one| one.guid == guid(device) && !own.contains(one))
        };
        let is_apart = |one: &Written, other: &Written| {
            !is_chosen(one)
                && !is_chosen(other)
                && has_given_up(one, other).is_some()
                && has_given_up(other, one).is_some()
        };
        let has_one_apart = |device: &&Written| all.iter().any(|other| is_apart(device, other));
        let mut apart: Vec<FoundDevice> = all
            .iter()
            .filter(has_one_apart)
            .map(Written::as_found)
            .collect();
        if !apart.is_empty() {
            apart.sort_by_key(|one| std::cmp::Reverse((one.newest_txg, one.newest_time_s)));
            self.conflicts.push(Conflict::Apart(apart));
            return;
        }
        let is_out = |device: &&Written| {
            let given_up = |by: &Written| has_given_up(by, device);
            let mut given_up = all.iter().filter_map(given_up);
            !is_chosen(device) && given_up.any(|one| device.root().txg > one.txg)
        };
        let out: BTreeSet<u64> = all.iter().filter(is_out).map(guid).collect();
        // A choice is one for later starts, too: the chosen device gets the lists of the rest.
        self.abandoned = all.iter().flat_map(Written::abandoned).collect();
        let (left, used): (Vec<Written>, Vec<Written>) = std::mem::take(&mut self.written)
            .into_iter()
            .partition(|device| out.contains(&device.last().guid));
        self.left_out
            .extend(left.iter().map(|device| LeftOut::Abandoned {
                path: device.path().to_owned(),
                newest_txg: device.root().txg,
            }));
        self.written = used;
    }

    /// The list without aliases of a device.
    fn names_of_one(&mut self, devices: Vec<Written>) -> Vec<Written> {
        if devices.len() < 2 {
            return devices;
        }
        let mut named = self.without_views(devices);
        // By a name in its label, else by one that no other device is built on, else by the first.
        named.sort_by_key(|(place, device)| {
            let recorded = recorded(device.last()).path;
            let is_recorded = recorded.is_some_and(|path| Path::new(&path) == device.path());
            let is_part = place.as_ref().is_some_and(DeviceIdentity::is_part);
            (is_part, !is_recorded)
        });
        let mut kept: Vec<(Option<DeviceIdentity>, Written)> = Vec::new();
        for (place, device) in named {
            let is_one = |other: &&(Option<DeviceIdentity>, Written)| match (&place, &other.0) {
                (Some(place), Some(of_other)) => {
                    let is_one = || place.is_part() || device.has_contents_of(&other.1);
                    place.is(of_other) || (place.may_be_same_disk(of_other) && is_one())
                }
                _ => device.path() == other.1.path(),
            };
            match kept.iter().find(is_one) {
                Some((_, used)) if used.path() == device.path() => {}
                Some((_, used)) => self.left_out.push(LeftOut::SameDevice {
                    path: device.path().to_owned(),
                    used: used.path().to_owned(),
                }),
                None => kept.push((place, device)),
            }
        }
        kept.into_iter().map(|(_, device)| device).collect()
    }

    /// The devices with their paths, without disks that show the last labels of a partition, or partitions that show
    /// those of a disk.
    fn without_views(&mut self, devices: Vec<Written>) -> Vec<(Option<DeviceIdentity>, Written)> {
        let counted = devices
            .iter()
            .map(|device| (DeviceIdentity::of(device.path()), device.labels.len()));
        let counted: Vec<(Option<DeviceIdentity>, usize)> = counted.collect();
        let views = views(&counted);
        let seen = views.iter().zip(&devices).filter_map(|(view, device)| {
            Some(LeftOut::SameDevice {
                path: device.path().to_owned(),
                used: devices[(*view)?].path().to_owned(),
            })
        });
        self.left_out.extend(seen);
        let places = counted.into_iter().map(|(place, _)| place);
        let named = places.zip(devices).zip(views);
        named
            .filter_map(|(named, view)| view.is_none().then_some(named))
            .collect()
    }

    /// Uses one of `devices`, which have the same identity.
    fn one_of(&mut self, mut devices: Vec<Written>, by_person: Option<usize>) {
        let twins: Vec<Twin> = devices.iter().map(Written::as_twin).collect();
        let index = match (by_person, choose(&twins)) {
            (Some(index), _) | (None, Choice::One(index)) => index,
            (None, Choice::Unclear(index)) => {
                let mut all: Vec<FoundDevice> = devices.iter().map(Written::as_found).collect();
                all.sort_by_key(|one| std::cmp::Reverse((one.newest_txg, one.newest_time_s)));
                self.conflicts.push(Conflict::Same(all));
                self.written.push(devices.swap_remove(index));
                return;
            }
        };
        if by_person.is_some() {
            let others = twins.iter().enumerate().filter(|(one, _)| *one != index);
            self.rejected
                .extend(others.map(|(_, twin)| twin.newest().id()));
        }
        self.rejected.extend(&twins[index].rejected);
        let used = devices.swap_remove(index);
        self.left_out
            .extend(devices.iter().map(|copy| LeftOut::Copy {
                path: copy.path().to_owned(),
                used: used.path().to_owned(),
            }));
        self.written.push(used);
    }

    /// The devices of `legs` with an older state than the rest, except those that are not at their recorded paths:
    /// these count as missing, and are removed from `places`. A device that the pool cannot do without is a conflict.
    pub(super) fn behind(
        &mut self,
        legs: &mut Legs,
        places: &mut HashMap<u64, PathBuf>,
    ) -> Vec<Behind> {
        let by_guid: BTreeMap<u64, &Written> = self
            .written
            .iter()
            .map(|device| (device.last().guid, device))
            .collect();
        let is_data = |group: &&LegGroup| group.content == GroupContent::Data;
        let data_count = legs.groups.iter().filter(is_data).count() + legs.groups_missing;
        let newest = newest_of(self.written.iter());
        let (mut behind, mut older) = (Vec::new(), Vec::new());
        for group in &mut legs.groups {
            let mut newest = newest;
            if group.content != GroupContent::Data || data_count > GROUPS_OF_ROOTS {
                let present = group.members.iter().flatten().filter(|leg| leg.is_present);
                newest = newest_of(present.filter_map(|leg| by_guid.get(&leg.guid).copied()));
            }
            let Some(newest) = newest else { continue };
            let is_far = |leg: &Leg| {
                let device = by_guid.get(&leg.guid);
                device.is_some_and(|device| device.is_far_behind(newest))
            };
            let is_current = |leg: &Leg| leg.is_present && !is_far(leg);
            let current = group
                .members
                .iter()
                .filter(|legs| legs.iter().any(is_current));
            let is_short = current.count() < group.needed;
            for leg in group
                .members
                .iter_mut()
                .flatten()
                .filter(|leg| leg.is_present)
            {
                let Some(device) = by_guid.get(&leg.guid) else {
                    continue;
                };
                let root = device.root();
                if root.txg >= newest.root().txg || device.roots.is_empty() {
                    continue;
                }
                let is_at_fault = device.is_far_behind(newest) && !leg.is_marked;
                let is_chosen = self.chosen.contains(&leg.guid);
                let is_elsewhere = device.path_match() == PathMatch::Elsewhere
                    && !is_chosen
                    && legs.record.is_none();
                if is_at_fault && is_short && is_chosen {
                    // No other device has the missing groups. A record of them would prevent devices from being
                    // attached to this one.
                    continue;
                }
                if is_at_fault && is_short {
                    older.push(Conflict::Older {
                        device: device.as_found(),
                        newest_txg: newest.root().txg,
                        newest_time_s: newest.root().time_s,
                    });
                } else if is_at_fault && is_elsewhere {
                    self.left_out.push(LeftOut::Older {
                        path: leg.path.clone(),
                        newest_txg: root.txg,
                    });
                    places.remove(&leg.guid);
                    (leg.is_present, leg.path) = (false, leg.labelled.clone());
                } else if has_root(&newest.roots, root) || !leg.is_marked {
                    // The pool has recorded when a marked device failed.
                    behind.push(Behind {
                        guid: leg.guid,
                        newest_txg: root.txg,
                        is_of_history: has_root(&newest.roots, root),
                    });
                }
            }
        }
        self.conflicts.extend(older);
        behind
    }
}

/// The one with the newest root.
fn newest_of<'a>(devices: impl Iterator<Item = &'a Written>) -> Option<&'a Written> {
    devices.max_by_key(|device| device.root().txg)
}

impl Written {
    fn path(&self) -> &Path {
        &self.last().path
    }

    /// The default if it has none.
    fn root(&self) -> Uberblock {
        self.newest().unwrap_or_default()
    }

    /// Whether it misses uberblocks that every device of its group has; the last one may have been in progress.
    fn is_far_behind(&self, newest: &Self) -> bool {
        let before = newest.roots.iter().rev().nth(1);
        before.is_some_and(|before| self.root().txg < before.txg)
    }

    /// The newest label of a committed group.
    fn settled(&self) -> &Label {
        let all = self.labels.iter().collect();
        newest_settled(all, |label: &&Label| label.txg, self.newest()).unwrap_or(self.last())
    }

    /// Whether it is becoming a device of another pool.
    fn leaves(&self) -> bool {
        let label = self.settled();
        label.list.view().u64(LABEL_LEAVES) == Some(label.pool_guid)
    }

    /// The devices with data that was given up, by its newest label.
    pub(super) fn abandoned(&self) -> Vec<Abandoned> {
        let words = self.settled().list.view().u64s(LABEL_ABANDONED);
        let listed = words.chunks_exact(2).take(ABANDONED_MAX);
        listed
            .map(|words| Abandoned {
                guid: words[0],
                txg: words[1],
            })
            .collect()
    }

    fn has_contents_of(&self, other: &Self) -> bool {
        let (own, others) = (self.settled(), other.settled());
        (self.size, own.sum) == (other.size, others.sum) && self.roots == other.roots
    }

    fn path_match(&self) -> PathMatch {
        let label = self.settled();
        let is_ours = label.host_name.as_deref() == Some(host_name().as_str());
        recorded(label).path_match(self.path(), is_ours)
    }

    fn as_twin(&self) -> Twin {
        let label = self.settled();
        let view = label.list.view();
        let rejected = view.u64s(LABEL_REJECTED);
        let rejected = rejected.chunks_exact(2).take(REJECTED_MAX);
        Twin {
            import: import_of(self),
            state: label.state,
            roots: self.roots.clone(),
            path_match: self.path_match(),
            rejected: rejected.map(|id| (id[0], id[1])).collect(),
        }
    }

    fn as_found(&self) -> FoundDevice {
        let root = self.root();
        FoundDevice {
            path: self.path().to_owned(),
            newest_txg: root.txg,
            newest_time_s: root.time_s,
            is_home: self.path_match() == PathMatch::Home,
            is_exported: self.settled().state == LabelState::Exported,
        }
    }
}

/// Identifies the import that wrote its newest label.
pub(super) fn import_of(device: &Written) -> u64 {
    let label = device.settled();
    label.start.unwrap_or(label.sum)
}

/// The path that the label records for its own device.
fn recorded(label: &Label) -> Recorded {
    let mut leaves = leaves_of(&label.list).into_iter();
    let leaf = leaves.find(|leaf| leaf.u64("guid") == Some(label.guid));
    let text = |name| leaf.and_then(|leaf| leaf.text(name));
    Recorded {
        path: text("path"),
        device: text("devid"),
        slot: text("phys_path"),
    }
}

/// The numbers and paths of the devices of its group that the label of `device` records.
pub(super) fn recorded_paths(device: &Written) -> Vec<(u64, PathBuf)> {
    let leaves = leaves_of(&device.settled().list);
    let paths = leaves.into_iter().filter_map(|leaf| {
        let path = leaf.text("path").map(PathBuf::from);
        leaf.u64("guid").zip(path)
    });
    paths.collect()
}

/// The devices in the tree of a label.
fn leaves_of(list: &NvList) -> Vec<NvRef<'_>> {
    fn add<'a>(vdev: NvRef<'a>, depth: usize, found: &mut Vec<NvRef<'a>>) {
        let children = vdev.lists("children");
        if children.is_empty() {
            found.push(vdev);
            return;
        }
        for child in children.into_iter().filter(|_| depth < DEPTH_MAX) {
            add(child, depth + 1, found);
        }
    }
    let mut found = Vec::new();
    if let Some(tree) = list.view().list("vdev_tree") {
        add(tree, 0, &mut found);
    }
    found
}
