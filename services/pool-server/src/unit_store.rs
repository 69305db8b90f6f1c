//! The state of one unit that initiators change, persistent reservations and the write cache, written through to the
//! volume's properties: durable in the pool before the initiator's response.

use std::io;
use std::sync::{Arc, Mutex};

use control::exports::{join_parts, mode_property, part_names, split_parts};
use engine::dataset::Value;
use operations::DocumentCache;
use scsi::{ModeStore, ReservationStore};
use units::{IscsiName, VolumeName};

use super::shared_pool::SharedPool;

/// Stores the state of unit `lun` of `target` on its volume.
pub struct UnitStore {
    pool: Arc<SharedPool>,
    known: Arc<DocumentCache>,
    target: IscsiName,
    lun: u16,
    state: Mutex<State>,
}

struct State {
    /// Follows renames.
    volume: VolumeName,
    /// The stored reservations, by part. Read in bulk with the exports, since a thousand units must not cost a thousand
    /// reads at start.
    parts: Vec<String>,
    /// The saved mode parameters, read in the same way.
    modes: Option<String>,
}

impl UnitStore {
    /// The store of a unit, initialized with its parts in `kept`.
    pub fn new(
        (pool, known): (Arc<SharedPool>, Arc<DocumentCache>),
        target: IscsiName,
        lun: u16,
        volume: VolumeName,
        kept: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let parts = part_names(&target, lun)
            .map_while(|name| kept(&name))
            .collect();
        let modes = kept(&mode_property(&target, lun));
        Self {
            pool,
            known,
            target,
            lun,
            state: Mutex::new(State {
                volume,
                parts,
                modes,
            }),
        }
    }

    /// The volume that stores them.
    pub fn volume(&self) -> VolumeName {
        self.state.lock().expect("no holder panics").volume.clone()
    }

    /// Updates the name of the volume.
    pub fn renamed(&self, volume: VolumeName) {
        self.state.lock().expect("no holder panics").volume = volume;
    }
}

impl ReservationStore for UnitStore {
    fn load(&self) -> io::Result<Option<Vec<u8>>> {
        let state = self.state.lock().expect("no holder panics");
        join_parts(|part| state.parts.get(part).cloned()).map_err(io::Error::other)
    }

    fn save(&self, bytes: &[u8]) -> io::Result<()> {
        let parts = split_parts(bytes).map_err(io::Error::other)?;
        let mut state = self.state.lock().expect("no holder panics");
        // All parts in one transaction group, so that a crash leaves either the old or the new state.
        let names: Vec<String> = part_names(&self.target, self.lun).collect();
        let values: Vec<(String, Value)> = names
            .iter()
            .zip(&parts)
            .map(|(name, part)| (name.clone(), Value::Text(part.clone())))
            .collect();
        let pool = self.pool.require().map_err(io::Error::other)?;
        let kept = pool.set_dataset_properties((&state.volume).into(), &values);
        self.known.changed(state.volume.as_str());
        kept.map_err(io::Error::other)?;
        // Parts beyond the new count are ignored; removing them only saves space.
        for name in names.iter().take(state.parts.len()).skip(parts.len()) {
            if let Err(error) = pool.inherit_property((&state.volume).into(), name) {
                tracing::debug!(%error, "an unused part of the reservations is left");
            }
        }
        state.parts = parts;
        Ok(())
    }
}

impl ModeStore for UnitStore {
    fn load(&self) -> io::Result<Option<Vec<u8>>> {
        let state = self.state.lock().expect("no holder panics");
        Ok(state.modes.clone().map(String::into_bytes))
    }

    fn save(&self, bytes: &[u8]) -> io::Result<()> {
        let text = String::from_utf8(bytes.to_vec()).map_err(io::Error::other)?;
        let mut state = self.state.lock().expect("no holder panics");
        let property = (
            mode_property(&self.target, self.lun),
            Value::Text(text.clone()),
        );
        let pool = self.pool.require().map_err(io::Error::other)?;
        let kept = pool.set_dataset_properties((&state.volume).into(), &[property]);
        self.known.changed(state.volume.as_str());
        kept.map_err(io::Error::other)?;
        state.modes = Some(text);
        Ok(())
    }
}
