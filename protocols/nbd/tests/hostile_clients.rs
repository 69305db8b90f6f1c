//! Broken or malicious clients are disconnected, and other clients are served.

mod support;

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use block_device::MemoryDevice;
use nbd::ServerLimits;
use support::*;

const SIZE: u64 = 256 << 20;

fn short_timeouts() -> ServerLimits {
    let mut limits = ServerLimits {
        // Longer than a whole handshake on a busy host.
        handshake_timeout: Duration::from_secs(4),
        ..ServerLimits::default()
    };
    limits.outbound.stall_timeout = Duration::from_millis(500);
    limits
}

fn assert_served(address: std::net::SocketAddr) {
    let mut client = Client::ready(address, 1);
    client.request(0, 0, 1, 0, 4096);
    assert_eq!(client.chunk(false).1, 1);
}

#[test]
fn half_open_handshakes_are_closed_at_their_deadline() {
    let (_server, address) = serve_within(Arc::new(MemoryDevice::new(SIZE, 512)), short_timeouts());
    let starts: [&[u8]; 4] = [
        b"",
        b"\0\0",
        b"\0\0\0\x03IHAVEO",
        b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x20x",
    ];
    let mut clients = starts.map(|start| {
        let mut client = Client::connect(address);
        client.send(start);
        client
    });
    assert_served(address);
    for client in &mut clients {
        assert_eq!(client.rest().len(), 18, "only the greeting");
    }
    assert_served(address);
}

#[test]
fn garbage_ends_the_connection() {
    let (_server, address) = serve(Arc::new(MemoryDevice::new(SIZE, 512)));
    let mut client = Client::connect(address);
    client.send(&[0xff; 4096]);
    client.rest();
    let mut client = Client::greeted(address);
    client.send(b"GET / HTTP/1.1\r\nHost: disk\r\n\r\n");
    client.rest();
    for style in 0..3 {
        let mut client = Client::ready(address, style);
        client.send(&[0x5a; 64]);
        client.rest();
    }
    // The compact header's magic number in the extended style.
    let mut client = Client::ready(address, 2);
    client.request(0, 0, 1, 0, 4096);
    client.send(&[0; 8]);
    assert!(client.rest().is_empty());
    assert_served(address);
}

#[test]
fn payloads_beyond_the_maximum_end_the_connection() {
    let (_server, address) = serve(Arc::new(MemoryDevice::new(SIZE, 512)));
    let mut client = Client::ready(address, 0);
    client.request(0, 1, 1, 0, (32 << 20) + 1);
    assert!(client.rest().is_empty());
    let mut client = Client::ready(address, 2);
    client.extended(0x20, 1, 1, 0, u64::MAX);
    assert!(client.rest().is_empty());
    // Reads are refused, and the session continues.
    let mut client = Client::ready(address, 1);
    client.request(0, 0, 1, 0, 64 << 20);
    assert_eq!(client.chunk(false).2[..4], [0, 0, 0, 75]);
    client.request(0, 0, 2, 0, 32 << 20);
    assert_eq!(client.chunk(false).0, 2);
}

#[test]
fn client_that_never_reads_is_dropped_and_memory_freed() {
    let device = Arc::new(MemoryDevice::new(SIZE, 512));
    let (server, address) = serve_within(device, short_timeouts());
    let mut greedy = Client::ready(address, 0);
    let mut requests = Vec::new();
    for cookie in 0..1000 {
        requests.extend(compact(0, 0, cookie, 0, 1 << 20));
    }
    greedy.send(&requests);
    let deadline = Instant::now() + EVENT_TIMEOUT;
    while server.status().payload_bytes == 0 {
        assert!(Instant::now() < deadline, "nothing was read for the client");
        std::thread::yield_now();
    }
    assert_served(address);
    while server.status().connections_alive > 0 || server.status().payload_bytes > 0 {
        assert!(
            server.status().payload_bytes <= 64 << 20,
            "memory is not bounded"
        );
        assert!(Instant::now() < deadline, "the client is not dropped");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn memory_for_payloads_is_bounded_over_all_connections() {
    let limits = ServerLimits {
        payload_bytes_max: 4 << 20,
        ..short_timeouts()
    };
    let (server, address) = serve_within(Arc::new(MemoryDevice::new(SIZE, 512)), limits);
    // Each announces a payload and does not send it.
    let hoarders: Vec<_> = (0..8)
        .map(|_| {
            let mut client = Client::ready(address, 0);
            client.request(0, 1, 1, 0, 2 << 20);
            client
        })
        .collect();
    let deadline = Instant::now() + EVENT_TIMEOUT;
    while server.status().payload_bytes < 4 << 20 {
        assert!(Instant::now() < deadline, "payloads are not reserved");
        std::thread::yield_now();
    }
    assert_eq!(server.status().payload_bytes, 4 << 20);
    let mut waiting = Client::ready(address, 0);
    waiting.request(0, 0, 1, 0, 1 << 20);
    drop(hoarders);
    assert_eq!(waiting.simple(), (0, 1));
}

#[test]
fn thousand_connections_are_served_concurrently() {
    let (server, address) = serve(Arc::new(MemoryDevice::new(SIZE, 512)));
    let mut clients: Vec<_> = (0..1000).map(|_| Client::ready(address, 0)).collect();
    assert_eq!(server.status().connections.len(), 1000);
    for (cookie, client) in (0..).zip(&mut clients) {
        client.request(0, 0, cookie, cookie * 4096, 4096);
    }
    for (cookie, client) in (0..).zip(&mut clients) {
        assert_eq!(client.simple(), (0, cookie));
        client.take(4096);
    }
    drop(clients);
    let deadline = Instant::now() + EVENT_TIMEOUT;
    while server.status().connections_alive > 0 {
        assert!(Instant::now() < deadline, "connections are left over");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn option_flood_with_unread_replies_is_disconnected() {
    let exports = (0..500).map(|index| {
        let device = Arc::new(MemoryDevice::new(512, 512));
        export(&format!("{index:0200}"), device)
    });
    let (server, address) = serve_within(Arc::new(MemoryDevice::new(SIZE, 512)), short_timeouts());
    server.apply(desired_state(exports.collect())).unwrap();
    let mut client = Client::greeted(address);
    // The reply to each has more than 100 kB.
    let flood = b"IHAVEOPT\0\0\0\x03\0\0\0\0".repeat(9000);
    let _ = client.socket.write_all(&flood);
    let deadline = Instant::now() + EVENT_TIMEOUT;
    while server.status().connections_alive > 0 {
        assert!(Instant::now() < deadline, "the client is not cut off");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn requests_sent_byte_by_byte_are_parsed() {
    let (_server, address) = serve(Arc::new(MemoryDevice::new(SIZE, 512)));
    let mut client = Client::ready(address, 0);
    let mut bytes = compact(0, 1, 5, 4096, 100);
    bytes.extend([9; 100]);
    bytes.extend(compact(0, 0, 6, 4096, 100));
    for byte in bytes {
        client.socket.write_all(&[byte]).unwrap();
    }
    assert_eq!(client.simple(), (0, 5));
    assert_eq!(client.simple(), (0, 6));
    let mut data = [0; 100];
    client.socket.read_exact(&mut data).unwrap();
    assert_eq!(data, [9; 100]);
}
