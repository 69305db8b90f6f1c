//! Applies plans to heads in memory, and patches a CIB by Pacemaker's own tools on a file, where they are installed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use appliance::plan::{Change, DesiredState, Plan, empty_cib, merged, plan};
use appliance::{Layout, desired_state, parse};
use cluster::cib::{configure, read_cib};
use cluster::fake::{FakeCluster, FakeHost};
use cluster::host::{Local, write_file};
use cluster::retire::Retired;
use cluster::{ApplyError, Hosts, apply, observe, rotate_key};

const PAIR: &str = include_str!("../../../examples/pair.toml");
const WITNESS: &str = include_str!("../../../examples/witness.toml");
const LEGS: &str = include_str!("../../../examples/legs-two-heads-witness.toml");

const PEER_KEY: &str = "/etc/bulkhead/head/peer-key";

struct Pair {
    cluster: Arc<Mutex<FakeCluster>>,
    left: FakeHost,
    right: FakeHost,
    machines: Hosts,
}

fn pair() -> Pair {
    let cluster = Arc::new(Mutex::new(FakeCluster::default()));
    let (left, right) = (
        FakeHost::new("left", &cluster),
        FakeHost::new("right", &cluster),
    );
    let mut machines = Hosts::new();
    for (name, machine) in [("left", &left), ("right", &right)] {
        machines.insert(
            name.parse().expect("a good name"),
            Box::new(machine.clone()),
        );
    }
    Pair {
        cluster,
        left,
        right,
        machines,
    }
}

fn desired_of(text: &str) -> DesiredState {
    let parsed = parse(text).expect("well formed");
    desired_state(&parsed.appliance, text, &Layout::default())
}

fn plan_of(pair: &Pair, desired: &DesiredState) -> Plan {
    plan(
        desired,
        &observe(&pair.machines, desired).expect("the heads answer"),
    )
}

fn apply_quietly(pair: &Pair, desired: &DesiredState) -> Result<(), ApplyError> {
    apply(&pair.machines, &plan_of(pair, desired), &mut |_| {})
}

#[test]
fn bare_heads_are_set_up_and_second_plan_is_empty() {
    for text in [PAIR, WITNESS] {
        let (pair, desired) = (pair(), desired_of(text));
        apply_quietly(&pair, &desired).expect("all changes succeed");
        let second = plan_of(&pair, &desired);
        assert!(second.is_empty(), "{second}");
        let key = pair.left.file("/etc/corosync/authkey").expect("a secret");
        assert_eq!(key.len(), 256);
        assert_eq!(pair.right.file("/etc/corosync/authkey"), Some(key));
        let peer_key = pair.left.file(PEER_KEY).expect("a key of the heads");
        assert_eq!(peer_key.len(), 32);
        assert_eq!(pair.right.file(PEER_KEY), Some(peer_key));
    }
}

/// The first part stops before Pacemaker is configured for a pool that does not exist.
#[test]
fn pool_of_legs_is_served_after_creation_and_second_apply() {
    let (pair, desired) = (pair(), desired_of(LEGS));
    let has_pool = || {
        let cluster = pair.cluster.lock().expect("not poisoned");
        let cib = cluster.cib.as_ref().expect("configured").to_string();
        cib.contains("pool-tank")
    };
    apply_quietly(&pair, &desired).expect("all changes succeed");
    assert!(!has_pool());
    let between = plan_of(&pair, &desired);
    assert!(
        between.changes.is_empty() && between.pools_to_make.len() == 1,
        "{between}"
    );
    pair.left.store_pool(1);
    apply_quietly(&pair, &desired).expect("all changes succeed");
    assert!(has_pool());
    assert!(plan_of(&pair, &desired).is_empty());
}

#[test]
fn secret_rotates_only_after_all_store_the_former_one() {
    const KEY: &str = "/etc/corosync/authkey";
    let (pair, desired) = (pair(), desired_of(PAIR));
    apply_quietly(&pair, &desired).expect("all changes succeed");
    let before = pair.left.file(KEY).expect("a secret");
    let peer_key = pair.left.file(PEER_KEY).expect("a key of the heads");
    pair.cluster.lock().expect("not poisoned").log.clear();
    rotate_key(&pair.machines, &mut |_| {}).expect("all changes succeed");
    let after = pair.left.file(KEY).expect("a secret");
    assert_ne!(after, before);
    assert_eq!(pair.right.file(KEY), Some(after));
    let new_peer_key = pair.left.file(PEER_KEY).expect("a key of the heads");
    assert_ne!(new_peer_key, peer_key);
    assert_eq!(pair.right.file(PEER_KEY), Some(new_peer_key));
    let log = pair.cluster.lock().expect("not poisoned").log.clone();
    let kept = |line: &String| line.contains("write /var/lib/bulkhead/seal-keys/authkey-");
    assert!(log[..2].iter().all(kept), "{log:?}");
    assert_eq!(
        log[2..],
        [
            "left: write /etc/corosync/authkey",
            "right: write /etc/corosync/authkey",
            "left: write /etc/bulkhead/head/peer-key",
            "right: write /etc/bulkhead/head/peer-key",
            "left: reload",
        ]
    );
    let path = log[0].split_once("write ").expect("a path").1;
    assert_eq!(pair.left.file(path), Some(before.clone()));
    assert_eq!(pair.right.file(path), Some(before));
    let second = plan_of(&pair, &desired);
    assert!(second.is_empty(), "{second}");
    // If a head does not respond, no key is changed.
    pair.right.set_down(true);
    rotate_key(&pair.machines, &mut |_| {}).expect_err("right is down");
    assert_ne!(pair.left.file(KEY), None);
    pair.right.set_down(false);
    assert_eq!(pair.left.file(KEY), pair.right.file(KEY));
}

