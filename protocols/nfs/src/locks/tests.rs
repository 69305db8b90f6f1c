//! NLM and NSM calls as bytes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use file_system::memory::MemoryFileSystem;
use file_system::{FileError, FileSystem, FileSystemId, Handle, Identity, Make, SetAttributes};

use super::portmap::{self, Ports, Transport};
use super::{execute, monitor};
use crate::exports::{Exports, Shared, Source};
use crate::handles::HandleKey;
use crate::hosts::{AddressPair, Message, Outcome, Purpose, Readiness};
use crate::rpc::Credential;
use crate::sharenfs::Share;
use crate::v4::{
    Caller, ClientRecord, LockUse, NoReply, PersistentState, Presentation, Service, Usage,
};
use crate::xdr::{Reader, Writer};

mod shares;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const ONE: [u8; 4] = [10, 0, 0, 7];
const TWO: [u8; 4] = [10, 0, 0, 8];
const THREE: [u8; 4] = [10, 0, 0, 9];
const GRANTED: u32 = 0;
const DENIED: u32 = 1;
const BLOCKED: u32 = 3;
const GRACE: u32 = 4;
const OPEN_SHARE: &str = "rw=10.0.0.0/24,no_root_squash";

#[derive(Default)]
struct Record(Mutex<PersistentState>);

impl ClientRecord for Record {
    fn keep(&self, persistent_state: &PersistentState) -> bool {
        *self.0.lock().expect("no panic") = persistent_state.clone();
        true
    }
}

struct World {
    service: Service,
    record: Arc<Record>,
    files: Arc<MemoryFileSystem>,
    share: &'static str,
}

fn key() -> HandleKey {
    HandleKey::new(&[7; HandleKey::BYTES])
}

impl World {
    fn new(share: &'static str) -> Self {
        let files = Arc::new(MemoryFileSystem::with_guid(5, 1 << 20));
        let who = Identity {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
        };
        let mode = SetAttributes {
            mode: Some(0o600),
            ..SetAttributes::default()
        };
        files
            .make(&who, files.root(), b"file", Make::File, &mode, None)
            .expect("made");
        Self::of(files, Arc::default(), share)
    }

    fn of(files: Arc<MemoryFileSystem>, record: Arc<Record>, share: &'static str) -> Self {
        let presentation = Presentation {
            owner: b"tank".to_vec(),
            start: 7,
            handle_key: key(),
            lease_seconds: 20,
            grace_seconds: 20,
        };
        let earlier = record.0.lock().expect("no panic").clone();
        let kept = Arc::<Record>::clone(&record);
        let service = Service::new(presentation, earlier, kept);
        let world = Self {
            service,
            record,
            files,
            share,
        };
        world.service.share(world.shared());
        world
    }

    /// The next server of the same files.
    fn after(&self) -> Self {
        Self::of(
            Arc::clone(&self.files),
            Arc::clone(&self.record),
            self.share,
        )
    }

    fn file(&self) -> Vec<u8> {
        let who = Identity {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
        };
        let object = self
            .files
            .look_up(&who, self.files.root(), b"file")
            .expect("it is there");
        let file = Handle {
            file_system: self.files.id(),
            node: object.node,
        };
        key().sign(file).to_vec()
    }

    fn call(
        &self,
        from: [u8; 4],
        uid: u32,
        now_ms: u64,
        number: u32,
        arguments: &Writer,
    ) -> Vec<u8> {
        let answer = self.try_call(from, uid, now_ms, number, arguments);
        answer.expect("an answer")
    }

