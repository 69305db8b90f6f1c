//! Requests of the transmission phase: decodes and checks them.

use units::Extent;

use super::wire::{
    BASE_ALLOCATION_ID, EXTENDED_REQUEST_MAGIC, Errno, HeaderStyle, PAYLOAD_BYTES_MAX,
    REQUEST_MAGIC, command, command_flag,
};

/// A request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// `NBD_CMD_FLAG_*`
    pub flags: u16,
    /// `NBD_CMD_*`
    pub command: u16,
    /// The client's identifier, returned unchanged.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Length in bytes, or bytes of payload: see [`payload_bytes`](Self::payload_bytes).
    pub length: u64,
}

/// The negotiated parameters that requests are checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The format of requests.
    pub style: HeaderStyle,
    /// Whether `base:allocation` was selected.
    pub has_status: bool,
    /// Whether the export refuses writes.
    pub read_only: bool,
}

/// The magic number is wrong, so that the following input cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request with magic number {magic:#x}")]
pub struct BadRequest {
    magic: u32,
}

/// A valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Reads an extent.
    Read {
        /// The extent.
        extent: Extent,
        /// The reply must be one content chunk.
        unfragmented: bool,
    },
    /// Writes the payload.
    Write {
        /// The extent; as long as the payload.
        extent: Extent,
        /// Durable before the reply.
        durable: bool,
    },
    /// Flushes all completed writes to stable storage.
    Flush,
    /// Discards an extent.
    Trim {
        /// The extent.
        extent: Extent,
        /// Durable before the reply.
        durable: bool,
    },
    /// Prefetches an extent.
    Cache {
        /// The extent.
        extent: Extent,
    },
    /// Zeroes an extent.
    WriteZeroes {
        /// The extent.
        extent: Extent,
        /// Durable before the reply.
        durable: bool,
        /// Its space must remain or become allocated.
        keep_allocated: bool,
        /// Only if it is faster than a write of zeroes.
        only_if_fast: bool,
    },
    /// Returns the allocation status.
    BlockStatus {
        /// The extent; with a payload it is contained there, see [`block_status_payload`].
        extent: Extent,
        /// Only one run, which must not exceed the extent.
        one: bool,
    },
    /// Completes pending requests and closes the connection.
    Disconnect,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Request {
    /// Decodes the header at the front of `input`; `None` if more bytes are needed. Its length is
    /// [`HeaderStyle::request_bytes`].
    pub fn decode(style: HeaderStyle, input: &[u8]) -> Result<Option<Self>, BadRequest> {
        if input.len() < 4 {
            return Ok(None);
        }
        let magic = u32_at(input, 0);
        let expected = match style {
            HeaderStyle::Simple | HeaderStyle::Structured => REQUEST_MAGIC,
            HeaderStyle::Extended => EXTENDED_REQUEST_MAGIC,
        };
        if magic != expected {
            return Err(BadRequest { magic });
        }
        if input.len() < style.request_bytes() {
            return Ok(None);
        }
        Ok(Some(Self {
            flags: u16_at(input, 4),
            command: u16_at(input, 6),
            cookie: u64_at(input, 8),
            offset: u64_at(input, 16),
            length: match style {
                HeaderStyle::Extended => u64_at(input, 24),
                _ => u32_at(input, 24).into(),
            },
        }))
    }

    /// Returns the number of bytes after the header, even if the request is invalid. A write has
    /// its data, even without the payload flag, which qemu's client omits.
    pub fn payload_bytes(&self, style: HeaderStyle) -> u64 {
        let is_said = style == HeaderStyle::Extended && self.flags & command_flag::PAYLOAD_LEN != 0;
        if is_said || self.command == command::WRITE {
            self.length
        } else {
            0
        }
    }

    /// Checks the request against the negotiated parameters and a device of `size` bytes. An error
    /// has a message for the client's user.
    pub fn check(
        &self,
        negotiated: Negotiated,
        size: u64,
    ) -> Result<Command, (Errno, &'static str)> {
        self.check_flags(negotiated)?;
        let extent = Extent::new(self.offset, self.length);
        let durable = self.flags & command_flag::FUA != 0;
        match self.command {
            command::READ => {
                self.check_inside(extent, size, Errno::Invalid)?;
                if self.length > u64::from(PAYLOAD_BYTES_MAX) {
                    let errno = match negotiated.style {
                        HeaderStyle::Simple => Errno::Invalid,
                        _ => Errno::Overflow,
                    };
                    return Err((errno, "read of more than the maximum payload"));
                }
                let unfragmented = self.flags & command_flag::DF != 0;
                Ok(Command::Read {
                    extent,
                    unfragmented,
                })
            }
            command::WRITE => {
                check_writable(negotiated)?;
                self.check_inside(extent, size, Errno::NoSpace)?;
                Ok(Command::Write { extent, durable })
            }
            command::FLUSH if self.offset != 0 || self.length != 0 => {
                Err((Errno::Invalid, "flush has an offset or a length"))
            }
            command::FLUSH => Ok(Command::Flush),
            command::TRIM => {
                check_writable(negotiated)?;
                self.check_inside(extent, size, Errno::Invalid)?;
                Ok(Command::Trim { extent, durable })
            }
            command::CACHE => {
                self.check_inside(extent, size, Errno::Invalid)?;
                Ok(Command::Cache { extent })
            }
            command::WRITE_ZEROES => {
                check_writable(negotiated)?;
                self.check_inside(extent, size, Errno::NoSpace)?;
                Ok(Command::WriteZeroes {
                    extent,
                    durable,
                    keep_allocated: self.flags & command_flag::NO_HOLE != 0,
                    only_if_fast: self.flags & command_flag::FAST_ZERO != 0,
                })
            }
            command::BLOCK_STATUS => self.check_block_status(negotiated, size),
            command::DISC => Ok(Command::Disconnect),
            _ => Err((Errno::Invalid, "unknown command")),
        }
    }

    fn check_block_status(
        &self,
        negotiated: Negotiated,
        size: u64,
    ) -> Result<Command, (Errno, &'static str)> {
        if !negotiated.has_status {
            return Err((Errno::Invalid, "no metadata context was selected"));
        }
        let mut extent = Extent::new(self.offset, self.length);
        if self.flags & command_flag::PAYLOAD_LEN != 0 {
            // The effect length is in the payload, and is checked with it.
            extent.length = 0;
        } else if self.length == 0 {
            return Err((Errno::Invalid, "block status of nothing"));
        }
        self.check_inside(extent, size, Errno::Invalid)?;
        let one = self.flags & command_flag::REQ_ONE != 0;
        Ok(Command::BlockStatus { extent, one })
    }

    fn check_flags(&self, negotiated: Negotiated) -> Result<(), (Errno, &'static str)> {
        let extended = negotiated.style == HeaderStyle::Extended;
        let chunked = negotiated.style != HeaderStyle::Simple;
        let payload = if extended {
            command_flag::PAYLOAD_LEN
        } else {
            0
        };
        let allowed = match self.command {
            command::READ if chunked => command_flag::DF,
            command::WRITE => payload,
            command::WRITE_ZEROES => command_flag::NO_HOLE | command_flag::FAST_ZERO,
            command::BLOCK_STATUS => command_flag::REQ_ONE | payload,
            _ => 0,
        };
        // FUA must be accepted with any command.
        if self.flags & !(allowed | command_flag::FUA) != 0 {
            return Err((Errno::Invalid, "flag that this command does not have"));
        }
        Ok(())
    }

    fn check_inside(
        &self,
        extent: Extent,
        size: u64,
        errno: Errno,
    ) -> Result<(), (Errno, &'static str)> {
        if extent.fits(size) {
            Ok(())
        } else {
            Err((errno, "beyond the end of the export"))
        }
    }
}

