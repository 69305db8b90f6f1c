//! Plans for pools of legs: the state that an interrupted run left, and disks that are checked before a file names
//! them.

use super::*;

const LEFT: &str = "/dev/disk/by-id/nvme-eui.0025385100000001";
const OTHER: &str = "/dev/disk/by-id/nvme-eui.0025385100000009";

fn is_restart(change: &Change) -> bool {
    matches!(change, Change::RestartUnit { unit, .. } if unit == LEG_UNIT)
}

/// The file is as desired, and the process runs with the previous one.
#[test]
fn interrupted_apply_repeats_the_pending_restart() {
    let (_, mut actual) = applied(LEGS);
    let port = LEGS.replace("[legs]\n", "[legs]\nlender_port = 7073\n");
    let desired = desired_of(&port);
    let changes = plan(&desired, &actual).changes;
    let cut = changes.iter().position(is_restart).expect("restarted");
    perform(&desired, &mut actual, &changes[..cut]);
    let rest = plan(&desired, &actual).changes;
    assert_eq!(rest, changes[cut..]);
    // After the first of the two.
    perform(&desired, &mut actual, &rest[..1]);
    assert_eq!(plan(&desired, &actual).changes, rest[1..]);
    perform(&desired, &mut actual, &rest[1..]);
    assert!(plan(&desired, &actual).is_empty());
    // A leg-server that does not report its configuration is not restarted for that.
    for known in actual.heads.values_mut() {
        known.legs_read = None;
    }
    assert!(plan(&desired, &actual).is_empty());
    // One that does not run is only started.
    let right = actual.heads.get_mut(&head("right")).expect("a head");
    right.units_active.remove(LEG_UNIT);
    let started = plan(&desired, &actual).changes;
    assert!(
        matches!(&started[..], [Change::StartUnit { .. }]),
        "{started:?}"
    );
}

#[test]
fn unread_corosync_conf_is_reloaded_by_the_next_apply() {
    let (desired, mut actual) = applied(PAIR);
    let right = actual.heads.get_mut(&head("right")).expect("a head");
    right.is_reload_due = true;
    let changes = plan(&desired, &actual).changes;
    let reload = Change::ReloadCorosync { head: head("left") };
    assert_eq!(changes, [reload]);
    perform(&desired, &mut actual, &changes);
    assert!(plan(&desired, &actual).is_empty());
}

#[test]
fn restart_waits_until_legs_of_served_pools_are_current() {
    let (_, mut actual) = applied(LEGS);
    let port = LEGS.replace("[legs]\n", "[legs]\nlender_port = 7073\n");
    let desired = desired_of(&port);
    let awaits = |change: &Change| matches!(change, Change::AwaitLegs { .. });
    let idle = plan(&desired, &actual).changes;
    assert!(!idle.iter().any(awaits), "it is not open: {idle:?}");
    on_record(&mut actual, Some(3));
    actual.heads.get_mut(&head("left")).expect("a head").portals = desired.portals.clone();
    let planned = plan(&desired, &actual);
    let changes = &planned.changes;
    let restarts: Vec<usize> = (0..changes.len())
        .filter(|at| is_restart(&changes[*at]))
        .collect();
    assert_eq!(restarts.len(), 2);
    let writes = |change: &Change| matches!(change, Change::WriteFile { path, .. } if path == Path::new(render::LEGS_PATH));
    for at in restarts {
        let is_right = awaits(&changes[at - 2]) && writes(&changes[at - 1]);
        assert!(is_right, "{planned}");
    }
    let told = planned.to_string();
    let line = "right: wait until the legs of tank are current, as far as they can be, and the disks of right can be away";
    assert!(told.contains(line), "{told}");
}

/// Both heads have the pool on record, with these disks; left has the disk of the example.
fn with_disks(actual: &mut Actual) {
    on_record(actual, Some(3));
    for known in actual.heads.values_mut() {
        if let Some(record) = known.on_record.get_mut(&1) {
            record.disks = Some([11, 12, 21, 22].into());
            record.current = record.disks.clone();
        }
    }
    sees(
        actual,
        "left",
        LEFT,
        ObservedDisk {
            place: "/dev/a".into(),
            pool: Some("tank".to_owned()),
            device: Some(5),
            carries: "pool tank, which was not exported".to_owned(),
            bytes: 1000,
            least_bytes: Some(900),
            pool_guid: Some(4),
            txg: Some(50),
            record: Some(1),
        },
    );
}

