//! Pools: devices, scans, owners, room.

use std::path::Path;
use std::time::{Duration, Instant};

use engine::pool::legs::{Confirmation, Record};
use engine::pool::{
    Candidate, GroupKind, GroupRole, GroupSpec, ImportOptions, PoolSpec, SafeToOwn, ScanState,
    ScrubCommand,
};
use units::ByteCount;

use super::{Bench, Kind, MIB, OF_DEVICES, device, has, sparse, volume};

fn group(kind: GroupKind, role: GroupRole, devices: &[&Path]) -> GroupSpec {
    GroupSpec {
        kind,
        role,
        devices: devices.iter().map(|path| path.to_path_buf()).collect(),
    }
}

/// Blocks until no scan or replacement is active.
fn settle(bench: &Bench<'_>) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let status = bench.pool().status().expect("its status");
        let is_running = status
            .scan
            .is_some_and(|scan| scan.state == ScanState::Running);
        let text: Vec<String> = status.devices.iter().map(device).collect();
        if !is_running && !text.concat().contains("replacing") {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "it does not come to rest: {text:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn show(bench: &mut Bench<'_>, step: &str) {
    settle(bench);
    let status = bench.pool().status();
    let mut devices: Vec<String> = Vec::new();
    let status = status.map(|status| {
        devices.extend(status.devices.iter().map(device));
        (status.state, status.suspended)
    });
    bench.log_result(step, status);
    if !devices.is_empty() {
        bench.log_line(OF_DEVICES, &format!("{devices:?}"));
    }
    let health = bench
        .pool()
        .health()
        .map(|health| (health.state, health.suspended));
    bench.log_line("health", &format!("{health:?}"));
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

pub fn devices(bench: &mut Bench<'_>) {
    let [a, b, c, d, e, none] = ["a", "b", "c", "d", "e", "none"].map(|name| bench.disk(name));
    show(bench, "at first");
    for (step, device) in [
        ("a", &a),
        ("b while a is off", &b),
        ("none", &none),
        ("a again", &a),
    ] {
        let off = has(bench.pool().devices()).offline(&text(device), false);
        bench.done(&format!("offline {step}"), off);
    }
    show(bench, "one is off");
    for (step, device) in [("a", &a), ("a again", &a), ("none", &none)] {
        let on = has(bench.pool().devices()).online(&text(device), false);
        bench.log_result(&format!("online {step}"), on);
        settle(bench);
    }
    let fault = has(bench.pool().devices()).fault(&text(&b));
    bench.done("fault b", fault);
    let last = has(bench.pool().devices()).fault(&text(&a));
    bench.done("fault the last", last);
    show(bench, "one is faulted");
    let cleared = has(bench.pool().upkeep()).clear(Some(&text(&b)));
    bench.done("clear b", cleared);
    let cleared = has(bench.pool().upkeep()).clear(Some(&text(&none)));
    bench.done("clear none", cleared);
    show(bench, "cleared");
    joined(bench, [&a, &b, &c, &d]);
    added(bench, [&a, &d, &e, &none]);
    let group = has(bench.pool().devices()).detach("mirror-0");
    bench.done("detach a group", group);
    properties(bench);
}

fn joined(bench: &mut Bench<'_>, [a, b, c, d]: [&Path; 4]) {
    let missing = bench.disk("none");
    for (step, device, new) in [
        ("c to a", a, c),
        ("c to a again", a, c),
        ("b to a", a, b),
        ("a missing one", a, &missing),
        ("to a missing one", &missing, d),
    ] {
        let attached = has(bench.pool().devices()).attach(&text(device), new, false);
        bench.done(&format!("attach {step}"), attached);
        settle(bench);
    }
    show(bench, "a mirror of three");
    for (step, device) in [("c", c), ("c again", c)] {
        let detached = has(bench.pool().devices()).detach(&text(device));
        bench.done(&format!("detach {step}"), detached);
    }
    let replaced = has(bench.pool().devices()).replace(&text(b), d, false);
    bench.done("replace b by d", replaced);
    show(bench, "replaced");
    let replaced = has(bench.pool().devices()).replace(&text(d), a, false);
    bench.done("replace d by a member", replaced);
    let replaced = has(bench.pool().devices()).replace(&text(&missing), b, false);
    bench.done("replace none", replaced);
    let replaced = has(bench.pool().devices()).replace(&text(d), b, false);
    bench.done("replace d by b", replaced);
    show(bench, "replaced again");
}

fn added(bench: &mut Bench<'_>, [a, d, e, none]: [&Path; 4]) {
    use GroupKind::{Mirror, Raidz1, Stripe};
    let f = bench.disk("f");
    for (step, groups) in [
        (
            "a log of raidz",
            vec![group(Raidz1, GroupRole::Log, &[d, e])],
        ),
        (
            "a mirror of one",
            vec![group(Mirror, GroupRole::Data, &[d])],
        ),
        (
            "a spare mirror",
            vec![group(Mirror, GroupRole::Spare, &[d, e])],
        ),
        (
            "a missing one",
            vec![group(Stripe, GroupRole::Cache, &[none])],
        ),
        ("a member", vec![group(Stripe, GroupRole::Spare, &[a])]),
        ("one twice", vec![group(Mirror, GroupRole::Data, &[d, d])]),
        ("a log", vec![group(Stripe, GroupRole::Log, &[d])]),
        ("a spare", vec![group(Stripe, GroupRole::Spare, &[e])]),
        ("a cache", vec![group(Stripe, GroupRole::Cache, &[&f])]),
    ] {
        let added = has(bench.pool().devices()).add(&groups, false);
        bench.done(&format!("add {step}"), added);
    }
    show(bench, "with a log, a spare and a cache");
    for (step, device) in [
        ("the log", d),
        ("the log again", d),
        ("the cache", &f),
        ("the spare", e),
        ("a leg", a),
    ] {
        let removed = has(bench.pool().devices()).remove(&text(device));
        bench.done(&format!("remove {step}"), removed);
    }
    let only = has(bench.pool().devices()).remove("mirror-0");
    bench.done("remove the only group", only);
    show(bench, "without");
}

fn properties(bench: &mut Bench<'_>) {
    for (name, value) in [
        ("comment", "hello"),
        (
            "comment",
            "a very long comment, longer than any pool accepts",
        ),
        ("autotrim", "on"),
        ("autotrim", "perhaps"),
        ("ashift", "12"),
        ("ashift", "40"),
        ("readonly", "on"),
        ("size", "1"),
        ("nonsense", "x"),
        ("multihost", "off"),
        ("feature@nonsense", "enabled"),
        ("failmode", "continue"),
    ] {
        let set = has(bench.pool().pool_properties())
            .set_properties(&[(name.to_owned(), value.to_owned())]);
        bench.done(&format!("set {name} {value}"), set);
    }
    let two = [("comment", "changed"), ("nonsense", "x")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let set = has(bench.pool().pool_properties()).set_properties(&two);
    bench.done("one of two is wrong", set);
    let all = has(bench.pool().pool_properties())
        .properties()
        .expect("its properties");
    for wanted in [
        "comment",
        "autotrim",
        "ashift",
        "failmode",
        "autoexpand",
        "delegation",
    ] {
        let found = all.iter().find(|one| one.name == wanted);
        let found = found.map(|one| (one.value.clone(), one.is_set));
        bench.log_line(&format!("property {wanted}"), &format!("{found:?}"));
    }
    let upgraded = has(bench.pool().pool_properties()).upgrade();
    bench.done("upgrade", upgraded);
    let added = has(bench.pool().history()).add_to_history("a record of mine");
    bench.done("history", added);
    bench.pool().sync().expect("on disk");
    let tail = has(bench.pool().history()).history_tail(1 << 16);
    let tail = tail.map(|tail| tail.windows(16).any(|part| part == b"a record of mine"));
    bench.log_result("its record", tail);
}

pub fn scrubs(bench: &mut Bench<'_>) {
    let made = bench.pool().create_volume(&sparse("scrubs/v"));
    bench.done("create", made);
    for command in [ScrubCommand::Pause, ScrubCommand::Cancel] {
        let refused = has(bench.pool().upkeep()).scrub(command);
        bench.done(&format!("{command:?} none"), refused);
    }
    let begun = has(bench.pool().upkeep()).scrub(ScrubCommand::Start);
    bench.done("scrub", begun);
    settle(bench);
    let scan = bench
        .pool()
        .status()
        .map(|status| status.scan.map(|scan| (scan.kind, scan.state, scan.errors)));
    bench.log_result("the scan", scan);
    let damage = has(bench.pool().upkeep()).damage();
    bench.log_result("damage", damage);
    let on = has(bench.pool().upkeep()).resume_pool(None, false);
    let on = on.map(|on| format!("{on:?}"));
    bench.log_result("a pool that resumes", on);
    let none = has(bench.pool().upkeep()).resume_pool(Some("/none"), false);
    bench.done("clear none", none);
}

fn candidate(bench: &Bench<'_>, name: &str) -> Option<Candidate> {
    let found = bench
        .engine
        .discover(std::slice::from_ref(&bench.dir))
        .expect("searched");
    found.into_iter().find(|one| one.name == name)
}

fn spec(bench: &Bench<'_>, name: &str, disks: &[&str], overwrite: bool) -> PoolSpec {
    let disks = disks.iter().map(|disk| bench.disk(disk)).collect();
    let name = name.parse().expect("a name");
    PoolSpec {
        overwrite,
        ..PoolSpec::new(name, GroupKind::Mirror, disks)
    }
}

fn create(bench: &mut Bench<'_>, step: &str, spec: &PoolSpec) -> bool {
    match bench.engine.create(spec) {
        Ok(pool) => {
            bench.log_line(step, "created");
            pool.destroy()
                .map_err(|(_, error)| error)
                .expect("destroyed");
            true
        }
        Err(error) => {
            bench.log_line(step, &format!("refused: {}", error.kind()));
            false
        }
    }
}

pub fn owners(bench: &mut Bench<'_>) {
    let name = "owners";
    for (step, pool, disks) in [
        ("of its disks", "others", &["a", "c"][..]),
        ("of its disks, overwritten", "others!", &["a", "c"][..]),
        ("of the same name", name, &["c", "d"][..]),
        ("of missing disks", "others", &["c", "none"][..]),
        ("of one disk twice", "others", &["c", "c"][..]),
        ("of too few disks", "others", &["c"][..]),
        ("of others", "others", &["c", "d"][..]),
    ] {
        let spec = spec(
            bench,
            pool.trim_end_matches('!'),
            disks,
            pool.ends_with('!'),
        );
        create(bench, &format!("create a pool {step}"), &spec);
    }
    let noted = bench.pool().leave_note("a note");
    bench.done("note", noted);
    bench.pool().sync().expect("on disk");
    let made = bench.pool().create_volume(&sparse("owners/v"));
    bench.done("create", made);
    let opened = bench
        .pool()
        .open_volume(&volume("owners/v"), Default::default())
        .expect("open");
    let pool = bench.pool.take().expect("open");
    let pool = match pool.export() {
        Err((pool, error)) => {
            bench.log_line("export while a volume is open", &error.kind());
            pool
        }
        Ok(()) => return bench.log_line("export while a volume is open", "done"),
    };
    opened.close();
    drop(opened);
    let exported = pool.export().map_err(|(_, error)| error);
    bench.done("export", exported);
    found(bench, name);
    let taken = spec(bench, "others", &["a", "c"], false);
    create(bench, "create a pool of exported disks", &taken);
    imported(bench, name);
}

fn found(bench: &mut Bench<'_>, name: &str) {
    let found = candidate(bench, name);
    let shown = found
        .as_ref()
        .map(|one| (one.state, one.host_id, one.is_watched, &one.note));
    bench.log_line("found", &format!("{shown:?}"));
    let devices = found.iter().flat_map(|one| &one.devices.all);
    let present: Vec<bool> = devices.map(|device| device.present).collect();
    let groups_missing = found.map(|one| one.devices.legs.groups_missing);
    if !present.is_empty() {
        bench.log_line(OF_DEVICES, &format!("{present:?} {groups_missing:?}"));
    }
}

fn imported(bench: &mut Bench<'_>, name: &str) {
    let found = candidate(bench, name).expect("found");
    let proof = SafeToOwn::exported(&found).expect("exported");
    let renamed = ImportOptions {
        rename: Some("renamed".parse().expect("a name")),
        ..ImportOptions::default()
    };
    match bench.engine.claim(&found, proof, &renamed) {
        Ok(claimed) => {
            let seen = format!("{} {:?}", claimed.is_certain(), claimed.note());
            bench.log_line("claimed", &seen);
            match claimed.open() {
                Ok(pool) => bench.pool = Some(pool),
                Err(error) => return bench.log_line("open", &error.kind()),
            }
        }
        Err(error) => return bench.log_line("claim", &error.kind()),
    }
    bench.log_line("its name", &bench.pool().name().to_string());
    bench.list("renamed");
    let stale = SafeToOwn::exported(&found).expect("as it was found");
    let again = bench
        .engine
        .import(&found, stale, &ImportOptions::default());
    bench.log_line(
        "import an open pool",
        if again.is_ok() { "done" } else { "refused" },
    );
    // The new owner is visible to other hosts.
    let now = candidate(bench, "renamed").expect("found");
    bench.log_line(
        "now",
        &format!("{:?} {}", now.state, SafeToOwn::exported(&now).is_none()),
    );
    let pool = bench.pool.take().expect("open");
    let exported = pool.export().map_err(|(_, error)| error);
    bench.done("export again", exported);
    let again = candidate(bench, "renamed").expect("found");
    let proof = SafeToOwn::exported(&again).expect("exported");
    let pool = bench
        .engine
        .import(&again, proof, &ImportOptions::default());
    let Some(pool) = bench.done("import again", pool) else {
        return;
    };
    let exported = pool.export().map_err(|(_, error)| error);
    bench.done("export a third time", exported);
    let taken = spec(bench, "others", &["a", "b"], true);
    create(bench, "overwrite", &taken);
    found_none(bench);
}

fn found_none(bench: &mut Bench<'_>) {
    let none = candidate(bench, "renamed").is_none();
    bench.log_line("it is gone", &none.to_string());
}

/// A pool of legs is opened with its record, or with a confirmation that removes the record.
pub fn records(bench: &mut Bench<'_>) {
    has(bench.pool().devices());
    let pool = bench.pool.take().expect("open");
    let destroyed = pool.destroy().map_err(|(_, error)| error);
    bench.done("destroy", destroyed);
    let spec = PoolSpec {
        record: Some(7),
        ..spec(bench, "records", &["a", "b"], true)
    };
    let made = bench.engine.create(&spec);
    let pool = bench.done("create with a record", made).expect("made");
    let exported = pool.export().map_err(|(_, error)| error);
    bench.done("export", exported);
    let by_record = ImportOptions {
        record: Some(Record {
            number: 7,
            current: Default::default(),
        }),
        ..ImportOptions::default()
    };
    for (step, options) in [
        ("without it", ImportOptions::default()),
        ("by it", by_record),
        ("without it again", ImportOptions::default()),
    ] {
        import_and_export(bench, step, &options);
    }
    let legs = candidate(bench, "records").expect("found").devices.legs;
    let word = |newest_txg| Confirmation {
        pool_guid: legs.pool_guid,
        newest_txg,
        missing: Default::default(),
        may_lose_newest: false,
        may_lose_logs: false,
        forgets_record: true,
    };
    for (step, word) in [
        (
            "by a confirmation of another state",
            word(legs.newest_txg + 1),
        ),
        ("by a word", word(legs.newest_txg)),
    ] {
        let options = ImportOptions {
            word: Some(word),
            ..ImportOptions::default()
        };
        import_and_export(bench, step, &options);
    }
    import_and_export(bench, "without any", &ImportOptions::default());
}

fn import_and_export(bench: &mut Bench<'_>, step: &str, options: &ImportOptions) {
    let found = candidate(bench, "records").expect("found");
    bench.log_line("its record", &format!("{:?}", found.devices.legs.record));
    let proof = SafeToOwn::exported(&found).expect("exported");
    match bench.engine.import(&found, proof, options) {
        Ok(pool) => {
            bench.log_line(step, "opened");
            let exported = pool.export().map_err(|(_, error)| error);
            bench.done("export", exported);
        }
        Err(error) => bench.log_line(step, &error.kind()),
    }
}

pub fn room(bench: &mut Bench<'_>) {
    let at = |name: &str| format!("room/{name}");
    let mut large = sparse(&at("large"));
    (large.sparse, large.size) = (false, ByteCount(1 << 30));
    let made = bench.pool().create_volume(&large);
    bench.done("more than there is", made);
    large.sparse = true;
    let made = bench.pool().create_volume(&large);
    bench.done("promised only", made);
    let mut reserved = sparse(&at("reserved"));
    (reserved.sparse, reserved.size) = (false, ByteCount(96 * MIB));
    let made = bench.pool().create_volume(&reserved);
    bench.done("set aside", made);
    bench.fill(&at("reserved"), 1);
    let info = bench
        .pool()
        .dataset((&volume(&at("reserved"))).into())
        .expect("there");
    let before = info.space.by_reservation.get();
    bench.log_line(
        "written space is no longer reserved",
        &(before < 96 * MIB).to_string(),
    );
    // Writes beyond the available space are refused, and writes within the reservation are not.
    let opened = bench
        .pool()
        .open_volume(&volume(&at("large")), Default::default())
        .expect("open");
    let mut noise = vec![0_u8; MIB as usize];
    let mut seed = 88_172_645_463_325_252_u64;
    let mut refused = None;
    for offset in 0..512 {
        for byte in &mut noise {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            *byte = seed as u8;
        }
        let written = opened.write(offset * MIB, &noise, block_device::WaitMode::MayBlock);
        if let Err(error) = written {
            refused = Some(error.kind);
            break;
        }
    }
    bench.log_line("too much", &format!("{refused:?}"));
    opened.close();
    bench.pool().sync().expect("on disk");
    bench.fill(&at("reserved"), 2);
    let made = bench
        .pool()
        .create_volume(&VolumeOf::reserved(&at("another")));
    bench.done("reserve more than available", made);
}

struct VolumeOf;

impl VolumeOf {
    fn reserved(name: &str) -> engine::dataset::VolumeSpec {
        let mut spec = sparse(name);
        (spec.sparse, spec.size) = (false, ByteCount(64 * MIB));
        spec
    }
}