/// In a rolling upgrade, the right head gets the new version only after the left one was applied.
#[test]
fn rotation_during_upgrade_keeps_key_readable_by_all() {
    let (pair, desired) = (pair(), desired_of(PAIR));
    pair.right.set_older(true);
    apply_quietly(&pair, &desired).expect("all changes succeed");
    rotate_key(&pair.machines, &mut |_| {}).expect("all changes succeed");
    assert_eq!(pair.left.file(PEER_KEY), None);
    pair.right.set_older(false);
    apply_quietly(&pair, &desired).expect("all changes succeed");
    assert!(pair.left.file(PEER_KEY).is_some());
    assert_eq!(pair.left.file(PEER_KEY), pair.right.file(PEER_KEY));
    // A truncated copy is no key, and the other head's key is used.
    let whole = pair.right.file(PEER_KEY);
    write_file(&pair.left, PEER_KEY.as_ref(), &[7; 31], 0o400).expect("written");
    apply_quietly(&pair, &desired).expect("all changes succeed");
    assert_eq!(pair.left.file(PEER_KEY), whole);
}

/// An administrator's command or an older version truncated a copy.
#[test]
fn secret_of_wrong_length_is_replaced_not_copied() {
    const KEY: &str = "/etc/corosync/authkey";
    let (pair, desired) = (pair(), desired_of(PAIR));
    apply_quietly(&pair, &desired).expect("all changes succeed");
    let whole = pair.right.file(KEY).expect("a secret");
    for length in [0, 1, 127, 4097] {
        write_file(&pair.left, KEY.as_ref(), &vec![7; length], 0o400).expect("written");
        let plan = plan_of(&pair, &desired);
        assert_eq!(plan.changes.len(), 1, "{plan}");
        apply_quietly(&pair, &desired).expect("all changes succeed");
        assert_eq!(pair.left.file(KEY), Some(whole.clone()));
    }
    // A truncated secret is not stored as a former key.
    write_file(&pair.left, KEY.as_ref(), &[7; 100], 0o400).expect("written");
    pair.cluster.lock().expect("not poisoned").log.clear();
    rotate_key(&pair.machines, &mut |_| {}).expect("all changes succeed");
    let log = pair.cluster.lock().expect("not poisoned").log.clone();
    let kept = log.iter().filter(|line| line.contains("seal-keys"));
    assert_eq!(kept.count(), 2, "one key on each head: {log:?}");
    for machine in [&pair.left, &pair.right] {
        write_file(machine, KEY.as_ref(), &[7; 100], 0o400).expect("written");
    }
    apply_quietly(&pair, &desired).expect("all changes succeed");
    assert_eq!(pair.left.file(KEY).expect("a secret").len(), 256);
    assert_eq!(pair.left.file(KEY), pair.right.file(KEY));
}

#[test]
fn a_changed_file_on_a_running_pair_restarts_nothing() {
    let pair = pair();
    apply_quietly(&pair, &desired_of(PAIR)).expect("all changes succeed");
    pair.cluster.lock().expect("not poisoned").log.clear();
    let faster = PAIR.replace("[quorum]", "[timeouts]\nprofile = \"fast\"\n\n[quorum]");
    apply_quietly(&pair, &desired_of(&faster)).expect("all changes succeed");
    let log = pair.cluster.lock().expect("not poisoned").log.clone();
    assert_eq!(
        log,
        [
            "left: write /etc/bulkhead/appliance.toml",
            "right: write /etc/bulkhead/appliance.toml",
            "left: write /var/lib/bulkhead/corosync-unread",
            "left: write /etc/corosync/corosync.conf",
            "right: write /var/lib/bulkhead/corosync-unread",
            "right: write /etc/corosync/corosync.conf",
            "left: reload",
            "left: configure",
        ]
    );
    assert!(plan_of(&pair, &desired_of(&faster)).is_empty());
}

