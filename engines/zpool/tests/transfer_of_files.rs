//! Sends and receives of file systems: the tree arrives unchanged, the users' usage is counted, and no forged stream
//! terminates the process.

mod support;

use std::fmt::Write as _;
use std::process::Command;

use engine::capabilities::{Datasets, FileSystems, Keys, Receiving, Sending, Snapshotting};
use engine::dataset::{DatasetKind, DatasetRef, FileSystemSpec};
use engine::keys::{KeyFormat, KeyMaterial, NewKey};
use engine::transfer::{Base, ReceiveSpec, SendForm, SendSpec};
use file_system::{FileSystem, Guard, Identity, Kind, Make, Node, SetAttributes, SetExtended};
use support::records::{records, with_checksums};
use support::{Parts, export, isolated, part, two_pools};
use units::{SnapshotName, VolumeName};
use zpool::Pool;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};

fn volume(name: &str) -> VolumeName {
    name.parse().expect("a name")
}

fn create(pool: &Pool, name: &str, key: Option<NewKey>) {
    let spec = FileSystemSpec {
        name: volume(name),
        owner: 0,
        group: 0,
        mode: 0o755,
        utf8_only: false,
        properties: Vec::new(),
        key,
    };
    pool.create_file_system(&spec).expect("create");
}

fn material() -> KeyMaterial {
    KeyMaterial::new(KEY.as_bytes().to_vec().into())
}

fn key() -> NewKey {
    NewKey {
        suite: Some("aes-256-gcm".to_owned()),
        format: KeyFormat::Hex,
        material: material(),
        iterations: None,
        location: "prompt".to_owned(),
    }
}

/// Creates files that differ by `seed`: small and large ones, with holes, owners and attributes, one of them with long
/// ones if `with_long`.
fn change(pool: &Pool, name: &str, seed: u32, with_long: bool) {
    let opened = pool.open_file_system((&volume(name)).into(), false);
    let opened = opened.expect("open");
    let files = opened.files();
    let none = SetAttributes::default();
    let make = |directory: Node, name: String, what: Make<'_>| {
        let made = files.make(&ROOT, directory, name.as_bytes(), what, &none, None);
        made.expect("made").object.node
    };
    let directory = make(files.root(), format!("directory-{seed}"), Make::Directory);
    make(directory, "link".to_owned(), Make::Link(b"to/somewhere"));
    for number in 0..60 {
        let file = make(directory, format!("file-{number}"), Make::File);
        let bytes = vec![seed as u8; 700 * (number + 1)];
        files.write(file, 0, &bytes).expect("room");
        let owner = SetAttributes {
            uid: Some(1000 + seed),
            gid: Some(100),
            ..SetAttributes::default()
        };
        let set = files.set_attributes(&ROOT, file, &owner, &Guard::default(), None);
        set.expect("root may");
        // One of them needs a spill block for its attributes.
        let is_long = with_long && number == 1;
        let value = vec![7; if is_long { 9_000 } else { 50 }];
        let set = files.set_extended(&ROOT, file, b"color", &value, SetExtended::Create, None);
        set.expect("room");
    }
    let large = make(directory, "large".to_owned(), Make::File);
    let mut noise = vec![0; 1 << 20];
    fastrand::Rng::with_seed(seed.into()).fill(&mut noise);
    files.write(large, 5 << 20, &noise).expect("room");
    files.commit(None).expect("durable");
    opened.close();
}

/// The whole contents of a snapshot, as text.
fn tree(pool: &Pool, snapshot: &SnapshotName) -> String {
    let opened = pool.open_file_system(DatasetRef::from(snapshot), true);
    let opened = opened.expect("open");
    let files = opened.files();
    let mut text = String::new();
    describe(&*files, files.root(), "", &mut text);
    opened.close();
    text
}