    fn try_call(
        &self,
        from: [u8; 4],
        uid: u32,
        now_ms: u64,
        number: u32,
        arguments: &Writer,
    ) -> Result<Vec<u8>, NoReply> {
        let credential = Credential::System {
            uid,
            gid: uid,
            groups: Vec::new(),
        };
        let caller = Caller {
            credential: &credential,
            transaction: 1,
            connection: 1,
            from: Source {
                address: from.into(),
                port: 700,
                ..Source::LOCAL
            },
            here: HERE,
            now_ms,
        };
        let mut out = Writer::new();
        let executed = match number {
            NOTIFY => monitor(&self.service, 6, arguments.bytes(), &caller),
            number => execute(&self.service, number, arguments.bytes(), &caller, &mut out),
        };
        executed?;
        Ok(out.into_bytes())
    }

    fn status(&self, from: [u8; 4], now_ms: u64, (number, arguments): (u32, Writer)) -> u32 {
        status_of(&self.call(from, 0, now_ms, number, &arguments))
    }

    fn lock(&self, from: [u8; 4], range: Range) -> (u32, Writer) {
        let mut arguments = Writer::new();
        arguments.opaque(b"cookie");
        arguments.boolean(range.waits);
        arguments.boolean(range.is_exclusive);
        self.write_lock(from, range, &mut arguments);
        arguments.boolean(range.is_reclaim);
        arguments.u32(3);
        (2, arguments)
    }

    fn test(&self, from: [u8; 4], range: Range) -> (u32, Writer) {
        let mut arguments = Writer::new();
        arguments.opaque(b"cookie");
        arguments.boolean(range.is_exclusive);
        self.write_lock(from, range, &mut arguments);
        (1, arguments)
    }

    fn cancel(&self, from: [u8; 4], range: Range) -> (u32, Writer) {
        let (_, lock) = self.lock(from, range);
        (3, lock)
    }

    fn unlock(&self, from: [u8; 4], range: Range) -> (u32, Writer) {
        let mut arguments = Writer::new();
        arguments.opaque(b"cookie");
        self.write_lock(from, range, &mut arguments);
        (4, arguments)
    }

    fn write_lock(&self, from: [u8; 4], range: Range, arguments: &mut Writer) {
        arguments.opaque(name_of(from).as_bytes());
        arguments.opaque(&self.file());
        arguments.opaque(b"owner");
        arguments.u32(range.process);
        arguments.u64(range.offset);
        arguments.u64(range.length);
    }

    fn calls(&self) -> Vec<Message> {
        self.service.outbox.take().into()
    }

    fn restarts(&self, from: [u8; 4], name: &str) {
        self.notifies_start(from, name, NOTIFY, 5);
    }

    fn notifies_start(&self, from: [u8; 4], name: &str, procedure: u32, start: u32) {
        let mut arguments = Writer::new();
        arguments.opaque(name.as_bytes());
        arguments.u32(start);
        self.call(from, 0, 0, procedure, &arguments);
    }

    fn shared(&self) -> Exports {
        let shared = Shared {
            name: String::new(),
            share: Share::parse(self.share).expect("a share").expect("not off"),
            files: Arc::<MemoryFileSystem>::clone(&self.files),
        };
        Exports::new(vec![shared]).expect("a tree")
    }

    fn answered(&self, message: &Message, status: u32, was_repeated: bool) {
        let mut results = Writer::new();
        results.opaque(b"cookie");
        results.u32(status);
        let outcome = Outcome::Replied {
            results: results.into_bytes(),
            was_repeated,
        };
        self.service.callback_completed(message, &outcome, 0);
    }
}

/// NSM notification, with a number outside those of NLM.
const NOTIFY: u32 = 1000;
const FREE_ALL: u32 = 23;

fn name_of(from: [u8; 4]) -> String {
    format!("host{}", from[3])
}

fn status_of(answer: &[u8]) -> u32 {
    let mut reader = Reader::new(answer);
    assert_eq!(reader.opaque(1024), Ok(&b"cookie"[..]));
    reader.u32().expect("a status")
}

#[derive(Clone, Copy)]
struct Range {
    process: u32,
    offset: u64,
    length: u64,
    is_exclusive: bool,
    waits: bool,
    is_reclaim: bool,
}