#[test]
fn unreachable_head_fails_apply_before_first_change() {
    let pair = pair();
    pair.right.set_down(true);
    let desired = desired_of(PAIR);
    let refused = apply_quietly(&pair, &desired).expect_err("right is down");
    assert!(matches!(refused, ApplyError::Obstacle(_)), "{refused}");
    assert!(pair.cluster.lock().expect("not poisoned").log.is_empty());
}

#[test]
fn interrupted_apply_resumes_without_repeated_changes() {
    let (pair, desired) = (pair(), desired_of(PAIR));
    let mut whole = plan_of(&pair, &desired);
    whole.changes.truncate(5);
    apply(&pair.machines, &whole, &mut |_| {}).expect("half of it can be done");
    let rest = plan_of(&pair, &desired);
    for done in &whole.changes {
        assert!(!rest.changes.contains(done), "{done}");
    }
    apply_quietly(&pair, &desired).expect("the rest can be done");
    assert!(plan_of(&pair, &desired).is_empty());
}

/// The run is killed after each of its commands, on any head, and repeated: the heads match the file.
#[test]
fn apply_killed_after_any_command_is_completed_by_next() {
    let faster = |text: &str| format!("{text}\n[timeouts]\nprofile = \"fast\"\n");
    let fewer = PAIR.replace(
        "    { network = \"storage-a\", address = \"10.77.1.100\" },\n",
        "",
    );
    assert_ne!(fewer, PAIR);
    for (what, before, after) in [
        ("bare heads", None, WITNESS.to_owned()),
        ("another profile", Some(WITNESS), faster(WITNESS)),
        ("an address goes", Some(PAIR), fewer),
        (
            "a witness goes",
            Some(WITNESS),
            PAIR.replace("\"attic\"", "\"gallery\""),
        ),
    ] {
        let desired = desired_of(&after);
        let mut commands = 0;
        loop {
            let pair = pair();
            if let Some(before) = before {
                apply_quietly(&pair, &desired_of(before)).expect("all changes succeed");
            }
            let planned = plan_of(&pair, &desired);
            assert!(!planned.changes.is_empty(), "{what}: {planned}");
            let set_fuse = |fuse| pair.cluster.lock().expect("not poisoned").fuse = fuse;
            set_fuse(Some(commands));
            let run = AssertUnwindSafe(|| apply(&pair.machines, &planned, &mut |_| {}));
            let ended = catch_unwind(run);
            set_fuse(None);
            apply_quietly(&pair, &desired).expect("the rest can be done");
            let rest = plan_of(&pair, &desired);
            assert!(rest.is_empty(), "{what}, after {commands}: {rest}");
            if let Ok(result) = ended {
                result.expect("all changes succeed");
                break;
            }
            commands += 1;
        }
        assert!(commands > 5, "{what}: {commands}");
    }
}

#[test]
fn silent_witness_blocks_only_the_first_apply() {
    let (pair, desired) = (pair(), desired_of(WITNESS));
    pair.right.set_witness(false);
    let refused = apply_quietly(&pair, &desired).expect_err("it does not respond");
    assert!(
        refused
            .to_string()
            .contains("the witness does not respond to right"),
        "{refused}"
    );
    assert!(pair.cluster.lock().expect("not poisoned").log.is_empty());
    pair.right.set_witness(true);
    apply_quietly(&pair, &desired).expect("it responds");
    pair.right.set_witness(false);
    let other = desired_of(&WITNESS.replace("10.77.1.100", "10.77.1.105"));
    let planned = plan_of(&pair, &other);
    assert!(
        planned.obstacles.is_empty() && !planned.changes.is_empty(),
        "{planned}"
    );
}

#[test]
fn concurrent_cib_change_is_retried() {
    let (pair, desired) = (pair(), desired_of(PAIR));
    apply_quietly(&pair, &desired).expect("all changes succeed");
    let other = desired_of(&PAIR.replace("10.77.1.100", "10.77.1.105"));
    pair.cluster.lock().expect("not poisoned").rivals = 3;
    apply_quietly(&pair, &other).expect("the fourth attempt succeeds");
    assert!(plan_of(&pair, &other).is_empty());
    pair.cluster.lock().expect("not poisoned").rivals = 1_000;
    let refused =
        apply_quietly(&pair, &desired).expect_err("each attempt meets a newer configuration");
    // The former address is stopped first.
    assert!(matches!(refused, ApplyError::Stop(_)), "{refused}");
}

