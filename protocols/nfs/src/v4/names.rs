//! Operations on handles, attributes and names.

use super::attributes::{self, Bitmap};
use super::compound::Call;
use super::handle;
use super::numbers::Status;
use super::opens::WRITE;
use crate::file_system::{Kind, Make, Node};
use crate::xdr::{Reader, Writer};

/// Bytes of a name or of a link's text that are read.
const NAME_BYTES_MAX: usize = 4096;
/// Entries of a directory that are looked at together.
const ENTRIES_MAX: usize = 256;
/// Cookies that mean `.` and `..` elsewhere, and are never given out.
const RESERVED_COOKIES: std::ops::RangeInclusive<u64> = 1..=2;
/// Bytes of a `READDIR` answer without entries.
const EMPTY_DIRECTORY_BYTES: usize = 16;

impl Call<'_> {
    pub(super) fn put_handle(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        let node = self.read_handle(reader)?;
        self.go_to(node);
        Ok(())
    }

    pub(super) fn put_root(&mut self) -> Result<(), Status> {
        self.go_to(self.files().root());
        Ok(())
    }

    pub(super) fn get_handle(&mut self, out: &mut Writer) -> Result<(), Status> {
        out.opaque(&handle::encode(self.files().identity(), self.node()?));
        Ok(())
    }

    pub(super) fn save_handle(&mut self) -> Result<(), Status> {
        self.saved = Some(self.node()?);
        self.saved_stateid = self.stateid;
        Ok(())
    }

    pub(super) fn restore_handle(&mut self) -> Result<(), Status> {
        let node = self.saved.ok_or(Status::NOFILEHANDLE)?;
        self.current = Some(node);
        self.stateid = self.saved_stateid;
        Ok(())
    }

    fn kind(&self, node: Node) -> Result<Kind, Status> {
        Ok(self.files().attributes(node)?.kind)
    }

    fn directory(&self) -> Result<Node, Status> {
        let node = self.node()?;
        match self.kind(node)? {
            Kind::Directory => Ok(node),
            _ => Err(Status::NOTDIR),
        }
    }

    /// A directory, or the error that says what it is instead.
    pub(super) fn check_searchable(&self, node: Node) -> Result<(), Status> {
        match self.kind(node)? {
            Kind::Directory => Ok(()),
            Kind::Link => Err(Status::SYMLINK),
            _ => Err(Status::NOTDIR),
        }
    }

    pub(super) fn look_up(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        let name = reader.opaque(NAME_BYTES_MAX)?;
        let node = self.node()?;
        self.check_searchable(node)?;
        let name = check_name(name)?;
        let found = self.files().look_up(&self.who, node, name)?;
        self.go_to(found);
        Ok(())
    }

    pub(super) fn look_up_parent(&mut self) -> Result<(), Status> {
        let node = self.node()?;
        self.check_searchable(node)?;
        if node == self.files().root() {
            return Err(Status::NOENT);
        }
        let parent = self.files().parent(&self.who, node)?;
        self.go_to(parent);
        Ok(())
    }

    pub(super) fn get_attributes(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let wanted = Bitmap::read(reader)?;
        let node = self.node()?;
        wanted.check_readable()?;
        let attributes = self.files().attributes(node)?;
        self.write_attributes(node, &wanted, &attributes, out)
    }

    pub(super) fn set_attributes(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let id = self.read_stateid(reader)?;
        let unread = attributes::read(reader)?;
        let node = self.node()?;
        let wanted = unread.understand(self.minor)?;
        if wanted.changes.size.is_some() {
            self.regular(node)?;
            self.authorize(node, &id, WRITE)?;
        }
        self.files()
            .set_attributes(&self.who, node, &wanted.changes)?;
        wanted.bitmap.write(out);
        Ok(())
    }

    pub(super) fn verify(
        &mut self,
        reader: &mut Reader<'_>,
        wants_same: bool,
    ) -> Result<(), Status> {
        let unread = attributes::read(reader)?;
        let node = self.node()?;
        let attributes = self.files().attributes(node)?;
        let is_same = self.with_source(node, &attributes, |source| unread.is_same(source))?;
        match (is_same, wants_same) {
            (true, false) => Err(Status::SAME),
            (false, true) => Err(Status::NOT_SAME),
            _ => Ok(()),
        }
    }

    pub(super) fn access(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        const READ: u32 = 0x01;
        const LOOKUP: u32 = 0x02;
        const MODIFY: u32 = 0x04;
        const EXTEND: u32 = 0x08;
        const DELETE: u32 = 0x10;
        const EXECUTE: u32 = 0x20;
        const READ_EXTENDED: u32 = 0x40;
        const WRITE_EXTENDED: u32 = 0x80;
        const LIST_EXTENDED: u32 = 0x100;
        let asked = reader.u32()?;
        let node = self.node()?;
        let is_directory = self.kind(node)? == Kind::Directory;
        let may = self.files().permissions(&self.who, node)?;
        let known = match is_directory {
            true => READ | LOOKUP | MODIFY | EXTEND | DELETE,
            false => READ | MODIFY | EXTEND | EXECUTE,
        };
        let known = if self.minor < 2 {
            known
        } else {
            known | READ_EXTENDED | WRITE_EXTENDED | LIST_EXTENDED
        };
        let mut granted = 0;
        if may.read {
            granted |= READ | READ_EXTENDED | LIST_EXTENDED;
        }
        if may.write {
            granted |= MODIFY | EXTEND | DELETE | WRITE_EXTENDED;
        }
        if may.execute {
            granted |= LOOKUP | EXECUTE;
        }
        out.u32(asked & known);
        out.u32(asked & known & granted);
        Ok(())
    }

    pub(super) fn security_of_name(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let raw_name = reader.opaque(NAME_BYTES_MAX)?;
        let directory = self.directory()?;
        let name = check_name(raw_name)?;
        self.files().look_up(&self.who, directory, name)?;
        self.write_security(out);
        Ok(())
    }

    pub(super) fn security(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let style = reader.u32()?;
        let node = self.node()?;
        match style {
            0 => {}
            1 => {
                let directory = self.directory()?;
                if node == self.files().root() {
                    return Err(Status::NOENT);
                }
                self.files().parent(&self.who, directory)?;
            }
            _ => return Err(Status::BADXDR),
        }
        self.write_security(out);
        Ok(())
    }

    /// The ways to secure calls that are taken. The current handle is used up (RFC 8881, 2.6.3.1.1.8).
    fn write_security(&mut self, out: &mut Writer) {
        for word in [2, crate::rpc::AUTH_SYS, crate::rpc::AUTH_NONE] {
            out.u32(word);
        }
        self.current = None;
        self.stateid = None;
    }

    /// `change_info4` of a directory whose change attribute was `before`. Others may have changed it, too.
    pub(super) fn write_change(
        &self,
        directory: Node,
        before: u64,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let after = self.files().attributes(directory)?.change;
        out.boolean(false);
        out.u64(before);
        out.u64(after);
        Ok(())
    }

    pub(super) fn create(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let kind = reader.u32()?;
        let what = match kind {
            2 => Some(Make::Directory),
            3 => Some(Make::BlockDevice(reader.u32()?, reader.u32()?)),
            4 => Some(Make::CharacterDevice(reader.u32()?, reader.u32()?)),
            5 => Some(Make::Link(reader.opaque(NAME_BYTES_MAX)?)),
            6 => Some(Make::Socket),
            7 => Some(Make::Pipe),
            _ => None,
        };
        let raw_name = reader.opaque(NAME_BYTES_MAX)?;
        let unread = attributes::read(reader)?;
        let directory = self.directory()?;
        let name = check_name(raw_name)?;
        let what = what.ok_or(Status::BADTYPE)?;
        if matches!(what, Make::Link(b"")) {
            return Err(Status::INVAL);
        }
        let wanted = unread.understand(self.minor)?;
        let before = self.files().attributes(directory)?.change;
        let node = self
            .files()
            .make(&self.who, directory, name, what, &wanted.changes)?;
        self.write_change(directory, before, out)?;
        wanted.bitmap.write(out);
        self.go_to(node);
        Ok(())
    }

    pub(super) fn remove(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let raw_name = reader.opaque(NAME_BYTES_MAX)?;
        let directory = self.directory()?;
        let name = check_name(raw_name)?;
        let before = self.files().attributes(directory)?.change;
        self.files().remove(&self.who, directory, name)?;
        self.write_change(directory, before, out)
    }

    pub(super) fn rename(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let (old, new) = (
            reader.opaque(NAME_BYTES_MAX)?,
            reader.opaque(NAME_BYTES_MAX)?,
        );
        let to = self.directory()?;
        let from = self.saved()?;
        if self.kind(from)? != Kind::Directory {
            return Err(Status::NOTDIR);
        }
        let (old, new) = (check_name(old)?, check_name(new)?);
        let before_from = self.files().attributes(from)?.change;
        let before_to = self.files().attributes(to)?.change;
        let renamed = self.files().rename(&self.who, (from, old), (to, new));
        renamed.map_err(|error| match Status::from(error) {
            Status::NOTEMPTY => Status::EXIST,
            other => other,
        })?;
        self.write_change(from, before_from, out)?;
        self.write_change(to, before_to, out)
    }

    pub(super) fn link(&mut self, reader: &mut Reader<'_>, out: &mut Writer) -> Result<(), Status> {
        let raw_name = reader.opaque(NAME_BYTES_MAX)?;
        let directory = self.directory()?;
        let node = self.saved()?;
        let name = check_name(raw_name)?;
        let before = self.files().attributes(directory)?.change;
        self.files().link(&self.who, node, directory, name)?;
        self.write_change(directory, before, out)
    }

    pub(super) fn read_link(&mut self, out: &mut Writer) -> Result<(), Status> {
        let node = self.node()?;
        if self.kind(node)? != Kind::Link {
            return Err(Status::WRONG_TYPE);
        }
        out.opaque(&self.files().read_link(node)?);
        Ok(())
    }

    pub(super) fn read_directory(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let mut cookie = reader.u64()?;
        let _verifier: [u8; 8] = reader.array()?;
        let _names_bytes_max = reader.u32()?;
        let bytes_max = reader.u32()? as usize;
        let wanted = Bitmap::read(reader)?;
        let directory = self.directory()?;
        wanted.check_readable()?;
        if RESERVED_COOKIES.contains(&cookie) {
            return Err(Status::BAD_COOKIE);
        }
        let start = out.len();
        let bytes_max = bytes_max.min(self.room(start));
        if bytes_max < EMPTY_DIRECTORY_BYTES {
            return Err(Status::TOOSMALL);
        }
        out.u64(0);
        let mut is_empty = true;
        loop {
            let (entries, is_last) =
                self.files()
                    .read_directory(&self.who, directory, cookie, ENTRIES_MAX)?;
            for entry in entries {
                let before = out.len();
                out.boolean(true);
                out.u64(entry.cookie);
                out.opaque(&entry.name);
                match self.files().attributes(entry.node) {
                    Ok(attributes) => {
                        self.write_attributes(entry.node, &wanted, &attributes, out)?
                    }
                    // It was removed meanwhile.
                    Err(_) if !wanted.tells_errors() => {
                        out.truncate(before);
                        continue;
                    }
                    Err(error) => attributes::write_error(out, error.into()),
                }
                if out.len() - start + 8 > bytes_max {
                    out.truncate(before);
                    if is_empty {
                        return Err(Status::TOOSMALL);
                    }
                    out.boolean(false);
                    out.boolean(false);
                    return Ok(());
                }
                is_empty = false;
                cookie = entry.cookie;
            }
            if is_last {
                out.boolean(false);
                out.boolean(true);
                return Ok(());
            }
        }
    }
}

/// The name, if it may stand in a directory.
pub(super) fn check_name(name: &[u8]) -> Result<&[u8], Status> {
    if name.is_empty() || std::str::from_utf8(name).is_err() {
        return Err(Status::INVAL);
    }
    if name.contains(&b'/') || name.contains(&0) {
        return Err(Status::BADCHAR);
    }
    if matches!(name, b"." | b"..") {
        return Err(Status::BADNAME);
    }
    Ok(name)
}
