//! Frozen volumes: writes of a connected client are blocked, and reads are not.

use std::time::{Duration, Instant};

use crate::common::nbd::Nbd;
use crate::common::{TestHost, eventually};

/// A volume that two clients can use.
fn connect(machine: &TestHost) -> Nbd {
    Nbd::connect(&machine.nbd_socket(), "v").expect("connected")
}

#[test]
fn write_waits_for_thaw_and_snapshot_has_earlier_writes() {
    let machine = TestHost::with_exported_volume();
    let _server = machine.serve("");
    let mut client = connect(&machine);
    client.write(0, &[1; 65_536]).expect("written");
    machine.ok("volume freeze tank/v --for 60s");
    let frozen = machine.ok("volume show tank/v --json").json()["frozen"].clone();
    let lasts_ms = frozen["until_ms"].as_u64().expect("an end")
        - frozen["since_ms"].as_u64().expect("a start");
    assert!((60_000..70_000).contains(&lasts_ms), "{frozen}");
    assert!(machine.ok("status").out.contains("frozen:   tank/v since"));
    let mut writer = connect(&machine);
    std::thread::scope(|scope| {
        let write = scope.spawn(|| {
            writer.write(0, &[2; 65_536]).expect("no error");
            Instant::now()
        });
        assert_eq!(client.read(0, 65_536).expect("reads continue"), [1; 65_536]);
        client.flush().expect("nothing is left to flush");
        machine.ok("snapshot create tank/v@copy");
        machine.refused(
            "volume destroy tank/v --recursive --exported --yes-destroy-data",
            5,
            "is frozen until",
        );
        machine.refused("volume resize tank/v --size 64M", 5, "is frozen until");
        machine.refused("volume rollback tank/v@copy", 5, "is frozen until");
        machine.refused("volume rename tank/v tank/w", 5, "is frozen until");
        machine.refused("volume freeze tank/v --for 61s", 2, "no time for a freeze");
        machine.ok("volume freeze tank/v --for 30s");
        let before = Instant::now();
        assert!(!write.is_finished(), "it is frozen");
        machine.ok("volume thaw tank/v");
        assert!(write.join().expect("no panic") >= before);
    });
    assert_eq!(client.read(0, 65_536).expect("read"), [2; 65_536]);
    machine.refused("volume thaw tank/v", 4, "tank/v is not frozen");
    machine.ok("volume rollback tank/v@copy");
    assert_eq!(client.read(0, 65_536).expect("read"), [1; 65_536]);
}

#[test]
fn a_freeze_that_expires_is_an_event_and_the_thaw_fails() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    let mut client = connect(&machine);
    machine.ok("volume freeze tank/v --for 1s");
    let begun = Instant::now();
    client.write(0, &[1; 512]).expect("it continues by itself");
    assert!(begun.elapsed() < Duration::from_secs(30));
    machine.refused("volume thaw tank/v", 4, "the freeze of tank/v expired at");
    eventually("the event of the expiry", || {
        machine
            .ok("pool events tank")
            .out
            .contains("freeze_expired")
    });
    // The exit of the server thaws it, before its bound.
    machine.ok("volume freeze tank/v --for 60s");
    let begun = Instant::now();
    assert_eq!(server.stop(), 0, "{}", machine.log());
    assert!(begun.elapsed() < Duration::from_secs(50));
    let _server = machine.serve("");
    machine.refused("volume thaw tank/v", 4, "tank/v is not frozen");
}

#[test]
fn all_volumes_are_frozen_or_none() {
    let machine = TestHost::with_exported_volume();
    machine.ok("volume create tank/w --size 16M --sparse");
    let _server = machine.serve("");
    machine.refused("volume freeze tank/v tank/w", 8, "no client can use tank/w");
    machine.refused("volume thaw tank/v", 4, "tank/v is not frozen");
    machine.ok("nbd export tank/w --name w");
    machine.ok("volume freeze tank/v tank/w --for 60s");
    machine.ok("volume thaw tank/w");
    machine.refused(
        "volume freeze tank/v tank/w",
        5,
        "some of the volumes are frozen already",
    );
    machine.refused("volume thaw tank/v tank/w", 4, "tank/w is not frozen");
    connect(&machine)
        .write(0, &[1; 512])
        .expect("all were thawed");
}
