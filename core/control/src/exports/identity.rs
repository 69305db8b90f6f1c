//! The identity of a volume for its initiators: designators that never change, whatever its name
//! and wherever its pool is imported.

use serde::{Deserialize, Serialize};

use super::document::{self, DocumentError};

/// Value of `bulkhead:identity`. Created once from 16 random bytes; only a locally set value
/// counts, so that a clone is not taken for its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// NAA designator: 16 hex digits; the first is 3, "locally assigned" (SPC-4, 7.8.6.6).
    pub naa: String,
    /// EUI-64 with the local bit set: 16 hex digits.
    pub eui: String,
    /// Unit serial number: 18 characters.
    pub serial: String,
}

impl Identity {
    /// Creates an identity from `entropy`, which must come from the system's random source.
    pub fn from_entropy(entropy: [u8; 16]) -> Self {
        let (first, second) = entropy.split_at(8);
        let first = u64::from_be_bytes(first.try_into().expect("half of 16"));
        let second = u64::from_be_bytes(second.try_into().expect("half of 16"));
        let naa = (first >> 4) | 0x3 << 60;
        // Bit 1 of the first octet means "local", and bit 0, "group", must be clear.
        let eui = (second & !(0x3 << 56)) | 0x2 << 56;
        Self {
            naa: format!("{naa:016x}"),
            eui: format!("{eui:016x}"),
            serial: format!("bh{:016x}", first ^ second.rotate_left(32)),
        }
    }

    /// Whether initiators take both volumes for one disk: they compare each designator.
    pub fn is_of_same_disk(&self, other: &Self) -> bool {
        self.naa == other.naa || self.eui == other.eui || self.serial == other.serial
    }

    /// Reads the value of `property`.
    pub fn decode(property: &str, value: &str) -> Result<Self, DocumentError> {
        let identity: Self = document::decode(property, value)?;
        let hex = |text: &str| text.len() == 16 && u64::from_str_radix(text, 16).is_ok();
        let printable = identity.serial.bytes().all(|b| b.is_ascii_alphanumeric());
        if hex(&identity.naa)
            && hex(&identity.eui)
            && identity.naa.starts_with('3')
            && printable
            && (1..=32).contains(&identity.serial.len())
        {
            return Ok(identity);
        }
        Err(DocumentError::Malformed {
            property: property.to_owned(),
            cause: serde::de::Error::custom("naa, eui or serial has not its form"),
        })
    }

    /// The value for `property`.
    pub fn encode(&self, property: &str) -> Result<String, DocumentError> {
        document::encode(property, self)
    }

    /// The NAA designator as a number.
    pub fn naa_bits(&self) -> u64 {
        u64::from_str_radix(&self.naa, 16).expect("checked when made")
    }

    /// The EUI-64 as a number.
    pub fn eui_bits(&self) -> u64 {
        u64::from_str_radix(&self.eui, 16).expect("checked when made")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_has_spc_4_formats_and_round_trips() {
        let identity = Identity::from_entropy([0xff; 16]);
        assert_eq!(identity.naa, "3fffffffffffffff");
        assert_eq!(identity.eui, "feffffffffffffff");
        assert_eq!(identity.serial.len(), 18);
        let text = identity.encode("p").expect("fits");
        assert_eq!(Identity::decode("p", &text).expect("read back"), identity);
    }

    #[test]
    fn identity_of_another_format_is_refused() {
        for bad in [
            r#"{"version":1,"naa":"6000000000000000","eui":"0200000000000000","serial":"a"}"#,
            r#"{"version":1,"naa":"3000","eui":"0200000000000000","serial":"a"}"#,
            r#"{"version":1,"naa":"3000000000000000","eui":"0200000000000000","serial":"a b"}"#,
            r#"{"version":1,"naa":"3000000000000000","eui":"0200000000000000","serial":""}"#,
        ] {
            assert!(Identity::decode("p", bad).is_err(), "{bad}");
        }
    }
}
