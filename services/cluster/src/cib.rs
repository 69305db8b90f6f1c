//! Reads the cluster's configuration and changes it atomically, by Pacemaker's own tools.
//!
//! A change is a patch for a given version: if the configuration has changed in between, the cluster refuses the patch,
//! and it is built again from the current version.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use appliance::plan::{CibChange, cib_changes, merged, stopped};
use appliance::render::Cib;
use appliance::xml::{Element, XmlError};

use crate::host::{Host, HostError, must};
use crate::process::Invocation;
use crate::situation::{PendingPowerOff, Situation, SituationError};

/// How often a patch is rebuilt when other clients change the configuration concurrently.
const ATTEMPTS_MAX: u32 = 10;
/// Time limit of Pacemaker's tools: an election can be active.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Time limit for Pacemaker to stop removed resources: longer than the limit of a stop, and of a fence if that fails.
const STOP_TIME_LIMIT: Duration = Duration::from_secs(300);
/// Polling interval.
const STOP_POLL: Duration = Duration::from_millis(500);
/// Time limit for all pending actions of the cluster.
const SETTLE_TIME_LIMIT: Duration = Duration::from_secs(60);

/// Why the configuration could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum CibError {
    /// A tool failed.
    #[error(transparent)]
    Tool(#[from] HostError),
    /// The configuration cannot be parsed.
    #[error("parse the cluster's configuration")]
    Xml(#[from] XmlError),
    /// The state of the cluster is not known.
    #[error(transparent)]
    Situation(#[from] SituationError),
    /// A removed resource still runs.
    #[error("{0} is not stopped; `crm_mon -1` shows why")]
    Runs(String),
    /// Pacemaker stops no resource of a head before.
    #[error("{0}")]
    PowerOff(PendingPowerOff),
    /// Every attempt met a newer configuration.
    #[error("the configuration changed {ATTEMPTS_MAX} times while it was being changed; try again")]
    Contended(#[source] HostError),
}

/// The whole CIB of the running cluster.
///
/// # Errors
///
/// The cluster does not respond, or its response cannot be parsed.
pub fn read_cib(machine: &dyn Host) -> Result<Element, CibError> {
    let query = Invocation::new("cibadmin", &["--query"]).within(TIME_LIMIT);
    let output = must(machine, &query)?;
    Ok(Element::parse(&output.text())?)
}

/// Changes the configuration to `desired` atomically. Returns the changes; none if it matched already.
///
/// # Errors
///
/// The cluster does not respond or refuses the change.
pub fn configure(machine: &dyn Host, desired: &Cib) -> Result<Vec<CibChange>, CibError> {
    change(machine, &|before| merged(before, desired))
}

/// Has Pacemaker stop these resources, and returns when none of them runs.
///
/// # Errors
///
/// The cluster does not respond, refuses the change, or does not stop them in time.
pub fn stop(machine: &dyn Host, ids: &BTreeSet<String>) -> Result<(), CibError> {
    let before = situation(machine)?;
    if let Some(pending) = before.pending_power_off() {
        return Err(CibError::PowerOff(pending));
    }
    change(machine, &|before| stopped(before, ids))?;
    // A resource that is about to start does not run yet. Unrelated actions of the cluster may stay pending.
    let wait_s = SETTLE_TIME_LIMIT.as_secs().to_string();
    let wait = Invocation::new("crm_resource", &["--wait", "--timeout", &wait_s]);
    if let Err(error) = must(machine, &wait.within(SETTLE_TIME_LIMIT * 2)) {
        tracing::debug!(%error, "the cluster has pending actions");
    }
    let deadline = Instant::now() + STOP_TIME_LIMIT;
    loop {
        let now = situation(machine)?;
        let mut running = now.active_or_failed();
        running.retain(|id| ids.contains(id));
        if running.is_empty() {
            return Ok(());
        }
        if let Some(pending) = now.new_failed_power_off(&before) {
            return Err(CibError::PowerOff(pending));
        }
        if Instant::now() >= deadline {
            return Err(CibError::Runs(running.join(", ")));
        }
        std::thread::sleep(STOP_POLL);
    }
}

fn situation(machine: &dyn Host) -> Result<Situation, CibError> {
    Ok(Situation::look(machine)?)
}

fn change(
    machine: &dyn Host,
    make: &dyn Fn(&Element) -> Element,
) -> Result<Vec<CibChange>, CibError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let before = read_cib(machine)?;
        let mut after = make(&before);
        let changes = cib_changes(&before, &after);
        if changes.is_empty() {
            return Ok(changes);
        }
        raise_version(&mut after);
        match patch(machine, &before, &after) {
            Ok(()) => return Ok(changes),
            Err(error) if attempt < ATTEMPTS_MAX && is_outdated(&error) => {
                tracing::debug!(%error, attempt, "the configuration changed concurrently");
            }
            Err(error) if is_outdated(&error) => return Err(CibError::Contended(error)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Pacemaker accepts a patch only for its current version.
fn raise_version(cib: &mut Element) {
    let epoch: u64 = cib
        .attribute("epoch")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    *cib = cib.clone().with("epoch", epoch + 1).with("num_updates", 0);
}

/// crm_diff(8) needs files; both exist while the script runs.
const PATCH_SCRIPT: &str = "set -e; umask 077; folder=$(mktemp -d); trap 'rm -rf \"$folder\"' EXIT; \
    head -c \"$1\" >\"$folder/before\"; cat >\"$folder/after\"; code=0; \
    crm_diff --original \"$folder/before\" --new \"$folder/after\" >\"$folder/patch\" || code=$?; \
    [ \"$code\" -le 1 ]; cibadmin --patch --xml-file \"$folder/patch\"";

fn patch(machine: &dyn Host, before: &Element, after: &Element) -> Result<(), HostError> {
    let (before, after) = (before.to_string(), after.to_string());
    let length = before.len().to_string();
    let invocation = Invocation::new("sh", &["-c", PATCH_SCRIPT, "patch", &length])
        .reading(before + &after)
        .within(TIME_LIMIT);
    must(machine, &invocation).map(|_| ())
}

/// Exit codes of cibadmin(8) for a patch of another version: CRM_EX_OLD, or CRM_EX_DATAERR if it could not be applied
/// at all.
const CODES_OUTDATED: [i32; 2] = [103, 65];

fn is_outdated(error: &HostError) -> bool {
    matches!(error, HostError::Failed { code, .. } if CODES_OUTDATED.contains(code))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::fake::{FakeCluster, FakeHost};

    /// `apply` and `retire` have Pacemaker stop resources, which it does not do before the power-off is confirmed.
    #[test]
    fn resources_are_not_stopped_while_a_power_off_is_pending() {
        let cluster = Arc::new(Mutex::new(FakeCluster {
            unconfirmed: Some("left".to_owned()),
            ..FakeCluster::default()
        }));
        let machine = FakeHost::new("right", &cluster);
        let begun = Instant::now();
        let refused = stop(&machine, &["pool-tank".to_owned()].into());
        let message = refused.expect_err("it is pending").to_string();
        assert!(
            message.contains("the power-off of left is pending"),
            "{message}"
        );
        assert!(begun.elapsed() < STOP_TIME_LIMIT / 2);
        assert!(cluster.lock().expect("no panic").log.is_empty());
    }
}
