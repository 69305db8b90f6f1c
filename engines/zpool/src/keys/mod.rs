//! Keys of encrypted datasets, compatible with kernel ZFS: each of the two opens the other's datasets with the same
//! file or passphrase.
//!
//! A dataset created with a key is an *encryption root*; descendants created without their own key share its key. The
//! owner's key only wraps the dataset's own random keys, so it can be changed without rewriting data.

use std::ffi::c_void;

use engine::capabilities::Keys;
use engine::dataset::{DatasetError, DatasetErrorKind, DatasetRef, FileSystemSpec, Value};
use engine::keys::{
    ITERATIONS_DEFAULT, ITERATIONS_MAX, ITERATIONS_MIN, KeyFormat, KeyInfo, KeyMaterial,
    MaterialError, NewKey, WrappingKey,
};
use units::VolumeName;
use zpool_sys as sys;

use crate::error::SystemError;
use crate::nvlist::text;
use crate::pool::{Pool, c_text};

/// The wrapping key that `material` encodes or derives.
fn wrapping_key(info: &KeyInfo, material: &KeyMaterial) -> Result<WrappingKey, DatasetErrorKind> {
    let format = info.format.ok_or(DatasetErrorKind::NotEncrypted)?;
    let made = material.wrapping_key(format, info.salt, info.iterations);
    made.map_err(DatasetErrorKind::KeyMaterial)
}

/// Collects visited items.
///
/// # Safety
/// `arg` is a `&mut Vec<KeyInfo>` and `info` a valid structure.
unsafe extern "C" fn collect(arg: *mut c_void, info: *const sys::bh_key_info) {
    // SAFETY: promised by the caller.
    let (found, raw) = unsafe { (&mut *arg.cast::<Vec<KeyInfo>>(), &*info) };
    // SAFETY: the shim sets all four to NUL-terminated text.
    let (dataset, root, suite, location) = unsafe {
        (
            text(raw.bk_name),
            text(raw.bk_root),
            text(raw.bk_suite),
            text(raw.bk_location),
        )
    };
    found.push(KeyInfo {
        dataset,
        root: (!root.is_empty()).then_some(root),
        suite,
        format: match raw.bk_format {
            sys::BH_KEYFORMAT_RAW => Some(KeyFormat::Raw),
            sys::BH_KEYFORMAT_HEX => Some(KeyFormat::Hex),
            sys::BH_KEYFORMAT_PASSPHRASE => Some(KeyFormat::Passphrase),
            _ => None,
        },
        location,
        loaded: raw.bk_is_loaded != 0,
        salt: raw.bk_salt,
        iterations: raw.bk_iterations,
    });
}

/// This process holds keys from now on, which a core dump would reveal.
fn leave_no_core_dump() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "a core dump of this process would hold keys");
    }
}

/// A key in the shim's form, with the memory that it points to.
pub(crate) struct RawKey {
    _suite: std::ffi::CString,
    _location: std::ffi::CString,
    _key: Box<WrappingKey>,
    raw: sys::bh_new_key,
}

impl RawKey {
    /// Derives a key from a passphrase, which lasts a good part of a second.
    pub(crate) fn new(key: &NewKey) -> Result<Self, DatasetErrorKind> {
        let refuse = DatasetErrorKind::KeyMaterial;
        let iterations = key.iterations.unwrap_or(ITERATIONS_DEFAULT);
        let is_passphrase = key.format == KeyFormat::Passphrase;
        if is_passphrase && !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
            return Err(refuse(MaterialError::Iterations { iterations }));
        }
        let salt = match is_passphrase {
            // Zero means "none".
            true => getrandom::u64()
                .map_err(|_| DatasetErrorKind::Library)?
                .max(1),
            false => 0,
        };
        let made = key.material.wrapping_key(key.format, salt, iterations);
        let made = Box::new(made.map_err(refuse)?);
        leave_no_core_dump();
        let no_nul = |text: &str| {
            std::ffi::CString::new(text).map_err(|_| DatasetErrorKind::Property {
                property: "keylocation".to_owned(),
                why: "names and values cannot contain the NUL character",
            })
        };
        let suite = no_nul(key.suite.as_deref().unwrap_or_default())?;
        let location = no_nul(&key.location)?;
        let raw = sys::bh_new_key {
            bn_suite: suite.as_ptr(),
            bn_location: location.as_ptr(),
            bn_key: made.reveal().as_ptr(),
            bn_salt: salt,
            bn_iterations: if is_passphrase { iterations } else { 0 },
            bn_format: match key.format {
                KeyFormat::Raw => sys::BH_KEYFORMAT_RAW,
                KeyFormat::Hex => sys::BH_KEYFORMAT_HEX,
                KeyFormat::Passphrase => sys::BH_KEYFORMAT_PASSPHRASE,
            },
            bn_reserved: 0,
        };
        Ok(Self {
            _suite: suite,
            _location: location,
            _key: made,
            raw,
        })
    }

    pub(crate) fn as_ptr(&self) -> *const sys::bh_new_key {
        &self.raw
    }
}

