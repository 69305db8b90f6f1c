//! The conformance tests for every file system. An implementation runs [`ALL`] in its own tests, each on an empty file
//! system with a root that belongs to root and is writable by every user.
//!
//! # Panics
//! The tests panic where a file system behaves differently.

use crate::{
    COOKIE_LAST, Content, FileError, FileSystem, Guard, Identity, Kind, Make, Node, Receipt,
    Removable, SetAttributes, SetExtended, SetTime, Time, acl,
};

/// A test on an empty file system.
pub type Test = fn(&dyn FileSystem);

/// Every test, by its name.
pub const ALL: &[(&str, Test)] = &[
    ("a made object is found with its attributes", made_objects),
    ("a removed object is stale unless it is held", removal),
    ("allowed removals succeed", removable),
    ("names that cannot be are refused", names),
    ("a rename replaces only its like", renames),
    ("a directory is not moved into itself", cycles),
    ("a link is one more name", links),
    ("a change of names stores its receipt", receipts),
    (
        "a change of attributes stores its receipt",
        receipts_of_attributes,
    ),
    (
        "a directory is read once despite concurrent removals",
        directories,
    ),
    ("the path of an object is returned", paths),
    ("contents are read as written", contents),
    ("a file is cut and grows with zeros", sizes),
    ("holes are found or unknown", holes),
    ("attributes change together, under their guard", attributes),
    ("rights are those of owner, group and everyone", rights),
    ("the sticky bit protects names", sticky),
    (
        "a directory moves only with the right to change it",
        moved_directories,
    ),
    ("set-user-id goes with new contents", set_ids),
    (
        "extended attributes are kept with their object",
        extended_attributes,
    ),
    (
        "an access control list decides about the mode, and a mode about it",
        lists,
    ),
];

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};

fn user(uid: u32) -> Identity {
    Identity {
        uid,
        gid: uid,
        groups: Vec::new(),
    }
}

fn with_mode(mode: u32) -> SetAttributes {
    SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    }
}

fn make(files: &dyn FileSystem, directory: Node, name: &[u8], what: Make<'_>) -> Node {
    let none = SetAttributes::default();
    let made = files.make(&ROOT, directory, name, what, &none, None);
    made.expect("a new object").object.node
}

fn file(files: &dyn FileSystem, name: &[u8]) -> Node {
    make(files, files.root(), name, Make::File)
}

fn error<T>(result: Result<T, FileError>) -> Option<FileError> {
    result.err()
}

fn look_up(files: &dyn FileSystem, name: &[u8]) -> Result<Node, FileError> {
    let found = files.look_up(&ROOT, files.root(), name);
    found.map(|object| object.node)
}

fn made_objects(files: &dyn FileSystem) {
    let root = files.root();
    let kinds = [
        (&b"file"[..], Make::File, Kind::File, 0o644),
        (b"directory", Make::Directory, Kind::Directory, 0o755),
        (b"link", Make::Link(b"to"), Kind::Link, 0o777),
        (b"block", Make::BlockDevice(8, 1), Kind::BlockDevice, 0o644),
        (
            b"character",
            Make::CharacterDevice(1, 3),
            Kind::CharacterDevice,
            0o644,
        ),
        (b"socket", Make::Socket, Kind::Socket, 0o644),
        (b"pipe", Make::Pipe, Kind::Pipe, 0o644),
    ];
    for (name, what, kind, mode) in kinds {
        let none = SetAttributes::default();
        let is_device = matches!(kind, Kind::BlockDevice | Kind::CharacterDevice);
        let made = files.make(&user(7), root, name, what, &none, None);
        let (made, owner) = match is_device {
            true => {
                assert_eq!(error(made), Some(FileError::NotPermitted), "for root alone");
                (files.make(&ROOT, root, name, what, &none, None), 0)
            }
            false => (made, 7),
        };
        let made = made.expect("a new object");
        let attributes = made.object.attributes;
        assert_eq!((attributes.kind, attributes.mode), (kind, mode));
        assert_eq!((attributes.uid, attributes.gid), (owner, owner));
        assert!(made.directory.before.change != made.directory.after.change);
        let found = files.look_up(&ROOT, root, name).expect("it is there");
        assert_eq!(found.node, made.object.node);
        assert_eq!(found.attributes, attributes);
        assert_eq!(files.attributes(found.node), Ok(attributes));
        let by_number = files.object(root, found.node.object).expect("it is there");
        assert_eq!(by_number.node, found.node);
        let again = files.make(&ROOT, root, name, what, &none, None);
        assert_eq!(error(again), Some(FileError::Exists));
    }
    let (link, block) = (look_up(files, b"link"), look_up(files, b"block"));
    let link = link.expect("the link");
    assert_eq!(files.read_link(link), Ok(b"to".to_vec()));
    assert_eq!(files.attributes(link).map(|known| known.size), Ok(2));
    let device = files.attributes(block.expect("the device"));
    assert_eq!(device.map(|known| known.device), Ok((8, 1)));
    assert_eq!(files.read_link(root), Err(FileError::WrongType));
    assert_eq!(files.parent(&ROOT, root), Ok(root));
    let directory = look_up(files, b"directory").expect("the directory");
    assert_eq!(files.parent(&ROOT, directory), Ok(root));
}

