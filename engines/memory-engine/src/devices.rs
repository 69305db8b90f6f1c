//! Changes to the devices of a pool in memory, and to its own properties.

use std::path::{Path, PathBuf};

use engine::HistoryRecord;
use engine::capabilities::{Devices, History, PoolProperties};
use engine::pool::{
    DeviceState, GroupKind, GroupRole, GroupSpec, PoolError, PoolErrorKind, PoolProperty, ScanKind,
};

use crate::numbers::now_s;
use crate::pool_properties;
use crate::state::{MemoryPool, State};
use crate::vdevs::{Leaf, Member, Place, Trouble, check_groups};

fn shape(why: &str) -> PoolErrorKind {
    PoolErrorKind::Shape {
        why: why.to_owned(),
    }
}

const NOT_JOINED: &str = "only single devices and mirrors can be joined or parted";

impl State {
    fn find(&self, device: &str) -> Result<Place, PoolErrorKind> {
        match (self.vdevs.place(device), self.vdevs.group(device)) {
            (Some(at), _) => Ok(at),
            (None, Some(_)) => Err(shape(NOT_JOINED)),
            (None, None) => Err(PoolErrorKind::NoSuchDevice {
                device: device.to_owned(),
            }),
        }
    }

    /// Stops the use of a device, if the pool has enough redundancy.
    fn lay_off(&mut self, device: &str, trouble: Trouble) -> Result<(), PoolErrorKind> {
        let at = self.find(device)?;
        if self.vdevs.groups[at.group].role == GroupRole::Spare {
            return Err(shape(NOT_JOINED));
        }
        if !self
            .vdevs
            .would_do(|other| other.leaf(at).trouble = trouble)
        {
            return Err(PoolErrorKind::NoReplicas);
        }
        self.vdevs.leaf(at).trouble = trouble;
        Ok(())
    }

    fn detach(&mut self, device: &str) -> Result<(), PoolErrorKind> {
        let at = self.find(device)?;
        let group = &self.vdevs.groups[at.group];
        let is_replacing = group.members[at.member].leaves.len() > 1;
        let is_mirror = group.kind.parity().is_none() && group.members.len() > 1;
        if !is_replacing && !is_mirror {
            return Err(shape("only devices of mirrors can be detached"));
        }
        if !self.vdevs.would_do(|other| other.remove_leaf(at)) {
            return Err(PoolErrorKind::NoReplicas);
        }
        self.vdevs.remove_leaf(at);
        Ok(())
    }

    fn remove(&mut self, device: &str) -> Result<(), PoolErrorKind> {
        const WHY: &str =
            "only caches, spares, logs and groups in a pool without raidz can be removed";
        let at = match self.vdevs.group(device) {
            Some(group) => group,
            None => {
                let at = self.find(device)?;
                match self.vdevs.groups[at.group].members.len() {
                    1 => at.group,
                    _ => return Err(shape(WHY)),
                }
            }
        };
        let group = &self.vdevs.groups[at];
        if group.role == GroupRole::Data {
            let data = self
                .vdevs
                .groups
                .iter()
                .filter(|one| one.role == GroupRole::Data);
            let has_raidz = data.clone().any(|one| one.kind.parity().is_some());
            if has_raidz || data.count() == 1 {
                return Err(shape(WHY));
            }
            let used = self.tree.charge(self.name.as_str()).used();
            if used > self.capacity().saturating_sub(group.size()) {
                return Err(shape("the other groups have no room for its data"));
            }
        }
        self.vdevs.groups.remove(at);
        Ok(())
    }

    /// Attaches `new` as a mirror of the device, or as its replacement.
    fn join(&mut self, device: &str, mut new: Leaf, replaces: bool) -> Result<(), PoolErrorKind> {
        let at = self.find(device)?;
        let bytes = self.tree.charge(self.name.as_str()).used();
        let group = &mut self.vdevs.groups[at.group];
        new.is_filling = true;
        match replaces {
            true => group.members[at.member].leaves.push(new),
            false => {
                group.kind = GroupKind::Mirror;
                group.members.push(Member::of(new));
            }
        }
        self.vdevs.begin_scan(ScanKind::Resilver, bytes);
        Ok(())
    }

    fn check_join(
        &self,
        device: &str,
        new: &Path,
        size: u64,
        replaces: bool,
    ) -> Result<(), PoolErrorKind> {
        let at = self.find(device)?;
        let group = &self.vdevs.groups[at.group];
        let is_joined = group.kind.parity().is_some() && !replaces;
        if is_joined || matches!(group.role, GroupRole::Cache | GroupRole::Spare) {
            return Err(shape(NOT_JOINED));
        }
        let is_too_small = size < group.members[at.member].leaves[at.leaf].size;
        match is_too_small {
            true => Err(PoolErrorKind::DeviceTooSmall {
                path: new.to_owned(),
                needed: "at least the size of the devices it joins".to_owned(),
            }),
            false => Ok(()),
        }
    }
}

