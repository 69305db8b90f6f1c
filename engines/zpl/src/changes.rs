//! Changes: new objects, further names, attributes, contents.

use file_system::acl::{Entry, is_possible};
use file_system::rights::{check_set, mode_after, without_set_id};
use file_system::{
    Attributes, Changed, Done, FileError, Guard, Identity, Kind, Made, Make, Node, Object, Receipt,
    SetAttributes, SetTime, Time, is_owner,
};

use crate::access::{Reach, Use};
use crate::acl;
use crate::acl_rules::{flags_with, mode_with};
use crate::convert::{
    MODE_MASK, TYPE_MASK, attributes_of, device_of, entry_type, failure, flag, kind_of, merged,
    now_after, stored_time, type_of,
};
use crate::file_system::{FILE_BYTES_MAX, LINKS_MAX, WRITE_BYTES_MAX, Zpl};
use crate::objects::{Has, Objects, Step, Stored, StoredTime};
use crate::quotas::Payers;
use crate::records::{Bytes, Creation, Record, Setting, append_receipt, append_setting, set};

const SET_GROUP_ID: u64 = 0o2000;
/// Bytes of the target of a link (`PATH_MAX` of Linux, less its NUL).
const LINK_BYTES_MAX: usize = 4095;

/// A longer range is freed in several transactions: after a crash part of it may be done.
pub(crate) const LARGE_BYTES: u64 = 16 << 20;

/// A new object before it has a number.
pub(crate) struct NewObject<'a> {
    pub stored: Stored,
    pub link: Option<&'a [u8]>,
    /// The required number.
    pub claims: Option<u64>,
    /// The required list, instead of the inherited one. It is in the record of its creation.
    pub list: Option<Vec<Entry>>,
    /// The attributes that the record of its creation omits.
    pub then: Option<Setting>,
}

impl NewObject<'_> {
    /// The log records of a creation. The first one has the list, the receipt and all attributes, so that no crash
    /// separates them. The second one sets the attributes when a kernel replays the log.
    fn logged(&self, first: Creation<'_>, receipt: Option<&Receipt>) -> Vec<Step<'static>> {
        let list = self.list.as_deref().map(acl::encode_logged);
        let first = Record::Create(Creation {
            list: list.as_deref(),
            ..first
        });
        let mut first = logged_with(&first, true, receipt);
        if let (Step::Log { body, .. }, Some(then)) = (&mut first, &self.then) {
            append_setting(body, then);
        }
        let then = self.then.map(Record::Set);
        let then = then.map(|record| logged_with(&record, true, None));
        [first].into_iter().chain(then).collect()
    }
}

/// A directory's attributes after entries, or subdirectories, were added or removed.
pub(crate) fn with_entries(directory: &Stored, entries: i64, directories: i64) -> Stored {
    let time = now_after(directory.ctime);
    Stored {
        size: directory.size.saturating_add_signed(entries),
        links: directory.links.saturating_add_signed(directories),
        mtime: time,
        ctime: time,
        has: Has::SIZE.with(Has::LINKS).with(Has::MTIME).with(Has::CTIME),
        ..Stored::default()
    }
}

/// A step that writes a log record.
pub(crate) fn logged(record: &Record<'_>) -> Step<'static> {
    logged_as(record, false, 0)
}

/// The same, with the receipt of the change.
pub(crate) fn logged_with(
    record: &Record<'_>,
    is_new: bool,
    receipt: Option<&Receipt>,
) -> Step<'static> {
    let mut step = logged_as(record, is_new, 0);
    if let (Step::Log { body, .. }, Some(receipt)) = (&mut step, receipt) {
        append_receipt(body, receipt);
    }
    step
}

