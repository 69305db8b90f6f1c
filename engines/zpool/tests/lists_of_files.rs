//! Access control lists of a file system in a pool: set, inherited, enforced, and present after a crash.

mod support;

use engine::OpenFileSystem;
use engine::capabilities::FileSystems;
use engine::dataset::{FileSystemSpec, Value};
use engine::pool::{ImportOptions, SafeToOwn};
use file_system::acl::{ENTRIES_MAX, Entry, Who, flag, of_mode, right};
use file_system::{
    FileError, FileSystem, Guard, Identity, Kind, Make, Node, Receipt, Removable, SetAttributes,
    SetExtended,
};
use support::{Parts, dir, disks, engine, export, isolated, mirror, part};
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

/// The inherited entries of a directory, a mode that is set afterwards, and more entries than fit into a bonus buffer.
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

/// The last change of a client's request, and of the call.
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

/// Two lists passed with their files, in a directory with a different inheritable list.
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
    // Without the information of a second record.
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

/// A different one for each kind.
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

/// A path, and its expected list and mode.
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
            files.acl(&ROOT, node).as_ref() == Ok(&list),
            "{:?}",
            files.acl(&ROOT, node)
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
        assert_eq!(files.acl(&ROOT, node), Ok(own_list()));
        assert_eq!(files.attributes(node).expect("there").mode, 0o604);
        let receipt = receipt_of(what);
        assert_eq!(files.receipt(&receipt.place), Some(receipt));
    }
}

