//! A batch of directory entries, copied during the listing, because the file system must not be
//! called from its callback.

/// Entries per batch, and bytes of their names.
const ENTRIES_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 16 << 10;

/// A batch of directory entries.
#[derive(Default)]
pub(crate) struct Batch {
    names: Vec<u8>,
    /// End of the name, object number, cookie.
    entries: Vec<(usize, u64, u64)>,
}

impl Batch {
    /// Copies an entry. Returns false if there is no room.
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

    /// Iterates over name, object number and cookie.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], u64, u64)> {
        let starts = [0]
            .into_iter()
            .chain(self.entries.iter().map(|entry| entry.0));
        let named = starts.zip(&self.entries);
        named.map(|(start, (end, object, cookie))| (&self.names[start..*end], *object, *cookie))
    }
}
