//! Operations that open, close and lock files.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use file_system::{
    Changed, FileSystem, Guard, Handle, Identity, Kind, Make, Node, Receipt, SetAttributes,
    SetTime, Time,
};

use super::attributes::{self, Wanted};
use super::compound::Call;
use super::grace::{New, ReclaimableState};
use super::names::check_name;
use super::numbers::Status;
use super::opens::{APPENDS, Conflict, NoLock, READ, Span, StateId, WRITE};
use super::seqids::{Owner, Purpose};
use super::without_sessions::OwnerSource;
use crate::xdr::{Reader, Writer};

/// Maximum bytes of an open owner or lock owner.
const OWNER_BYTES_MAX: usize = 1024;
/// Maximum bytes of a name.
const NAME_BYTES_MAX: usize = 4096;
/// The default mode of an exclusive create.
const MODE_EXCLUSIVE: u32 = 0o600;
/// Delegation hints of a client. It gets no delegation.
const DELEGATION_HINTS: u32 = 0x3_ff00;
/// `OPEN4_RESULT_CONFIRM`, NFS 4.0 only.
const MUST_CONFIRM: u32 = 0x2;
/// `OPEN4_RESULT_LOCKTYPE_POSIX`.
const LOCKS_LIKE_POSIX: u32 = 0x4;
/// The stateid in a reply to `CLOSE` (RFC 8881, 8.2.3).
const CLOSED: StateId = StateId {
    sequence: u32::MAX,
    other: [0; 12],
};

/// The `createhow4` of an open.
enum Creation<'a> {
    Unchecked(attributes::Unread<'a>),
    Guarded(attributes::Unread<'a>),
    Exclusive([u8; 8], Option<attributes::Unread<'a>>),
}

/// The object to open.
enum Claim<'a> {
    Name(&'a [u8]),
    Handle,
    Reclaim,
    Delegation,
}

struct OpenArguments<'a> {
    sequence: u32,
    access: u32,
    deny: u32,
    client: u64,
    owner: &'a [u8],
    creation: Option<Creation<'a>>,
    claim: Claim<'a>,
}

/// The file to open.
struct Opened {
    node: Node,
    is_new: bool,
    /// The change of its directory, if it was created.
    made: Option<Changed>,
    set: attributes::Bitmap,
    truncate: bool,
    /// It was created by an earlier copy of this call.
    is_own: bool,
}

impl Opened {
    fn existing(node: Node) -> Self {
        Self {
            node,
            is_new: false,
            made: None,
            set: attributes::Bitmap::default(),
            truncate: false,
            is_own: false,
        }
    }
}

fn read_open<'a>(reader: &mut Reader<'a>, minor: u32) -> Result<OpenArguments<'a>, Status> {
    let sequence = reader.u32()?;
    let access = reader.u32()?;
    let deny = reader.u32()?;
    let client = reader.u64()?;
    let owner = reader.opaque(OWNER_BYTES_MAX)?;
    let creation = match reader.u32()? {
        0 => None,
        1 => Some(match reader.u32()? {
            0 => Creation::Unchecked(attributes::read(reader)?),
            1 => Creation::Guarded(attributes::read(reader)?),
            2 => Creation::Exclusive(reader.array()?, None),
            3 if minor > 0 => Creation::Exclusive(reader.array()?, Some(attributes::read(reader)?)),
            _ => return Err(Status::BADXDR),
        }),
        _ => return Err(Status::BADXDR),
    };
    let claim = match reader.u32()? {
        0 => Claim::Name(reader.opaque(NAME_BYTES_MAX)?),
        1 => {
            reader.u32()?;
            Claim::Reclaim
        }
        2 => {
            reader.fixed(16)?;
            reader.opaque(NAME_BYTES_MAX)?;
            Claim::Delegation
        }
        3 => {
            reader.opaque(NAME_BYTES_MAX)?;
            Claim::Delegation
        }
        4 if minor > 0 => Claim::Handle,
        5 if minor > 0 => {
            reader.fixed(16)?;
            Claim::Delegation
        }
        6 if minor > 0 => Claim::Delegation,
        _ => return Err(Status::BADXDR),
    };
    Ok(OpenArguments {
        sequence,
        access,
        deny,
        client,
        owner,
        creation,
        claim,
    })
}

