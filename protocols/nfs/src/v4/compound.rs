//! A compound: its operations one after the other, until one fails (RFC 8881, 2.10 and 16.2).

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use super::attributes::{Bitmap, Source};
use super::handle::{self, HANDLE_BYTES_MAX};
use super::numbers::{Status, op};
use super::opens::StateId;
use super::state::{Channel, MESSAGE_BYTES_MAX, OPERATIONS_MAX, Sequence, Sequenced, State};
use crate::file_system::{Attributes, FileError, FileSystem, Identity, Node};
use crate::rpc::Credential;
use crate::xdr::{Malformed, Reader, Writer};

/// Bytes of a compound's tag.
const TAG_BYTES_MAX: usize = 1024;
/// Bytes of an answer's RPC header.
const REPLY_HEADER_BYTES: usize = 24;
/// Bytes of the answer to an operation that changes something.
const CHANGE_BYTES_MAX: usize = 80;
/// Highest minor version.
const MINOR_MAX: u32 = 2;
/// Who `AUTH_NONE` is.
const NOBODY: u32 = 65_534;

impl From<Malformed> for Status {
    fn from(_: Malformed) -> Self {
        Self::BADXDR
    }
}

impl From<FileError> for Status {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Stale => Self::STALE,
            FileError::NotFound => Self::NOENT,
            FileError::Exists => Self::EXIST,
            FileError::NotDirectory => Self::NOTDIR,
            FileError::IsDirectory => Self::ISDIR,
            FileError::NotEmpty => Self::NOTEMPTY,
            FileError::Access => Self::ACCESS,
            FileError::NotPermitted => Self::PERM,
            FileError::Invalid => Self::INVAL,
            FileError::NameTooLong => Self::NAMETOOLONG,
            FileError::TooLarge => Self::FBIG,
            FileError::NoSpace => Self::NOSPC,
            FileError::Quota => Self::DQUOT,
            FileError::ReadOnly => Self::ROFS,
            FileError::TooManyLinks => Self::MLINK,
            FileError::BeyondEnd => Self::NXIO,
            FileError::Unsupported => Self::NOTSUPP,
            FileError::NoExtended => Self::NOXATTR,
            FileError::Io => Self::IO,
        }
    }
}

/// What is known of a call besides its arguments.
pub struct Caller<'a> {
    /// Who calls.
    pub credential: &'a Credential,
    /// The connection it came by; a number that is never used again.
    pub connection: u64,
    /// Milliseconds since some moment before the server started.
    pub now_ms: u64,
}

/// How a server presents itself.
#[derive(Clone, Debug)]
pub struct Presentation {
    /// `so_major_id` and the scope: the pool's, so that it stays with the pool.
    pub owner: Vec<u8>,
    /// Another number at each start of the server: in state ids and client ids.
    pub start: u32,
    /// Seconds of a lease.
    pub lease_seconds: u32,
}

/// NFS 4.1 and 4.2 for one file system.
pub struct Service {
    pub(super) files: Arc<dyn FileSystem>,
    pub(super) presentation: Presentation,
    state: Mutex<State>,
}

