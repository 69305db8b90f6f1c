//! `bulkhead bench network`: the throughput between two hosts by the number of connections, and the part that bounds it.
//! iperf3 generates the traffic, one process for each connection, so that each can use a processor of its own.

#![forbid(unsafe_code)]

pub mod arguments;
mod bound;
mod chart;
pub mod command;
mod host;
mod iperf;
mod server;
