//! Streams of snapshots: sent and received. On the command line they are verbs of `snapshot`, which build one of these
//! requests from their options, and pass a descriptor for the stream.

use super::noun;

noun! {
    /// Requests about streams.
    TransferRequest, "transfer";
    wire_only {
        send::Send, receive::Receive, interrupted::Interrupted, abort::Abort, bookmark::Bookmark
    }
}
