//! Devices that fail, or do not respond, when writes must become durable. A write must not be acknowledged before it is
//! durable, nor before the record excludes the devices without it.

mod support;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use block_device::{BlockDevice, Extent, WaitMode};
use engine::Volume as _;
use engine::capabilities::{Datasets, Devices, Health, Ownership, Upkeep};
use engine::dataset::VolumeSpec;
use engine::pool::{DeviceState, GroupKind, PoolSpec, ScanKind, ScanState};
use engine::volume::OpenOptions;
use rustix::io::Errno;
use support::{
    Parts, dir, disks, export, import, isolated, kill_oneself, mirror, options, part,
    scrub_finds_nothing, tank, wait_for_scan, wait_until, write_sample_data,
};
use units::{ByteCount, VolumeName};
use zpool::device::faults::{Fault, Faults};
use zpool::device::{
    Access, CompletionThread, Device, DeviceIo, Driver, EXIT_OWNERSHIP_LOST, IoKind, OpenFailure,
    Shape, Wrap, open_failure,
};
use zpool::{Engine, Pool, Volume};

/// More than a disk of a busy host needs for a request.
const DEADLINE: Duration = Duration::from_secs(2);
const BLOCK: u64 = 16 << 10;
/// Blocks that are written while a device fails.
const BLOCKS: u64 = 40;

fn engine(wrap: Wrap) -> &'static Engine {
    let mut options = options();
    options.devices.timeout = DEADLINE;
    options.devices.wrap = Some(wrap);
    Engine::start(options).expect("start")
}

fn volume_name() -> VolumeName {
    "tank/v".parse().expect("a name")
}

fn make_volume(pool: &Pool) -> Volume {
    let spec = VolumeSpec::sparse(volume_name(), ByteCount::mib(16));
    pool.create_volume(&spec).expect("create a volume");
    open(pool)
}

fn open(pool: &Pool) -> Volume {
    pool.open_volume(&volume_name(), OpenOptions::default())
        .expect("open the volume")
}

fn write(volume: &Volume, block: u64) {
    let data = vec![block as u8 + 1; BLOCK as usize];
    volume
        .write(block * BLOCK, &data, WaitMode::MayBlock)
        .expect("write");
}

fn shows(volume: &Volume, block: u64) -> bool {
    let loan = volume.read(Extent::new(block * BLOCK, BLOCK), WaitMode::MayBlock);
    let loan = loan.expect("read");
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    parts.concat() == vec![block as u8 + 1; BLOCK as usize]
}

fn single(engine: &'static Engine, device: &Path) -> Pool {
    let spec = PoolSpec::new(tank(), GroupKind::Stripe, vec![device.to_owned()]);
    Pool::create(engine, &spec).expect("create")
}

fn state_of(pool: &Pool, device: &Path) -> DeviceState {
    let status = pool.status().expect("status");
    let name = device.to_str().expect("UTF-8");
    status.find(name).expect("known device").state
}

fn is_suspended(pool: &Pool) -> bool {
    let health = pool.health();
    health.is_some_and(|health| health.suspended.is_some())
}

/// Writes and flushes on a thread of its own; receives when the flush has returned.
fn write_durably<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    volume: &'scope Volume,
) -> Receiver<bool> {
    let (sender, receiver) = channel();
    scope.spawn(move || {
        write(volume, 0);
        let _ = sender.send(volume.flush().is_ok());
    });
    receiver
}

/// While one leg fails flushes, writes are durable on the other one alone. A leg that lost all data since its last
/// flush is known to miss it, however early the process dies.
fn leg_fails_flushes(test: &'static str, fault: Fault) {
    match part().as_deref() {
        None => {
            let parts = Parts::of(test);
            let mut writer = parts.start("write");
            let ended = writer.wait().expect("wait");
            assert_eq!(ended.signal(), Some(9), "it kills itself");
            let place = |name: &str| parts.dir().join(name);
            let labels = std::process::Command::new("/usr/sbin/zdb")
                .args(["-l", place("b").to_str().expect("UTF-8")])
                .output()
                .expect("zdb");
            let labels = String::from_utf8_lossy(&labels.stdout).into_owned();
            assert!(labels.contains("faulted: 1"), "{labels}");
            std::fs::rename(place("a.before"), place("a")).expect("power is lost");
            parts.pass("return");
            parts.zdb_is_content("tank");
        }
        Some("write") => {
            let faults = Faults::new();
            let engine = engine(faults.wrap());
            let devices = disks(&["a", "b"]);
            let pool = mirror(engine, &devices);
            let volume = make_volume(&pool);
            write(&volume, 0);
            volume.flush().expect("flush");
            faults.set(&devices[0], fault);
            // This copy misses all later flushes.
            std::fs::copy(&devices[0], dir().join("copy")).expect("copy");
            for block in 1..BLOCKS {
                write(&volume, block);
                volume.flush().expect("flush");
            }
            std::fs::rename(dir().join("copy"), dir().join("a.before")).expect("rename");
            let healthy = [DeviceState::Online, DeviceState::Degraded];
            assert!(!healthy.contains(&state_of(&pool, &devices[0])));
            assert_eq!(state_of(&pool, &devices[1]), DeviceState::Online);
            assert!(!is_suspended(&pool));
            kill_oneself();
        }
        Some(_) => {
            let engine = engine(Faults::new().wrap());
            let pool = import(engine);
            let volume = open(&pool);
            assert!((0..BLOCKS).all(|block| shows(&volume, block)));
            wait_for_scan(&pool);
            pool.sync().expect("sync");
            scrub_finds_nothing(&pool);
            volume.close();
            export(pool);
        }
    }
}

