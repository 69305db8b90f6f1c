//! One write fails on one device, which works before and after it. If another device completed the write, the library
//! counts it as done: the contents and the transaction group of the write decide the consequence, independently of the
//! errno.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::time::Duration;

use block_device::{BlockDevice, WaitMode};
use engine::Volume as _;
use engine::capabilities::{Datasets, Health as _, Ownership as _, Upkeep as _};
use engine::dataset::VolumeSpec;
use engine::pool::{GroupKind, PoolSpec, ScanKind, ScanState, ScrubCommand};
use engine::volume::OpenOptions;
use rustix::io::Errno;
use support::{disks, export, isolated, mirror, options, scrub_finds_nothing, tank, wait_until};
use units::{ByteCount, VolumeName};
use zpool::device::{
    Access, CompletionThread, Device, DeviceIo, Driver, IoKind, OpenFailure, Shape,
};
use zpool::{Engine, Pool, Volume};

const BLOCK: usize = 16 << 10;
const LEG: &str = "a";

/// The error of the next write of at least this length to one device.
#[derive(Default)]
struct Armed {
    errno: AtomicI32,
    bytes_min: AtomicUsize,
    /// Delay of long reads, so that a scrub lasts.
    reads_slow: AtomicBool,
}

impl Armed {
    fn arm(&self, errno: Errno, bytes_min: usize) {
        self.bytes_min.store(bytes_min, Ordering::Release);
        self.errno.store(errno.raw_os_error(), Ordering::Release);
    }

    fn has_failed(&self) -> bool {
        self.errno.load(Ordering::Acquire) == 0
    }
}

struct FailingDriver {
    inner: Arc<dyn Driver>,
    armed: Arc<Armed>,
}

impl Driver for FailingDriver {
    fn open(&self, path: &Path, guid: u64, access: Access) -> Result<Arc<dyn Device>, OpenFailure> {
        let inner = self.inner.open(path, guid, access)?;
        let armed = Arc::clone(&self.armed);
        Ok(match path.ends_with(LEG) {
            true => Arc::new(FailingDevice { inner, armed }),
            false => inner,
        })
    }
}

struct FailingDevice {
    inner: Arc<dyn Device>,
    armed: Arc<Armed>,
}

impl Device for FailingDevice {
    fn shape(&self) -> Result<Shape, OpenFailure> {
        self.inner.shape()
    }

    fn submit(&self, io: DeviceIo) {
        let bytes_min = self.armed.bytes_min.load(Ordering::Acquire);
        let is_slow = io.kind() == IoKind::Read && io.length() >= BLOCK;
        if is_slow && self.armed.reads_slow.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(100));
        }
        let is_meant = io.kind() == IoKind::Write && io.length() >= bytes_min;
        let errno = match is_meant {
            true => self.armed.errno.swap(0, Ordering::AcqRel),
            false => 0,
        };
        match errno {
            0 => self.inner.submit(io),
            errno => io.complete(
                Err(Errno::from_raw_os_error(errno)),
                CompletionThread::Elsewhere,
            ),
        }
    }
}

fn name() -> VolumeName {
    "tank/v".parse().expect("a name")
}

fn content(blocks: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    std::iter::repeat_with(|| random.u8(..))
        .take(blocks * BLOCK)
        .collect()
}

/// An engine with a device [`LEG`] that fails the write for which it is armed, and with the given interval of
/// transaction groups.
fn engine(armed: &Arc<Armed>, txg_timeout_s: u32) -> &'static Engine {
    let told = Arc::clone(armed);
    let mut options = options();
    options.txg_timeout_s = txg_timeout_s;
    options.devices.wrap = Some(Arc::new(move |inner| {
        let armed = Arc::clone(&told);
        Arc::new(FailingDriver { inner, armed })
    }));
    Engine::start(options).expect("start")
}

fn volume_of(pool: &Pool) -> Volume {
    let spec = VolumeSpec::sparse(name(), ByteCount::mib(64));
    pool.create_volume(&spec).expect("create a volume");
    let opened = pool.open_volume(&name(), OpenOptions::default());
    let volume = opened.expect("open the volume");
    pool.sync().expect("sync");
    volume
}

fn write_at(volume: &Volume, offset: u64, bytes: &[u8]) {
    let written = volume.write(offset, bytes, WaitMode::MayBlock);
    written.expect("write");
}

fn write(volume: &Volume, bytes: &[u8]) {
    write_at(volume, 0, bytes);
}

fn has_scanned(pool: &Pool, kind: ScanKind) -> bool {
    let scan = pool.status().expect("status").scan;
    scan.is_some_and(|scan| scan.kind == kind && scan.state == ScanState::Finished)
}

fn is_copied_after(test: &'static str, errno: Errno) {
    isolated(test, || {
        let armed = Arc::new(Armed::default());
        let pool = mirror(engine(&armed, 1), &disks(&[LEG, "b"]));
        let volume = volume_of(&pool);
        armed.arm(errno, BLOCK);
        write(&volume, &content(1));
        pool.sync().expect("sync");
        assert!(armed.has_failed());
        wait_until("the leg has it", || has_scanned(&pool, ScanKind::Resilver));
        scrub_finds_nothing(&pool);
        volume.close();
        export(pool);
    });
}

