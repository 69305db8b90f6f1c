//! Plans for heads in every state: bare, running, behind the file, edited by hand.

mod changes;
mod legs;
mod running;

use super::*;
use crate::parse::parse;

const PAIR: &str = include_str!("../../../../examples/pair.toml");
const WITNESS: &str = include_str!("../../../../examples/witness.toml");
const THREE: &str = include_str!("../../../../examples/legs-three-heads.toml");
const LEGS: &str = include_str!("../../../../examples/legs-two-heads-witness.toml");

fn desired_of(text: &str) -> DesiredState {
    let parsed = parse(text).expect("the example is well formed");
    desired_state(&parsed.appliance, text, &Layout::default())
}

/// The file and the configuration contain it, and no output shows it.
#[test]
fn plan_hides_the_snmp_community() {
    let with = |secret: &str| {
        let parameters = format!(
            "password_file = \"/etc/bulkhead/secrets/pdu\"\nparameters = {{ community = \"{secret}\" }}\n"
        );
        PAIR.replace(
            "password_file = \"/etc/bulkhead/secrets/pdu\"\n",
            &parameters,
        )
    };
    let (_, mut actual) = applied(&with("hush-hush"));
    let desired = desired_of(&with("hush-again"));
    let known = &actual.heads[&head("left")].files[Path::new(APPLIANCE_PATH)];
    assert_eq!(known.1, 0o600);
    let plan = plan(&desired, &actual);
    let json = serde_json::to_string(&plan).expect("JSON");
    for printed in [plan.to_string(), json] {
        assert!(printed.contains("community"), "{printed}");
        assert!(!printed.contains("hush"), "{printed}");
    }
    perform(&desired, &mut actual, &plan.changes);
    let text = actual.cib.expect("configured").to_string();
    assert!(text.contains("hush-again") && !text.contains("hush-hush"));
}

fn head(name: &str) -> HeadName {
    name.parse().expect("a good name")
}

fn bare(desired: &DesiredState) -> Actual {
    let heads = desired.heads.iter();
    Actual {
        heads: heads
            .map(|(head, _)| {
                let known = HeadActual {
                    units_installed: [HEAD_UNIT.to_owned()].into(),
                    has_program: true,
                    reads_peer_key: true,
                    ..HeadActual::default()
                };
                (head.clone(), known)
            })
            .collect(),
        cib: None,
    }
}

