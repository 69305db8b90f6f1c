//! Sends messages about alerts to the receivers of `[alerts]` in the appliance file. [`Service`] runs inside `bulkhead
//! head`. Due messages are determined without I/O ([`book`]); `send` performs it, and bounds the time and the size of each
//! reply.

#![forbid(unsafe_code)]

pub mod book;
pub mod message;
mod send;
mod service;

pub use service::{STATE_FILE, Service};
