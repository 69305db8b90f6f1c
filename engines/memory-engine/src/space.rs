//! The space of a pool by use. Blocks that several images share count once, for the oldest.

use std::collections::HashSet;
use std::sync::Arc;

use engine::dataset::SpaceUse;
use units::ByteCount;

use crate::image::Image;
use crate::tree::{Dataset, Tree, parent_of};

/// Space of a dataset by use.
#[derive(Clone, Copy, Default)]
pub(crate) struct Charge {
    pub(crate) referenced: u64,
    pub(crate) by_data: u64,
    pub(crate) by_snapshots: u64,
    pub(crate) by_children: u64,
    pub(crate) by_reservation: u64,
    /// Written since the newest snapshot.
    pub(crate) written: u64,
}

impl Charge {
    /// Charged to the dataset.
    pub(crate) fn used(&self) -> u64 {
        self.by_data + self.by_snapshots + self.by_children + self.by_reservation
    }
}

fn addresses(image: &Image) -> impl Iterator<Item = usize> {
    let blocks = image.blocks.values();
    blocks.map(|block| Arc::as_ptr(block).cast::<u8>() as usize)
}

impl Tree {
    /// The image that a clone began with.
    pub(crate) fn origin_image(&self, dataset: &Dataset) -> Option<Arc<Image>> {
        let (_, snapshot) = self.snapshot_by_guid(dataset.origin?)?;
        Some(Arc::clone(&snapshot.image))
    }

    /// Returns the space of `name` with all its descendants.
    pub(crate) fn charge(&self, name: &str) -> Charge {
        let Some(dataset) = self.datasets.get(name) else {
            return Charge::default();
        };
        let (head, origin) = (dataset.contents(), self.origin_image(dataset));
        let newest = dataset.snapshots.last().map(|one| Arc::clone(&one.image));
        let newest = newest.or_else(|| origin.clone());
        let unique = head.exclusive_bytes(newest.iter().map(|image| &**image));
        let mut elsewhere: HashSet<usize> = addresses(&head).collect();
        elsewhere.extend(origin.iter().flat_map(|image| addresses(image)));
        let mut by_snapshots = 0;
        for snapshot in &dataset.snapshots {
            let fresh = addresses(&snapshot.image).filter(|address| elsewhere.insert(*address));
            by_snapshots += fresh.count() as u64 * snapshot.image.block_size;
        }
        Charge {
            referenced: head.bytes(),
            by_data: head.exclusive_bytes(origin.iter().map(|image| &**image)),
            by_snapshots,
            by_children: self.of_children(name),
            by_reservation: dataset.number("refreservation").saturating_sub(unique),
            written: unique,
        }
    }

    fn of_children(&self, name: &str) -> u64 {
        let children = self.datasets.keys();
        let children = children.filter(|child| parent_of(child) == name && !child.is_empty());
        let taken = |child: &String| {
            let reserved = self.datasets[child].number("reservation");
            self.charge(child).used().max(reserved)
        };
        children.map(taken).sum()
    }

    /// Returns the space available to `name` in a pool of `capacity` bytes.
    pub(crate) fn available(&self, name: &str, capacity: u64) -> u64 {
        let root = name.split('/').next().unwrap_or_default();
        let own = self.charge(name);
        let mut room = capacity.saturating_sub(self.charge(root).used());
        room += own.by_reservation;
        let mut at = name;
        while let Some(dataset) = self.datasets.get(at) {
            let used = self.charge(at).used();
            room += match dataset.number("reservation") {
                0 => 0,
                reserved => reserved.saturating_sub(used),
            };
            if let quota @ 1.. = dataset.number("quota") {
                room = room.min(quota.saturating_sub(used) + own.by_reservation);
            }
            at = parent_of(at);
        }
        match self.datasets.get(name).map(|one| one.number("refquota")) {
            Some(quota @ 1..) => room.min(quota.saturating_sub(own.referenced)),
            _ => room,
        }
    }

    /// Returns the space that destroying only the snapshot at `index` would free.
    pub(crate) fn unique_to_snapshot(&self, dataset: &Dataset, index: usize) -> u64 {
        let image = &dataset.snapshots[index].image;
        let before = match index.checked_sub(1) {
            Some(before) => Some(Arc::clone(&dataset.snapshots[before].image)),
            None => self.origin_image(dataset),
        };
        let after = match dataset.snapshots.get(index + 1) {
            Some(after) => Arc::clone(&after.image),
            None => Arc::new(dataset.contents()),
        };
        let neighbours = [before, Some(after)];
        let neighbours: Vec<&Image> = neighbours.iter().flatten().map(|image| &**image).collect();
        image.exclusive_bytes(neighbours.iter().copied())
    }

    /// Returns the bytes in the snapshot at `index` that are not in the one before.
    pub(crate) fn written_in_snapshot(&self, dataset: &Dataset, index: usize) -> u64 {
        let before = match index.checked_sub(1) {
            Some(before) => Some(Arc::clone(&dataset.snapshots[before].image)),
            None => self.origin_image(dataset),
        };
        let image = &dataset.snapshots[index].image;
        image.exclusive_bytes(before.iter().map(|image| &**image))
    }

    /// As a listing shows it.
    pub(crate) fn space_of(&self, name: &str, dataset: &Dataset) -> SpaceUse {
        let charge = self.charge(name);
        SpaceUse {
            by_data: ByteCount(charge.by_data),
            by_snapshots: ByteCount(charge.by_snapshots),
            by_children: ByteCount(charge.by_children),
            by_reservation: ByteCount(charge.by_reservation),
            logical: ByteCount(charge.used() - charge.by_reservation),
            quota: ByteCount(dataset.number("quota")),
            reservation: ByteCount(dataset.number("reservation")),
            ref_quota: ByteCount(dataset.number("refquota")),
            written: ByteCount(charge.written),
            compress_percent: 100,
        }
    }
}
