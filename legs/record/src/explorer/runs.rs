//! The explorations of a test run, with their bounds. Coverage is printed.
//!
//! `BULKHEAD_LEGS_TIMES=100` explores a hundred times as many states and walks.

use super::search::{Found, explore, shorten, walk};
use super::world::{Fault, Kind, Setup, Start};
use std::collections::BTreeSet;
use std::io::Write as _;

/// Of one exploration.
const STATES_MAX: u64 = 30_000;
const WALKS_MAX: u64 = 300;
const WALK_STEPS_MAX: usize = 300;

const KINDS: [Kind; 4] = [Kind::TwoHeads, Kind::Witness, Kind::ThreeHeads, Kind::Raidz];

pub(super) const FAULTS: [Fault; 19] = [
    Fault::Crash,
    Fault::ServerCrash,
    Fault::LenderRestart,
    Fault::Cut,
    Fault::Lose,
    Fault::Duplicate,
    Fault::DiskFails,
    Fault::ReadFails,
    Fault::Unusable,
    Fault::LinkLost,
    Fault::FenceFails,
    Fault::PowerLoss,
    Fault::ForeignImport,
    Fault::OlderImage,
    Fault::Forget,
    Fault::Hurry,
    Fault::Discard,
    Fault::Replace,
    Fault::Close,
];

/// The count, multiplied in a longer run.
pub(super) fn longer(count: u64) -> u64 {
    let times = std::env::var("BULKHEAD_LEGS_TIMES").ok();
    count * times.and_then(|text| text.parse().ok()).unwrap_or(1_u64)
}

/// Prints a line that the test runner shows with `--nocapture`.
pub(super) fn report(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub(super) fn pass(setup: &Setup, found: Found, what: &str) -> BTreeSet<&'static str> {
    if let Some(violation) = found.violation {
        let violation = shorten(setup, violation);
        panic!("{what}: {}", violation.text(setup));
    }
    found.covered
}

/// Explores all states within the bounds, up to the limit.
pub(super) fn inspect(setup: &Setup, what: &str) {
    let found = explore(setup, longer(STATES_MAX) as usize);
    let all = match found.is_exhausted {
        true => "all",
        false => "the first",
    };
    report(&format!(
        "{:?}, {what}: {all} {} states, {} steps deep",
        setup.kind, found.states, found.depth
    ));
    pass(setup, found, what);
}

#[test]
fn states_near_start_keep_all_invariants() {
    for kind in KINDS {
        let one_opens = Setup::new(kind, 0, 1, 1).by(&[0]);
        inspect(&one_opens, "new, no fault, one open, one write");
        let two_open = Setup::new(kind, 0, 2, 0).by(&[0, 1]);
        inspect(&two_open, "new, no fault, two opens");
        let goes_on = Setup::new(kind, 0, 0, 2).from(Start::Degraded);
        inspect(&goes_on, "a leg returns, no fault, one write");
        for fault in FAULTS {
            for start in [Start::Served, Start::Degraded] {
                let setup = Setup::new(kind, 1, 0, 2).with(&[fault]).from(start);
                let found = explore(&setup, longer(STATES_MAX / 8) as usize);
                let what = format!("{start:?}, one {fault:?}, no open");
                if !found.is_exhausted {
                    report(&format!(
                        "{kind:?}, {what}: the first {} states",
                        found.states
                    ));
                }
                pass(&setup, found, &what);
            }
        }
        let opened = Setup::new(kind, 1, 1, 2).with(&FAULTS).by(&[1]);
        inspect(
            &opened.clone().from(Start::Served),
            "served, any fault, another opens",
        );
        inspect(
            &opened.from(Start::Degraded),
            "degraded, any fault, another opens",
        );
    }
}

/// An old owner that is alive although its fence was reported can write to no current leg, if a quorum stores the
/// record.
#[test]
fn false_fence_report_loses_no_acknowledged_write() {
    for kind in [Kind::Witness, Kind::ThreeHeads] {
        let faults = [Fault::LinkLost, Fault::DiskFails, Fault::Cut, Fault::Hurry];
        let setup = Setup::new(kind, 2, 1, 3).with(&faults).from(Start::Usurped);
        inspect(&setup, "usurped, two faults");
        for seed in 0..longer(WALKS_MAX) {
            let found = walk(&setup, seed, WALK_STEPS_MAX);
            pass(&setup, found, &format!("seed {seed}"));
        }
    }
}

/// A head freezes, is considered off, and resumes in its old state.
#[test]
fn frozen_head_treated_as_off_loses_no_acknowledged_write() {
    const EXPECTED: [&str; 3] = [
        "a frozen head is taken for one that is off",
        "a frozen head resumes",
        "a write is acknowledged",
    ];
    let faults = [
        Fault::Freeze,
        Fault::Crash,
        Fault::ServerCrash,
        Fault::DiskFails,
        Fault::Cut,
        Fault::Hurry,
    ];
    for kind in [Kind::TwoHeads, Kind::Witness] {
        let mut covered = BTreeSet::new();
        for start in [Start::Served, Start::Degraded, Start::Frozen] {
            let setup = Setup::new(kind, 2, 2, 3).with(&faults).from(start);
            inspect(&setup, &format!("{start:?}, frozen, two faults"));
            let setup = Setup::new(kind, 4, 4, 6).with(&faults).from(start);
            for seed in 0..longer(WALKS_MAX) {
                let found = walk(&setup, seed, WALK_STEPS_MAX);
                covered.extend(pass(&setup, found, &format!("{start:?}, seed {seed}")));
            }
        }
        let missing: Vec<_> = EXPECTED
            .iter()
            .filter(|one| !covered.contains(*one))
            .collect();
        assert!(missing.is_empty(), "{kind:?}: never seen: {missing:?}");
    }
}

