//! A pool that is opened by our own walks of its datasets (native/zfs-shim/quick_import.c) is the
//! same as one that the library's walks opened: a pool with snapshots, clones, file systems within
//! each other, property lists of every form and logs that a killed process left is copied, each
//! copy is opened in its own way, and all that can be seen of them is compared.

mod support;

use std::fmt::Write as _;
use std::path::Path;

use block_device::{BlockDevice, Extent, WaitMode};
use engine::Volume as _;
use engine::capabilities::{Datasets, FileSystems, IntentLogs, Properties, Snapshotting};
use engine::dataset::{DatasetInfo, DatasetKind, DatasetRef, Snapshots, VolumeSpec};
use engine::pool::ImportOptions;
use engine::volume::OpenOptions;
use support::{Parts, dir, options, part, tank};
use units::{ByteCount, SnapshotName, VolumeName};
use zpool::pool::discover;
use zpool::{Engine, Pool};

const VOLUMES: u64 = 40;
/// Every which volume is being written when the process is killed.
const WRITTEN_EACH: u64 = 4;
const VOLUME_BYTES: u64 = 4 << 20;
const DISKS: [&str; 2] = ["a", "b"];
const PREFIX: &str = "bulkhead:";
const MADE: &str = "the pool is made";

fn volume(text: &str) -> VolumeName {
    text.parse().expect("a volume name")
}

fn snapshot(text: &str) -> SnapshotName {
    text.parse().expect("a snapshot name")
}

fn name_of(number: u64) -> VolumeName {
    match number % 3 {
        0 => volume(&format!("tank/v{number}")),
        1 => volume(&format!("tank/dir/v{number}")),
        _ => volume(&format!("tank/dir/deep/v{number}")),
    }
}

/// Properties with a list of one block, two, or many.
fn properties(number: u64) -> Vec<(String, engine::dataset::Value)> {
    let text = |length: usize| "x".repeat(length).as_str().into();
    match number % 4 {
        0 => Vec::new(),
        1 => vec![("compression".to_owned(), "lz4".into())],
        2 => vec![
            (format!("{PREFIX}lun"), number.to_string().as_str().into()),
            (format!("{PREFIX}empty"), "".into()),
            ("other:note".to_owned(), text(100)),
        ],
        // More than a block of entries can hold.
        _ => (0..9)
            .map(|n| (format!("{PREFIX}long{n}"), text(4000 + n)))
            .collect(),
    }
}

fn make() {
    let engine = Engine::start(options()).expect("start the engine");
    let pool = support::mirror(engine, &support::disks(&DISKS));
    pool.create_parents(&volume("tank/dir/deep/v"))
        .expect("parents");
    for number in 0..VOLUMES {
        let mut spec = VolumeSpec::sparse(name_of(number), ByteCount(VOLUME_BYTES));
        spec.properties = properties(number);
        pool.create_volume(&spec).expect("create");
    }
    let snapshots = [snapshot("tank/v0@one"), snapshot("tank/dir/v1@one")];
    pool.snapshot(&snapshots).expect("snapshot");
    pool.clone_snapshot(&snapshots[1], &volume("tank/dir/clone"), &[])
        .expect("clone");
    pool.set_dataset_properties((&tank()).into(), &[(format!("{PREFIX}pool"), "yes".into())])
        .expect("set on the pool");
    for number in (0..VOLUMES).step_by(WRITTEN_EACH as usize) {
        let device = pool
            .open_volume(&name_of(number), OpenOptions::default())
            .expect("open");
        for block in 0..=number {
            let data = vec![number as u8 + 1; 4096];
            device
                .write(block * 4096, &data, WaitMode::MayBlock)
                .expect("write");
            device.flush().expect("flush");
        }
        // Neither closed nor exported: the last writes are only in its log.
        std::mem::forget(device);
    }
    std::mem::forget(pool);
    #[allow(clippy::print_stdout)]
    {
        println!("{MADE}");
    }
    std::process::abort();
}

