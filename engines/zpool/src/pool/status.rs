//! The health of a pool: the library's report in readable form, with advice.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use engine::capabilities::Health;
use engine::pool::{
    DedupStatus, DeviceState, DeviceStatus, FeatureStatus, LeftOut, Load, MoveState, MoveStatus,
    PoolHealth, PoolStatus, Role, ScanKind, ScanState, ScanStatus, Suspension, Unrecorded,
};
use zpool_sys as sys;

use super::Pool;
use super::copies::Behind;
use crate::device::{self, OpenFailure};
use crate::error::{PoolError, PoolErrorKind, SystemError};
use crate::nvlist::{NvList, NvRef, NvValue};

/// Indices into the library's array of counters per device (`vdev_stat_t`); a test of `zpool-sys`
/// compares them with the header.
mod counter {
    pub(super) use zpool_sys::vdev_stat::*;
    /// The first member: the time since the counters were reset.
    pub(super) const TIMESTAMP: usize = 0;
}
/// Indices into the array that describes a scan (`pool_scan_stat_t`).
mod scan_field {
    pub(super) use zpool_sys::scan_stat::*;
}

fn device_state(state: u64) -> DeviceState {
    match state {
        7 => DeviceState::Online,
        6 => DeviceState::Degraded,
        5 => DeviceState::Faulted,
        3 => DeviceState::Removed,
        2 => DeviceState::Offline,
        _ => DeviceState::Unavailable,
    }
}

impl Pool {
    /// Why the status is unavailable.
    fn unseen(&self, cause: SystemError) -> PoolError {
        const DOING: &str = "look at";
        let name = self.name().as_str();
        let error = PoolError::common(DOING, name, cause);
        let goes_on = self
            .health()
            .is_some_and(|health| health.suspended.is_none());
        match error.kind {
            PoolErrorKind::Suspended if goes_on => {
                PoolError::because(DOING, name, PoolErrorKind::Slow, cause)
            }
            _ => error,
        }
    }
}

impl Health for Pool {
    fn status(&self) -> Result<PoolStatus, PoolError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the library runs; the name is copied; `raw` is valid for the result.
        let code = unsafe { sys::bh_pool_status(self.c_name().as_ptr(), &mut raw) };
        SystemError::check(code).map_err(|cause| self.unseen(cause))?;
        // SAFETY: the library returns the list.
        let config = unsafe { NvList::from_raw(raw) }.unwrap_or_default();
        let mut status = status_of(config.view());
        note_behind(&mut status.devices, &self.behind);
        let is_there = |one: &&LeftOut| one.path().exists();
        status.left_out = self.left_out.iter().filter(is_there).cloned().collect();
        Ok(status)
    }

    fn health(&self) -> Option<PoolHealth> {
        let mut raw = sys::bh_pool_health::default();
        // SAFETY: the library runs; the name is only read; `raw` is valid for the result.
        let code = unsafe { sys::bh_pool_health(self.c_name().as_ptr(), &mut raw) };
        (code == 0).then(|| PoolHealth {
            state: device_state(raw.root_state.into()),
            suspended: suspension(raw.suspended.into()),
            synced_txg: raw.synced_txg,
            since_sync: Duration::from_nanos(raw.now_ns.saturating_sub(raw.sync_started_ns)),
            unrecorded: (raw.unrecorded_guid != 0).then_some(Unrecorded {
                guid: raw.unrecorded_guid,
                since_s: raw.unrecorded_since_s,
            }),
        })
    }

    fn failing_devices(&self) -> BTreeSet<PathBuf> {
        device::failing()
    }
}

fn suspension(raw: u64) -> Option<Suspension> {
    match raw {
        0 => None,
        2 => Some(Suspension::OtherHost),
        _ => Some(Suspension::DevicesFailed),
    }
}

