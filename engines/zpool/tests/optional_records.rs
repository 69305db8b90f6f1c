//! Records of the intent log that other systems write: flags, projects, creation times, access control lists of a
//! creation or a change, and writes that only extend a file. The test writes them, crashes, and checks the result of
//! their replay.

#[path = "support/log.rs"]
mod log;
mod support;

use std::path::Path;

use engine::OpenFileSystem;
use engine::capabilities::FileSystems;
use engine::dataset::{FileSystemSpec, Value};
use engine::pool::{ImportOptions, SafeToOwn};
use file_system::acl::{ENTRIES_MAX, Entry, Who, flag, of_mode, right};
use file_system::{
    FileError, FileSystem, Guard, Identity, Kind, Make, Node, SetAttributes, SetExtended,
};
use log::log;
use support::accounting::{counts, objects};
use support::{Parts, dir, disks, export, import, isolated, kill_oneself, mirror, options, part};
use units::VolumeName;
use zpl::acl::encode_logged;
use zpl::attribute_list::{LIST_BYTES_MAX, decode};
use zpl::objects::{Has, ObjectError, Objects, Step, Stored, Text};
use zpl::options::Options;
use zpl::records::{Bytes, Creation, Record, Setting, set};
use zpool::files::FileSystem as Opened;
use zpool::{Engine, Pool};

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};
const NAME: &str = "tank/files";
/// Above all numbers of the test's own objects.
const FIRST_NEW: u64 = 900;
const HIDDEN: u64 = 0x2_0000_0000;
const PASSES_ON: u64 = 0x2;
const HAS_TRIVIAL_LIST: u64 = 0x4;
const SPARSE: u64 = 0x2000_0000_0000;
const INHERITS: u64 = 0x4000_0000_0000;
const HAS_PROJECT: u64 = 0x8000_0000_0000;
const CREATED: [u64; 2] = [1_000_000_000, 5];
/// An exclusive creation has its verifier in the times.
const EXCLUSIVE: Setting = Setting {
    object: 0,
    mask: set::SIZE | set::ATIME | set::MTIME,
    mode: 0,
    uid: 0,
    gid: 0,
    size: 300_000,
    atime: [7, 0],
    mtime: [9, 0],
    options: Options {
        flags: [0; 2],
        project: None,
        created: None,
    },
};
const OVERWRITTEN: [&[u8]; 2] = [b"cut", b"holed"];
/// Its end is set before any of its blocks.
const ENDED: &[u8] = b"ended";
/// A record assigns them a project, but they have no project attribute.
const WITHOUT_PROJECT: [(&[u8], Make<'_>); 2] = [
    (b"to", Make::Link(b"x")),
    (b"zero", Make::CharacterDevice(1, 5)),
];
const RECORD_SIZE: u64 = 128 << 10;
const BLOCK: [u8; 4096] = [b'n'; 4096];
static LONG_VALUE: [u8; 20_000] = [b'v'; 20_000];

fn name() -> VolumeName {
    NAME.parse().expect("a name")
}

/// No transaction group syncs by timer, because the records would then not be replayed.
fn engine() -> &'static Engine {
    let mut options = options();
    options.txg_timeout_s = 60;
    Engine::start(options).expect("start the engine")
}

fn open(pool: &Pool) -> Opened {
    pool.open_files((&name()).into(), false).expect("open")
}

fn make(files: &dyn FileSystem, name: &[u8], what: Make<'_>) -> Node {
    let none = SetAttributes::default();
    let made = files.make(&ROOT, files.root(), name, what, &none, None);
    made.expect("a new object").object.node
}

fn denies(uid: u32) -> Entry {
    Entry {
        allows: false,
        flags: 0,
        mask: right::READ,
        who: Who::User(uid),
    }
}

fn long_list() -> Vec<Entry> {
    vec![denies(70_000); ENTRIES_MAX]
}

