//! The property `sharenfs`: any text is a share or an error, and no share is for everybody.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs::sharenfs::Share;

fuzz_target!(|text: &str| {
    if let Ok(Some(share)) = Share::parse(text) {
        let addresses = ["0.0.0.1", "128.0.0.1", "::1", "8000::1"];
        let allowed = addresses.iter().filter(|address| {
            share
                .access(address.parse().expect("an address"), 1)
                .is_some()
        });
        // Both halves of both families take four networks.
        assert!(allowed.count() < 4 || text.len() > 4 * "rw=[::]/1".len());
    }
});
