//! Finds pools by the labels on their devices, and assembles the configuration that the library needs to open one. No
//! cache file is ever consulted: on a head that was down it would be stale.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use engine::Opaque;
use engine::pool::legs::{GroupContent, Leg, LegGroup, Legs};
use engine::pool::{
    Candidate, CandidateDevice, CandidateDevices, CandidateState, DiscoverError, LeftOut,
};
use labels::{Detached, DeviceIdentity, LabelState, LockProbe, RootId, Uberblock, newest_settled};

use super::copies::{self, Abandoned, Behind, DEPTH_MAX, Settled};
use super::label::{self, Label, Membership, Written};
use crate::device;
use crate::nvlist::{NvList, NvRef};

/// Maximum number of groups in a pool's labels; more indicate garbage.
const GROUPS_MAX: u64 = 4096;
/// The name of our own text in labels (`BH_LABEL_NOTE`).
const LABEL_NOTE: &str = "bulkhead:connections";
/// The name of our own list of devices that have failed (`BH_LABEL_FAILED`).
const LABEL_FAILED: &str = "bulkhead:failed";
/// The name of our own list of removed groups in a label (`BH_LABEL_REMOVED`).
const LABEL_REMOVED: &str = "bulkhead:removed";
/// Marks of the library's own on a device that cannot be used.
const FAILED_MARKS: [&str; 4] = ["offline", "faulted", "removed", "not_present"];
/// Words of the library's in `aux_state`: a device had too many errors, or an administrator faulted it.
const FAILED_AUX_STATES: [&str; 2] = ["err_exceeded", "external"];
/// Appended to the path of a device that is not one of the copies being split into a new pool.
const OF_THE_ORIGINAL: &str = " (of the original)";
/// Devices that are read concurrently.
const READERS_MAX: usize = 32;
/// Maximum number of times that labels lead to further labels of the same devices.
const RECORDED_ROUNDS_MAX: usize = 3;

/// The parts of a candidate that the import needs.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    pub(super) config: NvList,
    /// The newest transaction group that a label names.
    pub(super) txg: u64,
    /// Features without which software cannot even read it, by their short names. Those that only writing needs are inside
    /// the pool, not in its labels.
    features_for_read: Vec<String>,
    /// Devices that miss data, which the pool may not have recorded.
    pub(super) behind: Vec<Behind>,
    /// Uberblocks of copies that an administrator rejected.
    pub(super) rejected: Vec<RootId>,
    /// Devices of the pool with data that an administrator gave up.
    pub(super) abandoned: Vec<Abandoned>,
    /// Spares and caches that were found, of any pool: number and path.
    aux: Vec<(u64, PathBuf)>,
    /// The administrator named the devices, which are copies, and the pool has no further ones.
    pub(super) are_all: bool,
}

impl Contents {
    /// The contents of `candidate`.
    pub(super) fn of(candidate: &Candidate) -> &Self {
        candidate.detail.get()
    }

    /// Paths of spares and caches, by their numbers as text: their labels do not name the pool, but the pool names
    /// them.
    pub(super) fn aux_paths(&self) -> NvList {
        let mut paths = NvList::new();
        for (guid, path) in &self.aux {
            paths.set_text(&guid.to_string(), &path.to_string_lossy());
        }
        paths
    }
}

/// Features without which software cannot even read the pool, by their short names.
pub fn needed_features(candidate: &Candidate) -> &[String] {
    &Contents::of(candidate).features_for_read
}

/// Searches `places`: directories (not recursively), files and block devices. Reads only labels, and blocks for as long
/// as the slowest device.
pub fn discover(places: &[PathBuf]) -> Result<Vec<Candidate>, DiscoverError> {
    Ok(candidates(written_in(places)?, Chosen::default()))
}

