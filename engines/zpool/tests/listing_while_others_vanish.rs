//! A listing encounters datasets that are destroyed concurrently, as replication does after every stream.

mod volume_support;

use std::sync::atomic::{AtomicUsize, Ordering};

use engine::capabilities::{Datasets, FileSystems, Snapshotting};
use engine::dataset::{Depth, Snapshots, VolumeSpec};
use units::{ByteCount, SnapshotName};
use volume_support::{Scratch, volume_name};

const MIB: u64 = 1 << 20;
const STAYS: &str = "tank/stays";
const DESTROYERS: usize = 8;
const DESTROYED_EACH: usize = 40;

#[test]
fn listing_omits_concurrently_destroyed_datasets() {
    let scratch = Scratch::new(256 * MIB);
    let pool = &scratch.pool;
    let sparse = |name: &str| VolumeSpec::sparse(volume_name(name), ByteCount(MIB));
    let at_least = |names: &[&str]| {
        for snapshots in [Snapshots::Include, Snapshots::Skip] {
            let found = pool.datasets((&volume_name(names[0])).into(), snapshots);
            let found = found.expect("an existing dataset is listed");
            for name in names {
                let times = found.iter().filter(|info| info.name == *name).count();
                assert_eq!(times, 1, "{name} in {found:?}");
            }
        }
    };
    let too = sparse("tank/stays/too");
    pool.create_parents(&too.name).expect("created");
    pool.create_volume(&too).expect("created");
    let destroyers = AtomicUsize::new(DESTROYERS);
    let at_work = || destroyers.load(Ordering::Acquire) > 0;
    let make_and_destroy = &|at: usize| {
        for n in 0..DESTROYED_EACH {
            let name = volume_name(&format!("{STAYS}/goes{at}-{n}"));
            pool.create_volume(&sparse(name.as_str())).expect("created");
            let snapshot: SnapshotName = format!("{name}@s").parse().expect("a name");
            pool.snapshot(&[snapshot]).expect("taken");
            pool.destroy_dataset(&name, Depth::Recursive)
                .expect("destroyed");
        }
        destroyers.fetch_sub(1, Ordering::AcqRel);
    };
    std::thread::scope(|threads| {
        for at in 0..DESTROYERS {
            threads.spawn(move || make_and_destroy(at));
        }
        while at_work() {
            at_least(&[STAYS, "tank/stays/too"]);
            let only = pool.datasets((&volume_name(STAYS)).into(), Snapshots::Only);
            only.expect("an existing dataset is listed");
        }
    });
    let gone = pool.datasets((&volume_name("tank/gone")).into(), Snapshots::Skip);
    assert!(gone.is_err(), "{gone:?}");
}

#[test]
fn listing_of_snapshots_only_is_equal_in_what_it_knows() {
    let scratch = Scratch::new(256 * MIB);
    let pool = &scratch.pool;
    let below = volume_name("tank/vms");
    for name in ["tank/vms/a", "tank/vms/b/c", "tank/other"] {
        let spec = VolumeSpec::sparse(volume_name(name), ByteCount(MIB));
        pool.create_parents(&spec.name).expect("created");
        pool.create_volume(&spec).expect("created");
        for tag in ["first", "second"] {
            let snapshot: SnapshotName = format!("{name}@{tag}").parse().expect("a name");
            pool.snapshot(&[snapshot]).expect("taken");
        }
    }
    let known = |snapshots| -> Vec<_> {
        let found = pool.datasets((&below).into(), snapshots).expect("listed");
        let found = found.into_iter().filter(|info| info.snapshot);
        found
            .map(|info| {
                let created = (info.creation_txg, info.creation_time_s);
                (info.name, info.guid, created, info.used, info.referenced)
            })
            .collect()
    };
    let only = known(Snapshots::Only);
    assert_eq!(only, known(Snapshots::Include));
    let names: Vec<&str> = only.iter().map(|one| one.0.as_str()).collect();
    let expected = ["a@first", "a@second", "b/c@first", "b/c@second"];
    assert_eq!(names, expected.map(|name| format!("tank/vms/{name}")));
    let missing = pool.datasets((&volume_name("tank/gone")).into(), Snapshots::Only);
    assert!(missing.is_err(), "{missing:?}");
}
