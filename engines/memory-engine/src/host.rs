//! The engine: its disks, the pools on them, and their owners.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use engine::HostId;
use engine::pool::{GroupKind, GroupRole, PoolError, PoolErrorKind, PoolSpec};
use units::PoolName;

use crate::numbers::new_guid;
use crate::pool_properties;
use crate::state::{MemoryPool, Shared, State};
use crate::tree::{Dataset, Tree};
use crate::vdevs::{Trouble, Vdevs, check_groups};
use crate::world::{Disk, Label, LabelState, World};

/// The engine, on one host. Copies are the same host.
#[derive(Clone)]
pub struct MemoryEngine {
    pub(crate) world: Arc<World>,
    /// All pools by their numbers, open or not.
    pools: Arc<Mutex<BTreeMap<u64, Arc<Shared>>>>,
    pub(crate) host: HostId,
    pub(crate) host_name: String,
}

impl Default for MemoryEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryEngine {
    /// A host without disks.
    pub fn new() -> Self {
        Self {
            world: Arc::default(),
            pools: Arc::default(),
            host: HostId(NonZeroU32::MIN),
            host_name: "here".to_owned(),
        }
    }

    /// A host without disks, on which pools have volumes and none of the [optional](engine::Capability) capabilities: the least
    /// that an engine is. Their disks are storage that they do not show.
    pub fn volumes_only() -> Self {
        Self {
            world: Arc::new(World::volumes_only()),
            ..Self::new()
        }
    }

    /// Another host, with the same disks.
    pub fn other_host(&self, number: NonZeroU32, name: &str) -> Self {
        Self {
            world: Arc::clone(&self.world),
            pools: Arc::clone(&self.pools),
            host: HostId(number),
            host_name: name.to_owned(),
        }
    }

    /// Inserts a blank disk of `size` bytes. A disk that was there before is removed with its
    /// contents.
    pub fn insert_disk(&self, path: &str, size: u64) {
        let disk = Disk {
            size,
            is_present: true,
            label: None,
            holds: None,
        };
        self.world.disks().insert(PathBuf::from(path), disk);
    }

    /// Marks a disk as having foreign contents.
    ///
    /// # Panics
    /// If there is no such disk.
    pub fn fill_disk(&self, path: &str, what: &'static str) {
        let mut disks = self.world.disks();
        disks.get_mut(Path::new(path)).expect("a disk").holds = Some(what);
    }

    /// Removes a disk. Pools that need it are suspended.
    pub fn remove_disk(&self, path: &str) {
        self.set_present(path, false);
        let leaves = |state: &mut State| {
            let all = state.vdevs.leaves_mut();
            all.filter(|leaf| leaf.path == Path::new(path))
                .for_each(|leaf| leaf.trouble = Trouble::Missing);
            state.vdevs.notice_losses();
        };
        // The loss of a disk is not recorded in a pool that is not open.
        for shared in self.all(|_| true) {
            leaves(&mut shared.lock());
        }
    }

    /// Inserts the same disk again. A pool uses it only on request.
    pub fn return_disk(&self, path: &str) {
        self.set_present(path, true);
    }

    fn set_present(&self, path: &str, is_present: bool) {
        if let Some(disk) = self.world.disks().get_mut(Path::new(path)) {
            disk.is_present = is_present;
        }
    }

    /// Open pools that belong to a host for which `is_meant`.
    fn all(&self, is_meant: impl Fn(HostId) -> bool) -> Vec<Arc<Shared>> {
        let open = self.world.open();
        let open = open.iter().filter(|(_, host)| is_meant(**host));
        let pools = self.pools();
        open.filter_map(|(guid, _)| pools.get(guid).cloned())
            .collect()
    }

