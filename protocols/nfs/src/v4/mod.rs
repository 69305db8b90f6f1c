//! NFS 4.1 and 4.2 (RFC 8881, RFC 7862), without sockets and clock: the arguments of a compound in, its result out.

mod attributes;
mod compound;
mod extended;
mod grace;
mod input_output;
mod names;
mod numbers;
mod opening;
mod opens;
mod sessions;
mod state;

pub use compound::{Caller, Presentation, Service, Unanswered, Used, takes_long};
pub use grace::{ClientKey, ClientRecord, Clients, Had, Holders, NoRecord};
pub use state::MESSAGE_BYTES_MAX;

#[cfg(test)]
mod tests;
