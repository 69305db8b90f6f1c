//! NFS 3 (RFC 1813) and the protocol by which its clients find the first handle (MOUNT 3, appendix I there). No sockets, no clock: the arguments
//! of a procedure in, its result out. Locks of this version are protocols of their own ([`locks`](crate::locks)).

mod answers;
mod attributes;
mod contents;
mod listing;
mod mount;
mod names;

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use file_system::{Done, FileError, FileSystem, Identity, Node, Receipt};

use crate::activity::{Moved, Used};
use crate::exports::{Exports, NoPlace, Place};
use crate::sharenfs::Access;
use crate::v4::{Caller, Service, Unanswered};
use crate::xdr::{Malformed, Reader, Writer};
use answers::{Answers, Seen};

pub use mount::PROGRAM as MOUNT_PROGRAM;

/// The version, of both.
pub const VERSION: u32 = 3;
/// Bytes of a handle that the protocol allows.
const HANDLE_BYTES_MAX: usize = 64;
/// Bytes of a name, of a path, and of where a link leads, that are read.
const NAME_BYTES_MAX: usize = 4096;
/// Bytes of one read or write.
const PAYLOAD_BYTES_MAX: u32 = 1 << 20;
/// Bytes of a call that tell it from others.
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

/// Why a procedure has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    /// It is answered with this.
    With(Status),
    /// It cannot be read.
    Malformed,
    /// The pool is lost.
    Gone,
    /// The call says in a way who makes it that is not taken there.
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

type Answered<T = ()> = Result<T, Failed>;

/// What the server remembers of this version: the last answers to calls that cannot be executed twice.
#[derive(Default)]
pub struct Memory(Mutex<Answers>);

impl Memory {
    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().expect("no holder panics")
    }
}

/// A procedure under way.
struct Call<'a> {
    service: &'a Service,
    caller: &'a Caller<'a>,
    exports: Arc<Exports>,
    /// The export that it went to last.
    entered: usize,
    moved: Moved,
    /// Of a change that must not be made twice.
    receipt: Option<Receipt>,
    /// The object of its first handle, where the call may use it.
    changing: Option<Place>,
}

/// An object, and what the caller may do with its file system.
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

    /// The same file system, for changes.
    fn may_change(&self) -> Answered {
        match self.access {
            Access::ReadWrite if !self.place.is_fixed() => Ok(()),
            _ => Err(Status::ROFS.into()),
        }
    }

    /// Has what was changed before durable, with the contents of a file if one is named.
    fn commit(&self, contents: Option<Node>) -> Done {
        self.files.commit(contents)
    }
}

/// The procedures whose results have no attributes if they fail, and those that have some: how many words stand for none.
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

/// Numbers of procedures (RFC 1813, 3.3).
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

/// Whether it changes names or attributes, so that a second execution would be answered otherwise.
const fn is_once(number: u32) -> bool {
    matches!(
        number,
        procedure::SETATTR | procedure::CREATE..=procedure::LINK
    )
}

/// Whether NFS has a procedure of that number.
pub const fn is_procedure(number: u32) -> bool {
    number <= procedure::COMMIT
}

/// As [`takes_long`](crate::v4::takes_long), of a procedure of this version.
pub fn takes_long(number: u32, arguments: &[u8]) -> Option<u32> {
    let reader = &mut Reader::new(arguments);
    match number {
        procedure::READ => contents::long_read(reader).ok()?,
        procedure::WRITE => contents::is_stable(reader).ok()?.then_some(0),
        procedure::COMMIT => Some(0),
        other => is_once(other).then_some(0),
    }
}

/// Appends the result of a procedure of NFS to `out`.
///
/// # Errors
///
/// There is no answer.
pub fn execute(
    service: &Service,
    memory: &Memory,
    number: u32,
    arguments: &[u8],
    caller: &Caller<'_>,
    out: &mut Writer,
) -> Result<Used, Unanswered> {
    if number == procedure::NULL {
        return Ok(Used::default());
    }
    let start = out.len();
    let once = is_once(number).then(|| key(number, arguments, caller));
    if let Some(key) = once {
        match memory.answers().begin(key, caller.now_ms) {
            Seen::Never => {}
            Seen::Answered(bytes) => {
                out.append(&bytes);
                return Ok(Used::default());
            }
            // Whoever asks again before the answer asks once more after it, by another connection.
            Seen::UnderWay => return Err(Unanswered::Gone),
        }
    }
    let mut call = Call {
        service,
        caller,
        exports: service.exports(),
        entered: 0,
        moved: Moved::default(),
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
        memory.answers().end(key, bytes);
    }
    call.moved.has_failed = matches!(executed, Err(Failed::With(Status::IO)));
    match executed {
        Err(Failed::Malformed) => Err(Unanswered::Malformed),
        Err(Failed::Gone) => Err(Unanswered::Gone),
        Err(Failed::TooWeak) => Err(Unanswered::TooWeak),
        _ => Ok(call.used()),
    }
}

/// Appends the result of a procedure of MOUNT.
///
/// # Errors
///
/// There is no answer.
pub fn mount(
    service: &Service,
    number: u32,
    arguments: &[u8],
    caller: &Caller<'_>,
    out: &mut Writer,
) -> Result<Used, Unanswered> {
    let mut call = Call {
        service,
        caller,
        exports: service.exports(),
        entered: 0,
        moved: Moved::default(),
        receipt: None,
        changing: None,
    };
    match call.mount(number, &mut Reader::new(arguments), out) {
        Err(Failed::Gone) => Err(Unanswered::Gone),
        Err(_) => Err(Unanswered::Malformed),
        Ok(()) => Ok(call.used()),
    }
}

/// Whether MOUNT has a procedure of that number.
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
    /// Makes a change that must not be made twice; nothing if an earlier server has made it. What it is refused for is durable: a client that
    /// asks a second time takes that for its own change.
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

    /// What follows the status of a refused call. What the call would have changed is returned as it is now, so that a client that was late
    /// forgets what it knew (RFC 1813, 2.6).
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

    fn used(&self) -> Used {
        match self.entered {
            0 => Used::default(),
            entered => self.exports.export(entered).used(self.moved),
        }
    }

    /// Goes to an object, if the client may use its file system.
    fn enter(&mut self, place: Place) -> Answered<At> {
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

    /// The object of the handle in the arguments.
    fn at(&mut self, reader: &mut Reader<'_>) -> Answered<At> {
        let bytes = reader.opaque(HANDLE_BYTES_MAX)?;
        let found = self.exports.found(bytes, self.caller.now_ms);
        let place = found.map_err(|none| match none {
            NoPlace::Bad => Status::BADHANDLE,
            NoPlace::Stale => Status::STALE,
            NoPlace::NotYet => Status::JUKEBOX,
        })?;
        self.enter(place)
    }

    /// Whether a call may say so who makes it. A client finds out with numbers where it mounts (RFC 2623, 2.3.2).
    fn check_security(&self, at: &At, number: u32) -> Answered {
        let export = self.exports.export(at.place.export);
        let is_root = at.place.node == export.root();
        let mounts = is_root && matches!(number, procedure::GETATTR | procedure::FSINFO);
        match mounts || export.takes(self.caller.from.security) {
            true => Ok(()),
            false => Err(Failed::TooWeak),
        }
    }

    fn execute(&mut self, number: u32, reader: &mut Reader<'_>, out: &mut Writer) -> Answered {
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
