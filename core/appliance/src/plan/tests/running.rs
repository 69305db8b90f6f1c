//! Settings that a running cluster cannot change, and processes that run with other settings than those of the file, or
//! that the file does not need any more.

use super::*;

fn obstacles(text: &str, actual: &Actual) -> Vec<String> {
    let refused = plan(&desired_of(text), actual);
    assert!(refused.changes.is_empty() || refused.obstacles.is_empty());
    let obstacles = refused.obstacles.into_iter();
    obstacles.map(|one| one.what).collect()
}

/// The agents of a head without it could neither monitor nor stop a server, and a failed stop powers the head off.
#[test]
fn missing_program_on_a_head_blocks_the_plan() {
    let (_, mut actual) = applied(PAIR);
    let right = actual.heads.get_mut(&head("right")).expect("right");
    right.has_program = false;
    let told = obstacles(PAIR, &actual);
    assert_eq!(
        told,
        ["right has no /usr/bin/bulkhead, which its agents would run"]
    );
}

/// Its service manager would reopen the pool after Pacemaker stopped it.
#[test]
fn unit_serving_a_pool_outside_pacemaker_blocks_the_plan() {
    let (_, mut actual) = applied(PAIR);
    let right = actual.heads.get_mut(&head("right")).expect("right");
    right
        .units_beside
        .insert("bulkhead-pool@tank.service".to_owned());
    let told = obstacles(PAIR, &actual);
    assert!(
        told[0].starts_with("right serves a pool of the file by bulkhead-pool@tank.service"),
        "{told:?}"
    );
}

/// The file is then the same on all heads, and the server still runs with its old options.
#[test]
fn deferred_server_settings_are_noted() {
    let (_, mut actual) = applied(PAIR);
    let left = actual.heads.get_mut(&head("left")).expect("left");
    left.portals = desired_of(PAIR).portals;
    let changed = PAIR.replace("arc = \"32G\"", "arc = \"8G\"");
    assert_ne!(changed, PAIR);
    let notes = plan(&desired_of(&changed), &actual).notes;
    assert_eq!(
        notes,
        [
            "left: the server of tank adopts arc at its next start, such as by `bulkhead pool move tank HEAD`"
        ]
    );
    assert!(plan(&desired_of(PAIR), &actual).notes.is_empty());
}

/// Corosync treats a head with a new number as another head, and considers the old one lost.
#[test]
fn changed_node_ids_of_a_running_cluster_block_the_plan() {
    let (_, actual) = applied(PAIR);
    let number = |text: &str, from: u32, to: u32| {
        text.replace(&format!("number = {from}\n"), &format!("number = {to}\n"))
    };
    assert_ne!(number(PAIR, 2, 3), PAIR);
    let changed = "right has the number 3 in the file and 2 in the running cluster";
    assert_eq!(obstacles(&number(PAIR, 2, 3), &actual), [changed]);
    let swapped = number(&number(&number(PAIR, 1, 9), 2, 1), 9, 2);
    assert_eq!(
        obstacles(&swapped, &actual),
        [
            "right has the number 1 in the file, which is that of left in the running cluster",
            "left has the number 2 in the file, which is that of right in the running cluster",
        ]
    );
    // A head with another name replaces one that is away.
    let (_, mut renamed) = applied(PAIR);
    let right = renamed.heads.remove(&head("right")).expect("right");
    renamed.heads.insert(
        head("third"),
        HeadActual {
            running_cluster: None,
            ..right
        },
    );
    let third = PAIR.replace("[heads.right", "[heads.third");
    let told = obstacles(&third, &renamed);
    assert_eq!(
        told,
        ["third has the number 2 in the file, which is that of right in the running cluster"]
    );
    // A stopped cluster accepts any change.
    let (_, mut stopped) = applied(PAIR);
    for known in stopped.heads.values_mut() {
        known.running_cluster = None;
        known.running_nodes.clear();
        known.units_active.clear();
    }
    stopped.cib = None;
    assert_eq!(obstacles(&swapped, &stopped), [""; 0]);
}

#[test]
fn changed_links_of_a_running_cluster_block_the_plan() {
    let (_, actual) = applied(PAIR);
    let swap = |one: &str, other: &str| {
        PAIR.replace(one, "@")
            .replace(other, one)
            .replace('@', other)
    };
    let heartbeats = swap("heartbeat = 0", "heartbeat = 1");
    assert_ne!(heartbeats, PAIR);
    let told = obstacles(&heartbeats, &actual);
    assert_eq!(told.len(), 4, "{told:?}");
    for part in [
        "link 0 of left has the address",
        "link 1 of right has the address",
    ] {
        assert!(told.iter().any(|one| one.starts_with(part)), "{told:?}");
    }
    let moved = PAIR.replace("heartbeat = 0", "heartbeat = 3");
    let moved = moved
        .replace("heartbeat = 1", "heartbeat = 4")
        .replace("heartbeat = 2", "heartbeat = 5");
    let told = obstacles(&moved, &actual);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("lose all its links"), "{told:?}");
    // One link is removed, and one is kept.
    let fewer = PAIR.replace("heartbeat = 1", "");
    assert_eq!(obstacles(&fewer, &actual), [""; 0]);
}