fn describe(files: &dyn FileSystem, node: Node, path: &str, text: &mut String) {
    let known = files.attributes(node).expect("there");
    let names = files.extended_names(&ROOT, node).unwrap_or_default();
    let extended = names.iter().map(|name| files.extended(&ROOT, node, name));
    let extended: Vec<_> = extended
        .map(|value| value.map(|value| value.len()))
        .collect();
    write!(
        text,
        "{path} {node:?} {:?} {:o} {} {} {} {} {extended:?}",
        known.kind, known.mode, known.uid, known.gid, known.size, known.links
    )
    .expect("text");
    match known.kind {
        Kind::File => {
            let mut bytes = vec![0; known.size as usize];
            let read = files.read(node, 0, &mut bytes).expect("read");
            assert_eq!(read.length, bytes.len());
            let sum = bytes.iter().fold(0_u64, |sum, byte| {
                sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
            });
            writeln!(text, " {sum:x}").expect("text");
        }
        Kind::Link => writeln!(text, " {:?}", files.read_link(node)).expect("text"),
        _ => writeln!(text).expect("text"),
    }
    if known.kind == Kind::Directory {
        let mut found = Vec::new();
        let mut add = |entry: file_system::Entry<'_>| {
            found.push((entry.name.to_vec(), entry.object));
            true
        };
        let read = files.read_directory(&ROOT, node, 0, &mut add);
        read.expect("read");
        found.sort();
        for (name, _) in found {
            let child = files.look_up(&ROOT, node, &name).expect("there").node;
            let path = format!("{path}/{}", String::from_utf8_lossy(&name));
            describe(files, child, &path, text);
        }
    }
}

fn take(pool: &Pool, name: &str) -> SnapshotName {
    let name: SnapshotName = name.parse().expect("a name");
    pool.snapshot(std::slice::from_ref(&name))
        .expect("snapshot");
    name
}

fn stream(pool: &Pool, spec: &SendSpec) -> Vec<u8> {
    let mut stream = Vec::new();
    pool.send(spec, &mut stream).expect("send");
    stream
}

fn into(name: &str) -> ReceiveSpec {
    ReceiveSpec {
        volume: volume(name),
        tag: None,
        force: false,
        resumable: false,
        only_volumes: false,
    }
}

fn receive(pool: &Pool, name: &str, stream: &[u8]) {
    let initial = |kind: DatasetKind, _: &[_]| {
        assert_eq!(kind, DatasetKind::Filesystem);
        vec![("sharenfs".to_owned(), "off".into())]
    };
    let mut source = stream;
    let received = pool.receive(&into(name), &initial, &mut source);
    let received = received.expect("received");
    assert_eq!(received.bytes, stream.len() as u64);
}

/// Sends two snapshots of `from` in the given form, and compares the result.
fn replicate(tank: &Pool, vault: &Pool, from: &str, to: &str, form: SendForm) {
    let with_long = from != "tank/raw";
    change(tank, from, 1, with_long);
    let first = take(tank, &format!("{from}@first"));
    change(tank, from, 2, with_long);
    let second = take(tank, &format!("{from}@second"));
    let whole = SendSpec {
        form,
        ..SendSpec::full(first.clone())
    };
    let changes = SendSpec {
        base: Some(Base::from(&first)),
        form,
        ..SendSpec::full(second.clone())
    };
    receive(vault, to, &stream(tank, &whole));
    receive(vault, to, &stream(tank, &changes));
    if form.raw
        && vault
            .key_info((&volume(to)).into())
            .expect("look")
            .root
            .is_some()
    {
        vault
            .load_key((&volume(to)).into(), &material())
            .expect("the key");
    }
    for (sent, tag) in [(first, "first"), (second, "second")] {
        let arrived = format!("{to}@{tag}").parse().expect("a name");
        let expected = tree(tank, &sent);
        assert!(expected.lines().count() > 60);
        assert_eq!(tree(vault, &arrived), expected);
    }
    // It can be opened, and changed.
    change(vault, to, 3, true);
}