fn status_of(config: NvRef<'_>) -> PoolStatus {
    let tree = config.list("vdev_tree");
    let root = tree.map(|tree| Counters(tree.u64s("vdev_stats")));
    let get = |index| root.as_ref().map_or(0, |root| root.get(index));
    let mut devices = Vec::new();
    if let Some(tree) = tree {
        let groups = tree.lists("children").into_iter();
        devices.extend(
            groups
                .filter(|group| !is_hole(group))
                .map(|group| device_of(group, role_of(group))),
        );
        let caches = tree.lists("l2cache").into_iter();
        devices.extend(caches.map(|cache| device_of(cache, Role::Cache)));
        let spares = tree.lists("spares").into_iter();
        devices.extend(spares.map(spare_of));
    }
    let lacking = config.numbers("lacking").into_iter();
    note_spares(&mut devices);
    note_missing_data(&mut devices, &lacking.map(|(_, guid)| guid).collect());
    let (size, allocated) = (get(counter::SPACE), get(counter::ALLOC));
    let name = config.text("name").unwrap_or_default();
    let load = tree.map(|tree| load_of_pool(tree, name.clone()));
    let mut status = PoolStatus {
        name,
        guid: config.u64("pool_guid").unwrap_or(0),
        state: with_groups(device_state(get(counter::STATE)), &devices),
        suspended: config.u64("suspended_reason").and_then(suspension),
        damaged: config.u64("error_count").unwrap_or(0),
        size_bytes: size,
        allocated_bytes: allocated,
        free_bytes: size.saturating_sub(allocated),
        fragmentation_percent: known(get(counter::FRAGMENTATION)),
        dedup: dedup_of(config.u64s("ddt_stats")),
        scan: tree.and_then(|tree| scan_of(tree.u64s("scan_stats"))),
        removal: tree.and_then(removal_of),
        expansion: tree.and_then(expansion_of),
        devices,
        left_out: Vec::new(),
        load: load.unwrap_or_default(),
        features: features_of(config),
        advice: Vec::new(),
    };
    note_small_spares(&mut status);
    status.advice = advice_for(&status);
    status
}

/// Names the devices that the spares in use replace.
fn note_spares(devices: &mut [DeviceStatus]) {
    fn replaced(group: &DeviceStatus, spare: u64) -> Option<String> {
        let is_it =
            group.kind == "spare" && group.children.last().is_some_and(|last| last.guid == spare);
        match (is_it, group.children.first()) {
            (true, Some(old)) => Some(old.name.clone()),
            _ => group
                .children
                .iter()
                .find_map(|child| replaced(child, spare)),
        }
    }
    let old = |spare: &DeviceStatus| {
        let is_used = spare.role == Role::Spare && spare.state == DeviceState::Online;
        let mut groups = devices.iter().filter(|_| is_used);
        groups.find_map(|group| replaced(group, spare.guid))
    };
    let found: Vec<Option<String>> = devices.iter().map(old).collect();
    for (device, old) in devices.iter_mut().zip(found) {
        if let Some(old) = old {
            device.reason = Some(format!("in use for {old}"));
        }
    }
}

/// Why an online device is not a full member of its group yet.
const MISSING_DATA: &str = "lacks data: its resilver has not begun";

/// Marks online devices that do not have all data yet.
fn note_missing_data(devices: &mut [DeviceStatus], lacking: &BTreeSet<u64>) {
    for device in devices {
        let is_behind = lacking.contains(&device.guid) && device.state == DeviceState::Online;
        if is_behind && device.reason.is_none() && !device.resilvering {
            device.reason = Some(MISSING_DATA.into());
        }
        note_missing_data(&mut device.children, lacking);
    }
}

/// Marks online devices with an older state than the rest of their mirror in a pool that is open read-only.
fn note_behind(devices: &mut [DeviceStatus], behind: &[Behind]) {
    for device in devices {
        let mut found = behind.iter().filter(|one| one.guid == device.guid);
        if let (Some(one), DeviceState::Online, None) = (found.next(), device.state, &device.reason)
        {
            device.reason = Some(format!(
                "{MISSING_DATA}; its newest transaction group is {}, and the pool has newer ones",
                one.newest_txg
            ));
        }
        note_behind(&mut device.children, behind);
    }
}

