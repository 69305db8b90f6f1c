//! Explores the state machines of this crate in a world with all possible faults.

mod actions;
mod cases;
mod changes;
mod digest;
mod invariants;
mod mutations;
mod runs;
mod search;
mod shapes;
mod steps;
mod world;
