//! Translates FUSE requests to calls of a file system.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use file_system::{
    Content, Done, FileError, FileSystem, Guard, Identity, Kind, Make, Node, Object, Removable,
    SetAttributes, SetExtended,
};
use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, FileType as SystemType, OFlags, XattrFlags};

use crate::convert::{BLOCK_BYTES, attributes, errno, file_type, set_time};
use crate::identity::{self, ROOT};
use crate::nodes::Nodes;

/// Maximum bytes of a write and of a read.
const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// The kernel caches no names, because it would not check permissions again.
const NAME_TTL: Duration = Duration::ZERO;
/// The kernel caches attributes this long. The space of a file is known only after its blocks are
/// written.
const ATTRIBUTE_TTL: Duration = Duration::from_secs(1);
/// Mode bits that a write clears without the kernel's knowledge.
const SET_ID: u32 = 0o6000;
/// The file is opened for execution (`FMODE_EXEC` of Linux).
const OPEN_FOR_EXEC: i32 = 0x20;
/// Directory entries that are read at a time.
const ENTRIES_MAX: usize = 128;
/// The cookies of `.` and `..`.
const COOKIE_OWN: u64 = 1;
const COOKIE_PARENT: u64 = 2;
/// Prefix of the extended attributes of users.
const USER: &[u8] = b"user.";
/// `lseek(2)`
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// Connects the kernel and a file system.
pub(crate) struct Adapter {
    files: Arc<dyn FileSystem>,
    nodes: Nodes,
}

/// Sends the reply, or the error.
macro_rules! answer {
    ($done:expr, $reply:ident, $with:expr) => {
        match $done {
            Ok(done) => $with(done),
            Err(error) => $reply.error(errno(error)),
        }
    };
}

fn attribute_ttl(known: &FileAttr) -> Duration {
    match u32::from(known.perm) & SET_ID {
        0 => ATTRIBUTE_TTL,
        _ => Duration::ZERO,
    }
}

fn reply_entry(reply: ReplyEntry, (known, generation): (FileAttr, Generation)) {
    reply.entry_with_ttls(&attribute_ttl(&known), &NAME_TTL, &known, generation);
}

fn with_mode(mode: u32) -> SetAttributes {
    SetAttributes {
        mode: Some(mode & 0o7777),
        ..SetAttributes::default()
    }
}

fn user_name(name: &OsStr) -> Done<&[u8]> {
    let name = name.as_bytes().strip_prefix(USER);
    name.ok_or(FileError::Unsupported)
}

/// Sends the value of an extended attribute, or the list of names. Without room only its size is
/// sent.
fn sized(value: Done<Vec<u8>>, room: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if room == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() <= room as usize => reply.data(&value),
        Ok(_) => reply.error(Errno::ERANGE),
        Err(error) => reply.error(errno(error)),
    }
}

impl Adapter {
    pub fn new(files: Arc<dyn FileSystem>) -> Self {
        Self {
            files,
            nodes: Nodes::default(),
        }
    }

    fn node(&self, number: INodeNo) -> Done<Node> {
        self.nodes.find(&*self.files, number)
    }

    /// Returns the attributes of an object that the kernel may use from then on.
    fn entry(&self, object: &Object) -> Done<(FileAttr, Generation)> {
        self.nodes.add_reference(&*self.files, object.node)?;
        let known = attributes(object.node.object, &object.attributes);
        Ok((known, Generation(object.node.generation)))
    }

    fn look_up(&self, request: &Request, parent: INodeNo, name: &OsStr) -> Done<Object> {
        let who = identity::of(request)?;
        let parent = self.node(parent)?;
        self.files.look_up(&who, parent, name.as_bytes())
    }

    fn make(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        what: Make<'_>,
        wanted: &SetAttributes,
    ) -> Done<(FileAttr, Generation)> {
        let who = identity::of(request)?;
        let parent = self.node(parent)?;
        let name = name.as_bytes();
        let made = self.files.make(&who, parent, name, what, wanted, None)?;
        self.entry(&made.object)
    }

    fn remove(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        what: Removable,
    ) -> Done {
        let who = identity::of(request)?;
        let parent = self.node(parent)?;
        let removed = self.files.remove(&who, parent, name.as_bytes(), what, None);
        removed.map(drop)
    }

