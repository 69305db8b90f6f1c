//! An open pool: its shared state, and the controls for tests.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use block_device::{ErrorKind, Extent, WaitMode};
use engine::dataset::{DatasetError, DatasetErrorKind, DatasetRef};
use engine::pool::{PoolError, PoolErrorKind};
use engine::transfer::{TransferError, TransferErrorKind};
use units::{PoolName, SnapshotName};

use crate::tree::{Tree, WaitingLog};
use crate::vdevs::Vdevs;
use crate::volume::Home;
use crate::world::World;

/// A failure that a test injects.
#[derive(Clone, Debug)]
pub enum Failure {
    /// Of a call about datasets, snapshots, properties or keys.
    Dataset(DatasetErrorKind),
    /// Of a call about the pool or its devices.
    Pool(PoolErrorKind),
    /// Of a call about streams.
    Transfer(TransferErrorKind),
}

/// The state of a pool.
pub(crate) struct State {
    pub(crate) name: PoolName,
    pub(crate) guid: u64,
    pub(crate) tree: Tree,
    pub(crate) vdevs: Vdevs,
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) history: Vec<u8>,
    pub(crate) note: Option<String>,
    /// The number of the record of its legs.
    pub(crate) record: Option<u64>,
    pub(crate) is_read_only: bool,
    /// Calls that shall fail, in order.
    pub(crate) failures: VecDeque<(&'static str, Failure)>,
    /// Names of calls, in order, as far as recorded.
    pub(crate) calls: Vec<&'static str>,
}

/// The shared state of a pool and its open volumes.
pub(crate) struct Shared {
    pub(crate) world: Arc<World>,
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Condvar,
}

/// A pool in memory. Clones refer to the same pool: tests retain one to inject failures and to read
/// its state.
#[derive(Clone)]
pub struct MemoryPool {
    pub(crate) shared: Arc<Shared>,
    pub(crate) name: PoolName,
}

impl std::fmt::Debug for MemoryPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryPool")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Bytes available to datasets.
    pub(crate) fn capacity(&self) -> u64 {
        // Reserved by every engine for itself.
        const KEPT: u64 = 32;
        let size = self.vdevs.size();
        size - size / KEPT
    }

    /// Returns the space available to `name`.
    pub(crate) fn available(&self, name: &str) -> u64 {
        self.tree.available(name, self.capacity())
    }

    fn next_failure(&mut self, call: &'static str) -> Option<Failure> {
        self.calls.push(call);
        let at = self.failures.iter().position(|(of, _)| *of == call)?;
        self.failures.remove(at).map(|(_, failure)| failure)
    }
}

/// A failure of another kind than the call's own is one of the library.
fn dataset_kind(failure: Failure) -> DatasetErrorKind {
    match failure {
        Failure::Dataset(kind) => kind,
        Failure::Transfer(TransferErrorKind::Dataset(kind)) => kind,
        _ => DatasetErrorKind::Library,
    }
}

