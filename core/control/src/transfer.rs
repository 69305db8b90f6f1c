//! Requests and responses for streams of snapshots: send, receive, and replication.
//!
//! The stream itself does not use the control socket: the client passes a descriptor with its
//! request, and the server reads or writes that (`docs/formats/control.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::SnapshotName;

/// The stream to send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SendWhat {
    /// A snapshot.
    Snapshot {
        /// Its name.
        name: SnapshotName,
        /// The snapshot that the receiver already has: `@SNAPSHOT`, `#BOOKMARK`, or a full name of
        /// either.
        from: Option<String>,
        /// Raw blocks: those of an encrypted volume stay encrypted.
        raw: bool,
        /// Tiny blocks travel inside their records.
        embedded: bool,
        /// Blocks are decompressed, and split at 128K, for old receivers.
        plain: bool,
    },
    /// The rest of an interrupted stream.
    Rest {
        /// The receiver's token.
        token: String,
    },
}

/// The result of a send or receive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TransferView {
    /// Full names of the snapshots, oldest first.
    pub snapshots: Vec<String>,
    /// Bytes of the stream; approximate for an estimate.
    pub bytes: u64,
    /// Its duration.
    pub elapsed_ms: u64,
    /// Whether it was only estimated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_estimate: bool,
}

/// An interrupted receive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptedView {
    /// The volume.
    pub volume: String,
    /// The token with which the sender resumes; none if nothing was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The volume itself is incomplete, and not only its next snapshot.
    pub is_partial: bool,
}
