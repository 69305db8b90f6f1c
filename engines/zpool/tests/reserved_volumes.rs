//! A fully reserved volume accepts every write, whatever other users did to the pool.

mod volume_support;

use std::path::Path;

use block_device::{BlockDevice, ErrorKind, Extent, WaitMode};
use engine::capabilities::{Datasets, FileSystems, Ownership, Properties, Snapshotting};
use engine::dataset::{DatasetErrorKind, Depth, Value, VolumeSpec};
use engine::pool::{GroupKind, PoolSpec};
use engine::volume::OpenOptions;
use tempfile::TempDir;
use units::{ByteCount, PoolName, SnapshotName};
use volume_support::{disk_files, judge, start_engine, volume_name};
use zpool::{Engine, Pool, Volume};

const MIB: u64 = 1 << 20;
/// More than fits into its reservation by the library's estimate of 24 times the data.
const RESERVED: u64 = 16 * MIB;
const STOCK_RESERVATION: u64 = 18 * MIB;
/// Each with its own requests.
const CLIENTS: u64 = 4;
const JUDGED_BLOCK_SIZE: u64 = 128 << 10;
const NAME: &str = "tank/reserved";

/// A pool with its reservations.
struct Case {
    kind: GroupKind,
    disks: usize,
    disk_bytes: u64,
    block_size: u64,
    copies: u64,
}

impl Case {
    const fn new(kind: GroupKind, disks: usize, disk_bytes: u64, block_size: u64) -> Self {
        Self {
            kind,
            disks,
            disk_bytes,
            block_size,
            copies: 1,
        }
    }
}

#[test]
fn reserved_volume_accepts_every_write_in_a_full_pool() {
    use GroupKind::{Raidz1, Stripe};
    let engine = start_engine();
    // A mirror is charged as a stripe is.
    let cases = [
        Case::new(Stripe, 1, 160 * MIB, 4 << 10),
        Case::new(Raidz1, 3, 96 * MIB, 4 << 10),
        Case::new(Raidz1, 3, 96 * MIB, JUDGED_BLOCK_SIZE),
        Case {
            copies: 3,
            ..Case::new(Stripe, 1, 256 * MIB, 32 << 10)
        },
    ];
    // The check by `zdb` needs seconds for a pool of any size, so it runs concurrently with the
    // rest.
    std::thread::scope(|judges| {
        for case in cases {
            let dir = write_bursts_fit_into_a_full_pool(engine, &case);
            if case.block_size == JUDGED_BLOCK_SIZE {
                judges.spawn(move || judge(dir.path()));
            }
        }
        full_parent_quota_does_not_limit_it(engine);
        snapshot_breaking_the_reservation_is_refused(engine);
        partial_reservation_guarantees_nothing(engine);
        stock_reservation_is_complete(engine);
        clone_is_fully_reserved_and_unneeded_volumes_destroyable(engine);
    });
}

fn write_bursts_fit_into_a_full_pool(engine: &'static Engine, case: &Case) -> TempDir {
    let dir = tempfile::tempdir().expect("temporary dir");
    let pool = pool(engine, case, dir.path());
    let reserved = reserved(&pool, NAME, case);
    let sparse = sparse(&pool, "tank/sparse");
    fill(&pool, &sparse);
    for round in 0..2 {
        burst(&reserved, round);
    }
    pool.sync().expect("accepted writes fit");
    assert_contents(&reserved, 1);
    assert!(!has_room(&sparse), "the reserve was given away");
    drop((reserved, sparse));
    end(pool);
    dir
}

fn full_parent_quota_does_not_limit_it(engine: &'static Engine) {
    let dir = tempfile::tempdir().expect("temporary dir");
    let case = Case::new(GroupKind::Stripe, 1, 160 * MIB, 16 << 10);
    let pool = pool(engine, &case, dir.path());
    let name = volume_name("tank/db/reserved");
    pool.create_parents(&name).expect("parents");
    let quota = [("quota".to_owned(), Value::from(3 * RESERVED))];
    pool.set_dataset_properties((&volume_name("tank/db")).into(), &quota)
        .expect("set");
    let reserved = reserved(&pool, name.as_str(), &case);
    let sparse = sparse(&pool, "tank/db/sparse");
    fill(&pool, &sparse);
    for round in 0..2 {
        burst(&reserved, round);
    }
    assert!(!has_room(&sparse), "the quota applies to other volumes");
    drop((reserved, sparse));
    end(pool);
}

