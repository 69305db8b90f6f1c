//! The Network Block Device protocol and a server for it.
//!
//! [`protocol`] converts bytes to bytes: the fixed newstyle handshake, requests, and replies in
//! their three forms (simple, structured, extended). It uses no socket and no clock, and decodes
//! arbitrary input. [`server`] adds sockets: listeners, TLS, exports with access rules, and the
//! execution of requests on [`BlockDevice`](block_device::BlockDevice)s.
//!
//! The reference is `doc/proto.md` of the NBD project, with its `extension-ext-header` branch.

#![forbid(unsafe_code)]

pub mod protocol;
pub mod server;

pub use server::{
    Access, Applied, ApplyError, ConnectionStatus, DesiredExport, DesiredState, Drained,
    ExportStatus, Farewell, NbdServer, ServerLimits, ServerStatus, TlsMode, TlsSettings,
};
