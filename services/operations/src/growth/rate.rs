//! The measured rate of a planned copy: of the last work of its kind, else of the last scrub or resilver.

use control::answer::RateView;
use engine::pool::{DeviceStatus, MoveState, MoveStatus, PoolStatus, ScanKind, ScanState};

use super::work::mean_rate;
use crate::status::scan_name;

/// Shorter work is no measurement: the times of the library are whole seconds.
pub const MEASURED_S_MIN: u64 = 5;

/// The kind of a planned copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copy {
    /// A device is filled from the other devices of its group.
    Resilver,
    /// The data of a group is copied to the other groups.
    Removal,
    /// The data of a raidz group is spread over one more device.
    Expansion,
}

/// Returns the rate at which the data of `group` would be copied; none if no comparable work was measured.
/// `rate_max`: the bound on resilvers, in bytes a second.
pub(super) fn of(
    copy: Copy,
    status: &PoolStatus,
    group: &DeviceStatus,
    rate_max: Option<u64>,
) -> Option<RateView> {
    let own = match copy {
        Copy::Resilver => None,
        Copy::Removal => status.removal.as_ref().map(|moved| (moved, "removal")),
        Copy::Expansion => status.expansion.as_ref().map(|moved| (moved, "expansion")),
    };
    let own = own.and_then(|(moved, name)| of_move(moved, name));
    let found = own.or_else(|| of_scan(copy, status, group))?;
    let bound = rate_max
        .filter(|_| copy == Copy::Resilver)
        .unwrap_or(u64::MAX);
    Some(RateView {
        bytes_per_s: found.bytes_per_s.min(bound).max(1),
        ..found
    })
}

fn of_move(moved: &MoveStatus, name: &str) -> Option<RateView> {
    let is_long = moved.ended_s.saturating_sub(moved.started_s) >= MEASURED_S_MIN;
    let is_measured = moved.state == MoveState::Finished && is_long;
    Some(RateView {
        bytes_per_s: mean_rate(moved, moved.ended_s).filter(|_| is_measured)?,
        measured_by: name.to_owned(),
        ended: moved.ended_s,
    })
}

/// A scrub reads all groups at the same time, so that a group has its share of the rate. An expansion reads and writes
/// each byte on the same devices, which halves the rate.
fn of_scan(copy: Copy, status: &PoolStatus, group: &DeviceStatus) -> Option<RateView> {
    let scan = status.scan.as_ref()?;
    let took_s = scan.ended_s.saturating_sub(scan.started_s);
    let rate = match scan.state {
        ScanState::Finished if took_s >= MEASURED_S_MIN => scan.total_bytes / took_s,
        ScanState::Running => scan.bytes_per_s?,
        _ => return None,
    };
    let (part, whole) = match scan.kind {
        ScanKind::Scrub => (group.allocated_bytes, status.allocated_bytes.max(1)),
        ScanKind::Resilver => (1, 1),
        ScanKind::ErrorScrub => return None,
    };
    let rate = u128::from(rate) * u128::from(part) / u128::from(whole);
    let rate = match copy {
        Copy::Expansion => rate / 2,
        Copy::Resilver | Copy::Removal => rate,
    };
    Some(RateView {
        bytes_per_s: u64::try_from(rate).ok().filter(|rate| *rate > 0)?,
        measured_by: scan_name(scan.kind).to_owned(),
        ended: scan.ended_s,
    })
}
