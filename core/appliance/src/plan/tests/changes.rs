//! A table of changes to the file, each on a running appliance. A change is either refused before anything is changed,
//! or applied, also when it is interrupted after each step. The result matches the file, and no head is powered off on
//! the way.

use super::*;
use crate::ports::Portals;

const TWO: &str = include_str!("../../../../../examples/two-pools.toml");

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// It is refused, in these words.
    Refused(&'static str),
    /// It is done.
    Done,
}
use Fate::{Done, Refused};

/// Replacements in the text.
type Edit = &'static [(&'static str, &'static str)];

/// The change to the example, its edits, and the outcome.
const TABLE: &[(&str, Edit, Fate)] = &[
    (
        "an address comes",
        &[(
            "{ network = \"storage-a\", address = \"10.77.1.101\" },",
            "{ network = \"storage-a\", address = \"10.77.1.101\" }, { network = \"storage-a\", address = \"10.77.1.109\" },",
        )],
        Done,
    ),
    (
        "an address goes",
        &[(
            "{ network = \"storage-a\", address = \"10.77.1.101\" },",
            "",
        )],
        Done,
    ),
    (
        "a pool goes, and the other one gets an address of it",
        &[
            ("[pools.vault]", "[pools.tank.unused]"),
            (
                "{ network = \"storage-a\", address = \"10.77.1.100\" },",
                "{ network = \"storage-a\", address = \"10.77.1.100\" }, { network = \"storage-a\", address = \"10.77.1.101\" },",
            ),
        ],
        Done,
    ),
    (
        "an address is another",
        &[("10.77.1.101", "10.77.1.109")],
        Done,
    ),
    (
        "all addresses of a pool are replaced",
        &[("::101", "::109"), ("1.101", "1.109"), ("2.101", "2.109")],
        Done,
    ),
    (
        "an address goes to the other pool",
        &[
            (
                "{ network = \"storage-a\", address = \"10.77.1.101\" },",
                "",
            ),
            (
                "{ network = \"storage-a\", address = \"10.77.1.100\" },",
                "{ network = \"storage-a\", address = \"10.77.1.100\" }, { network = \"storage-a\", address = \"10.77.1.101\" },",
            ),
        ],
        Done,
    ),
    (
        "an address comes from the other pool",
        &[
            (
                "{ network = \"storage-a\", address = \"10.77.1.100\" },",
                "",
            ),
            (
                "{ network = \"storage-a\", address = \"10.77.1.101\" },",
                "{ network = \"storage-a\", address = \"10.77.1.100\" }, { network = \"storage-a\", address = \"10.77.1.101\" },",
            ),
        ],
        Done,
    ),
    (
        "two pools swap an address",
        &[
            ("10.77.1.101", "@"),
            ("10.77.1.100", "10.77.1.101"),
            ("@", "10.77.1.100"),
        ],
        Done,
    ),
    (
        "two pools swap their names",
        &[
            ("[pools.tank]", "@"),
            ("[pools.vault]", "[pools.tank]"),
            ("@", "[pools.vault]"),
        ],
        Refused("all its addresses"),
    ),
    (
        "a pool has another name",
        &[("[pools.vault]", "[pools.attic]")],
        Done,
    ),
    (
        "a pool goes",
        &[("[pools.vault]", "[pools.tank.unused]")],
        Done,
    ),
    (
        "home is the other head",
        &[("home = \"right\"", "home = \"left\"")],
        Done,
    ),
    (
        "a pool has its head alone",
        &[("home = \"right\"", "heads = [\"right\"]")],
        Done,
    ),
    (
        "a disk goes",
        &[("    \"/dev/disk/by-id/scsi-35000c500a1b20b00\",\n", "")],
        Done,
    ),
    (
        "the cache is smaller",
        &[("arc = \"20G\"", "arc = \"8G\"")],
        Done,
    ),
    (
        "a number is another",
        &[("number = 2\n", "number = 3\n")],
        Refused("number 3"),
    ),
    (
        "two heads swap their numbers",
        &[
            ("number = 2\n", "@"),
            ("number = 1\n", "number = 2\n"),
            ("@", "number = 1\n"),
        ],
        Refused("running cluster"),
    ),
    (
        "a head's address is another",
        &[(
            "addresses = [\"10.77.9.12\"]",
            "addresses = [\"10.77.9.19\"]",
        )],
        Refused("link 2 of right"),
    ),
    (
        "two heads swap an address",
        &[
            ("addresses = [\"10.77.9.12\"]", "@"),
            (
                "addresses = [\"10.77.9.11\"]",
                "addresses = [\"10.77.9.12\"]",
            ),
            ("@", "addresses = [\"10.77.9.11\"]"),
        ],
        Refused("link 2 of"),
    ),
    (
        "two links swap their numbers",
        &[
            ("heartbeat = 0", "@"),
            ("heartbeat = 1", "heartbeat = 0"),
            ("@", "heartbeat = 1"),
        ],
        Refused("link 0 of left"),
    ),
    ("a link goes", &[("heartbeat = 1\n", "")], Done),
    (
        "all links have other numbers",
        &[
            ("heartbeat = 0", "heartbeat = 5"),
            ("heartbeat = 1", "heartbeat = 6"),
            ("heartbeat = 2", "heartbeat = 7"),
        ],
        Refused("lose all its links"),
    ),
    (
        "an interface is another",
        &[(
            "storage-a = { interface = \"ens1f0\", addresses = [\"10.77.1.12\"",
            "storage-a = { interface = \"ens9\", addresses = [\"10.77.1.12\"",
        )],
        Done,
    ),
    (
        "a head has another name",
        &[("[heads.right", "[heads.third")],
        Refused("third does not answer"),
    ),
    (
        "the cluster has another name",
        &[("name = \"cellar\"", "name = \"attic\"")],
        Refused("runs in the cluster cellar"),
    ),
    (
        "a BMC is elsewhere",
        &[("address = \"10.77.9.22\"", "address = \"10.77.9.29\"")],
        Done,
    ),
    (
        "two heads swap their BMCs",
        &[
            ("10.77.9.22", "@"),
            ("10.77.9.21", "10.77.9.22"),
            ("@", "10.77.9.21"),
        ],
        Done,
    ),
    (
        "outlets go",
        &[(
            "outlets = [{ pdu = \"a\", outlet = \"2\" }, { pdu = \"b\", outlet = \"2\" }]",
            "",
        )],
        Done,
    ),
    (
        "the delay is the other head's",
        &[
            ("delay_s = 1", "@"),
            ("delay_s = 0", "delay_s = 1"),
            ("@", "delay_s = 0"),
        ],
        Done,
    ),
    (
        "the profile is fast",
        &[("[quorum]", "[timeouts]\nprofile = \"fast\"\n\n[quorum]")],
        Done,
    ),
    (
        "a witness comes",
        &[(
            "rule = \"two-node\"",
            "rule = \"witness\"\n[quorum.witness]\naddress = \"10.77.9.31\"",
        )],
        Done,
    ),
];

