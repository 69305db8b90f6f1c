//! Quotas of users, groups and projects: durable on return, stored as a kernel stores them, and enforced.

mod support;

use engine::OpenFileSystem;
use engine::capabilities::{FileSystems, Ownership, Properties};
use engine::dataset::{DatasetRef, FileSystemSpec, Value};
use file_system::{
    FileError, FileSystem, Identity, Make, Measure, Owner, OwnerKind, OwnerSpace, Quota,
    SetAttributes,
};
use support::accounting::objects;
use support::{Parts, disks, engine, export, import, isolated, kill_oneself, mirror, part};
use zpool::Pool;

const GIB: u64 = 1 << 30;
const ANNA: Identity = Identity {
    uid: 1000,
    gid: 100,
    groups: Vec::new(),
};

fn quota(kind: OwnerKind, id: u64, measure: Measure, limit: impl Into<Option<u64>>) -> Quota {
    Quota {
        owner: Owner { kind, id },
        measure,
        limit: limit.into(),
    }
}

fn open(pool: &Pool) -> Box<dyn OpenFileSystem> {
    let opened = pool.open_file_system(DatasetRef::from_checked("tank/files"), false);
    opened.expect("open")
}

/// A pool with the file system `tank/files`, of which the root directory is Anna's.
fn new_pool() -> Pool {
    let pool = mirror(engine(), &disks(&["a", "b"]));
    pool.complete_root().expect("complete");
    let spec = FileSystemSpec {
        owner: ANNA.uid,
        group: ANNA.gid,
        ..FileSystemSpec::plain("tank/files".parse().expect("a name"))
    };
    pool.create_file_system(&spec).expect("create");
    pool
}

fn space(files: &dyn FileSystem, kind: OwnerKind, id: u64) -> OwnerSpace {
    let space = files.owner_space(Owner { kind, id });
    space.expect("its space")
}

/// The process dies as soon as the call returns. `zdb` then shows the lists as a kernel has them: by the names of
/// their properties in the master node, with keys in hexadecimal digits and without the removed entries.
#[test]
fn quotas_survive_a_kill_and_have_the_form_of_a_kernel() {
    const TEST: &str = "quotas_survive_a_kill_and_have_the_form_of_a_kernel";
    match part().as_deref() {
        None => {}
        Some("set") => {
            let pool = new_pool();
            let opened = open(&pool);
            let files = opened.files();
            let set = [
                quota(OwnerKind::User, 1000, Measure::Bytes, 10 * GIB),
                quota(OwnerKind::User, 2000, Measure::Bytes, GIB),
                quota(OwnerKind::User, 1000, Measure::Objects, 50_000),
                quota(OwnerKind::Group, 100, Measure::Bytes, 3 * GIB),
                quota(OwnerKind::Project, 7, Measure::Bytes, 5 * GIB),
            ];
            files.set_quotas(&set).expect("set");
            let removed = quota(OwnerKind::User, 2000, Measure::Bytes, None);
            files.set_quotas(&[removed]).expect("remove");
            kill_oneself();
        }
        _ => {
            let pool = import(engine());
            let opened = open(&pool);
            let files = opened.files();
            let anna = space(&*files, OwnerKind::User, 1000);
            let limits = (anna.bytes_max, anna.objects, anna.objects_max);
            assert_eq!(limits, (Some(10 * GIB), Some(1), Some(50_000)));
            let other = space(&*files, OwnerKind::User, 2000);
            assert_eq!((other.bytes, other.bytes_max), (0, None));
            for (kind, id, limit) in [
                (OwnerKind::Group, 100, 3 * GIB),
                (OwnerKind::Project, 7, 5 * GIB),
            ] {
                let owners = files.owners(kind, &|| true).expect("owners");
                let found = owners.first.iter().find(|one| one.id == id);
                assert_eq!(found.and_then(|one| one.bytes_max), Some(limit), "{kind:?}");
            }
            // A list that is never needed is not created.
            let none = quota(OwnerKind::Group, 100, Measure::Objects, None);
            files.set_quotas(&[none]).expect("none there");
            drop(files);
            opened.close();
            drop(opened);
            export(pool);
        }
    }
    if part().is_some() {
        return;
    }
    let parts = Parts::of(TEST);
    assert!(!parts.run("set").success, "it kills itself");
    parts.pass("read");
    let shown = objects(&parts, "tank/files");
    let lines: Vec<&str> = shown.lines().map(str::trim).collect();
    for line in [
        "3e8 = 10737418240",
        "3e8 = 50000",
        "64 = 3221225472",
        "7 = 5368709120",
    ] {
        assert!(lines.contains(&line), "{line}:\n{shown}");
    }
    for list in [
        "userquota@",
        "userobjquota@",
        "groupquota@",
        "projectquota@",
    ] {
        let entry = format!("{list} = ");
        assert!(shown.contains(&entry), "{list}:\n{shown}");
    }
    for absent in ["7d0 = ", "groupobjquota@ = ", "projectobjquota@ = "] {
        let found = lines.iter().find(|line| line.starts_with(absent));
        assert_eq!(found, None, "{absent}");
    }
    let quota_lists = shown.matches("ZFS user/group/project quota").count();
    assert_eq!(quota_lists, 4, "{shown}");
    parts.zdb_is_content("tank");
}

