//! The state of a pool in the types of the API, and the summary of all pools.

use std::collections::BTreeMap;

use control::answer::{
    DamageView, DedupView, DeviceLoad, DeviceView, PoolLoad, PoolSpace, PoolStatus, ScanView,
    Status,
};
use control::read_balancing::ReadBalancing;
use control::{Advice, Answer, Button, Failure, Severity};
use engine::Pool;
use engine::dataset::{Damage, DatasetInfo, Snapshots};
use engine::pool::{
    DedupStatus, DeviceState, DeviceStatus, Load, Role, ScanKind, ScanState, ScanStatus, Suspension,
};
use units::{SnapshotName, VolumeName};

use super::documents::Documents;
use super::next_step::{self, steps};
use super::space::{self, Promises};
use super::{
    Context, copies, copy_rate, discovery, documents, failures, filesystem, growth, nbd,
    read_balancing, replicate, schedule, scrub, secrets, target,
};

/// Returns the summary, as far as it is available without a server.
pub fn glance(context: &Context<'_>) -> Result<Answer, Failure> {
    let pool = alone(context)?;
    Ok(Answer::Status(Box::new(status(context, pool)?)))
}

/// Adds the exports to a pool's state.
pub fn status(context: &Context<'_>, pool: PoolStatus) -> Result<Status, Failure> {
    let all = context.all()?;
    let (desired, mut problems) = documents::desired_state(&context.root(), &all);
    problems.extend(secrets::problems(&desired, &context.ring()?));
    let targets = desired.targets.iter();
    Ok(Status {
        discovery: discovery::glance(&pool.name, &desired),
        pool,
        served_by: None,
        server: None,
        volume_count: context.pool.volume_count().map_err(failures::dataset)?,
        targets: targets
            .map(|(name, desired)| target::view(name, desired))
            .collect(),
        nbd: desired.nbd.values().map(nbd::view).collect(),
        other_protocols: Vec::new(),
        problems: problems.iter().map(ToString::to_string).collect(),
        activity: Vec::new(),
        file_system_activity: Vec::new(),
    })
}

/// Returns the state of a pool without a server.
pub fn alone(context: &Context<'_>) -> Result<PoolStatus, Failure> {
    let health = context.pool.health();
    let space = match health.is_some_and(|health| health.suspended.is_some()) {
        true => None,
        false => {
            let promises = Promises::of(context.pool)?;
            Some(space::look(context.pool, &promises)?)
        }
    };
    let mut status = pool_status(context, space)?;
    if !status.suspended {
        let glances = replicate::health::glances(&*context.all()?, schedule::now_s());
        replicate::health::add_to(&mut status, glances);
    }
    status.server_options = filesystem::server_options(context.pool);
    next_step::advise_to_serve(&mut status);
    Ok(status)
}

/// The state of the pool, which has this space.
pub fn pool_status(context: &Context<'_>, space: Option<PoolSpace>) -> Result<PoolStatus, Failure> {
    let status = context.pool.status().map_err(failures::pool)?;
    let health = match status.suspended {
        Some(_) => "SUSPENDED",
        None => word(status.state),
    };
    let damaged = damaged(context.pool, &status);
    let work = growth::work::of(&status, schedule::now_s());
    let mut view = PoolStatus {
        name: status.name,
        guid: status.guid.to_string(),
        health: health.to_owned(),
        suspended: status.suspended.is_some(),
        writes_wait: None,
        size: status.size_bytes,
        allocated: status.allocated_bytes,
        free: status.free_bytes,
        space,
        fragmentation_percent: status.fragmentation_percent,
        dedup: status.dedup.map(dedup),
        devices: status.devices.into_iter().map(device).collect(),
        left_out: copies::left_out(&status.left_out),
        legs: None,
        scan: status.scan.as_ref().map(scan),
        work,
        scrub_schedule: scrub::schedule_view(context.pool),
        copy_rate_max: copy_rate::stored(context.pool).ok().flatten(),
        read_balancing: read_balancing::stored(context.pool)
            .ok()
            .filter(|mode| *mode != ReadBalancing::default()),
        advice: Vec::new(),
        replication: Vec::new(),
        damaged,
        server_options: Vec::new(),
        load: PoolLoad {
            pid: std::process::id(),
            counted_ns: status.load.counted_ns,
            suspended: status.suspended.is_some(),
            whole: load(status.load),
            ..PoolLoad::default()
        },
    };
    view.advice = match status.suspended {
        Some(Suspension::OtherHost) => vec![Advice::new(
            Severity::Error,
            "find out whether another host uses the pool, and export it there or stop this server",
            "another host may have taken the pool",
        )],
        _ => steps(&view),
    };
    // The location of the damage is not known. A suspended pool does not report it: most failed writes succeed when the
    // devices are available again.
    if status.damaged > 0 && view.damaged.is_empty() && !view.suspended {
        let what = "scrub, and restore unrepaired data from a backup";
        let lost = Advice::new(
            Severity::Error,
            what,
            "some data could not be read or written",
        );
        let scrub = format!("bulkhead pool scrub {} --wait", view.name);
        view.advice.push(lost.by(scrub).offering(Button::Scrub));
    }
    Ok(view)
}

