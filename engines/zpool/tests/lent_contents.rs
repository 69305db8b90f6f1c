//! Contents of files in the library's own buffers: equal to copies, unchanged while they are lent, and never blocking
//! for good.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use block_device::ReadLoan;
use engine::OpenFileSystem;
use engine::capabilities::{FileSystems, Ownership, Properties};
use engine::dataset::Value;
use engine::pool::{GroupKind, PoolSpec};
use file_system::{FileSystem, Guard, Identity, Make, Node, Removable, SetAttributes};
use support::{disks, engine, export, isolated, tank};
use units::VolumeName;
use zpool::Pool;

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};
/// Most bytes of a file here.
const FILE_BYTES: u64 = 3 << 20;
/// How long a test watches for a forbidden event.
const LOOK: Duration = Duration::from_millis(50);

fn new_pool() -> Pool {
    let spec = PoolSpec::new(tank(), GroupKind::Stripe, disks(&["disk"]));
    let pool = Pool::create(engine(), &spec).expect("create");
    pool.complete_root().expect("complete");
    pool
}

fn open(pool: &Pool, name: &str, record_bytes: u64) -> Box<dyn OpenFileSystem> {
    let below = format!("{name}/below").parse().expect("a name");
    pool.create_parents(&below).expect("create");
    let name: VolumeName = name.parse().expect("a name");
    let set = [("recordsize".to_owned(), Value::Number(record_bytes))];
    pool.set_dataset_properties((&name).into(), &set)
        .expect("set");
    pool.open_file_system((&name).into(), false).expect("open")
}

fn make(files: &dyn FileSystem, name: &[u8]) -> Node {
    let none = SetAttributes::default();
    let made = files.make(&ROOT, files.root(), name, Make::File, &none, None);
    made.expect("a new file").object.node
}

fn set_size(files: &dyn FileSystem, node: Node, size: u64) {
    let changes = SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    let changed = files.set_attributes(&ROOT, node, &changes, &Guard::default(), None);
    changed.expect("a file");
}

fn lend(files: &dyn FileSystem, node: Node, offset: u64, length: usize) -> Box<dyn ReadLoan> {
    let mut appended = Vec::new();
    let read = files.read_or_lend(node, offset, length, &mut appended);
    let (_, lent) = read.expect("a file");
    assert!(appended.is_empty());
    lent.expect("it is long, and in blocks")
}

fn bytes_of(lent: &dyn ReadLoan) -> Vec<u8> {
    let mut parts = Vec::new();
    lent.append_parts(&mut parts);
    parts.concat()
}

/// Reports to the parent process.
fn say(what: &str) {
    use std::io::Write;
    writeln!(std::io::stdout(), "{what}").expect("somebody reads");
}

/// Short and long ones equally often.
fn some_length(random: &mut fastrand::Rng) -> usize {
    let bits = random.u32(1..21);
    random.usize(1..=1 << bits)
}

/// One change of a file at random.
fn change(files: &dyn FileSystem, node: Node, random: &mut fastrand::Rng) {
    let offset = random.u64(..FILE_BYTES);
    let length = some_length(random).min((FILE_BYTES - offset) as usize) as u64;
    match random.u32(..8) {
        0 => set_size(files, node, offset),
        1 => set_size(files, node, offset + length),
        2 => files
            .deallocate(node, offset, length)
            .expect("it can have holes"),
        _ => {
            let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
                .take(length as usize)
                .collect();
            files.write(node, offset, &bytes).expect("there is room");
        }
    }
}

