//! Guarantees for clients when a different client opens, truncates, denies or sets attributes.

use super::*;
use file_system::{FileError, Guard, Identity, SetAttributes};

const OK: u32 = 0;
const NOENT: u32 = 2;
const ACCESS: u32 = 13;
const INVAL: u32 = 22;
const LOCKED: u32 = 10012;
const GRACE: u32 = 10013;
const SHARE_DENIED: u32 = 10015;
const ILLEGAL: u32 = 10044;
const BADOWNER: u32 = 10039;
const OWNER: u32 = 1000;

fn root() -> Identity {
    Identity {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    }
}

fn set_mode(files: &MemoryFileSystem, node: file_system::Node, mode: u32) {
    let changes = SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    };
    let set = files.set_attributes(&root(), node, &changes, &Guard::default(), None);
    set.expect("root may");
}

/// `SETATTR` (34) with the special stateid and these attributes.
fn set_attributes(bitmap: &[u32], values: &[u8]) -> Vec<u8> {
    let mut set = Writer::new();
    set.append(&words(&[34, 0, 0, 0, 0, bitmap.len() as u32]));
    set.append(&words(bitmap));
    set.opaque(values);
    set.into_bytes()
}

/// `OPEN` of an existing name for reading: UNCHECKED4 with the size 0.
fn open_cutting(client: u64, name: &[u8]) -> Vec<u8> {
    let mut open = Writer::new();
    open.append(&words(&[18, 0, 1, 0]));
    open.u64(client);
    open.opaque(b"cutter");
    open.append(&words(&[1, 0, 1, 1 << 4, 8, 0, 0, 0]));
    open.opaque(name);
    open.into_bytes()
}

#[test]
fn refused_acl_keeps_the_mode() {
    let (home, files) = shared("", 1, EVERYTHING);
    let service = service_of(vec![home]);
    let mut client = Client::connect(&service, b"one", 0);
    client.open(b"file", 3, 0).expect("a new file");
    let node = files
        .look_up(&root(), files.root(), b"file")
        .expect("it was made")
        .node;
    set_mode(&files, node, 0o600);
    // A list without an entry, and the mode 0777.
    let set = set_attributes(&[1 << 12, 1 << 1], &words(&[0, 0o777]));
    assert_eq!(client.at(&[b"file"], &set), INVAL);
    assert_eq!(files.attributes(node).expect("it is there").mode, 0o600);
}

#[test]
fn truncating_open_is_denied_like_a_write() {
    let (home, files) = shared("", 1, EVERYTHING);
    let service = service_of(vec![home]);
    let mut client = Client::connect(&service, b"one", 0);
    client
        .open(b"file", 3, 2)
        .expect("a new file, writable only by its owner");
    let node = files
        .look_up(&root(), files.root(), b"file")
        .expect("it was made")
        .node;
    files.write(node, 0, b"precious").expect("written");
    let mut other = Client::connect(&service, b"two", 0);
    let open = open_cutting(other.client, b"file");
    assert_eq!(other.status(&[&words(&[24]), &open]), SHARE_DENIED);
    assert_eq!(files.attributes(node).expect("it is there").size, 8);
}

#[test]
fn denial_ends_with_the_lease_of_a_silent_client() {
    let (home, files) = shared("", 1, EVERYTHING);
    let service = service_of(vec![home]);
    let mut silent = Client::connect(&service, b"silent", 0);
    silent
        .open(b"file", 1, 2)
        .expect("a new file, writable only by its owner");
    let node = files
        .look_up(&root(), files.root(), b"file")
        .expect("it was made")
        .node;
    let file = file_system::Handle {
        file_system: files.id(),
        node,
    };
    let address = "192.0.2.1".parse().expect("an address");
    let mut other = Client::connect(&service, b"other", 0);
    let cut = set_attributes(&[1 << 4], &0_u64.to_be_bytes());
    assert_eq!(other.at(&[b"file"], &cut), LOCKED);
    assert_eq!(
        service.check_use(file, 2, address, 0),
        Err(FileError::Access)
    );
    other.now_ms = u64::from(LEASE_SECONDS) * 1000 + 1;
    assert_eq!(other.at(&[b"file"], &cut), OK);
    assert_eq!(service.check_use(file, 2, address, other.now_ms), Ok(()));
    let mut silent = Client::connect(&service, b"silent again", other.now_ms);
    silent.open(b"file", 1, 2).expect("it is not open");
    let denied = service.check_use(file, 2, address, other.now_ms);
    assert_eq!(denied, Err(FileError::Access), "version 3");
    let over_ms = 2 * other.now_ms + 2;
    assert_eq!(service.check_use(file, 2, address, over_ms), Ok(()));
}

#[test]
fn owner_open_is_limited_by_the_mode() {
    let (home, files) = shared("", 1, EVERYTHING);
    let service = service_of(vec![home]);
    set_mode(&files, files.root(), 0o777);
    let mut client = Client::connect(&service, b"one", 0);
    client.uid = OWNER;
    client.open(b"file", 3, 0).expect("a new file");
    let node = files
        .look_up(&root(), files.root(), b"file")
        .expect("it was made")
        .node;
    set_mode(&files, node, 0o444);
    let mut again = Client::connect(&service, b"two", 0);
    again.uid = OWNER;
    assert_eq!(again.open(b"file", 3, 0), Err(ACCESS));
    assert!(again.open(b"file", 1, 0).is_ok());
}

