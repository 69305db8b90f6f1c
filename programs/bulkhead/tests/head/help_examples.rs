//! Every example that `--help` shows is run in an environment as its reader would have it: the
//! command lines are taken from the binary, a shell runs them, and the paths lead into a scratch
//! directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::TestHost;

const TARGET: &str = "iqn.2026-01.org.example:tank";
/// Sparse: the examples make large volumes.
const DISK_BYTES: u64 = 4 << 40;
const DISKS: [&str; 8] = [
    "dev/disk/by-id/scsi-a",
    "dev/disk/by-id/scsi-b",
    "dev/disk/by-id/scsi-c",
    "dev/disk/by-id/scsi-d",
    "dev/disk/by-id/scsi-e",
    "dev/disk/by-id/scsi-f",
    "dev/disk/by-id/nvme-a",
    "dev/disk/by-id/nvme-b",
];

/// Prefixes of the examples of commands without a definition in `control` that no test runs here, and why.
const ELSEWHERE: [(&str, &str); 23] = [
    (
        "alert ",
        "needs an appliance file: tests/cluster/notifications.rs",
    ),
    ("head", "never exits, and needs real addresses: proof.api"),
    ("user ", "needs a password: proof.api"),
    ("token ", "needs a user: proof.api"),
    (
        "pool growth",
        "needs the history of a running head: tests/head/growth.rs",
    ),
    (
        "leg-server",
        "creates a key in /etc, and never exits: tests/legs/pair_of_legs.rs",
    ),
    (
        "pool create tank --legs",
        "needs two heads: tests/legs/pair_of_legs.rs",
    ),
    (
        "pool reidentify",
        "needs a copy of a disk: tests/head/copies.rs",
    ),
    (
        "pool record-legs",
        "needs two heads: tests/legs/recorded_legs.rs",
    ),
    (
        "pool inspect-legs",
        "needs two heads: tests/legs/pair_of_legs.rs",
    ),
    ("pool move", "needs two heads: see the drills"),
    ("appliance ", "needs heads: tests/cluster/appliance.rs"),
    ("lab ", "needs namespaces: the lab's own tests"),
    ("drill ", "needs a lab"),
    ("growth ", "needs Ceph's tools: proof.growth"),
    ("watch ", "names interfaces: tests/head/lost_packets.rs"),
    (
        "bench crypto",
        "runs for a minute: tests/head/encryption.rs",
    ),
    (
        "bench network",
        "needs two hosts: tests/head/network_bench.rs",
    ),
    (
        "snapshot send",
        "needs a second pool: tests/head/transfer.rs",
    ),
    (
        "snapshot receive",
        "needs a second pool: tests/head/transfer.rs",
    ),
    ("target export", "needs a server: tests/head/server.rs"),
    (
        "agent pool monitor",
        "needs a resource: tests/cluster/agent.rs",
    ),
    (
        "pool-server",
        "never exits, and needs real addresses: tests/head/server.rs",
    ),
];

/// The same for those that only an administrator stops.
const STAY: [&str; 2] = ["volume rescue", "filesystem mount"];

/// Commands that prepare an example of a command without a definition in `control`, or of the help of the whole binary.
const BEFORE: [(&str, &[&str]); 3] = [
    (
        "pool create",
        &["bulkhead pool destroy tank --yes-destroy-all-data"],
    ),
    (
        "pool import tank",
        &["bulkhead volume list tank --host-id 00000002"],
    ),
    (
        "volume create tank/vm0 --size 10G --sparse",
        &["bulkhead volume destroy tank/vm0 --yes-destroy-data --recursive"],
    ),
];

/// The definition of an example; see `control::operations::Example`.
#[derive(Default)]
struct Defined {
    prepared_by: Vec<String>,
    undone_by: Vec<String>,
    needs_server: bool,
    elsewhere: Option<String>,
}

