//! NBD.

use crate::{Description, TlsOptions};

/// NBD. The port is the one that IANA assigned.
pub const PROTOCOL: Description = Description {
    name: "nbd",
    title: "NBD",
    place: "NBD listener",
    nowhere: "no-nbd",
    port: 10809,
    has_groups: false,
    has_unix: true,
    binds_late: false,
    places: &["127.0.0.1:10809"],
    note: "`[::]:10809` is every IPv6 address and no IPv4 one, `0.0.0.0:10809` the reverse;",
    tls: Some(TlsOptions {
        certificate: "nbd-tls-cert",
        key: "nbd-tls-key",
        authority: "nbd-tls-ca",
        is_required: true,
    }),
    keytab: None,
};
