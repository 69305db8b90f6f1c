//! Clients that violate the protocol: each is bounded and dropped or refused as RFC 7143 requires,
//! and other clients are still served.

mod common;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use block_device::MemoryDevice;
use common::*;
use iscsi::Limits;
use iscsi::protocol::header::{Header, TAG_NONE};

/// Time-out of events that do not occur.
const ABSENCE_TIMEOUT: Duration = Duration::from_millis(300);
/// Time-out of events on a host that may stall for seconds.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

#[test]
fn a_half_open_login_is_dropped_in_time() {
    let fixture = serve(Limits {
        login_time: STALL_TIMEOUT,
        ..Limits::default()
    });
    let mut silent = Client::connect(fixture.address);
    let mut slow = Client::connect(fixture.address);
    slow.stream.write_all(&[0x43, 0x87, 0, 0]).unwrap();
    let mut good = Client::log_in(fixture.address);
    assert!(silent.is_dropped());
    assert!(slow.is_dropped());
    assert!(good.is_served());
}

#[test]
fn client_that_never_reads_is_bounded_and_dropped() {
    let fixture = serve(Limits {
        stall_time: ABSENCE_TIMEOUT,
        ..Limits::default()
    });
    let mut deaf = Client::log_in(fixture.address);
    deaf.is_served();
    for tag in 0..100 {
        deaf.read_10(tag, 0, 2048);
    }
    let who = LoginParameters {
        isid: 2,
        ..LoginParameters::default()
    };
    let mut good = Client::log_in_as(fixture.address, &who);
    assert!(good.is_served());
    wait_until("the deaf client's session is closed", || {
        fixture.server.status().sessions.len() == 1
    });
    // Of the requested 100 MiB, only the bytes for the socket and the queue were read.
    assert!(fixture.server.status().counters.read_bytes < 40 << 20);
    assert!(good.is_served());
}

#[test]
fn a_segment_over_the_limit_ends_the_connection() {
    let fixture = serve(Limits::default());
    for in_login in [true, false] {
        let mut client = Client::connect(fixture.address);
        if !in_login {
            assert_eq!(client.try_log_in(&LoginParameters::default()), 0);
        }
        let mut header = Header::new(if in_login { 0x43 } else { 0x05 });
        header.set_data_bytes(if in_login { 8193 } else { 0x40_001 });
        client.stream.write_all(&header.0).unwrap();
        assert!(client.is_dropped());
    }
}

#[test]
fn malformed_ahs_is_rejected_and_connection_stays_up() {
    let fixture = serve(Limits::default());
    let mut client = Client::log_in(fixture.address);
    let mut header = client.command(1, &[0; 6], 0x80, 0);
    header.0[4] = 255;
    client.stream.write_all(&header.0).unwrap();
    client.stream.write_all(&[0xff; 255 * 4]).unwrap();
    let reject = client.receive().unwrap();
    assert_eq!((reject.opcode(), reject.header.0[2]), (0x3f, 0x09));
    assert_eq!(reject.data, header.0);
    assert!(client.is_served());
}

#[test]
fn a_wrong_header_digest_ends_the_connection() {
    let fixture = serve(Limits::default());
    let who = LoginParameters::with_keys("HeaderDigest=CRC32C;DataDigest=CRC32C");
    let mut client = Client::log_in_as(fixture.address, &who);
    assert!(client.is_served(), "right digests are taken");
    let header = ping(1, client.cmd_sn);
    client.stream.write_all(&header.0).unwrap();
    client.stream.write_all(&[1, 2, 3, 4]).unwrap();
    assert!(client.is_dropped());
}

#[test]
fn data_with_a_wrong_digest_is_rejected_and_fails_its_task() {
    let fixture = serve(Limits::default());
    let who = LoginParameters::with_keys("DataDigest=CRC32C;MaxRecvDataSegmentLength=8192");
    let mut client = Client::log_in_as(fixture.address, &who);
    assert!(client.is_served());
    for blocks in [1, 64] {
        client.write_10(9, 0, blocks);
        let r2t = client.receive().unwrap();
        assert_eq!(r2t.opcode(), 0x31);
        let mut header = data_out_header(&r2t, 0, 0, true);
        let data = vec![7; usize::from(blocks) * BLOCK];
        header.set_data_bytes(data.len());
        client.stream.write_all(&header.0).unwrap();
        client.stream.write_all(&data).unwrap();
        client.stream.write_all(&[0; 4]).unwrap();
        let reject = client.receive().unwrap();
        assert_eq!((reject.opcode(), reject.header.0[2]), (0x3f, 0x02));
        let answer = client.receive().unwrap();
        assert_eq!((answer.status(), answer.sense()), (2, (0x0b, 0x47, 0x05)));
    }
    let data: Vec<u8> = (0..200 * BLOCK).map(|at| (at % 251) as u8).collect();
    assert_eq!(client.write_blocks(3, &data), 0);
    assert!(
        client.read_blocks(3, data.len()) == data,
        "digests of many segments"
    );
}

