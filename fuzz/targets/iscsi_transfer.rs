//! Data-Out sequences in any order with any numbers: the stored data is inside the command's
//! buffer, a transfer without an error fills every byte exactly once, and the transfer terminates.

#![no_main]

use iscsi::protocol::header::Header;
use iscsi::protocol::parameters::SessionParameters;
use iscsi::protocol::request::{DataOut, Request};
use iscsi::protocol::transfer::Transfer;
use libfuzzer_sys::fuzz_target;

/// Announced bytes stay below this, so that the map of filled bytes is small.
const ANNOUNCED_MAX: u32 = 4096;

fn half(bytes: &[u8], at: usize) -> u32 {
    let byte = |at| u32::from(bytes.get(at).copied().unwrap_or_default());
    byte(at) << 8 | byte(at + 1)
}

fuzz_target!(|input: &[u8]| {
    if let Some(first) = input.first_chunk::<48>() {
        let _ = Request::decode(&Header(*first), &input[48..]);
    }
    let session = SessionParameters {
        initial_r2t: input.first().is_some_and(|byte| byte & 1 != 0),
        first_burst_bytes: 512,
        max_burst_bytes: 512.max(half(input, 1) % 2048),
        max_outstanding_r2t: 2,
        ..SessionParameters::default()
    };
    let announced = half(input, 3) % ANNOUNCED_MAX;
    let wanted = half(input, 5) % ANNOUNCED_MAX;
    let immediate = half(input, 7) % 600;
    let more_unsolicited = input.get(9).is_some_and(|byte| byte & 1 != 0);
    let mut transfer = Transfer::new(&session, announced, wanted, immediate, more_unsolicited);
    let mut filled = vec![false; announced as usize];
    if transfer.fault().is_none() {
        filled[..immediate.min(announced) as usize].fill(true);
    }
    let mut tag = 0;
    for chunk in input.get(10..).unwrap_or_default().chunks(8) {
        while let Some(grant) = transfer.grant(|| tag) {
            assert!(
                grant.length > 0 && grant.offset + grant.length <= announced.min(wanted).max(1)
            );
            tag += 1;
        }
        let header = DataOut {
            is_final: chunk[0] & 1 != 0,
            task_tag: 1,
            transfer_tag: if chunk[0] & 2 != 0 {
                u32::MAX
            } else {
                half(chunk, 1) & 3
            },
            data_sn: half(chunk, 3) & 7,
            offset: half(chunk, 5) % ANNOUNCED_MAX,
        };
        let count = u32::from(chunk.get(7).copied().unwrap_or_default()) * 4;
        let Some(place) = transfer.receive(&header, count) else {
            continue;
        };
        assert!(place.keep <= count);
        for byte in place.offset..place.offset + place.keep {
            let slot = filled.get_mut(byte as usize).expect("inside the buffer");
            assert!(!*slot, "byte {byte} written twice");
            *slot = true;
        }
    }
    if transfer.is_complete() && transfer.fault().is_none() {
        let needed = wanted.min(announced) as usize;
        assert!(
            filled[..needed].iter().all(|slot| *slot),
            "complete with a gap"
        );
    }
});