/// Like `logged`, with `is_new`: whether the record is about the object that an earlier step creates, and for a write
/// the generation of the file.
fn logged_as(record: &Record<'_>, is_new: bool, generation: u64) -> Step<'static> {
    let (kind, body) = record.encode();
    Step::Log {
        kind,
        body,
        is_new,
        generation,
    }
}

/// An object before and after a change of attributes.
pub(crate) fn changed(before: &Stored, set: &Stored) -> Done<Changed> {
    Ok(Changed {
        before: attributes_of(before)?,
        after: attributes_of(&merged(before, set))?,
    })
}

/// The flags that follow from a mode.
fn with_mode(flags: u64, mode: u64) -> u64 {
    let flags = (flags | flag::ACL_TRIVIAL) & !(flag::NO_EXECUTE_DENIED | flag::INHERIT);
    match mode & 0o111 {
        0o111 => flags | flag::NO_EXECUTE_DENIED,
        _ => flags,
    }
}

fn time_to_set(time: Option<SetTime>, now: StoredTime) -> Option<StoredTime> {
    time.map(|time| match time {
        SetTime::Now => now,
        SetTime::To(time) => stored_time(time),
    })
}

/// Kind, permissions, link target and device of an object to be created.
fn shape<'a>(what: &Make<'a>) -> (Kind, u64, Option<&'a [u8]>, u64) {
    match what {
        Make::File => (Kind::File, 0o644, None, 0),
        Make::Directory => (Kind::Directory, 0o755, None, 0),
        Make::Link(to) => (Kind::Link, 0o777, Some(to), 0),
        Make::BlockDevice(major, minor) => {
            (Kind::BlockDevice, 0o644, None, device_of(*major, *minor))
        }
        Make::CharacterDevice(major, minor) => {
            let device = device_of(*major, *minor);
            (Kind::CharacterDevice, 0o644, None, device)
        }
        Make::Socket => (Kind::Socket, 0o644, None, 0),
        Make::Pipe => (Kind::Pipe, 0o644, None, 0),
    }
}

