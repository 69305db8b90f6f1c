//! Calls of version 3 as bytes.

use std::sync::Arc;

use file_system::FileSystem;
use file_system::memory::MemoryFileSystem;

use super::{Memory, execute, mount, procedure};
use crate::exports::{Exports, Shared, Source};
use crate::handles::{HANDLE_BYTES, HandleKey, unverified};
use crate::hosts::AddressPair;
use crate::rpc::Credential;
use crate::sharenfs::Share;
use crate::v4::{
    Caller, Holders, HostShare, NoRecord, Presentation, ReclaimableState, Service, key_of_host,
};
use crate::xdr::{Reader, Writer};

mod handles;

const EVERYTHING: &str = "rw=127.0.0.1,no_root_squash";
/// The user with append permission.
const APPEND_USER: u32 = 1000;

struct Client {
    service: Service,
    memory: Memory,
    files: Arc<MemoryFileSystem>,
    transaction: u32,
    uid: u32,
    now_ms: u64,
}

impl Client {
    /// A client with one file system, `tank/home`.
    fn new(share: &str) -> Self {
        Self::after(Holders::default(), share)
    }

    /// Like [`Self::new`], with clients that may reclaim their state.
    fn after(earlier: Holders, share: &str) -> Self {
        let files = Arc::new(MemoryFileSystem::with_guid(5, 1 << 20));
        let shared = Shared {
            name: "tank/home".to_owned(),
            share: Share::parse(share).expect("a share").expect("not off"),
            files: Arc::<MemoryFileSystem>::clone(&files),
        };
        let presentation = Presentation {
            owner: b"tank".to_vec(),
            start: 7,
            handle_key: key(),
            lease_seconds: 20,
            grace_seconds: 20,
        };
        let service = Service::new(presentation, earlier, Arc::new(NoRecord));
        service.share(Exports::new(vec![shared]).expect("a tree"));
        Self {
            service,
            memory: Memory::default(),
            files,
            transaction: 0,
            uid: 0,
            now_ms: 0,
        }
    }

    fn send(&self, number: u32, arguments: &[u8], of_mount: bool) -> Vec<u8> {
        let credential = Credential::System {
            uid: self.uid,
            gid: self.uid,
            groups: Vec::new(),
        };
        let caller = Caller {
            credential: &credential,
            transaction: self.transaction,
            connection: 1,
            from: Source::LOCAL,
            here: Source::LOCAL.address,
            now_ms: self.now_ms,
        };
        let mut out = Writer::new();
        let answered = match of_mount {
            true => mount(&self.service, number, arguments, &caller, &mut out),
            false => execute(
                &self.service,
                &self.memory,
                number,
                arguments,
                &caller,
                &mut out,
            ),
        };
        answered.expect("an answer");
        out.into_bytes()
    }

    fn call(&mut self, number: u32, arguments: &Writer) -> Vec<u8> {
        self.transaction += 1;
        self.send(number, arguments.bytes(), false)
    }

    fn status(&mut self, number: u32, arguments: &Writer) -> u32 {
        let answer = self.call(number, arguments);
        Reader::new(&answer).u32().expect("a status")
    }

    /// Mounts a path and returns its filehandle.
    fn mount(&self, path: &str) -> Result<Vec<u8>, u32> {
        let mut arguments = Writer::new();
        arguments.opaque(path.as_bytes());
        let answer = self.send(1, arguments.bytes(), true);
        let mut reader = Reader::new(&answer);
        match reader.u32().expect("a status") {
            0 => Ok(reader.opaque(64).expect("a handle").to_vec()),
            status => Err(status),
        }
    }

    /// Creates a file and returns its filehandle.
    fn create(&mut self, directory: &[u8], name: &str) -> Vec<u8> {
        let answer = self.call(procedure::CREATE, &unchecked(directory, name));
        let mut reader = Reader::new(&answer);
        assert_eq!(reader.u32(), Ok(0), "it is made");
        assert_eq!(reader.boolean(), Ok(true));
        reader.opaque(64).expect("a handle").to_vec()
    }
}

fn named(directory: &[u8], name: &str) -> Writer {
    let mut arguments = Writer::new();
    arguments.opaque(directory);
    arguments.opaque(name.as_bytes());
    arguments
}

/// Appends a `sattr3` without changes.
fn nothing_set(arguments: &mut Writer) {
    for _ in 0..6 {
        arguments.u32(0);
    }
}

