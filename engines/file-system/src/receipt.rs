//! The identity of a request, stored so that a retry is recognised.

/// A client's context with one request in flight at a time: a slot of a session, or a call of a client's address.
pub type Place = [u8; 20];

/// The identity of a request that changes names or attributes. It is stored until its slot has a newer one, or until
/// many other receipts were stored since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The client's slot for the reply.
    pub place: Place,
    /// The sequence number of the request in this slot.
    pub number: u32,
    /// The index of the change within the request.
    pub step: u32,
    /// A [hash](Self::call_of) of the request's arguments, because a slot may reuse the number for another request. 0:
    /// unknown.
    pub call: u32,
}

/// The value stored before there were hashes.
const NO_CALL: u32 = 1;

impl Receipt {
    /// Bytes of [`to_bytes`](Self::to_bytes).
    pub const BYTES: usize = 32;
    /// Without the hash, which receipts did not contain earlier.
    pub const BYTES_WITHOUT_CALL: usize = 28;

    /// A hash of a request in its stored form.
    pub const fn call_of(hash: u64) -> u32 {
        match hash as u32 {
            0 | NO_CALL => 2,
            hash => hash,
        }
    }

    /// Whether it may belong to a request with this number and hash.
    pub const fn is_of(&self, number: u32, call: u32) -> bool {
        self.number == number && (self.call == 0 || self.call == call)
    }

    /// The slot, and the numbers in network byte order. The last one is never 0.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..20].copy_from_slice(&self.place);
        bytes[20..24].copy_from_slice(&self.number.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.step.to_be_bytes());
        bytes[28..].copy_from_slice(&self.call.max(NO_CALL).to_be_bytes());
        bytes
    }

    /// Decodes a receipt.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| {
            let word = bytes[at..].first_chunk().expect("32 bytes");
            u32::from_be_bytes(*word)
        };
        Self {
            place: *bytes.first_chunk().expect("32 bytes"),
            number: word(20),
            step: word(24),
            call: match word(28) {
                NO_CALL => 0,
                call => call,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Receipt;

    #[test]
    fn receipt_survives_encode_and_decode() {
        let receipt = Receipt {
            place: *b"a session and a slot",
            number: 0x0102_0304,
            step: 5,
            call: 0x0607_0809,
        };
        let mut bytes = receipt.to_bytes();
        assert_eq!(bytes[20..], [1, 2, 3, 4, 0, 0, 0, 5, 6, 7, 8, 9]);
        assert_eq!(Receipt::from_bytes(&bytes), receipt);
        let without = Receipt { call: 0, ..receipt };
        assert_eq!(without.to_bytes()[28..], [0, 0, 0, 1]);
        for last in [0, 1] {
            bytes[28..].copy_from_slice(&[0, 0, 0, last]);
            assert_eq!(Receipt::from_bytes(&bytes), without);
        }
    }

    #[test]
    fn receipt_with_call_number_matches_that_call_only() {
        let receipt = |call| Receipt {
            place: [1; 20],
            number: 7,
            step: 0,
            call,
        };
        assert!(receipt(9).is_of(7, 9) && !receipt(9).is_of(7, 8) && !receipt(9).is_of(8, 9));
        assert!(receipt(0).is_of(7, 9) && !receipt(0).is_of(8, 9));
        assert_eq!([0, 1, 2, 3].map(Receipt::call_of), [2, 2, 2, 3]);
        assert_eq!(Receipt::call_of(5 << 32), 2);
    }
}
