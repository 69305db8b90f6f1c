//! The table, in ascending order of operation code and service action.

use super::{Access, Op, Row};

/// NACA is evaluated in every CONTROL byte, and refused.
const C: u8 = 0x04;
/// The GROUP NUMBER field is accepted and ignored.
const G: u8 = 0x3f;
/// FUA_NV, obsolete since SBC-3.
const FUA_NV: &[(u8, u8)] = &[(1, 0x02)];
/// SYNC_NV, obsolete since SBC-3.
const SYNC_NV: &[(u8, u8)] = &[(1, 0x04)];
/// Reservation identification and extent list length, which SPC-2 lets a target ignore.
const RESERVATION_ID: &[(u8, u8)] = &[(2, 0xff), (3, 0xff), (4, 0xff)];
/// LOGICAL BLOCK ADDRESS and PMI, obsolete since SBC-3.
const PARTIAL_MEDIUM_10: &[(u8, u8)] = &[(2, 0xff), (3, 0xff), (4, 0xff), (5, 0xff), (8, 0x01)];
const PARTIAL_MEDIUM_16: &[(u8, u8)] = &[
    (2, 0xff),
    (3, 0xff),
    (4, 0xff),
    (5, 0xff),
    (6, 0xff),
    (7, 0xff),
    (8, 0xff),
    (9, 0xff),
    (14, 0x01),
];

const fn row(op: Op, access: Access, usage: &'static [u8]) -> Row {
    Row {
        op,
        opcode: usage[0],
        action: None,
        usage,
        tolerated: &[],
        access,
        thin_only: false,
    }
}

impl Row {
    const fn action(mut self, action: u8) -> Self {
        self.action = Some(action);
        self
    }

    const fn tolerating(mut self, tolerated: &'static [(u8, u8)]) -> Self {
        self.tolerated = tolerated;
        self
    }

    const fn thin_only(mut self) -> Self {
        self.thin_only = true;
        self
    }
}

/// A CDB of 10 bytes with an LBA, a group number and a length.
const fn ten(opcode: u8, flags: u8) -> [u8; 10] {
    [opcode, flags, 0xff, 0xff, 0xff, 0xff, G, 0xff, 0xff, C]
}

/// A CDB of 12 bytes with an LBA, a length and a group number.
const fn twelve(opcode: u8, flags: u8) -> [u8; 12] {
    [
        opcode, flags, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, G, C,
    ]
}

/// A CDB of 16 bytes with an LBA, a length and a group number.
const fn sixteen(opcode: u8, flags: u8) -> [u8; 16] {
    [
        opcode, flags, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, G, C,
    ]
}

/// A CDB of 16 bytes with only an allocation or parameter list length in bytes 10 to 13.
const fn sixteen_length(opcode: u8, second: u8) -> [u8; 16] {
    [
        opcode, 0, second, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, C,
    ]
}

/// A CDB of 12 bytes with an allocation length in bytes 6 to 9.
const fn twelve_length(opcode: u8, head: [u8; 5]) -> [u8; 12] {
    let [a, b, c, d, e] = head;
    [opcode, a, b, c, d, e, 0xff, 0xff, 0xff, 0xff, 0, C]
}