/// Of an open file system, at once, also where it had no list of quotas before.
#[test]
fn new_quota_is_enforced_in_an_open_file_system() {
    isolated("new_quota_is_enforced_in_an_open_file_system", || {
        let pool = new_pool();
        let opened = open(&pool);
        let files = opened.files();
        let none = SetAttributes::default();
        let make = |name: &[u8]| files.make(&ANNA, files.root(), name, Make::File, &none, None);
        let file = make(b"first").expect("there is room").object.node;
        let bytes = vec![0xa5; 1 << 20];
        files.write(file, 0, &bytes).expect("there is room");
        pool.sync().expect("sync");
        let limit = quota(OwnerKind::User, 1000, Measure::Bytes, 4096);
        files.set_quotas(&[limit]).expect("set");
        assert_eq!(files.write(file, 0, &bytes).err(), Some(FileError::Quota));
        assert_eq!(make(b"second").err(), Some(FileError::Quota));
        let more = quota(OwnerKind::User, 1000, Measure::Bytes, GIB);
        let objects = quota(OwnerKind::Group, 100, Measure::Objects, 2);
        files.set_quotas(&[more, objects]).expect("set");
        files.write(file, 0, &bytes).expect("there is room");
        assert_eq!(make(b"second").err(), Some(FileError::Quota));
        let none_left = [
            quota(OwnerKind::User, 1000, Measure::Bytes, None),
            quota(OwnerKind::Group, 100, Measure::Objects, None),
        ];
        files.set_quotas(&none_left).expect("remove");
        make(b"second").expect("there is room");
        drop(files);
        opened.close();

        // Not of a snapshot, and not of one that is read-only.
        let snapshot = "tank/files@s".parse().expect("a name");
        engine::capabilities::Snapshotting::snapshot(&pool, &[snapshot]).expect("snapshot");
        let readonly = [("readonly".to_owned(), Value::Text("on".to_owned()))];
        let dataset = DatasetRef::from_checked("tank/files");
        pool.set_dataset_properties(dataset, &readonly)
            .expect("set");
        for name in ["tank/files", "tank/files@s"] {
            let dataset = DatasetRef::from_checked(name);
            let opened = pool.open_file_system(dataset, true).expect("open");
            let files = opened.files();
            let refused = files.set_quotas(&[limit]);
            assert_eq!(refused, Err(FileError::ReadOnly), "{name}");
            assert_eq!(space(&*files, OwnerKind::User, 1000).bytes_max, None);
        }
        export(pool);
    });
}