/// Like `discover`, and includes the recorded paths of all devices: a device that was found might be a copy of the one at
/// its recorded path, and the library opens any device at the path of one that was not found. Of several devices with
/// the same identity, those at `chosen` are used.
pub fn discover_all(
    places: &[PathBuf],
    chosen: &[PathBuf],
) -> Result<Vec<Candidate>, DiscoverError> {
    let mut places: Vec<PathBuf> = places.iter().chain(chosen).cloned().collect();
    let chosen = Chosen {
        devices: chosen,
        are_all: false,
    };
    let mut written = written_in(&places)?;
    for _ in 0..RECORDED_ROUNDS_MAX {
        let more = at_recorded_paths(&written);
        if more.is_empty() {
            break;
        }
        places.extend(more.iter().map(|device| device.last().path.clone()));
        written.extend(more.into_iter().map(Membership::Member));
    }
    let found = candidates(written, chosen);
    let devices = found.iter().flat_map(|candidate| &candidate.devices.all);
    // The library does not open a device that another process has locked either.
    let can_be_opened = |path: &Path| device::is_there(path) && !is_locked(path);
    let missing = devices.filter(|device| !device.present && can_be_opened(&device.path));
    let missing: Vec<PathBuf> = missing.map(|device| device.path.clone()).collect();
    let reads = at_once(&missing, |path| label::read(path));
    let is_read = |(path, read): (PathBuf, _)| matches!(read, Ok(Some(_))).then_some(path);
    let more: Vec<PathBuf> = missing.into_iter().zip(reads).filter_map(is_read).collect();
    if more.is_empty() {
        return Ok(found);
    }
    places.extend(more);
    Ok(candidates(written_in(&places)?, chosen))
}

/// Further devices with the identity of one of `written`, at the paths that the labels record.
fn at_recorded_paths(written: &[Membership]) -> Vec<Written> {
    let members = || {
        let members = written.iter().filter_map(|one| match one {
            Membership::Member(device) => Some(device),
            Membership::Detached(..) => None,
        });
        members
            .filter(|device| !matches!(device.last().state, LabelState::Spare | LabelState::Cache))
    };
    let number = |device: &Written| (device.last().pool_guid, device.last().guid);
    let mut known: BTreeMap<(u64, u64), Vec<DeviceIdentity>> = BTreeMap::new();
    let mut read: BTreeSet<PathBuf> = BTreeSet::new();
    for device in members() {
        let path = &device.last().path;
        let identities = known.entry(number(device)).or_default();
        identities.extend(DeviceIdentity::of(path));
        read.insert(path.clone());
    }
    let mut unread: BTreeSet<PathBuf> = BTreeSet::new();
    for device in members() {
        for (guid, path) in copies::recorded_paths(device) {
            let Some(found) = known.get(&(device.last().pool_guid, guid)) else {
                continue;
            };
            // The kernel reuses names directly in /dev: any disk might be there, even one that hangs.
            let is_reused = path.parent() == Some(Path::new("/dev"));
            let is_read = read.contains(&path);
            if is_read || is_reused || !path.is_absolute() || !device::is_there(&path) {
                continue;
            }
            let identity = DeviceIdentity::of(&path);
            if identity.is_some_and(|identity| !found.iter().any(|one| one.is(&identity))) {
                unread.insert(path);
            }
        }
    }
    let unread: Vec<PathBuf> = unread.into_iter().collect();
    let reads = at_once(&unread, |path| label::read(path)).into_iter();
    let devices = reads.filter_map(|read| match read {
        Ok(Some(Membership::Member(device))) => Some(device),
        _ => None,
    });
    devices
        .filter(|device| known.contains_key(&number(device)))
        .collect()
}

fn is_locked(path: &Path) -> bool {
    let look = LockProbe::open(path).ok().flatten();
    look.is_some_and(|look| look.is_held() == Ok(true))
}

/// The pool on the devices at `places` alone: the recorded paths of other devices are not used.
pub fn discover_alone(places: &[PathBuf]) -> Result<Vec<Candidate>, DiscoverError> {
    let chosen = Chosen {
        devices: places,
        are_all: true,
    };
    Ok(candidates(written_in(places)?, chosen))
}

/// The devices that an administrator named.
#[derive(Clone, Copy, Default)]
struct Chosen<'a> {
    devices: &'a [PathBuf],
    /// The pool has no further devices.
    are_all: bool,
}

