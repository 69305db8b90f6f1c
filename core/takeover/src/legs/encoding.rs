//! What a member has on stable storage, in bytes. The format is written down in `docs/formats/leg-record.md`.

use super::lender::Kept;
use super::member::Memory;
use super::membership::Membership;
use super::record::{Ballot, DiskId, Marks, MemberId, Record, Session, Stale, Version};
use std::collections::{BTreeMap, BTreeSet};

const MAGIC: &[u8; 8] = b"BULKLEGS";
/// The latest one. All since the first are read. It is written for records that name their members, and the one before for others: that
/// is what earlier programs read.
const VERSION: u32 = 3;
/// Without members.
const VERSION_2: u32 = 2;
/// Without lives of members.
const VERSION_1: u32 = 1;
/// Magic, version, length, checksum.
const HEADER_BYTES: usize = 20;
/// Of a pool, in all places together.
const DISKS_MAX: usize = 1024;
/// Members that a record names.
const LIVES_MAX: usize = 16;
/// The members: their kind, and three numbers.
const MEMBERS_BYTES_MAX: usize = 25;
/// The longest memory: a header, the fixed members, and the longest entry for each disk and each member.
pub const RECORD_BYTES_MAX: usize =
    HEADER_BYTES + 140 + DISKS_MAX * 65 + LIVES_MAX * 16 + MEMBERS_BYTES_MAX;

/// Why bytes are no memory of a member. A member with such bytes does not answer: it may have promised anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Something else, or too short.
    #[error("no record of legs")]
    Unrecognised,
    /// Written by a later program.
    #[error("a record of legs of version {0}, which this program does not know")]
    UnknownVersion(u32),
    /// Longer than any record may be, or not as long as it says.
    #[error("a record of legs of the wrong length")]
    Length,
    /// Damaged.
    #[error("a record of legs with a wrong checksum")]
    Checksum,
    /// The checksum is right, and the content is not: written by a faulty program.
    #[error("a record of legs that contradicts itself")]
    Content,
}

