//! Streams of snapshots: sent and received. On the command line they are verbs of `snapshot`, which make one of these
//! requests of their options, and give the stream a descriptor.

use super::noun;

noun! {
    /// Requests about streams.
    TransferRequest, "transfer";
    wire_only {
        send::Send, receive::Receive, interrupted::Interrupted, abort::Abort, bookmark::Bookmark
    }
}
