//! The JSON documents about exports: one on each exported volume; one for each target, and one for discovery, on the
//! pool's root dataset. Each has a version; an unknown one is refused, never guessed.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use units::IscsiName;

use super::{AccessRule, PROPERTY_BYTES_MAX};
use crate::secret::Secret;

/// Version of all documents that this release writes and supports, but for [`SEALED_VERSION`].
pub const DOCUMENT_VERSION: u64 = 1;
/// Version of a document with sealed secrets, which older releases cannot serve.
pub const SEALED_VERSION: u64 = 2;
/// Version of documents with users that are bound to initiators.
pub const BOUND_VERSION: u64 = 3;

/// Why a property's value is not a document, or a document does not fit a property.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Not JSON, or not the schema of its version.
    #[error("property {property} is not a document of version {DOCUMENT_VERSION}")]
    Malformed {
        /// Where it was found.
        property: String,
        /// The parser's error. It never contains a secret: only positions and field names.
        #[source]
        cause: serde_json::Error,
    },
    /// Written by a newer release.
    #[error(
        "property {property} has version {version}, this release supports {DOCUMENT_VERSION}: \
         update Bulkhead on this machine, or export the volume anew"
    )]
    UnknownVersion {
        /// Where it was found.
        property: String,
        /// The version in the document.
        version: u64,
    },
    /// More exports or users than fit into one property.
    #[error(
        "property {property} would need {bytes} bytes, ZFS stores {PROPERTY_BYTES_MAX}: \
         use fewer entries (a network instead of many addresses)"
    )]
    TooLarge {
        /// The name of the property.
        property: String,
        /// Encoded length.
        bytes: usize,
    },
}

/// A volume's unit in a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IscsiMap {
    /// The target.
    pub target: IscsiName,
    /// The logical unit number in it.
    pub lun: u16,
    /// Writes are refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Whether the unit's volatile write cache is enabled at the start (caching mode page, WCE).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub write_cache: bool,
}

/// A volume's NBD export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NbdExportDocument")]
pub struct NbdExport {
    /// Export name.
    pub name: String,
    /// Writes are refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// The clients that may connect, in addition to loopback and Unix sockets.
    #[serde(default, skip_serializing_if = "AccessRule::is_empty")]
    pub access: AccessRule,
}

/// Value of `bulkhead:export`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeDocument {
    /// Where it is a logical unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iscsi: Vec<IscsiMap>,
    /// Its export over NBD.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nbd: Vec<NbdExport>,
}

impl VolumeDocument {
    /// Returns whether the volume is not exported at all.
    pub fn is_empty(&self) -> bool {
        self.iscsi.is_empty() && self.nbd.is_empty()
    }

    /// Returns its exports in words: `iscsi:IQN/0`, `nbd:NAME`.
    pub fn places(&self) -> Vec<String> {
        let maps = self.iscsi.iter();
        let maps = maps.map(|map| format!("iscsi:{}/{}", map.target, map.lun));
        let exports = self.nbd.iter().map(|export| format!("nbd:{}", export.name));
        maps.chain(exports).collect()
    }

    /// Reads the value of `property`.
    pub fn decode(property: &str, value: &str) -> Result<Self, DocumentError> {
        decode(property, value)
    }

    /// The value for `property`.
    pub fn encode(&self, property: &str) -> Result<String, DocumentError> {
        encode(property, self)
    }
}

/// A secret as stored in a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptSecret {
    /// In the clear, as written by older releases.
    Plain(Secret),
    /// Sealed with a key that the heads hold; the text names the key.
    Sealed(String),
}

/// A CHAP user and its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ChapFields", into = "ChapFields")]
pub struct ChapUser {
    /// The name (`CHAP_N`).
    pub user: String,
    /// The secret.
    pub secret: KeptSecret,
    /// The initiators that may use it, by name; empty means any.
    pub initiators: Vec<IscsiName>,
}

/// The members of a [`ChapUser`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChapFields {
    user: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    initiators: Vec<IscsiName>,
}

impl TryFrom<ChapFields> for ChapUser {
    type Error = &'static str;

    fn try_from(fields: ChapFields) -> Result<Self, Self::Error> {
        let secret = match (fields.secret, fields.sealed) {
            (Some(secret), None) => KeptSecret::Plain(secret),
            (None, Some(sealed)) => KeptSecret::Sealed(sealed),
            _ => return Err("a CHAP user has either a secret or a sealed one"),
        };
        Ok(Self {
            user: fields.user,
            secret,
            initiators: fields.initiators,
        })
    }
}

impl From<ChapUser> for ChapFields {
    fn from(chap: ChapUser) -> Self {
        let (secret, sealed) = match chap.secret {
            KeptSecret::Plain(secret) => (Some(secret), None),
            KeptSecret::Sealed(sealed) => (None, Some(sealed)),
        };
        Self {
            user: chap.user,
            secret,
            sealed,
            initiators: chap.initiators,
        }
    }
}