fn unchecked(directory: &[u8], name: &str) -> Writer {
    let mut arguments = named(directory, name);
    arguments.u32(0);
    nothing_set(&mut arguments);
    arguments
}

fn write(file: &[u8], offset: u64, stable: u32, bytes: &[u8]) -> Writer {
    let mut arguments = Writer::new();
    arguments.opaque(file);
    arguments.u64(offset);
    arguments.u32(bytes.len() as u32);
    arguments.u32(stable);
    arguments.opaque(bytes);
    arguments
}

/// Returns the names and cookies of a `READDIR` reply, and whether it reaches the end of the
/// directory.
fn names(answer: &[u8]) -> (Vec<(String, u64)>, bool) {
    let mut reader = Reader::new(answer);
    assert_eq!(reader.u32(), Ok(0), "a listing");
    assert_eq!(reader.boolean(), Ok(true));
    reader.fixed(84 + 8).expect("attributes and a verifier");
    let mut found = Vec::new();
    while reader.boolean().expect("an entry or the end") {
        reader.u64().expect("a number");
        let name = reader.opaque(255).expect("a name");
        let name = String::from_utf8(name.to_vec()).expect("text");
        found.push((name, reader.u64().expect("a cookie")));
    }
    (found, reader.boolean().expect("whether it ends"))
}

#[test]
fn mount_returns_a_handle_to_permitted_clients() {
    let mut client = Client::new(EVERYTHING);
    let home = client.mount("/tank/home").expect("it is shared");
    assert_eq!(client.mount("tank//home/").as_ref(), Ok(&home));
    assert_eq!(client.mount("/tank/other"), Err(2));
    assert_eq!(client.mount("/tank/../etc"), Err(22));
    assert!(client.mount("/").is_ok(), "the way to it");
    client.create(&home, "file");
    assert_eq!(client.mount("/tank/home/file"), Err(20));
    let exports = client.send(5, &[], true);
    let mut reader = Reader::new(&exports);
    assert_eq!(reader.boolean(), Ok(true));
    assert_eq!(reader.opaque(64), Ok(&b"/tank/home"[..]));
    let stranger = Client::new("rw=192.0.2.1");
    assert_eq!(stranger.mount("/tank/home"), Err(2), "it does not see it");
    assert_eq!(stranger.send(5, &[], true), [0, 0, 0, 0]);
}

#[test]
fn append_permission_allows_only_appends() {
    for reads in [false, true] {
        let mut client = Client::new(EVERYTHING);
        client.files.grant_append_only(APPEND_USER, reads);
        let home = client.mount("/tank/home").expect("it is shared");
        let file = client.create(&home, "file");
        client.uid = APPEND_USER;
        let commits = client.files.commits();
        let answer = client.call(procedure::WRITE, &write(&file, 0, 0, b"one"));
        // FILE_SYNC: the append could not be repeated after a crash.
        let expected = [0, 0, 0, 3, 0, 0, 0, 2];
        assert_eq!(
            (&answer[..4], &answer[120..128]),
            (&[0; 4][..], &expected[..])
        );
        assert!(client.files.commits() > commits);
        let mut status =
            |offset, bytes: &[u8]| client.status(procedure::WRITE, &write(&file, offset, 0, bytes));
        assert_eq!(status(3, b"two"), 0);
        assert_eq!(status(0, b"One"), 13);
        assert_eq!(status(0, b"onetwothree"), if reads { 0 } else { 13 });
        let mut access = Writer::new();
        access.opaque(&file);
        access.u32(0x4 | 0x8);
        let answer = client.call(procedure::ACCESS, &access);
        assert_eq!(answer[answer.len() - 4..], [0, 0, 0, 8]);
    }
}

