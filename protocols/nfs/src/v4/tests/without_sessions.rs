//! Conversations at NFS 4.0.

use super::*;
use file_system::Identity;

const OK: u32 = 0;
const EXPIRED: u32 = 10011;
const GRACE: u32 = 10013;
const SHARE_DENIED: u32 = 10015;
const CLID_INUSE: u32 = 10017;
const RESOURCE: u32 = 10018;
const STALE_CLIENTID: u32 = 10022;
const STALE_STATEID: u32 = 10023;
const BAD_STATEID: u32 = 10025;
const BAD_SEQID: u32 = 10026;
const NO_GRACE: u32 = 10033;

const RENEW: u32 = 30;

/// A client without sessions, with one open owner. Each request has a new transaction ID.
struct Old {
    service: Arc<Service>,
    id: u64,
    transaction: u32,
    /// The seqid of its owner.
    sequence: u32,
    now_ms: u64,
}

type StateId = [u8; 16];

/// A compound of minor version 0 without a tag.
fn compound_0(operations: &[&[u8]]) -> Vec<u8> {
    let mut compound = compound(operations);
    compound[7] = 0;
    compound
}

/// `SETCLIENTID` (35) with an unreachable callback.
pub(super) fn set_client(name: &[u8], verifier: u64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(35);
    writer.u64(verifier);
    writer.opaque(name);
    writer.u32(0x4000_0000);
    writer.opaque(b"tcp");
    writer.opaque(b"0.0.0.0.0.0");
    writer.u32(1);
    writer.into_bytes()
}

/// An operation with a client ID as its first argument.
fn of_client(operation: u32, client: u64) -> Writer {
    let mut writer = Writer::new();
    writer.u32(operation);
    writer.u64(client);
    writer
}

/// `OPEN_CONFIRM` (20), `OPEN_DOWNGRADE` (21) or `READ` (25): a stateid, and words.
fn of_state(operation: u32, id: &StateId, more: &[u32]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(operation);
    writer.fixed(id);
    more.iter().for_each(|word| writer.u32(*word));
    writer.into_bytes()
}

fn close(sequence: u32, id: &StateId) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(4);
    writer.u32(sequence);
    writer.fixed(id);
    writer.into_bytes()
}

/// The last bytes of a reply.
fn tail<const BYTES: usize>(answer: &[u8]) -> [u8; BYTES] {
    *answer.last_chunk().expect("an answer")
}

fn status_of(answer: &[u8]) -> u32 {
    Reader::new(answer).u32().expect("a status")
}

fn first_state(answer: &[u8], at: usize) -> Result<StateId, u32> {
    match status_of(answer) {
        OK => Ok(answer[at..at + 16].try_into().expect("a state id")),
        status => Err(status),
    }
}

impl Old {
    fn introduce(service: &Arc<Service>, name: &[u8], verifier: u64, now_ms: u64) -> (Self, u64) {
        let mut old = Self {
            service: Arc::clone(service),
            id: 0,
            transaction: 0,
            sequence: 0,
            now_ms,
        };
        let answer = old.ask(&[&set_client(name, verifier)]);
        assert_eq!(answer[..20], words(&[0, 0, 1, 35, 0]), "SETCLIENTID");
        let mut reader = Reader::new(&answer[20..]);
        old.id = reader.u64().expect("a client id");
        (old, reader.u64().expect("a verifier"))
    }

    fn confirm(&mut self, confirmation: u64) -> u32 {
        let mut confirm = of_client(36, self.id);
        confirm.u64(confirmation);
        self.status(&[confirm.bytes()])
    }

    fn connect_as(service: &Arc<Service>, name: &[u8], verifier: u64, now_ms: u64) -> Self {
        let (mut old, confirmation) = Self::introduce(service, name, verifier, now_ms);
        assert_eq!(old.confirm(confirmation), OK, "SETCLIENTID_CONFIRM");
        old
    }

    fn connect(service: &Arc<Service>, name: &[u8], now_ms: u64) -> Self {
        Self::connect_as(service, name, 1, now_ms)
    }

    fn ask(&mut self, operations: &[&[u8]]) -> Vec<u8> {
        self.transaction += 1;
        self.ask_again(operations)
    }

