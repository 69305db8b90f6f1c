//! The recommended actions for a pool, the most urgent first. A pure function of the pool's state.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use control::answer::{DamageView, DeviceView, PoolStatus};
use control::space::{FULL_PERCENTS, full_level};
use control::words::{bytes, has_all_data};
use control::{Advice, Button, Severity};

use super::copies;

/// A group of data that is filled to this percentage is full.
const GROUP_FULL_PERCENT: u64 = 80;
/// The difference between the fullest and the emptiest group from which the groups are uneven, in percent points.
const GROUP_UNEVEN_POINTS: u64 = 40;
/// The note on a device that failed after its state was read.
const FAILING: &str = "its last read or write failed";
/// Number of failed devices that the reason of a suspension names.
const FAILED_SHOWN_MAX: usize = 6;
/// The beginning of the action for a device that is online and does not have all data.
const WAIT_FOR_ITS_RESILVER: &str = "wait for its resilver";
/// A device with more errors than this is not to be trusted again.
const ERRORS_MAX: u64 = 50;

/// Returns the actions in order. No action contradicts another. Empty if the pool is healthy.
pub fn steps(pool: &PoolStatus) -> Vec<Advice> {
    if pool.suspended {
        return vec![suspended_step(pool)];
    }
    let space = space_step(pool);
    let is_urgent = |step: &Advice| step.severity == Severity::Error;
    // A problem that affects clients now has priority.
    let (first, last) = match space {
        Some(step) if is_urgent(&step) => (Some(step), None),
        other => (None, other),
    };
    let devices = device_steps(pool);
    let copies = copies::step(&pool.name, &pool.left_out);
    let all = first.into_iter().chain(devices).chain(copies);
    all.chain(last).chain(uneven_step(pool)).collect()
}

/// Returns the advice for a pool with a full group next to an empty one: writes go mostly to the empty one, and
/// therefore have the throughput of few devices.
fn uneven_step(pool: &PoolStatus) -> Option<Advice> {
    let groups = pool.devices.iter();
    let data = groups.filter(|group| group.role == "data" && group.size > 0);
    let fills = data.map(|group| {
        let percent = u128::from(group.allocated) * 100 / u128::from(group.size);
        (percent as u64, &group.name)
    });
    let (fullest, full) = fills.clone().max()?;
    let (emptiest, empty) = fills.min()?;
    if fullest < GROUP_FULL_PERCENT || fullest - emptiest < GROUP_UNEVEN_POINTS {
        return None;
    }
    let name = &pool.name;
    let step = Advice::new(
        Severity::Info,
        "expect writes on the emptier groups only until they are as full; copies of volumes within the pool even it out earlier",
        format!("{full} is {fullest} % full and {empty} {emptiest} %"),
    );
    Some(step.by(format!("bulkhead pool iostat {name}")))
}

/// Returns the action for a suspended pool.
pub fn suspended_step(pool: &PoolStatus) -> Advice {
    let mut why = "all I/O is blocked, because too many devices failed".to_owned();
    let failed = failed_devices(pool);
    let shown: Vec<&str> = failed.iter().map(String::as_str).collect();
    match shown.split_at_checked(FAILED_SHOWN_MAX) {
        None if shown.is_empty() => {}
        None | Some((_, [])) => why.push_str(&format!(": {}", shown.join(", "))),
        Some((first, more)) => {
            why.push_str(&format!(": {}, and {} more", first.join(", "), more.len()));
        }
    }
    Advice::new(
        Severity::Error,
        "bring the failed devices back, then clear the pool",
        why,
    )
    .by(format!("bulkhead pool clear {}", pool.name))
    .offering(Button::Clear)
}

/// Notes the devices at these paths as failing in the state of a suspended pool, which can be older than their failure.
pub fn note_failing(pool: &mut PoolStatus, failing: &BTreeSet<PathBuf>) {
    fn note(devices: &mut [DeviceView], failing: &BTreeSet<PathBuf>) {
        for device in devices {
            let is_known = is_lost(device) || device.note.is_some();
            if !is_known && failing.contains(Path::new(&device.name)) {
                device.note = Some(FAILING.to_owned());
            }
            note(&mut device.members, failing);
        }
    }
    note(&mut pool.devices, failing);
    let step = suspended_step(pool);
    // Another host might have the pool: then it has other advice.
    let mut same = pool.advice.iter_mut().filter(|one| one.what == step.what);
    if let Some(old) = same.next() {
        old.why = step.why;
    }
}

