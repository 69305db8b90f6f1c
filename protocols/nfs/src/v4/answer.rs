//! The reply of a compound: status, tag, and the results of its operations (RFC 8881, 16.2.4).

use super::numbers::Status;
use crate::xdr::Writer;

/// Builds the reply of a compound.
pub(super) struct Reply<'a> {
    pub(super) writer: &'a mut Writer,
    /// Start of the reply in `writer`.
    pub(super) start: usize,
    /// Offset of the number of results.
    pub(super) count_at: usize,
    /// Number of results.
    pub(super) count: u32,
}

impl<'a> Reply<'a> {
    /// Starts a reply without results.
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

    /// Appends the number and status of an operation.
    pub(super) fn fail(&mut self, operation: u32, status: Status) {
        self.writer.u32(operation);
        self.writer.u32(status.0);
        self.count += 1;
    }

    /// Completes the reply.
    pub(super) fn end(&mut self, status: Status) {
        self.writer.set_u32(self.start, status.0);
        self.writer.set_u32(self.count_at, self.count);
    }

    /// Replaces the reply by a cached one.
    pub(super) fn repeat(&mut self, bytes: &[u8]) {
        self.writer.truncate(self.start);
        self.writer.append(bytes);
    }
}
