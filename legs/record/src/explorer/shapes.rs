//! Groups with several disks on a head, groups with double parity, and pools of unlike groups.

use super::cases::{begin_with, is_open, opens, write};
use super::runs::{FAULTS, longer, pass, report};
use super::search::{explore, last_notice, walk};
use super::steps::Step;
use super::world::{Fault, Kind, Setup, Start, World, disk_id};
use crate::{Notice, Refusal};
use std::collections::BTreeSet;

const KINDS: [Kind; 4] = [Kind::Wide, Kind::WideTwoHeads, Kind::Raidz2, Kind::Mixed];
/// Of one exploration: a state has more disks than in the other explorations, and more next states.
const STATES_MAX: u64 = 8_000;
const WALKS_MAX: u64 = 60;
const WALK_STEPS_MAX: usize = 400;

fn begin(kind: Kind, start: Start) -> (Setup, World) {
    begin_with(kind, start, &[Fault::Cut, Fault::DiskFails])
}

/// The disks of head 1.
fn disks_of_head_1(world: &World) -> Vec<u8> {
    let disks = 0..world.disks.len() as u8;
    disks.filter(|disk| world.host(*disk) == 1).collect()
}

/// Head 1 is lost with all its disks. The head of the pool writes on.
fn lose_head_1(setup: &Setup, world: &mut World) {
    world.take(setup, Step::Crash(1));
    assert!(write(setup, world, 0), "{:?}", setup.kind);
    for disk in disks_of_head_1(world) {
        let is_current = world.committed.current.contains_key(&disk_id(disk));
        assert!(!is_current, "{:?}: disk {disk}", setup.kind);
    }
}

#[test]
fn any_one_head_may_be_lost_and_returns_with_all_of_its_disks() {
    for kind in [Kind::Wide, Kind::Raidz2, Kind::Mixed] {
        let (setup, mut world) = begin(kind, Start::Served);
        lose_head_1(&setup, &mut world);
        world.then(&setup, Step::Boot(1));
        for disk in disks_of_head_1(&world) {
            world.then(&setup, Step::LegReturned { head: 0, disk });
            world.then(&setup, Step::Copy { head: 0, disk });
        }
        let all = world.disks.len();
        assert_eq!(world.committed.current.len(), all, "{kind:?}");
        assert_eq!(world.violation, None);
    }
}

/// The failure that suspends a mirror with one disk on each head.
#[test]
fn a_disk_of_a_mirror_with_two_on_each_head_fails_while_the_other_head_is_down() {
    let (setup, mut world) = begin(Kind::Wide, Start::Served);
    lose_head_1(&setup, &mut world);
    world.take(&setup, Step::DiskFails(0));
    assert!(write(&setup, &mut world, 0));
    assert_eq!(last_notice(), None, "writes do not wait");
    assert_eq!(world.committed.current_disks(), [disk_id(2)].into());
    world.take(&setup, Step::DiskFails(2));
    assert!(!write(&setup, &mut world, 0));
    assert_eq!(last_notice(), Some(Notice::LastLeg(disk_id(2))));
}

/// Then the head that was down returns alone: it has no current disk.
#[test]
fn the_head_with_the_stale_disks_does_not_open_the_pool() {
    for kind in [Kind::Wide, Kind::Raidz2, Kind::Mixed] {
        let (setup, mut world) = begin(kind, Start::Served);
        lose_head_1(&setup, &mut world);
        world.take(&setup, Step::Crash(0));
        world.net.clear();
        world.then(&setup, Step::Boot(1));
        world.then(&setup, Step::Open(1));
        assert!(!is_open(&world, 1), "{kind:?}");
        let notice = last_notice();
        let is_refused = matches!(
            notice,
            Some(Notice::Refused(
                Refusal::Stale(_) | Refusal::OwnerUnconfirmed(_)
            ))
        );
        assert!(is_refused, "{kind:?}: {notice:?}");
        assert_eq!(world.violation, None);
    }
}

/// Four of six are needed: a third one that fails stays in the record, and writes wait for it.
#[test]
fn with_double_parity_any_two_disks_may_be_lost_and_no_third_one() {
    for (one, other) in [(1, 4), (1, 2), (0, 3), (3, 5)] {
        let (setup, mut world) = begin(Kind::Raidz2, Start::Served);
        world.take(&setup, Step::DiskFails(one));
        assert!(write(&setup, &mut world, 0), "{one}");
        world.take(&setup, Step::DiskFails(other));
        assert!(write(&setup, &mut world, 0), "{one} {other}");
        assert_eq!(world.committed.current.len(), 4);
        let third = (0..6).find(|disk| ![one, other].contains(disk));
        let third = third.expect("six disks");
        world.take(&setup, Step::DiskFails(third));
        assert!(!write(&setup, &mut world, 0), "{third}");
        assert_eq!(last_notice(), Some(Notice::LastLeg(disk_id(third))));
        assert!(world.committed.current.contains_key(&disk_id(third)));
    }
}

/// Each head can open the pool after the loss of a second head, with the disks of the remaining two.
#[test]
fn each_head_takes_over_from_a_lost_one() {
    for kind in [Kind::Wide, Kind::Raidz2, Kind::Mixed] {
        let (setup, mut world) = begin(kind, Start::Served);
        assert!(write(&setup, &mut world, 0));
        world.take(&setup, Step::Crash(0));
        world.net.clear();
        opens(&setup, &mut world, 1);
        assert!(write(&setup, &mut world, 1), "{kind:?}");
    }
}

