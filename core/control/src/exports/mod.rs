//! The exports of a pool: documents in ZFS user properties, and the desired state that follows from them. Pure: text
//! in, values out.
//!
//! The format is specified in `docs/formats/exports.md`.

mod access;
mod desired;
mod document;
mod identity;
mod reservations;

pub use access::AccessRule;
pub use desired::{
    Change, DISCOVERY, DesiredExport, DesiredState, DesiredTarget, DesiredUnit, Problem,
    VolumeFacts, difference,
};
pub use document::{
    ChapUser, ChapUsers, DOCUMENT_VERSION, DocumentError, IscsiMap, KeptSecret, NbdExport,
    SEALED_VERSION, TargetDocument, VolumeDocument,
};
pub(crate) use document::{decode, encode};
pub use identity::Identity;
pub use reservations::{ReservationsError, join_parts, mode_property, part_names, split_parts};

use units::IscsiName;

/// Prefix of every property that Bulkhead stores in a pool.
pub const PROPERTY_PREFIX: &str = "bulkhead:";
/// Volume property: its exports.
pub const EXPORT_PROPERTY: &str = "bulkhead:export";
/// Volume property: its identity.
pub const IDENTITY_PROPERTY: &str = "bulkhead:identity";
/// Prefix of the root dataset's properties that describe targets; the target's name follows.
pub const TARGET_PROPERTY_PREFIX: &str = "bulkhead:target:";
/// The root dataset's property with the authentication that discovery requires.
pub const DISCOVERY_PROPERTY: &str = "bulkhead:discovery";
/// The root dataset's property with the key that signs file handles. No operation reads it, and no copy of the dataset
/// contains it.
pub const HANDLE_KEY_PROPERTY: &str = "bulkhead:file-handle-key";
/// Longest value of one property, in bytes: ZFS's `ZAP_MAXVALUELEN` less the closing zero.
pub const PROPERTY_BYTES_MAX: usize = 8191;

/// Returns the name of the property that describes `target`.
pub fn target_property(target: &IscsiName) -> String {
    format!("{TARGET_PROPERTY_PREFIX}{target}")
}
