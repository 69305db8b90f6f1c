//! Operations on filehandles, attributes and names.

use file_system::{
    Attributes, COOKIE_LAST, Done, FileError, Guard, Kind, Make, Node, Object, Removable,
    SetAttributes, acl,
};

use super::attributes::{self, Bitmap, Unread, Wanted};
use super::compound::Call;
use super::numbers::Status;
use super::opens::WRITE;
use crate::exports::{NameOwner, Place};
use crate::listing::Batch;
use crate::objects::{rights_by, rights_of};
use crate::rpc::{AUTH_GSS, AUTH_NONE, AUTH_SYS};
use crate::sharenfs::Security;
use crate::xdr::{Reader, Writer};

/// Maximum bytes of a name or link target.
const NAME_BYTES_MAX: usize = 4096;
/// Reserved cookies of `.` and `..`, which are never returned.
const RESERVED_COOKIES: std::ops::RangeInclusive<u64> = 1..=2;
/// Bytes of a `READDIR` reply without entries.
const EMPTY_DIRECTORY_BYTES: usize = 16;

/// The room in a `READDIR` reply.
struct Listing<'a> {
    wanted: &'a Bitmap,
    start: usize,
    bytes_max: usize,
    is_empty: bool,
}

/// The outcome of an entry.
enum EntryOutcome {
    Yes,
    /// It was removed concurrently.
    Gone,
    NoRoom,
}

