//! Drills: faults made on purpose in a lab, while stock initiators work, with a verdict on what the
//! clients saw, measured against what is promised.
//!
//! `catalogue` names the drills, `faults` makes them, `run` does them round by round in a `environment`. What the
//! clients tell becomes a `seen`, logs become a `timeline`, `watch` looks for double imports; `promise`
//! judges, `report` sums up. The last five know no lab. `joining` is a drill of several acts, in a lab of its own for each round;
//! `third` writes its files. `arguments` and `command` are `bulkhead drill`. `beside` are the other pools, with clients of their own.

#![forbid(unsafe_code)]

pub mod arguments;
mod beside;
mod catalogue;
mod client;
mod client_events;
mod clock;
pub mod command;
mod damage;
mod disks;
mod environment;
mod error;
mod extra_volumes;
mod faults;
mod file;
mod health;
mod joining;
mod kinds;
mod legs;
mod memory;
mod moment;
mod promise;
mod report;
mod round;
mod run;
mod third;
mod timeline;
mod watch;

pub use catalogue::{Drill, UnknownDrill};
pub use client::Clients;
pub use error::DrillError;
pub use file::with_profile;
pub use promise::{Bounds, Broken, Expectation, Fencing, Kind, Place, Promise};
pub use report::{DrillReport, JudgedRound, Report};
pub use round::Round;
pub use run::{EXAMPLE, Options, Progress, run};
pub use timeline::{Mark, Step};