/// Marks unused spares that cannot replace some device.
fn note_small_spares(status: &mut PoolStatus) {
    let note = |spare: &DeviceStatus| {
        let large = status.too_large_for(spare.needed_bytes);
        let is_unused = spare.state == DeviceState::Available && spare.needed_bytes > 0;
        (is_unused && !large.is_empty()).then(|| format!("too small for {}", large.join(", ")))
    };
    let notes: Vec<Option<String>> = status.devices.iter().map(note).collect();
    for (device, note) in status.devices.iter_mut().zip(notes) {
        if note.is_some() {
            device.reason = note;
        }
    }
}

/// Names of the library's counters per kind of queued request.
const KINDS_OF_REQUESTS: [&str; 7] = [
    "sync_r",
    "sync_w",
    "async_r",
    "async_w",
    "async_scrub",
    "async_trim",
    "rebuild",
];

/// The load of this tree's pool.
fn load_of_pool(tree: NvRef<'_>, name: String) -> Load {
    let groups = tree.lists("children").into_iter();
    let groups = groups.filter(|group| !is_hole(group));
    let caches = tree.lists("l2cache").into_iter();
    let members = groups.chain(caches).map(load_of).collect();
    load_with(tree, name, members)
}

fn load_of(vdev: NvRef<'_>) -> Load {
    let kind = vdev.text("type").unwrap_or_default();
    let name = vdev.text("path");
    let members = vdev.lists("children").into_iter().map(load_of);
    let members = members.collect();
    load_with(
        vdev,
        name.unwrap_or_else(|| group_name(vdev, &kind)),
        members,
    )
}

fn load_with(vdev: NvRef<'_>, name: String, members: Vec<Load>) -> Load {
    let counters = Counters(vdev.u64s("vdev_stats"));
    let get = |index| counters.get(index);
    let more = vdev.list("vdev_stats_ex");
    let waits = |name: &str| {
        let counts = more.map_or(&[][..], |more| more.u64s(name));
        let used = counts.iter().rposition(|count| *count > 0);
        counts[..used.map_or(0, |last| last + 1)].to_vec()
    };
    let queued = |state: &str, of: fn(&Load) -> u64| match members.is_empty() {
        true => KINDS_OF_REQUESTS
            .iter()
            .filter_map(|kind| more?.u64(&format!("vdev_{kind}_{state}_queue")))
            .sum(),
        false => members.iter().map(of).sum(),
    };
    Load {
        name,
        counted_ns: get(counter::TIMESTAMP),
        allocated_bytes: get(counter::ALLOC),
        size_bytes: get(counter::SPACE),
        read_count: get(counter::OPS + 1),
        write_count: get(counter::OPS + 2),
        read_bytes: get(counter::BYTES + 1),
        write_bytes: get(counter::BYTES + 2),
        read_waits: waits("vdev_disk_r_lat_histo"),
        write_waits: waits("vdev_disk_w_lat_histo"),
        pending: queued("pend", |member| member.pending),
        active: queued("active", |member| member.active),
        members,
    }
}

/// 2^64 - 1 means unknown.
fn known(value: u64) -> Option<u64> {
    (value != u64::MAX).then_some(value)
}

struct Counters<'a>(&'a [u64]);

impl Counters<'_> {
    fn get(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }
}

fn is_hole(vdev: &NvRef<'_>) -> bool {
    vdev.u64("is_hole") == Some(1)
        || vdev
            .text("type")
            .is_some_and(|kind| kind == "hole" || kind == "indirect")
}