/// The devices with data or logs that are not available, and those with failed reads or writes.
fn failed_devices(pool: &PoolStatus) -> Vec<String> {
    let mut leaves = Vec::new();
    pool.devices
        .iter()
        .for_each(|one| collect(one, false, &mut leaves));
    let devices = leaves.into_iter().map(|leaf| leaf.device);
    let devices = devices.filter(|one| !matches!(one.role.as_str(), "cache" | "spare"));
    let failed = devices.filter_map(|device| {
        let name = &device.name;
        let errors = device.read_errors + device.write_errors;
        match (is_lost(device), errors) {
            (true, _) => Some(format!("{name} is {}", device.state)),
            (false, 0) if device.note.as_deref() == Some(FAILING) => Some(format!("{name} fails")),
            (false, 0) => None,
            (false, errors) => Some(format!("{name} had {errors} failed reads and writes")),
        }
    });
    failed.collect()
}

/// Adds to the pool's state the time since when its writes are blocked, and an action if there is no other one for it.
pub fn add_write_wait(pool: &mut PoolStatus) {
    let Some(wait) = &pool.writes_wait else {
        return;
    };
    match pool.advice.first_mut() {
        Some(first) if pool.suspended => {
            first.since_ms = Some(wait.since * 1000);
        }
        // A leg that blocks the writes has its own, more specific action.
        _ if pool.suspended => {}
        _ => {
            pool.health = "WAITING".to_owned();
            let what = "see which device does not answer, and take it out of use if this lasts";
            let mut step = Advice::new(Severity::Error, what, &wait.why);
            step.since_ms = Some(wait.since * 1000);
            let step = step.by(format!("bulkhead pool status {}", pool.name));
            pool.advice.insert(0, step);
        }
    }
}

/// Replaces the advice to wait for a scan of a pool without a server, which makes no progress.
pub fn advise_to_serve(pool: &mut PoolStatus) {
    let command = pool.server_command();
    let scan = pool.scan.as_ref().filter(|scan| scan.state == "running");
    let (function, waits) = match scan {
        Some(scan) => (
            scan.function.as_str(),
            format!("wait for the {}", scan.function),
        ),
        None => ("resilver", WAIT_FOR_ITS_RESILVER.to_owned()),
    };
    let mut steps = pool.advice.iter_mut();
    if let Some(step) = steps.find(|step| step.what.starts_with(&waits)) {
        let what = format!(
            "start the server of the pool: the {function} proceeds only while the pool is served"
        );
        let serve = Advice::new(step.severity, what, &step.why).by(command);
        *step = serve.risking(step.risk.take());
    }
}

fn space_step(pool: &PoolStatus) -> Option<Advice> {
    let (name, space) = (&pool.name, pool.space.as_ref()?);
    let level = full_level(space.full_percent);
    let left = bytes(space.available);
    let (severity, why) = match space.refuses {
        true => (
            Severity::Error,
            format!("{name} refuses writes of clients for lack of space, {left} are left"),
        ),
        false if level == 0 => return None,
        false => {
            let severity = match FULL_PERCENTS.ends_with(&[level]) {
                true => Severity::Error,
                false => Severity::Warning,
            };
            let why = format!("{name} is {} % full, {left} are left", space.full_percent);
            (severity, why)
        }
    };
    let what = match space.has_quota {
        true => {
            "destroy unneeded snapshots, volumes or files, raise a quota that is reached, or add \
             devices; the used space is shown by"
        }
        false => {
            "destroy unneeded snapshots, volumes or files, or add devices; the used space is shown by"
        }
    };
    let step = Advice::new(severity, what, why);
    Some(
        step.by(format!("bulkhead volume space {name}"))
            .offering(Button::Space),
    )
}

