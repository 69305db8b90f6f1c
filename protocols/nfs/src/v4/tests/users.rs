//! One client has many users and one stateid for all of them: the user of each read and write is
//! checked.

use super::*;
use file_system::{Guard, Identity, SetAttributes};

const OK: u32 = 0;
const ACCESS: u32 = 13;
const OWNER: u32 = 1000;
const OTHER: u32 = 2000;

/// An operation on the contents of the current file with a stateid.
fn by_state(operation: u32, id: &[u8], more: &[u32]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(operation);
    writer.fixed(id);
    more.iter().for_each(|word| writer.u32(*word));
    writer.into_bytes()
}

/// All operations with a stateid of an open that use the contents, with their names.
fn operations(id: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut write = Writer::new();
    write.append(&by_state(38, id, &[0, 0, 2]));
    write.opaque(b"text");
    let mut set_size = Writer::new();
    set_size.append(&by_state(34, id, &[1, 1 << 4]));
    set_size.opaque(&8_u64.to_be_bytes());
    let mut copy = Writer::new();
    copy.append(&by_state(60, id, &[]));
    copy.fixed(id);
    copy.append(&words(&[0, 0, 0, 4, 0, 2, 1, 1, 0]));
    vec![
        ("READ", by_state(25, id, &[0, 0, 100])),
        ("READ_PLUS", by_state(68, id, &[0, 0, 100])),
        ("SEEK", by_state(69, id, &[0, 0, 0])),
        ("WRITE", write.into_bytes()),
        ("SETATTR", set_size.into_bytes()),
        ("COPY", copy.into_bytes()),
    ]
}

#[test]
fn state_id_of_another_user_is_refused_for_io() {
    let (home, files) = shared("", 1, EVERYTHING);
    let who = |uid| Identity {
        uid,
        gid: uid,
        groups: Vec::new(),
    };
    let set_mode = |node, mode| {
        let changes = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        let set = files.set_attributes(&who(0), node, &changes, &Guard::default(), None);
        set.expect("root may");
    };
    set_mode(files.root(), 0o777);
    let service = service_of(vec![home]);
    let mut client = Client::connect(&service, b"one", 0);
    client.uid = OWNER;
    let id = client.open(b"file", 3, 0).expect("a new file");
    let node = files
        .look_up(&who(0), files.root(), b"file")
        .expect("it was made")
        .node;
    files.write(node, 0, b"contents").expect("written");
    // The client sends it like this (RFC 8881, 8.2.2): stateids with sequence 0 mean the most
    // recent one.
    let id = [&[0; 4], &id[4..]].concat();
    let mut status = |uid: u32, operation: &[u8]| {
        client.uid = uid;
        let answer = client.ask_by(
            2,
            &[&words(&[24]), &path(&[b"file"]), &words(&[32]), operation],
        );
        Reader::new(&answer).u32().expect("a status")
    };
    for (mode, others) in [(0o600, ACCESS), (0o666, OK), (0o600, ACCESS), (0, ACCESS)] {
        set_mode(node, mode);
        for (name, operation) in operations(&id) {
            assert_eq!(status(OWNER, &operation), OK, "{name} {mode:o}");
            assert_eq!(status(OTHER, &operation), others, "{name} {mode:o}");
        }
    }
}

/// An open that two users share does not combine their rights: each has only the access of its own
/// open.
#[test]
fn read_open_cannot_write_by_the_open_of_another_user() {
    let (home, files) = shared("", 1, EVERYTHING);
    let root = Identity {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    let set = |node, mode, uid| {
        let changes = SetAttributes {
            mode: Some(mode),
            uid: Some(uid),
            ..SetAttributes::default()
        };
        let set = files.set_attributes(&root, node, &changes, &Guard::default(), None);
        set.expect("root may");
    };
    set(files.root(), 0o777, 0);
    let service = service_of(vec![home]);
    let mut client = Client::connect(&service, b"one", 0);
    client.open(b"file", 3, 0).expect("a new file");
    let node = files
        .look_up(&root, files.root(), b"file")
        .expect("it was made")
        .node;
    files.write(node, 0, b"contents").expect("written");
    set(node, 0o644, OWNER);
    client.uid = OTHER;
    client.open(b"file", 1, 0).expect("all may read");
    client.uid = OWNER;
    let id = client.open(b"file", 2, 0).expect("its owner may write");
    let id = [&[0; 4], &id[4..]].concat();
    set(node, 0, OWNER);
    let expected = |uid: u32, name: &str| match (uid, name) {
        (OTHER, "WRITE" | "SETATTR" | "COPY") => ACCESS,
        _ => OK,
    };
    for (name, operation) in operations(&id) {
        for uid in [OWNER, OTHER] {
            client.uid = uid;
            let at_file = path(&[b"file"]);
            let answer = client.ask_by(2, &[&words(&[24]), &at_file, &words(&[32]), &operation]);
            let status = Reader::new(&answer).u32().expect("a status");
            assert_eq!(status, expected(uid, name), "{name} by {uid}");
        }
    }
}
