//! The agents that Pacemaker runs, `ocf:bulkhead:pool`, `ocf:bulkhead:address` and `fence_bulkhead`: provides the agent of
//! the crate `cluster` with access to pools, labels and the control socket, and exits with its result.
//! It works with every daemon dead: a stop and a monitor need no file, and use the disks only to check
//! that no request of a former server is in flight.
//!
//! Two binaries contain it: `bulkhead-agent`, which contains only the agents, and `bulkhead agent`.

#![forbid(unsafe_code)]

mod arguments;
mod disks;
mod fence;
pub mod managed;
mod record;
mod release;
mod server_request;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use appliance::Appliance;
use appliance::ports::Portals;
use appliance::render::{LEGS_PATH, address_prefix, common_interface, pool_of};
use cluster::Steps;
use cluster::agent::{
    Address, AgentEnvironment, Exit, FenceRequest, Pacemaker, PoolBackend, Remains, ServerProcess,
};
use cluster::host::Local;
use control::operations::server::ping::serving;
use control::request::{PoolRequest, ServerRequest};
use control::{Answer, FailureKind, PoolLock, Request};
use labels::LabelState;
use leg_door::{LastOwner, LegFiles};
use takeover::timeline::Step;
use takeover::{Basis, Grant, Label, Server};
use units::{ByteCount, HeadName, HostId, PoolName};

use self::release::{LockOwner, StillHeld};
use self::server_request::RequestResult;

pub use arguments::{AgentCommand, ApplianceFile, PoolAgentArgs, Settings};

/// Name of the binary that contains only the agents.
const AGENT_BINARY: &str = "bulkhead-agent";
/// Name of the serving binary in the same directory.
const SERVER_BINARY: &str = "bulkhead";

/// A log that is longer at a start is renamed, in bytes.
const LOG_BYTES_MAX: u64 = 4 << 20;
/// A server tries to find missing devices, such as those of a shelf that spins up late, for this part of its start
/// time-out: the import and the multihost check must fit into the rest.
const DEVICES_WAIT_DIVISOR: u32 = 3;
/// Part of a log's end that is searched for the reason of an exit, in bytes.
const LAST_MESSAGES_BYTES_MAX: u64 = 4096;

/// Runs the agent.
fn run(args: &PoolAgentArgs, settings: &Settings, legs: &dyn LegFiles) -> ExitCode {
    log_to_stderr();
    let program = Program {
        settings,
        legs,
        file: &args.appliance.file,
        rehearsal: Rehearsal {
            arc_max: args.arc_size_max,
            leg_faults: args.leg_faults.as_deref(),
            heads_share_kernel: args.heads_share_kernel,
        },
        appliance: OnceLock::new(),
        start: Mutex::default(),
    };
    let here = Local::default();
    let around = AgentEnvironment {
        program: &program,
        cluster: &Pacemaker { machine: &here },
        machine: &here,
        run_dir: settings.run_dir.clone(),
        environment: &|name| std::env::var(name).ok(),
    };
    finish(&recorded(settings, &args.action, || {
        cluster::agent::run(&args.action, &around)
    }))
}

/// Records the action that Pacemaker runs on its resource, and the result.
fn recorded(settings: &Settings, action: &str, run: impl FnOnce() -> Exit) -> Exit {
    let Ok(resource) = std::env::var("OCF_RESOURCE_INSTANCE") else {
        return run();
    };
    let steps = Steps::of(&settings.state_dir);
    let took = |step: Option<Step>| {
        if let Some(step) = step {
            steps.took(&resource, step);
        }
    };
    // Of a deleted resource only the name is known.
    let is_pool = std::env::var_os("OCF_RESKEY_pool").is_some() || pool_of(&resource).is_some();
    // A recurring monitor runs only where the resource is active; a probe checks whether it is.
    let interval_ms = std::env::var("OCF_RESKEY_CRM_meta_interval").unwrap_or_default();
    let is_recurring = interval_ms.parse().is_ok_and(|every: u64| every > 0);
    took(match (is_pool, action) {
        (true, "start") => Some(Step::PoolStart),
        (true, "stop") => Some(Step::PoolStop),
        _ => None,
    });
    let exit = run();
    took(match (is_pool, action, exit.code) {
        (true, "stop", 0) => Some(Step::Stopped),
        (true, "monitor", code) if code != 0 && is_recurring => Some(Step::Detected),
        (false, "start", 0) => Some(Step::Address),
        _ => None,
    });
    exit
}

