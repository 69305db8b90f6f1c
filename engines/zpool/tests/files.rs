//! The files of a file system in a pool: the conformance tests, the state after a crash, and the output of `zdb`.

mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use engine::OpenFileSystem;
use engine::capabilities::{Datasets, FileSystems, Ownership, Properties};
use engine::dataset::{DatasetErrorKind, DatasetRef, FileSystemSpec, Value};
use engine::pool::{GroupKind, PoolSpec};
use file_system::{
    FileError, FileSystem, Guard, Identity, Make, Node, Receipt, Removable, SetAttributes,
    SetExtended, conformance,
};
use support::{Parts, disks, export, isolated, options, part, tank};
use units::VolumeName;
use zpool::{Engine, Pool};

/// Less than is written to a file that is freed in the background, and its size.
const LARGE: u64 = 20 << 20;
const LARGE_SIZE: u64 = (3 << 30) + 5;

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};

fn with_mode(mode: u32) -> SetAttributes {
    SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    }
}

/// An engine with rare transaction groups, so that an object's size on disk is stable in between.
fn slow_engine() -> &'static Engine {
    let mut options = options();
    options.txg_timeout_s = 60;
    Engine::start(options).expect("start the engine")
}

fn new_pool() -> Pool {
    let spec = PoolSpec::new(tank(), GroupKind::Stripe, disks(&["disk"]));
    let pool = Pool::create(slow_engine(), &spec).expect("create");
    pool.complete_root().expect("complete");
    pool
}

fn create(pool: &Pool, name: &str) -> VolumeName {
    let below = format!("{name}/below").parse().expect("a name");
    pool.create_parents(&below).expect("create");
    name.parse().expect("a name")
}

fn open(pool: &Pool, name: &VolumeName) -> Box<dyn OpenFileSystem> {
    let opened = pool.open_file_system(name.into(), false);
    opened.expect("open")
}

fn make(files: &dyn FileSystem, directory: Node, name: &[u8], what: Make<'_>) -> Node {
    let none = SetAttributes::default();
    let made = files.make(&ROOT, directory, name, what, &none, None);
    made.expect("a new object").object.node
}

fn look_up(files: &dyn FileSystem, directory: Node, name: &[u8]) -> Result<Node, FileError> {
    let found = files.look_up(&ROOT, directory, name);
    found.map(|object| object.node)
}

fn contents(files: &dyn FileSystem, node: Node) -> Vec<u8> {
    let size = files.attributes(node).expect("it is there").size;
    let mut bytes = vec![0; size as usize];
    let read = files.read(node, 0, &mut bytes).expect("a file");
    assert_eq!((read.length, read.is_end), (bytes.len(), true));
    bytes
}

/// Reports to the parent process.
fn say(what: &str) {
    use std::io::Write;
    writeln!(std::io::stdout(), "{what}").expect("somebody reads");
}

#[test]
fn a_file_system_of_a_pool_is_a_file_system() {
    isolated("a_file_system_of_a_pool_is_a_file_system", || {
        let pool = new_pool();
        for (index, (what, test)) in conformance::ALL.iter().enumerate() {
            say(what);
            let opened = open(&pool, &create(&pool, &format!("tank/files{index}")));
            let files = opened.files();
            let root = files.root();
            let set = [("acltype".to_owned(), Value::Text("nfsv4".to_owned()))];
            let dataset = DatasetRef::from_checked(opened.name());
            pool.set_dataset_properties(dataset, &set).expect("set");
            let everybody =
                files.set_attributes(&ROOT, root, &with_mode(0o777), &Guard::default(), None);
            everybody.expect("root may");
            test(&*files);
        }
        export(pool);
    });
}

