//! A file system: read operations, and helpers shared by the changes. The changes are in [`crate::changes`] and
//! [`crate::removal`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use block_device::ReadLoan;
use file_system::rights::check_name;
use file_system::{
    Attributes, COOKIE_LAST, Changed, Content, Done, FileError, FileSystem, FileSystemId, Guard,
    Identity, Kind, Limits, Made, Make, Node, Object, Owner, OwnerKind, OwnerSpace, Owners,
    Permissions, Place, Quota, Read, Receipt, Removable, Renamed, SetAttributes, SetExtended,
    Statistics,
};

use file_system::acl::Entry;

use crate::access::{Judged, Reach, Use};
use crate::acl;
use crate::convert::{attributes_of, entry_object, failure, flag};
use crate::holds::{Holds, ToFree};
use crate::later_writes::LaterWrites;
use crate::locks::{Lending, ObjectLocks};
use crate::objects::{Facts, ObjectError, Objects, Outcome, Step, Stored, Text};
use crate::path::path;
use crate::quotas::{Payers, Quotas};
use crate::receipts::Receipts;

/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 255;
/// Names of one object (`ZFS_LINK_MAX` of Linux).
pub const LINKS_MAX: u32 = i32::MAX as u32;
/// Bytes that one transaction writes.
pub const WRITE_BYTES_MAX: usize = 1 << 20;
/// Fewer bytes of contents are copied rather than lent.
const LENT_BYTES_MIN: usize = 16 << 10;
/// Bytes of an atomic write: the log has one record per transaction, and a replay skips an incomplete one.
const ATOMIC_WRITE_BYTES: u32 = WRITE_BYTES_MAX as u32;
/// Bytes of a file.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// Bytes of an access control list, and of a link's target.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 10;
/// The offset between a position in a directory and its cookie: protocols reserve low cookies.
const COOKIE_FIRST: u64 = 16;

