//! The cost of a commit of files: small writes use the intent log, and large ones go directly to their final blocks
//! instead of being written twice.

mod support;
mod volume_support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use engine::OpenFileSystem;
use engine::capabilities::{FileSystems, Ownership};
use engine::pool::{GroupKind, PoolSpec};
use file_system::{FileError, FileSystem, Identity, Make, Node, SetAttributes};
use support::{
    Parts, dir, disks, export, import, isolated, kill_oneself, options, part, sized_disks, tank,
};
use units::{ByteCount, VolumeName};
use volume_support::watch_devices;
use zpool::device::faults::{Fault, Faults};
use zpool::device::{DeviceIo, IoKind};
use zpool::{Engine, EngineOptions, Pool};

const PIECE: u64 = 1 << 20;
/// Pieces that a commit finds: few enough for the log, and too many for it.
const FEW: u64 = 8;
const MANY: u64 = 96;
/// Pieces that are too many as well, but so few that no group starts to sync before the commit.
const MUCH: u64 = 40;
/// Pieces that arrive while such a commit is in progress.
const CONCURRENT_BYTES: u64 = 24;
/// A write with a record that spans several log blocks, over the first part of one of half its length.
const LONG: usize = 600_000;
/// Writes and flushes after which the power fails during its commit: none, some blocks of the log, all.
const STEPS: std::ops::Range<u64> = 0..10;
/// A pool that fills quickly, the pieces in which it is filled, and how many are only in a log.
const SMALL_POOL: u64 = 128 << 20;
const FILLING_PIECE: usize = 128 << 10;
const LOGGED_PIECES: u64 = 64;
/// Labels, and the metadata that a transaction group writes.
const CONCURRENT_WRITES: u64 = 6 << 20;

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};

fn make(files: &dyn FileSystem, name: &[u8]) -> Node {
    let none = SetAttributes::default();
    let made = files.make(&ROOT, files.root(), name, Make::File, &none, None);
    made.expect("a new file").object.node
}

/// Noise, or it would be compressed.
fn write(files: &dyn FileSystem, node: Node, pieces: u64) {
    let mut random = fastrand::Rng::with_seed(pieces);
    for number in 0..pieces {
        let piece: Vec<u8> = std::iter::repeat_with(|| random.u64(..))
            .take(PIECE as usize / 8)
            .flat_map(u64::to_le_bytes)
            .collect();
        files
            .write(node, number * PIECE, &piece)
            .expect("it is written");
    }
}

/// A file system with the files `many` and `few`, on a pool without timed transaction groups. `see` observes the I/O of
/// devices.
fn with_files(
    see: impl Fn(&DeviceIo) + Send + Sync + 'static,
    test: impl FnOnce(&Pool, &dyn FileSystem, (Node, Node)),
) {
    let mut options = options();
    options.dirty_bytes_max = ByteCount::mib(1024);
    options.txg_timeout_s = 60;
    // With this much memory and space no write is throttled until a group frees some.
    options.arc_bytes_max = ByteCount::mib(1024);
    watch_devices(&mut options, see);
    let engine = Engine::start(options).expect("the engine starts");
    let spec = PoolSpec::new(tank(), GroupKind::Stripe, sized_disks(&["disk"], 8 << 30));
    let pool = Pool::create(engine, &spec).expect("create");
    pool.complete_root().expect("complete");
    let name: VolumeName = "tank/files/below".parse().expect("a name");
    pool.create_parents(&name).expect("create");
    let name: VolumeName = "tank/files".parse().expect("a name");
    let opened = pool.open_file_system((&name).into(), false).expect("open");
    let files = opened.files();
    let nodes = (make(&*files, b"many"), make(&*files, b"few"));
    // The first commit of a log blocks until a transaction group is synced.
    files.commit(None).expect("commit");
    test(&pool, &*files, nodes);
    drop((files, opened));
    export(pool);
}