#[test]
fn acls_survive_a_crash() {
    const TEST: &str = "acls_survive_a_crash";
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
            let found = zpool::discover(&[dir()]).expect("discover");
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
fn acl_changes_by_chmod_and_inheritance_follow_properties() {
    isolated(
        "acl_changes_by_chmod_and_inheritance_follow_properties",
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
                    .acl(&ROOT, make(files, directory, name, Make::File))
                    .expect("there");
                list.iter()
                    .find(|entry| entry.who == all.who)
                    .map(|entry| entry.mask)
            };
            // Restricted: no more than the group's permissions, and no right to the list.
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
                let list = files.acl(&ROOT, node).expect("there");
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
            // A user with the right to change the list because of it.
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

/// An entry that allows or denies a right, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Yes,
    No,
    Nothing,
}

const ALL_DECISIONS: [Decision; 3] = [Decision::Yes, Decision::No, Decision::Nothing];

/// A list of mode 755 or 644 with a different entry for a right of Ann's.
fn saying(kind: Kind, says: Decision, mask: u32) -> Vec<Entry> {
    let mode = match kind {
        Kind::Directory => 0o755,
        _ => 0o644,
    };
    let own = match says {
        Decision::Yes => vec![for_ann(true, 0, mask)],
        Decision::No => vec![for_ann(false, 0, mask)],
        // It is still not a list of a mode.
        Decision::Nothing => vec![for_ann(true, 0, right::SYNCHRONIZE)],
    };
    [own, of_mode(mode, kind).list()].concat()
}

fn made_with(files: &dyn FileSystem, at: Node, new: (&[u8], Make<'_>), list: &[Entry]) -> Node {
    let none = SetAttributes::default();
    let made = files.make_with_acl(&ROOT, at, new, &none, list, None);
    made.expect("root may").object.node
}

/// Creates and removes names in a directory with a list, for each entry on each right.
fn names_follow_lists(files: &dyn FileSystem) {
    let none = SetAttributes::default();
    let mut number = 0;
    let mut directory = |says, mask| {
        number += 1;
        let name = format!("names-{number}").into_bytes();
        let list = saying(Kind::Directory, says, mask);
        made_with(files, files.root(), (&name, Make::Directory), &list)
    };
    let rights = [right::WRITE, right::APPEND, right::DELETE_CHILD];
    for mask in rights {
        for says in ALL_DECISIONS {
            let at = directory(says, mask);
            let may = |needed: u32| match says == Decision::Yes && needed & mask != 0 {
                true => None,
                false => Some(FileError::Access),
            };
            let make = |name: &[u8], what| {
                files
                    .make(&ANN, at, name, what, &none, None)
                    .map(drop)
                    .err()
            };
            assert_eq!(make(b"file", Make::File), may(right::WRITE));
            assert_eq!(make(b"directory", Make::Directory), may(right::APPEND));
            assert_eq!(make(b"link", Make::Link(b"to")), may(right::WRITE));
            let own = directory(Decision::Yes, right::ALL);
            let source = made_with(files, own, (b"moved", Make::File), &own_list());
            let linked = files.link(&ANN, source, at, b"linked", None).err();
            assert_eq!(linked, may(right::WRITE));
            let moved = files.rename(&ANN, (own, b"moved"), (at, b"moved"), None);
            assert_eq!(
                moved.map(drop).err(),
                may(right::WRITE),
                "{says:?} {mask:x}"
            );
            let list = saying(Kind::Directory, Decision::Yes, right::ALL);
            made_with(files, own, (b"below", Make::Directory), &list);
            let moved = files.rename(&ANN, (own, b"below"), (at, b"below"), None);
            assert_eq!(
                moved.map(drop).err(),
                may(right::APPEND),
                "{says:?} {mask:x}"
            );
            make_plain(files, at, b"goes");
            let gone = files.remove(&ANN, at, b"goes", Removable::Any, None).err();
            assert_eq!(gone, may(right::WRITE | right::DELETE_CHILD));
        }
    }
}

fn make_plain(files: &dyn FileSystem, at: Node, name: &[u8]) -> Node {
    make(files, at, name, Make::File)
}

/// Removal as allowed or denied by the object's list, in a directory with such an entry, and in one that Ann may not
/// write to.
fn removals_follow_lists(files: &dyn FileSystem) {
    let mut number = 0;
    for of_directory in ALL_DECISIONS {
        for of_object in ALL_DECISIONS {
            number += 1;
            let name = format!("removals-{number}").into_bytes();
            let list = saying(Kind::Directory, of_directory, right::DELETE_CHILD);
            let at = made_with(files, files.root(), (&name, Make::Directory), &list);
            let may = match (of_object, of_directory) {
                (Decision::Yes, _) | (Decision::Nothing, Decision::Yes) => None,
                _ => Some(FileError::Access),
            };
            for (name, what, kind) in [
                (&b"file"[..], Make::File, Kind::File),
                (b"directory", Make::Directory, Kind::Directory),
            ] {
                let list = saying(kind, of_object, right::DELETE);
                made_with(files, at, (name, what), &list);
                made_with(files, files.root(), (name, what), &list);
                let gone = files.remove(&ANN, at, name, Removable::Any, None).err();
                assert_eq!(gone, may, "{of_object:?} in {of_directory:?}");
                // Also by a name that replaces it.
                let own = format!("own-{number}-{}", name.len()).into_bytes();
                let all = saying(Kind::Directory, Decision::Yes, right::ALL);
                let own = made_with(files, files.root(), (&own, Make::Directory), &all);
                let all = saying(kind, Decision::Yes, right::ALL);
                made_with(files, own, (b"new", what), &all);
                if may.is_some() {
                    let replaced = files.rename(&ANN, (own, b"new"), (at, name), None);
                    assert_eq!(replaced.map(drop).err(), may);
                }
                let (root, any) = (files.root(), Removable::Any);
                let gone = files.remove(&ANN, root, name, any, None).err();
                let by_itself = match of_object {
                    Decision::Yes => None,
                    _ => Some(FileError::Access),
                };
                assert_eq!(gone, by_itself, "the root is of mode 755");
                if gone.is_some() {
                    files
                        .remove(&ROOT, root, name, any, None)
                        .expect("root may");
                }
            }
        }
    }
    let missing = files.remove(&ANN, files.root(), b"missing", Removable::Any, None);
    assert_eq!(missing.err(), Some(FileError::Access));
}

/// Attributes, the list, and extended attributes of a file with an entry for one right.
fn attributes_follow_lists(files: &dyn FileSystem) {
    let none = SetAttributes::default();
    let mut number = 0;
    let mut file = |says, mask| {
        number += 1;
        let name = format!("attributes-{number}").into_bytes();
        let list = saying(Kind::File, says, mask);
        made_with(files, files.root(), (&name, Make::File), &list)
    };
    let guard = Guard::default();
    let set = |node, changes| {
        files
            .set_attributes(&ANN, node, &changes, &guard, None)
            .err()
    };
    for says in ALL_DECISIONS {
        let may = |error| (says != Decision::Yes).then_some(error);
        let modified = Some(file_system::SetTime::To(file_system::Time::default()));
        let timed = SetAttributes { modified, ..none };
        let node = file(says, right::WRITE_ATTRIBUTES);
        assert_eq!(set(node, timed), may(FileError::NotPermitted));
        let (mode, size) = (Some(0o600), Some(0));
        let node = file(says, right::WRITE_ACL);
        let list = saying(Kind::File, says, right::WRITE_ACL);
        let listed = files.set_acl(&ANN, node, &list, None).err();
        assert_eq!(listed, may(FileError::NotPermitted));
        let with_mode = SetAttributes { mode, ..none };
        assert_eq!(set(node, with_mode), may(FileError::NotPermitted));
        let node = file(says, right::WRITE);
        let cut = SetAttributes { size, ..none };
        assert_eq!(set(node, cut), may(FileError::Access));
        let node = file(says, right::APPEND);
        assert_eq!(set(node, cut), Some(FileError::Access), "it is no addition");
        let node = file(says, right::WRITE_OWNER);
        let taken = SetAttributes {
            uid: Some(ANN.uid),
            gid: Some(ANN.gid),
            ..none
        };
        assert_eq!(set(node, taken), may(FileError::NotPermitted));
        let (node, error) = (file(says, right::READ_ACL), FileError::Access);
        // Every user may, except where an earlier entry denies it.
        let denied = (says == Decision::No).then_some(error);
        assert_eq!(files.acl(&ANN, node).err(), denied);
        let (node, how) = (file(says, right::READ_NAMED), SetExtended::Either);
        assert_eq!(files.extended_names(&ANN, node).err(), denied);
        let node = file(says, right::WRITE);
        let written = files.set_extended(&ANN, node, b"name", b"value", how, None);
        assert_eq!(written.err(), may(error));
        let node = file(says, right::WRITE_NAMED);
        let written = files.set_extended(&ANN, node, b"name", b"value", how, None);
        assert_eq!(written.err(), Some(error), "mode 644");
    }
}

fn additions_change_nothing_else(files: &dyn FileSystem) {
    let node = make_plain(files, files.root(), b"added-to");
    let append = |offset, bytes: &[u8], repeats| files.append(node, offset, bytes, repeats).err();
    assert_eq!(append(0, b"one", false), None);
    assert_eq!(append(3, b"two", false), None);
    for (offset, bytes, repeats) in [
        (0, &b"one"[..], false),
        (5, b"oh", false),
        (0, b"onetwo", false),
        (0, b"One", true),
        (5, b"Oh", true),
    ] {
        let refused = append(offset, bytes, repeats);
        assert_eq!(refused, Some(FileError::Access), "{offset} {bytes:?}");
    }
    assert_eq!(append(0, b"onetwothree", true), None);
    let mut there = [0; 16];
    let read = files.read(node, 0, &mut there).expect("there");
    assert_eq!(&there[..read.length], b"onetwothree");
}

#[test]
fn every_operation_obeys_its_acl_right() {
    isolated("every_operation_obeys_its_acl_right", || {
        let pool = new_pool(&[("acltype", "nfsv4"), ("aclmode", "passthrough")]);
        let opened = open(&pool);
        let files = &*opened.files();
        names_follow_lists(files);
        removals_follow_lists(files);
        attributes_follow_lists(files);
        additions_change_nothing_else(files);
        let summary = opened.check(&mut |told| panic!("{told:?}"));
        assert_eq!(summary.expect("checked").faults, 0);
        opened.close();
        export(pool);
    });
}
