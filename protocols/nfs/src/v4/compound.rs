//! A compound: its operations one after the other, until one fails (RFC 8881, 2.10 and 16.2; RFC 7530, 15.2).

use std::collections::hash_map::RandomState;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use file_system::{
    Attributes, Changed, Done, FileError, FileSystem, Handle, Identity, Kind, Node, Receipt,
};

use super::answer::Reply;
use super::attributes::{self, Bitmap};
use super::commits::{self, Ending, ResultAt, Uncommitted};
use super::grace::{ClientRecord, PersistentState};
use super::kinds::{
    CHANGE_BYTES_MAX, changes, changes_files, error_without_sessions, has_body, leads_elsewhere,
    may_be_repeated, needs_no_session,
};
use super::numbers::{Status, op};
use super::opens::StateId;
use super::state::{
    Channel, MESSAGE_BYTES_MAX, OPERATIONS_MAX, Sequence, Sequenced, State, fingerprint_of,
};
use super::waiting::{Changes, changes_of};
use super::without_sessions::ConsumedSeqid;
use crate::activity::{ActivityTable, ExportUsage, Transferred};
use crate::exports::{Exports, InvalidHandle, Place, Source};
use crate::handles::HandleKey;
use crate::hosts::Outbox;
use crate::repeats::Repeats;
use crate::rpc::Credential;
use crate::sharenfs::{Access, Security};
use crate::snapshots;
use crate::xdr::{Malformed, Reader, Writer};

/// Bytes of a handle that the protocol allows.
pub(super) const HANDLE_BYTES_MAX: usize = 128;
/// Bytes of a compound's tag.
pub(super) const TAG_BYTES_MAX: usize = 1024;
/// Bytes of the RPC header of a reply.
const REPLY_HEADER_BYTES: usize = 24;

/// Maximum bytes that security adds to a reply: checksums, sequence number, the envelope of the encryption.
const fn bytes_of(security: Security) -> usize {
    match security {
        Security::System => 0,
        Security::Kerberos => 40,
        Security::Integrity => 96,
        Security::Privacy => 140,
    }
}
/// Highest minor version.
const MINOR_MAX: u32 = 2;
/// The last operation of NFS 4.0.
const LAST_WITHOUT_SESSIONS: u32 = op::RELEASE_LOCKOWNER;

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
            FileError::OtherProject => Self::XDEV,
            FileError::BeyondEnd => Self::NXIO,
            FileError::Unsupported => Self::NOTSUPP,
            FileError::NoExtended => Self::NOXATTR,
            FileError::WrongType => Self::WRONG_TYPE,
            FileError::BadName => Self::BADNAME,
            FileError::BadCookie => Self::BAD_COOKIE,
            FileError::NotSame => Self::NOT_SAME,
            FileError::NotReady => Self::DELAY,
            FileError::Gone => Self::GONE,
            FileError::Io => Self::IO,
        }
    }
}

/// The context of a call besides its arguments.
pub struct Caller<'a> {
    /// The caller's credential.
    pub credential: &'a Credential,
    /// The RPC transaction ID.
    pub transaction: u32,
    /// The connection; its number is never used again.
    pub connection: u64,
    /// The client's address.
    pub from: Source,
    /// The server's address that received the call.
    pub here: IpAddr,
    /// Milliseconds since the server started.
    pub now_ms: u64,
}

impl Caller<'_> {
    /// Returns the receipt of a change without a session, by which a later server recognizes a retransmission.
    pub(crate) fn receipt(&self, fingerprint: u64, step: u32) -> Receipt {
        let address = match self.from.address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let mut place = [0; 20];
        place[..16].copy_from_slice(&address.octets());
        place[16..].copy_from_slice(&self.transaction.to_be_bytes());
        Receipt {
            place,
            number: fingerprint as u32,
            step,
            call: 0,
        }
    }
}