fn snapshot_breaking_the_reservation_is_refused(engine: &'static Engine) {
    let dir = tempfile::tempdir().expect("temporary dir");
    let case = Case::new(GroupKind::Stripe, 1, 160 * MIB, 16 << 10);
    let pool = pool(engine, &case, dir.path());
    let reserved = reserved(&pool, NAME, &case);
    burst(&reserved, 0);
    pool.snapshot(&[snapshot("tank/reserved@with-room")])
        .expect("there is room to write all of it again");
    let sparse = sparse(&pool, "tank/sparse");
    fill(&pool, &sparse);
    for round in 1..3 {
        burst(&reserved, round);
    }
    let refused = pool
        .snapshot(&[snapshot("tank/reserved@without")])
        .expect_err("no space is left for its reservation");
    assert_eq!(refused.kind, DatasetErrorKind::NoSpace, "{refused}");
    burst(&reserved, 3);
    drop((reserved, sparse));
    end(pool);
}

/// It is less than writing all data needs, so other writers may use the space first.
fn partial_reservation_guarantees_nothing(engine: &'static Engine) {
    let dir = tempfile::tempdir().expect("temporary dir");
    let case = Case::new(GroupKind::Stripe, 1, 160 * MIB, 16 << 10);
    let pool = pool(engine, &case, dir.path());
    let volume = reserved(&pool, NAME, &case);
    let half = [("refreservation".to_owned(), Value::from(RESERVED / 2))];
    pool.set_dataset_properties((&volume_name(NAME)).into(), &half)
        .expect("set");
    let sparse = sparse(&pool, "tank/sparse");
    fill(&pool, &sparse);
    let refused = (0..RESERVED / MIB)
        .find_map(|at| volume.write(at * MIB, &noise(at), WaitMode::MayBlock).err())
        .expect("all of it does not fit");
    assert_eq!(refused.kind, ErrorKind::NoSpace, "{refused}");
    drop((volume, sparse));
    end(pool);
}

/// `zfs create -V` sets this for a volume of that size and block size.
fn stock_reservation_is_complete(engine: &'static Engine) {
    let dir = tempfile::tempdir().expect("temporary dir");
    let case = Case::new(GroupKind::Stripe, 1, 160 * MIB, 16 << 10);
    let pool = pool(engine, &case, dir.path());
    let volume = reserved(&pool, NAME, &case);
    let stock = [("refreservation".to_owned(), Value::from(STOCK_RESERVATION))];
    pool.set_dataset_properties((&volume_name(NAME)).into(), &stock)
        .expect("set");
    let sparse = sparse(&pool, "tank/sparse");
    fill(&pool, &sparse);
    for round in 0..2 {
        burst(&volume, round);
    }
    drop((volume, sparse));
    end(pool);
}

