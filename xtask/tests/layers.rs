//! The direction of imports between crates: downward only.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::process::Command;

/// Each crate with the workspace crates it may import. What is not listed may not be imported.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("protocol-list", &[]),
    ("block-device", &["units"]),
    ("file-system", &["block-device"]),
    ("storage-faults", &["units", "block-device"]),
    ("send-stream", &[]),
    ("labels", &[]),
    ("guest-disk", &["labels"]),
    ("zpool-sys", &[]),
    ("zpl", &["block-device", "file-system"]),
    ("engine", &["units", "block-device", "file-system"]),
    (
        "memory-engine",
        &["units", "block-device", "file-system", "engine"],
    ),
    (
        "zpool",
        &[
            "units",
            "block-device",
            "labels",
            "send-stream",
            "engine",
            "file-system",
            "zpl",
            "zpool-sys",
        ],
    ),
    ("serving", &["units", "block-device"]),
    ("output", &[]),
    ("growth", &["units"]),
    ("hardware", &["units"]),
    ("network-drops", &["units"]),
    ("reservations", &[]),
    ("scsi", &["units", "block-device", "reservations"]),
    ("iscsi", &["units", "block-device", "serving", "scsi"]),
    ("nbd", &["units", "block-device", "serving"]),
    ("kerberos", &[]),
    (
        "nfs",
        &["block-device", "file-system", "kerberos", "serving"],
    ),
    ("fuse", &["file-system"]),
    ("control", &["protocol-list", "units"]),
    ("rendering", &["control", "protocol-list", "output"]),
    ("leg-door", &["control", "engine", "units"]),
    ("certificates", &["units"]),
    ("takeover", &["units"]),
    ("leg-record", &[]),
    ("legs-config", &["units", "certificates", "leg-record"]),
    (
        "appliance",
        &[
            "legs-config",
            "protocol-list",
            "leg-record",
            "takeover",
            "units",
        ],
    ),
    ("leg-memory", &["leg-record", "takeover"]),
    ("remote-leg", &["units", "nbd", "leg-record"]),
    (
        "lender",
        &[
            "units",
            "block-device",
            "labels",
            "nbd",
            "serving",
            "leg-record",
        ],
    ),
    (
        "members",
        &["certificates", "leg-memory", "leg-record", "takeover"],
    ),
    (
        "bulkhead-witness",
        &["certificates", "members", "leg-record", "output"],
    ),
    (
        "legs",
        &[
            "certificates",
            "control",
            "leg-memory",
            "members",
            "leg-record",
            "takeover",
        ],
    ),
    (
        "leg-zfs",
        &[
            "certificates",
            "engine",
            "legs",
            "legs-config",
            "remote-leg",
            "leg-record",
            "takeover",
            "units",
            "zpool",
        ],
    ),
    (
        "leg-server",
        &[
            "certificates",
            "control",
            "labels",
            "leg-door",
            "leg-memory",
            "legs-config",
            "lender",
            "members",
            "nbd",
            "rendering",
            "serving",
            "leg-record",
            "output",
        ],
    ),
    (
        "api",
        &[
            "hardware",
            "network-drops",
            "units",
            "certificates",
            "control",
            "appliance",
            "protocol-list",
            "takeover",
        ],
    ),
    (
        "cluster",
        &[
            "units",
            "hardware",
            "legs-config",
            "control",
            "rendering",
            "appliance",
            "takeover",
        ],
    ),
    (
        "ceph-growth",
        &["units", "growth", "control", "rendering", "cluster"],
    ),
    (
        "drop-watch",
        &["network-drops", "cluster", "control", "output", "rendering"],
    ),
    (
        "network-bench",
        &[
            "units",
            "network-drops",
            "cluster",
            "control",
            "drop-watch",
            "output",
            "rendering",
        ],
    ),
    (
        "lab",
        &[
            "units",
            "output",
            "certificates",
            "control",
            "rendering",
            "appliance",
            "cluster",
        ],
    ),
    ("drill-verdict", &["units", "appliance", "takeover"]),
    (
        "drills",
        &[
            "units",
            "output",
            "control",
            "rendering",
            "appliance",
            "takeover",
            "cluster",
            "drill-verdict",
            "lab",
        ],
    ),
    (
        "agents",
        &[
            "units",
            "labels",
            "leg-door",
            "control",
            "appliance",
            "takeover",
            "cluster",
            "output",
        ],
    ),
    (
        "operations",
        &[
            "appliance",
            "certificates",
            "control",
            "engine",
            "file-system",
            "leg-door",
            "nbd",
            "nfs",
            "protocol-list",
            "serving",
            "units",
        ],
    ),
    (
        "leg-admin",
        &[
            "certificates",
            "control",
            "engine",
            "leg-door",
            "leg-memory",
            "leg-zfs",
            "legs",
            "legs-config",
            "members",
            "operations",
            "leg-record",
            "units",
        ],
    ),
    (
        "pool-access",
        &[
            "agents",
            "api",
            "control",
            "engine",
            "fuse",
            "leg-door",
            "operations",
            "protocol-list",
            "rendering",
            "serving",
            "output",
            "units",
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
            "file-system",
            "guest-disk",
            "iscsi",
            "leg-door",
            "nbd",
            "nfs",
            "operations",
            "pool-access",
            "protocol-list",
            "rendering",
            "scsi",
            "serving",
            "takeover",
            "output",
            "units",
        ],
    ),
    (
        "zfs-start",
        &[
            "control",
            "engine",
            "leg-admin",
            "pool-access",
            "units",
            "zpool",
        ],
    ),
    ("notifications", &["api", "appliance", "control"]),
    (
        "head",
        &[
            "drop-watch",
            "hardware",
            "network-drops",
            "agents",
            "api",
            "appliance",
            "certificates",
            "cluster",
            "control",
            "drill-verdict",
            "engine",
            "notifications",
            "serving",
            "operations",
            "pool-access",
            "rendering",
            "takeover",
            "output",
            "units",
        ],
    ),
    (
        "bulkhead",
        &[
            "agents",
            "appliance",
            "ceph-growth",
            "cluster",
            "control",
            "drills",
            "drop-watch",
            "engine",
            "head",
            "lab",
            "leg-record",
            "leg-server",
            "network-bench",
            "labels",
            "pool-access",
            "pool-server",
            "protocol-list",
            "rendering",
            "takeover",
            "output",
            "units",
            "zfs-start",
            "zpool",
        ],
    ),
    ("xtask", &[]),
];

