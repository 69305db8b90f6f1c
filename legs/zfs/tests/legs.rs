//! Pools with a record of their legs, on the real library, with files as legs: a failed leg is excluded by the record
//! before a write counts, an excluded leg is never opened alone, and a returning leg is resilvered.

#[path = "../../../engines/zpool/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use block_device::{BlockDevice, Extent, WaitMode};
use engine::Volume as _;
use engine::capabilities::{Datasets, Health, Ownership as _, Upkeep};
use engine::dataset::VolumeSpec;
use engine::pool::{ImportOptions, PoolErrorKind, SafeToOwn, ScrubCommand};
use engine::volume::OpenOptions;
use leg_record::{Action, DiskId};
use leg_zfs::side::{Open, Watched, ZfsSide};
use legs::{BeforeAction, Failure, Inbox, Legs, Members, Options, one_head};
use support::{Parts, dir, disks, mirror, options, part, tank, wait_until};
use units::{ByteCount, VolumeName};
use zpool::device::faults::{Fault, Faults};
use zpool::device::legs::LegFailure;
use zpool::pool::discover;
use zpool::{Engine, Pool, Volume};

/// Longer than the slowest I/O to a file on a busy host.
const RESPONSE_WITHIN: Duration = Duration::from_secs(2);
const BLOCK: u64 = 16 << 10;
/// Blocks that are written before a leg fails, while it does, and after it came back.
const BEFORE: u64 = 30;
const DURING: u64 = 40;
const AFTER: u64 = 10;
/// Bytes that a resilver copies in addition to the data: metadata of the groups.
const EXTRA_COPIED_BYTES_MAX: u64 = 12 << 20;

fn volume_name() -> VolumeName {
    "tank/v".parse().expect("a name")
}

fn place(name: &str) -> PathBuf {
    dir().join(name)
}

/// The pool, its legs by their paths, and the injected faults.
struct Head {
    engine: &'static Engine,
    faults: Faults,
    pool: Arc<Mutex<Option<Pool>>>,
}

impl Head {
    fn start() -> Self {
        let faults = Faults::new();
        let mut options = options();
        options.devices.wrap = Some(faults.wrap());
        Self {
            engine: Engine::start(options).expect("start"),
            faults,
            pool: Arc::default(),
        }
    }

    /// Opens the pool by its record.
    fn open(&self, before_action: Option<BeforeAction>) -> Result<Legs, Failure> {
        let (guid, disks) = known();
        let inbox = Inbox::new();
        let (engine, slot) = (self.engine, Arc::clone(&self.pool));
        let open = move |record| {
            let found = discover(&[dir()]).map_err(|error| error.to_string())?;
            let candidate = found.first().ok_or("no pool is there")?;
            let proof = match SafeToOwn::exported(candidate) {
                Some(proof) => proof,
                None => zpool::pool::same_host_and_locked(engine, candidate)
                    .map_err(|error| error.to_string())?,
            };
            let options = ImportOptions {
                record: Some(record),
                ..ImportOptions::default()
            };
            let pool = Pool::import(engine, candidate, proof, &options);
            let pool = pool.map_err(|error| format!("{error}: {:?}", error.kind))?;
            *slot.lock().expect("no holder panics") = Some(pool);
            Ok(())
        };
        let side = side(guid, disks.clone(), inbox.reporter(), Box::new(open));
        Legs::open(
            with_record(guid, &disks, before_action),
            Arc::new(side),
            inbox,
        )
    }

    fn pool(&self) -> Pool {
        let mut pool = self.pool.lock().expect("no holder panics");
        pool.take().expect("it is open")
    }
}

fn side(
    guid: u64,
    disks: BTreeMap<DiskId, PathBuf>,
    reporter: legs::Reporter,
    open: Open,
) -> Watched {
    let pool = (tank(), guid);
    Watched(Arc::new(ZfsSide::new(
        pool,
        disks,
        RESPONSE_WITHIN,
        reporter,
        open,
    )))
}

