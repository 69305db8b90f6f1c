//! How those who remember the record of a pool's legs talk to each other: the heads, and the witness.
//!
//! * [`wire`]: messages as bytes. Decodes anything.
//! * [`Member`]: answers for one machine. It writes what it remembers before it answers.
//! * [`Server`]: takes connections of the other members. [`Links`]: connections to them.
//!
//! Connections are mutual TLS 1.3. A member is known by the fingerprint of its certificate, and lets in nobody else.
//! Messages are not answered in turn: each answer says to what it belongs, and any message may be lost with its
//! connection. Who asks asks again.
//!
//! **Bounds.** All waits, lengths and counts are in [`limits`]. A peer that asks too often is slowed down. A stranger is cut off
//! before it has said anything but the handshake of TLS.

#![forbid(unsafe_code)]

mod client;
pub mod limits;
mod member;
mod server;
mod silence;
mod stream;
pub mod wire;

pub use leg_memory::lock_file;

pub use client::{Heard, LinkState, Links, Peer};
pub use member::{Member, PoolState, ReadmitError, Serves, Word, pools_in, readmit};
pub use server::{Friend, Lend, Server};
pub use silence::Silence;
pub use wire::{Envelope, Lent, Looked, Message};
