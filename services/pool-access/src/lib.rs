//! Reaches a pool from this machine: by the socket of its server or, where nobody serves it and no cluster manages it, by
//! opening it in this process. What both need is here: the options of every command, where pools were seen, the engines.
//!
//! `access` asks one pool, `pools` finds which pools a question is about, `apart` looks at one of several that nobody
//! serves, by a `child`; `reconnect` asks a server's successor, `watch` asks again and again.

#![forbid(unsafe_code)]

mod access;
mod apart;
pub mod audit;
pub mod child;
pub mod common;
pub mod confine;
pub mod confirm;
pub mod engines;
pub mod inspect;
pub mod legs;
pub mod mount;
mod named;
mod on_record;
pub mod open;
pub mod places;
pub mod pools;
pub mod reconnect;
mod reidentify;
pub mod rescue;
pub mod sockets;
pub mod stream;
pub mod watch;

pub use access::*;
pub use agents::managed;
pub use on_record::record_legs;
pub use reidentify::reidentify;
