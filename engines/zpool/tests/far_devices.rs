//! A mirror reads from a device of another host only data that no nearer one returns, unless reads are balanced.

mod volume_support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block_device::{BlockDevice, Extent, WaitMode};
use engine::Volume as _;
use engine::capabilities::{Datasets, Health, Upkeep};
use engine::dataset::VolumeSpec;
use engine::pool::{GroupKind, ImportOptions, PoolSpec, ReadBalancing, ScanState, ScrubCommand};
use engine::volume::OpenOptions;
use units::ByteCount;
use volume_support::{disk_files, read, volume_name};
use zpool::device::faults::{Fault, Faults};
use zpool::device::{Access, Device, DeviceIo, Driver, IoKind, OpenFailure, Shape, Wrap};
use zpool::pool::discover;
use zpool::{Engine, EngineOptions, HostId, Pool, Volume};

const FAR: &str = "disk1";
const VOLUME: &str = "tank/volume";
const BLOCK: u64 = 32 << 10;
const BYTES: u64 = 64 << 20;
/// Concurrent clients, so that the near device always has a longer queue than the far one.
const CLIENTS: u64 = 16;

/// Reads of the near device and of the far one.
#[derive(Default)]
struct Reads {
    near: AtomicU64,
    far: AtomicU64,
}

/// Files, one of which simulates a device of another host.
struct FarDriver {
    inner: Arc<dyn Driver>,
    reads: Arc<Reads>,
}

impl Driver for FarDriver {
    fn open(&self, path: &Path, guid: u64, access: Access) -> Result<Arc<dyn Device>, OpenFailure> {
        Ok(Arc::new(CountedDevice {
            inner: self.inner.open(path, guid, access)?,
            far: path.ends_with(FAR),
            reads: Arc::clone(&self.reads),
        }))
    }
}

struct CountedDevice {
    inner: Arc<dyn Device>,
    far: bool,
    reads: Arc<Reads>,
}

impl Device for CountedDevice {
    fn shape(&self) -> Result<Shape, OpenFailure> {
        let shape = self.inner.shape()?;
        Ok(Shape {
            far: self.far,
            ..shape
        })
    }

    fn submit(&self, io: DeviceIo) {
        if io.kind() == IoKind::Read {
            let count = match self.far {
                true => &self.reads.far,
                false => &self.reads.near,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.submit(io);
    }
}

/// Contents of a block: noise, or it would be compressed.
fn block(number: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number);
    std::iter::repeat_with(|| random.u64(..))
        .take(BLOCK as usize / 8)
        .flat_map(u64::to_le_bytes)
        .collect()
}

/// Closes the pool and opens it again: its data is not cached.
fn anew(engine: &'static Engine, dir: &Path, pool: Pool) -> (Pool, Volume) {
    pool.export().map_err(|(_, error)| error).expect("export");
    let found = discover(&[dir.to_owned()]).expect("scan");
    let [candidate] = &found[..] else {
        panic!("{found:?}")
    };
    let proof = zpool::pool::same_host_and_locked(engine, candidate).expect("exported");
    let pool = Pool::import(engine, candidate, proof, &ImportOptions::default()).expect("import");
    let volume = pool.open_volume(&volume_name(VOLUME), OpenOptions::default());
    (pool, volume.expect("the volume opens"))
}

fn read_all(volume: &Volume) {
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for number in (client..BYTES / BLOCK).step_by(CLIENTS as usize) {
                    let found = read(volume, Extent::new(number * BLOCK, BLOCK));
                    assert!(found == block(number), "block {number}");
                }
            });
        }
    });
}

