//! Names and sizes as people and peers write them: refused or accepted, and an accepted one
//! survives being printed and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use units::{ByteCount, IscsiName, PoolName, SnapshotName, VolumeName};

fn survives<T: std::str::FromStr + std::fmt::Display + PartialEq>(text: &str) {
    if let Ok(name) = text.parse::<T>() {
        let again = name.to_string().parse::<T>();
        assert!(again.is_ok_and(|again| again == name), "{text:?}");
    }
}

fuzz_target!(|text: &str| {
    survives::<PoolName>(text);
    survives::<VolumeName>(text);
    survives::<SnapshotName>(text);
    survives::<IscsiName>(text);
    let _ = text.parse::<ByteCount>();
});
