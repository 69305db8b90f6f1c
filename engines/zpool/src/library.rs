//! Whether the loaded library is the one that this program was built for.
//!
//! `libzpool` promises no stable layout of its inner structures, and its soname stays the same when
//! they change: OpenZFS 2.3.9 in the place of 2.3.2 would be loaded, and then read and write at
//! wrong offsets. So nothing of the library is started before it is known to fit.

use zpool_sys as sys;

use crate::error::EngineError;

/// Longest build id that occurs is that of SHA-1, 20 bytes; leaves room for longer ones.
const BUILD_ID_BYTES_MAX: usize = 64;
const VERSION_BYTES_MAX: usize = 128;

/// Refuses a library whose structures may differ from those that this program knows.
pub(crate) fn check() -> Result<(), EngineError> {
    fits(
        sys::OPENZFS_BUILD_ID,
        &build_id(),
        sys::OPENZFS_VERSION,
        version,
    )
}

/// The very build that was there at compile time fits, and another build of the same version.
fn fits(
    known_build: &str,
    build: &str,
    known_version: &'static str,
    version: impl FnOnce() -> Option<String>,
) -> Result<(), EngineError> {
    if !build.is_empty() && build == known_build {
        return Ok(());
    }
    let found = version();
    match found.as_deref().map(upstream) {
        Some(found) if found == known_version => {
            tracing::info!(
                version = found,
                "another build of the OpenZFS version that was compiled for"
            );
            Ok(())
        }
        found => Err(EngineError::OtherVersion {
            known: known_version,
            found: found.map_or(
                "of unknown version (libzfs6linux is not installed)".into(),
                str::to_owned,
            ),
        }),
    }
}

/// `2.3.2` of `zfs-2.3.2-2~bpo12+2`.
fn upstream(version: &str) -> &str {
    let version = version.strip_prefix("zfs-").unwrap_or(version);
    version.split('-').next().unwrap_or(version)
}

fn build_id() -> String {
    let mut bytes = [0; BUILD_ID_BYTES_MAX];
    let mut length = 0;
    // SAFETY: writes at most as many bytes as it is told.
    unsafe { sys::bh_library_build_id(bytes.as_mut_ptr(), bytes.len() as u64, &mut length) };
    let id = usize::try_from(length)
        .ok()
        .and_then(|length| bytes.get(..length));
    id.unwrap_or_default()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn version() -> Option<String> {
    let mut text = [0; VERSION_BYTES_MAX];
    // SAFETY: writes at most as many bytes as it is told, the last of them a zero.
    let code = unsafe { sys::bh_library_version(text.as_mut_ptr().cast(), text.len() as u64) };
    let text = std::ffi::CStr::from_bytes_until_nul(&text).ok()?;
    (code == 0).then(|| text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_that_was_compiled_for_is_loaded() {
        check().expect("tests run where they were built");
        assert_eq!(build_id(), sys::OPENZFS_BUILD_ID);
        assert!(!build_id().is_empty(), "Debian's libraries have one");
    }

    #[test]
    fn another_build_of_the_same_version_fits_and_another_version_does_not() {
        let told = |version: &'static str| move || Some(version.to_owned());
        let unasked = || panic!("the build says enough");
        fits("ab", "ab", "2.3.2", unasked).expect("the same build");
        fits("ab", "cd", "2.3.2", told("zfs-2.3.2-2~bpo12+3")).expect("the same version");
        fits("", "", "2.3.2", told("2.3.2")).expect("the same version, without build ids");

        let refused = fits("ab", "cd", "2.3.2", told("zfs-2.3.9-0+deb13u1"));
        let text = refused.expect_err("another version").to_string();
        assert!(text.contains("2.3.2") && text.contains("2.3.9"), "{text}");
        let refused = fits("ab", "cd", "2.3.2", || None);
        let text = refused.expect_err("nobody knows").to_string();
        assert!(text.contains("libzfs6linux"), "{text}");
    }

    #[test]
    fn the_package_tells_its_version() {
        match version() {
            Some(found) => assert_eq!(upstream(&found), sys::OPENZFS_VERSION, "{found}"),
            None => panic!("libzfs6linux is installed where programs are built"),
        }
    }
}
