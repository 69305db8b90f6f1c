//! Secrets in a pool: its devices and its history do not reveal them, and a host without their key accepts no
//! initiator.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::tools::{installed, try_run};
use crate::common::{TestHost, contains, eventually};
use engine::HostId;
use engine::capabilities::Properties;
use engine::pool::SafeToOwn;
use rustix::termios::{LocalModes, tcgetattr};
use zpool::pool::discover;
use zpool::{Engine, EngineOptions, Pool};

const TARGET: &str = "iqn.2026-01.org.example:tank";
const SECRET: &str = "correct-horse-battery";
const MUTUAL: &str = "its-own-battery-staple";

fn set(machine: &TestHost, verb: &str, user: &str, secret: &str) {
    std::fs::write(machine.path("secret"), secret).expect("a file");
    machine.ok(&format!(
        "target chap {verb} {TARGET} --user {user} --secret-file secret"
    ));
}

/// A volume behind a target that requires a secret and has one itself.
fn machine() -> TestHost {
    let machine = TestHost::with_exported_volume();
    machine.ok(&format!("target create {TARGET}"));
    machine.ok(&format!("target map {TARGET} tank/v"));
    set(&machine, "set", "ann", SECRET);
    set(&machine, "mutual", "tank", MUTUAL);
    machine
}

/// Returns the output of stock zdb for an exported pool: its history, and its root dataset's
/// properties.
fn shown_by_zdb(machine: &TestHost) -> Option<String> {
    if !installed("zdb") {
        return None;
    }
    let ask = |words: &[&str]| {
        let path = format!(
            "{}:/usr/sbin:/sbin",
            std::env::var("PATH").unwrap_or_default()
        );
        let asked = Command::new("zdb")
            .env("PATH", path)
            .args(["-e", "-p"])
            .arg(machine.directory.path())
            .args(words)
            .output()
            .expect("zdb runs");
        String::from_utf8_lossy(&asked.stdout).into_owned()
    };
    Some(ask(&["-h", "tank"]) + &ask(&["-dddd", "tank"]))
}

/// No disk has these bytes.
fn is_on_no_disk(machine: &TestHost, text: &str) -> bool {
    let mut grep = Command::new("grep");
    grep.args(["-aqF", text])
        .args(["a", "b"].map(|disk| machine.path(disk)));
    // 0: found; 2: trouble.
    grep.status().expect("grep runs").code() == Some(1)
}

fn is_accepted(machine: &TestHost, user: &str, options: &str) -> bool {
    let portal = machine.portal("127.0.0.1:");
    let url = format!("iscsi://{user}{portal}/{TARGET}/0{options}");
    try_run("iscsi-inq", &[&url]).status.success()
}

fn ann() -> String {
    format!("ann%{SECRET}@")
}

fn problems(machine: &TestHost) -> String {
    machine.ok("status tank --json").json()["problems"].to_string()
}

#[test]
fn no_secret_is_read_from_disks_or_history_after_set_and_after_clear() {
    let machine = machine();
    machine.ok("replicate identity tank");
    let look = |when: &str| {
        for secret in [SECRET, MUTUAL] {
            assert!(is_on_no_disk(&machine, secret), "{secret} {when}");
        }
        let Some(told) = shown_by_zdb(&machine) else {
            return;
        };
        assert!(told.contains("bulkhead:target:"), "{told}");
        for secret in [SECRET, MUTUAL, r#""key""#, r#""secret""#] {
            assert!(!told.contains(secret), "{secret} {when}: {told}");
        }
    };
    look("after it was set");
    let server = machine.serve("");
    set(&machine, "set", "bob", "another-long-secret");
    machine.ok(&format!("target chap clear {TARGET} --all"));
    assert_eq!(server.stop(), 0);
    look("after it was cleared");
    assert!(is_on_no_disk(&machine, "another-long-secret"));
}

