//! Every example that `--help` shows is run, in a world as its reader would have it: the words
//! are taken from the program, a shell reads them, and the paths lead into a scratch directory.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::Machine;

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

/// Starts of the examples that are not run here, and why.
const ELSEWHERE: [(&str, &str); 37] = [
    ("head", "never ends, and wants real addresses: proof.api"),
    ("user ", "wants a password: proof.api"),
    ("token ", "wants a user: proof.api"),
    ("pool events tank --follow", "never ends: tests/trouble.rs"),
    (
        "leg-server",
        "makes a key in /etc, and never ends: tests/pair_of_legs.rs",
    ),
    (
        "pool create tank --legs",
        "needs two heads: tests/pair_of_legs.rs",
    ),
    (
        "pool reidentify",
        "needs a copy of a disk: tests/head/copies.rs",
    ),
    (
        "pool record-legs",
        "needs two heads: tests/recorded_legs.rs",
    ),
    ("pool discard-leg", "needs two heads: tests/pair_of_legs.rs"),
    (
        "pool set-witness",
        "needs two heads: tests/witness_of_legs.rs",
    ),
    (
        "pool add-head",
        "needs three heads: tests/third_head_of_legs.rs",
    ),
    (
        "pool replace tank right:",
        "needs two heads: tests/replaced_legs.rs",
    ),
    (
        "pool attach tank left:",
        "needs two heads: tests/attached_legs.rs",
    ),
    (
        "pool detach tank right:",
        "needs two heads: services/pool-access/src/places.rs",
    ),
    (
        "pool inspect-legs",
        "needs two heads: tests/pair_of_legs.rs",
    ),
    ("pool move", "needs two heads: see the drills"),
    ("appliance ", "needs heads: tests/appliance.rs"),
    ("lab ", "needs namespaces: the lab's own tests"),
    ("drill ", "needs a lab"),
    ("bench crypto", "takes a minute: tests/encryption.rs"),
    ("volume key ", "needs keys: tests/encryption.rs"),
    ("volume create tank/vm1", "asks for a passphrase"),
    (
        "filesystem create tank/private",
        "asks for a passphrase: tests/encryption.rs",
    ),
    ("volume create tank/vm2", "needs a key: tests/encryption.rs"),
    ("volume create tank/vms/", "needs keys: tests/encryption.rs"),
    ("replicate ", "needs two servers: tests/replication.rs"),
    ("snapshot send", "needs a second pool: tests/transfer.rs"),
    ("snapshot receive", "needs a second pool: tests/transfer.rs"),
    ("agent pool monitor", "needs a resource: tests/agent.rs"),
    (
        "pool-server",
        "never ends, and wants real addresses: tests/server.rs",
    ),
    (
        "filesystem expire-client",
        "needs a client: proof.nfs.older_locks",
    ),
    (
        "filesystem open-files",
        "needs a server: proof.nfs.older_locks",
    ),
    ("portal ", "needs a server: tests/portals.rs"),
    ("status tank --watch", "never ends"),
    ("volume rescue", "lasts until it is ended: tests/rescue.rs"),
    (
        "filesystem mount",
        "lasts until it is unmounted: tests/mounted_files.rs",
    ),
    ("man ", "tested with the grammar"),
];