#[test]
fn progress_is_reported_before_each_change() {
    let (pair, desired) = (pair(), desired_of(PAIR));
    let planned = plan_of(&pair, &desired);
    let mut told: Vec<Change> = Vec::new();
    apply(&pair.machines, &planned, &mut |change| {
        told.push(change.clone())
    })
    .expect("all changes succeed");
    assert_eq!(told, planned.changes);
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn pacemakers_own_tools_patch_a_configuration() {
    if !["/usr/sbin/crm_diff", "/usr/sbin/cibadmin"]
        .iter()
        .all(|tool| PathBuf::from(tool).exists())
    {
        eprintln!("skipped: crm_diff and cibadmin are not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cib.xml");
    let first = desired_of(PAIR);
    std::fs::write(&file, merged(&empty_cib(), &first.cib).to_string()).expect("writable");
    let machine = Local {
        prefix: vec![
            "env".to_owned(),
            "PATH=/usr/sbin:/usr/bin:/bin".to_owned(),
            format!("CIB_file={}", file.display()),
        ],
    };
    let other = desired_of(
        &PAIR
            .replace("10.77.1.100", "10.77.1.105")
            .replace("home = \"left\"", "home = \"right\""),
    );
    let changes = configure(&machine, &other.cib).expect("the tools work");
    assert!(!changes.is_empty());
    let after = read_cib(&machine).expect("the tools work");
    assert!(after.to_string().contains("10.77.1.105"));
    assert!(!after.to_string().contains("10.77.1.100"));
    let again = configure(&machine, &other.cib).expect("the tools work");
    assert!(again.is_empty(), "{again:#?}");
}

/// After the deletion Pacemaker may not be able to stop the resource, and would power the head off.
#[test]
fn removed_resource_is_stopped_before_deletion() {
    let pair = pair();
    apply_quietly(&pair, &desired_of(PAIR)).expect("all changes succeed");
    pair.cluster.lock().expect("not poisoned").log.clear();
    let fewer = PAIR.replace(
        "    { network = \"storage-b\", address = \"10.77.2.100\" },\n",
        "",
    );
    assert_ne!(fewer, PAIR);
    apply_quietly(&pair, &desired_of(&fewer)).expect("all changes succeed");
    let log = pair.cluster.lock().expect("not poisoned").log.clone();
    assert_eq!(log[..2], ["left: configure", "left: wait for Pacemaker"]);
    assert!(log[2].contains("write"), "{log:?}");
    assert_eq!(log.last().map(String::as_str), Some("left: configure"));
    let cib = pair.cluster.lock().expect("not poisoned").cib.clone();
    assert!(!cib.expect("configured").to_string().contains("10.77.2.100"));
    assert!(plan_of(&pair, &desired_of(&fewer)).is_empty());
}

#[test]
fn lock_is_exclusive_between_runs() {
    use cluster::host::{Host, LockError};

    let pair = pair();
    let first = pair.left.lock("one").expect("nobody has it");
    assert!(matches!(pair.left.lock("another"), Err(LockError::Busy(who)) if who == "one"));
    drop(first);
    pair.left.lock("another").expect("nobody has it");
}

/// A client is connected by the address that is removed: the file without it is not written either.
#[test]
fn removal_of_used_address_needs_confirmation() {
    let pair = pair();
    apply_quietly(&pair, &desired_of(PAIR)).expect("all changes succeed");
    pair.left.set_portals(
        r#"[{"pool": "tank", "protocol": "iscsi", "address": "10.77.1.100:3260", "group": 1, "clients": 0},
            {"pool": "tank", "protocol": "iscsi", "address": "10.77.9.9:3260", "group": 2, "clients": 1},
            {"pool": "tank", "protocol": "nbd", "address": "10.77.1.100:10809", "clients": 0}]"#,
    );
    pair.left.set_portals_in_use();
    pair.cluster.lock().expect("not poisoned").log.clear();
    let text = format!("{PAIR}\n# another text\n");
    let refused = apply_quietly(&pair, &desired_of(&text)).expect_err("in use");
    assert!(
        refused
            .to_string()
            .contains("left: have the server of tank"),
        "{refused}"
    );
    assert!(pair.cluster.lock().expect("not poisoned").log.is_empty());
    let parsed = parse(&text).expect("well formed");
    let layout = Layout {
        in_use: true,
        ..Layout::default()
    };
    apply_quietly(&pair, &desired_state(&parsed.appliance, &text, &layout))
        .expect("the confirmation was given");
    let log = pair.cluster.lock().expect("not poisoned").log.clone();
    assert_eq!(
        log[0],
        "left: portal set tank --iscsi 10.77.1.100:3260,1 --iscsi 10.77.2.100:3260,2 \
         --nbd 10.77.1.100:10809 --nbd 10.77.2.100:10809 --in-use"
    );
    assert!(log[1].contains("write"), "{log:?}");
}

/// The pool's server adds it after both heads have read the file.
#[test]
fn new_witness_is_added_to_record_by_pool_server() {
    let begin = LEGS.find("[witness]").expect("there");
    let end = begin + LEGS[begin..].find("[heads.left]").expect("there");
    let (pair, desired) = (
        pair(),
        desired_of(&format!("{}{}", &LEGS[..begin], &LEGS[end..])),
    );
    for head in [&pair.left, &pair.right] {
        head.store_pool(1);
        head.set_members(r#"[{"pool": 1, "heads": [1, 2], "witness": null}]"#);
    }
    apply_quietly(&pair, &desired).expect("all changes succeed");
    pair.right.set_portals(
        r#"[{"pool": "tank", "protocol": "iscsi", "address": "10.77.1.100:3260", "group": 1, "clients": 0}]"#,
    );
    pair.right.set_statuses(&[status("current", "current")]);
    pair.cluster.lock().expect("not poisoned").log.clear();
    apply_quietly(&pair, &desired_of(LEGS)).expect("all changes succeed");
    let log = pair.cluster.lock().expect("not poisoned").log.clone();
    let at = |what: &str| log.iter().rposition(|line| line.contains(what));
    let added = at("right: set-witness tank witness");
    assert!(
        added.is_some() && added > at("restart bulkhead-leg-server"),
        "{log:?}"
    );
}

#[test]
fn a_third_head_and_its_legs_are_added_by_the_server_of_the_pool() {
    let pair = pair();
    let head = || "right".parse().expect("a name");
    let pool = || "tank".parse().expect("a name");
    let program = PathBuf::from("/usr/bin/bulkhead");
    let added = Change::AddHead {
        head: head(),
        program: program.clone(),
        pool: pool(),
        coming: "middle".to_owned(),
    };
    let attached = Change::AttachLeg {
        head: head(),
        program,
        pool: pool(),
        beside: "left:/x".to_owned(),
        leg: "middle:/z".to_owned(),
    };
    let plan = Plan {
        changes: vec![added, attached],
        ..Plan::default()
    };
    apply(&pair.machines, &plan, &mut |_| {}).expect("all changes succeed");
    assert_eq!(
        pair.cluster.lock().expect("not poisoned").log,
        [
            "right: add-head tank middle",
            "right: attach tank left:/x middle:/z"
        ]
    );
}

/// Both leg-servers have read the file before. A run that was killed is completed by the next one.
#[test]
fn a_group_of_the_file_is_added_by_the_server_of_the_pool() {
    const FIRST: &str = "{ kind = \"mirror\", legs = [\"left:bay1\", \"right:bay1\"] },";
    let third = FIRST.replace("bay1", "bay3");
    let (pair, _) = served();
    pair.left.set_statuses(&[status("current", "current")]);
    let members = |disks: &str, current: &str| {
        let json = format!(
            r#"[{{"pool": 1, "heads": [1, 2], "witness": 3, "disks": [{disks}], "current": [{current}]}}]"#
        );
        for head in [&pair.left, &pair.right] {
            head.set_members(&json);
        }
    };
    members("11, 12, 21, 22", "11, 12, 21, 22");
    let mut desired = desired_of(&LEGS.replace(FIRST, &format!("{FIRST}\n{third}")));
    // The portals are not under test here.
    desired.portals.clear();
    apply_quietly(&pair, &desired).expect("all changes succeed");
    let added = "left: add tank mirror left:/dev/disk/by-id/nvme-eui.0025385100000003 \
                 right:/dev/disk/by-id/nvme-eui.0025385200000003";
    let log = pair.cluster.lock().expect("not poisoned").log.clone();
    assert_eq!(log.last().map(String::as_str), Some(added), "{log:?}");
    assert_eq!(restarts(&pair).len(), 2, "{log:?}");
    // Killed after the record named a disk of it.
    members("11, 12, 21, 22, 13", "11, 12, 21, 22");
    pair.cluster.lock().expect("not poisoned").log.clear();
    apply_quietly(&pair, &desired).expect("all changes succeed");
    let log = pair.cluster.lock().expect("not poisoned").log.clone();
    assert_eq!(log, [added]);
    members("11, 12, 21, 22, 13, 23", "11, 12, 21, 22, 13, 23");
    assert!(plan_of(&pair, &desired).changes.is_empty());
}

/// A pool of legs that the left head serves after all changes; and the same with another port.
fn served() -> (Pair, DesiredState) {
    let (pair, desired) = (pair(), desired_of(LEGS));
    for head in [&pair.left, &pair.right] {
        head.store_pool(1);
        head.set_members(
            r#"[{"pool": 1, "heads": [1, 2], "witness": 3, "disks": [11, 12, 21, 22]}]"#,
        );
    }
    apply_quietly(&pair, &desired).expect("all changes succeed");
    pair.left.set_portals(
        r#"[{"pool": "tank", "protocol": "iscsi", "address": "10.77.1.100:3260", "group": 1, "clients": 0}]"#,
    );
    apply_quietly(&pair, &desired).expect("all changes succeed");
    pair.cluster.lock().expect("not poisoned").log.clear();
    let text = LEGS.replace("[legs]\n", "[legs]\nlender_port = 7073\n");
    let parsed = parse(&text).expect("well formed");
    let layout = Layout {
        legs_wait: Duration::from_millis(2500),
        ..Layout::default()
    };
    let mut desired = desired_state(&parsed.appliance, &text, &layout);
    // The portals are not under test here.
    desired.portals.clear();
    (pair, desired)
}

/// The response of `pool status` for the legs of two mirrors, by the states on left and on right.
fn status(left: &str, right: &str) -> String {
    let leg = |disk: u64, head: &str, eui: &str, state: &str, group: u64| {
        let path = format!("/dev/disk/by-id/nvme-eui.{eui}");
        format!(
            r#"{{"name": "{head}:{path}", "head": "{head}", "path": "{path}", "disk": {disk}, "group": {group}, "device": "/run/{disk}",
                 "state": "{state}", "since_ms": 1767607872000}}"#
        )
    };
    let legs = [
        leg(11, "left", "0025385100000001", left, 0),
        leg(21, "right", "0025385200000001", right, 0),
        leg(12, "left", "0025385100000002", "current", 1),
        leg(22, "right", "0025385200000002", "current", 1),
    ];
    format!(
        r#"{{"health": "ONLINE", "legs": {{"epoch": 7, "writes_wait": false, "legs": [{}], "members": []}}}}"#,
        legs.join(", ")
    )
}

