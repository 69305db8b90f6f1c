//! iSCSI.

use crate::Description;

/// iSCSI. The port is that of RFC 7143, section 14.
pub const PROTOCOL: Description = Description {
    name: "iscsi",
    title: "iSCSI",
    place: "iSCSI portal",
    nowhere: "no-iscsi",
    port: 3260,
    has_groups: true,
    has_unix: false,
    binds_late: false,
    places: &["127.0.0.1:3260,1", "[::1]:3260,1"],
    note: "",
    tls: None,
    keytab: None,
};