    fn ask_again(&self, operations: &[&[u8]]) -> Vec<u8> {
        let credential = Credential::System {
            uid: 0,
            gid: 0,
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
        let compound = compound_0(operations);
        let answered = self.service.compound(&compound, &caller, &mut out);
        answered.expect("a compound");
        out.into_bytes()
    }

    fn status(&mut self, operations: &[&[u8]]) -> u32 {
        status_of(&self.ask(operations))
    }

    /// `OPEN` (18) by its owner: of a name, created if missing, or a reclaim.
    fn open_bytes(&self, name: Option<&[u8]>, access: u32, deny: u32) -> Vec<u8> {
        let mut open = Writer::new();
        for word in [18, self.sequence, access, deny] {
            open.u32(word);
        }
        open.u64(self.id);
        open.opaque(b"owner");
        match name {
            // OPEN4_CREATE, UNCHECKED4, no attributes, CLAIM_NULL.
            Some(name) => {
                open.append(&words(&[1, 0, 0, 0, 0]));
                open.opaque(name);
            }
            // OPEN4_NOCREATE, CLAIM_PREVIOUS, OPEN_DELEGATE_NONE.
            None => open.append(&words(&[0, 1, 0])),
        }
        open.into_bytes()
    }

    /// Opens a file of the root. Returns its stateid, and whether it must be confirmed.
    fn open_unconfirmed(
        &mut self,
        name: &[u8],
        access: u32,
        deny: u32,
    ) -> Result<(StateId, bool), u32> {
        self.sequence += 1;
        let open = self.open_bytes(Some(name), access, deny);
        let answer = self.ask(&[&words(&[24]), &open]);
        // The stateid is followed by a change of 20 bytes and the flags.
        first_state(&answer, 28).map(|id| (id, answer[28 + 16 + 20 + 3] & 2 != 0))
    }

    /// Opens a file of the root and confirms the owner if necessary.
    fn open(&mut self, name: &[u8], access: u32, deny: u32) -> Result<StateId, u32> {
        match self.open_unconfirmed(name, access, deny)? {
            (id, false) => Ok(id),
            (id, true) => {
                self.sequence += 1;
                let confirm = of_state(20, &id, &[self.sequence]);
                let answer = self.ask(&[&words(&[24]), &path(&[name]), &confirm]);
                assert_eq!(status_of(&answer), OK, "OPEN_CONFIRM");
                Ok(tail(&answer))
            }
        }
    }

    fn reclaim(&mut self, name: &[u8], access: u32, deny: u32) -> Result<StateId, u32> {
        self.sequence += 1;
        let open = self.open_bytes(None, access, deny);
        let answer = self.ask(&[&words(&[24]), &path(&[name]), &open]);
        first_state(&answer, 36)
    }

    /// Write-locks bytes with a new owner.
    fn lock(
        &mut self,
        name: &[u8],
        open: &StateId,
        range: (u64, u64),
        is_reclaim: bool,
    ) -> Result<StateId, u32> {
        self.sequence += 1;
        let mut lock = Writer::new();
        lock.append(&words(&[12, 2, is_reclaim.into()]));
        lock.u64(range.0);
        lock.u64(range.1);
        lock.append(&words(&[1, self.sequence]));
        lock.fixed(open);
        lock.u32(7);
        lock.u64(self.id);
        lock.opaque(format!("locks from {}", range.0).as_bytes());
        let answer = self.ask(&[&words(&[24]), &path(&[name]), lock.bytes()]);
        first_state(&answer, 36)
    }

    fn unlock(&mut self, name: &[u8], lock: &StateId, sequence: u32, range: (u64, u64)) -> u32 {
        let mut unlock = Writer::new();
        unlock.append(&words(&[14, 2, sequence]));
        unlock.fixed(lock);
        unlock.u64(range.0);
        unlock.u64(range.1);
        self.status(&[&words(&[24]), &path(&[name]), unlock.bytes()])
    }

    fn read(&mut self, name: &[u8], id: &StateId) -> u32 {
        let read = of_state(25, id, &[0, 0, 100]);
        self.status(&[&words(&[24]), &path(&[name]), &read])
    }
}

#[test]
fn new_open_owner_must_confirm_before_use() {
    let mut client = Old::connect(&service(), b"one", 0);
    let (id, must_confirm) = client.open_unconfirmed(b"file", 3, 0).expect("it is free");
    assert!(must_confirm);
    assert_eq!(client.read(b"file", &id), BAD_STATEID);
    let confirmed = {
        client.sequence += 1;
        let confirm = of_state(20, &id, &[client.sequence]);
        let call: [&[u8]; 3] = [&words(&[24]), &path(&[b"file"]), &confirm];
        let first = client.ask(&call);
        assert_eq!(client.ask_again(&call), first);
        tail(&first)
    };
    assert_eq!(client.read(b"file", &confirmed), OK);
    let (other, must_confirm) = client.open_unconfirmed(b"other", 3, 0).expect("it is free");
    assert!(!must_confirm, "it is known");
    assert_eq!(client.read(b"other", &other), OK);
}

/// A retransmitted open, lock or close is not executed twice, and a request out of sequence is
/// refused.
#[test]
fn repeated_last_request_of_an_owner_gets_the_cached_reply() {
    let mut client = Old::connect(&service(), b"one", 0);
    client.open(b"before", 3, 0).expect("it is free");
    client.sequence += 1;
    let open = client.open_bytes(Some(b"file"), 3, 2);
    // With GETFH.
    let call: [&[u8]; 3] = [&words(&[24]), &open, &words(&[10])];
    let first = client.ask(&call);
    assert_eq!(status_of(&first), OK);
    assert_eq!(client.ask(&call), first, "with another transaction");
    let id = first_state(&first, 28).expect("a state id");
    let lock = client
        .lock(b"file", &id, (0, 10), false)
        .expect("it is free");
    assert_eq!(client.unlock(b"file", &lock, 9, (0, 10)), BAD_SEQID);
    assert_eq!(client.unlock(b"file", &lock, 8, (0, 10)), OK);
    assert_eq!(client.unlock(b"file", &lock, 8, (0, 10)), OK);
    assert_eq!(
        client.unlock(b"file", &lock, 8, (0, 11)),
        BAD_SEQID,
        "another request"
    );
    client.sequence += 1;
    let sequence = client.sequence;
    let mut close =
        |sequence| client.ask(&[&words(&[24]), &path(&[b"file"]), &close(sequence, &id)]);
    let closed = close(sequence);
    assert_eq!(status_of(&closed), OK);
    assert_eq!(close(sequence), closed);
    assert_eq!(status_of(&close(sequence + 1)), BAD_STATEID, "it is gone");
}

/// The reply was lost with the server. Without sessions the call is identified by its transaction
/// ID and its source.
#[test]
fn name_change_is_executed_once_across_servers() {
    let (home, files) = shared("", 5, EVERYTHING);
    let server = |start| {
        let clients: Clients = (Holders::default(), Arc::new(NoRecord));
        service_after_another(vec![home.clone()], start, 0, clients)
    };
    let mut client = Old::connect(&server(7), b"one", 0);
    let call: [&[u8]; 3] = [&words(&[24]), &make_directory(b"made"), &words(&[10])];
    let first = client.ask(&call);
    assert_eq!(status_of(&first), OK);
    let objects = files.objects();
    for start in 8..10 {
        let again = client.ask_again(&call);
        assert_eq!(status_of(&again), OK);
        assert_eq!(tail::<16>(&again), tail::<16>(&first), "the handle");
        client.service = server(start);
    }
    assert_eq!(files.objects(), objects);
    assert_eq!(client.status(&call), 17, "another call finds it");
}

#[test]
fn rebooted_client_loses_state_and_its_id_is_protected() {
    let service = service();
    let mut before = Old::connect(&service, b"one", 0);
    let id = before.open(b"file", 3, 3).expect("it is free");
    let (mut same, confirmation) = Old::introduce(&service, b"one", 1, 0);
    assert_eq!(
        (same.id, same.confirm(confirmation)),
        (before.id, OK),
        "its callback changes"
    );
    assert_eq!(before.read(b"file", &id), OK);
    let answer = send(&service, 1000, 0, &compound_0(&[&set_client(b"one", 2)]));
    // With the address of the holder.
    assert_eq!(status_of(&answer), CLID_INUSE);
    assert_eq!(answer.len(), 12 + 8 + 8 + 16);
    let (mut again, confirmation) = Old::introduce(&service, b"one", 2, 0);
    assert_eq!(
        again.status(&[of_client(RENEW, again.id).bytes()]),
        STALE_CLIENTID
    );
    assert_eq!(before.read(b"file", &id), OK, "it may be a lie");
    assert_eq!(again.confirm(confirmation + 1), STALE_CLIENTID);
    assert_eq!(again.confirm(confirmation), OK);
    assert_eq!(again.confirm(confirmation), OK, "asked again");
    assert_eq!(before.read(b"file", &id), EXPIRED);
    assert_eq!(
        before.status(&[of_client(RENEW, before.id).bytes()]),
        EXPIRED
    );
    again.open(b"file", 3, 3).expect("it is free again");
}

#[test]
fn expired_client_loses_conflicting_state_and_must_restart() {
    let service = service();
    let mut silent = Old::connect(&service, b"silent", 0);
    let mut idle = Old::connect(&service, b"idle", 0);
    let id = silent.open(b"file", 3, 3).expect("it is free");
    let mut other = Client::connect(&service, b"with sessions", 0);
    assert_eq!(other.open(b"file", 1, 0), Err(SHARE_DENIED));
    silent.now_ms = 9_000;
    assert_eq!(silent.status(&[of_client(RENEW, silent.id).bytes()]), OK);
    other.now_ms = 11_000;
    assert_eq!(other.open(b"file", 1, 0), Err(SHARE_DENIED));
    other.now_ms = 20_000;
    other.open(b"file", 1, 0).expect("its lease is over");
    silent.now_ms = 20_000;
    assert_eq!(silent.read(b"file", &id), EXPIRED);
    idle.now_ms = 20_000;
    assert_eq!(idle.open(b"file", 1, 0), Err(EXPIRED));
}

/// The client never reports that it is done: other clients are delayed until it requests new state.
/// It may still reclaim state that no other client has obtained.
#[test]
fn request_for_new_state_counts_as_reclaim_complete() {
    let (home, _) = shared("", 5, EVERYTHING);
    let record = Arc::new(MemoryRecord::default());
    let before = record.serve(&home, 7);
    let mut client = Old::connect(&before, b"one", 0);
    let open = client.open(b"file", 3, 0).expect("it is free");
    client
        .lock(b"file", &open, (0, 10), false)
        .expect("it is free");
    client
        .lock(b"file", &open, (10, 10), false)
        .expect("it is free");
    drop(before);
    client.service = record.serve(&home, 8);
    assert_eq!(client.read(b"file", &open), STALE_STATEID);
    assert_eq!(client.open(b"file", 3, 0), Err(STALE_CLIENTID));
    let after = Arc::clone(&client.service);
    let mut back = Old::connect(&after, b"one", 100);
    let mut stranger = Client::reconnect(&after, b"one", 100, 8192);
    assert_eq!(
        stranger.reclaim(b"file", 3, 0),
        Err(NO_GRACE),
        "not with sessions"
    );
    let mut other = Client::connect(&after, b"two", 100);
    let theirs = other.open(b"file", 3, 0).expect("nothing is in the way");
    assert_eq!(other.lock(b"file", &theirs, b"l", 50, 1), GRACE);
    let open = back.reclaim(b"file", 3, 0).expect("it was open");
    assert_eq!(
        back.reclaim(b"file", 3, 2),
        Err(NO_GRACE),
        "it denied nothing"
    );
    back.lock(b"file", &open, (0, 10), true)
        .expect("it was locked");
    assert_eq!(other.lock(b"file", &theirs, b"l", 50, 1), GRACE);
    back.open(b"new", 3, 0).expect("it goes on");
    back.lock(b"file", &open, (10, 10), true)
        .expect("no other client can have obtained it");
    assert_eq!(other.lock(b"file", &theirs, b"l", 50, 1), OK);
    assert_eq!(back.lock(b"file", &open, (20, 10), true), Err(NO_GRACE));
    back.lock(b"file", &open, (20, 10), false)
        .expect("it is free");
    assert_eq!(other.lock(b"file", &theirs, b"l", 5, 1), 10010, "DENIED");
}

/// A client with an expired lease and no state is not awaited by the next server. It is recorded
/// again before new state is granted to it.
#[test]
fn client_is_recorded_at_its_first_open() {
    let (home, _) = shared("", 5, EVERYTHING);
    let record = Arc::new(MemoryRecord::default());
    let service = record.serve(&home, 7);
    let mut gone = Old::connect(&service, b"gone", 0);
    let count = || match record.holders() {
        Holders::Known(clients) => clients.len(),
        Holders::AnyClient => panic!("they are known"),
    };
    assert_eq!(count(), 0);
    record.fail(true);
    assert_eq!(gone.open_unconfirmed(b"file", 3, 0), Err(10008), "DELAY");
    record.fail(false);
    let id = gone.open(b"file", 3, 0).expect("it is free");
    assert_eq!(count(), 1);
    gone.sequence += 1;
    let close = close(gone.sequence, &id);
    assert_eq!(gone.status(&[&words(&[24]), &path(&[b"file"]), &close]), OK);
    let mut other = Old::connect(&service, b"other", 11_000);
    other.open(b"file", 3, 0).expect("it is free");
    assert_eq!(count(), 1, "the other one");
    let mut back = Old::connect(&service, b"gone", 12_000);
    assert_eq!((back.id, count()), (gone.id, 1));
    back.sequence = gone.sequence;
    back.open(b"file", 3, 0).expect("it is free");
    assert_eq!(count(), 2);
}

#[test]
fn opens_of_one_owner_conflict_with_its_own_denials() {
    let mut client = Old::connect(&service(), b"one", 0);
    client.open(b"file", 3, 1).expect("it is free");
    assert_eq!(client.open(b"file", 1, 0), Err(SHARE_DENIED));
    client.open(b"file", 2, 0).expect("writing is not denied");
}

#[test]
fn locks_are_freed_with_their_file_or_owner() {
    let service = service();
    let mut client = Old::connect(&service, b"one", 0);
    let mut other = Client::connect(&service, b"two", 0);
    let theirs = other.open(b"file", 3, 0).expect("it is free");
    let open = client.open(b"file", 3, 0).expect("it is free");
    let lock = client
        .lock(b"file", &open, (0, 10), false)
        .expect("it is free");
    assert_eq!(other.lock(b"file", &theirs, b"l", 5, 1), 10010, "DENIED");
    let mut release = of_client(39, client.id);
    release.opaque(b"locks from 0");
    assert_eq!(client.status(&[release.bytes()]), 10037, "LOCKS_HELD");
    assert_eq!(client.unlock(b"file", &lock, 8, (0, 10)), OK);
    assert_eq!(client.status(&[release.bytes()]), OK);
    assert_eq!(client.unlock(b"file", &lock, 9, (0, 10)), BAD_STATEID);
    client
        .lock(b"file", &open, (0, 10), false)
        .expect("it is free");
    client.sequence += 1;
    let close = close(client.sequence, &open);
    assert_eq!(
        client.status(&[&words(&[24]), &path(&[b"file"]), &close]),
        OK
    );
    assert_eq!(other.lock(b"file", &theirs, b"l", 5, 1), OK);
}

/// `LOCKT` (13) of the whole file for another owner.
#[test]
fn adjacent_ranges_of_an_owner_are_merged() {
    let mut client = Old::connect(&service(), b"one", 0);
    let open = client.open(b"file", 3, 0).expect("it is free");
    let mut id = client
        .lock(b"file", &open, (20, 10), false)
        .expect("it is free");
    for (sequence, range) in [(8, (40, 10)), (9, (25, 15)), (10, (10, 10))] {
        let mut lock = Writer::new();
        lock.append(&words(&[12, 2, 0]));
        lock.u64(range.0);
        lock.u64(range.1);
        lock.u32(0);
        lock.fixed(&id);
        lock.u32(sequence);
        let answer = client.ask(&[&words(&[24]), &path(&[b"file"]), lock.bytes()]);
        id = first_state(&answer, 36).expect("it is free");
    }
    let mut test = Writer::new();
    test.append(&words(&[13, 2, 0, 0, u32::MAX, u32::MAX]));
    test.u64(client.id);
    test.opaque(b"other");
    let answer = client.ask(&[&words(&[24]), &path(&[b"file"]), test.bytes()]);
    assert_eq!(status_of(&answer), 10010, "DENIED");
    assert_eq!(answer[36..52], words(&[0, 10, 0, 40]));
}

/// A user has the stateid of an open of another user.
#[test]
fn open_grants_no_access_to_other_users() {
    let service = service();
    let mut client = Old::connect(&service, b"one", 0);
    let id = client.open(b"file", 3, 0).expect("it is free");
    let write = of_state(38, &id, &[0, 0, 0, 0]);
    let call = compound_0(&[&words(&[24]), &path(&[b"file"]), &write]);
    assert_eq!(status_of(&send(&service, 0, 0, &call)), OK);
    assert_eq!(status_of(&send(&service, 1000, 0, &call)), 13, "ACCESS");
}

/// A client reads around the bytes that it writes.
#[test]
fn write_open_may_read_unless_denied() {
    let service = service();
    let mut client = Old::connect(&service, b"one", 0);
    let id = client.open(b"file", 2, 0).expect("it is free");
    assert_eq!(client.read(b"file", &id), OK);
    let mut other = Client::connect(&service, b"two", 0);
    other.open(b"file", 3, 1).expect("nobody reads");
    assert_eq!(client.read(b"file", &id), 10012, "LOCKED");
    let id = client.open(b"other", 1, 0).expect("it is free");
    let write = of_state(38, &id, &[0, 0, 0, 0]);
    let call: [&[u8]; 3] = [&words(&[24]), &path(&[b"other"]), &write];
    assert_eq!(client.status(&call), 10038, "OPENMODE");
}

#[test]
fn each_minor_version_has_its_own_operations_and_attributes() {
    let service = service();
    let mut client = Old::connect(&service, b"one", 0);
    for operation in [2, 40, 53, 200] {
        assert_eq!(client.status(&[&words(&[operation])]), 10044, "{operation}");
    }
    let renew = of_client(RENEW, client.id);
    let mut other = Client::connect(&service, b"two", 0);
    assert_eq!(other.status(&[renew.bytes()]), 10004, "NOTSUPP");
    // GETATTR of suppattr_exclcreat returns no attribute.
    let getattr = words(&[9, 3, 0, 0, 1 << 11]);
    assert_eq!(tail::<8>(&client.ask(&[&words(&[24]), &getattr])), [0; 8]);
    assert_ne!(tail::<8>(&other.ask(&[&words(&[24]), &getattr])), [0; 8]);
    // EXCLUSIVE4_1, and CLAIM_FH.
    for how in [&[1, 3, 0, 0, 0, 0, 0][..], &[0, 4]] {
        let mut open = client.open_bytes(None, 3, 0);
        open.truncate(open.len() - 12);
        open.extend(words(how));
        assert_eq!(client.status(&[&words(&[24]), &open]), 10036, "BADXDR");
    }
}

#[test]
fn oversized_compounds_and_replies_are_refused() {
    let (home, files) = shared("", 5, EVERYTHING);
    let root = Identity {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    let mut client = Old::connect(&service_of(vec![home]), b"one", 0);
    let id = client.open(b"file", 3, 0).expect("it is free");
    let object = files
        .look_up(&root, files.root(), b"file")
        .expect("it is there");
    files
        .write(object.node, 0, &[1; 1 << 19])
        .expect("there is room");
    let (at_root, path) = (words(&[24]), path(&[b"file"]));
    let read = of_state(25, &id, &[0, 0, 1 << 20]);
    let answer = client.ask(&[&at_root, &path, &read, &read, &read]);
    assert_eq!(status_of(&answer), RESOURCE);
    assert!(answer.len() < (1 << 20) + 1024);
    assert_eq!(client.status(&vec![&at_root[..]; 65]), RESOURCE);
    let mut close = close(client.sequence + 1, &id);
    close.truncate(close.len() - 1);
    assert_eq!(client.status(&[&at_root, &path, &close]), 10036, "BADXDR");
}
