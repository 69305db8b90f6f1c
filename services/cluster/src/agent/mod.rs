//! `ocf:bulkhead:pool`: performs the decisions of the pure [`takeover::Agent`]. Works with every daemon dead: the state
//! of the server is read from its process and its socket, and the state of other heads from Pacemaker.

mod address;
mod carried;
mod fences;
mod meta;
mod pacemaker;
mod process;
mod steps;
mod watch;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use appliance::render::{address_id, pool_of};
use takeover::budget::{
    MONITOR_RESPONSE_MAX, MONITOR_RESPONSE_MIN, STOP_RESPONSE_MAX, STOP_RESPONSE_MIN,
};
use takeover::timeline::Step;
use takeover::{Action, Agent, Event, Grant, Label, Operation, Server, Verdict};
use units::PoolName;

use self::steps::Steps;
use crate::host::Host;

pub use address::{Address, run_address};
pub use carried::{Carried, Described};
pub use fences::FenceRequest;
pub use meta::META_DATA;
pub use pacemaker::{ClusterView, Pacemaker};
pub use process::{CLAIMED_LINE, ServerProcess, ServerReport, StartError, started_ticks};

/// Longest time for a response of the server from memory before a start.
pub const STATUS_TIME_LIMIT: Duration = Duration::from_secs(1);
/// A monitor allows this part of its limit for a response, within [`MONITOR_TIME_LIMIT`].
const MONITOR_TIME_LIMIT_DIVISOR: u32 = 10;
/// The shortest and the longest response time in a monitor.
const MONITOR_TIME_LIMIT: (Duration, Duration) = (MONITOR_RESPONSE_MIN, MONITOR_RESPONSE_MAX);
/// A stop allows this part of its limit for a response, within [`STOP_RESPONSE_TIME_LIMIT`].
const STOP_TIME_LIMIT_DIVISOR: u32 = 100;
/// The shortest and the longest response time in a stop.
const STOP_RESPONSE_TIME_LIMIT: (Duration, Duration) = (STOP_RESPONSE_MIN, STOP_RESPONSE_MAX);
/// A stop allows this part of its limit for the server to write its pending data, while it still serves clients.
const SETTLE_DIVISOR: u32 = 10;
/// Requests that share the response time. If the whole head stalled, the first request was sent before the stall and
/// times out although the server is healthy; the next one shows that.
const STATUS_REQUESTS: u32 = 2;
/// Limit of an operation if Pacemaker sets none.
const OPERATION_TIME_LIMIT: Duration = Duration::from_secs(60);
/// Part of the limit that is reserved to kill processes that did not exit, in percent.
const KILL_PERCENT: u32 = 25;

/// Exit codes of OCF 1.1 that are no verdicts.
const OCF_ERR_ARGS: u8 = 2;
const OCF_ERR_UNIMPLEMENTED: u8 = 3;
const OCF_ERR_CONFIGURED: u8 = 6;

/// Disk requests of a terminated process that may still be active in the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Remains<'a> {
    /// The disks of the last server; `None` if no agent has recorded one since this host booted.
    pub noted: Option<&'a [PathBuf]>,
    /// The deadline of the wait; `None` to check once.
    pub deadline: Option<Instant>,
}

/// The agent's interface to the `bulkhead` binary, which has access to pools and control sockets.
pub trait PoolBackend {
    /// The state of the server of `pool`; `None` without a response within `limit`.
    fn status(&self, pool: &PoolName, limit: Duration) -> Option<Server>;

    /// The process that listens on the control socket of `pool`, responsive or not; `None` if there is none or it
    /// cannot be determined within `limit`. Finds servers that no agent started.
    fn server_pid(&self, pool: &PoolName, limit: Duration) -> Option<i32> {
        let _ = (pool, limit);
        None
    }

    /// The last error message of a server from [`PoolBackend::server_command`] that has exited.
    fn last_messages(&self, pool: &PoolName) -> Option<String> {
        let _ = pool;
        None
    }

    /// Records a step outside of Pacemaker's operations, for the resource of this name.
    fn took(&self, resource: &str, step: Step) {
        let _ = (resource, step);
    }

    /// The fence that the server of `pool` would accept as a vote.
    fn requested_fence(&self, pool: &PoolName) -> Option<FenceRequest> {
        let _ = pool;
        None
    }

    /// Confirms to the server that the request of this number is fulfilled.
    ///
    /// # Errors
    ///
    /// The server cannot be reached.
    fn confirm_fence(&self, pool: &PoolName, number: u64) -> Result<(), String> {
        let _ = (pool, number);
        Ok(())
    }