#[test]
fn written_data_is_read_and_stable_writes_are_durable() {
    let mut client = Client::new(EVERYTHING);
    let home = client.mount("/tank/home").expect("it is shared");
    let file = client.create(&home, "file");
    let commits = client.files.commits();
    let answer = client.call(procedure::WRITE, &write(&file, 2, 0, b"abc"));
    // Status, wcc_data with all attributes (4 + 24 + 4 + 84), count, UNSTABLE, verifier.
    assert_eq!(answer[..4], [0, 0, 0, 0]);
    assert_eq!(
        answer[120..136],
        [0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]
    );
    assert_eq!(client.files.commits(), commits);
    let answer = client.call(procedure::WRITE, &write(&file, 5, 1, b"d"));
    assert_eq!(answer[120..128], [0, 0, 0, 1, 0, 0, 0, 2], "FILE_SYNC");
    assert_eq!(client.files.commits(), commits + 1);
    let mut read = Writer::new();
    read.opaque(&file);
    read.u64(0);
    read.u32(100);
    let answer = client.call(procedure::READ, &read);
    let mut reader = Reader::new(&answer);
    reader.fixed(4 + 4 + 84).expect("attributes");
    assert_eq!((reader.u32(), reader.boolean()), (Ok(6), Ok(true)));
    assert_eq!(reader.opaque(100), Ok(&b"\0\0abcd"[..]));
}

#[test]
fn repeated_call_is_executed_once() {
    let mut client = Client::new(EVERYTHING);
    let home = client.mount("/tank/home").expect("it is shared");
    let mut arguments = named(&home, "made");
    nothing_set(&mut arguments);
    let first = client.call(procedure::MKDIR, &arguments);
    assert_eq!(first[..4], [0, 0, 0, 0]);
    assert_eq!(
        client.send(procedure::MKDIR, arguments.bytes(), false),
        first
    );
    assert_eq!(
        client.status(procedure::MKDIR, &arguments),
        17,
        "a new call"
    );
}

/// The next server has the same files and an empty reply cache.
#[test]
fn call_executed_by_an_earlier_server_is_not_repeated() {
    let mut client = Client::new(EVERYTHING);
    let home = client.mount("/tank/home").expect("it is shared");
    let mut make = named(&home, "made");
    nothing_set(&mut make);
    let mut rename = named(&home, "made");
    rename.append(named(&home, "moved").bytes());
    let remove = named(&home, "moved");
    // A second SETATTR is refused by its guard, because the time has changed.
    let known = client.files.attributes(client.files.root());
    let changed = known.expect("it is there").changed;
    let mut set = Writer::new();
    set.opaque(&home);
    for word in [1, 0o755, 0, 0, 0, 0, 0, 1] {
        set.u32(word);
    }
    set.u32(changed.seconds as u32);
    set.u32(changed.nanoseconds);
    for (number, arguments) in [
        (procedure::SETATTR, set),
        (procedure::MKDIR, make),
        (procedure::RENAME, rename),
        (procedure::RMDIR, remove),
    ] {
        assert_eq!(client.status(number, &arguments), 0);
        let objects = client.files.objects();
        client.memory = Memory::default();
        let repeated = client.send(number, arguments.bytes(), false);
        assert_eq!(repeated[..4], [0; 4], "procedure {number}");
        assert_eq!(client.files.objects(), objects);
        client.memory = Memory::default();
        assert_ne!(client.status(number, &arguments), 0, "a new call");
    }
}

#[test]
fn repeated_exclusive_create_matches_its_verifier() {
    let mut client = Client::new(EVERYTHING);
    let home = client.mount("/tank/home").expect("it is shared");
    let exclusive = |verifier: u64| {
        let mut arguments = named(&home, "lock");
        arguments.u32(2);
        arguments.u64(verifier);
        arguments
    };
    let verifier = 0xfedc_ba98_7654_3210;
    assert_eq!(client.status(procedure::CREATE, &exclusive(verifier)), 0);
    assert_eq!(
        client.status(procedure::CREATE, &exclusive(verifier)),
        0,
        "it is its own"
    );
    assert_eq!(
        client.status(procedure::CREATE, &exclusive(verifier ^ 1)),
        17
    );
    let mut guarded = named(&home, "lock");
    guarded.u32(1);
    nothing_set(&mut guarded);
    assert_eq!(client.status(procedure::CREATE, &guarded), 17);
    assert_eq!(
        client.status(procedure::CREATE, &unchecked(&home, "lock")),
        0
    );
}

