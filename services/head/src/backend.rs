//! Implements the API for this host.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agents::ApplianceFile;
use api::backend::{
    ApplianceInput, ApplianceVerb, ClusterState, DrillInput, HostLosses, InterfaceCounters,
    Listener, PeerLosses, Progress,
};
use api::fill::FillStore;
use api::report::{FileReport, PeerReport};
use api::view::{DiskView, DrillView, DropsView, HardwareFault, PowerView, Said, Sensor};
use api::{Backend, Notifier};
use cluster::host::{Host as _, Local};
use cluster::process::Invocation;
use control::answer::{Done, PoolSummary};
use control::key::KeyView;
use control::legs::reports::MemberReport;
use control::operations::pool::create::PoolCreate;
use control::request::ServerRequest;
use control::{Answer, Client, Failure, FailureKind, Request};
use notifications::Service;
use pool_access::child::{self, Question, Ran, Run};
use pool_access::common::Common;
use pool_access::sockets;
use serde_json::{Value, json};
use takeover::timeline::TimedStep;
use units::{HeadName, PoolName};

use super::clients::Clients;
use super::disk_health::DiskHealths;
use super::drops::Drops;
use super::heartbeats::Heartbeats;
use super::power::{self, PowerWatch};
use super::sensors::Sensors;
use super::slow_servers::SlowServers;
use super::{cluster_view, console, disk_health, disks, host_losses, interfaces, logs, safeguards};
use crate::args::{API_PORT, HeadArgs, MoveArgs};

/// Time-out of a request that opens a pool, or searches for pools.
const PERFORM_LIMIT: Duration = Duration::from_secs(600);
/// Time-out of checking, planning or applying an appliance file.
const APPLIANCE_LIMIT: Duration = Duration::from_secs(1800);
/// Time-out of drills.
const DRILL_LIMIT: Duration = Duration::from_secs(6 * 3600);
/// Time-out of a server that has not responded within [`STATUS_TIME_LIMIT`]: slow or hung.
const SLOW_TIME_LIMIT: Duration = Duration::from_secs(25);
/// Time-out for a started server to serve.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Time-out of a server that is polled each second.
const STATUS_TIME_LIMIT: Duration = Duration::from_secs(2);
/// Pause between two checks of a starting server.
const START_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Part of the log of a server that failed to start, in bytes.
const LAST_MESSAGES_BYTES: usize = 2000;
/// How long a command that checks once gives fence devices and the witness's vote to start on a head that has just
/// booted.
const BOOT_GRACE: Duration = Duration::from_secs(15);
/// Interval of its looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Exists if systemd runs.
const SYSTEMD: &str = "/run/systemd/system";

/// This host.
pub struct Host {
    args: HeadArgs,
    common: Common,
    sensors: Sensors,
    drops: Drops,
    disk_health: DiskHealths,
    clients: Clients,
    heartbeats: Heartbeats,
    safeguards: safeguards::Watch,
    power: Arc<PowerWatch>,
    watches_power: AtomicBool,
    notifications: Arc<Service>,
    slow_servers: SlowServers,
    fills: FillStore,
}

impl Host {
    /// A head with these options.
    pub fn new(args: HeadArgs, common: Common) -> Self {
        let file = common.settings.run_dir.join(disk_health::FILE);
        let notifications = Arc::new(Service::open(
            cluster_view::own_name(&args),
            args.file.clone(),
            &common.settings.state_dir,
        ));
        let fills = FillStore::open(&common.settings.state_dir, true);
        Self {
            args,
            common,
            fills,
            notifications,
            sensors: Sensors::default(),
            drops: Drops::default(),
            disk_health: DiskHealths::watched(file),
            clients: Clients::default(),
            heartbeats: Heartbeats::default(),
            safeguards: safeguards::Watch::default(),
            power: Arc::default(),
            watches_power: AtomicBool::new(false),
            slow_servers: SlowServers::default(),
        }
    }

    /// Starts the thread that watches the power supplies.
    pub fn watch_power(&self) -> std::io::Result<()> {
        self.watches_power.store(true, Ordering::Relaxed);
        let (power, args, common) = (
            Arc::clone(&self.power),
            self.args.clone(),
            self.common.clone(),
        );
        let watch = move || power::watch(&power, &args, &common);
        let thread = std::thread::Builder::new().name("power".into());
        thread.spawn(watch).map(drop)
    }

