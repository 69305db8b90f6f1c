//! Splits a byte stream into PDUs.

use crate::protocol::digest::{DIGEST_BYTES, RunningDigest, digest};
use crate::protocol::header::{HEADER_BYTES, Header, padding};
use serving::InlineBytes;

/// The format of PDUs on a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing {
    pub(crate) header_digest: bool,
    pub(crate) data_digest: bool,
    /// The target's MaxRecvDataSegmentLength.
    pub(crate) segment_bytes_max: usize,
}

/// A stream that can no longer be split: the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FramingError {
    #[error("wrong header digest")]
    HeaderDigest,
    #[error("data segment longer than MaxRecvDataSegmentLength")]
    SegmentTooLong,
}

/// Header and additional header segments of the PDU at the front of the input.
#[derive(Clone, Copy)]
pub(crate) struct Front {
    pub(crate) header: Header,
    /// Bytes before the data segment.
    pub(crate) head_bytes: usize,
    /// Bytes of the data segment without padding.
    pub(crate) data_bytes: usize,
    /// Bytes after it: padding and digest.
    pub(crate) trailer_bytes: usize,
}

impl Front {
    /// Bytes of the whole PDU.
    pub(crate) fn total(&self) -> usize {
        self.head_bytes + self.data_bytes + self.trailer_bytes
    }

    /// The additional header segments in `input`, which starts with this PDU.
    pub(crate) fn ahs<'a>(&self, input: &'a [u8]) -> &'a [u8] {
        &input[HEADER_BYTES..HEADER_BYTES + self.header.ahs_bytes()]
    }

    /// The data segment in `input`, which starts with this PDU and has all of it.
    pub(crate) fn data<'a>(&self, input: &'a [u8]) -> &'a [u8] {
        &input[self.head_bytes..self.head_bytes + self.data_bytes]
    }

    /// Whether the data digest is correct; `input` has the whole PDU.
    pub(crate) fn has_correct_data_digest(&self, input: &[u8], framing: &Framing) -> bool {
        if !framing.data_digest || self.data_bytes == 0 {
            return true;
        }
        let (covered, rest) =
            input[self.head_bytes..].split_at(self.data_bytes + padding(self.data_bytes));
        rest[..DIGEST_BYTES] == digest(covered)
    }
}

impl Framing {
    /// Decodes the front of `input`; `None` until the header is complete.
    pub(crate) fn front(&self, input: &[u8]) -> Result<Option<Front>, FramingError> {
        let Some(bytes) = input.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = Header(*bytes);
        let data_bytes = header.data_bytes();
        if data_bytes > self.segment_bytes_max {
            return Err(FramingError::SegmentTooLong);
        }
        let covered = HEADER_BYTES + header.ahs_bytes();
        let head_bytes = covered + if self.header_digest { DIGEST_BYTES } else { 0 };
        if input.len() < head_bytes {
            return Ok(None);
        }
        if self.header_digest && input[covered..head_bytes] != digest(&input[..covered]) {
            return Err(FramingError::HeaderDigest);
        }
        let digest_bytes = if self.data_digest && data_bytes > 0 {
            DIGEST_BYTES
        } else {
            0
        };
        Ok(Some(Front {
            header,
            head_bytes,
            data_bytes,
            trailer_bytes: padding(data_bytes) + digest_bytes,
        }))
    }

    /// Returns the missing bytes of the PDU at the front of `input`, as far as its header is known.
    pub(crate) fn missing(&self, input: &[u8]) -> usize {
        match self.front(input) {
            Ok(Some(front)) => front.total().saturating_sub(input.len()),
            // A wrong header is refused when it is consumed.
            Ok(None) | Err(_) => 0,
        }
    }
}

/// Destination of the rest of a long data segment.
#[derive(Debug)]
pub(crate) enum Place {
    /// The buffers of a task: `keep` more bytes from `offset`.
    Task {
        tag: u32,
        offset: usize,
        keep: usize,
    },
    /// Memory, because the whole PDU is needed at once.
    Gather { ahs: Vec<u8>, data: Vec<u8> },
}

/// A data segment that exceeds the input buffer.
pub(crate) struct Segment {
    pub(crate) header: Header,
    pub(crate) place: Place,
    left: usize,
    trailer_left: usize,
    trailer: InlineBytes,
    digest: Option<RunningDigest>,
    data_bytes: usize,
}

impl Segment {
    pub(crate) fn new(front: &Front, place: Place, framing: &Framing) -> Self {
        Self {
            header: front.header,
            place,
            left: front.data_bytes,
            trailer_left: front.trailer_bytes,
            trailer: InlineBytes::EMPTY,
            digest: framing.data_digest.then(RunningDigest::default),
            data_bytes: front.data_bytes,
        }
    }

