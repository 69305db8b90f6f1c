//! How C code is compiled that includes the library's headers: shared by the build and by the test
//! of the declarations.

/// The shim, seen from this package.
pub const SHIM: &str = "../../native/zfs-shim";

/// How the library is compiled. `DEBUG` and `ZFS_DEBUG` change the layout of structures: these are the words of the
/// library that programs are linked with.
pub fn library_defines(has_checks: bool) -> Vec<(&'static str, Option<&'static str>)> {
    let checks: &[_] = match has_checks {
        true => &[
            ("DEBUG", None),
            ("ZFS_DEBUG", None),
            ("BH_LIBRARY_CHECKS", Some("1")),
        ],
        false => &[("NDEBUG", None), ("BH_LIBRARY_CHECKS", Some("0"))],
    };
    [checks, &SYSTEM_DEFINES].concat()
}

const SYSTEM_DEFINES: [(&str, Option<&str>); 4] = [
    ("_GNU_SOURCE", None),
    ("_REENTRANT", None),
    ("_FILE_OFFSET_BITS", Some("64")),
    ("_LARGEFILE64_SOURCE", None),
];

/// Where the package's headers are. The second shadows some of the system's.
pub const LIBRARY_HEADERS: [&str; 2] = ["/usr/include/libzfs", "/usr/include/libspl"];
