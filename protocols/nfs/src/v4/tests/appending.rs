//! Users with permission to append to a file, but not to write to it.

use super::*;

const ACCESS: u32 = 13;
/// The user with append permission.
const APPEND_USER: u32 = 1000;

fn write_at(id: &[u8], offset: u64, bytes: &[u8]) -> Vec<u8> {
    let mut write = Writer::new();
    write.u32(38);
    write.fixed(id);
    write.u64(offset);
    // UNSTABLE4.
    write.u32(0);
    write.opaque(bytes);
    write.into_bytes()
}

/// Clients of such a user and of root, the creator of `file`.
fn clients(reads: bool) -> (Client, Client, Arc<MemoryFileSystem>) {
    let (home, files) = shared("", 1, EVERYTHING);
    files.grant_append_only(APPEND_USER, reads);
    let service = service_of(vec![home]);
    let mut root = Client::connect(&service, b"root", 0);
    root.open(b"file", 3, 0).expect("it is free");
    let mut user = Client::connect(&service, b"user", 0);
    user.uid = APPEND_USER;
    (root, user, files)
}

fn contents(files: &MemoryFileSystem) -> Vec<u8> {
    let root = files.root();
    let who = file_system::Identity {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    let node = files.look_up(&who, root, b"file").expect("there").node;
    let mut bytes = [0; 64];
    let read = files.read(node, 0, &mut bytes).expect("a file");
    bytes[..read.length].to_vec()
}

#[test]
fn open_with_append_permission_allows_only_appends() {
    let (_root, mut user, files) = clients(false);
    let file = path(&[b"file"]);
    assert_eq!(user.open(b"file", 3, 0), Err(ACCESS), "it is not read");
    let id = user.open(b"file", 2, 0).expect("it may be added to");
    let mut write = |offset, bytes: &[u8]| {
        let write = write_at(&id, offset, bytes);
        user.ask(&[&words(&[24]), &file, &write])
    };
    let commits = files.commits();
    let answer = write(0, b"one");
    // Three bytes, FILE_SYNC4 and the verifier: the append could not be repeated after a crash.
    assert_eq!(answer[..4], words(&[0]));
    assert_eq!(answer[answer.len() - 16..][..8], words(&[3, 2]));
    assert!(files.commits() > commits);
    assert_eq!(write(3, b"two")[..4], words(&[0]));
    for (offset, bytes) in [(0, &b"one"[..]), (2, b"E"), (0, b"onetwothree")] {
        assert_eq!(write(offset, bytes)[..4], words(&[ACCESS]), "{offset}");
    }
    assert_eq!(contents(&files), b"onetwo");
    // ALLOCATE (59), DEALLOCATE (62), and SETATTR (34) of the size.
    for operation in [59, 62] {
        let range = [words(&[operation]), id.clone(), words(&[0, 0, 0, 1])].concat();
        let answer = user.ask_by(2, &[&words(&[24]), &file, &range]);
        assert_eq!(answer[..4], words(&[ACCESS]), "{operation}");
    }
    let cut = [words(&[34]), id.clone(), words(&[1, 1 << 4, 8, 0, 0])].concat();
    assert_eq!(user.status(&[&words(&[24]), &file, &cut]), ACCESS);
    // Also without an open.
    let special = write_at(&[0; 16], 6, b"three");
    assert_eq!(user.status(&[&words(&[24]), &file, &special]), 0);
    let special = write_at(&[0; 16], 0, b"One");
    assert_eq!(user.status(&[&words(&[24]), &file, &special]), ACCESS);
    assert_eq!(contents(&files), b"onetwothree");
}

/// Linux does so: it writes whole cached pages.
#[test]
fn rewrite_of_identical_bytes_is_permitted_with_read_access() {
    let (_root, mut user, files) = clients(true);
    let file = path(&[b"file"]);
    let id = user.open(b"file", 3, 0).expect("it may be added to");
    let mut write = |offset, bytes: &[u8]| {
        let write = write_at(&id, offset, bytes);
        user.status(&[&words(&[24]), &file, &write])
    };
    assert_eq!(write(0, b"one"), 0);
    assert_eq!(write(0, b"onetwo"), 0);
    assert_eq!(write(0, b"onetwo"), 0);
    assert_eq!(write(0, b"One"), ACCESS);
    assert_eq!(contents(&files), b"onetwo");
}

/// An opener with full write access retains it. Another user of the same open does not obtain it.
#[test]
fn open_keeps_the_access_of_each_user() {
    let (mut root, _, files) = clients(false);
    let file = path(&[b"file"]);
    let id = root.open(b"file", 2, 0).expect("root may");
    let write = write_at(&id, 0, b"one");
    assert_eq!(root.status(&[&words(&[24]), &file, &write]), 0);
    root.uid = APPEND_USER;
    let id = root.open(b"file", 2, 0).expect("it may be added to");
    let mut write = |uid, offset, bytes| {
        root.uid = uid;
        let write = write_at(&id, offset, bytes);
        root.status(&[&words(&[24]), &file, &write])
    };
    assert_eq!(write(APPEND_USER, 0, b"two"), ACCESS);
    assert_eq!(write(APPEND_USER, 3, b"six"), 0);
    assert_eq!(write(0, 0, b"ten"), 0);
    assert_eq!(contents(&files), b"tensix");
}

#[test]
fn access_reports_extend_permission() {
    const MODIFY_AND_EXTEND: u32 = 0x4 | 0x8;
    let (_root, mut user, _) = clients(false);
    let file = path(&[b"file"]);
    let access = words(&[3, MODIFY_AND_EXTEND]);
    let answer = user.ask(&[&words(&[24]), &file, &access]);
    let expected = words(&[3, 0, MODIFY_AND_EXTEND, 0x8]);
    assert_eq!(answer[answer.len() - 16..], expected);
}
