//! Detects an incomplete write at the end of a log.
//!
//! The library may split the record of a long write anywhere to fill log blocks. If the last block did not reach the
//! disks, the tail of the log is the first part of a write that was never acknowledged. Applications assume that a page
//! is atomic, so the part is not replayed.

use crate::records::Record;

/// An incomplete write.
#[derive(Clone, Copy, Debug)]
struct Begun {
    object: u64,
    /// The offset at which the next record must continue.
    next: u64,
    end: u64,
    /// How many records of writes came before its first one.
    first: usize,
}

/// Finds it in a log, and returns its start to the replay.
#[derive(Debug, Default)]
pub(crate) struct UnfinishedWrite {
    begun: Option<Begun>,
    seen: usize,
    passed: usize,
}

impl UnfinishedWrite {
    /// Processes the next record of the log.
    pub(crate) fn see(&mut self, record: &Record<'_>) {
        let Record::Write {
            object,
            offset,
            length,
            end,
            ..
        } = *record
        else {
            self.begun = None;
            return;
        };
        let goes_on =
            |begun: &Begun| (begun.object, begun.next, begun.end) == (object, offset, end);
        let first = self
            .begun
            .filter(goes_on)
            .map_or(self.seen, |begun| begun.first);
        let next = offset + length;
        self.begun = (next < end).then_some(Begun {
            object,
            next,
            end,
            first,
        });
        self.seen += 1;
    }

    /// Whether a record to be replayed belongs to that write. A replay may skip records of removed files: then it skips
    /// no other record.
    pub(crate) fn leaves_out(&self, record: &Record<'_>) -> bool {
        let is_write = matches!(record, Record::Write { .. });
        is_write && self.begun.is_some_and(|begun| self.passed >= begun.first)
    }

    /// A record was replayed. One that failed is visited again.
    pub(crate) fn pass(&mut self, record: &Record<'_>) {
        self.passed += usize::from(matches!(record, Record::Write { .. }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Bytes;

    const NONE: [usize; 0] = [];

    fn part(offset: u64, length: u64, end: u64) -> Record<'static> {
        Record::Write {
            object: 5,
            offset,
            length,
            end,
            bytes: Bytes::Here(b""),
        }
    }

    /// Which records of a log are skipped. Each is visited twice, as a failed one is.
    fn left_out(log: &[Record<'_>]) -> Vec<usize> {
        let mut unfinished = UnfinishedWrite::default();
        log.iter().for_each(|record| unfinished.see(record));
        let mut left = Vec::new();
        for (number, record) in log.iter().enumerate() {
            let is_left = unfinished.leaves_out(record);
            assert_eq!(unfinished.leaves_out(record), is_left);
            match is_left {
                true => left.push(number),
                false => unfinished.pass(record),
            }
        }
        left
    }

    #[test]
    fn only_an_incomplete_last_write_is_skipped() {
        let whole = [part(0, 10, 40), part(10, 20, 40), part(30, 10, 40)];
        assert_eq!(left_out(&whole), NONE);
        assert_eq!(left_out(&whole[..2]), [0, 1]);
        let cut = Record::Truncate {
            object: 5,
            offset: 0,
            length: 0,
        };
        let twice = [&whole[..], &[cut], &whole[..1]].concat();
        assert_eq!(left_out(&twice), [4]);
        // A later record shows that the file was removed.
        assert_eq!(left_out(&[whole[0], cut]), NONE);
        assert_eq!(left_out(&[whole[0], part(0, 40, 40)]), NONE);
        // The rest of another write of the same range.
        assert_eq!(left_out(&[whole[2], whole[0]]), [1]);
        assert_eq!(left_out(&[]), NONE);
    }
}
