//! The scenarios of the engine in memory on shelves of a real cluster: the results are the same, up to the first step
//! that demands an optional capability, except for the listed differences.

#[path = "../../memory-engine/tests/scenarios/mod.rs"]
mod scenarios;
mod support;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use engine::pool::{GroupKind, PoolSpec};
use engine::{Capability, Engine, Pool, Unsupported};
use memory_engine::MemoryEngine;
use scenarios::{Bench, OF_DEVICES, Transcript};

const DISK_BYTES: u64 = 256 << 20;

type Scenario = fn(&mut Bench<'_>);

/// Each scenario with the capability that it demands first, none if it is performed to its end, and the pool of RADOS.
const ENDS: &[(&str, Scenario, Option<Capability>, &str)] = &[
    (
        "the_tree",
        scenarios::the_tree,
        Some(Capability::FileSystems),
        "rbd",
    ),
    (
        "volumes_and_their_sizes",
        scenarios::volumes_and_their_sizes,
        Some(Capability::FileSystems),
        "rbd",
    ),
    (
        "properties_and_their_sources",
        scenarios::properties_and_their_sources,
        None,
        "rbd",
    ),
    (
        "snapshots_and_clones",
        scenarios::snapshots_and_clones,
        None,
        "rbd",
    ),
    (
        "promotions",
        scenarios::promotions,
        Some(Capability::Sending),
        "rbd",
    ),
    (
        "rollbacks",
        scenarios::rollbacks,
        Some(Capability::Sending),
        "rbd",
    ),
    (
        "file_systems",
        scenarios::file_systems,
        Some(Capability::FileSystems),
        "rbd",
    ),
    (
        "quotas_of_users",
        scenarios::quotas_of_users,
        Some(Capability::FileSystems),
        "rbd",
    ),
    (
        "open_volumes",
        scenarios::open_volumes,
        Some(Capability::FileSystems),
        "rbd",
    ),
    ("keys", scenarios::keys, Some(Capability::Keys), "rbd"),
    (
        "streams",
        scenarios::streams,
        Some(Capability::Sending),
        "rbd",
    ),
    (
        "interrupted_streams",
        scenarios::interrupted_streams,
        Some(Capability::Sending),
        "rbd",
    ),
    (
        "encrypted_streams",
        scenarios::encrypted_streams,
        Some(Capability::Keys),
        "rbd",
    ),
    (
        "devices",
        scenarios::devices,
        Some(Capability::Devices),
        "rbd",
    ),
    ("scrubs", scenarios::scrubs, Some(Capability::Upkeep), "rbd"),
    ("owners", scenarios::owners, None, "rbd"),
    (
        "records",
        scenarios::records,
        Some(Capability::Devices),
        "rbd",
    ),
    ("room", scenarios::room, None, "small"),
];

/// Native properties that RBD does not have: each is refused by its name, and absent.
const PROPERTIES_OF_ZFS: [&str; 7] = [
    "compression",
    "copies",
    "sync",
    "checksum",
    "quota",
    "refquota",
    "reservation",
];

/// The other differences on purpose: a scenario, and a line of each engine. The description of the crate has the reasons:
/// a request with `compression` is refused as a whole, and a shelf has no devices.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "properties_and_their_sources",
        "set above: done",
        "set above: refused: Property compression",
    ),
    (
        "properties_and_their_sources",
        "property user:above: dir from properties_and_their_sources",
        "property user:above: absent",
    ),
    (
        "properties_and_their_sources",
        "all of the users: {\"properties_and_their_sources\": {\"user:above\": \"dir\"}, \"properties_and_their_sources/v\": {\"user:b\": \"2\"}}",
        "all of the users: {\"properties_and_their_sources/v\": {\"user:b\": \"2\"}}",
    ),
    (
        "owners",
        "create a pool of its disks: refused: DeviceInPool",
        "create a pool of its disks: refused: Shape",
    ),
    (
        "owners",
        "create a pool of its disks, overwritten: refused: Busy",
        "create a pool of its disks, overwritten: refused: Shape",
    ),
    (
        "owners",
        "create a pool of missing disks: refused: DeviceMissing",
        "create a pool of missing disks: refused: Shape",
    ),
    (
        "owners",
        "create a pool of one disk twice: refused: DeviceUnusable",
        "create a pool of one disk twice: refused: Shape",
    ),
    (
        "owners",
        "create a pool of others: created",
        "create a pool of others: refused: Shape",
    ),
    (
        "owners",
        "create a pool of exported disks: refused: DeviceInPool",
        "create a pool of exported disks: refused: Shape",
    ),
    ("owners", "overwrite: created", "overwrite: refused: Shape"),
    ("owners", "it is gone: true", "it is gone: false"),
];

