//! Operations on names in directories.

use file_system::{
    Changed, Done, FileError, Kind, Make, Object, Removable, SetAttributes, SetTime, Time,
};

use super::contents::WRITE;
use super::{At, Call, Failed, NAME_BYTES_MAX, Replied, Status, attributes};
use crate::exports::{NameOwner, Place};
use crate::xdr::{Malformed, Reader, Writer};

/// `createmode3` (RFC 1813, 3.3.8).
const UNCHECKED: u32 = 0;
const GUARDED: u32 = 1;
const EXCLUSIVE: u32 = 2;

/// The created object and the change of its directory; `None` if an earlier server has created it.
struct Created {
    object: Object,
    directory: Option<Changed>,
}

/// Encodes the verifier of an exclusive create in the times of a new file, with values that every
/// file system can store.
fn times_of(verifier: [u8; 8]) -> (Time, Time) {
    let half = |at: usize| u32::from_be_bytes(verifier[at..at + 4].try_into().expect("four bytes"));
    let time = |seconds: u32| Time {
        seconds: (seconds & 0x7fff_ffff).into(),
        nanoseconds: seconds >> 31,
    };
    (time(half(0)), time(half(4)))
}

/// Checks that a name is valid in a directory.
fn check_name(name: &[u8]) -> Replied<&[u8]> {
    match name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        true => Err(Status::ACCES.into()),
        false => Ok(name),
    }
}

