//! Streams.

use engine::dataset::{DatasetKind, Value};
use engine::transfer::{Base, ReceiveSpec, SendForm, SendSpec};

use super::{Bench, any, has, key, snapshot, sparse, volume};

fn into(name: &str) -> ReceiveSpec {
    ReceiveSpec {
        volume: volume(name),
        tag: None,
        force: false,
        resumable: false,
        only_volumes: false,
    }
}

/// Sends, and logs only the success.
fn send(bench: &mut Bench<'_>, step: &str, spec: &SendSpec) -> Vec<u8> {
    let mut stream = Vec::new();
    let sent = has(bench.pool().sending()).send(spec, &mut stream);
    if let Some(bytes) = bench.done(&format!("send: {step}"), sent) {
        assert_eq!(bytes, stream.len() as u64);
    }
    let estimate = has(bench.pool().sending()).send_estimate(spec);
    bench.done(&format!("estimate: {step}"), estimate);
    stream
}

fn receive(bench: &mut Bench<'_>, step: &str, spec: &ReceiveSpec, mut stream: &[u8]) {
    let initial = |_: DatasetKind, _: &[(String, String)]| {
        vec![("user:initial".to_owned(), Value::from("yes"))]
    };
    let received = has(bench.pool().receiving()).receive(spec, &initial, &mut stream);
    let received = received.map(|received| received.snapshots);
    bench.log_result(&format!("receive: {step}"), received);
}

fn changes(to: &str, from: &str) -> SendSpec {
    let to = snapshot(to);
    let base = Base::parse(&to.volume(), from).expect("a base");
    SendSpec {
        base: Some(base),
        ..SendSpec::full(to)
    }
}

/// A volume with three snapshots, `1` to `3`.
fn source(bench: &mut Bench<'_>, name: &str) {
    let made = bench.pool().create_volume(&sparse(name));
    bench.done("create", made);
    for tag in 1..=3_u8 {
        bench.fill(name, tag);
        let taken = bench.pool().snapshot(&[snapshot(&format!("{name}@{tag}"))]);
        bench.done("snapshot", taken);
    }
}

pub fn streams(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("streams{rest}");
    source(bench, &name("/a"));
    let full = send(bench, "all", &SendSpec::full(snapshot(&name("/a@1"))));
    let second = send(bench, "changes", &changes(&name("/a@2"), "@1"));
    let third = send(bench, "more changes", &changes(&name("/a@3"), "@2"));
    send(bench, "none", &SendSpec::full(snapshot(&name("/a@none"))));
    send(bench, "from none", &changes(&name("/a@2"), "@none"));
    send(bench, "backwards", &changes(&name("/a@1"), "@2"));
    send(
        bench,
        "elsewhere",
        &SendSpec::full(snapshot("elsewhere/v@1")),
    );
    receive(
        bench,
        "changes without a base",
        &into(&name("/new")),
        &second,
    );
    receive(bench, "all", &into(&name("/new")), &full);
    receive(bench, "all again", &into(&name("/new")), &full);
    receive(bench, "without a parent", &into(&name("/none/new")), &full);
    receive(bench, "below a volume", &into(&name("/a/new")), &full);
    receive(bench, "noise", &into(&name("/noise")), &[7; 4096]);
    receive(bench, "nothing", &into(&name("/noise")), &[]);
    receive(
        bench,
        "half",
        &into(&name("/half")),
        &full[..full.len() / 2],
    );
    receive(bench, "one too far", &into(&name("/new")), &third);
    receive(bench, "changes", &into(&name("/new")), &second);
    receive(bench, "changes again", &into(&name("/new")), &second);
    let own = bench
        .pool()
        .own_user_properties(any(&name("/new")), "user:");
    bench.log_result("its initial properties", own);
    bench.sum(&name("/new"));
    bench.fill(&name("/new"), 9);
    receive(bench, "into a changed volume", &into(&name("/new")), &third);
    let mut forced = into(&name("/new"));
    (forced.force, forced.tag) = (true, Some("other".to_owned()));
    receive(bench, "forced, under another name", &forced, &third);
    bench.sum(&name("/new"));
    bookmarks(bench, &full);
    clones(bench);
    bench.list("all");
}

