//! Encrypted volumes: no data is readable without the key, no data is lost while it is missing, and
//! the stock `zdb` opens the datasets written here with the same key.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use block_device::{BlockDevice, Extent, WaitMode};
use engine::Volume as _;
use engine::capabilities::{Datasets, IntentLogs, Keys, Ownership};
use engine::dataset::{DatasetErrorKind, Snapshots, VolumeSpec};
use engine::keys::{KeyFormat, KeyMaterial, NewKey};
use engine::pool::{ImportOptions, SafeToOwn};
use engine::volume::OpenOptions;
use support::{Parts, dir, disks, engine, export, isolated, mirror, part, tank};
use units::{ByteCount, VolumeName};
use zpool::crypto::{Cipher, CipherError, Code, IV_BYTES, Mode};
use zpool::pool::discover;
use zpool::{Engine, Pool, Volume};

const SIZE: u64 = 16 << 20;
const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const OTHER: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const PASSPHRASE: &str = "correct horse battery";
/// Contents that must not appear on the disks.
const CONTENTS: &[u8; 32] = b"these are the secret contents!!\n";

fn material(text: &str) -> KeyMaterial {
    KeyMaterial::new(text.as_bytes().to_vec().into())
}

fn key(format: KeyFormat, text: &str) -> NewKey {
    NewKey {
        suite: Some("aes-256-gcm".to_owned()),
        format,
        material: material(text),
        iterations: (format == KeyFormat::Passphrase).then_some(100_000),
        location: "prompt".to_owned(),
    }
}

fn name(text: &str) -> VolumeName {
    text.parse().expect("a name")
}

fn create(pool: &Pool, volume: &str, key: Option<NewKey>) {
    let mut spec = VolumeSpec::sparse(name(volume), ByteCount(SIZE));
    spec.key = key;
    // Compressed contents would not be recognisable, encrypted or not.
    spec.properties = vec![("compression".to_owned(), "off".into())];
    pool.create_volume(&spec).expect(volume);
}

fn import(engine: &'static Engine) -> Pool {
    let found = discover(&[dir()]).expect("labels");
    let candidate = &found[0];
    // The process that had it was killed.
    let proof = SafeToOwn::exported(candidate)
        .unwrap_or_else(|| zpool::pool::same_host_and_locked(engine, candidate).expect("dead"));
    Pool::import(engine, candidate, proof, &ImportOptions::default()).expect("import")
}

fn open(pool: &Pool, volume: &str) -> Result<Volume, DatasetErrorKind> {
    let opened = pool.open_volume(&name(volume), OpenOptions::default());
    opened.map_err(|error| error.kind)
}

fn write(volume: &Volume, block: u64, flush: bool) {
    let data = CONTENTS.repeat(512);
    volume
        .write(block << 14, &data, WaitMode::MayBlock)
        .expect("write");
    if flush {
        volume.flush().expect("flush");
    }
}

fn holds(volume: &Volume, block: u64) -> bool {
    let extent = Extent::new(block << 14, 1 << 14);
    let loan = volume.read(extent, WaitMode::MayBlock).expect("read");
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    parts.concat() == CONTENTS.repeat(512)
}

fn state(pool: &Pool, volume: &str) -> (Option<String>, bool) {
    let info = pool.key_info((&name(volume)).into()).expect("look");
    (info.root, info.loaded)
}

/// The disks, searched as raw bytes.
fn shows_contents(disk: &Path) -> bool {
    let bytes = std::fs::read(disk).expect("disk");
    bytes.windows(CONTENTS.len()).any(|found| found == CONTENTS)
}

fn die() -> ! {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        .expect("kill");
    unreachable!("killed")
}

fn make() {
    let pool = mirror(engine(), &disks(&["a", "b"]));
    create(&pool, "tank/plain", None);
    create(&pool, "tank/hex", Some(key(KeyFormat::Hex, HEX)));
    create(
        &pool,
        "tank/pass",
        Some(key(KeyFormat::Passphrase, PASSPHRASE)),
    );
    let parent = name("tank/group");
    pool.create_key_parent(&parent, &key(KeyFormat::Hex, HEX), &[])
        .expect("parent");
    create(&pool, "tank/group/one", None);
    create(&pool, "tank/group/two", None);
    assert_eq!(state(&pool, "tank/plain"), (None, false));
    assert_eq!(state(&pool, "tank/hex"), (Some("tank/hex".into()), true));
    assert_eq!(
        state(&pool, "tank/group/two"),
        (Some("tank/group".into()), true)
    );
    for volume in ["tank/hex", "tank/pass", "tank/group/one"] {
        let volume = open(&pool, volume).expect("open");
        write(&volume, 1, true);
        volume.close();
    }
    let volume = open(&pool, "tank/hex").expect("open");
    write(&volume, 2, true);
    let busy = pool
        .unload_key((&name("tank/hex")).into())
        .expect_err("in use");
    assert_eq!(busy.kind, DatasetErrorKind::Busy);
    pool.sync().expect("sync");
    // Early enough to be only in the intent log.
    write(&volume, 3, true);
    die();
}

