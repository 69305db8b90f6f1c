//! The command line without a server: it opens the pool itself. Its refusals, with their exit codes
//! and sentences.

use crate::common::TestHost;

#[test]
fn pool_is_created_filled_listed_and_destroyed() {
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank mirror a b");
    machine.ok("volume create tank/v --size 16M --block-size 8K --sparse --compression zstd-3");
    machine.ok("volume create tank/deep/er/w --size 16M --sparse --parents");
    let volumes = machine.ok("volume list tank --json").json();
    assert_eq!(volumes[0]["name"], "tank/deep/er/w");
    assert_eq!(volumes[1]["block_size"], 8192);
    let pools = machine.ok("pool list --json").json();
    assert_eq!(pools[0]["name"], "tank");
    assert_eq!(pools[0]["state"], "exported");
    let status = machine.ok("pool status tank --json").json();
    assert_eq!(status["health"], "ONLINE");
    assert_eq!(
        status["devices"][0]["members"].as_array().map(Vec::len),
        Some(2)
    );
    machine.ok("pool destroy tank --yes-destroy-all-data");
    machine.refused("pool status tank", 3, "no pool tank");
}

#[test]
fn lists_have_parts_an_order_and_columns() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    for (name, size) in [("vms/a", "8M"), ("vms/b", "32M"), ("vms2", "16M")] {
        machine.ok(&format!(
            "volume create tank/{name} --size {size} --sparse --parents"
        ));
    }
    machine.ok("filesystem create tank/home");
    let listed = |words: &str| -> Vec<String> {
        let text = machine.ok(words).out;
        let lines = text.lines().skip(1);
        let first = lines.filter_map(|line| line.split_whitespace().next());
        first.map(str::to_owned).collect()
    };
    assert_eq!(listed("volume list tank/vms"), ["tank/vms/a", "tank/vms/b"]);
    assert_eq!(listed("volume list tank/vms2"), ["tank/vms2"]);
    assert_eq!(listed("volume list tank/v*2"), ["tank/vms2"]);
    assert_eq!(listed("volume list ?"), ["tank/vms/a", "tank/vms/b"]);
    assert_eq!(listed("filesystem list h*"), ["tank/home"]);
    let spaces = ["tank/vms", "tank/vms/a", "tank/vms/b"];
    assert_eq!(listed("volume space tank/vms"), spaces);
    assert_eq!(
        listed("volume list tank --sort size"),
        ["tank/vms/a", "tank/vms2", "tank/vms/b"]
    );
    let largest = machine.ok("volume list tank --sort size --reverse --json");
    assert_eq!(largest.json()[0]["name"], "tank/vms/b");
    let table = machine.ok("volume list tank/vms -o size,name").out;
    assert_eq!(table, "SIZE  NAME\n  8M  tank/vms/a\n 32M  tank/vms/b\n");

    const TARGET: &str = "iqn.2026-01.org.example:tank";
    machine.ok(&format!("target create {TARGET}"));
    machine.ok(&format!("target map {TARGET} tank/vms/a"));
    machine.ok("nbd export tank/vms2 --name disk");
    for (words, count) in [
        ("target list tank/vms", 1),
        ("target list tank/vms2", 0),
        ("target list iqn.*:t*", 1),
        ("nbd list tank/vms2", 1),
        ("nbd list tank/vms/*", 0),
        ("nbd list d*", 1),
    ] {
        let list = machine.ok(&format!("{words} --json")).json();
        assert_eq!(
            list.as_array().map(Vec::len),
            Some(count),
            "{words}: {list}"
        );
    }
    assert!(machine.ok("volume list").out.contains(" iscsi:tank/0"));

    for list in ["volume", "filesystem", "target", "nbd"] {
        machine.refused(
            &format!("{list} list tank/none"),
            3,
            "tank/none does not exist",
        );
    }
    machine.refused("volume list --sort age", 2, "possible values: name, size");
    let refused = machine.run("volume list -o name --json");
    assert_eq!(refused.code, 2, "{}", refused.out);
    assert!(
        refused.out.contains("--json has all fields"),
        "{}",
        refused.out
    );
}

