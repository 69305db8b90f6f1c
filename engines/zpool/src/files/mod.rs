//! File systems of a pool: the objects on which `zpl` implements files.
//!
//! All state is in the shim and the library; a [`Gate`] holds the file system open while any call uses it.

mod lent;
mod open;
mod snapshots;

use std::ffi::{CString, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use block_device::ReadLoan;
use engine::gate::Gate;
use rustix::io::Errno;
use zpl::objects::{
    Counted, Facts, Has, Inheriting, ListedEntry, ListedQuota, ObjectError, Objects, OnMode,
    Outcome, Settings, Step, Stored, Text, Visitor,
};
use zpool_sys as sys;

use crate::device;

use lent::Lent;
pub use open::FileSystem;

/// Bytes of entries that one call of the library returns.
const LIST_BYTES: usize = 32 << 10;
/// The library's "compressed text of access control lists": `ZFS_ACLTYPE_POSIX`.
const ACLTYPE_POSIX: u64 = 1;
/// `ZFS_ACLTYPE_NFSV4`.
const ACLTYPE_LISTS: u64 = 2;

/// The objects of an open file system.
pub struct Files {
    open: Arc<Open>,
    facts: Facts,
    refused_for_space: AtomicU64,
}

/// An open file system, for as long as it or one of its loans is in use.
struct Open {
    raw: NonNull<sys::bh_files>,
    gate: Gate,
    /// It was closed, so all changes are on the disks.
    is_written: Mutex<bool>,
    written: Condvar,
}

// SAFETY: the shim's functions may be called from any thread, several at a time; `raw` is used only between
// `gate.enter` and `gate.leave`, and closed after the gate has closed.
unsafe impl Send for Open {}
// SAFETY: as above.
unsafe impl Sync for Open {}

/// A use of the file system during one call.
struct Using<'a>(&'a Open);

impl Using<'_> {
    fn raw(&self) -> *mut sys::bh_files {
        self.0.raw.as_ptr()
    }
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.0.gate.leave();
    }
}

fn checked(code: i32) -> Result<(), ObjectError> {
    if code == 0 {
        return Ok(());
    }
    Err(match Errno::from_raw_os_error(code) {
        Errno::NOENT => ObjectError::Missing,
        Errno::EXIST => ObjectError::Exists,
        Errno::NOSPC => ObjectError::NoSpace,
        Errno::DQUOT => ObjectError::Quota,
        Errno::ROFS => ObjectError::ReadOnly,
        Errno::ACCESS => ObjectError::KeyMissing,
        Errno::RANGE => ObjectError::TooLong,
        _ => ObjectError::Io(code),
    })
}

fn c_name(name: &[u8]) -> Result<CString, ObjectError> {
    CString::new(name).map_err(|_| ObjectError::Io(Errno::INVAL.raw_os_error()))
}

fn facts_of(raw: &sys::bh_files_facts, is_snapshot: bool) -> Facts {
    Facts {
        version: raw.version,
        identity: raw.identity,
        snapshot: if is_snapshot { raw.objset } else { 0 },
        root: raw.root,
        unlinked: raw.unlinked,
        receipts: raw.receipts,
        normalization: raw.normalization,
        utf8_only: raw.utf8only != 0,
        case_sensitivity: raw.casesensitivity,
        has_posix_acls: raw.acltype == ACLTYPE_POSIX,
        has_system_attributes: raw.system_attributes != 0,
        is_read_only: raw.read_only != 0,
        is_fixed: raw.fixed != 0,
        log_waits: raw.log_waits != 0,
        log_is_foreign: raw.log_is_foreign != 0,
    }
}

fn stored_of(raw: &sys::bh_node) -> Stored {
    Stored {
        mode: raw.mode,
        size: raw.size,
        generation: raw.generation,
        uid: raw.uid,
        gid: raw.gid,
        parent: raw.parent,
        flags: raw.flags,
        atime: [raw.atime_s, raw.atime_ns],
        mtime: [raw.mtime_s, raw.mtime_ns],
        ctime: [raw.ctime_s, raw.ctime_ns],
        crtime: [raw.crtime_s, raw.crtime_ns],
        links: raw.links,
        project: raw.project,
        device: raw.device,
        extended: raw.extended,
        has: Has(raw.has),
        block_size: raw.block_size,
        space: raw.space,
        slots: raw.slots,
        last_block: raw.last_block,
    }
}