    fn pools(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Shared>>> {
        self.pools.lock().expect("no holder panics")
    }

    /// The pool of that number, open or not.
    pub(crate) fn pool(&self, guid: u64) -> Option<Arc<Shared>> {
        self.pools().get(&guid).cloned()
    }

    /// Stops this host's use of all pools without an export, like a crash.
    pub fn crash(&self) {
        for shared in self.all(|host| host == self.host) {
            let mut state = shared.lock();
            let datasets = state.tree.datasets.values_mut();
            datasets.for_each(|dataset| dataset.is_open = false);
        }
        self.world.open().retain(|_, host| *host != self.host);
    }

    pub(crate) fn own_label(&self, state: &State, written: LabelState) -> Label {
        Label {
            pool_guid: state.guid,
            pool_name: state.name.to_string(),
            state: written,
            host: self.host,
            host_name: self.host_name.clone(),
        }
    }

    pub(crate) fn is_open_here(&self, name: &PoolName) -> bool {
        let here = self.all(|host| host == self.host);
        here.iter().any(|shared| shared.lock().name == *name)
    }

    /// Creates a pool like [`engine::Engine::create`], with the concrete type.
    pub fn create_pool(&self, spec: &PoolSpec) -> Result<MemoryPool, PoolError> {
        let fail = |kind| PoolError::new("create", spec.name.as_str(), kind);
        let world = &self.world;
        world
            .check_all(spec.devices(), None, spec.overwrite)
            .map_err(fail)?;
        check_groups(&spec.groups).map_err(fail)?;
        if !spec
            .groups
            .iter()
            .any(|group| group.role == GroupRole::Data)
        {
            let why = "name at least one device for data".to_owned();
            return Err(fail(PoolErrorKind::Shape { why }));
        }
        let mut properties = Vec::new();
        pool_properties::enable_all(&mut properties);
        for (name, value) in &spec.properties {
            pool_properties::check(name, value, true).map_err(fail)?;
            pool_properties::set(&mut properties, name, value);
        }
        if self.is_open_here(&spec.name) {
            return Err(fail(PoolErrorKind::Exists));
        }
        let mut vdevs = Vdevs::default();
        vdevs.add(&spec.groups, |path| world.size_of(path).unwrap_or(0));
        let mut tree = Tree::default();
        let root = Dataset::new(tree.next_txg(), None);
        tree.datasets.insert(spec.name.to_string(), root);
        let state = State {
            name: spec.name.clone(),
            guid: new_guid(),
            tree,
            vdevs,
            properties,
            history: Vec::new(),
            note: None,
            record: spec.record,
            is_read_only: false,
            failures: VecDeque::new(),
            calls: Vec::new(),
        };
        Ok(self.keep(state))
    }

    fn keep(&self, state: State) -> MemoryPool {
        let (guid, name) = (state.guid, state.name.clone());
        let label = self.own_label(&state, LabelState::Active);
        self.world.label(&state.vdevs, &label);
        let shared = Arc::new(Shared {
            world: Arc::clone(&self.world),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        self.pools().insert(guid, Arc::clone(&shared));
        self.world.open().insert(guid, self.host);
        MemoryPool { shared, name }
    }
}

impl MemoryPool {
    /// Creates a mirror of two disks of 1 GiB each, `/disks/a` and `/disks/b`, with an engine of
    /// its own.
    ///
    /// # Panics
    /// If that is no name of a pool.
    pub fn new(name: &str) -> Self {
        Self::with_engine(name).1
    }

    /// As [`Self::new`], with the engine.
    ///
    /// # Panics
    /// If that is no name of a pool.
    pub fn with_engine(name: &str) -> (MemoryEngine, Self) {
        let engine = MemoryEngine::new();
        let pool = Self::on(&engine, name);
        (engine, pool)
    }

    /// As [`Self::new`], on disks that `engine` gets for it.
    ///
    /// # Panics
    /// If that is no name of a pool.
    pub fn on(engine: &MemoryEngine, name: &str) -> Self {
        const DISK_BYTES: u64 = 1 << 30;
        let disks = ["/disks/a", "/disks/b"];
        disks
            .iter()
            .for_each(|disk| engine.insert_disk(disk, DISK_BYTES));
        let name = name.parse().expect("a name of a pool");
        let spec = PoolSpec::new(name, GroupKind::Mirror, disks.map(PathBuf::from).to_vec());
        engine.create_pool(&spec).expect("two blank disks")
    }
}
