//! Each check against a file with that one mistake. A case changes some text or some fact of a
//! faultless example, and names the one error that must be found.

mod alerts;
mod legs;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use units::{ByteCount, HeadName};

use super::{Code, Finding, Severity, check};
use crate::Appliance;
use crate::facts::{
    DiskFacts, Facts, HeadFacts, InterfaceFacts, MemberProbe, PoolFacts, SecretFacts, TlsFacts,
    members_required, programs_required, secrets_required,
};
use crate::parse::parse;

const PAIR: &str = include_str!("../../../../examples/pair.toml");
const TWO_POOLS: &str = include_str!("../../../../examples/two-pools.toml");
const EIGHT_POOLS: &str = include_str!("../../../../examples/eight-pools.toml");
const WITNESS: &str = include_str!("../../../../examples/witness.toml");
const VIRTUAL: &str = include_str!("../../../../examples/virtual.toml");
const IPV6: &str = include_str!("../../../../examples/ipv6.toml");
const LEGS: &str = include_str!("../../../../examples/legs-two-heads-witness.toml");
const THREE_HEADS: &str = include_str!("../../../../examples/legs-three-heads.toml");
const LEGS_EIGHT_POOLS: &str = include_str!("../../../../examples/legs-eight-pools.toml");
const SINGLE: &str = include_str!("../../../../examples/single.toml");

/// Facts that match the file.
fn good_facts(appliance: &Appliance) -> Facts {
    let mut facts = Facts::default();
    for (name, head) in &appliance.heads {
        let interfaces = head.links.iter().map(|(network, link)| {
            let mtu = appliance.networks[network].mtu;
            (link.interface.clone(), InterfaceFacts { mtu })
        });
        let mut addresses: BTreeMap<String, BTreeSet<_>> = BTreeMap::new();
        for link in head.links.values() {
            let own = addresses.entry(link.interface.clone()).or_default();
            own.extend(link.addresses.iter().copied());
        }
        let pools = appliance.pools.values();
        let disks = pools.flat_map(|pool| appliance.disks_on(name, pool));
        let disk = DiskFacts {
            physical_block_bytes: 4_096,
            alignment_offset_bytes: 0,
            size_bytes: 4 << 40,
        };
        let secret = SecretFacts { mode: 0o600 };
        facts.heads.insert(
            name.clone(),
            HeadFacts {
                node_name: Some(name.to_string()),
                identity: Some(format!("machine of {name}")),
                memory: Some(ByteCount::gib(256)),
                clock_ahead_ms: Some(3),
                stall_ms_max: Some(40),
                programs: programs_required(appliance)
                    .into_iter()
                    .map(|program| (program, true))
                    .collect(),
                versions: BTreeMap::from([("pacemaker".to_owned(), "2.1.5".to_owned())]),
                interfaces: Some(interfaces.collect()),
                disks: disks.map(|path| (path, Some(disk.clone()))).collect(),
                leg_fingerprint: head.fingerprint.clone(),
                addresses: Some(addresses),
                has_leg_config: appliance.has_legs(),
                leg_key_mode: appliance.has_legs().then_some(0o600),
                members: members_required(appliance)
                    .into_iter()
                    .map(|(way, _)| (way, MemberProbe::Accepted))
                    .collect(),
                zfs_features: Some(BTreeSet::from(["zstd_compress".to_owned()])),
                secrets: secrets_required(appliance)
                    .into_iter()
                    .map(|path| (path, Some(secret.clone())))
                    .collect(),
                witness_certificate: Some(true),
                ..HeadFacts::default()
            },
        );
    }
    facts
}

fn findings_of(text: &str, change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    let parsed = match parse(text) {
        Ok(parsed) => parsed,
        Err(finding) => panic!("{finding}"),
    };
    let mut facts = good_facts(&parsed.appliance);
    change(&mut facts);
    check(&parsed, &facts)
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "missing in the example: {from:?}");
    text.replacen(from, to, 1)
}

fn head(name: &str) -> HeadName {
    name.parse().expect("a name")
}

#[track_caller]
fn assert_only(findings: &[Finding], code: Code) {
    let found: Vec<Code> = findings.iter().map(|finding| finding.code).collect();
    assert!(found.contains(&code), "wanted {code}, found {findings:#?}");
    let others: Vec<&Finding> = findings
        .iter()
        .filter(|finding| finding.code != code && finding.severity == Severity::Error)
        .collect();
    assert!(others.is_empty(), "wanted {code} only, found {others:#?}");
}

