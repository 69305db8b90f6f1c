//! Connects the pure decisions to hosts: commands on local and remote heads, the tools of Corosync and Pacemaker, and
//! the actions of the OCF agent. Each has a trait or a plain interface, so that tests replace it by a fake. `arguments`
//! and `command` are `bulkhead appliance`.

#![forbid(unsafe_code)]

pub mod agent;
pub mod appliance_file;
pub mod apply;
pub mod arguments;
pub mod cib;
pub mod command;
pub mod fake;
pub mod gather;
pub mod hand_over;
pub mod host;
mod leg_wait;
pub mod netlink;
pub mod observe;
pub mod pool_management;
pub mod power;
pub mod process;
pub mod retire;
pub mod rotate;
mod safeguard_queries;
pub mod situation;
mod stale_disks;
pub mod standby;
pub mod steps;
pub mod tuning;
pub mod unable_heads;
pub mod upgrade;

pub use apply::{ApplyError, apply};
pub use gather::{Depth, gather, missing_files};
pub use hand_over::{HandOverError, HandedOver, hand_over, server_before};
pub use host::{Host, HostError, Hosts};
pub use leg_wait::LegsMissing;
pub use observe::observe;
pub use rotate::rotate_key;
pub use steps::Steps;
