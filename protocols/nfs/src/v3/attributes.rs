//! `fattr3`, `sattr3`, and the attributes of an object before and after a change (RFC 1813, 2.5 and
//! 2.6).

use file_system::{
    Attributes, Changed, FileSystemId, Guard, SetAttributes, SetTime, Time, is_owner,
};

use super::contents::WRITE;
use super::{At, Call, Replied, Status};
use crate::exports::Place;
use crate::objects::{kind_number, rights_by, rights_of};
use crate::xdr::{Malformed, Reader, Writer};

/// Times have 32 bits of seconds in this version. Other times are clamped.
fn write_time(out: &mut Writer, time: Time) {
    let seconds = time.seconds.clamp(0, u32::MAX.into());
    out.u32(seconds as u32);
    out.u32(time.nanoseconds);
}

fn read_time(reader: &mut Reader<'_>) -> Result<Time, Malformed> {
    Ok(Time {
        seconds: reader.u32()?.into(),
        nanoseconds: reader.u32()?,
    })
}

fn write(out: &mut Writer, id: FileSystemId, object: u64, attributes: &Attributes) {
    out.u32(kind_number(attributes.kind));
    out.u32(attributes.mode & 0o7777);
    for word in [attributes.links, attributes.uid, attributes.gid] {
        out.u32(word);
    }
    out.u64(attributes.size);
    out.u64(attributes.space);
    out.u32(attributes.device.0);
    out.u32(attributes.device.1);
    out.u64(id.guid ^ id.snapshot);
    out.u64(object);
    for time in [attributes.accessed, attributes.modified, attributes.changed] {
        write_time(out, time);
    }
}

/// `sattr3`.
pub(super) fn read(reader: &mut Reader<'_>) -> Replied<SetAttributes> {
    let read = SetAttributes {
        mode: read_if(reader, |reader| Ok(reader.u32()? & 0o7777))?,
        uid: read_if(reader, Reader::u32)?,
        gid: read_if(reader, Reader::u32)?,
        size: read_if(reader, Reader::u64)?,
        accessed: read_set_time(reader)?,
        modified: read_set_time(reader)?,
    };
    let owners = [read.uid, read.gid].into_iter().flatten();
    let is_time =
        |time: SetTime| !matches!(time, SetTime::To(time) if time.nanoseconds >= 1_000_000_000);
    let mut times = [read.accessed, read.modified].into_iter().flatten();
    match owners.into_iter().all(is_owner) && times.all(is_time) {
        true => Ok(read),
        false => Err(Status::INVAL.into()),
    }
}

fn read_if<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    match reader.boolean()? {
        true => read(reader).map(Some),
        false => Ok(None),
    }
}

fn read_set_time(reader: &mut Reader<'_>) -> Replied<Option<SetTime>> {
    match reader.u32()? {
        0 => Ok(None),
        1 => Ok(Some(SetTime::Now)),
        2 => {
            let time = read_time(reader)?;
            match time.nanoseconds < 1_000_000_000 {
                true => Ok(Some(SetTime::To(time))),
                false => Err(Status::INVAL.into()),
            }
        }
        _ => Err(Malformed.into()),
    }
}

