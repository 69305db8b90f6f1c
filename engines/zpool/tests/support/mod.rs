//! Helpers of the pool tests: the library allows one engine per process, so each test runs in its
//! own process, started from the test binary itself.

#![allow(dead_code)]

pub mod accounting;
pub mod borders;
pub mod records;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use engine::capabilities::{FileSystems, Health, Ownership, PoolProperties, Upkeep};
use engine::pool::{
    DeviceState, GroupKind, ImportOptions, PoolSpec, PoolStatus, ScanKind, ScanState, ScrubCommand,
};
use rustix::process::{Signal, getpid, kill_process};
use units::PoolName;
use zpool::pool::{discover, same_host_and_locked};
use zpool::{Engine, EngineOptions, HostId, Pool};

/// Names the part of a test that a process runs.
const PART: &str = "ZPOOL_TEST_PART";
/// Directory that the parts of one test share.
const DIR: &str = "ZPOOL_TEST_FOLDER";
/// Upper bound of a part, on the slowest host.
const PART_TIME_MAX: Duration = Duration::from_secs(180);
/// Upper bound of a wait for an event inside a part.
pub const EVENT_TIME_MAX: Duration = Duration::from_secs(60);

/// The result of a part.
pub struct Ended {
    pub success: bool,
    pub output: String,
}

/// The parts of one test and their directory.
pub struct Parts {
    test: &'static str,
    dir: tempfile::TempDir,
}

/// In a process that was started for a part of `test`: its name.
pub fn part() -> Option<String> {
    std::env::var(PART).ok()
}

/// The directory of the test, in a part.
pub fn dir() -> PathBuf {
    PathBuf::from(std::env::var_os(DIR).expect("set for every part"))
}

