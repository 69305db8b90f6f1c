//! Streams of snapshots as files and peers bring them: each record is refused or let through
//! unchanged, and nothing follows the last one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use send_stream::{Begin, RECORD_BYTES, pass};

/// A valid first record, so that the fuzzer need not find one: a stream of a volume.
fn begin() -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[8..16].copy_from_slice(&0x2_f5ba_cbac_u64.to_le_bytes());
    record[16] = 1;
    record[32] = 3;
    record[56..62].copy_from_slice(b"a/b@c\0");
    record
}

fuzz_target!(|data: &[u8]| {
    let _ = Begin::read(&mut &data[..]);
    let Some((features, records)) = data.split_first_chunk::<4>() else {
        return;
    };
    let mut first = begin();
    // Any features, and an incremental stream or a whole one.
    first[18..21].copy_from_slice(&features[..3]);
    first[48] = features[3];
    let whole = [&first[..], records].concat();
    let mut source = whole.as_slice();
    let Ok(begin) = Begin::read(&mut source) else {
        return;
    };
    let mut sink = Vec::new();
    let outcome = pass(&begin, &mut source, &mut sink);
    let rest = &whole[RECORD_BYTES + begin.payload.len()..];
    assert!(rest.starts_with(&sink), "the stream is unchanged");
    if let Ok(passed) = outcome {
        assert_eq!(passed.bytes, sink.len() as u64);
        assert_eq!(
            sink[sink.len() - RECORD_BYTES],
            5,
            "the last record terminates it"
        );
    }
});