const WITNESS_TABLE: &[(&str, Edit, Fate)] = &[
    (
        "the witness goes",
        &[
            ("rule = \"witness\"", "rule = \"two-node\""),
            ("[quorum.witness]\naddress = \"10.77.9.31\"\n", ""),
            ("reach = [\"10.77.1.1\", \"10.77.2.1\"]", ""),
        ],
        Done,
    ),
    (
        "the witness is elsewhere",
        &[("10.77.9.31", "10.77.9.32")],
        Done,
    ),
    (
        "the witness has another port",
        &[(
            "address = \"10.77.9.31\"",
            "address = \"10.77.9.31\"\nport = 5999",
        )],
        Done,
    ),
    (
        "the witness has no TLS",
        &[(
            "address = \"10.77.9.31\"",
            "address = \"10.77.9.31\"\ntls = false",
        )],
        Done,
    ),
    (
        "nothing is reached for",
        &[("reach = [\"10.77.1.1\", \"10.77.2.1\"]", "")],
        Done,
    ),
    (
        "the profile is fast",
        &[(
            "[networks.storage-a]",
            "[timeouts]\nprofile = \"fast\"\n\n[networks.storage-a]",
        )],
        Done,
    ),
];

const IPV6: &str = include_str!("../../../../../examples/ipv6.toml");

