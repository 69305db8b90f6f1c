//! The formats, a file each.

mod btrfs;
mod encrypted;
mod ext;
mod fat;
mod lvm;
mod lvm_text;
mod md;
mod ntfs;
mod swap;
mod xfs;
mod zfs;

#[cfg(test)]
mod tests;

use crate::bytes;
use crate::contents::{Contents, Format};
use crate::part::Part;

/// Recognises one format.
type Recognise = fn(&Part<'_>) -> Option<Contents>;

/// In order: a device of an array, a pool or a group can also begin with the signature of a file system, such as that of
/// a mirrored file system, or one from before. The reverse does not occur: the tools of these formats erase it.
const FORMATS: &[Recognise] = &[
    encrypted::luks,
    encrypted::bitlocker,
    md::recognise,
    lvm::recognise,
    zfs::recognise,
    btrfs::recognise,
    xfs::recognise,
    ntfs::recognise,
    fat::exfat,
    fat::vfat,
    ext::recognise,
    swap::recognise,
    iso9660,
    zfs::recognise_rest,
];

/// The contents of a part; `None` if no format is recognised.
pub fn contents(part: &Part<'_>) -> Option<Contents> {
    FORMATS.iter().find_map(|recognise| recognise(part))
}

/// A CD image (ECMA-119, section 8.4).
fn iso9660(part: &Part<'_>) -> Option<Contents> {
    const DESCRIPTOR: usize = 32 << 10;
    if !bytes::has(&part.head, DESCRIPTOR + 1, b"CD001") {
        return None;
    }
    let label = bytes::text(&part.head, DESCRIPTOR + 40, 32);
    Some(Contents {
        label,
        ..Contents::new(Format::Iso9660)
    })
}