    /// The same for a process that checks only once.
    pub fn for_single_check(args: HeadArgs, common: Common) -> Self {
        Self {
            safeguards: safeguards::Watch::once(),
            disk_health: DiskHealths::Stored(common.settings.run_dir.join(disk_health::FILE)),
            fills: FillStore::open(&common.settings.state_dir, false),
            ..Self::new(args, common)
        }
    }

    /// The sender of messages about alerts.
    pub fn notifications(&self) -> Arc<Service> {
        Arc::clone(&self.notifications)
    }

    fn perform(&self, question: &Question, progress: Progress<'_>) -> Result<Answer, Failure> {
        let mut arguments: Vec<OsString> = vec!["--json".into(), "head".into(), "perform".into()];
        arguments.extend(self.common.as_options());
        let run = Run {
            arguments,
            input: serde_json::to_vec(question).expect("questions are JSON"),
            limit: PERFORM_LIMIT,
            cancel: None,
        };
        child::run(run, progress)?.answer()
    }

    fn run_own(
        &self,
        words: &[&str],
        limit: Duration,
        cancel: Option<&AtomicBool>,
        progress: Progress<'_>,
    ) -> Result<Ran, Failure> {
        let mut arguments: Vec<OsString> = words.iter().map(Into::into).collect();
        arguments.extend(self.common.as_options());
        let run = Run {
            arguments,
            input: Vec::new(),
            limit,
            cancel,
        };
        child::run(run, progress)
    }

    /// Whether the cluster decides where the pool is served.
    fn is_clustered(&self, pool: &PoolName) -> bool {
        cluster::appliance_file::load(&self.args.file)
            .is_ok_and(|appliance| appliance.pools.contains_key(pool))
    }

    fn is_served_here(&self, pool: &PoolName) -> bool {
        let ping = Request::Server(ServerRequest::Ping);
        self.ask_server(pool, ping).is_ok()
    }

    /// Starts a server that continues to run after this head exits.
    fn start_child(&self, pool: &PoolName) -> Result<(), Failure> {
        let failed = |what: &str, error: &std::io::Error| {
            Failure::new(
                FailureKind::Failed,
                format!("{what} of pool {pool}: {error}"),
            )
        };
        std::fs::create_dir_all(&self.common.settings.state_dir)
            .map_err(|error| failed("create the directory of the log", &error))?;
        let path = self.common.settings.state_dir.join(format!("{pool}.log"));
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&path);
        let log = log.map_err(|error| failed("open the log", &error))?;
        let program = std::env::current_exe().map_err(|error| failed("find the server", &error))?;
        use std::os::unix::process::CommandExt;
        let mut child = Command::new(program)
            .args(self.common.as_options())
            .args(["pool-server", pool.as_str()])
            .args(self.args.pool_options.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0)
            .spawn()
            .map_err(|error| failed("start the server", &error))?;
        let deadline = Instant::now() + START_LIMIT;
        while !self.is_served_here(pool) {
            let ended = child.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() >= deadline {
                let message = format!("the server of {pool} did not come up: {}", end_of(&path));
                return Err(Failure::new(FailureKind::Failed, message)
                    .advise(format!("its log is {}", path.display())));
            }
            std::thread::sleep(START_POLL_INTERVAL);
        }
        // Reaps the process when it exits.
        let wait = move || child.wait();
        let _ = std::thread::Builder::new().name("child".into()).spawn(wait);
        Ok(())
    }

    fn start_unit(&self, pool: &PoolName) -> Result<(), Failure> {
        let unit = format!("bulkhead-pool@{pool}.service");
        let invocation = Invocation::new("systemctl", &["enable", "--now", &unit]);
        let output = Local::default().run(&invocation.within(START_LIMIT));
        let output = output.map_err(|error| Failure::from_chain(FailureKind::Failed, &error))?;
        match output.code {
            0 => Ok(()),
            _ => Err(Failure::new(FailureKind::Failed, output.complaint())
                .advise(format!("see `journalctl -u {unit}`"))),
        }
    }
}

/// The end of a log.
fn end_of(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let start = bytes.len().saturating_sub(LAST_MESSAGES_BYTES);
    let text = String::from_utf8_lossy(&bytes[start..]).into_owned();
    let last: Vec<&str> = text.lines().rev().take(3).collect();
    last.into_iter().rev().collect::<Vec<_>>().join(" ")
}

