//! Requests and replies over a real socket, in all three styles, with a client that sends raw
//! bytes.

mod support;

use std::sync::Arc;

use block_device::{MemoryDevice, SharedDevice};
use storage_faults::{Fault, FaultyDevice};
use support::*;

const SIZE: u64 = 64 << 20;

/// One device that completes immediately, and one that always blocks.
fn devices() -> [SharedDevice; 2] {
    let slow = FaultyDevice::of_memory(SIZE);
    slow.set_all(Fault::Slow);
    [Arc::new(MemoryDevice::new(SIZE, 512)), slow]
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|index| (index / 7) as u8 ^ seed | 1)
        .collect()
}

#[test]
fn simple_replies_carry_data_of_any_size_and_alignment() {
    for device in devices() {
        let (_server, address) = serve(device);
        let mut client = Client::ready(address, 0);
        for (offset, length) in [(0, 4096), (513, 1), (100, 70_000), (4096, 3 << 20)] {
            let data = pattern(length, offset as u8);
            client.request(1, 1, 7, offset, length as u32);
            client.send(&data);
            assert_eq!(client.simple(), (0, 7));
            client.request(0, 0, 8, offset, length as u32);
            assert_eq!(client.simple(), (0, 8));
            assert!(client.take(length) == data, "{length} bytes at {offset}");
        }
        client.request(0, 3, 9, 0, 0);
        assert_eq!(client.simple(), (0, 9));
        client.request(0, 2, 10, 0, 0);
        assert!(client.rest().is_empty());
    }
}

#[test]
fn structured_replies_have_chunks_for_data_holes_errors_and_status() {
    for device in devices() {
        let (_server, address) = serve(device);
        let mut client = Client::ready(address, 1);
        let data = pattern(8192, 1);
        client.request(0, 1, 1, 16384, 8192);
        client.send(&data);
        assert_eq!(client.simple(), (0, 1));
        client.request(0, 0, 2, 16384, 8192);
        let (kind, cookie, payload) = client.chunk(false);
        assert_eq!((kind, cookie), (1, 2));
        assert_eq!(payload[..8], 16384_u64.to_be_bytes());
        assert!(payload[8..] == data);
        // A hole, and the same with the flag that forbids more than one content chunk.
        client.request(0, 0, 3, 1 << 20, 65536);
        assert_eq!(
            client.chunk(false),
            (2, 3, b"\0\0\0\0\0\x10\0\0\0\x01\0\0".to_vec())
        );
        client.request(4, 0, 4, 1 << 20, 65536);
        let (kind, _, payload) = client.chunk(false);
        assert_eq!((kind, payload.len()), (1, 8 + 65536));
        client.request(0, 7, 5, 0, 65536);
        let runs = b"\0\0\0\x01\0\0\x40\0\0\0\0\x03\0\0\x20\0\0\0\0\0\0\0\xa0\0\0\0\0\x03";
        assert_eq!(client.chunk(false), (5, 5, runs.to_vec()));
        client.request(8, 7, 6, 0, 65536);
        assert_eq!(client.chunk(false), (5, 6, runs[..12].to_vec()));
        client.request(0, 0, 7, SIZE, 1);
        let (kind, _, payload) = client.chunk(false);
        assert_eq!((kind, &payload[..4]), (0x8001, &[0, 0, 0, 22][..]));
        assert_eq!(&payload[6..], b"beyond the end of the export");
        client.request(4, 4, 8, 16384, 8192);
        assert_eq!(
            client.chunk(false).2[..4],
            [0, 0, 0, 22],
            "a flag that is not trim's"
        );
        client.request(1, 4, 9, 16384, 8192);
        assert_eq!(client.simple(), (0, 9));
        client.request(0x12, 6, 10, 0, 4096);
        assert_eq!(
            client.chunk(false).2[..4],
            [0, 0, 0, 95],
            "not faster than writing"
        );
        client.request(0x10, 6, 11, 0, 4096);
        assert_eq!(client.simple(), (0, 11));
        client.request(2, 6, 12, 0, 4096);
        assert_eq!(client.simple(), (0, 12));
        client.request(0, 5, 13, 0, 1 << 20);
        assert_eq!(client.simple(), (0, 13));
        client.request(0, 7, 14, 0, 8192);
        let runs = b"\0\0\0\x01\0\0\x10\0\0\0\0\0\0\0\x10\0\0\0\0\x03";
        assert_eq!(client.chunk(false), (5, 14, runs.to_vec()));
    }
}