/// What is done first, in addition to [`world`], for an example that starts so.
const BEFORE: [(&str, &[&str]); 18] = [
    ("pool create", &["pool destroy tank --yes-destroy-all-data"]),
    ("pool import tank", &["volume list tank --host-id 00000002"]),
    (
        "pool detach",
        &["pool attach tank dev/disk/by-id/scsi-a dev/disk/by-id/scsi-c"],
    ),
    (
        "pool remove",
        &["pool add tank spare dev/disk/by-id/scsi-e"],
    ),
    (
        "volume create tank/db/data",
        &["volume destroy tank/db/data --yes-destroy-data"],
    ),
    (
        "volume create tank/db/log",
        &["volume destroy tank/db/log --yes-destroy-data"],
    ),
    (
        "volume destroy",
        &["snapshot destroy tank/vm0@monday --yes-destroy-data"],
    ),
    (
        "volume promote",
        &["snapshot clone tank/vm0@monday tank/copy"],
    ),
    (
        "volume create tank/vm0",
        &["volume destroy tank/vm0 --yes-destroy-data --recursive"],
    ),
    (
        "filesystem create tank/home",
        &[
            "snapshot destroy tank/home@monday --yes-destroy-data",
            "filesystem destroy tank/home --yes-destroy-data",
        ],
    ),
    (
        "filesystem destroy",
        &["snapshot destroy tank/home@monday --yes-destroy-data"],
    ),
    (
        "filesystem promote",
        &["filesystem clone tank/home@monday tank/copy"],
    ),
    (
        "target unmap",
        &["target map iqn.2026-01.org.example:tank tank/vm0"],
    ),
    (
        "target deny",
        &["target allow iqn.2026-01.org.example:tank --everyone"],
    ),
    (
        "target chap clear",
        &[
            "target chap set iqn.2026-01.org.example:tank --user ann --secret-file root/ann.secret",
            "target chap set iqn.2026-01.org.example:tank --user tank --secret-file root/tank.secret",
        ],
    ),
    (
        "target chap mutual",
        &["target chap set iqn.2026-01.org.example:tank --user ann --secret-file root/ann.secret"],
    ),
    (
        "target discovery mutual",
        &["target discovery set tank --user finder --secret-file root/finder.secret"],
    ),
    ("nbd unexport", &["nbd export tank/vm0 --name vm0"]),
];

/// What examples change. A copy of it, as [`world`] made it, is kept in the folder `pristine`.
const CHANGED: &str = "dev srv state";

/// A pool, volumes, a file system, snapshots, a target, and files with secrets.
fn world() -> Machine {
    let machine = Machine::with_disks(&[]);
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
    for volume in ["vm0", "iso", "db/data", "db/log"] {
        machine.ok(&format!(
            "volume create tank/{volume} --size 16M --sparse --parents"
        ));
    }
    machine.ok("snapshot create tank/vm0@monday");
    machine.ok("filesystem create tank/home");
    machine.ok("snapshot create tank/home@monday");
    machine.ok(&format!("target create {TARGET} --pool tank"));
    let keep = format!("mkdir pristine && cp -a --sparse=always {CHANGED} pristine");
    shell(&machine, &keep);
    machine
}

/// The world as it was made: paths stay the same, because labels name them.
fn put_back(machine: &Machine) {
    let words = format!("rm -rf {CHANGED} run && cp -a --sparse=always pristine/. .");
    shell(machine, &words);
}

fn shell(machine: &Machine, words: &str) {
    let mut command = Command::new("sh");
    command
        .args(["-c", words])
        .current_dir(machine.directory.path());
    assert!(command.status().expect("a shell").success(), "{words}");
}

/// The words after `bulkhead` of every example below the command `words`.
fn examples(words: &str, found: &mut Vec<String>) {
    let help = Machine::with_disks(&[]).ok(&format!("{words} --help")).out;
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
        // What is indented further continues a description.
        if line.starts_with("  ") && !line.starts_with("   ") && name != "help" {
            examples(&format!("{words} {name}"), found);
        }
    }
}

/// Runs an example by a shell, with all that is absolute in it moved into the machine.
fn run_in(machine: &Machine, example: &str) -> (bool, String) {
    let mut line = format!("bulkhead {example}");
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
fn every_example_does_what_it_says() {
    let mut all = Vec::new();
    examples("", &mut all);
    all.sort();
    all.dedup();
    assert!(all.len() > 50, "{all:#?}");
    // They ask at the terminal, and there is none.
    for asks in [
        "chap set iqn.2026-01.org.example:tank --user ann",
        "--user ann --initiator iqn.2026-01.org:ann",
        "discovery set tank --user finder",
    ] {
        all.retain(|example| !example.ends_with(asks));
    }
    all.retain(|example| {
        let starts = |(start, _): &(&str, &str)| example.starts_with(start);
        !ELSEWHERE.iter().any(starts)
    });
    let mut failed = Vec::new();
    let machine = world();
    for example in &all {
        put_back(&machine);
        let starts = |(start, _): &&(&str, &[&str])| example.starts_with(start);
        for words in BEFORE.iter().filter(starts).flat_map(|(_, words)| *words) {
            machine.ok(words);
        }
        let (succeeded, said) = run_in(&machine, example);
        if !succeeded || said.trim().is_empty() && !example.contains('>') {
            failed.push(format!("{example}: {said}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// bash fills in nouns, verbs, options and their values.
#[test]
fn bash_completes_what_the_grammar_has() {
    let machine = Machine::with_disks(&[]);
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