#[test]
fn shipped_examples_pass_the_check() {
    let shared = [PAIR, TWO_POOLS, EIGHT_POOLS, WITNESS, VIRTUAL, IPV6, SINGLE];
    for text in shared
        .into_iter()
        .chain([LEGS, THREE_HEADS, LEGS_EIGHT_POOLS])
    {
        let findings = findings_of(text, |_| {});
        assert!(findings.is_empty(), "{findings:#?}");
    }
}

#[test]
fn each_file_error_yields_its_finding() {
    let bmc = "[heads.left.fencing.bmc]\naddress = \"10.77.9.21\"\nuser = \"fence\"\npassword_file = \"/etc/bulkhead/secrets/bmc-left\"\n";
    let outlets = "outlets = [{ pdu = \"a\", outlet = \"1\" }, { pdu = \"b\", outlet = \"1\" }]\n";
    let no_outlets = replaced(PAIR, outlets, "");
    let storage_b_silent = replaced(PAIR, "heartbeat = 1\n", "");
    let one_network = replaced(&storage_b_silent, "heartbeat = 0\n", "");
    let two_node = "[quorum]\nrule = \"two-node\"\n";
    let storage_a = "addresses = [\"10.77.1.12\"]";
    let cases: Vec<(Code, String)> = vec![
        (Code::Format, replaced(PAIR, "format = 1", "format = 2")),
        (
            Code::ApplianceName,
            replaced(PAIR, "\"attic\"", "\"my attic\""),
        ),
        (
            Code::UnknownName,
            replaced(PAIR, "home = \"left\"", "home = \"middle\""),
        ),
        (
            Code::UnknownName,
            replaced(PAIR, "pdu = \"b\"", "pdu = \"c\""),
        ),
        (Code::HeadNumber, replaced(PAIR, "number = 2", "number = 1")),
        (Code::HeadNumber, replaced(PAIR, "number = 2", "number = 0")),
        (Code::NoFencing, replaced(&no_outlets, bmc, "")),
        (
            Code::FencingOnHead,
            replaced(PAIR, "10.77.9.41", "10.77.9.11"),
        ),
        (Code::FencingSharesPower, no_outlets.clone()),
        (Code::FencingSharesNetwork, one_network.clone()),
        (
            Code::FenceDeviceTwice,
            replaced(PAIR, "10.77.9.22", "10.77.9.21"),
        ),
        (
            Code::FenceDeviceTwice,
            replaced(
                PAIR,
                "pdu = \"a\", outlet = \"2\"",
                "pdu = \"a\", outlet = \"1\"",
            ),
        ),
        (
            Code::OneOutlet,
            replaced(PAIR, ", { pdu = \"b\", outlet = \"1\" }", ""),
        ),
        (Code::FenceDelayEqual, replaced(PAIR, "delay_s = 1\n", "")),
        (
            Code::FenceAgent,
            replaced(PAIR, "fence_apc_snmp", "../bin/apc"),
        ),
        (
            Code::OutletName,
            replaced(PAIR, "outlet = \"1\"", "outlet = \"1;left:2\""),
        ),
        (
            Code::FenceDelayEqual,
            replaced(PAIR, "delay_s = 0", "delay_s = 1"),
        ),
        (
            Code::FenceDelayNeedless,
            replaced(
                WITNESS,
                "[heads.left.fencing]\n",
                "[heads.left.fencing]\ndelay_s = 1\n",
            ),
        ),
        (Code::OneLink, one_network),
        (
            Code::HeartbeatNumber,
            replaced(PAIR, "heartbeat = 2", "heartbeat = 8"),
        ),
        (
            Code::HeartbeatNumber,
            replaced(PAIR, "heartbeat = 2", "heartbeat = 1"),
        ),
        (
            Code::LinkFamily,
            replaced(
                &replaced(TWO_POOLS, "\"10.77.1.11\", ", ""),
                ", \"fd00:77:1::12\"",
                "",
            ),
        ),
        (Code::QuorumMissing, replaced(PAIR, two_node, "")),
        (
            Code::QuorumUnfit,
            replaced(
                SINGLE,
                "name = \"shed\"\n",
                "name = \"shed\"\n[quorum]\nrule = \"two-node\"\n",
            ),
        ),
        (
            Code::QuorumUnfit,
            replaced(PAIR, "rule = \"two-node\"", "rule = \"witness\""),
        ),
        (
            Code::WitnessSharesFate,
            replaced(WITNESS, "10.77.9.31", "10.77.9.11"),
        ),
        (
            Code::WitnessBlind,
            replaced(WITNESS, "reach = [\"10.77.1.1\", \"10.77.2.1\"]\n", ""),
        ),
        (
            Code::AddressOutsideNetwork,
            replaced(PAIR, "\"10.77.1.100\"", "\"10.78.1.100\""),
        ),
        (
            Code::AddressOutsideNetwork,
            replaced(PAIR, storage_a, "addresses = [\"10.77.3.12\"]"),
        ),
        (
            Code::AddressTwice,
            replaced(PAIR, storage_a, "addresses = [\"10.77.1.100\"]"),
        ),
        (
            Code::AddressReserved,
            replaced(PAIR, "\"10.77.1.100\"", "\"10.77.1.255\""),
        ),
        (
            Code::NetworksOverlap,
            replaced(PAIR, "[\"10.77.2.0/24\"]", "[\"10.77.0.0/16\"]"),
        ),
        (
            Code::OnePortal,
            replaced(
                PAIR,
                "    { network = \"storage-b\", address = \"10.77.2.100\" },\n",
                "",
            ),
        ),
        (Code::MtuUnfit, replaced(PAIR, "mtu = 9000", "mtu = 400")),
        (
            Code::PoolWithoutHome,
            replaced(PAIR, "home = \"left\"\n", ""),
        ),
        (
            Code::PoolOnOneHead,
            replaced(
                PAIR,
                "home = \"left\"",
                "home = \"left\"\nheads = [\"left\"]",
            ),
        ),
        (Code::DiskTwice, replaced(PAIR, "a1b20100", "a1b20000")),
        (
            Code::DiskNameUnstable,
            replaced(PAIR, "/dev/disk/by-id/scsi-35000c500a1b20000", "/dev/sdb"),
        ),
        (
            Code::SectorSize,
            replaced(PAIR, "arc = ", "sector_bytes = 100000\narc = "),
        ),
        (
            Code::ArcTooLarge,
            replaced(PAIR, "arc = \"32G\"", "arc = \"60G\""),
        ),
        (
            Code::ArcTooLarge,
            replaced(TWO_POOLS, "arc = \"20G\"", "arc = \"40G\""),
        ),
        (Code::ArcUnset, replaced(PAIR, "arc = \"32G\"\n", "")),
    ];
    for (code, text) in cases {
        assert_only(&findings_of(&text, |_| {}), code);
    }
}