impl MemoryPool {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// Begins a call about datasets, which fails if a failure is injected or the name is in another
    /// pool.
    pub(crate) fn begin(
        &self,
        call: &'static str,
        doing: &'static str,
        of: DatasetRef<'_>,
    ) -> Result<MutexGuard<'_, State>, DatasetError> {
        let mut state = self.lock();
        let fail = |kind| Err(DatasetError::new(doing, of.as_str(), kind));
        if let Some(failure) = state.next_failure(call) {
            return fail(dataset_kind(failure));
        }
        match of.pool() == self.name.as_str() {
            true => Ok(state),
            false => fail(DatasetErrorKind::OtherPool),
        }
    }

    /// Like [`Self::begin`], for a modifying call.
    pub(crate) fn begin_change(
        &self,
        call: &'static str,
        doing: &'static str,
        of: DatasetRef<'_>,
    ) -> Result<MutexGuard<'_, State>, DatasetError> {
        let state = self.begin(call, doing, of)?;
        let fail = |kind| Err(DatasetError::new(doing, of.as_str(), kind));
        if state.is_read_only {
            return fail(DatasetErrorKind::ReadOnly);
        }
        // A call that would block on the devices forever is refused.
        match state.vdevs.is_suspended {
            true => fail(DatasetErrorKind::Library),
            false => Ok(state),
        }
    }

    /// As [`Self::begin`], of a call about streams.
    pub(crate) fn begin_transfer(
        &self,
        call: &'static str,
        doing: &'static str,
        of: DatasetRef<'_>,
    ) -> Result<MutexGuard<'_, State>, TransferError> {
        let mut state = self.lock();
        let fail = |kind| Err(TransferError::new(doing, of.as_str(), kind));
        match state.next_failure(call) {
            Some(Failure::Transfer(kind)) => return fail(kind),
            Some(failure) => return fail(TransferErrorKind::Dataset(dataset_kind(failure))),
            None => {}
        }
        match of.pool() == self.name.as_str() {
            true => Ok(state),
            false => fail(TransferErrorKind::Dataset(DatasetErrorKind::OtherPool)),
        }
    }

    /// As [`Self::begin`], of a call about the pool.
    pub(crate) fn begin_pool(
        &self,
        call: &'static str,
        doing: &'static str,
    ) -> Result<MutexGuard<'_, State>, PoolError> {
        let mut state = self.lock();
        match state.next_failure(call) {
            None => Ok(state),
            Some(Failure::Pool(kind)) => Err(self.refused(doing, kind)),
            Some(_) => Err(self.refused(doing, PoolErrorKind::Library)),
        }
    }

    /// Like [`Self::begin_pool`], for a modifying call.
    pub(crate) fn begin_pool_change(
        &self,
        call: &'static str,
        doing: &'static str,
    ) -> Result<MutexGuard<'_, State>, PoolError> {
        let state = self.begin_pool(call, doing)?;
        match (state.is_read_only, state.vdevs.is_suspended) {
            (true, _) => Err(self.refused(doing, PoolErrorKind::ReadOnly)),
            (false, true) => Err(self.refused(doing, PoolErrorKind::Suspended)),
            (false, false) => Ok(state),
        }
    }

    pub(crate) fn refused(&self, doing: &'static str, kind: PoolErrorKind) -> PoolError {
        PoolError::new(doing, self.name.as_str(), kind)
    }

    /// Injects a failure into the next call of the trait method `call`; the call after that succeeds. Several failures
    /// are queued in order.
    pub fn fail_next(&self, call: &'static str, failure: Failure) {
        self.lock().failures.push_back((call, failure));
    }

    /// Returns the names of the trait methods called since the last call of this function, in
    /// order.
    pub fn take_calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.lock().calls)
    }

    /// Writes into a volume, open or not.
    ///
    /// # Panics
    /// If there is no such volume, or it is smaller.
    pub fn write(&self, volume: &str, offset: u64, data: &[u8]) {
        let state = self.lock();
        let dataset = state.tree.get(volume).expect("a volume");
        let mut image = dataset.image().expect("a volume");
        assert!(offset + data.len() as u64 <= image.size, "beyond its end");
        image.write(offset, data);
    }

    /// Reads the contents of a volume, open or not.
    ///
    /// # Panics
    /// If there is no such volume.
    pub fn read(&self, volume: &str, extent: Extent) -> Vec<u8> {
        let state = self.lock();
        let dataset = state.tree.get(volume).expect("a volume");
        dataset.image().expect("a volume").read(extent)
    }

    /// Sets the state of a volume's log, as after a crash.
    ///
    /// # Panics
    /// If there is no such volume.
    pub fn set_log(&self, volume: &str, log: WaitingLog) {
        let mut state = self.lock();
        state.tree.get_mut(volume).expect("a volume").log = log;
    }

    /// Sets whether scans stay active until [`Self::finish_scan`]; otherwise each completes at
    /// once.
    pub fn hold_scans(&self, holds: bool) {
        self.lock().vdevs.holds_scans = holds;
    }
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

impl Home for Shared {
    fn admit(&self, guid: u64, bytes: u64, wait_mode: WaitMode<'_>) -> Result<(), ErrorKind> {
        let mut state = self.lock();
        if state.vdevs.is_suspended {
            if !wait_mode.may_block() {
                return Err(ErrorKind::WouldBlock);
            }
            let waited = self
                .changed
                .wait_while(state, |state| state.vdevs.is_suspended);
            state = waited.expect("no holder panics");
        }
        if state.is_read_only {
            return Err(ErrorKind::ReadOnly);
        }
        state.tree.next_txg();
        let Some((name, _)) = state.tree.by_guid(guid) else {
            return Err(ErrorKind::Gone);
        };
        match bytes == 0 || state.available(name) >= bytes {
            true => Ok(()),
            false => Err(ErrorKind::NoSpace),
        }
    }

    fn roll_back(&self, guid: u64, snapshot: &SnapshotName) -> Result<(), DatasetError> {
        let mut state = self.lock();
        let fail = |kind| DatasetError::new("roll back to", snapshot.as_str(), kind);
        if let Some(failure) = state.next_failure("Paused::rollback") {
            return Err(fail(dataset_kind(failure)));
        }
        let is_it = state.tree.by_guid(guid).map(|(name, _)| name.as_str())
            == Some(snapshot.volume().as_str());
        if snapshot.volume().pool() != state.name {
            return Err(fail(DatasetErrorKind::OtherPool));
        }
        if !is_it {
            return Err(fail(DatasetErrorKind::NotFound));
        }
        state.tree.roll_back(snapshot).map_err(fail)
    }

    fn closed(&self, guid: u64) {
        let mut state = self.lock();
        let name = state.tree.by_guid(guid).map(|(name, _)| name.clone());
        if let Some(dataset) = name.and_then(|name| state.tree.datasets.get_mut(&name)) {
            dataset.is_open = false;
        }
    }
}
