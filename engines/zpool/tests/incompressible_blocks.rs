//! Only blocks whose sample shrinks are compressed; either form is read back, and the stock `zdb` finds no fault.

mod volume_support;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block_device::{BlockDevice, Extent, WaitMode};
use engine::capabilities::{Datasets, Ownership, Properties};
use engine::dataset::{Value, VolumeSpec};
use engine::pool::{GroupKind, PoolSpec};
use engine::volume::OpenOptions;
use units::ByteCount;
use volume_support::{disk_files, judge, read, volume_name, watch_devices};
use zpool::device::IoKind;
use zpool::{Engine, EngineOptions, HostId, Pool};

const KIB: usize = 1 << 10;
const BLOCK: usize = 128 * KIB;
/// Blocks of one kind, and of the metadata about them.
const BLOCKS: u64 = 64;
const METADATA_BYTES: u64 = 2 << 20;
/// A sample has a piece of this size at each quarter of a block.
const PIECE: usize = 2 * KIB;

/// A block of noise in these ranges, and of zeros in all others.
fn block(bytes: usize, random: &mut fastrand::Rng, noise: &[Range<usize>]) -> Vec<u8> {
    let mut block = vec![0; bytes];
    for range in noise {
        block[range.clone()].fill_with(|| random.u8(..));
    }
    block
}

#[test]
fn a_block_is_compressed_if_its_sample_shrinks() {
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    let mut options = EngineOptions::new(HostId::derive("test", "tank"));
    options.txg_timeout_s = 60;
    watch_devices(&mut options, move |io| {
        if io.kind() == IoKind::Write {
            count.fetch_add(io.length() as u64, Ordering::Relaxed);
        }
    });
    let engine = Engine::start(options).expect("the engine starts");
    let dir = tempfile::tempdir().expect("temporary dir");
    let devices = disk_files(dir.path(), 1, 512 << 20);
    let name = "tank".parse().expect("a pool name");
    let spec = PoolSpec::new(name, GroupKind::Stripe, devices);
    let pool = Pool::create(engine, &spec).expect("the pool is created");

    let one = |range: Range<usize>| Vec::from([range]);
    let quarters = [0, 1, 2, 3].map(|quarter| quarter * BLOCK / 4);
    let pieces = quarters.map(|at| at..at + PIECE);
    // (name, bytes of a block, its noise, whether it is stored in full)
    let kinds = [
        ("noise", BLOCK, one(0..BLOCK), true),
        ("zeros-between-pieces", BLOCK, pieces.to_vec(), true),
        ("half-of-noise", BLOCK, one(0..BLOCK / 2), false),
        ("noise-between-pieces", BLOCK, one(PIECE..BLOCK / 4), false),
        (
            "small",
            32 * KIB,
            vec![0..PIECE, 8 * KIB..8 * KIB + PIECE],
            false,
        ),
    ];
    for (name, bytes, noise, is_in_full) in kinds {
        let used = used_by(&pool, &written, name, bytes, &noise);
        let whole = BLOCKS * bytes as u64;
        assert_eq!(used >= whole, is_in_full, "{name}: {used} of {whole} bytes");
        assert!(used < whole + METADATA_BYTES, "{name}: {used} bytes");
    }
    pool.export().map_err(|(_, e)| e).expect("export");
    judge(dir.path());
}

/// Returns the bytes that the disk receives for blocks of a kind.
fn used_by(
    pool: &Pool,
    written: &AtomicU64,
    name: &str,
    bytes: usize,
    noise: &[Range<usize>],
) -> u64 {
    let name = volume_name(&format!("tank/{name}"));
    let mut spec = VolumeSpec::sparse(name.clone(), ByteCount(BLOCKS * bytes as u64));
    spec.block_size = ByteCount(bytes as u64);
    pool.create_volume(&spec).expect("the volume is created");
    let lz4 = [("compression".to_owned(), Value::from("lz4"))];
    pool.set_dataset_properties((&name).into(), &lz4)
        .expect("set");
    let volume = pool
        .open_volume(&name, OpenOptions::default())
        .expect("the volume opens");
    pool.sync().expect("sync");
    let before = written.load(Ordering::Relaxed);
    let mut random = fastrand::Rng::with_seed(bytes as u64);
    let blocks: Vec<_> = (0..BLOCKS)
        .map(|_| block(bytes, &mut random, noise))
        .collect();
    for (number, block) in (0..).zip(&blocks) {
        volume
            .write(number * bytes as u64, block, WaitMode::MayBlock)
            .expect("write");
    }
    pool.sync().expect("sync");
    for (number, block) in (0..).zip(&blocks) {
        let extent = Extent::new(number * bytes as u64, bytes as u64);
        assert_eq!(read(&volume, extent), *block, "block {number} of {name}");
    }
    written.load(Ordering::Relaxed) - before
}
