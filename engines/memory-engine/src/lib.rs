//! A storage engine in memory, for tests: no disk, no library, every operation in microseconds.
//!
//! [`MemoryEngine`] is a host with disks, and [`MemoryPool`] a pool on them. It implements the rules of datasets,
//! snapshots, keys, streams and devices that the appliance relies on. A test can have [the next call of any method
//! fail](MemoryPool::fail_next), remove disks, and hold scans. All state is lost when the process exits.
//!
//! Where it is simpler than OpenZFS, on purpose:
//!
//! * Space is counted in whole blocks of contents, without metadata, compression, or more than one copy.
//! * No data is encrypted. A dataset without a loaded key cannot be opened; a key that was changed elsewhere
//!   ([`KeyOutdated`](engine::dataset::DatasetErrorKind::KeyOutdated)) does not occur.
//! * Streams have a format of their own, and no packages of several snapshots. Values of properties do not travel.
//! * Devices hold no contents: a device that was removed is never out of date, and no data is ever
//!   damaged.
//! * A resilver or scrub completes at once unless scans are held. A raidz is not widened.
//! * A suspended pool refuses changes that block in OpenZFS; I/O on volumes blocks.
//! * Only properties that the appliance uses exist. A received value is not distinguished from a local one.
//! * Files are stored with their file system, and are not in its snapshots. A closed one still responds.
//! * Intent logs are empty unless a test [sets them](MemoryPool::set_log).

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