/// A list passed at the creation. A directory passes it on to its entries.
fn list_of_new(kind: Kind) -> Vec<Entry> {
    let mut first = denies(70_000);
    if kind == Kind::Directory {
        first.flags = flag::FILE | flag::DIRECTORY;
    }
    [vec![first], of_mode(0o750, kind).list()].concat()
}

fn project(number: u64) -> Options {
    Options {
        project: Some(number),
        ..Options::default()
    }
}

fn stored(opened: &Opened, node: Node) -> Stored {
    opened.objects().stored(node.object).expect("it is there")
}

/// Files, directories, an object with a long list and one with a long extended attribute, without a project.
fn make_old(files: &dyn FileSystem) -> [Node; 4] {
    let plain = make(files, b"plain", Make::File);
    files.write(plain, 0, &[b'x'; 5000]).expect("there is room");
    let listed = make(files, b"listed", Make::File);
    files
        .set_acl(&ROOT, listed, &long_list(), None)
        .expect("root may");
    let extended = make(files, b"extended", Make::File);
    let set = files.set_extended(
        &ROOT,
        extended,
        b"long",
        &LONG_VALUE,
        SetExtended::Either,
        None,
    );
    set.expect("there is room");
    let dir = make(files, b"dir", Make::Directory);
    [plain, listed, extended, dir]
}

/// Creations with all optional parts.
fn log_new(opened: &Opened, root: Node) {
    let file = Creation {
        directory: root.object,
        slots: 1,
        mode: 0o100_640,
        generation: 5,
        crtime: [1_700_000_000, 0],
        ..Creation::default()
    };
    let dir = Creation {
        mode: 0o040_750,
        ..file
    };
    let with_file = encode_logged(&list_of_new(Kind::File));
    let with_folder = encode_logged(&list_of_new(Kind::Directory));
    let hidden = Options {
        flags: [HIDDEN | SPARSE, HIDDEN],
        created: Some(CREATED),
        ..Options::default()
    };
    let inherits = Options {
        flags: [INHERITS, INHERITS],
        ..project(7)
    };
    let new = [
        Creation {
            name: b"hidden",
            options: Some(hidden),
            ..file
        },
        Creation {
            name: b"with-list",
            list: Some(&with_file),
            ..file
        },
        Creation {
            name: b"with-both",
            list: Some(&with_file),
            options: Some(project(7)),
            ..file
        },
        Creation {
            name: b"project",
            options: Some(inherits),
            ..dir
        },
        Creation {
            name: b"dir-with-list",
            list: Some(&with_folder),
            ..dir
        },
        Creation {
            name: b"dir-with-both",
            list: Some(&with_folder),
            options: Some(inherits),
            ..dir
        },
        // Created in an object that belongs to a project.
        Creation {
            directory: FIRST_NEW + 3,
            name: b"inside",
            ..file
        },
        Creation {
            directory: FIRST_NEW + 3,
            mode: 0o120_777,
            name: b"link",
            link: Some(b"inside"),
            ..file
        },
        // The kernel's record of these attributes was lost in the crash.
        Creation {
            name: b"exclusive",
            list: Some(&with_file),
            then: Some(EXCLUSIVE),
            ..file
        },
    ];
    for (number, new) in new.into_iter().enumerate() {
        let object = FIRST_NEW + number as u64;
        log(opened, &Record::Create(Creation { object, ..new }));
    }
}

fn find(opened: &Opened, name: &[u8]) -> Node {
    let files = opened.files();
    let found = files.look_up(&ROOT, files.root(), name);
    found.expect("it was made").node
}

/// A kernel had the bytes of its first write in a later clone.
fn log_ended(opened: &Opened) {
    let object = find(opened, ENDED).object;
    let first = Record::WriteAgain {
        object,
        offset: 0,
        length: RECORD_SIZE,
    };
    let second = Record::Write {
        object,
        offset: RECORD_SIZE,
        length: BLOCK.len() as u64,
        end: RECORD_SIZE + BLOCK.len() as u64,
        bytes: Bytes::Here(&BLOCK),
    };
    log(opened, &first);
    log(opened, &second);
}

