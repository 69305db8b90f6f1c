//! The guarantees of a volume apart from its bytes: whole calls, full pools, sizes, loans that
//! outlive their caller's interest, and the operations on its dataset.

mod volume_support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use block_device::{BlockDevice, Commit, ErrorKind, Extent, WaitMode, Zero};
use engine::Volume as _;
use engine::capabilities::{
    Datasets, FileSystems, Ownership, Promotion, Properties, Sending, Snapshotting,
};
use engine::dataset::{
    DatasetErrorKind, DatasetKind, Depth, PropertySource, Snapshots, Value, VolumeSpec,
};
use engine::volume::OpenOptions;
use units::{ByteCount, SnapshotName, VolumeName};
use volume_support::{Scratch, read, volume_name};
use zpool::{Pool, Volume};

const MIB: u64 = 1 << 20;
const LONG: Duration = Duration::from_secs(60);

#[test]
fn volume_passes_all_behaviour_checks() {
    let scratch = Scratch::new(768 << 20);
    scratch.pool.complete_root().expect("complete");
    scratch.pool.complete_root().expect("complete again");
    overlapping_writes_are_whole(&scratch);
    read_loan_keeps_its_contents_and_range(&scratch);
    close_waits_for_loans_then_calls_fail(&scratch);
    blocked_change_with_ended_permit_has_no_effect(&scratch);
    clean_flush_sends_no_request(&scratch);
    sync_always_is_durable_without_a_flush(&scratch);
    status_includes_unsynced_data_and_frees(&scratch);
    sizes_change_while_in_use(&scratch);
    snapshots_clones_and_names(&scratch);
    properties_are_checked_and_survive(&scratch);
    user_properties_of_many_volumes_are_read_at_once(&scratch);
    user_properties_change_together_or_not_at_all(&scratch);
    full_pool_refuses_writes_and_recovers(&scratch);
    scratch.export_and_judge();
}

fn written(device: &Volume, offset: u64, data: &[u8]) {
    device
        .write(offset, data, WaitMode::MayBlock)
        .expect("write");
}

