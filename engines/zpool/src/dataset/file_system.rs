//! Creates file systems.

use std::ffi::c_char;

use engine::dataset::{DatasetError, FileSystemSpec};
use file_system::Kind;
use zpl::acl;
use zpool_sys as sys;

use super::{NAME_BYTES, property};
use crate::error::SystemError;
use crate::keys::RawKey;
use crate::pool::{Pool, c_text};

impl Pool {
    /// Creates an empty file system with its properties in one transaction.
    pub(crate) fn make_file_system(&self, spec: &FileSystemSpec) -> Result<(), DatasetError> {
        const DOING: &str = "create";
        let name = spec.name.as_str();
        self.own(DOING, (&spec.name).into())?;
        let list = property::to_list(DOING, name, &spec.properties)?;
        let key = spec.key.as_ref().map(RawKey::new).transpose();
        let key = key.map_err(|kind| DatasetError::new(DOING, name, kind))?;
        let access = acl::trivial(spec.mode, Kind::Directory);
        let root = sys::bh_new_root {
            bn_owner: spec.owner.into(),
            bn_group: spec.group.into(),
            bn_mode: u64::from(spec.mode & 0o7777),
            bn_access: access.as_ptr().cast(),
            bn_access_bytes: access.len() as u64,
            bn_utf8_only: spec.utf8_only.into(),
        };
        let c_name = c_text(name);
        let mut bad = [0 as c_char; NAME_BYTES];
        // SAFETY: the pool is open; name, root, its list, properties and key are valid for the call; `bad` has the
        // stated room.
        let code = unsafe {
            sys::bh_filesystem_make(
                c_name.as_ptr(),
                &root,
                list.as_raw(),
                key.as_ref().map_or(std::ptr::null(), RawKey::as_ptr),
                bad.as_mut_ptr(),
                bad.len() as u64,
            )
        };
        SystemError::check(code).map_err(|cause| match bad[0] {
            0 => self.create_error(&spec.name, cause),
            _ => property::refused(DOING, name, cause, &bad),
        })
    }
}