/// Runs the agent of an address.
fn run_address(action: &str, settings: &Settings) -> ExitCode {
    log_to_stderr();
    let environment = |name: &str| std::env::var(name).ok();
    finish(&recorded(settings, action, || {
        cluster::agent::run_address(action, &Local::default(), &environment)
    }))
}

/// Runs the fence agent.
fn run_fence(arguments: &[String], settings: &Settings, legs: &dyn LegFiles) -> ExitCode {
    log_to_stderr();
    let fence = fence::Fence {
        machine: &Local::default(),
        legs,
        config: Path::new(LEGS_PATH),
        run_dir: &settings.run_dir,
    };
    fence::run(&fence, arguments)
}

fn finish(exit: &Exit) -> ExitCode {
    // Pacemaker may be gone; then the result has no receiver.
    let _ = std::io::stdout().write_all(exit.output.as_bytes());
    if let Some(line) = exit.reason_line() {
        output::log().write_line(&format!("{line}\n"));
    }
    ExitCode::from(exit.code)
}

/// Pacemaker copies standard error into its own log, with timestamps.
fn log_to_stderr() {
    output::start_log(output::Style {
        without_time: true,
        ..output::Style::default()
    });
}

/// This binary, as the interface of the agent.
struct Program<'a> {
    settings: &'a Settings,
    legs: &'a dyn LegFiles,
    file: &'a Path,
    rehearsal: Rehearsal<'a>,
    /// The appliance file, once it was read.
    appliance: OnceLock<Result<Appliance, String>>,
    start: Mutex<Start>,
}

/// Differences in a rehearsal of an appliance.
#[derive(Clone, Copy, Default)]
struct Rehearsal<'a> {
    /// Upper limit of a pool's cache.
    arc_max: Option<ByteCount>,
    /// Directory with descriptions of device faults.
    leg_faults: Option<&'a Path>,
    /// Whether the locks of other heads are visible here.
    heads_share_kernel: bool,
}

/// State between the steps of a start.
#[derive(Default)]
struct Start {
    /// The disks with labels that were read.
    disks: Vec<PathBuf>,
    /// Disks that do not respond, or not yet.
    late: Vec<PathBuf>,
    /// Start of the new server's part of the log.
    log_offset: Option<u64>,
}

