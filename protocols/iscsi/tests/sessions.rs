//! Sessions of RFC 7143: reinstatement, several connections, text negotiation, logout, task
//! management, and changes at run time.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use block_device::MemoryDevice;
use common::*;
use iscsi::protocol::header::{Header, TAG_NONE};
use iscsi::{Access, Chap, Credentials, DesiredState, DesiredTarget, Initiators, Limits, Secret};

fn second_isid() -> LoginParameters {
    LoginParameters {
        isid: 2,
        ..LoginParameters::default()
    }
}

fn logout(reason: u8, cid: u16, cmd_sn: u32) -> Header {
    let mut header = Header::new(0x46);
    header.0[1] = 0x80 | reason;
    header.set_word(16, 0x99);
    header.set_half(20, cid);
    header.set_word(24, cmd_sn);
    header
}

#[test]
fn data_of_every_size_round_trips() {
    let fixture = serve(Limits::default());
    for (isid, keys) in [
        (1, "InitialR2T=Yes;ImmediateData=No;MaxBurstLength=8192"),
        (
            2,
            "InitialR2T=No;MaxRecvDataSegmentLength=1000;MaxBurstLength=65536",
        ),
        (
            3,
            "MaxRecvDataSegmentLength=262144;MaxBurstLength=1048576;MaxOutstandingR2T=1",
        ),
        (
            4,
            "HeaderDigest=CRC32C;DataDigest=CRC32C;MaxRecvDataSegmentLength=4096",
        ),
    ] {
        let who = LoginParameters {
            isid,
            keys: keys.to_owned(),
            ..LoginParameters::default()
        };
        let mut client = Client::log_in_as(fixture.address, &who);
        assert!(client.is_served());
        for blocks in [1, 7, 16, 128, 300, 511] {
            let salt = blocks + usize::from(isid);
            let data: Vec<u8> = (0..blocks * BLOCK)
                .map(|at| (at / 7 + salt) as u8)
                .collect();
            assert_eq!(client.write_blocks(5, &data), 0);
            assert!(client.read_blocks(5, data.len()) == data, "{blocks} {keys}");
        }
        client.send(logout(0, 0, client.cmd_sn), &[]);
        assert_eq!(client.receive().unwrap().opcode(), 0x26);
        assert!(client.is_dropped());
    }
}

#[test]
fn refused_write_responds_after_unsolicited_data() {
    let fixture = serve(Limits::default());
    let who = LoginParameters::with_keys("InitialR2T=No;ImmediateData=Yes");
    let mut client = Client::log_in_as(fixture.address, &who);
    assert!(client.is_served());
    let cdb = cdb_10(0x2a, u32::MAX, 2);
    client.send_command(9, &cdb, 0x20, 1024, &[3; BLOCK]);
    let header = ping(10, client.cmd_sn);
    client.send(header, &[]);
    assert_eq!(client.receive().unwrap().opcode(), 0x20, "not answered yet");
    let mut rest = Header::new(0x05);
    rest.0[1] = 0x80;
    rest.set_word(16, 9);
    rest.set_word(20, TAG_NONE);
    rest.set_word(40, BLOCK as u32);
    client.send(rest, &[4; BLOCK]);
    let answer = client.receive().unwrap();
    assert_eq!((answer.status(), answer.sense()), (2, (5, 0x21, 0)));
    assert!(client.is_served());
}

#[test]
fn residuals_are_reported_for_both_directions() {
    let (_fixture, mut client) = served_client();
    let residual = |pdu: &Pdu| (pdu.header.flags() & 0x06, pdu.header.word(44));
    let read = cdb_10(0x28, 0, 1);
    for (expected, data_bytes, flags, count) in [
        (0, 0, 4, 512),
        (200, 200, 4, 312),
        (512, 512, 0, 0),
        (1000, 512, 2, 488),
    ] {
        client.send_command(1, &read, 0xc0, expected, &[]);
        let answer = client.receive().unwrap();
        assert_eq!(answer.data.len(), data_bytes);
        assert_eq!(residual(&answer), (flags, count), "read of {expected}");
    }
    client.send_command(2, &cdb_10(0x2a, 0, 1), 0xa0, 1024, &[1; 1024]);
    assert_eq!(residual(&client.receive().unwrap()), (2, 512));
}