fn role_of(group: NvRef<'_>) -> Role {
    match group.text("alloc_bias").as_deref() {
        Some("special") => Role::Special,
        Some("dedup") => Role::Dedup,
        _ if group.u64("is_log") == Some(1) => Role::Log,
        _ => Role::Data,
    }
}

fn device_of(vdev: NvRef<'_>, role: Role) -> DeviceStatus {
    let counters = Counters(vdev.u64s("vdev_stats"));
    let get = |index| counters.get(index);
    let kind = vdev.text("type").unwrap_or_default();
    let path = vdev.text("path");
    let children = vdev.lists("children").into_iter();
    let children: Vec<_> = children.map(|child| device_of(child, role)).collect();
    let losses = losses_max(&kind, vdev.u64("nparity"), children.len());
    let state = device_state(get(counter::STATE));
    let state = with_members(state, losses, &children);
    DeviceStatus {
        name: path.clone().unwrap_or_else(|| group_name(vdev, &kind)),
        kind,
        guid: vdev.u64("guid").unwrap_or(0),
        role,
        state,
        reason: reason(state, get(counter::AUX), path.map(PathBuf::from)),
        read_errors: get(counter::READ_ERRORS),
        write_errors: get(counter::WRITE_ERRORS),
        checksum_errors: get(counter::CHECKSUM_ERRORS),
        slow_io: get(counter::SLOW_IOS),
        read_count: get(counter::OPS + 1),
        write_count: get(counter::OPS + 2),
        read_bytes: get(counter::BYTES + 1),
        write_bytes: get(counter::BYTES + 2),
        allocated_bytes: get(counter::ALLOC),
        size_bytes: get(counter::SPACE),
        needed_bytes: get(counter::RSIZE),
        expandable_bytes: get(counter::ESIZE),
        ashift: vdev.u64("ashift").unwrap_or(0),
        fragmentation_percent: known(get(counter::FRAGMENTATION)),
        repaired_bytes: get(counter::SCAN_PROCESSED),
        resilvering: vdev.u64("resilver_txg").is_some() && state == DeviceState::Online,
        children,
    }
}

/// Members that a group can lose.
fn losses_max(kind: &str, parity: Option<u64>, members: usize) -> usize {
    match kind {
        "mirror" | "replacing" | "spare" => members.saturating_sub(1),
        "raidz" | "draid" => parity.unwrap_or(0) as usize,
        _ => 0,
    }
}

/// State of a group. The library updates a device at once, but its group only when it reopens the
/// devices: until then the group's own state is too good.
fn with_members(own: DeviceState, losses_max: usize, members: &[DeviceStatus]) -> DeviceState {
    let serves = |member: &&DeviceStatus| {
        matches!(member.state, DeviceState::Online | DeviceState::Degraded)
    };
    let lost = members.len() - members.iter().filter(serves).count();
    let is_whole = members.iter().all(|m| m.state == DeviceState::Online);
    match own {
        DeviceState::Online | DeviceState::Degraded if lost > losses_max => {
            DeviceState::Unavailable
        }
        DeviceState::Online if !is_whole => DeviceState::Degraded,
        own => own,
    }
}

/// State of the pool: a lost data group fails it, a lost log only degrades it.
fn with_groups(own: DeviceState, groups: &[DeviceStatus]) -> DeviceState {
    let holds_data = |role| !matches!(role, Role::Log | Role::Cache | Role::Spare);
    let (data, others): (Vec<_>, Vec<_>) = groups
        .iter()
        .filter(|group| !matches!(group.role, Role::Cache | Role::Spare))
        .cloned()
        .partition(|group| holds_data(group.role));
    with_members(with_members(own, 0, &data), others.len(), &others)
}

fn group_name(vdev: NvRef<'_>, kind: &str) -> String {
    let id = vdev.u64("id").unwrap_or(0);
    match vdev.u64("nparity") {
        Some(parity) => format!("{kind}{parity}-{id}"),
        None => format!("{kind}-{id}"),
    }
}