impl Program<'_> {
    fn appliance(&self) -> Result<&Appliance, String> {
        let read = self.appliance.get_or_init(|| self.read_appliance());
        read.as_ref().map_err(Clone::clone)
    }

    fn read_appliance(&self) -> Result<Appliance, String> {
        let shown = self.file.display();
        let text = std::fs::read_to_string(self.file)
            .map_err(|error| format!("read the appliance file {shown}: {error}"))?;
        match appliance::parse(&text) {
            Ok(parsed) => Ok(parsed.appliance),
            Err(finding) => {
                let line = finding.place.line.unwrap_or(1);
                Err(format!("{shown}, line {line}: {}", finding.what))
            }
        }
    }

    fn pool(&self, pool: &PoolName) -> Result<appliance::Pool, String> {
        let found = self.appliance()?.pools.get(pool).cloned();
        found.ok_or_else(|| format!("{} describes no pool {pool}", self.file.display()))
    }

    fn start(&self) -> MutexGuard<'_, Start> {
        self.start.lock().expect("no holder panics")
    }

    fn timeouts(&self) -> appliance::Timeouts {
        match self.appliance() {
            Ok(appliance) => appliance.timeouts(),
            Err(_) => appliance::Profile::Default.timeouts(),
        }
    }

    /// Whether the readable labels show that this host is not the owner of `pool`. False if a hanging disk prevents the
    /// check: that must not stop the head that serves it.
    fn is_elsewhere(&self, pool: &PoolName) -> bool {
        match self.read_label(pool) {
            Ok(Label::Exported) => true,
            Ok(Label::InUse { by_this_host, .. }) => !by_this_host,
            Err(_) => false,
        }
    }

    /// Sends a request to the server of `pool`; `None` for a failure is a time-out.
    fn request(
        &self,
        pool: &PoolName,
        request: Request,
        limit: Duration,
    ) -> Result<(), Option<String>> {
        match server_request::send(&self.socket(pool), request, limit) {
            RequestResult::Responded(Ok(_)) => Ok(()),
            RequestResult::Responded(Err(failure)) => Err(Some(failure.message)),
            RequestResult::Absent => Err(Some("the server does not listen any more".to_owned())),
            RequestResult::Silent => Err(None),
        }
    }

    /// Identity of this head in labels of `pool`.
    fn own_host(&self, pool: &PoolName) -> HostId {
        let of_this_host = || HostId::of_this_host(pool.as_str());
        self.settings.host_id.unwrap_or_else(of_this_host)
    }

    /// Whether a process of this head had `pool` open since this host booted.
    fn has_had(&self, pool: &PoolName, noted: Option<&[PathBuf]>) -> bool {
        noted.is_some() || PoolLock::path(&self.socket(pool)).exists()
    }

    /// Every disk that a process of this head may have had open for `pool`.
    fn disks_held(&self, pool: &PoolName, noted: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
        let mut disks = noted.to_vec();
        match self.disks(pool) {
            Ok(listed) => disks.extend(listed),
            Err(why) if disks.is_empty() => return Err(why),
            Err(why) => tracing::warn!(why, "only the disks of the last server are looked at"),
        }
        disks.sort();
        disks.dedup();
        Ok(disks)
    }

    /// Path of the socket of the server of `pool`.
    fn socket(&self, pool: &PoolName) -> PathBuf {
        self.settings.run_dir.join(format!("{pool}.sock"))
    }

    fn log_path(&self, pool: &PoolName) -> PathBuf {
        self.settings.state_dir.join(format!("{pool}.log"))
    }

    /// The log of a new server; a long one is renamed first.
    fn open_log(&self, pool: &PoolName) -> std::io::Result<File> {
        let path = self.log_path(pool);
        std::fs::create_dir_all(&self.settings.state_dir)?;
        if std::fs::metadata(&path).is_ok_and(|found| found.len() > LOG_BYTES_MAX) {
            std::fs::rename(&path, path.with_extension("log.1"))?;
        }
        let log = File::options().create(true).append(true).open(&path)?;
        self.start().log_offset = Some(log.metadata()?.len());
        Ok(log)
    }
}

