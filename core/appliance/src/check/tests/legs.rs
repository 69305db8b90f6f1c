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

fn way(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// The finding after a change of the facts of `name`.
#[track_caller]
fn only(name: &str, code: Code, change: impl FnOnce(&mut HeadFacts)) -> Vec<Finding> {
    let found = findings_of(LEGS, |facts| {
        change(facts.heads.get_mut(&head(name)).expect("there"));
    });
    assert_only(&found, code);
    let is_it = |finding: &Finding| finding.code == code;
    found.into_iter().filter(is_it).collect()
}

#[test]
fn wrong_fingerprint_of_the_witness_is_reported_once_and_a_refused_head_by_name() {
    let witness = way("10.77.9.31:7071");
    let real = "0f".repeat(32);
    let found = findings_of(LEGS, |facts| {
        for head in facts.heads.values_mut() {
            let probe = MemberProbe::Fingerprint(real.clone());
            head.members.insert(witness, probe);
        }
    });
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].code, Code::LegFingerprintDiffers);
    assert_eq!(found[0].place.key, "witness.fingerprint");
    assert!(found[0].what.contains(&real));
    let found = only("left", Code::LegRejected, |facts| {
        facts.members.insert(witness, MemberProbe::Rejected);
    });
    assert!(
        found[0].what.contains("certificate of left")
            && found[0].mend.contains("restart bulkhead-witness")
    );
}

#[test]
fn dead_leg_server_is_reported_by_its_own_head_else_the_network() {
    let parsed = parse(LEGS).expect("well formed").appliance;
    let ways = crate::facts::leg_server_addresses(&parsed, &head("right"));
    assert!(!ways.is_empty());
    let closed = || MemberProbe::Closed("Connection refused".to_owned());
    let found = findings_of(LEGS, |facts| {
        for head in facts.heads.values_mut() {
            head.members.extend(ways.iter().map(|way| (*way, closed())));
        }
    });
    assert_only(&found, Code::LegServerSilent);
    assert_eq!(found.len(), ways.len(), "{found:#?}");
    assert!(found[0].what.starts_with("no leg-server of right responds"));
    assert!(
        found[0]
            .mend
            .contains("`systemctl start bulkhead-leg-server` on right")
    );
    let found = only("left", Code::LegServerSilent, |facts| {
        facts.members.insert(ways[0], closed());
    });
    assert!(
        found[0]
            .what
            .starts_with("left does not reach the leg-server of right")
    );
    let found = only("left", Code::LegRejected, |facts| {
        facts.members.insert(ways[0], MemberProbe::Rejected);
    });
    assert!(
        found[0]
            .what
            .contains("of right refuses the certificate of left")
    );
    // Before the first `apply`.
    let found = findings_of(LEGS, |facts| {
        for head in facts.heads.values_mut() {
            head.has_leg_config = false;
            head.members.extend(ways.iter().map(|way| (*way, closed())));
        }
    });
    assert_eq!(found, []);
}

#[test]
fn example_fingerprints_and_readable_keys_are_reported() {
    let found = only("left", Code::LegFingerprintExample, |facts| {
        facts.leg_fingerprint = None;
    });
    assert!(found[0].what.contains("fingerprint of left"));
    let found = findings_of(LEGS, |facts| {
        for head in facts.heads.values_mut() {
            head.members.clear();
        }
    });
    assert_only(&found, Code::LegFingerprintExample);
    assert_eq!(found[0].place.key, "witness.fingerprint");
    // Without facts of the heads an example is no mistake.
    let parsed = parse(LEGS).expect("well formed");
    let found = check(&parsed, &Facts::default());
    assert!(
        found.iter().all(|one| one.code == Code::NotAsked),
        "{found:#?}"
    );
    let found = only("right", Code::LegKeyOpen, |facts| {
        facts.leg_key_mode = Some(0o644);
    });
    assert!(found[0].what.contains("mode 0644") && found[0].mend.contains("chmod 0600"));
}

#[test]
fn address_of_another_interface_or_of_none_is_reported() {
    let found = findings_of(PAIR, |facts| {
        let left = facts.heads.get_mut(&head("left")).expect("there");
        let addresses = left.addresses.as_mut().expect("known");
        let first = addresses.keys().next().cloned().expect("an interface");
        let own = addresses.remove(&first).expect("its addresses");
        addresses.insert("spare0".to_owned(), own);
    });
    assert_only(&found, Code::AddressMissing);
    assert!(found[0].what.contains("is on spare0 of left"), "{found:#?}");
    let found = findings_of(PAIR, |facts| {
        let left = facts.heads.get_mut(&head("left")).expect("there");
        for own in left.addresses.as_mut().expect("known").values_mut() {
            *own = BTreeSet::from(["10.9.9.9".parse().expect("an address")]);
        }
    });
    assert_only(&found, Code::AddressMissing);
    assert!(found[0].what.contains("and has 10.9.9.9"), "{found:#?}");
}
