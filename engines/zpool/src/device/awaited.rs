//! Replies of other hosts that a thread receives itself while it commits an intent log.
//!
//! A driver that has sent a write of a log ([`DeviceIo::is_awaited`](super::DeviceIo::is_awaited)) registers its
//! [`Reception`] on the submitting thread. The shim calls [`receive`] when that thread would wait for its commit, and
//! [`release`] if the thread would wait for anything else.

use std::cell::RefCell;

/// A reply that the calling thread may receive. Dropped, another thread receives it.
pub trait Reception {
    /// Blocks for one reply of the same connection, at most some milliseconds, and completes its I/O. Returns whether
    /// its own reply is still to be received by this thread.
    fn receive(&self) -> bool;
}

thread_local! {
    /// Bounded by the devices of other hosts in a mirror: a commit writes one block to each.
    static AWAITED: RefCell<Vec<Box<dyn Reception>>> = const { RefCell::new(Vec::new()) };
}

/// Lets this thread receive the reply when it waits for the commit that it is executing.
pub fn await_here(reception: Box<dyn Reception>) {
    AWAITED.with_borrow_mut(|awaited| awaited.push(reception));
}

/// Receives one reply, if this thread awaits one; returns whether it awaits more.
pub(super) unsafe extern "C" fn receive() -> u32 {
    // Not borrowed while I/O is completed, which may submit the next one.
    let Some(one) = AWAITED.with_borrow_mut(Vec::pop) else {
        return 0;
    };
    if one.receive() {
        await_here(one);
    }
    AWAITED.with_borrow(|awaited| !awaited.is_empty()).into()
}

/// Leaves the awaited replies of this thread to other threads.
pub(super) unsafe extern "C" fn release() {
    // Not borrowed while they are dropped.
    drop(AWAITED.take());
}
