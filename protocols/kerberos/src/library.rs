//! Calls into the library, which takes itself down when the process ends, and ends that badly if somebody calls it then.

#![allow(unsafe_code, reason = "one call into the library in C")]

use std::ops::{Deref, DerefMut};
use std::sync::{Once, RwLock, RwLockReadGuard};

/// Read by whoever calls, and never free again when the process ends.
static CALLS: RwLock<()> = RwLock::new(());

/// While this is held the library may be called. Not twice by one thread. At the end of the process nobody gets it any more.
pub(crate) fn enter() -> RwLockReadGuard<'static, ()> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function takes no arguments, does not unwind, and stays where it is: this is no library that is unloaded.
        let refused = unsafe { nix::libc::atexit(close) };
        assert_eq!(refused, 0, "there is room for one more");
    });
    CALLS.read().expect("no writer panics")
}

/// Runs before the library takes itself down, because it was registered later.
extern "C" fn close() {
    std::mem::forget(CALLS.write());
}

/// Something of the library, which is given back by a call, too.
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
