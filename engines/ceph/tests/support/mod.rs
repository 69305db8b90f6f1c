//! Shelves on a real cluster, which `python3 -m proof.ceph` creates and names in the environment.

#![allow(dead_code, reason = "each test uses some of it")]

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use block_device::{BlockDevice, Extent, WaitMode};
use ceph::{CephEngine, EngineOptions, StepProbe};
use ceph_sys::{Cluster, Namespace};
use engine::dataset::VolumeSpec;
use engine::pool::{Candidate, GroupKind, ImportOptions, PoolSpec, SafeToOwn};
use engine::{Engine, HostId, Pool};
use units::{ByteCount, SnapshotName, VolumeName};

pub const MIB: u64 = 1 << 20;
/// The longest wait for an event.
pub const DEADLINE: Duration = Duration::from_secs(60);
/// Time between two checks for an event in the cluster.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The configuration file of the cluster.
pub fn conf() -> PathBuf {
    let path = std::env::var_os("BULKHEAD_CEPH_CONF");
    path.expect("BULKHEAD_CEPH_CONF names the cluster: run python3 -m proof.ceph")
        .into()
}

/// The seed of this run, printed: `BULKHEAD_SEED` replays it.
pub fn seed() -> u64 {
    use std::io::Write as _;
    let given = std::env::var("BULKHEAD_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    writeln!(std::io::stderr(), "BULKHEAD_SEED={seed}").expect("printed");
    seed
}

/// An engine of the host with this number.
pub fn engine(host: u32, lock_dir: &Path, probe: Option<StepProbe>) -> CephEngine {
    let number = NonZeroU32::new(host).expect("not zero");
    let mut options = EngineOptions::new(HostId(number), lock_dir.to_owned());
    // A user with the rights that the documentation names.
    "bulkhead".clone_into(&mut options.user);
    options.probe = probe;
    CephEngine::start(options)
}

/// A name of a namespace that no earlier test used.
pub fn fresh(title: &str) -> String {
    format!("{title}-{:08x}", fastrand::u32(..))
}

pub fn spec(name: &str, pool: &str, namespace: &str) -> PoolSpec {
    let mut spec = PoolSpec::new(name.parse().expect("a name"), GroupKind::Stripe, Vec::new());
    let conf = conf().to_string_lossy().into_owned();
    spec.properties = [
        ("cluster", conf.as_str()),
        ("pool", pool),
        ("namespace", namespace),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    spec
}

/// A new shelf `tank` in a namespace of its own, open, with the engine and the directory of its locks.
pub struct Scratch {
    pub engine: CephEngine,
    pub pool: Option<Box<dyn Pool>>,
    pub namespace: String,
    pub rados_pool: &'static str,
    pub locks: tempfile::TempDir,
}

impl Scratch {
    pub fn new(title: &str, rados_pool: &'static str) -> Self {
        let locks = tempfile::tempdir().expect("a directory");
        let engine = engine(1, locks.path(), None);
        let namespace = fresh(title);
        let pool = engine
            .create(&spec("tank", rados_pool, &namespace))
            .expect("a shelf");
        Self {
            engine,
            pool: Some(pool),
            namespace,
            rados_pool,
            locks,
        }
    }

    pub fn pool(&self) -> &dyn Pool {
        self.pool.as_deref().expect("open")
    }

    pub fn export(&mut self) {
        let pool = self.pool.take().expect("open");
        pool.export().map_err(|(_, error)| error).expect("exported");
    }

    pub fn destroy(&mut self) {
        let pool = self.pool.take().expect("open");
        pool.destroy()
            .map_err(|(_, error)| error)
            .expect("destroyed");
    }

    /// The shelf as any host finds it.
    pub fn candidate(&self) -> Candidate {
        candidate(&self.engine, &self.namespace)
    }

    /// Claims the shelf of a previous owner, by the blocklist.
    pub fn take_over(&mut self) {
        let candidate = self.candidate();
        let proof = self
            .engine
            .refuse_last_owner(&candidate)
            .expect("it can")
            .expect("refused");
        assert!(proof.refused_from().is_some());
        let pool = self
            .engine
            .import(&candidate, proof, &ImportOptions::default());
        self.pool = Some(pool.expect("claimed"));
    }

    /// The names of the images in the cluster.
    pub fn images(&self) -> Vec<String> {
        let cluster = Cluster::connect(&conf(), "admin", &[]).expect("connected");
        let namespace = Namespace::open(&cluster, self.rados_pool, &self.namespace).expect("open");
        namespace.images().expect("listed")
    }

    /// Blocks until no more than `count` images are left.
    pub fn wait_until_collected(&self, count: usize) {
        wait_until("discarded images are removed", || {
            self.images().len() <= count
        });
    }

    pub fn create(&self, name: &str, size: u64) -> VolumeName {
        let name = volume(name);
        let spec = VolumeSpec::sparse(name.clone(), ByteCount(size));
        self.pool().create_volume(&spec).expect("a volume");
        name
    }
}

/// The number of the shelf in `namespace`: two shelves can have the same name.
fn guid(namespace: &str) -> Option<u64> {
    let cluster = Cluster::connect(&conf(), "admin", &[]).expect("connected");
    ["rbd", "small", "full"].iter().find_map(|pool| {
        let namespace = Namespace::open(&cluster, pool, namespace).ok()?;
        let entries = namespace
            .entries(ceph::SHELF_OBJECT, 1 << 20, 1 << 28)
            .ok()?;
        let document: serde_json::Value = serde_json::from_slice(entries.get("shelf")?).ok()?;
        u64::from_str_radix(document["guid"].as_str()?, 16).ok()
    })
}

/// The shelf in `namespace`, as any host finds it.
pub fn candidate(engine: &CephEngine, namespace: &str) -> Candidate {
    let guid = guid(namespace).expect("a shelf in this namespace");
    let found = engine.discover(&[conf()]).expect("searched");
    found
        .into_iter()
        .find(|one| one.guid == guid)
        .expect("found")
}

/// Destroys an exported shelf that a scenario left in `namespace`.
pub fn destroy_left(engine: &CephEngine, namespace: &str) {
    if guid(namespace).is_none() {
        return;
    }
    let candidate = candidate(engine, namespace);
    let proof = SafeToOwn::exported(&candidate).expect("exported");
    let pool = engine
        .import(&candidate, proof, &ImportOptions::default())
        .expect("imported");
    pool.destroy()
        .map_err(|(_, error)| error)
        .expect("destroyed");
}

pub fn wait_until(event: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_true() {
        assert!(Instant::now() < deadline, "not in {DEADLINE:?}: {event}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

pub fn volume(name: &str) -> VolumeName {
    name.parse().expect("a name of a volume")
}

pub fn snapshot(name: &str) -> SnapshotName {
    name.parse().expect("a name of a snapshot")
}

pub fn read(device: &dyn BlockDevice, extent: Extent) -> Vec<u8> {
    let loan = device.read(extent, WaitMode::MayBlock).expect("read");
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    parts.concat()
}

/// The contents are one byte all over, which is returned.
pub fn only_byte(device: &dyn BlockDevice, size: u64) -> u8 {
    let bytes = read(device, Extent::new(0, size));
    let first = bytes[0];
    let differs = bytes.iter().position(|byte| *byte != first);
    assert_eq!(differs, None, "not the same byte all over");
    first
}

pub fn fill(device: &dyn BlockDevice, size: u64, byte: u8) {
    for at in (0..size).step_by(MIB as usize) {
        let part = vec![byte; MIB.min(size - at) as usize];
        device
            .write(at, &part, WaitMode::MayBlock)
            .expect("written");
    }
}