fn removal(files: &dyn FileSystem) {
    let root = files.root();
    let gone = file(files, b"gone");
    let held = file(files, b"held");
    files.hold(held).expect("it is there");
    for name in [&b"gone"[..], b"held"] {
        let removed = files.remove(&ROOT, root, name, Removable::Any, None);
        let removed = removed.expect("it is there");
        assert!(removed.before.change != removed.after.change);
        assert_eq!(look_up(files, name), Err(FileError::NotFound));
    }
    assert_eq!(files.attributes(gone), Err(FileError::Stale));
    let mut byte = [0];
    assert_eq!(files.read(gone, 0, &mut byte), Err(FileError::Stale));
    assert_eq!(files.attributes(held).map(|known| known.links), Ok(0));
    files.write(held, 0, b"kept").expect("it is held");
    files.release(held);
    assert_eq!(files.attributes(held), Err(FileError::Stale));
    let again = file(files, b"gone");
    assert!(again != gone, "the generations differ");
}

fn removable(files: &dyn FileSystem) {
    let root = files.root();
    file(files, b"file");
    let directory = make(files, root, b"directory", Make::Directory);
    make(files, directory, b"inside", Make::File);
    let remove = |name: &[u8], what| error(files.remove(&ROOT, root, name, what, None));
    assert_eq!(
        remove(b"file", Removable::Directory),
        Some(FileError::NotDirectory)
    );
    assert_eq!(
        remove(b"directory", Removable::NoDirectory),
        Some(FileError::IsDirectory)
    );
    assert_eq!(
        remove(b"directory", Removable::Directory),
        Some(FileError::NotEmpty)
    );
    assert_eq!(remove(b"none", Removable::Any), Some(FileError::NotFound));
    let inside = files.remove(&ROOT, directory, b"inside", Removable::NoDirectory, None);
    inside.expect("a file");
    assert_eq!(remove(b"directory", Removable::Directory), None);
    assert_eq!(remove(b"file", Removable::NoDirectory), None);
    let lost = files.make(
        &ROOT,
        directory,
        b"x",
        Make::File,
        &SetAttributes::default(),
        None,
    );
    assert_eq!(error(lost), Some(FileError::Stale), "its directory is gone");
}

fn names(files: &dyn FileSystem) {
    let root = files.root();
    let none = SetAttributes::default();
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
        let made = files.make(&ROOT, root, name, Make::File, &none, None);
        assert_eq!(error(made), Some(FileError::BadName), "{name:?}");
    }
    let longest = vec![b'n'; files.limits().name_bytes_max as usize];
    let node = file(files, &longest);
    assert_eq!(look_up(files, &longest), Ok(node));
    let too_long = [&longest[..], b"n"].concat();
    let made = files.make(&ROOT, root, &too_long, Make::File, &none, None);
    assert_eq!(error(made), Some(FileError::NameTooLong));
    let plain = file(files, b"plain");
    let in_file = files.look_up(&ROOT, plain, b"x");
    assert_eq!(error(in_file), Some(FileError::NotDirectory));
}

