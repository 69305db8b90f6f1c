//! The pool server from outside: starts, crashes, stops, and changes under running clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::common::nbd::Nbd;
use crate::common::{TestHost, eventually};

/// One of several snapshots fails, when space for another was reserved already.
#[test]
fn multi_snapshot_is_all_or_nothing() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    for volume in ["first", "second"] {
        machine.ok(&format!("volume create tank/{volume} --size 16M"));
    }
    let server = machine.serve("");
    machine.ok("snapshot create tank/second@now");
    // By now no other change is in a transaction group.
    for _ in 0..3 {
        machine.refused(
            "snapshot create tank/first@now tank/second@now",
            4,
            "snapshot tank/second@now: it exists already",
        );
    }
    let list = machine.ok("snapshot list tank --json").json();
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
    assert_eq!(server.stop(), 0);
}

/// The pool does not even exist: it has not been looked up yet.
#[test]
fn invalid_tls_file_is_detected_before_pool_access() {
    let machine = TestHost::with_disks(&[]);
    let (cert, key) = (machine.path("cert.pem"), machine.path("key.pem"));
    let words = format!(
        "pool-server tank --iscsi 127.0.0.1:0 --no-nbd --nbd-tls-cert {} --nbd-tls-key {}",
        cert.display(),
        key.display()
    );
    machine.refused(&words, 2, "cert.pem");
    std::fs::write(&cert, "no certificate").expect("written");
    machine.refused(&words, 2, "BEGIN CERTIFICATE");
    machine.refused(&words, 2, "--nbd-tls-cert");
}

#[test]
fn missing_listen_address_is_reported() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("--iscsi 192.0.2.1:0 --iscsi [2001:db8::1]:0");
    let log = machine.log();
    for address in ["192.0.2.1", "2001:db8::1"] {
        let told = log
            .lines()
            .find(|line| line.contains(&format!("address={address}")));
        let told = told.unwrap_or_else(|| panic!("{address}: {log}"));
        assert!(
            told.contains("WARN") && told.contains("does not have"),
            "{told}"
        );
    }
    assert!(!log.contains("address=127.0.0.1 "), "{log}");
    assert_eq!(server.stop(), 0);
}

/// A lack of descriptors in the engine terminates the server. So clients share the rest, and are distinguished from
/// peers that only connect.
#[test]
fn unauthenticated_peers_do_not_exhaust_descriptors() {
    let machine = TestHost::with_exported_volume();
    let _server = machine.serve_with("--nbd 127.0.0.1:0", |command| {
        let mut limited = machine.command_of("prlimit", "--nofile=512:2048");
        limited.arg(command.get_program()).args(command.get_args());
        let log = std::fs::File::options()
            .append(true)
            .open(machine.path("log"));
        limited.stdout(std::process::Stdio::piped());
        limited.stderr(log.expect("a log"));
        *command = limited;
    });
    let log = machine.log();
    assert!(log.contains("fewer connections are taken"), "{log}");
    let address = machine.nbd_listener("127.0.0.1");
    let mut strangers = Vec::new();
    for _ in 0..700 {
        strangers.extend(std::net::TcpStream::connect(&address));
    }
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[1; 4096]).expect("written");
    client.flush().expect("flushed");
    machine.ok("snapshot create tank/v@now");
    drop(strangers);
}

#[test]
fn flushed_data_survives_kill_9_and_restart_is_automatic() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(12_345, &[7; 54_321]).expect("written");
    client.flush().expect("flushed");
    server.kill();

    let server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    assert_eq!(client.read(12_345, 54_321).expect("read"), [7; 54_321]);
    assert_eq!(client.read(0, 12_345).expect("read"), [0; 12_345]);
    let status = machine.ok("status --json").json();
    assert!(status[0]["server"]["first_read_after_ms"].is_u64());
    drop(client);
    assert_eq!(server.stop(), 0, "{}", machine.log());
    assert_eq!(
        machine.ok("pool list --json").json()[0]["state"],
        "exported"
    );
}

