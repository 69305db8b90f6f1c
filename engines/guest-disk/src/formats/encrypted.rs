//! Encrypted volumes: LUKS 1 and 2, and BitLocker. Their contents are recognised only when they are open.

use crate::bytes::{has, text, u16_be, u64_be};
use crate::contents::{Contents, Format, State};
use crate::part::Part;

const MARK: &[u8] = b"LUKS\xba\xbe";
/// The mark of the second header of LUKS 2.
const MARK_SECOND: &[u8] = b"SKUL\xba\xbe";
/// Offsets of the second header that are searched: the smallest ones, of which the first is the default.
const SECOND: [usize; 3] = [16 << 10, 32 << 10, 64 << 10];
/// Offset of the JSON text in a header of LUKS 2.
const JSON: u64 = 4096;
/// Bytes of that text that are searched; 12 KiB is the default size.
const JSON_BYTES_MAX: u64 = 64 << 10;
/// In that text while the volume is being reencrypted.
const REENCRYPTION: &[u8] = b"online-reencrypt";

/// Recognises LUKS.
pub fn luks(part: &Part<'_>) -> Option<Contents> {
    let head = &part.head;
    let second = SECOND.into_iter().find(|at| has(head, *at, MARK_SECOND));
    let (at, is_second) = match (has(head, 0, MARK), second) {
        (true, _) => (0, false),
        (false, Some(at)) => (at, true),
        (false, None) => return None,
    };
    let version = u16_be(head, at + 6)?;
    if !matches!(version, 1 | 2) {
        return None;
    }
    let mut found = Contents {
        uuid: text(head, at + 168, 40),
        ..Contents::new(Format::Luks)
    };
    found.note(format!("version {version}"));
    if version == 1 {
        return Some(found);
    }
    found.label = text(head, at + 24, 48);
    if is_second {
        found.set(State::OpenWrites, "its first header is damaged");
    }
    if is_being_reencrypted(part, at).unwrap_or(false) {
        found.set(State::OpenWrites, "a reencryption of it is not complete");
    }
    Some(found)
}

fn is_being_reencrypted(part: &Part<'_>, header: usize) -> Option<bool> {
    let header_bytes = u64_be(&part.head, header + 8)?;
    let length = header_bytes.checked_sub(JSON)?.min(JSON_BYTES_MAX);
    let at = (header as u64).checked_add(JSON)?;
    let text = part.read(at, usize::try_from(length).ok()?)?;
    let found = text
        .windows(REENCRYPTION.len())
        .any(|some| some == REENCRYPTION);
    Some(found)
}

/// Recognises BitLocker.
pub fn bitlocker(part: &Part<'_>) -> Option<Contents> {
    has(&part.head, 3, b"-FVE-FS-").then(|| Contents::new(Format::BitLocker))
}
