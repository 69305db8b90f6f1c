//! The fixed newstyle handshake as a state machine: it consumes the client's input and produces
//! output until the export to serve is negotiated.

use super::wire::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, HeaderStyle, INIT_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC,
    PAYLOAD_BYTES_MAX, STRING_BYTES_MAX, handshake_flag, info, option, option_reply,
    transmission_flag,
};

/// Maximum bytes of a parsed option; the longest sensible one is a few names and queries.
const OPTION_BYTES_MAX: usize = 64 << 10;
/// Maximum options of a client before the handshake fails.
const OPTIONS_MAX: u32 = 10_000;
/// Bytes before an option's data.
const OPTION_HEADER_BYTES: usize = 16;

/// Whether TLS is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPolicy {
    /// No.
    Off,
    /// The client may use it; some exports may require it.
    Offered,
    /// All other options are refused before it.
    Required,
}

/// The properties of an export that a client may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// The name in the list of exports.
    pub name: String,
    /// For operators; may be empty.
    pub description: String,
    /// Size in bytes.
    pub size: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// The preferred block size in bytes: aligned multiples are read and written most efficiently.
    pub preferred_block: u32,
}

/// An entry of the list of exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Its name.
    pub name: String,
    /// For operators; may be empty.
    pub description: String,
}

/// The result of a lookup by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The client may use it.
    Found(ExportInfo),
    /// The client may be allowed to use it after TLS.
    NeedsTls,
    /// It does not exist, or the client may not use it.
    Unknown,
}

/// The exports as one client sees them.
pub trait Directory {
    /// Returns the visible exports.
    fn list(&self) -> Vec<Listing>;
    /// Finds an export by name; the empty name is the default export.
    fn find(&self, name: &str) -> Lookup;
    /// Whether the server is about to stop, so that options are refused.
    fn is_shutting_down(&self) -> bool;
}

/// The negotiated parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The export's canonical name.
    pub export: String,
    /// The format of requests and replies.
    pub style: HeaderStyle,
    /// Whether `base:allocation` was selected.
    pub has_status: bool,
}

/// The next action of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait for more input.
    NeedInput,
    /// A message was consumed; the input may contain more.
    Again,
    /// Send the output, then start TLS. No input may be left.
    StartTls,
    /// Send the output, then serve.
    Serve(Transmission),
    /// Send the output, then close.
    Close,
}

/// A violation after which the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeViolation {
    /// Unknown client flags.
    #[error("client flags {0:#x} are unknown")]
    ClientFlags(u32),
    /// The magic number of an option is wrong.
    #[error("option with magic number {0:#x}")]
    OptionMagic(u64),
    /// An old-style request, which has no error reply.
    #[error("the requested export is unavailable, and the request has no error reply")]
    ExportRefused,
    /// Too many options.
    #[error("too many options")]
    TooManyOptions,
}

/// The server's side of one handshake.
#[derive(Debug)]
pub struct Handshake {
    tls_policy: TlsPolicy,
    tls_active: bool,
    greeted: bool,
    no_zeroes: bool,
    style: HeaderStyle,
    /// The export for which `base:allocation` was selected, by its canonical name.
    status_for: Option<String>,
    options: u32,
    /// Remaining bytes of an option that is too long to parse.
    discarding: u64,
}