/// Another client created the file. The refusal returns the current attributes of the directory, so
/// that the caller detects the change.
#[test]
fn refused_change_returns_directory_attributes() {
    let mut client = Client::new(EVERYTHING);
    let home = client.mount("/tank/home").expect("it is shared");
    client.create(&home, "file");
    let mut exclusive = named(&home, "file");
    exclusive.u32(2);
    exclusive.u64(7);
    let mut make = named(&home, "file");
    nothing_set(&mut make);
    let root = client.files.attributes(client.files.root()).expect("there");
    for (number, arguments, status) in [
        (procedure::CREATE, &exclusive, 17),
        (procedure::MKDIR, &make, 17),
        (procedure::REMOVE, &named(&home, "none"), 2),
    ] {
        let answer = client.call(number, arguments);
        let mut reader = Reader::new(&answer);
        assert_eq!(reader.u32(), Ok(status));
        assert_eq!(reader.boolean(), Ok(false), "not known before");
        assert_eq!(reader.boolean(), Ok(true), "known now");
        let attributes = reader.fixed(84).expect("attributes");
        let modified = [root.modified.seconds as u32, root.modified.nanoseconds];
        assert_eq!(attributes[68..76], modified.map(u32::to_be_bytes).concat());
        assert!(reader.rest().is_empty());
    }
}

#[test]
fn directories_are_listed_in_parts_with_their_dots() {
    let mut client = Client::new(EVERYTHING);
    let home = client.mount("/tank/home").expect("it is shared");
    for number in 0..40 {
        client.create(&home, &format!("file{number}"));
    }
    let (mut found, mut cookie) = (Vec::new(), 0);
    loop {
        let mut arguments = Writer::new();
        arguments.opaque(&home);
        arguments.u64(cookie);
        arguments.u64(0);
        arguments.u32(512);
        let (some, is_end) = names(&client.call(procedure::READDIR, &arguments));
        assert!(!some.is_empty());
        cookie = some.last().map_or(cookie, |(_, cookie)| *cookie);
        found.extend(some.into_iter().map(|(name, _)| name));
        if is_end {
            break;
        }
    }
    assert_eq!(found[..2], [".", ".."]);
    assert_eq!(found.len(), 42);
    let root = client.mount("/").expect("the way");
    let mut arguments = Writer::new();
    arguments.opaque(&root);
    arguments.u64(0);
    arguments.u64(0);
    arguments.u32(4096);
    let (all, is_end) = names(&client.call(procedure::READDIR, &arguments));
    let all: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((&all[..], is_end), (&[".", "..", "tank"][..], true));
}

/// The host with a denial by NLM.
fn key() -> HandleKey {
    HandleKey::new(&[7; HandleKey::BYTES])
}

const OTHER: [u8; 4] = [192, 0, 2, 7];
const BOTH_HOSTS: &str = "rw=127.0.0.1:192.0.2.7,no_root_squash";

/// Requests a read share of the other host that denies writes. Returns whether it was granted.
fn deny_writes(client: &Client, file: &[u8], is_reclaim: bool) -> bool {
    let way = AddressPair {
        here: Source::LOCAL.address,
        there: OTHER.into(),
    };
    let (service, now_ms) = (&client.service, client.now_ms);
    let host = service.state().host(way, b"host7", None, now_ms);
    let share = HostShare {
        host: host.expect("there is room"),
        owner: b"owner",
        file: unverified(file).expect("a handle"),
        mode: (1, 2),
        is_reclaim,
    };
    let exports = service.exports();
    let files = exports.files_of(share.file.file_system);
    let files = files.expect("it is shared");
    service.share_for_host(&share, files, now_ms).is_ok()
}

/// All calls that read, write or truncate a file, with their names.
fn uses(home: &[u8], file: &[u8]) -> Vec<(&'static str, u32, Writer)> {
    let mut read = Writer::new();
    read.opaque(file);
    read.u64(0);
    read.u32(100);
    let mut cut = Writer::new();
    cut.opaque(file);
    // `sattr3` with a size, and no guard.
    for word in [0, 0, 0, 1, 0, 0, 0, 0, 0] {
        cut.u32(word);
    }
    let mut make = named(home, "file");
    // UNCHECKED, with equal attributes.
    for word in [0, 0, 0, 0, 1, 0, 0, 0, 0] {
        make.u32(word);
    }
    vec![
        ("reads", procedure::READ, read),
        ("writes", procedure::WRITE, write(file, 0, 2, b"abc")),
        ("cuts", procedure::SETATTR, cut),
        ("makes", procedure::CREATE, make),
    ]
}

