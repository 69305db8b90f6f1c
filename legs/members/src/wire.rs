//! Encodes and decodes messages, as described in `docs/formats/members.md`.

use std::collections::BTreeMap;

use leg_record::codec::{Malformed, Reader, Writer};
use leg_record::{
    Ballot, DecodeError, Denial, DiskId, Holder, LenderRequest, LenderResponse, MemberId,
    MemberState, Observed, Record, Request, Response, Roots, Version, decode_state, encode_state,
};

use crate::limits::MESSAGE_BYTES_MAX;
use crate::liveness::{Liveness, MEMBERS_MAX};
use crate::silence::Silence;

const MAGIC: &[u8; 8] = b"BHMEMBER";
const VERSION: u32 = 2;
/// Longest name of an export, in bytes.
const EXPORT_BYTES_MAX: usize = 128;
/// Longest description of a disk's contents, in bytes.
pub const CONTENTS_BYTES_MAX: usize = 256;
/// Length of the digest of a configuration.
pub const DIGEST_BYTES: usize = 32;
/// Magic, version, member.
pub const HELLO_BYTES: usize = 20;
/// Kind, pool, boot.
const BEGINNING_BYTES: usize = 17;

/// Kinds of messages.
mod kind {
    pub(super) const ALIVE: u8 = 0;
    pub(super) const READ: u8 = 1;
    pub(super) const CLAIM: u8 = 2;
    pub(super) const PROPOSE: u8 = 3;
    pub(super) const COMMITTED: u8 = 4;
    pub(super) const FOUND: u8 = 5;
    pub(super) const WELCOME: u8 = 6;
    pub(super) const JOIN: u8 = 7;
    pub(super) const WITHDRAW: u8 = 8;
    pub(super) const CLAIM_DISK: u8 = 10;
    pub(super) const BEGIN_DISK: u8 = 11;
    pub(super) const INSPECT_DISK: u8 = 12;
    pub(super) const REQUEST_CONFIGURATION: u8 = 13;
    pub(super) const REQUEST_LIVENESS: u8 = 14;
    pub(super) const REQUEST_STEADINESS: u8 = 15;
    pub(super) const STORED: u8 = 65;
    pub(super) const PROMISED: u8 = 66;
    pub(super) const SERVES: u8 = 67;
    pub(super) const ACCEPTED: u8 = 68;
    pub(super) const REFUSED: u8 = 69;
    pub(super) const CREATED: u8 = 70;
    pub(super) const SILENT: u8 = 71;
    pub(super) const STATE_LOST: u8 = 72;
    pub(super) const ADMITTED: u8 = 80;
    pub(super) const BEGUN: u8 = 81;
    pub(super) const LENDER_REFUSED: u8 = 82;
    pub(super) const INSPECTED: u8 = 83;
    pub(super) const CONFIGURATION: u8 = 84;
    pub(super) const LIVENESS: u8 = 85;
    pub(super) const STEADINESS: u8 = 86;
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Keep-alive.
    Alive,
    /// A request to a member.
    Request(Request),
    /// The response of a member.
    Response(Response),
    /// Request to store a new pool.
    Found(MemberState),
    /// The new pool is stored, with the record of this version.
    Created(Version),
    /// The member does not respond for the pool, with the reason.
    Silent(Silence),
    /// A request to the lender of a disk on the receiver's host.
    LenderRequest(DiskId, LenderRequest),
    /// The lender's response.
    Lent(Lent),
    /// Request for the state of a disk. Read-only.
    Inspect(DiskId),
    /// The state of a disk.
    Inspection(Inspection),
    /// Request for the digest of a head's configuration of the pool.
    RequestConfiguration,
    /// That digest; `None` if the configuration does not name the pool.
    Configuration(Option<[u8; DIGEST_BYTES]>),
    /// A request: when was each member heard last?
    RequestLiveness,
    /// The same with the steadiness of the sender: it may fence another head.
    RequestSteadiness,
    /// Its response.
    Liveness(Liveness),
}

/// State of a disk that a pool is to be created on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The disk.
    pub disk: DiskId,
    /// The user of the disk.
    pub holder: Holder,
    /// The greatest term that claimed it.
    pub enforced: Ballot,
    /// Number of a pool with a record, as stored on that host, that names the disk.
    pub pool: Option<u64>,
    /// Description of its contents; empty if none are recognised.
    pub contents: String,
}

