//! Devices that fail, are slow, hang or are lost: the errors that the initiator gets, while other
//! initiators are served.

mod common;

use block_device::ErrorKind;
use common::*;
use iscsi::protocol::header::Header;
use storage_faults::{Fault, FaultyDevice, Operation};

const SIZE: u64 = 1 << 20;

/// Sends a read that hangs in `device`.
fn hang_a_read(client: &mut Client, device: &FaultyDevice, tag: u32) {
    device.set(Operation::Read, Fault::Hang);
    client.read_10(tag, 0, 1);
    wait_until("the read is under way", || {
        device.hanging(Operation::Read) == 1
    });
}

/// Sends a command of one block. Returns the response.
fn one_block(client: &mut Client, cdb: &[u8], data: &[u8]) -> Pdu {
    let flags = if data.is_empty() { 0xc0 } else { 0xa0 };
    client.send_command(9, cdb, flags, BLOCK as u32, data);
    client.receive().expect("a response")
}

/// SPC-4, tables of sense keys and of additional sense codes.
#[test]
fn device_errors_return_sense_and_keep_the_session() {
    let device = FaultyDevice::of_memory(SIZE);
    let (_fixture, mut client) = served_client_of(device.clone());
    let (read, write) = (cdb_10(0x28, 0, 1), cdb_10(0x2a, 0, 1));
    for (kind, sense) in [
        (ErrorKind::Unreadable, (0x3, 0x11, 0x00)),
        (ErrorKind::NoSpace, (0x7, 0x27, 0x07)),
        (ErrorKind::ReadOnly, (0x7, 0x27, 0x00)),
        (ErrorKind::Failed, (0x4, 0x44, 0x00)),
    ] {
        for fault in [Fault::Error(kind), Fault::LateError(kind)] {
            device.set_all(fault);
            let answer = one_block(&mut client, &read, &[]);
            assert_eq!((answer.opcode(), answer.status()), (0x21, 2), "{fault:?}");
            assert_eq!(answer.sense(), sense, "read, {fault:?}");
            let answer = one_block(&mut client, &write, &[1; BLOCK]);
            assert_eq!(answer.sense(), sense, "write, {fault:?}");
            let answer = one_block(&mut client, &cdb_10(0x35, 0, 0), &[]);
            assert_eq!(answer.sense(), sense, "synchronize cache, {fault:?}");
        }
    }
    device.set_all(Fault::None);
    assert_eq!(
        client.read_blocks(0, BLOCK),
        [0; BLOCK],
        "nothing was written"
    );
    assert_eq!(client.write_blocks(0, &[2; BLOCK]), 0);
}

#[test]
fn durable_write_with_failed_flush_is_not_acknowledged() {
    let device = FaultyDevice::of_memory(SIZE);
    let (_fixture, mut client) = served_client_of(device.clone());
    device.set(Operation::Flush, Fault::Error(ErrorKind::Failed));
    let mut force_unit_access = cdb_10(0x2a, 0, 1);
    force_unit_access[1] = 0x08;
    let answer = one_block(&mut client, &force_unit_access, &[1; BLOCK]);
    assert_eq!((answer.status(), answer.sense()), (2, (0x4, 0x44, 0)));
    device.set(Operation::Flush, Fault::None);
    let answer = one_block(&mut client, &force_unit_access, &[1; BLOCK]);
    assert_eq!(answer.status(), 0);
}

#[test]
fn slow_device_transfers_every_byte() {
    let device = FaultyDevice::of_memory(SIZE);
    device.set_all(Fault::Slow);
    let (fixture, mut client) = served_client_of(device);
    let data: Vec<u8> = (0..300 * BLOCK).map(|at| (at / 5) as u8).collect();
    assert_eq!(client.write_blocks(3, &data), 0);
    assert!(client.read_blocks(3, data.len()) == data);
    wait_until("all memory is free", || fixture.budget.bytes_used() == 0);
}

#[test]
fn hung_unit_blocks_no_session() {
    let device = FaultyDevice::of_memory(SIZE);
    let (fixture, mut client) = served_client_of(device.clone());
    hang_a_read(&mut client, &device, 9);
    assert!(client.is_served());
    assert_eq!(client.write_blocks(8, &[4; BLOCK]), 0);
    let other = LoginParameters {
        isid: 2,
        ..LoginParameters::default()
    };
    let mut other = Client::log_in_as(fixture.address, &other);
    assert!(other.is_served());
    assert_eq!(other.write_blocks(9, &[5; BLOCK]), 0);
    device.set(Operation::Read, Fault::None);
    let answer = client.receive().unwrap();
    assert_eq!((answer.opcode(), answer.header.task_tag()), (0x25, 9));
    assert_eq!(other.read_blocks(8, BLOCK), [4; BLOCK]);
}

#[test]
fn abort_response_waits_for_the_running_task() {
    let device = FaultyDevice::of_memory(SIZE);
    let (_fixture, mut client) = served_client_of(device.clone());
    hang_a_read(&mut client, &device, 9);
    let abort_task_set: Header = task_management(2, 50, client.cmd_sn, 0);
    client.send(abort_task_set, &[]);
    client.send(ping(51, client.cmd_sn), &[]);
    let pong = client.receive().unwrap();
    assert_eq!(pong.opcode(), 0x20, "the disk is slow, the session is not");
    device.set(Operation::Read, Fault::None);
    let done = client.receive().unwrap();
    let (opcode, response) = (done.opcode(), done.header.0[2]);
    assert_eq!((opcode, response), (0x22, 0), "and no response to the read");
}

#[test]
fn lost_device_drops_the_session_without_a_response() {
    let commands = [cdb_10(0x28, 0, 1), cdb_10(0x35, 0, 0)];
    for command in commands {
        for fault in [Fault::Error, Fault::LateError].map(|fault| fault(ErrorKind::Gone)) {
            let device = FaultyDevice::of_memory(SIZE);
            let (_fixture, mut client) = served_client_of(device.clone());
            device.set_all(fault);
            client.send_command(9, &command, 0xc0, BLOCK as u32, &[]);
            assert!(client.receive().is_none(), "{command:?} {fault:?}");
        }
    }
}

#[test]
fn lost_ownership_drops_sessions_without_logout() {
    let device = FaultyDevice::of_memory(SIZE);
    let (fixture, mut client) = served_client_of(device.clone());
    hang_a_read(&mut client, &device, 9);
    std::thread::scope(|scope| {
        scope.spawn(|| fixture.server.drop_all_sessions());
        assert!(client.receive().is_none());
        device.set(Operation::Read, Fault::None);
    });
}