/// Applies a change to the actual state, as the adapters do.
fn perform(desired: &DesiredState, actual: &mut Actual, changes: &[Change]) {
    for change in changes {
        match change {
            Change::WriteFile {
                head,
                path,
                text,
                mode,
                ..
            } => {
                let known = actual.heads.get_mut(head).expect("a known head");
                known.files.insert(path.clone(), (text.clone(), *mode));
                let is_read = path == Path::new(COROSYNC_CONF_PATH);
                known.is_reload_due |= is_read && known.running_cluster.is_some();
            }
            Change::WriteAuthkey { head, source } => {
                let key = match source {
                    AuthkeySource::New => Some(Fingerprint("new".into())),
                    AuthkeySource::Head(holder) => actual.heads[holder].authkey.clone(),
                };
                actual.heads.get_mut(head).expect("a known head").authkey = key;
            }
            Change::WritePeerKey { head, source } => {
                let key = match source {
                    AuthkeySource::New => Some(Fingerprint("new".into())),
                    AuthkeySource::Head(holder) => actual.heads[holder].peer_key.clone(),
                };
                actual.heads.get_mut(head).expect("a known head").peer_key = key;
            }
            Change::ReloadCorosync { .. } => {
                for known in actual.heads.values_mut() {
                    known.is_reload_due = false;
                    if known.running_cluster.is_some() {
                        known.running_nodes = nodes(desired);
                    }
                }
            }
            Change::AwaitLegs { .. } => {}
            Change::StopResources { resources } => {
                let before = actual.cib.clone().expect("configured");
                actual.cib = Some(stopped(&before, resources));
            }
            Change::AwaitWitness { head } => {
                assert!(actual.heads[head].has_witness, "a head has no witness");
            }
            Change::RestartUnit { head, unit } if unit == QDEVICE_UNIT => {
                read_witness(desired, actual, head);
            }
            Change::RestartUnit { head, .. } => read_legs(actual, head),
            Change::AttachLeg { leg, .. } => {
                let file = super::legs::wanted(desired).expect("written");
                let groups = file.pools.values().flat_map(|pool| &pool.groups);
                let mut legs = groups.flat_map(|group| &group.legs);
                let is_it = |one: &&legs_config::Leg| {
                    format!("{}:{}", one.head, one.path.display()) == *leg
                };
                let disk = legs.find(is_it).expect("named").disk;
                for known in actual.heads.values_mut() {
                    let record = known.on_record.get_mut(&1).expect("on record");
                    record.disks.get_or_insert_default().insert(disk);
                }
            }
            Change::AddGroup { group, .. } => {
                let file = super::legs::wanted(desired).expect("written");
                let mut groups = file.pools.values().flat_map(|pool| &pool.groups);
                let added = groups.find(|one| file.words_to_add(one) == *group);
                let disks = added.expect("named").legs.iter().map(|leg| leg.disk);
                for known in actual.heads.values_mut() {
                    let record = known.on_record.get_mut(&1).expect("on record");
                    for disks_on_record in [&mut record.disks, &mut record.current] {
                        disks_on_record
                            .get_or_insert_default()
                            .extend(disks.clone());
                    }
                }
            }
            Change::AddHead { .. } => {
                let mut record = actual.heads[&head("left")].on_record[&1].clone();
                (record.heads, record.witness) = ([1, 2, 3].into(), None);
                for known in actual.heads.values_mut() {
                    known.stored_pools.insert(1);
                    known.on_record.insert(1, record.clone());
                }
            }
            Change::SetWitness { witness, .. } => {
                for known in actual.heads.values_mut() {
                    let record = known.on_record.get_mut(&1).expect("on record");
                    record.witness = witness.as_ref().map(|_| 3);
                }
            }
            Change::SetPortals {
                head,
                pool,
                portals,
                ..
            } => {
                let known = actual.heads.get_mut(head).expect("a known head");
                known.portals.insert(pool.clone(), portals.clone());
            }
            Change::MakeCertificate { head, .. } => {
                let known = actual.heads.get_mut(head).expect("a known head");
                known.has_certificate = true;
            }
            Change::StartUnit { head, unit } => {
                let known = actual.heads.get_mut(head).expect("a known head");
                known.units_enabled.insert(unit.clone());
                known.units_active.insert(unit.clone());
                if unit == LEG_UNIT {
                    read_legs(actual, head);
                }
                if unit == QDEVICE_UNIT {
                    read_witness(desired, actual, head);
                }
                let known = actual.heads.get_mut(head).expect("a known head");
                if unit == "corosync.service" {
                    known.running_cluster = Some(desired.cluster_name.clone());
                    known.running_nodes = nodes(desired);
                }
            }
            Change::StopUnit { head, unit } => {
                let known = actual.heads.get_mut(head).expect("a known head");
                known.units_enabled.remove(unit);
                known.units_active.remove(unit);
            }
            Change::ConfigurePacemaker { cib, .. } => {
                let before = actual.cib.clone().unwrap_or_else(empty_cib);
                actual.cib = Some(merged(&before, cib));
            }
        }
    }
}

/// The nodes of a Corosync that runs with the file.
fn nodes(desired: &DesiredState) -> BTreeMap<String, RunningNode> {
    let nodes = desired.nodes.iter().map(|node| {
        let links = node.links.iter();
        let running = RunningNode {
            number: node.number,
            links: links
                .map(|(link, address)| (*link, address.to_string()))
                .collect(),
        };
        (node.name.to_string(), running)
    });
    nodes.collect()
}

/// Starts corosync-qdevice there.
fn read_witness(desired: &DesiredState, actual: &mut Actual, head: &HeadName) {
    let known = actual.heads.get_mut(head).expect("a known head");
    let path = Path::new(QDEVICE_DEFAULTS_PATH);
    let text = &known.files.get(path).expect("written before it starts").0;
    let settings = desired.witness_settings.as_ref().expect("a witness");
    assert!(text.contains(settings), "it is started with other settings");
    known.witness_settings = Some(settings.clone());
    known.has_witness = true;
}

/// Its leg-server starts.
fn read_legs(actual: &mut Actual, head: &HeadName) {
    let known = actual.heads.get_mut(head).expect("a known head");
    let file = known.files.get(Path::new(render::LEGS_PATH));
    known.legs_read = file.map(|(text, _)| text.clone());
}

fn applied(text: &str) -> (DesiredState, Actual) {
    let desired = desired_of(text);
    let mut actual = bare(&desired);
    let first = plan(&desired, &actual);
    perform(&desired, &mut actual, &first.changes);
    make(&mut actual, &first.pools_to_make);
    let second = plan(&desired, &actual);
    perform(&desired, &mut actual, &second.changes);
    (desired, actual)
}

/// Simulates the commands that create pools of legs.
fn make(actual: &mut Actual, pools: &[PoolToMake]) {
    for pool in pools {
        for known in actual.heads.values_mut() {
            known.stored_pools.insert(pool.number);
        }
    }
}

#[test]
fn plan_after_apply_is_empty() {
    for text in [PAIR, WITNESS, LEGS] {
        let (desired, actual) = applied(text);
        let second = plan(&desired, &actual);
        assert!(second.is_empty(), "{second}");
    }
}

