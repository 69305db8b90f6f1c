//! The storage engines of this process. Its program registers them ([`register`]), so that this crate depends on no
//! engine's library. All other code uses the crate `engine`, and starts an engine as [`Registered`].
//!
//! `docs/engines.md` is the guide for adding one.

pub mod bench;
mod without_legs;

use std::any::Any;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use control::Failure;
use engine::pool::{Candidate, DiscoverError};
use engine::transfer::{ResumeToken, TransferError};
use engine::{Engine, HostId};
use leg_door::Legs;
use units::ByteCount;

pub use without_legs::WithoutLegs;

/// The engines of a process.
#[derive(Clone, Copy)]
pub struct Engines {
    /// Every engine. New pools are of the first.
    pub all: &'static [&'static dyn Registered],
    /// Pools with legs on several heads; [`WithoutLegs`] for engines that have none.
    pub legs: &'static dyn Legs,
}

static ENGINES: OnceLock<Engines> = OnceLock::new();

/// Registers the engines of this process. The program calls it before it parses its command line. Later calls have no
/// effect.
pub fn register(engines: Engines) {
    let _ = ENGINES.set(engines);
}

/// Every registered engine.
pub fn all() -> &'static [&'static dyn Registered] {
    ENGINES.get().map_or(&[], |engines| engines.all)
}

/// The engine of new pools.
fn first() -> &'static dyn Registered {
    *all().first().expect("the program registers its engines")
}

/// Longer than any healthy disk's own error recovery (typically 7 s on RAID disks), shorter than the patience of an initiator.
const DEVICE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(20);

/// An engine that this binary can start.
pub trait Registered: Sync {
    /// Its name: that of [`Pool::engine_name`](engine::Pool::engine_name).
    fn name(&self) -> &'static str;

    /// The name and version of its library.
    fn library(&self) -> &'static str;

    /// Starts it in this process.
    ///
    /// # Errors
    ///
    /// An option is outside of its range, or the library does not start.
    fn start(&self, options: Options<'_>) -> Result<Box<dyn Engine>, Failure>;

    /// Searches for pools without starting it.
    ///
    /// # Errors
    ///
    /// A named path cannot be read.
    fn discover(&self, search: Search<'_>) -> Result<Vec<Candidate>, DiscoverError>;

    /// Parses a resume token.
    ///
    /// # Errors
    ///
    /// It is none of its tokens.
    fn parse_token(&self, text: &str) -> Result<ResumeToken, TransferError>;

    /// A pool that it opened is served: the slow part of the start is over.
    fn is_serving(&self) {}

    /// Excludes its memory, and that of this process, from core dumps. Called before the process has threads.
    ///
    /// # Errors
    ///
    /// The reason why a core dump would contain it, as a sentence.
    fn exclude_memory_from_cores(&self) -> Result<(), String> {
        Ok(())
    }

    /// The advice after a search that did not find the pool.
    fn advice_to_search(&self) -> &'static str {
        "name the directory or the devices it is on with --search"
    }

    /// The advice where another host has not exported the pool.
    fn advice_to_take_over(&self) -> &'static str {
        "export it there; or, if that host is certainly switched off, add --previous-owner-is-stopped"
    }

    /// The tools of an engine for pools on devices of this host, if it has them.
    fn tools(&self) -> Option<&dyn Tools> {
        None
    }
}

/// Tools of an engine for pools on devices of this host.
pub trait Tools {
    /// Features of pools that its library supports.
    fn features(&self) -> Vec<&'static str>;

    /// The valid values of a property of pools in words; none if there is no such property.
    fn pool_property_values(&self, property: &str) -> Option<String>;

    /// The same for a property of file systems and volumes.
    fn dataset_property_values(&self, property: &str) -> Option<String>;

    /// Features without which software cannot even read a pool that it found.
    fn needed_features(&self, candidate: &Candidate) -> Vec<String>;

    /// Whether the block device at `path` supports persistent reservations; nothing of it is changed. `None` if it is no block
    /// device or cannot be opened.
    fn supports_reservations(&self, path: &Path) -> Option<bool>;

    /// Whether the device at `path`, which failed, again reads and writes the label that identifies it as the device of
    /// that number of the pool.
    ///
    /// # Errors
    ///
    /// In words, why not.
    fn probe(&self, path: &Path, pool_guid: u64, guid: u64) -> Result<(), String>;

    /// Checks its ciphers against known test vectors, then measures each for `time`, with `block_bytes` at a time.
    ///
    /// # Errors
    ///
    /// A test vector failed, or OpenSSL does not run.
    fn measure_ciphers(&self, time: Duration, block_bytes: usize)
    -> Result<bench::Report, Failure>;
}