#[test]
fn large_commit_writes_its_data_once() {
    isolated("large_commit_writes_its_data_once", || {
        let written = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&written);
        let count = move |io: &DeviceIo| {
            if io.kind() == IoKind::Write {
                counter.fetch_add(io.length() as u64, Ordering::Relaxed);
            }
        };
        with_files(count, |pool, files, (many, few)| {
            let cost_of = |what: &dyn Fn()| {
                let before = written.load(Ordering::Relaxed);
                what();
                written.load(Ordering::Relaxed) - before
            };
            let once = cost_of(&|| {
                write(files, many, MANY);
                files.commit(Some(many)).expect("commit");
            });
            let expected = MANY * PIECE..MANY * PIECE + CONCURRENT_WRITES;
            assert!(expected.contains(&once), "{once} bytes for {MANY} MiB");
            let later = cost_of(&|| pool.sync().expect("sync"));
            assert!(later < CONCURRENT_WRITES, "{later} bytes after that commit");
            let logged = cost_of(&|| {
                write(files, few, FEW);
                files.commit(Some(few)).expect("commit");
            });
            let expected = FEW * PIECE..FEW * PIECE + CONCURRENT_WRITES;
            assert!(expected.contains(&logged), "{logged} bytes for {FEW} MiB");
        });
    });
}

#[test]
fn empty_commit_sends_no_disk_request() {
    isolated("empty_commit_sends_no_disk_request", || {
        let asked = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&asked);
        let count = move |_: &DeviceIo| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        with_files(count, |pool, files, (_, few)| {
            files.write(few, 0, &[1; 4096]).expect("written");
            files.commit(None).expect("commit");
            // Blocks that a commit frees are written by groups.
            pool.sync().expect("sync");
            let cost_of = |what: &dyn Fn()| {
                let before = asked.load(Ordering::Relaxed);
                what();
                asked.load(Ordering::Relaxed) - before
            };
            assert_eq!(cost_of(&|| files.commit(None).expect("commit")), 0);
            let change = || {
                files.write(few, 0, &[2; 4096]).expect("written");
                files.commit(None).expect("commit");
            };
            assert!(cost_of(&change) >= 2, "a block of the log, and a flush");
            assert_eq!(cost_of(&|| files.commit(None).expect("commit")), 0);
        });
    });
}

/// More data is written while a commit is blocked on its group: it need not become durable.
#[test]
fn large_commit_excludes_concurrent_writes() {
    isolated("large_commit_excludes_concurrent_writes", || {
        let written = Arc::new(AtomicU64::new(0));
        let is_awaited = Arc::new(AtomicBool::new(false));
        let (begins, begun) = mpsc::channel();
        let (goes_on, go_on) = mpsc::channel::<()>();
        let go_on = Mutex::new(go_on);
        let (counter, awaited) = (Arc::clone(&written), Arc::clone(&is_awaited));
        let see = move |io: &DeviceIo| {
            if io.kind() != IoKind::Write {
                return;
            }
            counter.fetch_add(io.length() as u64, Ordering::Relaxed);
            // The first write of the group blocks until more data was written to the file system.
            if awaited.swap(false, Ordering::AcqRel) {
                begins.send(()).expect("somebody waits");
                let go_on = go_on.lock().expect("no holder panics");
                go_on.recv().expect("it goes on");
            }
        };
        with_files(see, |_, files, (many, few)| {
            let before = written.load(Ordering::Relaxed);
            write(files, many, MUCH);
            is_awaited.store(true, Ordering::Release);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    begun.recv().expect("the group is written");
                    write(files, few, CONCURRENT_BYTES);
                    goes_on.send(()).expect("it waits");
                });
                files.commit(Some(many)).expect("commit");
            });
            let bytes = written.load(Ordering::Relaxed) - before;
            let expected = MUCH * PIECE..MUCH * PIECE + CONCURRENT_WRITES;
            assert!(expected.contains(&bytes), "{bytes} bytes for {MUCH} MiB");
        });
    });
}