/// The whole file.
const ALL: Range = Range {
    process: 9,
    offset: 0,
    length: 0,
    is_exclusive: true,
    waits: false,
    is_reclaim: false,
};
const SHARED: Range = Range {
    is_exclusive: false,
    ..ALL
};
const WAITS: Range = Range { waits: true, ..ALL };
const AGAIN: Range = Range {
    is_reclaim: true,
    ..ALL
};

#[test]
fn locks_of_hosts_and_of_processes_exclude_each_other() {
    let world = World::new(OPEN_SHARE);
    let other = Range { process: 10, ..ALL };
    assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), GRANTED);
    assert_eq!(
        world.status(ONE, 0, world.lock(ONE, ALL)),
        GRANTED,
        "asked again"
    );
    assert_eq!(world.status(ONE, 0, world.lock(ONE, other)), DENIED);
    assert_eq!(world.status(TWO, 0, world.lock(TWO, SHARED)), DENIED);
    assert_eq!(
        world.status(TWO, 0, world.unlock(TWO, ALL)),
        GRANTED,
        "it had nothing"
    );
    assert_eq!(world.status(TWO, 0, world.lock(TWO, ALL)), DENIED);
    assert_eq!(world.status(ONE, 0, world.lock(ONE, SHARED)), GRANTED);
    assert_eq!(world.status(TWO, 0, world.lock(TWO, SHARED)), GRANTED);
    assert_eq!(world.status(ONE, 0, world.unlock(ONE, ALL)), GRANTED);
    assert_eq!(world.status(TWO, 0, world.lock(TWO, ALL)), GRANTED);
}

#[test]
fn file_without_locks_is_released() {
    let world = World::new(OPEN_SHARE);
    assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), GRANTED);
    assert_eq!(world.service.state().sizes(), (1, 2));
    let middle = Range {
        offset: 10,
        length: 5,
        ..ALL
    };
    assert_eq!(world.status(ONE, 0, world.unlock(ONE, middle)), GRANTED);
    assert_eq!(world.status(TWO, 0, world.lock(TWO, middle)), GRANTED);
    assert_eq!(
        world.status(
            TWO,
            0,
            world.lock(
                TWO,
                Range {
                    length: 6,
                    ..middle
                }
            )
        ),
        DENIED
    );
    world.status(TWO, 0, world.unlock(TWO, ALL));
    world.status(ONE, 0, world.unlock(ONE, ALL));
    assert_eq!(world.service.state().sizes(), (0, 0));
}

/// `nlm4_holder` of a denied test.
#[test]
fn test_returns_the_conflicting_lock_owner() {
    let world = World::new(OPEN_SHARE);
    let range = Range {
        offset: 1 << 40,
        length: 16,
        ..ALL
    };
    assert_eq!(world.status(TWO, 0, world.test(TWO, ALL)), GRANTED);
    assert_eq!(world.status(ONE, 0, world.lock(ONE, range)), GRANTED);
    let (number, arguments) = world.test(TWO, ALL);
    let answer = world.call(TWO, 0, 0, number, &arguments);
    let mut reader = Reader::new(&answer);
    reader.opaque(1024).expect("a cookie");
    assert_eq!((reader.u32(), reader.boolean()), (Ok(DENIED), Ok(true)));
    assert_eq!(
        (reader.u32(), reader.opaque(1024)),
        (Ok(9), Ok(&b"owner"[..]))
    );
    assert_eq!((reader.u64(), reader.u64()), (Ok(1 << 40), Ok(16)));
    assert!(reader.rest().is_empty());
    assert_eq!(
        world.status(ONE, 0, world.test(ONE, ALL)),
        GRANTED,
        "it is its own"
    );
}