    /// A file that is open for writing may be truncated regardless of its mode. Otherwise write
    /// permission is required, also for the owner.
    fn set(
        &self,
        request: &Request,
        number: INodeNo,
        wanted: &SetAttributes,
        is_open: bool,
    ) -> Done<FileAttr> {
        let node = self.node(number)?;
        let only_size = SetAttributes {
            size: wanted.size,
            ..SetAttributes::default()
        };
        let who = match is_open && *wanted == only_size {
            true => ROOT,
            false => identity::of(request)?,
        };
        if wanted.size.is_some() && !self.files.permissions(&who, node)?.write {
            return Err(FileError::Access);
        }
        let guard = Guard::default();
        let changed = self
            .files
            .set_attributes(&who, node, wanted, &guard, None)?;
        Ok(attributes(node.object, &changed.after))
    }

    fn rename(
        &self,
        who: &Identity,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Done {
        if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
            return Err(FileError::Invalid);
        }
        let from = (self.node(from.0)?, from.1.as_bytes());
        let to = (self.node(to.0)?, to.1.as_bytes());
        if flags.contains(RenameFlags::RENAME_NOREPLACE) {
            match self.files.look_up(who, to.0, to.1) {
                Err(FileError::NotFound) => {}
                Ok(_) => return Err(FileError::Exists),
                Err(error) => return Err(error),
            }
        }
        self.files.rename(who, from, to, None).map(drop)
    }

    fn link(
        &self,
        request: &Request,
        number: INodeNo,
        (parent, name): (INodeNo, &OsStr),
    ) -> Done<(FileAttr, Generation)> {
        let who = identity::of(request)?;
        let (node, parent) = (self.node(number)?, self.node(parent)?);
        self.files.link(&who, node, parent, name.as_bytes(), None)?;
        let attributes = self.files.attributes(node)?;
        self.entry(&Object { node, attributes })
    }

    fn check_open(&self, request: &Request, number: INodeNo, flags: OpenFlags) -> Done {
        let node = self.node(number)?;
        let may = self.files.permissions(&identity::of(request)?, node)?;
        let allowed = match flags.acc_mode() {
            OpenAccMode::O_RDONLY if flags.0 & OPEN_FOR_EXEC != 0 => may.execute,
            OpenAccMode::O_RDONLY => may.read,
            OpenAccMode::O_WRONLY => may.write,
            OpenAccMode::O_RDWR => may.read && may.write,
        };
        match allowed {
            true => Ok(()),
            false => Err(FileError::Access),
        }
    }

    fn check_access(&self, request: &Request, number: INodeNo, wanted: AccessFlags) -> Done {
        let node = self.node(number)?;
        let may = self.files.permissions(&identity::of(request)?, node)?;
        let is_refused = |flag, may: bool| wanted.contains(flag) && !may;
        if is_refused(AccessFlags::W_OK, !self.files.limits().is_read_only) {
            return Err(FileError::ReadOnly);
        }
        let refused = is_refused(AccessFlags::R_OK, may.read)
            || is_refused(AccessFlags::W_OK, may.write)
            || is_refused(AccessFlags::X_OK, may.execute);
        match refused {
            true => Err(FileError::Access),
            false => Ok(()),
        }
    }

    fn read(&self, number: INodeNo, offset: u64, length: u32) -> Done<Vec<u8>> {
        let node = self.node(number)?;
        let mut bytes = vec![0; length.min(TRANSFER_BYTES_MAX) as usize];
        let read = self.files.read(node, offset, &mut bytes)?;
        bytes.truncate(read.length);
        Ok(bytes)
    }

    fn write(&self, number: INodeNo, offset: u64, bytes: &[u8], flags: OpenFlags) -> Done<u32> {
        let node = self.node(number)?;
        self.files.write(node, offset, bytes)?;
        let flags = OFlags::from_bits_retain(flags.0 as u32);
        // `O_SYNC` includes `O_DSYNC`, and the commit covers both.
        if flags.contains(OFlags::DSYNC) {
            self.files.commit(Some(node))?;
        }
        Ok(bytes.len() as u32)
    }

    fn commit(&self, number: INodeNo) -> Done {
        self.files.commit(Some(self.node(number)?))
    }