/// RFC 8881, 18.51.3.
#[test]
fn locks_require_reclaim_complete() {
    let service = service();
    let mut first = Client::connect(&service, b"one", 0);
    let id = first.open(b"file", 3, 0).expect("a new file");
    let mut client = Client::reconnect(&service, b"two", 0, 8192);
    let mut test = Writer::new();
    test.append(&words(&[13, 2, 0, 0, 0, 1]));
    test.u64(client.client);
    test.opaque(b"owner");
    assert_eq!(client.at(&[b"file"], test.bytes()), GRACE);
    assert_eq!(client.lock(b"file", &id, b"owner", 0, 1), GRACE);
    assert_eq!(client.status(&[&words(&[58, 0])]), OK, "RECLAIM_COMPLETE");
    assert_eq!(client.at(&[b"file"], test.bytes()), OK);
}

#[test]
fn operations_of_a_later_minor_version_are_illegal() {
    let mut client = Client::connect(&service(), b"one", 0);
    for operation in [59, 62, 69, 72, 75] {
        let answer = client.ask_by(1, &[&words(&[24]), &words(&[operation])]);
        assert_eq!(answer[..4], words(&[ILLEGAL]));
        assert_eq!(answer[answer.len() - 8..], words(&[ILLEGAL, ILLEGAL]));
    }
}

/// The client sets the times that hold the verifier, which the bitmap reports (RFC 8881, 18.16.4;
/// RFC 7530, 16.16.5).
#[test]
fn exclusive_create_reports_times_as_not_set() {
    let (home, files) = shared("", 1, EVERYTHING);
    let service = service_of(vec![home]);
    let mut client = Client::connect(&service, b"one", 0);
    for (name, how, mode, attrset) in [
        (&b"4.0"[..], &[2, 7, 7][..], 0o600, [0, 1 << 15 | 1 << 21]),
        (
            b"4.1",
            &[3, 7, 7, 2, 0, 1 << 1, 4, 0o640],
            0o640,
            [0, 1 << 1 | 1 << 15 | 1 << 21],
        ),
    ] {
        for attempt in ["new", "again"] {
            let mut open = Writer::new();
            open.append(&words(&[18, 0, 3, 0]));
            open.u64(client.client);
            open.opaque(b"owner");
            open.u32(1);
            open.append(&words(how));
            open.u32(0);
            open.opaque(name);
            let answer = client.ask(&[&words(&[24]), open.bytes()]);
            assert_eq!(answer[..4], words(&[OK]), "{attempt}");
            // The stateid is followed by a change of 20 bytes and the flags.
            let told = &answer[12 + 44 + 8 + 8 + 16 + 20 + 4..][..12];
            assert_eq!(told, [words(&[2]), words(&attrset)].concat(), "{attempt}");
        }
        let made = files
            .look_up(&root(), files.root(), name)
            .expect("it was made");
        assert_eq!(made.attributes.mode, mode);
    }
}

/// Created over version 3, or by a kernel.
#[test]
fn listed_names_of_any_bytes_are_usable() {
    const NAME: &[u8] = b"caf\xe9";
    for minor in 1..=2 {
        let (home, files) = shared("", 1, EVERYTHING);
        let service = service_of(vec![home]);
        let mut client = Client::connect(&service, b"one", 0);
        let make = |name: &[u8]| {
            let none = SetAttributes::default();
            let made = files.make(
                &root(),
                files.root(),
                name,
                file_system::Make::File,
                &none,
                None,
            );
            made.expect("a new file");
        };
        let (put, save) = (words(&[24]), words(&[32]));
        let mut status = |operations: &[&[u8]]| {
            let all = [&[&put[..], &save[..]], operations].concat();
            let answer = client.ask_by(minor, &all);
            Reader::new(&answer).u32().expect("a status")
        };
        // New ones are text.
        assert_eq!(status(&[&path(&[NAME])]), INVAL);
        assert_eq!(status(&[&make_directory(NAME)]), INVAL);
        assert_eq!(status(&[&named(28, &[NAME])]), INVAL);
        assert_eq!(status(&[&named(29, &[NAME, b"new"])]), INVAL);
        make(NAME);
        make(b"plain");
        assert_eq!(status(&[&path(&[NAME])]), OK, "LOOKUP");
        assert_eq!(status(&[&named(33, &[NAME])]), OK, "SECINFO");
        assert_eq!(
            status(&[&named(29, &[b"plain", NAME])]),
            OK,
            "RENAME over it"
        );
        assert_eq!(status(&[&named(29, &[NAME, b"plain"])]), OK, "RENAME");
        make(NAME);
        assert_eq!(status(&[&named(28, &[NAME])]), OK, "REMOVE");
        assert_eq!(status(&[&named(28, &[b"none"])]), NOENT);
        make(NAME);
        assert!(client.open(NAME, 3, 0).is_ok(), "OPEN");
    }
}

/// A kernel that imports the pool could not show the owner of the file.
#[test]
fn uid_minus_one_owns_no_file() {
    let (home, files) = shared("", 1, EVERYTHING);
    let service = service_of(vec![home]);
    set_mode(&files, files.root(), 0o777);
    let mut client = Client::connect(&service, b"one", 0);
    client.open(b"file", 3, 0).expect("a new file");
    let mut owner = Writer::new();
    owner.opaque(b"4294967295");
    for bit in [36, 37] {
        let set = set_attributes(&[0, 1 << (bit - 32)], owner.bytes());
        assert_eq!(client.at(&[b"file"], &set), BADOWNER, "{bit}");
    }
    client.uid = u32::MAX;
    client.open(b"of nobody", 3, 0).expect("all may make files");
    let made = files
        .look_up(&root(), files.root(), b"of nobody")
        .expect("it was made");
    assert_ne!(made.attributes.uid, u32::MAX);
    assert_ne!(made.attributes.gid, u32::MAX);
    assert!(Share::parse("rw=10.0.0.1,anongid=4294967295").is_err());
    assert!(Share::parse("rw=10.0.0.1,anonuid=4294967295").is_err());
}