#[test]
fn lock_requires_access_to_the_file() {
    const READ_ONLY: u32 = 6;
    const STALE: u32 = 7;
    const TOO_BIG: u32 = 8;
    const FAILED: u32 = 9;
    let world = World::new(OPEN_SHARE);
    let (number, arguments) = world.lock(ONE, SHARED);
    let stranger = [10, 0, 1, 7];
    assert_eq!(
        status_of(&world.call(stranger, 0, 0, number, &arguments)),
        FAILED
    );
    assert_eq!(
        status_of(&world.call(ONE, 1000, 0, number, &arguments)),
        FAILED,
        "its mode is 600"
    );
    let beyond = Range {
        offset: u64::MAX,
        length: 2,
        ..ALL
    };
    assert_eq!(world.status(ONE, 0, world.lock(ONE, beyond)), TOO_BIG);
    world.service.share(Exports::none());
    assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), STALE);
    let world = World::new("ro=10.0.0.0/24,no_root_squash");
    assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), READ_ONLY);
    assert_eq!(world.status(ONE, 0, world.lock(ONE, SHARED)), GRANTED);
}

#[test]
fn blocked_lock_is_granted_by_callback() {
    let world = World::new(OPEN_SHARE);
    assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), GRANTED);
    for _ in 0..2 {
        assert_eq!(world.status(TWO, 0, world.lock(TWO, WAITS)), BLOCKED);
    }
    assert_eq!(world.calls(), []);
    assert_eq!(world.status(ONE, 0, world.unlock(ONE, ALL)), GRANTED);
    let calls = world.calls();
    let [call] = &calls[..] else {
        panic!("{calls:?}");
    };
    let way = AddressPair {
        here: HERE,
        there: TWO.into(),
    };
    assert_eq!(
        (call.way, call.program, call.version, call.procedure),
        (way, 100_021, 4, 5)
    );
    let mut expected = Writer::new();
    expected.opaque(b"cookie");
    expected.boolean(true);
    world.write_lock(TWO, ALL, &mut expected);
    assert_eq!(call.arguments, expected.into_bytes());
    assert_eq!(
        world.status(ONE, 0, world.lock(ONE, ALL)),
        DENIED,
        "it is given already"
    );
    assert_eq!(world.service.readiness(call.purpose, 0), Readiness::Now);
    let kept = world.record.0.lock().expect("no panic").clone();
    assert!(
        kept.hosts.ways.contains(&way),
        "it is stored before the host is notified"
    );
    world.answered(call, GRANTED, false);
    assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), DENIED);
}

#[test]
fn refused_grant_goes_to_the_next_waiter() {
    let world = World::new(OPEN_SHARE);
    let next = Range {
        process: 10,
        ..WAITS
    };
    let cancelled = Range {
        process: 11,
        ..WAITS
    };
    world.status(ONE, 0, world.lock(ONE, ALL));
    for range in [WAITS, cancelled, next] {
        assert_eq!(world.status(TWO, 0, world.lock(TWO, range)), BLOCKED);
    }
    assert_eq!(world.status(TWO, 0, world.cancel(TWO, cancelled)), GRANTED);
    assert_eq!(world.status(TWO, 0, world.cancel(TWO, cancelled)), DENIED);
    world.restarts(ONE, "host7");
    let first = world.calls();
    world.answered(&first[0], DENIED, false);
    let second = world.calls();
    assert_eq!((first.len(), second.len()), (1, 1));
    // The reply to the first of two calls may have been lost. The host may have accepted the lock
    // then.
    world.answered(&second[0], DENIED, true);
    assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), DENIED);
    assert_eq!(world.status(TWO, 0, world.unlock(TWO, next)), GRANTED);
    assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), GRANTED);
}

/// The callback fails, but the host retries.
#[test]
fn repeated_lock_request_keeps_an_unacknowledged_grant() {
    let world = World::new(OPEN_SHARE);
    world.status(ONE, 0, world.lock(ONE, ALL));
    world.status(TWO, 0, world.lock(TWO, WAITS));
    world.status(ONE, 0, world.unlock(ONE, ALL));
    let calls = world.calls();
    assert_eq!(world.status(TWO, 0, world.lock(TWO, WAITS)), GRANTED);
    world
        .service
        .callback_completed(&calls[0], &Outcome::NoReply { was_sent: false }, 0);
    assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), DENIED);
}

