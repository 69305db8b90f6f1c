//! Logical units: the desired state for one, and what outlives a change of it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use ::reservations::{ReservationStore, StoredReservationsError, decode, encode};
use block_device::{Geometry, SharedDevice};
use units::IscsiName;

use crate::command::Stop;
use crate::copy::CopyResults;
use crate::mode::{ModeStore, Parameters, saved_write_cache};
use crate::opcodes::Access;
use crate::reservations::Reservations;
use crate::sense::SenseFormat;

use super::nexus::NexusState;

/// How a unit is recognised, everywhere and for ever.
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

/// Which initiators see a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Everybody who may log in.
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
    /// Its contents.
    pub device: SharedDevice,
    /// Its name. Another identity under the same number is another unit.
    pub identity: Identity,
    /// WCE at power on, unless an initiator had another one saved: whether writes are answered before they are durable.
    pub write_cache: bool,
    /// Refuse writes.
    pub read_only: bool,
    /// Whether it can be used now. A unit that is not ready is there, and says that somebody has to
    /// do something (SPC-4, 02h 04h 03h).
    pub ready: bool,
    /// Thin provisioned: UNMAP works, blocks never written take no space.
    pub thin: bool,
    /// Whether READ CAPACITY (16) shows a physical block larger than the logical one, at most 4
    /// KiB. The device's own block is shown as a granularity in any case (VPD page B0h).
    pub show_physical_block: bool,
    /// Who sees it.
    pub visibility: Visibility,
    /// Where persistent reservations are kept.
    pub reservations: Arc<dyn ReservationStore>,
    /// Where mode parameters that are to survive are kept.
    pub modes: Arc<dyn ModeStore>,
}

/// A unit as commands see it; replaced as a whole when the desired state changes.
pub(crate) struct Unit {
    pub(crate) config: UnitConfig,
    pub(crate) state: Arc<UnitState>,
}

/// What a unit remembers while its desired state changes around it.
pub(crate) struct UnitState {
    /// `FLAG_*`: everything that the usual READ or WRITE has to know, without a lock.
    flags: AtomicU32,
    /// The capacity that a command last saw, in bytes, or [`UNTOLD`].
    pub(super) told_size: AtomicU64,
    pub(crate) parameters: Mutex<Parameters>,
    /// WCE as it is saved, if it is. Locked before `parameters`.
    pub(crate) saved_write_cache: Mutex<Option<bool>>,
    /// The login that holds an SPC-2 reservation.
    legacy_holder: Mutex<Option<u64>>,
    reservations: RwLock<Arc<Reservations>>,
    /// Serialises PERSISTENT RESERVE OUT, which stores before it publishes.
    pub(crate) reserve_out: Mutex<()>,
    pub(crate) copies: CopyResults,
}

/// No command has asked for the capacity yet. A device may have to look for it, which must not
/// happen for a thousand units at start.
pub(super) const UNTOLD: u64 = u64::MAX;

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
            told_size: AtomicU64::new(UNTOLD),
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

    /// Makes changed mode parameters take effect.
    pub(crate) fn publish_parameters(&self) {
        // Held until the flags are set, so that the last change wins in both.
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

    /// A snapshot of the persistent reservations.
    pub(crate) fn reservations(&self) -> Arc<Reservations> {
        Arc::clone(&self.reservations.read().expect("no holder panics"))
    }

    fn publish_reservations(&self, next: Reservations) {
        let restricts = next.restricts();
        // The flag goes up before and down after, so that no command slips between.
        if restricts {
            self.set(FLAG_RESERVED, true);
        }
        *self.reservations.write().expect("no holder panics") = Arc::new(next);
        if !restricts {
            self.set(FLAG_RESERVED, false);
        }
    }

    /// Stores what must survive, then makes it visible. The caller holds `reserve_out`.
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

    /// Whether reservations let `nexus` do what `access` says.
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

    /// SPC-2 RESERVE; false if another login was faster.
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
    /// The shape now.
    pub(crate) fn geometry(&self) -> Geometry {
        let geometry = self.config.device.geometry();
        let told = &self.state.told_size;
        if told.load(Ordering::Acquire) == UNTOLD {
            // Another command may have been first; it saw the same.
            let (acquire, release) = (Ordering::Acquire, Ordering::Release);
            let _ = told.compare_exchange(UNTOLD, geometry.size, release, acquire);
        }
        geometry
    }

    /// Whether and why writes are refused.
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
