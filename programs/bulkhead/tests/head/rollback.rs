//! Volumes that are rolled back to a snapshot: while clients are connected, without a server, and
//! the refusals. `proof.rollback` tests it under load and with kills.

use crate::common::TestHost;
use crate::common::nbd::Nbd;

/// A host with a volume of 1s in a snapshot `old`, and 2s since.
fn host_with_snapshots() -> TestHost {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    let mut client = connect(&machine);
    client.write(0, &[1; 65_536]).expect("written");
    machine.ok("snapshot create tank/v@old");
    client.write(0, &[2; 65_536]).expect("written");
    client.flush().expect("flushed");
    assert_eq!(server.stop(), 0, "{}", machine.log());
    machine
}

fn connect(machine: &TestHost) -> Nbd {
    Nbd::connect(&machine.nbd_socket(), "v").expect("connected")
}

#[test]
fn connected_client_continues_after_rollback() {
    let machine = host_with_snapshots();
    let _server = machine.serve("");
    let mut client = connect(&machine);
    client.write(8192, &[3; 4096]).expect("written");
    let done = machine.ok("volume rollback tank/v@old --json").json();
    assert!(
        done["pause_ms"].as_u64() <= done["took_ms"].as_u64(),
        "{done}"
    );
    assert_eq!(done["connections_closed"], 0);
    assert_eq!(
        client.read(0, 65_536).expect("the same connection"),
        [1; 65_536]
    );
    client.write(0, &[4; 4096]).expect("written");
    client.flush().expect("flushed");
    // Again: the second rollback discards the writes after the first.
    let said = machine.ok("volume rollback tank/v@old");
    assert!(said.out.contains("clients waited for"), "{}", said.out);
    assert_eq!(client.read(0, 65_536).expect("still"), [1; 65_536]);
    let events = machine.ok("pool events tank").out;
    assert!(events.contains("was taken back to a snapshot"), "{events}");
}

#[test]
fn rollback_without_server_works_also_after_crash() {
    let machine = host_with_snapshots();
    let server = machine.serve("");
    let mut client = connect(&machine);
    client.write(16_384, &[5; 4096]).expect("written");
    client.flush().expect("in the log");
    server.kill();
    let done = machine.ok("volume rollback tank/v@old --json").json();
    assert!(done["pause_ms"].is_null(), "{done}");
    let _server = machine.serve("");
    let read = connect(&machine).read(0, 65_536).expect("read");
    assert_eq!(read, [1; 65_536], "no log is replayed over it");
}

#[test]
fn rollback_lists_newer_snapshots_and_changes_nothing() {
    let machine = host_with_snapshots();
    let _server = machine.serve("");
    machine.ok("snapshot create tank/v@new1");
    machine.ok("snapshot create tank/v@new2");
    machine.ok("snapshot clone tank/v@new2 tank/copy");
    let words = "volume rollback tank/v@old";
    machine.refused(
        &format!("{words} --destroy-newer"),
        5,
        "1 clone(s): tank/copy",
    );
    machine.ok("volume destroy tank/copy --yes-destroy-data");
    machine.refused(
        words,
        6,
        "2 newer snapshot(s), which would be lost: new1, new2",
    );
    machine.ok("snapshot bookmark tank/v@new1 sent");
    machine.refused(
        words,
        6,
        "3 newer snapshot(s) and bookmark(s), which would be lost: new1, new2, #sent",
    );
    machine.refused("volume rollback tank/v@none", 3, "no snapshot tank/v@none");
    machine.refused("volume rollback tank/none@old", 3, "no volume tank/none");
    assert_eq!(connect(&machine).read(0, 512).expect("read"), [2; 512]);
    let done = machine
        .ok(&format!("{words} --destroy-newer --json"))
        .json();
    assert_eq!(
        done["destroyed"],
        serde_json::json!(["tank/v@new1", "tank/v@new2"])
    );
    assert_eq!(connect(&machine).read(0, 512).expect("read"), [1; 512]);
    let left = machine.ok("snapshot list tank/v --json").json();
    assert_eq!(left.as_array().map(Vec::len), Some(1), "{left}");
}

#[test]
fn rollback_of_size_closes_connections_and_keeps_identity() {
    let machine = host_with_snapshots();
    let _server = machine.serve("");
    let show = |what: &str| machine.ok("volume show tank/v --json").json()[what].clone();
    let (identity, exports) = (show("identity"), show("exports"));
    machine.ok("volume resize tank/v --size 64M");
    let mut client = connect(&machine);
    client.write(48 << 20, &[7; 4096]).expect("written");
    let done = machine.ok("volume rollback tank/v@old --json").json();
    assert_eq!(done["size"], 32 << 20);
    assert_eq!(done["connections_closed"], 1);
    assert!(client.read(0, 512).is_err(), "closed, not answered");
    let mut client = connect(&machine);
    assert_eq!(client.size, 32 << 20);
    assert_eq!(client.read(0, 512).expect("read"), [1; 512]);
    assert_eq!((show("identity"), show("exports")), (identity, exports));
}

