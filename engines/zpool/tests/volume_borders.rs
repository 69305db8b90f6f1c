//! Volumes at the limits of offsets, lengths and sizes, and invalid log records. The library aborts the process on an
//! unexpected argument.

mod support;

use std::ffi::{CString, c_char, c_int, c_void};

use block_device::{BlockDevice, ErrorKind, Extent, Update, WaitMode, Zero};
use engine::Volume as _;
use engine::capabilities::{Datasets, Ownership};
use engine::dataset::{DatasetError, VolumeSpec};
use engine::pool::ImportOptions;
use engine::volume::OpenOptions;
use support::borders::{Written, engine, new_pool, say, seed};
use support::{Parts, dir, export, isolated, kill_oneself, part};
use units::{ByteCount, VolumeName};
use zpool::pool::{discover, same_host_and_locked};
use zpool::{Pool, Volume};

/// The largest size that is a multiple of 128 KiB.
const LARGEST: u64 = u64::MAX - (128 << 10) + 1;
const ROUNDS: usize = 300;
const PIECE_MAX: u64 = 300 << 10;

fn name(name: &str) -> VolumeName {
    format!("tank/{name}").parse().expect("a name")
}

fn create(pool: &Pool, called: &str, size: u64, block: u64) -> Volume {
    let mut spec = VolumeSpec::sparse(name(called), ByteCount(size));
    spec.block_size = ByteCount(block);
    pool.create_volume(&spec).expect("create");
    open(pool, called).expect("open")
}

fn open(pool: &Pool, called: &str) -> Result<Volume, DatasetError> {
    pool.open_volume(&name(called), OpenOptions::default())
}

fn write(volume: &Volume, offset: u64, bytes: &[u8]) {
    let written = volume.write(offset, bytes, WaitMode::MayBlock);
    written.expect("there is room");
}

fn read(volume: &Volume, extent: Extent) -> Vec<u8> {
    let loan = volume.read(extent, WaitMode::MayBlock).expect("read");
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    parts.concat()
}

/// Bytes that are allocated.
fn allocated(volume: &Volume, extent: Extent) -> u64 {
    let runs = volume.status(extent, 10_000).expect("status");
    let length: u64 = runs.iter().map(|run| run.length).sum();
    assert_eq!(length, extent.length);
    let runs = runs.iter().filter(|run| run.allocated);
    runs.map(|run| run.length).sum()
}

/// An offset at a limit: of the volume, of a block, of an indirect block, of numbers.
fn border(known: &Written, random: &mut fastrand::Rng, size: u64) -> u64 {
    let one = known.ranges.get(random.usize(0..known.ranges.len().max(1)));
    let base = match random.u8(0..7) {
        0 => 0,
        1 => size,
        2 => one.map_or(0, |range| range.1),
        3 => 1 << random.u32(9..64),
        4 => (512 << 10) * random.u64(0..4),
        5 => (128 << 20) * random.u64(0..4),
        _ => 512 * random.u64(0..1 << 12),
    };
    match random.u8(0..6) {
        0 => base.saturating_sub(512),
        1 => base.saturating_add(512),
        2 => base.saturating_sub(128 << 10),
        3 => u64::MAX,
        _ => base,
    }
}

fn length(random: &mut fastrand::Rng) -> u64 {
    let base = [512, 4096, 16 << 10, 128 << 10, 256 << 10][random.usize(0..5)];
    match random.u8(0..4) {
        0 => base,
        1 => base + 512,
        2 => base.saturating_sub(512).max(512),
        _ => 512 * random.u64(1..PIECE_MAX / 512),
    }
}

