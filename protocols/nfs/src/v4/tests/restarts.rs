//! Reclaims at the next server, and the delays that they cause for other clients.

use file_system::{Guard, Identity, Make, Receipt, SetAttributes};

use super::*;

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};

/// After a restart a client reclaims its file and its lock. Other clients get no conflicting state
/// until it is done, or until the grace period is over.
#[test]
fn client_reclaims_its_state_after_restart() {
    let (home, _) = shared("", 5, EVERYTHING);
    let record = Arc::new(MemoryRecord::default());
    let before = record.serve(&home, 7);
    let mut client = Client::connect(&before, b"one", 0);
    let open = client
        .open(b"file", 3, 2)
        .expect("it is free, and no reclaim is awaited");
    assert_eq!(client.lock(b"file", &open, b"l", 0, 10), 0);
    drop(before);
    let after = record.serve(&home, 8);
    let mut back = Client::reconnect(&after, b"one", 100, 8192);
    let mut other = Client::connect(&after, b"two", 200);
    let mut stranger = Client::reconnect(&after, b"three", 200, 8192);
    assert_eq!(other.open(b"file", 1, 0), Err(10013), "GRACE");
    assert_eq!(other.reclaim(b"file", 1, 0), Err(10033), "it is done");
    assert_eq!(
        stranger.reclaim(b"file", 1, 0),
        Err(10033),
        "it had nothing"
    );
    let open = back.reclaim(b"file", 3, 2).expect("it was open");
    let lock = back.lock_or_reclaim(b"file", &open, b"l", (0, 10), true);
    assert_eq!(lock, 0);
    assert_eq!(back.lock(b"file", &open, b"l", 20, 1), 10013, "nothing new");
    assert_eq!(back.status(&[&words(&[58, 0])]), 0, "RECLAIM_COMPLETE");
    assert_eq!(back.reclaim(b"file", 3, 2), Err(10033), "NO_GRACE");
    assert_eq!(other.open(b"file", 2, 0), Err(10015), "it is denied");
    let open = other.open(b"file", 1, 0).expect("reading is not");
    assert_eq!(other.lock(b"file", &open, b"l", 5, 1), 10038, "for writing");
    assert_eq!(
        back.lock(b"file", &open, b"l", 20, 1),
        10025,
        "not its open"
    );
}

/// State of a client that does not return is available to other clients after the grace period. A
/// reclaim at the next server is then refused, too.
#[test]
fn late_client_cannot_reclaim_at_any_later_server() {
    let (home, _) = shared("", 5, EVERYTHING);
    let record = Arc::new(MemoryRecord::default());
    let first = record.serve(&home, 7);
    let mut late = Client::connect(&first, b"late", 0);
    late.open(b"file", 3, 2).expect("it is free");
    drop(first);
    let second = record.serve(&home, 8);
    let mut other = Client::connect(&second, b"other", 0);
    assert_eq!(other.open(b"file", 3, 0), Err(10013), "GRACE");
    let Holders::Known(both) = record.holders() else {
        panic!("there are two");
    };
    assert_eq!(both.len(), 2, "the next server awaits both");
    other.now_ms = 5001;
    other.open(b"file", 3, 0).expect("it is free again");
    let Holders::Known(left) = record.holders() else {
        panic!("there is one");
    };
    assert_eq!(left.len(), 1, "before that was answered");
    drop(second);
    let third = record.serve(&home, 9);
    let mut late = Client::reconnect(&third, b"late", 0, 8192);
    assert_eq!(late.reclaim(b"file", 3, 2), Err(10033), "NO_GRACE");
}

/// A client that died with its server blocks only requests that conflict with its reclaimable
/// state.
#[test]
fn grace_permits_opens_that_cannot_conflict() {
    let (home, _) = shared("", 5, EVERYTHING);
    let record = Arc::new(MemoryRecord::default());
    let first = record.serve(&home, 7);
    let mut plain = Client::connect(&first, b"plain", 0);
    plain.open(b"file", 3, 0).expect("it is free");
    let times = record.times();
    let second = record.serve(&home, 8);
    let mut other = Client::connect(&second, b"other", 0);
    let open = other.open(b"file", 3, 0).expect("nothing is in the way");
    assert_eq!(other.open(b"new", 3, 1), Err(10013), "GRACE");
    assert_eq!(
        other.lock(b"file", &open, b"l", 0, 10),
        0,
        "nobody had locks"
    );
    assert_eq!(record.times(), times + 2, "the client, and that it locks");
    let mut stranger = Client::reconnect(&second, b"plain", 0, 8192);
    let open = stranger.reclaim(b"file", 3, 0).expect("it was open");
    let lock = stranger.lock_or_reclaim(b"file", &open, b"l", (20, 10), true);
    assert_eq!(lock, 10033, "it had none");
    let third = record.serve(&home, 9);
    let mut last = Client::connect(&third, b"last", 0);
    let open = last.open(b"file", 3, 0).expect("nothing is in the way");
    assert_eq!(last.lock(b"file", &open, b"l", 0, 10), 10013, "GRACE");
    last.now_ms = 5001;
    assert_eq!(last.lock(b"file", &open, b"l", 0, 10), 0);
}