#[test]
fn writes_refused_for_lack_of_space_are_counted() {
    isolated("writes_refused_for_lack_of_space_are_counted", || {
        let pool = new_pool();
        let name = create(&pool, "tank/small");
        let quota = [("quota".to_owned(), Value::Number(1 << 20))];
        pool.set_dataset_properties((&name).into(), &quota)
            .expect("set");
        let opened = open(&pool, &name);
        let files = opened.files();
        let file = make(&*files, files.root(), b"file", Make::File);
        let bytes: Vec<u8> = (0..1_u32 << 16)
            .flat_map(|number| number.wrapping_mul(2_654_435_769).to_ne_bytes())
            .collect();
        let refused = (0..64).find_map(|part| {
            assert_eq!(opened.refused_for_space(), 0);
            let refused = files.write(file, part * bytes.len() as u64, &bytes).err();
            files.commit(None).expect("commit");
            pool.sync().expect("sync");
            refused
        });
        let refused = refused.expect("a megabyte is not enough");
        assert!(
            matches!(refused, FileError::NoSpace | FileError::Quota),
            "{refused}"
        );
        assert_eq!(opened.refused_for_space(), 1);
        drop((files, opened));
        export(pool);
    });
}

/// The receipts of the changes of [`leave_changes`]. Two of them have the same slot.
fn receipts() -> [Receipt; 8] {
    [
        (0, 1),
        (1, 1),
        (2, 7),
        (3, 1),
        (3, 2),
        (4, 1),
        (5, 1),
        (6, 1),
    ]
    .map(|(place, number)| Receipt {
        place: [place; 20],
        number,
        step: 2,
        call: u32::MAX - number,
    })
}

/// One object of each kind, changed in every way. Committed, but not synced before a crash.
fn leave_changes(files: &dyn FileSystem) {
    let root = files.root();
    let directory = make(files, root, b"directory", Make::Directory);
    let other = make(files, root, b"other", Make::Directory);
    let file = make(files, directory, b"file", Make::File);
    make(files, directory, b"link", Make::Link(b"to/somewhere"));
    make(files, root, b"device", Make::CharacterDevice(1, 3));
    files.write(file, 100, &[7; 300_000]).expect("room");
    files.write(file, 131_000, b"inside").expect("room");
    let receipt = |place| Some(receipts()[place]);
    files
        .link(&ROOT, file, other, b"second", receipt(0).as_ref())
        .expect("link");
    let from = (directory, &b"file"[..]);
    files
        .rename(&ROOT, from, (other, b"moved"), receipt(1).as_ref())
        .expect("rename");
    let cut = make(files, root, b"cut", Make::File);
    files.write(cut, 0, &[1; 10_000]).expect("room");
    files.deallocate(cut, 1_000, 2_000).expect("a hole");
    let changes = SetAttributes {
        mode: Some(0o4711),
        uid: Some(10),
        gid: Some(20),
        size: Some(5_000),
        ..SetAttributes::default()
    };
    let set = files.set_attributes(&ROOT, cut, &changes, &Guard::default(), None);
    set.expect("root may");
    for (name, value) in [
        (&b"kept"[..], &b"value"[..]),
        (b"gone", b"x"),
        (b"empty", b""),
    ] {
        let set = files.set_extended(&ROOT, cut, name, value, SetExtended::Create, None);
        set.expect("room");
    }
    // An empty value first syncs the transaction group: only later changes are replayed.
    let removed = files.remove_extended(&ROOT, cut, b"gone", receipt(5).as_ref());
    removed.expect("it is there");
    let how = SetExtended::Replace;
    let set = files.set_extended(&ROOT, cut, b"kept", b"newer", how, receipt(6).as_ref());
    set.expect("it is there");
    let changes = SetAttributes {
        mode: Some(0o4711),
        size: Some(4_000),
        ..SetAttributes::default()
    };
    let guard = Guard::default();
    let set = files.set_attributes(&ROOT, cut, &changes, &guard, receipt(7).as_ref());
    set.expect("root may");
    make(files, root, b"gone", Make::File);
    let removed = files.remove(&ROOT, root, b"gone", Removable::Any, receipt(2).as_ref());
    removed.expect("it is there");
    let none = SetAttributes::default();
    let made = files.make(
        &ROOT,
        root,
        b"empty",
        Make::Directory,
        &none,
        receipt(3).as_ref(),
    );
    let empty = made.expect("a new object").object.node;
    let removed = files.remove(
        &ROOT,
        root,
        b"empty",
        Removable::Directory,
        receipt(4).as_ref(),
    );
    removed.expect("it is empty");
    assert_eq!(files.attributes(empty), Err(FileError::Stale));
    files.commit(None).expect("durable");
}