/// A new pool, and the file system that has its name.
fn new_files(options: EngineOptions) -> (Pool, Box<dyn OpenFileSystem>) {
    let engine = Engine::start(options).expect("the engine starts");
    let spec = PoolSpec::new(tank(), GroupKind::Stripe, disks(&["disk"]));
    let pool = Pool::create(engine, &spec).expect("create");
    pool.complete_root().expect("complete");
    let opened = pool.open_file_system((&tank()).into(), false);
    (pool, opened.expect("open"))
}

/// The power fails after so many writes to the disk: the second write is in the log in part, or all of it.
fn is_cut_off(after: u64) -> ! {
    let (mut options, faults) = (options(), Faults::new());
    options.txg_timeout_s = 60;
    options.devices.wrap = Some(faults.wrap());
    let (pool, opened) = new_files(options);
    let files = opened.files();
    let node = make(&*files, b"file");
    files.write(node, 0, &[1; LONG / 2]).expect("written");
    files.commit(None).expect("commit");
    pool.sync().expect("sync");
    files.write(node, 0, &[2; LONG]).expect("written");
    let kill = Fault {
        kill_after: Some(after),
        ..Fault::default()
    };
    faults.set(&dir().join("disk"), kill);
    files.commit(Some(node)).expect("commit");
    kill_oneself()
}

/// Whether the file has the second write, completely or not at all.
fn has_all_or_nothing() -> bool {
    let pool = import(support::engine());
    let opened = pool.open_file_system((&tank()).into(), false);
    let opened = opened.expect("open");
    let files = opened.files();
    let found = files.look_up(&ROOT, files.root(), b"file").expect("there");
    let mut bytes = vec![0; 2 * LONG];
    let read = files.read(found.node, 0, &mut bytes).expect("readable");
    let count = |value| bytes.iter().filter(|byte| **byte == value).count();
    let shown = (read.length, count(1), count(2));
    drop((files, opened));
    export(pool);
    assert!(
        [(LONG / 2, LONG / 2, 0), (LONG, 0, LONG)].contains(&shown),
        "{shown:?}"
    );
    shown.2 == LONG
}

#[test]
fn long_write_truncated_by_the_log_is_skipped() {
    match part().as_deref() {
        None => {
            let mut outcomes = Vec::new();
            for steps in STEPS {
                let parts = Parts::of("long_write_truncated_by_the_log_is_skipped");
                let killed = parts.run(&format!("kill {steps}"));
                let output = &killed.output;
                assert!(!killed.success && !output.contains("panicked"), "{output}");
                parts.pass("look");
                outcomes.push(parts.dir().join("is-there").exists());
            }
            assert!(outcomes.is_sorted(), "{outcomes:?}");
            let whole = outcomes.iter().filter(|is_there| **is_there).count();
            assert!(whole > 0 && outcomes.len() - whole > 3, "{outcomes:?}");
        }
        Some("look") => {
            if has_all_or_nothing() {
                std::fs::write(dir().join("is-there"), "").expect("written");
            }
        }
        Some(words) => {
            let steps = words.strip_prefix("kill ").expect("a part");
            is_cut_off(steps.parse().expect("a number"))
        }
    }
}

fn piece(number: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number);
    std::iter::repeat_with(|| random.u8(..))
        .take(FILLING_PIECE)
        .collect()
}

