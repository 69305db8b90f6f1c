//! Encodes and decodes the stored and transmitted state of legs: the state of a member ([`encode_state`]), the state
//! that a lender stores for a disk ([`encode_lent`], [`encode_stamp`]), and the messages among members (crate
//! `members`). `docs/formats/leg-record.md` and `docs/formats/members.md` have the formats. All numbers are
//! little-endian.

mod bytes;
mod lender_state;
mod memory;

pub use bytes::{Malformed, Reader, Writer};
pub use lender_state::{
    LENT_BYTES, STAMP_BYTES, decode_lent, decode_stamp, encode_lent, encode_stamp,
};
pub use memory::{DecodeError, RECORD_BYTES_MAX, decode_state, encode_state};

#[cfg(test)]
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