fn renames(files: &dyn FileSystem) {
    let root = files.root();
    let (one, two) = (file(files, b"one"), file(files, b"two"));
    let here = make(files, root, b"here", Make::Directory);
    let there = make(files, root, b"there", Make::Directory);
    make(files, there, b"inside", Make::File);
    let rename = |from: &[u8], to: (Node, &[u8])| files.rename(&ROOT, (root, from), to, None);
    let full = rename(b"here", (root, b"there"));
    assert_eq!(error(full), Some(FileError::NotEmpty));
    assert_eq!(
        error(rename(b"here", (root, b"one"))),
        Some(FileError::Exists)
    );
    assert_eq!(
        error(rename(b"one", (root, b"here"))),
        Some(FileError::Exists)
    );
    assert_eq!(
        error(rename(b"none", (root, b"x"))),
        Some(FileError::NotFound)
    );
    rename(b"one", (root, b"two")).expect("a file for a file");
    assert_eq!(look_up(files, b"two"), Ok(one));
    assert_eq!(files.attributes(two), Err(FileError::Stale));
    let moved = rename(b"two", (there, b"deep")).expect("into another directory");
    assert!(moved.from.before.change != moved.from.after.change);
    assert!(moved.to.before.change != moved.to.after.change);
    let found = files.look_up(&ROOT, there, b"deep").expect("it was moved");
    assert_eq!(found.node, one);
    rename(b"there", (root, b"here")).expect("a directory for an empty one");
    assert_eq!(files.attributes(here), Err(FileError::Stale));
    let empty = make(files, root, b"empty", Make::Directory);
    rename(b"empty", (there, b"sub")).expect("a directory into another");
    assert_eq!(files.parent(&ROOT, empty), Ok(there));
    files
        .link(&ROOT, one, root, b"alias", None)
        .expect("one more name");
    rename(b"alias", (there, b"deep")).expect("two names of one object");
    assert_eq!(look_up(files, b"alias"), Ok(one));
}

fn cycles(files: &dyn FileSystem) {
    let root = files.root();
    let outer = make(files, root, b"outer", Make::Directory);
    let inner = make(files, outer, b"inner", Make::Directory);
    for to in [outer, inner] {
        let moved = files.rename(&ROOT, (root, b"outer"), (to, b"x"), None);
        assert_eq!(error(moved), Some(FileError::Invalid));
    }
    files
        .rename(&ROOT, (outer, b"inner"), (root, b"inner"), None)
        .expect("out of it");
    files
        .rename(&ROOT, (root, b"outer"), (inner, b"outer"), None)
        .expect("into its own subdirectory");
}

fn receipts(files: &dyn FileSystem) {
    let root = files.root();
    let receipt = |place: u8, number: u32| Receipt {
        place: [place; 20],
        number,
        step: 3,
        call: number,
    };
    let is_kept = |wanted: Receipt| files.receipt(&wanted.place) == Some(wanted);
    let none = SetAttributes::default();
    let make = |name: &[u8], receipt: Receipt| {
        let made = files.make(&ROOT, root, name, Make::File, &none, Some(&receipt));
        made.map(|made| made.object.node)
    };
    assert_eq!(files.receipt(&[1; 20]), None);
    let one = make(b"one", receipt(1, 1)).expect("a new name");
    assert!(is_kept(receipt(1, 1)));
    assert_eq!(make(b"one", receipt(1, 2)), Err(FileError::Exists));
    assert!(is_kept(receipt(1, 1)), "a refused change stores no receipt");
    let linked = files.link(&ROOT, one, root, b"two", Some(&receipt(2, 7)));
    linked.expect("a new name");
    let names = ((root, &b"two"[..]), (root, &b"three"[..]));
    let renamed = files.rename(&ROOT, names.0, names.1, Some(&receipt(1, 2)));
    renamed.expect("it is there");
    assert!(is_kept(receipt(1, 2)) && is_kept(receipt(2, 7)));
    for (name, receipt) in [
        (b"one".as_slice(), receipt(1, 3)),
        (b"three", receipt(3, 1)),
    ] {
        let removed = files.remove(&ROOT, root, name, Removable::Any, Some(&receipt));
        removed.expect("it is there");
        assert!(is_kept(receipt));
    }
}

fn receipts_of_attributes(files: &dyn FileSystem) {
    let receipt = |number: u32| Receipt {
        place: [9; 20],
        number,
        step: 1,
        call: number,
    };
    let is_kept = |number| files.receipt(&[9; 20]) == Some(receipt(number));
    let node = file(files, b"file");
    let guard = Guard::default();
    let set = |mode, number| {
        let receipt = receipt(number);
        files.set_attributes(&ROOT, node, &with_mode(mode), &guard, Some(&receipt))
    };
    set(0o600, 1).expect("root may");
    assert!(is_kept(1));
    let stranger = user(10);
    let stolen = files.set_attributes(
        &stranger,
        node,
        &with_mode(0o777),
        &guard,
        Some(&receipt(2)),
    );
    assert_eq!(error(stolen), Some(FileError::NotPermitted));
    assert!(is_kept(1), "a refused change stores no receipt");
    let set = |how, number| {
        files.set_extended(&ROOT, node, b"one", b"value", how, Some(&receipt(number)))
    };
    set(SetExtended::Create, 3).expect("it is new");
    assert!(is_kept(3));
    let again = set(SetExtended::Create, 4);
    assert_eq!(error(again), Some(FileError::Exists));
    assert!(is_kept(3));
    let removed = files.remove_extended(&ROOT, node, b"one", Some(&receipt(5)));
    removed.expect("it is there");
    assert!(is_kept(5));
    if files.limits().has_acls {
        let list = files.acl(&ROOT, node).expect("there is one");
        let set = files.set_acl(&ROOT, node, &list, Some(&receipt(6)));
        set.expect("root may");
        assert!(is_kept(6));
    }
}