#[test]
fn remote_leg_is_read_on_local_errors_and_by_scrubs() {
    let dir = tempfile::tempdir().expect("temporary dir");
    let devices: Vec<PathBuf> = disk_files(dir.path(), 2, 256 << 20);
    let (faults, reads) = (Faults::new(), Arc::<Reads>::default());
    let mut options = EngineOptions::new(HostId::derive("test", "tank"));
    options.arc_bytes_max = ByteCount::mib(128);
    let (inside, counted) = (faults.wrap(), Arc::clone(&reads));
    let wrap: Wrap = Arc::new(move |files| {
        let (inner, reads) = (inside(files), Arc::clone(&counted));
        Arc::new(FarDriver { inner, reads })
    });
    options.devices.wrap = Some(wrap);
    let engine = Engine::start(options).expect("the engine starts");
    let far_reads = || reads.far.load(Ordering::Relaxed);
    let near_reads = || reads.near.load(Ordering::Relaxed);

    let name = "tank".parse().expect("a pool name");
    let spec = PoolSpec::new(name, GroupKind::Mirror, devices.clone());
    let pool = Pool::create(engine, &spec).expect("the pool is created");
    let mut spec = VolumeSpec::sparse(volume_name(VOLUME), ByteCount(BYTES));
    spec.block_size = ByteCount(BLOCK);
    pool.create_volume(&spec).expect("the volume is created");
    let volume = pool.open_volume(&volume_name(VOLUME), OpenOptions::default());
    let volume = volume.expect("the volume opens");
    for number in 0..BYTES / BLOCK {
        let written = volume.write(number * BLOCK, &block(number), WaitMode::MayBlock);
        written.expect("write");
    }
    volume.flush().expect("flush");
    volume.close();

    let (pool, volume) = anew(engine, dir.path(), pool);
    let (far_before, near_before) = (far_reads(), near_reads());
    read_all(&volume);
    // A read is 1 MiB at most.
    assert!(near_reads() - near_before >= BYTES >> 20, "it was cached");
    assert_eq!(far_reads() - far_before, 0, "reads of the far device");
    volume.close();

    // The near one has a queue. The far one is read in addition only on request.
    let (pool, volume) = anew(engine, dir.path(), pool);
    let slow = Fault {
        delay: Duration::from_millis(1),
        ..Fault::default()
    };
    faults.set(&devices[0], slow);
    let before = far_reads();
    read_all(&volume);
    assert_eq!(far_reads() - before, 0, "reads of the far device");
    volume.close();
    let (pool, volume) = anew(engine, dir.path(), pool);
    pool.balance_reads(ReadBalancing::LeastPending);
    let (far_before, near_before) = (far_reads(), near_reads());
    read_all(&volume);
    assert!(far_reads() > far_before, "the far device has no queue");
    assert!(near_reads() > near_before, "the near device is used, too");
    volume.close();
    let (pool, volume) = anew(engine, dir.path(), pool);
    pool.balance_reads(ReadBalancing::PreferLocal);
    let before = far_reads();
    read_all(&volume);
    assert_eq!(far_reads() - before, 0, "reads of the far device");
    faults.lift(&devices[0]);
    volume.close();

    // The near one returns wrong data, and the far one has the right data.
    let (pool, volume) = anew(engine, dir.path(), pool);
    let corrupt = Fault {
        reads_corrupt: true,
        ..Fault::default()
    };
    faults.set(&devices[0], corrupt);
    let before = far_reads();
    for number in 0..4 {
        let found = read(&volume, Extent::new(number * BLOCK, BLOCK));
        assert!(found == block(number), "block {number}");
    }
    assert!(far_reads() > before, "no read reached the far device");
    faults.lift(&devices[0]);
    volume.close();
    pool.clear(None).expect("clear");

    let before = far_reads();
    pool.scrub(ScrubCommand::Start).expect("scrub");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let is_over = || {
        let scan = pool.status().expect("status").scan;
        scan.is_some_and(|scan| scan.state == ScanState::Finished)
    };
    while !is_over() {
        assert!(
            std::time::Instant::now() < deadline,
            "the scrub does not end"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(
        far_reads() - before >= BYTES >> 20,
        "scrubbed without the far device"
    );
    pool.export().map_err(|(_, error)| error).expect("export");
}