impl Call<'_> {
    fn check_directory(&self, at: &At) -> Replied {
        match at.files.attributes(at.node())?.kind {
            Kind::Directory => Ok(()),
            _ => Err(Status::NOTDIR.into()),
        }
    }

    /// Resolves a name in a directory.
    pub(super) fn find(&mut self, at: &At, name: &[u8]) -> Replied<At> {
        self.check_directory(at)?;
        let from = &self.caller.from;
        let place = match name {
            b"." => at.place,
            b".." if at.place == self.exports.root(from) => at.place,
            b".." => match self.exports.above(at.place, from) {
                Some(above) => above,
                None => Place {
                    node: at.files.parent(&at.who, at.node())?,
                    ..at.place
                },
            },
            _ => match self.owner(at, check_name(name)?) {
                NameOwner::FileSystem(child_mount) => {
                    let may = at.files.permissions(&at.who, at.node())?;
                    if !may.execute {
                        return Err(Status::ACCES.into());
                    }
                    child_mount
                }
                NameOwner::Directory | NameOwner::Hidden => Place {
                    node: self.look_up_own(at, name)?.node,
                    ..at.place
                },
            },
        };
        self.enter(place)
    }

    /// Returns the owner of a name in a directory.
    pub(super) fn owner(&self, at: &At, name: &[u8]) -> NameOwner {
        self.exports.owner(at.place, name, &self.caller.from)
    }

    /// Returns the entry of a directory.
    fn look_up_own(&self, at: &At, name: &[u8]) -> Done<Object> {
        let found = at.files.look_up(&at.who, at.node(), name);
        self.owner(at, name).found(found)
    }

    pub(super) fn look_up(
        &mut self,
        at: &At,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Replied {
        let name = reader.opaque(NAME_BYTES_MAX)?;
        let found = self.find(at, name)?;
        self.check_security(&found, super::procedure::LOOKUP)?;
        out.opaque(&self.exports.sign(found.place));
        self.write_now(&found, out);
        self.write_now(at, out);
        Ok(())
    }

    pub(super) fn read_link(&self, at: &At, out: &mut Writer) -> Replied {
        let attributes = at.files.attributes(at.node())?;
        if attributes.kind != Kind::Link {
            return Err(Status::INVAL.into());
        }
        let text = at.files.read_link(at.node())?;
        self.write_after(at.place, &attributes, out);
        out.opaque(&text);
        Ok(())
    }

    /// Creates an object and returns it with the change of its directory.
    fn make(
        &self,
        at: &At,
        name: &[u8],
        what: Make<'_>,
        changes: &SetAttributes,
        out: &mut Writer,
    ) -> Replied {
        let made = self.try_create(at, name, what, changes)?;
        self.finish_making(at, &made, out)
    }

    fn finish_making(&self, at: &At, made: &Created, out: &mut Writer) -> Replied {
        at.commit(None)?;
        self.write_made(at, &made.object, out);
        self.write_change_of(at, made.directory.as_ref(), out);
        Ok(())
    }

    fn try_create(
        &self,
        at: &At,
        name: &[u8],
        what: Make<'_>,
        changes: &SetAttributes,
    ) -> Replied<Created> {
        at.may_change()?;
        self.check_directory(at)?;
        let name = check_name(name)?;
        if matches!(name, b"." | b"..") {
            return Err(Status::EXIST.into());
        }
        self.owner(at, name).check_new()?;
        let made = self.once(at, |files, receipt| {
            files.make(&at.who, at.node(), name, what, changes, receipt)
        })?;
        Ok(match made {
            Some(made) => Created {
                object: made.object,
                directory: Some(made.directory),
            },
            None => Created {
                object: self.look_up_own(at, name)?,
                directory: None,
            },
        })
    }

    fn write_made(&self, at: &At, object: &Object, out: &mut Writer) {
        let place = Place {
            node: object.node,
            ..at.place
        };
        self.write_handle(place, out);
        self.write_after(place, &object.attributes, out);
    }

    pub(super) fn create(&self, at: &At, reader: &mut Reader<'_>, out: &mut Writer) -> Replied {
        let name = reader.opaque(NAME_BYTES_MAX)?;
        let (how, changes) = match reader.u32()? {
            how @ (UNCHECKED | GUARDED) => (how, attributes::read(reader)?),
            EXCLUSIVE => {
                let (accessed, modified) = times_of(reader.array()?);
                let changes = SetAttributes {
                    // Until its client has set the requested mode.
                    mode: Some(0o600),
                    accessed: Some(SetTime::To(accessed)),
                    modified: Some(SetTime::To(modified)),
                    ..SetAttributes::default()
                };
                (EXCLUSIVE, changes)
            }
            _ => return Err(Malformed.into()),
        };
        let made = self.try_create(at, name, Make::File, &changes);
        match made {
            Err(Failed::With(Status::EXIST)) if how != GUARDED => {
                self.commit_existing(at, name, how, &changes, out)
            }
            Err(failed) => Err(failed),
            Ok(made) => self.finish_making(at, &made, out),
        }
    }

    /// Commits and returns a file that already exists. With `EXCLUSIVE` its times must match the
    /// verifier.
    fn commit_existing(
        &self,
        at: &At,
        name: &[u8],
        how: u32,
        changes: &SetAttributes,
        out: &mut Writer,
    ) -> Replied {
        let found = at.files.look_up(&at.who, at.node(), name);
        let mut found = self
            .owner(at, name)
            .taken(found)
            .map_err(|error| match error {
                FileError::IsDirectory => FileError::Exists,
                other => other,
            })?;
        if found.attributes.kind != Kind::File {
            return Err(Status::EXIST.into());
        }
        let is_time = |time: Time, wanted: Option<SetTime>| wanted == Some(SetTime::To(time));
        if how == EXCLUSIVE {
            let is_own = is_time(found.attributes.accessed, changes.accessed)
                && is_time(found.attributes.modified, changes.modified);
            if !is_own {
                return Err(Status::EXIST.into());
            }
        } else if let Some(size) = changes.size {
            let may = at.files.permissions(&at.who, found.node)?;
            if !may.write {
                return Err(Status::ACCES.into());
            }
            let place = Place {
                node: found.node,
                ..at.place
            };
            self.check_denials(place, WRITE)?;
            let cut = SetAttributes {
                size: Some(size),
                ..SetAttributes::default()
            };
            let guard = file_system::Guard::default();
            let changed = at
                .files
                .set_attributes(&at.who, found.node, &cut, &guard, None)?;
            found.attributes = changed.after;
            at.commit(None)?;
        }
        self.write_made(at, &found, out);
        out.boolean(false);
        self.write_now(at, out);
        Ok(())
    }

    pub(super) fn make_directory(
        &self,
        at: &At,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Replied {
        let name = reader.opaque(NAME_BYTES_MAX)?;
        let changes = attributes::read(reader)?;
        self.make(at, name, Make::Directory, &changes, out)
    }

    pub(super) fn make_link(&self, at: &At, reader: &mut Reader<'_>, out: &mut Writer) -> Replied {
        let name = reader.opaque(NAME_BYTES_MAX)?;
        let changes = attributes::read(reader)?;
        let text = reader.opaque(NAME_BYTES_MAX)?;
        if text.is_empty() {
            return Err(Status::INVAL.into());
        }
        self.make(at, name, Make::Link(text), &changes, out)
    }

    pub(super) fn make_special(
        &self,
        at: &At,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Replied {
        let name = reader.opaque(NAME_BYTES_MAX)?;
        let kind = reader.u32()?;
        if !(3..=7).contains(&kind) || kind == 5 {
            return Err(Status::BADTYPE.into());
        }
        let changes = attributes::read(reader)?;
        let what = match kind {
            3 => Make::BlockDevice(reader.u32()?, reader.u32()?),
            4 => Make::CharacterDevice(reader.u32()?, reader.u32()?),
            6 => Make::Socket,
            _ => Make::Pipe,
        };
        if !what.is_possible() {
            return Err(Status::INVAL.into());
        }
        self.make(at, name, what, &changes, out)
    }

    pub(super) fn remove(
        &self,
        at: &At,
        reader: &mut Reader<'_>,
        is_directory: bool,
        out: &mut Writer,
    ) -> Replied {
        let name = reader.opaque(NAME_BYTES_MAX)?;
        at.may_change()?;
        self.check_directory(at)?;
        let name = check_name(name)?;
        let what = match is_directory {
            true => Removable::Directory,
            false => Removable::NoDirectory,
        };
        if matches!(name, b"." | b"..") {
            return Err(Status::INVAL.into());
        }
        self.owner(at, name).check_old()?;
        let changed = self.once(at, |files, receipt| {
            files.remove(&at.who, at.node(), name, what, receipt)
        })?;
        at.commit(None)?;
        self.write_change_of(at, changed.as_ref(), out);
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        from: &At,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Replied {
        let old = reader.opaque(NAME_BYTES_MAX)?;
        let to = self.at(reader)?;
        let new = reader.opaque(NAME_BYTES_MAX)?;
        from.may_change()?;
        if from.place.export != to.place.export {
            return Err(Status::XDEV.into());
        }
        self.check_directory(from)?;
        self.check_directory(&to)?;
        let (old, new) = (check_name(old)?, check_name(new)?);
        let is_dot = |name: &[u8]| matches!(name, b"." | b"..");
        if is_dot(old) || is_dot(new) {
            return Err(Status::INVAL.into());
        }
        self.owner(from, old).check_old()?;
        self.owner(&to, new).check_new()?;
        let places = ((from.node(), old), (to.node(), new));
        let renamed = self.once(from, |files, receipt| {
            files.rename(&from.who, places.0, places.1, receipt)
        });
        let renamed = renamed.map_err(|error| match error {
            FileError::NotEmpty => Status::EXIST.into(),
            other => Failed::from(other),
        })?;
        from.commit(None)?;
        let renamed = renamed.as_ref();
        self.write_change_of(from, renamed.map(|renamed| &renamed.from), out);
        self.write_change_of(&to, renamed.map(|renamed| &renamed.to), out);
        Ok(())
    }

    pub(super) fn link(&mut self, at: &At, reader: &mut Reader<'_>, out: &mut Writer) -> Replied {
        let directory = self.at(reader)?;
        let name = reader.opaque(NAME_BYTES_MAX)?;
        at.may_change()?;
        if at.place.export != directory.place.export {
            return Err(Status::XDEV.into());
        }
        self.check_directory(&directory)?;
        let name = check_name(name)?;
        self.owner(&directory, name).check_new()?;
        let changed = self.once(at, |files, receipt| {
            files.link(&at.who, at.node(), directory.node(), name, receipt)
        })?;
        at.commit(None)?;
        self.write_now(at, out);
        self.write_change_of(&directory, changed.as_ref(), out);
        Ok(())
    }
}