/// The labels of the devices in `places`.
fn written_in(places: &[PathBuf]) -> Result<Vec<Membership>, DiscoverError> {
    let mut paths = Vec::new();
    for place in places {
        let failed = |cause: std::io::Error| DiscoverError {
            path: place.clone(),
            cause,
        };
        let place = std::path::absolute(place).map_err(failed)?;
        if std::fs::metadata(&place).map_err(failed)?.is_dir() {
            let entries = std::fs::read_dir(&place).map_err(failed)?;
            let mut found: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            found.sort();
            found.retain(|path| is_device(path));
            paths.extend(found.into_iter().map(|path| (path, Found::InDirectory)));
        } else {
            paths.push((place, Found::ByName));
        }
    }
    paths.retain(|(path, _)| device::is_there(path));
    let mut standings = Vec::new();
    for ((path, found), read) in paths
        .iter()
        .zip(at_once(&paths, |(path, _)| label::read(path)))
    {
        match (read, found) {
            (Ok(read), _) => standings.extend(read),
            // A directory may contain any file; an unreadable one is not ours.
            (Err(_), Found::InDirectory) => {}
            (Err(errno), Found::ByName) => {
                return Err(DiscoverError {
                    path: path.clone(),
                    cause: errno.into(),
                });
            }
        }
    }
    Ok(standings)
}

/// Why a device is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    InDirectory,
    ByName,
}

/// Applies `act` to all items, several concurrently: each blocks on its disk.
pub(super) fn at_once<T: Sync, R: Send>(all: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let share = all.len().div_ceil(READERS_MAX).max(1);
    let act = &act;
    std::thread::scope(|scope| {
        let parts = all.chunks(share);
        let workers: Vec<_> = parts
            .map(|part| scope.spawn(move || part.iter().map(act).collect::<Vec<R>>()))
            .collect();
        let parts = workers.into_iter().map(|worker| worker.join());
        parts
            .flat_map(|part| part.expect("no worker panics"))
            .collect()
    })
}

fn is_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() || meta.file_type().is_block_device())
}

/// Groups devices by pool. A device seen under two paths counts once.
fn candidates(standings: Vec<Membership>, chosen: Chosen<'_>) -> Vec<Candidate> {
    let mut pools: BTreeMap<u64, Vec<Written>> = BTreeMap::new();
    let mut aux = Vec::new();
    let mut detached = Vec::new();
    for standing in standings {
        let device = match standing {
            Membership::Member(device) => device,
            Membership::Detached(path, device) => {
                detached.push((path, device));
                continue;
            }
        };
        let label = device.last();
        if matches!(label.state, LabelState::Spare | LabelState::Cache) {
            aux.push((label.guid, label.path.clone()));
        } else {
            pools.entry(label.pool_guid).or_default().push(device);
        }
    }
    let aux = unique_paths(aux);
    let pools = pools.into_values();
    pools
        .filter_map(|written| {
            let settled = copies::settle(written, chosen.devices, chosen.are_all);
            assemble(settled, &aux, &detached, chosen.are_all)
        })
        .collect()
}

/// The spares and caches with a unique path: for ambiguous ones the pool's own list has the path.
fn unique_paths(aux: Vec<(u64, PathBuf)>) -> Vec<(u64, PathBuf)> {
    let mut places: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
    for (guid, path) in aux {
        places.entry(guid).or_default().push(path);
    }
    let is_one = |paths: &[PathBuf]| {
        let mut found = paths.iter().map(|path| DeviceIdentity::of(path));
        let first = found.next().flatten();
        found.all(|other| matches!((&first, &other), (Some(one), Some(other)) if one.is(other)))
    };
    let single = places.into_iter().filter(|(_, paths)| is_one(paths));
    single
        .map(|(guid, paths)| (guid, paths[0].clone()))
        .collect()
}

