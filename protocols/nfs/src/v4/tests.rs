//! Conversations in the bytes of the standard, and invariants for arbitrary input.

use std::sync::{Arc, Mutex};

use file_system::FileSystem;
use file_system::memory::MemoryFileSystem;

use super::{Caller, ClientRecord, Holders, NoRecord, PersistentState, Presentation, Service};
use crate::exports::{Exports, Shared, Source};
use crate::handles::{HANDLE_BYTES, HandleKey};
use crate::rpc::Credential;
use crate::sharenfs::Share;
use crate::xdr::{Reader, Writer};

mod appending;
mod children;
mod commits;
mod counted;
mod creators;
mod exclusive;
mod promises;
mod refusals;
mod restarts;
mod users;
mod without_sessions;

const LEASE_SECONDS: u32 = 10;

struct Client {
    service: Arc<Service>,
    session: [u8; 16],
    client: u64,
    sequence: u32,
    now_ms: u64,
    uid: u32,
    /// The Kerberos principal of the user.
    principal: Option<&'static str>,
}

const EVERYTHING: &str = "rw=127.0.0.1,no_root_squash";

fn shared(name: &str, guid: u64, share: &str) -> (Shared, Arc<MemoryFileSystem>) {
    let files = Arc::new(MemoryFileSystem::with_guid(guid, 1 << 20));
    let shared = Shared {
        name: name.to_owned(),
        share: Share::parse(share).expect("a share").expect("not off"),
        files: Arc::<MemoryFileSystem>::clone(&files),
    };
    (shared, files)
}

/// Signs the handles of all services here: they are of one pool.
fn key() -> HandleKey {
    HandleKey::new(&[7; HandleKey::BYTES])
}

fn service_of(shared: Vec<Shared>) -> Arc<Service> {
    service_after_another(shared, 7, 0, (Holders::default(), Arc::new(NoRecord)))
}

/// The clients of an earlier server, and the record of the clients of this one.
type Clients = (Holders, Arc<dyn ClientRecord>);

fn service_after_another(
    shared: Vec<Shared>,
    start: u64,
    grace_seconds: u32,
    clients: Clients,
) -> Arc<Service> {
    let presentation = Presentation {
        owner: b"tank".to_vec(),
        start,
        handle_key: key(),
        lease_seconds: LEASE_SECONDS,
        grace_seconds,
    };
    let service = Service::new(presentation, clients.0, clients.1);
    service.share(Exports::new(shared).expect("a tree"));
    Arc::new(service)
}

fn service() -> Arc<Service> {
    service_of(vec![shared("", 1, EVERYTHING).0])
}

fn send(service: &Service, uid: u32, now_ms: u64, compound: &[u8]) -> Vec<u8> {
    let credential = Credential::System {
        uid,
        gid: uid,
        groups: Vec::new(),
    };
    send_by(service, &credential, now_ms, compound)
}

fn send_by(service: &Service, credential: &Credential, now_ms: u64, compound: &[u8]) -> Vec<u8> {
    let caller = Caller {
        credential,
        transaction: 0,
        connection: 1,
        from: Source::LOCAL,
        here: Source::LOCAL.address,
        now_ms,
    };
    let mut out = Writer::new();
    service
        .compound(compound, &caller, &mut out)
        .expect("a compound");
    out.into_bytes()
}

/// A compound of minor version 1 without a tag.
fn compound(operations: &[&[u8]]) -> Vec<u8> {
    compound_of(1, operations)
}

fn compound_of(minor: u32, operations: &[&[u8]]) -> Vec<u8> {
    let mut writer = Writer::new();
    for word in [0, minor, operations.len() as u32] {
        writer.u32(word);
    }
    for operation in operations {
        writer.append(operation);
    }
    writer.into_bytes()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// `EXCHANGE_ID` (42) of `name`, without state protection and implementation ID.
fn exchange_id(name: &[u8], verifier: u64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(42);
    writer.u64(verifier);
    writer.opaque(name);
    for word in [0, 0, 0] {
        writer.u32(word);
    }
    writer.into_bytes()
}

/// `CREATE_SESSION` (43) with channels of 8192 bytes, 8 operations and 4 slots, and this limit of
/// cached replies.
fn create_session(client: u64, sequence: u32, cached_bytes: u32) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(43);
    writer.u64(client);
    let channel = [0, 8192, 8192, cached_bytes, 8, 4, 0];
    for word in [sequence, 0]
        .into_iter()
        .chain(channel)
        .chain(channel)
        .chain([0x4000_0000, 0])
    {
        writer.u32(word);
    }
    writer.into_bytes()
}

