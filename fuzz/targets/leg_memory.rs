//! What a member remembers of a pool's legs, as a damaged file or a faulty program may have it: a memory that is written
//! again as the same bytes, or none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use takeover::legs::{RECORD_BYTES_MAX, decode_memory, encode_memory};

/// Magic and version.
const BEGINNING: &[u8] = b"BULKLEGS\x01\0\0\0";
/// Ends with the checksum.
const HEADER_BYTES: usize = 20;

/// `body` behind a valid header, so that the fuzzer need not find a checksum.
fn framed(body: &[u8]) -> Vec<u8> {
    let mut bytes = BEGINNING.to_vec();
    bytes.extend((body.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes), body);
    bytes.extend(sum.to_le_bytes());
    bytes.extend(body);
    bytes
}

fuzz_target!(|data: &[u8]| {
    for bytes in [data, &framed(data)] {
        let Ok(memory) = decode_memory(bytes) else {
            continue;
        };
        assert!((HEADER_BYTES..=RECORD_BYTES_MAX).contains(&bytes.len()));
        assert_eq!(encode_memory(&memory), bytes, "another form of the same");
    }
});
