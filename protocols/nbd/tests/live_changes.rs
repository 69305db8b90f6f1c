//! Changes of a running server, and its end.

mod support;

use std::sync::Arc;
use std::time::Instant;

use block_device::{MemoryDevice, SharedDevice};
use nbd::{Access, ApplyError, Drained, Farewell};
use serving::ListenAddress;
use storage_faults::{Fault, FaultyDevice, Operation};
use support::*;

const SIZE: u64 = 1 << 20;

fn memory() -> SharedDevice {
    Arc::new(MemoryDevice::new(SIZE, 512))
}

#[test]
fn reapplied_state_is_a_no_op_and_a_new_export_ends_no_session() {
    let (server, address) = serve(memory());
    let disk = server.status();
    let mut client = Client::ready(address, 0);
    let device = memory();
    let first = desired_state(vec![export("disk", Arc::clone(&device))]);
    assert_eq!(server.apply(first.clone()).unwrap().added, ["disk"]);
    // The device is a different one: the session is closed.
    assert!(client.rest().is_empty());
    assert_eq!(server.apply(first).unwrap(), Default::default());
    assert_eq!(server.status().listeners, disk.listeners);

    let mut client = Client::ready(address, 0);
    let mut described = export("disk", device);
    described.description = "another description".to_owned();
    let applied = server
        .apply(desired_state(vec![described, export("more", memory())]))
        .unwrap();
    assert_eq!(
        (applied.added, applied.changed),
        (vec!["more".to_owned()], vec!["disk".to_owned()])
    );
    client.request(0, 0, 1, 0, 512);
    assert_eq!(client.simple(), (0, 1));
    assert_eq!(server.status().exports.len(), 2);
}

#[test]
fn a_removed_export_and_a_stricter_rule_end_their_sessions_only() {
    let (server, address) = serve(memory());
    let (kept, gone) = (memory(), memory());
    let names = |names: &[(&str, &SharedDevice)]| {
        desired_state(
            names
                .iter()
                .map(|(name, device)| export(name, Arc::clone(device)))
                .collect(),
        )
    };
    server
        .apply(names(&[("disk", &kept), ("gone", &gone)]))
        .unwrap();
    let mut kept_client = Client::ready(address, 0);
    let mut gone_client = Client::greeted(address);
    assert_eq!(gone_client.option(7, b"\0\0\0\x04gone\0\0"), 1);
    gone_client.request(0, 0, 1, 0, 512);
    assert_eq!(gone_client.simple(), (0, 1));
    gone_client.take(512);
    let applied = server.apply(names(&[("disk", &kept)])).unwrap();
    assert_eq!(
        (applied.removed, applied.sessions_ended),
        (vec!["gone".to_owned()], 1)
    );
    assert!(gone_client.rest().is_empty());
    kept_client.request(0, 0, 2, 0, 512);
    assert_eq!(kept_client.simple(), (0, 2));
    kept_client.take(512);

    let mut strict = export("disk", kept);
    strict.access = Access::Listed {
        networks: vec!["192.0.2.0/24".parse().unwrap()],
        identities: vec![],
    };
    assert_eq!(
        server
            .apply(desired_state(vec![strict]))
            .unwrap()
            .sessions_ended,
        1
    );
    assert!(kept_client.rest().is_empty());
    let mut refused = Client::greeted(address);
    assert_eq!(
        refused.option(7, b"\0\0\0\x04disk\0\0"),
        (1 << 31) + 6,
        "as if it did not exist"
    );
}

#[test]
fn failed_apply_changes_nothing() {
    let (server, address) = serve(memory());
    let twice = desired_state(vec![export("a", memory()), export("a", memory())]);
    assert!(matches!(
        server.apply(twice),
        Err(ApplyError::DuplicateExport { .. })
    ));
    let occupied = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut busy = desired_state(vec![export("other", memory())]);
    busy.listeners
        .push(occupied.local_addr().unwrap().to_string().parse().unwrap());
    assert!(matches!(server.apply(busy), Err(ApplyError::Listen(_))));
    Client::ready(address, 0);
    assert_eq!(server.status().exports[0].name, "disk");
}