impl Call<'_> {
    pub(super) fn write_fattr(&self, place: Place, attributes: &Attributes, out: &mut Writer) {
        let handle = self.exports.handle(place);
        write(out, handle.file_system, handle.node.object, attributes);
    }

    /// Writes known `post_op_attr`.
    pub(super) fn write_after(&self, place: Place, attributes: &Attributes, out: &mut Writer) {
        out.boolean(true);
        self.write_fattr(place, attributes, out);
    }

    /// Writes the current `post_op_attr`, if available.
    pub(super) fn write_now(&self, at: &At, out: &mut Writer) {
        match at.files.attributes(at.node()) {
            Ok(attributes) => self.write_after(at.place, &attributes, out),
            Err(_) => out.boolean(false),
        }
    }

    /// `wcc_data`.
    pub(super) fn write_change(&self, place: Place, changed: &Changed, out: &mut Writer) {
        out.boolean(true);
        out.u64(changed.before.size);
        write_time(out, changed.before.modified);
        write_time(out, changed.before.changed);
        self.write_after(place, &changed.after, out);
    }

    /// Writes `wcc_data`. For a change of an earlier server only the current attributes are known.
    pub(super) fn write_change_of(&self, at: &At, changed: Option<&Changed>, out: &mut Writer) {
        match changed {
            Some(changed) => self.write_change(at.place, changed, out),
            None => {
                out.boolean(false);
                self.write_now(at, out);
            }
        }
    }

    /// `post_op_fh3`.
    pub(super) fn write_handle(&self, place: Place, out: &mut Writer) {
        out.boolean(true);
        out.opaque(&self.exports.sign(place));
    }

    pub(super) fn get_attributes(&self, at: &At, out: &mut Writer) -> Replied {
        let attributes = at.files.attributes(at.node())?;
        self.write_fattr(at.place, &attributes, out);
        Ok(())
    }

    pub(super) fn set_attributes(
        &self,
        at: &At,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Replied {
        let changes = read(reader)?;
        let guard = Guard {
            changed: read_if(reader, read_time)?,
        };
        at.may_change()?;
        if changes.size.is_some() {
            self.check_regular(at)?;
        }
        let changed = self.once(at, |files, receipt| {
            if changes.size.is_some() {
                self.check_denials(at.place, WRITE)?;
            }
            files.set_attributes(&at.who, at.node(), &changes, &guard, receipt)
        })?;
        at.commit(None)?;
        self.write_change_of(at, changed.as_ref(), out);
        Ok(())
    }

    pub(super) fn access(&self, at: &At, reader: &mut Reader<'_>, out: &mut Writer) -> Replied {
        let asked = reader.u32()?;
        let attributes = at.files.attributes(at.node())?;
        let mut may = at.files.permissions(&at.who, at.node())?;
        if at.may_change().is_err() {
            may = may.fixed();
        }
        self.write_after(at.place, &attributes, out);
        out.u32(asked & rights_of(attributes.kind) & rights_by(attributes.kind, may));
        Ok(())
    }

    pub(super) fn statistics(&self, at: &At, out: &mut Writer) -> Replied {
        let space = at.files.statistics()?;
        self.write_now(at, out);
        for number in [
            space.bytes_total,
            space.bytes_free,
            space.bytes_free,
            space.files_total,
            space.files_free,
            space.files_free,
        ] {
            out.u64(number);
        }
        // The values may change at any time.
        out.u32(0);
        Ok(())
    }

    pub(super) fn limits(&self, at: &At, out: &mut Writer) -> Replied {
        const MULTIPLE: u32 = 4096;
        const DIRECTORY: u32 = 64 << 10;
        /// Hard links, symbolic links, `PATHCONF` is the same for all files, times can be set.
        const PROPERTIES: u32 = 0x01 | 0x02 | 0x08 | 0x10;
        let most = super::PAYLOAD_BYTES_MAX;
        at.files.attributes(at.node())?;
        self.write_now(at, out);
        for word in [most, most, MULTIPLE, most, most, MULTIPLE, DIRECTORY] {
            out.u32(word);
        }
        out.u64(at.files.limits().file_bytes_max);
        out.u32(0);
        out.u32(1);
        out.u32(PROPERTIES);
        Ok(())
    }

    pub(super) fn path_limits(&self, at: &At, out: &mut Writer) -> Replied {
        let limits = at.files.limits();
        at.files.attributes(at.node())?;
        self.write_now(at, out);
        out.u32(limits.links_max);
        out.u32(limits.name_bytes_max);
        // Too long names are refused, chown is restricted, and names preserve their case.
        out.boolean(true);
        out.boolean(true);
        out.boolean(limits.ignores_case);
        out.boolean(true);
        Ok(())
    }
}
