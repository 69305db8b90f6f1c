//! The space estimate for dirty data: not so high that writes are throttled without need, and never less than the
//! actual use.

mod volume_support;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block_device::{BlockDevice, ErrorKind, WaitMode};
use engine::capabilities::{Datasets, Health, Ownership, Properties};
use engine::dataset::{Value, VolumeSpec};
use engine::pool::{GroupKind, PoolSpec};
use engine::volume::OpenOptions;
use units::{ByteCount, PoolName};
use volume_support::{disk_files, judge, start_engine, volume_name};
use zpool::{Engine, Pool, Volume};

const MIB: u64 = 1 << 20;
/// Less than triggers a transaction group, with the settings of these tests.
const BURST: u64 = 20;
/// A transaction group that starts halfway throttles a write once.
const TRIES: usize = 3;
const WATCH: Duration = Duration::from_millis(100);

#[test]
fn dirty_data_is_estimated_at_its_maximum() {
    let engine = start_engine();
    burst_of_an_eighth_of_the_space_does_not_block(engine);
    triple_parity_with_three_copies_fills_without_suspending(engine);
}

/// By the library's own estimate, 24 times the data, no more than a twentieth would fit.
fn burst_of_an_eighth_of_the_space_does_not_block(engine: &'static Engine) {
    let dir = tempfile::tempdir().expect("temporary dir");
    // The library reserves 128 MiB of this for itself.
    let pool = pool(
        engine,
        GroupKind::Stripe,
        disk_files(dir.path(), 1, 288 * MIB),
    );
    let volume = volume(&pool, 128 << 10, 1);
    let went_on = (0..TRIES).any(|_| {
        pool.sync().expect("sync");
        let data = noise();
        (0..BURST).all(|at| volume.write(at * MIB, &data, WaitMode::NoWait).is_ok())
    });
    assert!(went_on, "a write waited for space each time");
    drop(volume);
    pool.export().map_err(|(_, e)| e).expect("export");
    judge(dir.path());
}

/// Blocks of one sector need twelve times their size there. In so wide a group the pool's estimate is far lower.
fn triple_parity_with_three_copies_fills_without_suspending(engine: &'static Engine) {
    let dir = tempfile::tempdir().expect("temporary dir");
    let pool = pool(
        engine,
        GroupKind::Raidz3,
        disk_files(dir.path(), 12, 128 * MIB),
    );
    let volume = volume(&pool, 4096, 3);
    let data = noise();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| end_with(&pool, &over));
        let refused = (0..512)
            .find_map(|at| volume.write(at * MIB, &data, WaitMode::MayBlock).err())
            .expect("the pool is smaller than that");
        assert_eq!(refused.kind, ErrorKind::NoSpace, "{refused}");
        pool.sync().expect("accepted writes fit");
        over.store(true, Ordering::Release);
    });
    drop(volume);
    pool.export().map_err(|(_, e)| e).expect("export");
    judge(dir.path());
}

/// A thread blocked on a stalled pool would never return: then the whole test is terminated here.
fn end_with(pool: &Pool, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        let suspended = pool.health().and_then(|health| health.suspended);
        // Test output is shown when a test fails.
        #[allow(clippy::print_stderr)]
        if let Some(why) = suspended {
            eprintln!("the pool has stopped: {why:?}");
            std::process::abort();
        }
        std::thread::sleep(WATCH);
    }
}

fn pool(engine: &'static Engine, kind: GroupKind, devices: Vec<PathBuf>) -> Pool {
    let name: PoolName = "tank".parse().expect("a pool name");
    Pool::create(engine, &PoolSpec::new(name, kind, devices)).expect("create")
}

fn volume(pool: &Pool, block_size: u64, copies: u64) -> Volume {
    let name = volume_name("tank/volume");
    let mut spec = VolumeSpec::sparse(name.clone(), ByteCount(512 * MIB));
    spec.block_size = ByteCount(block_size);
    pool.create_volume(&spec).expect("the volume is created");
    let properties = [
        ("compression".to_owned(), Value::from("off")),
        ("copies".to_owned(), Value::from(copies)),
    ];
    pool.set_dataset_properties((&name).into(), &properties)
        .expect("set");
    pool.open_volume(&name, OpenOptions::default())
        .expect("the volume opens")
}

fn noise() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    (0..MIB).map(|_| random.u8(..)).collect()
}
