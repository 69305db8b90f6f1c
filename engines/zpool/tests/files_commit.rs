//! What a commit of files costs: little goes through the intent log, and much goes to its place at once instead of twice.

mod support;
mod volume_support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use engine::capabilities::{Datasets, FileSystems, Ownership};
use engine::pool::{GroupKind, PoolSpec};
use file_system::{FileSystem, Identity, Make, Node, SetAttributes};
use support::{export, isolated, options, sized_disks, tank};
use units::{ByteCount, VolumeName};
use volume_support::watch_devices;
use zpool::device::{DeviceIo, IoKind};
use zpool::{Engine, Pool};

const PIECE: u64 = 1 << 20;
/// Pieces that a commit finds: few enough for the log, and too many for it.
const FEW: u64 = 8;
const MANY: u64 = 96;
/// Pieces that are too many as well, and so few that no group begins to be written before the commit.
const MUCH: u64 = 40;
/// Pieces that come while such a commit waits.
const MEANWHILE: u64 = 24;
/// Labels, and what a transaction group writes besides data.
const BESIDES: u64 = 6 << 20;

fn make(files: &dyn FileSystem, name: &[u8]) -> Node {
    let root = Identity {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    let none = SetAttributes::default();
    let made = files.make(&root, files.root(), name, Make::File, &none, None);
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

/// A file system with the files `many` and `few`, on a pool of which no transaction group ends by itself. `see` looks at what devices do.
fn with_files(
    see: impl Fn(&DeviceIo) + Send + Sync + 'static,
    test: impl FnOnce(&Pool, &dyn FileSystem, (Node, Node)),
) {
    let mut options = options();
    options.dirty_bytes_max = ByteCount::mib(1024);
    options.txg_timeout_s = 60;
    // With so much memory and space no write waits for a group to free some.
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
    // The first commit of a log waits for a transaction group.
    files.commit(None).expect("commit");
    test(&pool, &*files, nodes);
    drop((files, opened));
    export(pool);
}

#[test]
fn a_commit_of_much_writes_it_once() {
    isolated("a_commit_of_much_writes_it_once", || {
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
            let expected = MANY * PIECE..MANY * PIECE + BESIDES;
            assert!(expected.contains(&once), "{once} bytes for {MANY} MiB");
            let later = cost_of(&|| pool.sync().expect("sync"));
            assert!(later < BESIDES, "{later} bytes after that commit");
            let logged = cost_of(&|| {
                write(files, few, FEW);
                files.commit(Some(few)).expect("commit");
            });
            let expected = FEW * PIECE..FEW * PIECE + BESIDES;
            assert!(expected.contains(&logged), "{logged} bytes for {FEW} MiB");
        });
    });
}

/// While a commit waits for its group, more is written: nobody has asked for that to be durable.
#[test]
fn a_commit_of_much_does_not_write_what_comes_meanwhile() {
    isolated(
        "a_commit_of_much_does_not_write_what_comes_meanwhile",
        || {
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
                // The first write of the group waits until more was written to the file system.
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
                        write(files, few, MEANWHILE);
                        goes_on.send(()).expect("it waits");
                    });
                    files.commit(Some(many)).expect("commit");
                });
                let bytes = written.load(Ordering::Relaxed) - before;
                let expected = MUCH * PIECE..MUCH * PIECE + BESIDES;
                assert!(expected.contains(&bytes), "{bytes} bytes for {MUCH} MiB");
            });
        },
    );
}
