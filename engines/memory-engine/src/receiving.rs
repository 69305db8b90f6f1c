//! Receiving.

use std::io::Read;
use std::sync::{Arc, Mutex};

use engine::capabilities::Receiving;
use engine::dataset::{DatasetErrorKind, DatasetKind, Value};
use engine::transfer::{
    Initial, Interrupted, ReceiveSpec, Received, StreamError, StreamFault, TransferError,
    TransferErrorKind,
};
use units::{SnapshotName, VolumeName};

use crate::image::Image;
use crate::numbers::now_s;
use crate::partial::Partial;
use crate::state::{MemoryPool, State};
use crate::stream::{Begin, FORMAT, Reader};
use crate::tree::{Dataset, Snapshot, Tree};

/// Returns the library's error for streams that do not match.
fn unfit() -> TransferErrorKind {
    TransferErrorKind::Stream(
        StreamFault::Malformed.because("it does not fit the volume, or contradicts itself"),
    )
}

impl Tree {
    /// Returns the base of an incremental stream in an existing volume.
    fn base_in(
        &self,
        dataset: &Dataset,
        begin: &Begin,
        force: bool,
    ) -> Result<Image, TransferErrorKind> {
        let base = dataset
            .snapshots
            .iter()
            .find(|one| one.guid == begin.from_guid);
        let base = base.ok_or(TransferErrorKind::NoBase)?;
        let is_newest = dataset
            .snapshots
            .last()
            .is_some_and(|last| last.guid == base.guid);
        let is_changed = !is_newest || !dataset.contents().is_same(&base.image);
        match is_changed && !force {
            true => Err(TransferErrorKind::Diverged),
            false => Ok((*base.image).clone()),
        }
    }

    fn fresh(&self, name: &str, begin: &Begin) -> Result<Image, TransferErrorKind> {
        self.place(name).map_err(TransferErrorKind::Dataset)?;
        match (begin.from_guid, begin.is_clone) {
            (0, _) => Ok(Image::new(begin.size, begin.block_size)),
            (_, false) => Err(TransferErrorKind::NoBase),
            (guid, true) => match self.snapshot_by_guid(guid) {
                Some((_, origin)) => Ok((*origin.image).clone()),
                None => Err(TransferErrorKind::NoBase),
            },
        }
    }
}

impl State {
    /// Creates the partial state at the start of a stream.
    fn begin_partial(
        &self,
        spec: &ReceiveSpec,
        tag: &str,
        begin: &Begin,
    ) -> Result<Partial, TransferErrorKind> {
        let name = spec.volume.as_str();
        let existing = self.tree.datasets.get(name);
        let left = existing.and_then(|one| one.partial.as_ref());
        match (left, begin.rest_from) {
            (Some(left), _) if left.is_under_way => return Err(TransferErrorKind::Partial),
            (Some(left), Some(first)) => {
                let fits = left.begin.to_guid == begin.to_guid && left.next_block == first;
                return if fits { Ok(left.clone()) } else { Err(unfit()) };
            }
            (Some(_), None) => return Err(TransferErrorKind::Partial),
            (None, Some(_)) => return Err(unfit()),
            (None, None) => {}
        }
        let mut image = match existing {
            None => self.tree.fresh(name, begin)?,
            Some(there) if begin.from_guid == 0 => match spec.force && there.snapshots.is_empty() {
                true => Image::new(begin.size, begin.block_size),
                false => return Err(TransferErrorKind::Exists),
            },
            Some(there) if there.snapshot(tag).is_some() => return Err(TransferErrorKind::Exists),
            Some(there) => self.tree.base_in(there, begin, spec.force)?,
        };
        self.check_keys(name, begin)?;
        image.resize(begin.size);
        Ok(Partial {
            is_new: existing.is_none(),
            image,
            begin: begin.clone(),
            next_block: 0,
            bytes: 0,
            is_kept: spec.resumable,
            is_under_way: true,
        })
    }

    fn check_keys(&self, name: &str, begin: &Begin) -> Result<(), TransferErrorKind> {
        let missing = || TransferErrorKind::Dataset(DatasetErrorKind::KeyMissing);
        let is_raw = begin.encryption.is_some();
        match self.tree.datasets.get(name) {
            None if is_raw => Ok(()),
            None => match self.inherited_encryption(name) {
                Ok(_) => Ok(()),
                Err(_) => Err(missing()),
            },
            Some(there) if is_raw && there.encryption.is_none() => Err(unfit()),
            Some(there) if there.is_open => Err(TransferErrorKind::Partial),
            Some(_) if !is_raw && self.tree.is_locked(name) => Err(missing()),
            Some(_) => Ok(()),
        }
    }

    /// Marks a receive as active.
    fn note_partial(&mut self, name: &str, mut partial: Partial) {
        partial.is_under_way = true;
        if !self.tree.datasets.contains_key(name) {
            let image = Image::new(partial.begin.size, partial.begin.block_size);
            let mut dataset = Dataset::new(self.tree.next_txg(), Some(image));
            dataset.encryption = match &partial.begin.encryption {
                Some(key) => Some(key.clone().owned_by(dataset.guid)),
                None => self.inherited_encryption(name).ok().flatten(),
            };
            dataset.origin = Some(partial.begin.from_guid).filter(|_| partial.begin.is_clone);
            self.tree.datasets.insert(name.to_owned(), dataset);
        }
        if let Some(dataset) = self.tree.datasets.get_mut(name) {
            dataset.partial = Some(partial);
        }
    }

