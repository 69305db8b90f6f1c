//! A pool with missing devices when it is opened: those that are present may be the ones that fell
//! behind, and their labels do not show it.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::nbd::Nbd;
use crate::common::{TestHost, eventually};

/// Exit code of an action that needs a confirmation of the administrator.
const NEEDS_CONFIRMATION: i32 = 6;
/// Exit code while devices are missing.
const UNAVAILABLE: i32 = 8;
/// Less than the time-out for a server that hangs.
const STATUS_MAX: Duration = Duration::from_secs(10);
/// Starts a server that serves NBD only, with a given wait for missing devices.
const SERVER: &str = "pool-server tank --no-iscsi --no-nbd --wait-for-devices";

/// A detach is interrupted after each third write: there are more between the labels before the uberblock and those
/// after it.
const STEPS_APART: usize = 3;

/// Contents of the first block: the number of the surviving write.
fn write(machine: &TestHost, byte: u8) {
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[byte; 4096]).expect("written");
    client.flush().expect("durable");
}

fn read(machine: &TestHost) -> u8 {
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.read(0, 4096).expect("readable")[0]
}

fn remove_device(machine: &TestHost, disk: &str) {
    std::fs::create_dir_all(machine.path("away")).expect("a folder");
    let away = machine.path("away").join(disk);
    std::fs::rename(machine.path(disk), away).expect("taken away");
}

fn restore_device(machine: &TestHost, disk: &str) {
    let away = machine.path("away").join(disk);
    std::fs::rename(away, machine.path(disk)).expect("brought back");
}

/// `a` fell behind, then the server was killed, and `b` is missing: only old contents are present.
fn with_stale_leg_alone() -> TestHost {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    write(&machine, 1);
    let a = machine.path("a");
    machine.ok(&format!("pool offline tank {}", a.display()));
    write(&machine, 2);
    server.kill();
    remove_device(&machine, "b");
    machine
}

