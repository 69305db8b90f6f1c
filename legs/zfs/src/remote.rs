//! Legs of other heads as devices under OpenZFS: the driver sends I/O to their lenders.
//!
//! In one directory each leg of the pool has a name, its number. The name of a leg of this head is a symbolic link. The
//! name of a leg of another head is missing, or a sparse file with the leg's labels, so that the library discovers the
//! pool.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use leg_record::DiskId;
use remote_leg::{Awaited, LegError, NbdLeg, Operation, Transport as _};
use rustix::io::Errno;
use units::Extent;
use zpool::device::{
    Access, CompletionThread, Device, DeviceIo, Driver, IoKind, OpenFailure, Reception, Shape,
    Wrap, await_here,
};

/// Bytes for the labels and other metadata at each end of a disk.
const LABELS_BYTES: u64 = 1 << 20;
/// Of those, read at a time: each part of a label (`vdev_label_t`) begins at a multiple.
const LABELS_PART_BYTES: u64 = 128 << 10;
/// A lender handles smaller requests by reading around them.
const LOGICAL_BLOCK: u32 = 512;
/// Suitable for files and disks.
const PHYSICAL_BLOCK: u32 = 4096;
/// Time-out for reading the labels of a leg.
const LABELS_WAIT: Duration = Duration::from_secs(10);

/// A leg of another head, with or without a connection.
#[derive(Default)]
pub(crate) struct Slot {
    leg: Mutex<Option<Arc<NbdLeg>>>,
    /// Completed writes that need a flush.
    written: AtomicU64,
    /// The number of them that a flush covers.
    flushed: AtomicU64,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<NbdLeg>>> {
        self.leg.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn leg(&self) -> Option<Arc<NbdLeg>> {
        self.lock().clone()
    }

    /// Sends I/O to `leg` from now on. I/O in flight on the earlier connection fails.
    pub(crate) fn connect(&self, leg: NbdLeg) {
        let before = self.lock().replace(Arc::new(leg));
        // Its completed writes may not be durable.
        self.written.fetch_add(1, Ordering::AcqRel);
        if let Some(before) = before {
            before.close();
        }
    }

    /// Closes the connection: I/O in flight fails.
    pub(crate) fn close(&self) {
        let leg = self.lock().take();
        if let Some(leg) = leg {
            leg.close();
        }
    }

    fn is_clean(&self) -> bool {
        self.flushed.load(Ordering::Acquire) == self.written.load(Ordering::Acquire)
    }
}

type Slots = BTreeMap<DiskId, Arc<Slot>>;

/// The legs of a pool, on this head and on other heads.
pub(crate) struct Remotes {
    folder: PathBuf,
    own: RwLock<BTreeSet<DiskId>>,
    slots: RwLock<Slots>,
}

impl Remotes {
    /// Legs of this head and of other heads, with their names in `folder`.
    pub(crate) fn new(
        folder: PathBuf,
        own: BTreeSet<DiskId>,
        others: impl IntoIterator<Item = DiskId>,
    ) -> Arc<Self> {
        let slots = others.into_iter().map(|disk| (disk, Arc::default()));
        Arc::new(Self {
            folder,
            own: RwLock::new(own),
            slots: RwLock::new(slots.collect()),
        })
    }

    fn slots(&self) -> Slots {
        let slots = self.slots.read();
        slots.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn slot(&self, disk: DiskId) -> Option<Arc<Slot>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.get(&disk).cloned()
    }

    /// The legs of other heads.
    pub(crate) fn disks(&self) -> Vec<DiskId> {
        self.slots().into_keys().collect()
    }