/// Assembles one pool from the labels of its devices.
fn assemble(
    mut settled: Settled,
    aux: &[(u64, PathBuf)],
    detached: &[(PathBuf, Detached)],
    are_all: bool,
) -> Option<Candidate> {
    let written = &settled.written;
    let uberblocks = written.iter().filter_map(Written::newest);
    let root = uberblocks.max_by_key(|uberblock| uberblock.txg);
    let of_pool = |device: &Written| newest_settled(device.labels.clone(), |label| label.txg, root);
    let labels: Vec<Label> = written.iter().filter_map(of_pool).collect();
    let newest = labels.iter().max_by_key(|label| label.txg)?;
    let view = newest.list.view();
    let mut groups = newest_groups(&labels);
    let count = view
        .u64("vdev_children")
        .or_else(|| groups.keys().max().map(|id| id + 1))?;
    if count > GROUPS_MAX {
        return None;
    }
    // The label of a device that is being detached is written before those of the rest. If it has a newer uberblock
    // than they do, they are outdated.
    let newest_root = root.map_or(0, |root| root.txg);
    let is_let_go =
        |device: &Detached| device.pool_guid == newest.pool_guid && device.root_txg <= newest_root;
    let let_go = detached.iter().filter(|(_, device)| is_let_go(device));
    let let_go: Vec<(u64, PathBuf)> = let_go
        .map(|(path, device)| (device.guid, path.clone()))
        .collect();
    let mut places = paths_of(&labels);
    places.extend(let_go.iter().cloned());

    let holes = view.u64s("hole_array");
    let removed = view.u64s(LABEL_REMOVED);
    // An image of a device from before its group was removed. It has no current data of the pool.
    let is_gone = |id: &u64| holes.contains(id) || removed.contains(id);
    let images = groups.iter().filter(|(id, _)| is_gone(id));
    let images: Vec<u64> = images.map(|(_, label)| label.top_guid).collect();
    groups.retain(|id, _| !is_gone(id));
    let images = labels
        .iter()
        .filter(|label| images.contains(&label.top_guid));
    let images = images.map(|label| LeftOut::Removed {
        path: label.path.clone(),
    });
    settled.left_out.extend(images);
    let has_label = |id: &u64| groups.contains_key(id) || holes.contains(id);
    let is_missing = |id: &u64| !has_label(id) && !removed.contains(id);
    let groups_missing = (0..count).filter(is_missing).count();
    let mut legs = legs(newest, root, &groups, &places, groups_missing, &let_go);
    let behind = settled.behind(&mut legs, &mut places);
    let mut devices = Vec::new();
    let children: Vec<NvList> = (0..count)
        .map(|id| match groups.get(&id) {
            Some(label) => {
                let tree = label.list.view().list("vdev_tree");
                with_paths(tree, &places, &mut devices, are_all, 0)
            }
            None if holes.contains(&id) => placeholder("hole", id),
            // No label describes a group that was removed, and the library identifies it by the pool's own list.
            None => placeholder("missing", id),
        })
        .collect();
    // A device that was replaced is not listed any more.
    let is_part = |one: &Abandoned| {
        let mut devices = devices.iter();
        devices.any(|device: &CandidateDevice| device.guid == one.guid)
    };
    let abandoned: Vec<Abandoned> = settled.abandoned.into_iter().filter(is_part).collect();

    Some(Candidate {
        name: newest.pool_name.clone(),
        guid: newest.pool_guid,
        state: match newest.state {
            LabelState::Exported => CandidateState::Exported,
            LabelState::Destroyed => CandidateState::Destroyed,
            LabelState::Active | LabelState::Spare | LabelState::Cache => CandidateState::Active,
        },
        host_id: newest.host_id,
        host_name: newest.host_name.clone(),
        is_watched: root.is_some_and(|root| root.is_watched),
        note: view.text(LABEL_NOTE),
        devices: CandidateDevices {
            all: devices,
            legs,
            conflicts: settled.conflicts,
            left_out: settled.left_out,
        },
        detail: Opaque::new(Contents {
            config: pool_config(newest, &children),
            txg: newest.txg,
            features_for_read: features_for_read(view),
            behind,
            rejected: settled.rejected,
            abandoned,
            aux: aux.to_vec(),
            are_all,
        }),
    })
}