/// The records between a block and a later write of it without bytes: the file is truncated to zero, or gets holes.
fn log_overwritten(opened: &Opened) {
    let [cut, holed] = OVERWRITTEN.map(|name| find(opened, name).object);
    let block = |object| Record::Write {
        object,
        offset: 0,
        length: BLOCK.len() as u64,
        end: BLOCK.len() as u64,
        bytes: Bytes::Here(&BLOCK),
    };
    let hole = |offset, length| Record::Truncate {
        object: holed,
        offset,
        length,
    };
    let again = |object, offset, length| Record::WriteAgain {
        object,
        offset,
        length,
    };
    let size = Record::Set(Setting {
        object: cut,
        mask: set::SIZE,
        ..Setting::default()
    });
    log(opened, &block(cut));
    log(opened, &size);
    log(opened, &again(cut, 100, 3000));
    log(opened, &block(holed));
    log(opened, &hole(1000, 2000));
    log(opened, &again(holed, 2000, 500));
    log(opened, &hole(2100, 100));
}

/// For a truncated file and one with holes: the last write is present, and none of the removed data.
fn check_overwritten(opened: &Opened) {
    assert_eq!(stored(opened, find(opened, ENDED)).block_size, RECORD_SIZE);
    let mut cut = [0; 3100];
    cut[100..].fill(BLOCK[0]);
    let mut holed = BLOCK;
    for hole in [1000..2000, 2100..2200, 2500..3000] {
        holed[hole].fill(0);
    }
    for (name, wanted) in OVERWRITTEN.into_iter().zip([&cut[..], &holed]) {
        let node = find(opened, name);
        let mut found = vec![0xff; wanted.len()];
        let read = opened.objects().read(node.object, 0, &mut found);
        read.expect("it is whole");
        assert_eq!(stored(opened, node).size, wanted.len() as u64, "{name:?}");
        assert!(found == wanted, "{name:?}");
    }
}

fn new_pool() -> Pool {
    let pool = mirror(engine(), &disks(&["a", "b"]));
    let lists = ("acltype".to_owned(), Value::Text("nfsv4".to_owned()));
    let spec = FileSystemSpec {
        properties: vec![lists],
        ..FileSystemSpec::plain(name())
    };
    pool.create_file_system(&spec).expect("create");
    pool
}

fn crash() {
    let opened = open(&new_pool());
    let files = opened.files();
    let old = make_old(&*files);
    for name in OVERWRITTEN.into_iter().chain([ENDED]) {
        make(&*files, name, Make::File);
    }
    let without = WITHOUT_PROJECT.map(|(name, what)| make(&*files, name, what));
    // The log begins with a commit that blocks until a transaction group is synced.
    files.commit(None).expect("durable");
    log_new(&opened, files.root());
    for node in old.into_iter().chain(without) {
        let set = Setting {
            object: node.object,
            mask: set::OPTIONS,
            options: Options {
                created: Some(CREATED),
                ..project(9)
            },
            ..Setting::default()
        };
        log(&opened, &Record::Set(set));
    }
    // The second write of a block with its first one in the log, and one of the same block with an earlier end.
    for length in [5100, 4000] {
        let again = Record::WriteAgain {
            object: old[0].object,
            offset: 0,
            length,
        };
        log(&opened, &again);
    }
    // Only for root, in a kernel.
    log(
        &opened,
        &Record::Extended {
            object: old[0].object,
            name: b"trusted.secret",
            value: b"of root",
        },
    );
    log_overwritten(&opened);
    log_ended(&opened);
    // An object with a project gets a different one, together with a mode.
    let again = Setting {
        object: old[0].object,
        mask: set::OPTIONS | set::MODE,
        mode: 0o600,
        options: project(11),
        ..Setting::default()
    };
    log(&opened, &Record::Set(again));
    files.commit(None).expect("durable");
    kill_oneself()
}