/// The next owner, at first without any key.
fn take_over() {
    let engine = engine();
    codes_agree(engine);
    let pool = import(engine);
    assert_eq!(
        open(&pool, "tank/hex").err(),
        Some(DatasetErrorKind::KeyMissing)
    );
    assert!(open(&pool, "tank/plain").is_ok());
    let all = pool
        .datasets((&tank()).into(), Snapshots::Skip)
        .expect("list");
    let shape = |volume: &str| {
        all.iter()
            .find(|info| info.name == volume)
            .expect("listed")
            .volume
    };
    assert_eq!(shape("tank/hex").map(|shape| shape.size.get()), Some(0));
    assert_eq!(
        shape("tank/plain").map(|shape| shape.size.get()),
        Some(SIZE)
    );
    assert_eq!(pool.encrypted_datasets().expect("walk").len(), 5);
    // Usual, but certain only if no transaction group synced between the write and the death.
    if pool.is_unreplayed(&name("tank/hex")).expect("look") {
        assert_eq!(pool.unreplayed_volumes().expect("look"), [name("tank/hex")]);
        let replayed = pool.replay(&name("tank/hex")).expect_err("locked");
        assert_eq!(replayed.kind, DatasetErrorKind::KeyMissing);
    }

    let wrong = pool
        .load_key((&name("tank/hex")).into(), &material(OTHER))
        .expect_err("wrong");
    assert_eq!(wrong.kind, DatasetErrorKind::KeyWrong);
    let short = pool
        .load_key((&name("tank/hex")).into(), &material("abc"))
        .expect_err("short");
    assert!(
        matches!(short.kind, DatasetErrorKind::KeyMaterial(_)),
        "{short}"
    );
    let below = pool
        .load_key((&name("tank/group/one")).into(), &material(HEX))
        .expect_err("below");
    assert_eq!(
        below.kind,
        DatasetErrorKind::NotKeyRoot {
            root: "tank/group".into()
        }
    );
    pool.load_key((&name("tank/hex")).into(), &material(HEX))
        .expect("load");
    let again = pool
        .load_key((&name("tank/hex")).into(), &material(HEX))
        .expect_err("twice");
    assert_eq!(again.kind, DatasetErrorKind::Exists);
    let with_break = material(&format!("{PASSPHRASE}\n"));
    pool.load_key((&name("tank/pass")).into(), &with_break)
        .expect("load");
    pool.load_key((&name("tank/group")).into(), &material(HEX))
        .expect("load");

    let volume = open(&pool, "tank/hex").expect("open");
    assert!(
        (1..=3).all(|block| holds(&volume, block)),
        "the log was replayed"
    );
    let info = pool
        .dataset((&name("tank/group/two")).into())
        .expect("look");
    assert_eq!(info.volume.map(|shape| shape.size.get()), Some(SIZE));
    change(&pool, &volume);
    volume.close();
    export(pool);
}

/// Each implementation opens data sealed by the other, and rejects a changed byte.
fn codes_agree(engine: &'static Engine) {
    for (bytes, key_bytes) in [(512, 16), (4096, 32), (16 << 10, 32), (131_071, 16)] {
        let plain: Vec<u8> = (0..bytes).map(|at| (at * 7) as u8).collect();
        let key = vec![bytes as u8; key_bytes];
        for (from, to) in [(Code::InUse, Code::OpenZfs), (Code::OpenZfs, Code::InUse)] {
            let ready = |code| Cipher::new(engine, Mode::Gcm, code, &key).expect("ready");
            let (mut sealed, mut opened) = (vec![0; bytes], vec![0; bytes]);
            let (iv, aad) = ([5; IV_BYTES], [6; 13]);
            let tag = ready(from)
                .encrypt(&iv, &aad, &plain, &mut sealed)
                .expect("sealed");
            let mut other = ready(to);
            other
                .decrypt(&iv, &aad, &sealed, &mut opened, &tag)
                .expect("opened");
            assert!(opened == plain, "{bytes} bytes, {from:?} to {to:?}");
            sealed[bytes / 2] ^= 1;
            let changed = other.decrypt(&iv, &aad, &sealed, &mut opened, &tag);
            assert_eq!(changed, Err(CipherError::Tag));
        }
    }
}