fn node_of(stored: &Stored) -> sys::bh_node {
    sys::bh_node {
        mode: stored.mode,
        size: stored.size,
        generation: stored.generation,
        uid: stored.uid,
        gid: stored.gid,
        parent: stored.parent,
        flags: stored.flags,
        atime_s: stored.atime[0],
        atime_ns: stored.atime[1],
        mtime_s: stored.mtime[0],
        mtime_ns: stored.mtime[1],
        ctime_s: stored.ctime[0],
        ctime_ns: stored.ctime[1],
        crtime_s: stored.crtime[0],
        crtime_ns: stored.crtime[1],
        links: stored.links,
        project: stored.project,
        device: stored.device,
        extended: stored.extended,
        has: stored.has.0,
        block_size: stored.block_size,
        space: stored.space,
        slots: stored.slots,
        last_block: stored.last_block,
    }
}

/// The memory that the steps of a change point to, for the duration of the change.
#[derive(Default)]
struct Pointed {
    names: Vec<CString>,
    #[expect(clippy::vec_box, reason = "steps point to them while more come")]
    nodes: Vec<Box<sys::bh_node>>,
}

impl Pointed {
    fn name(&mut self, name: &[u8]) -> Result<*const std::ffi::c_char, ObjectError> {
        let name = c_name(name)?;
        let pointer = name.as_ptr();
        self.names.push(name);
        Ok(pointer)
    }

    fn node(&mut self, stored: &Stored) -> *const sys::bh_node {
        let node = Box::new(node_of(stored));
        let pointer = &raw const *node;
        self.nodes.push(node);
        pointer
    }

    /// The step in the shim's form. It points into `self` and into `step`.
    fn step(&mut self, step: &Step<'_>) -> Result<sys::bh_step, ObjectError> {
        let mut raw = sys::bh_step {
            kind: 0,
            flags: 0,
            object: 0,
            value: 0,
            block_size: 0,
            node: std::ptr::null(),
            name: std::ptr::null(),
            data: std::ptr::null(),
            length: 0,
        };
        let mut give = |bytes: &[u8]| {
            raw.data = bytes.as_ptr();
            raw.length = bytes.len() as u64;
        };
        match step {
            Step::Make {
                claims,
                stored,
                acl,
                link,
            } => {
                give(acl);
                raw.value = zpl::acl::count(acl);
                raw.kind = sys::BH_STEP_MAKE;
                raw.object = claims.unwrap_or(0);
                raw.block_size = stored.block_size;
                raw.node = self.node(stored);
                if let Some(link) = link {
                    raw.name = self.name(link)?;
                }
            }
            Step::Set {
                object,
                stored,
                acl,
            } => {
                if let Some(acl) = acl {
                    give(acl);
                    raw.value = zpl::acl::count(acl);
                }
                raw.kind = sys::BH_STEP_SET;
                raw.object = *object;
                raw.node = self.node(stored);
            }
            Step::Enter {
                directory,
                name,
                value,
                is_new,
                replaces,
            } => {
                raw.kind = sys::BH_STEP_ENTER;
                raw.object = *directory;
                raw.name = self.name(name)?;
                raw.value = *value;
                raw.flags = if *is_new { sys::BH_STEP_OF_NEW } else { 0 }
                    | if *replaces { sys::BH_STEP_REPLACES } else { 0 };
            }
            Step::Leave { directory, name } => {
                raw.kind = sys::BH_STEP_LEAVE;
                raw.object = *directory;
                raw.name = self.name(name)?;
            }
            Step::Unlink { object } => {
                (raw.kind, raw.object) = (sys::BH_STEP_UNLINK, *object);
            }
            Step::Forget { object } => {
                (raw.kind, raw.object) = (sys::BH_STEP_FORGET, *object);
            }
            Step::Free { object } => {
                (raw.kind, raw.object) = (sys::BH_STEP_FREE, *object);
            }
            Step::Write {
                object,
                offset,
                bytes,
                block_size,
            } => {
                give(bytes);
                raw.kind = sys::BH_STEP_WRITE;
                raw.object = *object;
                raw.value = *offset;
                raw.block_size = block_size.unwrap_or(0);
            }
            Step::Hole {
                object,
                offset,
                length,
            } => {
                raw.kind = sys::BH_STEP_HOLE;
                raw.object = *object;
                raw.value = *offset;
                raw.length = length.unwrap_or(0);
            }
            Step::Extend { object, list } => {
                give(list);
                raw.kind = sys::BH_STEP_EXTEND;
                raw.object = *object;
            }
            Step::Clone {
                object,
                offset,
                length,
                pointers,
                block_size,
            } => {
                give(pointers);
                raw.kind = sys::BH_STEP_CLONE;
                raw.object = *object;
                raw.value = *offset;
                raw.block_size = block_size.unwrap_or(0);
                raw.node = self.node(&Stored {
                    size: *length,
                    ..Stored::default()
                });
            }
            Step::Log {
                kind,
                body,
                is_new,
                generation,
            } => {
                give(body);
                raw.kind = sys::BH_STEP_LOG;
                raw.value = *kind;
                raw.object = *generation;
                raw.flags = if *is_new { sys::BH_STEP_OF_NEW } else { 0 };
            }
        }
        Ok(raw)
    }
}

