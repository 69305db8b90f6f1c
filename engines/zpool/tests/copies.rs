//! Copies of a pool's disks are present next to them: of every age, under names that sort first and last, on the host
//! where the pool was opened and elsewhere. Either all acknowledged data is served or the import is refused; no copy is
//! written to.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use block_device::{BlockDevice, Extent, WaitMode};
use engine::capabilities::{Datasets, Devices, Ownership};
use engine::dataset::VolumeSpec;
use engine::pool::legs::Confirmation;
use engine::pool::{
    Candidate, Conflict, GroupKind, ImportOptions, LeftOut, PoolErrorKind, PoolSpec, SafeToOwn,
};
use engine::volume::OpenOptions;
use support::{Parts, dir, disks, export, options, part, tank, wait_for_scan};
use units::{ByteCount, VolumeName};
use zpool::pool::{discover_all, discover_alone, same_host_and_locked};
use zpool::{Engine, Pool, Volume};

const LAYOUTS: [(&str, GroupKind, &[&str]); 3] = [
    ("single", GroupKind::Stripe, &["m"]),
    ("mirror", GroupKind::Mirror, &["m", "n"]),
    ("raidz", GroupKind::Raidz1, &["m", "n", "o"]),
];
/// The points in time at which copies are made. If the server is killed, the last one has the newest root, but misses
/// the last record of the log.
const AGES: [&str; 3] = ["first", "log", "last"];
const BLOCK: u64 = 4096;

/// No transaction group syncs by timer.
fn start() -> &'static Engine {
    let mut options = options();
    options.txg_timeout_s = 60;
    Engine::start(options).expect("start the engine")
}

fn volume_name() -> VolumeName {
    "tank/v".parse().expect("a name")
}

fn open(pool: &Pool) -> Volume {
    let opened = pool.open_volume(&volume_name(), OpenOptions::default());
    opened.expect("the volume opens")
}

/// Acknowledged and durable.
fn write(volume: &Volume, number: u8) {
    write_at(volume, 0, number);
}

fn write_at(volume: &Volume, offset: u64, number: u8) {
    let written = volume.write(offset, &[number; BLOCK as usize], WaitMode::MayBlock);
    written.expect("written");
    volume.flush().expect("flushed");
}

fn number(pool: &Pool) -> u8 {
    let volume = open(pool);
    let loan = volume.read(Extent::new(0, BLOCK), WaitMode::MayBlock);
    let loan = loan.expect("read");
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    parts.concat()[0]
}

fn copy(dir: &Path, names: &[&str], age: &str) {
    for name in names {
        let (from, to) = (dir.join(name), dir.join(format!("{age}.{name}")));
        let copied = Command::new("cp")
            .arg("--sparse=always")
            .arg(from)
            .arg(to)
            .status();
        assert!(copied.expect("cp").success());
    }
}

fn layout(name: &str) -> (GroupKind, &'static [&'static str]) {
    let found = LAYOUTS.iter().find(|(one, ..)| *one == name);
    let (_, kind, names) = found.expect("a layout");
    (*kind, names)
}

/// A new pool with an open volume.
fn created(kind: GroupKind, disks: Vec<PathBuf>) -> (Pool, Volume) {
    let spec = PoolSpec::new(tank(), kind, disks);
    let pool = Pool::create(start(), &spec).expect("create");
    let spec = VolumeSpec::sparse(volume_name(), ByteCount::mib(16));
    pool.create_volume(&spec).expect("a volume");
    let volume = open(&pool);
    (pool, volume)
}

/// Creates a pool, copies its disks while it is served, and terminates as `how` specifies.
fn serve(layout_name: &str, how: &str) {
    let (kind, names) = layout(layout_name);
    let (pool, volume) = created(kind, disks(names));
    write(&volume, 1);
    pool.sync().expect("sync");
    copy(&dir(), names, AGES[0]);
    write(&volume, 2);
    copy(&dir(), names, AGES[1]);
    if how == "synced" {
        pool.sync().expect("sync");
    }
    write(&volume, 3);
    copy(&dir(), names, AGES[2]);
    write(&volume, 4);
    if how != "exported" {
        support::kill_oneself();
    }
    drop(volume);
    export(pool);
}