fn check_changes(files: &dyn FileSystem) {
    let root = files.root();
    let directory = look_up(files, root, b"directory").expect("made");
    let other = look_up(files, root, b"other").expect("made");
    assert_eq!(look_up(files, directory, b"file"), Err(FileError::NotFound));
    let file = look_up(files, other, b"moved").expect("moved");
    assert_eq!(look_up(files, other, b"second"), Ok(file));
    let mut expected = vec![7; 300_100];
    expected[..100].fill(0);
    expected[131_000..131_006].copy_from_slice(b"inside");
    assert!(contents(files, file) == expected, "contents");
    assert_eq!(files.attributes(file).expect("there").links, 2);
    let link = look_up(files, directory, b"link").expect("made");
    assert_eq!(files.read_link(link), Ok(b"to/somewhere".to_vec()));
    let device = look_up(files, root, b"device").expect("made");
    assert_eq!(files.attributes(device).expect("there").device, (1, 3));
    let cut = look_up(files, root, b"cut").expect("made");
    let mut expected = vec![1; 4_000];
    expected[1_000..3_000].fill(0);
    assert!(contents(files, cut) == expected, "contents of the cut file");
    let known = files.attributes(cut).expect("there");
    assert_eq!((known.mode, known.uid, known.gid), (0o4711, 10, 20));
    let names = files.extended_names(&ROOT, cut);
    assert_eq!(names, Ok(vec![b"empty".to_vec(), b"kept".to_vec()]));
    let value = files.extended(&ROOT, cut, b"kept");
    assert_eq!(value, Ok(b"newer".to_vec()));
    for name in [&b"gone"[..], b"empty"] {
        assert_eq!(look_up(files, root, name), Err(FileError::NotFound));
    }
    assert_eq!(files.attributes(root).expect("there").links, 4);
    for kept in [0, 1, 2, 4, 5, 6, 7].map(|index| receipts()[index]) {
        assert_eq!(files.receipt(&kept.place), Some(kept));
    }
    assert_eq!(files.receipt(&[9; 20]), None);
}

/// The process is killed after a commit, and before a transaction group is synced.
#[test]
fn committed_changes_survive_a_crash() {
    const TEST: &str = "committed_changes_survive_a_crash";
    match part().as_deref() {
        None => {
            let parts = Parts::of(TEST);
            let ended = parts.run("crash");
            assert!(!ended.success, "it kills itself");
            assert!(ended.output.contains("committed"), "{}", ended.output);
            parts.pass("look");
            parts.zdb_is_content("tank");
        }
        Some("crash") => {
            let pool = new_pool();
            let name = create(&pool, "tank/files");
            let opened = open(&pool, &name);
            let fixed = open(&pool, &create(&pool, "tank/fixed"));
            leave_changes(&*opened.files());
            leave_changes(&*fixed.files());
            say("committed");
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .expect("kill");
        }
        Some(_) => {
            let pool = import();
            let name: VolumeName = "tank/files".parse().expect("a name");
            for _ in 0..2 {
                let opened = open(&pool, &name);
                check_changes(&*opened.files());
            }
            // As in the kernel, changes of read-only file systems are replayed, too.
            let name: VolumeName = "tank/fixed".parse().expect("a name");
            let set = [("readonly".to_owned(), Value::Text("on".to_owned()))];
            pool.set_dataset_properties((&name).into(), &set)
                .expect("set");
            for _ in 0..2 {
                let opened = open(&pool, &name);
                let files = opened.files();
                check_changes(&*files);
                let refused = files.set_attributes(
                    &ROOT,
                    files.root(),
                    &with_mode(0o700),
                    &Guard::default(),
                    None,
                );
                assert_eq!(refused.err(), Some(FileError::ReadOnly));
            }
            export(pool);
        }
    }
}