impl Service {
    /// Serves `files`.
    pub fn new(files: Arc<dyn FileSystem>, presentation: Presentation) -> Self {
        let lease_ms = u64::from(presentation.lease_seconds) * 1000;
        Self {
            files,
            state: Mutex::new(State::new(presentation.start, lease_ms)),
            presentation,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Lets go of files that nobody has open any more.
    pub(super) fn release(&self) {
        let released = self.state().take_released();
        for node in released {
            self.files.release(node);
        }
    }

    /// The result of the procedure `COMPOUND`.
    pub fn compound(&self, arguments: &[u8], caller: &Caller<'_>) -> Result<Vec<u8>, Malformed> {
        let mut reader = Reader::new(arguments);
        let tag = reader.opaque(TAG_BYTES_MAX)?;
        let minor = reader.u32()?;
        let count = reader.u32()?;
        let mut answer = Answer::new(tag);
        if minor == 0 || minor > MINOR_MAX {
            return Ok(answer.end(Status::MINOR_VERS_MISMATCH));
        }
        if std::str::from_utf8(tag).is_err() {
            return Ok(answer.end(Status::INVAL));
        }
        if count > OPERATIONS_MAX {
            // A session would have said so; without one there is no use for many.
            let first = reader.u32()?;
            answer.fail(first, Status::TOO_MANY_OPS);
            return Ok(answer.end(Status::TOO_MANY_OPS));
        }
        let mut hasher = DefaultHasher::new();
        (arguments, caller.credential).hash(&mut hasher);
        let mut call = Call {
            service: self,
            caller,
            who: identity(caller.credential),
            minor,
            count,
            request_bytes: arguments.len(),
            fingerprint: hasher.finish(),
            client: 0,
            sequence: None,
            current: None,
            saved: None,
            stateid: None,
            saved_stateid: None,
        };
        let (status, repeated) = call.run(&mut reader, &mut answer);
        if let Some(bytes) = repeated {
            return Ok(bytes);
        }
        let is_small = answer.count <= 1;
        let bytes = answer.end(status);
        if let Some((sequence, _)) = &call.sequence {
            let kept = (sequence.cache_this || is_small).then_some(&bytes[..]);
            self.state().answered(sequence, kept);
        }
        self.release();
        Ok(bytes)
    }
}

fn identity(credential: &Credential) -> Identity {
    match credential {
        Credential::Nobody => Identity {
            uid: NOBODY,
            gid: NOBODY,
            groups: Vec::new(),
        },
        Credential::System { uid, gid, groups } => Identity {
            uid: *uid,
            gid: *gid,
            groups: groups.clone(),
        },
    }
}

/// The answer of a compound, as it grows.
struct Answer {
    writer: Writer,
    count_at: usize,
    count: u32,
}

impl Answer {
    fn new(tag: &[u8]) -> Self {
        let mut writer = Writer::new();
        writer.u32(0);
        writer.opaque(tag);
        let count_at = writer.len();
        writer.u32(0);
        Self {
            writer,
            count_at,
            count: 0,
        }
    }

    fn fail(&mut self, operation: u32, status: Status) {
        self.writer.u32(operation);
        self.writer.u32(status.0);
        self.count += 1;
    }

    fn end(mut self, status: Status) -> Vec<u8> {
        self.writer.set_u32(0, status.0);
        self.writer.set_u32(self.count_at, self.count);
        self.writer.into_bytes()
    }
}

/// A compound under way.
pub(super) struct Call<'a> {
    pub(super) service: &'a Service,
    pub(super) caller: &'a Caller<'a>,
    pub(super) who: Identity,
    pub(super) minor: u32,
    count: u32,
    request_bytes: usize,
    fingerprint: u64,
    pub(super) client: u64,
    sequence: Option<(Sequence, Channel)>,
    pub(super) current: Option<Node>,
    pub(super) saved: Option<Node>,
    pub(super) stateid: Option<StateId>,
    pub(super) saved_stateid: Option<StateId>,
}

/// Operations that make or end a session, and so stand alone where no session is used.
const fn needs_no_session(operation: u32) -> bool {
    matches!(
        operation,
        op::EXCHANGE_ID
            | op::CREATE_SESSION
            | op::DESTROY_SESSION
            | op::BIND_CONN_TO_SESSION
            | op::DESTROY_CLIENTID
    )
}

/// Operations that change something. Their answers have less than [`CHANGE_BYTES_MAX`] bytes.
const fn changes(operation: u32) -> bool {
    matches!(
        operation,
        op::CREATE
            | op::REMOVE
            | op::RENAME
            | op::LINK
            | op::SETATTR
            | op::OPEN
            | op::OPEN_DOWNGRADE
            | op::CLOSE
            | op::LOCK
            | op::LOCKU
            | op::WRITE
            | op::COPY
            | op::CLONE
            | op::ALLOCATE
            | op::DEALLOCATE
            | op::SETXATTR
            | op::REMOVEXATTR
    )
}

impl Call<'_> {
    /// Executes the operations. The second is the answer of a call that is repeated.
    fn run(&mut self, reader: &mut Reader<'_>, answer: &mut Answer) -> (Status, Option<Vec<u8>>) {
        for index in 0..self.count {
            let Ok(operation) = reader.u32() else {
                answer.fail(op::ILLEGAL, Status::BADXDR);
                return (Status::BADXDR, None);
            };
            let is_known = (op::ACCESS..=op::REMOVEXATTR).contains(&operation);
            let shown = if is_known { operation } else { op::ILLEGAL };
            let start = answer.writer.len();
            answer.fail(shown, Status::OK);
            let body = answer.writer.len();
            if index == 0 && operation == op::SEQUENCE {
                let begun = self.begin(reader, &mut answer.writer);
                let too_big = self.is_too_big(answer.writer.len());
                match begun.and_then(|begun| too_big.map_or(Ok(begun), Err)) {
                    Ok(None) => continue,
                    Ok(Some(repeated)) => return (Status::OK, Some(repeated)),
                    Err(status) => {
                        answer.writer.truncate(body);
                        answer.writer.set_u32(body - 4, status.0);
                        return (status, None);
                    }
                }
            }
            let mut status = if is_known {
                self.check_place(index, operation)
                    .and_then(|()| self.check_room_for(operation, body))
                    .and_then(|()| self.execute(operation, reader, &mut answer.writer))
                    .err()
                    .unwrap_or(Status::OK)
            } else {
                Status::OP_ILLEGAL
            };
            if status != Status::OK && status != Status::DENIED {
                answer.writer.truncate(body);
                if operation == op::SETATTR {
                    answer.writer.u32(0);
                }
            }
            if let Some(too_big) = self.is_too_big(answer.writer.len()) {
                status = too_big;
                answer.writer.truncate(body);
            }
            answer.writer.set_u32(start + 4, status.0);
            if status != Status::OK {
                return (status, None);
            }
        }
        (Status::OK, None)
    }

