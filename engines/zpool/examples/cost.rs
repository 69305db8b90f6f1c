//! Measures the CPU time of operations on a volume in this process, without any protocol, to
//! compare builds, drivers and settings on one host.
//!
//! `cargo run --example cost -- FOLDER [direct]` creates a mirror on two files in FOLDER, of the
//! disk that is to be measured, and removes it again.

#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use block_device::{BlockDevice, Extent, WaitMode};
use engine::Volume as _;
use engine::capabilities::Datasets;
use engine::dataset::VolumeSpec;
use engine::pool::{GroupKind, PoolSpec};
use engine::volume::OpenOptions;
use units::ByteCount;
use zpool::device::file::{AccessOptions, Way};
use zpool::{Engine, EngineOptions, HostId, Pool, Volume};

const VOLUME_BYTES: u64 = 256 << 20;
const RUN_TIME: Duration = Duration::from_secs(4);

fn cpu_time() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime)
        .try_into()
        .expect("time goes forward")
}

/// Runs `operation` on random blocks with some threads, and prints rate and cost.
fn measure(what: &str, threads: usize, bytes: u64, operation: &(dyn Fn(u64) + Sync)) {
    let count = AtomicU64::new(0);
    let (cpu, wall) = (cpu_time(), Instant::now());
    std::thread::scope(|scope| {
        for seed in 0..threads {
            let count = &count;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed as u64);
                while wall.elapsed() < RUN_TIME {
                    operation(random.u64(0..VOLUME_BYTES / bytes) * bytes);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let count = count.into_inner() as f64;
    println!(
        "{what:32} {:>9.0} op/s {:>8.1} us CPU/op",
        count / wall.elapsed().as_secs_f64(),
        (cpu_time() - cpu).as_secs_f64() * 1e6 / count
    );
}

fn run(volume: &Volume) {
    let block = vec![0x5a_u8; 128 << 10];
    let write = |bytes: usize| {
        let block = &block;
        move |offset| {
            volume
                .write(offset, &block[..bytes], WaitMode::MayBlock)
                .expect("write");
        }
    };
    let read = |bytes: u64| {
        move |offset| {
            let extent = Extent::new(offset, bytes);
            drop(volume.read(extent, WaitMode::MayBlock).expect("read"));
        }
    };
    measure(
        "write 128K, async, 2 threads",
        2,
        128 << 10,
        &write(128 << 10),
    );
    volume.flush().expect("flush");
    measure("write 4K, async, 2 threads", 2, 4096, &write(4096));
    volume.flush().expect("flush");
    for threads in [1, 4] {
        let what = format!("write 4K and flush, {threads} threads");
        measure(&what, threads, 4096, &|offset| {
            write(4096)(offset);
            volume.flush().expect("flush");
        });
    }
    measure("read 4K, 2 threads", 2, 4096, &read(4096));
    measure("read 128K, 2 threads", 2, 128 << 10, &read(128 << 10));
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().expect("a dir"));
    let dir = tempfile::tempdir_in(dir).expect("temporary dir");
    let devices: Vec<PathBuf> = (0..2)
        .map(|number| {
            let path = dir.path().join(format!("leg{number}"));
            let file = std::fs::File::create(&path).expect("create");
            file.set_len(2 << 30).expect("size");
            path
        })
        .collect();
    let mut options = EngineOptions::new(HostId::derive("cost", "cost"));
    if arguments.next().is_some_and(|way| way == "direct") {
        options.devices.access = AccessOptions {
            files: Way::Direct,
            disks: Way::Direct,
        };
    }
    let engine = Engine::start(options).expect("start");
    let spec = PoolSpec::new("cost".parse().expect("name"), GroupKind::Mirror, devices);
    let pool = Pool::create(engine, &spec).expect("create");
    let name: units::VolumeName = "cost/volume".parse().expect("name");
    let mut spec = VolumeSpec::sparse(name.clone(), ByteCount(VOLUME_BYTES));
    spec.block_size = ByteCount::kib(4);
    pool.create_volume(&spec).expect("volume");
    let volume = pool
        .open_volume(&name, OpenOptions::default())
        .expect("open");
    run(&volume);
    volume.close();
    drop(volume);
    pool.export().map_err(|(_, error)| error).expect("export");
}
