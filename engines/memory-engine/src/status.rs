//! How a pool in memory is doing.

use std::time::Duration;

use engine::capabilities::{Health, Upkeep};
use engine::dataset::Damage;
use engine::pool::{
    DeviceState, DeviceStatus, FeatureStatus, GroupRole, Load, PoolError, PoolErrorKind,
    PoolHealth, PoolStatus, ReadBalancing, Resumption, Role, ScanKind, ScanState, ScrubCommand,
    Suspension, TrimCommand,
};

use crate::state::{MemoryPool, State};
use crate::vdevs::{Group, Leaf, Member, Trouble, Vdevs};

const fn role(role: GroupRole) -> Role {
    match role {
        GroupRole::Data => Role::Data,
        GroupRole::Log => Role::Log,
        GroupRole::Cache => Role::Cache,
        GroupRole::Spare => Role::Spare,
    }
}

/// Returns a device or group with only these properties.
fn plain(name: String, kind: &str, guid: u64, role: Role, state: DeviceState) -> DeviceStatus {
    DeviceStatus {
        name,
        kind: kind.to_owned(),
        guid,
        role,
        state,
        reason: None,
        read_errors: 0,
        write_errors: 0,
        checksum_errors: 0,
        slow_io: 0,
        read_count: 0,
        write_count: 0,
        read_bytes: 0,
        write_bytes: 0,
        allocated_bytes: 0,
        size_bytes: 0,
        needed_bytes: 0,
        expandable_bytes: 0,
        ashift: 0,
        fragmentation_percent: None,
        repaired_bytes: 0,
        resilvering: false,
        children: Vec::new(),
    }
}

fn of_leaf(leaf: &Leaf, of: Role) -> DeviceStatus {
    let state = match leaf.state() {
        DeviceState::Online if of == Role::Spare => DeviceState::Available,
        state => state,
    };
    let reason = match leaf.trouble {
        Trouble::None | Trouble::Offline(_) => None,
        Trouble::Faulted => Some("too many errors".to_owned()),
        Trouble::Missing => Some("it does not exist".to_owned()),
    };
    DeviceStatus {
        reason,
        checksum_errors: leaf.errors,
        size_bytes: leaf.size,
        needed_bytes: leaf.size,
        resilvering: leaf.is_filling && leaf.trouble == Trouble::None,
        ..plain(
            leaf.path.to_string_lossy().into_owned(),
            "file",
            leaf.guid,
            of,
            state,
        )
    }
}

/// Returns the state of a group with these members, of which it can lose some.
fn with_members(losses_max: usize, members: &[DeviceStatus]) -> DeviceState {
    let serves = |one: &&DeviceStatus| {
        let is_full = !one.resilvering;
        is_full && matches!(one.state, DeviceState::Online | DeviceState::Degraded)
    };
    let lost = members.len() - members.iter().filter(serves).count();
    let is_whole = members.iter().all(|one| one.state == DeviceState::Online);
    match (lost > losses_max, is_whole) {
        (true, _) => DeviceState::Unavailable,
        (false, true) => DeviceState::Online,
        (false, false) => DeviceState::Degraded,
    }
}

fn of_member(index: usize, member: &Member, of: Role) -> DeviceStatus {
    let mut leaves: Vec<DeviceStatus> =
        member.leaves.iter().map(|leaf| of_leaf(leaf, of)).collect();
    if leaves.len() == 1 {
        return leaves.remove(0);
    }
    let state = with_members(leaves.len() - 1, &leaves);
    DeviceStatus {
        children: leaves,
        ..plain(
            format!("replacing-{index}"),
            "replacing",
            member.guid,
            of,
            state,
        )
    }
}

fn of_group(group: &Group) -> DeviceStatus {
    let of = role(group.role);
    let members = group.members.iter().enumerate();
    let mut members: Vec<DeviceStatus> = members
        .map(|(index, one)| of_member(index, one, of))
        .collect();
    if members.len() == 1 && group.kind.parity().is_none() {
        return members.remove(0);
    }
    let kind = if group.kind.parity().is_some() {
        "raidz"
    } else {
        "mirror"
    };
    let state = with_members(group.losses_max(), &members);
    DeviceStatus {
        size_bytes: group.size(),
        children: members,
        ..plain(group.name(), kind, group.guid, of, state)
    }
}

