//! Logical units: the desired state of a unit, and the state that survives a change of it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use ::reservations::{ReservationStore, StoredReservationsError, decode, encode};
use block_device::{Geometry, SharedDevice};
use units::IscsiName;

use crate::command::Stop;
use crate::opcodes::Access;
use crate::sense::SenseFormat;

use super::copy_results::CopyResults;
use super::mode_parameters::Parameters;
use super::mode_store::{ModeStore, saved_write_cache};
use super::nexus::NexusState;
use super::registrant::Reservations;

/// The permanent identity of a unit, equal on every head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// NAA designator: 16 bytes starting with 6h (IEEE registered extended), or 8 starting with 2h,
    /// 3h or 5h.
    pub naa: Vec<u8>,
    /// Unit serial number, printable ASCII.
    pub serial: String,
    /// EUI-64 designator.
    pub eui: Option<[u8; 8]>,
}

/// The initiators that see a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// All initiators that may log in.
    All,
    /// Only these.
    Initiators(Vec<IscsiName>),
}

impl Visibility {
    pub(crate) fn includes(&self, initiator: &IscsiName) -> bool {
        match self {
            Self::All => true,
            Self::Initiators(names) => names.contains(initiator),
        }
    }
}

/// The desired state for one logical unit.
#[derive(Clone)]
pub struct UnitConfig {
    /// Its number, below 16384.
    pub lun: u16,
    /// The device with its data.
    pub device: SharedDevice,
    /// Its identity. Another identity under the same number is another unit.
    pub identity: Identity,
    /// WCE at power on, unless an initiator has saved another value: whether a write is
    /// acknowledged before it is durable.
    pub write_cache: bool,
    /// Refuses writes.
    pub read_only: bool,
    /// Whether it can be used now. A unit that is not ready exists and reports that an intervention
    /// is required (SPC-4, 02h 04h 03h).
    pub ready: bool,
    /// Thin provisioned: UNMAP is supported, and unwritten blocks occupy no space.
    pub thin: bool,
    /// Whether READ CAPACITY (16) reports a physical block larger than the logical one, at most 4
    /// KiB. The device's own block is always reported as a granularity (VPD page B0h).
    pub show_physical_block: bool,
    /// The initiators that see it.
    pub visibility: Visibility,
    /// Stable storage of persistent reservations.
    pub reservations: Arc<dyn ReservationStore>,
    /// Stable storage of mode parameters.
    pub modes: Arc<dyn ModeStore>,
}

/// A unit from the view of commands; replaced as a whole when the desired state changes.
pub(crate) struct Unit {
    pub(crate) config: UnitConfig,
    pub(crate) state: Arc<UnitState>,
}

/// State of a unit that survives changes of its desired state.
pub(crate) struct UnitState {
    /// `FLAG_*`: the state that the usual READ or WRITE needs, without a lock.
    flags: AtomicU32,
    /// The last reported capacity in bytes, or [`UNREPORTED_SIZE`].
    pub(super) reported_size: AtomicU64,
    pub(crate) parameters: Mutex<Parameters>,
    /// The saved WCE, if any. Locked before `parameters`.
    pub(crate) saved_write_cache: Mutex<Option<bool>>,
    /// The login that holds an SPC-2 reservation.
    legacy_holder: Mutex<Option<u64>>,
    reservations: RwLock<Arc<Reservations>>,
    /// Serialises PERSISTENT RESERVE OUT, which stores before it publishes.
    pub(crate) reserve_out: Mutex<()>,
    pub(crate) copies: CopyResults,
}

/// No command has read the capacity yet. A device may have to be searched for, which must not
/// happen for a thousand units at the start.
pub(super) const UNREPORTED_SIZE: u64 = u64::MAX;

const FLAG_RESERVED: u32 = 1;
const FLAG_LEGACY_RESERVED: u32 = 2;
const FLAG_WRITE_CACHE: u32 = 4;
const FLAG_WRITE_PROTECT: u32 = 8;
const FLAG_DESCRIPTOR_SENSE: u32 = 16;

impl UnitState {
    pub(super) fn new(config: &UnitConfig) -> Result<Self, StoredReservationsError> {
        let stored = config.reservations.load();
        let stored = stored.map_err(StoredReservationsError::Load)?;
        let reservations = decode(&stored.unwrap_or_default())?;
        let saved = saved_write_cache(&*config.modes, config.lun);
        let state = Self {
            flags: AtomicU32::new(0),
            reported_size: AtomicU64::new(UNREPORTED_SIZE),
            parameters: Mutex::new(Parameters::initial(saved.unwrap_or(config.write_cache))),
            saved_write_cache: Mutex::new(saved),
            legacy_holder: Mutex::new(None),
            reservations: RwLock::default(),
            reserve_out: Mutex::new(()),
            copies: CopyResults::default(),
        };
        state.publish_parameters();
        state.publish_reservations(reservations);
        Ok(state)
    }

    fn set(&self, flag: u32, on: bool) {
        if on {
            self.flags.fetch_or(flag, Ordering::Release);
        } else {
            self.flags.fetch_and(!flag, Ordering::Release);
        }
    }

    fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Acquire) & flag != 0
    }

    /// Publishes changed mode parameters.
    pub(crate) fn publish_parameters(&self) {
        // Locked until the flags are set, so that the last change is effective in both.
        let parameters = self.parameters.lock().expect("no holder panics");
        self.set(FLAG_WRITE_CACHE, parameters.write_cache);
        self.set(FLAG_WRITE_PROTECT, parameters.write_protect);
        self.set(FLAG_DESCRIPTOR_SENSE, parameters.descriptor_sense);
    }

    pub(crate) fn sense_format(&self) -> SenseFormat {
        if self.has(FLAG_DESCRIPTOR_SENSE) {
            SenseFormat::Descriptor
        } else {
            SenseFormat::Fixed
        }
    }

    pub(crate) fn write_cache(&self) -> bool {
        self.has(FLAG_WRITE_CACHE)
    }

    pub(crate) fn write_protect(&self) -> bool {
        self.has(FLAG_WRITE_PROTECT)
    }

    /// Returns a snapshot of the persistent reservations.
    pub(crate) fn reservations(&self) -> Arc<Reservations> {
        Arc::clone(&self.reservations.read().expect("no holder panics"))
    }

    fn publish_reservations(&self, next: Reservations) {
        let restricts = next.restricts();
        // The flag is set before and cleared after the change, so that every command observes it.
        if restricts {
            self.set(FLAG_RESERVED, true);
        }
        *self.reservations.write().expect("no holder panics") = Arc::new(next);
        if !restricts {
            self.set(FLAG_RESERVED, false);
        }
    }

    /// Stores persistent state, then publishes it. The caller holds `reserve_out`.
    pub(crate) fn commit_reservations(
        &self,
        store: &dyn ReservationStore,
        next: Reservations,
    ) -> std::io::Result<()> {
        let bytes = encode(&next);
        if bytes != encode(&self.reservations()) {
            store.save(&bytes)?;
        }
        self.publish_reservations(next);
        Ok(())
    }

    /// Checks that reservations permit `access` by `nexus`.
    pub(crate) fn check_access(&self, nexus: &NexusState, access: Access) -> Result<(), Stop> {
        if self.flags.load(Ordering::Acquire) & (FLAG_RESERVED | FLAG_LEGACY_RESERVED) == 0
            || matches!(access, Access::Free | Access::Own)
        {
            return Ok(());
        }
        if self.is_legacy_reserved_by_other(nexus) {
            return Err(Stop::Conflict);
        }
        let access = match access {
            Access::Read => ::reservations::Access::Read,
            Access::Write => ::reservations::Access::Write,
            Access::Free | Access::Query | Access::Own => return Ok(()),
        };
        match self.reservations().permits(&nexus.id, access) {
            true => Ok(()),
            false => Err(Stop::Conflict),
        }
    }

    /// Whether another login holds an SPC-2 reservation.
    pub(crate) fn is_legacy_reserved_by_other(&self, nexus: &NexusState) -> bool {
        self.has(FLAG_LEGACY_RESERVED)
            && self
                .legacy_holder
                .lock()
                .expect("no holder panics")
                .is_some_and(|login| login != nexus.login)
    }

    /// SPC-2 RESERVE; false if another login holds it.
    pub(crate) fn legacy_reserve(&self, login: u64) -> bool {
        let mut holder = self.legacy_holder.lock().expect("no holder panics");
        if holder.is_some_and(|other| other != login) {
            return false;
        }
        *holder = Some(login);
        self.set(FLAG_LEGACY_RESERVED, true);
        true
    }

    /// SPC-2 RELEASE by a login, or by a reset (`None`).
    pub(crate) fn legacy_release(&self, login: Option<u64>) {
        let mut holder = self.legacy_holder.lock().expect("no holder panics");
        if login.is_none() || *holder == login {
            *holder = None;
            self.set(FLAG_LEGACY_RESERVED, false);
        }
    }
}

impl Unit {
    /// The current geometry.
    pub(crate) fn geometry(&self) -> Geometry {
        let geometry = self.config.device.geometry();
        let told = &self.state.reported_size;
        if told.load(Ordering::Acquire) == UNREPORTED_SIZE {
            // A concurrent command may have been first; it read the same value.
            let (acquire, release) = (Ordering::Acquire, Ordering::Release);
            let _ = told.compare_exchange(UNREPORTED_SIZE, geometry.size, release, acquire);
        }
        geometry
    }

    /// Returns why writes are refused, if they are.
    pub(crate) fn write_refusal(&self, geometry: &Geometry) -> Option<crate::sense::Sense> {
        use crate::sense::{Asc, Sense, SenseKey};
        if self.config.read_only || geometry.read_only {
            return Some(Sense::new(SenseKey::DataProtect, Asc::WRITE_PROTECTED));
        }
        if self.state.write_protect() {
            let asc = Asc::LOGICAL_UNIT_SOFTWARE_WRITE_PROTECTED;
            return Some(Sense::new(SenseKey::DataProtect, asc));
        }
        None
    }
}
