//! Measures the cost of a volume's calls: wall time and CPU of the whole process per call, without
//! any protocol. `volume_cost [FOLDER]` creates a scratch pool there (default: the temporary
//! directory).

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use block_device::{BlockDevice, Commit, Extent, WaitMode};
use engine::capabilities::{Datasets, Ownership};
use engine::dataset::VolumeSpec;
use engine::pool::{GroupKind, PoolSpec};
use engine::volume::OpenOptions;
use units::{ByteCount, VolumeName};
use zpool::{Engine, EngineOptions, HostId, Pool, Volume};

const VOLUME_BYTES: u64 = 256 << 20;
const SECONDS: f64 = 2.0;

/// CPU time of all threads of this process.
fn cpu() -> Duration {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(usage.tv_sec as u64, usage.tv_nsec as u32)
}

/// Repeats `call` and prints its cost. Then blocks until the pool has synced, so that the cost of
/// writing the data to disk is included.
fn measure(pool: &Pool, what: &str, bytes: u64, mut call: impl FnMut()) {
    if std::env::var("ONLY").is_ok_and(|only| only != what) {
        return;
    }
    pool.sync().expect("sync");
    let (start, cpu_start) = (Instant::now(), cpu());
    let mut calls = 0_u32;
    while start.elapsed().as_secs_f64() < SECONDS {
        for _ in 0..16 {
            call();
        }
        calls += 16;
    }
    let wall = start.elapsed();
    pool.sync().expect("sync");
    let cpu = cpu() - cpu_start;
    println!(
        "{what:<28} {:>9.0}/s {:>8.2} us wall {:>8.2} us CPU {:>8.0} MB/s",
        f64::from(calls) / wall.as_secs_f64(),
        wall.as_secs_f64() * 1e6 / f64::from(calls),
        cpu.as_secs_f64() * 1e6 / f64::from(calls),
        f64::from(calls) * bytes as f64 / wall.as_secs_f64() / 1e6,
    );
}

fn write(volume: &Volume, extent: Extent, fill: &[u8]) {
    let mut loan = volume.lend(extent).expect("lend");
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    let mut at = 0;
    for part in parts {
        part.copy_from_slice(&fill[at..at + part.len()]);
        at += part.len();
    }
    match loan.commit(WaitMode::NoWait) {
        Commit::Done => {}
        Commit::WouldBlock(loan) => {
            assert!(matches!(loan.commit(WaitMode::MayBlock), Commit::Done))
        }
        Commit::Failed(error) => panic!("{error}"),
    }
}

fn run(pool: &Pool, block: u64) {
    let name: VolumeName = format!("tank/v{block}").parse().expect("a name");
    let mut spec = VolumeSpec::sparse(name.clone(), ByteCount(VOLUME_BYTES));
    spec.block_size = ByteCount(block);
    pool.create_volume(&spec).expect("create");
    let volume = pool
        .open_volume(&name, OpenOptions::default())
        .expect("open");
    let mut random = fastrand::Rng::with_seed(1);
    let fill: Vec<u8> = (0..4 << 20).map(|_| random.u8(..)).collect();
    println!("volume with blocks of {block}");
    for at in (0..VOLUME_BYTES).step_by(1 << 20) {
        write(
            &volume,
            Extent::new(at, 1 << 20),
            &fill[(at % (1 << 20)) as usize..],
        );
    }
    pool.sync().expect("sync");
    let mut at = |length: u64| random.u64(0..VOLUME_BYTES / length) * length;
    for length in [4 << 10, 16 << 10, 128 << 10, 1 << 20] {
        let mut blocked = 0;
        measure(pool, &format!("read {}K", length >> 10), length, || {
            let extent = Extent::new(at(length), length);
            let loan = volume.read(extent, WaitMode::NoWait).or_else(|_| {
                blocked += 1;
                volume.read(extent, WaitMode::MayBlock)
            });
            let loan = loan.expect("read");
            let mut parts = Vec::new();
            loan.append_parts(&mut parts);
            std::hint::black_box(&parts);
        });
        if blocked > 0 {
            println!("  {blocked} of them had to wait");
        }
    }
    for length in [4 << 10, 16 << 10, 128 << 10, 1 << 20] {
        let mut turn = 0;
        measure(pool, &format!("write {}K", length >> 10), length, || {
            turn = (turn + 4096) % (2 << 20);
            write(&volume, Extent::new(at(length), length), &fill[turn..]);
        });
    }
    measure(pool, "write 4K and flush", 4 << 10, || {
        write(&volume, Extent::new(at(4 << 10), 4 << 10), &fill);
        volume.flush().expect("flush");
    });
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = tempfile::tempdir_in(dir)?;
    let disk = dir.path().join("disk");
    std::fs::File::create(&disk)?.set_len(4 << 30)?;
    let mut options = EngineOptions::new(HostId::derive("cost", "tank"));
    options.arc_bytes_max = ByteCount::gib(1);
    let engine = Engine::start(options)?;
    let spec = PoolSpec::new("tank".parse()?, GroupKind::Stripe, vec![disk]);
    let pool = Pool::create(engine, &spec)?;
    let only = std::env::var("BLOCK")
        .ok()
        .and_then(|text| text.parse().ok());
    for block in [4 << 10, 16 << 10, 128 << 10] {
        if only.is_some_and(|only: u64| only != block) {
            continue;
        }
        run(&pool, block);
    }
    pool.destroy().map_err(|(_, error)| error)?;
    Ok(())
}
