//! Concurrent calls of one client on a slow disk.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use file_system::memory::MemoryFileSystem;
use file_system::{FileSystem, Handle, Identity, Make, SetAttributes};
use nfs::exports::Shared;
use nfs::handles::HandleKey;
use nfs::server::{DesiredState, NfsServer, ServerLimits};
use nfs::sharenfs::Share;
use nfs::v4::Presentation;
use nfs::xdr::{Reader, Writer};
use serving::ListenAddress;

const EVENT_TIMEOUT: Duration = Duration::from_secs(20);
const NFS_3: (u32, u32) = (100_003, 3);
const NFS_4: (u32, u32) = (100_003, 4);
const COMPOUND: u32 = 1;
const GETATTR: u32 = 1;
const READ: u32 = 6;
const COMMIT: u32 = 21;

/// A record with a call of root.
fn record(
    number: u32,
    (program, version): (u32, u32),
    procedure: u32,
    arguments: &[u8],
) -> Vec<u8> {
    let mut call = Writer::new();
    let header = [0, number, 0, 2, program, version, procedure];
    // AUTH_SYS of root, and no verifier.
    for word in header.into_iter().chain([1, 20, 0, 0, 0, 0, 0, 0, 0]) {
        call.u32(word);
    }
    call.append(arguments);
    call.set_u32(0, 1 << 31 | (call.len() - 4) as u32);
    call.into_bytes()
}

/// A record with a call of root for a file.
fn call(number: u32, procedure: u32, file: &[u8], more: &[u32]) -> Vec<u8> {
    let mut arguments = Writer::new();
    arguments.opaque(file);
    more.iter().for_each(|word| arguments.u32(*word));
    record(number, NFS_3, procedure, arguments.bytes())
}

/// A record with a compound of minor version 1 without a tag.
fn compound(number: u32, operations: u32, arguments: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::new();
    [0, 1, operations].iter().for_each(|word| writer.u32(*word));
    arguments(&mut writer);
    record(number, NFS_4, COMPOUND, writer.bytes())
}

fn commit(number: u32, file: &[u8]) -> Vec<u8> {
    call(number, COMMIT, file, &[0, 0, 0])
}

/// Returns the next reply.
fn reply(stream: &mut TcpStream) -> Vec<u8> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).expect("an answer");
    let mut answer = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut answer).expect("all of it");
    answer
}

/// Returns the transaction ID of the next reply.
fn answered(stream: &mut TcpStream) -> u32 {
    Reader::new(&reply(stream)).u32().expect("a number")
}

/// Sends a compound of one operation, and returns the bytes after its status.
fn result_of(stream: &mut TcpStream, arguments: impl FnOnce(&mut Writer)) -> Vec<u8> {
    stream.write_all(&compound(0, 1, arguments)).expect("sent");
    // The header of the reply has 24 bytes; status, tag and count 12; the operation and its status 8.
    let reply = reply(stream);
    assert_eq!(reply[24..28], [0; 4], "it is refused");
    reply[24 + 12 + 8..].to_vec()
}

/// Establishes a session with this number of slots.
fn session(stream: &mut TcpStream, slots: u32) -> [u8; 16] {
    let client = result_of(stream, |writer| {
        writer.u32(42);
        writer.u64(1);
        writer.opaque(b"client");
        [0, 0, 0].iter().for_each(|word| writer.u32(*word));
    });
    let made = result_of(stream, |writer| {
        writer.u32(43);
        writer.fixed(&client[..8]);
        let channel = [0, 8192, 8192, 8192, 8, slots, 0];
        let words = [1, 0].into_iter().chain(channel).chain(channel);
        words
            .chain([0x4000_0000, 0])
            .for_each(|word| writer.u32(word));
    });
    *made.first_chunk().expect("a session")
}

/// A call that creates a directory in the root, in a slot of its own.
fn make(session: &[u8; 16], number: u32) -> Vec<u8> {
    // PUTROOTFH.
    make_in(session, number, |writer| writer.u32(24))
}

/// A call that creates a directory, in a slot of its own.
fn make_in(session: &[u8; 16], number: u32, put: impl FnOnce(&mut Writer)) -> Vec<u8> {
    compound(number, 3, |writer| {
        writer.u32(53);
        writer.fixed(session);
        let (sequence, slot) = (1, number);
        // No cached reply.
        [sequence, slot, slot, 0]
            .iter()
            .for_each(|word| writer.u32(*word));
        put(writer);
        // CREATE of a directory, without attributes.
        [6, 2].iter().for_each(|word| writer.u32(*word));
        writer.opaque(format!("made-{number}").as_bytes());
        [0, 0].iter().for_each(|word| writer.u32(*word));
    })
}

fn key() -> HandleKey {
    HandleKey::new(&[7; HandleKey::BYTES])
}