#[test]
fn only_the_host_itself_reports_its_restart() {
    let world = World::new(OPEN_SHARE);
    let (one, two) = (
        Range { length: 1, ..ALL },
        Range {
            offset: 1,
            length: 1,
            ..ALL
        },
    );
    let behind_same_address = |range| {
        let mut arguments = Writer::new();
        arguments.opaque(b"cookie");
        arguments.boolean(false);
        arguments.boolean(true);
        world.write_lock([10, 0, 0, 99], range, &mut arguments);
        arguments.boolean(false);
        arguments.u32(3);
        (2, arguments)
    };
    assert_eq!(world.status(ONE, 0, world.lock(ONE, one)), GRANTED);
    assert_eq!(world.status(ONE, 0, behind_same_address(two)), GRANTED);
    world.restarts(TWO, "host7");
    assert_eq!(world.status(TWO, 0, world.lock(TWO, one)), DENIED);
    world.restarts(ONE, "host7.example.com");
    assert_eq!(world.status(TWO, 0, world.lock(TWO, one)), GRANTED);
    assert_eq!(
        world.status(TWO, 0, world.lock(TWO, two)),
        DENIED,
        "it has another name"
    );
    world.restarts(ONE, "unknown");
    assert_eq!(world.status(TWO, 0, world.lock(TWO, two)), GRANTED);
}

#[test]
fn async_message_gets_its_result_by_callback() {
    let world = World::new(OPEN_SHARE);
    let (_, arguments) = world.lock(ONE, ALL);
    assert!(world.call(ONE, 0, 0, 7, &arguments).is_empty());
    let calls = world.calls();
    assert_eq!((calls[0].procedure, calls[0].purpose), (12, Purpose::Reply));
    assert_eq!(status_of(&calls[0].arguments), GRANTED);
}

#[test]
fn lock_is_reclaimed_after_restart_before_other_hosts() {
    let world = World::new(OPEN_SHARE);
    assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), GRANTED);
    let next = world.after();
    next.service.announce(0);
    let calls = next.calls();
    let way = AddressPair {
        here: HERE,
        there: ONE.into(),
    };
    assert_eq!(
        (calls[0].way, calls[0].program, calls[0].procedure),
        (way, 100_024, 6)
    );
    let mut expected = Writer::new();
    expected.opaque(b"10.0.0.1");
    expected.u32(3);
    assert_eq!(calls[0].arguments, expected.into_bytes());
    assert_eq!(next.service.readiness(Purpose::Started, 0), Readiness::Now);
    assert_eq!(
        next.record.0.lock().expect("no panic").hosts.start,
        3,
        "the number is stored before it is reported"
    );
    assert_eq!(next.status(TWO, 0, next.lock(TWO, ALL)), GRACE);
    assert_eq!(next.status(TWO, 0, next.test(TWO, ALL)), GRACE);
    assert_eq!(
        next.status(TWO, 0, next.lock(TWO, AGAIN)),
        DENIED,
        "it had nothing"
    );
    assert_eq!(next.status(ONE, 0, next.lock(ONE, AGAIN)), GRANTED);
    assert_eq!(
        next.status(TWO, 9999, next.lock(TWO, ALL)),
        GRACE,
        "it may have more"
    );
    assert_eq!(next.status(TWO, 10_000, next.lock(TWO, ALL)), DENIED);
    let third = next.after();
    assert_eq!(
        third.status(ONE, 0, third.lock(ONE, AGAIN)),
        GRANTED,
        "it is kept still"
    );
}

