//! Replies of other machines that the thread which commits an intent log receives by itself.
//!
//! A driver that has sent a write of a log ([`DeviceIo::is_awaited`](super::DeviceIo::is_awaited)) registers its
//! [`Reception`] on the thread that submitted the write. The library's side calls [`receive`] before that thread would block for the
//! commit, and [`release`] when the commit is over.

use std::cell::RefCell;

/// A reply that the calling thread may receive. Dropped, another thread receives it.
pub trait Reception {
    /// Blocks for one reply of the same connection, and completes its I/O. `false` if the own reply has been received, or if
    /// another thread receives: then that thread completes the I/O.
    fn receive(&self) -> bool;
}

thread_local! {
    static AWAITED: RefCell<Vec<Box<dyn Reception>>> = const { RefCell::new(Vec::new()) };
}

/// Has this thread receive the reply, before it would block for the commit that it is carrying out.
pub fn await_here(reception: Box<dyn Reception>) {
    AWAITED.with_borrow_mut(|awaited| awaited.push(reception));
}

/// Receives one reply, if one is awaited on this thread.
pub(super) unsafe extern "C" fn receive() -> u32 {
    // Not borrowed while I/O is completed: that may submit the next one.
    let Some(one) = AWAITED.with_borrow_mut(Vec::pop) else {
        return 0;
    };
    if one.receive() {
        AWAITED.with_borrow_mut(|awaited| awaited.push(one));
    }
    1
}

/// Leaves what is awaited on this thread to others.
pub(super) unsafe extern "C" fn release() {
    let left = AWAITED.with_borrow_mut(std::mem::take);
    drop(left);
}