fn links(files: &dyn FileSystem) {
    let root = files.root();
    let node = file(files, b"one");
    files
        .link(&ROOT, node, root, b"two", None)
        .expect("a second name");
    assert_eq!(look_up(files, b"two"), Ok(node));
    assert_eq!(files.attributes(node).map(|known| known.links), Ok(2));
    let taken = files.link(&ROOT, node, root, b"two", None);
    assert_eq!(error(taken), Some(FileError::Exists));
    let directory = make(files, root, b"directory", Make::Directory);
    let second = files.link(&ROOT, directory, root, b"second", None);
    assert_eq!(error(second), Some(FileError::IsDirectory));
    files
        .remove(&ROOT, root, b"one", Removable::Any, None)
        .expect("it is there");
    assert_eq!(files.attributes(node).map(|known| known.links), Ok(1));
}

fn paths(files: &dyn FileSystem) {
    let root = files.root();
    let above = make(files, root, b"above", Make::Directory);
    let deep = make(files, above, b"deep", Make::Directory);
    let node = make(files, deep, b"file", Make::File);
    let path = |node, mut names_left: u64| files.path(node, &mut names_left);
    assert_eq!(path(root, 100).as_deref(), Some("/"));
    assert_eq!(path(node, 100).as_deref(), Some("/above/deep/file"));
    assert_eq!(path(node, 2), None, "that are more names");
    let renamed = files.rename(&ROOT, (deep, b"file"), (root, b"moved"), None);
    renamed.expect("moved");
    assert_eq!(path(node, 100).as_deref(), Some("/moved"));
    files.hold(node).expect("held");
    let removed = files.remove(&ROOT, root, b"moved", Removable::Any, None);
    removed.expect("removed");
    assert_eq!(path(node, 100), None, "it is open, and has no name");
    files.release(node);
}

/// Names of 300 entries, so that the directory spans more than one block of any engine.
fn many(files: &dyn FileSystem) -> Vec<Vec<u8>> {
    let names = (0..300).map(|index| format!("entry-{index:04}-of-many").into_bytes());
    let names: Vec<_> = names.collect();
    for name in &names {
        file(files, name);
    }
    names
}

fn directories(files: &dyn FileSystem) {
    let names = many(files);
    let root = files.root();
    let mut seen = Vec::new();
    let mut cookie = 0;
    loop {
        let mut left = 7;
        let is_end = files.read_directory(&ROOT, root, cookie, &mut |entry| {
            if left == 0 {
                return false;
            }
            left -= 1;
            assert!((3..=COOKIE_LAST).contains(&entry.cookie));
            cookie = entry.cookie;
            seen.push((entry.name.to_vec(), entry.object));
            true
        });
        if is_end.expect("a directory") {
            break;
        }
        // Remove an entry that was already returned.
        let (name, object) = seen.last().expect("an entry").clone();
        let known = files.object(root, object).expect("it is there");
        assert_eq!(look_up(files, &name), Ok(known.node));
        files
            .remove(&ROOT, root, &name, Removable::Any, None)
            .expect("it is there");
    }
    let mut told: Vec<_> = seen.into_iter().map(|(name, _)| name).collect();
    told.sort();
    assert_eq!(told, names);
    let node = file(files, b"file");
    let read = files.read_directory(&ROOT, node, 0, &mut |_| true);
    assert_eq!(read, Err(FileError::NotDirectory));
}

/// Reads into a buffer, appended to existing bytes, and as a loan: the results must be equal whatever the buffer
/// contained before.
fn read(files: &dyn FileSystem, node: Node, offset: u64, length: usize) -> (Vec<u8>, bool) {
    let mut bytes = vec![0xee; length];
    let read = files.read(node, offset, &mut bytes).expect("a file");
    bytes.truncate(read.length);
    let mut appended = vec![0xdd; 3 + length];
    appended.truncate(3);
    let again = files.read_onto(node, offset, length, &mut appended);
    assert_eq!(again, Ok(read));
    assert!(appended == [&[0xdd; 3][..], &bytes].concat());
    appended.truncate(3);
    let (again, lent) = files
        .read_or_lend(node, offset, length, &mut appended)
        .expect("a file");
    assert_eq!(again, read);
    if let Some(lent) = lent {
        let mut parts = vec![&appended[..]];
        lent.append_parts(&mut parts);
        assert_eq!((appended.len(), lent.byte_count()), (3, read.length));
        appended = parts.concat();
    }
    assert!(appended == [&[0xdd; 3][..], &bytes].concat());
    (bytes, read.is_end)
}

