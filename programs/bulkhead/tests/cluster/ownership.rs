//! A server that lost its pool, or may have: it writes nothing more, sends no client an error, and
//! exits.

use std::fs::File;
use std::io::{Error, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::common::nbd::Nbd;
use crate::common::{TestHost, eventually};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Exit code of a server that lost its pool.
const LOST: i32 = 8;
/// Longer than the interval at which a running server checks the clock.
const FROZEN_FOR: Duration = Duration::from_millis(1_500);
const EIO: i32 = 5;

fn signal(server: &crate::common::ServerProcess, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(server.child.id()).expect("a number"));
    kill(pid, signal).expect("it lives");
}

/// The session broke; no client received an error for a command.
fn session_was_dropped(error: &Error) {
    assert_ne!(error.raw_os_error(), Some(EIO), "{error}");
}

/// Simulates reservations on a disk with the fault driver.
#[test]
fn reservation_by_other_head_ends_server_without_client_errors() {
    let machine = TestHost::with_exported_volume();
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let mut server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[1; 4096]).expect("written");
    client.flush().expect("durable");
    let line = format!("{} write=conflict\n", machine.path("a").display());
    std::fs::write(&faults, line).expect("written");
    // One of the next commits includes a write to that disk.
    let deadline = Instant::now() + crate::common::SERVER_WAIT;
    let error = loop {
        assert!(
            Instant::now() < deadline,
            "the server continues: {}",
            machine.log()
        );
        let written = client.write(4096, &[2; 4096]);
        if let Err(error) = written.and_then(|()| client.flush()) {
            break error;
        }
    };
    session_was_dropped(&error);
    assert_eq!(server.wait(), LOST, "{}", machine.log());
    assert!(
        machine.log().contains("has another owner"),
        "{}",
        machine.log()
    );
}

#[test]
fn frozen_server_holds_locks_and_continues_after_thaw() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[1; 4096]).expect("written");
    signal(&server, Signal::SIGSTOP);
    let other = format!(
        "--run-dir {0}/other --state-dir {0}/other --search {0} --host-id 0000beef \
         pool-server tank --no-nbd --no-iscsi --previous-owner-is-stopped",
        machine.directory.path().display()
    );
    machine.refused(
        &other,
        5,
        "in use by pool tank (the server of pool tank (process",
    );
    std::thread::sleep(FROZEN_FOR);
    signal(&server, Signal::SIGCONT);
    client.write(4096, &[2; 4096]).expect("still its own");
    client.flush().expect("durable");
    assert!(machine.log().contains("stood still"), "{}", machine.log());
    assert_eq!(server.stop(), 0);
}

/// The owner is another host, where locks have no effect, and may continue to write.
#[test]
fn disks_of_pool_not_exported_by_other_host_are_kept() {
    const IN_USE: i32 = 5;
    let machine = TestHost::with_exported_volume();
    machine.serve("--host-id 00000001").kill();
    machine.add_disk("c", 128 << 20);
    let other = "--host-id 00000002";
    machine.ok(&format!("pool create mine c {other}"));
    for verb in [
        "pool create new a b",
        "pool add mine a",
        "pool attach mine c a",
        "pool replace mine c a",
        "pool replace-disk mine c --with a --yes",
    ] {
        let words = format!("{verb} --overwrite-old-labels {other}");
        machine.refused(&words, IN_USE, "may still use");
    }
    assert_eq!(
        machine
            .ok("volume list tank --json --host-id 00000001")
            .json()[0]["name"],
        "tank/v"
    );
    // The owner itself can verify that the process that used them is gone.
    machine.serve("--host-id 00000001").kill();
    machine.ok("pool create new mirror a b --overwrite-old-labels --host-id 00000001");
}

const DISKS: [&str; 2] = ["a", "b"];

/// Freezes the server without active requests; returns the time of the freeze.
fn freeze_at_rest(machine: &TestHost, server: &crate::common::ServerProcess) -> Instant {
    eventually("the disks are left alone", || {
        let untouched = |disk| {
            let changed = std::fs::metadata(machine.path(disk)).and_then(|meta| meta.modified());
            let age = SystemTime::now().duration_since(changed.expect("a time"));
            age.is_ok_and(|age| age > Duration::from_secs(5))
        };
        DISKS.into_iter().all(untouched)
    });
    signal(server, Signal::SIGSTOP);
    Instant::now()
}