#[test]
fn lent_contents_equal_copied_contents() {
    isolated("lent_contents_equal_copied_contents", || {
        let pool = new_pool();
        let mut random = fastrand::Rng::with_seed(fastrand::u64(..));
        say(&format!("seed {}", random.get_seed()));
        for record_bytes in [512, 4 << 10, 128 << 10, 1 << 20] {
            let opened = open(&pool, &format!("tank/of{record_bytes}"), record_bytes);
            let files = opened.files();
            let node = make(&*files, b"file");
            let mut lent_count = 0;
            for _ in 0..40 {
                change(&*files, node, &mut random);
                for _ in 0..10 {
                    let offset = random.u64(..FILE_BYTES);
                    let length = some_length(&mut random);
                    let mut copied = Vec::new();
                    let expected = files.read_onto(node, offset, length, &mut copied);
                    let mut own = Vec::new();
                    let (read, lent) = files
                        .read_or_lend(node, offset, length, &mut own)
                        .expect("a file");
                    assert_eq!(Ok(read), expected);
                    if let Some(lent) = &lent {
                        assert!(own.is_empty());
                        own = bytes_of(&**lent);
                        lent_count += 1;
                    }
                    assert!(own == copied, "{record_bytes}: {length} bytes at {offset}");
                }
            }
            assert!(lent_count > 20, "only {lent_count} reads were lent");
            opened.close();
        }
        export(pool);
    });
}

/// A change blocks until the lent data in its range is returned; another file's reads and changes do not.
#[test]
fn lent_contents_do_not_change() {
    isolated("lent_contents_do_not_change", || {
        let pool = new_pool();
        let opened = open(&pool, "tank/files", 128 << 10);
        let files = opened.files();
        let files = &*files;
        let other = make(files, b"other");
        type Change = fn(&dyn FileSystem, Node);
        let changes: [Change; 4] = [
            |files, node| {
                let written = files.write(node, 5, &[2; 300_000]);
                written.expect("there is room");
            },
            |files, node| set_size(files, node, 1),
            |files, node| files.deallocate(node, 0, 1 << 20).expect("a hole"),
            |files, _| {
                let removed = files.remove(&ROOT, files.root(), b"file", Removable::Any, None);
                removed.expect("it is there");
            },
        ];
        for (index, change) in changes.into_iter().enumerate() {
            // On disk, and dirty.
            for is_settled in [true, false] {
                let node = match files.look_up(&ROOT, files.root(), b"file") {
                    Ok(found) => found.node,
                    Err(_) => make(files, b"file"),
                };
                files
                    .write(node, 0, &vec![1; 1 << 20])
                    .expect("there is room");
                if is_settled {
                    pool.sync().expect("written");
                }
                let lent = [0, 70_000].map(|offset| lend(files, node, offset, 500_000));
                let is_changed = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        change(files, node);
                        is_changed.store(true, Ordering::SeqCst);
                    });
                    files.write(other, 0, &[3; 100]).expect("no lock is held");
                    for one in lent {
                        std::thread::sleep(LOOK);
                        assert!(bytes_of(&*one) == vec![1; 500_000], "change {index}");
                        assert!(!is_changed.load(Ordering::SeqCst), "change {index}");
                    }
                });
                assert!(is_changed.load(Ordering::SeqCst));
            }
        }
        opened.close();
        export(pool);
    });
}

/// A close, as before an export or a rollback, blocks on loans, and no longer.
#[test]
fn close_blocks_until_loans_are_returned() {
    isolated("close_blocks_until_loans_are_returned", || {
        let pool = new_pool();
        let opened = open(&pool, "tank/files", 128 << 10);
        let files = opened.files();
        let node = make(&*files, b"file");
        files
            .write(node, 0, &vec![1; 1 << 20])
            .expect("there is room");
        let lent = lend(&*files, node, 0, 1 << 20);
        let started = Instant::now();
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| opened.close());
            std::thread::sleep(LOOK);
            assert!(!closing.is_finished());
            assert!(bytes_of(&*lent) == vec![1; 1 << 20]);
            drop(lent);
        });
        assert!(started.elapsed() >= LOOK);
        assert!(
            files
                .read_or_lend(node, 0, 1 << 20, &mut Vec::new())
                .is_err()
        );
        export(pool);
    });
}