/// The response of a lender.
#[derive(Clone, PartialEq, Eq)]
pub struct Lent {
    /// The disk.
    pub disk: DiskId,
    /// Response for the owner.
    pub response: LenderResponse,
    /// Name of the export for an admitted session; empty otherwise. It is a secret: a client that has it may write.
    pub export: String,
    /// Why a session was refused, else `None`.
    pub denial: Option<Denial>,
}

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the secret in the name.
        write!(f, "Lent({:?}, {:?})", self.disk, self.response)
    }
}

/// A message with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Number of the pool.
    pub pool: u64,
    /// Boot number of the sender: random at each start of its process.
    pub boot: u64,
    /// The message.
    pub message: Message,
}

/// Why bytes are not a valid message. The connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The greeting has another magic number.
    #[error("the other side is no member")]
    Stranger,
    /// The greeting has an unknown protocol version.
    #[error(
        "the other side speaks version {0}, this one {VERSION}: install the same version of bulkhead on all members"
    )]
    UnknownVersion(u32),
    /// Longer than any message.
    #[error("a message of {0} bytes")]
    TooLong(u32),
    /// Too short, of an unknown kind, or followed by more bytes.
    #[error("a malformed message")]
    Malformed,
    /// The memory in it is invalid.
    #[error("a message with {0}")]
    MemberState(#[from] DecodeError),
    /// A record of another pool than the message is about.
    #[error("a message with the record of another pool")]
    OtherPool,
}

impl From<Malformed> for WireError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// The greeting that both sides send first.
pub fn hello(me: MemberId) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..].copy_from_slice(&me.0.to_le_bytes());
    bytes
}

/// Decodes a greeting and returns the member number.
pub fn greeted(bytes: &[u8; HELLO_BYTES]) -> Result<MemberId, WireError> {
    let mut reader = Reader::new(bytes);
    if reader.take()? != *MAGIC {
        return Err(WireError::Stranger);
    }
    match reader.short()? {
        VERSION => Ok(reader.member()?),
        other => Err(WireError::UnknownVersion(other)),
    }
}

/// Decodes the length prefix of a message.
pub fn body_bytes(prefix: [u8; 4]) -> Result<usize, WireError> {
    let length = u32::from_le_bytes(prefix);
    match length as usize <= MESSAGE_BYTES_MAX {
        true => Ok(length as usize),
        false => Err(WireError::TooLong(length)),
    }
}

impl Envelope {
    /// The whole message, with its length in front.
    pub fn encode(&self) -> Vec<u8> {
        let mut rest = Writer::default();
        let kind = put_message(&mut rest, &self.message);
        let rest = rest.into_bytes();
        let mut out = Writer::default();
        out.count(BEGINNING_BYTES + rest.len());
        out.byte(kind);
        out.number(self.pool);
        out.number(self.boot);
        out.bytes(&rest);
        out.into_bytes()
    }

    /// Decodes the message that follows its length.
    ///
    /// # Errors
    ///
    /// The bytes are not a valid message. No part of it may be used.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.byte()?;
        let (pool, boot) = (reader.number()?, reader.number()?);
        let message = read_message(&mut reader, kind)?;
        reader.end()?;
        let is_of_pool = message.record().is_none_or(|record| record.pool == pool);
        match is_of_pool {
            true => Ok(Self {
                pool,
                boot,
                message,
            }),
            false => Err(WireError::OtherPool),
        }
    }
}

impl Message {
    /// The record in it.
    pub(crate) fn record(&self) -> Option<&Record> {
        match self {
            Self::Request(
                Request::Propose(record) | Request::Welcome(record) | Request::Join { record, .. },
            ) => Some(record),
            Self::Response(Response::Known(_, memory)) | Self::Found(memory) => {
                memory.accepted.as_ref()
            }
            Self::Response(Response::Promised { record, .. }) => record.as_ref(),
            _ => None,
        }
    }
}

/// Writes the body of a message, and returns its kind.
fn put_message(out: &mut Writer, message: &Message) -> u8 {
    match message {
        Message::Alive => kind::ALIVE,
        Message::Request(request) => put_request(out, request),
        Message::Response(response) => put_response(out, response),
        Message::Found(memory) => {
            put_state(out, memory);
            kind::FOUND
        }
        Message::Created(version) => {
            out.version(*version);
            kind::CREATED
        }
        Message::Silent(why) => {
            out.byte(why.code());
            kind::SILENT
        }
        Message::LenderRequest(disk, request) => put_lender_request(out, *disk, *request),
        Message::Lent(lent) => put_lent(out, lent),
        Message::Inspect(disk) => {
            out.number(disk.0);
            kind::INSPECT_DISK
        }
        Message::Inspection(looked) => put_inspection(out, looked),
        Message::RequestConfiguration => kind::REQUEST_CONFIGURATION,
        Message::Configuration(digest) => {
            out.flag(digest.is_some());
            out.bytes(&digest.unwrap_or_default());
            kind::CONFIGURATION
        }
        Message::RequestLiveness => kind::REQUEST_LIVENESS,
        Message::RequestSteadiness => kind::REQUEST_STEADINESS,
        Message::Liveness(liveness) => put_liveness(out, liveness),
    }
}

