//! The rendered examples, compared with reviewed files, and checked by the stock tools of Corosync
//! and Pacemaker where they are installed.
//!
//! `BLESS=1 scripts/cargo.sh nextest run -p appliance` rewrites the files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use appliance::plan::{empty_cib, merged};
use appliance::render::{
    address_agent_script, agent_script, cib, corosync_conf, fence_agent_script, legs_toml,
};
use appliance::{Appliance, parse, reference};

const EXAMPLES: [&str; 10] = [
    "pair",
    "two-pools",
    "eight-pools",
    "witness",
    "virtual",
    "single",
    "legs-two-heads",
    "legs-two-heads-witness",
    "legs-three-heads",
    "legs-eight-pools",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> Appliance {
    let path = root().join("examples").join(format!("{name}.toml"));
    let text = fs::read_to_string(&path).expect("the example can be read");
    match parse(&text) {
        Ok(parsed) => parsed.appliance,
        Err(finding) => panic!("{}: {finding}", path.display()),
    }
}

fn golden(path: &Path, text: &str) {
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, text).expect("the file can be written");
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert!(
        expected == text,
        "{} is out of date: run with BLESS=1 and review the difference",
        path.display()
    );
}

fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn cib_of(name: &str) -> String {
    merged(&empty_cib(), &cib(&example(name))).to_string()
}

#[test]
fn examples_match_the_golden_files() {
    for name in EXAMPLES {
        let conf = corosync_conf(&example(name));
        golden(&golden_dir().join(format!("{name}.corosync.conf")), &conf);
        golden(&golden_dir().join(format!("{name}.cib.xml")), &cib_of(name));
        let left = "left".parse().expect("a name");
        if let Some(legs) = legs_toml(&example(name), &left) {
            golden(&golden_dir().join(format!("{name}.legs.toml")), &legs);
        }
    }
}

/// Packages install the same files as `apply` writes, so that a plan after an installation is
/// empty.
#[test]
fn packaged_agents_equal_rendered_agents() {
    let program = Path::new("/usr/bin/bulkhead");
    golden(&root().join("packaging/ocf/pool"), &agent_script(program));
    let text = address_agent_script(program);
    golden(&root().join("packaging/ocf/address"), &text);
    let text = fence_agent_script(program);
    golden(&root().join("packaging/fence/fence_bulkhead"), &text);
}

#[test]
fn schema_and_reference_match_the_types() {
    golden(
        &root().join("docs/formats/appliance.schema.json"),
        &reference::schema_text(),
    );
    golden(
        &root().join("docs/formats/appliance.md"),
        &reference::markdown(),
    );
}

/// Returns whether a binary is installed, and prints a note where it is not.
fn is_installed(program: &str) -> bool {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path)
            .chain([PathBuf::from("/usr/sbin")])
            .any(|folder| folder.join(program).exists())
    });
    if !found {
        eprintln_skip(program);
    }
    found
}

#[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn eprintln_skip(program: &str) {
    eprintln!("skipped: {program} is not installed");
}