fn overlapping_writes_are_whole(scratch: &Scratch) {
    const LENGTH: usize = 96 << 10;
    let volume = scratch.volume("tank/overlap", 4 * MIB, 16 << 10);
    let done = AtomicBool::new(false);
    // Unaligned on purpose: both boundary blocks are shared with other bytes.
    let extent = Extent::new(5 * 512, LENGTH as u64);
    written(&volume, extent.offset, &[0; LENGTH]);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (1..=3_u8)
            .map(|fill| {
                let volume = &volume;
                scope.spawn(move || {
                    for _ in 0..150 {
                        written(volume, extent.offset, &[fill; LENGTH]);
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !done.load(Ordering::Acquire) || reads == 0 {
                let bytes = read(&volume, extent);
                let first = bytes[0];
                assert!(
                    bytes.iter().all(|byte| *byte == first),
                    "a write was seen by half"
                );
                reads += 1;
            }
        });
        for writer in writers {
            writer.join().expect("writer");
        }
        done.store(true, Ordering::Release);
        reader.join().expect("reader");
    });
}

fn read_loan_keeps_its_contents_and_range(scratch: &Scratch) {
    let volume = scratch.volume("tank/loan", 4 * MIB, 16 << 10);
    written(&volume, 0, &[1; 32 << 10]);
    let loan = volume
        .read(Extent::new(0, 20 << 10), WaitMode::MayBlock)
        .expect("read");

    // Writers of the same bytes must block, also on the same thread.
    let refused = volume
        .write(4096, &[2; 512], WaitMode::NoWait)
        .expect_err("the range is lent");
    assert_eq!(refused.kind, ErrorKind::WouldBlock);
    // Writers of other bytes of a lent block do not, and do not move the block.
    volume
        .write(20 << 10, &[3; 4096], WaitMode::NoWait)
        .expect("the rest of the block is free");
    scratch.pool.sync().expect("sync");
    written(&volume, 28 << 10, &[4; 512]);
    // Readers share.
    let second = volume
        .read(Extent::new(0, 4096), WaitMode::NoWait)
        .expect("readers share");

    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    assert!(parts.concat().iter().all(|byte| *byte == 1));
    drop(second);
    std::thread::scope(|scope| {
        // Another thread may return it.
        let writer = scope.spawn(|| written(&volume, 4096, &[2; 512]));
        scope.spawn(move || drop(loan)).join().expect("drop");
        writer.join().expect("the range is free again");
    });
    assert_eq!(read(&volume, Extent::new(4096, 512)), [2; 512]);
}

fn close_waits_for_loans_then_calls_fail(scratch: &Scratch) {
    let volume = scratch.volume("tank/close", 4 * MIB, 16 << 10);
    written(&volume, 0, &[7; 4096]);
    let read_loan = volume
        .read(Extent::new(0, 4096), WaitMode::MayBlock)
        .expect("read");
    let write_loan = volume.lend(Extent::new(MIB, 4096)).expect("lend");
    std::thread::scope(|scope| {
        let closer = scope.spawn(|| volume.close());
        let deadline = Instant::now() + Duration::from_secs(30);
        while volume.read(Extent::new(0, 512), WaitMode::NoWait).is_ok() {
            assert!(Instant::now() < deadline, "closing never began");
            std::thread::yield_now();
        }
        assert!(!closer.is_finished(), "two loans are out");
        drop(read_loan);
        // A loan that existed when closing began may still be committed.
        assert!(matches!(
            write_loan.commit(WaitMode::MayBlock),
            Commit::Done
        ));
        closer.join().expect("close");
    });
    let gone = volume.flush().expect_err("closed");
    assert_eq!(gone.kind, ErrorKind::Gone);
    volume.close();
    let again = scratch.open(&volume_name("tank/close"));
    assert_eq!(read(&again, Extent::new(0, 4096)), [7; 4096]);
}

/// A reader holds the range. The requester of the change is gone before it can proceed.
fn blocked_change_with_ended_permit_has_no_effect(scratch: &Scratch) {
    let volume = scratch.volume("tank/permit", 4 * MIB, 16 << 10);
    let extent = Extent::new(0, 64 << 10);
    let old = vec![1; 64 << 10];
    written(&volume, 0, &old);
    type Change = fn(&Volume, Extent, WaitMode<'_>) -> Result<(), ErrorKind>;
    let changes: [Change; 4] = [
        |volume, extent, wait_mode| {
            let data = vec![2; extent.length as usize];
            volume
                .write(extent.offset, &data, wait_mode)
                .map_err(|e| e.kind)
        },
        |volume, extent, wait_mode| match volume.lend(extent).expect("lend").commit(wait_mode) {
            Commit::Done => Ok(()),
            Commit::WouldBlock(_) => Err(ErrorKind::WouldBlock),
            Commit::Failed(error) => Err(error.kind),
        },
        |volume, extent, wait_mode| volume.unmap(extent, wait_mode).map_err(|e| e.kind),
        |volume, extent, wait_mode| {
            let zeroes = volume.write_zeroes(extent, Zero::KeepAllocated, wait_mode);
            zeroes.map_err(|e| e.kind)
        },
    ];
    for change in changes {
        let (stands, asked) = (AtomicBool::new(true), AtomicBool::new(false));
        let permit = || {
            asked.store(true, Ordering::Release);
            stands.load(Ordering::Acquire)
        };
        let loan = volume.read(extent, WaitMode::NoWait).expect("cached");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| change(&volume, extent, WaitMode::Permitted(&permit)));
            stands.store(false, Ordering::Release);
            assert!(!asked.load(Ordering::Acquire), "the range is not free yet");
            drop(loan);
            assert_eq!(waiting.join().expect("join"), Err(ErrorKind::Gone));
        });
        assert!(asked.load(Ordering::Acquire));
        assert!(read(&volume, extent) == old);
        stands.store(true, Ordering::Release);
        assert_eq!(
            change(&volume, extent, WaitMode::Permitted(&permit)),
            Ok(())
        );
        assert!(read(&volume, extent) != old);
        written(&volume, 0, &old);
    }
}

fn clean_flush_sends_no_request(scratch: &Scratch) {
    let volume = scratch.volume("tank/flush", 4 * MIB, 16 << 10);
    assert!(volume.is_clean());
    written(&volume, 0, &[1; 4096]);
    assert!(!volume.is_clean());
    volume.flush().expect("flush");
    assert!(volume.is_clean());
    // A real one needs tens of microseconds at least. The host may be stopped during a round.
    let rounds = (0..10).map(|_| {
        let start = Instant::now();
        for _ in 0..10_000 {
            volume.flush().expect("flush");
        }
        start.elapsed()
    });
    let best = rounds.min().expect("rounds");
    assert!(best < Duration::from_millis(100), "{best:?}");
}