fn check_new(opened: &Opened) {
    let files = opened.files();
    let look_up = |name: &[u8]| {
        let found = files.look_up(&ROOT, files.root(), name);
        found.expect("it was replayed").node
    };
    let hidden = stored(opened, look_up(b"hidden"));
    assert_eq!(hidden.flags & (HIDDEN | SPARSE), HIDDEN);
    assert_eq!((hidden.crtime, hidden.mode), (CREATED, 0o100_640));
    assert_eq!(
        files.acl(&ROOT, look_up(b"hidden")),
        Ok(of_mode(0o640, Kind::File).list())
    );
    for (name, kind, of_project) in [
        (&b"with-list"[..], Kind::File, None),
        (b"with-both", Kind::File, Some(7)),
        (b"dir-with-list", Kind::Directory, None),
        (b"dir-with-both", Kind::Directory, Some(7)),
    ] {
        let node = look_up(name);
        assert_eq!(files.acl(&ROOT, node), Ok(list_of_new(kind)), "{name:?}");
        let found = stored(opened, node);
        // The permissions from the list, not from the record.
        assert_eq!(found.mode & 0o777, 0o750, "{name:?}");
        let has = found.has.has(Has::PROJECT) && found.flags & HAS_PROJECT != 0;
        assert_eq!(has.then_some(found.project), of_project, "{name:?}");
    }
    let exclusive = stored(opened, look_up(b"exclusive"));
    let times = (exclusive.atime, exclusive.mtime);
    assert_eq!(times, (EXCLUSIVE.atime, EXCLUSIVE.mtime));
    assert_eq!(
        (exclusive.size, exclusive.block_size),
        (300_000, RECORD_SIZE)
    );
    let inside = files.look_up(&ROOT, look_up(b"project"), b"inside");
    let inside = stored(opened, inside.expect("it was replayed").node);
    assert_eq!((inside.project, inside.flags & INHERITS), (7, INHERITS));
    let link = files.look_up(&ROOT, look_up(b"project"), b"link");
    let link = stored(opened, link.expect("it was replayed").node);
    assert!(!link.has.has(Has::PROJECT), "links belong to none");
    check_moves_between_projects(&*files);
}

/// As in the kernel. A directory with an inherited project accepts no object of a different one, which the project's
/// quota would not count.
fn check_moves_between_projects(files: &dyn FileSystem) {
    let root = files.root();
    let look_up = |name: &[u8]| files.look_up(&ROOT, root, name).expect("there").node;
    let project = look_up(b"project");
    let link = |name: &[u8], to: &[u8]| {
        let linked = files.link(&ROOT, look_up(name), project, to, None);
        linked.map(drop)
    };
    let rename =
        |from: (Node, &[u8]), to: (Node, &[u8])| files.rename(&ROOT, from, to, None).map(drop);
    let refused = Err(FileError::OtherProject);
    assert_eq!(link(b"with-list", b"second"), refused);
    for name in [&b"with-list"[..], b"dir-with-list"] {
        assert_eq!(rename((root, name), (project, b"moved")), refused);
    }
    assert_eq!(link(b"with-both", b"second"), Ok(()));
    assert_eq!(
        rename((project, b"second"), (root, b"second")),
        Ok(()),
        "out of it"
    );
    assert_eq!(
        rename((root, b"second"), (project, b"second")),
        Ok(()),
        "of the same"
    );
    // Objects without any project move freely.
    assert_eq!(rename((project, b"link"), (root, b"link")), Ok(()));
    assert_eq!(rename((root, b"link"), (project, b"link")), Ok(()));
}

