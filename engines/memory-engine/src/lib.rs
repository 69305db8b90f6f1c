//! A storage engine in memory, for tests: no disk, no library, every operation in microseconds.
//!
//! [`MemoryEngine`] is a host with disks, and [`MemoryPool`] a pool on them that keeps the rules of datasets, snapshots,
//! keys, streams and devices which the program relies on. A test can have [the next call of anything fail](MemoryPool::fail_next), take
//! disks away, and hold scans. What a pool keeps is gone with the process.
//!
//! Where it is simpler than OpenZFS, on purpose:
//!
//! * Space is counted in whole blocks of contents, without metadata, compression, or more than one copy.
//! * Nothing is encrypted. A key that is not loaded keeps a dataset shut; a key that was changed elsewhere
//!   ([`KeyOutdated`](engine::dataset::DatasetErrorKind::KeyOutdated)) does not occur.
//! * Streams have a format of their own, and no packages of several snapshots. Values of properties do not travel.
//! * Devices hold no contents: one that was away never has older ones, and nothing is ever damaged.
//! * A resilver or scrub ends at once unless scans are held. A raidz is not widened.
//! * A suspended pool refuses changes where OpenZFS would have the caller wait; I/O on volumes waits.
//! * Properties are those that the program uses. A value that came with a stream is not told from one that was set.
//! * Files are kept with their file system, and are not in its snapshots. One that was closed still answers.
//! * Intent logs are empty unless a test [says otherwise](MemoryPool::set_log).

#![forbid(unsafe_code)]

mod datasets;
mod devices;
mod discovery;
mod encryption;
mod files;
mod host;
mod image;
mod key_tree;
mod keys;
mod listing;
mod logs;
mod native;
mod numbers;
mod ownership;
mod partial;
mod pool_properties;
mod properties;
mod receiving;
mod sending;
mod snapshots;
mod space;
mod state;
mod status;
mod stream;
mod tree;
mod vdevs;
mod volume;
mod world;

pub use host::MemoryEngine;
pub use state::{Failure, MemoryPool};
pub use tree::WaitingLog;
pub use volume::MemoryVolume;
