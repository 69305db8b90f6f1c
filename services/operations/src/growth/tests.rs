//! Plans of pools of every shape, and their rates, by tables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use control::answer::{MovedBytes, PlanView, PoolSpace};
use control::operations::pool::plan::PlannedChange;
use control::operations::pool::{DeviceGroup, GroupKind, GroupRole};
use engine::pool::{
    DeviceState, DeviceStatus, FeatureStatus, MoveState, MoveStatus, PoolStatus, Role, ScanKind,
    ScanState, ScanStatus,
};

use super::plan::{Facts, plan as planned};
use super::work;
use crate::replace::tests::{device, mirror};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn leaf(name: &str) -> DeviceStatus {
    DeviceStatus {
        ashift: 12,
        needed_bytes: 10 * GIB,
        ..device(name, "disk", DeviceState::Online)
    }
}

fn group(name: &str, kind: &str, members: &[&str], allocated: u64, size: u64) -> DeviceStatus {
    DeviceStatus {
        children: members.iter().map(|name| leaf(name)).collect(),
        allocated_bytes: allocated,
        size_bytes: size,
        ashift: 12,
        ..device(name, kind, DeviceState::Online)
    }
}

fn facts(devices: Vec<DeviceStatus>) -> Facts {
    let size: u64 = devices.iter().map(|one| one.size_bytes).sum();
    let allocated: u64 = devices.iter().map(|one| one.allocated_bytes).sum();
    let sizes = ["/a", "/b", "/c", "/d", "/e", "/f", "/new", "/more"];
    let sizes = sizes.map(|path| (PathBuf::from(path), 10 * GIB + 9 * MIB / 2));
    Facts {
        status: PoolStatus {
            devices,
            size_bytes: size,
            allocated_bytes: allocated,
            features: vec![FeatureStatus {
                name: "org.openzfs:raidz_expansion".to_owned(),
                active: false,
            }],
            ..mirror(Vec::new())
        },
        space: Some(PoolSpace {
            usable: size,
            available: size - allocated,
            ..PoolSpace::default()
        }),
        sizes: BTreeMap::from(sizes),
        is_autoexpand: false,
        copy_rate_max: None,
    }
}

fn two_mirrors() -> Facts {
    facts(vec![
        group("mirror-0", "mirror", &["/a", "/b"], 4 * GIB, 10 * GIB),
        group("mirror-1", "mirror", &["/c", "/d"], 2 * GIB, 10 * GIB),
    ])
}

fn raidz() -> Facts {
    facts(vec![group(
        "raidz1-0",
        "raidz",
        &["/a", "/b", "/c"],
        9 * GIB,
        30 * GIB,
    )])
}

fn moved(view: &PlanView) -> Vec<(&str, u64, u64)> {
    let moves = view.moves.iter();
    moves
        .map(
            |MovedBytes {
                 device,
                 read,
                 written,
             }| (device.as_str(), *read, *written),
        )
        .collect()
}

fn remove(device: &str) -> PlannedChange {
    PlannedChange::Remove {
        device: device.into(),
    }
}

fn replace(old: &str, new: &str) -> PlannedChange {
    PlannedChange::Replace {
        old: old.into(),
        new: new.into(),
    }
}

fn attach(existing: &str, new: &str) -> PlannedChange {
    PlannedChange::Attach {
        existing: existing.into(),
        new: new.into(),
    }
}

fn add(kind: GroupKind, role: GroupRole, devices: &[&str]) -> PlannedChange {
    PlannedChange::Add {
        groups: vec![DeviceGroup {
            kind,
            role,
            devices: devices.iter().map(PathBuf::from).collect(),
        }],
    }
}

fn scan(kind: ScanKind, total_bytes: u64, took_s: u64) -> ScanStatus {
    ScanStatus {
        kind,
        state: ScanState::Finished,
        started_s: 1000,
        ended_s: 1000 + took_s,
        total_bytes,
        done_bytes: total_bytes,
        repaired_bytes: 0,
        errors: 0,
        remaining_s: None,
        bytes_per_s: None,
        percent: 100.0,
    }
}

