//! An upgrade of an appliance, head by head, while the pools are served.
//!
//! `decide` returns the next step for the observed state, without I/O; `observe` reads that state; `run` performs the
//! steps until none is left, or until the state is not the expected one. Only the state of the heads is stored, and a
//! mark in the cluster's configuration: a run that was killed is continued by the next one.

pub mod decide;
pub mod install;
pub mod observe;
pub mod run;
pub mod version;

/// The package with the binary.
const PACKAGE: &str = "bulkhead";