/// No command destroys a held snapshot, and the refusal names the hold.
#[test]
fn held_snapshot_is_not_destroyed_until_it_is_released() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/v --size 16M --sparse");
    machine.ok("filesystem create tank/home");
    for name in ["tank/v@1", "tank/v@2", "tank/home@1"] {
        machine.ok(&format!("snapshot create {name}"));
    }
    machine.ok("snapshot hold backup tank/v@2 tank/home@*");
    let again = machine.ok("snapshot hold backup tank/v@2 --json").json();
    assert_eq!(again["changed"], false);
    let holds = machine.ok("snapshot holds tank/v --json").json();
    assert_eq!(holds.as_array().map(Vec::len), Some(1), "{holds}");
    assert_eq!(
        (&holds[0]["snapshot"], &holds[0]["tag"]),
        (&"tank/v@2".into(), &"backup".into())
    );
    assert!(machine.ok("snapshot holds").out.contains("tank/home@1"));

    for (words, held) in [
        ("snapshot destroy tank/v@2 --yes-destroy-data", "tank/v@2"),
        ("snapshot destroy tank/v@* --yes-destroy-data", "tank/v@2"),
        ("snapshot rollback tank/v@1 --destroy-newer", "tank/v@2"),
        (
            "volume destroy tank/v --recursive --yes-destroy-data",
            "tank/v@2",
        ),
        (
            "filesystem destroy tank/home --recursive --yes-destroy-data",
            "tank/home@1",
        ),
    ] {
        machine.refused(words, 5, &format!("{held} is held by backup"));
        machine.refused(
            words,
            5,
            &format!("bulkhead snapshot release backup {held}"),
        );
    }
    // All were refused before any change.
    let left = machine.ok("snapshot list tank --json").json();
    assert_eq!(left.as_array().map(Vec::len), Some(3), "{left}");

    machine.ok("snapshot release backup tank/v@2 tank/home@1");
    assert_eq!(
        machine.ok("snapshot holds tank").out,
        "no snapshot is held\n"
    );
    machine.ok("snapshot rollback tank/v@1 --destroy-newer");
    machine.ok("filesystem destroy tank/home --recursive --yes-destroy-data");
}

#[test]
fn bookmarks_are_listed_and_destroyed() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/v --size 16M --sparse");
    machine.ok("snapshot create tank/v@1");
    machine.ok("snapshot bookmark tank/v@1 sent");
    let marks = machine.ok("snapshot bookmarks --json").json();
    assert_eq!(marks[0]["name"], "tank/v#sent");
    let snapshots = machine.ok("snapshot list tank/v --json").json();
    assert_eq!(marks[0]["created_unix_s"], snapshots[0]["created_unix_s"]);
    assert!(
        machine
            .ok("snapshot bookmarks tank/v")
            .out
            .contains("tank/v#sent")
    );
    machine.refused("snapshot destroy-bookmark tank/v", 2, "POOL/NAME#MARK");
    machine.ok("snapshot destroy-bookmark tank/v#sent");
    assert_eq!(
        machine.ok("snapshot bookmarks tank --json").json(),
        serde_json::json!([])
    );
}

#[test]
fn commands_may_be_repeated() {
    let machine = TestHost::with_disks(&["a"]);
    const TARGET: &str = "iqn.2026-01.org.example:tank";
    machine.ok("pool create tank a");
    for changed in [true, false] {
        for words in [
            "volume create tank/v --size 16M --exist-ok".to_owned(),
            format!("target create {TARGET}"),
            format!("target map {TARGET} tank/v"),
            format!("target allow {TARGET} --network 10.0.0.0/8"),
            "nbd export tank/v --name v".to_owned(),
            "volume resize tank/v --size 32M".to_owned(),
        ] {
            if words.contains("create tank/v") && !changed {
                continue;
            }
            let said = machine.ok(&format!("{words} --json")).json();
            assert_eq!(said["changed"], changed, "{words}");
        }
    }
}

