//! Several heads: agents as Pacemaker runs them, plans, labs, addresses and ownership.

#[path = "../common/mod.rs"]
mod common;

mod agent;
mod appliance;
mod applies;
mod boots;
mod drill;
mod lab;
mod notifications;
mod orphaned_clients;
mod outside_the_cluster;
mod ownership;
mod portals;
mod power;
mod safeguards;
mod two_pools;
