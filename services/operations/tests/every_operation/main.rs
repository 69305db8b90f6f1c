//! Performs every operation on a pool in memory, with its effects and refusals. The tables of `cases` have a line for
//! each request; an operation without a line fails a test by its name.

mod cases;
mod hooks;
mod sentences;
mod streams;
mod volumes_only;

use std::collections::{BTreeMap, BTreeSet};

use control::{Answer, Request};
use engine::Pool;
use engine::capabilities::FileSystems;
use engine::dataset::{DatasetRef, FileSystemSpec, PropertySource, Snapshots};
use file_system::{Identity, Make, Removable, SetAttributes};
use memory_engine::{MemoryEngine, MemoryPool, WaitingLog};
use operations::seals::Seals;
use operations::{Context, DocumentCache, NoServer, ServerHooks, perform};
use serde_json::{Value, json};
use units::VolumeName;

use cases::{ALL, Case};

/// A pool, and the controls of a test.
pub struct Bench {
    /// The engine, with its disks.
    pub engine: MemoryEngine,
    /// `tank`.
    pub pool: MemoryPool,
    documents: DocumentCache,
    folder: tempfile::TempDir,
}

/// Size of a disk.
const DISK_BYTES: u64 = 1 << 30;

impl Bench {
    /// A mirror called `tank` on `/disks/a` and `/disks/b`; the other disks are blank.
    pub fn prepared() -> Self {
        Self::on(MemoryEngine::new())
    }

    /// The same of an engine without disks.
    pub fn on(engine: MemoryEngine) -> Self {
        let pool = MemoryPool::on(&engine, "tank");
        for disk in ["c", "d", "e", "f"] {
            engine.insert_disk(&format!("/disks/{disk}"), DISK_BYTES);
        }
        engine.insert_disk("/disks/small", DISK_BYTES / 2);
        engine.insert_disk("/disks/used", DISK_BYTES);
        engine.fill_disk("/disks/used", "a file system");
        let folder = tempfile::tempdir().expect("a folder");
        let seals = Seals::new(&folder.path().join("authkey"), folder.path());
        Self {
            engine,
            pool,
            documents: DocumentCache::with_seals(seals),
            folder,
        }
    }

    /// Returns the context that requests are performed in.
    pub fn context<'a>(&'a self, hooks: &'a dyn ServerHooks) -> Context<'a> {
        Context {
            pool: &self.pool as &dyn Pool,
            hooks,
            documents: &self.documents,
        }
    }

    /// Performs the request. Returns the outcome as text.
    pub fn ask(&self, hooks: &dyn ServerHooks, verb: &str, arguments: &str) -> Outcome {
        let request = request(verb, &self.filled_in(arguments));
        let outcome = perform(&self.context(hooks), request, &mut |_| {});
        Outcome::of(outcome)
    }

    /// Replaces the placeholder for the directory of this test in the arguments.
    fn filled_in(&self, arguments: &str) -> String {
        arguments.replace("FOLDER", &self.folder.path().to_string_lossy())
    }

    /// Performs a line that is not a request.
    fn perform_step(&self, what: &str, arguments: &str) {
        match what {
            "hold scans" => self.pool.hold_scans(arguments == "yes"),
            "finish scan" => self.pool.finish_scan(),
            "remove disk" => self.engine.remove_disk(arguments),
            "return disk" => self.engine.return_disk(arguments),
            "errors" => self.pool.add_errors(arguments, 100),
            "log waits" => self.pool.set_log(arguments, WaitingLog::Waits),
            "log unreadable" => self.pool.set_log(arguments, WaitingLog::Unreadable),
            "make files" => self.make_files(arguments),
            "remove file" => self.remove_file(arguments),
            "file" => {
                let (name, text) = arguments.split_once(' ').expect("a name and a text");
                std::fs::write(self.folder.path().join(name), text).expect("written");
            }
            other => panic!("nothing is called {other:?}"),
        }
    }