#[test]
fn notified_host_without_reclaims_ends_the_wait() {
    let world = World::new(OPEN_SHARE);
    world.status(ONE, 0, world.lock(ONE, ALL));
    let next = world.after();
    next.service.announce(0);
    let calls = next.calls();
    let answered = Outcome::Replied {
        results: Vec::new(),
        was_repeated: false,
    };
    next.service.callback_completed(&calls[0], &answered, 1000);
    assert_eq!(next.status(TWO, 10_999, next.lock(TWO, ALL)), GRACE);
    assert_eq!(next.status(TWO, 11_000, next.lock(TWO, ALL)), GRANTED);
    assert_eq!(
        next.status(ONE, 11_000, next.lock(ONE, AGAIN)),
        DENIED,
        "the other host holds it"
    );
}

#[test]
fn next_server_waits_only_for_hosts_with_locks() {
    let world = World::new(OPEN_SHARE);
    world.status(ONE, 0, world.lock(ONE, ALL));
    world.status(ONE, 0, world.unlock(ONE, ALL));
    let other = Range {
        offset: 7,
        length: 1,
        ..ALL
    };
    assert_eq!(world.status(TWO, 20_001, world.lock(TWO, other)), GRANTED);
    let next = world.after();
    next.service.announce(0);
    let told: Vec<_> = next.calls().iter().map(|call| call.way.there).collect();
    assert_eq!(told, [IpAddr::from(TWO)]);
    assert_eq!(next.status(ONE, 0, next.lock(ONE, AGAIN)), DENIED);
}

#[test]
fn expired_host_loses_locks_to_waiting_hosts() {
    let world = World::new(OPEN_SHARE);
    assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), GRANTED);
    assert_eq!(world.status(TWO, 4000, world.lock(TWO, WAITS)), BLOCKED);
    let usage = world.service.usage(world.files.id(), 5000);
    let [one, two] = &usage.clients[..] else {
        panic!("{usage:?}");
    };
    assert_eq!(
        (&one.name[..], one.version, one.address),
        (&b"host7"[..], "3", ONE.into())
    );
    assert_eq!((one.locks, one.waiting, one.silent_ms), (1, 0, 5000));
    assert_eq!((two.locks, two.waiting, two.silent_ms), (0, 1, 1000));
    let [file] = &usage.files[..] else {
        panic!("{usage:?}");
    };
    assert_eq!((file.path.as_deref(), file.open_count), (Some("/file"), 0));
    let lock = LockUse {
        client: one.client,
        process: Some((9, b"owner".to_vec())),
        offset: 0,
        length: None,
        is_exclusive: true,
    };
    assert_eq!(file.locks, [lock]);
    assert_eq!(file.waiting.len(), 1);
    assert!(world.service.expire(one.client, 5000));
    assert!(!world.service.expire(one.client, 5000), "it is gone");
    assert_eq!(
        world.calls()[0].way.there,
        IpAddr::from(TWO),
        "it is its turn"
    );
    let kept = world.record.0.lock().expect("no panic").hosts.clone();
    let kept: Vec<IpAddr> = kept.ways.iter().map(|way| way.there).collect();
    assert_eq!(kept, [IpAddr::from(TWO)], "the next server has it");
    let elsewhere = FileSystemId::default();
    assert_eq!(world.service.usage(elsewhere, 5000), Usage::default());
}

/// A lock that was released must not be granted late: the host would mistake it for its current
/// request.
#[test]
fn no_grant_is_sent_for_a_lock_already_released() {
    let world = World::new(OPEN_SHARE);
    let part = Range { length: 1, ..ALL };
    world.status(ONE, 0, world.lock(ONE, ALL));
    world.status(TWO, 0, world.lock(TWO, WAITS));
    world.status(ONE, 0, world.unlock(ONE, ALL));
    let calls = world.calls();
    let readiness = || world.service.readiness(calls[0].purpose, 0);
    world.status(TWO, 0, world.unlock(TWO, part));
    assert_eq!(readiness(), Readiness::Now, "it has the rest still");
    world.status(TWO, 0, world.unlock(TWO, ALL));
    world.status(ONE, 0, world.lock(ONE, ALL));
    assert_eq!(world.status(TWO, 0, world.lock(TWO, WAITS)), BLOCKED);
    assert_eq!(readiness(), Readiness::Never);
}

