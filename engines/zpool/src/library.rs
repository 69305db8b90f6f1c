//! Verifies that the loaded library is the one that this binary was built for.
//!
//! `libzpool` promises no stable layout of its inner structures, and its soname stays the same when they change:
//! OpenZFS 2.3.9 instead of 2.3.2 would be loaded, and would then read and write at wrong offsets. So no function of
//! the library is called before it is verified.

use std::sync::LazyLock;

use zpool_sys as sys;

use crate::error::EngineError;

/// Longest build id that occurs is that of SHA-1, 20 bytes; leaves room for longer ones.
const BUILD_ID_BYTES_MAX: usize = 64;
const VERSION_BYTES_MAX: usize = 128;
/// Enough to tell builds apart.
const BUILD_ID_DIGITS_SHOWN: usize = 8;

/// A build of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Build<'a> {
    /// Hexadecimal digits; empty if it has none.
    id: &'a str,
    /// Whether it has its debugging checks, which change most structures.
    has_checks: bool,
}

const KNOWN: Build<'static> = Build {
    id: sys::OPENZFS_BUILD_ID,
    has_checks: sys::OPENZFS_HAS_CHECKS,
};

/// Refuses a library with structures that may differ from those at compile time.
pub(crate) fn check() -> Result<(), EngineError> {
    let id = build_id();
    let loaded = Build {
        id: &id,
        has_checks: has_checks(),
    };
    fits(KNOWN, loaded, sys::OPENZFS_VERSION, version)
}

/// Describes the library that this process has loaded; a mismatch is reported here without starting the library.
pub fn described() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(describe);
    &TEXT
}

fn describe() -> String {
    let kind = match has_checks() {
        true => "Debian's libzpool, with debugging checks",
        false => "bulkhead-libzpool, without debugging checks",
    };
    let id = build_id();
    let short = id.get(..BUILD_ID_DIGITS_SHOWN).unwrap_or("unknown");
    let fits = match check() {
        Ok(()) => "",
        Err(_) => "; it does not fit this binary",
    };
    format!(
        "OpenZFS {} ({kind}, build {short}{fits})",
        sys::OPENZFS_VERSION
    )
}

/// The build that was present at compile time is valid, and another build of the same version if it is Debian's.
fn fits(
    known: Build<'_>,
    loaded: Build<'_>,
    known_version: &'static str,
    version: impl FnOnce() -> Option<String>,
) -> Result<(), EngineError> {
    if loaded.has_checks != known.has_checks {
        return Err(EngineError::OtherKind {
            known: kind_name(known.has_checks),
            found: kind_name(loaded.has_checks),
        });
    }
    if !loaded.id.is_empty() && loaded.id == known.id {
        return Ok(());
    }
    if !known.has_checks {
        // Only its build id identifies a local build.
        return Err(EngineError::OtherOwnBuild);
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

fn kind_name(has_checks: bool) -> &'static str {
    match has_checks {
        true => "with debugging checks",
        false => "without debugging checks",
    }
}

fn has_checks() -> bool {
    // SAFETY: only searches for a symbol in the dynamic linker.
    unsafe { sys::bh_library_has_checks() != 0 }
}

/// `2.3.2` of `zfs-2.3.2-2~bpo12+2`.
fn upstream(version: &str) -> &str {
    let version = version.strip_prefix("zfs-").unwrap_or(version);
    version.split('-').next().unwrap_or(version)
}

fn build_id() -> String {
    let mut bytes = [0; BUILD_ID_BYTES_MAX];
    let mut length = 0;
    // SAFETY: writes at most the given number of bytes.
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
    // SAFETY: writes at most the given number of bytes, the last of them a zero.
    let code = unsafe { sys::bh_library_version(text.as_mut_ptr().cast(), text.len() as u64) };
    let text = std::ffi::CStr::from_bytes_until_nul(&text).ok()?;
    (code == 0).then(|| text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaded_library_is_the_one_compiled_against() {
        check().expect("tests run where they were built");
        assert_eq!(build_id(), sys::OPENZFS_BUILD_ID);
        assert!(!build_id().is_empty(), "Debian's libraries have one");
    }

    const fn debian(id: &str) -> Build<'_> {
        Build {
            id,
            has_checks: true,
        }
    }

    const fn own(id: &str) -> Build<'_> {
        Build {
            id,
            has_checks: false,
        }
    }

    fn unasked() -> Option<String> {
        panic!("the build id is sufficient")
    }

    #[test]
    fn other_build_of_same_version_is_accepted() {
        let told = |version: &'static str| move || Some(version.to_owned());
        fits(debian("ab"), debian("ab"), "2.3.2", unasked).expect("the same build");
        fits(
            debian("ab"),
            debian("cd"),
            "2.3.2",
            told("zfs-2.3.2-2~bpo12+3"),
        )
        .expect("the same version");
        fits(debian(""), debian(""), "2.3.2", told("2.3.2"))
            .expect("the same version, without build ids");

        let refused = fits(
            debian("ab"),
            debian("cd"),
            "2.3.2",
            told("zfs-2.3.9-0+deb13u1"),
        );
        let text = refused.expect_err("another version").to_string();
        assert!(text.contains("2.3.2") && text.contains("2.3.9"), "{text}");
        let refused = fits(debian("ab"), debian("cd"), "2.3.2", || None);
        let text = refused.expect_err("nobody knows").to_string();
        assert!(text.contains("libzfs6linux"), "{text}");
    }

    #[test]
    fn library_of_the_other_build_kind_is_refused() {
        for (known, loaded, found) in [
            (debian("ab"), own("cd"), "without debugging checks"),
            (own("ab"), debian("cd"), "with debugging checks"),
            // No linker produces these, only an edited library.
            (own("ab"), debian("ab"), "with debugging checks"),
        ] {
            let refused = fits(known, loaded, "2.3.2", unasked);
            let text = refused.expect_err("structures differ").to_string();
            assert!(
                text.contains(&format!("library on this machine is {found}")),
                "{text}"
            );
        }
    }

    #[test]
    fn unchecked_library_must_be_the_exact_build() {
        fits(own("ab"), own("ab"), "2.3.2", unasked).expect("the same build");
        for loaded in ["cd", ""] {
            let refused = fits(own("ab"), own(loaded), "2.3.2", unasked);
            let text = refused.expect_err("another build").to_string();
            assert!(text.contains("bulkhead-libzpool"), "{text}");
        }
        fits(own(""), own(""), "2.3.2", unasked).expect_err("they cannot be distinguished");
    }

    #[test]
    fn the_library_is_described_by_its_version_kind_and_build() {
        let text = described();
        assert!(
            text.contains(sys::OPENZFS_VERSION) && text.contains(&build_id()[..8]),
            "{text}"
        );
        assert!(!text.contains("does not fit"), "{text}");
        assert_eq!(has_checks(), sys::OPENZFS_HAS_CHECKS);
    }

    #[test]
    fn package_file_names_its_version() {
        match version() {
            Some(found) => assert_eq!(upstream(&found), sys::OPENZFS_VERSION, "{found}"),
            None => panic!("libzfs6linux is installed where programs are built"),
        }
    }
}