#[test]
fn leg_with_hung_flush_is_recorded_before_a_write_is_acked() {
    let fault = Fault {
        flushes_hang: true,
        ..Fault::default()
    };
    leg_fails_flushes(
        "leg_with_hung_flush_is_recorded_before_a_write_is_acked",
        fault,
    );
}

#[test]
fn leg_with_failed_flush_is_recorded_before_a_write_is_acked() {
    let fault = Fault {
        flushes_fail: true,
        ..Fault::default()
    };
    leg_fails_flushes(
        "leg_with_failed_flush_is_recorded_before_a_write_is_acked",
        fault,
    );
}

/// The record of a leg is deferred until the import is over, because the library counts the pool's holders then.
#[test]
fn flush_failure_during_import_does_not_abort() {
    let test = "flush_failure_during_import_does_not_abort";
    match part().as_deref() {
        None => {
            let parts = Parts::of(test);
            let ended = parts.start("write").wait().expect("wait");
            assert_eq!(ended.signal(), Some(9), "it kills itself");
            parts.pass("import");
            parts.zdb_is_content("tank");
        }
        Some("write") => {
            let engine = engine(Faults::new().wrap());
            let pool = mirror(engine, &disks(&["a", "b"]));
            let volume = make_volume(&pool);
            write(&volume, 0);
            volume.flush().expect("flush");
            kill_oneself();
        }
        Some(_) => {
            let faults = Faults::new();
            let engine = engine(faults.wrap());
            let place = |name: &str| dir().join(name);
            let flushes_fail = Fault {
                flushes_fail: true,
                ..Fault::default()
            };
            // The record is slower than the rest of the import.
            let slow = Fault {
                delay: Duration::from_millis(30),
                ..Fault::default()
            };
            faults.set(&place("a"), flushes_fail);
            faults.set(&place("b"), slow);
            let pool = import(engine);
            faults.lift(&place("b"));
            wait_until("it is on record", || {
                state_of(&pool, &place("a")) == DeviceState::Faulted
            });
            assert!(shows(&open(&pool), 0));
            export(pool);
        }
    }
}

#[test]
fn leg_with_failed_flush_is_reopened_by_online() {
    isolated("leg_with_failed_flush_is_reopened_by_online", || {
        let faults = Faults::new();
        let engine = engine(faults.wrap());
        let devices = disks(&["a", "b"]);
        let pool = mirror(engine, &devices);
        let flushes_fail = true;
        faults.set(
            &devices[0],
            Fault {
                flushes_fail,
                ..Fault::default()
            },
        );
        wait_until("the leg is given up", || {
            write_sample_data(&pool, 1);
            state_of(&pool, &devices[0]) == DeviceState::Faulted
        });
        faults.lift(&devices[0]);
        let name = devices[0].to_str().expect("UTF-8");
        let state = pool.online(name, false).expect("online");
        assert_eq!(state, DeviceState::Online);
        wait_for_scan(&pool);
        write_sample_data(&pool, 1);
        export(pool);
    });
}

