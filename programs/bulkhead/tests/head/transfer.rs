//! Snapshots are sent between two servers with attached clients: full, incremental, and resumed
//! after either server was killed. A stream that does not fit is refused, and leaves nothing.

use std::io::{Read, Write};
use std::process::{Child, Stdio};

use crate::common::heads::{Head, MIB, SIZE, fill, noise};
use crate::common::nbd::Nbd as Client;
use crate::common::{TestHost, eventually};

/// Largest number of concurrent streams of a server.
const STREAMS_MAX: usize = 8;

#[test]
fn snapshots_are_transferred_while_clients_are_attached() {
    let (near, far) = (Head::new(), Head::new());
    let (mut near_client, mut far_client) = (near.client(), far.client());
    fill(&mut near_client, 100);
    near.machine.ok("snapshot create tank/v@one");
    let whole = near.stream("snapshot send tank/v@one");
    far.received("snapshot receive tank/copy", &whole);

    near_client.write(0, &noise(7, MIB)).expect("written");
    near_client.flush().expect("flushed");
    near.machine.ok("snapshot create tank/v@two");
    near.machine.ok("snapshot bookmark tank/v@one one");
    let changes = near.stream("snapshot send tank/v@two --from #one");
    assert!(changes.len() < whole.len() / 8, "{}", changes.len());
    far.received("snapshot receive tank/copy", &changes);
    assert!(far.contents("tank/copy@two") == near.contents("tank/v@two"));
    assert!(far.contents("tank/copy@one") == near.contents("tank/v@one"));

    // The copy is another disk to initiators, and is invisible until it is exported.
    let show = |head: &Head, volume: &str| {
        let words = format!("volume show {volume} --json");
        head.machine.ok(&words).json()
    };
    let (original, copy) = (show(&near, "tank/v"), show(&far, "tank/copy"));
    assert_ne!(original["identity"]["naa"], copy["identity"]["naa"]);
    assert!(copy["identity"]["naa"].is_string(), "{copy}");
    assert_eq!(copy["exports"].as_array().map(Vec::len), Some(0));

    assert_mismatch_is_refused(&near, &far, &whole, &changes);
    far_client.write(0, &[1; 4096]).expect("still attached");
    near_client.read(0, 4096).expect("still attached");
    assert_eq!(near.server.stop(), 0);
    assert_eq!(far.server.stop(), 0);
    without_servers(&near.machine, &far.machine);
}

fn assert_mismatch_is_refused(near: &Head, far: &Head, whole: &[u8], changes: &[u8]) {
    let receive = "snapshot receive tank/copy";
    far.refused(receive, whole, 4, "exists");
    far.refused(receive, b"not a stream at all", 1, "no ZFS send stream");
    far.refused(receive, &[7; 4096], 2, "no ZFS send stream");
    far.refused("snapshot receive tank/v", changes, 5, "exported");
    far.refused("snapshot receive tank/other", changes, 4, "based on");
    far.refused("snapshot receive tank/no/other", whole, 3, "parent");
    let cut = &whole[..whole.len() / 2];
    far.refused("snapshot receive tank/cut", cut, 1, "cut off");
    far.machine.refused("volume show tank/cut", 3, "no such");
    // Not enough space for three of them: 128 MiB disks.
    for name in ["full1", "full2", "full3", "full4"] {
        let said = far.receive(&format!("snapshot receive tank/{name} --resumable"), whole);
        if said.code != 0 {
            assert_eq!(said.code, 9, "{}", said.err);
            far.machine
                .ok(&format!("snapshot receive tank/{name} --abort"));
        }
    }
    far.machine
        .ok("volume destroy tank/full1 --recursive --yes-destroy-data");
    let diverge = "nbd export tank/copy --name copy";
    far.machine.ok(diverge);
    let socket = far.machine.nbd_socket();
    let mut client = Client::connect(&socket, "copy").expect("connected");
    client.write(0, &[3; 4096]).expect("written");
    client.flush().expect("flushed");
    drop(client);
    far.machine.ok("nbd unexport tank/copy");
    near.machine.ok("snapshot create tank/v@three");
    let more = near.stream("snapshot send tank/v@three --from @two");
    far.refused(receive, &more, 4, "was changed");
    far.received("snapshot receive tank/copy --force", &more);
}

