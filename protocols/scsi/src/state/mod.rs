//! The target device: its units, its nexuses, and its desired state.

mod copy_results;
mod mode_parameters;
mod mode_store;
mod nexus;
mod registrant;
mod tasks;
mod unit;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use units::IscsiName;

use crate::command::NexusId;
use crate::sense::Asc;
use ::reservations::StoredReservationsError;

pub(crate) use copy_results::Progress;
pub(crate) use mode_parameters::Parameters;
pub use mode_store::ModeStore;
pub(crate) use mode_store::encode_write_cache;
pub use nexus::Nexus;
pub(crate) use nexus::NexusState;
pub(crate) use registrant::{Reservations, parse_isid};
pub use tasks::{TaskManagement, TaskScope, TmfOutcome, TmfResponse};
pub use unit::{Identity, UnitConfig, Visibility};
pub(crate) use unit::{Unit, UnitState};

/// Highest logical unit number plus one: the limit of flat space addressing.
pub const LUNS_MAX: u16 = 1 << 14;

/// The constant properties of a target.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// The iSCSI target name.
    pub name: IscsiName,
    /// T10 VENDOR IDENTIFICATION, at most 8 characters.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION, at most 16 characters.
    pub product: String,
    /// PRODUCT REVISION LEVEL, at most 4 characters.
    pub revision: String,
    /// Portal group tags of the target, not zero.
    pub portal_groups: Vec<u16>,
}

/// The changes of [`Target::apply`], as unit numbers.
#[derive(Debug, Default)]
pub struct Changes {
    /// New units.
    pub added: Vec<u16>,
    /// Removed units.
    pub removed: Vec<u16>,
    /// Units with a new identity.
    pub replaced: Vec<u16>,
    /// Units with a new capacity.
    pub resized: Vec<u16>,
    /// Units that are not served, because their reservations cannot be read.
    pub refused: Vec<(u16, StoredReservationsError)>,
}

/// Units in ascending order of their numbers.
type UnitTable = Vec<Arc<Unit>>;

/// A SCSI target device.
pub struct Target {
    config: TargetConfig,
    portal_groups: RwLock<Arc<Vec<u16>>>,
    units: RwLock<Arc<UnitTable>>,
    nexuses: Mutex<BTreeMap<NexusId, Arc<NexusState>>>,
    logins: AtomicU64,
}

impl Target {
    /// Creates a target without units.
    pub fn new(config: TargetConfig) -> Arc<Self> {
        let portal_groups = RwLock::new(Arc::new(config.portal_groups.clone()));
        Arc::new(Self {
            config,
            portal_groups,
            units: RwLock::default(),
            nexuses: Mutex::default(),
            logins: AtomicU64::new(1),
        })
    }

    /// Its iSCSI name.
    pub fn name(&self) -> &IscsiName {
        &self.config.name
    }

    pub(crate) fn config(&self) -> &TargetConfig {
        &self.config
    }

    /// The current portal group tags.
    pub fn portal_groups(&self) -> Arc<Vec<u16>> {
        Arc::clone(&self.portal_groups.read().expect("no holder panics"))
    }

    /// Sets the portal group tags.
    pub fn set_portal_groups(&self, portal_groups: Vec<u16>) {
        *self.portal_groups.write().expect("no holder panics") = Arc::new(portal_groups);
    }

