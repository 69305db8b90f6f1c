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

#[test]
fn witness_without_a_vote_is_reported() {
    let from = LEGS.find("[quorum]").expect("there");
    let to = LEGS.find("[networks.storage-a]").expect("there");
    let text = replaced(LEGS, &LEGS[from..to], "[quorum]\nrule = \"two-node\"\n\n");
    let text = replaced(
        &text,
        "[heads.left.fencing]",
        "[heads.left.fencing]\ndelay_s = 1",
    );
    assert_only(&findings_of(&text, |_| {}), Code::LegWitnessWithoutVote);
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
