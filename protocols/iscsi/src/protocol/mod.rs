//! The iSCSI protocol of RFC 7143 without sockets: PDUs, text negotiation, login, CHAP,
//! discovery, command numbering and data transfer as pure state machines.

pub mod chap;
pub mod digest;
pub mod discovery;
pub mod header;
pub mod login;
pub mod negotiation;
pub mod parameters;
pub mod request;
pub mod response;
pub mod serial;
pub mod text;
pub mod transfer;
pub mod window;
