//! The bound on the rate of copies, which are resilvers and scrubs. The pool stores it.
//!
//! The format is specified in `docs/formats/schedules.md`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::ByteCount;

use crate::exports::{DocumentError, decode, encode};

/// Property of the pool's root dataset: the bound on its copies.
pub const COPY_RATE_PROPERTY: &str = "bulkhead:copy-rate";

/// A slower copy would leave the pool without redundancy for days.
const RATE_MIN: ByteCount = ByteCount::mib(1);
/// More than any pool copies.
const RATE_MAX: ByteCount = ByteCount::gib(1024);
const UNLIMITED: &str = "unlimited";

/// Bytes that a copy of a pool may read in a second, each block counted once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum RateMax {
    /// As many as the clients leave.
    Unlimited,
    /// At most so many.
    AtMost(ByteCount),
}

impl RateMax {
    /// The bound, if there is one.
    pub fn bytes_per_s(self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::AtMost(bytes) => Some(bytes.get()),
        }
    }
}

/// The text is not a rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a rate of copies: write `unlimited`, or 1M to 1T bytes a second, such as 50M"
)]
pub struct RateMaxError {
    text: String,
}

impl FromStr for RateMax {
    type Err = RateMaxError;

    fn from_str(text: &str) -> Result<Self, RateMaxError> {
        if text == UNLIMITED {
            return Ok(Self::Unlimited);
        }
        let bytes = text.parse::<ByteCount>().ok();
        let bytes = bytes.filter(|bytes| (RATE_MIN..=RATE_MAX).contains(bytes));
        bytes.map(Self::AtMost).ok_or_else(|| RateMaxError {
            text: text.to_owned(),
        })
    }
}

impl TryFrom<String> for RateMax {
    type Error = RateMaxError;

    fn try_from(text: String) -> Result<Self, RateMaxError> {
        text.parse()
    }
}

/// Exact, so that it is read back as it was written.
impl From<RateMax> for String {
    fn from(rate: RateMax) -> Self {
        match rate {
            RateMax::Unlimited => UNLIMITED.to_owned(),
            RateMax::AtMost(bytes) => bytes.get().to_string(),
        }
    }
}

impl fmt::Display for RateMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str(UNLIMITED),
            Self::AtMost(bytes) => write!(f, "{bytes}"),
        }
    }
}

/// Value of `bulkhead:copy-rate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyRateDocument {
    /// The bound.
    pub max: RateMax,
}

impl CopyRateDocument {
    /// Reads the property's value.
    ///
    /// # Errors
    ///
    /// It is not such a document.
    pub fn decode(value: &str) -> Result<Self, DocumentError> {
        decode(COPY_RATE_PROPERTY, value)
    }

    /// The property's value.
    ///
    /// # Errors
    ///
    /// It is too long.
    pub fn encode(&self) -> Result<String, DocumentError> {
        encode(COPY_RATE_PROPERTY, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_written_back() {
        for (text, rate, shown) in [
            ("unlimited", RateMax::Unlimited, "unlimited"),
            ("1M", RateMax::AtMost(ByteCount::mib(1)), "1M"),
            ("50M", RateMax::AtMost(ByteCount::mib(50)), "50M"),
            ("1T", RateMax::AtMost(ByteCount::gib(1024)), "1T"),
            ("1500001", RateMax::AtMost(ByteCount(1_500_001)), "1.4M"),
        ] {
            let read: RateMax = text.parse().expect(text);
            assert_eq!(read, rate);
            assert_eq!(read.to_string(), shown);
            assert_eq!(String::from(read).parse(), Ok(rate), "exact");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "0",
            "none",
            "1023K",
            "1025G",
            "2T",
            "-1M",
            "50MB/s",
            "Unlimited",
            "NaN",
        ] {
            let refused = text.parse::<RateMax>().expect_err(text);
            assert!(refused.to_string().contains("such as 50M"), "{refused}");
        }
    }

    #[test]
    fn the_document_is_as_the_format_says() {
        let text = r#"{"version":1,"max":"52428800"}"#;
        let document = CopyRateDocument {
            max: RateMax::AtMost(ByteCount::mib(50)),
        };
        assert_eq!(document.encode().expect("short"), text);
        assert_eq!(CopyRateDocument::decode(text).expect("read"), document);
        for wrong in [
            r#"{"version":2,"max":"52428800"}"#,
            r#"{"version":1,"max":"0"}"#,
            r#"{"version":1,"max":52428800}"#,
            r#"{"version":1,"max":"1M","more":1}"#,
            "",
        ] {
            assert!(CopyRateDocument::decode(wrong).is_err(), "{wrong}");
        }
    }
}