fn run(program: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env_remove("CIB_file")
        .output()
        .expect("an installed binary runs");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn crm_verify_accepts_the_examples() {
    if !is_installed("crm_verify") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for name in EXAMPLES {
        let path = folder.path().join("cib.xml");
        fs::write(&path, cib_of(name)).expect("the file can be written");
        let path = path.to_str().expect("plain text");
        let (ok, said) = run("crm_verify", &["-V", "-x", path]);
        assert!(ok && said.trim().is_empty(), "{name}: {said}");
    }
}

#[test]
fn corosync_accepts_the_examples() {
    if !is_installed("corosync") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for name in EXAMPLES {
        let path = folder.path().join("corosync.conf");
        // The key is read even in a dry run.
        let key = folder.path().join("authkey");
        fs::write(&key, [7; 256]).expect("the file can be written");
        let (_, host) = run("uname", &["-n"]);
        // Corosync must find its own address in the list.
        let conf = corosync_conf(&example(name))
            .replacen("name: left", &format!("name: {}", host.trim()), 1)
            .replace("to_stderr: no", "to_stderr: yes")
            .replace(
                "totem {\n",
                &format!("totem {{\n    keyfile: {}\n", key.display()),
            );
        fs::write(&path, conf).expect("the file can be written");
        let (ok, said) = run(
            "corosync",
            &["-t", "-c", path.to_str().expect("plain text")],
        );
        assert!(ok, "{name}: {said}");
    }
}

/// Pacemaker's own scheduler simulates the loss of a head: it is powered off before its pool starts
/// on another head, addresses follow their pool, and nothing else moves.
#[test]
fn takeover_fences_first_and_adds_addresses_last() {
    if !is_installed("crm_simulate") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (start, running, after) = (file("start.xml"), file("running.xml"), file("after.xml"));
    fs::write(&start, cib_of("two-pools")).expect("the file can be written");
    let up = [
        "-x", &start, "-S", "-q", "true", "-u", "left", "-u", "right", "-O", &running,
    ];
    let (ok, said) = run("crm_simulate", &up);
    assert!(ok, "{said}");
    assert_ordered(
        &said,
        &[
            "pool-tank start on left",
            "address-10.77.1.100 start on left",
        ],
    );
    assert_ordered(
        &said,
        &[
            "pool-vault start on right",
            "address-10.77.1.101 start on right",
        ],
    );

    let (ok, said) = run(
        "crm_simulate",
        &["-x", &running, "-S", "-f", "left", "-O", &after],
    );
    assert!(ok, "{said}");
    assert_ordered(
        &said,
        &[
            "Fencing left (off)",
            "pool-tank start on right",
            "address-10.77.1.100 start on right",
        ],
    );
    assert!(!summary(&said).contains("pool-vault"), "{said}");

    // The head rejoins: no resource fails back without a request.
    let (ok, said) = run("crm_simulate", &["-x", &after, "-S", "-u", "left"]);
    assert!(ok, "{said}");
    assert!(!summary(&said).contains("pool-tank"), "{said}");
}

/// Both heads of the example run, and then these results arrive; returns the decision of the
/// scheduler.
fn after(folder: &Path, results: &[&str]) -> String {
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (start, running) = (file("start.xml"), file("running.xml"));
    fs::write(&start, cib_of("two-pools")).expect("the file can be written");
    let up = [
        "-x", &start, "-S", "-q", "true", "-u", "left", "-u", "right", "-O", &running,
    ];
    let (ok, said) = run("crm_simulate", &up);
    assert!(ok, "{said}");
    let mut words = vec!["-x", &running, "-S"];
    words.extend(results.iter().flat_map(|one| ["-i", *one]));
    let (ok, said) = run("crm_simulate", &words);
    assert!(ok, "{said}");
    said
}

/// Each retry can take as long as a fence, and would delay all other actions.
#[test]
fn failed_fence_device_start_is_not_retried_in_a_loop() {
    if !is_installed("crm_simulate") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let said = after(folder.path(), &["fence-left-bmc_monitor_60000@right=1"]);
    let starts = |said: &str| said.contains("fence-left-bmc start on");
    let squeezed = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!starts(&squeezed), "{said}");
    assert!(!squeezed.contains("Fencing"), "{said}");
    assert!(!summary(&said).contains("pool-"), "{said}");
}

/// An address that its head cannot have moves the pool to the other head, and the failure is not repeated endlessly.
#[test]
fn address_failure_moves_the_pool() {
    if !is_installed("crm_simulate") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // 2: the head has no such interface.
    let said = after(folder.path(), &["address-10.77.1.100_monitor_10000@left=2"]);
    assert_ordered(
        &said,
        &["pool-tank stop on left", "pool-tank start on right"],
    );
    assert!(!said.contains("Fencing"), "{said}");
}

/// On a busy head Pacemaker starts resources one after the other: clients do not wait for fence devices of the third
/// head.
#[test]
fn pool_starts_before_fence_devices_of_the_lost_head() {
    if !is_installed("crm_simulate") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (start, running, graph) = (file("start.xml"), file("running.xml"), file("graph.xml"));
    fs::write(&start, cib_of("legs-three-heads")).expect("the file can be written");
    let heads = ["-u", "left", "-u", "middle", "-u", "right"];
    let up = ["-x", &start, "-S", "-q", "true", "-O", &running];
    let (ok, said) = run("crm_simulate", &[&up[..], &heads[..]].concat());
    assert!(ok, "{said}");
    let lost = ["-x", &running, "-S", "-f", "left", "-G", &graph];
    let (ok, said) = run("crm_simulate", &lost);
    assert!(ok, "{said}");
    let graph = fs::read_to_string(&graph).expect("a graph");
    let at = |operation: &str| graph.find(operation);
    let (pool, device) = (at("pool-tank_start_0"), at("-bmc_start_0"));
    assert!(pool.is_some() && device.is_some(), "{said}");
    assert!(pool < device, "{graph}");
    assert!(at("address-10.77.1.100_start_0") < device, "{graph}");
}

/// Returns the decision of the scheduler, without the steps.
fn summary(said: &str) -> &str {
    let from = said.find("Transition Summary").expect("a summary");
    let rest = &said[from..];
    rest.split("Executing").next().unwrap_or(rest)
}

#[track_caller]
fn assert_ordered(text: &str, parts: &[&str]) {
    // "* Resource action: pool-tank start on left" is printed in columns.
    let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut from = 0;
    for part in parts {
        match squeezed[from..].find(part) {
            Some(at) => from += at + part.len(),
            None => panic!("{part:?} does not follow in:\n{text}"),
        }
    }
}