fn serve(files: &Arc<MemoryFileSystem>, limits: ServerLimits) -> (NfsServer, TcpStream) {
    serve_all(&[("", files)], limits)
}

/// Serves file systems by name.
fn serve_all(
    all: &[(&str, &Arc<MemoryFileSystem>)],
    limits: ServerLimits,
) -> (NfsServer, TcpStream) {
    let presentation = Presentation {
        owner: b"tank".to_vec(),
        start: 7,
        handle_key: key(),
        lease_seconds: 20,
        grace_seconds: 0,
    };
    let server = NfsServer::new(presentation, limits);
    let rule = "rw=127.0.0.0/8,no_root_squash,insecure";
    let shared = all.iter().map(|(name, files)| Shared {
        name: (*name).to_owned(),
        share: Share::parse(rule).expect("a share").expect("not off"),
        files: Arc::<MemoryFileSystem>::clone(files),
    });
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let desired = DesiredState {
        listeners: vec![ListenAddress::Tcp(address)],
        shared: shared.collect(),
        ..DesiredState::default()
    };
    server.apply(desired).expect("it serves");
    let address = server.listeners()[0].tcp().expect("an address");
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(EVENT_TIMEOUT)).expect("set");
    (server, stream)
}

fn wait_for_commits(files: &MemoryFileSystem, count: u64) {
    let until = Instant::now() + EVENT_TIMEOUT;
    while files.commits() < count {
        assert!(Instant::now() < until, "{} commits", files.commits());
        std::thread::yield_now();
    }
}

