//! Portals of iSCSI and addresses of NBD are added and removed while a server runs: clients of other portals notice
//! nothing, and a failed change has no effect. Stock clients verify it; one that is not installed is reported, and its
//! part passes.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::nbd::Nbd;
use crate::common::tools::{certificates, installed, run, try_run};
use crate::common::{TestHost, eventually};

const TARGET: &str = "iqn.2026-01.org.example:tank";
/// A loopback address of its own, without conflicts with listeners at 127.0.0.1.
const NEW: &str = "127.0.0.77";

fn machine() -> TestHost {
    let machine = TestHost::with_exported_volume();
    machine.ok(&format!("target create {TARGET}"));
    machine.ok(&format!("target map {TARGET} tank/v"));
    machine
}

fn unit(portal: &str) -> String {
    format!("iscsi://{portal}/{TARGET}/0")
}

/// Returns the addresses of the server from `portal list`.
fn listed(machine: &TestHost) -> Vec<String> {
    let list = machine.ok("portal list tank --json").json();
    let all = list.as_array().expect("a list").iter();
    all.map(|one| format!("{} {} {}", one["protocol"], one["address"], one["group"]))
        .collect()
}

/// Returns the address that was assigned for port 0.
fn taken(machine: &TestHost, protocol: &str, address: &str) -> String {
    let list = machine.ok("portal list tank --json").json();
    let mut all = list.as_array().expect("a list").iter();
    let found = all.find_map(|one| {
        let text = one["address"].as_str()?;
        (one["protocol"] == protocol && text.starts_with(address)).then(|| text.to_owned())
    });
    found.unwrap_or_else(|| panic!("{protocol} at {address}: {list}"))
}

fn nbd_at(address: &str) -> Nbd<TcpStream> {
    let stream = TcpStream::connect(address).expect("connected");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a time-out");
    Nbd::over(stream, "v").expect("an export")
}

/// Returns whether qemu has iSCSI, which is a separate package.
fn qemu_speaks_iscsi() -> bool {
    installed("qemu-io")
        && String::from_utf8_lossy(&try_run("qemu-img", &["--help"]).stdout).contains(" iscsi")
}

/// Stops [`write_continuously`], even if the test fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Writes and reads back over `unit` until `stop`, round after round; returns the errors.
fn write_continuously(unit: &str, stop: &AtomicBool, rounds: &AtomicUsize) -> Vec<String> {
    let mut client = Command::new("qemu-io")
        .args(["-f", "raw", "-t", "none", unit])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("qemu-io runs");
    let mut words = client.stdin.take().expect("piped");
    let said = BufReader::new(client.stdout.take().expect("piped"));
    let mut wrong = Vec::new();
    let mut said = said.lines().map_while(Result::ok);
    while !stop.load(Ordering::Acquire) {
        let pattern = rounds.load(Ordering::Acquire) % 200 + 1;
        // It responds to each line before it reads the next.
        for command in ["write -f", "read"] {
            let asked = writeln!(words, "{command} -P {pattern} 0 64k");
            asked.expect("it still listens");
            let mut answer = said
                .by_ref()
                .take_while(|line| !line.contains("65536/65536 bytes"));
            wrong.extend(answer.find(|line| line.contains("ailed") || line.contains("rror")));
        }
        rounds.fetch_add(1, Ordering::AcqRel);
    }
    drop(words);
    assert!(client.wait().expect("a child of ours").success());
    wrong
}

