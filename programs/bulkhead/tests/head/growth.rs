//! The growth of a pool: the plan of each change compared with the bytes that really move, the progress of long work,
//! and the history of fill.

use crate::common::nbd::Nbd;
use crate::common::{TestHost, eventually};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
const DISK_BYTES: u64 = 512 * MIB;
/// Data in the pool.
const WRITTEN_MIB: u64 = 96;
/// The transaction groups during a copy write metadata, too.
const METADATA_BYTES_MAX: u64 = 24 * MIB;
/// A prediction is exact to this part.
const TOLERANCE_PERCENT: u64 = 10;

/// A pool of this layout with [`WRITTEN_MIB`] of incompressible data in an exported volume.
fn machine(layout: &str) -> TestHost {
    let machine = TestHost::with_disks(&[]);
    for name in ["a", "b", "c", "d"] {
        machine.add_disk(name, DISK_BYTES);
    }
    machine.ok(&format!("pool create tank {layout}"));
    machine.ok("volume create tank/v --size 200M --sparse --block-size 64K");
    machine.ok("nbd export tank/v --name v");
    machine
}

fn fill(machine: &TestHost) {
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    for number in 0..WRITTEN_MIB {
        let data = noise(number + 1);
        client.write(number * MIB, &data).expect("written");
    }
    client.flush().expect("flushed");
    drop(client);
    // The space of blocks is known when their transaction group is on disk.
    eventually("the data is allocated", || {
        status(machine)["allocated"].as_u64() >= Some(WRITTEN_MIB * MIB)
    });
}

/// Incompressible.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    });
    let words = words.take(MIB as usize / 8);
    words.flat_map(u64::to_le_bytes).collect()
}

fn status(machine: &TestHost) -> Value {
    machine.ok("pool status tank --json").json()
}

fn plan(machine: &TestHost, change: &str) -> Value {
    machine
        .ok(&format!("pool plan tank {change} --json"))
        .json()
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("not a number: {value}"))
}

/// Bytes written to each device so far, by the last part of its name.
fn written(machine: &TestHost, device: &str) -> u64 {
    fn find<'a>(load: &'a Value, device: &str) -> Option<&'a Value> {
        let name = load["name"].as_str().unwrap_or_default();
        if name.rsplit('/').next() == Some(device) {
            return Some(load);
        }
        let members = load["members"].as_array()?;
        members.iter().find_map(|member| find(member, device))
    }
    let load = machine.ok("pool iostat tank --json").json();
    find(&load["whole"], device).map_or(0, |found| number(&found["written_bytes"]))
}

/// The bytes that the plan writes to a device.
fn planned(plan: &Value, device: &str) -> u64 {
    let moves = plan["moves"].as_array().expect("a list");
    let is_it = |one: &&Value| {
        let name = one["device"].as_str().expect("a name");
        name.rsplit('/').next() == Some(device)
    };
    let moves = moves.iter().filter(is_it);
    moves.map(|one| number(&one["written"])).sum()
}

fn is_close(predicted: u64, measured: u64) -> bool {
    let part = predicted * TOLERANCE_PERCENT / 100;
    measured >= predicted - part && measured <= predicted + part + METADATA_BYTES_MAX
}

