//! Removes images and snapshots that no entry needs any more, on a thread of its own: the duration of a removal grows
//! with the image. Each removal is on record before it begins, so that a killed process leaves nothing behind.

use std::sync::Arc;

use ceph_sys::{Access, CephError, Image, Namespace};

use crate::SHELF_OBJECT;
use crate::records::{Edits, Number, discarded_image_key, discarded_snapshot_key};
use crate::shelf::Shelf;

/// Removes an image with its snapshots. `false` if other images still depend on it.
fn remove(shelf: &Shelf, image: Number) -> Result<bool, CephError> {
    let name = image.name();
    match Image::open(&shelf.namespace, &name, None, Access::ReadWrite) {
        Err(CephError::NOT_FOUND) => return Ok(true),
        Err(error) => return Err(error),
        Ok(open) => {
            let snapshots = open.snapshots()?;
            if !snapshots.is_empty() {
                open.acquire_lock()?;
            }
            for snapshot in snapshots {
                shelf.step("remove a snapshot of an image");
                open.remove_snapshot(&snapshot)?;
            }
            if !open.children()?.is_empty() {
                return Ok(false);
            }
        }
    }
    shelf.step("remove an image");
    match shelf.namespace.remove_image(&name) {
        Ok(()) | Err(CephError::NOT_FOUND) => Ok(true),
        Err(CephError::BUSY | CephError::NOT_EMPTY) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Shelf {
    /// The body of the collector's thread.
    pub(crate) fn collect(self: Arc<Self>) {
        self.collector.wake();
        while self.collector.pause() {
            if self.is_lost() {
                return;
            }
            if let Err(error) = self.collect_all() {
                tracing::warn!(pool = %self.name(), "removal of discarded images: {error}");
            }
        }
    }

    /// Removes as much as possible.
    fn collect_all(self: &Arc<Self>) -> Result<(), CephError> {
        for (image, snapshot) in self.records().snapshots_discarded.clone() {
            if self.collector.is_stopped() {
                return Ok(());
            }
            self.collect_snapshot(image, snapshot)?;
        }
        loop {
            let mut has_progress = false;
            for image in self.records().images_discarded.clone() {
                if self.collector.is_stopped() {
                    return Ok(());
                }
                has_progress |= self.collect_image(image)?;
            }
            if !has_progress {
                return Ok(());
            }
        }
    }

    fn collect_snapshot(
        self: &Arc<Self>,
        image: Number,
        snapshot: Number,
    ) -> Result<(), CephError> {
        let changing = self.changing();
        let records = self.records();
        let of = records
            .volumes
            .values()
            .find(|volume| volume.image == image);
        let opened = match of {
            Some(volume) => changing.image_to_write(volume.guid, image),
            None => changing.locked_image(image),
        };
        let removed = opened.and_then(|open| {
            self.step("remove a snapshot");
            open.remove_snapshot(&snapshot.name())
        });
        match removed {
            Ok(()) | Err(CephError::NOT_FOUND) => {}
            Err(error) => return Err(error),
        }
        let mut edits = Edits::default();
        edits.remove(discarded_snapshot_key(image, snapshot));
        changing.commit(edits)
    }

    /// Returns whether it is removed.
    fn collect_image(self: &Arc<Self>, image: Number) -> Result<bool, CephError> {
        let changing = self.changing();
        let records = self.records();
        let is_needed = records.volumes.values().any(|volume| volume.image == image)
            || records.snapshots.values().any(|one| one.image == image);
        if is_needed || !records.images_discarded.contains(&image) {
            return Ok(false);
        }
        if !remove(self, image)? {
            self.flatten_children(image)?;
            if !remove(self, image)? {
                return Ok(false);
            }
        }
        let mut edits = Edits::default();
        edits.remove(discarded_image_key(image));
        changing.commit(edits)?;
        Ok(true)
    }

    /// Copies the blocks that volumes still share with an image without snapshots: it has been replaced by a rollback,
    /// and the snapshot of the rollback is destroyed.
    fn flatten_children(self: &Arc<Self>, image: Number) -> Result<(), CephError> {
        let children = self.image_to_read(image, None)?.children()?;
        let records = self.records();
        for child in children.iter().filter_map(|name| Number::of_name(name)) {
            let Some(volume) = records
                .volumes
                .values()
                .find(|volume| volume.image == child)
            else {
                continue;
            };
            self.step("flatten an image");
            let open = self
                .open_volumes()
                .get(&volume.guid)
                .and_then(|open| open.image());
            let opened = match open {
                Some(open) => open,
                None => {
                    let opened =
                        Image::open(&self.namespace, &child.name(), None, Access::ReadWrite)?;
                    opened.acquire_lock()?;
                    opened
                }
            };
            opened.flatten()?;
        }
        Ok(())
    }

    /// Removes all images, the object and the namespace of a destroyed shelf.
    pub(crate) fn remove_all(&self) -> Result<(), CephError> {
        let mut before = usize::MAX;
        loop {
            let images = self.namespace.images()?;
            if images.is_empty() {
                break;
            }
            // An image is removed after its clones. Each pass removes one, or the removal is impossible.
            if images.len() >= before {
                return Err(CephError::NOT_EMPTY);
            }
            before = images.len();
            for image in images.iter().filter_map(|name| Number::of_name(name)) {
                remove(self, image)?;
            }
        }
        self.step("remove the object");
        self.namespace.remove_object(SHELF_OBJECT)?;
        let root = Namespace::open(self.namespace.cluster(), &self.location.pool, "")?;
        root.remove_namespace(&self.location.namespace)
    }
}