/// No member may vote for a new pool with a number that is in its records.
#[test]
fn new_pool_does_not_reuse_a_number() {
    let other = LEGS.replace("number = 1\ngroups", "number = 9\ngroups");
    assert_ne!(other, LEGS);
    let (_, mut actual) = applied(&other);
    for known in actual.heads.values_mut() {
        known.stored_pools = [1, 9].into();
    }
    let two = format!(
        "{other}\n[pools.two]\nhome = \"left\"\narc = \"1G\"\nnumber = 1\ngroups = [{{ kind = \"mirror\", legs = [\"left:bay3\", \"right:bay3\"] }}]\n\
         addresses = [{{ network = \"storage-a\", address = \"10.77.1.101\" }}]\n"
    );
    let told = plan(&desired_of(&two), &actual).obstacles;
    let what = "pool two is new in the file, and its number 1 is that of a pool that head left has on record";
    assert!(told.iter().any(|one| one.what == what), "{told:?}");
    let free = two.replace("number = 1\ngroups = [{", "number = 8\ngroups = [{");
    let told = plan(&desired_of(&free), &actual).obstacles;
    assert!(
        !told.iter().any(|one| one.what.contains("pool two is new")),
        "{told:?}"
    );
}

/// The legs would not be found by another number; a pool that continues without its record gets
/// one.
#[test]
fn renumbering_or_renaming_a_labelled_pool_is_refused() {
    let (_, mut actual) = applied(LEGS);
    with_disks(&mut actual);
    let (before, pool) = LEGS.split_once("[pools.tank]").expect("a pool");
    let pool = pool.replacen("number = 1", "number = 7", 1);
    let renumbered = format!("{before}[pools.tank]{pool}");
    let both = format!("{before}[pools.data]{pool}");
    let renamed = LEGS.replace("pools.tank", "pools.data");
    let leg = format!(
        "left:{LEFT} is a leg of the pool of the number 1 on record, but in the file it belongs to pool data of the number 7"
    );
    for (text, what, mend) in [
        (
            &renumbered,
            "pool tank is on record with the number 1, but has 7 in the file",
            "`number = 1` again",
        ),
        (
            &renamed,
            "the pool of the number 1 is tank on record, and the file calls it data",
            "`[pools.tank]`",
        ),
        (&both, &*leg, "`number = 1`, and the name"),
    ] {
        let told = plan(&desired_of(text), &actual).obstacles;
        assert_eq!(told[0].what, what, "{told:?}");
        assert!(told[0].mend.contains(mend), "{told:?}");
    }
    // It continues without its record, and a disk that it had on the other head was away.
    let away = ObservedDisk {
        place: "/dev/z".into(),
        txg: Some(40),
        ..actual.heads[&head("left")].disks[Path::new(LEFT)].clone()
    };
    let right = "/dev/disk/by-id/nvme-eui.0025385200000001";
    assert!(LEGS.contains(right));
    sees(&mut actual, "right", right, away);
    assert_eq!(plan(&desired_of(&renumbered), &actual).obstacles.len(), 1);
    let left = actual.heads.get_mut(&head("left")).expect("a head");
    let disk = left.disks.get_mut(Path::new(LEFT)).expect("seen");
    (disk.record, disk.txg) = (None, Some(60));
    let told = plan(&desired_of(&renumbered), &actual).obstacles;
    assert_eq!(told, [], "it continues without its record");
}

fn sees(actual: &mut Actual, name: &str, path: &str, seen: ObservedDisk) {
    let known = actual.heads.get_mut(&head(name)).expect("a head");
    known.disks.insert(path.into(), seen);
}

