//! Volumes of a real cluster: locks of ranges, snapshots under writes, rollback, holes, and a cluster that is full.

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use block_device::{ErrorKind, Extent, Update, WaitMode};
use engine::Engine as _;
use engine::dataset::{Change, Depth};
use engine::pool::SafeToOwn;
use support::{MIB, Scratch, fill, only_byte, read, snapshot, volume, wait_until};

const SIZE: u64 = 8 * MIB;

#[test]
#[ignore = "needs a cluster: python3 -m proof.ceph"]
fn concurrent_compare_and_write_of_one_block_loses_no_change() {
    const THREADS: u64 = 4;
    const CHANGES: u64 = 40;
    let mut scratch = Scratch::new("update", "rbd");
    let name = scratch.create("tank/v", SIZE);
    let opened = scratch
        .pool()
        .open_volume(&name, Default::default())
        .expect("open");
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..CHANGES {
                    let changed = opened.update(Extent::new(512, 512), &mut |bytes| {
                        let (count, _) = bytes.split_first_chunk_mut::<8>().expect("a block");
                        *count = (u64::from_le_bytes(*count) + 1).to_le_bytes();
                        Update::Write
                    });
                    changed.expect("updated");
                }
            });
        }
    });
    let bytes = read(&*opened, Extent::new(512, 8));
    assert_eq!(
        u64::from_le_bytes(bytes.try_into().expect("8 bytes")),
        THREADS * CHANGES
    );
    drop(opened);
    scratch.destroy();
}

/// A writer stores the same number in both volumes, first in `a`. A snapshot of both has numbers that differ by one at
/// most, and the older one in `b`.
#[test]
#[ignore = "needs a cluster: python3 -m proof.ceph"]
fn snapshots_of_two_volumes_under_writes_are_of_one_point_in_time() {
    let mut scratch = Scratch::new("together", "rbd");
    let names = ["tank/a", "tank/b"].map(|name| scratch.create(name, SIZE));
    let opened = names.each_ref().map(|name| {
        scratch
            .pool()
            .open_volume(name, Default::default())
            .expect("open")
    });
    let (is_over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1_u64.. {
                for device in &opened {
                    device
                        .write(0, &number.to_le_bytes(), WaitMode::MayBlock)
                        .expect("written");
                }
                count.store(number, Ordering::Release);
                if is_over.load(Ordering::Acquire) {
                    return;
                }
            }
        });
        for round in 0..5 {
            let before = count.load(Ordering::Acquire);
            wait_until("the writer continues", || {
                count.load(Ordering::Acquire) > before
            });
            let both = names
                .each_ref()
                .map(|name| snapshot(&format!("{name}@{round}")));
            scratch.pool().snapshot(&both).expect("snapshots");
            let numbers = both.each_ref().map(|name| {
                let then = scratch
                    .pool()
                    .open_snapshot(name, Default::default())
                    .expect("open");
                u64::from_le_bytes(read(&*then, Extent::new(0, 8)).try_into().expect("8 bytes"))
            });
            assert!(numbers[0] - numbers[1] <= 1, "{numbers:?}");
            assert!(
                numbers[1] >= before,
                "completed writes are in a snapshot: {numbers:?}, {before}"
            );
        }
        is_over.store(true, Ordering::Release);
    });
    drop(opened);
    scratch.destroy();
}

#[test]
#[ignore = "needs a cluster: python3 -m proof.ceph"]
fn rollback_of_an_open_volume_swaps_its_image_and_leaves_no_image_behind() {
    let mut scratch = Scratch::new("swap", "rbd");
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
    fill(&*opened, SIZE, 2);
    opened.resize(2 * SIZE).expect("resized");
    let paused = opened.pause(Duration::from_secs(10)).expect("paused");
    let started = Instant::now();
    paused.rollback(&snapshot("tank/v@1")).expect("rolled back");
    let rolled_back = started.elapsed();
    assert_eq!(paused.size(), SIZE);
    drop(paused);
    assert_eq!(only_byte(&*opened, SIZE), 1);
    fill(&*opened, SIZE, 3);
    assert_eq!(
        scratch.images().len(),
        2,
        "the snapshot's image, and the clone"
    );
    // A second rollback to the same snapshot discards the first clone.
    let paused = opened.pause(Duration::from_secs(10)).expect("paused");
    paused.rollback(&snapshot("tank/v@1")).expect("rolled back");
    drop(paused);
    assert_eq!(only_byte(&*opened, SIZE), 1);
    scratch.wait_until_collected(2);
    // Without the snapshot the clone is flattened.
    scratch
        .pool()
        .destroy_snapshots(&[snapshot("tank/v@1")])
        .expect("destroyed");
    scratch.wait_until_collected(1);
    assert_eq!(only_byte(&*opened, SIZE), 1);
    opened.close();
    scratch
        .pool()
        .destroy_dataset(&name, Depth::Recursive)
        .expect("destroyed");
    scratch.wait_until_collected(0);
    scratch.destroy();
    print(&format!(
        "rollback of {} MiB by clone and swap: {rolled_back:?}",
        SIZE / MIB
    ));
}