    /// Adds entries after `cookie` until the directory or the buffer is exhausted. Permissions were
    /// checked at the open: another process with other permissions may continue the listing.
    fn list(&self, number: INodeNo, mut cookie: u64, reply: &mut ReplyDirectory) -> Done {
        let node = self.node(number)?;
        let mut add = |object, cookie, kind, name: &[u8]| {
            let (number, name) = (INodeNo(object), OsStr::from_bytes(name));
            reply.add(number, cookie, file_type(kind), name)
        };
        if cookie < COOKIE_OWN && add(node.object, COOKIE_OWN, Kind::Directory, b".") {
            return Ok(());
        }
        if cookie < COOKIE_PARENT {
            // A removed directory has no parent.
            let parent = self.files.parent(&ROOT, node).unwrap_or(node);
            if add(parent.object, COOKIE_PARENT, Kind::Directory, b"..") {
                return Ok(());
            }
            cookie = 0;
        }
        if cookie == COOKIE_PARENT {
            cookie = 0;
        }
        loop {
            let mut entries = Vec::new();
            let is_end = self
                .files
                .read_directory(&ROOT, node, cookie, &mut |entry| {
                    let has_room = entries.len() < ENTRIES_MAX;
                    if has_room {
                        entries.push((entry.name.to_vec(), entry.object, entry.cookie));
                    }
                    has_room
                })?;
            for (name, object, next) in entries {
                cookie = next;
                let kind = match self.files.object(node, object) {
                    Ok(found) => found.attributes.kind,
                    // It was removed concurrently.
                    Err(FileError::Stale) => continue,
                    Err(error) => return Err(error),
                };
                if add(object, next, kind, &name) {
                    return Ok(());
                }
            }
            if is_end {
                return Ok(());
            }
        }
    }

    fn names(&self, request: &Request, number: INodeNo) -> Done<Vec<u8>> {
        let (who, node) = (identity::of(request)?, self.node(number)?);
        let names = self.files.extended_names(&who, node)?;
        let with_prefix = names.iter().map(|name| [USER, name, b"\0"].concat());
        Ok(with_prefix.collect::<Vec<_>>().concat())
    }

