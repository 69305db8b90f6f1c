//! A part of a disk, which contents are searched in.

/// Reads a number of bytes from an offset of the disk; `None` if that is not possible.
pub type ReadAt<'a> = &'a dyn Fn(u64, usize) -> Option<Vec<u8>>;

/// The largest read, in bytes.
pub const READ_BYTES_MAX: usize = 1 << 20;
/// Bytes at the start of a part that hold most signatures: that of Btrfs is at 64 KiB.
const HEAD_BYTES: usize = 68 << 10;

/// A part of a disk.
pub struct Part<'a> {
    read: ReadAt<'a>,
    start: u64,
    /// Bytes.
    pub size: u64,
    /// The first bytes, at most [`HEAD_BYTES`].
    pub head: Vec<u8>,
}

impl<'a> Part<'a> {
    /// The part of `size` bytes at `start`.
    pub fn new(read: ReadAt<'a>, start: u64, size: u64) -> Self {
        let length = HEAD_BYTES.min(usize::try_from(size).unwrap_or(HEAD_BYTES));
        let head = read(start, length).unwrap_or_default();
        Self {
            read,
            start,
            size,
            head,
        }
    }

    /// Reads `length` bytes at `at`, relative to the part; `None` if they are not within it, or too many.
    pub fn read(&self, at: u64, length: usize) -> Option<Vec<u8>> {
        let end = at.checked_add(u64::try_from(length).ok()?)?;
        if length > READ_BYTES_MAX || end > self.size {
            return None;
        }
        let bytes = (self.read)(self.start.checked_add(at)?, length)?;
        (bytes.len() == length).then_some(bytes)
    }
}
