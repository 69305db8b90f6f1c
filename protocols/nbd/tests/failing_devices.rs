//! Devices that fail, are slow, hang or are lost: the errors that clients get, while other clients
//! are served. Error numbers are those of the protocol's document.

mod support;

use block_device::ErrorKind;
use storage_faults::{Fault, FaultyDevice, Operation};
use support::*;

const SIZE: u64 = 64 << 20;

#[test]
fn device_errors_return_errno_and_keep_the_session() {
    let device = FaultyDevice::of_memory(SIZE);
    let (_server, address) = serve(device.clone());
    let mut client = Client::ready(address, 0);
    for (kind, errno) in [
        (ErrorKind::NoSpace, 28),
        (ErrorKind::Unreadable, 5),
        (ErrorKind::Failed, 5),
        (ErrorKind::ReadOnly, 1),
    ] {
        for fault in [Fault::Error(kind), Fault::LateError(kind)] {
            device.set_all(fault);
            for length in [4096, 1 << 20] {
                client.request(0, 1, 1, 0, length);
                client.send(&vec![1; length as usize]);
                assert_eq!(client.simple(), (errno, 1), "write, {fault:?}");
            }
            // Read, flush, trim, write zeroes.
            for (command, length) in [(0, 4096), (3, 0), (4, 4096), (6, 4096)] {
                client.request(0, command, 2, 0, length);
                assert_eq!(client.simple(), (errno, 2), "{command}, {fault:?}");
            }
        }
    }
    device.set_all(Fault::None);
    client.request(0, 0, 3, 0, 512);
    assert_eq!(client.simple(), (0, 3));
    assert_eq!(client.take(512), [0; 512], "nothing was written");
}

#[test]
fn structured_replies_report_the_failed_offset() {
    let device = FaultyDevice::of_memory(SIZE);
    let (_server, address) = serve(device.clone());
    let mut client = Client::ready(address, 1);
    device.set_all(Fault::LateError(ErrorKind::Unreadable));
    // A read, and the status of blocks.
    for command in [0, 7] {
        client.request(0, command, 1, 0, 4096);
        let (kind, cookie, payload) = client.chunk(false);
        assert_eq!((kind & 0x8000, cookie), (0x8000, 1), "an error chunk");
        assert_eq!(payload[..4], [0, 0, 0, 5]);
        assert_eq!(&payload[6..], b"no good copy of the data is left");
    }
}

#[test]
fn durable_write_with_failed_flush_is_not_acknowledged() {
    const FORCE_UNIT_ACCESS: u16 = 1;
    let device = FaultyDevice::of_memory(SIZE);
    let (_server, address) = serve(device.clone());
    let mut client = Client::ready(address, 0);
    for (fault, errno) in [(Fault::Error(ErrorKind::Failed), 5), (Fault::None, 0)] {
        device.set(Operation::Flush, fault);
        client.request(FORCE_UNIT_ACCESS, 1, 1, 0, 512);
        client.send(&[1; 512]);
        assert_eq!(client.simple(), (errno, 1), "{fault:?}");
    }
}

#[test]
fn lost_device_never_returns_an_error() {
    for fault in [Fault::Error, Fault::LateError].map(|fault| fault(ErrorKind::Gone)) {
        for (command, length) in [(0, 4096), (3, 0)] {
            let device = FaultyDevice::of_memory(SIZE);
            let (_server, address) = serve(device.clone());
            let mut client = Client::ready(address, 0);
            device.set_all(fault);
            client.request(0, command, 4, 0, length);
            assert!(client.rest().is_empty(), "dropped without a reply");
        }
    }
}

#[test]
fn hung_request_blocks_no_session() {
    let device = FaultyDevice::of_memory(SIZE);
    let healthy = FaultyDevice::of_memory(SIZE);
    let (server, address) = serve(device.clone());
    let both = desired_state(vec![
        export("disk", device.clone()),
        export("other", healthy.clone()),
    ]);
    server.apply(both).unwrap();
    let mut client = Client::ready(address, 0);
    device.set(Operation::Read, Fault::Hang);
    client.request(0, 0, 1, 0, 4096);
    wait_until("the read hangs", || device.hanging(Operation::Read) == 1);
    // A request that needs no device, and a write to the same one.
    client.request(0, 0, 2, SIZE, 4096);
    assert_eq!(client.simple(), (22, 2));
    client.request(0, 1, 3, 8192, 512);
    client.send(&[3; 512]);
    assert_eq!(client.simple(), (0, 3));
    let mut other = Client::greeted(address);
    assert_eq!(other.option(7, b"\0\0\0\x05other\0\0"), 1);
    other.request(0, 0, 1, 0, 512);
    assert_eq!(other.simple(), (0, 1));
    device.set(Operation::Read, Fault::None);
    assert_eq!(client.simple(), (0, 1));
}
