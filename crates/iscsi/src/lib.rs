//! An iSCSI target (RFC 7143): the protocol as pure state machines, and a server that puts it on
//! sockets with one thread per connection.

#![forbid(unsafe_code)]

pub mod protocol;
