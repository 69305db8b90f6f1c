//! The lab: a whole appliance on one host, to rehearse its file before the hardware arrives and to
//! drill its takeovers.
//!
//! No part of the cluster is a mock. Each head is a set of namespaces (network, mount, pid, uts, ipc) with its own
//! `/etc`, `/var`, `/run` and `/dev`, in which the real Corosync, Pacemaker and fence agents run. Its BMC is a process
//! outside of it that implements real IPMI; power off kills the head's first process, and with it all its processes.
//! Disks are files that all heads of a pool see under the names of the appliance file. The networks are bridges in a
//! private namespace.
//!
//! The whole lab is in one process namespace: when its first process exits, for whatever reason,
//! the kernel kills all its processes, and mounts, networks and namespaces are removed with them.
//! Only one directory is left then, which [`Lab::down`] removes.
//!
//! `inside` runs in there, started by the hidden command `bulkhead lab-inside`; `arguments` and `command` are `bulkhead
//! lab`; the remaining modules are the interface for it and for the drills.

#![forbid(unsafe_code)]

pub mod arguments;
mod clock;
pub mod command;
mod console;
mod directory;
mod error;
mod fabric;
mod handle;
pub mod inside;
mod keys;
mod logs;
mod memory;
mod needs;
mod power;
mod served;
mod up;
mod wire;

pub use console::CONSOLE_USER;
pub use directory::DEFAULT_BASE;
pub use error::LabError;
pub use fabric::{free_address_near, used_addresses};
pub use handle::{Lab, Node};
pub use memory::MemoryGroup;
pub use needs::missing;
pub use power::Power;
pub use served::{ClusterState, PoolState};
pub use up::UpOptions;
pub use wire::{HeadState, Impairment, State};