/// How an engine is started. `None` is its own default.
pub struct Options<'a> {
    /// The number by which this host marks its pools.
    pub host_id: HostId,
    /// Ceiling of its cache of reads.
    pub cache_bytes_max: Option<ByteCount>,
    /// Written data that may wait in memory.
    pub dirty_bytes_max: Option<ByteCount>,
    /// Seconds after which written data is committed at the latest.
    pub commit_interval_s: Option<u32>,
    /// How long the owner of a pool with `multihost=on` may fail to write its heartbeat before it abandons the pool.
    pub multihost_silence: Option<Duration>,
    /// The time-out of an I/O of a device.
    pub device_timeout: Duration,
    /// It serves one command, and needs little memory.
    pub is_brief: bool,
    /// Devices that fail on command.
    pub faults: Option<Faults>,
    /// Changes the engine's own options, which it is given, so that it reaches legs.
    pub legs: Option<ChangeOptions<'a>>,
    /// Receives one line with the reason if the engine or a fault terminates this process.
    pub crash_reason: Option<BorrowedFd<'static>>,
}

/// A file that lists failing devices, and their faults.
pub enum Faults {
    /// As it is now, for a command.
    Once(PathBuf),
    /// Whenever it changes.
    Always(PathBuf),
}

/// Changes the options of one engine; the argument is that engine's own type.
pub type ChangeOptions<'a> = Box<dyn Fn(&mut dyn Any) + 'a>;

impl Options<'_> {
    /// The defaults.
    pub fn new(host_id: HostId) -> Self {
        Self {
            host_id,
            cache_bytes_max: None,
            dirty_bytes_max: None,
            commit_interval_s: None,
            multihost_silence: None,
            device_timeout: DEVICE_TIMEOUT_DEFAULT,
            is_brief: false,
            faults: None,
            legs: None,
            crash_reason: None,
        }
    }
}

/// Where pools are searched for.
#[derive(Clone, Copy)]
pub enum Search<'a> {
    /// At these places: directories (not their subdirectories), files and block devices.
    Places(&'a [PathBuf]),
    /// The same, and at the paths of further devices in the labels found there. If several devices have the same
    /// identity, `chosen` selects the ones to use.
    Everywhere {
        /// The places.
        places: &'a [PathBuf],
        /// Devices that a person chose.
        chosen: &'a [PathBuf],
    },
    /// On these devices: the pool has no further ones, regardless of its labels.
    Alone(&'a [PathBuf]),
}

/// Starts the engine of new pools.
///
/// # Errors
///
/// As [`Registered::start`].
pub fn start(options: Options<'_>) -> Result<Box<dyn Engine>, Failure> {
    first().start(options)
}

/// The pools of all engines.
///
/// # Errors
///
/// As [`Registered::discover`].
pub fn discover(search: Search<'_>) -> Result<Vec<Candidate>, DiscoverError> {
    let found: Result<Vec<_>, _> = all().iter().map(|engine| engine.discover(search)).collect();
    Ok(found?.into_iter().flatten().collect())
}

/// Parses a resume token of any engine.
///
/// # Errors
///
/// Why it is none of the first engine's.
pub fn parse_token(text: &str) -> Result<ResumeToken, TransferError> {
    let mut later = all().iter().skip(1);
    first().parse_token(text).or_else(|error| {
        later
            .find_map(|engine| engine.parse_token(text).ok())
            .ok_or(error)
    })
}

/// The tools of the engine by which [`start`] creates pools.
pub fn tools() -> Option<&'static dyn Tools> {
    first().tools()
}

/// The names and versions of all libraries.
pub fn libraries() -> String {
    let all: Vec<&str> = all().iter().map(|engine| engine.library()).collect();
    all.join(", ")
}

/// The tools of the engine that has the name.
pub fn tools_of(engine_name: &str) -> Option<&'static dyn Tools> {
    let mut all = all().iter();
    all.find(|engine| engine.name() == engine_name)?.tools()
}

/// The advice of [`Registered::advice_to_search`].
pub fn advice_to_search() -> &'static str {
    first().advice_to_search()
}

/// The advice of [`Registered::advice_to_take_over`].
pub fn advice_to_take_over() -> &'static str {
    first().advice_to_take_over()
}

/// Returns the implementation of pools of legs.
pub fn legs() -> &'static dyn Legs {
    ENGINES.get().map_or(&WithoutLegs, |engines| engines.legs)
}
