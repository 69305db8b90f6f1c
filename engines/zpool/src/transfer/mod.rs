//! Transfers of snapshots: sending one as a stream, receiving a stream, and resuming an interrupted
//! receive. The streams have ZFS's own format.
//!
//! All operations here block on disks and on the peer.

mod error;
mod raw_list;
mod receive;
mod send;
mod token;

pub use token::parse as parse_token;

/// The name of the format of its streams.
const FORMAT: &str = "ZFS send stream";