#[test]
fn invalid_input_is_refused_with_stable_exit_code() {
    let machine = TestHost::with_disks(&["a", "b", "c"]);
    machine.add_disk("small", 1 << 20);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/v --size 16M --sparse");
    for (words, code, part) in [
        ("pool create other missing", 3, "does not exist"),
        ("pool create other small", 2, "too small"),
        ("pool create other a", 5, "belongs to pool tank"),
        ("pool create tank b", 4, "choose another name"),
        ("pool create mirror1 b", 2, "ZFS's own"),
        ("pool create other mirror b", 2, "at least 2"),
        ("pool create other b --property ashift=99", 2, "ashift"),
        ("volume create tank/v --size 16M", 4, "exists already"),
        ("volume create tank/w --size 10000", 2, "multiple"),
        ("volume create tank/a/b --size 16M", 3, "--parents"),
        ("volume create tank/w% --size 16M", 2, "letters, digits"),
        ("volume create tank/w --size 10T", 9, "space"),
        (
            "volume create tank/w --size 16M --compression best",
            2,
            "compression",
        ),
        ("volume resize tank/v --size 8M", 6, "--allow-shrink"),
        ("volume resize tank/v --size 10000", 2, "multiple"),
        ("volume destroy tank/v", 6, "--yes-destroy-data"),
        ("volume destroy tank/w --yes-destroy-data", 3, "no volume"),
        ("volume show tank/w", 3, "tank/w"),
        ("volume set tank/v bulkhead:export=x", 2, "Bulkhead's own"),
        (
            "snapshot destroy tank/v@x --yes-destroy-data",
            3,
            "tank/v@x",
        ),
        (
            "target map iqn.2026-01.org.example:x tank/v",
            3,
            "no target",
        ),
        ("target show iqn.2026-01.org.example:x", 3, "no target"),
        ("target create iqn.2026-13.org.example:x", 2, "a month"),
        ("volume create tank/w --size 64G", 9, "--sparse"),
        ("pool create attic mirrr a b", 2, "mean mirror"),
        ("pool destroy tank", 6, "--yes-destroy-all-data"),
        ("pool detach tank nothing", 3, "no device"),
        ("pool status other", 3, "--search"),
        ("volume frobnicate", 2, "unrecognized"),
    ] {
        machine.refused(words, code, part);
    }
    let said = machine.run("volume show tank/w --json");
    assert_eq!(said.json()["failure"]["kind"], "not_found");
    assert_eq!(said.json()["exit_code"], 3);
}

#[test]
fn a_secret_is_read_from_a_file_and_never_shown() {
    const TARGET: &str = "iqn.2026-01.org.example:tank";
    const SECRET: &str = "hush-hush-hush";
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok(&format!("target create {TARGET}"));
    std::fs::write(machine.path("secret"), format!("{SECRET}\n")).expect("written");
    let set = format!("target chap set {TARGET} --user ann --secret-file");
    machine.ok(&format!("{set} secret"));
    std::fs::write(machine.path("short"), "short\n").expect("written");
    machine.refused(&format!("{set} short"), 2, "at least 12");
    machine.refused(&format!("{set} nowhere"), 3, "nowhere");
    machine.refused(
        &format!("target chap set {TARGET} --user ann"),
        2,
        "--secret-file",
    );
    let shown = machine.ok(&format!("target show {TARGET} --json"));
    assert_eq!(shown.json()["chap_users"][0], "ann");
    for words in [
        format!("target show {TARGET} --json"),
        "status tank --json".to_owned(),
        "volume get tank --json".to_owned(),
        format!("volume get tank bulkhead:target:{TARGET} --json"),
    ] {
        let said = machine.run(&words);
        assert!(
            !said.out.contains(SECRET) && !said.err.contains(SECRET),
            "{words}"
        );
    }
}

