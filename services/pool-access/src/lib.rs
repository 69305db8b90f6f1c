//! Access to a pool from this host: through the socket of its server or, if it has no server and no cluster manages it,
//! by opening it in this process. Both need the options of every command, the cache of known pools, and the engines,
//! which are also here.
//!
//! `access` sends a request to one pool, `pools` selects the pools of a request, `query_process` reads one of several pools
//! without a server in a `child` process; `reconnect` repeats requests to a server's successor, `watch` repeats them
//! periodically.

#![forbid(unsafe_code)]

mod access;
pub mod audit;
pub mod child;
pub mod client_export;
pub mod common;
pub mod confine;
pub mod confirm;
pub mod device_names;
pub mod engines;
pub mod inspect;
mod leg_registration;
pub mod legs;
pub mod mount;
mod named;
pub mod open;
pub mod places;
pub mod pools;
mod promotions;
mod query_process;
pub mod reconnect;
mod reidentify;
pub mod rescue;
pub mod sockets;
pub mod stream;
mod unable_heads;
pub mod watch;

pub use access::*;
pub use agents::managed;
pub use leg_registration::record_legs;
pub use reidentify::reidentify;
