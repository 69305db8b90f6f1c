//! Faults of disks, and how the pool gets over them.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use units::HeadName;

use crate::environment::Environment;
use crate::error::DrillError;
use crate::fault::Fault;
use crate::health;
use drill_verdict::Timestamp;

/// How long a pool without a whole mirror may take to say that it is suspended.
const SUSPENDED_WITHIN: Duration = Duration::from_secs(30);
/// How long no disk of the mirror is back. Longer than any retry.
const DARK: Duration = Duration::from_secs(5);
/// Time after which a pool that reports itself suspended must not complete I/O, in seconds.
const LAST_RESPONSES_S: f64 = 1.0;
/// Time limit for a disk that responds again to be brought online and resilvered.
const RETURN_WITHIN: Duration = Duration::from_secs(30);

/// Harms one disk.
///
/// # Errors
///
/// A command in the lab fails.
pub fn harm(
    environment: &Environment,
    head: &HeadName,
    rng: &mut fastrand::Rng,
    how: &str,
) -> Result<Fault, DrillError> {
    let disks = environment.device_names(head);
    let name = &disks[rng.usize(..disks.len())];
    let fault = Fault::begin(format!("{} {how}", name.display()));
    environment.set_device_faults(std::slice::from_ref(name), how)?;
    Ok(fault)
}

/// The flag of `pool clear` that it names if the returned disk may be older than a missing one.
const CONFIRMATION_FLAG: &str = "--missing-devices-are-not-newer";

/// Removes every disk of a mirror, as a disk shelf without power does, and returns one. Clients must only be blocked.
/// Then an operator clears the pool, and it resumes with that disk. In every other round the remaining disks return
/// first. They also return where `pool clear` reports that they may hold newer data: no data may be lost.
///
/// # Errors
///
/// A command in the lab fails.
pub fn lose_mirror(
    environment: &mut Environment,
    head: &HeadName,
    rng: &mut fastrand::Rng,
) -> Result<Fault, DrillError> {
    let disks = environment.device_names(head);
    let mut legs = mirror(&disks, rng.usize(..disks.len() / 2)).to_vec();
    let mut fault = Fault::begin(format!("{} are gone", arguments_of(&legs)));
    environment.set_device_faults(&legs, "gone")?;
    let is_suspended = |environment: &Environment| {
        status(environment, head).is_some_and(|text| health::is_suspended(&text))
    };
    if !environment.wait_until(SUSPENDED_WITHIN, is_suspended)? {
        fault
            .complaints
            .push("the pool is not suspended without a mirror".to_owned());
    }
    let suspended = Timestamp::now();
    environment.client.listen(DARK)?;
    if environment
        .client
        .seen
        .all_responded_since(Timestamp(suspended.0 + LAST_RESPONSES_S))
    {
        fault
            .complaints
            .push("I/O went on without a mirror".to_owned());
    }
    let back = legs.remove(rng.usize(..legs.len()));
    environment.set_device_faults(&legs, "gone")?;
    environment.client.listen(DARK)?;
    let mut is_alone = rng.bool();
    let then = if is_alone { "alone" } else { "then the other" };
    let words = format!("; {} is back, {then}", back.display());
    fault.words.push_str(&words);
    if !is_alone {
        environment.set_device_faults(&[], "")?;
    }
    fault.acted_at = Timestamp::now();
    let mut cleared = clear(environment, head)?;
    if is_alone && cleared == Cleared::ConfirmationNeeded {
        is_alone = false;
        fault
            .words
            .push_str(", which may be out of date, so the other is returned");
        environment.set_device_faults(&[], "")?;
        cleared = clear(environment, head)?;
    }
    if cleared != Cleared::Yes {
        let words = format!(
            "the pool cannot be cleared with {} back, {then}",
            back.display()
        );
        fault.complaints.push(words);
    }
    let answers_from = Timestamp::now();
    if is_alone
        && !environment.wait_until(RETURN_WITHIN, |environment| {
            environment.client.seen.all_responded_since(answers_from)
        })?
    {
        let words = "I/O does not resume with one disk of the mirror".to_owned();
        fault.complaints.push(words);
    }
    Ok(fault)
}

/// Lifts all faults. A faulted disk must be brought online automatically, unless that happened too often: then an event
/// says so, and the operator brings it online.
///
/// # Errors
///
/// A command in the lab fails.
pub fn mend(environment: &mut Environment, fault: &mut Fault) -> Result<(), DrillError> {
    environment.set_device_faults(&[], "")?;
    let Some(head) = environment.serving()? else {
        return Ok(());
    };
    let is_whole = |environment: &Environment| environment.unhealthy_devices(&head).is_none();
    let since_ms = wall_clock_ms(fault.at);
    let stays_out = |environment: &Environment| {
        let words = ["pool", "events", environment.pool.as_str(), "--json"];
        let events = environment.bulkhead(&head, &words);
        events.is_ok_and(|events| health::stays_out(&events, since_ms))
    };
    if environment.wait_until(RETURN_WITHIN, |environment| {
        is_whole(environment) || stays_out(environment)
    })? {
        if !is_whole(environment) {
            clear(environment, &head)?;
        }
        return Ok(());
    }
    let why = environment.unhealthy_devices(&head).unwrap_or_default();
    fault.complaints.push(format!(
        "a disk that responds again is not brought online: {why}"
    ));
    clear(environment, &head).map(drop)
}

/// The outcome of `pool clear`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cleared {
    Yes,
    /// It requires a confirmation.
    ConfirmationNeeded,
    No,
}

/// Has the pool cleared, again where that is too early.
fn clear(environment: &mut Environment, head: &HeadName) -> Result<Cleared, DrillError> {
    let cleared = Cell::new(Cleared::No);
    environment.wait_until(RETURN_WITHIN, |environment| {
        let clear = ["pool", "clear", environment.pool.as_str()];
        cleared.set(match environment.bulkhead(head, &clear) {
            Ok(_) => Cleared::Yes,
            Err(error) if units::chain(&error).contains(CONFIRMATION_FLAG) => {
                Cleared::ConfirmationNeeded
            }
            Err(_) => Cleared::No,
        });
        cleared.get() != Cleared::No
    })?;
    Ok(cleared.get())
}

fn status(environment: &Environment, head: &HeadName) -> Option<String> {
    let words = ["pool", "status", environment.pool.as_str(), "--json"];
    environment.bulkhead(head, &words).ok()
}

/// When that was, in milliseconds since 1970.
fn wall_clock_ms(timestamp: Timestamp) -> u64 {
    let ago = Duration::from_secs_f64(Timestamp::now().since(timestamp).max(0.0));
    (UNIX_EPOCH.elapsed().unwrap_or_default().saturating_sub(ago)).as_millis() as u64
}

/// The disks of mirror `number`, in the layout of pools in the lab: mirrors of two, the last of three if the number of
/// disks is odd.
fn mirror(disks: &[PathBuf], number: usize) -> &[PathBuf] {
    let is_last = number + 1 == disks.len() / 2;
    let end = if is_last { disks.len() } else { 2 * number + 2 };
    &disks[2 * number..end]
}

fn arguments_of(disks: &[PathBuf]) -> String {
    let names = disks.iter().map(|disk| disk.display().to_string());
    names.collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legs_of_mirror_match_those_the_lab_created() {
        let disks: Vec<PathBuf> = ["a", "b", "c", "d", "e"].map(PathBuf::from).into();
        assert_eq!(mirror(&disks, 0), &disks[..2]);
        assert_eq!(mirror(&disks, 1), &disks[2..]);
        assert_eq!(mirror(&disks[..4], 1), &disks[2..4]);
    }
}
