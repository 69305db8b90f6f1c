//! Changes of keys: promotions of encrypted clones, changes of keys, and moves between encryption roots. Each request
//! in any order terminates with a result, and each key opens the datasets that report it.

mod support;
#[path = "volume_support/mod.rs"]
mod volume_support;

use engine::Volume as _;
use engine::capabilities::{
    Datasets, FileSystems, Keys, Promotion, Receiving, Sending, Snapshotting,
};
use std::collections::BTreeMap;

use block_device::{BlockDevice, Extent, WaitMode};
use engine::dataset::{
    DatasetError, DatasetErrorKind, Depth, FileSystemSpec, Snapshots, VolumeSpec,
};
use engine::keys::{KeyFormat, KeyMaterial, NewKey};
use engine::pool::{GroupKind, PoolSpec};
use engine::transfer::{Base, ReceiveSpec, SendForm, SendSpec};
use engine::volume::OpenOptions;
use support::{disks, engine, export, isolated, mirror, tank};
use units::{ByteCount, SnapshotName, VolumeName};
use volume_support::{read, seed};
use zpool::Pool;

const CONTENTS: [u8; 16 << 10] = [0x5a; 16 << 10];

fn name(text: &str) -> VolumeName {
    text.parse().expect("a name")
}

fn snapshot(text: &str) -> SnapshotName {
    text.parse().expect("a name")
}

/// Key number `number` of many.
fn material(number: u64) -> KeyMaterial {
    KeyMaterial::new(format!("{number:064x}").into_bytes().into())
}

fn key(number: u64) -> NewKey {
    NewKey {
        suite: None,
        format: KeyFormat::Hex,
        material: material(number),
        iterations: None,
        location: "prompt".to_owned(),
    }
}

fn create(pool: &Pool, volume: &str, key: Option<NewKey>) -> Result<(), DatasetError> {
    let mut spec = VolumeSpec::sparse(name(volume), ByteCount(16 << 20));
    spec.key = key;
    pool.create_volume(&spec)?;
    let volume = pool.open_volume(&spec.name, OpenOptions::default())?;
    let written = volume.write(0, &CONTENTS, WaitMode::MayBlock);
    written.and_then(|()| volume.flush()).expect("written");
    volume.close();
    Ok(())
}

fn take(pool: &Pool, taken: &str) -> SnapshotName {
    let taken = snapshot(taken);
    let made = pool.snapshot(std::slice::from_ref(&taken));
    made.expect("snapshot");
    taken
}

fn holds(pool: &Pool, volume: &str) -> Result<(), DatasetError> {
    let opened = pool.open_volume(&name(volume), OpenOptions::default())?;
    assert!(
        read(&opened, Extent::new(0, CONTENTS.len() as u64)) == CONTENTS,
        "{volume}"
    );
    opened.close();
    Ok(())
}

/// The encryption root of a dataset, and whether its key is loaded.
fn owner(pool: &Pool, dataset: &str) -> (Option<String>, bool) {
    let info = pool.key_info((&name(dataset)).into()).expect("look");
    (info.root, info.loaded)
}

fn refusal<T: std::fmt::Debug>(result: Result<T, DatasetError>) -> DatasetErrorKind {
    result.expect_err("refused").kind
}

#[test]
fn promotion_transfers_the_loaded_key() {
    isolated("promotion_transfers_the_loaded_key", || {
        let pool = mirror(engine(), &disks(&["a", "b"]));
        create(&pool, "tank/one", Some(key(1))).expect("create");
        let now = take(&pool, "tank/one@now");
        pool.clone_snapshot(&now, &name("tank/more"), &[])
            .expect("clone");
        pool.promote(&name("tank/more")).expect("promote");
        let of_more = (Some("tank/more".to_owned()), true);
        for volume in ["tank/one", "tank/more"] {
            assert_eq!(owner(&pool, volume), of_more);
            holds(&pool, volume).expect("open");
        }
        pool.change_key((&name("tank/more")).into(), &key(2))
            .expect("change");
        // And back: the key that moves along is the present one.
        pool.promote(&name("tank/one")).expect("promote");
        assert_eq!(owner(&pool, "tank/more"), (Some("tank/one".into()), true));
        holds(&pool, "tank/more").expect("open");
        pool.unload_key((&name("tank/one")).into()).expect("unload");
        assert_eq!(
            refusal(holds(&pool, "tank/more")),
            DatasetErrorKind::KeyMissing
        );
        let old = pool.load_key((&name("tank/one")).into(), &material(1));
        assert_eq!(refusal(old), DatasetErrorKind::KeyWrong);
        pool.load_key((&name("tank/one")).into(), &material(2))
            .expect("load");
        holds(&pool, "tank/one").expect("open");
        pool.change_key((&name("tank/one")).into(), &key(3))
            .expect("change");
        holds(&pool, "tank/more").expect("open");
        export(pool);
    });
}