impl Handshake {
    /// Creates a handshake and its greeting.
    pub fn start(tls_policy: TlsPolicy) -> (Self, [u8; 18]) {
        let mut greeting = [0; 18];
        let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
        greeting[..8].copy_from_slice(&INIT_MAGIC.to_be_bytes());
        greeting[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        greeting[16..].copy_from_slice(&flags.to_be_bytes());
        let handshake = Self {
            tls_policy,
            tls_active: false,
            greeted: false,
            no_zeroes: false,
            style: HeaderStyle::Simple,
            status_for: None,
            options: 0,
            discarding: 0,
        };
        (handshake, greeting)
    }

    /// Whether TLS was started.
    pub fn is_encrypted(&self) -> bool {
        self.tls_active
    }

    /// Consumes one message at the front of `input`. Returns its size, and the action after the
    /// bytes appended to `output` are sent.
    pub fn advance(
        &mut self,
        input: &[u8],
        exports: &dyn Directory,
        output: &mut Vec<u8>,
    ) -> Result<(usize, Step), HandshakeViolation> {
        if self.discarding > 0 {
            let gone = self.discarding.min(input.len() as u64);
            self.discarding -= gone;
            let step = if gone == 0 {
                Step::NeedInput
            } else {
                Step::Again
            };
            return Ok((gone as usize, step));
        }
        if !self.greeted {
            return self.take_client_flags(input);
        }
        let Some(header) = input.first_chunk::<OPTION_HEADER_BYTES>() else {
            return Ok((0, Step::NeedInput));
        };
        let magic = u64::from_be_bytes(header[..8].try_into().expect("eight bytes"));
        if magic != OPTION_MAGIC {
            return Err(HandshakeViolation::OptionMagic(magic));
        }
        let code = u32::from_be_bytes(header[8..12].try_into().expect("four bytes"));
        let length = u32::from_be_bytes(header[12..].try_into().expect("four bytes")) as usize;
        if length > OPTION_BYTES_MAX {
            self.count_option()?;
            return self.refuse_long_option(code, length, output);
        }
        let Some(data) = input.get(OPTION_HEADER_BYTES..OPTION_HEADER_BYTES + length) else {
            return Ok((0, Step::NeedInput));
        };
        self.count_option()?;
        let step = self.take_option(code, data, exports, &mut Replies { code, output })?;
        Ok((OPTION_HEADER_BYTES + length, step))
    }

    fn count_option(&mut self) -> Result<(), HandshakeViolation> {
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Err(HandshakeViolation::TooManyOptions);
        }
        Ok(())
    }

    fn take_client_flags(&mut self, input: &[u8]) -> Result<(usize, Step), HandshakeViolation> {
        let Some(bytes) = input.first_chunk::<4>() else {
            return Ok((0, Step::NeedInput));
        };
        let flags = u32::from_be_bytes(*bytes);
        let known = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
        if flags & !u32::from(known) != 0 {
            return Err(HandshakeViolation::ClientFlags(flags));
        }
        self.no_zeroes = flags & u32::from(handshake_flag::NO_ZEROES) != 0;
        self.greeted = true;
        Ok((4, Step::Again))
    }

    fn refuse_long_option(
        &mut self,
        code: u32,
        length: usize,
        output: &mut Vec<u8>,
    ) -> Result<(usize, Step), HandshakeViolation> {
        if code == option::EXPORT_NAME {
            return Err(HandshakeViolation::ExportRefused);
        }
        self.discarding = length as u64;
        let mut replies = Replies { code, output };
        if self.must_start_tls() && !matches!(code, option::ABORT | option::STARTTLS) {
            replies.error(option_reply::ERR_TLS_REQD, "start TLS first");
        } else {
            replies.error(option_reply::ERR_TOO_BIG, "option is too long");
        }
        Ok((OPTION_HEADER_BYTES, Step::Again))
    }

    fn must_start_tls(&self) -> bool {
        self.tls_policy == TlsPolicy::Required && !self.tls_active
    }

    fn take_option(
        &mut self,
        code: u32,
        data: &[u8],
        exports: &dyn Directory,
        replies: &mut Replies<'_>,
    ) -> Result<Step, HandshakeViolation> {
        match code {
            option::ABORT => {
                replies.ack();
                return Ok(Step::Close);
            }
            option::EXPORT_NAME => return self.export_name(data, exports, replies),
            option::STARTTLS => return Ok(self.start_tls(data, replies)),
            _ if self.must_start_tls() => {
                replies.error(option_reply::ERR_TLS_REQD, "start TLS first");
                return Ok(Step::Again);
            }
            _ if exports.is_shutting_down() => {
                replies.error(option_reply::ERR_SHUTDOWN, "the server is shutting down");
                return Ok(Step::Again);
            }
            _ => {}
        }
        match code {
            option::LIST => list(data, exports, replies),
            option::INFO | option::GO => return Ok(self.info_or_go(code, data, exports, replies)),
            option::STRUCTURED_REPLY => self.structured_reply(data, replies),
            option::EXTENDED_HEADERS => self.extended_headers(data, replies),
            option::LIST_META_CONTEXT => self.meta_context(false, data, exports, replies),
            option::SET_META_CONTEXT => self.meta_context(true, data, exports, replies),
            _ => replies.error(option_reply::ERR_UNSUP, "unknown option"),
        }
        Ok(Step::Again)
    }

