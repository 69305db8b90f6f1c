//! Operations on extended attributes (RFC 8276).

use file_system::SetExtended;

use super::compound::Call;
use super::numbers::Status;
use crate::xdr::{Reader, Writer};

/// Bytes of a name.
const NAME_BYTES_MAX: usize = 255;
/// Bytes of a value, as in Linux.
const VALUE_BYTES_MAX: usize = 64 << 10;

fn read_name<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Status> {
    let name = reader.opaque(NAME_BYTES_MAX)?;
    if name.is_empty() || std::str::from_utf8(name).is_err() || name.contains(&0) {
        return Err(Status::INVAL);
    }
    Ok(name)
}

impl Call<'_> {
    pub(super) fn get_extended(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let name = read_name(reader)?;
        let node = self.node()?;
        out.opaque(&self.files().extended(&self.who, node, name)?);
        Ok(())
    }

    pub(super) fn set_extended(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let how = match reader.u32()? {
            0 => SetExtended::Either,
            1 => SetExtended::Create,
            2 => SetExtended::Replace,
            _ => return Err(Status::BADXDR),
        };
        let name = read_name(reader)?;
        let length = Reader::new(reader.rest()).u32()?;
        let value = reader.opaque(usize::MAX)?;
        let node = self.node()?;
        if length as usize > VALUE_BYTES_MAX {
            return Err(Status::XATTR2BIG);
        }
        let changed = self
            .once(|files, who, receipt| files.set_extended(who, node, name, value, how, receipt))?;
        self.write_change_of(node, changed.as_ref(), out)
    }

    pub(super) fn remove_extended(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let name = read_name(reader)?;
        let node = self.node()?;
        let changed =
            self.once(|files, who, receipt| files.remove_extended(who, node, name, receipt))?;
        self.write_change_of(node, changed.as_ref(), out)
    }

    /// Lists names in order. The cookie is the number of names already returned.
    pub(super) fn list_extended(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let cookie = reader.u64()?;
        let bytes_max = reader.u32()? as usize;
        let node = self.node()?;
        let names = self.files().extended_names(&self.who, node)?;
        let first = usize::try_from(cookie)
            .ok()
            .filter(|first| *first <= names.len());
        let first = first.ok_or(Status::BAD_COOKIE)?;
        let bytes_max = bytes_max.min(self.room(out.len()));
        let start = out.len();
        out.u64(0);
        out.u32(0);
        let mut told = 0;
        for name in &names[first..] {
            let before = out.len();
            out.opaque(name);
            // The end marker follows.
            if out.len() - start + 4 > bytes_max {
                out.truncate(before);
                break;
            }
            told += 1;
        }
        let is_end = first + told == names.len();
        if told == 0 && !is_end {
            return Err(Status::TOOSMALL);
        }
        out.set_u64(start, (first + told) as u64);
        out.set_u32(start + 8, told as u32);
        out.boolean(is_end);
        Ok(())
    }
}
