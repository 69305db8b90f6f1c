//! Contents of files. There are no opens: each call is checked separately.

use file_system::{Done, FileError, Kind, Permissions};

use super::{At, Call, HANDLE_BYTES_MAX, PAYLOAD_BYTES_MAX, Replied, Status};
use crate::exports::Place;
use crate::objects;
use crate::xdr::{Malformed, Reader, Writer};

/// `UNSTABLE`.
const UNSTABLE: u32 = 0;
/// `FILE_SYNC`.
const FILE_SYNC: u32 = 2;
/// Access bits of an open.
const READ: u32 = 1;
pub(super) const WRITE: u32 = 2;
/// As in version 4.
const LONG_READ_BYTES: u32 = 64 << 10;

/// Returns the size of a `READ` if it is large.
pub(super) fn long_read(reader: &mut Reader<'_>) -> Result<Option<u32>, Malformed> {
    reader.opaque(HANDLE_BYTES_MAX)?;
    reader.u64()?;
    let bytes = reader.u32()?.min(PAYLOAD_BYTES_MAX);
    Ok(Some(bytes).filter(|bytes| *bytes >= LONG_READ_BYTES))
}

/// Whether a `WRITE` must be durable.
pub(super) fn is_stable(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    reader.opaque(HANDLE_BYTES_MAX)?;
    reader.u64()?;
    reader.u32()?;
    Ok(reader.u32()? != UNSTABLE)
}

impl Call<'_> {
    pub(super) fn check_regular(&self, at: &At) -> Replied {
        match at.files.attributes(at.node())?.kind {
            Kind::File => Ok(()),
            Kind::Directory => Err(Status::ISDIR.into()),
            _ => Err(Status::INVAL.into()),
        }
    }

    /// Checks that the caller may read or write a file. The owner may always, because the file may
    /// have been opened before the permission was removed. Returns the permissions.
    fn authorize(&self, at: &At, access: u32) -> Replied<Permissions> {
        self.check_regular(at)?;
        let may = at.files.permissions(&at.who, at.node())?;
        let allowed = match access {
            READ => may.read || may.execute,
            _ => may.write,
        };
        let is_owner = || Ok::<_, FileError>(at.files.attributes(at.node())?.uid == at.who.uid);
        let adds = access == WRITE && may.append;
        let mut found = may;
        if !allowed && is_owner()? {
            found.write = true;
        } else if !allowed && !adds {
            return Err(Status::ACCES.into());
        }
        self.check_denials(at.place, access)?;
        Ok(found)
    }

    /// Another client may have an open that denies the use, or may reclaim one.
    pub(super) fn check_denials(&self, place: Place, access: u32) -> Done {
        let (file, address) = (self.exports.handle(place), self.caller.from.address);
        self.service
            .check_use(file, access, address, self.caller.now_ms)
    }

    pub(super) fn read(&mut self, at: &At, reader: &mut Reader<'_>, out: &mut Writer) -> Replied {
        let (offset, count) = (reader.u64()?, reader.u32()?.min(PAYLOAD_BYTES_MAX));
        self.authorize(at, READ)?;
        self.write_now(at, out);
        let place = out.len();
        out.u32(0);
        out.boolean(false);
        let read = objects::read_into(&*at.files, (at.node(), offset, count as usize), out)?;
        self.moved.read(read.length);
        out.set_u32(place, read.length as u32);
        out.set_u32(place + 4, read.is_end.into());
        Ok(())
    }

    pub(super) fn write(&mut self, at: &At, reader: &mut Reader<'_>, out: &mut Writer) -> Replied {
        let (offset, count, stability) = (reader.u64()?, reader.u32()?, reader.u32()?);
        let bytes = reader.opaque(PAYLOAD_BYTES_MAX as usize)?;
        if stability > FILE_SYNC {
            return Err(Malformed.into());
        }
        let bytes = bytes.get(..count as usize).ok_or(Status::INVAL)?;
        at.may_change()?;
        let may = self.authorize(at, WRITE)?;
        if bytes.is_empty() {
            out.boolean(false);
            self.write_now(at, out);
        } else {
            let changed = match may.write {
                true => at.files.write(at.node(), offset, bytes)?,
                // A caller with read permission may rewrite equal data, because clients write whole
                // pages.
                false => at.files.append(at.node(), offset, bytes, may.read)?,
            };
            self.write_change(at.place, &changed, out);
        }
        let committed = match stability {
            // An append must be durable: a client could not repeat it after a crash.
            UNSTABLE if may.write => UNSTABLE,
            _ => {
                at.commit(Some(at.node()))?;
                FILE_SYNC
            }
        };
        self.moved.wrote(bytes.len() as u64);
        out.u32(bytes.len() as u32);
        out.u32(committed);
        out.fixed(&self.service.verifier());
        Ok(())
    }

    pub(super) fn commit(&self, at: &At, reader: &mut Reader<'_>, out: &mut Writer) -> Replied {
        let (_offset, _count) = (reader.u64()?, reader.u32()?);
        self.check_regular(at)?;
        at.commit(Some(at.node()))?;
        out.boolean(false);
        self.write_now(at, out);
        out.fixed(&self.service.verifier());
        Ok(())
    }
}
