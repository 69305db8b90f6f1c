//! A sparse device in memory: the reference for tests of engines, and a disk for tests of a
//! protocol without a pool.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::{
    BlockDevice, Commit, DeviceError, ErrorKind, Extent, Geometry, ReadLoan, StatusRun, Update,
    WaitMode, WriteLoan, Zero,
};

/// Unit of allocation, in bytes.
const CHUNK_BYTES: u64 = 4096;

/// A device that stores its written chunks in memory and loses them when dropped.
pub struct MemoryDevice {
    shared: Arc<Shared>,
}

struct Shared {
    geometry: Geometry,
    chunks: Mutex<BTreeMap<u64, Box<[u8]>>>,
    dirty: AtomicBool,
}

impl MemoryDevice {
    /// A device of `size` zero bytes, with blocks of `logical_block` bytes.
    pub fn new(size: u64, logical_block: u32) -> Self {
        assert!(
            size % u64::from(logical_block) == 0,
            "size is a multiple of the block"
        );
        let geometry = Geometry {
            size,
            logical_block,
            physical_block: CHUNK_BYTES as u32,
            read_only: false,
        };
        let shared = Shared {
            geometry,
            chunks: Mutex::default(),
            dirty: AtomicBool::new(false),
        };
        Self {
            shared: Arc::new(shared),
        }
    }
}

impl Shared {
    fn check(&self, doing: &'static str, extent: Extent) -> Result<(), DeviceError> {
        if extent.fits(self.geometry.size) {
            Ok(())
        } else {
            Err(DeviceError::new(ErrorKind::OutOfRange, doing, extent))
        }
    }

    fn chunks(&self) -> MutexGuard<'_, BTreeMap<u64, Box<[u8]>>> {
        self.chunks.lock().expect("no holder panics")
    }

    /// Changes the chunks, if `wait_mode` permits it after they are locked.
    fn change(
        &self,
        doing: &'static str,
        extent: Extent,
        wait_mode: WaitMode<'_>,
        change: impl FnOnce(&mut BTreeMap<u64, Box<[u8]>>),
    ) -> Result<(), DeviceError> {
        self.check(doing, extent)?;
        let mut chunks = self.chunks();
        if !wait_mode.permits() {
            return Err(DeviceError::new(ErrorKind::Gone, doing, extent));
        }
        change(&mut chunks);
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }
}

/// Calls `visit(chunk index, range inside the chunk, range inside the extent)` for each chunk.
fn for_each_chunk(
    extent: Extent,
    mut visit: impl FnMut(u64, std::ops::Range<usize>, std::ops::Range<usize>),
) {
    let mut done = 0;
    while done < extent.length {
        let at = extent.offset + done;
        let within = at % CHUNK_BYTES;
        let count = (CHUNK_BYTES - within).min(extent.length - done);
        visit(
            at / CHUNK_BYTES,
            within as usize..(within + count) as usize,
            done as usize..(done + count) as usize,
        );
        done += count;
    }
}

fn copy_out(chunks: &BTreeMap<u64, Box<[u8]>>, extent: Extent) -> Vec<u8> {
    let mut bytes = vec![0; extent.length as usize];
    for_each_chunk(extent, |index, inside, outside| {
        if let Some(chunk) = chunks.get(&index) {
            bytes[outside].copy_from_slice(&chunk[inside]);
        }
    });
    bytes
}

fn copy_in(chunks: &mut BTreeMap<u64, Box<[u8]>>, offset: u64, data: &[u8]) {
    for_each_chunk(
        Extent::new(offset, data.len() as u64),
        |index, inside, outside| {
            let chunk = chunks
                .entry(index)
                .or_insert_with(|| vec![0; CHUNK_BYTES as usize].into());
            chunk[inside].copy_from_slice(&data[outside]);
        },
    );
}

fn free(chunks: &mut BTreeMap<u64, Box<[u8]>>, extent: Extent) {
    for_each_chunk(extent, |index, inside, _| {
        if inside.len() == CHUNK_BYTES as usize {
            chunks.remove(&index);
        } else if let Some(chunk) = chunks.get_mut(&index) {
            chunk[inside].fill(0);
        }
    });
}

struct CopiedRead(Vec<u8>);

impl ReadLoan for CopiedRead {
    fn byte_count(&self) -> usize {
        self.0.len()
    }
    fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>) {
        parts.push(&self.0);
    }
}

struct CopiedWrite {
    shared: Arc<Shared>,
    extent: Extent,
    bytes: Vec<u8>,
}

