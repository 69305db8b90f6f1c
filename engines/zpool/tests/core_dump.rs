//! A core dump without the heap contains the stacks, and neither the cache nor a key.

#![allow(clippy::print_stderr, reason = "a skipped test prints the reason")]

mod support;

use std::hint::black_box;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use block_device::{BlockDevice, Extent, WaitMode};
use engine::capabilities::{Datasets, Ownership};
use engine::dataset::VolumeSpec;
use engine::keys::{KeyFormat, KeyMaterial, NewKey};
use engine::volume::OpenOptions;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};
use support::{Parts, dir, disks, engine, mirror, part};
use units::{ByteCount, VolumeName};

/// Written to the volume and read again.
const DATA_BYTES: u64 = 32 << 20;
const BLOCK_BYTES: u64 = 16 << 10;
/// Longer than the contents of all vector registers of a thread that a copy uses: those are in a dump.
const MARK_BYTES: usize = 512;
/// The largest dump without the heap: stacks that were touched, and the global variables.
const CORE_BYTES_MAX: u64 = 16 << 20;

/// A text that is in no file of the test: computed, so that global variables do not contain it.
fn mark(seed: u8, bytes: usize) -> Vec<u8> {
    let mut state = u32::from(seed);
    let letters = (0..bytes).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b'a' + (state >> 24) as u8 % 26
    });
    letters.collect()
}

/// A key, as the library holds it.
fn key() -> Vec<u8> {
    mark(7, 32)
}

fn fill_cache() {
    let pool = mirror(engine(), &disks(&["a", "b"]));
    let name: VolumeName = "tank/volume".parse().expect("a name");
    let mut spec = VolumeSpec::sparse(name.clone(), ByteCount(DATA_BYTES));
    spec.key = Some(NewKey {
        suite: Some("aes-256-gcm".to_owned()),
        format: KeyFormat::Raw,
        material: KeyMaterial::new(key().into()),
        iterations: None,
        location: "prompt".to_owned(),
    });
    spec.properties = vec![("compression".to_owned(), "off".into())];
    pool.create_volume(&spec).expect("create");
    let volume = pool.open_volume(&name, OpenOptions::default());
    let volume = volume.expect("open");
    let data = mark(1, MARK_BYTES).repeat(BLOCK_BYTES as usize / MARK_BYTES);
    for offset in (0..DATA_BYTES).step_by(BLOCK_BYTES as usize) {
        volume
            .write(offset, &data, WaitMode::MayBlock)
            .expect("write");
    }
    volume.flush().expect("flush");
    pool.sync().expect("sync");
    for offset in (0..DATA_BYTES).step_by(BLOCK_BYTES as usize) {
        let extent = Extent::new(offset, BLOCK_BYTES);
        drop(volume.read(extent, WaitMode::MayBlock).expect("read"));
    }
    // A process with a key is not dumpable. Here the second protection is tested without the first one.
    set_dumpable_behavior(DumpableBehavior::Dumpable).expect("dumpable");
    abort_with_a_mark_on_the_stack();
}

fn abort_with_a_mark_on_the_stack() -> ! {
    let aborting = std::thread::spawn(|| {
        let mut stack = [0_u8; MARK_BYTES];
        stack.copy_from_slice(&mark(2, MARK_BYTES));
        black_box(&mut stack);
        std::process::abort();
    });
    let _ = aborting.join();
    unreachable!("aborted")
}

fn begin() {
    // The kernel writes the dump there.
    std::env::set_current_dir(dir()).expect("the directory");
    let maximum = getrlimit(Resource::Core).maximum;
    let unlimited = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Core, unlimited).expect("unlimited");
}

/// The dump of a part that aborted.
fn core(parts: &Parts, part: &str) -> Option<PathBuf> {
    let ended = parts.run(part);
    assert!(!ended.success, "{part} aborts");
    assert!(!ended.output.contains("panicked"), "{}", ended.output);
    let entries = std::fs::read_dir(parts.dir()).expect("the directory");
    let is_core = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name == "core" || name.starts_with("core.")
    };
    entries.flatten().map(|entry| entry.path()).find(is_core)
}

fn contains(file: &Path, text: &[u8]) -> bool {
    let bytes = std::fs::read(file).expect("a dump");
    let mut found = bytes.windows(text.len());
    found.any(|found| found == text)
}

#[test]
fn core_without_heap_has_stacks_and_neither_cache_nor_key() {
    match part().as_deref() {
        Some("without-heap") => {
            begin();
            zpool::core_dump::exclude_heap().expect("excluded");
            return fill_cache();
        }
        Some("with-heap") => {
            begin();
            return fill_cache();
        }
        _ => {}
    }
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("a pattern");
    let is_permitted = getrlimit(Resource::Core).maximum.is_none();
    if pattern.trim() != "core" || !is_permitted {
        eprintln!(
            "skipped: core dumps of this host go to {}, or are limited",
            pattern.trim()
        );
        return;
    }
    let parts = Parts::of("core_without_heap_has_stacks_and_neither_cache_nor_key");
    let (data, stack) = (mark(1, MARK_BYTES), mark(2, MARK_BYTES));
    let Some(all) = core(&parts, "with-heap") else {
        eprintln!("skipped: the kernel writes no core dump here");
        return;
    };
    assert!(
        contains(&all, &data) && contains(&all, &key()),
        "the test finds both in a dump with the heap"
    );
    std::fs::remove_file(&all).expect("removed");
    for disk in ["a", "b"] {
        std::fs::remove_file(parts.dir().join(disk)).expect("removed");
    }

    let core = core(&parts, "without-heap").expect("a dump");
    assert!(contains(&core, &stack), "stacks are in the dump");
    assert!(!contains(&core, &data), "the cache is in the dump");
    assert!(!contains(&core, &key()), "the key is in the dump");
    // The file is sparse.
    let written = std::fs::metadata(&core).expect("a dump").blocks() * 512;
    assert!(written < CORE_BYTES_MAX, "{written} bytes");
}
