//! The server process.

use super::noun;

noun! {
    /// Requests about the server process.
    ServerRequest, "server";
    bare_wire_only { ping::Ping, reload::Reload, settle::Settle }
}