fn put_liveness(out: &mut Writer, liveness: &Liveness) -> u8 {
    out.number(liveness.observed_ms);
    if let Some(steady_ms) = liveness.steady_ms {
        out.number(steady_ms);
    }
    out.count(liveness.silent_ms.len());
    for (member, silent_ms) in &liveness.silent_ms {
        out.number(member.0);
        out.number(*silent_ms);
    }
    match liveness.steady_ms {
        Some(_) => kind::STEADINESS,
        None => kind::LIVENESS,
    }
}

fn put_lender_request(out: &mut Writer, disk: DiskId, request: LenderRequest) -> u8 {
    out.number(disk.0);
    match request {
        LenderRequest::Claim(session) => {
            out.session(session);
            kind::CLAIM_DISK
        }
        LenderRequest::Begin(session, incarnation) => {
            out.session(session);
            out.number(incarnation);
            kind::BEGIN_DISK
        }
    }
}

fn put_lent(out: &mut Writer, lent: &Lent) -> u8 {
    out.number(lent.disk.0);
    out.session(lent.response.session());
    match lent.response {
        LenderResponse::Admitted(_, observed) => {
            out.number(observed.incarnation);
            out.session(observed.mark);
            out.number(observed.roots.newest);
            out.number(observed.roots.before);
            out.bytes(lent.export.as_bytes());
            kind::ADMITTED
        }
        LenderResponse::Begun(_) => kind::BEGUN,
        LenderResponse::Refused(_) => {
            put_denial(out, lent.denial.unwrap_or(Denial::Unknown));
            kind::LENDER_REFUSED
        }
    }
}

fn put_denial(out: &mut Writer, denial: Denial) {
    let (code, ballot, by) = match denial {
        Denial::Term(ballot, by) => (1, ballot, by),
        Denial::InUse => (2, Ballot::default(), None),
        Denial::Unopened => (3, Ballot::default(), None),
        Denial::Unknown => (4, Ballot::default(), None),
        Denial::Reopened => (5, Ballot::default(), None),
    };
    out.byte(code);
    out.ballot(ballot);
    out.maybe(by.map(|by| by.0));
}

fn put_inspection(out: &mut Writer, looked: &Inspection) -> u8 {
    out.number(looked.disk.0);
    let (code, by) = match looked.holder {
        Holder::Unused => (0, None),
        Holder::Session(by) => (1, by),
        Holder::Process => (2, None),
        Holder::Unopened => (3, None),
        Holder::Unknown => (4, None),
        Holder::NotLent => (5, None),
    };
    out.byte(code);
    out.maybe(by.map(|by| by.0));
    out.ballot(looked.enforced);
    out.maybe(looked.pool);
    out.bytes(looked.contents.as_bytes());
    kind::INSPECTED
}

fn put_state(out: &mut Writer, memory: &MemberState) {
    out.bytes(&encode_state(memory));
}

fn put_request(out: &mut Writer, request: &Request) -> u8 {
    match request {
        Request::Read(tag) => {
            out.tag(*tag);
            kind::READ
        }
        Request::Claim { ballot, by } => {
            out.ballot(*ballot);
            out.number(by.0);
            kind::CLAIM
        }
        Request::Withdraw(ballot) => {
            out.ballot(*ballot);
            kind::WITHDRAW
        }
        Request::Propose(record) => {
            put_state(out, &MemberState::new(record.clone()));
            kind::PROPOSE
        }
        Request::Committed(ballot, version) => {
            out.ballot(*ballot);
            out.version(*version);
            kind::COMMITTED
        }
        Request::Welcome(record) => {
            put_state(out, &MemberState::new(record.clone()));
            kind::WELCOME
        }
        Request::Join { tag, record, life } => {
            out.tag(*tag);
            out.number(*life);
            put_state(out, &MemberState::new(record.clone()));
            kind::JOIN
        }
    }
}

