//! Pools: creation, opening, monitoring, changes, closing.

mod change;
mod compatibility;
mod copies;
mod discover;
mod history;
mod history_records;
mod import;
mod label;
pub mod legs;
mod owner;
mod resume_pool;
mod returns;
mod spec;
mod status;

use std::ffi::{CStr, CString};
use std::sync::Arc;

use engine::Optional;
use engine::capabilities::Ownership;
use units::PoolName;
use zpool_sys as sys;

pub use discover::{discover, discover_all, discover_alone, needed_features};
pub use import::{ClaimedPool, same_host_and_locked};
pub use spec::{dataset_property_values, features, property_values};

use crate::device::{self, Owner};
use crate::error::{PoolError, SystemError};
use crate::nameless::Nameless;
use crate::runtime::Engine;
use crate::snapshots::OpenSnapshots;
use engine::pool::{LeftOut, PoolSpec};

/// A pool that this process has open. Dropping it does not close it: a pool is closed by
/// [`Pool::export`], because its failure must be handled, or by the exit of the process.
#[derive(Debug)]
pub struct Pool {
    engine: &'static Engine,
    name: PoolName,
    c_name: CString,
    /// Whether its ownership is watched, which is not the case while a pool is new.
    owner: Option<Arc<dyn Owner>>,
    /// An operation that they block closes them.
    pub(crate) snapshots: Arc<OpenSnapshots>,
    /// Devices that were found when it was opened, and are not used.
    left_out: Vec<LeftOut>,
    /// Devices with an older state than their mirrors when it was opened read-only: the library records the missing data
    /// of a writable pool only.
    behind: Vec<copies::Behind>,
    /// Devices with data that an administrator gave up.
    abandoned: Vec<copies::Abandoned>,
    /// Objects that were open without a name when file systems were closed.
    pub(crate) nameless: Arc<Nameless>,
}

impl Pool {
    /// Creates a pool on the devices of `spec`. Their contents are lost.
    pub fn create(engine: &'static Engine, spec: &PoolSpec) -> Result<Self, PoolError> {
        const DOING: &str = "create";
        let name = spec.name.as_str();
        change::check_devices(spec, engine.host_id())?;
        let tree = spec::tree_of(spec).map_err(|kind| PoolError::new(DOING, name, kind))?;
        let properties = spec::create_properties(spec)?;
        let c_name = c_text(name);
        // SAFETY: it stores a number.
        unsafe { sys::bh_label_record(spec.record.unwrap_or(0)) };
        // SAFETY: an empty list is not read.
        unsafe { sys::bh_label_start(std::ptr::null(), 0, 0) };
        // SAFETY: the library runs; name and lists are valid for the call and are copied.
        let code =
            unsafe { sys::bh_pool_create(c_name.as_ptr(), tree.as_raw(), properties.as_raw()) };
        SystemError::check(code).map_err(|cause| PoolError::common(DOING, name, cause))?;
        change::erase_other_contents(spec.devices());
        Self::opened(engine, &spec.name, DOING)
    }

    fn opened(
        engine: &'static Engine,
        name: &PoolName,
        doing: &'static str,
    ) -> Result<Self, PoolError> {
        let pool = Self {
            engine,
            name: name.clone(),
            c_name: c_text(name.as_str()),
            owner: None,
            snapshots: Arc::default(),
            left_out: Vec::new(),
            behind: Vec::new(),
            abandoned: Vec::new(),
            nameless: Arc::default(),
        };
        match pool.engine.check_layout(name.as_str()) {
            Ok(()) => Ok(pool),
            Err(_) => panic!("{doing} pool {name}: libzpool and this binary do not match"),
        }
    }

    /// Another handle on the same open pool.
    fn alias(&self) -> Self {
        Self {
            engine: self.engine,
            name: self.name.clone(),
            c_name: self.c_name.clone(),
            owner: None,
            snapshots: Arc::clone(&self.snapshots),
            left_out: self.left_out.clone(),
            behind: self.behind.clone(),
            abandoned: self.abandoned.clone(),
            nameless: Arc::clone(&self.nameless),
        }
    }

    /// From now on another head may rightly own the pool.
    fn retire(&self) {
        if let Some(owner) = &self.owner {
            device::retire(owner);
        }
    }

    /// The engine that has it open.
    pub fn engine(&self) -> &'static Engine {
        self.engine
    }

    pub(crate) fn c_name(&self) -> &CStr {
        &self.c_name
    }
}

impl Pool {
    /// Its name.
    pub fn name(&self) -> &PoolName {
        &self.name
    }

    /// As [`Ownership::export`].
    #[expect(
        clippy::result_large_err,
        reason = "a pool that stays open is handed back"
    )]
    pub fn export(self) -> Result<(), (Self, PoolError)> {
        self.retire();
        // SAFETY: the library runs; the name is copied.
        let code = unsafe { sys::bh_pool_export(self.c_name.as_ptr(), 0) };
        match SystemError::check(code) {
            Ok(()) => {
                device::unguard();
                Ok(())
            }
            Err(cause) => {
                let error = PoolError::common("export", self.name.as_str(), cause);
                Err((self, error))
            }
        }
    }

    /// As [`Ownership::destroy`].
    #[expect(
        clippy::result_large_err,
        reason = "a pool that stays open is handed back"
    )]
    pub fn destroy(self) -> Result<(), (Self, PoolError)> {
        self.retire();
        // SAFETY: the library runs; the name is copied.
        let code = unsafe { sys::bh_pool_destroy(self.c_name.as_ptr()) };
        match SystemError::check(code) {
            Ok(()) => Ok(()),
            Err(cause) => {
                let error = PoolError::common("destroy", self.name.as_str(), cause);
                Err((self, error))
            }
        }
    }
}

impl engine::Pool for Pool {
    fn engine_name(&self) -> &'static str {
        crate::NAME
    }

    fn optional(&self) -> Optional<'_> {
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

impl Ownership for Pool {
    fn name(&self) -> &PoolName {
        &self.name
    }

    fn export(self: Box<Self>) -> Result<(), (Box<dyn engine::Pool>, PoolError)> {
        Self::export(*self).map_err(|(pool, error)| (Box::new(pool) as Box<_>, error))
    }

    fn destroy(self: Box<Self>) -> Result<(), (Box<dyn engine::Pool>, PoolError)> {
        Self::destroy(*self).map_err(|(pool, error)| (Box::new(pool) as Box<_>, error))
    }

    fn leave_note(&self, text: &str) -> Result<(), PoolError> {
        let text = c_text(text);
        // SAFETY: the library runs; both texts are copied.
        let code = unsafe { sys::bh_pool_label_note(self.c_name.as_ptr(), text.as_ptr()) };
        SystemError::check(code)
            .map_err(|cause| PoolError::common("write labels", self.name.as_str(), cause))
    }

    fn sync(&self) -> Result<(), PoolError> {
        // SAFETY: the library runs; the name is copied.
        SystemError::check(unsafe { sys::bh_pool_sync(self.c_name.as_ptr()) })
            .map_err(|cause| PoolError::common("sync", self.name.as_str(), cause))
    }
}

/// For checked names, which contain no NUL.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).expect("no NUL is left")
}
