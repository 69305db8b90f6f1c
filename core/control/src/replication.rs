//! Replication: the properties of a pool, requests, and responses.
//!
//! The properties are specified in `docs/formats/replication.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

/// Property of a volume, or of a dataset with volumes below: the destination of its replication.
pub const REPLICATE_PROPERTY: &str = "bulkhead:replicate";
/// Property next to it: the result of the last run.
pub const REPLICATE_STATE_PROPERTY: &str = "bulkhead:replicate-state";
/// Property of the root dataset: the identity of the pool for other pools.
pub const REPLICATION_KEY_PROPERTY: &str = "bulkhead:replication-key";
/// Property of the root dataset: the pools that may replicate into it.
pub const REPLICATION_PEERS_PROPERTY: &str = "bulkhead:replication-peers";
/// Property of a volume: it was a copy, and has replaced its original.
pub const PROMOTED_PROPERTY: &str = "bulkhead:promoted";

/// Property of a replicated snapshot: its arrival, in seconds since 1970 by the receiver's clock.
pub const ARRIVED_PROPERTY: &str = "bulkhead:arrived";
/// Property of a snapshot that replication created: its destination. The sender destroys only such snapshots.
pub const SENT_TO_PROPERTY: &str = "bulkhead:sent-to";

/// Property of a copy: the rule and the pool that send it. The receiver writes it, and accepts it from no sender. Never
/// a property of the original itself.
pub const RULE_PROPERTY: &str = "bulkhead:rule";
/// Property of a copy: the rule no longer replicates its original. The receiver writes it, too.
pub const ORPHANED_PROPERTY: &str = "bulkhead:orphaned";

/// The reservation of a volume's original, next to its [`EXPORT_PROPERTY`](crate::exports::EXPORT_PROPERTY); never a
/// property of the original itself.
pub const RESERVED_PROPERTY: &str = "bulkhead:reserved";

/// Digits of a fingerprint: SHA-256 of a certificate, in hex.
pub const FINGERPRINT_DIGITS: usize = 64;
/// Shortest pause between two runs.
pub const EVERY_SECONDS_MIN: u64 = 10;
/// Longest pause between two runs: a year.
pub const EVERY_SECONDS_MAX: u64 = 366 * 24 * 3600;
/// Largest number of replicated snapshots that are retained of a volume.
pub const KEEP_MAX: u32 = 10_000;

/// Longest time for which a receiver retains a snapshot, in days.
pub const KEEP_DAYS_MAX: u32 = 3_660;

/// The certificate of a pool, identified by its fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let text = text.to_ascii_lowercase();
        let is_hex = text.bytes().all(|digit| digit.is_ascii_hexdigit());
        if text.len() == FINGERPRINT_DIGITS && is_hex {
            return Ok(Self(text));
        }
        Err("a fingerprint has 64 hex digits: `bulkhead replicate identity` prints it".to_owned())
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.to_owned().try_into()
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.0
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The destination of a volume, or of every volume below a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplicateDocument {
    /// 1.
    pub version: u32,
    /// The receiver, as `HOST:PORT`.
    pub to: String,
    /// The receiving pool's certificate.
    pub peer: Fingerprint,
    /// The volume, or the dataset above volumes, at the receiver.
    pub into: VolumeName,
    /// Seconds between two runs; none: only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_s: Option<u64>,
    /// Number of replicated snapshots that are retained on each side.
    pub keep: u32,
    /// Encrypted volumes stay encrypted in transit and at the receiver.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw: bool,
    /// Encrypted volumes leave this pool decrypted: the receiver stores them like any volume.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decrypt: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The fault of a dataset's replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplicationTrouble {
    /// The last attempt failed.
    Failing,
    /// The copy is older than twice the pause between two runs, and five minutes.
    Late,
    /// The copy has a timestamp in the future.
    ClockAhead,
    /// The rule cannot be read: a newer release wrote it.
    Unreadable,
}

