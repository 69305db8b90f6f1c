//! Requests and replies of the NBD protocol as a client has them: compact requests, simple replies.

use nbd::protocol::wire::{REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, command, command_flag};

use crate::{LegError, Operation};

pub(crate) const REQUEST_BYTES: usize = 28;
pub(crate) const REPLY_BYTES: usize = 16;

/// The header of a request. The data of a write follows.
pub(crate) fn encode(operation: &Operation, cookie: u64) -> [u8; REQUEST_BYTES] {
    let (command, flags) = match operation {
        Operation::Read(_) => (command::READ, 0),
        Operation::Write { durable: true, .. } => (command::WRITE, command_flag::FUA),
        Operation::Write { durable: false, .. } => (command::WRITE, 0),
        Operation::Flush => (command::FLUSH, 0),
        Operation::Discard(_) => (command::TRIM, 0),
    };
    let extent = operation.extent();
    let mut bytes = [0; REQUEST_BYTES];
    bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&command.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..24].copy_from_slice(&extent.offset.to_be_bytes());
    bytes[24..].copy_from_slice(&(extent.length as u32).to_be_bytes());
    bytes
}

/// The header of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) errno: u32,
    pub(crate) cookie: u64,
}

pub(crate) fn decode(bytes: &[u8; REPLY_BYTES]) -> Result<Reply, LegError> {
    let short = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    if short(0) != SIMPLE_REPLY_MAGIC {
        return Err(LegError::Protocol("a reply that is none"));
    }
    Ok(Reply {
        errno: short(4),
        cookie: u64::from_be_bytes(bytes[8..].try_into().expect("eight bytes")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// The bytes of the protocol's document.
    #[test]
    fn a_durable_write_is_one_request_with_fua() {
        let write = Operation::Write {
            offset: 0x1000,
            data: Arc::new(vec![7; 512]),
            durable: true,
        };
        let mut expected = b"\x25\x60\x95\x13\0\x01\0\x01".to_vec();
        expected.extend(9_u64.to_be_bytes());
        expected.extend(0x1000_u64.to_be_bytes());
        expected.extend(512_u32.to_be_bytes());
        assert_eq!(&encode(&write, 9)[..], expected);
    }

    #[test]
    fn malformed_reply_is_refused() {
        let mut bytes = *b"\x67\x44\x66\x98\0\0\0\x05\0\0\0\0\0\0\0\x09";
        let reply = Reply {
            errno: 5,
            cookie: 9,
        };
        assert_eq!(decode(&bytes), Ok(reply));
        bytes[3] = 0;
        assert!(decode(&bytes).is_err());
    }
}
