//! Checks of networks and witnesses of pools on disks of heads.

use std::net::SocketAddr;

use super::*;

#[test]
fn leg_traffic_on_a_client_network_is_reported() {
    let text = replaced(
        LEGS,
        "networks = [\"legs-a\", \"legs-b\"]",
        "networks = [\"storage-a\", \"legs-b\"]",
    );
    let found = findings_of(&text, |_| {});
    assert_only(&found, Code::LegNetworkWithClients);
    assert!(found[0].what.contains("storage-a"), "{found:?}");
}

/// The witness decides which head survives a split, with its vote or without it. Two heads alone need a delay.
#[test]
fn a_delay_is_needless_with_a_witness_and_needed_without_one() {
    let delayed = |text: &str| {
        let fencing = "[heads.left.fencing]\n";
        replaced(text, fencing, &format!("{fencing}delay_s = 1\n"))
    };
    let from = WITNESS.find("[quorum]").expect("there");
    let to = WITNESS.find("[networks.storage-a]").expect("there");
    let voting = replaced(LEGS, "[quorum]\nrule = \"two-node\"\n", &WITNESS[from..to]);
    for text in [LEGS, &voting] {
        assert_eq!(findings_of(text, |_| {}), []);
        assert_only(
            &findings_of(&delayed(text), |_| {}),
            Code::FenceDelayNeedless,
        );
    }
    let from = LEGS.find("[witness]").expect("there");
    let to = LEGS.find("[heads.left]").expect("there");
    let alone = replaced(LEGS, &LEGS[from..to], "");
    let codes = |text: &str| {
        let found = findings_of(text, |_| {}).into_iter();
        found.map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert!(codes(&alone).contains(&Code::FenceDelayEqual));
    assert!(!codes(&delayed(&alone)).contains(&Code::FenceDelayEqual));
}

#[test]
fn witness_unreachable_from_a_head_is_reported() {
    let way: SocketAddr = "10.77.9.31:7071".parse().expect("an address");
    let found = |is_open| {
        findings_of(LEGS, |facts| {
            let right = facts.heads.get_mut(&head("right")).expect("there");
            right.ways_to_witness.insert(way, is_open);
        })
    };
    assert!(found(true).is_empty());
    let found = found(false);
    assert_only(&found, Code::LegWitnessUnreached);
    assert!(found[0].what.contains("right") && found[0].what.contains("10.77.9.31:7071"));
}

/// Two disks more on each head, and the first group of these disks.
fn with_four(group: &str) -> String {
    let mut text = LEGS.to_owned();
    for (name, number) in [("left", 1), ("right", 2)] {
        let links = format!("[heads.{name}.links]");
        let disk = |bay: u32| {
            let number = number * 100 + bay;
            format!(
                "bay{bay} = {{ number = {number}, path = \"/dev/disk/by-id/nvme-{number}\" }}\n"
            )
        };
        text = replaced(&text, &links, &format!("{}{}\n{links}", disk(8), disk(9)));
    }
    let first = "{ kind = \"mirror\", legs = [\"left:bay1\", \"right:bay1\"] }";
    replaced(&text, first, group)
}

#[test]
fn two_disks_on_each_head_are_a_mirror_or_double_parity() {
    for kind in ["mirror", "raidz2"] {
        let legs = "\"left:bay8\", \"left:bay9\", \"right:bay8\", \"right:bay9\"";
        let text = with_four(&format!("{{ kind = \"{kind}\", legs = [{legs}] }}"));
        let found = findings_of(&text, |_| {});
        assert!(found.is_empty(), "{kind}: {found:?}");
    }
}

/// Three disks of four are left after the loss of right, and one after the loss of left.
#[test]
fn a_group_that_a_head_would_take_with_it_is_refused_with_the_reason() {
    for (kind, legs, part) in [
        (
            "raidz2",
            "\"left:bay1\", \"left:bay8\", \"left:bay9\", \"right:bay8\"",
            "3 of 4 disks of this raidz2 are on left: without that head 1 are left, and 2 are needed",
        ),
        (
            "raidz1",
            "\"left:bay8\", \"left:bay9\", \"right:bay8\"",
            "without that head 1 are left, and 2 are needed",
        ),
    ] {
        let text = with_four(&format!("{{ kind = \"{kind}\", legs = [{legs}] }}"));
        let found = findings_of(&text, |_| {});
        assert_only(&found, Code::LegsOnOneHead);
        assert!(found[0].what.contains(part), "{found:?}");
    }
}