impl Pool {
    fn use_key(
        &self,
        doing: &'static str,
        root: DatasetRef<'_>,
        material: &KeyMaterial,
        only_check: u32,
    ) -> Result<(), DatasetError> {
        let info = self.key_info(root)?;
        let fail = |kind| DatasetError::new(doing, &info.dataset, kind);
        if let Some(owner) = info.root.as_deref().filter(|_| !info.is_root()) {
            let root = owner.to_owned();
            return Err(fail(DatasetErrorKind::NotKeyRoot { root }));
        }
        let key = wrapping_key(&info, material).map_err(fail)?;
        leave_no_core_dump();
        let name = c_text(&info.dataset);
        // SAFETY: the pool is open; name and key are copied.
        let code = unsafe { sys::bh_key_load(name.as_ptr(), key.reveal().as_ptr(), only_check) };
        SystemError::check(code).map_err(|cause| {
            let kind = match rustix::io::Errno::from_raw_os_error(cause.0) {
                rustix::io::Errno::ACCESS => DatasetErrorKind::KeyWrong,
                _ => return DatasetError::common(doing, &info.dataset, cause),
            };
            DatasetError::because(doing, &info.dataset, kind, cause)
        })
    }

    fn change(
        &self,
        doing: &'static str,
        dataset: DatasetRef<'_>,
        key: *const sys::bh_new_key,
    ) -> Result<(), DatasetError> {
        let name = c_text(dataset.as_str());
        // SAFETY: the pool is open; the name and the key are copied during the call.
        let code = unsafe { sys::bh_key_change(name.as_ptr(), key) };
        SystemError::check(code).map_err(|cause| {
            let kind = match rustix::io::Errno::from_raw_os_error(cause.0) {
                rustix::io::Errno::INVAL => DatasetErrorKind::KeyUnchangeable,
                rustix::io::Errno::KEYREJECTED => DatasetErrorKind::KeyOutdated,
                rustix::io::Errno::LOOP => DatasetErrorKind::CloneBelowOrigin,
                _ => return DatasetError::common(doing, dataset.as_str(), cause),
            };
            DatasetError::because(doing, dataset.as_str(), kind, cause)
        })
    }
}

impl Keys for Pool {
    fn key_info(&self, dataset: DatasetRef<'_>) -> Result<KeyInfo, DatasetError> {
        const DOING: &str = "look at the key of";
        let dataset = self.own(DOING, dataset)?;
        let mut found: Vec<KeyInfo> = Vec::new();
        let name = c_text(dataset.as_str());
        // SAFETY: the pool is open; `found` outlives the call, which is when the visitor runs.
        let code = unsafe { sys::bh_key_stat(name.as_ptr(), collect, (&raw mut found).cast()) };
        SystemError::check(code).map_err(|c| DatasetError::common(DOING, dataset.as_str(), c))?;
        found
            .pop()
            .ok_or_else(|| DatasetError::new(DOING, dataset.as_str(), DatasetErrorKind::NotFound))
    }

    fn encrypted_datasets(&self) -> Result<Vec<KeyInfo>, DatasetError> {
        const DOING: &str = "look for keys in";
        let mut found: Vec<KeyInfo> = Vec::new();
        // SAFETY: as in `key_info`.
        let code =
            unsafe { sys::bh_key_walk(self.c_name().as_ptr(), collect, (&raw mut found).cast()) };
        SystemError::check(code)
            .map_err(|cause| DatasetError::common(DOING, self.name().as_str(), cause))?;
        Ok(found)
    }

    fn load_key(&self, root: DatasetRef<'_>, material: &KeyMaterial) -> Result<(), DatasetError> {
        self.use_key("load the key of", root, material, 0)
    }

    fn check_key(&self, root: DatasetRef<'_>, material: &KeyMaterial) -> Result<(), DatasetError> {
        self.use_key("check the key of", root, material, 1)
    }

    fn unload_key(&self, root: DatasetRef<'_>) -> Result<(), DatasetError> {
        const DOING: &str = "unload the key of";
        // Clones elsewhere have it, too.
        let _closed = self.snapshots.keep_closed([Pool::name(self).as_str()]);
        let root = self.own(DOING, root)?;
        let name = c_text(root.as_str());
        // SAFETY: the pool is open; the name is copied.
        let code = unsafe { sys::bh_key_unload(name.as_ptr()) };
        SystemError::check(code).map_err(|c| DatasetError::common(DOING, root.as_str(), c))
    }

    fn change_key(&self, dataset: DatasetRef<'_>, key: &NewKey) -> Result<(), DatasetError> {
        const DOING: &str = "change the key of";
        let dataset = self.own(DOING, dataset)?;
        let raw =
            RawKey::new(key).map_err(|kind| DatasetError::new(DOING, dataset.as_str(), kind))?;
        self.change(DOING, dataset, raw.as_ptr())
    }

    fn inherit_key(&self, dataset: DatasetRef<'_>) -> Result<(), DatasetError> {
        const DOING: &str = "inherit the key of";
        let dataset = self.own(DOING, dataset)?;
        self.change(DOING, dataset, std::ptr::null())
    }

    fn create_key_parent(
        &self,
        name: &VolumeName,
        key: &NewKey,
        properties: &[(String, String)],
    ) -> Result<(), DatasetError> {
        let text = |(name, value): &(String, String)| (name.clone(), Value::Text(value.clone()));
        self.make_file_system(&FileSystemSpec {
            properties: properties.iter().map(text).collect(),
            key: Some(key.clone()),
            ..FileSystemSpec::plain(name.clone())
        })
    }
}