impl<O: Objects> Zpl<O> {
    /// Implements [`FileSystem::make`](file_system::FileSystem::make), and
    /// [`make_with_acl`](file_system::FileSystem::make_with_acl) if there is a list.
    pub(crate) fn make_object(
        &self,
        who: &Identity,
        directory: Node,
        (name, what, wanted): (&[u8], Make<'_>, &SetAttributes),
        list: Option<&[Entry]>,
        receipt: Option<&Receipt>,
    ) -> Done<Made> {
        self.check_name(name)?;
        let _names = self.lock_names();
        let _changing = self.locks.change(&[directory.object]);
        let parent = self.directory(who, directory, Use::Enter(shape(&what).0))?;
        if self.entry(directory.object, name)?.is_some() {
            return Err(FileError::Exists);
        }
        if !what.is_allowed_to(who) && !self.is_replaying() {
            return Err(FileError::NotPermitted);
        }
        self.check_owners([Some(who.uid), Some(who.gid), wanted.uid, wanted.gid])?;
        let mut new = new_object(who, directory.object, &parent, &what, wanted)?;
        if let Some(list) = list {
            check_list(&attributes_of(&new.stored)?, list)?;
            new.list = Some(list.to_vec());
        }
        self.create((directory.object, &parent), name, &new, receipt)
    }

    /// Refuses to assign an object to a number that is not a valid user or group in the kernel. A log may contain that:
    /// an earlier version allowed it.
    fn check_owners(&self, numbers: [Option<u32>; 4]) -> Done {
        let are_owners = numbers.into_iter().flatten().all(is_owner);
        match are_owners || self.is_replaying() {
            true => Ok(()),
            false => Err(FileError::Invalid),
        }
    }

    /// Creates an object. The caller has locked the names and the directory.
    pub(crate) fn create(
        &self,
        (directory, parent): (u64, &Stored),
        name: &[u8],
        new: &NewObject<'_>,
        receipt: Option<&Receipt>,
    ) -> Done<Made> {
        let mut stored = new.stored;
        let kind = kind_of(stored.mode).ok_or(FileError::Invalid)?;
        self.check_quotas(Payers::of(&stored), true)?;
        let list = match &new.list {
            Some(list) => Some(list.clone()),
            None => self.list_of_new(directory, parent, &stored)?,
        };
        let list = match list {
            Some(list) => {
                stored.mode = mode_with(&list, &stored);
                stored.flags = flags_with(stored.flags, &list, &stored);
                acl::encode(&list)
            }
            None => acl::trivial((stored.mode & 0o777) as u32, kind),
        };
        // The block size is fixed by the first block, which cannot grow after a read beyond it.
        if kind == Kind::File {
            stored.block_size = stored.size.min(self.objects.record_size());
        }
        let set = with_entries(parent, 1, i64::from(kind == Kind::Directory));
        let record = Creation {
            directory,
            object: new.claims.unwrap_or(0),
            slots: stored.slots,
            mode: stored.mode,
            uid: stored.uid,
            gid: stored.gid,
            generation: stored.generation,
            crtime: stored.crtime,
            device: stored.device,
            name,
            link: new.link,
            ..Creation::default()
        };
        let mut steps = vec![
            Step::Make {
                claims: new.claims,
                stored: &stored,
                acl: &list,
                link: new.link,
            },
            Step::Enter {
                directory,
                name,
                value: entry_type(stored.mode),
                is_new: true,
                replaces: false,
            },
            Step::Set {
                object: directory,
                stored: set,
                acl: None,
            },
        ];
        steps.extend(new.logged(record, receipt));
        let outcome = self.change_once(steps, false, receipt)?;
        let made = self.objects.stored(outcome.object).map_err(failure)?;
        Ok(Made {
            object: Object {
                node: Node {
                    object: outcome.object,
                    generation: made.generation,
                },
                attributes: attributes_of(&made)?,
            },
            directory: changed(parent, &set)?,
        })
    }

    /// Whether an object may get a name in a directory: not if the directory's project is inherited and the object has
    /// a different one. A user could otherwise bypass the project's quota.
    pub(crate) fn check_project(&self, directory: &Stored, object: &Stored) -> Done {
        let project = |stored: &Stored| match stored.has.has(Has::PROJECT) {
            true => stored.project,
            false => 0,
        };
        let inherits = directory.flags & flag::PROJECT_INHERITS != 0;
        let is_other = may_have_project(object.mode) && project(directory) != project(object);
        match inherits && is_other && !self.is_replaying() {
            true => Err(FileError::OtherProject),
            false => Ok(()),
        }
    }

    /// As [`FileSystem::link`](file_system::FileSystem::link).
    pub(crate) fn link_object(
        &self,
        who: &Identity,
        node: Node,
        (directory, name): (Node, &[u8]),
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        self.check_name(name)?;
        let _names = self.lock_names();
        let _changing = self.locks.change(&[node.object, directory.object]);
        let stored = self.live(node)?;
        if attributes_of(&stored)?.kind == Kind::Directory {
            return Err(FileError::IsDirectory);
        }
        self.check_kept(&stored)?;
        if stored.links >= u64::from(LINKS_MAX) {
            return Err(FileError::TooManyLinks);
        }
        let parent = self.directory(who, directory, Use::Enter(Kind::File))?;
        if self.entry(directory.object, name)?.is_some() {
            return Err(FileError::Exists);
        }
        self.check_project(&parent, &stored)?;
        // An object without a name is being removed, even if it is held.
        if stored.links == 0 {
            return Err(FileError::Stale);
        }
        let set = with_entries(&parent, 1, 0);
        let linked = Stored {
            links: stored.links + 1,
            ctime: now_after(stored.ctime),
            has: Has::LINKS.with(Has::CTIME),
            ..Stored::default()
        };
        let record = Record::Link {
            directory: directory.object,
            object: node.object,
            name,
        };
        let steps = vec![
            Step::Enter {
                directory: directory.object,
                name,
                value: entry_type(stored.mode) | node.object,
                is_new: false,
                replaces: false,
            },
            Step::Set {
                object: node.object,
                stored: linked,
                acl: None,
            },
            Step::Set {
                object: directory.object,
                stored: set,
                acl: None,
            },
            logged_with(&record, false, receipt),
        ];
        self.change_once(steps, false, receipt)?;
        changed(&parent, &set)
    }

    /// As [`FileSystem::set_attributes`](file_system::FileSystem::set_attributes).
    pub(crate) fn set(
        &self,
        who: &Identity,
        node: Node,
        (changes, guard): (&SetAttributes, &Guard),
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        let _changing = self.locks.change(&[node.object]);
        let stored = self.live(node)?;
        let attributes = attributes_of(&stored)?;
        if guard.changed.is_some_and(|time| time != attributes.changed) {
            return Err(FileError::NotSame);
        }
        self.judged(node.object, &stored, who)?
            .check_set(who, changes)?;
        self.check_owners([changes.uid, changes.gid, None, None])?;
        self.check_kept(&stored)?;
        if let Some(size) = changes.size {
            check_size(attributes.kind, size)?;
            self.check_flags(&stored, flag::READ_ONLY)?;
        }
        let mode = mode_after(&attributes, who, changes);
        let (mut set, record) = setting(node.object, &stored, changes, mode);
        let list = self.list_after(node.object, &stored, changes, &mut set)?;
        self.check_quotas(Payers::new_ones(&stored, &merged(&stored, &set)), true)?;
        let shorter = changes.size.filter(|size| *size < stored.size);
        let mut steps = Vec::new();
        if let Some(size) = shorter {
            steps.extend(self.hole(node.object, &stored, (size, None))?);
        }
        // The only block grows with the file: later blocks have its size.
        let block_size = changes
            .size
            .and_then(|size| self.grown_block(&stored, size));
        if block_size.is_some() {
            steps.push(Step::Write {
                object: node.object,
                offset: 0,
                bytes: &[],
                block_size,
            });
        }
        steps.extend([
            Step::Set {
                object: node.object,
                stored: set,
                acl: list,
            },
            logged_with(&Record::Set(record), false, receipt),
        ]);
        self.change_once(steps, shorter.is_some(), receipt)?;
        changed(&stored, &set)
    }

    /// The object's list after a change of its mode. Attributes that follow from a list are added to `set`.
    fn list_after(
        &self,
        object: u64,
        stored: &Stored,
        changes: &SetAttributes,
        set: &mut Stored,
    ) -> Done<Option<Vec<u8>>> {
        let is_trivial = stored.flags & flag::ACL_TRIVIAL != 0;
        let list = match changes.mode {
            Some(_) => self.list_with_mode(object, stored, set)?,
            None if is_trivial || changes.uid.or(changes.gid).is_none() => return Ok(None),
            None => self.list(object)?,
        };
        set.mode = mode_with(&list, set);
        set.flags = flags_with(stored.flags, &list, set);
        set.has = set.has.with(Has::MODE).with(Has::FLAGS);
        Ok(changes.mode.map(|_| acl::encode(&list)))
    }

    /// As [`FileSystem::set_acl`](file_system::FileSystem::set_acl).
    pub(crate) fn set_list(
        &self,
        who: &Identity,
        node: Node,
        list: &[Entry],
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        let _changing = self.locks.change(&[node.object]);
        let stored = self.live(node)?;
        let attributes = attributes_of(&stored)?;
        if !self.is_replaying() {
            check_list(&attributes, list)?;
        }
        self.judged(node.object, &stored, who)?
            .check_list_set(who)?;
        self.check_kept(&stored)?;
        let mode = mode_with(list, &stored);
        let set = Stored {
            mode,
            flags: flags_with(stored.flags, list, &Stored { mode, ..stored }),
            ctime: now_after(stored.ctime),
            has: Has::MODE.with(Has::FLAGS).with(Has::CTIME),
            ..Stored::default()
        };
        let record = Record::Acl {
            object: node.object,
            list: &acl::encode_logged(list),
        };
        let steps = vec![
            Step::Set {
                object: node.object,
                stored: set,
                acl: Some(acl::encode(list)),
            },
            logged_with(&record, false, receipt),
        ];
        self.change_once(steps, false, receipt)?;
        changed(&stored, &set)
    }

    /// The step that punches a hole; a range that is too large for it is freed before.
    fn hole(
        &self,
        object: u64,
        stored: &Stored,
        (offset, length): (u64, Option<u64>),
    ) -> Done<Option<Step<'static>>> {
        if self.is_replaying() && self.free_parts(object, offset, length)? {
            return Ok(None);
        }
        let bytes = length.unwrap_or(stored.size.saturating_sub(offset));
        if bytes > LARGE_BYTES {
            let freed = self.objects.free(object, offset, length);
            freed.map_err(failure)?;
            return Ok(None);
        }
        Ok(Some(Step::Hole {
            object,
            offset,
            length,
        }))
    }

