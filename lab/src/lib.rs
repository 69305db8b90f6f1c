//! The lab: a whole appliance on one machine, to rehearse its file before the hardware arrives
//! and to drill its takeovers.
//!
//! Nothing of the cluster is a mock. Each head is a set of namespaces (network, mount, pid, uts, ipc)
//! with its own `/etc`, `/var`, `/run` and `/dev`, in which the real Corosync, Pacemaker and fence agents
//! run. Its BMC is a process outside of it that speaks real IPMI; power off kills the head's first
//! process, and with it everything that runs there. Disks are files that all heads of a pool see under the
//! names of the appliance file. The networks are bridges in a namespace that belongs to nobody else.
//!
//! The whole lab lives in one process namespace: when its first process ends, however that
//! happens, the kernel ends all others, and mounts, networks and namespaces go with them. What
//! is left then is one folder, which [`Lab::down`] removes.
//!
//! `inside` is what runs in there, started by the hidden command `bulkhead lab-inside`; `arguments` and `command` are
//! `bulkhead lab`; the other modules are what that and the drills call.

#![forbid(unsafe_code)]

pub mod arguments;
mod clock;
pub mod command;
mod console;
mod error;
mod fabric;
mod handle;
pub mod inside;
mod keys;
mod logs;
mod memory;
mod needs;
mod place;
mod power;
mod served;
mod up;
mod wire;

pub use console::CONSOLE_USER;
pub use error::LabError;
pub use fabric::{free_beside, used_addresses};
pub use handle::{Lab, Who};
pub use memory::MemoryGroup;
pub use needs::missing;
pub use place::DEFAULT_BASE;
pub use power::Power;
pub use served::{ClusterState, PoolState};
pub use up::UpOptions;
pub use wire::{HeadState, Impairment, State};