/// One head is the only member. It has no link that breaks and no head to fence.
#[test]
fn single_head_with_local_legs_keeps_all_invariants() {
    let faults = [
        Fault::Crash,
        Fault::ServerCrash,
        Fault::LenderRestart,
        Fault::DiskFails,
        Fault::PowerLoss,
        Fault::Hurry,
        Fault::Close,
    ];
    for start in [Start::New, Start::Served, Start::Degraded] {
        let setup = Setup::new(Kind::OneHead, 2, 2, 2).with(&faults).from(start);
        inspect(&setup, &format!("{start:?}, two faults"));
        let setup = Setup::new(Kind::OneHead, 6, 4, 6).with(&faults).from(start);
        for seed in 0..longer(WALKS_MAX) {
            let found = walk(&setup, seed, WALK_STEPS_MAX);
            pass(&setup, found, &format!("{start:?}, seed {seed}"));
        }
    }
}

#[test]
fn random_walks_keep_all_invariants() {
    const EXPECTED: [&str; 12] = [
        "a record is committed",
        "a disk is exchanged",
        "a pool is served",
        "a pool is given up in order",
        "a write is acknowledged",
        "an error is released",
        "a leg fails",
        "a resilver begins",
        "a connection is resumed",
        "a disk diverges",
        "an older image is noticed",
        "writes wait",
    ];
    for kind in KINDS {
        let mut covered = BTreeSet::new();
        let mut steps = 0;
        for start in [
            Start::New,
            Start::Served,
            Start::Degraded,
            Start::OnOtherHead,
            Start::Ahead,
        ] {
            let setup = Setup::new(kind, 5, 4, 6)
                .with(&FAULTS)
                .from(start)
                .by_confirmation();
            for seed in 0..longer(WALKS_MAX) {
                let found = walk(&setup, seed, WALK_STEPS_MAX);
                steps += found.states;
                covered.extend(pass(
                    &setup,
                    found,
                    &format!("{kind:?}, {start:?}, seed {seed}"),
                ));
            }
        }
        let walks = longer(WALKS_MAX) * 5;
        report(&format!(
            "{kind:?}: {walks} walks with up to 5 faults, {steps} steps"
        ));
        let again = match kind {
            Kind::TwoHeads => None,
            _ => Some("a member that lost its memory is one again"),
        };
        let expected = EXPECTED.iter().chain(&again);
        let missing: Vec<_> = expected.filter(|one| !covered.contains(*one)).collect();
        assert!(missing.is_empty(), "{kind:?}: never seen: {missing:?}");
    }
}

/// A member that lost its memory, in all stages: each of the other two fails at the same time.
#[test]
fn member_state_loss_loses_no_acknowledged_write() {
    let faults = [
        Fault::Forget,
        Fault::Crash,
        Fault::ServerCrash,
        Fault::Cut,
        Fault::Lose,
        Fault::DiskFails,
        Fault::Hurry,
    ];
    for (kind, start) in [
        (Kind::ThreeHeads, Start::Served),
        (Kind::Witness, Start::Degraded),
        (Kind::Witness, Start::Unresponsive),
        (Kind::Witness, Start::Forgotten),
    ] {
        let setup = Setup::new(kind, 6, 4, 6).with(&faults).from(start);
        for seed in 0..longer(WALKS_MAX) {
            let found = walk(&setup, seed, WALK_STEPS_MAX);
            pass(&setup, found, &format!("{kind:?}, {start:?}, seed {seed}"));
        }
    }
}

/// A disk joins the pool while all other faults occur.
#[test]
fn attached_disk_counts_once_fully_resilvered() {
    let faults = [
        Fault::Attach,
        Fault::Crash,
        Fault::ServerCrash,
        Fault::LenderRestart,
        Fault::Cut,
        Fault::Lose,
        Fault::DiskFails,
        Fault::Replace,
        Fault::Hurry,
        Fault::Close,
    ];
    for kind in [Kind::TwoHeads, Kind::Witness, Kind::ThreeHeads] {
        let setup = Setup::new(kind, 2, 1, 2).with(&faults).from(Start::Narrow);
        inspect(&setup, "Narrow, two faults");
        let setup = Setup::new(kind, 6, 4, 6).with(&faults).from(Start::Narrow);
        let mut covered = BTreeSet::new();
        for seed in 0..longer(WALKS_MAX) {
            let found = walk(&setup, seed, WALK_STEPS_MAX);
            covered.extend(pass(
                &setup,
                found,
                &format!("{kind:?}, Narrow, seed {seed}"),
            ));
        }
        assert!(covered.contains("a disk is attached"), "{kind:?}");
        assert!(covered.contains("a resilver begins"), "{kind:?}");
    }
}

/// A printed trace can be replayed.
#[test]
fn a_trace_can_be_replayed() {
    use crate::rules::{Rule, without};
    without(Rule::ErrorsAreWithheld, || {
        let setup = Setup::new(Kind::Witness, 1, 0, 2)
            .with(&[Fault::DiskFails])
            .from(Start::Served);
        let violation = explore(&setup, 10_000).violation.expect("found");
        let world = super::search::replay(&setup, &violation.trace);
        assert_eq!(world.violation, Some(violation.name));
    });
}
