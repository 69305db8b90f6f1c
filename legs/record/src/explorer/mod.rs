//! Explores the state machines of this folder in a world in which everything fails that can.

mod actions;
mod cases;
mod changes;
mod digest;
mod invariants;
mod mutations;
mod runs;
mod search;
mod steps;
mod world;