const IPV6_TABLE: &[(&str, Edit, Fate)] = &[
    (
        "an address comes",
        &[(
            "{ network = \"storage-a\", address = \"fd00:77:1::100\" },",
            "{ network = \"storage-a\", address = \"fd00:77:1::100\" }, { network = \"storage-a\", address = \"fd00:77:1::109\" },",
        )],
        Done,
    ),
    (
        "an address goes",
        &[(
            "{ network = \"storage-a\", address = \"fd00:77:1::100\" },",
            "",
        )],
        Done,
    ),
    (
        "an address is another",
        &[("fd00:77:1::100", "fd00:77:1::109")],
        Done,
    ),
    (
        "an address is written in another way",
        &[("fd00:77:1::100", "fd00:77:1:0:0:0:0:100")],
        Done,
    ),
    (
        "a head's address is another",
        &[("fd00:77:1::12", "fd00:77:1::19")],
        Refused("link 0 of right"),
    ),
    (
        "a link has an address of IPv4, too, which it then uses",
        &[
            (
                "subnets = [\"fd00:77:1::/64\"]",
                "subnets = [\"fd00:77:1::/64\", \"10.77.1.0/24\"]",
            ),
            ("[\"fd00:77:1::11\"]", "[\"fd00:77:1::11\", \"10.77.1.11\"]"),
            ("[\"fd00:77:1::12\"]", "[\"fd00:77:1::12\", \"10.77.1.12\"]"),
        ],
        Refused("link 0 of left"),
    ),
];

/// The text that adds a third head to the example.
const THIRD: &str = r#"
[heads.third]
number = 3
memory = "64G"

[heads.third.links]
storage-a = { interface = "ens1f0", addresses = ["10.77.1.13", "fd00:77:1::13"] }
storage-b = { interface = "ens1f1", addresses = ["10.77.2.13", "fd00:77:2::13"] }
management = { interface = "eno1", addresses = ["10.77.9.13"] }

[heads.third.fencing]
delay_s = 2

[heads.third.fencing.bmc]
address = "10.77.9.23"
user = "fence"
password_file = "/etc/bulkhead/secrets/bmc-third"

"#;

/// The example with three heads.
fn three() -> String {
    let text = TWO.replace("rule = \"two-node\"", "rule = \"majority\"");
    text.replace("[pdus.a]", &format!("{THIRD}[pdus.a]"))
}

const THREE_TABLE: &[(&str, Edit, Fate)] = &[
    (
        "an address goes",
        &[(
            "{ network = \"storage-a\", address = \"10.77.1.101\" },",
            "",
        )],
        Done,
    ),
    (
        "a pool has two of the heads",
        &[("home = \"right\"", "heads = [\"right\", \"third\"]")],
        Done,
    ),
    (
        "home is the third head",
        &[("home = \"right\"", "home = \"third\"")],
        Done,
    ),
    (
        "the profile is fast",
        &[("[quorum]", "[timeouts]\nprofile = \"fast\"\n\n[quorum]")],
        Done,
    ),
    (
        "two heads swap their BMCs",
        &[
            ("10.77.9.23", "@"),
            ("10.77.9.22", "10.77.9.23"),
            ("@", "10.77.9.22"),
        ],
        Done,
    ),
    (
        "two of three heads swap their numbers",
        &[
            ("number = 3\n", "@"),
            ("number = 2\n", "number = 3\n"),
            ("@", "number = 2\n"),
        ],
        Refused("running cluster"),
    ),
    (
        "the third head's address is another",
        &[("10.77.9.13", "10.77.9.19")],
        Refused("link 2 of third"),
    ),
    (
        "a head goes while it is a member",
        &[(THIRD, ""), ("rule = \"majority\"", "rule = \"two-node\"")],
        Refused("third is not in the file and is a member"),
    ),
];

const LEGS_TABLE: &[(&str, Edit, Fate)] = &[
    (
        "an address is another",
        &[("10.77.1.100", "10.77.1.109")],
        Done,
    ),
    (
        "a head's number is another",
        &[("number = 2\nmemory", "number = 4\nmemory")],
        Refused("number 4"),
    ),
    (
        "the cache is smaller",
        &[("arc = \"32G\"", "arc = \"8G\"")],
        Done,
    ),
    (
        "the disk of a leg has another path",
        &[("nvme-eui.0025385200000001", "nvme-eui.0025385200000009")],
        Refused("cannot be read"),
    ),
    (
        "the profile is fast",
        &[("[quorum]", "[timeouts]\nprofile = \"fast\"\n\n[quorum]")],
        Done,
    ),
];