/// Where the devices were found, by their numbers.
type DevicePaths = HashMap<u64, PathBuf>;

/// The paths of the devices of `labels`.
fn paths_of(labels: &[Label]) -> DevicePaths {
    let places = labels.iter();
    places
        .map(|label| (label.guid, label.path.clone()))
        .collect()
}

/// Labels name features with the organisation that made them, as in `org.freebsd:zstd_compress`.
fn features_for_read(label: NvRef<'_>) -> Vec<String> {
    let entries = label.list("features_for_read").map(NvRef::entries);
    let names = entries.into_iter().flatten().map(|(name, _)| name);
    names
        .map(|name| match name.split_once(':') {
            Some((_, short)) => short.to_owned(),
            None => name,
        })
        .collect()
}

/// The devices that hold the pool's data.
fn legs(
    newest: &Label,
    root: Option<Uberblock>,
    groups: &BTreeMap<u64, &Label>,
    places: &DevicePaths,
    groups_missing: usize,
    let_go: &[(u64, PathBuf)],
) -> Legs {
    let mut gone = newest.list.view().u64s(LABEL_FAILED).to_vec();
    gone.extend(let_go.iter().map(|(guid, _)| *guid));
    let gone = &gone;
    let groups = groups.values().filter_map(|label| {
        let view = label.list.view();
        let marks = Marks {
            gone,
            // An outdated device has no record of later returns.
            failed: (!gone.contains(&label.guid)).then(|| view.u64s(LABEL_FAILED)),
        };
        leg_group(view.list("vdev_tree")?, places, &marks)
    });
    Legs {
        groups: groups.collect(),
        groups_missing,
        pool_guid: newest.pool_guid,
        newest_txg: root.map_or(0, |root| root.txg),
        newest_time_s: root.map_or(0, |root| root.time_s),
        record: newest.list.view().u64(labels::RECORD),
    }
}

/// The marks of failed devices in the labels, by their numbers.
struct Marks<'a> {
    /// The newest label of the pool, and the labels of its detached devices.
    gone: &'a [u64],
    /// The marks in the group's newest label, in addition to the library's own in it; `None` without a mark.
    failed: Option<&'a [u64]>,
}

impl Marks<'_> {
    fn are_on(&self, guid: u64, vdev: NvRef<'_>) -> bool {
        let is_named = |word: String| FAILED_AUX_STATES.contains(&word.as_str());
        let by_library = || {
            FAILED_MARKS.iter().any(|mark| vdev.u64(mark) == Some(1))
                || vdev.text("aux_state").is_some_and(is_named)
        };
        let by_group = |failed: &[u64]| failed.contains(&guid) || by_library();
        self.gone.contains(&guid) || self.failed.is_some_and(by_group)
    }
}

/// A group that holds data; `None` if it holds none, such as one that was removed.
fn leg_group(tree: NvRef<'_>, places: &DevicePaths, marks: &Marks<'_>) -> Option<LegGroup> {
    let kind = tree.text("type")?;
    let members: Vec<Vec<Leg>> = match tree.lists("children") {
        children if children.is_empty() => vec![legs_below(tree, places, marks, 0)],
        children => children
            .into_iter()
            .map(|child| legs_below(child, places, marks, 1))
            .collect(),
    };
    let spare_parts = tree.u64("nparity").unwrap_or(0) + tree.u64("draid_nspares").unwrap_or(0);
    let needed = match kind.as_str() {
        "raidz" | "draid" => members.len().saturating_sub(spare_parts as usize).max(1),
        "indirect" | "hole" | "missing" => return None,
        _ => 1,
    };
    let is_log = tree.u64("is_log") == Some(1);
    Some(LegGroup {
        content: if is_log {
            GroupContent::Log
        } else {
            GroupContent::Data
        },
        members,
        needed,
    })
}