#[test]
#[ignore = "needs a cluster: python3 -m proof.ceph"]
fn unmapped_range_is_a_hole_and_changes_between_snapshots_are_visited() {
    let mut scratch = Scratch::new("holes", "rbd");
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
    opened
        .unmap(Extent::new(4 * MIB, 4 * MIB), WaitMode::MayBlock)
        .expect("unmapped");
    opened
        .write(MIB, &[2; 4096], WaitMode::MayBlock)
        .expect("written");
    let runs = opened.status(Extent::new(0, SIZE), 10).expect("status");
    let shown: Vec<_> = runs.iter().map(|run| (run.length, run.allocated)).collect();
    assert_eq!(shown, [(4 * MIB, true), (4 * MIB, false)]);
    scratch
        .pool()
        .snapshot(&[snapshot("tank/v@2")])
        .expect("a snapshot");
    let mut changes: Vec<Change> = Vec::new();
    let visited = scratch.pool().changes(
        &snapshot("tank/v@1"),
        &snapshot("tank/v@2"),
        &mut |change| {
            changes.extend(change);
            std::ops::ControlFlow::Continue(())
        },
    );
    visited.expect("compared");
    let covers = |at: u64, freed: bool| {
        changes.iter().any(|one| {
            one.freed == freed
                && one.extent.offset <= at
                && at < one.extent.offset + one.extent.length
        })
    };
    assert!(covers(MIB, false) && covers(6 * MIB, true), "{changes:?}");
    assert!(
        !covers(3 * MIB, false) && !covers(3 * MIB, true),
        "{changes:?}"
    );
    opened.close();
    drop(opened);
    scratch.destroy();
}

/// Requests of a full pool block without an error. The pool `full` has a quota.
#[test]
#[ignore = "needs a cluster: python3 -m proof.ceph"]
fn nearly_full_cluster_refuses_writes_with_no_space_and_never_blocks_them() {
    const VOLUME_BYTES: u64 = 1 << 30;
    const BLOCKED: Duration = Duration::from_secs(20);
    let mut scratch = Scratch::new("full", "full");
    let name = scratch.create("tank/v", VOLUME_BYTES);
    let opened = scratch
        .pool()
        .open_volume(&name, Default::default())
        .expect("open");
    let (mut longest, mut written, block) = (Duration::ZERO, 0, vec![7; MIB as usize]);
    let refused = loop {
        let started = Instant::now();
        let result = opened.write(written, &block, WaitMode::MayBlock);
        longest = longest.max(started.elapsed());
        match result {
            Ok(()) => written += MIB,
            Err(error) => break error.kind,
        }
        assert!(written < VOLUME_BYTES, "never refused");
    };
    assert_eq!(refused, ErrorKind::NoSpace);
    assert!(written >= 64 * MIB, "refused after {written} bytes");
    assert!(longest < BLOCKED, "a write blocked for {longest:?}");
    let health = scratch.pool().health().expect("open");
    assert_eq!(health.suspended, None);
    assert_eq!(read(&*opened, Extent::new(0, 4096)), [7; 4096]);
    // Freed space can be written again, when the cluster's statistics show it.
    opened
        .unmap(Extent::new(0, written), WaitMode::MayBlock)
        .expect("unmapped");
    wait_until("freed space is available", || {
        opened.write(0, &block, WaitMode::MayBlock).is_ok()
    });
    opened.close();
    drop(opened);
    scratch.destroy();
    print(&format!(
        "NoSpace after {} MiB of a quota of 256 MiB, longest write {longest:?}",
        written / MIB
    ));
}

#[test]
#[ignore = "needs a cluster: python3 -m proof.ceph"]
fn second_owner_without_proof_or_with_an_old_candidate_is_refused() {
    let mut scratch = Scratch::new("owners", "rbd");
    scratch.create("tank/v", SIZE);
    let found = scratch.candidate();
    assert!(SafeToOwn::exported(&found).is_none(), "it is open");
    let here = scratch.engine.same_host_and_locked(&found);
    assert!(here.is_err(), "this process has it open");
    // Another process of this host.
    let same_host = support::engine(1, scratch.locks.path(), None);
    assert!(
        same_host.same_host_and_locked(&found).is_err(),
        "the lock is held"
    );
    let other_host = support::engine(2, scratch.locks.path(), None);
    assert!(
        other_host.same_host_and_locked(&found).is_err(),
        "of another host"
    );
    scratch.export();
    let exported = scratch.candidate();
    let first = SafeToOwn::exported(&exported).expect("exported");
    let (second, options) = (
        SafeToOwn::exported(&exported).expect("exported"),
        Default::default(),
    );
    let dir = tempfile::tempdir().expect("a directory");
    let third_host = support::engine(3, dir.path(), None);
    let pool = third_host
        .import(&exported, first, &options)
        .expect("imported");
    let late = scratch.engine.import(&exported, second, &options);
    let kind = late.err().map(|error| error.kind);
    assert_eq!(
        kind,
        Some(engine::pool::PoolErrorKind::Changed),
        "the other host was faster"
    );
    assert!(pool.dataset((&volume("tank/v")).into()).is_ok());
    pool.destroy()
        .map_err(|(_, error)| error)
        .expect("destroyed");
}

fn print(text: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "{text}").expect("printed");
}
