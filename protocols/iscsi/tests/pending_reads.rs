//! Reads that are blocked on the disks: together they hold no more memory than the budget permits,
//! and they complete even if their initiator disconnects.

mod common;

use std::sync::Arc;

use common::*;
use iscsi::Limits;
use storage_faults::{Fault, FaultyDevice, Operation};

const SIZE: u64 = 1 << 20;
const READ_BLOCKS: u16 = 64;
const READ_BYTES: u64 = READ_BLOCKS as u64 * BLOCK as u64;
const BUDGET_BYTES: u64 = 2 * READ_BYTES;

/// A device that parks reads, and an initiator with four of them; the budget permits two.
fn four_reads() -> (Arc<FaultyDevice>, Fixture, Client) {
    let device = FaultyDevice::of_memory(SIZE);
    let fixture = serve_device(Limits::default(), BUDGET_BYTES, device.clone());
    let mut client = Client::log_in(fixture.address);
    assert!(client.is_served());
    device.set(Operation::Read, Fault::Park);
    for tag in 1..=4 {
        client.read_10(tag, tag * u32::from(READ_BLOCKS), READ_BLOCKS);
    }
    answers_pings(&mut client);
    assert_eq!(device.parked(), (BUDGET_BYTES, 2));
    assert_eq!(fixture.budget.bytes_used(), BUDGET_BYTES);
    (device, fixture, client)
}

/// The reply to a ping proves that earlier requests were handled.
fn answers_pings(client: &mut Client) {
    client.send(ping(99, client.cmd_sn), &[]);
    assert_eq!(client.receive().expect("an answer").opcode(), 0x20);
}

/// Returns the tags of the next `count` completed reads, in order.
fn completed_reads(client: &mut Client, count: usize) -> Vec<u32> {
    let mut tags: Vec<u32> = (0..count)
        .map(|_| {
            let answer = client.receive().expect("an answer");
            assert_eq!((answer.opcode(), answer.status()), (0x25, 0), "{answer:?}");
            assert_eq!(answer.data.len() as u64, READ_BYTES);
            answer.header.task_tag()
        })
        .collect();
    tags.sort_unstable();
    tags
}

fn other_client(fixture: &Fixture) -> Client {
    let other = LoginParameters {
        isid: 2,
        ..LoginParameters::default()
    };
    let mut other = Client::log_in_as(fixture.address, &other);
    assert!(other.is_served());
    other
}

fn assert_nothing_is_held(fixture: &Fixture) {
    wait_until("all memory is free", || fixture.budget.bytes_used() == 0);
}

#[test]
fn reads_beyond_the_budget_wait_for_memory() {
    let (device, fixture, mut client) = four_reads();
    let mut other = other_client(&fixture);
    answers_pings(&mut other);
    assert_eq!(device.call_back(), 2);
    assert_eq!(completed_reads(&mut client, 2), [1, 2]);
    wait_until("the remaining reads are started", || device.parked().1 == 2);
    assert_eq!(device.parked(), (BUDGET_BYTES, 2));
    assert_eq!(device.call_back(), 2);
    assert_eq!(completed_reads(&mut client, 2), [3, 4]);
    assert_nothing_is_held(&fixture);
}

#[test]
fn oversized_read_is_served_alone() {
    let (device, fixture, mut client) = four_reads();
    client.read_10(5, 0, 4 * READ_BLOCKS);
    answers_pings(&mut client);
    for tags in [[1, 2], [3, 4]] {
        wait_until("two are begun", || device.parked().1 == 2);
        assert_eq!(device.call_back(), 2);
        assert_eq!(completed_reads(&mut client, 2), tags);
    }
    wait_until("the large one is begun", || {
        device.parked() == (4 * READ_BYTES, 1)
    });
    assert_eq!(device.call_back(), 1);
    let answer = client.receive().expect("an answer");
    assert_eq!(answer.data.len() as u64, 4 * READ_BYTES);
    assert_nothing_is_held(&fixture);
}

#[test]
fn vanished_initiator_releases_its_memory() {
    let (device, fixture, client) = four_reads();
    drop(client);
    assert_eq!(device.call_back(), 2);
    assert_nothing_is_held(&fixture);
    device.set(Operation::Read, Fault::None);
    let mut other = other_client(&fixture);
    assert_eq!(other.read_blocks(0, BLOCK), [0; BLOCK]);
    assert_eq!(device.parked(), (0, 0), "no more is requested");
}

#[test]
fn abort_of_a_read_waiting_for_memory_responds_at_once() {
    let (device, fixture, mut client) = four_reads();
    client.send(task_management(1, 50, client.cmd_sn, 3), &[]);
    let done = client.receive().expect("an answer");
    assert_eq!((done.opcode(), done.header.0[2]), (0x22, 0));
    assert_eq!(device.call_back(), 2);
    assert_eq!(completed_reads(&mut client, 2), [1, 2]);
    wait_until("the last is begun", || device.parked() == (READ_BYTES, 1));
    assert_eq!(device.call_back(), 1);
    assert_eq!(completed_reads(&mut client, 1), [4]);
    assert_nothing_is_held(&fixture);
}

#[test]
fn reset_ends_waiting_reads_and_waits_for_the_device() {
    const LOGICAL_UNIT_RESET: u8 = 5;
    let (device, fixture, mut client) = four_reads();
    client.send(
        task_management(LOGICAL_UNIT_RESET, 50, client.cmd_sn, 0),
        &[],
    );
    answers_pings(&mut client);
    assert_eq!(device.call_back(), 2);
    let done = client.receive().expect("an answer");
    assert_eq!(
        (done.opcode(), done.header.0[2]),
        (0x22, 0),
        "and no response to a read"
    );
    assert_nothing_is_held(&fixture);
    assert_eq!(device.parked(), (0, 0));
    assert!(client.is_served());
}

#[test]
fn shutdown_waits_for_the_device_and_releases_memory() {
    let (device, fixture, mut client) = four_reads();
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| fixture.server.drop_all_sessions());
        assert!(client.is_dropped());
        assert_eq!(device.call_back(), 2);
        ending.join().expect("no panic");
    });
    assert_nothing_is_held(&fixture);
    assert_eq!(device.parked(), (0, 0));
}
