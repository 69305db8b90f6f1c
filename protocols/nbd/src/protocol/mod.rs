//! The protocol without sockets: what bytes mean, and which bytes answer them.

mod handshake;
mod reply;
mod request;
pub mod wire;

pub use handshake::{
    Directory, ExportInfo, Handshake, HandshakeViolation, Listing, Lookup, Step, TlsPolicy,
    Transmission,
};
pub use reply::StatusExtent;
pub use request::{BadRequest, Command, Negotiated, Request, block_status_payload};
