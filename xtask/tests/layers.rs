//! The direction of imports between crates: downward only.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::process::Command;

/// Each crate with the workspace crates it may import. What is not listed may not be imported.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("block-device", &["units"]),
    ("storage-faults", &["units", "block-device"]),
    ("send-stream", &[]),
    ("labels", &[]),
    ("zpool-sys", &[]),
    (
        "zpool",
        &[
            "units",
            "block-device",
            "labels",
            "send-stream",
            "zpool-sys",
        ],
    ),
    ("serving", &["units", "block-device"]),
    ("telling", &[]),
    ("scsi", &["units", "block-device"]),
    ("iscsi", &["units", "block-device", "serving", "scsi"]),
    ("nbd", &["units", "block-device", "serving"]),
    ("control", &["units"]),
    ("certificates", &[]),
    ("appliance", &["units"]),
    ("takeover", &["units"]),
    (
        "api",
        &["units", "certificates", "control", "appliance", "takeover"],
    ),
    ("cluster", &["units", "appliance", "takeover"]),
    ("lab", &["units", "certificates", "appliance", "cluster"]),
    (
        "drills",
        &["units", "appliance", "takeover", "cluster", "lab"],
    ),
    (
        "agents",
        &[
            "units",
            "labels",
            "control",
            "appliance",
            "takeover",
            "cluster",
            "telling",
        ],
    ),
    (
        "bulkhead",
        &[
            "units",
            "certificates",
            "block-device",
            "serving",
            "telling",
            "send-stream",
            "zpool",
            "scsi",
            "iscsi",
            "nbd",
            "control",
            "api",
            "appliance",
            "takeover",
            "cluster",
            "agents",
            "drills",
            "lab",
        ],
    ),
    ("xtask", &[]),
];

/// Faults on purpose are for tests (and drills): any crate may import them there.
const FOR_TESTS: &[&str] = &["storage-faults"];

struct Import {
    from: String,
    to: String,
    for_tests: bool,
}

fn imports() -> Vec<Import> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(xtask::root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let mut imports = Vec::new();
    for package in packages {
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            if dependency["path"].is_string() {
                imports.push(Import {
                    from: package["name"].as_str().expect("name").to_owned(),
                    to: dependency["name"].as_str().expect("name").to_owned(),
                    for_tests: dependency["kind"] == "dev",
                });
            }
        }
    }
    imports
}

#[test]
fn an_upward_import_is_refused() {
    let allowed: BTreeMap<&str, &[&str]> = MAY_IMPORT.iter().copied().collect();
    let mut wrong = Vec::new();
    for Import {
        from,
        to,
        for_tests,
    } in imports()
    {
        let targets = allowed.get(from.as_str());
        let listed = targets.is_some_and(|targets| targets.contains(&to.as_str()));
        let excused = for_tests && FOR_TESTS.contains(&to.as_str());
        if !(listed || excused) {
            wrong.push(format!("{from} imports {to}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "against the layers of docs/ARCHITECTURE.md: {wrong:#?}"
    );
}

#[test]
fn the_table_itself_goes_downward() {
    let rank = |name: &str| MAY_IMPORT.iter().position(|(listed, _)| *listed == name);
    for (from, targets) in MAY_IMPORT {
        for to in *targets {
            assert!(
                rank(to) < rank(from),
                "{from} stands above {to} in the table"
            );
        }
    }
}
