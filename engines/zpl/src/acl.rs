//! Access control lists in their on-disk format: NFSv4 entries (`sys/zfs_acl.h`). A list that is equivalent to the mode
//! is *trivial*.

use file_system::acl::{Entry, Who, flag, of_mode, right};
use file_system::{Attributes, Identity, Kind, Permissions};

const ALLOW: u16 = 0;
const DENY: u16 = 1;
/// Types of entries that carry two GUIDs more.
const WITH_GUIDS: std::ops::RangeInclusive<u16> = 5..=8;

const IDENTIFIER_GROUP: u16 = 0x40;
const OWNER: u16 = 0x1000;
const GROUP: u16 = 0x2000;
const EVERYONE: u16 = 0x4000;
/// The subject of an entry; without these it names a user or a group.
const SPECIAL: u16 = OWNER | GROUP | EVERYONE;
const NOBODY: u32 = 65_534;

/// Bytes of an entry for the owner, the group or everyone.
const ENTRY_BYTES: usize = 8;
/// The size of an entry that names a user or group.
const NAMED_BYTES: usize = 16;
/// And of one with GUIDs.
const GUIDS_BYTES: usize = 48;
/// Bytes of an entry in a record of the log (`ace_t`).
pub const LOGGED_BYTES: usize = 12;

/// The trivial list of a mode, in its on-disk format on this host.
pub fn trivial(mode: u32, kind: Kind) -> Vec<u8> {
    encode(&of_mode(mode, kind).list())
}

/// Type and flags of an entry, and its subject.
fn words_of(entry: &Entry) -> (u16, u16, Option<u32>) {
    let (whom, id) = match entry.who {
        Who::Owner => (OWNER, None),
        Who::Group => (GROUP | IDENTIFIER_GROUP, None),
        Who::Everyone => (EVERYONE, None),
        Who::User(uid) => (0, Some(uid)),
        Who::Members(gid) => (IDENTIFIER_GROUP, Some(gid)),
    };
    let kind = if entry.allows { ALLOW } else { DENY };
    (kind, entry.flags as u16 | whom, id)
}

/// The same as an entry; `None` for types that neither allow nor deny.
fn entry_of(kind: u16, flags: u16, mask: u32, id: u32) -> Option<Entry> {
    if kind > DENY {
        return None;
    }
    Some(Entry {
        allows: kind == ALLOW,
        flags: u32::from(flags) & flag::ALL,
        mask: mask & right::ALL,
        who: match flags & SPECIAL {
            OWNER => Who::Owner,
            GROUP => Who::Group,
            EVERYONE => Who::Everyone,
            0 if flags & IDENTIFIER_GROUP != 0 => Who::Members(id),
            0 => Who::User(id),
            _ => return None,
        },
    })
}

/// A list as it is stored.
pub fn encode(list: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in list {
        let (kind, flags, id) = words_of(entry);
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(entry.mask.to_ne_bytes());
        bytes.extend(id.into_iter().flat_map(|id| u64::from(id).to_ne_bytes()));
    }
    bytes
}

/// Decodes the allow and deny entries of a stored list. Users that only an identity mapper can resolve become the user
/// 65534. Returns `None` if it is damaged.
pub fn decode(list: &[u8]) -> Option<Vec<Entry>> {
    let (mut entries, mut rest) = (Vec::new(), list);
    while !rest.is_empty() {
        let (kind, flags, mask, named) = next(&mut rest)?;
        let id = u32::try_from(named.unwrap_or(0)).unwrap_or(NOBODY);
        entries.extend(entry_of(kind, flags, mask, id));
    }
    Some(entries)
}

/// How many entries a list has.
pub fn count(mut list: &[u8]) -> u64 {
    std::iter::from_fn(|| next(&mut list)).count() as u64
}

/// A list as a record of the log has it.
pub fn encode_logged(list: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(list.len() * LOGGED_BYTES);
    for entry in list {
        let (kind, flags, id) = words_of(entry);
        bytes.extend(id.unwrap_or(u32::MAX).to_ne_bytes());
        bytes.extend(entry.mask.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
    }
    bytes
}

/// The reverse. Returns `None` if it has entries that no list written here has.
pub fn decode_logged(bytes: &[u8]) -> Option<Vec<Entry>> {
    let entries = bytes.chunks(LOGGED_BYTES).map(|entry| {
        let entry: &[u8; LOGGED_BYTES] = entry.try_into().ok()?;
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| entry[at + byte]));
        let half = |at: usize| u16::from_ne_bytes([entry[at], entry[at + 1]]);
        entry_of(half(10), half(8), word(4), word(0))
    });
    entries.collect()
}