impl PoolBackend for Program<'_> {
    fn status(&self, pool: &PoolName, limit: Duration) -> Option<Server> {
        let ping = Request::Server(ServerRequest::Ping);
        match server_request::send(&self.socket(pool), ping, limit) {
            RequestResult::Responded(Ok(answer)) => {
                // The cause, missing devices, would be the same on another head: no reason to move the pool.
                match answer {
                    Answer::Done(done) if done.message != serving(pool) => {
                        tracing::warn!(%pool, "{}", done.message);
                    }
                    _ => {}
                }
                Some(Server::Serving)
            }
            RequestResult::Responded(Err(failure)) => match failure.kind {
                FailureKind::Unavailable => Some(Server::Stopping),
                // The server exited, or failed, in the middle of the response.
                FailureKind::Unreachable => None,
                // It has too many clients, or is of another version: it is healthy.
                _ => Some(Server::Serving),
            },
            RequestResult::Absent | RequestResult::Silent => None,
        }
    }

    fn server_pid(&self, pool: &PoolName, limit: Duration) -> Option<i32> {
        server_request::listener_pid(&self.socket(pool), limit)
    }

    fn requested_fence(&self, pool: &PoolName) -> Option<FenceRequest> {
        let number = self.pool(pool).ok()?.number?;
        let request = self.legs.requested_fence(number.into())?;
        Some(FenceRequest {
            number: request.number,
            head: request.head,
            is_missed: request.is_missed,
        })
    }

    fn confirm_fence(&self, pool: &PoolName, number: u64) -> Result<(), String> {
        let record = self.pool(pool)?.number.ok_or("it has no record of legs")?;
        self.legs.confirm_fence(record.into(), number)
    }

    fn last_messages(&self, pool: &PoolName) -> Option<String> {
        let offset = self.start().log_offset?;
        let mut log = File::open(self.log_path(pool)).ok()?;
        let length = log.metadata().ok()?.len();
        let from = offset.max(length.saturating_sub(LAST_MESSAGES_BYTES_MAX));
        log.seek(SeekFrom::Start(from)).ok()?;
        let mut bytes = Vec::new();
        log.take(LAST_MESSAGES_BYTES_MAX)
            .read_to_end(&mut bytes)
            .ok()?;
        last_messages_in(&String::from_utf8_lossy(&bytes))
    }

    fn took(&self, resource: &str, step: Step) {
        Steps::of(&self.settings.state_dir).took(resource, step);
    }

    fn settle(&self, pool: &PoolName, limit: Duration) -> Result<(), String> {
        let settle = Request::Server(ServerRequest::Settle);
        self.request(pool, settle, limit)
            .map_err(|why| why.unwrap_or_else(|| "the pool has much to write".to_owned()))
    }

    fn request_export(&self, pool: &PoolName, limit: Duration) -> Result<(), String> {
        let export = Request::Pool(PoolRequest::Export);
        self.request(pool, export, limit).map_err(|why| {
            why.unwrap_or_else(|| "the server did not export the pool in time".to_owned())
        })
    }

    fn disks(&self, pool: &PoolName) -> Result<Vec<PathBuf>, String> {
        let found = self.pool(pool)?;
        if !found.has_legs() {
            return Ok(found.disks);
        }
        Ok(self.appliance()?.disks_on(&own_name()?, &found))
    }

    fn await_release(&self, pool: &PoolName, remains: Remains<'_>) -> Result<(), String> {
        if !self.has_had(pool, remains.noted) {
            return Ok(());
        }
        // The leg-server may have such a disk open. It lends the disk only after all remains of a server are gone
        // there.
        if self.pool(pool).is_ok_and(|pool| pool.has_legs()) {
            return Ok(());
        }
        let disks = self.disks_held(pool, remains.noted.unwrap_or_default())?;
        let whose = LockOwner {
            pool,
            among_heads: (self.rehearsal.heads_share_kernel).then(|| self.own_host(pool)),
        };
        let now = Instant::now();
        let patience = Duration::from_secs(self.timeouts().disk_answer_s.into());
        let until = remains.deadline.map_or(now, |end| end.min(now + patience));
        match release::await_release(whose, &disks, until) {
            Ok(()) => Ok(()),
            Err(StillHeld::Silent(_)) if remains.deadline.is_none() && self.is_elsewhere(pool) => {
                Ok(())
            }
            Err(kept) => Err(kept.to_string()),
        }
    }

    fn read_label(&self, pool: &PoolName) -> Result<Label, String> {
        let described = self.pool(pool)?;
        if described.has_legs() {
            let last = described.number.map_or(LastOwner::Unknown, |number| {
                self.legs.last_owner(number.into())
            });
            let own = own_name()?;
            return Ok(record::owner(self.appliance()?, &own, last));
        }
        let all = self.disks(pool)?;
        let disks = disks::readable(&all);
        let found = disks::find(pool, &disks)?;
        let good: Vec<PathBuf> = disks.into_iter().map(|(disk, _)| disk).collect();
        let mut start = self.start();
        start.late = all.into_iter().filter(|one| !good.contains(one)).collect();
        start.disks = good;
        drop(start);
        if found.label.state == LabelState::Exported {
            return Ok(Label::Exported);
        }
        let own = self.own_host(pool);
        Ok(Label::InUse {
            by_this_host: found.label.host_id == Some(own.0.get()),
            host_name: found.label.host_name,
            is_watched: found.is_watched,
        })
    }

    fn server_command(&self, grant: &Grant) -> Result<Command, String> {
        let name = grant.pool();
        let appliance = self.appliance()?;
        let times = appliance.timeouts();
        let silence_ms = times.multihost_silence_ms(appliance.heads.len());
        let mut pool = self.pool(name)?;
        if let Some(max) = self.rehearsal.arc_max {
            pool.arc = Some(pool.arc.map_or(max, |arc| arc.min(max)));
        }
        let program =
            server_binary().map_err(|error| format!("find the server binary: {error}"))?;
        let log = self
            .open_log(name)
            .map_err(|error| format!("open {}: {error}", self.log_path(name).display()))?;
        let disks = std::mem::take(&mut self.start().disks);
        let late = std::mem::take(&mut self.start().late);
        let mut command = Command::new(program);
        command
            .args(server_arguments(&pool, &disks, grant))
            .arg("--disk-timeout")
            .arg(times.disk_answer_s.to_string())
            .arg("--wait-for-devices")
            .arg((times.pool_start_s / DEVICES_WAIT_DIVISOR).to_string())
            .arg("--multihost-silence")
            .arg(silence_ms.to_string())
            .arg("--noted-in")
            .arg(ServerProcess::note_path(&self.settings.run_dir, name))
            .arg("--run-dir")
            .arg(&self.settings.run_dir)
            .arg("--state-dir")
            .arg(&self.settings.state_dir)
            .stderr(log)
            .current_dir("/");
        for disk in &late {
            command.arg("--late-device").arg(disk);
        }
        if let Some(folder) = self.rehearsal.leg_faults {
            let file = folder.join(format!("{name}.faults"));
            command.arg("--leg-faults").arg(file);
        }
        if let Some(number) = self.settings.host_id {
            command.arg("--host-id").arg(format!("{:08x}", number.0));
        }
        // Pacemaker's service manager must not receive notifications of the server as Pacemaker's.
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
            command.env_remove(name);
        }
        Ok(command)
    }

    fn watch_command(&self, pool: &PoolName) -> Option<Command> {
        let log = File::options().append(true).open(self.log_path(pool));
        let own = std::env::current_exe().ok()?;
        let mut command = Command::new(&own);
        if !has_only_agents(&own) {
            command.arg("agent");
        }
        command
            .args(["pool", "watch", "--file"])
            .arg(self.file)
            .arg("--run-dir")
            .arg(&self.settings.run_dir)
            .stderr(log.map_or_else(|_| Stdio::null(), Stdio::from))
            .current_dir("/");
        Some(command)
    }

    fn monitor_limit(&self, _: &PoolName) -> Duration {
        Duration::from_secs(self.timeouts().pool_monitor_timeout_s.into())
    }

    fn addresses(&self, pool: &PoolName) -> Vec<Address> {
        // The file was read for this start just now; without it, addresses are started by their own agents.
        let Ok(appliance) = self.appliance() else {
            return Vec::new();
        };
        let pools = appliance.pools.get(pool).into_iter();
        let all = pools.flat_map(|pool| pool.addresses.iter().map(move |one| (pool, one)));
        all.filter_map(|(pool, one)| {
            Some(Address {
                address: one.address,
                prefix: address_prefix(appliance, one)?,
                interface: common_interface(appliance, pool, one),
            })
        })
        .collect()
    }

    fn addresses_of_other_pools(&self, pool: &PoolName) -> BTreeSet<IpAddr> {
        let Ok(appliance) = self.appliance() else {
            return BTreeSet::new();
        };
        let others = appliance.pools.iter().filter(|(name, _)| *name != pool);
        let addresses = others.flat_map(|(_, other)| &other.addresses);
        addresses.map(|one| one.address).collect()
    }

    fn validate(&self, pool: &PoolName) -> Result<(), String> {
        let found = self.pool(pool)?;
        match found.disks.is_empty() && !found.has_legs() {
            true => Err(format!("{} lists no disk of {pool}", self.file.display())),
            false => Ok(()),
        }
    }
}

