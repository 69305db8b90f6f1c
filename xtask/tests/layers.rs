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
        "engine",
        &["units", "block-device", "labels", "send-stream"],
    ),
    (
        "memory-engine",
        &["units", "block-device", "send-stream", "engine"],
    ),
    (
        "zpool",
        &[
            "units",
            "block-device",
            "labels",
            "send-stream",
            "engine",
            "zpool-sys",
        ],
    ),
    ("serving", &["units", "block-device"]),
    ("telling", &[]),
    ("scsi", &["units", "block-device"]),
    ("iscsi", &["units", "block-device", "serving", "scsi"]),
    ("nbd", &["units", "block-device", "serving"]),
    ("control", &["units"]),
    ("rendering", &["control", "telling"]),
    ("certificates", &["units"]),
    ("appliance", &["units"]),
    ("takeover", &["units"]),
    ("leg-memory", &["takeover"]),
    ("remote-leg", &["units", "nbd", "takeover"]),
    (
        "lender",
        &[
            "units",
            "block-device",
            "labels",
            "nbd",
            "serving",
            "takeover",
        ],
    ),
    ("members", &["certificates", "leg-memory", "takeover"]),
    (
        "bulkhead-witness",
        &["certificates", "members", "takeover", "telling"],
    ),
    (
        "api",
        &["units", "certificates", "control", "appliance", "takeover"],
    ),
    (
        "cluster",
        &[
            "units",
            "labels",
            "control",
            "rendering",
            "appliance",
            "takeover",
        ],
    ),
    (
        "lab",
        &[
            "units",
            "telling",
            "certificates",
            "control",
            "rendering",
            "appliance",
            "cluster",
        ],
    ),
    (
        "drills",
        &[
            "units",
            "telling",
            "control",
            "rendering",
            "appliance",
            "takeover",
            "cluster",
            "lab",
        ],
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
        "operations",
        &[
            "appliance",
            "certificates",
            "control",
            "engine",
            "nbd",
            "send-stream",
            "serving",
            "units",
        ],
    ),
    (
        "pool-access",
        &[
            "agents",
            "api",
            "appliance",
            "cluster",
            "control",
            "engine",
            "labels",
            "operations",
            "rendering",
            "serving",
            "telling",
            "units",
            "zpool",
        ],
    ),
    (
        "pool-server",
        &[
            "api",
            "block-device",
            "cluster",
            "control",
            "engine",
            "iscsi",
            "nbd",
            "operations",
            "pool-access",
            "scsi",
            "serving",
            "telling",
            "units",
            "zpool",
        ],
    ),
    (
        "head",
        &[
            "agents",
            "api",
            "appliance",
            "certificates",
            "cluster",
            "control",
            "drills",
            "engine",
            "nbd",
            "operations",
            "pool-access",
            "rendering",
            "takeover",
            "telling",
            "units",
        ],
    ),
    (
        "bulkhead",
        &[
            "agents",
            "appliance",
            "cluster",
            "control",
            "drills",
            "engine",
            "head",
            "lab",
            "labels",
            "pool-access",
            "pool-server",
            "rendering",
            "takeover",
            "units",
            "zpool",
        ],
    ),
    ("xtask", &[]),
];

/// Faults on purpose, and a pool in memory, are for tests (and drills): any crate may import them there.
const FOR_TESTS: &[&str] = &["storage-faults", "memory-engine"];

/// Who is compared with whom in tests.
const COMPARED: &[(&str, &str)] = &[("memory-engine", "zpool"), ("lender", "remote-leg")];

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
        let is_compared = COMPARED.contains(&(from.as_str(), to.as_str()));
        let excused = for_tests && (FOR_TESTS.contains(&to.as_str()) || is_compared);
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

/// Where the library of an engine may be named: in its own crate, in the folder that starts it, and in tests that look
/// beneath the program.
const NAME_ZFS: &[&str] = &[
    "engines/zpool/",
    "engines/memory-engine/tests/",
    "services/pool-access/src/engines/zfs/",
    "programs/bulkhead/tests/",
];

#[test]
fn only_the_engines_folder_names_its_library() {
    let Some(texts) = xtask::texts("rs") else {
        return;
    };
    let may = |path: &std::path::Path| NAME_ZFS.iter().any(|place| path.starts_with(place));
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    let names = |line: &&str| {
        ["zpool::", "zpool_sys::"]
            .iter()
            .any(|name| code(line).contains(name))
    };
    let others = texts
        .iter()
        .filter(|(path, _)| !may(path) && !path.ends_with("layers.rs"));
    let found: Vec<_> = others
        .flat_map(|(path, text)| {
            text.lines()
                .filter(names)
                .map(move |line| (path.clone(), line.trim().to_owned()))
        })
        .collect();
    assert!(
        found.is_empty(),
        "only an engine's folder names its library: {found:#?}"
    );
}