/// A user attribute of the same name is a different one.
fn check_attribute_of_root(opened: &Opened, node: Node) {
    let (files, secret) = (opened.files(), b"trusted.secret");
    assert_eq!(
        files.extended(&ROOT, node, secret),
        Err(FileError::NoExtended)
    );
    let removed = files.remove_extended(&ROOT, node, secret, None);
    assert_eq!(removed.map(drop), Err(FileError::NoExtended));
    let set = files.set_extended(&ROOT, node, secret, b"a user's", SetExtended::Create, None);
    set.expect("another one");
    assert_eq!(
        files.extended(&ROOT, node, secret),
        Ok(b"a user's".to_vec())
    );
    files
        .remove_extended(&ROOT, node, secret, None)
        .expect("it is there");
    let list = opened
        .objects()
        .text(node.object, Text::Extended, LIST_BYTES_MAX);
    let list = list.expect("there is a list");
    let list = decode(&list).expect("a list");
    assert!(list.contains(&(&secret[..], &b"of root"[..])), "{list:?}");
}

fn check_old(opened: &Opened) {
    let files = opened.files();
    for (name, _) in WITHOUT_PROJECT {
        let found = files.look_up(&ROOT, files.root(), name).expect("there");
        let found = stored(opened, found.node);
        assert!(!found.has.has(Has::PROJECT), "{name:?}");
        assert_eq!((found.crtime, found.flags & HAS_PROJECT), (CREATED, 0));
    }
    for (name, of_project) in [
        (&b"plain"[..], 11),
        (b"listed", 9),
        (b"extended", 9),
        (b"dir", 9),
    ] {
        let node = files
            .look_up(&ROOT, files.root(), name)
            .expect("there")
            .node;
        let found = stored(opened, node);
        assert!(found.has.has(Has::PROJECT), "{name:?}");
        assert_eq!(
            (found.project, found.crtime),
            (of_project, CREATED),
            "{name:?}"
        );
        assert_ne!(found.flags & HAS_PROJECT, 0, "{name:?}");
        match name {
            b"plain" => {
                assert_eq!((found.mode, found.size), (0o100_600, 5100));
                check_attribute_of_root(opened, node);
            }
            b"listed" => assert_eq!(files.acl(&ROOT, node), Ok(long_list())),
            b"extended" => {
                let value = files.extended(&ROOT, node, b"long");
                assert!(value == Ok(LONG_VALUE.to_vec()));
            }
            _ => assert_eq!(found.links, 2),
        }
    }
}

#[test]
fn creation_options_and_projects_are_replayed() {
    const TEST: &str = "creation_options_and_projects_are_replayed";
    match part().as_deref() {
        None => {
            let parts = Parts::of(TEST);
            assert!(!parts.run("crash").success, "it kills itself");
            parts.pass("look");
            parts.zdb_is_content("tank");
            let told = objects(&parts, NAME);
            let of_projects = counts(&told).pop().expect("projects are counted");
            let counted = |entry: &str| of_projects.contains(&entry);
            let expected = ["obj-7 = 4", "obj-9 = 3", "obj-b = 1"];
            assert!(expected.into_iter().all(counted), "{of_projects:?}");
        }
        Some("crash") => crash(),
        Some(_) => {
            let pool = import(engine());
            let opened = open(&pool);
            check_new(&opened);
            check_old(&opened);
            check_overwritten(&opened);
            let summary = opened.check(&mut |told| panic!("{told:?}"));
            assert_eq!(summary.expect("checked").faults, 0);
            drop(opened);
            export(pool);
        }
    }
}