fn sync_always_is_durable_without_a_flush(scratch: &Scratch) {
    let volume = scratch.volume("tank/always", 4 * MIB, 16 << 10);
    let name = volume_name("tank/always");
    let set = |value: &str| {
        let properties = [("sync".to_owned(), Value::from(value))];
        scratch
            .pool
            .set_dataset_properties((&name).into(), &properties)
            .expect("set");
    };
    written(&volume, 0, &[1; 4096]);
    set("always");
    let waits = volume
        .write(0, &[2; 4096], WaitMode::NoWait)
        .expect_err("it has to wait");
    assert_eq!(waits.kind, ErrorKind::WouldBlock);
    written(&volume, 0, &[2; 4096]);
    set("disabled");
    written(&volume, 0, &[3; 4096]);
    volume.flush().expect("flush");
    set("standard");
    assert_eq!(read(&volume, Extent::new(0, 4096)), [3; 4096]);
}

fn status_includes_unsynced_data_and_frees(scratch: &Scratch) {
    let volume = scratch.volume("tank/status", 8 * MIB, 16 << 10);
    let states = |volume: &Volume| -> Vec<(u64, bool)> {
        let runs = volume.status(Extent::new(0, 8 * MIB), 100).expect("status");
        runs.iter().map(|run| (run.length, run.allocated)).collect()
    };
    assert_eq!(states(&volume), [(8 * MIB, false)]);
    written(&volume, MIB, &vec![1; MIB as usize]);
    assert_eq!(
        states(&volume),
        [(MIB, false), (MIB, true), (6 * MIB, false)]
    );
    volume
        .unmap(Extent::new(MIB, MIB / 2), WaitMode::MayBlock)
        .expect("unmap");
    assert_eq!(
        states(&volume),
        [(MIB + MIB / 2, false), (MIB / 2, true), (6 * MIB, false)]
    );
    let first = volume.status(Extent::new(0, 8 * MIB), 1).expect("status");
    assert_eq!(first.len(), 1);
    volume
        .write_zeroes(Extent::new(0, 8 * MIB), Zero::MayFree, WaitMode::MayBlock)
        .expect("zero");
    assert_eq!(states(&volume), [(8 * MIB, false)]);
}

fn sizes_change_while_in_use(scratch: &Scratch) {
    let name = volume_name("tank/size");
    let mut spec = VolumeSpec::sparse(name.clone(), ByteCount::mib(4));
    spec.sparse = false;
    scratch.pool.create_volume(&spec).expect("create");
    let before = scratch.pool.dataset((&name).into()).expect("look");
    assert!(before.refreservation > ByteCount::mib(4));
    let volume = scratch.open(&name);
    written(&volume, 4 * MIB - 4096, &[9; 4096]);
    let grown = ByteCount::mib(8);
    scratch
        .pool
        .adjust_reservation(&before, grown)
        .expect("reserve");
    volume.resize(8 * MIB).expect("grow");
    assert_eq!(volume.geometry().size, 8 * MIB);
    let after = scratch.pool.dataset((&name).into()).expect("look");
    assert!(after.refreservation > ByteCount::mib(8));
    assert_eq!(after.volume.expect("a volume").size, ByteCount::mib(8));
    written(&volume, 8 * MIB - 4096, &[8; 4096]);
    volume.resize(2 * MIB).expect("shrink");
    let outside = volume
        .write(2 * MIB, &[1; 512], WaitMode::MayBlock)
        .expect_err("cut off");
    assert_eq!(outside.kind, ErrorKind::OutOfRange);
    volume.resize(4 * MIB).expect("grow again");
    assert_eq!(read(&volume, Extent::new(4 * MIB - 4096, 4096)), [0; 4096]);
    let odd = volume.resize(4 * MIB + 512).expect_err("not whole blocks");
    assert!(matches!(odd.kind, DatasetErrorKind::SizeNotMultiple { .. }));
    drop(volume);
    scratch
        .pool
        .resize_volume(&name, ByteCount::mib(6))
        .expect("grow unopened");
    assert_eq!(scratch.open(&name).geometry().size, 6 * MIB);
}

