//! What both versions say of objects in the same way: kinds as numbers (RFC 1813, 2.5; RFC 8881, 3.2), and rights
//! (ACCESS: RFC 1813, 3.3.4; RFC 8881, 18.1).

use file_system::{Kind, Permissions};

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

/// Rights that mean something for an object of this kind.
pub(crate) const fn rights_of(kind: Kind) -> u32 {
    match kind {
        Kind::Directory => READ | LOOKUP | MODIFY | EXTEND | DELETE,
        _ => READ | MODIFY | EXTEND | EXECUTE,
    }
}

/// Rights that somebody has.
pub(crate) const fn rights_by(may: Permissions) -> u32 {
    let mut granted = 0;
    if may.read {
        granted |= READ;
    }
    if may.write {
        granted |= MODIFY | EXTEND | DELETE;
    }
    if may.execute {
        granted |= LOOKUP | EXECUTE;
    }
    granted
}
