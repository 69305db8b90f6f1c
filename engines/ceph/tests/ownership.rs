//! Owners of a shelf that are stopped or killed: a new owner claims it, and no late write of the previous one arrives.

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use block_device::{Extent, WaitMode};
use engine::dataset::{Depth, Snapshots};
use rustix::process::{Pid, Signal, kill_process};
use support::{DEADLINE, MIB, Scratch, fill, only_byte, seed, snapshot, volume, wait_until};

/// Four objects of 4 MiB.
const SIZE: u64 = 16 * MIB;
const ROUNDS: usize = 20;
/// A rollback has fewer steps.
const STEPS_MAX: u32 = 20;

/// The example `owner`, which Cargo builds next to the tests.
fn owner(arguments: &[&str]) -> Child {
    let here = std::env::current_exe().expect("a path");
    let target = here
        .parent()
        .and_then(|deps| deps.parent())
        .expect("target/PROFILE");
    let mut command = Command::new(target.join("examples/owner"));
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("started")
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn print(text: &str) {
    writeln!(std::io::stderr(), "{text}").expect("printed");
}

/// The exit status; none if a signal ended it.
fn exit_code(child: &mut Child) -> Option<i32> {
    let mut status = None;
    wait_until("the previous owner has exited", || {
        status = child.try_wait().expect("its status");
        status.is_some()
    });
    status.and_then(|status| status.code())
}

/// Kills a child that a failed test leaves behind.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// One round: returns the time from the decision to the first completed write of the new owner.
fn freeze_and_take_over(scratch: &mut Scratch, lines: usize) -> Duration {
    let mut old = Killed(owner(&[&scratch.namespace, "write"]));
    let output = old.0.stdout.take().expect("its output");
    let mut written = BufReader::new(output).lines();
    for _ in 0..lines {
        let line = written.next().expect("it writes").expect("a line");
        assert_eq!(line, "written");
    }
    kill_process(pid(&old.0), Signal::STOP).expect("stopped");
    let started = Instant::now();
    scratch.take_over();
    let opened = scratch
        .pool()
        .open_volume(&volume("tank/v"), Default::default())
        .expect("open");
    opened
        .write(0, &[b'B'; 4096], WaitMode::MayBlock)
        .expect("written");
    let first_write = started.elapsed();
    fill(&*opened, SIZE, b'B');
    kill_process(pid(&old.0), Signal::CONT).expect("continued");
    // Its output must not block it.
    std::thread::spawn(move || written.for_each(drop));
    assert_eq!(
        exit_code(&mut old.0),
        Some(0),
        "each of its late writes ended with Gone"
    );
    assert_eq!(
        only_byte(&*opened, SIZE),
        b'B',
        "a late write of the previous owner arrived"
    );
    opened.close();
    first_write
}

#[test]
#[ignore = "needs a cluster: python3 -m proof.ceph"]
fn late_writes_of_a_frozen_owner_never_arrive_after_a_claim() {
    let mut random = fastrand::Rng::with_seed(seed());
    let mut scratch = Scratch::new("frozen", "rbd");
    // The new owner is another host.
    let locks = tempfile::tempdir().expect("a directory");
    scratch.create("tank/v", SIZE);
    scratch.export();
    scratch.engine = support::engine(2, locks.path(), None);
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let lines = random.usize(1..40);
        let first_write = freeze_and_take_over(&mut scratch, lines);
        print(&format!(
            "round {round}: first write after {} ms",
            first_write.as_millis()
        ));
        times.push(first_write);
        scratch.export();
    }
    times.sort();
    let (median, worst) = (times[ROUNDS / 2], times[ROUNDS - 1]);
    print(&format!(
        "{ROUNDS} frozen owners, 0 late writes; first write: median {median:?}, worst {worst:?}"
    ));
    assert!(worst < DEADLINE);
}

#[test]
#[ignore = "needs a cluster: python3 -m proof.ceph"]
fn owner_on_the_blocklist_detects_the_loss_without_any_request() {
    let mut scratch = Scratch::new("idle", "rbd");
    let name = scratch.create("tank/v", SIZE);
    let opened = scratch
        .pool()
        .open_volume(&name, Default::default())
        .expect("open");
    let previous = scratch.pool.take().expect("open");
    let locks = tempfile::tempdir().expect("a directory");
    let first_engine =
        std::mem::replace(&mut scratch.engine, support::engine(2, locks.path(), None));
    scratch.take_over();
    let is_suspended =
        || previous.health().expect("open").suspended == Some(engine::pool::Suspension::OtherHost);
    wait_until("the previous owner has detected it", is_suspended);
    let gone = opened
        .read(Extent::new(0, 512), WaitMode::MayBlock)
        .err()
        .expect("refused");
    assert_eq!(gone.kind, block_device::ErrorKind::Gone);
    let late = previous.create_volume(&engine::dataset::VolumeSpec::sparse(
        volume("tank/late"),
        units::ByteCount(SIZE),
    ));
    assert!(late.is_err());
    drop((opened, previous, first_engine));
    assert_eq!(scratch.pool().volume_count().expect("counted"), 1);
    scratch.destroy();
}