/// A visitor of records, and its panic, which must not unwind into the library.
struct Visiting<'a, 'b> {
    visit: &'a mut Visitor<'b>,
    panic: Option<Box<dyn std::any::Any + Send>>,
}

/// # Safety
/// `arg` is a `&mut Visiting`, and `data` has `length` bytes.
unsafe extern "C" fn visit_record(
    arg: *mut c_void,
    kind: u64,
    data: *const u8,
    length: u64,
) -> i32 {
    // SAFETY: promised by the caller.
    let (visiting, body) = unsafe {
        (
            &mut *arg.cast::<Visiting<'_, '_>>(),
            std::slice::from_raw_parts(data, length as usize),
        )
    };
    let visit = std::panic::AssertUnwindSafe(|| (visiting.visit)(kind, body));
    match std::panic::catch_unwind(visit) {
        Ok(Ok(())) => 0,
        Ok(Err(ObjectError::NoSpace)) => Errno::NOSPC.raw_os_error(),
        Ok(Err(ObjectError::Quota)) => Errno::DQUOT.raw_os_error(),
        Ok(Err(_)) => Errno::IO.raw_os_error(),
        Err(panic) => {
            visiting.panic = Some(panic);
            Errno::IO.raw_os_error()
        }
    }
}

impl Files {
    fn using(&self) -> Result<Using<'_>, ObjectError> {
        // After a standstill, another head may own the cached data.
        device::attend();
        device::note_client_request();
        match self.open.gate.enter() {
            Ok(()) => Ok(Using(&self.open)),
            Err(_) => Err(ObjectError::Closed),
        }
    }

    /// Errors of changes that were refused because the pool or a quota of the dataset is full.
    pub fn refused_for_space(&self) -> u64 {
        self.refused_for_space.load(Ordering::Relaxed)
    }

    /// Blocks until calls and loans have finished, writes all data to disk and closes the file system.
    pub(crate) fn close(&self) {
        self.open.close();
    }

    fn visiting(
        &self,
        mut visit: Visitor<'_>,
        call: impl FnOnce(*mut sys::bh_files, *mut c_void) -> i32,
    ) -> Result<(), ObjectError> {
        let using = self.using()?;
        let mut visiting = Visiting {
            visit: &mut visit,
            panic: None,
        };
        let code = call(using.raw(), (&raw mut visiting).cast());
        if let Some(panic) = visiting.panic {
            std::panic::resume_unwind(panic);
        }
        checked(code)
    }
}

