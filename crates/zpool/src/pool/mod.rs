//! Pools: made, opened, watched, changed, closed.

mod change;
mod compatibility;
mod discover;
mod go_on;
mod history;
mod import;
mod label;
pub mod legs;
mod owner;
mod spec;
mod status;

use std::ffi::{CStr, CString};
use std::sync::Arc;

use units::PoolName;
use zpool_sys as sys;

pub use change::{PoolProperty, ScrubCommand, TrimCommand};
pub use discover::{Candidate, CandidateDevice, DiscoverError, discover};
pub use go_on::{Anew, GoesOn};
pub use import::{ClaimedPool, Claims, ImportOptions, SafeToOwn};
pub use labels::LabelState;
pub use spec::{GroupKind, GroupRole, GroupSpec, PoolSpec, features};
pub use status::{
    DedupStatus, DeviceState, DeviceStatus, FeatureStatus, Load, PoolHealth, PoolStatus, Role,
    ScanKind, ScanState, ScanStatus, Suspension,
};

use crate::device::{self, Owner};
use crate::engine::Engine;
use crate::error::{PoolError, ZfsError};

/// A pool that this process has open. Dropping it leaves it open: a pool is closed by
/// [`Pool::export`], whose failure somebody has to see, or by the end of the process.
#[derive(Debug)]
pub struct Pool {
    engine: &'static Engine,
    name: PoolName,
    c_name: CString,
    /// Whether it is still ours is watched, except while a pool is new.
    owner: Option<Arc<dyn Owner>>,
}

impl Pool {
    /// Makes a pool on the devices of `spec`. What they hold is lost.
    pub fn create(engine: &'static Engine, spec: &PoolSpec) -> Result<Self, PoolError> {
        const DOING: &str = "create";
        let name = spec.name.as_str();
        spec.check_devices(engine.host_id())?;
        let tree = spec
            .vdev_tree()
            .map_err(|kind| PoolError::new(DOING, name, kind))?;
        let properties = spec.create_properties()?;
        let c_name = c_text(name);
        // SAFETY: the library runs; name and lists live for the call and are copied.
        let code =
            unsafe { sys::bh_pool_create(c_name.as_ptr(), tree.as_raw(), properties.as_raw()) };
        ZfsError::check(code).map_err(|cause| PoolError::common(DOING, name, cause))?;
        spec.forget_other_contents();
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
        };
        match pool.engine.check_layout(name.as_str()) {
            Ok(()) => Ok(pool),
            Err(_) => panic!("{doing} pool {name}: libzpool and this program do not match"),
        }
    }

    /// Another handle on the same open pool.
    fn alias(&self) -> Self {
        Self {
            engine: self.engine,
            name: self.name.clone(),
            c_name: self.c_name.clone(),
            owner: None,
        }
    }

    /// From now on the pool may become another head's by right.
    fn retire(&self) {
        if let Some(owner) = &self.owner {
            device::retire(owner);
        }
    }

    /// Its name.
    pub fn name(&self) -> &PoolName {
        &self.name
    }

    /// The engine it is open in.
    pub fn engine(&self) -> &'static Engine {
        self.engine
    }

    pub(crate) fn c_name(&self) -> &CStr {
        &self.c_name
    }

    /// Writes everything to the devices, marks them as free for any host, and lets go of them.
    /// All volumes must be closed.
    #[expect(
        clippy::result_large_err,
        reason = "a pool that stays open is handed back"
    )]
    pub fn export(self) -> Result<(), (Self, PoolError)> {
        self.retire();
        // SAFETY: the library runs; the name is copied.
        let code = unsafe { sys::bh_pool_export(self.c_name.as_ptr(), 0) };
        match ZfsError::check(code) {
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

    /// Destroys the pool and all that it holds.
    #[expect(
        clippy::result_large_err,
        reason = "a pool that stays open is handed back"
    )]
    pub fn destroy(self) -> Result<(), (Self, PoolError)> {
        self.retire();
        // SAFETY: the library runs; the name is copied.
        let code = unsafe { sys::bh_pool_destroy(self.c_name.as_ptr()) };
        match ZfsError::check(code) {
            Ok(()) => Ok(()),
            Err(cause) => {
                let error = PoolError::common("destroy", self.name.as_str(), cause);
                Err((self, error))
            }
        }
    }

    /// Keeps `text` in the labels of the devices, where whoever opens the pool next finds it before he opens it
    /// ([`Candidate::note`]). The labels are written with the next transaction group.
    pub fn note_in_labels(&self, text: &str) -> Result<(), PoolError> {
        let text = c_text(text);
        // SAFETY: the library runs; both texts are copied.
        let code = unsafe { sys::bh_pool_label_note(self.c_name.as_ptr(), text.as_ptr()) };
        ZfsError::check(code)
            .map_err(|cause| PoolError::common("write labels", self.name.as_str(), cause))
    }

    /// Returns when everything written before the call is on disk.
    pub fn sync(&self) -> Result<(), PoolError> {
        // SAFETY: the library runs; the name is copied.
        ZfsError::check(unsafe { sys::bh_pool_sync(self.c_name.as_ptr()) })
            .map_err(|cause| PoolError::common("sync", self.name.as_str(), cause))
    }
}

/// For names that were checked, which have no NUL.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).expect("no NUL is left")
}