    fn export_name(
        &mut self,
        data: &[u8],
        exports: &dyn Directory,
        replies: &mut Replies<'_>,
    ) -> Result<Step, HandshakeViolation> {
        let refused = HandshakeViolation::ExportRefused;
        if self.must_start_tls()
            || self.style == HeaderStyle::Extended
            || exports.is_shutting_down()
        {
            return Err(refused);
        }
        let name = text(data).ok_or(refused)?;
        let Lookup::Found(export) = exports.find(name) else {
            return Err(refused);
        };
        let transmission = self.transmission(&export);
        let output = &mut replies.output;
        output.extend_from_slice(&export.size.to_be_bytes());
        output.extend_from_slice(&transmission_flags(&export, &transmission).to_be_bytes());
        if !self.no_zeroes {
            output.extend_from_slice(&[0; 124]);
        }
        Ok(Step::Serve(transmission))
    }

    fn start_tls(&mut self, data: &[u8], replies: &mut Replies<'_>) -> Step {
        if self.tls_active {
            replies.error(option_reply::ERR_INVALID, "TLS is active");
        } else if !data.is_empty() {
            replies.error(option_reply::ERR_INVALID, "option has data");
        } else if self.tls_policy == TlsPolicy::Off {
            replies.error(option_reply::ERR_POLICY, "TLS is not configured");
        } else {
            replies.ack();
            // State negotiated in plain text is discarded.
            self.tls_active = true;
            self.style = HeaderStyle::Simple;
            self.status_for = None;
            return Step::StartTls;
        }
        Step::Again
    }

    fn structured_reply(&mut self, data: &[u8], replies: &mut Replies<'_>) {
        if !data.is_empty() {
            replies.error(option_reply::ERR_INVALID, "option has data");
        } else if self.style == HeaderStyle::Extended {
            replies.error(
                option_reply::ERR_EXT_HEADER_REQD,
                "extended headers are in use",
            );
        } else {
            self.style = HeaderStyle::Structured;
            replies.ack();
        }
    }

    fn extended_headers(&mut self, data: &[u8], replies: &mut Replies<'_>) {
        if !data.is_empty() {
            replies.error(option_reply::ERR_INVALID, "option has data");
        } else {
            self.style = HeaderStyle::Extended;
            replies.ack();
        }
    }

    fn info_or_go(
        &mut self,
        code: u32,
        data: &[u8],
        exports: &dyn Directory,
        replies: &mut Replies<'_>,
    ) -> Step {
        let Some((name, wanted)) = parse_info(data) else {
            replies.error(option_reply::ERR_INVALID, "malformed option");
            return Step::Again;
        };
        let Some(export) = replies.find(name, exports) else {
            return Step::Again;
        };
        let transmission = self.transmission(&export);
        let mut body = export.size.to_be_bytes().to_vec();
        body.extend_from_slice(&transmission_flags(&export, &transmission).to_be_bytes());
        replies.info(info::EXPORT, &body);
        if wanted.contains(&info::NAME) {
            replies.info(info::NAME, export.name.as_bytes());
        }
        if wanted.contains(&info::DESCRIPTION) && !export.description.is_empty() {
            replies.info(info::DESCRIPTION, export.description.as_bytes());
        }
        if wanted.contains(&info::BLOCK_SIZE) {
            // Devices accept any alignment.
            let sizes = [1, export.preferred_block, PAYLOAD_BYTES_MAX];
            replies.info(info::BLOCK_SIZE, &sizes.map(u32::to_be_bytes).concat());
        }
        replies.ack();
        if code == option::GO {
            Step::Serve(transmission)
        } else {
            Step::Again
        }
    }

    fn meta_context(
        &mut self,
        select: bool,
        data: &[u8],
        exports: &dyn Directory,
        replies: &mut Replies<'_>,
    ) {
        if select {
            // Even a failure replaces an earlier selection.
            self.status_for = None;
            if self.style == HeaderStyle::Simple {
                return replies.error(
                    option_reply::ERR_INVALID,
                    "negotiate structured replies or extended headers first",
                );
            }
        }
        let Some((name, queries)) = parse_meta_context(data) else {
            return replies.error(option_reply::ERR_INVALID, "malformed option");
        };
        let Some(export) = replies.find(name, exports) else {
            return;
        };
        if queries.iter().any(|query| !query.contains(':')) {
            return replies.error(option_reply::ERR_INVALID, "query without a namespace");
        }
        let all = !select && queries.is_empty();
        let matches = |query: &&str| *query == BASE_ALLOCATION || (!select && *query == "base:");
        if all || queries.iter().any(matches) {
            let id = if select { BASE_ALLOCATION_ID } else { 0 };
            let body = [&id.to_be_bytes(), BASE_ALLOCATION.as_bytes()].concat();
            replies.reply(option_reply::META_CONTEXT, &body);
            if select {
                self.status_for = Some(export.name);
            }
        }
        replies.ack();
    }

