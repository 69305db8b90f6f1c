//! Access control lists of a file system in a pool: set, passed on, obeyed, and there after a crash.

mod support;

use engine::OpenFileSystem;
use engine::capabilities::{Datasets, FileSystems};
use engine::dataset::{FileSystemSpec, Value};
use engine::pool::{ImportOptions, SafeToOwn};
use file_system::acl::{ENTRIES_MAX, Entry, Who, flag, of_mode, right};
use file_system::{
    FileError, FileSystem, Guard, Identity, Kind, Make, Node, Receipt, SetAttributes,
};
use support::{Parts, disks, engine, export, folder, isolated, mirror, part};
use units::VolumeName;
use zpool::Pool;

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};
/// Whom lists name.
const ANN: Identity = Identity {
    uid: 70_000,
    gid: 70_000,
    groups: Vec::new(),
};
const NAME: &str = "tank/files";

fn name() -> VolumeName {
    NAME.parse().expect("a name")
}

fn new_pool(properties: &[(&str, &str)]) -> Pool {
    let pool = mirror(engine(), &disks(&["a", "b"]));
    let properties = properties.iter();
    let spec = FileSystemSpec {
        properties: properties
            .map(|(name, value)| ((*name).to_owned(), Value::Text((*value).to_owned())))
            .collect(),
        ..FileSystemSpec::plain(name())
    };
    pool.create_file_system(&spec).expect("create");
    pool
}

fn open(pool: &Pool) -> Box<dyn OpenFileSystem> {
    pool.open_file_system((&name()).into(), false)
        .expect("open")
}

fn make(files: &dyn FileSystem, directory: Node, name: &[u8], what: Make<'_>) -> Node {
    let none = SetAttributes::default();
    let made = files.make(&ROOT, directory, name, what, &none, None);
    made.expect("a new object").object.node
}

fn look_up(files: &dyn FileSystem, path: &[&[u8]]) -> Node {
    path.iter().fold(files.root(), |at, name| {
        files.look_up(&ROOT, at, name).expect("it is there").node
    })
}

fn set_mode(files: &dyn FileSystem, node: Node, mode: u32) -> Result<u32, FileError> {
    let changes = SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    };
    let set = files.set_attributes(&ROOT, node, &changes, &Guard::default(), None);
    set.map(|changed| changed.after.mode)
}

fn for_ann(allows: bool, flags: u32, mask: u32) -> Entry {
    Entry {
        allows,
        flags,
        mask,
        who: Who::User(ANN.uid),
    }
}

const READS_AND_WRITES: u32 = right::READ | right::WRITE | right::APPEND;

fn passed_on() -> Entry {
    for_ann(true, flag::FILE | flag::DIRECTORY, READS_AND_WRITES)
}

/// What a directory passes on, a mode that is set afterwards, and more entries than fit beside an object's attributes.
fn leave_lists(files: &dyn FileSystem) {
    let shared = make(files, files.root(), b"shared", Make::Directory);
    let list = [vec![passed_on()], of_mode(0o755, Kind::Directory).list()].concat();
    files.set_acl(&ROOT, shared, &list, None).expect("root may");
    make(files, shared, b"file", Make::File);
    let below = make(files, shared, b"below", Make::Directory);
    make(files, below, b"file", Make::File);
    let private = make(files, below, b"private", Make::File);
    assert_eq!(set_mode(files, private, 0o600), Ok(0o600));
    let large = make(files, files.root(), b"large", Make::File);
    files
        .set_acl(
            &ROOT,
            large,
            &vec![for_ann(false, 0, right::READ); ENTRIES_MAX],
            None,
        )
        .expect("there is room");
    let given = make(files, files.root(), b"given", Make::File);
    let list = [for_ann(false, 0, right::ALL), for_ann(true, 0, right::ALL)];
    files.set_acl(&ROOT, given, &list, None).expect("root may");
    make_with_lists(files, shared);
    files.commit(None).expect("durable");
}

/// The last change of what a client asks for, and of the call.
const RECEIPT: Receipt = Receipt {
    place: [3; 20],
    number: 7,
    step: 2,
    call: 5,
};

fn own_list() -> Vec<Entry> {
    [
        vec![for_ann(true, 0, right::READ)],
        of_mode(0o604, Kind::File).list(),
    ]
    .concat()
}

