//! How C code is compiled that includes the library's headers: shared by the build and by the test
//! of the declarations.

/// The shim, seen from this package.
pub const SHIM: &str = "../../native/zfs-shim";

/// How the package compiles its library. `DEBUG` and `ZFS_DEBUG` change the layout of
/// structures, so they are not a choice.
pub const LIBRARY_DEFINES: [(&str, Option<&str>); 6] = [
    ("DEBUG", None),
    ("ZFS_DEBUG", None),
    ("_GNU_SOURCE", None),
    ("_REENTRANT", None),
    ("_FILE_OFFSET_BITS", Some("64")),
    ("_LARGEFILE64_SOURCE", None),
];

/// Where the package's headers are. The second shadows some of the system's.
pub const LIBRARY_HEADERS: [&str; 2] = ["/usr/include/libzfs", "/usr/include/libspl"];
