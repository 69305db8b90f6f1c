//! Encodings that both versions share: file types (RFC 1813, 2.5; RFC 8881, 3.2), access rights
//! (ACCESS: RFC 1813, 3.3.4; RFC 8881, 18.1), and file contents as opaque data.

use file_system::{Done, FileSystem, Kind, Node, Permissions, Read};

use crate::xdr::Writer;

const READ: u32 = 0x01;
const LOOKUP: u32 = 0x02;
const MODIFY: u32 = 0x04;
const EXTEND: u32 = 0x08;
const DELETE: u32 = 0x10;
const EXECUTE: u32 = 0x20;

pub(crate) const fn kind_number(kind: Kind) -> u32 {
    match kind {
        Kind::File => 1,
        Kind::Directory => 2,
        Kind::BlockDevice => 3,
        Kind::CharacterDevice => 4,
        Kind::Link => 5,
        Kind::Socket => 6,
        Kind::Pipe => 7,
    }
}

/// The rights that are defined for this type of object.
pub(crate) const fn rights_of(kind: Kind) -> u32 {
    match kind {
        Kind::Directory => READ | LOOKUP | MODIFY | EXTEND | DELETE,
        _ => READ | MODIFY | EXTEND | EXECUTE,
    }
}

/// The rights that permissions grant on a type of object. A right to delete may come from the
/// meaning of a name in the directory.
pub(crate) const fn rights_by(kind: Kind, may: Permissions) -> u32 {
    let mut granted = 0;
    if may.read {
        granted |= READ;
    }
    if may.execute {
        granted |= LOOKUP | EXECUTE;
    }
    let is_directory = matches!(kind, Kind::Directory);
    // A directory without search permission cannot be modified.
    if is_directory && !may.execute {
        return granted;
    }
    if may.write && (may.remove || !is_directory) {
        granted |= MODIFY;
    }
    if may.write || may.append {
        granted |= EXTEND;
    }
    if may.remove {
        granted |= DELETE;
    }
    granted
}

/// Reads at most `count` bytes of a file at `offset` into a reply, as opaque data; lent by the file
/// system if the reply permits it.
pub(crate) fn read_into(
    files: &dyn FileSystem,
    (node, offset, count): (Node, u64, usize),
    out: &mut Writer,
) -> Done<Read> {
    let mut is_end = false;
    let length = out.opaque_or_lent(count, |bytes, lends| {
        let (read, lent) = match lends {
            true => files.read_or_lend(node, offset, count, bytes)?,
            false => (files.read_onto(node, offset, count, bytes)?, None),
        };
        is_end = read.is_end;
        Done::Ok(lent)
    })?;
    Ok(Read { length, is_end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acl_access_matches_the_operations() {
        let none = Permissions::default();
        let enters = Permissions {
            write: true,
            execute: true,
            ..none
        };
        let adds = Permissions {
            append: true,
            execute: true,
            ..none
        };
        let removes = Permissions {
            remove: true,
            execute: true,
            ..none
        };
        let all = Permissions::of_mode(true, true, true);
        let not_searched = Permissions::of_mode(true, true, false);
        for (may, of_file, of_directory) in [
            (none, 0, 0),
            (enters, MODIFY | EXTEND | EXECUTE, EXTEND | LOOKUP),
            (adds, EXTEND | EXECUTE, EXTEND | LOOKUP),
            (removes, EXECUTE, DELETE | LOOKUP),
            (
                all,
                READ | MODIFY | EXTEND | EXECUTE,
                READ | MODIFY | EXTEND | DELETE | LOOKUP,
            ),
            (not_searched, READ | MODIFY | EXTEND, READ),
        ] {
            for (kind, rights) in [(Kind::File, of_file), (Kind::Directory, of_directory)] {
                assert_eq!(
                    rights_by(kind, may) & rights_of(kind),
                    rights,
                    "{kind:?} {may:?}"
                );
            }
        }
    }
}