impl MemoryPool {
    /// Updates the labels of the devices to the pool's current state.
    fn write_labels(&self, state: &State, before: &[PathBuf]) {
        self.shared.world.relabel(&state.vdevs, before);
    }

    fn paths(state: &State) -> Vec<PathBuf> {
        state.vdevs.leaves().map(|leaf| leaf.path.clone()).collect()
    }

    fn change(
        &self,
        call: &'static str,
        doing: &'static str,
        change: impl FnOnce(&mut State) -> Result<(), PoolErrorKind>,
    ) -> Result<(), PoolError> {
        let mut state = self.begin_pool_change(call, doing)?;
        let before = Self::paths(&state);
        change(&mut state).map_err(|kind| self.refused(doing, kind))?;
        state.tree.next_txg();
        self.write_labels(&state, &before);
        Ok(())
    }

    fn join(
        &self,
        (call, doing): (&'static str, &'static str),
        device: &str,
        new: &Path,
        overwrite: bool,
    ) -> Result<(), PoolError> {
        let replaces = call == "replace";
        self.change(call, doing, |state| {
            let old = state.find(device).map(|at| state.vdevs.leaf(at).clone())?;
            let (size, spare) = self.check_new(state, device, new, (replaces, overwrite))?;
            if let Some(place) = spare {
                let spare = state.vdevs.groups[place.group].guid;
                state.vdevs.groups.retain(|group| group.guid != spare);
            }
            state.join(&old.guid.to_string(), Leaf::new(new, size), replaces)
        })
    }

    /// The size of a device that may join the pool, and its position if it is a spare.
    fn check_new(
        &self,
        state: &mut State,
        device: &str,
        new: &Path,
        (replaces, overwrite): (bool, bool),
    ) -> Result<(u64, Option<Place>), PoolErrorKind> {
        let world = &self.shared.world;
        let at = state.find(device)?;
        let old = state.vdevs.leaf(at).clone();
        let place = state.vdevs.place(&new.to_string_lossy());
        let role = place.map(|place| state.vdevs.groups[place.group].role);
        let is_spare = replaces && role == Some(GroupRole::Spare);
        // A new disk at the path of the old one.
        let is_exchanged = replaces && new == old.path && world.is_strange(state.guid, new);
        if !is_spare && !is_exchanged {
            world.check_new(new, Some(state.guid), overwrite)?;
        }
        let size = world.size_of(new).unwrap_or(old.size);
        state.check_join(device, new, size, replaces)?;
        Ok((size, place.filter(|_| is_spare)))
    }
}

impl Devices for MemoryPool {
    fn add(&self, groups: &[GroupSpec], overwrite: bool) -> Result<(), PoolError> {
        let world = &self.shared.world;
        self.change("add", "add devices to", |state| {
            world.check_all(
                groups.iter().flat_map(|group| &group.devices),
                Some(state.guid),
                overwrite,
            )?;
            check_groups(groups)?;
            state
                .vdevs
                .add(groups, |path| world.size_of(path).unwrap_or(0));
            Ok(())
        })
    }

    fn attach(&self, device: &str, new: &Path, overwrite: bool) -> Result<(), PoolError> {
        self.join(("attach", "attach a device to"), device, new, overwrite)
    }

    fn replace(&self, device: &str, new: &Path, overwrite: bool) -> Result<(), PoolError> {
        self.join(("replace", "replace a device of"), device, new, overwrite)
    }

    fn check_new(&self, new: &[PathBuf]) -> Result<(), PoolError> {
        const DOING: &str = "add devices to";
        let state = self.begin_pool_change("check_new", DOING)?;
        let checked = self
            .shared
            .world
            .check_all(new.iter(), Some(state.guid), false);
        checked.map_err(|kind| self.refused(DOING, kind))
    }

    fn check_replace(
        &self,
        device: &str,
        new: &Path,
        _: u64,
        overwrite: bool,
    ) -> Result<(), PoolError> {
        const DOING: &str = "replace a device of";
        let mut state = self.begin_pool_change("check_replace", DOING)?;
        let checked = self.check_new(&mut state, device, new, (true, overwrite));
        checked.map(drop).map_err(|kind| self.refused(DOING, kind))
    }

    fn detach(&self, device: &str) -> Result<(), PoolError> {
        self.change("detach", "detach a device from", |state| {
            state.detach(device)
        })
    }

