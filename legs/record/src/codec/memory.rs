//! Encodes and decodes the state of a member, with the record of legs, as it is stored and sent.

use std::collections::{BTreeMap, BTreeSet};

use super::bytes::{Malformed, Reader, Writer, checksum};
use crate::member::MemberState;
use crate::membership::Membership;
use crate::record::{Ballot, DiskId, Marks, MemberId, Record, Stale};

const MAGIC: &[u8; 8] = b"BULKLEGS";
/// The latest version. All earlier ones can be read. Records that name their members are written in this version, all
/// other records in the previous one, which earlier releases can read.
const VERSION: u32 = 3;
/// Without members.
const VERSION_2: u32 = 2;
/// Without the life numbers of members.
const VERSION_1: u32 = 1;
/// Magic, version, length, checksum.
const HEADER_BYTES: usize = 20;
/// Offset of the checksum in the header; it covers all bytes before it.
const CHECKSUM_AT: usize = 16;
/// Of a pool, in all lists together.
const DISKS_MAX: usize = 1024;
/// Members that a record names.
const LIVES_MAX: usize = 16;
/// The members: their kind, and three numbers.
const MEMBERS_BYTES_MAX: usize = 25;
/// The longest memory: a header, the fixed members, and the longest entry for each disk and each member.
pub const RECORD_BYTES_MAX: usize =
    HEADER_BYTES + 140 + DISKS_MAX * 65 + LIVES_MAX * 16 + MEMBERS_BYTES_MAX;

/// Why bytes are not a valid memory. A member with such a file does not respond: it may have made any promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Another magic number, or too short.
    #[error("no record of legs")]
    Unrecognised,
    /// Written by a later release.
    #[error("a record of legs of version {0}, which this release cannot read")]
    UnknownVersion(u32),
    /// Longer than any record may be, or not of the length in the header.
    #[error("a record of legs of the wrong length")]
    Length,
    /// Damaged.
    #[error("a record of legs with a wrong checksum")]
    Checksum,
    /// The checksum is correct and the content is invalid: written by faulty code.
    #[error("a record of legs that contradicts itself")]
    Content,
}

impl From<Malformed> for DecodeError {
    fn from(_: Malformed) -> Self {
        Self::Content
    }
}

/// Encodes a memory.
///
/// # Panics
///
/// A record has more than 1,024 disks.
pub fn encode_state(memory: &MemberState) -> Vec<u8> {
    let mut body = Writer::default();
    body.ballot(memory.promised);
    body.version(memory.committed);
    body.number(memory.life);
    body.flag(memory.accepted.is_some());
    if let Some(record) = &memory.accepted {
        put_record(&mut body, record);
    }
    let members = memory
        .accepted
        .as_ref()
        .and_then(|record| record.members.as_ref());
    let version = members.map_or(VERSION_2, |_| VERSION);
    if let Some(members) = members {
        put_members(&mut body, members);
    }
    let body = body.into_bytes();
    let mut out = Writer::default();
    out.bytes(MAGIC);
    out.short(version);
    out.short(body.len() as u32);
    let sum = checksum(out.as_bytes(), &body);
    out.short(sum);
    out.bytes(&body);
    out.into_bytes()
}

/// Decodes a memory.
///
/// # Errors
///
/// The bytes are not a memory, or of a later version, damaged, too long, or followed by more bytes.
pub fn decode_state(bytes: &[u8]) -> Result<MemberState, DecodeError> {
    let unrecognised = |_| DecodeError::Unrecognised;
    let mut header = Reader::new(bytes);
    let magic: [u8; 8] = header.take().map_err(unrecognised)?;
    let version = header.short().map_err(unrecognised)?;
    let length = header.short().map_err(unrecognised)?;
    let sum = header.short().map_err(unrecognised)?;
    if magic != *MAGIC {
        return Err(DecodeError::Unrecognised);
    }
    if !(VERSION_1..=VERSION).contains(&version) {
        return Err(DecodeError::UnknownVersion(version));
    }
    let body = header.rest();
    if bytes.len() > RECORD_BYTES_MAX || body.len() != length as usize {
        return Err(DecodeError::Length);
    }
    if checksum(&bytes[..CHECKSUM_AT], body) != sum {
        return Err(DecodeError::Checksum);
    }
    let mut reader = Reader::new(body);
    let memory = read_state(&mut reader, version)?;
    reader.end()?;
    Ok(memory)
}