/// The file's text: as given, or converted from its JSON.
fn text_of(input: &ApplianceInput) -> Result<String, Failure> {
    match (&input.text, &input.appliance) {
        (Some(text), _) => Ok(text.clone()),
        (None, Some(json)) => toml::to_string_pretty(&without_nulls(json)).map_err(|error| {
            Failure::usage(format!("the appliance cannot be written as TOML: {error}"))
        }),
        (None, None) => Err(Failure::usage(
            "give the appliance as `text` or as `appliance`",
        )),
    }
}

/// TOML has no null: members with null are left out.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

impl Backend for Host {
    fn head(&self) -> String {
        cluster_view::own_name(&self.args)
    }

    fn served(&self) -> Vec<PoolName> {
        sockets::served(&self.common)
    }

    fn left(&self) -> Vec<PoolName> {
        sockets::look(&self.common).left.into_iter().collect()
    }

    fn send_request(
        &self,
        pool: &PoolName,
        request: Request,
        progress: Progress<'_>,
    ) -> Result<Answer, Failure> {
        pool_access::refuse(&self.common, pool, &request)?;
        match Client::connect(&sockets::socket(&self.common, pool)) {
            // Requests with new devices are recorded by the process that the command line would use.
            Ok(client) if !pool_access::changes_device_cache(&request) => {
                client.noted().call(request, progress)
            }
            _ => {
                let pool = pool.clone();
                self.perform(&Question::Ask { pool, request }, progress)
            }
        }
    }

    fn ask_server(&self, pool: &PoolName, request: Request) -> Result<Answer, Failure> {
        let socket = sockets::socket(&self.common, pool);
        let client = Client::connect(&socket)
            .map_err(|error| Failure::from_chain(FailureKind::Unreachable, &error))?;
        let client = client.with_silence_limit(STATUS_TIME_LIMIT);
        let mut client =
            client.map_err(|error| Failure::from_chain(FailureKind::Unreachable, &error))?;
        client.call(request, &mut |_| ())
    }

    fn is_slow(&self, pool: &PoolName) -> bool {
        let socket = sockets::socket(&self.common, pool);
        self.slow_servers.missed(pool, move || {
            let client = Client::connect(&socket).ok();
            let client = client.and_then(|client| client.with_silence_limit(SLOW_TIME_LIMIT).ok());
            client.is_some_and(|mut client| {
                let response = client.call(Request::Status, &mut |_| ());
                !response.is_err_and(|failure| failure.kind == FailureKind::Unreachable)
            })
        })
    }

    fn discover(&self) -> Result<Vec<PoolSummary>, Failure> {
        match self.perform(&Question::Discover, &mut |_| ())? {
            Answer::Pools(pools) => Ok(pools),
            _ => Err(Failure::new(
                FailureKind::Failed,
                "the search returned an unexpected response",
            )),
        }
    }

    fn create(&self, create: PoolCreate) -> Result<Answer, Failure> {
        self.perform(&Question::Create(create), &mut |_| ())
    }

    fn serve(&self, pool: &PoolName) -> Result<Answer, Failure> {
        if self.is_clustered(pool) {
            let message = format!("the cluster decides where {pool} is served");
            return Err(Failure::new(FailureKind::Exists, message)
                .advise("`crm_mon` shows it; `bulkhead pool move` moves it"));
        }
        if self.is_served_here(pool) {
            return Ok(Done::already(format!("pool {pool} is served here")));
        }
        match Path::new(SYSTEMD).exists() {
            true => self.start_unit(pool)?,
            false => self.start_child(pool)?,
        }
        Ok(Done::changed(format!("pool {pool} is served here")))
    }

    fn hand_over(
        &self,
        pool: &PoolName,
        to: &HeadName,
        without_keys: bool,
    ) -> Result<Answer, Failure> {
        let first = self.args.listen.first().map(SocketAddr::port);
        let args = MoveArgs {
            pool: pool.clone(),
            head: to.clone(),
            appliance: ApplianceFile {
                file: self.args.file.clone(),
            },
            without_keys,
            peer_key: self.args.peer_key.clone(),
            peer_port: self.args.peer_port.or(first).unwrap_or(API_PORT),
        };
        crate::hand_over::run(&args, &self.common)
    }

    fn missing_keys(&self, keys: &[KeyView], deadline: Instant) -> Option<Vec<api::MissingKey>> {
        crate::move_keys::missing_on_this_host(keys, deadline)
    }

