//! Locks for NFS 3 clients: NLM 4, and the restart notification of NSM 1 (X/Open, Protocols for
//! Interworking: XNFS). Converts the arguments of a procedure to its result. [`calls`] contains the
//! calls to hosts, [`portmap`] the port mapper that hosts use, and [`sockets`] the threads.

pub mod calls;
pub mod portmap;
pub mod sockets;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use file_system::{FileError, FileSystem, Handle, Kind};

use crate::activity::{ExportUsage, Transferred};
use crate::exports::{Exports, InvalidHandle};
use crate::handles::unverified;
use crate::hosts::{AddressPair, Message, Purpose};
use crate::sharenfs::Access;
use crate::v4::{
    Caller, Conflict, HostShare, LockRequest, NoHostLock, NoReply, Service, Span, WRITE,
};
use crate::xdr::{Malformed, Reader, Writer};

/// The number of NLM.
pub const PROGRAM: u32 = 100_021;
/// Its version for NFS 3.
pub const VERSION: u32 = 4;
/// The number of NSM.
pub const STATUS_PROGRAM: u32 = 100_024;
/// Its version.
pub const STATUS_VERSION: u32 = 1;

/// Bytes of a cookie (`netobj`).
const COOKIE_BYTES_MAX: usize = 1024;
/// Bytes of a handle.
const HANDLE_BYTES_MAX: usize = 64;
/// Bytes of a host name and of an owner. The protocol allows 1,024; host names have at most 255.
const NAME_BYTES_MAX: usize = 256;
const OWNER_BYTES_MAX: usize = 256;
/// Bytes of an NFS 4 owner that are returned.
const FOREIGN_OWNER_BYTES_MAX: usize = 64;

/// NLM procedure numbers.
mod procedure {
    pub const NULL: u32 = 0;
    pub const TEST: u32 = 1;
    pub const LOCK: u32 = 2;
    pub const CANCEL: u32 = 3;
    pub const UNLOCK: u32 = 4;
    /// The first procedure with an asynchronous result; the result procedure is [`TO_RESULT`]
    /// further on.
    pub const TEST_MSG: u32 = 6;
    pub const UNLOCK_MSG: u32 = 9;
    /// Results of calls that this server does not send.
    pub const TEST_RES: u32 = 11;
    pub const GRANTED_RES: u32 = 15;
    pub const SHARE: u32 = 20;
    pub const UNSHARE: u32 = 21;
    pub const NM_LOCK: u32 = 22;
    pub const FREE_ALL: u32 = 23;
}

/// Offset from a procedure to its asynchronous form.
const TO_MESSAGE: u32 = 5;
/// Offset from there to the result procedure.
const TO_RESULT: u32 = 5;

/// NSM procedure numbers.
mod status_procedure {
    pub const NULL: u32 = 0;
    pub const NOTIFY: u32 = 6;
}

/// `nlm4_stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat(u32);

impl Stat {
    const GRANTED: Self = Self(0);
    const DENIED: Self = Self(1);
    const NO_LOCKS: Self = Self(2);
    const BLOCKED: Self = Self(3);
    const GRACE: Self = Self(4);
    const ROFS: Self = Self(6);
    const STALE: Self = Self(7);
    const TOO_BIG: Self = Self(8);
    const FAILED: Self = Self(9);
}

/// Why a request is not granted.
enum Failed {
    With(Stat),
    Denied(Conflict),
    Gone,
}

impl From<Stat> for Failed {
    fn from(stat: Stat) -> Self {
        Self::With(stat)
    }
}

impl From<FileError> for Failed {
    fn from(error: FileError) -> Self {
        Self::With(match error {
            FileError::Gone => return Self::Gone,
            FileError::Stale => Stat::STALE,
            FileError::ReadOnly => Stat::ROFS,
            FileError::NotReady => Stat::GRACE,
            _ => Stat::FAILED,
        })
    }
}

