//! Pools of every layout through their whole life cycle, checked by the stock `zdb`.

mod support;

use std::path::Path;

use engine::capabilities::{Devices, Health, Ownership, PoolProperties};
use engine::pool::{
    CandidateState, DeviceState, GroupKind, GroupRole, GroupSpec, ImportOptions, PoolErrorKind,
    PoolSpec, Role, SafeToOwn,
};
use labels::Device;
use support::{Parts, dir, disks, engine, export, isolated, part, sized_disks, tank, wait_until};
use zpool::device::file::{AccessOptions, Way};
use zpool::{Engine, Pool, discover};

fn group(kind: GroupKind, role: GroupRole, names: &[&str]) -> GroupSpec {
    GroupSpec {
        kind,
        role,
        devices: disks(names),
    }
}

/// Creates, exports, finds, opens, checks, exports.
fn live(groups: Vec<GroupSpec>) {
    let engine = engine();
    let devices: usize = groups.iter().map(|group| group.devices.len()).sum();
    let mut spec = PoolSpec::new(tank(), GroupKind::Stripe, Vec::new());
    spec.groups = groups;
    spec.properties = vec![
        ("comment".into(), "for a test".into()),
        ("autotrim".into(), "on".into()),
    ];
    let pool = Pool::create(engine, &spec).expect("create");
    export(pool);

    let found = discover(&[dir()]).expect("discover");
    assert_eq!(found.len(), 1, "{found:?}");
    let candidate = &found[0];
    assert_eq!(candidate.name, "tank");
    assert_eq!(candidate.state, CandidateState::Exported);
    assert_eq!(candidate.host_id, Some(engine.host_id().0.get()));
    assert!(candidate.devices.all.iter().all(|device| device.present));
    let proof = SafeToOwn::exported(candidate).expect("it was exported");
    let pool = Pool::import(engine, candidate, proof, &ImportOptions::default()).expect("import");

    let status = pool.status().expect("status");
    assert_eq!(status.state, DeviceState::Online, "{status:#?}");
    assert_eq!(status.leaves().len(), devices, "{status:#?}");
    assert_eq!(status.advice, Vec::<String>::new());
    assert!(status.size_bytes > 64 << 20);
    assert!(status.features.len() > 30, "{:?}", status.features);
    let properties = pool.properties().expect("properties");
    let value = |name: &str| {
        let found = properties.iter().find(|property| property.name == name);
        found.map(|property| property.value.clone())
    };
    assert_eq!(value("comment").as_deref(), Some("for a test"));
    assert_eq!(value("autotrim").as_deref(), Some("on"));
    assert_eq!(value("feature@async_destroy").as_deref(), Some("enabled"));
    assert_eq!(
        value("feature@spacemap_histogram").as_deref(),
        Some("active")
    );
    assert!(!std::path::Path::new("/etc/zfs/zpool.cache").exists());
    export(pool);
}

macro_rules! shapes {
    ($($name:ident: $groups:expr;)*) => {$(
        #[test]
        fn $name() {
            const TEST: &str = stringify!($name);
            if part().is_some() {
                live($groups);
            } else {
                let parts = Parts::of(TEST);
                parts.pass("all");
                parts.zdb_is_content("tank");
            }
        }
    )*};
}

shapes! {
    stripe_lives_and_zdb_is_content:
        vec![group(GroupKind::Stripe, GroupRole::Data, &["a", "b"])];
    mirror_with_log_cache_and_spare_lives_and_zdb_is_content: vec![
        group(GroupKind::Mirror, GroupRole::Data, &["a", "b"]),
        group(GroupKind::Mirror, GroupRole::Log, &["c", "d"]),
        group(GroupKind::Stripe, GroupRole::Cache, &["e"]),
        group(GroupKind::Stripe, GroupRole::Spare, &["f"]),
    ];
    raidz1_lives_and_zdb_is_content:
        vec![group(GroupKind::Raidz1, GroupRole::Data, &["a", "b", "c"])];
    raidz2_lives_and_zdb_is_content:
        vec![group(GroupKind::Raidz2, GroupRole::Data, &["a", "b", "c", "d"])];
    raidz3_lives_and_zdb_is_content:
        vec![group(GroupKind::Raidz3, GroupRole::Data, &["a", "b", "c", "d", "e"])];
}

#[test]
fn mirror_with_direct_io_works_and_passes_zdb() {
    const TEST: &str = "mirror_with_direct_io_works_and_passes_zdb";
    if part().is_none() {
        let parts = Parts::of(TEST);
        parts.pass("all");
        return parts.zdb_is_content("tank");
    }
    let mut options = support::options();
    options.devices.access = AccessOptions {
        files: Way::Direct,
        disks: Way::Direct,
    };
    let engine = Engine::start(options).expect("start");
    let pool = support::mirror(engine, &disks(&["a", "b"]));
    support::write_sample_data(&pool, 20);
    export(pool);
}

