//! Properties of datasets: native ones, and user properties, in which Bulkhead stores the exports of a pool.

use std::collections::BTreeMap;

use serde::Serialize;
use units::ByteCount;

/// The value of a property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A size, a count, a limit.
    Number(u64),
    /// A named value such as `lz4`, or text.
    Text(String),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<ByteCount> for Value {
    fn from(bytes: ByteCount) -> Self {
        Self::Number(bytes.get())
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PropertySource {
    /// A number that ZFS maintains itself.
    Native,
    /// Not set: the default of ZFS.
    Default,
    /// Set on the dataset.
    Local,
    /// Set by a received stream.
    Received,
    /// Set on this dataset above it.
    Inherited(String),
}

/// The reason of a refused property where the engine does not distinguish the two cases.
pub const UNKNOWN_PROPERTY_OR_VALUE: &str =
    "there is no such property, or it does not take this value";

/// A property in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Property {
    /// Its value.
    pub value: Value,
    /// Its source.
    pub source: PropertySource,
}

/// Changes of one dataset's user properties; `None` removes one.
pub type PropertyEdits = Vec<(String, Option<String>)>;

/// Text properties by dataset and name.
pub type UserProperties = BTreeMap<String, BTreeMap<String, String>>;
