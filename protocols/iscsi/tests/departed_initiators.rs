//! An initiator with a lost session logs in again, retries its unacknowledged requests, and
//! continues. Queued requests of its old session must not take effect after that.

mod common;

use std::sync::Arc;

use common::*;
use iscsi::Limits;
use serving::{Budget, Workers};
use storage_faults::{Fault, FaultyDevice, Operation};

const SIZE: u64 = 1 << 20;

/// Another initiator port of the same initiator, as after a restart of the host.
fn from_port(isid: u8) -> LoginParameters {
    LoginParameters {
        isid,
        ..LoginParameters::default()
    }
}

fn log_in(fixture: &Fixture, isid: u8) -> Client {
    let mut client = Client::log_in_as(fixture.address, &from_port(isid));
    assert!(client.is_served());
    client
}

/// Sends a write of one block, without a response.
fn begin_write(client: &mut Client, byte: u8) {
    let cdb = cdb_10(0x2a, 0, 1);
    client.send_command(9, &cdb, 0xa0, BLOCK as u32, &[byte; BLOCK]);
}

/// Repeats W1 in a new session and writes W2, both acknowledged.
fn reconnect(fixture: &Fixture, isid: u8) -> Client {
    let mut again = log_in(fixture, isid);
    for byte in [1, 2] {
        assert_eq!(again.write_blocks(0, &[byte; BLOCK]), 0);
    }
    again
}

fn sessions_of(fixture: &Fixture, count: usize) -> bool {
    fixture.server.status().sessions.len() == count
}

#[test]
fn queued_write_has_no_effect_after_session_loss() {
    for isid in [1, 2] {
        let device = FaultyDevice::of_memory(SIZE);
        let fixture = serve_with_workers(1, device.clone());
        let mut other = log_in(&fixture, 9);
        device.set(Operation::Read, Fault::HangNext);
        other.read_10(7, 0, 1);
        wait_until("the worker is busy", || {
            device.hanging(Operation::Read) == 1
        });
        let mut first = log_in(&fixture, 1);
        device.set(Operation::Write, Fault::Slow);
        begin_write(&mut first, 1);
        first.send(ping(51, first.cmd_sn), &[]);
        assert_eq!(first.receive().unwrap().opcode(), 0x20, "W1 was received");
        device.set(Operation::Write, Fault::None);
        drop(first);
        if isid == 1 {
            // Reinstatement waits for all pending operations.
            std::thread::scope(|scope| {
                let again = scope.spawn(|| reconnect(&fixture, isid));
                device.release(Operation::Read);
                let mut again = again.join().unwrap();
                assert_eq!(again.read_blocks(0, BLOCK), [2; BLOCK]);
            });
            continue;
        }
        let mut again = reconnect(&fixture, isid);
        device.release(Operation::Read);
        assert_eq!(other.receive().unwrap().opcode(), 0x25);
        wait_until("the lost session is over", || sessions_of(&fixture, 2));
        assert_eq!(again.read_blocks(0, BLOCK), [2; BLOCK]);
    }
}

#[test]
fn blocked_write_has_no_effect_after_session_loss() {
    let device = FaultyDevice::of_memory(SIZE);
    let (fixture, mut first) = served_client_of(device.clone());
    device.set(Operation::Write, Fault::HangNext);
    begin_write(&mut first, 1);
    wait_until("W1 waits", || device.hanging(Operation::Write) == 1);
    drop(first);
    let mut again = reconnect(&fixture, 2);
    device.release(Operation::Write);
    wait_until("the lost session is over", || sessions_of(&fixture, 1));
    assert_eq!(again.read_blocks(0, BLOCK), [2; BLOCK]);
}

#[test]
fn blocked_compare_and_write_has_no_effect_after_session_loss() {
    let device = FaultyDevice::of_memory(SIZE);
    let (fixture, mut first) = served_client_of(device.clone());
    device.set(Operation::Write, Fault::HangNext);
    let mut compare_and_write = [0; 16];
    compare_and_write[0] = 0x89;
    compare_and_write[13] = 1;
    let data = [vec![0; BLOCK], vec![1; BLOCK]].concat();
    first.send_command(9, &compare_and_write, 0xa0, data.len() as u32, &data);
    wait_until("it waits", || device.hanging(Operation::Write) == 1);
    drop(first);
    let mut again = log_in(&fixture, 2);
    device.release(Operation::Write);
    wait_until("the lost session is over", || sessions_of(&fixture, 1));
    assert_eq!(again.read_blocks(0, BLOCK), [0; BLOCK]);
}

#[test]
fn login_waits_until_writes_in_effect_complete() {
    let device = FaultyDevice::of_memory(SIZE);
    let (fixture, mut first) = served_client_of(device.clone());
    device.set(Operation::Write, Fault::HangNextInEffect);
    begin_write(&mut first, 1);
    wait_until("W1 takes effect", || device.hanging(Operation::Write) == 1);
    drop(first);
    std::thread::scope(|scope| {
        let again = scope.spawn(|| reconnect(&fixture, 2));
        wait_until("the login arrived", || fixture.server.peers().len() == 2);
        assert!(!again.is_finished(), "W1 is not over");
        device.release(Operation::Write);
        let mut again = again.join().unwrap();
        assert_eq!(again.read_blocks(0, BLOCK), [2; BLOCK]);
    });
}

#[test]
fn login_waits_for_a_lost_session_up_to_the_limit() {
    let device = FaultyDevice::of_memory(SIZE);
    let limits = Limits {
        reinstatement_time: std::time::Duration::from_millis(50),
        ..Limits::default()
    };
    let fixture = serve_device(limits, 64 << 20, device.clone());
    let mut first = log_in(&fixture, 1);
    device.set(Operation::Write, Fault::HangNextInEffect);
    begin_write(&mut first, 1);
    wait_until("W1 takes effect", || device.hanging(Operation::Write) == 1);
    drop(first);
    let status = Client::connect(fixture.address).try_log_in(&from_port(2));
    assert_eq!(status, 0x0300, "a target error: the initiator tries again");
    device.release(Operation::Write);
    wait_until("the lost session is over", || sessions_of(&fixture, 0));
    assert!(log_in(&fixture, 2).is_served());
}

/// Its thread is in a flush: it can neither read the write in the socket nor detect the end.
#[test]
fn write_behind_a_hung_flush_has_no_effect_after_disconnect() {
    let device = FaultyDevice::of_memory(SIZE);
    let (fixture, mut first) = served_client_of(device.clone());
    // A permanent path of the initiator, without a new login.
    let mut other = log_in(&fixture, 2);
    assert_eq!(first.write_blocks(0, &[1; BLOCK]), 0);
    device.set(Operation::Flush, Fault::HangNext);
    first.send_command(9, &cdb_10(0x35, 0, 0), 0x80, 0, &[]);
    wait_until("the flush hangs", || device.hanging(Operation::Flush) == 1);
    begin_write(&mut first, 3);
    drop(first);
    device.release(Operation::Flush);
    wait_until("the session is over", || sessions_of(&fixture, 1));
    assert_eq!(other.read_blocks(0, BLOCK), [1; BLOCK]);
}

fn serve_with_workers(count: usize, device: Arc<FaultyDevice>) -> Fixture {
    serve_on(
        Limits::default(),
        Arc::new(Workers::new("worker", count)),
        Budget::new(64 << 20),
        device,
    )
}