impl Parts {
    pub fn of(test: &'static str) -> Self {
        let dir = tempfile::tempdir().expect("temporary dir");
        Self { test, dir }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self, part: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("own binary"));
        command
            .args([self.test, "--exact", "--nocapture", "--test-threads=1"])
            .env(PART, part)
            .env(DIR, self.dir.path());
        command
    }

    /// Starts a part and leaves it running.
    pub fn start(&self, part: &str) -> Child {
        self.command(part)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("start a part")
    }

    /// Runs a part until it exits.
    pub fn run(&self, part: &str) -> Ended {
        let log = self.dir.path().join(format!("{part}.log"));
        let file = std::fs::File::create(&log).expect("log");
        let mut child = self
            .command(part)
            .stdout(file.try_clone().expect("log"))
            .stderr(file)
            .spawn()
            .expect("start a part");
        let deadline = Instant::now() + PART_TIME_MAX;
        let status = loop {
            if let Some(status) = child.try_wait().expect("wait") {
                break Some(status);
            }
            if Instant::now() > deadline {
                child.kill().expect("kill");
                child.wait().expect("wait");
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let output = std::fs::read_to_string(&log).expect("log");
        Ended {
            success: status.is_some_and(|status| status.success()),
            output,
        }
    }

    /// Runs a part that must succeed.
    pub fn pass(&self, part: &str) {
        let ended = self.run(part);
        assert!(
            ended.success,
            "part {part} of {}:\n{}",
            self.test, ended.output
        );
    }

    /// Runs a full check of an exported pool by the stock `zdb`, including all checksums.
    pub fn zdb_is_content(&self, pool: &str) {
        let output = zdb(self.dir.path(), pool);
        assert!(
            output.status.success(),
            "zdb:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// Runs `body` in its own process.
pub fn isolated(test: &'static str, body: impl FnOnce()) {
    match part() {
        Some(_) => body(),
        None => Parts::of(test).pass("all"),
    }
}

pub fn zdb(dir: &Path, pool: &str) -> Output {
    let path = format!(
        "{}:/usr/sbin:/sbin",
        std::env::var("PATH").unwrap_or_default()
    );
    Command::new("zdb")
        .env("PATH", path)
        .args(["-e", "-p"])
        .arg(dir)
        .args(["-bcc", pool])
        .output()
        .expect("zdb (package zfsutils-linux) is installed")
}

/// Sparse files of 128 MiB in the test's directory.
pub fn disks(names: &[&str]) -> Vec<PathBuf> {
    sized_disks(names, 128 << 20)
}

pub fn sized_disks(names: &[&str], bytes: u64) -> Vec<PathBuf> {
    names
        .iter()
        .map(|name| {
            let path = dir().join(name);
            let file = std::fs::File::create(&path).expect("create");
            file.set_len(bytes).expect("size");
            path
        })
        .collect()
}

pub fn options() -> EngineOptions {
    let mut options = EngineOptions::new(HostId::derive("this machine", "tank"));
    options.arc_bytes_max = units::ByteCount::mib(128);
    options.txg_timeout_s = 1;
    options
}

pub fn engine() -> &'static Engine {
    Engine::start(options()).expect("start the engine")
}

pub fn tank() -> PoolName {
    "tank".parse().expect("a name")
}

pub fn mirror(engine: &'static Engine, devices: &[PathBuf]) -> Pool {
    let spec = PoolSpec::new(tank(), GroupKind::Mirror, devices.to_vec());
    Pool::create(engine, &spec).expect("create a mirror")
}

/// Two pools of one disk each.
pub fn two_pools() -> (Pool, Pool) {
    let engine = engine();
    let make = |name: &str, path: PathBuf| {
        let name = name.parse().expect("a name");
        let spec = PoolSpec::new(name, GroupKind::Stripe, vec![path]);
        let pool = Pool::create(engine, &spec).expect("create");
        pool.complete_root().expect("complete");
        pool
    };
    let [left, right] = disks(&["left", "right"]).try_into().expect("two");
    (make("tank", left), make("vault", right))
}

/// Opens the pool of the test's directory after its owner has died.
pub fn import(engine: &'static Engine) -> Pool {
    let found = discover(&[dir()]).expect("search");
    let candidate = found.first().expect("a pool");
    let proof = same_host_and_locked(engine, candidate).expect("its owner has died");
    Pool::import(engine, candidate, proof, &ImportOptions::default()).expect("import")
}

/// Kills the process as a power loss does.
pub fn kill_oneself() -> ! {
    let _ = kill_process(getpid(), Signal::KILL);
    unreachable!("killed")
}

pub fn export(pool: Pool) {
    pool.export().map_err(|(_, error)| error).expect("export");
}

/// Polls frequently until `done`.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + EVENT_TIME_MAX;
    while !done() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Blocks until the latest scan has finished.
pub fn wait_for_scan(pool: &Pool) -> PoolStatus {
    let mut last = pool.status().expect("status");
    wait_until("scan", || {
        last = pool.status().expect("status");
        last.scan
            .as_ref()
            .is_some_and(|scan| scan.state == ScanState::Finished)
    });
    last
}

/// A scrub of a pool that is online finds nothing to repair.
pub fn scrub_finds_nothing(pool: &Pool) {
    pool.scrub(ScrubCommand::Start).expect("scrub");
    wait_until("the scrub is over", || {
        let scan = wait_for_scan(pool).scan;
        scan.is_some_and(|scan| scan.kind == ScanKind::Scrub)
    });
    let status = pool.status().expect("status");
    assert_eq!(status.state, DeviceState::Online, "{status:#?}");
    let scan = status.scan.clone().expect("a scrub");
    assert_eq!((scan.errors, scan.repaired_bytes), (0, 0), "{status:#?}");
}

/// Writes some megabytes into the pool, through its history of properties.
pub fn write_sample_data(pool: &Pool, rounds: usize) {
    for round in 0..rounds {
        let comment = vec![("comment".to_owned(), format!("round {round}"))];
        pool.set_properties(&comment).expect("set a property");
    }
    pool.sync().expect("sync");
}
