//! Long work on the devices of a pool that is not complete, in one form: scrub, resilver, removal, expansion.

use control::answer::WorkView;
use engine::pool::{MoveState, MoveStatus, PoolStatus, ScanState};

use crate::status::scan_name;

/// Returns the work that runs or is paused at `now_s`, in seconds since 1970.
pub fn of(status: &PoolStatus, now_s: u64) -> Vec<WorkView> {
    let scan = status.scan.as_ref().and_then(|scan| {
        let state = match scan.state {
            ScanState::Running => "running",
            ScanState::Paused => "paused",
            ScanState::Finished | ScanState::Canceled => return None,
        };
        Some(WorkView {
            kind: scan_name(scan.kind).to_owned(),
            state: state.to_owned(),
            group: None,
            started: scan.started_s,
            done: scan.done_bytes.min(scan.total_bytes),
            total: scan.total_bytes,
            bytes_per_s: scan.bytes_per_s,
            remaining_s: scan.remaining_s,
        })
    });
    let removal = status.removal.as_ref();
    let expansion = status.expansion.as_ref();
    let moves = [("removal", removal), ("expansion", expansion)];
    let moves = moves
        .into_iter()
        .filter_map(|(kind, moved)| running(kind, moved?, now_s));
    scan.into_iter().chain(moves).collect()
}

fn running(kind: &str, moved: &MoveStatus, now_s: u64) -> Option<WorkView> {
    if moved.state != MoveState::Running {
        return None;
    }
    let done = moved.done_bytes.min(moved.total_bytes);
    let bytes_per_s = mean_rate(moved, now_s).filter(|_| !moved.is_behind_resilver);
    Some(WorkView {
        kind: kind.to_owned(),
        state: match moved.is_behind_resilver {
            true => "paused".to_owned(),
            false => "running".to_owned(),
        },
        group: moved.group.clone(),
        started: moved.started_s,
        done,
        total: moved.total_bytes,
        bytes_per_s,
        remaining_s: bytes_per_s.map(|rate| (moved.total_bytes - done).div_ceil(rate)),
    })
}

/// Mean bytes a second since the start, at least 1; none before the first second or byte.
pub(super) fn mean_rate(moved: &MoveStatus, now_s: u64) -> Option<u64> {
    let end_s = match moved.ended_s {
        0 => now_s,
        ended_s => ended_s,
    };
    let took_s = end_s
        .checked_sub(moved.started_s)
        .filter(|took_s| *took_s > 0)?;
    (moved.done_bytes > 0).then(|| (moved.done_bytes / took_s).max(1))
}
