//! Serializes calls into the library with its exit handler. A call during or after the handler
//! would crash.

#![allow(unsafe_code, reason = "one call into the library in C")]

use std::ops::{Deref, DerefMut};
use std::sync::{Once, RwLock, RwLockReadGuard};

/// Read-locked by callers; write-locked permanently at the exit of the process.
static CALLS: RwLock<()> = RwLock::new(());

/// Permits calls of the library while it is held. Not reentrant. Blocks forever at the exit of the
/// process.
pub(crate) fn enter() -> RwLockReadGuard<'static, ()> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function takes no arguments, does not unwind, and is never unloaded: this is
        // not a shared library.
        let refused = unsafe { nix::libc::atexit(close) };
        assert_eq!(refused, 0, "there is room for one more");
    });
    CALLS.read().expect("no writer panics")
}

/// Runs before the library's own exit handler, because it was registered later.
extern "C" fn close() {
    std::mem::forget(CALLS.write());
}

/// A value of the library that is released by a library call.
pub(crate) struct Owned<T>(Option<T>);

impl<T> Owned<T> {
    pub(crate) fn new(thing: T) -> Self {
        Self(Some(thing))
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        let _call = enter();
        self.0 = None;
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until the end")
    }
}

impl<T> DerefMut for Owned<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is there until the end")
    }
}
