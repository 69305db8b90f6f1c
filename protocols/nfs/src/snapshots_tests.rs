//! The directory `.zfs` with snapshots in memory.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use file_system::memory::MemoryFileSystem;
use file_system::{Snapshot, Time};

use super::*;

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};
const NOW: Time = Time {
    seconds: 7,
    nanoseconds: 8,
};

/// Snapshots in memory.
pub(crate) struct Kept {
    visibility: Mutex<Visibility>,
    all: Vec<(&'static [u8], u64, Arc<MemoryFileSystem>)>,
    is_closed: AtomicBool,
}

impl Snapshots for Kept {
    fn visibility(&self) -> Visibility {
        *self.visibility.lock().expect("no holder panics")
    }

    fn changed(&self) -> Done<Time> {
        Ok(NOW)
    }

    fn list(&self, cursor: u64, visit: &mut dyn FnMut(Snapshot<'_>) -> bool) -> Done<bool> {
        let all = self.all.iter().zip(1..).skip(cursor as usize);
        for ((name, number, _), cursor) in all {
            let (name, number) = (*name, *number);
            if !visit(Snapshot {
                name,
                number,
                cursor,
            }) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn find(&self, name: &[u8]) -> Done<u64> {
        let found = self.all.iter().find(|(known, _, _)| *known == name);
        found.map(|one| one.1).ok_or(FileError::NotFound)
    }

    fn open(&self, number: u64) -> Done<Arc<dyn FileSystem>> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(FileError::NotReady);
        }
        let found = self.all.iter().find(|one| one.1 == number);
        Ok(Arc::clone(&found.ok_or(FileError::Stale)?.2) as Arc<_>)
    }
}

/// A file system with `now` in `file`, and `then` in both of its snapshots.
pub(crate) fn world() -> (WithSnapshots, Arc<Kept>) {
    let with = |text: &[u8]| {
        let files = Arc::new(MemoryFileSystem::with_guid(7, 1 << 20));
        let none = SetAttributes::default();
        let root = files.root();
        let made = files.make(&ROOT, root, b"folder", Make::Directory, &none, None);
        let folder = made.expect("room").object.node;
        let made = files.make(&ROOT, folder, b"file", Make::File, &none, None);
        let file = made.expect("room").object.node;
        files.write(file, 0, text).expect("room");
        files
    };
    let kept = Arc::new(Kept {
        visibility: Mutex::new(Visibility::Hidden),
        all: vec![
            (b"monday", 0x0001_0002, with(b"then")),
            (b"tuesday", 5, with(b"then")),
        ],
        is_closed: AtomicBool::new(false),
    });
    let files = WithSnapshots::new(with(b"now"), Arc::clone(&kept) as Arc<_>);
    (files, kept)
}

fn walk(files: &WithSnapshots, path: &[&[u8]]) -> Done<Node> {
    path.iter().try_fold(files.root(), |at, name| {
        let found = files.look_up(&ROOT, at, name)?;
        assert_eq!(files.attributes(found.node), Ok(found.attributes));
        Ok(found.node)
    })
}

fn names(files: &WithSnapshots, directory: Node) -> Vec<String> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let mut object = None;
        let is_end = files.read_directory(&ROOT, directory, cookie, &mut |entry| {
            if object.is_some() {
                return false;
            }
            object = Some(entry.object);
            names.push(String::from_utf8_lossy(entry.name).into_owned());
            cookie = entry.cookie;
            assert!((3..=COOKIE_LAST).contains(&cookie));
            true
        });
        if let Some(object) = object {
            let known = files.object(directory, object);
            assert!(known.is_ok(), "{object}: {known:?}");
        }
        if is_end.expect("a directory") {
            return names;
        }
    }
}

fn contents(files: &WithSnapshots, node: Node) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    let read = files.read(node, 0, &mut bytes).expect("a file");
    bytes.truncate(read.length);
    bytes
}

const MONDAY: &[&[u8]] = &[b".zfs", b"snapshot", b"monday"];

