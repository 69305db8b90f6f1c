//! The answer of a compound: status, tag, and what each operation answers (RFC 8881, 16.2.4).

use super::numbers::Status;
use crate::xdr::Writer;

/// The answer of a compound, as it grows.
pub(super) struct Answer<'a> {
    pub(super) writer: &'a mut Writer,
    /// Where it begins there.
    pub(super) start: usize,
    count_at: usize,
    /// Operations that are answered.
    pub(super) count: u32,
}

impl<'a> Answer<'a> {
    /// Without operations.
    pub(super) fn new(tag: &[u8], writer: &'a mut Writer) -> Self {
        let start = writer.len();
        writer.u32(0);
        writer.opaque(tag);
        let count_at = writer.len();
        writer.u32(0);
        Self {
            writer,
            start,
            count_at,
            count: 0,
        }
    }

    /// The next operation: which, and its status.
    pub(super) fn fail(&mut self, operation: u32, status: Status) {
        self.writer.u32(operation);
        self.writer.u32(status.0);
        self.count += 1;
    }

    /// There are no more.
    pub(super) fn end(&mut self, status: Status) {
        self.writer.set_u32(self.start, status.0);
        self.writer.set_u32(self.count_at, self.count);
    }

    /// The answer that was given before.
    pub(super) fn repeat(&mut self, bytes: &[u8]) {
        self.writer.truncate(self.start);
        self.writer.append(bytes);
    }
}