/// The rights that a list assigns to a requester. For each right, the first entry that mentions it decides; a right
/// that is not mentioned is in neither set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The allowed rights: bits of [`right`].
    pub allowed: u32,
    /// The denied rights.
    pub denied: u32,
}

impl Rights {
    /// Whether all of `mask` is allowed.
    pub const fn may(self, mask: u32) -> bool {
        self.allowed & mask == mask
    }

    /// Whether any right of `mask` is denied.
    pub const fn refuses(self, mask: u32) -> bool {
        self.denied & mask != 0
    }

    /// The resulting permissions for an object of any kind. Removing names requires the delete-child right or the
    /// add-file right, unless one of these is denied. Extended attributes require the right to the contents, unless
    /// their own right is denied.
    pub const fn permissions(self) -> Permissions {
        const REMOVES: u32 = right::DELETE_CHILD | right::WRITE;
        Permissions {
            read: self.may(right::READ),
            write: self.may(right::WRITE),
            append: self.may(right::APPEND),
            execute: self.may(right::EXECUTE),
            remove: self.allowed & REMOVES != 0 && !self.refuses(REMOVES),
            read_extended: self.may(right::READ) && !self.refuses(right::READ_NAMED),
            write_extended: self.may(right::WRITE) && !self.refuses(right::WRITE_NAMED),
        }
    }
}

/// The rights that a list grants `who` on an object. A right that it does not mention is not granted, nor is one from
/// bytes after an invalid entry.
pub fn permitted(list: &[u8], attributes: &Attributes, who: &Identity) -> Permissions {
    rights(list, attributes, who).permissions()
}

/// The rights that a list assigns to `who`.
pub fn rights(list: &[u8], attributes: &Attributes, who: &Identity) -> Rights {
    let mut rights = Rights::default();
    let mut rest = list;
    while let Some((kind, flags, mask, named)) = next(&mut rest) {
        let applies = match flags & SPECIAL {
            OWNER => who.uid == attributes.uid,
            GROUP => who.is_in(attributes.gid),
            EVERYONE => true,
            0 => named.is_some_and(|id| match flags & IDENTIFIER_GROUP {
                0 => u64::from(who.uid) == id,
                _ => u32::try_from(id).is_ok_and(|gid| who.is_in(gid)),
            }),
            _ => false,
        };
        // An entry of a file applies to the file even if its flags say inherit-only.
        let is_passed_on_only =
            attributes.kind == Kind::Directory && u32::from(flags) & flag::ONLY != 0;
        if !applies || is_passed_on_only {
            continue;
        }
        let new = mask & !(rights.allowed | rights.denied);
        match kind {
            ALLOW => rights.allowed |= new,
            DENY => rights.denied |= new,
            _ => {}
        }
    }
    rights
}

