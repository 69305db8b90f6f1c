//! Acquires the keys of a server from a given keytab. This is the only library call that the safe
//! wrapper does not provide. The replay cache is disabled. It would be a file that is written and
//! flushed for the first call of each client, and the users of contexts check sequence numbers
//! themselves.

#![allow(unsafe_code, reason = "one call into the library in C")]

use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use libgssapi::credential::Cred;
use libgssapi::error::{Error, MajorFlags};
use libgssapi_sys::{
    _GSS_C_INDEFINITE, GSS_C_ACCEPT, GSS_C_NT_HOSTBASED_SERVICE, GSS_S_COMPLETE, OM_uint32,
    gss_OID_desc, gss_OID_set_desc, gss_acquire_cred_from, gss_buffer_desc, gss_cred_id_t,
    gss_import_name, gss_key_value_element_desc, gss_key_value_set_desc, gss_name_t,
    gss_release_name,
};

use crate::{GssError, MECHANISM};

/// A GSS name, released on drop.
struct Name(gss_name_t);

impl Name {
    /// Imports a service name for any host.
    fn of_service(service: &str) -> Result<Self, Error> {
        let mut text = gss_buffer_desc {
            length: service.len(),
            value: service.as_ptr().cast_mut().cast(),
        };
        let mut name = Self(ptr::null_mut());
        let mut minor = 0;
        // SAFETY: the library reads `text` during the call only, and writes to `minor` and `name`. The kind is a constant of the library.
        let major = unsafe {
            gss_import_name(
                &mut minor,
                &mut text,
                GSS_C_NT_HOSTBASED_SERVICE,
                &mut name.0,
            )
        };
        check_status(major, minor).map(|()| name)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: this is the only owner of the name. The library ignores a null pointer.
        let _ = unsafe { gss_release_name(&mut minor, &mut self.0) };
    }
}

fn check_status(major: OM_uint32, minor: OM_uint32) -> Result<(), Error> {
    match major == GSS_S_COMPLETE {
        true => Ok(()),
        false => Err(Error {
            major: MajorFlags::from_bits_retain(major),
            minor,
        }),
    }
}

/// Acquires the keys of a service in a keytab.
pub(crate) fn acquire(keytab: &Path, service: &str) -> Result<Cred, GssError> {
    let mut file = b"FILE:".to_vec();
    file.extend_from_slice(keytab.as_os_str().as_bytes());
    let file =
        CString::new(file).map_err(|_| GssError("its name has a byte of zero".to_owned()))?;
    let name = Name::of_service(service)?;
    let element = |key: &'static std::ffi::CStr, value| gss_key_value_element_desc {
        key: key.as_ptr(),
        value,
    };
    let mut elements = [
        element(c"keytab", file.as_ptr()),
        element(c"rcache", c"none:".as_ptr()),
    ];
    let store = gss_key_value_set_desc {
        count: elements.len() as OM_uint32,
        elements: elements.as_mut_ptr(),
    };
    let mut mechanism = gss_OID_desc {
        length: MECHANISM.len() as OM_uint32,
        elements: MECHANISM.as_ptr().cast_mut().cast::<c_void>(),
    };
    let mut mechanisms = gss_OID_set_desc {
        count: 1,
        elements: &mut mechanism,
    };
    let mut credential: gss_cred_id_t = ptr::null_mut();
    let mut minor = 0;
    // SAFETY: all referenced values are valid until the call returns, and it copies the data that
    // it retains. It writes to `minor` and `credential`.
    let major = unsafe {
        gss_acquire_cred_from(
            &mut minor,
            name.0,
            _GSS_C_INDEFINITE,
            &mut mechanisms,
            GSS_C_ACCEPT as i32,
            &store,
            &mut credential,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    check_status(major, minor)?;
    // SAFETY: the call has succeeded, so that this is a credential, and there is no other reference
    // to it.
    Ok(unsafe { Cred::from_c(credential) })
}
