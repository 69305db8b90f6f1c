//! Applies a plan, one change after the other. A run that was killed is repeated: completed changes are not in the next
//! plan.

use std::path::Path;
use std::time::{Duration, Instant};

use appliance::plan::{
    AUTHKEY_BYTES, AUTHKEY_PATH, AuthkeySource, COROSYNC_CONF_PATH, COROSYNC_UNREAD_PATH, Change,
    PEER_KEY_BYTES, PEER_KEY_PATH, Plan,
};
use control::failure::chain;
use units::HeadName;

use crate::cib::{CibError, configure, stop};
use crate::host::{Host, HostError, Hosts, must, read_file, write_file};
use crate::leg_wait::{LegWait, LegsMissing, Wanted};
use crate::observe::{pacemaker_runs, witness};
use crate::process::Invocation;

/// Permissions of the cluster's secret, and of the heads' key.
const SECRET_MODE: u32 = 0o400;
/// Time limit for the start of a service.
const UNIT_TIME_LIMIT: Duration = Duration::from_secs(120);
/// Time limit for a change of members: longer than the rollback of a change that the other head does not accept.
const MEMBERS_TIME_LIMIT: Duration = Duration::from_secs(90);
/// Time limit for a response of Pacemaker after its start.
const PACEMAKER_TIME_LIMIT: Duration = Duration::from_secs(60);
/// Time limit for the witness to respond to a head. A reachable one needs less than a second.
const WITNESS_TIME_LIMIT: Duration = Duration::from_secs(30);
/// Polling interval. A remote host sends no event to wait for.
const PACEMAKER_POLL: Duration = Duration::from_millis(200);

