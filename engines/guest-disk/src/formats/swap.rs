//! Swap space of Linux: the signature is at the end of the first page.

use crate::bytes::{has, text, uuid_at};
use crate::contents::{Contents, Format, State};
use crate::part::Part;

/// Bytes of pages on the processors that Linux supports.
const PAGE_BYTES: [usize; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Bytes of the signature.
const MARK_BYTES: usize = 10;
const SWAP_MARKS: [&[u8]; 2] = [b"SWAPSPACE2", b"SWAP-SPACE"];
/// A hibernated system overwrites the signature with one of these.
const IMAGE_MARKS: [&[u8]; 4] = [b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND", b"LINHIB0001"];
/// Offset of the header, after the boot blocks.
const HEADER: usize = 1024;

/// Recognises swap space.
pub fn recognise(part: &Part<'_>) -> Option<Contents> {
    let has_one = |marks: &[&[u8]]| {
        let at = |page: &usize| page - MARK_BYTES;
        let mut pages = PAGE_BYTES.iter().map(at);
        pages.any(|at| marks.iter().any(|mark| has(&part.head, at, mark)))
    };
    let is_image = has_one(&IMAGE_MARKS);
    if !is_image && !has_one(&SWAP_MARKS) {
        return None;
    }
    let mut found = Contents {
        label: text(&part.head, HEADER + 28, 16),
        uuid: uuid_at(&part.head, HEADER + 12),
        ..Contents::new(Format::Swap)
    };
    if is_image {
        let note = "a hibernated system is stored in it, which still has its file systems mounted";
        found.set(State::Hibernated, note);
    }
    Some(found)
}
