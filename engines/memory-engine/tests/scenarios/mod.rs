//! The operations on each engine, and the log of their results.

mod data;
mod files;
mod keyed;
mod pools;
mod transfers;

use std::fmt::Debug;
use std::path::PathBuf;

use engine::dataset::{
    DatasetError, DatasetErrorKind, DatasetInfo, DatasetKind, DatasetRef, Snapshots, VolumeSpec,
};
use engine::pool::{DeviceStatus, PoolError};
use engine::transfer::{TransferError, TransferErrorKind};
use engine::{Engine, Pool, Unsupported};
use units::{ByteCount, SnapshotName, VolumeName};

pub use data::*;
pub use files::*;
pub use keyed::*;
pub use pools::*;
pub use transfers::*;

pub const MIB: u64 = 1 << 20;

/// The results, one line for each step.
#[derive(Default)]
pub struct Transcript {
    pub lines: Vec<String>,
}

/// A pool that a scenario is about.
pub struct Bench<'a> {
    pub engine: &'a dyn Engine,
    pub pool: Option<Box<dyn Pool>>,
    pub dir: PathBuf,
    pub told: Transcript,
}

/// The kind of an error, which callers match on.
pub trait Kind {
    fn kind(&self) -> String;
}

fn variant(kind: &dyn Debug) -> String {
    let text = format!("{kind:?}");
    text.split([' ', '(', '{'])
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn dataset_kind(kind: &DatasetErrorKind) -> String {
    match kind {
        DatasetErrorKind::Property { property, .. } => format!("Property {property}"),
        kind => variant(kind),
    }
}

impl Kind for DatasetError {
    fn kind(&self) -> String {
        dataset_kind(&self.kind)
    }
}

impl Kind for PoolError {
    fn kind(&self) -> String {
        variant(&self.kind)
    }
}

impl Kind for TransferError {
    fn kind(&self) -> String {
        match &self.kind {
            TransferErrorKind::Dataset(kind) => dataset_kind(kind),
            TransferErrorKind::Stream(kind) => format!("Stream {}", variant(&kind.fault)),
            kind => variant(kind),
        }
    }
}

/// The capability that the next step is about. Without it a scenario ends.
pub fn has<T>(capability: Result<T, Unsupported>) -> T {
    capability.unwrap_or_else(|missing| std::panic::resume_unwind(Box::new(missing)))
}

/// Begins lines that only an engine with devices has.
pub const OF_DEVICES: &str = "its devices";

pub fn volume(name: &str) -> VolumeName {
    name.parse().expect("a name of a volume")
}

pub fn snapshot(name: &str) -> SnapshotName {
    name.parse().expect("a name of a snapshot")
}

pub fn any(name: &str) -> DatasetRef<'_> {
    DatasetRef::from_checked(name)
}

/// A sparse volume of 8 MiB with blocks of 16 KiB.
pub fn sparse(name: &str) -> VolumeSpec {
    VolumeSpec::sparse(volume(name), ByteCount(8 * MIB))
}

/// OpenZFS stores a partial receive in a dataset of its own.
fn is_logged(info: &&DatasetInfo) -> bool {
    !info.name.contains('%')
}

fn shown(info: &DatasetInfo) -> String {
    let shape = info
        .volume
        .map(|shape| (shape.size.get(), shape.block_size.get()));
    format!(
        "{} {:?} snapshot {} origin {:?} shape {shape:?} reserves {} holds {}",
        info.name,
        info.kind,
        info.snapshot,
        info.origin,
        info.refreservation.get() > 0,
        // Data blocks, and not only metadata.
        info.referenced.get() > MIB / 2 && info.kind != DatasetKind::Other,
    )
}

/// A device with those below it, by roles and states.
pub fn device(device: &DeviceStatus) -> String {
    let name = device.name.rsplit('/').next().unwrap_or_default();
    let inner: Vec<String> = device.children.iter().map(self::device).collect();
    format!(
        "{name} {} {:?} {:?} [{}]",
        device.kind,
        device.role,
        device.state,
        inner.join(", ")
    )
}

impl Bench<'_> {
    pub fn pool(&self) -> &dyn Pool {
        self.pool.as_deref().expect("open")
    }

    /// The name of the pool with `rest`.
    pub fn name(&self, rest: &str) -> String {
        format!("{}{rest}", self.pool().name())
    }

    /// The path of a disk.
    pub fn disk(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Logs the result of `step`.
    pub fn log_result<T: Debug, E: Kind>(&mut self, step: &str, answer: Result<T, E>) -> Option<T> {
        let text = match &answer {
            Ok(value) => format!("{value:?}"),
            Err(error) => format!("refused: {}", error.kind()),
        };
        self.log_line(step, &text);
        answer.ok()
    }

    /// Only whether it was done.
    pub fn done<T, E: Kind>(&mut self, step: &str, answer: Result<T, E>) -> Option<T> {
        let text = match &answer {
            Ok(_) => "done".to_owned(),
            Err(error) => format!("refused: {}", error.kind()),
        };
        self.log_line(step, &text);
        answer.ok()
    }

    pub fn log_line(&mut self, step: &str, text: &str) {
        self.told.lines.push(format!("{step}: {text}"));
    }

    /// Logs all datasets.
    pub fn list(&mut self, step: &str) {
        let root = self.name("");
        let all = self.pool().datasets(any(&root), Snapshots::Include);
        let all = all.map(|all| {
            all.iter()
                .filter(is_logged)
                .map(shown)
                .collect::<Vec<String>>()
        });
        let lines = self.done(step, all).unwrap_or_default();
        lines.iter().for_each(|line| self.log_line(step, line));
    }

    /// Writes a byte all over the first half of a volume.
    pub fn fill(&mut self, name: &str, byte: u8) {
        use block_device::WaitMode;
        let opened = self.pool().open_volume(&volume(name), Default::default());
        let Some(opened) = self.done(&format!("open {name}"), opened) else {
            return;
        };
        // Incompressible data.
        let mut seed = u64::from(byte) + 1;
        let noise = (0..4 * MIB).map(|_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed as u8
        });
        let noise: Vec<u8> = noise.collect();
        for (at, part) in noise.chunks(MIB as usize).enumerate() {
            opened
                .write(at as u64 * MIB, part, WaitMode::MayBlock)
                .expect("written");
        }
        opened.flush().expect("flushed");
        opened.close();
        self.pool().sync().expect("on disk");
    }

    /// Logs a checksum of the contents of a volume or snapshot.
    pub fn sum(&mut self, name: &str) {
        use block_device::{Extent, WaitMode};
        let opened = match name.contains('@') {
            true => self
                .pool()
                .open_snapshot(&snapshot(name), Default::default()),
            false => self.pool().open_volume(&volume(name), Default::default()),
        };
        let Some(opened) = self.done(&format!("open {name}"), opened) else {
            return;
        };
        let size = opened.geometry().size;
        let mut sum = 0_u64;
        for at in 0..size / MIB {
            let extent = Extent::new(at * MIB, MIB);
            let loan = opened.read(extent, WaitMode::MayBlock).expect("read");
            let mut parts = Vec::new();
            loan.append_parts(&mut parts);
            for byte in parts.into_iter().flatten() {
                sum = sum.rotate_left(5) ^ u64::from(*byte);
            }
        }
        opened.close();
        self.log_line(&format!("contents of {name}"), &format!("{size} {sum:x}"));
    }
}