#[test]
fn bare_heads_get_files_then_services_then_cib_then_consoles() {
    let desired = desired_of(PAIR);
    let plan = plan(&desired, &bare(&desired));
    let rank = |change: &Change| match change {
        Change::SetPortals { .. } | Change::WriteAuthkey { .. } | Change::WritePeerKey { .. } => 0,
        Change::WriteFile { .. } => 1,
        Change::ReloadCorosync { .. } => 2,
        Change::SetWitness { .. }
        | Change::AddHead { .. }
        | Change::AttachLeg { .. }
        | Change::AddGroup { .. } => {
            unreachable!("no pool of legs")
        }
        Change::MakeCertificate { .. } => 5,
        Change::StartUnit { unit, .. } if unit == HEAD_UNIT => 5,
        Change::StopUnit { .. }
        | Change::StartUnit { .. }
        | Change::AwaitLegs { .. }
        | Change::AwaitWitness { .. }
        | Change::RestartUnit { .. } => 3,
        Change::ConfigurePacemaker { .. } => 4,
        Change::StopResources { .. } => unreachable!("nothing leaves"),
    };
    let ranks: Vec<u32> = plan.changes.iter().map(rank).collect();
    assert!(ranks.is_sorted(), "{plan}");
    assert!(
        !ranks.contains(&2),
        "nothing runs that could read again: {plan}"
    );
    assert!(ranks.contains(&4));
}

#[test]
fn changed_timeout_reloads_once_without_restart() {
    let (_, actual) = applied(PAIR);
    let desired = desired_of(&PAIR.replace("[quorum]", "[timeouts]\ntoken_ms = 2000\n\n[quorum]"));
    let plan = plan(&desired, &actual);
    let reloads = |change: &&Change| matches!(change, Change::ReloadCorosync { .. });
    assert_eq!(plan.changes.iter().filter(reloads).count(), 1, "{plan}");
    let printed = plan.to_string();
    assert!(printed.contains("-    token: 1000"), "{printed}");
    assert!(printed.contains("+    token: 2000"), "{printed}");
    assert!(!printed.contains("start"), "{printed}");
}

#[test]
fn additional_address_leaves_existing_ones_unchanged() {
    let (_, actual) = applied(PAIR);
    let more = "addresses = [\n    { network = \"management\", address = \"10.77.9.100\" },\n    { network = \"storage-a\"";
    let text = PAIR.replace("addresses = [\n    { network = \"storage-a\"", more);
    let plan = plan(&desired_of(&text), &actual);
    let Some(Change::ConfigurePacemaker { changes, .. }) = plan.changes.last() else {
        panic!("{plan}");
    };
    // The pool, its location, its colocation and the three order rules.
    assert_eq!(changes.len(), 5, "{plan}");
    for change in changes {
        assert!(
            matches!(change, CibChange::Add { what } if what.contains("10.77.9.100")),
            "{change}"
        );
    }
}

/// The server does not reload the file by itself, and Pacemaker only starts an address.
#[test]
fn running_server_gets_portals_before_other_changes() {
    const ADDRESS: &str = "{ network = \"storage-b\", address = \"10.77.2.100\" }";
    let (_, mut actual) = applied(PAIR);
    let tank: PoolName = "tank".parse().expect("a name");
    let known = actual.heads.get_mut(&head("left")).expect("a known head");
    known
        .portals
        .insert(tank.clone(), desired_of(PAIR).portals[&tank].clone());
    known
        .portals
        .insert("other".parse().expect("a name"), Portals::default());
    assert!(
        plan(&desired_of(PAIR), &actual).is_empty(),
        "it listens where it shall"
    );
    assert!(PAIR.contains(ADDRESS));
    let more = format!("{ADDRESS},\n  {{ network = \"storage-b\", address = \"10.77.2.101\" }}");
    let desired = desired_of(&PAIR.replace(ADDRESS, &more));
    let changed = plan(&desired, &actual);
    let Some(Change::SetPortals { new, gone, .. }) = changed.changes.first() else {
        panic!("{changed}");
    };
    assert_eq!(
        new.words(),
        [
            "--iscsi",
            "10.77.2.101:3260,3",
            "--nbd",
            "10.77.2.101:10809",
            "--nfs",
            "10.77.2.101:2049"
        ]
    );
    assert_eq!(*gone, Portals::default());
    assert!(
        changed.to_string().contains("+--iscsi 10.77.2.101:3260,3"),
        "{changed}"
    );
    perform(&desired, &mut actual, &changed.changes);
    assert!(plan(&desired, &actual).is_empty());
}

/// During a rolling upgrade, a server can be older than its client.
#[test]
fn protocols_unsupported_by_the_server_version_are_omitted() {
    let (desired, mut actual) = applied(PAIR);
    let tank: PoolName = "tank".parse().expect("a name");
    let mut older = Portals::default();
    for option in desired.portals[&tank].words().chunks(2) {
        if option[0] != "--nfs" {
            older.insert(option[0].trim_start_matches("--"), &option[1], None);
        }
    }
    assert_ne!(older, desired.portals[&tank]);
    let known = actual.heads.get_mut(&head("left")).expect("a known head");
    known.portals.insert(tank, older);
    let changed = plan(&desired, &actual);
    assert!(changed.is_empty(), "{changed}");
}