fn restarts(pair: &Pair) -> Vec<String> {
    let log = pair.cluster.lock().expect("not poisoned").log.clone();
    log.into_iter()
        .filter(|line| line.contains("restart"))
        .collect()
}

const LEFT_RESTART: &str = "left: restart bulkhead-leg-server.service";
const RIGHT_RESTART: &str = "right: restart bulkhead-leg-server.service";

#[test]
fn leg_server_restarts_after_legs_are_current() {
    let (pair, desired) = served();
    let whole = status("current", "current");
    // During the restart of the first one, a leg fails and returns.
    pair.left.set_statuses(&[
        whole.clone(),
        status("failing", "current"),
        status("stale", "current"),
        status("copying", "current"),
        whole,
    ]);
    apply_quietly(&pair, &desired).expect("it comes back");
    assert_eq!(restarts(&pair), [LEFT_RESTART, RIGHT_RESTART]);
}

#[test]
fn leg_server_restart_waits_for_stale_leg() {
    let (pair, desired) = served();
    let statuses = [status("current", "current"), status("current", "copying")];
    pair.left.set_statuses(&statuses);
    let refused = apply_quietly(&pair, &desired).expect_err("it does not return");
    assert_eq!(restarts(&pair), [LEFT_RESTART]);
    let ApplyError::Legs(head, why) = refused else {
        panic!("{refused}");
    };
    assert_eq!(head.as_str(), "right");
    let why = why.to_string();
    for part in [
        "leg right:/dev/disk/by-id/nvme-eui.0025385200000001 of pool tank is copying since 2026-01-05T10:11:12Z",
        "--stale-legs",
    ] {
        assert!(why.contains(part), "{why}");
    }
    // With the confirmation: left is complete.
    let desired = DesiredState {
        stale_legs: true,
        ..desired
    };
    apply_quietly(&pair, &desired).expect("the confirmation was given");
    assert_eq!(restarts(&pair), [LEFT_RESTART, RIGHT_RESTART]);
}

