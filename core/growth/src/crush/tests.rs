//! Tests with the dump of a real map: two hosts, two device classes, a replicated and an erasure-coded rule.

use super::*;

/// The output of `crushtool --dump` of release 16.2.15.
const DUMP: &str = include_str!("dump.json");

fn map() -> CrushMap {
    CrushMap::parse(DUMP.as_bytes()).expect("a map")
}

fn take(class: Option<&str>) -> Take {
    Take {
        bucket: "default".to_owned(),
        class: class.map(str::to_owned),
    }
}

#[test]
fn disks_hosts_and_rules_are_found() {
    let map = map();
    let disks = map.disks();
    assert_eq!(disks.len(), 4);
    assert_eq!(disks[&1].host, "a");
    assert_eq!(disks[&1].weight, 163_840);
    assert_eq!(disks[&1].class.as_deref(), Some("ssd"));
    assert_eq!(map.hosts(), ["a", "b"]);
    // A gap in the numbers is no disk.
    assert!(!map.osd_ids().contains(&3));
    assert_eq!(map.takes(1).expect("a rule"), [take(Some("hdd"))]);
    assert_eq!(map.takes(3).expect("a rule"), [take(None)]);
    assert!(map.takes(2).is_err());
    assert_eq!(map.failure_domain(1).as_deref(), Some("host"));
    assert_eq!(map.failure_domain(3).as_deref(), Some("osd"));
    assert_eq!(map.location_of("a"), "root=default host=a");
}

#[test]
fn reach_follows_classes() {
    let map = map();
    let reached = |class| map.reach(&take(class)).into_keys().collect::<Vec<_>>();
    assert_eq!(reached(None), [0, 1, 2, 4]);
    assert_eq!(reached(Some("hdd")), [0, 2, 4]);
    assert_eq!(reached(Some("ssd")), [1]);
    let domains = map.domains("host");
    assert_eq!((domains[&0], domains[&1], domains[&4]), (-2, -2, -3));
    assert_eq!(map.domains("osd")[&4], 4);
}

#[test]
fn weights_above_follow_the_weight_of_a_disk() {
    let mut map = map();
    map.add_host("c", "default").expect("added");
    map.add_disk(3, "c", Some("hdd")).expect("added");
    map.set_weight(3, 2 << 16).expect("set");
    map.set_weight(0, 0).expect("set");
    let root = map.bucket_named("default").expect("the root");
    let weights: Vec<u64> = root.items.iter().map(Item::weight).collect();
    assert_eq!(weights, [163_840, 65_536, 2 << 16]);
    // The lowest number that no bucket and no shadow has.
    assert_eq!(map.bucket_named("c").expect("the host").id, -10);
    assert_eq!(map.disks()[&3].class.as_deref(), Some("hdd"));
}

#[test]
fn the_text_has_exact_weights_and_the_numbers_of_shadows() {
    let mut map = map();
    map.set_weight(0, 238_415).expect("set");
    let text = map.to_text().expect("a text");
    assert!(text.contains("item osd.0 weight 3.637928009\n"), "{text}");
    assert!(
        text.contains("host a {\n\tid -2\n\tid -4 class hdd\n\tid -7 class ssd\n"),
        "{text}"
    );
    assert!(text.contains("item osd.4 weight 0\n"), "{text}");
    assert!(
        text.contains("\tstep take default class hdd\n\tstep chooseleaf firstn 0 type host\n"),
        "{text}"
    );
    assert!(text.contains("\tstep set_choose_tries 100\n"), "{text}");
    assert!(!text.contains('~') && !text.contains("device 3"), "{text}");
    let read = |number: &str| (number.parse::<f32>().expect("a number") * 65536.0) as u64;
    assert_eq!(read("3.637928009"), 238_415);
}

#[test]
fn weights_of_each_size_survive_the_text() {
    for weight in [
        1_u64,
        65_535,
        65_536,
        238_415,
        1 << 22,
        (1 << 23) - 1,
        (1 << 23) + 1,
        (1 << 24) - 1,
    ] {
        let text = format!("{:.9}", (weight as f64 + 0.25) / 65536.0);
        let read = text.parse::<f32>().expect("a number") * 65536.0;
        assert_eq!(read as u64, weight, "{text}");
    }
}

#[test]
fn maps_that_cannot_be_planned_are_refused() {
    let wrong = [
        (
            "\"choose_args\": {}",
            "\"choose_args\": {\"-1\": []}",
            "weight-sets",
        ),
        (
            "\"items\": [{\"id\": -2,",
            "\"items\": [{\"id\": -77,",
            "does not exist",
        ),
        (
            "\"items\": [{\"id\": -2,",
            "\"items\": [{\"id\": -1,",
            "contains itself",
        ),
        (
            "{\"id\": 4, \"name\"",
            "{\"id\": 0, \"name\"",
            "out of range",
        ),
        ("\"devices\"", "\"gadgets\"", "not valid"),
    ];
    for (right, wrong, reason) in wrong {
        let text = DUMP.replacen(right, wrong, 1);
        assert_ne!(text, DUMP, "{right}");
        let error = CrushMap::parse(text.as_bytes()).expect_err(reason);
        assert!(error.message.contains(reason), "{error}");
    }
}

#[test]
fn names_and_steps_that_would_change_the_text_are_refused() {
    for (right, wrong) in [
        ("\"name\": \"b\"", "\"name\": \"b {\""),
        ("\"choose_indep\"", "\"choose_everything\""),
        ("\"rule_name\": \"hdd\"", "\"rule_name\": \"\""),
    ] {
        let text = DUMP.replace(right, wrong);
        assert_ne!(text, DUMP, "{right}");
        let map = CrushMap::parse(text.as_bytes()).expect("parsed");
        assert!(map.to_text().is_err(), "{wrong}");
    }
}

#[test]
fn edits_of_unknown_objects_are_refused() {
    let mut map = map();
    assert!(map.add_host("a", "default").is_err());
    assert!(map.add_host("c", "nowhere").is_err());
    assert!(map.add_disk(0, "a", None).is_err());
    assert!(map.add_disk(7, "nowhere", None).is_err());
    assert!(map.set_weight(7, 1).is_err());
    let text = DUMP.replace("\"alg\": \"straw2\"", "\"alg\": \"uniform\"");
    let mut uniform = CrushMap::parse(text.as_bytes()).expect("a map");
    assert!(uniform.set_weight(0, 1).is_err());
}