/// Found before any change: the run would change the heads, and fail at its last step.
#[test]
fn unresponsive_witness_blocks_the_plan() {
    let desired = desired_of(WITNESS);
    let mut actual = bare(&desired);
    for known in actual.heads.values_mut() {
        known.reaches_witness = Some(true);
    }
    assert_eq!(obstacles(WITNESS, &actual), [""; 0]);
    let left = actual.heads.get_mut(&head("left")).expect("left");
    left.reaches_witness = Some(false);
    assert_eq!(
        obstacles(WITNESS, &actual),
        ["the witness does not respond to left at 10.77.9.31, port 5403"]
    );
    // One that is no longer in the file is not needed.
    assert_eq!(obstacles(PAIR, &actual), [""; 0]);
}

fn of_device(changes: &[Change]) -> Vec<String> {
    let is_it = |line: &String| line.contains("qdevice") || line.contains("witness responds");
    let lines = changes.iter().map(|one| one.to_string());
    let lines = lines.map(|text| text.lines().next().unwrap_or_default().to_owned());
    lines.filter(is_it).collect()
}

/// It reads its settings once. Without a restart it contacts the witness at the old interval and loses it repeatedly,
/// or it contacts a witness that the file no longer names.
#[test]
fn changed_qdevice_settings_restart_heads_one_by_one() {
    let (_, before) = applied(WITNESS);
    let faster = format!("{WITNESS}\n[timeouts]\nprofile = \"fast\"\n");
    let begin = WITNESS.find("[quorum.witness]").expect("there");
    let line = WITNESS[begin..].find("address = ").expect("there") + begin;
    let end = WITNESS[line..].find('\n').expect("a line") + line;
    let elsewhere = WITNESS.replace(&WITNESS[line..end], "address = \"10.77.9.33\"");
    for text in [&faster, &elsewhere] {
        let desired = desired_of(text);
        let all = plan(&desired, &before).changes;
        let write = "write /etc/default/corosync-qdevice";
        let restart = "restart corosync-qdevice.service, which reads its settings when it starts";
        let wait = "wait until the witness responds to it";
        let lines = ["left", "right"]
            .map(|head| [write, restart, wait].map(|what| format!("{head}: {what}")));
        assert_eq!(of_device(&all), lines.concat(), "{text}");
        let at = |is_it: fn(&Change) -> bool| all.iter().position(is_it);
        let reload = at(|one| matches!(one, Change::ReloadCorosync { .. }));
        assert!(
            reload < at(|one| matches!(one, Change::RestartUnit { .. })),
            "{all:?}"
        );
        // A run is interrupted after each change, and the next one completes it.
        for count in 0..=all.len() {
            let mut actual = before.clone();
            perform(&desired, &mut actual, &all[..count]);
            let rest = plan(&desired, &actual);
            perform(&desired, &mut actual, &rest.changes);
            assert!(plan(&desired, &actual).is_empty(), "after {count}");
            for known in actual.heads.values() {
                assert_eq!(known.witness_settings, desired.witness_settings);
            }
        }
    }
}

#[test]
fn lost_witness_vote_stops_the_rolling_restart() {
    let (desired, mut actual) = applied(WITNESS);
    let left = actual.heads.get_mut(&head("left")).expect("left");
    left.has_witness = false;
    let lost = plan(&desired, &actual);
    assert_eq!(
        of_device(&lost.changes),
        ["left: wait until the witness responds to it"]
    );
    let right = actual.heads.get_mut(&head("right")).expect("right");
    right.witness_settings = None;
    let lines = of_device(&plan(&desired, &actual).changes);
    assert_eq!(lines[0], "left: wait until the witness responds to it");
    assert!(lines[1].starts_with("right: restart"), "{lines:?}");
}

#[test]
fn head_without_legs_stops_its_leg_server() {
    let (_, mut actual) = applied(LEGS);
    let shared = LEGS.find("number = 1\ngroups").expect("there");
    let end = LEGS.find("addresses = [\n    { network").expect("there");
    let text = format!(
        "{}disks = [\"/dev/disk/by-id/x\"]\n{}",
        &LEGS[..shared],
        &LEGS[end..]
    );
    let desired = desired_of(&text);
    let stops =
        |change: &Change| matches!(change, Change::StopUnit { unit, .. } if unit == LEG_UNIT);
    let mut serves = actual.clone();
    let other: PoolName = "other".parse().expect("a name");
    let left = serves.heads.get_mut(&head("left")).expect("a head");
    left.portals.insert(other, Portals::default());
    let early = plan(&desired, &serves).changes;
    assert!(!early.iter().any(stops), "its server runs: {early:?}");
    let changes = plan(&desired, &actual).changes;
    assert!(changes.iter().any(stops), "{changes:?}");
    perform(&desired, &mut actual, &changes);
    assert!(plan(&desired, &actual).is_empty());
}