/// Changes keys while volumes are in use.
fn change(pool: &Pool, volume: &Volume) {
    let mut new = key(KeyFormat::Raw, "");
    new.material = KeyMaterial::new((0..32).map(|n| n * 7).collect::<Vec<u8>>().into());
    pool.change_key((&name("tank/hex")).into(), &new)
        .expect("change");
    write(volume, 4, true);
    let old = pool
        .check_key((&name("tank/hex")).into(), &material(HEX))
        .expect_err("old");
    assert!(
        matches!(old.kind, DatasetErrorKind::KeyMaterial(_)),
        "{old}"
    );
    pool.check_key((&name("tank/hex")).into(), &new.material)
        .expect("new");
    let plain = pool
        .change_key((&name("tank/plain")).into(), &new)
        .expect_err("plain");
    assert_eq!(plain.kind, DatasetErrorKind::KeyUnchangeable);
    // A dataset that shared its parent's key gets its own, and returns to the shared one.
    pool.change_key((&name("tank/group/two")).into(), &new)
        .expect("own");
    assert_eq!(
        state(pool, "tank/group/two").0,
        Some("tank/group/two".into())
    );
    pool.inherit_key((&name("tank/group/two")).into())
        .expect("inherit");
    assert_eq!(state(pool, "tank/group/two").0, Some("tank/group".into()));
    pool.unload_key((&name("tank/pass")).into())
        .expect("not in use");
    assert_eq!(
        open(pool, "tank/pass").err(),
        Some(DatasetErrorKind::KeyMissing)
    );
}

/// The stock tool's output for a dataset, with this key.
fn zdb(dir: &Path, key: &str, dataset: &str) -> (bool, String) {
    let path = format!(
        "{}:/usr/sbin:/sbin",
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new("zdb")
        .env("PATH", path)
        .args(["-e", "-p"])
        .arg(dir)
        .args(["-K", key, "-ddd", dataset])
        .output()
        .expect("zdb (package zfsutils-linux) is installed");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn killed_encrypted_volume_loses_no_write_without_its_key() {
    match part().as_deref() {
        Some("make") => return make(),
        Some("take over") => return take_over(),
        Some(other) => panic!("no part {other}"),
        None => {}
    }
    let parts = Parts::of("killed_encrypted_volume_loses_no_write_without_its_key");
    let ended = parts.run("make");
    assert!(!ended.output.contains("panicked"), "{}", ended.output);
    parts.pass("take over");
    let disk: PathBuf = parts.dir().join("a");
    assert!(!shows_contents(&disk), "contents are on the disk");
    parts.zdb_is_content("tank");
    for (key, dataset, fits) in [
        (PASSPHRASE, "tank/pass", true),
        (HEX, "tank/group/one", true),
        (OTHER, "tank/group/one", false),
    ] {
        let (_, text) = zdb(parts.dir(), key, dataset);
        // The objects of a volume are listed only with the key.
        assert_eq!(text.contains("zvol object"), fits, "{dataset}:\n{text}");
    }
}

/// Reads the state of each volume in turn, as lists and metrics do.
fn read_repeatedly(pool: &Pool, volumes: &[VolumeName], until: Instant) {
    while Instant::now() < until {
        for volume in volumes {
            let info = pool.dataset(volume.into()).expect("there");
            let shape = info.volume.expect("a volume");
            assert_eq!(shape.size.get(), SIZE, "the key is loaded");
        }
    }
}

#[test]
fn concurrent_reads_of_unopened_encrypted_volumes_succeed() {
    const READERS: usize = 8;
    const FOR: Duration = Duration::from_secs(5);
    isolated(
        "concurrent_reads_of_unopened_encrypted_volumes_succeed",
        || {
            let pool = mirror(engine(), &disks(&["a", "b"]));
            let volumes = [name("tank/one"), name("tank/two")];
            for volume in &volumes {
                create(&pool, volume.as_str(), Some(key(KeyFormat::Hex, HEX)));
            }
            let until = Instant::now() + FOR;
            std::thread::scope(|scope| {
                for _ in 0..READERS {
                    scope.spawn(|| read_repeatedly(&pool, &volumes, until));
                }
            });
            export(pool);
        },
    );
}
