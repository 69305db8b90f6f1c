//! Results and refusals of commands state what happened: no success without effect, no advice that cannot be followed.

use std::fs::File;
use std::io::Write as _;

use crate::common::nbd::Nbd;
use crate::common::{CommandOutput, TestHost, eventually};

/// Exit code for an object in use.
const BUSY: i32 = 5;
const MIB: u64 = 1 << 20;

#[test]
fn online_of_a_device_that_stays_unusable_fails_with_its_reason() {
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank mirror a b");
    let server = machine.serve("");
    let lost = machine.path("a");
    let file = File::options().write(true).open(&lost).expect("a disk");
    file.set_len(0).expect("truncated");
    machine.ok("pool scrub tank --wait");
    eventually("the device is out", || {
        machine.ok("pool status tank").out.contains("UNAVAIL")
    });
    for verb in ["online", "clear"] {
        let refused = machine.run(&format!("pool {verb} tank {}", lost.display()));
        assert_ne!(refused.code, 0, "{verb}: {}", refused.out);
        let reason = "is still UNAVAIL: it has become too small";
        assert!(refused.err.contains(reason), "{verb}: {}", refused.err);
        assert!(
            refused.err.contains("pool replace tank"),
            "{verb}: {}",
            refused.err
        );
    }
    let cleared = machine.ok("pool clear tank").out;
    assert!(cleared.contains("is still UNAVAIL"), "{cleared}");
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn online_of_a_device_that_was_offline_succeeds() {
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank mirror a b");
    let device = machine.path("a");
    machine.ok(&format!("pool offline tank {}", device.display()));
    let online = machine.ok(&format!("pool online tank {} --json", device.display()));
    assert_eq!(online.json()["changed"], true);
}

#[test]
fn spare_that_can_replace_no_device_is_refused() {
    let machine = TestHost::with_disks(&["a", "b", "c", "e"]);
    machine.add_disk("small", 80 * MIB);
    machine.add_disk("f", 256 * MIB);
    machine.add_disk("g", 256 * MIB);
    let small = "has 80M and can replace no device of the pool";
    machine.refused("pool create tank mirror a b spare small", 2, small);
    machine.ok("pool create tank mirror a b");
    let server = machine.serve("");
    machine.refused("pool add tank spare small", 6, small);
    machine.refused("pool add tank spare small", 6, "the smallest needs 1");
    let added = machine.ok("pool add tank spare small --mismatched").out;
    assert!(added.contains("pool tank has a spare more: "), "{added}");
    assert!(added.contains("small is too small for "), "{added}");
    eventually("the status has a note", || {
        let status = machine.ok("pool status tank").out;
        status.contains("too small for ")
    });

    let log = machine.ok("pool add tank log c").out;
    assert!(log.contains("pool tank has a log more: "), "{log}");
    let wider = machine.ok("pool add tank mirror f g").out;
    assert!(wider.contains("pool tank is wider"), "{wider}");
    let spare = machine.ok("pool add tank spare e").out;
    let warning = format!("warning: {}", machine.path("e").display());
    assert!(spare.contains(&warning), "{spare}");
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn dry_run_of_a_destroy_names_the_connected_clients() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    let client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    let users = "tank/v is exported, and in use by ";
    machine.refused("volume destroy tank/v --yes-destroy-data", BUSY, users);
    let shown = machine.ok("volume destroy tank/v --exported --dry-run").out;
    assert!(shown.contains(users), "{shown}");
    machine.ok("volume destroy tank/v --exported --in-use --yes-destroy-data");
    drop(client);
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn advice_of_a_file_system_names_an_option_that_it_has() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/vms/v --size 16M --sparse --parents");
    machine.ok("nbd export tank/vms/v --name v");
    let destroy = "filesystem destroy tank/vms --recursive --yes-destroy-data";
    machine.refused(destroy, BUSY, "or add --in-use");
    machine.ok(&format!("{destroy} --in-use --shared"));
}

#[test]
fn status_shows_the_nfs_address_before_the_first_share() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("filesystem create tank/home");
    let server = machine.serve("--nfs 127.0.0.1:12949");
    let line = || -> String {
        let text = machine.ok("status tank").out;
        let line = text.lines().find(|line| line.starts_with("nfs:"));
        line.unwrap_or_default().to_owned()
    };
    let unshared = "nfs:      127.0.0.1:12949 (opens with the first share)";
    assert_eq!(line(), unshared);
    machine.ok("filesystem set tank/home sharenfs=rw=127.0.0.1");
    eventually("it is open", || line() == "nfs:      127.0.0.1:12949");
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn missing_base_of_a_send_is_named() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/v --size 16M --sparse");
    machine.ok("snapshot create tank/v@2");
    for base in ["@1", "#1"] {
        let missing = format!("its base tank/v{base} does not exist");
        machine.refused(
            &format!("snapshot send tank/v@2 --from {base}"),
            3,
            &missing,
        );
    }
    machine.refused("snapshot send tank/v@3 --from @2", 3, "tank/v@3");
}