#[test]
fn possibly_delivered_grant_is_kept_until_unlock() {
    let world = World::new(OPEN_SHARE);
    for is_cancelled in [true, false] {
        world.status(ONE, 0, world.lock(ONE, ALL));
        world.status(TWO, 0, world.lock(TWO, WAITS));
        world.status(ONE, 0, world.unlock(ONE, ALL));
        let silence = Outcome::NoReply { was_sent: true };
        world
            .service
            .callback_completed(&world.calls()[0], &silence, 0);
        assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), DENIED);
        let given_back = match is_cancelled {
            true => world.cancel(TWO, WAITS),
            false => world.unlock(TWO, ALL),
        };
        assert_eq!(world.status(TWO, 0, given_back), GRANTED);
        assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), GRANTED);
        world.status(ONE, 0, world.unlock(ONE, ALL));
    }
}

#[test]
fn immediate_grant_cancels_the_pending_wait() {
    let world = World::new(OPEN_SHARE);
    world.status(ONE, 0, world.lock(ONE, ALL));
    assert_eq!(world.status(TWO, 0, world.lock(TWO, WAITS)), BLOCKED);
    // The range is free, but blocked locks were not checked yet.
    let mut state = world.service.state();
    state.host_restarted(ONE.into(), b"host7", None);
    drop(state);
    assert_eq!(world.status(TWO, 0, world.lock(TWO, WAITS)), GRANTED);
    assert_eq!(world.status(TWO, 0, world.cancel(TWO, WAITS)), DENIED);
}

#[test]
fn reclaim_before_import_is_dropped_and_hosts_notified_later() {
    let world = World::new(OPEN_SHARE);
    world.status(ONE, 0, world.lock(ONE, ALL));
    let next = world.after();
    next.service.share(Exports::none().with_more_to_come(true));
    next.service.announce(0);
    assert_eq!(next.calls(), []);
    let (number, again) = next.lock(ONE, AGAIN);
    let asks = |now_ms| {
        let answer = next.try_call(ONE, 0, now_ms, number, &again);
        answer.map(|answer| status_of(&answer))
    };
    assert_eq!(asks(0), Err(NoReply::Gone));
    next.service.announce(4999);
    assert_eq!(next.calls(), []);
    next.service.share(next.shared());
    for count in [1, 0] {
        next.service.announce(4999);
        assert_eq!(next.calls().len(), count, "they are notified once");
    }
    assert_eq!(next.status(ONE, 0, next.lock(ONE, AGAIN)), GRANTED);
    let third = world.after();
    third.service.share(Exports::none().with_more_to_come(true));
    third.service.announce(5000);
    assert_eq!(
        third.calls().len(),
        1,
        "a file system may be missing for days"
    );
    next.service.share(Exports::none().with_more_to_come(true));
    assert_eq!(asks(40_000), Ok(DENIED), "it is too late");
}

#[test]
fn late_restart_notification_keeps_newer_locks() {
    let world = World::new(OPEN_SHARE);
    let is_free = || {
        let is_free = world.status(TWO, 0, world.test(TWO, ALL)) == GRANTED;
        world.status(ONE, 0, world.lock(ONE, ALL));
        is_free
    };
    assert!(is_free());
    // Its locks were created with NSM state 3.
    world.notifies_start(ONE, "host7", NOTIFY, 3);
    assert!(!is_free());
    world.notifies_start(ONE, "host7", NOTIFY, 5);
    assert!(is_free());
    world.notifies_start(ONE, "host7", NOTIFY, 5);
    assert!(!is_free(), "it is repeated");
    for start in [0, 0] {
        world.notifies_start(ONE, "host7", NOTIFY, start);
        assert!(is_free(), "the NSM state is unknown");
    }
    world.notifies_start(ONE, "host7", FREE_ALL, 3);
    assert!(is_free());
}

