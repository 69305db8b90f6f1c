//! Keys.

use engine::dataset::Depth;
use engine::keys::{KeyFormat, KeyInfo, KeyMaterial, NewKey};
use zeroize::Zeroizing;

use super::{Bench, any, has, snapshot, sparse, volume};

fn material(byte: u8) -> KeyMaterial {
    KeyMaterial::new(Zeroizing::new(vec![byte; 32]))
}

pub fn key(byte: u8) -> NewKey {
    NewKey {
        suite: None,
        format: KeyFormat::Raw,
        material: material(byte),
        iterations: None,
        location: "prompt".to_owned(),
    }
}

fn shown(info: &KeyInfo) -> String {
    format!(
        "{} {:?} {} {:?} {} {}",
        info.dataset, info.root, info.suite, info.format, info.location, info.loaded
    )
}

fn list(bench: &mut Bench<'_>, step: &str) {
    let all = has(bench.pool().keys()).encrypted_datasets();
    let mut all = all.map(|all| all.iter().map(shown).collect::<Vec<_>>());
    if let Ok(all) = all.as_mut() {
        all.sort();
    }
    bench.log_result(step, all);
}

pub fn keys(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("keys{rest}");
    let v = |rest: &str| volume(&name(rest));
    let made = has(bench.pool().keys()).create_key_parent(
        &v("/p"),
        &key(1),
        &[("user:a".to_owned(), "b".to_owned())],
    );
    bench.done("a parent", made);
    let again = has(bench.pool().keys()).create_key_parent(&v("/p"), &key(1), &[]);
    bench.done("again", again);
    let mut own = sparse(&name("/p/own"));
    own.key = Some(key(2));
    let mut odd = sparse(&name("/p/odd"));
    odd.key = Some(NewKey {
        material: KeyMaterial::new(Zeroizing::new(vec![1; 31])),
        ..key(1)
    });
    for (what, spec) in [
        ("shared", sparse(&name("/p/v"))),
        ("own", own),
        ("plain", sparse(&name("/plain"))),
        ("odd", odd),
    ] {
        let made = bench.pool().create_volume(&spec);
        bench.done(&format!("create: {what}"), made);
    }
    list(bench, "keys");
    for of in ["/plain", "/none", "/p/v"] {
        let info = has(bench.pool().keys()).key_info(any(&name(of)));
        let info = info.map(|info| shown(&info));
        bench.log_result(&format!("key of {of}"), info);
    }
    for (of, byte) in [
        ("/p", 1),
        ("/p", 2),
        ("/p/v", 1),
        ("/plain", 1),
        ("/none", 1),
    ] {
        let checked = has(bench.pool().keys()).check_key(any(&name(of)), &material(byte));
        bench.done(&format!("check {of} {byte}"), checked);
        let loaded = has(bench.pool().keys()).load_key(any(&name(of)), &material(byte));
        bench.done(&format!("load {of} {byte}"), loaded);
    }
    let opened = bench.pool().open_volume(&v("/p/v"), Default::default());
    let opened = bench.done("open", opened);
    let unloaded = has(bench.pool().keys()).unload_key(any(&name("/p")));
    bench.done("unload while it is open", unloaded);
    opened.inspect(|opened| opened.close());
    for of in ["/p/v", "/p", "/p", "/plain", "/none"] {
        let unloaded = has(bench.pool().keys()).unload_key(any(&name(of)));
        bench.done(&format!("unload {of}"), unloaded);
    }
    locked(bench);
    let loaded = has(bench.pool().keys()).load_key(any(&name("/p")), &material(2));
    bench.done("load another", loaded);
    let loaded = has(bench.pool().keys()).load_key(any(&name("/p")), &material(1));
    bench.done("load", loaded);
    changed(bench);
    clones(bench);
}

fn locked(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("keys{rest}");
    let opened = bench
        .pool()
        .open_volume(&volume(&name("/p/v")), Default::default());
    bench.done("open, locked", opened);
    let made = bench.pool().create_volume(&sparse(&name("/p/w")));
    bench.done("create, locked", made);
    let parents = has(bench.pool().files()).create_parents(&volume(&name("/p/w/x")));
    bench.done("parents, locked", parents);
    let changed = has(bench.pool().keys()).change_key(any(&name("/p")), &key(3));
    bench.done("change, locked", changed);
    let taken = bench.pool().snapshot(&[snapshot(&name("/p/v@s"))]);
    bench.done("snapshot, locked", taken);
    let cloned = bench.pool().clone_snapshot(
        &snapshot(&name("/p/v@s")),
        &volume(&name("/p/locked-clone")),
        &[],
    );
    bench.done("clone, locked", cloned);
    let destroyed = bench
        .pool()
        .destroy_dataset(&volume(&name("/p/locked-clone")), Depth::One);
    bench.done("destroy, locked", destroyed);
    let renamed = bench
        .pool()
        .rename(&volume(&name("/p/v")), &volume(&name("/p/moved")));
    bench.done("rename, locked", renamed);
    let renamed = bench
        .pool()
        .rename(&volume(&name("/p/moved")), &volume(&name("/p/v")));
    bench.done("back", renamed);
    bench.list("locked");
}

fn changed(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("keys{rest}");
    for (of, byte) in [("/p", 3), ("/p/v", 4), ("/plain", 5), ("/none", 6)] {
        let changed = has(bench.pool().keys()).change_key(any(&name(of)), &key(byte));
        bench.done(&format!("change {of}"), changed);
    }
    list(bench, "changed");
    for of in ["/p/v", "/p/v", "/p", "/plain", "/none"] {
        let inherited = has(bench.pool().keys()).inherit_key(any(&name(of)));
        bench.done(&format!("inherit {of}"), inherited);
    }
    list(bench, "inherited");
    for (from, to) in [("/p/v", "/v"), ("/p/own", "/own"), ("/plain", "/p/plain")] {
        let renamed = bench
            .pool()
            .rename(&volume(&name(from)), &volume(&name(to)));
        bench.done(&format!("rename {from} to {to}"), renamed);
    }
    let checked = has(bench.pool().keys()).check_key(any(&name("/p")), &material(3));
    bench.done("the changed key", checked);
}

fn clones(bench: &mut Bench<'_>) {
    let name = |rest: &str| format!("keys{rest}");
    let taken = bench.pool().snapshot(&[snapshot(&name("/own@s"))]);
    bench.done("snapshot of one with its own", taken);
    for (from, to) in [("/own@s", "/p/clone"), ("/p/v@s", "/clone")] {
        let cloned = bench
            .pool()
            .clone_snapshot(&snapshot(&name(from)), &volume(&name(to)), &[]);
        bench.done(&format!("clone {from} as {to}"), cloned);
    }
    list(bench, "clones");
    let changed = has(bench.pool().keys()).change_key(any(&name("/p/clone")), &key(7));
    bench.done("change that of a clone", changed);
    for of in ["/clone", "/p/clone"] {
        let promoted = has(bench.pool().promotion()).promote(&volume(&name(of)));
        bench.done(&format!("promote {of}"), promoted);
    }
    list(bench, "promoted");
    bench.list("at the end");
}