/// The identity that a server presents.
#[derive(Clone, Debug)]
pub struct Presentation {
    /// `so_major_id` and the scope: the pool's, so that it moves with the pool.
    pub owner: Vec<u8>,
    /// A number that differs at each start, on any head: the write verifier, and part of stateids and client IDs.
    pub start: u64,
    /// Lease time in seconds.
    pub lease_seconds: u32,
    /// The initial key that signs filehandles.
    pub handle_key: HandleKey,
    /// Grace period in seconds. Clients reclaim the opens and locks of an earlier server, and new opens and locks
    /// that could conflict are refused. It is over early when all clients are done.
    pub grace_seconds: u32,
}

/// Why a call gets no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoReply {
    /// It cannot be decoded.
    Malformed,
    /// The pool is lost, so the connection must be dropped.
    Gone,
    /// The calls must use a stronger security flavor.
    TooWeak,
}

impl From<Malformed> for NoReply {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// The NFS 4 service for the shared file systems.
pub struct Service {
    exports: RwLock<Arc<Exports>>,
    /// Hashes names of Kerberos principals.
    pub(super) names: RandomState,
    /// Signs the filehandles of the next exports.
    handle_key: Mutex<HandleKey>,
    pub(super) presentation: Presentation,
    state: Mutex<State>,
    record: Arc<dyn ClientRecord>,
    /// The version of the stored holders. Locked while holders are being stored.
    kept: Mutex<Kept>,
    kept_version: AtomicU64,
    pub(super) activity_table: Mutex<ActivityTable>,
    /// Calls to be sent to hosts.
    pub(crate) outbox: Outbox,
    /// Calls without a session that were executed.
    pub(crate) repeats: Mutex<Repeats>,
    /// Until this time, space of expired clients is still being freed.
    pub(super) space_comes_ms: AtomicU64,
}

struct Kept(PersistentState);

impl Service {
    /// Creates a service without exports. Clients of an `earlier` server may reclaim; `record` stores new holders.
    pub fn new(
        presentation: Presentation,
        earlier: impl Into<PersistentState>,
        record: Arc<dyn ClientRecord>,
    ) -> Self {
        let earlier = earlier.into();
        let milliseconds = |seconds: u32| u64::from(seconds) * 1000;
        let (lease_ms, grace_ms) = (
            milliseconds(presentation.lease_seconds),
            milliseconds(presentation.grace_seconds),
        );
        let start = presentation.start as u32;
        Self {
            exports: RwLock::new(Arc::new(
                Exports::none().signed_by(presentation.handle_key.clone()),
            )),
            names: RandomState::new(),
            handle_key: Mutex::new(presentation.handle_key.clone()),
            state: Mutex::new(State::new(start, lease_ms, grace_ms, earlier.clone())),
            presentation,
            record,
            kept: Mutex::new(Kept(earlier)),
            kept_version: AtomicU64::new(0),
            activity_table: Mutex::default(),
            repeats: Mutex::default(),
            space_comes_ms: AtomicU64::new(0),
            outbox: Outbox::default(),
        }
    }

    /// The verifier of writes that are not yet durable.
    pub(crate) const fn verifier(&self) -> [u8; 8] {
        self.presentation.start.to_be_bytes()
    }

    /// Stores the holders of opens and locks unless the current version is already stored. Replies that depend on it
    /// are sent afterwards: a client that was granted state is known to the next server, and a client that lost state
    /// to another is not.
    pub(crate) fn keep_holders(&self, now_ms: u64) -> Result<(), Status> {
        let is_kept = |version| self.kept_version.load(Ordering::Acquire) >= version;
        let needed = self.state().holders_version(now_ms);
        if is_kept(needed) {
            return Ok(());
        }
        let mut kept = self.kept.lock().expect("no holder panics");
        // The previous lock holder has stored newer holders, too.
        if is_kept(needed) {
            return Ok(());
        }
        let (version, persistent_state) = {
            let mut state = self.state();
            let version = state.holders_version(now_ms);
            let persistent_state = PersistentState {
                holders: state.holders(now_ms),
                hosts: state.hosts(now_ms),
            };
            (version, persistent_state)
        };
        if kept.0 != persistent_state {
            if !self.record.keep(&persistent_state) {
                return Err(Status::DELAY);
            }
            kept.0 = persistent_state;
        }
        self.kept_version.store(version, Ordering::Release);
        Ok(())
    }

