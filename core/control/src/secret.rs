//! A CHAP secret: readable only where it is used, wiped when dropped, never printed.

use std::fmt;

use zeroize::Zeroize;

/// Shortest secret, in bytes (RFC 7143, section 9.2.1: at least 96 bits).
pub const SECRET_BYTES_MIN: usize = 12;
/// Longest secret, in bytes. RFC 7143 requires support of 16; initiators accept up to 255.
pub const SECRET_BYTES_MAX: usize = 255;

/// A secret text. `Debug` and `Display` of any container of it cannot show it.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Secret(String);

/// Why a text cannot be a CHAP secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Fewer than 96 bits.
    #[error("the secret has {bytes} characters: CHAP wants at least {SECRET_BYTES_MIN}")]
    TooShort {
        /// Length given.
        bytes: usize,
    },
    /// More than initiators accept.
    #[error("the secret has {bytes} characters: use at most {SECRET_BYTES_MAX}")]
    TooLong {
        /// Length given.
        bytes: usize,
    },
    /// Not printable ASCII, which can be typed at every initiator.
    #[error("the secret has a character that is not printable ASCII")]
    NotPrintable,
}

impl Secret {
    /// Validates and wraps `text`.
    pub fn new(text: String) -> Result<Self, SecretError> {
        let secret = Self(text);
        let bytes = secret.0.len();
        if bytes < SECRET_BYTES_MIN {
            return Err(SecretError::TooShort { bytes });
        }
        if bytes > SECRET_BYTES_MAX {
            return Err(SecretError::TooLong { bytes });
        }
        if !secret.0.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            return Err(SecretError::NotPrintable);
        }
        Ok(secret)
    }

    /// Returns the text, for the one caller that computes with it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new("correct horse battery".into()).expect("long enough");
        assert!(!format!("{secret:?}").contains("horse"));
    }

    #[test]
    fn chap_secrets_of_invalid_length_are_refused() {
        assert_eq!(
            Secret::new("short".into()),
            Err(SecretError::TooShort { bytes: 5 })
        );
        assert_eq!(
            Secret::new("x".repeat(256)),
            Err(SecretError::TooLong { bytes: 256 })
        );
        assert_eq!(
            Secret::new("twelve chars\n".into()),
            Err(SecretError::NotPrintable)
        );
    }
}
