//! Reads the cluster's configuration and changes it in one step, by Pacemaker's own tools.
//!
//! A change travels as a patch that names the version it was made for: if somebody else was
//! faster, the cluster refuses it, and it is made anew from what is there now.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use appliance::plan::{CibChange, cib_changes, merged, stopped};
use appliance::render::Cib;
use appliance::xml::{Element, XmlError};

use crate::machine::{Machine, MachineError, must};
use crate::process::Invocation;

/// How often a patch is made anew when others change the configuration at the same time.
const ATTEMPTS_MAX: u32 = 10;
/// How long Pacemaker's tools may take: an election can be under way.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// How long Pacemaker may take to stop what leaves the file: longer than the bound of a stop, and of a fence when that fails.
const STOP_TIME_LIMIT: Duration = Duration::from_secs(300);
/// Time between two looks.
const STOP_POLL: Duration = Duration::from_millis(500);
/// How long the cluster may take to do everything that is pending.
const SETTLE_TIME_LIMIT: Duration = Duration::from_secs(60);

/// Why the configuration could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum CibError {
    /// A tool failed.
    #[error(transparent)]
    Tool(#[from] MachineError),
    /// The configuration cannot be understood.
    #[error("understand the cluster's configuration")]
    Xml(#[from] XmlError),
    /// What leaves the file runs still.
    #[error("{0} is not stopped; `crm_mon -1` says why")]
    Runs(String),
    /// Somebody else was faster each time.
    #[error("the configuration changed {ATTEMPTS_MAX} times while it was being changed; try again")]
    Contended(#[source] MachineError),
}

/// The whole CIB of the running cluster.
///
/// # Errors
///
/// The cluster does not answer, or says what cannot be understood.
pub fn read_cib(machine: &dyn Machine) -> Result<Element, CibError> {
    let query = Invocation::new("cibadmin", &["--query"]).within(TIME_LIMIT);
    let output = must(machine, &query)?;
    Ok(Element::parse(&output.text())?)
}

/// Makes the configuration what `desired` says, in one step. Says what was changed: nothing if
/// it was so already.
///
/// # Errors
///
/// The cluster does not answer or refuses the change.
pub fn configure(machine: &dyn Machine, desired: &Cib) -> Result<Vec<CibChange>, CibError> {
    change(machine, &|before| merged(before, desired))
}

/// Has Pacemaker stop these resources, and waits until none of them runs.
///
/// # Errors
///
/// The cluster does not answer, refuses the change, or does not stop them in time.
pub fn stop(machine: &dyn Machine, ids: &BTreeSet<String>) -> Result<(), CibError> {
    change(machine, &|before| stopped(before, ids))?;
    // One that is about to start does not run yet. What the cluster has to do besides need not come to an end.
    let wait_s = SETTLE_TIME_LIMIT.as_secs().to_string();
    let wait = Invocation::new("crm_resource", &["--wait", "--timeout", &wait_s]);
    if let Err(error) = must(machine, &wait.within(SETTLE_TIME_LIMIT * 2)) {
        tracing::debug!(%error, "the cluster has more to do");
    }
    let deadline = Instant::now() + STOP_TIME_LIMIT;
    loop {
        let running = running(machine, ids)?;
        if running.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(CibError::Runs(running.join(", ")));
        }
        std::thread::sleep(STOP_POLL);
    }
}

/// Those that run, or that failed and may.
fn running(machine: &dyn Machine, ids: &BTreeSet<String>) -> Result<Vec<String>, CibError> {
    let look = Invocation::new("crm_mon", &["--output-as", "xml"]).within(TIME_LIMIT);
    let seen = Element::parse(&must(machine, &look)?.text())?;
    let resources = seen.child("resources");
    let resources = resources.into_iter().flat_map(|all| &all.children);
    let is = |one: &Element, name: &str| one.attribute(name) == Some("true");
    let runs = resources.filter(|one| is(one, "active") || is(one, "failed"));
    let runs = runs.filter_map(Element::id).filter(|id| ids.contains(*id));
    Ok(runs.map(str::to_owned).collect())
}

fn change(
    machine: &dyn Machine,
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
                tracing::debug!(%error, attempt, "the configuration changed meanwhile");
            }
            Err(error) if is_outdated(&error) => return Err(CibError::Contended(error)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Pacemaker takes a patch for a version only if that is still the version it has.
fn raise_version(cib: &mut Element) {
    let epoch: u64 = cib
        .attribute("epoch")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    *cib = cib.clone().with("epoch", epoch + 1).with("num_updates", 0);
}

/// crm_diff(8) wants files; both exist for as long as the script runs.
const PATCH_SCRIPT: &str = "set -e; umask 077; folder=$(mktemp -d); trap 'rm -rf \"$folder\"' EXIT; \
    head -c \"$1\" >\"$folder/before\"; cat >\"$folder/after\"; code=0; \
    crm_diff --original \"$folder/before\" --new \"$folder/after\" >\"$folder/patch\" || code=$?; \
    [ \"$code\" -le 1 ]; cibadmin --patch --xml-file \"$folder/patch\"";

fn patch(machine: &dyn Machine, before: &Element, after: &Element) -> Result<(), MachineError> {
    let (before, after) = (before.to_string(), after.to_string());
    let length = before.len().to_string();
    let invocation = Invocation::new("sh", &["-c", PATCH_SCRIPT, "patch", &length])
        .reading(before + &after)
        .within(TIME_LIMIT);
    must(machine, &invocation).map(|_| ())
}

/// What cibadmin(8) ends with when a patch is for another version: CRM_EX_OLD, or, where it could
/// not be applied at all, CRM_EX_DATAERR.
const CODES_OUTDATED: [i32; 2] = [103, 65];

fn is_outdated(error: &MachineError) -> bool {
    matches!(error, MachineError::Failed { code, .. } if CODES_OUTDATED.contains(code))
}
