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