impl Call<'_> {
    /// Checks that an object is a regular file. The error depends on its type.
    pub(super) fn regular(&self, node: Node) -> Result<(), Status> {
        match self.files().attributes(node)?.kind {
            Kind::File => Ok(()),
            Kind::Directory => Err(Status::ISDIR),
            Kind::Link => Err(Status::SYMLINK),
            _ => Err(Status::WRONG_TYPE),
        }
    }

    pub(super) fn open(&mut self, reader: &mut Reader<'_>, out: &mut Writer) -> Result<(), Status> {
        let arguments = read_open(reader, self.minor)?;
        let place = self.node()?;
        let whose = OwnerSource::Opener(arguments.client, arguments.owner);
        if self.is_repeated(&whose, (arguments.sequence, Purpose::Opens), out)? {
            return Ok(());
        }
        let access = self.access_of(arguments.access);
        if access == 0 || access & !(READ | WRITE) != 0 || arguments.deny & !(READ | WRITE) != 0 {
            return Err(Status::INVAL);
        }
        self.check_claim(&arguments)?;
        if access & WRITE != 0 || arguments.creation.is_some() {
            self.may_change()?;
        }
        if arguments.creation.is_some() {
            // An existing file may be the uncommitted result of a concurrent call.
            self.to_commit = Some(None);
        }
        let before = self.files().attributes(place)?;
        let opened = match arguments.claim {
            Claim::Name(name) => self.open_name(place, name, arguments.creation.as_ref())?,
            _ if arguments.creation.is_some() => return Err(Status::INVAL),
            _ => Opened::existing(place),
        };
        self.regular(opened.node)?;
        // The creator or a previous opener retains the access.
        let is_reclaim = matches!(arguments.claim, Claim::Reclaim);
        let is_own = opened.is_own || is_reclaim;
        let appends = !opened.is_new && self.check_permissions(opened.node, access, is_own)?;
        let mode = (access | if appends { APPENDS } else { 0 }, arguments.deny);
        let id = match &self.resumed {
            Some(receipt) => self.id_of_earlier(receipt),
            None => self.take_open(&opened, arguments.owner, mode, is_reclaim)?,
        };
        out.u32(id.sequence);
        out.fixed(&id.other);
        let unchanged = Changed {
            before,
            after: before,
        };
        let changed = opened.made.or(match &self.resumed {
            Some(_) => None,
            None => Some(unchanged),
        });
        self.write_change_of(place, changed.as_ref(), out)?;
        out.u32(self.open_flags(arguments.owner, is_reclaim));
        opened.set.write(out);
        write_no_delegation(arguments.access ^ access, out);
        self.go_to_node(opened.node);
        self.stateid = Some(id);
        Ok(())
    }

    /// Checks that this claim is permitted now.
    fn check_claim(&self, arguments: &OpenArguments<'_>) -> Result<(), Status> {
        if self.resumed.is_some() {
            let is_kept = matches!(arguments.creation, Some(Creation::Guarded(_)))
                && matches!(arguments.claim, Claim::Name(_));
            // Other creations continue with a new session: the client recognizes its file, or
            // nothing is created.
            return is_kept.then_some(()).ok_or(Status::DELAY);
        }
        match arguments.claim {
            Claim::Delegation => Err(Status::BAD_STATEID),
            Claim::Reclaim => self.check_reclaim(ReclaimableState::open(arguments.deny != 0)),
            Claim::Name(_) | Claim::Handle => self.check_new(match arguments.deny {
                0 => New::Open,
                _ => New::Denial,
            }),
        }
    }

    /// Returns a stateid of an earlier server, for the open of a file that it created. The client
    /// reclaims the open like all its earlier state.
    fn id_of_earlier(&self, receipt: &Receipt) -> StateId {
        let mut hasher = DefaultHasher::new();
        (receipt.to_bytes(), self.index).hash(&mut hasher);
        let start = !(self.service.presentation.start as u32);
        let mut other = [0; 12];
        other[..4].copy_from_slice(&start.to_be_bytes());
        other[4..].copy_from_slice(&hasher.finish().to_be_bytes());
        StateId { sequence: 1, other }
    }

    /// Returns the requested access without the delegation hints of NFS 4.1.
    const fn access_of(&self, asked: u32) -> u32 {
        match self.minor {
            0 => asked,
            _ => asked & !DELEGATION_HINTS,
        }
    }

    /// Returns the result flags of an open. In NFS 4.0 an unknown owner must confirm it, unless it
    /// is a reclaim.
    ///
    /// `OPEN4_RESULT_PRESERVE_UNLINKED` is not set. It promises that an unlinked file survives a
    /// restart (RFC 8881, 18.16.3), and the next server frees it. Without the flag clients rename
    /// an open file before they remove it.
    fn open_flags(&self, owner: &[u8], is_reclaim: bool) -> u32 {
        if self.minor > 0 {
            return LOCKS_LIKE_POSIX;
        }
        let mut state = self.service.state();
        if is_reclaim {
            state.confirm(self.client, owner);
        }
        match state.is_confirmed(self.client, &Owner::Open(owner.to_vec())) {
            true => LOCKS_LIKE_POSIX,
            false => LOCKS_LIKE_POSIX | MUST_CONFIRM,
        }
    }

    fn check_reclaim(&self, what: ReclaimableState) -> Result<(), Status> {
        let now_ms = self.caller.now_ms;
        let mut state = self.service.state();
        state.check_reclaim(self.client, what, now_ms)
    }

    fn check_new(&self, new: New) -> Result<(), Status> {
        let now_ms = self.caller.now_ms;
        self.service.state().check_room(self.client, new, now_ms)
    }

    /// Obtains the share reservation, and holds the file open.
    fn take_open(
        &self,
        opened: &Opened,
        owner: &[u8],
        mode: (u32, u32),
        is_reclaim: bool,
    ) -> Result<StateId, Status> {
        let now_ms = self.caller.now_ms;
        let file = self.file(opened.node);
        let opener = (self.client, owner);
        // Truncation is a write, even if the file is opened for reading.
        let cuts = if opened.truncate { WRITE } else { 0 };
        let used = (mode.0 | cuts, mode.1);
        self.service
            .state()
            .check_share(opener, file, used, is_reclaim, now_ms)?;
        self.service.release();
        if opened.truncate {
            let changes = SetAttributes {
                size: Some(0),
                ..SetAttributes::default()
            };
            let guard = Guard::default();
            self.files()
                .set_attributes(&self.who, opened.node, &changes, &guard, None)?;
        }
        // The file is held before the open is recorded, so that it cannot disappear in between.
        self.files().hold(opened.node)?;
        let mut state = self.service.state();
        // A concurrent call may have opened it.
        let principal = self.proven_principal();
        let checked = match self.is_shared_still(file) {
            true => state
                .check_opener(opener, file, principal)
                .and_then(|()| state.check_share(opener, file, mode, is_reclaim, now_ms)),
            false => Err(Status::DELAY),
        };
        let taken = checked.map(|()| {
            let taken = state.open(self.client, owner, file, mode, self.shared_files());
            state.opened_by(self.client, &taken.0, &self.who, mode.0);
            state.record_creator(self.client, &taken.0, principal);
            taken
        });
        drop(state);
        if !matches!(taken, Ok((_, true))) {
            self.files().release(opened.node);
        }
        taken.map(|(id, _)| id)
    }

    /// Whether the file system has remained open since the call began. Checked while the state is
    /// locked: a later close of the file system finds the new open.
    fn is_shared_still(&self, file: Handle) -> bool {
        let now = self.service.exports();
        let files = now.files_of(file.file_system);
        files.is_some_and(|files| Arc::ptr_eq(files, &self.shared_files()))
    }

    /// Checks that a file may be opened with this access. Returns whether writes may only append.
    /// With `is_own` the owner always may.
    fn check_permissions(&self, node: Node, access: u32, is_own: bool) -> Result<bool, Status> {
        let may = self.files().permissions(&self.who, node)?;
        if is_own && self.files().attributes(node)?.uid == self.who.uid {
            return Ok(false);
        }
        // An executable file may be read by the client that executes it.
        let reads = access & READ == 0 || may.read || may.execute;
        let writes = access & WRITE == 0 || may.write;
        match reads && (writes || may.append) {
            true => Ok(!writes),
            false => Err(Status::ACCESS),
        }
    }

    fn open_name(
        &mut self,
        directory: Node,
        name: &[u8],
        creation: Option<&Creation<'_>>,
    ) -> Result<Opened, Status> {
        self.check_searchable(directory)?;
        let name = check_name(name)?;
        let Some(creation) = creation else {
            let found = self.find(name)?;
            if found.export != self.entered {
                return Err(Status::ISDIR);
            }
            return Ok(Opened::existing(found.node));
        };
        match creation {
            Creation::Unchecked(unread) => {
                let wanted = self.understand(unread)?;
                match self.make_file(directory, name, &wanted, false) {
                    Err(Status::EXIST) => {
                        let node = self.look_up_taken(directory, name)?.node;
                        let truncate = wanted.truncates();
                        let set = if truncate {
                            Wanted::only_size()
                        } else {
                            attributes::Bitmap::default()
                        };
                        Ok(Opened {
                            set,
                            truncate,
                            ..Opened::existing(node)
                        })
                    }
                    made => made,
                }
            }
            Creation::Guarded(unread) => {
                let wanted = self.understand(unread)?;
                self.make_file(directory, name, &wanted, true)
            }
            Creation::Exclusive(verifier, unread) => {
                let mut wanted = match unread {
                    Some(unread) => self.understand(unread)?,
                    None => Wanted::default(),
                };
                wanted.check_exclusive()?;
                // Until its client has set the other attributes.
                wanted.changes.mode.get_or_insert(MODE_EXCLUSIVE);
                let (accessed, modified) = verifier_times(verifier);
                wanted.changes.accessed = Some(SetTime::To(accessed));
                wanted.changes.modified = Some(SetTime::To(modified));
                match self.make_file(directory, name, &wanted, false) {
                    Err(Status::EXIST) => {
                        let object = self.look_up_taken(directory, name)?;
                        let (node, found) = (object.node, object.attributes);
                        if (found.accessed, found.modified) != (accessed, modified) {
                            return Err(Status::EXIST);
                        }
                        // The creator owns the file. Other users could have guessed its times.
                        Ok(Opened {
                            set: wanted.bitmap_of_exclusive(),
                            is_own: true,
                            ..Opened::existing(node)
                        })
                    }
                    made => made.map(|made| Opened {
                        set: wanted.bitmap_of_exclusive(),
                        ..made
                    }),
                }
            }
        }
    }

    /// Creates a file. With `is_once`, only a receipt can show that an earlier server has created
    /// it.
    fn make_file(
        &mut self,
        directory: Node,
        name: &[u8],
        wanted: &Wanted,
        is_once: bool,
    ) -> Result<Opened, Status> {
        self.check_new_name(directory, name)?;
        let make = |files: &dyn FileSystem, who: &Identity, receipt: Option<&Receipt>| {
            wanted.make(files, who, (directory, name), Make::File, receipt)
        };
        // A version 4.0 client is unknown after a restart, so that its call was already refused.
        let made = match is_once && self.minor > 0 {
            true => self.once(make)?,
            false => Some(make(self.files(), &self.who, None)?),
        };
        let node = match &made {
            Some(made) => made.object.node,
            None => self.look_up_own(directory, name)?.node,
        };
        Ok(Opened {
            is_new: true,
            made: made.map(|made| made.directory),
            set: wanted.bitmap,
            ..Opened::existing(node)
        })
    }

    pub(super) fn downgrade(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let id = self.read_raw_stateid(reader)?;
        let sequence = reader.u32()?;
        let (asked, deny) = (reader.u32()?, reader.u32()?);
        let node = self.node()?;
        self.check_creator(&id)?;
        if self.is_repeated(&OwnerSource::State(&id), (sequence, Purpose::Other), out)? {
            return Ok(());
        }
        let access = self.access_of(asked);
        if access == 0 || access & !(READ | WRITE) != 0 || deny & !(READ | WRITE) != 0 {
            return Err(Status::INVAL);
        }
        let id =
            self.service
                .state()
                .downgrade(self.client, &id, self.file(node), (access, deny))?;
        self.answer_state(id, out);
        Ok(())
    }

    pub(super) fn close(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let sequence = reader.u32()?;
        let id = self.read_raw_stateid(reader)?;
        let node = self.node()?;
        self.check_creator(&id)?;
        if self.is_repeated(&OwnerSource::State(&id), (sequence, Purpose::Other), out)? {
            return Ok(());
        }
        self.service
            .state()
            .close(self.client, &id, self.file(node))?;
        self.answer_state(CLOSED, out);
        Ok(())
    }

    pub(super) fn answer_state(&mut self, id: StateId, out: &mut Writer) {
        out.u32(id.sequence);
        out.fixed(&id.other);
        self.stateid = Some(id);
    }

    pub(super) fn lock(&mut self, reader: &mut Reader<'_>, out: &mut Writer) -> Result<(), Status> {
        let is_write = read_lock_type(reader)?;
        let is_reclaim = reader.boolean()?;
        let (offset, length) = (reader.u64()?, reader.u64()?);
        let opener_sequence = match reader.boolean()? {
            true => Some(reader.u32()?),
            false => None,
        };
        let id = self.read_raw_stateid(reader)?;
        let sequence = reader.u32()?;
        let owner = match opener_sequence {
            Some(_) => Some(read_owner(reader)?),
            None => None,
        };
        let node = self.node()?;
        let turn = (opener_sequence.unwrap_or(sequence), Purpose::Other);
        self.check_creator(&id)?;
        if self.is_repeated(&OwnerSource::State(&id), turn, out)? {
            return Ok(());
        }
        self.regular(node)?;
        if let Some((client, owner)) = owner {
            self.check_lock_seqid(client, owner, sequence)?;
        }
        if is_reclaim {
            self.check_reclaim(ReclaimableState::LOCKS)?;
        } else {
            let now_ms = self.caller.now_ms;
            let mut state = self.service.state();
            state.check_done(self.client)?;
            state.check_grace(self.client, New::Lock, now_ms)?;
        }
        let span = Span::new(offset, length, is_write)?;
        let file = self.file(node);
        let (client, now_ms) = (self.client, self.caller.now_ms);
        let principal = self.proven_principal();
        let mut state = self.service.state();
        let locked = match owner {
            Some((_, owner)) => {
                let locked = state.lock_as(client, &id, owner, file, span, now_ms);
                state.end_lock_seqid(client, owner, sequence);
                if let Ok(lock) = &locked {
                    state.record_creator(client, lock, principal);
                }
                locked
            }
            None => state.lock_more(client, &id, file, span, now_ms),
        };
        drop(state);
        match locked {
            Ok(id) => {
                self.answer_state(id, out);
                Ok(())
            }
            Err(NoLock::Denied(conflict)) => Err(write_conflict(&conflict, out)),
            Err(NoLock::Failed(status)) => Err(status),
        }
    }

    /// Checks that a lock owner may lock for an open with this seqid, in NFS 4.0.
    fn check_lock_seqid(&self, client: u64, owner: &[u8], sequence: u32) -> Result<(), Status> {
        if self.minor > 0 {
            return Ok(());
        }
        let mut state = self.service.state();
        state.check_client(client, self.caller.now_ms)?;
        if client != self.client {
            return Err(Status::BAD_STATEID);
        }
        state.check_lock_seqid(client, owner, sequence)
    }

    pub(super) fn test_lock(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let is_write = read_lock_type(reader)?;
        let (offset, length) = (reader.u64()?, reader.u64()?);
        let (client, owner) = read_owner(reader)?;
        let node = self.node()?;
        self.regular(node)?;
        if self.minor == 0 {
            let now_ms = self.caller.now_ms;
            self.service.state().check_client(client, now_ms)?;
            self.client = client;
        }
        let span = Span::new(offset, length, is_write)?;
        let now_ms = self.caller.now_ms;
        self.service.state().check_done(self.client)?;
        let found =
            self.service
                .state()
                .conflict(self.client, owner, self.file(node), span, now_ms);
        found.map_err(|conflict| write_conflict(&conflict, out))
    }

    pub(super) fn unlock(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let is_write = read_lock_type(reader)?;
        let sequence = reader.u32()?;
        let id = self.read_raw_stateid(reader)?;
        let (offset, length) = (reader.u64()?, reader.u64()?);
        let node = self.node()?;
        self.check_creator(&id)?;
        if self.is_repeated(&OwnerSource::State(&id), (sequence, Purpose::Other), out)? {
            return Ok(());
        }
        let span = Span::new(offset, length, is_write)?;
        let file = self.file(node);
        let id = self.service.state().unlock(self.client, &id, file, span)?;
        self.answer_state(id, out);
        Ok(())
    }
}