fn contents(files: &dyn FileSystem) {
    let node = file(files, b"file");
    assert_eq!(read(files, node, 0, 4), (vec![], true));
    let pattern: Vec<u8> = (0..400_000_u32).map(|index| (index % 251) as u8).collect();
    let written = files.write(node, 1000, &pattern).expect("there is room");
    assert_eq!((written.before.size, written.after.size), (0, 401_000));
    assert!(written.before.change != written.after.change);
    let mut expected = [vec![0; 1000], pattern].concat();
    files
        .write(node, 131_000, b"inside")
        .expect("there is room");
    expected[131_000..131_006].copy_from_slice(b"inside");
    assert_eq!(read(files, node, 0, 500_000), (expected.clone(), true));
    let middle = expected[999..200_001].to_vec();
    assert_eq!(read(files, node, 999, 199_002), (middle, false));
    assert_eq!(read(files, node, 401_000, 1), (vec![], true));
    assert_eq!(read(files, node, u64::MAX, 1), (vec![], true));
    files.commit(Some(node)).expect("it is kept");
    files.commit(None).expect("it is kept");
    let far = files.write(node, u64::MAX - 1, b"far");
    assert_eq!(error(far), Some(FileError::TooLarge));
    let root = files.root();
    assert_eq!(
        error(files.write(root, 0, b"x")),
        Some(FileError::IsDirectory)
    );
    let mut byte = [0];
    assert_eq!(files.read(root, 0, &mut byte), Err(FileError::IsDirectory));
    let mut before = vec![1];
    let failed = files.read_onto(root, 0, 1, &mut before);
    assert_eq!(
        (failed, &before[..]),
        (Err(FileError::IsDirectory), &[1][..])
    );
    let failed = files.read_or_lend(root, 0, 1 << 20, &mut before);
    assert_eq!(
        (error(failed), before),
        (Some(FileError::IsDirectory), vec![1])
    );
}

fn set_size(files: &dyn FileSystem, node: Node, size: u64) {
    let changes = SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    let changed = files.set_attributes(&ROOT, node, &changes, &Guard::default(), None);
    assert_eq!(changed.expect("a file").after.size, size);
}

fn sizes(files: &dyn FileSystem) {
    let node = file(files, b"file");
    files.write(node, 0, &[7; 300_000]).expect("there is room");
    set_size(files, node, 150_001);
    set_size(files, node, 300_000);
    let (bytes, is_end) = read(files, node, 0, 300_001);
    assert!(is_end && bytes.len() == 300_000);
    assert!(bytes[..150_001].iter().all(|byte| *byte == 7));
    assert!(bytes[150_001..].iter().all(|byte| *byte == 0));
    set_size(files, node, 0);
    assert_eq!(read(files, node, 0, 1), (vec![], true));
    set_size(files, node, 1 << 40);
    assert_eq!(read(files, node, (1 << 40) - 2, 4), (vec![0, 0], true));
}

fn holes(files: &dyn FileSystem) {
    let node = file(files, b"file");
    files.write(node, 1 << 30, b"data").expect("there is room");
    let end = (1 << 30) + 4;
    for content in [Content::Data, Content::Hole] {
        assert_eq!(files.seek(node, end, content), Err(FileError::BeyondEnd));
    }
    let data = files.seek(node, 0, Content::Data).expect("there is some");
    assert!(data <= 1 << 30);
    assert_eq!(files.seek(node, 1 << 30, Content::Data), Ok(1 << 30));
    assert_eq!(files.seek(node, 1 << 30, Content::Hole), Ok(end));
}

