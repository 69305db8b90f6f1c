//! An iSCSI target (RFC 7143): the protocol as pure state machines, and a server that puts it on
//! sockets with one thread per connection.
//!
//! A program makes an [`IscsiServer`], tells it a [`DesiredState`] (targets with their units and access
//! rules, portals) and may tell it another one at any time; what is still allowed notices
//! nothing.

#![forbid(unsafe_code)]

pub mod protocol;
mod server;

pub use protocol::chap::{Chap, Credentials, Secret};
pub use server::{
    Access, Applied, ConnectionStatus, DesiredPortal, DesiredState, DesiredTarget, Initiators,
    IscsiServer, Limits, ServerStatus, SessionStatus,
};
