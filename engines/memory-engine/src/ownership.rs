//! The ownership of a pool in memory: claimed, opened, exported, destroyed.

use std::path::PathBuf;
use std::sync::Arc;

use engine::capabilities::Ownership;
use engine::pool::{
    Candidate, DiscoverError, GroupRole, ImportOptions, PoolError, PoolErrorKind, PoolSpec,
    Previous, SafeToOwn,
};
use engine::{Claimed, Engine, HostId, Optional, Pool};
use units::{ByteCount, PoolName};

use crate::discovery::Found;
use crate::host::MemoryEngine;
use crate::state::{MemoryPool, Shared, State};
use crate::vdevs::{Group, Trouble};
use crate::world::{Label, LabelState};

const IMPORT: &str = "import";

impl MemoryEngine {
    /// Returns the host that has the pool open.
    fn owner(&self, guid: u64) -> Option<HostId> {
        self.world.open().get(&guid).copied()
    }

    pub(crate) fn proof_by_locks(&self, candidate: &Candidate) -> Result<SafeToOwn, PoolError> {
        let fail = |kind| Err(PoolError::new(IMPORT, &candidate.name, kind));
        if candidate.host_id != Some(self.host.0.get()) {
            return fail(PoolErrorKind::ActiveElsewhere);
        }
        match self.owner(candidate.guid) {
            Some(_) => fail(in_use(candidate)),
            None => Ok(SafeToOwn::same_host_and_locked(candidate, ())),
        }
    }
}

fn in_use(candidate: &Candidate) -> PoolErrorKind {
    let path = candidate
        .devices
        .all
        .first()
        .map(|device| device.path.clone());
    PoolErrorKind::DeviceInUse {
        path: path.unwrap_or_default(),
        by: "another process".to_owned(),
    }
}

/// A pool with disks that this host has claimed.
pub(crate) struct ClaimedPool<'a> {
    engine: MemoryEngine,
    candidate: &'a Candidate,
    proof: SafeToOwn,
    options: &'a ImportOptions,
    name: PoolName,
}

impl<'a> ClaimedPool<'a> {
    pub(crate) fn new(
        engine: &MemoryEngine,
        candidate: &'a Candidate,
        proof: SafeToOwn,
        options: &'a ImportOptions,
    ) -> Result<Self, PoolError> {
        assert_eq!(
            proof.pool_guid(),
            candidate.guid,
            "proof about another pool"
        );
        let fail = |kind| PoolError::new(IMPORT, &candidate.name, kind);
        let name = match &options.rename {
            Some(name) => name.clone(),
            None => candidate.name.parse().map_err(|_| {
                let why = "its name is not valid here: import it under a different name".to_owned();
                fail(PoolErrorKind::Shape { why })
            })?,
        };
        if let Some(kind) = PoolErrorKind::against(&candidate.devices.legs, options) {
            return Err(fail(kind));
        }
        if engine.owner(candidate.guid) == Some(engine.host) {
            return Err(fail(in_use(candidate)));
        }
        if shared_of(candidate).lock().tree.txg > candidate.detail.get::<Found>().txg {
            return Err(fail(PoolErrorKind::Changed));
        }
        Ok(Self {
            engine: engine.clone(),
            candidate,
            proof,
            options,
            name,
        })
    }

    /// Whether the owner, if there is one, may be passed over.
    fn check_owner(&self) -> Result<(), PoolErrorKind> {
        let is_void = |owner: HostId| match self.proof.previous() {
            Previous::AllHosts => true,
            Previous::Host(host) => host == owner,
            Previous::NoHost => false,
        };
        match self.engine.owner(self.candidate.guid) {
            Some(owner) if !is_void(owner) => Err(PoolErrorKind::ActiveElsewhere),
            _ => Ok(()),
        }
    }

    fn check_devices(&self, state: &mut State) -> Result<(), PoolErrorKind> {
        let present = self.engine.world.present();
        for leaf in state.vdevs.leaves_mut() {
            match (present.contains(&leaf.path), leaf.trouble) {
                (false, _) => leaf.trouble = Trouble::Missing,
                (true, Trouble::Missing | Trouble::Offline(true)) => leaf.trouble = Trouble::None,
                (true, _) => {}
            }
        }
        if !state.vdevs.are_enough() {
            let missing = self.candidate.devices.legs.missing_paths();
            let missing: Vec<String> = missing
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            let missing = missing.join(", ");
            return Err(PoolErrorKind::DevicesMissing { missing });
        }
        let logs = state
            .vdevs
            .groups
            .iter()
            .filter(|group| group.role == GroupRole::Log);
        let may_lose_logs = |word| self.candidate.devices.legs.may_lose_logs(word);
        let without_log =
            self.options.without_log || self.options.word.as_ref().is_some_and(may_lose_logs);
        match without_log || logs.into_iter().all(Group::is_whole) {
            true => Ok(()),
            false => Err(PoolErrorKind::LogMissing),
        }
    }
}

fn shared_of(candidate: &Candidate) -> &Arc<Shared> {
    &candidate.detail.get::<Found>().shared
}

