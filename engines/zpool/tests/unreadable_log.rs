//! A replay encounters an unreadable block. No part of the log is lost by that.

mod support;

use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use block_device::{BlockDevice, Extent, WaitMode};
use engine::Volume as _;
use engine::capabilities::{Datasets, IntentLogs, Ownership};
use engine::dataset::{DatasetErrorKind, VolumeSpec};
use engine::pool::{GroupKind, ImportOptions, PoolSpec};
use engine::volume::OpenOptions;
use support::{Parts, dir, disks, engine, export, part, tank};
use units::{ByteCount, VolumeName};
use zpool::pool::discover;
use zpool::{Pool, Volume};

const BLOCK: u64 = 16 << 10;
const SECTOR: u64 = 4 << 10;
/// The contents of the block that will be unreadable.
const OLD: u8 = 0xa7;

fn volume_name() -> VolumeName {
    "tank/v".parse().expect("a name")
}

fn import() -> Pool {
    let engine = engine();
    let found = discover(&[dir()]).expect("search");
    let candidate = found.first().expect("a pool");
    let proof = zpool::pool::same_host_and_locked(engine, candidate).expect("its owner has died");
    Pool::import(engine, candidate, proof, &ImportOptions::default()).expect("import")
}

fn write(volume: &Volume, offset: u64, value: u8, length: u64) {
    let data = vec![value; length as usize];
    volume
        .write(offset, &data, WaitMode::MayBlock)
        .expect("write");
}

fn holds(volume: &Volume, offset: u64, value: u8, length: u64) -> bool {
    let loan = volume.read(Extent::new(offset, length), WaitMode::MayBlock);
    let loan = loan.expect("read");
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    parts.concat() == vec![value; length as usize]
}

/// Replaces the bytes `OLD` on the device with different ones, or restores them.
fn damage(device: &Path, from: u8, to: u8) -> usize {
    let bytes = std::fs::read(device).expect("read the device");
    let file = std::fs::OpenOptions::new().write(true).open(device);
    let file = file.expect("open the device");
    let mut found = 0;
    for (index, sector) in bytes.chunks_exact(SECTOR as usize).enumerate() {
        if sector.iter().all(|byte| *byte == from) {
            let other = vec![to; SECTOR as usize];
            file.write_all_at(&other, index as u64 * SECTOR)
                .expect("overwrite");
            found += 1;
        }
    }
    found
}

/// Writes a block normally, then commits `later` only to the log, and dies.
fn write_and_die(later: impl Fn(&Volume)) -> ! {
    let mut options = support::options();
    options.txg_timeout_s = 60;
    let engine = zpool::Engine::start(options).expect("start the engine");
    let device = disks(&["a"]).remove(0);
    let spec = PoolSpec::new(tank(), GroupKind::Stripe, vec![device]);
    let pool = Pool::create(engine, &spec).expect("create");
    let mut spec = VolumeSpec::sparse(volume_name(), ByteCount::mib(16));
    spec.block_size = ByteCount(BLOCK);
    spec.properties = vec![("compression".into(), "off".into())];
    pool.create_volume(&spec).expect("create a volume");
    let volume = pool
        .open_volume(&volume_name(), OpenOptions::default())
        .expect("open");
    write(&volume, 0, OLD, BLOCK);
    volume.begin_log().expect("begin the log");
    pool.sync().expect("sync");
    later(&volume);
    volume.flush().expect("flush");
    let own = rustix::process::getpid();
    let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    unreachable!("killed")
}

fn run_writer(parts: &Parts) {
    let ended = parts.start("write").wait().expect("wait");
    assert_eq!(ended.signal(), Some(9), "it kills itself");
}

#[test]
fn unreadable_log_is_kept_and_replayed_once_readable() {
    const TEST: &str = "unreadable_log_is_kept_and_replayed_once_readable";
    let opened = |pool: &Pool| pool.open_volume(&volume_name(), OpenOptions::default());
    match part().as_deref() {
        None => {
            let parts = Parts::of(TEST);
            run_writer(&parts);
            let device = parts.dir().join("a");
            assert_eq!(damage(&device, OLD, 0xff), 4, "one block, once");
            parts.pass("damaged");
            assert_eq!(damage(&device, 0xff, OLD), 4);
            parts.pass("mended");
            parts.zdb_is_content("tank");
        }
        // A quarter of the block that will be unreadable, and another block.
        Some("write") => write_and_die(|volume| {
            write(volume, SECTOR, 1, SECTOR);
            write(volume, 4 * BLOCK, 2, BLOCK);
        }),
        Some("damaged") => {
            let pool = import();
            for _ in 0..2 {
                let refused = opened(&pool).expect_err("acknowledged writes are missing");
                assert_eq!(refused.kind, DatasetErrorKind::LogUnreadable, "{refused}");
                assert_eq!(pool.is_unreplayed(&volume_name()).ok(), Some(true));
            }
            export(pool);
        }
        Some(_) => {
            let pool = import();
            let volume = opened(&pool).expect("all can be read");
            assert!(holds(&volume, 0, OLD, SECTOR));
            assert!(holds(&volume, SECTOR, 1, SECTOR));
            assert!(holds(&volume, 4 * BLOCK, 2, BLOCK));
            volume.close();
            assert_eq!(pool.is_unreplayed(&volume_name()).ok(), Some(false));
            export(pool);
        }
    }
}

#[test]
fn discarded_log_is_removed_and_the_volume_opens() {
    const TEST: &str = "discarded_log_is_removed_and_the_volume_opens";
    match part().as_deref() {
        None => {
            let parts = Parts::of(TEST);
            run_writer(&parts);
            assert_eq!(damage(&parts.dir().join("a"), OLD, 0xff), 4);
            parts.pass("discard");
        }
        Some("write") => write_and_die(|volume| {
            write(volume, SECTOR, 1, SECTOR);
            write(volume, 4 * BLOCK, 2, BLOCK);
        }),
        Some(_) => {
            let pool = import();
            assert_eq!(pool.discard_log(&volume_name()).ok(), Some(true));
            assert_eq!(pool.discard_log(&volume_name()).ok(), Some(false));
            let volume = pool
                .open_volume(&volume_name(), OpenOptions::default())
                .expect("nothing is replayed");
            assert!(
                holds(&volume, 4 * BLOCK, 0, BLOCK),
                "it was in the log only"
            );
            write(&volume, 4 * BLOCK, 5, BLOCK);
            volume.flush().expect("a new log begins");
            volume.close();
            export(pool);
        }
    }
}

#[test]
fn fully_overwritten_block_need_not_be_readable() {
    const TEST: &str = "fully_overwritten_block_need_not_be_readable";
    match part().as_deref() {
        None => {
            let parts = Parts::of(TEST);
            run_writer(&parts);
            assert_eq!(damage(&parts.dir().join("a"), OLD, 0xff), 4);
            parts.pass("replay");
            parts.zdb_is_content("tank");
        }
        Some("write") => write_and_die(|volume| {
            write(volume, 0, 3, BLOCK);
            write(volume, SECTOR, 1, SECTOR);
        }),
        Some(_) => {
            let pool = import();
            let volume = pool
                .open_volume(&volume_name(), OpenOptions::default())
                .expect("nothing has to be read");
            assert!(holds(&volume, 0, 3, SECTOR));
            assert!(holds(&volume, SECTOR, 1, SECTOR));
            assert!(holds(&volume, 2 * SECTOR, 3, 2 * SECTOR));
            volume.close();
            export(pool);
        }
    }
}
