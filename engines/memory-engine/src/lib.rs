//! A storage engine in memory, for tests: no disk, no library, every operation in microseconds.
//!
//! What it keeps is gone with the process.

#![forbid(unsafe_code)]

mod gate;
mod image;
mod volume;

pub use volume::MemoryVolume;