    /// Requests the server to write its pending data. Only the duration of the following export depends on it.
    ///
    /// # Errors
    ///
    /// The request fails, or is not done within `limit`.
    fn settle(&self, pool: &PoolName, limit: Duration) -> Result<(), String> {
        let _ = (pool, limit);
        Ok(())
    }

    /// Requests the server to drain, export and exit. Returns when the pool is exported and all its devices are closed;
    /// the process may exit later.
    ///
    /// # Errors
    ///
    /// The request cannot be sent, or failed.
    fn request_export(&self, pool: &PoolName, limit: Duration) -> Result<(), String>;

    /// The disks of `pool`, as the appliance file lists them.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no such pool.
    fn disks(&self, pool: &PoolName) -> Result<Vec<PathBuf>, String>;

    /// Ensures that the kernel of this head has no active request to the disks of `pool`. Called only when no process
    /// here has the pool.
    ///
    /// # Errors
    ///
    /// A request is active, or the state of a disk is unknown, at the deadline. Names the disk.
    fn await_release(&self, pool: &PoolName, remains: Remains<'_>) -> Result<(), String>;

    /// The contents of the labels of the pool's devices.
    ///
    /// # Errors
    ///
    /// No device can be read, or the pool is not on them.
    fn read_label(&self, pool: &PoolName) -> Result<Label, String>;

    /// The command that serves the pool in the foreground. It writes one line to its standard output when it serves,
    /// and before that at most [`CLAIMED_LINE`]. Its standard error must not be that of the agent, which Pacemaker
    /// reads to the end.
    ///
    /// # Errors
    ///
    /// The appliance file does not describe how to serve this pool.
    fn server_command(&self, grant: &Grant) -> Result<Command, String>;

    /// The addresses of `pool` for clients.
    fn addresses(&self, pool: &PoolName) -> Vec<Address> {
        let _ = pool;
        Vec::new()
    }

    /// The addresses of the other pools.
    fn addresses_of_other_pools(&self, pool: &PoolName) -> BTreeSet<IpAddr> {
        let _ = pool;
        BTreeSet::new()
    }

    /// The command that runs this agent with the action `watch`, with a separate standard error; `None` where servers
    /// are not watched between monitors.
    fn watch_command(&self, pool: &PoolName) -> Option<Command> {
        let _ = pool;
        None
    }

    /// The limit of a monitor of `pool`.
    fn monitor_limit(&self, pool: &PoolName) -> Duration {
        let _ = pool;
        OPERATION_TIME_LIMIT
    }

    /// Whether this head is set up to serve `pool`: the agent's `validate-all`.
    ///
    /// # Errors
    ///
    /// The missing item.
    fn validate(&self, pool: &PoolName) -> Result<(), String>;
}

/// The result of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code.
    pub code: u8,
    /// The text for standard output.
    pub output: String,
    /// Why it failed, in a sentence. Written to standard error after `ocf-exit-reason:`, where Pacemaker reads it.
    pub reason: Option<String>,
}

impl Exit {
    fn failed(code: u8, reason: impl Into<String>) -> Self {
        Self {
            code,
            output: String::new(),
            reason: Some(reason.into()),
        }
    }

    fn fine(output: &str) -> Self {
        Self {
            code: 0,
            output: output.to_owned(),
            reason: None,
        }
    }

    /// The line for standard error.
    pub fn reason_line(&self) -> Option<String> {
        let reason = self.reason.as_ref()?;
        Some(format!("ocf-exit-reason:{}", reason.replace('\n', " ")))
    }
}

/// The environment of one run of the agent.
pub struct AgentEnvironment<'a> {
    /// The `bulkhead` binary.
    pub program: &'a dyn PoolBackend,
    /// The cluster.
    pub cluster: &'a dyn ClusterView,
    /// This head.
    pub machine: &'a dyn Host,
    /// Directory for the records of server processes; empty after a boot, such as `/run/bulkhead`.
    pub run_dir: PathBuf,
    /// Reads an environment variable.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
}

