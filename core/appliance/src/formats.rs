//! The formats of a version: those that it writes and reads, on disk and between hosts. An upgrade compares those of
//! two versions, so that a refusal by the older one is reported before it happens.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// A format of this version.
pub struct Format {
    /// Its name in messages.
    pub name: &'static str,
    /// Its page in `docs/formats`; empty if it has none.
    pub page: &'static str,
    /// The newest form that this version writes; it reads all of them up to this one.
    pub written: u32,
    /// Whether hosts of one appliance exchange it and refuse another form.
    pub is_exchanged: bool,
    /// The constants in the source that define `written`, as `PATH:NAME`.
    pub constants: &'static [&'static str],
}

macro_rules! formats {
    ($($name:literal in $page:literal: $written:literal $exchanged:ident $constants:expr;)*) => {
        /// All formats with a version.
        pub const FORMATS: &[Format] = &[$(Format {
            name: $name,
            page: $page,
            written: $written,
            is_exchanged: is_exchanged(stringify!($exchanged)),
            constants: &$constants,
        },)*];
    };
}

const fn is_exchanged(kind: &str) -> bool {
    // The other kind is `stored`.
    kind.as_bytes()[0] == b'e'
}

formats! {
    "appliance file" in "appliance": 1 stored ["core/appliance/src/check/names.rs:FORMAT"];
    "control socket" in "control": 2 stored
        ["core/control/src/frame.rs:PROTOCOL_VERSION", "core/control/src/frame.rs:PREVIEW_VERSION"];
    "exports in a pool" in "exports": 3 stored
        ["core/control/src/exports/document.rs:DOCUMENT_VERSION", "core/control/src/exports/document.rs:SEALED_VERSION",
         "core/control/src/exports/document.rs:BOUND_VERSION"];
    "commands of keys" in "exports": 1 stored ["core/control/src/key.rs:VERSION"];
    "settings of logical units" in "exports": 1 stored ["protocols/scsi/src/state/mode_store.rs:VERSION"];
    "record of legs" in "leg-record": 3 stored ["legs/record/src/codec/memory.rs:VERSION"];
    "state of a lender" in "leg-record": 1 stored ["legs/record/src/codec/lender_state.rs:VERSION"];
    "protocol of members" in "members": 2 exchanged ["legs/members/src/wire.rs:VERSION"];
    "persistent reservations" in "reservations": 1 stored ["protocols/reservations/src/store.rs:VERSION"];
    "peers of replication" in "replication": 2 stored ["core/control/src/replication.rs:PEERS_VERSION"];
    "protocol of replication" in "replication": 1 stored ["services/operations/src/replicate/wire.rs:VERSION"];
    "users of the API" in "": 2 stored ["services/api/src/account_merge.rs:FORMAT"];
}

/// The formats and features of a version, as its package describes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatTable {
    /// The version that `bulkhead --version` prints.
    pub version: String,
    /// By name.
    pub formats: BTreeMap<String, Written>,
    /// The features of pools that its library supports; empty if unknown.
    #[serde(default)]
    pub features: BTreeSet<String>,
}

/// One format of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The newest form.
    pub written: u32,
    /// Whether hosts exchange it and refuse another form.
    #[serde(default)]
    pub is_exchanged: bool,
}

/// Longest accepted description, in bytes.
pub const TABLE_BYTES_MAX: usize = 1 << 20;

/// The description of this version, with the features of its library.
pub fn own_formats(features: BTreeSet<String>) -> FormatTable {
    let formats = FORMATS.iter().map(|format| {
        let written = Written {
            written: format.written,
            is_exchanged: format.is_exchanged,
        };
        (format.name.to_owned(), written)
    });
    FormatTable {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        formats: formats.collect(),
        features,
    }
}

impl FormatTable {
    /// Parses the description in a package; `None` if it is none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let is_bounded = bytes.len() <= TABLE_BYTES_MAX;
        is_bounded
            .then(|| serde_json::from_slice(bytes).ok())
            .flatten()
    }

    /// The forms that `newer` writes and this version refuses, as sentences.
    pub fn refusals_of(&self, newer: &Self) -> Vec<String> {
        let formats = newer.formats.iter().filter_map(|(name, written)| {
            let own = self.formats.get(name).map_or(0, |own| own.written);
            let form = written.written;
            (form > own).then(|| {
                let limit = match own {
                    0 => "does not read it".to_owned(),
                    own => format!("reads up to form {own}"),
                };
                format!(
                    "{name}: {} writes form {form}, {} {limit}",
                    newer.version, self.version
                )
            })
        });
        formats.collect()
    }

    /// The formats that hosts of both versions refuse from each other.
    pub fn not_exchanged_with(&self, other: &Self) -> Vec<&str> {
        let formats = self.formats.iter().filter(|(name, own)| {
            let theirs = other.formats.get(*name);
            own.is_exchanged && theirs.is_some_and(|theirs| theirs.written != own.written)
        });
        formats.map(|(name, _)| name.as_str()).collect()
    }

    /// The features among `active` that the library of this version does not support.
    pub fn unsupported<'a>(&self, active: &'a BTreeSet<String>) -> Vec<&'a str> {
        let missing = active.iter().filter(|one| !self.features.contains(*one));
        match self.features.is_empty() {
            true => Vec::new(),
            false => missing.map(String::as_str).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(version: &str, record: u32, members: u32) -> FormatTable {
        let stored = |written| Written {
            written,
            is_exchanged: false,
        };
        let members = Written {
            written: members,
            is_exchanged: true,
        };
        FormatTable {
            version: version.to_owned(),
            formats: [
                ("record".to_owned(), stored(record)),
                ("members".to_owned(), members),
            ]
            .into(),
            features: ["async_destroy".to_owned()].into(),
        }
    }

    #[test]
    fn older_version_refuses_newer_and_unknown_forms_only() {
        let (old, new) = (table("1.0.0", 2, 1), table("1.1.0", 3, 1));
        assert_eq!(
            old.refusals_of(&new),
            ["record: 1.1.0 writes form 3, 1.0.0 reads up to form 2"]
        );
        assert!(new.refusals_of(&old).is_empty());
        assert!(new.refusals_of(&new).is_empty());
        let none = FormatTable {
            version: "0.9.0".to_owned(),
            ..FormatTable::default()
        };
        assert_eq!(none.refusals_of(&old).len(), 2);
        assert!(none.refusals_of(&old)[0].contains("0.9.0 does not read it"));
    }

    #[test]
    fn changed_protocol_between_hosts_is_named_in_both_directions() {
        let (old, new) = (table("1.0.0", 2, 1), table("1.1.0", 2, 2));
        assert_eq!(old.not_exchanged_with(&new), ["members"]);
        assert_eq!(new.not_exchanged_with(&old), ["members"]);
        assert!(old.not_exchanged_with(&old).is_empty());
    }

    #[test]
    fn features_are_compared_only_where_they_are_known() {
        let active = ["async_destroy", "block_cloning"].map(str::to_owned).into();
        assert_eq!(table("1", 1, 1).unsupported(&active), ["block_cloning"]);
        assert!(FormatTable::default().unsupported(&active).is_empty());
    }

    #[test]
    fn description_survives_json_and_broken_ones_are_refused() {
        let own = own_formats(["lz4_compress".to_owned()].into());
        let text = serde_json::to_vec(&own).expect("JSON");
        assert_eq!(FormatTable::parse(&text), Some(own));
        assert_eq!(FormatTable::parse(b"{\"version\":1}"), None);
        assert_eq!(FormatTable::parse(&vec![b' '; TABLE_BYTES_MAX + 1]), None);
    }
}