#[test]
fn manual_edits_are_reverted_and_pacemaker_attributes_kept() {
    let (desired, mut actual) = applied(PAIR);
    let cib = actual.cib.as_mut().expect("a CIB");
    let configuration = cib.child_or_new("configuration");
    let nodes = configuration.child_or_new("nodes");
    nodes
        .children
        .push(Element::new("node").with("id", 1).with("uname", "left"));
    let options = &mut configuration.child_or_new("crm_config").children[0];
    let pair = |name: &str, value: &str| {
        Element::new("nvpair")
            .with("id", format!("hand-{name}"))
            .with("name", name)
            .with("value", value)
    };
    options
        .children
        .retain(|one| one.attribute("name") != Some("stonith-enabled"));
    options.children.push(pair("stonith-enabled", "false"));
    options.children.push(pair("dc-version", "2.1.5"));
    let constraints = configuration.child_or_new("constraints");
    constraints
        .children
        .push(Element::new("rsc_location").with("id", "cli-prefer-pool-tank"));
    constraints
        .children
        .push(Element::new("rsc_location").with("id", "my-own-idea"));

    let plan = plan(&desired, &actual);
    let printed = plan.to_string();
    assert!(
        printed.contains("stonith-enabled: false -> true"),
        "{printed}"
    );
    assert!(printed.contains("- rsc_location my-own-idea"), "{printed}");
    for kept in ["cli-prefer", "dc-version", "node 1"] {
        assert!(!printed.contains(kept), "{kept}: {printed}");
    }
}

#[test]
fn heads_get_the_authkey_of_the_running_head() {
    let (desired, mut actual) = applied(PAIR);
    let left = actual.heads.get_mut(&head("left")).expect("left");
    left.running_cluster = None;
    left.authkey = Some(Fingerprint("old".into()));
    let plan = plan(&desired, &actual);
    assert_eq!(
        plan.changes,
        [Change::WriteAuthkey {
            head: head("left"),
            source: AuthkeySource::Head(head("right")),
        }]
    );
}

/// A rolling upgrade: the heads authenticate with Corosync's key until the last one has the new binary.
#[test]
fn peer_key_is_created_once_all_heads_support_it() {
    let (desired, mut actual) = applied(PAIR);
    for known in actual.heads.values_mut() {
        known.peer_key = None;
    }
    let right = head("right");
    actual.heads.get_mut(&right).expect("right").reads_peer_key = false;
    let half_way = plan(&desired, &actual);
    assert!(half_way.is_empty(), "{half_way}");
    actual.heads.get_mut(&right).expect("right").reads_peer_key = true;
    let all = plan(&desired, &actual);
    let writes = |name: &str, source| Change::WritePeerKey {
        head: head(name),
        source,
    };
    let new = || AuthkeySource::New;
    assert_eq!(all.changes, [writes("left", new()), writes("right", new())]);
    perform(&desired, &mut actual, &all.changes);
    assert!(plan(&desired, &actual).is_empty());
    // A head was replaced.
    actual.heads.get_mut(&right).expect("right").peer_key = Some(Fingerprint("other".into()));
    let from_left = writes("right", AuthkeySource::Head(head("left")));
    assert_eq!(plan(&desired, &actual).changes, [from_left]);
}

#[test]
fn unreachable_or_foreign_head_blocks_the_plan() {
    let (desired, actual) = applied(PAIR);
    let mut silent = actual.clone();
    silent.heads.remove(&head("right"));
    let mut foreign = actual.clone();
    foreign
        .heads
        .get_mut(&head("right"))
        .expect("right")
        .running_cluster = Some("other".into());
    let mut split = actual;
    split.heads.get_mut(&head("right")).expect("right").authkey = Some(Fingerprint("x".into()));
    for (actual, word) in [(silent, "answer"), (foreign, "other"), (split, "secrets")] {
        let plan = plan(&desired, &actual);
        assert!(plan.changes.is_empty(), "{plan}");
        assert!(plan.obstacles[0].what.contains(word), "{plan}");
    }
}

#[test]
fn plan_mentions_a_secret_but_hides_its_value() {
    let desired = desired_of(PAIR);
    let json = serde_json::to_string(&plan(&desired, &bare(&desired))).expect("plain data");
    assert!(
        json.contains("write_authkey")
            && json.contains("write_peer_key")
            && !json.contains("fingerprint"),
        "{json}"
    );
}

