//! Operations on file contents.

use file_system::{Changed, Content, FileError, Node};

use super::attributes::PAYLOAD_BYTES_MAX;
use super::compound::Call;
use super::grace::New;
use super::numbers::Status;
use super::opens::{APPENDS, READ, StateId, WRITE};
use crate::objects;
use crate::xdr::{Reader, Writer};

/// Bytes that one `COPY` copies before its reply. The client requests the rest.
const COPY_BYTES_MAX: u64 = 64 << 20;
/// Bytes that are copied at once.
const PIECE_BYTES: u64 = 1 << 20;
/// Segments of one `READ_PLUS` reply.
const SEGMENTS_MAX: usize = 64;
/// Bytes of a segment's header.
const SEGMENT_BYTES: usize = 20;
/// `FILE_SYNC4`.
const FILE_SYNC: u32 = 2;
/// `UNSTABLE4`.
const UNSTABLE: u32 = 0;

/// Source file and offset, destination file and offset, length.
type Ranges = ((Node, u64), (Node, u64), u64);

impl Call<'_> {
    /// Checks `access` to a file by open, by lock or, with a special stateid, by the user's
    /// permissions.
    pub(super) fn authorize(&self, node: Node, id: &StateId, access: u32) -> Result<(), Status> {
        match self.only_appends(node, id, access)? {
            true => Err(Status::ACCESS),
            false => Ok(()),
        }
    }

    /// Checks access to a file. Returns whether it may only append.
    fn only_appends(&self, node: Node, id: &StateId, access: u32) -> Result<bool, Status> {
        let mut passes_denials = *id == StateId::BYPASS && access == READ;
        let is_special = *id == StateId::ANONYMOUS || *id == StateId::BYPASS;
        let mut was_opened_so = false;
        if !is_special {
            let state = self.service.state();
            let found = state.find(self.client, id)?;
            let opened = state.opened_for(&found, &self.who);
            drop(state);
            if found.file != self.file(node) {
                return Err(Status::BAD_STATEID);
            }
            passes_denials = found.access & access == access;
            was_opened_so = access == WRITE && found.only_appends;
            // An opener retains its access when permissions change. A stateid proves nothing about
            // other users: a client has one for all its users, and it is visible on the network.
            if self.minor > 0 && passes_denials && opened & access == access {
                return Ok(access == WRITE && opened & APPENDS != 0);
            }
            // Clients read around the bytes that they write (RFC 7530, 9.1.6).
            if !passes_denials && (self.minor > 0 || access != READ) {
                return Err(Status::OPENMODE);
            }
        }
        let may = self.files().permissions(&self.who, node)?;
        let is_owner = self.files().attributes(node)?.uid == self.who.uid;
        let allowed = if access == READ {
            may.read || may.execute
        } else {
            may.write || may.append
        };
        if !allowed && !is_owner {
            return Err(Status::ACCESS);
        }
        let only_appends = was_opened_so || (access == WRITE && !may.write && !is_owner);
        if passes_denials {
            return Ok(only_appends);
        }
        let mut state = self.service.state();
        // A client may reclaim an open that denies it.
        state.check_grace(self.client, New::Open, self.caller.now_ms)?;
        let checked = state.check_denied(self.file(node), access, self.caller.now_ms);
        drop(state);
        // A client may have lost the open that denied it. That is stored before the change: an error after it would let
        // the client repeat it.
        self.service.keep_holders(self.caller.now_ms)?;
        checked.map(|()| only_appends)
    }

    /// Appends to a file for a user without permission to modify it. With read permission a user
    /// may rewrite equal data, because clients write whole pages.
    fn append(&self, node: Node, offset: u64, bytes: &[u8]) -> Result<Changed, Status> {
        let may = self.files().permissions(&self.who, node)?;
        Ok(self.files().append(node, offset, bytes, may.read)?)
    }

    fn verifier(&self) -> [u8; 8] {
        self.service.verifier()
    }

    pub(super) fn read(&mut self, reader: &mut Reader<'_>, out: &mut Writer) -> Result<(), Status> {
        let id = self.read_stateid(reader)?;
        let (offset, count) = (reader.u64()?, reader.u32()?);
        let node = self.node()?;
        self.of_file(node, self.authorize(node, &id, READ))?;
        let at = out.len();
        out.boolean(false);
        let count = count.min(PAYLOAD_BYTES_MAX) as usize;
        let read = objects::read_into(self.files(), (node, offset, count), out);
        let read = self.of_file(node, read.map_err(Status::from))?;
        self.moved.read(read.length);
        out.set_u32(at, read.is_end.into());
        Ok(())
    }

    /// Replaces an error by the error for the object's type if it is not a regular file. The type
    /// is checked only then, because the check costs a tenth of a small read.
    fn of_file<T>(&self, node: Node, outcome: Result<T, Status>) -> Result<T, Status> {
        outcome.map_err(|status| self.regular(node).err().unwrap_or(status))
    }

    pub(super) fn write(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let id = self.read_stateid(reader)?;
        let (offset, stability) = (reader.u64()?, reader.u32()?);
        let bytes = reader.opaque(PAYLOAD_BYTES_MAX as usize)?;
        let node = self.node()?;
        if stability > FILE_SYNC {
            return Err(Status::BADXDR);
        }
        let only_appends = self.of_file(node, self.only_appends(node, &id, WRITE))?;
        match bytes.is_empty() {
            true => self.regular(node)?,
            false => {
                let written = match only_appends {
                    true => self.append(node, offset, bytes),
                    false => {
                        let written = self.files().write(node, offset, bytes);
                        written.map_err(Status::from)
                    }
                };
                self.of_file(node, written)?;
            }
        }
        // An append must be durable: a client could not repeat it after a crash.
        let stability = if only_appends { FILE_SYNC } else { stability };
        if stability != UNSTABLE {
            self.to_commit = Some(Some(node));
        }
        self.moved.wrote(bytes.len() as u64);
        out.u32(bytes.len() as u32);
        out.u32(if stability == UNSTABLE {
            UNSTABLE
        } else {
            FILE_SYNC
        });
        out.fixed(&self.verifier());
        Ok(())
    }

    pub(super) fn commit(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let (offset, count) = (reader.u64()?, reader.u32()?);
        let node = self.node()?;
        self.regular(node)?;
        if offset.checked_add(count.into()).is_none() {
            return Err(Status::INVAL);
        }
        self.to_commit = Some(Some(node));
        out.fixed(&self.verifier());
        Ok(())
    }

    /// Reads stateid and range of `ALLOCATE` and `DEALLOCATE`.
    fn read_range(&mut self, reader: &mut Reader<'_>) -> Result<(Node, u64, u64), Status> {
        let id = self.read_stateid(reader)?;
        let (offset, length) = (reader.u64()?, reader.u64()?);
        let node = self.node()?;
        self.regular(node)?;
        self.authorize(node, &id, WRITE)?;
        if length == 0 || offset.checked_add(length).is_none() {
            return Err(Status::INVAL);
        }
        Ok((node, offset, length))
    }

    pub(super) fn allocate(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        let (node, offset, length) = self.read_range(reader)?;
        self.to_commit = Some(Some(node));
        Ok(self.files().allocate(node, offset, length)?)
    }

    pub(super) fn deallocate(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        let (node, offset, length) = self.read_range(reader)?;
        self.to_commit = Some(Some(node));
        Ok(self.files().deallocate(node, offset, length)?)
    }

    pub(super) fn seek(&mut self, reader: &mut Reader<'_>, out: &mut Writer) -> Result<(), Status> {
        let id = self.read_stateid(reader)?;
        let offset = reader.u64()?;
        let content = match reader.u32()? {
            0 => Content::Data,
            1 => Content::Hole,
            _ => return Err(Status::UNION_NOTSUPP),
        };
        let node = self.node()?;
        self.regular(node)?;
        self.authorize(node, &id, READ)?;
        let size = self.files().attributes(node)?.size;
        if offset >= size {
            return Err(Status::NXIO);
        }
        let found = match self.files().seek(node, offset, content) {
            Ok(found) => found,
            Err(FileError::BeyondEnd) => size,
            Err(error) => return Err(error.into()),
        };
        out.boolean(found >= size);
        out.u64(found);
        Ok(())
    }

    pub(super) fn read_plus(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let id = self.read_stateid(reader)?;
        let (offset, count) = (reader.u64()?, reader.u32()?);
        let node = self.node()?;
        self.regular(node)?;
        self.authorize(node, &id, READ)?;
        let size = self.files().attributes(node)?.size;
        let end = offset
            .saturating_add(count.min(PAYLOAD_BYTES_MAX).into())
            .min(size);
        let head = out.len();
        out.boolean(false);
        out.u32(0);
        let mut segments = 0;
        let mut at = offset;
        while at < end && segments < SEGMENTS_MAX && self.room(out.len()) > SEGMENT_BYTES {
            let data = match self.files().seek(node, at, Content::Data) {
                Ok(data) => data.min(end),
                Err(FileError::BeyondEnd) => end,
                Err(error) => return Err(error.into()),
            };
            if data > at {
                out.u32(1);
                out.u64(at);
                out.u64(data - at);
                at = data;
            } else {
                let hole = self.files().seek(node, at, Content::Hole)?.min(end);
                let before = out.len();
                out.u32(0);
                out.u64(at);
                let room = self.room(out.len()).saturating_sub(SEGMENT_BYTES);
                let count = room.min((hole - at) as usize);
                // The data is copied, not lent, because the file is then queried for the next
                // segment.
                let length = out.opaque_with(count, |bytes| {
                    self.files().read_onto(node, at, count, bytes).map(drop)
                })?;
                if length == 0 {
                    out.truncate(before);
                    break;
                }
                self.moved.read(length);
                at += length as u64;
            }
            segments += 1;
        }
        // Counted even if there are only holes.
        self.moved.read(0);
        out.set_u32(head, (at >= size).into());
        out.set_u32(head + 4, segments as u32);
        Ok(())
    }

    /// Reads source and destination of `COPY` and `CLONE`, with offsets and the available length.
    fn read_ranges(&mut self, reader: &mut Reader<'_>) -> Result<Ranges, Status> {
        let (from_id, to_id) = (self.read_stateid(reader)?, self.read_stateid(reader)?);
        let (from_offset, to_offset, count) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (to, from) = (self.node()?, self.saved()?);
        self.regular(from)?;
        self.regular(to)?;
        self.authorize(from, &from_id, READ)?;
        self.authorize(to, &to_id, WRITE)?;
        let size = self.files().attributes(from)?.size;
        let there = size.checked_sub(from_offset).ok_or(Status::INVAL)?;
        let length = if count == 0 { there } else { count };
        if length > there || to_offset.checked_add(length).is_none() {
            return Err(Status::INVAL);
        }
        let overlaps = from_offset < to_offset + length && to_offset < from_offset + length;
        if from == to && overlaps {
            return Err(Status::INVAL);
        }
        Ok(((from, from_offset), (to, to_offset), length))
    }

    pub(super) fn copy(&mut self, reader: &mut Reader<'_>, out: &mut Writer) -> Result<(), Status> {
        let (from, to, length) = self.read_ranges(reader)?;
        let _consecutive = reader.boolean()?;
        let _synchronous = reader.boolean()?;
        if reader.u32()? != 0 {
            return Err(Status::NOTSUPP);
        }
        let length = length.min(COPY_BYTES_MAX);
        let mut buffer = vec![0; length.min(PIECE_BYTES) as usize];
        let mut done = 0;
        while done < length {
            let piece = (length - done).min(PIECE_BYTES) as usize;
            let read = self
                .files()
                .read(from.0, from.1 + done, &mut buffer[..piece])?;
            if read.length == 0 {
                break;
            }
            let bytes = &buffer[..read.length];
            self.files().write(to.0, to.1 + done, bytes)?;
            done += read.length as u64;
        }
        self.moved.wrote(done);
        out.u32(0);
        out.u64(done);
        out.u32(UNSTABLE);
        out.fixed(&self.verifier());
        out.boolean(true);
        out.boolean(true);
        Ok(())
    }

    pub(super) fn clone_range(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        let (from, to, length) = self.read_ranges(reader)?;
        self.to_commit = Some(Some(to.0));
        Ok(self.files().clone_range(from, to, length)?)
    }
}
