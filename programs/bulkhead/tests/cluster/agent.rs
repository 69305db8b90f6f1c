//! `bulkhead-agent pool` as Pacemaker runs it: the real server of a real pool on files, started,
//! monitored, stopped and killed.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::common::{TestHost, eventually, executable, freeze, signal};

/// Exit codes of OCF 1.1.
const OCF_SUCCESS: i32 = 0;
const OCF_ERR_GENERIC: i32 = 1;
const OCF_NOT_RUNNING: i32 = 7;
/// Exit code for an external failure.
const EXIT_FAILED: i32 = 1;
/// Longest time of a monitor: a second for the response, and the delay of a host that stalls for
/// seconds. An operation may take 40.
const MONITOR_WAIT: Duration = Duration::from_secs(20);

/// Assigns each test an address of its own, since the ports are always the same.
static NEXT_ADDRESS: AtomicU8 = AtomicU8::new(1);

/// A head with pool `tank` and its appliance file.
struct Head {
    machine: TestHost,
    address: String,
}

impl Head {
    fn new() -> Self {
        let machine = TestHost::with_exported_volume();
        // All of 127/8 is local, and no two test processes share a number.
        let number = NEXT_ADDRESS.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let address = format!("127.{}.{}.{number}", 64 + process / 250 % 64, process % 250);
        let head = Self { machine, address };
        head.describe(&["a", "b"].map(|disk| head.machine.path(disk)));
        head
    }

    fn file(&self) -> PathBuf {
        self.machine.path("appliance.toml")
    }

    fn describe(&self, disks: &[PathBuf]) {
        self.machine.describe(&self.address, disks);
    }

    fn agent_command(&self, action: &str) -> Command {
        let program = env!("CARGO_BIN_EXE_bulkhead-agent");
        let words = format!("pool {action}");
        let mut command = self.machine.command_of(program, &words);
        self.describe_to(&mut command);
        command
    }

    fn describe_to(&self, command: &mut Command) {
        command
            .env("BULKHEAD_APPLIANCE", self.file())
            .env("OCF_RESKEY_pool", "tank")
            .env("OCF_RESKEY_CRM_meta_timeout", "40000");
    }

    fn agent_with(&self, action: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = self.agent_command(action);
        let output = command.envs(variables.iter().copied()).output();
        output.expect("the agent runs")
    }

    fn agent(&self, action: &str) -> i32 {
        self.agent_with(action, &[]).status.code().unwrap_or(-1)
    }

    /// The action, which must succeed.
    fn ok(&self, action: &str) {
        let output = self.agent_with(action, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(OCF_SUCCESS), "{action}: {said}");
    }

    /// The start, which must fail with a reason that contains `part`.
    fn start_is_refused(&self, variables: &[(&str, &str)], part: &str) {
        let output = self.agent_with("start", variables);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(OCF_ERR_GENERIC), "{said}");
        let reason = said
            .lines()
            .find_map(|line| line.strip_prefix("ocf-exit-reason:"));
        assert!(reason.is_some_and(|reason| reason.contains(part)), "{said}");
        assert_eq!(
            self.processes("pool-server tank --ready-fd"),
            0,
            "nothing is left"
        );
    }

    fn server_pid(&self) -> String {
        let status = self.machine.ok("status tank --json").json();
        status["server"]["pid"].to_string()
    }

    /// Returns the greeting for NBD clients at the pool's address; none without a listener there.
    fn greeting(&self) -> Option<[u8; 8]> {
        let mut stream = TcpStream::connect(format!("{}:10809", self.address)).ok()?;
        let mut greeting = [0; 8];
        stream.read_exact(&mut greeting).ok()?;
        Some(greeting)
    }

    fn pool_state(&self) -> serde_json::Value {
        self.machine.ok("pool list --json").json()[0]["state"].clone()
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        self.agent("stop");
    }
}

