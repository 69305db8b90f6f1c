//! The owner's form of a key, and the 32 bytes that ZFS derives from it. Both are wiped on drop.

use std::num::NonZeroU32;

use ring::pbkdf2;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

/// Bytes of a wrapping key.
pub const KEY_BYTES: usize = 32;
/// Minimum passphrase length in bytes, as in kernel ZFS.
pub const PASSPHRASE_BYTES_MIN: usize = 8;
/// Maximum passphrase length in bytes, as in kernel ZFS.
pub const PASSPHRASE_BYTES_MAX: usize = 512;
/// Minimum iterations of PBKDF2, which derives a key from a passphrase.
pub const ITERATIONS_MIN: u64 = 100_000;
/// Default iterations, as in kernel ZFS.
pub const ITERATIONS_DEFAULT: u64 = 350_000;
/// More would delay a takeover by some seconds of processor time.
pub const ITERATIONS_MAX: u64 = 10_000_000;

/// The form in which an owner stores a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyFormat {
    /// 32 bytes.
    Raw,
    /// 64 hex digits.
    Hex,
    /// Text of 8 to 512 bytes.
    Passphrase,
}

impl KeyFormat {
    /// Returns the ZFS name of the format.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Hex => "hex",
            Self::Passphrase => "passphrase",
        }
    }
}

impl std::fmt::Display for KeyFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

impl std::str::FromStr for KeyFormat {
    type Err = MaterialError;
    fn from_str(word: &str) -> Result<Self, MaterialError> {
        [Self::Raw, Self::Hex, Self::Passphrase]
            .into_iter()
            .find(|format| format.word() == word)
            .ok_or(MaterialError::Format)
    }
}

/// The reason why bytes are not a valid key. The key itself is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaterialError {
    /// No such form.
    #[error("the form of a key is raw, hex or passphrase")]
    Format,
    /// A raw key of another length.
    #[error("a raw key has exactly {KEY_BYTES} bytes, this has {bytes}")]
    RawLength {
        /// Its length.
        bytes: usize,
    },
    /// Not 64 hex digits.
    #[error("a hex key has exactly {} hex digits", KEY_BYTES * 2)]
    Hex,
    /// Too short or too long.
    #[error(
        "a passphrase has {PASSPHRASE_BYTES_MIN} to {PASSPHRASE_BYTES_MAX} bytes, this has {bytes}"
    )]
    PassphraseLength {
        /// Its length.
        bytes: usize,
    },
    /// A NUL or a line break inside.
    #[error("a passphrase is one line of text")]
    PassphraseText,
    /// Out of bounds.
    #[error("iterations are {ITERATIONS_MIN} to {ITERATIONS_MAX}, not {iterations}")]
    Iterations {
        /// The requested number.
        iterations: u64,
    },
}

/// A key in its owner's form: 32 bytes, hex digits or a passphrase. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyMaterial(Zeroizing<Vec<u8>>);

impl KeyMaterial {
    /// Longest material, in bytes, with a line break after it.
    pub const BYTES_MAX: usize = PASSPHRASE_BYTES_MAX + 2;

    /// Wraps the bytes from a key location.
    pub fn new(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }

    /// The unchanged bytes.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }

    /// Without the line break that an editor, or `echo`, leaves at the end.
    fn line(&self) -> &[u8] {
        let line = self.0.strip_suffix(b"\n").unwrap_or(&self.0);
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Returns the wrapping key. `salt` and `iterations` apply to passphrases, which need a large
    /// part of a second.
    pub fn wrapping_key(
        &self,
        format: KeyFormat,
        salt: u64,
        iterations: u64,
    ) -> Result<WrappingKey, MaterialError> {
        let mut key = WrappingKey([0; KEY_BYTES]);
        match format {
            KeyFormat::Raw => {
                let bytes = self.0.len();
                if bytes != KEY_BYTES {
                    return Err(MaterialError::RawLength { bytes });
                }
                key.0.copy_from_slice(&self.0);
            }
            KeyFormat::Hex => unhex(self.line(), &mut key.0)?,
            KeyFormat::Passphrase => stretch(self.line(), salt, iterations, &mut key.0)?,
        }
        Ok(key)
    }
}

impl std::fmt::Debug for KeyMaterial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyMaterial(hidden)")
    }
}