/// Writes `open_delegation4`: none. A client with a delegation hint receives the reason.
fn write_no_delegation(wishes: u32, out: &mut Writer) {
    const NONE: u32 = 0;
    const NONE_EXT: u32 = 3;
    const HINT: u32 = 0xff00;
    const NO_DELEGATION: u32 = 0x400;
    const CANCEL: u32 = 0x500;
    const NOT_WANTED: u32 = 0;
    const NOT_SUPPORTED: u32 = 3;
    const CANCELLED: u32 = 7;
    let why = match wishes & HINT {
        0 => return out.u32(NONE),
        NO_DELEGATION => NOT_WANTED,
        CANCEL => CANCELLED,
        _ => NOT_SUPPORTED,
    };
    out.u32(NONE_EXT);
    out.u32(why);
}

/// Returns the times of a file from an exclusive create. They hold its verifier, so that a
/// retransmission is recognized.
fn verifier_times(verifier: &[u8; 8]) -> (Time, Time) {
    let half = |at: usize| {
        let bytes = [
            verifier[at],
            verifier[at + 1],
            verifier[at + 2],
            verifier[at + 3],
        ];
        Time {
            seconds: u32::from_be_bytes(bytes).into(),
            nanoseconds: 0,
        }
    };
    (half(0), half(4))
}

/// Returns whether it is a write lock. A blocking type is handled like a non-blocking one; the
/// client retries.
fn read_lock_type(reader: &mut Reader<'_>) -> Result<bool, Status> {
    match reader.u32()? {
        1 | 3 => Ok(false),
        2 | 4 => Ok(true),
        _ => Err(Status::BADXDR),
    }
}

/// Reads client ID and owner.
fn read_owner<'a>(reader: &mut Reader<'a>) -> Result<(u64, &'a [u8]), Status> {
    Ok((reader.u64()?, reader.opaque(OWNER_BYTES_MAX)?))
}

fn write_conflict(conflict: &Conflict, out: &mut Writer) -> Status {
    out.u64(conflict.offset);
    out.u64(conflict.length);
    out.u32(if conflict.is_write { 2 } else { 1 });
    out.u64(conflict.client);
    out.opaque(&conflict.owner);
    Status::DENIED
}
