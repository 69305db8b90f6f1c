//! Datasets, snapshots, properties.

use std::time::Duration;

use block_device::WaitMode;
use engine::dataset::{Depth, PropertySource, Value};
use units::ByteCount;

use super::{Bench, MIB, any, has, snapshot, sparse, volume};

pub fn the_tree(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("the_tree{rest}");
    let v = |rest: &str| volume(&name(rest));
    let parents = has(bench.pool().files()).create_parents(&v("/a/b/v"));
    bench.done("parents", parents);
    for at in ["/a/b/v", "/a/b/v", "/x/v", "/a/b/v/w", "/other"] {
        let made = bench.pool().create_volume(&sparse(&name(at)));
        bench.done(&format!("create {at}"), made);
    }
    let elsewhere = bench.pool().create_volume(&sparse("elsewhere/v"));
    bench.done("create in another pool", elsewhere);
    let under = has(bench.pool().files()).create_parents(&v("/other/x/y"));
    bench.done("parents below a volume", under);
    for (from, to) in [
        ("/a", "/a/b/c"),
        ("/missing", "/new"),
        ("/a/b", "/other"),
        ("/a/b", "/none/b"),
        ("/a/b", "/other/b"),
        ("/a/b", "/c"),
        ("/other", "/c/other"),
    ] {
        let renamed = bench.pool().rename(&v(from), &v(to));
        bench.done(&format!("rename {from} to {to}"), renamed);
    }
    let away = bench.pool().rename(&v("/a"), &volume("elsewhere/a"));
    bench.done("rename into another pool", away);
    let taken = bench.pool().snapshot(&[snapshot(&name("/c/v@s"))]);
    bench.done("snapshot", taken);
    bench.list("all");
    let count = bench.pool().volume_count();
    bench.log_result("volumes", count);
    for (at, depth) in [
        ("/c/v", Depth::One),
        ("/c", Depth::One),
        ("/missing", Depth::One),
        ("/c", Depth::Recursive),
        ("/a", Depth::One),
    ] {
        let destroyed = bench.pool().destroy_dataset(&v(at), depth);
        bench.done(&format!("destroy {at} {depth:?}"), destroyed);
    }
    for looked in ["/a", "@none", "/a@none"] {
        let found = bench.pool().dataset(any(&name(looked)));
        bench.done(&format!("look at {looked}"), found);
    }
    bench.list("what is left");
    let long = format!("the_tree/{}", "l".repeat(200));
    let made = has(bench.pool().files()).create_parents(&volume(&format!("{long}/v")));
    bench.done("a long name", made);
    let moved = bench.pool().rename(
        &volume(&long),
        &volume(&format!("the_tree/{}", "m".repeat(240))),
    );
    bench.done("a longer one", moved);
}

pub fn volumes_and_their_sizes(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("volumes_and_their_sizes{rest}");
    for (at, size, block) in [
        ("/ok", 8 * MIB, 8192),
        ("/small", 8 * MIB, 256),
        ("/odd", 8 * MIB, 12_288),
        ("/huge", 32 * MIB, 32 * MIB),
        ("/ragged", 8 * MIB + 512, 4096),
        ("/empty", 0, 4096),
        ("/large", 32 * MIB, 16 * MIB),
        ("/least", MIB, 512),
    ] {
        let mut spec = sparse(&name(at));
        (spec.size, spec.block_size) = (ByteCount(size), ByteCount(block));
        let made = bench.pool().create_volume(&spec);
        bench.done(&format!("create {at}"), made);
    }
    let mut reserved = sparse(&name("/reserved"));
    reserved.sparse = false;
    let made = bench.pool().create_volume(&reserved);
    bench.done("create one with its reservation", made);
    for (at, size) in [
        ("/ok", 16 * MIB),
        ("/ok", 16 * MIB + 1),
        ("/ok", 0),
        ("/reserved", 4 * MIB),
        ("/none", MIB),
    ] {
        let resized = bench
            .pool()
            .resize_volume(&volume(&name(at)), ByteCount(size));
        bench.done(&format!("resize {at} to {size}"), resized);
    }
    bench.list("all");
    let parents = has(bench.pool().files()).create_parents(&volume(&name("/dir/x")));
    bench.done("a file system", parents);
    let resized = bench
        .pool()
        .resize_volume(&volume(&name("/dir")), ByteCount(MIB));
    bench.done("resize a file system", resized);
}