/// Like the example, with `edit` applied; a pool that is removed has no resources left.
fn edited(text: &str, edit: Edit) -> String {
    let mut edited = text.to_owned();
    for (from, to) in edit {
        assert!(edited.contains(from), "{from}");
        edited = edited.replace(from, to);
    }
    match edited.split_once("[pools.tank.unused]") {
        Some((rest, _)) => rest.to_owned(),
        None => edited,
    }
}

/// The example with both pools on `left`, so that addresses move between pools on one head.
fn running(text: &str) -> Actual {
    let (desired, mut actual) = applied(text);
    let left = actual.heads.get_mut(&head("left")).expect("left");
    left.portals = desired.portals.clone();
    let states = actual.cib.as_mut().expect("configured");
    let states = &mut states.child_or_new("status").children;
    states.extend(desired.heads.iter().map(|(head, number)| {
        Element::new("node_state")
            .with("id", number)
            .with("uname", head)
            .with("crmd", "online")
    }));
    actual
}

/// The head joins a running cluster.
#[test]
fn interrupted_add_of_a_third_head_completes() {
    let desired = desired_of(&three());
    let mut before = running(TWO);
    let third = bare(&desired).heads.remove(&head("third")).expect("bare");
    before.heads.insert(head("third"), third);
    cut_off_everywhere("a third head", &before, &desired);
}

/// The head was stopped by hand first, as the refusal demands, or is permanently lost.
#[test]
fn interrupted_removal_of_a_head_completes() {
    let desired = desired_of(TWO);
    let mut before = running(&three());
    before.heads.remove(&head("third"));
    let states = before.cib.as_mut().expect("configured");
    let states = &mut states.child_or_new("status").children;
    states.retain(|state| state.attribute("uname") != Some("third"));
    cut_off_everywhere("a head that left", &before, &desired);
    let whole = plan(&desired, &before).changes;
    let mut after = before;
    perform_some(&desired, &mut after, &whole);
    let cib = after.cib.expect("configured").to_string();
    assert!(!cib.contains("fence-third"), "{cib}");
}

/// Asserts the invariants of each step.
fn assert_sound(before: &Actual, after: &Actual, change: &Change) {
    let known = |actual: &Actual| actual.heads[&head("left")].running_nodes.clone();
    let (old, new) = (known(before), known(after));
    for (name, node) in &new {
        let Some(old) = old.get(name) else { continue };
        assert_eq!(old.number, node.number, "{change}: another number");
        for (link, address) in &node.links {
            let same = old.links.get(link).is_none_or(|old| old == address);
            assert!(same, "{change}: another address of a link");
        }
    }
    let mut places = BTreeSet::new();
    for portals in after
        .heads
        .values()
        .flat_map(|known| known.portals.values())
    {
        for word in portals.words().chunks(2) {
            let place = word[1].split(',').next().expect("a place").to_owned();
            assert!(
                places.insert((word[0].clone(), place)),
                "{change}: two servers"
            );
        }
    }
    let (Some(old), Some(new)) = (&before.cib, &after.cib) else {
        return;
    };
    for one in resources(old)
        .iter()
        .filter(|one| one.attribute("provider").is_some())
    {
        let stays = resources(new).iter().any(|other| other.id() == one.id());
        let is_stopped = one.to_string().contains("value=\"Stopped\"");
        assert!(
            stays || is_stopped,
            "{change}: {:?} is deleted while it runs",
            one.id()
        );
    }
}

fn resources(cib: &Element) -> Vec<Element> {
    let configuration = cib.child("configuration").expect("there");
    configuration
        .child("resources")
        .expect("there")
        .children
        .clone()
}

/// Applies the first changes, and checks the invariants after each.
fn perform_some(desired: &DesiredState, actual: &mut Actual, changes: &[Change]) {
    for change in changes {
        let before = actual.clone();
        perform(desired, actual, std::slice::from_ref(change));
        // Pacemaker stops the server, too.
        if let Change::StopResources { resources } = change {
            for known in actual.heads.values_mut() {
                known
                    .portals
                    .retain(|pool, _| !resources.contains(&render::pool_id(pool)));
            }
        }
        assert_sound(&before, actual, change);
    }
}

