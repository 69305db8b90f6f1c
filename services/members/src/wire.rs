//! Messages as bytes, as `docs/formats/members.md` writes them down.

use takeover::legs::{
    Answer, Ballot, DecodeError, Denial, DiskId, Holder, LenderAnswer, LenderRequest, MemberId,
    Memory, Observed, Record, Request, Roots, Session, Tag, Version, decode_memory, encode_memory,
};

use crate::limits::MESSAGE_BYTES_MAX;
use crate::silence::Silence;

const MAGIC: &[u8; 8] = b"BHMEMBER";
const VERSION: u32 = 2;
/// Longest name of an export, in bytes.
const EXPORT_BYTES_MAX: usize = 128;
/// Longest text about what a disk carries, in bytes.
pub const CONTENTS_BYTES_MAX: usize = 256;
/// Length of what stands for a configuration.
pub const DIGEST_BYTES: usize = 32;
/// Magic, version, member.
pub const HELLO_BYTES: usize = 20;

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
    pub(super) const LOOK_AT_DISK: u8 = 12;
    pub(super) const ASK_CONFIGURATION: u8 = 13;
    pub(super) const KNOWN: u8 = 65;
    pub(super) const PROMISED: u8 = 66;
    pub(super) const SERVES: u8 = 67;
    pub(super) const ACCEPTED: u8 = 68;
    pub(super) const REFUSED: u8 = 69;
    pub(super) const FOUNDED: u8 = 70;
    pub(super) const SILENT: u8 = 71;
    pub(super) const FORGOT: u8 = 72;
    pub(super) const ADMITTED: u8 = 80;
    pub(super) const BEGUN: u8 = 81;
    pub(super) const LENDER_REFUSED: u8 = 82;
    pub(super) const LOOKED: u8 = 83;
    pub(super) const CONFIGURATION: u8 = 84;
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Nothing. The sender is there.
    Alive,
    /// A question.
    Ask(Request),
    /// Its answer.
    Tell(Answer),
    /// Remember this pool, of which you know nothing.
    Found(Memory),
    /// It is remembered, with the record of this version.
    Founded(Version),
    /// No answer, and why.
    Silent(Silence),
    /// A question to the lender of a disk on the receiver's machine.
    AskLender(DiskId, LenderRequest),
    /// Its answer.
    Lent(Lent),
    /// A question to the lender of a disk: what is it like? Changes nothing.
    LookAt(DiskId),
    /// Its answer.
    Looked(Looked),
    /// A question to a head: what does its configuration say of the pool?
    AskConfiguration,
    /// Its answer: a digest, or nothing of a pool that it does not name.
    Configuration(Option<[u8; DIGEST_BYTES]>),
}

/// What is seen of a disk that a pool is to be made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// Which.
    pub disk: DiskId,
    /// Who has it.
    pub holder: Holder,
    /// The greatest tenure that claimed it.
    pub enforced: Ballot,
    /// Number of a pool of whose record it is, by what that machine remembers.
    pub pool: Option<u64>,
    /// What it carries, in words; empty if nothing is known of it.
    pub contents: String,
}

/// What a lender answers.
#[derive(Clone, PartialEq, Eq)]
pub struct Lent {
    /// Of which disk.
    pub disk: DiskId,
    /// For the owner.
    pub answer: LenderAnswer,
    /// Name of the export that an admitted session uses; empty otherwise. Who knows it may write.
    pub export: String,
    /// Why a session was refused; nothing otherwise.
    pub denial: Option<Denial>,
}

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the secret in the name.
        write!(f, "Lent({:?}, {:?})", self.disk, self.answer)
    }
}

/// A message with what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Number of the pool.
    pub pool: u64,
    /// Of the sender: random at each start of its process.
    pub boot: u64,
    /// What is said.
    pub message: Message,
}