/// A pool of `kind` with `replaced` of its devices in replacement, and all new devices fail a flush: the pool continues
/// without these at once, and writes are durable on the old ones.
fn new_disks_fail_flushes(test: &'static str, kind: GroupKind, old: &[&str], replaced: usize) {
    isolated(test, || {
        let faults = Faults::new();
        let engine = engine(faults.wrap());
        let devices = disks(old);
        let new: Vec<PathBuf> = disks(&["new0", "new1"][..replaced]);
        let pool = Pool::create(engine, &PoolSpec::new(tank(), kind, devices.clone()));
        let pool = pool.expect("create");
        let volume = make_volume(&pool);
        (0..BLOCKS).for_each(|block| write(&volume, block));
        volume.flush().expect("flush");
        // From the first flush on: a replacement of so little data completes quickly.
        let flushes_fail = Fault {
            flushes_fail: true,
            ..Fault::default()
        };
        faults.set_together(new.iter().map(|path| (path.clone(), flushes_fail)));
        for (old, new) in devices.iter().zip(&new) {
            let name = old.to_str().expect("UTF-8");
            pool.replace(name, new, false).expect("replace");
        }
        std::thread::scope(|scope| {
            let answered = write_durably(scope, &volume);
            assert_eq!(answered.recv_timeout(support::EVENT_TIME_MAX), Ok(true));
        });
        assert!(!is_suspended(&pool));
        wait_until("the new disks are on record", || {
            let health = pool.health().expect("health");
            health.unrecorded.is_none()
                && new
                    .iter()
                    .all(|path| state_of(&pool, path) == DeviceState::Faulted)
        });
        assert!(
            devices
                .iter()
                .all(|path| state_of(&pool, path) == DeviceState::Online)
        );
        // The group that would begin the resilver comes after the disks have failed.
        (0..4).for_each(|_| pool.sync().expect("sync"));
        let scan = || pool.status().expect("status").scan;
        let is_running = || scan().is_some_and(|scan| scan.state == ScanState::Running);
        wait_until("no scan runs", || !is_running());
        let is_scrub = scan().is_some_and(|scan| scan.kind == ScanKind::Scrub);
        assert!(!is_scrub, "no scrub was requested: {:?}", scan());
        for path in &new {
            pool.detach(path.to_str().expect("UTF-8")).expect("detach");
        }
        write(&volume, 1);
        volume.flush().expect("flush");
        assert!((0..BLOCKS).all(|block| shows(&volume, block)));
        wait_until("no scan runs", || !is_running());
        scrub_finds_nothing(&pool);
        volume.close();
        export(pool);
    });
}

#[test]
fn failed_flush_of_replacing_disk_gives_it_up() {
    new_disks_fail_flushes(
        "failed_flush_of_replacing_disk_gives_it_up",
        GroupKind::Stripe,
        &["a"],
        1,
    );
}

#[test]
fn failed_flushes_of_two_replacing_mirror_disks_give_them_up() {
    new_disks_fail_flushes(
        "failed_flushes_of_two_replacing_mirror_disks_give_them_up",
        GroupKind::Mirror,
        &["a", "b"],
        2,
    );
}

#[test]
fn failed_flushes_of_two_replacing_raidz1_disks_give_them_up() {
    new_disks_fail_flushes(
        "failed_flushes_of_two_replacing_raidz1_disks_give_them_up",
        GroupKind::Raidz1,
        &["a", "b", "c"],
        2,
    );
}

/// The only device: its flushes can only be waited for.
#[test]
fn flush_of_the_only_device_blocks_while_it_hangs() {
    isolated("flush_of_the_only_device_blocks_while_it_hangs", || {
        let faults = Faults::new();
        let engine = engine(faults.wrap());
        let device = &disks(&["a"])[0];
        let pool = single(engine, device);
        let volume = make_volume(&pool);
        volume.flush().expect("flush");
        let flushes_hang = true;
        faults.set(
            device,
            Fault {
                flushes_hang,
                ..Fault::default()
            },
        );
        std::thread::scope(|scope| {
            let answered = write_durably(scope, &volume);
            wait_until("the deadline has passed", || is_suspended(&pool));
            assert!(answered.try_recv().is_err(), "it is not durable");
            faults.lift(device);
            assert_eq!(answered.recv_timeout(support::EVENT_TIME_MAX), Ok(true));
        });
        wait_until("the pool resumes", || !is_suspended(&pool));
        assert_eq!(state_of(&pool, device), DeviceState::Online);
        write_sample_data(&pool, 1);
        volume.close();
        export(pool);
    });
}

/// After an error the contents of the device are unknown, and a later flush proves nothing.
#[test]
fn failed_flush_of_only_device_is_not_acked_and_persists() {
    const TEST: &str = "failed_flush_of_only_device_is_not_acked_and_persists";
    let Some(part) = part() else {
        let parts = Parts::of(TEST);
        let mut first = parts.start("first");
        let ended = first.wait().expect("wait");
        assert_eq!(ended.code(), Some(EXIT_OWNERSHIP_LOST));
        parts.pass("second");
        return parts.zdb_is_content("tank");
    };
    let faults = Faults::new();
    let engine = engine(faults.wrap());
    if part == "second" {
        let pool = import(engine);
        let volume = open(&pool);
        assert!(shows(&volume, 1));
        volume.close();
        return export(pool);
    }
    let device = &disks(&["a"])[0];
    let pool = single(engine, device);
    let volume = make_volume(&pool);
    write(&volume, 1);
    volume.flush().expect("flush");
    let flushes_fail = true;
    faults.set(
        device,
        Fault {
            flushes_fail,
            ..Fault::default()
        },
    );
    std::thread::scope(|scope| {
        let answered = write_durably(scope, &volume);
        wait_until("the pool is suspended", || is_suspended(&pool));
        faults.lift(device);
        let said = answered.recv_timeout(support::EVENT_TIME_MAX);
        panic!("the process terminates before any reply: {said:?}");
    });
}