/// As when `readonly` of a file system changes.
#[test]
fn open_unlinked_file_survives_a_temporary_close() {
    let (home, files) = shared("", 5, EVERYTHING);
    let service = service_of(vec![home.clone()]);
    let mut client = Client::connect(&service, b"one", 0);
    let open = client.open(b"file", 3, 0).expect("it is free");
    let root = words(&[24]);
    let answer = client.ask(&[&root, &path(&[b"file"]), &words(&[10])]);
    let handle = answer[answer.len() - HANDLE_BYTES..].to_vec();
    let put = named(22, &[&handle]);
    let objects = files.objects();
    assert_eq!(client.status(&[&root, &named(28, &[b"file"])]), 0, "REMOVE");
    let read = [words(&[25]), open.clone(), words(&[0, 0, 1])].concat();
    assert_eq!(client.status(&[&put, &read]), 0);
    service.share(Exports::none().with_closed(vec![files.id()]));
    files.forget_holds();
    service.share(Exports::new(vec![home]).expect("a tree"));
    assert_eq!(client.status(&[&put, &read]), 0, "it is there still");
    let close = [words(&[4, 0]), open].concat();
    assert_eq!(client.status(&[&put, &close]), 0);
    assert_eq!(files.objects(), objects - 1, "it is freed");
}

/// Opens and locks in a temporarily closed file system remain valid, unless the file is gone.
#[test]
fn opens_and_locks_survive_a_temporary_close() {
    let (home, files) = shared("", 5, EVERYTHING);
    let (home_again, _) = shared("", 5, EVERYTHING);
    let service = service_of(vec![home.clone()]);
    let mut client = Client::connect(&service, b"one", 0);
    let mut other = Client::connect(&service, b"two", 0);
    let open = client.open(b"file", 3, 0).expect("it is free");
    assert_eq!(client.lock(b"file", &open, b"l", 0, 10), 0);
    client.open(b"later", 3, 3).expect("it is free");
    let closed = vec![files.id()];
    service.share(Exports::none().with_closed(closed));
    drop(home);
    assert_eq!(Arc::strong_count(&files), 1, "nobody keeps it");
    let root = file_system::Handle {
        file_system: files.id(),
        node: files.root(),
    };
    let mut put = Writer::new();
    put.u32(22);
    put.opaque(&key().sign(root));
    assert_eq!(client.status(&[put.bytes()]), 10008, "DELAY");
    // The other one has the same first file, but not the file that was created later.
    let elsewhere = service_of(vec![home_again.clone()]);
    let made = Client::connect(&elsewhere, b"one", 0).open(b"file", 3, 0);
    made.expect("made");
    service.share(Exports::new(vec![home_again]).expect("a tree"));
    let opened = other.open(b"file", 3, 0).expect("it is there");
    assert_eq!(other.lock(b"file", &opened, b"l", 5, 1), 10010, "DENIED");
    assert_eq!(
        client.lock(b"file", &open, b"l", 20, 1),
        0,
        "its open is good"
    );
    other
        .open(b"later", 3, 0)
        .expect("the denial was for another file");
}

/// A client that was granted an open is known to the next server, whenever this one stops.
#[test]
fn unrecorded_client_gets_delay_and_recording_is_once() {
    let (home, _) = shared("", 5, EVERYTHING);
    let record = Arc::new(MemoryRecord::default());
    let service = record.serve(&home, 7);
    let mut client = Client::reconnect(&service, b"one", 0, 8192);
    record.fail(true);
    assert_eq!(client.status(&[&words(&[58, 0])]), 10008, "DELAY");
    assert_eq!(client.open(b"file", 3, 2), Err(10008));
    record.fail(false);
    client.open(b"file", 3, 2).expect("it is free");
    let times = record.times();
    client.open(b"other", 3, 2).expect("it is free");
    assert_eq!(record.times(), times);
}

