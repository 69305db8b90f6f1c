//! A device returns while the pool is open: in the state in which it left, or as an older image of itself. The library
//! copies the writes that it missed since it left, and an older image misses more.

use std::path::{Path, PathBuf};

use engine::capabilities::Health;
use engine::pool::{DeviceState, DeviceStatus};
use zpool_sys as sys;

use super::copies::import_of;
use super::label::{self, Membership, Written};
use super::{Pool, c_text, legs};
use crate::device;
use crate::error::{PoolError, PoolErrorKind};

/// A device may miss the last uberblock from before it left.
const ROOTS_MISSING_MAX: usize = 1;

impl Pool {
    /// Marks `returning`, and all its descendants, as without data where it is an older image of itself.
    pub(super) fn note_older_images(&self, devices: &[DeviceStatus], returning: &DeviceStatus) {
        // The record would block on a suspended pool.
        if self
            .health()
            .is_none_or(|health| health.suspended.is_some())
        {
            return;
        }
        for group in devices {
            let leaves = leaves(group);
            let peers = leaves
                .iter()
                .filter(|leaf| leaf.state == DeviceState::Online);
            let peers = peers.filter_map(|leaf| written_on(leaf));
            let Some(peer) = peers.max_by_key(|peer| peer.newest().map(|root| root.txg)) else {
                continue;
            };
            let is_meant = |leaf: &&&DeviceStatus| {
                let is_below = returning.guid == group.guid || returning.guid == leaf.guid;
                is_below && leaf.state != DeviceState::Online
            };
            for leaf in leaves.iter().filter(is_meant) {
                let is_older =
                    written_on(leaf).is_some_and(|found| self.is_older(leaf, &found, &peer));
                if !is_older {
                    continue;
                }
                tracing::warn!(
                    pool = %self.name, path = leaf.name,
                    "the device returned as an older image of itself: all of it is copied again"
                );
                if let Err(error) = legs::note_missing_data(&self.name, leaf.guid, 1, false) {
                    tracing::warn!(%error, "the device's missing data is not recorded");
                }
            }
        }
    }

    /// Lets the library open `returning`, and all its descendants, or all devices. If `pool confirm` gave up the data of
    /// one, its own uberblocks may be of later groups than the pool's. Then its labels are written again, and all data is
    /// copied, if `overwrites`; otherwise it stays closed.
    pub(super) fn admit(
        &self,
        doing: &'static str,
        devices: &[DeviceStatus],
        returning: Option<&DeviceStatus>,
        overwrites: bool,
    ) -> Result<(), PoolError> {
        for group in devices {
            let is_meant = |leaf: &DeviceStatus| {
                returning.is_none_or(|one| one.guid == group.guid || one.guid == leaf.guid)
            };
            for leaf in leaves(group).into_iter().filter(|leaf| is_meant(leaf)) {
                // SAFETY: it compares numbers.
                let is_closed = unsafe { sys::bh_is_closed_device(leaf.guid) } != 0;
                let listed = self.abandoned.iter().find(|one| one.guid == leaf.guid);
                let Some(given_up) = listed.filter(|_| is_closed) else {
                    continue;
                };
                let is_newer = written_on(leaf).is_some_and(|found| {
                    let newest = found.newest().map_or(0, |root| root.txg);
                    newest > given_up.txg && !found.abandoned().contains(given_up)
                });
                match (is_newer, overwrites) {
                    (true, true) => {
                        tracing::warn!(
                            pool = %self.name, path = leaf.name,
                            "`pool confirm` gave up the data of this device: all of it is overwritten"
                        );
                        legs::note_missing_data(&self.name, leaf.guid, 1, true)?;
                        self.relabel(doing, leaf)?;
                    }
                    (true, false) if returning.is_none() => continue,
                    (true, false) => {
                        let why = format!(
                            "it has writes of its own that `pool confirm` gave up; `bulkhead pool online {} {}` overwrites them",
                            self.name, leaf.name
                        );
                        return Err(self.unusable(doing, leaf, why));
                    }
                    (false, _) => {}
                }
                // SAFETY: it changes a number in a list.
                unsafe { sys::bh_admit_device(leaf.guid) };
            }
        }
        Ok(())
    }

    fn unusable(&self, doing: &'static str, leaf: &DeviceStatus, why: String) -> PoolError {
        let path = PathBuf::from(&leaf.name);
        let kind = PoolErrorKind::DeviceUnusable { path, why };
        PoolError::new(doing, self.name.as_str(), kind)
    }

    /// Writes labels without uberblocks to a device that the library does not have open.
    fn relabel(&self, doing: &'static str, leaf: &DeviceStatus) -> Result<(), PoolError> {
        let path = Path::new(&leaf.name);
        let written = device::write_labels(path, leaf.guid, |offset| {
            let label = legs::label(&self.name, leaf.guid, offset);
            label
                .map(|(text, _)| text)
                .map_err(|error| error.to_string())
        });
        written.map_err(|why| self.unusable(doing, leaf, why))
    }

    /// Whether `found` misses uberblocks that the device had when it left, as `peer` shows.
    fn is_older(&self, leaf: &DeviceStatus, found: &Written, peer: &Written) -> bool {
        let (mut since, mut first) = (0, 0);
        let name = c_text(self.name.as_str());
        // SAFETY: the library runs; the name is copied, and each result pointer is valid.
        let code =
            unsafe { sys::bh_leaf_missing_since(name.as_ptr(), leaf.guid, &mut since, &mut first) };
        let Some(newest) = found.newest().filter(|_| code == 0) else {
            return false;
        };
        let roots = peer.roots.iter().map(|root| root.txg);
        let lacking = roots
            .filter(|txg| *txg > newest.txg && *txg < since)
            .count();
        let is_of_earlier_start = since > first && import_of(found) != import_of(peer);
        lacking > ROOTS_MISSING_MAX || is_of_earlier_start
    }
}

fn written_on(leaf: &DeviceStatus) -> Option<Written> {
    let path = Path::new(&leaf.name);
    // Another head's device has its own record.
    if device::far_labels(path).is_some() {
        return None;
    }
    match label::read(path).ok().flatten()? {
        Membership::Member(found) if found.last().guid == leaf.guid => Some(found),
        _ => None,
    }
}

fn leaves(device: &DeviceStatus) -> Vec<&DeviceStatus> {
    match device.children.is_empty() {
        true => vec![device],
        false => device.children.iter().flat_map(leaves).collect(),
    }
}
