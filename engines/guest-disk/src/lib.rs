//! Recognises the partitions of a guest's disk and their contents, by their first and last bytes. No I/O: the caller
//! supplies the reads.
//!
//! A guest has written every byte that is parsed here. All lengths and counts are bounded, no read is larger than
//! [`READ_BYTES_MAX`], and text is returned without control characters.

#![forbid(unsafe_code)]

mod bytes;
mod contents;
mod formats;
mod part;
mod table;

pub use contents::{Contents, Format, State};
pub use part::{READ_BYTES_MAX, ReadAt};
pub use table::{Disk, PARTITIONS_MAX, Partition, Table, scan};