#[test]
fn unrelated_changes_do_not_affect_a_connection() {
    let machine = TestHost::with_exported_volume();
    let _server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[1; 4096]).expect("written");
    machine.ok("volume create tank/w --size 16M --sparse");
    machine.ok("nbd export tank/w --name w");
    let mut other = Nbd::connect(&machine.nbd_socket(), "w").expect("served at once");
    machine.ok("volume rename tank/v tank/moved");
    machine.ok("volume resize tank/moved --size 64M");
    machine.ok("snapshot create tank/moved@s");
    machine.refused("nbd unexport tank/w", 5, "tank/w is in use by NBD client");
    assert_eq!(other.read(0, 512).expect("still served").len(), 512);
    machine.ok("nbd unexport tank/w --in-use");
    assert!(other.read(0, 512).is_err(), "an ended export is closed");
    machine.ok("volume destroy tank/w --yes-destroy-data");
    assert_eq!(client.read(0, 4096).expect("still served"), [1; 4096]);
    let resized = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    assert_eq!(resized.size, 64 << 20);
    machine.refused("volume destroy tank/moved --yes-destroy-data", 5, "moved@s");
    machine.refused(
        "volume destroy tank/moved --yes-destroy-data --recursive",
        5,
        "is exported, and in use by NBD client",
    );
    machine.ok("volume destroy tank/moved --yes-destroy-data --recursive --exported");
    assert!(client.read(0, 512).is_err(), "closed, not answered");
}

/// Any process with access to the control socket can send any request. A name that the pool cannot have is refused, and
/// has no later effect.
#[test]
fn request_for_another_pool_is_refused_without_effect() {
    let machine = TestHost::with_exported_volume();
    let _server = machine.serve("");
    let socket = machine.path("run").join("tank.sock");
    let mut client = control::Client::connect(&socket).expect("connected");
    let deep = format!("tank/{}", ["d"; 60].join("/"));
    for name in ["other/v", "tank/missing/v", "tank/v/v", &deep] {
        let request = serde_json::json!({"volume": {"create": {
            "name": name, "size": 1 << 20, "block_size": null, "sparse": true, "properties": {},
            "parents": false, "exist_ok": false,
        }}});
        let request = serde_json::from_value(request).expect("a request");
        assert!(client.call(request, &mut |_| ()).is_err(), "{name}");
    }
    machine.ok("snapshot schedule set tank --hourly 2");
    machine.ok("volume key status tank");
    machine.ok("volume resize tank/v --size 64M");
    machine.ok("target list");
    machine.ok("volume create tank/w --size 1M --sparse");
    assert_eq!(machine.ok("status --json").json()[0]["volume_count"], 2);
    machine.ok("volume destroy tank/w --yes-destroy-data");
    assert_eq!(machine.ok("status --json").json()[0]["volume_count"], 1);
}