#[test]
fn new_leg_path_must_be_the_same_or_an_empty_disk() {
    let (_, mut actual) = applied(LEGS);
    with_disks(&mut actual);
    assert!(LEGS.contains(LEFT));
    let desired = desired_of(&LEGS.replace(LEFT, OTHER));
    let told = |actual: &Actual| -> Vec<Obstacle> { plan(&desired, actual).obstacles };
    let unseen = told(&actual);
    assert!(unseen[0].what.contains("cannot be read"), "{unseen:?}");
    let ours = actual.heads[&head("left")].disks[Path::new(LEFT)].clone();
    // Another name of the same disk; then the old name is gone.
    sees(&mut actual, "left", OTHER, ours.clone());
    assert_eq!(told(&actual), []);
    let left = |actual: &mut Actual| {
        let known = actual.heads.get_mut(&head("left")).expect("a head");
        known.disks.remove(Path::new(LEFT));
    };
    let mut gone = actual.clone();
    left(&mut gone);
    assert_eq!(told(&gone), []);
    // That is another leg of the pool.
    let second = "/dev/disk/by-id/nvme-eui.0025385100000002";
    sees(&mut gone, "left", second, ours.clone());
    assert!(told(&gone)[0].what.contains("carries pool tank"));
    // Two disks of the pool.
    let twin = ObservedDisk {
        place: "/dev/b".into(),
        ..ours.clone()
    };
    sees(&mut actual, "left", OTHER, twin);
    assert!(told(&actual)[0].what.contains("carries pool tank"));
    let foreign = ObservedDisk {
        place: "/dev/b".into(),
        carries: "an XFS file system".to_owned(),
        bytes: 1000,
        ..ObservedDisk::default()
    };
    sees(&mut actual, "left", OTHER, foreign.clone());
    let refused = told(&actual);
    let what = format!(
        "the file names left:{OTHER} instead of {LEFT}, a leg of pool tank on record, and that disk carries an XFS file system: all of it may be \
         overwritten"
    );
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].what, what);
    for part in ["wipefs -a", "bulkhead pool replace"] {
        assert!(refused[0].mend.contains(part), "{refused:?}");
    }
    let empty = ObservedDisk {
        carries: String::new(),
        ..foreign
    };
    sees(&mut actual, "left", OTHER, empty.clone());
    assert_eq!(told(&actual), []);
    // It would replace a leg with a twin on right that needs more space.
    let right = "/dev/disk/by-id/nvme-eui.0025385200000001";
    assert!(LEGS.contains(right));
    let large = ObservedDisk {
        bytes: 2000,
        least_bytes: Some(1900),
        ..ours
    };
    sees(&mut actual, "right", right, large);
    assert!(
        told(&actual)[0]
            .what
            .contains("1000 bytes, which is too small")
    );
    // The record does not name it: the server checks it when it is attached.
    for known in actual.heads.values_mut() {
        if let Some(record) = known.on_record.get_mut(&1) {
            record.disks = Some([12, 21, 22].into());
        }
    }
    sees(
        &mut actual,
        "left",
        OTHER,
        ObservedDisk {
            bytes: 3000,
            carries: "an XFS file system".to_owned(),
            ..empty
        },
    );
    assert_eq!(told(&actual), []);
}

#[test]
fn third_head_with_a_small_disk_is_refused_up_front() {
    let (two, three) = with_and_without_a_third_head();
    let (_, mut actual) = applied(&two);
    with_disks(&mut actual);
    for known in actual.heads.values_mut() {
        known.on_record.get_mut(&1).expect("on record").witness = None;
    }
    let desired = desired_of(&three);
    let served = actual.heads.get_mut(&head("left")).expect("a head");
    served.portals = desired.portals.clone();
    let middle = bare(&desired).heads.remove(&head("middle"));
    actual.heads.insert(head("middle"), middle.expect("a head"));
    let path = "/dev/disk/by-id/nvme-eui.0025385300000001";
    let seen = |bytes| ObservedDisk {
        bytes,
        ..ObservedDisk::default()
    };
    sees(&mut actual, "middle", path, seen(899));
    let refused = plan(&desired, &actual);
    assert_eq!(refused.obstacles.len(), 1, "{refused}");
    assert!(refused.changes.is_empty(), "{refused}");
    let what = format!(
        "middle:{path} has 899 bytes, which is too small for its group of pool tank: left:{LEFT} has 1000, and 900 are needed"
    );
    assert_eq!(refused.obstacles[0].what, what);
    sees(&mut actual, "middle", path, seen(900));
    let planned = plan(&desired, &actual);
    assert!(planned.obstacles.is_empty(), "{planned}");
    // The head is on record already, and its disk cannot be attached: another path is the remedy.
    let others: Vec<Change> = planned
        .changes
        .into_iter()
        .filter(|one| !matches!(one, Change::AttachLeg { .. }))
        .collect();
    perform(&desired, &mut actual, &others);
    sees(&mut actual, "middle", path, seen(899));
    assert_eq!(plan(&desired, &actual).obstacles[0].what, what);
    let larger = "/dev/disk/by-id/nvme-eui.0025385300000009";
    let desired = desired_of(&three.replace(path, larger));
    sees(&mut actual, "middle", larger, seen(1000));
    let planned = plan(&desired, &actual);
    assert!(planned.obstacles.is_empty(), "{planned}");
    let attached = planned
        .changes
        .iter()
        .any(|one| matches!(one, Change::AttachLeg { leg, .. } if leg.ends_with(larger)));
    assert!(attached, "{planned}");
}