impl WriteLoan for CopiedWrite {
    fn extent(&self) -> Extent {
        self.extent
    }
    fn append_parts<'a>(&'a mut self, parts: &mut Vec<&'a mut [u8]>) {
        parts.push(&mut self.bytes);
    }
    fn commit(self: Box<Self>, wait_mode: WaitMode<'_>) -> Commit {
        let Self { extent, bytes, .. } = &*self;
        let changed = self.shared.change("write", *extent, wait_mode, |chunks| {
            copy_in(chunks, extent.offset, bytes);
        });
        match changed {
            Ok(()) => Commit::Done,
            Err(error) => Commit::Failed(error),
        }
    }
}

impl BlockDevice for MemoryDevice {
    fn geometry(&self) -> Geometry {
        self.shared.geometry
    }

    fn read(&self, extent: Extent, _: WaitMode<'_>) -> Result<Box<dyn ReadLoan>, DeviceError> {
        self.shared.check("read", extent)?;
        Ok(Box::new(CopiedRead(copy_out(
            &self.shared.chunks(),
            extent,
        ))))
    }

    fn lend(&self, extent: Extent) -> Result<Box<dyn WriteLoan>, DeviceError> {
        self.shared.check("write", extent)?;
        let bytes = vec![0; extent.length as usize];
        Ok(Box::new(CopiedWrite {
            shared: Arc::clone(&self.shared),
            extent,
            bytes,
        }))
    }

    fn write(&self, offset: u64, data: &[u8], wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, data.len() as u64);
        self.shared.change("write", extent, wait_mode, |chunks| {
            copy_in(chunks, offset, data);
        })
    }

    fn write_zeroes(
        &self,
        extent: Extent,
        zero: Zero,
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError> {
        match zero {
            Zero::MayFree => self.unmap(extent, wait_mode),
            Zero::KeepAllocated => {
                self.shared.check("write zeroes", extent)?;
                self.write(extent.offset, &vec![0; extent.length as usize], wait_mode)
            }
        }
    }

    fn unmap(&self, extent: Extent, wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        self.shared
            .change("unmap", extent, wait_mode, |chunks| free(chunks, extent))
    }

    fn update(
        &self,
        extent: Extent,
        change: &mut dyn FnMut(&mut [u8]) -> Update,
    ) -> Result<Update, DeviceError> {
        self.shared.check("update", extent)?;
        let mut chunks = self.shared.chunks();
        let mut bytes = copy_out(&chunks, extent);
        let verdict = change(&mut bytes);
        if verdict == Update::Write {
            copy_in(&mut chunks, extent.offset, &bytes);
            self.shared.dirty.store(true, Ordering::Release);
        }
        Ok(verdict)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.shared.dirty.store(false, Ordering::Release);
        Ok(())
    }

    fn is_clean(&self) -> bool {
        !self.shared.dirty.load(Ordering::Acquire)
    }

    fn status(&self, extent: Extent, runs_max: usize) -> Result<Vec<StatusRun>, DeviceError> {
        self.shared.check("status", extent)?;
        let chunks = self.shared.chunks();
        let mut runs: Vec<StatusRun> = Vec::new();
        for_each_chunk(extent, |index, inside, _| {
            let allocated = chunks.contains_key(&index);
            let length = inside.len() as u64;
            match runs.last_mut() {
                Some(last) if last.allocated == allocated => last.length += length,
                _ => runs.push(StatusRun { length, allocated }),
            }
        });
        runs.truncate(runs_max);
        Ok(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(device: &MemoryDevice, extent: Extent) -> Vec<u8> {
        let loan = device.read(extent, WaitMode::NoWait).unwrap();
        let mut parts = Vec::new();
        loan.append_parts(&mut parts);
        parts.concat()
    }

    #[test]
    fn unmapped_range_reads_as_zeroes_and_neighbours_stay_intact() {
        let device = MemoryDevice::new(1 << 20, 512);
        device.write(0, &[7; 16384], WaitMode::NoWait).unwrap();
        device
            .unmap(Extent::new(1000, 8192), WaitMode::NoWait)
            .unwrap();
        let bytes = read(&device, Extent::new(0, 16384));
        assert!(bytes[..1000].iter().all(|b| *b == 7));
        assert!(bytes[1000..9192].iter().all(|b| *b == 0));
        assert!(bytes[9192..].iter().all(|b| *b == 7));
        let runs = device.status(Extent::new(0, 16384), 10).unwrap();
        assert_eq!(
            runs.iter().map(|run| run.allocated).collect::<Vec<_>>(),
            [true, false, true]
        );
    }

    #[test]
    fn extent_past_the_end_is_refused() {
        let device = MemoryDevice::new(4096, 512);
        let error = device.write(4000, &[0; 200], WaitMode::NoWait).unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutOfRange);
    }
}