#[test]
fn start_monitor_and_stop_succeed_in_sequence() {
    let head = Head::new();
    assert_eq!(head.agent("monitor"), OCF_NOT_RUNNING);
    head.ok("validate-all");
    head.ok("start");
    assert_eq!(head.greeting().as_ref(), Some(b"NBDMAGIC"));
    let pid = head.server_pid();
    head.ok("monitor");
    head.ok("start");
    assert_eq!(head.server_pid(), pid, "a second start changes nothing");
    head.ok("stop");
    assert_eq!(head.greeting(), None);
    assert_eq!(head.agent("monitor"), OCF_NOT_RUNNING);
    assert_eq!(head.pool_state(), "exported");
    head.ok("stop");
    // Without its file a head can still stop and monitor, and reports why it cannot start.
    std::fs::remove_file(head.file()).expect("removed");
    assert_eq!(head.agent("monitor"), OCF_NOT_RUNNING);
    head.ok("stop");
    assert_eq!(head.agent("start"), 2);
}

/// The next start, here or on another head, uses the file. `appliance apply` updates a running
/// server.
#[test]
fn addresses_of_file_change_only_by_apply() {
    let head = Head::new();
    head.ok("start");
    let (machine, own) = (&head.machine, &head.address);
    let pid = head.server_pid();
    let number: Ipv4Addr = own.parse().expect("an address");
    // An address that no test uses.
    let other = Ipv4Addr::from(u32::from(number) + (64 << 16)).to_string();
    machine.refused(
        &format!("portal add tank --nbd {other}:10809"),
        4,
        "appliance file",
    );
    machine.refused(
        &format!("portal remove tank --nbd {own}:10809"),
        4,
        "appliance apply",
    );
    let both = format!(
        "portal set tank --iscsi {own}:3260,1 --nbd {own}:10809 --iscsi {other}:3260,2 --nbd {other}:10809"
    );
    machine.ok(&both);
    for address in [own, &other] {
        TcpStream::connect(format!("{address}:10809")).expect("it listens");
        TcpStream::connect(format!("{address}:3260")).expect("it listens");
    }
    let again = machine.ok(&format!("{both} --json")).json();
    assert_eq!(again["changed"], false, "{again}");
    assert_eq!(head.server_pid(), pid);
    head.ok("monitor");
}

#[test]
fn a_killed_server_is_not_running_and_is_started_again() {
    let head = Head::new();
    head.ok("start");
    let pid = head.server_pid();
    signal(&pid, "-KILL");
    eventually("the server is gone", || {
        head.agent("monitor") == OCF_NOT_RUNNING
    });
    head.ok("start");
    assert_ne!(head.server_pid(), pid);
    assert_eq!(head.greeting().as_ref(), Some(b"NBDMAGIC"));
}

#[test]
fn a_frozen_server_fails_the_monitor_in_time_and_is_killed_by_stop() {
    let head = Head::new();
    head.ok("start");
    freeze(head.server_pid());
    let asked = Instant::now();
    assert_eq!(head.agent("monitor"), OCF_ERR_GENERIC);
    assert!(asked.elapsed() < MONITOR_WAIT, "{:?}", asked.elapsed());
    head.ok("stop");
    assert_eq!(head.agent("monitor"), OCF_NOT_RUNNING);
    head.ok("start");
}

/// An open file of the server, which represents an active request in the kernel: this process holds it.
fn remains_of(pid: &str, disk: &Path) -> std::os::fd::OwnedFd {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
    let is_disk = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|target| target == disk)
    };
    let found = open.flatten().find(is_disk).expect("the disk is open");
    let number = found.file_name().to_string_lossy().parse();
    let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
    let process =
        rustix::process::pidfd_open(pid.expect("a number"), rustix::process::PidfdFlags::empty());
    rustix::process::pidfd_getfd(
        process.expect("it lives"),
        number.expect("a number"),
        rustix::process::PidfdGetfdFlags::empty(),
    )
    .expect("the open file of a child of ours")
}

impl Head {
    /// The action, which must fail because requests to disk `disk` (none: any) may be active.
    fn is_not_released(&self, action: &str, disk: &str) {
        // Short, so that the wait is.
        let output = self.agent_with(action, &[("OCF_RESKEY_CRM_meta_timeout", "2000")]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(OCF_ERR_GENERIC), "{said}");
        let reason = format!("{disk} is still locked");
        assert!(said.contains(&reason), "{action}: {said}");
    }
}

