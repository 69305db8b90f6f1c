//! The ports that the servers of pools have on the pools' addresses.

/// The port of iSCSI (RFC 7143, section 14).
pub const ISCSI_PORT: u16 = 3260;
/// The port of NBD, as IANA assigned it.
pub const NBD_PORT: u16 = 10809;