fn import() -> Pool {
    let engine = slow_engine();
    let found = zpool::discover(&[support::dir()]).expect("discover");
    let candidate = found.first().expect("the pool");
    let proof = zpool::pool::same_host_and_locked(engine, candidate).expect("no other process");
    let options = engine::pool::ImportOptions::default();
    Pool::import(engine, candidate, proof, &options).expect("import")
}

/// The part `crash` of a test dies with a file without a name, and the part `look` opens the file system again.
fn leaves_nothing_to_free(test: &'static str) {
    let parts = Parts::of(test);
    assert!(!parts.run("crash").success, "it kills itself");
    parts.pass("look");
    let queue = objects(&parts, "tank/files");
    let queue = queue.split("ZFS delete queue").nth(1).expect("the list");
    assert!(queue.contains("0 entries"), "{queue}");
}

/// A file that is held loses its last name, and the process dies.
#[test]
fn held_unlinked_file_is_freed_after_a_crash() {
    const TEST: &str = "held_unlinked_file_is_freed_after_a_crash";
    match part().as_deref() {
        None => leaves_nothing_to_free(TEST),
        Some("crash") => {
            let pool = new_pool();
            let name = create(&pool, "tank/files");
            let opened = open(&pool, &name);
            let files = opened.files();
            let held = make(&*files, files.root(), b"held", Make::File);
            files.write(held, 0, &[1; 100_000]).expect("room");
            files.hold(held).expect("it is there");
            let removed = files.remove(&ROOT, files.root(), b"held", Removable::Any, None);
            removed.expect("it is there");
            pool.sync().expect("in a transaction group");
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .expect("kill");
        }
        Some(_) => {
            let pool = import();
            let name: VolumeName = "tank/files".parse().expect("a name");
            let opened = open(&pool, &name);
            let statistics = opened.files().statistics().expect("space");
            assert!(statistics.bytes_total > statistics.bytes_free);
            drop(opened);
            export(pool);
        }
    }
}

/// A server closes a file system and opens it again when `readonly` changes. Objects that clients have open stay, even
/// without a name.
#[test]
fn open_unlinked_file_survives_readonly_changes() {
    const TEST: &str = "open_unlinked_file_survives_readonly_changes";
    match part().as_deref() {
        None => {
            let parts = Parts::of(TEST);
            parts.pass("change");
            let queue = objects(&parts, "tank/files");
            let queue = queue.split("ZFS delete queue").nth(1).expect("the list");
            assert!(queue.contains("0 entries"), "{queue}");
        }
        Some(_) => {
            let pool = new_pool();
            let name = create(&pool, "tank/files");
            let opened = open(&pool, &name);
            let files = opened.files();
            let nodes = [&b"held"[..], b"given up"].map(|name| {
                let node = make(&*files, files.root(), name, Make::File);
                files.write(node, 0, &[7; 100_000]).expect("room");
                files.hold(node).expect("it is there");
                let removed = files.remove(&ROOT, files.root(), name, Removable::Any, None);
                removed.expect("it is there");
                node
            });
            opened.close();
            for value in ["on", "off"] {
                let set = [("readonly".to_owned(), Value::Text(value.to_owned()))];
                let set = pool.set_dataset_properties((&name).into(), &set);
                set.expect("set");
                // A reader of its names, without holds.
                open(&pool, &name).close();
                let opened = open(&pool, &name);
                let files = opened.files();
                files.hold(nodes[0]).expect("it is kept");
                assert!(
                    contents(&*files, nodes[0]) == [7; 100_000],
                    "readonly={value}"
                );
                if value == "on" {
                    // Released while it is read-only: it is freed later.
                    files.hold(nodes[1]).expect("it is kept");
                    files.release(nodes[1]);
                } else {
                    assert_eq!(files.hold(nodes[1]), Err(FileError::Stale));
                    files.release(nodes[0]);
                    assert_eq!(files.hold(nodes[0]), Err(FileError::Stale));
                }
                opened.close();
            }
            export(pool);
        }
    }
}