/// Requests of io_uring outlive their process, and complete after it.
#[test]
fn killed_server_is_stopped_only_after_kernel_requests_end() {
    let head = Head::new();
    for is_killed_by_stop in [false, true] {
        head.ok("start");
        let pid = head.server_pid();
        let remains = remains_of(&pid, &head.machine.path("b"));
        if is_killed_by_stop {
            freeze(&pid);
        } else {
            signal(&pid, "-KILL");
            // Removed from the list in between: the server had it all the same.
            head.describe(&[head.machine.path("a")]);
        }
        head.is_not_released("stop", "/b");
        head.is_not_released("monitor", "/b");
        let mut stop = head.agent_command("stop").spawn().expect("the agent runs");
        drop(remains);
        assert!(stop.wait().expect("a child").success());
        assert_eq!(head.agent("monitor"), OCF_NOT_RUNNING);
        head.describe(&["a", "b"].map(|disk| head.machine.path(disk)));
    }
}

#[test]
fn pulled_disk_does_not_block_stop() {
    let head = Head::new();
    head.ok("start");
    let pid = head.server_pid();
    let _pulled = remains_of(&pid, &head.machine.path("b"));
    std::fs::remove_file(head.machine.path("b")).expect("removed");
    signal(&pid, "-KILL");
    head.ok("stop");
    assert_eq!(head.agent("monitor"), OCF_NOT_RUNNING);
}

/// In a lab all heads run on one kernel.
#[test]
fn lock_of_other_head_on_same_kernel_is_not_a_leftover() {
    let head = Head::new();
    head.ok("start");
    head.ok("stop");
    let elsewhere = head.machine.path("elsewhere");
    let options = format!("--run-dir {} --host-id 0000beef", elsewhere.display());
    let server = head.machine.serve(&options);
    let shared = [("BULKHEAD_HEADS_SHARE_KERNEL", "true")];
    eventually("the labels name the other head", || {
        let monitor = head.agent_with("monitor", &shared);
        monitor.status.code() == Some(OCF_NOT_RUNNING)
    });
    let stop = head.agent_with("stop", &shared);
    assert!(stop.status.success());
    // Two hosts: the process with the lock runs here.
    head.is_not_released("stop", "");
    assert_eq!(server.stop(), 0, "{}", head.machine.log());
    head.ok("stop");
}

#[test]
fn manually_started_server_is_monitored_and_stopped() {
    let head = Head::new();
    let mut server = head.machine.serve("");
    head.ok("monitor");
    head.ok("start");
    assert_eq!(head.server_pid(), server.child.id().to_string());
    head.ok("stop");
    assert_eq!(server.wait(), 0, "{}", head.machine.log());
    assert_eq!(head.pool_state(), "exported");

    // A server that was never monitored before it hangs.
    let server = head.machine.serve("");
    freeze(server.child.id());
    assert_eq!(head.agent("monitor"), OCF_ERR_GENERIC);
    head.ok("stop");
    assert_eq!(head.agent("monitor"), OCF_NOT_RUNNING);
}

#[test]
fn start_fails_while_other_process_holds_disks() {
    let head = Head::new();
    let elsewhere = head.machine.path("elsewhere");
    let options = format!("--run-dir {}", elsewhere.display());
    let server = head.machine.serve(&options);
    head.start_is_refused(&[], "in use");
    // This head cannot stop it, because it is no server, but the pool is in use here.
    head.is_not_released("monitor", "");
    assert_eq!(server.stop(), 0, "{}", head.machine.log());
    head.ok("start");
}

#[test]
fn pool_with_lost_disk_starts_after_confirmation() {
    let head = Head::new();
    std::fs::remove_file(head.machine.path("b")).expect("removed");
    let confirm = "pool confirm tank --missing-devices-are-not-newer";
    head.machine.ok(confirm);
    head.ok("start");
    let status = head.machine.ok("status tank --json").json();
    assert_eq!(status["pool"]["health"], "DEGRADED");
}