#[test]
fn clone_record_of_absent_blocks_is_refused() {
    const TEST: &str = "clone_record_of_absent_blocks_is_refused";
    match part().as_deref() {
        None => {
            let parts = Parts::of(TEST);
            assert!(!parts.run("crash").success, "it kills itself");
            parts.pass("look");
        }
        Some("crash") => {
            let opened = open(&new_pool());
            let files = opened.files();
            let [plain, ..] = make_old(&*files);
            files.commit(None).expect("durable");
            let clone = Record::Clone {
                object: plain.object,
                offset: 0,
                length: 1024,
                block_size: 512,
                pointers: &[0; 2 * 128],
            };
            log(&opened, &clone);
            files.commit(None).expect("durable");
            kill_oneself()
        }
        Some(_) => {
            let pool = import(engine());
            let opened = pool.open_files((&name()).into(), false);
            assert!(opened.is_err(), "the file has one block");
            export(pool);
        }
    }
}

/// Whether a log is refused with a record of more entries than any system sets: one that sets them, or creates an
/// object with such a list.
fn an_overlong_list_is_refused(test: &'static str, of_new: Option<u64>) {
    match part().as_deref() {
        None => {
            let parts = Parts::of(test);
            assert!(!parts.run("crash").success, "it kills itself");
            parts.pass("look");
        }
        Some("crash") => {
            let opened = open(&new_pool());
            let files = opened.files();
            let [plain, ..] = make_old(&*files);
            files.commit(None).expect("durable");
            let list = &encode_logged(&vec![denies(70_000); ENTRIES_MAX + 1]);
            let object = plain.object;
            log(
                &opened,
                &match of_new {
                    None => Record::Acl { object, list },
                    Some(mode) => Record::Create(Creation {
                        directory: files.root().object,
                        object: FIRST_NEW,
                        slots: 1,
                        mode,
                        generation: 5,
                        crtime: CREATED,
                        name: b"overlong",
                        list: Some(list),
                        ..Creation::default()
                    }),
                },
            );
            files.commit(None).expect("durable");
            kill_oneself()
        }
        Some(_) => {
            let pool = import(engine());
            let opened = pool.open_files((&name()).into(), false);
            assert!(opened.is_err(), "no system can have set it");
            export(pool);
        }
    }
}

#[test]
fn impossible_acl_is_not_replayed() {
    an_overlong_list_is_refused("impossible_acl_is_not_replayed", None);
}

#[test]
fn file_creation_with_impossible_acl_is_not_replayed() {
    const TEST: &str = "file_creation_with_impossible_acl_is_not_replayed";
    an_overlong_list_is_refused(TEST, Some(0o100_640));
}

#[test]
fn mkdir_with_impossible_acl_is_not_replayed() {
    const TEST: &str = "mkdir_with_impossible_acl_is_not_replayed";
    an_overlong_list_is_refused(TEST, Some(0o040_750));
}

/// The maximum size of an attribute, which another system may have written.
fn longest_list() -> Vec<u8> {
    let mut entry = denies(70_000);
    entry.flags = flag::FILE | flag::DIRECTORY;
    zpl::acl::encode(&[entry; 4095])
}

#[test]
fn acl_longer_than_an_attribute_is_refused() {
    const TEST: &str = "acl_longer_than_an_attribute_is_refused";
    isolated(TEST, || {
        let pool = mirror(engine(), &disks(&["a", "b"]));
        let properties = ["aclmode", "aclinherit"]
            .map(|name| (name.to_owned(), Value::Text("passthrough".to_owned())));
        let spec = FileSystemSpec {
            properties: properties.to_vec(),
            ..FileSystemSpec::plain(name())
        };
        pool.create_file_system(&spec).expect("create");
        let opened = open(&pool);
        let files = opened.files();
        let dir = make(&*files, b"dir", Make::Directory);
        let set = |list: Vec<u8>| {
            let flags = stored(&opened, dir).flags & !HAS_TRIVIAL_LIST | PASSES_ON;
            let step = Step::Set {
                object: dir.object,
                stored: Stored {
                    flags,
                    has: Has::FLAGS,
                    ..Stored::default()
                },
                acl: Some(list),
            };
            opened.objects().change(&[step], false)
        };
        let longest = longest_list();
        set(longest.clone()).expect("there is room");
        let longer = [longest, longest_list()[..16].to_vec()].concat();
        assert!(matches!(set(longer), Err(ObjectError::TooLong)));
        let new = |what| {
            let none = SetAttributes::default();
            files.make(&ROOT, dir, b"new", what, &none, None)
        };
        let too_long = Some(FileError::Io);
        assert_eq!(new(Make::File).err(), too_long, "its mode is added");
        assert_eq!(new(Make::Directory).err(), too_long);
        let mode = SetAttributes {
            mode: Some(0o705),
            ..SetAttributes::default()
        };
        let set = files.set_attributes(&ROOT, dir, &mode, &Guard::default(), None);
        assert_eq!(set.err(), too_long);
        let list = files.acl(&ROOT, dir).expect("it is as it was");
        assert_eq!(list.len(), 4095);
        drop(files);
        drop(opened);
        export(pool);
    });
}