fn put_record(out: &mut Writer, record: &Record) {
    let disks = record.current.len() + record.stale.len() + record.divergent.len();
    assert!(disks <= DISKS_MAX, "{disks} disks in one pool");
    out.number(record.pool);
    out.ballot(record.ballot);
    out.number(record.sequence);
    out.flag(record.owner.is_some());
    out.number(record.owner.map_or(0, |owner| owner.0));
    out.count(record.current.len());
    for (disk, mark) in &record.current {
        out.number(disk.0);
        out.session(*mark);
    }
    out.count(record.stale.len());
    for (disk, stale) in &record.stale {
        out.number(disk.0);
        out.number(stale.since);
        out.session(stale.marks.confirmed);
        out.session(stale.marks.possible);
        out.number(stale.newest);
        out.flag(stale.is_written);
    }
    out.count(record.divergent.len());
    for disk in &record.divergent {
        out.number(disk.0);
    }
    assert!(record.lives.len() <= LIVES_MAX, "too many members");
    out.count(record.lives.len());
    for (member, life) in &record.lives {
        out.number(member.0);
        out.number(*life);
    }
}

/// Kinds of [`Membership`] in a record.
mod kind {
    pub(super) const ONE_HEAD: u8 = 1;
    pub(super) const TWO_HEADS: u8 = 2;
    pub(super) const TWO_HEADS_AND_WITNESS: u8 = 3;
    pub(super) const WITNESS_LEAVES: u8 = 4;
    pub(super) const THREE_HEADS: u8 = 5;
}

fn put_members(out: &mut Writer, membership: &Membership) {
    out.byte(match membership {
        Membership::OneHead(_) => kind::ONE_HEAD,
        Membership::TwoHeads(_) => kind::TWO_HEADS,
        Membership::TwoHeadsAndWitness { .. } => kind::TWO_HEADS_AND_WITNESS,
        Membership::WitnessLeaves { .. } => kind::WITNESS_LEAVES,
        Membership::ThreeHeads(_) => kind::THREE_HEADS,
    });
    for member in membership.members() {
        out.number(member.0);
    }
}

fn count(reader: &mut Reader<'_>) -> Result<usize, Malformed> {
    match reader.short()? as usize {
        count if count <= DISKS_MAX => Ok(count),
        _ => Err(Malformed),
    }
}

fn read_state(reader: &mut Reader<'_>, version: u32) -> Result<MemberState, Malformed> {
    let promised = reader.ballot()?;
    let committed = reader.version()?;
    let life = match version {
        VERSION_1 => 0,
        _ => reader.number()?,
    };
    let accepted = match reader.flag()? {
        true => Some(read_record(reader, version)?),
        // Without a record there are no members, so this is not a valid encoding.
        false if version == VERSION => return Err(Malformed),
        false => None,
    };
    Ok(MemberState {
        promised,
        before: Ballot::default(),
        accepted,
        committed,
        life,
    })
}

