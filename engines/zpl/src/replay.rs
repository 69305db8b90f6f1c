//! Replays the intent log: changes that were durable and not in a synced transaction group at the crash. Each record
//! becomes one change, which also notes the progress of the replay.

use file_system::acl::{ENTRIES_MAX, Entry};
use file_system::{
    Done, FileError, FileSystem, Guard, Identity, Kind, Node, Receipt, Removable, SetAttributes,
    SetTime,
};

use crate::access::Use;
use crate::acl;
use crate::changes::{NewObject, fresh, logged, may_have_project};
use crate::convert::{MODE_MASK, failure, flag, kind_of, merged, now_after, time_of};
use crate::file_system::{FILE_BYTES_MAX, Zpl};
use crate::later_writes::LaterWrites;
use crate::objects::{Has, ObjectError, Objects, Step, Stored};
use crate::options::Options;
use crate::records::{Bytes, Creation, POINTER_BYTES, Record, Setting, decode, receipt_of, set};
use crate::unfinished_write::UnfinishedWrite;

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};

/// The facts about a log that a replay needs before its first record.
#[derive(Default)]
pub struct Survey {
    later: LaterWrites,
    unfinished: UnfinishedWrite,
}

impl Survey {
    /// Processes the next record of the log.
    pub fn see(&mut self, record: &Record<'_>) {
        self.later.see(record);
        self.unfinished.see(record);
    }
}

/// Replays the whole log. A log without records is only reset.
pub fn run<O: Objects>(zpl: &Zpl<O>, survey: Survey) -> Result<(), ObjectError> {
    *zpl.lock_later_writes() = survey.later;
    zpl.set_replaying(true);
    let replayed = run_all(zpl, survey.unfinished);
    zpl.set_replaying(false);
    *zpl.lock_later_writes() = LaterWrites::default();
    replayed
}

fn run_all<O: Objects>(zpl: &Zpl<O>, mut unfinished: UnfinishedWrite) -> Result<(), ObjectError> {
    zpl.objects.replay_log(&mut |kind, body| {
        let record = decode(kind, body).map_err(|error| {
            tracing::error!(%error, "the intent log cannot be replayed");
            ObjectError::Io(0)
        })?;
        if unfinished.leaves_out(&record) {
            return Ok(());
        }
        let receipt = receipt_of(kind, body);
        replay(zpl, &record, receipt.as_ref()).map_err(|error| {
            tracing::error!(kind, %error, "a record of the intent log cannot be replayed");
            match error {
                FileError::NoSpace => ObjectError::NoSpace,
                FileError::Quota => ObjectError::Quota,
                _ => ObjectError::Io(0),
            }
        })?;
        zpl.lock_later_writes().pass(&record);
        unfinished.pass(&record);
        Ok(())
    })
}