fn bookmarks(bench: &mut Bench<'_>, full: &[u8]) {
    let name = |rest: &str| format!("streams{rest}");
    let a1 = snapshot(&name("/a@1"));
    for (of, mark) in [
        ("/a@1", "one"),
        ("/a@1", "one"),
        ("/a@none", "x"),
        ("/a@1", "a/b"),
    ] {
        let made = has(bench.pool().sending()).create_bookmark(&snapshot(&name(of)), mark);
        bench.done(&format!("bookmark {of} {mark}"), made);
    }
    receive(bench, "all, for a bookmark", &into(&name("/marked")), full);
    let gone = bench.pool().destroy_snapshots(std::slice::from_ref(&a1));
    bench.done("destroy the snapshot", gone);
    let stream = send(bench, "from a bookmark", &changes(&name("/a@2"), "#one"));
    receive(bench, "from a bookmark", &into(&name("/marked")), &stream);
    bench.sum(&name("/marked"));
    let marks = has(bench.pool().sending()).bookmarks(&a1.volume());
    let marks = marks.map(|marks| {
        marks
            .iter()
            .map(|mark| mark.name.clone())
            .collect::<Vec<_>>()
    });
    bench.log_result("bookmarks", marks);
    let marks = has(bench.pool().sending()).bookmarks(&volume(&name("/none")));
    bench.done("bookmarks of none", marks);
    for mark in has(bench.pool().sending())
        .bookmarks(&a1.volume())
        .expect("its bookmarks")
    {
        let found = has(bench.pool().sending()).bookmark_of(&a1.volume(), mark.guid);
        bench.log_result("found by its number", found);
        for _ in 0..2 {
            let gone = has(bench.pool().sending()).destroy_bookmark(&mark);
            bench.done("destroy the bookmark", gone);
        }
    }
}

fn clones(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("streams{rest}");
    let cloned =
        bench
            .pool()
            .clone_snapshot(&snapshot(&name("/a@2")), &volume(&name("/clone")), &[]);
    bench.done("clone", cloned);
    bench.fill(&name("/clone"), 8);
    let taken = bench.pool().snapshot(&[snapshot(&name("/clone@c"))]);
    bench.done("snapshot of the clone", taken);
    let base = name("/a@2");
    let stream = send(bench, "a clone", &changes(&name("/clone@c"), &base));
    receive(bench, "a clone", &into(&name("/cloned")), &stream);
    bench.sum(&name("/cloned"));
}