/// Summary of the replication of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicationGlance {
    /// Which.
    pub dataset: VolumeName,
    /// The receiver, as `HOST:PORT`.
    pub to: String,
    /// Seconds between two runs; none: only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_s: Option<u64>,
    /// Age of the replicated contents in seconds; none if none have arrived, or if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_s: Option<u64>,
    /// The fault, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<ReplicationTrouble>,
    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The result of replication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicateState {
    /// 1.
    pub version: u32,
    /// The last attempt, in seconds since 1970.
    #[serde(default)]
    pub attempted_unix_s: u64,
    /// The timestamp of the replicated contents, in seconds since 1970; 0: none.
    #[serde(default)]
    pub succeeded_unix_s: u64,
    /// When the rule was set, in seconds since 1970; 0: not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub since_unix_s: u64,
    /// Bytes of the last successful run.
    #[serde(default)]
    pub bytes: u64,
    /// Bytes of all of them.
    #[serde(default)]
    pub bytes_total: u64,
    /// Why the last attempt failed; none if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Space reserved for an original, in bytes; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedDocument {
    /// 1.
    pub version: u32,
    /// For its own contents.
    #[serde(default)]
    pub refreservation: u64,
    /// For it and its snapshots.
    #[serde(default)]
    pub reservation: u64,
}

impl ReservedDocument {
    /// Whether it has no reservation.
    pub fn is_nothing(&self) -> bool {
        self.refreservation == 0 && self.reservation == 0
    }
}

/// The key of a pool.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyDocument {
    /// 2; 1 where the key is in the clear, as written by older releases.
    pub version: u32,
    /// The certificate (DER), in hex.
    pub certificate: String,
    /// Its private key (PKCS #8) in hex, in the clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its private key, sealed with a key that the heads hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
}

/// Version of a [`PeersDocument`] with rules that accept file systems only if they permit them. Those of version 1
/// always accepted them.
pub const PEERS_VERSION: u32 = 2;

/// The pools that may replicate into this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeersDocument {
    /// [`PEERS_VERSION`], or 1.
    pub version: u32,
    /// The pools.
    pub peers: Vec<Peer>,
}

/// Since when a volume is no longer a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromotedDocument {
    /// 1.
    pub version: u32,
    /// In seconds since 1970.
    pub promoted_unix_s: u64,
}

/// The rule that sends a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleDocument {
    /// 1.
    pub version: u32,
    /// The certificate of the sending pool.
    pub peer: Fingerprint,
    /// The dataset of the sender that has the rule.
    pub from: VolumeName,
    /// Seconds between two runs, as the sender reports; none: only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_s: Option<u64>,
    /// When the newest snapshot arrived, in seconds since 1970 by the receiver's clock.
    #[serde(default)]
    pub arrived_unix_s: u64,
}

/// Since when the original of a copy is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanedDocument {
    /// 1.
    pub version: u32,
    /// The first run that did not name it, in seconds since 1970 by the receiver's clock.
    pub orphaned_unix_s: u64,
}

/// A pool that may replicate into this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Peer {
    /// Its certificate.
    pub fingerprint: Fingerprint,
    /// The volume that it may write, or the parent of those that it may write.
    pub below: VolumeName,
    /// The retention here, whatever the sender requests.
    #[serde(default)]
    pub retention: Retention,
    /// It may send file systems, too. Only for senders that are trusted with this head: ZFS validates little of the
    /// contents of their streams.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub files: bool,
}

/// The minimum retention of a receiver for each volume. The sender may request more, never less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Number of the newest replicated snapshots, 1 to [`KEEP_MAX`].
    pub newest: u32,
    /// Number of last days of which the first replicated snapshot is retained, up to
    /// [`KEEP_DAYS_MAX`].
    pub days: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Self { newest: 8, days: 7 }
    }
}

/// The replication of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicationView {
    /// The pool.
    pub pool: PoolName,
    /// Its certificate, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Pools that may replicate into it.
    pub peers: Vec<Peer>,
    /// Datasets that it replicates to other pools.
    pub replicated: Vec<ReplicatedView>,
    /// Datasets that other pools have replicated into it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyView>,
}

/// A volume that was replicated into the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopyView {
    /// Which.
    pub volume: VolumeName,
    /// The timestamp of its contents, or that at its promotion, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents_unix_s: Option<u64>,
    /// Seconds since then; none if it is in the future by the clock of this head: then a clock is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<u64>,
    /// A stream into it is being received.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_arriving: bool,
    /// Its exports after a promotion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exports: Vec<String>,
    /// When it was promoted, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted_unix_s: Option<u64>,
    /// Since when the sender does not replicate its original, which was renamed or destroyed there, in seconds since
    /// 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphaned_unix_s: Option<u64>,
    /// The identity of the original for its initiators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<crate::exports::Identity>,
}

/// One replicated dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicatedView {
    /// Which.
    pub dataset: VolumeName,
    /// The destination, and the interval.
    pub document: ReplicateDocument,
    /// The result.
    pub state: ReplicateState,
    /// Age of the replicated contents in seconds; none if none have arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_s: Option<u64>,
    /// The active run: its duration, its volume, its progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way: Option<String>,
}