/// The name of this host, as in the appliance file.
fn own_name() -> Result<HeadName, String> {
    let own = units::host_name().parse();
    own.map_err(|error| format!("the name of this host: {error}"))
}

fn has_only_agents(program: &Path) -> bool {
    program.file_name() == Some(OsStr::new(AGENT_BINARY))
}

/// This binary, or the one in the same directory.
fn server_binary() -> std::io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(match has_only_agents(&own) {
        true => own.with_file_name(SERVER_BINARY),
        false => own,
    })
}

/// `place` as the option `--search` expects it, in which colons separate paths.
fn joinable(place: &Path) -> String {
    place.to_string_lossy().replace(':', "\\:")
}

/// The arguments of the server that follow from the appliance file and the grant.
pub fn server_arguments(pool: &appliance::Pool, disks: &[PathBuf], grant: &Grant) -> Vec<String> {
    let mut words = vec![
        "pool-server".to_owned(),
        grant.pool().to_string(),
        "--ready-fd".to_owned(),
        "1".to_owned(),
        "--say-claimed".to_owned(),
        // Pacemaker has removed the addresses before it stops the server: no message reaches a
        // client any more, and a wait for log-outs would only prolong the interruption.
        "--drain-timeout".to_owned(),
        "0".to_owned(),
    ];
    words.extend(Portals::of(pool).words());
    let mut add = |option: &str, value: String| words.extend([format!("--{option}"), value]);
    if pool.has_legs() {
        add("legs", LEGS_PATH.to_owned());
    }
    for disk in disks {
        add("search", joinable(disk));
    }
    for (_, protocol, tls) in pool.all_tls() {
        let file = |path: &Path| path.to_string_lossy().into_owned();
        // Only protocols with these options have TLS.
        if let Some(options) = &protocol.tls {
            add(options.certificate, file(&tls.certificate_file));
            add(options.key, file(&tls.key_file));
            if let Some(authority) = &tls.client_authority_file {
                add(options.authority, file(authority));
            }
        }
    }
    for (option, keytab) in pool.keytab_options() {
        add(option, keytab.to_string_lossy().into_owned());
    }
    if let Some(replication) = &pool.replication {
        let listener = SocketAddr::new(replication.address, replication.port);
        add("replication", listener.to_string());
    }
    if let Some(arc) = pool.arc {
        add("arc-size", arc.get().to_string());
    }
    add("claims", pool.claims.as_str().to_owned());
    match grant.basis() {
        // The server itself proves it, by the label and the locks on the devices; with legs, members make no promise
        // while an owner is there.
        Basis::Exported | Basis::SameHost => {}
        // A proof about one head does not cover a different owner that a label may name later.
        Basis::Fenced { head } => add("fenced-owner", head.to_string()),
        Basis::Stopped { head } => add("stopped-owner", head.to_string()),
        Basis::Watched if pool.has_legs() => {}
        // The import checks for multihost heartbeats.
        Basis::Watched => words.push("--watch-for-owner".to_owned()),
    }
    words
}