#[test]
fn busy_initiator_does_not_delay_the_drain() {
    let (fixture, client) = served_client();
    let stream = client.stream.try_clone().unwrap();
    let busy = std::thread::spawn(move || {
        let mut client = Client { stream, ..client };
        let mut tag = 0;
        loop {
            tag += 1;
            let mut bytes = ping(tag, client.cmd_sn).0.to_vec();
            bytes[0] |= 0x40;
            if std::io::Write::write_all(&mut client.stream, &bytes).is_err() {
                return;
            }
            if client.receive().is_none() {
                return;
            }
        }
    });
    let until = Instant::now() + Duration::from_millis(200);
    assert!(fixture.server.drain(until));
    busy.join().unwrap();
}

#[test]
fn a_new_login_of_the_same_port_replaces_the_old_session() {
    let fixture = serve(Limits::default());
    let mut old = Client::log_in(fixture.address);
    assert!(old.is_served());
    let mut other = Client::log_in_as(fixture.address, &second_isid());
    let mut new = Client::log_in(fixture.address);
    assert!(old.is_dropped());
    assert!(new.is_served());
    assert!(other.is_served());
    assert_eq!(fixture.server.status().sessions.len(), 2);
}

#[test]
fn commands_over_two_connections_are_executed_in_their_order() {
    let fixture = serve(Limits::default());
    let who = LoginParameters::with_keys("MaxConnections=4;InitialR2T=No");
    let mut one = Client::log_in_as(fixture.address, &who);
    assert!(one.text.contains("MaxConnections=4;"));
    assert!(one.is_served());
    let further = LoginParameters {
        tsih: one.tsih,
        cid: 1,
        cmd_sn: one.cmd_sn,
        keys: "MaxRecvDataSegmentLength=8192".to_owned(),
        ..LoginParameters::default()
    };
    let mut two = Client::log_in_as(fixture.address, &further);
    assert_eq!(two.tsih, one.tsih);
    // The read, numbered second, arrives before the write that it must see; its unsolicited sibling
    // write is held with its data.
    let first = one.cmd_sn;
    two.cmd_sn = first + 1;
    two.read_10(20, 8, 1);
    let cdb = cdb_10(0x2a, 9, 2);
    let header = two.command(21, &cdb, 0x20, 1024);
    two.send(header, &[3; BLOCK]);
    let mut unsolicited = Header::new(0x05);
    unsolicited.0[1] = 0x80;
    unsolicited.set_word(16, 21);
    unsolicited.set_word(20, TAG_NONE);
    unsolicited.set_word(40, BLOCK as u32);
    two.send(unsolicited, &[4; BLOCK]);
    let header = ping(22, two.cmd_sn);
    two.send(header, &[]);
    assert_eq!(two.receive().unwrap().opcode(), 0x20, "later ones are held");
    let cdb = cdb_10(0x2a, 8, 1);
    one.send_command(10, &cdb, 0xa0, 512, &[2; BLOCK]);
    assert_eq!(one.receive().unwrap().status(), 0);
    let answer = two.receive().unwrap();
    assert_eq!((answer.opcode(), &answer.data), (0x25, &vec![2; BLOCK]));
    assert_eq!(two.receive().unwrap().status(), 0);
    one.cmd_sn = first + 3;
    let data = one.read_blocks(9, 2 * BLOCK);
    assert_eq!((data[0], data[BLOCK]), (3, 4));
    // One connection logs out; the session continues with the other.
    two.send(logout(1, 1, one.cmd_sn), &[]);
    assert_eq!(two.receive().unwrap().opcode(), 0x26);
    assert!(two.is_dropped());
    assert!(one.is_served());
}

