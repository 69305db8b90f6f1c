//! `watch drops`: packets that this process loses on purpose are found, with their addresses.

use std::net::UdpSocket;
use std::process::{Command, Stdio};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::Value;

/// Packets between two checks whether the command has exited.
const PACKETS: usize = 64;

#[test]
fn full_buffer_of_a_socket_is_reported_with_its_address() {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    set_socket_recv_buffer_size(&receiver, 2304).expect("a small buffer");
    let address = receiver.local_addr().expect("an address");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args([
            "watch",
            "drops",
            "--interval",
            "2",
            "--count",
            "1",
            "--all-sockets",
            "--json",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let process = command.id();
    // Packets are lost during the whole interval: its beginning cannot be observed.
    while command.try_wait().expect("its state").is_none() {
        for _ in 0..PACKETS {
            sender.send_to(&[0; 512], address).expect("a packet");
        }
        std::thread::yield_now();
    }
    let output = command.wait_with_output().expect("its output");
    assert!(output.status.success());
    let shown: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let losses = shown["losses"].as_array().expect("losses");
    let is_ours = |loss: &&Value| loss["local"] == address.to_string();
    let ours = losses
        .iter()
        .find(is_ours)
        .unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(ours["reason"], "receive_buffer_full");
    assert!(ours["count"].as_u64() > Some(0), "{ours}");
    let counters = losses.iter().filter(|loss| loss["layer"] == "protocol");
    let reasons: Vec<&Value> = counters.map(|loss| &loss["reason"]).collect();
    assert!(reasons.contains(&&Value::from("RcvbufErrors")), "{shown}");
    let instance = format!("/sys/kernel/tracing/instances/bulkhead-drops-{process}");
    assert!(!std::path::Path::new(&instance).exists());
}

#[test]
fn unknown_interface_is_refused_with_the_known_ones() {
    let output = Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(["watch", "drops", "--interface", "none9", "--count", "1"])
        .output()
        .expect("the command runs");
    assert_eq!(output.status.code(), Some(3));
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(shown.contains("there is no interface none9"), "{shown}");
    assert!(shown.contains("the interfaces of this host are"), "{shown}");
}