impl Open {
    fn close(&self) {
        if self.gate.close() {
            // SAFETY: the gate has closed: no call or loan uses `raw`, and none will.
            unsafe { sys::bh_files_close(self.raw.as_ptr()) };
            *self.is_written.lock().expect("no holder panics") = true;
            self.written.notify_all();
        }
    }

    /// Blocks until the closing thread has written all data.
    fn await_written(&self) {
        let is_written = self.is_written.lock().expect("no holder panics");
        let waited = self.written.wait_while(is_written, |done| !*done);
        drop(waited.expect("no holder panics"));
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.close();
    }
}

impl Objects for Files {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn stored(&self, object: u64) -> Result<Stored, ObjectError> {
        let using = self.using()?;
        let mut node = sys::bh_node::default();
        // SAFETY: open while `using` exists; `node` outlives the call.
        checked(unsafe { sys::bh_files_node(using.raw(), object, &mut node) })?;
        Ok(stored_of(&node))
    }

    fn text(&self, object: u64, which: Text, bytes_max: usize) -> Result<Vec<u8>, ObjectError> {
        let using = self.using()?;
        let which = match which {
            Text::Link => sys::BH_TEXT_LINK,
            Text::Acl => sys::BH_TEXT_ACL,
            Text::Extended => sys::BH_TEXT_EXTENDED,
        };
        let mut bytes = vec![0; bytes_max];
        let mut length = bytes.len() as u64;
        // SAFETY: open while `using` exists; `bytes` has the stated capacity.
        let code = unsafe {
            let data = bytes.as_mut_ptr();
            sys::bh_files_text(using.raw(), object, which, data, &mut length)
        };
        checked(code)?;
        bytes.truncate(length as usize);
        Ok(bytes)
    }

    fn look_up(&self, directory: u64, name: &[u8]) -> Result<u64, ObjectError> {
        let using = self.using()?;
        let name = c_name(name)?;
        let mut value = 0;
        // SAFETY: open while `using` exists; the name is not retained.
        let code =
            unsafe { sys::bh_files_look_up(using.raw(), directory, name.as_ptr(), &mut value) };
        checked(code)?;
        Ok(value)
    }