const TRIED: [(&str, &str); 17] = [
    ("compression", "zstd-3"),
    ("compression", "strong"),
    ("copies", "2"),
    ("sync", "disabled"),
    ("sync", "sometimes"),
    ("checksum", "sha256"),
    ("volblocksize", "4096"),
    ("volsize", "4096"),
    ("used", "0"),
    ("encryption", "on"),
    ("recordsize", "4096"),
    ("atime", "off"),
    ("no-such-property", "x"),
    ("user:text", "hello"),
    ("User:Text", "hello"),
    ("user:nul", "a\0b"),
    ("quota", "many"),
];

pub fn properties_and_their_sources(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("properties_and_their_sources{rest}");
    let (dir, v) = (name(""), name("/v"));
    let made = bench.pool().create_volume(&sparse(&v));
    bench.done("a volume", made);
    for (property, value) in TRIED {
        // File systems only occur as parents of volumes here.
        if property == "recordsize" {
            continue;
        }
        let pair = [(property.to_owned(), Value::from(value))];
        let set = bench.pool().set_dataset_properties(any(&v), &pair);
        bench.done(&format!("set {property} {value:?}"), set);
    }
    for (property, number) in [
        ("quota", 64 * MIB),
        ("quota", 0),
        ("refquota", 32 * MIB),
        ("refreservation", 8 * MIB),
        ("refreservation", 1 << 40),
        ("reservation", 1 << 40),
        ("reservation", MIB),
        ("copies", 9),
        ("copies", 3),
        ("user:number", 7),
    ] {
        let pair = [(property.to_owned(), Value::Number(number))];
        let set = bench.pool().set_dataset_properties(any(&v), &pair);
        bench.done(&format!("set {property} {number}"), set);
    }
    let set = [
        ("compression".to_owned(), Value::from("off")),
        ("user:above".to_owned(), Value::from("dir")),
    ];
    let set = bench.pool().set_dataset_properties(any(&dir), &set);
    bench.done("set above", set);
    show(bench, &v);
    for property in [
        "compression",
        "user:text",
        "user:never",
        "refreservation",
        "volsize",
        "nonsense",
        "User:Text",
    ] {
        let gone = bench.pool().inherit_property(any(&v), property);
        bench.done(&format!("inherit {property}"), gone);
    }
    let missing = bench
        .pool()
        .inherit_property(any(&name("/none")), "user:text");
    bench.done("inherit of none", missing);
    show(bench, &v);
    edits(bench, &dir, &v);
    let two = [
        ("user:kept".to_owned(), Value::from("no")),
        ("nonsense".to_owned(), Value::from("x")),
    ];
    let set = bench.pool().set_dataset_properties(any(&v), &two);
    bench.done("one of two is wrong", set);
    let all = bench.pool().user_properties("user:");
    bench.log_result("all of the users", all);
}

fn edits(bench: &mut Bench<'_>, dir: &str, v: &str) {
    let edit = |name: &str, value: Option<&str>| vec![(name.to_owned(), value.map(str::to_owned))];
    let none = format!("{v}-none");
    for (what, edits) in [
        (
            "both",
            vec![
                (any(dir), edit("user:a", Some("1"))),
                (any(v), edit("user:b", Some("2"))),
            ],
        ),
        (
            "one of them is not there",
            vec![
                (any(dir), edit("user:c", Some("3"))),
                (any(&none), edit("user:c", None)),
            ],
        ),
        (
            "one is no user's",
            vec![
                (any(dir), edit("user:d", Some("4"))),
                (any(v), edit("sync", Some("always"))),
            ],
        ),
        (
            "gone",
            vec![
                (any(dir), edit("user:a", None)),
                (any(v), edit("user:never", None)),
            ],
        ),
        (
            "elsewhere",
            vec![(any("elsewhere/v"), edit("user:a", Some("1")))],
        ),
    ] {
        let edited = bench.pool().edit_user_properties(edits);
        bench.done(&format!("edit: {what}"), edited);
    }
    let own = bench.pool().own_user_properties(any(v), "user:");
    bench.log_result("own", own);
    let own = bench.pool().own_user_properties(any(&none), "user:");
    bench.log_result("own of none", own);
}

