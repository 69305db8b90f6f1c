//! `bulkhead watch drops`: the packets that this host's network loses, by interface, queue, reason and peer. It reads
//! the kernel's counters and the output of ethtool(8), tc(8) and ss(8), and the kernel's reports of single packets where
//! tracefs is available. No setting is changed.

#![forbid(unsafe_code)]

pub mod arguments;
pub mod command;
pub mod interval;
mod reports;
mod sources;
mod text;
