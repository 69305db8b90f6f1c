//! The protocol between the members that store the record of a pool's legs: the heads and the witness.
//!
//! * [`wire`]: encodes and decodes messages. Accepts any input.
//! * [`Member`]: handles requests for one host. State is durable before the response is sent.
//! * [`Server`]: accepts connections from the other members. [`Links`]: connects to them.
//!   [`Exchange`]: repeats requests until each has a response.
//!
//! Connections are mutual TLS 1.3. A member is identified by the fingerprint of its certificate and accepts only
//! configured peers. Responses may arrive in any order: each names the request it belongs to. Any message may be lost
//! with its connection, so requests are retried.
//!
//! **Bounds.** All time-outs, lengths and counts are in [`limits`]. A peer that sends too many requests is throttled. A
//! peer with an unknown certificate is disconnected during the TLS handshake, before it can send a message.

#![forbid(unsafe_code)]

mod client;
mod exchange;
pub mod limits;
mod liveness;
mod member;
mod server;
mod silence;
mod stream;
pub mod wire;

pub use leg_memory::lock_file;

pub use client::{LinkState, Links, Peer, Received};
pub use exchange::Exchange;
pub use liveness::Liveness;
pub use member::{Member, PoolState, Readmission, ReadmitError, Serves, forget, pools_in, readmit};
pub use server::{AllowedMember, Lend, Server};
pub use silence::Silence;
pub use wire::{Envelope, Inspection, Lent, Message};