/// One operation, on the volume and on the model.
fn step(random: &mut fastrand::Rng, volume: &Volume, known: &mut Written) {
    let size = volume.geometry().size;
    let at = border(known, random, size);
    let kind = random.u8(0..8);
    let length = match (kind, random.u8(0..3)) {
        (4 | 5, 0) => u64::MAX,
        (4 | 5, 1) => size.saturating_sub(at),
        _ => length(random),
    };
    let extent = Extent::new(at, length);
    let is_inside = at.checked_add(length).is_some_and(|end| end <= size);
    let byte = random.u8(1..);
    let data = || vec![byte; length as usize];
    let (done, put) = match kind {
        0 | 1 => (volume.write(at, &data(), WaitMode::MayBlock), Some(byte)),
        2 => {
            let zeroed = volume.write_zeroes(extent, Zero::KeepAllocated, WaitMode::MayBlock);
            (zeroed, Some(0))
        }
        3 => {
            let changed = volume.update(extent, &mut |bytes| {
                bytes.fill(byte);
                Update::Write
            });
            (changed.map(drop), Some(byte))
        }
        4 => (volume.unmap(extent, WaitMode::MayBlock), Some(0)),
        5 => (volume.status(extent, 1000).map(drop), None),
        6 => {
            let loan = volume.read(extent, WaitMode::MayBlock).map(drop);
            if loan.is_ok() {
                assert!(
                    read(volume, extent) == known.read(extent.offset, extent.length as usize),
                    "{extent:?}"
                );
            }
            (loan, None)
        }
        _ => {
            volume.flush().expect("durable");
            return;
        }
    };
    match done {
        Ok(()) => {
            assert!(is_inside || length == 0, "{extent:?} of {size}");
            if let Some(byte) = put {
                known.put(at, at + length, byte);
            }
        }
        Err(error) => {
            assert!(!is_inside, "{error}");
            assert_eq!(error.kind, ErrorKind::OutOfRange);
        }
    }
}

#[test]
fn random_operations_at_volume_borders_match_written_data() {
    const TEST: &str = "random_operations_at_volume_borders_match_written_data";
    if part().is_none() {
        let parts = Parts::of(TEST);
        parts.pass("all");
        parts.zdb_is_content("tank");
        return;
    }
    let mut random = fastrand::Rng::with_seed(seed());
    let pool = new_pool();
    for (index, (size, block)) in [
        (8 << 20, 512),
        (1 << 40, 16 << 10),
        (1 << 63, 4 << 10),
        (LARGEST, 128 << 10),
        (LARGEST, 512),
        (1 << 50, 16 << 20),
    ]
    .into_iter()
    .enumerate()
    {
        let called = format!("volume{index}");
        let mut volume = create(&pool, &called, size, block);
        let mut known = Written::default();
        for round in 0..ROUNDS {
            step(&mut random, &volume, &mut known);
            match round % 100 {
                50 => pool.sync().expect("sync"),
                99 => {
                    volume.close();
                    volume = open(&pool, &called).expect("open");
                }
                _ => {}
            }
        }
        let smaller = size / 2 / block * block;
        volume.resize(smaller).expect("smaller");
        known.put(smaller, u64::MAX, 0);
        volume.resize(size).expect("larger");
        for at in [0, smaller - 4096, smaller, size - 4096] {
            let extent = Extent::new(at, 4096);
            assert!(
                read(&volume, extent) == known.read(extent.offset, extent.length as usize),
                "{extent:?}"
            );
        }
        volume.close();
    }
    export(pool);
}

/// The space for all of such a volume exceeds the range of its counter.
#[test]
fn reservation_larger_than_any_pool_is_refused() {
    const TEST: &str = "reservation_larger_than_any_pool_is_refused";
    isolated(TEST, || {
        let pool = new_pool();
        for size in [1 << 40, 1 << 63, 3 << 62, LARGEST] {
            for block in [512, 16 << 10, 128 << 10] {
                let spec = VolumeSpec {
                    sparse: false,
                    block_size: ByteCount(block),
                    ..VolumeSpec::sparse(name("volume"), ByteCount(size))
                };
                let refused = pool.create_volume(&spec).expect_err("no space");
                let why = format!("{refused:?}");
                assert!(
                    why.contains("NoSpace") || why.contains("refreservation"),
                    "{why}"
                );
            }
        }
        export(pool);
    });
}

/// No block is allocated where a tree of one level, or of two, would have further blocks. A write there is freed at
/// once, although the tree on disk has one level.
#[test]
fn large_volume_allocates_a_single_block() {
    isolated("large_volume_allocates_a_single_block", || {
        const BLOCK: u64 = 16 << 10;
        let pool = new_pool();
        let volume = create(&pool, "volume", LARGEST, BLOCK);
        let whole = Extent::new(0, LARGEST);
        write(&volume, 0, &[1; BLOCK as usize]);
        assert_eq!(allocated(&volume, whole), BLOCK);
        for at in [BLOCK << 10, BLOCK << 20, BLOCK << 30] {
            assert_eq!(allocated(&volume, Extent::new(at, BLOCK)), 0, "{at}");
        }
        write(&volume, LARGEST - BLOCK, &[1; BLOCK as usize]);
        let freed = volume.unmap(whole, WaitMode::MayBlock);
        freed.expect("a change that frees");
        assert_eq!(allocated(&volume, whole), 0);
        assert_eq!(read(&volume, Extent::new(0, 512)), [0; 512]);
        volume.close();
        export(pool);
    });
}