/// All maps of a target and the target itself change in one transaction group.
#[test]
fn target_destroy_is_atomic_under_kill() {
    const TARGET: &str = "iqn.2026-01.org.example:whole";
    const VOLUMES: usize = 4;
    let machine = TestHost::with_exported_volume();
    let units = || {
        let targets = machine.ok("target list --json").json();
        let targets = targets.as_array().expect("a list").clone();
        let found = targets.iter().find(|target| target["name"] == TARGET);
        found.map(|target| target["units"].as_array().expect("units").len())
    };
    let mut server = machine.serve("");
    for number in 0..VOLUMES {
        machine.ok(&format!("volume create tank/t{number} --size 1M --sparse"));
    }
    for round in 0..6 {
        if units().is_none() {
            machine.ok(&format!("target create {TARGET}"));
            assert_eq!(units(), Some(0), "no map outlived the target");
            for number in 0..VOLUMES {
                machine.ok(&format!("target map {TARGET} tank/t{number}"));
            }
        }
        let mut destroy = machine.command(&format!("target destroy {TARGET} --mapped"));
        let mut destroy = destroy.spawn().expect("started");
        // No synchronisation: the kill shall hit different steps.
        std::thread::sleep(std::time::Duration::from_millis(4 * round));
        server.kill();
        let told = destroy.wait().expect("ended").success();
        server = machine.serve("");
        if let Some(left) = units() {
            assert!(!told && left == VOLUMES, "{left} units are left");
        }
    }
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn export_ends_server_and_destroy_removes_pool() {
    let machine = TestHost::with_exported_volume();
    let mut server = machine.serve("");
    machine.ok("pool export tank");
    assert_eq!(server.wait(), 0, "{}", machine.log());
    assert_eq!(
        machine.ok("pool export tank --json").json()["changed"],
        false
    );
    let mut server = machine.serve("");
    machine.ok("pool destroy tank --yes-destroy-all-data");
    assert_eq!(server.wait(), 0, "{}", machine.log());
    assert_eq!(machine.ok("pool list --json").json(), serde_json::json!([]));
}

#[test]
fn second_owner_and_used_port_are_refused() {
    let machine = TestHost::with_exported_volume();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let busy = format!("pool-server tank --no-nbd --iscsi 127.0.0.1:{port}");
    machine.refused(&busy, 5, "in use by another process");
    let _server = machine.serve("");
    machine.refused("pool-server tank --no-nbd --no-iscsi", 5, "served already");
    // Another run directory hides the socket, but not the locks on the devices.
    machine.refused("pool status tank --run-dir elsewhere", 5, "in use by");
    let (a, b) = (machine.path("a"), machine.path("b"));
    let create = format!("pool create other mirror {} {}", a.display(), b.display());
    machine.refused(&format!("{create} --overwrite-old-labels"), 5, "in use");
    assert!(Nbd::connect(&machine.nbd_socket(), "v").is_ok());
}

#[test]
fn pool_of_other_host_needs_owner_stopped_confirmation() {
    let machine = TestHost::with_exported_volume();
    machine.serve("--host-id 00000001").kill();
    machine.refused(
        "volume list tank --host-id 00000002",
        6,
        "--previous-owner-is-stopped",
    );
    machine.refused("pool import tank --host-id 00000002", 6, "00000001");
    machine.ok("pool import tank --host-id 00000002 --previous-owner-is-stopped");
    machine.ok("volume list tank --host-id 00000003");
}

/// With a server and without one; read-only commands are not recorded.
#[test]
fn changes_by_command_are_audited_with_user() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/alone --size 8M --sparse");
    let server = machine.serve("");
    machine.ok("volume create tank/served --size 8M --sparse");
    machine.ok("volume list tank");
    machine.refused("volume destroy tank/none --yes-destroy-data", 3, "");
    assert_eq!(server.stop(), 0);
    let log = std::fs::read_to_string(machine.path("state/audit.log")).expect("a log");
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            (
                line["what"].as_str().expect("a verb"),
                line["outcome"].as_str().expect("a word"),
            )
        })
        .collect();
    let wanted = [
        ("pool.create", "done"),
        ("volume.create", "done"),
        ("volume.create", "done"),
        ("volume.destroy", "not_found"),
    ];
    assert_eq!(told, wanted, "{log}");
    for line in lines {
        let from = line["from"].as_str().expect("a process");
        assert!(from.contains("(bulkhead)"), "{log}");
        assert!(
            line["who"].as_str().is_some_and(|who| !who.is_empty()),
            "{log}"
        );
    }
}

