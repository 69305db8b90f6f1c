//! Filehandles as clients see them (docs/formats/nfs-handles.md): numbers that are stable over
//! restarts and takeovers, and an authentication code. A client cannot forge the handle of a file
//! that it has not looked up by name.

use file_system::{FileSystemId, Handle, Node};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// Why bytes are not a filehandle of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHandle {
    /// They have neither format.
    #[error("{length} bytes are no file handle of this server")]
    Form {
        /// Their length.
        length: usize,
    },
    /// The code is wrong: the handle was guessed, or signed with another key.
    #[error("the code of a file handle is wrong")]
    Code,
    /// It has no code, and such handles are no longer accepted.
    #[error("a file handle without a code")]
    Unsigned,
}

/// The format with an authentication code after the numbers.
const FORM: u8 = 2;
/// The format of earlier versions, without a code.
const FORM_WITHOUT_CODE: u8 = 1;
/// Bytes of the format number and the numbers.
const PLAIN_BYTES: usize = 36;
/// Bytes of the code: the first ones of an HMAC with SHA-256.
const CODE_BYTES: usize = 12;
/// Authenticated with each handle, so that the key is bound to this purpose.
const PURPOSE: &[u8] = b"bulkhead nfs handle";

/// Bytes of a handle. NFS 3 allows 64 (RFC 1813, 2.4), NFS 4 128.
pub const HANDLE_BYTES: usize = PLAIN_BYTES + CODE_BYTES;

/// The format number and three zeros, followed by identity, snapshot, object and generation,
/// big-endian.
fn plain(handle: Handle, form: u8) -> [u8; PLAIN_BYTES] {
    let numbers = [
        handle.file_system.guid,
        handle.file_system.snapshot,
        handle.node.object,
        handle.node.generation,
    ];
    let mut bytes = [0; PLAIN_BYTES];
    bytes[0] = form;
    for (place, number) in bytes[4..].chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    bytes
}

/// Returns the bytes of a handle in the format of earlier versions.
#[must_use]
pub fn without_code(handle: Handle) -> [u8; PLAIN_BYTES] {
    plain(handle, FORM_WITHOUT_CODE)
}

/// Decodes a handle of either format without a check of its code.
pub fn unverified(bytes: &[u8]) -> Result<Handle, BadHandle> {
    let bad = BadHandle::Form {
        length: bytes.len(),
    };
    let form = match bytes.len() {
        HANDLE_BYTES => FORM,
        PLAIN_BYTES => FORM_WITHOUT_CODE,
        _ => return Err(bad),
    };
    if bytes[..4] != [form, 0, 0, 0] {
        return Err(bad);
    }
    let number = |index: usize| {
        let at = 4 + 8 * index;
        let number: [u8; 8] = bytes[at..at + 8].try_into().expect("eight bytes");
        u64::from_be_bytes(number)
    };
    Ok(Handle {
        file_system: FileSystemId {
            guid: number(0),
            snapshot: number(1),
        },
        node: Node {
            object: number(2),
            generation: number(3),
        },
    })
}

/// Signs handles, so that a client can only use handles that it has received. All servers of a pool
/// share the key.
#[derive(Clone)]
pub struct HandleKey {
    /// The HMAC state after the key and the purpose.
    keyed: Hmac<Sha256>,
    /// Handles without a code are accepted until then, in milliseconds since the server started.
    unsigned_until_ms: u64,
}

impl HandleKey {
    /// Bytes of a key.
    pub const BYTES: usize = 32;

    /// Creates a key from bytes. It accepts no handle without a code.
    ///
    /// # Panics
    ///
    /// Never: an HMAC accepts keys of every length.
    #[must_use]
    pub fn new(key: &[u8; Self::BYTES]) -> Self {
        let mut keyed = Hmac::<Sha256>::new_from_slice(key).expect("keys of every length");
        keyed.update(PURPOSE);
        Self {
            keyed,
            unsigned_until_ms: 0,
        }
    }

    /// Creates a random key.
    ///
    /// # Panics
    ///
    /// The kernel has no random numbers.
    #[must_use]
    pub fn random() -> Self {
        let mut key = [0; Self::BYTES];
        getrandom::fill(&mut key).expect("the kernel has random numbers");
        Self::new(&key)
    }

