//! When to check whether an excluded disk is available again. Pure: the time is an argument.
//!
//! A return counts when it is complete and the lender has not restarted since the leg failed. An interrupted resilver
//! costs clients little and is retried at growing intervals. A restart of the lender explains the failure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leg_record::{DiskId, Record, process_of};

/// Pause between the failure of a leg and the first check; each later pause is twice the previous one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause between two checks.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Complete returns of a leg within [`PERIOD`] before it is no longer retried. A leg that fails more often is bad, or
/// badly connected.
const RETURNS_MAX: usize = 3;
/// Period in which returns are counted. A leg at the limit is retried when its first return is this long ago.
const PERIOD: Duration = Duration::from_secs(3600);

#[derive(Debug)]
struct Out {
    due: Instant,
    pause: Duration,
    is_asked: bool,
    is_copying: bool,
    returns: Vec<Instant>,
    /// Time of the last recall.
    recalled: Option<Instant>,
}

impl Out {
    /// When the disk is checked again, if it has returned too often.
    fn held_until(&self, now: Instant) -> Option<Instant> {
        let first = self.returns.len().checked_sub(RETURNS_MAX)?;
        let until = *self.returns.get(first)? + PERIOD;
        (!self.is_asked && now < until).then_some(until)
    }
}

/// Incarnations of a disk's lender: of the last admitted session, and of the session by which the disk was last
/// current.
#[derive(Debug, Default)]
struct Incarnations {
    admitted: Option<u64>,
    current: Option<u64>,
}

/// Disks that are or were excluded.
#[derive(Debug, Default)]
pub(crate) struct Returns {
    out: BTreeMap<DiskId, Out>,
    lenders: BTreeMap<DiskId, Incarnations>,
}

impl Returns {
    /// Returns the disks to check now. A disk with an unreachable lender is checked as soon as the lender is reachable.
    pub(crate) fn due(
        &mut self,
        record: &Record,
        now: Instant,
        is_reachable: impl Fn(DiskId) -> bool,
    ) -> Vec<DiskId> {
        let mut due = Vec::new();
        for disk in record.stale.keys().filter(|disk| is_reachable(**disk)) {
            let out = self.out.entry(*disk).or_insert(Out {
                due: now + PAUSE_MIN,
                pause: PAUSE_MIN,
                is_asked: false,
                is_copying: false,
                returns: Vec::new(),
                recalled: None,
            });
            out.returns
                .retain(|at| now.saturating_duration_since(*at) < PERIOD);
            if !out.is_asked && out.due <= now && out.held_until(now).is_none() {
                out.is_asked = true;
                due.push(*disk);
            }
        }
        due
    }

    /// Stale disks that have returned too often, with the time of the next check.
    pub(crate) fn held(&self, record: &Record, now: Instant) -> BTreeMap<DiskId, Instant> {
        let stale = record.stale.keys();
        let held = stale.filter_map(|disk| Some((*disk, self.out.get(disk)?.held_until(now)?)));
        held.collect()
    }

    /// An administrator has repaired the disk: it is checked now, regardless of earlier returns.
    pub(crate) fn forgive(&mut self, disk: DiskId, now: Instant) {
        if let Some(out) = self.out.get_mut(&disk) {
            out.returns.clear();
            out.pause = PAUSE_MIN;
            out.due = now;
        }
    }

    /// Another disk of its group has damaged blocks, so its copies are needed: it is checked now, regardless of earlier
    /// returns. At most once in [`PAUSE_MAX`], so that a bad disk does not return and fail all the time.
    pub(crate) fn recall(&mut self, disk: DiskId, now: Instant) {
        let Some(out) = self.out.get_mut(&disk) else {
            return;
        };
        let since = |at: Instant| now.saturating_duration_since(at);
        if out.recalled.is_none_or(|at| since(at) >= PAUSE_MAX) {
            out.recalled = Some(now);
            self.forgive(disk, now);
        }
    }

    /// A check has ended, or the attempt that followed it.
    pub(crate) fn requested(&mut self, disk: DiskId, now: Instant) {
        if let Some(out) = self.out.get_mut(&disk) {
            out.is_asked = false;
            out.pause = (out.pause * 2).min(PAUSE_MAX);
            out.due = now + out.pause;
        }
    }

    /// Its lender, with this incarnation, admitted a session to the disk.
    pub(crate) fn admitted(&mut self, disk: DiskId, incarnation: u64) {
        // If only the disk was reopened, not the lender's process, the disk itself failed.
        let process = process_of(incarnation);
        self.lenders.entry(disk).or_default().admitted = Some(process);
    }

    /// The resilver of the disk has begun.
    pub(crate) fn begun(&mut self, disk: DiskId) {
        if let Some(out) = self.out.get_mut(&disk) {
            out.is_asked = true;
            out.is_copying = true;
        }
    }

    /// The disk is excluded again.
    pub(crate) fn is_out(&mut self, disk: DiskId, now: Instant) {
        if let Some(out) = self.out.get_mut(&disk) {
            out.is_asked = false;
            out.is_copying = false;
            out.due = now + out.pause;
        }
    }