fn show(bench: &mut Bench<'_>, of: &str) {
    const SHOWN: [&str; 12] = [
        "compression",
        "copies",
        "sync",
        "checksum",
        "quota",
        "refquota",
        "reservation",
        "refreservation",
        "volsize",
        "volblocksize",
        "user:text",
        "user:above",
    ];
    let Ok(all) = bench.pool().dataset_properties(any(of)) else {
        return bench.log_line("properties", "none");
    };
    for name in SHOWN {
        let text = match all.get(name) {
            None => "absent".to_owned(),
            Some(found) => {
                let source = match &found.source {
                    PropertySource::Inherited(from) => format!("from {from}"),
                    source => format!("{source:?}"),
                };
                format!("{} {source}", found.value)
            }
        };
        bench.log_line(&format!("property {name}"), &text);
    }
}

pub fn snapshots_and_clones(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("snapshots_and_clones{rest}");
    let (s, v) = (
        |rest: &str| snapshot(&name(rest)),
        |rest: &str| volume(&name(rest)),
    );
    for at in ["/a", "/b"] {
        let made = bench.pool().create_volume(&sparse(&name(at)));
        bench.done(&format!("create {at}"), made);
    }
    bench.fill(&name("/a"), 1);
    for (what, names) in [
        ("both", vec![s("/a@1"), s("/b@1")]),
        ("one is there", vec![s("/a@2"), s("/b@1")]),
        ("one volume is missing", vec![s("/a@2"), s("/none@2")]),
        ("twice", vec![s("/a@2"), s("/a@3")]),
        ("elsewhere", vec![snapshot("elsewhere/v@1")]),
        ("none", vec![]),
    ] {
        let taken = bench.pool().snapshot(&names);
        bench.done(&format!("snapshot: {what}"), taken);
    }
    let marks = [("user:mark".to_owned(), Value::from("yes"))];
    let marked = bench.pool().snapshot_marked(&[s("/a@marked")], &marks);
    bench.done("marked", marked);
    let own = bench
        .pool()
        .own_user_properties(any(&name("/a@marked")), "");
    bench.log_result("its mark", own);
    bench.fill(&name("/a"), 2);
    for at in ["/a", "/a@1", "/a@marked", "/b@1"] {
        bench.sum(&name(at));
    }
    for (from, to) in [
        ("/a@1", "one"),
        ("/a@none", "x"),
        ("/a@one", "marked"),
        ("/a@one", "a/b"),
        ("/none@1", "x"),
    ] {
        let renamed = bench.pool().rename_snapshot(&s(from), to);
        bench.done(&format!("rename {from} to {to}"), renamed);
    }
    for (from, to) in [
        ("/a@one", "/clone"),
        ("/a@one", "/clone"),
        ("/a@none", "/x"),
        ("/a@one", "/x/y"),
        ("/a@one", "/a/y"),
    ] {
        let cloned = bench.pool().clone_snapshot(&s(from), &v(to), &[]);
        bench.done(&format!("clone {from} as {to}"), cloned);
    }
    let bad = [("compression".to_owned(), Value::from("strong"))];
    let cloned = bench.pool().clone_snapshot(&s("/a@one"), &v("/y"), &bad);
    bench.done("clone with a bad property", cloned);
    bench.sum(&name("/clone"));
    for (what, names) in [
        ("with a clone", vec![s("/a@one")]),
        ("one with a clone", vec![s("/a@one"), s("/b@1")]),
        ("missing", vec![s("/b@none"), s("/b@1")]),
        ("free", vec![s("/b@1"), s("/a@marked")]),
    ] {
        let destroyed = bench.pool().destroy_snapshots(&names);
        bench.done(&format!("destroy: {what}"), destroyed);
    }
    let destroyed = bench.pool().destroy_dataset(&v("/a"), Depth::Recursive);
    bench.done("destroy with a clone", destroyed);
    bench.list("all");
}