#[test]
fn identities_survive_renames_and_are_not_cloned() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/v --size 16M --sparse");
    let naa = |volume: &str| {
        let shown = machine.ok(&format!("volume show {volume} --json")).json();
        shown["identity"]["naa"]
            .as_str()
            .expect("an identity")
            .to_owned()
    };
    let first = naa("tank/v");
    machine.refused(
        "volume rename tank/v tank/v/w",
        2,
        "below itself, or below a volume",
    );
    machine.refused(
        "volume rename tank/v tank/no/w",
        3,
        "rename tank/no/w: its parent does not exist",
    );
    machine.ok("volume rename tank/v tank/w");
    assert_eq!(naa("tank/w"), first);
    machine.ok("snapshot create tank/w@s");
    machine.ok("snapshot clone tank/w@s tank/x");
    assert_ne!(naa("tank/x"), first);
    machine.ok("volume promote tank/x");
    machine.ok("volume destroy tank/w --yes-destroy-data");
    assert_eq!(
        machine.ok("snapshot list tank/x --json").json()[0]["name"],
        "tank/x@s"
    );
}

#[test]
fn scrub_command_waits_for_completion() {
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank mirror a b");
    machine.ok("pool scrub tank --wait");
    let status = machine.ok("pool status tank --json").json();
    assert_eq!(status["scan"]["state"], "finished");
}

#[test]
fn unset_properties_have_defaults() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/v --size 16M --sparse");
    let of_volume = || {
        machine
            .ok("volume get tank/v sync compression --json")
            .json()
    };
    let default = serde_json::json!({"value": "standard", "source": "default"});
    assert_eq!(of_volume()["sync"], default);
    machine.ok("volume set tank/v sync=always");
    let local = serde_json::json!({"value": "always", "source": "local"});
    assert_eq!(of_volume()["sync"], local);
    machine.ok("volume inherit tank/v sync");
    assert_eq!(of_volume()["sync"], default);
    assert_eq!(of_volume()["compression"]["source"], "default");
    machine.refused("volume get tank/v mountpoint", 3, "no property");
    let note = machine.ok("volume get tank/v my:note --json").json();
    let absent = serde_json::json!({"value": "-", "source": "-"});
    assert_eq!(note["my:note"], absent);

    let names = |words: &str| -> Vec<String> {
        let found = machine.ok(&format!("{words} --json")).json();
        let found = found.as_object().expect("properties");
        found.keys().cloned().collect()
    };
    assert_eq!(
        names("volume get tank/v volsize,sync used"),
        ["sync", "used", "volsize"]
    );
    assert_eq!(names("volume get tank/v all"), names("volume get tank/v"));
    assert_eq!(
        names("pool get tank comment,autotrim"),
        ["autotrim", "comment"]
    );

    let of_pool = || machine.ok("pool get tank autotrim --json").json();
    let unset = serde_json::json!({"value": "off", "source": "-"});
    assert_eq!(of_pool()["autotrim"], unset);
    machine.ok("pool set tank autotrim=on");
    let set = serde_json::json!({"value": "on", "source": "local"});
    assert_eq!(of_pool()["autotrim"], set);
}

#[test]
fn wrong_name_and_wrong_value_of_a_property_are_two_errors() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/v --size 16M --sparse");
    machine.ok("filesystem create tank/home");
    for words in [
        "volume set tank/v comprssion=lz4",
        "volume create tank/w --size 16M -o comprssion=lz4",
        "filesystem set tank/home comprssion=lz4",
        "volume inherit tank/v comprssion",
    ] {
        machine.refused(words, 2, "has no property comprssion");
        machine.refused(words, 2, "did you mean compression?");
    }
    machine.refused(
        "volume get tank/v comprssion",
        3,
        "did you mean compression?",
    );
    machine.refused(
        "volume set tank/v owner=ann",
        2,
        "such as org.example:owner",
    );
    for (words, valid) in [
        ("volume set tank/v compression=lz5", "on, off, lzjb, gzip"),
        (
            "volume create tank/w --size 16M -o compression=lz5",
            "on, off, lzjb, gzip",
        ),
        (
            "filesystem set tank/home sync=never",
            "standard, always, disabled",
        ),
        ("pool set tank failmode=stop", "wait, continue, panic"),
    ] {
        machine.refused(words, 2, "cannot be \"");
        machine.refused(words, 2, valid);
    }
    machine.refused("pool set tank failmod=wait", 2, "did you mean failmode?");
    machine.refused("pool get tank failmod", 3, "did you mean failmode?");
}

