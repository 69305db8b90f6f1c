//! The cost of a flush of large writes, and its durability: small ones use the intent log, large ones go directly to
//! their final blocks instead of being written twice, and all of it is present after a kill.
//!
//! The writer is this same binary, started again as a child, because a process has one engine, and it is killed.

mod volume_support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block_device::{BlockDevice, Extent, WaitMode};
use engine::Volume as _;
use engine::capabilities::{Datasets, Properties};
use engine::dataset::{Value, VolumeSpec};
use engine::pool::{GroupKind, ImportOptions, PoolSpec};
use engine::volume::OpenOptions;
use units::ByteCount;
use volume_support::{disk_files, judge, read, seed, start_engine, volume_name, watch_devices};
use zpool::device::IoKind;
use zpool::pool::discover;
use zpool::{Engine, EngineOptions, HostId, Pool, Volume};

const TEST: &str = "large_writes_are_written_once_and_survive_a_kill";
const DIR: &str = "VOLUME_FLUSH_FOLDER";
const VOLUME: &str = "tank/volume";
const PIECE: u64 = 1 << 20;
const BLOCK: u64 = 128 << 10;
/// Pieces that a flush finds: few enough for the log, and too many for it.
const FEW: u64 = 8;
const MANY: u64 = 96;
/// Labels, and the metadata that a transaction group writes.
const CONCURRENT_WRITES: u64 = 6 << 20;

/// Contents of a piece: noise, or it would be compressed.
fn piece(seed: u64, number: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed ^ number);
    std::iter::repeat_with(|| random.u64(..))
        .take(PIECE as usize / 8)
        .flat_map(u64::to_le_bytes)
        .collect()
}

fn write_pieces(volume: &Volume, seed: u64, numbers: std::ops::Range<u64>) {
    for number in numbers {
        volume
            .write(number * PIECE, &piece(seed, number), WaitMode::MayBlock)
            .expect("write");
    }
}

/// Writes and flushes, reports the cost, and sleeps until it is killed.
fn writer(dir: &Path, seed: u64) {
    let written = Arc::new(AtomicU64::new(0));
    let mut options = EngineOptions::new(HostId::derive("test", "tank"));
    // No transaction group syncs by timer.
    options.dirty_bytes_max = ByteCount::mib(1024);
    options.txg_timeout_s = 60;
    let counter = Arc::clone(&written);
    watch_devices(&mut options, move |io| {
        if io.kind() == IoKind::Write {
            counter.fetch_add(io.length() as u64, Ordering::Relaxed);
        }
    });
    let engine = Engine::start(options).expect("the engine starts");
    let devices = disk_files(dir, 1, 512 << 20);
    let spec = PoolSpec::new(
        "tank".parse().expect("a pool name"),
        GroupKind::Stripe,
        devices,
    );
    let pool = Pool::create(engine, &spec).expect("the pool is created");
    let name = volume_name(VOLUME);
    let mut spec = VolumeSpec::sparse(name.clone(), ByteCount((FEW + MANY) * PIECE));
    spec.block_size = ByteCount(BLOCK);
    pool.create_volume(&spec).expect("the volume is created");
    let open = || {
        pool.open_volume(&name, OpenOptions::default())
            .expect("the volume opens")
    };
    let volume = open();
    // The first commit of a log blocks until a transaction group is synced.
    write_pieces(&volume, seed, 0..1);
    volume.flush().expect("flush");

    let cost_of = |what: &dyn Fn()| {
        let before = written.load(Ordering::Relaxed);
        what();
        written.load(Ordering::Relaxed) - before
    };
    let many = cost_of(&|| {
        write_pieces(&volume, seed, FEW..FEW + MANY);
        volume.flush().expect("flush");
    });
    // Remaining log data is written to its final blocks now.
    let later = cost_of(&|| volume.close());
    let volume = open();
    let unflushed = cost_of(&|| write_pieces(&volume, seed, 0..FEW));
    let few = cost_of(&|| volume.flush().expect("flush"));
    let nothing = cost_of(&|| volume.flush().expect("flush"));
    let set_sync = |value: &str| {
        let properties = [("sync".to_owned(), Value::from(value))];
        pool.set_dataset_properties((&name).into(), &properties)
            .expect("set");
    };
    set_sync("disabled");
    write_pieces(&volume, seed, 0..FEW);
    let disabled = cost_of(&|| volume.flush().expect("flush"));
    // Later flushes must survive the kill.
    set_sync("standard");
    write_pieces(&volume, seed, 0..FEW);
    volume.flush().expect("flush");
    // The parent reads it.
    #[allow(clippy::print_stdout)]
    {
        println!("cost {many} {later} {unflushed} {few} {nothing} {disabled}");
    }
    loop {
        std::thread::park();
    }
}

/// Imports the pool after the writer is gone.
fn verify(dir: &Path, seed: u64) {
    let engine = start_engine();
    let found = discover(&[dir.to_owned()]).expect("scan");
    let [candidate] = &found[..] else {
        panic!("{found:?}")
    };
    let proof = zpool::pool::same_host_and_locked(engine, candidate).expect("the writer is dead");
    let pool = Pool::import(engine, candidate, proof, &ImportOptions::default()).expect("import");
    let volume = pool
        .open_volume(&volume_name(VOLUME), OpenOptions::default())
        .expect("open and replay");
    for number in 0..FEW + MANY {
        let found = read(&volume, Extent::new(number * PIECE, PIECE));
        assert!(found == piece(seed, number), "piece {number} is lost");
    }
    volume.close();
    pool.export().map_err(|(_, error)| error).expect("export");
}

#[test]
fn large_writes_are_written_once_and_survive_a_kill() {
    let seed = seed();
    if let Ok(dir) = std::env::var(DIR) {
        return writer(&PathBuf::from(dir), seed);
    }
    let dir = tempfile::tempdir().expect("temporary dir");
    let mut process = Command::new(std::env::current_exe().expect("this program"))
        .args([TEST, "--exact", "--nocapture"])
        .env(DIR, dir.path())
        .env("SEED", seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the writer");
    let output = BufReader::new(process.stdout.take().expect("piped"));
    let cost = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("cost ").map(str::to_owned))
        .expect("the writer reports its cost");
    process.kill().expect("kill the writer");
    process.wait().expect("reap the writer");

    let bytes: Vec<u64> = cost
        .split(' ')
        .map(|word| word.parse().expect("bytes"))
        .collect();
    let [many, later, unflushed, few, nothing, disabled] = bytes[..] else {
        panic!("{cost}")
    };
    let expected = MANY * PIECE..MANY * PIECE + CONCURRENT_WRITES;
    assert!(expected.contains(&many), "{many} bytes for {MANY} MiB");
    assert!(later < CONCURRENT_WRITES, "{later} bytes after that flush");
    assert!(
        unflushed < CONCURRENT_WRITES,
        "{unflushed} bytes before a flush"
    );
    let expected = FEW * PIECE..FEW * PIECE + CONCURRENT_WRITES;
    assert!(expected.contains(&few), "{few} bytes for {FEW} MiB");
    assert!(nothing < PIECE, "{nothing} bytes for a flush of nothing");
    assert!(
        disabled < PIECE,
        "{disabled} bytes for a flush that is switched off"
    );
    verify(dir.path(), seed);
    judge(dir.path());
}