fn check_writable(negotiated: Negotiated) -> Result<(), (Errno, &'static str)> {
    if negotiated.read_only {
        Err((Errno::NotPermitted, "the export is read-only"))
    } else {
        Ok(())
    }
}

/// Returns the effect length in the payload of a block status request, which may also select
/// contexts.
pub fn block_status_payload(payload: &[u8]) -> Result<u64, (Errno, &'static str)> {
    // There is one context, so that its list is complete; a duplicate or an unknown context is an
    // error.
    if payload.len() != 12 {
        return Err((
            Errno::Invalid,
            "payload is not a length and one known context",
        ));
    }
    if u32_at(payload, 8) != BASE_ALLOCATION_ID {
        return Err((Errno::Invalid, "unknown metadata context"));
    }
    Ok(u64_at(payload, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIMPLE: Negotiated = Negotiated {
        style: HeaderStyle::Simple,
        has_status: false,
        read_only: false,
    };
    const EXTENDED: Negotiated = Negotiated {
        style: HeaderStyle::Extended,
        has_status: true,
        read_only: false,
    };
    const SIZE: u64 = 1 << 40;

    #[test]
    fn literal_headers_are_decoded() {
        let compact = b"\x25\x60\x95\x13\0\x01\0\x01cookie!!\0\0\0\0\0\0\x10\0\0\0\x02\0";
        let request = Request::decode(HeaderStyle::Structured, compact)
            .unwrap()
            .unwrap();
        let expected = Request {
            flags: 1,
            command: 1,
            cookie: u64::from_be_bytes(*b"cookie!!"),
            offset: 4096,
            length: 512,
        };
        assert_eq!(request, expected);
        assert_eq!(request.payload_bytes(HeaderStyle::Structured), 512);
        for cut in 0..compact.len() {
            assert_eq!(
                Request::decode(HeaderStyle::Simple, &compact[..cut]),
                Ok(None)
            );
        }
        let extended =
            b"\x21\xe4\x1c\x71\0\x20\0\x07\0\0\0\0\0\0\0\x09\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x0c";
        let request = Request::decode(HeaderStyle::Extended, extended)
            .unwrap()
            .unwrap();
        assert_eq!(
            (request.command, request.offset, request.length),
            (7, 1 << 32, 12)
        );
        assert_eq!(request.payload_bytes(HeaderStyle::Extended), 12);
        assert!(Request::decode(HeaderStyle::Simple, extended).is_err());
        assert!(Request::decode(HeaderStyle::Extended, compact).is_err());
    }

    fn check(flags: u16, command: u16, offset: u64, length: u64, n: Negotiated) -> Option<Errno> {
        let request = Request {
            flags,
            command,
            cookie: 0,
            offset,
            length,
        };
        request.check(n, SIZE).err().map(|(errno, _)| errno)
    }

    #[test]
    fn each_invalid_request_has_the_specified_error() {
        let read_only = Negotiated {
            read_only: true,
            ..SIMPLE
        };
        for (flags, command, offset, length, negotiated, expected) in [
            (0, 0, SIZE - 1, 1, SIMPLE, None),
            (0, 0, SIZE, 1, SIMPLE, Some(Errno::Invalid)),
            (0, 0, u64::MAX, 1, SIMPLE, Some(Errno::Invalid)),
            (0, 0, 0, 1 << 26, SIMPLE, Some(Errno::Invalid)),
            (0, 0, 0, 1 << 26, EXTENDED, Some(Errno::Overflow)),
            (4, 0, 0, 1, SIMPLE, Some(Errno::Invalid)),
            (4, 0, 0, 1, EXTENDED, None),
            (1, 0, 0, 1, SIMPLE, None),
            (0, 1, SIZE, 1, SIMPLE, Some(Errno::NoSpace)),
            (0, 1, 0, 1, read_only, Some(Errno::NotPermitted)),
            (0, 1, 0, 1, EXTENDED, None),
            (0x20, 1, 0, 1, EXTENDED, None),
            (0x20, 1, 0, 1, SIMPLE, Some(Errno::Invalid)),
            (0x20, 0, 0, 1, EXTENDED, Some(Errno::Invalid)),
            (1, 3, 0, 0, SIMPLE, None),
            (0, 3, 0, 1, SIMPLE, Some(Errno::Invalid)),
            (0, 4, SIZE, 1, SIMPLE, Some(Errno::Invalid)),
            (0, 4, 0, 1, read_only, Some(Errno::NotPermitted)),
            (0, 5, 0, 1, read_only, None),
            (2, 5, 0, 1, SIMPLE, Some(Errno::Invalid)),
            (0x13, 6, 0, SIZE, EXTENDED, None),
            (0, 6, 1, SIZE, EXTENDED, Some(Errno::NoSpace)),
            (0, 7, 0, 1, SIMPLE, Some(Errno::Invalid)),
            (8, 7, 0, SIZE, EXTENDED, None),
            (8, 7, 1, SIZE, EXTENDED, Some(Errno::Invalid)),
            (0, 7, 0, 0, EXTENDED, Some(Errno::Invalid)),
            (0, 8, 0, 0, SIMPLE, Some(Errno::Invalid)),
            (0x8000, 0, 0, 1, SIMPLE, Some(Errno::Invalid)),
        ] {
            assert_eq!(
                check(flags, command, offset, length, negotiated),
                expected,
                "flags {flags:#x} command {command} at {offset} + {length}"
            );
        }
    }

    #[test]
    fn status_payload_selects_the_single_context() {
        let good = [&7_u64.to_be_bytes()[..], &1_u32.to_be_bytes()].concat();
        assert_eq!(block_status_payload(&good), Ok(7));
        let stranger = [&7_u64.to_be_bytes()[..], &2_u32.to_be_bytes()].concat();
        assert!(block_status_payload(&stranger).is_err());
        let twice = [&good[..], &1_u32.to_be_bytes()].concat();
        assert!(block_status_payload(&twice).is_err());
        assert!(block_status_payload(&good[..8]).is_err());
    }
}