#[test]
fn broken_connection_ends_its_session() {
    let fixture = serve(Limits::default());
    let who = LoginParameters::with_keys("MaxConnections=2");
    let mut one = Client::log_in_as(fixture.address, &who);
    let further = LoginParameters {
        tsih: one.tsih,
        cid: 1,
        keys: String::new(),
        ..LoginParameters::default()
    };
    let two = Client::log_in_as(fixture.address, &further);
    let third = LoginParameters {
        cid: 2,
        ..further.clone()
    };
    let status = Client::connect(fixture.address).try_log_in(&third);
    assert_eq!(status, 0x0206, "too many connections");
    drop(two);
    assert!(one.is_dropped());
    wait_until("the session is gone", || {
        fixture.server.status().sessions.is_empty()
    });
    let status = Client::connect(fixture.address).try_log_in(&further);
    assert_eq!(status, 0x020a, "session does not exist");
}

#[test]
fn a_connection_with_the_same_id_replaces_the_old_one_in_its_session() {
    let fixture = serve(Limits::default());
    let mut old = Client::log_in(fixture.address);
    assert!(old.is_served());
    let again = LoginParameters {
        tsih: old.tsih,
        cmd_sn: old.cmd_sn,
        keys: String::new(),
        ..LoginParameters::default()
    };
    let mut new = Client::log_in_as(fixture.address, &again);
    assert_eq!(new.tsih, old.tsih);
    assert!(old.is_dropped());
    assert!(new.is_served());
}

#[test]
fn send_targets_is_split_to_the_initiator_segment_size() {
    let fixture = serve(Limits::default());
    let memory = || Arc::new(MemoryDevice::new(1 << 20, 512));
    let targets = (0..100)
        .map(|number| {
            let name = format!("iqn.2026-01.org.example:a-rather-long-name-{number:03}");
            target_desired(&target(&name, memory()))
        })
        .collect();
    fixture.server.apply(DesiredState {
        targets,
        portals: vec![portal_desired()],
        discovery: None,
    });
    let who = LoginParameters {
        discovery: true,
        keys: "MaxRecvDataSegmentLength=512".to_owned(),
        ..LoginParameters::default()
    };
    let mut client = Client::log_in_as(fixture.address, &who);
    let (mut text, mut transfer_tag) = (Vec::new(), TAG_NONE);
    loop {
        let mut header = Header::new(0x44);
        header.0[1] = 0x80;
        header.set_word(16, 1);
        header.set_word(20, transfer_tag);
        header.set_word(24, client.cmd_sn);
        let question: &[u8] = if text.is_empty() {
            b"SendTargets=All\0"
        } else {
            b""
        };
        client.send(header, question);
        let answer = client.receive().unwrap();
        assert_eq!(answer.opcode(), 0x24);
        assert!(answer.data.len() <= 512);
        text.extend(answer.data);
        if answer.header.is_final() {
            break;
        }
        assert_eq!(answer.header.flags(), 0x40);
        transfer_tag = answer.header.word(20);
    }
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches("TargetName=").count(), 100);
    let portal = format!("TargetAddress={},1", fixture.address);
    assert_eq!(text.matches(&portal).count(), 100);
}

#[test]
fn aborted_write_gets_no_response_and_writes_no_data() {
    let (fixture, mut client) = served_client();
    client.write_10(9, 0, 1);
    let r2t = client.receive().unwrap();
    client.send(task_management(1, 50, client.cmd_sn, 9), &[]);
    let done = client.receive().unwrap();
    assert_eq!((done.opcode(), done.header.0[2]), (0x22, 0));
    client.data_out(&r2t, 0, 0, &[1; BLOCK], true);
    client.send(task_management(1, 51, client.cmd_sn, 9), &[]);
    let unknown = client.receive().unwrap();
    assert_eq!((unknown.opcode(), unknown.header.0[2]), (0x22, 1));
    assert_eq!(client.read_blocks(0, BLOCK), [0; BLOCK]);
    wait_until("all memory is free", || fixture.budget.bytes_used() == 0);
    for (function, response) in [(8, 4), (9, 5), (3, 5)] {
        client.send(task_management(function, 52, client.cmd_sn, 0), &[]);
        assert_eq!(client.receive().unwrap().header.0[2], response);
    }
}

