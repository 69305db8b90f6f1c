//! File systems: their creation, their stored properties, and quotas of users.

use engine::dataset::{FileSystemSpec, Value};
use file_system::{FileSystem, Identity, Make, Measure, Owner, OwnerKind, Quota, SetAttributes};

use super::{Bench, MIB, any, has, snapshot, volume};

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

/// Logs the owners of a kind, in the order of their numbers, without their bytes: these depend on the engine.
fn log_owners(bench: &mut Bench<'_>, step: &str, files: &dyn FileSystem, kind: OwnerKind) {
    let owners = files.owners(kind, &|| true).map(|owners| {
        let mut all = owners.first;
        all.sort_by_key(|one| one.id);
        let all = all
            .iter()
            .map(|one| (one.id, one.bytes_max, one.objects, one.objects_max));
        (all.collect::<Vec<_>>(), owners.left_out)
    });
    bench.log_line(step, &format!("{kind:?} {owners:?}"));
}

pub fn quotas_of_users(bench: &mut Bench<'_>) {
    let name = volume("quotas_of_users/a");
    let spec = FileSystemSpec {
        owner: 1000,
        group: 100,
        ..FileSystemSpec::plain(name.clone())
    };
    let created = has(bench.pool().files()).create_file_system(&spec);
    bench.done("create", created);
    let opened = has(bench.pool().files()).open_file_system((&name).into(), false);
    let opened = opened.expect("open");
    let files = opened.files();
    let (files, root) = (&*files, files.root());
    let user = Identity {
        uid: 1000,
        gid: 100,
        groups: Vec::new(),
    };
    let quota = |kind, id, measure, limit| Quota {
        owner: Owner { kind, id },
        measure,
        limit,
    };
    let make = |bench: &mut Bench<'_>, step: &str, file: &str| {
        bench.pool().sync().expect("on disk");
        let none = SetAttributes::default();
        let made = files.make(&user, root, file.as_bytes(), Make::File, &none, None);
        bench.log_line(step, &format!("{:?}", made.as_ref().map(drop)));
        made.ok().map(|made| made.object.node)
    };

    bench.pool().sync().expect("on disk");
    log_owners(bench, "new", files, OwnerKind::User);
    // The root directory is one of the objects.
    let objects = quota(OwnerKind::User, 1000, Measure::Objects, Some(2));
    bench.log_line(
        "limit objects",
        &format!("{:?}", files.set_quotas(&[objects])),
    );
    let file = make(bench, "the second object", "two").expect("there is room");
    make(bench, "the third object", "three");
    log_owners(bench, "with a limit", files, OwnerKind::User);
    let none = Quota {
        limit: None,
        ..objects
    };
    bench.log_line("no limit", &format!("{:?}", files.set_quotas(&[none])));
    make(bench, "the third object again", "three");

    // Of the group and of another user together.
    let both = [
        quota(OwnerKind::Group, 100, Measure::Bytes, Some(MIB)),
        quota(OwnerKind::User, 2000, Measure::Bytes, Some(10 * MIB)),
    ];
    bench.log_line("limit bytes", &format!("{:?}", files.set_quotas(&both)));
    let mut seed = 1_u64;
    let noise = (0..2 * MIB / 8).flat_map(|_| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed.to_ne_bytes()
    });
    let noise: Vec<u8> = noise.collect();
    let written = files.write(file, 0, &noise);
    bench.log_line("write", &format!("{:?}", written.map(drop)));
    bench.pool().sync().expect("on disk");
    let refused = files.write(file, 0, &noise[..4096]);
    bench.log_line(
        "write beyond the limit",
        &format!("{:?}", refused.map(drop)),
    );
    make(bench, "a new file beyond the limit", "four");
    log_owners(bench, "users", files, OwnerKind::User);
    log_owners(bench, "groups", files, OwnerKind::Group);
    let one = files.owner_space(Owner {
        kind: OwnerKind::User,
        id: 3000,
    });
    bench.log_line("an owner without files", &format!("{one:?}"));

    let taken = bench.pool().snapshot(&[snapshot("quotas_of_users/a@s")]);
    bench.done("snapshot", taken);
    let raised = quota(OwnerKind::Group, 100, Measure::Bytes, Some(64 * MIB));
    bench.log_line("raise", &format!("{:?}", files.set_quotas(&[raised])));
    let written = files.write(file, 0, &noise[..4096]);
    bench.log_line("write below the limit", &format!("{:?}", written.map(drop)));
    opened.close();
    let opened = has(bench.pool().files()).open_file_system(any("quotas_of_users/a@s"), true);
    let opened = opened.expect("open");
    log_owners(bench, "of the snapshot", &*opened.files(), OwnerKind::Group);
    opened.close();
    // They are stored.
    let opened = has(bench.pool().files()).open_file_system((&name).into(), false);
    let opened = opened.expect("open");
    log_owners(bench, "opened again", &*opened.files(), OwnerKind::Group);
    log_owners(bench, "opened again", &*opened.files(), OwnerKind::User);
}