fn device_steps(pool: &PoolStatus) -> Vec<Advice> {
    let name = &pool.name;
    let mut leaves = Vec::new();
    pool.devices
        .iter()
        .for_each(|one| collect(one, false, &mut leaves));
    // All other actions depend on the result of the scan.
    if let Some(step) = scan_step(pool, &leaves) {
        return vec![step];
    }
    let lost = lost_step(name, &leaves).or_else(|| new_lost_step(name, &pool.devices));
    let lost = lost.map(|step| {
        let risk = step.device.as_deref().and_then(|device| risk(pool, device));
        step.risking(risk)
    });
    let damage = damage_step(pool);
    // The results of a repair come after the repair.
    let errors = match (&lost, &damage) {
        (None, None) => error_step(pool, &leaves),
        _ => None,
    };
    let outdated = outdated_step(pool, &leaves).filter(|_| lost.is_none());
    let offline = offline_step(name, &leaves);
    let spare = spare_step(name, &pool.devices);
    let all = [lost, outdated, damage, offline, errors, spare];
    all.into_iter().flatten().collect()
}

/// A leaf device, and whether another device is already replacing it.
struct Leaf<'a> {
    device: &'a DeviceView,
    is_replaced: bool,
}

fn collect<'a>(device: &'a DeviceView, is_replaced: bool, found: &mut Vec<Leaf<'a>>) {
    if device.members.is_empty() {
        found.push(Leaf {
            device,
            is_replaced,
        });
    }
    let is_replaced = is_replaced || device.name.starts_with("replacing-");
    let members = device.members.iter();
    members.for_each(|one| collect(one, is_replaced, found));
}

fn is_lost(device: &DeviceView) -> bool {
    matches!(device.state.as_str(), "FAULTED" | "UNAVAIL" | "REMOVED")
}

