//! Disks that acknowledged writes and lost them in a power failure.

mod support;

use std::os::unix::fs::FileExt;
use std::path::Path;

use engine::capabilities::{Ownership, Properties};
use engine::dataset::Value;
use engine::pool::legs::Confirmation;
use engine::pool::{ImportOptions, PoolErrorKind};
use support::{Parts, dir, disks, engine, export, mirror, part, tank};
use zpool::{Pool, discover};

/// Labels at the head and the tail of a device survived; the area between them reverts to an earlier state.
const LABELS_BYTES: u64 = 4 << 20;
const LEGS: [&str; 2] = ["a", "b"];

fn copy_of(leg: &str) -> std::path::PathBuf {
    dir().join("copies").join(leg)
}

/// Only in the pool, not in labels, which are newer than the state that is restored.
const NOTE: &str = "tests:note";

fn note(pool: &Pool, text: &str) {
    let properties = [(NOTE.to_owned(), Value::from(text))];
    pool.set_dataset_properties((&tank()).into(), &properties)
        .expect("set a property");
}

fn write_then_die() {
    let pool = mirror(engine(), &disks(&LEGS));
    note(&pool, "old");
    pool.sync().expect("sync");
    std::fs::create_dir(dir().join("copies")).expect("a dir");
    for leg in LEGS {
        std::fs::copy(dir().join(leg), copy_of(leg)).expect("copied");
    }
    note(&pool, "new");
    // Killed: no further write is issued.
    std::process::abort();
}

/// The area between the labels reverts to its state when `dir` was copied.
fn lose_writes(dir: &Path) {
    for leg in LEGS {
        let old = std::fs::read(dir.join("copies").join(leg)).expect("readable");
        let file = std::fs::File::options().write(true).open(dir.join(leg));
        let (first, last) = (LABELS_BYTES, old.len() as u64 - LABELS_BYTES);
        file.expect("a disk")
            .write_all_at(&old[first as usize..last as usize], first)
            .expect("written");
    }
}

fn import(options: &ImportOptions, has_lost_power: bool) -> Result<Pool, engine::pool::PoolError> {
    let engine = engine();
    let mut candidate = discover(&LEGS.map(|leg| dir().join(leg)))
        .expect("labels")
        .remove(0);
    if has_lost_power {
        // Long before this host was booted.
        candidate.devices.legs.newest_time_s = 0;
    }
    let proof = zpool::pool::same_host_and_locked(engine, &candidate).expect("its process is gone");
    let options = ImportOptions {
        word: options.word.clone().map(|word| Confirmation {
            pool_guid: candidate.guid,
            newest_txg: candidate.devices.legs.newest_txg,
            ..word
        }),
        ..options.clone()
    };
    Pool::import(engine, &candidate, proof, &options)
}

fn noted(pool: &Pool) -> String {
    let mut found = pool
        .own_user_properties((&tank()).into(), NOTE)
        .expect("properties");
    found.remove(NOTE).expect("it has one")
}

#[test]
fn lost_txgs_are_discarded_only_after_confirmation() {
    const TEST: &str = "lost_txgs_are_discarded_only_after_confirmation";
    let refused = |has_lost_power| {
        let error = import(&ImportOptions::default(), has_lost_power).expect_err("refused");
        assert!(
            matches!(error.kind, PoolErrorKind::NewestUnreadable { readable_time_s, .. } if readable_time_s > 0),
            "{error:?}"
        );
    };
    match part().as_deref() {
        None => {
            let parts = Parts::of(TEST);
            assert!(!parts.run("write").success, "it was killed");
            lose_writes(parts.dir());
            for part in [
                "refused after a kill",
                "refused after a power cut",
                "rewound",
            ] {
                parts.pass(part);
            }
            parts.zdb_is_content(tank().as_str());
        }
        Some("write") => write_then_die(),
        Some("refused after a kill") => refused(false),
        Some("refused after a power cut") => refused(true),
        Some(_) => {
            let word = Confirmation {
                pool_guid: 0,
                newest_txg: 0,
                missing: Default::default(),
                may_lose_newest: true,
                may_lose_logs: false,
                forgets_record: false,
            };
            let options = ImportOptions {
                word: Some(word),
                ..ImportOptions::default()
            };
            let pool = import(&options, true).expect("an older state");
            assert_eq!(noted(&pool), "old");
            export(pool);
        }
    }
}

#[test]
fn undamaged_pool_imports_after_a_power_cut() {
    const TEST: &str = "undamaged_pool_imports_after_a_power_cut";
    match part().as_deref() {
        None => {
            let parts = Parts::of(TEST);
            assert!(!parts.run("write").success, "it was killed");
            parts.pass("opened");
        }
        Some("write") => write_then_die(),
        Some(_) => {
            let pool = import(&ImportOptions::default(), true).expect("whole");
            assert_eq!(noted(&pool), "new");
            export(pool);
        }
    }
}