/// Writes pieces to a new file until there is no space, but at most so many. Each is committed by itself, so that the log has it.
fn fill(files: &dyn FileSystem, pieces_max: u64) -> Node {
    let node = make(files, b"file");
    for number in 0..pieces_max {
        match files.write(node, number * FILLING_PIECE as u64, &piece(number)) {
            Ok(_) => files.commit(Some(node)).expect("commit"),
            Err(FileError::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    node
}

/// Other datasets fill the pool before it is opened, for example because its key arrives late.
#[test]
fn committed_changes_are_replayed_into_a_full_pool() {
    let name = |name: &str| -> VolumeName { name.parse().expect("a name") };
    let first = name("tank/first");
    match part().as_deref() {
        None => {
            let parts = Parts::of("committed_changes_are_replayed_into_a_full_pool");
            let killed = parts.run("write");
            let output = &killed.output;
            assert!(!killed.success && !output.contains("panicked"), "{output}");
            parts.pass("look");
            parts.zdb_is_content(tank().as_str());
        }
        Some("write") => {
            let mut options = options();
            options.txg_timeout_s = 60;
            let engine = Engine::start(options).expect("the engine starts");
            let disk = sized_disks(&["disk"], SMALL_POOL);
            let spec = PoolSpec::new(tank(), GroupKind::Stripe, disk);
            let pool = Pool::create(engine, &spec).expect("create");
            pool.complete_root().expect("complete");
            for below in ["tank/first/below", "tank/second/below"] {
                pool.create_parents(&name(below)).expect("create");
            }
            let opened = pool.open_file_system((&first).into(), false);
            let opened = opened.expect("open");
            let files = opened.files();
            files.commit(None).expect("commit");
            pool.sync().expect("sync");
            fill(&*files, LOGGED_PIECES);
            kill_oneself()
        }
        Some(_) => {
            let pool = import(support::engine());
            let second = name("tank/second");
            let opened = pool.open_file_system((&second).into(), false);
            let opened = opened.expect("open");
            let files = opened.files();
            let node = fill(&*files, u64::MAX);
            // Unwritten data is counted several times.
            let mut size = files.attributes(node).expect("a file").size;
            loop {
                pool.sync().expect("sync");
                match files.write(node, size, &piece(size)[..4096]) {
                    Ok(_) => size += 4096,
                    Err(FileError::NoSpace) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            drop(files);
            drop(opened);
            let opened = pool.open_file_system((&first).into(), false);
            let opened = opened.expect("its log is replayed");
            let files = opened.files();
            let found = files.look_up(&ROOT, files.root(), b"file").expect("there");
            for number in 0..LOGGED_PIECES {
                let mut bytes = vec![0; FILLING_PIECE];
                let at = number * FILLING_PIECE as u64;
                files.read(found.node, at, &mut bytes).expect("readable");
                assert_eq!(bytes, piece(number), "piece {number}");
            }
            drop((files, opened));
            export(pool);
        }
    }
}

/// The file system is closed between a change and its commit, as when it becomes read-only. The reply to the change is
/// sent only when it is on the disks.
#[test]
fn commit_waits_for_a_concurrent_close() {
    match part().as_deref() {
        None => {
            let parts = Parts::of("commit_waits_for_a_concurrent_close");
            let killed = parts.run("write");
            let output = &killed.output;
            assert!(!killed.success && !output.contains("panicked"), "{output}");
            parts.pass("look");
        }
        Some("write") => {
            let mut options = options();
            options.txg_timeout_s = 60;
            let is_written = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&is_written);
            watch_devices(&mut options, move |io: &DeviceIo| {
                if io.kind() == IoKind::Write && io.length() == FILLING_PIECE {
                    std::thread::sleep(Duration::from_millis(300));
                    seen.store(true, Ordering::Release);
                }
            });
            let (_pool, opened) = new_files(options);
            let files = opened.files();
            let node = make(&*files, b"file");
            files.write(node, 0, &piece(1)).expect("written");
            std::thread::scope(|scope| {
                scope.spawn(|| opened.close());
                while files.statistics().is_ok() {
                    std::thread::yield_now();
                }
                assert_eq!(files.commit(Some(node)), Ok(()));
                assert!(is_written.load(Ordering::Acquire), "it waits");
                assert_eq!(files.commit(None), Ok(()));
                kill_oneself()
            });
        }
        Some(_) => {
            let pool = import(support::engine());
            let opened = pool.open_file_system((&tank()).into(), false);
            let opened = opened.expect("open");
            let files = opened.files();
            let found = files.look_up(&ROOT, files.root(), b"file").expect("there");
            let mut bytes = vec![0; FILLING_PIECE];
            files.read(found.node, 0, &mut bytes).expect("readable");
            assert_eq!(bytes, piece(1));
            drop((files, opened));
            export(pool);
        }
    }
}