/// The command merges the files of the head and of commands, and names objects and changes.
#[test]
fn audit_command_finds_changes_by_object_user_and_time() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    let server = machine.serve("");
    machine.ok("volume create tank/vms/a --size 8M --sparse --parents");
    machine.ok("volume resize tank/vms/a --size 16M");
    machine.ok("volume create tank/other --size 8M --sparse");
    machine.ok("volume destroy tank/vms/a --yes-destroy-data");
    assert_eq!(server.stop(), 0);
    std::fs::write(machine.path("password"), "a long enough password\n").expect("written");
    machine.ok("user add anna --role admin --password-file password --head-dir accounts");

    let found = |words: &str| -> Vec<String> {
        let log = machine.ok(&format!("audit --head-dir accounts --json {words}"));
        let log = log.json();
        let entries = log.as_array().expect("an array");
        let word = |entry: &serde_json::Value| entry["what"].as_str().expect("a verb").to_owned();
        entries.iter().map(word).collect()
    };
    let of_vms = ["volume.destroy", "volume.resize", "volume.create"];
    assert_eq!(found("--object tank/vms"), of_vms);
    assert_eq!(found("--object */a"), of_vms);
    assert_eq!(found("--object tank/v"), [""; 0]);
    assert_eq!(found("--limit 2"), ["user.add", "volume.destroy"]);
    assert_eq!(found("--since 0s --user no-such-user"), [""; 0]);
    let shown = machine
        .ok("audit --head-dir accounts --object tank/vms/a")
        .out;
    assert!(shown.contains("tank/vms/a size 16M"), "{shown}");
    assert!(shown.starts_with("TIME (UTC)"), "{shown}");
}

/// One command from nothing to the commands of the client; repeated, it changes nothing.
#[test]
fn target_export_creates_volume_target_unit_and_access() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.refused(
        "target export tank/vms/vm1 --everyone",
        7,
        "pool-server tank",
    );
    let server = machine.serve("");
    let export = "target export tank/vms/vm1 --size 8M --sparse --network 10.77.1.0/24 \
                  --target iqn.2026-01.org.example:vm1";
    machine.refused("target export tank/vms/vm1 --size 8M", 2, "--everyone");
    machine.refused("target export tank/none --everyone", 3, "tank/none");
    for _ in 0..2 {
        let told = machine.ok(&format!("{export} --json")).json();
        assert_eq!(told["lun"], 0, "{told}");
        let commands = told["client_commands"].as_array().expect("an array");
        let portal = told["portals"][0].as_str().expect("an address");
        let discovery = format!("iscsiadm -m discovery -t sendtargets -p {portal}");
        assert_eq!(commands[0], discovery, "{told}");
    }
    let shown = machine
        .ok("target show iqn.2026-01.org.example:vm1 --json")
        .json();
    assert_eq!(shown["units"][0]["volume"], "tank/vms/vm1", "{shown}");
    assert_eq!(shown["access"]["networks"][0], "10.77.1.0/24", "{shown}");
    let text = machine.ok(export).out;
    assert!(text.contains("--login"), "{text}");
    assert!(text.contains("listens on this host only"), "{text}");
    assert_eq!(server.stop(), 0);
}

/// Clears the pool until it resumes; reports the last state if it does not.
fn resume(machine: &TestHost) {
    let deadline = Instant::now() + crate::common::SERVER_WAIT;
    loop {
        let cleared = machine.run("pool clear tank");
        let status = machine.ok("status tank --json");
        if cleared.code == 0 && status.json()["pool"]["suspended"] == false {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "the pool does not resume: clear ended with {} {}\n{}\n{}",
            cleared.code,
            cleared.err,
            status.out,
            machine.log()
        );
    }
}

