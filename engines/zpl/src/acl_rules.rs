//! The changes of access control lists: when a mode is set (`aclmode`), and on creation in a directory (`aclinherit`).
//! The rules are those of the kernel, because each of the two replays the other one's log.

use file_system::acl::{Entry, Who, flag, mode_of, of_mode, right};
use file_system::{Done, FileError, Kind};

use crate::acl;
use crate::convert::{attributes_of, failure, flag as of_object, kind_of};
use crate::file_system::{TEXT_BYTES_MAX, Zpl};
use crate::objects::{Inheriting, Objects, OnMode, Stored, Text};

fn is_special(entry: &Entry) -> bool {
    matches!(entry.who, Who::Owner | Who::Group | Who::Everyone)
}

/// A list after a mode was set. `splits`: inheritable entries of owner, group and everyone stay as inherit-only
/// entries. `trims`: no entry allows more than the group's permissions.
fn with_mode(list: &[Entry], mode: u32, kind: Kind, splits: bool, trims: bool) -> Vec<Entry> {
    let of_mode = of_mode(mode, kind);
    let [_, group, _] = of_mode.last;
    let kept = list.iter().filter_map(|entry| {
        let mut entry = *entry;
        if splits && is_special(&entry) {
            if kind != Kind::Directory || !entry.is_passed_on() {
                return None;
            }
            entry.flags |= flag::ONLY;
        }
        if trims && entry.allows && entry.is_effective() {
            entry.mask &= group.mask;
        }
        Some(entry)
    });
    let mut all = of_mode.first;
    all.extend(kept);
    all.extend(of_mode.last);
    all
}

/// The entries that a new object of a kind and a requested mode inherits from its directory's list, and whether the
/// mode is to be merged into them.
fn passed_on(list: &[Entry], mode: u32, kind: Kind, how: Inheriting) -> (Vec<Entry>, bool) {
    let is_directory = kind == Kind::Directory;
    let passes_all = matches!(how, Inheriting::Passthrough | Inheriting::PassthroughX);
    let mut needs_mode = true;
    if how == Inheriting::Discard || kind == Kind::Link {
        return (Vec::new(), needs_mode);
    }
    let mut passed = Vec::new();
    for entry in list {
        let to_directory = is_directory && entry.flags & flag::DIRECTORY != 0;
        let to_any =
            entry.flags & flag::FILE != 0 && !(is_directory && entry.flags & flag::ONCE != 0);
        if !(to_directory || to_any) || (how == Inheriting::NoAllow && entry.allows) {
            continue;
        }
        if passes_all && is_special(entry) && (kind == Kind::File || to_directory) {
            needs_mode = false;
        }
        let mut entry = *entry;
        if entry.allows {
            let lost = match how {
                Inheriting::PassthroughX if !is_directory && mode & 0o111 == 0 => right::EXECUTE,
                Inheriting::Restricted => right::WRITE_ACL | right::WRITE_OWNER,
                _ => 0,
            };
            entry.mask &= !lost;
        }
        entry.flags = match is_directory && entry.flags & flag::ONCE == 0 {
            false => flag::INHERITED,
            true if entry.flags & flag::DIRECTORY == 0 => {
                entry.flags | flag::INHERITED | flag::ONLY
            }
            true => (entry.flags | flag::INHERITED) & !flag::ONLY,
        };
        passed.push(entry);
    }
    (passed, needs_mode)
}

/// The flags of an object with a list.
pub(crate) fn flags_with(flags: u64, list: &[Entry], stored: &Stored) -> u64 {
    use of_object::{ACL_TRIVIAL, INHERIT, NO_EXECUTE_DENIED};
    let kind = kind_of(stored.mode).unwrap_or(Kind::File);
    let mode = (stored.mode & 0o777) as u32;
    let has_same = acl::encode(list) == acl::trivial(mode, kind);
    let passes_on = kind == Kind::Directory && list.iter().any(Entry::is_passed_on);
    let denies_one = list.iter().any(|entry| {
        !entry.allows
            && entry.is_effective()
            && !is_special(entry)
            && entry.mask & right::EXECUTE != 0
    });
    let all_run = mode & 0o111 == 0o111 && !denies_one;
    let set = [
        (ACL_TRIVIAL, has_same),
        (INHERIT, passes_on),
        (NO_EXECUTE_DENIED, all_run),
    ];
    set.iter()
        .fold(flags, |flags, (flag, is_set)| match is_set {
            true => flags | flag,
            false => flags & !flag,
        })
}

/// The mode that a list implies for an object.
pub(crate) fn mode_with(list: &[Entry], stored: &Stored) -> u64 {
    let id = |id: u64| u32::try_from(id).unwrap_or(u32::MAX);
    let permissions = mode_of(list, (id(stored.uid), id(stored.gid)));
    stored.mode & !0o777 | u64::from(permissions)
}

impl<O: Objects> Zpl<O> {
    /// The list of an object.
    pub(crate) fn list(&self, object: u64) -> Done<Vec<Entry>> {
        let list = self.objects.text(object, Text::Acl, TEXT_BYTES_MAX);
        acl::decode(&list.map_err(failure)?).ok_or(FileError::Io)
    }