/// Why a plan was not completed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// There is an obstacle.
    #[error("nothing was changed: {0}")]
    Obstacle(String),
    /// There is no connection to this head.
    #[error("{0} cannot be reached")]
    NoConnection(HeadName),
    /// A change failed.
    #[error("{change}")]
    Change {
        /// The change, in words.
        change: String,
        /// The cause.
        #[source]
        source: HostError,
    },
    /// No random bytes for a secret.
    #[error("make a secret: {0}")]
    Secret(getrandom::Error),
    /// The secret of the source head is missing.
    #[error("the secret of {0} is gone; plan again")]
    SecretMissing(HeadName),
    /// Pacemaker was started and does not respond.
    #[error("Pacemaker did not respond on any head within {0} s; see its log")]
    PacemakerSilent(u64),
    /// A head is not connected to the witness.
    #[error(
        "the witness did not respond to {0} within {limit} s: the head is without its vote; see `corosync-qdevice-tool -s` there, and \
         `systemctl status corosync-qnetd` on the witness",
        limit = WITNESS_TIME_LIMIT.as_secs()
    )]
    WitnessSilent(HeadName),
    /// The configuration was refused.
    #[error("configure Pacemaker")]
    Configure(#[source] CibError),
    /// Removed resources were not stopped.
    #[error("stop the removed resources")]
    Stop(#[source] CibError),
    /// A leg-server is not restarted before the legs of other heads are current.
    #[error("{0}: its leg-server was not restarted")]
    Legs(HeadName, #[source] LegsMissing),
    /// Changes failed; the changes that do not depend on them were made.
    #[error("{}{}", each(.failed), left_out(.skipped))]
    Several {
        /// The failures.
        failed: Vec<ApplyError>,
        /// The changes that were skipped for that reason, in words.
        skipped: Vec<String>,
    },
}

fn each(failed: &[ApplyError]) -> String {
    let failed: Vec<String> = failed.iter().map(|error| chain(error)).collect();
    match failed.len() {
        1 => failed.concat(),
        count => format!("{count} changes failed: {}", failed.join("; ")),
    }
}

fn left_out(skipped: &[String]) -> String {
    match skipped.is_empty() {
        true => String::new(),
        false => format!("; not done because of that: {}", skipped.join("; ")),
    }
}

/// Applies `plan`. `progress` is called with each change before it is made.
///
/// # Errors
///
/// A change failed. After a failed change of a pool's record, the changes that do not depend on it are made
/// nevertheless. After any other failure no more changes are made.
pub fn apply(
    machines: &Hosts,
    plan: &Plan,
    progress: &mut dyn FnMut(&Change),
) -> Result<(), ApplyError> {
    if let Some(obstacle) = plan.obstacles.first() {
        return Err(ApplyError::Obstacle(format!(
            "{}: {}",
            obstacle.what, obstacle.mend
        )));
    }
    let is_reload = |change: &Change| matches!(change, Change::ReloadCorosync { .. });
    let mut run = Run {
        machines,
        new_secret: None,
        new_peer_key: None,
        reloads: plan.changes.iter().any(is_reload),
        legs: LegWait::default(),
    };
    let (mut failed, mut skipped): (Vec<(&Change, ApplyError)>, Vec<String>) = Default::default();
    for change in &plan.changes {
        if failed.iter().any(|(other, _)| needs(change, other)) {
            skipped.push(in_short(change));
            continue;
        }
        progress(change);
        if let Err(error) = run.make(change) {
            failed.push((change, error));
            if !is_of_a_record(change) {
                break;
            }
        }
    }
    let mut failed: Vec<ApplyError> = failed.into_iter().map(|(_, error)| error).collect();
    match (failed.pop(), failed.is_empty() && skipped.is_empty()) {
        (None, _) => Ok(()),
        (Some(only), true) => Err(only),
        (Some(last), false) => {
            failed.push(last);
            Err(ApplyError::Several { failed, skipped })
        }
    }
}

/// Whether other changes can be made when this one failed. The removal of a witness must precede the files.
fn is_of_a_record(change: &Change) -> bool {
    matches!(
        change,
        Change::AddHead { .. }
            | Change::AttachLeg { .. }
            | Change::AddGroup { .. }
            | Change::SetWitness {
                witness: Some(_),
                ..
            }
    )
}

/// Whether `change` depends on the failed change `failed`.
fn needs(change: &Change, failed: &Change) -> bool {
    match (failed, change) {
        // A leg of a head that the record does not name.
        (
            Change::AddHead { pool, coming, .. },
            Change::AttachLeg {
                pool: other, leg, ..
            },
        ) => {
            pool == other
                && leg
                    .split_once(':')
                    .is_some_and(|(head, _)| head == coming.as_str())
        }
        // The pool would be started on a head that is not in its record yet, or with votes that it does not have.
        (
            Change::AddHead { .. }
            | Change::SetWitness {
                witness: Some(_), ..
            },
            other,
        ) => other.is_of_cluster(),
        _ => false,
    }
}

/// The first line of a change in words.
fn in_short(change: &Change) -> String {
    let text = change.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

/// The shared state of one run.
struct Run<'a> {
    machines: &'a Hosts,
    /// One secret for all heads that get a new one.
    new_secret: Option<Vec<u8>>,
    /// The same for the heads' own key.
    new_peer_key: Option<Vec<u8>>,
    /// Corosync is requested to reload its file.
    reloads: bool,
    legs: LegWait,
}

impl Run<'_> {
    fn make(&mut self, change: &Change) -> Result<(), ApplyError> {
        let machines = self.machines;
        match change {
            Change::WriteAuthkey { head, source } => {
                let new = &mut self.new_secret;
                let secret = secret_or_new(machines, source, AUTHKEY_PATH, new, || {
                    create_secret(AUTHKEY_BYTES)
                })?;
                write_secret(on(machines, head)?, AUTHKEY_PATH, &secret)
                    .map_err(|source| failed(change, source))
            }
            Change::WritePeerKey { head, source } => {
                let new = &mut self.new_peer_key;
                let make = || create_secret(PEER_KEY_BYTES);
                let key = secret_or_new(machines, source, PEER_KEY_PATH, new, make)?;
                write_secret(on(machines, head)?, PEER_KEY_PATH, &key)
                    .map_err(|source| failed(change, source))
            }
            Change::ConfigurePacemaker { cib, .. } => {
                configure(responding(machines)?, cib).map_err(ApplyError::Configure)?;
                Ok(())
            }
            Change::StopResources { resources } => {
                stop(responding(machines)?, resources).map_err(ApplyError::Stop)
            }
            Change::AwaitLegs {
                head,
                program,
                groups,
                time_limit,
                stale_legs,
                ..
            } => {
                let wanted = Wanted {
                    head,
                    program,
                    pools: groups,
                    time_limit: *time_limit,
                    stale_legs: *stale_legs,
                };
                self.legs
                    .before(machines, &wanted)
                    .map_err(|source| ApplyError::Legs(head.clone(), source))
            }
            Change::AwaitWitness { head } => await_witness(machines, head, change),
            Change::WriteFile { head, path, .. }
                if self.reloads && path == Path::new(COROSYNC_CONF_PATH) =>
            {
                // A run that is killed before the reload leaves this mark, and the next one reloads.
                mark(on(machines, head)?).map_err(|source| failed(change, source))?;
                self.simple(change)
            }
            Change::ReloadCorosync { .. } => {
                self.simple(change)?;
                machines.values().try_for_each(|machine| {
                    unmark(machine.as_ref()).map_err(|source| failed(change, source))
                })
            }
            simple => self.simple(simple),
        }
    }

    fn simple(&self, change: &Change) -> Result<(), ApplyError> {
        perform(self.machines, change).map_err(|error| match error {
            Performing::NoConnection(head) => ApplyError::NoConnection(head),
            Performing::Failed(source) => failed(change, source),
        })
    }
}

/// Marks durably that a file of Corosync is written and not reloaded.
fn mark(machine: &dyn Host) -> Result<(), HostError> {
    write_file(machine, Path::new(COROSYNC_UNREAD_PATH), b"", 0o644)
}

fn unmark(machine: &dyn Host) -> Result<(), HostError> {
    let arguments = ["-c", "rm -f \"$1\"", "unmark", COROSYNC_UNREAD_PATH];
    must(machine, &Invocation::new("sh", &arguments)).map(drop)
}

fn failed(change: &Change, source: HostError) -> ApplyError {
    ApplyError::Change {
        change: in_short(change),
        source,
    }
}

fn on<'a>(machines: &'a Hosts, head: &HeadName) -> Result<&'a dyn Host, ApplyError> {
    match machines.get(head) {
        Some(machine) => Ok(machine.as_ref()),
        None => Err(ApplyError::NoConnection(head.clone())),
    }
}