#[test]
fn pool_without_devices_reports_suspension_and_resumes() {
    let machine = TestHost::with_exported_volume();
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    let (a, b) = (machine.path("a"), machine.path("b"));
    // Not their flushes: a server exits when a device that it cannot do without has failed one.
    let both = format!("{} write=eio\n{} write=eio\n", a.display(), b.display());
    std::fs::write(&faults, both).expect("written");
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    // Writes until the pool has resumed: whenever the fault occurs, it hits a write.
    let writer = std::thread::spawn(move || -> std::io::Result<()> {
        while !end.load(Ordering::Acquire) {
            client.write(0, &[3; 65_536])?;
            client.flush()?;
        }
        Ok(())
    });
    eventually("the pool is suspended", || {
        machine.ok("status tank --json").json()["pool"]["suspended"] == true
    });
    eventually("it is logged", || {
        machine.log().contains("the pool is suspended")
    });
    std::fs::write(&faults, "").expect("written");
    // With one of them alone the pool would be restarted, which terminates this server.
    eventually("both devices work again", || {
        machine.log().matches("works again").count() == 2
    });
    resume(&machine);
    ended.store(true, Ordering::Release);
    let written = writer.join().expect("no panic");
    assert!(
        written.is_ok(),
        "the write waited and was completed: {written:?}"
    );
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn server_of_suspended_pool_stops_and_next_recovers() {
    let machine = TestHost::with_exported_volume();
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[5; 4096]).expect("written");
    client.flush().expect("flushed");
    let (a, b) = (machine.path("a"), machine.path("b"));
    // A failed read is reported to the client; a write is blocked on the devices.
    let dead = "write=eio flush=eio";
    let both = format!("{} {dead}\n{} {dead}\n", a.display(), b.display());
    std::fs::write(&faults, both).expect("written");
    let writer = std::thread::spawn(move || -> std::io::Error {
        loop {
            let written = client.write(8192, &[6; 4096]);
            if let Err(error) = written.and_then(|()| client.flush()) {
                return error;
            }
        }
    });
    eventually("the pool is suspended", || {
        assert!(
            !writer.is_finished(),
            "the write is blocked: {}",
            machine.log()
        );
        machine.ok("status tank --json").json()["pool"]["suspended"] == true
    });
    assert_eq!(server.stop(), 8, "{}", machine.log());
    let lost = writer.join().expect("no panic");
    assert_ne!(
        lost.raw_os_error(),
        Some(5),
        "a lost session, not an I/O error"
    );
    let server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    assert_eq!(client.read(0, 4096).expect("read"), [5; 4096]);
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// No change is blocked on devices that an administrator must restore, and the exit of the server reports its result.
#[test]
fn suspended_pool_refuses_changes_and_reports_export_result() {
    let machine = TestHost::with_exported_volume();
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let mut server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    let (a, b) = (machine.path("a"), machine.path("b"));
    let both = format!("{} write=eio\n{} write=eio\n", a.display(), b.display());
    std::fs::write(&faults, both).expect("written");
    let writer = std::thread::spawn(move || {
        while client
            .write(8192, &[6; 4096])
            .and_then(|()| client.flush())
            .is_ok()
        {}
    });
    eventually("the pool is suspended", || {
        machine.ok("status tank --json").json()["pool"]["suspended"] == true
    });
    for change in [
        "volume create --size 1M tank/new",
        "volume destroy tank/v --exported --yes-destroy-data",
        "snapshot create tank/v@now",
        "filesystem create tank/files",
        "nbd unexport tank/v",
        "pool set tank comment=x",
        "pool scrub tank",
    ] {
        let refused = machine.run(change);
        assert_eq!(refused.code, 8, "{change}: {}", refused.err);
    }
    let refused = machine.run("snapshot create tank/v@now");
    assert!(
        refused.err.contains("all I/O is blocked") && refused.err.contains("since 20"),
        "{}",
        refused.err
    );
    let status = machine.ok("status tank --json").json();
    let since = status["pool"]["writes_wait"]["since"].as_u64();
    assert!(since.is_some_and(|since| since > 1_600_000_000), "{status}");
    assert!(machine.ok("pool status tank").out.contains(", since 20"));
    let ended = machine.run("pool export tank --in-use");
    assert_eq!(ended.code, 8, "{}", ended.err);
    assert!(
        ended.err.contains("exited, but could not export the pool"),
        "{}",
        ended.err
    );
    let status = server.child.wait().expect("a child of ours");
    assert_eq!(status.code(), Some(8), "{}", machine.log());
    writer.join().expect("no panic");
    let server = machine.serve("");
    assert_eq!(server.stop(), 0);
}

/// The error must not recommend to stop the server of a pool for a device that the pool uses.
#[test]
fn device_of_served_pool_is_refused_with_pool_name() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    let refused = machine.run(&format!(
        "pool create other {}",
        machine.path("a").display()
    ));
    assert_eq!(refused.code, 5, "{}", refused.err);
    let told = &refused.err;
    assert!(
        told.contains("pool tank") && !told.contains("stop"),
        "{told}"
    );
    assert_eq!(server.stop(), 0);
}

