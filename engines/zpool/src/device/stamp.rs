//! A block of our own on a device: in the first 8 KiB of its second and of its third label, which the library does not
//! use (`vl_pad1`, for a partition table that only the first label can hold). `docs/formats/leg-record.md` defines its
//! contents.

use std::path::Path;

use super::bridge::open_apart;
use super::probe::{ProbeFailure, send_request};
use super::{Device, IoKind};

/// Length of the block.
pub const STAMP_BYTES: usize = 4096;
/// Length of a label. Two are at the front, two at the end.
const LABEL_BYTES: u64 = 256 << 10;

/// Offset and size of the uberblock ring in a label (`vl_uberblock`).
const ROOTS_AT: u64 = 128 << 10;
const ROOTS_BYTES: usize = 128 << 10;
/// Offset of the description (`vl_vdev_phys`).
const TEXT_AT: u64 = 16 << 10;
/// The area of the signatures of partition tables and most file systems (`vl_pad1` of the first label).
const FRONT_BYTES: usize = 8 << 10;

/// The copies of the block on the device at `path`, the pool's device `guid`, with any contents. There are two, and one
/// of them may be unreadable.
///
/// # Errors
///
/// It does not respond, or neither copy can be read.
pub fn read_stamps(path: &Path, guid: u64) -> Result<Vec<Vec<u8>>, ProbeFailure> {
    let device = open_apart(path, guid)?;
    let mut copies = Vec::new();
    let mut failed = None;
    for offset in stamp_offsets(&*device)? {
        match send_request(&*device, IoKind::Read, offset, vec![0; STAMP_BYTES]) {
            Ok(copy) => copies.push(copy),
            Err(failure @ ProbeFailure::Failed(_)) => failed = Some(failure),
            Err(failure) => return Err(failure),
        }
    }
    match failed {
        Some(failure) if copies.is_empty() => Err(failure),
        _ => Ok(copies),
    }
}

/// Writes `block` durably to both copies, one after the other, so that one copy is complete at any time.
///
/// # Errors
///
/// It does not respond, or returns an error. Then one copy may be new.
///
/// # Panics
///
/// The block has another length.
pub fn write_stamps(path: &Path, guid: u64, block: &[u8]) -> Result<(), ProbeFailure> {
    assert_eq!(block.len(), STAMP_BYTES, "a stamp is one block");
    let device = open_apart(path, guid)?;
    for offset in stamp_offsets(&*device)? {
        send_request(&*device, IoKind::Write, offset, block.to_vec())?;
        send_request(&*device, IoKind::Flush, 0, Vec::new())?;
    }
    Ok(())
}

/// Initialises the device at `path`, the pool's device `guid`, so that the library opens it and finds no data: its
/// labels contain the result of `label` for each position, and no uberblocks. Other contents at the front of the device
/// are erased, too.
///
/// # Errors
///
/// It does not respond, or returns an error. Then some labels may be new.
pub fn write_labels(
    path: &Path,
    guid: u64,
    label: impl Fn(u64) -> Result<Vec<u8>, String>,
) -> Result<(), String> {
    let text = |failure: ProbeFailure| failure.to_string();
    forget_roots(path, guid).map_err(text)?;
    let device = open_apart(path, guid).map_err(|failure| failure.to_string())?;
    let write = |offset, data| send_request(&*device, IoKind::Write, offset, data).map_err(text);
    write(0, vec![0; FRONT_BYTES])?;
    for place in label_offsets(&*device).map_err(text)? {
        write(place + TEXT_AT, label(place + TEXT_AT)?)?;
    }
    send_request(&*device, IoKind::Flush, 0, Vec::new())
        .map(drop)
        .map_err(text)
}

/// Bytes of the device at `path`, the pool's device `guid`.
///
/// # Errors
///
/// It cannot be opened.
pub fn device_bytes(path: &Path, guid: u64) -> Result<u64, ProbeFailure> {
    Ok(open_apart(path, guid)?.shape()?.bytes)
}

/// Overwrites the uberblocks in all labels of the device at `path`, the pool's device `guid`: none of its transaction
/// groups can be found any more. The rest of the labels is unchanged.
///
/// # Errors
///
/// It does not respond, or returns an error. Then some labels may still have their uberblocks.
pub fn forget_roots(path: &Path, guid: u64) -> Result<(), ProbeFailure> {
    let device = open_apart(path, guid)?;
    for label in label_offsets(&*device)? {
        let zeros = vec![0; ROOTS_BYTES];
        send_request(&*device, IoKind::Write, label + ROOTS_AT, zeros)?;
    }
    send_request(&*device, IoKind::Flush, 0, Vec::new()).map(drop)
}

/// Where its four labels begin.
pub(super) fn label_offsets(device: &dyn Device) -> Result<[u64; 4], ProbeFailure> {
    let [front, back] = stamp_offsets(device)?;
    Ok([0, front, back, back + LABEL_BYTES])
}

fn stamp_offsets(device: &dyn Device) -> Result<[u64; 2], ProbeFailure> {
    let bytes = device.shape()?.bytes / LABEL_BYTES * LABEL_BYTES;
    Ok([LABEL_BYTES, bytes.saturating_sub(2 * LABEL_BYTES)])
}
