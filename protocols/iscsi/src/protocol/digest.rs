//! CRC32C digests in their wire format (RFC 7143 section 13.1): the checksum's bytes, least
//! significant first.

/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;

/// Computes the digest of `bytes`.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    crc32c::crc32c(bytes).to_le_bytes()
}

/// A digest of data that arrives in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunningDigest(u32);

impl RunningDigest {
    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, bytes);
    }

    /// Returns the digest of all pieces.
    pub fn finish(self) -> [u8; DIGEST_BYTES] {
        self.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7143 appendix A (RFC 3720 B.4).
    #[test]
    fn crc32c_matches_the_rfc_examples() {
        assert_eq!(digest(&[0; 32]), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(digest(&[0xff; 32]), [0x43, 0xab, 0xa8, 0x62]);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(digest(&rising), [0x4e, 0x79, 0xdd, 0x46]);
        let falling: Vec<u8> = (0..32).rev().collect();
        assert_eq!(digest(&falling), [0x5c, 0xdb, 0x3f, 0x11]);
    }

    #[test]
    fn running_digest_equals_the_digest_of_the_whole() {
        let mut running = RunningDigest::default();
        running.update(&[0xff; 10]);
        running.update(&[0xff; 22]);
        assert_eq!(running.finish(), digest(&[0xff; 32]));
    }
}