/// The second leg is the last one when it fails a flush: its contents are uncertain.
#[test]
fn server_exits_after_flush_failure_of_last_device() {
    let machine = TestHost::with_exported_volume();
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let mut server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[5; 4096]).expect("written");
    client.flush().expect("flushed");
    let (a, b) = (machine.path("a"), machine.path("b"));
    let both = format!("{} flush=eio\n{} flush=eio\n", a.display(), b.display());
    std::fs::write(&faults, both).expect("written");
    eventually("the server obeys", || {
        machine.log().matches("device fails on command").count() == 2
    });
    let writer = std::thread::spawn(move || -> std::io::Result<()> {
        client.write(8192, &[6; 4096])?;
        client.flush()
    });
    eventually("the pool is suspended", || {
        assert!(
            !writer.is_finished(),
            "nothing is durable: {}",
            machine.log()
        );
        machine.ok("status tank --json").json()["pool"]["suspended"] == true
    });
    std::fs::write(&faults, "").expect("written");
    let status = server.child.wait().expect("a child of ours");
    assert_eq!(status.code(), Some(8), "{}", machine.log());
    assert!(
        machine.log().contains("start it again"),
        "{}",
        machine.log()
    );
    let lost = writer.join().expect("no panic").expect_err("not durable");
    assert_ne!(lost.raw_os_error(), Some(5), "a lost session, no error");
    let server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    assert_eq!(client.read(0, 4096).expect("read"), [5; 4096]);
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// Replaces sectors of a disk that are filled with one byte by another; returns their number.
fn refill(disk: &std::path::Path, from: u8, to: u8) -> usize {
    use std::os::unix::fs::FileExt;
    let bytes = std::fs::read(disk).expect("read the disk");
    let file = std::fs::OpenOptions::new().write(true).open(disk);
    let file = file.expect("open the disk");
    let sectors = bytes.chunks_exact(4096).enumerate();
    let filled = sectors.filter(|(_, sector)| sector.iter().all(|byte| *byte == from));
    let places: Vec<usize> = filled.map(|(place, _)| place).collect();
    for place in &places {
        let written = file.write_all_at(&[to; 4096], *place as u64 * 4096);
        written.expect("written");
    }
    places.len()
}

/// The log changes a part of a block that cannot be read: the acknowledged write cannot be shown yet.
#[test]
fn volume_with_unreplayable_log_is_not_served() {
    const OLD: u8 = 0xa7;
    let machine = TestHost::with_exported_volume();
    machine.ok("volume set tank/v compression=off");
    let server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[OLD; 16_384]).expect("written");
    // Blocks until the transaction group is written.
    machine.ok("snapshot create tank/v@before");
    // The first block of a log is written with a transaction group.
    client.write(1 << 20, &[2; 4096]).expect("written");
    client.flush().expect("flushed");
    client.write(4096, &[1; 4096]).expect("written");
    client.flush().expect("flushed");
    server.kill();
    for disk in ["a", "b"] {
        assert_eq!(refill(&machine.path(disk), OLD, 0xff), 4, "one block");
    }

    let server = machine.serve("");
    eventually("it is told", || {
        let told = machine.ok("pool events tank").out;
        told.contains("the intent log of tank/v cannot be replayed")
    });
    let client = Nbd::connect(&machine.nbd_socket(), "v");
    let read = client.and_then(|mut client| client.read(0, 4096));
    assert!(read.is_err(), "older contents were served");
    let word = "yes-lose-acknowledged-writes";
    machine.refused("volume discard-log tank/v", 6, word);
    for disk in ["a", "b"] {
        assert_eq!(refill(&machine.path(disk), 0xff, OLD), 4);
    }
    eventually("it is replayed", || {
        let told = machine.ok("pool events tank").out;
        told.contains("the intent log of tank/v is replayed")
    });
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    assert_eq!(client.read(4096, 4096).expect("read"), [1; 4096]);
    assert_eq!(client.read(0, 4096).expect("read"), [OLD; 4096]);
    drop(client);
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn signal_reloads_exports() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    let pid = server.child.id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-HUP", &pid])
        .status();
    assert!(sent.expect("kill runs").success());
    machine.ok("status tank");
    assert_eq!(server.stop(), 0);
}