fn replay<O: Objects>(zpl: &Zpl<O>, record: &Record<'_>, receipt: Option<&Receipt>) -> Done {
    match *record {
        Record::Create(new) => create(zpl, &new, None, receipt),
        Record::MakeExtended(new) => make_extended(zpl, &new),
        Record::Remove {
            directory,
            name,
            is_directory,
        } => {
            let what = match is_directory {
                true => Removable::Directory,
                false => Removable::NoDirectory,
            };
            let directory = node(zpl, directory)?;
            zpl.remove(&ROOT, directory, name, what, receipt).map(drop)
        }
        Record::Link {
            directory,
            object,
            name,
        } => {
            let (object, directory) = (node(zpl, object)?, node(zpl, directory)?);
            zpl.link(&ROOT, object, directory, name, receipt).map(drop)
        }
        Record::Rename { from, to } => {
            let from = (node(zpl, from.0)?, from.1);
            let to = (node(zpl, to.0)?, to.1);
            zpl.rename(&ROOT, from, to, receipt).map(drop)
        }
        Record::Exchange { from, to } => {
            let from = (node(zpl, from.0)?, from.1);
            zpl.exchange(from, (node(zpl, to.0)?, to.1))
        }
        Record::Whiteout { from, to, whiteout } => {
            let device = Creation {
                directory: from.0,
                name: from.1,
                ..whiteout
            };
            create(zpl, &device, Some(to), None)
        }
        Record::Extended {
            object,
            name,
            value,
        } => match there(zpl, object) {
            Ok(_) => zpl.replay_extended(object, (name, value), receipt),
            error => skip(error),
        },
        Record::Clone {
            object,
            offset,
            length,
            pointers,
            ..
        } => match there(zpl, object) {
            Ok(stored) => clone(zpl, record, object, &stored, (offset, length, pointers)),
            error => skip(error),
        },
        Record::Acl { object, list } => match there(zpl, object) {
            Ok(stored) => {
                let list = logged_list(list)?;
                zpl.set_list(&ROOT, of(object, &stored), &list, receipt)
                    .map(drop)
            }
            error => skip(error),
        },
        Record::Write {
            object,
            offset,
            length,
            bytes,
            ..
        } => match there(zpl, object) {
            Ok(stored) => write(zpl, object, &stored, (offset, length), bytes),
            error => skip(error),
        },
        Record::WriteAgain {
            object,
            offset,
            length,
        } => match there(zpl, object) {
            Ok(stored) => grow(zpl, record, object, stored.size, offset + length),
            error => skip(error),
        },
        Record::Truncate {
            object,
            offset,
            length,
        } => match there(zpl, object) {
            Ok(stored) => truncate(zpl, of(object, &stored), stored.size, offset, length),
            error => skip(error),
        },
        Record::Set(set) => match there(zpl, set.object) {
            Ok(stored) => {
                set_optional(zpl, &set, &stored)?;
                let node = of(set.object, &stored);
                let changes = (&wanted(&set), &Guard::default());
                zpl.set(&ROOT, node, changes, receipt).map(drop)
            }
            error => skip(error),
        },
    }
}

/// The object of a record. A large file that lost its last name counts as missing, although its space is freed later.
fn there<O: Objects>(zpl: &Zpl<O>, object: u64) -> Result<Stored, ObjectError> {
    match zpl.is_being_freed(object) {
        true => Err(ObjectError::Missing),
        false => zpl.objects.stored(object),
    }
}

/// Contents and attributes of a file that a later record removes, and that is already removed.
fn skip(found: Result<Stored, ObjectError>) -> Done {
    match found {
        Err(ObjectError::Missing) | Ok(_) => Ok(()),
        Err(error) => Err(failure(error)),
    }
}

fn of(object: u64, stored: &Stored) -> Node {
    Node {
        object,
        generation: stored.generation,
    }
}

fn node<O: Objects>(zpl: &Zpl<O>, object: u64) -> Done<Node> {
    let stored = zpl.objects.stored(object).map_err(failure)?;
    Ok(of(object, &stored))
}

/// The list of a record. One without an entry is accepted: earlier releases logged such lists. One with more entries
/// than any system sets cannot have been set, and may not fit into an object.
fn logged_list(bytes: &[u8]) -> Done<Vec<Entry>> {
    let list = acl::decode_logged(bytes).ok_or(FileError::Invalid)?;
    match list.len() > ENTRIES_MAX {
        true => Err(FileError::Invalid),
        false => Ok(list),
    }
}

/// Creates an object; an existing object of that name is renamed to `renamed` first.
fn create<O: Objects>(
    zpl: &Zpl<O>,
    new: &Creation<'_>,
    renamed: Option<(u64, &[u8])>,
    receipt: Option<&Receipt>,
) -> Done {
    make_way(zpl, new)?;
    let directory = node(zpl, new.directory)?;
    if let Some(to) = renamed {
        // A crash in between has renamed it already, without noting the replay.
        let is_done = zpl.entry(new.directory, new.name)?.is_none();
        if !is_done {
            let to = (node(zpl, to.0)?, to.1);
            zpl.rename_unnoted(&ROOT, (directory, new.name), to)?;
        }
    }
    let _names = zpl.lock_names();
    let _changing = zpl.locks.change(&[new.directory]);
    let parent = zpl.directory(&ROOT, directory, Use::Enter(Kind::File))?;
    let new_object = replayed_object(new, &parent)?;
    let made = zpl.create((new.directory, &parent), new.name, &new_object, receipt)?;
    debug_assert_eq!(made.object.node.object, new.object);
    Ok(())
}

fn make_way<O: Objects>(zpl: &Zpl<O>, new: &Creation<'_>) -> Done {
    let numbers = new.object..new.object.saturating_add(new.slots.max(1));
    zpl.make_way(numbers).map_err(failure)
}