/// Two lists that come with their files, in a directory that passes another one on.
fn make_with_lists(files: &dyn FileSystem, directory: Node) {
    let wanted = SetAttributes {
        mode: Some(0o777),
        size: Some(5),
        ..SetAttributes::default()
    };
    let large = vec![for_ann(false, 0, right::READ); ENTRIES_MAX];
    for (name, list) in [(&b"own"[..], &own_list()), (b"large", &large)] {
        let new = (name, Make::File);
        let made = files.make_with_acl(&ROOT, directory, new, &wanted, list, Some(&RECEIPT));
        made.expect("a new object");
    }
    // Without what a second record would say.
    for (name, what) in ONE_RECORD {
        let (none, receipt) = (SetAttributes::default(), receipt_of(what));
        let new = (name, what);
        let made = files.make_with_acl(&ROOT, directory, new, &none, &own_list(), Some(&receipt));
        made.expect("a new object");
    }
}

const ONE_RECORD: [(&[u8], Make<'_>); 3] = [
    (b"own-file", Make::File),
    (b"own-directory", Make::Directory),
    (b"own-pipe", Make::Pipe),
];

/// Another one for each kind.
fn receipt_of(what: Make<'_>) -> Receipt {
    let place = match what {
        Make::File => 4,
        Make::Directory => 5,
        _ => 6,
    };
    Receipt {
        place: [place; 20],
        ..RECEIPT
    }
}

/// A path, and what is there: list and mode.
type Expected<'a> = (&'a [&'a [u8]], Vec<Entry>, u32);

fn check_lists(files: &dyn FileSystem) {
    let inherited = |flags| for_ann(true, flags | flag::INHERITED, READS_AND_WRITES);
    let with = |first: Entry, mode, kind| [vec![first], of_mode(mode, kind).list()].concat();
    let both = flag::FILE | flag::DIRECTORY;
    let expected: [Expected<'_>; 7] = [
        (
            &[b"shared"],
            with(passed_on(), 0o755, Kind::Directory),
            0o755,
        ),
        (
            &[b"shared", b"file"],
            with(inherited(0), 0o644, Kind::File),
            0o644,
        ),
        (
            &[b"shared", b"below"],
            with(inherited(both), 0o755, Kind::Directory),
            0o755,
        ),
        (
            &[b"shared", b"below", b"private"],
            with(inherited(0), 0o600, Kind::File),
            0o600,
        ),
        (
            &[b"large"],
            vec![for_ann(false, 0, right::READ); ENTRIES_MAX],
            0,
        ),
        (&[b"shared", b"own"], own_list(), 0o604),
        (
            &[b"shared", b"large"],
            vec![for_ann(false, 0, right::READ); ENTRIES_MAX],
            0,
        ),
    ];
    for (path, list, mode) in expected {
        let node = look_up(files, path);
        assert!(
            files.acl(node).as_ref() == Ok(&list),
            "{:?}",
            files.acl(node)
        );
        assert_eq!(files.attributes(node).expect("there").mode, mode);
    }
    let may = |path: &[&[u8]], who: &Identity| {
        let may = files.permissions(who, look_up(files, path)).expect("there");
        (may.read, may.write)
    };
    let bob = Identity { uid: 70_001, ..ANN };
    assert_eq!(may(&[b"shared", b"file"], &ANN), (true, true));
    assert_eq!(may(&[b"shared", b"file"], &bob), (true, false));
    assert_eq!(may(&[b"shared", b"below", b"private"], &ANN), (true, true));
    assert_eq!(
        may(&[b"shared", b"below", b"private"], &bob),
        (false, false)
    );
    assert_eq!(may(&[b"large"], &ANN), (false, false));
    let own = files.attributes(look_up(files, &[b"shared", b"own"]));
    assert_eq!(own.expect("there").size, 5);
    assert_eq!(files.receipt(&RECEIPT.place), Some(RECEIPT));
    for (name, what) in ONE_RECORD {
        let node = look_up(files, &[b"shared", name]);
        assert_eq!(files.acl(node), Ok(own_list()));
        assert_eq!(files.attributes(node).expect("there").mode, 0o604);
        let receipt = receipt_of(what);
        assert_eq!(files.receipt(&receipt.place), Some(receipt));
    }
}

#[test]
fn lists_are_there_after_a_crash() {
    const TEST: &str = "lists_are_there_after_a_crash";
    match part().as_deref() {
        None => {
            let parts = Parts::of(TEST);
            assert!(!parts.run("crash").success, "it kills itself");
            parts.pass("look");
            parts.zdb_is_content("tank");
        }
        Some("crash") => {
            let pool = new_pool(&[
                ("acltype", "nfsv4"),
                ("aclmode", "passthrough"),
                ("aclinherit", "passthrough"),
            ]);
            let opened = open(&pool);
            leave_lists(&*opened.files());
            check_lists(&*opened.files());
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .expect("kill");
        }
        Some(_) => {
            let engine = engine();
            let found = zpool::discover(&[folder()]).expect("discover");
            let candidate = found.first().expect("the pool");
            let proof = SafeToOwn::exported(candidate).unwrap_or_else(|| {
                zpool::pool::same_host_and_locked(engine, candidate).expect("it is dead")
            });
            let options = ImportOptions::default();
            let pool = Pool::import(engine, candidate, proof, &options).expect("import");
            let opened = open(&pool);
            check_lists(&*opened.files());
            let files = opened.files();
            let given = look_up(&*files, &[b"given"]);
            let changes = SetAttributes {
                uid: Some(ANN.uid),
                ..SetAttributes::default()
            };
            let set = files.set_attributes(&ROOT, given, &changes, &Guard::default(), None);
            assert_eq!(
                set.expect("root may").after.mode,
                0,
                "it denies to its owner"
            );
            let summary = opened.check(&mut |told| panic!("{told:?}"));
            assert_eq!(summary.expect("checked").faults, 0);
            opened.close();
            export(pool);
        }
    }
}

#[test]
fn what_a_mode_and_a_directory_do_to_lists_follows_the_settings() {
    isolated(
        "what_a_mode_and_a_directory_do_to_lists_follows_the_settings",
        || {
            let pool = new_pool(&[]);
            let opened = open(&pool);
            let files = &*opened.files();
            let directory = make(files, files.root(), b"directory", Make::Directory);
            let refused = files.set_acl(&ROOT, directory, &[passed_on()], None);
            assert_eq!(refused.err(), Some(FileError::Unsupported), "acltype=off");
            let set = |property: &str, value: &str| {
                let set = [(property.to_owned(), Value::Text(value.to_owned()))];
                let set = engine::capabilities::Properties::set_dataset_properties(
                    &pool,
                    (&name()).into(),
                    &set,
                );
                set.expect("set");
            };
            set("acltype", "nfsv4");
            let all = for_ann(true, flag::FILE, right::ALL);
            files
                .set_acl(&ROOT, directory, &[all], None)
                .expect("root may");
            let made = |name: &[u8]| {
                let list = files
                    .acl(make(files, directory, name, Make::File))
                    .expect("there");
                list.iter()
                    .find(|entry| entry.who == all.who)
                    .map(|entry| entry.mask)
            };
            // Restricted: no more than the group may, and no right to the list.
            let group = right::READ | 0x12_0088;
            assert_eq!(made(b"restricted"), Some(right::ALL & group));
            set("aclinherit", "discard");
            assert_eq!(made(b"discarded"), None);
            set("aclinherit", "noallow");
            assert_eq!(made(b"none-allows"), None);
            set("aclinherit", "passthrough");
            assert_eq!(made(b"all"), Some(right::ALL));
            set("aclinherit", "passthrough-x");
            assert_eq!(made(b"not-run"), Some(right::ALL & !right::EXECUTE));
            let file = look_up(files, &[b"directory", b"all"]);
            let named = |node| {
                let list = files.acl(node).expect("there");
                list.iter()
                    .find(|entry| entry.who == all.who)
                    .map(|entry| entry.mask)
            };
            set("aclmode", "restricted");
            assert_eq!(set_mode(files, file, 0o640), Err(FileError::NotPermitted));
            set("aclmode", "passthrough");
            assert_eq!(set_mode(files, file, 0o640), Ok(0o640));
            assert_eq!(named(file), Some(right::ALL));
            set("aclmode", "groupmask");
            assert_eq!(set_mode(files, file, 0o640), Ok(0o640));
            assert_eq!(named(file), Some(right::ALL & group));
            set("aclmode", "discard");
            assert_eq!(set_mode(files, file, 0o640), Ok(0o640));
            assert_eq!(named(file), None);
            // Whoever may change the list by it.
            let list = [for_ann(true, 0, right::WRITE_ACL)];
            assert_eq!(
                files.set_acl(&ANN, file, &list, None).err(),
                Some(FileError::NotPermitted)
            );
            files.set_acl(&ROOT, file, &list, None).expect("root may");
            assert!(files.set_acl(&ANN, file, &list, None).is_ok());
            opened.close();
            export(pool);
        },
    );
}
