//! A storage engine on Ceph: a pool is a *shelf*, its volumes are RBD images.
//!
//! A shelf is an RBD namespace with one object, [`SHELF_OBJECT`]. The omap of that object is the only source of truth:
//! which volumes and snapshots exist, by which images they are stored, their properties, and the owner of the shelf
//! (`docs/formats/shelf.md`). Each change of it is one write operation of RADOS, which is applied completely or not at
//! all, and only if this process is still the owner. An image or RBD snapshot that no entry names is discarded later. So
//! a process can be killed between any two requests.
//!
//! **Ownership.** A claim puts the previous owner's client on the cluster's blocklist, obtains the map with that entry,
//! replaces the owner in the omap by compare and write, and breaks the lock of each image that it opens. From then on
//! each OSD refuses every request of the previous owner, however late. The previous owner's volumes return
//! [`ErrorKind::Gone`](block_device::ErrorKind::Gone).
//!
//! **A workspace of its own.** librbd is 55 MB with its dependencies, and the base package is free of Ceph. So this crate
//! and `ceph-sys` are excluded from the base workspace and have a `Cargo.lock` of their own: the base workspace builds and
//! is tested on hosts without librbd, and no feature flag changes it.
//!
//! Differences from OpenZFS, on purpose:
//!
//! * A volume's name has one part: a shelf has no parents of volumes. There are no optional capabilities.
//! * Native properties are those of RBD: a reservation and read-only numbers. `compression`, `copies` and so on are
//!   refused by their names.
//! * A completed write is durable: the images have no cache, and an acknowledgement comes from all copies. A flush has
//!   nothing to do.
//! * A rollback replaces the image by a clone of the snapshot, whatever its size: that is one write operation. RBD's own
//!   rollback copies, and a kill leaves it half done.
//! * Space is counted in whole objects of 4 MiB. The space that a snapshot shares with its neighbours is an estimate.
//! * A full cluster blocks its clients without an error, so writes are refused with `NoSpace` before it is full.
//! * `changes` between two snapshots with a rollback between them reports a superset of the changed ranges.
//! * Devices of a [`PoolSpec`](engine::pool::PoolSpec) are refused. Its properties name the shelf: see [`CephEngine`].

#![forbid(unsafe_code)]

mod changes;
mod claim;
mod claimant;
mod collector;
mod connection;
mod datasets;
mod discovery;
mod errors;
mod listing;
mod open;
mod polling;
mod pool;
mod properties;
mod ranges;
mod records;
mod removal;
mod shelf;
mod snapshots;
mod space;
mod start;
mod status;
mod usage;
mod volume;
mod watch;

pub use start::{CephEngine, EngineOptions, StepProbe};

/// The name of the engine.
pub const NAME: &str = "Ceph";

/// The object of a shelf, in its namespace.
pub const SHELF_OBJECT: &str = "bulkhead.shelf";