fn read_record(reader: &mut Reader<'_>, version: u32) -> Result<Record, Malformed> {
    let pool = reader.number()?;
    let ballot = reader.ballot()?;
    let sequence = reader.number()?;
    let owner = match (reader.flag()?, reader.number()?) {
        (true, owner) => Some(MemberId(owner)),
        (false, 0) => None,
        (false, _) => return Err(Malformed),
    };
    let current = sorted(reader, |reader| Ok((reader.disk()?, reader.session()?)))?;
    let stale = sorted(reader, |reader| Ok((reader.disk()?, read_stale(reader)?)))?;
    let divergent = sorted(reader, |reader| Ok((reader.disk()?, ())))?;
    let (current, stale): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (current.into_iter().collect(), stale.into_iter().collect());
    let divergent: BTreeSet<DiskId> = divergent.into_iter().map(|(disk, ())| disk).collect();
    let mut twice = stale.keys().chain(&divergent);
    let is_twice = |disk: &DiskId| {
        current.contains_key(disk) || (stale.contains_key(disk) && divergent.contains(disk))
    };
    let is_one_too_many = current.len() + stale.len() + divergent.len() > DISKS_MAX;
    if twice.any(is_twice) || is_one_too_many {
        return Err(Malformed);
    }
    let lives = match version {
        VERSION_1 => BTreeMap::new(),
        _ => read_lives(reader)?,
    };
    let members = match version {
        VERSION => Some(read_membership(reader)?),
        _ => None,
    };
    Ok(Record {
        pool,
        ballot,
        sequence,
        owner,
        current,
        stale,
        divergent,
        lives,
        members,
    })
}

fn read_membership(reader: &mut Reader<'_>) -> Result<Membership, Malformed> {
    let kind = reader.byte()?;
    let mut member = || reader.member();
    let membership = match kind {
        kind::ONE_HEAD => Membership::OneHead(member()?),
        kind::TWO_HEADS => Membership::TwoHeads([member()?, member()?]),
        kind::TWO_HEADS_AND_WITNESS => Membership::TwoHeadsAndWitness {
            heads: [member()?, member()?],
            witness: member()?,
        },
        kind::WITNESS_LEAVES => Membership::WitnessLeaves {
            heads: [member()?, member()?],
            witness: member()?,
        },
        kind::THREE_HEADS => Membership::ThreeHeads([member()?, member()?, member()?]),
        _ => return Err(Malformed),
    };
    let heads = membership.heads();
    let is_sorted = heads.windows(2).all(|two| two[0] < two[1]);
    let is_head = |witness| heads.contains(&witness);
    let is_twice = membership.witness().is_some_and(is_head);
    let is_unnumbered = membership.members().contains(&MemberId(0));
    match is_sorted && !is_twice && !is_unnumbered {
        true => Ok(membership),
        false => Err(Malformed),
    }
}

fn read_lives(reader: &mut Reader<'_>) -> Result<BTreeMap<MemberId, u64>, Malformed> {
    let entries = sorted(reader, |reader| Ok((reader.member()?, reader.number()?)))?;
    let is_right = entries.len() <= LIVES_MAX && entries.iter().all(|(_, life)| *life != 0);
    match is_right {
        true => Ok(entries.into_iter().collect()),
        false => Err(Malformed),
    }
}

fn read_stale(reader: &mut Reader<'_>) -> Result<Stale, Malformed> {
    Ok(Stale {
        since: reader.number()?,
        marks: Marks {
            confirmed: reader.session()?,
            possible: reader.session()?,
        },
        newest: reader.number()?,
        is_written: reader.flag()?,
    })
}