#[test]
fn plan_counts_new_files_and_diffs_changed_files() {
    let desired = desired_of(PAIR);
    let printed = plan(&desired, &bare(&desired)).to_string();
    assert!(
        printed.contains("left: write /etc/corosync/corosync.conf (new, "),
        "{printed}"
    );
    assert!(!printed.contains("+    token"), "{printed}");
    let (desired, mut actual) = applied(PAIR);
    let left = actual.heads.get_mut(&head("left")).expect("left");
    let agent = Path::new(render::AGENT_PATH);
    left.files.get_mut(agent).expect("it was written").1 = 0o644;
    let printed = plan(&desired, &actual).to_string();
    assert_eq!(
        printed,
        format!(
            "left: write {} (only its mode changes, to 0755)\n",
            agent.display()
        )
    );
}

#[test]
fn removed_head_must_leave_the_cluster_first() {
    let (desired, mut actual) = applied(PAIR);
    let status = actual.cib.as_mut().expect("a CIB").child_or_new("status");
    let state = |uname: &str, crmd: &str| {
        Element::new("node_state")
            .with("uname", uname)
            .with("crmd", crmd)
    };
    status.children = vec![
        state("left", "online"),
        state("gone", "offline"),
        state("old", "0"),
    ];
    assert!(plan(&desired, &actual).is_empty());
    for crmd in ["online", "1700000000"] {
        let mut actual = actual.clone();
        let status = actual.cib.as_mut().expect("a CIB").child_or_new("status");
        status.children.push(state("middle", crmd));
        let plan = plan(&desired, &actual);
        assert!(plan.obstacles[0].what.starts_with("middle"), "{plan}");
    }
}

#[test]
fn consoles_start_last_and_only_where_installed() {
    let desired = desired_of(PAIR);
    let mut actual = bare(&desired);
    let right = actual.heads.get_mut(&head("right")).expect("right");
    right.units_installed.clear();
    let changes = plan(&desired, &actual).changes;
    let started = Change::StartUnit {
        head: head("left"),
        unit: HEAD_UNIT.to_owned(),
    };
    assert_eq!(changes.last(), Some(&started));
    let consoles = changes
        .iter()
        .filter(|one| one.to_string().contains(HEAD_UNIT));
    assert_eq!(consoles.count(), 1);
}

#[test]
fn console_without_certificate_gets_one_before_start() {
    let desired = desired_of(PAIR);
    let mut actual = bare(&desired);
    let right = actual.heads.get_mut(&head("right")).expect("right");
    right.has_certificate = true;
    let changes = plan(&desired, &actual).changes;
    let is_made = |one: &Change| matches!(one, Change::MakeCertificate { .. });
    let made: Vec<String> = changes
        .iter()
        .filter(|one| is_made(one))
        .map(ToString::to_string)
        .collect();
    assert_eq!(made.len(), 1);
    for name in [
        "left: make a certificate",
        "(left, localhost, ",
        "10.77.1.11",
    ] {
        assert!(made[0].contains(name), "{}", made[0]);
    }
    let place = changes.iter().position(is_made).expect("it is made");
    let next = changes[place + 1].to_string();
    assert_eq!(next, format!("left: enable and start {HEAD_UNIT}"));
}

#[test]
fn diff_shows_only_changed_lines() {
    let (_, actual) = applied(PAIR);
    let changed = PAIR
        .replace("home = \"left\"", "home = \"right\"")
        .replace("[quorum]", "[timeouts]\nprofile = \"fast\"\n\n[quorum]");
    let desired = desired_of(&changed);
    let plan = plan(&desired, &actual);
    let shown = plan.changes.iter().find_map(|change| match change {
        Change::WriteFile { path, lines, .. } if path == Path::new(APPLIANCE_PATH) => Some(lines),
        _ => None,
    });
    assert_eq!(
        shown.expect("the file is written"),
        &[
            "+[timeouts]",
            "+profile = \"fast\"",
            "+",
            "-home = \"left\"",
            "+home = \"right\"",
        ]
    );
}

/// Each head has a file of its own, and its reader runs before Pacemaker starts a pool.
#[test]
fn leg_servers_start_before_pacemaker() {
    let (desired, actual) = applied(LEGS);
    let path = Path::new(render::LEGS_PATH);
    let text = |name: &str| actual.heads[&head(name)].files[path].0.clone();
    assert!(text("left").contains("me = \"left\"") && text("right").contains("me = \"right\""));
    let changes = plan(&desired, &bare(&desired)).changes;
    let at = |unit: &str| {
        let starts = |change: &Change| matches!(change, Change::StartUnit { head, unit: one } if head.as_str() == "right" && one == unit);
        changes.iter().position(starts).expect("started")
    };
    assert!(at(LEG_UNIT) < at("pacemaker.service"));
}

