//! NFS 3 (RFC 1813) and MOUNT 3 (appendix I), with which clients obtain the first filehandle. No
//! sockets, no clock: converts the arguments of a procedure to its result. Locks of this version
//! are separate protocols ([`locks`](crate::locks)).

mod attributes;
mod contents;
mod listing;
mod mount;
mod names;
mod replies;

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use file_system::{Done, FileError, FileSystem, Identity, Node, Receipt};

use crate::activity::{ExportUsage, Transferred};
use crate::exports::{Exports, InvalidHandle, Place};
use crate::sharenfs::Access;
use crate::v4::{Caller, NoReply, Service};
use crate::xdr::{Malformed, Reader, Writer};
use replies::{CallState, ReplyCache};

pub use mount::PROGRAM as MOUNT_PROGRAM;

/// The version of both.
pub const VERSION: u32 = 3;
/// Maximum bytes of a filehandle.
const HANDLE_BYTES_MAX: usize = 64;
/// Maximum bytes of a name, a path and a link target.
const NAME_BYTES_MAX: usize = 4096;
/// Bytes of one read or write.
const PAYLOAD_BYTES_MAX: u32 = 1 << 20;
/// Bytes of a call that its fingerprint covers.
const FINGERPRINT_BYTES: usize = 1024;

/// `nfsstat3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Status(u32);

impl Status {
    const OK: Self = Self(0);
    const NOENT: Self = Self(2);
    const IO: Self = Self(5);
    const ACCES: Self = Self(13);
    const EXIST: Self = Self(17);
    const XDEV: Self = Self(18);
    const NOTDIR: Self = Self(20);
    const ISDIR: Self = Self(21);
    const INVAL: Self = Self(22);
    const ROFS: Self = Self(30);
    const STALE: Self = Self(70);
    const BADHANDLE: Self = Self(10_001);
    const BAD_COOKIE: Self = Self(10_003);
    const NOTSUPP: Self = Self(10_004);
    const TOOSMALL: Self = Self(10_005);
    const SERVERFAULT: Self = Self(10_006);
    const BADTYPE: Self = Self(10_007);
    const JUKEBOX: Self = Self(10_008);
}

/// Why a procedure returns no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    /// The reply has this status.
    With(Status),
    /// It cannot be decoded.
    Malformed,
    /// The pool is lost.
    Gone,
    /// The security flavor of the call is not accepted there.
    TooWeak,
}

impl From<Status> for Failed {
    fn from(status: Status) -> Self {
        Self::With(status)
    }
}

impl From<Malformed> for Failed {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl From<FileError> for Failed {
    fn from(error: FileError) -> Self {
        Self::With(Status(match error {
            FileError::Gone => return Self::Gone,
            FileError::NotPermitted => 1,
            FileError::NotFound => 2,
            FileError::Io => 5,
            FileError::BeyondEnd => 6,
            FileError::Access => 13,
            FileError::Exists => 17,
            FileError::NotDirectory => 20,
            FileError::IsDirectory => 21,
            FileError::Invalid | FileError::BadName | FileError::WrongType => 22,
            FileError::TooLarge => 27,
            FileError::NoSpace => 28,
            FileError::ReadOnly => 30,
            FileError::TooManyLinks => 31,
            FileError::OtherProject => 18,
            FileError::NameTooLong => 63,
            FileError::NotEmpty => 66,
            FileError::Quota => 69,
            FileError::Stale => 70,
            FileError::NotSame => 10_002,
            FileError::BadCookie => 10_003,
            FileError::Unsupported | FileError::NoExtended => 10_004,
            FileError::NotReady => 10_008,
        }))
    }
}

type Replied<T = ()> = Result<T, Failed>;

/// State of this version: the reply cache of non-idempotent calls.
#[derive(Default)]
pub struct Memory(Mutex<ReplyCache>);

impl Memory {
    fn replies(&self) -> MutexGuard<'_, ReplyCache> {
        self.0.lock().expect("no holder panics")
    }
}

/// A procedure in progress.
struct Call<'a> {
    service: &'a Service,
    caller: &'a Caller<'a>,
    exports: Arc<Exports>,
    /// The last export of the call.
    entered: usize,
    moved: Transferred,
    /// The receipt of a non-idempotent change.
    receipt: Option<Receipt>,
    /// The object of the first filehandle, if the call may use it.
    changing: Option<Place>,
}

/// An object, and the caller's access to its file system.
struct At {
    place: Place,
    files: Arc<dyn FileSystem>,
    access: Access,
    who: Identity,
}

impl At {
    fn node(&self) -> Node {
        self.place.node
    }

    /// Checks that the file system is writable.
    fn may_change(&self) -> Replied {
        match self.access {
            Access::ReadWrite if !self.place.is_fixed() => Ok(()),
            _ => Err(Status::ROFS.into()),
        }
    }

    /// Commits earlier changes, with the contents of a file if `contents` is set.
    fn commit(&self, contents: Option<Node>) -> Done {
        self.files.commit(contents)
    }
}

