//! OpenZFS in this process.

pub mod bench_crypto;
mod faults;

use std::path::{Path, PathBuf};

use control::{Failure, FailureKind};
use zpool::{Engine, EngineError};

pub use zpool::device::{knows_reservations, probe};
pub use zpool::pool::{discover, discover_all, discover_alone, features, needed_features};
pub use zpool::transfer::parse_token;
pub use zpool::{EngineOptions, library};

/// Starts the engine. Until [`allow_huge_pages`], memory comes in small pages: opening a pool touches a
/// little memory in many places, and clearing a huge page for each took more than half of the time.
///
/// Some 170 threads each have pieces of their own; 55 % of the CPU of a start cleared 2 MB for a first touch (`perf record`,
/// `clear_page_erms`). A pool of three volumes on two files, three starts each way, on two busy processors: 130 to 220 ms of CPU
/// with huge pages, 97 to 121 with small ones; imported after 1.5 to 1.9 s and 0.5 to 0.8 s. With 1,000 volumes both take the same CPU
/// (280 to 320 and 270 to 360 ms). What was touched before stays in small pages until the kernel collapses them.
pub fn start(options: EngineOptions) -> Result<Box<dyn engine::Engine>, Failure> {
    set_huge_pages(false);
    let started = Engine::start(options).map_err(|error| match error {
        EngineError::Option { option, rule } => {
            Failure::usage(format!("{}: {rule}", option_word(option)))
        }
        error => Failure::from_chain(FailureKind::Failed, &error),
    })?;
    Ok(Box::new(started))
}

/// The word on the command line for an option of the engine.
fn option_word(option: &'static str) -> &'static str {
    match option {
        "arc_bytes_max" => "--arc-size",
        "dirty_bytes_max" => "--dirty-max",
        "txg_timeout_s" => "--txg-timeout",
        other => other,
    }
}

/// From now on memory comes in huge pages where there are any: a cache that fills wants them.
pub fn allow_huge_pages() {
    set_huge_pages(true);
}

fn set_huge_pages(are_allowed: bool) {
    // Only a matter of speed.
    if let Err(error) = nix::sys::prctl::set_thp_disable(!are_allowed) {
        tracing::debug!(%error, "huge pages are as the system has them");
    }
}

/// Has devices fail as `file` says now, for a command, which is over soon.
pub fn fail_devices_once(options: &mut EngineOptions, file: &Path) {
    options.devices.wrap = Some(faults::once(file).wrap());
}

/// Has devices fail as `file` says, whenever it changes.
pub fn fail_devices(options: &mut EngineOptions, file: PathBuf) -> Result<(), Failure> {
    let faults = zpool::device::faults::Faults::new();
    options.devices.wrap = Some(faults.wrap());
    faults::obey(file, faults).map_err(Failure::of("obey the faults file"))
}