#[test]
fn login_by_new_portal_while_old_portal_session_continues() {
    if !qemu_speaks_iscsi() || !installed("iscsi-ls") {
        return;
    }
    let machine = machine();
    let _server = machine.serve("");
    let old = machine.portal("127.0.0.1:");
    let (stop, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    let wrong = std::thread::scope(|scope| {
        let _stops = Stops(&stop);
        let writer = scope.spawn(|| write_continuously(&unit(&old), &stop, &rounds));
        let goes_on = || {
            let before = rounds.load(Ordering::Acquire);
            eventually("the old portal's client continues", || {
                assert!(!writer.is_finished(), "it ended");
                rounds.load(Ordering::Acquire) > before + 2
            });
        };
        goes_on();
        let said = machine
            .ok(&format!("portal add tank --iscsi {NEW}:0,7"))
            .out;
        assert!(
            said.contains(&format!("--iscsi {NEW}:")) && said.contains("until"),
            "{said}"
        );
        let new = taken(&machine, "iscsi", NEW);
        assert_eq!(machine.portal(NEW), new, "status shows it, too");
        for portal in [&old, &new] {
            let found = run("iscsi-ls", &["--show-luns", &format!("iscsi://{portal}")]);
            for shown in [&old, &new] {
                assert!(found.contains(shown.as_str()), "{shown} in {found}");
            }
        }
        let by_new = [
            "-f",
            "raw",
            "-t",
            "none",
            "-c",
            "write -P 9 4M 1M",
            "-c",
            "read -P 9 4M 1M",
        ];
        let output = run("qemu-io", &[&by_new[..], &[unit(&new).as_str()]].concat());
        assert!(!output.contains("failed"), "{output}");
        goes_on();
        machine.ok(&format!("portal remove tank --iscsi {new},7"));
        assert!(!try_run("iscsi-inq", &[&unit(&new)]).status.success());
        assert!(TcpStream::connect(&new).is_err(), "nobody listens there");
        // The last portal, with a client connected to it.
        machine.refused(
            &format!("portal remove tank --iscsi {old}"),
            5,
            "is in use by initiator",
        );
        goes_on();
        stop.store(true, Ordering::Release);
        writer.join().expect("no panic")
    });
    assert!(wrong.is_empty(), "{wrong:?}");
    eventually("it has logged out", || {
        machine
            .run(&format!("portal remove tank --iscsi {old}"))
            .code
            == 0
    });
    assert!(TcpStream::connect(&old).is_err(), "nobody listens there");
    let log = std::fs::read_to_string(machine.path("state/audit.log")).expect("a log");
    assert!(
        log.contains("portal.add") && log.contains("portal.remove"),
        "{log}"
    );
}

#[test]
fn forced_listener_removal_closes_only_its_connections() {
    let machine = machine();
    let server = machine.serve("");
    let mut other = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    let (socket, second) = (machine.nbd_socket(), machine.path("second.sock"));
    machine.ok(&format!(
        "portal add tank --nbd {NEW}:0 --nbd unix:second.sock"
    ));
    let address = taken(&machine, "nbd", NEW);
    let mut client = nbd_at(&address);
    let mut by_socket = Nbd::connect(&second, "v").expect("connected");
    client.write(0, &[5; 4096]).expect("written");
    let list = machine.ok("portal list tank").out;
    assert!(
        list.contains(&address) && list.contains("second.sock"),
        "{list}"
    );
    for gone in [&address, &format!("unix:{}", second.display())] {
        machine.refused(
            &format!("portal remove tank --nbd {gone}"),
            5,
            "in use by NBD client",
        );
    }
    assert_eq!(client.read(0, 4096).expect("still served"), [5; 4096]);
    machine.ok(&format!("portal remove tank --nbd {address} --in-use"));
    assert!(client.read(0, 512).is_err(), "its way is closed");
    assert_eq!(by_socket.read(0, 512).expect("still served").len(), 512);
    machine.ok("portal remove tank --nbd unix:second.sock --in-use");
    assert!(by_socket.read(0, 512).is_err() && !second.exists());
    assert_eq!(other.read(0, 4096).expect("still served"), [5; 4096]);
    assert!(socket.exists());
    let again = machine
        .ok(&format!("portal remove tank --nbd {address} --json"))
        .json();
    assert_eq!(again["changed"], false, "{again}");
    drop(other);
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn failed_portal_change_has_no_effect_and_gives_advice() {
    let machine = machine();
    let has_certificates = certificates(machine.directory.path());
    let tls = match has_certificates {
        true => "--nbd-tls-cert pki/server-cert.pem --nbd-tls-key pki/server-key.pem",
        false => "",
    };
    let _server = machine.serve(tls);
    let before = listed(&machine);
    let taken = TcpListener::bind((NEW, 0)).expect("a port");
    let taken = taken.local_addr().expect("an address");
    let old = machine.portal("127.0.0.1:");
    for (words, code, part) in [
        ("--iscsi 192.0.2.1:3260".to_owned(), 2, "--may-come"),
        (format!("--iscsi {taken}"), 5, "another process listens"),
        // None of several.
        (
            format!("--nbd 127.0.0.78:0 --nbd {taken}"),
            5,
            "another process listens",
        ),
        (format!("--iscsi {old},9"), 4, "already"),
        (
            format!(
                "--iscsi 0.0.0.0:{}",
                old.rsplit(':').next().expect("a port")
            ),
            4,
            "in the way",
        ),
        (
            // The portal was bound by then, and is released.
            "--iscsi 127.0.0.79:3999 --nbd unix:no/where".to_owned(),
            1,
            "no/where",
        ),
    ] {
        machine.refused(&format!("portal add tank {words}"), code, part);
        assert_eq!(listed(&machine), before, "{words}");
    }
    let given_back = TcpStream::connect("127.0.0.79:3999");
    assert!(given_back.is_err(), "nobody listens there");
    if has_certificates {
        std::fs::write(machine.path("pki/server-key.pem"), "no key").expect("written");
        machine.refused(
            &format!("portal add tank --nbd {NEW}:0"),
            2,
            "--nbd-tls-key",
        );
        assert_eq!(listed(&machine), before);
    }
}

#[test]
fn concurrent_portal_changes_are_serialized() {
    let machine = machine();
    let server = machine.serve("");
    std::thread::scope(|scope| {
        for number in 1..=8 {
            let machine = &machine;
            scope.spawn(move || {
                machine.ok(&format!(
                    "portal add tank --iscsi 127.0.0.{}:0 --nbd 127.0.0.{}:0",
                    80 + number,
                    80 + number
                ));
            });
        }
    });
    assert_eq!(listed(&machine).len(), 2 + 16);
    let words = (81..=88)
        .map(|number| format!(" --iscsi 127.0.0.{number}:0"))
        .collect::<String>();
    machine.ok("portal add tank --iscsi 192.0.2.1:3260 --may-come");
    let foreign = machine.ok("portal list tank").out;
    assert!(foreign.contains("this host does not have it"), "{foreign}");
    let set = machine.ok(&format!(
        "portal set tank{words} --nbd unix:{}",
        machine.nbd_socket().display()
    ));
    assert!(set.out.contains("no more at"), "{}", set.out);
    assert_eq!(listed(&machine).len(), 9);
    assert_eq!(server.stop(), 0, "{}", machine.log());
    machine.refused("portal list tank", 7, "no server of pool tank runs");
}

/// Long after it has dropped its unneeded privileges.
#[test]
fn confined_server_binds_low_ports_if_permitted() {
    let machine = machine();
    let _server = machine.serve("--claims locks");
    let said = machine.run(&format!("portal add tank --iscsi {NEW}:860,3"));
    let is_root = rustix::process::geteuid().is_root();
    match is_root {
        true => assert_eq!(said.code, 0, "{}", said.err),
        // Where the system permits low ports to all users.
        false if said.code == 0 => {}
        false => assert!(
            said.code == 10 && said.err.contains("CAP_NET_BIND_SERVICE"),
            "{}",
            said.err
        ),
    }
    if said.code == 0 {
        drop(TcpStream::connect((NEW, 860)).expect("it listens"));
    }
}

#[test]
fn absent_and_last_portal_removals_are_reported() {
    let machine = machine();
    let server = machine.serve("");
    let portal = machine.portal("127.0.0.1:");
    let absent = machine.ok("portal remove tank --iscsi 127.0.0.1:9").out;
    assert!(
        absent.contains("pool tank is not served at --iscsi 127.0.0.1:9"),
        "{absent}"
    );
    machine.ok(&format!("portal add tank --nbd {NEW}:0"));
    let listener = taken(&machine, "nbd", NEW);
    let part = machine
        .ok(&format!(
            "portal remove tank --nbd {listener} --nbd 127.0.0.1:9"
        ))
        .out;
    for said in [
        "is served no more at --nbd",
        "was not served at --nbd 127.0.0.1:9",
    ] {
        assert!(part.contains(said), "{part}");
    }
    assert!(!part.contains("no client"), "{part}");
    let last = machine.ok(&format!("portal remove tank --iscsi {portal}"));
    assert!(
        last.out
            .contains("no client can reach the pool by iSCSI any more: `bulkhead portal add tank"),
        "{}",
        last.out
    );
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn removing_last_portal_of_session_needs_confirmation() {
    const CLIENT: &str = "iscsi-perf";
    if !installed(CLIENT) {
        return;
    }
    let machine = machine();
    let server = machine.serve("");
    let portal = machine.portal("127.0.0.1:");
    let mut client = Command::new(CLIENT)
        .arg(unit(&portal))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let clients = || {
        let list = machine.ok("portal list tank --json").json();
        list[0]["clients"].as_u64().expect("a number")
    };
    eventually("it has logged in", || clients() > 0);
    machine.refused(
        &format!("portal remove tank --iscsi {portal}"),
        5,
        "--in-use",
    );
    assert_eq!(clients(), 1);
    machine.ok(&format!("portal remove tank --iscsi {portal} --in-use"));
    client.kill().expect("alive until now");
    client.wait().expect("a child of ours");
    assert_eq!(server.stop(), 0, "{}", machine.log());
}