#[test]
fn removal_writes_the_planned_bytes_to_the_remaining_devices() {
    let machine = machine("mirror a b mirror c d");
    let _server = machine.serve("");
    fill(&machine);
    let plan = plan(&machine, "remove mirror-1");
    assert_eq!(plan["refused"], Value::Null, "{plan}");
    let predicted = planned(&plan, "a");
    assert_eq!(predicted, number(&plan["total"]), "{plan}");
    assert!(predicted > WRITTEN_MIB * MIB / 4, "{plan}");
    let before = written(&machine, "a");
    machine.ok("pool remove tank mirror-1");
    eventually("the group has left", || {
        let status = status(&machine);
        status["devices"]
            .as_array()
            .is_some_and(|all| all.len() == 1)
            && status["work"].is_null()
    });
    let moved = written(&machine, "a") - before;
    assert!(
        is_close(predicted, moved),
        "{predicted} planned, {moved} written"
    );
    let usable = number(&status(&machine)["space"]["usable"]);
    let expected = number(&plan["usable_after"]);
    assert!(
        usable.abs_diff(expected) < DISK_BYTES / 10,
        "{usable} of {expected}"
    );
    let again = self::plan(&machine, "remove mirror-0");
    let refused = again["refused"].as_str().expect("a reason");
    assert!(refused.contains("the only group of data"), "{refused}");
}

#[test]
fn replacement_writes_the_planned_bytes_to_the_new_device() {
    for (layout, share) in [("mirror a b", 1), ("raidz1 a b c", 2)] {
        let machine = machine(layout);
        machine.add_disk("n", DISK_BYTES);
        let _server = machine.serve("");
        fill(&machine);
        let plan = plan(&machine, "replace b n");
        assert_eq!(plan["refused"], Value::Null, "{plan}");
        assert_eq!(
            plan["duration_s"],
            Value::Null,
            "nothing was measured: {plan}"
        );
        let predicted = planned(&plan, "n");
        assert!(predicted >= WRITTEN_MIB * MIB / share, "{layout}: {plan}");
        machine.ok("pool replace-disk tank b --with n --yes");
        let moved = written(&machine, "n");
        assert!(
            is_close(predicted, moved),
            "{layout}: {predicted} planned, {moved} written"
        );
    }
}

#[test]
fn raidz_expansion_writes_the_planned_bytes_and_reaches_the_planned_size() {
    let machine = machine("raidz1 a b c");
    let _server = machine.serve("");
    fill(&machine);
    let refused = plan(&machine, "attach a d");
    let refused = refused["refused"].as_str().expect("a reason");
    assert!(refused.contains("name the group"), "{refused}");
    let plan = plan(&machine, "attach raidz1-0 d");
    assert_eq!(plan["refused"], Value::Null, "{plan}");
    let predicted = ["a", "b", "c", "d"].map(|device| planned(&plan, device));
    let before = ["a", "b", "c", "d"].map(|device| written(&machine, device));
    let expected = number(&plan["groups"][0]["size_after"]);
    machine.ok("pool attach tank raidz1-0 d");
    eventually("the group is larger", || {
        let status = status(&machine);
        let size = number(&status["devices"][0]["size"]);
        size.abs_diff(expected) < expected / 10 && status["work"].is_null()
    });
    for (at, device) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let moved = written(&machine, device) - before[at];
        assert!(
            is_close(predicted[at], moved),
            "{device}: {} planned, {moved} written",
            predicted[at]
        );
    }
    let removal = self::plan(&machine, "remove raidz1-0");
    let refused = removal["refused"].as_str().expect("a reason");
    assert!(refused.contains("no group of such a pool"), "{refused}");
    machine.refused(
        "pool remove tank raidz1-0",
        2,
        "not possible with this pool",
    );
}

#[test]
fn devices_of_another_pool_or_too_small_ones_are_refused_by_the_plan_as_by_the_change() {
    let machine = machine("mirror a b");
    machine.add_disk("small", 64 * MIB);
    machine.ok("pool create other c");
    machine.ok("pool export other --in-use");
    let _server = machine.serve("");
    for (change, part) in [
        ("add mirror c d", "--overwrite-old-labels"),
        ("add d", "--mismatched"),
        ("attach a small", "choose a larger device"),
        ("replace a small", "choose a larger device"),
        ("attach a c", "--overwrite-old-labels"),
        ("replace a c", "--overwrite-old-labels"),
        ("remove a", "detach"),
    ] {
        let plan = plan(&machine, change);
        let refused = plan["refused"].as_str().unwrap_or_default();
        assert!(refused.contains(part), "{change}: {plan}");
    }
    for change in ["attach a", "remove a b", "expand a b", "replace a"] {
        machine.refused(
            &format!("pool plan tank {change}"),
            2,
            "write `pool plan tank",
        );
    }
    let spare = plan(&machine, "add spare d");
    assert_eq!(
        (&spare["refused"], &spare["total"]),
        (&Value::Null, &json!(0))
    );
}

