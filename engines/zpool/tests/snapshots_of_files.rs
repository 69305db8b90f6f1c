//! Snapshots of a file system that clients access: found, bounded, and closed for any operation that they block.

mod support;

use std::sync::Arc;

use engine::OpenFileSystem;
use engine::capabilities::{Datasets, FileSystems, Keys, Promotion, Properties, Snapshotting};
use engine::dataset::{FileSystemSpec, Value};
use engine::keys::{KeyFormat, KeyMaterial, NewKey};
use file_system::{
    FileError, FileSystem, Identity, Make, Node, SetAttributes, Snapshots, Time, Visibility,
};
use support::{disks, engine, export, isolated, mirror};
use units::{SnapshotName, VolumeName};
use zpool::Pool;

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};
const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
/// More than can be open at a time.
const MANY: u32 = 70;

fn name(text: &str) -> VolumeName {
    text.parse().expect("a name")
}

fn snapshot_name(text: &str) -> SnapshotName {
    text.parse().expect("a name")
}

fn take(pool: &Pool, text: &str) {
    pool.snapshot(&[snapshot_name(text)]).expect(text);
}

/// An open file system with a file.
struct Home {
    opened: Box<dyn OpenFileSystem>,
    files: Arc<dyn FileSystem>,
    snapshots: Arc<dyn Snapshots>,
    file: Node,
}

impl Home {
    fn new(pool: &Pool, text: &str, key: Option<NewKey>) -> Self {
        let spec = FileSystemSpec {
            key,
            ..FileSystemSpec::plain(name(text))
        };
        pool.create_file_system(&spec).expect("create");
        let opened = pool.open_file_system((&spec.name).into(), false);
        let opened = opened.expect("open");
        let (files, snapshots) = (opened.files(), opened.snapshots().expect("shown"));
        let none = SetAttributes::default();
        let made = files.make(&ROOT, files.root(), b"file", Make::File, &none, None);
        Self {
            file: made.expect("room").object.node,
            opened,
            files,
            snapshots,
        }
    }

    fn write(&self, text: &[u8]) {
        self.files.write(self.file, 0, text).expect("room");
    }

    /// The file's contents in a snapshot.
    fn said(&self, number: u64) -> Result<Vec<u8>, FileError> {
        let files = self.snapshots.open(number)?;
        let mut bytes = vec![0; 16];
        let read = files.read(self.file, 0, &mut bytes)?;
        bytes.truncate(read.length);
        Ok(bytes)
    }

    fn changed(&self) -> Time {
        self.snapshots.changed().expect("it is open")
    }

    fn find(&self, text: &[u8]) -> u64 {
        self.snapshots.find(text).expect("it is there")
    }

    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let listed = self.snapshots.list(0, &mut |one| {
            assert_eq!(self.snapshots.find(one.name), Ok(one.number));
            names.push(String::from_utf8_lossy(one.name).into_owned());
            true
        });
        assert_eq!(listed, Ok(true));
        names.sort();
        names
    }
}

#[test]
fn snapshot_is_read_while_its_file_system_changes() {
    isolated("snapshot_is_read_while_its_file_system_changes", || {
        let pool = mirror(engine(), &disks(&["a", "b"]));
        let home = Home::new(&pool, "tank/home", None);
        assert!(home.names().is_empty());
        home.write(b"one");
        take(&pool, "tank/home@monday");
        let first = home.changed();
        home.write(b"two");
        take(&pool, "tank/home@tuesday");
        assert!(home.changed() > first, "there is one more");
        home.write(b"now");
        assert_eq!(home.names(), ["monday", "tuesday"]);
        let (monday, tuesday) = (home.find(b"monday"), home.find(b"tuesday"));
        assert_eq!(home.said(monday), Ok(b"one".to_vec()));
        assert_eq!(home.said(tuesday), Ok(b"two".to_vec()));
        let files = home.snapshots.open(monday).expect("open");
        assert_eq!(files.root(), home.files.root());
        assert_eq!(
            files.write(home.file, 0, b"x").err(),
            Some(FileError::ReadOnly)
        );
        assert_eq!(home.snapshots.find(b"never"), Err(FileError::NotFound));
        for number in [0, 1, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(home.said(number), Err(FileError::Stale), "{number}");
        }
        // Not its own.
        let other = Home::new(&pool, "tank/other", None);
        assert_eq!(other.said(monday), Err(FileError::Stale));
        let set = |text: &str| {
            let value = Value::Text(text.to_owned());
            let set = [("snapdir".to_owned(), value)];
            let dataset = name("tank/home");
            pool.set_dataset_properties((&dataset).into(), &set)
                .expect("set");
            home.snapshots.visibility()
        };
        assert_eq!(home.snapshots.visibility(), Visibility::Hidden);
        assert_eq!(set("visible"), Visibility::Visible);
        assert_eq!(set("disabled"), Visibility::Disabled);
        assert_eq!(set("hidden"), Visibility::Hidden);
        other.opened.close();
        home.opened.close();
        export(pool);
    });
}

