//! The bound on the rate of scrubs and resilvers, and what they leave to clients.

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use block_device::{BlockDevice, Extent, WaitMode};
use engine::capabilities::{Datasets, Devices, Health, Ownership, Upkeep};
use engine::dataset::VolumeSpec;
use engine::pool::{ScanState, ScanStatus, ScrubCommand};
use engine::volume::OpenOptions;
use support::{disks, engine, export, isolated, mirror, options, wait_for_scan, wait_until};
use units::ByteCount;
use zpool::{Engine, Pool, Volume};

const MIB: u64 = 1 << 20;
const VOLUME_BYTES: u64 = 24 * MIB;
/// What one read of a scan, and the credit of a short pause, add to a bound.
const BURST_BYTES: u64 = 3 * MIB;

/// A volume with contents that cannot be compressed.
fn filled(pool: &Pool) -> Volume {
    let name = "tank/v".parse().expect("a name");
    let spec = VolumeSpec::sparse(name, ByteCount(VOLUME_BYTES));
    pool.create_volume(&spec).expect("create a volume");
    let volume = pool.open_volume(&spec.name, OpenOptions::default());
    let volume = volume.expect("open");
    for offset in (0..VOLUME_BYTES).step_by(MIB as usize) {
        write(&volume, offset, &noise(offset + 1, MIB as usize));
    }
    pool.sync().expect("sync");
    volume
}

fn write(volume: &Volume, offset: u64, data: &[u8]) {
    volume
        .write(offset, data, WaitMode::MayBlock)
        .expect("write");
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    fastrand::Rng::with_seed(seed).fill(&mut data);
    data
}

fn scan(pool: &Pool) -> ScanStatus {
    pool.status().expect("status").scan.expect("a scan")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_scrub_reads_no_more_than_its_bound_allows_and_another_bound_counts_at_once() {
    const TEST: &str =
        "a_scrub_reads_no_more_than_its_bound_allows_and_another_bound_counts_at_once";
    isolated(TEST, || {
        let pool = mirror(engine(), &disks(&["a", "b"]));
        let volume = filled(&pool);
        pool.bound_copies(Some(4 * MIB));
        let begun = Instant::now();
        pool.scrub(ScrubCommand::Start).expect("scrub");
        // Each block is on both devices, and counts once.
        let mut last = 0;
        wait_until("half of it is read", || {
            let done = scan(&pool).done_bytes;
            let allowed = 4 * MIB as u128 * begun.elapsed().as_millis() / 1000;
            assert!(
                u128::from(done) <= allowed + u128::from(BURST_BYTES),
                "{done} of {allowed}"
            );
            last = done;
            done >= VOLUME_BYTES / 2
        });
        assert_eq!(scan(&pool).state, ScanState::Running, "{last}");
        pool.bound_copies(None);
        wait_for_scan(&pool);
        assert!(
            begun.elapsed() >= Duration::from_secs(2),
            "half of it, by the bound"
        );
        drop(volume);
        export(pool);
    });
}

#[test]
fn a_transaction_group_is_not_delayed_by_a_resilver() {
    isolated("a_transaction_group_is_not_delayed_by_a_resilver", || {
        let devices = disks(&["a", "b", "c"]);
        let pool = mirror(engine(), &devices[..2]);
        let volume = filled(&pool);
        pool.bound_copies(Some(MIB));
        pool.attach(text(&devices[0]), &devices[2], false)
            .expect("attach");
        wait_until("the resilver reads", || scan(&pool).done_bytes > MIB);
        let begun = Instant::now();
        for round in 0..10 {
            write(&volume, round * MIB, &noise(1000 + round, 4096));
            pool.sync().expect("sync");
        }
        // By itself the library resilvers for three seconds in each group.
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(scan(&pool).state, ScanState::Running);
        pool.bound_copies(None);
        wait_for_scan(&pool);
        drop(volume);
        export(pool);
    });
}

/// Writes and reads of clients never pause, and the memory for changes is always full.
#[test]
fn a_resilver_completes_however_busy_clients_are() {
    isolated("a_resilver_completes_however_busy_clients_are", || {
        let mut options = options();
        options.dirty_bytes_max = ByteCount::mib(16);
        options.arc_bytes_max = ByteCount::mib(64);
        let engine = Engine::start(options).expect("start");
        let devices = disks(&["a", "b", "c"]);
        let pool = mirror(engine, &devices[..2]);
        let volume = filled(&pool);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for client in 0..4_u64 {
                let (volume, is_over) = (&volume, &is_over);
                scope.spawn(move || {
                    let data = noise(client + 1, 16 << 10);
                    let mut turn = client;
                    while !is_over.load(Ordering::Relaxed) {
                        turn += 7;
                        let offset = turn * (16 << 10) % VOLUME_BYTES;
                        match client {
                            0 => write(volume, offset, &data),
                            1 => {
                                write(volume, offset, &data);
                                volume.flush().expect("flush");
                            }
                            _ => {
                                let extent = Extent::new(offset, 16 << 10);
                                drop(volume.read(extent, WaitMode::MayBlock).expect("read"));
                            }
                        }
                    }
                });
            }
            pool.attach(text(&devices[0]), &devices[2], false)
                .expect("attach");
            let end = wait_for_scan(&pool);
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(end.scan.expect("a scan").errors, 0);
        });
        drop(volume);
        export(pool);
    });
}
