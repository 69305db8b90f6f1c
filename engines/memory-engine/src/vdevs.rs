//! The devices of a pool, and the consequences of their failures.

use std::path::{Path, PathBuf};

use engine::pool::{
    DeviceState, GroupKind, GroupRole, GroupSpec, PoolErrorKind, ScanKind, ScanState, ScanStatus,
};

use crate::numbers::{new_guid, now_s};

/// Why a device is not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trouble {
    #[default]
    None,
    /// Offline; if true, until the next import.
    Offline(bool),
    Faulted,
    Missing,
}

/// A device.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) guid: u64,
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    pub(crate) trouble: Trouble,
    pub(crate) errors: u64,
    /// Whether its resilver is incomplete.
    pub(crate) is_filling: bool,
}

impl Leaf {
    pub(crate) fn new(path: &Path, size: u64) -> Self {
        Self {
            guid: new_guid(),
            path: path.to_owned(),
            size,
            trouble: Trouble::None,
            errors: 0,
            is_filling: false,
        }
    }

    pub(crate) fn state(&self) -> DeviceState {
        match self.trouble {
            Trouble::None => DeviceState::Online,
            Trouble::Offline(_) => DeviceState::Offline,
            Trouble::Faulted => DeviceState::Faulted,
            Trouble::Missing => DeviceState::Unavailable,
        }
    }

    fn serves(&self) -> bool {
        self.trouble == Trouble::None && !self.is_filling
    }
}

/// One of the devices that work together; while it is replaced, the old and the new one.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Of the replacement.
    pub(crate) guid: u64,
    pub(crate) leaves: Vec<Leaf>,
}

impl Member {
    pub(crate) fn of(leaf: Leaf) -> Self {
        Self {
            guid: new_guid(),
            leaves: vec![leaf],
        }
    }

    fn serves(&self) -> bool {
        self.leaves.iter().any(Leaf::serves)
    }
}

/// Devices that work together.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) guid: u64,
    /// Its number among all groups.
    pub(crate) id: u64,
    pub(crate) role: GroupRole,
    pub(crate) kind: GroupKind,
    pub(crate) members: Vec<Member>,
}

impl Group {
    /// How many members it can lose.
    pub(crate) fn losses_max(&self) -> usize {
        match self.kind.parity() {
            Some(parity) => parity as usize,
            None => self.members.len() - 1,
        }
    }

    /// Returns whether all its data is available.
    pub(crate) fn is_whole(&self) -> bool {
        let lost = self
            .members
            .iter()
            .filter(|member| !member.serves())
            .count();
        lost <= self.losses_max()
    }

    /// As messages call it.
    pub(crate) fn name(&self) -> String {
        match (self.kind.parity(), &self.members[..]) {
            (Some(parity), _) => format!("raidz{parity}-{}", self.id),
            (None, [only]) => only.leaves[0].path.to_string_lossy().into_owned(),
            (None, _) => format!("mirror-{}", self.id),
        }
    }

    /// Bytes for data.
    pub(crate) fn size(&self) -> u64 {
        let sizes = self
            .members
            .iter()
            .flat_map(|member| &member.leaves)
            .map(|leaf| leaf.size);
        let smallest = sizes.min().unwrap_or(0);
        match self.kind.parity() {
            Some(parity) => smallest * (self.members.len() as u64 - parity),
            None => smallest,
        }
    }
}

/// All devices of a pool.
#[derive(Debug, Default)]
pub(crate) struct Vdevs {
    pub(crate) groups: Vec<Group>,
    pub(crate) scan: Option<ScanStatus>,
    /// Whether scans stay active until a test finishes them.
    pub(crate) holds_scans: bool,
    pub(crate) is_suspended: bool,
    next_id: u64,
}

/// Where a leaf is.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) group: usize,
    pub(crate) member: usize,
    pub(crate) leaf: usize,
}

/// Checks that the requested groups can be created.
pub(crate) fn check_groups(groups: &[GroupSpec]) -> Result<(), PoolErrorKind> {
    let shape = |why: String| Err(PoolErrorKind::Shape { why });
    for group in groups {
        let (kind, least) = (group.kind, group.kind.devices_min());
        if group.devices.len() < least {
            return shape(format!("a {kind:?} needs at least {least} devices"));
        }
        match group.role {
            GroupRole::Log if kind.parity().is_some() => {
                return shape("a log is one device or a mirror".to_owned());
            }
            GroupRole::Cache | GroupRole::Spare if kind != GroupKind::Stripe => {
                return shape("caches and spares are single devices".to_owned());
            }
            _ => {}
        }
    }
    Ok(())
}