/// An active spare has a reason; an unused one is fine.
fn spare_of(vdev: NvRef<'_>) -> DeviceStatus {
    const SPARED: u64 = 10;
    let mut status = device_of(vdev, Role::Spare);
    let aux = Counters(vdev.u64s("vdev_stats")).get(counter::AUX);
    match status.state {
        DeviceState::Online => status.state = DeviceState::Available,
        _ if aux == SPARED => {
            status.state = DeviceState::Online;
            status.reason = Some("in use for a failed device".into());
        }
        _ => {}
    }
    status
}

/// Translates the library's code for an unusable device.
pub(super) fn reason(state: DeviceState, aux: u64, path: Option<PathBuf>) -> Option<String> {
    let text = match aux {
        0 => return None,
        1 => return Some(open_failure(path)),
        2 => "its contents are damaged or of another pool",
        3 => "too few of its devices work",
        4 => "devices are missing",
        5 => "it has become too small",
        6 => "its label is missing or wrong, or it has become too small",
        10 => "a spare that is in use by another pool",
        11 => "too many errors",
        12 => "I/O failed",
        13 => "the intent log cannot be read",
        14 | 17 => "taken out of use on request",
        16 | 20 => "its smallest block is too large for this pool",
        18 => "in use by another host",
        19 => "all its devices are offline",
        _ if state == DeviceState::Online => return None,
        _ => "the library has no known reason for it",
    };
    Some(text.into())
}

fn open_failure(path: Option<PathBuf>) -> String {
    match path.and_then(|path| device::open_failure(&path)) {
        Some(OpenFailure::Missing) | None => "it does not exist".into(),
        Some(failure) => failure.to_string(),
    }
}

fn scan_of(fields: &[u64]) -> Option<ScanStatus> {
    let scan = Counters(fields);
    let kind = match scan.get(scan_field::FUNC) {
        1 => ScanKind::Scrub,
        2 => ScanKind::Resilver,
        3 => ScanKind::ErrorScrub,
        _ => return None,
    };
    let paused = scan.get(scan_field::PASS_SCRUB_PAUSE) != 0;
    let state = match scan.get(scan_field::STATE) {
        1 if paused => ScanState::Paused,
        1 => ScanState::Running,
        2 => ScanState::Finished,
        3 => ScanState::Canceled,
        _ => return None,
    };
    let total = scan
        .get(scan_field::TO_EXAMINE)
        .saturating_sub(scan.get(scan_field::SKIPPED));
    let done = match state {
        ScanState::Finished => total,
        _ => scan.get(scan_field::ISSUED),
    };
    let running = (state == ScanState::Running)
        .then(|| pass_rate(&scan, now_s()))
        .flatten();
    Some(ScanStatus {
        kind,
        state,
        started_s: scan.get(scan_field::START_TIME),
        ended_s: scan.get(scan_field::END_TIME),
        total_bytes: total,
        done_bytes: done,
        repaired_bytes: scan.get(scan_field::PROCESSED),
        errors: scan.get(scan_field::ERRORS),
        remaining_s: running.and_then(|rate| rate.remaining_s(total.saturating_sub(done))),
        bytes_per_s: running.map(|rate| rate.issued_bytes / rate.took_s),
        percent: match (state, total) {
            (ScanState::Finished, _) => 100.0,
            (_, 0) => 0.0,
            _ => (100.0 * done as f64 / total as f64).min(100.0),
        },
    })
}

fn now_s() -> u64 {
    UNIX_EPOCH.elapsed().unwrap_or_default().as_secs()
}

/// The bytes of a scan since the pool was opened or the scan began, whichever is later, and the time without pauses.
#[derive(Clone, Copy)]
struct PassRate {
    issued_bytes: u64,
    took_s: u64,
}