fn snapshots_clones_and_names(scratch: &Scratch) {
    let pool = &scratch.pool;
    let snapshot = |text: &str| -> SnapshotName { text.parse().expect("a snapshot name") };
    let volume = scratch.volume("tank/origin", 4 * MIB, 16 << 10);
    written(&volume, 0, &[1; 4096]);
    let twice = [snapshot("tank/origin@one"), snapshot("tank/origin@two")];
    let refused = pool
        .snapshot(&twice)
        .expect_err("two of one transaction group");
    assert_eq!(refused.kind, DatasetErrorKind::SnapshotTwice);
    pool.snapshot(&[snapshot("tank/origin@one"), snapshot("tank/loan@one")])
        .expect("two at once");
    written(&volume, 0, &[2; 4096]);

    let old = pool
        .open_snapshot(&snapshot("tank/origin@one"), OpenOptions::default())
        .expect("open the snapshot");
    assert_eq!(read(&old, Extent::new(0, 4096)), [1; 4096]);
    let refused = old
        .write(0, &[3; 512], WaitMode::MayBlock)
        .expect_err("read-only");
    assert_eq!(refused.kind, ErrorKind::ReadOnly);
    drop(old);

    let clone = volume_name("tank/clone");
    pool.clone_snapshot(&snapshot("tank/origin@one"), &clone, &[])
        .expect("clone");
    let info = pool.dataset((&clone).into()).expect("look");
    assert_eq!(info.origin.as_deref(), Some("tank/origin@one"));
    let open = scratch.open(&clone);
    assert_eq!(read(&open, Extent::new(0, 4096)), [1; 4096]);
    written(&open, 0, &[4; 4096]);

    let origin = volume_name("tank/origin");
    let busy = pool
        .destroy_dataset(&origin, Depth::One)
        .expect_err("it has a snapshot");
    assert!(matches!(busy.kind, DatasetErrorKind::HasDependents { .. }));
    let cloned = pool
        .destroy_snapshots(&[snapshot("tank/origin@one")])
        .expect_err("it has a clone");
    assert!(matches!(cloned.kind, DatasetErrorKind::HasClones));
    promotes_without_taking_bookmarks_twice(pool, &clone);
    // Renamed while open: I/O continues.
    let renamed = volume_name("tank/renamed");
    pool.rename(&origin, &renamed).expect("rename");
    assert_eq!(read(&volume, Extent::new(0, 4096)), [2; 4096]);
    let open_still = pool
        .destroy_dataset(&renamed, Depth::One)
        .expect_err("it is open");
    assert_eq!(open_still.kind, DatasetErrorKind::Busy);
    volume.close();
    pool.destroy_dataset(&renamed, Depth::One).expect("destroy");

    pool.rename_snapshot(&snapshot("tank/clone@one"), "two")
        .expect("rename a snapshot");
    let mut loan = open.lend(Extent::new(8192, 4096)).expect("lent");
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    parts.iter_mut().for_each(|part| part.fill(9));
    let paused = open.pause(LONG).expect("nobody reads");
    let refused = open.lend(Extent::new(0, 4096)).err().map(|e| e.kind);
    assert_eq!(refused, Some(ErrorKind::WouldBlock));
    paused
        .rollback(&snapshot("tank/clone@two"))
        .expect("roll back while open");
    let Commit::WouldBlock(loan) = loan.commit(WaitMode::NoWait) else {
        panic!("the volume is paused");
    };
    drop(paused);
    assert_eq!(read(&open, Extent::new(0, 4096)), [1; 4096]);
    assert!(matches!(loan.commit(WaitMode::MayBlock), Commit::Done));
    assert_eq!(read(&open, Extent::new(8192, 4096)), [9; 4096]);
    let held = open.read(Extent::new(0, 4096), WaitMode::MayBlock);
    let in_use = open.pause(Duration::from_millis(1)).err();
    assert_eq!(in_use.map(|e| e.kind), Some(DatasetErrorKind::Busy));
    drop(held);
    written(&open, 4096, &[5; 4096]);
    open.flush().expect("flush");
    open.close();
    pool.rollback(&snapshot("tank/clone@two"))
        .expect("roll back");
    assert_eq!(
        read(&scratch.open(&clone), Extent::new(4096, 4096)),
        [0; 4096]
    );
    let listed = pool
        .datasets((&clone).into(), Snapshots::Include)
        .expect("list");
    let names: Vec<&str> = listed.iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["tank/clone", "tank/clone@two"]);
    pool.destroy_dataset(&clone, Depth::Recursive)
        .expect("destroy all");
    let missing = pool.dataset((&clone).into()).expect_err("gone");
    assert_eq!(missing.kind, DatasetErrorKind::NotFound);
}