#[test]
fn file_system_not_yet_open_returns_delay() {
    let (home, _) = shared("tank/home", 5, EVERYTHING);
    let handle = {
        let files = &home.files;
        let (file_system, node) = (files.id(), files.root());
        key().sign(file_system::Handle { file_system, node })
    };
    let service = service_of(Vec::new());
    let mut client = Client::connect(&service, b"one", 0);
    let mut put = Writer::new();
    put.u32(22);
    put.opaque(&handle);
    assert_eq!(client.status(&[put.bytes()]), 70, "it is not shared");
    service.share(Exports::none().with_more_to_come(true));
    assert_eq!(client.status(&[put.bytes()]), 10008, "it may come");
    service.share(Exports::new(vec![home]).expect("a tree"));
    assert_eq!(client.status(&[put.bytes()]), 0);
}

/// `OPEN` (18) of a file that must not be there (`GUARDED4`).
fn open_guarded(client: u64, name: &[u8]) -> Vec<u8> {
    let mut open = Writer::new();
    for word in [18, 0, 3, 0] {
        open.u32(word);
    }
    open.u64(client);
    open.opaque(b"owner");
    for word in [1, 1, 0, 0, 0] {
        open.u32(word);
    }
    open.opaque(name);
    open.into_bytes()
}

/// The reply was lost with the server. The file itself does not identify its creator.
#[test]
fn file_created_before_restart_is_reclaimable() {
    let (home, files) = shared("", 5, EVERYTHING);
    let record = Arc::new(MemoryRecord::default());
    let mut before = Client::connect(&record.serve(&home, 7), b"one", 0);
    let open = open_guarded(before.client, b"made");
    let call: [&[u8]; 3] = [&words(&[24]), &open, &words(&[10])];
    let first = before.ask(&call);
    assert_eq!(first[..4], words(&[0]));
    let objects = files.objects();
    let after = record.serve(&home, 8);
    let mut repeated = Client {
        service: Arc::clone(&after),
        sequence: before.sequence - 1,
        ..before
    };
    let second = repeated.ask(&call);
    assert_eq!(second[..4], words(&[0]));
    assert_eq!(second.len(), first.len());
    let handle = first.len() - 8..;
    assert_eq!(second[handle.clone()], first[handle]);
    assert_eq!(files.objects(), objects, "it is not made again");
    let id = &second[12 + 44 + 8 + 8..][..16];
    let mut back = Client::reconnect(&after, b"one", 0, 8192);
    let mut read = words(&[25]);
    read.extend(id);
    read.extend(words(&[0, 0, 1]));
    let asked: [&[u8]; 3] = [&words(&[24]), &path(&[b"made"]), &read];
    assert_eq!(back.status(&asked), 10025, "a state of the server before");
    back.reclaim(b"made", 3, 0).expect("it was open");
    assert_eq!(back.status(&[&words(&[58, 0])]), 0, "RECLAIM_COMPLETE");
    let open = open_guarded(back.client, b"made");
    assert_eq!(back.status(&[&words(&[24]), &open]), 17, "a new call");
    let mut unchecked = Client {
        service: record.serve(&home, 9),
        ..back
    };
    assert_eq!(
        unchecked.open(b"made", 3, 0),
        Err(10052),
        "without a receipt"
    );
}