#[test]
fn removed_listener_ends_only_its_own_sessions() {
    let device = memory();
    let (server, first) = serve(Arc::clone(&device));
    let mut client = Client::ready(first, 0);
    let mut both = desired_state(vec![export("disk", Arc::clone(&device))]);
    both.listeners.push("[::1]:0".parse().unwrap());
    let applied = server.apply(both.clone()).unwrap();
    assert_eq!((applied.listening.len(), applied.closed.len()), (1, 0));
    client.request(0, 0, 1, 0, 512);
    assert_eq!(client.simple(), (0, 1), "it notices nothing");
    client.take(512);
    let ListenAddress::Tcp(second) = applied.listening[0] else {
        panic!("no address of TCP");
    };
    let mut other = Client::ready(second, 0);
    let mut negotiating = Client::greeted(first);
    both.listeners.remove(0);
    let applied = server.apply(both).unwrap();
    assert_eq!((applied.closed.len(), applied.sessions_ended), (1, 1));
    assert!(std::net::TcpStream::connect(first).is_err());
    assert!(client.rest().is_empty(), "its way is closed");
    negotiating.send_option(1, b"disk");
    // It may receive the size of the export before the end of the connection.
    negotiating.rest();
    wait_until("only the other listener's session", || {
        server.sessions().len() == 1
    });
    other.request(0, 0, 1, 0, 512);
    assert_eq!(other.simple(), (0, 1));
}

/// Pending requests are completed; later ones are refused, or left to the next head.
#[test]
fn drain_finishes_pending_requests_and_sends_the_farewell() {
    for farewell in [Farewell::Shutdown, Farewell::HandOver] {
        let device = FaultyDevice::of_memory(SIZE);
        let (server, address) = serve(device.clone());
        let mut client = Client::ready(address, 0);
        device.set(Operation::Write, Fault::Hang);
        client.request(0, 1, 1, 0, 512);
        client.send(&[1; 512]);
        wait_until("the write arrives", || {
            device.hanging(Operation::Write) == 1
        });
        let deadline = Instant::now() + EVENT_TIMEOUT;
        let drained = std::thread::scope(|scope| {
            let draining = scope.spawn(|| server.drain(deadline, farewell));
            while std::net::TcpStream::connect(address).is_ok() {
                std::thread::yield_now();
            }
            client.request(0, 0, 2, 0, 512);
            device.set(Operation::Write, Fault::None);
            assert_eq!(client.simple(), (0, 1), "the write was under way");
            let rest = client.rest();
            // The late request may arrive before or after the last check of the input.
            let refused = [&b"\x67\x44\x66\x98\0\0\0\x6c"[..], &2_u64.to_be_bytes()].concat();
            let allowed = farewell == Farewell::Shutdown && rest == refused;
            assert!(rest.is_empty() || allowed, "{farewell:?}: {rest:?}");
            draining.join().unwrap()
        });
        assert_eq!(drained, Drained { dropped: 0 });
        assert!(matches!(
            server.apply(desired_state(vec![])),
            Err(ApplyError::Ended)
        ));
    }
}

#[test]
fn drop_all_closes_sessions_silently_with_a_hung_device() {
    let device = FaultyDevice::of_memory(SIZE);
    let (server, address) = serve(device.clone());
    let mut client = Client::ready(address, 0);
    device.set(Operation::Read, Fault::Hang);
    client.request(0, 0, 1, 0, 512);
    wait_until("the read hangs", || device.hanging(Operation::Read) == 1);
    // It returns while the device still hangs.
    server.drop_all();
    assert!(client.rest().is_empty());
    device.set(Operation::Read, Fault::None);
}
