//! Drills: faults made on purpose in a lab while stock initiators work, and a verdict on the
//! effects that the clients saw, against the published promises.
//!
//! `faults` injects and undoes the faults, `run` performs the drills round by round in an `environment`: a lab, the
//! active clients (`workload`, `client`, `kinds`), and the watch over the disks. `other_pools` holds the other pools of the
//! appliance with clients of their own. `third` writes the files of the drill that adds a head. `arguments` and
//! `command` are `bulkhead drill`. The verdict is crate `drill-verdict`.

#![forbid(unsafe_code)]

pub mod arguments;
mod client;
mod client_events;
pub mod command;
mod damaged;
mod environment;
mod error;
mod exhausted;
mod extra_volumes;
mod fault;
mod faults;
mod health;
mod kinds;
mod other_pools;
mod run;
mod third;
mod watch;
mod workload;

pub use error::DrillError;
pub use faults::with_profile;
pub use run::{EXAMPLE, Options, Progress, run};
