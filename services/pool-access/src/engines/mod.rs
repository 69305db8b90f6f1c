//! The engines that keep the data of this program's pools. Only the folder of an engine names its library: everything else
//! sees the crate `engine`, and what is said here of starting one.

mod zfs;

pub use zfs::{
    EngineOptions, allow_huge_pages, bench_crypto, discover, discover_all, discover_alone,
    fail_devices, fail_devices_once, features, knows_reservations, library, needed_features,
    parse_token, probe, start,
};

/// The door of pools whose legs lie on several heads.
pub fn legs() -> &'static dyn leg_door::Legs {
    &leg_admin::Wing
}
