//! The controls for tests of a pool in memory: injected failures, removed disks, other hosts.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use block_device::{BlockDevice, ErrorKind, Extent, WaitMode};
use engine::capabilities::{
    Datasets as _, Health as _, IntentLogs as _, Ownership as _, Snapshotting as _, Upkeep,
    Volumes as _,
};
use engine::dataset::{DatasetErrorKind, DatasetRef, VolumeSpec};
use engine::pool::{Candidate, DeviceState, ImportOptions, PoolErrorKind, SafeToOwn};
use engine::{Engine, Volume};
use memory_engine::{Failure, MemoryEngine, MemoryPool, MemoryVolume, WaitingLog};
use units::{ByteCount, VolumeName};

fn name(text: &str) -> VolumeName {
    text.parse().expect("a name")
}

/// A pool with the volume `tank/v`.
fn with_volume() -> (MemoryEngine, MemoryPool) {
    let (engine, pool) = MemoryPool::with_engine("tank");
    let spec = VolumeSpec::sparse(name("tank/v"), ByteCount::mib(16));
    pool.create_volume(&spec).expect("a volume");
    (engine, pool)
}

#[test]
fn injected_failures_hit_calls_and_later_calls_succeed() {
    let (_, pool) = with_volume();
    pool.take_calls();
    let asked = [DatasetErrorKind::NoSpace, DatasetErrorKind::Library];
    asked
        .iter()
        .for_each(|kind| pool.fail_next("snapshot", Failure::Dataset(kind.clone())));
    let names = ["tank/v@1".parse().expect("a name")];
    for kind in asked {
        assert_eq!(pool.snapshot(&names).expect_err("asked for").kind, kind);
    }
    pool.snapshot(&names).expect("as it should");
    assert_eq!(pool.take_calls(), ["snapshot"; 3]);
    pool.fail_next("sync", Failure::Pool(PoolErrorKind::Busy));
    assert_eq!(
        pool.sync().expect_err("asked for").kind,
        PoolErrorKind::Busy
    );
}

#[test]
fn write_blocks_without_devices_and_resumes_with_them() {
    let (engine, pool) = with_volume();
    let volume = pool
        .open_volume(&name("tank/v"), Default::default())
        .expect("open");
    engine.remove_disk("/disks/a");
    volume
        .write(0, &[1; 512], WaitMode::MayBlock)
        .expect("one leg is enough");
    engine.remove_disk("/disks/b");
    assert!(
        pool.health()
            .is_some_and(|health| health.suspended.is_some())
    );
    let refused = volume.write(0, &[2; 512], WaitMode::NoWait);
    assert_eq!(refused.expect_err("suspended").kind, ErrorKind::WouldBlock);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| volume.write(0, &[3; 512], WaitMode::MayBlock));
        let refused = pool
            .resume_pool(None, false)
            .expect_err("no device is back");
        assert_eq!(refused.kind, PoolErrorKind::Suspended);
        engine.return_disk("/disks/b");
        pool.resume_pool(None, false).expect("one is back");
        waits.join().expect("it ended").expect("written");
    });
    let status = pool.status().expect("its status");
    assert_eq!(status.state, DeviceState::Degraded);
    volume.close();
}

fn found(engine: &MemoryEngine) -> Candidate {
    let mut found = engine
        .discover(&[PathBuf::from("/disks")])
        .expect("searched");
    assert_eq!(found.len(), 1);
    found.remove(0)
}