pub fn interrupted_streams(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("interrupted_streams{rest}");
    source(bench, &name("/a"));
    let full = send(bench, "all", &SendSpec::full(snapshot(&name("/a@1"))));
    let second = send(bench, "changes", &changes(&name("/a@2"), "@1"));
    let new = volume(&name("/new"));
    let mut resumable = into(&name("/new"));
    resumable.resumable = true;
    for (step, stream) in [("all", &full), ("changes", &second)] {
        receive(
            bench,
            &format!("half of {step}"),
            &resumable,
            &stream[..stream.len() / 2],
        );
        left(bench, &new);
        receive(
            bench,
            &format!("{step} with a partial receive"),
            &resumable,
            stream,
        );
        let opened = bench.pool().open_volume(&new, Default::default());
        if let Some(opened) = bench.done("open", opened) {
            opened.close();
        }
        bench.list("while half is there");
        let token = has(bench.pool().receiving())
            .interrupted(&new)
            .ok()
            .flatten()
            .and_then(|left| left.token);
        let token = token.expect("a token");
        let token = has(bench.pool().sending())
            .parse_token(&token)
            .expect("it is understood");
        bench.log_line("the token's name", &token.to_name);
        let rest = has(bench.pool().sending()).resumed_send(&token);
        let Some(rest) = bench.done("the rest", rest) else {
            return;
        };
        let rest = send(bench, "the rest", &rest);
        assert!(rest.len() < stream.len(), "not all of it again");
        receive(bench, &format!("the rest of {step}"), &resumable, &rest);
        left(bench, &new);
        bench.sum(&name("/new"));
    }
    let nothing = has(bench.pool().receiving()).abort_receive(&new);
    bench.done("abort nothing", nothing);
    let third = send(bench, "more changes", &changes(&name("/a@3"), "@2"));
    receive(bench, "half of more", &resumable, &third[..third.len() / 2]);
    let aborted = has(bench.pool().receiving()).abort_receive(&new);
    bench.done("abort", aborted);
    left(bench, &new);
    let other = volume(&name("/other"));
    let mut resumable = into(&name("/other"));
    resumable.resumable = true;
    receive(bench, "half of all", &resumable, &full[..full.len() / 2]);
    let token = has(bench.pool().receiving())
        .interrupted(&other)
        .ok()
        .flatten()
        .and_then(|left| left.token);
    let gone = bench.pool().destroy_snapshots(&[snapshot(&name("/a@1"))]);
    bench.done("destroy the sent snapshot", gone);
    // The copy of the same number goes, too.
    let gone = bench
        .pool()
        .destroy_dataset(&new, engine::dataset::Depth::Recursive);
    bench.done("and its copy", gone);
    let token = has(bench.pool().sending())
        .parse_token(&token.expect("a token"))
        .expect("it is understood");
    let rest = has(bench.pool().sending()).resumed_send(&token);
    bench.done("the rest of a destroyed snapshot", rest);
    let aborted = has(bench.pool().receiving()).abort_receive(&other);
    bench.done("abort a new one", aborted);
    let none = has(bench.pool().receiving()).abort_receive(&volume(&name("/none")));
    bench.done("abort none", none);
    let token = has(bench.pool().sending()).parse_token("no token at all");
    bench.done("no token", token);
    bench.list("at the end");
}

fn left(bench: &mut Bench<'_>, name: &units::VolumeName) {
    let left = has(bench.pool().receiving()).interrupted(name);
    let left = left.map(|left| left.map(|left| (left.token.is_some(), left.is_partial)));
    bench.log_result("what is left", left);
}

pub fn encrypted_streams(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("encrypted_streams{rest}");
    let made = has(bench.pool().keys()).create_key_parent(&volume(&name("/p")), &key(1), &[]);
    bench.done("a parent", made);
    source(bench, &name("/p/a"));
    let raw = |spec: SendSpec| SendSpec {
        form: SendForm::RAW,
        ..spec
    };
    let plain = send(bench, "plain", &SendSpec::full(snapshot(&name("/p/a@1"))));
    let full = send(
        bench,
        "raw",
        &raw(SendSpec::full(snapshot(&name("/p/a@1")))),
    );
    let second = send(bench, "raw changes", &raw(changes(&name("/p/a@2"), "@1")));
    receive(
        bench,
        "plain into a plain place",
        &into(&name("/plain")),
        &plain,
    );
    receive(
        bench,
        "plain into an encrypted parent",
        &into(&name("/p/b")),
        &plain,
    );
    receive(bench, "raw", &into(&name("/raw")), &full);
    receive(bench, "raw changes", &into(&name("/raw")), &second);
    receive(
        bench,
        "raw changes of a plain one",
        &into(&name("/plain")),
        &second,
    );
    bench.list("all");
    let info = has(bench.pool().keys()).key_info(any(&name("/raw")));
    let info = info.map(|info| (info.is_root(), info.loaded));
    bench.log_result("the key of the copy", info);
    bench.sum(&name("/raw"));
    let loaded = has(bench.pool().keys()).load_key(any(&name("/raw")), &key(1).material);
    bench.done("load it", loaded);
    bench.sum(&name("/raw"));
    let unloaded = has(bench.pool().keys()).unload_key(any(&name("/p")));
    bench.done("unload that of the source", unloaded);
    send(
        bench,
        "plain, locked",
        &SendSpec::full(snapshot(&name("/p/a@2"))),
    );
    send(
        bench,
        "raw, locked",
        &raw(SendSpec::full(snapshot(&name("/p/a@2")))),
    );
    receive(
        bench,
        "plain below a locked one",
        &into(&name("/p/c")),
        &plain,
    );
}