/// The result of a start with these places, in this order.
fn found(places: &[PathBuf], chosen: &[PathBuf]) -> Candidate {
    let mut found = discover_all(places, chosen).expect("labels");
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn import(engine: &'static Engine, candidate: &Candidate) -> Pool {
    let proof = SafeToOwn::exported(candidate)
        .unwrap_or_else(|| same_host_and_locked(engine, candidate).expect("its owner has died"));
    Pool::import(engine, candidate, proof, &ImportOptions::default()).expect("import")
}

fn paths(candidate: &Candidate) -> Vec<PathBuf> {
    let present = candidate.devices.all.iter().filter(|device| device.present);
    let mut paths: Vec<_> = present.map(|device| device.path.clone()).collect();
    paths.sort();
    paths
}

/// Each subset of the copies, with the disks between them, in both orders.
fn arrangements(dir: &Path, names: &[&str]) -> Vec<Vec<PathBuf>> {
    let of_age = |age: &str| {
        names
            .iter()
            .map(|name| dir.join(format!("{age}.{name}")))
            .collect()
    };
    let own: Vec<PathBuf> = names.iter().map(|name| dir.join(name)).collect();
    let [first, log, last]: [Vec<PathBuf>; 3] = AGES.map(of_age);
    // One side of a mirror only.
    let one_side = vec![first[0].clone()];
    let sets = [
        [first.clone(), own.clone()].concat(),
        [last.clone(), own.clone()].concat(),
        [first.clone(), own.clone(), log.clone()].concat(),
        [last, first, own.clone(), log].concat(),
        [one_side, own].concat(),
    ];
    sets.into_iter()
        .flat_map(|set| {
            let reversed = set.iter().rev().cloned().collect();
            [set, reversed]
        })
        .collect()
}

#[test]
fn copy_is_never_served_instead_of_its_disk() {
    const TEST: &str = "copy_is_never_served_instead_of_its_disk";
    if let Some(part) = part() {
        match part.split_once('-').expect("two words") {
            ("judge", layout_name) => {
                let (_, names) = layout(layout_name);
                let of_ages = AGES
                    .iter()
                    .flat_map(|age| names.iter().map(move |name| format!("{age}.{name}")));
                let copies: Vec<PathBuf> = of_ages.map(|name| dir().join(name)).collect();
                let written = |path: &PathBuf| {
                    std::fs::metadata(path)
                        .and_then(|found| found.modified())
                        .expect("a time")
                };
                let before: Vec<_> = copies.iter().map(written).collect();
                let pool = import(start(), &found(&[dir()], &[]));
                assert_eq!(number(&pool), 4, "the last flushed value");
                export(pool);
                let after: Vec<_> = copies.iter().map(written).collect();
                assert_eq!(before, after, "a copy was written to");
            }
            (layout_name, how) => serve(layout_name, how),
        }
        return;
    }
    for (layout_name, _, names) in LAYOUTS {
        for how in ["exported", "synced", "killed"] {
            let parts = Parts::of(TEST);
            let ended = parts.run(&format!("{layout_name}-{how}"));
            assert_eq!(ended.success, how == "exported", "{}", ended.output);
            let own: Vec<PathBuf> = names.iter().map(|name| parts.dir().join(name)).collect();
            for places in arrangements(parts.dir(), names) {
                let candidate = found(&places, &[]);
                assert_eq!(
                    candidate.devices.conflicts,
                    [],
                    "{layout_name} {how}: {places:?}"
                );
                assert_eq!(paths(&candidate), own, "{layout_name} {how}: {places:?}");
                let copies = places.len() - own.len();
                assert_eq!(
                    candidate.devices.left_out.len(),
                    copies,
                    "{:?}",
                    candidate.devices.left_out
                );
            }
            // The original disks are gone.
            let moved = parts.dir().join("moved");
            std::fs::create_dir(&moved).expect("a dir");
            for entry in std::fs::read_dir(parts.dir()).expect("entries") {
                let entry = entry.expect("an entry");
                if entry.path() != moved && !entry.file_name().to_string_lossy().ends_with(".log") {
                    std::fs::rename(entry.path(), moved.join(entry.file_name())).expect("moved");
                }
            }
            let own: Vec<PathBuf> = names.iter().map(|name| moved.join(name)).collect();
            for places in arrangements(&moved, names) {
                let candidate = found(&places, &[]);
                // The last record is in the log of one of them, and both have the same root.
                let has_its_root = |name: &&&str| {
                    let ages: &[&str] = match how {
                        "exported" => &[],
                        "synced" => &AGES[2..],
                        _ => &AGES,
                    };
                    let mut copies = ages.iter().map(|age| moved.join(format!("{age}.{name}")));
                    copies.any(|copy| places.contains(&copy))
                };
                let unclear = names.iter().filter(has_its_root).count();
                let told = format!(
                    "{layout_name} {how} {places:?}: {:?}",
                    candidate.devices.conflicts
                );
                assert_eq!(candidate.devices.conflicts.len(), unclear, "{told}");
                if unclear == 0 {
                    assert_eq!(paths(&candidate), own, "{told}");
                }
            }
            for entry in std::fs::read_dir(&moved).expect("entries") {
                let entry = entry.expect("an entry");
                let back = parts.dir().join(entry.file_name());
                std::fs::rename(entry.path(), back).expect("moved");
            }
            parts.pass(&format!("judge-{layout_name}"));
        }
    }
}

/// A disk of the test's directory.
fn disk(name: &str) -> PathBuf {
    dir().join(name)
}

/// An administrator's choice of the copy holds until the disk is written to.
#[test]
fn chosen_copy_is_used_until_the_other_copy_changes() {
    const TEST: &str = "chosen_copy_is_used_until_the_other_copy_changes";
    match part().as_deref() {
        Some("serve") => serve("single", "killed"),
        Some("choose") => {
            let engine = start();
            std::fs::rename(disk("m"), disk("original")).expect("renamed");
            let places = ["last.m", "original"].map(disk);
            let unclear = found(&places, &[]);
            let proof = same_host_and_locked(engine, &unclear).expect("its owner has died");
            let refused = Pool::import(engine, &unclear, proof, &ImportOptions::default());
            let kind = refused.expect_err("nobody chose").kind;
            assert!(matches!(kind, PoolErrorKind::Copies(_)), "{kind}");
            let chosen = found(&places, &places[..1]);
            assert!(
                matches!(&chosen.devices.left_out[..], [LeftOut::Copy { path, .. }] if *path == places[1])
            );
            let pool = import(engine, &chosen);
            assert_eq!(number(&pool), 3);
            write(&open(&pool), 5);
            export(pool);
        }
        Some("again") => {
            let engine = start();
            let places = ["original", "last.m"].map(disk);
            let pool = import(engine, &found(&places, &[]));
            assert_eq!(number(&pool), 5);
            export(pool);
        }
        Some("other") => {
            let engine = start();
            let pool = import(engine, &found(&["original"].map(disk), &[]));
            assert_eq!(number(&pool), 4);
            write(&open(&pool), 6);
            export(pool);
            let both = found(&["original", "last.m"].map(disk), &[]);
            assert!(
                matches!(&both.devices.conflicts[..], [Conflict::Same(_)]),
                "{both:?}"
            );
        }
        Some(other) => panic!("no part {other}"),
        None => {
            let parts = Parts::of(TEST);
            assert!(!parts.run("serve").success, "it is killed");
            for part in ["choose", "again", "other"] {
                parts.pass(part);
            }
        }
    }
}

/// The pool's number with one disk, while further disks are gone for good.
fn number_of(name: &str, gone: &[&str]) -> u8 {
    for gone in gone {
        std::fs::remove_file(disk(gone)).expect("removed");
    }
    let candidate = found(&[disk(name)], &[]);
    let missing = candidate
        .devices
        .all
        .iter()
        .filter(|device| !device.present);
    let options = ImportOptions {
        word: Some(Confirmation {
            pool_guid: candidate.guid,
            newest_txg: candidate.devices.legs.newest_txg,
            missing: missing.map(|device| device.guid).collect(),
            may_lose_newest: false,
            may_lose_logs: false,
            forgets_record: false,
        }),
        ..ImportOptions::default()
    };
    let engine = start();
    let proof = SafeToOwn::exported(&candidate).expect("it was exported");
    let pool = Pool::import(engine, &candidate, proof, &options).expect("import");
    let number = number(&pool);
    export(pool);
    number
}

/// One side of the mirror is gone, and a copy of it is present.
#[test]
fn older_copy_of_a_leg_is_resilvered_in_its_slot_only() {
    const TEST: &str = "older_copy_of_a_leg_is_resilvered_in_its_slot_only";
    match part().as_deref() {
        Some("serve") => {
            let pool = Pool::create(
                start(),
                &PoolSpec::new(tank(), GroupKind::Mirror, disks(&["m", "n"])),
            );
            let pool = pool.expect("create");
            let spec = VolumeSpec::sparse(volume_name(), ByteCount::mib(16));
            pool.create_volume(&spec).expect("a volume");
            let volume = open(&pool);
            copy(&dir(), &["n"], "first");
            for number in 1..=3 {
                write(&volume, number);
                pool.sync().expect("sync");
            }
            support::kill_oneself();
        }
        // On another host nothing is certain: a missing device may be newer.
        Some("elsewhere") => {
            let candidate = found(&["first.n", "m"].map(disk), &[disk("m")]);
            let out = &candidate.devices.left_out[..];
            assert!(
                out.iter().any(
                    |one| matches!(one, LeftOut::Older { path, .. } if *path == disk("first.n"))
                        || matches!(one, LeftOut::Copy { path, .. } if *path == disk("first.n"))
                ),
                "{candidate:?}"
            );
        }
        Some("home") => {
            std::fs::rename(disk("first.n"), disk("n")).expect("renamed");
            let pool = import(start(), &found(&[dir()], &[]));
            // Only a synced group starts the copy.
            write_at(&open(&pool), 1 << 20, 9);
            pool.sync().expect("sync");
            let status = wait_for_scan(&pool);
            let errors: u64 = status.devices[0]
                .children
                .iter()
                .map(|device| device.checksum_errors)
                .sum();
            assert_eq!(errors, 0, "{status:#?}");
            assert_eq!(number(&pool), 3);
            export(pool);
        }
        Some("alone") => assert_eq!(number_of("n", &["m"]), 3, "all of it was copied"),
        Some(other) => panic!("no part {other}"),
        None => {
            let parts = Parts::of(TEST);
            assert!(!parts.run("serve").success, "it is killed");
            parts.pass("elsewhere");
            parts.pass("home");
            parts.pass("alone");
        }
    }
}

/// A `split` of copies into a new pool is killed before they have another number, or is still running. The original is
/// opened as if they were absent, even if the disk is gone that one is a copy of.
#[test]
fn interrupted_split_copies_are_no_devices_of_the_pool() {
    const TEST: &str = "interrupted_split_copies_are_no_devices_of_the_pool";
    match part().as_deref() {
        Some("serve") => {
            let (pool, volume) = created(GroupKind::Mirror, disks(&["m", "n"]));
            write(&volume, 1);
            pool.sync().expect("sync");
            copy(&dir(), &["m"], "first");
            write(&volume, 2);
            support::kill_oneself();
        }
        Some("begin") => {
            let mut alone = discover_alone(&[disk("first.m")]).expect("labels");
            let candidate = alone.remove(0);
            let missing = candidate
                .devices
                .all
                .iter()
                .filter(|device| !device.present);
            let options = ImportOptions {
                rename: Some("other".parse().expect("a name")),
                word: Some(Confirmation {
                    pool_guid: candidate.guid,
                    newest_txg: candidate.devices.legs.newest_txg,
                    missing: missing.map(|device| device.guid).collect(),
                    may_lose_newest: false,
                    may_lose_logs: false,
                    forgets_record: true,
                }),
                ..ImportOptions::default()
            };
            let engine = start();
            let proof = same_host_and_locked(engine, &candidate).expect("its owner has died");
            let pool = Pool::import(engine, &candidate, proof, &options).expect("import");
            for _ in 0..3 {
                pool.sync().expect("sync");
            }
            support::kill_oneself();
        }
        Some("original") => {
            let candidate = found(&[dir()], &[]);
            assert_eq!(candidate.devices.conflicts, []);
            assert_eq!(paths(&candidate), ["m", "n"].map(disk));
            let pool = import(start(), &candidate);
            assert_eq!(number(&pool), 2);
            export(pool);
        }
        Some("one side") => {
            std::fs::remove_file(disk("m")).expect("removed");
            let candidate = found(&[disk("n"), disk("first.m")], &[]);
            assert_eq!(candidate.devices.conflicts, []);
            assert_eq!(paths(&candidate), [disk("n")]);
        }
        // The command is repeated.
        Some("again") => {
            let alone = discover_alone(&[disk("first.m")]).expect("labels");
            assert_eq!(paths(&alone[0]), [disk("first.m")]);
            assert_eq!(alone[0].devices.conflicts, []);
        }
        Some(other) => panic!("no part {other}"),
        None => {
            let parts = Parts::of(TEST);
            assert!(!parts.run("serve").success, "it is killed");
            assert!(!parts.run("begin").success, "it is killed");
            for part in ["original", "one side", "again"] {
                parts.pass(part);
            }
        }
    }
}

/// One of two disks without a mirror was put back as an older copy. The pool can be
/// opened with it by name, and a disk can be attached to it.
#[test]
fn required_older_copy_is_used_when_named_by_administrator() {
    const TEST: &str = "required_older_copy_is_used_when_named_by_administrator";
    match part().as_deref() {
        Some("serve") => {
            let (pool, volume) = created(GroupKind::Stripe, disks(&["m", "n"]));
            write(&volume, 1);
            pool.sync().expect("sync");
            copy(&dir(), &["n"], "first");
            for number in 1..=3 {
                write_at(&volume, 1 << 20, number);
                pool.sync().expect("sync");
            }
            support::kill_oneself();
        }
        Some("chosen") => {
            std::fs::rename(disk("first.n"), disk("n")).expect("renamed");
            let candidate = found(&[dir()], &[]);
            let older = matches!(&candidate.devices.conflicts[..], [Conflict::Older { device, .. }] if device.path == disk("n"));
            assert!(older, "{candidate:?}");
            let pool = import(start(), &found(&[dir()], &[disk("n")]));
            assert_eq!(number(&pool), 1);
            export(pool);
        }
        // Without a choice, because the pool was opened with it.
        Some("again") => {
            let candidate = found(&[dir()], &[]);
            assert_eq!(candidate.devices.conflicts, []);
            export(import(start(), &candidate));
        }
        Some(other) => panic!("no part {other}"),
        None => {
            let parts = Parts::of(TEST);
            assert!(!parts.run("serve").success, "it is killed");
            parts.pass("chosen");
            parts.pass("again");
        }
    }
}

/// A device is taken offline, replaced by an older copy, and that one is brought online.
#[test]
fn older_image_brought_online_is_resilvered() {
    const TEST: &str = "older_image_brought_online_is_resilvered";
    match part().as_deref() {
        Some("serve") => {
            let names = ["m", "n"];
            let (pool, volume) = created(GroupKind::Mirror, disks(&names));
            copy(&dir(), &names[1..], "first");
            for number in 1..=3 {
                write(&volume, number);
                pool.sync().expect("sync");
            }
            let side = disk("n").display().to_string();
            pool.offline(&side, false).expect("offline");
            write_at(&volume, 1 << 20, 9);
            pool.sync().expect("sync");
            std::fs::rename(disk("first.n"), disk("n")).expect("renamed");
            pool.online(&side, false).expect("online");
            write_at(&volume, 1 << 20, 8);
            pool.sync().expect("sync");
            wait_for_scan(&pool);
            drop(volume);
            export(pool);
        }
        Some("alone") => assert_eq!(number_of("n", &["m"]), 3, "all of it was copied"),
        Some(other) => panic!("no part {other}"),
        None => {
            let parts = Parts::of(TEST);
            parts.pass("serve");
            parts.pass("alone");
        }
    }
}