/// The library's functions for a log. The shim writes only the records that it needs.
mod library {
    use super::{c_char, c_int, c_void};

    unsafe extern "C" {
        pub fn dmu_objset_hold(
            name: *const c_char,
            tag: *const c_void,
            out: *mut *mut c_void,
        ) -> c_int;
        pub fn dmu_objset_rele(objset: *mut c_void, tag: *const c_void);
        pub fn dmu_objset_zil(objset: *mut c_void) -> *mut c_void;
        pub fn dmu_tx_create(objset: *mut c_void) -> *mut c_void;
        pub fn dmu_tx_assign(tx: *mut c_void, how: u64) -> c_int;
        pub fn dmu_tx_commit(tx: *mut c_void);
        pub fn zil_itx_create(kind: u64, bytes: usize) -> *mut c_void;
        pub fn zil_itx_assign(log: *mut c_void, itx: *mut c_void, tx: *mut c_void);
    }
}

const WRITE: u64 = 9;
const TRUNCATE: u64 = 10;
const CLONE: u64 = 24;
/// `DMU_TX_WAIT`.
const MAY_WAIT: u64 = 1;
/// Words of an `itx_t` before its record, at most; and which of them has the kind of a write.
const ITX_WORDS: usize = 16;
const ITX_STATE: usize = 3;
/// `WR_COPIED`: the record has its bytes.
const COPIED: u32 = 1;
/// Words of a record's common header, the first two of which are its type and length.
const HEADER_WORDS: usize = 4;

/// Adds a record to the log of a volume that was written to: the bytes after the common header.
fn log(volume: &Volume, kind: u64, words: &[u64]) {
    let c_name = CString::new(volume.name()).expect("a name");
    let bytes = (HEADER_WORDS + words.len()) * 8;
    let tag: *const c_void = (&raw const bytes).cast();
    // SAFETY: the volume is open, so its objset and its log stay valid when the hold is returned. The record has room
    // for `words` after its header, which is found in the first words of the library's record.
    unsafe {
        let mut objset = std::ptr::null_mut();
        let held = library::dmu_objset_hold(c_name.as_ptr(), tag, &mut objset);
        assert_eq!(held, 0);
        library::dmu_objset_rele(objset, tag);
        let tx = library::dmu_tx_create(objset);
        assert_eq!(library::dmu_tx_assign(tx, MAY_WAIT), 0);
        let itx: *mut u64 = library::zil_itx_create(kind, bytes).cast();
        *itx.add(ITX_STATE).cast::<u32>() = COPIED;
        let is_header = |at: &usize| *itx.add(*at) == kind && *itx.add(*at + 1) == bytes as u64;
        let header = (ITX_STATE..ITX_WORDS).find(is_header);
        let record = itx.add(header.expect("a record") + HEADER_WORDS);
        record.copy_from_nonoverlapping(words.as_ptr(), words.len());
        library::zil_itx_assign(library::dmu_objset_zil(objset), itx.cast(), tx);
        library::dmu_tx_commit(tx);
    }
}

/// A record of a write with a null pointer, and with so many bytes of its own.
fn write_record(offset: u64, length: u64, bytes: usize) -> (u64, Vec<u64>) {
    let mut words = vec![1, offset, length, 0];
    words.resize(4 + 16 + bytes / 8, 0);
    (WRITE, words)
}

fn clone_record(range: [u64; 2], block: u64, count: u64, pointer: u64) -> (u64, Vec<u64>) {
    let mut words = vec![1, range[0], range[1], block, count];
    words.resize(5 + 16 * 2, pointer);
    (CLONE, words)
}

const SIZE: u64 = 8 << 20;
const BLOCK: u64 = 16 << 10;