impl PassRate {
    /// The remaining time at the average rate of the pass.
    fn remaining_s(self, left_bytes: u64) -> Option<u64> {
        let left = u128::from(left_bytes) * u128::from(self.took_s);
        u64::try_from(left / u128::from(self.issued_bytes)).ok()
    }
}

/// None as long as the rate is unknown. Neither member of a rate is 0.
fn pass_rate(scan: &Counters<'_>, now_s: u64) -> Option<PassRate> {
    let since = scan.get(scan_field::PASS_START);
    let paused = scan.get(scan_field::PASS_SCRUB_SPENT_PAUSED);
    let took_s = now_s.checked_sub(since)?.checked_sub(paused)?;
    let issued_bytes = scan.get(scan_field::PASS_ISSUED);
    (issued_bytes > 0 && took_s > 0).then_some(PassRate {
        issued_bytes,
        took_s,
    })
}

/// The name of the group with this number in the pool; none for a group that is no longer in it.
fn group_with_id(tree: NvRef<'_>, id: u64) -> Option<String> {
    let mut groups = tree.lists("children").into_iter();
    let group = groups.find(|group| group.u64("id") == Some(id) && !is_hole(group))?;
    let kind = group.text("type").unwrap_or_default();
    Some(
        group
            .text("path")
            .unwrap_or_else(|| group_name(group, &kind)),
    )
}

/// The state of a removal or an expansion, as `dsl_scan_state_t`; none if there was none.
fn move_state(raw: u64) -> Option<MoveState> {
    match raw {
        1 => Some(MoveState::Running),
        2 => Some(MoveState::Finished),
        3 => Some(MoveState::Canceled),
        _ => None,
    }
}

fn removal_of(tree: NvRef<'_>) -> Option<MoveStatus> {
    use sys::removal_stat as field;
    let fields = Counters(tree.u64s("removal_stats"));
    let state = move_state(fields.get(field::STATE))?;
    Some(MoveStatus {
        state,
        group: group_with_id(tree, fields.get(field::REMOVING_VDEV)),
        started_s: fields.get(field::START_TIME),
        ended_s: fields.get(field::END_TIME),
        total_bytes: fields.get(field::TO_COPY),
        done_bytes: fields.get(field::COPIED),
        is_behind_resilver: false,
    })
}

fn expansion_of(tree: NvRef<'_>) -> Option<MoveStatus> {
    use sys::expand_stat as field;
    let fields = Counters(tree.u64s("raidz_expand_stats"));
    let state = move_state(fields.get(field::STATE))?;
    Some(MoveStatus {
        state,
        group: group_with_id(tree, fields.get(field::EXPANDING_VDEV)),
        started_s: fields.get(field::START_TIME),
        ended_s: fields.get(field::END_TIME),
        total_bytes: fields.get(field::TO_REFLOW),
        done_bytes: fields.get(field::REFLOWED),
        is_behind_resilver: fields.get(field::WAITING_FOR_RESILVER) != 0,
    })
}

/// From `ddt_stat_t`, as an array of numbers.
fn dedup_of(fields: &[u64]) -> Option<DedupStatus> {
    const STORED: usize = 3;
    const REFERENCED: usize = 7;
    let found = DedupStatus {
        stored_bytes: *fields.get(STORED)?,
        referenced_bytes: *fields.get(REFERENCED)?,
    };
    (found.stored_bytes > 0).then_some(found)
}

fn features_of(config: NvRef<'_>) -> Vec<FeatureStatus> {
    let Some(list) = config.list("feature_stats") else {
        return Vec::new();
    };
    list.entries()
        .into_iter()
        .filter_map(|(name, value)| match value {
            NvValue::Unsigned(uses) => Some(FeatureStatus {
                name,
                active: uses > 0,
            }),
            _ => None,
        })
        .collect()
}