/// The failure and the advice at the end of a log, as the binary prints them.
fn last_messages_in(log: &str) -> Option<String> {
    const MARK: &str = "bulkhead: ";
    let lines: Vec<&str> = log.lines().collect();
    let at = lines.iter().rposition(|line| line.starts_with(MARK))?;
    let words = lines[at..].iter().map(|line| line.trim());
    let words: Vec<&str> = words.filter(|line| !line.is_empty()).collect();
    Some(words.join("; ").replacen(MARK, "", 1))
}

#[cfg(test)]
mod tests {
    use takeover::{Evidence, Peer, judge};

    use super::*;

    fn grant(label: Label, owner: Peer) -> Grant {
        let evidence = Evidence {
            pool: "tank".parse().expect("a name"),
            label,
            owner,
        };
        judge(&evidence).expect("a grant")
    }

    fn in_use(by_this_host: bool) -> Label {
        Label::InUse {
            by_this_host,
            host_name: Some("left".to_owned()),
            is_watched: false,
        }
    }

    #[test]
    fn owner_stopped_flag_requires_its_proof() {
        let text = include_str!("../../../examples/pair.toml");
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let pool = &appliance.pools[&"tank".parse::<PoolName>().expect("a name")];
        for (label, peer, said) in [
            (Label::Exported, Peer::Unknown, None),
            (in_use(true), Peer::Unknown, None),
            (in_use(false), Peer::Fenced, Some("--fenced-owner")),
            (in_use(false), Peer::Stopped, Some("--stopped-owner")),
        ] {
            let grant = grant(label, peer);
            let words = server_arguments(pool, &[], &grant);
            for option in ["--fenced-owner", "--stopped-owner"] {
                let ends = words.ends_with(&[option, "left"].map(str::to_owned));
                assert_eq!(ends, said == Some(option), "{grant:?}");
            }
            let is_general = |word: &String| word == "--previous-owner-is-stopped";
            assert!(!words.iter().any(is_general), "{grant:?}");
        }
    }