fn replayed_object<'a>(new: &Creation<'a>, parent: &Stored) -> Done<NewObject<'a>> {
    let size = new.link.map_or(0, |to| to.len() as u64);
    let owner = (new.mode, new.uid, new.gid);
    let mut stored = Stored {
        generation: new.generation,
        slots: new.slots,
        ..fresh(new.directory, owner, size, new.device, new.crtime, parent)
    };
    if let Some(options) = &new.options {
        let set = optional(options, &stored);
        stored = merged(&stored, &set);
        stored.has = stored.has.with(set.has);
    }
    if let Some(then) = &new.then {
        stored = merged(&stored, &of_creation(then, &stored));
    }
    let list = new.list.map(logged_list);
    Ok(NewObject {
        stored,
        link: new.link,
        claims: Some(new.object),
        list: list.transpose()?,
        then: None,
    })
}

/// The attributes that the creation has set in addition to those of a kernel's record.
fn of_creation(then: &Setting, stored: &Stored) -> Stored {
    let wanted = wanted(then);
    let is_file = kind_of(stored.mode) == Some(Kind::File);
    let size = wanted
        .size
        .filter(|size| is_file && *size <= FILE_BYTES_MAX);
    let mut set = Stored {
        size: size.unwrap_or_default(),
        atime: then.atime,
        mtime: then.mtime,
        ..Stored::default()
    };
    for (is_set, has) in [
        (size.is_some(), Has::SIZE),
        (wanted.accessed.is_some(), Has::ATIME),
        (wanted.modified.is_some(), Has::MTIME),
    ] {
        if is_set {
            set.has = set.has.with(has);
        }
    }
    set
}

/// The optional attributes that were set.
fn optional(options: &Options, stored: &Stored) -> Stored {
    let [which, values] = options.flags;
    let mut set = Stored {
        flags: stored.flags & !which | values,
        has: Has::FLAGS,
        ..Stored::default()
    };
    let project = options.project;
    if let Some(project) = project.filter(|_| may_have_project(stored.mode)) {
        set.flags |= flag::PROJECT;
        set.project = project;
        set.has = set.has.with(Has::PROJECT);
    }
    if let Some(created) = options.created {
        set.crtime = created;
        set.has = set.has.with(Has::CRTIME);
    }
    set
}

/// The directory of an object's extended attributes, which has no name.
fn make_extended<O: Objects>(zpl: &Zpl<O>, new: &Creation<'_>) -> Done {
    make_way(zpl, new)?;
    let _changing = zpl.locks.change(&[new.directory]);
    let owner = zpl.objects.stored(new.directory).map_err(failure)?;
    let mut made = replayed_object(new, &owner)?.stored;
    made.flags |= flag::EXTENDED;
    let list = acl::trivial((made.mode & 0o777) as u32, Kind::Directory);
    let steps = [
        Step::Make {
            claims: Some(new.object),
            stored: &made,
            acl: &list,
            link: None,
        },
        Step::Set {
            object: new.directory,
            stored: Stored {
                extended: new.object,
                has: Has::EXTENDED,
                ..Stored::default()
            },
            acl: None,
        },
        logged(&Record::MakeExtended(*new)),
    ];
    zpl.objects.change(&steps, false).map_err(failure)?;
    Ok(())
}

fn clone<O: Objects>(
    zpl: &Zpl<O>,
    record: &Record<'_>,
    object: u64,
    stored: &Stored,
    (offset, length, pointers): (u64, u64, &[u8]),
) -> Done {
    let Record::Clone { block_size, .. } = *record else {
        return Err(FileError::Invalid);
    };
    let _changing = zpl.locks.change(&[object]);
    let end = offset + length;
    let mut runs = zpl
        .lock_later_writes()
        .runs(object, offset, (end, block_size));
    let clone_step = |(from, to): (u64, u64)| {
        let pointer = |at: u64| ((at - offset).div_ceil(block_size) as usize) * POINTER_BYTES;
        Step::Clone {
            object,
            offset: from,
            length: to - from,
            pointers: &pointers[pointer(from)..pointer(to)],
            block_size: Some(block_size).filter(|size| *size > stored.block_size),
        }
    };
    let last = runs.pop();
    for run in runs {
        let change = zpl.objects.change(&[clone_step(run)], false);
        change.map_err(failure)?;
    }
    let time = now_after(stored.ctime);
    let mut steps = Vec::from_iter(last.map(clone_step));
    steps.extend([
        Step::Set {
            object,
            stored: Stored {
                size: stored.size.max(end),
                mtime: time,
                ctime: time,
                has: Has::SIZE.with(Has::MTIME).with(Has::CTIME),
                ..Stored::default()
            },
            acl: None,
        },
        logged(record),
    ]);
    zpl.objects.change(&steps, false).map_err(failure)?;
    Ok(())
}