fn attributes(files: &dyn FileSystem) {
    let node = file(files, b"file");
    let time = |seconds| Time {
        seconds,
        nanoseconds: 123_456_789,
    };
    let changes = SetAttributes {
        mode: Some(0o4751),
        uid: Some(10),
        gid: Some(20),
        size: Some(5),
        accessed: Some(SetTime::To(time(1_000_000_000))),
        modified: Some(SetTime::To(time(-5))),
    };
    let changed = files.set_attributes(&ROOT, node, &changes, &Guard::default(), None);
    let changed = changed.expect("root may");
    let after = changed.after;
    assert_eq!(files.attributes(node), Ok(after));
    assert!(changed.before.change != after.change);
    let seen = (after.mode, after.uid, after.gid, after.size);
    assert_eq!(seen, (0o4751, 10, 20, 5));
    assert_eq!(after.accessed, time(1_000_000_000));
    assert_eq!(after.modified, time(-5));
    let guard = Guard {
        changed: Some(Time::default()),
    };
    let refused = files.set_attributes(&ROOT, node, &with_mode(0o600), &guard, None);
    assert_eq!(error(refused), Some(FileError::NotSame));
    assert_eq!(files.attributes(node), Ok(after));
    let guard = Guard {
        changed: Some(after.changed),
    };
    let set = files.set_attributes(&ROOT, node, &with_mode(0o600), &guard, None);
    assert_eq!(set.expect("it is the same").after.mode, 0o600);
}

fn rights(files: &dyn FileSystem) {
    let root = files.root();
    let directory = make(files, root, b"directory", Make::Directory);
    let (owner, other) = (user(10), user(11));
    let made = files.make(&owner, root, b"file", Make::File, &with_mode(0o640), None);
    let node = made.expect("everybody may").object.node;
    let may = |who: &Identity| {
        let may = files.permissions(who, node).expect("it is there");
        (may.read, may.write, may.execute)
    };
    assert_eq!(may(&owner), (true, true, false));
    assert_eq!(may(&other), (false, false, false));
    let member = Identity {
        groups: vec![10],
        ..user(12)
    };
    assert_eq!(may(&member), (true, false, false));
    assert_eq!(may(&ROOT), (true, true, false));
    let guard = Guard::default();
    let stolen = files.set_attributes(&other, node, &with_mode(0o777), &guard, None);
    assert_eq!(error(stolen), Some(FileError::NotPermitted));
    let given = SetAttributes {
        uid: Some(11),
        ..SetAttributes::default()
    };
    let given = files.set_attributes(&owner, node, &given, &guard, None);
    assert_eq!(error(given), Some(FileError::NotPermitted));
    let touched = |time: SetTime| SetAttributes {
        modified: Some(time),
        ..SetAttributes::default()
    };
    let now = files.set_attributes(&other, node, &touched(SetTime::Now), &guard, None);
    assert_eq!(error(now), Some(FileError::Access));
    let then = touched(SetTime::To(Time::default()));
    let then = files.set_attributes(&other, node, &then, &guard, None);
    assert_eq!(error(then), Some(FileError::NotPermitted));
    let none = SetAttributes::default();
    let inside = files.make(&other, directory, b"x", Make::File, &none, None);
    assert_eq!(error(inside), Some(FileError::Access));
    let removed = files.remove(&other, directory, b"x", Removable::Any, None);
    assert_eq!(error(removed), Some(FileError::Access));
    files
        .set_attributes(&ROOT, directory, &with_mode(0o700), &guard, None)
        .expect("root may");
    let found = files.look_up(&other, directory, b"x");
    assert_eq!(error(found), Some(FileError::Access));
    let read = files.read_directory(&other, directory, 0, &mut |_| true);
    assert_eq!(read, Err(FileError::Access));
}

/// A directory that is moved to another parent gets a new `..`, which requires the right to change it.
fn moved_directories(files: &dyn FileSystem) {
    let root = files.root();
    let open = |name: &[u8]| {
        let made = files.make(&ROOT, root, name, Make::Directory, &with_mode(0o777), None);
        made.expect("root may").object.node
    };
    let (from, to) = (open(b"from"), open(b"to"));
    let moving = make(files, from, b"moving", Make::Directory);
    let other = user(11);
    let moved = files.rename(&other, (from, b"moving"), (to, b"moving"), None);
    assert_eq!(error(moved), Some(FileError::Access));
    files
        .rename(&other, (from, b"moving"), (from, b"renamed"), None)
        .expect("its parent stays");
    files
        .set_attributes(&ROOT, moving, &with_mode(0o777), &Guard::default(), None)
        .expect("root may");
    files
        .rename(&other, (from, b"renamed"), (to, b"moving"), None)
        .expect("everybody may change it");
}

