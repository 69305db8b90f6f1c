//! Predicts the consequences of a change of the devices of a pool. Pure: a function of the observed state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use control::answer::{GroupChange, MovedBytes, PlanView, PoolSpace};
use control::operations::pool::plan::PlannedChange;
use control::operations::pool::{DeviceGroup, GroupKind, GroupRole};
use control::words::{OUTDATED, bytes};
use engine::pool::{DeviceState, DeviceStatus, MoveState, PoolStatus, Role};

use super::group_of;
use super::rate::{self, Copy, MEASURED_S_MIN};
use crate::pool::{ashifts, different_sectors, parity_in};

/// Labels and boot block of a device, which hold no data.
const LABELS_BYTES: u64 = 9 << 19;
/// ZFS reserves this part of a pool for itself, up to a limit.
const SLOP_SHIFT: u32 = 5;
const SLOP_BYTES_MAX: u64 = 128 << 30;
const SLOP_BYTES_MIN: u64 = 128 << 20;

/// The observed state that a plan depends on.
pub struct Facts {
    /// The pool.
    pub status: PoolStatus,
    /// Its usable space, if known.
    pub space: Option<PoolSpace>,
    /// The sizes in bytes of its devices and of the new devices, as far as they are readable.
    pub sizes: BTreeMap<PathBuf, u64>,
    /// Whether groups grow at once when all their devices are larger.
    pub is_autoexpand: bool,
    /// The bound on resilvers in bytes a second.
    pub copy_rate_max: Option<u64>,
}

/// Predicts the consequences of `change`.
pub fn plan(facts: &Facts, change: &PlannedChange) -> PlanView {
    let mut draft = Draft::new(facts);
    let planned = match change {
        PlannedChange::Add { groups } => draft.add(groups),
        PlannedChange::Attach { existing, new } => draft.attach(existing, new),
        PlannedChange::Remove { device } => draft.remove(device),
        PlannedChange::Replace { old, new } => draft.replace(old, new),
        PlannedChange::Expand { device } => draft.expand(device),
    };
    draft.view.refused = planned.err();
    draft.finish()
}

/// A refusal, in a sentence.
type Planned = Result<(), String>;

struct Draft<'a> {
    facts: &'a Facts,
    status: &'a PoolStatus,
    view: PlanView,
    /// The change of the capacity for data, without parity and without the reserve, in bytes.
    usable_change: i128,
}

/// Whether the group has data of the pool.
pub(crate) fn holds_data(group: &DeviceStatus) -> bool {
    matches!(group.role, Role::Data | Role::Special | Role::Dedup)
}

fn is_raidz(group: &DeviceStatus) -> bool {
    matches!(group.kind.as_str(), "raidz" | "draid")
}

fn parity(group: &DeviceStatus) -> usize {
    parity_in(&group.name, &group.kind)
}

/// The members of a group; a single device is its own member.
fn members(group: &DeviceStatus) -> &[DeviceStatus] {
    match group.children.is_empty() {
        true => std::slice::from_ref(group),
        false => &group.children,
    }
}

/// The bytes for data among `size` bytes of a group, which include parity.
fn data_part(group: &DeviceStatus, size: u64) -> u64 {
    match is_raidz(group) {
        true => part(
            size,
            members(group).len().saturating_sub(parity(group)) as u64,
            members(group).len() as u64,
        ),
        false => size,
    }
}

