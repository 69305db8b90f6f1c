//! Runs one list of scenarios on a pool in memory and on one of OpenZFS: the results must be equal, errors by their
//! kinds. Intended simplifications of the engine in memory (see the crate's description) are not compared.

mod scenarios;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use engine::pool::{GroupKind, PoolSpec};
use engine::{Engine, HostId};
use memory_engine::MemoryEngine;
use scenarios::{Bench, Transcript};

/// Size of the disks.
const DISK_BYTES: u64 = 256 << 20;
/// Disks of each scenario, after those of the pool.
const DISKS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The library allows one engine in a process.
fn zfs() -> &'static dyn Engine {
    static ZFS: OnceLock<&'static zpool::Engine> = OnceLock::new();
    let start = || {
        let options = zpool::EngineOptions::new(HostId(NonZeroU32::MIN));
        zpool::Engine::start(options).expect("the engine starts")
    };
    static AS_ONE: OnceLock<Box<dyn Engine>> = OnceLock::new();
    AS_ONE
        .get_or_init(|| Box::new(*ZFS.get_or_init(start)))
        .as_ref()
}

fn perform(
    engine: &dyn Engine,
    dir: &Path,
    name: &str,
    scenario: fn(&mut Bench<'_>),
) -> Vec<String> {
    let disk = |name: &str| dir.join(name);
    let disks = ["a", "b"].map(disk).to_vec();
    let spec = PoolSpec::new(name.parse().expect("a name"), GroupKind::Mirror, disks);
    let pool = engine.create(&spec).expect("a pool");
    let mut bench = Bench {
        engine,
        pool: Some(pool),
        dir: dir.to_owned(),
        told: Transcript::default(),
    };
    scenario(&mut bench);
    if let Some(pool) = bench.pool.take() {
        pool.destroy()
            .map_err(|(_, error)| error)
            .expect("destroyed");
    }
    bench.told.lines
}

/// Performs a scenario on both.
fn compare(name: &str, scenario: fn(&mut Bench<'_>)) {
    let dir = tempfile::tempdir().expect("a dir");
    let memory = MemoryEngine::new();
    for disk in DISKS {
        let path = dir.path().join(disk);
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(DISK_BYTES).expect("its size");
        memory.insert_disk(&path.to_string_lossy(), DISK_BYTES);
    }
    let in_memory = perform(&memory, dir.path(), name, scenario);
    let on_zfs = perform(zfs(), dir.path(), name, scenario);
    let differ: Vec<String> = in_memory
        .iter()
        .zip(&on_zfs)
        .filter(|(memory, zfs)| memory != zfs)
        .map(|(memory, zfs)| format!("memory  {memory}\nOpenZFS {zfs}"))
        .collect();
    assert!(differ.is_empty(), "\n{}", differ.join("\n"));
    assert_eq!(in_memory.len(), on_zfs.len());
    assert!(!in_memory.is_empty());
}

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                compare(stringify!($name), scenarios::$name);
            }
        )*
    };
}

scenarios! {
    the_tree,
    volumes_and_their_sizes,
    properties_and_their_sources,
    snapshots_and_clones,
    promotions,
    rollbacks,
    file_systems,
    quotas_of_users,
    open_volumes,
    keys,
    streams,
    interrupted_streams,
    encrypted_streams,
    devices,
    scrubs,
    owners,
    records,
    room,
}

#[test]
fn discovery_in_a_missing_directory_fails() {
    let place = [PathBuf::from("/nowhere/at/all")];
    for engine in [zfs(), &MemoryEngine::new()] {
        assert!(engine.discover(&place).is_err());
    }
}