fn advice_for(status: &PoolStatus) -> Vec<String> {
    let mut advice = status.general_advice();
    for leaf in status.leaves() {
        let name = &leaf.name;
        match leaf.state {
            DeviceState::Unavailable | DeviceState::Removed | DeviceState::Faulted => {
                advice.push(format!(
                    "{name} has failed: bring it back and clear it, or replace it"
                ));
            }
            DeviceState::Offline => advice.push(format!("{name} is offline: bring it online")),
            _ if leaf.checksum_errors > 0 => advice.push(format!(
                "{name} returned wrong data: scrub the pool; replace the device if it happens again"
            )),
            _ if leaf.read_errors + leaf.write_errors > 0 => {
                advice.push(format!("{name} had errors: watch it, or replace it"));
            }
            _ => {}
        }
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(role: Role, state: DeviceState) -> DeviceStatus {
        let mut device = device_of(NvList::new().view(), role);
        device.state = state;
        device
    }

    #[test]
    fn vdev_state_is_no_better_than_its_children() {
        use DeviceState::{Degraded, Faulted, Online, Removed, Unavailable};
        let mirror = losses_max("mirror", None, 2);
        for (own, first, second, expected) in [
            (Online, Online, Online, Online),
            (Online, Faulted, Online, Degraded),
            (Online, Degraded, Online, Degraded),
            (Degraded, Removed, Faulted, Unavailable),
            (Faulted, Online, Online, Faulted),
        ] {
            let members = [device(Role::Data, first), device(Role::Data, second)];
            assert_eq!(with_members(own, mirror, &members), expected);
        }
        assert_eq!(losses_max("raidz", Some(2), 6), 2);
        assert_eq!(losses_max("root", None, 6), 0);
    }

    #[test]
    fn returned_device_is_reported_with_missing_data() {
        let mut devices = [
            device(Role::Data, DeviceState::Online),
            device(Role::Data, DeviceState::Online),
        ];
        let mut children =
            [DeviceState::Online, DeviceState::Faulted].map(|state| device(Role::Data, state));
        (children[0].guid, children[1].guid) = (7, 8);
        devices[1].children = children.to_vec();
        note_missing_data(&mut devices, &BTreeSet::from([7, 8]));
        assert_eq!(devices[0].reason, None);
        assert_eq!(devices[1].children[0].reason.as_deref(), Some(MISSING_DATA));
        assert_eq!(devices[1].children[1].reason, None);
    }

    #[test]
    fn a_pool_survives_the_loss_of_a_log_but_not_of_data() {
        use DeviceState::{Degraded, Faulted, Online, Unavailable};
        for (role, expected) in [
            (Role::Data, Unavailable),
            (Role::Log, Degraded),
            (Role::Cache, Online),
            (Role::Spare, Online),
        ] {
            let groups = [device(Role::Data, Online), device(role, Faulted)];
            assert_eq!(with_groups(Online, &groups), expected, "{role:?}");
        }
    }

    #[test]
    fn scan_halfway_is_reported_with_its_share() {
        let mut fields = [0; 20];
        fields[scan_field::FUNC] = 1;
        fields[scan_field::STATE] = 1;
        fields[scan_field::TO_EXAMINE] = 200;
        fields[scan_field::ISSUED] = 100;
        let scan = scan_of(&fields).expect("a scan");
        assert_eq!(
            (scan.kind, scan.state),
            (ScanKind::Scrub, ScanState::Running)
        );
        assert!((scan.percent - 50.0).abs() < f64::EPSILON);
        fields[scan_field::PASS_START] = 1000;
        fields[scan_field::PASS_SCRUB_SPENT_PAUSED] = 40;
        fields[scan_field::PASS_ISSUED] = 50;
        let left = |now_s| pass_rate(&Counters(&fields), now_s)?.remaining_s(100);
        assert_eq!(left(1060), Some(40));
        assert_eq!(left(1040), None);
        assert_eq!(left(10), None, "the clock went back");
        assert!(scan_of(&[0; 20]).is_none());
        assert!(scan_of(&[]).is_none());
    }
}