impl From<NoHostLock> for Failed {
    fn from(no: NoHostLock) -> Self {
        match no {
            NoHostLock::Denied(conflict) => Self::Denied(conflict),
            NoHostLock::Shared => Self::With(Stat::DENIED),
            NoHostLock::Grace => Self::With(Stat::GRACE),
            NoHostLock::Full => Self::With(Stat::NO_LOCKS),
            NoHostLock::File(error) => error.into(),
        }
    }
}

/// `nlm4_lock`.
struct Lock<'a> {
    host: &'a [u8],
    handle: &'a [u8],
    /// Number and name of the owner, concatenated.
    owner: Vec<u8>,
    offset: u64,
    /// 0 extends to the end of the file.
    length: u64,
    /// The encoded lock.
    bytes: &'a [u8],
}

impl<'a> Lock<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let all = reader.rest();
        let host = reader.opaque(NAME_BYTES_MAX)?;
        let handle = reader.opaque(HANDLE_BYTES_MAX)?;
        let name = reader.opaque(OWNER_BYTES_MAX)?;
        let number = reader.u32()?;
        let (offset, length) = (reader.u64()?, reader.u64()?);
        Ok(Self {
            host,
            handle,
            owner: [&number.to_be_bytes(), name].concat(),
            offset,
            length,
            bytes: &all[..all.len() - reader.rest().len()],
        })
    }

    fn span(&self, is_exclusive: bool) -> Result<Span, Stat> {
        let length = if self.length == 0 {
            u64::MAX
        } else {
            self.length
        };
        Span::new(self.offset, length, is_exclusive).map_err(|_| Stat::TOO_BIG)
    }
}

/// `nlm4_share`.
struct ShareArguments<'a> {
    host: &'a [u8],
    handle: &'a [u8],
    owner: &'a [u8],
    /// The denied access.
    deny: u32,
    access: u32,
}

impl<'a> ShareArguments<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let bits = |reader: &mut Reader<'a>| match reader.u32()? {
            bits @ 0..=3 => Ok(bits),
            _ => Err(Malformed),
        };
        Ok(Self {
            host: reader.opaque(NAME_BYTES_MAX)?,
            handle: reader.opaque(HANDLE_BYTES_MAX)?,
            owner: reader.opaque(OWNER_BYTES_MAX)?,
            deny: bits(reader)?,
            access: bits(reader)?,
        })
    }
}

/// The file to lock.
struct Target {
    file: Handle,
    files: Arc<dyn FileSystem>,
}

/// A procedure in progress.
struct Call<'a> {
    service: &'a Service,
    caller: &'a Caller<'a>,
    exports: Arc<Exports>,
    used: ExportUsage,
    is_reclaim: bool,
}

/// Whether NLM has this procedure and clients may call it.
pub const fn is_procedure(number: u32) -> bool {
    use procedure::{
        FREE_ALL, GRANTED_RES, NULL, SHARE, TEST, TEST_MSG, TEST_RES, UNLOCK, UNLOCK_MSG,
    };
    matches!(
        number,
        NULL | TEST..=UNLOCK | TEST_MSG..=UNLOCK_MSG | TEST_RES..=GRANTED_RES | SHARE..=FREE_ALL
    )
}

/// Whether NSM has this procedure and clients may call it.
pub const fn is_status_procedure(number: u32) -> bool {
    matches!(number, status_procedure::NULL | status_procedure::NOTIFY)
}

/// Appends the result of an NLM procedure to `out`.
///
/// # Errors
///
/// There is no reply.
pub fn execute(
    service: &Service,
    number: u32,
    arguments: &[u8],
    caller: &Caller<'_>,
    out: &mut Writer,
) -> Result<ExportUsage, NoReply> {
    let mut call = Call {
        service,
        caller,
        exports: service.exports(),
        used: ExportUsage::default(),
        is_reclaim: false,
    };
    let reader = &mut Reader::new(arguments);
    match number {
        procedure::TEST..=procedure::UNLOCK | procedure::NM_LOCK => {
            call.execute(number, reader, out)?
        }
        procedure::SHARE | procedure::UNSHARE => {
            call.execute(number, reader, out)?;
            // `sequence` of `nlm4_shareres`, which clients ignore.
            out.u32(0);
        }
        procedure::TEST_MSG..=procedure::UNLOCK_MSG => {
            let mut results = Writer::new();
            call.execute(number - TO_MESSAGE, reader, &mut results)?;
            service.outbox.put(Message {
                way: caller.way(),
                program: PROGRAM,
                version: VERSION,
                procedure: number + TO_RESULT,
                arguments: results.into_bytes(),
                purpose: Purpose::Reply,
            });
        }
        procedure::FREE_ALL => restarted(service, reader, caller, true)?,
        _ => {}
    }
    Ok(call.used)
}