#[test]
fn removal_moves_the_allocated_bytes_to_the_other_groups() {
    let facts = two_mirrors();
    let view = planned(&facts, &remove("mirror-1"));
    assert_eq!(view.refused, None);
    assert_eq!(view.total, 2 * GIB);
    let expected = [
        ("/c", 2 * GIB, 0),
        ("/d", 2 * GIB, 0),
        ("/a", 0, 2 * GIB),
        ("/b", 0, 2 * GIB),
    ];
    assert_eq!(moved(&view), expected);
    assert_eq!(view.groups[0].allocated_after, Some(6 * GIB));
    assert_eq!(view.groups[1].size_after, None);
    assert_eq!(
        (view.full_percent_before, view.full_percent_after),
        (Some(30), Some(58))
    );
    assert_eq!(view.command, "bulkhead pool remove tank mirror-1");
    assert!(
        view.meanwhile[0].contains("survives the loss of one device"),
        "{view:?}"
    );
}

#[test]
fn replacement_fills_the_new_device_from_its_group() {
    for (facts, old, total, expected) in [
        (
            two_mirrors(),
            "/a",
            4 * GIB,
            vec![("/a", 2 * GIB, 0), ("/b", 2 * GIB, 0), ("/new", 0, 4 * GIB)],
        ),
        (
            raidz(),
            "/a",
            9 * GIB,
            vec![("/b", 3 * GIB, 0), ("/c", 3 * GIB, 0), ("/new", 0, 3 * GIB)],
        ),
    ] {
        let view = planned(&facts, &replace(old, "/new"));
        assert_eq!(view.refused, None);
        assert_eq!(view.total, total);
        assert_eq!(moved(&view), expected);
        assert_eq!(view.usable_before, view.usable_after);
    }
}

#[test]
fn failed_device_leaves_the_group_without_redundancy_until_it_is_replaced() {
    let mut facts = two_mirrors();
    facts.status.devices[0].children[0].state = DeviceState::Faulted;
    let view = planned(&facts, &replace("/a", "/new"));
    assert_eq!(moved(&view), [("/b", 4 * GIB, 0), ("/new", 0, 4 * GIB)]);
    assert!(view.meanwhile[0].contains("survives no loss"), "{view:?}");
    assert!(view.meanwhile[1].contains("is not in use"), "{view:?}");
}

#[test]
fn expansion_moves_all_data_of_the_group_and_adds_a_device_of_capacity() {
    let view = planned(&raidz(), &attach("raidz1-0", "/new"));
    assert_eq!(view.refused, None);
    assert_eq!(view.total, 9 * GIB);
    let written = 9 * GIB / 4;
    let expected = [
        ("/a", 3 * GIB, written),
        ("/b", 3 * GIB, written),
        ("/c", 3 * GIB, written),
        ("/new", 0, written),
    ];
    assert_eq!(moved(&view), expected);
    assert_eq!(view.groups[0].size_after, Some(40 * GIB));
    let more = view.usable_after.zip(view.usable_before);
    let more = more.map(|(after, before)| after - before).expect("a size");
    // Two of three disks hold data, and a 32nd part is the reserve of the pool.
    let expected = 10 * GIB * 2 / 3;
    assert!(more > expected * 9 / 10 && more <= expected, "{more}");
}

#[test]
fn new_group_moves_no_data_and_is_as_large_as_its_smallest_device() {
    let mut facts = two_mirrors();
    facts.sizes.insert("/more".into(), 20 * GIB);
    for (change, size, more) in [
        (
            add(GroupKind::Mirror, GroupRole::Data, &["/new", "/more"]),
            Some(10 * GIB),
            10 * GIB,
        ),
        (
            add(
                GroupKind::Raidz { parity: 1 },
                GroupRole::Data,
                &["/new", "/more", "/f"],
            ),
            Some(30 * GIB),
            20 * GIB,
        ),
        (add(GroupKind::Stripe, GroupRole::Spare, &["/new"]), None, 0),
    ] {
        let view = planned(&facts, &change);
        assert_eq!((view.total, view.moves.len()), (0, 0));
        let new = view.groups.get(2);
        assert_eq!(new.and_then(|new| new.size_after), size, "{view:?}");
        let after = view.usable_after.expect("known");
        assert_eq!(after - 20 * GIB, more - more / 32, "{view:?}");
    }
    let command = planned(&facts, &add(GroupKind::Stripe, GroupRole::Spare, &["/new"])).command;
    assert_eq!(command, "bulkhead pool add tank spare /new");
    let unreadable = add(GroupKind::Mirror, GroupRole::Data, &["/new", "/unreadable"]);
    let view = planned(&facts, &unreadable);
    assert_eq!(view.groups[2].size_after, None);
    assert!(view.notes[0].contains("is unknown"), "{view:?}");
}

