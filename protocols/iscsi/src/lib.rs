//! An iSCSI target (RFC 7143): the protocol as pure state machines, and a server on sockets with
//! one thread per connection.
//!
//! A process creates an [`IscsiServer`] and applies a [`DesiredState`] (targets with their units
//! and access rules, portals). It may apply a new state at any time; sessions that are still
//! permitted are not affected.

#![forbid(unsafe_code)]

pub mod protocol;
mod server;

pub use protocol::chap::{Chap, Credentials, Secret};
pub use server::{
    Access, Applied, ConnectionStatus, DesiredPortal, DesiredState, DesiredTarget, Initiators,
    IscsiServer, Limits, ServerStatus, SessionStatus,
};