#[test]
fn each_virtual_machine_error_yields_its_finding() {
    let outlets = "outlets = [{ pdu = \"a\", outlet = \"1\" }, { pdu = \"b\", outlet = \"1\" }]\n";
    let agent = "[hypervisors.host-1]\nagent = \"fence_virsh\"\n";
    let with_password = format!("{agent}parameters = {{ password = \"swordfish\" }}\n");
    let cases = [
        (Code::FencingSharesHost, replaced(VIRTUAL, outlets, "")),
        (
            Code::HeadsOnOneHost,
            replaced(
                VIRTUAL,
                "hypervisor = \"host-2\"",
                "hypervisor = \"host-1\"",
            ),
        ),
        (
            Code::UnknownName,
            replaced(
                VIRTUAL,
                "hypervisor = \"host-2\"",
                "hypervisor = \"host-3\"",
            ),
        ),
        (
            Code::FenceDeviceTwice,
            replaced(
                VIRTUAL,
                "{ hypervisor = \"host-2\", machine = \"right\" }",
                "{ hypervisor = \"host-1\", machine = \"left\" }",
            ),
        ),
        (
            Code::FencingOnHead,
            replaced(VIRTUAL, "10.77.9.51", "10.77.9.11"),
        ),
        (Code::FenceAgent, replaced(VIRTUAL, "fence_virsh", "virsh")),
        (
            Code::OutletName,
            replaced(VIRTUAL, "machine = \"left\"", "machine = \"my left\""),
        ),
        (
            Code::TokenShortForGuest,
            replaced(VIRTUAL, "\"default\"", "\"fast\""),
        ),
        (Code::SecretInFile, replaced(VIRTUAL, agent, &with_password)),
    ];
    for (code, text) in cases {
        assert_only(&findings_of(&text, |_| {}), code);
    }
    let findings = findings_of(VIRTUAL, |facts| {
        for head in facts.heads.values_mut() {
            head.secrets
                .insert(PathBuf::from("/etc/bulkhead/secrets/host-key"), None);
        }
    });
    assert_only(&findings, Code::SecretMissing);
}

const SERVICES: &str = r#"
[pools.tank.nbd_tls]
certificate_file = "/etc/bulkhead/nbd/cert.pem"
key_file = "/etc/bulkhead/nbd/key.pem"

[pools.tank.replication]
address = "10.77.1.100"
"#;