pub fn promotions(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("promotions{rest}");
    let (s, v) = (
        |rest: &str| snapshot(&name(rest)),
        |rest: &str| volume(&name(rest)),
    );
    let made = bench.pool().create_volume(&sparse(&name("/a")));
    bench.done("create", made);
    for tag in ["1", "2", "3"] {
        bench.fill(&name("/a"), tag.as_bytes()[0]);
        let taken = bench.pool().snapshot(&[s(&format!("/a@{tag}"))]);
        bench.done(&format!("snapshot {tag}"), taken);
    }
    for (from, to) in [("/a@2", "/clone"), ("/a@3", "/other")] {
        let cloned = bench.pool().clone_snapshot(&s(from), &v(to), &[]);
        bench.done(&format!("clone {to}"), cloned);
    }
    let mark = has(bench.pool().sending()).create_bookmark(&s("/a@1"), "mark");
    bench.done("a bookmark", mark);
    for at in ["/a", "/none"] {
        let promoted = has(bench.pool().promotion()).promote(&v(at));
        bench.done(&format!("promote {at}"), promoted);
    }
    let taken = bench.pool().snapshot(&[s("/clone@1")]);
    bench.done("a snapshot of that name", taken);
    let promoted = has(bench.pool().promotion()).promote(&v("/clone"));
    bench.done("promote in conflict", promoted);
    let gone = bench.pool().destroy_snapshots(&[s("/clone@1")]);
    bench.done("without it", gone);
    let promoted = has(bench.pool().promotion()).promote(&v("/clone"));
    bench.done("promote", promoted);
    bench.list("promoted");
    for of in ["/a", "/clone"] {
        let marks = has(bench.pool().sending()).bookmarks(&v(of));
        let marks = marks.map(|marks| {
            marks
                .iter()
                .map(|mark| mark.name.clone())
                .collect::<Vec<_>>()
        });
        bench.log_result(&format!("bookmarks of {of}"), marks);
    }
    let promoted = has(bench.pool().promotion()).promote(&v("/other"));
    bench.done("promote the other", promoted);
    let promoted = has(bench.pool().promotion()).promote(&v("/a"));
    bench.done("promote it back", promoted);
    bench.list("promoted again");
    for at in ["/a", "/clone", "/other"] {
        bench.sum(&name(at));
    }
}