    /// Missing bytes of data.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Number of leading bytes of `input` that belong to this segment.
    pub(crate) fn data_in(&self, input: &[u8]) -> usize {
        self.left.min(input.len())
    }

    /// Records data that was stored.
    pub(crate) fn record_stored(&mut self, data: &[u8]) {
        if let Some(digest) = &mut self.digest {
            digest.update(data);
        }
        self.skip(data.len());
    }

    /// Whether the data must be passed to [`record_stored`](Self::took).
    pub(crate) fn needs_digest_input(&self) -> bool {
        self.digest.is_some()
    }

    /// Like [`record_stored`](Self::took), for data that need not be inspected.
    pub(crate) fn skip(&mut self, count: usize) {
        self.left -= count;
        if let Place::Task { offset, keep, .. } = &mut self.place {
            let kept = count.min(*keep);
            *offset += kept;
            *keep -= kept;
        }
    }

    /// Consumes padding and digest from `input` after the data. Returns their size.
    pub(crate) fn take_trailer(&mut self, input: &[u8]) -> usize {
        debug_assert_eq!(self.left, 0);
        let count = self.trailer_left.min(input.len());
        self.trailer.push(&input[..count]);
        self.trailer_left -= count;
        count
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.left == 0 && self.trailer_left == 0
    }

    /// Whether the digest of a complete segment is correct.
    pub(crate) fn has_correct_digest(&self) -> bool {
        let Some(mut digest) = self.digest else {
            return true;
        };
        let (pad, rest) = self.trailer.as_slice().split_at(padding(self.data_bytes));
        digest.update(pad);
        rest == digest.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMING: Framing = Framing {
        header_digest: true,
        data_digest: true,
        segment_bytes_max: 8192,
    };

    fn pdu(data: &[u8]) -> Vec<u8> {
        let mut header = Header::new(5);
        header.set_data_bytes(data.len());
        let mut bytes = header.0.to_vec();
        bytes.extend(digest(&header.0));
        let mut covered = data.to_vec();
        covered.resize(data.len() + padding(data.len()), 0);
        bytes.extend(&covered);
        bytes.extend(digest(&covered));
        bytes
    }

    #[test]
    fn pdu_is_framed_once_its_header_is_complete() {
        let bytes = pdu(b"hello");
        for count in 0..52 {
            assert!(FRAMING.front(&bytes[..count]).unwrap().is_none());
        }
        let front = FRAMING.front(&bytes).unwrap().unwrap();
        assert_eq!(front.total(), bytes.len());
        assert_eq!(front.data(&bytes), b"hello");
        assert!(front.has_correct_data_digest(&bytes, &FRAMING));
    }

    #[test]
    fn missing_pdu_bytes_are_known_once_the_header_is_read() {
        let bytes = pdu(b"hello");
        assert_eq!(FRAMING.missing(&bytes[..51]), 0, "its length is not known");
        for count in 52..bytes.len() {
            assert_eq!(FRAMING.missing(&bytes[..count]), bytes.len() - count);
        }
        let mut next = bytes.clone();
        next.extend(&bytes);
        assert_eq!(FRAMING.missing(&next), 0, "the first of two is whole");
        next[0] ^= 1;
        assert_eq!(
            FRAMING.missing(&next[..60]),
            0,
            "a wrong header has no length"
        );
    }

    #[test]
    fn wrong_digests_are_detected() {
        let mut bytes = pdu(b"hello");
        bytes[53] ^= 1;
        let front = FRAMING.front(&bytes).unwrap().unwrap();
        assert!(!front.has_correct_data_digest(&bytes, &FRAMING));
        bytes[9] ^= 1;
        let error = FRAMING.front(&bytes).err();
        assert_eq!(error, Some(FramingError::HeaderDigest));
    }

    #[test]
    fn a_segment_over_the_limit_is_refused_before_it_is_received() {
        let mut header = Header::new(5);
        header.set_data_bytes(8193);
        let error = FRAMING.front(&header.0).err();
        assert_eq!(error, Some(FramingError::SegmentTooLong));
    }

    #[test]
    fn a_segment_in_pieces_has_the_digest_of_the_whole() {
        let bytes = pdu(b"hello world");
        let front = FRAMING.front(&bytes).unwrap().unwrap();
        for right in [true, false] {
            let place = Place::Gather {
                ahs: Vec::new(),
                data: Vec::new(),
            };
            let mut segment = Segment::new(&front, place, &FRAMING);
            segment.record_stored(b"hello");
            segment.record_stored(if right { b" world" } else { b" wOrld" });
            for byte in &bytes[front.head_bytes + 11..] {
                assert!(!segment.is_complete());
                assert_eq!(segment.take_trailer(&[*byte]), 1);
            }
            assert!(segment.is_complete());
            assert_eq!(segment.has_correct_digest(), right);
        }
    }
}