    /// In a replay: frees a range except the parts that later records without bytes refer to. Returns whether there are
    /// any.
    fn free_parts(&self, object: u64, offset: u64, length: Option<u64>) -> Done<bool> {
        let end = length.map_or(u64::MAX, |length| offset + length);
        let Some(parts) = self.lock_later_writes().parts(object, offset, end) else {
            return Ok(false);
        };
        for (from, to) in parts {
            let length = (to != u64::MAX).then_some(to - from);
            let freed = self.objects.free(object, from, length);
            freed.map_err(failure)?;
        }
        Ok(true)
    }

    /// The new size of a file's only block, if it has to become larger for contents up to `end`: blocks of a file have
    /// one size, which is the dataset's `recordsize` as soon as there are two.
    pub(crate) fn grown_block(&self, stored: &Stored, end: u64) -> Option<u64> {
        let (now, max) = (stored.block_size, self.objects.record_size());
        let may_grow = stored.last_block == 0 && (!now.is_power_of_two() || now < max);
        if end <= now || !may_grow {
            return None;
        }
        // The dataset had larger blocks when the file was written.
        let limit = match now > max {
            true => now.next_power_of_two(),
            false => max,
        };
        Some(end.min(limit))
    }

    /// Implements [`FileSystem::write`](file_system::FileSystem::write) and
    /// [`append`](file_system::FileSystem::append).
    pub(crate) fn write_contents(
        &self,
        node: Node,
        offset: u64,
        bytes: &[u8],
        reach: Reach,
    ) -> Done<Changed> {
        let end = offset.checked_add(bytes.len() as u64);
        end.filter(|end| *end <= FILE_BYTES_MAX)
            .ok_or(FileError::TooLarge)?;
        let _changing = self.locks.change(&[node.object]);
        let first = self.file(node)?;
        if let Reach::Behind { repeats } = reach {
            self.check_behind(node, &first, (offset, bytes), repeats)?;
        }
        self.check_flags(&first, flag::IMMUTABLE | flag::READ_ONLY)?;
        if offset < first.size {
            self.check_kept(&first)?;
        }
        self.check_quotas(Payers::of(&first), false)?;
        let mut last = first;
        let mut at = offset;
        for piece in bytes.chunks(WRITE_BYTES_MAX) {
            let length = piece.len() as u64;
            let set = self.write_piece(node.object, &last, (at, piece), (at, length))?;
            last = merged(&last, &set);
            at += length;
            // Its block may have grown.
            if at - offset < bytes.len() as u64 {
                let stored = self.objects.stored(node.object).map_err(failure)?;
                last.block_size = stored.block_size;
                last.last_block = stored.last_block;
            }
        }
        Ok(Changed {
            before: attributes_of(&first)?,
            after: attributes_of(&last)?,
        })
    }