/// The power fails while a root is written: one disk has the first sectors of a root that the other disk never got.
#[test]
fn torn_uberblock_is_no_newer_pool_state() {
    const TEST: &str = "torn_uberblock_is_no_newer_pool_state";
    isolated(TEST, || {
        use std::os::unix::fs::FileExt;
        const RING_OFFSET: u64 = 128 << 10;
        let engine = engine();
        let paths = disks(&["a", "b"]);
        export(support::mirror(engine, &paths));
        let newest = |path: &Path| {
            let device = Device::open(path).expect("open").expect("large enough");
            device.newest_uberblock().expect("an uberblock").txg
        };
        let before = newest(&paths[0]);
        let disk = std::fs::File::options()
            .read(true)
            .write(true)
            .open(&paths[0])
            .expect("opened");
        let mut ring = vec![0; 128 << 10];
        disk.read_exact_at(&mut ring, RING_OFFSET).expect("read");
        let group = |at: usize| u64::from_le_bytes(ring[at + 16..at + 24].try_into().expect("8"));
        let slots = (0..ring.len()).step_by(4096);
        let (oldest, from) = (
            slots.clone().min_by_key(|at| group(*at)).expect("slots"),
            slots.max_by_key(|at| group(*at)).expect("slots"),
        );
        let mut cut_off = ring[from..from + 512].to_vec();
        cut_off[16..24].copy_from_slice(&(before + 40).to_le_bytes());
        disk.write_all_at(&cut_off, RING_OFFSET + oldest as u64)
            .expect("written");
        assert_eq!(newest(&paths[0]), before);

        let found = discover(&[dir()]).expect("discover");
        let proof = SafeToOwn::exported(&found[0]).expect("exported");
        let pool =
            Pool::import(engine, &found[0], proof, &ImportOptions::default()).expect("import");
        export(pool);
    });
}

/// Clients wait for each transaction group, and each is some flushes of all disks.
#[test]
fn import_stores_the_owner_in_its_first_txg() {
    const TEST: &str = "import_stores_the_owner_in_its_first_txg";
    isolated(TEST, || {
        let engine = engine();
        let paths = disks(&["a", "b"]);
        export(support::mirror(engine, &paths));
        let open = |path| Device::open(path).expect("open").expect("large enough");
        let newest = |path| open(path).newest_uberblock().expect("an uberblock").txg;
        let last = paths.iter().map(|path| newest(path)).max().expect("disks");

        let found = discover(&[dir()]).expect("discover");
        let proof = SafeToOwn::exported(&found[0]).expect("exported");
        let pool =
            Pool::import(engine, &found[0], proof, &ImportOptions::default()).expect("import");
        let synced = pool.health().map(|health| health.synced_txg);
        assert_eq!(synced, Some(last + 1));
        for path in &paths {
            let label = open(path).newest_label().expect("a label");
            let host = Some(engine.host_id().0.get());
            assert_eq!((label.txg, label.host_id), (last + 1, host), "{label:?}");
            assert_eq!(label.state, labels::LabelState::Active);
        }
        export(pool);
    });
}

#[test]
fn spares_and_caches_are_listed_after_an_import() {
    isolated("spares_and_caches_are_listed_after_an_import", || {
        let engine = engine();
        let mut spec = PoolSpec::new(tank(), GroupKind::Mirror, disks(&["a", "b"]));
        spec.groups
            .push(group(GroupKind::Stripe, GroupRole::Cache, &["c"]));
        spec.groups
            .push(group(GroupKind::Stripe, GroupRole::Spare, &["d"]));
        export(Pool::create(engine, &spec).expect("create"));
        let found = discover(&[dir()]).expect("discover");
        let proof = SafeToOwn::exported(&found[0]).expect("exported");
        let pool =
            Pool::import(engine, &found[0], proof, &ImportOptions::default()).expect("import");
        let status = pool.status().expect("status");
        let role = |role| {
            status
                .leaves()
                .iter()
                .filter(|leaf| leaf.role == role)
                .count()
        };
        assert_eq!(
            (role(Role::Cache), role(Role::Spare)),
            (1, 1),
            "{status:#?}"
        );
        assert!(
            pool.health()
                .is_some_and(|health| health.suspended.is_none())
        );
        export(pool);
    });
}