fn put_response(out: &mut Writer, response: &Response) -> u8 {
    match response {
        Response::Known(tag, memory) => {
            out.tag(*tag);
            put_state(out, memory);
            kind::STORED
        }
        Response::Promised {
            ballot,
            record,
            life,
        } => {
            put_state(out, &promise(*ballot, record.clone(), *life));
            kind::PROMISED
        }
        Response::Serves(ballot) => {
            out.ballot(*ballot);
            kind::SERVES
        }
        Response::Accepted(ballot, version) => {
            out.ballot(*ballot);
            out.version(*version);
            kind::ACCEPTED
        }
        Response::Refused {
            requested,
            promised,
        } => {
            out.ballot(*requested);
            out.ballot(*promised);
            kind::REFUSED
        }
        Response::StateLost(tag, life) => {
            out.tag(*tag);
            out.number(*life);
            kind::STATE_LOST
        }
    }
}

/// Encodes a promise as a memory.
fn promise(promised: Ballot, accepted: Option<Record>, life: u64) -> MemberState {
    MemberState {
        promised,
        accepted,
        life,
        ..MemberState::default()
    }
}

/// Reads the rest of the message as an export name.
fn read_export(reader: &mut Reader<'_>) -> Result<String, WireError> {
    let name = std::str::from_utf8(reader.rest());
    let name = name.map_err(|_| WireError::Malformed)?;
    match (1..=EXPORT_BYTES_MAX).contains(&name.len()) {
        true => Ok(name.to_owned()),
        false => Err(WireError::Malformed),
    }
}

fn read_lent(reader: &mut Reader<'_>, kind: u8) -> Result<Message, WireError> {
    let (disk, session) = (reader.disk()?, reader.session()?);
    let mut denial = None;
    let (response, export) = match kind {
        kind::ADMITTED => {
            let observed = Observed {
                incarnation: reader.number()?,
                mark: reader.session()?,
                roots: Roots {
                    newest: reader.number()?,
                    before: reader.number()?,
                },
            };
            (
                LenderResponse::Admitted(session, observed),
                read_export(reader)?,
            )
        }
        kind::BEGUN => (LenderResponse::Begun(session), String::new()),
        _ => {
            denial = Some(read_denial(reader)?);
            (LenderResponse::Refused(session), String::new())
        }
    };
    Ok(Message::Lent(Lent {
        disk,
        response,
        export,
        denial,
    }))
}

fn read_denial(reader: &mut Reader<'_>) -> Result<Denial, WireError> {
    let (code, ballot, by) = (reader.byte()?, reader.ballot()?, reader.maybe()?);
    match (code, ballot == Ballot::default() && by.is_none()) {
        (1, _) => Ok(Denial::Term(ballot, by.map(MemberId))),
        (2, true) => Ok(Denial::InUse),
        (3, true) => Ok(Denial::Unopened),
        (4, true) => Ok(Denial::Unknown),
        (5, true) => Ok(Denial::Reopened),
        _ => Err(WireError::Malformed),
    }
}

fn read_inspection(reader: &mut Reader<'_>) -> Result<Inspection, WireError> {
    let disk = reader.disk()?;
    let (code, by) = (reader.byte()?, reader.maybe()?);
    let holder = match (code, by) {
        (0, None) => Holder::Unused,
        (1, by) => Holder::Session(by.map(MemberId)),
        (2, None) => Holder::Process,
        (3, None) => Holder::Unopened,
        (4, None) => Holder::Unknown,
        (5, None) => Holder::NotLent,
        _ => return Err(WireError::Malformed),
    };
    Ok(Inspection {
        disk,
        holder,
        enforced: reader.ballot()?,
        pool: reader.maybe()?,
        contents: read_contents(reader)?,
    })
}

/// Reads the rest of the message as text without control characters, because it is printed on terminals.
fn read_contents(reader: &mut Reader<'_>) -> Result<String, WireError> {
    let text = std::str::from_utf8(reader.rest());
    let text = text.map_err(|_| WireError::Malformed)?;
    match text.len() <= CONTENTS_BYTES_MAX && !text.contains(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err(WireError::Malformed),
    }
}

/// Reads the rest of the message as a memory.
fn read_state(reader: &mut Reader<'_>) -> Result<MemberState, WireError> {
    Ok(decode_state(reader.rest())?)
}

fn read_proposal(reader: &mut Reader<'_>) -> Result<Record, WireError> {
    let memory = read_state(reader)?;
    let record = memory.accepted.clone().ok_or(WireError::Malformed)?;
    match memory == MemberState::new(record.clone()) {
        true => Ok(record),
        false => Err(WireError::Malformed),
    }
}

fn read_join(reader: &mut Reader<'_>) -> Result<Request, WireError> {
    let (tag, life) = (reader.tag()?, reader.number()?);
    match life {
        0 => Err(WireError::Malformed),
        life => Ok(Request::Join {
            tag,
            record: read_proposal(reader)?,
            life,
        }),
    }
}