    /// Applies the desired units, and notifies the affected nexuses of changes by unit attentions.
    /// One caller at a time. Of two units with one number the first is used. May block (it loads
    /// reservations of new units).
    pub fn apply(&self, desired: Vec<UnitConfig>) -> Changes {
        let old = self.units();
        let mut changes = Changes::default();
        let mut table = UnitTable::new();
        let mut became_ready = Vec::new();
        let mut modes_changed = Vec::new();
        let mut desired = desired;
        desired.retain(|one| one.lun < LUNS_MAX);
        desired.sort_by_key(|one| one.lun);
        desired.dedup_by_key(|one| one.lun);
        for config in desired {
            let lun = config.lun;
            let before = find(&old, lun);
            match unit_for(config, before) {
                Ok(unit) => {
                    match before {
                        None => changes.added.push(lun),
                        Some(one) if !Arc::ptr_eq(&one.state, &unit.state) => {
                            changes.replaced.push(lun);
                        }
                        Some(one) if !one.config.ready && unit.config.ready => {
                            became_ready.push(lun);
                        }
                        Some(_) => {}
                    }
                    if before.is_some_and(|one| one.config.write_cache != unit.config.write_cache) {
                        unit.state.forget_saved(&unit.config);
                        modes_changed.push(lun);
                    }
                    table.push(Arc::new(unit));
                }
                Err(error) => {
                    tracing::error!(target = %self.config.name, lun, %error, "unit is not served");
                    changes.refused.push((lun, error));
                }
            }
        }
        for unit in old.iter() {
            let lun = unit.config.lun;
            if find(&table, lun).is_none() {
                changes.removed.push(lun);
            }
        }
        *self.units.write().expect("no holder panics") = Arc::new(table);
        self.queue_change_attentions(&old, &changes);
        for lun in became_ready {
            self.contents_changed(lun);
        }
        for lun in modes_changed {
            self.queue_attention_for_all(lun, Asc::MODE_PARAMETERS_CHANGED);
        }
        changes.resized = self.check_capacities();
        changes
    }

    /// Queues the unit attentions for a changed set of units.
    fn queue_change_attentions(&self, old: &UnitTable, changes: &Changes) {
        let units = self.units();
        for nexus in self.all_nexuses() {
            let name = &nexus.id.initiator;
            let sees = |unit: &Arc<Unit>| unit.config.visibility.includes(name);
            let seen = |table: &UnitTable| -> Vec<(u16, usize)> {
                let visible = table.iter().filter(|unit| sees(unit));
                visible
                    .map(|unit| (unit.config.lun, Arc::as_ptr(&unit.state) as usize))
                    .collect()
            };
            let gone = old
                .iter()
                .filter(|unit| find(&units, unit.config.lun).is_none());
            for unit in gone {
                nexus.forget_unit(unit.config.lun);
            }
            for lun in &changes.replaced {
                nexus.queue_attention(*lun, Asc::INQUIRY_DATA_HAS_CHANGED);
            }
            if seen(old) != seen(&units) {
                for unit in units.iter().filter(|unit| sees(unit)) {
                    nexus.queue_attention(unit.config.lun, Asc::REPORTED_LUNS_DATA_HAS_CHANGED);
                }
            }
        }
    }

    /// Detects resized devices and notifies the nexuses. Returns the unit numbers.
    pub fn check_capacities(&self) -> Vec<u16> {
        let mut resized = Vec::new();
        for unit in self.units().iter() {
            if unit.state.reported_size.load(Ordering::Acquire) == unit::UNREPORTED_SIZE {
                continue;
            }
            let size = unit.geometry().size;
            if unit.state.reported_size.swap(size, Ordering::AcqRel) == size {
                continue;
            }
            resized.push(unit.config.lun);
            for nexus in self.all_nexuses() {
                if unit.config.visibility.includes(&nexus.id.initiator) {
                    nexus.queue_attention(unit.config.lun, Asc::CAPACITY_DATA_HAS_CHANGED);
                }
            }
        }
        resized
    }

    /// Reports that the data of a unit was replaced, like an exchanged medium. Notifies the nexuses
    /// and returns their number.
    pub fn contents_changed(&self, lun: u16) -> usize {
        self.queue_attention_for_all(lun, Asc::NOT_READY_TO_READY_CHANGE_MEDIUM_MAY_HAVE_CHANGED)
    }