#[test]
fn deny_write_also_denies_truncation() {
    const ACCES: u32 = 13;
    let mut client = Client::new(BOTH_HOSTS);
    let home = client.mount("/tank/home").expect("it is shared");
    let file = client.create(&home, "file");
    assert_eq!(
        client.status(procedure::WRITE, &write(&file, 0, 2, b"abc")),
        0
    );
    assert!(deny_writes(&client, &file, false));
    for (what, number, arguments) in uses(&home, &file) {
        let expected = if what == "reads" { 0 } else { ACCES };
        assert_eq!(client.status(number, &arguments), expected, "it {what}");
    }
    let mut mode = Writer::new();
    mode.opaque(&file);
    for word in [1, 0o600, 0, 0, 0, 0, 0, 0] {
        mode.u32(word);
    }
    assert_eq!(client.status(procedure::SETATTR, &mode), 0, "no contents");
    assert_eq!(
        client.status(procedure::CREATE, &unchecked(&home, "file")),
        0,
        "no size"
    );
    let mut get = Writer::new();
    get.opaque(&file);
    let answer = client.call(procedure::GETATTR, &get);
    // Status, type, mode, links, owner and group precede the size.
    assert_eq!(answer[24..32], 3_u64.to_be_bytes());
}

#[test]
fn file_use_waits_until_denials_are_reclaimed() {
    const JUKEBOX: u32 = 10_008;
    let host = key_of_host(OTHER.into());
    let denied = Holders::Known([(host, ReclaimableState::open(true))].into());
    let mut client = Client::after(denied, BOTH_HOSTS);
    let home = client.mount("/tank/home").expect("it is shared");
    let file = client.create(&home, "file");
    for (what, number, arguments) in uses(&home, &file) {
        assert_eq!(client.status(number, &arguments), JUKEBOX, "it {what}");
    }
    assert!(deny_writes(&client, &file, true), "it is taken back");
    client.now_ms = 20_000;
    for (what, number, arguments) in uses(&home, &file) {
        let expected = if what == "reads" { 0 } else { 13 };
        assert_eq!(client.status(number, &arguments), expected, "it {what}");
    }
    // The client's own denials, and unknown previous holders, do not delay the call.
    let own = key_of_host(Source::LOCAL.address);
    let own = Holders::Known([(own, ReclaimableState::open(true))].into());
    let harmless = Holders::Known([(host, ReclaimableState::LOCKS)].into());
    for earlier in [own, harmless, Holders::AnyClient] {
        let mut client = Client::after(earlier, BOTH_HOSTS);
        let home = client.mount("/tank/home").expect("it is shared");
        let file = client.create(&home, "file");
        for (what, number, arguments) in uses(&home, &file) {
            assert_eq!(client.status(number, &arguments), 0, "it {what}");
        }
    }
}

#[test]
fn names_are_moved_linked_and_removed() {
    let mut client = Client::new(EVERYTHING);
    let home = client.mount("/tank/home").expect("it is shared");
    let file = client.create(&home, "a");
    let mut link = Writer::new();
    link.opaque(&file);
    link.opaque(&home);
    link.opaque(b"b");
    assert_eq!(client.status(procedure::LINK, &link), 0);
    let mut rename = named(&home, "a");
    rename.opaque(&home);
    rename.opaque(b"c");
    assert_eq!(client.status(procedure::RENAME, &rename), 0);
    assert_eq!(client.status(procedure::LOOKUP, &named(&home, "a")), 2);
    assert_eq!(client.status(procedure::LOOKUP, &named(&home, "c")), 0);
    assert_eq!(client.status(procedure::RMDIR, &named(&home, "c")), 20);
    for name in ["b", "c"] {
        assert_eq!(client.status(procedure::REMOVE, &named(&home, name)), 0);
    }
    let mut get = Writer::new();
    get.opaque(&file);
    assert_eq!(client.status(procedure::GETATTR, &get), 70, "STALE");
    assert_eq!(client.status(procedure::LOOKUP, &named(&home, "..")), 0);
    assert_eq!(client.status(procedure::LOOKUP, &named(&home, "x/y")), 13);
}

#[test]
fn a_share_for_reading_refuses_changes_and_root_is_squashed() {
    let mut client = Client::new("ro=127.0.0.1");
    let home = client.mount("/tank/home").expect("it is shared");
    assert_eq!(
        client.status(procedure::CREATE, &unchecked(&home, "file")),
        30
    );
    let mut client = Client::new("rw=127.0.0.1");
    let home = client.mount("/tank/home").expect("it is shared");
    let file = client.create(&home, "file");
    let mut get = Writer::new();
    get.opaque(&file);
    let answer = client.call(procedure::GETATTR, &get);
    // Status, type, mode and links precede the owner and the group.
    assert_eq!(
        answer[16..24],
        [0, 0, 0xff, 0xfe, 0, 0, 0xff, 0xfe],
        "nobody's"
    );
    let mut no_handle = Writer::new();
    no_handle.opaque(b"nonsense");
    assert_eq!(client.status(procedure::GETATTR, &no_handle), 10_001);
}