/// Asserts that the running state matches the file.
fn assert_complete(desired: &DesiredState, actual: &Actual, what: &str) {
    let rest = plan(desired, actual);
    assert!(rest.is_empty(), "{what}: {rest}");
    for known in actual.heads.values() {
        assert_eq!(known.running_nodes, nodes(desired), "{what}");
        if desired.witness_settings.is_some() {
            assert_eq!(known.witness_settings, desired.witness_settings, "{what}");
        }
        for (pool, portals) in &known.portals {
            assert_eq!(portals, &desired.portals[pool], "{what}");
        }
    }
}

fn cut_off_everywhere(what: &str, before: &Actual, desired: &DesiredState) {
    let whole = plan(desired, before);
    assert!(whole.obstacles.is_empty(), "{what}: {whole}");
    for count in 0..=whole.changes.len() {
        let mut actual = before.clone();
        perform_some(desired, &mut actual, &whole.changes[..count]);
        let rest = plan(desired, &actual);
        assert!(rest.obstacles.is_empty(), "{what}, after {count}: {rest}");
        perform_some(desired, &mut actual, &rest.changes);
        assert_complete(desired, &actual, &format!("{what}, after {count}"));
    }
}

/// Every row, with all heads up, with one away, interrupted after each step, and reverted.
fn assert_refused_or_done(text: &str, table: &[(&str, Edit, Fate)]) {
    for (what, edit, fate) in table {
        let changed = edited(text, edit);
        let (was, desired) = (desired_of(text), desired_of(&changed));
        let before = running(text);
        let mut away = before.clone();
        away.heads.remove(&head("right"));
        let refused = plan(&desired, &away);
        assert!(
            !refused.obstacles.is_empty() && refused.changes.is_empty(),
            "{what}: {refused}"
        );
        match fate {
            Refused(word) => {
                let refused = plan(&desired, &before);
                let told = refused.obstacles.iter().any(|one| one.what.contains(word));
                assert!(told && refused.changes.is_empty(), "{what}: {refused}");
            }
            Done => {
                cut_off_everywhere(what, &before, &desired);
                let mut after = before;
                let whole = plan(&desired, &after).changes;
                perform_some(&desired, &mut after, &whole);
                // A link that is added again has its number and its address.
                let back = plan(&was, &after).changes;
                perform_some(&was, &mut after, &back);
                assert_complete(&was, &after, &format!("{what}, back"));
            }
        }
    }
}

#[test]
fn every_edit_is_refused_or_completes_without_fencing() {
    assert_refused_or_done(TWO, TABLE);
}

#[test]
fn every_witness_edit_completes_without_fencing() {
    assert_refused_or_done(WITNESS, WITNESS_TABLE);
}

#[test]
fn every_ipv6_edit_is_refused_or_completes_without_fencing() {
    assert_refused_or_done(IPV6, IPV6_TABLE);
}

#[test]
fn every_three_head_edit_is_refused_or_completes_unfenced() {
    assert_refused_or_done(&three(), THREE_TABLE);
}

#[test]
fn every_leg_pool_edit_is_refused_or_completes_unfenced() {
    assert_refused_or_done(LEGS, LEGS_TABLE);
}

/// Temporary settings of an operator are only removed by the operator.
#[test]
fn edits_keep_maintenance_mode_and_stopped_resources() {
    for (what, edit, _) in TABLE.iter().filter(|(_, _, fate)| *fate == Done) {
        let mut actual = running(TWO);
        let cib = actual.cib.as_mut().expect("configured");
        set_by_operator(cib);
        let desired = desired_of(&edited(TWO, edit));
        let mut planned = plan(&desired, &actual);
        let kept = planned
            .notes
            .iter()
            .filter(|note| note.contains("an operator set"));
        assert_eq!(
            kept.count(),
            if planned.obstacles.is_empty() { 2 } else { 0 },
            "{what}: {planned}"
        );
        if let Some(refused) = planned.obstacles.first() {
            // The change stops a resource.
            assert!(refused.what.contains("maintenance"), "{what}: {planned}");
            continue;
        }
        perform(&desired, &mut actual, &std::mem::take(&mut planned.changes));
        let after = actual.cib.as_ref().expect("configured").to_string();
        assert!(after.contains("name=\"maintenance-mode\""), "{what}");
        assert!(
            after.contains("id=\"pool-tank-meta-target-role\""),
            "{what}"
        );
        assert!(plan(&desired, &actual).is_empty(), "{what}");
    }
}