impl Vdevs {
    /// Groups and devices, caches and spares last.
    fn statuses(&self) -> Vec<DeviceStatus> {
        let rank = |group: &&Group| match group.role {
            GroupRole::Data | GroupRole::Log => 0,
            GroupRole::Cache => 1,
            GroupRole::Spare => 2,
        };
        let mut groups: Vec<&Group> = self.groups.iter().collect();
        groups.sort_by_key(rank);
        groups.into_iter().map(of_group).collect()
    }

    fn state(&self) -> DeviceState {
        let all = self.statuses();
        let of = |wanted: Role| {
            let of_it = all.iter().filter(|one| one.role == wanted).cloned();
            of_it.collect::<Vec<DeviceStatus>>()
        };
        match with_members(0, &of(Role::Data)) {
            DeviceState::Online => match of(Role::Log)
                .iter()
                .all(|log| log.state == DeviceState::Online)
            {
                true => DeviceState::Online,
                false => DeviceState::Degraded,
            },
            state => state,
        }
    }

    fn suspension(&self) -> Option<Suspension> {
        self.is_suspended.then_some(Suspension::DevicesFailed)
    }
}

impl State {
    fn allocated(&self) -> u64 {
        let charge = self.tree.charge(self.name.as_str());
        let reserved: u64 = self
            .tree
            .datasets
            .keys()
            .map(|name| self.tree.charge(name).by_reservation)
            .sum();
        charge.used().saturating_sub(reserved)
    }

    fn features(&self) -> Vec<FeatureStatus> {
        let features = self.properties.iter().filter_map(|(name, value)| {
            let name = name.strip_prefix("feature@")?;
            (value != "disabled").then(|| FeatureStatus {
                name: format!("org.openzfs:{name}"),
                active: value == "active",
            })
        });
        features.collect()
    }

    fn status(&self) -> PoolStatus {
        let (size, allocated) = (self.vdevs.size(), self.allocated());
        let mut status = PoolStatus {
            name: self.name.to_string(),
            guid: self.guid,
            state: self.vdevs.state(),
            suspended: self.vdevs.suspension(),
            damaged: 0,
            size_bytes: size,
            allocated_bytes: allocated,
            free_bytes: size.saturating_sub(allocated),
            fragmentation_percent: Some(0),
            dedup: None,
            scan: self.vdevs.scan.clone(),
            removal: None,
            expansion: None,
            devices: self.vdevs.statuses(),
            left_out: Vec::new(),
            load: Load {
                name: self.name.to_string(),
                size_bytes: size,
                allocated_bytes: allocated,
                ..Load::default()
            },
            features: self.features(),
            advice: Vec::new(),
        };
        status.advice = status.general_advice();
        status
    }

    fn scrub(&mut self, command: ScrubCommand) -> Result<(), &'static str> {
        let state = self.vdevs.scan.as_ref().map(|scan| (scan.kind, scan.state));
        let is_scrub = |wanted: ScanState| state == Some((ScanKind::Scrub, wanted));
        let is_running = state.is_some_and(|(_, state)| state == ScanState::Running);
        match command {
            ScrubCommand::Start if is_running => Err("a scrub or resilver is under way"),
            ScrubCommand::Start if is_scrub(ScanState::Paused) => {
                self.set_scan(ScanState::Running);
                Ok(())
            }
            ScrubCommand::Start => {
                let bytes = self.allocated();
                self.vdevs.begin_scan(ScanKind::Scrub, bytes);
                Ok(())
            }
            ScrubCommand::Pause if is_scrub(ScanState::Running) => {
                self.set_scan(ScanState::Paused);
                Ok(())
            }
            ScrubCommand::Cancel if is_scrub(ScanState::Running) || is_scrub(ScanState::Paused) => {
                self.vdevs.end_scan(ScanState::Canceled);
                Ok(())
            }
            ScrubCommand::Pause | ScrubCommand::Cancel => Err("no scrub is under way"),
        }
    }

    fn set_scan(&mut self, state: ScanState) {
        if let Some(scan) = self.vdevs.scan.as_mut() {
            scan.state = state;
        }
    }

    /// Clears errors, and uses devices again that were faulted for them.
    fn clear(&mut self, device: Option<&str>) {
        let wanted = device.and_then(|device| self.vdevs.place(device));
        let wanted = wanted.map(|at| self.vdevs.leaf(at).guid);
        for leaf in self.vdevs.leaves_mut() {
            if wanted.is_none_or(|guid| guid == leaf.guid) {
                leaf.errors = 0;
                if leaf.trouble == Trouble::Faulted {
                    leaf.trouble = Trouble::None;
                }
            }
        }
    }
}

