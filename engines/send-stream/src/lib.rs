//! The records of a ZFS send stream, as far as volumes and file systems need them: what begins a stream, and a
//! guard that lets only well-formed records through. The ZFS library ends its process on a stream
//! that breaks its assumptions; here such a stream is an error with a name.
//!
//! No pool, no socket: bytes in, the same bytes out. `docs/formats/send-stream.md` says what is
//! accepted.

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
