//! Guided replacement of a disk: the failed disk, the candidates for its replacement, and the
//! steps. The choice is a pure function of the observed state.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use control::answer::{Done, FailingView, ReplacementView};
use control::{Answer, Failure, FailureKind};
use engine::pool::{
    DeviceState, DeviceStatus, PoolError, PoolErrorKind, PoolStatus, Role, ScanState,
};

use super::unused_disks::{self, UnusedDisk};
use super::{Context, failures, scrub, spare, status};
use crate::needs;

/// Polling interval of a replacement in progress.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Polls between two progress reports.
const POLLS_PER_REPORT: u32 = 4;
/// Consecutive polls without progress and with the new disk not in use, after which waiting is given up.
const IDLE_POLLS_MAX: u32 = 4;
/// Errors after which a device is offered for replacement although it works.
const ERRORS_MAX: u64 = 50;

/// The options of the request.
pub struct ReplaceOptions {
    /// The device to replace; none selects the failed one.
    pub device: Option<PathBuf>,
    /// Its replacement; none selects a suitable disk.
    pub with: Option<PathBuf>,
    /// Also if that carries the label of a pool that is not in use.
    pub overwrite: bool,
}

/// Describes the actions without performing them.
pub fn plan(context: &Context<'_>, options: &ReplaceOptions) -> Result<Answer, Failure> {
    let pool = context.pool.status().map_err(failures::pool)?;
    let disks = unused_disks::find(&member_paths(&pool));
    let mut chosen = choose(&pool, disks, options);
    if let Err(failure) = check(context, &chosen, options) {
        let advice = failure.advice.map(|advice| format!("; {advice}"));
        chosen.hindrance = Some(failure.message + &advice.unwrap_or_default());
        chosen.steps.clear();
    }
    Ok(Answer::Replacement(Box::new(chosen)))
}

/// Checks the new disk of a replacement that has not begun.
fn check(
    context: &Context<'_>,
    chosen: &ReplacementView,
    options: &ReplaceOptions,
) -> Result<(), Failure> {
    let is_open = chosen.under_way.is_none() && chosen.hindrance.is_none();
    let (Some(old), Some(new), true) = (&chosen.old, &chosen.new, is_open) else {
        return Ok(());
    };
    let status = context.pool.status().map_err(failures::pool)?;
    spare::refuse_second(&status, old, new)?;
    let (devices, needed) = (needs(context.pool.devices())?, chosen.needed_bytes);
    let checked = devices.check_replace(old, Path::new(new), needed, options.overwrite);
    checked.map_err(refused)
}

/// Replaces the disk and blocks until the new disk holds all data. Continues a replacement in
/// progress, so that the request can be repeated after an interruption.
pub fn perform(
    context: &Context<'_>,
    options: &ReplaceOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    let pool = context.pool.status().map_err(failures::pool)?;
    let disks = unused_disks::find(&member_paths(&pool));
    let chosen = choose(&pool, disks, options);
    let began = Instant::now();
    if chosen.under_way.is_none() {
        if let Some(done) = was_done(&pool, options) {
            wait(context, progress)?;
            return Ok(Done::already(done));
        }
        if chosen.failing.is_empty() && options.device.is_none() {
            return Ok(Done::already(format!(
                "no device of pool {} needs to be replaced",
                pool.name
            )));
        }
        let (Some(old), Some(new), None) = (&chosen.old, &chosen.new, &chosen.hindrance) else {
            let what = chosen.hindrance.unwrap_or_default();
            return Err(Failure::usage(what));
        };
        check(context, &chosen, options)?;
        progress(&format!("{new} replaces {old}"));
        let replaced =
            needs(context.pool.devices())?.replace(old, Path::new(new), options.overwrite);
        replaced.map_err(refused)?;
    }
    wait(context, progress)?;
    let new = chosen.under_way.as_ref().or(chosen.new.as_ref());
    if let Some(new) = new {
        needs(context.pool.upkeep())?
            .clear(Some(new))
            .map_err(failures::pool)?;
    }
    let health = status::pool_status(context, None)?.health;
    Ok(Done::changed(format!(
        "{} has replaced it and holds all data, after {} s; pool {} is {health}",
        new.map_or("the new disk", String::as_str),
        began.elapsed().as_secs(),
        pool.name
    )))
}

/// Returns whether the replacement was already completed, for example by a server that exited
/// before it reported so.
fn was_done(pool: &PoolStatus, options: &ReplaceOptions) -> Option<String> {
    let (old, new) = (options.device.as_ref()?, options.with.as_ref()?);
    let (old, new) = (old.to_string_lossy(), new.to_string_lossy());
    let is_member = pool
        .find(&new)
        .is_some_and(|found| found.role != Role::Spare);
    let is_done = is_member && pool.find(&old).is_none();
    is_done.then(|| format!("{new} has already replaced {old}"))
}

