//! Messages for a pool with present devices that might be older than the missing ones.

use std::path::Path;

use control::{Failure, FailureKind, calendar};
use engine::pool::legs::Doubt;
use engine::pool::{PoolError, PoolErrorKind};

/// Returns the message for an import that needs an administrator's confirmation; `None` for other
/// errors.
pub fn explain(error: &PoolError) -> Option<Failure> {
    match &error.kind {
        PoolErrorKind::MayBeStale(doubt) => Some(refusal(&error.pool, doubt)),
        PoolErrorKind::UnopenedMayBeNewer { doubt, path, why } => {
            Some(unopened(&error.pool, doubt, path, why))
        }
        PoolErrorKind::Copies(conflicts) => Some(crate::copies::refusal(&error.pool, conflicts)),
        PoolErrorKind::HasRecord(number) => Some(has_record(
            &error.pool,
            *number,
            Path::new(leg_door::DEFAULT_PATH),
        )),
        PoolErrorKind::MayMissData(doubt) => Some(may_miss_data(&error.pool, doubt)),
        PoolErrorKind::NewestUnreadable {
            newest_txg,
            newest_time_s,
            readable_time_s,
        } => Some(unreadable(
            &error.pool,
            *newest_txg,
            *newest_time_s,
            *readable_time_s,
        )),
        _ => None,
    }
}

fn unreadable(pool: &str, newest_txg: u64, newest_time_s: u64, readable_time_s: u64) -> Failure {
    let message = format!(
        "the newest state of pool {pool}, transaction group {newest_txg} of {}, cannot be read: its disks lost writes that they \
         had acknowledged. One of {}, {} s older, can be read",
        calendar::utc(newest_time_s),
        calendar::utc(readable_time_s),
        newest_time_s.saturating_sub(readable_time_s),
    );
    Failure::new(FailureKind::NeedsConfirmation, message).advise(format!(
        "keep the disks as they are until you know whether there is a copy of the lost data; to continue from the \
         older state, confirm that with `bulkhead pool confirm {pool} --newest-groups-are-lost`, and start it \
         again: every write after that time is lost then, acknowledged ones too"
    ))
}

/// Returns the refusal, with advice.
pub fn refusal(pool: &str, doubt: &Doubt) -> Failure {
    let message = format!("pool {pool} may be older than it was: {}", described(doubt));
    Failure::new(FailureKind::NeedsConfirmation, message).advise(format!(
        "bring the missing devices back; or, if they are lost for good or certainly not newer, say so on the \
         head that shall serve the pool, with `bulkhead pool confirm {pool} \
         --missing-devices-are-not-newer`, and start it again: data that is on them only is lost then"
    ))
}

/// Returns the refusal for a pool that would be opened without its leg record. `file`: the leg configuration.
pub fn has_record(pool: &str, number: u64, file: &Path) -> Failure {
    let message = format!(
        "pool {pool} has legs on several heads, and only their record (number {number}) determines which of them hold \
         all data: the data on this host may be older, or another head may serve it"
    );
    Failure::new(FailureKind::NeedsConfirmation, message).advise(format!(
        "start its server with `bulkhead pool-server {pool} --legs {}`, and send it the request. To continue \
         for good with the disks of this host alone, stop the leg-servers of all heads, and confirm that with `bulkhead \
         pool confirm {pool} --forget-legs`: data that is on the other legs only is lost then",
        file.display()
    ))
}

/// The same where a device has its label and cannot be opened.
fn unopened(pool: &str, doubt: &Doubt, path: &Path, why: &str) -> Failure {
    let message = format!(
        "pool {pool} may be older than it was: {} cannot be opened ({why}), and there is no evidence that it failed before the rest; {}",
        path.display(),
        newest(doubt),
    );
    Failure::new(FailureKind::NeedsConfirmation, message).advise(format!(
        "mend that device; or, if it is lost for good or certainly not newer, remove it from this head, confirm that with \
         `bulkhead pool confirm {pool} --missing-devices-are-not-newer`, and start the pool again: data that is on it only is \
         lost then"
    ))
}

/// The same of a pool that is open and suspended.
fn may_miss_data(pool: &str, doubt: &Doubt) -> Failure {
    let missing = doubt.missing_paths();
    let message = format!(
        "pool {pool} stays suspended: {missing} may alone hold writes that were acknowledged, and the devices that are back \
         may lack them"
    );
    Failure::new(FailureKind::NeedsConfirmation, message).advise(format!(
        "bring {missing} back, and clear the pool again; or, if that is lost for good or certainly not newer, confirm that with \
         `bulkhead pool clear {pool} --missing-devices-are-not-newer`: data that is on it only is lost then"
    ))
}

fn described(doubt: &Doubt) -> String {
    let missing = doubt.missing_paths();
    let (is, it) = match doubt.missing.len() {
        1 => ("is", "it"),
        _ => ("are", "they"),
    };
    let newest = newest(doubt);
    format!(
        "{missing} {is} missing, and there is no evidence that {it} failed before the rest; {newest}"
    )
}

fn newest(doubt: &Doubt) -> String {
    let written = calendar::utc(doubt.newest_time_s);
    let txg = doubt.newest_txg;
    format!("the newest that is present is transaction group {txg} of {written}")
}