/// Why bytes are no message. The connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Not what members begin with.
    #[error("the other side is no member")]
    Stranger,
    /// Of a later program.
    #[error(
        "the other side speaks version {0}, this one {VERSION}: install the same version of bulkhead on all members"
    )]
    UnknownVersion(u32),
    /// Longer than any message.
    #[error("a message of {0} bytes")]
    TooLong(u32),
    /// Too short, of no kind, or followed by anything.
    #[error("a malformed message")]
    Malformed,
    /// The memory in it.
    #[error("a message with {0}")]
    Memory(#[from] DecodeError),
    /// A record of another pool than the message is about.
    #[error("a message with the record of another pool")]
    OtherPool,
}

/// What both sides begin with.
pub fn hello(me: MemberId) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..].copy_from_slice(&me.0.to_le_bytes());
    bytes
}

/// Who begins with these bytes.
pub fn greeted(bytes: &[u8; HELLO_BYTES]) -> Result<MemberId, WireError> {
    let mut reader = Reader { rest: bytes };
    if reader.take()? != *MAGIC {
        return Err(WireError::Stranger);
    }
    match u32::from_le_bytes(reader.take()?) {
        VERSION => Ok(MemberId(reader.number()?)),
        other => Err(WireError::UnknownVersion(other)),
    }
}

