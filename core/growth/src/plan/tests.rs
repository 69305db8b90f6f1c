//! Tests of a small plan: two hosts with a disk each get a third.

use super::*;
use crate::placement::{SeedRange, Seeds};
use crate::request::{Addition, prepared, resolve};
use crate::stages::{Staging, divide, maps};

const GIB: u64 = 1 << 30;

fn crush() -> CrushMap {
    let text = r#"{"devices": [{"id": 0, "name": "osd.0"}, {"id": 1, "name": "osd.1"}],
        "types": [{"type_id": 0, "name": "osd"}, {"type_id": 1, "name": "host"}, {"type_id": 11, "name": "root"}],
        "buckets": [
            {"id": -1, "name": "default", "type_name": "root", "alg": "straw2", "hash": "rjenkins1",
             "items": [{"id": -2, "weight": 65536}, {"id": -3, "weight": 65536}]},
            {"id": -2, "name": "a", "type_name": "host", "alg": "straw2", "hash": "rjenkins1", "items": [{"id": 0, "weight": 65536}]},
            {"id": -3, "name": "b", "type_name": "host", "alg": "straw2", "hash": "rjenkins1", "items": [{"id": 1, "weight": 65536}]}],
        "rules": [{"rule_id": 0, "rule_name": "r", "type": 1, "steps": [
            {"op": "take", "item": -1, "item_name": "default"}, {"op": "chooseleaf_firstn", "num": 0, "type": "host"}, {"op": "emit"}]}],
        "tunables": {}, "choose_args": {}}"#;
    CrushMap::parse(text.as_bytes()).expect("a map")
}

fn osd_map() -> OsdMap {
    let text = r#"{"epoch": 9, "fsid": "f", "pools": [
        {"pool": 1, "pool_name": "rbd", "type": 1, "size": 2, "crush_rule": 0, "pg_num": 3, "pg_placement_num": 3, "flags_names": "hashpspool"}],
        "osds": [{"osd": 0, "up": 1, "weight": 1}, {"osd": 1, "up": 1, "weight": 1}]}"#;
    OsdMap::parse(text.as_bytes()).expect("a map")
}

fn placement(map: &OsdMap, disks: [&str; 3]) -> Placement {
    let pool = &map.pools[&1];
    let mut seeds = Seeds::new(pool);
    let lines: Vec<String> = (0..)
        .zip(disks)
        .map(|(seed, disks)| format!("CRUSH rule 0 x {seed} [{disks}]"))
        .collect();
    let range = SeedRange { first: 0, last: 2 };
    seeds.read(range, &lines.join("\n")).expect("read");
    Placement::from([(1, seeds.into_placement().expect("complete"))])
}

fn planned(stored: &Stored, rates: &Rates) -> Plan {
    let (map, before) = (osd_map(), crush());
    let addition: Addition = "c=1x1T".parse().expect("an addition");
    let growth = resolve(&map, &before, &[addition], &[], None).expect("resolved");
    let prepared = prepared(&before, &growth).expect("prepared");
    let stages = divide(&growth, Staging::Careful).expect("few");
    let maps = maps(&prepared, &growth, &stages).expect("weighted");
    let placements = [
        placement(&map, ["0,1", "1,0", "0,1"]),
        placement(&map, ["0,2", "2,1", "1,0"]),
    ];
    assemble(&Inputs {
        map: &map,
        before: &before,
        after: maps.last().expect("a stage"),
        growth: &growth,
        stored,
        rates,
        stages: &stages,
        placements: &placements,
        over: 1.15,
    })
}

fn stored() -> Stored {
    Stored::evenly(&osd_map(), &[("rbd".to_owned(), 300 * GIB)]).expect("a pool")
}

#[test]
fn copies_bytes_and_fills_are_of_the_placements() {
    let rates = Rates {
        measured: Some(GIB / 36),
        ..Rates::default()
    };
    let plan = planned(&stored(), &rates);
    assert_eq!((plan.disks_before, plan.disks_after), (2, 3));
    assert_eq!((plan.at_once.copies, plan.at_once.copies_moved), (6, 2));
    assert_eq!(plan.at_once.bytes_moved, 200 * GIB);
    assert_eq!((plan.at_once.groups, plan.at_once.groups_touched), (3, 2));
    assert!((plan.ideal_share - 1.0 / 3.0).abs() < 1e-9);
    let new = &plan.disks[2];
    assert!(new.is_new && new.host == "c" && new.size == 1024 * GIB);
    assert_eq!((new.used_before, new.used_after(1)), (0, 200 * GIB));
    let old = &plan.disks[1];
    assert_eq!(
        (old.used_before, old.used_peak(), old.used_after(1)),
        (300 * GIB, 300 * GIB, 200 * GIB)
    );
    let expected = plan.stages[0].figures.hours.expected.expect("a rate");
    assert!((expected - 2.0).abs() < 1e-6, "{expected}");
    assert_eq!(plan.staged.bytes_moved, plan.at_once.bytes_moved);
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
}

#[test]
fn used_bytes_of_disks_scale_the_change() {
    let mut stored = stored();
    for osd in [0, 1] {
        let disk = DiskUse {
            size: 2048 * GIB,
            used: 700 * GIB,
            data: 600 * GIB,
        };
        stored.disks.insert(osd, disk);
    }
    let plan = planned(&stored, &Rates::default());
    // Each byte of objects uses two.
    assert_eq!(plan.disks[2].used_after(1), 400 * GIB);
    assert_eq!(plan.disks[1].used_after(1), 500 * GIB);
    assert_eq!(plan.disks[2].bytes_in(), 200 * GIB);
}

#[test]
fn commands_create_the_host_and_raise_each_disk() {
    let plan = planned(&stored(), &Rates::default());
    assert_eq!(
        plan.commands.prepare,
        [
            "ceph config set osd osd_crush_initial_weight 0",
            "ceph osd crush add-bucket c host",
            "ceph osd crush move c root=default",
        ]
    );
    assert_eq!(
        plan.commands.stages,
        [[
            "ceph osd set norebalance",
            "ceph osd crush reweight osd.2 1.00000",
            "ceph osd unset norebalance",
        ]]
    );
    assert_eq!(
        plan.commands.finish,
        ["ceph config rm osd osd_crush_initial_weight"]
    );
}

#[test]
fn a_plan_without_bytes_has_a_note() {
    let plan = planned(&Stored::default(), &Rates::default());
    assert!(
        plan.notes.iter().any(|note| note.contains("--pool-bytes")),
        "{:?}",
        plan.notes
    );
    let full = Stored::evenly(&osd_map(), &[("rbd".to_owned(), 1000 * GIB)]).expect("a pool");
    let notes = planned(&full, &Rates::default()).notes;
    assert!(
        notes.iter().any(|note| note.contains("stops moving")),
        "{notes:?}"
    );
}

#[test]
fn disks_of_the_document_are_read_again() {
    let plan = planned(&stored(), &Rates::default());
    let json = serde_json::to_value(&plan).expect("JSON");
    let saved: Vec<Disk> = serde_json::from_value(json["disks"].clone()).expect("disks");
    assert_eq!(saved, plan.disks);
}

#[test]
fn the_picture_has_a_line_for_each_disk_and_both_means() {
    let chart = planned(&stored(), &Rates::default()).chart();
    assert_eq!(chart.lines.len(), 3 + 2);
    assert_eq!(chart.unit, "stages");
}
