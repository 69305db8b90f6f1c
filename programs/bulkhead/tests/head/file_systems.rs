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

/// Quotas of users are set and read without a server, by a server that has the file system open, and by one that does
/// not; a server that is killed after the reply has them.
#[test]
fn quotas_of_users_are_set_listed_and_survive_a_kill() {
    let machine = host_with_a_pool();
    machine.ok("filesystem create tank/home --owner 1000 --group 100");
    machine.ok("volume create tank/v --size 8M --sparse");
    machine.ok("filesystem set tank/home userquota@1000=10G groupquota@root=1G");
    let quotas = |names: &str| {
        let found = machine.ok(&format!("filesystem get tank/home {names} --json"));
        let found = found.json();
        let names = names.split(' ').map(|name| found[name]["value"].clone());
        names.collect::<Vec<_>>()
    };
    let names = "userquota@1000 userobjused@1000 groupquota@0 projectquota@7";
    assert_eq!(quotas(names), ["10737418240", "1", "1073741824", "0"]);
    for (words, why) in [
        (
            "filesystem set tank/home userquota@1000=much",
            "write a size such as 10G, or none",
        ),
        (
            "filesystem set tank/home userobjquota@1000=1.5",
            "write a number such as 50000",
        ),
        (
            "filesystem set tank/home userused@1000=1G",
            "userquota@1000 limits it",
        ),
        (
            "filesystem set tank/home usrquota@1000=1G",
            "did you mean userquota@1000?",
        ),
        (
            "filesystem set tank/home userquota@no-such-user=1G",
            "id -u",
        ),
        (
            "filesystem set tank/home userquota@1000=1G quota=1G",
            "one command for each",
        ),
        ("filesystem set tank/v userquota@1000=1G", "is a volume"),
        (
            "volume set tank/v userquota@1000=1G",
            "bulkhead filesystem set",
        ),
        (
            "filesystem set tank userquota@1000=1G",
            "is the root of a pool",
        ),
        (
            "filesystem inherit tank/home userquota@1000",
            "the value none removes it",
        ),
        (
            "filesystem create tank/new -o userquota@1000=1G",
            "existing file system",
        ),
    ] {
        machine.refused(words, 2, why);
    }
    machine.refused(
        "filesystem get tank/home usrquota@1000",
        3,
        "did you mean userquota@1000?",
    );

    for share in ["off", NETWORK] {
        machine.ok(&format!("filesystem set tank/home sharenfs={share}"));
        let server = machine.serve("--nfs 127.0.0.1:0");
        let limit = if share == "off" { "2G" } else { "3G" };
        let set = machine.ok(&format!("filesystem set tank/home userquota@1000={limit}"));
        assert!(
            set.out.contains("set userquota@1000 of tank/home"),
            "{}",
            set.out
        );
        server.kill();
        let _server = machine.serve("--nfs 127.0.0.1:0");
        let table = machine.ok("filesystem userspace tank/home").out;
        let rows: Vec<&str> = table.lines().collect();
        assert!(rows[0].starts_with("TYPE"), "{table}");
        assert!(
            rows[1].starts_with("user") && rows[1].contains(limit),
            "{table}"
        );
    }
    machine.ok("snapshot create tank/home@before");
    machine
        .ok("filesystem set tank/home userquota@1000=none projectquota@7=5M userobjquota@1000=5");
    let users = machine.ok("filesystem userspace tank/home --json").json();
    let owner = &users["owners"][0];
    assert_eq!(
        (&owner["id"], &owner["objects"]),
        (&1000.into(), &1.into()),
        "{users}"
    );
    assert_eq!(
        (&owner["quota"], &owner["object_quota"]),
        (&().into(), &5.into()),
        "{users}"
    );
    let before = machine
        .ok("filesystem userspace tank/home@before --json")
        .json();
    assert_eq!(before["owners"][0]["quota"], 3_u64 << 30, "{before}");
    let groups = machine
        .ok("filesystem userspace tank/home --group --sort id --json")
        .json();
    let groups: Vec<_> = groups["owners"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["id"].clone())
        .collect();
    assert_eq!(groups, [0, 100]);
    let projects = machine
        .ok("filesystem userspace tank/home --project -o id,quota")
        .out;
    assert!(
        projects
            .lines()
            .any(|line| line.split_whitespace().eq(["7", "5M"])),
        "{projects}"
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