fn refused(error: PoolError) -> Failure {
    match error.kind {
        PoolErrorKind::DeviceInPool { .. }
        | PoolErrorKind::DeviceKept { .. }
        | PoolErrorKind::DeviceHolds { .. } => failures::pool(error).advise(
            "--overwrite-old-labels permits devices of pools that are not in use, or with other contents",
        ),
        _ => failures::pool(error),
    }
}

/// Blocks until no replacement or resilver is active.
fn wait(context: &Context<'_>, progress: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let (mut looks, mut idle) = (0, 0);
    loop {
        if context.hooks.is_ending() {
            let message = "the server is stopping; the replacement resumes at its next start";
            return Err(Failure::new(FailureKind::Unavailable, message)
                .advise("run the same command again then: it continues to wait"));
        }
        scrub::refuse_suspended(context, "the replacement")?;
        let pool = match context.pool.status() {
            // The resilver of a slow disk is the reason to wait.
            Err(error) if error.kind == PoolErrorKind::Slow => continue,
            seen => seen.map_err(failures::pool)?,
        };
        let is_running = pool
            .scan
            .as_ref()
            .is_some_and(|scan| scan.state == ScanState::Running);
        match under_way(&pool) {
            None if !is_running => return Ok(()),
            // It might just have been inserted, or be removed with the old disk.
            Some(new) if !is_running && !is_filled(&pool, &new) => idle += 1,
            _ => idle = 0,
        }
        if idle == IDLE_POLLS_MAX {
            return Err(stalled_failure(&pool));
        }
        if looks % POLLS_PER_REPORT == 0 {
            if let Some(scan) = &pool.scan {
                progress(&control::words::scan_line(&status::scan(scan)));
            }
        }
        looks += 1;
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Returns whether a new disk receives data.
fn is_filled(pool: &PoolStatus, new: &str) -> bool {
    let device = pool.find(new);
    device.is_some_and(|device| device.state == DeviceState::Online)
}

/// The new disk was removed or has failed. The replacement is stalled until it is available again or is itself
/// replaced.
fn stalled_failure(pool: &PoolStatus) -> Failure {
    let new = under_way(pool).unwrap_or_default();
    let state = pool
        .find(&new)
        .map_or("gone", |device| status::word(device.state));
    let message = format!("the replacement is stalled: the new disk {new} is {state}");
    Failure::new(FailureKind::Unavailable, message).advise(format!(
        "`bulkhead pool online {0} {new}` uses it again, and then the same command continues to wait; \
         `bulkhead pool detach {0} {new}` cancels the replacement",
        pool.name
    ))
}

/// Where the disks are that the pool uses. At the path of a lost one there may be a new disk.
fn member_paths(pool: &PoolStatus) -> Vec<PathBuf> {
    let leaves = pool.leaves().into_iter().filter(|leaf| !is_lost(leaf));
    leaves.map(|leaf| PathBuf::from(&leaf.name)).collect()
}

/// Returns the new device of an active replacement.
fn under_way(pool: &PoolStatus) -> Option<String> {
    fn find(device: &DeviceStatus) -> Option<String> {
        match (device.kind.as_str(), device.children.last()) {
            ("replacing", Some(new)) => Some(new.name.clone()),
            _ => device.children.iter().find_map(find),
        }
    }
    pool.devices.iter().find_map(find)
}

/// Devices that should be replaced, the worst first.
fn failing(pool: &PoolStatus) -> Vec<&DeviceStatus> {
    let errors = |leaf: &DeviceStatus| leaf.read_errors + leaf.write_errors + leaf.checksum_errors;
    let leaves = pool.leaves().into_iter();
    let mut failing: Vec<&DeviceStatus> = leaves
        .filter(|leaf| !matches!(leaf.role, Role::Cache | Role::Spare))
        .filter(|leaf| is_lost(leaf) || errors(leaf) > ERRORS_MAX)
        .collect();
    failing.sort_by_key(|leaf| (!is_lost(leaf), u64::MAX - errors(leaf)));
    failing
}

fn is_lost(leaf: &DeviceStatus) -> bool {
    use DeviceState::{Faulted, Removed, Unavailable};
    matches!(leaf.state, Faulted | Removed | Unavailable)
}

/// Determines the actions.
fn choose(pool: &PoolStatus, disks: Vec<UnusedDisk>, options: &ReplaceOptions) -> ReplacementView {
    let failing = failing(pool);
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    let old = options.device.as_ref().map(text);
    let old = old.or_else(|| match failing.as_slice() {
        [only] => Some(only.name.clone()),
        _ => None,
    });
    let needed = old.as_ref().map_or(0, |old| needed_bytes(pool, old));
    let mut view = ReplacementView {
        pool: pool.name.clone(),
        under_way: under_way(pool),
        failing: failing.iter().map(|leaf| failing_view(leaf)).collect(),
        needed_bytes: needed,
        candidates: disks.into_iter().map(|disk| disk.view(needed)).collect(),
        new: None,
        hindrance: None,
        steps: Vec::new(),
        old,
    };
    let fitting = view.candidates.iter().filter(|disk| disk.refused.is_none());
    let smallest = fitting
        .min_by_key(|disk| disk.size)
        .map(|disk| disk.path.clone());
    // The size of a spare is not known while it cannot be opened.
    let is_large = |spare: &&DeviceStatus| spare.needed_bytes == 0 || spare.needed_bytes >= needed;
    let spares = pool.devices.iter();
    let spares =
        spares.filter(|spare| spare.role == Role::Spare && spare.state == DeviceState::Available);
    let spare = spares
        .filter(is_large)
        .min_by_key(|spare| spare.needed_bytes);
    let spare = spare.map(|spare| spare.name.clone());
    view.new = options.with.as_ref().map(text).or(smallest).or(spare);
    view.hindrance = hindrance(pool, &view);
    if let (None, Some(old), Some(new)) = (&view.hindrance, &view.old, &view.new) {
        view.steps = vec![
            format!("{new} joins the pool next to {old}"),
            "it is resilvered from the other devices; clients are not interrupted".to_owned(),
            format!("{old} leaves the pool, and the errors are forgotten"),
        ];
    }
    view
}

fn hindrance(pool: &PoolStatus, view: &ReplacementView) -> Option<String> {
    if view.under_way.is_some() {
        return None;
    }
    match (&view.old, &view.new) {
        (None, _) if view.failing.is_empty() => None,
        (None, _) => Some("several devices are bad: name the one to replace first".to_owned()),
        (Some(old), _) if pool.find(old).is_none() => Some(format!(
            "pool {} has no device {old}: `bulkhead pool status {}` lists them",
            pool.name, pool.name
        )),
        (Some(_), None) => Some(
            "no unused disk of this host is large enough: put one in, or name another".to_owned(),
        ),
        _ => None,
    }
}

/// The size in bytes that a replacement needs: the value that ZFS reports, or the size of the
/// smallest sibling.
fn needed_bytes(pool: &PoolStatus, old: &str) -> u64 {
    let Some(device) = pool.find(old) else {
        return 0;
    };
    if device.needed_bytes > 0 {
        return device.needed_bytes;
    }
    let is_in = |group: &&DeviceStatus| group.children.iter().any(|one| one.guid == device.guid);
    let group = pool.devices.iter().find(is_in);
    let sizes = group.into_iter().flat_map(|group| &group.children);
    sizes
        .map(|one| one.needed_bytes)
        .filter(|size| *size > 0)
        .min()
        .unwrap_or(0)
}

fn failing_view(leaf: &DeviceStatus) -> FailingView {
    FailingView {
        device: leaf.name.clone(),
        state: status::word(leaf.state).to_owned(),
        read_errors: leaf.read_errors,
        write_errors: leaf.write_errors,
        checksum_errors: leaf.checksum_errors,
        note: leaf.reason.clone(),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn device(name: &str, kind: &str, state: DeviceState) -> DeviceStatus {
        DeviceStatus {
            name: name.to_owned(),
            kind: kind.to_owned(),
            guid: name.bytes().map(u64::from).sum(),
            role: Role::Data,
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
            needed_bytes: match state {
                DeviceState::Online => 100,
                _ => 0,
            },
            expandable_bytes: 0,
            ashift: 0,
            fragmentation_percent: None,
            repaired_bytes: 0,
            resilvering: false,
            children: Vec::new(),
        }
    }

    pub fn mirror(children: Vec<DeviceStatus>) -> PoolStatus {
        let group = DeviceStatus {
            children,
            ..device("mirror-0", "mirror", DeviceState::Degraded)
        };
        let spare = DeviceStatus {
            role: Role::Spare,
            ..device("/s", "file", DeviceState::Available)
        };
        PoolStatus {
            name: "tank".to_owned(),
            guid: 1,
            state: DeviceState::Degraded,
            suspended: None,
            damaged: 0,
            size_bytes: 0,
            allocated_bytes: 0,
            free_bytes: 0,
            fragmentation_percent: None,
            dedup: None,
            scan: None,
            removal: None,
            expansion: None,
            devices: vec![group, spare],
            left_out: Vec::new(),
            load: engine::pool::Load::default(),
            features: Vec::new(),
            advice: Vec::new(),
        }
    }

    fn options(device: Option<&str>, with: Option<&str>) -> ReplaceOptions {
        ReplaceOptions {
            device: device.map(PathBuf::from),
            with: with.map(PathBuf::from),
            overwrite: false,
        }
    }

    #[test]
    fn failed_device_gets_the_smallest_suitable_disk() {
        use DeviceState::{Faulted, Online};
        let disk = |state| device("/a", "file", state);
        let one_bad = mirror(vec![disk(Online), device("/b", "file", Faulted)]);
        let both_bad = mirror(vec![disk(Faulted), device("/b", "file", Faulted)]);
        let whole = mirror(vec![disk(Online), device("/b", "file", Online)]);
        let disks = || {
            [(90, true), (300, true), (200, true), (110, false)]
                .map(|(size, blank)| UnusedDisk::of(&format!("/d{size}"), size, blank))
                .into_iter()
                .collect::<Vec<_>>()
        };
        for (what, pool, disks, options, old, new, hindrance) in [
            (
                "by itself",
                &one_bad,
                disks(),
                options(None, None),
                Some("/b"),
                Some("/d200"),
                "",
            ),
            (
                "no disk",
                &one_bad,
                vec![],
                options(None, None),
                Some("/b"),
                Some("/s"),
                "",
            ),
            (
                "named",
                &one_bad,
                disks(),
                options(Some("/a"), Some("/x")),
                Some("/a"),
                Some("/x"),
                "",
            ),
            (
                "two bad",
                &both_bad,
                disks(),
                options(None, None),
                None,
                Some("/d90"),
                "several",
            ),
            (
                "unknown",
                &whole,
                disks(),
                options(Some("/z"), None),
                Some("/z"),
                Some("/d90"),
                "no device",
            ),
            (
                "whole",
                &whole,
                disks(),
                options(None, None),
                None,
                Some("/d90"),
                "",
            ),
        ] {
            let view = choose(pool, disks, &options);
            assert_eq!(view.old.as_deref(), old, "{what}");
            assert_eq!(view.new.as_deref(), new, "{what}");
            let told = view.hindrance.unwrap_or_default();
            assert!(
                told.contains(hindrance) && told.is_empty() == hindrance.is_empty(),
                "{what}: {told}"
            );
            let is_possible = hindrance.is_empty() && old.is_some();
            assert_eq!(view.steps.len(), if is_possible { 3 } else { 0 }, "{what}");
        }
    }

    #[test]
    fn too_small_spare_is_not_offered_and_the_smallest_large_one_is() {
        use DeviceState::{Available, Faulted, Online};
        let with_spares = |sizes: &[u64]| {
            let whole = device("/a", "file", Online);
            let mut pool = mirror(vec![whole, device("/b", "file", Faulted)]);
            pool.devices.pop();
            let spares = sizes.iter().map(|size| DeviceStatus {
                role: Role::Spare,
                needed_bytes: *size,
                ..device(&format!("/s{size}"), "file", Available)
            });
            pool.devices.extend(spares);
            choose(&pool, Vec::new(), &options(None, None))
        };
        let small = with_spares(&[99]);
        assert_eq!(small.new, None);
        let hindrance = small.hindrance.unwrap_or_default();
        assert!(hindrance.contains("large enough"), "{hindrance}");
        let chosen = with_spares(&[99, 300, 100, 200]);
        assert_eq!(chosen.new.as_deref(), Some("/s100"));
    }

    #[test]
    fn replace_waits_for_a_running_replacement_and_is_idempotent() {
        let replacing = DeviceStatus {
            children: vec![
                device("/b", "file", DeviceState::Faulted),
                device("/c", "file", DeviceState::Online),
            ],
            ..device("replacing-1", "replacing", DeviceState::Degraded)
        };
        let pool = mirror(vec![device("/a", "file", DeviceState::Online), replacing]);
        let view = choose(&pool, Vec::new(), &options(Some("/b"), Some("/c")));
        assert_eq!(view.under_way.as_deref(), Some("/c"));
        assert_eq!(view.hindrance, None);
        let done = mirror(vec![
            device("/a", "file", DeviceState::Online),
            device("/c", "file", DeviceState::Online),
        ]);
        assert!(was_done(&done, &options(Some("/b"), Some("/c"))).is_some());
        assert!(was_done(&done, &options(Some("/b"), Some("/s"))).is_none());
        assert!(was_done(&done, &options(Some("/a"), Some("/c"))).is_none());
    }
}