    fn report(&self) -> PeerReport {
        let state_dir = &self.common.settings.state_dir;
        let file = match cluster::appliance_file::load(&self.args.file) {
            Err(failure) if failure.kind == FailureKind::NotFound => None,
            file => Some(FileReport::of(&file.map_err(|failure| failure.message))),
        };
        PeerReport {
            members: MemberReport::read(state_dir, api::now_ms()),
            file,
        }
    }

    fn cluster_state(&self) -> ClusterState {
        let (file, own) = (&self.args.file, self.head());
        let look = || cluster_view::look(file, &own, &self.heartbeats, &self.safeguards);
        let mut state = look();
        let deadline = Instant::now() + BOOT_GRACE;
        while self.safeguards.is_undecided() {
            match Instant::now() < deadline {
                true => std::thread::sleep(LOOK_INTERVAL),
                false => self.safeguards.decide(),
            }
            state = look();
        }
        let watches = self.watches_power.load(Ordering::Relaxed);
        state
            .problems
            .extend(self.power.problems(&self.args.file, watches));
        state
    }

    fn takeover_steps(&self, pool: &str) -> Vec<TimedStep> {
        let appliance = cluster::appliance_file::load(&self.args.file);
        match (appliance, pool.parse()) {
            (Ok(appliance), Ok(pool)) => {
                logs::takeover_steps(&appliance, &pool, &self.common.settings.state_dir)
            }
            // Without an appliance there is no cluster that could take anything over.
            _ => Vec::new(),
        }
    }

    fn appliance(&self, with_secrets: bool) -> Result<api::view::ApplianceFile, Failure> {
        let mut text = cluster::appliance_file::read(&self.args.file)?;
        let mut parsed = appliance::parse(&text).ok().map(|parsed| parsed.appliance);
        if !with_secrets {
            text = appliance::secret::hide_text(&text);
            parsed.iter_mut().for_each(appliance::secret::hide);
        }
        Ok(api::view::ApplianceFile {
            path: self.args.file.clone(),
            text,
            appliance: parsed,
        })
    }

    fn appliance_do(
        &self,
        verb: ApplianceVerb,
        input: &ApplianceInput,
        progress: Progress<'_>,
    ) -> Result<Said<Value>, Failure> {
        let text = text_of(input)?;
        let failed = Failure::of("store the file temporarily");
        let folder = tempfile::tempdir().map_err(&failed)?;
        let path = folder.path().join("appliance.toml");
        std::fs::write(&path, &text).map_err(&failed)?;
        let (name, path) = (
            match verb {
                ApplianceVerb::Check => "check",
                ApplianceVerb::Plan => "plan",
                ApplianceVerb::Apply => "apply",
            },
            path.to_string_lossy().into_owned(),
        );
        let mut words = vec!["--json", "appliance", name, &path];
        let reaches = input.reach_heads || verb != ApplianceVerb::Check;
        if reaches {
            words.push("--ssh");
        }
        if verb == ApplianceVerb::Apply {
            words.push("--progress");
        }
        let ran = self.run_own(&words, APPLIANCE_LIMIT, None, progress)?;
        let document = ran.document()?;
        if document.get("failure").is_some() {
            return Err(ran.failure());
        }
        if verb == ApplianceVerb::Apply && ran.code != 0 {
            let message = "the file was not applied: it has errors, or cannot be applied now";
            return Err(
                Failure::new(FailureKind::Failed, message).advise("check it, and look at the plan")
            );
        }
        Ok(Said {
            document,
            toml: text,
            exit_code: ran.code,
        })
    }

    fn appliance_schema(&self) -> Value {
        serde_json::from_str(&appliance::reference::schema_text()).unwrap_or_default()
    }

    fn drills(&self) -> Vec<DrillView> {
        let about = |drill: &drill_verdict::Drill| json!({"name": drill, "about": drill.about(), "expectation": drill.expectation()});
        let all = drill_verdict::Drill::ALL.iter().map(about).collect();
        serde_json::from_value(all).expect("the view has the same members")
    }