/// Blocks until the contents of all files are freed, except for so many bytes.
fn await_freed(pool: &Pool, files: &dyn FileSystem) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        pool.sync().expect("sync");
        let space = files.statistics().expect("space");
        if space.bytes_total - space.bytes_free < LARGE {
            return;
        }
        assert!(Instant::now() < until, "{space:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn make_large(files: &dyn FileSystem, name: &[u8]) -> Node {
    let node = make(files, files.root(), name, Make::File);
    let mut random = fastrand::Rng::with_seed(7);
    let piece: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
        .take(1 << 20)
        .collect();
    for at in (0..2 * LARGE).step_by(piece.len()) {
        files.write(node, at, &piece).expect("room");
    }
    set_size(files, node, LARGE_SIZE);
    node
}

fn set_size(files: &dyn FileSystem, node: Node, size: u64) {
    let size = SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    let set = files.set_attributes(&ROOT, node, &size, &Guard::default(), None);
    set.expect("it is there");
}

/// It blocks neither the removal nor an open of the file system after a crash.
#[test]
fn large_file_is_freed_in_a_background_thread() {
    const TEST: &str = "large_file_is_freed_in_a_background_thread";
    let remove = |files: &dyn FileSystem| {
        let removed = files.remove(&ROOT, files.root(), b"large", Removable::Any, None);
        removed.expect("it is there");
    };
    match part().as_deref() {
        None => leaves_nothing_to_free(TEST),
        Some("crash") => {
            let pool = new_pool();
            let opened = open(&pool, &create(&pool, "tank/files"));
            let files = opened.files();
            let held = make_large(&*files, b"large");
            files.hold(held).expect("it is there");
            remove(&*files);
            pool.sync().expect("in a transaction group");
            // The log refers to a file that is removed by then.
            files.write(held, 0, &[1; 100]).expect("it is held");
            set_size(&*files, held, LARGE_SIZE - 1);
            files.commit(None).expect("commit");
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .expect("kill");
        }
        Some(_) => {
            let pool = import();
            let name: VolumeName = "tank/files".parse().expect("a name");
            let opened = open(&pool, &name);
            let files = opened.files();
            await_freed(&pool, &*files);
            let node = make_large(&*files, b"large");
            pool.sync().expect("sync");
            files.hold(node).expect("it is there");
            remove(&*files);
            files.release(node);
            assert_eq!(files.attributes(node), Err(FileError::Stale));
            assert_eq!(files.hold(node), Err(FileError::Stale));
            await_freed(&pool, &*files);
            make_large(&*files, b"large");
            remove(&*files);
            // Freeing that is interrupted by a close continues at the next open.
            drop((files, opened));
            let opened = open(&pool, &name);
            await_freed(&pool, &*opened.files());
            drop(opened);
            export(pool);
        }
    }
}

/// The release of a file's last hold races with the removal of its last name: the later one frees it, once.
#[test]
fn file_is_freed_once_when_unlink_races_with_release() {
    const TEST: &str = "file_is_freed_once_when_unlink_races_with_release";
    match part().as_deref() {
        None => Parts::of(TEST).pass("race"),
        Some(_) => {
            let pool = new_pool();
            let name = create(&pool, "tank/files");
            let opened = open(&pool, &name);
            let files = opened.files();
            let together = std::sync::Barrier::new(2);
            // Without the check, one round in some thousand frees it twice.
            for _ in 0..5_000 {
                let held = make(&*files, files.root(), b"held", Make::File);
                files.hold(held).expect("it is there");
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        together.wait();
                        files.release(held);
                    });
                    together.wait();
                    let removed = files.remove(&ROOT, files.root(), b"held", Removable::Any, None);
                    removed.expect("it is there");
                });
                assert!(files.attributes(held).is_err(), "it is gone");
            }
            drop(files);
            drop(opened);
            export(pool);
        }
    }
}

