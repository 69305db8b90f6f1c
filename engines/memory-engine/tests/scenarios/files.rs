//! File systems: their creation, and their stored properties.

use engine::dataset::{FileSystemSpec, Value};
use file_system::{Identity, Make, SetAttributes};

use super::{Bench, any, has, snapshot, volume};

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};

/// Names in the root directory of a file system, with its owner, group and mode.
fn look(bench: &mut Bench<'_>, step: &str, name: &str) {
    let opened = has(bench.pool().files()).open_file_system(any(name), false);
    let Some(opened) = bench.done(step, opened) else {
        return;
    };
    let files = opened.files();
    let root = files.attributes(files.root()).expect("a root");
    let mut names = Vec::new();
    let listed = files.read_directory(&ROOT, files.root(), 0, &mut |entry| {
        names.push(String::from_utf8_lossy(entry.name).into_owned());
        true
    });
    names.sort();
    let owner = (root.uid, root.gid, root.mode);
    bench.log_line(step, &format!("{listed:?} {names:?} {owner:?}"));
}

fn add(bench: &Bench<'_>, name: &str, file: &str) {
    let opened = has(bench.pool().files()).open_file_system(any(name), false);
    let opened = opened.expect("open");
    let files = opened.files();
    let (root, none) = (files.root(), SetAttributes::default());
    let made = files.make(&ROOT, root, file.as_bytes(), Make::File, &none, None);
    made.expect("a new file");
}

pub fn file_systems(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("file_systems{rest}");
    let plain = |rest: &str| FileSystemSpec::plain(volume(&name(rest)));
    let with = |rest: &str, property: &str, value: Value| FileSystemSpec {
        properties: vec![(property.to_owned(), value)],
        ..plain(rest)
    };
    for (step, spec) in [
        ("plain", plain("/a")),
        ("again", plain("/a")),
        ("without a parent", plain("/none/a")),
        (
            "a record of no power of two",
            with("/b", "recordsize", Value::Number(100_000)),
        ),
        (
            "too large a record",
            with("/b", "recordsize", Value::Number(32 << 20)),
        ),
        (
            "a size of a volume",
            with("/b", "volsize", Value::Number(1 << 20)),
        ),
        (
            "too little room",
            with("/b", "reservation", Value::Number(1 << 50)),
        ),
        ("what is fixed", with("/b", "utf8only", Value::from("on"))),
        (
            "shared",
            with("/a/shared", "sharenfs", Value::from("rw=192.0.2.0/24")),
        ),
        (
            "someone's",
            FileSystemSpec {
                owner: 1000,
                group: 100,
                mode: 0o2770,
                utf8_only: true,
                ..with("/a/ann", "recordsize", Value::Number(1 << 20))
            },
        ),
    ] {
        let made = has(bench.pool().files()).create_file_system(&spec);
        bench.done(step, made);
    }
    look(bench, "a plain one", &name("/a"));
    look(bench, "someone's own", &name("/a/ann"));
    let found = bench.pool().dataset_properties(any(&name("/a/ann")));
    let found = found.expect("properties");
    for property in [
        "recordsize",
        "sharenfs",
        "utf8only",
        "casesensitivity",
        "normalization",
    ] {
        bench.log_line(property, &format!("{:?}", found.get(property)));
    }
    let set = [("sharenfs".to_owned(), Value::from("ro=192.0.2.7"))];
    let done = bench.pool().set_dataset_properties(any(&name("/a")), &set);
    bench.done("share above", done);
    let found = bench.pool().dataset_properties(any(&name("/a/ann")));
    bench.log_line(
        "inherited",
        &format!("{:?}", found.expect("properties").get("sharenfs")),
    );
    let mut shares = bench
        .pool()
        .user_properties("sharenfs")
        .expect("properties");
    shares.retain(|of, _| of.starts_with(&name("")));
    bench.log_line("shares", &format!("{shares:?}"));

    add(bench, &name("/a"), "before");
    let taken = bench.pool().snapshot(&[snapshot(&name("/a@s"))]);
    bench.done("snapshot", taken);
    add(bench, &name("/a"), "after");
    let clone = volume(&name("/clone"));
    let limit = [("refquota".to_owned(), Value::Number(64 << 20))];
    let cloned = bench
        .pool()
        .clone_snapshot(&snapshot(&name("/a@s")), &clone, &limit);
    bench.done("clone", cloned);
    look(bench, "the clone", &name("/clone"));
    look(bench, "the original", &name("/a"));
    let back = bench.pool().rollback(&snapshot(&name("/a@s")));
    bench.done("roll back", back);
    look(bench, "as it was", &name("/a"));
    let opened = has(bench.pool().files()).open_file_system(any(&name("/a")), false);
    let back = bench.pool().rollback(&snapshot(&name("/a@s")));
    bench.done("roll back one that is open", back);
    drop(opened);
}