#[test]
fn truncated_calls_are_malformed_or_get_a_reply() {
    let client = Client::new(EVERYTHING);
    let home = client.mount("/tank/home").expect("it is shared");
    let credential = Credential::Nobody;
    let whole = write(&home, 1 << 63, 2, &[1; 64]);
    for number in 0..=procedure::COMMIT {
        for length in 0..whole.len() {
            let caller = Caller {
                credential: &credential,
                transaction: length as u32,
                connection: 1,
                from: Source::LOCAL,
                here: Source::LOCAL.address,
                now_ms: 0,
            };
            let mut out = Writer::new();
            let cut = &whole.bytes()[..length];
            let executed = execute(
                &client.service,
                &client.memory,
                number,
                cut,
                &caller,
                &mut out,
            );
            let is_answered = executed.is_ok() && number != procedure::NULL;
            assert_eq!(is_answered, !out.is_empty(), "{number}, {length}");
        }
    }
}

/// With handle and attributes in the listing, a client would see the number of the directory change
/// when it enters.
#[test]
fn snapshots_are_listed_by_their_names_alone() {
    let mut client = Client::new(EVERYTHING);
    let shared = Shared {
        name: "tank/home".to_owned(),
        share: Share::parse(EVERYTHING).expect("a share").expect("not off"),
        files: Arc::new(crate::snapshots::tests::world().0),
    };
    client
        .service
        .share(Exports::new(vec![shared]).expect("a tree"));
    let directory = client
        .mount("/tank/home/.zfs/snapshot")
        .expect("a directory");
    let mut arguments = Writer::new();
    arguments.opaque(&directory);
    for word in [0, 0, 0, 0, 1000, 8000] {
        arguments.u32(word);
    }
    let answer = client.call(procedure::READDIRPLUS, &arguments);
    let mut reader = Reader::new(&answer);
    assert_eq!(reader.u32(), Ok(0));
    assert_eq!(reader.boolean(), Ok(true));
    reader.fixed(84 + 8).expect("attributes, and a verifier");
    let mut found = Vec::new();
    while reader.boolean().expect("an entry") {
        let _number = reader.u64().expect("a number");
        let name = reader.opaque(255).expect("a name").to_vec();
        let _cookie = reader.u64().expect("a cookie");
        let has_attributes = reader.boolean().expect("attributes");
        if has_attributes {
            reader.fixed(84).expect("attributes");
        }
        let has_handle = reader.boolean().expect("a handle");
        if has_handle {
            reader.opaque(64).expect("a handle");
        }
        found.push((
            String::from_utf8(name).expect("text"),
            has_attributes,
            has_handle,
        ));
    }
    let entry = |name: &str, is_known| (name.to_owned(), is_known, is_known);
    let expected = [
        entry(".", true),
        entry("..", true),
        entry("monday", false),
        entry("tuesday", false),
    ];
    assert_eq!(found, expected);
    let monday = client
        .mount("/tank/home/.zfs/snapshot/monday")
        .expect("there");
    assert_eq!(monday.len(), HANDLE_BYTES);
    assert_eq!(
        client.status(procedure::MKDIR, &{
            let mut arguments = named(&monday, "x");
            nothing_set(&mut arguments);
            arguments
        }),
        30
    );
}

/// The reply to the first call may be lost, and its change may be in progress when the client
/// retries.
#[test]
fn state_causing_a_refusal_is_durable() {
    const NOENT: u32 = 2;
    const EXIST: u32 = 17;
    let mut client = Client::new(EVERYTHING);
    let directory = client.mount("/tank/home").expect("a handle");
    client.create(&directory, "file");
    let mut guarded = named(&directory, "file");
    guarded.u32(1);
    nothing_set(&mut guarded);
    let mut made = named(&directory, "file");
    nothing_set(&mut made);
    let mut rename = named(&directory, "gone");
    rename.opaque(&directory);
    rename.opaque(b"file");
    for (number, arguments, status) in [
        (procedure::CREATE, guarded, EXIST),
        (procedure::MKDIR, made, EXIST),
        (procedure::REMOVE, named(&directory, "gone"), NOENT),
        (procedure::RENAME, rename, NOENT),
    ] {
        let before = client.files.commits();
        assert_eq!(client.status(number, &arguments), status, "{number}");
        assert_eq!(client.files.commits(), before + 1, "{number}");
    }
}