impl Claimed for ClaimedPool<'_> {
    fn is_certain(&self) -> bool {
        !self.proof.needs_activity_check()
    }

    fn note(&self) -> Option<&str> {
        self.candidate.note.as_deref()
    }

    fn open(self: Box<Self>) -> Result<Box<dyn Pool>, PoolError> {
        let fail = |kind| PoolError::new(IMPORT, &self.candidate.name, kind);
        if self.engine.is_open_here(&self.name) {
            return Err(fail(PoolErrorKind::Exists));
        }
        self.check_owner().map_err(fail)?;
        let shared = Arc::clone(shared_of(self.candidate));
        {
            let mut state = shared.lock();
            self.check_devices(&mut state).map_err(fail)?;
            state.rename_pool(&self.name);
            state.is_read_only = self.options.read_only;
            let record = self.options.record.as_ref();
            state.record = record
                .map(|record| record.number)
                .filter(|number| *number != 0);
            state.vdevs.is_suspended = false;
            // Loaded keys are lost when the pool is closed.
            state.forget_keys();
            state
                .tree
                .datasets
                .values_mut()
                .for_each(|dataset| dataset.is_open = false);
            state.tree.next_txg();
            if !self.options.read_only {
                let label = self.engine.own_label(&state, LabelState::Active);
                self.engine.world.label(&state.vdevs, &label);
            }
        }
        let mut open = self.engine.world.open();
        open.insert(self.candidate.guid, self.engine.host);
        drop(open);
        Ok(Box::new(MemoryPool {
            shared,
            name: self.name,
        }))
    }
}

impl State {
    fn rename_pool(&mut self, name: &PoolName) {
        let old = std::mem::replace(&mut self.name, name.clone());
        if old == *name {
            return;
        }
        let datasets = std::mem::take(&mut self.tree.datasets).into_iter();
        let renamed =
            datasets.map(|(at, dataset)| (format!("{name}{}", &at[old.as_str().len()..]), dataset));
        self.tree.datasets = renamed.collect();
    }

    fn forget_keys(&mut self) {
        let keys = self
            .tree
            .datasets
            .values_mut()
            .filter_map(|dataset| dataset.encryption.as_mut());
        let own = keys.filter_map(|key| key.own.as_mut());
        own.for_each(|key| key.is_loaded = false);
    }
}

impl MemoryPool {
    /// Closes the pool, and records how in the labels.
    fn end(
        &self,
        call: &'static str,
        doing: &'static str,
        written: LabelState,
    ) -> Result<(), PoolError> {
        drop(self.begin_pool(call, doing)?);
        if self.shared.is_in_use() {
            return Err(self.refused(doing, PoolErrorKind::Busy));
        }
        let world = &self.shared.world;
        let state = self.lock();
        let leaf = state.vdevs.leaves().next().map(|leaf| leaf.path.clone());
        let label = leaf.and_then(|path| world.disks().get(&path)?.label.clone());
        if let Some(label) = label {
            let label = Label {
                state: written,
                ..label
            };
            world.label(&state.vdevs, &label);
        }
        world.open().remove(&state.guid);
        Ok(())
    }
}

impl engine::Pool for MemoryPool {
    fn engine_name(&self) -> &'static str {
        match self.shared.world.is_volumes_only {
            true => "the engine in memory for volumes only",
            false => "the engine in memory",
        }
    }

    fn optional(&self) -> Optional<'_> {
        if self.shared.world.is_volumes_only {
            return Optional::default();
        }
        Optional {
            files: Some(self),
            logs: Some(self),
            promotion: Some(self),
            sending: Some(self),
            receiving: Some(self),
            keys: Some(self),
            upkeep: Some(self),
            history: Some(self),
            devices: Some(self),
            pool_properties: Some(self),
        }
    }
}

impl Ownership for MemoryPool {
    fn name(&self) -> &PoolName {
        &self.name
    }

    fn export(self: Box<Self>) -> Result<(), (Box<dyn Pool>, PoolError)> {
        match self.end("export", "export", LabelState::Exported) {
            Ok(()) => Ok(()),
            Err(error) => Err((self, error)),
        }
    }

    fn destroy(self: Box<Self>) -> Result<(), (Box<dyn Pool>, PoolError)> {
        match self.end("destroy", "destroy", LabelState::Destroyed) {
            Ok(()) => Ok(()),
            Err(error) => Err((self, error)),
        }
    }

    fn leave_note(&self, text: &str) -> Result<(), PoolError> {
        let mut state = self.begin_pool_change("leave_note", "write labels")?;
        state.note = (!text.is_empty()).then(|| text.to_owned());
        Ok(())
    }

    fn sync(&self) -> Result<(), PoolError> {
        let mut state = self.begin_pool_change("sync", "sync")?;
        state.tree.next_txg();
        Ok(())
    }
}

impl Engine for MemoryEngine {
    fn host_id(&self) -> HostId {
        self.host
    }

    fn cache_bytes(&self) -> (ByteCount, ByteCount) {
        (ByteCount(0), ByteCount(0))
    }

    fn create(&self, spec: &PoolSpec) -> Result<Box<dyn Pool>, PoolError> {
        Ok(Box::new(self.create_pool(spec)?))
    }

    fn discover(&self, places: &[PathBuf]) -> Result<Vec<Candidate>, DiscoverError> {
        self.found_in(places)
    }

    fn same_host_and_locked(&self, candidate: &Candidate) -> Result<SafeToOwn, PoolError> {
        self.proof_by_locks(candidate)
    }

    fn claim<'a>(
        &self,
        candidate: &'a Candidate,
        proof: SafeToOwn,
        options: &'a ImportOptions,
    ) -> Result<Box<dyn Claimed + 'a>, PoolError> {
        Ok(Box::new(ClaimedPool::new(self, candidate, proof, options)?))
    }
}