    /// Whether bytes before the end of a file are unchanged.
    fn check_behind(
        &self,
        node: Node,
        stored: &Stored,
        (offset, bytes): (u64, &[u8]),
        repeats: bool,
    ) -> Done {
        let before = stored.size.saturating_sub(offset).min(bytes.len() as u64) as usize;
        if before == 0 {
            return Ok(());
        }
        if !repeats {
            return Err(FileError::Access);
        }
        let mut there = vec![0; before];
        let read = self.objects.read(node.object, offset, &mut there);
        read.map_err(failure)?;
        match there == bytes[..before] {
            true => Ok(()),
            false => Err(FileError::Access),
        }
    }

    /// Writes in one transaction. `range` is the part that is written to the file: it may be shorter than the bytes.
    pub(crate) fn write_piece(
        &self,
        object: u64,
        stored: &Stored,
        (offset, bytes): (u64, &[u8]),
        range: (u64, u64),
    ) -> Done<Stored> {
        let time = now_after(stored.ctime);
        let mut set = Stored {
            size: stored.size.max(range.0 + range.1),
            mtime: time,
            ctime: time,
            mode: u64::from(without_set_id(stored.mode as u32)),
            has: Has::SIZE.with(Has::MTIME).with(Has::CTIME),
            ..Stored::default()
        };
        if set.mode != stored.mode {
            set.has = set.has.with(Has::MODE);
        }
        let record = Record::Write {
            object,
            offset: range.0,
            length: range.1,
            end: range.0 + range.1,
            bytes: Bytes::Here(b""),
        };
        let end = set.size.max(offset + bytes.len() as u64);
        let mut steps = vec![
            Step::Write {
                object,
                offset,
                bytes,
                block_size: self.grown_block(stored, end),
            },
            Step::Set {
                object,
                stored: set,
                acl: None,
            },
        ];
        steps.push(logged_as(&record, false, stored.generation));
        // After the write: a log may be cut within that, and no part of it is replayed then.
        if set.mode != stored.mode {
            steps.push(logged_mode(object, set.mode));
        }
        self.objects.change(&steps, false).map_err(failure)?;
        Ok(set)
    }