#[test]
fn larger_devices_widen_the_group_only_where_all_of_them_are_larger() {
    let mut facts = two_mirrors();
    facts.sizes.insert("/b".into(), 20 * GIB);
    facts.sizes.insert("/new".into(), 20 * GIB);
    let view = planned(&facts, &replace("/a", "/new"));
    assert_eq!(view.groups[0].size_after, Some(10 * GIB), "{view:?}");
    assert!(view.notes[0].contains("autoexpand=on"), "{view:?}");
    facts.is_autoexpand = true;
    let view = planned(&facts, &replace("/a", "/new"));
    assert_eq!(
        view.groups[0].size_after,
        Some(20 * GIB - 9 * MIB / 2),
        "{view:?}"
    );
    facts.sizes.insert("/b".into(), 10 * GIB);
    let view = planned(&facts, &replace("/a", "/new"));
    assert_eq!(view.groups[0].size_after, Some(10 * GIB), "{view:?}");
    let expand = PlannedChange::Expand {
        device: "/a".into(),
    };
    let view = planned(&facts, &expand);
    assert!(view.notes[0].contains("does not grow"), "{view:?}");
    facts.sizes.insert("/a".into(), 30 * GIB);
    facts.sizes.insert("/b".into(), 40 * GIB);
    let view = planned(&facts, &expand);
    assert_eq!(
        view.groups[0].size_after,
        Some(30 * GIB - 9 * MIB / 2),
        "{view:?}"
    );
}

#[test]
fn impossible_changes_are_refused_with_the_reason_and_no_bytes() {
    let full = || {
        let mut facts = two_mirrors();
        facts.space.as_mut().expect("space").available = 10 * GIB;
        facts
    };
    let other_sectors = || {
        let mut facts = two_mirrors();
        facts.status.devices[1].ashift = 9;
        facts
    };
    let moving = || {
        let mut facts = two_mirrors();
        facts.status.removal = Some(MoveStatus::default());
        facts
    };
    let incomplete = || {
        let mut facts = two_mirrors();
        facts.status.devices[1].children[0].state = DeviceState::Faulted;
        facts
    };
    let old_format = || {
        let mut facts = raidz();
        facts.status.features.clear();
        facts
    };
    let small = || {
        let mut facts = two_mirrors();
        facts.sizes.insert("/new".into(), GIB);
        facts
    };
    let cached = || {
        let mut facts = two_mirrors();
        facts.status.devices.push(DeviceStatus {
            role: Role::Cache,
            ..leaf("/e")
        });
        facts
    };
    let one = || {
        facts(vec![group(
            "mirror-0",
            "mirror",
            &["/a", "/b"],
            GIB,
            10 * GIB,
        )])
    };
    let made: Vec<(Facts, PlannedChange, &str)> = vec![
        (
            raidz(),
            remove("raidz1-0"),
            "no group of such a pool can be removed",
        ),
        (full(), remove("mirror-1"), "have no room"),
        (
            other_sectors(),
            remove("mirror-1"),
            "different sector sizes",
        ),
        (moving(), remove("mirror-1"), "a removal runs"),
        (incomplete(), remove("mirror-1"), "is not complete"),
        (
            two_mirrors(),
            remove("/c"),
            "`bulkhead pool detach tank /c`",
        ),
        (two_mirrors(), remove("/none"), "has no device /none"),
        (one(), remove("mirror-0"), "the only group of data"),
        (raidz(), attach("/a", "/new"), "name the group"),
        (old_format(), attach("raidz1-0", "/new"), "is not enabled"),
        (small(), attach("/a", "/new"), "choose a larger device"),
        (small(), replace("/a", "/new"), "choose a larger device"),
        (two_mirrors(), replace("mirror-0", "/new"), "is a group"),
        (moving(), replace("/a", "/new"), "a removal runs"),
        (cached(), replace("/e", "/new"), "which has no data"),
        (cached(), attach("/e", "/new"), "which has no copies"),
    ];
    for (facts, change, part) in &made {
        let view = planned(facts, change);
        let refused = view.refused.as_deref().unwrap_or_default();
        assert!(refused.contains(part), "{change:?}: {refused}");
        assert_eq!(
            (view.total, view.moves.len(), view.duration_s),
            (0, 0, None)
        );
    }
    let view = planned(&cached(), &remove("/e"));
    assert_eq!((view.refused.clone(), view.total), (None, 0), "{view:?}");
}