/// The next entry: type, flags, mask, and subject.
fn next(rest: &mut &[u8]) -> Option<(u16, u16, u32, Option<u64>)> {
    let (head, behind) = rest.split_first_chunk::<ENTRY_BYTES>()?;
    let kind = u16::from_ne_bytes([head[0], head[1]]);
    let flags = u16::from_ne_bytes([head[2], head[3]]);
    let mask = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]);
    let length = match flags & SPECIAL {
        0 if WITH_GUIDS.contains(&kind) => GUIDS_BYTES,
        0 => NAMED_BYTES,
        _ => ENTRY_BYTES,
    };
    let named = behind.first_chunk::<8>().map(|id| u64::from_ne_bytes(*id));
    *rest = rest.get(length..)?;
    Some((kind, flags, mask, named.filter(|_| length != ENTRY_BYTES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use file_system::rights;

    fn attributes(mode: u32, kind: Kind) -> Attributes {
        Attributes {
            kind,
            mode,
            links: 1,
            uid: 10,
            gid: 20,
            size: 0,
            space: 0,
            device: (0, 0),
            change: 0,
            accessed: file_system::Time::default(),
            modified: file_system::Time::default(),
            changed: file_system::Time::default(),
            created: file_system::Time::default(),
        }
    }

    /// For every mode and every class of requester, the list is equivalent to the mode.
    #[test]
    fn trivial_acl_allows_exactly_its_mode() {
        let identity = |uid, gid| Identity {
            uid,
            gid,
            groups: Vec::new(),
        };
        let everybody = [
            identity(10, 20),
            identity(10, 99),
            identity(11, 20),
            identity(11, 99),
        ];
        for mode in 0..0o1000 {
            for kind in [Kind::File, Kind::Directory] {
                let attributes = attributes(mode, kind);
                let list = trivial(mode, kind);
                for who in &everybody {
                    let expected = rights::permitted(&attributes, who);
                    let found = permitted(&list, &attributes, who);
                    assert_eq!(found, expected, "{mode:o} {kind:?} {who:?}");
                }
            }
        }
    }

    #[test]
    fn acl_of_a_plain_mode_equals_the_bytes_of_zfs() {
        let list = trivial(0o755, Kind::Directory);
        let words: Vec<u64> = list
            .chunks_exact(8)
            .map(|entry| u64::from_ne_bytes(entry.try_into().expect("eight")))
            .collect();
        let entry = |flags: u64, mask: u64| mask << 32 | flags << 16;
        assert_eq!(
            words,
            [
                entry(0x1000, 0x1e_01ff),
                entry(0x2040, 0x12_00a9),
                entry(0x4000, 0x12_00a9)
            ]
        );
    }

    #[test]
    fn user_entry_precedes_the_mode() {
        let attributes = attributes(0o777, Kind::File);
        let mut list = encode(&[Entry {
            allows: false,
            flags: 0,
            mask: right::READ,
            who: Who::User(11),
        }]);
        assert_eq!(list.len(), NAMED_BYTES);
        list.extend(trivial(0o777, Kind::File));
        let who = |uid| Identity {
            uid,
            gid: 99,
            groups: Vec::new(),
        };
        assert!(!permitted(&list, &attributes, &who(11)).read);
        assert!(permitted(&list, &attributes, &who(11)).write);
        assert!(permitted(&list, &attributes, &who(12)).read);
        let cut = &list[..20];
        assert!(!permitted(cut, &attributes, &who(12)).read);
    }

    #[test]
    fn inherit_only_entry_is_ignored_by_directory_and_obeyed_by_file() {
        let who = Identity {
            uid: 11,
            gid: 99,
            groups: Vec::new(),
        };
        for (kind, reads) in [(Kind::Directory, true), (Kind::File, false)] {
            let mut list = encode(&[Entry {
                allows: false,
                flags: flag::FILE | flag::ONLY,
                mask: right::READ,
                who: Who::User(11),
            }]);
            list.extend(trivial(0o777, kind));
            let attributes = attributes(0o777, kind);
            assert_eq!(permitted(&list, &attributes, &who).read, reads, "{kind:?}");
        }
    }

    #[test]
    fn acl_survives_storage_and_the_intent_log() {
        let all = [
            (true, Who::Owner),
            (false, Who::Group),
            (true, Who::Everyone),
            (false, Who::User(70_000)),
            (true, Who::Members(0)),
        ];
        let entries: Vec<Entry> = all
            .into_iter()
            .zip([0, 1, 3, 0x8b, 0x87])
            .map(|((allows, who), flags)| Entry {
                allows,
                flags,
                mask: right::ALL,
                who,
            })
            .collect();
        let stored = encode(&entries);
        assert_eq!(stored.len(), 3 * ENTRY_BYTES + 2 * NAMED_BYTES);
        assert_eq!(
            (decode(&stored), count(&stored)),
            (Some(entries.clone()), 5)
        );
        assert_eq!(decode(&stored[..stored.len() - 1]), None);
        let logged = encode_logged(&entries);
        assert_eq!(decode_logged(&logged), Some(entries));
        assert_eq!(decode_logged(&logged[1..]), None);
        // An entry for the owner, in the layout of `ace_t`: id, mask, flags, type.
        let words = [0xff, 0xff, 0xff, 0xff, 0xff, 1, 0x1f, 0, 0, 0x10, 0, 0];
        assert!(cfg!(target_endian = "big") || logged[..LOGGED_BYTES] == words);
        // One that audits.
        assert_eq!(
            decode_logged(&[0, 0, 0, 0, 1, 0, 0, 0, 0, 0x10, 2, 0]),
            None
        );
        assert_eq!(decode(&[2, 0, 0, 0x10, 1, 0, 0, 0]), Some(Vec::new()));
    }
}