/// The examples in the definitions, by the words after `bulkhead`.
fn defined() -> BTreeMap<String, Defined> {
    let found = TestHost::with_disks(&[]).ok("definitions").json();
    let examples = found["examples"].as_array().expect("examples").iter();
    let strings = |value: &Value| {
        let all = value.as_array().into_iter().flatten();
        all.map(|one| one.as_str().expect("a string").to_owned())
            .collect()
    };
    examples
        .map(|example| {
            let line = example["line"].as_str().expect("a line");
            let line: String = line
                .lines()
                .map(|part| part.trim().trim_end_matches('\\'))
                .collect();
            let defined = Defined {
                prepared_by: strings(&example["prepared_by"]),
                undone_by: strings(&example["undone_by"]),
                needs_server: example["ends_with_the_server"] == true,
                elsewhere: example["elsewhere"].as_str().map(str::to_owned),
            };
            let words = line.strip_prefix("bulkhead ").expect("a command");
            (words.to_owned(), defined)
        })
        .collect()
}

/// The paths that examples change. The directory `pristine` holds a copy of them, as [`world`]
/// created it.
const CHANGED: &str = "dev srv state";

/// A pool, volumes, a file system, snapshots, a target, and files with secrets.
fn world() -> TestHost {
    let machine = TestHost::with_disks(&[]);
    for folder in [
        "dev/disk/by-id",
        "srv/disks",
        "root",
        "etc/bash_completion.d",
    ] {
        std::fs::create_dir_all(machine.path(folder)).expect("a folder");
    }
    for disk in DISKS {
        machine.add_disk(disk, DISK_BYTES);
    }
    machine.add_disk("srv/disk0.img", 1 << 30);
    for user in ["ann", "tank", "finder"] {
        let secret = machine.path(&format!("root/{user}.secret"));
        std::fs::write(secret, format!("{user}-secret-12")).expect("a secret");
    }
    machine.ok("pool create tank mirror dev/disk/by-id/scsi-a dev/disk/by-id/scsi-b");
    for volume in ["vm0", "iso", "web", "db/data", "db/log"] {
        machine.ok(&format!(
            "volume create tank/{volume} --size 16M --sparse --parents"
        ));
    }
    machine.ok("nbd export tank/web --name web");
    machine.ok("snapshot create tank/vm0@monday");
    machine.ok("filesystem create tank/home");
    machine.ok("snapshot create tank/home@monday");
    machine.ok(&format!("target create {TARGET} --pool tank"));
    let keep = format!("mkdir pristine && cp -a --sparse=always {CHANGED} pristine");
    shell(&machine, &keep);
    machine
}

/// The environment as it was created: paths stay the same, because labels contain them.
fn put_back(machine: &TestHost) {
    let words = format!("rm -rf {CHANGED} run && cp -a --sparse=always pristine/. .");
    shell(machine, &words);
}

fn shell(machine: &TestHost, words: &str) {
    let mut command = Command::new("sh");
    command
        .args(["-c", words])
        .current_dir(machine.directory.path());
    assert!(command.status().expect("a shell").success(), "{words}");
}

/// Adds every example below the command `words`, without the leading `bulkhead`.
fn examples(words: &str, found: &mut Vec<String>) {
    let help = TestHost::with_disks(&[]).ok(&format!("{words} --help")).out;
    let after = help.split_once("\nExample").map_or("", |(_, after)| after);
    let mut whole = String::new();
    for line in after.lines().skip(1) {
        whole.push_str(line.trim());
        if whole.ends_with('\\') {
            whole.pop();
            continue;
        }
        if let Some(example) = whole.strip_prefix("bulkhead ") {
            found.push(example.to_owned());
        }
        whole.clear();
    }
    let commands = help
        .split_once("\nCommands:\n")
        .map_or("", |(_, rest)| rest);
    for line in commands.lines().take_while(|line| !line.is_empty()) {
        let name = line.trim_start().split(' ').next().unwrap_or_default();
        // A line with more indentation continues a description.
        if line.starts_with("  ") && !line.starts_with("   ") && name != "help" {
            examples(&format!("{words} {name}"), found);
        }
    }
}

