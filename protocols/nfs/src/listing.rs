//! Entries of a directory, copied while it is visited: the file system must not be asked meanwhile.

/// Entries of a directory that are looked at together, and bytes of their names.
const ENTRIES_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 16 << 10;

/// Some entries of a directory.
#[derive(Default)]
pub(crate) struct Batch {
    names: Vec<u8>,
    /// End of the name, object, cookie.
    entries: Vec<(usize, u64, u64)>,
}

impl Batch {
    /// Copies an entry, if there is room.
    pub(crate) fn take(&mut self, entry: &file_system::Entry<'_>) -> bool {
        let bytes = self.names.len() + entry.name.len();
        if self.entries.len() >= ENTRIES_MAX || (bytes > BATCH_BYTES_MAX && !self.names.is_empty())
        {
            return false;
        }
        self.names.extend_from_slice(entry.name);
        self.entries.push((bytes, entry.object, entry.cookie));
        true
    }

    /// Name, object and cookie of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], u64, u64)> {
        let starts = [0]
            .into_iter()
            .chain(self.entries.iter().map(|entry| entry.0));
        let named = starts.zip(&self.entries);
        named.map(|(start, (end, object, cookie))| (&self.names[start..*end], *object, *cookie))
    }
}