/// The example with a third mirror.
fn wider() -> String {
    let first = "{ kind = \"mirror\", legs = [\"left:bay1\", \"right:bay1\"] },";
    let further = "{ kind = \"mirror\", legs = [\"left:bay3\", \"right:bay3\"] },";
    assert!(LEGS.contains(first));
    LEGS.replace(first, &format!("{first}\n{further}"))
}

fn is_added(change: &Change) -> bool {
    matches!(change, Change::AddGroup { .. })
}

/// The groups on record may not change.
#[test]
fn a_further_group_of_a_pool_on_record_is_no_obstacle() {
    let (_, mut actual) = applied(LEGS);
    with_disks(&mut actual);
    let desired = desired_of(&wider());
    let idle = plan(&desired, &unserved(&actual));
    assert!(idle.obstacles.is_empty(), "{idle}");
    assert!(!idle.changes.iter().any(is_added), "{idle}");
    let note = "no head serves pool tank: apply again when it is served";
    assert!(idle.notes[0].starts_with(note), "{idle}");
    let further = LEGS.replace(
        "legs = [\"left:bay1\", \"right:bay1\"]",
        "legs = [\"left:bay3\", \"right:bay3\"]",
    );
    let other = plan(&desired_of(&further), &actual);
    assert!(
        other.obstacles[0]
            .what
            .contains("otherwise than its record"),
        "{other}"
    );
}

fn unserved(actual: &Actual) -> Actual {
    let mut actual = actual.clone();
    for known in actual.heads.values_mut() {
        known.portals.clear();
    }
    actual
}

/// The server of the pool adds it when each leg-server has read the file.
#[test]
fn a_further_group_is_added_after_all_leg_servers_read_the_file() {
    let (_, mut actual) = applied(LEGS);
    with_disks(&mut actual);
    let desired = desired_of(&wider());
    let left = actual.heads.get_mut(&head("left")).expect("a head");
    left.portals = desired.portals.clone();
    let planned = plan(&desired, &actual);
    let changes = &planned.changes;
    assert_eq!(
        changes.iter().filter(|one| is_added(one)).count(),
        1,
        "{planned}"
    );
    let is_attached = |one: &Change| matches!(one, Change::AttachLeg { .. });
    assert!(!changes.iter().any(is_attached), "{planned}");
    assert!(
        changes.iter().position(is_added) > changes.iter().rposition(is_restart),
        "{planned}"
    );
    let line = "left: bulkhead pool add tank mirror left:/dev/disk/by-id/nvme-eui.0025385100000003 \
                right:/dev/disk/by-id/nvme-eui.0025385200000003\n    widens tank by this group";
    assert!(planned.to_string().contains(line), "{planned}");
    let mut done = actual.clone();
    perform(&desired, &mut done, changes);
    assert!(plan(&desired, &done).is_empty());
    // The addition was interrupted when the record named one of its disks, as an empty one.
    for known in done.heads.values_mut() {
        let record = known.on_record.get_mut(&1).expect("on record");
        record.disks = Some([11, 12, 21, 22, 13].into());
        record.current = Some([11, 12, 21, 22].into());
    }
    let rest = plan(&desired, &done).changes;
    assert!(matches!(&rest[..], [Change::AddGroup { .. }]), "{rest:?}");
}

#[test]
fn a_disk_of_a_new_group_must_be_empty() {
    let (_, mut actual) = applied(LEGS);
    with_disks(&mut actual);
    let path = "/dev/disk/by-id/nvme-eui.0025385100000003";
    let seen = ObservedDisk {
        carries: "an XFS file system".to_owned(),
        ..ObservedDisk::default()
    };
    sees(&mut actual, "left", path, seen);
    let refused = plan(&desired_of(&wider()), &actual).obstacles;
    let what = format!(
        "the file names left:{path} for a new group of pool tank, and that disk carries an XFS file system"
    );
    assert_eq!(refused[0].what, what);
}