/// All supported commands.
///
/// MODE SENSE is less restricted under persistent reservations than SPC-4 requires. A standby host
/// must be able to read the write cache setting, or it would take the unit over and never flush.
#[rustfmt::skip]
pub(crate) static TABLE: &[Row] = {
    use Access::*;
    &[
        row(Op::TestUnitReady, Query, &[0x00, 0, 0, 0, 0, C]),
        row(Op::RequestSense, Free, &[0x03, 0x01, 0, 0, 0xff, C]),
        row(Op::Read, Read, &[0x08, 0x1f, 0xff, 0xff, 0xff, C]),
        row(Op::Write, Write, &[0x0a, 0x1f, 0xff, 0xff, 0xff, C]),
        row(Op::Inquiry, Free, &[0x12, 0x01, 0xff, 0xff, 0xff, C]),
        row(Op::ModeSelect, Write, &[0x15, 0x11, 0, 0, 0xff, C]),
        row(Op::Reserve, Own, &[0x16, 0, 0, 0, 0, C]).tolerating(RESERVATION_ID),
        row(Op::Release, Own, &[0x17, 0, 0, 0, 0, C]).tolerating(RESERVATION_ID),
        row(Op::ModeSense, Query, &[0x1a, 0x08, 0xff, 0xff, 0xff, C]),
        row(Op::StartStopUnit, Own, &[0x1b, 0x01, 0, 0x0f, 0xf7, C]),
        row(Op::SendDiagnostic, Write, &[0x1d, 0x04, 0, 0, 0, C]).tolerating(&[(1, 0x03)]),
        row(Op::PreventAllow, Own, &[0x1e, 0, 0, 0, 0x03, C]),
        row(Op::ReadCapacity10, Free, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, C]).tolerating(PARTIAL_MEDIUM_10),
        row(Op::Read, Read, &ten(0x28, 0x18)).tolerating(FUA_NV),
        row(Op::Write, Write, &ten(0x2a, 0x18)).tolerating(FUA_NV),
        row(Op::WriteAndVerify, Write, &ten(0x2e, 0x16)),
        row(Op::Verify, Read, &ten(0x2f, 0x16)),
        row(Op::Prefetch, Read, &ten(0x34, 0x02)),
        row(Op::SynchronizeCache, Write, &ten(0x35, 0x02)).tolerating(SYNC_NV),
        row(Op::ReadDefectData10, Read, &[0x37, 0, 0x1f, 0, 0, 0, 0, 0xff, 0xff, C]),
        row(Op::WriteSame, Write, &ten(0x41, 0x08)),
        row(Op::Unmap, Write, &[0x42, 0, 0, 0, 0, 0, G, 0xff, 0xff, C]).thin_only(),
        row(Op::ModeSelect, Write, &[0x55, 0x11, 0, 0, 0, 0, 0, 0xff, 0xff, C]),
        row(Op::Reserve, Own, &[0x56, 0, 0, 0, 0, 0, 0, 0, 0, C]).tolerating(RESERVATION_ID),
        row(Op::Release, Own, &[0x57, 0, 0, 0, 0, 0, 0, 0, 0, C]).tolerating(RESERVATION_ID),
        row(Op::ModeSense, Query, &[0x5a, 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, C]),
        row(Op::PersistentReserveIn, Query, &[0x5e, 0, 0, 0, 0, 0, 0, 0xff, 0xff, C]).action(0x00),
        row(Op::PersistentReserveIn, Query, &[0x5e, 0, 0, 0, 0, 0, 0, 0xff, 0xff, C]).action(0x01),
        row(Op::PersistentReserveIn, Query, &[0x5e, 0, 0, 0, 0, 0, 0, 0xff, 0xff, C]).action(0x02),
        row(Op::PersistentReserveIn, Query, &[0x5e, 0, 0, 0, 0, 0, 0, 0xff, 0xff, C]).action(0x03),
        row(Op::PersistentReserveOut, Own, &[0x5f, 0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, C]).action(0x00),
        row(Op::PersistentReserveOut, Own, &[0x5f, 0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, C]).action(0x01),
        row(Op::PersistentReserveOut, Own, &[0x5f, 0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, C]).action(0x02),
        row(Op::PersistentReserveOut, Own, &[0x5f, 0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, C]).action(0x03),
        row(Op::PersistentReserveOut, Own, &[0x5f, 0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, C]).action(0x04),
        row(Op::PersistentReserveOut, Own, &[0x5f, 0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, C]).action(0x05),
        row(Op::PersistentReserveOut, Own, &[0x5f, 0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, C]).action(0x06),
        row(Op::PersistentReserveOut, Own, &[0x5f, 0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, C]).action(0x07),
        row(Op::ExtendedCopy, Write, &sixteen_length(0x83, 0)).action(0x00),
        row(Op::ReceiveCopyStatus, Read, &sixteen_length(0x84, 0xff)).action(0x00),
        row(Op::ReceiveCopyParameters, Read, &sixteen_length(0x84, 0)).action(0x03).tolerating(&[(2, 0xff)]),
        row(Op::Read, Read, &sixteen(0x88, 0x18)).tolerating(FUA_NV),
        row(Op::CompareAndWrite, Write, &[0x89, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff, G, C]).tolerating(FUA_NV),
        row(Op::Write, Write, &sixteen(0x8a, 0x18)).tolerating(FUA_NV),
        row(Op::OrWrite, Write, &sixteen(0x8b, 0x18)).tolerating(FUA_NV),
        row(Op::WriteAndVerify, Write, &sixteen(0x8e, 0x16)),
        row(Op::Verify, Read, &sixteen(0x8f, 0x16)),
        row(Op::Prefetch, Read, &sixteen(0x90, 0x02)),
        row(Op::SynchronizeCache, Write, &sixteen(0x91, 0x02)).tolerating(SYNC_NV),
        row(Op::WriteSame, Write, &sixteen(0x93, 0x09)),
        row(Op::ReadCapacity16, Free, &sixteen_length(0x9e, 0)).action(0x10).tolerating(PARTIAL_MEDIUM_16),
        row(Op::GetLbaStatus, Read, &[0x9e, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, C]).action(0x12),
        row(Op::ReportLuns, Free, &twelve_length(0xa0, [0, 0xff, 0, 0, 0])),
        row(Op::ReportTargetPortGroups, Free, &twelve_length(0xa3, [0xe0, 0, 0, 0, 0])).action(0x0a),
        row(Op::ReportSupportedOpcodes, Read, &twelve_length(0xa3, [0, 0x87, 0xff, 0xff, 0xff])).action(0x0c),
        row(Op::ReportSupportedTaskManagement, Read, &twelve_length(0xa3, [0, 0x80, 0, 0, 0])).action(0x0d),
        row(Op::Read, Read, &twelve(0xa8, 0x18)).tolerating(FUA_NV),
        row(Op::Write, Write, &twelve(0xaa, 0x18)).tolerating(FUA_NV),
        row(Op::WriteAndVerify, Write, &twelve(0xae, 0x16)),
        row(Op::Verify, Read, &twelve(0xaf, 0x16)),
        row(Op::ReadDefectData12, Read, &twelve_length(0xb7, [0x1f, 0xff, 0xff, 0xff, 0xff])),
    ]
};

/// The first row and one past the last row of each operation code.
pub(super) static INDEX: [(u8, u8); 256] = {
    let mut index = [(0, 0); 256];
    let mut at = 0;
    while at < TABLE.len() {
        let opcode = TABLE[at].opcode as usize;
        if at == 0 || TABLE[at - 1].opcode != TABLE[at].opcode {
            assert!(at == 0 || TABLE[at - 1].opcode < TABLE[at].opcode);
            index[opcode].0 = at as u8;
        }
        index[opcode].1 = at as u8 + 1;
        at += 1;
    }
    index
};
