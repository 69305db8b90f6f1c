//! Counters of served requests without locks, for status and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters that any thread may add to.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        /// The values of [`Counters`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CountersSnapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Returns the current values; they are not read atomically as a whole.
            pub fn snapshot(&self) -> CountersSnapshot {
                CountersSnapshot {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                }
            }
        }
    };
}

counters! {
    /// Completed reads.
    reads,
    /// Bytes read by clients.
    read_bytes,
    /// Completed writes.
    writes,
    /// Bytes written by clients.
    write_bytes,
    /// Completed flushes and durable writes.
    flushes,
    /// Completed unmaps and writes of zeroes.
    unmaps,
    /// Bytes unmapped or zeroed.
    unmap_bytes,
    /// Other completed commands.
    others,
    /// Commands that returned an error.
    errors,
    /// Operations that were passed to a worker because they would block.
    waits,
}

impl Counters {
    /// Counts one read of `bytes`.
    pub fn read(&self, bytes: u64) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts one write of `bytes`.
    pub fn write(&self, bytes: u64) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.write_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts one unmap or write of zeroes of `bytes`.
    pub fn unmap(&self, bytes: u64) {
        self.unmaps.fetch_add(1, Ordering::Relaxed);
        self.unmap_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds one to `counter`.
    pub fn add_one(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