/// Faults on purpose, and a pool in memory, are for tests (and drills): any crate may import them there.
const FOR_TESTS: &[&str] = &["storage-faults", "memory-engine"];

/// Who is compared with whom in tests, or takes its client.
const COMPARED: &[(&str, &str)] = &[
    ("memory-engine", "zpool"),
    ("lender", "remote-leg"),
    ("lender", "certificates"),
    // Volumes of its tests.
    ("leg-zfs", "block-device"),
    ("nfs", "certificates"),
    ("notifications", "certificates"),
    // The client of its tests.
    ("bulkhead", "nfs"),
];

/// The crates behind the door of legs. [`LEG_CRATES`] may import them, and the crates listed here with a reason; all others know of legs by
/// `leg-door`, and by the configuration (`legs-config`) and the record (`leg-record`), which are pure.
const LEG_INTERNALS: &[&str] = &[
    "leg-admin",
    "leg-memory",
    "leg-server",
    "leg-zfs",
    "legs",
    "lender",
    "members",
    "remote-leg",
];
const LEG_CRATES: &[&str] = &[
    "bulkhead-witness",
    "leg-admin",
    "leg-memory",
    "leg-server",
    "leg-zfs",
    "legs",
    "lender",
    "members",
    "remote-leg",
];
const LEG_IMPORT_EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("zfs-start", "leg-admin", "starts the engine"),
    ("bulkhead", "leg-server", "is the program"),
];
/// Who knows of legs what the door says, and neither the record nor the configuration.
const MUST_NOT_NAME_RECORD: &[&str] = &[
    "services/agents/src/",
    "services/operations/src/",
    "services/pool-access/src/",
    "services/pool-server/src/",
    "programs/bulkhead/src/",
];
/// Workspace crates that `pool-access` imports at most.
const POOL_ACCESS_IMPORTS_MAX: usize = 12;

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
fn layer_table_is_acyclic() {
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

#[test]
fn legs_are_imported_only_through_the_facade() {
    let is_in = |list: &[&str], name: &str| list.contains(&name);
    let is_excused = |import: &Import| {
        let mut excused = LEG_IMPORT_EXCEPTIONS.iter();
        excused.any(|(from, to, _)| (*from, *to) == (import.from.as_str(), import.to.as_str()))
    };
    let wrong: Vec<String> = imports()
        .iter()
        .filter(|import| is_in(LEG_INTERNALS, &import.to) && !is_in(LEG_CRATES, &import.from))
        .filter(|import| !is_excused(import))
        .map(|import| format!("{} imports {}", import.from, import.to))
        .collect();
    assert!(wrong.is_empty(), "go by leg-door: {wrong:#?}");
    let Some(texts) = xtask::texts("rs") else {
        return;
    };
    let knows =
        |path: &std::path::Path| MUST_NOT_NAME_RECORD.iter().any(|one| path.starts_with(one));
    let of_record = ["leg_record::", "legs_config::"];
    let names = |text: &str| of_record.iter().any(|name| text.contains(name));
    let found: Vec<_> = texts
        .iter()
        .filter(|(path, text)| knows(path) && names(text))
        .map(|(path, _)| path)
        .collect();
    assert!(found.is_empty(), "go by leg-door: {found:#?}");
}

#[test]
fn pool_access_crates_have_few_imports() {
    let of_it = |import: &Import| import.from == "pool-access" && !import.for_tests;
    let count = imports().into_iter().filter(of_it).count();
    assert!(
        count <= POOL_ACCESS_IMPORTS_MAX,
        "pool-access imports {count} crates of the workspace"
    );
}

/// Where the crates of one engine may be named: in themselves, in the folder that starts the engine, behind the door of legs, and in
/// tests that look beneath the program.
const NAME_ZFS: &[(&str, &str)] = &[
    ("engines/zpool/", "the engine"),
    ("engines/labels/", "its labels"),
    ("engines/send-stream/", "its streams"),
    ("engines/memory-engine/tests/", "both engines are compared"),
    ("engines/guest-disk/", "a guest's disk can have its labels"),
    ("legs/", "legs are devices of the engine, with its labels"),
    ("services/zfs-start/", "starts the engine"),
    (
        "services/agents/",
        "tells whose a pool is by its labels, with every daemon dead",
    ),
    ("programs/bulkhead/tests/", "looks at disks"),
    ("fuzz/", "its parsers are attacked"),
];

#[test]
fn only_engines_name_libzpool() {
    let Some(texts) = xtask::texts("rs") else {
        return;
    };
    let may = |path: &std::path::Path| {
        let mut places = NAME_ZFS.iter();
        places.any(|(place, _)| path.starts_with(place))
    };
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    let names = |line: &&str| {
        ["zpool::", "zpool_sys::", "labels::", "send_stream::"]
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

/// Where a protocol may be named that stands in the list of protocols. A new one adds the rows of its own operations, and a row of what
/// knows it beyond what is true of every protocol.
const NAME_PROTOCOLS: &[(&str, &str)] = &[
    ("core/protocol-list/", "the list, and a description each"),
    (
        "services/pool-server/src/inspect.rs",
        "what is looked at is shown over NBD, by a server of its own",
    ),
    (
        "core/control/src/operations/",
        "its operations, and examples of options",
    ),
    ("core/control/src/request.rs", "its operations are requests"),
    (
        "core/control/src/answer.rs",
        "what its operations answer, and older names of listeners",
    ),
    ("core/control/src/exports/", "its documents"),
    ("core/appliance/src/file.rs", "an older name of its TLS"),
    ("core/units/src/", "the names of its targets"),
    ("protocols/", "the protocol itself"),
    (
        "engines/memory-engine/src/native.rs",
        "a value of a property of ZFS is called after it",
    ),
    ("legs/remote/", "a disk of another head is reached by NBD"),
    ("legs/server/", "disks are lent by NBD"),
    (
        "services/pool-access/src/confine/view.rs",
        "file systems of the kernel, of which a lookup may wait, are called after it",
    ),
    ("legs/zfs/src/", "disks of other heads are reached by NBD"),
    (
        "services/pool-access/src/client_export.rs",
        "its operations in one step, and the commands of its clients",
    ),
    (
        "services/pool-access/src/promotions.rs",
        "an export of an original by it has no identity that a promotion could compare",
    ),
    (
        "services/pool-access/src/mount/",
        "what to mount by where a server has the pool",
    ),
    (
        "services/operations/src/lib.rs",
        "its operations are performed",
    ),
    (
        "services/operations/src/capabilities.rs",
        "what its operations demand of an engine",
    ),
    ("services/operations/src/nbd.rs", "its operations"),
    ("services/operations/src/target.rs", "its operations"),
    (
        "services/operations/src/filesystem.rs",
        "whom a file system is shared with is checked when it is set",
    ),
    (
        "services/operations/src/in_use.rs",
        "whom its operations cut off",
    ),
    (
        "services/operations/src/status.rs",
        "the status of a pool that no server has",
    ),
    (
        "services/operations/src/replicate/",
        "targets go along with a copy",
    ),
    (
        "services/operations/src/key.rs",
        "commands that its operations are",
    ),
    (
        "services/operations/src/block_class.rs",
        "devices of the kernel",
    ),
    ("legs/lender/", "a disk is lent by NBD"),
    (
        "services/api/src/sampler.rs",
        "counts what its operations answer",
    ),
    (
        "services/api/src/view.rs",
        "counts what its operations answer",
    ),
    ("services/pool-server/src/servers/", "its server"),
    ("services/pool-server/src/args.rs", "examples of options"),
    (
        "services/pool-server/src/rescue",
        "a rescue is reached by a socket of its own",
    ),
    (
        "core/rendering/src/answers.rs",
        "prints what its operations answer",
    ),
    (
        "core/rendering/src/lists.rs",
        "the tables of lists, with those of each protocol",
    ),
    (
        "programs/bulkhead/src/cli/mod.rs",
        "its operations are commands",
    ),
    (
        "programs/bulkhead-ceph/src/cli.rs",
        "its operations are commands",
    ),
    ("drills/runner/src/kinds/", "a kind of client each"),
    ("fuzz/", "its parsers are attacked"),
];

/// The names in the list of `core/protocol-list/src/lib.rs`.
fn protocols() -> Vec<String> {
    let list = include_str!("../../core/protocol-list/src/lib.rs");
    let names = list
        .split_once("$then! {")
        .and_then(|(_, rest)| rest.split_once('}'));
    let (names, _) = names.expect("the list");
    let names = names.split(',').map(|name| name.trim().to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

/// The lines of code that name one of `protocols` before the tests of a file begin, in any spelling. What a thing is called decides
/// nothing: the type of a target's name may be named, and so may a property of datasets.
fn naming<'a>(text: &'a str, protocols: &[String]) -> Vec<&'a str> {
    let code = text.split("\nmod tests {").next().unwrap_or_default();
    let names = |line: &&str| {
        let line = line.split("//").next().unwrap_or_default();
        let line = line.replace("IscsiName", "").to_lowercase();
        // A property of kernel ZFS.
        let line = line.replace("sharenfs", "");
        protocols.iter().any(|name| line.contains(name))
    };
    code.lines().filter(names).collect()
}

#[test]
fn protocol_independent_code_names_no_protocol() {
    let Some(texts) = xtask::texts("rs") else {
        return;
    };
    let protocols = protocols();
    assert!(protocols.len() > 1, "the list is read");
    let is_test = |path: &std::path::Path| {
        path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
    };
    let may = |path: &std::path::Path| {
        let mut places = NAME_PROTOCOLS.iter();
        places.any(|(place, _)| path.to_string_lossy().starts_with(place))
    };
    let mut found = Vec::new();
    for (path, text) in texts
        .iter()
        .filter(|(path, _)| !is_test(path) && !may(path))
    {
        let lines = naming(text, &protocols).into_iter();
        found.extend(lines.map(|line| format!("{}: {}", path.display(), line.trim())));
    }
    assert!(
        found.is_empty(),
        "go by the list of core/protocol-list, or say why not in NAME_PROTOCOLS: {found:#?}"
    );
    for (place, why) in NAME_PROTOCOLS {
        let mut of_it = texts
            .iter()
            .filter(|(path, _)| path.to_string_lossy().starts_with(place));
        assert!(
            of_it.any(|(_, text)| !naming(text, &protocols).is_empty()),
            "nothing in {place} names a protocol ({why})"
        );
    }
}
