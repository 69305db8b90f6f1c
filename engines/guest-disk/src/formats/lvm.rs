//! Physical volumes of LVM 2: a label in one of the first sectors, and the description of the volume group as text.

use super::lvm_text;
use crate::bytes::{has, u32_le, u64_le};
use crate::contents::{Contents, Format};
use crate::part::Part;

/// The label is in one of this many sectors.
const LABEL_SECTORS: usize = 4;
const SECTOR: usize = 512;
/// Data areas and metadata areas that are listed at most.
const AREAS_MAX: usize = 16;
/// Bytes of the header of a metadata area; the text wraps to the end of it.
const AREA_HEADER_BYTES: u64 = 512;
const AREA_MARK: &[u8] = b" LVM2 x[5A%r0N*>";
/// Copies of the text that a header of an area lists.
const COPIES_MAX: usize = 4;
/// In the flags of a copy: it is not used.
const IGNORED: u32 = 1;
/// Bytes of text that are read. A group of 1,000 logical volumes needs about half.
const TEXT_BYTES_MAX: u64 = 1 << 20;
/// Letters of a UUID, which is stored without hyphens.
const UUID_LETTERS: usize = 32;

/// Recognises a physical volume.
pub fn recognise(part: &Part<'_>) -> Option<Contents> {
    let mut sectors = (0..LABEL_SECTORS).map(|sector| sector * SECTOR);
    let is_label =
        |at: &usize| has(&part.head, *at, b"LABELONE") && has(&part.head, at + 24, b"LVM2 001");
    let label = sectors.find(is_label)?;
    let header = label.checked_add(usize::try_from(u32_le(&part.head, label + 20)?).ok()?)?;
    let letters = part.head.get(header..header.checked_add(UUID_LETTERS)?)?;
    let mut found = Contents {
        uuid: hyphenated(letters),
        ..Contents::new(Format::Lvm)
    };
    let areas = areas(&part.head, header + UUID_LETTERS + 8).unwrap_or_default();
    let text = areas.iter().find_map(|area| text(part, *area));
    match text.as_deref().and_then(lvm_text::parse) {
        Some(group) => {
            found.label = group.name;
            found.devices = Some(group.devices);
            found.volumes = group.volumes;
            if group.devices != 1 {
                found.note(format!("one of {} physical volumes", group.devices));
            }
        }
        None => found.note("without a readable description of a volume group"),
    }
    Some(found)
}

/// The offsets and lengths of the metadata areas: a list after that of the data areas. Zeros terminate each.
fn areas(head: &[u8], list: usize) -> Option<Vec<(u64, u64)>> {
    let mut at = list;
    let mut next = || {
        let area = (u64_le(head, at)?, u64_le(head, at + 8)?);
        at += 16;
        (area != (0, 0)).then_some(area)
    };
    let mut lists = [Vec::new(), Vec::new()];
    for list in &mut lists {
        while list.len() < AREAS_MAX {
            match next() {
                Some(area) => list.push(area),
                None => break,
            }
        }
    }
    let [_, areas] = lists;
    Some(areas)
}

/// The text that describes the group, from one metadata area.
fn text(part: &Part<'_>, (area, area_bytes): (u64, u64)) -> Option<Vec<u8>> {
    let header = part.read(area, AREA_HEADER_BYTES as usize)?;
    if !has(&header, 4, AREA_MARK) {
        return None;
    }
    let copies = (0..COPIES_MAX).map(|index| 40 + 24 * index);
    let mut copies = copies.filter_map(|at| {
        let copy = (u64_le(&header, at)?, u64_le(&header, at + 8)?);
        let is_used = copy.0 != 0 && u32_le(&header, at + 20)? & IGNORED == 0;
        is_used.then_some(copy)
    });
    let (offset, length) = copies.next()?;
    if offset < AREA_HEADER_BYTES || offset >= area_bytes || length > TEXT_BYTES_MAX {
        return None;
    }
    // The area is a ring.
    let first = length.min(area_bytes - offset);
    let mut text = part.read(area.checked_add(offset)?, usize::try_from(first).ok()?)?;
    let rest = usize::try_from(length - first).ok()?;
    text.extend(part.read(area.checked_add(AREA_HEADER_BYTES)?, rest)?);
    Some(text)
}

/// A UUID of LVM, as its tools show it.
fn hyphenated(letters: &[u8]) -> String {
    let mut text = String::new();
    for (index, letter) in letters.iter().enumerate() {
        if matches!(index, 6 | 10 | 14 | 18 | 22 | 26) {
            text.push('-');
        }
        text.push(char::from(*letter));
    }
    text.retain(|one| one.is_ascii_alphanumeric() || one == '-');
    text
}
