//! Both legs of a mirror are gone, and one returns. The pool resumes with that leg if it holds all writes that were
//! acknowledged as durable, and requires a confirmation if it may not. No client is blocked indefinitely.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::common::nbd::Nbd;
use crate::common::{CommandOutput, ServerProcess, TestHost, eventually};
use serde_json::Value;

/// The pool's server abandons a device after this time; the response to `pool clear` arrives some seconds later at the
/// latest.
const SERVER: &str = "--disk-timeout 2 --wait-for-devices 0 --leg-faults faults";
const RESPONSE_MAX: Duration = Duration::from_secs(20);
/// Exit codes.
const NEEDS_CONFIRMATION: i32 = 6;
const UNAVAILABLE: i32 = 8;
const CONFIRMATION_FLAG: &str = "--missing-devices-are-not-newer";

fn serve(machine: &TestHost) -> ServerProcess {
    machine.serve(SERVER)
}

/// From now on exactly these devices fail as given.
fn fail(machine: &TestHost, faults: &[(&str, &str)]) {
    let line = |(disk, how): &(&str, &str)| format!("{} {how}\n", machine.path(disk).display());
    let lines: String = faults.iter().map(line).collect();
    // Atomically: the server must never read half of it.
    std::fs::write(machine.path("faults.new"), lines).expect("written");
    std::fs::rename(machine.path("faults.new"), machine.path("faults")).expect("renamed");
}

fn connect(machine: &TestHost) -> Nbd {
    Nbd::connect(&machine.nbd_socket(), "v").expect("connected")
}

fn write(machine: &TestHost, byte: u8) {
    let mut client = connect(machine);
    client.write(0, &[byte; 4096]).expect("written");
    client.flush().expect("durable");
}

fn read(machine: &TestHost) -> u8 {
    connect(machine).read(0, 4096).expect("readable")[0]
}

/// Writes on another thread, and blocks until that is durable: the receiver gets the result, if there is one.
fn begin_write(machine: &TestHost, byte: u8) -> Receiver<bool> {
    let (sender, receiver) = channel();
    let mut client = connect(machine);
    std::thread::spawn(move || {
        let written = client.write(0, &[byte; 4096]).and_then(|()| client.flush());
        let _ = sender.send(written.is_ok());
    });
    receiver
}

fn pool(machine: &TestHost) -> Value {
    machine.ok("status tank --json").json()["pool"].clone()
}

fn is_suspended(machine: &TestHost) -> bool {
    pool(machine)["suspended"] == true
}

/// Both legs fail during a write that was not acknowledged.
fn lose_both(machine: &TestHost) -> Receiver<bool> {
    fail(machine, &[("a", "gone"), ("b", "gone")]);
    eventually("both are gone", || {
        machine.log().matches("fails on command").count() >= 2
    });
    let answered = begin_write(machine, 2);
    eventually("the pool is suspended", || is_suspended(machine));
    answered
}

/// Runs `pool clear`, which responds in time whatever the devices do.
fn clear(machine: &TestHost, words: &str) -> CommandOutput {
    let begun = Instant::now();
    let said = machine.run(&format!("pool clear tank {words}"));
    assert!(begun.elapsed() < RESPONSE_MAX, "{} {}", said.out, said.err);
    said
}

/// Clears the pool until it resumes, with this server or with the next one.
fn clear_and_continue(machine: &TestHost, mut server: ServerProcess) -> ServerProcess {
    let deadline = Instant::now() + crate::common::SERVER_WAIT;
    loop {
        let said = clear(machine, "");
        if said.code == 0 && said.out.contains("next start") {
            assert_eq!(server.wait(), UNAVAILABLE, "{}", machine.log());
            server = serve(machine);
        }
        if !is_suspended(machine) {
            return server;
        }
        assert!(Instant::now() < deadline, "{} {}", said.out, said.err);
    }
}

