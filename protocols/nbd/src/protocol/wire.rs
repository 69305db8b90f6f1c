//! Constants of the protocol document, with its names.

/// `NBDMAGIC`, the start of the server's greeting.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`, before the server's flags and before each option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before a compact request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before an extended request.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Before a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// Before an extended reply chunk.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Maximum bytes of a string.
pub const STRING_BYTES_MAX: usize = 4096;
/// Maximum payload of a request or reply: every client may rely on it.
pub const PAYLOAD_BYTES_MAX: u32 = 1 << 25;

/// Handshake flags; the client's flags have the same bits.
pub mod handshake_flag {
    /// `NBD_FLAG_FIXED_NEWSTYLE`
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// `NBD_FLAG_NO_ZEROES`
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// `NBD_OPT_*`
#[allow(missing_docs)]
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// `NBD_REP_*`
#[allow(missing_docs)]
pub mod option_reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    pub const ERR_SHUTDOWN: u32 = (1 << 31) + 7;
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
    pub const ERR_EXT_HEADER_REQD: u32 = (1 << 31) + 10;
}

/// `NBD_INFO_*`
#[allow(missing_docs)]
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags, `NBD_FLAG_*`
#[allow(missing_docs)]
pub mod transmission_flag {
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
    pub const BLOCK_STATUS_PAYLOAD: u16 = 1 << 12;
}

/// `NBD_CMD_*`
#[allow(missing_docs)]
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// `NBD_CMD_FLAG_*`
#[allow(missing_docs)]
pub mod command_flag {
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// `NBD_REPLY_TYPE_*`
#[allow(missing_docs)]
pub mod reply_type {
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const OFFSET_HOLE: u16 = 2;
    pub const BLOCK_STATUS: u16 = 5;
    pub const BLOCK_STATUS_EXT: u16 = 6;
    pub const ERROR: u16 = (1 << 15) + 1;
}

/// `NBD_REPLY_FLAG_DONE`
pub const REPLY_FLAG_DONE: u16 = 1 << 0;

/// The only supported metadata context.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// The context ID that this server assigns to it.
pub const BASE_ALLOCATION_ID: u32 = 1;
/// `NBD_STATE_HOLE`
pub const STATE_HOLE: u32 = 1 << 0;
/// `NBD_STATE_ZERO`
pub const STATE_ZERO: u32 = 1 << 1;

/// The error numbers of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// `NBD_EPERM`
    NotPermitted = 1,
    /// `NBD_EIO`
    Io = 5,
    /// `NBD_EINVAL`
    Invalid = 22,
    /// `NBD_ENOSPC`
    NoSpace = 28,
    /// `NBD_EOVERFLOW`
    Overflow = 75,
    /// `NBD_ENOTSUP`
    NotSupported = 95,
    /// `NBD_ESHUTDOWN`
    Shutdown = 108,
}

/// The negotiated format of requests and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderStyle {
    /// Compact requests, simple replies.
    Simple,
    /// Compact requests; chunks for reads, errors and other replies with a payload.
    Structured,
    /// 32-byte requests and 32-byte chunks.
    Extended,
}

impl HeaderStyle {
    /// Bytes of a request header.
    pub const fn request_bytes(self) -> usize {
        match self {
            Self::Simple | Self::Structured => 28,
            Self::Extended => 32,
        }
    }
}
