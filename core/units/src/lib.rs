//! Quantities and names that every layer uses: byte counts, extents, pool and volume names, iSCSI names, networks, hosts;
//! errors in one line, bytes in hex, text from outside. No dependency on any other crate of the workspace.

#![forbid(unsafe_code)]

mod bytes;
mod chain;
pub mod hex;
mod host;
mod names;
mod network;
mod text;

pub use bytes::{ByteCount, Extent, ParseByteCountError};
pub use chain::chain;
pub use host::{HostId, NoHostId, host_name};
pub use names::{HeadName, IscsiName, NameError, NetworkName, PoolName, SnapshotName, VolumeName};
pub use network::{Network, NetworkError};
pub use text::printable;