/// A command reports it soon, instead of waiting as long as work may take.
#[test]
fn hung_server_is_reported_and_responds_after_resuming() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    let pid = nix::unistd::Pid::from_raw(server.child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).expect("stopped");
    machine.refused("status", 7, "talk to the server");
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).expect("continued");
    assert!(machine.ok("status --json").json()[0]["server"]["pid"].is_u64());
}

/// The log is often the only trace of such an exit.
#[test]
fn segfault_is_logged_with_address_and_ends_server() {
    let machine = TestHost::with_exported_volume();
    let mut server = machine.serve("");
    let pid = nix::unistd::Pid::from_raw(server.child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSEGV).expect("sent");
    let status = server.child.wait().expect("a child of ours");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(11)
    );
    let log = machine.log();
    let (_, words) = log.split_once("a fault ends this process").expect("said");
    // A signal from outside can be delivered to any of its threads.
    let thread = words.strip_prefix("; please report it with what follows (thread ");
    let name = thread.and_then(|rest| rest.split(')').next());
    assert!(name.is_some_and(|name| !name.is_empty()), "{words}");
    // The binary's own code, and its callers.
    let frames = words.lines().filter(|line| line.ends_with(']'));
    assert!(frames.count() >= 4, "{words}");
    assert_eq!(machine.serve("").stop(), 0);
}

/// An assertion of the library and a panic end a server as this signal does.
#[test]
fn crash_is_reported_by_the_next_server_and_leaves_no_core() {
    let machine = TestHost::with_exported_volume();
    let mut server = machine.serve("");
    let limits =
        std::fs::read_to_string(format!("/proc/{}/limits", server.child.id())).expect("read");
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let soft = core.and_then(|line| line.split_whitespace().nth(4));
    assert!(matches!(soft, Some("0" | "1")), "{core:?}");
    server.signal("-ABRT");
    server.wait();
    assert!(
        machine.log().contains("a fault ends this process"),
        "{}",
        machine.log()
    );

    let server = machine.serve("");
    let wanted = "the previous server crashed: SIGABRT in thread";
    let events = machine.ok("pool events tank").out;
    assert!(events.contains(wanted), "{events}");
    let status = machine.ok("pool status tank").out;
    assert!(
        status.contains("the previous server of tank crashed: SIGABRT"),
        "{status}"
    );
    let alerts = machine.ok("head alerts").out;
    assert!(
        alerts.contains("the previous server of tank crashed: SIGABRT"),
        "{alerts}"
    );
    assert_eq!(server.stop(), 0);

    // After an orderly end there is no event, and the warning remains for a day.
    let server = machine.serve("");
    let events = machine.ok("pool events tank").out;
    assert_eq!(events.matches(wanted).count(), 1, "{events}");
    let status = machine.ok("pool status tank").out;
    assert!(status.contains("crashed: SIGABRT"), "{status}");
    assert_eq!(server.stop(), 0);
}
