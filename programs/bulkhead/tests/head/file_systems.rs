//! File systems by the command line: created, shared, found again after a restart, rolled back, destroyed; with and
//! without a server.

use crate::common::TestHost;

fn host_with_a_pool() -> TestHost {
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank mirror a b");
    machine
}

const NETWORK: &str = "rw=192.0.2.0/24";

#[test]
fn file_system_is_created_shared_renamed_and_destroyed() {
    let machine = host_with_a_pool();
    machine.ok(&format!(
        "filesystem create tank/home --share {NETWORK} --quota 64M --record-size 1M"
    ));
    machine
        .ok("filesystem create tank/home/ann --owner 1000 --group 100 --mode 2770 -o utf8only=on");
    machine.ok("filesystem create tank/home/ann --exist-ok");
    machine.refused("filesystem create tank/home/ann", 4, "it exists already");
    machine.refused(
        "filesystem create tank/a/b/c",
        3,
        "its parent does not exist",
    );
    machine.ok("filesystem create tank/a/b/c --parents");
    for (words, why) in [
        (
            "-o casesensitivity=insensitive",
            "casesensitivity=insensitive is not served",
        ),
        ("-o acltype=posix", "acltype=posix is not served"),
        ("--share on", "shares with everybody"),
        ("--share rw=192.0.2.0/24,speed=high", "is not supported"),
        (
            "--record-size 100K",
            "recordsize: the value is out of range",
        ),
        ("--mode 999", "in octal"),
    ] {
        machine.refused(&format!("filesystem create tank/refused {words}"), 2, why);
    }
    machine.refused("filesystem show tank/refused", 3, "no file system");

    let _server = machine.serve("");
    let list = machine.ok("filesystem list tank --json").json();
    let shared: Vec<_> = list
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| {
            let of = |name: &str| one["share"][name].as_str().unwrap_or_default().to_owned();
            (
                one["name"].as_str().expect("a name").to_owned(),
                of("value"),
                of("from"),
            )
        })
        .collect();
    let row =
        |name: &str, value: &str, from: &str| (name.to_owned(), value.to_owned(), from.to_owned());
    let wanted = [
        row("tank/a", "off", ""),
        row("tank/a/b", "off", ""),
        row("tank/a/b/c", "off", ""),
        row("tank/home", NETWORK, ""),
        row("tank/home/ann", NETWORK, "tank/home"),
    ];
    assert_eq!(shared, wanted);
    let table = machine.ok("filesystem list tank").out;
    assert!(
        table.contains(&format!("{NETWORK} (as tank/home)")),
        "{table}"
    );
    let found = machine
        .ok("filesystem get tank/home/ann utf8only recordsize sharenfs --json")
        .json();
    assert_eq!(found["utf8only"]["value"], "on");
    assert_eq!(found["recordsize"]["value"], "1048576");
    assert_eq!(found["sharenfs"]["source"], "inherited from tank/home");

    machine.refused(
        "filesystem destroy tank/home/ann --yes-destroy-data",
        5,
        "bulkhead filesystem set tank/home/ann sharenfs=off",
    );
    machine.ok("filesystem set tank/home/ann sharenfs=off");
    machine.ok("filesystem rename tank/home/ann tank/ann");
    machine.ok("filesystem destroy tank/ann --yes-destroy-data");
    machine.refused(
        "filesystem destroy tank/home --yes-destroy-data",
        5,
        "is shared with",
    );
    machine.ok("filesystem destroy tank/home --in-use --yes-destroy-data");
    machine.ok("filesystem destroy tank/a --recursive --yes-destroy-data");
    assert_eq!(
        machine.ok("filesystem list tank --json").json(),
        serde_json::json!([])
    );
}

/// Snapshots, schedules and rollbacks cover file systems; datasets that only contain volumes are left out.
#[test]
fn snapshots_include_file_systems() {
    let machine = host_with_a_pool();
    machine.ok("filesystem create tank/home");
    machine.ok("volume create tank/group/v --size 8M --sparse --parents");
    machine.ok("snapshot create tank/home@one");
    machine.refused("snapshot create tank/group@one", 2, "--recursive");
    machine.ok("snapshot create --recursive tank@two");
    let names = |of: &str| -> Vec<String> {
        let all = machine.ok(&format!("snapshot list {of} --json")).json();
        let all = all.as_array().expect("a list").iter();
        all.map(|one| one["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(
        names("tank"),
        ["tank/group/v@two", "tank/home@one", "tank/home@two"]
    );
    let checked = machine.ok("filesystem check tank/home --json").json();
    assert_eq!(
        (&checked["objects"], &checked["fault_count"]),
        (&1.into(), &0.into()),
        "{checked}"
    );
    machine.refused("filesystem rollback tank/home@one", 6, "--destroy-newer");
    machine.ok("filesystem rollback tank/home@one --destroy-newer");
    assert_eq!(names("tank/home"), ["tank/home@one"]);
    let server = machine.serve("");
    machine.ok("filesystem rollback tank/home@one");
    let events = machine.ok("pool events tank").out;
    assert!(
        events.contains("tank/home was taken back to tank/home@one"),
        "{events}"
    );
    assert_eq!(server.stop(), 0, "{}", machine.log());
    machine.ok("filesystem clone tank/home@one tank/copy");
    machine.ok("filesystem promote tank/copy");
    machine.ok("filesystem destroy tank/home --yes-destroy-data");
    machine.ok("snapshot schedule set tank --daily 7");
    let schedules = machine.ok("snapshot schedule list tank --json").json();
    assert_eq!(
        schedules[0]["volumes"],
        serde_json::json!(["tank/copy", "tank/group/v"])
    );
}

/// A key of its own, without which no part of it is readable.
#[test]
fn an_encrypted_file_system_is_locked_until_its_key_is_loaded() {
    let machine = host_with_a_pool();
    std::fs::write(machine.path("key"), [7; 32]).expect("written");
    let key = machine.path("key");
    machine.ok(&format!(
        "filesystem create tank/private --key-format raw --key-location file://{}",
        key.display()
    ));
    let _server = machine.serve("");
    machine.ok("filesystem key unload tank/private");
    let shown = machine.ok("filesystem show tank/private --json").json();
    assert_eq!(shown["locked"], true, "{shown}");
    machine.ok("filesystem key load tank/private");
    let shown = machine.ok("filesystem show tank/private --json").json();
    assert_eq!(shown["locked"], serde_json::Value::Null, "{shown}");
    assert_eq!(shown["properties"]["encryption"]["value"], "aes-256-gcm");
}
