//! The health of disks by smartctl: the list, the alert, and a disk without a locate light. A script replaces
//! smartctl, because disks of virtual machines have no health.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use crate::common::{CommandOutput, TestHost, eventually};

/// A document of a disk that predicts its failure.
const FAILING: &str = r#"{"smartctl": {"exit_status": 8}, "model_name": "ACME 4000", "serial_number": "S-17",
    "smart_status": {"passed": false}, "temperature": {"current": 41}}"#;

/// A host with a smartctl that prints this document.
fn host(document: &str) -> TestHost {
    let host = TestHost::with_disks(&[]);
    let folder = host.path("tools");
    fs::create_dir(&folder).expect("a folder");
    fs::create_dir_all(host.path("run")).expect("a folder");
    fs::write(folder.join("document"), document).expect("a file");
    let script = format!("#!/bin/sh\ncat {}/document\n", folder.display());
    fs::write(folder.join("smartctl"), script).expect("a file");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.join("smartctl"), executable).expect("executable");
    host
}

fn path_of(host: &TestHost) -> String {
    let rest = std::env::var("PATH").unwrap_or_default();
    format!("{}:{rest}", host.path("tools").display())
}

fn run(host: &TestHost, words: &str) -> CommandOutput {
    let mut command = host.command(words);
    let output = command
        .env("PATH", path_of(host))
        .output()
        .expect("it runs");
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A process that is killed at the end of the test.
struct Head(Child);

impl Drop for Head {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn disk_of(listed: &CommandOutput) -> Option<String> {
    let disks = listed.json();
    let disk = disks.as_array()?.first()?;
    Some(disk["path"].as_str()?.to_owned())
}

#[test]
fn failing_disk_is_listed_and_an_alert_names_it() {
    let host = host(FAILING);
    let listed = run(&host, "head disks --json");
    assert_eq!(listed.code, 0, "{}", listed.err);
    let Some(disk) = disk_of(&listed) else {
        // A container has no disks of its own.
        return;
    };
    let first = &listed.json()[0];
    assert_eq!(first["health"]["state"], "failing");
    assert_eq!(first["health"]["serial"], "S-17");
    let table = run(&host, "head disks").out;
    assert!(
        table.contains("ACME 4000") || table.contains("S-17"),
        "{table}"
    );
    assert!(
        table.contains("its self-assessment predicts a failure"),
        "{table}"
    );

    let words = format!(
        "head --listen 127.0.0.1:0 --head-dir {}",
        host.path("head").display()
    );
    let child = host
        .command(&words)
        .env("PATH", path_of(&host))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a head");
    let _head = Head(child);
    let alert = format!("disk {disk} (ACME 4000, serial S-17) of ");
    eventually("the alert", || {
        let said = run(&host, "head alerts");
        said.out.contains(&alert) && said.out.contains("next: replace the disk before it fails")
    });
}

#[test]
fn missing_smartctl_and_missing_light_are_told() {
    let host = host("no document");
    let listed = run(&host, "head disks --json");
    let mut command = host.command("head disks");
    let none = command
        .env("PATH", host.path("none"))
        .output()
        .expect("it runs");
    assert!(none.status.success());
    host.refused("head locate /dev/none", 3, "is no disk of this head");
    let Some(disk) = disk_of(&listed) else { return };
    assert_eq!(listed.json()[0]["health"]["state"], "unknown");
    let said = String::from_utf8_lossy(&none.stdout).into_owned();
    assert!(said.contains("install smartmontools"), "{said}");
    let words = format!("head locate {disk}");
    host.refused(&words, 11, "has no locate light");
}