/// Each for the log of a volume.
fn records() -> Vec<(u64, Vec<u64>)> {
    let mut records = Vec::new();
    let numbers = [
        0,
        1,
        BLOCK,
        SIZE - 1,
        SIZE,
        SIZE + 1,
        1 << 31,
        1 << 63,
        u64::MAX,
    ];
    for offset in numbers {
        for length in [0, 1, SIZE, u64::MAX - offset, u64::MAX] {
            records.push((TRUNCATE, vec![1, offset, length]));
        }
        for length in [0, 64, 65, 1 << 31, u64::MAX] {
            records.push(write_record(offset, length, 64));
        }
        records.push(write_record(offset, 512, 0));
        records.push(write_record(offset, 16 << 20, 0));
        records.push(clone_record([offset, 2 * BLOCK], BLOCK, 2, 0));
        records.push(clone_record([offset, offset], BLOCK, 2, 0));
    }
    records.push(clone_record([0, 2 * BLOCK], BLOCK, 1, 0));
    records.push(clone_record([0, 2 * BLOCK], BLOCK, 2, u64::MAX));
    records.push(clone_record([0, 2 * BLOCK], 512, 2, 0));
    records.push(clone_record([0, 2 * BLOCK], 0, 2, 0));
    records
}

fn crash(records: &[(u64, Vec<u64>)]) -> ! {
    let pool = new_pool();
    let volumes: Vec<_> = (0..records.len())
        .map(|index| create(&pool, &format!("volume{index}"), SIZE, BLOCK))
        .collect();
    for volume in &volumes {
        write(volume, 0, &[1; 512]);
        volume.flush().expect("durable");
    }
    pool.sync().expect("sync");
    for (volume, (kind, words)) in std::iter::zip(&volumes, records) {
        log(volume, *kind, words);
        write(volume, BLOCK, &[2; 512]);
        volume.flush().expect("durable");
    }
    kill_oneself()
}

/// Whatever their origin, a volume either replays them or is refused, and the process survives.
#[test]
fn records_of_volumes_at_borders_are_replayed_or_refused() {
    const TEST: &str = "records_of_volumes_at_borders_are_replayed_or_refused";
    match part().as_deref() {
        None => {
            let parts = Parts::of(TEST);
            assert!(!parts.run("crash").success, "it kills itself");
            parts.pass("look");
            parts.zdb_is_content("tank");
        }
        Some("crash") => crash(&records()),
        Some(_) => {
            let pool = support::import(engine());
            let opened = |index: &usize| open(&pool, &format!("volume{index}"));
            let mut refused = 0;
            for index in 0..records().len() {
                match opened(&index) {
                    Err(_) => refused += 1,
                    // The data of later records was replayed, too.
                    Ok(volume) => {
                        assert_eq!(read(&volume, Extent::new(BLOCK, 512)), [2; 512]);
                        volume.close();
                    }
                }
            }
            say(&format!("{refused} of {} refused", records().len()));
            assert!((1..records().len()).contains(&refused));
            let again = (0..records().len()).filter(|index| opened(index).is_err());
            assert_eq!(refused, again.count());
            export(pool);
        }
    }
}

/// The part `crash` leaves a record that is shorter than its contents; the import reports that.
fn is_not_imported(test: &'static str, record: (u64, Vec<u64>)) {
    match part().as_deref() {
        None => {
            let parts = Parts::of(test);
            assert!(!parts.run("crash").success, "it kills itself");
            parts.pass("look");
        }
        Some("crash") => crash(&[record]),
        Some(_) => {
            let engine = engine();
            let found = discover(&[dir()]).expect("search");
            let candidate = found.first().expect("a pool");
            let proof = same_host_and_locked(engine, candidate).expect("its owner has died");
            let imported = Pool::import(engine, candidate, proof, &ImportOptions::default());
            say(&imported.expect_err("the log cannot be read").to_string());
        }
    }
}

#[test]
fn write_record_without_a_pointer_is_unreadable() {
    const TEST: &str = "write_record_without_a_pointer_is_unreadable";
    is_not_imported(TEST, (WRITE, vec![1, 0, 0, 0]));
}

#[test]
fn clone_record_without_its_pointers_is_unreadable() {
    const TEST: &str = "clone_record_without_its_pointers_is_unreadable";
    is_not_imported(TEST, (CLONE, vec![1, 0, 1 << 40, 1 << 20, 1 << 20]));
}

#[test]
fn zero_record_past_the_end_is_unreadable() {
    const TEST: &str = "zero_record_past_the_end_is_unreadable";
    is_not_imported(TEST, write_record(0, 1 << 40, 0));
}