pub fn rollbacks(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("rollbacks{rest}");
    let s = |rest: &str| snapshot(&name(rest));
    let made = bench.pool().create_volume(&sparse(&name("/a")));
    bench.done("create", made);
    bench.fill(&name("/a"), 1);
    let taken = bench.pool().snapshot(&[s("/a@1")]);
    bench.done("snapshot", taken);
    bench.fill(&name("/a"), 2);
    let resized = bench
        .pool()
        .resize_volume(&volume(&name("/a")), ByteCount(16 * MIB));
    bench.done("resize", resized);
    for to in ["/a@1", "/a@none", "/none@1"] {
        let back = bench.pool().rollback(&s(to));
        bench.done(&format!("back to {to}"), back);
    }
    bench.sum(&name("/a"));
    let taken = bench.pool().snapshot(&[s("/a@2")]);
    bench.done("snapshot", taken);
    let back = bench.pool().rollback(&s("/a@1"));
    bench.done("back beyond the newest", back);
    let gone = bench.pool().destroy_snapshots(&[s("/a@2")]);
    bench.done("destroy the newest", gone);
    let opened = bench
        .pool()
        .open_volume(&volume(&name("/a")), Default::default());
    let Some(opened) = bench.done("open", opened) else {
        return;
    };
    let back = bench.pool().rollback(&s("/a@1"));
    bench.done("back while it is open", back);
    opened
        .write(0, &[7; 4096], WaitMode::MayBlock)
        .expect("written");
    match opened.pause(Duration::from_secs(10)) {
        Ok(paused) => {
            let missing = paused.rollback(&s("/a@none"));
            bench.done("paused, back to none", missing);
            let back = paused.rollback(&s("/a@1"));
            bench.done("paused, back", back);
            bench.log_line("size", &paused.size().to_string());
        }
        Err(error) => bench.log_line("pause", &error.to_string()),
    }
    opened.close();
    bench.sum(&name("/a"));
    let taken = bench.pool().snapshot(&[s("/a@2")]);
    bench.done("snapshot", taken);
    let mark = has(bench.pool().sending()).create_bookmark(&s("/a@2"), "two");
    bench.done("bookmark", mark);
    let gone = bench.pool().destroy_snapshots(&[s("/a@2")]);
    bench.done("destroy the newest", gone);
    let back = bench.pool().rollback(&s("/a@1"));
    bench.done("back beyond a bookmark", back);
}

pub fn open_volumes(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("open_volumes{rest}");
    let v = |rest: &str| volume(&name(rest));
    for at in ["/a", "/b"] {
        let made = bench.pool().create_volume(&sparse(&name(at)));
        bench.done(&format!("create {at}"), made);
    }
    let opened = bench.pool().open_volume(&v("/a"), Default::default());
    let Some(opened) = bench.done("open", opened) else {
        return;
    };
    let twice = bench.pool().open_volume(&v("/a"), Default::default());
    bench.done("open it twice", twice);
    let missing = bench.pool().open_volume(&v("/none"), Default::default());
    bench.done("open none", missing);
    let options = engine::volume::OpenOptions {
        logical_block: 1024,
        read_only: false,
    };
    let odd = bench.pool().open_volume(&v("/b"), options);
    bench.done("open with odd blocks", odd);
    let destroyed = bench.pool().destroy_dataset(&v("/a"), Depth::One);
    bench.done("destroy while open", destroyed);
    let renamed = bench.pool().rename(&v("/a"), &v("/moved"));
    bench.done("rename while open", renamed);
    let written = opened.write(8 * MIB - 512, &[1; 1024], WaitMode::MayBlock);
    bench.log_line(
        "write beyond the end",
        &format!("{:?}", written.map_err(|error| error.kind)),
    );
    let resized = opened.resize(16 * MIB);
    bench.done("resize", resized);
    let resized = opened.resize(16 * MIB + 512);
    bench.done("resize to part of a block", resized);
    bench.log_line("size", &opened.geometry().size.to_string());
    opened.close();
    let written = opened.write(0, &[1; 512], WaitMode::MayBlock);
    bench.log_line(
        "write after its end",
        &format!("{:?}", written.map_err(|error| error.kind)),
    );
    let resized = opened.resize(8 * MIB);
    bench.done("resize after its end", resized);
    bench.list("all");
    let parents = has(bench.pool().files()).create_parents(&v("/dir/x"));
    bench.done("a file system", parents);
    let dir = bench.pool().open_volume(&v("/dir"), Default::default());
    bench.done("open a file system", dir);
    let waits = has(bench.pool().logs()).unreplayed_volumes();
    bench.log_result("logs that wait", waits);
    for at in ["/moved", "/none"] {
        let waits = has(bench.pool().logs()).is_unreplayed(&v(at));
        bench.log_result(&format!("whether that of {at} is pending"), waits);
        let replayed = has(bench.pool().logs()).replay(&v(at));
        bench.log_result(&format!("replay {at}"), replayed);
        let discarded = has(bench.pool().logs()).discard_log(&v(at));
        bench.log_result(&format!("discard {at}"), discarded);
    }
}
