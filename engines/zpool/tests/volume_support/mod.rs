//! A scratch pool for the tests of volumes, and the check of its disks by the stock `zdb`. Each
//! test binary has one test, since a process has one engine.

#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use block_device::{BlockDevice, Extent, WaitMode};
use engine::capabilities::Datasets;
use engine::dataset::VolumeSpec;
use engine::pool::{GroupKind, PoolSpec};
use engine::volume::OpenOptions;
use units::{ByteCount, VolumeName};
use zpool::device::{Access, Device, DeviceIo, Driver, OpenFailure, Shape};
use zpool::{Engine, EngineOptions, HostId, Pool, Volume};

/// A pool on files that are removed with it.
pub struct Scratch {
    pub dir: tempfile::TempDir,
    pub pool: Pool,
}

pub fn start_engine() -> &'static Engine {
    let mut options = EngineOptions::new(HostId::derive("test", "tank"));
    options.arc_bytes_max = ByteCount::mib(256);
    options.dirty_bytes_max = ByteCount::mib(128);
    Engine::start(options).expect("the engine starts")
}

type See = Arc<dyn Fn(&DeviceIo) + Send + Sync>;

struct WatchedDriver {
    inner: Arc<dyn Driver>,
    see: See,
}

impl Driver for WatchedDriver {
    fn open(&self, path: &Path, guid: u64, access: Access) -> Result<Arc<dyn Device>, OpenFailure> {
        Ok(Arc::new(WatchedDevice {
            inner: self.inner.open(path, guid, access)?,
            see: Arc::clone(&self.see),
        }))
    }
}

struct WatchedDevice {
    inner: Arc<dyn Device>,
    see: See,
}

impl Device for WatchedDevice {
    fn shape(&self) -> Result<Shape, OpenFailure> {
        self.inner.shape()
    }

    fn submit(&self, io: DeviceIo) {
        (self.see)(&io);
        self.inner.submit(io);
    }
}

/// Passes each I/O to `see`, on the thread that submits it to a device.
pub fn watch_devices(options: &mut EngineOptions, see: impl Fn(&DeviceIo) + Send + Sync + 'static) {
    let see: See = Arc::new(see);
    options.devices.wrap = Some(Arc::new(move |inner| {
        let see = Arc::clone(&see);
        Arc::new(WatchedDriver { inner, see })
    }));
}

pub fn disk_files(dir: &Path, count: usize, bytes: u64) -> Vec<PathBuf> {
    (0..count)
        .map(|n| {
            let path = dir.join(format!("disk{n}"));
            let file = std::fs::File::create(&path).expect("create a disk file");
            file.set_len(bytes).expect("size a disk file");
            path
        })
        .collect()
}

impl Scratch {
    pub fn new(bytes: u64) -> Self {
        let dir = tempfile::tempdir().expect("temporary dir");
        Self::in_dir(dir, bytes)
    }

    pub fn in_dir(dir: tempfile::TempDir, bytes: u64) -> Self {
        let devices = disk_files(dir.path(), 1, bytes);
        let name = "tank".parse().expect("a pool name");
        let spec = PoolSpec::new(name, GroupKind::Stripe, devices);
        let pool = Pool::create(start_engine(), &spec).expect("the pool is created");
        Self { dir, pool }
    }

    /// A sparse volume, open.
    pub fn volume(&self, name: &str, size: u64, block_size: u64) -> Volume {
        let name = volume_name(name);
        let mut spec = VolumeSpec::sparse(name.clone(), ByteCount(size));
        spec.block_size = ByteCount(block_size);
        self.pool
            .create_volume(&spec)
            .expect("the volume is created");
        self.open(&name)
    }

    pub fn open(&self, name: &VolumeName) -> Volume {
        self.pool
            .open_volume(name, OpenOptions::default())
            .expect("the volume opens")
    }

    /// Exports the pool and has the stock `zdb` read and check every block of it.
    pub fn export_and_judge(self) {
        self.pool.export().map_err(|(_, e)| e).expect("export");
        judge(self.dir.path());
    }
}

pub fn judge(dir: &Path) {
    let output = Command::new("zdb")
        .args(["-e", "-p"])
        .arg(dir)
        .args(["-bcc", "tank"])
        .output()
        .expect("zdb is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("No leaks"),
        "zdb finds fault: {output:?}"
    );
}

pub fn volume_name(text: &str) -> VolumeName {
    text.parse().expect("a volume name")
}

/// Reads as a server does: at once if possible, otherwise on a thread that may block.
pub fn read(device: &dyn BlockDevice, extent: Extent) -> Vec<u8> {
    let loan = device
        .read(extent, WaitMode::NoWait)
        .or_else(|_| device.read(extent, WaitMode::MayBlock))
        .expect("read");
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    let bytes = parts.concat();
    assert_eq!(bytes.len(), loan.byte_count());
    bytes
}

/// A seed from the environment, else a new one; printed so that a failure can be replayed.
pub fn seed() -> u64 {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    // Test output is shown when a test fails.
    #[allow(clippy::print_stdout)]
    {
        println!("replay with SEED={seed}");
    }
    seed
}