/// Runs a command line by a shell, with all absolute paths moved into the simulated host.
fn run_in(machine: &TestHost, line: &str) -> (bool, String) {
    let mut line = line.to_owned();
    for folder in ["dev", "srv", "root", "etc"] {
        let inside = machine.path(folder);
        line = line.replace(&format!(" /{folder}/"), &format!(" {}/", inside.display()));
    }
    let program = Path::new(env!("CARGO_BIN_EXE_bulkhead"));
    let folder = program.parent().expect("a folder").display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", &line])
        .env("PATH", path)
        .env("BULKHEAD_RUN_DIR", machine.path("run"))
        .env("BULKHEAD_STATE_DIR", machine.path("state"))
        .env_remove("BULKHEAD_SEARCH")
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.success(), said)
}

#[test]
fn every_help_example_has_its_stated_effect() {
    let mut all = Vec::new();
    examples("", &mut all);
    all.sort();
    all.dedup();
    assert!(all.len() > 50, "{all:#?}");
    let defined = defined();
    let printed: BTreeSet<&str> = all.iter().map(String::as_str).collect();
    let other = Defined::default();
    // The help wraps a line that is too long: its definition must continue it after a backslash.
    let hidden = defined
        .keys()
        .filter(|line| !printed.contains(line.as_str()));
    let mut failed: Vec<String> = hidden
        .map(|line| format!("no help prints {line}"))
        .collect();
    let machine = world();
    for example in &all {
        let starts = |start: &str| example.starts_with(start);
        let own = defined.get(example).unwrap_or(&other);
        let is_elsewhere = own.elsewhere.is_some()
            || !defined.contains_key(example)
                && (ELSEWHERE.iter().any(|(start, _)| starts(start))
                    || STAY.iter().any(|start| starts(start))
                    || starts("man "));
        if is_elsewhere {
            continue;
        }
        put_back(&machine);
        let server = own.needs_server.then(|| machine.serve(""));
        let others = BEFORE
            .iter()
            .filter(|(start, _)| !defined.contains_key(example) && starts(start));
        let others = others.flat_map(|(_, commands)| commands.iter().copied());
        let before = own.prepared_by.iter().map(String::as_str).chain(others);
        for command in before {
            let (succeeded, said) = run_in(&machine, command);
            assert!(succeeded, "before {example}: {command}: {said}");
        }
        let (succeeded, said) = run_in(&machine, &format!("bulkhead {example}"));
        if !succeeded || said.trim().is_empty() && !example.contains('>') {
            failed.push(format!("{example}: {said}"));
        }
        for command in &own.undone_by {
            let (succeeded, said) = run_in(&machine, command);
            assert!(succeeded, "after {example}: {command}: {said}");
        }
        if let Some(server) = server {
            assert_eq!(server.stop(), 0, "{example}");
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// bash completes nouns, verbs, options and their values.
#[test]
fn bash_completes_all_of_the_grammar() {
    let machine = TestHost::with_disks(&[]);
    let script = machine.path("completion");
    std::fs::write(&script, machine.ok("completion bash").out).expect("a file");
    for (words, wanted) in [
        ("pool cr", "create"),
        ("vol", "volume"),
        ("volume create --spa", "--sparse"),
        ("target chap mut", "mutual"),
        ("completion z", "zsh"),
    ] {
        let last = words.rsplit(' ').next().unwrap_or_default();
        let count = words.split(' ').count();
        let line = format!(
            "source {}; COMP_WORDS=(bulkhead {words}); COMP_CWORD={count}; \
             _bulkhead bulkhead '{last}' ''; echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let output = Command::new("bash").args(["-c", &line]).output();
        let output = output.expect("bash");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.trim(), wanted, "{words}: {output:?}");
    }
}
