//! The state of a pool in the API's words, and everything at a glance.

use control::answer::{DeviceView, PoolStatus, ScanView, Status};
use control::{Answer, Failure};
use zpool::pool::{DeviceState, DeviceStatus, Role, ScanKind, ScanState, ScanStatus, Suspension};

use super::documents::Documents;
use super::{Context, documents, failures, nbd, scrub, target};

/// Everything at a glance, as far as a pool can tell without a server.
pub fn glance(context: &Context<'_>) -> Result<Answer, Failure> {
    let pool = pool_status(context)?;
    Ok(Answer::Status(Box::new(status(context, pool)?)))
}

/// The exports beside a pool's state.
pub fn status(context: &Context<'_>, pool: PoolStatus) -> Result<Status, Failure> {
    let all = context.all()?;
    let (wish, problems) = documents::wish(&context.root(), &all);
    let targets = wish.targets.iter();
    Ok(Status {
        pool,
        server: None,
        volume_count: all.volumes().count() as u64,
        targets: targets
            .map(|(name, wish)| target::view(name, wish))
            .collect(),
        nbd: wish.nbd.values().map(nbd::view).collect(),
        problems: problems.iter().map(ToString::to_string).collect(),
    })
}

/// The state of the pool.
pub fn pool_status(context: &Context<'_>) -> Result<PoolStatus, Failure> {
    let status = context.pool.status().map_err(failures::pool)?;
    let health = match status.suspended {
        Some(_) => "SUSPENDED",
        None => word(status.state),
    };
    let mut advice = status.advice;
    if status.suspended == Some(Suspension::OtherHost) {
        advice.push("another host may have taken the pool: find out before anything else".into());
    }
    Ok(PoolStatus {
        name: status.name,
        guid: status.guid.to_string(),
        health: health.to_owned(),
        suspended: status.suspended.is_some(),
        size: status.size_bytes,
        allocated: status.allocated_bytes,
        free: status.free_bytes,
        fragmentation_percent: status.fragmentation_percent,
        devices: status.devices.into_iter().map(device).collect(),
        scan: status.scan.as_ref().map(scan),
        scrub_schedule: scrub::schedule_view(context.pool),
        advice,
        next: None,
        damaged: Vec::new(),
    })
}

fn word(state: DeviceState) -> &'static str {
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
        note,
        members: status.children.into_iter().map(device).collect(),
    }
}

/// A scan in the API's words.
pub fn scan(status: &ScanStatus) -> ScanView {
    let function = match status.kind {
        ScanKind::Scrub => "scrub",
        ScanKind::Resilver => "resilver",
        ScanKind::ErrorScrub => "error scrub",
    };
    let state = match status.state {
        ScanState::Running => "running",
        ScanState::Paused => "paused",
        ScanState::Finished => "finished",
        ScanState::Canceled => "canceled",
    };
    ScanView {
        function: function.to_owned(),
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
