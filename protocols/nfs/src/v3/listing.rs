//! `READDIR` and `READDIRPLUS`.

use file_system::{Attributes, COOKIE_LAST, FileError, Kind};

use super::{At, Call, PAYLOAD_BYTES_MAX, Replied, Status};
use crate::exports::{NameOwner, Place};
use crate::listing::Batch;
use crate::xdr::{Reader, Writer};

/// The cookies of `.` and `..`.
const SELF_COOKIE: u64 = 1;
const PARENT_COOKIE: u64 = 2;
/// Bytes after the last entry.
const END_BYTES: usize = 8;

/// The room in a reply.
struct Room {
    start: usize,
    bytes_max: usize,
    /// Whether attributes and filehandles are included.
    is_plus: bool,
    is_empty: bool,
}

impl Call<'_> {
    pub(super) fn list(
        &mut self,
        at: &At,
        reader: &mut Reader<'_>,
        is_plus: bool,
        out: &mut Writer,
    ) -> Replied {
        let cookie = reader.u64()?;
        // Cookies remain valid, so that there is nothing to verify.
        let _verifier: [u8; 8] = reader.array()?;
        let mut bytes_max = reader.u32()?;
        if is_plus {
            // The first limit is for names only, and smaller than the second.
            bytes_max = reader.u32()?;
        }
        let attributes = at.files.attributes(at.node())?;
        if attributes.kind != Kind::Directory {
            return Err(Status::NOTDIR.into());
        }
        if !at.files.permissions(&at.who, at.node())?.read {
            return Err(Status::ACCES.into());
        }
        let mut room = Room {
            start: out.len() - 4,
            bytes_max: bytes_max.min(PAYLOAD_BYTES_MAX) as usize,
            is_plus,
            is_empty: true,
        };
        self.write_after(at.place, &attributes, out);
        out.u64(0);
        let is_whole = self.list_dots(at, cookie, &mut room, out)?
            && self.list_entries(at, cookie, &mut room, out)?
            && self.list_child_mounts(at, cookie, &mut room, out)?;
        if room.is_empty && !is_whole {
            return Err(Status::TOOSMALL.into());
        }
        out.boolean(false);
        out.boolean(is_whole);
        Ok(())
    }

    /// Lists `.` and `..`. Returns whether there was room for both.
    fn list_dots(
        &mut self,
        at: &At,
        cookie: u64,
        room: &mut Room,
        out: &mut Writer,
    ) -> Replied<bool> {
        for (name, own) in [(&b"."[..], SELF_COOKIE), (b"..", PARENT_COOKIE)] {
            if cookie >= own {
                continue;
            }
            let Ok(found) = self.find(at, name) else {
                continue;
            };
            let attributes = found.files.attributes(found.node());
            let known = attributes.ok().map(|attributes| (found.place, attributes));
            let object = self.exports.handle(found.place).node.object;
            if !self.write_entry(name, own, object, known, room, out) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lists the entries of the directory that are not covered. Returns whether there was room for
    /// all.
    fn list_entries(
        &self,
        at: &At,
        cookie: u64,
        room: &mut Room,
        out: &mut Writer,
    ) -> Replied<bool> {
        let mut cookie = match cookie {
            0..=PARENT_COOKIE => 0,
            other => other,
        };
        if cookie > COOKIE_LAST {
            return Ok(true);
        }
        loop {
            let mut batch = Batch::default();
            let visit = &mut |entry: file_system::Entry<'_>| batch.take(&entry);
            let read = at.files.read_directory(&at.who, at.node(), cookie, visit);
            let is_last = read.map_err(|error| match error {
                FileError::BadCookie => Status::BAD_COOKIE.into(),
                other => super::Failed::from(other),
            })?;
            for (name, object, next) in batch.iter() {
                cookie = next;
                if let NameOwner::FileSystem(_) = self.owner(at, name) {
                    continue;
                }
                let known = match at.files.object(at.node(), object) {
                    Ok(known) => {
                        let place = Place {
                            node: known.node,
                            ..at.place
                        };
                        Some((place, known.attributes))
                    }
                    Err(FileError::Gone) => return Err(super::Failed::Gone),
                    // It was removed concurrently.
                    Err(FileError::Stale) => continue,
                    Err(_) => None,
                };
                if !self.write_entry(name, next, object, known, room, out) {
                    return Ok(false);
                }
            }
            if is_last {
                return Ok(true);
            }
        }
    }

    /// Lists the file systems below the directory. Returns whether there was room for all.
    fn list_child_mounts(
        &self,
        at: &At,
        cookie: u64,
        room: &mut Room,
        out: &mut Writer,
    ) -> Replied<bool> {
        for one in self
            .exports
            .child_mounts(at.place, cookie, &self.caller.from)
        {
            let files = &self.exports.export(one.place.export).files;
            let attributes = files.attributes(one.place.node).ok();
            let known = attributes.map(|attributes| (one.place, attributes));
            let object = one.place.node.object;
            if !self.write_entry(one.name, one.cookie, object, known, room, out) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes one entry. Returns whether there was room.
    fn write_entry(
        &self,
        name: &[u8],
        cookie: u64,
        object: u64,
        known: Option<(Place, Attributes)>,
        room: &mut Room,
        out: &mut Writer,
    ) -> bool {
        // A snapshot is mounted there. Clients would mistake the number of its root for the number
        // of the directory, so that they must look it up instead.
        let known = known.filter(|(place, _)| self.exports.handle(*place).node.object == object);
        // Attributes of a file system that requires stronger security are not disclosed.
        let security = self.caller.from.security;
        let known = known.filter(|(place, _)| self.exports.export(place.export).takes(security));
        let before = out.len();
        out.boolean(true);
        out.u64(object);
        out.opaque(name);
        out.u64(cookie);
        match known {
            _ if !room.is_plus => {}
            Some((place, attributes)) => {
                self.write_after(place, &attributes, out);
                self.write_handle(place, out);
            }
            None => {
                out.boolean(false);
                out.boolean(false);
            }
        }
        if out.len() - room.start + END_BYTES > room.bytes_max {
            out.truncate(before);
            return false;
        }
        room.is_empty = false;
        true
    }
}