#[test]
fn less_redundant_group_needs_confirmation() {
    let machine = TestHost::with_disks(&["a", "b", "c", "d", "e"]);
    machine.ok("pool create tank mirror a b");
    machine.refused("pool add tank c", 6, "--mismatched");
    machine.refused("pool add tank raidz1 c d", 6, "a mirror of 2");
    machine.ok("pool add tank mirror c d");
    machine.ok("pool add tank spare e");
    machine.ok("pool remove tank e");
    machine.refused("pool add tank e --mismatched", 5, "--overwrite-old-labels");
    let wiped = std::process::Command::new("wipefs")
        .arg("-qa")
        .arg(machine.path("e"))
        .status();
    assert!(wiped.expect("it runs").success());
    machine.ok("pool add tank e --mismatched");
}

#[test]
fn a_pool_is_forgotten_when_its_disks_are_gone() {
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank a");
    machine.refused("pool forget tank", 5, "disks of pool tank are on this host");
    std::fs::remove_file(machine.path("a")).expect("removed");
    let known = machine.run("volume list other").err;
    assert!(known.contains("known here: tank"), "{known}");
    machine.ok("pool forget tank");
    let known = machine.run("volume list other").err;
    assert!(!known.contains("known here"), "{known}");
    let again = machine.ok("pool forget tank").out;
    assert!(again.contains("is not known"), "{again}");
}

/// Names by path have colons; only the cached paths locate the disks.
#[test]
fn attached_disks_outside_search_path_are_found_again() {
    let machine = TestHost::with_disks(&["a", "b"]);
    std::fs::create_dir(machine.path("else:where")).expect("made");
    machine.add_disk("else:where/c:1", 128 << 20);
    machine.add_disk("else:where/d:1", 128 << 20);
    machine.ok("pool create tank mirror a b");
    machine.ok("pool attach tank a else:where/c:1");
    machine.ok("pool attach tank a else:where/d:1");
    machine.ok("pool scrub tank --wait");
    for gone in ["a", "b"] {
        std::fs::remove_file(machine.path(gone)).expect("there");
    }
    machine.ok("pool confirm tank --missing-devices-are-not-newer");
    machine.ok("pool set tank comment=two-are-gone");
    machine.ok("volume list tank");
    machine.ok("pool export tank");
    let forgotten = "pool status tank --state-dir empty";
    machine.refused(forgotten, 3, "--search");
    machine.ok(&format!(
        "{forgotten} --search else:where/c:1 --search else:where/d:1"
    ));
    machine.ok(&format!("{forgotten} --search else\\:where"));
}

/// Scripts read one document, whatever the failure.
#[test]
fn unknown_command_is_a_json_failure() {
    let machine = TestHost::with_disks(&["a"]);
    for words in [
        "--json volume create tank/v --size foo",
        "pool create --json",
        "--json nonsense",
        "pool-server tank --iscsi 127.0.0.1:0 --nbd 127.0.0.1:0 --arc-size 1 --json",
    ] {
        let said = machine.run(words);
        assert_eq!(said.code, 2, "{words}: {} {}", said.out, said.err);
        let document = said.json();
        assert_eq!(document["exit_code"], 2, "{words}");
        assert_eq!(document["failure"]["kind"], "usage", "{words}");
    }
    machine.refused("volume create tank/v --size foo", 2, "is not a size");
    let server = "pool-server tank --iscsi 127.0.0.1:0 --nbd 127.0.0.1:0";
    machine.refused(&format!("{server} --dirty-max 1"), 2, "--dirty-max");
    machine.refused(
        "snapshot schedule set tank --hourly 3 --at 03:00",
        2,
        "--at",
    );
    machine.refused(
        "snapshot schedule set tank --daily 3 --at 25:00",
        2,
        "25:00",
    );
}