#[test]
fn conflicting_operations_close_open_snapshots() {
    isolated("conflicting_operations_close_open_snapshots", || {
        let pool = mirror(engine(), &disks(&["a", "b"]));
        let home = Home::new(&pool, "tank/home", None);
        home.write(b"one");
        take(&pool, "tank/home@monday");
        take(&pool, "tank/home@tuesday");
        let (monday, tuesday) = (home.find(b"monday"), home.find(b"tuesday"));
        let before = home.changed();
        let held = home.snapshots.open(monday).expect("open");
        pool.rename_snapshot(&snapshot_name("tank/home@monday"), "sunday")
            .expect("rename");
        assert!(home.changed() > before, "it has another name");
        assert_eq!(home.find(b"sunday"), monday);
        assert_eq!(held.attributes(home.file).err(), Some(FileError::Gone));
        assert_eq!(home.said(monday), Ok(b"one".to_vec()));
        // Another reader has it.
        let looked = pool
            .open_file_system((&snapshot_name("tank/home@sunday")).into(), true)
            .expect("open");
        assert_eq!(home.said(monday), Err(FileError::NotReady));
        drop(looked);
        assert_eq!(home.said(monday), Ok(b"one".to_vec()));
        let destroyed = pool.destroy_snapshots(&[snapshot_name("tank/home@sunday")]);
        destroyed.expect("destroy");
        assert_eq!(home.said(monday), Err(FileError::Stale));
        assert_eq!(home.said(tuesday), Ok(b"one".to_vec()));
        pool.rename(&name("tank/home"), &name("tank/moved"))
            .expect("rename");
        assert_eq!(home.said(tuesday), Ok(b"one".to_vec()));
        home.opened.close();
        assert_eq!(home.said(tuesday), Err(FileError::Gone));
        let rolled = pool.rollback(&snapshot_name("tank/moved@tuesday"));
        rolled.expect("it is not open");
        // An open snapshot does not prevent the pool's export.
        let opened = pool.open_file_system((&name("tank/moved")).into(), false);
        let opened = opened.expect("open");
        let snapshots = opened.snapshots().expect("shown");
        assert!(snapshots.open(tuesday).is_ok());
        opened.close();
        export(pool);
    });
}

#[test]
fn key_unload_and_promotion_with_snapshots_in_use() {
    const WHAT: &str = "key_unload_and_promotion_with_snapshots_in_use";
    isolated(WHAT, || {
        let pool = mirror(engine(), &disks(&["a", "b"]));
        let material = || KeyMaterial::new(HEX.as_bytes().to_vec().into());
        let key = NewKey {
            suite: Some("aes-256-gcm".to_owned()),
            format: KeyFormat::Hex,
            material: material(),
            iterations: None,
            location: "prompt".to_owned(),
        };
        let home = Home::new(&pool, "tank/secret", Some(key));
        home.write(b"one");
        take(&pool, "tank/secret@monday");
        let monday = home.find(b"monday");
        assert_eq!(home.said(monday), Ok(b"one".to_vec()));
        home.opened.close();
        let secret = name("tank/secret");
        pool.unload_key((&secret).into()).expect("nobody has it");
        pool.load_key((&secret).into(), &material()).expect("load");
        let opened = pool
            .open_file_system((&secret).into(), false)
            .expect("open");
        let snapshots = opened.snapshots().expect("shown");
        assert!(snapshots.open(monday).is_ok());
        let (snapshot, clone) = (snapshot_name("tank/secret@monday"), name("tank/clone"));
        pool.clone_snapshot(&snapshot, &clone, &[]).expect("clone");
        pool.promote(&clone).expect("promote");
        assert_eq!(snapshots.open(monday).err(), Some(FileError::Stale));
        opened.close();
        export(pool);
    });
}

/// A walk through all of them opens them one after another.
#[test]
fn open_snapshots_are_bounded() {
    isolated("open_snapshots_are_bounded", || {
        let pool = mirror(engine(), &disks(&["a", "b"]));
        let home = Home::new(&pool, "tank/home", None);
        let numbers: Vec<u64> = (0..MANY)
            .map(|number| {
                home.write(format!("{number:05}").as_bytes());
                take(&pool, &format!("tank/home@{number:05}"));
                home.find(format!("{number:05}").as_bytes())
            })
            .collect();
        assert_eq!(home.names().len() as u32, MANY);
        let held: Vec<_> = numbers
            .iter()
            .map(|number| home.snapshots.open(*number).expect("open"))
            .collect();
        let open = held
            .iter()
            .filter(|files| files.attributes(home.file).is_ok());
        assert_eq!(open.count(), 32);
        for (number, said) in numbers.iter().zip(0..) {
            assert_eq!(home.said(*number), Ok(format!("{said:05}").into_bytes()));
        }
        home.opened.close();
        export(pool);
    });
}
