//! Writes of a log that rely on an earlier record for their bytes.
//!
//! A kernel logs a large write with its whole block, as the block is when the log is committed. A later write of that
//! block in the same transaction group is then logged without bytes. A record between the two is older than the block:
//! a truncation, a hole or a clone in it must not touch the range of the later write. The kernel's own replay ignores
//! that: such a file has zeros, or cloned data, instead of the last write.

use std::collections::{HashMap, VecDeque};

use crate::records::Record;

/// The writes of a log that were not replayed yet: for each file first byte and end, in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct LaterWrites(HashMap<u64, VecDeque<(u64, u64)>>);

impl LaterWrites {
    /// Processes the next record of the log.
    pub(crate) fn see(&mut self, record: &Record<'_>) {
        if let Record::WriteAgain {
            object,
            offset,
            length,
        } = *record
        {
            let writes = self.0.entry(object).or_default();
            writes.push_back((offset, offset + length));
        }
    }

    /// A record was replayed.
    pub(crate) fn pass(&mut self, record: &Record<'_>) {
        if let Record::WriteAgain { object, .. } = record {
            self.0.get_mut(object).and_then(VecDeque::pop_front);
        }
    }

    /// The parts of a range of a file that none of them covers, as first byte and end. `None`: the whole range.
    pub(crate) fn parts(&self, object: u64, from: u64, end: u64) -> Option<Vec<(u64, u64)>> {
        let writes = self.0.get(&object)?;
        let mut touched: Vec<_> = writes
            .iter()
            .filter(|write| write.0 < end && from < write.1)
            .collect();
        if touched.is_empty() {
            return None;
        }
        touched.sort_unstable();
        let mut parts = Vec::new();
        let mut at = from;
        for write in touched {
            if at < write.0 {
                parts.push((at, write.0));
            }
            at = at.max(write.1);
        }
        if at < end {
            parts.push((at, end));
        }
        Some(parts)
    }

    /// The runs of whole blocks of a range that none of them covers. The range starts at a block, and its last block
    /// may extend past it.
    pub(crate) fn runs(
        &self,
        object: u64,
        from: u64,
        (end, block_size): (u64, u64),
    ) -> Vec<(u64, u64)> {
        if self.parts(object, from, end).is_none() {
            return vec![(from, end)];
        }
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut at = from;
        while at < end {
            let next = at.saturating_add(block_size).min(end);
            match runs.last_mut() {
                _ if self.parts(object, at, next).is_some() => {}
                Some(run) if run.1 == at => run.1 = next,
                _ => runs.push((at, next)),
            }
            at = next;
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_writes_are_subtracted_from_a_range() {
        let mut later = LaterWrites::default();
        let writes = [(5, 10, 10), (5, 40, 10), (5, 15, 10), (6, 0, 100)];
        let records = writes.map(|(object, offset, length)| Record::WriteAgain {
            object,
            offset,
            length,
        });
        records.iter().for_each(|record| later.see(record));
        let all = [(0, 10), (25, 40), (50, u64::MAX)];
        assert_eq!(later.parts(5, 0, u64::MAX), Some(all.to_vec()));
        assert_eq!(later.parts(5, 12, 45), Some(vec![(25, 40)]));
        assert_eq!(later.parts(5, 41, 44), Some(Vec::new()));
        assert_eq!(later.parts(5, 25, 40), None);
        assert_eq!(later.parts(7, 0, u64::MAX), None);
        // Blocks of 10 bytes.
        let runs = |from, end| later.runs(5, from, (end, 10));
        assert_eq!(runs(0, 75), [(0, 10), (30, 40), (50, 75)]);
        assert_eq!(runs(40, 50), []);
        assert_eq!(runs(50, 75), [(50, 75)]);
        // Only later writes count.
        later.pass(&records[0]);
        assert_eq!(later.parts(5, 0, 20), Some(vec![(0, 15)]));
        later.pass(&records[1]);
        later.pass(&records[2]);
        assert_eq!(later.parts(5, 0, u64::MAX), None);
    }
}
