//! Identities of objects that outlive restarts and takeovers. A protocol passes them to its clients in its own format.

/// A file system, or a snapshot of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileSystemId {
    /// The dataset's `fsid_guid`, which is stable when its pool moves. Clients see a snapshot under the identity of its
    /// file system.
    pub guid: u64,
    /// For a snapshot, the number of its object set, otherwise 0.
    pub snapshot: u64,
}

impl FileSystemId {
    /// The identity of the file system itself, also for its snapshots.
    #[must_use]
    pub const fn whole(self) -> Self {
        Self {
            snapshot: 0,
            ..self
        }
    }
}

/// A file, directory or other object. The generation distinguishes an object from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// Its number in the file system.
    pub object: u64,
    /// Changes when the number is reused.
    pub generation: u64,
}

/// An object among those of all file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    /// Its file system.
    pub file_system: FileSystemId,
    /// The object there.
    pub node: Node,
}
