//! Random operations at the limits of offsets and sizes: the seed, a pool, and a model of the writes.

use engine::capabilities::FileSystems;
use engine::pool::{GroupKind, PoolSpec};
use zpool::{Engine, Pool};

use super::{options, sized_disks, tank};

/// A seed from the environment, else a new one; printed so that a failure can be replayed.
pub fn seed() -> u64 {
    let given = std::env::var("SEED").ok();
    let seed = given.and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    say(&format!("replay with SEED={seed}"));
    seed
}

/// Reports to the parent process.
pub fn say(what: &str) {
    use std::io::Write;
    writeln!(std::io::stdout(), "{what}").expect("somebody reads");
}

/// No transaction group syncs by timer, because the records of a log would then not be replayed.
pub fn engine() -> &'static Engine {
    let mut options = options();
    options.txg_timeout_s = 60;
    Engine::start(options).expect("start the engine")
}

/// A pool of one disk.
pub fn new_pool() -> Pool {
    let spec = PoolSpec::new(tank(), GroupKind::Stripe, sized_disks(&["disk"], 1 << 30));
    let pool = Pool::create(engine(), &spec).expect("create");
    pool.complete_root().expect("complete");
    pool
}

/// The writes to a file, in order: first byte, end and contents.
#[derive(Default)]
pub struct Written {
    pub ranges: Vec<(u64, u64, u8)>,
    pub size: u64,
}

impl Written {
    pub fn put(&mut self, from: u64, end: u64, byte: u8) {
        self.ranges.push((from, end, byte));
    }

    pub fn resize(&mut self, size: u64) {
        self.put(size.min(self.size), u64::MAX, 0);
        self.size = size;
    }

    pub fn read(&self, from: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for (first, end, byte) in &self.ranges {
            let at = |offset: u64| offset.saturating_sub(from).min(length as u64) as usize;
            bytes[at(*first)..at(*end)].fill(*byte);
        }
        bytes
    }

    /// Whether a range has only zeros.
    pub fn is_empty(&self, from: u64, end: u64) -> bool {
        // Zeros are only written over existing data, so that a byte within each range represents all bytes between two
        // borders.
        let borders = self.ranges.iter().flat_map(|range| [range.0, range.1]);
        let mut borders = borders.chain([from]);
        borders.all(|at| !(from..end).contains(&at) || self.read(at, 1) == [0])
    }
}