/// Another host, where locks have no effect, imports the pool; returns the contents of the disks
/// then.
fn reserved_by_other_head(machine: &TestHost) -> [Vec<u8>; 2] {
    let other = TestHost::with_disks(&[]);
    for disk in DISKS {
        std::fs::copy(machine.path(disk), other.path(disk)).expect("copied");
    }
    // Named, because the labels lead to the originals, which are on this host.
    let [a, b] = DISKS.map(|disk| other.path(disk).display().to_string());
    other.ok(&format!(
        "--host-id 0000beef pool import tank --previous-owner-is-stopped --device {a} --device {b}"
    ));
    let taken = DISKS.map(|disk| std::fs::read(other.path(disk)).expect("readable"));
    for (disk, bytes) in DISKS.into_iter().zip(&taken) {
        overwrite(&machine.path(disk), bytes);
    }
    taken
}

/// Cached data here may have been overwritten there: no client may receive it any more.
#[test]
fn server_resumed_after_takeover_serves_no_cached_read() {
    let machine = TestHost::with_exported_volume();
    let mut server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[1; 4096]).expect("written");
    client.flush().expect("durable");
    client.read(0, 4096).expect("cached");
    let frozen = freeze_at_rest(&machine, &server);
    let _taken = reserved_by_other_head(&machine);
    std::thread::sleep(FROZEN_FOR.saturating_sub(frozen.elapsed()));
    // Sent while it is frozen: no check in it can be faster than the response.
    client.send_read(0, 4096).expect("the socket has room");
    signal(&server, Signal::SIGCONT);
    let answered = client.data(4096).map(|data| data.len());
    let error = answered.expect_err("a response of a server that lost its pool");
    session_was_dropped(&error);
    assert_eq!(server.wait(), LOST, "{}", machine.log());
}

/// Another host, where locks have no effect, has imported the pool in between.
#[test]
fn server_resumed_after_takeover_writes_nothing() {
    let machine = TestHost::with_exported_volume();
    let mut server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[1; 4096]).expect("written");
    client.flush().expect("durable");
    let frozen = freeze_at_rest(&machine, &server);
    let taken = reserved_by_other_head(&machine);
    std::thread::sleep(FROZEN_FOR.saturating_sub(frozen.elapsed()));
    signal(&server, Signal::SIGCONT);
    if let Err(error) = client.write(0, &[2; 4096]).and_then(|()| client.flush()) {
        session_was_dropped(&error);
    }
    assert_eq!(server.wait(), LOST, "{}", machine.log());
    for (disk, bytes) in DISKS.into_iter().zip(&taken) {
        let now = std::fs::read(machine.path(disk)).expect("readable");
        assert!(now == *bytes, "{disk} was written to: {}", machine.log());
    }
}

/// No owner could write an MMP block to these disks: another head may consider the pool abandoned.
#[test]
fn server_without_mmp_writes_releases_pool_intact() {
    let machine = TestHost::with_exported_volume();
    machine.ok("pool set tank multihost=on");
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let options = format!("--multihost-silence 800 --leg-faults {}", faults.display());
    let mut server = machine.serve(&options);
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[1; 4096]).expect("written");
    client.flush().expect("durable");
    let [a, b] = ["a", "b"].map(|disk| machine.path(disk));
    let line = format!("{} hang\n{} hang\n", a.display(), b.display());
    std::fs::write(&faults, line).expect("written");
    assert_eq!(server.wait(), LOST, "{}", machine.log());
    assert!(
        machine.log().contains("no sign of life"),
        "{}",
        machine.log()
    );
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&options);
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    assert_eq!(client.read(0, 4096).expect("readable"), [1; 4096]);
    assert_eq!(server.stop(), 0);
}

/// Its owner was killed. Its MMP blocks contain the allowed silence.
#[test]
fn import_without_proof_waits_for_mmp_interval_of_owner() {
    /// Twice the silence.
    const WAIT_MIN: Duration = Duration::from_millis(1_600);
    /// The minimum with the library's own settings.
    const WAIT_OF_THE_LIBRARY: Duration = Duration::from_secs(20);
    let machine = TestHost::with_exported_volume();
    machine.ok("pool set tank multihost=on");
    drop(machine.serve("--multihost-silence 800"));
    let started = Instant::now();
    let server = machine.serve("--host-id 0000beef --watch-for-owner");
    let waited = started.elapsed();
    assert!(waited >= WAIT_MIN, "{waited:?}: {}", machine.log());
    assert!(
        waited < WAIT_OF_THE_LIBRARY,
        "{waited:?}: {}",
        machine.log()
    );
    assert_eq!(server.stop(), 0);
}

/// The same file with other contents.
fn overwrite(path: &Path, bytes: &[u8]) {
    let mut file = File::options().write(true).open(path).expect("a disk");
    file.write_all(bytes).expect("written");
}
