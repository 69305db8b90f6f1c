//! Snapshots of a file system, for protocols that present them to clients.

use std::sync::Arc;

use crate::{Done, FileSystem, Time};

/// Whether clients find snapshots in a directory of the file system (`snapdir`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// There is no such directory.
    Disabled,
    /// It exists, and is not listed.
    Hidden,
    /// It is listed.
    Visible,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot<'a> {
    /// Its name, without the prefix of the file system.
    pub name: &'a [u8],
    /// Its number, which is stable across heads and renames.
    pub number: u64,
    /// The position after it.
    pub cursor: u64,
}

/// The snapshots of an open file system.
pub trait Snapshots: Send + Sync {
    /// Whether they are visible to clients.
    fn visibility(&self) -> Visibility;
    /// When one was last created, renamed or destroyed.
    fn changed(&self) -> Done<Time>;
    /// Visits those from `cursor` on until `visit` refuses one. Returns whether the last one was accepted.
    fn list(&self, cursor: u64, visit: &mut dyn FnMut(Snapshot<'_>) -> bool) -> Done<bool>;
    /// The number of the snapshot with this name.
    fn find(&self, name: &[u8]) -> Done<u64>;
    /// The files of a snapshot, which is opened if necessary. Some are closed after a short time, and all when another
    /// operation requires it: then calls return [`FileError::Gone`](crate::FileError::Gone), and this call reports the
    /// new state: [`FileError::Stale`](crate::FileError::Stale), [`FileError::NotReady`](crate::FileError::NotReady),
    /// or its files again.
    fn open(&self, number: u64) -> Done<Arc<dyn FileSystem>>;
}
