//! The parameter list of EXTENDED COPY (LID1): SPC-4, sections 6.4.3 to 6.4.6.

use super::{CSCDS_MAX, DESCRIPTORS_BYTES_MAX, SEGMENTS_MAX};
use crate::sense::{Asc, Sense};

/// CSCD by an identification descriptor, as in VPD page 83h.
pub(super) const CSCD_IDENTIFICATION: u8 = 0xe4;
/// Block device to block device, lengths in blocks.
pub(super) const SEGMENT_BLOCKS: u8 = 0x02;
/// Block device to block device, with lengths and offsets in bytes.
pub(super) const SEGMENT_BYTES: u8 = 0x0a;

const HEADER_BYTES: usize = 16;
pub(super) const CSCD_BYTES: usize = 32;
/// LIST ID USAGE: no list identifier, hold nothing.
const USAGE_NONE: u8 = 0x18;

const LENGTH_ERROR: Sense = Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR);

/// A checked list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct List {
    /// The list identifier, unless results are to be discarded.
    pub(super) id: Option<u8>,
    pub(super) cscds: Vec<Cscd>,
    pub(super) segments: Vec<Segment>,
}

/// A copy source or copy destination.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cscd {
    /// Code set, type and association, as in VPD page 83h.
    pub(super) code_set: u8,
    pub(super) kind: u8,
    pub(super) designator: Vec<u8>,
    /// DISK BLOCK LENGTH, zero if not specified.
    pub(super) block_bytes: u32,
}

/// A segment to copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) source_lba: u64,
    pub(super) destination_lba: u64,
    pub(super) length: Length,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// In blocks of the source, or of the destination if `of_destination`.
    Blocks { count: u16, of_destination: bool },
    /// In bytes, from byte offsets within the first blocks.
    Bytes {
        count: u32,
        source_offset: u16,
        destination_offset: u16,
    },
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

/// Decodes a list. Total: any bytes produce a list or sense data.
pub(super) fn parse(bytes: &[u8]) -> Result<List, Sense> {
    if bytes.len() < HEADER_BYTES {
        return Err(LENGTH_ERROR);
    }
    let cscds_bytes = usize::from(be16(bytes, 2));
    let segments_bytes = be32(bytes, 8);
    let inline_bytes = be32(bytes, 12);
    let described = u64::from(segments_bytes) + cscds_bytes as u64;
    let expected = HEADER_BYTES as u64 + described + u64::from(inline_bytes);
    if described > u64::from(DESCRIPTORS_BYTES_MAX) || expected > bytes.len() as u64 {
        return Err(LENGTH_ERROR);
    }
    if inline_bytes > 0 {
        // No supported segment type uses inline data.
        return Err(Sense::invalid_parameter(12, None));
    }
    let (cscds, segments) = bytes[HEADER_BYTES..][..described as usize].split_at(cscds_bytes);
    let discards = bytes[1] & USAGE_NONE == USAGE_NONE;
    Ok(List {
        id: (!discards).then_some(bytes[0]),
        cscds: parse_cscds(cscds)?,
        segments: parse_segments(segments, HEADER_BYTES + cscds_bytes)?,
    })
}

fn parse_cscds(bytes: &[u8]) -> Result<Vec<Cscd>, Sense> {
    if bytes.len() / CSCD_BYTES > usize::from(CSCDS_MAX) {
        return Err(Sense::illegal(Asc::TOO_MANY_TARGET_DESCRIPTORS));
    }
    if bytes.len() % CSCD_BYTES != 0 {
        return Err(Sense::invalid_parameter(2, None));
    }
    let parse_one = |(index, one): (usize, &[u8])| {
        let at = HEADER_BYTES + index * CSCD_BYTES;
        let wrong = |offset: usize| Sense::invalid_parameter((at + offset) as u16, None);
        if one[0] != CSCD_IDENTIFICATION {
            return Err(Sense::illegal(Asc::UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE));
        }
        if one[1] & 0x1f != 0 {
            return Err(wrong(1));
        }
        let length = usize::from(one[7]);
        let designator = one[8..28].get(..length).ok_or(wrong(7))?;
        Ok(Cscd {
            code_set: one[4] & 0x0f,
            kind: one[5] & 0x3f,
            designator: designator.to_vec(),
            block_bytes: be32(one, 28) & 0xff_ffff,
        })
    };
    let each = bytes.chunks_exact(CSCD_BYTES).enumerate();
    each.map(parse_one).collect()
}