#[test]
fn clones_are_promoted_and_origins_destroyed_under_clients() {
    let machine = host_with_snapshots();
    let _server = machine.serve("");
    let mut client = connect(&machine);
    machine.ok("snapshot clone tank/v@old tank/copy");
    machine.ok("nbd export tank/copy --name copy");
    let copy = || Nbd::connect(&machine.nbd_socket(), "copy").expect("connected");
    let mut other = copy();
    assert_eq!(other.read(0, 4096).expect("read"), [1; 4096]);
    other.write(0, &[6; 4096]).expect("written");
    assert_eq!(client.read(0, 4096).expect("apart"), [2; 4096]);
    let identity = |volume: &str| {
        let shown = machine.ok(&format!("volume show {volume} --json")).json();
        shown["identity"].clone()
    };
    let (of_origin, of_clone) = (identity("tank/v"), identity("tank/copy"));
    for member in ["naa", "eui", "serial"] {
        assert_ne!(of_origin[member], of_clone[member], "{member}");
    }
    let destroy = "volume destroy tank/v --yes-destroy-data --recursive --exported";
    machine.refused(destroy, 5, "tank/copy is a clone of tank/v@old");
    machine.refused("snapshot destroy tank/v@old --yes-destroy-data", 5, "clone");
    machine.ok("volume promote tank/copy");
    assert_eq!(other.read(0, 4096).expect("the same connection"), [6; 4096]);
    client
        .write(4096, &[7; 4096])
        .expect("the origin continues, too");
    client.flush().expect("flushed");
    // The snapshot belongs to the clone now, which can be rolled back to it.
    machine.refused("volume rollback tank/v@old", 3, "no snapshot tank/v@old");
    machine.ok("volume rollback tank/copy@old");
    assert_eq!(other.read(0, 4096).expect("read"), [1; 4096]);
    machine.ok(destroy);
    assert!(client.read(0, 512).is_err(), "its export has ended");
    other.write(0, &[8; 4096]).expect("written");
    assert_eq!(identity("tank/copy"), of_clone);
    assert_eq!(other.read(0, 4096).expect("read"), [8; 4096]);
}

/// Whole blocks are compared: one of zeroes is freed.
#[test]
fn diff_shows_written_and_freed_blocks() {
    let machine = TestHost::with_exported_volume();
    let _server = machine.serve("");
    let mut client = connect(&machine);
    client.write(0, &[1; 65_536]).expect("written");
    machine.ok("snapshot create tank/v@one");
    client.write(0, &[0; 16_384]).expect("written");
    client.write(32_768, &[2; 512]).expect("written");
    client.write(1 << 20, &[3; 32_768]).expect("written");
    let expected = serde_json::json!([
        {"offset": 0, "length": 16_384, "freed": true},
        {"offset": 32_768, "length": 16_384},
        {"offset": 1 << 20, "length": 32_768},
    ]);
    let check = |words: &str| {
        let view = machine.ok(&format!("snapshot diff {words} --json")).json();
        assert_eq!(view["extents"], expected, "{words}");
        assert_eq!(
            (&view["written"], &view["freed"]),
            (&49_152.into(), &16_384.into())
        );
    };
    // Unflushed writes of a client are included.
    check("tank/v@one");
    machine.ok("snapshot create tank/v@two");
    check("tank/v@one two");
    check("tank/v@one tank/v@two");
    let nothing = machine.ok("snapshot diff tank/v@two").out;
    assert!(nothing.contains("in 0 extent(s)"), "{nothing}");
    let text = machine.ok("snapshot diff tank/v@one two").out;
    assert!(
        text.contains("48K written and 16K freed, in 3 extent(s)"),
        "{text}"
    );

    machine.refused("snapshot diff tank/v@two one", 2, "older than");
    machine.refused("snapshot diff tank/v@none", 3, "no snapshot");
    machine.ok("filesystem create tank/home");
    machine.ok("snapshot create tank/home@one");
    machine.refused("snapshot diff tank/home@one", 2, "is a file system");
    let left = machine.ok("snapshot list tank/v --json").json();
    assert_eq!(left.as_array().map(Vec::len), Some(2), "{left}");
}
