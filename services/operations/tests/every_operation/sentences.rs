//! Sentences of responses that the tables, which have only the kind of each outcome, do not compare.

use engine::Pool;
use operations::NoServer;
use units::SnapshotName;

use super::{Bench, Outcome};

fn ask(bench: &Bench, verb: &str, arguments: &str) -> Outcome {
    bench.ask(&NoServer, verb, arguments)
}

fn changed(bench: &Bench, verb: &str, arguments: &str) -> String {
    let outcome = ask(bench, verb, arguments);
    assert_eq!(
        outcome.kind, "changed",
        "{verb} {arguments}: {}",
        outcome.text
    );
    outcome.text
}

fn assert_has(outcome: &Outcome, kind: &str, parts: &[&str]) {
    assert_eq!(outcome.kind, kind, "{}", outcome.text);
    for part in parts {
        assert!(outcome.text.contains(part), "{part:?}: {}", outcome.text);
    }
}

/// A pool with the volume `tank/v` and its snapshots of these names.
fn with_snapshots(tags: &[&str]) -> Bench {
    let bench = Bench::prepared();
    changed(
        &bench,
        "volume.create",
        r#"{"name":"tank/v","size":16777216,"block_size":null,"sparse":true,"properties":{},"parents":false,"exist_ok":false}"#,
    );
    for tag in tags {
        let name: SnapshotName = format!("tank/v@{tag}").parse().expect("a name");
        let pool = &bench.pool as &dyn Pool;
        pool.snapshot(&[name]).expect("a snapshot");
    }
    bench
}

/// A pattern does not select them, which is no success.
#[test]
fn pattern_that_matches_only_snapshots_of_a_replication_is_refused() {
    let bench = with_snapshots(&["repl-1", "repl-2", "monday"]);
    let only_own = r#"{"names":["tank/v@repl*"]}"#;
    let refused = ask(&bench, "snapshot.destroy", only_own);
    let parts = [
        "no snapshot was destroyed: replication retains all that match: tank/v@repl-1, tank/v@repl-2",
        "`bulkhead replicate remove`",
    ];
    assert_has(&refused, "Busy", &parts);
    for (verb, outcome) in [
        ("snapshot.hold", "no hold was added: replication"),
        ("snapshot.release", "no hold was removed: replication"),
    ] {
        let held = r#"{"tag":"x","names":["tank/v@repl*"],"recursive":false}"#;
        assert_has(&ask(&bench, verb, held), "Busy", &[outcome]);
    }
    let none = ask(&bench, "snapshot.destroy", r#"{"names":["tank/v@none*"]}"#);
    assert_has(&none, "already", &["no such snapshots"]);
    let some = ask(&bench, "snapshot.destroy", r#"{"names":["tank/v@*"]}"#);
    let parts = ["tank/v@monday", "without 2 that replication"];
    assert_has(&some, "changed", &parts);
    let named = ask(&bench, "snapshot.destroy", r#"{"names":["tank/v@repl-1"]}"#);
    assert_has(&named, "changed", &["tank/v@repl-1"]);
}

/// The dry run has the reason that the rollback itself has.
#[test]
fn dry_run_of_a_rollback_shows_holds_and_clones_that_refuse_it() {
    let dry = r#"{"to":"tank/v@old","destroy_newer":true,"dry_run":true}"#;
    let real = r#"{"to":"tank/v@old","destroy_newer":true}"#;
    let bench = with_snapshots(&["old", "new"]);
    let shown = ask(&bench, "volume.rollback", dry);
    assert!(!shown.text.contains("is refused"), "{}", shown.text);
    changed(
        &bench,
        "snapshot.hold",
        r#"{"tag":"audit","names":["tank/v@new"],"recursive":false}"#,
    );
    let reason = "tank/v@new is held by audit";
    assert_has(&ask(&bench, "volume.rollback", real), "Busy", &[reason]);
    let parts = ["in the current state it is refused", reason];
    assert_has(&ask(&bench, "volume.rollback", dry), "already", &parts);
    changed(
        &bench,
        "snapshot.clone",
        r#"{"from":"tank/v@new","to":"tank/clone","properties":{}}"#,
    );
    let reason = "newer snapshots have 1 clone(s): tank/clone";
    assert_has(&ask(&bench, "volume.rollback", real), "Busy", &[reason]);
    let parts = ["in the current state it is refused", reason];
    assert_has(&ask(&bench, "volume.rollback", dry), "already", &parts);
}
