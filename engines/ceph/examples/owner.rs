//! An owner of a shelf for the tests that stop or kill it: `owner NAMESPACE write`, `owner NAMESPACE rollback STEP` or
//! `owner NAMESPACE change STEP`.
//!
//! `write` fills the volume `tank/v` from several threads until the volume is gone, prints a line for each batch of
//! completed writes, and fails on any other error of a write. `rollback` rolls the volume back to
//! `tank/v@1`, `change` creates and destroys a volume and snapshots; both are killed before the step of that number.

#![forbid(unsafe_code)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use block_device::{ErrorKind, WaitMode};
use ceph::StepProbe;
use engine::dataset::{Depth, VolumeSpec};
use engine::pool::{ImportOptions, SafeToOwn};
use engine::{Engine as _, Pool, Volume};
use units::ByteCount;

const WRITERS: u64 = 8;
const WRITE_BYTES: u64 = 4096;
/// Completed writes between two lines.
const BATCH: u64 = 16;
/// Exit status after an error that a client would have received.
const WRONG_ERROR: u8 = 3;

fn import(namespace: &str, probe: Option<StepProbe>) -> Box<dyn Pool> {
    // Each host has a directory of its own.
    let locks = tempfile::tempdir().expect("a directory");
    let engine = support::engine(1, locks.path(), probe);
    let candidate = support::candidate(&engine, namespace);
    let proof = SafeToOwn::exported(&candidate).expect("exported");
    engine
        .import(&candidate, proof, &ImportOptions::default())
        .expect("imported")
}

/// Writes until the volume is gone. Returns whether that was the only error.
fn write(volume: &Arc<dyn Volume>) -> bool {
    let blocks = volume.geometry().size / WRITE_BYTES;
    let (count, is_right) = (AtomicU64::new(0), AtomicBool::new(true));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (count, is_right) = (&count, &is_right);
            scope.spawn(move || {
                let data = [b'A'; WRITE_BYTES as usize];
                for number in (writer..).step_by(WRITERS as usize) {
                    // Spread over all objects of the volume.
                    let at = (number * 613) % blocks * WRITE_BYTES;
                    match volume.write(at, &data, WaitMode::MayBlock) {
                        Ok(()) => {}
                        Err(error) if error.kind == ErrorKind::Gone => return,
                        Err(error) => {
                            writeln!(std::io::stderr(), "{error}").expect("printed");
                            is_right.store(false, Ordering::Relaxed);
                            return;
                        }
                    }
                    if count.fetch_add(1, Ordering::Relaxed) % BATCH == 0 {
                        writeln!(std::io::stdout(), "written").expect("printed");
                    }
                }
            });
        }
    });
    is_right.into_inner()
}

/// Opens the shelf, and performs `changes` on it. The process is killed before the step `kill_at` of them.
fn killed(namespace: &str, kill_at: u32, changes: impl FnOnce(&dyn Pool, &AtomicBool)) {
    let (armed, count) = (Arc::new(AtomicBool::new(false)), AtomicU32::new(0));
    let is_armed = Arc::clone(&armed);
    let probe: StepProbe = Arc::new(move |name| {
        // This thread removes discarded images, in no fixed order with the changes.
        let is_collector = std::thread::current().name() == Some("ceph-collect");
        if is_collector || !is_armed.load(Ordering::Relaxed) {
            return;
        }
        if count.fetch_add(1, Ordering::Relaxed) + 1 == kill_at {
            writeln!(std::io::stdout(), "{name}").expect("printed");
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).expect("killed");
        }
    });
    let pool = import(namespace, Some(probe));
    changes(&*pool, &armed);
}

fn roll_back(pool: &dyn Pool, armed: &AtomicBool) {
    let volume = pool.open_volume(&support::volume("tank/v"), Default::default());
    let volume = volume.expect("open");
    let paused = volume.pause(Duration::from_secs(10)).expect("paused");
    armed.store(true, Ordering::Relaxed);
    let snapshot = support::snapshot("tank/v@1");
    paused.rollback(&snapshot).expect("rolled back");
}

fn change(pool: &dyn Pool, armed: &AtomicBool) {
    armed.store(true, Ordering::Relaxed);
    let name = support::volume("tank/w");
    let spec = VolumeSpec::sparse(name.clone(), ByteCount(support::MIB));
    pool.create_volume(&spec).expect("created");
    let both = ["tank/v@2", "tank/w@2"].map(support::snapshot);
    pool.snapshot(&both).expect("snapshots");
    let clone = support::volume("tank/clone");
    pool.clone_snapshot(&both[0], &clone, &[]).expect("cloned");
    pool.destroy_dataset(&clone, Depth::One).expect("destroyed");
    pool.destroy_snapshots(&both).expect("destroyed");
    pool.destroy_dataset(&name, Depth::One).expect("destroyed");
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [namespace, "write"] => {
            let pool = import(namespace, None);
            let volume = pool
                .open_volume(&support::volume("tank/v"), Default::default())
                .expect("open");
            match write(&volume) {
                true => ExitCode::SUCCESS,
                false => ExitCode::from(WRONG_ERROR),
            }
        }
        [namespace, "rollback", step] => {
            killed(namespace, step.parse().expect("a number"), roll_back);
            ExitCode::SUCCESS
        }
        [namespace, "change", step] => {
            killed(namespace, step.parse().expect("a number"), change);
            ExitCode::SUCCESS
        }
        _ => ExitCode::FAILURE,
    }
}
