//! Tests of requests against a real map: hosts a and b below `default`, disks 0, 1, 2 and 4.

use super::*;
use crate::GrowthErrorKind;

fn crush() -> CrushMap {
    CrushMap::parse(include_bytes!("../crush/dump.json")).expect("a map")
}

fn osd_map() -> OsdMap {
    let text = r#"{"epoch": 1, "fsid": "f", "pools": [
        {"pool": 1, "pool_name": "rbd", "type": 1, "size": 2, "crush_rule": 1, "pg_num": 8, "pg_placement_num": 8, "flags_names": "hashpspool"}],
        "osds": [{"osd": 0, "up": 1, "weight": 1}, {"osd": 1, "up": 1, "weight": 1}, {"osd": 2, "up": 1, "weight": 1}, {"osd": 4, "up": 1, "weight": 1}]}"#;
    OsdMap::parse(text.as_bytes()).expect("a map")
}

fn resolved(additions: &[&str], removals: &[&str]) -> Result<Growth, GrowthError> {
    let additions: Result<Vec<Addition>, _> = additions.iter().map(|text| text.parse()).collect();
    let removals: Result<Vec<Removal>, _> = removals.iter().map(|text| text.parse()).collect();
    resolve(&osd_map(), &crush(), &additions?, &removals?, None)
}

#[test]
fn additions_are_read() {
    let addition: Addition = "r1/ceph18=10x3.638T:hdd".parse().expect("an addition");
    assert_eq!(addition.parent.as_deref(), Some("r1"));
    assert_eq!((addition.host.as_str(), addition.count), ("ceph18", 10));
    assert_eq!(addition.class.as_deref(), Some("hdd"));
    let wrong = [
        "",
        "ceph18",
        "ceph18=",
        "ceph18=10",
        "ceph18=0x4T",
        "ceph18=x4T",
        "ceph18=10x0",
        "ceph18=10x1M",
        "=10x4T",
        "ceph18=10x4TB",
        "a b=1x1T",
        "r1/=1x1T",
        "h=99999999x1T",
        "h=1x1T:",
        "h=-1x1T",
        "h~hdd=1x1T",
    ];
    for text in wrong {
        let error = text.parse::<Addition>().expect_err(text);
        assert_eq!(error.kind, GrowthErrorKind::Usage, "{text}");
        assert!(error.advice.is_some(), "{text}");
    }
}

#[test]
fn new_disks_have_the_lowest_free_numbers() {
    let growth = resolved(&["c=3x1T:hdd"], &[]).expect("resolved");
    let numbers: Vec<OsdId> = growth.added.iter().map(|disk| disk.osd).collect();
    assert_eq!(numbers, [3, 5, 6]);
    assert_eq!(growth.hosts, [("c".to_owned(), "default".to_owned())]);
}

#[test]
fn disks_without_weight_on_the_host_are_used_first() {
    let growth = resolved(&["b=2x1T:hdd"], &[]).expect("resolved");
    let added: Vec<(OsdId, bool)> = growth
        .added
        .iter()
        .map(|disk| (disk.osd, disk.exists))
        .collect();
    assert_eq!(added, [(4, true), (3, false)]);
    assert!(growth.hosts.is_empty());
    prepared(&crush(), &growth).expect("prepared");
}

#[test]
fn mistakes_have_their_own_sentences() {
    let cases: [(&[&str], &[&str], &str, GrowthErrorKind); 10] = [
        (&[], &[], "nothing is added", GrowthErrorKind::Usage),
        (
            &["c=1x1T"],
            &[],
            "several device classes",
            GrowthErrorKind::Usage,
        ),
        (
            &["rack9/c=1x1T:hdd"],
            &[],
            "no bucket rack9",
            GrowthErrorKind::NotFound,
        ),
        (
            &["default=1x1T:hdd"],
            &[],
            "no host",
            GrowthErrorKind::Usage,
        ),
        (&["b/a=1x1T:hdd"], &[], "not in b", GrowthErrorKind::Usage),
        (&[], &["osd.77"], "no osd.77", GrowthErrorKind::NotFound),
        (&[], &["z"], "no host z", GrowthErrorKind::NotFound),
        (&[], &["osd.x"], "neither a disk", GrowthErrorKind::Usage),
        (
            &[],
            &["a", "b"],
            "no disk with data",
            GrowthErrorKind::Usage,
        ),
        (
            &["b=1x1T:hdd"],
            &["osd.4"],
            "added and removed",
            GrowthErrorKind::Usage,
        ),
    ];
    for (additions, removals, reason, kind) in cases {
        let error = resolved(additions, removals).expect_err(reason);
        assert!(error.message.contains(reason), "{error} has no {reason:?}");
        assert_eq!(error.kind, kind, "{error}");
    }
}

#[test]
fn a_chosen_number_that_exists_is_refused() {
    let additions = ["c=2x1T:hdd".parse().expect("an addition")];
    let error = resolve(&osd_map(), &crush(), &additions, &[], Some(4)).expect_err("it exists");
    assert_eq!(
        (error.kind, error.message.as_str()),
        (GrowthErrorKind::Exists, "osd.4 exists")
    );
    let growth = resolve(&osd_map(), &crush(), &additions, &[], Some(170)).expect("resolved");
    assert_eq!(growth.added[1].osd, 171);
}

#[test]
fn a_rule_that_does_not_reach_the_new_disks_is_refused() {
    let reach = |addition: &str| {
        let growth = resolved(&[addition], &[]).expect("resolved");
        let prepared = prepared(&crush(), &growth).expect("prepared");
        reached_pools(&osd_map(), &prepared, &growth)
    };
    assert_eq!(
        reach("c=1x1T:hdd"),
        Ok(BTreeMap::from([("rbd".to_owned(), true)]))
    );
    let error = reach("c=1x1T:nvme").expect_err("another class");
    assert!(
        error
            .message
            .contains("pool rbd uses disks below default with class hdd"),
        "{error}"
    );
}