#[test]
fn target_without_key_refuses_logins_until_key_is_loaded() {
    if !installed("iscsi-inq") {
        return;
    }
    let machine = machine();
    let keys = machine.path("state/seal-keys");
    let away = machine.path("away");
    std::fs::rename(&keys, &away).expect("taken away");
    let server = machine.serve("");
    let told = problems(&machine);
    assert!(told.contains("No initiator can log in as ann"), "{told}");
    assert!(told.contains("which this host does not have"), "{told}");
    for user in [ann(), String::new(), "ann%@".to_owned()] {
        assert!(!is_accepted(&machine, &user, ""), "{user}");
    }
    // Set again for one, with the key of this host: the other stays as it is.
    set(&machine, "set", "bob", "another-long-secret");
    assert!(is_accepted(&machine, "bob%another-long-secret@", ""));
    assert!(!is_accepted(&machine, &ann(), ""));
    // The key is copied, and the server is notified: the opened secret is sealed again with this
    // host's own key.
    std::fs::rename(away.join("own"), keys.join("of-the-other-head")).expect("brought");
    assert_eq!(signal(&server.child, "HUP"), Some(0));
    eventually("the key is found", || problems(&machine) == "[]");
    assert!(is_accepted(&machine, &ann(), ""));
    eventually("sealed anew", || {
        machine.log().contains("sealed with the present key")
    });
    std::fs::remove_file(keys.join("of-the-other-head")).expect("removed");
    assert_eq!(server.stop(), 0);
    let server = machine.serve("");
    let options = format!("?target_user=tank&target_password={MUTUAL}");
    assert!(is_accepted(&machine, &ann(), &options));
    assert_eq!(server.stop(), 0);
}

fn signal(child: &std::process::Child, signal: &str) -> Option<i32> {
    signal_to(child.id(), signal)
}

fn signal_to(pid: u32, signal: &str) -> Option<i32> {
    let sent = Command::new("kill")
        .args([&format!("-{signal}"), &pid.to_string()])
        .status();
    sent.expect("kill runs").code()
}