/// The places that are damaged, without repetitions, with the snapshots that are whole.
fn damaged(pool: &dyn Pool, status: &engine::pool::PoolStatus) -> Vec<DamageView> {
    // A query of a suspended pool would block on its devices.
    if status.damaged == 0 || status.suspended.is_some() {
        return Vec::new();
    }
    let upkeep = pool.upkeep();
    let found = upkeep.map_or(Ok(Vec::new()), |upkeep| upkeep.damage());
    let found = found.unwrap_or_else(|error| {
        tracing::debug!(%error, "the damaged data was not determined");
        Vec::new()
    });
    let mut whole: BTreeMap<String, Option<SnapshotName>> = BTreeMap::new();
    let mut views: Vec<DamageView> = Vec::new();
    for damage in &found {
        let snapshot = damage.dataset.as_ref().and_then(|dataset| {
            let look = || whole_snapshot(pool, dataset, &found);
            whole.entry(dataset.clone()).or_insert_with(look).clone()
        });
        let metadata = || format!("metadata of {}", status.name);
        let view = DamageView {
            dataset: damage.dataset.clone().unwrap_or_else(metadata),
            offset: damage.extent.map(|(offset, _)| offset),
            length: damage.extent.map_or(0, |(_, length)| length.get()),
            snapshot,
        };
        if !views.contains(&view) {
            views.push(view);
        }
    }
    views.sort_by(|a, b| (&a.dataset, a.offset).cmp(&(&b.dataset, b.offset)));
    views
}

/// The newest snapshot of a volume that is older than all that is damaged in it.
fn whole_snapshot(pool: &dyn Pool, volume: &str, damages: &[Damage]) -> Option<SnapshotName> {
    let name: VolumeName = volume.parse().ok()?;
    let of_it = damages
        .iter()
        .filter(|one| one.dataset.as_deref() == Some(volume));
    let oldest = of_it.map(|one| one.birth_txg.unwrap_or(0)).min()?;
    let all = pool.datasets((&name).into(), Snapshots::Include).ok()?;
    let is_own =
        |info: &&DatasetInfo| info.snapshot && info.name.starts_with(&format!("{volume}@"));
    let older = all
        .iter()
        .filter(is_own)
        .filter(|info| info.creation_txg < oldest);
    older
        .max_by_key(|info| info.creation_txg)?
        .name
        .parse()
        .ok()
}

pub fn word(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Online => "ONLINE",
        DeviceState::Degraded => "DEGRADED",
        DeviceState::Faulted => "FAULTED",
        DeviceState::Offline => "OFFLINE",
        DeviceState::Removed => "REMOVED",
        DeviceState::Unavailable => "UNAVAIL",
        DeviceState::Available => "AVAIL",
    }
}

fn dedup(status: DedupStatus) -> DedupView {
    let (stored, referenced) = (status.stored_bytes, status.referenced_bytes);
    let percent = u128::from(referenced) * 100 / u128::from(stored.max(1));
    DedupView {
        percent: u64::try_from(percent).unwrap_or(u64::MAX),
        saved: referenced.saturating_sub(stored),
    }
}

fn load(load_seen: Load) -> DeviceLoad {
    DeviceLoad {
        name: load_seen.name,
        allocated: load_seen.allocated_bytes,
        size: load_seen.size_bytes,
        reads: load_seen.read_count,
        writes: load_seen.write_count,
        read_bytes: load_seen.read_bytes,
        written_bytes: load_seen.write_bytes,
        read_waits: load_seen.read_waits,
        write_waits: load_seen.write_waits,
        pending: load_seen.pending,
        active: load_seen.active,
        members: load_seen.members.into_iter().map(load).collect(),
    }
}

fn device(status: DeviceStatus) -> DeviceView {
    let role = match status.role {
        Role::Data => "data",
        Role::Log => "log",
        Role::Special => "special",
        Role::Dedup => "dedup",
        Role::Cache => "cache",
        Role::Spare => "spare",
    };
    let note = match (status.reason, status.resilvering) {
        (None, true) => Some("resilvering".to_owned()),
        (reason, _) => reason,
    };
    DeviceView {
        name: status.name,
        role: role.to_owned(),
        state: word(status.state).to_owned(),
        read_errors: status.read_errors,
        write_errors: status.write_errors,
        checksum_errors: status.checksum_errors,
        repaired: status.repaired_bytes,
        size: status.size_bytes,
        allocated: status.allocated_bytes,
        note,
        members: status.children.into_iter().map(device).collect(),
    }
}

/// Returns the name of a scan.
pub fn scan_name(kind: ScanKind) -> &'static str {
    match kind {
        ScanKind::Scrub => "scrub",
        ScanKind::Resilver => "resilver",
        ScanKind::ErrorScrub => "error scrub",
    }
}

/// A scan in the API's words.
pub fn scan(status: &ScanStatus) -> ScanView {
    let state = match status.state {
        ScanState::Running => "running",
        ScanState::Paused => "paused",
        ScanState::Finished => "finished",
        ScanState::Canceled => "canceled",
    };
    ScanView {
        function: scan_name(status.kind).to_owned(),
        state: state.to_owned(),
        started: status.started_s,
        ended: status.ended_s,
        remaining_s: status.remaining_s,
        examined: status.done_bytes,
        to_examine: status.total_bytes,
        repaired: status.repaired_bytes,
        errors: status.errors,
    }
}
