//! For tests: files in memory, which one user may only append to.

use std::sync::Arc;

use file_system::memory::MemoryFileSystem;
use file_system::{
    Attributes, Changed, Done, Entry, FileError, FileSystem, FileSystemId, Guard, Identity, Limits,
    Made, Make, Node, Object, Permissions, Place, Read, Receipt, Removable, Renamed, SetAttributes,
    Statistics,
};

/// Who may append.
pub(crate) const WHO: u32 = 1000;

/// See above.
pub(crate) struct AppendOnly {
    pub files: Arc<MemoryFileSystem>,
    /// Whether that user may read, too.
    pub reads: bool,
}

impl FileSystem for AppendOnly {
    fn permissions(&self, who: &Identity, node: Node) -> Done<Permissions> {
        let may = self.files.permissions(who, node)?;
        Ok(match who.uid {
            WHO => Permissions {
                read: self.reads,
                write: false,
                append: true,
                ..may
            },
            _ => may,
        })
    }

    fn append(&self, node: Node, offset: u64, bytes: &[u8], repeats: bool) -> Done<Changed> {
        let size = self.attributes(node)?.size;
        let before = size.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let mut there = vec![0; before];
        self.files.read(node, offset, &mut there)?;
        match there[..] == bytes[..before] && (before == 0 || repeats) {
            true => self.files.write(node, offset, bytes),
            false => Err(FileError::Access),
        }
    }

    fn id(&self) -> FileSystemId {
        self.files.id()
    }

    fn limits(&self) -> Limits {
        self.files.limits()
    }

    fn root(&self) -> Node {
        self.files.root()
    }

    fn statistics(&self) -> Done<Statistics> {
        self.files.statistics()
    }

    fn attributes(&self, node: Node) -> Done<Attributes> {
        self.files.attributes(node)
    }

    fn object(&self, directory: Node, object: u64) -> Done<Object> {
        self.files.object(directory, object)
    }

    fn set_attributes(
        &self,
        who: &Identity,
        node: Node,
        changes: &SetAttributes,
        guard: &Guard,
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        self.files
            .set_attributes(who, node, changes, guard, receipt)
    }

    fn look_up(&self, who: &Identity, directory: Node, name: &[u8]) -> Done<Object> {
        self.files.look_up(who, directory, name)
    }

    fn parent(&self, who: &Identity, directory: Node) -> Done<Node> {
        self.files.parent(who, directory)
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
        self.files
            .make(who, directory, name, what, attributes, receipt)
    }

    fn remove(
        &self,
        who: &Identity,
        directory: Node,
        name: &[u8],
        what: Removable,
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        self.files.remove(who, directory, name, what, receipt)
    }

    fn rename(
        &self,
        who: &Identity,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        receipt: Option<&Receipt>,
    ) -> Done<Renamed> {
        self.files.rename(who, from, to, receipt)
    }

    fn link(
        &self,
        who: &Identity,
        node: Node,
        directory: Node,
        name: &[u8],
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        self.files.link(who, node, directory, name, receipt)
    }

    fn receipt(&self, place: &Place) -> Option<Receipt> {
        self.files.receipt(place)
    }

    fn read_link(&self, node: Node) -> Done<Vec<u8>> {
        self.files.read_link(node)
    }

    fn read_directory(
        &self,
        who: &Identity,
        directory: Node,
        cookie: u64,
        visit: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Done<bool> {
        self.files.read_directory(who, directory, cookie, visit)
    }

    fn read(&self, node: Node, offset: u64, into: &mut [u8]) -> Done<Read> {
        self.files.read(node, offset, into)
    }

    fn write(&self, node: Node, offset: u64, bytes: &[u8]) -> Done<Changed> {
        self.files.write(node, offset, bytes)
    }

    fn commit(&self, node: Option<Node>) -> Done {
        self.files.commit(node)
    }

    fn hold(&self, node: Node) -> Done {
        self.files.hold(node)
    }

    fn release(&self, node: Node) {
        self.files.release(node);
    }
}