#[test]
fn refused_property_of_a_new_pool_is_explained() {
    let machine = TestHost::with_disks(&["a"]);
    for (option, part) in [
        ("asfhit=12", "did you mean ashift?"),
        ("autoexpand=yes", "valid values: on, off"),
        (
            "compression=lz4",
            "`bulkhead filesystem set tank compression=lz4`",
        ),
        ("nonsense=1", "a new pool can have: ashift"),
        ("ashift=99", "choose 9 (512 bytes) to 16"),
    ] {
        machine.refused(&format!("pool create tank a -o {option}"), 2, part);
    }
    machine.ok("pool create tank a -o autoexpand=on -o ashift=12");
}

fn receive(machine: &TestHost, words: &str, stream: &[u8]) -> CommandOutput {
    let path = machine.path("stream");
    let mut file = File::create(&path).expect("a file");
    file.write_all(stream).expect("written");
    let mut command = machine.command(words);
    command.stdin(File::open(&path).expect("a file"));
    let output = command.output().expect("it runs");
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn short_stream_is_not_reported_as_interrupted() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    for (stream, part) in [
        (&b""[..], "the stream is empty"),
        (
            b"12345678",
            "this is no ZFS send stream: it has only 8 bytes",
        ),
    ] {
        let refused = receive(&machine, "snapshot receive tank/copy", stream);
        assert_eq!(refused.code, 1, "{}", refused.err);
        assert!(refused.err.contains(part), "{}", refused.err);
        assert!(!refused.err.contains("token"), "{}", refused.err);
    }
}

#[test]
fn advice_after_an_interrupted_receive_has_the_name() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/v --size 16M --sparse");
    machine.ok("snapshot create tank/v@1");
    let send = machine.command("snapshot send tank/v@1").output();
    let stream = send.expect("it runs").stdout;
    let words = "snapshot receive tank/copy --resumable";
    let cut = receive(&machine, words, &stream[..stream.len() - 100]);
    assert_ne!(cut.code, 0, "{}", cut.out);
    assert!(cut.err.contains("cut off"), "{}", cut.err);
    let again = receive(&machine, words, &stream);
    assert_eq!(again.code, BUSY, "{}", again.err);
    let advice = "`bulkhead snapshot receive tank/copy --token`";
    assert!(again.err.contains(advice), "{}", again.err);
}

#[test]
fn detach_that_grows_the_pool_reports_it() {
    let machine = TestHost::with_disks(&["a"]);
    machine.add_disk("large", 512 * MIB);
    machine.ok("pool create tank mirror a large -o autoexpand=on");
    let small = machine.path("a");
    let detached = machine.ok(&format!("pool detach tank {}", small.display()));
    let out = &detached.out;
    assert!(out.contains("pool tank has grown from "), "{out}");
    assert!(out.contains("too small to be attached again"), "{out}");
}