    /// Queues a unit attention for every nexus that sees a unit. Returns their number.
    fn queue_attention_for_all(&self, lun: u16, asc: Asc) -> usize {
        let units = self.units();
        let Some(unit) = find(&units, lun) else {
            return 0;
        };
        let mut told = self.all_nexuses();
        told.retain(|nexus| unit.config.visibility.includes(&nexus.id.initiator));
        for nexus in &told {
            nexus.queue_attention(lun, asc);
        }
        told.len()
    }

    /// Opens an I_T nexus. An open nexus with the same ID is lost first (session reinstatement).
    pub fn login(self: &Arc<Self>, id: NexusId) -> Nexus {
        let login = self.logins.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(NexusState::new(id.clone(), login));
        for unit in self.units().iter() {
            if unit.config.visibility.includes(&id.initiator) {
                state.queue_attention(unit.config.lun, Asc::POWER_ON_OR_RESET_OCCURRED);
            }
        }
        let before = {
            let mut nexuses = self.nexuses.lock().expect("no holder panics");
            nexuses.insert(id, Arc::clone(&state))
        };
        if let Some(before) = before {
            self.lose(&before);
        }
        Nexus {
            target: Arc::clone(self),
            state,
        }
    }

    /// Handles I_T nexus loss: SPC-2 reservations of the nexus are released (SPC-2, section 5.5.1);
    /// persistent ones remain.
    fn lose(&self, state: &Arc<NexusState>) {
        if !state.lose() {
            return;
        }
        for unit in self.units().iter() {
            unit.state.legacy_release(Some(state.login));
        }
        let mut nexuses = self.nexuses.lock().expect("no holder panics");
        if nexuses
            .get(&state.id)
            .is_some_and(|current| Arc::ptr_eq(current, state))
        {
            nexuses.remove(&state.id);
        }
    }

    /// Returns the logged-in nexuses.
    pub(crate) fn all_nexuses(&self) -> Vec<Arc<NexusState>> {
        let nexuses = self.nexuses.lock().expect("no holder panics");
        nexuses.values().cloned().collect()
    }

    /// Queues a unit attention for a nexus, if it is logged in.
    pub(crate) fn queue_attention(&self, nexus: &NexusId, unit: u16, asc: Asc) {
        let nexuses = self.nexuses.lock().expect("no holder panics");
        if let Some(state) = nexuses.get(nexus) {
            state.queue_attention(unit, asc);
        }
    }

    pub(crate) fn units(&self) -> Arc<UnitTable> {
        Arc::clone(&self.units.read().expect("no holder panics"))
    }

    /// Returns a unit by number, if the nexus may see it.
    pub(crate) fn visible_unit(&self, nexus: &NexusState, lun: u16) -> Option<Arc<Unit>> {
        let units = self.units.read().expect("no holder panics");
        let unit = find(&units, lun)?;
        let visible = unit.config.visibility.includes(&nexus.id.initiator);
        visible.then(|| Arc::clone(unit))
    }

    /// Returns the unit numbers that are visible to an initiator, in order.
    pub fn visible_luns(&self, initiator: &IscsiName) -> Vec<u16> {
        let units = self.units();
        let visible = units
            .iter()
            .filter(|unit| unit.config.visibility.includes(initiator));
        visible.map(|unit| unit.config.lun).collect()
    }
}

fn find(table: &UnitTable, lun: u16) -> Option<&Arc<Unit>> {
    let at = table.binary_search_by_key(&lun, |unit| unit.config.lun);
    at.ok().map(|at| &table[at])
}

/// Creates the unit of a desired state, reusing the state of `before` if it is the same unit.
fn unit_for(
    config: UnitConfig,
    before: Option<&Arc<Unit>>,
) -> Result<Unit, StoredReservationsError> {
    let state = match before {
        Some(before) if before.config.identity == config.identity => Arc::clone(&before.state),
        _ => Arc::new(unit::UnitState::new(&config)?),
    };
    Ok(Unit { config, state })
}