    /// Accepts handles of earlier versions until this many milliseconds after the server's start.
    #[must_use]
    pub fn with_unsigned_until(self, unsigned_until_ms: u64) -> Self {
        Self {
            unsigned_until_ms,
            ..self
        }
    }

    /// Returns the filehandle for clients: [`without_code`] with the number of this format, and the
    /// code.
    #[must_use]
    pub fn sign(&self, handle: Handle) -> [u8; HANDLE_BYTES] {
        let plain = plain(handle, FORM);
        let mut bytes = [0; HANDLE_BYTES];
        bytes[..PLAIN_BYTES].copy_from_slice(&plain);
        let mut code = self.keyed.clone();
        code.update(&plain);
        let code = code.finalize().into_bytes();
        bytes[PLAIN_BYTES..].copy_from_slice(&code[..CODE_BYTES]);
        bytes
    }

    /// Verifies a filehandle. `is_known` returns whether a handle is known to every client and
    /// needs no code.
    ///
    /// # Errors
    ///
    /// The bytes are not a valid filehandle.
    pub fn open(
        &self,
        bytes: &[u8],
        now_ms: u64,
        is_known: impl FnOnce(Handle) -> bool,
    ) -> Result<Handle, BadHandle> {
        let handle = unverified(bytes)?;
        let (plain, code) = bytes.split_at(PLAIN_BYTES);
        if code.is_empty() {
            let is_accepted = now_ms < self.unsigned_until_ms || is_known(handle);
            return is_accepted.then_some(handle).ok_or(BadHandle::Unsigned);
        }
        let mut expected = self.keyed.clone();
        expected.update(plain);
        // In constant time, so that the timing reveals nothing of the code.
        let verified = expected.verify_truncated_left(code);
        verified.map(|()| handle).map_err(|_| BadHandle::Code)
    }
}

impl std::fmt::Debug for HandleKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HandleKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: Handle = Handle {
        file_system: FileSystemId {
            guid: 0x0102_0304_0506_0708,
            snapshot: 5,
        },
        node: Node {
            object: 34,
            generation: 0xfedc,
        },
    };

    fn key() -> HandleKey {
        HandleKey::new(&[0x0b; HandleKey::BYTES])
    }

    fn open(bytes: &[u8]) -> Result<Handle, BadHandle> {
        key().open(bytes, 0, |_| false)
    }

    /// The code was computed by Python's `hmac`.
    #[test]
    fn a_handle_has_the_documented_bytes() {
        let expected = b"\x02\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x22\0\0\0\0\0\0\xfe\xdc\xd3\xfb\xaa\xa1\xc0\x98\x13\x7a\xee\x04\xb8\x84";
        assert_eq!(&key().sign(HANDLE), expected);
        assert_eq!(open(expected), Ok(HANDLE));
        let older = b"\x01\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x22\0\0\0\0\0\0\xfe\xdc";
        assert_eq!(&without_code(HANDLE), older);
    }

    #[test]
    fn a_handle_that_differs_in_one_bit_is_refused() {
        let mut bytes = key().sign(HANDLE);
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let other = HandleKey::new(&[0x0c; HandleKey::BYTES]);
        assert_eq!(other.open(&bytes, 0, |_| true), Err(BadHandle::Code));
    }

    #[test]
    fn unsigned_handle_is_accepted_until_expiry_or_if_known() {
        let older = without_code(HANDLE);
        assert_eq!(open(&older), Err(BadHandle::Unsigned));
        assert_eq!(key().open(&older, 0, |handle| handle == HANDLE), Ok(HANDLE));
        let lenient = key().with_unsigned_until(1000);
        assert_eq!(lenient.open(&older, 999, |_| false), Ok(HANDLE));
        let refused = lenient.open(&older, 1000, |_| false);
        assert_eq!(refused, Err(BadHandle::Unsigned));
    }

    #[test]
    fn handle_of_other_format_or_length_is_refused() {
        let bytes = key().sign(HANDLE);
        for length in (0..bytes.len()).chain([bytes.len() + 1, 64, 128]) {
            let mut cut = bytes.to_vec();
            cut.resize(length, 0);
            let bad = Err(BadHandle::Form { length });
            assert_eq!(open(&cut), bad);
        }
        let mut older = without_code(HANDLE);
        for place in 0..4 {
            older[place] ^= 2;
            assert!(unverified(&older).is_err(), "byte {place}");
            older[place] ^= 2;
        }
    }
}