    /// Clears the set-ID bits and attributes that a change of contents invalidates.
    fn strip_set_ids(&self, object: u64, stored: &Stored) -> Done {
        let mode = u64::from(without_set_id(stored.mode as u32));
        if mode == stored.mode {
            return Ok(());
        }
        let set = Stored {
            mode,
            has: Has::MODE,
            ..Stored::default()
        };
        let steps = [
            Step::Set {
                object,
                stored: set,
                acl: None,
            },
            logged_mode(object, mode),
        ];
        self.objects.change(&steps, false).map_err(failure)?;
        Ok(())
    }

    /// As [`FileSystem::deallocate`](file_system::FileSystem::deallocate).
    pub(crate) fn punch(&self, node: Node, offset: u64, length: u64) -> Done {
        let _changing = self.locks.change(&[node.object]);
        let stored = self.file(node)?;
        self.check_kept(&stored)?;
        self.check_flags(&stored, flag::READ_ONLY)?;
        let end = offset.checked_add(length).ok_or(FileError::Invalid)?;
        let end = end.min(stored.size);
        let length = end.saturating_sub(offset);
        if length == 0 {
            return Ok(());
        }
        // A large hole is punched in several transactions: the set-ID bits must be cleared before the first.
        self.strip_set_ids(node.object, &stored)?;
        let hole = self.hole(node.object, &stored, (offset, Some(length)))?;
        let time = now_after(stored.ctime);
        let set = Stored {
            mtime: time,
            ctime: time,
            has: Has::MTIME.with(Has::CTIME),
            ..Stored::default()
        };
        let mut steps = Vec::from_iter(hole);
        steps.extend([
            Step::Set {
                object: node.object,
                stored: set,
                acl: None,
            },
            logged(&Record::Truncate {
                object: node.object,
                offset,
                length,
            }),
        ]);
        self.objects.change(&steps, true).map_err(failure)?;
        Ok(())
    }
}

/// A kernel's replay of other contents does not change the mode.
fn logged_mode(object: u64, mode: u64) -> Step<'static> {
    logged(&Record::Set(Setting {
        object,
        mask: set::MODE,
        mode,
        ..Setting::default()
    }))
}

/// Whether an object may have a list.
fn check_list(attributes: &Attributes, list: &[Entry]) -> Done {
    match is_possible(list, attributes.kind) {
        true => Ok(()),
        false => Err(FileError::Invalid),
    }
}

fn check_size(kind: Kind, size: u64) -> Done {
    match kind {
        Kind::File if size > FILE_BYTES_MAX => Err(FileError::TooLarge),
        Kind::File => Ok(()),
        Kind::Directory => Err(FileError::IsDirectory),
        _ => Err(FileError::WrongType),
    }
}