fn without_servers(near: &TestHost, far: &TestHost) {
    let mut send = near.command("snapshot send tank/v@one");
    let mut sending = send.stdout(Stdio::piped()).spawn().expect("started");
    let mut receive = far.command("snapshot receive tank/deep/copy --parents --json");
    receive.stdin(sending.stdout.take().expect("piped"));
    let output = receive.output().expect("it ends");
    assert!(sending.wait().expect("it ends").success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let answer: serde_json::Value = serde_json::from_str(&text).expect(&text);
    assert_eq!(answer["snapshots"][0], "tank/deep/copy@one");
    assert!(answer["bytes"].as_u64() > Some(SIZE as u64), "{answer}");
}

/// Their standard input delivers nothing, and is not closed.
#[test]
fn hung_streams_leave_slots_for_other_requests() {
    let head = Head::new();
    let machine = &head.machine;
    let hang = |number: usize| {
        let mut child = head.start_receive(&format!("snapshot receive tank/copy{number}"));
        (child.stdin.take(), child)
    };
    let mut hanging: Vec<_> = (0..STREAMS_MAX).map(hang).collect();
    eventually("one more is refused", || {
        // The extra one may have had the slot that another of them requested.
        for (number, hanging) in hanging.iter_mut().enumerate() {
            if hanging.1.try_wait().expect("a child").is_some() {
                *hanging = hang(number);
            }
        }
        let said = head.receive("snapshot receive tank/more", b"no stream");
        said.code == 5 && said.err.contains("8 streams")
    });
    machine.ok("volume create tank/other --size 1M");
    machine.ok("snapshot create tank/other@one");
    machine.refused("snapshot send tank/other@one", 5, "8 streams");
    let (input, mut first) = hanging.pop().expect("one");
    drop(input);
    assert!(!first.wait().expect("it ends").success());
    machine.ok("snapshot send tank/other@one --estimate");
    machine.ok("pool export tank");
    for (input, mut child) in hanging {
        assert!(
            !child
                .wait()
                .expect("the server closes the stream")
                .success()
        );
        drop(input);
    }
}

/// Feeds a part of the stream, and returns when the server has read some of it.
fn feed_a_part(child: &mut Child, stream: &[u8], length: usize) {
    let input = child.stdin.as_mut().expect("piped");
    // More than the capacity of all buffers on the way.
    input.write_all(&stream[..length]).expect("taken");
}

#[test]
fn killed_receiver_resumes() {
    let near = Head::new();
    let mut far = Head::new();
    fill(&mut near.client(), 200);
    near.machine.ok("snapshot create tank/v@one");
    let mut stream = near.stream("snapshot send tank/v@one");
    let whole_length = stream.len();
    let receive = "snapshot receive tank/copy --resumable";
    for part in [3, 2] {
        let mut child = far.start_receive(receive);
        feed_a_part(&mut child, &stream, stream.len() / part);
        far = far.killed_and_restarted();
        drop(child.stdin.take());
        assert!(!child.wait().expect("it ends").success());
        // Early data is lost if no transaction group was written by then.
        let token = far.token("tank/copy");
        if !token.is_empty() {
            stream = near.stream(&format!("snapshot send --resume {token}"));
        }
    }
    far.received(receive, &stream);
    assert!(far.contents("tank/copy@one") == near.contents("tank/v@one"));
    // A resumed stream begins with its position, which a new one does not.
    assert!(stream.len() <= whole_length + 4096, "{}", stream.len());
    assert!(far.token("tank/copy").is_empty());
}

#[test]
fn partial_receive_of_killed_sender_is_completed() {
    let (mut near, far) = (Head::new(), Head::new());
    fill(&mut near.client(), 300);
    near.machine.ok("snapshot create tank/v@one");
    let receive = "snapshot receive tank/copy --resumable";
    let mut sending = near.machine.command("snapshot send tank/v@one");
    let mut sending = sending
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let mut receiving = far.start_receive(receive);
    let mut from = sending.stdout.take().expect("piped");
    let mut to = receiving.stdin.take().expect("piped");
    let mut half = vec![0; SIZE / 2];
    from.read_exact(&mut half).expect("half of it");
    to.write_all(&half).expect("taken");
    near = near.killed_and_restarted();
    std::io::copy(&mut from, &mut to).expect("the rest of the stream");
    drop(to);
    assert!(!sending.wait().expect("it ends").success());
    assert!(!receiving.wait().expect("it ends").success());
    let token = far.token("tank/copy");
    assert!(!token.is_empty(), "half of it arrived");
    let rest = near.stream(&format!("snapshot send --resume {token}"));
    assert!(rest.len() < SIZE * 3 / 4, "{}", rest.len());
    far.received(receive, &rest);
    assert!(far.contents("tank/copy@one") == near.contents("tank/v@one"));
}