/// Promoting moves the bookmarks of the origin, too.
fn promotes_without_taking_bookmarks_twice(pool: &Pool, clone: &VolumeName) {
    let [one, own] = ["tank/origin@one", "tank/clone@own"]
        .map(|name| name.parse::<SnapshotName>().expect("a snapshot name"));
    pool.snapshot(std::slice::from_ref(&own)).expect("snapshot");
    pool.create_bookmark(&one, "mark").expect("bookmark");
    pool.create_bookmark(&own, "mark").expect("bookmark");
    let conflict = pool.promote(clone).expect_err("both have it");
    assert!(
        conflict.to_string().contains("both have a bookmark mark"),
        "{conflict}"
    );
    let marks = pool.bookmarks(clone).expect("list");
    pool.destroy_bookmark(&marks[0]).expect("destroy");
    pool.destroy_snapshots(&[own]).expect("destroy");
    pool.promote(clone).expect("promote");
    let marks = pool.bookmarks(clone).expect("list");
    assert_eq!(marks.len(), 1);
    assert_eq!(marks[0].tag(), "mark");
}

fn properties_are_checked_and_survive(scratch: &Scratch) {
    let pool = &scratch.pool;
    let name = volume_name("tank/below/deep/props");
    let orphan = VolumeSpec::sparse(name.clone(), ByteCount::mib(4));
    let error = pool.create_volume(&orphan).expect_err("no parent");
    assert_eq!(error.kind, DatasetErrorKind::ParentMissing);
    pool.create_parents(&name).expect("parents");
    pool.create_parents(&name).expect("again");
    let mut spec = orphan;
    spec.properties = vec![
        ("compression".to_owned(), "zstd-3".into()),
        ("checksum".to_owned(), "blake3".into()),
        (
            "bulkhead:target".to_owned(),
            "iqn.2026-01.org.example:a".into(),
        ),
    ];
    pool.create_volume(&spec).expect("create");
    let nested = VolumeSpec::sparse(volume_name("tank/below/deep/props/x"), ByteCount::mib(4));
    let error = pool
        .create_volume(&nested)
        .expect_err("volumes have no children");
    assert_eq!(error.kind, DatasetErrorKind::ParentUnsuitable);

    let found = pool.dataset_properties((&name).into()).expect("read");
    assert_eq!(found["compression"].value, Value::from("zstd-3"));
    assert_eq!(found["compression"].source, PropertySource::Local);
    assert_eq!(found["volblocksize"].value, Value::Number(16 << 10));
    assert_eq!(
        found["bulkhead:target"].value,
        Value::from("iqn.2026-01.org.example:a")
    );
    for (property, value) in [
        ("compression", Value::from("zip")),
        ("nonsense", Value::from("x")),
        ("used", Value::Number(1)),
        ("volblocksize", Value::Number(4096)),
    ] {
        let error = pool
            .set_dataset_properties((&name).into(), &[(property.to_owned(), value)])
            .expect_err(property);
        assert!(
            matches!(error.kind, DatasetErrorKind::Property { .. }),
            "{error}"
        );
    }
    spec.name = volume_name("tank/below/bad");
    spec.properties
        .push(("compression".to_owned(), "zip".into()));
    pool.create_volume(&spec).expect_err("a bad property");
    assert!(
        pool.dataset((&spec.name).into()).is_err(),
        "nothing is left of it"
    );

    pool.inherit_property((&name).into(), "bulkhead:target")
        .expect("remove");
    pool.inherit_property((&name).into(), "bulkhead:target")
        .expect("remove again");
    assert!(
        !pool
            .dataset_properties((&name).into())
            .expect("read")
            .contains_key("bulkhead:target")
    );
    let parent = pool
        .dataset((&volume_name("tank/below")).into())
        .expect("look");
    assert_eq!(parent.kind, DatasetKind::Filesystem);
    let volume = scratch.open(&name);
    written(&volume, 0, &vec![6; MIB as usize]);
    let not_volume = pool
        .open_volume(&volume_name("tank/below"), OpenOptions::default())
        .expect_err("a file system");
    assert_eq!(not_volume.kind, DatasetErrorKind::NotAVolume);
}

