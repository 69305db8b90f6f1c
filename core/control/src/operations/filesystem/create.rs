//! `filesystem create`

use std::str::FromStr;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::Done;
use crate::key::KeySettings;
use crate::operations::key::KeyOptions;
use crate::operations::{
    Changed, Example, Examples, Least, Operation, PoolSelector, Route, Source, Verb, property,
    schema_of,
};
use crate::request::Properties;
use crate::{Effect, Failure, effect};

/// Create a file system
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FilesystemCreate")]
pub struct Create {
    /// Its name.
    pub name: VolumeName,
    /// Numeric user id of the owner of its root directory.
    pub owner: u32,
    /// Numeric group id of its root directory.
    pub group: u32,
    /// Permissions of its root directory.
    pub mode: Permissions,
    /// Native (`sharenfs`, `quota`, `recordsize`, ...) and user (`a:b`) properties.
    pub properties: Properties,
    /// Create missing parents.
    pub parents: bool,
    /// Succeed if the file system exists.
    pub exist_ok: bool,
    /// A key of its own. Without one it inherits: plain, or encrypted with the parent's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySettings>,
}

/// Permissions, in octal as in `chmod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Permissions(u32);

impl Permissions {
    /// Returns the bits, with those for set-uid, set-gid and sticky.
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl FromStr for Permissions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        match u32::from_str_radix(text, 8) {
            Ok(bits) if bits <= 0o7777 && is_plain => Ok(Self(bits)),
            _ => Err("write permissions in octal, such as 0755 or 2775".to_owned()),
        }
    }
}

impl TryFrom<String> for Permissions {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Permissions> for String {
    fn from(permissions: Permissions) -> Self {
        format!("{:04o}", permissions.0)
    }
}

impl Operation for Create {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name: _,
            owner: _,
            group: _,
            mode: _,
            properties,
            parents: _,
            exist_ok: _,
            key,
        } = self;
        effect::make(properties, key.as_ref())
    }

    fn properties(&self) -> Option<Changed<'_>> {
        Some(Changed::new(self.name.as_str(), self.properties.keys()))
    }

    fn opens_volumes(&self) -> bool {
        true
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead filesystem create tank/home --share rw=192.0.2.0/24").prepared_by(&[
        "bulkhead snapshot destroy tank/home@monday --yes-destroy-data",
        "bulkhead filesystem destroy tank/home --yes-destroy-data",
    ]),
    Example::of(
        "bulkhead filesystem create tank/projects/ann --parents --owner 1000 --group 1000 --mode 2770 \\
      --quota 100G",
    ),
    Example::of(
        "bulkhead filesystem create tank/media --record-size 1M --compression zstd -o snapdir=visible",
    ),
    Example::of("bulkhead filesystem create tank/private --encryption on")
        .elsewhere("prompts for a passphrase: tests/head/encryption.rs"),
]);

/// Create a file system
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The file system, as POOL/NAME
    filesystem: VolumeName,
    /// Access over NFS: options of sharenfs, such as rw=192.0.2.0/24,no_root_squash [default: inherited]
    #[arg(long, value_name = "OPTIONS")]
    share: Option<String>,
    /// Owner of its root directory, a numeric user id
    #[arg(long, value_name = "UID", default_value_t = 0)]
    owner: u32,
    /// Group of its root directory, a numeric group id
    #[arg(long, value_name = "GID", default_value_t = 0)]
    group: u32,
    /// Permissions of its root directory, in octal
    #[arg(long, value_name = "MODE", default_value = "0755")]
    mode: Permissions,
    /// Limit of its space, with its snapshots and children
    #[arg(long, value_name = "SIZE")]
    quota: Option<String>,
    /// Limit of the space of its own files
    #[arg(long, value_name = "SIZE")]
    refquota: Option<String>,
    /// Space reserved for it, its snapshots and children
    #[arg(long, value_name = "SIZE")]
    reservation: Option<String>,
    /// Space reserved for its own files
    #[arg(long, value_name = "SIZE")]
    refreservation: Option<String>,
    /// Largest block of a file: a power of two from 512 to 16M [default: inherited, or 128K]
    #[arg(long, value_name = "SIZE")]
    record_size: Option<String>,
    /// on, off, lz4, zstd, zstd-1 to zstd-19, gzip, zle
    #[arg(long, value_name = "ALGORITHM")]
    compression: Option<String>,
    /// on, off: whether a read of a file updates its access time
    #[arg(long, value_name = "MODE")]
    atime: Option<String>,
    /// standard, always, disabled
    #[arg(long, value_name = "MODE")]
    sync: Option<String>,
    /// Set another property, such as xattr, aclmode, aclinherit, snapdir, checksum, dedup, utf8only; may be repeated
    #[arg(long, short = 'o', value_name = "NAME=VALUE", value_parser = property)]
    property: Vec<(String, String)>,
    /// Create missing parents
    #[arg(long, short)]
    parents: bool,
    /// Succeed if the file system exists
    #[arg(long)]
    exist_ok: bool,
    /// Encryption with a key of its own.
    #[command(flatten)]
    key: KeyOptions,
}

impl Verb for Create {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/filesystems",
        "Make a file system",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"name": "tank/home"}"#)
    .with(&[
        ("owner", Source::Default("0")),
        ("group", Source::Default("0")),
        ("mode", Source::Default("\"0755\"")),
        ("properties", Source::Default("{}")),
        ("parents", Source::Default("false")),
        ("exist_ok", Source::Default("false")),
    ])];

    /// Prompts for the key, if it shall have one of its own.
    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let mut properties: Properties = arguments.property.into_iter().collect();
        let named = [
            ("sharenfs", arguments.share),
            ("quota", arguments.quota),
            ("refquota", arguments.refquota),
            ("reservation", arguments.reservation),
            ("refreservation", arguments.refreservation),
            ("recordsize", arguments.record_size),
            ("compression", arguments.compression),
            ("atime", arguments.atime),
            ("sync", arguments.sync),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                properties.insert(name.to_owned(), value);
            }
        }
        let create = Self {
            name: arguments.filesystem,
            owner: arguments.owner,
            group: arguments.group,
            mode: arguments.mode,
            properties,
            parents: arguments.parents,
            exist_ok: arguments.exist_ok,
            key: arguments.key.settings_if_given()?,
        };
        Ok((PoolSelector::Pool(create.name.pool()), create))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_octal() {
        for (text, bits) in [
            ("0755", 0o755),
            ("2775", 0o2775),
            ("7", 7),
            ("01777", 0o1777),
        ] {
            let permissions: Permissions = text.parse().expect(text);
            assert_eq!(permissions.bits(), bits);
            assert_eq!(String::from(permissions), format!("{bits:04o}"));
        }
        for text in ["", "rwx", "0800", "10000", "-1", "+7", "000000755"] {
            assert!(text.parse::<Permissions>().is_err(), "{text}");
        }
    }
}