/// The CHAP users of both directions. As the value of `bulkhead:discovery`: the authentication that discovery requires.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChapUsers {
    /// Initiators must authenticate as one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chap: Vec<ChapUser>,
    /// The user by which the target authenticates to an initiator that requires it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual: Option<ChapUser>,
}

impl ChapUsers {
    /// Reads the value of `property`.
    pub fn decode(property: &str, value: &str) -> Result<Self, DocumentError> {
        decode_up_to(BOUND_VERSION, property, value)
    }

    /// The value for `property`.
    pub fn encode(&self, property: &str) -> Result<String, DocumentError> {
        encode_as(self.version(), property, self)
    }

    /// Returns all owners of secrets: the initiators, then the target.
    pub fn all(&self) -> impl Iterator<Item = &ChapUser> {
        self.chap.iter().chain(&self.mutual)
    }

    /// Returns the oldest version that supports the form of the secrets.
    fn version(&self) -> u64 {
        let is_sealed = |chap: &ChapUser| matches!(chap.secret, KeptSecret::Sealed(_));
        let is_bound = |chap: &ChapUser| !chap.initiators.is_empty();
        match self.all().any(is_bound) {
            true => BOUND_VERSION,
            false if self.all().any(is_sealed) => SEALED_VERSION,
            false => DOCUMENT_VERSION,
        }
    }
}

/// Value of `bulkhead:target:NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "TargetFields", into = "TargetFields")]
pub struct TargetDocument {
    /// Portal groups that offer it; empty means all.
    pub portal_groups: Vec<u16>,
    /// The initiators that may log in.
    pub access: AccessRule,
    /// The authentication of initiators and target; none without users.
    pub users: ChapUsers,
}

/// The members of a [`TargetDocument`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetFields {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    portal_groups: Vec<u16>,
    #[serde(default, skip_serializing_if = "AccessRule::is_empty")]
    access: AccessRule,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    chap: Vec<ChapUser>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mutual: Option<ChapUser>,
}

impl From<TargetFields> for TargetDocument {
    fn from(fields: TargetFields) -> Self {
        let (chap, mutual) = (fields.chap, fields.mutual);
        Self {
            portal_groups: fields.portal_groups,
            access: fields.access,
            users: ChapUsers { chap, mutual },
        }
    }
}

impl From<TargetDocument> for TargetFields {
    fn from(document: TargetDocument) -> Self {
        let ChapUsers { chap, mutual } = document.users;
        Self {
            portal_groups: document.portal_groups,
            access: document.access,
            chap,
            mutual,
        }
    }
}

impl TargetDocument {
    /// Reads the value of `property`.
    pub fn decode(property: &str, value: &str) -> Result<Self, DocumentError> {
        decode_up_to(BOUND_VERSION, property, value)
    }

    /// The value for `property`.
    pub fn encode(&self, property: &str) -> Result<String, DocumentError> {
        encode_as(self.users.version(), property, self)
    }
}

/// A document preceded by its version.
#[derive(Serialize)]
struct Versioned<'a, T> {
    version: u64,
    #[serde(flatten)]
    document: &'a T,
}

/// Reads `value` as a versioned document.
pub(crate) fn decode<T: DeserializeOwned>(property: &str, value: &str) -> Result<T, DocumentError> {
    decode_up_to(DOCUMENT_VERSION, property, value)
}

fn decode_up_to<T: DeserializeOwned>(
    known: u64,
    property: &str,
    value: &str,
) -> Result<T, DocumentError> {
    let malformed = |cause| DocumentError::Malformed {
        property: property.to_owned(),
        cause,
    };
    let mut fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(value).map_err(malformed)?;
    let version = fields.remove("version").unwrap_or_default();
    match version.as_u64() {
        Some(version) if (DOCUMENT_VERSION..=known).contains(&version) => {}
        Some(version) => {
            return Err(DocumentError::UnknownVersion {
                property: property.to_owned(),
                version,
            });
        }
        None => {
            let cause = serde::de::Error::missing_field("version");
            return Err(malformed(cause));
        }
    }
    serde_json::from_value(fields.into()).map_err(malformed)
}

/// Serializes `document` with its version, if it fits a property.
pub(crate) fn encode<T: Serialize>(property: &str, document: &T) -> Result<String, DocumentError> {
    encode_as(DOCUMENT_VERSION, property, document)
}

