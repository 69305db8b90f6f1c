//! The engine: one for a process, with the shelves that it has open.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use ceph_sys::{CephError, Cluster};
use engine::pool::{
    Candidate, DiscoverError, ImportOptions, PoolError, PoolErrorKind, PoolSpec, SafeToOwn,
};
use engine::{Claimed, Engine, HostId, Pool};
use rustix::fs::FlockOperation;
use units::ByteCount;

use crate::connection::{CLIENT_OPTIONS, READER_OPTIONS};
use crate::records::Number;

/// Called before each request that changes the cluster, with the name of the step. A test kills the process there.
pub type StepProbe = Arc<dyn Fn(&'static str) + Send + Sync>;

/// How an engine starts.
#[derive(Clone)]
pub struct EngineOptions {
    /// The number of this host in shelves.
    pub host_id: HostId,
    /// The name of this host in shelves.
    pub host_name: String,
    /// The user of the cluster, `admin` for `client.admin`.
    pub user: String,
    /// The file with the key of that user; `None` for the one that the configuration of the cluster names.
    pub keyring: Option<PathBuf>,
    /// The directory of the locks by which processes of this host exclude one another. It exists, and is empty after a
    /// boot.
    pub lock_dir: PathBuf,
    /// For tests.
    pub probe: Option<StepProbe>,
}

impl EngineOptions {
    /// The user `admin`, this host's name, and locks in `lock_dir`.
    pub fn new(host_id: HostId, lock_dir: PathBuf) -> Self {
        Self {
            host_id,
            host_name: units::host_name(),
            user: "admin".to_owned(),
            keyring: None,
            lock_dir,
            probe: None,
        }
    }
}

impl std::fmt::Debug for EngineOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineOptions")
            .field("host_id", &self.host_id)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// The location of a shelf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// The configuration file of the cluster.
    pub(crate) conf: PathBuf,
    pub(crate) pool: String,
    pub(crate) namespace: String,
}

/// The lock of a shelf among the processes of this host.
#[derive(Debug)]
pub(crate) struct HostLock(#[expect(dead_code, reason = "closing it releases the lock")] File);

/// The state that shelves share.
pub(crate) struct Shared {
    pub(crate) options: EngineOptions,
    locks: Mutex<BTreeMap<Number, Weak<HostLock>>>,
    /// The shelves that this process has open, by number.
    open: Mutex<BTreeMap<Number, String>>,
}

/// Ceph as a storage engine. The paths to search ([`Engine::discover`]) are configuration files of clusters. The
/// properties of a [`PoolSpec`] are `cluster` (that file), `pool` and `namespace`; the namespace is created.
#[derive(Clone)]
pub struct CephEngine(pub(crate) Arc<Shared>);

impl CephEngine {
    /// Starts the engine. Connects to no cluster.
    pub fn start(options: EngineOptions) -> Self {
        Self(Arc::new(Shared {
            options,
            locks: Mutex::default(),
            open: Mutex::default(),
        }))
    }
}

impl Shared {
    /// A new client of a cluster. Each shelf has a client of its own, which the blocklist names.
    pub(crate) fn connect(&self, conf: &Path) -> Result<Arc<Cluster>, CephError> {
        self.connect_with(conf, CLIENT_OPTIONS)
    }

    /// A client that only reads, with a time-out for each request.
    pub(crate) fn connect_to_read(&self, conf: &Path) -> Result<Arc<Cluster>, CephError> {
        let options = [CLIENT_OPTIONS, READER_OPTIONS].concat();
        self.connect_with(conf, &options)
    }

    fn connect_with(
        &self,
        conf: &Path,
        options: &[(&str, &str)],
    ) -> Result<Arc<Cluster>, CephError> {
        let mut options = options.to_vec();
        let keyring = self
            .options
            .keyring
            .as_ref()
            .map(|path| path.to_string_lossy());
        options.extend(keyring.iter().map(|path| ("keyring", path.as_ref())));
        Cluster::connect(conf, &self.options.user, &options)
    }

    /// Acquires the lock of a shelf, which a proof and its claim share. `None` if another process has it.
    pub(crate) fn host_lock(&self, shelf: Number) -> std::io::Result<Option<Arc<HostLock>>> {
        let mut locks = self.locks.lock().expect("no holder panics");
        if let Some(held) = locks.get(&shelf).and_then(Weak::upgrade) {
            return Ok(Some(held));
        }
        let path = self.options.lock_dir.join(format!("ceph-{shelf}.lock"));
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let held = Arc::new(HostLock(file));
        locks.insert(shelf, Arc::downgrade(&held));
        Ok(Some(held))
    }

    pub(crate) fn open_shelves(&self) -> MutexGuard<'_, BTreeMap<Number, String>> {
        self.open.lock().expect("no holder panics")
    }
}

impl Engine for CephEngine {
    fn host_id(&self) -> HostId {
        self.0.options.host_id
    }

    fn cache_bytes(&self) -> (ByteCount, ByteCount) {
        (ByteCount(0), ByteCount(0))
    }

    fn create(&self, spec: &PoolSpec) -> Result<Box<dyn Pool>, PoolError> {
        Ok(Box::new(self.create_shelf(spec)?))
    }

    fn discover(&self, places: &[PathBuf]) -> Result<Vec<Candidate>, DiscoverError> {
        let mut found = Vec::new();
        for place in places {
            found.extend(self.found_in(place)?);
        }
        Ok(found)
    }

    fn same_host_and_locked(&self, candidate: &Candidate) -> Result<SafeToOwn, PoolError> {
        const DOING: &str = "import";
        let fail = |kind| Err(PoolError::new(DOING, &candidate.name, kind));
        if candidate.host_id != Some(self.0.options.host_id.0.get()) {
            return fail(PoolErrorKind::ActiveElsewhere);
        }
        let guid = Number(candidate.guid);
        if self.0.open_shelves().contains_key(&guid) {
            return fail(PoolErrorKind::Exists);
        }
        let locked = self.0.host_lock(guid).map_err(|error| {
            let why = format!(
                "its lock in {} cannot be acquired: {error}",
                self.0.options.lock_dir.display()
            );
            crate::errors::shape(DOING, &candidate.name, why)
        })?;
        match locked {
            Some(lock) => Ok(SafeToOwn::same_host_and_locked(candidate, lock)),
            None => fail(PoolErrorKind::Busy),
        }
    }

    fn refuse_last_owner(&self, candidate: &Candidate) -> Option<Result<SafeToOwn, PoolError>> {
        Some(self.blocklisted(candidate))
    }

    fn claim<'a>(
        &self,
        candidate: &'a Candidate,
        proof: SafeToOwn,
        options: &'a ImportOptions,
    ) -> Result<Box<dyn Claimed + 'a>, PoolError> {
        Ok(Box::new(self.claimed(candidate, proof, options)?))
    }
}