#[test]
fn snapshot_is_found_by_name_with_its_old_contents() {
    let (files, _) = world();
    let monday = walk(&files, MONDAY).expect("a snapshot");
    let folder = files.look_up(&ROOT, monday, b"folder").expect("there").node;
    let file = files.look_up(&ROOT, folder, b"file").expect("there").node;
    assert_eq!(contents(&files, file), b"then");
    let now = walk(&files, &[b"folder", b"file"]).expect("there");
    assert_eq!(contents(&files, now), b"now");
    assert_eq!(split(file), (0x0001_0002, now));
    assert_eq!(names(&files, monday), ["folder"]);
    assert_eq!(names(&files, folder), ["file"]);
    let mut at = folder;
    for above in [monday, DIRECTORY, CONTROL, files.root(), files.root()] {
        at = files.parent(&ROOT, at).expect("a directory");
        assert_eq!(at, above);
    }
    assert_eq!(
        walk(&files, &[b".zfs", b"snapshot", b"never"]),
        Err(FileError::NotFound)
    );
    assert_eq!(
        walk(&files, &[b".zfs", b"shares"]),
        Err(FileError::NotFound)
    );
    assert_eq!(
        walk(&files, &[b"folder", b".zfs"]),
        Err(FileError::NotFound)
    );
}

#[test]
fn snapdir_is_visible_hidden_or_disabled() {
    let (files, kept) = world();
    let set = |to| *kept.visibility.lock().expect("no holder panics") = to;
    let root = files.root();
    assert_eq!(names(&files, root), ["folder"]);
    let directory = walk(&files, &MONDAY[..2]).expect("hidden, and there");
    assert_eq!(names(&files, directory), ["monday", "tuesday"]);
    let attributes = files.attributes(directory).expect("a directory");
    assert_eq!((attributes.mode, attributes.uid), (0o555, 0));
    set(Visibility::Visible);
    assert_eq!(names(&files, root), ["folder", ".zfs"]);
    assert_eq!(names(&files, CONTROL), ["snapshot"]);
    let monday = walk(&files, MONDAY).expect("there");
    set(Visibility::Disabled);
    assert_eq!(names(&files, root), ["folder"]);
    assert_eq!(walk(&files, &[b".zfs"]), Err(FileError::NotFound));
    for node in [monday, CONTROL, DIRECTORY] {
        assert_eq!(files.attributes(node), Err(FileError::Stale));
    }
}

#[test]
fn snapshots_are_read_only() {
    let (files, _) = world();
    let none = SetAttributes::default();
    let folder = walk(&files, &[MONDAY, &[b"folder"]].concat()).expect("there");
    let file = files.look_up(&ROOT, folder, b"file").expect("there").node;
    let root = files.root();
    let refused = Some(FileError::ReadOnly);
    for directory in [folder, CONTROL, DIRECTORY] {
        let made = files.make(&ROOT, directory, b"x", Make::File, &none, None);
        assert_eq!(made.err(), refused);
        let removed = files.remove(&ROOT, directory, b"file", Removable::Any, None);
        assert_eq!(removed.err(), refused);
        let renamed = files.rename(&ROOT, (directory, b"file"), (root, b"x"), None);
        assert_eq!(renamed.err(), refused);
        assert!(!files.permissions(&ROOT, directory).expect("there").write);
    }
    assert_eq!(files.write(file, 0, b"x").err(), refused);
    let set = files.set_attributes(&ROOT, file, &none, &Guard::default(), None);
    assert_eq!(set.err(), refused);
    assert_eq!(files.link(&ROOT, file, root, b"x", None).err(), refused);
    let made = files.make(&ROOT, root, b".zfs", Make::Directory, &none, None);
    assert_eq!(made.err(), Some(FileError::Exists));
    let renamed = files.rename(&ROOT, (root, b"folder"), (root, b".zfs"), None);
    assert_eq!(renamed.err(), Some(FileError::Exists));
    assert_eq!(files.commit(Some(file)), Ok(()));
    assert_eq!(files.hold(file), Ok(()));
    files.release(file);
}

#[test]
fn closed_snapshot_returns_delay_and_destroyed_one_stale() {
    let (files, kept) = world();
    let monday = walk(&files, MONDAY).expect("there");
    kept.is_closed.store(true, Ordering::Relaxed);
    assert_eq!(files.attributes(monday), Err(FileError::NotReady));
    kept.is_closed.store(false, Ordering::Relaxed);
    assert!(files.attributes(monday).is_ok());
    let gone = inside(6, split(monday).1).expect("a node");
    assert_eq!(files.attributes(gone), Err(FileError::Stale));
}

#[test]
fn invalid_snapshot_node_is_refused() {
    let node = |object, generation| Node { object, generation };
    assert!(inside(1, node(1 << 48, 0)).is_none());
    assert!(inside(1, node(0, 1 << 48)).is_none());
    assert!(inside(1 << 32, node(0, 0)).is_none());
    let most = node(NODE_MASK, NODE_MASK);
    let packed = inside((1 << 32) - 1, most).expect("a node");
    assert_eq!(split(packed), ((1 << 32) - 1, most));
}