#[test]
#[ignore = "needs a cluster: python3 -m proof.ceph"]
fn rollback_that_is_killed_at_any_step_has_happened_completely_or_not_at_all() {
    let mut scratch = Scratch::new("killed", "rbd");
    let name = scratch.create("tank/v", SIZE);
    let opened = scratch
        .pool()
        .open_volume(&name, Default::default())
        .expect("open");
    fill(&*opened, SIZE, 1);
    scratch
        .pool()
        .snapshot(&[snapshot("tank/v@1")])
        .expect("a snapshot");
    drop(opened);
    let (mut steps, mut outcomes) = (Vec::new(), Vec::new());
    for step in 1..=STEPS_MAX {
        let opened = scratch
            .pool()
            .open_volume(&name, Default::default())
            .expect("open");
        fill(&*opened, SIZE, 2);
        drop(opened);
        let killed = kill_at(&mut scratch, "rollback", step);
        let opened = scratch
            .pool()
            .open_volume(&name, Default::default())
            .expect("open");
        let found = only_byte(&*opened, SIZE);
        assert!(matches!(found, 1 | 2), "{found}");
        outcomes.push(found);
        let then = scratch
            .pool()
            .open_snapshot(&snapshot("tank/v@1"), Default::default())
            .expect("open");
        assert_eq!(only_byte(&*then, SIZE), 1, "the snapshot remains");
        drop((then, opened));
        // The image of the snapshot, and one clone at most.
        scratch.wait_until_collected(2);
        let Some(killed) = killed else {
            assert_eq!(found, 1, "not killed");
            assert!(outcomes.contains(&2), "no kill was before the change");
            assert!(
                outcomes[..steps.len()].contains(&1),
                "no kill was after the change"
            );
            assert_eq!(listed(&scratch), ["tank", "tank/v", "tank/v@1"]);
            print(&format!(
                "killed before each of {steps:?}: contents {outcomes:?}"
            ));
            return scratch.destroy();
        };
        steps.push(killed);
    }
    panic!("a rollback has more than {STEPS_MAX} steps");
}

/// The names of all volumes and snapshots.
fn listed(scratch: &Scratch) -> Vec<String> {
    let root = scratch.pool().name().clone();
    let listed = scratch.pool().datasets((&root).into(), Snapshots::Include);
    listed
        .expect("listed")
        .into_iter()
        .map(|one| one.name)
        .collect()
}

/// Performs the changes of the example, killed before the step of this number. Returns the step, or none at the end.
fn kill_at(scratch: &mut Scratch, changes: &str, step: u32) -> Option<String> {
    scratch.export();
    let mut child = Killed(owner(&[&scratch.namespace, changes, &step.to_string()]));
    let code = exit_code(&mut child.0);
    let mut output = String::new();
    let stdout = child.0.stdout.as_mut().expect("its output");
    std::io::Read::read_to_string(stdout, &mut output).expect("read");
    drop(child);
    scratch.take_over();
    match code {
        Some(0) => None,
        None => Some(output.trim().to_owned()),
        Some(code) => panic!("it failed with {code} before step {step}"),
    }
}

#[test]
#[ignore = "needs a cluster: python3 -m proof.ceph"]
fn changes_that_are_killed_at_any_step_are_complete_or_absent_and_leave_no_image() {
    const BOTH: [&str; 2] = ["tank/v@2", "tank/w@2"];
    let mut scratch = Scratch::new("changed", "rbd");
    scratch.create("tank/v", SIZE);
    let (mut steps, mut with_both) = (Vec::new(), 0);
    for step in 1..=STEPS_MAX {
        let killed = kill_at(&mut scratch, "change", step);
        let names = listed(&scratch);
        let is_there = |name: &str| names.iter().any(|one| one == name);
        assert_eq!(
            is_there(BOTH[0]),
            is_there(BOTH[1]),
            "both snapshots or none: {names:?}"
        );
        with_both += usize::from(is_there(BOTH[0]));
        // Each volume has one image, and discarded ones are removed.
        let volumes = names
            .iter()
            .filter(|name| name.contains('/') && !name.contains('@'));
        let count = volumes.count();
        scratch.wait_until_collected(count);
        assert_eq!(scratch.images().len(), count, "{names:?}");
        // As before.
        for name in ["tank/clone", "tank/w"] {
            if is_there(name) {
                scratch
                    .pool()
                    .destroy_dataset(&volume(name), Depth::Recursive)
                    .expect("destroyed");
            }
        }
        if is_there(BOTH[0]) {
            scratch
                .pool()
                .destroy_snapshots(&[snapshot(BOTH[0])])
                .expect("destroyed");
        }
        scratch.wait_until_collected(1);
        let Some(killed) = killed else {
            assert_eq!(names, ["tank", "tank/v"], "not killed");
            assert!(with_both > 1 && steps.len() > 9, "{with_both} of {steps:?}");
            print(&format!(
                "killed before each of {} steps: {steps:?}",
                steps.len()
            ));
            return scratch.destroy();
        };
        steps.push(killed);
    }
    panic!("the changes have more than {STEPS_MAX} steps");
}