/// The number of zero words in place of the attributes of a failed procedure.
const fn words_of_failure(procedure: u32) -> u32 {
    match procedure {
        procedure::GETATTR => 0,
        procedure::RENAME => 4,
        procedure::LINK => 3,
        procedure::SETATTR
        | procedure::WRITE
        | procedure::CREATE
        | procedure::MKDIR
        | procedure::SYMLINK
        | procedure::MKNOD
        | procedure::REMOVE
        | procedure::RMDIR
        | procedure::COMMIT => 2,
        _ => 1,
    }
}

/// Procedure numbers (RFC 1813, 3.3).
mod procedure {
    pub const NULL: u32 = 0;
    pub const GETATTR: u32 = 1;
    pub const SETATTR: u32 = 2;
    pub const LOOKUP: u32 = 3;
    pub const ACCESS: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const READ: u32 = 6;
    pub const WRITE: u32 = 7;
    pub const CREATE: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const SYMLINK: u32 = 10;
    pub const MKNOD: u32 = 11;
    pub const REMOVE: u32 = 12;
    pub const RMDIR: u32 = 13;
    pub const RENAME: u32 = 14;
    pub const LINK: u32 = 15;
    pub const READDIR: u32 = 16;
    pub const READDIRPLUS: u32 = 17;
    pub const FSSTAT: u32 = 18;
    pub const FSINFO: u32 = 19;
    pub const PATHCONF: u32 = 20;
    pub const COMMIT: u32 = 21;
}

/// Whether the procedure is not idempotent.
const fn is_once(number: u32) -> bool {
    matches!(
        number,
        procedure::SETATTR | procedure::CREATE..=procedure::LINK
    )
}

/// Whether NFS has this procedure.
pub const fn is_procedure(number: u32) -> bool {
    number <= procedure::COMMIT
}

/// Like [`slow_payload`](crate::v4::slow_payload), for this version.
pub fn slow_payload(number: u32, arguments: &[u8]) -> Option<u32> {
    let reader = &mut Reader::new(arguments);
    match number {
        procedure::READ => contents::long_read(reader).ok()?,
        procedure::WRITE => contents::is_stable(reader).ok()?.then_some(0),
        procedure::COMMIT => Some(0),
        other => is_once(other).then_some(0),
    }
}

/// Appends the result of an NFS procedure to `out`.
///
/// # Errors
///
/// There is no reply.
pub fn execute(
    service: &Service,
    memory: &Memory,
    number: u32,
    arguments: &[u8],
    caller: &Caller<'_>,
    out: &mut Writer,
) -> Result<ExportUsage, NoReply> {
    if number == procedure::NULL {
        return Ok(ExportUsage::default());
    }
    let start = out.len();
    let once = is_once(number).then(|| key(number, arguments, caller));
    if let Some(key) = once {
        match memory.replies().begin(key, caller.now_ms) {
            CallState::New => {}
            CallState::Replied(bytes) => {
                out.append(&bytes);
                return Ok(ExportUsage::default());
            }
            // A retry before the reply drops the connection. The client then retries over another
            // one.
            CallState::InProgress => return Err(NoReply::Gone),
        }
    }
    let mut call = Call {
        service,
        caller,
        exports: service.exports(),
        entered: 0,
        moved: Transferred::default(),
        receipt: once.map(|key| caller.receipt(key, 0)),
        changing: None,
    };
    out.u32(Status::OK.0);
    let executed = call.execute(number, &mut Reader::new(arguments), out);
    if let Err(failed) = executed {
        out.truncate(start);
        if let Failed::With(status) = failed {
            out.u32(status.0);
            call.write_failure(number, out);
        }
    }
    if let Some(key) = once {
        let kept = matches!(executed, Ok(()) | Err(Failed::With(_)));
        let bytes = kept.then(|| out.bytes()[start..].to_vec());
        memory.replies().end(key, bytes);
    }
    call.moved.has_failed = matches!(executed, Err(Failed::With(Status::IO)));
    match executed {
        Err(Failed::Malformed) => Err(NoReply::Malformed),
        Err(Failed::Gone) => Err(NoReply::Gone),
        Err(Failed::TooWeak) => Err(NoReply::TooWeak),
        _ => Ok(call.used()),
    }
}

/// Appends the result of a MOUNT procedure.
///
/// # Errors
///
/// There is no reply.
pub fn mount(
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
        entered: 0,
        moved: Transferred::default(),
        receipt: None,
        changing: None,
    };
    match call.mount(number, &mut Reader::new(arguments), out) {
        Err(Failed::Gone) => Err(NoReply::Gone),
        Err(_) => Err(NoReply::Malformed),
        Ok(()) => Ok(call.used()),
    }
}

/// Whether MOUNT has this procedure.
pub const fn is_mount_procedure(number: u32) -> bool {
    number <= mount::EXPORT
}

fn key(number: u32, arguments: &[u8], caller: &Caller<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let told_apart = &arguments[..arguments.len().min(FINGERPRINT_BYTES)];
    (number, caller.transaction, told_apart, arguments.len()).hash(&mut hasher);
    (caller.credential, caller.from.address).hash(&mut hasher);
    hasher.finish()
}