/// A pool that is open read-only does not count the data of its groups.
#[test]
fn plan_of_an_unserved_pool_names_the_command_that_serves_it() {
    let machine = machine("mirror a b");
    for change in ["add mirror c d", "replace b c", "remove mirror-0"] {
        let words = format!("pool plan tank {change}");
        machine.refused(&words, 7, "pool tank is not served");
        machine.refused(&words, 7, "`bulkhead pool-server tank`");
    }
    let values = machine.ok("pool get tank allocated,free,size").out;
    let value = |name: &str| {
        let line = values.lines().find(|line| line.starts_with(name));
        let mut words = line.unwrap_or_default().split_whitespace();
        words.nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(
        (value("allocated"), value("free")),
        ("-".into(), "-".into())
    );
    assert_ne!(value("size"), "-", "{values}");
}

#[test]
fn running_scrub_is_shown_with_bytes_rate_and_remaining_time_and_measures_the_next_plan() {
    let machine = machine("mirror a b");
    let _server = machine.serve("");
    fill(&machine);
    machine.ok("pool copy-rate tank 4M");
    machine.ok("pool scrub tank");
    eventually("its rate is known", || {
        let work = status(&machine)["work"][0].clone();
        let is_measured = work["bytes_per_s"].is_u64() && work["remaining_s"].is_u64();
        is_measured && work["kind"] == "scrub" && work["done"].as_u64() < work["total"].as_u64()
    });
    let text = machine.ok("pool status tank").out;
    assert!(text.contains("work:     scrub running, "), "{text}");
    let measured = plan(&machine, "replace b c");
    assert_eq!(measured["rate"]["measured_by"], "scrub", "{measured}");
    assert!(number(&measured["duration_s"]) > 0, "{measured}");
    machine.ok("pool copy-rate tank unlimited");
    eventually("it ends", || status(&machine)["work"].is_null());
}

#[test]
fn growth_is_shown_with_a_date_and_refused_without_a_history() {
    let machine = machine("mirror a b");
    machine.refused("pool growth tank", 3, "no history");
    let guid = status(&machine)["guid"]
        .as_str()
        .expect("a number")
        .to_owned();
    let now_s = std::time::UNIX_EPOCH
        .elapsed()
        .expect("after 1970")
        .as_secs();
    let days: serde_json::Map<String, Value> = (0..20)
        .map(|ago: u64| {
            let at = now_s - ago * 86_400;
            let sample = json!({"at": at, "used": (50 - ago) << 30, "usable": 100_u64 << 30, "groups": {"mirror-0": [1, 2]}});
            ((at / 86_400).to_string(), sample)
        })
        .collect();
    let stored = json!({"version": 1, "history": {"pool": "tank", "hours": {}, "days": days}});
    std::fs::create_dir_all(machine.path("state/fill")).expect("a directory");
    let path = machine.path(&format!("state/fill/{guid}.json"));
    std::fs::write(path, stored.to_string()).expect("written");
    let text = machine.ok("pool growth tank --days 7").out;
    assert!(text.contains("tank: full in 50 days"), "{text}");
    assert!(text.contains("mirror-0 50 %"), "{text}");
    let view = machine.ok("pool growth tank --json").json();
    assert_eq!(
        view["forecast"]["bytes_per_day"],
        json!(1_u64 << 30),
        "{view}"
    );
    assert_eq!(view["days"].as_array().map(Vec::len), Some(20), "{view}");
}