    /// Returns the current exports.
    pub fn exports(&self) -> Arc<Exports> {
        Arc::clone(&self.exports.read().expect("no holder panics"))
    }

    /// Sets the key that signs the filehandles of the next exports.
    pub fn sign_by(&self, key: HandleKey) {
        *self.handle_key.lock().expect("no holder panics") = key;
    }

    /// Replaces the exports, and closes opens of file systems that are no longer shared. Calls are serialized.
    pub fn share(&self, exports: Exports) {
        self.reattach(&exports);
        let key = self.handle_key.lock().expect("no holder panics").clone();
        let exports = exports.signed_by(key);
        let exports =
            exports.counted_in(&mut self.activity_table.lock().expect("no holder panics"));
        let exports = Arc::new(exports);
        *self.exports.write().expect("no holder panics") = Arc::clone(&exports);
        let mut state = self.state();
        state.detach(|file| exports.is_closed(file.file_system));
        state.forget_files(|file| {
            let id = file.file_system;
            exports.files_of(id).is_none() && !exports.is_closed(id)
        });
        drop(state);
        self.release();
    }

    /// Reopens files that were open when their file systems were closed; opens of files that are gone are removed.
    fn reattach(&self, exports: &Exports) {
        let detached_files = self.state().detached_files();
        for file in detached_files {
            let Some(files) = exports.files_of(file.file_system) else {
                continue;
            };
            let node = snapshots::node_of(file).unwrap_or(file.node);
            let is_held = files.hold(node).is_ok();
            let mut state = self.state();
            let is_taken = is_held && state.reattach(file, files);
            if !is_held {
                state.forget_files(|one| *one == file);
            }
            drop(state);
            if is_held && !is_taken {
                files.release(node);
            }
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Releases files without any open.
    pub(crate) fn release(&self) {
        self.release_after(|| ());
    }

    /// Like [`Self::release`]. `before` returns the buffers that the caller has borrowed, because the release of a
    /// file blocks on them.
    pub(super) fn release_after(&self, mut before: impl FnMut()) {
        let released = self.state().take_released();
        for (files, file) in released {
            before();
            files.release(snapshots::node_of(file).unwrap_or(file.node));
        }
    }

    /// Appends the result of the procedure `COMPOUND` to `out`. With `later`, changes of names and attributes may not be
    /// durable yet: see [`Uncommitted`].
    pub(super) fn perform(
        &self,
        arguments: &[u8],
        caller: &Caller<'_>,
        out: &mut Writer,
        later: Option<&mut Option<Uncommitted>>,
    ) -> Result<ExportUsage, NoReply> {
        let mut reader = Reader::new(arguments);
        let tag = reader.opaque(TAG_BYTES_MAX)?;
        let minor = reader.u32()?;
        let count = reader.u32()?;
        let mut answer = Reply::new(tag, out);
        if minor > MINOR_MAX {
            answer.end(Status::MINOR_VERS_MISMATCH);
            return Ok(ExportUsage::default());
        }
        if std::str::from_utf8(tag).is_err() {
            answer.end(Status::INVAL);
            return Ok(ExportUsage::default());
        }
        if count > OPERATIONS_MAX {
            // A session limits the operations; without one there is no use for many.
            let first = reader.u32()?;
            let status = match minor {
                0 => Status::RESOURCE,
                _ => Status::TOO_MANY_OPS,
            };
            answer.fail(first, status);
            answer.end(status);
            return Ok(ExportUsage::default());
        }
        let exports = self.exports();
        let mut call = Call {
            service: self,
            caller,
            entered: 0,
            access: Access::ReadOnly,
            is_secured: true,
            who: exports.export(0).identity(caller.credential),
            exports,
            to_commit: None,
            commits_later: later.is_some(),
            uncommitted: None,
            start: answer.start,
            minor,
            count,
            request_bytes: arguments.len(),
            fingerprint: match minor {
                0 => fingerprint_of(arguments, caller.credential),
                _ => 0,
            },
            client: 0,
            taken: None,
            sequence: None,
            index: 0,
            moved: Transferred::default(),
            resumed: None,
            current: None,
            saved: None,
            stateid: None,
            saved_stateid: None,
        };
        let (status, repeated) = call.run(&mut reader, &mut answer);
        if let Some(bytes) = repeated {
            answer.repeat(&bytes);
            return Ok(ExportUsage::default());
        }
        let (is_small, count_at) = (answer.count <= 1, answer.count_at);
        answer.end(status);
        // The call in progress renews the client's lease while slow files are released.
        self.release_after(&mut || {
            answer.writer.own();
        });
        if let Some((sequence, _)) = &call.sequence {
            let ending = Ending {
                sequence: *sequence,
                is_kept: sequence.cache_this || is_small,
                start: answer.start,
                count_at,
            };
            match (later, call.uncommitted.take()) {
                (Some(later), Some(changes)) => {
                    let exports = Arc::clone(&call.exports);
                    *later = Some(Uncommitted::new(changes, ending, exports));
                }
                _ => self.end_call(&ending, answer.writer),
            }
        }
        self.grant_after(caller.now_ms, || {
            answer.writer.own();
        });
        call.moved.has_failed = status == Status::IO;
        match (status, call.entered) {
            (Status::GONE, _) => Err(NoReply::Gone),
            (_, 0) => Ok(ExportUsage::default()),
            (_, entered) => Ok(call.exports.export(entered).used(call.moved)),
        }
    }
}

/// A compound in progress.
pub(super) struct Call<'a> {
    pub(super) service: &'a Service,
    pub(super) caller: &'a Caller<'a>,
    pub(super) exports: Arc<Exports>,
    /// The export of the current file handle.
    pub(super) entered: usize,
    /// The permitted access there.
    access: Access,
    /// Whether the security flavor of this call is accepted there.
    is_secured: bool,
    /// The client's identity there.
    pub(super) who: Identity,
    /// The change that must be durable before the reply; with a node, also the contents of that file.
    pub(super) to_commit: Option<Option<Node>>,
    /// Whether such changes may be committed together with those of other compounds.
    pub(super) commits_later: bool,
    /// The changes in the current file system that are committed later.
    pub(super) uncommitted: Option<commits::Changes>,
    /// Offset of the reply in its buffer.
    start: usize,
    pub(super) minor: u32,
    count: u32,
    request_bytes: usize,
    /// The fingerprint of a call without a session.
    pub(super) fingerprint: u64,
    /// The client ID: of the session or, without sessions, of the operation's arguments.
    pub(super) client: u64,
    /// The seqid turn of the owner.
    pub(super) taken: Option<ConsumedSeqid>,
    pub(super) sequence: Option<(Sequence, Channel)>,
    /// Index of the current operation.
    pub(super) index: u32,
    /// Bytes that the operations transferred.
    pub(super) moved: Transferred,
    /// Set if an earlier server executed the call up to its last change, without a reply.
    pub(super) resumed: Option<Receipt>,
    pub(super) current: Option<Place>,
    pub(super) saved: Option<Place>,
    pub(super) stateid: Option<StateId>,
    pub(super) saved_stateid: Option<StateId>,
}

impl Call<'_> {
    /// Executes the operations. The second value is the cached reply of a retransmitted call.
    fn run(
        &mut self,
        reader: &mut Reader<'_>,
        answer: &mut Reply<'_>,
    ) -> (Status, Option<Vec<u8>>) {
        for index in 0..self.count {
            let Ok(operation) = reader.u32() else {
                answer.fail(op::ILLEGAL, Status::BADXDR);
                return (Status::BADXDR, None);
            };
            self.index = index;
            let last = match self.minor {
                0 => LAST_WITHOUT_SESSIONS,
                1 => op::RECLAIM_COMPLETE,
                _ => op::REMOVEXATTR,
            };
            let is_known = (op::ACCESS..=last).contains(&operation);
            let shown = if is_known { operation } else { op::ILLEGAL };
            let start = answer.writer.len();
            answer.fail(shown, Status::OK);
            let body = answer.writer.len();
            if index == 0 && operation == op::SEQUENCE && is_known {
                let begun = self.begin(reader, answer.writer);
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
            let result = ResultAt {
                operation,
                index,
                start,
            };
            let mut status = if is_known {
                self.check_place(index, operation)
                    .and_then(|()| self.check_room_for(operation, body))
                    .map(|()| self.execute(operation, reader, answer.writer))
                    .and_then(|executed| self.commit_changes(result, executed))
                    .and_then(|()| self.keep_holders(operation, answer.writer))
                    .err()
                    .unwrap_or(Status::OK)
            } else {
                Status::OP_ILLEGAL
            };
            if self.minor == 0 {
                status = error_without_sessions(operation, status);
            }
            if !has_body(operation, status) {
                answer.writer.truncate(body);
                if operation == op::SETATTR {
                    answer.writer.u32(0);
                }
            }
            if let Some(too_big) = self.is_too_big(answer.writer.len()) {
                status = too_big;
                answer.writer.truncate(body);
            }
            if status == Status::GONE && !Arc::ptr_eq(&self.exports, &self.service.exports()) {
                // The file system was closed during the call. A retry uses the reopened one.
                status = Status::DELAY;
            }
            if matches!(status, Status::NOSPC | Status::DQUOT) {
                let mut gives_back = || {
                    answer.writer.own();
                };
                let is_coming = self
                    .service
                    .release_space_of_expired(self.caller.now_ms, &mut gives_back);
                if is_coming {
                    status = Status::DELAY;
                }
            }
            self.end_seqid(operation, status, answer.writer, body);
            answer.writer.set_u32(start + 4, status.0);
            if status != Status::OK {
                return (status, None);
            }
        }
        (Status::OK, None)
    }

    /// A change must also have room for its result, which is checked before the change.
    fn check_room_for(&self, operation: u32, written: usize) -> Result<(), Status> {
        match changes(operation) {
            true => self
                .is_too_big(written + CHANGE_BYTES_MAX)
                .map_or(Ok(()), Err),
            false => Ok(()),
        }
    }

    fn is_too_big(&self, length: usize) -> Option<Status> {
        let whole = length - self.start + self.header_bytes();
        if self.minor == 0 {
            return (whole > MESSAGE_BYTES_MAX as usize).then_some(Status::RESOURCE);
        }
        let (sequence, fore) = self.sequence.as_ref()?;
        if whole > fore.response_bytes_max as usize {
            Some(Status::REP_TOO_BIG)
        } else if sequence.cache_this && whole > fore.cached_bytes_max as usize {
            Some(Status::REP_TOO_BIG_TO_CACHE)
        } else {
            None
        }
    }

    /// Returns the bytes left in a reply, for operations that can return less.
    pub(super) fn room(&self, written: usize) -> usize {
        let bytes_max = match &self.sequence {
            Some((sequence, fore)) if sequence.cache_this => {
                fore.cached_bytes_max.min(fore.response_bytes_max)
            }
            Some((_, fore)) => fore.response_bytes_max,
            None => MESSAGE_BYTES_MAX,
        };
        (bytes_max as usize).saturating_sub(written - self.start + self.header_bytes())
    }

    /// Bytes of a reply around the results.
    const fn header_bytes(&self) -> usize {
        REPLY_HEADER_BYTES + bytes_of(self.caller.from.security)
    }

    fn check_place(&self, index: u32, operation: u32) -> Result<(), Status> {
        if operation == op::SEQUENCE {
            return Err(Status::SEQUENCE_POS);
        }
        if self.minor == 0 || self.sequence.is_some() || self.resumed.is_some() {
            // A session does not destroy itself in the middle of a compound.
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

    /// `SEQUENCE`. Returns the cached reply of the whole compound if the call is retransmitted.
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
            // A retransmission may carry another highest slot.
            fingerprint: fingerprint_of(reader.rest(), self.caller.credential),
        };
        let begun = {
            let mut state = self.service.state();
            let begun = state.sequence(&asked, self.caller.now_ms);
            begun.map(|begun| (begun, state.highest_slot(&asked.session)))
        };
        let highest = match begun {
            Ok((Sequenced::Repeated(answer), _)) => return Ok(Some(answer)),
            Ok((Sequenced::New { client, fore }, highest)) => {
                self.client = client;
                self.sequence = Some((asked, fore));
                highest
            }
            Err(Status::BADSESSION) => {
                self.resumed = Some(self.receipt_of(&asked, *reader)?);
                asked.highest_slot
            }
            Err(status) => return Err(status),
        };
        out.fixed(&asked.session);
        for word in [asked.sequence, asked.slot, highest, highest, 0] {
            out.u32(word);
        }
        Ok(None)
    }

    /// Returns the receipt that an earlier server stored for this call, whose rest is `rest`. `BADSESSION`: none.
    fn receipt_of(&self, asked: &Sequence, rest: Reader<'_>) -> Result<Receipt, Status> {
        let wanted = asked.receipt(0);
        let changes = changes_of(rest);
        // File systems that the call does not change are not opened.
        let is_needed = |files: &dyn FileSystem| match changes {
            Changes::None => false,
            Changes::In(id) => files.id() == id.whole(),
            Changes::Anywhere => true,
        };
        let mut kept = None;
        for one in self.exports.shared() {
            if is_needed(&*one.files) {
                one.check_open()?;
            } else if !one.files.is_open() {
                continue;
            }
            let found = one.files.receipt(&wanted.place);
            let found = found.filter(|receipt| receipt.is_of(wanted.number, wanted.call));
            let steps = |receipt: &Option<Receipt>| receipt.as_ref().map(|receipt| receipt.step);
            if steps(&found) > steps(&kept) {
                kept = found;
            }
        }
        kept.ok_or(Status::BADSESSION)
    }

    /// Applies a change that must not be applied twice. Does nothing if an earlier server has applied it.
    pub(super) fn once<T>(
        &mut self,
        change: impl FnOnce(&dyn FileSystem, &Identity, Option<&Receipt>) -> Done<T>,
    ) -> Result<Option<T>, Status> {
        self.to_commit = Some(None);
        if let Some(receipt) = &self.resumed {
            return match self.index <= receipt.step {
                true => Ok(None),
                // The client continues with a new session.
                false => Err(Status::DELAY),
            };
        }
        let receipt = match &self.sequence {
            Some((sequence, _)) => sequence.receipt(self.index),
            None => {
                let receipt = self.caller.receipt(self.fingerprint, self.index);
                let kept = self.files().receipt(&receipt.place);
                let kept = kept.filter(|kept| kept.number == receipt.number);
                if kept.is_some_and(|kept| self.index <= kept.step)
                    && self.service.is_repeated(&receipt, self.caller.now_ms)
                {
                    return Ok(None);
                }
                self.service.executes(&receipt, self.caller.now_ms);
                receipt
            }
        };
        let receipt = Some(receipt);
        Ok(Some(change(self.files(), &self.who, receipt.as_ref())?))
    }

    fn execute(
        &mut self,
        operation: u32,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        if !leads_elsewhere(operation) {
            self.check_security()?;
        }
        if changes_files(operation) && self.access == Access::ReadOnly && self.current.is_some() {
            return Err(Status::ROFS);
        }
        if self.resumed.is_some() && !may_be_repeated(operation) {
            return Err(Status::DELAY);
        }
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
            op::PUTROOTFH | op::PUTPUBFH => self.put_root(reader),
            op::GETFH => self.get_handle(out),
            op::SAVEFH => self.save_handle(),
            op::RESTOREFH => self.restore_handle(reader),
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
            op::SETCLIENTID if self.minor == 0 => self.set_client(reader, out),
            op::SETCLIENTID_CONFIRM if self.minor == 0 => self.confirm_client(reader),
            op::RENEW if self.minor == 0 => self.renew(reader),
            op::OPEN_CONFIRM if self.minor == 0 => self.confirm_open(reader, out),
            op::RELEASE_LOCKOWNER if self.minor == 0 => self.release_owner(reader),
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

    /// The file system of the current filehandle.
    pub(super) fn files(&self) -> &dyn FileSystem {
        &*self.exports.export(self.entered).files
    }

    /// The file system of the current filehandle, as an owned reference.
    pub(super) fn shared_files(&self) -> Arc<dyn FileSystem> {
        Arc::clone(&self.exports.export(self.entered).files)
    }

    /// Checks that the file system is writable.
    pub(super) fn may_change(&self) -> Result<(), Status> {
        let is_fixed = self.current.is_some_and(Place::is_fixed);
        match self.access {
            Access::ReadWrite if !is_fixed => Ok(()),
            _ => Err(Status::ROFS),
        }
    }

    /// The current filehandle.
    pub(super) fn place(&self) -> Result<Place, Status> {
        self.current.ok_or(Status::NOFILEHANDLE)
    }

    /// The object of the current filehandle.
    pub(super) fn node(&self) -> Result<Node, Status> {
        Ok(self.place()?.node)
    }

    /// The saved object, which must be in the same file system.
    pub(super) fn saved(&self) -> Result<Node, Status> {
        let saved = self.saved.ok_or(Status::NOFILEHANDLE)?;
        match saved.export == self.entered {
            true => Ok(saved.node),
            false => Err(Status::XDEV),
        }
    }

    /// The key of an object in the table of opens and locks.
    pub(super) fn file(&self, node: Node) -> Handle {
        self.exports.export(self.entered).handle(node)
    }

    /// Sets the current object, if the client may use its file system.
    pub(super) fn go_to(&mut self, place: Place) -> Result<(), Status> {
        if place.export != self.entered || self.current.is_none() {
            let export = self.exports.export(place.export);
            let access = export.access(&self.caller.from).ok_or(Status::ACCESS)?;
            export.check_open()?;
            let who = export.identity(self.caller.credential);
            let is_secured = export.takes(self.caller.from.security);
            self.commit_before_leaving()?;
            (self.who, self.is_secured) = (who, is_secured);
            (self.entered, self.access) = (place.export, access);
        }
        self.current = Some(place);
        self.stateid = None;
        Ok(())
    }

    /// Checks that the current file system accepts the security flavor of the call.
    pub(super) fn check_security(&self) -> Result<(), Status> {
        match self.is_secured {
            true => Ok(()),
            false => Err(Status::WRONGSEC),
        }
    }

    /// Checks the security flavor after an operation that sets the filehandle, as RFC 8881, 2.6.3.1.1 says.
    pub(super) fn check_security_before(&self, next: &Reader<'_>) -> Result<(), Status> {
        let mut next = Reader::new(next.rest());
        let left = self.count - self.index - 1;
        let mut operations = (0..left).map_while(|_| next.u32().ok());
        let next = operations.find(|next| *next != op::SAVEFH);
        match next {
            Some(next) if !leads_elsewhere(next) && next != op::OPEN => self.check_security(),
            _ => Ok(()),
        }
    }

    /// Sets the current object within the same file system.
    pub(super) fn go_to_node(&mut self, node: Node) {
        self.current = Some(Place {
            export: self.entered,
            node,
        });
        self.stateid = None;
    }

    /// Reads a filehandle from the arguments.
    pub(super) fn read_handle(&self, reader: &mut Reader<'_>) -> Result<Place, Status> {
        let bytes = reader.opaque(HANDLE_BYTES_MAX)?;
        let found = self.exports.found(bytes, self.caller.now_ms);
        let place = found.map_err(|none| match none {
            InvalidHandle::Bad => Status::BADHANDLE,
            InvalidHandle::Stale => Status::STALE,
            InvalidHandle::Pending => Status::DELAY,
        })?;
        let export = self.exports.export(place.export);
        export.access(&self.caller.from).ok_or(Status::ACCESS)?;
        export.files.attributes(place.node)?;
        Ok(place)
    }

    /// Reads a stateid; the special one is replaced by the current one. Without sessions it identifies the client.
    pub(super) fn read_stateid(&mut self, reader: &mut Reader<'_>) -> Result<StateId, Status> {
        let id = self.read_raw_stateid(reader)?;
        if self.minor == 0 && id != StateId::ANONYMOUS && id != StateId::BYPASS {
            let now_ms = self.caller.now_ms;
            self.client = self.service.state().client_of(&id, now_ms)?;
        }
        Ok(id)
    }

    /// Reads a stateid of a request that may be retransmitted after its state was removed.
    pub(super) fn read_raw_stateid(&self, reader: &mut Reader<'_>) -> Result<StateId, Status> {
        let id = StateId {
            sequence: reader.u32()?,
            other: reader.array()?,
        };
        if id == StateId::CURRENT && self.minor > 0 {
            return self.stateid.ok_or(Status::BAD_STATEID);
        }
        Ok(id)
    }

    /// Writes the `wanted` attributes of an object.
    pub(super) fn write_attributes(
        &self,
        place: Place,
        wanted: &Bitmap,
        attributes: &Attributes,
        out: &mut Writer,
    ) -> Result<(), Status> {
        self.with_source(place, attributes, wanted, |source| {
            attributes::write(out, wanted, source);
            Ok(())
        })
    }

    pub(super) fn with_source<T>(
        &self,
        place: Place,
        attributes: &Attributes,
        wanted: &Bitmap,
        use_it: impl FnOnce(&attributes::Source<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let files = &self.exports.export(place.export).files;
        let limits = files.limits();
        let statistics = if wanted.needs_statistics() {
            files.statistics()?
        } else {
            file_system::Statistics::default()
        };
        let list = match limits.has_acls && wanted.needs_list() {
            true => files.acl(&self.who, place.node)?,
            false => Vec::new(),
        };
        use_it(&attributes::Source {
            handle: self.exports.handle(place),
            key: self.exports.key(),
            covered: self.exports.covered(place),
            limits,
            attributes,
            list: &list,
            statistics: &statistics,
            lease_seconds: self.service.presentation.lease_seconds,
            minor: self.minor,
        })
    }

    /// `change_info4` of a directory.
    pub(super) fn write_change(changed: &Changed, out: &mut Writer) {
        out.boolean(true);
        out.u64(changed.before.change);
        out.u64(changed.after.change);
    }

    /// Writes `change_info4`. For a change of an earlier server only the current state of the directory is known.
    pub(super) fn write_change_of(
        &self,
        directory: Node,
        changed: Option<&Changed>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        match changed {
            Some(changed) => Self::write_change(changed, out),
            None => {
                let now = self.files().attributes(directory)?.change;
                out.boolean(false);
                out.u64(now);
                out.u64(now);
            }
        }
        Ok(())
    }

    /// The type of an object.
    pub(super) fn kind(&self, node: Node) -> Result<Kind, Status> {
        Ok(self.files().attributes(node)?.kind)
    }
}
