//! The protocol without sockets: decodes requests and encodes replies.

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
