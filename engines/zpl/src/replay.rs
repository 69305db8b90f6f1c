//! Replays the intent log: what was durable, and did not get into a transaction group before the crash. Each record
//! becomes one change, which also notes how far the replay has come.

use file_system::{
    Done, FileError, FileSystem, Guard, Identity, Node, Removable, SetAttributes, SetTime,
};

use crate::changes::{NewObject, fresh};
use crate::convert::{MODE_MASK, failure, time_of};
use crate::file_system::Zpl;
use crate::objects::{Has, ObjectError, Objects, Stored};
use crate::records::{Bytes, Creation, Record, Setting, decode, set};

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};

/// Replays all of the log. One that has nothing to replay only begins anew.
pub fn run<O: Objects>(zpl: &Zpl<O>) -> Result<(), ObjectError> {
    zpl.objects.replay_log(&mut |kind, body| {
        let record = decode(kind, body).map_err(|error| {
            tracing::error!(%error, "the intent log cannot be replayed");
            ObjectError::Io(0)
        })?;
        replay(zpl, &record).map_err(|error| {
            tracing::error!(kind, %error, "a record of the intent log cannot be replayed");
            match error {
                FileError::NoSpace => ObjectError::NoSpace,
                FileError::Quota => ObjectError::Quota,
                _ => ObjectError::Io(0),
            }
        })
    })
}

fn replay<O: Objects>(zpl: &Zpl<O>, record: &Record<'_>) -> Done {
    match *record {
        Record::Create(new) => create(zpl, &new),
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
            zpl.remove(&ROOT, directory, name, what).map(drop)
        }
        Record::Link {
            directory,
            object,
            name,
        } => {
            let (object, directory) = (node(zpl, object)?, node(zpl, directory)?);
            zpl.link(&ROOT, object, directory, name).map(drop)
        }
        Record::Rename { from, to } => {
            let from = (node(zpl, from.0)?, from.1);
            let to = (node(zpl, to.0)?, to.1);
            zpl.rename(&ROOT, from, to).map(drop)
        }
        Record::Write {
            object,
            offset,
            length,
            bytes,
        } => match zpl.objects.stored(object) {
            Ok(stored) => write(zpl, object, &stored, (offset, length), bytes),
            error => skip(error),
        },
        Record::Truncate {
            object,
            offset,
            length,
        } => match zpl.objects.stored(object) {
            Ok(stored) => truncate(zpl, of(object, &stored), stored.size, offset, length),
            error => skip(error),
        },
        Record::Set(set) => match zpl.objects.stored(set.object) {
            Ok(stored) => {
                let node = of(set.object, &stored);
                zpl.set(&ROOT, node, &wanted(&set), &Guard::default())
                    .map(drop)
            }
            error => skip(error),
        },
    }
}

/// Contents and attributes of a file that a later record removes, and that is gone already.
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

fn create<O: Objects>(zpl: &Zpl<O>, new: &Creation<'_>) -> Done {
    let _names = zpl.lock_names();
    let _changing = zpl.locks.change(&[new.directory]);
    let parent = zpl.directory(&ROOT, node(zpl, new.directory)?, true)?;
    let size = new.link.map_or(0, |to| to.len() as u64);
    let owner = (new.mode, new.uid, new.gid);
    let stored = Stored {
        generation: new.generation,
        slots: new.slots,
        ..fresh(new.directory, owner, size, new.device, new.crtime, &parent)
    };
    let new_object = NewObject {
        stored,
        link: new.link,
        claims: Some(new.object),
        then: None,
    };
    let made = zpl.create(new.directory, &parent, new.name, &new_object)?;
    debug_assert_eq!(made.object.node.object, new.object);
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
        // All of the block that the file had then; its end may be behind the file's.
        Bytes::Block(bytes) if bytes.len() as u64 > range.1 => {
            (range.0 - range.0 % bytes.len() as u64, bytes)
        }
        Bytes::Block(bytes) => (range.0, bytes),
    };
    zpl.write_piece(object, stored, (offset, bytes), range)
        .map(drop)
}

fn truncate<O: Objects>(zpl: &Zpl<O>, node: Node, size: u64, offset: u64, length: u64) -> Done {
    let end = offset + length;
    if length == 0 || end > size {
        let cut = SetAttributes {
            size: Some(end),
            ..SetAttributes::default()
        };
        zpl.set(&ROOT, node, &cut, &Guard::default())?;
    }
    match length {
        0 => Ok(()),
        length => zpl.punch(node, offset, length),
    }
}

/// What a record of attributes asks for.
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

// A replayed object has all that a new one has.
const _: () = assert!(Has::NEW.has(Has::GENERATION));
