//! The ranges that differ between two snapshots of a volume.

use std::ops::ControlFlow;

use ceph_sys::{CephError, Diff};
use engine::dataset::Change;
use units::Extent;

use crate::records::Snapshot;
use crate::shelf::Shelf;

/// EINTR: the visitor ended the comparison.
const INTERRUPTED: CephError = CephError(4);
/// Bytes that one request compares: the visitor can end the comparison between two.
const STEP_BYTES: u64 = 1 << 30;

/// Whole blocks: the range is extended to the boundaries of blocks, within the size.
fn whole_blocks(from: u64, to: u64, block: u64, size: u64) -> (u64, u64) {
    (
        from - from % block,
        to.div_ceil(block).saturating_mul(block).min(size),
    )
}

/// Changes in ascending order, each in whole blocks and none twice.
fn changes(diffs: &[Diff], block: u64, size: u64) -> Vec<Change> {
    let (mut found, mut at) = (Vec::new(), 0);
    for diff in diffs {
        let (from, to) = whole_blocks(diff.offset, diff.offset + diff.length, block, size);
        let from = from.max(at);
        if from < to {
            found.push(Change {
                extent: Extent::new(from, to - from),
                // A block that is freed in part has data still.
                freed: !diff.exists && from >= diff.offset && to <= diff.offset + diff.length,
            });
            at = to;
        }
    }
    found
}

impl Shelf {
    /// Visits the ranges in which `after` differs from `before`, of one volume with blocks of `block` bytes.
    pub(crate) fn changes(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        block: u64,
        visit: &mut dyn FnMut(Option<Change>) -> ControlFlow<()>,
    ) -> Result<(), CephError> {
        let newer = self.image_to_read(after.image, Some(after.guid))?;
        let older = self.image_to_read(before.image, Some(before.guid))?;
        let is_one_image = before.image == after.image;
        let from = before.guid.name();
        let mut at = 0;
        while at < after.size {
            let range = (at, STEP_BYTES.min(after.size - at));
            let mut diffs = Vec::new();
            let mut add = |diff: Diff| {
                diffs.push(diff);
                true
            };
            match is_one_image {
                true => newer.visit_diff(Some(&from), range, false, false, &mut add)?,
                false => {
                    // A rollback lies between the two: all that either has may differ.
                    newer.visit_diff(None, range, true, false, &mut add)?;
                    let range = (range.0, range.1.min(before.size.saturating_sub(range.0)));
                    if range.1 > 0 {
                        let mut freed = |diff: Diff| {
                            add(Diff {
                                exists: false,
                                ..diff
                            })
                        };
                        older.visit_diff(None, range, true, false, &mut freed)?;
                    }
                    diffs.sort_by_key(|diff| (diff.offset, !diff.exists));
                    diffs.iter_mut().for_each(|diff| diff.exists = true);
                }
            }
            for change in changes(&diffs, block, after.size) {
                if visit(Some(change)).is_break() {
                    return Err(INTERRUPTED);
                }
            }
            if visit(None).is_break() {
                return Err(INTERRUPTED);
            }
            at += range.1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_whole_blocks_in_order_without_overlap() {
        let diff = |offset, length, exists| Diff {
            offset,
            length,
            exists,
        };
        let found = changes(
            &[
                diff(100, 10, true),
                diff(200, 600, true),
                diff(1024, 512, false),
                diff(1600, 8, false),
            ],
            512,
            2048,
        );
        let shown: Vec<_> = found
            .iter()
            .map(|one| (one.extent.offset, one.extent.length, one.freed))
            .collect();
        assert_eq!(
            shown,
            [
                (0, 512, false),
                (512, 512, false),
                (1024, 512, true),
                (1536, 512, false)
            ]
        );
        let cut = changes(&[diff(0, 4096, true)], 512, 1000);
        assert_eq!(cut[0].extent, Extent::new(0, 1000));
    }
}