#[test]
fn file_created_by_an_earlier_transmission_is_durable() {
    let mut client = Client::new(EVERYTHING);
    let directory = client.mount("/tank/home").expect("a handle");
    let mut exclusive = named(&directory, "file");
    exclusive.u32(2);
    exclusive.fixed(&[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(client.status(procedure::CREATE, &exclusive), 0);
    let before = client.files.commits();
    assert_eq!(client.status(procedure::CREATE, &exclusive), 0);
    assert_eq!(client.files.commits(), before + 1);
}

/// `tank/home/child` is a file system, and `tank/home/off` one that is not shared.
#[test]
fn create_at_a_file_system_name_is_refused() {
    let mut client = Client::new(EVERYTHING);
    let shared = |name: &str, files: Arc<MemoryFileSystem>| Shared {
        name: name.to_owned(),
        share: Share::parse(EVERYTHING).expect("a share").expect("not off"),
        files,
    };
    let child = Arc::new(MemoryFileSystem::with_guid(6, 1 << 20));
    let all = vec![
        shared("tank/home", Arc::clone(&client.files)),
        shared("tank/home/child", child),
    ];
    let exports = Exports::new(all).expect("a tree");
    let names = ["tank/home", "tank/home/child", "tank/home/off"];
    let exports = exports.with_names(names.map(str::to_owned).into());
    client.service.share(exports);
    let home = client.mount("/tank/home").expect("it is shared");
    let file = client.create(&home, "file");
    let objects = client.files.objects();
    for (name, gone) in [("child", 1), ("off", 2)] {
        let with = |more: &[u32], sets: bool| {
            let mut arguments = named(&home, name);
            more.iter().for_each(|word| arguments.u32(*word));
            if sets {
                nothing_set(&mut arguments);
            }
            arguments
        };
        let mut link = Writer::new();
        link.opaque(&file);
        link.append(named(&home, name).bytes());
        let mut symlink = with(&[], true);
        symlink.opaque(b"to");
        let mut rename = named(&home, "file");
        rename.append(named(&home, name).bytes());
        for (number, arguments) in [
            (procedure::CREATE, with(&[1], true)),
            (procedure::MKDIR, with(&[], true)),
            (procedure::MKNOD, with(&[7], true)),
            (procedure::SYMLINK, symlink),
            (procedure::LINK, link),
            (procedure::RENAME, rename),
        ] {
            assert_eq!(client.status(number, &arguments), 17, "{number} {name}");
        }
        for how in [with(&[0], true), with(&[2, 7, 7], false)] {
            assert_eq!(client.status(procedure::CREATE, &how), 17, "{name}");
        }
        let mut rename = named(&home, name);
        rename.append(named(&home, "else").bytes());
        assert_eq!(client.status(procedure::RENAME, &rename), gone, "{name}");
        for number in [procedure::REMOVE, procedure::RMDIR] {
            assert_eq!(client.status(number, &named(&home, name)), gone, "{name}");
        }
    }
    assert_eq!(client.files.objects(), objects);
}

/// The client's transaction IDs have wrapped, and an equal call is a different one, on every
/// connection.
#[test]
fn same_xid_much_later_is_executed() {
    let mut client = Client::new(EVERYTHING);
    client.now_ms = 1_000_000;
    let home = client.mount("/tank/home").expect("it is shared");
    let mut make = named(&home, "made");
    nothing_set(&mut make);
    let remove = named(&home, "made");
    assert_eq!(client.status(procedure::MKDIR, &make), 0);
    let number = client.transaction;
    assert_eq!(client.status(procedure::RMDIR, &remove), 0);
    let objects = client.files.objects();
    client.transaction = number;
    client.now_ms += 130_000;
    let again = client.send(procedure::MKDIR, make.bytes(), false);
    assert_eq!(again[..4], [0; 4]);
    assert_eq!(client.files.objects(), objects + 1, "it is made again");
}