#[test]
fn nbd_and_replication_tls_is_checked_against_ports_and_heads() {
    let text = format!("{PAIR}{SERVICES}");
    assert!(findings_of(&text, |_| {}).is_empty());
    let address = |with: &str| replaced(&text, "address = \"10.77.1.100\"\n", with);
    for (with, code) in [
        ("address = \"10.77.1.101\"\n", Code::ReplicationAddress),
        ("address = \"10.77.1.100\"\nport = 3260\n", Code::PortTaken),
        ("address = \"10.77.1.100\"\nport = 10809\n", Code::PortTaken),
        ("address = \"10.77.1.100\"\nport = 0\n", Code::PortTaken),
    ] {
        assert_only(&findings_of(&address(with), |_| {}), code);
    }
    let relative = replaced(&text, "/etc/bulkhead/nbd/cert.pem", "cert.pem");
    assert_only(&findings_of(&relative, |_| {}), Code::TlsPath);
    let by_name = replaced(&text, "nbd_tls", "tls.nbd");
    assert!(findings_of(&by_name, |_| {}).is_empty());
    let relative = replaced(&relative, "nbd_tls", "tls.nbd");
    assert_only(&findings_of(&relative, |_| {}), Code::TlsPath);
    let again = SERVICES.split("\n\n").next().expect("a section");
    let twice = format!("{by_name}{again}\n");
    assert_only(&findings_of(&twice, |_| {}), Code::TlsTwice);
    let unknown = crate::parse(&replaced(&text, "nbd_tls", "tls.iscsi"));
    let why = unknown.expect_err("it has no TLS").to_string();
    assert!(
        why.contains("iscsi is no protocol with TLS: write nbd"),
        "{why}"
    );
    let told = |tls: TlsFacts| {
        let path = PathBuf::from("/etc/bulkhead/nbd/cert.pem");
        findings_of(&text, |facts| {
            right(facts).tls.insert(path.clone(), tls.clone());
        })
    };
    let valid_for = |days: i64| TlsFacts {
        refused: None,
        valid_for_s: Some(days * 86_400 + 1),
    };
    assert!(told(valid_for(30)).is_empty());
    assert_only(&told(valid_for(29)), Code::TlsExpires);
    assert_only(&told(valid_for(-2)), Code::TlsExpires);
    let refused = TlsFacts {
        refused: Some("it is not there".to_owned()),
        valid_for_s: None,
    };
    let findings = told(refused);
    assert_only(&findings, Code::TlsUnusable);
    assert!(findings[0].what.contains("right cannot use"));
    let open = findings_of(&text, |facts| {
        let key = PathBuf::from("/etc/bulkhead/nbd/key.pem");
        right(facts)
            .secrets
            .insert(key, Some(SecretFacts { mode: 0o644 }));
    });
    assert_only(&open, Code::SecretOpen);
}

#[test]
fn missing_or_readable_keytab_is_reported_per_head() {
    let text =
        format!("{PAIR}[pools.tank.kerberos]\nkeytab_file = \"/etc/bulkhead/tank.keytab\"\n");
    assert!(findings_of(&text, |_| {}).is_empty());
    let relative = replaced(&text, "/etc/bulkhead/tank.keytab", "tank.keytab");
    assert_only(&findings_of(&relative, |_| {}), Code::PathRelative);
    let with = |secret: Option<SecretFacts>| {
        findings_of(&text, |facts| {
            let path = PathBuf::from("/etc/bulkhead/tank.keytab");
            right(facts).secrets.insert(path, secret.clone());
        })
    };
    assert_only(&with(None), Code::SecretMissing);
    assert_only(&with(Some(SecretFacts { mode: 0o644 })), Code::SecretOpen);
}

#[test]
fn head_outside_a_required_network_is_reported() {
    let link = "storage-b = { interface = \"ens1f1\", addresses = [\"10.77.2.12\"] }\n";
    let findings = findings_of(&replaced(PAIR, link, ""), |_| {});
    assert_only(&findings, Code::HeadOffNetwork);
    let link = "management = { interface = \"eno1\", addresses = [\"10.77.9.12\"] }\n";
    let silent = replaced(PAIR, "heartbeat = 2\n", "");
    let findings = findings_of(&replaced(&silent, link, ""), |_| {});
    assert_only(&findings, Code::FencingUnreachable);
}

#[test]
fn empty_appliance_is_reported() {
    let findings = findings_of("format = 1\nname = \"a\"\n[networks]\n[heads]\n", |_| {});
    for code in [Code::NoHead, Code::NoLink] {
        assert!(
            findings.iter().any(|finding| finding.code == code),
            "{code}"
        );
    }
    let poor = "[pools.tank]\ndisks = []\naddresses = []\n";
    let findings = findings_of(
        &format!("{SINGLE}\n{}", poor.replace("tank", "poor")),
        |_| {},
    );
    for code in [Code::NoDisk, Code::NoAddress] {
        assert!(
            findings.iter().any(|finding| finding.code == code),
            "{code}"
        );
    }
}

