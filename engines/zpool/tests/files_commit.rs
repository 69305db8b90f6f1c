//! What a commit of files costs: little goes through the intent log, and much goes to its place at once instead of twice.

mod support;
mod volume_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::capabilities::{Datasets, FileSystems, Ownership};
use engine::pool::{GroupKind, PoolSpec};
use file_system::{FileSystem, Identity, Make, Node, SetAttributes};
use support::{export, isolated, options, sized_disks, tank};
use units::{ByteCount, VolumeName};
use volume_support::watch_devices;
use zpool::device::IoKind;
use zpool::{Engine, Pool};

const PIECE: u64 = 1 << 20;
/// Pieces that a commit finds: few enough for the log, and too many for it.
const FEW: u64 = 8;
const MANY: u64 = 96;
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

#[test]
fn a_commit_of_much_writes_it_once() {
    isolated("a_commit_of_much_writes_it_once", || {
        let written = Arc::new(AtomicU64::new(0));
        let mut options = options();
        // No transaction group ends by itself meanwhile.
        options.dirty_bytes_max = ByteCount::mib(1024);
        options.txg_timeout_s = 60;
        let counter = Arc::clone(&written);
        watch_devices(&mut options, move |io| {
            if io.kind() == IoKind::Write {
                counter.fetch_add(io.length() as u64, Ordering::Relaxed);
            }
        });
        let engine = Engine::start(options).expect("the engine starts");
        let spec = PoolSpec::new(tank(), GroupKind::Stripe, sized_disks(&["disk"], 512 << 20));
        let pool = Pool::create(engine, &spec).expect("create");
        pool.complete_root().expect("complete");
        let name: VolumeName = "tank/files/below".parse().expect("a name");
        pool.create_parents(&name).expect("create");
        let name: VolumeName = "tank/files".parse().expect("a name");
        let opened = pool.open_file_system((&name).into(), false).expect("open");
        let files = opened.files();
        let (many, few) = (make(&*files, b"many"), make(&*files, b"few"));
        // The first commit of a log waits for a transaction group.
        files.commit(None).expect("commit");
        let cost_of = |what: &dyn Fn()| {
            let before = written.load(Ordering::Relaxed);
            what();
            written.load(Ordering::Relaxed) - before
        };
        let once = cost_of(&|| {
            write(&*files, many, MANY);
            files.commit(Some(many)).expect("commit");
        });
        let expected = MANY * PIECE..MANY * PIECE + BESIDES;
        assert!(expected.contains(&once), "{once} bytes for {MANY} MiB");
        let later = cost_of(&|| pool.sync().expect("sync"));
        assert!(later < BESIDES, "{later} bytes after that commit");
        let logged = cost_of(&|| {
            write(&*files, few, FEW);
            files.commit(Some(few)).expect("commit");
        });
        let expected = FEW * PIECE..FEW * PIECE + BESIDES;
        assert!(expected.contains(&logged), "{logged} bytes for {FEW} MiB");
        drop((files, opened));
        export(pool);
    });
}