/// A leg that was stale before is not awaited, and a leg that the pool cannot run without is not removed, with any
/// option.
#[test]
fn only_current_leg_is_not_removed() {
    let (pair, desired) = served();
    pair.left.set_statuses(&[status("current", "stale")]);
    apply_quietly(&pair, &desired).expect("left is complete, and serves");
    assert_eq!(restarts(&pair), [LEFT_RESTART, RIGHT_RESTART]);
    let (pair, desired) = served();
    pair.left.set_statuses(&[status("stale", "current")]);
    for stale_legs in [false, true] {
        let desired = DesiredState {
            stale_legs,
            ..desired.clone()
        };
        let refused = apply_quietly(&pair, &desired).expect_err("it is the last one");
        let ApplyError::Legs(_, why) = refused else {
            panic!("{refused}");
        };
        let why = why.to_string();
        for part in [
            "pool tank, which left serves, cannot do without right:/dev/disk/by-id/nvme-eui.0025385200000001",
            "left:/dev/disk/by-id/nvme-eui.0025385100000001 is stale since 2026-01-05T10:11:12Z",
            "bulkhead pool move tank right",
        ] {
            assert!(why.contains(part), "{part}: {why}");
        }
        assert_eq!(restarts(&pair), [LEFT_RESTART]);
    }
    // It is moved there.
    pair.left.set_statuses(&[]);
    pair.right.set_statuses(&[status("stale", "current")]);
    apply_quietly(&pair, &desired).expect("right retains its own disks");
    assert_eq!(restarts(&pair), [LEFT_RESTART, RIGHT_RESTART]);
}

