//! A read in flight from the disks: no thread blocks on it, and its requester is called on completion.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use block_device::{Extent, PendingRead, ReadDone, WaitMode};
use zpool_sys as sys;

use super::{Shared, attend, device_error, loan};

const DOING: &str = "read";

/// Holds its volume open.
pub(super) struct Pending {
    /// `None` once the completion was requested.
    begun: Option<(Arc<Shared>, NonNull<sys::bh_read>)>,
    extent: Extent,
}

// SAFETY: the shim does not bind an asynchronous read to a thread.
unsafe impl Send for Pending {}

impl Pending {
    /// The read `raw`, with an entry of the gate of `shared`.
    pub(super) fn new(shared: Arc<Shared>, raw: NonNull<sys::bh_read>, extent: Extent) -> Self {
        Self {
            begun: Some((shared, raw)),
            extent,
        }
    }
}

impl PendingRead for Pending {
    fn finish(mut self: Box<Self>, done: ReadDone) {
        let Some((shared, raw)) = self.begun.take() else {
            return;
        };
        let awaited = Box::new(Awaited {
            shared,
            extent: self.extent,
            done,
        });
        // SAFETY: `raw` came from `bh_read_begin` and is consumed here, once; `ended` is called once with the pointer
        // from this box.
        unsafe { sys::bh_read_finish(raw.as_ptr(), ended, Box::into_raw(awaited).cast()) };
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some((shared, raw)) = self.begun.take() {
            // SAFETY: as above; the volume is open until `leave`.
            unsafe { sys::bh_read_abandon(raw.as_ptr()) };
            shared.gate.leave();
        }
    }
}

/// The state for the completion.
struct Awaited {
    shared: Arc<Shared>,
    extent: Extent,
    done: ReadDone,
}

/// # Safety
/// `arg` is a box of [`Awaited`], given away; `read` is held if `error` is 0.
unsafe extern "C" fn ended(arg: *mut c_void, read: *mut sys::bh_read, error: i32) {
    // SAFETY: promised by the caller.
    let awaited = unsafe { Box::from_raw(arg.cast::<Awaited>()) };
    let Awaited {
        shared,
        extent,
        done,
    } = *awaited;
    let loan = match NonNull::new(read) {
        Some(raw) => Ok(loan::Read {
            shared,
            raw,
            length: extent.length as usize,
        }),
        None => {
            shared.gate.leave();
            Err(device_error(error, DOING, extent).err())
        }
    };
    done(match loan {
        // The process may have been stopped in between, and another head may own the pool.
        Ok(loan) => attend(WaitMode::NoWait, DOING, extent).map(|()| Box::new(loan) as Box<_>),
        Err(error) => Err(error.expect("the shim returns a read or an error")),
    });
}
