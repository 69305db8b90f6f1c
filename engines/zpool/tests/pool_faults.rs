//! Devices that fail, hang, return wrong data and recover, by injected faults.

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use engine::capabilities::{Devices, Health, Ownership, PoolProperties, Upkeep};
use engine::pool::{
    DeviceState, GroupKind, PoolErrorKind, PoolSpec, Resumption, ScanState, ScrubCommand,
    Suspension,
};
use support::{
    Parts, disks, export, isolated, mirror, options, part, tank, wait_for_scan, wait_until,
    write_sample_data,
};
use zpool::device::faults::{Fault, Faults};
use zpool::{Engine, Pool};

/// More than a disk of a busy host needs for a request.
const DEADLINE: Duration = Duration::from_secs(4);

/// An engine with fault injection.
fn faulty_engine() -> (&'static Engine, Faults) {
    let faults = Faults::new();
    let mut options = options();
    options.devices.timeout = DEADLINE;
    options.devices.wrap = Some(faults.wrap());
    (Engine::start(options).expect("start"), faults)
}

fn state_of(pool: &Pool, device: &Path) -> DeviceState {
    let status = pool.status().expect("status");
    let name = device.to_str().expect("UTF-8");
    status.find(name).expect("known device").state
}

fn fails(state: DeviceState) -> bool {
    matches!(
        state,
        DeviceState::Faulted | DeviceState::Unavailable | DeviceState::Degraded
    )
}

/// Brings a device back and blocks until it has all data again. A device with pending I/O is not opened: the pool is
/// cleared again.
fn bring_back(pool: &Pool, device: &Path) {
    wait_until("the device is online", || {
        pool.clear(Some(device.to_str().expect("UTF-8")))
            .expect("clear");
        state_of(pool, device) == DeviceState::Online
    });
    wait_for_scan(pool);
}

/// One leg has `fault`; the pool stays in service, and heals when the fault is cleared.
fn one_leg_has(fault: Fault) {
    let (engine, faults) = faulty_engine();
    let devices = disks(&["a", "b"]);
    let pool = mirror(engine, &devices);
    write_sample_data(&pool, 3);
    faults.set(&devices[0], fault);
    let begin = Instant::now();
    wait_until("the leg is given up", || {
        write_sample_data(&pool, 1);
        fails(state_of(&pool, &devices[0]))
    });
    assert!(begin.elapsed() < DEADLINE * 8, "{:?}", begin.elapsed());
    write_sample_data(&pool, 10);
    let status = pool.status().expect("status");
    assert_eq!(status.suspended, None);
    assert!(!status.advice.is_empty(), "{status:#?}");
    assert_eq!(state_of(&pool, &devices[1]), DeviceState::Online);

    faults.lift(&devices[0]);
    bring_back(&pool, &devices[0]);
    assert_eq!(pool.status().expect("status").state, DeviceState::Online);
    export(pool);
}

macro_rules! one_leg {
    ($($name:ident: $fault:expr;)*) => {$(
        #[test]
        fn $name() {
            if part().is_some() {
                one_leg_has($fault);
            } else {
                let parts = Parts::of(stringify!($name));
                parts.pass("all");
                parts.zdb_is_content("tank");
            }
        }
    )*};
}

one_leg! {
    leg_whose_writes_fail_is_given_up_and_heals:
        Fault { writes_fail: true, reads_fail: true, ..Fault::default() };
    leg_that_hangs_is_given_up_after_its_deadline_and_heals:
        Fault { hangs: true, ..Fault::default() };
    leg_that_is_gone_is_given_up_and_heals:
        Fault { gone: true, ..Fault::default() };
}

#[test]
fn slow_leg_is_not_faulted() {
    if part().is_none() {
        let parts = Parts::of("slow_leg_is_not_faulted");
        parts.pass("all");
        return parts.zdb_is_content("tank");
    }
    let (engine, faults) = faulty_engine();
    let devices = disks(&["a", "b"]);
    let pool = mirror(engine, &devices);
    let delay = Duration::from_millis(30);
    faults.set(
        &devices[0],
        Fault {
            delay,
            ..Fault::default()
        },
    );
    let begin = Instant::now();
    write_sample_data(&pool, 3);
    assert!(begin.elapsed() > delay, "{:?}", begin.elapsed());
    assert_eq!(state_of(&pool, &devices[0]), DeviceState::Online);
    export(pool);
}