    fn allocate(&self, number: INodeNo, offset: u64, length: u64, mode: i32) -> Done {
        let node = self.node(number)?;
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match FallocateFlags::from_bits_retain(mode as u32) {
            flags if flags == hole => self.files.deallocate(node, offset, length),
            flags if flags.is_empty() => self.files.allocate(node, offset, length),
            _ => Err(FileError::Unsupported),
        }
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The file system clears set-user-id and set-group-id itself, because the writer may lack
        // permission to change the mode.
        for wanted in [
            InitFlags::FUSE_HANDLE_KILLPRIV,
            InitFlags::FUSE_PARALLEL_DIROPS,
        ] {
            // Older kernels do not support it.
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_write(TRANSFER_BYTES_MAX);
        Ok(())
    }

    fn destroy(&mut self) {
        self.nodes.release_all(&*self.files);
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.look_up(request, parent, name);
        let told = found.and_then(|object| match self.entry(&object) {
            // It was removed concurrently.
            Err(FileError::Stale) => Err(FileError::NotFound),
            told => told,
        });
        answer!(told, reply, |told| reply_entry(reply, told));
    }

    fn forget(&self, _: &Request, number: INodeNo, count: u64) {
        self.nodes.forget(&*self.files, number, count);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let known = self.node(number).and_then(|node| {
            let known = self.files.attributes(node)?;
            Ok(attributes(node.object, &known))
        });
        answer!(known, reply, |known| reply
            .attr(&attribute_ttl(&known), &known));
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let wanted = SetAttributes {
            mode: mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            size,
            accessed: accessed.map(set_time),
            modified: modified.map(set_time),
        };
        let set = self.set(request, number, &wanted, handle.is_some());
        answer!(set, reply, |known| reply
            .attr(&attribute_ttl(&known), &known));
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let text = self
            .node(number)
            .and_then(|node| self.files.read_link(node));
        answer!(text, reply, |text: Vec<u8>| reply.data(&text));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let device = u64::from(device);
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let what = match SystemType::from_raw_mode(mode) {
            SystemType::RegularFile => Make::File,
            SystemType::Fifo => Make::Pipe,
            SystemType::Socket => Make::Socket,
            SystemType::BlockDevice => Make::BlockDevice(major, minor),
            SystemType::CharacterDevice => Make::CharacterDevice(major, minor),
            _ => return reply.error(Errno::EINVAL),
        };
        let made = self.make(request, (parent, name), what, &with_mode(mode));
        answer!(made, reply, |told| reply_entry(reply, told));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let made = self.make(request, (parent, name), Make::Directory, &with_mode(mode));
        answer!(made, reply, |told| reply_entry(reply, told));
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.remove(request, (parent, name), Removable::NoDirectory);
        answer!(removed, reply, |()| reply.ok());
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.remove(request, (parent, name), Removable::Directory);
        answer!(removed, reply, |()| reply.ok());
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        text: &Path,
        reply: ReplyEntry,
    ) {
        let what = Make::Link(text.as_os_str().as_bytes());
        let made = self.make(request, (parent, name), what, &SetAttributes::default());
        answer!(made, reply, |told| reply_entry(reply, told));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = identity::of(request)
            .and_then(|who| self.rename(&who, (parent, name), (new_parent, new_name), flags));
        answer!(renamed, reply, |()| reply.ok());
    }

    fn link(
        &self,
        request: &Request,
        number: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let linked = self.link(request, number, (parent, name));
        answer!(linked, reply, |told| reply_entry(reply, told));
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let checked = self.check_open(request, number, flags);
        answer!(checked, reply, |()| reply
            .opened(FileHandle(0), FopenFlags::empty()));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let made = self.make(request, (parent, name), Make::File, &with_mode(mode));
        answer!(made, reply, |(known, generation)| reply.created(
            &NAME_TTL,
            &known,
            generation,
            FileHandle(0),
            FopenFlags::empty()
        ));
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let bytes = self.read(number, offset, length);
        answer!(bytes, reply, |bytes: Vec<u8>| reply.data(&bytes));
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.write(number, offset, bytes, flags);
        answer!(written, reply, |length| reply.written(length));
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer!(self.commit(number), reply, |()| reply.ok());
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer!(self.commit(number), reply, |()| reply.ok());
    }

    fn opendir(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let checked = self.check_open(request, number, flags);
        answer!(checked, reply, |()| reply
            .opened(FileHandle(0), FopenFlags::empty()));
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        cookie: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.list(number, cookie, &mut reply);
        answer!(listed, reply, |()| reply.ok());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let name_bytes_max = self.files.limits().name_bytes_max;
        answer!(
            self.files.statistics(),
            reply,
            |known: file_system::Statistics| {
                let blocks = |bytes: u64| bytes / u64::from(BLOCK_BYTES);
                reply.statfs(
                    blocks(known.bytes_total),
                    blocks(known.bytes_free),
                    blocks(known.bytes_free),
                    known.files_total,
                    known.files_free,
                    BLOCK_BYTES,
                    name_bytes_max,
                    BLOCK_BYTES,
                );
            }
        );
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let flags = XattrFlags::from_bits_retain(flags as u32);
        let how = if flags.contains(XattrFlags::CREATE) {
            SetExtended::Create
        } else if flags.contains(XattrFlags::REPLACE) {
            SetExtended::Replace
        } else {
            SetExtended::Either
        };
        let set = user_name(name).and_then(|name| {
            let (who, node) = (identity::of(request)?, self.node(number)?);
            let set = self.files.set_extended(&who, node, name, value, how, None);
            set.map(drop)
        });
        answer!(set, reply, |()| reply.ok());
    }

    fn getxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        room: u32,
        reply: ReplyXattr,
    ) {
        let value = user_name(name).and_then(|name| {
            let (who, node) = (identity::of(request)?, self.node(number)?);
            self.files.extended(&who, node, name)
        });
        sized(value, room, reply);
    }

    fn listxattr(&self, request: &Request, number: INodeNo, room: u32, reply: ReplyXattr) {
        sized(self.names(request, number), room, reply);
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = user_name(name).and_then(|name| {
            let (who, node) = (identity::of(request)?, self.node(number)?);
            self.files.remove_extended(&who, node, name, None).map(drop)
        });
        answer!(removed, reply, |()| reply.ok());
    }

    fn access(&self, request: &Request, number: INodeNo, wanted: AccessFlags, reply: ReplyEmpty) {
        answer!(self.check_access(request, number, wanted), reply, |()| {
            reply.ok()
        });
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let done = self.allocate(number, offset, length, mode);
        answer!(done, reply, |()| reply.ok());
    }

    fn lseek(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let content = match whence {
            SEEK_DATA => Content::Data,
            SEEK_HOLE => Content::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else {
            return reply.error(Errno::ENXIO);
        };
        let found = self
            .node(number)
            .and_then(|node| self.files.seek(node, offset, content));
        answer!(found, reply, |at: u64| reply.offset(at as i64));
    }
}
