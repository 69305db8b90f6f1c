//! Finds pools by the labels on their devices, and puts together from them what the library
//! needs to open one. No cache file is ever consulted: on a head that was down it would be stale.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use labels::LabelState;

use super::label::{self, Label};
use crate::nvlist::{NvList, NvRef};

/// Deepest nesting of devices that ZFS makes: a root, a group, a replacement under way, a spare
/// standing in.
const DEPTH_MAX: usize = 8;
/// Groups a pool may name in its labels; more would be garbage.
const GROUPS_MAX: u64 = 4096;
/// The name of our own text in labels (`BH_LABEL_NOTE`).
const LABEL_NOTE: &str = "bulkhead:connections";

/// A pool that could be opened.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Candidate {
    /// The name it was made or last opened with.
    pub name: String,
    /// Its number, which never changes.
    pub guid: u64,
    /// Whether it was exported.
    pub state: LabelState,
    /// Number of the host that used it last.
    pub host_id: Option<u32>,
    /// Name of that host.
    pub host_name: Option<String>,
    /// The newest transaction group that a label names.
    pub txg: u64,
    /// Whether its last owner left signs of life on the devices while it lived, as it does with
    /// `multihost=on`: an import then waits for them.
    pub is_watched: bool,
    /// Its devices, as far as labels tell: of a group without any readable label, nothing is
    /// known.
    pub devices: Vec<CandidateDevice>,
    /// Groups of which no device was found.
    pub groups_missing: usize,
    /// Features without which software cannot even read it, by their short names. Those that only
    /// writing needs are inside the pool, not in its labels.
    pub features_for_read: Vec<String>,
    /// What its last owner left in the labels for the next, by [`Pool::note_in_labels`](crate::Pool::note_in_labels).
    #[serde(skip)]
    pub note: Option<String>,
    #[serde(skip)]
    pub(super) config: NvList,
    /// Spares and caches that were found, of whatever pool: number and place.
    #[serde(skip)]
    aux: Vec<(u64, PathBuf)>,
}

impl Candidate {
    /// Places of spares and caches, by their numbers as text: their labels do not name the pool,
    /// the pool names them.
    pub(super) fn aux_paths(&self) -> NvList {
        let mut paths = NvList::new();
        for (guid, path) in &self.aux {
            paths.set_text(&guid.to_string(), &path.to_string_lossy());
        }
        paths
    }
}

/// A device of a pool that could be opened.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CandidateDevice {
    /// Where it is, or was when it was last seen.
    pub path: PathBuf,
    /// Its number.
    pub guid: u64,
    /// Whether it was found.
    pub present: bool,
}

/// Why a place could not be searched.
#[derive(Debug, thiserror::Error)]
#[error("search {} for pools", path.display())]
pub struct DiscoverError {
    /// What was given.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub cause: std::io::Error,
}

/// Searches `places`: folders (not their subfolders), files and block devices. Reads labels only;
/// takes a millisecond a device, or as long as the slowest device takes to answer.
pub fn discover(places: &[PathBuf]) -> Result<Vec<Candidate>, DiscoverError> {
    Ok(candidates(labels_in(places)?))
}

fn labels_in(places: &[PathBuf]) -> Result<Vec<Label>, DiscoverError> {
    let mut labels = Vec::new();
    for place in places {
        let failed = |cause: std::io::Error| DiscoverError {
            path: place.clone(),
            cause,
        };
        let place = std::path::absolute(place).map_err(failed)?;
        if std::fs::metadata(&place).map_err(failed)?.is_dir() {
            let entries = std::fs::read_dir(&place).map_err(failed)?;
            let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            // In a folder there may be anything; what cannot be read is no device of ours.
            let found = paths.iter().filter(|path| is_device(path));
            labels.extend(found.filter_map(|path| label::read(path).ok().flatten()));
        } else {
            let found = label::read(&place).map_err(|errno| failed(errno.into()))?;
            labels.extend(found);
        }
    }
    Ok(labels)
}

fn is_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() || meta.file_type().is_block_device())
}

/// Groups labels by pool. A device seen under two paths counts once.
fn candidates(labels: Vec<Label>) -> Vec<Candidate> {
    let mut pools: BTreeMap<u64, Vec<Label>> = BTreeMap::new();
    let mut aux = Vec::new();
    for label in labels {
        if matches!(label.state, LabelState::Spare | LabelState::Cache) {
            aux.push((label.guid, label.path));
        } else {
            pools.entry(label.pool_guid).or_default().push(label);
        }
    }
    let mut candidates: Vec<Candidate> = pools.into_values().filter_map(assemble).collect();
    for candidate in &mut candidates {
        candidate.aux.clone_from(&aux);
    }
    candidates
}

/// One pool from the labels of its devices.
fn assemble(labels: Vec<Label>) -> Option<Candidate> {
    let newest = labels.iter().max_by_key(|label| label.txg)?;
    let view = newest.list.view();
    let groups = newest_groups(&labels);
    let count = view
        .u64("vdev_children")
        .or_else(|| groups.keys().max().map(|id| id + 1))?;
    if count > GROUPS_MAX {
        return None;
    }
    let paths: HashMap<u64, &Label> = labels.iter().fold(HashMap::new(), |mut paths, label| {
        let best = paths.entry(label.guid).or_insert(label);
        if best.txg < label.txg {
            *best = label;
        }
        paths
    });

    let holes = view.u64s("hole_array");
    let mut devices = Vec::new();
    let mut groups_missing = 0;
    let children: Vec<NvList> = (0..count)
        .map(|id| match groups.get(&id) {
            Some(label) => {
                let tree = label.list.view().list("vdev_tree");
                with_paths(tree, &paths, &mut devices, 0)
            }
            None if holes.contains(&id) => placeholder("hole", id),
            None => {
                groups_missing += 1;
                placeholder("missing", id)
            }
        })
        .collect();

    Some(Candidate {
        name: newest.pool_name.clone(),
        guid: newest.pool_guid,
        state: newest.state,
        host_id: newest.host_id,
        host_name: newest.host_name.clone(),
        txg: newest.txg,
        is_watched: is_watched(&paths),
        features_for_read: features_for_read(view),
        note: view.text(LABEL_NOTE),
        config: pool_config(newest, &children),
        devices,
        groups_missing,
        aux: Vec::new(),
    })
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

/// Whether the newest uberblock of the devices says so.
fn is_watched(devices: &HashMap<u64, &Label>) -> bool {
    let newest = devices
        .values()
        .map(|label| label::newest_uberblock(&label.path));
    let newest = newest.flatten().max_by_key(|uberblock| uberblock.txg);
    newest.is_some_and(|uberblock| uberblock.is_watched)
}

/// The newest label of each group, by the group's place in the pool.
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

/// `vdev` with the paths where its devices were found; notes the devices.
fn with_paths(
    vdev: Option<NvRef<'_>>,
    found: &HashMap<u64, &Label>,
    devices: &mut Vec<CandidateDevice>,
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
            .map(|child| with_paths(Some(child), found, devices, depth + 1))
            .collect();
        copy.set_lists("children", &children);
        return copy;
    }
    let (Some(guid), Some(recorded)) = (vdev.u64("guid"), vdev.text("path")) else {
        return copy;
    };
    let label = found.get(&guid);
    let path = label.map_or_else(|| PathBuf::from(recorded), |label| label.path.clone());
    copy.set_text("path", &path.to_string_lossy());
    // Where it was plugged in elsewhere; the library would prefer these to the path.
    copy.remove("devid").remove("phys_path");
    devices.push(CandidateDevice {
        path,
        guid,
        present: label.is_some(),
    });
    copy
}
