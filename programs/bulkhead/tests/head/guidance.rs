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
        outdated.contains("ONLINE, outdated") && outdated.contains("lacks data"),
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