#[test]
fn contradictory_timeouts_are_reported() {
    for (code, line) in [
        (Code::TimeoutZero, "pool_start_s = 0"),
        (Code::TokenShort, "token_ms = 150"),
        (Code::ProbeTimeoutShort, "link_probe_timeout_ms = 500"),
        (Code::BudgetBelowDetection, "takeover_budget_s = 2"),
        (Code::ClientPatienceThin, "fence_s = 80"),
        (Code::MonitorLong, "pool_monitor_timeout_s = 61"),
        (Code::MonitorShort, "pool_monitor_timeout_s = 1"),
        (Code::FenceTimeoutShort, "fence_s = 2"),
        (Code::DiskAnswerShort, "disk_answer_s = 2"),
        (Code::DiskAnswerLong, "disk_answer_s = 60"),
        (
            Code::ClientPatienceShort,
            "[clients]\nreplacement_timeout_s = 5",
        ),
    ] {
        let text = replaced(PAIR, "[quorum]", &format!("[timeouts]\n{line}\n[quorum]"));
        // Zeroes also provoke other findings.
        let findings = findings_of(&text, |_| {});
        assert_only(&findings, code);
    }
}

/// A mistake in the facts: the expected finding, and the change to the facts of a good pair.
type FactsCase = (Code, fn(&mut Facts));

fn right(facts: &mut Facts) -> &mut HeadFacts {
    let name: HeadName = "right".parse().expect("a good name");
    facts
        .heads
        .get_mut(&name)
        .expect("the pair has a right head")
}

fn tank(facts: &mut Facts) -> &mut PoolFacts {
    facts
        .pools
        .entry("tank".parse().expect("a good name"))
        .or_default()
}

#[test]
fn each_host_error_yields_its_finding() {
    let disk = || PathBuf::from("/dev/disk/by-id/scsi-35000c500a1b20100");
    assert!(PAIR.contains("a1b20100"), "{}", disk().display());
    let cases: &[FactsCase] = &[
        (Code::NotAsked, |facts| facts.heads.clear()),
        (Code::NodeName, |facts| {
            right(facts).node_name = Some("Right".into())
        }),
        (Code::HostId, |facts| {
            right(facts).identity = Some("machine of left".into())
        }),
        (Code::HostId, |facts| {
            right(facts).identity = Some(String::new())
        }),
        (Code::ProgramMissing, |facts| {
            right(facts).programs.insert("fence_ipmilan".into(), false);
        }),
        (Code::EngineRefused, |facts| {
            right(facts).engine_refused = Some("another version of OpenZFS".into());
        }),
        (Code::VersionsDiffer, |facts| {
            right(facts)
                .versions
                .insert("pacemaker".into(), "3.0.0".into());
        }),
        (Code::FeaturesDiffer, |facts| {
            right(facts).zfs_features = Some(BTreeSet::new())
        }),
        (Code::FeatureUnsupported, |facts| {
            tank(facts).active_features.insert("raidz_expansion".into());
        }),
        (Code::InterfaceMissing, |facts| {
            right(facts)
                .interfaces
                .as_mut()
                .map(|all| all.remove("ens1f0"));
        }),
        (Code::MtuMismatch, |facts| {
            let small = InterfaceFacts { mtu: 1_500 };
            right(facts)
                .interfaces
                .as_mut()
                .map(|all| all.insert("ens1f0".into(), small));
        }),
        (Code::DiskMissing, |facts| {
            right(facts)
                .disks
                .values_mut()
                .for_each(|disk| *disk = None);
        }),
        (Code::DiskSectorLarger, |facts| {
            for disk in right(facts).disks.values_mut().flatten() {
                disk.physical_block_bytes = 8_192;
            }
        }),
        (Code::DiskUnaligned, |facts| {
            for disk in right(facts).disks.values_mut().flatten() {
                disk.alignment_offset_bytes = 512;
            }
        }),
        (Code::NoReservations, |facts| {
            let head = right(facts);
            head.reservations = head
                .disks
                .keys()
                .map(|disk| (disk.clone(), false))
                .collect();
        }),
        (Code::CachefileSet, |facts| {
            right(facts).cached_pools.insert("tank".into());
        }),
        (Code::CachefileSet, |facts| {
            tank(facts).cachefile = Some("/etc/zfs/zpool.cache".into());
        }),
        (Code::ImportAtBoot, |facts| {
            right(facts)
                .enabled_units
                .insert("zfs-import-cache.service".into());
        }),
        (Code::ClockSkew, |facts| {
            right(facts).clock_ahead_ms = Some(-2_000)
        }),
        (Code::TokenBelowStall, |facts| {
            right(facts).stall_ms_max = Some(1_100)
        }),
        (Code::SecretMissing, |facts| {
            right(facts)
                .secrets
                .values_mut()
                .for_each(|secret| *secret = None);
        }),
        (Code::SecretOpen, |facts| {
            right(facts)
                .secrets
                .values_mut()
                .for_each(|secret| *secret = Some(SecretFacts { mode: 0o644 }));
        }),
        (Code::KeyFileMissing, |facts| {
            let pool = "tank".parse().expect("a name");
            let file = || [PathBuf::from("/etc/bulkhead/keys/vm0")].into();
            facts.pools.entry(pool).or_default().key_files = file();
            right(facts).key_files_missing = Some(file());
        }),
        (Code::ArcTooLarge, |facts| {
            right(facts).memory = Some(ByteCount::gib(16))
        }),
    ];
    for (code, change) in cases {
        assert_only(&findings_of(PAIR, change), *code);
    }
    let findings = findings_of(WITNESS, |facts| {
        right(facts).witness_certificate = Some(false)
    });
    assert_only(&findings, Code::WitnessCertificate);
}