/// In a pool of two groups each group counts for itself.
#[test]
fn a_group_that_is_whole_does_not_replace_disks_of_another_one() {
    let (setup, mut world) = begin(Kind::Mixed, Start::Served);
    world.take(&setup, Step::DiskFails(2));
    assert!(write(&setup, &mut world, 0));
    world.take(&setup, Step::DiskFails(3));
    assert!(!write(&setup, &mut world, 0), "two of three are needed");
    assert_eq!(last_notice(), Some(Notice::LastLeg(disk_id(3))));
    let (setup, mut world) = begin(Kind::Mixed, Start::Served);
    world.take(&setup, Step::DiskFails(1));
    assert!(write(&setup, &mut world, 0));
    world.take(&setup, Step::DiskFails(4));
    assert!(write(&setup, &mut world, 0), "one disk of each group");
}

/// All disks of a group are put on record and prepared, then one record makes them current.
#[test]
fn a_group_joins_the_pool_with_all_of_its_disks_at_once() {
    let faults = [Fault::Cut, Fault::DiskFails, Fault::Attach];
    let (setup, mut world) = begin_with(Kind::Mixed, Start::Grouped, &faults);
    assert!(write(&setup, &mut world, 0));
    let before = world.committed.current_disks();
    for disk in 2..5 {
        assert_eq!(world.committed.current_disks(), before, "disk {disk}");
        world.then(&setup, Step::Attach { head: 0, disk });
        world.then(&setup, Step::LegReturned { head: 0, disk });
        world.then(&setup, Step::Copy { head: 0, disk });
    }
    assert_eq!(world.committed.current.len(), 5);
    assert_eq!(world.violation, None);
    assert!(write(&setup, &mut world, 0));
    // The group counts from now on.
    world.take(&setup, Step::DiskFails(2));
    assert!(write(&setup, &mut world, 0));
    world.take(&setup, Step::DiskFails(3));
    assert!(!write(&setup, &mut world, 0));
}

/// Until then the pool is opened and written without it.
#[test]
fn a_group_that_joins_is_not_needed_before_it_has_joined() {
    let faults = [Fault::Cut, Fault::DiskFails, Fault::Attach];
    let (setup, mut world) = begin_with(Kind::Mixed, Start::Grouped, &faults);
    world.then(&setup, Step::Attach { head: 0, disk: 2 });
    world.take(&setup, Step::DiskFails(2));
    assert!(write(&setup, &mut world, 0));
    world.take(&setup, Step::Crash(0));
    world.net.clear();
    opens(&setup, &mut world, 1);
    assert!(write(&setup, &mut world, 1));
}

#[test]
fn a_group_that_joins_amid_faults_violates_nothing() {
    let faults = [
        Fault::Attach,
        Fault::Crash,
        Fault::ServerCrash,
        Fault::LenderRestart,
        Fault::Cut,
        Fault::Lose,
        Fault::DiskFails,
        Fault::Hurry,
        Fault::Close,
    ];
    let setup = Setup::new(Kind::Mixed, 4, 1, 2).with(&faults);
    let setup = setup.from(Start::Grouped);
    let found = explore(&setup, longer(STATES_MAX) as usize);
    report(&format!("Mixed, Grouped: {} states", found.states));
    pass(&setup, found, "a group joins");
    let mut covered = BTreeSet::new();
    let setup = Setup::new(Kind::Mixed, 8, 4, 6).with(&faults);
    let setup = setup.from(Start::Gathered);
    for seed in 0..longer(WALKS_MAX * 4) {
        let found = walk(&setup, seed, WALK_STEPS_MAX);
        covered.extend(pass(&setup, found, &format!("a group joins, seed {seed}")));
    }
    assert!(covered.contains("a group joins"), "{covered:?}");
}

#[test]
fn states_near_start_keep_all_invariants() {
    for kind in KINDS {
        for start in [Start::Served, Start::Degraded] {
            for fault in [
                Fault::Crash,
                Fault::DiskFails,
                Fault::LinkLost,
                Fault::LenderRestart,
                Fault::PowerLoss,
                Fault::Replace,
            ] {
                let setup = Setup::new(kind, 1, 0, 2).with(&[fault]).from(start);
                let found = explore(&setup, longer(STATES_MAX / 4) as usize);
                pass(&setup, found, &format!("{start:?}, one {fault:?}, no open"));
            }
            let faults = [Fault::Crash, Fault::DiskFails];
            let setup = Setup::new(kind, 2, 1, 2).with(&faults).by(&[1]);
            let setup = setup.from(start);
            let found = explore(&setup, longer(STATES_MAX) as usize);
            report(&format!("{kind:?}, {start:?}: {} states", found.states));
            pass(&setup, found, "two faults, another opens");
        }
        let opens = Setup::new(kind, 0, 1, 1).by(&[0]);
        let found = explore(&opens, longer(STATES_MAX) as usize);
        pass(&opens, found, "new, no fault, one open, one write");
    }
}

#[test]
fn random_walks_keep_all_invariants() {
    const EXPECTED: [&str; 6] = [
        "a pool is served",
        "a write is acknowledged",
        "an error is released",
        "a resilver begins",
        "a connection is resumed",
        "writes wait",
    ];
    for kind in KINDS {
        let mut covered = BTreeSet::new();
        for start in [Start::New, Start::Served, Start::Degraded, Start::Alone] {
            let setup = Setup::new(kind, 6, 4, 6).with(&FAULTS).from(start);
            for seed in 0..longer(WALKS_MAX) {
                let found = walk(&setup, seed, WALK_STEPS_MAX);
                let what = format!("{kind:?}, {start:?}, seed {seed}");
                covered.extend(pass(&setup, found, &what));
            }
        }
        let missing: Vec<_> = EXPECTED
            .iter()
            .filter(|one| !covered.contains(*one))
            .collect();
        assert!(missing.is_empty(), "{kind:?}: never seen: {missing:?}");
    }
}