    /// Files in the file system `name`: more than an empty one has objects.
    fn make_files(&self, name: &str) {
        let opened = self
            .pool
            .open_file_system(DatasetRef::from_checked(name), false);
        let files = opened.expect("it opens").files();
        let root = Identity {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
        };
        for number in 0..FileSystemSpec::OBJECTS_EMPTY {
            let (name, none) = (format!("file{number}"), SetAttributes::default());
            let made = files.make(
                &root,
                files.root(),
                name.as_bytes(),
                Make::File,
                &none,
                None,
            );
            made.expect("a new file");
        }
    }

    /// Removes a file, given as the file system and the name in its root.
    fn remove_file(&self, arguments: &str) {
        let (name, file) = arguments.split_once(' ').expect("a name and a file");
        let opened = self
            .pool
            .open_file_system(DatasetRef::from_checked(name), false);
        let files = opened.expect("it opens").files();
        let root = Identity {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
        };
        let removed = files.remove(&root, files.root(), file.as_bytes(), Removable::Any, None);
        removed.expect("it is there");
    }

    /// Performs a line of a table.
    fn perform(&self, (what, arguments, expected): Case) {
        if let Some(what) = what.strip_prefix('!') {
            return self.perform_step(what, arguments);
        }
        let before = self.dataset_state();
        let shown = self.shown_before(what, arguments, expected);
        if shown.is_some() {
            assert_eq!(
                self.dataset_state(),
                before,
                "a dry run of {what} {arguments}"
            );
        }
        let outcome = self.ask(&NoServer, what, arguments);
        assert_eq!(
            outcome.kind, expected,
            "{what} {arguments}: {}",
            outcome.text
        );
        let after = self.dataset_state();
        if !["changed", "told"].contains(&expected) {
            assert_eq!(
                after, before,
                "{what} {arguments} was refused, or had no effect"
            );
        }
        if let Some(shown) = shown {
            assert_eq!(
                shown, outcome.destroyed,
                "{what} {arguments} destroyed other datasets than its dry run showed"
            );
        }
        let is_gone = |name: &&String| !after.contains_key(*name) && !MOVES.contains(&what);
        let gone: Vec<&String> = before.keys().filter(is_gone).collect();
        let untold: Vec<_> = gone
            .iter()
            .filter(|name| !outcome.destroyed.contains(**name))
            .collect();
        assert!(
            untold.is_empty(),
            "{what} {arguments} destroyed {untold:?}, and its response does not list them"
        );
    }

    /// Returns the dry run's list for a request that destroys datasets.
    fn shown_before(&self, verb: &str, arguments: &str, expected: &str) -> Option<Vec<String>> {
        if expected != "changed" || !self.destroys_datasets(verb, arguments) {
            return None;
        }
        let mut own: Value = serde_json::from_str(arguments).expect("JSON");
        own["dry_run"] = Value::from(true);
        let shown = self.ask(&NoServer, verb, &own.to_string());
        assert_eq!(
            shown.kind, "already",
            "a dry run of {verb} {arguments}: {}",
            shown.text
        );
        own["dry_run"] = Value::from(false);
        own["ask"] = Value::from(true);
        let asked = self.ask(&NoServer, verb, &own.to_string());
        let asks = ["NeedsConfirmation", "already"].contains(&asked.kind.as_str());
        assert!(asks, "{verb} {arguments}: {}", asked.text);
        Some(shown.destroyed)
    }

    fn destroys_datasets(&self, verb: &str, arguments: &str) -> bool {
        let request = request(verb, &self.filled_in(arguments));
        let is_destroy = matches!(
            request.effect(&"tank".parse().expect("a name")),
            control::Effect::Destroy(_)
        );
        is_destroy && !WITHOUT_DRY_RUN.contains(&verb)
    }

    /// Returns datasets, snapshots and bookmarks with all their properties; nothing while the pool is not accessible.
    fn dataset_state(&self) -> BTreeMap<String, String> {
        let pool = &self.pool as &dyn Pool;
        let mut all = BTreeMap::new();
        for info in pool
            .datasets(pool.name().into(), Snapshots::Include)
            .unwrap_or_default()
        {
            let dataset = DatasetRef::from_checked(&info.name);
            let properties = pool.dataset_properties(dataset).unwrap_or_default();
            // Space numbers change with time.
            let shape = (info.volume, info.refreservation, info.origin, info.kind);
            let fixed: Vec<_> = properties
                .iter()
                .filter(|(name, property)| {
                    // The result of a run is stored even if it failed.
                    property.source == PropertySource::Local && *name != "bulkhead:replicate-state"
                })
                .collect();
            let volume = info.name.parse::<VolumeName>();
            let marks = volume
                .ok()
                .and_then(|name| pool.sending().ok()?.bookmarks(&name).ok());
            for mark in marks.unwrap_or_default() {
                all.insert(mark.name, String::new());
            }
            all.insert(info.name, format!("{shape:?} {fixed:?}"));
        }
        all
    }
}