    /// What is changed must also be answered: there is room for that before anything is done.
    fn check_room_for(&self, operation: u32, written: usize) -> Result<(), Status> {
        match changes(operation) {
            true => self
                .is_too_big(written + CHANGE_BYTES_MAX)
                .map_or(Ok(()), Err),
            false => Ok(()),
        }
    }

    fn is_too_big(&self, length: usize) -> Option<Status> {
        let whole = length + REPLY_HEADER_BYTES;
        let (sequence, fore) = self.sequence.as_ref()?;
        if whole > fore.response_bytes_max as usize {
            Some(Status::REP_TOO_BIG)
        } else if sequence.cache_this && whole > fore.cached_bytes_max as usize {
            Some(Status::REP_TOO_BIG_TO_CACHE)
        } else {
            None
        }
    }

    /// Bytes that an answer may still have, for operations that can answer less.
    pub(super) fn room(&self, written: usize) -> usize {
        let bytes_max = match &self.sequence {
            Some((sequence, fore)) if sequence.cache_this => {
                fore.cached_bytes_max.min(fore.response_bytes_max)
            }
            Some((_, fore)) => fore.response_bytes_max,
            None => MESSAGE_BYTES_MAX,
        };
        (bytes_max as usize).saturating_sub(written + REPLY_HEADER_BYTES)
    }

    fn check_place(&self, index: u32, operation: u32) -> Result<(), Status> {
        if operation == op::SEQUENCE {
            return Err(Status::SEQUENCE_POS);
        }
        if self.sequence.is_some() {
            // A session does not end the one that it was asked by in the middle of a compound.
            return Ok(());
        }
        if !needs_no_session(operation) {
            return Err(Status::OP_NOT_IN_SESSION);
        }
        if index > 0 || self.count > 1 {
            return Err(Status::NOT_ONLY_OP);
        }
        Ok(())
    }