/// Writes the property as an older release did.
fn write_in_the_clear(folder: &Path) {
    let engine =
        Engine::start(EngineOptions::new(HostId(std::num::NonZeroU32::MIN))).expect("an engine");
    let found = discover(&[folder.to_owned()]).expect("found");
    let candidate = found
        .iter()
        .find(|one| one.name == "tank")
        .expect("the pool");
    let proof = SafeToOwn::exported(candidate).expect("exported");
    let options = engine::pool::ImportOptions::default();
    let claimed = Pool::claim(engine, candidate, proof, &options).expect("claimed");
    let pool = claimed.open().expect("opened");
    let value = format!(r#"{{"version":1,"chap":[{{"user":"ann","secret":"{SECRET}"}}]}}"#);
    let edit = (format!("bulkhead:target:{TARGET}"), Some(value));
    let root = pool.name().clone();
    pool.edit_user_properties(vec![((&root).into(), vec![edit])])
        .expect("written");
    pool.export().map_err(|(_, error)| error).expect("exported");
}

#[test]
fn plaintext_secret_is_sealed_at_start_and_survives_rotation() {
    let machine = machine();
    write_in_the_clear(machine.directory.path());
    if let Some(told) = shown_by_zdb(&machine) {
        assert!(told.contains(SECRET), "the search works: {told}");
    }
    let key = machine.path("authkey");
    std::fs::write(&key, [1; 128]).expect("a key");
    let serve = || machine.serve("");
    let server = serve();
    eventually("sealed", || {
        let events = machine.ok("pool events tank --json").out;
        events.contains("set other CHAP secrets")
    });
    if installed("iscsi-inq") {
        assert!(is_accepted(&machine, &ann(), ""));
    }
    // The cluster gets another key, and the old one is retained until all secrets are sealed with the new one.
    std::fs::create_dir_all(machine.path("state/seal-keys")).expect("a folder");
    let kept = machine.path("state/seal-keys/authkey-before");
    std::fs::rename(&key, &kept).expect("kept");
    std::fs::write(&key, [2; 128]).expect("a key");
    assert_eq!(signal(&server.child, "HUP"), Some(0));
    eventually("sealed anew", || {
        machine.log().matches("sealed with the present key").count() == 2
    });
    assert_eq!(server.stop(), 0, "{}", machine.log());
    std::fs::remove_file(kept).expect("removed");
    let server = serve();
    assert_eq!(problems(&machine), "[]");
    if installed("iscsi-inq") {
        assert!(is_accepted(&machine, &ann(), ""));
    }
    assert_eq!(server.stop(), 0);
    assert!(!contains(&machine.path("log"), SECRET));
    if let Some(told) = shown_by_zdb(&machine) {
        let kept = told.matches(SECRET).count();
        assert_eq!(
            kept,
            told.matches(&format!(r#""secret":"{SECRET}""#)).count(),
            "old history only"
        );
    }
}

/// Processes that `pid` has started.
fn children(pid: u32) -> Vec<u32> {
    let read = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let text = read.unwrap_or_default();
    text.split_whitespace()
        .filter_map(|one| one.parse().ok())
        .collect()
}

/// A client that has exploited the server can read all that the server can.
#[test]
#[allow(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn server_cannot_read_secret_keys_and_survives_reader_kill() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: it needs root");
        return;
    }
    let machine = TestHost::with_exported_volume();
    machine.ok(&format!("target create {TARGET}"));
    std::fs::write(machine.path("authkey"), [1; 128]).expect("a key");
    let server = machine.serve("");
    let pid = server.child.id();
    let [reader] = children(pid)[..] else {
        panic!("one child process: {:?}", children(pid));
    };
    let seen_by = |pid: u32, name: &str| {
        let path = machine.path(name);
        std::fs::read(format!("/proc/{pid}/root{}", path.display())).unwrap_or_default()
    };
    assert_eq!(seen_by(reader, "authkey"), [1; 128]);
    assert_eq!(seen_by(pid, "authkey"), b"");
    let shadow = std::fs::read(format!("/proc/{pid}/root/etc/shadow"));
    assert_eq!(shadow.unwrap_or_default(), b"");
    set(&machine, "set", "ann", SECRET);
    assert_eq!(signal_to(reader, "KILL"), Some(0));
    set(&machine, "set", "bob", "another-long-secret");
    assert_eq!(problems(&machine), "[]");
    assert!(
        machine.log().contains("has terminated"),
        "{}",
        machine.log()
    );
    assert_eq!(server.stop(), 0, "{}", machine.log());

    // The next one has both, and its reader exits with it.
    let server = machine.serve("");
    assert_eq!(problems(&machine), "[]");
    let readers = children(server.child.id());
    server.kill();
    eventually("the reader has ended", || {
        let is_there = |pid: &u32| Path::new(&format!("/proc/{pid}/exe")).exists();
        !readers.iter().any(is_there)
    });
}

/// After an interrupt at the prompt for a secret, the terminal echoes again.
#[test]
fn ctrl_c_at_secret_prompt_restores_the_terminal() {
    let machine = machine();
    let ends = nix::pty::openpty(None, None).expect("a terminal");
    let (mut person, terminal) = (File::from(ends.master), File::from(ends.slave));
    let mut command = machine.command(&format!("target chap set {TARGET} --user bob"));
    let mut asked = command
        .stdin(terminal.try_clone().expect("a descriptor"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut question = [0; 4];
    let mut screen = asked.stderr.take().expect("a pipe");
    screen.read_exact(&mut question).expect("a question");
    let echoes = || {
        let modes = tcgetattr(&terminal).expect("a terminal").local_modes;
        modes.contains(LocalModes::ECHO)
    };
    assert!(!echoes(), "a secret is not shown");
    person.write_all(b"half a sec\x03").expect("typed");
    let status = asked.wait().expect("it ends");
    // Where the tests run in the background, that signal is ignored: then it reports so.
    assert!(!status.success(), "{status}");
    assert!(echoes());
}