fn read_promise(reader: &mut Reader<'_>) -> Result<Response, WireError> {
    let memory = read_state(reader)?;
    match memory.committed == Version::default() {
        true => Ok(Response::Promised {
            ballot: memory.promised,
            record: memory.accepted,
            life: memory.life,
        }),
        false => Err(WireError::Malformed),
    }
}

fn read_silence(reader: &mut Reader<'_>) -> Result<Silence, WireError> {
    let code = reader.byte()?;
    let mut all = Silence::ALL.into_iter();
    all.find(|why| why.code() == code)
        .ok_or(WireError::Malformed)
}

fn read_liveness(reader: &mut Reader<'_>, is_with_steadiness: bool) -> Result<Liveness, WireError> {
    let observed_ms = reader.number()?;
    let steady_ms = match is_with_steadiness {
        true => Some(reader.number()?),
        false => None,
    };
    let count = reader.short()?;
    if count as usize > MEMBERS_MAX {
        return Err(WireError::Malformed);
    }
    let mut silent_ms = BTreeMap::new();
    for _ in 0..count {
        let (member, ms) = (reader.member()?, reader.number()?);
        // In ascending order, so that a value has one encoding.
        if silent_ms
            .last_key_value()
            .is_some_and(|(last, _)| *last >= member)
        {
            return Err(WireError::Malformed);
        }
        silent_ms.insert(member, ms);
    }
    Ok(Liveness {
        observed_ms,
        steady_ms,
        silent_ms,
    })
}

fn read_message(reader: &mut Reader<'_>, kind: u8) -> Result<Message, WireError> {
    Ok(match kind {
        kind::ALIVE => Message::Alive,
        kind::READ => Message::Request(Request::Read(reader.tag()?)),
        kind::CLAIM => Message::Request(Request::Claim {
            ballot: reader.ballot()?,
            by: reader.member()?,
        }),
        kind::WITHDRAW => Message::Request(Request::Withdraw(reader.ballot()?)),
        kind::PROPOSE => Message::Request(Request::Propose(read_proposal(reader)?)),
        kind::COMMITTED => {
            Message::Request(Request::Committed(reader.ballot()?, reader.version()?))
        }
        kind::WELCOME => Message::Request(Request::Welcome(read_proposal(reader)?)),
        kind::JOIN => Message::Request(read_join(reader)?),
        kind::FOUND => Message::Found(read_state(reader)?),
        kind::STORED => Message::Response(Response::Known(reader.tag()?, read_state(reader)?)),
        kind::PROMISED => Message::Response(read_promise(reader)?),
        kind::SERVES => Message::Response(Response::Serves(reader.ballot()?)),
        kind::ACCEPTED => {
            Message::Response(Response::Accepted(reader.ballot()?, reader.version()?))
        }
        kind::REFUSED => Message::Response(Response::Refused {
            requested: reader.ballot()?,
            promised: reader.ballot()?,
        }),
        kind::STATE_LOST => Message::Response(Response::StateLost(reader.tag()?, reader.number()?)),
        kind::CREATED => Message::Created(reader.version()?),
        kind::SILENT => Message::Silent(read_silence(reader)?),
        kind::CLAIM_DISK => {
            Message::LenderRequest(reader.disk()?, LenderRequest::Claim(reader.session()?))
        }
        kind::BEGIN_DISK => Message::LenderRequest(
            reader.disk()?,
            LenderRequest::Begin(reader.session()?, reader.number()?),
        ),
        kind::ADMITTED | kind::BEGUN | kind::LENDER_REFUSED => read_lent(reader, kind)?,
        kind::INSPECT_DISK => Message::Inspect(reader.disk()?),
        kind::INSPECTED => Message::Inspection(read_inspection(reader)?),
        kind::REQUEST_CONFIGURATION => Message::RequestConfiguration,
        kind::CONFIGURATION => {
            let (is_there, digest) = (reader.flag()?, reader.take()?);
            match (is_there, digest == [0; DIGEST_BYTES]) {
                (true, _) => Message::Configuration(Some(digest)),
                (false, true) => Message::Configuration(None),
                (false, false) => return Err(WireError::Malformed),
            }
        }
        kind::REQUEST_LIVENESS => Message::RequestLiveness,
        kind::REQUEST_STEADINESS => Message::RequestSteadiness,
        kind::LIVENESS | kind::STEADINESS => {
            Message::Liveness(read_liveness(reader, kind == kind::STEADINESS)?)
        }
        _ => return Err(WireError::Malformed),
    })
}

#[cfg(test)]
mod tests;
