//! Messages among members, also invalid ones: each is decoded to a message that encodes to the same bytes, or rejected.

#![no_main]

use libfuzzer_sys::fuzz_target;
use members::Envelope;
use members::limits::MESSAGE_BYTES_MAX;
use members::wire::{HELLO_BYTES, body_bytes, greeted};

/// Kind, pool, boot.
const BEGINNING_BYTES: usize = 17;
/// Versions of memories, of records that do not name their members, and of those that do.
const WRITTEN: [u32; 2] = [2, 3];
/// Where a memory names the pool of its record.
const POOL_AT: usize = 41;

/// `body` as the state, of this version, at the end of a message of this kind, so that the fuzzer does not need to find
/// a checksum. `between`: the bytes before the state.
fn with_state(kind: u8, between: &[u8], version: u32, body: &[u8]) -> Vec<u8> {
    let mut memory = b"BULKLEGS".to_vec();
    memory.extend(version.to_le_bytes());
    memory.extend((body.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&memory), body);
    memory.extend(sum.to_le_bytes());
    memory.extend(body);
    let pool = body.get(POOL_AT..POOL_AT + 8).unwrap_or(&[0; 8]);
    [&[kind], pool, &[0; 8], between, &memory].concat()
}

fuzz_target!(|data: &[u8]| {
    if let Some(prefix) = data.first_chunk::<4>() {
        assert!(body_bytes(*prefix).map_or(true, |length| length <= MESSAGE_BYTES_MAX));
    }
    if let Some(hello) = data.first_chunk::<HELLO_BYTES>() {
        let _ = greeted(hello);
    }
    let (kind, body) = data.split_first().unwrap_or((&0, &[]));
    let between: &[u8] = match kind {
        65 => &[7; 12],
        7 => &[7; 20],
        _ => &[],
    };
    let [before, now] = WRITTEN.map(|version| with_state(*kind, between, version, body));
    for bytes in [data, &before, &now] {
        let Ok(envelope) = Envelope::decode(bytes) else {
            continue;
        };
        assert!(bytes.len() >= BEGINNING_BYTES);
        let again = envelope.encode();
        // A memory of the older version is written as one of this version, which is longer.
        if again.len() == bytes.len() + 4 {
            assert_eq!(&again[4..], bytes, "another form of the same");
        }
        let read = Envelope::decode(&again[4..]).expect("what we write");
        assert_eq!(read.encode(), again, "as it was");
    }
});