fn unhex(digits: &[u8], key: &mut [u8; KEY_BYTES]) -> Result<(), MaterialError> {
    if digits.len() != KEY_BYTES * 2 {
        return Err(MaterialError::Hex);
    }
    let value = |digit: u8| char::from(digit).to_digit(16).ok_or(MaterialError::Hex);
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = ((value(pair[0])? << 4) | value(pair[1])?) as u8;
    }
    Ok(())
}

/// PBKDF2 with HMAC-SHA-1 (RFC 8018), the salt as eight bytes with the lowest first.
fn stretch(
    text: &[u8],
    salt: u64,
    iterations: u64,
    key: &mut [u8; KEY_BYTES],
) -> Result<(), MaterialError> {
    let bytes = text.len();
    if !(PASSPHRASE_BYTES_MIN..=PASSPHRASE_BYTES_MAX).contains(&bytes) {
        return Err(MaterialError::PassphraseLength { bytes });
    }
    if text.iter().any(|byte| matches!(byte, 0 | b'\n' | b'\r')) {
        return Err(MaterialError::PassphraseText);
    }
    let rounds = u32::try_from(iterations).ok().and_then(NonZeroU32::new);
    let rounds = rounds.ok_or(MaterialError::Iterations { iterations })?;
    let salt = salt.to_le_bytes();
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA1, rounds, &salt, text, key);
    Ok(())
}

/// The 32 bytes that open a dataset. Never printed.
pub struct WrappingKey([u8; KEY_BYTES]);

impl WrappingKey {
    /// Its bytes.
    pub fn reveal(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl Drop for WrappingKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for WrappingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WrappingKey(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn material(bytes: &[u8]) -> KeyMaterial {
        KeyMaterial::new(Zeroizing::new(bytes.to_vec()))
    }

    fn key(bytes: &[u8], format: KeyFormat) -> Result<[u8; KEY_BYTES], MaterialError> {
        let made = material(bytes).wrapping_key(format, 0, ITERATIONS_MIN);
        made.map(|key| key.0)
    }

    #[test]
    fn hex_and_raw_keys_are_equal_and_newline_is_ignored() {
        let raw: Vec<u8> = (0..32).collect();
        let digits: String = raw.iter().map(|byte| format!("{byte:02X}")).collect();
        let expected = key(&raw, KeyFormat::Raw).expect("raw");
        for text in [
            digits.clone(),
            format!("{digits}\n"),
            format!("{digits}\r\n"),
        ] {
            assert_eq!(key(text.as_bytes(), KeyFormat::Hex), Ok(expected));
        }
        assert_eq!(
            key(&raw[1..], KeyFormat::Raw),
            Err(MaterialError::RawLength { bytes: 31 })
        );
        assert_eq!(key(b"zz", KeyFormat::Hex), Err(MaterialError::Hex));
        let odd = digits.replace("1F", "1G");
        assert_eq!(key(odd.as_bytes(), KeyFormat::Hex), Err(MaterialError::Hex));
    }

    /// Computed by Python's hashlib.pbkdf2_hmac("sha1", b"correct horse", salt, 100000, 32).
    #[test]
    fn passphrase_derives_the_same_key_as_python_pbkdf2() {
        let made = material(b"correct horse\n").wrapping_key(
            KeyFormat::Passphrase,
            0x0807_0605_0403_0201,
            ITERATIONS_MIN,
        );
        let hex: String = made
            .expect("made")
            .0
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            hex,
            "372ee4f01df9d3a284a9bd2425efa5892f5acd8ac0a3b95774eba6b822911d8e"
        );
    }

    #[test]
    fn invalid_keys_of_kernel_zfs_are_refused() {
        let refused = |text: &[u8]| key(text, KeyFormat::Passphrase).expect_err("refused");
        assert_eq!(
            refused(b"seven77\n"),
            MaterialError::PassphraseLength { bytes: 7 }
        );
        assert_eq!(
            refused(&[b'x'; 513]),
            MaterialError::PassphraseLength { bytes: 513 }
        );
        assert_eq!(refused(b"two\nlines of it"), MaterialError::PassphraseText);
    }

    #[test]
    fn key_is_never_printed() {
        let secret = material(b"correct horse battery");
        let made = secret.wrapping_key(KeyFormat::Passphrase, 1, ITERATIONS_MIN);
        let text = format!("{secret:?} {made:?}");
        assert!(!text.contains("horse") && text.contains("hidden"), "{text}");
    }
}