#[test]
fn pool_without_devices_suspends_and_resumes() {
    const TEST: &str = "pool_without_devices_suspends_and_resumes";
    if part().is_none() {
        let parts = Parts::of(TEST);
        parts.pass("all");
        return parts.zdb_is_content("tank");
    }
    let (engine, faults) = faulty_engine();
    let devices = disks(&["a", "b"]);
    let pool = mirror(engine, &devices);
    write_sample_data(&pool, 3);
    for device in &devices {
        faults.set(
            device,
            Fault {
                gone: true,
                ..Fault::default()
            },
        );
    }
    std::thread::scope(|scope| {
        // Blocks until the pool resumes: no write is lost or fails.
        let writer = scope.spawn(|| {
            pool.set_properties(&[("comment".into(), "patience".into())])
                .and_then(|()| pool.sync())
        });
        wait_until("the pool is suspended", || {
            pool.health()
                .is_some_and(|health| health.suspended.is_some())
        });
        let status = pool.status().expect("a suspended pool can be looked at");
        assert_eq!(status.suspended, Some(Suspension::DevicesFailed));
        assert!(status.advice.iter().any(|text| text.contains("clear")));
        let refused = pool.scrub(ScrubCommand::Start).expect_err("suspended");
        assert_eq!(refused.kind, PoolErrorKind::Suspended);
        for device in &devices {
            faults.lift(device);
        }
        let refused = pool
            .clear(None)
            .expect_err("the devices' missing data was not checked");
        assert_eq!(refused.kind, PoolErrorKind::Suspended);
        assert_eq!(
            pool.resume_pool(None, false).expect("clear"),
            Resumption::InPlace
        );
        writer
            .join()
            .expect("no panic")
            .expect("the write went through");
    });
    wait_until("both are online", || {
        devices
            .iter()
            .all(|device| state_of(&pool, device) == DeviceState::Online)
    });
    write_sample_data(&pool, 3);
    export(pool);
}

/// The change holds the lock of the pool list while it is blocked on a transaction group.
#[test]
fn pool_suspended_during_a_change_is_cleared() {
    const TEST: &str = "pool_suspended_during_a_change_is_cleared";
    isolated(TEST, || {
        let (engine, faults) = faulty_engine();
        let devices = disks(&["a", "b", "c"]);
        let pool = mirror(engine, &devices[..2]);
        write_sample_data(&pool, 3);
        assert!(pool.health().is_some());
        for device in &devices[..2] {
            let fault = Fault {
                writes_fail: true,
                flushes_fail: true,
                ..Fault::default()
            };
            faults.set(device, fault);
        }
        std::thread::scope(|scope| {
            let change = scope.spawn(|| {
                let spare = engine::pool::GroupSpec {
                    kind: engine::pool::GroupKind::Stripe,
                    role: engine::pool::GroupRole::Spare,
                    devices: vec![devices[2].clone()],
                };
                pool.add(&[spare], false)
            });
            wait_until("the pool is suspended", || {
                pool.health()
                    .is_some_and(|health| health.suspended.is_some())
            });
            let unseen = pool.status().expect_err("its devices are waited for");
            assert_eq!(unseen.kind, PoolErrorKind::Suspended);
            for device in &devices {
                faults.lift(device);
            }
            assert_eq!(
                pool.resume_pool(None, false).expect("clear"),
                Resumption::InPlace
            );
            change.join().expect("no panic").expect("the spare is in");
        });
        assert_eq!(pool.status().expect("status").leaves().len(), 3);
        export(pool);
    });
}