#[test]
fn commands_outside_the_window_are_ignored() {
    let (_fixture, mut client) = served_client();
    let right = client.cmd_sn;
    for wrong in [right - 1, right + 128, right.wrapping_add(1 << 31)] {
        client.cmd_sn = wrong;
        client.send_command(1, &[0; 6], 0x80, 0, &[]);
    }
    client.cmd_sn = right;
    client.send_command(2, &[0; 6], 0x80, 0, &[]);
    let answer = client.receive().unwrap();
    assert_eq!(answer.header.task_tag(), 2);
}

#[test]
fn data_out_of_sequence_fails_its_task_after_the_last_pdu() {
    let (_fixture, mut client) = served_client();
    client.write_10(9, 0, 2);
    let r2t = client.receive().unwrap();
    client.data_out(&r2t, 1, 0, &[1; BLOCK], false);
    client.data_out(&r2t, 0, BLOCK as u32, &[1; BLOCK], true);
    let answer = client.receive().unwrap();
    assert_eq!((answer.status(), answer.sense().0), (2, 0x0b));
    assert_eq!(
        client.read_blocks(0, BLOCK),
        [0; BLOCK],
        "nothing was written"
    );
}

#[test]
fn data_for_an_unknown_task_is_dropped_at_any_size() {
    let fixture = serve(Limits::default());
    let mut client = Client::log_in(fixture.address);
    let mut header = Header::new(0x05);
    header.0[1] = 0x80;
    header.set_word(16, 77);
    header.set_word(20, TAG_NONE);
    for count in [1, 4096, 262_144] {
        client.send(header, &vec![1; count]);
    }
    assert!(client.is_served());
}

#[test]
fn thousand_idle_connections_do_not_block_a_login() {
    let fixture = serve(Limits::default());
    let mut idle = Vec::new();
    for _ in 0..1000 {
        idle.push(Client::connect(fixture.address));
    }
    let mut good = Client::log_in(fixture.address);
    assert!(good.is_served());
    drop(idle);
    wait_until("the idle connections are gone", || {
        fixture.server.status().connections == 1
    });
}

#[test]
fn a_login_over_the_limit_of_its_network_is_refused() {
    let mut limits = Limits::default();
    limits.connections.per_network_max = 1;
    let fixture = serve(limits);
    let mut good = Client::log_in(fixture.address);
    let another = LoginParameters {
        isid: 2,
        ..LoginParameters::default()
    };
    let status = Client::connect(fixture.address).try_log_in(&another);
    assert_eq!(status, 0x0302, "out of resources");
    assert!(good.is_served());
}

/// Discovery needs no authentication, so an idle discovery session must not occupy a slot forever.
#[test]
fn idle_discovery_session_is_closed_and_uses_no_session_slot() {
    let mut limits = Limits::default();
    limits.connections.total_max = 1;
    limits.discovery_idle_time = std::time::Duration::from_millis(50);
    let fixture = serve(limits);
    let discovery = LoginParameters {
        discovery: true,
        ..LoginParameters::default()
    };
    let mut idle = Client::log_in_as(fixture.address, &discovery);
    let mut good = Client::log_in(fixture.address);
    assert!(good.is_served());
    assert!(idle.is_dropped());
    assert!(good.is_served());
}

#[test]
fn garbage_closes_only_its_own_connection() {
    let fixture = serve(Limits::default());
    let mut good = Client::log_in(fixture.address);
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..200_u8 {
        let mut bad = Client::connect(fixture.address);
        if round % 2 == 0 {
            let who = LoginParameters {
                isid: 100,
                ..LoginParameters::default()
            };
            assert_eq!(bad.try_log_in(&who), 0);
        }
        let mut bytes = vec![0; random.usize(1..20_000)];
        random.fill(&mut bytes);
        if round % 4 == 0 {
            // With a valid opcode and a short data segment more of the decoder is reached. Task
            // management is excluded: every initiator may reset the target.
            for chunk in bytes.chunks_mut(48) {
                chunk[0] = [0, 1, 4, 5, 6, 0x10, 0x41, 0x44][random.usize(..8)];
                if let Some(lengths) = chunk.get_mut(4..8) {
                    lengths.copy_from_slice(&[0; 4]);
                }
            }
        }
        let _ = bad.stream.write_all(&bytes);
    }
    assert!(good.is_served(), "replay with seed {seed}");
}

