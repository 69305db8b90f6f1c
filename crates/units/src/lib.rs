//! Quantities and names that every layer speaks of: byte counts, extents, pool and volume
//! names, iSCSI names. No dependency on any other crate of the workspace.

#![forbid(unsafe_code)]

mod bytes;
mod names;

pub use bytes::{ByteCount, Extent, ParseByteCountError};
pub use names::{HeadName, IscsiName, NameError, NetworkName, PoolName, SnapshotName, VolumeName};