/// As `crm_attribute` and `crm_resource` do it.
fn set_by_operator(cib: &mut Element) {
    let pair = |id: &str, name: &str, value: &str| {
        Element::new("nvpair")
            .with("id", id)
            .with("name", name)
            .with("value", value)
    };
    let configuration = cib.child_or_new("configuration");
    let options = &mut configuration.child_or_new("crm_config").children[0];
    options.children.push(pair(
        "cib-bootstrap-options-maintenance-mode",
        "maintenance-mode",
        "true",
    ));
    let resources = configuration.child_or_new("resources");
    let mut pools = resources.children.iter_mut();
    let tank = pools
        .find(|one| one.id() == Some("pool-tank"))
        .expect("there");
    let meta = tank.child_or_new("meta_attributes");
    meta.children
        .push(pair("pool-tank-meta-target-role", "target-role", "Stopped"));
}

#[test]
fn removing_a_pool_with_clients_is_refused() {
    let mut actual = running(TWO);
    let vault: PoolName = "vault".parse().expect("a name");
    let left = actual.heads.get_mut(&head("left")).expect("left");
    left.clients.insert(vault, 3);
    let gone = edited(TWO, &[("[pools.vault]", "[pools.tank.unused]")]);
    let refused = plan(&desired_of(&gone), &actual);
    assert!(refused.changes.is_empty());
    assert_eq!(
        refused.obstacles[0].what,
        "pool vault is not in the file any more, and left serves it to 3 clients"
    );
    let parsed = parse(&gone).expect("well formed");
    let layout = Layout {
        in_use: true,
        ..Layout::default()
    };
    let said = plan(&desired_state(&parsed.appliance, &gone, &layout), &actual);
    assert!(said.obstacles.is_empty());
    let Some(Change::StopResources { resources }) = said.changes.first() else {
        panic!("{said}");
    };
    assert!(
        resources.contains("pool-vault") && resources.contains("address-10.77.1.101"),
        "{said}"
    );
    assert_eq!(resources.len(), 5, "{said}");
}

/// A pool that returns after an interrupted run is not stopped permanently, unlike one that an operator stopped.
#[test]
fn readded_pool_is_served_again() {
    let mut actual = running(TWO);
    let gone = desired_of(&edited(TWO, &[("[pools.vault]", "[pools.tank.unused]")]));
    let first = plan(&gone, &actual).changes;
    perform_some(&gone, &mut actual, &first[..1]);
    let again = desired_of(TWO);
    let planned = plan(&again, &actual).changes;
    perform_some(&again, &mut actual, &planned);
    assert!(
        !actual
            .cib
            .as_ref()
            .expect("configured")
            .to_string()
            .contains("Stopped")
    );
}

/// Pacemaker refuses the whole configuration otherwise.
#[test]
fn move_constraint_is_removed_with_its_resource() {
    let mut actual = running(TWO);
    let configuration = actual
        .cib
        .as_mut()
        .expect("configured")
        .child_or_new("configuration");
    let ban = |pool: &str| {
        Element::new("rsc_location")
            .with("id", format!("cli-ban-{pool}-on-left"))
            .with("rsc", pool)
    };
    let constraints = configuration.child_or_new("constraints");
    constraints
        .children
        .extend(["pool-tank", "pool-vault"].map(ban));
    let gone = desired_of(&edited(TWO, &[("[pools.vault]", "[pools.tank.unused]")]));
    let planned = plan(&gone, &actual).changes;
    perform_some(&gone, &mut actual, &planned);
    let after = actual.cib.expect("configured").to_string();
    assert!(after.contains("cli-ban-pool-tank") && !after.contains("cli-ban-pool-vault"));
}

/// The new owner of an address cannot bind it before the old one has released it.
#[test]
fn address_is_removed_before_another_server_binds_it() {
    let actual = running(TWO);
    let swapped = edited(
        TWO,
        &[
            ("10.77.1.101", "@"),
            ("10.77.1.100", "10.77.1.101"),
            ("@", "10.77.1.100"),
        ],
    );
    let planned = plan(&desired_of(&swapped), &actual).changes;
    let sets: Vec<(&str, bool, bool)> = planned
        .iter()
        .filter_map(|one| match one {
            Change::SetPortals {
                pool, new, gone, ..
            } => {
                let none = Portals::default();
                Some((pool.as_str(), *gone != none, *new != none))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        sets,
        [
            ("tank", true, false),
            ("vault", true, false),
            ("tank", false, true),
            ("vault", false, true)
        ]
    );
}