#[test]
fn clone_is_refused_where_its_key_change_would_loop() {
    isolated("clone_is_refused_where_its_key_change_would_loop", || {
        let pool = mirror(engine(), &disks(&["a", "b"]));
        create(&pool, "tank/one", Some(key(1))).expect("create");
        create(&pool, "tank/other", None).expect("create");
        pool.create_key_parent(&name("tank/group"), &key(2), &[])
            .expect("create");
        let now = take(&pool, "tank/one@now");
        for place in ["tank/one/below", "tank/other/below"] {
            let below = pool.clone_snapshot(&now, &name(place), &[]);
            assert_eq!(refusal(below), DatasetErrorKind::ParentUnsuitable);
        }
        let of_group = take(&pool, "tank/group@now");
        let below = pool.clone_snapshot(&of_group, &name("tank/group/below"), &[]);
        assert_eq!(refusal(below), DatasetErrorKind::ParentUnsuitable);
        // A clone elsewhere of a dataset with a shared key, which would be orphaned without it.
        create(&pool, "tank/group/two", None).expect("create");
        let now = take(&pool, "tank/group/two@now");
        pool.clone_snapshot(&now, &name("tank/elsewhere"), &[])
            .expect("clone");
        let promoted = pool.promote(&name("tank/elsewhere"));
        assert_eq!(refusal(promoted), DatasetErrorKind::KeyOfOrigin);
        pool.change_key((&name("tank/group/two")).into(), &key(3))
            .expect("change");
        pool.promote(&name("tank/elsewhere")).expect("promote");
        holds(&pool, "tank/elsewhere").expect("open");
        export(pool);
    });
}

/// As another ZFS allows, which clones file systems as well.
fn clone_as_elsewhere(from: &std::ffi::CStr, to: &std::ffi::CStr) {
    let mut none = std::ptr::null_mut();
    let mut bad = [0; 256];
    // SAFETY: the pool is open; names, list and room are valid for the calls.
    let code = unsafe {
        zpool_sys::nvlist_alloc(&mut none, zpool_sys::NV_UNIQUE_NAME, 0);
        let code =
            zpool_sys::bh_dataset_clone(to.as_ptr(), from.as_ptr(), none, bad.as_mut_ptr(), 256);
        zpool_sys::nvlist_free(none);
        code
    };
    assert_eq!(code, 0);
}

#[test]
fn imported_clone_below_its_origin_must_be_moved_first() {
    isolated(
        "imported_clone_below_its_origin_must_be_moved_first",
        || {
            let pool = mirror(engine(), &disks(&["a", "b"]));
            let below = name("tank/group/below");
            pool.create_key_parent(&name("tank/group"), &key(1), &[])
                .expect("create");
            take(&pool, "tank/group@now");
            clone_as_elsewhere(c"tank/group@now", c"tank/group/below");
            pool.promote(&below).expect("promote");
            // The library ended the process here.
            assert_eq!(
                refusal(pool.change_key((&below).into(), &key(2))),
                DatasetErrorKind::CloneBelowOrigin
            );
            let beside = name("tank/beside");
            pool.rename(&below, &beside).expect("rename");
            pool.change_key((&beside).into(), &key(2)).expect("change");
            assert_eq!(
                owner(&pool, "tank/group"),
                (Some("tank/beside".into()), true)
            );
            export(pool);
        },
    );
}