/// A write by another user clears set-user-ID, so that the new contents never run as the owner.
fn set_ids(files: &dyn FileSystem) {
    let node = file(files, b"program");
    let guard = Guard::default();
    let mode = || files.attributes(node).expect("it is there").mode;
    let allow = |mode| {
        let allowed = files.set_attributes(&ROOT, node, &with_mode(mode), &guard, None);
        allowed.expect("root may");
    };
    allow(0o6755);
    files.write(node, 0, b"other").expect("written");
    assert_eq!(mode(), 0o755);
    allow(0o6755);
    files.deallocate(node, 1, 2).expect("a hole");
    assert_eq!(mode(), 0o755);
    allow(0o6745);
    set_size(files, node, 1);
    assert_eq!(mode(), 0o2745, "it is not executable as the group");
    let give = |node| {
        let given = SetAttributes {
            uid: Some(10),
            ..SetAttributes::default()
        };
        let given = files.set_attributes(&ROOT, node, &given, &guard, None);
        given.expect("root may").after.mode
    };
    allow(0o6755);
    assert_eq!(give(node), 0o755, "the owner changed");
    allow(0o6745);
    assert_eq!(give(node), 0o2745, "it is not executable as the group");
    let made = files.make(
        &ROOT,
        files.root(),
        b"programs",
        Make::Directory,
        &with_mode(0o6755),
        None,
    );
    let directory = made.expect("a directory").object.node;
    assert_eq!(
        give(directory),
        0o6755,
        "on a directory it sets the group of new objects"
    );
    set_group_id_of_directories(files);
}

/// Every new object inherits it, and only a member of the group can set it.
fn set_group_id_of_directories(files: &dyn FileSystem) {
    let make = |who: &Identity, at, mode| {
        let what = Make::Directory;
        let made = files.make(who, at, b"of-a-group", what, &with_mode(mode), None);
        made.expect("everybody may").object
    };
    let above = make(&ROOT, files.root(), 0o2777).node;
    let made = make(&user(10), above, 0o755);
    let found = made.attributes;
    assert_eq!((found.gid, found.mode), (ROOT.gid, 0o2755));
    let guard = Guard::default();
    let set = |who: &Identity, mode| {
        let set = files.set_attributes(who, made.node, &with_mode(mode), &guard, None);
        set.expect("it is the owner").after.mode
    };
    assert_eq!(set(&user(10), 0o2775), 0o775, "it is not in the group");
    let member = Identity {
        groups: vec![ROOT.gid],
        ..user(10)
    };
    assert_eq!(set(&member, 0o2775), 0o2775);
    assert_eq!(set(&ROOT, 0o2755), 0o2755);
}

fn sticky(files: &dyn FileSystem) {
    let root = files.root();
    let made = files.make(
        &ROOT,
        root,
        b"shared",
        Make::Directory,
        &with_mode(0o1777),
        None,
    );
    let shared = made.expect("a directory").object.node;
    let none = SetAttributes::default();
    for name in [&b"one"[..], b"two"] {
        let made = files.make(&user(10), shared, name, Make::File, &none, None);
        made.expect("everybody may");
    }
    let other = user(11);
    let removed = files.remove(&other, shared, b"one", Removable::Any, None);
    assert_eq!(error(removed), Some(FileError::NotPermitted));
    let moved = files.rename(&other, (shared, b"one"), (root, b"one"), None);
    assert_eq!(error(moved), Some(FileError::NotPermitted));
    files
        .rename(&user(10), (shared, b"one"), (shared, b"two"), None)
        .expect("its owner may");
}

fn extended_attributes(files: &dyn FileSystem) {
    let owner = user(10);
    let root = files.root();
    let made = files.make(&owner, root, b"file", Make::File, &with_mode(0o640), None);
    let node = made.expect("a file").object.node;
    let set = |name: &[u8], value: &[u8], how| {
        let set = files.set_extended(&owner, node, name, value, how, None);
        set.map(|changed| assert!(changed.before.change != changed.after.change))
    };
    let get = |name: &[u8]| files.extended(&owner, node, name);
    assert_eq!(get(b"one"), Err(FileError::NoExtended));
    let names = files.extended_names(&owner, node);
    assert_eq!(names, Ok(Vec::new()));
    let replaced = set(b"one", b"value", SetExtended::Replace);
    assert_eq!(replaced, Err(FileError::NoExtended));
    assert_eq!(set(b"one", b"value", SetExtended::Create), Ok(()));
    let again = set(b"one", b"other", SetExtended::Create);
    assert_eq!(again, Err(FileError::Exists));
    assert_eq!(get(b"one"), Ok(b"value".to_vec()));
    let long = [7; 20_000];
    assert_eq!(set(b"one", &long, SetExtended::Replace), Ok(()));
    assert_eq!(set(b"two", b"", SetExtended::Either), Ok(()));
    assert_eq!(get(b"one"), Ok(long.to_vec()));
    assert_eq!(get(b"two"), Ok(Vec::new()));
    let names = files.extended_names(&owner, node);
    assert_eq!(names, Ok(vec![b"one".to_vec(), b"two".to_vec()]));
    let other = user(11);
    let refused = files.extended(&other, node, b"one");
    assert_eq!(refused, Err(FileError::Access));
    let refused = files.set_extended(&other, node, b"one", b"", SetExtended::Either, None);
    assert_eq!(error(refused), Some(FileError::Access));
    files
        .remove_extended(&owner, node, b"one", None)
        .expect("there");
    let again = files.remove_extended(&owner, node, b"one", None);
    assert_eq!(error(again), Some(FileError::NoExtended));
    let names = files.extended_names(&owner, node);
    assert_eq!(names, Ok(vec![b"two".to_vec()]));
}