#[test]
fn missing_disks_or_setup_are_reported() {
    let head = Head::new();
    let (a, b) = (head.machine.path("a"), head.machine.path("b"));
    head.describe(&[head.machine.path("nowhere")]);
    head.start_is_refused(&[], "can be read");
    head.describe(&[]);
    assert_eq!(head.agent("validate-all"), 2);
    head.describe(&[a, b]);
    let other = head.agent_with("validate-all", &[("OCF_RESKEY_pool", "other")]);
    assert_eq!(other.status.code(), Some(2));
    assert_eq!(head.agent("promote"), 3);
    let nameless = head.agent_with("monitor", &[("OCF_RESKEY_pool", "no/pool")]);
    assert_eq!(nameless.status.code(), Some(6));
}

impl Head {
    /// From now on the disks of the pool have this fault, for servers that are started with
    /// [`Head::start_with_faults`].
    fn disks(&self, fault: &str) {
        let line = |disk: &str| format!("{} {fault}\n", self.machine.path(disk).display());
        let text = match fault {
            "" => String::new(),
            _ => line("a") + &line("b"),
        };
        let file = self.machine.path("faults");
        std::fs::create_dir_all(&file).expect("a folder");
        std::fs::write(file.join("tank.faults"), text).expect("written");
    }

    fn start_with_faults(&self) -> Command {
        let mut command = self.agent_command("start");
        command.env("BULKHEAD_LEG_FAULTS", self.machine.path("faults"));
        command
    }
}

/// The disks stall during the import: clients and addresses are there before.
#[test]
fn clients_connecting_during_import_wait_and_are_served() {
    let head = Head::new();
    head.ok("start");
    // None where this test may not set one.
    let addresses = head.address_count();
    head.ok("stop");
    head.disks("hang");
    let mut start = head.start_with_faults().spawn().expect("the agent runs");
    let door = format!("{}:10809", head.address);
    eventually("the addresses are there and take connections", || {
        head.address_count() == addresses && TcpStream::connect(&door).is_ok()
    });
    let mut client = TcpStream::connect(&door).expect("taken");
    assert_eq!(
        start.try_wait().expect("a child"),
        None,
        "nothing is served"
    );
    assert_eq!(head.agent("monitor"), OCF_ERR_GENERIC, "still starting");
    head.disks("");
    client
        .set_read_timeout(Some(crate::common::SERVER_WAIT))
        .expect("set");
    let mut greeting = [0; 8];
    client.read_exact(&mut greeting).expect("greeted");
    assert_eq!(&greeting, b"NBDMAGIC");
    assert!(start.wait().expect("a child").success());
    head.is_served_once("after a late import", addresses);
}

