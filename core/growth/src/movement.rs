//! The difference of two placements: copies and bytes that move, of each disk and in all.

use std::collections::BTreeMap;

use crate::OsdId;
use crate::osdmap::OsdMap;
use crate::placement::Placement;
use crate::stored::GroupBytes;

/// Bytes of a disk that change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskMovement {
    /// Bytes of objects before.
    pub before: u64,
    /// Bytes that are written to it.
    pub incoming: u64,
    /// Bytes that are deleted from it, after their copies elsewhere are complete.
    pub outgoing: u64,
    /// Bytes that are read from it for copies elsewhere.
    pub read: u64,
    /// Copies or shards after.
    pub groups: u32,
}

impl DiskMovement {
    /// Bytes of objects after.
    pub const fn after(&self) -> u64 {
        self.before
            .saturating_add(self.incoming)
            .saturating_sub(self.outgoing)
    }
}

/// The difference of two placements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Movement {
    /// Copies and shards of all placement groups.
    pub copies: u64,
    /// Those that move.
    pub copies_moved: u64,
    /// Bytes of all copies and shards.
    pub bytes: u64,
    /// Those that move.
    pub bytes_moved: u64,
    /// Placement groups.
    pub groups: u64,
    /// Those of which at least one copy moves.
    pub groups_touched: u64,
    /// Bytes of all copies of these.
    pub bytes_touched: u64,
    /// Copies without a disk afterwards: the rule finds too few.
    pub copies_unplaced: u64,
    /// By disk.
    pub disks: BTreeMap<OsdId, DiskMovement>,
    /// Bytes from one disk to another: sender, receiver.
    pub sent: BTreeMap<(OsdId, OsdId), u64>,
}

impl Movement {
    /// Share of the copies that move. Ceph calls these copies misplaced.
    pub fn share_of_copies(&self) -> f64 {
        ratio(self.copies_moved, self.copies)
    }

    /// Share of the bytes that move.
    pub fn share_of_bytes(&self) -> f64 {
        ratio(self.bytes_moved, self.bytes)
    }

    /// Share of the placement groups that are touched.
    pub fn share_of_groups(&self) -> f64 {
        ratio(self.groups_touched, self.groups)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 / whole as f64,
    }
}

/// Compares two placements of the same groups.
pub fn compare(
    map: &OsdMap,
    groups: &GroupBytes,
    before: &Placement,
    after: &Placement,
) -> Movement {
    let mut movement = Movement::default();
    for pool in map.pools.values() {
        let (Some(before), Some(after)) = (before.get(&pool.id), after.get(&pool.id)) else {
            continue;
        };
        let bytes = groups.get(&pool.id).map_or(&[][..], Vec::as_slice);
        for number in 0..pool.pgs {
            let group = bytes.get(number as usize).copied().unwrap_or(0);
            let group = Group {
                shard: pool.shard_bytes(group),
                data_shards: pool.data_shards,
                before: before.of(number),
                after: after.of(number),
            };
            group.add_to(&mut movement);
        }
    }
    movement
}

struct Group<'a> {
    shard: u64,
    data_shards: Option<u32>,
    before: &'a [Option<OsdId>],
    after: &'a [Option<OsdId>],
}

impl Group<'_> {
    fn add_to(&self, movement: &mut Movement) {
        let shard = self.shard;
        let width = self.before.len().max(self.after.len()) as u64;
        let whole = shard.saturating_mul(width);
        movement.groups += 1;
        movement.copies += width;
        add(&mut movement.bytes, whole);
        for disk in self.before.iter().flatten() {
            add(&mut movement.disks.entry(*disk).or_default().before, shard);
        }
        for disk in self.after.iter().flatten() {
            movement.disks.entry(*disk).or_default().groups += 1;
        }
        movement.copies_unplaced += self.after.iter().filter(|disk| disk.is_none()).count() as u64;
        let incoming = self.incoming();
        for disk in self.outgoing() {
            add(&mut movement.disks.entry(disk).or_default().outgoing, shard);
        }
        for &disk in &incoming {
            add(&mut movement.disks.entry(disk).or_default().incoming, shard);
            self.add_transfer(disk, movement);
        }
        let moved = incoming.len() as u64;
        movement.copies_moved += moved;
        add(&mut movement.bytes_moved, shard.saturating_mul(moved));
        if moved > 0 {
            movement.groups_touched += 1;
            add(&mut movement.bytes_touched, whole);
        }
    }

    /// Copies are equal, so their order is no movement; the shards of an erasure code differ.
    fn incoming(&self) -> Vec<OsdId> {
        let after = self.after.iter().enumerate();
        let is_new = |&(at, disk): &(usize, &Option<OsdId>)| match self.data_shards {
            Some(_) => self.before.get(at) != Some(disk),
            None => !self.before.contains(disk),
        };
        after.filter(is_new).filter_map(|(_, disk)| *disk).collect()
    }

    fn outgoing(&self) -> Vec<OsdId> {
        let before = self.before.iter().enumerate();
        let is_gone = |&(at, disk): &(usize, &Option<OsdId>)| match self.data_shards {
            Some(_) => self
                .after
                .get(at)
                .is_some_and(|after| after.is_some() && *after != *disk),
            // A copy that finds no new disk remains.
            None => !self.after.contains(disk) && !self.after.contains(&None),
        };
        before
            .filter(is_gone)
            .filter_map(|(_, disk)| *disk)
            .collect()
    }

    /// The first disk of a group sends: a copy it reads itself; a shard it computes of as many as the code needs.
    fn add_transfer(&self, to: OsdId, movement: &mut Movement) {
        let mut sources = self.before.iter().flatten().copied();
        let Some(first) = sources.next() else {
            return;
        };
        add(
            &mut movement.disks.entry(first).or_default().read,
            self.shard,
        );
        add(movement.sent.entry((first, to)).or_default(), self.shard);
        let needed = self.data_shards.unwrap_or(1) as usize;
        for source in sources.take(needed - 1) {
            add(
                &mut movement.disks.entry(source).or_default().read,
                self.shard,
            );
            add(
                movement.sent.entry((source, first)).or_default(),
                self.shard,
            );
        }
    }
}