fn encode_as<T: Serialize>(
    version: u64,
    property: &str,
    document: &T,
) -> Result<String, DocumentError> {
    let versioned = Versioned { version, document };
    let text = serde_json::to_string(&versioned).map_err(|cause| DocumentError::Malformed {
        property: property.to_owned(),
        cause,
    })?;
    if text.len() > PROPERTY_BYTES_MAX {
        return Err(DocumentError::TooLarge {
            property: property.to_owned(),
            bytes: text.len(),
        });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROPERTY: &str = "bulkhead:export";

    /// The example of docs/formats/exports.md.
    #[test]
    fn volume_document_matches_the_format() {
        let document = VolumeDocument {
            iscsi: vec![IscsiMap {
                target: "iqn.2026-01.org.example:tank".parse().expect("name"),
                lun: 0,
                read_only: false,
                write_cache: false,
            }],
            nbd: vec![NbdExport {
                name: "vm0".into(),
                read_only: true,
                access: AccessRule {
                    networks: vec!["10.0.0.0/24".parse().expect("network")],
                    ..AccessRule::default()
                },
            }],
        };
        let text = document.encode(PROPERTY).expect("fits");
        assert_eq!(
            text,
            r#"{"version":1,"iscsi":[{"target":"iqn.2026-01.org.example:tank","lun":0}],"nbd":[{"name":"vm0","read_only":true,"access":{"networks":["10.0.0.0/24"]}}]}"#
        );
        assert_eq!(
            VolumeDocument::decode(PROPERTY, &text).expect("read back"),
            document
        );
    }

    #[test]
    fn a_newer_document_is_refused_with_advice() {
        let error = VolumeDocument::decode(PROPERTY, r#"{"version":2,"what":"ever"}"#)
            .expect_err("version 2");
        assert!(matches!(
            error,
            DocumentError::UnknownVersion { version: 2, .. }
        ));
        assert!(error.to_string().contains("update Bulkhead"));
    }

    #[test]
    fn unknown_fields_missing_versions_and_garbage_are_refused() {
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"version":"1"}"#,
            r#"{"version":1,"surprise":true}"#,
            r#"{"version":1,"iscsi":[{"target":"not a name","lun":0}]}"#,
            r#"{"version":1,"iscsi":[{"target":"iqn.2026-01.org.example:a","lun":70000}]}"#,
        ] {
            let result = VolumeDocument::decode(PROPERTY, bad);
            assert!(
                matches!(result, Err(DocumentError::Malformed { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn document_above_the_zfs_property_size_is_refused() {
        let document = VolumeDocument {
            nbd: (0..400)
                .map(|n| NbdExport {
                    name: format!("an-export-with-a-name-{n}"),
                    read_only: false,
                    access: AccessRule::default(),
                })
                .collect(),
            ..VolumeDocument::default()
        };
        assert!(matches!(
            document.encode(PROPERTY),
            Err(DocumentError::TooLarge { .. })
        ));
    }

    #[test]
    fn sealed_secrets_raise_the_document_version() {
        let property = "bulkhead:target:x";
        let document = |secret| TargetDocument {
            users: ChapUsers {
                chap: vec![ChapUser {
                    user: "ann".to_owned(),
                    secret,
                    initiators: Vec::new(),
                }],
                mutual: None,
            },
            ..TargetDocument::default()
        };
        let plain = Secret::new("twelve chars".to_owned()).expect("long enough");
        for (secret, text) in [
            (
                KeptSecret::Plain(plain),
                r#"{"version":1,"chap":[{"user":"ann","secret":"twelve chars"}]}"#,
            ),
            (
                KeptSecret::Sealed("1:00c0ffee:ab".to_owned()),
                r#"{"version":2,"chap":[{"user":"ann","sealed":"1:00c0ffee:ab"}]}"#,
            ),
        ] {
            let document = document(secret);
            assert_eq!(document.encode(property).expect("fits"), text);
            let read = TargetDocument::decode(property, text).expect("read back");
            assert_eq!(read, document);
            // That of discovery has the same form.
            let users = ChapUsers::decode(property, text).expect("read");
            assert_eq!(users, document.users);
            assert_eq!(users.encode(property).expect("fits"), text);
        }
        for bad in [
            r#"{"version":2,"chap":[{"user":"ann"}]}"#,
            r#"{"version":2,"chap":[{"user":"ann","secret":"twelve chars","sealed":"1"}]}"#,
            r#"{"version":4}"#,
            r#"{"version":0}"#,
        ] {
            assert!(TargetDocument::decode(property, bad).is_err(), "{bad}");
            assert!(ChapUsers::decode(property, bad).is_err(), "{bad}");
        }
        // An older release would accept its user under any initiator name.
        let text = r#"{"version":3,"chap":[{"user":"ann","sealed":"1:00c0ffee:ab","initiators":["iqn.2026-01.org.example:ann"]}]}"#;
        let bound = TargetDocument::decode(property, text).expect("read");
        assert_eq!(bound.encode(property).expect("fits"), text);
        // Nothing else has secrets.
        assert!(VolumeDocument::decode(PROPERTY, r#"{"version":2}"#).is_err());
    }

    #[test]
    fn a_broken_target_document_does_not_print_its_secret() {
        let text = r#"{"version":1,"chap":[{"user":"a","secret":"hush-hush-hush","x":1}]}"#;
        let error = TargetDocument::decode("bulkhead:target:x", text).expect_err("unknown field");
        assert!(!crate::failure::chain(&error).contains("hush"));
    }
}
