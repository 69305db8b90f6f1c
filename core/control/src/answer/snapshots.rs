//! Responses about snapshots and bookmarks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::SnapshotName;

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotView {
    /// Its name.
    pub name: SnapshotName,
    /// Space that only it uses.
    pub used: u64,
    /// Space used by its contents.
    pub referenced: u64,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_unix_s: Option<u64>,
}

/// The changes of a volume from one snapshot to a later one, in whole blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangesView {
    /// The older snapshot.
    pub from: SnapshotName,
    /// The newer snapshot; none means the contents at the time of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<SnapshotName>,
    /// Bytes that were written.
    pub written: u64,
    /// Bytes that were freed, and read as zeroes.
    pub freed: u64,
    /// Number of extents.
    pub extent_count: u64,
    /// The first 100,000 extents, in ascending order.
    pub extents: Vec<ChangedExtent>,
}

/// A changed range of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedExtent {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// It was freed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub freed: bool,
}

/// A hold of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HoldView {
    /// The snapshot.
    pub snapshot: SnapshotName,
    /// The name of the hold.
    pub tag: String,
    /// When it was added, in seconds since 1970.
    pub since_unix_s: u64,
}

/// A bookmark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BookmarkView {
    /// Its name, as `POOL/NAME#MARK`.
    pub name: String,
    /// The GUID of the snapshot that it was made of, which identifies it in streams.
    pub guid: u64,
    /// When that snapshot was made, in seconds since 1970.
    pub created_unix_s: u64,
}