fn with_record(
    guid: u64,
    disks: &BTreeMap<DiskId, PathBuf>,
    before_action: Option<BeforeAction>,
) -> Options {
    Options {
        config: one_head(guid, &[(disks.keys().copied().collect(), 1)]),
        members: Members::Own(place("state")),
        before_action,
    }
}

/// The numbers of the pool and of its legs, which the first part wrote to a file.
fn known() -> (u64, BTreeMap<DiskId, PathBuf>) {
    let text = std::fs::read_to_string(place("known")).expect("written");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let mut lines = text.lines();
    let guid = number(lines.next().expect("the pool"));
    let leg = |line: &str| {
        let (disk, name) = line.split_once(' ').expect("a leg");
        (DiskId(number(disk)), place(name))
    };
    (guid, lines.map(leg).collect())
}

fn leg(name: &str) -> DiskId {
    let (_, disks) = known();
    let found = disks.iter().find(|(_, path)| **path == place(name));
    *found.expect("a leg").0
}

/// As the product does: a leg that returns at this time uses the pool.
fn export(pool: Pool) {
    let mut open: Option<Box<dyn engine::Pool>> = Some(Box::new(pool));
    wait_until("the pool is exported", || {
        match open.take().expect("it is open").export() {
            Ok(()) => true,
            Err((pool, error)) => {
                assert_eq!(error.kind, PoolErrorKind::Busy, "{error}");
                open = Some(pool);
                false
            }
        }
    });
}

/// Creates a pool with a record of its two legs.
fn make(head: &Head) {
    let devices = disks(&["a", "b"]);
    let pool = mirror(head.engine, &devices);
    let spec = VolumeSpec::sparse(volume_name(), ByteCount::mib(16));
    pool.create_volume(&spec).expect("create a volume");
    let status = pool.status().expect("status");
    let mut text = format!("{}\n", status.guid);
    for name in ["a", "b"] {
        let path = place(name);
        let found = status.find(path.to_str().expect("UTF-8")).expect("a leg");
        text.push_str(&format!("{} {name}\n", found.guid));
    }
    std::fs::write(place("known"), text).expect("write");
    export(pool);
    let (guid, disks) = known();
    let nothing = Box::new(|_| Err("not to be opened".to_owned()));
    let side = side(guid, disks.clone(), Inbox::new().reporter(), nothing);
    legs::create(&with_record(guid, &disks, None), &side).expect("a record");
}

fn open_volume(pool: &Pool) -> Volume {
    let volume = pool.open_volume(&volume_name(), OpenOptions::default());
    volume.expect("open the volume")
}

/// Writes a block durably, and notes that this was acknowledged.
fn write(volume: &Volume, block: u64) {
    let data = vec![block as u8 + 1; BLOCK as usize];
    let place_of_it = block * BLOCK;
    volume
        .write(place_of_it, &data, WaitMode::MayBlock)
        .expect("write");
    volume.flush().expect("flush");
    let mut acknowledged = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(place("acknowledged"))
        .expect("open");
    writeln!(acknowledged, "{block}").expect("note");
}

fn read(volume: &Volume, block: u64) -> Result<Vec<u8>, block_device::DeviceError> {
    let loan = volume.read(Extent::new(block * BLOCK, BLOCK), WaitMode::MayBlock)?;
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    Ok(parts.concat())
}

fn assert_acknowledged_data_is_readable(volume: &Volume) -> u64 {
    let text = std::fs::read_to_string(place("acknowledged")).unwrap_or_default();
    let mut count = 0;
    for block in text
        .lines()
        .map(|line| line.parse::<u64>().expect("a number"))
    {
        let is_there = read(volume, block).expect("read") == vec![block as u8 + 1; BLOCK as usize];
        assert!(is_there, "block {block} was acknowledged and is lost");
        count += 1;
    }
    count
}

