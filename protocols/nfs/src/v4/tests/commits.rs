//! Compounds that share a commit: no reply before it, and one commit for all of them.

use file_system::FileError;

use super::*;
use crate::v4::{NoReply, Uncommitted};

const BUSY: u32 = 10008;

/// `CREATE` (6) of a directory.
fn create(name: &[u8]) -> Vec<u8> {
    let mut create = Writer::new();
    create.u32(6);
    create.u32(2);
    create.opaque(name);
    create.u32(0);
    create.u32(0);
    create.into_bytes()
}

/// Executes a compound of the client's next call up to its commit.
pub fn begin(client: &mut Client, operations: &[&[u8]]) -> (Writer, Option<Uncommitted>) {
    begin_by(client, 1, operations)
}

fn begin_by(
    client: &mut Client,
    minor: u32,
    operations: &[&[u8]],
) -> (Writer, Option<Uncommitted>) {
    client.sequence += 1;
    let sequence = client.sequence(client.sequence, true);
    let all = [&[&sequence[..]], operations].concat();
    let credential = Credential::System {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    let caller = Caller {
        credential: &credential,
        transaction: 0,
        connection: 1,
        from: Source::LOCAL,
        here: Source::LOCAL.address,
        now_ms: 0,
    };
    let mut out = Writer::new();
    let begun = client
        .service
        .compound_before_commit(&compound_of(minor, &all), &caller, &mut out);
    let Ok((_, uncommitted)) = begun else {
        panic!("no compound");
    };
    (out, uncommitted)
}

/// Sends the last call again.
fn again(client: &mut Client, operations: &[&[u8]]) -> Vec<u8> {
    client.sequence -= 1;
    client.ask(operations)
}

#[test]
fn changes_of_two_clients_share_a_commit_and_are_busy_until_it_is_done() {
    let (home, files) = shared("", 1, EVERYTHING);
    let service = service_of(vec![home]);
    let mut one = Client::connect(&service, b"one", 0);
    let mut two = Client::connect(&service, b"two", 0);
    let before = files.commits();
    let (first, second) = (create(b"first"), create(b"second"));
    let root = words(&[24]);
    let (mut reply, uncommitted) = begin(&mut one, &[&root, &first]);
    let (mut other_reply, other) = begin(&mut two, &[&root, &second]);
    let (uncommitted, other) = (uncommitted.expect("a change"), other.expect("a change"));
    assert_eq!(files.commits(), before);
    let early = again(&mut one, &[&root, &first]);
    assert_eq!(early[..4], words(&[BUSY]), "it is not durable yet");

    assert!(Arc::ptr_eq(uncommitted.files(), other.files()));
    uncommitted.files().commit(None).expect("durable");
    let completed = [
        service.complete(&uncommitted, &mut reply, Ok(())),
        service.complete(&other, &mut other_reply, Ok(())),
    ];
    assert_eq!(completed, [Ok(()); 2]);
    assert_eq!(again(&mut one, &[&root, &first]), reply.into_bytes());
    assert_eq!(again(&mut two, &[&root, &second]), other_reply.into_bytes());
    assert_eq!(files.commits(), before + 1, "the replies were cached");
}

/// A client that repeats its call mistakes a refusal for the result of its own change: it depends on the change that it
/// has found. `REMOVE` (28), `REMOVEXATTR` (75).
#[test]
fn refusals_share_a_commit_and_are_busy_until_it_is_done() {
    let (home, files) = shared("", 1, EVERYTHING);
    let service = service_of(vec![home]);
    let mut client = Client::connect(&service, b"one", 0);
    client.open(b"file", 3, 0).expect("a new file");
    let root = words(&[24]);
    let before = files.commits();
    let cases = [
        (1, vec![create(b"file")], 17),
        (1, vec![named(28, &[b"none"])], 2),
        (
            2,
            vec![named(15, &[b"file"]), named(75, &[b"none"])],
            10_095,
        ),
    ];
    for (minor, operations, status) in cases {
        let mut all = vec![&root[..]];
        all.extend(operations.iter().map(Vec::as_slice));
        let (mut reply, uncommitted) = begin_by(&mut client, minor, &all);
        let uncommitted = uncommitted.expect("a refusal that depends on a change");
        assert_eq!(reply.bytes()[..4], words(&[status]));
        assert_eq!(files.commits(), before);
        client.sequence -= 1;
        assert_eq!(client.ask_by(minor, &all)[..4], words(&[BUSY]));
        assert_eq!(service.complete(&uncommitted, &mut reply, Ok(())), Ok(()));
        client.sequence -= 1;
        assert_eq!(client.ask_by(minor, &all), reply.into_bytes());
    }
}

/// The reply of a call is as if its change had failed, and it is cached.
#[test]
fn failed_commit_replaces_the_results_from_the_first_change_on() {
    let (home, _files) = shared("", 1, EVERYTHING);
    let service = service_of(vec![home]);
    let mut client = Client::connect(&service, b"one", 0);
    let root = words(&[24]);
    // SETATTR (34) of the mode, with the anonymous state; GETATTR (9) of the type.
    let set = words(&[34, 0, 0, 0, 0, 2, 0, 2, 4, 0o755]);
    let look = words(&[9, 1, 2]);
    let sequence_bytes = 4 + 4 + 36;
    for (operation, number, more) in [(create(b"made"), 6, vec![]), (set, 34, words(&[0]))] {
        let all = [&root[..], &operation, &look];
        let (mut reply, uncommitted) = begin(&mut client, &all);
        let uncommitted = uncommitted.expect("a change");
        assert_eq!(reply.bytes()[..12], words(&[0, 0, 4]));
        let failed = Err(FileError::Io);
        assert_eq!(service.complete(&uncommitted, &mut reply, failed), Ok(()));
        let reply = reply.into_bytes();
        assert_eq!(reply[..12], words(&[5, 0, 3]), "IO, after three results");
        let expected = [words(&[24, 0, number, 5]), more].concat();
        assert_eq!(reply[12 + sequence_bytes..], expected);
        assert_eq!(again(&mut client, &all), reply);
    }
    let (mut reply, uncommitted) = begin(&mut client, &[&root, &create(b"lost")]);
    let gone = Err(FileError::Gone);
    let completed = service.complete(&uncommitted.expect("a change"), &mut reply, gone);
    assert_eq!(completed, Err(NoReply::Gone));
}

#[test]
fn a_commit_of_contents_is_durable_before_the_compound_ends() {
    let (home, files) = shared("", 1, EVERYTHING);
    let service = service_of(vec![home]);
    let mut client = Client::connect(&service, b"one", 0);
    client.open(b"file", 3, 0).expect("a new file");
    let root = words(&[24]);
    let before = files.commits();
    // LOOKUP (15), COMMIT (5).
    let look_up = named(15, &[b"file"]);
    let (_, uncommitted) = begin(&mut client, &[&root, &look_up, &words(&[5, 0, 0, 0])]);
    assert!(uncommitted.is_none());
    assert_eq!(files.commits(), before + 1);
}
