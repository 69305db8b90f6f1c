//! What was served, counted without locks: for status and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters that any thread may add to.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        /// What [`Counters`] held at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CountersSnapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// The values now; not one instant for all of them.
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
    /// Completed flushes, and writes that had to be durable.
    flushes,
    /// Completed unmaps and writes of zeroes.
    unmaps,
    /// Bytes unmapped or zeroed.
    unmap_bytes,
    /// Other completed commands.
    others,
    /// Commands that were answered with an error.
    errors,
    /// Operations that could not be done at once and went to a worker.
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