enum Performing {
    NoConnection(HeadName),
    Failed(HostError),
}

/// A change that is one command on one head.
fn perform(machines: &Hosts, change: &Change) -> Result<(), Performing> {
    let reach = |head: &HeadName| match machines.get(head) {
        Some(machine) => Ok(machine.as_ref()),
        None => Err(Performing::NoConnection(head.clone())),
    };
    let unit = |head: &HeadName, verb: &str, unit: &str| {
        let invocation = Invocation::new("systemctl", &[verb, "--now", unit]);
        must(reach(head)?, &invocation.within(UNIT_TIME_LIMIT)).map_err(Performing::Failed)
    };
    let by_server = |head: &HeadName, program: &Path, words: &[&str]| {
        let invocation = Invocation::new(&program.to_string_lossy(), words);
        must(reach(head)?, &invocation.within(MEMBERS_TIME_LIMIT))
            .map(|_| ())
            .map_err(Performing::Failed)
    };
    match change {
        Change::WriteFile {
            head,
            path,
            text,
            mode,
            ..
        } => write_file(reach(head)?, path, text.as_bytes(), *mode).map_err(Performing::Failed),
        Change::SetPortals {
            head,
            program,
            pool,
            portals,
            in_use,
            ..
        } => {
            let mut words = vec!["portal".to_owned(), "set".to_owned(), pool.to_string()];
            words.extend(portals.words());
            words.extend(in_use.then(|| "--in-use".to_owned()));
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let invocation = Invocation::new(&program.to_string_lossy(), &words);
            must(reach(head)?, &invocation)
                .map(|_| ())
                .map_err(Performing::Failed)
        }
        Change::SetWitness {
            head,
            program,
            pool,
            witness,
        } => {
            let witness = witness.as_deref().unwrap_or("--none");
            let words = ["pool", "set-witness", pool.as_str(), witness];
            by_server(head, program, &words)
        }
        Change::AddHead {
            head,
            program,
            pool,
            coming,
        } => by_server(head, program, &["pool", "add-head", pool.as_str(), coming]),
        Change::AttachLeg {
            head,
            program,
            pool,
            beside,
            leg,
        } => by_server(
            head,
            program,
            &["pool", "attach", pool.as_str(), beside, leg],
        ),
        Change::AddGroup {
            head,
            program,
            pool,
            group,
        } => {
            let mut words = vec!["pool", "add", pool.as_str()];
            words.extend(group.iter().map(String::as_str));
            by_server(head, program, &words)
        }
        Change::ReloadCorosync { head } => {
            let invocation = Invocation::new("corosync-cfgtool", &["-R"]);
            must(reach(head)?, &invocation)
                .map(|_| ())
                .map_err(Performing::Failed)
        }
        Change::StopUnit { head, unit: name } => unit(head, "disable", name).map(|_| ()),
        Change::StartUnit { head, unit: name } => unit(head, "enable", name).map(|_| ()),
        Change::RestartUnit { head, unit } => {
            let invocation = Invocation::new("systemctl", &["restart", unit]);
            must(reach(head)?, &invocation.within(UNIT_TIME_LIMIT))
                .map(|_| ())
                .map_err(Performing::Failed)
        }
        Change::MakeCertificate {
            head,
            program,
            names,
        } => {
            let program = program.to_string_lossy();
            let mut arguments = vec!["head", "certificate"];
            arguments.extend(names.iter().flat_map(|name| ["--name", name]));
            must(reach(head)?, &Invocation::new(&program, &arguments))
                .map(|_| ())
                .map_err(Performing::Failed)
        }
        // Changes without a command of their own.
        Change::WriteAuthkey { .. }
        | Change::WritePeerKey { .. }
        | Change::ConfigurePacemaker { .. }
        | Change::StopResources { .. }
        | Change::AwaitWitness { .. }
        | Change::AwaitLegs { .. } => Ok(()),
    }
}

