//! NFS.

use crate::Description;

/// NFS, version 4.1 and above. The port is that of RFC 8881, section 2.9.3.
pub const PROTOCOL: Description = Description {
    name: "nfs",
    title: "NFS",
    place: "NFS listener",
    nowhere: "no-nfs",
    port: 2049,
    has_groups: false,
    has_unix: false,
    binds_late: true,
    places: &[],
    note: "it listens only while a file system is shared;",
    tls: None,
};