/// Runs the agent with its one argument.
pub fn run(action: &str, around: &AgentEnvironment<'_>) -> Exit {
    let operation = match action {
        "meta-data" => return Exit::fine(META_DATA),
        "start" => Operation::Start,
        "stop" => Operation::Stop,
        "monitor" | "status" => Operation::Monitor,
        "validate-all" => return validate(around).unwrap_or_else(|exit| exit),
        // Not an action of Pacemaker: this agent starts it.
        "watch" => {
            let watched = pool(around).map(|pool| watch::watch(&pool, around));
            return match watched {
                Ok(Ok(())) => Exit::fine(""),
                Ok(Err(reason)) => Exit::failed(1, reason),
                Err(exit) => exit,
            };
        }
        other => {
            let reason = format!("{other:?} is no action of this agent");
            return Exit::failed(OCF_ERR_UNIMPLEMENTED, reason);
        }
    };
    let pool = match pool(around) {
        Ok(pool) => pool,
        Err(exit) => return exit,
    };
    if operation == Operation::Start {
        if let Err(exit) = validate(around) {
            return exit;
        }
    }
    let verdict = perform(operation, &pool, around);
    if verdict == Verdict::Success && operation != Operation::Stop {
        watch::ensure(&pool, around);
    }
    match verdict {
        Verdict::Success => Exit::fine(""),
        Verdict::NotRunning => Exit {
            code: Verdict::NotRunning.code(),
            output: String::new(),
            reason: None,
        },
        Verdict::Failure(reason) => Exit::failed(Verdict::Failure(String::new()).code(), reason),
    }
}

fn pool(around: &AgentEnvironment<'_>) -> Result<PoolName, Exit> {
    let Some(name) = (around.environment)("OCF_RESKEY_pool") else {
        // Pacemaker has no parameters of a deleted resource that it found by a probe.
        let resource = (around.environment)("OCF_RESOURCE_INSTANCE");
        let named = resource.as_deref().and_then(pool_of);
        let reason = "the parameter pool is missing";
        return named.ok_or_else(|| Exit::failed(OCF_ERR_CONFIGURED, reason));
    };
    name.parse()
        .map_err(|error: units::NameError| Exit::failed(OCF_ERR_CONFIGURED, error.to_string()))
}

fn validate(around: &AgentEnvironment<'_>) -> Result<Exit, Exit> {
    let pool = pool(around)?;
    match around.program.validate(&pool) {
        Ok(()) => Ok(Exit::fine("")),
        // This head misses a requirement; another may have it.
        Err(reason) => Err(Exit::failed(OCF_ERR_ARGS, reason)),
    }
}

/// The end of the operation, the time to kill, and the response time of the server.
struct Deadlines {
    patience: Instant,
    end: Instant,
    answer: Duration,
    settle: Duration,
}

/// Longest response time of a server in an operation with this limit.
fn response_time_limit(operation: Operation, limit: Duration) -> Duration {
    match operation {
        Operation::Start => STATUS_TIME_LIMIT,
        Operation::Monitor => monitor_time_limit(limit),
        Operation::Stop => {
            let (min, max) = STOP_RESPONSE_TIME_LIMIT;
            (limit / STOP_TIME_LIMIT_DIVISOR).clamp(min, max)
        }
    }
}

fn monitor_time_limit(limit: Duration) -> Duration {
    let (min, max) = MONITOR_TIME_LIMIT;
    (limit / MONITOR_TIME_LIMIT_DIVISOR).clamp(min, max)
}

impl Deadlines {
    fn new(operation: Operation, around: &AgentEnvironment<'_>) -> Self {
        let limit = (around.environment)("OCF_RESKEY_CRM_meta_timeout")
            .and_then(|text| text.parse().ok())
            .map_or(OPERATION_TIME_LIMIT, Duration::from_millis);
        let now = Instant::now();
        Self {
            patience: now + limit * (100 - KILL_PERCENT) / 100,
            end: now + limit * 95 / 100,
            answer: response_time_limit(operation, limit),
            settle: limit / SETTLE_DIVISOR,
        }
    }
}