    fn transmission(&self, export: &ExportInfo) -> Transmission {
        Transmission {
            export: export.name.clone(),
            style: self.style,
            has_status: self.style != HeaderStyle::Simple
                && self.status_for.as_deref() == Some(&export.name),
        }
    }
}

fn list(data: &[u8], exports: &dyn Directory, replies: &mut Replies<'_>) {
    if !data.is_empty() {
        return replies.error(option_reply::ERR_INVALID, "option has data");
    }
    for listing in exports.list() {
        let mut body = (listing.name.len() as u32).to_be_bytes().to_vec();
        body.extend_from_slice(listing.name.as_bytes());
        body.extend_from_slice(listing.description.as_bytes());
        replies.reply(option_reply::SERVER, &body);
    }
    replies.ack();
}

fn transmission_flags(export: &ExportInfo, transmission: &Transmission) -> u16 {
    use transmission_flag::*;
    // A flush covers writes that were acknowledged on any connection, so that several connections
    // may share the work.
    let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN | SEND_CACHE;
    if export.read_only {
        flags |= READ_ONLY;
    } else {
        flags |= SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO;
    }
    if transmission.style != HeaderStyle::Simple {
        flags |= SEND_DF;
    }
    if transmission.style == HeaderStyle::Extended && transmission.has_status {
        flags |= BLOCK_STATUS_PAYLOAD;
    }
    flags
}

/// The replies to one option.
struct Replies<'a> {
    code: u32,
    output: &'a mut Vec<u8>,
}

impl Replies<'_> {
    fn reply(&mut self, kind: u32, body: &[u8]) {
        self.output
            .extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
        self.output.extend_from_slice(&self.code.to_be_bytes());
        self.output.extend_from_slice(&kind.to_be_bytes());
        self.output
            .extend_from_slice(&(body.len() as u32).to_be_bytes());
        self.output.extend_from_slice(body);
    }

    fn ack(&mut self) {
        self.reply(option_reply::ACK, &[]);
    }

    fn error(&mut self, kind: u32, message: &str) {
        self.reply(kind, message.as_bytes());
    }

    fn info(&mut self, kind: u16, body: &[u8]) {
        let body = [&kind.to_be_bytes(), body].concat();
        self.reply(option_reply::INFO, &body);
    }

    /// Returns the export, or sends an error reply.
    fn find(&mut self, name: &str, exports: &dyn Directory) -> Option<ExportInfo> {
        match exports.find(name) {
            Lookup::Found(export) => return Some(export),
            Lookup::NeedsTls => {
                self.error(option_reply::ERR_TLS_REQD, "start TLS for this export");
            }
            Lookup::Unknown => self.error(option_reply::ERR_UNKNOWN, "no such export"),
        }
        None
    }
}

/// Decodes a string of the protocol: UTF-8, no NUL, not too long.
fn text(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > STRING_BYTES_MAX || bytes.contains(&0) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

fn take_u32(data: &mut &[u8]) -> Option<u32> {
    let (bytes, rest) = data.split_first_chunk::<4>()?;
    *data = rest;
    Some(u32::from_be_bytes(*bytes))
}

fn take_text<'a>(data: &mut &'a [u8]) -> Option<&'a str> {
    let length = take_u32(data)? as usize;
    let (bytes, rest) = data.split_at_checked(length)?;
    *data = rest;
    text(bytes)
}

/// Parses name and information requests of `NBD_OPT_INFO` and `NBD_OPT_GO`.
fn parse_info(mut data: &[u8]) -> Option<(&str, Vec<u16>)> {
    let name = take_text(&mut data)?;
    let (count, rest) = data.split_first_chunk::<2>()?;
    let count = usize::from(u16::from_be_bytes(*count));
    if rest.len() != 2 * count {
        return None;
    }
    let wanted = rest
        .chunks_exact(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
        .collect();
    Some((name, wanted))
}

/// Parses name and queries of the metadata context options.
fn parse_meta_context(mut data: &[u8]) -> Option<(&str, Vec<&str>)> {
    let name = take_text(&mut data)?;
    let count = take_u32(&mut data)? as usize;
    // Each query has at least its length.
    if count > data.len() / 4 {
        return None;
    }
    let mut queries = Vec::with_capacity(count);
    for _ in 0..count {
        queries.push(take_text(&mut data)?);
    }
    data.is_empty().then_some((name, queries))
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