#[test]
fn device_is_incomplete_until_it_is_resilvered() {
    isolated("device_is_incomplete_until_it_is_resilvered", || {
        let (engine, _) = faulty_engine();
        let devices = disks(&["a", "b"]);
        let pool = mirror(engine, &devices);
        let name = devices[0].to_str().expect("UTF-8");
        for _ in 0..5 {
            pool.offline(name, true).expect("offline");
            write_sample_data(&pool, 8);
            pool.online(name, false).expect("online");
            let status = pool.status().expect("status");
            let leg = status.find(name).expect("leg");
            let copied = status.scan.as_ref().map_or(0, |scan| scan.repaired_bytes);
            let is_told = leg.reason.is_some() || leg.resilvering;
            assert!(is_told || copied > 0, "{status:#?}");
            wait_until("it holds everything", || {
                let status = pool.status().expect("status");
                let leg = status.find(name).expect("leg");
                leg.reason.is_none() && !leg.resilvering
            });
            wait_for_scan(&pool);
        }
        export(pool);
    });
}

#[test]
fn scrub_repairs_a_corrupted_leg_and_counts_it() {
    isolated("scrub_repairs_a_corrupted_leg_and_counts_it", || {
        let (engine, _) = faulty_engine();
        let devices = disks(&["a", "b"]);
        let pool = mirror(engine, &devices);
        write_sample_data(&pool, 20);
        corrupt(&devices[0]);
        pool.scrub(ScrubCommand::Start).expect("scrub");
        let status = wait_for_scan(&pool);
        let scan = status.scan.clone().expect("a scan");
        assert!(scan.repaired_bytes > 0, "{status:#?}");
        assert_eq!((scan.errors, status.damaged), (0, 0));
        let leg = status
            .find(devices[0].to_str().expect("UTF-8"))
            .expect("leg");
        assert!(leg.checksum_errors > 0);
        pool.clear(None).expect("clear");
        let again = pool.status().expect("status");
        assert!(again.leaves().iter().all(|leaf| leaf.checksum_errors == 0));
        export(pool);
    });
}

/// A pause is stored with a transaction group, and reads of the scrub delay the previous one.
#[test]
fn scrub_of_a_slow_disk_is_paused_and_resumes() {
    isolated("scrub_of_a_slow_disk_is_paused_and_resumes", || {
        let (engine, faults) = faulty_engine();
        let devices = disks(&["a", "b"]);
        let pool = mirror(engine, &devices);
        write_sample_data(&pool, 3);
        let slow = Fault {
            delay: Duration::from_millis(30),
            ..Fault::default()
        };
        faults.set(&devices[0], slow);
        pool.scrub(ScrubCommand::Start).expect("scrub");
        pool.scrub(ScrubCommand::Pause).expect("pause");
        let scan = || pool.status().expect("status").scan.expect("a scrub");
        assert_eq!(scan().state, ScanState::Paused);

        faults.lift(&devices[0]);
        pool.sync().expect("sync");
        assert_eq!(scan().state, ScanState::Paused);
        pool.scrub(ScrubCommand::Start).expect("go on");
        wait_for_scan(&pool);
        let late = pool.scrub(ScrubCommand::Pause).expect_err("it has ended");
        assert!(matches!(late.kind, PoolErrorKind::NothingToDo { .. }));
    });
}

/// Overwrites all but the labels.
fn corrupt(path: &Path) {
    use std::os::unix::fs::FileExt;
    const LABELS: u64 = 5 << 20;
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("open");
    let end = file.metadata().expect("size").len() - LABELS;
    let noise = vec![0xa5; 1 << 20];
    let mut offset = LABELS;
    while offset < end {
        file.write_all_at(&noise, offset).expect("write");
        offset += noise.len() as u64;
    }
}

