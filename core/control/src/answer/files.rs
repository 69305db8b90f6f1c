//! Responses about file systems and their clients.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::VolumeName;

use super::{Property, SpaceView};
use crate::owners::OwnerKind;

/// A file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FilesystemView {
    /// Its name.
    pub name: VolumeName,
    /// It is encrypted and its key is not loaded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub locked: bool,
    /// Space that it, its snapshots and its children occupy.
    pub used: u64,
    /// Space that is available to it.
    pub available: u64,
    /// Space used by its files.
    pub referenced: u64,
    /// The rule by which it is shared over the network.
    pub share: ShareView,
    /// Its current clients, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// The snapshot it was cloned from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Its use of space, and its limits.
    #[serde(default)]
    pub space: SpaceView,
    /// Properties; only in detail.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, Property>,
}

/// The findings of a file system check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckView {
    /// The file system.
    pub name: String,
    /// Files, directories and the like.
    pub objects: u64,
    /// Names in directories.
    pub names: u64,
    /// The number of bytes that do not fit.
    pub fault_count: u64,
    /// The first hundred of it.
    pub faults: Vec<FaultView>,
    /// Its duration.
    pub took_ms: u64,
}

/// An inconsistency in a file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultView {
    /// The number of the object concerned, as `zdb` accepts it.
    pub object: u64,
    /// Its path in the file system, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The inconsistency, in a sentence without its subject.
    pub what: String,
}

/// The space and the quotas of users, groups or projects in a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnersView {
    /// The file system, or its snapshot.
    pub name: String,
    /// The kind of the owners.
    pub of: OwnerKind,
    /// The owners: without another order, those that use the most bytes first; at most 10,000.
    pub owners: Vec<OwnerView>,
    /// Number of further owners, which use no more than these.
    #[serde(default)]
    pub left_out: u64,
}

/// The space and the quotas of a user, group or project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerView {
    /// Its kind.
    pub of: OwnerKind,
    /// Its number.
    pub id: u64,
    /// Its name, if the host of the pool has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Bytes on disk.
    pub used: u64,
    /// The quota of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<u64>,
    /// Files, directories and the like, if they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// The quota of objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_quota: Option<u64>,
}

/// Opens and locks of NFS clients in a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenFilesView {
    /// The file system.
    pub name: String,
    /// Clients with opens, locks or blocked lock requests there.
    pub clients: Vec<FileClientView>,
    /// Number of files that are open or locked.
    pub file_count: u64,
    /// The first 500 of them.
    pub files: Vec<OpenFileView>,
}

/// An NFS client, and the amount of its state in a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileClientView {
    /// Its id, for `filesystem expire-client`.
    pub client: String,
    /// The name that it reports.
    pub name: String,
    /// The version of NFS: `3`, `4.0`, or `4.1+` for 4.1 and 4.2.
    pub version: String,
    /// Its address; for a client of version 4 with an IPv6 address its network (/64).
    pub address: String,
    /// Seconds since its last message.
    pub silent_s: u64,
    /// Its lease has expired: another client that requests its state gets it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
    /// Opens.
    pub opens: u64,
    /// Locked ranges.
    pub locks: u64,
    /// Ranges that it is blocked on. Only clients of version 3 report blocked requests.
    pub waiting: u64,
}

/// A file that is open or locked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenFileView {
    /// The number of its object, as `zdb` accepts it.
    pub object: u64,
    /// Its path in the file system, if it was found in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// It is in a snapshot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_snapshot: bool,
    /// Its opens; the first 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opens: Vec<OpenView>,
    /// Number of opens.
    pub open_count: u64,
    /// Locked ranges; the first 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<FileLockView>,
    /// Number of locked ranges.
    pub lock_count: u64,
    /// Ranges that clients are blocked on; the first 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<FileLockView>,
}

/// An open of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenView {
    /// The client that holds it.
    pub client: String,
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Other clients cannot open it for reading.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denies_read: bool,
    /// Other clients cannot open it for writing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denies_write: bool,
}

/// A range of a file that is locked or requested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileLockView {
    /// The client that holds it.
    pub client: String,
    /// The process and host, as the client reports them. Only clients of version 3 report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// The first byte.
    pub offset: u64,
    /// Length in bytes; none: to the end of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// No other client may have it.
    pub exclusive: bool,
}

/// The share of a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShareView {
    /// Its property `sharenfs`, or that of the nearest parent that has one; `off` if none has.
    pub value: String,
    /// The parent from which it is inherited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Why it is not shared in this way, and the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