fn parse_segments(mut bytes: &[u8], mut at: usize) -> Result<Vec<Segment>, Sense> {
    let mut segments = Vec::new();
    while !bytes.is_empty() {
        let wrong = |offset: usize| Sense::invalid_parameter((at + offset) as u16, None);
        if segments.len() == usize::from(SEGMENTS_MAX) {
            return Err(Sense::illegal(Asc::TOO_MANY_SEGMENT_DESCRIPTORS));
        }
        let length = match bytes[0] {
            SEGMENT_BLOCKS => 28,
            SEGMENT_BYTES => 32,
            _ => {
                let asc = Asc::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE;
                return Err(Sense::illegal(asc));
            }
        };
        if bytes.len() < length {
            return Err(LENGTH_ERROR);
        }
        let (one, rest) = bytes.split_at(length);
        if usize::from(be16(one, 2)) != length - 4 {
            return Err(wrong(2));
        }
        let length_field = if one[0] == SEGMENT_BLOCKS {
            Length::Blocks {
                count: be16(one, 10),
                of_destination: one[1] & 0x02 != 0,
            }
        } else {
            Length::Bytes {
                count: be32(one, 8),
                source_offset: be16(one, 28),
                destination_offset: be16(one, 30),
            }
        };
        segments.push(Segment {
            source: be16(one, 4),
            destination: be16(one, 6),
            source_lba: be64(one, 12),
            destination_lba: be64(one, 20),
            length: length_field,
        });
        bytes = rest;
        at += length;
    }
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(cscds: usize, segments: usize) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[0] = 9;
        bytes[2..4].copy_from_slice(&((cscds * 32) as u16).to_be_bytes());
        bytes[8..12].copy_from_slice(&((segments * 28) as u32).to_be_bytes());
        for _ in 0..cscds {
            let mut one = [0; 32];
            one[..10].copy_from_slice(&[0xe4, 0, 0, 0, 1, 3, 0, 2, 0x60, 1]);
            one[30] = 2;
            bytes.extend(one);
        }
        for _ in 0..segments {
            let mut one = [0; 28];
            one[..12].copy_from_slice(&[2, 2, 0, 24, 0, 0, 0, 1, 0, 0, 0, 16]);
            one[19] = 7;
            one[27] = 8;
            bytes.extend(one);
        }
        bytes
    }

    #[test]
    fn block_to_block_segment_is_parsed() {
        let parsed = parse(&list(1, 1)).unwrap();
        assert_eq!(parsed.id, Some(9));
        assert_eq!(parsed.cscds[0].designator, [0x60, 1]);
        assert_eq!(parsed.cscds[0].block_bytes, 512);
        assert_eq!(
            parsed.segments[0],
            Segment {
                source: 0,
                destination: 1,
                source_lba: 7,
                destination_lba: 8,
                length: Length::Blocks {
                    count: 16,
                    of_destination: true
                },
            }
        );
    }

    #[test]
    fn excess_descriptors_and_excess_length_have_distinct_sense() {
        let asc = |bytes: &[u8]| parse(bytes).unwrap_err().asc;
        assert_eq!(asc(&list(17, 1)), Asc::TOO_MANY_TARGET_DESCRIPTORS);
        assert_eq!(asc(&list(1, 33)), Asc::TOO_MANY_SEGMENT_DESCRIPTORS);
        assert_eq!(asc(&list(17, 33)), Asc::PARAMETER_LIST_LENGTH_ERROR);
        let cut = list(1, 1);
        assert_eq!(asc(&cut[..cut.len() - 1]), Asc::PARAMETER_LIST_LENGTH_ERROR);
    }

    #[test]
    fn copy_list_of_any_bytes_parses_or_returns_sense() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..20_000 {
            let mut bytes = list(random.usize(..4), random.usize(..4));
            for _ in 0..random.usize(..6) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            bytes.truncate(random.usize(..=bytes.len()));
            let _ = parse(&bytes);
        }
    }
}
