//! OpenZFS as an engine of a program: its start, its tools, and pools with legs on several heads. A program calls
//! [`register`] first.

#![forbid(unsafe_code)]

mod bench_crypto;
mod faults;

use std::path::Path;
use std::time::Duration;

use control::{Failure, FailureKind};
use engine::pool::{Candidate, DiscoverError};
use engine::transfer::{ResumeToken, TransferError};
use pool_access::engines::bench::Report;
use pool_access::engines::{self, Engines, Faults, Options, Registered, Search, Tools};
use units::ByteCount;
use zpool::pool::{discover, discover_all, discover_alone, features, needed_features};
use zpool::{EngineError, EngineOptions};

/// Ceiling of the cache of a command.
const BRIEF_CACHE_BYTES_MAX: ByteCount = ByteCount::mib(256);

/// OpenZFS.
pub struct OpenZfs;

const ALL: &[&dyn Registered] = &[&OpenZfs];

/// Registers OpenZFS as the engine of this process.
pub fn register() {
    engines::register(Engines {
        all: ALL,
        legs: &leg_admin::EntryPoint,
    });
}

impl Registered for OpenZfs {
    fn name(&self) -> &'static str {
        zpool::NAME
    }

    fn library(&self) -> &'static str {
        zpool::library()
    }

    /// Starts the engine. Until [`Self::is_serving`], memory comes in small pages: opening a pool touches a
    /// little memory in many places, and clearing a huge page for each took more than half of the time.
    ///
    /// Some 170 threads each have pieces of their own; 55 % of the CPU of a start cleared 2 MB for a first touch (`perf record`,
    /// `clear_page_erms`). A pool of three volumes on two files, three starts each way, on two busy processors: 130 to 220 ms of CPU
    /// with huge pages, 97 to 121 with small ones; imported after 1.5 to 1.9 s and 0.5 to 0.8 s. With 1,000 volumes both take the same CPU
    /// (280 to 320 and 270 to 360 ms). What was touched before stays in small pages until the kernel collapses them.
    fn start(&self, options: Options<'_>) -> Result<Box<dyn engine::Engine>, Failure> {
        set_huge_pages(false);
        let started = zpool::Engine::start(own_options(options)?).map_err(|error| match error {
            EngineError::Option { option, rule } => {
                Failure::usage(format!("{}: {rule}", option_flag(option)))
            }
            error => Failure::from_chain(FailureKind::Failed, &error),
        })?;
        Ok(Box::new(started))
    }

    fn discover(&self, search: Search<'_>) -> Result<Vec<Candidate>, DiscoverError> {
        match search {
            Search::Places(places) => discover(places),
            Search::Everywhere { places, chosen } => discover_all(places, chosen),
            Search::Alone(devices) => discover_alone(devices),
        }
    }

    fn parse_token(&self, text: &str) -> Result<ResumeToken, TransferError> {
        zpool::transfer::parse_token(text)
    }

    /// From now on memory comes in huge pages where there are any: a cache that fills wants them.
    fn is_serving(&self) {
        set_huge_pages(true);
    }

    fn exclude_memory_from_cores(&self) -> Result<(), String> {
        zpool::core_dump::exclude_heap().map_err(|errno| errno.to_string())
    }

    fn tools(&self) -> Option<&dyn Tools> {
        Some(self)
    }
}

impl Tools for OpenZfs {
    fn features(&self) -> Vec<&'static str> {
        features().collect()
    }

    fn pool_property_values(&self, property: &str) -> Option<String> {
        zpool::pool::property_values(property)
    }

    fn dataset_property_values(&self, property: &str) -> Option<String> {
        zpool::pool::dataset_property_values(property)
    }

    fn needed_features(&self, candidate: &Candidate) -> Vec<String> {
        needed_features(candidate).to_vec()
    }

    fn supports_reservations(&self, path: &Path) -> Option<bool> {
        zpool::device::supports_reservations(path)
    }

    fn probe(&self, path: &Path, pool_guid: u64, guid: u64) -> Result<(), String> {
        zpool::device::probe(path, pool_guid, guid).map_err(|failure| failure.to_string())
    }

    fn measure_ciphers(&self, time: Duration, block_bytes: usize) -> Result<Report, Failure> {
        bench_crypto::run(time, block_bytes)
    }
}

/// The options in the form of the library.
fn own_options(options: Options<'_>) -> Result<EngineOptions, Failure> {
    let mut own = EngineOptions::new(options.host_id);
    if options.is_brief {
        own.arc_bytes_max = own.arc_bytes_max.min(BRIEF_CACHE_BYTES_MAX);
    }
    own.arc_bytes_max = options.cache_bytes_max.unwrap_or(own.arc_bytes_max);
    own.dirty_bytes_max = options.dirty_bytes_max.unwrap_or(own.dirty_bytes_max);
    own.txg_timeout_s = options.commit_interval_s.unwrap_or(own.txg_timeout_s);
    own.multihost_silence = options.multihost_silence;
    own.devices.timeout = options.device_timeout;
    own.crash_reason = options.crash_reason;
    own.devices.wrap = match options.faults {
        None => None,
        Some(Faults::Once(file)) => Some(faults::once(&file).wrap()),
        Some(Faults::Always(file)) => {
            let faults = zpool::device::faults::Faults::new();
            let wrap = faults.wrap();
            faults::obey(file, faults).map_err(Failure::of("obey the faults file"))?;
            Some(wrap)
        }
    };
    if !options.is_brief {
        tracing::info!(
            arc = %own.arc_bytes_max,
            dirty = %own.dirty_bytes_max,
            txg_timeout_s = own.txg_timeout_s,
            "engine"
        );
    }
    if let Some(legs) = options.legs {
        legs(&mut own);
    }
    Ok(own)
}

/// Returns the command line option for an option of the engine.
fn option_flag(option: &'static str) -> &'static str {
    match option {
        "arc_bytes_max" => "--arc-size",
        "dirty_bytes_max" => "--dirty-max",
        "txg_timeout_s" => "--txg-timeout",
        other => other,
    }
}

fn set_huge_pages(are_allowed: bool) {
    // Only a matter of speed.
    if let Err(error) = nix::sys::prctl::set_thp_disable(!are_allowed) {
        tracing::debug!(%error, "huge pages are as the system has them");
    }
}