#[test]
fn stale_leg_alone_is_refused_with_reason_and_advice() {
    let machine = with_stale_leg_alone();
    let said = machine.run(&format!("{SERVER} 0"));
    assert_eq!(said.code, NEEDS_CONFIRMATION, "{} {}", said.out, said.err);
    let missing = machine.path("b").display().to_string();
    let command = "bulkhead pool confirm tank --missing-devices-are-not-newer";
    for part in ["tank", &missing, "transaction group", command] {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
    machine.refused("volume list tank", NEEDS_CONFIRMATION, command);

    restore_device(&machine, "b");
    let server = machine.serve("");
    assert_eq!(read(&machine), 2);
    assert_eq!(server.stop(), 0);
}

/// The server has not opened the pool, and is not hung.
fn reports_missing_device_at_once(machine: &TestHost, disk: &str) {
    let missing = format!("{} is missing", machine.path(disk).display());
    let begun = Instant::now();
    let status = machine.run("status tank");
    assert!(begun.elapsed() < STATUS_MAX, "{:?}", begun.elapsed());
    for part in [
        "OPENING",
        &missing,
        "since 20",
        "connect the missing devices",
    ] {
        assert!(
            status.out.contains(part),
            "{part}: {} {}",
            status.out,
            status.err
        );
    }
    assert!(!status.out.contains("-9"), "{}", status.out);
    machine.refused("volume list tank", UNAVAILABLE, &missing);
}

#[test]
fn server_waits_for_late_device_and_serves_its_data() {
    let machine = with_stale_leg_alone();
    let log = std::fs::File::create(machine.path("log")).expect("a log");
    let mut command = machine.command(&format!("{SERVER} 60"));
    command.stdout(Stdio::null()).stderr(log);
    let child = command.spawn().expect("the server starts");
    let server = crate::common::ServerProcess { child };
    eventually("it waits", || machine.log().contains("waiting for devices"));
    reports_missing_device_at_once(&machine, "b");
    restore_device(&machine, "b");
    eventually("it serves", || machine.log().contains("listening"));
    assert_eq!(server.stop(), 0);
    let server = machine.serve("");
    assert_eq!(read(&machine), 2);
    assert_eq!(server.stop(), 0);
}

#[test]
fn confirmation_opens_one_state_of_pool_once() {
    let machine = with_stale_leg_alone();
    let before = std::fs::read(machine.path("a")).expect("readable");
    let confirm = "pool confirm tank";
    machine.refused(
        confirm,
        NEEDS_CONFIRMATION,
        "--missing-devices-are-not-newer",
    );
    let said = machine.ok(&format!("{confirm} --missing-devices-are-not-newer"));
    assert!(said.out.contains("b"), "{}", said.out);
    let server = machine.serve("--wait-for-devices 0");
    assert_eq!(read(&machine), 1);
    server.kill();
    // From now on the label marks `b` as out.
    let server = machine.serve("--wait-for-devices 0");
    assert_eq!(server.stop(), 0);

    // The same refusal again: the confirmation was used up.
    std::fs::write(machine.path("a"), before).expect("written");
    machine.refused(&format!("{SERVER} 0"), NEEDS_CONFIRMATION, "pool confirm");
}

#[test]
fn confirmation_is_invalid_for_another_state() {
    let machine = with_stale_leg_alone();
    machine.ok("pool confirm tank --missing-devices-are-not-newer");
    // Used with all devices present, it has no effect.
    restore_device(&machine, "b");
    let server = machine.serve("");
    write(&machine, 3);
    server.kill();
    remove_device(&machine, "b");
    machine.refused(&format!("{SERVER} 0"), NEEDS_CONFIRMATION, "pool confirm");
}

/// The label of the leg is written first, and then the configuration of the pool without it.
/// Whichever write of a detach was the last one, the remaining device is intact.
#[test]
fn leg_of_interrupted_detach_is_not_newer_than_others() {
    let ends = (0..200)
        .step_by(STEPS_APART)
        .map(detached_until)
        .take_while(|end| *end != DetachEnd::Done);
    let cut_short = ends.filter(|end| *end == DetachEnd::CutShort);
    assert_ne!(cut_short.count(), 0, "no step is after the label");
}

#[derive(Debug, PartialEq, Eq)]
enum DetachEnd {
    BeforeTheLabel,
    CutShort,
    Done,
}

/// Kills the server that detaches `b` after this number of writes to `a`, if it gets there.
fn detached_until(step: u32) -> DetachEnd {
    let machine = TestHost::with_exported_volume();
    let [a, b] = ["a", "b"].map(|disk| machine.path(disk));
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&format!("--leg-faults {}", faults.display()));
    write(&machine, 1);
    std::fs::write(&faults, format!("{} kill-after={step}\n", a.display())).expect("written");
    eventually("it is read", || machine.log().contains("fails on command"));
    let said = machine.run(&format!("pool detach tank {}", b.display()));
    server.kill();
    let end = match has_label(&b) {
        true => DetachEnd::BeforeTheLabel,
        false if said.code == 0 => DetachEnd::Done,
        false => DetachEnd::CutShort,
    };
    if end != DetachEnd::BeforeTheLabel {
        assert_is_healthy_without(&machine, &b);
    }
    end
}

/// `leg` was detached, or is about to be. No data is lost, and the pool needs only the other one.
fn assert_is_healthy_without(machine: &TestHost, leg: &Path) {
    let server = machine.serve("--wait-for-devices 0");
    assert_eq!(read(machine), 1);
    assert_eq!(server.stop(), 0);
    let log = machine.log();
    assert!(!log.contains("is not whole"), "{log}");
    let said = machine.run(&format!("pool detach tank {}", leg.display()));
    let was_detached = said.err.contains("has no device");
    assert!(said.code == 0 || was_detached, "{} {}", said.out, said.err);
}

fn has_label(disk: &Path) -> bool {
    labels::Label::read(disk).expect("readable").is_some()
}

