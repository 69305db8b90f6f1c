//! Reaches a pool from this machine: by the socket of its server or, where nobody serves it and no cluster manages it, by
//! opening it in this process. What both need is here: the options of every command, where pools were seen, the engines.

#![forbid(unsafe_code)]

mod access;
pub mod appliance_file;
pub mod audit;
pub mod common;
pub mod confine;
pub mod engines;
pub mod legs;
pub mod managed;
pub mod open;
pub mod places;
pub mod sockets;

pub use access::*;