#[test]
fn a_volume_that_is_no_clone_is_independent_already() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/v --size 16M --sparse");
    let said = machine.ok("volume promote tank/v --json").json();
    assert_eq!(said["changed"], false);
    machine.ok("snapshot create tank/v@s tank/v@s");
    machine.ok("snapshot clone tank/v@s tank/c");
    let said = machine.ok("volume promote tank/c --json").json();
    assert_eq!(said["changed"], true);
    machine.refused("volume create tank/w --size 1", 2, "use 16384");
    machine.refused("volume resize tank/v --size 1", 2, "use 16384");
}

/// Properties that only file systems have are refused for a volume; limits of space hold.
#[test]
fn properties_of_file_systems_are_refused_for_a_volume() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/v --size 16M --sparse");
    for property in [
        "atime=off",
        "recordsize=1M",
        "mountpoint=/mnt",
        "aclmode=discard",
    ] {
        let words = format!("volume set tank/v {property}");
        machine.refused(&words, 2, "this is a volume");
    }
    machine.ok("volume set tank/v quota=100M compression=zstd");
    machine.ok("volume set tank atime=off");
    let create = "volume create tank/w --size 1M --sparse -o atime=off";
    machine.refused(create, 2, "this is a volume");
}

/// The sets of features that zpool(8) has names for.
#[test]
fn pool_is_created_with_compatibility_feature_sets() {
    let machine = TestHost::with_disks(&["a", "b"]);
    let set = machine.path("old");
    std::fs::write(&set, "async_destroy\nlz4_compress\nextensible_dataset\n").expect("written");
    let set = set.display();
    machine.refused(
        "pool create tank a -o compatibility=no-such-set",
        2,
        "no-such-set",
    );
    machine.ok(&format!("pool create tank a -o compatibility={set}"));
    let of_pool = machine.ok("pool get tank --json").json();
    assert_eq!(of_pool["compatibility"]["value"], set.to_string());
    machine.ok("volume create tank/v --size 16M --sparse");
    machine.refused("volume set tank/v compression=zstd", 2, "feature");
}

#[test]
fn snapshot_is_renamed_while_its_clone_is_used() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/v --size 16M --sparse");
    machine.ok("snapshot create tank/v@monday");
    machine.ok("snapshot clone tank/v@monday tank/copy");
    machine.ok("snapshot create tank/v@taken");
    let said = machine
        .ok("snapshot rename tank/v@monday tuesday --json")
        .json();
    assert_eq!(said["changed"], true);
    let said = machine.ok("snapshot rename tank/v@tuesday tank/v@tuesday --json");
    assert_eq!(said.json()["changed"], false);
    let clone = machine.ok("volume show tank/copy --json").json();
    assert_eq!(clone["origin"], "tank/v@tuesday");
    for (words, code, part) in [
        ("tank/v@monday x", 3, "there is no snapshot tank/v@monday"),
        ("tank/v@tuesday taken", 4, "tank/v@taken already"),
        ("tank/v@tuesday tank/copy@x", 2, "stays with its volume"),
        ("tank/v@tuesday a/b", 2, "after @"),
        ("tank/v@tuesday repl-7", 5, "choose another name"),
    ] {
        machine.refused(&format!("snapshot rename {words}"), code, part);
    }
    machine.refused("snapshot create tank/v@repl-1", 5, "choose another name");
    let names = machine.ok("snapshot list tank/v --json").json();
    let names = names.as_array().expect("a list").iter();
    let names: Vec<_> = names.map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["tank/v@tuesday", "tank/v@taken"]);
}