/// `a` fell behind, `b` continued and was replaced by `c`: `b` was detached, and is no evidence that `a` is current.
#[test]
fn detached_leg_is_no_evidence_for_stale_leg() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    machine.ok(&format!(
        "pool offline tank {}",
        machine.path("a").display()
    ));
    write(&machine, 2);
    machine.add_disk("c", 128 << 20);
    let [b, c] = ["b", "c"].map(|disk| machine.path(disk));
    machine.ok(&format!(
        "pool replace tank {} {}",
        b.display(),
        c.display()
    ));
    eventually("the copy is complete", || !has_label(&b));
    server.kill();
    remove_device(&machine, "c");
    machine.refused(&format!("{SERVER} 0"), NEEDS_CONFIRMATION, "pool confirm");
}

/// A drill removes a disk, and then the head.
#[test]
fn leg_failed_while_served_is_marked_and_others_start() {
    let machine = with_failed_leg();
    remove_device(&machine, "a");
    let server = machine.serve("--wait-for-devices 0");
    assert_eq!(read(&machine), 2);
    assert_eq!(server.stop(), 0);
}

fn is_marked(disk: &Path) -> bool {
    let output = std::process::Command::new("/usr/sbin/zdb")
        .arg("-l")
        .arg(disk)
        .output()
        .expect("zdb (package zfsutils-linux) is installed");
    String::from_utf8_lossy(&output.stdout).contains("bulkhead:failed")
}

/// `a` failed under load, the server was killed, and the fault is gone.
fn with_failed_leg() -> TestHost {
    let machine = TestHost::with_exported_volume();
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&format!("--leg-faults {}", faults.display()));
    write(&machine, 1);
    let line = format!("{} gone\n", machine.path("a").display());
    std::fs::write(&faults, line).expect("written");
    // The first writes may still reach both.
    eventually("the leg is marked in the label of the other", || {
        write(&machine, 1);
        is_marked(&machine.path("b"))
    });
    write(&machine, 2);
    server.kill();
    machine
}

/// A disk can be found by its label but not be opened, such as a volume of a SAN that was shrunk.
#[test]
fn unopenable_newer_leg_does_not_revert_to_failed_leg() {
    let machine = with_failed_leg();
    let b = machine.path("b");
    let whole = std::fs::read(&b).expect("readable");
    shrink(&b);
    is_refused_without(&machine, "b");

    std::fs::write(&b, whole).expect("written");
    let server = machine.serve("");
    assert_eq!(read(&machine), 2);
    assert_eq!(server.stop(), 0);
}

#[test]
fn unopenable_device_is_confirmed_like_a_lost_one() {
    let machine = with_stale_leg_alone();
    restore_device(&machine, "b");
    shrink(&machine.path("b"));
    is_refused_without(&machine, "b");

    remove_device(&machine, "b");
    machine.ok("pool confirm tank --missing-devices-are-not-newer");
    let server = machine.serve("--wait-for-devices 0");
    assert_eq!(read(&machine), 1);
    assert_eq!(server.stop(), 0);
}

#[test]
fn unopenable_leg_known_as_stale_does_not_block_start() {
    let machine = with_stale_leg_alone();
    restore_device(&machine, "b");
    shrink(&machine.path("a"));
    let server = machine.serve("--wait-for-devices 0");
    assert_eq!(read(&machine), 2);
    assert_eq!(server.stop(), 0);
}

/// A truncated disk has its first labels, and is too small for the pool.
fn shrink(disk: &Path) {
    let file = std::fs::File::options().write(true).open(disk);
    let file = file.expect("open");
    let bytes = file.metadata().expect("a size").len();
    file.set_len(bytes / 4 * 3).expect("smaller");
}

fn is_refused_without(machine: &TestHost, disk: &str) {
    let said = machine.run(&format!("{SERVER} 0"));
    assert_eq!(said.code, NEEDS_CONFIRMATION, "{} {}", said.out, said.err);
    let what = format!("{} cannot be opened", machine.path(disk).display());
    for part in [&what, "become too small", "pool confirm tank"] {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
}
