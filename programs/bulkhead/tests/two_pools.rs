//! Two pools served on one machine: lists cover both, what names something finds its pool, and a wrong name is
//! answered with the right ones.

mod common;

use common::{Machine, ServerProcess};
use serde_json::Value;

const TARGETS: [&str; 2] = [
    "iqn.2026-01.org.example:tank",
    "iqn.2026-01.org.example:attic",
];

/// Pools `tank` and `attic`, each with a volume `v`, a snapshot, a target and an NBD export.
fn machine() -> (Machine, [ServerProcess; 2]) {
    let machine = Machine::with_disks(&["a", "b"]);
    machine.ok("pool create tank a");
    machine.ok("pool create attic b");
    let servers = [
        machine.serve(""),
        machine.serve_pool("attic", "attic-nbd.sock", "", |_| ()),
    ];
    for (pool, target) in ["tank", "attic"].iter().zip(TARGETS) {
        machine.ok(&format!("volume create {pool}/v --size 8M --sparse"));
        machine.ok(&format!("snapshot create {pool}/v@s"));
        machine.ok(&format!("nbd export {pool}/v"));
        machine.ok(&format!("target create {target} --pool {pool}"));
    }
    (machine, servers)
}

fn length(answer: &Value) -> usize {
    answer.as_array().map_or(0, Vec::len)
}

#[test]
fn lists_cover_all_pools_and_names_find_their_own() {
    let (machine, servers) = machine();
    for list in [
        "status",
        "pool status",
        "pool list",
        "volume list",
        "snapshot list",
        "target list",
        "target discovery show",
        "nbd list",
        "replicate list",
    ] {
        let both = machine.ok(&format!("{list} --json")).json();
        assert_eq!(length(&both), 2, "{list}: {both}");
        let text = machine.ok(list).out;
        assert!(
            text.contains("tank") && text.contains("attic"),
            "{list}: {text}"
        );
    }
    assert_eq!(length(&machine.ok("volume space --json").json()), 4);
    assert_eq!(length(&machine.ok("volume key status --json").json()), 0);
    assert_eq!(length(&machine.ok("volume rescue --list --json").json()), 0);
    assert_eq!(
        length(&machine.ok("snapshot schedule list --json").json()),
        0
    );

    // One of them, said either way.
    for words in [
        "volume list attic",
        "volume list --pool attic",
        "target list --pool attic",
        "target list attic",
    ] {
        let one = machine.ok(&format!("{words} --json")).json();
        assert_eq!(length(&one), 1, "{words}");
        assert!(
            one[0]["name"]
                .as_str()
                .is_some_and(|name| name.contains("attic")),
            "{one}"
        );
    }

    // A target finds its pool, also to be changed.
    let shown = machine
        .ok(&format!("target show {} --json", TARGETS[1]))
        .json();
    assert_eq!(shown["name"], TARGETS[1]);
    machine.ok(&format!("target allow {} --everyone", TARGETS[1]));
    machine.ok(&format!("target destroy {}", TARGETS[1]));
    machine.refused(
        &format!("target show {}", TARGETS[1]),
        3,
        "no pool of attic tank has a target",
    );

    // What makes something has to be told where, with an option that the verb knows.
    let create = "target create iqn.2026-01.org.example:new";
    machine.refused(create, 2, "with --pool");
    machine.ok(&format!("{create} --pool attic"));

    // Each has users of its own for discovery.
    std::fs::write(machine.path("secret"), "finders-secret").expect("a file");
    let set = "target discovery set --user finder --secret-file secret";
    machine.refused(set, 2, "with --pool");
    machine.ok(&format!("{set} --pool attic"));
    let both = machine.ok("target discovery show --json").json();
    let users = |pool: &str| {
        let mut all = both.as_array().expect("a list").iter();
        let of_pool = all.find(|one| one["pool"] == pool).expect("the pool");
        of_pool["chap_users"].clone()
    };
    assert_eq!(users("attic")[0], "finder");
    assert_eq!(length(&users("tank")), 0);

    let names = machine.ok("names tank").out;
    let names: Vec<&str> = names.lines().collect();
    assert_eq!(names, ["tank", "tank/v"]);
    assert_eq!(machine.ok("names tank/v@").out.trim(), "tank/v@s");
    for server in servers {
        assert_eq!(server.stop(), 0, "{}", machine.log());
    }
}

#[test]
fn a_wrong_pool_name_is_answered_with_the_right_ones() {
    let machine = Machine::with_exported_volume();
    machine.refused("pool status tnak", 3, "known here: tank");
    machine.refused("volume list --pool tnak", 3, "known here: tank");
    machine.refused("volume create tank/w --size 8MB", 2, "write 8M");
}