#[test]
fn origin_below_its_clone_must_be_moved_first() {
    isolated("origin_below_its_clone_must_be_moved_first", || {
        let pool = mirror(engine(), &disks(&["a", "b"]));
        pool.create_key_parent(&name("tank/group"), &key(1), &[])
            .expect("create");
        create(&pool, "tank/group/one", None).expect("create");
        pool.create_key_parent(&name("tank/more"), &key(2), &[])
            .expect("create");
        let of_group = take(&pool, "tank/group@now");
        // A clone of a dataset with the key of its parent, and the dataset moved below it.
        let in_group = name("tank/group/in");
        let plain = FileSystemSpec::plain(in_group.clone());
        pool.create_file_system(&plain).expect("create");
        create(&pool, "tank/group/in/one", None).expect("create");
        let of_in = take(&pool, "tank/group/in@now");
        pool.clone_snapshot(&of_in, &name("tank/clone"), &[])
            .expect("clone");
        let moved = name("tank/clone/in");
        pool.rename(&in_group, &moved).expect("rename");
        let change = || pool.change_key((&name("tank/group")).into(), &key(3));
        // The library changed the key of its parent alone: this dataset's remained in the old key.
        assert_eq!(refusal(change()), DatasetErrorKind::CloneBelowOrigin);
        pool.clone_snapshot(&of_group, &name("tank/parent"), &[])
            .expect("clone");
        let promoted = pool.promote(&name("tank/parent"));
        assert_eq!(refusal(promoted), DatasetErrorKind::CloneBelowOrigin);
        holds(&pool, "tank/clone/in/one").expect("open");
        pool.rename(&moved, &in_group).expect("rename");
        change().expect("change");
        pool.promote(&name("tank/parent")).expect("promote");
        assert_eq!(
            owner(&pool, "tank/group/in/one"),
            (Some("tank/parent".to_owned()), true)
        );
        for volume in ["tank/group/one", "tank/group/in/one"] {
            holds(&pool, volume).expect("open");
        }
        export(pool);
    });
}

#[test]
fn replica_reports_an_outdated_loaded_key() {
    isolated("replica_reports_an_outdated_loaded_key", || {
        let paths = disks(&["a", "b", "c"]);
        let engine = engine();
        let pool = mirror(engine, &paths[..2]);
        let vault = "vault".parse().expect("a name");
        let spec = PoolSpec::new(vault, GroupKind::Stripe, paths[2..].to_vec());
        let vault = Pool::create(engine, &spec).expect("create");
        create(&pool, "tank/one", Some(key(1))).expect("create");
        let copy = name("vault/copy");
        let send = |base: Option<Base>, tag: &str| {
            let mut spec = SendSpec::full(take(&pool, &format!("tank/one@{tag}")));
            spec.base = base;
            spec.form = SendForm::RAW;
            let mut stream = Vec::new();
            pool.send(&spec, &mut stream).expect("send");
            let into = ReceiveSpec {
                volume: copy.clone(),
                tag: None,
                force: false,
                resumable: false,
                only_volumes: false,
            };
            vault
                .receive(&into, &|_, _| Vec::new(), &mut &stream[..])
                .expect("receive");
        };
        send(None, "first");
        vault.load_key((&copy).into(), &material(1)).expect("load");
        holds(&vault, "vault/copy").expect("open");
        pool.change_key((&name("tank/one")).into(), &key(2))
            .expect("change");
        let base = Base::parse(&name("tank/one"), "@first").expect("a base");
        send(Some(base), "second");
        // The library ended the process here.
        let changed = vault.change_key((&copy).into(), &key(3));
        assert_eq!(refusal(changed), DatasetErrorKind::KeyOutdated);
        assert_eq!(
            refusal(holds(&vault, "vault/copy")),
            DatasetErrorKind::KeyOutdated
        );
        vault.unload_key((&copy).into()).expect("unload");
        vault.load_key((&copy).into(), &material(2)).expect("load");
        holds(&vault, "vault/copy").expect("open");
        vault.change_key((&copy).into(), &key(3)).expect("change");
        holds(&vault, "vault/copy").expect("open");
        export(pool);
        export(vault);
    });
}

/// The random requests, and the expected key of each encryption root.
struct Owners<'a> {
    pool: &'a Pool,
    random: fastrand::Rng,
    keys: BTreeMap<String, u64>,
    made: u64,
}

const LOCATIONS: [&str; 9] = [
    "tank/a",
    "tank/b",
    "tank/group",
    "tank/group/a",
    "tank/group/b",
    "tank/group/in",
    "tank/group/in/a",
    "tank/safe",
    "tank/safe/a",
];
/// Those that are created as file systems with their own keys.
const PARENTS: [&str; 3] = ["tank/group", "tank/group/in", "tank/safe"];