#[test]
fn finding_has_subject_location_reason_and_remedy() {
    let text = replaced(PAIR, "delay_s = 1", "delay_s = 0");
    let findings = findings_of(&text, |_| {});
    let finding = &findings[0];
    let line = finding.place.line.expect("the line is known");
    assert_eq!(text.lines().nth(line as usize - 1), Some("delay_s = 0"));
    assert_eq!(finding.place.key, "heads.right.fencing.delay_s");
    let printed = finding.to_string();
    for part in ["error[fence-delay-equal]", "line ", "why: ", "mend: "] {
        assert!(printed.contains(part), "{printed}");
    }
    let json = serde_json::to_value(finding).expect("plain data");
    for field in ["code", "severity", "where", "what", "why", "mend"] {
        assert!(!json[field].is_null(), "{json}");
    }
}

#[test]
fn every_profile_passes_the_timeout_check() {
    for profile in ["fast", "default", "conservative"] {
        let text = replaced(
            PAIR,
            "[quorum]",
            &format!("[timeouts]\nprofile = \"{profile}\"\n[quorum]"),
        );
        let findings = findings_of(&text, |_| {});
        assert!(findings.is_empty(), "{profile}: {findings:#?}");
    }
}

#[test]
fn duplicate_resources_and_invalid_names_are_reported() {
    let timeouts =
        |text: &str| replaced(PAIR, "[quorum]", &format!("[timeouts]\n{text}\n[quorum]"));
    let cases = [
        (Code::PduTwice, replaced(PAIR, "10.77.9.42", "10.77.9.41")),
        (Code::InterfaceShared, replaced(PAIR, "ens1f1", "ens1f0")),
        (Code::ConsensusShort, timeouts("consensus_ms = 20")),
        (Code::StopShort, timeouts("pool_stop_s = 1")),
        (
            Code::PathRelative,
            replaced(PAIR, "/dev/disk/by-id/scsi-35000c500a1b20000", "sdb"),
        ),
        (
            Code::PathRelative,
            replaced(PAIR, "/etc/bulkhead/secrets/bmc-left", "bmc-left"),
        ),
        (
            Code::PathRelative,
            replaced(PAIR, "/etc/bulkhead/secrets/pdu", "secrets/pdu"),
        ),
    ];
    for (code, text) in cases {
        assert_only(&findings_of(&text, |_| {}), code);
    }
    for interface in ["ens1f0/1", "an-interface-of-16", "eth 0", ""] {
        let text = PAIR.replace("ens1f0", interface);
        let findings = findings_of(&text, |_| {});
        let found = findings
            .iter()
            .filter(|one| one.code == Code::InterfaceName);
        assert_eq!(found.count(), 2, "{interface:?}: {findings:#?}");
    }
}

/// Two units behind one controller share its address, and parameters distinguish them.
#[test]
fn pdus_at_one_address_may_differ_by_a_parameter() {
    let text = replaced(PAIR, "10.77.9.42", "10.77.9.41");
    let text = replaced(
        &text,
        "[pdus.b]\n",
        "[pdus.b]\nparameters = { switch = \"2\" }\n",
    );
    let findings = findings_of(&text, |_| {});
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn finding_codes_are_unique_kebab_case() {
    let names: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(names.len(), Code::ALL.len());
    for name in names {
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'),
            "{name}"
        );
    }
}