impl Client {
    fn connect(service: &Arc<Service>, name: &[u8], now_ms: u64) -> Self {
        Self::connect_with(service, name, now_ms, 8192)
    }

    fn connect_with(service: &Arc<Service>, name: &[u8], now_ms: u64, cached_bytes: u32) -> Self {
        let mut connected = Self::reconnect(service, name, now_ms, cached_bytes);
        assert_eq!(connected.status(&[&words(&[58, 0])]), 0, "RECLAIM_COMPLETE");
        connected
    }

    /// A client that may reclaim its state.
    fn reconnect(service: &Arc<Service>, name: &[u8], now_ms: u64, cached_bytes: u32) -> Self {
        let answer = send(service, 0, now_ms, &compound(&[&exchange_id(name, 1)]));
        assert_eq!(answer[..20], words(&[0, 0, 1, 42, 0]), "EXCHANGE_ID");
        let client = Reader::new(&answer[20..]).u64().expect("a client id");
        let answer = send(
            service,
            0,
            now_ms,
            &compound(&[&create_session(client, 1, cached_bytes)]),
        );
        assert_eq!(answer[..20], words(&[0, 0, 1, 43, 0]), "CREATE_SESSION");
        let session = Reader::new(&answer[20..]).array().expect("a session");
        Self {
            service: Arc::clone(service),
            session,
            client,
            sequence: 0,
            now_ms,
            uid: 0,
            principal: None,
        }
    }

    fn sequence(&self, sequence: u32, is_cached: bool) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u32(53);
        writer.fixed(&self.session);
        for word in [sequence, 0, 0, is_cached.into()] {
            writer.u32(word);
        }
        writer.into_bytes()
    }

    fn ask(&mut self, operations: &[&[u8]]) -> Vec<u8> {
        self.ask_by(1, operations)
    }

    /// Sends a compound with this minor version.
    fn ask_by(&mut self, minor: u32, operations: &[&[u8]]) -> Vec<u8> {
        self.sequence += 1;
        let sequence = self.sequence(self.sequence, true);
        let all: Vec<&[u8]> = [&sequence[..]]
            .into_iter()
            .chain(operations.iter().copied())
            .collect();
        let compound = compound_of(minor, &all);
        let Some(name) = self.principal else {
            return send(&self.service, self.uid, self.now_ms, &compound);
        };
        let credential = creators::kerberos(name, self.uid);
        send_by(&self.service, &credential, self.now_ms, &compound)
    }

    fn status(&mut self, operations: &[&[u8]]) -> u32 {
        Reader::new(&self.ask(operations)).u32().expect("a status")
    }

    /// Opens a file of the root and creates it if it is missing. Returns its stateid.
    fn open(&mut self, name: &[u8], access: u32, deny: u32) -> Result<Vec<u8>, u32> {
        let mut open = Writer::new();
        for word in [18, 0, access, deny] {
            open.u32(word);
        }
        open.u64(self.client);
        open.opaque(b"owner");
        // OPEN4_CREATE, UNCHECKED4, no attributes, CLAIM_NULL.
        for word in [1, 0, 0, 0, 0] {
            open.u32(word);
        }
        open.opaque(name);
        let answer = self.ask(&[&words(&[24]), open.bytes()]);
        match Reader::new(&answer).u32().expect("a status") {
            // Status, tag, count; SEQUENCE with its 44 bytes; PUTROOTFH with 8; OPEN with its number and status.
            0 => Ok(answer[12 + 44 + 8 + 8..][..16].to_vec()),
            status => Err(status),
        }
    }

    /// Reclaims an open of a file of the root.
    fn reclaim(&mut self, name: &[u8], access: u32, deny: u32) -> Result<Vec<u8>, u32> {
        let mut open = Writer::new();
        for word in [18, 0, access, deny] {
            open.u32(word);
        }
        open.u64(self.client);
        open.opaque(b"owner");
        // OPEN4_NOCREATE, CLAIM_PREVIOUS, OPEN_DELEGATE_NONE.
        for word in [0, 1, 0] {
            open.u32(word);
        }
        let look_up = path(&[name]);
        let answer = self.ask(&[&words(&[24]), &look_up, open.bytes()]);
        match Reader::new(&answer).u32().expect("a status") {
            0 => Ok(answer[12 + 44 + 8 + 8 + 8..][..16].to_vec()),
            status => Err(status),
        }
    }

    /// Write-locks bytes with a new owner.
    fn lock(&mut self, name: &[u8], open: &[u8], owner: &[u8], offset: u64, length: u64) -> u32 {
        self.lock_or_reclaim(name, open, owner, (offset, length), false)
    }

    fn lock_or_reclaim(
        &mut self,
        name: &[u8],
        open: &[u8],
        owner: &[u8],
        (offset, length): (u64, u64),
        is_reclaim: bool,
    ) -> u32 {
        let mut lookup = Writer::new();
        lookup.u32(15);
        lookup.opaque(name);
        let mut lock = Writer::new();
        lock.u32(12);
        lock.u32(2);
        lock.u32(is_reclaim.into());
        lock.u64(offset);
        lock.u64(length);
        lock.u32(1);
        lock.u32(0);
        lock.fixed(open);
        lock.u32(0);
        lock.u64(self.client);
        lock.opaque(owner);
        self.status(&[&words(&[24]), lookup.bytes(), lock.bytes()])
    }
}