#[test]
fn duration_is_based_on_the_last_comparable_work() {
    let with = |kind, total, took_s| {
        let mut facts = two_mirrors();
        facts.status.scan = Some(scan(kind, total, took_s));
        facts
    };
    // 6 GiB of the pool in 60 s are 100 MiB a second, of which mirror-0 has two thirds.
    let scrubbed = with(ScanKind::Scrub, 6 * GIB, 60);
    let view = planned(&scrubbed, &replace("/a", "/new"));
    assert_eq!(view.duration_s, Some(60));
    assert_eq!(view.rate.expect("a rate").measured_by, "scrub");
    let resilvered = with(ScanKind::Resilver, 4 * GIB, 40);
    assert_eq!(
        planned(&resilvered, &replace("/a", "/new")).duration_s,
        Some(40)
    );
    let mut bounded = with(ScanKind::Resilver, 4 * GIB, 40);
    bounded.copy_rate_max = Some(GIB / 100);
    assert_eq!(
        planned(&bounded, &replace("/a", "/new")).duration_s,
        Some(400)
    );
    assert_eq!(planned(&bounded, &remove("mirror-1")).duration_s, Some(20));
    for unmeasured in [
        two_mirrors(),
        with(ScanKind::Scrub, 6 * GIB, 4),
        with(ScanKind::ErrorScrub, GIB, 60),
    ] {
        let view = planned(&unmeasured, &replace("/a", "/new"));
        assert_eq!((view.total, view.duration_s), (4 * GIB, None));
        assert!(
            view.notes
                .iter()
                .any(|note| note.contains("the duration is unknown")),
            "{view:?}"
        );
    }
    let mut removed = with(ScanKind::Scrub, 6 * GIB, 60);
    removed.status.removal = Some(MoveStatus {
        state: MoveState::Finished,
        started_s: 0,
        ended_s: 10,
        total_bytes: GIB,
        done_bytes: GIB,
        ..MoveStatus::default()
    });
    let view = planned(&removed, &remove("mirror-1"));
    assert_eq!(view.duration_s, Some(20));
    assert_eq!(view.rate.expect("a rate").measured_by, "removal");
}

#[test]
fn work_is_listed_while_it_is_not_complete() {
    let mut status = two_mirrors().status;
    status.scan = Some(ScanStatus {
        state: ScanState::Running,
        done_bytes: GIB,
        bytes_per_s: Some(MIB),
        remaining_s: Some(7),
        ..scan(ScanKind::Resilver, 2 * GIB, 0)
    });
    status.removal = Some(MoveStatus {
        started_s: 100,
        group: Some("mirror-1".to_owned()),
        total_bytes: 3 * GIB,
        done_bytes: GIB,
        ..MoveStatus::default()
    });
    status.expansion = Some(MoveStatus {
        is_behind_resilver: true,
        started_s: 100,
        total_bytes: GIB,
        done_bytes: 2 * GIB,
        ..MoveStatus::default()
    });
    let found = work::of(&status, 100 + 1024);
    let shown: Vec<_> = found
        .iter()
        .map(|one| {
            let (rate, left) = (one.bytes_per_s, one.remaining_s);
            (
                one.kind.as_str(),
                one.state.as_str(),
                one.percent(),
                rate,
                left,
            )
        })
        .collect();
    let expected = [
        ("resilver", "running", 50, Some(MIB), Some(7)),
        ("removal", "running", 33, Some(MIB), Some(2048)),
        ("expansion", "paused", 100, None, None),
    ];
    assert_eq!(shown, expected);
    // The clock was set back since the start.
    assert_eq!(work::of(&status, 99)[1].bytes_per_s, None);
    for moved in [&mut status.removal, &mut status.expansion] {
        moved.as_mut().expect("a move").state = MoveState::Finished;
    }
    status.scan.as_mut().expect("a scan").state = ScanState::Finished;
    assert!(work::of(&status, 2000).is_empty());
}

#[test]
fn group_is_found_by_any_of_its_devices() {
    let status = two_mirrors().status;
    for (device, expected) in [
        ("/d", Some("mirror-1")),
        ("mirror-0", Some("mirror-0")),
        ("/x", None),
    ] {
        let found = super::group_of(&status, Path::new(device));
        assert_eq!(found.map(|group| group.name.as_str()), expected);
    }
}