    fn list(
        &self,
        directory: u64,
        cursor: u64,
        visit: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<bool, ObjectError> {
        let using = self.using()?;
        list_with(cursor, visit, |cursor, buffer, bytes, end| {
            let (data, room) = (buffer.as_mut_ptr(), buffer.len() as u64);
            // SAFETY: open while `using` exists; the buffer has the stated capacity.
            unsafe { sys::bh_files_list(using.raw(), directory, cursor, data, room, bytes, end) }
        })
    }

    fn count(&self, directory: u64) -> Result<u64, ObjectError> {
        let using = self.using()?;
        let mut count = 0;
        // SAFETY: open while `using` exists.
        checked(unsafe { sys::bh_files_count(using.raw(), directory, &mut count) })?;
        Ok(count)
    }

    fn read(&self, object: u64, offset: u64, into: &mut [u8]) -> Result<(), ObjectError> {
        let using = self.using()?;
        let length = into.len() as u64;
        // SAFETY: open while `using` exists; `into` has that length.
        checked(unsafe {
            sys::bh_files_read(using.raw(), object, offset, into.as_mut_ptr(), length)
        })
    }

    fn read_onto(
        &self,
        object: u64,
        offset: u64,
        length: usize,
        onto: &mut Vec<u8>,
    ) -> Result<(), ObjectError> {
        let using = self.using()?;
        onto.reserve(length);
        let room = onto.spare_capacity_mut().as_mut_ptr().cast();
        // SAFETY: open while `using` exists; there is room for `length` bytes.
        checked(unsafe { sys::bh_files_read(using.raw(), object, offset, room, length as u64) })?;
        // SAFETY: the library has written every byte of a read that succeeds, zeros where the file has none.
        unsafe { onto.set_len(onto.len() + length) };
        Ok(())
    }

    fn lend(
        &self,
        object: u64,
        offset: u64,
        length: usize,
    ) -> Result<Option<Box<dyn ReadLoan>>, ObjectError> {
        let using = self.using()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: open while `using` exists, which the loan then owns.
        let code =
            unsafe { sys::bh_files_lend(using.raw(), object, offset, length as u64, &mut raw) };
        if code == Errno::NOTSUP.raw_os_error() {
            return Ok(None);
        }
        checked(code)?;
        std::mem::forget(using);
        Ok(Some(Box::new(Lent {
            open: Arc::clone(&self.open),
            raw: NonNull::new(raw).expect("set when the call succeeds"),
            length,
        })))
    }

    fn next(&self, object: u64, offset: u64, hole: bool) -> Result<Option<u64>, ObjectError> {
        let using = self.using()?;
        let mut at = offset;
        // SAFETY: open while `using` exists.
        let code = unsafe { sys::bh_files_next(using.raw(), object, hole.into(), &mut at) };
        if code == Errno::NXIO.raw_os_error() {
            return Ok(None);
        }
        checked(code)?;
        Ok(Some(at))
    }

    fn next_object(&self, after: u64) -> Result<Option<u64>, ObjectError> {
        let using = self.using()?;
        let mut object = after;
        // SAFETY: open while `using` exists.
        match checked(unsafe { sys::bh_files_next_object(using.raw(), &mut object) }) {
            Ok(()) => Ok(Some(object)),
            Err(ObjectError::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn space(&self) -> Result<[u64; 4], ObjectError> {
        let using = self.using()?;
        let mut told = [0; 4];
        let [used, available, objects, objects_available] = &mut told;
        // SAFETY: open while `using` exists.
        unsafe {
            sys::bh_files_space(using.raw(), used, available, objects, objects_available);
        }
        Ok(told)
    }

    fn record_size(&self) -> u64 {
        self.using().map_or(0, |using| {
            // SAFETY: open while `using` exists.
            unsafe { sys::bh_files_record_size(using.raw()) }
        })
    }

    fn settings(&self) -> Settings {
        let Ok(using) = self.using() else {
            return Settings::default();
        };
        // SAFETY: open while `using` exists.
        let setting = |which| unsafe { sys::bh_files_setting(using.raw(), which) };
        Settings {
            on_mode: match setting(sys::BH_SETTING_ACLMODE) {
                2 => OnMode::GroupMask,
                3 => OnMode::Passthrough,
                4 => OnMode::Restricted,
                _ => OnMode::Discard,
            },
            inheriting: match setting(sys::BH_SETTING_ACLINHERIT) {
                0 => Inheriting::Discard,
                1 => Inheriting::NoAllow,
                3 => Inheriting::Passthrough,
                5 => Inheriting::PassthroughX,
                _ => Inheriting::Restricted,
            },
            has_lists: setting(sys::BH_SETTING_ACLTYPE) == ACLTYPE_LISTS,
        }
    }

    fn change(&self, steps: &[Step<'_>], frees: bool) -> Result<Outcome, ObjectError> {
        let using = self.using()?;
        let mut pointed = Pointed::default();
        let raw: Vec<sys::bh_step> = steps
            .iter()
            .map(|step| pointed.step(step))
            .collect::<Result<_, _>>()?;
        let mut changed = sys::bh_changed::default();
        let flags = if frees { sys::BH_CHANGE_FREES } else { 0 };
        // SAFETY: open while `using` exists; the steps point into `steps` and `pointed`, which outlive the call.
        let code = unsafe {
            let count = raw.len() as u32;
            sys::bh_files_change(using.raw(), raw.as_ptr(), count, flags, &mut changed)
        };
        drop(pointed);
        checked(code).inspect_err(|error| {
            if matches!(error, ObjectError::NoSpace | ObjectError::Quota) {
                self.refused_for_space.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        Ok(Outcome {
            object: changed.object,
            group: changed.group,
        })
    }

    fn free(&self, object: u64, offset: u64, length: Option<u64>) -> Result<(), ObjectError> {
        let using = self.using()?;
        // SAFETY: open while `using` exists.
        checked(unsafe { sys::bh_files_free(using.raw(), object, offset, length.unwrap_or(0)) })
    }

    fn commit(&self) -> Result<(), ObjectError> {
        let using = match self.using() {
            // The closing thread writes the earlier changes.
            Err(ObjectError::Closed) => {
                self.open.await_written();
                device::attend();
                return Ok(());
            }
            using => using?,
        };
        // SAFETY: open while `using` exists.
        checked(unsafe { sys::bh_files_commit(using.raw()) })
    }

    fn make_receipts(&self) -> Result<u64, ObjectError> {
        let using = self.using()?;
        let mut object = 0;
        // SAFETY: open while `using` exists.
        checked(unsafe { sys::bh_files_make_receipts(using.raw(), &mut object) })?;
        Ok(object)
    }

    fn settle(&self) -> Result<(), ObjectError> {
        let using = self.using()?;
        // SAFETY: open while `using` exists.
        unsafe { sys::bh_files_settle(using.raw()) };
        Ok(())
    }

    fn counted(&self) -> Counted {
        let flags = self.using().map_or(0, |using| {
            // SAFETY: open while `using` exists.
            unsafe { sys::bh_files_counted(using.raw()) }
        });
        Counted {
            bytes: flags & sys::BH_COUNTED_BYTES != 0,
            objects: flags & sys::BH_COUNTED_OBJECTS != 0,
            projects: flags & sys::BH_COUNTED_PROJECTS != 0,
        }
    }

    fn set_quotas(&self, quotas: &[ListedQuota<'_>]) -> Result<(), ObjectError> {
        let using = self.using()?;
        let mut pointed = Pointed::default();
        let mut raw = Vec::new();
        for quota in quotas {
            raw.push(sys::bh_quota {
                list: pointed.name(quota.list)?,
                key: pointed.name(quota.key.as_bytes())?,
                limit: quota.limit,
            });
        }
        // SAFETY: open while `using` exists; the names are in `pointed`, which outlives the call.
        let code = unsafe { sys::bh_files_set_quotas(using.raw(), raw.as_ptr(), raw.len() as u32) };
        drop(pointed);
        checked(code)
    }

    fn walk_log(&self, visit: Visitor<'_>) -> Result<(), ObjectError> {
        self.visiting(visit, |raw, arg| {
            // SAFETY: open during the call; `arg` has the type that `visit_record` expects.
            unsafe { sys::bh_files_log_walk(raw, visit_record, arg) }
        })
    }

    fn replay_log(&self, visit: Visitor<'_>) -> Result<(), ObjectError> {
        self.visiting(visit, |raw, arg| {
            // SAFETY: as in `walk_log`.
            unsafe { sys::bh_files_log_replay(raw, visit_record, arg) }
        })
    }
}

/// Visits entries from `cursor` on, as [`Objects::list`]. `fill` has the shim put some into a buffer: their bytes, and whether they are the last.
fn list_with(
    mut cursor: u64,
    visit: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    mut fill: impl FnMut(u64, &mut [u8], &mut u64, &mut u32) -> i32,
) -> Result<bool, ObjectError> {
    let mut buffer = vec![0; LIST_BYTES];
    loop {
        let (mut bytes, mut end) = (0, 0);
        checked(fill(cursor, &mut buffer, &mut bytes, &mut end))?;
        let mut rest = &buffer[..bytes as usize];
        while let Some((entry, behind)) = next_entry(rest) {
            cursor = entry.cursor;
            if !visit(entry) {
                return Ok(false);
            }
            rest = behind;
        }
        if end != 0 {
            return Ok(true);
        }
    }
}

/// The first entry in a buffer that the shim has filled, and the rest.
fn next_entry(bytes: &[u8]) -> Option<(ListedEntry<'_>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<24>()?;
    let word = |at: usize| {
        let word = head[at..].first_chunk::<8>().expect("24 bytes");
        u64::from_ne_bytes(*word)
    };
    let length = word(16) as usize;
    let entry = ListedEntry {
        cursor: word(0),
        value: word(8),
        name: rest.get(..length)?,
    };
    Some((entry, rest.get(length.next_multiple_of(8)..)?))
}