#[test]
fn concurrent_durable_writes_all_complete() {
    let (fixture, mut client) = served_client();
    for round in 0..50 {
        for tag in 0..64 {
            let mut cdb = cdb_10(0x2a, tag, 1);
            cdb[1] = 0x08;
            client.send_command(round * 64 + tag, &cdb, 0xa0, 512, &[tag as u8; BLOCK]);
        }
        for _ in 0..64 {
            assert_eq!(client.receive().unwrap().status(), 0);
        }
    }
    assert!(fixture.server.status().counters.flushes >= 50 * 64);
}

#[test]
fn changed_desired_state_ends_only_denied_sessions() {
    let fixture = serve(Limits::default());
    let other = target(
        "iqn.2026-01.org.example:two",
        Arc::new(MemoryDevice::new(1 << 20, 512)),
    );
    let apply = |targets: Vec<DesiredTarget>| {
        fixture.server.apply(DesiredState {
            targets,
            portals: vec![portal_desired()],
            discovery: None,
        })
    };
    let port = fixture.address.port();
    apply(vec![
        target_desired(&fixture.target),
        target_desired(&other),
    ]);
    assert_eq!(
        fixture.server.portals()[0].0.port(),
        port,
        "the portal stays"
    );
    let mut one = Client::log_in(fixture.address);
    let to_other = LoginParameters {
        target: other.name().to_string(),
        ..LoginParameters::default()
    };
    let mut two = Client::log_in_as(fixture.address, &to_other);
    assert!(one.is_served() && two.is_served());

    let mut restricted = target_desired(&other);
    restricted.access = Access {
        initiators: Initiators::Listed(vec!["iqn.2026-01.org.example:else".parse().unwrap()]),
        ..Access::default()
    };
    let applied = apply(vec![target_desired(&fixture.target), restricted]);
    assert_eq!(applied.sessions_dropped, 1);
    assert!(two.is_dropped());
    assert!(one.is_served());
    let status = Client::connect(fixture.address).try_log_in(&to_other);
    assert_eq!(status, 0x0202);

    let mut secret = target_desired(&fixture.target);
    secret.access.chap = Some(user_with_secret());
    apply(vec![secret]);
    assert!(one.is_dropped(), "it did not prove the new secret");
    let status = Client::connect(fixture.address).try_log_in(&LoginParameters::default());
    assert_eq!(status, 0x0201);
    let status = Client::connect(fixture.address).try_log_in(&to_other);
    assert_eq!(status, 0x0203, "the other target is gone");
}

/// The rule is revoked, or gets another secret, during a login.
#[test]
fn login_started_before_a_rule_change_is_refused() {
    let fixture = serve(Limits::default());
    let denied = Access {
        initiators: Initiators::Listed(vec!["iqn.2026-01.org.example:else".parse().unwrap()]),
        ..Access::default()
    };
    let with_secret = Access {
        chap: Some(user_with_secret()),
        ..Access::default()
    };
    for access in [denied, with_secret] {
        let apply = |access: Access| {
            let mut desired = target_desired(&fixture.target);
            desired.access = access;
            fixture.server.apply(DesiredState {
                targets: vec![desired],
                portals: vec![portal_desired()],
                discovery: None,
            })
        };
        apply(target_desired(&fixture.target).access);
        let mut client = Client::connect(fixture.address);
        client.begin_log_in(&LoginParameters::default());
        apply(access);
        assert_eq!(client.continue_log_in(&LoginParameters::default()), 0x0202);
        assert!(client.is_dropped());
    }
    wait_until("no session is left", || {
        fixture.server.status().sessions.is_empty()
    });
}