    /// The disk is current.
    pub(crate) fn is_back(&mut self, disk: DiskId, now: Instant) {
        let lender = self.lenders.entry(disk).or_default();
        let out = self.out.get_mut(&disk).filter(|out| out.is_copying);
        let Some(out) = out else {
            lender.current = lender.current.or(lender.admitted);
            return;
        };
        out.is_asked = false;
        out.is_copying = false;
        out.pause = PAUSE_MIN;
        if lender.current == lender.admitted {
            out.returns.push(now);
        }
        lender.current = lender.admitted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leg_record::{Ballot, MissingData};

    const DISK: DiskId = DiskId(2);

    fn degraded() -> Record {
        let mut record = Record::new(1, Ballot::default(), [DiskId(1), DISK]);
        let missing_data = MissingData {
            since: 30,
            newest: 30,
        };
        record.drop_disk(DISK, missing_data);
        record
    }

    #[test]
    fn unresponsive_disk_is_retried_with_backoff() {
        let (mut returns, record) = (Returns::default(), degraded());
        let begun = Instant::now();
        let mut requested = Vec::new();
        for second in 0..300 {
            let now = begun + Duration::from_secs(second);
            if !returns.due(&record, now, |_| true).is_empty() {
                requested.push(second);
                returns.requested(DISK, now);
            }
        }
        assert_eq!(requested, [1, 3, 7, 15, 31, 63, 123, 183, 243]);
    }

    #[test]
    fn flapping_leg_returns_three_times_per_hour() {
        let (mut returns, record) = (Returns::default(), degraded());
        let begun = Instant::now();
        let mut count = 0;
        for second in 0..3600 {
            let now = begun + Duration::from_secs(second);
            if !returns.due(&record, now, |_| true).is_empty() {
                fails_after_return(&mut returns, now);
                count += 1;
            }
        }
        assert_eq!(count, RETURNS_MAX);
    }

    /// The resilver completed, then the disk failed again.
    fn fails_after_return(returns: &mut Returns, now: Instant) {
        returns.begun(DISK);
        returns.is_back(DISK, now);
        returns.is_out(DISK, now);
    }

    #[test]
    fn aborted_resilver_is_no_return_and_backs_off() {
        let (mut returns, record) = (Returns::default(), degraded());
        let begun = Instant::now();
        let mut requested = Vec::new();
        for second in 0..200 {
            let now = begun + Duration::from_secs(second);
            assert!(returns.held(&record, now).is_empty());
            if !returns.due(&record, now, |_| true).is_empty() {
                requested.push(second);
                returns.requested(DISK, now);
                returns.begun(DISK);
                returns.is_out(DISK, now);
            }
        }
        assert_eq!(requested, [1, 3, 7, 15, 31, 63, 123, 183]);
    }

    #[test]
    fn loss_by_lender_restart_does_not_count_against_leg() {
        let (mut returns, record) = (Returns::default(), degraded());
        let mut now = Instant::now();
        returns.admitted(DISK, 0);
        returns.is_back(DISK, now);
        for process in 1..=2 * RETURNS_MAX as u64 {
            while returns.due(&record, now, |_| true).is_empty() {
                now += PAUSE_MIN;
            }
            returns.admitted(DISK, process << 32);
            fails_after_return(&mut returns, now);
            assert!(returns.held(&record, now).is_empty(), "{process}");
        }
    }

    #[test]
    fn disk_reopened_each_time_by_lender_backs_off() {
        let (mut returns, record) = (Returns::default(), degraded());
        let mut now = Instant::now();
        returns.admitted(DISK, 0);
        returns.is_back(DISK, now);
        for opening in 1..=RETURNS_MAX as u64 {
            while returns.due(&record, now, |_| true).is_empty() {
                now += PAUSE_MIN;
            }
            returns.admitted(DISK, opening);
            fails_after_return(&mut returns, now);
        }
        assert!(!returns.held(&record, now).is_empty());
    }

    /// The disk returned up to the limit, ten seconds apart, and failed each time.
    fn flapping(begun: Instant) -> (Returns, Record, Instant) {
        let (mut returns, record) = (Returns::default(), degraded());
        let mut now = begun;
        for _ in 0..RETURNS_MAX {
            while returns.due(&record, now, |_| true).is_empty() {
                now += PAUSE_MIN;
            }
            assert!(returns.held(&record, now).is_empty());
            fails_after_return(&mut returns, now);
            now += Duration::from_secs(10);
        }
        (returns, record, now)
    }

    #[test]
    fn flapping_leg_reports_retry_time_and_is_retried() {
        let begun = Instant::now();
        let (mut returns, record, now) = flapping(begun);
        let until = returns.held(&record, now)[&DISK];
        assert_eq!(
            until,
            begun + PAUSE_MIN + PERIOD,
            "the first is an hour ago"
        );
        let before = until - Duration::from_millis(1);
        assert_eq!(returns.due(&record, before, |_| true), []);
        assert_eq!(returns.due(&record, until, |_| true), [DISK]);
        assert!(returns.held(&record, until).is_empty());
    }

    #[test]
    fn administrator_request_retries_flapping_leg_at_once() {
        let (mut returns, record, now) = flapping(Instant::now());
        assert!(!returns.held(&record, now).is_empty());
        returns.forgive(DISK, now);
        assert!(returns.held(&record, now).is_empty());
        assert_eq!(returns.due(&record, now, |_| true), [DISK]);
    }

    #[test]
    fn flapping_leg_is_retried_when_another_leg_is_damaged() {
        let (mut returns, record, mut now) = flapping(Instant::now());
        returns.recall(DISK, now);
        assert_eq!(returns.due(&record, now, |_| true), [DISK]);
        // It fails as often as before: the next recall is postponed.
        for _ in 0..RETURNS_MAX {
            fails_after_return(&mut returns, now);
        }
        returns.recall(DISK, now);
        assert!(!returns.held(&record, now).is_empty());
        now += PAUSE_MAX;
        returns.recall(DISK, now);
        assert_eq!(returns.due(&record, now, |_| true), [DISK]);
    }
}
