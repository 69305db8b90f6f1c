//! Which compounds take so long that others should not wait for them, as far as a look at their beginning tells.

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
