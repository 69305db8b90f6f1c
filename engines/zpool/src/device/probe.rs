//! Checks whether a device that was given up responds again: with the library's driver but separately from the library,
//! so that a device that still hangs blocks only the caller.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use labels::Label;
use rustix::io::Errno;

use super::bridge::{open_apart, open_far};
use super::legs::{Leg, LegFailure, is_gone};
use super::stamp::label_offsets;
use super::{Device, DeviceIo, IoKind, OpenFailure, ownership};

/// Longest time for one response. A healthy disk in standby needs longer to spin up, and is probed again.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Offset in a label of its list of names and values, and the list's length.
const LIST: (u64, usize) = (16 << 10, 112 << 10);
/// The part of it before the list, which the library's own probe writes as well: its contents are rewritten unchanged.
const PAD: (u64, usize) = (8 << 10, 8 << 10);

/// Why a device cannot be used again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeFailure {
    /// It cannot be opened.
    #[error("it cannot be opened: {0}")]
    Open(#[from] OpenFailure),
    /// It does not respond in time.
    #[error("it does not answer")]
    TimedOut,
    /// It returns an error.
    #[error("it answers with an error: {0}")]
    Failed(Errno),
    /// Its label is not that of the device that was given up.
    #[error("it is another device, or has lost its label")]
    Another,
}

/// Reads a label of the device at `path`, which must be that of the device `guid` of the pool `pool_guid`, rewrites a
/// part of it unchanged, and flushes. One of the four labels is sufficient: a damaged block proves nothing about the
/// remaining ones.
///
/// # Errors
///
/// A step failed.
pub fn probe(path: &Path, pool_guid: u64, guid: u64) -> Result<(), ProbeFailure> {
    let device = open_apart(path, guid)?;
    let mut failed = ProbeFailure::Another;
    for start in label_offsets(&*device)? {
        match probe_label(&*device, start, (pool_guid, guid)) {
            Ok(true) => return send_request(&*device, IoKind::Flush, 0, Vec::new()).map(drop),
            Ok(false) => {}
            Err(failure @ ProbeFailure::Failed(_)) => failed = failure,
            Err(failure) => return Err(failure),
        }
    }
    Err(failed)
}

/// Reads the label at `start` and writes a part of it; returns whether there is one.
fn probe_label(
    device: &dyn Device,
    start: u64,
    (pool_guid, guid): (u64, u64),
) -> Result<bool, ProbeFailure> {
    let list = send_request(device, IoKind::Read, start + LIST.0, vec![0; LIST.1])?;
    let Some(label) = Label::parse(&list) else {
        return Ok(false);
    };
    if (label.pool_guid, label.guid) != (pool_guid, guid) {
        return Err(ProbeFailure::Another);
    }
    let pad = send_request(device, IoKind::Read, start + PAD.0, vec![0; PAD.1])?;
    send_request(device, IoKind::Write, start + PAD.0, pad)?;
    Ok(true)
}

/// The identity of the device at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labelled {
    /// The requested device.
    Itself,
    /// Another device of its pool.
    Sibling,
    /// A device of another pool, or of none.
    No,
}

/// The identity of the device at `path` by its labels: the device `guid` of the pool `pool_guid`, or a different one.
/// Changes no data.
///
/// # Errors
///
/// It cannot be opened, or none of its labels can be read.
pub fn labelled(path: &Path, pool_guid: u64, guid: u64) -> Result<Labelled, ProbeFailure> {
    ownership::attend();
    let device = open_apart(path, guid)?;
    let bytes = device.shape()?.bytes;
    let far = FarLabels { device, leg: None };
    let mut is_read = false;
    let labels = labels::Device::of(far, bytes).map(|device| {
        device.lists(|packed| {
            is_read = true;
            Label::parse(packed)
        })
    });
    if !is_read {
        return Err(ProbeFailure::TimedOut);
    }
    let labels = labels.unwrap_or_default().into_iter();
    let of_pool: Vec<u64> = labels
        .filter(|one| one.pool_guid == pool_guid)
        .map(|one| one.guid)
        .collect();
    Ok(match of_pool.contains(&guid) {
        true => Labelled::Itself,
        false if of_pool.is_empty() => Labelled::No,
        false => Labelled::Sibling,
    })
}

/// Issues one request to a device and blocks until it completes.
pub(super) fn send_request(
    device: &dyn Device,
    kind: IoKind,
    offset: u64,
    data: Vec<u8>,
) -> Result<Vec<u8>, ProbeFailure> {
    // As before any other I/O: this process may have been stopped, and another head may own the pool.
    ownership::attend();
    request_unchecked(device, kind, offset, data)
}

/// Like [`send_request`], for the check of the pool's ownership.
fn request_unchecked(
    device: &dyn Device,
    kind: IoKind,
    offset: u64,
    data: Vec<u8>,
) -> Result<Vec<u8>, ProbeFailure> {
    let (sender, answer) = channel();
    device.submit(DeviceIo::on_memory(
        kind,
        offset,
        data,
        move |result, data| {
            // The receiver of a late completion may be gone.
            let _ = sender.send(result.map(|()| data));
        },
    ));
    match answer.recv_timeout(RESPONSE_TIMEOUT) {
        Ok(Ok(data)) => Ok(data),
        Ok(Err(errno)) => Err(ProbeFailure::Failed(errno)),
        Err(_) => Err(ProbeFailure::TimedOut),
    }
}

/// A device that has its labels read separately from the library, such as one on another host.
pub(crate) struct FarLabels {
    device: Arc<dyn Device>,
    /// It fails if the device does not complete a read.
    leg: Option<Arc<Leg>>,
}

/// The labels of the device at `path`, if the library has it open and it is on another host.
pub(crate) fn far_labels(path: &Path) -> Option<labels::Device<FarLabels>> {
    let (device, in_flight) = open_far(path)?;
    let leg = in_flight.leg.clone();
    let bytes = match device.shape() {
        Ok(shape) => shape.bytes,
        Err(failure) => {
            fail(leg.as_ref(), LegFailure::Open(failure));
            return None;
        }
    };
    labels::Device::of(FarLabels { device, leg }, bytes)
}

/// As for a request of the library, which issues none while labels are read.
fn fail(leg: Option<&Arc<Leg>>, why: LegFailure) {
    if let Some(leg) = leg {
        leg.fail(why);
    }
}

impl labels::Source for FarLabels {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> rustix::io::Result<()> {
        let memory = vec![0; bytes.len()];
        match request_unchecked(&*self.device, IoKind::Read, offset, memory) {
            Ok(data) => {
                bytes.copy_from_slice(&data);
                Ok(())
            }
            Err(ProbeFailure::Failed(errno)) => {
                // An unreadable block proves nothing about the remaining ones.
                if is_gone(errno) {
                    fail(self.leg.as_ref(), LegFailure::Error(errno));
                }
                Err(errno)
            }
            Err(_) => {
                fail(self.leg.as_ref(), LegFailure::TimedOut);
                Err(Errno::TIMEDOUT)
            }
        }
    }
}