fn clone_is_fully_reserved_and_unneeded_volumes_destroyable(engine: &'static Engine) {
    let dir = tempfile::tempdir().expect("temporary dir");
    let case = Case::new(GroupKind::Raidz1, 3, 128 * MIB, 16 << 10);
    let pool = pool(engine, &case, dir.path());
    let original = reserved(&pool, NAME, &case);
    burst(&original, 0);
    let shared = snapshot("tank/reserved@shared");
    pool.snapshot(std::slice::from_ref(&shared))
        .expect("there is room");
    let name = volume_name("tank/clone");
    let whole = pool.dataset((&volume_name(NAME)).into()).expect("is there");
    let whole = whole.refreservation.get();
    let properties = [
        ("refreservation".to_owned(), Value::from(whole)),
        ("compression".to_owned(), Value::from("off")),
    ];
    pool.clone_snapshot(&shared, &name, &properties)
        .expect("there is room");
    let clone = pool
        .open_volume(&name, OpenOptions::default())
        .expect("the clone opens");
    let sparse = sparse(&pool, "tank/sparse");
    write(&sparse, 0, 0);
    let needless = snapshot("tank/sparse@needless");
    pool.snapshot(std::slice::from_ref(&needless))
        .expect("there is room");
    fill(&pool, &sparse);
    drop(sparse);
    std::thread::scope(|scope| {
        for volume in [&original, &clone] {
            scope.spawn(move || (1..4).for_each(|round| burst(volume, round)));
        }
        pool.destroy_snapshots(&[needless]).expect("destroyed");
        pool.destroy_dataset(&volume_name("tank/sparse"), Depth::One)
            .expect("destroyed");
    });
    pool.sync().expect("accepted writes fit");
    for volume in [&original, &clone] {
        assert_contents(volume, 3);
    }
    drop((original, clone));
    end(pool);
}

/// Writes all of it, as fast as possible.
fn burst(volume: &Volume, round: u64) {
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for at in (client..RESERVED / MIB).step_by(CLIENTS as usize) {
                    write(volume, at, round);
                }
            });
        }
    });
}

/// As a server does: at once if possible, otherwise on a thread that may block.
fn write(volume: &Volume, at: u64, round: u64) {
    let data = noise(round << 32 | at);
    let done = match volume.write(at * MIB, &data, WaitMode::NoWait) {
        Err(e) if e.kind == ErrorKind::WouldBlock => {
            volume.write(at * MIB, &data, WaitMode::MayBlock)
        }
        done => done,
    };
    done.unwrap_or_else(|e| panic!("round {round}, MiB {at}: {e}"));
}

fn assert_contents(volume: &Volume, round: u64) {
    for at in 0..RESERVED / MIB {
        let extent = Extent::new(at * MIB, MIB);
        let found = volume_support::read(volume, extent);
        assert!(found == noise(round << 32 | at), "MiB {at} differs");
    }
}

fn fill(pool: &Pool, sparse: &Volume) {
    let refused = (0..1024)
        .find_map(|at| sparse.write(at * MIB, &noise(at), WaitMode::MayBlock).err())
        .expect("the pool is smaller than that");
    assert_eq!(refused.kind, ErrorKind::NoSpace, "{refused}");
    pool.sync().expect("sync");
}

fn has_room(sparse: &Volume) -> bool {
    (0..4).any(|at| {
        sparse
            .write((1020 + at) * MIB, &noise(at), WaitMode::MayBlock)
            .is_ok()
    })
}

fn pool(engine: &'static Engine, case: &Case, dir: &Path) -> Pool {
    let name: PoolName = "tank".parse().expect("a pool name");
    let disks = disk_files(dir, case.disks, case.disk_bytes);
    Pool::create(engine, &PoolSpec::new(name, case.kind, disks)).expect("create")
}

fn end(pool: Pool) {
    pool.export().map_err(|(_, e)| e).expect("export");
}

fn reserved(pool: &Pool, name: &str, case: &Case) -> Volume {
    let mut spec = VolumeSpec::sparse(volume_name(name), ByteCount(RESERVED));
    spec.sparse = false;
    spec.block_size = ByteCount(case.block_size);
    spec.properties = vec![
        ("compression".to_owned(), Value::from("off")),
        ("copies".to_owned(), Value::from(case.copies)),
    ];
    create(pool, &spec)
}

fn sparse(pool: &Pool, name: &str) -> Volume {
    create(
        pool,
        &VolumeSpec::sparse(volume_name(name), ByteCount(1024 * MIB)),
    )
}

fn create(pool: &Pool, spec: &VolumeSpec) -> Volume {
    pool.create_volume(spec).expect("the volume is created");
    pool.open_volume(&spec.name, OpenOptions::default())
        .expect("the volume opens")
}

fn snapshot(name: &str) -> SnapshotName {
    name.parse().expect("a snapshot name")
}

fn noise(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; MIB as usize];
    random.fill(&mut bytes);
    bytes
}