/// The outcome of a request.
pub struct Outcome {
    /// `changed`, `already`, `told`, or the kind of the refusal.
    pub kind: String,
    /// All of it.
    pub text: String,
    /// The destroyed datasets in the response.
    pub destroyed: Vec<String>,
}

/// Requests that rename snapshots and datasets, or remove an incomplete one.
const MOVES: &[&str] = &[
    "filesystem.promote",
    "filesystem.rename",
    "snapshot.rename",
    "transfer.abort",
    "volume.promote",
    "volume.rename",
];

/// Requests that destroy the contents of a device in their arguments, and one with effects that depend on its stream.
const WITHOUT_DRY_RUN: &[&str] = &[
    "pool.add",
    "pool.attach",
    "pool.clear",
    "pool.discard_leg",
    "pool.remove",
    "pool.replace",
    "pool.replace_disk",
    "transfer.receive",
];

impl Outcome {
    /// Converts the result of a request.
    pub fn of(outcome: Result<Answer, control::Failure>) -> Self {
        let text = format!("{outcome:?}");
        let kind = match &outcome {
            Ok(Answer::Done(done)) if done.changed => "changed".to_owned(),
            Ok(Answer::Done(_)) => "already".to_owned(),
            Ok(Answer::RolledBack(_)) => "changed".to_owned(),
            Ok(_) => "told".to_owned(),
            Err(failure) => format!("{:?}", failure.kind),
        };
        let destroyed = match outcome {
            Ok(Answer::Done(done)) => done.destroyed,
            Ok(Answer::RolledBack(done)) => {
                let snapshots = done.destroyed.iter().map(ToString::to_string);
                snapshots.chain(done.destroyed_bookmarks).collect()
            }
            _ => Vec::new(),
        };
        Self {
            kind,
            text,
            destroyed,
        }
    }
}

/// The request of a verb's name and its arguments as JSON, of which there may be none.
fn request(verb: &str, arguments: &str) -> Request {
    let words: Vec<&str> = verb.split('.').collect();
    let (last, nouns) = words.split_last().expect("a verb");
    let own = match arguments {
        "" => Value::from(*last),
        arguments => {
            let arguments: Value = serde_json::from_str(arguments)
                .unwrap_or_else(|error| panic!("{arguments}: {error}"));
            json!({ *last: arguments })
        }
    };
    let whole = nouns
        .iter()
        .rev()
        .fold(own, |inner, noun| json!({ *noun: inner }));
    serde_json::from_value(whole).unwrap_or_else(|error| panic!("{verb} {arguments}: {error}"))
}

/// A table runs from its first line to its last, on a pool of its own.
fn perform_table(name: &str) {
    let (_, table) = ALL.iter().find(|(own, _)| *own == name).expect("a table");
    let bench = Bench::prepared();
    table.iter().for_each(|case| bench.perform(*case));
}

macro_rules! tables {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                perform_table(stringify!($name));
            }
        )*

        #[test]
        fn every_table_case_runs_as_listed() {
            let performed = [$(stringify!($name)),*];
            for (name, _) in ALL {
                assert!(performed.contains(name), "no test performs the table {name}");
            }
        }
    };
}

tables! {
    volumes, filesystems, rights, properties, rollbacks, logs, keys, snapshots, schedules, targets, secrets, nbd, transfers, replication, portals,
    the_pool, devices, replacements, scrubs, a_suspended_pool,
}