/// Pacemaker would fail to find it, count failures, and give up.
#[test]
fn leg_pool_must_be_created_before_it_is_in_the_cib() {
    let desired = desired_of(LEGS);
    let mut actual = bare(&desired);
    let first = plan(&desired, &actual);
    let command =
        "left: bulkhead pool create tank --legs /etc/bulkhead/legs.toml --property ashift=12";
    let told: Vec<String> = first
        .pools_to_make
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(told, [command]);
    assert!(first.to_string().contains(command), "{first}");
    perform(&desired, &mut actual, &first.changes);
    let told = actual.cib.as_ref().expect("configured").to_string();
    assert!(told.contains("fence-left-bmc"), "{told}");
    assert!(
        !told.contains("tank") && !told.contains("10.77.1.100"),
        "{told}"
    );
    // Nothing else is planned until an administrator creates it.
    let again = plan(&desired, &actual);
    assert!(again.changes.is_empty() && !again.is_empty(), "{again}");
    assert_eq!(again.pools_to_make, first.pools_to_make);
    make(&mut actual, &first.pools_to_make);
    let second = plan(&desired, &actual);
    assert!(
        matches!(&second.changes[..], [Change::ConfigurePacemaker { .. }]),
        "{second}"
    );
    perform(&desired, &mut actual, &second.changes);
    assert!(plan(&desired, &actual).is_empty());
    let told = actual.cib.clone().expect("configured");
    assert!(cib_changes(&told, &merged(&told, &desired.cib)).is_empty());
    // Resources of Pacemaker are not removed because heads lost their records.
    for known in actual.heads.values_mut() {
        known.stored_pools.clear();
    }
    assert!(plan(&desired, &actual).is_empty());
}

#[test]
fn changed_legs_file_restarts_only_its_readers() {
    let (_, mut actual) = applied(LEGS);
    let port = LEGS.replace("[legs]\n", "[legs]\nlender_port = 7073\n");
    let desired = desired_of(&port);
    let changes = plan(&desired, &actual).changes;
    let restarted =
        |change: &&Change| matches!(change, Change::RestartUnit { unit, .. } if unit == LEG_UNIT);
    assert_eq!(changes.iter().filter(restarted).count(), 2, "{changes:?}");
    let files = |change: &&Change| matches!(change, Change::WriteFile { .. });
    assert_eq!(changes.iter().filter(files).count(), 4, "{changes:?}");
    assert_eq!(changes.len(), 6, "{changes:?}");
    perform(&desired, &mut actual, &changes);
    assert!(plan(&desired, &actual).is_empty());
}

/// The example without its witness.
fn without_witness() -> String {
    let begin = LEGS.find("[witness]").expect("there");
    let end = begin + LEGS[begin..].find("[heads.left]").expect("there");
    format!("{}{}", &LEGS[..begin], &LEGS[end..])
}

/// Left serves the pool, which has that witness on record.
fn on_record(actual: &mut Actual, witness: Option<u64>) {
    for known in actual.heads.values_mut() {
        let heads = [1, 2].into();
        let record = RecordedMembers {
            heads,
            witness,
            ..RecordedMembers::default()
        };
        known.on_record.insert(1, record);
    }
    let pool: PoolName = "tank".parse().expect("a name");
    let served = actual.heads.get_mut(&head("left")).expect("a head");
    served.portals.insert(pool, Portals::default());
}

/// Returns the index of the witness change of a pool, and of the other changes with a required order.
fn places(changes: &[Change]) -> (Option<usize>, Option<usize>, Option<usize>) {
    let at = |is_it: fn(&Change) -> bool| changes.iter().rposition(is_it);
    (
        at(|one| matches!(one, Change::SetWitness { .. })),
        at(|one| matches!(one, Change::WriteFile { .. })),
        at(|one| matches!(one, Change::RestartUnit { .. })),
    )
}

#[test]
fn witness_is_added_after_file_reload_and_removed_before() {
    let two = without_witness();
    let (_, mut actual) = applied(&two);
    on_record(&mut actual, None);
    let desired = desired_of(LEGS);
    actual.heads.get_mut(&head("left")).expect("a head").portals = desired.portals.clone();
    let adds = plan(&desired, &actual);
    let (set, write, restart) = places(&adds.changes);
    assert!(set > write && set > restart && restart.is_some(), "{adds}");
    let told = adds.to_string();
    assert!(
        told.contains("left: add witness to the record of tank"),
        "{told}"
    );
    // An earlier run was interrupted: the files are there, and the record does not name it.
    let files = adds
        .changes
        .iter()
        .filter(|one| !matches!(one, Change::SetWitness { .. }));
    perform(&desired, &mut actual, &files.cloned().collect::<Vec<_>>());
    let rest = plan(&desired, &actual);
    assert!(
        matches!(&rest.changes[..], [Change::SetWitness { .. }]),
        "{rest}"
    );
    perform(&desired, &mut actual, &rest.changes);
    assert!(plan(&desired, &actual).is_empty());
    let desired = desired_of(&two);
    let removes = plan(&desired, &actual);
    assert!(
        matches!(removes.changes[0], Change::SetWitness { .. }),
        "{removes}"
    );
    let told = removes.to_string();
    assert!(
        told.contains("left: remove the witness from the record of tank"),
        "{told}"
    );
    perform(&desired, &mut actual, &removes.changes);
    assert!(plan(&desired, &actual).is_empty());
}