/// The counts of users that `zdb` prints for a dataset, except those that a later change made.
fn counts(parts: &Parts, dataset: &str) -> Vec<String> {
    let output = Command::new("/usr/sbin/zdb")
        .args(["-e", "-p"])
        .arg(parts.dir())
        .args(["-dddd", dataset])
        .output()
        .expect("zdb (package zfsutils-linux) is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_count = |line: &&str| {
        ["3e9 = ", "3ea = "]
            .iter()
            .any(|user| line.trim().starts_with(user))
    };
    let found = text.lines().filter(is_count);
    let mut counts: Vec<String> = found.map(|line| line.trim().to_owned()).collect();
    // A table is listed in any order.
    counts.sort();
    counts
}

#[test]
fn received_file_systems_equal_the_sent_ones() {
    let parts = Parts::of("received_file_systems_equal_the_sent_ones");
    if part().is_none() {
        parts.pass("all");
        parts.zdb_is_content("tank");
        parts.zdb_is_content("vault");
        let sent = counts(&parts, "tank/plain");
        assert!(sent.len() >= 2, "{sent:?}");
        assert_eq!(counts(&parts, "vault/plain"), sent);
        return;
    }
    let (tank, vault) = two_pools();
    create(&tank, "tank/plain", None);
    create(&tank, "tank/small", None);
    create(&tank, "tank/raw", None);
    create(&tank, "tank/secret", Some(key()));
    replicate(
        &tank,
        &vault,
        "tank/plain",
        "vault/plain",
        SendForm::default(),
    );
    let plain = SendForm {
        embedded: false,
        large_blocks: false,
        compressed: false,
        raw: false,
    };
    replicate(&tank, &vault, "tank/small", "vault/small", plain);
    replicate(&tank, &vault, "tank/raw", "vault/raw", SendForm::RAW);
    replicate(&tank, &vault, "tank/secret", "vault/secret", SendForm::RAW);
    create(&tank, "tank/long", None);
    change(&tank, "tank/long", 1, true);
    let long = SendSpec {
        form: SendForm::RAW,
        ..SendSpec::full(take(&tank, "tank/long@first"))
    };
    let refused = vault.receive(
        &into("vault/long"),
        &|_, _| Vec::new(),
        &mut stream(&tank, &long).as_slice(),
    );
    let said = format!("{:?}", refused.expect_err("it has long attributes"));
    assert!(said.contains("long attributes"), "{said}");
    export(tank);
    export(vault);
}

#[test]
fn forged_file_system_streams_do_not_abort_the_process() {
    isolated(
        "forged_file_system_streams_do_not_abort_the_process",
        || {
            let (tank, vault) = two_pools();
            create(&tank, "tank/files", None);
            change(&tank, "tank/files", 1, true);
            let first = take(&tank, "tank/files@first");
            let whole = stream(&tank, &SendSpec::full(first));
            let all = records(&whole);
            assert_eq!(
                with_checksums(whole.clone()),
                whole,
                "they are as ZFS has them"
            );
            let mut random = fastrand::Rng::with_seed(9);
            let mut refused = 0;
            for _ in 0..100 {
                let mut bytes = whole.clone();
                for _ in 0..random.usize(1..4) {
                    let record = all[random.usize(..all.len())];
                    // The offsets of the fields of every record.
                    bytes[record + random.usize(0..112)] = random.u8(..);
                }
                let bytes = with_checksums(bytes);
                let target = into("vault/made-up");
                match vault.receive(&target, &|_, _| Vec::new(), &mut bytes.as_slice()) {
                    Err(_) => refused += 1,
                    Ok(_) => {
                        let depth = engine::dataset::Depth::Recursive;
                        let destroyed = vault.destroy_dataset(&target.volume, depth);
                        destroyed.expect("destroyed");
                    }
                }
            }
            assert!(refused > 20, "only {refused} were refused");
            export(tank);
            export(vault);
        },
    );
}