/// No statistics from outside overflow a sum.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// The share of the copies that must move at least: the sum over all disks of the increase of their fair share.
pub fn ideal_share(before: &BTreeMap<OsdId, u64>, after: &BTreeMap<OsdId, u64>) -> f64 {
    let total = |weights: &BTreeMap<OsdId, u64>| weights.values().sum::<u64>().max(1) as f64;
    let (all_before, all_after) = (total(before), total(after));
    let gains = after.iter().map(|(osd, &weight)| {
        let old = before.get(osd).copied().unwrap_or(0) as f64 / all_before;
        (weight as f64 / all_after - old).max(0.0)
    });
    gains.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(data_shards: Option<u32>, before: &[u32], after: &[Option<u32>]) -> Movement {
        let before: Vec<Option<u32>> = before.iter().map(|&disk| Some(disk)).collect();
        let mut movement = Movement::default();
        let group = Group {
            shard: 10,
            data_shards,
            before: &before,
            after,
        };
        group.add_to(&mut movement);
        movement
    }

    #[test]
    fn copies_in_another_order_do_not_move() {
        let movement = group(None, &[1, 2, 3], &[Some(3), Some(1), Some(2)]);
        assert_eq!((movement.copies_moved, movement.groups_touched), (0, 0));
        assert_eq!(movement.bytes, 30);
    }

    #[test]
    fn shards_in_another_order_move() {
        let movement = group(Some(2), &[1, 2, 3], &[Some(1), Some(3), Some(2)]);
        assert_eq!((movement.copies_moved, movement.bytes_moved), (2, 20));
        assert_eq!(movement.disks[&2].incoming, 10);
        assert_eq!(movement.disks[&2].outgoing, 10);
        assert_eq!(movement.disks[&1].read, 20);
    }

    #[test]
    fn the_first_disk_sends_copies() {
        let movement = group(None, &[1, 2, 3], &[Some(1), Some(4), Some(3)]);
        assert_eq!((movement.copies_moved, movement.bytes_touched), (1, 30));
        assert_eq!(movement.disks[&4].incoming, 10);
        assert_eq!(movement.disks[&2].outgoing, 10);
        assert_eq!(movement.disks[&2].after(), 0);
        assert_eq!(movement.disks[&1].read, 10);
        assert_eq!(movement.sent[&(1, 4)], 10);
    }

    #[test]
    fn a_shard_is_computed_of_as_many_as_the_code_needs() {
        let movement = group(Some(2), &[1, 2, 3], &[Some(1), Some(2), Some(4)]);
        assert_eq!(movement.disks[&1].read, 10);
        assert_eq!(movement.disks[&2].read, 10);
        assert_eq!(movement.sent[&(2, 1)], 10);
        assert_eq!(movement.sent[&(1, 4)], 10);
    }

    #[test]
    fn a_copy_that_finds_no_disk_remains_where_it_is() {
        let movement = group(None, &[1, 2, 3], &[Some(1), Some(2), None]);
        assert_eq!((movement.copies_unplaced, movement.copies_moved), (1, 0));
        assert_eq!(movement.disks[&3].outgoing, 0);
        let shards = group(Some(2), &[1, 2, 3], &[Some(1), Some(2), None]);
        assert_eq!(shards.disks[&3].outgoing, 0);
    }

    #[test]
    fn ideal_share_is_the_share_of_the_new_disks() {
        let weights = |count: u32| (0..count).map(|osd| (osd, 1 << 16)).collect();
        let share = ideal_share(&weights(170), &weights(200));
        assert!((share - 0.15).abs() < 1e-9, "{share}");
        let shrunk = ideal_share(&weights(200), &weights(170));
        assert!((shrunk - 0.15).abs() < 1e-9, "{shrunk}");
    }
}