#[test]
fn unnamed_host_behind_shared_address_keeps_its_locks() {
    let world = World::new(OPEN_SHARE);
    let other = {
        let mut arguments = Writer::new();
        arguments.opaque(b"cookie");
        arguments.boolean(false);
        arguments.boolean(false);
        world.write_lock([10, 0, 0, 99], SHARED, &mut arguments);
        arguments.boolean(false);
        arguments.u32(3);
        arguments
    };
    world.status(ONE, 0, world.lock(ONE, SHARED));
    world.status(ONE, 0, (2, other));
    world.restarts(ONE, "unknown");
    assert_eq!(world.service.state().sizes(), (1, 4));
}

#[test]
fn unlock_at_the_range_limit_succeeds_unless_it_splits() {
    const RANGES_MAX: u64 = 8192;
    const NO_LOCKS: u32 = 2;
    let world = World::new(OPEN_SHARE);
    let part = |offset, length| Range {
        offset,
        length,
        ..ALL
    };
    for at in 0..RANGES_MAX {
        let range = part(4 * at, 3);
        assert_eq!(world.status(ONE, 0, world.lock(ONE, range)), GRANTED);
    }
    let unlock = |range| world.status(ONE, 0, world.unlock(ONE, range));
    assert_eq!(unlock(part(1, 1)), NO_LOCKS, "a range would become two");
    assert_eq!(unlock(part(4, 1)), GRANTED);
    assert_eq!(unlock(part(0, 3)), GRANTED);
    assert_eq!(unlock(part(9, 1)), GRANTED, "there is room again");
}

fn ask(version: u32, transport: u32, name: &[u8], program: u32) -> Vec<u8> {
    let ports = Ports {
        here: HERE,
        nfs: 2049,
        own: 111,
    };
    let mut arguments = Writer::new();
    arguments.u32(program);
    arguments.u32(1);
    match version {
        2 => {
            arguments.u32(transport);
            arguments.u32(0);
        }
        _ => {
            arguments.opaque(name);
            arguments.opaque(b"");
            arguments.opaque(b"");
        }
    }
    let mut out = Writer::new();
    portmap::execute(&ports, version, 3, arguments.bytes(), &mut out).expect("an answer");
    let header = 24;
    assert!(
        out.len() + header <= arguments.len() + 40,
        "no reply is longer than its request"
    );
    out.into_bytes()
}

#[test]
fn portmapper_returns_registered_ports() {
    let port = |answer: Vec<u8>| Reader::new(&answer).u32().expect("a port");
    for (program, tcp, udp) in [
        (100_003, 2049, 0),
        (100_005, 2049, 0),
        (100_021, 2049, 0),
        (100_024, 111, 111),
        (7, 0, 0),
    ] {
        assert_eq!(port(ask(2, 6, b"", program)), tcp);
        assert_eq!(port(ask(2, 17, b"", program)), udp);
    }
    for version in [3, 4] {
        let answer = ask(version, 0, b"tcp", 100_021);
        assert_eq!(Reader::new(&answer).opaque(64), Ok(&b"10.0.0.1.8.1"[..]));
        assert_eq!(
            Reader::new(&ask(version, 0, b"udp", 100_021)).opaque(64),
            Ok(&b""[..])
        );
    }
    assert!(
        !portmap::is_procedure(2, 4, Transport::Udp) && portmap::is_procedure(2, 4, Transport::Tcp)
    );
    assert!(
        !portmap::is_procedure(2, 5, Transport::Tcp),
        "no calls for other hosts"
    );
    assert_eq!(portmap::port_of(b"fd00::1.8.1"), Some(2049));
    for none in [&b""[..], b"1", b"1.2.3.4.0.0", b"1.2.3.4.256.1"] {
        assert_eq!(portmap::port_of(none), None);
    }
}