impl MemoryPool {
    /// Whether the pool has the device that a command names.
    fn check_device(
        &self,
        state: &State,
        doing: &'static str,
        device: Option<&str>,
    ) -> Result<(), PoolError> {
        match device {
            Some(name)
                if state.vdevs.place(name).is_none() && state.vdevs.group(name).is_none() =>
            {
                let device = name.to_owned();
                Err(self.refused(doing, PoolErrorKind::NoSuchDevice { device }))
            }
            _ => Ok(()),
        }
    }

    /// Completes the active scan: all data is in its final location.
    pub fn finish_scan(&self) {
        self.lock().vdevs.end_scan(ScanState::Finished);
    }

    /// The device has so many wrong blocks more.
    ///
    /// # Panics
    /// If there is no such device.
    pub fn add_errors(&self, device: &str, count: u64) {
        let mut state = self.lock();
        let at = state.vdevs.place(device).expect("a device");
        state.vdevs.leaf(at).errors += count;
    }
}

impl Health for MemoryPool {
    fn status(&self) -> Result<PoolStatus, PoolError> {
        let status = self.begin_pool("status", "look at")?.status();
        Ok(match self.shared.world.is_volumes_only {
            true => PoolStatus {
                devices: Vec::new(),
                features: Vec::new(),
                scan: None,
                ..status
            },
            false => status,
        })
    }

    fn health(&self) -> Option<PoolHealth> {
        let state = self.lock();
        Some(PoolHealth {
            state: state.vdevs.state(),
            suspended: state.vdevs.suspension(),
            synced_txg: state.tree.txg,
            since_sync: Duration::ZERO,
            unrecorded: None,
        })
    }
}

impl Upkeep for MemoryPool {
    fn scrub(&self, command: ScrubCommand) -> Result<(), PoolError> {
        const DOING: &str = "scrub";
        let mut state = self.begin_pool_change("scrub", DOING)?;
        let done = state.scrub(command);
        done.map_err(|why| {
            self.refused(
                DOING,
                PoolErrorKind::NothingToDo {
                    why: why.to_owned(),
                },
            )
        })
    }

    /// Its scans take no time.
    fn bound_copies(&self, _: Option<u64>) {}

    /// Its devices are memory of this host.
    fn balance_reads(&self, _: ReadBalancing) {}

    fn trim(&self, _: TrimCommand) -> Result<(), PoolError> {
        self.begin_pool_change("trim", "trim").map(drop)
    }

    fn clear(&self, device: Option<&str>) -> Result<(), PoolError> {
        const DOING: &str = "clear";
        let mut state = self.begin_pool("clear", DOING)?;
        self.check_device(&state, DOING, device)?;
        if state.vdevs.is_suspended {
            return Err(self.refused(DOING, PoolErrorKind::Suspended));
        }
        state.clear(device);
        Ok(())
    }

    fn damage(&self) -> Result<Vec<Damage>, PoolError> {
        let looked = self.begin_pool("damage", "look for damage in");
        looked.map(|_| Vec::new())
    }

    fn resume_pool(&self, device: Option<&str>, _: bool) -> Result<Resumption, PoolError> {
        const DOING: &str = "clear";
        let mut state = self.begin_pool("resume_pool", DOING)?;
        self.check_device(&state, DOING, device)?;
        if state.vdevs.is_suspended {
            let present = self.shared.world.present();
            for leaf in state.vdevs.leaves_mut() {
                if leaf.trouble == Trouble::Missing && present.contains(&leaf.path) {
                    leaf.trouble = Trouble::None;
                }
            }
            if !state.vdevs.are_enough() {
                return Err(self.refused(DOING, PoolErrorKind::Suspended));
            }
            state.vdevs.is_suspended = false;
            self.shared.changed.notify_all();
        }
        state.clear(device);
        Ok(Resumption::InPlace)
    }
}