#[test]
fn devices_are_attached_replaced_detached_and_taken_offline() {
    const TEST: &str = "devices_are_attached_replaced_detached_and_taken_offline";
    if part().is_none() {
        let parts = Parts::of(TEST);
        parts.pass("all");
        return parts.zdb_is_content("tank");
    }
    let (engine, _) = faulty_engine();
    let devices = disks(&["a", "b", "c", "d", "e"]);
    let name = |index: usize| devices[index].to_str().expect("UTF-8");
    let pool = mirror(engine, &devices[..2]);
    write_sample_data(&pool, 5);

    pool.attach(name(0), &devices[2], false).expect("attach");
    wait_for_scan(&pool);
    assert_eq!(pool.status().expect("status").leaves().len(), 3);

    pool.replace(name(1), &devices[3], false).expect("replace");
    wait_until("the replacement is over", || {
        let status = pool.status().expect("status");
        status.find(name(1)).is_none() && status.find(name(3)).is_some()
    });

    pool.offline(name(0), false).expect("offline");
    assert_eq!(state_of(&pool, &devices[0]), DeviceState::Offline);
    write_sample_data(&pool, 5);
    assert_eq!(
        pool.online(name(0), false).expect("online"),
        DeviceState::Online
    );
    // Until it has the missing data, the remaining devices are the only complete ones.
    for other in [2, 3] {
        wait_until("the remaining devices can be detached", || {
            match pool.detach(name(other)) {
                Ok(()) => true,
                Err(error) if error.kind == PoolErrorKind::NoReplicas => false,
                Err(error) => panic!("{error}"),
            }
        });
    }
    let last = pool.detach(name(0)).expect_err("the last one");
    assert!(matches!(last.kind, PoolErrorKind::Shape { .. }), "{last}");
    let unknown = pool.detach("/nowhere").expect_err("unknown");
    assert!(matches!(unknown.kind, PoolErrorKind::NoSuchDevice { .. }));

    let spare = engine::pool::GroupSpec {
        kind: engine::pool::GroupKind::Stripe,
        role: engine::pool::GroupRole::Spare,
        devices: vec![devices[4].clone()],
    };
    pool.add(&[spare], false).expect("add a spare");
    pool.remove(name(4)).expect("remove the spare");
    export(pool);
}

#[test]
fn raidz_is_expanded_by_a_disk() {
    if part().is_none() {
        let parts = Parts::of("raidz_is_expanded_by_a_disk");
        parts.pass("all");
        return parts.zdb_is_content("tank");
    }
    let (engine, _) = faulty_engine();
    let devices = disks(&["a", "b", "c", "d"]);
    let spec = PoolSpec::new(tank(), GroupKind::Raidz1, devices[..3].to_vec());
    let pool = Pool::create(engine, &spec).expect("create");
    write_sample_data(&pool, 5);
    let before = pool.status().expect("status").size_bytes;

    pool.attach("raidz1-0", &devices[3], false).expect("attach");
    wait_until("the space of the new disk is there", || {
        pool.status().expect("status").size_bytes > before
    });
    // The library starts a scrub by itself after the data is distributed.
    let status = wait_for_scan(&pool);
    assert_eq!(status.leaves().len(), 4, "{status:#?}");
    assert_eq!(status.state, DeviceState::Online, "{status:#?}");
    assert_eq!(status.scan.expect("a scrub").errors, 0);
    write_sample_data(&pool, 5);
    export(pool);
}

#[test]
fn failed_device_is_faulted_unless_the_pool_needs_it() {
    isolated("failed_device_is_faulted_unless_the_pool_needs_it", || {
        let (engine, _) = faulty_engine();
        let devices = disks(&["a", "b"]);
        let pool = mirror(engine, &devices);
        write_sample_data(&pool, 3);
        let name = |at: usize| devices[at].to_str().expect("UTF-8");
        pool.fault(name(0)).expect("the second one is intact");
        assert_eq!(state_of(&pool, &devices[0]), DeviceState::Faulted);
        write_sample_data(&pool, 1);
        let refused = pool.fault(name(1)).expect_err("it alone has the data");
        assert_eq!(refused.kind, PoolErrorKind::NoReplicas);
        assert_eq!(state_of(&pool, &devices[1]), DeviceState::Online);
        bring_back(&pool, &devices[0]);
        write_sample_data(&pool, 1);
        assert_eq!(pool.status().expect("status").state, DeviceState::Online);
        export(pool);
    });
}
