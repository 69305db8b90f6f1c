//! The records of a ZFS send stream, as far as volumes and file systems need them: the BEGIN record, and a guard that
//! passes only well-formed records. The ZFS library aborts its process on a stream that breaks its assumptions; here
//! such a stream is a named error.
//!
//! This crate uses no pool and no socket: bytes go in, and the same bytes come out. `docs/formats/send-stream.md` lists
//! the records that are accepted.

#![forbid(unsafe_code)]

mod begin;
mod error;
mod files;
mod guard;
mod limits;
mod record;

pub use begin::{Begin, Contents, Features, HeaderKind};
pub use error::{StreamError, StreamErrorKind};
pub use guard::{Passed, pass};
pub use record::RECORD_BYTES;
