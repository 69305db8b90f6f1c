//! The loaded ZFS library: it is reported, and one that the binary was not built for is not started.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::TestHost;

/// Simulates a library of the other kind. None of its code runs.
fn other_library(folder: &Path, has_checks: bool) -> PathBuf {
    let source = folder.join("other.c");
    let library = folder.join("libother.so");
    let checks = match has_checks {
        true => "long zfs_refcount_add(void) { __builtin_trap(); }",
        false => "",
    };
    let code = format!("int spa_open(void) {{ __builtin_trap(); }}\n{checks}\n");
    std::fs::write(&source, code).expect("write");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    assert!(made.expect("a C compiler").success());
    library
}

fn said(mut command: Command) -> (bool, String) {
    let output = command.output().expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8(text).expect("text"),
    )
}

#[test]
fn library_of_other_kind_is_reported_and_not_started() {
    let machine = TestHost::with_disks(&["a"]);
    let (_, version) = said(machine.command("--version"));
    let ours_has_checks = version.contains("with debugging checks");
    let kinds = ["without debugging checks", "with debugging checks"];
    let (ours, other) = match ours_has_checks {
        true => (kinds[1], kinds[0]),
        false => (kinds[0], kinds[1]),
    };
    assert!(
        version.contains(ours) && !version.contains("does not fit"),
        "{version}"
    );

    let library = other_library(&machine.path("."), !ours_has_checks);
    let with_it = |words| {
        let mut command = machine.command(words);
        command.env("LD_PRELOAD", &library);
        said(command)
    };
    let (_, version) = with_it("--version");
    assert!(
        version.contains(other) && version.contains("does not fit"),
        "{version}"
    );
    let (done, text) = with_it("pool create tank a");
    assert!(!done, "{text}");
    assert!(
        text.contains(&format!("built for a libzpool {ours}")),
        "{text}"
    );
    assert!(text.contains("no pool is touched"), "{text}");
}

#[test]
fn server_reports_its_loaded_library() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    let _server = machine.serve("");
    let (_, version) = said(machine.command("--version"));
    let library = version.lines().nth(1).expect("a second line");
    let status = machine.ok("status tank --json").json();
    assert_eq!(status["server"]["library"], library, "{version}");
    let (_, text) = said(machine.command("status tank"));
    assert!(text.contains(&format!("library:  {library}")), "{text}");
}