/// An open file system; see the crate's description.
pub struct Zpl<O> {
    pub(crate) objects: O,
    facts: Facts,
    root: Node,
    pub(crate) quotas: Quotas,
    /// Held during every change of names. Acquired before the objects' locks.
    names: Mutex<()>,
    receipts: Mutex<Receipts>,
    pub(crate) locks: Arc<ObjectLocks>,
    /// The log is being replayed: its changes were authorised already.
    replaying: AtomicBool,
    later_writes: Mutex<LaterWrites>,
    holds: Mutex<Holds>,
    pub(crate) to_free: Mutex<ToFree>,
    /// Starts the thread that frees the pending objects.
    pub(crate) begins_to_free: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl<O: Objects> Zpl<O> {
    pub(crate) fn new(
        objects: O,
        facts: Facts,
        root: Node,
        quotas: Quotas,
        receipts: Receipts,
    ) -> Self {
        Self {
            objects,
            facts,
            root,
            quotas,
            names: Mutex::new(()),
            receipts: Mutex::new(receipts),
            locks: Arc::new(ObjectLocks::new()),
            replaying: AtomicBool::new(false),
            later_writes: Mutex::default(),
            holds: Mutex::default(),
            to_free: Mutex::default(),
            begins_to_free: OnceLock::new(),
        }
    }

    pub(crate) fn lock_names(&self) -> MutexGuard<'_, ()> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_receipts(&self) -> MutexGuard<'_, Receipts> {
        self.receipts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies steps, as [`Objects::change`], and stores the receipt of their record.
    pub(crate) fn change_once(
        &self,
        steps: Vec<Step<'_>>,
        frees: bool,
        receipt: Option<&Receipt>,
    ) -> Done<Outcome> {
        let Some(receipt) = receipt else {
            return self.objects.change(&steps, frees).map_err(failure);
        };
        let noted = self.lock_receipts().note(&self.objects, receipt);
        let noted = match noted {
            // A change that frees space must not need any, which the first receipt of a file system does.
            Err(ObjectError::NoSpace | ObjectError::Quota) if frees => {
                return self.objects.change(&steps, frees).map_err(failure);
            }
            noted => noted.map_err(failure)?,
        };
        let mut steps = steps;
        steps.push(noted.step());
        let changed = self.objects.change(&steps, frees);
        self.lock_receipts().end(&noted, changed.is_ok());
        changed.map_err(failure)
    }

    pub(crate) fn lock_holds(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_held(&self, object: u64) -> bool {
        self.lock_holds().count(object) > 0
    }

    /// The objects that implement it.
    pub fn objects(&self) -> &O {
        &self.objects
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The later writes in the rest of the log. Empty outside a replay.
    pub(crate) fn lock_later_writes(&self) -> MutexGuard<'_, LaterWrites> {
        let later = self.later_writes.lock();
        later.unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the start or the end of a replay.
    pub(crate) fn set_replaying(&self, is_replaying: bool) {
        self.replaying.store(is_replaying, Ordering::Relaxed);
    }

    pub(crate) fn is_replaying(&self) -> bool {
        self.replaying.load(Ordering::Relaxed)
    }

    /// An object that has a name, or is held. Objects that implement extended attributes are excluded.
    pub(crate) fn live(&self, node: Node) -> Done<Stored> {
        let stored = self.objects.stored(node.object).map_err(failure)?;
        let is_gone = stored.links == 0 && !self.is_held(node.object);
        let is_hidden = stored.flags & flag::EXTENDED != 0 && !self.is_replaying();
        if stored.generation != node.generation || is_gone || is_hidden {
            return Err(FileError::Stale);
        }
        Ok(stored)
    }

    /// The object that a number refers to now.
    fn known(&self, object: u64) -> Done<Object> {
        let stored = self.objects.stored(object).map_err(failure)?;
        let node = Node {
            object,
            generation: stored.generation,
        };
        let stored = self.live(node)?;
        Ok(Object {
            node,
            attributes: attributes_of(&stored)?,
        })
    }

    /// An object as `who` sees it. A trivial list is not read.
    pub(crate) fn judged(&self, object: u64, stored: &Stored, who: &Identity) -> Done<Judged> {
        let attributes = attributes_of(stored)?;
        if stored.flags & flag::ACL_TRIVIAL != 0 || who.uid == 0 {
            return Ok(Judged::by_mode(attributes));
        }
        let list = self.objects.text(object, Text::Acl, TEXT_BYTES_MAX);
        let rights = acl::rights(&list.map_err(failure)?, &attributes, who);
        Ok(Judged::by_list(attributes, rights))
    }

    /// The rights of `who` on an object.
    pub(crate) fn may(&self, object: u64, stored: &Stored, who: &Identity) -> Done<Permissions> {
        Ok(self.judged(object, stored, who)?.permissions(who))
    }

    /// Refuses a change that exceeds a quota of `payers`: of bytes, and with `makes` also of objects.
    pub(crate) fn check_quotas(&self, payers: Payers, makes: bool) -> Done {
        match self.is_replaying() {
            true => Ok(()),
            false => self.quotas.check(&self.objects, payers, makes),
        }
    }

    /// Whether contents and attributes of an object may change: a kernel may have made them immutable (`chattr +i`,
    /// `+a`).
    pub(crate) fn check_kept(&self, stored: &Stored) -> Done {
        self.check_flags(stored, flag::IMMUTABLE | flag::APPEND_ONLY)
    }

    /// Whether an object has none of these flags.
    pub(crate) fn check_flags(&self, stored: &Stored, refused: u64) -> Done {
        match stored.flags & refused {
            0 => Ok(()),
            _ if self.is_replaying() => Ok(()),
            _ => Err(FileError::NotPermitted),
        }
    }

    /// A directory that `who` may use this way.
    pub(crate) fn directory(&self, who: &Identity, node: Node, what: Use) -> Done<Stored> {
        let stored = self.live(node)?;
        self.judged(node.object, &stored, who)?
            .check_use(who, what)?;
        if what != Use::LookUp {
            self.check_entries(&stored)?;
        }
        Ok(stored)
    }

    /// Whether the names in a directory may change.
    pub(crate) fn check_entries(&self, directory: &Stored) -> Done {
        if directory.links == 0 {
            return Err(FileError::Stale);
        }
        self.check_flags(directory, flag::IMMUTABLE)
    }

    /// Whether the bytes are a valid name.
    pub(crate) fn check_name(&self, name: &[u8]) -> Done {
        check_name(name, NAME_BYTES_MAX)?;
        match self.facts.utf8_only && std::str::from_utf8(name).is_err() {
            true => Err(FileError::BadName),
            false => Ok(()),
        }
    }

    /// The object of a name in a directory, if it exists.
    pub(crate) fn entry(&self, directory: u64, name: &[u8]) -> Done<Option<u64>> {
        match self.objects.look_up(directory, name) {
            Ok(value) => Ok(Some(entry_object(value))),
            Err(ObjectError::Missing) => Ok(None),
            Err(error) => Err(failure(error)),
        }
    }

    /// A file that a request is about to read or write.
    pub(crate) fn file(&self, node: Node) -> Done<Stored> {
        let stored = self.live(node)?;
        match attributes_of(&stored)?.kind {
            Kind::File => Ok(stored),
            Kind::Directory => Err(FileError::IsDirectory),
            _ => Err(FileError::WrongType),
        }
    }

    /// Appends existing contents. The caller holds the lock.
    fn append_contents(&self, object: u64, offset: u64, length: usize, onto: &mut Vec<u8>) -> Done {
        match length {
            0 => Ok(()),
            _ => self
                .objects
                .read_onto(object, offset, length, onto)
                .map_err(failure),
        }
    }

    /// The extent of a read of a file. The caller holds its lock.
    fn readable(&self, node: Node, offset: u64, length_max: usize) -> Done<Read> {
        let size = self.file(node)?.size;
        let end = offset.saturating_add(length_max as u64).min(size);
        let length = end.saturating_sub(offset) as usize;
        Ok(Read {
            length,
            is_end: offset.saturating_add(length as u64) >= size,
        })
    }
}

/// Contents that cannot change until this is dropped.
struct Lent {
    contents: Box<dyn ReadLoan>,
    _lending: Lending,
}

impl ReadLoan for Lent {
    fn byte_count(&self) -> usize {
        self.contents.byte_count()
    }

    fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>) {
        self.contents.append_parts(parts);
    }
}

impl<O: Objects> FileSystem for Zpl<O> {
    fn id(&self) -> FileSystemId {
        FileSystemId {
            guid: self.facts.identity,
            snapshot: self.facts.snapshot,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            name_bytes_max: NAME_BYTES_MAX as u32,
            file_bytes_max: FILE_BYTES_MAX,
            links_max: LINKS_MAX,
            atomic_write_bytes: ATOMIC_WRITE_BYTES,
            is_read_only: self.facts.is_read_only,
            ignores_case: false,
            has_acls: self.objects.settings().has_lists,
        }
    }

    fn root(&self) -> Node {
        self.root
    }

    fn statistics(&self) -> Done<Statistics> {
        let [used, free, objects, objects_free] = self.objects.space().map_err(failure)?;
        Ok(Statistics {
            bytes_total: used.saturating_add(free),
            bytes_free: free,
            files_total: objects.saturating_add(objects_free),
            files_free: objects_free,
        })
    }

    fn attributes(&self, node: Node) -> Done<Attributes> {
        attributes_of(&self.live(node)?)
    }

    fn object(&self, _: Node, object: u64) -> Done<Object> {
        self.known(object)
    }

    fn set_attributes(
        &self,
        who: &Identity,
        node: Node,
        changes: &SetAttributes,
        guard: &Guard,
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        self.set(who, node, (changes, guard), receipt)
    }

    fn permissions(&self, who: &Identity, node: Node) -> Done<Permissions> {
        self.may(node.object, &self.live(node)?, who)
    }

    fn look_up(&self, who: &Identity, directory: Node, name: &[u8]) -> Done<Object> {
        self.directory(who, directory, Use::LookUp)?;
        self.check_name(name)?;
        let object = self.entry(directory.object, name)?;
        match self.known(object.ok_or(FileError::NotFound)?) {
            // It was removed concurrently.
            Err(FileError::Stale) => Err(FileError::NotFound),
            known => known,
        }
    }

    fn parent(&self, who: &Identity, directory: Node) -> Done<Node> {
        let stored = self.directory(who, directory, Use::LookUp)?;
        self.known(stored.parent).map(|object| object.node)
    }

    fn make(
        &self,
        who: &Identity,
        directory: Node,
        name: &[u8],
        what: Make<'_>,
        attributes: &SetAttributes,
        receipt: Option<&Receipt>,
    ) -> Done<Made> {
        let new = (name, what, attributes);
        self.make_object(who, directory, new, None, receipt)
    }

    fn make_with_acl(
        &self,
        who: &Identity,
        directory: Node,
        (name, what): (&[u8], Make<'_>),
        attributes: &SetAttributes,
        list: &[Entry],
        receipt: Option<&Receipt>,
    ) -> Done<Made> {
        let new = (name, what, attributes);
        match self.objects.settings().has_lists {
            true => self.make_object(who, directory, new, Some(list), receipt),
            false => Err(FileError::Unsupported),
        }
    }

    fn remove(
        &self,
        who: &Identity,
        directory: Node,
        name: &[u8],
        what: Removable,
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        self.remove_name(who, directory, (name, what), receipt)
    }

    fn rename(
        &self,
        who: &Identity,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        receipt: Option<&Receipt>,
    ) -> Done<Renamed> {
        self.rename_object(who, from, to, receipt)
    }

    fn link(
        &self,
        who: &Identity,
        node: Node,
        directory: Node,
        name: &[u8],
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        self.link_object(who, node, (directory, name), receipt)
    }

    fn receipt(&self, place: &Place) -> Option<Receipt> {
        self.lock_receipts().find(place)
    }

    fn read_link(&self, node: Node) -> Done<Vec<u8>> {
        let stored = self.live(node)?;
        if attributes_of(&stored)?.kind != Kind::Link {
            return Err(FileError::WrongType);
        }
        let text = self.objects.text(node.object, Text::Link, TEXT_BYTES_MAX);
        text.map_err(failure)
    }

    fn read_directory(
        &self,
        who: &Identity,
        directory: Node,
        cookie: u64,
        visit: &mut dyn FnMut(file_system::Entry<'_>) -> bool,
    ) -> Done<bool> {
        let stored = self.live(directory)?;
        let judged = self.judged(directory.object, &stored, who)?;
        if judged.attributes.kind != Kind::Directory {
            return Err(FileError::NotDirectory);
        }
        if !judged.permissions(who).read {
            return Err(FileError::Access);
        }
        let cursor = match cookie {
            0 => 0,
            COOKIE_FIRST..=COOKIE_LAST => cookie - COOKIE_FIRST,
            _ => return Err(FileError::BadCookie),
        };
        let mut place = Ok(());
        let listed = self.objects.list(directory.object, cursor, &mut |entry| {
            let cookie = entry.cursor.saturating_add(COOKIE_FIRST);
            if cookie > COOKIE_LAST {
                place = Err(FileError::Io);
                return false;
            }
            visit(file_system::Entry {
                name: entry.name,
                object: entry_object(entry.value),
                cookie,
            })
        });
        place?;
        listed.map_err(failure)
    }

    fn read(&self, node: Node, offset: u64, into: &mut [u8]) -> Done<Read> {
        let _reading = self.locks.read(node.object);
        let there = self.readable(node, offset, into.len())?;
        if there.length != 0 {
            let into = &mut into[..there.length];
            let read = self.objects.read(node.object, offset, into);
            read.map_err(failure)?;
        }
        Ok(there)
    }

    fn read_onto(
        &self,
        node: Node,
        offset: u64,
        length_max: usize,
        onto: &mut Vec<u8>,
    ) -> Done<Read> {
        let _reading = self.locks.read(node.object);
        let there = self.readable(node, offset, length_max)?;
        self.append_contents(node.object, offset, there.length, onto)?;
        Ok(there)
    }

    fn read_or_lend(
        &self,
        node: Node,
        offset: u64,
        length_max: usize,
        onto: &mut Vec<u8>,
    ) -> Done<(Read, Option<Box<dyn ReadLoan>>)> {
        let reading = self.locks.read(node.object);
        let there = self.readable(node, offset, length_max)?;
        if there.length >= LENT_BYTES_MIN {
            let lent = self.objects.lend(node.object, offset, there.length);
            if let Some(contents) = lent.map_err(failure)? {
                let _lending = self.locks.lend(node.object, &reading);
                return Ok((there, Some(Box::new(Lent { contents, _lending }))));
            }
        }
        self.append_contents(node.object, offset, there.length, onto)?;
        Ok((there, None))
    }

    fn write(&self, node: Node, offset: u64, bytes: &[u8]) -> Done<Changed> {
        self.write_contents(node, offset, bytes, Reach::All)
    }

    fn append(&self, node: Node, offset: u64, bytes: &[u8], repeats: bool) -> Done<Changed> {
        self.write_contents(node, offset, bytes, Reach::Behind { repeats })
    }

    fn commit(&self, node: Option<Node>) -> Done {
        match node.map(|node| self.live(node)) {
            // It is written when it is closed.
            None | Some(Ok(_) | Err(FileError::Gone)) => {}
            Some(Err(error)) => return Err(error),
        }
        self.objects.commit().map_err(failure)
    }

    fn seek(&self, node: Node, offset: u64, content: Content) -> Done<u64> {
        let _reading = self.locks.read(node.object);
        let size = self.file(node)?.size;
        if offset >= size {
            return Err(FileError::BeyondEnd);
        }
        let hole = content == Content::Hole;
        let found = self.objects.next(node.object, offset, hole);
        match found.map_err(failure)? {
            Some(at) if at < size => Ok(at),
            _ if hole => Ok(size),
            _ => Err(FileError::BeyondEnd),
        }
    }

    fn deallocate(&self, node: Node, offset: u64, length: u64) -> Done {
        self.punch(node, offset, length)
    }

    fn acl(&self, who: &Identity, node: Node) -> Done<Vec<Entry>> {
        let stored = self.live(node)?;
        self.judged(node.object, &stored, who)?
            .check_list_read(who)?;
        self.list(node.object)
    }

    fn set_acl(
        &self,
        who: &Identity,
        node: Node,
        list: &[Entry],
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        match self.objects.settings().has_lists {
            true => self.set_list(who, node, list, receipt),
            false => Err(FileError::Unsupported),
        }
    }

    fn extended(&self, who: &Identity, node: Node, name: &[u8]) -> Done<Vec<u8>> {
        self.read_extended(who, node, name)
    }

    fn set_extended(
        &self,
        who: &Identity,
        node: Node,
        name: &[u8],
        value: &[u8],
        how: SetExtended,
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        self.change_extended(who, node, (name, Some(value)), how, receipt)
    }

    fn remove_extended(
        &self,
        who: &Identity,
        node: Node,
        name: &[u8],
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        self.change_extended(who, node, (name, None), SetExtended::Replace, receipt)
    }

    fn extended_names(&self, who: &Identity, node: Node) -> Done<Vec<Vec<u8>>> {
        self.list_extended(who, node)
    }

    fn owners(&self, kind: OwnerKind, may_continue: &dyn Fn() -> bool) -> Done<Owners> {
        self.list_owners(kind, may_continue)
    }

    fn owner_space(&self, owner: Owner) -> Done<OwnerSpace> {
        self.one_owner(owner)
    }

    fn set_quotas(&self, quotas: &[Quota]) -> Done {
        self.quotas.set(&self.objects, quotas)
    }

    fn path(&self, node: Node, names_left: &mut u64) -> Option<String> {
        self.live(node).ok()?;
        path(&self.objects, self.root().object, node.object, names_left)
    }

    fn hold(&self, node: Node) -> Done {
        if !self.lock_holds().hold(node.object) {
            return Err(FileError::Stale);
        }
        // A removal of its last name that started before does not see the hold, and frees it.
        let found = self.objects.stored(node.object).map_err(failure);
        let is_kept = self.lock_holds().take_kept(node);
        let is_there = found.is_ok_and(|stored| {
            let is_held = is_kept || self.lock_holds().count(node.object) > 1;
            stored.generation == node.generation && (stored.links != 0 || is_held)
        });
        if !is_there {
            self.release(node);
            return Err(FileError::Stale);
        }
        Ok(())
    }

    fn release(&self, node: Node) {
        if !self.lock_holds().release(node.object) {
            return;
        }
        let is_unlinked = self.objects.stored(node.object);
        if is_unlinked.is_ok_and(|stored| stored.links == 0) {
            self.purge_and_log(node.object);
        }
    }
}