#[test]
fn destroyed_pool_is_reported_as_such_and_frees_its_devices() {
    isolated(
        "destroyed_pool_is_reported_as_such_and_frees_its_devices",
        || {
            let engine = engine();
            let devices = disks(&["a", "b"]);
            let pool = support::mirror(engine, &devices);
            pool.destroy().map_err(|(_, error)| error).expect("destroy");
            let found = discover(&[dir()]).expect("discover");
            assert_eq!(found[0].state, CandidateState::Destroyed);
            assert!(SafeToOwn::exported(&found[0]).is_none());
            export(support::mirror(engine, &devices));
        },
    );
}

/// From an active owner, from one that exported the pool, and through the import that follows.
#[test]
fn label_note_is_readable_before_the_import() {
    const NOTE: &str = "10.77.1.100:3260 10.77.1.9 40000,40002;";
    isolated("label_note_is_readable_before_the_import", || {
        let engine = engine();
        let pool = support::mirror(engine, &disks(&["a", "b"]));
        let candidate = || discover(&[dir()]).expect("discover").remove(0);
        assert_eq!(candidate().note, None);
        let note = |pool: &Pool, text: &str| {
            pool.leave_note(text).expect("noted");
            pool.sync().expect("synced");
        };
        note(&pool, NOTE);
        assert_eq!(candidate().note.as_deref(), Some(NOTE));
        export(pool);
        let found = candidate();
        assert_eq!(found.note.as_deref(), Some(NOTE));
        let proof = SafeToOwn::exported(&found).expect("exported");
        let pool = Pool::import(engine, &found, proof, &ImportOptions::default());
        let pool = pool.expect("import");
        assert_eq!(candidate().note.as_deref(), Some(NOTE));
        // A note that might prevent the label from being written is omitted.
        let txg = candidate().devices.legs.newest_txg;
        note(&pool, &"x".repeat(70_000));
        assert_eq!(candidate().note, None);
        assert!(candidate().devices.legs.newest_txg > txg);
        note(&pool, "");
        assert_eq!(candidate().note, None);
        export(pool);
    });
}

#[test]
fn pool_imported_under_a_new_name_keeps_it() {
    isolated("pool_imported_under_a_new_name_keeps_it", || {
        let engine = engine();
        export(support::mirror(engine, &disks(&["a", "b"])));
        let found = discover(&[dir()]).expect("discover");
        let proof = SafeToOwn::exported(&found[0]).expect("exported");
        let options = ImportOptions {
            rename: Some("other".parse().expect("name")),
            ..ImportOptions::default()
        };
        export(Pool::import(engine, &found[0], proof, &options).expect("import"));
        assert_eq!(discover(&[dir()]).expect("discover")[0].name, "other");
    });
}

#[test]
fn readonly_pool_refuses_changes() {
    isolated("readonly_pool_refuses_changes", || {
        let engine = engine();
        export(support::mirror(engine, &disks(&["a", "b"])));
        let found = discover(&[dir()]).expect("discover");
        let proof = SafeToOwn::exported(&found[0]).expect("exported");
        let options = ImportOptions {
            read_only: true,
            ..ImportOptions::default()
        };
        let pool = Pool::import(engine, &found[0], proof, &options).expect("import");
        let error = pool
            .set_properties(&[("comment".into(), "x".into())])
            .expect_err("read-only");
        assert_eq!(error.kind, PoolErrorKind::ReadOnly);
        export(pool);
    });
}

/// No label describes a removed group. A start that treated it as late devices would wait for them each time.
#[test]
fn import_does_not_wait_for_a_removed_vdev() {
    const TEST: &str = "import_does_not_wait_for_a_removed_vdev";
    if part().is_none() {
        let parts = Parts::of(TEST);
        parts.pass("all");
        return parts.zdb_is_content("tank");
    }
    let engine = engine();
    let devices = sized_disks(&["a", "b"], 512 << 20);
    let spec = PoolSpec::new(tank(), GroupKind::Stripe, devices.clone());
    let pool = Pool::create(engine, &spec).expect("create");
    let removed = devices[0].to_str().expect("UTF-8");
    pool.remove(removed).expect("remove");
    wait_until("the group is empty", || {
        pool.status().expect("status").find(removed).is_none()
    });
    pool.sync().expect("sync");
    export(pool);
    let found = discover(&[dir()]).expect("discover");
    let candidate = found.iter().find(|one| one.name == "tank").expect("found");
    assert_eq!(candidate.devices.legs.groups_missing, 0);
    assert!(candidate.devices.legs.is_enough());
    let proof = SafeToOwn::exported(candidate).expect("it was exported");
    let pool = Pool::import(engine, candidate, proof, &ImportOptions::default()).expect("import");
    assert_eq!(pool.status().expect("status").state, DeviceState::Online);
    export(pool);
}
