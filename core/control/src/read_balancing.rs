//! How a pool distributes client reads over its legs. The pool stores it.
//!
//! The format is specified in `docs/formats/schedules.md`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exports::{DocumentError, decode, encode};

/// Property of the pool's root dataset: how reads are distributed.
pub const READ_BALANCING_PROPERTY: &str = "bulkhead:read-balancing";

/// The leg of a mirror that a client read uses, if several legs are current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadBalancing {
    /// The leg of the head that serves the pool.
    #[default]
    PreferLocal,
    /// The leg with the shortest queue; the one of the serving head unless its queue is longer.
    LeastPending,
}

impl ReadBalancing {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::PreferLocal, Self::LeastPending];

    /// Returns the name, as in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::PreferLocal => "prefer-local",
            Self::LeastPending => "least-pending",
        }
    }
}

impl fmt::Display for ReadBalancing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The text is not a distribution of reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a distribution of reads: write `prefer-local` or `least-pending`")]
pub struct ReadBalancingError {
    text: String,
}

impl FromStr for ReadBalancing {
    type Err = ReadBalancingError;

    fn from_str(text: &str) -> Result<Self, ReadBalancingError> {
        let found = Self::ALL.into_iter().find(|mode| mode.word() == text);
        found.ok_or_else(|| ReadBalancingError {
            text: text.to_owned(),
        })
    }
}

/// Value of `bulkhead:read-balancing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadBalancingDocument {
    /// The distribution.
    pub mode: ReadBalancing,
}

impl ReadBalancingDocument {
    /// Reads the property's value.
    ///
    /// # Errors
    ///
    /// It is not such a document.
    pub fn decode(value: &str) -> Result<Self, DocumentError> {
        decode(READ_BALANCING_PROPERTY, value)
    }

    /// The property's value.
    ///
    /// # Errors
    ///
    /// It is too long.
    pub fn encode(&self) -> Result<String, DocumentError> {
        encode(READ_BALANCING_PROPERTY, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_and_written_back() {
        for mode in ReadBalancing::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
            let json = serde_json::to_string(&mode).expect("a text");
            assert_eq!(json, format!("\"{mode}\""), "one name in text and JSON");
        }
        assert_eq!(ReadBalancing::default(), ReadBalancing::PreferLocal);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "local",
            "prefer_local",
            "Least-Pending",
            "round-robin",
            "least-pending ",
        ] {
            let refused = text.parse::<ReadBalancing>().expect_err(text);
            assert!(refused.to_string().contains("`least-pending`"), "{refused}");
        }
    }

    #[test]
    fn the_document_is_as_the_format_says() {
        let text = r#"{"version":1,"mode":"least-pending"}"#;
        let document = ReadBalancingDocument {
            mode: ReadBalancing::LeastPending,
        };
        assert_eq!(document.encode().expect("short"), text);
        assert_eq!(ReadBalancingDocument::decode(text).expect("read"), document);
        for wrong in [
            r#"{"version":2,"mode":"least-pending"}"#,
            r#"{"version":1,"mode":"round-robin"}"#,
            r#"{"version":1,"mode":1}"#,
            r#"{"version":1}"#,
            r#"{"version":1,"mode":"least-pending","more":1}"#,
            "",
        ] {
            assert!(ReadBalancingDocument::decode(wrong).is_err(), "{wrong}");
        }
    }
}