/// Appends the empty result of an NSM procedure to `out`.
///
/// # Errors
///
/// There is no reply.
pub fn monitor(
    service: &Service,
    number: u32,
    arguments: &[u8],
    caller: &Caller<'_>,
) -> Result<ExportUsage, NoReply> {
    if number == status_procedure::NOTIFY {
        restarted(service, &mut Reader::new(arguments), caller, false)?;
    }
    Ok(ExportUsage::default())
}

/// A host reports its restart, or `gives_up` all of its locks: they are released. It can only
/// report for its own address.
fn restarted(
    service: &Service,
    reader: &mut Reader<'_>,
    caller: &Caller<'_>,
    gives_up: bool,
) -> Result<(), Malformed> {
    let name = reader.opaque(NAME_BYTES_MAX)?;
    let start = Some(reader.u32()?).filter(|_| !gives_up);
    let mut state = service.state();
    state.host_restarted(caller.from.address, name, start);
    drop(state);
    service.release();
    service.grant(caller.now_ms);
    Ok(())
}

impl Caller<'_> {
    fn way(&self) -> AddressPair {
        AddressPair {
            here: self.here,
            there: self.from.address,
        }
    }
}

impl Call<'_> {
    /// Executes a procedure that returns a status.
    fn execute(
        &mut self,
        number: u32,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), NoReply> {
        let cookie = reader.opaque(COOKIE_BYTES_MAX)?;
        out.opaque(cookie);
        let executed = match number {
            procedure::TEST => self.test(reader)?,
            procedure::LOCK | procedure::NM_LOCK => self.lock(cookie, reader)?,
            procedure::CANCEL => self.cancel(reader)?,
            procedure::SHARE => self.share(reader)?,
            procedure::UNSHARE => self.unshare(reader)?,
            _ => self.unlock(reader)?,
        };
        self.service.release();
        self.service.grant(self.caller.now_ms);
        let is_kept = self.service.keep_holders(self.caller.now_ms).is_ok();
        let executed = executed.and_then(|stat| match is_kept {
            true => Ok(stat),
            // The host retries.
            false => Err(Stat::GRACE.into()),
        });
        match executed {
            // Linux drops a reclaim that is refused with GRACE. Without a reply it retries.
            Err(Failed::With(Stat::GRACE)) if self.is_reclaim => return Err(NoReply::Gone),
            Ok(stat) | Err(Failed::With(stat)) => out.u32(stat.0),
            Err(Failed::Denied(conflict)) => {
                out.u32(Stat::DENIED.0);
                if number == procedure::TEST {
                    self.write_holder(&conflict, out);
                }
            }
            Err(Failed::Gone) => return Err(NoReply::Gone),
        }
        Ok(())
    }

    /// Writes `nlm4_holder`. NFS 4 owners have no numbers.
    fn write_holder(&self, conflict: &Conflict, out: &mut Writer) {
        let process = self
            .service
            .state()
            .process_of(conflict.client, &conflict.owner);
        let (number, name) = process.unwrap_or_else(|| {
            let length = conflict.owner.len().min(FOREIGN_OWNER_BYTES_MAX);
            (0, conflict.owner[..length].to_vec())
        });
        out.boolean(conflict.is_write);
        out.u32(number);
        out.opaque(&name);
        out.u64(conflict.offset);
        out.u64(if conflict.length == u64::MAX {
            0
        } else {
            conflict.length
        });
    }

    fn test(&mut self, reader: &mut Reader<'_>) -> Result<Result<Stat, Failed>, Malformed> {
        let is_exclusive = reader.boolean()?;
        let lock = Lock::read(reader)?;
        Ok(self.find(lock.handle, is_exclusive).and_then(|target| {
            let span = lock.span(is_exclusive)?;
            let now_ms = self.caller.now_ms;
            let mut state = self.service.state();
            if state.is_lock_forbidden(now_ms) {
                return Err(Stat::GRACE.into());
            }
            // An unknown host conflicts with every lock.
            let host = state
                .known_host(self.caller.from.address, lock.host)
                .unwrap_or(0);
            let found = state.conflict(host, &lock.owner, target.file, span, now_ms);
            found.map(|()| Stat::GRANTED).map_err(Failed::Denied)
        }))
    }

    fn lock(
        &mut self,
        cookie: &[u8],
        reader: &mut Reader<'_>,
    ) -> Result<Result<Stat, Failed>, Malformed> {
        let (waits, is_exclusive) = (reader.boolean()?, reader.boolean()?);
        let lock = Lock::read(reader)?;
        self.is_reclaim = reader.boolean()?;
        let start = reader.u32()?;
        let found = self
            .find(lock.handle, is_exclusive)
            .map_err(|failed| self.too_late(failed));
        Ok(found.and_then(|target| {
            let span = lock.span(is_exclusive)?;
            let requested_lock = self.requested_lock(&lock, target.file, span, start, cookie)?;
            let Some(requested_lock) = requested_lock else {
                return Ok(Stat::GRANTED);
            };
            let locked =
                self.service
                    .lock_for_host(&requested_lock, &target.files, self.caller.now_ms);
            match locked {
                Ok(()) => Ok(Stat::GRANTED),
                Err(NoHostLock::Denied(_)) if waits => {
                    self.service.state().wait(requested_lock);
                    Ok(Stat::BLOCKED)
                }
                Err(no) => Err(no.into()),
            }
        }))
    }

    /// A late reclaim is denied, because a retry cannot succeed after the grace period.
    fn too_late(&self, failed: Failed) -> Failed {
        let is_late = || !self.service.state().is_grace(self.caller.now_ms);
        match failed {
            Failed::With(Stat::GRACE) if self.is_reclaim && is_late() => Stat::DENIED.into(),
            failed => failed,
        }
    }

    /// Returns the requested lock of a host that may lock; `None` if it already holds the range.
    fn requested_lock(
        &self,
        lock: &Lock<'_>,
        file: Handle,
        span: Span,
        start: u32,
        cookie: &[u8],
    ) -> Result<Option<LockRequest>, Stat> {
        let now_ms = self.caller.now_ms;
        let way = self.caller.way();
        let mut state = self.service.state();
        let host = state
            .host(way, lock.host, Some(start), now_ms)
            .map_err(|_| Stat::NO_LOCKS)?;
        if state.has_range(host, &lock.owner, file, span) {
            return Ok(None);
        }
        let refused = if self.is_reclaim {
            Stat::DENIED
        } else {
            Stat::GRACE
        };
        state
            .may_lock(host, self.is_reclaim, now_ms)
            .map_err(|_| refused)?;
        Ok(Some(LockRequest {
            host,
            owner: lock.owner.clone(),
            file,
            span,
            way,
            cookie: cookie.to_vec(),
            lock: lock.bytes.to_vec(),
        }))
    }

    fn cancel(&mut self, reader: &mut Reader<'_>) -> Result<Result<Stat, Failed>, Malformed> {
        let (_waits, is_exclusive) = (reader.boolean()?, reader.boolean()?);
        let lock = Lock::read(reader)?;
        let whose = (lock.host, lock.handle);
        Ok(self.give_back(whose, |state, host, file| {
            let span = lock.span(is_exclusive)?;
            match state.cancel(host, &lock.owner, file, span) {
                true => Ok(Stat::GRANTED),
                false => Err(Stat::DENIED),
            }
        }))
    }

    fn unlock(&mut self, reader: &mut Reader<'_>) -> Result<Result<Stat, Failed>, Malformed> {
        let lock = Lock::read(reader)?;
        let whose = (lock.host, lock.handle);
        Ok(self.give_back(whose, |state, host, file| {
            let span = lock.span(false)?;
            let unlocked = state.unlock_for_host(host, &lock.owner, file, span);
            unlocked.map(|()| Stat::GRANTED).map_err(|_| Stat::NO_LOCKS)
        }))
    }

    fn share(&mut self, reader: &mut Reader<'_>) -> Result<Result<Stat, Failed>, Malformed> {
        let arguments = ShareArguments::read(reader)?;
        self.is_reclaim = reader.boolean()?;
        let found = self
            .find(
                arguments.handle,
                arguments.access & WRITE != 0 || arguments.deny != 0,
            )
            .map_err(|failed| self.too_late(failed));
        Ok(found.and_then(|target| {
            // A share without access and denial has no effect but occupies a slot.
            if (arguments.access, arguments.deny) == (0, 0) {
                return Err(Stat::FAILED.into());
            }
            let now_ms = self.caller.now_ms;
            let way = self.caller.way();
            // This call carries no NSM state.
            let host = self.service.state().host(way, arguments.host, None, now_ms);
            let share = HostShare {
                host: host.map_err(|_| Stat::NO_LOCKS)?,
                owner: arguments.owner,
                file: target.file,
                mode: (arguments.access, arguments.deny),
                is_reclaim: self.is_reclaim,
            };
            let shared = self.service.share_for_host(&share, &target.files, now_ms);
            match shared {
                Ok(()) => Ok(Stat::GRANTED),
                Err(NoHostLock::Grace) if self.is_reclaim => Err(Stat::DENIED.into()),
                Err(no) => Err(no.into()),
            }
        }))
    }

    fn unshare(&mut self, reader: &mut Reader<'_>) -> Result<Result<Stat, Failed>, Malformed> {
        let share = ShareArguments::read(reader)?;
        let whose = (share.host, share.handle);
        Ok(self.give_back(whose, |state, host, file| {
            state.unshare_for_host(host, share.owner, file);
            Ok(Stat::GRANTED)
        }))
    }

    /// Releases state of a known host. A host without state has nothing to release.
    fn give_back(
        &self,
        (host, handle): (&[u8], &[u8]),
        give: impl FnOnce(&mut crate::v4::State, u64, Handle) -> Result<Stat, Stat>,
    ) -> Result<Stat, Failed> {
        // The handle names state of the same host. The file may no longer be shared.
        let file = unverified(handle).map_err(|_| Stat::STALE)?;
        let mut state = self.service.state();
        let Some(host) = state.known_host(self.caller.from.address, host) else {
            return Ok(Stat::GRANTED);
        };
        give(&mut state, host, file).map_err(Failed::With)
    }

    /// Returns the file of a lock, if the caller may lock it. As in Linux, a caller may lock a file
    /// that it may read or write or owns. An exclusive lock requires a writable export.
    fn find(&mut self, handle: &[u8], is_exclusive: bool) -> Result<Target, Failed> {
        let found = self.exports.found(handle, self.caller.now_ms);
        let place = found.map_err(|none| match none {
            InvalidHandle::Bad | InvalidHandle::Stale => Stat::STALE,
            InvalidHandle::Pending => Stat::GRACE,
        })?;
        let export = self.exports.export(place.export);
        let access = export.access(&self.caller.from).ok_or(Stat::FAILED)?;
        // Locks and shares have no lease. An unauthenticated host could lock out all other hosts
        // permanently.
        if !export.takes(self.caller.from.security) {
            return Err(Stat::NO_LOCKS.into());
        }
        if is_exclusive && (access != Access::ReadWrite || place.is_fixed()) {
            return Err(Stat::ROFS.into());
        }
        let who = export.identity(self.caller.credential);
        let attributes = export.files.attributes(place.node)?;
        if attributes.kind != Kind::File {
            return Err(Stat::FAILED.into());
        }
        let may = export.files.permissions(&who, place.node)?;
        if !(may.read || may.write || may.append || attributes.uid == who.uid) {
            return Err(Stat::FAILED.into());
        }
        self.used = export.used(Transferred::default());
        Ok(Target {
            file: self.exports.handle(place),
            files: Arc::clone(&export.files),
        })
    }
}
