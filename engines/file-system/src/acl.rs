//! Access control lists as NFS 4 has them (RFC 8881, 6.2): entries that allow or deny; the first entry that mentions a
//! right decides.

use crate::Kind;

/// Entries of a settable list.
pub const ENTRIES_MAX: usize = 1024;

/// Bits of an access mask: the rights that an entry allows or denies.
#[allow(missing_docs)]
pub mod right {
    pub const READ: u32 = 0x1;
    pub const WRITE: u32 = 0x2;
    pub const APPEND: u32 = 0x4;
    pub const READ_NAMED: u32 = 0x8;
    pub const WRITE_NAMED: u32 = 0x10;
    pub const EXECUTE: u32 = 0x20;
    pub const DELETE_CHILD: u32 = 0x40;
    pub const READ_ATTRIBUTES: u32 = 0x80;
    pub const WRITE_ATTRIBUTES: u32 = 0x100;
    pub const DELETE: u32 = 0x1_0000;
    pub const READ_ACL: u32 = 0x2_0000;
    pub const WRITE_ACL: u32 = 0x4_0000;
    pub const WRITE_OWNER: u32 = 0x8_0000;
    pub const SYNCHRONIZE: u32 = 0x10_0000;
    /// All bits.
    pub const ALL: u32 = 0x1f_01ff;
}

/// Flags of an entry: how new objects in a directory inherit it.
pub mod flag {
    /// To files.
    pub const FILE: u32 = 0x1;
    /// To directories.
    pub const DIRECTORY: u32 = 0x2;
    /// Inherited by direct children only.
    pub const ONCE: u32 = 0x4;
    /// Does not apply to the directory itself.
    pub const ONLY: u32 = 0x8;
    /// It was inherited from a directory.
    pub const INHERITED: u32 = 0x80;
    /// All bits.
    pub const ALL: u32 = 0x8f;
}

/// The rights that every user has, whatever the mode.
pub const ALWAYS: u32 =
    right::READ_NAMED | right::READ_ATTRIBUTES | right::READ_ACL | right::SYNCHRONIZE;
/// The additional rights of the owner.
const OF_OWNER: u32 =
    right::WRITE_NAMED | right::WRITE_ATTRIBUTES | right::WRITE_ACL | right::WRITE_OWNER;

/// The subject of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The owner.
    Owner,
    /// Members of the group.
    Group,
    /// Everyone.
    Everyone,
    /// A user.
    User(u32),
    /// Members of a group.
    Members(u32),
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whether it allows or denies.
    pub allows: bool,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Bits of [`right`].
    pub mask: u32,
    /// Whom.
    pub who: Who,
}

impl Entry {
    /// Whether new objects in a directory inherit it.
    pub const fn is_passed_on(&self) -> bool {
        self.flags & (flag::FILE | flag::DIRECTORY) != 0
    }

    /// Whether it applies to the object itself.
    pub const fn is_effective(&self) -> bool {
        self.flags & flag::ONLY == 0
    }

    /// Whether the flags are consistent: inheritance modifiers require an inheritance flag.
    pub const fn is_sensible(&self) -> bool {
        self.flags & (flag::ONLY | flag::ONCE) == 0 || self.is_passed_on()
    }
}

/// Whether an object of a kind can have such a list. A list without an entry is refused by the kernel: its log replay
/// stops at it.
pub fn is_possible(list: &[Entry], kind: Kind) -> bool {
    let has_room = (1..=ENTRIES_MAX).contains(&list.len());
    kind != Kind::Link && has_room && list.iter().all(Entry::is_sensible)
}

/// The ACL of a mode: the entries in front of all other entries, and the entries after them.
pub struct OfMode {
    /// Deny entries, so that no class obtains rights that the mode grants only to a later class.
    pub first: Vec<Entry>,
    /// The rights of owner, group and everyone.
    pub last: [Entry; 3],
}

/// The ACL that is equivalent to a mode.
pub fn of_mode(mode: u32, kind: Kind) -> OfMode {
    let write = match kind {
        Kind::Directory => right::WRITE | right::APPEND | right::DELETE_CHILD,
        _ => right::WRITE | right::APPEND,
    };
    let mask = |bits: u32| {
        let parts = [(4, right::READ), (2, write), (1, right::EXECUTE)];
        let set = parts.iter().filter(|(bit, _)| bits & bit != 0);
        set.fold(0, |mask, (_, part)| mask | part)
    };
    let entry = |allows, who, mask| Entry {
        allows,
        flags: 0,
        mask,
        who,
    };
    let (user, group, other) = (mode >> 6 & 7, mode >> 3 & 7, mode & 7);
    // A member of a class has only its rights, even where those of a later class include more.
    let owner_lacks = !user & (group | other);
    let group_lacks = !group & other;
    // The owner may be in the group.
    let owner_first = user & group_lacks;
    let mut first = vec![
        entry(true, Who::Owner, mask(owner_first)),
        entry(false, Who::Owner, mask(owner_lacks)),
        entry(false, Who::Group, mask(group_lacks)),
    ];
    first.retain(|entry| entry.mask != 0);
    OfMode {
        first,
        last: [
            entry(true, Who::Owner, mask(user) | ALWAYS | OF_OWNER),
            entry(true, Who::Group, mask(group) | ALWAYS),
            entry(true, Who::Everyone, mask(other) | ALWAYS),
        ],
    }
}

impl OfMode {
    /// All of it.
    pub fn list(self) -> Vec<Entry> {
        let mut list = self.first;
        list.extend(self.last);
        list
    }
}

/// The permission bits that a list grants to owner, group and everyone on an object of `owner` (user and group).
pub fn mode_of(list: &[Entry], owner: (u32, u32)) -> u32 {
    let (mut mode, mut decided) = (0, 0);
    for entry in list.iter().filter(|entry| entry.is_effective()) {
        let classes = match entry.who {
            Who::Owner => 0o700,
            Who::User(uid) if uid == owner.0 => 0o700,
            Who::Group => 0o070,
            Who::Members(gid) if gid == owner.1 => 0o070,
            Who::Everyone => 0o777,
            _ => continue,
        };
        let parts = [
            (right::READ, 0o444),
            (right::WRITE, 0o222),
            (right::EXECUTE, 0o111),
        ];
        let mentioned = parts.iter().filter(|(right, _)| entry.mask & right != 0);
        let bits = mentioned.fold(0, |bits, (_, bit)| bits | bit);
        let new = classes & bits & !decided;
        decided |= new;
        if entry.allows {
            mode |= new;
        }
    }
    mode
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acl_built_from_a_mode_has_that_mode() {
        for mode in 0..0o1000 {
            for kind in [Kind::File, Kind::Directory] {
                let list = of_mode(mode, kind).list();
                assert_eq!(mode_of(&list, (1, 2)), mode, "{mode:o}");
            }
        }
    }

    #[test]
    fn first_acl_entry_for_a_right_decides() {
        let entry = |allows, who, mask| Entry {
            allows,
            flags: 0,
            mask,
            who,
        };
        let list = [
            entry(false, Who::User(1), right::WRITE),
            entry(true, Who::Owner, right::READ | right::WRITE),
            entry(true, Who::User(7), right::EXECUTE),
            Entry {
                flags: flag::ONLY | flag::FILE,
                ..entry(false, Who::Everyone, right::ALL)
            },
            entry(true, Who::Everyone, right::READ | right::EXECUTE),
        ];
        assert_eq!(mode_of(&list, (1, 2)), 0o555);
        assert_eq!(mode_of(&list, (3, 2)), 0o755);
        assert_eq!(mode_of(&[], (3, 2)), 0);
    }
}
