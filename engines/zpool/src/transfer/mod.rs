//! Snapshots on their way: sending one as a stream, receiving a stream, and going on where a
//! receive was interrupted. The streams are ZFS's own.
//!
//! All operations here block on disks and on the peer.

mod error;
mod raw_list;
mod receive;
mod send;
mod token;

pub use token::parse as parse_token;