    /// The stream ended before its end.
    fn give_up(&mut self, name: &str, mut partial: Partial) {
        partial.is_under_way = false;
        let Some(dataset) = self.tree.datasets.get_mut(name) else {
            return;
        };
        match (partial.is_kept, partial.is_new) {
            (true, _) => dataset.partial = Some(partial),
            (false, false) => dataset.partial = None,
            (false, true) => drop(self.tree.datasets.remove(name)),
        }
    }

    /// The stream has arrived.
    fn complete(
        &mut self,
        name: &str,
        tag: &str,
        partial: Partial,
        initial: &[(String, Value)],
    ) -> Result<(), TransferErrorKind> {
        let txg = self.tree.next_txg();
        if partial.is_new {
            let checked = self
                .checked_new(name, initial, 0, true)
                .map_err(TransferErrorKind::Dataset)?;
            if let Some(dataset) = self.tree.datasets.get_mut(name) {
                dataset.properties = checked;
            }
        }
        let dataset = self.tree.get(name).map_err(TransferErrorKind::Dataset)?;
        let base = dataset
            .snapshots
            .iter()
            .position(|one| one.guid == partial.begin.from_guid);
        let kept = base.map_or(0, |base| base + 1);
        let mut lost = dataset.snapshots.iter().skip(kept);
        if lost.any(|one| !self.tree.clones_of(one.guid).is_empty()) {
            return Err(TransferErrorKind::Dataset(DatasetErrorKind::HasClones));
        }
        let dataset = self
            .tree
            .get_mut(name)
            .map_err(TransferErrorKind::Dataset)?;
        dataset.snapshots.truncate(kept);
        dataset.snapshots.push(Snapshot {
            guid: partial.begin.to_guid,
            tag: tag.to_owned(),
            txg,
            time_s: now_s(),
            image: Arc::new(partial.image.clone()),
            files: None,
            properties: Default::default(),
            holds: Default::default(),
        });
        dataset.partial = None;
        dataset.volume = Some(Arc::new(Mutex::new(partial.image)));
        Ok(())
    }
}

impl Receiving for MemoryPool {
    fn formats(&self) -> &'static [&'static str] {
        &[FORMAT]
    }

    fn receive(
        &self,
        spec: &ReceiveSpec,
        initial: Initial<'_>,
        source: &mut dyn Read,
    ) -> Result<Received, TransferError> {
        let name = spec.volume.as_str();
        let fail = |kind| TransferError::new("receive", name, kind);
        drop(self.begin_transfer("receive", "receive", (&spec.volume).into())?);
        let mut reader = Reader::new(source);
        let begin = reader
            .begin()
            .map_err(|kind| fail(TransferErrorKind::Stream(kind)))?;
        let tag = spec.tag.as_deref().unwrap_or(begin.tag());
        let snapshot: Result<SnapshotName, _> = format!("{name}@{tag}").parse();
        let unnamed = TransferErrorKind::SnapshotName(tag.to_owned());
        let snapshot = snapshot.map_err(|_| fail(unnamed))?;
        let mut partial = {
            let mut state = self.lock();
            let partial = state
                .begin_partial(spec, snapshot.tag(), &begin)
                .map_err(fail)?;
            state.note_partial(name, partial.clone());
            partial
        };
        // The pool is not held while the sender is waited for.
        let ended = loop {
            match reader.record().and_then(|record| partial.take(record)) {
                Ok(true) => partial.bytes = partial.bytes.max(reader.bytes),
                Ok(false) => break Ok(()),
                Err(kind) => break Err(TransferErrorKind::Stream(kind)),
            }
        };
        let mut state = self.lock();
        let initial = initial(DatasetKind::Volume, &[]);
        let ended =
            ended.and_then(|()| state.complete(name, snapshot.tag(), partial.clone(), &initial));
        if let Err(kind) = ended {
            let is_cut = |error: &StreamError| error.fault == StreamFault::Cut;
            partial.is_kept &= matches!(&kind, TransferErrorKind::Stream(error) if is_cut(error));
            state.give_up(name, partial);
            return Err(fail(kind));
        }
        Ok(Received {
            snapshots: vec![snapshot],
            bytes: reader.bytes,
            properties: Vec::new(),
        })
    }

    fn interrupted(&self, volume: &VolumeName) -> Result<Option<Interrupted>, TransferError> {
        let state = self.begin_transfer("interrupted", "look at", volume.into())?;
        let left = state.tree.datasets.get(volume.as_str());
        let left = left.and_then(|dataset| dataset.partial.as_ref());
        Ok(left.map(|left| Interrupted {
            token: left.is_kept.then(|| left.token()),
            is_partial: left.is_new,
        }))
    }

    fn abort_receive(&self, volume: &VolumeName) -> Result<(), TransferError> {
        const DOING: &str = "abort the receive of";
        let mut state = self.begin_transfer("abort_receive", DOING, volume.into())?;
        let fail = |kind| TransferError::new(DOING, volume.as_str(), kind);
        let left = state.tree.datasets.get_mut(volume.as_str());
        let left = left.and_then(|dataset| dataset.partial.take());
        let mut left = left.ok_or_else(|| fail(TransferErrorKind::NothingPartial))?;
        left.is_kept = false;
        state.give_up(volume.as_str(), left);
        Ok(())
    }
}