/// The run is killed between the write of a file and the restart of its reader.
#[test]
fn missed_restart_or_reload_is_done_by_next_run() {
    let (pair, desired) = served();
    pair.left.set_statuses(&[status("current", "current")]);
    let mut planned = plan_of(&pair, &desired);
    let at = |planned: &Plan| {
        let is_it = |change: &Change| matches!(change, Change::RestartUnit { .. });
        planned.changes.iter().position(is_it)
    };
    planned.changes.truncate(at(&planned).expect("planned"));
    apply(&pair.machines, &planned, &mut |_| {}).expect("the files are written");
    assert!(restarts(&pair).is_empty());
    apply_quietly(&pair, &desired).expect("the rest can be done");
    assert_eq!(restarts(&pair), [LEFT_RESTART, RIGHT_RESTART]);
    let second = plan_of(&pair, &desired);
    assert!(second.is_empty(), "{second}");
    let faster =
        desired_of(&PAIR.replace("[quorum]", "[timeouts]\nprofile = \"fast\"\n\n[quorum]"));
    let pair = crate::pair();
    apply_quietly(&pair, &desired_of(PAIR)).expect("all changes succeed");
    let mut planned = plan_of(&pair, &faster);
    let is_reload = |change: &Change| matches!(change, Change::ReloadCorosync { .. });
    let at = planned.changes.iter().position(is_reload);
    planned.changes.remove(at.expect("planned"));
    // A run that was killed after it had announced the reload.
    let reload = Change::ReloadCorosync {
        head: "nobody".parse().expect("a name"),
    };
    planned.changes.push(reload);
    apply(&pair.machines, &planned, &mut |_| {}).expect_err("there is no such head");
    let rest = plan_of(&pair, &faster);
    assert!(rest.changes.iter().any(is_reload), "{rest}");
    apply_quietly(&pair, &faster).expect("the rest can be done");
    assert!(plan_of(&pair, &faster).is_empty());
}