/// The length that a message begins with.
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
        let mut out = Writer(vec![0; 4]);
        let kind_at = out.0.len();
        out.0.push(kind::ALIVE);
        out.number(self.pool);
        out.number(self.boot);
        out.0[kind_at] = match &self.message {
            Message::Alive => kind::ALIVE,
            Message::Ask(request) => out.request(request),
            Message::Tell(answer) => out.answer(answer),
            Message::Found(memory) => {
                out.memory(memory);
                kind::FOUND
            }
            Message::Founded(version) => {
                out.version(*version);
                kind::FOUNDED
            }
            Message::Silent(why) => {
                out.0.push(why.code());
                kind::SILENT
            }
            Message::AskLender(disk, request) => out.lender_request(*disk, *request),
            Message::Lent(lent) => out.lent(lent),
            Message::LookAt(disk) => {
                out.number(disk.0);
                kind::LOOK_AT_DISK
            }
            Message::Looked(looked) => out.looked(looked),
            Message::AskConfiguration => kind::ASK_CONFIGURATION,
            Message::Configuration(digest) => {
                out.0.push(u8::from(digest.is_some()));
                out.0.extend(digest.unwrap_or_default());
                kind::CONFIGURATION
            }
        };
        let length = (out.0.len() - 4) as u32;
        out.0[..4].copy_from_slice(&length.to_le_bytes());
        out.0
    }

    /// The message that follows its length.
    ///
    /// # Errors
    ///
    /// It is none. Nothing of it is to be believed.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader { rest: bytes };
        let [kind] = reader.take()?;
        let (pool, boot) = (reader.number()?, reader.number()?);
        let message = reader.message(kind)?;
        if !reader.rest.is_empty() {
            return Err(WireError::Malformed);
        }
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
            Self::Ask(
                Request::Propose(record) | Request::Welcome(record) | Request::Join { record, .. },
            ) => Some(record),
            Self::Tell(Answer::Known(_, memory)) | Self::Found(memory) => memory.accepted.as_ref(),
            Self::Tell(Answer::Promised { record, .. }) => record.as_ref(),
            _ => None,
        }
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn ballot(&mut self, ballot: Ballot) {
        self.number(ballot.epoch);
        self.number(ballot.nonce);
    }

    fn version(&mut self, version: Version) {
        self.number(version.epoch);
        self.number(version.sequence);
    }

    fn tag(&mut self, tag: Tag) {
        self.number(tag.boot);
        self.0.extend(tag.number.to_le_bytes());
    }

    fn session(&mut self, session: Session) {
        self.ballot(session.ballot);
        self.0.extend(session.number.to_le_bytes());
    }

    fn lender_request(&mut self, disk: DiskId, request: LenderRequest) -> u8 {
        self.number(disk.0);
        match request {
            LenderRequest::Claim(session) => {
                self.session(session);
                kind::CLAIM_DISK
            }
            LenderRequest::Begin(session, incarnation) => {
                self.session(session);
                self.number(incarnation);
                kind::BEGIN_DISK
            }
        }
    }

    fn lent(&mut self, lent: &Lent) -> u8 {
        self.number(lent.disk.0);
        self.session(lent.answer.session());
        match lent.answer {
            LenderAnswer::Admitted(_, observed) => {
                self.number(observed.incarnation);
                self.session(observed.mark);
                self.number(observed.roots.newest);
                self.number(observed.roots.before);
                self.0.extend(lent.export.as_bytes());
                kind::ADMITTED
            }
            LenderAnswer::Begun(_) => kind::BEGUN,
            LenderAnswer::Refused(_) => {
                self.denial(lent.denial.unwrap_or(Denial::Unknown));
                kind::LENDER_REFUSED
            }
        }
    }

    fn denial(&mut self, denial: Denial) {
        let (code, ballot, by) = match denial {
            Denial::Tenure(ballot, by) => (1, ballot, by),
            Denial::InUse => (2, Ballot::default(), None),
            Denial::Unopened => (3, Ballot::default(), None),
            Denial::Unknown => (4, Ballot::default(), None),
            Denial::Anew => (5, Ballot::default(), None),
        };
        self.0.push(code);
        self.ballot(ballot);
        self.maybe(by.map(|by| by.0));
    }

    fn maybe(&mut self, number: Option<u64>) {
        self.0.push(u8::from(number.is_some()));
        self.number(number.unwrap_or_default());
    }

    fn looked(&mut self, looked: &Looked) -> u8 {
        self.number(looked.disk.0);
        let (code, by) = match looked.holder {
            Holder::Nobody => (0, None),
            Holder::Session(by) => (1, by),
            Holder::Process => (2, None),
            Holder::Unopened => (3, None),
            Holder::Unknown => (4, None),
            Holder::NotLent => (5, None),
        };
        self.0.push(code);
        self.maybe(by.map(|by| by.0));
        self.ballot(looked.enforced);
        self.maybe(looked.pool);
        self.0.extend(looked.contents.as_bytes());
        kind::LOOKED
    }

    fn memory(&mut self, memory: &Memory) {
        self.0.extend(encode_memory(memory));
    }

    fn request(&mut self, request: &Request) -> u8 {
        match request {
            Request::Read(tag) => {
                self.tag(*tag);
                kind::READ
            }
            Request::Claim { ballot, by } => {
                self.ballot(*ballot);
                self.number(by.0);
                kind::CLAIM
            }
            Request::Withdraw(ballot) => {
                self.ballot(*ballot);
                kind::WITHDRAW
            }
            Request::Propose(record) => {
                self.memory(&Memory::new(record.clone()));
                kind::PROPOSE
            }
            Request::Committed(ballot, version) => {
                self.ballot(*ballot);
                self.version(*version);
                kind::COMMITTED
            }
            Request::Welcome(record) => {
                self.memory(&Memory::new(record.clone()));
                kind::WELCOME
            }
            Request::Join { tag, record, life } => {
                self.tag(*tag);
                self.number(*life);
                self.memory(&Memory::new(record.clone()));
                kind::JOIN
            }
        }
    }

    fn answer(&mut self, answer: &Answer) -> u8 {
        match answer {
            Answer::Known(tag, memory) => {
                self.tag(*tag);
                self.memory(memory);
                kind::KNOWN
            }
            Answer::Promised {
                ballot,
                record,
                life,
            } => {
                self.memory(&promise(*ballot, record.clone(), *life));
                kind::PROMISED
            }
            Answer::Serves(ballot) => {
                self.ballot(*ballot);
                kind::SERVES
            }
            Answer::Accepted(ballot, version) => {
                self.ballot(*ballot);
                self.version(*version);
                kind::ACCEPTED
            }
            Answer::Refused { asked, promised } => {
                self.ballot(*asked);
                self.ballot(*promised);
                kind::REFUSED
            }
            Answer::Forgot(tag, life) => {
                self.tag(*tag);
                self.number(*life);
                kind::FORGOT
            }
        }
    }
}

