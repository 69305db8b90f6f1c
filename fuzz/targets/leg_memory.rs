//! The state of a pool's legs that a member stores, also from a damaged file or a faulty peer: decoding gives a state
//! that encodes to the same bytes (for the oldest version: to an equal state), or an error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use leg_record::{RECORD_BYTES_MAX, decode_state, encode_state};

const MAGIC: &[u8] = b"BULKLEGS";
/// The oldest version, which is read and not written any more.
const OLDEST: u32 = 1;
/// Of records that do not name their members, and of those that do.
const WRITTEN: [u32; 2] = [2, 3];
/// Appends the checksum.
const HEADER_BYTES: usize = 20;

/// `body` behind a valid header, so that the fuzzer need not find a checksum.
fn framed(version: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend((body.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes), body);
    bytes.extend(sum.to_le_bytes());
    bytes.extend(body);
    bytes
}

fuzz_target!(|data: &[u8]| {
    let [before, now] = WRITTEN.map(|version| framed(version, data));
    for bytes in [data, &framed(OLDEST, data), &before, &now] {
        let Ok(memory) = decode_state(bytes) else {
            continue;
        };
        assert!((HEADER_BYTES..=RECORD_BYTES_MAX).contains(&bytes.len()));
        let again = encode_state(&memory);
        let has_version = |version: u32| bytes[MAGIC.len()..].starts_with(&version.to_le_bytes());
        if WRITTEN.into_iter().any(has_version) {
            assert_eq!(again, bytes, "another form of the same");
        }
        assert_eq!(decode_state(&again), Ok(memory), "as it was");
    }
});