#[test]
fn export_root_has_directory_type() {
    let mut client = Client::connect(&service(), b"one", 0);
    // PUTROOTFH, GETATTR of the type.
    let answer = client.ask(&[&words(&[24]), &words(&[9, 1, 2])]);
    let expected = words(&[24, 0, 9, 0, 1, 2, 4, 2]);
    assert_eq!(answer[answer.len() - expected.len()..], expected);
}

/// A retransmitted call creates a directory once, and the second reply equals the first.
#[test]
fn repeated_compound_gets_the_cached_reply() {
    let mut client = Client::connect(&service(), b"one", 0);
    let mut create = Writer::new();
    create.u32(6);
    create.u32(2);
    create.opaque(b"made");
    create.u32(0);
    create.u32(0);
    let first = client.ask(&[&words(&[24]), create.bytes()]);
    client.sequence -= 1;
    let second = client.ask(&[&words(&[24]), create.bytes()]);
    assert_eq!(first[..4], words(&[0]));
    assert_eq!(first, second);
    assert_eq!(
        client.status(&[&words(&[24]), create.bytes()]),
        17,
        "a new call finds it"
    );
}

/// `REMOVE` (28), `RENAME` (29) or `LINK` (11): a number and names.
fn named(operation: u32, names: &[&[u8]]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(operation);
    names.iter().for_each(|name| writer.opaque(name));
    writer.into_bytes()
}

/// The reply was lost with the server. The next one has another start, the same files, and no
/// session of the client.
#[test]
fn compound_executed_by_an_earlier_server_gets_its_reply() {
    const BADSESSION: u32 = 10052;
    let (home, files) = shared("", 5, EVERYTHING);
    let server = |start| {
        let clients: Clients = (Holders::default(), Arc::new(NoRecord));
        service_after_another(vec![home.clone()], start, 0, clients)
    };
    let (root, save) = (words(&[24]), words(&[32]));
    let make = make_directory(b"made");
    let rename = named(29, &[b"made", b"moved"]);
    let link = named(11, &[b"second"]);
    let remove = named(28, &[b"moved"]);
    let file = path(&[b"file"]);
    let calls: [&[&[u8]]; 4] = [
        // With GETFH.
        &[&root, &make, &words(&[10])],
        &[&root, &save, &root, &rename],
        &[&root, &file, &save, &root, &link],
        &[&root, &remove],
    ];
    let mut start = 7;
    let mut before = Client::connect(&server(start), b"one", 0);
    before.open(b"file", 3, 0).expect("a new file");
    for call in calls {
        let first = before.ask(call);
        assert_eq!(first[..4], words(&[0]));
        let objects = files.objects();
        start += 1;
        let after = server(start);
        let mut repeated = Client {
            service: Arc::clone(&after),
            sequence: before.sequence - 1,
            ..before
        };
        let second = repeated.ask(call);
        assert_eq!(second[..4], words(&[0]), "{call:?}");
        assert_eq!(second.len(), first.len());
        if call[1] == make {
            // The handle, with GETFH before it.
            let handle = first.len() - 8..;
            assert_eq!(second[handle.clone()], first[handle]);
        }
        assert_eq!(files.objects(), objects, "it is not made again");
        assert_eq!(repeated.status(call), BADSESSION, "a later call");
        repeated.sequence -= 3;
        assert_eq!(repeated.status(call), BADSESSION, "an earlier one");
        before = Client::connect(&after, b"one", 0);
    }
}