#[test]
fn other_host_imports_a_pool_only_with_a_proof() {
    let (here, pool) = with_volume();
    let there = here.other_host(NonZeroU32::new(7).expect("a number"), "there");
    let options = ImportOptions::default();
    let candidate = found(&there);
    assert!(SafeToOwn::exported(&candidate).is_none());
    let refused = there.same_host_and_locked(&candidate).expect_err("not its");
    assert_eq!(refused.kind, PoolErrorKind::ActiveElsewhere);
    // A process that holds the pool holds its locks.
    let refused = here.same_host_and_locked(&candidate).expect_err("locked");
    assert!(matches!(refused.kind, PoolErrorKind::DeviceInUse { .. }));
    here.crash();
    here.same_host_and_locked(&candidate)
        .expect("no host has it open");
    let proof = SafeToOwn::host_is_off(&candidate);
    let taken = there.import(&candidate, proof, &options).expect("taken");
    assert!(taken.dataset(DatasetRef::from_checked("tank/v")).is_ok());
    let again = there.import(&candidate, SafeToOwn::host_is_off(&candidate), &options);
    assert!(again.is_err(), "it is open");
    let late = here.import(&candidate, SafeToOwn::host_is_off(&candidate), &options);
    let late = late.expect_err("another host has written since");
    assert_eq!(late.kind, PoolErrorKind::Changed);
    drop(pool);
}

fn export(pool: MemoryPool) {
    let exported = Box::new(pool).export();
    exported.map_err(|(_, error)| error).expect("exported");
}

/// The pool of the engine, opened again as far as its disks allow.
fn open_again(engine: &MemoryEngine) -> Result<DeviceState, PoolErrorKind> {
    let candidate = found(engine);
    let proof = SafeToOwn::exported(&candidate).expect("exported");
    let opened = engine.import(&candidate, proof, &ImportOptions::default());
    let pool = opened.map_err(|error| error.kind)?;
    Ok(pool.status().expect("its status").state)
}

#[test]
fn leg_lost_after_export_may_be_newer_and_import_is_refused() {
    let (engine, pool) = with_volume();
    engine.remove_disk("/disks/a");
    export(pool);
    assert_eq!(open_again(&engine), Ok(DeviceState::Degraded));

    let (engine, pool) = with_volume();
    export(pool);
    engine.remove_disk("/disks/a");
    let refused = open_again(&engine).expect_err("in doubt");
    assert!(matches!(refused, PoolErrorKind::MayBeStale(_)));
    engine.return_disk("/disks/a");
    assert_eq!(open_again(&engine), Ok(DeviceState::Online));
}

#[test]
fn standalone_volume_pauses_resizes_and_closes() {
    let volume = MemoryVolume::new(&name("tank/v"), 1 << 20, 4096);
    volume
        .write(4000, &[7; 200], WaitMode::NoWait)
        .expect("written");
    let paused = volume.pause(Duration::from_secs(10)).expect("paused");
    let extent = Extent::new(4000, 200);
    let refused = volume.read(extent, WaitMode::NoWait).err();
    assert_eq!(refused.map(|error| error.kind), Some(ErrorKind::WouldBlock));
    let missing = paused.rollback(&"tank/v@1".parse().expect("a name"));
    assert_eq!(missing.expect_err("none").kind, DatasetErrorKind::NotFound);
    drop(paused);
    let busy = volume.read(extent, WaitMode::NoWait).expect("read");
    let refused = volume.pause(Duration::ZERO).err().map(|error| error.kind);
    assert_eq!(refused, Some(DatasetErrorKind::Busy), "a loan is out");
    drop(busy);
    volume.resize(4096).expect("resized");
    let refused = volume.read(extent, WaitMode::NoWait).err();
    assert_eq!(refused.map(|error| error.kind), Some(ErrorKind::OutOfRange));
    volume.close();
    let refused = volume.flush().expect_err("closed");
    assert_eq!(refused.kind, ErrorKind::Gone);
}

#[test]
fn pending_log_is_replayed_when_the_volume_is_opened() {
    let (_, pool) = with_volume();
    pool.set_log("tank/v", WaitingLog::Unreadable);
    let refused = pool.open_volume(&name("tank/v"), Default::default());
    assert_eq!(
        refused.expect_err("unreadable").kind,
        DatasetErrorKind::LogUnreadable
    );
    pool.set_log("tank/v", WaitingLog::Waits);
    assert_eq!(pool.unreplayed_volumes().expect("listed"), [name("tank/v")]);
    let volume = pool
        .open_volume(&name("tank/v"), Default::default())
        .expect("open");
    volume.close();
    assert!(!pool.is_unreplayed(&name("tank/v")).expect("there"));
}
