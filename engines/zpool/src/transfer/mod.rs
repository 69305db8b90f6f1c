//! Snapshots on their way: sending one as a stream, receiving a stream, and going on where a
//! receive was interrupted. The streams are ZFS's own.
//!
//! Everything here waits for disks and for the other side.

mod error;
mod raw_list;
mod receive;
mod send;
mod token;

pub use token::parse as parse_token;