#[test]
fn independent_changes_are_made_after_a_failed_one() {
    let pair = pair();
    let head = || "right".parse().expect("a name");
    let program = || PathBuf::from("/usr/bin/bulkhead");
    let add = |pool: &str| Change::AddHead {
        head: head(),
        program: program(),
        pool: pool.parse().expect("a name"),
        coming: "middle".to_owned(),
    };
    let attach = |pool: &str, leg: &str| Change::AttachLeg {
        head: head(),
        program: program(),
        pool: pool.parse().expect("a name"),
        beside: "left:/x".to_owned(),
        leg: leg.to_owned(),
    };
    let start = Change::StartUnit {
        head: head(),
        unit: "bulkhead-head.service".to_owned(),
    };
    let pacemaker = Change::ConfigurePacemaker {
        cib: Box::new(desired_of(PAIR).cib),
        changes: Vec::new(),
    };
    let changes = vec![
        add("tank"),
        add("vault"),
        pacemaker,
        start,
        attach("tank", "middle:/z"),
        attach("tank", "right:/y"),
        attach("vault", "middle:/w"),
        attach("vault", "middle:/v"),
    ];
    let plan = Plan {
        changes,
        ..Plan::default()
    };
    pair.right.refuse("add-head", "tank");
    pair.right.refuse("attach", "middle:/w");
    let mut told = Vec::new();
    let refused = apply(&pair.machines, &plan, &mut |change| {
        told.push(change.to_string());
    });
    assert_eq!(
        pair.cluster.lock().expect("not poisoned").log,
        [
            "right: add-head vault middle",
            "right: start bulkhead-head.service",
            "right: attach tank left:/x right:/y",
            "right: attach vault left:/x middle:/v",
        ]
    );
    assert_eq!(told.len(), 6, "{told:?}");
    let said = refused.expect_err("two failed").to_string();
    for part in [
        "2 changes failed: right: add the head middle to the record of tank",
        "right: attach middle:/w to vault",
        "ended with 5: not now",
        "not done because of that: configure Pacemaker; right: attach middle:/z to tank",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // Changes after any other failed change are not made.
    pair.cluster.lock().expect("not poisoned").log.clear();
    let gone = Change::SetWitness {
        head: head(),
        program: program(),
        pool: "tank".parse().expect("a name"),
        witness: None,
    };
    pair.right.refuse_nothing();
    pair.right.refuse("set-witness", "--none");
    let plan = Plan {
        changes: vec![gone, add("vault")],
        ..Plan::default()
    };
    let refused = apply(&pair.machines, &plan, &mut |_| {}).expect_err("refused");
    assert!(matches!(refused, ApplyError::Change { .. }), "{refused}");
    assert!(pair.cluster.lock().expect("not poisoned").log.is_empty());
}

#[test]
fn each_head_gets_its_leg_file_and_change_is_reloaded() {
    const PATH: &str = "/etc/bulkhead/legs.toml";
    let (pair, desired) = (pair(), desired_of(LEGS));
    pair.left.store_pool(1);
    apply_quietly(&pair, &desired).expect("all changes succeed");
    for (name, machine) in [("left", &pair.left), ("right", &pair.right)] {
        let text = machine.file(PATH).expect("written");
        let own = format!("me = \"{name}\"");
        assert!(String::from_utf8_lossy(&text).contains(&own), "{name}");
    }
    assert!(plan_of(&pair, &desired).is_empty());
    pair.cluster.lock().expect("not poisoned").log.clear();
    let changed = desired_of(&LEGS.replace("[legs]\n", "[legs]\nlender_port = 7073\n"));
    apply_quietly(&pair, &changed).expect("all changes succeed");
    let log = pair.cluster.lock().expect("not poisoned").log.clone();
    let restarts: Vec<&String> = log.iter().filter(|line| line.contains("restart")).collect();
    let unit = "bulkhead-leg-server.service";
    assert_eq!(
        restarts,
        [
            &format!("left: restart {unit}"),
            &format!("right: restart {unit}")
        ]
    );
    assert!(plan_of(&pair, &changed).is_empty());
}

fn retired_of(text: &str) -> Retired {
    let appliance = parse(text).expect("well formed").appliance;
    Retired::of(&appliance, &"tank".parse().expect("a name")).expect("described")
}

/// Killed after any of its commands, it is completed by the next run: the pool is stopped before its disks are erased.
#[test]
fn retirement_killed_after_any_command_is_completed_by_next() {
    const OWN: &str = r#"[{"path": "/dev/a", "place": "/dev/a", "bytes": 9, "carries": "the exported pool tank", "pool": "tank"},
        {"path": "/dev/b", "place": "/dev/b", "bytes": 9, "carries": "an XFS file system", "pool": null}]"#;
    let retired = retired_of(LEGS);
    let rest = appliance::without_pool(LEGS, &retired.pool).expect("a table");
    let retire = |pair: &Pair| {
        let actual = observe(&pair.machines, &desired_of(LEGS)).expect("the heads answer");
        cluster::retire::retire(&pair.machines, "bulkhead", &retired, &actual, &mut |_| {})
    };
    for fuse in (0..).step_by(5) {
        let (pair, _) = served();
        pair.left.set_portals("");
        for head in [&pair.left, &pair.right] {
            head.set_disk_inspections(OWN);
        }
        pair.cluster.lock().expect("not poisoned").fuse = Some(fuse);
        let is_killed = catch_unwind(AssertUnwindSafe(|| retire(&pair))).is_err();
        pair.cluster.clear_poison();
        pair.cluster.lock().expect("not poisoned").fuse = None;
        retire(&pair).expect("all steps succeed");
        let log = pair.cluster.lock().expect("not poisoned").log.clone();
        let at = |what: &str| log.iter().position(|line| line.contains(what));
        assert!(at("configure") < at("erase /dev/a"), "{log:?}");
        for once in [
            "left: erase /dev/a",
            "right: erase /dev/a",
            "left: forget the record 1",
        ] {
            let count = log.iter().filter(|line| *line == once).count();
            assert_eq!(count, 1, "{fuse} {once}: {log:?}");
        }
        assert_eq!(at("/dev/b"), None, "it carries other data");
        apply_quietly(&pair, &desired_of(&rest.text)).expect("all changes succeed");
        let cluster = pair.cluster.lock().expect("not poisoned");
        let cib = cluster.cib.as_ref().expect("configured").to_string();
        assert!(
            !cib.contains("pool-tank") && !cib.contains("address-"),
            "{cib}"
        );
        if !is_killed {
            return;
        }
    }
}

/// A disk that does not belong to the pool any more is left alone.
#[test]
fn a_pool_on_shared_disks_is_erased_by_the_head_that_reads_it_first() {
    let (pair, desired) = (pair(), desired_of(PAIR));
    apply_quietly(&pair, &desired).expect("all changes succeed");
    let shared = r#"[{"path": "/dev/a", "place": "/dev/a", "bytes": 9, "carries": "a spare of a pool", "pool": ""}]"#;
    pair.left.set_disk_inspections(shared);
    pair.right.set_disk_inspections("[]");
    let retired = retired_of(PAIR);
    assert_eq!(retired.number, None);
    let actual = observe(&pair.machines, &desired).expect("the heads answer");
    cluster::retire::retire(&pair.machines, "bulkhead", &retired, &actual, &mut |_| {})
        .expect("all steps succeed");
    let log = pair.cluster.lock().expect("not poisoned").log.clone();
    let erased: Vec<&String> = log.iter().filter(|line| line.contains("erase")).collect();
    assert_eq!(erased, ["left: erase /dev/a"]);
    assert!(!log.iter().any(|line| line.contains("record")), "{log:?}");
}