#[test]
fn failed_import_withdraws_addresses() {
    let head = Head::new();
    head.disks("read=eio");
    let output = head.start_with_faults().output().expect("the agent runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(OCF_ERR_GENERIC), "{said}");
    // Set and removed, or attempted: no step is omitted.
    assert!(said.contains("addresses "), "{said}");
    assert!(said.contains("withdraw "), "{said}");
    head.is_at_rest("after an import that failed");
    assert_eq!(head.greeting(), None);
    head.disks("");
    head.ok("start");
}

/// Pacemaker's state of a head that was fenced, or is merely gone.
fn node_state(name: &str) -> String {
    format!(
        "<node_state id=\"1\" uname=\"{name}\" in_ccm=\"false\" crmd=\"offline\" \
         join=\"down\" expected=\"down\"/>"
    )
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn pool_of_other_head_starts_only_after_confirmed_fence() {
    let head = Head::new();
    // The label of a killed server names this host, but another host id.
    head.machine.serve("--host-id 00000001").kill();
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let name = name.trim();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.chars().all(plain) {
        eprintln!("skipped: this host's name {name} is none that a head can have");
        return;
    }
    let path = head.machine.stand_in("cibadmin", &node_state(name));
    let history = |status: &str| {
        format!(
            "<pacemaker-result><fence_history><fence_event action=\"off\" target=\"{name}\" \
             status=\"{status}\" completed=\"2026-01-02 10:00:00\"/></fence_history>\
             </pacemaker-result>"
        )
    };
    head.machine.stand_in("stonith_admin", &history("failed"));
    head.start_is_refused(&[("PATH", &path)], "stonith_admin --confirm");
    let server = "pool-server tank --no-nbd --no-iscsi --stopped-owner somebody";
    head.machine.refused(server, 6, "was not exported by");
    head.machine.stand_in("stonith_admin", &history("success"));
    let output = head.agent_with("start", &[("PATH", &path)]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(OCF_SUCCESS), "{said}");
    head.ok("monitor");
}

/// The agent's prefix of each step, with RUST_LOG=debug.
const STEP_MARK: &str = "action=";
/// Upper bound of the steps of an operation.
const STEPS_MAX: usize = 20;

impl Head {
    /// Runs the agent and kills it as it begins step number `step`, from 0; returns whether it reached that step.
    fn killed_at(&self, action: &str, step: usize) -> bool {
        let mut agent = self.agent_command(action);
        agent.env("RUST_LOG", "debug").stderr(Stdio::piped());
        let mut agent = agent.spawn().expect("the agent runs");
        let said = BufReader::new(agent.stderr.take().expect("piped"));
        let steps = said.lines().map_while(Result::ok);
        let mut steps = steps.filter(|line| line.contains(STEP_MARK));
        let is_reached = steps.nth(step).is_some();
        // It may just have ended.
        let _ = agent.kill();
        agent.wait().expect("a child of ours");
        is_reached
    }

    /// Counts the processes of this head with these words in the command line.
    fn processes(&self, words: &str) -> usize {
        let run = self.machine.path("run");
        let run = run.to_string_lossy();
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        let texts = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        let texts = texts.map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "));
        texts
            .filter(|text| text.contains(&*run) && text.contains(words))
            .count()
    }

    /// Counts the occurrences of the pool's address on this host.
    fn address_count(&self) -> usize {
        let shown = Command::new("ip")
            .args(["-o", "addr", "show", "to", &self.address])
            .output()
            .expect("ip runs");
        String::from_utf8_lossy(&shown.stdout).lines().count()
    }

    /// No resource of the pool is on this head.
    fn is_at_rest(&self, when: &str) {
        let output = self.agent_with("monitor", &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(OCF_NOT_RUNNING),
            "{when}: {said}"
        );
        // A stop only includes the export; the kernel frees the process's memory afterwards.
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.processes("pool-server") > 0 {
            assert!(Instant::now() < deadline, "{when}: a server is left");
            std::thread::yield_now();
        }
        assert_eq!(self.address_count(), 0, "{when}");
    }

    /// One server serves, and nothing exists twice.
    fn is_served_once(&self, when: &str, addresses: usize) {
        assert_eq!(self.agent("monitor"), OCF_SUCCESS, "{when}");
        assert_eq!(self.greeting().as_ref(), Some(b"NBDMAGIC"), "{when}");
        // A server that its agent did not note before it died exits by itself, and opens nothing
        // until then.
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.processes("pool-server") > 1 {
            assert!(Instant::now() < deadline, "{when}: two servers");
            std::thread::yield_now();
        }
        // An address that the killed start did not set is set by its own agent.
        assert!(self.address_count() <= addresses, "{when}");
        assert!(self.processes("agent pool watch") <= 1, "{when}");
    }
}

#[test]
fn agent_killed_during_start_leaves_no_second_server() {
    let head = Head::new();
    head.ok("start");
    // None where this test may not set one.
    let addresses = head.address_count();
    head.ok("stop");
    for step in 0..STEPS_MAX {
        let when = format!("a start killed at step {step}");
        if !head.killed_at("start", step) {
            assert!(step > 4, "the agent logs its steps");
            return;
        }
        // Pacemaker's action after a failed start: a stop, and it relies on its success.
        head.ok("stop");
        head.is_at_rest(&when);
        // And by hand: once more.
        head.killed_at("start", step);
        head.ok("start");
        head.is_served_once(&when, addresses);
        head.ok("stop");
        head.is_at_rest(&when);
    }
    panic!("a start of more than {STEPS_MAX} steps");
}

#[test]
fn stop_interrupted_at_any_step_is_completed_by_next_agent() {
    let head = Head::new();
    for step in 0..STEPS_MAX {
        head.ok("start");
        if !head.killed_at("stop", step) {
            assert!(step > 2, "the agent logs its steps");
            return;
        }
        head.ok("stop");
        head.is_at_rest(&format!("a stop killed at step {step}"));
    }
    panic!("a stop of more than {STEPS_MAX} steps");
}

/// An agent that dies between the start of a server and the note of it: that server cannot be
/// found, so it must not open the pool.
#[test]
fn server_not_recorded_by_agent_does_not_open_pool() {
    let head = Head::new();
    let note = head.machine.path("run/tank.agent.json");
    std::fs::write(&note, "{\"pid\":1,\"started_ticks\":1}").expect("written");
    let server = "pool-server tank --no-iscsi --no-nbd --noted-in";
    let server = format!("{server} {}", note.display());
    head.machine.refused(&server, EXIT_FAILED, "has not noted");
    assert_eq!(head.pool_state(), "exported");
}

#[test]
fn agents_in_server_binary_behave_the_same() {
    let head = Head::new();
    let agent = |action: &str| {
        let mut command = head.machine.command(&format!("agent pool {action}"));
        head.describe_to(&mut command);
        let output = command.output().expect("the agent runs");
        output.status.code()
    };
    assert_eq!(agent("start"), Some(OCF_SUCCESS));
    head.ok("monitor");
    assert_eq!(head.greeting().as_ref(), Some(b"NBDMAGIC"));
    assert_eq!(agent("stop"), Some(OCF_SUCCESS));
    assert_eq!(head.agent("monitor"), OCF_NOT_RUNNING);
}

/// Runs ocf-tester, with a wrapper command, on an agent with parameters; none where it cannot.
#[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn ocf_tester(head: &Head, way: &[&str], agent: &str, parameters: &[&str]) -> Option<Output> {
    let judges = ["/usr/sbin/ocf-tester", "/usr/bin/xmllint"];
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !judges.iter().all(|judge| Path::new(judge).exists()) || !is_root {
        eprintln!("skipped: ocf-tester or xmllint is not installed, or this is not root");
        return None;
    }
    let script = head.machine.path("agent");
    executable(&script, agent);
    let words = [way, &[judges[0], "-n", "test"]].concat();
    let options = parameters.iter().flat_map(|parameter| ["-o", parameter]);
    let output = Command::new(words[0])
        .args(&words[1..])
        .args(options)
        .arg(&script)
        .env("BULKHEAD_APPLIANCE", head.file())
        .env("BULKHEAD_RUN_DIR", head.machine.path("run"))
        .env("BULKHEAD_STATE_DIR", head.machine.path("state"))
        .output();
    Some(output.expect("it runs"))
}

fn passes(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn ocf_tester_passes() {
    let head = Head::new();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_bulkhead"));
    let agent = appliance::render::agent_script(&program);
    if let Some(output) = ocf_tester(&head, &[], &agent, &["pool=tank"]) {
        passes(&output);
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn ocf_tester_passes_for_addresses_of_both_families() {
    const TRANSPORT: [&str; 3] = ["unshare", "--net", "--"];
    let can = Command::new(TRANSPORT[0])
        .args(&TRANSPORT[1..])
        .arg("true")
        .output();
    if !can.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no network namespaces here");
        return;
    }
    let head = Head::new();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_bulkhead"));
    let agent = appliance::render::address_agent_script(&program);
    for (address, prefix) in [("10.77.1.100", "24"), ("fd77::100", "64")] {
        let address = format!("address={address}");
        let prefix = format!("prefix={prefix}");
        let parameters = [address.as_str(), &prefix, "interface=lo"];
        if let Some(output) = ocf_tester(&head, &TRANSPORT, &agent, &parameters) {
            passes(&output);
        }
    }
}
