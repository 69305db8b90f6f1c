//! The space that volumes use, measured in the cluster.

use ceph_sys::CephError;

use crate::listing::allocated;
use crate::records::Volume;
use crate::shelf::Shelf;

impl Shelf {
    /// Bytes of the objects that a volume's image has, without those of its parent.
    pub(crate) fn used_bytes(&self, volume: &Volume) -> Result<u64, CephError> {
        let image = self.image_to_read(volume.image, None)?;
        allocated(&image, None, volume.size, false)
    }

    /// Measures a volume's use of its reservation.
    pub(crate) fn measure(&self, volume: &Volume) -> Result<(), CephError> {
        let unused = match volume.reserved {
            0 => None,
            reserved => Some(reserved.saturating_sub(self.used_bytes(volume)?)),
        };
        self.space.set_unused(volume.guid, unused);
        Ok(())
    }

    /// Measures all volumes with a reservation.
    pub(crate) fn measure_reserved(&self) {
        for (name, volume) in &self.records().volumes {
            if volume.reserved == 0 {
                continue;
            }
            if let Err(error) = self.measure(volume) {
                tracing::warn!(pool = %self.name(), volume = name, "its space: {error}");
            }
        }
    }
}
