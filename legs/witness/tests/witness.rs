//! The witness as a process: killed at each step of its writes, and used over its socket.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use certificates::{Identity, Purpose};
use leg_record::{Ballot, DiskId, MemberId, MemberState, Record, Request, Response, Tag};
use members::{LinkState, Links, Message, Peer, Received, Silence};
use tempfile::TempDir;

const POOL: u64 = 77;
const WITNESS: MemberId = MemberId(3);
const HEAD: MemberId = MemberId(1);
/// Time-out for expected events.
const WAIT: Duration = Duration::from_secs(30);
/// Claims of one round.
const EPOCHS: std::ops::RangeInclusive<u64> = 2..=4;

struct World {
    folder: TempDir,
    head: Identity,
}

/// A witness that runs.
struct Witness {
    child: Child,
    address: SocketAddr,
}

impl World {
    fn new() -> Self {
        let made = certificates::make(&["head.bulkhead".into()], Purpose::Any).expect("made");
        Self {
            folder: tempfile::tempdir().expect("folder"),
            head: Identity::new(made.certificate, made.key),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead-witness"));
        command.args(words);
        command
            .arg("--folder")
            .arg(self.folder.path().join("state"));
        command.arg("--desk").arg(self.folder.path().join("desk"));
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("it runs")
    }

    /// Killed when one of its threads does the system call `call` for the `when`th time after its start.
    fn start_to_be_killed(&self, call: &str, when: u32) -> (Witness, Child) {
        let mut witness = self.start();
        let inject = format!("inject={call}:signal=SIGKILL:when={when}");
        let (trace, pid) = (format!("trace={call}"), witness.child.id());
        let words = ["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
        let mut tracer = Command::new("strace");
        tracer.args(words).args(["-p", &pid.to_string()]);
        tracer.stdout(Stdio::null()).stderr(Stdio::null());
        let mut tracer = tracer.spawn().expect("strace starts");
        let begun = Instant::now();
        // It may meet the call before strace follows all its threads.
        while !is_traced(pid) && !witness.has_ended() {
            let has_failed = tracer.try_wait().expect("looked").is_some() && !witness.has_ended();
            let is_late = begun.elapsed() > WAIT;
            assert!(!has_failed && !is_late, "strace does not follow it");
            std::thread::sleep(Duration::from_millis(2));
        }
        (witness, tracer)
    }

    fn serve(&self) -> Command {
        let head = format!("1={}", self.head.fingerprint());
        self.command(&[
            "serve",
            "--number",
            "3",
            "--listen",
            "127.0.0.1:0",
            "--head",
            &head,
        ])
    }

    fn start(&self) -> Witness {
        let mut child = self
            .serve()
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        output.read_line(&mut line).expect("it prints its address");
        let address = line.trim().strip_prefix("listening ");
        let address = address.expect("it listens").parse().expect("an address");
        Witness { address, child }
    }

    fn connect(&self, witness: &mut Witness) -> Head {
        self.try_connect(witness).expect("it lives")
    }

    /// None if the witness terminates before that.
    fn try_connect(&self, witness: &mut Witness) -> Option<Head> {
        let fingerprint = self.run(&["identity"]).stdout;
        let fingerprint = String::from_utf8(fingerprint).expect("text");
        let (send, received) = channel();
        let send = Mutex::new(send);
        let peer = Peer {
            member: WITNESS,
            fingerprint: fingerprint.trim().parse().expect("a fingerprint"),
            addresses: vec![witness.address],
        };
        let links = Links::start(HEAD, 4, &self.head, vec![peer], move |received| {
            let _ = send.lock().expect("no holder panics").send(received);
        });
        let head = Head {
            links: links.expect("links"),
            received,
        };
        let begun = Instant::now();
        while !head.is_connected() {
            if witness.has_ended() {
                return None;
            }
            assert!(begun.elapsed() < WAIT, "{:?}", head.links.states());
            std::thread::sleep(Duration::from_millis(2));
        }
        Some(head)
    }

    fn status(&self) -> String {
        let output = self.run(&["status"]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

/// Whether strace follows all threads of a process.
fn is_traced(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    let mut statuses = threads.map(|thread| {
        // A thread may have terminated.
        let status = thread.ok()?.path().join("status");
        std::fs::read_to_string(status).ok()
    });
    statuses.all(|status| status.is_some_and(|status| !status.contains("TracerPid:\t0\n")))
}

impl Witness {
    fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("looked").is_some()
    }

    fn end(mut self) {
        let _ = self.child.kill();
        self.child.wait().expect("it ends");
    }
}

/// After an assertion that failed.
impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Head {
    links: Links,
    received: Receiver<Received>,
}

impl Head {
    fn is_connected(&self) -> bool {
        let states = self.links.states();
        matches!(states.get(&WITNESS), Some(LinkState::Connected(_)))
    }

    /// The response, or none if the witness died.
    fn send_request(&self, message: Message) -> Option<Message> {
        if !self.links.send(WITNESS, POOL, message) {
            return None;
        }
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < WAIT, "neither a response nor an exit");
            if let Ok(received) = self.received.recv_timeout(Duration::from_millis(5)) {
                return Some(received.envelope.message);
            }
            if !self.is_connected() {
                return self
                    .received
                    .try_recv()
                    .ok()
                    .map(|received| received.envelope.message);
            }
        }
    }
}

fn memory() -> MemberState {
    let ballot = Ballot { epoch: 1, nonce: 5 };
    MemberState::new(Record::new(POOL, ballot, [DiskId(1), DiskId(2)]))
}

fn read() -> Message {
    Message::Request(Request::Read(Tag { boot: 4, number: 1 }))
}

/// State that the witness has reported: that it stores the pool, and the greatest epoch that it promised.
#[derive(Debug, Default)]
struct LoggedEnds {
    created: bool,
    promised: u64,
}

fn talk(head: &Head) -> LoggedEnds {
    let mut reported = LoggedEnds::default();
    match head.send_request(Message::Found(memory())) {
        Some(Message::Created(_)) => reported.created = true,
        None => return reported,
        other => panic!("{other:?}"),
    }
    for epoch in EPOCHS {
        let ballot = Ballot { epoch, nonce: 1 };
        match head.send_request(Message::Request(Request::Claim { ballot, by: HEAD })) {
            Some(Message::Response(Response::Promised { ballot, .. })) => {
                reported.promised = ballot.epoch
            }
            None => return reported,
            other => panic!("{other:?}"),
        }
    }
    reported
}

#[test]
fn kill_at_any_write_step_loses_no_acknowledged_state() {
    if Command::new("strace").arg("-V").output().is_err() {
        let why = "skipped: there is no strace, which kills at a given system call";
        let _ = writeln!(std::io::stderr(), "{why}");
        return;
    }
    let mut kills = 0;
    for call in ["openat", "write", "fsync", "rename"] {
        let kills_before = kills;
        let mut survived = 0;
        for when in 1..=40 {
            let world = World::new();
            let (mut witness, mut tracer) = world.start_to_be_killed(call, when);
            let head = world.try_connect(&mut witness);
            let was_connected = head.is_some();
            let reported = head.map_or_else(LoggedEnds::default, |head| talk(&head));
            let was_killed = reported.promised < *EPOCHS.end();
            witness.end();
            tracer.wait().expect("strace terminates with its target");
            kills += u32::from(was_killed && was_connected);
            let mut again = world.start();
            let known = world.connect(&mut again).send_request(read());
            again.end();
            let case = format!("{call} {when}: reported {reported:?}, stored {known:?}");
            match known {
                Some(Message::Response(Response::Known(_, known))) => {
                    assert!(known.promised.epoch >= reported.promised, "{case}");
                    assert_eq!(known.accepted, memory().accepted, "{case}");
                }
                Some(Message::Silent(Silence::Unknown)) => assert!(!reported.created, "{case}"),
                _ => panic!("{case}"),
            }
            // strace counts the calls of each thread separately, and the writing thread depends on the load.
            survived += u32::from(!was_killed);
            if survived == 3 {
                break;
            }
        }
        assert!(kills > kills_before, "no {call} was met while it wrote");
    }
    assert!(kills >= 15, "{kills} kills");
}

#[test]
fn lost_file_is_reported_and_confirmation_readmits_witness() {
    let world = World::new();
    let mut witness = world.start();
    let reported = talk(&world.connect(&mut witness));
    assert_eq!(reported.promised, *EPOCHS.end());
    assert!(world.status().contains("pool 77: record 1 of epoch 1"));
    let refused = world.run(&["readmit", "77", "--forget"]);
    assert!(!refused.status.success(), "it remembers");
    witness.end();
    let file = world.folder.path().join("state/77.legs");
    std::fs::remove_file(file).expect("lost");
    let mut witness = world.start();
    let head = world.connect(&mut witness);
    assert_eq!(
        head.send_request(read()),
        Some(Message::Silent(Silence::Missing))
    );
    let refound = head.send_request(Message::Found(memory()));
    assert_eq!(refound, Some(Message::Silent(Silence::Missing)));
    let status = world.status();
    assert!(
        status.contains("bulkhead-witness readmit 77 --forget"),
        "{status}"
    );
    assert!(status.contains("head 1: 1 connections"), "{status}");
    let unsaid = world.run(&["readmit", "77"]);
    assert!(!unsaid.status.success(), "--forget is required");
    let readmitted = world.run(&["readmit", "77", "--forget"]);
    assert!(readmitted.status.success(), "{readmitted:?}");
    let state_lost = head.send_request(read());
    let Some(Message::Response(Response::StateLost(_, life))) = state_lost else {
        panic!("{state_lost:?}");
    };
    assert!(world.status().contains("sent by the head that serves it"));
    let mut record = memory().accepted.expect("a record");
    record.sequence = 2;
    record.lives.insert(WITNESS, life);
    let reported = head.send_request(Message::Request(Request::Welcome(record)));
    assert!(matches!(
        reported,
        Some(Message::Response(Response::Accepted(..)))
    ));
    assert!(world.status().contains("pool 77: record 2 of epoch 1"));
    witness.end();
}

/// Its directory is empty: no file shows that there ever was such a pool.
#[test]
fn replacement_witness_joins_after_confirmation() {
    let world = World::new();
    let mut witness = world.start();
    let head = world.connect(&mut witness);
    assert_eq!(
        head.send_request(read()),
        Some(Message::Silent(Silence::Unknown))
    );
    let unsaid = world.run(&["readmit", "77", "--forget"]);
    let said = String::from_utf8_lossy(&unsaid.stderr);
    assert!(
        !unsaid.status.success() && said.contains("--replaced"),
        "{said}"
    );
    let readmitted = world.run(&["readmit", "77", "--forget", "--replaced"]);
    assert!(readmitted.status.success(), "{readmitted:?}");
    let state_lost = head.send_request(read());
    assert!(
        matches!(state_lost, Some(Message::Response(Response::StateLost(..)))),
        "{state_lost:?}"
    );
    witness.end();
}

#[test]
fn second_witness_in_same_directory_is_refused() {
    let world = World::new();
    let witness = world.start();
    let second = world.serve().output().expect("it runs");
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(
        said.contains("another witness uses this directory"),
        "{said}"
    );
    // The first one still has its socket.
    assert!(world.status().contains("witness 3"));
    witness.end();
}

#[test]
fn status_without_witness_shows_how_to_start_it() {
    let world = World::new();
    let output = world.run(&["status"]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("systemctl start bulkhead-witness"), "{said}");
}