fn perform(operation: Operation, pool: &PoolName, around: &AgentEnvironment<'_>) -> Verdict {
    let deadlines = Deadlines::new(operation, around);
    let mut steps = Steps::begin(Instant::now());
    let mut process = ServerProcess::new(&around.run_dir, pool);
    let carried = Carried::new(&around.run_dir, pool);
    if operation == Operation::Stop {
        // The coming exit of the server is no failure.
        if let Err(why) = watch::watcher(&around.run_dir, pool).kill(deadlines.end) {
            tracing::warn!(%pool, why, "the watch of the server cannot be stopped");
        }
        steps.ended("watch", Instant::now());
    }
    let (mut agent, mut action) = Agent::begin(pool.clone(), operation);
    loop {
        tracing::debug!(%pool, ?action, "agent");
        let name = action.name();
        let event = match action {
            Action::Finish(verdict) => {
                if operation != Operation::Monitor {
                    tracing::info!(%pool, %steps, "{operation:?} is over");
                }
                return verdict;
            }
            Action::QueryServer => {
                let looked = match process.has_let_go() {
                    Ok(true) => dismiss(operation, &process, &deadlines),
                    Ok(false) => check_server(pool, around, &mut process, deadlines.answer),
                    Err(why) => Err(why),
                };
                match looked {
                    Ok(server) => Event::Server(server),
                    Err(why) => Event::Failed(why),
                }
            }
            Action::ReadLabel => match around.program.read_label(pool) {
                Ok(label) => Event::Label(label),
                Err(why) => Event::Failed(why),
            },
            Action::QueryCluster { host_name } => {
                let peer = around.cluster.peer(&host_name, pool);
                tracing::debug!(%pool, head = %host_name, ?peer, "previous owner in the cluster");
                Event::Peer(peer)
            }
            Action::Spawn(grant) => {
                tracing::info!(%pool, basis = ?grant.basis(), "starts a server");
                match spawn(&grant, around.program, &mut process) {
                    Ok(()) => Event::Started,
                    Err(why) => Event::Failed(why),
                }
            }
            Action::AwaitClaim => {
                tracing::debug!(%pool, "waiting for the server to claim the disks");
                let said = process.await_report(deadlines.patience);
                tracing::debug!(%pool, ?said, "response to the claim");
                said.map_or_else(|why| failed_start(pool, around, why), heard)
            }
            Action::AwaitServing => await_serving(pool, around, &mut process, &deadlines),
            Action::SetAddresses => {
                let addresses = around.program.addresses(pool);
                match carried.bring(&addresses, around.machine) {
                    Ok(()) => {
                        tracing::debug!(%pool, count = addresses.len(), "addresses are up");
                        for one in &addresses {
                            around.program.took(&address_id(one.address), Step::Address);
                        }
                        Event::AddressesSet
                    }
                    Err(why) => Event::Failed(why),
                }
            }
            Action::Settle => match around.program.settle(pool, deadlines.settle) {
                Ok(()) => Event::Settled,
                Err(why) => {
                    tracing::info!(%pool, why, "the export may take longer");
                    Event::Failed(why)
                }
            },
            Action::WithdrawAddresses => {
                let described = || Described {
                    own: around.program.addresses(pool),
                    of_others: around.program.addresses_of_other_pools(pool),
                };
                match carried.withdraw(around.machine, described) {
                    Ok(()) => Event::Withdrawn,
                    Err(why) => Event::Failed(why),
                }
            }
            Action::Export => export(pool, around, &mut process, &deadlines),
            Action::Kill => {
                tracing::warn!(%pool, "kills the server");
                match process.kill(deadlines.end) {
                    Ok(()) => Event::Ended,
                    Err(why) => Event::Failed(why),
                }
            }
            Action::AwaitRelease => {
                let deadline = (operation != Operation::Monitor).then_some(deadlines.end);
                match await_release(pool, around.program, &process, deadline) {
                    Ok(()) => Event::Released,
                    Err(why) => Event::Failed(why),
                }
            }
        };
        steps.ended(name, Instant::now());
        tracing::debug!(%pool, step = name, ?event, "step is done");
        action = agent.next(event);
    }
}

fn spawn(
    grant: &Grant,
    program: &dyn PoolBackend,
    process: &mut ServerProcess,
) -> Result<(), String> {
    let command = program.server_command(grant)?;
    let disks = program.disks(grant.pool())?;
    tracing::debug!(pool = %grant.pool(), basis = ?grant.basis(), ?disks, "importing is permitted");
    process.start(command, &disks).map_err(|e| e.to_string())
}

fn await_release(
    pool: &PoolName,
    program: &dyn PoolBackend,
    process: &ServerProcess,
    deadline: Option<Instant>,
) -> Result<(), String> {
    let noted = process.disks()?;
    let noted = noted.as_deref();
    program.await_release(pool, Remains { noted, deadline })
}

/// A server that has exported the pool counts as stopped. Only a new server requires its exit.
fn dismiss(
    operation: Operation,
    process: &ServerProcess,
    deadlines: &Deadlines,
) -> Result<Server, String> {
    if operation == Operation::Start {
        process.kill(deadlines.end)?;
    }
    Ok(Server::Absent)
}