/// Each file system stores the last receipt of a slot. The newest of these identifies the
/// retransmitted call.
#[test]
fn executed_call_is_recognized_in_any_file_system() {
    let (one, _) = shared("one", 5, EVERYTHING);
    let (two, _) = shared("two", 6, EVERYTHING);
    let server = |start| {
        let clients: Clients = (Holders::default(), Arc::new(NoRecord));
        service_after_another(vec![one.clone(), two.clone()], start, 0, clients)
    };
    let mut before = Client::connect(&server(7), b"one", 0);
    let make = make_directory(b"made");
    assert_eq!(before.at(&[b"one"], &make), 0);
    assert_eq!(before.at(&[b"two"], &make), 0);
    let mut repeated = Client {
        service: server(8),
        sequence: before.sequence - 1,
        ..before
    };
    assert_eq!(repeated.at(&[b"two"], &make), 0);
}

/// A compound with two changes, one of which was applied by the previous server.
#[test]
fn unexecuted_call_of_an_earlier_server_gets_bad_session() {
    let (home, files) = shared("", 5, EVERYTHING);
    let server = |start| {
        let clients: Clients = (Holders::default(), Arc::new(NoRecord));
        service_after_another(vec![home.clone()], start, 0, clients)
    };
    let (root, make, then) = (words(&[24]), make_directory(b"one"), make_directory(b"two"));
    let mut before = Client::connect(&server(7), b"one", 0);
    assert_eq!(before.status(&[&root, &make]), 0);
    // Older receipts did not identify their call.
    restarts::keep_receipt(&files, &before, 2);
    let mut after = Client {
        service: server(8),
        sequence: before.sequence - 1,
        ..before
    };
    let objects = files.objects();
    const DELAY: u32 = 10008;
    assert_eq!(after.status(&[&root, &make, &root, &then]), DELAY);
    after.sequence -= 1;
    // An OPEN (18) of an existing file needs a client.
    let mut open = words(&[18, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    open.extend(words(&[4]).into_iter().chain(*b"file"));
    assert_eq!(after.status(&[&root, &make, &open]), DELAY);
    assert_eq!(files.objects(), objects);
}

#[test]
fn a_repeated_sequence_with_another_call_is_refused() {
    let mut client = Client::connect(&service(), b"one", 0);
    assert_eq!(client.status(&[&words(&[24])]), 0);
    client.sequence -= 1;
    assert_eq!(client.status(&[&words(&[24]), &words(&[10])]), 10076);
    // The same call with a higher highest slot.
    let mut again = client.sequence(client.sequence, true);
    again[31] = 2;
    let again = compound(&[&again, &words(&[24])]);
    assert_eq!(send(&client.service, 0, 0, &again)[..4], words(&[0]));
    client.sequence += 5;
    assert_eq!(client.status(&[&words(&[24])]), 10063);
}

#[test]
fn expired_client_keeps_its_open_until_a_conflict() {
    let service = service();
    let mut one = Client::connect(&service, b"one", 0);
    let mut two = Client::connect(&service, b"two", 0);
    let open = one.open(b"file", 3, 3).expect("it is free");
    assert_eq!(two.open(b"file", 1, 0), Err(10015));
    let lease_ms = u64::from(LEASE_SECONDS) * 1000;
    one.now_ms = lease_ms + 1;
    assert_eq!(
        one.lock(b"file", &open, b"l", 0, 1),
        0,
        "no other client requested it"
    );
    two.now_ms = 2 * lease_ms + 2;
    two.open(b"file", 1, 0)
        .expect("the other one was silent for too long");
    assert_eq!(
        one.status(&[&words(&[24])]),
        10052,
        "and its session is gone"
    );
}

#[test]
fn overlapping_locks_of_two_owners_conflict() {
    let mut client = Client::connect(&service(), b"one", 0);
    let open = client.open(b"file", 3, 0).expect("it is free");
    assert_eq!(client.lock(b"file", &open, b"a", 0, 10), 0);
    assert_eq!(client.lock(b"file", &open, b"b", 9, 1), 10010);
    assert_eq!(client.lock(b"file", &open, b"b", 10, u64::MAX), 0);
    assert_eq!(client.lock(b"file", &open, b"a", 0, 0), 22);
    assert_eq!(client.lock(b"file", &open, b"a", 3, u64::MAX - 1), 22);
}

#[test]
fn locks_per_file_are_limited() {
    let mut client = Client::connect(&service(), b"one", 0);
    let open = client.open(b"file", 3, 0).expect("it is free");
    let refused = (0..9000).position(|index| client.lock(b"file", &open, b"a", index * 2, 1) != 0);
    assert_eq!(refused, Some(8192));
}

#[test]
fn operations_without_session_and_long_compounds_are_refused() {
    let service = service();
    let status = |bytes: &[u8]| {
        Reader::new(&send(&service, 0, 0, bytes))
            .u32()
            .expect("a status")
    };
    assert_eq!(status(&compound(&[&words(&[24])])), 10071);
    assert_eq!(status(&compound(&[&words(&[4711])])), 10044);
    assert_eq!(status(&compound(&[&words(&[24])[..]; 65])), 10070);
    assert_eq!(
        status(&compound(&[&exchange_id(b"x", 1), &words(&[24])])),
        10081
    );
    assert_eq!(status(&words(&[0, 3, 0])), 10021);
}

/// Each truncation of a conversation is an error without further effects.
#[test]
fn truncated_compounds_get_replies() {
    let service = service();
    let whole = compound(&[&exchange_id(b"cut", 1)]);
    for length in 12..whole.len() {
        let answer = send(&service, 0, 0, &whole[..length]);
        assert_eq!(answer[..4], words(&[10036]), "{length} bytes");
    }
}

#[test]
fn a_file_of_another_user_is_not_opened() {
    let service = service();
    let mut root = Client::connect(&service, b"root", 0);
    root.open(b"file", 3, 0).expect("it is free");
    let mut user = Client::connect(&service, b"user", 0);
    user.uid = 1000;
    assert_eq!(user.open(b"file", 2, 0), Err(13));
    user.open(b"file", 1, 0).expect("all may read");
}

/// A session with cached replies of 150 bytes refuses a change with a longer reply, before the
/// change is applied.
#[test]
fn change_without_reply_space_is_not_executed() {
    let service = service();
    let mut small = Client::connect_with(&service, b"small", 0, 150);
    let mut create = Writer::new();
    create.u32(6);
    create.u32(2);
    create.opaque(b"made");
    create.u32(0);
    create.u32(0);
    assert_eq!(small.status(&[&words(&[24]), create.bytes()]), 10067);
    let mut look_up = Writer::new();
    look_up.u32(15);
    look_up.opaque(b"made");
    let mut other = Client::connect(&service, b"other", 0);
    assert_eq!(
        other.status(&[&words(&[24]), look_up.bytes()]),
        2,
        "it is not there"
    );
}

/// `LOOKUP` (15) of each part of a path.
fn path(parts: &[&[u8]]) -> Vec<u8> {
    let mut writer = Writer::new();
    for part in parts {
        writer.u32(15);
        writer.opaque(part);
    }
    writer.into_bytes()
}

/// `CREATE` (6) of a directory.
fn make_directory(name: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    for word in [6, 2] {
        writer.u32(word);
    }
    writer.opaque(name);
    for word in [0, 0] {
        writer.u32(word);
    }
    writer.into_bytes()
}

impl Client {
    /// Returns the status of operations in a directory of the tree.
    fn at(&mut self, parts: &[&[u8]], operations: &[u8]) -> u32 {
        // A compound counts its operations.
        let mut all: Vec<Vec<u8>> = vec![words(&[24])];
        all.extend(parts.iter().map(|part| path(&[part])));
        all.push(operations.to_vec());
        let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        self.status(&all)
    }
}

/// `CREATE` (6) of a symbolic link.
fn make_link(name: &[u8], target: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(6);
    writer.u32(5);
    writer.opaque(target);
    writer.opaque(name);
    writer.u32(0);
    writer.u32(0);
    writer.into_bytes()
}

#[test]
fn io_on_a_non_file_returns_its_type_before_access() {
    const ISDIR: u32 = 21;
    const SYMLINK: u32 = 10_029;
    let mut client = Client::connect(&service(), b"one", 0);
    assert_eq!(client.at(&[], &make_directory(b"folder")), 0);
    assert_eq!(client.at(&[], &make_link(b"link", b"folder")), 0);
    let read = words(&[25, 0, 0, 0, 0, 0, 0, 4]);
    let write = words(&[38, 0, 0, 0, 0, 0, 0, 0, 4, 0]);
    let write_nothing = words(&[38, 0, 0, 0, 0, 0, 0, 0, 0]);
    for uid in [0, 7] {
        client.uid = uid;
        for call in [&read, &write, &write_nothing] {
            assert_eq!(client.at(&[b"folder"], call), ISDIR, "{uid}: {call:?}");
            assert_eq!(client.at(&[b"link"], call), SYMLINK, "{uid}: {call:?}");
        }
    }
}

#[test]
fn nested_exports_apply_their_own_access_rules() {
    let (home, home_files) = shared("tank/home", 5, EVERYTHING);
    let (docs, docs_files) = shared("tank/docs", 6, "ro=127.0.0.1");
    let (other, _) = shared("tank/other", 7, "rw=192.0.2.1");
    let service = service_of(vec![home, docs, other]);
    let mut client = Client::connect(&service, b"one", 0);
    let make = make_directory(b"made");
    assert_eq!(client.at(&[b"tank", b"home"], &make), 0);
    assert_eq!(client.at(&[b"tank", b"docs"], &make), 30, "read-only");
    assert_eq!(client.at(&[b"tank"], &make), 30, "the tree's own directory");
    assert_eq!(client.at(&[b"tank", b"other"], &make), 2, "not theirs");
    assert_eq!(client.at(&[b"tank", b"home"], &path(&[b"made"])), 0);
    assert_eq!(client.at(&[b"tank", b"docs"], &path(&[b"made"])), 2);
    assert_eq!((home_files.commits(), docs_files.commits()), (1, 0));
    // LOOKUPP (16) leaves the file system by its root.
    let up = words(&[16]);
    let look_up = path(&[b"docs"]);
    let operations: [&[u8]; 5] = [
        &words(&[24]),
        &path(&[b"tank"]),
        &path(&[b"home"]),
        &up,
        &look_up,
    ];
    assert_eq!(client.status(&operations), 0);
}

#[test]
fn root_is_squashed_by_default() {
    let (home, files) = shared("", 5, "rw=127.0.0.1");
    let service = service_of(vec![home]);
    let mut client = Client::connect(&service, b"one", 0);
    assert_eq!(client.at(&[], &make_directory(b"made")), 0);
    let root = file_system::Identity {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    let made = files.look_up(&root, files.root(), b"made");
    assert_eq!(made.expect("it was made").attributes.uid, 65_534);
}

#[test]
fn usage_lists_client_state_and_expire_removes_it() {
    let (home, files) = shared("", 5, EVERYTHING);
    let service = service_of(vec![home]);
    let mut client = Client::connect(&service, b"one", 0);
    let mut other = Client::connect(&service, b"two", 0);
    let open = client.open(b"file", 2, 1).expect("it is free");
    assert_eq!(client.lock(b"file", &open, b"a", 3, 4), 0);
    assert_eq!(other.open(b"file", 1, 0), Err(10015));
    let usage = service.usage(files.id(), 0);
    let [has] = &usage.clients[..] else {
        panic!("{usage:?}");
    };
    assert_eq!((&has.name[..], has.version), (&b"one"[..], "4.1+"));
    assert_eq!((has.opens, has.locks, has.waiting), (1, 1, 0));
    let [file] = &usage.files[..] else {
        panic!("{usage:?}");
    };
    let open = &file.opens[0];
    assert_eq!((open.access, open.deny), (2, 1));
    let [lock] = &file.locks[..] else {
        panic!("{usage:?}");
    };
    assert_eq!((lock.offset, lock.length), (3, Some(4)));
    assert_eq!(lock.process, None, "owners of version 4 are of no use");
    assert!(service.expire(has.client, 0));
    assert_eq!(
        client.status(&[&words(&[24])]),
        10052,
        "its session is gone"
    );
    other.open(b"file", 1, 0).expect("nobody has it");
}

/// A removed file occupies space while a client has it open.
#[test]
fn full_server_expires_silent_clients() {
    let (home, _files) = shared("", 5, EVERYTHING);
    let service = service_of(vec![home]);
    let mut client = Client::connect(&service, b"one", 0);
    client.open(b"file", 2, 1).expect("it is free");
    let mut asked = 0;
    assert!(!service.release_space_of_expired(1, || asked += 1));
    let late = 10_000_000;
    assert!(service.release_space_of_expired(late, || asked += 1));
    assert_eq!(asked, 1, "the lent data is returned");
    assert!(
        service.release_space_of_expired(late + 1000, || asked += 1),
        "it takes time"
    );
    assert!(!service.release_space_of_expired(late + 60_000, || asked += 1));
    let mut other = Client::connect(&service, b"two", 0);
    other.open(b"file", 1, 0).expect("nobody has it");
}

#[test]
fn unshared_file_system_is_closed() {
    let (home, files) = shared("", 5, EVERYTHING);
    let service = service_of(vec![home.clone()]);
    let mut client = Client::connect(&service, b"one", 0);
    client.open(b"file", 3, 3).expect("it is free");
    let before = Arc::strong_count(&files);
    service.share(Exports::none());
    drop(home);
    assert!(Arc::strong_count(&files) < before);
    assert_eq!(Arc::strong_count(&files), 1, "nobody keeps it");
    assert_eq!(client.at(&[], &make_directory(b"made")), 30);
}

/// `nfsace4`: type, flags, rights, and the user or group.
type ListEntry<'a> = (u32, u32, u32, &'a [u8]);

/// `SETATTR` (34) of an access control list with the anonymous stateid.
fn set_list(entries: &[ListEntry<'_>]) -> Vec<u8> {
    [words(&[34, 0, 0, 0, 0]), only_list(entries)].concat()
}

/// `CREATE` (6) of a directory with an access control list.
fn make_listed(name: &[u8], entries: &[ListEntry<'_>]) -> Vec<u8> {
    let mut make = Writer::new();
    make.u32(6);
    make.u32(2);
    make.opaque(name);
    [make.into_bytes(), only_list(entries)].concat()
}

/// Attributes with only an access control list.
fn only_list(entries: &[ListEntry<'_>]) -> Vec<u8> {
    let mut values = Writer::new();
    values.u32(entries.len() as u32);
    for (kind, flags, mask, who) in entries {
        for word in [*kind, *flags, *mask] {
            values.u32(word);
        }
        values.opaque(who);
    }
    let mut attributes = Writer::new();
    attributes.u32(1);
    attributes.u32(1 << 12);
    attributes.opaque(values.bytes());
    attributes.into_bytes()
}

#[test]
fn acl_is_set_and_returned_and_determines_the_mode() {
    const INVAL: u32 = 22;
    const ATTRNOTSUPP: u32 = 10_032;
    const BADOWNER: u32 = 10_039;
    let mut client = Client::connect(&service(), b"one", 0);
    client.open(b"file", 3, 0).expect("a new file");
    let list: [ListEntry<'_>; 4] = [
        (1, 0, 2, b"1000"),
        (0, 0x40, 3, b"100"),
        (0, 0, 0x1f_01ff, b"OWNER@"),
        (0, 0, 0x12_0081, b"EVERYONE@"),
    ];
    assert_eq!(client.at(&[b"file"], &set_list(&list)), 0);
    // GETATTR of aclsupport and mode, then of the list.
    let ask = words(&[9, 2, 1 << 13, 1 << 1]);
    let answer = client.ask(&[&words(&[24]), &path(&[b"file"]), &ask]);
    assert_eq!(answer[answer.len() - 8..], words(&[3, 0o744]));
    let ask = words(&[9, 1, 1 << 12]);
    let answer = client.ask(&[&words(&[24]), &path(&[b"file"]), &ask]);
    let told = set_list(&list);
    assert_eq!(answer[answer.len() - told.len() + 28..], told[28..]);
    let refused: [(u32, ListEntry<'_>); 5] = [
        // An audit entry, an unknown flag, an unknown right, a name, and an inheritable entry on a
        // file.
        (ATTRNOTSUPP, (2, 0, 1, b"OWNER@")),
        (ATTRNOTSUPP, (0, 0x10, 1, b"OWNER@")),
        (ATTRNOTSUPP, (0, 0, 0x200, b"OWNER@")),
        (BADOWNER, (0, 0, 1, b"ann@example.net")),
        (INVAL, (0, 8, 1, b"OWNER@")),
    ];
    for (status, entry) in refused {
        assert_eq!(
            client.at(&[b"file"], &set_list(&[entry])),
            status,
            "{entry:?}"
        );
    }
    client.uid = 7;
    assert_eq!(client.at(&[b"file"], &set_list(&list)), 1);
}

/// `SETATTR` of an owner and a group.
fn set_owner(owner: &[u8], group: &[u8]) -> Vec<u8> {
    let mut values = Writer::new();
    values.opaque(owner);
    values.opaque(group);
    let mut set = Writer::new();
    for word in [34, 0, 0, 0, 0, 2, 0, 1 << 4 | 1 << 5] {
        set.u32(word);
    }
    set.opaque(values.bytes());
    set.into_bytes()
}

/// Linux sends owner names with Kerberos. A user could not change a file to another group of his
/// otherwise.
#[test]
fn owner_may_be_a_local_user_name() {
    const BADOWNER: u32 = 10_039;
    let mut client = Client::connect(&service(), b"one", 0);
    client.open(b"file", 3, 0).expect("a new file");
    let named = set_owner(b"daemon@example.net", b"root@localdomain");
    assert_eq!(client.at(&[b"file"], &named), 0);
    let ask = words(&[9, 2, 0, 1 << 4 | 1 << 5]);
    let answer = client.ask(&[&words(&[24]), &path(&[b"file"]), &ask]);
    let mut told = Writer::new();
    told.opaque(b"1");
    told.opaque(b"0");
    assert!(answer.ends_with(told.bytes()), "{answer:?}");
    let unknown: [&[u8]; 4] = [
        b"no-such-user-here@example.net",
        b"@example.net",
        b"daemon",
        b"nul\0@x",
    ];
    for name in unknown {
        assert_eq!(
            client.at(&[b"file"], &set_owner(name, b"0")),
            BADOWNER,
            "{name:?}"
        );
    }
    let entry = (0, 0x40, 1, &b"daemon@example.net"[..]);
    assert_eq!(client.at(&[b"file"], &set_list(&[entry])), 0);
}

/// To a client a snapshot is another file system, and its files can only be opened for reading.
#[test]
fn snapshot_is_a_separate_file_system() {
    const ROFS: u32 = 30;
    let (files, _) = crate::snapshots::tests::world();
    let shared = Shared {
        name: String::new(),
        share: Share::parse(EVERYTHING).expect("a share").expect("not off"),
        files: Arc::new(files),
    };
    let mut client = Client::connect(&service_of(vec![shared]), b"one", 0);
    // GETATTR of fsid, fileid and mounted_on_fileid.
    let ask = words(&[9, 2, 1 << 8 | 1 << 20, 1 << 23]);
    let mut told = |parts: &[&[u8]]| {
        let mut all: Vec<Vec<u8>> = vec![words(&[24])];
        all.extend(parts.iter().map(|part| path(&[part])));
        all.push(ask.clone());
        let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        let answer = client.ask(&all);
        let mut reader = Reader::new(&answer[answer.len() - 32..]);
        [(); 4].map(|()| reader.u64().expect("a number"))
    };
    let root = told(&[]);
    let directory = told(&[b".zfs", b"snapshot"]);
    assert_eq!(directory[..2], [7, 0]);
    assert_eq!(directory[2..], [0xffff_ffff_fffd; 2]);
    let monday = told(&[b".zfs", b"snapshot", b"monday"]);
    assert_eq!(monday, [7, 0x1_0002, root[2], 0xffff_ffff_fffc - 0x1_0002]);
    let inside = told(&[b".zfs", b"snapshot", b"monday", b"folder"]);
    assert_eq!(inside[..2], [7, 0x1_0002]);
    assert_eq!(inside[2], inside[3]);
    let folder: &[&[u8]] = &[b".zfs", b"snapshot", b"monday", b"folder"];
    assert_eq!(client.at(folder, &make_directory(b"made")), ROFS);
    let open = |client: &Client, access: u32| {
        let mut open = Writer::new();
        for word in [18, 0, access, 0] {
            open.u32(word);
        }
        open.u64(client.client);
        open.opaque(b"owner");
        for word in [0, 0] {
            open.u32(word);
        }
        open.opaque(b"file");
        open.into_bytes()
    };
    let (reads, writes) = (open(&client, 1), open(&client, 2));
    assert_eq!(client.at(folder, &reads), 0);
    assert_eq!(client.at(folder, &writes), ROFS);
    // By its handle, which contains the snapshot: GETFH, PUTFH.
    let mut all: Vec<Vec<u8>> = vec![words(&[24])];
    all.extend(folder.iter().map(|part| path(&[part])));
    all.push(words(&[10]));
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let answer = client.ask(&all);
    let mut put = Writer::new();
    put.u32(22);
    put.opaque(&answer[answer.len() - HANDLE_BYTES..]);
    let remove = named(28, &[b"file"]);
    assert_eq!(client.status(&[put.bytes(), &path(&[b"file"])]), 0);
    assert_eq!(client.status(&[put.bytes(), &remove]), ROFS);
}

/// Stores holders in memory and counts the calls. It fails on request.
#[derive(Default)]
struct MemoryRecord {
    kept: Mutex<(Holders, u32)>,
    fails: std::sync::atomic::AtomicBool,
}

impl MemoryRecord {
    fn holders(&self) -> Holders {
        self.kept.lock().expect("no panic").0.clone()
    }

    fn times(&self) -> u32 {
        self.kept.lock().expect("no panic").1
    }

    fn fail(&self, fails: bool) {
        self.fails
            .store(fails, std::sync::atomic::Ordering::Relaxed);
    }

    /// A server after the earlier ones with this record.
    fn serve(self: &Arc<Self>, shared: &Shared, start: u64) -> Arc<Service> {
        let record = Arc::<Self>::clone(self) as Arc<dyn ClientRecord>;
        service_after_another(vec![shared.clone()], start, 5, (self.holders(), record))
    }
}

impl ClientRecord for MemoryRecord {
    fn keep(&self, persistent_state: &PersistentState) -> bool {
        let mut kept = self.kept.lock().expect("no panic");
        *kept = (persistent_state.holders.clone(), kept.1 + 1);
        !self.fails.load(std::sync::atomic::Ordering::Relaxed)
    }
}
