//! Replies of the transmission phase, in the negotiated style.

use serving::InlineBytes;
use units::Extent;

use super::Request;
use super::wire::{
    BASE_ALLOCATION_ID, EXTENDED_REPLY_MAGIC, Errno, HeaderStyle, REPLY_FLAG_DONE,
    SIMPLE_REPLY_MAGIC, STATE_HOLE, STATE_ZERO, STRUCTURED_REPLY_MAGIC, reply_type,
};

/// Maximum bytes of the message in an error chunk; ours are much shorter.
const MESSAGE_BYTES_MAX: usize = 256;

/// A run of bytes with the same allocation state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusExtent {
    /// Length in bytes, not zero.
    pub length: u64,
    /// Whether it is allocated; otherwise it is a hole of zeroes.
    pub allocated: bool,
}

fn simple(request: &Request, errno: u32) -> InlineBytes {
    let mut head = InlineBytes::EMPTY;
    head.push(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    head.push(&errno.to_be_bytes());
    head.push(&request.cookie.to_be_bytes());
    head
}

/// Builds the header of a final chunk, structured or extended.
fn chunk(style: HeaderStyle, request: &Request, kind: u16, payload_bytes: u64) -> InlineBytes {
    let extended = style == HeaderStyle::Extended;
    let magic = if extended {
        EXTENDED_REPLY_MAGIC
    } else {
        STRUCTURED_REPLY_MAGIC
    };
    let mut head = InlineBytes::EMPTY;
    head.push(&magic.to_be_bytes());
    head.push(&REPLY_FLAG_DONE.to_be_bytes());
    head.push(&kind.to_be_bytes());
    head.push(&request.cookie.to_be_bytes());
    if extended {
        head.push(&request.offset.to_be_bytes());
        head.push(&payload_bytes.to_be_bytes());
    } else {
        // Payloads are bounded far below this.
        head.push(&(payload_bytes as u32).to_be_bytes());
    }
    head
}

impl Request {
    /// Builds a success reply without a payload.
    pub fn done(&self, style: HeaderStyle) -> InlineBytes {
        match style {
            HeaderStyle::Simple | HeaderStyle::Structured => simple(self, 0),
            HeaderStyle::Extended => chunk(style, self, reply_type::NONE, 0),
        }
    }

    /// Builds the header of a successful read of `extent`.
    pub fn data(&self, style: HeaderStyle, extent: Extent) -> InlineBytes {
        match style {
            HeaderStyle::Simple => simple(self, 0),
            // A content chunk must not be empty.
            _ if extent.length == 0 => chunk(style, self, reply_type::NONE, 0),
            _ => {
                let mut head = chunk(style, self, reply_type::OFFSET_DATA, 8 + extent.length);
                head.push(&extent.offset.to_be_bytes());
                head
            }
        }
    }

    /// Builds the reply to a read of zeroes without data; `None` if the zeroes must be sent.
    pub fn hole(&self, style: HeaderStyle, extent: Extent) -> Option<InlineBytes> {
        let length = u32::try_from(extent.length)
            .ok()
            .filter(|length| *length > 0)?;
        if style == HeaderStyle::Simple {
            return None;
        }
        let mut head = chunk(style, self, reply_type::OFFSET_HOLE, 12);
        head.push(&extent.offset.to_be_bytes());
        head.push(&length.to_be_bytes());
        Some(head)
    }

    /// Builds an error reply, with a message if the style permits one.
    pub fn error(&self, style: HeaderStyle, errno: Errno, message: &str) -> Vec<u8> {
        if style == HeaderStyle::Simple {
            return simple(self, errno as u32).as_slice().to_vec();
        }
        let mut end = message.len().min(MESSAGE_BYTES_MAX);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let message = &message.as_bytes()[..end];
        let payload_bytes = 6 + message.len() as u64;
        let mut bytes = chunk(style, self, reply_type::ERROR, payload_bytes)
            .as_slice()
            .to_vec();
        bytes.extend_from_slice(&(errno as u32).to_be_bytes());
        bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
        bytes.extend_from_slice(message);
        bytes
    }

    /// Builds a status reply for consecutive runs, at least one.
    pub fn status(&self, style: HeaderStyle, runs: &[StatusExtent]) -> Vec<u8> {
        let extended = style == HeaderStyle::Extended;
        let (kind, fixed, each) = if extended {
            (reply_type::BLOCK_STATUS_EXT, 8, 16)
        } else {
            (reply_type::BLOCK_STATUS, 4, 8)
        };
        let payload_bytes = fixed + each * runs.len();
        let mut bytes = chunk(style, self, kind, payload_bytes as u64)
            .as_slice()
            .to_vec();
        bytes.reserve(payload_bytes);
        bytes.extend_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
        if extended {
            bytes.extend_from_slice(&(runs.len() as u32).to_be_bytes());
        }
        for run in runs {
            let flags = if run.allocated {
                0
            } else {
                STATE_HOLE | STATE_ZERO
            };
            if extended {
                bytes.extend_from_slice(&run.length.to_be_bytes());
                bytes.extend_from_slice(&u64::from(flags).to_be_bytes());
            } else {
                // A compact request's length has 32 bits, and no run goes beyond it.
                bytes.extend_from_slice(&(run.length as u32).to_be_bytes());
                bytes.extend_from_slice(&flags.to_be_bytes());
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Request = Request {
        flags: 0,
        command: 0,
        cookie: 0x0102_0304_0506_0708,
        offset: 0x1000,
        length: 0x200,
    };

    #[test]
    fn replies_match_the_specification_bytes() {
        let extent = Extent::new(READ.offset, READ.length);
        let cookie = b"\x01\x02\x03\x04\x05\x06\x07\x08";
        let offset = b"\0\0\0\0\0\0\x10\0";
        assert_eq!(
            READ.data(HeaderStyle::Simple, extent).as_slice(),
            [&b"\x67\x44\x66\x98\0\0\0\0"[..], cookie].concat()
        );
        assert_eq!(
            READ.data(HeaderStyle::Structured, extent).as_slice(),
            [
                &b"\x66\x8e\x33\xef\0\x01\0\x01"[..],
                cookie,
                b"\0\0\x02\x08",
                offset
            ]
            .concat()
        );
        let length = b"\0\0\0\0\0\0\x02\x08";
        assert_eq!(
            READ.data(HeaderStyle::Extended, extent).as_slice(),
            [
                &b"\x6e\x8a\x27\x8c\0\x01\0\x01"[..],
                cookie,
                offset,
                length,
                offset
            ]
            .concat()
        );
        assert_eq!(
            READ.hole(HeaderStyle::Structured, extent)
                .unwrap()
                .as_slice(),
            [
                &b"\x66\x8e\x33\xef\0\x01\0\x02"[..],
                cookie,
                b"\0\0\0\x0c",
                offset,
                b"\0\0\x02\0"
            ]
            .concat()
        );
        assert_eq!(
            READ.error(HeaderStyle::Structured, Errno::Invalid, "no"),
            [
                &b"\x66\x8e\x33\xef\0\x01\x80\x01"[..],
                cookie,
                b"\0\0\0\x08\0\0\0\x16\0\x02no"
            ]
            .concat()
        );
        assert_eq!(
            READ.error(HeaderStyle::Simple, Errno::Io, "no"),
            [&b"\x67\x44\x66\x98\0\0\0\x05"[..], cookie].concat()
        );
        assert_eq!(
            READ.done(HeaderStyle::Extended).as_slice(),
            [&b"\x6e\x8a\x27\x8c\0\x01\0\0"[..], cookie, offset, &[0; 8]].concat()
        );
    }

    #[test]
    fn block_status_matches_the_specification_bytes() {
        let runs = [
            StatusExtent {
                length: 0x1_0000_0000,
                allocated: true,
            },
            StatusExtent {
                length: 0x200,
                allocated: false,
            },
        ];
        let wide = READ.status(HeaderStyle::Extended, &runs);
        assert_eq!(wide[4..8], *b"\0\x01\0\x06");
        assert_eq!(wide[24..32], *b"\0\0\0\0\0\0\0\x28");
        assert_eq!(wide[32..40], *b"\0\0\0\x01\0\0\0\x02");
        assert_eq!(wide[40..56], *b"\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(wide[56..], *b"\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\x03");
        let narrow = READ.status(HeaderStyle::Structured, &runs[1..]);
        assert_eq!(narrow[4..8], *b"\0\x01\0\x05");
        assert_eq!(narrow[16..], *b"\0\0\0\x0c\0\0\0\x01\0\0\x02\0\0\0\0\x03");
    }

    #[test]
    fn an_empty_read_has_no_content_chunk() {
        let head = READ.data(HeaderStyle::Structured, Extent::new(0, 0));
        assert_eq!(head.as_slice()[4..8], *b"\0\x01\0\0");
        assert!(
            READ.hole(HeaderStyle::Structured, Extent::new(0, 0))
                .is_none()
        );
    }
}