/// The receipt of the second change stands for the first one, too. The reply may be lost with the server between the
/// commits of the two file systems.
#[test]
fn change_in_another_file_system_follows_the_commit_of_the_first() {
    const BADSESSION: u32 = 10_052;
    let (one, first) = shared("one", 5, EVERYTHING);
    let (two, second) = shared("two", 6, EVERYTHING);
    let service_after = |start: u64| {
        let both = vec![one.clone(), two.clone()];
        let clients: Clients = (Holders::default(), Arc::new(NoRecord));
        service_after_another(both, start, 0, clients)
    };
    let service = service_after(7);
    let mut client = Client::connect(&service, b"one", 0);
    let put = |files: &MemoryFileSystem| {
        let (file_system, node) = (files.id(), files.root());
        named(
            22,
            &[&key().sign(file_system::Handle { file_system, node })],
        )
    };
    let (put_first, put_second) = (put(&first), put(&second));
    let nothing = SetAttributes::default();
    let made = first.make(&ROOT, first.root(), b"a", Make::Directory, &nothing, None);
    made.expect("made");
    let remove = named(28, &[b"a"]);
    let (make, objects) = (make_directory(b"b"), second.objects());
    let call: [&[u8]; 4] = [&put_first, &remove, &put_second, &make];

    first.fail_commits(true);
    let (reply, uncommitted) = commits::begin(&mut client, &call);
    assert_eq!(reply.bytes()[..4], words(&[5]), "IO");
    assert_eq!(second.objects(), objects, "it is not made");
    let uncommitted = uncommitted.expect("a change");
    assert_eq!(uncommitted.files().id(), first.id());
    first.fail_commits(false);
    let mut repeated = Client {
        service: service_after(8),
        sequence: client.sequence - 1,
        ..client
    };
    assert_eq!(repeated.status(&[&put_second, &make]), BADSESSION);

    let service = service_after(9);
    let mut client = Client::connect(&service, b"one", 0);
    let before = (first.commits(), second.commits());
    let made = first.make(&ROOT, first.root(), b"a", Make::Directory, &nothing, None);
    made.expect("made");
    let (reply, uncommitted) = commits::begin(&mut client, &call);
    assert_eq!(reply.bytes()[..4], words(&[0]));
    let after = (first.commits(), second.commits());
    assert_eq!(after, (before.0 + 1, before.1));
    let uncommitted = uncommitted.expect("a change");
    assert_eq!(uncommitted.files().id(), second.id());
    assert_eq!(second.objects(), objects + 1);
}

/// The grace period ends during a call. The change is executed, so an error would let the client repeat it.
#[test]
fn change_succeeds_if_the_holders_cannot_be_stored() {
    let (home, _files) = shared("", 5, EVERYTHING);
    let record = Arc::new(MemoryRecord::default());
    let before = record.serve(&home, 7);
    let mut late = Client::connect(&before, b"late", 0);
    late.open(b"file", 3, 2).expect("it is free");
    drop(before);
    let mut client = Client::connect(&record.serve(&home, 8), b"one", 0);
    client.now_ms = 5001;
    record.fail(true);
    let root = words(&[24]);
    assert_eq!(client.status(&[&root, &make_directory(b"made")]), 0);
    assert_eq!(client.open(b"file", 1, 0), Err(10008), "DELAY");
    record.fail(false);
    let times = record.times();
    client.open(b"file", 3, 0).expect("it is free again");
    assert_eq!(record.times(), times + 1, "without the late client");
}

/// A denial of a client with an expired lease ends before the write: the next server must not return it.
#[test]
fn write_is_not_executed_if_the_holders_cannot_be_stored() {
    let (home, files) = shared("", 5, EVERYTHING);
    let record = Arc::new(MemoryRecord::default());
    let service = record.serve(&home, 7);
    let mut late = Client::connect(&service, b"late", 0);
    late.open(b"file", 3, 2).expect("it is free");
    let mut client = Client::connect(&service, b"one", 100_000);
    // LOOKUP; WRITE (38) with the anonymous state.
    let write = words(&[38, 0, 0, 0, 0, 0, 0, 0, 4, 7]);
    let call: [&[u8]; 3] = [&words(&[24]), &named(15, &[b"file"]), &write];
    let node = files.look_up(&ROOT, files.root(), b"file").expect("made");
    let size = || files.attributes(node.node).expect("it is there").size;
    record.fail(true);
    assert_eq!(client.status(&call), 10008, "DELAY");
    assert_eq!(size(), 0);
    record.fail(false);
    assert_eq!(client.status(&call), 0);
    assert_eq!(size(), 4);
}

/// Stores the receipt of a client's last change on slot 0, as earlier releases did.
pub fn keep_receipt(files: &MemoryFileSystem, client: &Client, step: u32) {
    let mut place = [0; 20];
    place[..16].copy_from_slice(&client.session);
    let receipt = Receipt {
        place,
        number: client.sequence,
        step,
        call: 0,
    };
    let (nothing, guard) = (SetAttributes::default(), Guard::default());
    let set = files.set_attributes(&ROOT, files.root(), &nothing, &guard, Some(&receipt));
    set.expect("root may");
}