#[test]
fn chap_users_are_listed_without_secrets() {
    const TARGET: &str = "iqn.2026-01.org.example:tank";
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok(&format!("target create {TARGET}"));
    let show = format!("target chap show {TARGET}");
    let nobody = machine.ok(&show).out;
    assert!(nobody.contains("requires no secret"), "{nobody}");
    let status = machine.ok("status").out;
    assert!(status.contains("discovery: requires no secret"), "{status}");
    for user in ["ann", "bob", "own"] {
        let secret = format!("secret-of-{user}-1\n");
        std::fs::write(machine.path(user), secret).expect("written");
    }
    machine.ok(&format!(
        "target chap set {TARGET} --user ann --secret-file ann"
    ));
    machine.ok(&format!(
        "target chap set {TARGET} --user bob --secret-file bob"
    ));
    let one_way = machine.ok(&show).out;
    assert!(
        one_way.contains("user ann") && one_way.contains("user bob"),
        "{one_way}"
    );
    assert!(one_way.contains("does not prove itself"), "{one_way}");
    machine.ok(&format!(
        "target chap mutual {TARGET} --user own --secret-file own"
    ));
    machine.ok("target discovery set tank --user finder --secret-file ann");
    let mutual = machine.ok(&show).out;
    assert!(mutual.contains("proves itself as own"), "{mutual}");
    let json = machine.ok(&format!("{show} --json")).json();
    assert_eq!(json["chap_users"], serde_json::json!(["ann", "bob"]));
    assert_eq!(json["mutual_user"], "own");
    let status = machine.ok("status");
    assert!(
        status
            .out
            .contains("discovery: requires the secret of finder"),
        "{}",
        status.out
    );
    let status = machine.ok("status --json").json();
    assert_eq!(status[0]["discovery"]["chap_users"][0], "finder");
    assert!(!format!("{mutual}{json}{status}").contains("secret-of"));
}

/// No group of such a pool can be removed again.
#[test]
fn groups_of_different_sector_sizes_are_reported() {
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank a -o ashift=12");
    machine.ok("pool set tank ashift=13");
    let added = machine.ok("pool add tank b").out;
    assert!(added.contains("ashift 12 and 13"), "{added}");
    machine.refused(
        &format!("pool remove tank {}", machine.path("b").display()),
        2,
        "ashift 12 and 13",
    );
}

#[test]
fn pool_without_any_of_its_disks_names_where_they_were() {
    let machine = TestHost::with_disks(&["a", "b", "c"]);
    machine.ok("pool create tank mirror a b");
    machine.ok("pool create other c");
    for disk in ["a", "b"] {
        std::fs::rename(machine.path(disk), machine.path(&format!("{disk}-gone"))).expect("moved");
    }
    let (a, b) = (machine.path("a"), machine.path("b"));
    let last = format!(
        "it was last on {} {}, and nothing",
        a.display(),
        b.display()
    );
    for words in [
        "pool status tank",
        "status tank",
        "pool import tank",
        "volume list tank",
    ] {
        machine.refused(words, 3, &last);
        machine.refused(words, 3, "`bulkhead pool forget tank`");
    }
    // Next to a pool that is found, its absence is reported in one line.
    for words in ["pool list", "status", "pool status"] {
        let shown = machine.ok(words);
        assert!(shown.out.contains("other"), "{words}: {}", shown.out);
        assert!(!shown.out.contains("tank"), "{words}: {}", shown.out);
        assert_eq!(
            shown.err.matches(&last).count(),
            1,
            "{words}: {}",
            shown.err
        );
    }
    std::fs::write(&a, [0; 1 << 20]).expect("written");
    machine.refused("pool status tank", 3, "has no label of it");
    machine.refused("pool status never-used", 3, "--search");
}

/// The server of another pool has the default ports.
#[test]
fn server_of_an_unknown_pool_reports_the_name_and_not_the_port() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("an address").port();
    let options = format!("--iscsi 127.0.0.1:{port} --nbd 127.0.0.1:0");
    let typo = format!("pool-server tang {options}");
    machine.refused(&typo, 3, "no pool tang was found");
    machine.refused(&typo, 3, "known here: tank");
    machine.refused(&format!("pool-server tank {options}"), 5, "in use by");
}
