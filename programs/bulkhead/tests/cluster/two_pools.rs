//! Two pools served on one host: lists cover both, the name of an object selects its pool, and the error for a wrong
//! name lists the right ones.

use crate::common::{ServerProcess, TestHost};
use serde_json::Value;

const TARGETS: [&str; 2] = [
    "iqn.2026-01.org.example:tank",
    "iqn.2026-01.org.example:attic",
];

/// Pools `tank` and `attic`, each with a volume `v`, a snapshot, a target and an NBD export.
fn machine() -> (TestHost, [ServerProcess; 2]) {
    let machine = TestHost::with_disks(&["a", "b"]);
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
fn lists_cover_all_pools_and_names_select_the_pool() {
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

    // One of them, named in either way.
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

    // A target selects its pool, for changes, too.
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

    // A verb that creates an object needs its pool, by an option of the verb.
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
    let properties = machine.ok("names --properties volume tank/v compr").out;
    assert_eq!(properties, "compression\ncompressratio");
    let properties = machine.ok("names --properties pool attic autot").out;
    assert_eq!(properties, "autotrim");
    assert_eq!(
        machine.ok("names --properties volume other/v compr").out,
        ""
    );
    for server in servers {
        assert_eq!(server.stop(), 0, "{}", machine.log());
    }
}

#[test]
fn unknown_pool_name_error_lists_known_pools() {
    let machine = TestHost::with_exported_volume();
    machine.refused("pool status tnak", 3, "known here: tank");
    machine.refused("volume list --pool tnak", 3, "known here: tank");
    machine.refused("volume create tank/w --size 8MB", 2, "write 8M");
}

/// Returns the output of a command, with its wrapped lines joined.
fn flowing(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or("")
}

#[test]
fn pool_of_killed_server_is_listed_unserved_with_advice() {
    let (machine, [tank, attic]) = machine();
    tank.kill();
    // The socket of clients is no pool.
    let clients = std::os::unix::net::UnixListener::bind(machine.path("run/clients.sock"));
    drop(clients.expect("a socket"));
    let said = flowing(&machine.ok("status").out);
    for part in [
        "pool: attic",
        "pool: tank",
        "was killed or has crashed",
        "`bulkhead pool-server tank --iscsi 127.0.0.1:",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let both = machine.ok("status --json").json();
    assert_eq!(length(&both), 2, "{both}");
    let lost = both.as_array().and_then(|all| {
        let mut all = all.iter();
        all.find(|one| text(one, "/pool/name") == "tank")
    });
    let lost = lost.expect("the pool without a server");
    assert!(lost["server"].is_null(), "{lost}");
    assert_eq!(text(lost, "/pool/health"), "ONLINE");
    let command = text(lost, "/pool/advice/0/command");
    // With the addresses and options of the killed server.
    let begin = "bulkhead pool-server tank --iscsi 127.0.0.1:";
    assert!(command.starts_with(begin), "{lost}");
    for list in ["volume list", "snapshot list", "nbd list", "pool status"] {
        let both = machine.ok(&format!("{list} --json")).json();
        assert_eq!(length(&both), 2, "{list}: {both}");
    }
    // A read-only command leaves the pool as the server left it.
    let found = machine.ok("pool list --json").json();
    let states: Vec<&str> = found
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| text(one, "/state"))
        .collect();
    assert_eq!(states, ["served", "active"], "{found}");

    // Even where nothing of it can be read any more.
    std::fs::remove_file(machine.path("a")).expect("the disk goes");
    let said = flowing(&machine.ok("status").out);
    for part in ["pool: tank health: UNKNOWN", "no pool tank was found"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let listed = machine.run("volume list");
    assert!(listed.out.contains("attic/v"), "{}", listed.out);
    assert_eq!(listed.code, 3, "{}", listed.err);
    assert!(listed.err.contains("pool tank"), "{}", listed.err);
    assert_eq!(attic.stop(), 0, "{}", machine.log());
}

#[test]
fn lists_cover_all_pools_while_no_server_runs_and_write_to_none() {
    let (machine, servers) = machine();
    for server in servers {
        assert_eq!(server.stop(), 0, "{}", machine.log());
    }
    let disks = || ["a", "b"].map(|disk| std::fs::read(machine.path(disk)).expect("a disk"));
    let before = disks();
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
    assert!(before == disks(), "a look has written to a disk");
    let shown = machine
        .ok(&format!("target show {} --json", TARGETS[1]))
        .json();
    assert_eq!(shown["name"], TARGETS[1]);
    machine.refused("portal list", 7, "no server");

    // A pool that is on no local disk any more is dropped from lists, and is not reported as a
    // failure.
    std::fs::rename(machine.path("b"), machine.path("elsewhere")).expect("the disk goes");
    let one = machine.ok("volume list").out;
    assert!(one.contains("tank/v") && !one.contains("attic"), "{one}");
}

#[test]
fn duplicate_target_on_host_is_refused_or_reported() {
    let (machine, [tank, attic]) = machine();
    let create = format!("target create {} --pool attic", TARGETS[0]);
    for part in ["pool tank", TARGETS[0]] {
        machine.refused(&create, 4, part);
    }
    assert_eq!(length(&machine.ok("target list attic --json").json()), 1);
    // Again in its own pool: it exists already.
    machine.ok(&format!("target create {} --pool tank", TARGETS[0]));

    assert_eq!(tank.stop(), 0, "{}", machine.log());
    machine.ok(&create);
    let tank = machine.serve("");
    let said = flowing(&machine.ok("status").out);
    let told = format!("target {} is also in pool", TARGETS[0]);
    assert_eq!(said.matches(&told).count(), 2, "{said}");
    // An ambiguous name is not guessed.
    let destroy = format!("target destroy {}", TARGETS[0]);
    machine.refused(&destroy, 2, "attic tank");
    machine.ok(&format!("{destroy} --pool attic"));
    machine.ok(&format!("target show {}", TARGETS[0]));
    assert_eq!(tank.stop(), 0, "{}", machine.log());
    assert_eq!(attic.stop(), 0, "{}", machine.log());
}

#[test]
fn port_conflict_names_other_pool_and_option() {
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank a");
    machine.ok("pool create attic b");
    let server = machine.serve("--nbd 127.0.0.1:0");
    let portal = machine.portal("127.0.0.1:");
    let serve = format!("pool-server attic --no-nbd --iscsi {portal}");
    let instead = format!("`bulkhead portal remove tank --iscsi {portal}`");
    for part in ["the server of pool tank", "--iscsi ADDRESS:PORT", &instead] {
        machine.refused(&serve, 5, part);
    }
    // The conflicting listener has another address, and another protocol.
    let port = portal.rsplit_once(':').expect("a port").1;
    let serve = format!("pool-server attic --no-iscsi --nbd 0.0.0.0:{port}");
    machine.refused(&serve, 5, &instead);
    let listener = machine.nbd_listener("127.0.0.1:");
    let serve = format!("pool-server attic --no-iscsi --nbd {listener}");
    for part in ["the server of pool tank", "--nbd ADDRESS:PORT"] {
        machine.refused(&serve, 5, part);
    }
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn exported_pool_of_killed_server_is_not_listed_as_missing() {
    let (machine, [tank, attic]) = machine();
    tank.kill();
    let is_missed = || {
        machine
            .ok("status")
            .out
            .contains("was killed or has crashed")
    };
    assert!(is_missed());
    machine.ok("pool export tank");
    assert!(!is_missed());
    assert_eq!(attic.stop(), 0, "{}", machine.log());
}

/// Half of it is on this host, and it is not in use: no list of served pools fails for that.
#[test]
fn unreadable_pool_does_not_fail_lists_of_other_pools() {
    let machine = TestHost::with_disks(&["a", "b", "c"]);
    machine.ok("pool create tank a");
    machine.ok("pool create attic b c");
    let server = machine.serve("");
    machine.ok("volume create tank/v --size 8M --sparse");
    std::fs::remove_file(machine.path("c")).expect("half of it goes");
    let listed = machine.ok("volume list");
    assert!(listed.out.contains("tank/v"), "{}", listed.out);
    assert!(
        listed.err.contains("left out: pool attic"),
        "{}",
        listed.err
    );
    assert_eq!(length(&machine.ok("volume list --json").json()), 1);
    let both = machine.ok("status --json").json();
    assert_eq!(text(&both, "/0/pool/health"), "UNKNOWN", "{both}");
    assert_eq!(text(&both, "/1/pool/name"), "tank", "{both}");
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

/// It has a socket and a lock, and never responds.
#[test]
fn hung_server_does_not_block_lists_of_other_pools() {
    let (machine, [tank, attic]) = machine();
    let signal = |signal| {
        let pid = i32::try_from(tank.child.id()).ok();
        let pid = pid
            .and_then(rustix::process::Pid::from_raw)
            .expect("a process");
        rustix::process::kill_process(pid, signal).expect("it is ours");
    };
    signal(rustix::process::Signal::STOP);
    let began = std::time::Instant::now();
    let said = machine.run("status");
    assert!(said.out.contains("pool:     attic"), "{}", said.out);
    assert_eq!(said.code, 7, "{}", said.err);
    for part in ["pool tank", "may be killed"] {
        assert!(said.err.contains(part), "{}", said.err);
    }
    // The target may be in that pool, so no other pool is searched.
    machine.refused(&format!("target show {}", TARGETS[0]), 7, "may be killed");
    machine.ok(&format!("target show {}", TARGETS[1]));
    let took = began.elapsed();
    assert!(took.as_secs() < 120, "{took:?}");
    signal(rustix::process::Signal::CONT);
    for server in [tank, attic] {
        assert_eq!(server.stop(), 0, "{}", machine.log());
    }
}

/// The cluster starts its pools itself: a server that a user starts in addition would conflict.
#[test]
fn cluster_pool_of_killed_server_is_left_to_the_cluster() {
    let (machine, [tank, attic]) = machine();
    machine.describe("127.0.0.1", &[machine.path("a")]);
    tank.kill();
    let ask = |words: &str| {
        let mut command = machine.command(words);
        command.env("BULKHEAD_APPLIANCE", machine.path("appliance.toml"));
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{words}: {said} {output:?}");
        flowing(&said)
    };
    let said = ask("status");
    for part in [
        "pool: tank health: UNKNOWN",
        "no Pacemaker responds here",
        "pool: attic",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("pool-server"), "{said}");
    assert!(ask("volume list").contains("attic/v"));
    assert_eq!(attic.stop(), 0, "{}", machine.log());
}