fn kill_oneself() -> ! {
    let own = rustix::process::getpid();
    let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    unreachable!("killed")
}

fn is_current(legs: &Legs, name: &str) -> bool {
    let record = legs.shown().record.expect("committed");
    record.current.contains_key(&leg(name))
}

/// Opens the pool with the available legs, checks all acknowledged writes, and exports it.
fn open_and_inspect() {
    let head = Head::start();
    let legs = head.open(None).expect("it is current");
    let pool = head.pool();
    let volume = open_volume(&pool);
    assert_acknowledged_data_is_readable(&volume);
    volume.close();
    export(pool);
    legs.close();
}

fn refusal() -> String {
    match Head::start().open(None) {
        Err(Failure::Refused(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened without acknowledged writes"),
    }
}

fn hide(parts: &Parts, name: &str) {
    let place = |name: &str| parts.dir().join(name);
    let hidden = place("hidden");
    std::fs::create_dir_all(&hidden).expect("a dir");
    std::fs::rename(place(name), hidden.join(name)).expect("hide");
}

fn show(parts: &Parts, name: &str) {
    let place = |name: &str| parts.dir().join(name);
    std::fs::rename(place("hidden").join(name), place(name)).expect("show");
}

fn pass_killed(parts: &Parts, part: &str) {
    let ended = parts.start(part).wait().expect("wait");
    assert_eq!(ended.signal(), Some(9), "{part} is killed by itself");
}

/// openzfs#14640: a leg is disconnected, writes continue, all processes stop, and that leg alone returns. It is a valid
/// pool without the acknowledged writes.
#[test]
fn stale_leg_returning_alone_is_not_opened() {
    let Some(part) = part() else {
        let parts = Parts::of("stale_leg_returning_alone_is_not_opened");
        parts.pass("make");
        pass_killed(&parts, "write");
        hide(&parts, "a");
        parts.pass("stale");
        show(&parts, "a");
        hide(&parts, "b");
        return parts.pass("newer");
    };
    match part.as_str() {
        "make" => make(&Head::start()),
        "write" => {
            let head = Head::start();
            let legs = head.open(None).expect("open");
            let volume = open_volume(&head.pool());
            (0..BEFORE).for_each(|block| write(&volume, block));
            let gone = Fault {
                gone: true,
                ..Fault::default()
            };
            head.faults.set(&place("b"), gone);
            (BEFORE..BEFORE + DURING).for_each(|block| write(&volume, block));
            assert!(!is_current(&legs, "b"));
            kill_oneself();
        }
        "stale" => {
            let why = refusal();
            let name = |name: &str| place(name).display().to_string();
            let lacks = format!(
                "{} is missing all writes since transaction group",
                name("b")
            );
            assert!(why.contains(&lacks), "{why}");
            assert!(why.contains("; its own newest group is"), "{why}");
            assert!(why.contains(", written 20"), "when: {why}");
            let holds = format!("{} is current", name("a"));
            assert!(why.contains(&holds), "{why}");
        }
        _ => open_and_inspect(),
    }
}

/// A kind of failure of a leg, and whether only reads detect it.
struct FailureKind {
    fault: Fault,
    is_read: bool,
}

/// One leg fails in one way: clients continue, no acknowledged write is lost with the leg or without, and the leg
/// returns with only the missing data copied.
fn leg_fails(test: &'static str, way: FailureKind) {
    let Some(part) = part() else {
        let parts = Parts::of(test);
        parts.pass("make");
        pass_killed(&parts, "fail");
        hide(&parts, "a");
        parts.pass("stale");
        show(&parts, "a");
        hide(&parts, "b");
        parts.pass("newer");
        show(&parts, "b");
        pass_killed(&parts, "return");
        hide(&parts, "a");
        return parts.pass("returned");
    };
    match part.as_str() {
        "make" => make(&Head::start()),
        "fail" => {
            let head = Head::start();
            let legs = head.open(None).expect("open");
            let pool = head.pool();
            let volume = open_volume(&pool);
            (0..BEFORE).for_each(|block| write(&volume, block));
            pool.sync().expect("sync");
            head.faults.set(&place("b"), way.fault);
            if way.is_read {
                wait_until("the leg is out", || {
                    // One is under way, or is begun.
                    let _ = pool.scrub(ScrubCommand::Start);
                    !is_current(&legs, "b")
                });
            }
            (BEFORE..BEFORE + DURING).for_each(|block| write(&volume, block));
            assert!(!is_current(&legs, "b"), "acknowledged writes are missing");
            assert!(legs.shown().awaited.is_empty());
            kill_oneself();
        }
        "stale" => drop(refusal()),
        "return" => {
            let head = Head::start();
            let legs = head.open(None).expect("open");
            let pool = head.pool();
            let volume = open_volume(&pool);
            assert_acknowledged_data_is_readable(&volume);
            wait_until("it is current", || is_current(&legs, "b"));
            let scan = pool.status().expect("status").scan.expect("a resilver");
            let missed = DURING * BLOCK;
            assert!(
                scan.repaired_bytes <= missed + EXTRA_COPIED_BYTES_MAX,
                "{scan:?}"
            );
            assert_eq!(scan.errors, 0);
            let first = BEFORE + DURING;
            (first..first + AFTER).for_each(|block| write(&volume, block));
            kill_oneself();
        }
        _ => open_and_inspect(),
    }
}

macro_rules! leg_failure_tests {
    ($($name:ident: $is_read:expr, $($member:ident: $value:expr),+;)+) => {$(
        #[test]
        fn $name() {
            let fault = Fault { $($member: $value,)+ ..Fault::default() };
            leg_fails(stringify!($name), FailureKind { fault, is_read: $is_read });
        }
    )+};
}

leg_failure_tests! {
    leg_with_failing_writes_is_excluded_before_ack: false, writes_fail: true;
    leg_with_failing_flushes_is_excluded_before_ack: false, flushes_fail: true;
    leg_with_hanging_flushes_is_excluded_before_ack: false, flushes_hang: true;
    hanging_leg_is_excluded_before_ack: false, hangs: true;
    vanished_leg_is_excluded_before_ack: false, gone: true;
    slow_leg_is_excluded_before_ack: false, delay: RESPONSE_WITHIN * 3;
    full_leg_is_excluded_before_ack: false, data_has_no_space: true;
    unreadable_leg_is_excluded_before_ack: true, reads_fail: true;
}

/// Makes all data of a device wrong, except its labels.
fn corrupt_data(path: &std::path::Path) {
    const FRONT: usize = 4 << 20;
    const BACK: usize = 512 << 10;
    let mut data = std::fs::read(path).expect("read");
    let end = data.len() - BACK;
    for block in data[FRONT..end].chunks_mut(4096) {
        if block.iter().any(|byte| *byte != 0) {
            block.iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
    }
    let file = std::fs::OpenOptions::new().write(true).open(path);
    let file = file.expect("open");
    let written = std::os::unix::fs::FileExt::write_all_at(&file, &data[FRONT..end], FRONT as u64);
    written.expect("written");
}

/// Both legs are available. Wrong data does not affect the writes of a leg: it is read from the other leg and repaired,
/// regardless of the amount.
#[test]
fn leg_with_wrong_data_stays_online_and_is_repaired() {
    let Some(part) = part() else {
        let parts = Parts::of("leg_with_wrong_data_stays_online_and_is_repaired");
        parts.pass("make");
        parts.pass("scrub");
        return parts.pass("look");
    };
    match part.as_str() {
        "make" => make(&Head::start()),
        "scrub" => {
            let head = Head::start();
            let legs = head.open(None).expect("open");
            let pool = head.pool();
            let volume = open_volume(&pool);
            (0..BEFORE).for_each(|block| write(&volume, block));
            pool.sync().expect("sync");
            let scrub = || {
                pool.scrub(ScrubCommand::Start).expect("begun");
                wait_until("the scrub ends", || {
                    let scan = pool.status().expect("status").scan;
                    scan.is_some_and(|scan| scan.state == engine::pool::ScanState::Finished)
                });
                pool.status().expect("status").scan.expect("a scrub")
            };
            corrupt_data(&place("b"));
            let repaired = scrub();
            assert_eq!(repaired.errors, 0, "the other one has all of it");
            assert!(repaired.repaired_bytes > 0, "{repaired:?}");
            assert!(is_current(&legs, "b"));
            assert_eq!(scrub().repaired_bytes, 0);
            (BEFORE..BEFORE + AFTER).for_each(|block| write(&volume, block));
            assert!(is_current(&legs, "a") && is_current(&legs, "b"));
            volume.close();
            export(pool);
            legs.close();
        }
        _ => open_and_inspect(),
    }
}

/// The other leg is missing. Unreadable or wrong data is an error of those blocks: the server and its writes continue.
#[test]
fn damage_on_last_leg_fails_only_its_blocks() {
    let Some(part) = part() else {
        let parts = Parts::of("damage_on_last_leg_fails_only_its_blocks");
        parts.pass("make");
        pass_killed(&parts, "part");
        hide(&parts, "b");
        parts.pass("wrong");
        parts.pass("unreadable");
        show(&parts, "b");
        return parts.pass("look");
    };
    match part.as_str() {
        "make" => make(&Head::start()),
        "part" => {
            let head = Head::start();
            let legs = head.open(None).expect("open");
            let pool = head.pool();
            let volume = open_volume(&pool);
            (0..BEFORE).for_each(|block| write(&volume, block));
            pool.sync().expect("sync");
            let gone = Fault {
                gone: true,
                ..Fault::default()
            };
            head.faults.set(&place("b"), gone);
            write(&volume, BEFORE);
            assert!(!is_current(&legs, "b"));
            pool.sync().expect("sync");
            kill_oneself();
        }
        // A process each: nothing is cached.
        "wrong" | "unreadable" => {
            let head = Head::start();
            let legs = head.open(None).expect("open");
            let pool = head.pool();
            let volume = open_volume(&pool);
            let is_wrong = part == "wrong";
            let damage = Fault {
                reads_corrupt: is_wrong,
                data_reads_fail: !is_wrong,
                ..Fault::default()
            };
            head.faults.set(&place("a"), damage);
            assert!((0..BEFORE).all(|block| read(&volume, block).is_err()));
            head.faults.lift(&place("a"));
            let next = BEFORE + if is_wrong { 1 } else { 2 };
            write(&volume, next);
            assert!(is_current(&legs, "a"));
            // The library considers the whole leg dead, but no write failed.
            zpool::device::legs::fail(leg("a").0, LegFailure::Unusable);
            legs.wait(|shown| shown.last.is_some());
            write(&volume, next + 10);
            legs.wait(|shown| shown.last.is_none());
            assert_acknowledged_data_is_readable(&volume);
            volume.close();
            export(pool);
            legs.close();
        }
        _ => open_and_inspect(),
    }
}

/// One label of four is enough to identify a disk.
#[test]
fn leg_with_damaged_first_label_returns() {
    let Some(part) = part() else {
        let parts = Parts::of("leg_with_damaged_first_label_returns");
        parts.pass("make");
        pass_killed(&parts, "fail");
        parts.pass("return");
        hide(&parts, "a");
        return parts.pass("look");
    };
    match part.as_str() {
        "make" => make(&Head::start()),
        "fail" => {
            let head = Head::start();
            let legs = head.open(None).expect("open");
            let pool = head.pool();
            let volume = open_volume(&pool);
            let gone = Fault {
                gone: true,
                ..Fault::default()
            };
            head.faults.set(&place("b"), gone);
            (0..BEFORE).for_each(|block| write(&volume, block));
            assert!(!is_current(&legs, "b"));
            let file = std::fs::OpenOptions::new().write(true).open(place("b"));
            let file = file.expect("open");
            std::os::unix::fs::FileExt::write_all_at(&file, &[0xa5; 112 << 10], 16 << 10)
                .expect("damaged");
            kill_oneself();
        }
        "return" => {
            let head = Head::start();
            let legs = head.open(None).expect("open");
            let pool = head.pool();
            wait_until("it is current", || is_current(&legs, "b"));
            export(pool);
            legs.close();
        }
        _ => open_and_inspect(),
    }
}

/// Both legs fail: no write is acknowledged, and the pool reports that it is blocked.
#[test]
fn writes_block_without_current_leg_and_it_is_reported() {
    let Some(part) = part() else {
        let test = "writes_block_without_current_leg_and_it_is_reported";
        let parts = Parts::of(test);
        parts.pass("make");
        let ended = parts.start("fail").wait().expect("wait");
        assert_eq!(ended.code(), Some(zpool::device::EXIT_OWNERSHIP_LOST));
        return parts.pass("again");
    };
    match part.as_str() {
        "make" => make(&Head::start()),
        "fail" => {
            let head = Head::start();
            let legs = head.open(None).expect("open");
            let pool = head.pool();
            let volume = open_volume(&pool);
            (0..BEFORE).for_each(|block| write(&volume, block));
            let hangs = Fault {
                hangs: true,
                ..Fault::default()
            };
            head.faults.set(&place("a"), hangs);
            head.faults.set(&place("b"), hangs);
            std::thread::scope(|scope| {
                scope.spawn(|| write(&volume, BEFORE));
                // The leg that failed first is excluded.
                let is_alone = |shown: &legs::PublishedState| {
                    let record = shown.record.as_ref();
                    record.is_some_and(|record| record.current.len() == 1)
                };
                legs.wait(|shown| shown.last.is_some() && is_alone(shown));
                wait_until("the pool is suspended", || {
                    pool.health()
                        .is_some_and(|health| health.suspended.is_some())
                });
                let text = std::fs::read_to_string(place("acknowledged")).expect("read");
                assert_eq!(text.lines().count() as u64, BEFORE, "it is on no leg");
                head.faults.lift(&place("a"));
                head.faults.lift(&place("b"));
            });
            panic!("the process terminates before any response");
        }
        _ => open_and_inspect(),
    }
}

/// The process is killed before each action, in a run with a leg that fails and returns.
#[test]
fn crash_before_any_action_loses_no_acknowledged_write() {
    let test = "crash_before_any_action_loses_no_acknowledged_write";
    let Some(part) = part() else {
        let mut last = 0;
        for action in 1.. {
            let parts = Parts::of(test);
            parts.pass("make");
            let ended = parts.start(&format!("live {action}")).wait().expect("wait");
            parts.pass("look");
            if ended.signal() != Some(9) {
                assert!(ended.success(), "{ended:?}");
                last = action;
                break;
            }
        }
        assert!(last > 20, "a life has {last} actions");
        return;
    };
    match part.split_once(' ') {
        None if part == "make" => make(&Head::start()),
        None => open_and_inspect(),
        Some((_, deadly)) => live(deadly.parse().expect("a number")),
    }
}

fn live(deadly: u64) {
    let head = Head::start();
    let count = AtomicU64::new(0);
    let before = move |_: &Action| {
        if count.fetch_add(1, Ordering::AcqRel) + 1 == deadly {
            kill_oneself();
        }
    };
    let legs = head.open(Some(Box::new(before))).expect("open");
    let pool = head.pool();
    let volume = open_volume(&pool);
    (0..3).for_each(|block| write(&volume, block));
    let fails = Fault {
        writes_fail: true,
        ..Fault::default()
    };
    head.faults.set(&place("b"), fails);
    (3..6).for_each(|block| write(&volume, block));
    head.faults.lift(&place("b"));
    wait_until("it is current", || is_current(&legs, "b"));
    head.faults.set(&place("a"), fails);
    (6..9).for_each(|block| write(&volume, block));
    head.faults.lift(&place("a"));
    wait_until("it is current", || is_current(&legs, "a"));
    volume.close();
    export(pool);
    legs.close();
}

fn copy(parts: &Parts, from: &str, to: &str) {
    let place = |name: &str| parts.dir().join(name);
    let mut cp = std::process::Command::new("cp");
    cp.arg("--sparse=always").args([place(from), place(to)]);
    assert!(cp.status().expect("cp").success());
}

/// A storage array or an administrator copied a leg: while it was in use, after its head was killed, and after the pool
/// was exported. The copies are in the search path of pools, and one of them replaces the leg.
#[test]
fn copies_of_leg_lose_no_acknowledged_write() {
    let Some(part) = part() else {
        let test = "copies_of_leg_lose_no_acknowledged_write";
        let parts = Parts::of(test);
        parts.pass("make");
        pass_killed(&parts, "write");
        copy(&parts, "a", "0.killed");
        parts.pass("look");
        copy(&parts, "a", "0.exported");
        pass_killed(&parts, "more");
        parts.pass("look");
        hide(&parts, "b");
        copy(&parts, "0.older", "a");
        parts.pass("older");
        show(&parts, "b");
        parts.pass("unclear");
        for name in ["0.killed", "0.exported", "0.older"] {
            hide(&parts, name);
        }
        return parts.pass("whole");
    };
    match part.as_str() {
        "make" => make(&Head::start()),
        "write" => {
            let head = Head::start();
            let _legs = head.open(None).expect("open");
            let pool = head.pool();
            let volume = open_volume(&pool);
            (0..BEFORE).for_each(|block| write(&volume, block));
            pool.sync().expect("sync");
            std::fs::copy(place("a"), place("0.older")).expect("copied");
            (BEFORE..BEFORE + DURING).for_each(|block| write(&volume, block));
            kill_oneself();
        }
        "more" => {
            let head = Head::start();
            let _legs = head.open(None).expect("open");
            let volume = open_volume(&head.pool());
            assert_acknowledged_data_is_readable(&volume);
            let first = BEFORE + DURING;
            (first..first + AFTER).for_each(|block| write(&volume, block));
            kill_oneself();
        }
        "older" => {
            let why = refusal();
            let other = place("b").display().to_string();
            let expected = format!("{other} is current, and cannot be reached");
            assert!(why.contains(&expected), "{why}");
            let own = place("a").display().to_string();
            assert!(why.contains(&own), "{why}");
        }
        "look" => {
            let head = Head::start();
            let legs = head.open(None).expect("it is current");
            let pool = head.pool();
            let volume = open_volume(&pool);
            assert_acknowledged_data_is_readable(&volume);
            assert!(is_current(&legs, "a") && is_current(&legs, "b"));
            volume.close();
            export(pool);
            legs.close();
        }
        "unclear" => {
            let Err(failure) = Head::start().open(None) else {
                panic!("an older image and newer copies of it");
            };
            let why = failure.to_string();
            for name in ["a", "0.exported"] {
                let name = place(name).display().to_string();
                assert!(why.contains(&format!("{name:?}")), "{name}: {why}");
            }
        }
        // From the current leg.
        _ => {
            let head = Head::start();
            let legs = head.open(None).expect("open");
            let pool = head.pool();
            let volume = open_volume(&pool);
            assert_acknowledged_data_is_readable(&volume);
            // The record does not contain the stamp on it: without a confirmation it is not overwritten.
            let record = legs.shown().record.expect("committed");
            assert!(record.divergent.contains(&leg("a")), "{record:?}");
            volume.close();
            export(pool);
            legs.close();
        }
    }
}