impl Vdevs {
    /// Adds groups; `size_of` returns the size of a device.
    pub(crate) fn add(&mut self, groups: &[GroupSpec], size_of: impl Fn(&Path) -> u64) {
        for spec in groups {
            let members: Vec<Member> = spec
                .devices
                .iter()
                .map(|path| Member::of(Leaf::new(path, size_of(path))))
                .collect();
            let tops = match spec.kind {
                GroupKind::Stripe => members.into_iter().map(|member| vec![member]).collect(),
                _ => vec![members],
            };
            for members in tops {
                self.groups.push(Group {
                    guid: new_guid(),
                    id: self.next_id,
                    role: spec.role,
                    kind: spec.kind,
                    members,
                });
                self.next_id += 1;
            }
        }
    }

    /// Bytes of all groups for data.
    pub(crate) fn size(&self) -> u64 {
        let data = self
            .groups
            .iter()
            .filter(|group| group.role == GroupRole::Data);
        data.map(Group::size).sum()
    }

    pub(crate) fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        let members = self.groups.iter().flat_map(|group| &group.members);
        members.flat_map(|member| &member.leaves)
    }

    pub(crate) fn leaves_mut(&mut self) -> impl Iterator<Item = &mut Leaf> {
        let members = self.groups.iter_mut().flat_map(|group| &mut group.members);
        members.flat_map(|member| &mut member.leaves)
    }

    /// The group of that name or number that has more than one device.
    pub(crate) fn group(&self, name: &str) -> Option<usize> {
        let is_it = |group: &Group| group.name() == name || group.guid.to_string() == name;
        self.groups
            .iter()
            .position(|group| is_it(group) && group.members.len() > 1)
    }

    /// The device of that path or number.
    pub(crate) fn place(&self, name: &str) -> Option<Place> {
        let is_it = |leaf: &Leaf| leaf.path == Path::new(name) || leaf.guid.to_string() == name;
        for (group, one) in self.groups.iter().enumerate() {
            for (member, inner) in one.members.iter().enumerate() {
                // Of an old and a new device at one path, the new one is selected.
                if let Some(leaf) = inner.leaves.iter().rposition(is_it) {
                    return Some(Place {
                        group,
                        member,
                        leaf,
                    });
                }
            }
        }
        None
    }

    pub(crate) fn leaf(&mut self, at: Place) -> &mut Leaf {
        &mut self.groups[at.group].members[at.member].leaves[at.leaf]
    }

    /// Returns whether every required group has all its data.
    pub(crate) fn are_enough(&self) -> bool {
        let data = self
            .groups
            .iter()
            .filter(|group| group.role == GroupRole::Data);
        data.into_iter().all(Group::is_whole)
    }

    /// Returns whether the pool would still have all its data after `change`.
    pub(crate) fn would_do(&self, change: impl FnOnce(&mut Self)) -> bool {
        let mut other = Self {
            groups: self.groups.clone(),
            ..Self::default()
        };
        change(&mut other);
        let needed = |group: &&Group| matches!(group.role, GroupRole::Data | GroupRole::Log);
        other.groups.iter().filter(needed).all(Group::is_whole)
    }

    /// Suspends the pool if its devices are too few now.
    pub(crate) fn notice_losses(&mut self) {
        self.is_suspended |= !self.are_enough();
    }

    /// Begins a scan, which completes at once unless scans are held.
    pub(crate) fn begin_scan(&mut self, kind: ScanKind, total_bytes: u64) {
        self.scan = Some(ScanStatus {
            kind,
            state: ScanState::Running,
            started_s: now_s(),
            ended_s: 0,
            total_bytes,
            done_bytes: 0,
            repaired_bytes: 0,
            errors: 0,
            remaining_s: None,
            bytes_per_s: None,
            percent: 0.0,
        });
        if !self.holds_scans {
            self.end_scan(ScanState::Finished);
        }
    }

    /// Completes the active scan.
    pub(crate) fn end_scan(&mut self, state: ScanState) {
        let Some(scan) = self.scan.as_mut() else {
            return;
        };
        scan.state = state;
        scan.ended_s = now_s();
        if state == ScanState::Finished {
            scan.done_bytes = scan.total_bytes;
            scan.percent = 100.0;
            self.fill();
        }
    }

    /// Completes resilvers, and detaches replaced devices.
    fn fill(&mut self) {
        self.leaves_mut()
            .filter(|leaf| leaf.trouble == Trouble::None)
            .for_each(|leaf| leaf.is_filling = false);
        let members = self.groups.iter_mut().flat_map(|group| &mut group.members);
        for member in members {
            let new = member.leaves.len() - 1;
            if new > 0 && member.leaves[new].serves() {
                member.leaves.drain(..new);
            }
        }
    }

    /// Detaches the leaf from the replacement; the remaining one stays.
    pub(crate) fn remove_leaf(&mut self, at: Place) {
        let group = &mut self.groups[at.group];
        group.members[at.member].leaves.remove(at.leaf);
        if group.members[at.member].leaves.is_empty() {
            group.members.remove(at.member);
        }
        if self.groups[at.group].members.is_empty() {
            self.groups.remove(at.group);
        }
    }
}
