//! `bulkhead lab` from outside, with the real Corosync, Pacemaker and fence agents: it starts, its BMCs power heads off
//! and on, and nothing of it is left afterwards, whatever stopped it. Where this host cannot run a lab, the tests
//! report the reason and are skipped.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Exit code of `lab up` on a host that cannot run one.
pub(super) const EXIT_INCAPABLE: i32 = 15;
const EXIT_ERRORS: i32 = 12;
/// Exit code that shells report for an interrupted process.
const EXIT_INTERRUPTED: i32 = 130;
const EXIT_NOT_FOUND: i32 = 3;
const EXIT_EXISTS: i32 = 4;
const EXIT_UNAVAILABLE: i32 = 8;
/// Upper bound of every wait here.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(180);

/// A directory for labs, in which none is left when a test is done.
pub(super) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
        command
            .arg("lab")
            .args(words.split_whitespace())
            .env("BULKHEAD_LAB_DIR", self.path())
            .stdin(Stdio::null());
        command
    }

    pub(super) fn run(&self, words: &str) -> Output {
        self.command(words).output().expect("bulkhead runs")
    }

    pub(super) fn ok(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {}", output_text(&output));
        String::from_utf8(output.stdout).expect("text")
    }

    /// A pair with heads that tolerate the stalls of a busy host.
    fn file(&self) -> PathBuf {
        let path = self.path().join("pair.toml");
        let text = include_str!("../../../../examples/pair.toml").replace(
            "[quorum]",
            "[timeouts]\ntoken_ms = 3000\nconsensus_ms = 3600\ntakeover_budget_s = 30\n\n[quorum]",
        );
        std::fs::write(&path, text).expect("written");
        path
    }

    /// Starts a lab of this text of an appliance file; false where this host cannot, which is reported.
    pub(super) fn up_as(&self, text: &str, words: &str) -> bool {
        let path = self.path().join("pair.toml");
        std::fs::write(&path, text).expect("written");
        let output = self.run(&format!("up {} {words}", path.display()));
        if output.status.code() == Some(EXIT_INCAPABLE) {
            skip(&output_text(&output));
            return false;
        }
        assert!(output.status.success(), "{}", output_text(&output));
        true
    }

    /// Starts a lab; none where this host cannot, which is reported.
    fn up(&self, words: &str) -> Option<String> {
        let output = self.run(&format!("up {} {words}", self.file().display()));
        if output.status.code() == Some(EXIT_INCAPABLE) {
            skip(&output_text(&output));
            return None;
        }
        assert!(output.status.success(), "{}", output_text(&output));
        Some(String::from_utf8(output.stdout).expect("text"))
    }

    /// A shell on one of the nodes, which reads `input`.
    pub(super) fn shell(&self, who: &str, script: &str, input: &str) -> Output {
        let mut command = self.command(&format!("exec {who} -- sh -c"));
        let child = command
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.expect("bulkhead runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A shell that does not read reports the reason by its exit code.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().expect("it ends")
    }

    pub(super) fn status(&self) -> String {
        self.ok("status")
    }

    pub(super) fn wait_for(&self, part: &str) {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let status = self.status();
            if status.contains(part) {
                return;
            }
            assert!(Instant::now() < deadline, "{part}: {status}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Returns the processes of this host, in any namespace, that were started for a lab in this
    /// directory.
    fn processes(&self) -> Vec<String> {
        let folder = self.path().to_string_lossy().into_owned();
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        let command = |entry: std::fs::DirEntry| {
            let bytes = std::fs::read(entry.path().join("cmdline")).ok()?;
            Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
        };
        entries
            .filter_map(command)
            .filter(|text| text.contains(&folder))
            .collect()
    }

    /// Fails if any part of a lab is left.
    pub(super) fn assert_empty(&self) {
        let left = self.processes();
        assert!(left.is_empty(), "{left:#?}");
        let folder = self.path().to_string_lossy().into_owned();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        assert!(!mounts.contains(&folder), "{mounts}");
        let entries = std::fs::read_dir(self.path()).expect("the place").flatten();
        let left: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        assert!(left.iter().all(|name| name == "pair.toml"), "{left:?}");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Cleans up after a failed test.
        let _ = self.run("down");
    }
}

pub(super) fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Reports why a test is skipped, even where the output of tests is captured.
pub(super) fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Returns the interfaces of this host, which labs must not change.
fn interfaces() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/net")
        .expect("interfaces")
        .flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn interrupted_lab_is_cleaned_up() {
    let place = Place::new();
    let mut child = place
        .command(&format!("up {}", place.file().display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bulkhead runs");
    // The first progress report about a pool means that its nodes run.
    let mut said = String::new();
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    while !said.contains("create the pool") {
        if lines.read_line(&mut said).expect("text") == 0 {
            break;
        }
    }
    let pid = rustix::process::Pid::from_child(&child);
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    let status = child.wait().expect("it ends");
    if status.code() == Some(EXIT_INCAPABLE) {
        skip(&said);
        return;
    }
    assert_eq!(status.code(), Some(EXIT_INTERRUPTED), "{said}");
    place.assert_empty();
}

#[test]
fn a_head_that_ipmi_powers_off_is_taken_over_and_boots_again() {
    let place = Place::new();
    let before = interfaces();
    let Some(said) = place.up("") else { return };
    assert!(said.contains("pool tank: served by left"), "{said}");
    assert_eq!(interfaces(), before);

    // A client reaches the pool, and sees the exit code of its command.
    place.ok("exec client -- ping -c 1 -W 5 10.77.1.100");
    let output = place.shell("right", "exit 7", "");
    assert_eq!(output.status.code(), Some(7), "{}", output_text(&output));

    // The user's file is on the heads unchanged, and the disks exist under its names.
    let same = "exec right -- stat -c %s /dev/disk/by-id/scsi-35000c500a1b20500 /dev/disk/by-id/scsi-35000c500a1b20000";
    assert_eq!(place.ok(same), "1073741824\n1073741824\n");

    // The stock agent, on the other head, with the password stored there.
    let fence = "exec right -- fence_ipmilan --ip=10.77.9.21 --username=fence --lanplus --cipher=3 \
                 --password-script=/run/password --action=";
    let script = "#!/bin/sh\ncat /etc/bulkhead/secrets/bmc-left\n";
    let write = "cat >/run/password; chmod 755 /run/password";
    let output = place.shell("right", write, script);
    assert!(output.status.success(), "{}", output_text(&output));
    assert!(place.ok(&format!("{fence}status")).contains("ON"));
    place.ok(&format!("{fence}off"));
    place.wait_for("head left: off");
    place.wait_for("pool tank: served by right");
    place.ok("exec client -- ping -c 1 -W 5 10.77.1.100");
    let output = place.run("exec left -- true");
    assert_eq!(
        output.status.code(),
        Some(EXIT_UNAVAILABLE),
        "{}",
        output_text(&output)
    );
    place.ok(&format!("{fence}on"));
    place.wait_for("head left: on, a member");

    let again = place.run(&format!("up {}", place.file().display()));
    assert_eq!(
        again.status.code(),
        Some(EXIT_EXISTS),
        "{}",
        output_text(&again)
    );
    place.ok("down");
    place.assert_empty();
    assert_eq!(place.run("status").status.code(), Some(EXIT_NOT_FOUND));
    assert_eq!(interfaces(), before);
}

/// A head was fenced, rejoined, and has the pool again; its Pacemaker stops in order while the server still runs. The
/// old fence must not prove that the head is off.
#[test]
fn fence_before_rejoin_is_no_proof_that_head_is_off() {
    let place = Place::new();
    if place.up("--no-console").is_none() {
        return;
    }
    place.ok("power left off");
    place.wait_for("pool tank: served by right");
    place.ok("power left on");
    place.wait_for("head left: on, a member");
    place.ok("exec right -- bulkhead pool move tank left");
    place.wait_for("pool tank: served by left");
    place.ok("exec right -- crm_attribute --name maintenance-mode --update true");
    place.ok("exec left -- systemctl stop pacemaker");
    place.ok("exec left -- systemctl stop corosync");
    // The same state as Pacemaker has for a fenced head.
    let node = "exec right -- cibadmin --query --xpath //node_state[@uname='left']";
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let said = place.ok(node);
        let is = |part: &str| said.contains(part);
        if is("in_ccm=\"false\"") && is("join=\"down\"") && is("expected=\"down\"") {
            break;
        }
        assert!(Instant::now() < deadline, "{said}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let history = place.ok("exec right -- stonith_admin --history left --output-as xml");
    assert!(history.contains("status=\"success\""), "{history}");
    let start = "OCF_RESKEY_pool=tank /usr/lib/ocf/resource.d/bulkhead/pool start";
    let refused = place.shell("right", start, "");
    let said = output_text(&refused);
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("no fence device has confirmed"), "{said}");
    // A fence during this absence proves it.
    place.ok("exec right -- crm_attribute --name maintenance-mode --delete");
    place.ok("exec right -- stonith_admin --fence left");
    place.wait_for("pool tank: served by right");
    place.ok("down");
    place.assert_empty();
}

/// Returns the output of `bulkhead` on a head.
pub(super) fn bulkhead_on(place: &Place, head: &str, words: &str) -> String {
    place.ok(&format!("exec {head} -- bulkhead {words}"))
}

/// Repeats the command on a head until its output contains `part`.
fn says(place: &Place, head: &str, words: &str, part: &str) {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let said = bulkhead_on(place, head, words);
        if said.contains(part) {
            return;
        }
        assert!(Instant::now() < deadline, "{head}, {words}: {said}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The key of an encrypted volume is in a file on each head.
#[test]
fn key_is_found_on_other_head_or_reported_missing() {
    const KEY: &str = "/etc/bulkhead/secrets/e.key";
    let place = Place::new();
    let Some(_) = place.up("") else { return };
    let lay_down = |head: &str| {
        let key = "0123456789abcdef".repeat(4);
        let output = place.shell(head, &format!("cat >{KEY}"), &key);
        assert!(output.status.success(), "{}", output_text(&output));
    };
    lay_down("left");
    let create = format!(
        "volume create tank/e --size 16M --sparse --key-format hex --key-location file://{KEY}"
    );
    bulkhead_on(&place, "left", &create);
    bulkhead_on(&place, "left", "nbd export tank/e --name e");

    // The other head has no such key, so that the pool is not moved there by mistake.
    let refused = place.shell("left", "exec bulkhead pool move tank right 2>&1", "");
    let words = output_text(&refused);
    assert_eq!(refused.status.code(), Some(6), "{words}");
    for word in ["keys of tank are missing on right", KEY, "--without-keys"] {
        assert!(words.contains(word), "{word}: {words}");
    }

    // An operator can override this: all other volumes are served there, with a warning.
    bulkhead_on(&place, "left", "pool move tank right --without-keys");
    let missing = format!("the key of tank/e is missing: {KEY}");
    says(&place, "right", "pool events tank", &missing);
    says(
        &place,
        "right",
        "status tank",
        "the key of tank/e is missing",
    );
    lay_down("right");
    bulkhead_on(&place, "right", "volume key load tank/e");

    // With the key on both heads no action is needed, even after a power loss.
    bulkhead_on(&place, "right", "pool move tank left");
    let is_loaded = |head: &str| {
        says(
            &place,
            head,
            "volume key status tank --json",
            "\"loaded\": true",
        );
    };
    is_loaded("left");
    place.ok("power left off");
    place.wait_for("pool tank: served by right");
    is_loaded("right");
    place.ok("down");
    place.assert_empty();
}

/// Further services of the pool, in the file.
const SERVICES: &str = r#"
[pools.tank.nbd_tls]
certificate_file = "/etc/bulkhead/nbd/cert.pem"
key_file = "/etc/bulkhead/nbd/key.pem"

[pools.tank.replication]
address = "10.77.1.100"
"#;

/// Runs a shell on a node, which must succeed, and returns its output.
pub(super) fn shell(place: &Place, who: &str, script: &str) -> String {
    let output = place.shell(who, script, "");
    assert!(
        output.status.success(),
        "{script}: {}",
        output_text(&output)
    );
    String::from_utf8(output.stdout).expect("text")
}

fn fingerprint(said: &str) -> String {
    let said: serde_json::Value = serde_json::from_str(said).expect("JSON");
    said["fingerprint"]
        .as_str()
        .expect("a fingerprint")
        .to_owned()
}

/// A volume behind TLS, a target with a secret, and a copy from another pool, on a pair with a rotated key before its
/// other head takes over.
#[test]
fn tls_secrets_and_replication_survive_rotation_and_takeover() {
    const TARGET: &str = "iqn.2026-01.org.example:tank";
    const READ: &str = "nbdinfo --size 'nbds://10.77.1.100/v?tls-certificates=/run/pki'";
    let place = Place::new();
    let file = place.file();
    let text = std::fs::read_to_string(&file).expect("the file") + SERVICES;
    std::fs::write(&file, text).expect("written");
    let output = place.run(&format!("up {}", file.display()));
    if output.status.code() == Some(EXIT_INCAPABLE) {
        return skip(&output_text(&output));
    }
    assert!(output.status.success(), "{}", output_text(&output));
    bulkhead_on(&place, "left", "volume create tank/v --size 32M --sparse");
    bulkhead_on(
        &place,
        "left",
        "nbd export tank/v --name v --allow-everyone",
    );
    bulkhead_on(
        &place,
        "left",
        &format!("target create {TARGET} --pool tank"),
    );
    let set = format!(
        "echo correct-horse-battery >/run/s; bulkhead target chap set {TARGET} --pool tank --user ann --secret-file /run/s"
    );
    shell(&place, "left", &set);

    // With TLS, and not without.
    let certificate = shell(&place, "left", "cat /etc/bulkhead/nbd/cert.pem");
    let output = place.shell(
        "client",
        "mkdir -p /run/pki; cat >/run/pki/ca-cert.pem",
        &certificate,
    );
    assert!(output.status.success(), "{}", output_text(&output));
    assert_eq!(shell(&place, "client", READ).trim(), "33554432");
    let clear = place.shell("client", "nbdinfo --size nbd://10.77.1.100/v", "");
    assert!(
        !clear.status.success(),
        "in the clear: {}",
        output_text(&clear)
    );

    // Into the pair, from a pool on the client.
    let there = fingerprint(&bulkhead_on(
        &place,
        "left",
        "replicate identity tank --json",
    ));
    let source = format!(
        "export BULKHEAD_RUN_DIR=/run/b BULKHEAD_STATE_DIR=/run/b; {}",
        env!("CARGO_BIN_EXE_bulkhead")
    );
    shell(&place, "client", "truncate -s 128M /run/d");
    shell(
        &place,
        "client",
        &format!("{source} pool create src /run/d"),
    );
    shell(
        &place,
        "client",
        &format!("{source} volume create src/v --size 16M --sparse"),
    );
    let here = fingerprint(&shell(
        &place,
        "client",
        &format!("{source} replicate identity src --json"),
    ));
    bulkhead_on(
        &place,
        "left",
        &format!("replicate accept {here} --below tank/from"),
    );
    shell(
        &place,
        "client",
        &format!(
            "{source} replicate set src/v --to 10.77.1.100:8873 --peer {there} --into tank/from/v"
        ),
    );
    shell(&place, "client", &format!("{source} replicate run src/v"));

    // The key is rotated without a split of the heads.
    let members = "corosync-quorumtool -s | grep -c 'Flags:.*Quorate'; crm_mon -1 | grep Online";
    let before = shell(&place, "left", members);
    let key = "sha256sum </etc/corosync/authkey";
    let old_key = shell(&place, "left", key);
    let peer_key = "f=/etc/bulkhead/head/peer-key; stat -c %a $f; sha256sum <$f";
    let old_peer_key = shell(&place, "left", peer_key);
    assert!(old_peer_key.starts_with("400\n"), "{old_peer_key}");
    assert_eq!(shell(&place, "right", peer_key), old_peer_key);
    let by_its_server = "cd /proc/$(pgrep -f 'pool-server tank' | head -1)/root && pwd && ls etc/corosync etc/bulkhead/head";
    assert_eq!(
        shell(&place, "left", "ls /etc/corosync | grep -c authkey").trim(),
        "1"
    );
    let seen = shell(&place, "left", by_its_server);
    assert!(seen.contains("/proc/") && !seen.contains("key"), "{seen}");
    let rotate = "appliance rotate-key /etc/bulkhead/appliance.toml --ssh";
    bulkhead_on(&place, "left", rotate);
    let new_key = shell(&place, "left", key);
    assert_ne!(new_key, old_key);
    assert_eq!(shell(&place, "right", key), new_key);
    let new_peer_key = shell(&place, "left", peer_key);
    assert_ne!(new_peer_key, old_peer_key);
    assert_eq!(shell(&place, "right", peer_key), new_peer_key);
    says(&place, "left", "pool events tank --json", "imported");
    assert_eq!(shell(&place, "left", members), before);
    let sealed = "until grep -q 'sealed with the present key' /var/lib/bulkhead/tank.log; do sleep 0.2; done";
    shell(&place, "left", sealed);
    for head in ["left", "right"] {
        shell(&place, head, "rm /var/lib/bulkhead/seal-keys/authkey-*");
    }

    // The other head rejoins with the new key, takes over, and can read all secrets.
    let again = "systemctl stop pacemaker.service; systemctl stop corosync.service; \
                 systemctl start corosync.service && systemctl start pacemaker.service";
    shell(&place, "right", again);
    place.wait_for("head right: on, a member");
    place.ok("power left off");
    place.wait_for("pool tank: served by right");
    let status = bulkhead_on(&place, "right", "status tank --json");
    assert!(!status.contains("cannot be read"), "{status}");
    assert_eq!(shell(&place, "client", READ).trim(), "33554432");
    shell(&place, "client", &format!("{source} replicate run src/v"));
    let list = bulkhead_on(&place, "right", "replicate list tank --json");
    assert!(list.contains("tank/from/v"), "{list}");
    place.ok("down");
    place.assert_empty();
}

#[test]
fn cables_outlets_and_freezes_follow_lab_commands() {
    let place = Place::new();
    // Without the pool Pacemaker has no reason to fence a head early.
    let Some(_) = place.up("--no-pools") else {
        return;
    };
    place.ok("cut right storage-a");
    assert!(place.status().contains("cut off from storage-a"));
    let carrier = "exec right -- cat /sys/class/net/ens1f0/operstate";
    assert_ne!(place.ok(carrier), "up\n");
    place.ok("mend right");
    assert_eq!(place.ok(carrier), "up\n");
    let output = place.run("cut right nowhere");
    assert!(!output.status.success());

    // Both feeds of a head: off, its BMC with it, and on again when one of them returns.
    place.ok("outlet a 2 off");
    assert!(place.status().contains("head right: on"));
    place.ok("outlet b 2 off");
    assert!(place.status().contains("head right: off"));
    assert!(
        !place
            .run("exec left -- ping -c 1 -W 1 10.77.9.22")
            .status
            .success()
    );
    assert!(!place.run("power right on").status.success());
    place.ok("outlet b 2 on");
    place.wait_for("head right: on, a member");

    // A frozen head does nothing until its power is cut, which always works.
    place.ok("freeze right");
    assert!(place.status().contains("head right: frozen"));
    place.ok("power right off");
    place.ok("thaw right");
    assert!(place.status().contains("head right: off"));
    place.ok("down");
    place.assert_empty();
}

#[test]
fn a_witness_with_certificates_has_a_vote() {
    let place = Place::new();
    let file = place.file();
    let text = include_str!("../../../../examples/witness.toml");
    std::fs::write(&file, text).expect("written");
    let output = place.run(&format!("up {} --no-pools", file.display()));
    if output.status.code() == Some(EXIT_INCAPABLE) {
        return skip(&output_text(&output));
    }
    assert!(output.status.success(), "{}", output_text(&output));
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        // Exits with 1 while there is no quorum.
        let votes = output_text(&place.run("exec right -- corosync-quorumtool -s"));
        if votes.contains("Total votes:      3") && votes.contains("A,V,NMW") {
            break;
        }
        assert!(Instant::now() < deadline, "{votes}");
        std::thread::sleep(Duration::from_millis(200));
    }
    place.ok("exec witness -- corosync-qnetd-tool -l");
    place.ok("exec left -- ping -c 1 -W 5 10.77.1.1");
    place.ok("down");
    place.assert_empty();
}

fn kill(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("it ends");
}

#[test]
fn lab_killed_at_any_time_is_removed_by_down() {
    let place = Place::new();
    let words = format!("up {} --keep-failed", place.file().display());
    let first = place.run(&words);
    if first.status.code() == Some(EXIT_INCAPABLE) {
        skip(&output_text(&first));
        return;
    }
    // The first process itself: the whole lab dies with it.
    let document: serde_json::Value =
        serde_json::from_str(&place.ok("status --json")).expect("JSON");
    let pid = document["first_pid"]
        .as_i64()
        .expect("a number")
        .to_string();
    let killed = Command::new("kill").args(["-9", &pid]).status();
    assert!(killed.expect("kill runs").success());
    let deadline = Instant::now() + TIME_LIMIT;
    while !place.processes().is_empty() {
        assert!(Instant::now() < deadline, "{:#?}", place.processes());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(place.run("status").status.code(), Some(EXIT_UNAVAILABLE));
    place.ok("down");
    place.assert_empty();

    // Points in time, not conditions: whatever the progress, nothing may be left.
    for moment_ms in [0, 20, 100, 300, 700, 1_500, 4_000] {
        let child = place
            .command(&words)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        std::thread::sleep(Duration::from_millis(moment_ms));
        kill(child.expect("bulkhead runs"));
        let output = place.run("down");
        let code = output.status.code();
        // Before any setup.
        assert!(
            matches!(code, Some(0 | EXIT_NOT_FOUND)),
            "{}",
            output_text(&output)
        );
        place.assert_empty();
    }
}

#[test]
fn no_lab_process_survives_command_and_down() {
    let place = Place::new();
    // A slow replacement of one of the host's commands, wherever the lab runs it.
    let programs = place.path().join("programs");
    std::fs::create_dir(&programs).expect("a folder");
    let begun = programs.join("begun");
    let slow = programs.join("ssh-keygen");
    let script = format!("#!/bin/sh\ntouch {}\nsleep 600\n", begun.display());
    std::fs::write(&slow, script).expect("written");
    std::fs::set_permissions(&slow, Permissions::from_mode(0o700)).expect("executable");
    let path = std::env::var("PATH").expect("a path");
    let mut child = place
        .command(&format!("up {} --keep-failed", place.file().display()))
        .env("PATH", format!("{}:{path}", programs.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("bulkhead runs");
    let deadline = Instant::now() + TIME_LIMIT;
    while !begun.exists() {
        let ended = child.try_wait().expect("a state");
        if ended.and_then(|status| status.code()) == Some(EXIT_INCAPABLE) {
            skip("this host cannot run a lab");
            return;
        }
        assert!(ended.is_none(), "{ended:?}");
        assert!(Instant::now() < deadline, "ssh-keygen was not called");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(child);
    place.ok("down");
    std::fs::remove_dir_all(&programs).expect("removed");
    place.assert_empty();
}

#[test]
fn lab_on_unsuitable_host_lists_missing_requirements() {
    let place = Place::new();
    // A host without resource agents.
    let file = place.file();
    let script = format!(
        "mount -t tmpfs tmpfs /usr/lib/ocf/resource.d || exit 99; exec {} lab up {}",
        env!("CARGO_BIN_EXE_bulkhead"),
        file.display()
    );
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .env("BULKHEAD_LAB_DIR", place.path())
        .output()
        .expect("unshare runs");
    if !matches!(output.status.code(), Some(EXIT_INCAPABLE)) {
        skip(&format!("no namespaces: {}", output_text(&output)));
        return;
    }
    assert!(
        output_text(&output).contains("package resource-agents"),
        "{}",
        output_text(&output)
    );
    place.assert_empty();
}

#[test]
fn lab_refuses_invalid_file_before_start() {
    let place = Place::new();
    let file = place.file();
    let text = std::fs::read_to_string(&file).expect("readable");
    for (from, to, part) in [
        ("delay_s = 1", "delay_s = 0", "fence-delay-equal"),
        (
            "/dev/disk/by-id/scsi-35000c500a1b20000",
            "/usr/disk",
            "/usr/disk",
        ),
    ] {
        std::fs::write(&file, text.replace(from, to)).expect("written");
        let output = place.run(&format!("up {}", file.display()));
        assert_eq!(
            output.status.code(),
            Some(EXIT_ERRORS),
            "{}",
            output_text(&output)
        );
        assert!(
            output_text(&output).contains(part),
            "{}",
            output_text(&output)
        );
    }
    place.assert_empty();
}

/// Each head has its disks, and the third node is a member of the record. A lab does not create pools on such disks
/// yet.
#[test]
fn heads_have_own_disks_and_witness_is_member() {
    let place = Place::new();
    let path = place.path().join("legs.toml");
    let text = include_str!("../../../../examples/legs-two-heads-witness.toml").replace(
        "[quorum]",
        "[timeouts]\ntoken_ms = 3000\nconsensus_ms = 3600\ntakeover_budget_s = 30\n\n[quorum]",
    );
    std::fs::write(&path, &text).expect("written");
    let output = place.run(&format!("up {} --no-console", path.display()));
    if output.status.code() == Some(EXIT_INCAPABLE) {
        return skip(&output_text(&output));
    }
    assert!(output.status.success(), "{}", output_text(&output));
    let said = |who: &str, script: &str| {
        let output = place.shell(who, script, "");
        assert!(
            output.status.success(),
            "{who}: {script}: {}",
            output_text(&output)
        );
        String::from_utf8(output.stdout).expect("text")
    };
    // The same path on both heads, but different disks.
    let disks = "ls /dev/disk/by-id";
    assert!(said("left", disks).contains("0025385100000001"));
    assert!(!said("right", disks).contains("0025385100000001"));
    // The witness has the key that the heads' files name.
    let identity = said("witness", "bulkhead-witness identity");
    let legs = said("right", "cat /etc/bulkhead/legs.toml");
    assert!(
        legs.contains("me = \"right\"") && legs.contains(identity.trim()),
        "{legs}"
    );
    assert!(!text.contains(identity.trim()));
    said(
        "witness",
        "for try in $(seq 100); do bulkhead-witness status && exit; sleep 0.1; done; exit 1",
    );
    said(
        "right",
        "stat -c %a /etc/bulkhead/legs/key.pem | grep -qx 600",
    );
    // One of two networks between the heads.
    place.ok("cut left legs-a");
    let reaches = "ping -c 1 -W 1 10.77.4.11 && ! ping -c 1 -W 1 10.77.3.11";
    said("right", reaches);
    place.ok("mend left legs-a");
    said(
        "right",
        "for try in $(seq 100); do ping -c 1 -W 1 10.77.3.11 && exit; done; exit 1",
    );
    let impaired = place.run("impair left legs-a --delay-us 50000");
    if impaired.status.success() {
        assert!(
            place.status().contains("50000 us late"),
            "{}",
            place.status()
        );
        place.ok("impair left legs-a");
        assert!(!place.status().contains("us late"), "{}", place.status());
    } else {
        assert!(
            output_text(&impaired).contains("sch_netem"),
            "{}",
            output_text(&impaired)
        );
        skip("a slow cable: the kernel has no netem");
    }
    place.ok("down");
}
