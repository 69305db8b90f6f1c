//! A client with a closed connection reconnects, retries its unacknowledged requests, and
//! continues. Queued requests of its old connection must not take effect after that.

mod support;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use nbd::{NbdServer, ServerLimits};
use storage_faults::{Fault, FaultyDevice, Operation};
use support::*;

const SIZE: u64 = 64 << 20;
const SMALL: usize = 4096;
/// Received into the device's own buffers.
const LARGE: usize = 1 << 20;
/// No reply arrives within this time. A faulty server might pass such a test, but a correct one
/// always does.
const SILENCE: Duration = Duration::from_millis(100);

const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const WRITE_ZEROES: u16 = 6;

fn write(client: &mut Client, cookie: u64, byte: u8, length: usize) {
    client.request(0, WRITE, cookie, 0, length as u32);
    client.send(&vec![byte; length]);
}

/// Checks that the device holds these bytes after the only worker has completed its earlier jobs.
fn assert_holds(client: &mut Client, device: &FaultyDevice, bytes: &[u8]) {
    device.set(Operation::Read, Fault::Slow);
    client.request(0, 0, 99, 0, bytes.len() as u32);
    assert_eq!(client.simple(), (0, 99));
    assert!(client.take(bytes.len()) == bytes);
}

/// Repeats W1 on a new connection and writes W2, both acknowledged.
fn reconnect(address: std::net::SocketAddr, length: usize) -> Client {
    let mut again = Client::ready(address, 0);
    for (cookie, byte) in [(1, 1), (2, 2)] {
        write(&mut again, cookie, byte, length);
        assert_eq!(again.simple(), (0, cookie));
    }
    again
}

/// Chooses the export and writes W2, without a reply.
fn assert_no_reply(address: std::net::SocketAddr) -> Client {
    let mut again = Client::greeted(address);
    again.send_option(7, b"\0\0\0\x04disk\0\0");
    write(&mut again, 2, 2, SMALL);
    again.socket.set_read_timeout(Some(SILENCE)).unwrap();
    let answer = std::io::Read::read(&mut again.socket, &mut [0; 16]);
    let kind = answer.map_err(|error| error.kind());
    assert_eq!(kind, Err(ErrorKind::WouldBlock), "W1 is not over");
    again.socket.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
    again
}

fn is_quiet(server: &NbdServer, sessions: usize) -> bool {
    server.sessions().len() == sessions
}

/// Starts a server with one worker.
fn serve_slowly() -> (Arc<FaultyDevice>, NbdServer, std::net::SocketAddr) {
    let device = FaultyDevice::of_memory(SIZE);
    let limits = ServerLimits {
        workers_max: 1,
        ..ServerLimits::default()
    };
    let (server, address) = serve_within(device.clone(), limits);
    (device, server, address)
}

/// Starts a server with one worker and a client with a hanging write W1.
fn hanging_write(
    fault: Fault,
    length: usize,
) -> (Arc<FaultyDevice>, NbdServer, std::net::SocketAddr, Client) {
    let (device, server, address) = serve_slowly();
    let mut first = Client::ready(address, 0);
    device.set(Operation::Write, fault);
    write(&mut first, 1, 1, length);
    wait_until("W1 hangs", || device.hanging(Operation::Write) == 1);
    (device, server, address, first)
}

/// Starts a server with one worker and a read that occupies it: blocking requests are queued behind
/// it.
fn busy_worker() -> (Arc<FaultyDevice>, NbdServer, std::net::SocketAddr, Client) {
    let (device, server, address) = serve_slowly();
    let mut other = Client::ready(address, 0);
    device.set(Operation::Read, Fault::HangNext);
    other.request(0, 0, 7, 0, 512);
    wait_until("the worker is busy", || {
        device.hanging(Operation::Read) == 1
    });
    (device, server, address, other)
}

#[test]
fn queued_write_has_no_effect_after_client_disconnect() {
    for length in [SMALL, LARGE] {
        let (device, server, address, mut other) = busy_worker();
        device.set(Operation::Write, Fault::Slow);
        let mut first = Client::ready(address, 0);
        write(&mut first, 1, 1, length);
        wait_until("W1 was received", || {
            server.status().payload_bytes > 0 || length == SMALL
        });
        // The reply proves that earlier requests were received.
        first.request(0, 0, 8, SIZE, 512);
        assert_eq!(first.simple(), (22, 8));
        drop(first);
        wait_until("the end was seen", || is_quiet(&server, 1));
        device.set(Operation::Write, Fault::None);
        let mut again = reconnect(address, length);
        device.release(Operation::Read);
        assert_eq!(other.simple(), (0, 7));
        other.take(512);
        assert_holds(&mut again, &device, &vec![2; length]);
    }
}

#[test]
fn blocked_write_has_no_effect_after_client_disconnect() {
    for length in [SMALL, LARGE] {
        let (device, _server, address, first) = hanging_write(Fault::HangNext, length);
        drop(first);
        let mut again = reconnect(address, length);
        device.release(Operation::Write);
        assert_holds(&mut again, &device, &vec![2; length]);
    }
}

#[test]
fn reconnect_waits_until_writes_in_effect_complete() {
    let (device, server, address, first) = hanging_write(Fault::HangNextInEffect, SMALL);
    drop(first);
    let mut again = assert_no_reply(address);
    device.release(Operation::Write);
    assert_eq!(again.option_reply(7), 1);
    assert_eq!(again.simple(), (0, 2));
    wait_until("the first session is over", || is_quiet(&server, 1));
    assert_holds(&mut again, &device, &[2; SMALL]);
}

/// The network was cut: the server has not detected the end of the first connection.
#[test]
fn requests_of_a_stale_connection_complete_before_reconnect() {
    let (device, _server, address, _cut_off) = hanging_write(Fault::HangNext, SMALL);
    let mut again = assert_no_reply(address);
    device.release(Operation::Write);
    assert_eq!(again.option_reply(7), 1);
    assert_eq!(again.simple(), (0, 2));
    assert_holds(&mut again, &device, &[2; SMALL]);
}

#[test]
fn queued_write_zeroes_has_no_effect_after_disconnect() {
    let (device, server, address) = serve_slowly();
    let mut first = Client::ready(address, 0);
    device.set(Operation::Zero, Fault::HangNext);
    first.request(0, WRITE_ZEROES, 1, 0, SMALL as u32);
    wait_until("the zeroes wait", || device.hanging(Operation::Zero) == 1);
    drop(first);
    let mut again = Client::ready(address, 0);
    write(&mut again, 2, 2, SMALL);
    assert_eq!(again.simple(), (0, 2));
    device.release(Operation::Zero);
    wait_until("the first session is over", || is_quiet(&server, 1));
    assert_holds(&mut again, &device, &[2; SMALL]);
}

/// Its thread is in a flush: it can neither read the write in the socket nor detect the end.
#[test]
fn write_behind_a_hung_flush_has_no_effect_after_client_left() {
    let (device, server, address) = serve_slowly();
    let mut first = Client::ready(address, 0);
    write(&mut first, 1, 1, SMALL);
    assert_eq!(first.simple(), (0, 1));
    device.set(Operation::Flush, Fault::HangNext);
    first.request(0, FLUSH, 2, 0, 0);
    wait_until("the flush hangs", || device.hanging(Operation::Flush) == 1);
    write(&mut first, 3, 3, SMALL);
    drop(first);
    // The client continues on another existing connection, or on none: there is no new login.
    device.release(Operation::Flush);
    wait_until("its session is over", || is_quiet(&server, 0));
    let mut again = Client::ready(address, 0);
    assert_holds(&mut again, &device, &[1; SMALL]);
}