/// The whole visible state of the pool, including the contents of its volumes.
fn describe(pool: &Pool) -> String {
    let mut text = String::new();
    let mut unreplayed = pool.unreplayed_volumes().expect("logs");
    unreplayed.sort();
    writeln!(text, "unreplayed {unreplayed:?}").expect("text");
    let mut datasets = pool
        .datasets(pool.name().into(), Snapshots::Include)
        .expect("list");
    datasets.sort_by(|a, b| a.name.cmp(&b.name));
    let volumes = datasets
        .iter()
        .filter(|info| info.volume.is_some() && !info.name.contains('@'));
    assert_eq!(pool.volume_count().expect("count"), volumes.count() as u64);
    file_systems_are_the_librarys(pool, &datasets);
    for info in &datasets {
        let (name, kind, guid) = (&info.name, info.kind, info.guid);
        writeln!(
            text,
            "{name} {kind:?} {guid} {:?} {:?}",
            info.origin, info.volume
        )
        .expect("text");
        let Some(name) = info.volume.and(name.parse::<VolumeName>().ok()) else {
            continue;
        };
        let device = pool
            .open_volume(&name, OpenOptions::default())
            .expect("open");
        let loan = device
            .read(Extent::new(0, VOLUME_BYTES), WaitMode::MayBlock)
            .expect("read");
        let mut parts = Vec::new();
        loan.append_parts(&mut parts);
        let bytes = parts.concat();
        drop(loan);
        device.close();
        let written: Vec<u8> = bytes.chunks(4096).map(|block| block[0]).collect();
        assert!(
            bytes
                .chunks(4096)
                .all(|block| block.iter().all(|byte| *byte == block[0]))
        );
        writeln!(text, "{written:?}").expect("text");
    }
    text
}

/// The listing without opening yields the same file systems as the library's, with the identities of the open ones.
fn file_systems_are_the_librarys(pool: &Pool, datasets: &[DatasetInfo]) {
    let mut found = pool.file_systems().expect("listed");
    found.sort();
    let listed = datasets
        .iter()
        .filter(|info| info.kind == DatasetKind::Filesystem && !info.name.contains('@'));
    let names = found.iter().map(|(name, _)| name);
    assert!(names.eq(listed.map(|info| &info.name)));
    // That of the pool itself was never completed.
    for (name, id) in &found[1..] {
        let open = pool.open_file_system(DatasetRef::from_checked(name), true);
        assert_eq!(open.expect("opened").files().id(), *id, "{name}");
    }
    assert!(found.len() > 1);
}

/// ZAPs read with the caches bypassed equal those that the library reads, one dataset at a time.
fn properties_are_the_librarys(pool: &Pool) -> String {
    let all = pool.user_properties(PREFIX).expect("read all");
    for number in 0..VOLUMES {
        let name = name_of(number);
        let own = pool
            .own_user_properties((&name).into(), PREFIX)
            .expect("read one");
        assert_eq!(
            all.get(name.as_str()).cloned().unwrap_or_default(),
            own,
            "{name}"
        );
    }
    let own = pool
        .own_user_properties(pool.name().into(), PREFIX)
        .expect("read the pool's");
    assert_eq!(all[pool.name().as_str()], own);
    format!("{all:?}\n")
}

fn open(way: &str) {
    let mut options = options();
    options.library_walks = way == "library";
    let engine = Engine::start(options).expect("start the engine");
    let place = dir().join(way);
    let found = discover(&[place]).expect("discover");
    let proof = zpool::pool::same_host_and_locked(engine, &found[0]).expect("the maker is dead");
    let pool = Pool::import(engine, &found[0], proof, &ImportOptions::default()).expect("import");
    let seen = properties_are_the_librarys(&pool) + &describe(&pool);
    assert_eq!(pool.unreplayed_volumes().expect("logs"), []);
    std::fs::write(dir().join(format!("{way}.seen")), seen).expect("write");
    support::export(pool);
}

fn copy(parts: &Parts, way: &str) {
    let to = parts.dir().join(way);
    std::fs::create_dir(&to).expect("dir");
    for disk in DISKS {
        std::fs::copy(parts.dir().join(disk), to.join(disk)).expect("copy a disk");
    }
}

fn judge(dir: &Path) {
    let output = support::zdb(dir, "tank");
    assert!(output.status.success(), "zdb: {output:?}");
}

#[test]
fn quick_import_with_logs_matches_library_import() {
    const TEST: &str = "quick_import_with_logs_matches_library_import";
    match part().as_deref() {
        Some("make") => return make(),
        Some(way) => return open(way),
        None => {}
    }
    let parts = Parts::of(TEST);
    let made = parts.run("make");
    assert!(made.output.contains(MADE), "{}", made.output);
    let ways = ["quick", "library"];
    let [quick, library] = ways.map(|way| {
        copy(&parts, way);
        parts.pass(way);
        judge(&parts.dir().join(way));
        std::fs::read_to_string(parts.dir().join(format!("{way}.seen"))).expect("seen")
    });
    assert_eq!(quick, library);
    assert!(!quick.contains("unreplayed []"), "{quick}");
}
