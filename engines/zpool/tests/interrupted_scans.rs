//! Interrupted scans. When a scan reaches a dataset, the library checks whether the pool is being exported, and if so
//! defers the dataset to the next transaction group. Here the check succeeds at each dataset in turn.

mod support;

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use engine::capabilities::{Datasets, Upkeep};
use engine::dataset::VolumeSpec;
use engine::pool::ScrubCommand;
use support::{disks, engine, isolated, mirror, wait_for_scan};
use units::ByteCount;

const READER: c_int = 0;

unsafe extern "C" {
    fn rrw_enter_read(lock: *mut c_void, tag: *const c_char);
    fn rrw_enter_write(lock: *mut c_void);
    fn strcmp(a: *const c_char, b: *const c_char) -> c_int;
}

/// How many datasets a scan reaches until the one at which it is interrupted.
static LEFT: AtomicI64 = AtomicI64::new(0);
/// Whether the next check for a reason to interrupt the scan succeeds.
static INTERRUPTS: AtomicBool = AtomicBool::new(false);

/// Preempts the library's own function, and has the same effect. Its tags are the names of the callers.
///
/// # Safety
/// The library calls it, with a lock of its own and a tag that can be read.
#[unsafe(no_mangle)]
unsafe extern "C" fn rrw_enter(lock: *mut c_void, kind: c_int, tag: *const c_char) {
    // SAFETY: the arguments are passed on unchanged; a comparison stops at the first byte that differs.
    unsafe {
        if kind != READER {
            return rrw_enter_write(lock);
        }
        rrw_enter_read(lock, tag);
        if strcmp(tag, c"dsl_scan_visitds".as_ptr()) != 0 {
            return;
        }
    }
    if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        INTERRUPTS.store(true, Ordering::Relaxed);
    }
}

/// Interposes the library's function: whether the pool is being exported.
#[unsafe(no_mangle)]
extern "C" fn spa_shutting_down(_pool: *const c_void) -> c_int {
    c_int::from(INTERRUPTS.swap(false, Ordering::Relaxed))
}

#[test]
fn interrupted_scrub_visits_all_datasets() {
    isolated("interrupted_scrub_visits_all_datasets", || {
        let pool = mirror(engine(), &disks(&["a", "b"]));
        let name = "tank/v".parse().expect("a name");
        let spec = VolumeSpec::sparse(name, ByteCount::mib(16));
        pool.create_volume(&spec).expect("create a volume");
        // How many datasets a scrub reached.
        let scrub = |interrupted_at: i64| {
            LEFT.store(interrupted_at, Ordering::Relaxed);
            pool.scrub(ScrubCommand::Start).expect("scrub");
            wait_for_scan(&pool);
            interrupted_at - LEFT.load(Ordering::Relaxed)
        };
        let all = scrub(i64::MAX);
        assert!(
            all > 2,
            "the origin, the pool's own dataset and the volume: {all}"
        );
        // The first one is the origin, from which all further datasets are reached: the library does not check there,
        // but at the next one.
        for at in 1..=all {
            assert_eq!(
                scrub(at),
                all + 1,
                "interrupted at {at}, it comes there twice"
            );
        }
    });
}