/// The bytes of a memory.
///
/// # Panics
///
/// A record has more than 1,024 disks.
pub fn encode_memory(memory: &Memory) -> Vec<u8> {
    let mut body = Vec::new();
    put_ballot(&mut body, memory.promised);
    put(&mut body, memory.committed.epoch);
    put(&mut body, memory.committed.sequence);
    put(&mut body, memory.life);
    body.push(u8::from(memory.accepted.is_some()));
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
    let mut bytes = MAGIC.to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend((body.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes), &body);
    bytes.extend(sum.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// The memory that `bytes` are.
///
/// # Errors
///
/// They are none, or one of a later version, damaged, too long, or followed by anything.
pub fn decode_memory(bytes: &[u8]) -> Result<Memory, DecodeError> {
    if bytes.len() < HEADER_BYTES || &bytes[..8] != MAGIC {
        return Err(DecodeError::Unrecognised);
    }
    let number = |at: usize| {
        let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        u32::from_le_bytes(four)
    };
    let version = number(8);
    if !(VERSION_1..=VERSION).contains(&version) {
        return Err(DecodeError::UnknownVersion(version));
    }
    let body = &bytes[HEADER_BYTES..];
    if bytes.len() > RECORD_BYTES_MAX || body.len() != number(12) as usize {
        return Err(DecodeError::Length);
    }
    if crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), body) != number(16) {
        return Err(DecodeError::Checksum);
    }
    let mut reader = Reader { rest: body };
    let memory = reader.memory(version).ok_or(DecodeError::Content)?;
    match reader.rest.is_empty() {
        true => Ok(memory),
        false => Err(DecodeError::Content),
    }
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

fn put_ballot(out: &mut Vec<u8>, ballot: Ballot) {
    put(out, ballot.epoch);
    put(out, ballot.nonce);
}

fn put_session(out: &mut Vec<u8>, session: Session) {
    put_ballot(out, session.ballot);
    out.extend(session.number.to_le_bytes());
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend((count as u32).to_le_bytes());
}

fn put_record(out: &mut Vec<u8>, record: &Record) {
    let disks = record.current.len() + record.stale.len() + record.divergent.len();
    assert!(disks <= DISKS_MAX, "{disks} disks in one pool");
    put(out, record.pool);
    put_ballot(out, record.ballot);
    put(out, record.sequence);
    out.push(u8::from(record.owner.is_some()));
    put(out, record.owner.map_or(0, |owner| owner.0));
    put_count(out, record.current.len());
    for (disk, mark) in &record.current {
        put(out, disk.0);
        put_session(out, *mark);
    }
    put_count(out, record.stale.len());
    for (disk, stale) in &record.stale {
        put(out, disk.0);
        put(out, stale.since);
        put_session(out, stale.marks.confirmed);
        put_session(out, stale.marks.possible);
        put(out, stale.newest);
        out.push(u8::from(stale.is_written));
    }
    put_count(out, record.divergent.len());
    for disk in &record.divergent {
        put(out, disk.0);
    }
    assert!(record.lives.len() <= LIVES_MAX, "too many members");
    put_count(out, record.lives.len());
    for (member, life) in &record.lives {
        put(out, member.0);
        put(out, *life);
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

fn put_members(out: &mut Vec<u8>, membership: &Membership) {
    out.push(match membership {
        Membership::OneHead(_) => kind::ONE_HEAD,
        Membership::TwoHeads(_) => kind::TWO_HEADS,
        Membership::TwoHeadsAndWitness { .. } => kind::TWO_HEADS_AND_WITNESS,
        Membership::WitnessLeaves { .. } => kind::WITNESS_LEAVES,
        Membership::ThreeHeads(_) => kind::THREE_HEADS,
    });
    for member in membership.members() {
        put(out, member.0);
    }
}

const STAMP_MAGIC: &[u8; 8] = b"BULKSTMP";
const STAMP_VERSION: u32 = 1;
/// Length of what a lender keeps of a disk.
pub const STAMP_BYTES: usize = 68;
/// Magic, version.
const STAMP_HEADER_BYTES: usize = 12;

/// What a lender keeps of a disk. `sequence`: grows with each writing, so that the newer one of two copies is known.
pub fn encode_kept(disk: DiskId, sequence: u64, kept: &Kept) -> [u8; STAMP_BYTES] {
    let mut body = Vec::new();
    put(&mut body, disk.0);
    put(&mut body, sequence);
    put_ballot(&mut body, kept.enforced);
    put_session(&mut body, kept.mark);
    let mut bytes = STAMP_MAGIC.to_vec();
    bytes.extend(STAMP_VERSION.to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes), &body);
    bytes.extend(sum.to_le_bytes());
    bytes.extend(body);
    bytes.try_into().expect("as long as its members")
}

/// What a lender keeps of `disk`, with its sequence, from the beginning of a block. `None`: there is none, it is damaged, or it is of
/// another disk.
pub fn decode_kept(block: &[u8], disk: DiskId) -> Option<(u64, Kept)> {
    let bytes = block.get(..STAMP_BYTES)?;
    let (header, rest) = bytes.split_at(STAMP_HEADER_BYTES);
    let mut reader = Reader { rest };
    let sum = u32::from_le_bytes(reader.take()?);
    let is_whole = crc32c::crc32c_append(crc32c::crc32c(header), reader.rest) == sum;
    if !is_whole || &header[..8] != STAMP_MAGIC || header[8..] != STAMP_VERSION.to_le_bytes() {
        return None;
    }
    let is_of_it = reader.disk()? == disk;
    let sequence = reader.number()?;
    let kept = Kept {
        enforced: reader.ballot()?,
        mark: reader.session()?,
    };
    is_of_it.then_some((sequence, kept))
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.take()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn count(&mut self) -> Option<usize> {
        let count = u32::from_le_bytes(self.take()?) as usize;
        (count <= DISKS_MAX).then_some(count)
    }

    fn ballot(&mut self) -> Option<Ballot> {
        Some(Ballot {
            epoch: self.number()?,
            nonce: self.number()?,
        })
    }

    fn session(&mut self) -> Option<Session> {
        Some(Session {
            ballot: self.ballot()?,
            number: u32::from_le_bytes(self.take()?),
        })
    }

    fn memory(&mut self, version: u32) -> Option<Memory> {
        let promised = self.ballot()?;
        let committed = Version {
            epoch: self.number()?,
            sequence: self.number()?,
        };
        let life = match version {
            VERSION_1 => 0,
            _ => self.number()?,
        };
        let accepted = match self.flag()? {
            true => Some(self.record(version)?),
            // There are no members to name, so it would be of the version before.
            false if version == VERSION => return None,
            false => None,
        };
        Some(Memory {
            promised,
            before: Ballot::default(),
            accepted,
            committed,
            life,
        })
    }

    fn record(&mut self, version: u32) -> Option<Record> {
        let pool = self.number()?;
        let ballot = self.ballot()?;
        let sequence = self.number()?;
        let owner = match (self.flag()?, self.number()?) {
            (true, owner) => Some(MemberId(owner)),
            (false, 0) => None,
            (false, _) => return None,
        };
        let current = self.sorted(|reader| Some((reader.disk()?, reader.session()?)))?;
        let stale = self.sorted(|reader| Some((reader.disk()?, reader.stale()?)))?;
        let divergent = self.sorted(|reader| Some((reader.disk()?, ())))?;
        let (current, stale): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (current.into_iter().collect(), stale.into_iter().collect());
        let divergent: BTreeSet<DiskId> = divergent.into_iter().map(|(disk, ())| disk).collect();
        let mut twice = stale.keys().chain(&divergent);
        let is_twice = |disk: &DiskId| {
            current.contains_key(disk) || (stale.contains_key(disk) && divergent.contains(disk))
        };
        let is_one_too_many = current.len() + stale.len() + divergent.len() > DISKS_MAX;
        if twice.any(is_twice) || is_one_too_many {
            return None;
        }
        let lives = match version {
            VERSION_1 => BTreeMap::new(),
            _ => self.lives()?,
        };
        let members = match version {
            VERSION => Some(self.membership()?),
            _ => None,
        };
        Some(Record {
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

    fn membership(&mut self) -> Option<Membership> {
        let [kind] = self.take()?;
        let mut member = || self.number().map(MemberId);
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
            _ => return None,
        };
        let heads = membership.heads();
        let is_sorted = heads.windows(2).all(|two| two[0] < two[1]);
        let is_head = |witness| heads.contains(&witness);
        let is_twice = membership.witness().is_some_and(is_head);
        let is_unnumbered = membership.members().contains(&MemberId(0));
        (is_sorted && !is_twice && !is_unnumbered).then_some(membership)
    }

    fn lives(&mut self) -> Option<BTreeMap<MemberId, u64>> {
        let count = self.count()?;
        let entry = |reader: &mut Self| Some((MemberId(reader.number()?), reader.number()?));
        let entries: Vec<_> = (0..count).map_while(|_| entry(self)).collect();
        let is_sorted = entries.windows(2).all(|two| two[0].0 < two[1].0);
        let is_right = entries.len() == count && count <= LIVES_MAX && is_sorted;
        let is_right = is_right && entries.iter().all(|(_, life)| *life != 0);
        is_right.then(|| entries.into_iter().collect())
    }

    fn disk(&mut self) -> Option<DiskId> {
        self.number().map(DiskId)
    }

    fn stale(&mut self) -> Option<Stale> {
        Some(Stale {
            since: self.number()?,
            marks: Marks {
                confirmed: self.session()?,
                possible: self.session()?,
            },
            newest: self.number()?,
            is_written: self.flag()?,
        })
    }

    /// A count and as many entries, in strictly ascending order of their disks.
    fn sorted<T>(
        &mut self,
        entry: impl Fn(&mut Self) -> Option<(DiskId, T)>,
    ) -> Option<Vec<(DiskId, T)>> {
        let count = self.count()?;
        let entries: Vec<_> = (0..count).map_while(|_| entry(self)).collect();
        let is_sorted = entries.windows(2).all(|two| two[0].0 < two[1].0);
        (entries.len() == count && is_sorted).then_some(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::legs::record::Lack;

    const LACK: Lack = Lack {
        since: 90,
        newest: 95,
    };

    fn memory() -> Memory {
        let ballot = Ballot { epoch: 3, nonce: 7 };
        let mut record = Record::new(42, ballot, (1..=4).map(DiskId));
        record.owner = Some(MemberId(5));
        record.drop_disk(DiskId(2), LACK);
        record.diverge(DiskId(3));
        record.lives.insert(MemberId(6), 88);
        Memory {
            life: 88,
            ..Memory::new(record)
        }
    }

    #[test]
    fn a_memory_comes_back() {
        for memory in [memory(), Memory::again(9), Memory::default()] {
            assert_eq!(decode_memory(&encode_memory(&memory)), Ok(memory));
        }
        for members in memberships() {
            let memory = naming(&members);
            assert_eq!(decode_memory(&encode_memory(&memory)), Ok(memory));
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

    fn naming(members: &Membership) -> Memory {
        let mut memory = memory();
        if let Some(record) = &mut memory.accepted {
            record.members = Some(members.clone());
        }
        memory
    }

    /// What names no members is as an earlier release writes and reads it; the other way round it refuses.
    #[test]
    fn members_are_at_the_end_and_of_another_version() {
        let before = encode_memory(&memory());
        assert_eq!(before[8], 2);
        for (kind, members) in (1_u8..).zip(memberships()) {
            let bytes = encode_memory(&naming(&members));
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
    fn members_that_cannot_be_are_refused() {
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
            let refused = decode_memory(&encode_memory(&naming(&members)));
            assert_eq!(refused, Err(DecodeError::Content), "{members:?}");
        }
    }

    /// It would be written anew as other bytes.
    #[test]
    fn a_memory_without_a_record_is_not_of_the_version_with_members() {
        let mut bytes = encode_memory(&Memory::again(9));
        bytes[8] = 3;
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), &bytes[HEADER_BYTES..]);
        bytes[16..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(decode_memory(&bytes), Err(DecodeError::Content));
    }

    /// The bytes of `docs/formats/leg-record.md`, as they were written down.
    #[test]
    fn the_bytes_are_those_of_the_format() {
        let bytes = encode_memory(&Memory {
            promised: Ballot { epoch: 2, nonce: 9 },
            committed: Version {
                epoch: 1,
                sequence: 4,
            },
            life: 6,
            ..Memory::default()
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
    fn a_stamp_comes_back_and_every_changed_bit_is_noticed() {
        let ballot = Ballot { epoch: 3, nonce: 7 };
        let kept = Kept {
            enforced: ballot,
            mark: Session { ballot, number: 2 },
        };
        let bytes = encode_kept(DiskId(9), 4, &kept);
        assert_eq!(bytes[..12], *b"BULKSTMP\x01\0\0\0");
        assert_eq!(bytes[16..24], 9_u64.to_le_bytes());
        assert_eq!(bytes[64..], 2_u32.to_le_bytes());
        let mut block = bytes.to_vec();
        block.resize(4096, 0);
        assert_eq!(decode_kept(&block, DiskId(9)), Some((4, kept)));
        assert_eq!(decode_kept(&block, DiskId(8)), None);
        assert_eq!(decode_kept(&[0; 4096], DiskId(0)), None);
        assert_eq!(decode_kept(&bytes[1..], DiskId(9)), None);
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_kept(&changed, DiskId(9)), None, "bit {bit}");
        }
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let [_, _, members, ..] = memberships();
        let bytes = encode_memory(&naming(&members));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_memory(&changed).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_cut_and_every_tail_is_refused() {
        let [_, _, members, ..] = memberships();
        let bytes = encode_memory(&naming(&members));
        for length in 0..bytes.len() {
            assert!(decode_memory(&bytes[..length]).is_err(), "{length} bytes");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(decode_memory(&longer), Err(DecodeError::Length));
        assert_eq!(
            decode_memory(&vec![0; RECORD_BYTES_MAX + 1]),
            Err(DecodeError::Unrecognised)
        );
    }

    #[test]
    fn a_later_version_is_refused_before_its_checksum() {
        let mut bytes = encode_memory(&memory());
        bytes[8] = 4;
        assert_eq!(decode_memory(&bytes), Err(DecodeError::UnknownVersion(4)));
    }

    /// As a release before wrote it: promised, committed, and a record of disk 1 without an owner.
    #[test]
    fn a_memory_of_version_1_is_read() {
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
        let expected = Memory::new(Record::new(42, ballot, [DiskId(1)]));
        assert_eq!(decode_memory(&bytes), Ok(expected));
    }

    /// Each list is short enough, and all of them together are not.
    #[test]
    fn a_record_of_too_many_disks_is_refused() {
        let ballot = Ballot { epoch: 3, nonce: 7 };
        let disks = (0..DISKS_MAX as u64).map(DiskId);
        let bytes = encode_memory(&Memory::new(Record::new(42, ballot, disks)));
        assert!(decode_memory(&bytes).is_ok());
        let mut body = bytes[HEADER_BYTES..].to_vec();
        // It ends with the counts of divergent disks and of lives.
        body.truncate(body.len() - 8);
        body.extend(1_u32.to_le_bytes());
        body.extend(5000_u64.to_le_bytes());
        body.extend(0_u32.to_le_bytes());
        let mut bytes = bytes[..12].to_vec();
        bytes.extend((body.len() as u32).to_le_bytes());
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes), &body);
        bytes.extend(sum.to_le_bytes());
        bytes.extend(body);
        assert_eq!(decode_memory(&bytes), Err(DecodeError::Content));
    }

    #[test]
    fn the_longest_record_fits() {
        let ballot = Ballot { epoch: 3, nonce: 7 };
        let mut record = Record::new(42, ballot, (0..DISKS_MAX as u64).map(DiskId));
        for disk in 0..DISKS_MAX as u64 {
            record.drop_disk(DiskId(disk), LACK);
        }
        record.lives = (1..=LIVES_MAX as u64)
            .map(|at| (MemberId(at), at))
            .collect();
        record.members = Some(Membership::ThreeHeads([5, 6, 7].map(MemberId)));
        let bytes = encode_memory(&Memory::new(record));
        assert!(bytes.len() <= RECORD_BYTES_MAX, "{}", bytes.len());
        assert!(decode_memory(&bytes).is_ok());
    }
}