#[test]
fn failed_leg_writes_are_resilvered() {
    is_copied_after("failed_leg_writes_are_resilvered", Errno::IO);
}

#[test]
fn leg_writes_failed_with_a_media_error_are_resilvered() {
    is_copied_after(
        "leg_writes_failed_with_a_media_error_are_resilvered",
        Errno::NODATA,
    );
}

#[test]
fn leg_writes_that_timed_out_are_resilvered() {
    is_copied_after("leg_writes_that_timed_out_are_resilvered", Errno::TIMEDOUT);
}

#[test]
fn leg_writes_failed_with_a_link_error_are_resilvered() {
    is_copied_after(
        "leg_writes_failed_with_a_link_error_are_resilvered",
        Errno::NOLINK,
    );
}

/// No list of a leg's missing data includes the blocks of a log: until the log begins after that one, it may be on one
/// leg only.
fn log_block_fails(test: &'static str, errno: Errno) {
    isolated(test, || {
        let armed = Arc::new(Armed::default());
        let engine = engine(&armed, 60);
        let pool = mirror(engine, &disks(&[LEG, "b"]));
        let volume = volume_of(&pool);
        write(&volume, &content(1)[..512]);
        volume.flush().expect("flush");
        let synced = || pool.health().expect("health").synced_txg;
        let before = synced();
        write(&volume, &content(1)[..512]);
        volume.flush().expect("flush");
        assert_eq!(synced(), before, "a commit needs no group");
        armed.arm(errno, 0);
        write(&volume, &content(1)[..512]);
        volume.flush().expect("flush");
        assert!(armed.has_failed());
        assert!(synced() > before, "the block is on one leg only");
        let after = synced();
        write(&volume, &content(1)[..512]);
        volume.flush().expect("flush");
        assert_eq!(synced(), after, "the gap is closed");
        (0..3).for_each(|_| pool.sync().expect("sync"));
        assert!(pool.status().expect("status").scan.is_none());
        volume.close();
        export(pool);
    });
}

#[test]
fn failed_log_block_write_waits_for_txg_without_resilver() {
    log_block_fails(
        "failed_log_block_write_waits_for_txg_without_resilver",
        Errno::IO,
    );
}

#[test]
fn log_block_with_other_error_waits_for_txg_too() {
    log_block_fails(
        "log_block_with_other_error_waits_for_txg_too",
        Errno::NODATA,
    );
}

/// The copy starts after the end of a scrub, which would otherwise restart, and never finish with a device that fails
/// now and then.
#[test]
fn leg_write_failure_does_not_abort_a_scrub() {
    const TEST: &str = "leg_write_failure_does_not_abort_a_scrub";
    isolated(TEST, || {
        let armed = Arc::new(Armed::default());
        let engine = engine(&armed, 1);
        let pool = mirror(engine, &disks(&[LEG, "b"]));
        let volume = volume_of(&pool);
        let long = content(256);
        (0..12).for_each(|part| write_at(&volume, part * long.len() as u64, &long));
        pool.sync().expect("sync");
        armed.reads_slow.store(true, Ordering::Release);
        pool.scrub(ScrubCommand::Start).expect("scrub");
        armed.arm(Errno::IO, BLOCK);
        write(&volume, &content(1));
        pool.sync().expect("sync");
        assert!(armed.has_failed());
        let scan = pool.status().expect("status").scan.expect("a scrub");
        assert_eq!(
            (scan.kind, scan.state),
            (ScanKind::Scrub, ScanState::Running)
        );
        armed.reads_slow.store(false, Ordering::Release);
        wait_until("the scrub is over", || has_scanned(&pool, ScanKind::Scrub));
        wait_until("the leg has it", || has_scanned(&pool, ScanKind::Resilver));
        scrub_finds_nothing(&pool);
        volume.close();
        export(pool);
    });
}

/// The library retries it: no data is missing then.
#[test]
fn write_retried_on_the_only_device_leaves_nothing_missing() {
    isolated(
        "write_retried_on_the_only_device_leaves_nothing_missing",
        || {
            let armed = Arc::new(Armed::default());
            let devices = disks(&[LEG]);
            let spec = PoolSpec::new(tank(), GroupKind::Stripe, devices.clone());
            let engine = engine(&armed, 1);
            let pool = Pool::create(engine, &spec).expect("create");
            let volume = volume_of(&pool);
            for errno in [Errno::IO, Errno::NODATA, Errno::TIMEDOUT] {
                armed.arm(errno, BLOCK);
                write(&volume, &content(1));
                pool.sync().expect("sync");
                assert!(armed.has_failed());
                let status = pool.status().expect("status");
                let device = status.find(devices[0].to_str().expect("UTF-8"));
                assert_eq!(device.expect("known").reason, None, "{errno}");
            }
            scrub_finds_nothing(&pool);
            volume.close();
            export(pool);
        },
    );
}