fn part(amount: u64, share: u64, all: u64) -> u64 {
    let part = u128::from(amount) * u128::from(share) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Whether a member has all of its data.
pub(crate) fn is_complete(member: &DeviceStatus) -> bool {
    match member.children.is_empty() {
        true => {
            let note = member.reason.as_deref().unwrap_or_default();
            let is_outdated = note.starts_with(OUTDATED);
            member.state == DeviceState::Online && !member.resilvering && !is_outdated
        }
        false => member.children.iter().any(is_complete),
    }
}

/// The devices that the group can lose now.
pub(crate) fn losses_left(group: &DeviceStatus) -> usize {
    let complete = members(group)
        .iter()
        .filter(|member| is_complete(member))
        .count();
    match is_raidz(group) {
        true => (complete + parity(group)).saturating_sub(members(group).len()),
        false => complete.saturating_sub(1),
    }
}

pub(crate) fn survives(group: &DeviceStatus) -> String {
    let name = &group.name;
    match losses_left(group) {
        0 => format!("{name} survives no loss of a device"),
        1 => format!("{name} survives the loss of one device"),
        count => format!("{name} survives the loss of {count} devices"),
    }
}

/// Space that ZFS reserves in a pool with so many usable bytes.
fn slop(usable: u64) -> u64 {
    let share = (usable >> SLOP_SHIFT).min(SLOP_BYTES_MAX);
    share.max(SLOP_BYTES_MIN.min(usable / 2))
}

/// The group on the command line.
fn words(group: &DeviceGroup, role: &mut GroupRole) -> Vec<String> {
    let mut words = Vec::new();
    if group.role != *role {
        *role = group.role;
        words.push(
            match group.role {
                GroupRole::Data => "",
                GroupRole::Log => "log",
                GroupRole::Cache => "cache",
                GroupRole::Spare => "spare",
            }
            .to_owned(),
        );
    }
    match group.kind {
        GroupKind::Stripe => {}
        GroupKind::Mirror => words.push("mirror".to_owned()),
        GroupKind::Raidz { parity } => words.push(format!("raidz{parity}")),
    }
    let devices = group.devices.iter();
    words.extend(devices.map(|device| device.display().to_string()));
    words
}

impl<'a> Draft<'a> {
    fn new(facts: &'a Facts) -> Self {
        let status = &facts.status;
        let groups = status.devices.iter().filter(|group| holds_data(group));
        let groups = groups.map(|group| GroupChange {
            group: group.name.clone(),
            allocated_before: Some(group.allocated_bytes),
            size_before: Some(group.size_bytes),
            allocated_after: Some(group.allocated_bytes),
            size_after: Some(group.size_bytes),
        });
        Self {
            facts,
            status,
            view: PlanView {
                pool: status.name.clone(),
                groups: groups.collect(),
                ..PlanView::default()
            },
            usable_change: 0,
        }
    }

    /// Names the change and its command.
    fn is(&mut self, change: &str, command: String) {
        self.view.change = change.to_owned();
        self.view.command = format!("bulkhead pool {command}");
    }

    fn group(&self, device: &Path) -> Result<&'a DeviceStatus, String> {
        group_of(self.status, device).ok_or_else(|| {
            format!(
                "pool {0} has no device {1}; `bulkhead pool status {0}` lists them",
                self.status.name,
                device.display()
            )
        })
    }

    fn change_of(&mut self, group: &DeviceStatus) -> Option<&mut GroupChange> {
        let mut groups = self.view.groups.iter_mut();
        groups.find(|change| change.group == group.name)
    }

    fn moved(&mut self, device: &DeviceStatus, read: u64, written: u64) {
        self.view.moves.push(MovedBytes {
            device: device.name.clone(),
            read,
            written,
        });
    }

    fn takes(&mut self, copy: Copy, group: &DeviceStatus) {
        self.view.total = group.allocated_bytes;
        self.view.rate = rate::of(copy, self.status, group, self.facts.copy_rate_max);
        let rate = self.view.rate.as_ref();
        self.view.duration_s =
            rate.map(|rate| (self.view.total + rate.bytes_per_s / 2) / rate.bytes_per_s);
        if rate.is_none() {
            self.view.notes.push(format!(
                "the duration is unknown: no scrub or resilver of {MEASURED_S_MIN} s or more was measured since the pool was opened; \
                 `bulkhead pool scrub {} --wait` measures the rate",
                self.status.name
            ));
        }
    }

    fn is_idle(&self) -> Planned {
        let name = &self.status.name;
        let runs = |moved: &Option<engine::pool::MoveStatus>| {
            moved
                .as_ref()
                .is_some_and(|moved| moved.state == MoveState::Running)
        };
        match (runs(&self.status.removal), runs(&self.status.expansion)) {
            (true, _) => Err(format!(
                "a removal runs: `bulkhead pool status {name}` shows its end"
            )),
            (_, true) => Err(format!(
                "an expansion runs: `bulkhead pool status {name}` shows its end"
            )),
            _ => Ok(()),
        }
    }

    fn add(&mut self, groups: &[DeviceGroup]) -> Planned {
        let mut role = GroupRole::Data;
        let all = groups.iter().flat_map(|group| words(group, &mut role));
        let all: Vec<String> = all.collect();
        self.is("add", format!("add {} {}", self.status.name, all.join(" ")));
        self.view
            .meanwhile
            .push("the redundancy of the present groups stays the same".to_owned());
        let data = groups.iter().filter(|group| group.role == GroupRole::Data);
        let mut has_data = false;
        for group in data {
            has_data = true;
            match group.kind {
                GroupKind::Stripe => {
                    for device in &group.devices {
                        self.new_group(device.display().to_string(), &[device], (1, 1));
                    }
                }
                GroupKind::Mirror => {
                    let devices: Vec<&PathBuf> = group.devices.iter().collect();
                    self.new_group(words(group, &mut role).join(" "), &devices, (1, 1));
                }
                GroupKind::Raidz { parity } => {
                    let devices: Vec<&PathBuf> = group.devices.iter().collect();
                    let all = devices.len() as u64;
                    let data = all.saturating_sub(u64::from(parity));
                    self.new_group(words(group, &mut role).join(" "), &devices, (data, all));
                }
            }
        }
        if has_data {
            self.view.notes.push(
                "data that is written already stays in its group; new data goes mostly to the groups with the most free space"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// A group of devices of which the smallest one limits the size. `shares`: data disks and all disks of a raidz.
    fn new_group(&mut self, name: String, devices: &[&PathBuf], shares: (u64, u64)) {
        let sizes = devices.iter().map(|device| self.facts.sizes.get(*device));
        let smallest = sizes.collect::<Option<Vec<_>>>();
        let smallest = smallest.and_then(|sizes| sizes.into_iter().min().copied());
        let smallest = smallest.map(|size| size.saturating_sub(LABELS_BYTES));
        let (data, all) = shares;
        let size = smallest.map(|size| size.saturating_mul(all));
        match smallest {
            Some(size) => self.usable_change += i128::from(size) * i128::from(data),
            None => self.view.notes.push(format!(
                "the size of {name} is unknown: a device cannot be read here"
            )),
        }
        self.view.groups.push(GroupChange {
            group: name,
            allocated_before: None,
            size_before: None,
            allocated_after: size.map(|_| 0),
            size_after: size,
        });
    }

    fn attach(&mut self, existing: &Path, new: &Path) -> Planned {
        let (name, old, new_name) = (&self.status.name, existing.display(), new.display());
        self.is("attach", format!("attach {name} {old} {new_name}"));
        let group = self.group(existing)?;
        self.is_idle()?;
        self.fits(group, new)?;
        match is_raidz(group) {
            true => self.widen(group, existing, new),
            false => {
                if !holds_data(group) && group.role != Role::Log {
                    return Err(format!(
                        "{} is a {}, which has no copies; `bulkhead pool add {name}` adds one more",
                        group.name,
                        role_name(group.role)
                    ));
                }
                self.fill(group, None, new);
                self.view.meanwhile.push(survives(group));
                self.takes(Copy::Resilver, group);
                Ok(())
            }
        }
    }

    /// Refuses a new device that is smaller than the group requires.
    fn fits(&self, group: &DeviceStatus, new: &Path) -> Planned {
        let needed = members(group).iter().map(|member| member.needed_bytes);
        let needed = needed.filter(|needed| *needed > 0).min().unwrap_or(0);
        match self.facts.sizes.get(new) {
            Some(size) if *size < needed => Err(format!(
                "{} has {}, and {} needs {needed} bytes ({}): choose a larger device",
                new.display(),
                bytes(*size),
                group.name,
                bytes(needed)
            )),
            _ => Ok(()),
        }
    }

    /// A raidz group gains a device.
    fn widen(&mut self, group: &DeviceStatus, existing: &Path, new: &Path) -> Planned {
        const FEATURE: &str = "raidz_expansion";
        let name = &self.status.name;
        if existing != Path::new(&group.name) {
            return Err(format!(
                "{} is a member of {1}: name the group, `bulkhead pool attach {name} {1} {2}`",
                existing.display(),
                group.name,
                new.display()
            ));
        }
        if group.kind != "raidz" {
            return Err(format!(
                "{} is a draid, which cannot gain a device",
                group.name
            ));
        }
        let mut features = self.status.features.iter();
        if !features.any(|feature| feature.name.ends_with(FEATURE)) {
            return Err(format!(
                "the feature {FEATURE} is not enabled; `bulkhead pool set {name} feature@{FEATURE}=enabled` enables it"
            ));
        }
        if members(group).iter().any(|member| !is_complete(member)) {
            return Err(format!(
                "{} is not complete: repair its devices first, `bulkhead pool status {name}` shows how",
                group.name
            ));
        }
        let (count, allocated) = (members(group).len() as u64, group.allocated_bytes);
        for member in members(group) {
            self.moved(member, allocated / count, part(allocated, 1, count + 1));
        }
        self.view.moves.push(MovedBytes {
            device: new.display().to_string(),
            read: 0,
            written: part(allocated, 1, count + 1),
        });
        let size = part(group.size_bytes, count + 1, count);
        let more = size - group.size_bytes;
        self.usable_change += i128::from(data_part(group, more));
        if let Some(change) = self.change_of(group) {
            change.size_after = Some(size);
        }
        self.view.meanwhile.push(survives(group));
        self.view.notes.push(format!(
            "blocks that are written already keep their ratio of data and parity; {} is scrubbed after the expansion",
            group.name
        ));
        self.takes(Copy::Expansion, group);
        Ok(())
    }

    /// A new device is filled from the devices of its group. `old`: the one that leaves.
    fn fill(&mut self, group: &DeviceStatus, old: Option<&DeviceStatus>, new: &Path) {
        let allocated = group.allocated_bytes;
        let sources: Vec<&DeviceStatus> = members(group)
            .iter()
            .filter(|member| is_complete(member))
            .filter(|member| !is_raidz(group) || old.is_none_or(|old| old.guid != member.guid))
            .collect();
        let count = members(group).len() as u64;
        let (read, written) = match is_raidz(group) {
            true => (allocated / count, allocated / count),
            false => (part(allocated, 1, sources.len() as u64), allocated),
        };
        for source in sources {
            self.moved(source, read, 0);
        }
        self.view.moves.push(MovedBytes {
            device: new.display().to_string(),
            read: 0,
            written,
        });
    }

    fn replace(&mut self, old: &Path, new: &Path) -> Planned {
        let name = &self.status.name;
        let command = format!("replace {name} {} {}", old.display(), new.display());
        self.is("replace", command);
        let group = self.group(old)?;
        let found = self.status.find(&old.to_string_lossy());
        let leaf = found.filter(|found| found.children.is_empty());
        let leaf = leaf.ok_or_else(|| {
            format!(
                "{} is a group: name one of its devices; `bulkhead pool status {name}` lists them",
                old.display()
            )
        })?;
        if matches!(group.role, Role::Cache | Role::Spare) {
            return Err(format!(
                "{0} is a {1}, which has no data: `bulkhead pool remove {name} {0}` and `bulkhead pool add {name} {1} {2}` replace it",
                leaf.name,
                role_name(group.role),
                new.display()
            ));
        }
        self.is_idle()?;
        self.fits(group, new)?;
        self.fill(group, Some(leaf), new);
        self.view.meanwhile.push(survives(group));
        self.view.meanwhile.push(match is_complete(leaf) {
            true => format!("{} stays in use until the copy is complete", leaf.name),
            false => format!(
                "{} is not in use: a loss beyond that loses the pool",
                leaf.name
            ),
        });
        self.grown(group, Some((leaf, new)));
        self.takes(Copy::Resilver, group);
        Ok(())
    }

    /// The size of a group when all of its devices are used with their present sizes.
    fn grown(&mut self, group: &DeviceStatus, replaced: Option<(&DeviceStatus, &Path)>) {
        let size_of = |member: &DeviceStatus| {
            let path = match replaced {
                Some((old, new)) if old.guid == member.guid => new,
                _ => Path::new(&member.name),
            };
            self.facts.sizes.get(path).copied()
        };
        let sizes = members(group).iter().map(size_of);
        let Some(smallest) = sizes
            .collect::<Option<Vec<u64>>>()
            .and_then(|all| all.into_iter().min())
        else {
            return;
        };
        let count = match is_raidz(group) {
            true => members(group).len() as u64,
            false => 1,
        };
        let size = smallest.saturating_sub(LABELS_BYTES).saturating_mul(count);
        // A group has whole metaslabs only: a smaller difference is no growth.
        let step = group.size_bytes / 16;
        if size < group.size_bytes.saturating_add(step) || !holds_data(group) {
            return;
        }
        if replaced.is_some() && !self.facts.is_autoexpand {
            self.view.notes.push(format!(
                "{0} can grow to {1}: `bulkhead pool set {2} autoexpand=on` before the replacement lets it grow at the end",
                group.name,
                bytes(size),
                self.status.name
            ));
            return;
        }
        self.usable_change += i128::from(data_part(group, size - group.size_bytes));
        if let Some(change) = self.change_of(group) {
            change.size_after = Some(size);
        }
    }

    fn expand(&mut self, device: &Path) -> Planned {
        let name = &self.status.name;
        let command = format!("online {name} {} --expand", device.display());
        self.is("expand", command);
        let group = self.group(device)?;
        self.view.meanwhile.push(survives(group));
        self.grown(group, None);
        let has_grown = self
            .change_of(group)
            .is_some_and(|change| change.size_after != change.size_before);
        match has_grown {
            true if group.children.len() > 1 => self.view.notes.push(format!(
                "{} grows when the command was given for each of its devices",
                group.name
            )),
            true => {}
            false => self.view.notes.push(format!(
                "{} does not grow: one of its devices is not larger than the size in use, or cannot be read here",
                group.name
            )),
        }
        Ok(())
    }

    fn remove(&mut self, device: &Path) -> Planned {
        let name = &self.status.name;
        self.is("remove", format!("remove {name} {}", device.display()));
        let group = self.group(device)?;
        if !holds_data(group) {
            let what = format!("{} has no data that moves", device.display());
            self.view.notes.push(what);
            self.view
                .meanwhile
                .push("the redundancy of the groups of data stays the same".to_owned());
            return Ok(());
        }
        self.may_leave(group, device)?;
        self.evacuate(group);
        self.view.meanwhile.push(survives(group));
        self.view.notes.push(format!(
            "the pool stores a table of the moved blocks of {}, a part of which stays in memory",
            group.name
        ));
        self.takes(Copy::Removal, group);
        Ok(())
    }

    /// The conditions under which the library removes a group of data.
    fn may_leave(&self, group: &DeviceStatus, device: &Path) -> Planned {
        let name = &self.status.name;
        let data: Vec<&DeviceStatus> = self
            .status
            .devices
            .iter()
            .filter(|one| holds_data(one))
            .collect();
        let is_member = self
            .status
            .find(&device.to_string_lossy())
            .is_some_and(|found| found.guid != group.guid);
        if let Some(raidz) = self.status.devices.iter().find(|one| is_raidz(one)) {
            return Err(format!(
                "pool {name} has the raidz group {}, and no group of such a pool can be removed; \
                 `bulkhead snapshot send` moves the data to a pool of another shape",
                raidz.name
            ));
        }
        if is_member {
            return Err(format!(
                "{0} is a member of {1}: `bulkhead pool detach {name} {0}` takes it out of the mirror, `bulkhead pool remove {name} {1}` removes the group",
                device.display(),
                group.name
            ));
        }
        if data.len() < 2 {
            return Err(format!("{} is the only group of data", group.name));
        }
        let shifts = ashifts(self.status);
        if shifts.len() > 1 {
            return Err(different_sectors(&shifts));
        }
        self.is_idle()?;
        if members(group).iter().any(|member| !is_complete(member)) {
            return Err(format!(
                "{} is not complete: repair its devices first, `bulkhead pool status {name}` shows how",
                group.name
            ));
        }
        let Some(space) = &self.facts.space else {
            return Ok(());
        };
        let needed = group.size_bytes.saturating_add(slop(space.usable));
        match space.available < needed {
            true => Err(format!(
                "the other groups have no room: the removal needs {} of free space, which is the size of {} and the reserve of the pool, \
                 and {} are available; destroy data, or add a group first",
                bytes(needed),
                group.name,
                bytes(space.available)
            )),
            false => Ok(()),
        }
    }

    /// Spreads the data of a leaving group over the other groups by their free space.
    fn evacuate(&mut self, group: &DeviceStatus) {
        let status = self.status;
        let targets: Vec<&DeviceStatus> = status
            .devices
            .iter()
            .filter(|one| one.role == Role::Data && one.guid != group.guid)
            .collect();
        let free = |one: &DeviceStatus| one.size_bytes.saturating_sub(one.allocated_bytes);
        let all_free: u64 = targets.iter().map(|one| free(one)).sum();
        for member in members(group) {
            self.moved(member, group.allocated_bytes, 0);
        }
        for target in targets {
            let written = part(group.allocated_bytes, free(target), all_free);
            for member in members(target) {
                self.moved(member, 0, written);
            }
            if let Some(change) = self.change_of(target) {
                change.allocated_after = Some(target.allocated_bytes.saturating_add(written));
            }
        }
        self.usable_change -= i128::from(data_part(group, group.size_bytes));
        if let Some(change) = self.change_of(group) {
            (change.allocated_after, change.size_after) = (None, None);
        }
    }

    fn finish(self) -> PlanView {
        let mut view = self.view;
        if view.refused.is_some() {
            return PlanView {
                moves: Vec::new(),
                total: 0,
                rate: None,
                duration_s: None,
                meanwhile: Vec::new(),
                notes: Vec::new(),
                ..view
            };
        }
        if let Some(space) = &self.facts.space {
            // The reserve of the pool grows with it.
            let change = self.usable_change - (self.usable_change >> SLOP_SHIFT);
            let after = i128::from(space.usable) + change;
            let after = u64::try_from(after.max(0)).unwrap_or(u64::MAX);
            let used = space.usable.saturating_sub(space.available);
            view.usable_before = Some(space.usable);
            view.usable_after = Some(after);
            view.full_percent_before = Some(part(100, used, space.usable));
            view.full_percent_after = Some(part(100, used, after));
        }
        view
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Data => "group",
        Role::Log => "log",
        Role::Special => "special group",
        Role::Dedup => "group for deduplication",
        Role::Cache => "cache",
        Role::Spare => "spare",
    }
}