/// The devices of `vdev`.
fn legs_below(vdev: NvRef<'_>, places: &DevicePaths, marks: &Marks<'_>, depth: usize) -> Vec<Leg> {
    let children = vdev.lists("children");
    if !children.is_empty() && depth < DEPTH_MAX {
        let below = children.into_iter();
        return below
            .flat_map(|child| legs_below(child, places, marks, depth + 1))
            .collect();
    }
    // A distributed spare is on the other devices of its group.
    let place = vdev.u64("guid").zip(vdev.text("path"));
    // A distributed spare is on the other devices of its group.
    let Some((guid, path)) = place.filter(|_| vdev.text("type").as_deref() != Some("dspare"))
    else {
        return Vec::new();
    };
    let place = places.get(&guid);
    let labelled = PathBuf::from(path);
    vec![Leg {
        guid,
        path: place.cloned().unwrap_or_else(|| labelled.clone()),
        labelled,
        is_present: place.is_some(),
        is_marked: marks.are_on(guid, vdev),
    }]
}

/// The newest label of each group, by the group's index in the pool.
fn newest_groups(labels: &[Label]) -> BTreeMap<u64, &Label> {
    let mut groups: BTreeMap<u64, &Label> = BTreeMap::new();
    for label in labels {
        let Some(tree) = label.list.view().list("vdev_tree") else {
            continue;
        };
        // The tree in a label is that of its device's group.
        let Some(id) = tree
            .u64("id")
            .filter(|_| tree.u64("guid") == Some(label.top_guid))
        else {
            continue;
        };
        let best = groups.entry(id).or_insert(label);
        if best.txg < label.txg {
            *best = label;
        }
    }
    groups
}

/// The part of a label that describes the pool, with the groups under one root.
fn pool_config(newest: &Label, children: &[NvList]) -> NvList {
    const KEPT: [&str; 10] = [
        "version",
        "name",
        "pool_guid",
        "state",
        "txg",
        "hostid",
        "hostname",
        "comment",
        "compatibility",
        "features_for_read",
    ];
    let view = newest.list.view();
    let mut config = NvList::new();
    for name in KEPT {
        if let Some(value) = view.u64(name) {
            config.set_u64(name, value);
        } else if let Some(value) = view.text(name) {
            config.set_text(name, &value);
        } else if let Some(value) = view.list(name) {
            config.set_list(name, value);
        }
    }
    config.set_u64("vdev_children", children.len() as u64);
    let mut root = NvList::new();
    root.set_text("type", "root")
        .set_u64("id", 0)
        .set_u64("guid", newest.pool_guid)
        .set_lists("children", children);
    config.set_list("vdev_tree", root.view());
    config
}

fn placeholder(kind: &str, id: u64) -> NvList {
    let mut vdev = NvList::new();
    vdev.set_text("type", kind)
        .set_u64("id", id)
        .set_u64("guid", 0);
    vdev
}

/// `vdev` with the paths of the found devices; notes the devices. `are_all`: no other device is expected at its
/// recorded path.
fn with_paths(
    vdev: Option<NvRef<'_>>,
    places: &DevicePaths,
    devices: &mut Vec<CandidateDevice>,
    are_all: bool,
    depth: usize,
) -> NvList {
    let Some(vdev) = vdev.filter(|_| depth < DEPTH_MAX) else {
        return NvList::new();
    };
    let mut copy = vdev.to_owned();
    let children = vdev.lists("children");
    if !children.is_empty() {
        let children: Vec<NvList> = children
            .into_iter()
            .map(|child| with_paths(Some(child), places, devices, are_all, depth + 1))
            .collect();
        copy.set_lists("children", &children);
        return copy;
    }
    let (Some(guid), Some(recorded)) = (vdev.u64("guid"), vdev.text("path")) else {
        return copy;
    };
    let place = places.get(&guid);
    let path = match place {
        Some(place) => place.clone(),
        // Any device there belongs to the original.
        None if are_all => PathBuf::from(format!("{recorded}{OF_THE_ORIGINAL}")),
        None => PathBuf::from(recorded),
    };
    copy.set_text("path", &path.to_string_lossy());
    // Its path on another host; the library would prefer these to the path.
    copy.remove("devid").remove("phys_path");
    devices.push(CandidateDevice {
        path,
        guid,
        present: place.is_some(),
    });
    copy
}
