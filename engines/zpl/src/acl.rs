//! Access control lists as they are stored: NFSv4 entries (`sys/zfs_acl.h`). A list that says the same as the mode is
//! *trivial*. This crate stores no others, and judges by those that it finds.

use file_system::{Attributes, Identity, Kind, Permissions};

const READ: u32 = 0x1;
const WRITE: u32 = 0x2;
const APPEND: u32 = 0x4;
const READ_NAMED: u32 = 0x8;
const WRITE_NAMED: u32 = 0x10;
const EXECUTE: u32 = 0x20;
const DELETE_CHILD: u32 = 0x40;
const READ_ATTRIBUTES: u32 = 0x80;
const WRITE_ATTRIBUTES: u32 = 0x100;
const READ_ACL: u32 = 0x2_0000;
const WRITE_ACL: u32 = 0x4_0000;
const WRITE_OWNER: u32 = 0x8_0000;
const SYNCHRONIZE: u32 = 0x10_0000;

/// What everybody may, whatever the mode.
const ALWAYS: u32 = READ_NAMED | READ_ATTRIBUTES | READ_ACL | SYNCHRONIZE;
/// And what the owner may besides.
const OF_OWNER: u32 = WRITE_NAMED | WRITE_ATTRIBUTES | WRITE_ACL | WRITE_OWNER;

const ALLOW: u16 = 0;
const DENY: u16 = 1;
/// Types of entries that carry two GUIDs more.
const WITH_GUIDS: std::ops::RangeInclusive<u16> = 5..=8;

const INHERIT_ONLY: u16 = 0x8;
const IDENTIFIER_GROUP: u16 = 0x40;
const OWNER: u16 = 0x1000;
const GROUP: u16 = 0x2000;
const EVERYONE: u16 = 0x4000;
/// Whom an entry is for; without these it names a user or a group.
const SPECIAL: u16 = OWNER | GROUP | EVERYONE;

/// Bytes of an entry for the owner, the group or everyone.
const ENTRY_BYTES: usize = 8;
/// And of one that names somebody.
const NAMED_BYTES: usize = 16;
/// And of one with GUIDs.
const GUIDS_BYTES: usize = 48;

/// The trivial list of a mode, as it is stored on this machine.
pub fn trivial(mode: u32, kind: Kind) -> Vec<u8> {
    let write = match kind {
        Kind::Directory => WRITE | APPEND | DELETE_CHILD,
        _ => WRITE | APPEND,
    };
    let mask = |bits: u32| {
        let parts = [(4, READ), (2, write), (1, EXECUTE)];
        let set = parts.iter().filter(|(bit, _)| bits & bit != 0);
        set.fold(0, |mask, (_, part)| mask | part)
    };
    let (user, group, other) = (mode >> 6 & 7, mode >> 3 & 7, mode & 7);
    // A member of a class has its rights only, even where those that come later allow more.
    let owner_lacks = !user & (group | other);
    let group_lacks = !group & other;
    // The owner may be in the group.
    let owner_first = user & group_lacks;
    let lists = [
        (ALLOW, OWNER, mask(owner_first), 0),
        (DENY, OWNER, mask(owner_lacks), 0),
        (DENY, GROUP | IDENTIFIER_GROUP, mask(group_lacks), 0),
        (ALLOW, OWNER, mask(user), ALWAYS | OF_OWNER),
        (ALLOW, GROUP | IDENTIFIER_GROUP, mask(group), ALWAYS),
        (ALLOW, EVERYONE, mask(other), ALWAYS),
    ];
    let present = lists
        .iter()
        .filter(|(_, _, mask, always)| mask | always != 0);
    present
        .flat_map(|(kind, whom, mask, always)| entry(*kind, *whom, mask | always))
        .collect()
}

fn entry(kind: u16, whom: u16, mask: u32) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..2].copy_from_slice(&kind.to_ne_bytes());
    bytes[2..4].copy_from_slice(&whom.to_ne_bytes());
    bytes[4..].copy_from_slice(&mask.to_ne_bytes());
    bytes
}

/// What a list allows `who` with an object. What it does not mention is denied, and so is everything behind bytes that
/// are no entry.
pub fn permitted(list: &[u8], attributes: &Attributes, who: &Identity) -> Permissions {
    let (mut allowed, mut decided) = (0, 0);
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
        if !applies || flags & INHERIT_ONLY != 0 {
            continue;
        }
        match kind {
            ALLOW => allowed |= mask & !decided,
            DENY => {}
            _ => continue,
        }
        decided |= mask;
    }
    let may = |mask: u32| allowed & mask == mask;
    Permissions {
        read: may(READ),
        write: may(WRITE | APPEND),
        execute: may(EXECUTE),
    }
}

/// The next entry: type, flags, mask, and whom it names.
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

    /// Every mode, and everybody's place in it: the list says what the mode says.
    #[test]
    fn a_trivial_list_allows_what_its_mode_allows() {
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
    fn the_list_of_a_plain_mode_is_what_zfs_stores() {
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
    fn an_entry_for_a_user_comes_before_what_the_mode_says() {
        let attributes = attributes(0o777, Kind::File);
        let mut list = entry(DENY, 0, READ).to_vec();
        list.extend(11_u64.to_ne_bytes());
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
}