/// The groups decide which disks make a pool readable.
#[test]
fn regrouping_disks_of_a_recorded_pool_is_refused() {
    let (_, mut actual) = applied(LEGS);
    on_record(&mut actual, Some(3));
    let one = "{ kind = \"mirror\", legs = [\"left:bay1\", \"right:bay1\"] }";
    let two = "{ kind = \"mirror\", legs = [\"left:bay2\", \"right:bay2\"] }";
    assert!(LEGS.contains(one) && LEGS.contains(two));
    let fewer = LEGS.replace(&format!("{two},"), "");
    let crossed = LEGS.replace("\"right:bay1\"] }", "\"right:bay0\"] }");
    let crossed = crossed.replace("\"right:bay2\"] }", "\"right:bay1\"] }");
    let crossed = crossed.replace("\"right:bay0\"] }", "\"right:bay2\"] }");
    for text in [fewer, crossed] {
        let told = plan(&desired_of(&text), &actual).obstacles;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].what.contains("groups the disks of pool tank"),
            "{told:?}"
        );
    }
    // The order has no meaning.
    let turned = LEGS.replace(one, "@").replace(two, one).replace("@", two);
    assert!(plan(&desired_of(&turned), &actual).obstacles.is_empty());
}

/// The example of three heads with one pool, where the third head has a leg of each mirror; and the state before that
/// head joined.
fn with_and_without_a_third_head() -> (String, String) {
    let vault = THREE.find("[pools.vault]").expect("there");
    let three = THREE[..vault].replace("heads = [\"left\", \"right\"]\n", "");
    let begin = three.find("[heads.middle]").expect("there");
    let end = begin + three[begin..].find("# Two feeds").expect("there");
    let two = format!("{}{}", &three[..begin], &three[end..]);
    let two = two.replace("rule = \"majority\"", "rule = \"two-node\"");
    let (first, second) = ("\"right:bay1\"] }", "\"right:bay2\"] }");
    let three = three.replace(first, "\"right:bay1\", \"middle:bay1\"] }");
    let three = three.replace(second, "\"right:bay2\", \"middle:bay2\"] }");
    (two, three)
}

#[test]
fn third_head_is_added_after_reload_and_gets_mirror_legs() {
    let (_, three) = with_and_without_a_third_head();
    let (desired, mut actual) = before_a_third_head();
    let mut earlier = actual.clone();
    for known in earlier.heads.values_mut() {
        if let Some(record) = known.on_record.get_mut(&1) {
            record.disks = None;
        }
    }
    let early = plan(&desired, &earlier).obstacles;
    assert!(early[0].what.contains("earlier release"), "{early:?}");
    let other = desired_of(&three.replace("0025385200000001", "0025385200000009"));
    let right = actual.heads.get_mut(&head("right")).expect("a head");
    let path = "/dev/disk/by-id/nvme-eui.0025385200000009";
    right.disks.insert(path.into(), ObservedDisk::default());
    let more = plan(&other, &actual).obstacles;
    assert!(
        more[0].what.contains("more changes of pool tank"),
        "{more:?}"
    );
    let adds = plan(&desired, &actual);
    assert!(adds.obstacles.is_empty(), "{adds}");
    let at = |is_it: fn(&Change) -> bool| adds.changes.iter().rposition(is_it);
    let added = at(|one| matches!(one, Change::AddHead { .. }));
    let read = at(|one| matches!(one, Change::RestartUnit { .. }));
    let attached = adds.changes.iter();
    let attached = attached.filter(|one| matches!(one, Change::AttachLeg { .. }));
    assert_eq!(attached.count(), 2, "{adds}");
    assert!(added > read && read.is_some(), "{adds}");
    assert!(at(|one| matches!(one, Change::AttachLeg { .. })) > added);
    let told = adds.to_string();
    for part in [
        "left: add the head middle to the record of tank",
        "left: attach middle:/dev/disk/by-id/nvme-eui.0025385300000001 to tank",
    ] {
        assert!(told.contains(part), "{told}");
    }
    for known in actual.heads.values_mut() {
        known.portals.clear();
    }
    let refused = plan(&desired, &actual).obstacles;
    let unserved = "no head serves pool tank, and its heads change only while it is served";
    assert_eq!(refused[0].what, unserved);
    let served = actual.heads.get_mut(&head("left")).expect("a head");
    served.portals = desired.portals.clone();
    let (attach, others): (Vec<Change>, Vec<Change>) = adds
        .changes
        .into_iter()
        .partition(|one| matches!(one, Change::AttachLeg { .. }));
    perform(&desired, &mut actual, &others);
    assert_eq!(plan(&desired, &actual).changes, attach, "they failed");
    perform(&desired, &mut actual, &attach);
    assert!(plan(&desired, &actual).is_empty());
}

