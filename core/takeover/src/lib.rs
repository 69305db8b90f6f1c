//! Decides which head may own a pool, on which proof, and the steps of the pool agent. Pure:
//! callers feed events and perform the returned actions, so that every failure can be replayed in a
//! test.
//!
//! **The rule.** Two owners destroy a pool. A [`Grant`] to own one can only be created by
//! [`judge`], from evidence that the previous owner has stopped; the action that starts a server
//! carries a grant. So starting without proof cannot be written down.

#![forbid(unsafe_code)]

mod absence;
mod agent;
pub mod budget;
mod proof;
pub mod timeline;

pub use absence::Records;
pub use agent::{Action, Agent, Event, Operation, Server, Verdict};
pub use proof::{Basis, Evidence, Grant, Label, Peer, Refusal, judge};
