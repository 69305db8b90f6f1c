//! One reply to a client: a few header bytes and a payload that is often borrowed from the storage
//! engine.

use std::io::IoSlice;

use block_device::ReadLoan;

use crate::Reservation;

/// Maximum bytes of a header without an allocation.
const INLINE_BYTES_MAX: usize = 64;

/// A short byte string without an allocation.
#[derive(Clone, Copy)]
pub struct InlineBytes {
    bytes: [u8; INLINE_BYTES_MAX],
    length: u8,
}

impl InlineBytes {
    /// No bytes.
    pub const EMPTY: Self = Self {
        bytes: [0; INLINE_BYTES_MAX],
        length: 0,
    };

    /// Copies `bytes`, at most 64 of them.
    pub fn new(bytes: &[u8]) -> Self {
        let mut inline = Self::EMPTY;
        inline.push(bytes);
        inline
    }

    /// Appends `bytes`; at most 64 fit.
    pub fn push(&mut self, bytes: &[u8]) {
        let start = usize::from(self.length);
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len() as u8;
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// The payload after the header.
pub enum Payload {
    /// No payload.
    None,
    /// Owned bytes.
    Bytes(Vec<u8>),
    /// Buffers of the engine, held only while the socket accepts them immediately.
    Loan(Box<dyn ReadLoan>),
}

impl Payload {
    fn byte_count(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::Loan(loan) => loan.byte_count(),
        }
    }

    fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>) {
        match self {
            Self::None => {}
            Self::Bytes(bytes) => parts.push(bytes),
            Self::Loan(loan) => loan.append_parts(parts),
        }
    }
}

/// Bytes to insert into a payload, so that one loan becomes several protocol units.
#[derive(Clone, Copy)]
pub struct Split {
    /// Payload bytes before them.
    pub at: usize,
    /// The bytes, such as a digest and the next header.
    pub bytes: InlineBytes,
}

/// A unit to send, as a whole and in order of [`Outbound::push`](crate::Outbound::push).
pub struct Reply {
    /// Sent first.
    pub head: InlineBytes,
    /// Sent after the head.
    pub payload: Payload,
    /// Sent inside the payload, in order of `at`.
    pub splits: Vec<Split>,
    /// Sent last: padding, a digest.
    pub tail: InlineBytes,
    /// The budget of the payload, released when it is sent.
    pub reservation: Option<Reservation>,
}

impl Reply {
    /// Creates a reply with only a header.
    pub fn head(bytes: &[u8]) -> Self {
        Self {
            head: InlineBytes::new(bytes),
            payload: Payload::None,
            splits: Vec::new(),
            tail: InlineBytes::EMPTY,
            reservation: None,
        }
    }

    /// Creates a reply with a header and a payload.
    pub fn with_payload(head: &[u8], payload: Payload) -> Self {
        Self {
            payload,
            ..Self::head(head)
        }
    }

    /// Bytes on the wire.
    pub fn byte_count(&self) -> usize {
        self.head.as_slice().len()
            + self.payload.byte_count()
            + self
                .splits
                .iter()
                .map(|split| split.bytes.as_slice().len())
                .sum::<usize>()
            + self.tail.as_slice().len()
    }

    /// Appends the slices after the first `skip` bytes; `scratch` is a buffer for them.
    pub(crate) fn append_slices<'a>(
        &'a self,
        skip: usize,
        scratch: &mut Vec<&'a [u8]>,
        slices: &mut Vec<IoSlice<'a>>,
    ) {
        let mut skip = skip;
        let mut push = |bytes: &'a [u8]| {
            let skipped = skip.min(bytes.len());
            skip -= skipped;
            if skipped < bytes.len() {
                slices.push(IoSlice::new(&bytes[skipped..]));
            }
        };
        push(self.head.as_slice());
        scratch.clear();
        self.payload.append_parts(scratch);
        if self.splits.is_empty() {
            scratch.iter().for_each(|part| push(part));
        } else {
            let mut done = 0;
            let mut splits = self.splits.iter().peekable();
            for part in scratch.iter() {
                let mut rest: &'a [u8] = part;
                while !rest.is_empty() {
                    let until = splits.peek().map_or(usize::MAX, |split| split.at - done);
                    let (now, later) = rest.split_at(until.min(rest.len()));
                    push(now);
                    done += now.len();
                    rest = later;
                    while let Some(split) = splits.next_if(|split| split.at == done) {
                        push(split.bytes.as_slice());
                    }
                }
            }
        }
        push(self.tail.as_slice());
    }

    /// Replaces borrowed buffers by copies of the bytes after the first `sent` ones, so that a slow
    /// client does not block buffers and range locks of the engine.
    pub(crate) fn own_remainder(&mut self, sent: usize) {
        let mut bytes = Vec::with_capacity(self.byte_count() - sent);
        let mut slices = Vec::new();
        self.append_slices(sent, &mut Vec::new(), &mut slices);
        slices
            .iter()
            .for_each(|slice| bytes.extend_from_slice(slice));
        drop(slices);
        *self = Self {
            head: InlineBytes::EMPTY,
            payload: Payload::Bytes(bytes),
            splits: Vec::new(),
            tail: InlineBytes::EMPTY,
            reservation: self.reservation.take(),
        };
    }

    pub(crate) fn is_borrowing(&self) -> bool {
        matches!(self.payload, Payload::Loan(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Parts(Vec<Vec<u8>>);

    impl ReadLoan for Parts {
        fn byte_count(&self) -> usize {
            self.0.iter().map(Vec::len).sum()
        }
        fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>) {
            parts.extend(self.0.iter().map(Vec::as_slice));
        }
    }

    fn flat(answer: &Reply, skip: usize) -> Vec<u8> {
        let mut slices = Vec::new();
        answer.append_slices(skip, &mut Vec::new(), &mut slices);
        slices.iter().flat_map(|slice| slice.to_vec()).collect()
    }

    #[test]
    fn splits_at_any_byte_preserve_the_payload() {
        let make = || Reply {
            splits: vec![
                Split {
                    at: 2,
                    bytes: InlineBytes::new(b"<a>"),
                },
                Split {
                    at: 4,
                    bytes: InlineBytes::new(b"<b>"),
                },
                Split {
                    at: 4,
                    bytes: InlineBytes::new(b"<c>"),
                },
                Split {
                    at: 7,
                    bytes: InlineBytes::new(b"<d>"),
                },
            ],
            tail: InlineBytes::new(b"T"),
            ..Reply::with_payload(
                b"H",
                Payload::Loan(Box::new(Parts(vec![
                    b"0123".to_vec(),
                    vec![],
                    b"456".to_vec(),
                ]))),
            )
        };
        let whole = b"H01<a>23<b><c>456<d>T";
        for sent in 0..=whole.len() {
            let mut answer = make();
            assert_eq!(answer.byte_count(), whole.len());
            assert_eq!(flat(&answer, sent), &whole[sent..]);
            answer.own_remainder(sent);
            assert!(!answer.is_borrowing());
            assert_eq!(flat(&answer, 0), &whole[sent..]);
        }
    }
}