/// A client cancelled its call and used the slot for another call when the server restarted.
#[test]
fn reused_slot_does_not_return_an_old_reply() {
    const BADSESSION: u32 = 10_052;
    let (home, files) = shared("", 5, EVERYTHING);
    let record = Arc::new(MemoryRecord::default());
    let mut before = Client::connect(&record.serve(&home, 7), b"one", 0);
    let (root, one, two) = (words(&[24]), make_directory(b"one"), make_directory(b"two"));
    assert_eq!(before.status(&[&root, &one]), 0);
    let mut after = Client {
        service: record.serve(&home, 8),
        sequence: before.sequence - 1,
        ..before
    };
    let objects = files.objects();
    assert_eq!(after.status(&[&root, &two]), BADSESSION);
    after.sequence -= 1;
    after.uid = 7;
    assert_eq!(after.status(&[&root, &one]), BADSESSION, "somebody else");
    (after.sequence, after.uid) = (after.sequence - 1, 0);
    assert_eq!(after.status(&[&root, &one]), 0);
    assert_eq!(files.objects(), objects);
}

/// A later object of that name is not affected.
#[test]
fn acl_of_an_earlier_create_is_not_set_on_another_object() {
    let (home, files) = shared("", 5, EVERYTHING);
    let record = Arc::new(MemoryRecord::default());
    let mut before = Client::connect(&record.serve(&home, 7), b"one", 0);
    let everyone: ListEntry<'_> = (0, 0, 0x1f_01ff, b"EVERYONE@");
    let call: [&[u8]; 2] = [&words(&[24]), &make_listed(b"made", &[everyone])];
    assert_eq!(before.ask(&call)[..4], words(&[0]));
    let look_up = |name: &[u8]| files.look_up(&ROOT, files.root(), name);
    let mode = |name: &[u8]| look_up(name).map(|found| found.attributes.mode);
    assert_eq!(mode(b"made"), Ok(0o777));
    let names = ((files.root(), &b"made"[..]), (files.root(), &b"moved"[..]));
    files.rename(&ROOT, names.0, names.1, None).expect("moved");
    let private = SetAttributes {
        mode: Some(0o700),
        ..SetAttributes::default()
    };
    let other = files.make(
        &ROOT,
        files.root(),
        b"made",
        Make::Directory,
        &private,
        None,
    );
    other.expect("the name is free");
    let mut repeated = Client {
        service: record.serve(&home, 8),
        sequence: before.sequence - 1,
        ..before
    };
    assert_eq!(repeated.ask(&call)[..4], words(&[0]));
    assert_eq!((mode(b"moved"), mode(b"made")), (Ok(0o777), Ok(0o700)));
}

/// An attribute that another client set after a change with a lost reply is preserved.
#[test]
fn setattr_of_an_earlier_server_is_not_repeated() {
    let (home, files) = shared("", 5, EVERYTHING);
    let record = Arc::new(MemoryRecord::default());
    let mut before = Client::connect(&record.serve(&home, 7), b"one", 0);
    before.open(b"file", 3, 0).expect("a new file");
    let node = files.look_up(&ROOT, files.root(), b"file").expect("made");
    // SETATTR (34) of size and mode, with the anonymous state.
    let mut set = words(&[34, 0, 0, 0, 0, 2, 0x10, 2, 12, 0, 7]);
    set.extend(words(&[0o600]));
    let mut add = words(&[73, 1]);
    let mut remove = words(&[75]);
    for xattr in [&mut add, &mut remove] {
        xattr.extend(words(&[4]).into_iter().chain(*b"name"));
    }
    add.extend(words(&[4]).into_iter().chain(*b"text"));
    let since = SetAttributes {
        mode: Some(0o640),
        size: Some(9),
        ..SetAttributes::default()
    };
    for (start, change) in (8..).zip([set, add, remove]) {
        let call: [&[u8]; 3] = [&words(&[24]), &path(&[b"file"]), &change];
        let first = before.ask_by(2, &call);
        assert_eq!(first[..4], words(&[0]));
        let guard = Guard::default();
        let changed = files.set_attributes(&ROOT, node.node, &since, &guard, None);
        changed.expect("root may");
        let after = record.serve(&home, start);
        let mut repeated = Client {
            service: Arc::clone(&after),
            sequence: before.sequence - 1,
            ..before
        };
        let second = repeated.ask_by(2, &call);
        assert_eq!(second[..4], words(&[0]), "{call:?}");
        assert_eq!(second.len(), first.len());
        let now = files.attributes(node.node).expect("it is there");
        assert_eq!((now.mode, now.size), (0o640, 9));
        before = Client::connect(&after, b"one", 0);
    }
}