    fn remove(&self, device: &str) -> Result<(), PoolError> {
        self.change("remove", "remove a device from", |state| {
            state.remove(device)
        })
    }

    fn online(&self, device: &str, _expand: bool) -> Result<DeviceState, PoolError> {
        const DOING: &str = "bring online a device of";
        let present = self.shared.world.present();
        let mut state = self.begin_pool_change("online", DOING)?;
        let at = state
            .find(device)
            .map_err(|kind| self.refused(DOING, kind))?;
        let bytes = state.tree.charge(self.name.as_str()).used();
        let leaf = state.vdevs.leaf(at);
        let was_away = leaf.trouble != Trouble::None;
        leaf.trouble = match present.contains(&leaf.path) {
            true => Trouble::None,
            false => Trouble::Missing,
        };
        let found = leaf.state();
        if was_away && found == DeviceState::Online {
            leaf.is_filling = true;
            state.vdevs.begin_scan(ScanKind::Resilver, bytes);
        }
        Ok(found)
    }

    fn offline(&self, device: &str, temporary: bool) -> Result<(), PoolError> {
        let trouble = Trouble::Offline(temporary);
        self.change("offline", "take offline a device of", |state| {
            state.lay_off(device, trouble)
        })
    }

    fn fault(&self, device: &str) -> Result<(), PoolError> {
        let doing = "stop to use a device of";
        self.change("fault", doing, |state| {
            state.lay_off(device, Trouble::Faulted)
        })
    }

    fn change_number(&self) -> Result<(), PoolError> {
        let why = "the devices of a simulated pool have no copies".to_owned();
        Err(self.refused("change the number of", PoolErrorKind::Shape { why }))
    }
}

impl PoolProperties for MemoryPool {
    fn set_properties(&self, properties: &[(String, String)]) -> Result<(), PoolError> {
        self.change("set_properties", "set properties of", |state| {
            for (name, value) in properties {
                pool_properties::check(name, value, false)?;
            }
            for (name, value) in properties {
                pool_properties::set(&mut state.properties, name, value);
            }
            Ok(())
        })
    }

    fn properties(&self) -> Result<Vec<PoolProperty>, PoolError> {
        let state = self.begin_pool("properties", "read properties of")?;
        let size = state.vdevs.size();
        let mut all = pool_properties::all(&state.properties);
        let facts = [
            ("guid", state.guid),
            ("size", size),
            ("free", state.available(self.name.as_str())),
        ];
        all.extend(facts.map(|(name, number)| PoolProperty {
            name: name.to_owned(),
            value: number.to_string(),
            is_set: false,
        }));
        Ok(all)
    }

    fn property_values(&self, property: &str) -> Option<String> {
        pool_properties::values(property)
    }

    fn upgrade(&self) -> Result<(), PoolError> {
        self.change("upgrade", "upgrade", |state| {
            pool_properties::enable_all(&mut state.properties);
            Ok(())
        })
    }
}

/// A record of the history: time and text.
fn history_record(text: &str) -> Vec<u8> {
    let mut record = now_s().to_le_bytes().to_vec();
    record.extend_from_slice(text.as_bytes());
    record.push(0);
    record
}

/// The records in a history; the first one may be cut.
fn history_records(mut tail: &[u8]) -> Vec<HistoryRecord> {
    let mut found = Vec::new();
    while let Some((time, rest)) = tail.split_first_chunk::<8>() {
        let end = rest.iter().position(|byte| *byte == 0);
        let end = end.unwrap_or(rest.len());
        found.push(HistoryRecord {
            at_unix_s: u64::from_le_bytes(*time),
            txg: None,
            what: "command".to_owned(),
            of: None,
            details: Some(String::from_utf8_lossy(&rest[..end]).into_owned()),
        });
        tail = rest.get(end + 1..).unwrap_or_default();
    }
    found
}

impl History for MemoryPool {
    fn add_to_history(&self, text: &str) -> Result<(), PoolError> {
        let mut state = self.begin_pool_change("add_to_history", "add to the history of")?;
        state.history.extend(history_record(text));
        Ok(())
    }

    fn history_tail(&self, bytes_max: usize) -> Result<Vec<u8>, PoolError> {
        let state = self.begin_pool("history_tail", "read the history of")?;
        let from = state.history.len().saturating_sub(bytes_max);
        Ok(state.history[from..].to_vec())
    }

    fn history_records(&self, bytes_max: usize) -> Result<Vec<HistoryRecord>, PoolError> {
        let tail = self.history_tail(bytes_max)?;
        Ok(history_records(&tail))
    }
}