    /// The legs of this head.
    pub(crate) fn own(&self) -> BTreeSet<DiskId> {
        let own = self.own.read();
        own.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the disk is one of this head.
    pub(crate) fn is_own(&self, disk: DiskId) -> bool {
        let own = self.own.read();
        own.unwrap_or_else(PoisonError::into_inner).contains(&disk)
    }

    /// Adds a leg of this head or of another one. Returns whether it is new.
    pub(crate) fn add(&self, disk: DiskId, is_own: bool) -> bool {
        let mut own = self.own.write().unwrap_or_else(PoisonError::into_inner);
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = !own.contains(&disk) && !slots.contains_key(&disk);
        match (is_new, is_own) {
            (false, _) => {}
            (true, true) => {
                own.insert(disk);
            }
            (true, false) => {
                slots.insert(disk, Arc::default());
            }
        }
        is_new
    }

    /// Path of a leg's name.
    pub(crate) fn place(&self, disk: DiskId) -> PathBuf {
        self.folder.join(disk.0.to_string())
    }

    /// The leg with its name at `path`, on this head or on the one that wrote its label: the directories have the same
    /// name on both.
    pub(crate) fn at(&self, path: &Path) -> Option<DiskId> {
        let disk = DiskId(path.file_name()?.to_str()?.parse().ok()?);
        let is_alike = path.parent()?.file_name() == self.folder.file_name();
        let is_leg = self.is_own(disk) || self.slot(disk).is_some();
        (is_alike && is_leg).then_some(disk)
    }

    /// A driver that sends I/O of these legs to their heads, and passes all other I/O to the inner driver. Fault
    /// injection (`wrap`) applies to both: a device of another head fails here as it would fail there.
    pub(crate) fn wrap(self: &Arc<Self>, wrap: Option<Wrap>) -> Wrap {
        let remotes = Arc::clone(self);
        Arc::new(move |files| {
            let wrapped = |driver: Arc<dyn Driver>| match &wrap {
                Some(wrap) => wrap(driver),
                None => driver,
            };
            let others = OtherHeads(Arc::clone(&remotes));
            Arc::new(LegDriver {
                remotes: Arc::clone(&remotes),
                others: wrapped(Arc::new(others)),
                inner: wrapped(files),
            })
        })
    }

    /// Creates the names of `own` legs, as links to their paths, and the labels of connected legs. Removes all other
    /// names.
    ///
    /// # Errors
    ///
    /// The directory cannot be written.
    pub(crate) fn lay_out(&self, own: &[(DiskId, PathBuf)]) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::fs::create_dir_all(&self.folder)?;
        for (disk, path) in own {
            self.link(*disk, path)?;
        }
        for (disk, slot) in self.slots() {
            if let Some(leg) = slot.leg() {
                // A leg that fails now fails when the library opens it.
                if let Err(error) = copy_labels(&leg, &self.place(disk)) {
                    tracing::warn!(leg = disk.0, %error, "the labels of a leg cannot be read");
                }
            }
        }
        Ok(())
    }

