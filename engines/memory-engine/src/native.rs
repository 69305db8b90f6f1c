//! The native properties of datasets that the appliance uses.

use engine::dataset::{DatasetError, DatasetErrorKind, UNKNOWN_PROPERTY_OR_VALUE, Value};
use engine::error::SystemError;

/// The type of a property.
pub(crate) enum Takes {
    /// One of these words; the first is the default.
    Word(&'static [&'static str]),
    /// A number; zero by default.
    Number,
    /// A size of blocks.
    Size,
    /// Any text; this by default.
    Text(&'static str),
    /// Read-only: maintained by the engine.
    Nothing,
}

/// A property.
pub(crate) struct Native {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    /// Whether descendants inherit it.
    pub(crate) is_inherited: bool,
    /// Whether volumes have it.
    pub(crate) is_of_volumes: bool,
}

const fn word(name: &'static str, words: &'static [&'static str]) -> Native {
    Native {
        name,
        takes: Takes::Word(words),
        is_inherited: true,
        is_of_volumes: true,
    }
}

const fn limit(name: &'static str) -> Native {
    Native {
        name,
        takes: Takes::Number,
        is_inherited: false,
        is_of_volumes: true,
    }
}

const fn fixed(name: &'static str) -> Native {
    Native {
        name,
        takes: Takes::Nothing,
        is_inherited: false,
        is_of_volumes: true,
    }
}

const fn of_files(name: &'static str, words: &'static [&'static str]) -> Native {
    Native {
        name,
        takes: Takes::Word(words),
        is_inherited: true,
        is_of_volumes: false,
    }
}

const SUMS: &[&str] = &[
    "on",
    "off",
    "fletcher2",
    "fletcher4",
    "sha256",
    "sha512",
    "skein",
    "blake3",
];
const CACHED: &[&str] = &["all", "none", "metadata"];

/// Default record size in bytes.
pub(crate) const RECORD_BYTES_DEFAULT: u64 = 128 << 10;

/// All that there are.
pub(crate) const ALL: &[Native] = &[
    word(
        "compression",
        &[
            "on",
            "off",
            "lz4",
            "zle",
            "lzjb",
            "gzip",
            "gzip-1",
            "gzip-6",
            "gzip-9",
            "zstd",
            "zstd-1",
            "zstd-3",
            "zstd-19",
            "zstd-fast",
        ],
    ),
    word("copies", &["1", "2", "3"]),
    word("checksum", SUMS),
    word("sync", &["standard", "always", "disabled"]),
    word(
        "dedup",
        &["off", "on", "verify", "sha256", "sha512", "skein"],
    ),
    word("logbias", &["latency", "throughput"]),
    word("primarycache", CACHED),
    word("secondarycache", CACHED),
    word("readonly", &["off", "on"]),
    word("redundant_metadata", &["all", "most", "some", "none"]),
    word("prefetch", &["all", "none", "metadata"]),
    word("volmode", &["default", "full", "geom", "dev", "none"]),
    word("snapdev", &["hidden", "visible"]),
    limit("quota"),
    limit("refquota"),
    limit("reservation"),
    limit("refreservation"),
    of_files(
        "aclinherit",
        &[
            "restricted",
            "discard",
            "noallow",
            "passthrough",
            "passthrough-x",
        ],
    ),
    of_files(
        "aclmode",
        &["discard", "groupmask", "passthrough", "restricted"],
    ),
    of_files("acltype", &["off", "posix", "nfsv4"]),
    of_files("atime", &["on", "off"]),
    of_files("canmount", &["on", "off", "noauto"]),
    of_files("snapdir", &["hidden", "visible", "disabled"]),
    of_files("xattr", &["sa", "on", "off", "dir"]),
    of_files("relatime", &["on", "off"]),
    Native {
        name: "recordsize",
        takes: Takes::Size,
        is_inherited: true,
        is_of_volumes: false,
    },
    Native {
        name: "sharenfs",
        takes: Takes::Text("off"),
        is_inherited: true,
        is_of_volumes: false,
    },
    fixed("casesensitivity"),
    fixed("normalization"),
    fixed("utf8only"),
    fixed("available"),
    fixed("creation"),
    fixed("encryption"),
    fixed("guid"),
    fixed("keyformat"),
    fixed("keylocation"),
    fixed("keystatus"),
    fixed("origin"),
    fixed("referenced"),
    fixed("type"),
    fixed("used"),
    fixed("volblocksize"),
    fixed("volsize"),
    fixed("written"),
];

/// Sizes of a record.
const RECORD_BYTES: std::ops::RangeInclusive<u64> = 512..=16 << 20;

/// Longest name of a user's property, and longest value, in bytes.
const USER_NAME_BYTES_MAX: usize = 255;
const USER_VALUE_BYTES_MAX: usize = 8191;

/// The property of that name.
pub(crate) fn native(name: &str) -> Option<&'static Native> {
    ALL.iter().find(|one| one.name == name)
}

/// Describes the values that a property accepts.
pub(crate) fn values(name: &str) -> Option<String> {
    Some(match native(name)?.takes {
        Takes::Word(words) => words.join(" | "),
        Takes::Number => "<number>".to_owned(),
        Takes::Size => "<size>".to_owned(),
        Takes::Text(_) => "<text>".to_owned(),
        Takes::Nothing => "<read-only>".to_owned(),
    })
}

/// Returns whether it is a native property with arbitrary text.
pub(crate) fn is_text(name: &str) -> bool {
    native(name).is_some_and(|native| matches!(native.takes, Takes::Text(_)))
}

/// Whether users may give a property of theirs that name.
fn is_users(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.:+".contains(&b);
    name.contains(':') && name.bytes().all(is_plain)
}

/// A refusal of a property.
pub(crate) fn refused(property: &str, why: &'static str) -> DatasetErrorKind {
    DatasetErrorKind::Property {
        property: property.to_owned(),
        why,
    }
}

/// A user's property that is set or, without a value, removed.
pub(crate) fn check_users(name: &str, value: Option<&str>) -> Result<(), DatasetErrorKind> {
    if name.contains('\0') || value.is_some_and(|value| value.contains('\0')) {
        let why = "names and values cannot contain the NUL character";
        return Err(refused(&name.replace('\0', "?"), why));
    }
    if native(name).is_some() || !is_users(name) {
        return Err(refused(name, UNKNOWN_PROPERTY_OR_VALUE));
    }
    let is_too_long = |value: &str| value.len() > USER_VALUE_BYTES_MAX;
    if name.len() > USER_NAME_BYTES_MAX || value.is_some_and(is_too_long) {
        return Err(refused(name, "the name or value is too long"));
    }
    Ok(())
}

/// Returns the stored form of a value.
pub(crate) fn check(name: &str, value: &Value, is_volume: bool) -> Result<Value, DatasetErrorKind> {
    let Some(native) = native(name) else {
        return match value {
            Value::Text(text) => check_users(name, Some(text)).map(|()| value.clone()),
            Value::Number(_) => Err(refused(name, UNKNOWN_PROPERTY_OR_VALUE)),
        };
    };
    let why = match (&native.takes, value) {
        (Takes::Nothing, _) => "it cannot be changed",
        _ if is_volume && !native.is_of_volumes => {
            "it is a property of file systems, and this is a volume"
        }
        (Takes::Number, Value::Number(_)) => return Ok(value.clone()),
        (Takes::Size, Value::Number(size))
            if size.is_power_of_two() && RECORD_BYTES.contains(size) =>
        {
            return Ok(value.clone());
        }
        (Takes::Size, Value::Number(_)) => "the value is out of range",
        (Takes::Text(_), Value::Text(_)) => return Ok(value.clone()),
        (Takes::Word(words), value) if words.contains(&value.to_string().as_str()) => {
            return Ok(Value::Text(value.to_string()));
        }
        _ => UNKNOWN_PROPERTY_OR_VALUE,
    };
    Err(refused(name, why))
}

/// Returns whether a property can be removed, so that it is inherited.
pub(crate) fn check_inherit(name: &str) -> Result<(), DatasetErrorKind> {
    match native(name) {
        None => check_users(name, None),
        Some(native) if native.is_inherited => Ok(()),
        Some(_) => Err(refused(name, UNKNOWN_PROPERTY_OR_VALUE)),
    }
}

/// Why a limit or a reservation is refused.
pub(crate) const NO_ROOM: &str = "there is not enough space for it";

/// ENOSPC: the cause of a refusal for lack of space.
const NO_SPACE: SystemError = SystemError(28);

/// Adds the cause to the refusal of a property for lack of space.
pub(crate) fn with_cause(
    doing: &'static str,
    dataset: &str,
    kind: DatasetErrorKind,
) -> DatasetError {
    let is_full = match &kind {
        DatasetErrorKind::Property { why, .. } => *why == NO_ROOM,
        _ => false,
    };
    DatasetError {
        cause: is_full.then_some(NO_SPACE),
        ..DatasetError::new(doing, dataset, kind)
    }
}
