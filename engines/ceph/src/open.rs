//! The state of an open volume or snapshot, which its loans and its pauses share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, mpsc};

use block_device::{DeviceError, ErrorKind, Extent, WaitMode};
use ceph_sys::{CephError, Image};
use engine::gate::{Gate, Shut};
use engine::volume::OpenOptions;

use crate::errors::{is_loss, of_device};
use crate::ranges::Mode;
use crate::records::Number;
use crate::shelf::{OpenVolume, Shelf};

/// The whole of any volume.
pub(crate) const WHOLE: Extent = Extent::new(0, u64::MAX);

/// A use of an open volume, until it is dropped.
pub(crate) struct Use(pub(crate) Arc<OpenVolume>);

impl Drop for Use {
    fn drop(&mut self) {
        self.0.gate.leave();
    }
}

fn refused(shut: Shut, doing: &'static str, extent: Extent) -> DeviceError {
    let kind = match shut {
        Shut::Closed => ErrorKind::Gone,
        Shut::Paused => ErrorKind::WouldBlock,
    };
    DeviceError::new(kind, doing, extent)
}

impl OpenVolume {
    pub(crate) fn new(
        shelf: &Arc<Shelf>,
        name: &str,
        guid: Number,
        options: OpenOptions,
        (size, block): (u64, u64),
        image: Arc<Image>,
    ) -> Self {
        Self {
            shelf: Arc::clone(shelf),
            name: name.to_owned(),
            guid,
            options,
            block,
            gate: Gate::default(),
            ranges: Arc::default(),
            size: AtomicU64::new(size),
            image: RwLock::new(Some(image)),
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    pub(crate) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Release);
    }

    /// Its image, unless it is closed.
    pub(crate) fn image(&self) -> Option<Arc<Image>> {
        self.image
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Replaces its image, or closes it. Returns the previous one, which the caller drops.
    pub(crate) fn replace_image(&self, image: Option<Arc<Image>>) -> Option<Arc<Image>> {
        let mut current = self.image.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut current, image)
    }

    /// Begins a use, after a pause if `waits`.
    pub(crate) fn enter(self: &Arc<Self>, waits: bool) -> Result<Use, Shut> {
        match self.gate.enter() {
            Err(Shut::Paused) if waits => {
                let entered = self.gate.enter_blocking();
                entered.then_some(()).ok_or(Shut::Closed)
            }
            entered => entered,
        }?;
        Ok(Use(Arc::clone(self)))
    }

    /// Begins a use of `extent`.
    pub(crate) fn using(
        self: &Arc<Self>,
        doing: &'static str,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<Use, DeviceError> {
        let using = self.enter(wait_mode.may_block());
        let using = using.map_err(|shut| refused(shut, doing, extent))?;
        if !extent.fits(self.size()) {
            return Err(DeviceError::new(ErrorKind::OutOfRange, doing, extent));
        }
        Ok(using)
    }

    /// Its image, in a use.
    pub(crate) fn used_image(
        &self,
        doing: &'static str,
        extent: Extent,
    ) -> Result<Arc<Image>, DeviceError> {
        let image = self.image().filter(|_| !self.shelf.is_lost());
        image.ok_or_else(|| DeviceError::new(ErrorKind::Gone, doing, extent))
    }

    /// The error of a request, after which the shelf may be lost.
    pub(crate) fn failed(
        &self,
        doing: &'static str,
        extent: Extent,
        error: CephError,
    ) -> DeviceError {
        if is_loss(error) {
            self.shelf.lose(error);
        }
        match self.shelf.is_lost() {
            // Whatever the error: the volume is another head's, which clients reach there.
            true => DeviceError::new(ErrorKind::Gone, doing, extent),
            false => of_device(doing, extent, error),
        }
    }

    /// Reads `extent`, which the caller has locked.
    pub(crate) fn read_now(
        &self,
        doing: &'static str,
        extent: Extent,
    ) -> Result<Vec<u8>, DeviceError> {
        let image = self.used_image(doing, extent)?;
        if extent.length == 0 {
            return Ok(Vec::new());
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        let done = Box::new(move |image, result| drop(sender.send((image, result))));
        let begun = image.begin_read(extent.offset, extent.length as usize, done);
        let read = begun.and_then(|()| {
            receiver
                .recv()
                .map_or(Err(CephError::INVALID), |(_, read)| read)
        });
        read.map_err(|error| self.failed(doing, extent, error))
    }

    /// Changes `extent`, when no request that overlaps is in progress: `change` gets the image.
    pub(crate) fn change(
        &self,
        doing: &'static str,
        extent: Extent,
        wait_mode: WaitMode<'_>,
        growth: u64,
        change: impl FnOnce(&Image) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let fail = |kind| Err(DeviceError::new(kind, doing, extent));
        if self.options.read_only {
            return fail(ErrorKind::ReadOnly);
        }
        if !wait_mode.may_block() {
            return fail(ErrorKind::WouldBlock);
        }
        let _locked = self.ranges.lock(extent, Mode::Exclusive);
        let image = self.used_image(doing, extent)?;
        if !wait_mode.permits() {
            return fail(ErrorKind::Gone);
        }
        if growth > 0 && !self.shelf.space.admit(self.guid, growth) {
            return fail(ErrorKind::NoSpace);
        }
        let _writing = self.shelf.watch.write();
        change(&image)
    }

    /// Writes `data`, in a use.
    pub(crate) fn write(
        &self,
        extent: Extent,
        data: &[u8],
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError> {
        self.change("write", extent, wait_mode, extent.length, |image| {
            let written = image.write(extent.offset, data);
            written.map_err(|error| self.failed("write", extent, error))
        })
    }
}
