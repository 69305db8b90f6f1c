//! On a pool of one device in memory, a commit of the intent log runs on the calling thread, because a hand-over would
//! cost more than the write. Of a commit of many blocks it writes the last one.

mod volume_support;

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use block_device::{BlockDevice, WaitMode};
use engine::capabilities::Datasets;
use engine::dataset::VolumeSpec;
use engine::pool::{GroupKind, PoolSpec};
use engine::volume::OpenOptions;
use units::ByteCount;
use volume_support::{disk_files, judge, volume_name, watch_devices};
use zpool::device::IoKind;
use zpool::{Engine, EngineOptions, HostId, Pool};

const COMMITS: usize = 100;
/// Writes that are small enough to be logged at once, and fill many log blocks.
const WRITES: u64 = 512;
const WRITE: usize = 16 << 10;

/// The submitted I/O, by thread.
type Seen = Arc<Mutex<Vec<(IoKind, ThreadId)>>>;

#[test]
fn commit_on_one_device_runs_in_the_calling_thread() {
    // Only there a flush certainly does not block.
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        // Test output is shown on demand.
        #[allow(clippy::print_stdout)]
        {
            println!("skipped: no directory in memory (/dev/shm)");
        }
        return;
    };
    let seen = Seen::default();
    let mut options = EngineOptions::new(HostId::derive("test", "tank"));
    let watcher = Arc::clone(&seen);
    watch_devices(&mut options, move |io| {
        let entry = (io.kind(), std::thread::current().id());
        watcher.lock().unwrap().push(entry);
    });
    let engine = Engine::start(options).expect("the engine starts");
    let devices = disk_files(dir.path(), 1, 256 << 20);
    let name = "tank".parse().expect("a pool name");
    let spec = PoolSpec::new(name, GroupKind::Stripe, devices);
    let pool = Pool::create(engine, &spec).expect("the pool is created");
    let volume_name = volume_name("tank/volume");
    pool.create_volume(&VolumeSpec::sparse(volume_name.clone(), ByteCount::mib(16)))
        .expect("the volume is created");
    let volume = pool
        .open_volume(&volume_name, OpenOptions::default())
        .expect("the volume opens");

    let commit = |number: usize| {
        let offset = (number * 4096) as u64;
        volume
            .write(offset, &[number as u8; 4096], WaitMode::MayBlock)
            .expect("write");
        volume.flush().expect("flush");
    };
    commit(0);
    seen.lock().unwrap().clear();
    (1..=COMMITS).for_each(commit);

    let one_by_one = std::mem::take(&mut *seen.lock().unwrap());
    let own = std::thread::current().id();
    for kind in [IoKind::Write, IoKind::Flush] {
        let here = one_by_one
            .iter()
            .filter(|entry| **entry == (kind, own))
            .count();
        // A few may meet a transaction group that is being synced, and queue up behind it.
        assert!(here >= COMMITS / 2, "{kind:?}: {here} of {COMMITS}");
    }
    for number in 0..WRITES {
        volume
            .write(number * WRITE as u64, &[1; WRITE], WaitMode::MayBlock)
            .expect("write");
    }
    seen.lock().unwrap().clear();
    volume.flush().expect("flush");
    let together = std::mem::take(&mut *seen.lock().unwrap());
    let by = |is_own: bool| {
        let writes = together.iter().filter(|(kind, _)| *kind == IoKind::Write);
        writes.filter(|(_, by)| (*by == own) == is_own).count()
    };
    // The library's threads write several at a time, and one flush covers all of them.
    assert!(by(false) > 8 * by(true), "{} and {}", by(false), by(true));
    drop(volume);
    pool.export().map_err(|(_, error)| error).expect("export");
    judge(dir.path());
}