/// The stock `zdb`'s output for all objects of `dataset`.
fn objects(parts: &Parts, dataset: &str) -> String {
    let output = Command::new("/usr/sbin/zdb")
        .args(["-e", "-p"])
        .arg(parts.dir())
        .args(["-ddddd", dataset])
        .output()
        .expect("zdb (package zfsutils-linux) is installed");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// `zdb` resolves paths (of two names one, the first it meets), modes and sizes of objects created here.
#[test]
fn zdb_finds_files_by_their_paths() {
    const TEST: &str = "zdb_finds_files_by_their_paths";
    if part().is_some() {
        let pool = new_pool();
        let name = create(&pool, "tank/files");
        let opened = open(&pool, &name);
        leave_changes(&*opened.files());
        opened.close();
        assert!(matches!(opened.files().statistics(), Err(FileError::Gone)));
        export(pool);
        return;
    }
    let parts = Parts::of(TEST);
    parts.pass("all");
    let objects = objects(&parts, "tank/files");
    for expected in [
        "path	/directory",
        "path	/other/",
        "mode	104711",
        "size	300100",
    ] {
        assert!(
            objects.contains(expected),
            "{expected} is not in\n{objects}"
        );
    }
    parts.zdb_is_content("tank");
}

#[test]
fn unsupported_file_system_features_are_refused() {
    isolated("unsupported_file_system_features_are_refused", || {
        let pool = new_pool();
        let name = create(&pool, "tank/files");
        let kind = |dataset: DatasetRef<'_>| {
            let opened = pool.open_file_system(dataset, false);
            opened.expect_err("refused").kind
        };
        let set_lists = |value: &str| {
            let lists = [("acltype".to_owned(), Value::Text(value.to_owned()))];
            let set = pool.set_dataset_properties((&name).into(), &lists);
            set.expect("set");
        };
        set_lists("posix");
        let refused = kind((&name).into());
        assert!(
            matches!(&refused, DatasetErrorKind::FileSystemRefused { why } if why.contains("acltype=posix")),
            "{refused:?}"
        );
        // The conversion that the message names.
        set_lists("off");
        let opened = pool.open_file_system((&name).into(), false);
        drop(opened.expect("it is served"));
        let spec = engine::dataset::VolumeSpec::sparse(
            "tank/volume".parse().expect("a name"),
            units::ByteCount::mib(16),
        );
        pool.create_volume(&spec).expect("create");
        let refused = kind((&spec.name).into());
        assert!(matches!(refused, DatasetErrorKind::NotAFileSystem));
        export(pool);
    });
}

/// The same root directory as in kernel ZFS, according to `zdb`. Also for a mode that a trivial list cannot represent.
#[test]
fn new_file_system_has_the_requested_root_directory() {
    isolated("new_file_system_has_the_requested_root_directory", || {
        let pool = new_pool();
        for (name, owner, group, mode) in [
            ("tank/plain", 0, 0, 0o755),
            ("tank/team", 1000, 100, 0o2770),
            ("tank/odd", 1, 2, 0o1057),
        ] {
            let spec = FileSystemSpec {
                owner,
                group,
                mode,
                ..FileSystemSpec::plain(name.parse().expect("a name"))
            };
            pool.create_file_system(&spec).expect("create");
            let opened = open(&pool, &spec.name);
            let files = opened.files();
            let root = files.attributes(files.root()).expect("a root");
            assert_eq!((root.uid, root.gid, root.mode), (owner, group, mode));
            assert_eq!(root.links, 2);
            let other = Identity {
                uid: 7,
                gid: group,
                groups: Vec::new(),
            };
            let may = files.permissions(&other, files.root()).expect("a root");
            let bits = mode >> 3 & 7;
            let said = (bits & 4 != 0, bits & 2 != 0, bits & 1 != 0);
            assert_eq!((may.read, may.write, may.execute), said, "{mode:o}");
            drop(opened);
            let info = pool.dataset((&spec.name).into()).expect("it is there");
            assert!(
                info.objects <= FileSystemSpec::OBJECTS_EMPTY,
                "an empty one has {} objects",
                info.objects
            );
        }
        export(pool);
    });
}
