//! One write fails on one leg of a mirror, which answers well before and after it. The library counts the write as done, because the other
//! leg took it, and does not note where it is missing.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block_device::{BlockDevice, WaitMode};
use engine::Volume as _;
use engine::capabilities::{Datasets, Health as _, Ownership as _};
use engine::dataset::VolumeSpec;
use engine::pool::{ScanKind, ScanState};
use engine::volume::OpenOptions;
use rustix::io::Errno;
use support::{disks, export, isolated, mirror, options, scrub_finds_nothing, wait_until};
use units::{ByteCount, VolumeName};
use zpool::Engine;
use zpool::device::{Access, Device, DeviceIo, Driver, IoKind, OpenFailure, Place, Shape};

const BLOCK: usize = 16 << 10;
const LEG: &str = "a";

/// Fails the next long write to one leg, once it is told to.
struct FailingDriver {
    inner: Arc<dyn Driver>,
    fails: Arc<AtomicBool>,
}

impl Driver for FailingDriver {
    fn open(&self, path: &Path, guid: u64, access: Access) -> Result<Arc<dyn Device>, OpenFailure> {
        let inner = self.inner.open(path, guid, access)?;
        let fails = Arc::clone(&self.fails);
        Ok(match path.ends_with(LEG) {
            true => Arc::new(FailingDevice { inner, fails }),
            false => inner,
        })
    }
}

struct FailingDevice {
    inner: Arc<dyn Device>,
    fails: Arc<AtomicBool>,
}

impl Device for FailingDevice {
    fn shape(&self) -> Result<Shape, OpenFailure> {
        self.inner.shape()
    }

    fn submit(&self, io: DeviceIo) {
        let is_meant = io.kind() == IoKind::Write && io.length() >= BLOCK;
        match is_meant && self.fails.swap(false, Ordering::AcqRel) {
            true => io.complete(Err(Errno::IO), Place::Elsewhere),
            false => self.inner.submit(io),
        }
    }
}

fn name() -> VolumeName {
    "tank/v".parse().expect("a name")
}

fn content() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    std::iter::repeat_with(|| random.u8(..))
        .take(BLOCK)
        .collect()
}

#[test]
fn what_a_leg_failed_to_write_is_copied_to_it() {
    isolated("what_a_leg_failed_to_write_is_copied_to_it", || {
        let fails = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&fails);
        let mut options = options();
        options.devices.wrap = Some(Arc::new(move |inner| {
            let fails = Arc::clone(&told);
            Arc::new(FailingDriver { inner, fails })
        }));
        let engine = Engine::start(options).expect("start");
        let pool = mirror(engine, &disks(&[LEG, "b"]));
        let spec = VolumeSpec::sparse(name(), ByteCount::mib(16));
        pool.create_volume(&spec).expect("create a volume");
        let opened = pool.open_volume(&name(), OpenOptions::default());
        let volume = opened.expect("open the volume");
        pool.sync().expect("sync");
        fails.store(true, Ordering::Release);
        let written = volume.write(0, &content(), WaitMode::MayBlock);
        written.expect("write");
        pool.sync().expect("sync");
        assert!(!fails.load(Ordering::Acquire), "a write has failed");
        wait_until("the leg has it", || {
            let scan = pool.status().expect("status").scan;
            scan.is_some_and(|scan| {
                scan.kind == ScanKind::Resilver && scan.state == ScanState::Finished
            })
        });
        scrub_finds_nothing(&pool);
        volume.close();
        export(pool);
    });
}