fn user_properties_of_many_volumes_are_read_at_once(scratch: &Scratch) {
    const COUNT: usize = 100;
    let pool = &scratch.pool;
    for n in 0..COUNT {
        let mut spec =
            VolumeSpec::sparse(volume_name(&format!("tank/below/v{n}")), ByteCount::mib(1));
        spec.properties = vec![
            ("bulkhead:lun".to_owned(), n.to_string().as_str().into()),
            ("other:note".to_owned(), "not ours".into()),
        ];
        pool.create_volume(&spec).expect("create");
    }
    pool.set_dataset_properties(
        pool.name().into(),
        &[("bulkhead:pool".to_owned(), "yes".into())],
    )
    .expect("set on the pool");
    let found = pool.user_properties("bulkhead:").expect("read");
    assert_eq!(found.len(), COUNT + 1);
    assert_eq!(found["tank"]["bulkhead:pool"], "yes");
    assert_eq!(found["tank/below/v77"]["bulkhead:lun"], "77");
    assert_eq!(found["tank/below/v77"].len(), 1);
}

fn user_properties_change_together_or_not_at_all(scratch: &Scratch) {
    const ONE: &str = "bulkhead:one";
    const TWO: &str = "bulkhead:two";
    let pool = &scratch.pool;
    let names = ["tank/together-a", "tank/together-b"].map(volume_name);
    for name in &names {
        let spec = VolumeSpec::sparse(name.clone(), ByteCount::mib(4));
        pool.create_volume(&spec).expect("create");
    }
    let own = |name| pool.own_user_properties(name, "bulkhead:").expect("read");
    let set = |property: &str, value: &str| (property.to_owned(), Some(value.to_owned()));
    let remove = |property: &str| (property.to_owned(), None);
    let edit = |edits: [Vec<(String, Option<String>)>; 2]| {
        pool.edit_user_properties(names.iter().map(Into::into).zip(edits).collect())
    };

    edit([vec![set(ONE, "1"), remove(TWO)], vec![set(TWO, "2")]]).expect("set");
    assert_eq!(own((&names[0]).into())[ONE], "1");
    assert_eq!(own((&names[1]).into())[TWO], "2");

    for bad in [
        set("compression", "lz4"),
        set("no-colon", "x"),
        remove("used"),
    ] {
        let error = edit([vec![set(ONE, "other")], vec![bad]]).expect_err("no user property");
        assert!(
            matches!(error.kind, DatasetErrorKind::Property { .. }),
            "{error}"
        );
    }
    let missing = volume_name("tank/together-missing");
    let both = [(&names[0]).into(), (&missing).into()];
    pool.edit_user_properties(
        both.into_iter()
            .zip([vec![set(ONE, "other")], vec![]])
            .collect(),
    )
    .expect_err("one is missing");
    assert_eq!(
        own((&names[0]).into())[ONE],
        "1",
        "nothing of a refused change is done"
    );

    edit([vec![remove(ONE)], vec![set(ONE, "3"), remove(TWO)]]).expect("change");
    assert!(own((&names[0]).into()).is_empty());
    assert_eq!(
        own((&names[1]).into()).into_iter().collect::<Vec<_>>(),
        [(ONE.into(), "3".into())]
    );
}

fn full_pool_refuses_writes_and_recovers(scratch: &Scratch) {
    let volume = scratch.volume("tank/full", 2048 * MIB, 128 << 10);
    let name = volume_name("tank/full");
    let off = [("compression".to_owned(), Value::from("off"))];
    scratch
        .pool
        .set_dataset_properties((&name).into(), &off)
        .expect("set");
    let mut random = fastrand::Rng::with_seed(1);
    let data: Vec<u8> = (0..MIB).map(|_| random.u8(..)).collect();
    let mut stored = 0;
    let refused = loop {
        match volume.write(stored * MIB, &data, WaitMode::MayBlock) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 2048, "the pool is smaller than that");
    };
    assert_eq!(refused.kind, ErrorKind::NoSpace, "{refused}");
    let refused_extent = Extent::new(stored * MIB, MIB);
    assert!(read(&volume, refused_extent).iter().all(|byte| *byte == 0));
    // Existing data stays readable and can be freed, and there is room again.
    assert_eq!(read(&volume, Extent::new((stored - 1) * MIB, MIB)), data);
    volume.flush().expect("flush");
    volume
        .unmap(Extent::new(0, stored * MIB / 2), WaitMode::MayBlock)
        .expect("a full pool can free");
    // Space is available some transaction groups after it was freed.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        scratch.pool.sync().expect("sync");
        match volume.write(0, &data, WaitMode::MayBlock) {
            Ok(()) => break,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
    assert_eq!(read(&volume, Extent::new(0, MIB)), data);
}