#[test]
fn extended_headers_have_wide_lengths_and_payloads() {
    // Larger than the length of a compact request.
    let size = 6 << 30;
    let (_server, address) = serve(Arc::new(MemoryDevice::new(size, 512)));
    let mut client = Client::ready(address, 2);
    let data = pattern(100_000, 3);
    client.extended(0x20, 1, 1, 5 << 30, data.len() as u64);
    client.send(&data);
    assert_eq!(client.chunk(true), (0, 1, vec![]));
    client.extended(0, 0, 2, 5 << 30, data.len() as u64);
    let (kind, cookie, payload) = client.chunk(true);
    assert_eq!((kind, cookie), (1, 2));
    assert!(payload[8..] == data);
    // A write without the payload flag has a payload, as qemu's.
    client.extended(1, 1, 3, 5 << 30, 512);
    client.send(&data[..512]);
    assert_eq!(client.chunk(true), (0, 3, vec![]));
    // Another command has none.
    client.extended(0x20, 4, 4, 0, 512);
    client.send(&[0; 512]);
    assert_eq!(client.chunk(true).2[..4], [0, 0, 0, 22]);
    client.extended(0, 7, 5, 0, size);
    let (kind, _, wide) = client.chunk(true);
    assert_eq!((kind, &wide[..8]), (6, &[0, 0, 0, 1, 0, 0, 0, 3][..]));
    assert_eq!(wide[8..16], (5_u64 << 30).to_be_bytes());
    assert_eq!(wide[16..24], 3_u64.to_be_bytes());
    // The form with a payload: an effect length and the requested contexts.
    let selection = [&(1_u64 << 32).to_be_bytes()[..], &[0, 0, 0, 1]].concat();
    client.extended(0x28, 7, 6, 0, 12);
    client.send(&selection);
    let (kind, _, payload) = client.chunk(true);
    assert_eq!(
        (kind, &payload[8..16]),
        (6, &(1_u64 << 32).to_be_bytes()[..])
    );
    for wrong in [
        &selection[..8],
        &[selection.as_slice(), &[0, 0, 0, 1]].concat(),
    ] {
        client.extended(0x20, 7, 7, 0, wrong.len() as u64);
        client.send(wrong);
        assert_eq!(client.chunk(true).2[..4], [0, 0, 0, 22]);
    }
    client.extended(0, 4, 8, 0, size);
    assert_eq!(client.chunk(true), (0, 8, vec![]));
    client.extended(0, 7, 9, 0, size);
    assert_eq!(client.chunk(true).2[8..16], size.to_be_bytes());
    client.extended(0, 2, 10, 0, 0);
    assert!(client.rest().is_empty());
}

#[test]
fn zero_length_requests_get_replies() {
    for device in devices() {
        let (_server, address) = serve(device);
        let mut simple = Client::ready(address, 0);
        for command in [0, 1, 4, 5, 6] {
            simple.request(0, command, 1, SIZE, 0);
            assert_eq!(simple.simple(), (0, 1), "command {command}");
        }
        let mut structured = Client::ready(address, 1);
        structured.request(0, 0, 2, 0, 0);
        assert_eq!(structured.chunk(false), (0, 2, vec![]));
        structured.request(0, 7, 3, 0, 0);
        assert_eq!(structured.chunk(false).2[..4], [0, 0, 0, 22]);
    }
}

#[test]
fn request_burst_gets_every_reply() {
    for device in devices() {
        let (_server, address) = serve(device);
        let mut client = Client::ready(address, 0);
        let count = 2000;
        let mut burst = Vec::new();
        for cookie in 0..count {
            burst.extend(compact(0, 0, cookie, (cookie % 1000) * 4096, 4096));
        }
        client.send(&burst);
        let mut seen = vec![false; count as usize];
        for _ in 0..count {
            let (errno, cookie) = client.simple();
            assert_eq!(errno, 0);
            client.take(4096);
            assert!(!std::mem::replace(&mut seen[cookie as usize], true));
        }
    }
}

#[test]
fn refused_write_payload_is_consumed() {
    let (server, address) = serve(Arc::new(MemoryDevice::new(SIZE, 512)));
    let mut client = Client::ready(address, 0);
    for length in [512, 1 << 20] {
        client.request(0, 1, 1, SIZE, length);
        client.send(&vec![0x25; length as usize]);
        assert_eq!(client.simple(), (28, 1));
    }
    drop(client);
    let mut read_only = export("disk", Arc::new(MemoryDevice::new(SIZE, 512)));
    read_only.read_only = true;
    server.apply(desired_state(vec![read_only])).unwrap();
    let mut client = Client::ready(address, 0);
    for command in [1, 4, 6] {
        client.request(0, command, 2, 0, 512);
        if command == 1 {
            client.send(&[1; 512]);
        }
        assert_eq!(client.simple(), (1, 2), "command {command}");
    }
    client.request(0, 0, 3, 0, 512);
    assert_eq!(client.simple(), (0, 3));
}