    /// The list of an object with its mode set to that of `after`.
    pub(crate) fn list_with_mode(
        &self,
        object: u64,
        before: &Stored,
        after: &Stored,
    ) -> Done<Vec<Entry>> {
        let on_mode = self.objects.settings().on_mode;
        let kind = attributes_of(before)?.kind;
        let is_trivial = before.flags & of_object::ACL_TRIVIAL != 0;
        let list = match on_mode {
            OnMode::Restricted if !is_trivial && !self.is_replaying() => {
                return Err(FileError::NotPermitted);
            }
            OnMode::Discard => Vec::new(),
            _ if is_trivial => Vec::new(),
            _ => self.list(object)?,
        };
        let mode = (after.mode & 0o777) as u32;
        Ok(with_mode(
            &list,
            mode,
            kind,
            true,
            on_mode == OnMode::GroupMask,
        ))
    }

    /// The list of a new object in a directory, where inheritance applies.
    pub(crate) fn list_of_new(
        &self,
        directory: u64,
        parent: &Stored,
        new: &Stored,
    ) -> Done<Option<Vec<Entry>>> {
        let passes_on = parent.flags & of_object::INHERIT != 0;
        if !passes_on || parent.flags & of_object::EXTENDED != 0 {
            return Ok(None);
        }
        let how = self.objects.settings().inheriting;
        let kind = kind_of(new.mode).ok_or(FileError::Invalid)?;
        let mode = (new.mode & 0o777) as u32;
        let (list, needs_mode) = passed_on(&self.list(directory)?, mode, kind, how);
        Ok(Some(match needs_mode {
            true => with_mode(&list, mode, kind, false, how == Inheriting::Restricted),
            false => list,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(allows: bool, who: Who, flags: u32, mask: u32) -> Entry {
        Entry {
            allows,
            flags,
            mask,
            who,
        }
    }

    #[test]
    fn chmod_replaces_owner_group_and_everyone_entries() {
        let both = flag::FILE | flag::DIRECTORY;
        let named = entry(true, Who::User(7), 0, right::READ | right::WRITE);
        let list = [
            named,
            entry(true, Who::Owner, both, right::ALL),
            entry(true, Who::Everyone, 0, right::READ),
        ];
        let plain = of_mode(0o640, Kind::Directory).list();
        let kept = with_mode(&list, 0o640, Kind::Directory, true, false);
        let passed_on = entry(true, Who::Owner, both | flag::ONLY, right::ALL);
        assert_eq!(kept, [vec![named, passed_on], plain.clone()].concat());
        assert_eq!(mode_of(&kept, (1, 2)), 0o640);
        let trimmed = with_mode(&list, 0o640, Kind::Directory, true, true);
        assert_eq!(trimmed[0], entry(true, Who::User(7), 0, right::READ));
        let of_file = with_mode(&list, 0o600, Kind::File, true, false);
        assert_eq!(of_file[1..], of_mode(0o600, Kind::File).list());
        assert_eq!(with_mode(&[], 0o640, Kind::Directory, true, false), plain);
    }

    #[test]
    fn new_objects_inherit_entries_of_their_directory() {
        let rights = right::READ | right::EXECUTE | right::WRITE_ACL;
        let to_all = entry(true, Who::User(7), flag::FILE | flag::DIRECTORY, rights);
        let to_files = entry(false, Who::Members(8), flag::FILE | flag::ONLY, rights);
        let once = entry(true, Who::User(9), flag::DIRECTORY | flag::ONCE, rights);
        let own = entry(true, Who::Everyone, 0, rights);
        let list = [to_all, to_files, once, own];
        let made = |kind, how| passed_on(&list, 0o644, kind, how).0;
        let with = |entry: Entry, flags, mask| Entry {
            flags,
            mask,
            ..entry
        };
        let inherited = flag::INHERITED;
        let less = right::READ | right::EXECUTE;
        assert_eq!(
            made(Kind::File, Inheriting::Restricted),
            [
                with(to_all, inherited, less),
                with(to_files, inherited, rights)
            ]
        );
        assert_eq!(
            made(Kind::Directory, Inheriting::Passthrough),
            [
                with(to_all, to_all.flags | inherited, rights),
                with(to_files, to_files.flags | inherited, rights),
                with(once, inherited, rights)
            ]
        );
        assert_eq!(
            made(Kind::File, Inheriting::NoAllow),
            [with(to_files, inherited, rights)]
        );
        assert_eq!(
            made(Kind::File, Inheriting::PassthroughX)[0].mask,
            right::READ | right::WRITE_ACL
        );
        assert_eq!(made(Kind::File, Inheriting::Discard), []);
        assert_eq!(made(Kind::Link, Inheriting::Passthrough), []);
    }

    #[test]
    fn passthrough_acl_with_everyone_entry_ignores_the_mode() {
        let to_files = entry(true, Who::Everyone, flag::FILE, right::READ);
        let needs_mode = |kind, how| passed_on(&[to_files], 0o644, kind, how).1;
        assert!(!needs_mode(Kind::File, Inheriting::Passthrough));
        assert!(needs_mode(Kind::Directory, Inheriting::Passthrough));
        assert!(needs_mode(Kind::File, Inheriting::Restricted));
    }
}