/// The secret of a head, or the new one of this run.
fn secret_or_new(
    machines: &Hosts,
    source: &AuthkeySource,
    path: &str,
    new: &mut Option<Vec<u8>>,
    make: impl FnOnce() -> Result<Vec<u8>, ApplyError>,
) -> Result<Vec<u8>, ApplyError> {
    match (source, &new) {
        (AuthkeySource::Head(holder), _) => secret_of(machines, holder, path),
        (AuthkeySource::New, Some(made)) => Ok(made.clone()),
        (AuthkeySource::New, None) => Ok(new.insert(make()?).clone()),
    }
}

fn secret_of(machines: &Hosts, holder: &HeadName, path: &str) -> Result<Vec<u8>, ApplyError> {
    match read_file(on(machines, holder)?, Path::new(path)) {
        Ok(Some((secret, _))) => Ok(secret),
        Ok(None) => Err(ApplyError::SecretMissing(holder.clone())),
        Err(source) => Err(ApplyError::Change {
            change: format!("{holder}: read its secret"),
            source,
        }),
    }
}

pub(crate) fn write_secret(machine: &dyn Host, path: &str, secret: &[u8]) -> Result<(), HostError> {
    write_file(machine, Path::new(path), secret, SECRET_MODE)
}

pub(crate) fn create_secret(bytes: usize) -> Result<Vec<u8>, ApplyError> {
    let mut secret = vec![0; bytes];
    getrandom::fill(&mut secret).map_err(ApplyError::Secret)?;
    Ok(secret)
}

/// Blocks until the witness responds to a head.
fn await_witness(machines: &Hosts, head: &HeadName, change: &Change) -> Result<(), ApplyError> {
    let machine = on(machines, head)?;
    let deadline = Instant::now() + WITNESS_TIME_LIMIT;
    loop {
        let (_, has_witness) = witness(machine).map_err(|source| failed(change, source))?;
        if has_witness {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(ApplyError::WitnessSilent(head.clone()));
        }
        std::thread::sleep(PACEMAKER_POLL);
    }
}

/// A head on which Pacemaker responds; blocks if all were just started.
pub(crate) fn responding(machines: &Hosts) -> Result<&dyn Host, ApplyError> {
    let deadline = Instant::now() + PACEMAKER_TIME_LIMIT;
    loop {
        if let Some(machine) = machines.values().find(|one| pacemaker_runs(one.as_ref())) {
            return Ok(machine.as_ref());
        }
        if Instant::now() >= deadline {
            return Err(ApplyError::PacemakerSilent(PACEMAKER_TIME_LIMIT.as_secs()));
        }
        std::thread::sleep(PACEMAKER_POLL);
    }
}