#[test]
fn missing_data_out_closes_the_connection_and_frees_memory() {
    let fixture = serve(Limits {
        data_out_time: STALL_TIMEOUT,
        ..Limits::default()
    });
    let mut client = Client::log_in(fixture.address);
    assert!(client.is_served());
    client.write_10(9, 0, 1024);
    assert_eq!(client.receive().unwrap().opcode(), 0x31);
    assert_eq!(fixture.budget.bytes_used(), 512 * 1024);
    assert!(client.is_dropped());
    wait_until("the memory is given back", || {
        fixture.budget.bytes_used() == 0
    });
}

#[test]
fn writes_beyond_the_memory_budget_are_queued() {
    let device = Arc::new(MemoryDevice::new(64 << 20, 512));
    let fixture = serve_device(Limits::default(), 128 * 1024, device);
    let mut client = Client::log_in(fixture.address);
    assert!(client.is_served());
    let blocks = 192;
    client.write_10(1, 0, blocks);
    client.write_10(2, 1000, blocks);
    let first = client.receive().unwrap();
    assert_eq!((first.opcode(), first.header.task_tag()), (0x31, 1));
    let header = ping(3, client.cmd_sn);
    client.send(header, b"are you there");
    let pong = client.receive().unwrap();
    assert_eq!((pong.opcode(), &*pong.data), (0x20, &b"are you there"[..]));
    let data = vec![5; usize::from(blocks) * BLOCK];
    client.data_out(&first, 0, 0, &data, true);
    let mut answers = [client.receive().unwrap(), client.receive().unwrap()];
    answers.sort_by_key(Pdu::opcode);
    assert_eq!((answers[0].opcode(), answers[0].status()), (0x21, 0));
    assert_eq!(answers[1].header.task_tag(), 2, "the second may send now");
    client.data_out(&answers[1], 0, 0, &data, true);
    assert_eq!(client.receive().unwrap().status(), 0);
    assert!(client.read_blocks(1000, data.len()) == data);
    wait_until("all memory is given back", || {
        fixture.budget.bytes_used() == 0
    });
}

#[test]
fn unresponsive_initiator_is_pinged_and_dropped() {
    let fixture = serve(Limits {
        ping_after: ABSENCE_TIMEOUT,
        ping_answer_time: STALL_TIMEOUT,
        ..Limits::default()
    });
    let mut client = Client::log_in(fixture.address);
    let nop = client.receive().unwrap();
    assert_eq!((nop.opcode(), nop.header.task_tag()), (0x20, TAG_NONE));
    let mut answer = ping(TAG_NONE, client.cmd_sn);
    answer.set_word(20, nop.header.word(20));
    client.send(answer, &[]);
    let again = client.receive().unwrap();
    assert_eq!(again.opcode(), 0x20, "a ping preserves the session");
    assert!(client.is_dropped());
}

#[test]
fn too_many_immediate_commands_are_rejected() {
    let fixture = serve(Limits {
        immediate_tasks_max: 2,
        ..Limits::default()
    });
    let mut client = Client::log_in(fixture.address);
    assert!(client.is_served());
    for tag in 1..=3 {
        let cdb = cdb_10(0x2a, 0, 1);
        let mut header = client.command(tag, &cdb, 0xa0, 512);
        header.0[0] |= 0x40;
        client.send(header, &[]);
    }
    assert_eq!(client.receive().unwrap().opcode(), 0x31);
    assert_eq!(client.receive().unwrap().opcode(), 0x31);
    let reject = client.receive().unwrap();
    assert_eq!((reject.opcode(), reject.header.0[2]), (0x3f, 0x06));
}

#[test]
fn a_tag_in_use_is_rejected() {
    let (_fixture, mut client) = served_client();
    client.write_10(9, 0, 1);
    client.write_10(9, 0, 1);
    assert_eq!(client.receive().unwrap().opcode(), 0x31);
    let reject = client.receive().unwrap();
    assert_eq!((reject.opcode(), reject.header.0[2]), (0x3f, 0x07));
}

#[test]
fn endless_text_is_rejected() {
    let fixture = serve(Limits::default());
    let who = LoginParameters {
        discovery: true,
        ..LoginParameters::default()
    };
    let mut client = Client::log_in_as(fixture.address, &who);
    let mut transfer_tag = TAG_NONE;
    for _ in 0..100 {
        let mut header = Header::new(0x44);
        header.0[1] = 0x40;
        header.set_word(16, 1);
        header.set_word(20, transfer_tag);
        header.set_word(24, client.cmd_sn);
        client.send(header, &[b'A'; 1024]);
        let answer = client.receive().unwrap();
        if answer.opcode() == 0x3f {
            assert_eq!(answer.header.0[2], 0x04);
            return;
        }
        transfer_tag = answer.header.word(20);
    }
    panic!("text without end was taken");
}