/// Creates a file with these bytes. Returns its handle.
fn one_file(bytes: &[u8]) -> (Arc<MemoryFileSystem>, Vec<u8>) {
    let files = Arc::new(MemoryFileSystem::with_guid(5, 1 << 20));
    let root = Identity {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    let nothing = SetAttributes::default();
    let made = files.make(&root, files.root(), b"file", Make::File, &nothing, None);
    let node = made.expect("made").object.node;
    files.write(node, 0, bytes).expect("there is room");
    let file_system = files.id();
    (files, key().sign(Handle { file_system, node }).to_vec())
}

#[test]
fn concurrent_commits_do_not_block_later_calls() {
    let (files, file) = one_file(b"");
    let (_server, mut stream) = serve(&files, ServerLimits::default());
    let delayed = files.delay_commits();
    let both = [commit(1, &file), call(2, GETATTR, &file, &[])].concat();
    stream.write_all(&both).expect("sent");
    assert_eq!(answered(&mut stream), 2);
    // No call follows when this one is read.
    stream.write_all(&commit(3, &file)).expect("sent");
    wait_for_commits(&files, 2);
    let look = call(4, GETATTR, &file, &[]);
    stream.write_all(&look).expect("sent");
    assert_eq!(answered(&mut stream), 4);
    drop(delayed);
    let mut last = [answered(&mut stream), answered(&mut stream)];
    last.sort_unstable();
    assert_eq!(last, [1, 3]);
}

/// A long read is passed to a worker, so that the following calls need not wait. More commits than
/// workers are blocked on the disks.
#[test]
fn commits_do_not_block_long_reads() {
    const BYTES: u32 = 128 << 10;
    let (files, file) = one_file(&[7; BYTES as usize]);
    let limits = ServerLimits {
        workers_max: 4,
        ..ServerLimits::default()
    };
    let (_server, mut stream) = serve(&files, limits);
    let delayed = files.delay_commits();
    let mut calls: Vec<u8> = (1..=6).flat_map(|number| commit(number, &file)).collect();
    calls.extend(call(7, READ, &file, &[0, 0, BYTES]));
    calls.extend(call(8, GETATTR, &file, &[]));
    stream.write_all(&calls).expect("sent");
    let mut first = [answered(&mut stream), answered(&mut stream)];
    first.sort_unstable();
    assert_eq!(first, [7, 8]);
    drop(delayed);
    let mut last: Vec<u32> = (1..=6).map(|_| answered(&mut stream)).collect();
    last.sort_unstable();
    assert_eq!(last, [1, 2, 3, 4, 5, 6]);
}

/// The first call may reach the worker alone, and all others arrive during its commit.
#[test]
fn changes_that_wait_together_share_a_commit_and_no_reply_precedes_it() {
    const CALLS: u32 = 9;
    let (files, _) = one_file(b"");
    let limits = ServerLimits {
        workers_max: 1,
        ..ServerLimits::default()
    };
    let (_server, mut stream) = serve(&files, limits);
    let session = session(&mut stream, CALLS + 1);
    // RECLAIM_COMPLETE, after SEQUENCE in the first slot.
    let complete = compound(0, 2, |writer| {
        writer.u32(53);
        writer.fixed(&session);
        [1, 0, 0, 0, 58, 0]
            .iter()
            .for_each(|word| writer.u32(*word));
    });
    stream.write_all(&complete).expect("sent");
    assert_eq!(reply(&mut stream)[24..28], [0; 4], "RECLAIM_COMPLETE");
    let before = files.commits();
    let delayed = files.delay_commits();
    let calls: Vec<u8> = (1..=CALLS).flat_map(|slot| make(&session, slot)).collect();
    stream.write_all(&calls).expect("sent");
    wait_for_commits(&files, before + 1);
    stream.set_nonblocking(true).expect("set");
    assert!(
        stream.peek(&mut [0]).is_err(),
        "a reply precedes the commit"
    );
    stream.set_nonblocking(false).expect("set");
    drop(delayed);
    let mut made: Vec<u32> = (1..=CALLS)
        .map(|_| {
            let reply = reply(&mut stream);
            assert_eq!(reply[24..28], [0; 4], "it is created");
            Reader::new(&reply).u32().expect("a number")
        })
        .collect();
    made.sort_unstable();
    assert_eq!(made, Vec::from_iter(1..=CALLS));
    // A slow host divides the calls more often.
    let commits = files.commits() - before;
    assert!(commits < CALLS.into(), "{commits} commits");
}

/// The calls are read from the worker's queue together. The replies of one file system do not wait for the disks of
/// another, and a failed commit of one does not affect the other.
#[test]
fn changes_in_two_file_systems_complete_independently() {
    let [slow, quick, busy] = [5, 6, 7].map(|guid| {
        let files = MemoryFileSystem::with_guid(guid, 1 << 20);
        Arc::new(files)
    });
    // Three of the workers execute calls that wait.
    let limits = ServerLimits {
        workers_max: 4,
        ..ServerLimits::default()
    };
    let all = [("slow", &slow), ("quick", &quick), ("busy", &busy)];
    let (_server, mut stream) = serve_all(&all, limits);
    let session = session(&mut stream, 10);
    let handle = |files: &MemoryFileSystem| {
        let (file_system, node) = (files.id(), files.root());
        key().sign(Handle { file_system, node })
    };
    let make = |number: u32, files: &MemoryFileSystem| {
        make_in(&session, number, |writer| {
            writer.u32(22);
            writer.opaque(&handle(files));
        })
    };
    let look = |number: u32| call(number, GETATTR, &handle(&slow), &[]);
    let (of_busy, of_slow) = (busy.delay_commits(), slow.delay_commits());
    for number in 1..=3 {
        let calls = [make(number, &busy), look(10)].concat();
        stream.write_all(&calls).expect("sent");
        assert_eq!(answered(&mut stream), 10);
        wait_for_commits(&busy, number.into());
    }
    slow.fail_commits(true);
    let calls = [make(5, &slow), make(4, &quick), look(11)].concat();
    stream.write_all(&calls).expect("sent");
    assert_eq!(answered(&mut stream), 11, "the others wait for a worker");
    drop(of_busy);
    let mut first: Vec<u32> = (1..=4).map(|_| answered(&mut stream)).collect();
    first.sort_unstable();
    assert_eq!(first, [1, 2, 3, 4]);
    drop(of_slow);
    let last = reply(&mut stream);
    assert_eq!(Reader::new(&last).u32(), Ok(5));
    assert_eq!(last[24..28], [0, 0, 0, 5], "IO");
}

/// The length of a reply is unknown when a worker gets the call. A client that reads none of them is dropped.
#[test]
fn unread_replies_of_workers_are_bounded() {
    const BYTES: u32 = 256 << 10;
    const CALLS: u32 = 128;
    let (files, file) = one_file(&[7; BYTES as usize]);
    let mut limits = ServerLimits {
        payload_bytes_max: 1 << 20,
        ..ServerLimits::default()
    };
    limits.outbound.queued_bytes_max = 1 << 20;
    let (server, mut stream) = serve(&files, limits);
    let delayed = files.delay_commits();
    let read = |number: u32| {
        let mut writer = Writer::new();
        // A compound of minor version 0: PUTFH, COMMIT, READ with the anonymous state.
        [0, 0, 3, 22].iter().for_each(|word| writer.u32(*word));
        writer.opaque(&file);
        let commit_and_read = [5, 0, 0, 0, 25, 0, 0, 0, 0, 0, 0, BYTES];
        commit_and_read.iter().for_each(|word| writer.u32(*word));
        record(number, NFS_4, COMPOUND, writer.bytes())
    };
    let mut calls: Vec<u8> = (1..=CALLS).flat_map(read).collect();
    calls.extend(call(0, GETATTR, &file, &[]));
    stream.write_all(&calls).expect("sent");
    assert_eq!(answered(&mut stream), 0, "all others are at workers");
    drop(delayed);
    let until = Instant::now() + EVENT_TIMEOUT;
    while !server.clients().is_empty() {
        assert!(Instant::now() < until, "it is still connected");
        std::thread::yield_now();
    }
}