/// A device between the library and its driver with faults of its own.
#[derive(Default)]
struct Gate {
    /// Flushes fail with `ENXIO`.
    flushes_miss: AtomicBool,
    /// Writes are held from now on.
    keeps: AtomicBool,
    kept: Mutex<Vec<(Arc<dyn Device>, DeviceIo)>>,
}

impl Gate {
    fn wrap(self: &Arc<Self>, path: &Path) -> Wrap {
        let (gate, path) = (Arc::clone(self), path.to_owned());
        Arc::new(move |inner| {
            let (gate, path) = (Arc::clone(&gate), path.clone());
            Arc::new(GateDriver { gate, path, inner })
        })
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(Arc<dyn Device>, DeviceIo)>> {
        self.kept.lock().expect("no holder panics")
    }
}

struct GateDriver {
    gate: Arc<Gate>,
    path: PathBuf,
    inner: Arc<dyn Driver>,
}

impl Driver for GateDriver {
    fn open(&self, path: &Path, guid: u64, access: Access) -> Result<Arc<dyn Device>, OpenFailure> {
        let inner = self.inner.open(path, guid, access)?;
        if path != self.path {
            return Ok(inner);
        }
        let gate = Arc::clone(&self.gate);
        Ok(Arc::new(GateDevice { gate, inner }))
    }
}

struct GateDevice {
    gate: Arc<Gate>,
    inner: Arc<dyn Device>,
}

impl Device for GateDevice {
    fn shape(&self) -> Result<Shape, OpenFailure> {
        self.inner.shape()
    }

    fn submit(&self, io: DeviceIo) {
        let is = |switch: &AtomicBool| switch.load(Ordering::Acquire);
        match io.kind() {
            IoKind::Flush if is(&self.gate.flushes_miss) => {
                io.complete(Err(Errno::NXIO), CompletionThread::Elsewhere);
            }
            IoKind::Write if is(&self.gate.keeps) => {
                self.gate.kept().push((Arc::clone(&self.inner), io));
            }
            _ => self.inner.submit(io),
        }
    }
}

#[test]
fn flush_without_device_is_repeated_when_it_returns() {
    isolated("flush_without_device_is_repeated_when_it_returns", || {
        let path = dir().join("a");
        let gate = Arc::new(Gate::default());
        let engine = engine(gate.wrap(&path));
        let device = &disks(&["a"])[0];
        let pool = single(engine, device);
        let volume = make_volume(&pool);
        volume.flush().expect("flush");
        gate.flushes_miss.store(true, Ordering::Release);
        std::thread::scope(|scope| {
            let answered = write_durably(scope, &volume);
            wait_until("the pool is suspended", || is_suspended(&pool));
            assert!(answered.try_recv().is_err(), "it is not durable");
            gate.flushes_miss.store(false, Ordering::Release);
            assert_eq!(answered.recv_timeout(support::EVENT_TIME_MAX), Ok(true));
        });
        wait_until("the pool resumes", || !is_suspended(&pool));
        volume.close();
        export(pool);
    });
}

/// A request from before it was given up would overwrite later ones.
#[test]
fn device_with_outstanding_request_is_not_reopened() {
    const TEST: &str = "device_with_outstanding_request_is_not_reopened";
    if part().is_none() {
        let parts = Parts::of(TEST);
        parts.pass("all");
        return parts.zdb_is_content("tank");
    }
    let path = dir().join("a");
    let gate = Arc::new(Gate::default());
    let engine = engine(gate.wrap(&path));
    let devices = disks(&["a", "b"]);
    let name = devices[0].to_str().expect("UTF-8");
    let pool = mirror(engine, &devices);
    gate.keeps.store(true, Ordering::Release);
    wait_until("the leg is given up", || {
        write_sample_data(&pool, 1);
        !matches!(
            state_of(&pool, &devices[0]),
            DeviceState::Online | DeviceState::Degraded
        )
    });
    // From now on it responds, except to earlier requests.
    gate.keeps.store(false, Ordering::Release);
    assert!(!gate.kept().is_empty());
    wait_until("it is looked for again", || {
        pool.clear(Some(name)).expect("clear");
        open_failure(&devices[0]) == Some(OpenFailure::Hangs)
    });
    assert_ne!(state_of(&pool, &devices[0]), DeviceState::Online);
    for (device, io) in std::mem::take(&mut *gate.kept()) {
        device.submit(io);
    }
    wait_until("it is back", || {
        pool.clear(Some(name)).expect("clear");
        state_of(&pool, &devices[0]) == DeviceState::Online
    });
    wait_for_scan(&pool);
    export(pool);
}
