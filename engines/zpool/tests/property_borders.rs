//! Properties with values at the limits of numbers and texts, on open datasets: each is set or refused. The library
//! aborts the process on an unexpected value.

mod support;

use engine::Volume as _;
use engine::capabilities::{Datasets, FileSystems, History, PoolProperties, Properties};
use engine::dataset::{DatasetRef, Depth, FileSystemSpec, Value, VolumeSpec};
use engine::volume::OpenOptions;
use file_system::{FileSystem, Identity, Make, SetAttributes};
use support::borders::seed;
use support::{Parts, disks, engine, export, mirror, part};
use units::{ByteCount, VolumeName};
use zpool::Pool;

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};
const ROUNDS: usize = 700;

const NAMES: &[&str] = &[
    "aclinherit",
    "aclmode",
    "acltype",
    "atime",
    "canmount",
    "casesensitivity",
    "checksum",
    "compression",
    "context",
    "copies",
    "dedup",
    "devices",
    "direct",
    "dnodesize",
    "encryption",
    "exec",
    "filesystem_limit",
    "guid",
    "keyformat",
    "keylocation",
    "logbias",
    "mlslabel",
    "mountpoint",
    "overlay",
    "pbkdf2iters",
    "prefetch",
    "primarycache",
    "quota",
    "readonly",
    "recordsize",
    "redundant_metadata",
    "refquota",
    "refreservation",
    "relatime",
    "reservation",
    "secondarycache",
    "setuid",
    "sharenfs",
    "sharesmb",
    "snapdev",
    "snapdir",
    "snapshot_limit",
    "special_small_blocks",
    "sync",
    "used",
    "version",
    "volblocksize",
    "volmode",
    "volsize",
    "volthreading",
    "vscan",
    "xattr",
    "zoned",
    "org.example:own",
];

const NUMBERS: &[u64] = &[
    0,
    1,
    2,
    3,
    4,
    5,
    511,
    512,
    513,
    1000,
    4096,
    128 << 10,
    (128 << 10) + 1,
    1 << 20,
    16 << 20,
    (16 << 20) + 1,
    32 << 20,
    1 << 32,
    u64::MAX / 2,
    u64::MAX - 1,
    u64::MAX,
];

const LENGTHS: &[usize] = &[0, 1, 255, 256, 1023, 1024, 8191, 8192, 8193, 100_000];

fn property(random: &mut fastrand::Rng) -> (String, Value) {
    let name = match random.u8(0..12) {
        0 => format!("org.example:{}", "n".repeat(random.usize(0..300))),
        _ => NAMES[random.usize(0..NAMES.len())].to_owned(),
    };
    let value = match random.u8(0..4) {
        0 => Value::Text("x".repeat(LENGTHS[random.usize(0..LENGTHS.len())])),
        1 => Value::Text(["on", "off", "none", "all", "sha512", "zstd"][random.usize(0..6)].into()),
        _ => Value::Number(NUMBERS[random.usize(0..NUMBERS.len())]),
    };
    (name, value)
}

/// It can still be written to.
fn write(files: &dyn FileSystem, name: &str) {
    let none = SetAttributes::default();
    let made = files.make(
        &ROOT,
        files.root(),
        name.as_bytes(),
        Make::File,
        &none,
        None,
    );
    if let Ok(made) = made {
        let _ = files.write(made.object.node, 0, &[1; 10_000]);
    }
}

/// The same for a dataset that has it from its creation.
fn create(pool: &Pool, round: usize, property: (String, Value)) {
    let name: VolumeName = format!("tank/new{round}").parse().expect("a name");
    let properties = vec![property];
    let made = match round % 2 {
        0 => pool.create_file_system(&FileSystemSpec {
            properties,
            ..FileSystemSpec::plain(name.clone())
        }),
        _ => pool.create_volume(&VolumeSpec {
            properties,
            ..VolumeSpec::sparse(name.clone(), ByteCount::mib(1))
        }),
    };
    if made.is_err() {
        return;
    }
    if let Ok(opened) = pool.open_file_system((&name).into(), false) {
        write(&*opened.files(), "new");
    }
    let destroyed = pool.destroy_dataset(&name, Depth::One);
    destroyed.expect("it is not open");
}

#[test]
fn dataset_property_with_any_value_is_set_or_refused() {
    const TEST: &str = "dataset_property_with_any_value_is_set_or_refused";
    if part().is_none() {
        let parts = Parts::of(TEST);
        parts.pass("all");
        parts.zdb_is_content("tank");
        return;
    }
    let mut random = fastrand::Rng::with_seed(seed());
    let pool = mirror(engine(), &disks(&["a", "b"]));
    pool.complete_root().expect("complete");
    let names = ["tank/files", "tank/volume"].map(|name| name.parse().expect("a name"));
    let [files, volume]: &[VolumeName; 2] = &names;
    let spec = FileSystemSpec::plain(files.clone());
    pool.create_file_system(&spec).expect("create");
    let spec = VolumeSpec::sparse(volume.clone(), ByteCount::mib(1));
    pool.create_volume(&spec).expect("create");
    let opened = pool.open_file_system(files.into(), false).expect("open");
    let device = pool.open_volume(volume, OpenOptions::default());
    let device = device.expect("open");
    // Each of these has aborted the process, or would.
    let known = [
        ("special_small_blocks", Value::Number(3)),
        ("special_small_blocks", Value::Number(32 << 20)),
        ("copies", Value::Number(4)),
        ("sharenfs", Value::Text("x".repeat(10_000))),
        ("mountpoint", Value::Text("/".repeat(10_000))),
    ];
    let known = known.map(|(name, value)| (name.to_owned(), value));
    let count = known.len();
    let random = std::iter::repeat_with(|| property(&mut random));
    for (round, property) in known.into_iter().chain(random).take(ROUNDS).enumerate() {
        let dataset: DatasetRef<'_> = (&names[round % 2]).into();
        let set = pool.set_dataset_properties(dataset, std::slice::from_ref(&property));
        assert!(round >= count || set.is_err(), "{property:?}");
        if round < count || round % 3 == 0 {
            create(&pool, round, property.clone());
            create(&pool, round + 1, property);
        }
        if round % 20 == 0 {
            write(&*opened.files(), &format!("file{round}"));
        }
    }
    device.close();
    drop((device, opened));
    export(pool);
}

#[test]
fn pool_property_with_any_value_is_set_or_refused() {
    const TEST: &str = "pool_property_with_any_value_is_set_or_refused";
    if part().is_none() {
        let parts = Parts::of(TEST);
        parts.pass("all");
        parts.zdb_is_content("tank");
        return;
    }
    let names = [
        "altroot",
        "ashift",
        "autoexpand",
        "autotrim",
        "bclonelimit",
        "bootfs",
        "cachefile",
        "comment",
        "compatibility",
        "dedup_table_quota",
        "delegation",
        "failmode",
        "feature@lz4_compress",
        "listsnapshots",
        "org.example:own",
        "size",
        "version",
    ];
    let pool = mirror(engine(), &disks(&["a", "b"]));
    let numbers = NUMBERS.iter().map(u64::to_string);
    let texts = LENGTHS.iter().map(|length| "x".repeat(*length));
    let words = ["on", "off", "none", "enabled", "disabled", "auto"].map(str::to_owned);
    for value in numbers.chain(texts).chain(words) {
        for name in names {
            let _ = pool.set_properties(&[(name.to_owned(), value.clone())]);
        }
        let _ = pool.add_to_history(&value);
        let long = format!("org.example:{}", "n".repeat(value.len().min(2000)));
        let _ = pool.set_properties(&[(long, value)]);
    }
    export(pool);
}
