//! Which compounds take so long that others should not wait for them, as far as a look at their beginning tells.

use file_system::{FileSystemId, Handle};

use super::compound::{HANDLE_BYTES_MAX, TAG_BYTES_MAX};
use super::kinds::changes_files;
use super::numbers::op;
use super::state::{MESSAGE_BYTES_MAX, OPERATIONS_MAX};
use crate::xdr::{Malformed, Reader};

/// Bytes of a read from which on others do not wait for it: the disks, and copies, take longer than to hand it to somebody else.
const LONG_READ_BYTES: u32 = 64 << 10;

/// Whether a compound, as far as a look at its beginning tells, takes so long that others should not wait for it: the bytes of its answer
/// beside those that every answer has.
pub fn takes_long(arguments: &[u8]) -> Option<u32> {
    looks_like_waiting(&mut Reader::new(arguments)).unwrap_or(None)
}

fn looks_like_waiting(reader: &mut Reader<'_>) -> Result<Option<u32>, Malformed> {
    const WITHOUT_PAYLOAD: Option<u32> = Some(0);
    const SESSION_AND_SLOT_BYTES: usize = 32;
    const STATEID_BYTES: usize = 16;
    reader.opaque(TAG_BYTES_MAX)?;
    reader.u32()?;
    for _ in 0..reader.count(OPERATIONS_MAX as usize)? {
        match reader.u32()? {
            op::SEQUENCE => drop(reader.fixed(SESSION_AND_SLOT_BYTES)?),
            op::PUTFH => drop(reader.opaque(HANDLE_BYTES_MAX)?),
            op::PUTROOTFH | op::SAVEFH | op::RESTOREFH => {}
            op::LOOKUP => drop(reader.opaque(MESSAGE_BYTES_MAX as usize)?),
            op::WRITE => {
                reader.fixed(STATEID_BYTES)?;
                reader.u64()?;
                let is_stable = reader.u32()? != 0;
                return Ok(WITHOUT_PAYLOAD.filter(|_| is_stable));
            }
            op::READ => {
                reader.fixed(STATEID_BYTES)?;
                reader.u64()?;
                let bytes = reader.u32()?.min(MESSAGE_BYTES_MAX);
                return Ok(Some(bytes).filter(|bytes| *bytes >= LONG_READ_BYTES));
            }
            op::OPEN => {
                for _ in 0..3 {
                    reader.u32()?;
                }
                reader.u64()?;
                reader.opaque(MESSAGE_BYTES_MAX as usize)?;
                let makes = reader.u32()? != 0;
                return Ok(WITHOUT_PAYLOAD.filter(|_| makes));
            }
            op::COMMIT => return Ok(WITHOUT_PAYLOAD),
            other => return Ok(WITHOUT_PAYLOAD.filter(|_| changes_files(other))),
        }
    }
    Ok(None)
}

/// The file system in which a call that goes on like this makes its changes, as far as a look tells: it begins with a handle and looks no
/// name up, by which it could come to another one.
pub(super) fn begins_in(mut rest: Reader<'_>) -> Option<FileSystemId> {
    let mut found = None;
    loop {
        match rest.u32().ok()? {
            op::PUTFH => {
                let handle = rest.opaque(HANDLE_BYTES_MAX).ok()?;
                let id = Handle::from_bytes(handle).ok()?.file_system;
                if found
                    .replace(id)
                    .is_some_and(|before: FileSystemId| before.whole() != id.whole())
                {
                    return None;
                }
            }
            op::SAVEFH | op::RESTOREFH => {}
            op::LOOKUP | op::LOOKUPP | op::PUTROOTFH | op::PUTPUBFH => return None,
            _ => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use file_system::Node;

    use super::*;
    use crate::xdr::Writer;

    fn put(writer: &mut Writer, guid: u64) {
        let file_system = FileSystemId { guid, snapshot: 0 };
        let node = Node {
            object: 34,
            generation: 1,
        };
        writer.u32(op::PUTFH);
        writer.opaque(&Handle { file_system, node }.to_bytes());
    }

    fn found(write: impl FnOnce(&mut Writer)) -> Option<u64> {
        let mut writer = Writer::new();
        write(&mut writer);
        begins_in(Reader::new(&writer.into_bytes())).map(|id| id.guid)
    }

    #[test]
    fn a_call_makes_its_changes_where_its_handles_are() {
        let change = |writer: &mut Writer| {
            put(writer, 7);
            writer.u32(op::CREATE);
        };
        assert_eq!(found(change), Some(7));
        let rename = |other: u64| {
            move |writer: &mut Writer| {
                put(writer, 7);
                writer.u32(op::SAVEFH);
                put(writer, other);
                writer.u32(op::RENAME);
            }
        };
        assert_eq!(found(rename(7)), Some(7));
        assert_eq!(found(rename(8)), None);
    }

    #[test]
    fn a_name_or_no_handle_may_lead_anywhere() {
        let look_up = |writer: &mut Writer| {
            put(writer, 7);
            writer.u32(op::LOOKUP);
        };
        assert_eq!(found(look_up), None);
        assert_eq!(found(|writer| writer.u32(op::PUTROOTFH)), None);
        assert_eq!(found(|writer| writer.u32(op::CREATE)), None);
        assert_eq!(found(|writer| writer.u32(op::PUTFH)), None, "it ends there");
    }
}
