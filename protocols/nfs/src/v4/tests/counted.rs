//! Counters of calls per file system.

use super::*;

/// Counts and bytes of reads, of writes, and of all other calls.
type Counts = [(u64, u64); 3];

fn counts(service: &Service) -> Counts {
    let [(_, all)] = &service.activity()[..] else {
        panic!("one file system");
    };
    [&all.reads, &all.writes, &all.others]
        .map(|way| way.snapshot())
        .map(|way| (way.count(), way.bytes))
}

/// Returns the difference to `before`.
fn since(before: Counts, service: &Service) -> Counts {
    let now = counts(service);
    let less = |way: usize| (now[way].0 - before[way].0, now[way].1 - before[way].1);
    [less(0), less(1), less(2)]
}

/// Executes and counts a compound as the server does.
fn count(service: &Service, compound: &[u8]) {
    let credential = Credential::System {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    let caller = Caller {
        credential: &credential,
        transaction: 1,
        connection: 1,
        from: Source::LOCAL,
        here: Source::LOCAL.address,
        now_ms: 0,
    };
    let mut out = Writer::new();
    let used = service.compound(compound, &caller, &mut out);
    let used = used.expect("an answer");
    if let Some(activity) = used.activity {
        activity.add(used.moved, std::time::Duration::from_micros(10));
    }
}

/// `WRITE` (38) of bytes at the beginning, durable.
fn write(id: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut write = Writer::new();
    write.u32(38);
    write.fixed(id);
    write.u64(0);
    write.u32(2);
    write.opaque(bytes);
    write.into_bytes()
}

/// `READ` (25) or `READ_PLUS` (68) of 4 KiB from the beginning.
fn read(operation: u32, id: &[u8]) -> Vec<u8> {
    let mut read = Writer::new();
    read.u32(operation);
    read.fixed(id);
    read.append(&words(&[0, 0, 4096]));
    read.into_bytes()
}

#[test]
fn compound_is_counted_by_bytes_transferred() {
    let service = service();
    let mut client = Client::connect(&service, b"one", 0);
    let id = client.open(b"file", 3, 0).expect("it is free");
    let (root, file, attributes) = (words(&[24]), path(&[b"file"]), words(&[9, 1, 2]));
    let mut ask = |minor: u8, last: &[&[u8]]| {
        client.sequence += 1;
        let sequence = client.sequence(client.sequence, false);
        let mut all = vec![&sequence[..], &root, &file];
        all.extend(last);
        let mut call = compound(&all);
        call[7] = minor;
        let before = counts(&client.service);
        count(&client.service, &call);
        since(before, &client.service)
    };
    for minor in [1, 2] {
        let written = ask(minor, &[&write(&id, &[7; 100]), &attributes]);
        assert_eq!(written, [(0, 0), (1, 100), (0, 0)]);
        let found = ask(minor, &[&read(25, &id), &read(25, &id)]);
        assert_eq!(found, [(1, 200), (0, 0), (0, 0)], "a compound is one call");
        assert_eq!(ask(minor, &[&attributes]), [(0, 0), (0, 0), (1, 0)]);
    }
    assert_eq!(ask(2, &[&read(68, &id)]), [(1, 100), (0, 0), (0, 0)]);
    // Without a session: anonymous.
    let call = [&words(&[24])[..], &file, &read(25, &[0; 16])];
    let mut call = compound(&call);
    call[7] = 0;
    let before = counts(&service);
    count(&service, &call);
    assert_eq!(since(before, &service), [(1, 100), (0, 0), (0, 0)]);
}

#[test]
fn counters_continue_after_unshare_and_share() {
    let (home, _) = shared("tank/home", 5, EVERYTHING);
    let service = service_of(vec![home.clone()]);
    let (root, tank, into) = (words(&[24]), path(&[b"tank"]), path(&[b"home"]));
    let mut call = compound(&[&root, &tank, &into]);
    call[7] = 0;
    count(&service, &call);
    let names = |service: &Service| -> Vec<(String, u64)> {
        let all = service.activity().into_iter();
        all.map(|(name, one)| (name.to_string(), one.others.snapshot().count()))
            .collect()
    };
    assert_eq!(names(&service), [("tank/home".to_owned(), 1)]);
    let moved = Shared {
        name: "tank/moved".to_owned(),
        ..home.clone()
    };
    service.share(Exports::new(vec![moved]).expect("a tree"));
    assert_eq!(names(&service), [("tank/moved".to_owned(), 1)]);
    let closed = Exports::none().with_closed(vec![home.files.id()]);
    service.share(closed);
    assert_eq!(names(&service), []);
    service.share(Exports::new(vec![home]).expect("a tree"));
    assert_eq!(
        names(&service),
        [("tank/home".to_owned(), 1)],
        "it was closed"
    );
}