fn continues_without(gone: &str) {
    let machine = TestHost::with_exported_volume();
    fail(&machine, &[]);
    let server = serve(&machine);
    write(&machine, 1);
    let answered = lose_both(&machine);
    assert!(
        answered.try_recv().is_err(),
        "no client receives a response"
    );
    fail(&machine, &[(gone, "gone")]);
    let server = clear_and_continue(&machine, server);
    assert!([1, 2].contains(&read(&machine)), "nothing durable is lost");
    write(&machine, 3);
    fail(&machine, &[]);
    eventually("the other one is back, too", || {
        pool(&machine)["health"] == "ONLINE"
    });
    assert_eq!(read(&machine), 3);
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn pool_resumes_with_first_leg_alone_after_its_return() {
    continues_without("b");
}

#[test]
fn pool_resumes_with_second_leg_alone_after_its_return() {
    continues_without("a");
}

/// One leg owes a flush as long as it is away, and the other one returns: the library cannot even probe it.
fn continues_without_its_flush(gone: &str) {
    let machine = TestHost::with_exported_volume();
    fail(&machine, &[]);
    let server = serve(&machine);
    write(&machine, 1);
    fail(&machine, &[("a", "flush=hang"), ("b", "flush=hang")]);
    eventually("both hang", || {
        machine.log().matches("fails on command").count() >= 2
    });
    let answered = begin_write(&machine, 2);
    eventually("the pool is suspended", || is_suspended(&machine));
    assert!(
        answered.try_recv().is_err(),
        "no client receives a response"
    );
    fail(&machine, &[(gone, "gone hang")]);
    let server = clear_and_continue(&machine, server);
    assert!([1, 2].contains(&read(&machine)), "nothing durable is lost");
    write(&machine, 3);
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn pool_continues_without_first_leg_after_flush_failure() {
    continues_without_its_flush("a");
}

#[test]
fn pool_continues_without_second_leg_after_flush_failure() {
    continues_without_its_flush("b");
}

/// `a` fell behind, `b` acknowledged more and is then lost, and `a` returns.
fn with_returned_stale_leg() -> (TestHost, ServerProcess) {
    let machine = TestHost::with_exported_volume();
    fail(&machine, &[]);
    let server = serve(&machine);
    write(&machine, 1);
    fail(&machine, &[("a", "gone")]);
    eventually("it is gone", || machine.log().contains("fails on command"));
    write(&machine, 7);
    let _ = lose_both(&machine);
    fail(&machine, &[("b", "gone")]);
    eventually("it is back", || machine.log().contains("works again"));
    (machine, server)
}

#[test]
fn stale_leg_is_not_served_and_confirmation_is_named() {
    let (machine, server) = with_returned_stale_leg();
    let said = clear(&machine, "");
    assert_eq!(said.code, NEEDS_CONFIRMATION, "{} {}", said.out, said.err);
    let missing = machine.path("b").display().to_string();
    for part in ["tank", &missing, "pool clear tank", CONFIRMATION_FLAG] {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
    assert!(is_suspended(&machine));
    fail(&machine, &[]);
    let server = clear_and_continue(&machine, server);
    assert!([7, 2].contains(&read(&machine)));
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn leg_returning_before_confirmed_restart_is_not_used() {
    let (machine, mut server) = with_returned_stale_leg();
    let said = clear(&machine, CONFIRMATION_FLAG);
    assert!(said.out.contains("next start"), "{} {}", said.out, said.err);
    // The server still has some tenths of a second, in which the other leg returns.
    fail(&machine, &[]);
    let ends = Instant::now() + Duration::from_millis(200);
    while Instant::now() < ends {
        clear(&machine, "");
    }
    assert_eq!(server.wait(), UNAVAILABLE, "{}", machine.log());
    // A command that came after the exit opened the pool itself, and is in no log of a server.
    let log = machine.log();
    let clears = log.lines().filter(|line| line.contains("pool.clear"));
    let done = clears.filter(|line| line.contains(r#"outcome="done""#));
    assert_eq!(done.count(), 1, "{log}");
    let server = serve(&machine);
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn confirmation_restarts_pool_with_returned_leg() {
    let (machine, mut server) = with_returned_stale_leg();
    let said = clear(&machine, CONFIRMATION_FLAG);
    assert_eq!(said.code, 0, "{} {}", said.out, said.err);
    assert!(said.out.contains("next start"), "{}", said.out);
    assert_eq!(server.wait(), UNAVAILABLE, "{}", machine.log());
    let server = serve(&machine);
    assert_eq!(read(&machine), 1);
    write(&machine, 4);
    // It has newer writes, so only an administrator has it overwritten with the served data.
    fail(&machine, &[]);
    let online = format!("pool online tank {}", machine.path("b").display());
    eventually("the other one responds", || machine.log().contains(&online));
    assert_ne!(pool(&machine)["health"], "ONLINE");
    machine.ok(&online);
    eventually("the other one is back", || {
        pool(&machine)["health"] == "ONLINE"
    });
    assert_eq!(read(&machine), 4);
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

/// The confirmation is for the state in which it was made.
#[test]
fn confirmation_is_unused_if_other_leg_returned() {
    let (machine, mut server) = with_returned_stale_leg();
    assert_eq!(clear(&machine, CONFIRMATION_FLAG).code, 0);
    assert_eq!(server.wait(), UNAVAILABLE, "{}", machine.log());
    fail(&machine, &[]);
    let server = serve(&machine);
    assert!([7, 2].contains(&read(&machine)));
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

fn is_durable(answered: &Receiver<bool>) -> bool {
    answered.recv_timeout(crate::common::SERVER_WAIT) == Ok(true)
}

#[test]
fn clear_returns_while_last_device_hangs() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/v --size 32M --sparse");
    machine.ok("nbd export tank/v --name v");
    fail(&machine, &[]);
    let server = serve(&machine);
    fail(&machine, &[("a", "flush=hang")]);
    eventually("it hangs", || machine.log().contains("fails on command"));
    let answered = begin_write(&machine, 1);
    eventually("the pool is suspended", || is_suspended(&machine));
    for words in ["", CONFIRMATION_FLAG] {
        let said = clear(&machine, words);
        assert_eq!(said.code, UNAVAILABLE, "{} {}", said.out, said.err);
        let device: &Path = &machine.path("a");
        assert!(
            said.err.contains(&device.display().to_string()),
            "{}",
            said.err
        );
    }
    fail(&machine, &[]);
    assert!(is_durable(&answered));
    eventually("the pool resumes", || !is_suspended(&machine));
    assert_eq!(server.stop(), 0, "{}", machine.log());
}
