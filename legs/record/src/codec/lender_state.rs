//! The stored state of a lent disk: the file of its lender, and the stamp on a disk that a head opens itself.

use super::bytes::{Malformed, Reader, Writer, checksum};
use crate::lender::LenderState;
use crate::record::DiskId;

const STAMP_MAGIC: &[u8; 8] = b"BULKSTMP";
const LENT_MAGIC: &[u8; 8] = b"BULKLENT";
/// Of both.
const VERSION: u32 = 1;
/// Magic, version.
const HEADER_BYTES: usize = 12;
/// Length of a stamp.
pub const STAMP_BYTES: usize = 68;
/// Length of a lender's file.
pub const LENT_BYTES: usize = 60;

/// Encodes the stamp on a disk. `sequence` grows with each write, so that the newer one of two copies is known.
pub fn encode_stamp(disk: DiskId, sequence: u64, lender_state: &LenderState) -> [u8; STAMP_BYTES] {
    let mut body = Writer::default();
    body.number(disk.0);
    body.number(sequence);
    body.lender_state(lender_state);
    let bytes = sealed(STAMP_MAGIC, &body.into_bytes());
    bytes.try_into().expect("as long as its members")
}

/// Decodes the stamp of `disk`, with its sequence, at the start of a block. `None`: there is none, it is damaged, or of
/// another disk.
pub fn decode_stamp(block: &[u8], disk: DiskId) -> Option<(u64, LenderState)> {
    let mut body = unsealed(STAMP_MAGIC, block.get(..STAMP_BYTES)?).ok()?;
    let is_of_it = body.disk().ok()? == disk;
    let found = (body.number().ok()?, body.lender_state().ok()?);
    is_of_it.then_some(found)
}

/// Encodes a lender's file for a disk.
pub fn encode_lent(disk: DiskId, lender_state: &LenderState) -> Vec<u8> {
    let mut body = Writer::default();
    body.number(disk.0);
    body.lender_state(lender_state);
    sealed(LENT_MAGIC, &body.into_bytes())
}

/// Decodes a lender's file for `disk`. `None`: it is damaged, of another length, or of another disk.
pub fn decode_lent(bytes: &[u8], disk: DiskId) -> Option<LenderState> {
    let mut body = unsealed(LENT_MAGIC, bytes).ok()?;
    let is_of_it = body.disk().ok()? == disk;
    let lender_state = body.lender_state().ok()?;
    body.end().ok()?;
    is_of_it.then_some(lender_state)
}

/// Adds the header: magic, version, checksum of these and of the body.
fn sealed(magic: &[u8; 8], body: &[u8]) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(magic);
    out.short(VERSION);
    let sum = checksum(out.as_bytes(), body);
    out.short(sum);
    out.bytes(body);
    out.into_bytes()
}

/// The body.
fn unsealed<'a>(magic: &[u8; 8], bytes: &'a [u8]) -> Result<Reader<'a>, Malformed> {
    let mut reader = Reader::new(bytes);
    let found: [u8; 8] = reader.take()?;
    let (version, sum) = (reader.short()?, reader.short()?);
    let body = reader.rest();
    let is_whole = checksum(&bytes[..HEADER_BYTES], body) == sum;
    match is_whole && found == *magic && version == VERSION {
        true => Ok(Reader::new(body)),
        false => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::hex;
    use crate::record::{Ballot, Session};

    /// As written by the first release.
    const STAMP: &str = "42554c4b53544d50010000004799474609000000000000000400000000000000030000000000000007000000000000000300000000000000070000000000000002000000";
    const LENT: &str = "42554c4b4c454e5401000000ba55c7e90500000000000000040000000000000009000000000000000300000000000000090000000000000002000000";

    #[test]
    fn stamp_round_trips_and_any_changed_bit_is_detected() {
        let ballot = Ballot { epoch: 3, nonce: 7 };
        let lender_state = LenderState {
            enforced: ballot,
            mark: Session { ballot, number: 2 },
        };
        let bytes = encode_stamp(DiskId(9), 4, &lender_state);
        assert_eq!(hex(&bytes), STAMP);
        assert_eq!(bytes[..12], *b"BULKSTMP\x01\0\0\0");
        assert_eq!(bytes[16..24], 9_u64.to_le_bytes());
        assert_eq!(bytes[64..], 2_u32.to_le_bytes());
        let mut block = bytes.to_vec();
        block.resize(4096, 0);
        assert_eq!(decode_stamp(&block, DiskId(9)), Some((4, lender_state)));
        assert_eq!(decode_stamp(&block, DiskId(8)), None);
        assert_eq!(decode_stamp(&[0; 4096], DiskId(0)), None);
        assert_eq!(decode_stamp(&bytes[1..], DiskId(9)), None);
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_stamp(&changed, DiskId(9)), None, "bit {bit}");
        }
    }
    #[test]
    fn lender_file_round_trips_and_any_changed_bit_is_detected() {
        let ballot = |epoch| Ballot { epoch, nonce: 9 };
        let lender_state = LenderState {
            enforced: ballot(4),
            mark: Session {
                ballot: ballot(3),
                number: 2,
            },
        };
        let disk = DiskId(5);
        let bytes = encode_lent(disk, &lender_state);
        assert_eq!((bytes.len(), &*hex(&bytes)), (LENT_BYTES, LENT));
        assert_eq!(decode_lent(&bytes, disk), Some(lender_state));
        assert_eq!(decode_lent(&bytes, DiskId(6)), None);
        assert_eq!(decode_lent(&bytes[1..], disk), None);
        assert_eq!(decode_lent(&[&bytes[..], &[0]].concat(), disk), None);
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_lent(&changed, disk), None, "bit {bit}");
        }
    }
}