    fn drill(
        &self,
        input: &DrillInput,
        cancel: &AtomicBool,
        progress: Progress<'_>,
    ) -> Result<Value, Failure> {
        let failed = Failure::of("store the report temporarily");
        let known = |name: &String| {
            drill_verdict::Drill::ALL
                .iter()
                .any(|one| one.to_string() == *name)
        };
        if let Some(name) = input.names.iter().find(|name| !known(name)) {
            let message = format!("there is no drill {name:?}");
            return Err(
                Failure::not_found(message).advise("`bulkhead drill --list` names them all")
            );
        }
        let folder = tempfile::tempdir().map_err(&failed)?;
        let report = folder.path().join("report.json");
        let mut words = vec!["drill".to_owned()];
        words.extend(input.names.iter().cloned());
        words.extend([
            "--dir".to_owned(),
            self.args.lab_dir.to_string_lossy().into_owned(),
        ]);
        words.extend(["--report".to_owned(), report.to_string_lossy().into_owned()]);
        let options = [
            ("--rounds", input.rounds.map(|rounds| rounds.to_string())),
            ("--seed", input.seed.map(|seed| seed.to_string())),
            ("--profile", input.profile.clone()),
        ];
        for (option, value) in options {
            if let Some(value) = value {
                words.push(format!("{option}={value}"));
            }
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = self.run_own(&words, DRILL_LIMIT, Some(cancel), progress)?;
        let report = std::fs::read_to_string(&report).ok();
        let report = report.and_then(|text| serde_json::from_str(&text).ok());
        report.ok_or_else(|| match ran.stdout.trim() {
            "" => ran.failure(),
            said => Failure::new(FailureKind::Failed, said),
        })
    }

    fn disks(&self) -> Result<Vec<DiskView>, Failure> {
        let pools = self.discover().unwrap_or_default();
        Ok(disks::all(&pools, &self.disk_health.get()))
    }

    fn locate(&self, disk: &str, is_on: bool) -> Result<Answer, Failure> {
        disks::locate(disk, is_on)
    }

    fn hardware_faults(&self) -> Vec<HardwareFault> {
        let disks = self.disk_health.faults(&self.head());
        disks
            .into_iter()
            .chain(self.sensors.faults(&self.args.file))
            .collect()
    }

    fn sensors(&self) -> Vec<Sensor> {
        self.sensors.get(&self.args.file)
    }

    fn drops(&self) -> DropsView {
        self.drops.get()
    }

    fn power(&self) -> PowerView {
        self.power.shown()
    }

    fn interfaces(&self) -> Vec<InterfaceCounters> {
        let appliance = cluster::appliance_file::load(&self.args.file).ok();
        interfaces::counters(appliance.as_ref(), &self.head())
    }

    fn client_losses(&self, listeners: &[Listener]) -> Vec<PeerLosses> {
        self.clients.losses(listeners, &Local::default())
    }

    fn host_losses(&self) -> Vec<HostLosses> {
        host_losses::counted()
    }

    fn notifier(&self) -> Option<&dyn Notifier> {
        Some(self.notifications.as_ref())
    }

    fn fills(&self) -> Option<&FillStore> {
        Some(&self.fills)
    }

    fn console(&self, path: &str) -> Option<(&'static [u8], &'static str)> {
        console::file(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drills_and_reports_match_the_api_schema() {
        let mut round = drill_verdict::Round::new("move", 1, "left".parse().expect("a name"));
        round.pauses_s.insert("iscsi".to_owned(), 9e9);
        for drill in drill_verdict::Drill::ALL {
            let view =
                json!({"name": drill, "about": drill.about(), "expectation": drill.expectation()});
            serde_json::from_value::<DrillView>(view).expect("a view");
            let promise = drill_verdict::Promise::Published;
            let round =
                drill_verdict::JudgedRound::new(round.clone(), &drill.expectation(), promise);
            let reports = [
                drill_verdict::DrillReport::new(*drill, promise, vec![round]),
                drill_verdict::DrillReport::skipped(*drill, promise, "no lab"),
            ];
            let report = json!({"drills": reports});
            serde_json::from_value::<api::view::DrillsReport>(report).expect("a report");
        }
    }

    #[test]
    fn json_is_converted_to_toml_without_nulls() {
        let input = ApplianceInput {
            appliance: Some(
                json!({"format": 1, "name": "attic", "pools": {"tank": {"home": null, "disks": ["/a"]}}}),
            ),
            ..ApplianceInput::default()
        };
        let text = text_of(&input).expect("TOML");
        assert!(
            text.contains("name = \"attic\"") && !text.contains("home"),
            "{text}"
        );
        text_of(&ApplianceInput::default()).expect_err("nothing was given");
    }
}
