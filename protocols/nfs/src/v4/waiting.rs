//! Detects slow compounds by their first operations, so that they do not block the following calls.

use file_system::FileSystemId;

use super::attributes::Bitmap;
use super::compound::{HANDLE_BYTES_MAX, TAG_BYTES_MAX};
use super::kinds::changes_files;
use super::numbers::op;
use super::state::{MESSAGE_BYTES_MAX, OPERATIONS_MAX};
use crate::handles::unverified;
use crate::xdr::{Malformed, Reader};

/// A read of this size is passed to a worker: the disks and the copy need longer than the
/// hand-over.
const LONG_READ_BYTES: u32 = 64 << 10;

/// Why a call is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Long {
    /// Its reply has a payload of this size.
    Payload(u32),
    /// It changes contents, or its changes must be durable before its reply. Its execution itself may be slow.
    Contents,
    /// Names or attributes must be durable before its reply: it can share a commit with others.
    Names,
}

/// Returns why the compound is slow, according to its first operations; `None` if it is fast.
pub fn slow_payload(arguments: &[u8]) -> Option<Long> {
    slow_payload_of(&mut Reader::new(arguments)).unwrap_or(None)
}

fn slow_payload_of(reader: &mut Reader<'_>) -> Result<Option<Long>, Malformed> {
    const SESSION_AND_SLOT_BYTES: usize = 32;
    const STATEID_BYTES: usize = 16;
    reader.opaque(TAG_BYTES_MAX)?;
    // Without a session each call commits by itself.
    let of_names = match reader.u32()? {
        0 => Long::Contents,
        _ => Long::Names,
    };
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
                return Ok(is_stable.then_some(Long::Contents));
            }
            op::READ => {
                reader.fixed(STATEID_BYTES)?;
                reader.u64()?;
                let bytes = reader.u32()?.min(MESSAGE_BYTES_MAX);
                return Ok((bytes >= LONG_READ_BYTES).then_some(Long::Payload(bytes)));
            }
            op::OPEN => {
                for _ in 0..3 {
                    reader.u32()?;
                }
                reader.u64()?;
                reader.opaque(MESSAGE_BYTES_MAX as usize)?;
                let makes = reader.u32()? != 0;
                return Ok(makes.then_some(of_names));
            }
            op::COMMIT | op::COPY | op::CLONE | op::ALLOCATE | op::DEALLOCATE => {
                return Ok(Some(Long::Contents));
            }
            other => return Ok(changes_files(other).then_some(of_names)),
        }
    }
    Ok(None)
}

/// The file systems in which a call may make a change with a receipt, according to its first
/// operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changes {
    /// None.
    None,
    /// The file system of its filehandles.
    In(FileSystemId),
    /// Unknown: it contains look-ups, or filehandles of several file systems.
    Anywhere,
}

/// Returns the changes of the rest of a call.
pub(super) fn changes_of(rest: Reader<'_>) -> Changes {
    changes_in(rest).unwrap_or(Changes::None)
}

fn changes_in(mut rest: Reader<'_>) -> Result<Changes, Malformed> {
    let mut at = Changes::None;
    // A call extends to its last byte.
    while !rest.rest().is_empty() {
        match rest.u32()? {
            op::PUTFH => {
                let handle = unverified(rest.opaque(HANDLE_BYTES_MAX)?);
                let Ok(handle) = handle else {
                    return Ok(Changes::None);
                };
                let here = Changes::In(handle.file_system.whole());
                at = match at {
                    Changes::None => here,
                    before if before == here => here,
                    _ => Changes::Anywhere,
                };
            }
            op::LOOKUP => {
                rest.opaque(MESSAGE_BYTES_MAX as usize)?;
                at = Changes::Anywhere;
            }
            op::LOOKUPP | op::PUTROOTFH | op::PUTPUBFH => at = Changes::Anywhere,
            op::SAVEFH | op::RESTOREFH | op::GETFH | op::READLINK => {}
            op::ACCESS => drop(rest.u32()?),
            op::GETATTR => drop(Bitmap::read(&mut rest)?),
            op::CREATE | op::REMOVE | op::RENAME | op::LINK => return Ok(at),
            op::SETATTR | op::SETXATTR | op::REMOVEXATTR => return Ok(at),
            op::OPEN if makes_guarded(&mut rest)? => return Ok(at),
            // Clients send no changes after other operations.
            _ => return Ok(Changes::None),
        }
    }
    Ok(Changes::None)
}

