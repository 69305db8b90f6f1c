//! NFS.

use crate::{Description, TlsOptions};

/// NFS. The port is that of RFC 8881, section 2.9.3.
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
    tls: Some(TlsOptions {
        certificate: "nfs-tls-cert",
        key: "nfs-tls-key",
        authority: "nfs-tls-ca",
        is_required: false,
    }),
    keytab: Some("nfs-keytab"),
};
