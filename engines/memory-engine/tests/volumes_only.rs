//! The scenarios on an engine without any optional capability: the answers are those of the engine in memory with all of them,
//! up to the first step that demands one.

mod scenarios;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use engine::pool::{GroupKind, PoolSpec};
use engine::{Capability, Unsupported};
use memory_engine::MemoryEngine;
use scenarios::{Bench, OF_DEVICES, Transcript};

const DISK_BYTES: u64 = 256 << 20;
const DISKS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

type Scenario = fn(&mut Bench<'_>);

/// Each scenario with the capability that it demands first; none if it is performed to its end.
const ENDS: &[(&str, Scenario, Option<Capability>)] = &[
    (
        "the_tree",
        scenarios::the_tree,
        Some(Capability::FileSystems),
    ),
    (
        "volumes_and_their_sizes",
        scenarios::volumes_and_their_sizes,
        Some(Capability::FileSystems),
    ),
    (
        "properties_and_their_sources",
        scenarios::properties_and_their_sources,
        None,
    ),
    (
        "snapshots_and_clones",
        scenarios::snapshots_and_clones,
        None,
    ),
    (
        "promotions",
        scenarios::promotions,
        Some(Capability::Sending),
    ),
    ("rollbacks", scenarios::rollbacks, Some(Capability::Sending)),
    (
        "file_systems",
        scenarios::file_systems,
        Some(Capability::FileSystems),
    ),
    (
        "quotas_of_users",
        scenarios::quotas_of_users,
        Some(Capability::FileSystems),
    ),
    (
        "open_volumes",
        scenarios::open_volumes,
        Some(Capability::FileSystems),
    ),
    ("keys", scenarios::keys, Some(Capability::Keys)),
    ("streams", scenarios::streams, Some(Capability::Sending)),
    (
        "interrupted_streams",
        scenarios::interrupted_streams,
        Some(Capability::Sending),
    ),
    (
        "encrypted_streams",
        scenarios::encrypted_streams,
        Some(Capability::Keys),
    ),
    ("devices", scenarios::devices, Some(Capability::Devices)),
    ("scrubs", scenarios::scrubs, Some(Capability::Upkeep)),
    ("owners", scenarios::owners, None),
    ("records", scenarios::records, Some(Capability::Devices)),
    ("room", scenarios::room, None),
];

/// The answers, and the capability that was missing.
fn perform(
    engine: &MemoryEngine,
    name: &str,
    scenario: fn(&mut Bench<'_>),
) -> (Vec<String>, Option<Unsupported>) {
    let dir = Path::new("/disks");
    for disk in DISKS {
        engine.insert_disk(&dir.join(disk).to_string_lossy(), DISK_BYTES);
    }
    let disks = ["a", "b"].map(|disk| dir.join(disk)).to_vec();
    let spec = PoolSpec::new(name.parse().expect("a name"), GroupKind::Mirror, disks);
    let pool = engine::Engine::create(engine, &spec).expect("a pool");
    let mut bench = Bench {
        engine,
        pool: Some(pool),
        dir: dir.to_owned(),
        told: Transcript::default(),
    };
    let ended = catch_unwind(AssertUnwindSafe(|| scenario(&mut bench)));
    let missing = ended.err().map(|thrown| match thrown.downcast() {
        Ok(missing) => *missing,
        Err(other) => std::panic::resume_unwind(other),
    });
    (bench.told.lines, missing)
}

#[test]
fn volumes_only_engine_behaves_alike_until_a_capability_is_needed() {
    let mut steps = 0;
    for (name, scenario, ends_at) in ENDS {
        let (mut whole, missing) = perform(&MemoryEngine::new(), name, *scenario);
        assert_eq!(missing, None, "{name}");
        whole.retain(|line| !line.starts_with(OF_DEVICES));
        let (answers, missing) = perform(&MemoryEngine::volumes_only(), name, *scenario);
        let demanded = missing.map(|missing| missing.capability);
        assert_eq!(demanded, *ends_at, "{name}");
        let whole = match demanded {
            None => &whole[..],
            Some(_) => &whole[..answers.len()],
        };
        assert_eq!(answers, whole, "{name}");
        steps += answers.len();
    }
    assert!(steps > 200, "{steps} answers were compared");
}

#[test]
fn volumes_only_pool_reports_missing_capabilities_in_one_sentence() {
    let engine = MemoryEngine::volumes_only();
    for disk in ["/disks/a", "/disks/b"] {
        engine.insert_disk(disk, DISK_BYTES);
    }
    let disks = ["/disks/a", "/disks/b"].map(Into::into).to_vec();
    let spec = PoolSpec::new("tank".parse().expect("a name"), GroupKind::Mirror, disks);
    let pool = engine::Engine::create(&engine, &spec).expect("a pool");
    for capability in Capability::ALL {
        assert!(!pool.has(*capability), "{capability:?}");
    }
    let missing = pool.devices().err().expect("it has no devices");
    assert_eq!(
        missing.to_string(),
        "pool tank is kept by the engine in memory for volumes only, which has no devices: use the tools of the storage below it"
    );
    let status = pool.status().expect("its status");
    assert!(status.devices.is_empty() && status.features.is_empty() && status.scan.is_none());
}