/// Whether a line is about a property that RBD does not have, and reports that.
fn is_missing_property(ceph: &str) -> bool {
    PROPERTIES_OF_ZFS.iter().any(|name| {
        let steps = [format!("set {name} "), format!("inherit {name}:")];
        let is_refused = steps.iter().any(|step| ceph.starts_with(step))
            && ceph.ends_with(&format!(": refused: Property {name}"));
        is_refused || ceph == format!("property {name}: absent")
    })
}

/// The results, and the capability that was missing.
fn perform(
    engine: &dyn Engine,
    pool: Box<dyn Pool>,
    dir: PathBuf,
    scenario: Scenario,
) -> (Vec<String>, Option<Unsupported>) {
    let mut bench = Bench {
        engine,
        pool: Some(pool),
        dir,
        told: Transcript::default(),
    };
    let ended = catch_unwind(AssertUnwindSafe(|| scenario(&mut bench)));
    let missing = ended.err().map(|thrown| match thrown.downcast() {
        Ok(missing) => *missing,
        Err(other) => std::panic::resume_unwind(other),
    });
    if let Some(pool) = bench.pool.take() {
        pool.destroy()
            .map_err(|(_, error)| error)
            .expect("destroyed");
    }
    (bench.told.lines, missing)
}

fn in_memory(name: &str, scenario: Scenario) -> Vec<String> {
    let (engine, dir) = (MemoryEngine::volumes_only(), Path::new("/disks"));
    for disk in ["a", "b", "c", "d", "e", "f"] {
        engine.insert_disk(&dir.join(disk).to_string_lossy(), DISK_BYTES);
    }
    let disks = ["a", "b"].map(|disk| dir.join(disk)).to_vec();
    let spec = PoolSpec::new(name.parse().expect("a name"), GroupKind::Mirror, disks);
    let pool = Engine::create(&engine, &spec).expect("a pool");
    perform(&engine, pool, dir.to_owned(), scenario).0
}

#[test]
#[ignore = "needs a cluster: python3 -m proof.ceph"]
fn scenarios_on_a_cluster_have_the_results_of_the_engine_in_memory() {
    let locks = tempfile::tempdir().expect("a directory");
    let host = MemoryEngine::volumes_only().host_id().0.get();
    let (mut wrong, mut steps, mut seen) = (Vec::new(), 0, BTreeSet::new());
    for (name, scenario, ends_at, rados_pool) in ENDS {
        let expected = in_memory(name, *scenario);
        let engine = support::engine(host, locks.path(), None);
        let namespace = support::fresh(&name.replace('_', "-"));
        let pool = engine
            .create(&support::spec(name, rados_pool, &namespace))
            .expect("a shelf");
        let (lines, missing) = perform(&engine, pool, support::conf(), *scenario);
        support::destroy_left(&engine, &namespace);
        let demanded = missing.map(|missing| missing.capability);
        if demanded != *ends_at || lines.len() != expected.len() {
            wrong.push(format!(
                "{name}: {} of {} lines, then {demanded:?}",
                lines.len(),
                expected.len()
            ));
        }
        for (memory, ceph) in expected
            .iter()
            .zip(&lines)
            .filter(|(memory, _)| !memory.starts_with(OF_DEVICES))
        {
            steps += 1;
            let difference = (*name, memory.as_str(), ceph.as_str());
            match DIFFERENCES.iter().position(|one| *one == difference) {
                Some(index) => drop(seen.insert(index)),
                None if memory == ceph || is_missing_property(ceph) => {}
                None => wrong.push(format!("{name}\n  memory {memory}\n  ceph   {ceph}")),
            }
        }
    }
    let unseen = (0..DIFFERENCES.len()).filter(|index| !seen.contains(index));
    wrong.extend(unseen.map(|index| format!("not seen: {:?}", DIFFERENCES[index])));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(steps > 200, "{steps} results were compared");
}
