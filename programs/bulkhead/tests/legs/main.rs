//! Pools with legs: heads without shared disks, with and without a witness.

#[path = "../common/mod.rs"]
mod common;

mod attached_legs;
mod balanced_reads;
mod double_fault;
mod groups_of_legs;
mod log_of_legs;
mod members_of_legs;
mod pair_of_legs;
mod recorded_legs;
mod replaced_legs;
mod returns_of_legs;
mod shapes_of_legs;
mod stale_leg;
mod third_head_of_legs;
mod witness_of_legs;
