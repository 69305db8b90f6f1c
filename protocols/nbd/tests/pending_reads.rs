//! Reads that are blocked on the disks: together they hold no more memory than the budget permits,
//! and they complete even if their client disconnects.

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nbd::{Farewell, NbdServer, ServerLimits};
use storage_faults::{Fault, FaultyDevice, Operation};
use support::*;

const SIZE: u64 = 1 << 20;
const READ_BYTES: u32 = 32 << 10;
const BUDGET_BYTES: u64 = 2 * READ_BYTES as u64;

struct Reading {
    device: Arc<FaultyDevice>,
    server: NbdServer,
    address: SocketAddr,
    client: Client,
}

/// A device that parks reads, and a client with four of them; the budget permits two.
fn four_reads() -> Reading {
    let device = FaultyDevice::of_memory(SIZE);
    let limits = ServerLimits {
        payload_bytes_max: BUDGET_BYTES,
        ..ServerLimits::default()
    };
    let (server, address) = serve_within(device.clone(), limits);
    let mut client = Client::ready(address, 0);
    device.set(Operation::Read, Fault::Park);
    for cookie in 1..=4 {
        client.request(0, 0, cookie, cookie * u64::from(READ_BYTES), READ_BYTES);
    }
    wait_until("two are begun", || device.parked().1 == 2);
    Reading {
        device,
        server,
        address,
        client,
    }
}

/// Returns the cookies of the next two replies in order.
fn two_replies(client: &mut Client) -> [u64; 2] {
    let mut cookies = [0; 2].map(|_: u64| {
        let (errno, cookie) = client.simple();
        assert_eq!(errno, 0);
        client.take(READ_BYTES as usize);
        cookie
    });
    cookies.sort_unstable();
    cookies
}

fn assert_nothing_is_held(server: &NbdServer) {
    wait_until("all memory is released", || {
        server.status().payload_bytes == 0
    });
}

#[test]
fn connection_at_its_budget_waits_and_others_continue() {
    let mut reading = four_reads();
    let mut other = Client::ready(reading.address, 0);
    other.request(0, 3, 9, 0, 0);
    assert_eq!(other.simple(), (0, 9), "a flush");
    for cookies in [[1, 2], [3, 4]] {
        wait_until("two are begun", || reading.device.parked().1 == 2);
        assert_eq!(reading.device.parked(), (BUDGET_BYTES, 2));
        assert_eq!(reading.server.status().payload_bytes, BUDGET_BYTES);
        assert_eq!(reading.device.call_back(), 2);
        assert_eq!(two_replies(&mut reading.client), cookies);
    }
    assert_nothing_is_held(&reading.server);
}

#[test]
fn vanished_client_releases_its_memory() {
    let reading = four_reads();
    drop(reading.client);
    wait_until("the started reads are completed", || {
        reading.device.call_back();
        reading.server.status().payload_bytes == 0
    });
    reading.device.set(Operation::Read, Fault::None);
    let mut other = Client::ready(reading.address, 0);
    other.request(0, 0, 9, 0, READ_BYTES);
    assert_eq!(other.simple(), (0, 9));
}

#[test]
fn shutdown_completes_pending_reads_and_releases_memory() {
    let mut reading = four_reads();
    std::thread::scope(|scope| {
        let (server, device) = (&reading.server, &reading.device);
        let deadline = Instant::now() + Duration::from_secs(60);
        let ending = scope.spawn(move || server.drain(deadline, Farewell::HandOver));
        wait_until("the drain completes when the device responds", || {
            device.call_back();
            ending.is_finished()
        });
    });
    assert_eq!(two_replies(&mut reading.client), [1, 2]);
    assert_nothing_is_held(&reading.server);
}