    /// `SEQUENCE`; the answer of the whole compound, if the call is repeated.
    fn begin(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<Option<Vec<u8>>, Status> {
        let asked = Sequence {
            session: reader.array()?,
            sequence: reader.u32()?,
            slot: reader.u32()?,
            highest_slot: reader.u32()?,
            cache_this: reader.boolean()?,
            connection: self.caller.connection,
            request_bytes: self.request_bytes,
            operations: self.count,
            fingerprint: self.fingerprint,
        };
        let mut state = self.service.state();
        match state.sequence(&asked, self.caller.now_ms)? {
            Sequenced::Repeated(answer) => return Ok(Some(answer)),
            Sequenced::New { client, fore } => {
                self.client = client;
                self.sequence = Some((asked, fore));
            }
        }
        let highest = state.highest_slot(&asked.session);
        out.fixed(&asked.session);
        for word in [asked.sequence, asked.slot, highest, highest, 0] {
            out.u32(word);
        }
        Ok(None)
    }

    fn execute(
        &mut self,
        operation: u32,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        match operation {
            op::EXCHANGE_ID => self.exchange_id(reader, out),
            op::CREATE_SESSION => self.create_session(reader, out),
            op::BIND_CONN_TO_SESSION => self.bind_connection(reader, out),
            op::DESTROY_SESSION => self.destroy_session(reader),
            op::DESTROY_CLIENTID => self.destroy_client(reader),
            op::RECLAIM_COMPLETE => self.reclaim_complete(reader),
            op::BACKCHANNEL_CTL => self.backchannel(reader),
            op::TEST_STATEID => self.test_stateids(reader, out),
            op::FREE_STATEID => self.free_stateid(reader),
            op::PUTFH => self.put_handle(reader),
            op::PUTROOTFH | op::PUTPUBFH => self.put_root(),
            op::GETFH => self.get_handle(out),
            op::SAVEFH => self.save_handle(),
            op::RESTOREFH => self.restore_handle(),
            op::LOOKUP => self.look_up(reader),
            op::LOOKUPP => self.look_up_parent(),
            op::GETATTR => self.get_attributes(reader, out),
            op::SETATTR => self.set_attributes(reader, out),
            op::VERIFY => self.verify(reader, true),
            op::NVERIFY => self.verify(reader, false),
            op::ACCESS => self.access(reader, out),
            op::SECINFO => self.security_of_name(reader, out),
            op::SECINFO_NO_NAME => self.security(reader, out),
            op::CREATE => self.create(reader, out),
            op::REMOVE => self.remove(reader, out),
            op::RENAME => self.rename(reader, out),
            op::LINK => self.link(reader, out),
            op::READLINK => self.read_link(out),
            op::READDIR => self.read_directory(reader, out),
            op::OPEN => self.open(reader, out),
            op::OPEN_DOWNGRADE => self.downgrade(reader, out),
            op::CLOSE => self.close(reader, out),
            op::LOCK => self.lock(reader, out),
            op::LOCKT => self.test_lock(reader, out),
            op::LOCKU => self.unlock(reader, out),
            op::READ => self.read(reader, out),
            op::WRITE => self.write(reader, out),
            op::COMMIT => self.commit(reader, out),
            _ if self.minor < 2 && operation > op::RECLAIM_COMPLETE => Err(Status::OP_ILLEGAL),
            op::ALLOCATE => self.allocate(reader),
            op::DEALLOCATE => self.deallocate(reader),
            op::SEEK => self.seek(reader, out),
            op::READ_PLUS => self.read_plus(reader, out),
            op::COPY => self.copy(reader, out),
            op::CLONE => self.clone_range(reader),
            op::GETXATTR => self.get_extended(reader, out),
            op::SETXATTR => self.set_extended(reader, out),
            op::LISTXATTRS => self.list_extended(reader, out),
            op::REMOVEXATTR => self.remove_extended(reader, out),
            _ => Err(Status::NOTSUPP),
        }
    }

    pub(super) fn principal(&self) -> u64 {
        match self.caller.credential {
            Credential::Nobody => u64::MAX,
            Credential::System { uid, .. } => (*uid).into(),
        }
    }

    pub(super) fn files(&self) -> &dyn FileSystem {
        &*self.service.files
    }

    /// The current file handle.
    pub(super) fn node(&self) -> Result<Node, Status> {
        self.current.ok_or(Status::NOFILEHANDLE)
    }

    /// The saved file handle.
    pub(super) fn saved(&self) -> Result<Node, Status> {
        self.saved.ok_or(Status::NOFILEHANDLE)
    }

    pub(super) fn go_to(&mut self, node: Node) {
        self.current = Some(node);
        self.stateid = None;
    }

    pub(super) fn read_handle(&self, reader: &mut Reader<'_>) -> Result<Node, Status> {
        let (file_system, node) = handle::decode(reader.opaque(HANDLE_BYTES_MAX)?)?;
        if file_system != self.files().identity() {
            return Err(Status::STALE);
        }
        self.files().attributes(node)?;
        Ok(node)
    }

    /// A state id of the arguments; the current one in place of the special one for it.
    pub(super) fn read_stateid(&self, reader: &mut Reader<'_>) -> Result<StateId, Status> {
        let id = StateId {
            sequence: reader.u32()?,
            other: reader.array()?,
        };
        if id == StateId::CURRENT {
            return self.stateid.ok_or(Status::BAD_STATEID);
        }
        Ok(id)
    }

    /// Writes the attributes of a node that `wanted` asks for.
    pub(super) fn write_attributes(
        &self,
        node: Node,
        wanted: &Bitmap,
        attributes: &Attributes,
        out: &mut Writer,
    ) -> Result<(), Status> {
        self.with_source(node, attributes, |source| {
            super::attributes::write(out, wanted, source);
            Ok(())
        })
    }

    pub(super) fn with_source<T>(
        &self,
        node: Node,
        attributes: &Attributes,
        use_it: impl FnOnce(&Source<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let statistics = self.files().statistics()?;
        use_it(&Source {
            node,
            attributes,
            statistics: &statistics,
            file_system: self.files().identity(),
            lease_seconds: self.service.presentation.lease_seconds,
            minor: self.minor,
        })
    }
}
