//! Distributes the reads of a mirror between devices of this host and of other hosts.
//!
//! The library reads from the device with the lowest load: its I/Os that are issued, of which there are ten reads of
//! clients at most, and a constant for the distance from the last I/O. [`load_of`] is added to that
//! (`native/zfs-shim/far.c`).

use std::sync::atomic::{AtomicU32, Ordering};

use engine::pool::ReadBalancing;

/// More than the load of any device, and far from an overflow.
const LOAD_PREFER_LOCAL: u32 = 1 << 20;

/// A read of another host costs a round trip and the CPU of both hosts, so a read without a queue stays local. More is
/// not needed: a remote leg counts as rotating, so for random reads its load is higher by 4 than that of a local flash
/// disk anyway. From 6 on no such read would leave that disk. Measured on two disks held to 300 reads a second, which
/// do not rotate, at depth 8 and 32: 1 serves 1.5 and 2.2 times the reads of one disk, 2 serves 1.3 and 2.1 times, 4
/// serves 1.0 and 1.8 times.
const LOAD_LEAST_PENDING: u32 = 1;

/// The load of a device of another host. One value is enough: a process has one pool.
static LOAD: AtomicU32 = AtomicU32::new(LOAD_PREFER_LOCAL);

/// Takes effect with the next read.
pub(crate) fn balance_reads(mode: ReadBalancing) {
    let load = match mode {
        ReadBalancing::PreferLocal => LOAD_PREFER_LOCAL,
        ReadBalancing::LeastPending => LOAD_LEAST_PENDING,
    };
    LOAD.store(load, Ordering::Relaxed);
}

/// The additional load of a device. On the path of each read of a mirror.
pub(super) fn load_of(is_far: bool) -> u32 {
    match is_far {
        true => LOAD.load(Ordering::Relaxed),
        false => 0,
    }
}