fn user_with_secret() -> Chap {
    Chap {
        initiators: vec![Credentials {
            user: "user".to_owned(),
            secret: Secret::new(b"0123456789abcdef".to_vec()),
            initiators: Vec::new(),
        }],
        mutual: None,
    }
}

#[test]
fn new_discovery_secret_ends_only_discovery_sessions_without_it() {
    let (fixture, mut normal) = served_client();
    let ask_for = |discovery: Option<Chap>| {
        fixture.server.apply(DesiredState {
            targets: vec![target_desired(&fixture.target)],
            portals: vec![portal_desired()],
            discovery,
        })
    };
    let who = LoginParameters {
        discovery: true,
        keys: String::new(),
        ..second_isid()
    };
    let mut before = Client::log_in_as(fixture.address, &who);
    let mut begun = Client::connect(fixture.address);
    begun.begin_log_in(&who);
    assert_eq!(ask_for(Some(user_with_secret())).sessions_dropped, 1);
    assert!(before.is_dropped());
    wait_until("its session is gone", || {
        let sessions = fixture.server.status().sessions;
        sessions.iter().all(|session| session.target.is_some())
    });
    assert_eq!(begun.continue_log_in(&who), 0x0202);
    let mut after = Client::connect(fixture.address);
    assert_eq!(after.try_log_in(&who), 0x0201);
    assert!(after.is_dropped());
    // The same credentials again: an authenticated session remains.
    assert_eq!(ask_for(Some(user_with_secret())).sessions_dropped, 0);
    assert!(normal.is_served());
    assert!(Client::log_in_as(fixture.address, &second_isid()).is_served());
    assert_eq!(ask_for(None).sessions_dropped, 0);
    Client::log_in_as(fixture.address, &who);
}

#[test]
fn a_removed_portal_ends_its_connections_and_a_new_one_serves() {
    let fixture = serve(Limits::default());
    let mut old = Client::log_in(fixture.address);
    let mut other = portal_desired();
    other.group = 2;
    fixture.server.apply(DesiredState {
        targets: vec![target_desired(&fixture.target)],
        portals: vec![other],
        discovery: None,
    });
    assert!(old.is_dropped());
    let (address, group) = fixture.server.portals()[0];
    assert_eq!(group, 2);
    assert!(Client::log_in(address).is_served());
}

#[test]
fn announced_end_allows_immediate_reconnect_and_keeps_sessions() {
    let (fixture, mut client) = served_client();
    fixture.server.announce_end();
    let told = client.receive().unwrap();
    assert_eq!((told.opcode(), told.header.0[36]), (0x32, 3));
    // Time2Wait and Time2Retain, in seconds.
    assert_eq!(told.header.0[40..44], [0; 4]);
    assert!(client.is_served());
}

#[test]
fn drain_requests_logout_and_then_drops() {
    let fixture = serve(Limits::default());
    let mut polite = Client::log_in(fixture.address);
    let mut stubborn = Client::log_in_as(fixture.address, &second_isid());
    let clients = std::thread::spawn(move || {
        let logout_request = polite.receive().unwrap();
        assert_eq!(
            (logout_request.opcode(), logout_request.header.0[36]),
            (0x32, 1)
        );
        polite.send(logout(0, 0, polite.cmd_sn), &[]);
        assert_eq!(polite.receive().unwrap().opcode(), 0x26);
        let logout_request = stubborn.receive().unwrap();
        assert_eq!(
            (logout_request.opcode(), logout_request.header.0[36]),
            (0x32, 1)
        );
        let told = stubborn.receive().unwrap();
        assert_eq!((told.opcode(), told.header.0[36]), (0x32, 3));
        assert!(stubborn.is_dropped());
    });
    let ended = fixture
        .server
        .drain(Instant::now() + Duration::from_secs(3));
    assert!(ended);
    clients.join().unwrap();
}