impl Owners<'_> {
    fn some(&mut self) -> &'static str {
        LOCATIONS[self.random.usize(..LOCATIONS.len())]
    }

    fn some_key(&mut self) -> (u64, NewKey) {
        self.made += 1;
        (self.made, key(self.made))
    }

    fn some_snapshot(&mut self) -> Option<SnapshotName> {
        let all = self
            .pool
            .datasets((&tank()).into(), Snapshots::Include)
            .expect("list");
        let taken: Vec<_> = all.iter().filter(|info| info.name.contains('@')).collect();
        let one = taken.get(self.random.usize(..taken.len().max(1)))?;
        Some(snapshot(&one.name))
    }

    /// One request. An error is a valid result.
    fn step(&mut self) -> Result<(), DatasetError> {
        let (pool, at) = (self.pool, self.some());
        let place = name(at);
        match self.random.u32(..21) {
            0..3 => {
                let (number, key) = self.some_key();
                let is_parent = PARENTS.contains(&at);
                let has_own = is_parent || self.random.bool();
                if is_parent {
                    pool.create_key_parent(&place, &key, &[])?;
                } else {
                    create(pool, at, has_own.then_some(key))?;
                }
                if has_own {
                    self.keys.insert(at.to_owned(), number);
                }
            }
            3 | 4 => {
                self.made += 1;
                let taken = snapshot(&format!("{at}@{}", self.made));
                pool.snapshot(std::slice::from_ref(&taken))?;
            }
            5..8 => {
                if let Some(from) = self.some_snapshot() {
                    pool.clone_snapshot(&from, &place, &[])?;
                }
            }
            8..12 => self.promote(&place)?,
            12 | 13 => self.rename(&place)?,
            14 | 15 => {
                let (number, key) = self.some_key();
                pool.change_key((&place).into(), &key)?;
                self.keys.insert(at.to_owned(), number);
            }
            16 | 17 => {
                pool.inherit_key((&place).into())?;
                self.keys.remove(at);
            }
            18 => {
                pool.unload_key((&place).into())?;
                let number = self.keys[at];
                pool.load_key((&place).into(), &material(number))?;
            }
            19 => {
                if let Some(taken) = self.some_snapshot() {
                    pool.destroy_snapshots(&[taken])?;
                }
            }
            _ => {
                pool.destroy_dataset(&place, Depth::One)?;
                self.keys.remove(at);
            }
        }
        Ok(())
    }

    fn promote(&mut self, clone: &VolumeName) -> Result<(), DatasetError> {
        let before = self.pool.key_info(clone.into())?.root;
        self.pool.promote(clone)?;
        let after = self.pool.key_info(clone.into())?.root;
        if let (Some(before), Some(after)) = (before, after) {
            let number = self.keys.remove(&before).expect("known");
            self.keys.insert(after, number);
        }
        Ok(())
    }

    fn rename(&mut self, from: &VolumeName) -> Result<(), DatasetError> {
        let to = name(self.some());
        self.pool.rename(from, &to)?;
        let moved = |old: String| match name(&old).moved(from, &to) {
            Some(new) => new.to_string(),
            None => old,
        };
        let keys = std::mem::take(&mut self.keys);
        self.keys = keys
            .into_iter()
            .map(|(old, key)| (moved(old), key))
            .collect();
        Ok(())
    }

    /// Every key that is reported as loaded opens its datasets.
    fn verify(&self) {
        let roots = self.pool.encrypted_datasets().expect("walk");
        let of_roots = roots.iter().filter(|info| info.is_root());
        let found: Vec<_> = of_roots.map(|info| info.dataset.as_str()).collect();
        let known: Vec<_> = self.keys.keys().map(String::as_str).collect();
        assert_eq!(sorted(found), known);
        for info in self
            .pool
            .datasets((&tank()).into(), Snapshots::Skip)
            .expect("list")
        {
            if info.volume.is_some() {
                holds(self.pool, &info.name).expect("opens");
            }
        }
        for (root, number) in &self.keys {
            let checked = self
                .pool
                .check_key((&name(root)).into(), &material(*number));
            checked.expect("it is the key");
        }
    }
}

fn sorted(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names
}

/// `ROUNDS=n SEED=s` extend or repeat it.
#[test]
fn random_clone_and_key_changes_keep_keys_valid() {
    isolated("random_clone_and_key_changes_keep_keys_valid", || {
        let rounds = std::env::var("ROUNDS").ok();
        let rounds = rounds.map_or(600, |text| text.parse().expect("a number"));
        let pool = mirror(engine(), &disks(&["a", "b"]));
        let mut owners = Owners {
            pool: &pool,
            random: fastrand::Rng::with_seed(seed()),
            keys: BTreeMap::new(),
            made: 0,
        };
        let mut answered = 0;
        for round in 0..rounds {
            match owners.step() {
                Ok(()) => answered += 1,
                Err(error) => assert!(
                    !matches!(error.kind, DatasetErrorKind::Library),
                    "{error}: {:?}",
                    error.cause
                ),
            }
            if round % 20 == 0 {
                owners.verify();
            }
        }
        owners.verify();
        assert!(answered > rounds / 20, "{answered}");
        export(pool);
    });
}