impl Call<'_> {
    /// Applies a non-idempotent change. Does nothing if an earlier server has applied it. A refusal
    /// is also committed, because a client that retries mistakes it for the result of its own
    /// change.
    fn once<T>(
        &self,
        at: &At,
        change: impl FnOnce(&dyn FileSystem, Option<&Receipt>) -> Done<T>,
    ) -> Done<Option<T>> {
        let receipt = self.receipt.as_ref();
        let now_ms = self.caller.now_ms;
        let is_done = receipt.is_some_and(|receipt| {
            at.files.receipt(&receipt.place).as_ref() == Some(receipt)
                && self.service.is_repeated(receipt, now_ms)
        });
        if let (Some(receipt), false) = (receipt, is_done) {
            self.service.executes(receipt, now_ms);
        }
        match is_done {
            true => Ok(None),
            false => match change(&*at.files, receipt) {
                Err(refusal @ (FileError::NotFound | FileError::Exists)) => {
                    at.commit(None)?;
                    Err(refusal)
                }
                changed => changed.map(Some),
            },
        }
    }

    /// Writes the results of a refused call. The current attributes of its object are returned, so
    /// that the client invalidates stale ones (RFC 1813, 2.6).
    fn write_failure(&self, number: u32, out: &mut Writer) {
        let words = words_of_failure(number);
        match self.changing {
            // `wcc_data`.
            Some(place) if words == 2 => {
                out.boolean(false);
                let files = &self.exports.export(place.export).files;
                match files.attributes(place.node) {
                    Ok(attributes) => self.write_after(place, &attributes, out),
                    Err(_) => out.boolean(false),
                }
            }
            _ => (0..words).for_each(|_| out.boolean(false)),
        }
    }

    fn used(&self) -> ExportUsage {
        match self.entered {
            0 => ExportUsage::default(),
            entered => self.exports.export(entered).used(self.moved),
        }
    }

    /// Returns an object, if the client may use its file system.
    fn enter(&mut self, place: Place) -> Replied<At> {
        let export = self.exports.export(place.export);
        let access = export.access(&self.caller.from).ok_or(Status::ACCES)?;
        self.entered = place.export;
        Ok(At {
            place,
            files: Arc::clone(&export.files),
            access,
            who: export.identity(self.caller.credential),
        })
    }

    /// Reads a filehandle from the arguments.
    fn at(&mut self, reader: &mut Reader<'_>) -> Replied<At> {
        let bytes = reader.opaque(HANDLE_BYTES_MAX)?;
        let found = self.exports.found(bytes, self.caller.now_ms);
        let place = found.map_err(|none| match none {
            InvalidHandle::Bad => Status::BADHANDLE,
            InvalidHandle::Stale => Status::STALE,
            InvalidHandle::Pending => Status::JUKEBOX,
        })?;
        self.enter(place)
    }

    /// Checks the security flavor of a call. A client discovers the flavors with AUTH_SYS during
    /// the mount (RFC 2623, 2.3.2).
    fn check_security(&self, at: &At, number: u32) -> Replied {
        let export = self.exports.export(at.place.export);
        let is_root = at.place.node == export.root();
        let mounts = is_root && matches!(number, procedure::GETATTR | procedure::FSINFO);
        match mounts || export.takes(self.caller.from.security) {
            true => Ok(()),
            false => Err(Failed::TooWeak),
        }
    }

    fn execute(&mut self, number: u32, reader: &mut Reader<'_>, out: &mut Writer) -> Replied {
        let at = self.at(reader)?;
        self.check_security(&at, number)?;
        self.changing = Some(at.place);
        match number {
            procedure::GETATTR => self.get_attributes(&at, out),
            procedure::SETATTR => self.set_attributes(&at, reader, out),
            procedure::LOOKUP => self.look_up(&at, reader, out),
            procedure::ACCESS => self.access(&at, reader, out),
            procedure::READLINK => self.read_link(&at, out),
            procedure::READ => self.read(&at, reader, out),
            procedure::WRITE => self.write(&at, reader, out),
            procedure::CREATE => self.create(&at, reader, out),
            procedure::MKDIR => self.make_directory(&at, reader, out),
            procedure::SYMLINK => self.make_link(&at, reader, out),
            procedure::MKNOD => self.make_special(&at, reader, out),
            procedure::REMOVE => self.remove(&at, reader, false, out),
            procedure::RMDIR => self.remove(&at, reader, true, out),
            procedure::RENAME => self.rename(&at, reader, out),
            procedure::LINK => self.link(&at, reader, out),
            procedure::READDIR => self.list(&at, reader, false, out),
            procedure::READDIRPLUS => self.list(&at, reader, true, out),
            procedure::FSSTAT => self.statistics(&at, out),
            procedure::FSINFO => self.limits(&at, out),
            procedure::PATHCONF => self.path_limits(&at, out),
            procedure::COMMIT => self.commit(&at, reader, out),
            _ => Err(Status::NOTSUPP.into()),
        }
    }
}