impl Call<'_> {
    pub(super) fn put_handle(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        let place = self.read_handle(reader)?;
        self.go_to(place)?;
        self.check_security_before(reader)
    }

    pub(super) fn put_root(&mut self, reader: &Reader<'_>) -> Result<(), Status> {
        let root = self.exports.root(&self.caller.from);
        self.go_to(root)?;
        self.check_security_before(reader)
    }

    pub(super) fn get_handle(&mut self, out: &mut Writer) -> Result<(), Status> {
        out.opaque(&self.exports.sign(self.place()?));
        Ok(())
    }

    pub(super) fn save_handle(&mut self) -> Result<(), Status> {
        self.saved = Some(self.place()?);
        self.saved_stateid = self.stateid;
        Ok(())
    }

    pub(super) fn restore_handle(&mut self, reader: &Reader<'_>) -> Result<(), Status> {
        let place = self.saved.ok_or(match self.minor {
            0 => Status::RESTOREFH,
            _ => Status::NOFILEHANDLE,
        })?;
        self.go_to(place)?;
        self.stateid = self.saved_stateid;
        self.check_security_before(reader)
    }

    fn directory(&self) -> Result<Node, Status> {
        let node = self.node()?;
        match self.kind(node)? {
            Kind::Directory => Ok(node),
            _ => Err(Status::NOTDIR),
        }
    }

    /// Returns the current directory and a valid name.
    fn named<'n>(&self, name: &'n [u8]) -> Result<(Node, &'n [u8]), Status> {
        let directory = self.directory()?;
        Ok((directory, check_name(name)?))
    }

    /// Checks that an object is a directory. The error depends on its type.
    pub(super) fn check_searchable(&self, node: Node) -> Result<(), Status> {
        match self.kind(node)? {
            Kind::Directory => Ok(()),
            Kind::Link => Err(Status::SYMLINK),
            _ => Err(Status::NOTDIR),
        }
    }

    /// Resolves a name in the current directory: a file system or an entry. If the call's security
    /// is too weak, entries are not disclosed.
    pub(super) fn find(&self, name: &[u8]) -> Result<Place, Status> {
        let directory = self.place()?;
        if let NameOwner::FileSystem(place) = self.owner(directory.node, name) {
            let may = self.files().permissions(&self.who, directory.node)?;
            return if may.execute {
                Ok(place)
            } else {
                Err(Status::ACCESS)
            };
        }
        self.check_security()?;
        let found = self.look_up_own(directory.node, name);
        let found = found.map_err(|error| no_text(name, error.into()))?;
        Ok(Place {
            node: found.node,
            ..directory
        })
    }

    /// Returns the owner of a name in a directory of the current file system.
    pub(super) fn owner(&self, directory: Node, name: &[u8]) -> NameOwner {
        let place = Place {
            export: self.entered,
            node: directory,
        };
        self.exports.owner(place, name, &self.caller.from)
    }

    /// Refuses a new name that belongs to a file system or is not UTF-8. An existing entry, created
    /// by version 3 or by a kernel, may be replaced in any case.
    pub(super) fn check_new_name(&self, directory: Node, name: &[u8]) -> Result<(), Status> {
        self.owner(directory, name).check_new()?;
        match std::str::from_utf8(name).is_ok() || self.look_up_own(directory, name).is_ok() {
            true => Ok(()),
            false => Err(Status::INVAL),
        }
    }

    /// Returns the entry of a directory of the current file system.
    pub(super) fn look_up_own(&self, directory: Node, name: &[u8]) -> Done<Object> {
        let found = self.files().look_up(&self.who, directory, name);
        self.owner(directory, name).found(found)
    }

    /// Returns the existing entry, if a new one was refused because the name exists.
    pub(super) fn look_up_taken(&self, directory: Node, name: &[u8]) -> Done<Object> {
        let found = self.files().look_up(&self.who, directory, name);
        self.owner(directory, name).taken(found)
    }

    /// Returns the parent of the current directory.
    fn find_parent(&self) -> Result<Place, Status> {
        let place = self.place()?;
        let from = &self.caller.from;
        if place == self.exports.root(from) {
            return Err(Status::NOENT);
        }
        if let Some(above) = self.exports.above(place, from) {
            return Ok(above);
        }
        self.check_security()?;
        let node = self.files().parent(&self.who, place.node)?;
        Ok(Place { node, ..place })
    }

    pub(super) fn look_up(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        let name = reader.opaque(NAME_BYTES_MAX)?;
        let node = self.node()?;
        self.check_searchable(node)?;
        let found = self.find(check_name(name)?)?;
        self.go_to(found)?;
        self.check_security()
    }

    pub(super) fn look_up_parent(&mut self) -> Result<(), Status> {
        let node = self.node()?;
        self.check_searchable(node)?;
        let parent = self.find_parent()?;
        self.go_to(parent)?;
        self.check_security()
    }

    pub(super) fn get_attributes(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let wanted = Bitmap::read(reader)?;
        let place = self.place()?;
        wanted.check_readable()?;
        let attributes = self.files().attributes(place.node)?;
        self.write_attributes(place, &wanted, &attributes, out)
    }

    pub(super) fn set_attributes(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let id = self.read_stateid(reader)?;
        let unread = attributes::read(reader)?;
        let node = self.node()?;
        let wanted = self.understand(&unread)?;
        // The check was made by the earlier server that set it.
        if wanted.changes.size.is_some() && self.resumed.is_none() {
            self.regular(node)?;
            self.authorize(node, &id, WRITE)?;
        }
        // No attribute is changed if the list would be refused afterwards.
        if let Some(list) = &wanted.list {
            if !acl::is_possible(list, self.kind(node)?) {
                return Err(Status::INVAL);
            }
        }
        let (changes, guard) = (&wanted.changes, &Guard::default());
        self.once(|files, who, receipt| {
            let Some(list) = &wanted.list else {
                return files.set_attributes(who, node, changes, guard, receipt);
            };
            // The list is set last, because it determines the mode (RFC 8881, 6.4.1.3).
            if *changes != SetAttributes::default() {
                files.set_attributes(who, node, changes, guard, None)?;
            }
            files.set_acl(who, node, list, receipt)
        })?;
        wanted.bitmap.write(out);
        Ok(())
    }

    /// Decodes attributes to set in this file system.
    pub(super) fn understand(&self, unread: &Unread<'_>) -> Result<Wanted, Status> {
        unread.understand(self.minor, self.files().limits().has_acls)
    }

    pub(super) fn verify(
        &mut self,
        reader: &mut Reader<'_>,
        wants_same: bool,
    ) -> Result<(), Status> {
        let unread = attributes::read(reader)?;
        let place = self.place()?;
        let attributes = self.files().attributes(place.node)?;
        let is_same = self.with_source(place, &attributes, unread.bitmap(), |source| {
            unread.is_same(source)
        })?;
        match (is_same, wants_same) {
            (true, false) => Err(Status::SAME),
            (false, true) => Err(Status::NOT_SAME),
            _ => Ok(()),
        }
    }

    pub(super) fn access(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        const READ_EXTENDED: u32 = 0x40;
        const WRITE_EXTENDED: u32 = 0x80;
        const LIST_EXTENDED: u32 = 0x100;
        let asked = reader.u32()?;
        let node = self.node()?;
        let kind = self.kind(node)?;
        let mut known = rights_of(kind);
        let mut may = self.files().permissions(&self.who, node)?;
        if self.may_change().is_err() {
            may = may.fixed();
        }
        let mut granted = rights_by(kind, may);
        if self.minor >= 2 {
            known |= READ_EXTENDED | WRITE_EXTENDED | LIST_EXTENDED;
        }
        if may.read_extended {
            granted |= READ_EXTENDED | LIST_EXTENDED;
        }
        if may.write_extended {
            granted |= WRITE_EXTENDED;
        }
        out.u32(asked & known);
        out.u32(asked & known & granted);
        Ok(())
    }

    pub(super) fn security_of_name(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let raw_name = reader.opaque(NAME_BYTES_MAX)?;
        let (_, name) = self.named(raw_name)?;
        let found = self.in_same(self.find(name))?;
        self.write_security(found, out);
        Ok(())
    }

    /// Returns the found object, or the current object instead of an entry that may not be looked
    /// up: it is in the same file system.
    fn in_same(&self, found: Result<Place, Status>) -> Result<Place, Status> {
        match found {
            Err(Status::WRONGSEC) => self.place(),
            found => found,
        }
    }

    pub(super) fn security(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let style = reader.u32()?;
        self.node()?;
        let place = match style {
            0 => self.place()?,
            1 => {
                self.directory()?;
                self.in_same(self.find_parent())?
            }
            _ => return Err(Status::BADXDR),
        };
        self.write_security(place, out);
        Ok(())
    }

    /// Writes the accepted security flavors of an object. Since NFS 4.1 the operation consumes the
    /// current filehandle (RFC 8881, 2.6.3.1.1.8).
    fn write_security(&mut self, place: Place, out: &mut Writer) {
        let ways = self.exports.securities(place, &self.caller.from);
        let has_numbers = ways.contains(&Security::System);
        out.u32(ways.len() as u32 + u32::from(has_numbers));
        for way in ways {
            match way.service() {
                None => out.u32(AUTH_SYS),
                Some(service) => {
                    out.u32(AUTH_GSS);
                    out.opaque(kerberos::MECHANISM);
                    out.u32(0);
                    out.u32(service);
                }
            }
        }
        if has_numbers {
            out.u32(AUTH_NONE);
        }
        if self.minor > 0 {
            self.current = None;
            self.stateid = None;
        }
    }

    pub(super) fn create(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let kind = reader.u32()?;
        let what = match kind {
            2 => Some(Make::Directory),
            3 => Some(Make::BlockDevice(reader.u32()?, reader.u32()?)),
            4 => Some(Make::CharacterDevice(reader.u32()?, reader.u32()?)),
            5 => Some(Make::Link(reader.opaque(NAME_BYTES_MAX)?)),
            6 => Some(Make::Socket),
            7 => Some(Make::Pipe),
            _ => None,
        };
        let raw_name = reader.opaque(NAME_BYTES_MAX)?;
        let unread = attributes::read(reader)?;
        let (directory, name) = self.named(raw_name)?;
        let what = what.ok_or(Status::BADTYPE)?;
        if !what.is_possible() {
            return Err(Status::INVAL);
        }
        if matches!(what, Make::Link(b"")) {
            return Err(Status::INVAL);
        }
        let wanted = self.understand(&unread)?;
        self.check_new_name(directory, name)?;
        let made = self.once(|files, who, receipt| {
            wanted.make(files, who, (directory, name), what, receipt)
        })?;
        let node = match &made {
            Some(made) => made.object.node,
            None => self.look_up_own(directory, name)?.node,
        };
        let changed = made.as_ref().map(|made| &made.directory);
        self.write_change_of(directory, changed, out)?;
        wanted.bitmap.write(out);
        self.go_to_node(node);
        Ok(())
    }

    pub(super) fn remove(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let raw_name = reader.opaque(NAME_BYTES_MAX)?;
        let (directory, name) = self.named(raw_name)?;
        self.owner(directory, name).check_old()?;
        let changed = self.once(|files, who, receipt| {
            files.remove(who, directory, name, Removable::Any, receipt)
        });
        let changed = changed.map_err(|status| no_text(name, status))?;
        self.write_change_of(directory, changed.as_ref(), out)
    }

    pub(super) fn rename(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let (old, new) = (
            reader.opaque(NAME_BYTES_MAX)?,
            reader.opaque(NAME_BYTES_MAX)?,
        );
        let to = self.directory()?;
        let from = self.saved()?;
        if self.kind(from)? != Kind::Directory {
            return Err(Status::NOTDIR);
        }
        let (old, new) = (check_name(old)?, check_name(new)?);
        self.owner(from, old).check_old()?;
        self.check_new_name(to, new)?;
        let renamed = self.once(|files, who, receipt| {
            let renamed = files.rename(who, (from, old), (to, new), receipt);
            renamed.map_err(|error| match error {
                FileError::NotEmpty => FileError::Exists,
                other => other,
            })
        });
        let renamed = renamed.map_err(|status| no_text(old, status))?;
        let renamed = renamed.as_ref();
        self.write_change_of(from, renamed.map(|renamed| &renamed.from), out)?;
        self.write_change_of(to, renamed.map(|renamed| &renamed.to), out)
    }

    pub(super) fn link(&mut self, reader: &mut Reader<'_>, out: &mut Writer) -> Result<(), Status> {
        let raw_name = reader.opaque(NAME_BYTES_MAX)?;
        let directory = self.directory()?;
        let node = self.saved()?;
        let name = check_name(raw_name)?;
        self.check_new_name(directory, name)?;
        let changed =
            self.once(|files, who, receipt| files.link(who, node, directory, name, receipt))?;
        self.write_change_of(directory, changed.as_ref(), out)
    }

    pub(super) fn read_link(&mut self, out: &mut Writer) -> Result<(), Status> {
        let node = self.node()?;
        if self.kind(node)? != Kind::Link {
            return Err(Status::WRONG_TYPE);
        }
        out.opaque(&self.files().read_link(node)?);
        Ok(())
    }

    pub(super) fn read_directory(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let cookie = reader.u64()?;
        let _verifier: [u8; 8] = reader.array()?;
        let _names_bytes_max = reader.u32()?;
        let bytes_max = reader.u32()? as usize;
        let wanted = Bitmap::read(reader)?;
        self.directory()?;
        wanted.check_readable()?;
        if RESERVED_COOKIES.contains(&cookie) {
            return Err(Status::BAD_COOKIE);
        }
        let start = out.len();
        let bytes_max = bytes_max.min(self.room(start));
        if bytes_max < EMPTY_DIRECTORY_BYTES {
            return Err(Status::TOOSMALL);
        }
        out.u64(0);
        let mut listing = Listing {
            wanted: &wanted,
            start,
            bytes_max,
            is_empty: true,
        };
        let is_whole = self.list_entries(cookie, &mut listing, out)?
            && self.list_child_mounts(cookie, &mut listing, out)?;
        if listing.is_empty && !is_whole {
            return Err(Status::TOOSMALL);
        }
        out.boolean(false);
        out.boolean(is_whole);
        Ok(())
    }

    /// Lists the entries of the current directory that are not covered. Returns whether there was
    /// room for all.
    fn list_entries(
        &self,
        mut cookie: u64,
        listing: &mut Listing<'_>,
        out: &mut Writer,
    ) -> Result<bool, Status> {
        let directory = self.place()?;
        let covers = |name: &[u8]| {
            let owner = self.exports.owner(directory, name, &self.caller.from);
            matches!(owner, NameOwner::FileSystem(_))
        };
        if cookie > COOKIE_LAST {
            return Ok(true);
        }
        loop {
            let mut batch = Batch::default();
            let is_last =
                self.files()
                    .read_directory(&self.who, directory.node, cookie, &mut |entry| {
                        batch.take(&entry)
                    })?;
            for (name, object, next) in batch.iter() {
                cookie = next;
                if covers(name) {
                    continue;
                }
                let known = self.files().object(directory.node, object).map(|known| {
                    let place = Place {
                        node: known.node,
                        ..directory
                    };
                    (place, known.attributes)
                });
                if let EntryOutcome::NoRoom = self.write_entry(name, next, known, listing, out)? {
                    return Ok(false);
                }
            }
            if is_last {
                return Ok(true);
            }
        }
    }

    /// Lists the file systems below the current directory. Returns whether there was room for all.
    fn list_child_mounts(
        &self,
        cookie: u64,
        listing: &mut Listing<'_>,
        out: &mut Writer,
    ) -> Result<bool, Status> {
        let directory = self.place()?;
        let from = &self.caller.from;
        for one in self.exports.child_mounts(directory, cookie, from) {
            let files = &self.exports.export(one.place.export).files;
            let attributes = files.attributes(one.place.node);
            let known = attributes.map(|attributes| (one.place, attributes));
            if let EntryOutcome::NoRoom =
                self.write_entry(one.name, one.cookie, known, listing, out)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes one entry if there is room.
    fn write_entry(
        &self,
        name: &[u8],
        cookie: u64,
        known: Result<(Place, Attributes), FileError>,
        listing: &mut Listing<'_>,
        out: &mut Writer,
    ) -> Result<EntryOutcome, Status> {
        let before = out.len();
        out.boolean(true);
        out.u64(cookie);
        out.opaque(name);
        match known {
            Ok((place, attributes)) => {
                let export = self.exports.export(place.export);
                let wanted = match export.takes(self.caller.from.security) {
                    true => *listing.wanted,
                    false => listing.wanted.of_mount_points(),
                };
                let start = out.len();
                let tells = wanted.tells_errors();
                if wanted != *listing.wanted && tells {
                    attributes::write_error(out, Status::WRONGSEC);
                } else if let Err(status) = self.write_attributes(place, &wanted, &attributes, out)
                {
                    // Its list may be readable by other users only.
                    if !tells || status != Status::ACCESS {
                        return Err(status);
                    }
                    out.truncate(start);
                    attributes::write_error(out, status);
                }
            }
            Err(FileError::Gone) => return Err(Status::GONE),
            Err(_) if !listing.wanted.tells_errors() => {
                out.truncate(before);
                return Ok(EntryOutcome::Gone);
            }
            Err(error) => attributes::write_error(out, error.into()),
        }
        if out.len() - listing.start + 8 > listing.bytes_max {
            out.truncate(before);
            return Ok(EntryOutcome::NoRoom);
        }
        listing.is_empty = false;
        Ok(EntryOutcome::Yes)
    }
}

/// The status of an operation on a name that should exist: a name that is not UTF-8 is invalid only
/// if no such entry exists, so that all listed names can be used.
fn no_text(name: &[u8], status: Status) -> Status {
    match status {
        Status::NOENT if std::str::from_utf8(name).is_err() => Status::INVAL,
        status => status,
    }
}

/// Checks that a name is valid in a directory.
pub(super) fn check_name(name: &[u8]) -> Result<&[u8], Status> {
    if name.is_empty() {
        return Err(Status::INVAL);
    }
    if name.contains(&b'/') || name.contains(&0) {
        return Err(Status::BADCHAR);
    }
    if matches!(name, b"." | b"..") {
        return Err(Status::BADNAME);
    }
    Ok(name)
}