/// Bytes that are stored as they are: no part of them occurs twice.
fn incompressible() -> Vec<u8> {
    let next = |word: &u64| Some(word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let words = std::iter::successors(Some(1_u64), next).skip(1).take(2000);
    words.flat_map(u64::to_be_bytes).collect()
}

/// Overwrites each copy of some bytes; returns their number.
fn damage(dir: &Path, wanted: &[u8]) -> usize {
    let mut count = 0;
    for disk in ["a", "b"] {
        let path = dir.join(disk);
        let mut bytes = std::fs::read(&path).expect("the disk");
        let found = |at: &usize| bytes[*at..].starts_with(wanted);
        let places: Vec<usize> = (0..bytes.len()).filter(found).collect();
        for at in &places {
            bytes[*at] ^= 1;
        }
        count += places.len();
        std::fs::write(&path, bytes).expect("written");
    }
    count
}

/// A list and a project would move the attributes into a spill block. The process does not abort.
fn change_unreadable_objects(opened: &Opened) {
    let files = opened.files();
    let mut object = None;
    let listed = files.read_directory(&ROOT, files.root(), 0, &mut |entry| {
        object = Some(entry.object);
        true
    });
    listed.expect("it is there");
    let object = object.expect("there is a file");
    let change = |stored: Stored, acl: Option<Vec<u8>>| {
        let step = Step::Set {
            object,
            stored,
            acl,
        };
        opened.objects().change(&[step], false)
    };
    let project = Stored {
        project: 7,
        has: Has::PROJECT,
        ..Stored::default()
    };
    assert!(matches!(change(project, None), Err(ObjectError::Io(_))));
    let list = Some(zpl::acl::encode(&long_list()));
    let listed = change(Stored::default(), list);
    assert!(matches!(listed, Err(ObjectError::Io(_))));
}

#[test]
fn object_with_unreadable_attributes_gets_no_project_or_acl() {
    const TEST: &str = "object_with_unreadable_attributes_gets_no_project_or_acl";
    match part().as_deref() {
        None => {
            let parts = Parts::of(TEST);
            parts.pass("make");
            let some = &incompressible()[64..128];
            assert!(damage(parts.dir(), some) > 1, "each disk has it");
            parts.pass("look");
        }
        Some("make") => {
            let pool = new_pool();
            let opened = open(&pool);
            let files = opened.files();
            let node = make(&*files, b"file", Make::File);
            let (value, either) = (incompressible(), SetExtended::Either);
            let set = files.set_extended(&ROOT, node, b"long", &value, either, None);
            set.expect("there is room");
            drop((files, opened));
            export(pool);
        }
        Some(_) => {
            let found = zpool::discover(&[dir()]).expect("discover");
            let candidate = found.first().expect("the pool");
            let proof = SafeToOwn::exported(candidate).expect("it is exported");
            let options = ImportOptions::default();
            let pool = Pool::import(engine(), candidate, proof, &options).expect("import");
            let opened = open(&pool);
            change_unreadable_objects(&opened);
            drop(opened);
            export(pool);
        }
    }
}
