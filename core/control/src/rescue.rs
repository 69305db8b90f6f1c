//! A second view of a volume while its virtual machine is off: its contents on a local NBD socket,
//! for as long as needed, with nothing left behind.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{SnapshotName, VolumeName};

/// An active rescue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RescueView {
    /// The volume.
    pub volume: VolumeName,
    /// The snapshot that is shown; none means the volume itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotName>,
    /// The clone that exists during the rescue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone: Option<VolumeName>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether commands are included that change labels inside it, such as the owner of a pool or the name of a volume
    /// group.
    #[serde(default)]
    pub allow_label_changes: bool,
    /// The NBD socket; its only export has no name.
    pub socket: PathBuf,
    /// The same as a URI for NBD clients.
    pub uri: String,
    /// Bytes.
    pub size: u64,
    /// `gpt`, `mbr` or `none`.
    pub partition_table: String,
    /// The partitions; for a disk with a file system and no partition table, that file system,
    /// numbered 0.
    pub partitions: Vec<Partition>,
    /// Commands to use it, to undo that, and to end it, in this order.
    pub commands: Vec<RescueCommand>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Partition {
    /// Its number, as Linux counts.
    pub number: u32,
    /// Where it begins, in bytes.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// Its type: a GUID of a GPT, two hex digits of an MBR, or empty.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its name in a GPT.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The detected contents: `ext4`, `xfs`, `ntfs`, `LUKS`, `LVM`, `md`, `ZFS`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<String>,
    /// The label of a file system; the name of a pool, a volume group or an array.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The UUID or serial number of the contents.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    /// The number of devices that belong together, for contents that span devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<u32>,
    /// The logical volumes of a volume group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// Further facts, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A command, and its purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RescueCommand {
    /// Its purpose.
    pub purpose: String,
    /// The partition that it opens or closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// The lines.
    pub lines: Vec<String>,
}