/// Whether an open requires to create the file (`GUARDED4`).
fn makes_guarded(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    for _ in 0..3 {
        reader.u32()?;
    }
    reader.u64()?;
    reader.opaque(MESSAGE_BYTES_MAX as usize)?;
    Ok(reader.u32()? == 1 && reader.u32()? == 1)
}

#[cfg(test)]
mod tests {
    use file_system::{Handle, Node};

    use super::*;
    use crate::handles::HandleKey;
    use crate::xdr::Writer;

    fn put(writer: &mut Writer, guid: u64) {
        let file_system = FileSystemId { guid, snapshot: 0 };
        let node = Node {
            object: 34,
            generation: 1,
        };
        writer.u32(op::PUTFH);
        writer.opaque(&HandleKey::random().sign(Handle { file_system, node }));
    }

    fn found(write: impl FnOnce(&mut Writer)) -> Changes {
        let mut writer = Writer::new();
        write(&mut writer);
        changes_of(Reader::new(&writer.into_bytes()))
    }

    fn within(guid: u64) -> Changes {
        Changes::In(FileSystemId { guid, snapshot: 0 })
    }

    /// A call shares a commit if it has a session, and changes only names or attributes.
    #[test]
    fn a_call_is_slow_if_it_changes_files() {
        let long = |minor: u32, words: &[u32]| {
            let mut writer = Writer::new();
            [0, minor, 1]
                .iter()
                .chain(words)
                .for_each(|word| writer.u32(*word));
            slow_payload(&writer.into_bytes())
        };
        let open = |makes| [op::OPEN, 0, 3, 0, 0, 1, 0, makes];
        assert_eq!(long(1, &open(1)), Some(Long::Names));
        assert_eq!(long(0, &open(1)), Some(Long::Contents));
        assert_eq!(long(1, &open(0)), None);
        assert_eq!(long(2, &[op::REMOVE]), Some(Long::Names));
        assert_eq!(long(0, &[op::REMOVE]), Some(Long::Contents));
        let write = |stable| [op::WRITE, 0, 0, 0, 0, 0, 0, stable];
        assert_eq!(long(1, &write(2)), Some(Long::Contents));
        assert_eq!(long(1, &write(0)), None);
        assert_eq!(long(1, &[op::COMMIT]), Some(Long::Contents));
        // A copy of many bytes must not delay the changes of names behind it.
        for slow in [op::COPY, op::CLONE, op::ALLOCATE, op::DEALLOCATE] {
            assert_eq!(long(2, &[slow]), Some(Long::Contents), "operation {slow}");
        }
        let read = |bytes| [op::READ, 0, 0, 0, 0, 0, 0, bytes];
        let large = 1 << 20;
        assert_eq!(long(1, &read(large)), Some(Long::Payload(large)));
        assert_eq!(long(1, &read(4096)), None);
        assert_eq!(long(1, &[op::GETATTR]), None);
    }

    #[test]
    fn changes_of_a_call_are_located_by_its_handles() {
        let change = |writer: &mut Writer| {
            put(writer, 7);
            [op::GETATTR, 2, 0, 1, op::ACCESS, 63, op::CREATE]
                .into_iter()
                .for_each(|word| writer.u32(word));
        };
        assert_eq!(found(change), within(7));
        let rename = |other: u64| {
            move |writer: &mut Writer| {
                put(writer, 7);
                writer.u32(op::SAVEFH);
                put(writer, other);
                writer.u32(op::RENAME);
            }
        };
        assert_eq!(found(rename(7)), within(7));
        assert_eq!(found(rename(8)), Changes::Anywhere);
        for (how, expected) in [(0, Changes::None), (1, within(7)), (3, Changes::None)] {
            let open = |writer: &mut Writer| {
                put(writer, 7);
                let words = [op::OPEN, 0, 3, 0, 0, 1, 0, 1, how];
                words.into_iter().for_each(|word| writer.u32(word));
            };
            assert_eq!(found(open), expected, "createmode {how}");
        }
    }

    #[test]
    fn lookups_may_change_any_export_and_most_calls_none() {
        let look_up = |last: u32| {
            move |writer: &mut Writer| {
                put(writer, 7);
                writer.u32(op::LOOKUP);
                writer.opaque(b"name");
                writer.u32(last);
            }
        };
        assert_eq!(found(look_up(op::REMOVE)), Changes::Anywhere);
        assert_eq!(found(look_up(op::GETFH)), Changes::None);
        assert_eq!(found(|writer| writer.u32(op::READ)), Changes::None);
        assert_eq!(found(|_| ()), Changes::None);
        assert_eq!(
            found(|writer| writer.u32(op::PUTFH)),
            Changes::None,
            "it ends there"
        );
    }
}