/// An active scan has priority, because most advice is better after it.
fn scan_step(pool: &PoolStatus, leaves: &[Leaf<'_>]) -> Option<Advice> {
    let (name, scan) = (&pool.name, pool.scan.as_ref()?);
    let is_lost = leaves
        .iter()
        .any(|leaf| is_lost(leaf.device) && !leaf.is_replaced);
    let function = &scan.function;
    match (function.as_str(), scan.state.as_str()) {
        ("resilver", "running") => Some(
            Advice::new(
                Severity::Info,
                "wait for the resilver, and leave the devices as they are",
                "a device is being filled",
            )
            .by(format!("bulkhead pool status {name}"))
            .risking(outdated(leaves).find_map(|device| risk(pool, &device.name))),
        ),
        (_, "running") if !is_lost => Some(
            Advice::new(
                Severity::Info,
                format!("wait for the {function}"),
                format!("the {function} runs"),
            )
            .by(format!("bulkhead pool scrub {name} --wait")),
        ),
        (_, "paused") if !is_lost => Some(
            Advice::new(Severity::Info, "resume the scrub", "the scrub is paused")
                .by(format!("bulkhead pool scrub {name} --resume"))
                .offering(Button::ResumeScrub),
        ),
        _ => None,
    }
}

fn lost_step(pool: &str, leaves: &[Leaf<'_>]) -> Option<Advice> {
    let lost = leaves
        .iter()
        .find(|leaf| is_lost(leaf.device) && !leaf.is_replaced)?
        .device;
    let device = &lost.name;
    let note = lost.note.as_ref().map(|note| format!(": {note}"));
    let why = format!("{device} is {}{}", lost.state, note.unwrap_or_default());
    let step = match lost.role.as_str() {
        role @ ("cache" | "spare") => Advice::new(
            Severity::Warning,
            format!("take the failed {role} out"),
            why,
        )
        .by(format!("bulkhead pool remove {pool} {device}")),
        _ => {
            let what = match lost.state.as_str() {
                "REMOVED" | "UNAVAIL" => {
                    format!("put {device} back in if it was only pulled out, else replace it")
                }
                _ => format!("replace {device}"),
            };
            Advice::new(Severity::Warning, what, why)
                .by(format!("bulkhead pool replace-disk {pool} {device}"))
                .offering(Button::ReplaceDisk)
        }
    };
    Some(step.about(device))
}

/// The consequence of a further failure, if the group of a lost device has no redundancy left. `None` also for groups
/// without data.
fn risk(pool: &PoolStatus, device: &str) -> Option<String> {
    fn has(group: &DeviceView, device: &str) -> bool {
        let mut members = group.members.iter();
        members.any(|member| member.name == device || has(member, device))
    }
    let mut groups = pool.devices.iter();
    let group = groups.find(|group| has(group, device))?;
    if matches!(group.role.as_str(), "cache" | "spare" | "log") {
        return None;
    }
    let resilvers = pool
        .scan
        .as_ref()
        .is_some_and(|scan| scan.function == "resilver" && scan.state == "running");
    // A spare that has taken a disk's place holds its data.
    let is_held = |member: &DeviceView| {
        let mut held = member.members.iter().filter(|one| one.state == "ONLINE");
        has_all_data(member) || !resilvers && held.next().is_some()
    };
    let complete = group.members.iter().filter(|member| is_held(member));
    let (all, complete) = (group.members.len(), complete.count());
    let parity = group.name.strip_prefix("raidz").and_then(|rest| {
        let digit = rest.chars().next()?;
        digit.to_digit(10)
    });
    let needed = match parity {
        Some(parity) => all.saturating_sub(parity as usize),
        None if group.name.starts_with("mirror") => 1,
        None => return None,
    };
    let name = &pool.name;
    (complete == needed).then(|| {
        format!(
            "{} has no redundancy left: if one more of its disks fails, {name} is down",
            group.name
        )
    })
}

/// Online devices that do not have all data.
fn outdated<'a>(leaves: &'a [Leaf<'a>]) -> impl Iterator<Item = &'a DeviceView> {
    let devices = leaves.iter().map(|leaf| leaf.device);
    devices.filter(|device| device.state == "ONLINE" && !has_all_data(device))
}

/// A device that has returned is online, and is no copy of the data before its resilver.
fn outdated_step(pool: &PoolStatus, leaves: &[Leaf<'_>]) -> Option<Advice> {
    let device = outdated(leaves).next()?;
    let name = &device.name;
    let note = device.note.as_deref().unwrap_or_default();
    let step = Advice::new(
        Severity::Warning,
        format!("{WAIT_FOR_ITS_RESILVER}; if that does not begin, use {name} again"),
        format!("{name} is online and {note}"),
    );
    Some(
        step.by(format!("bulkhead pool online {} {name}", pool.name))
            .offering(Button::Online)
            .about(name)
            .risking(risk(pool, name)),
    )
}

/// A spare has all data of a device that is not available. The spare can replace it for good.
fn spare_step(pool: &str, devices: &[DeviceView]) -> Option<Advice> {
    devices.iter().find_map(|device| {
        let is_spare = device.name.starts_with("spare-");
        let (true, [old, spare]) = (is_spare, device.members.as_slice()) else {
            return spare_step(pool, &device.members);
        };
        if old.state == "ONLINE" || !has_all_data(spare) {
            return None;
        }
        let (old, spare) = (&old.name, &spare.name);
        let what = format!("or let the spare {spare} replace {old} for good");
        let why = format!(
            "it is in use for {old}; `bulkhead pool replace-disk {pool} {old}` with another disk releases it"
        );
        let step = Advice::new(Severity::Info, what, why);
        Some(step.by(format!("bulkhead pool detach {pool} {old}")).about(spare))
    })
}

/// The new device of a replacement has failed. The old device, or the rest of the group, still
/// holds all data.
fn new_lost_step(pool: &str, devices: &[DeviceView]) -> Option<Advice> {
    devices.iter().find_map(|device| {
        let new = device.members.last().filter(|new| {
            device.name.starts_with("replacing-") && new.members.is_empty() && is_lost(new)
        });
        let Some(new) = new else {
            return new_lost_step(pool, &device.members);
        };
        let step = Advice::new(
            Severity::Warning,
            "end this replacement, and replace by another device",
            format!(
                "{}, the replacement of another device, is {}",
                new.name, new.state
            ),
        );
        Some(
            step.by(format!("bulkhead pool detach {pool} {}", new.name))
                .about(&new.name),
        )
    })
}

/// Returns whether the last scan was a scrub that could not repair all errors.
fn was_found_by_scrub(pool: &PoolStatus) -> bool {
    pool.scan
        .as_ref()
        .is_some_and(|scan| scan.function == "scrub" && scan.state == "finished" && scan.errors > 0)
}

fn damage_step(pool: &PoolStatus) -> Option<Advice> {
    let (name, first) = (&pool.name, pool.damaged.first()?);
    let (volume, damages) = (&first.dataset, &pool.damaged);
    let of_it: Vec<&DamageView> = damages
        .iter()
        .filter(|one| one.dataset == *volume)
        .collect();
    let others: BTreeSet<&str> = damages.iter().map(|one| one.dataset.as_str()).collect();
    let more = match others.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    if first.length == 0 {
        let what = format!("restore the damaged data of {volume}{more} from a backup, then scrub");
        let step = Advice::new(Severity::Error, what, "some data is lost");
        return Some(
            step.by(format!("bulkhead pool scrub {name}"))
                .offering(Button::Scrub),
        );
    }
    let lost: u64 = of_it.iter().map(|one| one.length).sum();
    // Data that could not be read while devices were missing might be intact on them.
    if !was_found_by_scrub(pool) {
        let what =
            "scrub before anything is restored: data that is intact on any device is repaired";
        let why = format!("{volume}{more} has {lost} bytes that could not be read or written");
        let step = Advice::new(Severity::Error, what, why);
        return Some(
            step.by(format!("bulkhead pool scrub {name} --wait"))
                .offering(Button::Scrub),
        );
    }
    let why = format!("{volume}{more} lost {lost} bytes");
    Some(match of_it.iter().find_map(|one| one.snapshot.as_ref()) {
        Some(snapshot) => {
            let what = format!(
                "restore {volume}{more} from {snapshot}, which is whole, then run `bulkhead pool \
                 scrub {name}`; a clone gives access to its contents"
            );
            Advice::new(Severity::Error, what, why)
                .by(format!("bulkhead snapshot clone {snapshot} {volume}-whole"))
        }
        None => {
            let what = format!(
                "restore {volume}{more}, which has no whole snapshot, from a backup, then scrub"
            );
            Advice::new(Severity::Error, what, why)
                .by(format!("bulkhead pool scrub {name}"))
                .offering(Button::Scrub)
        }
    })
}

fn offline_step(pool: &str, leaves: &[Leaf<'_>]) -> Option<Advice> {
    let off = leaves
        .iter()
        .find(|leaf| leaf.device.state == "OFFLINE" && !leaf.is_replaced)?;
    let device = &off.device.name;
    let what = format!("use {device} again");
    let step = Advice::new(
        Severity::Warning,
        what,
        format!("{device} was taken offline"),
    );
    Some(
        step.by(format!("bulkhead pool online {pool} {device}"))
            .offering(Button::Online)
            .about(device),
    )
}

fn error_step(pool: &PoolStatus, leaves: &[Leaf<'_>]) -> Option<Advice> {
    let name = &pool.name;
    let errors =
        |device: &DeviceView| device.read_errors + device.write_errors + device.checksum_errors;
    let worst = leaves.iter().max_by_key(|leaf| errors(leaf.device))?;
    let (device, count) = (&worst.device.name, errors(worst.device));
    let is_scrubbed = pool
        .scan
        .as_ref()
        .is_some_and(|scan| scan.state == "finished");
    let advice = |what: String, command: String, button: Button| {
        let why = format!("{device} had {count} errors");
        let step = Advice::new(Severity::Warning, what, why);
        Some(step.by(command).offering(button).about(device))
    };
    match count {
        0 => None,
        count if count > ERRORS_MAX => advice(
            format!("replace {device}"),
            format!("bulkhead pool replace-disk {name} {device}"),
            Button::ReplaceDisk,
        ),
        _ if is_scrubbed => advice(
            "note the errors, which were repaired; replace the device if more come; clear them"
                .to_owned(),
            format!("bulkhead pool clear {name}"),
            Button::Clear,
        ),
        _ => advice(
            "find out whether these errors were all".to_owned(),
            format!("bulkhead pool scrub {name} --wait"),
            Button::Scrub,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::answer::ScanView;
    use control::words::OUTDATED;

    fn device(name: &str, state: &str) -> DeviceView {
        DeviceView {
            name: name.to_owned(),
            role: "data".to_owned(),
            state: state.to_owned(),
            ..DeviceView::default()
        }
    }

    fn group(name: &str, members: Vec<DeviceView>) -> DeviceView {
        DeviceView {
            members,
            ..device(name, "ONLINE")
        }
    }

    fn pool(members: Vec<DeviceView>) -> PoolStatus {
        PoolStatus {
            name: "tank".to_owned(),
            devices: vec![group("mirror-0", members)],
            ..PoolStatus::default()
        }
    }

    fn scanned(pool: PoolStatus, function: &str, state: &str) -> PoolStatus {
        PoolStatus {
            scan: Some(ScanView {
                function: function.to_owned(),
                state: state.to_owned(),
                ..ScanView::default()
            }),
            ..pool
        }
    }

    /// After a scrub with errors that it could not repair.
    fn beyond_repair(pool: PoolStatus) -> PoolStatus {
        let mut pool = scanned(pool, "scrub", "finished");
        if let Some(scan) = &mut pool.scan {
            scan.errors = 1;
        }
        pool
    }

    fn with_errors(errors: u64) -> PoolStatus {
        let hurt = DeviceView {
            checksum_errors: errors,
            ..device("/b", "ONLINE")
        };
        pool(vec![device("/a", "ONLINE"), hurt])
    }

    fn damaged(length: u64, snapshot: Option<&str>) -> PoolStatus {
        PoolStatus {
            damaged: vec![DamageView {
                dataset: "tank/v".to_owned(),
                offset: (length > 0).then_some(0),
                length,
                snapshot: snapshot.map(|name| name.parse().expect("a name")),
            }],
            ..pool(vec![device("/a", "ONLINE")])
        }
    }

    #[test]
    fn full_group_next_to_an_empty_one_is_reported_from_the_threshold_on() {
        let with = |fills: &[(&str, u64, u64)]| PoolStatus {
            name: "tank".to_owned(),
            devices: fills
                .iter()
                .map(|(role, allocated, size)| DeviceView {
                    role: (*role).to_owned(),
                    allocated: *allocated,
                    size: *size,
                    ..group(&format!("mirror-{allocated}"), Vec::new())
                })
                .collect(),
            ..PoolStatus::default()
        };
        for (fills, is_uneven) in [
            (&[("data", 80, 100), ("data", 40, 100)][..], true),
            (&[("data", 80, 100), ("data", 41, 100)], false),
            (&[("data", 79, 100), ("data", 0, 100)], false),
            (&[("data", 95, 100), ("log", 0, 100)], false),
            (&[("data", 95, 100), ("data", 0, 0)], false),
            (&[("data", 95, 100)], false),
            (&[], false),
        ] {
            let advice = steps(&with(fills));
            assert_eq!(
                advice.len(),
                usize::from(is_uneven),
                "{fills:?}: {advice:?}"
            );
        }
        let advice = steps(&with(&[("data", 90, 100), ("data", 1, 100)]));
        assert_eq!(advice[0].why, "mirror-90 is 90 % full and mirror-1 1 %");
        assert_eq!(advice[0].severity, Severity::Info);
    }

    #[test]
    fn recommended_steps_do_not_contradict() {
        let hurt = || {
            let lost = DeviceView {
                write_errors: 90,
                ..device("/b", "FAULTED")
            };
            pool(vec![device("/a", "OFFLINE"), lost])
        };
        let found = steps(&hurt());
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].what == "replace /b" && found[1].what == "use /a again");
        let scanned = steps(&scanned(hurt(), "resilver", "running"));
        assert_eq!(scanned.len(), 1, "{scanned:?}");
    }

    #[test]
    fn online_device_without_all_data_is_no_copy() {
        let behind = |note: &str| DeviceView {
            note: Some(note.to_owned()),
            ..device("/b", "ONLINE")
        };
        let whole = || device("/a", "ONLINE");
        let risk = "mirror-0 has no redundancy left: if one more of its disks fails, tank is down";
        let found = steps(&pool(vec![
            whole(),
            behind("lacks data: its resilver has not begun"),
        ]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].risk.as_deref(), Some(risk));
        assert!(
            found[0].why.contains("/b is online and lacks data"),
            "{found:?}"
        );
        let resilvered = pool(vec![whole(), behind("resilvering")]);
        let found = steps(&scanned(resilvered, "resilver", "running"));
        assert_eq!(found[0].risk.as_deref(), Some(risk));
        assert_eq!(steps(&pool(vec![whole(), device("/b", "ONLINE")])), []);
    }

    /// The side of a mirror that was absent for a time, in a pool without a server.
    #[test]
    fn outdated_device_of_an_unserved_pool_advises_to_serve_it() {
        let behind = DeviceView {
            note: Some(format!("{OUTDATED}: its newest transaction group is 22")),
            ..device("/b", "ONLINE")
        };
        let mut pool = pool(vec![device("/a", "ONLINE"), behind]);
        pool.advice = steps(&pool);
        advise_to_serve(&mut pool);
        assert_eq!(pool.advice.len(), 1, "{:?}", pool.advice);
        let step = &pool.advice[0];
        assert_eq!(step.command.as_deref(), Some("bulkhead pool-server tank"));
        assert!(step.why.starts_with("/b is online and "), "{step}");
        assert!(step.risk.is_some(), "{step}");
    }

    #[test]
    fn suspended_pool_names_the_devices_that_failed() {
        let hurt = |name: &str, write_errors: u64| DeviceView {
            write_errors,
            ..device(name, "ONLINE")
        };
        let why = |members: Vec<DeviceView>| {
            let suspended = PoolStatus {
                suspended: true,
                ..pool(members)
            };
            steps(&suspended).remove(0).why
        };
        let cause = "all I/O is blocked, because too many devices failed";
        let lost = vec![
            device("/a", "UNAVAIL"),
            hurt("/b", 3),
            device("/c", "ONLINE"),
        ];
        assert_eq!(
            why(lost),
            format!("{cause}: /a is UNAVAIL, /b had 3 failed reads and writes")
        );
        // The state may be older than the suspension.
        assert_eq!(why(vec![device("/a", "ONLINE")]), cause);
        let mut stale = PoolStatus {
            suspended: true,
            ..pool(vec![device("/a", "ONLINE"), device("/b", "ONLINE")])
        };
        stale.advice = steps(&stale);
        note_failing(&mut stale, &BTreeSet::from(["/b".into(), "/other".into()]));
        assert_eq!(stale.advice.len(), 1, "{:?}", stale.advice);
        assert_eq!(stale.advice[0].why, format!("{cause}: /b fails"));
        assert_eq!(stale.devices[0].members[1].note.as_deref(), Some(FAILING));
        let many = |count: usize| (0..count).map(|number| device(&format!("/{number}"), "FAULTED"));
        let all = why(many(FAILED_SHOWN_MAX).collect());
        assert!(all.ends_with(", /5 is FAULTED"), "{all}");
        let part = why(many(FAILED_SHOWN_MAX + 2).collect());
        assert!(part.ends_with(", /5 is FAULTED, and 2 more"), "{part}");
    }

    #[test]
    fn spare_in_use_names_the_commands_that_keep_and_release_it() {
        let with = |old: &str, note: Option<&str>| {
            let spare = DeviceView {
                note: note.map(str::to_owned),
                ..device("/s", "ONLINE")
            };
            let spared = group("spare-1", vec![device("/b", old), spare]);
            steps(&pool(vec![device("/a", "ONLINE"), spared]))
        };
        for old in ["FAULTED", "REMOVED", "OFFLINE"] {
            let found = with(old, None);
            assert_eq!(found.len(), 2, "{old}: {found:?}");
            let keep = found.last().expect("two");
            assert_eq!(
                keep.command.as_deref(),
                Some("bulkhead pool detach tank /b")
            );
            assert!(keep.why.contains("`bulkhead pool replace-disk tank /b`"));
            assert_eq!(keep.severity, Severity::Info);
        }
        assert_eq!(with("ONLINE", None), []);
        let unfilled = with("FAULTED", Some(OUTDATED));
        assert!(
            unfilled
                .iter()
                .all(|step| !step.to_string().contains("detach"))
        );
    }

    #[test]
    fn lost_disk_without_redundancy_left_states_the_risk() {
        let of = |name: &str, states: &[&str]| {
            let members = states.iter().enumerate();
            let members = members.map(|(index, state)| device(&format!("/{index}"), state));
            let mut pool = pool(Vec::new());
            pool.devices = vec![DeviceView {
                role: "data".to_owned(),
                members: members.collect(),
                ..device(name, "DEGRADED")
            }];
            steps(&pool).remove(0).risk
        };
        let none = |group: &str| {
            Some(format!(
                "{group} has no redundancy left: if one more of its disks fails, tank is down"
            ))
        };
        assert_eq!(of("mirror-0", &["ONLINE", "FAULTED"]), none("mirror-0"));
        assert_eq!(of("mirror-0", &["ONLINE", "FAULTED", "ONLINE"]), None);
        let raidz = ["ONLINE", "FAULTED", "ONLINE"];
        assert_eq!(of("raidz1-0", &raidz), none("raidz1-0"));
        assert_eq!(
            of("raidz2-0", &["ONLINE", "FAULTED", "ONLINE", "ONLINE"]),
            None
        );
    }

    #[test]
    fn every_pool_state_has_a_sentence() {
        let whole = || pool(vec![device("/a", "ONLINE"), device("/b", "ONLINE")]);
        let hurt = |state: &str| pool(vec![device("/a", "ONLINE"), device("/b", state)]);
        let replaced = pool(vec![
            device("/a", "ONLINE"),
            group(
                "replacing-1",
                vec![device("/b", "FAULTED"), device("/c", "ONLINE")],
            ),
        ]);
        let suspended = PoolStatus {
            suspended: true,
            ..hurt("UNAVAIL")
        };
        let spare = DeviceView {
            role: "spare".to_owned(),
            ..device("/s", "UNAVAIL")
        };
        for (what, pool, part) in [
            ("whole", whole(), ""),
            (
                "whole after a scrub",
                scanned(whole(), "scrub", "finished"),
                "",
            ),
            ("suspended", suspended, "`bulkhead pool clear tank`"),
            (
                "faulted",
                hurt("FAULTED"),
                "replace /b: `bulkhead pool replace-disk tank /b`",
            ),
            ("pulled", hurt("REMOVED"), "put /b back in"),
            (
                "faulted, scrubbing",
                scanned(hurt("FAULTED"), "scrub", "running"),
                "replace /b",
            ),
            (
                "resilvering",
                scanned(replaced.clone(), "resilver", "running"),
                "wait for the resilver",
            ),
            ("replaced", replaced, ""),
            (
                "the new one faulted",
                pool(vec![
                    device("/a", "ONLINE"),
                    group(
                        "replacing-1",
                        vec![device("/b", "ONLINE"), device("/c", "FAULTED")],
                    ),
                ]),
                "`bulkhead pool detach tank /c`",
            ),
            ("spare gone", pool(vec![spare]), "take the failed spare out"),
            ("offline", hurt("OFFLINE"), "`bulkhead pool online tank /b`"),
            (
                "scrubbing",
                scanned(with_errors(3), "scrub", "running"),
                "wait for the scrub",
            ),
            ("paused", scanned(whole(), "scrub", "paused"), "--resume"),
            (
                "errors",
                with_errors(3),
                "`bulkhead pool scrub tank --wait`",
            ),
            (
                "errors repaired",
                scanned(with_errors(3), "scrub", "finished"),
                "`bulkhead pool clear tank`",
            ),
            (
                "many errors",
                scanned(with_errors(51), "scrub", "finished"),
                "replace-disk tank /b",
            ),
            (
                "damaged, not scrubbed",
                damaged(16_384, Some("tank/v@x")),
                "`bulkhead pool scrub tank --wait`",
            ),
            (
                "damaged",
                beyond_repair(damaged(16_384, None)),
                "has no whole snapshot, from a backup",
            ),
            (
                "damaged, snapshot",
                beyond_repair(damaged(16_384, Some("tank/v@x"))),
                "snapshot clone tank/v@x tank/v-whole",
            ),
            (
                "metadata damaged",
                damaged(0, None),
                "restore the damaged data of tank/v from a backup",
            ),
        ] {
            match (steps(&pool).into_iter().next(), part) {
                (None, "") => {}
                (Some(step), part) if !part.is_empty() => {
                    assert!(step.to_string().contains(part), "{what}: {step}");
                }
                (step, _) => panic!("{what}: {step:?}"),
            }
        }
    }

    fn full(full_percent: u64, refuses: bool) -> PoolStatus {
        PoolStatus {
            space: Some(control::answer::PoolSpace {
                full_percent,
                refuses,
                ..Default::default()
            }),
            ..pool(vec![device("/a", "ONLINE"), device("/b", "FAULTED")])
        }
    }

    #[test]
    fn space_advice_precedes_disks_only_when_writes_fail() {
        let buttons = |pool: PoolStatus| -> Vec<Button> {
            steps(&pool)
                .into_iter()
                .filter_map(|step| step.button)
                .collect()
        };
        use Button::{ReplaceDisk, Space};
        assert_eq!(buttons(full(79, false)), [ReplaceDisk]);
        assert_eq!(buttons(full(80, false)), [ReplaceDisk, Space]);
        assert_eq!(buttons(full(95, false)), [Space, ReplaceDisk]);
        assert_eq!(buttons(full(10, true)), [Space, ReplaceDisk]);
    }
}