#[test]
fn interface_names_may_differ_if_heads_have_fixed_addresses() {
    let (left, right) = TWO_POOLS.split_once("[heads.right]").expect("two heads");
    let other = right.replace("ens1f0", "enp5s0");
    let findings = findings_of(&format!("{left}[heads.right]{other}"), |_| {});
    assert!(findings.is_empty(), "{findings:#?}");
    let bare = other.replace(", \"fd00:77:1::12\"", "");
    let findings = findings_of(&format!("{left}[heads.right]{bare}"), |_| {});
    assert_only(&findings, Code::HeadAddressMissing);
}

#[test]
fn each_own_disk_error_yields_its_finding() {
    let witness_from = LEGS.find("[witness]").expect("there");
    let witness_to = LEGS.find("[heads.left]").expect("there");
    let witness = &LEGS[witness_from..witness_to];
    let first = "{ kind = \"mirror\", legs = [\"left:bay1\", \"right:bay1\"] }";
    let with_first = |legs: &str| replaced(LEGS, first, legs);
    let networks = "networks = [\"legs-a\", \"legs-b\"]";
    let left_print = "1a".repeat(32);
    let cases = [
        (
            Code::LegsAndDisks,
            replaced(
                LEGS,
                "groups = [",
                "disks = [\"/dev/disk/by-id/x\"]\ngroups = [",
            ),
        ),
        (
            Code::LegHeads,
            replaced(
                THREE_HEADS,
                "[heads.left]",
                &format!("{witness}[heads.left]").replace("number = 3", "number = 9"),
            ),
        ),
        (
            Code::LegWitnessMissing,
            replaced(
                &replaced(LEGS, witness, ""),
                "[heads.left.fencing]\n",
                "[heads.left.fencing]\ndelay_s = 1\n",
            ),
        ),
        (
            Code::LegGroupShape,
            with_first("{ kind = \"mirror\", legs = [\"left:bay1\"] }"),
        ),
        (
            Code::LegGroupShape,
            with_first("{ kind = \"raidz1\", legs = [\"left:bay1\", \"right:bay1\"] }"),
        ),
        (
            Code::LegGroupShape,
            replaced(
                LEGS,
                "groups = [",
                "log = [{ kind = \"raidz2\", legs = [\"left:bay3\", \"right:bay3\"] }]\ngroups = [",
            ),
        ),
        (
            Code::LegExtras,
            replaced(LEGS, "groups = [", "cache = [\"left:bay3\"]\ngroups = ["),
        ),
        (
            Code::LegsOnOneHead,
            with_first("{ kind = \"mirror\", legs = [\"left:bay1\", \"left:bay5\"] }").replace(
                "[heads.left.links]",
                "bay5 = { number = 15, path = \"/dev/disk/by-id/nvme-5\" }\n\n[heads.left.links]",
            ),
        ),
        (
            Code::LegsOnOneHead,
            replaced(
                &replaced(THREE_HEADS, "\"middle:bay1\"", "\"left:bay5\""),
                "[heads.left.links]",
                "bay5 = { number = 15, path = \"/dev/disk/by-id/nvme-5\" }\n\n[heads.left.links]",
            ),
        ),
        (
            Code::HeadWithoutLeg,
            replaced(THREE_HEADS, "heads = [\"left\", \"right\"]\n", ""),
        ),
        (
            Code::NoLegNetwork,
            replaced(LEGS, &format!("[legs]\n{networks}\n"), ""),
        ),
        (
            Code::NoLegNetwork,
            replaced(LEGS, networks, "networks = []"),
        ),
        (
            Code::NoLegNetwork,
            replaced(LEGS, "addresses = [\"10.77.9.31\"]", "addresses = []"),
        ),
        (
            Code::OneLegNetwork,
            replaced(LEGS, networks, "networks = [\"legs-a\"]"),
        ),
        (
            Code::UnknownName,
            replaced(LEGS, networks, "networks = [\"legs-a\", \"legs-c\"]"),
        ),
        (
            Code::UnknownName,
            replaced(LEGS, "\"left:bay1\"", "\"left:bay9\""),
        ),
        (
            Code::UnknownName,
            replaced(LEGS, "\"left:bay1\"", "\"middle:bay1\""),
        ),
        (
            Code::HeadOffNetwork,
            replaced(
                &replaced(
                    LEGS,
                    "legs-b = { interface = \"ens2f1\", addresses = [\"10.77.4.11\"] }\n",
                    "",
                ),
                "heartbeat = 3\n",
                "",
            ),
        ),
        (
            Code::LegMtuDiffers,
            replaced(
                LEGS,
                "heartbeat = 3\nmtu = 9000",
                "heartbeat = 3\nmtu = 1500",
            ),
        ),
        (
            Code::LegPort,
            replaced(LEGS, networks, &format!("{networks}\nlender_port = 7071")),
        ),
        (
            Code::LegFingerprint,
            replaced(LEGS, &format!("fingerprint = \"{left_print}\"\n"), ""),
        ),
        (Code::LegFingerprint, replaced(LEGS, &"c3".repeat(32), "c3")),
        (
            Code::LegFingerprintTwice,
            replaced(LEGS, &"c3".repeat(32), &left_print),
        ),
        (
            Code::LegNumber,
            replaced(LEGS, "number = 22", "number = 12"),
        ),
        (Code::LegNumber, replaced(LEGS, "number = 22", "number = 0")),
        (
            Code::LegNumber,
            replaced(LEGS, "number = 1\ngroups", "groups"),
        ),
        (
            Code::LegNumber,
            replaced(
                THREE_HEADS,
                "[pools.vault]\nnumber = 2",
                "[pools.vault]\nnumber = 1",
            ),
        ),
        (
            Code::HeadNumber,
            replaced(LEGS, "[witness]\nnumber = 3", "[witness]\nnumber = 2"),
        ),
        (
            Code::WitnessSharesFate,
            replaced(
                LEGS,
                "addresses = [\"10.77.9.31\"]",
                "addresses = [\"10.77.9.12\"]",
            ),
        ),
        (
            Code::DiskTwice,
            replaced(LEGS, "\"right:bay2\"", "\"right:bay1\""),
        ),
        (
            Code::DiskTwice,
            replaced(LEGS, "eui.0025385200000002", "eui.0025385200000001"),
        ),
        (
            Code::DiskNameUnstable,
            replaced(
                LEGS,
                "/dev/disk/by-id/nvme-eui.0025385200000002",
                "/dev/nvme0n1",
            ),
        ),
        (
            Code::PathRelative,
            replaced(
                LEGS,
                "/dev/disk/by-id/nvme-eui.0025385200000002",
                "by-id/nvme-1",
            ),
        ),
    ];
    for (code, text) in cases {
        assert_only(&findings_of(&text, |_| {}), code);
    }
    let text = replaced(LEGS, "\"left:bay1\"", "\"bay1\"");
    let refused = parse(&text).expect_err("no head");
    assert!(refused.what.contains("HEAD:DISK"), "{refused}");
}