/// Translates changes into the attributes to store and the log record.
fn setting(object: u64, stored: &Stored, changes: &SetAttributes, mode: u32) -> (Stored, Setting) {
    let time = now_after(stored.ctime);
    let mode = stored.mode & TYPE_MASK | u64::from(mode) & MODE_MASK;
    let mut set = Stored {
        ctime: time,
        has: Has::CTIME,
        ..Stored::default()
    };
    let mut record = Setting {
        object,
        mask: set::CTIME,
        mode,
        ..Setting::default()
    };
    let mut sets = |has: Has, mask: u64| {
        set.has = set.has.with(has);
        record.mask |= mask;
    };
    if changes.mode.is_some() || mode != stored.mode {
        sets(Has::MODE, set::MODE);
    }
    if changes.uid.is_some() {
        sets(Has::UID, set::UID);
    }
    if changes.gid.is_some() {
        sets(Has::GID, set::GID);
    }
    if changes.size.is_some() {
        sets(Has::SIZE, set::SIZE);
    }
    let accessed = time_to_set(changes.accessed, stored_time(Time::now()));
    if accessed.is_some() {
        sets(Has::ATIME, set::ATIME);
    }
    // A new size is a change of the contents.
    let contents = changes.size.map(|_| time);
    let modified = time_to_set(changes.modified, time).or(contents);
    if modified.is_some() {
        sets(Has::MTIME, set::MTIME);
    }
    set.mode = mode;
    set.uid = changes.uid.map_or(stored.uid, u64::from);
    set.gid = changes.gid.map_or(stored.gid, u64::from);
    set.size = changes.size.unwrap_or(stored.size);
    set.atime = accessed.unwrap_or(stored.atime);
    set.mtime = modified.unwrap_or(stored.mtime);
    (record.uid, record.gid, record.size) = (set.uid, set.gid, set.size);
    (record.atime, record.mtime) = (set.atime, set.mtime);
    (set, record)
}

/// The attributes of a new object.
fn new_object<'a>(
    who: &Identity,
    directory: u64,
    parent: &Stored,
    what: &Make<'a>,
    wanted: &SetAttributes,
) -> Done<NewObject<'a>> {
    let (kind, permissions, link, device) = shape(what);
    if link.is_some_and(|to| to.is_empty() || to.contains(&0)) {
        return Err(FileError::Invalid);
    }
    if link.is_some_and(|to| to.len() > LINK_BYTES_MAX) {
        return Err(FileError::NameTooLong);
    }
    let is_directory = kind == Kind::Directory;
    let (gid, inherited) = match parent.mode & SET_GROUP_ID {
        0 => (u64::from(who.gid), 0),
        _ if is_directory => (parent.gid, SET_GROUP_ID),
        _ => (parent.gid, 0),
    };
    let time = stored_time(Time::now());
    let first = fresh(
        directory,
        (
            type_of(kind) | permissions | inherited,
            u64::from(who.uid),
            gid,
        ),
        link.map_or(0, |to| to.len() as u64),
        device,
        time,
        parent,
    );
    let rest = SetAttributes {
        uid: wanted.uid.filter(|uid| *uid != who.uid),
        gid: wanted.gid.filter(|gid| u64::from(*gid) != first.gid),
        size: wanted.size.filter(|_| kind == Kind::File),
        ..*wanted
    };
    let attributes = attributes_of(&first)?;
    check_set(&attributes, who, &rest)?;
    if let Some(size) = rest.size {
        check_size(kind, size)?;
    }
    // Also when the requester is not in the group of the directory.
    let mode = mode_after(&attributes, who, &rest) | inherited as u32;
    let (set, mut then) = setting(0, &first, &rest, mode);
    let mut stored = merged(&first, &set);
    stored.ctime = first.ctime;
    stored.flags = with_mode(first.flags, stored.mode);
    // The record of the creation has owner and mode.
    then.mask &= set::SIZE | set::ATIME | set::MTIME;
    Ok(NewObject {
        stored,
        link,
        claims: None,
        list: None,
        then: (then.mask != 0).then_some(then),
    })
}

/// Whether an object may be assigned to a project: only files and directories can.
pub(crate) fn may_have_project(mode: u64) -> bool {
    matches!(kind_of(mode), Some(Kind::File | Kind::Directory))
}