/// With the list of a file of mode 604.
fn made_with_list(files: &dyn FileSystem, list: &[acl::Entry]) {
    let root = files.root();
    let receipt = Receipt {
        place: [8; 20],
        number: 1,
        step: 0,
        call: 0,
    };
    let make = |name, what, list| {
        let wanted = with_mode(0o777);
        files.make_with_acl(&ROOT, root, (name, what), &wanted, list, Some(&receipt))
    };
    let senseless = [acl::Entry {
        flags: acl::flag::ONLY,
        ..list[0]
    }];
    for (name, what, list) in [
        (&b"link"[..], Make::Link(b"to"), list),
        (b"senseless", Make::File, &senseless),
    ] {
        assert_eq!(error(make(name, what, list)), Some(FileError::Invalid));
    }
    let made = make(b"listed", Make::File, list).expect("a new name");
    let (node, attributes) = (made.object.node, made.object.attributes);
    assert_eq!((attributes.kind, attributes.mode), (Kind::File, 0o604));
    assert_eq!(files.attributes(node), Ok(attributes));
    assert_eq!(files.acl(&ROOT, node).as_deref(), Ok(list));
    assert_eq!(files.receipt(&receipt.place), Some(receipt));
}

fn lists(files: &dyn FileSystem) {
    let none = SetAttributes::default();
    let made = files.make(&ROOT, files.root(), b"file", Make::File, &none, None);
    let file = made.expect("a new file").object.node;
    let of_mode = |mode| acl::of_mode(mode, Kind::File).list();
    assert_eq!(files.acl(&ROOT, file), Ok(of_mode(0o644)));
    if !files.limits().has_acls {
        assert_eq!(
            error(files.set_acl(&ROOT, file, &[], None)),
            Some(FileError::Unsupported)
        );
        return;
    }
    let named = acl::Entry {
        allows: true,
        flags: 0,
        mask: acl::right::READ | acl::right::EXECUTE,
        who: acl::Who::User(70_000),
    };
    let list = [vec![named], of_mode(0o604)].concat();
    let changed = files.set_acl(&ROOT, file, &list, None).expect("root may");
    assert_eq!((changed.before.mode, changed.after.mode), (0o644, 0o604));
    assert!(changed.before.change != changed.after.change);
    assert_eq!(files.acl(&ROOT, file), Ok(list.clone()));
    assert_eq!(files.attributes(file), Ok(changed.after));
    made_with_list(files, &list);
    let stranger = Identity {
        uid: 70_000,
        gid: 7,
        groups: Vec::new(),
    };
    let refused = files.set_acl(&stranger, file, &list, None);
    assert_eq!(error(refused), Some(FileError::NotPermitted));
    let too_many = vec![named; acl::ENTRIES_MAX + 1];
    let senseless = [acl::Entry {
        flags: acl::flag::ONLY,
        ..named
    }];
    for list in [&too_many[..], &senseless, &[]] {
        let refused = files.set_acl(&ROOT, file, list, None);
        assert_eq!(error(refused), Some(FileError::Invalid));
    }
    let most = vec![named; acl::ENTRIES_MAX];
    files
        .set_acl(&ROOT, file, &most, None)
        .expect("there is room");
    assert_eq!(files.acl(&ROOT, file), Ok(most));
    let mode = SetAttributes {
        mode: Some(0o640),
        ..SetAttributes::default()
    };
    let set = files.set_attributes(&ROOT, file, &mode, &Guard::default(), None);
    assert_eq!(set.expect("root may").after.mode, 0o640);
    assert_eq!(files.acl(&ROOT, file), Ok(of_mode(0o640)));
}