/// Reads a count and as many entries, in strictly ascending order of their keys.
fn sorted<K: Ord, T>(
    reader: &mut Reader<'_>,
    entry: impl Fn(&mut Reader<'_>) -> Result<(K, T), Malformed>,
) -> Result<Vec<(K, T)>, Malformed> {
    let count = count(reader)?;
    let entries = (0..count).map(|_| entry(reader));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    match entries.windows(2).all(|two| two[0].0 < two[1].0) {
        true => Ok(entries),
        false => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::hex;
    use crate::record::{MissingData, Version};

    const MISSING_DATA: MissingData = MissingData {
        since: 90,
        newest: 95,
    };

    fn memory() -> MemberState {
        let ballot = Ballot { epoch: 3, nonce: 7 };
        let mut record = Record::new(42, ballot, (1..=4).map(DiskId));
        record.owner = Some(MemberId(5));
        record.drop_disk(DiskId(2), MISSING_DATA);
        record.diverge(DiskId(3));
        record.lives.insert(MemberId(6), 88);
        MemberState {
            life: 88,
            ..MemberState::new(record)
        }
    }

    #[test]
    fn stored_state_round_trips() {
        for memory in [memory(), MemberState::again(9), MemberState::default()] {
            assert_eq!(decode_state(&encode_state(&memory)), Ok(memory));
        }
        for members in memberships() {
            let memory = naming(&members);
            assert_eq!(decode_state(&encode_state(&memory)), Ok(memory));
        }
    }

    fn memberships() -> [Membership; 5] {
        let [a, b, c] = [5, 6, 9].map(MemberId);
        let (heads, witness) = ([a, b], c);
        [
            Membership::OneHead(a),
            Membership::TwoHeads(heads),
            Membership::TwoHeadsAndWitness { heads, witness },
            Membership::WitnessLeaves { heads, witness },
            Membership::ThreeHeads([a, b, c]),
        ]
    }

    fn naming(members: &Membership) -> MemberState {
        let mut memory = memory();
        if let Some(record) = &mut memory.accepted {
            record.members = Some(members.clone());
        }
        memory
    }

    /// As written by the first release with members.
    #[test]
    fn stored_state_is_encoded_as_in_first_release() {
        let mut memories = vec![memory(), MemberState::again(9), MemberState::default()];
        memories.extend(memberships().iter().map(naming));
        let written = memories.iter().map(encode_state);
        let written: Vec<String> = written.map(|bytes| hex(&bytes)).collect();
        let before: Vec<&str> = include_str!("memories.hex").lines().collect();
        assert_eq!(written, before);
    }

    /// A record without members is encoded so that an earlier release can read it; one with members is refused there.
    #[test]
    fn members_are_last_and_need_another_version() {
        let before = encode_state(&memory());
        assert_eq!(before[8], 2);
        for (kind, members) in (1_u8..).zip(memberships()) {
            let bytes = encode_state(&naming(&members));
            assert_eq!(bytes[8], 3);
            let (same, new) = bytes.split_at(before.len());
            assert_eq!(same[20..], before[20..]);
            let mut expected = vec![kind];
            for member in members.members() {
                expected.extend(member.0.to_le_bytes());
            }
            assert_eq!(new, expected);
        }
    }

    #[test]
    fn invalid_members_are_refused() {
        let [none, a, b] = [0, 5, 6].map(MemberId);
        for members in [
            Membership::OneHead(none),
            Membership::TwoHeads([none, a]),
            Membership::TwoHeadsAndWitness {
                heads: [a, b],
                witness: none,
            },
            Membership::TwoHeads([b, a]),
            Membership::TwoHeads([a, a]),
            Membership::ThreeHeads([a, b, b]),
            Membership::TwoHeadsAndWitness {
                heads: [a, b],
                witness: b,
            },
        ] {
            let refused = decode_state(&encode_state(&naming(&members)));
            assert_eq!(refused, Err(DecodeError::Content), "{members:?}");
        }
    }

    /// It would be encoded differently.
    #[test]
    fn state_without_record_uses_version_without_members() {
        let mut bytes = encode_state(&MemberState::again(9));
        bytes[8] = 3;
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), &bytes[HEADER_BYTES..]);
        bytes[16..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(decode_state(&bytes), Err(DecodeError::Content));
    }

    /// The example bytes of `docs/formats/leg-record.md`.
    #[test]
    fn encoding_matches_documented_bytes() {
        let bytes = encode_state(&MemberState {
            promised: Ballot { epoch: 2, nonce: 9 },
            committed: Version {
                epoch: 1,
                sequence: 4,
            },
            life: 6,
            ..MemberState::default()
        });
        let mut expected = b"BULKLEGS\x02\0\0\0\x29\0\0\0".to_vec();
        let mut body = Vec::new();
        for number in [2_u64, 9, 1, 4, 6] {
            body.extend(number.to_le_bytes());
        }
        body.push(0);
        let sum = crc32c::crc32c_append(crc32c::crc32c(&expected), &body);
        expected.extend(sum.to_le_bytes());
        expected.extend(body);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn any_changed_bit_is_detected() {
        let [_, _, members, ..] = memberships();
        let bytes = encode_state(&naming(&members));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_state(&changed).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn truncated_or_extended_input_is_refused() {
        let [_, _, members, ..] = memberships();
        let bytes = encode_state(&naming(&members));
        for length in 0..bytes.len() {
            assert!(decode_state(&bytes[..length]).is_err(), "{length} bytes");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(decode_state(&longer), Err(DecodeError::Length));
        assert_eq!(
            decode_state(&vec![0; RECORD_BYTES_MAX + 1]),
            Err(DecodeError::Unrecognised)
        );
    }

    #[test]
    fn a_later_version_is_refused_before_its_checksum() {
        let mut bytes = encode_state(&memory());
        bytes[8] = 4;
        assert_eq!(decode_state(&bytes), Err(DecodeError::UnknownVersion(4)));
    }

    /// As written by an earlier release: promised, committed, and a record of disk 1 without an owner.
    #[test]
    fn stored_state_of_version_1_is_decoded() {
        let mut body = Vec::new();
        for number in [3_u64, 7, 3, 1] {
            body.extend(number.to_le_bytes());
        }
        body.push(1);
        for number in [42_u64, 3, 7, 1] {
            body.extend(number.to_le_bytes());
        }
        body.push(0);
        body.extend(0_u64.to_le_bytes());
        body.extend(1_u32.to_le_bytes());
        for number in [1_u64, 3, 7] {
            body.extend(number.to_le_bytes());
        }
        body.extend(1_u32.to_le_bytes());
        body.extend([0; 8]);
        let mut bytes = b"BULKLEGS\x01\0\0\0".to_vec();
        bytes.extend((body.len() as u32).to_le_bytes());
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes), &body);
        bytes.extend(sum.to_le_bytes());
        bytes.extend(body);
        let ballot = Ballot { epoch: 3, nonce: 7 };
        let expected = MemberState::new(Record::new(42, ballot, [DiskId(1)]));
        assert_eq!(decode_state(&bytes), Ok(expected));
    }

    /// Each list is within the limit, and all of them together are not.
    #[test]
    fn a_record_of_too_many_disks_is_refused() {
        let ballot = Ballot { epoch: 3, nonce: 7 };
        let disks = (0..DISKS_MAX as u64).map(DiskId);
        let bytes = encode_state(&MemberState::new(Record::new(42, ballot, disks)));
        assert!(decode_state(&bytes).is_ok());
        let mut body = bytes[HEADER_BYTES..].to_vec();
        // The counts of divergent disks and of life numbers come last.
        body.truncate(body.len() - 8);
        body.extend(1_u32.to_le_bytes());
        body.extend(5000_u64.to_le_bytes());
        body.extend(0_u32.to_le_bytes());
        let mut bytes = bytes[..12].to_vec();
        bytes.extend((body.len() as u32).to_le_bytes());
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes), &body);
        bytes.extend(sum.to_le_bytes());
        bytes.extend(body);
        assert_eq!(decode_state(&bytes), Err(DecodeError::Content));
    }

    #[test]
    fn the_longest_record_fits() {
        let ballot = Ballot { epoch: 3, nonce: 7 };
        let mut record = Record::new(42, ballot, (0..DISKS_MAX as u64).map(DiskId));
        for disk in 0..DISKS_MAX as u64 {
            record.drop_disk(DiskId(disk), MISSING_DATA);
        }
        record.lives = (1..=LIVES_MAX as u64)
            .map(|at| (MemberId(at), at))
            .collect();
        record.members = Some(Membership::ThreeHeads([5, 6, 7].map(MemberId)));
        let bytes = encode_state(&MemberState::new(record));
        assert!(bytes.len() <= RECORD_BYTES_MAX, "{}", bytes.len());
        assert!(decode_state(&bytes).is_ok());
    }
}