#[test]
fn legs_of_four_heads_are_rejected() {
    let from = THREE_HEADS.find("[heads.middle]").expect("there");
    let to = THREE_HEADS.find("# Two feeds").expect("there");
    let middle = &THREE_HEADS[from..to];
    let fourth = middle
        .replace("middle", "fourth")
        .replace("number = 3", "number = 4");
    let text = replaced(THREE_HEADS, middle, &format!("{middle}{fourth}"));
    let found = findings_of(&text, |_| {});
    assert!(
        found.iter().any(|one| one.code == Code::LegHeads),
        "{found:#?}"
    );
}

#[test]
fn unequal_disks_of_a_leg_group_are_reported() {
    let path = PathBuf::from("/dev/disk/by-id/nvme-eui.0025385200000001");
    let disk = |change: fn(&mut DiskFacts)| {
        findings_of(LEGS, |facts| {
            let right = facts.heads.get_mut(&head("right")).expect("there");
            let disk = right.disks.get_mut(&path).expect("asked");
            change(disk.as_mut().expect("seen"));
        })
    };
    assert_only(
        &disk(|disk| disk.size_bytes -= 1 << 30),
        Code::LegSizeDiffers,
    );
    // Disks of different manufacturers differ in size; the part that ZFS uses is the same.
    assert!(disk(|disk| disk.size_bytes -= 4096).is_empty());
    assert_only(
        &disk(|disk| disk.physical_block_bytes = 512),
        Code::LegSectorDiffers,
    );
    assert_only(
        &disk(|disk| disk.physical_block_bytes = 8_192),
        Code::DiskSectorLarger,
    );
    assert_only(
        &disk(|disk| disk.alignment_offset_bytes = 512),
        Code::DiskUnaligned,
    );
    let missing = findings_of(LEGS, |facts| {
        let right = facts.heads.get_mut(&head("right")).expect("there");
        right.disks.insert(path.clone(), None);
    });
    assert_only(&missing, Code::DiskMissing);
    for other in ["", "0f"] {
        let found = findings_of(LEGS, |facts| {
            let right = facts.heads.get_mut(&head("right")).expect("there");
            right.leg_fingerprint = Some(other.to_owned());
        });
        assert_only(&found, Code::LegFingerprintDiffers);
    }
}
