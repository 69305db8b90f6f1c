//! A failed write of a log block. A replay stops there, so no commit of a later record may be acknowledged before the
//! transaction groups contain it.

mod support;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread::Scope;
use std::time::Duration;

use block_device::{BlockDevice, Extent, WaitMode};
use engine::Volume as _;
use engine::capabilities::{Datasets, Ownership};
use engine::dataset::VolumeSpec;
use engine::pool::{GroupKind, GroupRole, GroupSpec, PoolSpec};
use engine::volume::OpenOptions;
use support::{Parts, dir, disks, export, import, kill_oneself, options, part, tank, wait_until};
use units::{ByteCount, VolumeName};
use zpool::device::faults::{Fault, Faults};
use zpool::{Engine, Pool, Volume};

const BLOCK: u64 = 4096;
/// No device of the test fails by being slow.
const DEADLINE: Duration = Duration::from_secs(120);
/// A commit with a working log is faster.
const COMMIT: Duration = Duration::from_secs(2);
/// In the directory of the test: notes that the write after the gap was acknowledged.
const CONFIRMED: &str = "confirmed";

fn engine(faults: &Faults) -> &'static Engine {
    let mut options = options();
    options.devices.timeout = DEADLINE;
    options.devices.wrap = Some(faults.wrap());
    Engine::start(options).expect("start")
}

/// A pool with a log device, so that groups can stall while the log continues.
fn create(engine: &'static Engine) -> (Pool, PathBuf, PathBuf) {
    let [data, log] = disks(&["data", "log"]).try_into().expect("two");
    let mut spec = PoolSpec::new(tank(), GroupKind::Stripe, vec![data.clone()]);
    spec.groups.push(GroupSpec {
        kind: GroupKind::Stripe,
        role: GroupRole::Log,
        devices: vec![log.clone()],
    });
    (Pool::create(engine, &spec).expect("create"), data, log)
}

fn name() -> VolumeName {
    "tank/v".parse().expect("a name")
}

fn open(pool: &Pool) -> Volume {
    pool.open_volume(&name(), OpenOptions::default())
        .expect("open the volume")
}

fn image(block: u64) -> Vec<u8> {
    vec![block as u8 + 1; BLOCK as usize]
}

fn write(volume: &Volume, block: u64) {
    volume
        .write(block * BLOCK, &image(block), WaitMode::MayBlock)
        .expect("write");
}

fn shows(volume: &Volume, block: u64) -> bool {
    let loan = volume.read(Extent::new(block * BLOCK, BLOCK), WaitMode::MayBlock);
    let loan = loan.expect("read");
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    parts.concat() == image(block)
}

fn flush<'scope>(scope: &'scope Scope<'scope, '_>, volume: &'scope Volume) -> Receiver<()> {
    let (sender, receiver) = channel();
    scope.spawn(move || {
        volume.flush().expect("flush");
        // The test may have continued.
        let _ = sender.send(());
    });
    receiver
}

/// Breaks the log at block 1, and writes block 2 after the gap; terminates when it is acknowledged.
fn write_behind_a_gap() -> ! {
    let faults = Faults::new();
    let (pool, data, log) = create(engine(&faults));
    let spec = VolumeSpec::sparse(name(), ByteCount::mib(16));
    pool.create_volume(&spec).expect("create a volume");
    let volume = open(&pool);
    write(&volume, 0);
    volume.flush().expect("flush");
    pool.sync().expect("sync");
    write(&volume, 0);
    volume.flush().expect("flush");

    let hangs = Fault {
        hangs: true,
        ..Fault::default()
    };
    let no_space = Fault {
        data_has_no_space: true,
        ..Fault::default()
    };
    faults.set(&data, hangs);
    faults.set(&log, no_space);
    std::thread::scope(|scope| {
        write(&volume, 1);
        let first = flush(scope, &volume);
        // The library tries twice.
        wait_until("the log fails", || faults.steps(&log) >= 2);
        assert!(first.recv_timeout(COMMIT).is_err(), "durable nowhere");
        faults.lift(&log);
        write(&volume, 2);
        let second = flush(scope, &volume);
        if second.recv_timeout(COMMIT).is_ok() {
            std::fs::write(dir().join(CONFIRMED), "").expect("write");
            kill_oneself();
        }
        faults.lift(&data);
        first.recv().expect("the groups hold it");
        second.recv().expect("the groups hold it");
        write(&volume, 3);
        volume.flush().expect("flush");
        kill_oneself();
    })
}

#[test]
fn records_after_a_log_gap_are_replayed_if_synced() {
    match part().as_deref() {
        None => {
            let parts = Parts::of("records_after_a_log_gap_are_replayed_if_synced");
            assert!(!parts.run("write").success, "it kills itself");
            parts.pass("read");
            parts.zdb_is_content("tank");
        }
        Some("write") => write_behind_a_gap(),
        Some(_) => {
            let engine = engine(&Faults::new());
            let pool = import(engine);
            let volume = open(&pool);
            let told = if dir().join(CONFIRMED).exists() { 2 } else { 3 };
            for block in 0..=told {
                assert!(shows(&volume, block), "block {block} of {told} is lost");
            }
            volume.close();
            export(pool);
        }
    }
}
