//! `bulkhead drill` as scripts use it. `make drill` runs the drills themselves.

#![forbid(unsafe_code)]

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

const BULKHEAD: &str = env!("CARGO_BIN_EXE_bulkhead");
/// As documented: this host cannot run a lab.
const EXIT_INCAPABLE: i32 = 15;
/// The user `nobody`.
const UNPRIVILEGED_UID: &str = "65534";

fn bulkhead(words: &[&str]) -> Output {
    let output = Command::new(BULKHEAD).args(words).output();
    output.expect("bulkhead runs")
}

#[test]
fn drill_list_shows_expected_outcomes() {
    let output = bulkhead(&["drill", "--list", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = list.as_array().expect("a list");
    let found = list.iter().find(|drill| drill["name"] == "one-link-cut");
    let expectation = &found.expect("it is there")["expectation"];
    assert_eq!(expectation["place"], "same");
    assert_eq!(expectation["fencing"], "forbidden");
}

#[test]
fn unknown_drill_is_refused_with_list_command() {
    let output = bulkhead(&["drill", "earthquake"]);
    assert!(!output.status.success());
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("bulkhead drill --list"), "{words}");
}

#[test]
fn drill_on_unsuitable_host_lists_missing_requirements() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).expect("permissions");
    // A copy: other users have no access to the build directory.
    let program = folder.path().join("bulkhead");
    std::fs::copy(BULKHEAD, &program).expect("copied");
    let mut command = match rustix::process::geteuid().is_root() {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", UNPRIVILEGED_UID, "--clear-groups", "--"]);
            command.arg(&program);
            command
        }
        false => Command::new(&program),
    };
    let command = command.args(["drill", "active-power", "--dir"]);
    let output = command.arg(folder.path()).output().expect("it runs");
    let words = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(EXIT_INCAPABLE), "{output:?}");
    assert!(
        words.starts_with("skipped: ") && words.contains("root"),
        "{words}"
    );
}