fn write<O: Objects>(
    zpl: &Zpl<O>,
    object: u64,
    stored: &Stored,
    range: (u64, u64),
    bytes: Bytes<'_>,
) -> Done {
    let _changing = zpl.locks.change(&[object]);
    let (offset, bytes) = match bytes {
        Bytes::Here(bytes) => (range.0, bytes),
        // All of the block at that time; it may extend past the end of the file.
        Bytes::Block(bytes) if bytes.len() as u64 > range.1 => {
            (range.0 - range.0 % bytes.len() as u64, bytes)
        }
        Bytes::Block(bytes) => (range.0, bytes),
    };
    zpl.write_piece(object, stored, (offset, bytes), range)
        .map(drop)
}

/// The data was written already, by another record.
fn grow<O: Objects>(zpl: &Zpl<O>, record: &Record<'_>, object: u64, size: u64, end: u64) -> Done {
    let _changing = zpl.locks.change(&[object]);
    let grown = Stored {
        size: size.max(end),
        has: Has::SIZE,
        ..Stored::default()
    };
    let step = Step::Set {
        object,
        stored: grown,
        acl: None,
    };
    let change = zpl.objects.change(&[step, logged(record)], false);
    change.map_err(failure)?;
    Ok(())
}

fn truncate<O: Objects>(zpl: &Zpl<O>, node: Node, size: u64, offset: u64, length: u64) -> Done {
    let end = offset + length;
    if length == 0 || end > size {
        let cut = SetAttributes {
            size: Some(end),
            ..SetAttributes::default()
        };
        zpl.set(&ROOT, node, (&cut, &Guard::default()), None)?;
    }
    match length {
        0 => Ok(()),
        length => zpl.punch(node, offset, length),
    }
}

/// Flags, a project, and the creation time. The change of the other attributes notes that the record was replayed.
fn set_optional<O: Objects>(zpl: &Zpl<O>, record: &Setting, stored: &Stored) -> Done {
    if record.mask & set::OPTIONS == 0 {
        return Ok(());
    }
    let step = |object, stored| Step::Set {
        object,
        stored,
        acl: None,
    };
    let set = optional(&record.options, stored);
    let mut steps = vec![step(record.object, set)];
    // The directory of its extended attributes belongs to its project, too.
    if set.has.has(Has::PROJECT) && stored.extended != 0 {
        let extended = zpl.objects.stored(stored.extended).map_err(failure)?;
        let set = Stored {
            flags: extended.flags | flag::PROJECT,
            project: set.project,
            has: Has::FLAGS.with(Has::PROJECT),
            ..Stored::default()
        };
        steps.push(step(stored.extended, set));
    }
    zpl.objects.change(&steps, false).map_err(failure)?;
    Ok(())
}

/// The changes that a record of attributes requests.
fn wanted(record: &Setting) -> SetAttributes {
    let has = |mask: u64| record.mask & mask != 0;
    let id = |mask, id: u64| has(mask).then_some(id).and_then(|id| id.try_into().ok());
    let time = |mask, time| has(mask).then(|| SetTime::To(time_of(time)));
    SetAttributes {
        mode: has(set::MODE).then_some((record.mode & MODE_MASK) as u32),
        uid: id(set::UID, record.uid),
        gid: id(set::GID, record.gid),
        size: has(set::SIZE).then_some(record.size),
        accessed: time(set::ATIME, record.atime),
        modified: time(set::MTIME, record.mtime),
    }
}

// A replayed object has all attributes of a new one.
const _: () = assert!(Has::NEW.has(Has::GENERATION));
