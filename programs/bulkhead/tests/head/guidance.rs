//! Responses about devices in trouble, and the commands that they name.

use crate::common::nbd::Nbd;
use crate::common::{TestHost, eventually};
use serde_json::Value;

fn status(machine: &TestHost) -> Value {
    machine.ok("pool status tank --json").json()
}

fn advice(machine: &TestHost) -> String {
    status(machine)["advice"].to_string()
}

/// The disk `b` returns with the contents that it had before the last changes.
#[test]
fn status_without_a_server_shows_the_outdated_side_of_a_mirror() {
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank mirror a b");
    let text = machine.ok("pool status tank").out;
    assert!(!text.contains("outdated"), "{text}");
    std::fs::copy(machine.path("b"), machine.path("old")).expect("copied");
    for number in 0..3 {
        machine.ok(&format!("volume create tank/v{number} --size 8M --sparse"));
    }
    std::fs::rename(machine.path("old"), machine.path("b")).expect("moved");
    let text = machine.ok("pool status tank").out;
    let row = |disk: &str| {
        let path = machine.path(disk).display().to_string();
        let mut rows = text
            .lines()
            .filter(|line| line.trim_start().starts_with(&path));
        rows.next().unwrap_or_default().to_owned()
    };
    let outdated = row("b");
    assert!(
        outdated.contains("ONLINE, outdated")
            && outdated.contains("its newest transaction group is"),
        "{text}"
    );
    assert!(!row("a").contains("outdated"), "{text}");
    assert!(text.contains("`bulkhead pool-server tank`"), "{text}");
    let server = machine.serve("");
    eventually("all data is copied", || {
        !machine.ok("pool status tank").out.contains("outdated")
    });
    assert_eq!(server.stop(), 0);
}

#[test]
fn spare_in_use_is_explained_and_a_second_one_is_refused() {
    let machine = TestHost::with_disks(&["a", "b", "c", "s", "t"]);
    machine.ok("pool create tank mirror a b spare s t");
    let _server = machine.serve("");
    let path = |disk: &str| machine.path(disk).display().to_string();
    let (b, s, t) = (path("b"), path("s"), path("t"));
    machine.ok(&format!("pool offline tank {b}"));
    machine.ok(&format!("pool replace tank {b} {s}"));
    let keep = format!("bulkhead pool detach tank {b}");
    eventually("the spare has all data", || {
        advice(&machine).contains(&keep)
    });
    let text = machine.ok("pool status tank").out;
    assert!(text.contains(&format!("in use for {b}")), "{text}");
    for words in [
        format!("pool replace tank {b} {t}"),
        format!("pool replace-disk tank {b} --with {t} --yes"),
    ] {
        machine.refused(&words, 5, &format!("spare {s} is in use for {b} already"));
        machine.refused(&words, 5, &keep);
    }
    // The redundancy is that of the spare.
    let a = path("a");
    for verb in ["detach", "offline"] {
        let words = format!("pool {verb} tank {a}");
        machine.refused(&words, 6, &format!("{b} is OFFLINE"));
        machine.refused(&words, 6, "survives no loss of a device");
        machine.refused(&words, 6, "--without-redundancy");
    }
    let kept = machine.ok(&format!("pool detach tank {b}")).out;
    assert!(
        kept.contains("mirror-0 survives the loss of one device"),
        "{kept}"
    );
    assert!(!advice(&machine).contains(&s), "{}", advice(&machine));
}

#[test]
fn redundancy_left_by_a_detach_or_offline_is_in_the_response() {
    let machine = TestHost::with_disks(&["a", "b", "c"]);
    machine.ok("pool create tank mirror a b c");
    let _server = machine.serve("");
    let path = |disk: &str| machine.path(disk).display().to_string();
    let (a, b, c) = (path("a"), path("b"), path("c"));
    let first = machine.ok(&format!("pool offline tank {c}")).out;
    assert!(
        first.contains("mirror-0 survives the loss of one device"),
        "{first}"
    );
    let second = format!("pool offline tank {b}");
    machine.refused(
        &second,
        6,
        &format!("{c} is OFFLINE, and without {b} mirror-0"),
    );
    let states = status(&machine)["devices"].to_string();
    assert_eq!(
        states.matches("OFFLINE").count(),
        1,
        "nothing was changed: {states}"
    );
    let second = machine.ok(&format!("{second} --without-redundancy")).out;
    let last = format!("{a} is the only device with the data of mirror-0 now");
    assert!(second.contains(&last), "{second}");
}

#[test]
fn unused_space_of_larger_devices_is_in_the_response() {
    let machine = TestHost::with_disks(&["a", "c"]);
    machine.add_disk("b", 512 << 20);
    machine.add_disk("d", 512 << 20);
    let note = |large: &str, small: &str| {
        let path = |disk: &str| machine.path(disk).display().to_string();
        let (large, small) = (path(large), path(small));
        format!("384M of {large} stay unused, because {small} has 128M only")
    };
    let created = machine.ok("pool create tank mirror a b").out;
    assert!(created.contains(&note("b", "a")), "{created}");
    let server = machine.serve("");
    let plan = machine.ok("pool plan tank add mirror c d --json").json();
    assert!(
        plan["notes"].to_string().contains(&note("d", "c")),
        "{plan}"
    );
    let added = machine.ok("pool add tank mirror c d").out;
    assert!(added.contains(&note("d", "c")), "{added}");
    assert_eq!(server.stop(), 0);
    machine.add_disk("e", 128 << 20);
    machine.add_disk("f", 128 << 20);
    let same = machine.ok("pool create attic mirror e f").out;
    assert!(!same.contains("unused"), "{same}");
    machine.refused(
        "pool create shed e spare",
        2,
        "there is no device after spare",
    );
}

#[test]
fn status_of_a_suspended_pool_names_the_devices_that_failed() {
    let machine = TestHost::with_exported_volume();
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let _server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    machine.remove_disks(&faults);
    let writer =
        std::thread::spawn(move || client.write(0, &[1; 65_536]).and_then(|()| client.flush()));
    eventually("the failed devices are named", || {
        let status = status(&machine);
        let why = status["advice"][0]["why"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let names = ["a", "b"].map(|disk| machine.path(disk).display().to_string());
        status["suspended"] == true && names.iter().all(|name| why.contains(name.as_str()))
    });
    std::fs::write(&faults, "").expect("written");
    eventually("it goes on", || machine.run("pool clear tank").code == 0);
    writer.join().expect("no panic").expect("written");
}