fn check_server(
    pool: &PoolName,
    around: &AgentEnvironment<'_>,
    process: &mut ServerProcess,
    patience: Duration,
) -> Result<Server, String> {
    let answered = ask_server(pool, around, process, patience)?;
    if !process.is_alive()? {
        // Started by hand, or the record is lost: the listening process has the pool, and must be found again when it
        // no longer responds.
        match around.program.server_pid(pool, patience) {
            Some(pid) => {
                let disks = around.program.disks(pool).unwrap_or_default();
                process.adopt(pid, answered.is_some(), disks)?;
            }
            None => return Ok(answered.unwrap_or(Server::Absent)),
        }
    }
    Ok(match answered {
        Some(server) => server,
        None if !process.is_alive()? => Server::Absent,
        None if process.is_starting()? => Server::Starting,
        None => Server::Silent,
    })
}

/// The server's response. A live process gets a second request.
fn ask_server(
    pool: &PoolName,
    around: &AgentEnvironment<'_>,
    process: &ServerProcess,
    patience: Duration,
) -> Result<Option<Server>, String> {
    for _ in 0..STATUS_REQUESTS {
        let answered = around.program.status(pool, patience / STATUS_REQUESTS);
        if answered.is_some() || !process.is_alive()? {
            return Ok(answered);
        }
    }
    Ok(None)
}

const fn heard(word: ServerReport) -> Event {
    match word {
        ServerReport::Claimed => Event::Claimed,
        ServerReport::Ready => Event::Serving,
    }
}

/// Adds the server's own error message, if it left one.
fn failed_start(pool: &PoolName, around: &AgentEnvironment<'_>, why: String) -> Event {
    match around.program.last_messages(pool) {
        Some(words) => Event::Failed(format!("{why}: {words}")),
        None => Event::Failed(why),
    }
}

fn await_serving(
    pool: &PoolName,
    around: &AgentEnvironment<'_>,
    process: &mut ServerProcess,
    deadlines: &Deadlines,
) -> Event {
    if process.was_started_here() {
        tracing::debug!(%pool, "waiting for the server to import the pool and listen");
        // Terminates with the server, or when it serves: the number of its lines is limited.
        return loop {
            match process.await_report(deadlines.patience) {
                Ok(ServerReport::Claimed) => {}
                Ok(ServerReport::Ready) => break Event::Serving,
                Err(why) => break failed_start(pool, around, why),
            }
        };
    }
    // Started by an agent that was killed; no process holds the other end of its pipe.
    loop {
        match check_server(pool, around, process, deadlines.answer) {
            Ok(Server::Serving) => return Event::Serving,
            Ok(Server::Starting) if Instant::now() < deadlines.patience => {}
            Ok(Server::Starting) => {
                return Event::Failed("the server did not serve in time".to_owned());
            }
            Ok(_) => return Event::Failed("the server ended before it served".to_owned()),
            Err(why) => return Event::Failed(why),
        }
        let soon = Instant::now() + Duration::from_millis(20);
        if let Ok(true) = process.await_end(soon) {
            return Event::Failed("the server ended before it served".to_owned());
        }
    }
}

fn export(
    pool: &PoolName,
    around: &AgentEnvironment<'_>,
    process: &mut ServerProcess,
    deadlines: &Deadlines,
) -> Event {
    let limit = deadlines.patience.saturating_duration_since(Instant::now());
    let exported = around.program.request_export(pool, limit);
    tracing::debug!(%pool, ?exported, "export requested");
    // Does not wait for the process to exit: the kernel may take long to free its memory, while clients wait for the
    // next owner.
    match exported.and_then(|()| process.record_release()) {
        Ok(()) => Event::Ended,
        Err(why) => Event::Failed(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_out_follows_pacemaker_time_out() {
        for (operation, limit_s, answer_ms) in [
            (Operation::Monitor, 4, 400),
            (Operation::Monitor, 10, 1_000),
            (Operation::Monitor, 30, 3_000),
            (Operation::Monitor, 600, 3_000),
            (Operation::Monitor, 1, 300),
            (Operation::Stop, 20, 200),
            (Operation::Stop, 60, 600),
            (Operation::Stop, 120, 1_000),
            (Operation::Stop, 1, 200),
            (Operation::Start, 60, 1_000),
        ] {
            let found = response_time_limit(operation, Duration::from_secs(limit_s));
            let expected = Duration::from_millis(answer_ms);
            assert_eq!(found, expected, "{operation:?} {limit_s}");
        }
    }
}