    /// Creates the name of a leg of this head.
    ///
    /// # Errors
    ///
    /// The directory cannot be written.
    pub(crate) fn link(&self, disk: DiskId, path: &Path) -> io::Result<()> {
        match std::os::unix::fs::symlink(path, self.place(disk)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the name of a leg of this head, if it exists.
    ///
    /// # Errors
    ///
    /// The directory cannot be written.
    pub(crate) fn remove_name(&self, disk: DiskId) -> io::Result<()> {
        match std::fs::remove_file(self.place(disk)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the labels, which the library has read, so that no other process discovers them.
    pub(crate) fn drop_cached_labels(&self) {
        for disk in self.disks() {
            let _ = std::fs::remove_file(self.place(disk));
        }
    }
}

fn copy_labels(leg: &NbdLeg, to: &Path) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let file = File::create(to).map_err(text)?;
    let bytes = leg.bytes();
    file.set_len(bytes).map_err(text)?;
    let length = LABELS_BYTES.min(bytes);
    for offset in [0, bytes - length] {
        for part in parts(Extent::new(offset, length)) {
            match read(leg, part)? {
                Some(data) => file.write_all_at(&data, part.offset).map_err(text)?,
                // There are four labels: an unreadable part of one stays empty.
                None => tracing::warn!(?part, "a part of the labels of a leg cannot be read"),
            }
        }
    }
    Ok(())
}

/// An extent in parts, so that an unreadable block does not affect the other parts.
fn parts(extent: Extent) -> impl Iterator<Item = Extent> {
    let starts = (0..extent.length).step_by(LABELS_PART_BYTES as usize);
    starts.map(move |start| {
        let length = LABELS_PART_BYTES.min(extent.length - start);
        Extent::new(extent.offset + start, length)
    })
}

/// Returns `None` if the disk cannot read the extent.
fn read(leg: &NbdLeg, extent: Extent) -> Result<Option<Vec<u8>>, String> {
    let (sender, answer) = channel();
    leg.submit(
        Operation::Read(extent),
        Box::new(move |result| {
            let _ = sender.send(result);
        }),
    );
    match answer.recv_timeout(LABELS_WAIT) {
        Ok(Ok(data)) => Ok(Some(data)),
        Ok(Err(LegError::Disk(_))) => Ok(None),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no response in time".to_owned()),
    }
}

struct LegDriver {
    remotes: Arc<Remotes>,
    /// For legs of other heads.
    others: Arc<dyn Driver>,
    inner: Arc<dyn Driver>,
}

impl Driver for LegDriver {
    fn open(&self, path: &Path, guid: u64, access: Access) -> Result<Arc<dyn Device>, OpenFailure> {
        let Some(disk) = self.remotes.at(path) else {
            return self.inner.open(path, guid, access);
        };
        let driver = match self.remotes.slot(disk) {
            Some(_) => &self.others,
            None => &self.inner,
        };
        driver.open(&self.remotes.place(disk), guid, access)
    }

    fn is_there(&self, path: &Path) -> bool {
        self.inner.is_there(path)
    }
}

/// Legs of other heads by their names.
struct OtherHeads(Arc<Remotes>);

impl Driver for OtherHeads {
    fn open(&self, path: &Path, _: u64, _: Access) -> Result<Arc<dyn Device>, OpenFailure> {
        let disk = self.0.at(path).ok_or(OpenFailure::Missing)?;
        let slot = self.0.slot(disk).ok_or(OpenFailure::Missing)?;
        match slot.leg() {
            Some(_) => Ok(Arc::new(RemoteDevice(slot))),
            None => Err(OpenFailure::Missing),
        }
    }

    fn is_there(&self, path: &Path) -> bool {
        self.0.at(path).is_some()
    }
}

struct RemoteDevice(Arc<Slot>);

impl Device for RemoteDevice {
    fn shape(&self) -> Result<Shape, OpenFailure> {
        let leg = self.0.leg().ok_or(OpenFailure::Missing)?;
        Ok(Shape {
            bytes: leg.bytes(),
            logical_block: LOGICAL_BLOCK,
            physical_block: PHYSICAL_BLOCK,
            merges: true,
            far: true,
            trim: false,
        })
    }

    fn submit(&self, io: DeviceIo) {
        let Some(leg) = self.0.leg() else {
            return io.complete(Err(Errno::NXIO), CompletionThread::Elsewhere);
        };
        let extent = Extent::new(io.offset(), io.length() as u64);
        let slot = Arc::clone(&self.0);
        match io.kind() {
            IoKind::Read => leg.submit(
                Operation::Read(extent),
                Box::new(move |result| {
                    if let Ok(data) = &result {
                        io.copy_from(data);
                    }
                    io.complete(outcome(result), CompletionThread::Here);
                }),
            ),
            IoKind::Write => {
                let mut data = vec![0; io.length()];
                if !io.copy_to(&mut data) {
                    return io.complete(Err(Errno::NXIO), CompletionThread::Elsewhere);
                }
                let durable = io.is_flushed_next();
                let write = Operation::Write {
                    offset: io.offset(),
                    data: Arc::new(data),
                    durable,
                };
                let is_awaited = io.is_awaited();
                let done = Box::new(move |result| {
                    if !durable {
                        slot.written.fetch_add(1, Ordering::AcqRel);
                    }
                    io.complete(outcome(result), CompletionThread::Here);
                });
                if !is_awaited {
                    leg.submit(write, done);
                } else if let Some(awaited) = leg.submit_awaited(write, done) {
                    await_here(Box::new(Reply(awaited)));
                }
            }
            IoKind::Flush if slot.is_clean() => io.complete(Ok(()), CompletionThread::Here),
            IoKind::Flush => {
                let written = slot.written.load(Ordering::Acquire);
                leg.submit(
                    Operation::Flush,
                    Box::new(move |result| {
                        if result.is_ok() {
                            slot.flushed.fetch_max(written, Ordering::AcqRel);
                        }
                        io.complete(outcome(result), CompletionThread::Here);
                    }),
                );
            }
            IoKind::Trim => io.complete(Err(Errno::OPNOTSUPP), CompletionThread::Elsewhere),
        }
    }
}

/// The reply to a write of a log.
struct Reply(Awaited);

impl Reception for Reply {
    fn receive(&self) -> bool {
        self.0.receive()
    }
}

fn outcome(result: Result<Vec<u8>, LegError>) -> Result<(), Errno> {
    match result {
        Ok(_) => Ok(()),
        Err(LegError::Disk(_)) => Err(Errno::IO),
        Err(_) => Err(Errno::NXIO),
    }
}
