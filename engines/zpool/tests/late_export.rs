//! A late export: groups sync between the point when the library determines the last transaction group with contents,
//! and the point when the labels are to mark the pool as exported. A busy host causes that.

mod support;

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use support::{Parts, disks, engine, export, mirror, part, write_sample_data};

unsafe extern "C" {
    fn spa_event_create(
        pool: *mut c_void,
        device: *mut c_void,
        list: *mut c_void,
        name: *const c_char,
    ) -> *mut c_void;
    fn spa_event_post(event: *mut c_void);
    fn strcmp(a: *const c_char, b: *const c_char) -> c_int;
}

/// The delay, in milliseconds.
static LATE_MS: AtomicU64 = AtomicU64::new(0);

/// Preempts the library's own function, and has the same effect. An export emits its event in between.
///
/// # Safety
/// The library calls it, with a pool of its own and a name that can be read.
#[unsafe(no_mangle)]
unsafe extern "C" fn spa_event_notify(
    pool: *mut c_void,
    device: *mut c_void,
    list: *mut c_void,
    name: *const c_char,
) {
    // SAFETY: the arguments are passed on unchanged; a comparison stops at the first byte that differs.
    let is_export = unsafe {
        spa_event_post(spa_event_create(pool, device, list, name));
        strcmp(name, c"pool_export".as_ptr()) == 0
    };
    if is_export {
        std::thread::sleep(Duration::from_millis(LATE_MS.swap(0, Ordering::Relaxed)));
    }
}

#[test]
fn late_export_completes_with_a_consistent_pool() {
    const TEST: &str = "late_export_completes_with_a_consistent_pool";
    if part().is_none() {
        let parts = Parts::of(TEST);
        // Groups begin each second.
        parts.pass("2500");
        parts.zdb_is_content("tank");
        return;
    }
    let late_ms = part().and_then(|part| part.parse().ok()).expect("a number");
    let pool = mirror(engine(), &disks(&["a", "b"]));
    write_sample_data(&pool, 3);
    LATE_MS.store(late_ms, Ordering::Relaxed);
    export(pool);
    assert_eq!(LATE_MS.load(Ordering::Relaxed), 0, "it was late");
}