    #[test]
    fn server_arguments_contain_the_keytab() {
        let text = include_str!("../../../examples/pair.toml");
        let text = format!("{text}\n[pools.tank.kerberos]\nkeytab_file = \"/etc/k\"\n");
        let appliance = appliance::parse(&text).expect("well formed").appliance;
        let pool = &appliance.pools[&"tank".parse::<PoolName>().expect("a name")];
        let words = server_arguments(pool, &[], &grant(Label::Exported, Peer::Unknown));
        let mut pairs = words.windows(2);
        assert!(
            pairs.any(|two| two == ["--nfs-keytab", "/etc/k"]),
            "{words:?}"
        );
    }

    #[test]
    fn pool_of_legs_opens_by_record_with_peer_stopped_flag() {
        let text = include_str!("../../../examples/legs-two-heads-witness.toml");
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let pool = &appliance.pools[&"tank".parse::<PoolName>().expect("a name")];
        for (label, peer, said) in [
            (Label::Exported, Peer::Unknown, None),
            (in_use(true), Peer::Unknown, None),
            (in_use(false), Peer::Fenced, Some("--fenced-owner")),
            (in_use(false), Peer::Stopped, Some("--stopped-owner")),
        ] {
            let words = server_arguments(pool, &[], &grant(label, peer));
            let has = |word: &str| words.iter().any(|one| one == word);
            assert!(
                words.windows(2).any(|two| two == ["--legs", LEGS_PATH]),
                "{words:?}"
            );
            // A fence stops the leg-server, too. A stopped server does not, so it is no vote of that head.
            for option in ["--fenced-owner", "--stopped-owner"] {
                let ends = words.ends_with(&[option, "left"].map(str::to_owned));
                assert_eq!(ends, said == Some(option), "{words:?}");
            }
            for other in [
                "--search",
                "--previous-owner-is-stopped",
                "--watch-for-owner",
            ] {
                assert!(!has(other), "{words:?}");
            }
        }
    }

    #[test]
    fn last_failure_in_log_is_reported_with_advice() {
        let log = "bulkhead: an older one\n INFO engine\nbulkhead: it is in use\n  ask it\n";
        assert_eq!(
            last_messages_in(log).as_deref(),
            Some("it is in use; ask it")
        );
        assert_eq!(last_messages_in(" INFO engine\n"), None);
    }
}
