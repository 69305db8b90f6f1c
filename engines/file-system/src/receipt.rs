//! What tells a request from all others.

/// Where a client has one request under way at a time: a slot of a session, or a call of a client's address.
pub type Place = [u8; 20];

/// A request that changes names or attributes. It is kept until its place has another one, or many others were kept since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Where the client waits for the answer.
    pub place: Place,
    /// Which of the requests of this place it is.
    pub number: u32,
    /// Which of the changes of the request.
    pub step: u32,
}

impl Receipt {
    /// Bytes of [`to_bytes`](Self::to_bytes).
    pub const BYTES: usize = 28;

    /// The place, and both numbers in the order of the network.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..20].copy_from_slice(&self.place);
        bytes[20..24].copy_from_slice(&self.number.to_be_bytes());
        bytes[24..].copy_from_slice(&self.step.to_be_bytes());
        bytes
    }

    /// The receipt of such bytes.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| {
            let word = bytes[at..].first_chunk().expect("28 bytes");
            u32::from_be_bytes(*word)
        };
        Self {
            place: *bytes.first_chunk().expect("28 bytes"),
            number: word(20),
            step: word(24),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Receipt;

    #[test]
    fn a_receipt_comes_back() {
        let receipt = Receipt {
            place: *b"a session and a slot",
            number: 0x0102_0304,
            step: 5,
        };
        let bytes = receipt.to_bytes();
        assert_eq!(bytes[20..], [1, 2, 3, 4, 0, 0, 0, 5]);
        assert_eq!(Receipt::from_bytes(&bytes), receipt);
    }
}