/// A pair with running servers, and the head that joins.
fn before_a_third_head() -> (DesiredState, Actual) {
    let (two, three) = with_and_without_a_third_head();
    let (_, mut actual) = applied(&two);
    on_record(&mut actual, None);
    let desired = desired_of(&three);
    let served = actual.heads.get_mut(&head("left")).expect("a head");
    served.portals = desired.portals.clone();
    for known in actual.heads.values_mut() {
        let record = known.on_record.get_mut(&1).expect("on record");
        record.disks = Some([11, 12, 21, 22].into());
    }
    let middle = bare(&desired).heads.remove(&head("middle"));
    let middle = middle.expect("a head");
    actual.heads.insert(head("middle"), middle);
    (desired, actual)
}

/// A run is interrupted after each change: the next one completes it, and in between a head can be
/// lost.
#[test]
fn new_head_joins_members_after_record_and_fencing() {
    let (desired, before) = before_a_third_head();
    let all = plan(&desired, &before).changes;
    let path = Path::new(render::LEGS_PATH);
    for count in 0..=all.len() {
        let mut actual = before.clone();
        perform(&desired, &mut actual, &all[..count]);
        let rest = plan(&desired, &actual);
        assert!(rest.obstacles.is_empty(), "after {count}: {rest}");
        let unread = |known: &&HeadActual| {
            let file = known.files.get(path).map(|(text, _)| text);
            file.is_some() && file != known.legs_read.as_ref()
        };
        let unread = actual.heads.values().filter(unread).count();
        assert!(unread <= 1, "after {count}: {unread} have a file not read");
        let middle = &actual.heads[&head("middle")];
        let is_on_record = middle.on_record.contains_key(&1);
        let cib = actual.cib.as_ref().expect("configured").to_string();
        let is_fenced = cib.contains("fence-middle");
        let conf = &actual.heads[&head("left")].files[Path::new(COROSYNC_CONF_PATH)].0;
        assert!(!conf.contains("middle") || is_on_record, "after {count}");
        assert!(
            !middle.units_active.contains(PACEMAKER_UNIT) || is_fenced,
            "after {count}"
        );
        perform(&desired, &mut actual, &rest.changes);
        assert!(plan(&desired, &actual).is_empty(), "after {count}");
    }
}

/// A head that read it would open the pool by other rules than the serving head.
#[test]
fn changed_members_block_unless_the_server_supports_it() {
    let two = without_witness();
    let told = |desired: &DesiredState, actual: &Actual| -> Vec<String> {
        let refused = plan(desired, actual);
        assert!(refused.changes.is_empty() || refused.obstacles.is_empty());
        refused.obstacles.into_iter().map(|one| one.what).collect()
    };
    for (before, after, named) in [
        (
            LEGS,
            two.as_str(),
            "head left 1, head right 2, witness 3, and the file names head left 1, head right 2",
        ),
        (
            &two,
            LEGS,
            "head left 1, head right 2, and the file names head left 1, head right 2, witness 3",
        ),
    ] {
        let (_, mut actual) = applied(before);
        let desired = desired_of(after);
        let unnamed = format!("pool tank is on record with the members {named}");
        // Heads of an earlier release, which do not report their members.
        assert_eq!(told(&desired, &actual), std::slice::from_ref(&unnamed));
        // The record of an earlier release.
        on_record(&mut actual, None);
        for known in actual.heads.values_mut() {
            known.on_record.insert(1, RecordedMembers::default());
        }
        assert_eq!(told(&desired, &actual), [unnamed]);
        on_record(&mut actual, (before == LEGS).then_some(3));
        assert!(told(&desired, &actual).is_empty());
        for known in actual.heads.values_mut() {
            known.portals.clear();
        }
        let unserved = "no head serves pool tank, and its witness changes only while it is served";
        assert_eq!(told(&desired, &actual), [unserved]);
        // One that does not exist, and one that gets another record.
        let other = desired_of(&after.replace("number = 1\ngroups", "number = 2\ngroups"));
        assert!(told(&other, &actual).is_empty());
        for known in actual.heads.values_mut() {
            known.stored_pools.clear();
        }
        assert!(told(&desired, &actual).is_empty());
    }
    // The witness is on another host, with the same number; and one with another number.
    let (_, mut actual) = applied(LEGS);
    let moved = desired_of(&LEGS.replace(&"c3".repeat(32), &"c4".repeat(32)));
    assert!(told(&moved, &actual).is_empty());
    on_record(&mut actual, Some(4));
    let other = "pool tank has the witness of the number 4 on record, and the file names 3";
    assert_eq!(told(&moved, &actual), [other]);
}