/// How a promise travels.
fn promise(promised: Ballot, accepted: Option<Record>, life: u64) -> Memory {
    Memory {
        promised,
        accepted,
        life,
        ..Memory::default()
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let split = self.rest.split_first_chunk::<N>();
        let (taken, rest) = split.ok_or(WireError::Malformed)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<u64, WireError> {
        self.take().map(u64::from_le_bytes)
    }

    fn ballot(&mut self) -> Result<Ballot, WireError> {
        Ok(Ballot {
            epoch: self.number()?,
            nonce: self.number()?,
        })
    }

    fn version(&mut self) -> Result<Version, WireError> {
        Ok(Version {
            epoch: self.number()?,
            sequence: self.number()?,
        })
    }

    fn tag(&mut self) -> Result<Tag, WireError> {
        Ok(Tag {
            boot: self.number()?,
            number: u32::from_le_bytes(self.take()?),
        })
    }

    fn session(&mut self) -> Result<Session, WireError> {
        Ok(Session {
            ballot: self.ballot()?,
            number: u32::from_le_bytes(self.take()?),
        })
    }

    /// All that is left is one.
    fn export(&mut self) -> Result<String, WireError> {
        let name = std::str::from_utf8(std::mem::take(&mut self.rest));
        let name = name.map_err(|_| WireError::Malformed)?;
        match (1..=EXPORT_BYTES_MAX).contains(&name.len()) {
            true => Ok(name.to_owned()),
            false => Err(WireError::Malformed),
        }
    }

    fn lent(&mut self, kind: u8) -> Result<Message, WireError> {
        let (disk, session) = (DiskId(self.number()?), self.session()?);
        let mut denial = None;
        let (answer, export) = match kind {
            kind::ADMITTED => {
                let observed = Observed {
                    incarnation: self.number()?,
                    mark: self.session()?,
                    roots: Roots {
                        newest: self.number()?,
                        before: self.number()?,
                    },
                };
                (LenderAnswer::Admitted(session, observed), self.export()?)
            }
            kind::BEGUN => (LenderAnswer::Begun(session), String::new()),
            _ => {
                denial = Some(self.denial()?);
                (LenderAnswer::Refused(session), String::new())
            }
        };
        Ok(Message::Lent(Lent {
            disk,
            answer,
            export,
            denial,
        }))
    }

    /// A number, or none: then zeroes are in its place.
    fn maybe(&mut self) -> Result<Option<u64>, WireError> {
        match (self.take()?, self.number()?) {
            ([0], 0) => Ok(None),
            ([1], number) => Ok(Some(number)),
            _ => Err(WireError::Malformed),
        }
    }

    fn denial(&mut self) -> Result<Denial, WireError> {
        let ([code], ballot, by) = (self.take()?, self.ballot()?, self.maybe()?);
        match (code, ballot == Ballot::default() && by.is_none()) {
            (1, _) => Ok(Denial::Tenure(ballot, by.map(MemberId))),
            (2, true) => Ok(Denial::InUse),
            (3, true) => Ok(Denial::Unopened),
            (4, true) => Ok(Denial::Unknown),
            (5, true) => Ok(Denial::Anew),
            _ => Err(WireError::Malformed),
        }
    }

    fn looked(&mut self) -> Result<Looked, WireError> {
        let disk = DiskId(self.number()?);
        let ([code], by) = (self.take()?, self.maybe()?);
        let holder = match (code, by) {
            (0, None) => Holder::Nobody,
            (1, by) => Holder::Session(by.map(MemberId)),
            (2, None) => Holder::Process,
            (3, None) => Holder::Unopened,
            (4, None) => Holder::Unknown,
            (5, None) => Holder::NotLent,
            _ => return Err(WireError::Malformed),
        };
        Ok(Looked {
            disk,
            holder,
            enforced: self.ballot()?,
            pool: self.maybe()?,
            contents: self.contents()?,
        })
    }

    /// All that is left is a text without control characters: it is shown on terminals.
    fn contents(&mut self) -> Result<String, WireError> {
        let text = std::str::from_utf8(std::mem::take(&mut self.rest));
        let text = text.map_err(|_| WireError::Malformed)?;
        match text.len() <= CONTENTS_BYTES_MAX && !text.contains(char::is_control) {
            true => Ok(text.to_owned()),
            false => Err(WireError::Malformed),
        }
    }

    /// All that is left is one.
    fn memory(&mut self) -> Result<Memory, WireError> {
        let memory = decode_memory(self.rest)?;
        self.rest = &[];
        Ok(memory)
    }

    fn proposal(&mut self) -> Result<Record, WireError> {
        let memory = self.memory()?;
        let record = memory.accepted.clone().ok_or(WireError::Malformed)?;
        match memory == Memory::new(record.clone()) {
            true => Ok(record),
            false => Err(WireError::Malformed),
        }
    }

    fn join(&mut self) -> Result<Request, WireError> {
        let (tag, life) = (self.tag()?, self.number()?);
        match life {
            0 => Err(WireError::Malformed),
            life => Ok(Request::Join {
                tag,
                record: self.proposal()?,
                life,
            }),
        }
    }

    fn promise(&mut self) -> Result<Answer, WireError> {
        let memory = self.memory()?;
        match memory.committed == Version::default() {
            true => Ok(Answer::Promised {
                ballot: memory.promised,
                record: memory.accepted,
                life: memory.life,
            }),
            false => Err(WireError::Malformed),
        }
    }

    fn silence(&mut self) -> Result<Silence, WireError> {
        let [code] = self.take()?;
        let mut all = Silence::ALL.into_iter();
        all.find(|why| why.code() == code)
            .ok_or(WireError::Malformed)
    }

    fn message(&mut self, kind: u8) -> Result<Message, WireError> {
        Ok(match kind {
            kind::ALIVE => Message::Alive,
            kind::READ => Message::Ask(Request::Read(self.tag()?)),
            kind::CLAIM => Message::Ask(Request::Claim {
                ballot: self.ballot()?,
                by: MemberId(self.number()?),
            }),
            kind::WITHDRAW => Message::Ask(Request::Withdraw(self.ballot()?)),
            kind::PROPOSE => Message::Ask(Request::Propose(self.proposal()?)),
            kind::COMMITTED => Message::Ask(Request::Committed(self.ballot()?, self.version()?)),
            kind::WELCOME => Message::Ask(Request::Welcome(self.proposal()?)),
            kind::JOIN => Message::Ask(self.join()?),
            kind::FOUND => Message::Found(self.memory()?),
            kind::KNOWN => Message::Tell(Answer::Known(self.tag()?, self.memory()?)),
            kind::PROMISED => Message::Tell(self.promise()?),
            kind::SERVES => Message::Tell(Answer::Serves(self.ballot()?)),
            kind::ACCEPTED => Message::Tell(Answer::Accepted(self.ballot()?, self.version()?)),
            kind::REFUSED => Message::Tell(Answer::Refused {
                asked: self.ballot()?,
                promised: self.ballot()?,
            }),
            kind::FORGOT => Message::Tell(Answer::Forgot(self.tag()?, self.number()?)),
            kind::FOUNDED => Message::Founded(self.version()?),
            kind::SILENT => Message::Silent(self.silence()?),
            kind::CLAIM_DISK => Message::AskLender(
                DiskId(self.number()?),
                LenderRequest::Claim(self.session()?),
            ),
            kind::BEGIN_DISK => Message::AskLender(
                DiskId(self.number()?),
                LenderRequest::Begin(self.session()?, self.number()?),
            ),
            kind::ADMITTED | kind::BEGUN | kind::LENDER_REFUSED => self.lent(kind)?,
            kind::LOOK_AT_DISK => Message::LookAt(DiskId(self.number()?)),
            kind::LOOKED => Message::Looked(self.looked()?),
            kind::ASK_CONFIGURATION => Message::AskConfiguration,
            kind::CONFIGURATION => {
                let ([is_there], digest) = (self.take()?, self.take()?);
                match (is_there, digest == [0; DIGEST_BYTES]) {
                    (1, _) => Message::Configuration(Some(digest)),
                    (0, true) => Message::Configuration(None),
                    _ => return Err(WireError::Malformed),
                }
            }
            _ => return Err(WireError::Malformed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use takeover::legs::Lack;

    const POOL: u64 = 42;

    fn ballot() -> Ballot {
        Ballot { epoch: 3, nonce: 7 }
    }

    fn record() -> Record {
        let mut record = Record::new(POOL, ballot(), (1..=3).map(DiskId));
        let lack = Lack {
            since: 90,
            newest: 91,
        };
        record.drop_disk(DiskId(2), lack);
        record.lives.insert(MemberId(2), 8);
        record
    }

    fn messages() -> Vec<Message> {
        let (memory, version) = (Memory::new(record()), record().version());
        let tag = Tag { boot: 9, number: 4 };
        let mut all = vec![
            Message::Alive,
            Message::Ask(Request::Read(tag)),
            Message::Ask(Request::Claim {
                ballot: ballot(),
                by: MemberId(2),
            }),
            Message::Ask(Request::Withdraw(ballot())),
            Message::Ask(Request::Propose(record())),
            Message::Ask(Request::Welcome(record())),
            Message::Ask(Request::Join {
                tag,
                record: record(),
                life: 6,
            }),
            Message::Tell(Answer::Forgot(tag, 8)),
            Message::Ask(Request::Committed(ballot(), version)),
            Message::Tell(Answer::Known(tag, memory.clone())),
            Message::Tell(Answer::Known(tag, Memory::default())),
            Message::Tell(promised(Some(record()), 6)),
            Message::Tell(promised(None, 0)),
            Message::Tell(Answer::Serves(ballot())),
            Message::Tell(Answer::Accepted(ballot(), version)),
            Message::Tell(Answer::Refused {
                asked: ballot(),
                promised: ballot(),
            }),
            Message::Found(memory),
            Message::Founded(version),
        ];
        all.extend(Silence::ALL.map(Message::Silent));
        all.extend(lender_messages());
        all
    }

    fn promised(record: Option<Record>, life: u64) -> Answer {
        let ballot = ballot();
        Answer::Promised {
            ballot,
            record,
            life,
        }
    }

    fn lender_messages() -> Vec<Message> {
        let session = Session {
            ballot: ballot(),
            number: 2,
        };
        let observed = Observed {
            incarnation: 8,
            mark: session,
            roots: Roots {
                newest: 40,
                before: 38,
            },
        };
        let lent = |answer, export: &str| {
            Message::Lent(Lent {
                disk: DiskId(5),
                answer,
                export: export.to_owned(),
                denial: None,
            })
        };
        let denied = [
            Denial::Tenure(ballot(), Some(MemberId(2))),
            Denial::Tenure(ballot(), None),
            Denial::InUse,
            Denial::Unopened,
            Denial::Unknown,
            Denial::Anew,
        ];
        let denied = denied.map(|denial| {
            Message::Lent(Lent {
                disk: DiskId(5),
                answer: LenderAnswer::Refused(session),
                export: String::new(),
                denial: Some(denial),
            })
        });
        let holders = [
            Holder::Nobody,
            Holder::Session(Some(MemberId(2))),
            Holder::Session(None),
            Holder::Process,
            Holder::Unopened,
            Holder::Unknown,
            Holder::NotLent,
        ];
        let looked = holders.map(|holder| {
            Message::Looked(Looked {
                disk: DiskId(5),
                holder,
                enforced: ballot(),
                pool: Some(POOL),
                contents: String::new(),
            })
        });
        let mut all = vec![
            Message::AskLender(DiskId(5), LenderRequest::Claim(session)),
            Message::AskLender(DiskId(5), LenderRequest::Begin(session, 8)),
            lent(LenderAnswer::Admitted(session, observed), "5"),
            lent(LenderAnswer::Begun(session), ""),
            Message::LookAt(DiskId(5)),
            Message::AskConfiguration,
            Message::Configuration(None),
            Message::Configuration(Some([7; DIGEST_BYTES])),
        ];
        all.extend(denied.into_iter().chain(looked));
        all
    }

    #[test]
    fn a_text_about_a_disk_has_a_bound_and_no_control_characters() {
        let looked = |contents: String| {
            let looked = Looked {
                disk: DiskId(5),
                holder: Holder::Nobody,
                enforced: ballot(),
                pool: None,
                contents,
            };
            let envelope = enveloped(Message::Looked(looked));
            Envelope::decode(&envelope.encode()[4..]) == Ok(envelope)
        };
        assert!(looked("a pool".repeat(42)));
        assert!(!looked("x".repeat(CONTENTS_BYTES_MAX + 1)));
        assert!(!looked("\x1b[2J".to_owned()));
    }

    fn enveloped(message: Message) -> Envelope {
        Envelope {
            pool: POOL,
            boot: 5,
            message,
        }
    }

    #[test]
    fn every_message_comes_back_and_no_part_or_tail_of_it_is_one() {
        for message in messages() {
            let envelope = enveloped(message);
            let bytes = envelope.encode();
            let (prefix, body) = bytes.split_first_chunk().expect("a length");
            assert_eq!(body_bytes(*prefix), Ok(body.len()));
            assert_eq!(Envelope::decode(body), Ok(envelope.clone()));
            for length in 0..body.len() {
                let cut = Envelope::decode(&body[..length]);
                assert!(cut.is_err(), "{length} bytes of {envelope:?}");
            }
            // No UTF-8 either, where a text ends the message.
            let longer = [body, &[0xff]].concat();
            assert!(Envelope::decode(&longer).is_err(), "{envelope:?}");
        }
    }

    #[test]
    fn the_name_of_an_export_has_a_bound_and_is_not_shown() {
        let session = Session::default();
        let observed = Observed {
            incarnation: 8,
            mark: session,
            roots: Roots {
                newest: 40,
                before: 38,
            },
        };
        let named = |length| {
            enveloped(Message::Lent(Lent {
                disk: DiskId(5),
                answer: LenderAnswer::Admitted(session, observed),
                export: "s".repeat(length),
                denial: None,
            }))
        };
        for (length, is_right) in [(0, false), (1, true), (128, true), (129, false)] {
            let decoded = Envelope::decode(&named(length).encode()[4..]);
            assert_eq!(decoded.is_ok(), is_right, "{length} bytes");
        }
        assert!(!format!("{:?}", named(20)).contains("sss"));
    }

    #[test]
    fn the_longest_memory_fits() {
        let lack = Lack {
            since: 90,
            newest: 91,
        };
        let mut record = Record::new(POOL, ballot(), (0..1024).map(DiskId));
        (0..1024).for_each(|disk| record.drop_disk(DiskId(disk), lack));
        let tag = Tag { boot: 9, number: 4 };
        let known = Answer::Known(tag, Memory::new(record));
        let bytes = enveloped(Message::Tell(known)).encode();
        assert!(bytes.len() <= MESSAGE_BYTES_MAX + 4, "{}", bytes.len());
        let too_long = MESSAGE_BYTES_MAX as u32 + 1;
        assert_eq!(
            body_bytes(too_long.to_le_bytes()),
            Err(WireError::TooLong(too_long))
        );
    }

    /// The bytes of `docs/formats/members.md`, as they were written down.
    #[test]
    fn the_bytes_are_those_of_the_format() {
        let claim = Request::Claim {
            ballot: ballot(),
            by: MemberId(2),
        };
        let bytes = enveloped(Message::Ask(claim)).encode();
        let mut expected = vec![41, 0, 0, 0, 2];
        for number in [42_u64, 5, 3, 7, 2] {
            expected.extend(number.to_le_bytes());
        }
        assert_eq!(bytes, expected);
        let begun = hello(MemberId(3));
        assert_eq!(&begun, b"BHMEMBER\x02\0\0\0\x03\0\0\0\0\0\0\0");
        assert_eq!(greeted(&begun), Ok(MemberId(3)));
    }

    #[test]
    fn a_stranger_and_a_later_version_are_told_apart() {
        let mut bytes = hello(MemberId(3));
        bytes[8] = 3;
        assert_eq!(greeted(&bytes), Err(WireError::UnknownVersion(3)));
        bytes[0] = b'b';
        assert_eq!(greeted(&bytes), Err(WireError::Stranger));
    }

    #[test]
    fn a_record_of_another_pool_is_refused() {
        let mut envelope = enveloped(Message::Ask(Request::Propose(record())));
        envelope.pool = 43;
        let bytes = envelope.encode();
        assert_eq!(Envelope::decode(&bytes[4..]), Err(WireError::OtherPool));
    }
}