/// A server listens for clients of files nowhere by itself.
#[test]
fn pool_serve_command_contains_a_file_service_address() {
    let bench = Bench::prepared();
    let command = || match perform(&bench.context(&NoServer), Request::Status, &mut |_| {}) {
        Ok(Answer::Status(status)) => status.pool.server_command(),
        other => panic!("{other:?}"),
    };
    let share = |value: &str| {
        let arguments = format!(r#"{{"name":"tank","properties":{{"sharenfs":"{value}"}}}}"#);
        bench.ask(&NoServer, "filesystem.set", &arguments);
    };
    assert_eq!(command(), "bulkhead pool-server tank");
    share("ro=192.0.2.0/24");
    assert_eq!(command(), "bulkhead pool-server tank --nfs ADDRESS:2049");
    share("off");
    assert_eq!(command(), "bulkhead pool-server tank");
}

/// A scrub reads the last healthy copies, and they fail. It continues when the pool is resumed, so it has no end.
#[test]
fn an_awaited_scrub_ends_with_the_reason_when_the_pool_is_suspended() {
    let bench = Bench::prepared();
    bench.pool.hold_scans(true);
    let scrub = request("pool.scrub", r#"{"action":"start","wait":true}"#);
    let ended = perform(&bench.context(&NoServer), scrub, &mut |_| {
        ["/disks/a", "/disks/b"]
            .iter()
            .for_each(|disk| bench.engine.remove_disk(disk));
    });
    let failure = ended.expect_err("it is not complete");
    assert_eq!(failure.kind, control::FailureKind::Unavailable);
    let advice = failure.advice.unwrap_or_default();
    assert!(
        failure.message.contains("is suspended") && advice.contains("`bulkhead pool clear tank`"),
        "{}; {advice}",
        failure.message
    );
}

#[test]
fn the_plan_for_a_new_disk_names_what_its_replacement_would_refuse() {
    let bench = Bench::prepared();
    let plan = |with: &str| {
        let arguments = format!(r#"{{"device":"/disks/a","with":"{with}","perform":false}}"#);
        let planned = perform(
            &bench.context(&NoServer),
            request("pool.replace_disk", &arguments),
            &mut |_| {},
        );
        match planned {
            Ok(Answer::Replacement(view)) => (view.hindrance.unwrap_or_default(), view.steps.len()),
            other => panic!("{other:?}"),
        }
    };
    for (with, part) in [
        ("/disks/small", "too small"),
        ("/disks/used", "--overwrite-old-labels"),
        ("/disks/none", "does not exist"),
        ("/disks/b", "own device"),
    ] {
        let (hindrance, steps) = plan(with);
        assert!(hindrance.contains(part), "{with}: {hindrance}");
        assert_eq!(steps, 0, "{with}");
    }
    assert_eq!(plan("/disks/c"), (String::new(), 3));
}

#[test]
fn the_plan_names_the_refusal_of_the_change_and_changes_nothing() {
    let bench = Bench::prepared();
    let plan = |change: &str| {
        let arguments = format!(r#"{{"change":{change}}}"#);
        match perform(
            &bench.context(&NoServer),
            request("pool.plan", &arguments),
            &mut |_| {},
        ) {
            Ok(Answer::Plan(view)) => view.refused.unwrap_or_default(),
            other => panic!("{other:?}"),
        }
    };
    for (change, part) in [
        (
            r#"{"add":{"groups":[{"kind":"stripe","role":"data","devices":["/disks/f"]}]}}"#,
            "--mismatched",
        ),
        (
            r#"{"attach":{"existing":"/disks/a","new":"/disks/used"}}"#,
            "--overwrite-old-labels",
        ),
        (
            r#"{"attach":{"existing":"/disks/a","new":"/disks/b"}}"#,
            "own device",
        ),
        (
            r#"{"replace":{"old":"/disks/a","new":"/disks/small"}}"#,
            "too small",
        ),
        (
            r#"{"remove":{"device":"/disks/none"}}"#,
            "has no device /disks/none",
        ),
        (r#"{"attach":{"existing":"/disks/a","new":"/disks/c"}}"#, ""),
    ] {
        let refused = plan(change);
        assert!(refused.contains(part), "{change}: {refused}");
        assert_eq!(refused.is_empty(), part.is_empty(), "{change}: {refused}");
    }
    // The same device can still join.
    bench.ask(
        &NoServer,
        "pool.attach",
        r#"{"existing":"/disks/a","new":"/disks/c"}"#,
    );
}

fn said(bench: &Bench, hooks: &dyn ServerHooks, verb: &str, arguments: &str) -> String {
    match perform(&bench.context(hooks), request(verb, arguments), &mut |_| {}) {
        Ok(Answer::Done(done)) => done.message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_detach_warns_of_the_last_copy_only() {
    let bench = Bench::prepared();
    let attach = r#"{"existing":"/disks/a","new":"/disks/c"}"#;
    bench.ask(&NoServer, "pool.attach", attach);
    let detach = |disk: &str| {
        said(
            &bench,
            &NoServer,
            "pool.detach",
            &format!(r#"{{"device":"{disk}"}}"#),
        )
    };
    let redundancy = "detached /disks/c; mirror-0 survives the loss of one device";
    assert_eq!(detach("/disks/c"), redundancy);
    let last = detach("/disks/b");
    for part in [
        "/disks/a is the only device",
        "pool tank is lost",
        "`bulkhead pool attach tank /disks/a DEVICE`",
    ] {
        assert!(last.contains(part), "{part}: {last}");
    }
}

#[test]
fn a_lack_of_space_names_the_quota_that_is_reached() {
    let bench = Bench::prepared();
    let files = r#"{"name":"tank/a","owner":0,"group":0,"mode":"755","properties":{"quota":"64M"},"parents":false,"exist_ok":false}"#;
    bench.ask(&NoServer, "filesystem.create", files);
    let volume = |name: &str| {
        let arguments = format!(
            r#"{{"name":"{name}","size":536870912,"block_size":null,"sparse":false,"properties":{{}},"parents":false,"exist_ok":false}}"#
        );
        let created = request("volume.create", &arguments);
        let refused = perform(&bench.context(&NoServer), created, &mut |_| {});
        let failure = refused.expect_err("there is no space");
        assert_eq!(failure.kind, control::FailureKind::NoSpace);
        failure.message
    };
    let message = volume("tank/a/v");
    assert!(message.contains("the quota of tank/a is 64M"), "{message}");
    // The pool itself has no more space.
    let first = r#"{"name":"tank/w","size":805306368,"block_size":null,"sparse":false,"properties":{},"parents":false,"exist_ok":false}"#;
    bench.ask(&NoServer, "volume.create", first);
    let message = volume("tank/v");
    assert!(!message.contains("quota"), "{message}");
}

/// A hold protects a snapshot from every other request.
#[test]
fn the_destruction_of_a_pool_names_the_held_snapshots_first() {
    let bench = Bench::prepared();
    for (verb, arguments) in [
        (
            "volume.create",
            r#"{"name":"tank/v","size":16777216,"block_size":null,"sparse":true,"properties":{},"parents":false,"exist_ok":false}"#,
        ),
        ("snapshot.create", r#"{"names":["tank/v@a"]}"#),
        ("snapshot.create", r#"{"names":["tank/v@b"]}"#),
        ("snapshot.hold", r#"{"tag":"backup","names":["tank/v@a"]}"#),
    ] {
        let done = bench.ask(&NoServer, verb, arguments);
        assert_eq!(done.kind, "changed", "{}", done.text);
    }
    let asked = bench.ask(&NoServer, "pool.destroy", r#"{"ask":true}"#);
    assert_eq!(asked.kind, "NeedsConfirmation", "{}", asked.text);
    assert!(
        asked
            .text
            .contains("held snapshots are among them: tank/v@a (by backup)"),
        "{}",
        asked.text
    );
    let shown = bench.ask(&NoServer, "pool.destroy", r#"{"dry_run":true}"#);
    assert!(shown.text.contains("(by backup)"), "{}", shown.text);
}

/// A command that opens a pool itself closes it again, and a resilver, a scrub or a removal with it.
#[test]
fn work_in_the_background_of_a_pool_without_a_server_is_said_to_need_one() {
    let bench = Bench::prepared();
    bench.pool.hold_scans(true);
    let attach = r#"{"existing":"/disks/a","new":"/disks/c"}"#;
    let serve = "`bulkhead pool-server tank`";
    let told = said(&bench, &NoServer, "pool.attach", attach);
    assert!(told.contains(serve), "{told}");
    let Ok(Answer::Status(status)) =
        perform(&bench.context(&NoServer), Request::Status, &mut |_| {})
    else {
        panic!("no status");
    };
    let advice = status.pool.advice[0].to_string();
    assert!(
        advice.contains(serve) && !advice.contains("wait for"),
        "{advice}"
    );
    bench.pool.finish_scan();
    bench.ask(&NoServer, "pool.detach", r#"{"device":"/disks/c"}"#);
    let add = r#"{"groups":[{"kind":"mirror","role":"data","devices":["/disks/d","/disks/e"]}]}"#;
    bench.ask(&NoServer, "pool.add", add);
    let told = said(&bench, &NoServer, "pool.remove", r#"{"device":"mirror-1"}"#);
    assert!(told.contains(serve), "{told}");
    let scrub = r#"{"action":"start","wait":false}"#;
    let told = said(&bench, &NoServer, "pool.scrub", scrub);
    assert!(told.contains(serve), "{told}");
}

/// A new operation must be in a table, or in the list of exceptions here.
#[test]
fn every_operation_is_in_a_table() {
    let lines = ALL.iter().flat_map(|(_, table)| table.iter());
    let tested: BTreeSet<&str> = lines.map(|(verb, ..)| *verb).collect();
    let all: BTreeSet<&str> = Request::verbs().into_iter().collect();
    let missing: Vec<_> = all.difference(&tested).collect();
    assert!(missing.is_empty(), "no table has {missing:?}");
    let unknown: Vec<_> = tested
        .difference(&all)
        .filter(|verb| !verb.starts_with('!'))
        .collect();
    assert!(unknown.is_empty(), "there are no operations {unknown:?}");
}

/// Exports, replication and identities are only written by their own commands, not by commands that accept properties.
#[test]
fn property_operations_cannot_set_bulkhead_properties() {
    let lines = || ALL.iter().flat_map(|(_, table)| table.iter());
    let mut tried = BTreeSet::new();
    for (verb, arguments, _) in lines().filter(|(verb, ..)| !verb.starts_with('!')) {
        let Ok(mut arguments) = serde_json::from_str::<Value>(arguments) else {
            continue;
        };
        for own in ["bulkhead:replicate", "bulkhead:export", "bulkhead:new"] {
            match (arguments.get_mut("properties"), *verb) {
                (Some(properties), _) => properties[own] = json!("{}"),
                (None, "volume.inherit" | "filesystem.inherit") => {
                    arguments["names"] = json!([own]);
                }
                (None, _) => continue,
            }
            let text = arguments.to_string();
            let outcome = Bench::prepared().ask(&NoServer, verb, &text);
            assert_eq!(outcome.kind, "Usage", "{verb} {text}: {}", outcome.text);
            assert!(
                outcome.text.contains("Bulkhead's own"),
                "{verb} {text}: {}",
                outcome.text
            );
            tried.insert(*verb);
        }
    }
    let expected = [
        "filesystem.create",
        "filesystem.inherit",
        "filesystem.set",
        "pool.set",
        "snapshot.clone",
        "volume.create",
        "volume.inherit",
        "volume.set",
    ];
    assert_eq!(tried, BTreeSet::from(expected));
}

/// Every modifying operation also has a refusal in a table.
#[test]
fn every_change_has_a_refusal_case() {
    let done = ["changed", "already", "told", ""];
    let lines = || ALL.iter().flat_map(|(_, table)| table.iter());
    let refused: BTreeSet<&str> = lines()
        .filter(|(_, _, outcome)| !done.contains(outcome))
        .map(|(verb, ..)| *verb)
        .collect();
    let changing: BTreeSet<&str> = lines()
        .filter(|(_, _, outcome)| *outcome == "changed")
        .map(|(verb, ..)| *verb)
        .collect();
    let never: Vec<_> = changing
        .difference(&refused)
        .filter(|verb| !cases::NEVER_REFUSED.contains(verb))
        .collect();
    assert!(never.is_empty(), "no table has a refusal of {never:?}");
}