/// Attributes of a new object.
pub(crate) fn fresh(
    directory: u64,
    (mode, uid, gid): (u64, u64, u64),
    size: u64,
    device: u64,
    time: StoredTime,
    parent: &Stored,
) -> Stored {
    let is_directory = kind_of(mode) == Some(Kind::Directory);
    let is_device = matches!(
        kind_of(mode),
        Some(Kind::BlockDevice | Kind::CharacterDevice)
    );
    let mut stored = Stored {
        mode,
        // For a directory, its entries, including `.` and `..`.
        size: if is_directory { 2 } else { size },
        uid,
        gid,
        parent: directory,
        flags: with_mode(flag::ARCHIVE | flag::MODIFIED, mode),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        links: if is_directory { 2 } else { 1 },
        device,
        has: Has::NEW,
        ..Stored::default()
    };
    if is_device {
        stored.has = stored.has.with(Has::DEVICE);
    }
    // An object in an extended-attribute directory is part of an attribute.
    stored.flags |= parent.flags & flag::EXTENDED;
    let inherits = parent.flags & flag::PROJECT_INHERITS != 0 && parent.has.has(Has::PROJECT);
    if may_have_project(mode) && inherits {
        stored.project = parent.project;
        stored.has = stored.has.with(Has::PROJECT);
        stored.flags |= flag::PROJECT | flag::PROJECT_INHERITS;
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{decode, receipt_of};
    use file_system::acl::{Who, right};

    const RECEIPT: Receipt = Receipt {
        place: [3; 20],
        number: 7,
        step: 2,
        call: 5,
    };

    fn logged_of(mode: u64, then: Option<Setting>) -> Vec<(u64, Vec<u8>)> {
        let list = vec![Entry {
            allows: false,
            flags: 0,
            mask: right::READ,
            who: Who::User(7),
        }];
        let new = NewObject {
            stored: Stored::default(),
            link: None,
            claims: None,
            list: Some(list),
            then,
        };
        let first = Creation {
            directory: 34,
            object: 128,
            slots: 1,
            generation: 5,
            mode,
            name: b"name",
            ..Creation::default()
        };
        let steps = new.logged(first, Some(&RECEIPT));
        let records = steps.into_iter().map(|step| match step {
            Step::Log { kind, body, .. } => (kind, body),
            step => panic!("{step:?}"),
        });
        records.collect()
    }

    /// A crash between two records would leave the object with the inherited list.
    #[test]
    fn object_and_acl_share_one_record_with_the_receipt() {
        for mode in [0o100_644, 0o040_755, 0o010_644] {
            let records = logged_of(mode, None);
            let [(kind, body)] = &records[..] else {
                panic!("{records:?}");
            };
            let decoded = decode(*kind, body);
            let Ok(Record::Create(created)) = decoded else {
                panic!("{decoded:?}");
            };
            let list = created.list.and_then(acl::decode_logged);
            assert_eq!(list.expect("a list").len(), 1);
            assert_eq!((created.name, created.mode), (&b"name"[..], mode));
            assert_eq!(receipt_of(*kind, body), Some(RECEIPT));
        }
    }

    /// A crash may leave only the first record in the log. A kernel needs the second one.
    #[test]
    fn first_record_of_a_creation_has_the_receipt_and_all_attributes() {
        let then = Setting {
            mask: set::SIZE | set::ATIME | set::MTIME,
            size: 7,
            atime: [1, 2],
            mtime: [3, 4],
            ..Setting::default()
        };
        for mode in [0o100_644, 0o040_755, 0o010_644] {
            let records = logged_of(mode, Some(then));
            let receipts: Vec<_> = records
                .iter()
                .map(|(kind, body)| receipt_of(*kind, body))
                .collect();
            assert_eq!(receipts, [Some(RECEIPT), None]);
            let decode = |at: usize| decode(records[at].0, &records[at].1);
            let Ok(Record::Create(created)) = decode(0) else {
                panic!("{records:?}");
            };
            assert_eq!(created.then, Some(then));
            assert_eq!(decode(1), Ok(Record::Set(then)));
        }
    }
}
