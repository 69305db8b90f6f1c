//! Edits of a CRUSH map: a new disk, a new host, another weight. Weights of the buckets above follow.

use super::{Bucket, CrushMap, Device, HOST, Item};
use crate::{GrowthError, OsdId};

/// The only algorithms with a weight for each item.
const WEIGHTED: [&str; 2] = ["straw2", "straw"];

impl CrushMap {
    /// Adds a host without disks to `parent`.
    ///
    /// # Errors
    ///
    /// `parent` does not exist, or `host` does, or the map has no type `host`.
    pub fn add_host(&mut self, host: &str, parent: &str) -> Result<(), GrowthError> {
        if self.has_bucket(host) {
            return Err(GrowthError::exists(format!("bucket {host} exists")));
        }
        if !self.types.iter().any(|one| one.name == HOST) {
            let message = "the CRUSH map has no bucket type `host`";
            return Err(GrowthError::unsupported(message));
        }
        let id = self.free_bucket_id();
        let Some(parent) = self.buckets.iter_mut().find(|one| one.name == parent) else {
            return Err(GrowthError::not_found(format!(
                "the CRUSH map has no bucket {parent}"
            )));
        };
        parent.items.push(Item { id, weight: 0 });
        self.buckets.push(Bucket {
            id,
            name: host.to_owned(),
            type_name: HOST.to_owned(),
            alg: "straw2".to_owned(),
            hash: "rjenkins1".to_owned(),
            items: Vec::new(),
        });
        Ok(())
    }

    /// The number that Ceph assigns to the next bucket: the first that is free.
    fn free_bucket_id(&self) -> i64 {
        let used: std::collections::BTreeSet<i64> =
            self.buckets.iter().map(|bucket| bucket.id).collect();
        (1..)
            .map(|number: i64| -number)
            .find(|id| !used.contains(id))
            .unwrap_or(i64::MIN)
    }

    /// Adds a disk of weight 0 to a host.
    ///
    /// # Errors
    ///
    /// The disk exists, the host does not, or its items must have equal weights.
    pub fn add_disk(
        &mut self,
        osd: OsdId,
        host: &str,
        class: Option<&str>,
    ) -> Result<(), GrowthError> {
        if self.osd_ids().contains(&osd) {
            return Err(GrowthError::exists(format!(
                "osd.{osd} exists in the CRUSH map"
            )));
        }
        let Some(bucket) = self.buckets.iter_mut().find(|one| one.name == host) else {
            let message = format!("the CRUSH map has no host {host}");
            return Err(GrowthError::not_found(message));
        };
        bucket.items.push(Item {
            id: i64::from(osd),
            weight: 0,
        });
        let device = Device {
            id: i64::from(osd),
            name: format!("osd.{osd}"),
            class: class.map(str::to_owned),
        };
        self.devices.retain(|one| one.id != device.id);
        self.devices.push(device);
        self.devices.sort_by_key(|one| one.id);
        Ok(())
    }

    /// Sets the weight of a disk, as `ceph osd crush reweight` does.
    ///
    /// # Errors
    ///
    /// The map has no such disk, or a bucket above it has items of equal weights.
    pub fn set_weight(&mut self, osd: OsdId, weight: u64) -> Result<(), GrowthError> {
        let mut child = i64::from(osd);
        let mut change = None;
        while let Some(parent) = self.parent_of(child).map(|bucket| bucket.id) {
            let bucket = self.buckets.iter_mut().find(|bucket| bucket.id == parent);
            let Some(bucket) = bucket else { break };
            if !WEIGHTED.contains(&bucket.alg.as_str()) {
                let message = format!(
                    "bucket {} of the CRUSH map has the algorithm {}, and its items cannot change one by one",
                    bucket.name, bucket.alg
                );
                let advice = format!(
                    "convert it first: `ceph osd crush set-all-straw-buckets-to-straw2`, or create {} again",
                    bucket.name
                );
                return Err(GrowthError::unsupported(message).advise(advice));
            }
            let Some(item) = bucket.items.iter_mut().find(|item| item.id == child) else {
                break;
            };
            let old = i64::try_from(item.weight()).unwrap_or(0);
            let change = *change.get_or_insert(i64::try_from(weight).unwrap_or(i64::MAX) - old);
            item.weight = old.saturating_add(change).clamp(0, i64::from(u32::MAX));
            child = parent;
        }
        match change {
            Some(_) => Ok(()),
            None => Err(GrowthError::not_found(format!(
                "osd.{osd} is in no bucket of the CRUSH map"
            ))),
        }
    }
}
